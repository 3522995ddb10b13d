"""Units 13 and 14 in Gluon, but pipelines: oracles agree with brute force, solutions are right in twenty orders, and budgets admit
honest sums alone."""

from __future__ import annotations

import re

import pytest
import torch
from sentences import says

from course_lib import figures
from course_lib.criteria import judge
from course_lib.evidence import Evidence
from course_lib.execution import observe
from course_lib.exercise import Trial
from course_lib.exercises import find
from course_lib.exercises.hopper import asynchrony
from course_lib.exercises.sm import gluon as gluon_exercises
from grader.judging.cases import hidden_cases
from grader.published import published
from tritontrace.hopper import bank_conflicts, orders
from tritontrace.hopper.language import gl
from tritontrace.hopper.shared_accesses import passes
from tritontrace.hopper.simulation import EveryOrder
from tritontrace.replay import Tape, record
from tritontrace.tracing import opened
from tritontrace.ttir.frontend import front_of

EXERCISES = (*gluon_exercises.EXERCISES, *asynchrony.EXERCISES)
KERNELS = [exercise for exercise in EXERCISES if exercise.kind == "kernel"]
of_kernels = pytest.mark.parametrize("exercise", KERNELS, ids=lambda exercise: exercise.entry)

# ------------------------------------------------------------------------------------------------ oracles


def test_holders_by_hand():
    """Two rows of 128 in the layout that covers them once: pairs, 2 x 16 lanes, four warps side by side."""
    for row, col in ((0, 0), (0, 1), (0, 2), (1, 0), (1, 127), (0, 33)):
        warp, inside = divmod(col, 32)
        expected = (warp, 16 * row + inside // 2, inside % 2)
        assert gluon_exercises.holding(**gluon_exercises.blocked(row, col, *gluon_exercises.SMALL)) == expected


@pytest.mark.parametrize("layout", [gluon_exercises.ROWS, gluon_exercises.COLUMNS, gluon_exercises.SMALL], ids=str)
def test_each_element_has_a_holder_of_its_own(layout):
    held = gluon_exercises.holders(*map(tuple, layout))
    rows, cols = layout[-1]
    assert len(held) == rows * cols == len(set(held.values()))


@pytest.mark.parametrize("layout", [gluon_exercises.ROWS, gluon_exercises.COLUMNS, gluon_exercises.SMALL], ids=str)
def test_the_published_holder_is_right_for_a_whole_block(layout):
    holder = published("sm.holder")
    held = gluon_exercises.holders(*map(tuple, layout))
    assert all(holder(row, col, *layout) == who for (row, col), who in held.items())


def test_a_turn_is_what_a_ring_counts():
    """A simulated writer and reader, one tile after the other, that keep the number of openings of each barrier."""
    for size in range(1, 6):
        full, empty = [0] * size, [0] * size
        for i in range(4 * size):
            slot = i % size
            # a wait for phase n of a barrier passes once it has opened n + 1 times; for phase -1 at once
            assert empty[slot] == i // size
            assert asynchrony.turns(i, size) == (slot, full[slot] & 1, (empty[slot] - 1) & 1)
            full[slot] += 1
            empty[slot] += 1


# ------------------------------------------------------------------------------------------------ solutions


@of_kernels
def test_a_solution_is_silent_in_twenty_orders(exercise):
    case = next(case for case in exercise.cases if case.group == "plain")
    arguments = case.arguments(3)
    log = record(published(exercise.id), [arguments])
    assert not log["calls"][0]["error"]
    with opened(EveryOrder(orders.seeds(20), inputs=list(arguments.values()))) as t:
        tape = Tape(log, language="Gluon")
        tape.bind(0, arguments)
        result = tape.run(0)
    assert t.faults == []
    assert torch.allclose(result.double(), exercise.oracle(**arguments).double(), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.entry)
def test_a_check_earns_everything(exercise):
    verdict = judge(exercise, observe(exercise, published(exercise.id), 2))
    assert verdict.points == verdict.out_of


def test_rings_go_round_four_times():
    cases = {case.name: case for exercise in KERNELS for case in exercise.cases if case.group == "performance"}
    assert cases["1024 x 128"].arguments(0)["x"].shape[0] // 64 >= 4 * 4  # in the largest ring allowed
    assert cases["512 x 256"].arguments(0)["x"].shape[0] // 32 >= 4 * 3


@pytest.mark.parametrize("exercise", [e for e in KERNELS if e.budget], ids=lambda exercise: exercise.entry)
def test_budgets_admit_float32_and_not_float16(exercise):
    arguments = exercise.cases[0].arguments(7)
    expected = exercise.oracle(**arguments).double()
    budget = exercise.budget(expected, torch.float32, arguments)
    if "x" in arguments:
        honest, sloppy = arguments["x"].float().sum(0), arguments["x"].half().cumsum(0, dtype=torch.float16)[-1]
    else:
        a, b = arguments["a"], arguments["b"]
        honest, sloppy = a.float() @ b.float(), (a.float() @ b.float()).half()
    assert bool(((honest.double() - expected).abs() <= budget / 2).all())
    assert bool(((sloppy.double() - expected).abs() > budget).any())


# ------------------------------------------------------------------------------------------------ cases


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.entry)
def test_hidden_cases_can_be_launched(exercise):
    for seed in range(30):
        for case in hidden_cases(exercise.id, seed):
            arguments = case.arguments(seed)
            for tensor in arguments.values():
                if isinstance(tensor, torch.Tensor) and exercise.entry not in ("shared_transpose", "async_column_sum"):
                    assert tensor.stride(0) * tensor.element_size() % 16 == 0 == tensor.data_ptr() % 16
            assert case.group in {public.group for public in exercise.cases}


@pytest.mark.parametrize("exercise", [e for e in EXERCISES if e.kind == "formula"], ids=lambda e: e.entry)
def test_hidden_numbers_have_answers(exercise):
    answer = published(exercise.id)
    for seed in range(5):
        for case in hidden_cases(exercise.id, seed):
            arguments = case.arguments(seed)
            assert answer(**arguments) == exercise.oracle(**arguments)


# ------------------------------------------------------------------------------------------------ conflicts


def layouts_of_tiles():
    return [
        gl.SwizzledSharedLayout(1, 1, 1, [1, 0]),
        gl.SwizzledSharedLayout(1, 1, 32, [1, 0]),
        gl.SwizzledSharedLayout(4, 2, 8, [1, 0]),
        gl.SwizzledSharedLayout(1, 1, 32, [0, 1]),
        gl.PaddedSharedLayout.with_identity_for([[64, 1]], [64, 64], [1, 0]),
        gl.PaddedSharedLayout.with_identity_for([[64, 4]], [64, 64], [1, 0]),
        gl.NVMMASharedLayout(128, 32),
    ]


@pytest.mark.parametrize("shared", layouts_of_tiles(), ids=lambda layout: type(layout).__name__)
@pytest.mark.parametrize(
    "registers",
    [
        gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0]),
        gl.BlockedLayout([4, 1], [8, 4], [1, 4], [0, 1]),
        gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 8]),
    ],
    ids=lambda layout: type(layout).__name__,
)
def test_conflicts_read_from_a_text_are_those_of_the_layouts(registers, shared, a_load):
    front = front_of(a_load, {"x_ptr": torch.zeros(4), "REGISTERS": registers, "SHARED": shared}, {})
    found = passes(front)
    counted = bank_conflicts(registers, shared, [64, 64], 4)
    assert [(each.op, each.passes, each.needed) for each in found] == [
        (op, counted.passes, counted.needed) for op in ("store", "load")
    ]
    assert re.match(r"`a_load`, line \d: `", found[0].line)


def test_an_allocation_that_is_given_a_value_stores_it(a_filled_tile):
    """The conflicts are those of a store of its own; an allocation alone moves nothing."""
    registers, shared = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [0, 1]), gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    found = passes(front_of(a_filled_tile, {"x_ptr": torch.zeros(4), "REGISTERS": registers, "SHARED": shared}, {}))
    counted = bank_conflicts(registers, shared, [64, 64], 4)
    assert [(each.op, each.passes) for each in found] == [(op, counted.passes) for op in ("store", "load")]


@pytest.fixture
def a_filled_tile():
    from tritontrace.hopper.language import gluon

    @gluon.jit
    def a_filled_tile(x_ptr, REGISTERS: gl.constexpr, SHARED: gl.constexpr):
        zeros = gl.zeros([64, 64], gl.float32, REGISTERS)
        tile = gl.allocate_shared_memory(gl.float32, [64, 64], SHARED, zeros)
        gl.store(x_ptr + gl.zeros([64, 64], gl.int32, REGISTERS), tile.load(REGISTERS))

    return a_filled_tile


@pytest.fixture
def a_load():
    from tritontrace.hopper.language import gluon

    @gluon.jit
    def a_load(x_ptr, REGISTERS: gl.constexpr, SHARED: gl.constexpr):
        tile = gl.allocate_shared_memory(gl.float32, [64, 64], SHARED)
        tile.store(gl.zeros([64, 64], gl.float32, REGISTERS))
        gl.store(x_ptr + gl.zeros([64, 64], gl.int32, REGISTERS), tile.load(REGISTERS))

    return a_load


# ------------------------------------------------------------------------------------------------ remarks


def remark_on(exercise_id, outputs):
    """The remark on a formula that answers each public case so."""
    exercise = find(exercise_id)
    trials = []
    for case in exercise.cases:
        arguments = case.arguments(0)
        evidence = Evidence(case.name, outputs=[list(outputs(**arguments))])
        trials.append(Trial(case, [arguments], evidence))
    return judge(exercise, trials).remark


def test_remarks_on_parities():
    assert remark_on("hopper.phase_of", asynchrony.turns) == ""
    assert (
        remark_on("hopper.phase_of", lambda i, SIZE: (i % SIZE, i % 2, (i + 1) % 2)).id
        == "hopper.phase_of.parity_of_the_tile"
    )
    swapped = remark_on("hopper.phase_of", lambda i, SIZE: (lambda s, f, e: (s, e, f))(*asynchrony.turns(i, SIZE)))
    assert "swapped" in swapped


def test_remarks_on_holders():
    def turned(**arguments):
        return gluon_exercises.holding(**arguments | {"order": arguments["order"][::-1]})

    assert says(remark_on("sm.holder", turned), "sm.holder.axes_swapped")
    assert remark_on("sm.holder", gluon_exercises.holding) == ""


def test_figures_agree_with_the_banks():
    places = figures.sm.gluon.places
    count = figures.sm.gluon.passes_of_a_column
    assert [count(places()), count(places(padding=1)), count(places(padding=2)), count(places(swizzled=True))] == [
        32,
        1,
        2,
        1,
    ]
