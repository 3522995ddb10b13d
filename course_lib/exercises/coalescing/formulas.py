"""Sectors, efficiency, padding and divergence by their formulas."""

from __future__ import annotations

import itertools

import torch

from course_lib.catalogue import say
from course_lib.criteria import Correct, Holds, correct
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.cases import fixed, integer
from course_lib.exercises.coalescing.oracles import passes, starts_sectors, traced
from course_lib.mistakes import miscounted, on_exception

sectors_touched = Exercise(
    id="coalescing.sectors_touched",
    signature="sectors_touched(addresses: list[int], itemsize: int) -> int",
    kind="formula",
    effort=Effort(minutes=5, lines=3, difficulty=1),
    cases=[
        Case("32 neighbours", "strides", lambda g: {"addresses": [4 * i for i in range(32)], "itemsize": 4}),
        Case("stride 2", "strides", lambda g: {"addresses": [128 + 8 * i for i in range(32)], "itemsize": 4}),
        Case("stride 8, doubles", "strides", lambda g: {"addresses": [64 * i for i in range(32)], "itemsize": 8}),
        Case("one address", "strides", lambda g: {"addresses": [96] * 32, "itemsize": 2}),
        Case(
            "any order",
            "order",
            lambda g: {"addresses": (4 * torch.randint(0, 500, (32,), generator=g)).tolist(), "itemsize": 4},
        ),
        Case("no lane", "order", lambda g: {"addresses": [], "itemsize": 4}),
        Case("one that just fits", "straddling", lambda g: {"addresses": [24], "itemsize": 8}),
        Case("one that straddles", "straddling", lambda g: {"addresses": [30], "itemsize": 4}),
        Case(
            "unaligned",
            "straddling",
            lambda g: {"addresses": torch.randint(0, 2000, (24,), generator=g).tolist(), "itemsize": 8},
        ),
    ],
    # every byte that is wanted, one by one
    oracle=lambda addresses, itemsize: len({b // 32 for a in addresses for b in range(a, a + itemsize)}),
    criteria=correct("coalescing.sectors_touched", {"strides": 2, "order": 1, "straddling": 2}),
)

strided_efficiency = Exercise(
    id="coalescing.strided_efficiency",
    signature="strided_efficiency(stride: int, itemsize: int) -> float",
    kind="formula",
    effort=Effort(minutes=5, lines=3, difficulty=2),
    track="more",
    cases=[
        *(fixed(f"float32, stride {s}", "float32", stride=s, itemsize=4) for s in (1, 2, 4, 8, 32)),
        *(
            fixed(f"stride {s}, {b} bytes", "other dtypes", stride=s, itemsize=b)
            for s, b in ((3, 4), (5, 2), (7, 1), (33, 1), (3, 8), (16, 2))
        ),
        Case("a drawn stride", "other dtypes", lambda g: {"stride": integer(g, 1, 40), "itemsize": 2}),
    ],
    oracle=lambda stride, itemsize: traced(itemsize, step=stride, lanes=32).efficiency,
    rel_tol=1e-6,  # it may be computed in float32
    criteria=correct("coalescing.strided_efficiency", {"float32": 2, "other dtypes": 2}),
    mistakes=[on_exception("NoneType", say("coalescing.strided_efficiency.unsolved"))],
)

PROBES = {
    "neighbours": {"itemsize": 4},
    "every_fourth": {"itemsize": 2, "step": 4},
    "shifted": {"itemsize": 4, "start": 1},
    "half_masked": {"itemsize": 4, "every": 2},
    "column": {"itemsize": 4, "step": 1000, "lanes": 64},
}

predictions = Exercise(
    id="coalescing.predictions",
    signature="predicted_sectors: dict[str, int]",
    kind="values",
    effort=Effort(minutes=5, lines=5, difficulty=2),
    cases=[fixed("five kernels", "plain")],
    oracle=lambda: {name: traced(**options).sectors for name, options in PROBES.items()},
    criteria=[Correct("plain", 5, say("coalescing.predictions.title_plain"))],
    mistakes=[
        miscounted(
            {
                ("neighbours", 32): say("coalescing.predictions.requests_not_sectors"),
                ("every_fourth", 512): say("coalescing.predictions.every_fourth_float"),
                ("every_fourth", 1024): say("coalescing.predictions.every_fourth"),
                ("shifted", 129): say("coalescing.predictions.a_shift_costs_one_sector_in_all"),
                ("shifted", 128): say("coalescing.predictions.shifted"),
                ("half_masked", 64): say("coalescing.predictions.a_mask_saves_half"),
                ("column", 2): say("coalescing.predictions.a_column_is_one_request"),
                ("column", 32): say("coalescing.predictions.column"),
                **{("column", wrong): say("coalescing.predictions.column_is_one") for wrong in (1, 8, 16)},
                ("neighbours", 4): say("coalescing.predictions.neighbours_of_one_request"),
            }
        )
    ],
)

padded_stride = Exercise(
    id="coalescing.padded_stride",
    signature="padded_stride(n: int, itemsize: int) -> int",
    kind="formula",
    effort=Effort(minutes=5, lines=2, difficulty=1),
    cases=[
        *(
            fixed(f"{n} elements of {b} bytes", "plain", n=n, itemsize=b)
            for n, b in ((1001, 4), (1000, 4), (1, 4), (17, 2), (20, 1), (31, 1), (13, 8), (64, 2))
        ),
        Case("a drawn length", "plain", lambda g: {"n": integer(g, 1, 600), "itemsize": 4}),
    ],
    oracle=lambda n, itemsize: next(s for s in itertools.count(n) if s * itemsize % 32 == 0),
    criteria=[
        Holds(starts_sectors, 2, say("coalescing.padded_stride.title_plain")),
        Correct("plain", 2, say("coalescing.padded_stride.title_least")),
    ],
)

divergence_passes = Exercise(
    id="coalescing.divergence_passes",
    signature="divergence_passes(taken: list[bool], warp: int = 32) -> int",
    kind="formula",
    effort=Effort(minutes=5, lines=2, difficulty=1),
    track="more",
    cases=[
        Case("two that agree", "whole warps", lambda g: {"taken": [True] * 32 + [False] * 32}),
        Case("every other lane", "whole warps", lambda g: {"taken": [i % 2 == 0 for i in range(128)]}),
        Case("one lane of 64", "whole warps", lambda g: {"taken": [i == 40 for i in range(64)]}),
        Case("drawn lanes", "whole warps", lambda g: {"taken": (torch.rand(256, generator=g) < 0.03).tolist()}),
        Case("50 threads", "short warps", lambda g: {"taken": [i < 40 for i in range(50)]}),
        Case("warps of 8", "short warps", lambda g: {"taken": [i < 20 for i in range(61)], "warp": 8}),
        Case("40 that agree", "short warps", lambda g: {"taken": [True] * 40}),
        Case("no thread", "short warps", lambda g: {"taken": []}),
    ],
    oracle=passes,
    criteria=correct("coalescing.divergence_passes", {"whole warps": 2, "short warps": 2}),
)
