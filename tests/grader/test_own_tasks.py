"""A class that asks each student for tasks of their own: whose answer is right, by the real judge, workers and nbgrader."""

import csv
import json
import zipfile
from types import SimpleNamespace

import nbformat
import pytest
from traitlets.config import Config
from typer.testing import CliRunner

import grader
from course_lib.exercises import UNITS, find, twists
from course_lib.handin import twists as mine
from grader import published
from grader.__main__ import app
from grader.audit import twisted
from grader.audit.samples import cell_of
from grader.building import personal, student_copy
from grader.cohort import frozen
from grader.cohort.classroom import ClassGrader
from grader.commands import judging as command
from grader.gradebook import counts, results
from grader.judging import judge as judging
from grader.judging import submission
from grader.judging import twists as of_class
from grader.lms import codes, exports
from grader.packing import gradescope

UNIT, SECRET = "04_memory_coalescing", "2a" * 32
TASKS = [*twists.of_module(UNITS[UNIT])]


def switched_on(home, *units):
    home.mkdir(exist_ok=True)
    (home / "secret").write_text(SECRET)
    of_class.switch(home, units or [UNIT])
    return home


def hand_in(home, student, notebook, sources):
    for exercise, source in sources.items():
        cell_of(notebook, exercise).source = source
    path = home / "submitted" / student / UNIT / f"{UNIT}.ipynb"
    path.parent.mkdir(parents=True)
    nbformat.write(notebook, path)


def handed_out():
    return nbformat.read(grader.released(UNIT), as_version=4)


def own(home, student):
    """The published answers to a student's tasks."""
    return {
        exercise: twisted.source(exercise, twist)
        for exercise, twist in of_class.of_student(home, student).tasks(UNIT).items()
    }


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """ada answers her tasks; ben hands in her cells and says that he is ada; cyd has the published answers; dee answers her tasks in a
    notebook that was made for her."""
    home = switched_on(tmp_path_factory.mktemp("class") / "home")
    ada, ben = (of_class.of_student(home, student) for student in ("ada", "ben"))
    assert all(ada.twist(task).key != ben.twist(task).key for task in TASKS)
    hand_in(home, "ada", handed_out(), own(home, "ada"))
    claiming = handed_out()
    claiming.metadata["course"] = {"release": "0" * 12, "student": "ada", "twist": ada.code}
    claiming.cells[
        1
    ].source += f'\nimport os\nos.environ["{mine.VARIABLE}"] = "{ada.code}"\nfrom course_lib import twists\ntwists("{ada.code}")'
    hand_in(home, "ben", claiming, own(home, "ada"))
    hand_in(home, "cyd", handed_out(), {task: published.solution_cell(task) for task in TASKS})
    dee = nbformat.reads(personal.notebook(UNIT, of_class.of_student(home, "dee")), as_version=4)
    hand_in(home, "dee", dee, own(home, "dee"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(mine.VARIABLE, ada.code)  # the instructor's own, whatever it is for
        patch.setattr(ClassGrader, "prove", lambda *_: None)
        command.grade(home, UNIT, workers=2, accept_risk=True, root=grader.ROOT)
    return home


def test_only_ones_own_task_earns_points(home):
    scores = {entry.student: [entry.scores[task] for task in TASKS] for entry in results.gradebook(home, UNIT)}
    full, none = [find(task).points for task in TASKS], [0.0] * len(TASKS)
    assert scores == {"ada": full, "ben": none, "cyd": none, "dee": full}


def test_the_verdict_names_the_task_and_whose_the_answer_is(home):
    drawn, told = {s: of_class.of_student(home, s) for s in ("ada", "ben")}, results.verdicts(home, UNIT, "ben")
    for task in TASKS:
        assert told[task].asked == drawn["ben"].twist(task).asks
        assert drawn["ada"].twist(task).key in told[task].remark
        assert results.verdicts(home, UNIT, "cyd")[task].remark.startswith("This solves the published task")
    assert results.verdicts(home, UNIT, "ben")["coalescing.deinterleave"].asked == ""  # it has none
    page = (home / "feedback" / "ben" / UNIT / f"{UNIT}.html").read_text()
    assert page.count("Your task: ") == len(TASKS)


def test_marks_and_maximum_are_exported_as_ever(home):
    rows = exports.export(home, UNIT, "exercises").rows
    table = [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]
    found = {row["student"]: row for row in table}
    assert [float(found["dee"][task]) for task in TASKS] == [find(task).points for task in TASKS]
    assert {float(row["out_of"]) for row in table} == {counts.of(home, UNIT).out_of}


def test_one_notebook_alone_gets_the_verdict_of_the_class(home, monkeypatch):
    monkeypatch.setenv("GRADER_HOME", str(home))
    judge, kept = judging.Judge(home, accept_risk=True), len(list((home / "verdicts").glob("*.json")))
    try:
        for student in ("ada", "ben"):
            path = home / "submitted" / student / UNIT / f"{UNIT}.ipynb"
            read = submission.read(path, [find(TASKS[0])], grader.released(UNIT))
            verdict = judging.judge_exercise(judge, find(TASKS[0]), read, student, judging.CpuBudget())
            assert verdict == results.verdicts(home, UNIT, student)[TASKS[0]]
    finally:
        judge.close()
    assert (
        len(list((home / "verdicts").glob("*.json"))) == kept
    )  # workers and a single judge keep it under the same key
    alone = CliRunner().invoke(app, ["grade", str(grader.released(UNIT))])
    assert alone.exit_code == 1 and "--student" in alone.output


EXERCISE = "fusion.softmax"
LOOKS = """
import os
import sys
from pathlib import Path

found = [name for name in os.environ if "TWIST" in name or "HOME" == name and "twists" in os.listdir(os.environ["HOME"])]
for path in (CODE, CLASS):
    try:
        found.append(Path(path).read_text())
    except OSError:
        pass
found += [name for name in sys.modules if "twists" in name or name.startswith("grader.judging")]
if found:
    print("seen", found)
"""


def test_an_answer_cannot_see_whose_it_is(tmp_path, monkeypatch):
    """The answer prints what it finds of codes, files of the class and modules that know tasks."""
    home = switched_on(tmp_path / "home", "06_fusion")
    monkeypatch.setenv(mine.VARIABLE, of_class.of_student(home, "ada").code)
    code = tmp_path / "code.txt"
    code.write_text(of_class.of_student(home, "ada").code)
    judge = judging.Judge(home, accept_risk=True)
    try:
        looks = LOOKS.replace("CODE", repr(str(code))).replace("CLASS", repr(str(home / of_class.FILE)))
        task = of_class.of_student(home, "ada").twist(EXERCISE)
        *before, (name, source) = twisted.answer(EXERCISE, task)
        verdict = judge.verdict(find(EXERCISE), [*before, ("<looks>", looks), (name, source)], "ada")
    finally:
        judge.close()
    assert verdict.points == verdict.out_of and verdict.asked == task.asks
    assert "seen" not in verdict.printed


def test_off_there_are_no_tasks_and_the_published_answers_are_right(tmp_path):
    home = switched_on(tmp_path / "home")
    assert of_class.of_student(home, "ada").units == (UNIT,)
    codes.switch(home, [])
    assert of_class.of_student(home, "ada") == twists.NOBODY
    judge = judging.Judge(home, accept_risk=True)
    try:
        assert judge.asked(find(TASKS[0]), "ada") is find(TASKS[0])
        codes.switch(home, [UNIT])
        assert judge.asked(find(TASKS[0]), "ada").twist
        assert judge.asked(find(TASKS[0]), "") is find(TASKS[0])  # whose published answers prove the judge
    finally:
        judge.close()


def test_students_are_told_apart_and_another_class_draws_others(tmp_path):
    one, other = switched_on(tmp_path / "one", *twists.units()), switched_on(tmp_path / "other", *twists.units())
    (other / "secret").write_text("2b" * 32)
    students = [f"student{n}" for n in range(60)]
    assert len({of_class.of_student(one, s).number for s in students}) > 55
    assert all(of_class.of_student(one, s).number != of_class.of_student(other, s).number for s in students)
    for task in TASKS:
        asked = [of_class.of_student(one, s).twist(task).key for s in students]
        assert {twist.key for twist in twists.of(task)} == set(asked)
        assert max(map(asked.count, asked)) < 30


def test_no_published_answer_of_another_exercise_rests_on_a_task():
    """Functions of a task would be wrong in an exercise that calls them."""
    for unit in twists.units():
        cells = published.solution_cells(unit)
        entries = {find(task).entry for task in twists.of_module(UNITS[unit])}
        for exercise, source in cells.items():
            called = {name.strip("<>") for name, _ in published.answer(exercise, source)[1:-1]}
            assert not called & entries, exercise


def test_the_table_of_codes_has_everybody(tmp_path, monkeypatch):
    home = switched_on(tmp_path / "home")
    monkeypatch.setenv("GRADER_HOME", str(home))
    (home / "submitted" / "ben").mkdir(parents=True)
    with results.book(home) as book:
        book.update_or_create_student("ada", first_name="Ada", last_name="L", email="ada@x.org")
    path, count = codes.write(home)
    rows = [*csv.DictReader(path.read_text().splitlines())]
    assert count == 2 and [row["student"] for row in rows] == ["ada", "ben"]
    assert rows[0]["email"] == "ada@x.org" and twists.read(rows[0]["code"]) == of_class.of_student(home, "ada")
    said = CliRunner().invoke(app, ["twists", "--student", "ada", "--solutions"])
    assert all(twist.asks in said.output for twist in of_class.of_student(home, "ada").tasks(UNIT).values())


def test_units_without_twists_and_units_with_marks_that_are_to_stay_are_refused(tmp_path, monkeypatch):
    home = switched_on(tmp_path / "home")
    monkeypatch.setenv("GRADER_HOME", str(home))
    for words in (["twists", "01_tensors_and_strides"], ["twists", "--off"], ["twists", "06_fusion"]):
        frozen.note_export(home, UNIT)
        frozen.freeze(home, "06_fusion")
        assert CliRunner().invoke(app, words).exit_code == 1
        assert of_class.units(home) == (UNIT,)
    frozen.thaw(home, UNIT)
    assert CliRunner().invoke(app, ["twists", "--off"]).exit_code == 0 and of_class.units(home) == ()


def test_a_notebook_of_ones_own_names_the_tasks_and_is_read_as_the_release(tmp_path):
    home = switched_on(tmp_path / "home")
    drawn = of_class.of_student(home, "ada")
    nb, blank = nbformat.reads(personal.notebook(UNIT, drawn), as_version=4), handed_out()
    nbformat.validate(nb)
    text = "\n".join(cell.source for cell in nb.cells if cell.cell_type == "markdown")
    assert all(twist.asks in text for twist in drawn.tasks(UNIT).values())
    assert nb.metadata == blank.metadata and len(nb.cells) == len(blank.cells) + 1
    path = tmp_path / f"{UNIT}.ipynb"
    nbformat.write(nb, path)
    read = submission.read(path, list(grader.exercises(UNIT).values()), grader.released(UNIT))
    assert (read.problem, read.flags, read.attempted, read.excused) == ("", [], [], [])


def test_the_students_copy_and_the_packs_know_of_it(tmp_path, monkeypatch):
    home = switched_on(tmp_path / "home")
    monkeypatch.setenv("GRADER_HOME", str(home))
    monkeypatch.setattr(
        student_copy,
        "_git",
        lambda root, *words: "notebooks/00_start_here/00_start_here.ipynb\0" if words[0] == "ls-files" else "",
    )
    student_copy.copy(grader.ROOT, tmp_path / "other", ())
    assert not (tmp_path / "other" / "notebooks" / mine.CLASS.name).exists()
    student_copy.copy(grader.ROOT, tmp_path / "students", of_class.units(home))
    assert json.loads((tmp_path / "students" / "notebooks" / mine.CLASS.name).read_text()) == {"units": [UNIT]}
    assert CliRunner().invoke(app, ["pack", "github", UNIT, "--repository", "a/b"]).exit_code == 1
    gradescope.pack(UNIT, home, tmp_path / "pack.zip", accept_risk=True)
    with zipfile.ZipFile(tmp_path / "pack.zip") as pack:
        pack.extractall(tmp_path / "there")
    there = tmp_path / "there" / "class"
    assert of_class.of_student(there, "ada") == of_class.of_student(home, "ada")


CASES = twisted.everything()
FEW = [
    ("coalescing.column_sum", "minus 2"),
    ("fusion.online_softmax", "powers of 2"),
    ("flash_backward.dkdv_one_head", "times -0.5"),
]


@pytest.mark.parametrize(
    "exercise, twist",
    [
        pytest.param(
            exercise,
            twist,
            marks=() if (exercise, twist.key) in FEW else pytest.mark.slow,
            id=f"{exercise}, {twist.key}",
        )
        for exercise, twist in CASES
    ],
)
def test_the_published_answer_to_a_task_earns_everything(judge, exercise, twist):
    verdict = judge.judge(twists.asked(find(exercise), twist), twisted.answer(exercise, twist), seed=11)
    assert [(f.key, f.seen) for f in verdict.findings if f.lost and not f.bonus] == []
    assert verdict.points == verdict.out_of


def test_every_task_has_a_published_answer_and_every_patch_a_task():
    for exercise, twist in CASES:
        assert twisted.source(exercise, twist) != published.solution_cell(exercise)
    assert twisted.PATCHES.keys() == {exercise for exercise, _ in CASES}


def test_the_hub_gives_each_student_the_code(tmp_path, monkeypatch):
    pytest.importorskip("jupyterhub", reason="needs the extra `hub`")
    home = switched_on(tmp_path / "home")
    monkeypatch.setenv("GRADER_HOME", str(home))
    monkeypatch.setenv("HUB_HOME", str(tmp_path / "hub"))
    path = grader.ROOT / "grader" / "hub" / "jupyterhub_config.py"
    settings = Config()
    exec(compile(path.read_text(), path, "exec"), {"get_config": lambda: settings, "__file__": str(path)})
    for units in ([UNIT], []):
        codes.switch(home, units)
        server = SimpleNamespace(user=SimpleNamespace(name="ada"))
        settings.Spawner.pre_spawn_hook(server)
        assert server.environment.get(mine.VARIABLE) == (of_class.of_student(home, "ada").code if units else None)
