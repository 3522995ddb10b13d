"""A text to train on: sums such as 7+5=12, one a line. It is made here, as long as you like, and its right continuations are known.

write_tokens("sums.bin", 20_000)        the tokens of so many sums on disk, two bytes each
best_loss()                             the mean loss that nobody can beat: the digits before = are chance, those behind are not
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

VOCABULARY = "\n+0123456789="
_NUMBER = {character: number for number, character in enumerate(VOCABULARY)}


def sums(count: int, seed: int = 0) -> str:
    """Generate `count` lines a+b=c, a and b drawn from 0 to 9."""
    drawn = np.random.default_rng(seed).integers(0, 10, (count, 2))
    return "".join(f"{a}+{b}={a + b}\n" for a, b in drawn)


def encode(text: str) -> np.ndarray:
    """Convert a text to tokens, uint16: each character's place in VOCABULARY. Raises KeyError for a character that is not there."""
    return np.array([_NUMBER[character] for character in text], np.uint16)


def write_tokens(path: str | Path, count: int = 20_000, seed: int = 0) -> Path:
    """Write the tokens of `count` sums to a file, two bytes each, and return its path."""
    encode(sums(count, seed)).tofile(path)
    return Path(path)


def best_loss() -> float:
    """Return the lowest possible mean loss of a character, in nats: two digits are random in each line, and nothing else is."""
    lines = [f"{a}+{b}={a + b}\n" for a in range(10) for b in range(10)]
    return 2 * math.log(10) * len(lines) / sum(map(len, lines))
