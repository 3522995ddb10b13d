"""Criteria of unit 09: what a forward pass may cost, and what all of its kernels must do."""

from __future__ import annotations

import math
from typing import Any

import torch

from course_lib.criteria import Compiles, Correct, TritonDidTheWork
from course_lib.exercises.attention.oracles import moved_bytes
from course_lib.exercises.flash.oracles import visible

GATES = (TritonDidTheWork(), Correct("plain"), Compiles())


TILE, WIDE = 64, 128  # rows of a query tile at least, and of a key tile at most, that full marks allow


def heads_of(x: torch.Tensor) -> int:
    """Count the heads of x (..., N, D)."""
    return math.prod(x.shape[:-2])


def least_bytes(q, k, v, causal: bool, **_: Any) -> int:
    """Count the bytes that tiles of 64 queries and 128 keys move, as `flash_bytes` of unit 08. Nq = Nk."""
    (n, d), size = q.shape[-2:], q.element_size()
    return heads_of(q) * moved_bytes(n, d, TILE, WIDE, size, causal)


def pairs(nq: int, nk: int, causal: bool, window: int | None = None, side: int = WIDE) -> int:
    """Count the (query, key) pairs in the tiles of side x side that hold a visible one."""
    mask = visible(nq, nk, causal, window, None)
    if side == 1:
        return int(mask.sum())
    tiles = [(i, j) for i in range(0, nq, side) for j in range(0, nk, side)]
    return side * side * sum(bool(mask[i : i + side, j : j + side].any()) for i, j in tiles)


def tiles_flops(q, k, v, causal: bool = True, window: int | None = None, **_: Any) -> int:
    """Count the FLOPs of two products of each visible tile of 128 x 128."""
    return 4 * q.shape[-1] * heads_of(q) * pairs(q.shape[-2], k.shape[-2], causal, window)


def least_flops(q, k, v, causal: bool = True, window: int | None = None, **_: Any) -> int:
    """Count the FLOPs of two products of each query with each key that it sees."""
    return 4 * q.shape[-1] * heads_of(q) * pairs(q.shape[-2], k.shape[-2], causal, window, side=1)


def windows_bytes(q, k, v, window: int) -> int:
    """Count the bytes of q and o once, and for each 64 queries those of the keys and values that they see, with a tile of 128 more."""
    (n, d), size = q.shape[-2:], q.element_size()
    spans = [min(n, i + TILE) - max(0, i - window + 1 - WIDE) for i in range(0, n, TILE)]
    return heads_of(q) * (2 * n * d + 2 * d * sum(spans)) * size
