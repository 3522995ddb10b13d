"""Order that atomics make: which program's accesses come before another's on a GPU, too.

Happens-before with vector clocks. A program that releases an address leaves there what it knows of all programs, itself
included; whoever acquires the address afterwards knows it too, and may pass it on. So do locks (atomic_cas, then
atomic_xchg), tickets (the last to count sums up what the others stored) and flags, through as many addresses as they take.

A program is many threads, and an atomic is no barrier: the threads that do it speak for themselves, and for all only of what was
done before they last met (threads.py says where). The others may store later than it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tritontrace.tracing.memory import FIRST_WARP

MAX_SYNCHRONISING = 16  # addresses of one atomic that are remembered; more is a sum, not a lock
CLOCK_BYTES = 1 << 28  # of all clocks that are kept at a time


class Sync(NamedTuple):
    """One address of an atomic that orders programs.

    when     its turn in the launch; several addresses of one atomic have the same
    acquire  whether the program learns what others left at the address;  release  whether it leaves what it knows
    met      the last turn before which all threads of the program met, -1 if they never did
    threads  those that do it: memory.threads_of
    """

    when: int
    program: int
    address: int
    acquire: bool
    release: bool
    met: int = -1
    threads: int = FIRST_WARP


class Weak(NamedTuple):
    """An atomic that is weaker than Triton's default, and the Sync that it would be by default.

    line     where it stands;  option  what makes it weak: `sem="relaxed"`, `scope="cta"`
    """

    sync: Sync
    line: int
    option: str


def too_weak(syncs: Sequence[Sync], weak: Sequence[Weak], one: tuple[int, int], other: tuple[int, int]) -> list[Weak]:
    """Return the atomics whose weakness leaves two accesses unordered, one for each line: a single one, if that would do. one, other:
    (program, turn)"""
    lines = {each.line: each for each in weak}
    for chosen in (*([line] for line in lines), [*lines]):
        stronger = [each.sync for each in weak if each.line in chosen]
        ordering = Ordering(sorted([*syncs, *stronger], key=lambda sync: sync.when))
        programs_and_turns = [np.array([number]) for number in (*one, *other)]
        if ordering.ordered(programs_and_turns[0], programs_and_turns[1], programs_and_turns[2], programs_and_turns[3])[
            0
        ]:
            return [lines[line] for line in chosen]
    return []


class Ordering:
    """Order between the turns of a launch. `ordered` is asked once all syncs are known; they are given in the order of their turns.

    A turn is what one program does at one time: an atomic with all of its addresses. Turns are numbered by time; there are
    `turns` of them at which programs can meet.
    """

    def __init__(self, syncs: Sequence[Sync]):
        table = np.array(syncs, np.int64).reshape(-1, len(Sync._fields))
        table = table[_met_by_several(table[:, 2], table[:, 1])]
        when, program, self._address, self._acquire, self._release, met, threads = table.T
        begins = np.ones(len(table), bool)
        begins[1:] = when[1:] != when[:-1]
        self._starts = np.flatnonzero(begins)
        self._when, self._program = when[begins], program[begins]
        self.turns = self._when.size
        self._later = int(when.max(initial=-1)) + 1  # than all turns
        keys = self._keys(self._program, self._when)
        self._by_program = np.argsort(keys)
        self._sorted_keys = keys[self._by_program]
        tells = self._release != 0
        self._tells = _Tells(program[tells], when[tells], met[tells], threads[tells], self._later)

    def ordered(
        self,
        one: np.ndarray,
        when: np.ndarray,
        other: np.ndarray,
        other_when: np.ndarray,
        by: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> np.ndarray:
        """Whether the actions of programs `one` at `when` and of programs `other` at `other_when` are ordered, either way.

        Arrays of one length, with two different programs in each place.
        by: the threads of both that do it; None: as if all threads of a program were one.
        """
        swapped = when > other_when
        first, second = np.where(swapped, other, one), np.where(swapped, one, other)
        first_when, second_when = np.minimum(when, other_when), np.maximum(when, other_when)
        if by is not None:  # the turn at which it is told counts
            first_when = self._tells.when(first, first_when, np.where(swapped, by[1], by[0]))
        ordered = np.zeros(first.size, bool)
        if self.turns == 0:
            return ordered
        heard, hears = self._last_turn(second, second_when)
        told, tells = self._last_turn(first, np.full(first.size, self._later))
        asked = np.flatnonzero(hears & tells)
        asked = asked[self._when[told[asked]] >= first_when[asked]]
        if asked.size == 0:
            return ordered
        columns, column = np.unique(first[asked], return_inverse=True)
        kind = np.min_scalar_type(int(np.bincount(column).max()))
        width = max(1, CLOCK_BYTES // (kind.itemsize * self._clocks_kept()))
        for start in range(0, columns.size, width):
            some = asked[(column >= start) & (column < start + width)]
            ordered[some] = self._walk(columns[start : start + width], kind, first[some], first_when[some], heard[some])
        return ordered

    # ------------------------------------------------------------------------------------------------- turns

    def _keys(self, program: np.ndarray, when: np.ndarray | np.int64) -> np.ndarray:
        """Numbers that put turns in the order of their programs, and those of a program in time."""
        return program.astype(np.int64) * (self._later + 1) + np.minimum(when, self._later)

    def _last_turn(self, program: np.ndarray, when: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The last turn of each program up to `when`, and whether there is one."""
        at = np.searchsorted(self._sorted_keys, self._keys(program, when), "right") - 1
        turn = self._by_program[at]
        return turn, (at >= 0) & (self._program[turn] == program)

    def _clocks_kept(self) -> int:
        """How many clocks outlive the turn that makes them, at most."""
        _, turns = np.unique(self._program, return_counts=True)
        return int(np.count_nonzero(turns > 1)) + np.unique(self._address).size

    # ------------------------------------------------------------------------------------------------- clocks

    def _walk(
        self, columns: np.ndarray, kind: np.dtype, first: np.ndarray, first_when: np.ndarray, heard: np.ndarray
    ) -> np.ndarray:
        """Whether what `first` did at `first_when` was known to the program of turn `heard` after that turn.

        A clock has a column for each program that is asked about: how many of the times that are asked about it is known to
        have passed. No clock: nothing is known. Clocks are shared, and never changed.
        """
        column = np.searchsorted(columns, first)
        keys = self._keys(column, first_when)
        stamps = np.unique(keys)
        stamp = np.searchsorted(stamps, keys, "right") - np.searchsorted(stamps, self._keys(column, np.int64(0)))

        at = np.minimum(np.searchsorted(columns, self._program), columns.size - 1)
        passed = np.searchsorted(stamps, self._keys(at, self._when), "right")
        passed -= np.searchsorted(stamps, self._keys(at, np.int64(0)))
        passed[columns[at] != self._program] = 0

        order = np.argsort(heard, kind="stable")
        asked = np.searchsorted(heard[order], np.arange(self.turns + 1)).tolist()
        known = np.zeros(first.size, bool)

        last = int(heard.max()) + 1
        leaves = _last_of_each(self._program).tolist()  # whether a program has no turn after this one
        forgotten = _last_of_each(self._address).tolist()
        programs, at, passed = self._program.tolist(), at.tolist(), passed.tolist()
        starts = [*self._starts.tolist(), self._address.size]
        address, acquire, release = self._address.tolist(), self._acquire.tolist(), self._release.tolist()
        clocks: dict[int, np.ndarray | None] = {}  # what each program knows
        left: dict[int, np.ndarray | None] = {}  # what was left at each address
        for turn in range(last):
            mine = after = clocks.pop(programs[turn], None)
            theirs = both = said = None
            for i in range(starts[turn], starts[turn + 1]):
                found = left.pop(address[i], None)
                if i == starts[turn] or found is not theirs:
                    theirs, both, said = found, _joined(found, mine), None
                if release[i]:
                    said = _with(both, at[turn], passed[turn], columns.size, kind) if said is None else said
                    found = said
                if acquire[i]:
                    after = _joined(after, both if said is None else said)
                if not forgotten[i]:
                    left[address[i]] = found
            chosen = order[asked[turn] : asked[turn + 1]]
            if chosen.size and after is not None:
                known[chosen] = after[column[chosen]] >= stamp[chosen]
            if not leaves[turn]:
                clocks[programs[turn]] = after
        return known


class _Tells:
    """The turns at which programs release something, to find the first one that tells of an access."""

    def __init__(self, program: np.ndarray, when: np.ndarray, met: np.ndarray, threads: np.ndarray, later: int):
        self._program, self._when, self._later = program, when, later
        self._kinds, kind = np.unique(threads, return_inverse=True)
        self._of_all = self._sorted(program, met)
        self._of_some = self._sorted(program * (self._kinds.size + 1) + kind, when)

    def when(self, program: np.ndarray, when: np.ndarray, threads: np.ndarray) -> np.ndarray:
        """The first turn at which each program tells what these threads of it did at `when`; a turn after all others if none does."""
        kind = np.searchsorted(self._kinds, threads)
        known = kind < self._kinds.size
        known[known] = self._kinds[kind[known]] == threads[known]
        of_some = program * (self._kinds.size + 1) + np.where(known, kind, self._kinds.size)
        return np.minimum(self._first(self._of_all, program, when), self._first(self._of_some, of_some, when))

    def _sorted(self, group: np.ndarray, time: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        keys = group.astype(np.int64) * (self._later + 2) + time + 1  # `met` begins at -1
        order = np.argsort(keys, kind="stable")
        return keys[order], group[order], self._when[order]

    def _first(
        self, table: tuple[np.ndarray, np.ndarray, np.ndarray], group: np.ndarray, when: np.ndarray
    ) -> np.ndarray:
        keys, groups, turns = table
        if not keys.size:
            return np.full(group.size, self._later)
        at = np.searchsorted(keys, group.astype(np.int64) * (self._later + 2) + np.minimum(when, self._later) + 1)
        there = at < keys.size
        at = np.where(there, at, 0)
        return np.where(there & (groups[at] == group), turns[at], self._later)


def _joined(a: np.ndarray | None, b: np.ndarray | None) -> np.ndarray | None:
    """Join what both clocks know. If one of the two knows all of it, that one is returned."""
    if a is b or b is None:
        return a
    if a is None or (a <= b).all():
        return b
    return a if (b <= a).all() else np.maximum(a, b)


def _with(clock: np.ndarray | None, column: int, value: int, columns: int, kind: np.dtype) -> np.ndarray | None:
    if value == 0 or (clock is not None and clock[column] >= value):
        return clock
    clock = np.zeros(columns, kind) if clock is None else clock.copy()
    clock[column] = value
    return clock


def _met_by_several(addresses: np.ndarray, programs: np.ndarray) -> np.ndarray:
    """A boolean array that marks the addresses at which more than one program synchronises."""
    distinct, first, which = np.unique(addresses, return_index=True, return_inverse=True)
    several = np.zeros(distinct.size, bool)
    several[which[programs != programs[first][which]]] = True
    return several[which]


def _last_of_each(values: np.ndarray) -> np.ndarray:
    last = np.zeros(values.size, bool)
    _, at = np.unique(values[::-1], return_index=True)
    last[values.size - 1 - at] = True
    return last
