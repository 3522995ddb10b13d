"""The L2 model: in which order programs start, what they then ask of the L2, and what the L2 must ask of DRAM.

    tiles = matmul_tiles(grouped(64, 64, 8), K=128, at_once=132, tile_bytes=128 * 64 * 2)
    curve = MissCurve(tiles)
    curve.dram_bytes(50 << 20)  # one cache size
    ax.step(curve.sizes, curve.dram_bytes(curve.sizes), where="post")  # all of them

    MissCurve(stream(t.steps[0], at_once=132))  # the same for a traced launch, in lines instead of tiles

The model: programs start in a given order, `at_once` of them together; these run in lock-step, one access at a time, and
when all are done the next ones start. The L2 is fully associative, drops the line that was not used for longest (LRU)
and begins empty. There is no L1. A GPU keeps none of these promises to the letter: the model explains an order, it does
not predict a time.

What counts is how many rows of A's tiles and columns of B's are needed by the programs that run together, and whether
they are still there for the next ones. fp16, tiles of 128 x 128 x 64:
    8192 x 8192 x 8192 on an H100: row order runs 2 x 64 tiles at once and fetches 4161 MiB; grouped(8) 8 x 17, 1388 MiB.
    8192 x 4096 x 4096 on an A100: the L2 holds all of B, so row order fetches A and B once, 96 MiB; grouped(8) crowds B
    out with twice 8 rows of A and fetches 290 MiB.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tritontrace.messages import say
from tritontrace.tracing.memory import Step

LINE = 128  # bytes
COLD = np.iinfo(np.int64).max  # stack distance of a first use: no cache is large enough


# ------------------------------------------------------------------------------------------------- program orders


def row_major(M: int, N: int) -> np.ndarray:
    """Return the tiles (m, n) of an M x N grid in start order, row after row: (M * N, 2).

    >>> row_major(2, 2).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    return grouped(M, N, 1)


def grouped(M: int, N: int, group: int) -> np.ndarray:
    """Return the tiles of an M x N grid, (M * N, 2): down the columns of `group` rows, then of the next; the last group may have fewer.

    Source: Triton's matrix multiplication tutorial, "L2 Cache Optimizations", GROUP_SIZE_M.

    >>> grouped(4, 2, group=2).tolist()
    [[0, 0], [1, 0], [0, 1], [1, 1], [2, 0], [3, 0], [2, 1], [3, 1]]
    """
    _at_least_one(M=M, N=N, group=group)
    program = np.arange(M * N)
    first, within = program // (group * N) * group, program % (group * N)
    rows = np.minimum(M - first, group)
    return np.stack([first + within % rows, within // rows], axis=1)


def hilbert(M: int, N: int) -> np.ndarray:
    """Return the tiles of an M x N grid, (M * N, 2), along Hilbert's curve, so that programs that start together always form a blob.

    A long grid is a row of squares whose curves join. Sides that are not powers of two cut the curve: what lies outside
    is skipped, and there consecutive tiles need not touch.
    Source: D. Hilbert, Math. Annalen 38 (1891); from distance to coordinates two bits at a time, lowest first.

    >>> hilbert(2, 2).tolist()
    [[0, 0], [0, 1], [1, 1], [1, 0]]
    """
    _at_least_one(M=M, N=N)
    short, long = sorted((M, N))
    side = 1 << (short - 1).bit_length()
    distance = np.arange(side * side)
    x, y = np.zeros_like(distance), np.zeros_like(distance)
    size = 1
    while size < side:  # four curves of this size make the next one: the first and the last are turned
        right = distance >> 1 & 1
        up = (distance ^ right) & 1
        mirrored = (right == 1) & (up == 0)
        x, y = np.where(mirrored, size - 1 - x, x), np.where(mirrored, size - 1 - y, y)
        x, y = np.where(up == 0, y, x) + size * right, np.where(up == 0, x, y) + size * up
        distance >>= 2
        size *= 2
    squares = np.arange(-(-long // side))  # each curve starts at x = 0 and ends at x = side - 1, both at y = 0
    along, across = (squares[:, None] * side + x).ravel(), np.tile(y, squares.size)
    inside = (along < long) & (across < short)
    tiles = np.stack([along, across] if M >= N else [across, along], axis=1)
    return tiles[inside]


# ------------------------------------------------------------------------------------------------- what the L2 is asked


@dataclass(frozen=True, eq=False)
class Stream:
    """Accesses in the order in which the L2 sees them.

    units       (n,) int64: which line or tile;  unit_bytes  bytes of one
    loads       (n,) bool: whether its content is wanted;  stores  (n,) bool: whether it changes.  An atomic does both.
    """

    units: np.ndarray
    unit_bytes: int
    loads: np.ndarray
    stores: np.ndarray

    @property
    def distinct(self) -> int:
        """Count the different units accessed."""
        return np.unique(self.units).size

    def then(self, other: Stream) -> Stream:
        """Return this stream followed by `other`, as two launches share the L2."""
        if self.unit_bytes != other.unit_bytes:
            raise ValueError(say("asked.cache.units", bytes=self.unit_bytes, other=other.unit_bytes))
        pairs = zip((self.units, self.loads, self.stores), (other.units, other.loads, other.stores), strict=True)
        units, loads, stores = map(np.concatenate, pairs)
        return Stream(units, self.unit_bytes, loads, stores)


def matmul_tiles(order: np.ndarray, K: int, at_once: int, tile_bytes: int = 1) -> Stream:
    """Return the stream of tiles of A and B that a tiled matmul loads; all have the same size. C, stored once, is left out.

    order       (programs, 2): tile (m, n) of C that each program computes, in start order
    K           tiles along the inner dimension: program (m, n) loads A[m, k], then B[k, n], for each k
    at_once     programs in lock-step
    tile_bytes  of one tile; with 1, sizes and traffic are in tiles

    >>> tiles = matmul_tiles(row_major(4, 4), K=8, at_once=4)
    >>> MissCurve(tiles).read_bytes([4, 1000]).tolist()  # in tiles, behind an L2 for 4 tiles, and for 1,000
    [160, 64]
    """
    _at_least_one(K=K, at_once=at_once)
    order = np.asarray(order)
    M, N = order.max(axis=0) + 1
    k = np.arange(K)[:, None]
    waves = []
    for wave in (order[first : first + at_once] for first in range(0, len(order), at_once)):
        a, b = wave[:, 0] * K + k, M * K + k * N + wave[:, 1]  # (K, programs)
        waves.append(np.stack([a, b], axis=1).ravel())  # (K, 2, programs): all load their tile of A, then all of B
    units = np.concatenate(waves)
    return Stream(units, tile_bytes, np.ones(units.size, bool), np.zeros(units.size, bool))


def stream(steps: Sequence[Step], at_once: int, order: np.ndarray | None = None, line: int = LINE) -> Stream:
    """Return the stream of lines that a traced launch touches: each access asks once for each line that its lanes touch.

    steps       of one launch, as Trace.steps[launch] has them
    at_once     programs in lock-step; one that accesses nothing takes up a place too
    order       None for the kernel's own (program_id(0) runs fastest), or program numbers in start order, or tiles
                (programs, 2) as the functions above give them: then program m * N + n stands for tile (m, n)
    line        bytes; 32 for sectors, 64 for what an H200's memory fetches at a time

    Raises ValueError if the order lacks a program that was traced, or has one twice.
    """
    _at_least_one(at_once=at_once, line=line)
    if not steps:
        return Stream(np.zeros(0, np.int64), line, np.zeros(0, bool), np.zeros(0, bool))
    program = np.array([step.program for step in steps])
    start = _start_numbers(order, program)[program]
    turn = occurrence(program)
    seen = np.lexsort((start, turn, start // at_once))  # wave by wave, turn by turn, program by program
    units = [steps[i].pattern.units(steps[i].address, line) for i in seen]
    lines, ops = [u.size for u in units], np.array([steps[i].op for i in seen])
    return Stream(np.concatenate(units), line, np.repeat(ops != "store", lines), np.repeat(ops != "load", lines))


def _at_least_one(**numbers: int) -> None:
    for name, number in numbers.items():
        if number < 1:
            raise ValueError(say("asked.cache.too_few", name=name, number=number))


def _start_numbers(order: np.ndarray | None, programs: np.ndarray) -> np.ndarray:
    """The place of each program number in start order."""
    if order is None:
        return np.arange(programs.max() + 1)
    given = np.asarray(order)
    if given.ndim == 2:
        given = given[:, 0] * (given[:, 1].max() + 1) + given[:, 1]
    numbers, times = np.unique(given, return_counts=True)
    if times.max() > 1:
        raise ValueError(say("asked.cache.twice", program=int(numbers[times.argmax()])))
    lacking = np.setdiff1d(programs, given)
    if lacking.size:
        raise ValueError(say("asked.cache.lacking", program=int(lacking[0])))
    starts = np.zeros(given.max() + 1, np.int64)
    starts[given] = np.arange(given.size)
    return starts


def occurrence(values: np.ndarray) -> np.ndarray:
    """Count how often each value came before: [5, 5, 7, 5] -> [0, 1, 0, 2]."""
    order = np.argsort(values, kind="stable")
    first = np.r_[True, np.diff(values[order]) != 0]
    position = np.arange(values.size)
    occurrence = np.empty_like(position)
    occurrence[order] = position - np.maximum.accumulate(np.where(first, position, 0))
    return occurrence


# ------------------------------------------------------------------------------------------------- the cache


class MissCurve:
    """Traffic to DRAM behind an LRU cache of any size. All sizes come from one pass over the stream.

    An access hits in a cache of C units if fewer than C others were used since its unit was: its stack distance.
    (R. L. Mattson et al., "Evaluation techniques for storage hierarchies", IBM Systems Journal 9(2), 1970.)

    Loads fetch what they miss. Stores fetch nothing: the L2 notes which bytes of a line are new. Loads and stores both
    occupy the cache, and a line that was stored to is written to DRAM once for each stay in the cache, at the latest
    after the end. An atomic loads and stores. Lines count in full, even where a few of their bytes are used. One thing
    that an H200 does is left out: it reads from DRAM what stores leave open in a sector that they fill in part.

    Each method takes the size of the cache in bytes, one or an array of them, and gives as many results.

    >>> curve = t.l2(at_once=132)
    >>> int(curve.read_bytes(1 << 20)), int(curve.written_bytes(1 << 20))  # bytes, of an L2 of 1 MiB: lines of 128 bytes
    (4096, 4096)
    """

    def __init__(self, stream: Stream):
        self.unit_bytes = stream.unit_bytes
        distances, by_unit = stack_distances(stream.units)
        self._loads = np.sort(distances[stream.loads])
        self._writes = np.sort(_write_distances(distances, stream.stores, by_unit))

    def __repr__(self) -> str:
        return (
            f"MissCurve: {self.dram_bytes(0):,} bytes to and from DRAM without a cache, {self.compulsory_bytes:,} with one of "
            f"{self.sizes[-1]:,} bytes or more"
        )

    def misses(self, size: int | np.ndarray) -> int | np.ndarray:
        """Count the loads that must go to DRAM; atomics count as loads."""
        return self._at(size, self._loads)

    def hit_rate(self, size: int | np.ndarray) -> float | np.ndarray:
        """Return the share of loads that hit; 1.0 if nothing is loaded."""
        return 1 - self.misses(size) / max(1, self._loads.size)

    def read_bytes(self, size: int | np.ndarray) -> int | np.ndarray:
        """Count the bytes fetched from DRAM."""
        return self.misses(size) * self.unit_bytes

    def written_bytes(self, size: int | np.ndarray) -> int | np.ndarray:
        """Count the bytes written to DRAM, those flushed at the end included."""
        return self._at(size, self._writes) * self.unit_bytes

    def dram_bytes(self, size: int | np.ndarray) -> int | np.ndarray:
        """Count the bytes fetched from DRAM and written to it."""
        return self.read_bytes(size) + self.written_bytes(size)

    @property
    def compulsory_bytes(self) -> int:
        """Count the bytes that even the largest cache leaves: each line is fetched once, unless it was stored first, and written once."""
        return int(self.dram_bytes(self.sizes[-1]))

    @property
    def sizes(self) -> np.ndarray:
        """Return the cache sizes in bytes at which the traffic falls, ascending, from 0 on: between two of them it stays the same."""
        distances = np.unique(np.r_[self._loads, self._writes])
        return np.r_[0, distances[distances < COLD] + 1] * self.unit_bytes

    def _at(self, size: int | np.ndarray, distances: np.ndarray) -> int | np.ndarray:
        capacity = np.asarray(size) // self.unit_bytes
        missed = distances.size - np.searchsorted(distances, capacity)
        return missed if missed.ndim else int(missed)


def stack_distances(units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the stack distance (n,) of each access: how many other units were used since its own was, COLD for a first use; and (n,) the
    order of accesses by unit, then by time.

    Let p be the previous use of the same unit. The number of units used in between is the number of accesses in between
    that are not repeats there: i - p[i] - 1, less the number of j < i with p[j] > p[i].
    """
    by_unit = np.argsort(units, kind="stable")
    same = np.diff(units[by_unit]) == 0
    again = np.zeros(units.size, bool)
    again[by_unit[1:][same]] = True
    previous = np.zeros(units.size, np.int64)
    previous[by_unit[1:][same]] = by_unit[:-1][same]
    previous = previous[again]
    is_previous = np.zeros(units.size, bool)
    is_previous[previous] = True
    ranks = (np.cumsum(is_previous) - 1)[previous]
    distances = np.full(units.size, COLD)
    distances[again] = np.flatnonzero(again) - previous - 1 - larger_before(ranks)
    return distances, by_unit


def larger_before(permutation: np.ndarray) -> np.ndarray:
    """Count for each element of a permutation of 0 .. n - 1 how many larger ones come before it, in O(n log n).

    A radix sort from the highest bit down. Elements that agree in all higher bits stand together, in their old order;
    those with a 1 here are larger than those with a 0 and move behind them, so each 0 counts the 1s that it passes.
    """
    values = permutation.copy()
    counts = np.zeros_like(values)  # by value
    for bit in reversed(range((values.size - 1).bit_length())):
        group = values >> bit + 1 << bit + 1  # its lowest value, and so where it begins
        one = values >> bit & 1
        ones_before = np.cumsum(one) - one
        ones_before -= ones_before[group]
        counts[values] += np.where(one, 0, ones_before)
        place = np.where(one, group + (1 << bit) + ones_before, np.arange(values.size) - ones_before)
        values[place] = values.copy()
    return counts[permutation]


def _write_distances(distances: np.ndarray, stores: np.ndarray, by_unit: np.ndarray) -> np.ndarray:
    """Find for each store the largest stack distance since its unit was last stored to, COLD if it never was. In a
    cache of that many units or fewer the line was dropped in between, hence written, and this store makes it dirty
    anew.
    """
    distances, stores = distances[by_unit], stores[by_unit]
    if not stores.any():
        return np.zeros(0, np.int64)
    first_use = distances == COLD
    begins = first_use | np.r_[True, stores[:-1]]  # a stretch of accesses to one unit, up to and with a store
    stretch = np.cumsum(begins) - 1
    return np.maximum.reduceat(distances, np.flatnonzero(begins))[stretch[stores]]
