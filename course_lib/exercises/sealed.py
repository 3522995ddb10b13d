"""Explanations that open with the right answer alone, so that nobody reads one by accident; whoever wants to can try all answers."""

from __future__ import annotations

import hashlib
import itertools
import zlib
from base64 import b85decode, b85encode


def keystream(salt: str, answer: object, length: int) -> bytes:
    """Return `length` bytes that depend on the question and the answer: SHA-256 of both, as often as needed."""
    blocks = (hashlib.sha256(f"{salt}/{answer}/{i}".encode()).digest() for i in itertools.count())
    return bytes(itertools.islice(itertools.chain.from_iterable(blocks), length))


def sealed(salt: str, answer: object, text: str) -> str:
    """Encrypt a text with a question and its answer; `opened` decrypts it."""
    packed = zlib.compress(text.encode(), 9)
    return b85encode(bytes(a ^ b for a, b in zip(packed, keystream(salt, answer, len(packed)), strict=True))).decode()


def opened(text: str, salt: str, answer: object) -> str | None:
    """Decrypt a text that `sealed` encrypted; None if `answer` is wrong, since the result is no zlib stream then."""
    packed = b85decode(text)
    try:
        return zlib.decompress(
            bytes(a ^ b for a, b in zip(packed, keystream(salt, answer, len(packed)), strict=True))
        ).decode()
    except (zlib.error, UnicodeDecodeError):
        return None
