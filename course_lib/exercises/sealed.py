"""Explanations that open with the right answer alone, so that nobody reads one by accident; whoever wants to can try all answers."""

from __future__ import annotations

import hashlib
import itertools
import zlib
from base64 import b85decode, b85encode


def keystream(salt: str, answer: object, length: int) -> bytes:
    """Bytes that depend on the question and the answer: SHA-256 of both, as often as needed."""
    blocks = (hashlib.sha256(f"{salt}/{answer}/{i}".encode()).digest() for i in itertools.count())
    return bytes(itertools.islice(itertools.chain.from_iterable(blocks), length))


def sealed(salt: str, answer: object, text: str) -> str:
    """The text, to be opened with the same question and answer."""
    packed = zlib.compress(text.encode(), 9)
    return b85encode(bytes(a ^ b for a, b in zip(packed, keystream(salt, answer, len(packed)), strict=True))).decode()


def opened(text: str, salt: str, answer: object) -> str | None:
    """The explanation if `answer` is right, else None: what a wrong one opens is no zlib stream."""
    packed = b85decode(text)
    try:
        return zlib.decompress(
            bytes(a ^ b for a, b in zip(packed, keystream(salt, answer, len(packed)), strict=True))
        ).decode()
    except (zlib.error, UnicodeDecodeError):
        return None
