"""Exercises on attention by tiles: merging states, skipping tiles, counting bytes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import torch

from course_lib.catalogue import say
from course_lib.criteria import Correct, Holds, correct
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.attention.cases import rearranged, states, tiled
from course_lib.exercises.attention.criteria import ATTENTION, LargestBuffer, Products
from course_lib.exercises.attention.forward_slips import no_infinities
from course_lib.exercises.attention.mistakes import (
    INVERSE_D,
    LAST_KEYS,
    LOST_TILES,
    MASKS,
    MERGES,
    OF_LSE,
    ROOT_D,
    STATES,
    UNDERFLOW,
    UNMASKED,
    UNSCALED,
    WALKS,
    has_nan,
    last_queries_unwritten,
)
from course_lib.exercises.attention.oracles import (
    any_order,
    attention_budget,
    merge_budget,
    merged,
    moved_bytes,
    output_and_lse,
    right_tiles,
    tiles_of,
)
from course_lib.exercises.cases import fixed
from course_lib.mistakes import every, for_cases

merge = Exercise(
    id="attention.merge",
    signature="merge(a, b) -> (m, l, acc), the state of both; each is (m: (...,), l: (...,), acc: (..., D))",
    effort=Effort(minutes=15, lines=7, difficulty=3),
    cases=[
        Case("10 queries", "plain", states(10)),
        Case("(2, 3, 5) queries", "plain", states(2, 3, 5, d=4)),
        Case("6 queries, b the larger", "plain", states(6, mean=(0, 5))),
        Case("b has seen nothing", "identity", states(7, nothing="b")),
        Case("a has seen nothing", "identity", states(7, nothing="a")),
        Case("neither has seen anything", "nothing", states(2, 7, nothing="both")),
        Case("scores near 1000 and 960", "large", states(9, mean=(1000, 960), spread=10)),
        Case("scores near -500 and 500", "large", states(9, mean=(-500, 500), spread=1)),
        Case("scores near -300 and -310", "large", states(9, mean=(-300, -310), spread=5)),
        Case("6 states, exchanged and regrouped", "order", rearranged()),
    ],
    oracle=merged,
    budget=merge_budget,
    allows=ATTENTION,
    gates=[Correct("plain")],
    criteria=[
        *correct("attention.merge", {"identity": 2, "nothing": 1, "large": 2}),
        Holds(any_order, 1, say("attention.merge.title_order"), "order"),
    ],
    mistakes=[
        *MERGES,
        has_nan(["identity", "nothing"], say("attention.merge.nan_of_two_empty_states")),
        has_nan(["large"], say("attention.merge.overflows")),
    ],
)

SHAPES = [(2, 2), (3, 2), (2, 3), (4, 1)]


def tile_cases(group: str, wanted: Callable[[int, int, int, int], bool]) -> list[Case]:
    """Make a case for every nq and nk from 1 to 8 and each of four tile shapes, if wanted(...) is true of them."""
    sides = range(1, 9)
    return [
        fixed(
            f"{nq} queries, {nk} keys, tiles of {bm} x {bn}", group, programs=-(-nq // bm), bm=bm, bn=bn, nq=nq, nk=nk
        )
        for (bm, bn), nq, nk in product(SHAPES, sides, sides)
        if wanted(nq % bm, nk % bn, nq, nk)
    ]


causal_tiles = Exercise(
    id="attention.causal_tiles",
    signature="causal_tiles(pid, bm, bn, nq, nk) -> tuple[int, int]: (full, end)",
    kind="formula",
    without=["course_lib.figures.attention"],
    called="for every program",
    effort=Effort(minutes=15, lines=5, difficulty=3),
    cases=[
        fixed("256 queries and keys, tiles of 64 x 32", "plain", programs=4, bm=64, bn=32, nq=256, nk=256),
        *tile_cases("plain", lambda qs, ks, nq, nk: qs == ks == 0 and nq == nk),
        *tile_cases("ragged", lambda qs, ks, nq, nk: bool(qs or ks) and nq == nk),
        *tile_cases("more keys", lambda qs, ks, nq, nk: nq < nk),
        *tile_cases("more queries", lambda qs, ks, nq, nk: nq > nk),
    ],
    oracle=tiles_of,
    criteria=[
        Holds(right_tiles, 2, say("attention.causal_tiles.title_plain")),
        Holds(right_tiles, 1, say("attention.causal_tiles.title_ragged"), "ragged"),
        Holds(right_tiles, 1, say("attention.causal_tiles.title_more_keys"), "more keys"),
        Holds(right_tiles, 1, say("attention.causal_tiles.title_more_queries"), "more queries"),
    ],
)


tiled_attention = Exercise(
    id="attention.tiled_attention",
    signature="tiled_attention(q, k, v, causal: bool, bm: int, bn: int) -> o: (..., Nq, D), lse: (..., Nq) float32",
    effort=Effort(minutes=35, lines=30, difficulty=4),
    cases=[
        Case("32 queries, 48 keys", "plain", tiled(32, 48, 16, 16, 16)),
        Case("(2, 3) heads, 37 queries, 50 keys", "ragged", tiled(37, 50, 16, 32, 24, lead=(2, 3), layout="heads")),
        Case("1 query, 33 keys", "ragged", tiled(1, 33, 32, 16, 16, layout="window")),
        Case("20 queries, 7 keys, one tile", "ragged", tiled(20, 7, 8, 64, 64)),
        Case("40 queries and keys, causal", "causal", tiled(40, 40, 16, 24, 16, causal=True)),
        Case("23 queries, 61 keys, causal", "causal", tiled(23, 61, 16, 16, 32, lead=(2,), causal=True)),
        Case("44 queries, 19 keys, causal", "nothing", tiled(44, 19, 16, 16, 12, lead=(2,), causal=True)),
        Case("large scores", "hard", tiled(24, 70, 16, 32, 24, scores="large")),
        Case("scores that rise from tile to tile", "hard", tiled(24, 70, 16, 32, 24, scores="rising", v_mean=20.0)),
        Case("one score of 80, at the last key", "hard", tiled(24, 65, 16, 32, 32, scores="last")),
        Case("scores near -200", "hard", tiled(24, 70, 16, 32, 32, scores="low")),
        Case("bfloat16, large scores", "half", tiled(30, 100, 32, 32, 48, torch.bfloat16, scores="large", v_mean=4.0)),
        Case("float16, rising scores", "half", tiled(33, 60, 32, 32, 24, torch.float16, scores="rising")),
        Case("bfloat16, 8 tiles of keys", "half", tiled(20, 125, 16, 32, 16, torch.bfloat16, lead=(2,))),
        Case("192 queries and keys", "performance", tiled(192, 192, 16, 48, 48)),
        Case("192 queries and keys, causal", "performance", tiled(192, 192, 16, 48, 48, causal=True)),
        Case("96 queries, 192 keys, causal", "performance", tiled(96, 192, 16, 48, 48, causal=True)),
    ],
    oracle=output_and_lse,
    budget=attention_budget,
    allows=ATTENTION,
    gates=[Correct("plain")],
    criteria=[
        *correct("attention.tiled_attention", {"ragged": 2, "causal": 2, "nothing": 1, "hard": 3, "half": 2}),
        LargestBuffer(
            lambda q, k, bm, **_: 4 * bm * k.shape[-2],
            2,
            say("attention.tiled_attention.title_largest_buffer"),
            # a column of ones next to v gives the sums of p
            longest=lambda q, bm, bn, **_: max(bm, bn, q.shape[-1] + 1),
        ),
        Products(2, say("attention.tiled_attention.title_products")),
    ],
    mistakes=[
        UNSCALED,
        UNMASKED,
        INVERSE_D,
        ROOT_D,
        *WALKS,
        *OF_LSE,
        LAST_KEYS,
        *MASKS,
        *LOST_TILES,
        *STATES,
        last_queries_unwritten,
        has_nan(["nothing", "causal"], say("attention.tiled_attention.0_0_where_nothing_was_seen"), no_infinities),
        has_nan(["hard"], say("attention.tiled_attention.no_running_maximum"), no_infinities),
        UNDERFLOW,
    ],
)

ASKED = [
    ("plain", 256, 64, 64, 64, 2, False),
    ("plain", 128, 32, 32, 64, 4, False),
    ("ragged", 200, 64, 64, 32, 2, False),
    ("ragged", 33, 16, 16, 32, 4, False),
    ("causal", 256, 64, 64, 64, 2, True),
    ("causal", 256, 32, 128, 32, 2, True),
    ("causal ragged", 256, 64, 32, 128, 2, True),
    ("causal ragged", 200, 64, 64, 32, 2, True),
    ("causal ragged", 130, 16, 32, 64, 4, True),
]
"""(group, n, d, bm, bn, itemsize, causal) of the public cases; all are in the table of traced footprints."""

NAMES = ("n", "d", "bm", "bn", "itemsize", "causal")


def causal_halved(output: int, n: int, d: int, itemsize: int, causal: bool, **tiles: int) -> bool:
    """Tell whether a causal pass, or only its k and v, were counted as half of a full pass."""
    whole, once = moved_bytes(n, d, itemsize=itemsize, causal=False, **tiles), 2 * n * d * itemsize + 4 * n
    return 2 * output in (whole, whole + once) if causal else output == whole


def of_one(output: int, n: int, d: int, itemsize: int, **a: Any) -> bool:
    """Tell whether k is counted without v, or v without k."""
    rest = 2 * n * d * itemsize + 4 * n
    return 2 * (output - rest) == moved_bytes(n, d, itemsize=itemsize, **a) - rest


def by_keys(output: int, n: int, d: int, bm: int, bn: int, itemsize: int, causal: bool) -> bool:
    """Tell whether a pass that is not causal has a program for each `bn` queries."""
    return output == 2 * n * d * itemsize * (1 + -(-n // bn)) + 4 * n


def padded_tiles(output: int, n: int, d: int, bm: int, bn: int, itemsize: int, causal: bool) -> bool:
    """Tell whether each tile of keys was counted as bn rows."""
    programs = -(-n // bm)
    tiles = sum(end for _, end in tiles_of(programs, bm, bn, n, n)) if causal else programs * -(-n // bn)
    return output == 2 * n * d * itemsize + 4 * n + 2 * tiles * bn * d * itemsize


flash_bytes = Exercise(
    id="attention.flash_bytes",
    signature="flash_bytes(n, d, bm, bn, itemsize, causal) -> int",
    kind="formula",
    without=["course_lib.figures.attention"],
    effort=Effort(minutes=15, lines=6, difficulty=3),
    track="more",
    cases=[
        fixed(f"n = {c[0]}, tiles of {c[2]} x {c[3]}{', causal' * c[5]}", group, **dict(zip(NAMES, c, strict=True)))
        for group, *c in ASKED
    ],
    oracle=moved_bytes,
    criteria=correct("attention.flash_bytes", {"plain": 1, "ragged": 1, "causal": 2, "causal ragged": 1}),
    mistakes=[
        every(lambda output, n, **a: output == moved_bytes(n, **a) - 4 * n, say("attention.flash_bytes.no_lse")),
        every(
            lambda output, n, itemsize, **a: output == moved_bytes(n, itemsize=itemsize, **a) + (itemsize - 4) * n,
            say("attention.flash_bytes.lse_is_float32"),
        ),
        every(of_one, say("attention.flash_bytes.k_or_v_alone")),
        for_cases(lambda case: "causal" not in case.group, every(by_keys, say("attention.flash_bytes.programs_by_bn"))),
        every(causal_halved, say("attention.flash_bytes.causal_costs_half")),
        every(padded_tiles, say("attention.flash_bytes.whole_tiles_alone")),
        every(
            lambda output, n, d, itemsize, **_: output in (4 * n * d * itemsize, 4 * n * d * itemsize + 4 * n),
            say("attention.flash_bytes.k_and_v_once"),
        ),
    ],
)
