"""Find elements that two programs touch in one launch, one of them storing, with nothing that orders the two.

Each access is compared with the nearest stores of other programs before and after it, in the order in which things happened:
if nothing is wrong with these, nothing is wrong with those that are farther away. One atomic does not order another. So where
the nearest atomic is ordered with a load, others may not be: each load of an element that has no race so far is compared with
the nearest atomics before and after it of every other program. The nearest accesses are sought twice: in the order of events,
and in the order of telling, which is as if programs had run one after another. A race is told at the access that is told later.

Elements with the same accesses are looked at once. Atomics are no race with one another, nor with a volatile load, which looks at
what others do on purpose. An exchange whose old value is not used counts as a store: programs may exchange an element for the
same value, as they open a lock, but not for different values, and not while others add to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tritontrace.tracing.memory import Batch, Region
from tritontrace.tracing.ordering import Ordering, Sync, Weak, too_weak
from tritontrace.ttir.launching import Op, Site

NOBODY = -1  # values of `other` that are not a program
SEVERAL = -2
AT_ONCE = 1 << 18  # accesses to elements that are looked at together, at least
FAR_OFF = 1 << 20  # pairs of a load and a far-off atomic that are looked at together, about
OPS: tuple[Op, ...] = ("load", "store", "atomic")
LOAD, STORE, ATOMIC, POLL, ASKED, EXCHANGE = range(6)
# POLL: a volatile load, which may see what atomics do meanwhile. ASKED: an atomic whose result is used. EXCHANGE: one that replaces
# what is there, and whose result is not
UPDATES = (ATOMIC, ASKED, EXCHANGE)


class Race(NamedTuple):
    """A race of one line at one tensor, at its first occurrence.

    program   does `op` to `element`, after `other` did `other_op`: one program, or SEVERAL. NOBODY: `program` itself did, in another
              lane of the same operation. other_op: a load or a store; an atomic, if both are, and one of them replaces what is there
    updated   whether what `other` did was an atomic
    elements  all that this line disturbs, in all programs
    told      sorts races in the order in which they come up
    pair      (program, turn) of the two accesses that are told
    alike     whether all that store there store the same value
    hasty     the access of the two that comes first, if its program tells the other one of it, but before all threads have made it
    weak      the atomics that would order the two, if they were not weaker than Triton makes them by itself
    """

    site: Site
    region: Region
    program: int
    op: Op
    element: int
    other: int
    other_op: Op
    elements: np.ndarray
    told: tuple[int, ...]
    pair: tuple[tuple[int, int], ...] = ()
    alike: bool = False
    updated: bool = False
    hasty: Hasty | None = None
    weak: Sequence[Weak] = ()


class Hasty(NamedTuple):
    """An access of which a program informs another one too early: by a signal before all its threads have met."""

    program: int
    op: Op
    line: int


class Pairs(NamedTuple):
    """Conflicting accesses, by rows of a History: `first` comes before `second`. group: the number of their elements'."""

    group: np.ndarray
    first: np.ndarray
    second: np.ndarray


def find(
    regions: Iterable[Region],
    batches: Iterable[Batch],
    syncs: Sequence[Sync],
    position: np.ndarray | None = None,
    threads: bool = False,
    weak: Sequence[Weak] = (),
) -> list[Race]:
    """Find the races of one launch, one for each line and tensor; and one where lanes of one store go to one element. Those that all put
    the same value there are `alike`.

    position[program]: its place in the order in which programs are told; None: by number. threads: whether a program has
    some that may lag behind one another. weak: atomics that order less than they could.
    """
    contested = {id(region): [] for region in regions if _contested(region)}
    if not contested:
        return []
    for batch in batches:
        if id(batch.region) in contested:
            contested[id(batch.region)].append(batch)
    histories = [History(mine[0].region, mine, position, threads) for mine in contested.values() if mine]
    found = [race for history in histories for race in _within_a_store(history)]
    shared = [(history, Groups(history, elements)) for history in histories if (elements := _shared(history)).size]
    if shared:
        ordering = Ordering(syncs)
        for history, groups in shared:
            found += [_explained(race, syncs, weak) for race in _unordered(history, groups, ordering)]
    return sorted(found, key=lambda race: race.told)


def _contested(region: Region) -> bool:
    """Whether an element was stored to, and stored to or loaded again, in this launch."""
    stored, loaded = region.stored, region.loaded
    if stored is None:
        return False
    return bool((stored > 1).any()) or (loaded is not None and bool(((stored > 0) & (loaded > 0)).any()))


# ----------------------------------------------------------------------------------------------------- what was done


class History:
    """All accesses of a launch to one tensor. A row is what one program did in one batch.

    batch    (rows,) its number;  base  (batches,) the first row of each;  kind  LOAD, STORE, ...
    program  (rows,) who;  when  in which turn;  place  where in the order in which programs are told
    line     (rows,) a number for each line of a kernel
    threads  (rows,) which threads of the program: memory.threads_of; None where they go together
    differs  (region.size,) where one EXCHANGE puts another value than the next, or an ATOMIC changes it, too; None: nowhere
    unlike   (region.size,) where one STORE leaves another value than the next
    """

    def __init__(self, region: Region, batches: list[Batch], position: np.ndarray | None, threads: bool):
        self.region, self.batches = region, batches
        sizes = [batch.programs.size for batch in batches]
        self.base = np.cumsum([0, *sizes])[:-1]
        self.batch = np.repeat(np.arange(len(batches)), sizes)
        self.program = np.concatenate([batch.programs for batch in batches])
        self.kind = np.repeat([_kind(batch) for batch in batches], sizes)
        self.when = np.concatenate([batch.turns for batch in batches])
        self.threads = np.concatenate([batch.threads() for batch in batches]) if threads else None
        self.place = self.program if position is None else position[self.program]
        lines = [(batch.site.kernel, batch.site.line) for batch in batches]
        numbers = {line: number for number, line in enumerate(dict.fromkeys(lines))}
        self.line = np.repeat([numbers[line] for line in lines], sizes)
        self.differs = self._differing() if (self.kind == EXCHANGE).any() else None

    def _differing(self) -> np.ndarray:
        put, known = np.zeros(self.region.size, np.int64), np.zeros(self.region.size, bool)
        differs = np.zeros(self.region.size, bool)
        for batch in self.batches:
            if batch.op == "atomic" and batch.puts is not None:
                elements, _, bits = batch.exchanged()
                differs[elements[known[elements] & (put[elements] != bits)]] = True
                put[elements], known[elements] = bits, True
                differs[elements[put[elements] != bits]] = True
        for elements, _ in self.touched((ATOMIC,)):
            differs[elements[known[elements]]] = True
        return differs

    @cached_property
    def unlike(self) -> np.ndarray:
        put, known = np.zeros(self.region.size, np.int64), np.zeros(self.region.size, bool)
        unlike = np.zeros(self.region.size, bool)
        for batch in self.batches:
            if batch.op == "store":
                if batch.puts is None:
                    unlike[batch.touched()[0]] = True
                    continue
                elements, _, bits = batch.exchanged()
                unlike[elements[known[elements] & (put[elements] != bits)]] = True
                put[elements], known[elements] = bits, True
                unlike[elements[put[elements] != bits]] = True
        return unlike

    def touched(self, kinds: tuple[int, ...] = (LOAD, STORE, POLL, *UPDATES)) -> Iterator[tuple[np.ndarray, ...]]:
        """Yield the elements that batches of these kinds touch, with their rows: some at a time."""
        pieces, size = [], 0
        for batch, base in zip(self.batches, self.base, strict=True):
            if _kind(batch) in kinds:
                elements, rows = batch.touched()
                pieces.append((elements, rows + base))
                size += elements.size
                if size >= AT_ONCE:
                    yield _put_together(pieces)
                    pieces, size = [], 0
        if pieces:
            yield _put_together(pieces)

    def lanes(self, row: int) -> np.ndarray:
        """Return the elements that one row touches, lane after lane."""
        number = self.batch[row]
        elements, rows = self.batches[number].touched()
        return elements[rows == row - self.base[number]]

    def in_order(self, rows: np.ndarray) -> np.ndarray:
        """Return the indices that sort `rows` in the order of the programs."""
        return np.lexsort((self.when[rows], self.place[rows]))


def _kind(batch: Batch) -> int:
    if batch.op == "atomic":
        return ASKED if batch.asked else ATOMIC if batch.puts is None else EXCHANGE
    return POLL if batch.volatile else OPS.index(batch.op)


def _put_together(pieces: Sequence[tuple[np.ndarray, ...]]) -> tuple[np.ndarray, ...]:
    return pieces[0] if len(pieces) == 1 else tuple(map(np.concatenate, zip(*pieces, strict=True)))


def _shared(history: History) -> np.ndarray:
    """Elements to which one program stores, and which another one touches; or that one updates by an atomic, and another one loads,
    or exchanges for a different value."""
    shared, writer = np.zeros(history.region.size, bool), np.full(history.region.size, NOBODY, np.int32)
    for elements, rows in history.touched((STORE,)):
        program, before = history.program[rows], writer[elements]
        writer[elements] = program
        other = (writer[elements] != program) | ((before != program) & (before != NOBODY))
        shared[elements[other]] = True
    for elements, rows in history.touched((LOAD, POLL, *UPDATES)) if (writer != NOBODY).any() else ():
        before = writer[elements]
        shared[elements[(before != history.program[rows]) & (before != NOBODY)]] = True
    updater = np.full(history.region.size, NOBODY, np.int32)
    for elements, rows in history.touched(UPDATES):
        program, before = history.program[rows], updater[elements]
        updater[elements] = program
        updater[elements[(updater[elements] != program) | ((before != program) & (before != NOBODY))]] = SEVERAL
    for elements, rows in history.touched((LOAD,)) if (updater != NOBODY).any() else ():
        before = updater[elements]
        shared[elements[(before != history.program[rows]) & (before != NOBODY)]] = True
    if history.differs is not None:
        shared |= history.differs & (updater == SEVERAL)
    return np.flatnonzero(shared)


class Groups:
    """Elements of a tensor grouped by their rows: those of a group were accessed alike.

    elements  (elements,) in ascending order;  number  (elements,) of each one's group
    examples  one element of each group;  of  (region.size,) the number of each element's group, -1 where there is none
    """

    def __init__(self, history: History, elements: np.ndarray):
        self.elements = elements
        self.of = np.full(history.region.size, -1)
        self.of[elements] = np.arange(elements.size)
        marks = np.random.default_rng(0).integers(
            0, 2**64, history.batch.size, np.uint64
        )  # the same rows, the same sum
        sums = np.zeros(elements.size, np.uint64)
        for touched, rows in history.touched():
            at = self.of[touched]
            np.add.at(sums, at[at >= 0], marks[rows[at >= 0]])
        if history.differs is not None:
            sums[history.differs[elements]] += np.uint64(1)
        sums[history.unlike[elements]] += np.uint64(2)
        _, first, self.number = np.unique(sums, return_index=True, return_inverse=True)
        self.of[elements] = self.number
        self.examples = elements[first]

    def members(self, numbers: np.ndarray) -> np.ndarray:
        """Return the elements of these groups."""
        chosen = np.zeros(self.examples.size, bool)
        chosen[numbers] = True
        return self.elements[chosen[self.number]]


# ----------------------------------------------------------------------------------------------------- pairs


def _events(history: History, groups: Groups) -> tuple[np.ndarray, np.ndarray]:
    """(group, row) of each access to a group's example."""
    number = np.full(history.region.size, -1)
    number[groups.examples] = np.arange(groups.examples.size)
    found = []
    for elements, rows in history.touched():
        group = number[elements]
        found.append((group[group >= 0], rows[group >= 0]))
    group, row = _put_together(found)
    return group, row


def _nearby(history: History, events: tuple[np.ndarray, np.ndarray], groups: Groups, order: np.ndarray) -> Pairs:
    """Each access to a group, with the nearest stores of other programs before it and after it in this order of all rows."""
    group, row = _sorted(*events, order)
    program, kind = history.program[row], history.kind[row]
    found = [(group[:0], row[:0], row[:0])]
    conflicts = [(kind == STORE, np.ones_like(kind, bool)), (np.isin(kind, UPDATES), kind == LOAD)]
    if history.differs is not None:
        differs = history.differs[groups.examples[group]]
        conflicts.append((differs & (kind == EXCHANGE), differs & np.isin(kind, (EXCHANGE, ATOMIC))))
    for writes, disturbed in conflicts:
        if not writes.any() or not disturbed.any():
            continue
        before = _nearest(group, program, writes)
        after = row.size - 1 - _nearest(group[::-1], program[::-1], writes[::-1])[::-1]
        for other in (before, after):
            there = (other >= 0) & (other < row.size) & disturbed
            found.append((group[there], row[there], row[other[there]]))
    return _as_told(history, *_put_together(found))


def _far_off(
    history: History, events: tuple[np.ndarray, np.ndarray], quiet: np.ndarray, order: np.ndarray
) -> Iterator[Pairs]:
    """Each load of a group in which no race has been found (`quiet`), with the last atomic before it and the first one after it of
    every other program.

    There are as many pairs as loads times programs, so they come in pieces of about FAR_OFF.
    """
    group, row = _sorted(*events, order)
    group, row = group[quiet[group]], row[quiet[group]]
    program, kind = history.program[row], history.kind[row]
    updates, loads = np.flatnonzero(np.isin(kind, UPDATES)), np.flatnonzero(kind == LOAD)
    updates = updates[np.lexsort((updates, program[updates], group[updates]))]
    begins = np.ones(updates.size, bool)  # a run: what one program does to one group
    begins[1:] = (np.diff(group[updates]) != 0) | (np.diff(program[updates]) != 0)
    of_run, run_of = group[updates[begins]], np.cumsum(begins) - 1
    first, behind = (np.searchsorted(of_run, group[loads], side) for side in ("left", "right"))
    cuts = np.flatnonzero(np.diff(np.cumsum(behind - first) // FAR_OFF)) + 1
    for piece in np.split(np.arange(loads.size), cuts):
        runs = behind[piece] - first[piece]
        load = np.repeat(loads[piece], runs)
        run = np.arange(load.size) - np.repeat(np.cumsum(runs) - behind[piece], runs)
        after = np.searchsorted(run_of * row.size + updates, run * row.size + load)
        found = []
        for other in (after - 1, after):
            there = (other >= 0) & (other < updates.size)
            there[there] = run_of[other[there]] == run[there]
            there[there] = program[updates[other[there]]] != program[load[there]]
            found.append((group[load[there]], row[load[there]], row[updates[other[there]]]))
        yield _as_told(history, *_put_together(found))


def _sorted(group: np.ndarray, row: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Accesses by group, and within a group in this order of all rows."""
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    group, place = np.divmod(np.sort(group * order.size + rank[row]), order.size)
    return group, order[place]


def _as_told(history: History, group: np.ndarray, one: np.ndarray, other: np.ndarray) -> Pairs:
    swapped = history.place[one] > history.place[other]
    return Pairs(group, np.where(swapped, other, one), np.where(swapped, one, other))


def _nearest(group: np.ndarray, program: np.ndarray, stores: np.ndarray) -> np.ndarray:
    """Find for each event the last store before it by another program in the same group, or -1. Events are sorted by group."""
    nearest = np.full(group.size, -1)
    store = np.flatnonzero(stores)
    if store.size == 0:
        return nearest
    begins = np.ones(store.size, bool)  # a run: a program's stores in a row
    begins[1:] = (group[store[1:]] != group[store[:-1]]) | (program[store[1:]] != program[store[:-1]])
    run = np.maximum.accumulate(np.where(begins, np.arange(store.size), 0))
    last = np.cumsum(stores) - stores - 1  # which store was the last one before each event
    own = (last >= 0) & (program[store[last]] == program)
    last = np.where(own, run[last] - 1, last)
    there = (last >= 0) & (group[store[last]] == group)
    nearest[there] = store[last[there]]
    return nearest


# ----------------------------------------------------------------------------------------------------- telling


def _unordered(history: History, groups: Groups, ordering: Ordering) -> Iterator[Race]:
    """One race for each line with accesses that conflict, and that nothing orders."""
    as_told, as_it_was = (history.place, history.when), (history.when, history.place)
    events = _events(history, groups)
    orders = [np.lexsort(keys[::-1]) for keys in ((as_told, as_it_was) if ordering.turns else (as_told,))]
    found = _put_together([_nearby(history, events, groups, order) for order in orders])
    group, first, second = _racing(history, ordering, Pairs(*found))
    if ordering.turns:
        quiet = np.ones(groups.examples.size, bool)
        quiet[group] = False
        more = [_racing(history, ordering, pairs) for pairs in _far_off(history, events, quiet, orders[1])]
        group, first, second = _put_together([(group, first, second), *more])
    stores = (history.kind[first] == STORE) & (history.kind[second] == STORE)
    alike = stores & ~history.unlike[groups.examples[group]]
    line = history.line[second]
    for number in np.flatnonzero(np.bincount(line)):
        mine = line == number
        harmless = bool(alike[mine].all())
        if not harmless:
            mine &= ~alike
        race = _told(history, groups, ordering, Pairs(group[mine], first[mine], second[mine]))
        yield race._replace(alike=harmless)


def _racing(history: History, ordering: Ordering, pairs: Pairs) -> Pairs:
    """Keep the pairs that nothing orders."""
    group, first, second = pairs
    by = None if history.threads is None else (history.threads[first], history.threads[second])
    ordered = _ordered(history, ordering, first, second, by)
    return Pairs(group[~ordered], first[~ordered], second[~ordered])


def _ordered(history: History, ordering: Ordering, first: np.ndarray, second: np.ndarray, by: Any = None) -> np.ndarray:
    return ordering.ordered(
        history.program[first], history.when[first], history.program[second], history.when[second], by
    )


def _explained(race: Race, syncs: Sequence[Sync], weak: Sequence[Weak]) -> Race:
    """Name what would order the two."""
    if not weak or race.hasty or race.alike:
        return race
    return race._replace(weak=too_weak(syncs, weak, *race.pair))


def _told(history: History, groups: Groups, ordering: Ordering, pairs: Pairs) -> Race:
    """Choose what to say of one line's accesses: in each pair, `second` is the access that is told later."""
    told = np.zeros(history.batch.size, bool)
    told[pairs.second] = True
    rows = np.flatnonzero(told)
    row = int(rows[history.in_order(rows)[0]])
    mine = pairs.second == row
    stored = mine & np.isin(history.kind[pairs.first], (STORE, *UPDATES))
    mine = stored if stored.any() else mine
    lanes = history.lanes(row)
    element = int(lanes[np.isin(groups.of[lanes], pairs.group[mine])][0])
    mine &= pairs.group == groups.of[element]  # from here on, what is said is true of this element
    firsts = pairs.first[mine]
    firsts = firsts[history.in_order(firsts)]
    others, first = history.program[firsts], int(firsts[-1])
    other = int(others[-1]) if stored.any() or (others == others[0]).all() else SEVERAL
    batch = history.batches[history.batch[row]]
    hasty, updated = None, bool(np.isin(history.kind[firsts], UPDATES).all())
    if history.threads is not None and _ordered(history, ordering, *np.array([[first], [row]])).all():
        early = min(first, row, key=lambda one: history.when[one])
        did = history.batches[history.batch[early]]
        hasty = Hasty(int(history.program[early]), did.op, did.site.line)
    if not stored.any():
        other_op = "load"
    elif batch.op == "atomic" and updated:
        other_op = "atomic"
    else:
        other_op = "store"
    return Race(
        batch.site, history.region, int(history.program[row]), batch.op, element, other, other_op,
        groups.members(pairs.group), (int(history.place[row]), int(history.when[row])),
        tuple((int(history.program[each]), int(history.when[each])) for each in (first, row)), updated=updated, hasty=hasty,
    )  # fmt: skip


def _within_a_store(history: History) -> Iterator[Race]:
    """One race for each line in which several positions of one block put something into one element."""
    size = history.region.size
    unlike: dict[int, list[np.ndarray]] = {}
    alike: dict[int, list[np.ndarray]] = {}
    for batch, base in zip(history.batches, history.base, strict=True):
        if batch.duplicates and (batch.op == "store" or batch.puts is not None):
            elements, rows = batch.touched()
            places, line = (rows + base) * size + elements, int(history.line[base])
            several = differing = _repeated(places)
            if batch.puts is not None:  # lanes that put the same are no race
                differing = _repeated(np.unique([places, batch.exchanged()[2]], axis=1)[0])
            if differing.size:
                unlike.setdefault(line, []).append(differing)
            elif several.size and batch.op == "store":
                alike.setdefault(line, []).append(several)
    for line, places in {**alike, **unlike}.items():
        rows, elements = np.divmod(np.concatenate(places), size)
        first = history.in_order(rows)[0]  # its elements come in ascending order
        row, element = rows[first], int(elements[first])
        batch = history.batches[history.batch[row]]
        yield Race(
            batch.site, history.region, int(history.program[row]), batch.op, element, NOBODY, batch.op,
            np.unique(elements), (int(history.place[row]), int(history.when[row]), 1), alike=line not in unlike,
        )  # fmt: skip


def _repeated(values: np.ndarray) -> np.ndarray:
    """Return those that are there more than once."""
    values, times = np.unique(values, return_counts=True)
    return values[times > 1]
