"""The published answers to twists (course_lib/exercises/twists.py): for instructors, and for the tests of the judge.

Each is the published solution with some text replaced. `{n}` stands for the number in a twist's name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from course_lib.exercises import twists
from course_lib.exercises.twists import Twist
from grader import published

Patches = Sequence[tuple[str, str]]  # old, new

_SCALED: Patches = [("D**-0.5", "{n} * D**-0.5")]
_SOFTMAXES: Mapping[str, Patches] = {
    "divided by {n}": [("x = x.to(tl.float32)", "x = x.to(tl.float32) / {n}")],
    "powers of 2": [("tl.exp(", "tl.exp2(")],
}
PATCHES: Mapping[str, Mapping[str, Patches]] = {
    "coalescing.row_copy": {
        "times {n}": [("cols, tile,", "cols, tile * {n},")],
        "rows backwards": [("x_ptr + rows * row_stride", "x_ptr + (M - 1 - rows) * row_stride")],
        "columns backwards": [("* row_stride + cols", "* row_stride + N - 1 - cols")],
    },
    "coalescing.gather_rows": {
        "times {n}": [("cols, tile,", "cols, tile * {n},")],
        "rows backwards": [("index_ptr + k,", "index_ptr + K - 1 - k,")],
        "columns backwards": [("* row_stride + cols", "* row_stride + N - 1 - cols")],
    },
    "coalescing.transpose": {
        "times {n}": [("rows, tile,", "rows, tile * {n},")],
        "rows backwards": [("x_ptr + rows * stride_m", "x_ptr + (M - 1 - rows) * stride_m")],
        "columns backwards": [("+ cols * stride_n", "+ (N - 1 - cols) * stride_n")],
    },
    "coalescing.column_sum": {
        "squares": [("total += tile.to(tl.float32)", "tile = tile.to(tl.float32)\n        total += tile * tile")],
        "absolute values": [("total += tile.to(tl.float32)", "total += tl.abs(tile.to(tl.float32))")],
        "positive parts": [("total += tile.to(tl.float32)", "total += tl.maximum(tile.to(tl.float32), 0)")],
        "minus {n}": [("total += tile.to(tl.float32)", "total += tl.where(rows < M, tile.to(tl.float32) - {n}, 0)")],
    },
    "tiling.one_step": {
        "times {n}": [("tl.dot(a, b).to", "(tl.dot(a, b) * {n}).to")],
        "positive parts": [("tl.dot(a, b).to", "tl.maximum(tl.dot(a, b), 0).to")],
        "absolute values": [("tl.dot(a, b).to", "tl.abs(tl.dot(a, b)).to")],
    },
    "tiling.matmul": {
        "times {n}": [("acc.to(", "(acc * {n}).to(")],
        "positive parts": [("acc.to(", "tl.maximum(acc, 0).to(")],
        "absolute values": [("acc.to(", "tl.abs(acc).to(")],
    },
    "fusion.sin2_plus_cos2": {
        "sine times {n}": [("sine * sine + cosine", "{n} * sine * sine + cosine")],
        "exchanged": [("sine = tl.sin(", "sine = tl.cos("), ("cosine = tl.cos(", "cosine = tl.sin(")],
        "product": [("sine * sine + cosine", "sine * sine * cosine")],
    },
    "fusion.softmax": _SOFTMAXES,
    "fusion.online_softmax": {
        "divided by {n}": [
            ("x = x.to(tl.float32)", "x = x.to(tl.float32) / {n}"),
            ('"evict_first").to(tl.float32)', '"evict_first").to(tl.float32) / {n}'),
        ],
        "powers of 2": [("tl.exp(", "tl.exp2(")],
    },
    "fusion.cross_entropy": {"divided by {n}": [(".to(tl.float32)", ".to(tl.float32) / {n}")]},
    "recomputation.cross_entropy_backward": {
        "smoothed by {n} %": [
            ("tl.where(offs_n == target, 1.0, 0.0)", "tl.where(offs_n == target, 1 - {n} / 100, 0) - {n} / 100 / V")
        ]
    },
    "flash.one_head": {"scale times {n}": _SCALED},
    "flash.causal_one_head": {"scale times {n}": _SCALED},
    "flash_backward.dkdv_one_head": {
        "times {n}": [("(dk * scale).to", "({n} * dk * scale).to"), ("dv.to(dv_ptr", "({n} * dv).to(dv_ptr")]
    },
}


def source(exercise_id: str, twist: Twist) -> str:
    """Return the source of the published answer to a twist. Raises ValueError if a patch does not apply."""
    known, number = PATCHES[exercise_id], ""
    if twist.key not in known:
        number = re.findall(r"-?[\d.]+", twist.key)[0]
    text = published.solution_cell(exercise_id)
    for old, new in known[twist.key.replace(number, "{n}") if number else twist.key]:
        if old not in text:
            raise ValueError(f"{exercise_id}, {twist.key}: the published solution does not contain {old!r}")
        text = text.replace(old, new.replace("{n}", number))
    return text


def answer(exercise_id: str, twist: Twist) -> list[tuple[str, str]]:
    """Return the cells of the published answer to a twist."""
    return published.answer(exercise_id, source(exercise_id, twist))


def everything() -> list[tuple[str, Twist]]:
    """List each exercise with each of its twists."""
    return [(name, twist) for module in twists.TWISTED for name, of in twists.of_module(module).items() for twist in of]
