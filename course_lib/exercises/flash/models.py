"""Exercises on what models add to attention: windows, grouped heads, and decoding one token."""

from __future__ import annotations

import math

from course_lib.catalogue import say
from course_lib.criteria import DotFlops, Launches, Programs, Rereads, Speed, Traffic, correct
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.attention.cases import qkv
from course_lib.exercises.cases import BF16, FP16, FP32
from course_lib.exercises.flash.cases import grouped, one_token
from course_lib.exercises.flash.criteria import GATES, TILE, least_flops, tiles_flops, windows_bytes
from course_lib.exercises.flash.mistakes import (
    EDGES,
    FIRST_KEYS,
    HEADS_AS_QUERIES,
    LAST_KEYS,
    MASKS,
    MERGES,
    MISSING_KEYS,
    NAN,
    NAN_AT_ONCE,
    NAN_IN_WINDOW,
    NOT_RESCALED,
    OTHER_HEADS,
    OVERFLOW,
    OVERFLOW_OF_SHARES,
    OWN_KEY,
    POWERS_OF_2,
    RACE,
    ROUNDED_ACCUMULATOR,
    UNDIVIDED,
    UNSCALED,
    WITHOUT_WINDOW,
    few_programs,
    infinite,
    looks_like_tf32,
    rounded_result,
    rows_as_queries,
    unstored,
)
from course_lib.exercises.flash.oracles import causal_budget, decoded, kernel_budget, only_o, windowed

sliding_window = Exercise(
    id="flash.sliding_window",
    signature="sliding_window(q, k, v: (H, N, D), contiguous, window: int) -> o: (H, N, D)",
    effort=Effort(minutes=15, lines=35, difficulty=3),
    track="more",
    cases=[
        Case("2 heads of 128, window 32, float16", "plain", qkv(128, 128, 32, FP16, lead=(2,), window=32)),
        Case("100 tokens, window 1", "ragged", qkv(100, 100, 32, FP16, lead=(2,), window=1)),
        Case("150 tokens, window 2", "ragged", qkv(150, 150, 32, FP16, lead=(1,), window=2)),
        Case("333 tokens, window 50, bfloat16", "ragged", qkv(333, 333, 32, BF16, lead=(1,), window=50)),
        Case("70 tokens, window 1000", "ragged", qkv(70, 70, 32, FP16, lead=(2,), window=1000)),
        Case("1 token, window 7, float32", "ragged", qkv(1, 1, 32, lead=(3,), window=7)),
        Case("large scores", "hard", qkv(170, 170, 32, FP16, lead=(1,), scores="large", window=77)),
        Case("rising scores, float32", "hard", qkv(170, 170, 32, lead=(1,), scores="rising", v_mean=20.0, window=100)),
        Case("scores near -200", "hard", qkv(170, 170, 32, BF16, lead=(1,), scores="low", window=65)),
        Case("40 heads of 128, window 32", "performance", qkv(128, 128, 32, FP16, lead=(40,), window=32)),
        Case("768 tokens, window 128", "performance", qkv(768, 768, 32, FP16, lead=(1,), window=128)),
    ],
    oracle=windowed,
    budget=causal_budget,
    gates=GATES,
    criteria=[
        *correct("flash.sliding_window", {"ragged": 2, "hard": 2}),
        Traffic(windows_bytes, 2, at_most=1.0, title=say("flash.sliding_window.title_traffic")),
        DotFlops(tiles_flops, least_flops, 1, say("flash.sliding_window.title_dot_flops")),
    ],
    mistakes=[
        RACE,
        unstored,
        UNSCALED,
        *WITHOUT_WINDOW,
        *EDGES,
        *OWN_KEY,
        UNDIVIDED,
        *NOT_RESCALED,
        POWERS_OF_2,
        ROUNDED_ACCUMULATOR,
        *NAN_IN_WINDOW,
        OVERFLOW,
        looks_like_tf32,
        rounded_result,
    ],
)

grouped_attention = Exercise(
    id="flash.grouped_attention",
    signature="grouped_attention(q: (Hq, Nq, D), k, v: (Hkv, Nk, D), contiguous, causal: bool) -> o: (Hq, Nq, D)",
    effort=Effort(minutes=20, lines=35, difficulty=4),
    track="more",
    cases=[
        Case("4 heads for 2, 32 queries, 64 keys", "plain", grouped(2, 2, 32, 64, 32, causal=False)),
        Case("6 heads for 2, 13 queries, 50 keys, bfloat16", "ragged", grouped(2, 3, 13, 50, 32, BF16, causal=False)),
        Case("3 heads for 3, 70 queries, 33 keys", "ragged", grouped(3, 1, 70, 33, 32, causal=False)),
        Case("5 heads for 1, 1 query, 100 keys, float32", "ragged", grouped(1, 5, 1, 100, 32, FP32, causal=False)),
        Case("6 heads for 2, 30 queries and keys", "causal", grouped(2, 3, 30, 30, 32, causal=True)),
        Case("8 heads for 1, 20 queries, 90 keys", "causal", grouped(1, 8, 20, 90, 32, BF16, causal=True)),
        Case("6 heads for 2, 40 queries, 11 keys", "nothing", grouped(2, 3, 40, 11, 32, causal=True)),
        Case("large scores, causal", "hard", grouped(2, 3, 25, 170, 32, scores="large", causal=True)),
        Case("rising scores, float32", "hard", grouped(1, 3, 25, 170, 32, FP32, scores="rising", causal=False)),
        Case("80 heads for 40, 16 queries, 64 keys", "performance", grouped(40, 2, 16, 64, 32, causal=False)),
        Case("16 heads for 2, 16 queries, 512 keys", "performance", grouped(2, 8, 16, 512, 32, causal=False)),
        Case("16 heads for 2, 16 queries, 512 keys, causal", "performance", grouped(2, 8, 16, 512, 32, causal=True)),
    ],
    oracle=only_o,
    budget=kernel_budget,
    gates=GATES,
    criteria=[
        *correct("flash.grouped_attention", {"ragged": 2, "causal": 2, "nothing": 1, "hard": 1}),
        Rereads(
            "k",
            lambda q, k, **_: math.ceil(q.shape[0] // k.shape[0] * q.shape[1] / TILE),
            2,
            say("flash.grouped_attention.title_rereads_k"),
        ),
        Launches(1, 1),
    ],
    mistakes=[
        RACE,
        unstored,
        UNSCALED,
        OTHER_HEADS,
        FIRST_KEYS,
        *MASKS,
        *EDGES,
        HEADS_AS_QUERIES,
        rows_as_queries,
        UNDIVIDED,
        MISSING_KEYS,
        LAST_KEYS,
        *NOT_RESCALED,
        POWERS_OF_2,
        ROUNDED_ACCUMULATOR,
        OVERFLOW,
        NAN_AT_ONCE,
        NAN,
        looks_like_tf32,
        rounded_result,
    ],
)


def cache_bytes(q, k, v, splits: int) -> int:
    """Count the bytes of k, v, q and o once, and of a state for each head and split, written and read."""
    return k.nbytes + v.nbytes + 2 * q.nbytes + 2 * 4 * splits * q.shape[0] * (q.shape[1] + 2)


flash_decode = Exercise(
    id="flash.flash_decode",
    signature="flash_decode(q: (Hq, D), k, v: (Hkv, Nk, D), contiguous, splits: int) -> o: (Hq, D)",
    effort=Effort(minutes=50, lines=60, difficulty=4),
    track="more",
    cases=[
        Case("8 heads for 2, 256 keys, 4 shares", "plain", one_token(2, 4, 256, 32, 4)),
        Case("6 heads for 2, 333 keys, 3 shares, bfloat16", "ragged", one_token(2, 3, 333, 32, 3, BF16)),
        Case("3 heads for 3, 1000 keys, 7 shares", "ragged", one_token(3, 1, 1000, 32, 7)),
        Case("4 heads of 128 for 1, 300 keys, 4 shares, bfloat16", "ragged", one_token(1, 4, 300, 128, 4, BF16)),
        Case("20 heads for 1, 77 keys, 1 share, float32", "ragged", one_token(1, 20, 77, 32, 1, FP32)),
        Case("5 keys, 8 shares", "empty", one_token(2, 2, 5, 32, 8)),
        Case("130 keys, 32 shares", "empty", one_token(1, 4, 130, 32, 32, BF16)),
        Case("large scores", "hard", one_token(1, 4, 400, 32, 5, scores="large")),
        Case("rising scores, float32", "hard", one_token(1, 4, 400, 32, 5, FP32, scores="rising")),
        Case("scores near -200", "hard", one_token(2, 2, 400, 32, 6, BF16, scores="low")),
        Case("8192 keys, 2 shares, values around 20", "half", one_token(1, 2, 8192, 32, 2, scores="flat", v_mean=20.0)),
        Case("8 heads for 2, 2048 keys, 8 shares", "performance", one_token(2, 4, 2048, 32, 8)),
    ],
    oracle=decoded,
    budget=kernel_budget,
    gates=GATES,
    criteria=[
        *correct("flash.flash_decode", {"ragged": 2, "empty": 2, "hard": 1, "half": 1}),
        Programs(16, 2, "performance"),
        Launches(2, 1),
        Traffic(cache_bytes, 2, at_most=1.05, title=say("flash.flash_decode.title_traffic"), programs=0),
    ],
    bonus=[
        Speed(
            say("flash.flash_decode.vs_speed"),
            Case("32 heads for 8, 65,536 keys, bfloat16", "speed", one_token(8, 4, 65536, 128, 32, BF16)),
            lambda q, k, v, **_: k.nbytes + v.nbytes,
            full=0.75,
            none=0.4,
            points=2,
        )
    ],
    mistakes=[
        RACE,
        unstored,
        UNSCALED,
        OTHER_HEADS,
        *MERGES,
        POWERS_OF_2,
        few_programs,
        infinite,
        OVERFLOW_OF_SHARES,
        looks_like_tf32,
        rounded_result,
    ],
)
