"""Tiles against the number of SMs: waves, padding, and a model of throughput."""

from __future__ import annotations

import math
from functools import cache

from course_lib.catalogue import say
from course_lib.criteria import Holds, correct
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.cases import fixed, integer
from course_lib.exercises.tiling.cases import A100, H200, SLOW
from course_lib.exercises.tiling.oracles import (
    dealt,
    follows_the_model,
    pads_least,
    ranks_the_measured,
    slows_down,
    with_the_measured,
)
from course_lib.hardware.measurements import measured
from course_lib.mistakes import every

tiles_and_waves = Exercise(
    id="tiling.tiles_and_waves",
    signature="tiles_and_waves(m: int, n: int, bm: int, bn: int, sms: int) -> tuple[int, int]",
    kind="formula",
    effort=Effort(minutes=6, lines=2, difficulty=1),
    track="more",
    cases=[
        fixed("1024 squared, 128 x 128", "whole", m=1024, n=1024, bm=128, bn=128, sms=64),
        fixed("4096 squared, 128 x 256", "whole", m=4096, n=4096, bm=128, bn=256, sms=132),
        fixed("1792 on an A100", "cliffs", m=1792, n=1792, bm=256, bn=128, sms=108),
        fixed("1793 on an A100", "cliffs", m=1793, n=1793, bm=256, bn=128, sms=108),
        fixed("257 columns", "cliffs", m=100, n=257, bm=128, bn=256, sms=132),
        Case(
            "drawn sizes",
            "cliffs",
            lambda g: {
                "m": integer(g, 1, 3000),
                "n": integer(g, 1, 3000),
                "bm": 64,
                "bn": 128,
                "sms": integer(g, 1, 150),
            },
        ),
    ],
    oracle=dealt,
    criteria=correct("tiling.tiles_and_waves", {"whole": 2, "cliffs": 2}),
    mistakes=[
        every(
            lambda out, m, n, bm, bn, sms: isinstance(out, list) and out[:1] == [math.ceil(m * n / (bm * bn))],
            say("tiling.tiles_and_waves.by_area"),
        )
    ],
)

pad_to_multiple = Exercise(
    id="tiling.pad_to_multiple",
    signature="pad_to_multiple(n: int, multiple: int) -> int",
    kind="formula",
    effort=Effort(minutes=5, lines=1, difficulty=1),
    track="more",
    cases=[
        fixed("GPT-2's vocabulary", "plain", n=50257, multiple=64),
        fixed("already one", "plain", n=4096, multiple=64),
        fixed("one more", "plain", n=257, multiple=256),
        Case("a drawn size", "plain", lambda g: {"n": integer(g, 1, 9000), "multiple": integer(g, 2, 200)}),
    ],
    oracle=lambda n, multiple: None,
    criteria=[Holds(pads_least, 2, say("tiling.pad_to_multiple.title_plain"))],
    mistakes=[
        every(
            lambda out, n, multiple: out == (n // multiple + 1) * multiple, say("tiling.pad_to_multiple.one_too_many")
        )
    ],
)


# each with the next multiple of 8, which has as many waves
MISALIGNED = [1025, 1026, 1028, 1032, 2047, 2048, 3002, 3008, 4100, 4104]


@cache
def measured_sizes() -> list[int]:
    """List the sizes of the recorded curve."""
    return [n for n, _ in measured("mystery_plot")["curve"]["points"]]


predicted_throughput = Exercise(
    id="tiling.predicted_throughput",
    signature="predicted_throughput(sizes, bm, bn, sms, flops_per_second, bytes_per_second, launch_seconds) -> list[float]",
    kind="formula",
    effort=Effort(minutes=45, lines=10, difficulty=3),
    track="more",
    cases=[
        fixed("small sizes", "roofline", sizes=[8, 64, 128, 256], bm=128, bn=128, **SLOW),
        fixed("around a cliff", "waves", sizes=[1776, 1792, 1800, 2048, 4096], bm=256, bn=128, **A100),
        fixed("an H200", "waves", sizes=[1024, 1408, 1416, 2816, 3000], bm=128, bn=128, **H200),
        fixed("odd and even", "alignment", sizes=MISALIGNED, bm=128, bn=128, **H200),
        Case("230 sizes on an H200", "measured", lambda g: {"sizes": measured_sizes(), "bm": 128, "bn": 128, **H200}),
    ],
    oracle=lambda **_: None,
    criteria=[
        Holds(follows_the_model, 2, say("tiling.predicted_throughput.title_roofline"), "roofline"),
        Holds(follows_the_model, 4, say("tiling.predicted_throughput.title_waves"), "waves"),
        Holds(slows_down, 2, say("tiling.predicted_throughput.title_alignment"), "alignment"),
        Holds(
            ranks_the_measured,
            2,
            say("tiling.predicted_throughput.title_measured"),
            "measured",
            told=lambda output, sizes, **_: f"{with_the_measured(output, sizes):.3f}",
        ),
    ],
)
