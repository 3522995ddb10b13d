"""Unit 14: pipelined and specialised products and attention, races to be named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from course_lib.catalogue import say
from course_lib.criteria import Correct, Numbers, Speed, Traffic, Truths, correct
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.cases import BF16, FP16, fixed
from course_lib.exercises.flash.oracles import kernel_budget
from course_lib.exercises.hopper.overlaps import (
    Ahead,
    BesideProducts,
    BesideStores,
    NoMoreProducts,
    Persistent,
    Specialised,
)
from course_lib.exercises.hopper.predictions import REASONS, overlaps
from course_lib.exercises.hopper.races import CAUSES, RINGS, NamesRaces
from course_lib.exercises.misconceptions import Misconception
from course_lib.exercises.sm.cases import factors, multiply_adds
from course_lib.exercises.sm.criteria import GATES, Overlapped, Uses
from course_lib.exercises.sm.mistakes import lesson, meets
from course_lib.exercises.tiling.oracles import in_float32, product
from course_lib.mistakes import miscounted

# ----------------------------------------------------------------------------------------------------- products


def tiles(a: torch.Tensor, b: torch.Tensor, **_: Any) -> int:
    """Count the 64 x 64 tiles of the product."""
    return a.shape[0] // 64 * (b.shape[1] // 64)


def moved(rows: int, columns: int) -> Callable[..., int]:
    """Make a function that counts the bytes that a product moves whose programs make tiles of that many rows and columns."""

    def needed(a: torch.Tensor, b: torch.Tensor, **_: Any) -> int:
        (M, K), N = a.shape, b.shape[1]
        return a.element_size() * (M * K * (N // columns) + K * N * (M // rows) + M * N)

    return needed


def against_cublas(full: float, none: float, **more: Any) -> Speed:
    """Make the speed criterion of a 4096 x 4096 x 4096 product against cuBLAS. more: arguments that are always the same.

    On an H100 the published answers reach 0.42, 0.42 and 0.30 (medians of 40 pairs, spread 0.002; 2026-11-25).
    """
    return Speed(
        "cuBLAS",
        Case("4096 x 4096 x 4096, float16", "speed", factors(4096, 4096, 4096, **more)),
        lambda a, b, **_: 2 * (a.numel() + b.numel() + a.shape[0] * b.shape[1]),
        full=full,
        none=none,
        points=2,
        baseline=lambda a, b, **_: lambda: torch.matmul(a, b),
        advice=say("hopper.pipelined_matmul.advice"),
    )


EARLY = meets("overwritten while it is read", say("hopper.overlapped_attention.keys_are_released_too_early"))
READ_BY_TWO = meets(
    "overwritten while it is read",
    say("hopper.persistent_matmul.released_before_the_product_has_ended"),
)
AGAIN = meets("too many arrivals", say("hopper.persistent_matmul.both_begin_anew_with_each_tile"))

pipelined_matmul = Exercise(
    id="hopper.pipelined_matmul",
    signature="pipelined_matmul(a: (M, K), b: (K, N)) -> (M, N), float16 or bfloat16, M, N and K multiples of 64",
    effort=Effort(minutes=30, lines=35, difficulty=4),
    language="Gluon",
    cases=[
        Case("64 x 128 by 64", "plain", factors(64, 64, 128)),
        Case("128 x 256 by 64, bfloat16", "plain", factors(128, 64, 256, BF16)),
        Case("64 x 64 by 128", "short", factors(64, 128, 64)),
        Case("128 x 512 by 64", "performance", factors(128, 64, 512)),
    ],
    oracle=product,
    budget=in_float32,
    gates=GATES,
    criteria=[
        Correct("short", 1, say("hopper.pipelined_matmul.title_short")),
        Uses("TMA load", 1),
        Uses("wgmma", 1, needs=multiply_adds),
        Overlapped(0.8, 2, title=say("hopper.pipelined_matmul.title_overlapped")),
        Traffic(moved(64, 64), 1, title=say("hopper.pipelined_matmul.title_traffic"), programs=2),
    ],
    bonus=[against_cublas(0.4, 0.2)],
    mistakes=[EARLY, lesson],
)

warp_specialised_matmul = Exercise(
    id="hopper.warp_specialised_matmul",
    signature="warp_specialised_matmul(a: (M, K), b: (K, N)) -> (M, N), float16 or bfloat16, M a multiple of 128, N and K of 64",
    effort=Effort(minutes=35, lines=45, difficulty=4),
    language="Gluon",
    cases=[
        Case("128 x 128 by 64", "plain", factors(128, 64, 128)),
        Case("256 x 256 by 64, bfloat16", "plain", factors(256, 64, 256, BF16)),
        Case("128 x 64 by 128", "short", factors(128, 128, 64)),
        Case("128 x 832 by 64", "long", factors(128, 64, 832)),
        Case("256 x 512 by 128", "performance", factors(256, 128, 512)),
    ],
    oracle=product,
    budget=in_float32,
    gates=GATES,
    criteria=[
        *correct("hopper.warp_specialised_matmul", {"short": 1, "long": 1}),
        Uses("wgmma", 1, needs=multiply_adds),
        Specialised(2, 2),
        Traffic(moved(128, 64), 1, title=say("hopper.warp_specialised_matmul.title_traffic"), programs=2),
    ],
    bonus=[against_cublas(0.4, 0.2)],
    mistakes=[EARLY, lesson],
)

persistent_matmul = Exercise(
    id="hopper.persistent_matmul",
    signature="persistent_matmul(a: (M, K), b: (K, N), programs: int) -> (M, N), float16 or bfloat16, M, N and K multiples of 64",
    effort=Effort(minutes=35, lines=50, difficulty=5),
    language="Gluon",
    cases=[
        Case("192 x 128 by 128, 2 programs", "plain", factors(192, 128, 128, programs=2)),
        Case("64 x 64 by 64, 1 program", "plain", factors(64, 64, 64, BF16, programs=1)),
        Case("128 x 192 by 192, 4 programs", "uneven", factors(128, 192, 192, programs=4)),
        Case("192 x 256 by 128, 2 programs", "performance", factors(192, 128, 256, programs=2)),
    ],
    oracle=product,
    budget=in_float32,
    gates=GATES,
    criteria=[
        Correct("uneven", 1, say("hopper.persistent_matmul.title_uneven")),
        Persistent(lambda programs, **_: programs, tiles, 1),
        Uses("TMA store", 1),
        BesideStores(lambda a, b, programs: tiles(a, b) - programs, 2),
    ],
    bonus=[against_cublas(0.28, 0.14, programs=132)],
    mistakes=[READ_BY_TWO, AGAIN, lesson],
)

# ----------------------------------------------------------------------------------------------------- predictions

predict_overlap = Exercise(
    id="hopper.predict_overlap",
    signature="predicted_overlap: dict[str, bool | int]",
    kind="values",
    effort=Effort(minutes=10, lines=9, difficulty=3),
    cases=[fixed("six statements, three counters", "plain")],
    oracle=overlaps,
    criteria=[
        Truths(2, say("hopper.predict_overlap.title_truths")),
        Numbers(1, say("hopper.predict_overlap.title_numbers")),
    ],
    mistakes=[miscounted(REASONS)],
)

# ----------------------------------------------------------------------------------------------------- attention


def heads(H: int, N: int, D: int, dtype: torch.dtype = FP16, scale: float = 1.0):
    """Return a function that draws q, k, v (H, N, D); scale: of q."""

    def draw(g: torch.Generator) -> dict[str, torch.Tensor]:
        q, k, v = (torch.randn(H, N, D, generator=g, device=g.device) for _ in range(3))
        return {"q": (scale * q).to(dtype), "k": k.to(dtype), "v": v.to(dtype)}

    return draw


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Compute softmax(q k^T / sqrt(D)) v in float64."""
    q, k, v = q.double(), k.double(), v.double()
    return torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1) @ v


def _uncorrected(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention by tiles of 64 keys whose acc stays with the maxima that each tile found."""
    q, k, v = q.double(), k.double(), v.double()
    scores = (q @ k.mT * q.shape[-1] ** -0.5).split(64, -1)
    maxima = torch.stack([s.amax(-1) for s in scores]).cummax(0).values[..., None]
    acc = sum(torch.exp(s - m) @ values for s, m, values in zip(scores, maxima, v.split(64, -2), strict=True))
    return acc / torch.exp(torch.cat(scores, -1) - maxima[-1]).sum(-1, keepdim=True)


def attention_multiply_adds(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> int:
    """Count the multiply-adds of both products."""
    H, N, D = q.shape
    return 2 * H * N * N * D


def cudnns(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Callable[[], object]:
    """Make a function that runs cuDNN's attention on the same inputs."""

    def run() -> object:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return scaled_dot_product_attention(q[None], k[None], v[None])

    return run


AGAINST_CUDNN = Speed(
    "cuDNN",
    Case("16 heads of 64, 4096 tokens, float16", "speed", heads(16, 4096, 64)),
    lambda q, k, v: 4 * q.nbytes,
    full=0.8,  # the published answer: 0.86 on an H100
    none=0.4,
    points=2,
    baseline=cudnns,
    advice=(say("hopper.overlapped_attention.advice")),
)

overlapped_attention = Exercise(
    id="hopper.overlapped_attention",
    entry="overlapped_attention",
    signature="walk(q, ks, vs, tiles, scale): the consumer's loop of overlapped_attention(q, k, v: (H, N, D)) -> (H, N, D)",
    effort=Effort(minutes=30, lines=22, difficulty=5),
    language="Gluon",
    cases=[
        Case("1 head, 128 tokens", "plain", heads(1, 128, 64)),
        Case("2 heads, 128 tokens, bfloat16", "plain", heads(2, 128, 64, BF16)),
        Case("large scores", "large", heads(1, 256, 64, scale=12.0)),
        Case("1 head, 256 tokens", "performance", heads(1, 256, 64)),
    ],
    oracle=attention,
    budget=kernel_budget,
    gates=GATES,
    criteria=[
        Correct("large", 1, say("hopper.overlapped_attention.title_large")),
        NoMoreProducts(attention_multiply_adds, 1),
        Ahead(attention_multiply_adds, 2),
        BesideProducts(0.5, 2),
    ],
    bonus=[AGAINST_CUDNN],
    mistakes=[
        EARLY,
        lesson,
        Misconception(_uncorrected, say("hopper.overlapped_attention.acc_is_not_corrected"), attention),
    ],
)

# ----------------------------------------------------------------------------------------------------- races

name_races = Exercise(
    id="hopper.name_races",
    signature="named_races: dict[str, tuple[str, int] | int]",
    kind="values",
    effort=Effort(minutes=15, lines=9, difficulty=4),
    cases=[fixed("eight rings", "plain")],
    oracle=lambda: {},  # each answer is compared with what the simulator says
    criteria=[NamesRaces(RINGS, CAUSES, 4)],
)

EXERCISES: tuple[Exercise, ...] = (
    pipelined_matmul,
    predict_overlap,
    warp_specialised_matmul,
    persistent_matmul,
    overlapped_attention,
    name_races,
)
