"""One mistake costs once: exercises that call the student's earlier functions, judged again with the published ones."""

import dataclasses
import json

import pytest
import toy
from test_classroom import Table

import grader
from course_lib import criteria, render
from course_lib.exercise import Finding
from course_lib.exercises import find
from course_lib.handin.cells import Cell
from grader.cohort import classroom
from grader.cohort.single import judge_submission
from grader.judging import follow_through, submission
from grader.judging.judge import Judge
from grader.published import solution_cell
from tritontrace.replay import wire
from tritontrace.results import Cause

TILING, COALESCING, FLOPS = "05_tiling", "04_memory_coalescing", "03_counting_flops"
BACKWARD = "10_flash_attention_backward"
ROUNDED_DOWN = solution_cell("tiling.tiles_and_waves").replace("triton.cdiv(tiles, sms)", "max(1, tiles // sms)")
ALL_THE_WORK = """
def predicted_throughput(sizes, *more):
    return tiles_and_waves(sizes, *more)
"""


def hand_in(path, unit, changes=(), blank=()):
    """A notebook with the published solution of each exercise, or what `changes` has in its place."""
    nb = json.loads(grader.released(unit).read_text())
    for exercise in grader.exercises(unit).values():
        for cell in nb["cells"]:
            if cell["metadata"].get("nbgrader", {}).get("grade_id") == exercise.grade_id and exercise.id not in blank:
                cell["source"] = dict(changes).get(exercise.id) or solution_cell(exercise.id)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(nb))
    return path


def read(tmp_path, unit, changes=(), blank=()):
    release = grader.released(unit)
    path = hand_in(tmp_path / "a.ipynb", unit, changes, blank)
    exercises = list(grader.exercises(unit).values())
    return exercises, submission.read_here(path, exercises, submission.handed_out_as(path, release))


def own_verdicts(exercises, lost):
    """Verdicts that have lost all points of these exercises by wrong results, and none of the others."""
    found = {e.id: criteria.refused(e, "judged", "wrong") for e in exercises}
    for id, verdict in found.items():
        if id not in lost:
            verdict.points = verdict.out_of
    return found


LOST = ["tiling.tiles_and_waves", "tiling.predicted_throughput", "tiling.best_tile", "tiling.matmul"]


def test_who_calls_an_earlier_mistake_is_judged_with_the_published_function(tmp_path):
    exercises, found = read(tmp_path, TILING, {"tiling.tiles_and_waves": ROUNDED_DOWN})
    answers = follow_through.answers(exercises, found, own_verdicts(exercises, LOST))
    assert list(answers) == ["tiling.predicted_throughput"]
    names = {}
    for name, source in answers["tiling.predicted_throughput"].cells:
        exec(compile(source, name, "exec"), names)
    assert names["tiles_and_waves"](100, 100, 10, 10, 99) == (100, 2)


@pytest.mark.parametrize(
    "lost, changes, blank",
    [
        (LOST[1:], {}, ()),  # the earlier one is right
        (LOST[:1], {}, ()),  # nothing else was lost
        (LOST, {}, LOST[:1]),  # nobody has worked on it
        (LOST, {LOST[1]: "def predicted_throughput(*a): return [1.0]"}, ()),  # does not call it
        ([*LOST, "tiling.matmul_bytes"], {LOST[1]: "def predicted_throughput(*a): return matmul_bytes(*a)"}, LOST[2:3]),
    ],
)
def test_nothing_else_is_judged_again(tmp_path, lost, changes, blank):
    """The last: a function that the published solution does not call would be the work of another."""
    exercises, found = read(tmp_path, TILING, changes, blank)
    answers = follow_through.answers(exercises, found, own_verdicts(exercises, lost))
    assert "tiling.predicted_throughput" not in answers and "tiling.tiles_and_waves" not in answers


@pytest.mark.parametrize("kind", ["blank", "refused", "raised", "exited", "used_up"])
def test_what_came_to_no_result_is_no_mistake_whatever_stands_in_the_cell(tmp_path, kind):
    exercises, found = read(tmp_path, TILING, {"tiling.tiles_and_waves": ROUNDED_DOWN})
    own = own_verdicts(exercises, LOST)
    own[LOST[0]] = criteria.refused(find(LOST[0]), "judged", kind)
    assert follow_through.answers(exercises, found, own) == {}


def test_imports_of_an_earlier_cell_are_nothing_that_others_call(tmp_path):
    exercises, found = read(tmp_path, FLOPS)
    own = own_verdicts(exercises, [e.id for e in exercises])
    rests = follow_through.apply(exercises, found, own, {e.id: own_verdicts(exercises, ())[e.id] for e in exercises})
    assert not any("flops.count_flops" in verdict.rests_on for verdict in rests.values())


def test_published_functions_bring_what_they_call(tmp_path):
    """dkdv's kernel calls over_queries, which no stub names, and load_rows of an exercise before it."""
    unit, lost = "10_flash_attention_backward", ["flash_backward.dkdv", "flash_backward.flash_attention"]
    exercises, found = read(tmp_path, unit)
    answer = follow_through.answers(exercises, found, own_verdicts(exercises, lost))["flash_backward.flash_attention"]
    (_, published) = answer.cells[-1]
    assert all(f"def {name}(" in published for name in ("dkdv", "dkdv_kernel", "over_queries", "load_rows"))
    assert "def dq(" not in published and "def delta(" not in published


def test_where_no_solution_is_published_nothing_is_put_in_place(monkeypatch):
    exercises = toy.install(monkeypatch)
    stubs = [Cell(n, "code", f"def {e.entry}(x):\n    ...", e.grade_id) for n, e in enumerate(exercises, 1)]
    work = [Cell(1, "code", "def double(x): return 1", "toy-double")]
    work += [Cell(2, "code", "def root(x): return double(x)", "toy-root")]
    found = submission.Reading(work, exercises, stubs).submission()
    assert found.answers["toy.root"].calls == ["double"]
    own = {"toy.double": toy.verdict("double", 0, 10), "toy.root": toy.verdict("root", 0, 4)}
    assert follow_through.answers(exercises, found, own) == {}


# ------------------------------------------------------------------------------------------------------ two verdicts


def finding(title, points, out_of, status="", **more):
    status = status or ("passed" if points == out_of else "failed")
    return Finding(title, points, out_of, status, key=title, **more)


def test_what_was_earned_beyond_counts_and_says_on_which_mistake_it_rests(tmp_path):
    exercises, found = read(tmp_path, TILING, {"tiling.tiles_and_waves": ROUNDED_DOWN})
    own = own_verdicts(exercises, LOST)
    own[LOST[1]].findings = [finding("a", 2, 2), finding("b", 0, 4, seen="own words"), finding("c", 0, 4, "not_judged")]
    own[LOST[1]].points = 2
    again = dataclasses.replace(
        own[LOST[1]],
        points=5,
        findings=[finding("a", 1, 2), finding("b", 4, 4, seen="holds"), finding("c", 0, 4, seen="published code")],
        printed="published code",
    )
    verdict = follow_through.apply(exercises, found, own, {LOST[1]: again})[LOST[1]]
    assert [f.points for f in verdict.findings] == [2, 4, 0] and verdict.points == 6  # of each finding the better
    assert [f.carried for f in verdict.findings] == [0, 4, 0] and verdict.rests_on == ["tiling.tiles_and_waves"]
    text = render.text(verdict)
    assert "4 of the 6 points were lost by a mistake in `tiling.tiles_and_waves`" in text
    assert "mistake in <code>tiling.tiles_and_waves</code>" in render.html(verdict)
    assert "published code" not in text


def test_nothing_is_lost_by_it_and_a_failure_of_the_grader_is_no_mark(tmp_path):
    exercises, found = read(tmp_path, TILING, {"tiling.tiles_and_waves": ROUNDED_DOWN})
    own = own_verdicts(exercises, LOST)
    worse = dataclasses.replace(own[LOST[1]], points=0)
    assert follow_through.apply(exercises, found, own, {LOST[1]: worse}) == own
    unknown = dataclasses.replace(worse, findings=[Finding("runs", 0, 0, "not_judged")])
    assert follow_through.apply(exercises, found, own, {LOST[1]: unknown})[LOST[1]] is unknown


def test_a_mistake_before_the_earlier_one_is_named_in_its_place(tmp_path):
    unit = "10_flash_attention_backward"
    delta, dkdv, last = "flash_backward.delta", "flash_backward.dkdv", "flash_backward.flash_attention"
    exercises, found = read(tmp_path, unit)
    own = own_verdicts(exercises, [delta, dkdv, last])
    full = {id: own_verdicts(exercises, [])[id] for id in (dkdv, last)}
    for verdict in full.values():
        verdict.findings = [finding("all", verdict.out_of, verdict.out_of)]
    settled = follow_through.apply(exercises, found, own, full)
    assert settled[dkdv].rests_on == [delta] and settled[last].rests_on == [delta]


STEPS, WHOLE = [f"flash_backward.{name}" for name in ("delta", "dkdv", "dq")], "flash_backward.flash_attention"


@pytest.mark.parametrize(
    "right, own_points, points",
    [((), 0, 8), (STEPS[:1], 0, 8), (STEPS[1:2], 0, 17), (STEPS[:2], 0, 20), ((), 3, 8), ((), 12, 12)],
)
def test_wiring_alone_earns_what_its_text_says(tmp_path, right, own_points, points):
    """Or as much as the functions have earned that it calls; and never less than the student's own program did."""
    exercises, found = read(tmp_path, BACKWARD)
    own = own_verdicts(exercises, [WHOLE, *(id for id in STEPS if id not in right)])
    full = own_verdicts(exercises, [])[WHOLE]
    own[WHOLE].findings, own[WHOLE].points = [finding("a", own_points, 14), finding("b", 0, 6)], own_points
    again = dataclasses.replace(full, findings=[finding("a", 14, 14), finding("b", 6, 6)])
    verdict = follow_through.apply(exercises, found, own, {WHOLE: again})[WHOLE]
    assert verdict.points == points == sum(f.points for f in verdict.findings)
    assert sum(f.carried for f in verdict.findings) == points - own_points


# ------------------------------------------------------------------------------------------------------ for real


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    found = Judge(tmp_path_factory.mktemp("home"), accept_risk=True)
    yield found
    found.close()


@pytest.fixture
def few(monkeypatch):
    """The unit with those exercises alone."""
    some = {id: find(id) for id in LOST[:2]}
    monkeypatch.setattr(grader, "exercises", lambda unit: some)


def test_waves_rounded_down_cost_their_own_points_alone(judge, few, tmp_path):
    path = hand_in(tmp_path / "a.ipynb", TILING, {"tiling.tiles_and_waves": ROUNDED_DOWN})
    found = judge_submission(judge, TILING, "ada", path)
    assert found["tiling.tiles_and_waves"].points < 4
    assert found["tiling.predicted_throughput"].points == 10
    assert found["tiling.predicted_throughput"].rests_on == ["tiling.tiles_and_waves"]


def test_a_mistake_of_its_own_still_costs(judge, few, tmp_path):
    flat = solution_cell("tiling.predicted_throughput").replace(
        "max(waves * wave, 6 * n * n / bytes_per_second)", "waves * wave"
    )
    changes = {"tiling.tiles_and_waves": ROUNDED_DOWN, "tiling.predicted_throughput": flat}
    found = judge_submission(judge, TILING, "ada", hand_in(tmp_path / "a.ipynb", TILING, changes))
    assert 0 < found["tiling.predicted_throughput"].points < 10
    assert found["tiling.predicted_throughput"].rests_on == ["tiling.tiles_and_waves"]


@pytest.mark.parametrize("work", [ALL_THE_WORK, "def predicted_throughput(sizes, *more): return tiles_and_waves"])
def test_a_call_of_the_published_function_is_no_answer(judge, few, tmp_path, work):
    changes = {"tiling.tiles_and_waves": ROUNDED_DOWN, "tiling.predicted_throughput": work}
    found = judge_submission(judge, TILING, "ada", hand_in(tmp_path / "a.ipynb", TILING, changes))
    assert found["tiling.predicted_throughput"].points == 0


def test_a_program_that_looks_at_the_published_function_tells_nobody(judge, few, tmp_path):
    spy = solution_cell("tiling.predicted_throughput").replace(
        "    share = ",
        "    import inspect\n    text = inspect.getsource(tiles_and_waves)\n    print(text)\n"
        "    if len(sizes) == 1: raise ValueError(text)\n    share = ",
    )
    changes = {"tiling.tiles_and_waves": ROUNDED_DOWN, "tiling.predicted_throughput": spy}
    found = judge_submission(judge, TILING, "ada", hand_in(tmp_path / "a.ipynb", TILING, changes))
    assert "triton.cdiv(tiles" not in str(found)


def test_a_class_judges_it_again_and_keeps_that(tmp_path, monkeypatch):
    some = {id: find(id) for id in LOST[:2]}
    monkeypatch.setattr(grader, "exercises", lambda unit: some)
    hand_in(tmp_path / "submitted" / "ada" / TILING / f"{TILING}.ipynb", TILING, {LOST[0]: ROUNDED_DOWN})

    class Loses(Table):
        """A worker that knows a published function when it sees one."""

        def submit(self, job):
            future = super().submit(job)
            trees, spent = future.result()
            for answer, tree in zip(job.answers, trees, strict=True):
                right = any("published" in name for name, _ in answer.cells)
                tree["out_of"] = find(answer.exercise).points
                tree["points"] = tree["out_of"] if right else 0.0
                for f in tree["findings"]:
                    f["points"], f["status"] = (f["out_of"], "passed") if right else (0.0, "failed")
                    f["cause"] = None if right else wire.to_tree(Cause("wrong", "a case"))
            return future

    for judged in (3, 0):
        with classroom.ClassGrader(tmp_path, workers=(table := Loses()), accept_risk=True) as room:
            (graded,) = room.grade(TILING)
        assert len(table.asked) == judged
        assert [graded.verdicts[id].points for id in LOST[:2]] == [0, 10]
        assert graded.verdicts[LOST[1]].rests_on == [LOST[0]]
    assert len(list((tmp_path / "verdicts").glob("*.json"))) == 3  # with and without are two verdicts


RESCALED = ("acc * alpha[:, None]", "acc")
TF32 = ('acc * alpha[:, None], input_precision="ieee"', "acc * alpha[:, None]")


@pytest.mark.slow
@pytest.mark.parametrize("mistake", [RESCALED, TF32])
def test_an_accumulator_that_is_not_rescaled_costs_the_update_alone(judge, tmp_path, mistake):
    unit = "09_flash_attention_forward"
    wrong = solution_cell("flash.online_update")
    assert mistake[0] in wrong
    path = hand_in(tmp_path / "a.ipynb", unit, {"flash.online_update": wrong.replace(*mistake)})
    found = judge_submission(judge, unit, "ada", path)
    lost = {id: verdict.out_of - verdict.points for id, verdict in found.items() if verdict.points < verdict.out_of}
    assert set(lost) == {"flash.online_update"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit, earlier, changed, later",
    [
        (COALESCING, "coalescing.sectors_touched", ("// 32", "// 64"), "coalescing.strided_efficiency"),
        ("01_tensors_and_strides", "strides.row_major_strides", ("strides[::-1]", "strides"), "strides.is_contiguous"),
        ("08_attention_by_tiles", "attention.causal_tiles", ("// bn)  #", "// bn) + 1  #"), "attention.flash_bytes"),
        ("08_attention_by_tiles", "attention.merge", ("l_a * alpha_a", "l_a"), "attention.tiled_attention"),
        (BACKWARD, "flash_backward.delta", ("axis=1)", "axis=1) * 2"), WHOLE),
        (BACKWARD, "flash_backward.dkdv", ("BLOCK_D, dk * scale", "BLOCK_D, dk"), WHOLE),
    ],
)
def test_of_every_unit_with_such_calls(judge, tmp_path, unit, earlier, changed, later):
    right = solution_cell(earlier)
    assert changed[0] in right
    wrong = right.replace(*changed)
    some = {id: e for id, e in grader.exercises(unit).items() if id in (earlier, later)}
    whole = list(grader.exercises(unit).values())
    path = hand_in(tmp_path / "a.ipynb", unit, {earlier: wrong})
    read_whole = submission.read(path, whole, grader.released(unit))
    own = {id: judge.verdict(e, read_whole.answer(e).cells, "ada") for id, e in some.items()}
    own = own_verdicts(whole, []) | own
    assert own[earlier].points < own[earlier].out_of and own[later].points < own[later].out_of
    answers = follow_through.answers(whole, read_whole, own)
    again = {id: judge.verdict(find(id), answer.cells, "ada") for id, answer in answers.items()}
    settled = follow_through.apply(whole, read_whole, own, again)
    assert settled[later].points == settled[later].out_of and settled[later].rests_on == [earlier]


def stub(exercise_id, changed=("", ""), more=""):
    """The cell as it was handed out, with something in it."""
    released = json.loads(grader.released(BACKWARD).read_text())["cells"]
    ids = {cell["metadata"].get("nbgrader", {}).get("grade_id"): "".join(cell["source"]) for cell in released}
    return ids[find(exercise_id).grade_id].replace(*changed) + more


RETURNS = "\n\ndef {}(*a, **k):\n    return {}\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["\n# tried", "\ntried = True", "\n'tried'"],
        ["\n\nraise ValueError", "\ndelta = (", RETURNS.format("dq", "1 / 0")],
        [RETURNS.format("delta", "a[0]"), "\n# tried", RETURNS.format("dq", "torch.empty_like(k['q'])")],
    ],
)
def test_a_word_in_three_stubs_earns_nothing(judge, tmp_path, words):
    changes = {id: stub(id, more=more) for id, more in zip(STEPS, words, strict=True)}
    found = judge_submission(judge, BACKWARD, "ada", hand_in(tmp_path / "a.ipynb", BACKWARD, changes))
    assert [found[id].points for id in (*STEPS, WHOLE)] == [0, 0, 0, 0]
