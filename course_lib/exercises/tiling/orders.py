"""Orders in which tiles are worked on."""

from __future__ import annotations

from course_lib.catalogue import say
from course_lib.criteria import Holds
from course_lib.exercise import Effort, Exercise
from course_lib.exercises.cases import fixed
from course_lib.exercises.tiling.cases import order_case
from course_lib.exercises.tiling.oracles import finishes_groups, is_an_order, saves_traffic, stays_near, touches
from course_lib.mistakes import every
from tritontrace.tracing import row_major

grouped_order = Exercise(
    id="tiling.grouped_order",
    signature="grouped_order(pid: int, grid_m: int, grid_n: int, group: int) -> tuple[int, int]",
    kind="formula",
    without=["tritontrace.tracing.cache"],
    called="for every program",
    effort=Effort(minutes=15, lines=5, difficulty=3),
    cases=[
        order_case("8 x 6 tiles, group 4", "plain", 8, 6, 4),
        order_case("6 x 9 tiles, group 1", "plain", 6, 9, 1),
        order_case("9 x 5 tiles, group 4", "ragged", 9, 5, 4),
        order_case("3 x 7 tiles, group 8", "ragged", 3, 7, 8),
        order_case("48 x 48 tiles, group 8", "cache", 48, 48, 8),
    ],
    oracle=lambda **_: None,
    criteria=[
        Holds(is_an_order, 1, say("tiling.grouped_order.title_plain")),
        Holds(finishes_groups, 2, say("tiling.grouped_order.title_finishes_groups")),
        Holds(finishes_groups, 2, say("tiling.grouped_order.title_ragged"), "ragged"),
        Holds(saves_traffic, 2, say("tiling.grouped_order.title_cache"), "cache"),
    ],
    mistakes=[
        every(
            lambda out, grid_m, grid_n, **_: out == row_major(grid_m, grid_n).tolist(),
            say("tiling.grouped_order.row_order"),
        ),
        every(
            lambda out, grid_m, grid_n, group, **_: (
                out
                == [
                    [p // (group * grid_n) * group + p % (group * grid_n) % group, p % (group * grid_n) // group]
                    for p in range(len(out))
                ]
            ),
            say("tiling.grouped_order.last_group_as_high_as_the_others"),
        ),
    ],
)

hilbert_order = Exercise(
    id="tiling.hilbert_order",
    signature="hilbert_order(pid: int, side: int) -> tuple[int, int]",
    kind="formula",
    without=["tritontrace.tracing.cache"],
    called="for every program",
    effort=Effort(minutes=40, lines=12, difficulty=4),
    track="more",
    cases=[
        fixed("side 2", "plain", programs=4, side=2),
        fixed("side 8", "plain", programs=64, side=8),
        fixed("side 1", "plain", programs=1, side=1),
        fixed("side 64", "cache", programs=4096, side=64),
    ],
    oracle=lambda **_: None,
    criteria=[
        Holds(touches, 4, say("tiling.hilbert_order.title_plain")),
        Holds(stays_near, 2, say("tiling.hilbert_order.title_stays_near")),
        Holds(saves_traffic, 1, say("tiling.hilbert_order.title_cache"), "cache"),
    ],
)
