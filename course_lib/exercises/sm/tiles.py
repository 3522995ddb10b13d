"""Tiles within tiles: of a program, of a warp, of a thread, and the bytes that each asks of the memory below it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from course_lib.catalogue import say
from course_lib.criteria import correct
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.cases import fixed
from course_lib.exercises.sm.wrong_numbers import guessed
from course_lib.mistakes import MistakeMatcher


def parts(tile: Sequence[int], of: Sequence[int]) -> list[tuple[range, range]]:
    """List the (rows, columns) of each part of a tile; those at the edges may be smaller."""
    (M, N), (m, n) = tile, of
    return [(range(i, min(i + m, M)), range(j, min(j + n, N))) for i in range(0, M, m) for j in range(0, N, n)]


def fetched(tile: Sequence[int], of: Sequence[int], bk: int, itemsize: int) -> int:
    """Count the bytes of a and b that the parts of a tile fetch in a step along K: each part fetches each number that it needs once."""
    numbers = 0
    for rows, columns in parts(tile, of):
        numbers += len({("a", m, k) for m in rows for k in range(bk)})
        numbers += len({("b", k, n) for n in columns for k in range(bk)})
    return numbers * itemsize


def three_levels(
    tile: Sequence[int], warp_tile: Sequence[int], thread_tile: Sequence[int], bk: int, itemsize: int
) -> tuple[int, int, int]:
    """Count the bytes of one step along K: into shared memory, out of it for the warps, into the registers of threads."""
    of_threads = sum(
        fetched((len(rows), len(columns)), thread_tile, bk, itemsize) for rows, columns in parts(tile, warp_tile)
    )
    return fetched(tile, tile, bk, itemsize), fetched(tile, warp_tile, bk, itemsize), of_threads


def nest(
    name: str, group: str, tile: tuple[int, int], warp_tile: tuple[int, int], thread_tile: tuple[int, int], **more: int
) -> Case:
    """Make a case: the tiles of a program, of a warp and of a thread."""
    more = {"bk": 8, "itemsize": 4} | more
    return fixed(name, group, tile=list(tile), warp_tile=list(warp_tile), thread_tile=list(thread_tile), **more)


def fetches(guess: Callable[..., Any], sentence: str, place: int | None = None) -> MistakeMatcher:
    """Make a matcher that returns `sentence` if all three results, or the one at that place, are those of `guess`."""

    def right(**case: Any) -> Any:
        return three_levels(**case) if place is None else three_levels(**case)[place]

    return guessed(guess, right, sentence, place)


def _once(tile, warp_tile, thread_tile, bk, itemsize):
    """Everybody fetches what the program fetches."""
    return [fetched(tile, tile, bk, itemsize)] * 3


def _results(tile, warp_tile, thread_tile, bk, itemsize):
    """The results are fetched, too."""
    return [n + tile[0] * tile[1] * itemsize for n in three_levels(tile, warp_tile, thread_tile, bk, itemsize)]


def _products(tile, warp_tile, thread_tile, bk, itemsize):
    """Each multiply-add fetches both of its factors."""
    return 2 * tile[0] * tile[1] * bk * itemsize


def _one_k(tile, warp_tile, thread_tile, bk, itemsize):
    """A step of one k."""
    return three_levels(tile, warp_tile, thread_tile, 1, itemsize)


def _numbers(tile, warp_tile, thread_tile, bk, itemsize):
    """Numbers are counted, not bytes."""
    return three_levels(tile, warp_tile, thread_tile, bk, 1)


def _by_area(tile, warp_tile, thread_tile, bk, itemsize):
    """The parts are counted by area."""
    (M, N), (m, n) = tile, warp_tile
    return M * N // (m * n) * (m + n) * bk * itemsize


def _threads_by_area(tile, warp_tile, thread_tile, bk, itemsize):
    """The threads' parts are counted by area."""
    return _by_area(tile, thread_tile, thread_tile, bk, itemsize)


def _swapped(tile, warp_tile, thread_tile, bk, itemsize):
    """Rows of a are fetched once for each row of parts, and columns of b once for each column of them."""
    (M, N), (m, n) = tile, warp_tile
    return (M * -(-M // m) + N * -(-N // n)) * bk * itemsize


def _whole_at_edges(tile, warp_tile, thread_tile, bk, itemsize):
    """The parts at the edges are counted as whole ones."""
    return len(parts(tile, warp_tile)) * sum(warp_tile) * bk * itemsize


def _threads_whole_at_edges(tile, warp_tile, thread_tile, bk, itemsize):
    """The warp tiles at the edges are counted as whole ones, with all of their threads."""
    return len(parts(tile, warp_tile)) * fetched(warp_tile, thread_tile, bk, itemsize)


def _across_warps(tile, warp_tile, thread_tile, bk, itemsize):
    """Thread tiles are cut out of the program's tile."""
    return fetched(tile, thread_tile, bk, itemsize)


def _whole_parts(tile, warp_tile, thread_tile, bk, itemsize):
    """The parts that are whole alone are counted."""
    (M, N), (m, n) = tile, warp_tile
    return (M * max(1, N // n) + N * max(1, M // m)) * bk * itemsize


warp_tile_bytes = Exercise(
    id="sm.warp_tile_bytes",
    signature="warp_tile_bytes(tile, warp_tile, thread_tile, bk: int, itemsize: int) -> tuple[int, int, int]",
    kind="formula",
    effort=Effort(minutes=15, lines=8, difficulty=3),
    cases=[
        nest("128 x 128, warps of 64 x 32, threads of 8 x 8", "whole", (128, 128), (64, 32), (8, 8)),
        nest("the same, threads of 4 x 4", "whole", (128, 128), (64, 32), (4, 4)),
        nest("a wide tile, halves", "whole", (64, 256), (32, 64), (8, 4), bk=16, itemsize=2),
        nest("a number each", "whole", (32, 32), (16, 16), (1, 1)),
        nest("one warp", "whole", (32, 64), (32, 64), (8, 8)),
        nest("the last columns of a product", "edges", (128, 80), (64, 32), (8, 8)),
        nest("the last rows", "edges", (40, 96), (32, 32), (8, 4), bk=4),
        nest("threads that do not divide a warp's tile", "edges", (24, 24), (12, 12), (8, 8), bk=1, itemsize=1),
        nest("threads at an edge", "edges", (30, 60), (16, 32), (4, 8), bk=4),
    ],
    oracle=three_levels,
    criteria=correct("sm.warp_tile_bytes", {"whole": 2, "edges": 2}),
    mistakes=[
        fetches(_once, say("sm.warp_tile_bytes.all_share_registers")),
        fetches(_results, say("sm.warp_tile_bytes.sums_as_well")),
        fetches(_products, say("sm.warp_tile_bytes.two_loads_for_each_product"), 2),
        fetches(_one_k, say("sm.warp_tile_bytes.one_k")),
        fetches(_by_area, say("sm.warp_tile_bytes.area"), 1),
        fetches(_threads_by_area, say("sm.warp_tile_bytes.area"), 2),
        fetches(_swapped, say("sm.warp_tile_bytes.swapped"), 1),
        fetches(_whole_at_edges, say("sm.warp_tile_bytes.whole_at_edges"), 1),
        fetches(_threads_whole_at_edges, say("sm.warp_tile_bytes.whole_at_edges"), 2),
        fetches(lambda **case: three_levels(**case)[1], say("sm.warp_tile_bytes.once_for_a_warp"), 2),
        fetches(_numbers, say("sm.warp_tile_bytes.numbers")),
        *(
            fetches(lambda tile, bk, itemsize, of=of, **_: of(*tile) * bk * itemsize, says, 0)
            for of, says in (
                (lambda M, N: M, say("sm.warp_tile_bytes.one_factor")),
                (lambda M, N: N, say("sm.warp_tile_bytes.one_factor")),
                (lambda M, N: M * N, say("sm.warp_tile_bytes.multiplied")),
            )
        ),
        fetches(_across_warps, say("sm.warp_tile_bytes.across_warps"), 2),
        fetches(_whole_parts, say("sm.warp_tile_bytes.rounded_down"), 1),
    ],
)

EXERCISES = (warp_tile_bytes,)
