"""The criteria of unit 08, and the operations of torch that its exercises may use."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch

from course_lib.criteria import CostCriterion, of_group
from course_lib.exercise import Exercise, Finding, Trial
from course_lib.exercises.attention.oracles import seen
from course_lib.exercises.cases import ARITHMETIC, operations
from tritontrace.results import Operation

PRODUCTS = operations("mm bmm addmm baddbmm addmm_ baddbmm_ mv dot")
TENSORS = PRODUCTS | ARITHMETIC
TENSORS |= operations(
    "arange cat stack tril triu tril_ triu_ index index_put index_put_ _index_put_impl_ pow logaddexp"
)
ATTENTION = TENSORS | operations(
    "_softmax logsumexp log_softmax _log_softmax sigmoid log1p expm1 exp2_ logaddexp2 permute_copy"
)


@dataclass
class LargestBuffer(CostCriterion):
    """No single allocation besides the results reaches a limit. Results must be right only where nothing is masked, because
    a slip in a mask costs nothing here.

    limit: the arguments -> bytes. longest: the arguments -> the longest side that a matrix product may have.
    """

    missed = "buffers that are too large"
    limit: Callable[..., float]
    points: float
    title: str
    group: str = "performance"
    longest: Callable[..., int] | None = None

    def judge(self, exercise: Exercise, trials: Sequence[Trial]) -> Finding:
        found = super().judge(exercise, [t for t in trials if not t.inputs[-1]["causal"]])
        return self.count(of_group(trials, self.group)) if found.passed else found

    def count(self, group: Sequence[Trial]) -> Finding:
        for trial in group:
            largest, limit = trial.evidence.largest_buffer, self.limit(**trial.inputs[-1])
            if largest >= limit:
                expected = f"less than {limit:,.0f} bytes on {trial.case.name}"
                return self.lost(f"a tensor of {largest:,} bytes", expected=expected)
            if self.longest is None:
                continue
            longest = self.longest(**trial.inputs[-1])
            for op in _products(trial):
                if max(op.sides) > longest:
                    M, K, N = op.sides
                    expected = f"no side longer than {longest} on {trial.case.name}"
                    return self.lost(f"a product of {M} x {K} and {K} x {N}", expected=expected)
        largest = max(t.evidence.largest_buffer for t in group)
        return self.earned(f"at most {largest:,} bytes at once")


@dataclass
class Products(CostCriterion):
    """Two of torch's matrix products for each tile of scores in which some query sees a key, and no larger products."""

    missed = "too many products, or too few"
    points: float
    title: str
    group: str = "performance"

    def count(self, group: Sequence[Trial]) -> Finding:
        for trial in group:
            given = trial.inputs[-1]
            done, flops = len(_products(trial)), sum(op.product_flops for op in _products(trial))
            visited, tiles = visited_tiles(**given)
            allowed = 2 * visited
            who = f"in {visited} of {tiles} tiles of {given['bm']} x {given['bn']} some query sees a key"
            if done > allowed:
                return self.lost(f"{done} products", expected=f"{allowed} on {trial.case.name}: {who}")
            least, most = least_and_most_flops(**given)
            if flops > most:
                expected = f"at most {most:,} on {trial.case.name}: {who}"
                return self.lost(f"{flops:,} FLOPs in {done} products", expected=expected)
            if flops < least:
                expected = f"at least {least:,} on {trial.case.name}, of tiles multiplied with @"
                return self.lost(f"{flops:,} FLOPs in {done} products", expected=expected)
        return self.earned(f"{done} products, {allowed} allowed")


def _products(trial: Trial) -> list[Operation]:
    return [op for op in trial.evidence.operations if op.name in PRODUCTS]


def least_and_most_flops(q, k, causal: bool, bm: int, bn: int, **more: Any) -> tuple[int, int]:
    """Count the least and the most FLOPs of the two products. The least counts only pairs of a query and a key that it sees. The
    most counts all pairs of each tile that holds such a pair, with one more column (d + 1)."""
    heads, d = math.prod(q.shape[:-2]), q.shape[-1]
    visited, _ = visited_tiles(q, k, causal, bm, bn)
    pairs = int(seen(q.shape[-2], k.shape[-2], causal).sum())
    return 4 * heads * d * pairs, 4 * heads * (d + 1) * visited * bm * bn


def visited_tiles(q: torch.Tensor, k: torch.Tensor, causal: bool, bm: int, bn: int, **_: Any) -> tuple[int, int]:
    """Count (the tiles in which some query sees a key, all tiles)."""
    nq, nk = q.shape[-2], k.shape[-2]
    mask = seen(nq, nk, causal)
    corners = list(product(range(0, nq, bm), range(0, nk, bn)))
    return sum(bool(mask[i : i + bm, j : j + bn].any()) for i, j in corners), len(corners)
