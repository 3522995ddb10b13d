"""The criteria of unit 08, and the operations of torch that its exercises may use."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch

from course_lib.catalogue import say
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
    """Criterion: no single allocation besides the results reaches a limit. Results must be right only where nothing is masked, because a
    slip in a mask costs nothing here.

    limit: the arguments -> bytes. longest: the arguments -> the longest side that a matrix product may have.
    """

    missed = say("criteria.buffers.missed")
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
                expected = say("criteria.buffers.less", limit=limit, case=trial.case.name)
                return self.lost(say("attention.largest_buffer.bytes", bytes=largest), expected=expected)
            if self.longest is None:
                continue
            longest = self.longest(**trial.inputs[-1])
            for op in _products(trial):
                if max(op.sides) > longest:
                    M, K, N = op.sides
                    expected = say("attention.largest_buffer.no_side", longest=longest, case=trial.case.name)
                    return self.lost(say("attention.largest_buffer.product", M=M, K=K, N=N), expected=expected)
        largest = max(t.evidence.largest_buffer for t in group)
        return self.earned(say("attention.largest_buffer.at_most", bytes=largest))


@dataclass
class Products(CostCriterion):
    """Criterion: two matrix products of torch for each tile of scores in which some query sees a key, and no larger products."""

    missed = say("criteria.products.missed")
    points: float
    title: str
    group: str = "performance"

    def count(self, group: Sequence[Trial]) -> Finding:
        for trial in group:
            given = trial.inputs[-1]
            done, flops = len(_products(trial)), sum(op.product_flops for op in _products(trial))
            visited, tiles = visited_tiles(**given)
            allowed = 2 * visited
            who = say("attention.products.visited", visited=visited, tiles=tiles, bm=given["bm"], bn=given["bn"])
            if done > allowed:
                expected = say("attention.products.expected", products=allowed, case=trial.case.name, who=who)
                return self.lost(say("attention.products.done", products=done), expected=expected)
            least, most = least_and_most_flops(**given)
            if flops > most:
                expected = say("attention.products.at_most", flops=most, case=trial.case.name, who=who)
                return self.lost(say("attention.products.flops", flops=flops, products=done), expected=expected)
            if flops < least:
                expected = say("attention.products.at_least", flops=least, case=trial.case.name)
                return self.lost(say("attention.products.flops", flops=flops, products=done), expected=expected)
        return self.earned(say("attention.products.allowed", products=done, allowed=allowed))


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
    """Count the tiles in which some query sees a key, and all tiles."""
    nq, nk = q.shape[-2], k.shape[-2]
    mask = seen(nq, nk, causal)
    corners = list(product(range(0, nq, bm), range(0, nk, bn)))
    return sum(bool(mask[i : i + bm, j : j + bn].any()) for i, j in corners), len(corners)
