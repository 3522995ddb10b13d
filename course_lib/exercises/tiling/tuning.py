"""Choices that are left once a kernel is right: tile, warps and stages, and how many programs share a sum."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from course_lib.catalogue import say
from course_lib.criteria import (
    Compiles,
    Correct,
    GradedTrial,
    Launches,
    NoAtomics,
    Speed,
    Traffic,
    TritonDidTheWork,
    correct,
    of_group,
)
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.cases import BF16, FP16
from course_lib.exercises.misconceptions import Misconception
from course_lib.exercises.tiling.cases import factors, in_shares
from course_lib.exercises.tiling.criteria import ByTheCompiler
from course_lib.exercises.tiling.mistakes import looks_like_tf32
from course_lib.exercises.tiling.oracles import in_float32, moved, product
from course_lib.exercises.tiling.products import TILE, compulsory_bytes
from course_lib.mistakes import on_race
from tritontrace.results import Compiled

# ------------------------------------------------------------------------------------------------ tile, warps, stages


LARGE = (128, 256)  # sides of the largest tile whose sums leave registers for the rest
FULL = 2 / 3  # of the shared memory that a program may have: with less, too few bytes are on their way


def least_bytes(a: torch.Tensor, b: torch.Tensor) -> int:
    """Count the bytes that a product in tiles of 128 x 256 moves."""
    (M, K), N = a.shape, b.shape[1]
    return a.element_size() * (M * N + moved(M, N, K, *LARGE))


def spilled(fact: Compiled) -> str:
    """Return "" if a kernel spills no registers, or a message on how much it does."""
    return say("tiling.tune.spilled", bytes=fact.spill_bytes or 0) if fact.spills or fact.spill_bytes else ""


def without_wgmma(fact: Compiled) -> str:
    """Return "" if a kernel multiplies by wgmma, or a message on the instruction that it uses."""
    if any(name.startswith("wgmma") for name in fact.tensor_instructions):
        return ""
    return (
        say("tiling.tune.other_instruction", instruction=fact.tensor_instructions[0])
        if fact.tensor_instructions
        else say("tiling.tune.no_tensor_cores")
    )


def half_empty(fact: Compiled) -> str:
    """Return "" if tiles fill shared memory, or a message on how much of it they take."""
    if fact.shared_bytes >= FULL * fact.shared_limit:
        return ""
    return say("tiling.tune.half_empty", bytes=fact.shared_bytes, limit=fact.shared_limit)


def on_hopper(trials: Sequence[GradedTrial]) -> list[Compiled]:
    """List the compiler's reports on these kernels for an H100 or H200."""
    return [fact for t in trials for fact in t.evidence.compiled if fact.gpu == "sm_90"]


def too_many_sums(trials: Sequence[GradedTrial]) -> str:
    """Return a remark if a thread has more accumulators than registers, else ""."""
    return say("tiling.tune.256_x_256") if any(map(spilled, on_hopper(trials))) else ""


def too_many_stages(trials: Sequence[GradedTrial]) -> str:
    """Return a remark if the pipeline stages do not fit into shared memory, else ""."""
    return (
        say("tiling.tune.five_stages_too_much_shared_memory")
        if any(fact.shared_bytes > fact.shared_limit > 0 for fact in on_hopper(trials))
        else ""
    )


def small_tile(trials: Sequence[GradedTrial]) -> str:
    """Return a remark if the tiles are so small that too many bytes are moved, which more stages cannot mend; else ""."""
    for t in of_group(trials, "performance"):
        moved_bytes = sum(f.read_bytes + f.written_bytes for launch in t.evidence.launches for f in launch.footprints)
        if moved_bytes > 1.05 * least_bytes(**t.inputs[-1]):
            return say("tiling.tune.128_x_128_six_stages")
    return ""


def too_few_stages(trials: Sequence[GradedTrial]) -> str:
    """Return a remark if shared memory has room for more stages, else ""."""
    return (
        say("tiling.tune.short_steps") if any(fact.accepted and half_empty(fact) for fact in on_hopper(trials)) else ""
    )


tune = Exercise(
    id="tiling.tune",
    entry="tuned_matmul",
    given=("tuned_kernel", "tuned_matmul"),
    blank=say("tiling.tune.blank"),
    signature="configuration() -> dict of BLOCK_M, BLOCK_N, BLOCK_K, num_warps, num_stages",
    effort=Effort(minutes=15, lines=1, difficulty=3),
    cases=[
        Case("256 x 256 x 256, bfloat16", "plain", factors(256, 256, 256, BF16)),
        Case("2048 x 2048 x 128, bfloat16", "performance", factors(2048, 2048, 128, BF16)),
    ],
    oracle=product,
    budget=in_float32,
    gates=[TritonDidTheWork(), Correct("plain")],  # not Compiles: this configuration need not fit an A100
    criteria=[
        ByTheCompiler(spilled, 2, say("tiling.tune.title_by_the_compiler")),
        ByTheCompiler(without_wgmma, 1, say("tiling.tune.title_without_wgmma")),
        ByTheCompiler(half_empty, 2, say("tiling.tune.title_half_empty")),
        # the launch is given, so nothing is asked about who shares the work
        Traffic(least_bytes, 3, title=say("tiling.tune.title_traffic"), programs=0),
    ],
    bonus=[
        Speed(
            say("tiling.tune.vs_speed"),
            Case("4096 x 4096 x 4096, bfloat16", "speed", factors(4096, 4096, 4096, BF16)),
            compulsory_bytes,
            full=0.9,
            none=0.7,
            points=3,
            baseline=lambda a, b: lambda: torch.matmul(a, b),
            advice=say("tiling.tune.advice_speed"),
        )
    ],
    mistakes=[too_many_sums, too_many_stages, small_tile, too_few_stages],
)


# ------------------------------------------------------------------------------------------------ split along K


def shares_bytes(a: torch.Tensor, b: torch.Tensor, splits: int) -> int:
    """Count the bytes that tiles of 64 x 64 move, and those of a float32 partial sum for each split, written and read."""
    (M, K), N = a.shape, b.shape[1]
    return a.element_size() * (M * N + moved(M, N, K, TILE, TILE)) + 2 * 4 * splits * M * N


def of_whole_shares(a: torch.Tensor, b: torch.Tensor, splits: int) -> torch.Tensor | None:
    """Compute the product as if each split were K // splits long; None where that is right."""
    end = a.shape[1] // splits * splits
    return product(a[:, :end], b[:end]) if 0 < end < a.shape[1] else None


split_k = Exercise(
    id="tiling.split_k",
    signature="split_k(a: (M, K), b: (K, N), contiguous, splits: int) -> (M, N)",
    effort=Effort(minutes=20, lines=35, difficulty=4),
    track="more",
    cases=[
        Case("64 x 64 x 256 in 4 shares, whole numbers, float16", "plain", in_shares(64, 64, 256, 4, FP16, whole=True)),
        Case("1 x 1 x 1 in 1 share, float16", "ragged", in_shares(1, 1, 1, 1, FP16)),
        Case("33 x 70 x 100 in 3 shares, float16", "ragged", in_shares(33, 70, 100, 3, FP16)),
        Case("20 x 50 x 1000 in 7 shares, bfloat16", "ragged", in_shares(20, 50, 1000, 7, BF16)),
        Case("40 x 30 x 333 in 5 shares, float32", "ragged", in_shares(40, 30, 333, 5)),
        Case("16 x 16 x 5 in 8 shares, float16", "empty", in_shares(16, 16, 5, 8, FP16)),
        Case("50 x 20 x 9 in 7 shares, bfloat16", "empty", in_shares(50, 20, 9, 7, BF16)),
        Case(
            "30 x 20 x 4000 in 15 shares that cancel, bfloat16", "long", in_shares(30, 20, 4000, 15, BF16, turning=True)
        ),
        Case("128 x 128 x 8192 in 32 shares, float16", "performance", in_shares(128, 128, 8192, 32, FP16, whole=True)),
        Case("64 x 128 x 4096 in 16 shares, float16", "performance", in_shares(64, 128, 4096, 16, FP16, whole=True)),
    ],
    oracle=product,
    budget=in_float32,
    gates=[TritonDidTheWork(), Correct("plain"), Compiles()],
    criteria=[
        *correct("tiling.split_k", {"ragged": 2, "empty": 1, "long": 2}),
        Traffic(shares_bytes, 2, title=say("tiling.split_k.title_traffic")),
        Launches(2, 1),
        NoAtomics(1),
    ],
    mistakes=[
        Misconception(of_whole_shares, say("tiling.split_k.the_rest_of_k_is_left_out"), product, each=True),
        looks_like_tf32,
        on_race(say("tiling.split_k.all_parts_in_one_place")),
    ],
)
