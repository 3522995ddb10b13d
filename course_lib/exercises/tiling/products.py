"""Matrix products by tiles, in torch and in a kernel."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import torch

from course_lib.catalogue import say
from course_lib.criteria import (
    Coalesced,
    Compiles,
    Correct,
    GradedTrial,
    Rereads,
    Speed,
    Traffic,
    TritonDidTheWork,
    correct,
    of_group,
)
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.cases import BF16, FP16
from course_lib.exercises.tiling.cases import factors, tiled
from course_lib.exercises.tiling.criteria import Counted
from course_lib.exercises.tiling.mistakes import (
    divided_by_the_wrong_side,
    groups_of_one_height,
    last_tile_alone,
    looks_like_tf32,
    past_the_end_of_k,
    pointers_go_on,
    small_tiles,
    the_last_block_alone,
    whole_tiles_alone,
)
from course_lib.exercises.tiling.oracles import in_float32, moved, pieces, product
from course_lib.mistakes import on_race
from tritontrace.results import Operation

# ------------------------------------------------------------------------------------------------ in torch


OUTER = frozenset(["mul", "addcmul", "addcmul_", "addr", "addr_"])
outer_product_matmul = Exercise(
    id="tiling.outer_product_matmul",
    signature="outer_product_matmul(a: (M, K), b: (K, N)) -> (M, N)",
    effort=Effort(minutes=8, lines=4, difficulty=1),
    track="more",
    cases=[
        Case("8 x 6 x 5", "plain", factors(8, 6, 5)),
        Case("33 x 7 x 20", "ragged", factors(33, 7, 20)),
        Case("1 x 9 x 1", "ragged", factors(1, 9, 1)),
        Case("20 x 31 x 40 around 3", "ragged", factors(20, 31, 40, mean=3.0)),
    ],
    oracle=product,
    budget=in_float32,
    allows=OUTER | {"add", "add_", "copy_"},
    gates=[Correct("plain")],
    criteria=[
        Correct("ragged", 2, say("tiling.outer_product_matmul.title_ragged")),
        Counted(
            OUTER,
            lambda op: tuple(sorted(op.result)),
            lambda a, b: [tuple(sorted((a.shape[0], b.shape[1])))] * a.shape[1],
            2,
            say("tiling.outer_product_matmul.title_counted"),
            say("tiling.outer_product_matmul.what_counted"),
        ),
    ],
)


def _either_way(op: Operation) -> tuple[int, int, int]:
    """(M, K, N) of a product, the same for the product of both turned: c.T = b.T @ a.T."""
    m, k, n = op.sides
    return min(m, n), k, max(m, n)


def triples(a: torch.Tensor, b: torch.Tensor, bm: int, bn: int, bk: int) -> list[tuple[int, int, int]]:
    """List the triples of tiles that a tiled product multiplies, as `_either_way` writes them."""
    return [
        (min(m, n), k, max(m, n))
        for m in pieces(a.shape[0], bm)
        for n in pieces(b.shape[1], bn)
        for k in pieces(a.shape[1], bk)
    ]


def not_cut(trials: Sequence[GradedTrial]) -> str:
    """Return a remark that names the axis that is not tiled, if the products are right otherwise; else ""."""
    for axis, piece in {"M": "bm", "N": "bn", "K": "bk"}.items():
        if all(_takes_all(t, axis, piece) for t in of_group(trials, "plain")):
            return say("tiling.tiled_matmul.not_cut", axis=axis, piece=piece)
    return ""


def _takes_all(trial: GradedTrial, axis: str, piece: str) -> bool:
    """Whether the products of a right result are those of tiles that are as long as the matrix along one axis, and no longer elsewhere."""
    given = trial.inputs[-1]
    whole = {"M": given["a"].shape[0], "N": given["b"].shape[1], "K": given["a"].shape[1]}[axis]
    done = Counter(_either_way(op) for op in trial.evidence.operations if op.name in PRODUCTS)
    return trial.difference is None and done == Counter(triples(**(given | {piece: whole}))) != Counter(
        triples(**given)
    )


PRODUCTS = frozenset(["mm", "addmm", "addmm_", "bmm", "baddbmm", "baddbmm_"])
tiled_matmul = Exercise(
    id="tiling.tiled_matmul",
    signature="tiled_matmul(a: (M, K), b: (K, N), bm: int, bn: int, bk: int) -> (M, N)",
    effort=Effort(minutes=10, lines=7, difficulty=2),
    track="more",
    cases=[
        Case("32 x 48 x 64, tiles of 16 x 16 x 32", "plain", tiled(32, 48, 64, 16, 16, 32)),
        Case("33 x 50 x 70, tiles of 16 x 32 x 32", "ragged", tiled(33, 50, 70, 16, 32, 32)),
        Case("5 x 7 x 9, tiles of 16", "ragged", tiled(5, 7, 9, 16, 16, 16)),
        Case("20 x 60 x 9, tiles of 8 x 32 x 1", "ragged", tiled(20, 60, 9, 8, 32, 1)),
    ],
    oracle=product,
    budget=in_float32,
    allows=PRODUCTS | {"add", "add_", "copy_", "zero_"},
    gates=[Correct("plain")],
    criteria=[
        Correct("ragged", 3, say("tiling.tiled_matmul.title_ragged")),
        Counted(
            PRODUCTS,
            _either_way,
            triples,
            2,
            say("tiling.tiled_matmul.title_counted"),
            say("tiling.tiled_matmul.what_counted"),
        ),
    ],
    mistakes=[last_tile_alone, whole_tiles_alone, not_cut],
)


# ------------------------------------------------------------------------------------------------ the kernel


TILE = 64  # with tiles of this side or larger, all points can be had


def tile_traffic(a: torch.Tensor, b: torch.Tensor) -> int:
    """Count the bytes that a product in tiles of 64 x 64 moves, with room for a sum in two float32 parts, written and read."""
    M, K, N = a.shape[-2], a.shape[-1], b.shape[-1]
    return a.element_size() * (M * N + moved(M, N, K, TILE, TILE)) + 2 * 2 * 4 * M * N


def compulsory_bytes(a: torch.Tensor, b: torch.Tensor) -> int:
    """Count the bytes of a and b, read once, and of the result, written once."""
    return a.element_size() * (a.numel() + b.numel() + a.shape[-2] * b.shape[-1])


matmul = Exercise(
    id="tiling.matmul",
    signature="matmul(a: (M, K) or (B, M, K), b: (K, N) or (B, K, N)) -> (M, N) or (B, M, N), contiguous",
    effort=Effort(minutes=90, lines=35, difficulty=4),
    cases=[
        Case("128 x 128 x 64, float16", "plain", factors(128, 128, 64, FP16)),
        Case("1 x 1 x 1, float16", "ragged", factors(1, 1, 1, FP16)),
        Case("130 x 33 x 77, whole numbers, float16", "ragged", factors(130, 33, 77, FP16, whole=True)),
        Case("7 x 300 x 65, bfloat16", "ragged", factors(7, 300, 65, BF16)),
        Case("96 x 70 x 150, both transposed, float16", "strided", factors(96, 70, 150, FP16, layout="columns")),
        Case("45 x 61 x 100, slices, float16", "strided", factors(45, 61, 100, FP16, layout="window")),
        Case("40 x 50 x 33, every other, bfloat16", "strided", factors(40, 50, 33, BF16, layout="steps")),
        Case("3 of 50 x 40 x 70, float16", "batched", factors(50, 40, 70, FP16, batch=3)),
        Case("4 heads of 33 x 65 x 32, float16", "batched", factors(33, 65, 32, FP16, batch=4, layout="heads")),
        Case("2 of 20 x 90 x 40, one b, bfloat16", "batched", factors(20, 90, 40, BF16, batch=2, shared=True)),
        Case("20 x 30 x 1000, float16", "long", factors(20, 30, 1000, FP16)),
        Case("30 x 20 x 701 around 3, bfloat16", "long", factors(30, 20, 701, BF16, mean=3.0)),
        Case("70 x 50 x 90, float32", "float32", factors(70, 50, 90)),
        Case("33 x 40 x 500 around 3, float32", "float32", factors(33, 40, 500, mean=3.0)),
        Case("2048 x 1024 x 64, float16", "performance", factors(2048, 1024, 64, FP16)),
        Case("256 x 320 x 128, bfloat16", "performance", factors(256, 320, 128, BF16)),
        Case("384 x 512 x 256, float16", "performance", factors(384, 512, 256, FP16)),
    ],
    oracle=product,
    budget=in_float32,
    gates=[TritonDidTheWork(), Correct("plain"), Compiles()],
    criteria=[
        *correct("tiling.matmul", {"ragged": 3, "strided": 3, "batched": 2, "long": 2, "float32": 2}),
        Rereads("a", lambda a, b: math.ceil(b.shape[-1] / TILE), 2, say("tiling.matmul.title_rereads_a")),
        Rereads("b", lambda a, b: math.ceil(a.shape[-2] / TILE), 2, say("tiling.matmul.title_rereads_b")),
        Traffic(tile_traffic, 1, title=say("tiling.matmul.title_traffic"), once=True),
        Coalesced("load", 2),
        Coalesced("store", 1),
    ],
    bonus=[
        Speed(
            say("tiling.matmul.vs_speed"),
            Case("4096 x 4096 x 4096, bfloat16", "speed", factors(4096, 4096, 4096, BF16)),
            compulsory_bytes,
            full=0.6,
            none=0.4,
            points=3,
            baseline=lambda a, b: lambda: torch.matmul(a, b),
            advice=say("tiling.matmul.advice_speed"),
        )
    ],
    mistakes=[
        looks_like_tf32,
        the_last_block_alone,
        *pointers_go_on,
        groups_of_one_height,
        divided_by_the_wrong_side,
        past_the_end_of_k,
        on_race(say("tiling.matmul.one_tile_of_several")),
        small_tiles,
    ],
)
