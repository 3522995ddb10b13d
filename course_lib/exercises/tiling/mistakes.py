"""Mistakes with tiles, and how results reveal them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as combinations
from typing import Any

import torch

from course_lib.criteria import GradedTrial, of_group
from course_lib.exercise import Trial
from course_lib.exercises.misconceptions import multiplied_in_tf32
from course_lib.exercises.tiling.oracles import product
from course_lib.mistakes import as_tf32, every


def _is(output: Any, guess: torch.Tensor) -> bool:
    same = isinstance(output, torch.Tensor) and output.shape == guess.shape
    return same and torch.allclose(output.double(), guess, rtol=1e-4, atol=1e-4)


def _of_the_last_tile(output: Any, a: torch.Tensor, b: torch.Tensor, bk: int, **_: int) -> bool:
    last = (a.shape[1] - 1) // bk * bk
    return _is(output, product(a[:, last:], b[last:]))


def _of_whole_tiles(output: Any, a: torch.Tensor, b: torch.Tensor, bm: int, bn: int, bk: int) -> bool:
    """Whether what tiles at edges would add is missing, in one direction or several, or there are none."""
    (M, K), N = a.shape, b.shape[1]
    for m, n, k in combinations((M, M // bm * bm), (N, N // bn * bn), (K, K // bk * bk)):
        guess = torch.zeros(M, N, dtype=torch.float64)
        guess[:m, :n] = product(a[:m, :k], b[:k, :n])
        if _is(output, guess):
            return True
    return False


last_tile_alone = every(
    _of_the_last_tile,
    "This is the product of the last tiles along K alone. Does each piece replace the sum so far (`=`), "
    "where it should be added (`+=`)?",
)


def whole_tiles_alone(trials: Sequence[GradedTrial]) -> str:
    """Say so if what the partial tiles at the edges add is missing where there are some."""
    ragged = [t for t in of_group(trials, "ragged") if t.difference]
    sentence = (
        "The tiles at the edges are missing, because M // bm rounds down. Go in steps, range(0, M, bm), or round up."
    )
    return every(_of_whole_tiles, sentence)(ragged)


looks_like_tf32 = multiplied_in_tf32(lambda a, b, **_: [product(as_tf32(a), as_tf32(b))], product)


def small_tiles(trials: Sequence[Trial]) -> str:
    """Say so if a is read more than twice as often as tiles of 64 would read it."""
    for trial in of_group(trials, "performance"):
        N = trial.inputs[-1]["b"].shape[-1]
        for launch in trial.evidence.launches:
            for f in launch.footprints:
                if f.tensor == "a" and f.read_bytes > 2 * (N / 64) * max(1, f.read_distinct_bytes):
                    return "Each tile of c reads its rows of a and its columns of b once. With fewer and larger tiles, less is read."
    return ""
