"""Products of int32 that wrap around on their way to an address: a GPU then loads or stores elsewhere, mostly without a word."""

from __future__ import annotations

import numpy as np

from tritontrace.ttir import ir

# what an address is made of; a remainder or a mask may want what wraps, as hashes do
WAYS = {
    "arith.addi", "arith.subi", "arith.muli", "arith.extsi", "tt.splat", "tt.broadcast", "tt.expand_dims", "tt.trans", "tt.reshape",
}  # fmt: skip
LARGEST = np.iinfo(np.int32).max


def on_the_way(blocks: list[ir.Block]) -> set[str]:
    """Return the names of the values that are added to a pointer, and of those that they are computed from."""
    wanted: set[str] = set()
    for op in reversed(list(ir.walk(blocks))):
        if op.name == "tt.addptr":
            wanted.add(op.operands[1])
        elif op.name in WAYS and any(name in wanted for name, _ in op.results):
            wanted.update(op.operands)
    return wanted


def wraps(a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    """Return for each program (programs or 1,) whether a product of int32 wraps in some lane; None if it does in none."""
    if _most(a) * _most(b) <= LARGEST:
        return None
    wide = a.astype(np.int64) * b
    wrong = (wide > LARGEST) | (wide < -LARGEST - 1)
    return np.any(wrong.reshape(len(wrong), -1), axis=1) if wrong.any() else None


def _most(values: np.ndarray) -> int:
    if values.size == 1:  # mostly: a number of the program
        return abs(values.item())
    return max(int(values.max(initial=0)), -int(values.min(initial=0)))
