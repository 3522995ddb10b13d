"""The criteria of unit 08, and the operations of torch that its exercises may use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch

from course_lib.cases import ARITHMETIC, operations
from course_lib.criteria import OnceRight, of_group
from course_lib.exercise import Exercise, Finding, Trial
from course_lib.exercises.attention.oracles import seen

PRODUCTS = operations("mm bmm addmm baddbmm addmm_ baddbmm_ mv dot")
TENSORS = PRODUCTS | ARITHMETIC
TENSORS |= operations(
    "arange cat stack tril triu tril_ triu_ index index_put index_put_ _index_put_impl_ pow logaddexp"
)
ATTENTION = TENSORS | operations(
    "_softmax logsumexp log_softmax _log_softmax sigmoid log1p expm1 exp2_ logaddexp2 permute_copy"
)


@dataclass
class LargestBuffer(OnceRight):
    """No single allocation beside the results has a limit's size, and where nothing is masked they are right: a slip in a mask
    costs nothing here. limit: the arguments -> bytes."""

    limit: Callable[..., float]
    points: float
    title: str
    group: str = "performance"

    def judge(self, exercise: Exercise, trials: Sequence[Trial]) -> Finding:
        found = super().judge(exercise, [t for t in trials if not t.inputs[-1]["causal"]])
        return self.count(of_group(trials, self.group)) if found.passed else found

    def count(self, group: Sequence[Trial]) -> Finding:
        for trial in group:
            largest, limit = trial.evidence.largest_buffer, self.limit(**trial.inputs[-1])
            if largest >= limit:
                expected = f"less than {limit:,.0f} bytes on {trial.case.name}"
                return self.lost(f"a tensor of {largest:,} bytes", expected=expected)
        largest = max(t.evidence.largest_buffer for t in group)
        return self.earned(f"at most {largest:,} bytes at once")


@dataclass
class Products(OnceRight):
    """Two matrix products for each tile of scores that some query of it sees a key of."""

    points: float
    title: str
    group: str = "performance"

    def count(self, group: Sequence[Trial]) -> Finding:
        for trial in group:
            done = sum(name in PRODUCTS for name in trial.evidence.operations)
            visited, tiles = visited_tiles(**trial.inputs[-1])
            allowed = 2 * visited
            if done > allowed:
                given = trial.inputs[-1]
                who = f"{visited} of {tiles} tiles of {given['bm']} x {given['bn']} hold a key that somebody sees"
                return self.lost(f"{done} products", expected=f"{allowed} on {trial.case.name}: {who}")
        return self.earned(f"{done} products, {allowed} allowed")


def visited_tiles(q: torch.Tensor, k: torch.Tensor, causal: bool, bm: int, bn: int, **_: Any) -> tuple[int, int]:
    """(tiles that some query of it sees a key of, all tiles)"""
    nq, nk = q.shape[-2], k.shape[-2]
    mask = seen(nq, nk, causal)
    corners = list(product(range(0, nq, bm), range(0, nk, bn)))
    return sum(bool(mask[i : i + bm, j : j + bn].any()) for i, j in corners), len(corners)
