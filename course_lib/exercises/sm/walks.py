"""Plans of who works on which tile, and when: as many programs as SMs, each with a list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from course_lib.catalogue import say
from course_lib.criteria import Holds
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.cases import fixed
from course_lib.exercises.tiling import oracles
from course_lib.mistakes import every
from course_lib.words import in_words
from tritontrace.tracing import grouped, row_major

# ------------------------------------------------------------------------------------------------ whole tiles


def in_time(lists: Sequence[Sequence[Any]]) -> list[Any]:
    """List the tiles in the order in which they begin: the first of each program, then the second of each, and so on."""
    turns = max(map(len, lists), default=0)
    return [own[turn] for turn in range(turns) for own in lists if turn < len(own)]


def is_dealt(output: Any, grid_m: int, grid_n: int, sms: int, **_: Any) -> str:
    """Return "" if each tile has one program, and no program has more than the mean, rounded up; else a message."""
    said = say("sm.persistent_order.grid", grid_m=grid_m, grid_n=grid_n, programs=sms)
    owner: dict[tuple[int, int], int] = {}
    for pid, own in enumerate(output):
        if not isinstance(own, list):
            return say("sm.persistent_order.no_list", given=said, program=pid, got=in_words(own))
        for tile in own:
            if not isinstance(tile, list) or [type(x) for x in tile] != [int, int]:
                return say("sm.persistent_order.no_tile", given=said, program=pid, got=in_words(tile))
            if not (0 <= tile[0] < grid_m and 0 <= tile[1] < grid_n):
                return say("sm.persistent_order.outside", given=said, program=pid, tile=str(tuple(tile)))
            if tuple(tile) in owner:
                return say(
                    "sm.persistent_order.twice", given=said, one=owner[tuple(tile)], other=pid, tile=str(tuple(tile))
                )
            owner[tuple(tile)] = pid
    if len(owner) < grid_m * grid_n:
        return say(
            "sm.persistent_order.missing", given=said, missing=grid_m * grid_n - len(owner), tiles=grid_m * grid_n
        )
    busiest, most = max(map(len, output)), next(n for n in range(len(owner) + 1) if n * sms >= len(owner))
    return "" if busiest <= most else say("sm.persistent_order.busiest", given=said, busiest=busiest, most=most)


def shares_l2(output: Any, grid_m: int, grid_n: int, sms: int, **_: Any) -> str:
    """Return "" if the L2 model reads at most 0.65 of the DRAM bytes of row order, else a message."""
    problem = is_dealt(output, grid_m, grid_n, sms)
    if problem:
        return problem
    share = dram_share(output, grid_m, grid_n, sms)
    return "" if share <= 0.65 else say("sm.persistent_order.dram", share=share)


def dram_share(lists: Sequence[Sequence[Any]], grid_m: int, grid_n: int, sms: int, steps: int = 16) -> float:
    """Return the DRAM bytes of unit 05's L2 model, when all programs begin their tiles together, divided by those of row order."""
    return oracles.dram_share(in_time(lists), grid_m, grid_n, steps, sms)


def grid(name: str, group_of: str, grid_m: int, grid_n: int, sms: int, group: int) -> Case:
    """Make a case: a grid of tiles, and this many programs."""
    return fixed(name, group_of, programs=sms, sms=sms, grid_m=grid_m, grid_n=grid_n, group=group)


def lists_are(made: Callable[..., list[list[Any]]]) -> Callable[..., bool]:
    """Make a function that tells whether the lists are those of the mistake `made`."""
    return lambda out, **case: (
        isinstance(out, list) and all(isinstance(x, list) for x in out) and out == made(**case) != []
    )


def _in_rows(grid_m: int, grid_n: int, sms: int, **_: Any) -> list[list[Any]]:
    order = row_major(grid_m, grid_n).tolist()
    return [order[pid::sms] for pid in range(sms)]


def _in_pieces(grid_m: int, grid_n: int, sms: int, group: int, **_: Any) -> list[list[Any]]:
    order = grouped(grid_m, grid_n, group).tolist()
    each = -(-len(order) // sms)
    return [order[pid * each : (pid + 1) * each] for pid in range(sms)]


def _full_groups(grid_m: int, grid_n: int, sms: int, group: int, **_: Any) -> list[list[Any]]:
    def tile(number: int) -> list[int]:
        within = number % (group * grid_n)
        return [number // (group * grid_n) * group + within % group, within // group]

    return [[tile(number) for number in range(pid, grid_m * grid_n, sms)] for pid in range(sms)]


def _whole_rounds(grid_m: int, grid_n: int, sms: int, group: int, **_: Any) -> list[list[Any]]:
    order = grouped(grid_m, grid_n, group).tolist()
    return [order[pid : len(order) // sms * sms : sms] for pid in range(sms)] if len(order) % sms else []


persistent_order = Exercise(
    id="sm.persistent_order",
    signature="persistent_order(pid, sms, grid_m, grid_n, group) -> list[tuple[int, int]]",
    kind="formula",
    without=["tritontrace.tracing.cache"],
    called="for every program",
    effort=Effort(minutes=15, lines=9, difficulty=3),
    cases=[
        grid("8 x 6 tiles, 5 programs", "dealt", 8, 6, 5, 4),
        grid("9 x 5 tiles, 7 programs", "dealt", 9, 5, 7, 4),
        grid("2 x 3 tiles, 8 programs", "dealt", 2, 3, 8, 4),
        grid("16 x 33 tiles, 132 programs", "dealt", 16, 33, 132, 8),
        grid("48 x 48 tiles, 132 programs", "cache", 48, 48, 132, 8),
        grid("50 x 47 tiles, 132 programs", "cache", 50, 47, 132, 8),
    ],
    oracle=lambda **_: None,
    criteria=[
        Holds(is_dealt, 2, say("sm.persistent_order.title_dealt"), "dealt"),
        Holds(
            shares_l2,
            2,
            say("sm.persistent_order.title_cache"),
            "cache",
            told=lambda out, grid_m, grid_n, sms, **_: f"{dram_share(out, grid_m, grid_n, sms):.2f}",
        ),
    ],
    mistakes=[
        every(lists_are(_in_rows), say("sm.persistent_order.rows")),
        every(lists_are(_in_pieces), say("sm.persistent_order.a_piece_each")),
        every(lists_are(_full_groups), say("sm.persistent_order.the_last_group_is_full")),
        every(lists_are(_whole_rounds), say("sm.persistent_order.last_round")),
    ],
)

# ------------------------------------------------------------------------------------------------ parts of tiles

Piece = list[int]


def covers(output: Any, tiles: int, steps: int, sms: int, **_: Any) -> str:
    """Return "" if the pieces make up each step of each tile once, else a message."""
    said = say("sm.balanced_walk.task", tiles=tiles, steps=steps, programs=sms)
    done = np.zeros((tiles, steps), int)
    for pid, own in enumerate(output):
        if not isinstance(own, list):
            return say("sm.balanced_walk.no_list", given=said, program=pid, got=in_words(own))
        for piece in own:
            if not isinstance(piece, list) or [type(x) for x in piece] != [int, int, int]:
                return say("sm.balanced_walk.no_piece", given=said, program=pid, got=in_words(piece))
            tile, first, end = piece
            if not (0 <= tile < tiles and 0 <= first < end <= steps):
                asked = say("sm.balanced_walk.asked", tiles=tiles, steps=steps)
                return say("sm.balanced_walk.outside", given=said, program=pid, piece=str(tuple(piece)), asked=asked)
            done[tile, first:end] += 1
    if (done != 1).any():
        tile, step = map(int, np.argwhere(done != 1)[0])
        return say("sm.balanced_walk.step", given=said, step=step, tile=tile, times=int(done[tile, step]))
    return ""


def is_balanced(output: Any, tiles: int, steps: int, sms: int, **_: Any) -> str:
    """Return "" if no program has more than one step above the mean, else a message."""
    problem = covers(output, tiles, steps, sms)
    if problem:
        return problem
    loads = [sum(end - first for _, first, end in own) for own in output]
    busiest, mean = max(loads), tiles * steps / sms
    return "" if busiest < mean + 1 else say("sm.balanced_walk.busiest", busiest=busiest, mean=mean)


def is_in_few_pieces(output: Any, tiles: int, steps: int, sms: int, **_: Any) -> str:
    """Return "" if there is less than one cut for each program, else a message."""
    problem = covers(output, tiles, steps, sms)
    pieces = 0 if problem else sum(map(len, output))
    most = tiles + sms - 1
    return problem or ("" if pieces <= most else say("sm.balanced_walk.pieces", pieces=pieces, most=most))


def shares(name: str, group: str, tiles: int, steps: int, sms: int) -> Case:
    """Make a case: tiles, each with this many steps along K, and programs."""
    return fixed(name, group, programs=sms, sms=sms, tiles=tiles, steps=steps)


def _whole_tiles(tiles: int, steps: int, sms: int, **_: Any) -> list[list[Piece]]:
    return [[[tile, 0, steps] for tile in range(pid, tiles, sms)] for pid in range(sms)]


def _rest_to_the_last(tiles: int, steps: int, sms: int, **_: Any) -> list[int]:
    each = tiles * steps // sms
    return [each] * (sms - 1) + [tiles * steps - each * (sms - 1)]


def _rounded_down(tiles: int, steps: int, sms: int, **_: Any) -> list[int]:
    return [tiles * steps // sms] * sms


def _loads_are(guess: Callable[..., list[int]]) -> Callable[..., bool]:
    def matches(out: Any, **case: Any) -> bool:
        try:
            loads = [sum(end - first for _, first, end in own) for own in out]
        except (TypeError, ValueError):  # no pieces
            return False
        return loads == guess(**case)

    return matches


balanced_walk = Exercise(
    id="sm.balanced_walk",
    signature="balanced_walk(pid, sms, tiles, steps) -> list[tuple[int, int, int]]",
    kind="formula",
    called="for every program",
    effort=Effort(minutes=15, lines=8, difficulty=3),
    cases=[
        shares("4 tiles of 6 steps, 3 programs", "covered", 4, 6, 3),
        shares("140 tiles of 64 steps, 132 programs", "covered", 140, 64, 132),
        shares("1 tile of 10 steps, 4 programs", "covered", 1, 10, 4),
        shares("2 tiles of 3 steps, 8 programs", "covered", 2, 3, 8),
        shares("140 tiles of 64 steps, 132 programs", "balanced", 140, 64, 132),
        shares("7 tiles of 5 steps, 8 programs", "balanced", 7, 5, 8),
        shares("132 tiles of 16 steps, 132 programs", "balanced", 132, 16, 132),
        shares("300 tiles of 7 steps, 132 programs", "balanced", 300, 7, 132),
    ],
    oracle=lambda **_: None,
    criteria=[
        Holds(covers, 2, say("sm.balanced_walk.title_covered"), "covered"),
        Holds(is_balanced, 1, say("sm.balanced_walk.title_balanced"), "balanced"),
        Holds(is_in_few_pieces, 1, say("sm.balanced_walk.title_is_in_few_pieces"), "balanced"),
    ],
    mistakes=[
        every(lists_are(_whole_tiles), say("sm.balanced_walk.whole_tiles")),
        every(_loads_are(_rest_to_the_last), say("sm.balanced_walk.the_last_one_gets_the_rest")),
        every(_loads_are(_rounded_down), say("sm.balanced_walk.rounded_down")),
    ],
)

EXERCISES = (persistent_order, balanced_walk)
