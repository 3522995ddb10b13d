"""Tasks of one's own: what a code says, that tasks differ, and what a notebook is told."""

import contextlib
import json

import pytest
import torch

import course_lib
from course_lib import checking, logbook, open_tasks
from course_lib.criteria import GradedTrial
from course_lib.evidence import Evidence
from course_lib.execution import gpu_process, timed
from course_lib.exercises import UNITS, find, twists
from course_lib.handin import twists as mine
from course_lib.open_tasks import tasks

UNITS_04_TO_10 = list(UNITS)[4:11]
TASKS = [(name, twist) for module in twists.TWISTED for name, of in twists.of_module(module).items() for twist in of]
NAMES = list(dict.fromkeys(name for name, _ in TASKS))


@pytest.fixture
def student(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.json"))
    monkeypatch.setenv(mine.VARIABLE, "")
    monkeypatch.setattr(mine, "CLASS", tmp_path / "twists.json")
    return tmp_path


def answered(exercise, oracle):
    """A trial of the first plain case, answered by an oracle as an exact kernel would."""
    case = next(case for case in exercise.cases if case.group == "plain")
    given, expected = case.arguments(3), exercise.oracle(**case.arguments(3))
    right, made = ([x] if isinstance(x, torch.Tensor) else [*x] for x in (expected, oracle(**given)))
    first = next(x for x in given.values() if isinstance(x, torch.Tensor))
    outputs = [
        x.to(first.dtype if want.dtype == torch.float64 else want.dtype) for x, want in zip(made, right, strict=True)
    ]
    result = outputs[0] if isinstance(expected, torch.Tensor) else outputs
    return GradedTrial(case, [given], Evidence(case.name, outputs=[result]), exercise)


def test_at_least_ten_kernels_of_the_path_have_six_tasks_or_more():
    assert len(NAMES) >= 10 and all(len(twists.of(name)) >= 6 for name in NAMES)
    assert {find(name).kind for name in NAMES} == {"kernel"} and {find(name).track for name in NAMES} == {"path"}
    assert set(twists.units()) <= set(UNITS_04_TO_10)
    assert all(len({twist.key for twist in twists.of(name)}) == len(twists.of(name)) for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_no_two_tasks_take_the_same_answer(name):
    """Nor does the published one: of all pairs, each is wrong as the other, by the exercise's own budget."""
    own = find(name)
    tasks = [own, *(twists.asked(own, twist) for twist in twists.of(name))]
    accepted = {
        (i, j)
        for i, one in enumerate(tasks)
        for j, other in enumerate(tasks)
        if not answered(one, other.oracle).difference
    }
    assert accepted == {(i, i) for i in range(len(tasks))}


@pytest.mark.parametrize("name, twist", TASKS, ids=[f"{name}, {twist.key}" for name, twist in TASKS])
def test_a_task_changes_what_is_right_and_nothing_that_an_answer_could_see(name, twist):
    """Calls are the exercise's own: nothing that runs an answer knows which task is the student's."""
    own, task = find(name), twists.asked(find(name), twist)
    assert task.cases is own.cases and (task.entry, task.called, task.allows) == (own.entry, own.called, own.allows)
    assert task.gates is own.gates and task.criteria is own.criteria and task.points == own.points
    assert task.asks == twist.asks and twist.changes.keys() <= {"budget"}


def test_who_is_asked_what_stays_as_it_is():
    """These draws were handed out: a twist that is renamed, removed or added in front of others changes some of them."""
    drawn = twists.read("02G3-RJ0N")
    assert drawn == twists.draw(["04_memory_coalescing", "06_fusion"], 123456)
    assert {name: twist.key for unit in drawn.units for name, twist in drawn.tasks(unit).items()} == {
        "coalescing.row_copy": "times 2",
        "coalescing.gather_rows": "times -1",
        "coalescing.transpose": "times -2",
        "coalescing.column_sum": "squares",
        "fusion.sin2_plus_cos2": "sine times -1",
        "fusion.softmax": "divided by 2",
        "fusion.online_softmax": "divided by 3",
        "fusion.cross_entropy": "divided by 2",
    }


def test_a_code_is_read_however_it_is_typed_and_a_slip_is_none():
    for number in (0, 1, 777, twists.NUMBERS - 1):
        drawn = twists.draw(twists.units(), number)
        assert twists.read(f" {drawn.code.lower().replace('-', ' ')} ") == drawn
    code = twists.draw(twists.units(), 31415).code
    slips = [code[:i] + c + code[i + 1 :] for i in range(9) if i != 4 for c in twists.LETTERS if c != code[i]]
    unseen = 0
    for slip in slips:
        with contextlib.suppress(ValueError):
            unseen += bool(twists.read(slip))
    assert unseen < len(slips) / 16
    for wrong in ("", "ada", code[:-1], code + "0", "é" * 8):
        with pytest.raises(ValueError, match="eight letters and digits"):
            twists.read(wrong)


def test_a_unit_that_the_code_does_not_name_asks_for_its_own_task():
    drawn = twists.draw(["06_fusion"], 5)
    assert drawn.units == ("06_fusion",) and drawn.twist("coalescing.transpose") is None
    assert drawn.asked(find("coalescing.transpose")) is find("coalescing.transpose")
    assert drawn.asked(find("fusion.rmsnorm")) is find("fusion.rmsnorm")  # it has no twists
    assert drawn.asked(find("fusion.softmax")).twist


def test_a_notebook_follows_the_code_that_was_given_once(student, capsys):
    drawn = twists.draw(["06_fusion"], 8)
    course_lib.twists("nonsense")
    assert mine.kept() is None and mine.asked(find("fusion.softmax")) is find("fusion.softmax")
    course_lib.twists(drawn.code)
    shown = capsys.readouterr().out
    assert all(twist.asks in shown for twist in drawn.tasks("06_fusion").values())
    assert (student / "code.txt").read_text() == drawn.code
    task = mine.asked(find("fusion.softmax"))
    assert (task.twist, mine.asked(find("tiling.matmul")).twist) == (drawn.twist("fusion.softmax").key, "")
    assert checking.verdict(task, None).asked == task.asks  # of what was refused, too


def test_where_nothing_can_be_written_the_kernel_knows_the_code(student, monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS", "/dev/null/progress.json")
    course_lib.twists(twists.draw(["06_fusion"], 8).code)
    assert mine.kept() == twists.draw(["06_fusion"], 8)


def test_the_hubs_code_comes_before_one_that_was_typed(student, monkeypatch):
    one, other = (twists.draw(["06_fusion"], number) for number in (1, 2))
    course_lib.twists(one.code)
    monkeypatch.setenv(mine.VARIABLE, other.code)
    assert mine.kept() == other


def test_an_open_task_is_the_students_too(student, capsys):
    """An entry is whatever is right of the exercise as it is asked."""
    course_lib.twists(twists.draw(["06_fusion"], 8).code)
    given, seen = tasks.TASKS["fusion.online_softmax"], []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(open_tasks, "count", lambda task, entry: seen.append(task) or checking.verdict(task.asked, None))
        open_tasks.attempt("fusion.online_softmax", lambda x: x)
    (task,) = seen
    assert task.asked.twist == mine.kept().twist("fusion.online_softmax").key and given.exercise.twist == ""


def test_where_the_class_asks_for_a_code_a_check_waits_for_it(student, capsys):
    mine.CLASS.write_text(json.dumps({"units": ["06_fusion"]}))
    assert checking.check("fusion.softmax", lambda x: x) == 0 and "twists(" in capsys.readouterr().out
    assert logbook.best() == {}
    assert mine.asked(find("tiling.matmul")) is find("tiling.matmul")
    course_lib.twists(twists.draw(["04_memory_coalescing"], 3).code)  # of a term's beginning, without unit 06
    with pytest.raises(ValueError, match="YOUR CODE"):
        mine.asked(find("fusion.softmax"))
    course_lib.twists(twists.draw(["04_memory_coalescing", "06_fusion"], 3).code)
    assert mine.asked(find("fusion.softmax")).twist


def test_a_task_is_timed_as_itself(monkeypatch):
    """The process with the GPU looks at results by the task's own oracle. It knows no exercise but by name."""
    task, timed_as = twists.asked(find("fusion.softmax"), twists.of("fusion.softmax")[0]), []

    def time_here(exercise, log, seed):
        timed_as.append((exercise.id, exercise.twist))
        return timed.problem(exercise, "not measured here")

    monkeypatch.setattr(timed, "time_here", time_here)
    log = {"calls": [{"error": ""}], "kernels": {}}
    for exercise in (task, find("fusion.softmax")):
        timed.measure(exercise, log, 1, [], gpu_process.run_in_this_process)
    assert timed_as == [("fusion.softmax", task.twist), ("fusion.softmax", "")]
