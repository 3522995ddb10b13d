"""The forward pass with all heads, masks and lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from course_lib.catalogue import say
from course_lib.criteria import BuffersBelow, Coalesced, Compiles, Correct, DotFlops, Launches, Speed, Traffic, correct
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.cases import BF16, FP16, FP32
from course_lib.exercises.flash.cases import backwards, by_columns, heads, one_of_each_head
from course_lib.exercises.flash.criteria import GATES, heads_of, least_bytes, least_flops, tiles_flops
from course_lib.exercises.flash.mistakes import (
    BASES,
    INVERSE_D,
    LSE_OF_OTHER_HEADS,
    NAN,
    NAN_AT_ONCE,
    OF_O,
    ONLY_THE_MAXIMUM,
    OTHER_STRIDES,
    OVERFLOW,
    PADDED_SCALE,
    RACE,
    ROUNDED_ACCUMULATOR,
    ROUNDED_SCORES,
    SAME_KEYS,
    SCALED_Q,
    STRIDED_LSE,
    VIEWS,
    looks_like_tf32,
    rounded_result,
    unstored,
    unused_strides,
)
from course_lib.exercises.flash.oracles import attend, kernel_budget


def torchs_flash(q, k, v, causal, **_: Any) -> Callable[[], object]:
    """Make a function that runs torch's FlashAttention-2 on the same inputs."""

    def run() -> object:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return scaled_dot_product_attention(q, k, v, is_causal=causal)

    return run


flash_attention_forward = Exercise(
    id="flash.flash_attention_forward",
    signature="flash_attention_forward(q: (..., Nq, D), k, v: (..., Nk, D), causal=False, scale=None) -> o, lse: (..., Nq) float32",
    effort=Effort(minutes=80, lines=75, difficulty=5),
    cases=[  # few sizes of heads: the grader compiles every kernel for each, for two GPUs
        Case("(2, 2) heads of 64 queries and keys, float16", "plain", heads(64, 64, 32, lead=(2, 2))),
        Case("37 queries, 50 keys", "ragged", heads(37, 50, 32)),
        Case("1 query, 200 keys, bfloat16", "ragged", heads(1, 200, 32, BF16)),
        Case("130 queries, 7 keys", "ragged", heads(130, 7, 32)),
        Case("no leading dimension", "leading", heads(40, 30, 32, lead=())),
        Case("(3, 1, 2) heads", "leading", heads(20, 30, 32, lead=(3, 1, 2))),
        Case("(B, N, H, D) as (B, H, N, D)", "strided", heads(40, 33, 32, lead=(2, 3), layout="heads")),
        Case("windows", "strided", heads(30, 45, 32, BF16, lead=(2,), layout="window")),
        Case(
            "(2, 2, B, N, H, D) as (2, 2, B, H, N, D)", "strided", heads(9, 14, 32, lead=(2, 2, 1, 2), layout="heads")
        ),
        Case("q and k column by column", "strided", by_columns(heads(30, 40, 32))),
        Case("one k and v for 3 heads, stride 0", "strided", one_of_each_head(heads(30, 40, 32, lead=()), 3)),
        Case("heads of 48", "dims", heads(33, 50, 48, lead=())),
        Case("heads of 16", "dims", heads(33, 50, 16, lead=())),
        Case("heads of 256", "dims", heads(20, 70, 256, lead=())),
        Case("128 queries and keys, heads of 128, bfloat16", "dims", heads(128, 128, 128, BF16, lead=(1, 1))),
        Case("33 queries, 150 keys, float32", "float32", heads(33, 150, 32, FP32, lead=())),
        Case("70 queries, 90 keys, float32", "float32", heads(70, 90, 32, FP32, lead=(), v_mean=20.0)),
        Case("100 queries and keys, causal", "causal", heads(100, 100, 32, causal=True)),
        Case("23 queries, 161 keys, causal", "causal", heads(23, 161, 32, causal=True)),
        Case("1 query, 70 keys, causal", "causal", heads(1, 70, 32, causal=True)),
        Case("144 queries, 49 keys, causal", "nothing", heads(144, 49, 32, causal=True)),
        Case("70 queries, 3 keys, causal", "nothing", heads(70, 3, 32, causal=True)),
        Case("large scores", "hard", heads(24, 170, 32, BF16, scores="large")),
        Case("rising scores, float32", "hard", heads(24, 270, 32, FP32, scores="rising", v_mean=20.0, lead=())),
        Case(
            "scores that fall by 340", "hard", backwards(heads(24, 270, 32, FP32, scores="rising", scale=1.0, lead=()))
        ),
        Case("one score of 80, at the last key", "hard", heads(24, 257, 32, scores="last")),
        Case("scores near -200, causal", "hard", heads(150, 170, 32, scores="low", causal=True)),
        Case("large scores, float16, causal", "hard", heads(70, 70, 32, scores="large", causal=True)),
        Case("16 queries, 4096 keys, bfloat16", "half", heads(16, 4096, 32, BF16, lead=(), v_mean=20.0)),
        Case("16 queries, 4096 keys, float16", "half", heads(16, 4096, 32, FP16, lead=(), v_mean=20.0)),
        Case("a scale of 0.4", "scale", heads(33, 44, 32, scale=0.4)),
        Case("a scale of 0", "scale", heads(64, 128, 32, scale=0.0)),
        Case("a scale of 0.02, bfloat16", "scale", heads(33, 44, 32, BF16, scale=0.02)),
        Case("64 heads of 64 queries and keys, float16", "performance", heads(64, 64, 32, lead=(64,))),
        Case("512 queries and keys, float16", "performance", heads(512, 512, 32, lead=(1,))),
        Case("512 queries and keys, causal, float16", "performance", heads(512, 512, 32, lead=(1,), causal=True)),
    ],
    oracle=attend,
    budget=kernel_budget,
    gates=(*GATES[:2], Compiles(apart=["dims"])),
    criteria=[
        *correct("flash.flash_attention_forward", {"ragged": 2, "leading": 1}),
        Correct("strided", 3, say("flash.flash_attention_forward.title_strided"), uncopied=True),
        Correct("dims", 1, say("flash.flash_attention_forward.title_dims"), compiles=True),
        *correct(
            "flash.flash_attention_forward", {"float32": 1, "causal": 2, "nothing": 1, "hard": 3, "half": 2, "scale": 1}
        ),
        Traffic(least_bytes, 2, at_most=1.0, title=say("flash.flash_attention_forward.title_traffic")),
        DotFlops(tiles_flops, least_flops, 2, say("flash.flash_attention_forward.title_dot_flops")),
        Launches(1, 1),
        BuffersBelow(
            lambda q, k, **_: heads_of(q) * q.shape[-2] * k.shape[-2],
            1,
            say("flash.flash_attention_forward.title_buffers_below"),
        ),
        Coalesced("load", 1),
        Coalesced("store", 1),
    ],
    bonus=[
        Speed(
            say("flash.flash_attention_forward.vs_speed"),
            Case("16 heads of 128, 8192 tokens, bfloat16", "speed", heads(8192, 8192, 128, BF16, lead=(1, 16))),
            lambda q, k, v, **_: q.nbytes + k.nbytes + v.nbytes + q.nbytes,
            full=1.0,
            none=0.6,
            points=4,
            baseline=torchs_flash,
            advice=say("flash.flash_attention_forward.advice_speed"),
        )
    ],
    mistakes=[
        *VIEWS,
        unused_strides,
        RACE,
        unstored,
        INVERSE_D,
        PADDED_SCALE,
        *SAME_KEYS,
        *OF_O,
        *OTHER_STRIDES,
        *BASES,
        ONLY_THE_MAXIMUM,
        LSE_OF_OTHER_HEADS,
        STRIDED_LSE,
        *SCALED_Q,
        *ROUNDED_SCORES,
        ROUNDED_ACCUMULATOR,
        NAN_AT_ONCE,
        NAN,
        OVERFLOW,
        looks_like_tf32,
        rounded_result,
    ],
)
