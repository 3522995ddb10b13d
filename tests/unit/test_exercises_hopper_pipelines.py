"""Unit 14, pipelines: solutions in many orders, recorded predictions simulated, rings named, criteria that neither cheat."""

from __future__ import annotations

import linecache
import random
from collections import Counter
from functools import cache

import pytest
import torch
from runs import MANY_ORDERS

from course_lib.criteria import judge
from course_lib.evidence import Evidence
from course_lib.execution import observe
from course_lib.exercise import Trial
from course_lib.exercises import find
from course_lib.exercises.hopper import pipelines, races, rings
from course_lib.exercises.hopper.predictions import ATTENTION, busy, overlaps
from grader import published
from grader.audit import variants
from grader.audit.variants.hopper.pipelines import RIGHT_RACES
from grader.judging.hidden.hopper.pipelines import cases as hidden
from tritontrace.hopper import Costs, schedule, simulate
from tritontrace.hopper import busy as busy_of
from tritontrace.hopper.orders import seeds
from tritontrace.tracing import KernelError

KERNELS = [exercise for exercise in pipelines.EXERCISES if exercise.kind == "kernel"]
of_kernels = pytest.mark.parametrize("exercise", KERNELS, ids=lambda e: e.id)


@cache
def defined(exercise_id: str, *edits: tuple[str, str]) -> dict:
    """Names that the published cell defines, with some of its text replaced. Triton reads a kernel's text from linecache."""
    scope: dict = {"__name__": f"cell_{len(linecache.cache)}"}
    source = published.solution_cell(exercise_id)
    for old, new in edits:
        assert old in source, old
        source = source.replace(old, new)
    for name, text in [*published.answer(exercise_id, "")[:1], (exercise_id, source)]:
        file = f"<{name} {len(linecache.cache)}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        exec(compile(text, file, "exec"), scope)
    return scope


def simulated(function, arguments, orders):
    """(report, result) of a function that allocates its result: the same one in each order."""
    made, allocate = [], torch.empty

    def empty(*shape, **options):
        if shape == (0,):
            return allocate(*shape, **options)
        if not made:
            made.append(allocate(*shape, **options))
        return made[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "empty", empty)
        report = simulate(lambda: function(**arguments), orders=orders)
    return report, made[0]


def right(exercise, result, arguments) -> bool:
    expected = exercise.oracle(**arguments)
    return bool(((result.double() - expected).abs() <= exercise.budget(expected, result.dtype, arguments)).all())


@of_kernels
def test_the_published_solution_earns_everything(exercise):
    verdict = judge(exercise, observe(exercise, defined(exercise.id)[exercise.entry], 3, seconds=60))
    assert [f.seen for f in verdict.findings if f.lost] == []
    assert verdict.points == exercise.points


@pytest.mark.slow
@of_kernels
def test_solutions_are_silent_in_many_orders_and_equal_to_torch(exercise):
    for case in exercise.cases[:2]:
        arguments = case.arguments(5)
        report, result = simulated(defined(exercise.id)[exercise.entry], arguments, seeds(MANY_ORDERS))
        assert report.right, report.fault
        assert right(exercise, result, arguments)


@pytest.mark.slow
@of_kernels
def test_solutions_are_silent_in_twenty_orders(exercise):
    case = exercise.cases[-1]
    arguments = case.arguments(6)
    report, result = simulated(defined(exercise.id)[exercise.entry], arguments, ("lazy", "timed", *seeds(18)))
    assert report.right, report.fault
    assert right(exercise, result, arguments)


@of_kernels
def test_hidden_cases_fit_the_exercise(exercise):
    groups = {case.group for case in exercise.cases}
    for seed in range(20):
        for case in hidden(exercise.id, random.Random(seed)):
            assert case.group in groups
            a = next(iter(case.arguments(seed).values()))
            assert a.shape[0] * a.shape[1] <= 128 * 1728


# ------------------------------------------------------------------------------------------------ predictions


@pytest.mark.parametrize("latency", [100, 700, 3000])
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_the_recurrence_is_what_kernels_do(latency, stages):
    """Tiles have 64 columns, as in the solutions; only barriers and the end of a tile are not in it."""
    costs = Costs(copy_latency=latency)
    edit = ("STAGES=3", f"STAGES={stages}")
    for exercise_id, rows, way in (
        ("hopper.pipelined_matmul", 64, {}),
        ("hopper.warp_specialised_matmul", 128, {"consumers": 2, "specialised": True}),
    ):
        function = defined(exercise_id, edit)[find(exercise_id).entry]
        a, b = torch.ones(rows, 1280).half(), torch.ones(1280, 64).half()
        report = simulate(function, a, b, orders=("timed",), costs=costs)
        bars = schedule(stages, steps=20, columns=64, costs=costs, **way)
        assert report.tensor_cores_busy == pytest.approx(busy_of(bars), abs=0.05)


def one_consumer(*more):
    """The attention of the exercise with a single consumer of 64 queries."""
    return (
        ("tile_ring(k_desc, 2, 2)", "tile_ring(k_desc, 2, 1)"),
        ("tile_ring(v_desc, 2, 2)", "tile_ring(v_desc, 2, 1)"),
        ("            (attend_half, (o_ptr, qs, ks, vs, row, tiles, scale, 1)),\n", ""),
        ("[4, 1],\n        [240, 24]", "[1],\n        [24]"),
        ("    fetch_into(q_desc, row + 64, qs, 1)\n", ""),
        ("gl.program_id(0) * 128, N", "gl.program_id(0) * 64, N"),
        ("(N // 128, H)", "(N // 64, H)"),
        *more,
    )


def wide():
    """Tiles of 128 keys and heads of 128."""
    return (
        ("[64, D], layout) for x", "[n, D], layout) for x, n"),
        ("in (q, k, v))\n    scale", "in zip((q, k, v), (64, 128, 128)))\n    scale"),
        (
            "NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])",
            "NVMMADistributedLayout([3, 0], [4, 1], [16, 128, 16])",
        ),
        ("gl.zeros((64, 64)", "gl.zeros((64, 128)"),
        ("offs_d = gl.arange(0, 64,", "offs_d = gl.arange(0, 128,"),
        ("offs_m[:, None] * 64 +", "offs_m[:, None] * 128 +"),
        ("head + i * 64", "head + i * 128"),
        ("head + (i - 1) * 64", "head + (i - 1) * 128"),
        ("N // 64\n", "N // 128\n"),
    )


def test_recorded_attention_is_what_the_simulator_says():
    waiting = next(v for v in variants.hopper.VARIANTS if v.name == "each product is waited for")
    found = {}
    for consumers, edits in (("one consumer", one_consumer()), ("two consumers", ())):
        for way, more in (("waits", waiting.patches), ("ahead", ())):
            function = defined("hopper.overlapped_attention", *wide(), *edits, *more)["overlapped_attention"]
            q, k, v = (torch.randn(1, 1024, 128).half() for _ in range(3))
            report = simulate(function, q, k, v, orders=("timed",))
            assert report.right, report.fault
            found[consumers, way] = report.tensor_cores_busy
    recorded = dict(zip(found, ATTENTION.values(), strict=True))
    assert found == pytest.approx(recorded, abs=0.02)


def test_comparisons_have_a_margin_of_ten_points():
    assert busy(2) - busy(1) < 0.2 - 0.1
    assert busy(3) - busy(1) > 0.15 + 0.1
    assert busy(4) - busy(3) < 0.15 - 0.1
    assert busy(3, 2) - busy(3) > 0.2 + 0.1
    one, ahead, two, _ = ATTENTION.values()
    assert two - ahead > 0.1
    assert two - one > 0.15 + 0.1
    truths = Counter(value for value in overlaps().values() if type(value) is bool)
    assert truths == {True: 3, False: 3}


# ------------------------------------------------------------------------------------------------ races


def named(answers):
    exercise = pipelines.name_races
    trials = [Trial(c, [c.arguments(0)], Evidence(c.name, outputs=[answers])) for c in exercise.cases]
    return judge(exercise, trials)


def test_the_right_ring_is_right():
    for stages in (2, 3):
        assert rings.Ring((), steps=6, stages=stages).run().right


@pytest.mark.parametrize("name", rings.MISTAKES)
def test_each_mistake_has_a_name_however_it_is_drawn(name):
    for stages in (2, 3):
        for steps in (5, 7):
            ring = rings.Ring(rings.MISTAKES[name], steps, stages)
            found = rings.faults_of(ring)
            assert found
            for fault, lines in found:
                assert fault.kind.value in races.CAUSES
                assert lines
                assert all(ring.lines[line - 1].strip() for line in lines)


def test_the_six_rings_show_six_mistakes_in_every_order():
    kinds = []
    for ring in races.RINGS.values():
        report = ring.run()
        assert all(run.fault for run in report.runs)
        kinds += {run.fault.kind.value for run in report.runs}
    assert len(kinds) == len(set(kinds)) == 6


def test_lines_of_the_simulator_are_lines_of_the_picture():
    ring = rings.Ring(rings.MISTAKES["released early"])
    ((fault, lines),) = rings.faults_of(ring)
    assert {ring.lines[ring.line_of(spot) - 1].strip() for spot in fault.lines} == {spot.source for spot in fault.lines}
    assert lines >= ring.changed == {18, 19}


def test_who_names_all_gets_all_and_reads_why():
    verdict = named(RIGHT_RACES)
    assert verdict.points == 4
    assert "may still be reading" in verdict.findings[0].detail
    assert "arrived at `empty[0]` in line 19" in verdict.findings[0].detail, "as the picture counts"
    assert named({**RIGHT_RACES, "A": ["overwritten while it is read", 7]}).points == 4, "as it comes over the wire"


def test_of_many_wrong_answers_the_first_ones_are_told():
    detail = named({**dict.fromkeys(RIGHT_RACES, ("deadlock", 1)), "number": 1}).findings[0].detail
    assert [line[0] for line in detail.splitlines()[: races.FIRST]] == ["A", "B", "C"]
    assert len(detail.splitlines()) <= races.FIRST + 2


def test_guesses_earn_little():
    chance = random.Random(0)
    kinds = list(races.CAUSES)
    points = [
        named({letter: (chance.choice(kinds), chance.randrange(1, 24)) for letter in "ABCDEFGH"} | {"number": i}).points
        for i in range(60)
    ]
    assert max(points) == 0


@pytest.mark.parametrize(
    "answers, words",
    [
        ({}, "no answer"),
        ({"A": "overwritten while it is read"}, "is no pair of a mistake and a line"),
        ({"A": ("overwritten while it is read", 3)}, "is right, but line 3 is not"),
        ({"A": ("deadlock", 5)}, "not that. Then a partition would wait forever"),
        ({"number": "seven"}, "write a whole number"),
        ({"A": ("overwritten", 5)}, "is not one of the mistakes"),
        (None, "no answer"),
    ],
)
def test_what_is_not_right_is_said(answers, words):
    verdict = named(answers)
    assert verdict.points == 0
    assert words in verdict.findings[0].detail


def test_a_block_that_a_product_adds_to_is_told():
    early = next(v for v in variants.hopper.VARIANTS if v.name == "acc is corrected while it is added to")
    function = defined("hopper.overlapped_attention", *early.patches)["overlapped_attention"]
    q, k, v = (torch.randn(1, 128, 64).half() for _ in range(3))
    with pytest.raises(KernelError, match="cannot be used as a block until"):
        simulate(function, q, k, v, orders=("lazy",))


def test_a_loop_that_a_gpu_would_begin_at_the_same_step_each_time_is_told_to_a_right_answer():
    edit = ("for k in range(steps):\n", "for at_step in range(done, done + steps):\n            k = at_step - done\n")
    exercise = find("hopper.persistent_matmul")
    persistent = next(criterion for criterion in exercise.criteria if criterion.key.startswith("persistent"))
    details = {}
    for edits in ((), (edit,)):
        function = defined(exercise.id, *edits)[exercise.entry]
        verdict = judge(exercise, observe(exercise, function, 3, seconds=60))
        assert verdict.points == exercise.points
        details[edits] = next(f.detail for f in verdict.findings if f.key == persistent.key)
    assert not details[()]
    assert "at_step in range(done" in details[(edit,)]
