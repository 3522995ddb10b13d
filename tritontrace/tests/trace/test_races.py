"""Races and the order that excludes them, in launches made by hand: who did what in which turn."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sentences import says

from tritontrace.messages import Message, say
from tritontrace.tracing import memory, ordering, races
from tritontrace.tracing.faults import Faults
from tritontrace.tracing.memory import FIRST_WARP
from tritontrace.tracing.ordering import Ordering, Sync
from tritontrace.tracing.parameters import Parameters
from tritontrace.ttir.launching import Site

FLAG, OTHER_FLAG, LOCK = 100, 101, 102  # addresses


class Region:
    """The attributes of a tensor that races and faults ask for."""

    def __init__(self, name: str, size: int, itemsize: int = 4):
        self.name, self.size, self.itemsize = name, size, itemsize
        self.start, self.nbytes, self.elements = 4096, size * itemsize, size
        self.loaded, self.stored = np.zeros(size, np.int32), np.zeros(size, np.int32)  # times, in this launch
        self.parameters = Parameters({name: torch.empty(size)}, self.nbytes)

    place = memory.Region.place

    def refine(self, parts: int) -> None:
        self.itemsize, self.size = self.itemsize // parts, self.size * parts


@dataclass(eq=False)
class Batch:
    """lanes: (programs, lanes) elements that each program touches; -1 is a lane that is masked out."""

    op: str
    site: Site
    region: Region
    programs: np.ndarray
    when: int
    lanes: np.ndarray
    duplicates: bool = False
    volatile: bool = False
    asked: bool = False
    puts: np.ndarray | None = None  # (programs, lanes) what elements are exchanged for
    by: int = FIRST_WARP  # the threads that do it

    @property
    def turns(self) -> np.ndarray:
        return self.when + (np.arange(self.programs.size) if self.op == "atomic" else np.zeros(self.programs.size, int))

    def touched(self) -> tuple[np.ndarray, np.ndarray]:
        active = self.lanes >= 0
        return self.lanes[active], np.nonzero(active)[0]

    def exchanged(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return *self.touched(), self.puts[self.lanes >= 0]

    def threads(self) -> np.ndarray:
        return np.full(self.programs.size, self.by)


@dataclass
class Launch:
    """Notes what is done, one thing after another; each operation is a line of its own unless one is given."""

    turn: int = -1  # of what was done last
    regions: list[Region] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    syncs: list[Sync] = field(default_factory=list)

    def tensor(self, name: str, size: int) -> Region:
        self.regions.append(Region(name, size))
        return self.regions[-1]

    def do(
        self, op, region: Region, line: int, programs, lanes, duplicates: bool = False, puts=None, by=FIRST_WARP
    ) -> None:
        """programs: one or several; lanes: elements that all of them touch, or (programs, lanes). "poll" is a volatile load,
        "asked" an atomic whose result is used. puts: what each program exchanges its elements for, or (programs, lanes)."""
        asked, volatile = op == "asked", op == "poll"
        op = {"poll": "load", "asked": "atomic"}.get(op, op)
        programs, lanes = np.atleast_1d(programs), np.atleast_1d(lanes)
        lanes = np.broadcast_to(lanes, (programs.size, lanes.shape[-1]))
        self.turn += 1
        if puts is not None:
            puts = np.broadcast_to(puts if np.ndim(puts) == 2 else np.reshape(puts, (-1, 1)), lanes.shape)
        site = Site("kernel", line, "source")
        batch = Batch(op, site, region, programs, self.turn, lanes, duplicates, volatile, asked, puts, by)
        self.batches.append(batch)
        self.turn += programs.size if op == "atomic" else 0
        np.add.at(region.loaded if op == "load" else region.stored, batch.touched()[0], 1)

    def load(self, *what) -> None:
        self.do("load", *what)

    def store(self, *what) -> None:
        self.do("store", *what)

    def exchange(self, region: Region, line: int, programs, lanes, puts) -> None:
        self.do("atomic", region, line, programs, lanes, puts=puts)

    def sync(
        self, program: int, *addresses: int, acquire: bool = True, release: bool = True, by: int = FIRST_WARP
    ) -> None:
        self.turn += 1
        self.syncs += [Sync(self.turn, program, address, acquire, release, threads=by) for address in addresses]

    def acquire(self, program: int, *addresses: int) -> None:
        self.sync(program, *addresses, release=False)

    def release(self, program: int, *addresses: int, by: int = FIRST_WARP) -> None:
        self.sync(program, *addresses, acquire=False, by=by)

    def races(self, position=None, threads: bool = False) -> list[races.Race]:
        position = None if position is None else np.array(position)
        return races.find(self.regions, self.batches, self.syncs, position, threads)

    def told(self, position=None) -> list[tuple]:
        """(line, who, element, the other one and what it did, all elements) of each race."""
        return [
            (race.site.line, race.program, race.element, race.other, race.other_op, race.elements.tolist())
            for race in self.races(position)
        ]


@pytest.fixture
def launch() -> Launch:
    return Launch()


@pytest.fixture
def x(launch) -> Region:
    return launch.tensor("x", 8)


# ----------------------------------------------------------------------------------------------------- without syncs


@pytest.mark.parametrize(
    "first, second, told",
    [
        ("load", "load", []),
        ("load", "atomic", ["load"]),
        ("atomic", "load", ["store"]),
        ("atomic", "atomic", []),
        ("load", "store", ["load"]),
        ("store", "load", ["store"]),
        ("store", "store", ["store"]),
        ("store", "atomic", ["store"]),
        ("atomic", "store", ["store"]),
        ("poll", "load", []),
        ("load", "poll", []),
        ("poll", "poll", []),
        ("poll", "atomic", []),
        ("atomic", "poll", []),
        ("poll", "store", ["load"]),
        ("store", "poll", ["store"]),
    ],
)
def test_what_is_a_race(launch, x, first, second, told):
    launch.do(first, x, 1, 0, 3)
    launch.do(second, x, 2, 1, 3)
    assert launch.told() == [(2, 1, 3, 0, other_op, [3]) for other_op in told]


@pytest.mark.parametrize(
    "first, second, told",
    [
        (0, 1, ["atomic"]),
        (0, 0, []),  # as two programs open a lock
        ("load", 0, ["load"]),
        (0, "load", ["store"]),
        ("store", 0, ["store"]),
        (0, "store", ["store"]),
        ("poll", 0, []),
        ("asked", 0, []),  # a lock that one takes and the other one opens
        ("atomic", 0, ["atomic"]),  # starts at 0, or at what was added already
        (0, "atomic", ["atomic"]),
    ],
)
def test_an_exchange_that_nobody_asks_for_is_a_store(launch, x, first, second, told):
    for line, (program, op) in enumerate(((0, first), (1, second)), 1):
        if isinstance(op, str):
            launch.do(op, x, line, program, 3)
        else:
            launch.exchange(x, line, program, 3, op)
    assert launch.told() == [(2, 1, 3, 0, other_op, [3]) for other_op in told]


def test_exchanges_that_an_order_holds_apart(launch, x):
    launch.exchange(x, 1, 0, 3, 1)
    launch.release(0, FLAG)
    launch.acquire(1, FLAG)
    launch.exchange(x, 1, 1, 3, 2)
    assert launch.told() == []


def test_only_elements_with_different_values_are_told(launch, x):
    launch.exchange(x, 1, [0, 1, 2], [[0, 1, 2], [2, 3, 4], [5, 6, 0]], [7, 7, 8])
    assert launch.told() == [(1, 2, 0, 0, "atomic", [0])]


@pytest.mark.parametrize("differing", [3, 4])
def test_elements_that_are_exchanged_for_different_values_are_told_apart(launch, x, differing):
    """Two programs store to both elements, and let two others exchange them, one of the elements for different values."""
    launch.store(x, 1, [0, 1], [3, 4])
    for program in (0, 1):
        launch.release(program, FLAG)
    for program in (2, 3):
        launch.acquire(program, FLAG)
    launch.exchange(x, 2, [2, 3], [3, 4], np.where(np.array([[3, 4]]) == differing, [[5], [6]], 5))
    assert launch.told() == [(1, 1, 3, 0, "store", [3, 4]), (2, 3, differing, 2, "atomic", [differing])]


@pytest.mark.parametrize("differing", [3, 4])
def test_stores_alike_and_exchanges_alike_are_told_apart(launch, x, differing):
    """Two programs store to both elements, the same value to `differing` alone; two exchange them, and there for different values."""
    one = np.array([[3, 4]]) == differing
    launch.do("store", x, 1, [0, 1], [3, 4], False, np.where(one, 7, [[7], [8]]))
    launch.exchange(x, 2, [2, 3], [3, 4], np.where(one, [[5], [6]], 5))
    (stores, alike), (exchanges, _) = [(race.elements.tolist(), race.alike) for race in launch.races()][:2]
    assert (stores, alike, exchanges) == ([7 - differing], False, [3, 4])


def test_lanes_of_one_exchange(launch, x):
    launch.do("atomic", x, 1, 0, [4, 4], True, 1)
    assert launch.told() == []


def test_the_same_program_may_do_all(launch, x):
    for op in ("load", "store", "atomic", "store", "load"):
        launch.do(op, x, 1, [0, 1], [[0, 1], [2, 3]])
        launch.exchange(x, 1, [0, 1], [[0, 1], [2, 3]], launch.turn)
    assert launch.told() == []


def test_tensors_do_not_mix(launch, x):
    launch.store(x, 1, 0, 3)
    launch.store(launch.tensor("y", 8), 2, 1, 3)
    assert launch.told() == []


def test_an_atomic_between_loads_and_a_store(launch, x):
    launch.load(x, 1, 0, 3)
    launch.do("atomic", x, 2, 1, 3)
    launch.store(x, 3, 2, 3)
    assert launch.told() == [(2, 1, 3, 0, "load", [3]), (3, 2, 3, 1, "store", [3])]


def test_what_nobody_counted_is_not_looked_at(launch, x):
    launch.load(x, 1, [0, 1], 3)
    x.stored = None
    assert launch.told() == []
    x.stored, x.loaded = np.ones(8, np.int32), None
    assert launch.told() == []


def test_each_line_is_told_once_with_all_its_elements(launch, x):
    launch.store(x, 1, [0, 1, 2], [0, 1, 2])
    launch.load(x, 2, [1, 2], [[0, 6], [2, 6]])
    launch.store(x, 1, [3, 4], 5)
    assert launch.told() == [(1, 1, 0, 0, "store", [0, 1, 2, 5]), (2, 1, 0, 0, "store", [0, 2])]


def test_a_load_before_the_store_is_told_by_the_later_program(launch, x):
    """x[i] = x[i - 1] and x[i] = x[i + 1] in step: all load before any stores, but are told one after the other."""
    for by, told in ((-1, (1, 1, 1, 0, "store", [1, 3, 5])), (1, (2, 1, 2, 0, "load", [2, 4, 6]))):
        launch = Launch()
        x = launch.tensor("x", 8)
        mine = np.arange(8).reshape(4, 2)
        launch.load(x, 1, np.arange(4), np.where((mine + by >= 0) & (mine + by < 8), mine + by, -1))
        launch.store(x, 2, np.arange(4), mine)
        assert launch.told() == [told]


def test_the_order_of_the_programs_is_that_of_the_telling(launch, x):
    launch.store(x, 1, [0, 1], 0)
    launch.load(x, 2, 2, 0)
    assert launch.told() == [(1, 1, 0, 0, "store", [0]), (2, 2, 0, 1, "store", [0])]
    assert launch.told(position=[2, 1, 0]) == [(1, 1, 0, 2, "load", [0])]
    assert launch.told(position=[1, 2, 0]) == [(1, 0, 0, 2, "load", [0])]
    assert launch.told(position=[0, 2, 1]) == [(2, 2, 0, 0, "store", [0]), (1, 1, 0, 0, "store", [0])]


def test_a_store_that_others_stored_to_and_loaded(launch, x):
    launch.load(x, 1, 0, [0, 1, 2])
    launch.store(x, 2, 0, [2])
    launch.store(x, 3, 1, [1, 2])
    assert launch.told() == [(3, 1, 2, 0, "store", [1, 2])]


def test_several_readers(launch, x):
    launch.load(x, 1, [0, 1, 3], [[2], [2], [3]])
    launch.store(x, 2, 3, [3, 2])
    assert launch.told() == [(2, 3, 2, races.SEVERAL, "load", [2])]


def test_the_first_lane_is_named(launch, x):
    launch.store(x, 1, [0, 1], [[2, 3, 4, 5], [7, 5, 3, 6]])
    assert launch.told() == [(1, 1, 5, 0, "store", [3, 5])]


def test_several_lanes_of_one_store(launch, x):
    launch.do("store", x, 1, [0, 1, 2], [[0, -1, 1], [2, 3, 2], [5, 5, 4]], True)
    assert launch.told() == [(1, 1, 2, races.NOBODY, "store", [2, 5])]
    launch.do("store", x, 1, 0, [7, 7], True)
    assert launch.told()[0] == (1, 0, 7, races.NOBODY, "store", [2, 5, 7])


def test_several_lanes_of_one_atomic(launch, x):
    launch.do("atomic", x, 1, [0, 1], [[0, 0], [0, 1]], True)
    assert launch.told() == []


def test_lanes_and_programs_in_one_way(launch, x):
    launch.do("store", x, 1, [0, 1], [[4, 4], [5, 4]], True)
    assert [told[:4] for told in launch.told()] == [(1, 0, 4, races.NOBODY), (1, 1, 4, 0)]


# ----------------------------------------------------------------------------------------------------- with syncs


def test_a_flag(launch, x):
    launch.store(x, 1, 0, 3)
    launch.release(0, FLAG)
    launch.acquire(1, FLAG)
    launch.load(x, 2, 1, 3)
    launch.store(x, 3, 1, 3)
    assert launch.told() == []


@pytest.mark.parametrize(
    "steps",
    [
        ["release", "store", "acquire", "load"],
        ["store", "acquire", "release", "load"],
        ["store", "release", "load", "acquire"],
        ["store", "acquire", "load", "release"],
        ["store", "release other", "acquire", "load"],
        ["store", "release", "load"],
        ["store", "acquire", "load"],
        ["store", "acquire by 0", "release by 1", "load"],
        ["store", "acquire by 0", "acquire", "load"],
        ["store", "release", "release by 1", "load"],
    ],
)
def test_a_flag_gone_wrong(launch, x, steps):
    does = {
        "store": lambda: launch.store(x, 1, 0, 3),
        "load": lambda: launch.load(x, 2, 1, 3),
        "release": lambda: launch.release(0, FLAG),
        "acquire": lambda: launch.acquire(1, FLAG),
        "release other": lambda: launch.release(0, OTHER_FLAG),
        "acquire by 0": lambda: launch.acquire(0, FLAG),
        "release by 1": lambda: launch.release(1, FLAG),
    }
    for step in steps:
        does[step]()
    assert launch.told() == [(2, 1, 3, 0, "store", [3])]


def test_order_counts_in_turns_not_in_numbers(launch, x):
    """Program 1 comes first; told is by number."""
    launch.store(x, 1, 1, 3)
    launch.release(1, FLAG)
    launch.acquire(0, FLAG)
    launch.load(x, 2, 0, 3)
    assert launch.told() == []
    launch.store(x, 3, 1, 3)
    assert launch.told() == [(3, 1, 3, 0, "load", [3])]


@pytest.mark.parametrize("broken", [None, 0, 1, 2, 3])
def test_order_goes_on_through_several_addresses(launch, x, broken):
    launch.store(x, 1, 0, 3)
    for program in range(4):
        launch.release(program, FLAG + program + 10 * (program == broken))
        launch.acquire(program + 1, FLAG + program)
    launch.load(x, 2, 4, 3)
    assert launch.told() == ([] if broken is None else [(2, 4, 3, 0, "store", [3])])


def test_what_is_left_at_an_address_stays_there(launch, x):
    launch.store(x, 1, [0, 1], [[0], [1]])
    launch.release(0, FLAG)
    launch.release(1, FLAG)  # on top of what 0 left
    launch.acquire(2, OTHER_FLAG)
    launch.acquire(3, FLAG)
    launch.load(x, 2, [2, 3], [0, 1])
    assert launch.told() == [(2, 2, 0, 1, "store", [0, 1])] or launch.told() == [(2, 2, 0, 0, "store", [0, 1])]
    assert {race.program for race in launch.races()} == {2}


def test_a_release_does_not_acquire(launch, x):
    launch.store(x, 1, 0, 3)
    launch.release(0, FLAG)
    launch.release(1, FLAG)
    launch.load(x, 2, 1, 3)
    assert launch.told() == [(2, 1, 3, 0, "store", [3])]


def test_an_atomic_with_several_addresses_does_not_pass_on_from_one_to_the_other(launch, x):
    launch.store(x, 1, 0, 3)
    launch.release(0, FLAG)
    launch.sync(1, FLAG, OTHER_FLAG)  # each lane for itself
    launch.acquire(2, OTHER_FLAG)
    launch.load(x, 2, [1, 2], 3)
    assert launch.told() == [(2, 2, 3, 0, "store", [3])]
    launch.release(1, OTHER_FLAG)
    launch.acquire(3, OTHER_FLAG)
    launch.load(x, 3, 3, 3)
    assert [told[0] for told in launch.told()] == [2]


def test_what_only_one_program_does_comes_between(launch, x):
    """0 and 2 race, and 1 stands in between in number, but after it in time it orders neither."""
    launch.store(x, 1, 1, 3)
    launch.release(1, FLAG)
    launch.acquire(0, FLAG)
    launch.acquire(2, FLAG)
    launch.store(x, 2, [0], 3)
    launch.store(x, 3, [2], 3)
    assert launch.told() == [(3, 2, 3, 0, "store", [3])]


def test_the_atomic_itself_comes_after_what_it_acquires(launch, x):
    """0 sets a counter to its start and lets 1 count."""
    launch.store(x, 1, 0, 3)
    launch.release(0, FLAG)
    launch.turn += 1
    launch.syncs.append(Sync(launch.turn + 1, 1, FLAG, True, True))
    launch.do("atomic", x, 2, 1, 3)
    assert launch.told() == []


def test_programs_of_one_atomic_come_one_after_the_other(launch, x):
    """A ticket that all take at once: only the last one may look at all partial sums."""
    launch.store(x, 1, np.arange(8), np.arange(8)[:, None])
    for program in (3, 0, 7, 1, 2, 6, 4, 5):
        launch.sync(program, FLAG)
    launch.load(x, 2, 5, np.arange(8))
    assert launch.told() == []
    launch.load(x, 3, 4, np.arange(8))
    assert launch.told() == [(1, 5, 5, 4, "load", [5])]


@pytest.mark.parametrize("wrong", [None, "unlock early", "own lock", "load early", "store late", "two locks"])
def test_a_lock(launch, x, wrong):
    lanes = np.arange(8)
    for program in (2, 0, 1, 3):
        lock = LOCK + (program if wrong == "own lock" else program % 2 if wrong == "two locks" else 0)
        if wrong == "load early":
            launch.load(x, 1, program, lanes)
        launch.sync(program, lock)
        if wrong == "unlock early":
            launch.release(program, lock)
        if wrong != "load early":
            launch.load(x, 1, program, lanes)
        if wrong != "store late":
            launch.store(x, 2, program, lanes)
        if wrong != "unlock early":
            launch.release(program, lock)
        if wrong == "store late":
            launch.store(x, 2, program, lanes)
    found = launch.races()
    assert bool(found) == (wrong is not None)
    for race in found:
        assert race.elements.tolist() == lanes.tolist()


def test_a_lock_for_each_band_and_one_of_them_wrong(launch, x):
    for program in range(4):
        for band in range(4):
            band = (band + program) % 4
            lock = LOCK + (band if band < 3 or program < 2 else 9)
            launch.sync(program, lock)
            launch.load(x, 1, program, [2 * band, 2 * band + 1])
            launch.store(x, 2, program, [2 * band, 2 * band + 1])
            launch.release(program, lock)
    programs = [i // 12 for i in range(len(launch.batches))]
    assert len(programs) == 32
    assert launch.told() == [(1, 2, 6, 1, "store", [6, 7]), (2, 2, 6, 1, "store", [6, 7])]


def test_the_first_one_finds_it_empty(launch, x):
    """The layer norm of Triton's tutorial: a lock, a count that is loaded and set, a sum that the first one only stores."""
    count = launch.tensor("count", 1)
    for program in range(3):
        launch.sync(program, LOCK)
        launch.load(count, 1, program, 0)
        if program == 0:
            launch.do("atomic", count, 2, program, 0)
        else:
            launch.load(x, 3, program, np.arange(8))
        launch.store(x, 4, program, np.arange(8))
        launch.release(program, LOCK)
    assert launch.told() == []


def test_a_barrier_of_all_programs(launch, x):
    lanes = np.arange(8)
    launch.store(x, 1, lanes, lanes[:, None])
    for program in lanes.tolist():
        launch.sync(program, FLAG)
    for program in lanes.tolist()[:7]:  # wait until all have come
        launch.acquire(program, FLAG)
    launch.load(x, 2, lanes, ((lanes + 1) % 8)[:, None])
    assert launch.told() == []
    launch.store(x, 3, lanes, lanes[:, None])  # another barrier is missing
    assert {told[0] for told in launch.told()} == {2, 3}


# ----------------------------------------------------------------------------------------------------- threads that lag behind


@pytest.mark.parametrize("program", [0, 1])
@pytest.mark.parametrize("released, hasty", [(True, True), (False, False)])
def test_who_tells_of_an_access_before_its_threads_have_made_it(launch, x, program, released, hasty):
    """Threads 7 of `program` store, and threads 9 release a flag. Without the release there is a race as ever."""
    other = 1 - program
    launch.do("store", x, 1, program, 3, by=7)
    if released:
        launch.release(program, FLAG, by=9)
    launch.acquire(other, FLAG)
    launch.do("load", x, 2, other, 3, by=7)
    assert bool(launch.races()) == (not released)  # if all threads were one
    (race,) = launch.races(threads=True)
    assert (race.site.line, race.program, race.other) == (2 - program, 1, 0) if program else (2, 1, 0)
    assert race.hasty == ((program, "store", 1) if hasty else None)


@pytest.mark.parametrize("lanes", [[3, 4], [4, 3]])
@pytest.mark.parametrize("hasty", [True, False])
def test_what_is_said_of_a_race_is_true_of_its_element(launch, x, lanes, hasty):
    """Program 0 stores to element 3 and program 1 adds to element 4; program 2 loads both, and the first lane is named."""
    launch.do("store", x, 1, 0, 3, by=7)
    launch.do("atomic", x, 2, 1, 4, by=8)
    for program in (0, 1) if hasty else (2,):
        launch.release(program, FLAG, by=9)
    launch.acquire(2, FLAG)
    launch.load(x, 3, 2, lanes)
    (race,) = launch.races(threads=True)
    first = {3: (0, "store", 1), 4: (1, "atomic", 2)}[lanes[0]]
    assert (race.element, race.other, race.updated) == (lanes[0], first[0], lanes[0] == 4)
    assert race.elements.tolist() == [3, 4] and race.hasty == (first if hasty else None)


def test_the_access_that_is_named_is_the_hasty_one(launch, x):
    """Two programs store to one element, one after the other, and both tell a third one too early: the later one is named."""
    for program in (1, 0):
        launch.do("store", x, program, program, 3, by=7)
        launch.release(program, FLAG, by=9)
        launch.acquire(1 - program, FLAG)
    launch.acquire(2, FLAG)
    launch.load(x, 3, 2, 3)
    race = launch.races(threads=True)[-1]
    assert (race.site.line, race.other, race.hasty) == (3, 1, (1, "store", 1))


# ----------------------------------------------------------------------------------------------------- far-off atomics


def test_of_every_other_program_the_atomic_nearest_to_a_load_is_compared(launch, x):
    """Programs 2 to 5 add to elements twice, in lines 20 and 21, 30 and 31, ... and then program 1, which lets program 0 load. So
    the atomics beside the load are in order, and of each of the others the second one is told."""
    for program in (2, 3, 4, 5, 1):
        for line in (10 * program, 10 * program + 1):
            launch.do("atomic", x, line, program, [2, 3] if program != 4 else [2])
    launch.release(1, FLAG)
    launch.acquire(0, FLAG)
    launch.load(x, 1, 0, [2, 3])
    assert launch.told() == [
        (21, 2, 2, 0, "load", [2, 3]),
        (31, 3, 2, 0, "load", [2, 3]),
        (41, 4, 2, 0, "load", [2]),
        (51, 5, 2, 0, "load", [2, 3]),
    ]


@pytest.mark.parametrize("program", [0, 2])
def test_the_first_atomic_of_all_is_compared(launch, x, program):
    """It is far from a load, and no other one is out of order."""
    launch.do("atomic", x, 1, program, 3)
    launch.do("atomic", x, 2, 1, 3)
    launch.release(1, FLAG)
    launch.acquire(3, FLAG)
    launch.load(x, 3, 3, 3)
    assert launch.told() == [(3, 3, 3, program, "store", [3])]


def test_far_off_atomics_of_elements_that_race_anyway_are_passed_over(launch, x):
    """Program 2 adds to both elements, far from the loads. Of element 2 a race is told already: program 4 stores to it."""
    launch.do("atomic", x, 1, 2, [2, 3])
    launch.do("atomic", x, 2, 1, [2, 3])
    launch.release(1, FLAG)
    launch.acquire(0, FLAG)
    launch.load(x, 3, 0, [2, 3])
    launch.store(x, 4, 4, 2)
    assert launch.told() == [(1, 2, 3, 0, "load", [3]), (4, 4, 2, 2, "store", [2])]


# ----------------------------------------------------------------------------------------------------- against brute force


def happens_before(syncs: list[Sync]):
    """Whether (program, when) comes before (program, when), by following every step of order there is."""
    after: dict[tuple, set] = {}
    turns: dict[int, list[int]] = {}
    last: dict[int, tuple] = {}
    for sync in sorted(syncs, key=lambda sync: sync.when):
        here = sync.program, sync.when
        mine = turns.setdefault(sync.program, [])
        if sync.when not in mine:
            if mine:
                after.setdefault(("end", sync.program, mine[-1]), set()).add(("begin", *here))
            mine.append(sync.when)
        at = "at", sync.address, *here
        after.setdefault(("begin", *here), set()).update([("end", *here), *([at] if sync.release else [])])
        after.setdefault(last.get(sync.address), set()).add(at)
        after.setdefault(at, set()).update([("end", *here)] if sync.acquire else [])
        last[sync.address] = at

    def before(first: tuple[int, int], second: tuple[int, int]) -> bool:
        begins = [when for when in turns.get(first[0], ()) if when >= first[1]]
        ends = [when for when in turns.get(second[0], ()) if when <= second[1]]
        if not begins or not ends:
            return False
        seen, found = set(), [("begin", first[0], begins[0])]
        while found:
            node = found.pop()
            if node not in seen:
                seen.add(node)
                found += after.get(node, ())
        return ("end", second[0], ends[-1]) in seen

    return before


def all_races(launch: Launch, position) -> dict[tuple[str, int], set[int]]:
    """The elements of every race, by the tensor and line of the one that is told later: every pair of accesses is looked at."""
    before, found, events = happens_before(launch.syncs), {}, []
    for batch in launch.batches:
        for i, program in enumerate(batch.programs.tolist()):
            when = batch.when + (i if batch.op == "atomic" else 0)
            events.append((batch, program, when, set(batch.lanes[i].tolist()) - {-1}))
    contested = {}  # what atomics do to each element, if nobody asks: one value that they put there, or several, or more than that
    for batch, program, _, elements in events:
        for element in elements if batch.op == "atomic" and not batch.asked else ():
            does = None if batch.puts is None else int(batch.puts[batch.programs.tolist().index(program), 0])
            contested.setdefault((batch.region.name, element), set()).add(does)
    for number, one in enumerate(events):
        for other in events[number + 1 :]:
            common, batches = one[3] & other[3], (one[0], other[0])
            ops = {one[0].op, other[0].op}
            if one[1] == other[1] or one[0].region is not other[0].region:
                continue
            if ops == {"atomic"} and not any(b.asked for b in batches) and any(b.puts is not None for b in batches):
                common = {e for e in common if len(contested[one[0].region.name, e]) > 1}
            elif "store" not in ops and ops != {"load", "atomic"}:
                continue
            if not common:
                continue
            first, second = sorted((one, other), key=lambda event: event[2])
            if not before(first[1:3], second[1:3]):
                later = max(one, other, key=lambda event: position[event[1]])[0]
                found.setdefault((later.region.name, later.site.line), set()).update(common)
    return found


def drawn(rng: np.random.Generator) -> Launch:
    """A launch in which anything may happen."""
    launch = Launch()
    programs, size, addresses = rng.integers(2, 7), int(rng.integers(1, 6)), int(rng.integers(1, 4))
    tensors = [launch.tensor("x", size), launch.tensor("y", size)]
    often = rng.choice([0.2, 0.5, 0.8])
    for _ in range(rng.integers(2, 25)):
        who = rng.permutation(programs)[: rng.choice([1, 2, programs])]
        if rng.random() < often:
            for program in who.tolist():
                acquire, release = ((True, True), (True, False), (False, True))[rng.integers(3)]
                at = rng.permutation(addresses)[: rng.integers(1, 3)].tolist()
                launch.sync(program, *at, acquire=acquire, release=release)
        else:
            lanes = np.array([rng.permutation(size + 2)[:3] for _ in who])
            lanes[lanes >= size] = -1
            op = str(rng.choice(["load", "store", "load", "store", "atomic", "asked", "exchange", "exchange"]))
            puts = rng.integers(2, size=len(who)) if op == "exchange" else None
            op = "atomic" if op == "exchange" else op
            launch.do(op, tensors[rng.integers(2)], int(rng.integers(1, 8)), who, lanes, puts=puts)
    launch.position = rng.permutation(programs) if rng.random() < 0.5 else np.arange(programs)
    return launch


@pytest.mark.parametrize("clock_bytes, far_off, at_once", [(1, 1 << 20, 1 << 18), (1 << 28, 3, 1)])
def test_against_every_pair_of_accesses(monkeypatch, clock_bytes, far_off, at_once):
    monkeypatch.setattr(ordering, "CLOCK_BYTES", clock_bytes)
    monkeypatch.setattr(races, "AT_ONCE", at_once)
    monkeypatch.setattr(races, "FAR_OFF", far_off)
    clean = missed = 0
    passed_over = set()
    for seed in range(300):
        launch = drawn(np.random.default_rng(seed))
        wanted = all_races(launch, launch.position)
        found = {(r.region.name, r.site.line): set(r.elements.tolist()) for r in launch.races(launch.position)}
        for line, elements in found.items():
            assert elements <= wanted.get(line, set()), (seed, line)  # nothing is told that is none
        racing = [{(line[0], e) for line, elements in each.items() for e in elements} for each in (wanted, found)]
        passed_over |= {(seed, *element) for element in racing[0] - racing[1]}
        clean, missed = clean + (not wanted), missed + len(wanted) - len(found)
    assert clean > 30
    assert not passed_over
    assert (
        missed < 60
    )  # of 1200 lines, some that are wrong with far-off accesses alone, on elements that are told of anyway


@pytest.mark.parametrize("program", [0, 1])
def test_what_threads_did_is_told_by_those_threads(program):
    """Program `program` releases by threads 7 at turn 2 and by threads 9 at turn 4; the other one acquires at turn 5."""
    other = 1 - program
    releases = [Sync(2, program, FLAG, False, True, threads=7), Sync(4, program, FLAG, False, True, threads=9)]
    order = Ordering([*releases, Sync(5, other, FLAG, True, False, threads=7)])
    threads = np.array([7, 9, 9, 8])  # of what `program` does at these turns; the other one looks at turn 6
    when = np.array([3, 3, 5, 1])
    programs = np.full(4, program), np.full(4, other)
    seen = order.ordered(programs[0], when, programs[1], np.full(4, 6), by=(threads, np.full(4, 7)))
    assert seen.tolist() == [False, True, False, False]


# ----------------------------------------------------------------------------------------------------- work


class Untouched(Batch):
    def touched(self):
        raise AssertionError("nobody needs to look")

    turns = property(touched)


@pytest.fixture
def work(monkeypatch) -> dict[str, int]:
    """Counts what costs: accesses that are compared, and clocks that are made."""
    done = {"events": 0, "asked": 0, "joined": 0, "copied": 0, "bytes": 0}
    nearest, joined, with_, ordered = races._nearest, ordering._joined, ordering._with, Ordering.ordered

    def counted_nearest(group, program, stores):
        done["events"] += group.size
        return nearest(group, program, stores)

    def counted_joined(a, b):
        done["joined"] += 1
        return joined(a, b)

    def counted_with(clock, column, value, columns, kind):
        result = with_(clock, column, value, columns, kind)
        done["copied"] += result is not clock
        done["bytes"] = max(done["bytes"], columns * np.dtype(kind).itemsize)
        return result

    def counted_ordered(self, first, *rest):
        done["asked"] += first.size
        return ordered(self, first, *rest)

    monkeypatch.setattr(races, "_nearest", counted_nearest)
    monkeypatch.setattr(ordering, "_joined", counted_joined)
    monkeypatch.setattr(ordering, "_with", counted_with)
    monkeypatch.setattr(Ordering, "ordered", counted_ordered)
    return done


def test_where_no_element_is_touched_twice_nobody_looks(launch, work):
    x, y, o = launch.tensor("x", 1024), launch.tensor("y", 1024), launch.tensor("o", 1024)
    for tensor in (x, y):
        launch.load(tensor, 1, np.arange(4), np.arange(1024).reshape(4, 256))
        launch.load(tensor, 2, np.arange(4), np.arange(1024))
    launch.store(o, 3, np.arange(4), np.arange(1024).reshape(4, 256))
    y.stored = None  # nobody counted
    for batch in launch.batches:
        batch.__class__ = Untouched
    assert launch.races() == []


def test_in_place_compares_nothing(launch, work):
    x = launch.tensor("x", 1 << 20)
    lanes = np.arange(1 << 20).reshape(1024, 1024)
    launch.load(x, 1, np.arange(1024), lanes)
    launch.store(x, 2, np.arange(1024), lanes)
    launch.do("atomic", launch.tensor("count", 1), 3, np.arange(1024), [0])
    sums = launch.tensor("sums", 1024)
    launch.do("atomic", sums, 4, np.arange(1024), np.arange(1024)[:, None])
    launch.load(sums, 5, np.arange(1024), np.arange(1024)[:, None])
    launch.syncs += [Sync(launch.turn + i, i, FLAG, True, True) for i in range(1024)]
    assert launch.races() == []
    assert not any(work.values())


def test_accesses_are_looked_at_some_at_a_time(launch, x, monkeypatch):
    """Never more than AT_ONCE and one batch: of batches of 3, 1, 3, 1 and 2 accesses, two together make 4."""
    monkeypatch.setattr(races, "AT_ONCE", 4)
    for lanes in (3, 1, 3, 1, 2):
        launch.load(x, 1, 0, np.arange(lanes))
    history = races.History(x, launch.batches, None, False)
    assert [elements.tolist() for elements, _ in history.touched()] == [[0, 1, 2, 0], [0, 1, 2, 0], [0, 1]]
    assert [rows.tolist() for _, rows in history.touched()] == [[0, 0, 0, 1], [2, 2, 2, 3], [4, 4]]


def test_elements_with_the_same_accesses_are_compared_once(launch, work):
    x = launch.tensor("x", 1000)
    launch.load(x, 1, np.arange(1000), np.arange(1000))
    launch.store(x, 2, np.arange(1000), np.arange(1000))
    assert launch.told() == [(1, 1, 0, 0, "store", [*range(1000)]), (2, 1, 0, 0, "store", [*range(1000)])]
    assert work["events"] == 2 * 2000  # forwards and backwards


@pytest.mark.parametrize("programs", [1000, 20_000])
@pytest.mark.parametrize("right", [True, False])
def test_a_ticket_of_many_programs(launch, work, programs, right):
    x, everyone = launch.tensor("x", programs), np.arange(programs)
    if right:
        launch.store(x, 1, everyone, everyone[:, None])
    for program in range(programs):
        launch.sync(program, FLAG)
    if not right:
        launch.store(x, 1, everyone, everyone[:, None])
    launch.load(x, 2, programs - 1, everyone)
    found = launch.told()
    assert found == ([] if right else [(2, programs - 1, 0, 0, "store", everyone[:-1].tolist())])
    assert work["events"] <= 8 * programs and work["asked"] <= 8 * programs
    assert work["joined"] <= 2 * programs and work["copied"] <= programs and work["bytes"] <= programs


def test_a_lock_of_many_programs(launch, work):
    x, programs = launch.tensor("x", 64), 1000
    for program in range(programs):
        launch.sync(program, LOCK)
        launch.load(x, 1, program, np.arange(64))
        launch.store(x, 2, program, np.arange(64))
        launch.release(program, LOCK)
    assert launch.told() == []
    assert work["events"] == 2 * 2 * 2 * programs  # load and store, forwards and backwards, as told and as it was
    assert work["joined"] <= 4 * 2 * programs and work["copied"] <= 2 * programs


def test_a_lock_for_each_program_costs_nothing(launch, work):
    x = launch.tensor("x", 64)
    for program in range(100):
        launch.sync(program, LOCK + program)
        launch.store(x, 2, program, np.arange(64))
        launch.release(program, LOCK + program)
    assert launch.told() == [(2, 1, 0, 0, "store", [*range(64)])]
    assert work["joined"] == work["copied"] == 0


def test_programs_that_spin_make_no_new_clocks(launch, work):
    """A hundred programs ask for a lock over and over; whoever learns nothing new copies nothing."""
    x, programs = launch.tensor("x", 1), 100
    for holder in range(programs):
        for program in range(holder, programs):
            launch.sync(program, LOCK)
        launch.store(x, 1, holder, 0)
        launch.release(holder, LOCK)
    assert launch.told() == []
    assert work["copied"] <= programs


# ----------------------------------------------------------------------------------------------------- sentences

UNINITIALISED = "trace.value.uninitialised"


@pytest.fixture
def faults(launch, x) -> Faults:
    faults = Faults()
    begin(faults, launch, {"x_ptr": x})
    return faults


def begin(faults: Faults, launch: Launch, parameters: dict, grid=(4, 2, 1), position=None, number=0) -> None:
    def find(low, high):
        return next((r for r in launch.regions if r.start <= low and high <= r.start + r.nbytes), None)

    arena = SimpleNamespace(
        regions=launch.regions, find=find, nearest=lambda address, regions: next(iter(regions), None)
    )
    faults.begin_launch(number, grid, arena, parameters, position)


def program(*index: int) -> Message:
    return say("trace.program", index=index)


def test_sentences_of_races(launch, x, faults):
    launch.store(x, 1, [0, 5, 7], [[0, 1], [1, 2], [0, 5]])
    launch.load(x, 2, 6, 2)
    launch.load(x, 3, [1, 2], 7)
    launch.store(x, 4, 7, 7)
    launch.do("store", x, 5, 3, [4, 4], True)
    launch.do("atomic", x, 6, 3, 1)
    launch.exchange(x, 7, [0, 1], 3, [1, 2])
    faults.races(launch.batches, launch.syncs)
    races = [
        (7, "replaces", 3),
        (5, "lanes", 4),
        (6, "stores", 1),
        (1, "stores", 1),
        (2, "loads_stored", 2),
        (4, "writes_loaded", 7),
    ]
    assert [
        (fault.line, fault.sentence.id.removeprefix("trace.race."), fault.sentence.parameters["element"])
        for fault in faults.report()
    ] == races
    parameters = [fault.sentence.parameters for fault in faults.report()]
    assert [each["elements"] for each in parameters] == [1, 1, 1, 2, 1, 1]
    assert [each["program"] for each in parameters] == [
        *(program(1, 0), program(3, 0), program(3, 0), program(1, 1), program(2, 1), program(3, 1))
    ]
    assert [each.get("other") for each in parameters] == [
        *(program(0, 0), None, program(0, 0), program(3, 0), program(1, 1), say("trace.several"))
    ]
    assert {(fault.kind, fault.tensor, fault.kernel) for fault in faults.report()} == {("race", "x", "kernel")}


def test_a_fault_is_told_once_for_all_launches(launch, x, faults):
    launch.store(x, 1, [2, 3], [1, 2])
    faults.races(launch.batches, [])
    again = Launch()
    longer = again.tensor("x", 16)
    begin(faults, again, {"x_ptr": longer}, number=1)
    again.store(longer, 1, [0, 1], [1, 2, 3])
    faults.races(again.batches, [])
    (fault,) = faults.report()
    facts = {"program": program(3, 0), "element": 1, "other": program(2, 0), "elements": 3}
    assert says(fault.sentence, "trace.race.stores", **facts)


def test_what_nobody_wrote_is_told_of_the_first_program(launch, x, faults):
    site = Site("kernel", 1, "source")
    for programs, elements in (([5, 3], [0, 1]), ([2, 6], [5, 6]), ([4, 7], [5, 7])):
        batch = Batch("load", site, x, np.array(programs), 1, np.array(elements)[:, None])
        faults.uninitialised(batch, *batch.touched())
    (fault,) = faults.report()
    assert says(fault.sentence, UNINITIALISED, program=program(2, 0), element=5, elements=5)
    faults = Faults()
    begin(faults, launch, {"x_ptr": x}, position=np.arange(8)[::-1])
    faults.uninitialised(batch, *batch.touched())
    assert says(faults.report()[0].sentence, UNINITIALISED, program=program(3, 1), element=7)


def test_elements_that_become_smaller_in_between(launch, x, faults):
    batch = Batch("load", Site("kernel", 1, "source"), x, np.array([0]), 1, np.array([[6, 7]]))
    faults.uninitialised(batch, *batch.touched())
    x.refine(2)
    batch = Batch("load", Site("kernel", 1, "source"), x, np.array([0]), 1, np.array([[0, 15]]))
    faults.uninitialised(batch, *batch.touched())
    assert says(faults.report()[0].sentence, UNINITIALISED, elements=5)


def test_an_input_that_is_stored_to(launch, x, faults):
    batch = Batch("store", Site("kernel", 1, "source"), x, np.array([4, 1]), 1, np.array([[1], [2]]))
    faults.input_changed(batch)
    (fault,) = faults.report()
    assert says(fault.sentence, "trace.value.input_changed", program=program(1, 0), tensor="`x`", elements=2)


@pytest.mark.parametrize("op", ["load", "store", "atomic"])
def test_misaligned(x, faults, op):
    fault = faults.misaligned(op, Site("kernel", 1, "source"), x, 2, 12, 8)
    assert (fault.kind, fault.line, fault.tensor) == ("misaligned", 1, "x")
    facts = {"program": program(2, 0), "does": say(f"trace.verb.{op}"), "itemsize": 8, "byte": 12}
    assert says(fault.sentence, "trace.out_of_bounds.misaligned", **facts)
    assert faults.report() == [fault]


def test_a_wild_access_is_booked_on_the_tensor_of_its_line(launch, x, faults):
    y = launch.tensor("y", 4)
    x.start, y.start = 4096, 8192
    wild, site = np.array([10**9, 10**9 + 4]), Site("kernel", 7, "tl.load(p)")
    launch.load(y, 7, 0, 2)
    fault = faults.out_of_bounds("load", site, wild, 4, 6)
    assert says(fault.sentence, "trace.out_of_bounds.outside", tensor="`x`", size=8, outside=2, positions=2)
    fault = faults.out_of_bounds("load", site, wild, 4, 6, launch.batches)
    assert fault.tensor == "y" and fault.sentence.parameters["program"] == program(2, 1)
    named = faults.out_of_bounds("load", Site("kernel", 8, "tl.load(x_ptr + 3)"), wild, 4, 6, launch.batches)
    assert named.tensor == "x"
    none = Launch()
    begin(faults, none, {})
    assert says(faults.out_of_bounds("load", site, wild, 4, 0).sentence, "trace.out_of_bounds.no_tensor")
