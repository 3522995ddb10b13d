"""The published solutions are judged first: where they do not earn everything, nobody else is judged."""

import gc
import importlib.util
import os
import sys
import weakref
from pathlib import Path
from types import SimpleNamespace

import pytest
import toy
import toyclass
import typer
from messages import id_of
from sampling import first_ones
from test_classroom import Table
from toy import UNIT
from typer.testing import CliRunner

from course_lib import criteria
from course_lib.exercises import find
from grader import doctor, published
from grader.__main__ import app
from grader.child import landlock, sandbox
from grader.child.zygote import Zygote
from grader.cohort import canary, classroom, single, workers
from grader.commands import judging as command
from grader.gradebook import counts, results
from grader.judging import verdicts
from grader.judging.judge import GraderFailed, failed
from grader.judging.task import unread
from grader.published import IMPORTS, answer, solution_cell

TRANSPOSE = find("coalescing.transpose")
IDS = ("toy.double", "toy.root")
REAL = "04_memory_coalescing"


@pytest.fixture
def home(monkeypatch, tmp_path):
    """The toy class with published solutions of its two exercises, which nobody has graded yet."""
    toy.install(monkeypatch)
    (tmp_path / "solutions").mkdir()
    (tmp_path / "solutions" / f"{UNIT}.py").write_text(toy.SOURCE)
    toyclass.build.build(UNIT, execute=False, root=tmp_path)
    for student in ("ada", "ben"):
        toyclass.hand_in(tmp_path, student, solved(toyclass.nb_of(tmp_path), student))
    monkeypatch.setattr("grader.released", lambda unit: tmp_path / "notebooks" / unit / f"{unit}.ipynb")
    monkeypatch.setattr(published, "solution_cells", lambda unit: dict.fromkeys(IDS, "def double(x): return 2 * x"))
    return tmp_path / "class"


def solved(notebook, student):
    toyclass.cell_of(notebook, "toy-double")["source"] = f"def double(x): return 2 * x  # {student}"
    return notebook


def everything(student, exercise, time):
    return find(exercise).points


def grade(home, answer=everything):
    """(exit code, what the table was asked)"""
    table = Table(answer)
    try:
        command.grade(home, UNIT, workers=table, accept_risk=True, root=home.parent)
        return 0, table
    except typer.Exit as end:
        return end.exit_code, table


# ------------------------------------------------------------------------------------------------ a class


def test_the_published_solutions_come_first_and_once(home):
    code, table = grade(home)
    assert code == 0 and table.asked[:2] == [(canary.REFERENCE, id) for id in IDS]
    assert {student for student, _ in table.asked[2:]} == {"ada", "ben"}
    assert {job.canary.exercise for job in table.jobs} == {"toy.double"}
    assert canary.REFERENCE not in {entry.student for entry in results.gradebook(home, UNIT)}
    assert grade(home)[1].asked == []


def test_the_last_line_says_how_many_pages_are_new(home, capsys):
    for anew in ("2 of 2", "0 of 2"):
        grade(home)
        assert f"{UNIT}.html, {anew} pages written anew" in " ".join(capsys.readouterr().out.split())


def test_where_they_do_not_earn_everything_nobody_is_judged(home, capsys):
    def answer(student, exercise, time):
        return (3.0, 10.0) if exercise == "toy.double" else everything(student, exercise, time)

    for _ in range(2):  # a failure is not kept
        code, table = grade(home, answer)
        assert (
            code == 1
            and {student for student, _ in table.asked} == {canary.REFERENCE}
            and ("", "toy.double") in table.asked
        )
        said = " ".join(capsys.readouterr().out.split())
        assert "the published solution of toy.double earns 3 of 10 points, so nothing was judged: judged. Mend" in said
        assert "ada" not in said and "Traceback" not in said
    with pytest.raises(results.NotGraded):
        results.gradebook(home, UNIT)
    assert grade(home)[0] == 0  # mended


def test_a_grader_that_fails_at_them_stops_too(home, capsys):
    def answer(student, exercise, time):
        raise GraderFailed("the grading process was lost (no torch)")

    assert grade(home, answer)[0] == 1
    assert "toy.double cannot be judged, so nothing was judged: the grader failed (GraderFailed:" in " ".join(
        capsys.readouterr().out.split()
    )
    assert not list((home / "verdicts").glob("*.json"))


def test_a_failure_later_is_a_question_mark_an_exit_code_and_judged_again(home, capsys):
    def answer(student, exercise, time):
        if (student, exercise) == ("ben", "toy.double"):
            raise GraderFailed("the grading process was lost")
        return everything(student, exercise, time)

    code, _ = grade(home, answer)
    said = " ".join(capsys.readouterr().out.split())
    assert (
        code == 1
        and "not judged, no mark: ben: toy.double, toy.root: the grader failed" in said
        and "│ ben │ ? │ ? │ ? │" in said
    )
    marks = {entry.student: entry.score for entry in results.gradebook(home, UNIT)}
    assert marks["ben"] is None and marks["ada"] == 14
    code, table = grade(home)
    assert code == 0 and table.asked == [("ben", "toy.double"), ("ben", "toy.root")]
    assert {entry.student: entry.score for entry in results.gradebook(home, UNIT)} == {"ada": 14, "ben": 14}


def test_a_worker_that_cannot_judge_stops_the_class_with_nobody_else_judged(home):
    def answer(student, exercise, time):
        if student == "ben":
            raise canary.Broken("On node7 ...")
        return everything(student, exercise, time)

    table = Table(answer)
    table.slots = 1
    for student in ("cyd", "dee"):
        toyclass.hand_in(home.parent, student, solved(toyclass.nb_of(home.parent), student))
    with (
        pytest.raises(canary.Broken, match="node7"),
        classroom.ClassGrader(home, workers=table, accept_risk=True) as room,
    ):
        list(room.grade(UNIT))
    assert {student for student, _ in table.asked} == {"ada", "ben"} and table.closed is True


def test_one_that_fails_in_company_has_another_try_with_nothing_else_at_work(home):
    """Else students who take all memory could stop the class."""

    def answer(student, exercise, time):
        if (student, time) == ("ada", 1):
            raise canary.Broken("out of memory")
        return everything(student, exercise, time)

    with classroom.ClassGrader(home, workers=Table(answer), accept_risk=True) as room:
        assert {g.student for g in room.grade(UNIT) if g.complete} == {"ada", "ben"}


# ----------------------------------------------------------------------------------------------- one worker


class Stub:
    """A judge whose verdicts have these points."""

    gpu = "none"

    def __init__(self, points):
        self.points, self.judged = points, []

    def judge_all(self, answers, budget=None):
        self.judged += [exercise.id for exercise, *_ in answers]
        found = [criteria.refused(exercise, "PermissionError: torch") for exercise, *_ in answers]
        for verdict in found:
            verdict.points = self.points
        return found


def job(student="ada"):
    one = workers.QueuedAnswer(TRANSPOSE.id, tuple(answer(TRANSPOSE.id, solution_cell(TRANSPOSE.id))), 1)
    return workers.JudgingJob(student, (one,), verdicts.checkout(), canary=one)


@pytest.mark.parametrize("points", [TRANSPOSE.points, 0.0])
def test_each_worker_judges_a_published_kernel_before_its_first_job(monkeypatch, points):
    stub = Stub(points)
    monkeypatch.setattr(workers, "_own", SimpleNamespace(judge=stub, heard=set()))
    if points:
        workers.judge(job(), True)
        workers.judge(job("ben"), True)
        assert len(stub.judged) == 3
    else:
        with pytest.raises(canary.Broken, match="earns 0 of 10 points, so nothing was judged: PermissionError: torch"):
            workers.judge(job(), True)
        assert len(stub.judged) == 1


def test_what_refers_to_itself_is_gone_after_each_job(monkeypatch):
    """Traces that failed hold the tensors of a submission: 4 GB after a hundred of them."""
    held = []

    class Littering(Stub):
        def judge_all(self, answers, budget=None):
            itself = Stub(0)
            itself.itself = itself
            held.append(weakref.ref(itself))
            return super().judge_all(answers, budget)

    monkeypatch.setattr(workers, "_own", SimpleNamespace(judge=Littering(TRANSPOSE.points), heard=set()))
    gc.disable()
    try:
        workers.judge(job(), True)
    finally:
        gc.enable()
    assert len(held) == 2 and not any(reference() for reference in held)


def test_it_is_a_kernel_of_the_unit():
    assert canary.first(REAL)[0].kind == "kernel"
    assert [exercise.id for exercise, _ in canary.references(REAL)] == list(command.grader.exercises(REAL))


# ------------------------------------------------------------------------------------- one notebook, and doctor


def lost(monkeypatch):
    """A zygote that ends at once."""
    end = [sys.executable, "-c", "raise ModuleNotFoundError('No module named torch')"]
    monkeypatch.setattr(sandbox, "wrap", lambda words, **more: end)


def test_a_lost_zygote_tells_its_last_words(monkeypatch):
    lost(monkeypatch)
    zygote = Zygote()
    reply = zygote.ask({"role": "record", "parts": [], "seconds": 1.0})
    zygote.close()
    assert (
        reply["error"] == "the grading process was lost (ModuleNotFoundError: No module named torch)"
        and reply["cause"].kind == "grader_failed"
    )


def test_grade_one_stops_in_a_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("GRADER_HOME", str(tmp_path))
    lost(monkeypatch)
    path = command.grader.released(REAL)
    with pytest.raises(
        canary.Broken,
        match=r"cannot be judged, so nothing was judged: the grading process was lost .*No module named torch",
    ):
        single.grade(path, "ada", accept_risk=True)
    assert not list(tmp_path.glob("verdicts/*"))
    told = CliRunner().invoke(app, ["grade", str(path), "--accept-risk"])
    assert told.exit_code == 1 and "of 66 points" not in told.output and "Traceback" not in told.output


def test_grade_one_says_that_it_does_not_know(monkeypatch, tmp_path):
    missing = [failed(TRANSPOSE, GraderFailed("lost"))]
    graded = single.GradedNotebook(REAL, "ada", missing, counts.of(None, REAL))
    assert graded.text().endswith("ada, 04_memory_coalescing: ? of 50 points")
    assert graded.tree()["points"] is None and "? of 50 points" in graded.html()
    monkeypatch.setattr(single, "grade", lambda *words, **more: graded)
    assert CliRunner().invoke(app, ["grade", "x.ipynb"]).exit_code == 1


def test_what_was_judged_well_is_judged_by_one_kernel_alone(monkeypatch, tmp_path):
    """And by all again once the environment is another one."""
    full = Stub(100.0)
    full.folder, full.secret = tmp_path, b"s"
    canary.prove(full, REAL)
    assert len(full.judged) == len(command.grader.exercises(REAL))
    full.judged.clear()
    canary.prove(full, REAL)
    assert full.judged == [canary.first(REAL)[0].id]
    full.judged.clear()
    monkeypatch.setattr(verdicts, "_environment", lambda: ["another"])
    canary.prove(full, REAL)
    assert len(full.judged) == len(command.grader.exercises(REAL))


def test_the_doctor_has_a_row_for_it(monkeypatch, tmp_path):
    monkeypatch.setattr(sandbox, "level", lambda: "Landlock + seccomp")
    lost(monkeypatch)
    (row,) = doctor.prove([REAL], tmp_path)
    assert row.stops and "cannot be judged" in row.advice and list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="There is no unit '99_none'"):
        list(doctor.prove(["99_none"]))


# ------------------------------------------------------------------------------- whose fault an error is


def of_transpose(body):
    return [("<imports>", IMPORTS), ("<cell>", f"import os\n\n\ndef transpose(x):\n    {body}\n    return x")]


HIDDEN = sandbox.ROOT / "course_lib" / "exercises" / "coalescing.py"
OWN = {
    "a PermissionError that names torch": "raise PermissionError(13, 'Permission denied', torch.__file__)",
    "one that names Python": "raise PermissionError(13, 'Permission denied', os.__file__)",
    "one behind another": "try: raise PermissionError(13, '', torch.__file__)\n    except OSError: raise ValueError('x')",
    "an ImportError that names torch": "raise ImportError('no', name='torch', path=torch.__file__)",
    "a module that is not there": "import torch.there_is_none",
    "what is hidden": f"open({str(HIDDEN)!r})",
    "what is hidden, as a module": "import course_lib.exercises.coalescing",
    "a file of nobody's": "open('/etc/shadow')",
    "names of every kind": "raise ImportError('no', name='..', path='/' + '../' * 9 + 'etc/shadow')",
    "a name too long": "raise PermissionError(13, '', os.path.dirname(torch.__file__) + '/' + 'a' * 300 + '.py')",
    "half a name": "raise PermissionError(13, '', os.path.dirname(torch.__file__) + '/\\0\\udc00.py')",
    "its own end": "os._exit(0)",
    "a signal to itself": "os.kill(os.getpid(), 9)",
    "no memory": "x = bytearray(1 << 40)",
}


@pytest.mark.parametrize("what", first_ones(OWN, 4))
def test_what_a_submission_does_itself_is_its_own(judge, what):
    verdict = judge.judge(TRANSPOSE, of_transpose(OWN[what]), 1)
    assert verdict.judged and verdict.points == 0 and id_of(verdict.findings[0].seen) != "judging.failed.grader"


@pytest.mark.parametrize(
    "names", [7, [7], [b"/x.py"], [("/x.py",)], [["/x.py"]], {"/x.py": 1}, "/x.py", None, ["a\0.py"]]
)
def test_what_a_child_writes_itself_is_no_failure_of_ours(names):
    forged = {"unread": names, "logs": [{"calls": [{"unread": names}]}, *([names] if names else [])]}
    assert all(type(name) is str for name in unread(forged))
    assert sandbox.of_python(unread(forged)) == []


def test_a_module_that_the_exercise_takes_away_is_no_failure_of_ours(judge):
    exercise = find("recomputation.checkpoint")
    source = (
        f"import torch\nopen({importlib.util.find_spec(exercise.without[0]).origin!r})\n{solution_cell(exercise.id)}"
    )
    assert judge.judge(exercise, [("<imports>", IMPORTS), ("<cell>", source)], 1).judged


def test_what_the_sandbox_never_shows_of_python_is_no_failure_of_ours(monkeypatch, tmp_path):
    library, settings = tmp_path / "lib", tmp_path / "etc"
    for folder in (library, settings):
        folder.mkdir()
    outside = [tmp_path / "tool.py", settings / "sitecustomize.py"]
    for file in outside:
        file.touch()
    (library / "sitecustomize.py").symlink_to(outside[1])
    monkeypatch.setattr(sandbox, "_standard_library", lambda: library)
    monkeypatch.setattr(sandbox.sys, "base_prefix", str(tmp_path))
    assert outside[1] in sandbox._packages.__wrapped__(()), "shown, so nobody can say that it is closed"
    monkeypatch.setattr(sandbox, "packages", list)
    assert sandbox.of_python({str(file) for file in outside}) == []
    assert sandbox.of_python({str(library / "sitecustomize.py")}) == [library / "sitecustomize.py"]


@pytest.fixture
def broken(judge, monkeypatch, tmp_path):
    """A package of this Python that the sandbox does not show."""
    if not landlock.version() and not sandbox.bubblewrap_works():
        pytest.skip("no sandbox on this machine")
    (tmp_path / "away.py").write_text("X = 1\n")
    known = sandbox.packages()
    monkeypatch.setattr(sandbox, "packages", lambda: [*known, tmp_path])
    monkeypatch.syspath_prepend(tmp_path)
    return judge, tmp_path / "away.py"


@pytest.mark.parametrize("body", ["open({!r})", "torch.serialization.load({!r})", "raise ImportError('', name='away')"])
def test_a_file_of_python_that_is_closed_to_everyone_is_our_failure(broken, body):
    judge, path = broken
    cells = of_transpose(body.format(str(path)))
    verdict = judge.verdict(TRANSPOSE, cells, "ada")
    assert not verdict.judged and f"{path} cannot be read in the sandbox" in verdict.findings[0].seen
    assert (
        not list(Path(judge.folder, "verdicts").glob("*.json"))
        or judge.verdict(TRANSPOSE, cells, "ada").judged is False
    )


def test_at_import_too_and_others_of_the_submission_are_judged(broken):
    judge, path = broken
    cells = [("<imports>", IMPORTS + f"open({str(path)!r})\n"), *of_transpose("pass")]
    good = find("coalescing.padded_stride")
    others = answer(good.id, solution_cell(good.id))
    lost, found = judge.judge_all([(TRANSPOSE, cells, 1), (good, others, 1)])
    assert not lost.judged and found.points == good.points


# ------------------------------------------------------------------------------------ where packages lie


@pytest.fixture
def package(tmp_path):
    """A folder with one distribution, `canary_seed`, of one module."""
    folder = tmp_path / "installed"
    (folder / "canary_seed").mkdir(parents=True)
    (folder / "canary_seed" / "__init__.py").write_text("X = 'found'\n")
    (folder / "canary_seed-1.0.dist-info").mkdir()
    (folder / "canary_seed-1.0.dist-info" / "METADATA").write_text("Name: canary_seed\nVersion: 1.0\n")
    for path in (tmp_path, *tmp_path.parents[:2]):
        path.chmod(0o755)
    return folder


def linked_whole(folder, target):
    for entry in folder.iterdir():
        (target / entry.name).symlink_to(entry)


def linked_file_by_file(folder, target):
    for path in (path for path in folder.rglob("*") if path.is_file()):
        (target / path.relative_to(folder)).parent.mkdir(parents=True, exist_ok=True)
        (target / path.relative_to(folder)).symlink_to(path)


@pytest.mark.parametrize("link", first_ones([None, linked_whole, linked_file_by_file]))
def test_packages_on_pythonpath_and_behind_links_are_found_in_the_sandbox(monkeypatch, tmp_path, package, link):
    folder = package
    if link:
        folder = tmp_path / "links"
        folder.mkdir()
        link(package, folder)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), str(tmp_path), "/nowhere"]))
    monkeypatch.syspath_prepend(folder)
    assert sandbox.environment(str(tmp_path))["PYTHONPATH"] == os.pathsep.join(
        map(str, (sandbox.ROOT, sandbox.ENGINE, folder))
    )
    zygote = Zygote()
    source = "def probe():\n    import canary_seed\n    return canary_seed.X"
    part = {"cells": [["<cell 1>", source]], "entry": "probe", "calls": [[{}]], "called": "", "without": []}
    reply = zygote.ask({"role": "record", "parts": [part], "seconds": 10.0})
    zygote.close()
    (call,) = reply["result"][0]["logs"][0]["calls"]
    assert (call["result"], call["error"]) == ("found", "")


def test_neither_the_course_nor_a_folder_without_packages_is_shown(monkeypatch, tmp_path, package):
    before = sandbox.packages()
    (package / "linked").symlink_to(sandbox.ROOT.parent)
    for folder in (sandbox.ROOT, sandbox.ROOT.parent, tmp_path, tmp_path / "none"):
        monkeypatch.syspath_prepend(str(folder))
    assert sandbox.packages() == before
    monkeypatch.syspath_prepend(str(package))
    assert sandbox.packages() == [*before, package]


def test_packages_are_looked_for_once(monkeypatch):
    known = sandbox.packages()
    monkeypatch.setattr(sandbox, "_entries", lambda folder: pytest.fail("a folder is listed again"))
    assert sandbox.packages() == known


def test_an_environment_that_was_mended_has_other_keys(monkeypatch, package):
    def key():
        verdicts._environment.cache_clear()
        return verdicts.key_of(TRANSPOSE, [], 1, verdicts.NO_GPU)

    before = key()
    assert key() == before
    monkeypatch.syspath_prepend(str(package))
    assert key() != before
    monkeypatch.undo()
    assert key() == before
