"""Every unit, whatever it teaches: built, complete, with variants, and its notebooks run."""

import re

import nbformat
import pytest
from sampling import sampled

import grader
from course_lib.criteria import TritonDidTheWork
from course_lib.exercises import UNITS
from course_lib.exercises.flash_backward.criteria import KernelsMadeTheGradients
from course_lib.exercises.hints import hints_on, in_unit
from grader import published
from grader.audit import kill_matrix, variants
from grader.audit.variants import walking
from grader.building import build, outputs
from grader.judging.cases import all_cases

ALL = [(unit, exercise) for unit in UNITS for exercise in grader.exercises(unit).values()]
MANY = 40  # variants: of a unit with more, some are judged at night alone
each_unit = pytest.mark.parametrize("unit", UNITS)
each_exercise = pytest.mark.parametrize("unit, exercise", ALL, ids=[e.id for _, e in ALL])


@each_unit
def test_built_notebooks_match_their_source(unit):
    assert build.check(unit, grader.ROOT) == []


@each_exercise
def test_an_exercise_is_complete(unit, exercise):
    assert exercise.points > 0 and exercise.points == int(exercise.points)
    assert len(hints_on(exercise.id)) == 3
    assert 1 <= exercise.effort.difficulty <= 5 and exercise.effort.minutes > 0 and exercise.effort.lines > 0
    groups = {case.group for case in exercise.cases}
    asked = {c.group for c in [*exercise.gates, *exercise.criteria] if hasattr(c, "group")}
    assert asked == groups, "a group of cases that nobody reads, or a criterion without cases"


@each_unit
def test_hints_are_on_exercises_that_there_are(unit):
    assert in_unit(UNITS[unit]).keys() == {e.id.partition(".")[2] for e in grader.exercises(unit).values()}


@each_exercise
def test_the_source_announces_the_exercise_once(unit, exercise):
    text = (grader.ROOT / "solutions" / f"{unit}.py").read_text("utf-8")
    assert text.count(f"{{{{exercise {exercise.id}}}}}") == 1
    assert text.count("{{unit points}}, over {{unit exercises}}") == 1


@each_exercise
def test_there_are_five_wrong_variants_and_their_patches_apply(unit, exercise):
    mine = [v for v in variants.of_unit(UNITS[unit]) if v.exercise == exercise.id]
    assert len([v for v in mine if v.loses]) >= 5
    assert len({v.name for v in mine}) == len(mine), "kill_matrix draws a variant's hidden inputs by its name"
    keys = {"runs"} | {c.key for c in [*exercise.gates, *exercise.criteria]}  # "runs": it could not be observed
    for variant in mine:
        assert set(variant.loses) <= keys, variant.name
        assert variant.cells()[-1][1] != published.solution_cell(exercise.id), variant.name


@each_exercise
def test_one_program_that_does_it_all_loses_something(unit, exercise):
    kernels = exercise.kind == "kernel" and any(
        isinstance(gate, TritonDidTheWork | KernelsMadeTheGradients) for gate in exercise.gates
    )
    given_grid = exercise.id in ("flash.online_update", "hopper.overlapped_attention", "tiling.tune")
    nearly_all = exercise.id == "flash.causal_one_head"  # is read by each program: none of them does a fair share
    asked = [c for c in exercise.criteria if getattr(c, "programs", 0)]
    assert bool(asked) == (kernels and not given_grid and not nearly_all)


WALKED = """@triton.jit
def k_at(place_0, place_1, place_2, grid_0, grid_1, grid_2, x, N: tl.constexpr=8):
    tl.store(x + place_1, grid_0)

@triton.jit
def k(grid_0, grid_1, grid_2, x, N: tl.constexpr=8):
    for step in range(tl.program_id(0), grid_0 * grid_1 * grid_2, tl.num_programs(0)):
        k_at(step % grid_0, step // grid_0 % grid_1, step // (grid_0 * grid_1), grid_0, grid_1, grid_2, x=x, N=N)
k[6,](*(*(2, 3), 1, 1)[:3], x, N=4)
"""


def test_a_kernel_walks_over_the_grid_that_it_had():
    kernel = (
        "@triton.jit\ndef k(x, N: tl.constexpr = 8):\n    tl.store(x + tl.program_id(1), tl.num_programs(axis=0))\n"
    )
    assert walking.walked(f"{kernel}k[(2, 3)](x, N=4)", 6) == WALKED
    with pytest.raises(ValueError, match="no kernel is launched"):
        walking.walked(kernel, 6)


@each_exercise
def test_each_gate_and_criterion_is_lost_by_a_wrong_variant(unit, exercise):
    assert kill_matrix.never_lost(exercise.id) == [], f"add a variant to grader/audit/variants, in {UNITS[unit]}"


@each_exercise
def test_same_seed_same_case_other_seed_other_values(unit, exercise):
    import torch

    from tritontrace.results import tensors_of

    def tensors(arguments):
        return [tensor for _, _, tensor in tensors_of(0, arguments)]

    def flat(arguments):
        plain = [v for v in arguments.values() if not isinstance(v, (torch.Tensor, list, tuple))]
        return plain, [(t.shape, t.stride(), t.dtype) for t in tensors(arguments)]

    if exercise.kind != "kernel":
        return
    for case in exercise.cases:
        one, same, other = case.arguments(1), case.arguments(1), case.arguments(2)
        assert flat(one) == flat(same) == flat(other)
        first, again, fresh = tensors(one)[0], tensors(same)[0], tensors(other)[0]
        assert torch.equal(first, again) and not torch.equal(first, fresh)


@each_exercise
def test_hidden_cases_are_read_by_a_criterion(unit, exercise):
    hidden = all_cases(exercise, seed=7)[len(exercise.cases) :]
    assert {case.group for case in hidden} <= {case.group for case in exercise.cases}
    assert hidden or exercise.kind == "values"


@each_unit
def test_the_student_gets_no_solution(unit):
    text = grader.released(unit).read_text()
    assert "SOLUTION" not in text
    nb = nbformat.reads(text, as_version=4)
    assert all(not cell.get("outputs") and not cell.get("execution_count") for cell in nb.cells)
    code = "".join(cell.source for cell in nb.cells if cell.cell_type == "code")
    for exercise in grader.exercises(unit).values():
        solved = published.solution_cell(exercise.id)
        for block in re.findall(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", solved, re.S):
            assert block.strip() not in code


@each_unit
def test_outputs_name_no_path_of_the_machine_that_made_them(unit):
    text = (grader.ROOT / "solutions" / unit / f"{unit}.ipynb").read_text()
    assert re.findall(r"(?:/home/|/root/|/tmp/|/Users/|site-packages)[^ \"]*", text) == []


@pytest.mark.slow
@each_unit
def test_the_student_notebook_runs_unsolved_and_scores_zero(unit, monkeypatch):
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    nb = nbformat.read(grader.released(unit), as_version=4)
    outputs.execute(nb, grader.ROOT)  # raises if a cell fails
    checks = {e.check_id for e in grader.exercises(unit).values()}
    values = [
        output["data"]["text/plain"]
        for cell in nb.cells
        if cell.metadata.get("nbgrader", {}).get("grade_id") in checks
        for output in cell.outputs
        if output.output_type == "execute_result"
    ]
    assert values == ["0"] * len(checks)


@pytest.mark.slow
@each_unit
def test_every_variant_loses_what_it_should_and_nothing_else(unit):
    patches = [v for v in variants.of_unit(UNITS[unit]) if not v.script]  # the scripts: test_cheats.py, test_honest.py
    rows = kill_matrix.run(sampled(patches) if len(patches) > MANY else patches)
    wrong = {f"{r.variant.exercise}, {r.variant.name}": r.difference for r in rows if not r.as_expected}
    assert wrong == {}
