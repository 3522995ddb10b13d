"""Packs for other graders, run in an empty folder as their harness would run them."""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import nbformat
import pytest
import yaml
from nbformat import v4
from sampling import first_ones
from typer.testing import CliRunner

from course_lib.criteria import refused
from course_lib.exercises import find
from grader import ROOT
from grader.__main__ import app
from grader.cohort import single
from grader.gradebook import counts, late, results
from grader.judging import submission
from grader.lms import enrolled
from grader.lms.rosters import Person
from grader.packing import gradescope
from grader.packing.rules import Rules, rules_of
from grader.published import IMPORTS, solution_cell

UNIT = "04_memory_coalescing"
SOLVED, WRONG = "coalescing.padded_stride", "coalescing.divergence_passes"
DUE = datetime(2026, 11, 30, 22, 59, tzinfo=UTC)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A class with a due date, 10 percent a day, and two days more for ada."""
    home = tmp_path_factory.mktemp("class")
    late.set_due(home, UNIT, "2026-11-30T23:59+01:00")
    late.set_rules(home, UNIT, percent=10.0)
    with results.book(home) as book:
        book.update_or_create_student("ada", email="Ada@example.org")
    late.extend(home, UNIT, "ada", 2)
    return home


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    cells = [v4.new_code_cell(IMPORTS)]
    for id, source in ((SOLVED, solution_cell(SOLVED)), (WRONG, "def divergence_passes(*a, **k):\n    return -1\n")):
        cells.append(v4.new_code_cell(source))
        cells[-1].metadata["nbgrader"] = {"grade_id": find(id).grade_id}
    path = tmp_path_factory.mktemp("work") / f"{UNIT}.ipynb"
    nbformat.write(v4.new_notebook(cells=cells), path)
    return path


def command(home, *words):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADER_HOME", str(home))
        return CliRunner().invoke(app, [str(word) for word in words])


# ------------------------------------------------------------------------------------------------- rules that travel


def test_the_rules_are_those_of_the_class(home):
    rules = rules_of(home, UNIT)
    assert rules.lateness == {"percent": 10.0, "grace_minutes": 10.0, "at_most": 100.0}
    assert rules.student("ada@EXAMPLE.org") == "ada" and rules.student("eve@example.org") == "eve@example.org"
    assert rules.due_for("ben") == DUE and rules.due_for("ada") == DUE + timedelta(days=2)
    assert rules.due_for("ben", DUE + timedelta(days=3)) == DUE + timedelta(days=3)
    assert rules.penalty(50.0, DUE + timedelta(hours=25), DUE) == 10.0
    assert rules.penalty(50.0, DUE + timedelta(minutes=9), DUE) == 0.0
    assert rules.penalty(50.0, DUE + timedelta(days=9), None) == 0.0


def test_a_class_without_dates_has_none(tmp_path):
    rules = rules_of(tmp_path, UNIT)
    assert rules == Rules(UNIT, {"percent": 0.0, "grace_minutes": 10.0, "at_most": 100.0})
    assert not list(tmp_path.glob("*.db"))


# ------------------------------------------------------------------------------------------------- Gradescope


@pytest.fixture(scope="module")
def autograder(home, tmp_path_factory):
    """/autograder as Gradescope makes it of the zip, without what setup.sh installs."""
    made = tmp_path_factory.mktemp("zip") / "pack.zip"
    done = command(home, "pack", "gradescope", UNIT, "--to", made)
    assert done.exit_code == 0, done.output
    root = tmp_path_factory.mktemp("autograder")
    with zipfile.ZipFile(made) as pack:
        pack.extractall(root / "source")
    for name in ("submission", "results"):
        (root / name).mkdir()
    return root


def harness(root, *files, email="ada@example.org", at=DUE, due=None):
    """Run run_autograder on a submission of these files; returns (exit status, results.json or None)."""
    shutil.rmtree(root / "submission")
    (root / "submission").mkdir()
    for file in files:
        shutil.copy(file, root / "submission")
    user = {"email": email, "id": 7, "name": "A. Student", "assignment": {"due_date": due and due.isoformat()}}
    told = {"id": 1, "created_at": at.isoformat(), "assignment": {"due_date": None}, "users": [user]}
    (root / "submission_metadata.json").write_text(json.dumps(told))
    environment = {"PATH": os.environ["PATH"], "HOME": str(root), "AUTOGRADER": str(root), "PYTHON": sys.executable}
    ran = subprocess.run(
        ["bash", root / "source" / "run_autograder"],
        cwd=root,
        env=environment | {"PYTHONPATH": str(root / "source" / "course"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )
    path = root / "results" / "results.json"
    return ran, json.loads(path.read_text()) if path.exists() else None


@pytest.fixture(scope="module")
def graded(autograder, notebook):
    ran, found = harness(autograder, notebook)
    assert ran.returncode == 0, ran.stderr
    return found


def test_each_criterion_is_a_test(graded):
    assert graded["score"] == 4 and graded["output"] == "4 of 50 points." and graded["stdout_visibility"] == "hidden"
    of_solved = [test for test in graded["tests"] if test["name"].startswith(SOLVED)]
    exercise = find(SOLVED)
    assert [test["name"] for test in of_solved] == [
        f"{SOLVED}: {criterion.title}" for criterion in (*exercise.gates, *exercise.criteria)
    ]
    assert {test["status"] for test in of_solved} == {"passed"} and sum(t["score"] for t in of_solved) == 4
    assert sum(test["max_score"] for test in graded["tests"]) == 50


def test_a_lost_criterion_says_what_a_student_reads(graded):
    lost = next(test for test in graded["tests"] if test["name"].startswith(WRONG) and test["status"] == "failed")
    assert lost["visibility"] == "visible" and lost["output_format"] == "text" and lost["output"].startswith("✗")
    assert not any("Traceback" in test["output"] for test in graded["tests"])


def test_what_was_not_judged_stays_hidden(graded):
    hidden = [test for test in graded["tests"] if test["visibility"] == "hidden"]
    assert hidden and all(test["score"] == 0 for test in hidden)


@pytest.mark.parametrize(
    "email, days, due, score",
    first_ones(
        [
            ("ada@example.org", 1, None, 4.0),  # her extension
            ("ben@example.org", 1, None, 3.6),
            ("ben@example.org", 3, DUE + timedelta(days=3), 4.0),  # Gradescope's extension
            ("ada@example.org", 4.5, None, 2.8),
        ]
    ),
)
def test_lateness_costs_what_it_costs_in_autograde(autograder, notebook, email, days, due, score):
    ran, found = harness(autograder, notebook, email=email, at=DUE + timedelta(days=days), due=due)
    assert ran.returncode == 0 and found["score"] == score
    assert ("points are taken off" in found["output"]) == (score < 4)


def test_a_submission_without_a_notebook_is_told_so(autograder):
    ran, found = harness(autograder)
    assert ran.returncode == 0
    assert found == {"score": 0, "output": f"Hand in one notebook, {UNIT}.ipynb. There is: none.", "tests": []}


@pytest.mark.slow
def test_student_code_finds_neither_the_secret_nor_the_results(autograder, notebook, tmp_path):
    """A submission tries to write itself full marks, and to say what the secret is."""
    nb = nbformat.read(notebook, as_version=4)
    nb.cells[1].source = (
        "import pathlib\n"
        "def padded_stride(*a, **k):\n"
        f"    root = pathlib.Path({str(autograder)!r})\n"
        "    (root / 'results' / 'results.json').write_text('{\"score\": 66}')\n"
        "    raise ValueError((root / 'source' / 'class' / 'secret').read_text())\n"
    )
    path = tmp_path / f"{UNIT}.ipynb"
    nbformat.write(nb, path)
    ran, found = harness(autograder, path)
    assert ran.returncode == 0 and found["score"] == 0
    assert (autograder / "source" / "class" / "secret").read_text() not in json.dumps(found)


@pytest.mark.slow
def test_a_grader_that_fails_marks_nobody(autograder, notebook):
    rules = autograder / "source" / "class" / "rules.json"
    before = rules.read_text()
    rules.write_text(before.replace(UNIT, "99_none"))
    try:
        ran, found = harness(autograder, notebook)
    finally:
        rules.write_text(before)
    assert ran.returncode == 1 and found is None and "There is no unit '99_none'" in ran.stderr


def test_the_pack_holds_nothing_else_of_the_class(home, autograder):
    files = {
        str(path.relative_to(autograder / "source")) for path in (autograder / "source").rglob("*") if path.is_file()
    }
    assert {name for name in files if not name.startswith("course/")} == {
        "setup.sh",
        "run_autograder",
        "class/rules.json",
        "class/secret",
    } | {name for name in files if name.startswith("class/verdicts/")}
    assert not [name for name in files if re.search(r"gradebook\.db|submitted/|course/grader/secret", name)]


def test_setup_installs_the_course_with_its_constraints(autograder, tmp_path):
    """setup.sh with stand-ins for apt-get and Python, which note how they are called."""
    for name in ("apt-get", "python3.12"):
        (tmp_path / name).write_text(
            f'#!/bin/bash\necho "{name} $@" >> {tmp_path}/log\nmkdir -p venv/bin; cp -n $0 venv/bin/python 2> /dev/null || true\n'
        )
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "AUTOGRADER": str(autograder)}
    subprocess.run(["bash", autograder / "source" / "setup.sh"], env=environment, check=True)
    shutil.rmtree(autograder / "source" / "venv")
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines[0] == "apt-get update -qq" and "python3.12 -P -m venv venv" in lines
    cpu, proof = lines[-2:]
    assert "--torch-backend=cpu -c course/constraints.txt -e course/tritontrace -e course[grader]" in cpu
    assert proof.endswith(
        f"-m grader doctor {UNIT}"
    )  # which fails the build where no sandbox is to be had: test_doctor.py


def test_the_risk_is_accepted_when_the_pack_is_made(home, tmp_path, notebook, monkeypatch):
    """The option decides for both: building the image, and judging a submission there."""
    risks = []

    def grade(path, student, *, accept_risk, **more):
        risks.append(accept_risk)
        raise submission.Problem("enough")

    monkeypatch.setattr(gradescope.single, "grade", grade)
    for words, variable in (((), False), (("--accept-risk",), True)):
        pack, root = tmp_path / "pack.zip", tmp_path / str(variable)
        assert command(home, "pack", "gradescope", UNIT, "--to", pack, *words).exit_code == 0
        with zipfile.ZipFile(pack) as made:
            made.extractall(root / "source")
        setup, run = ((root / "source" / name).read_text() for name in ("setup.sh", "run_autograder"))
        assert (f"doctor {UNIT} --accept-risk" in setup) == variable == ("GRADER_ACCEPT_RISK=1" in run)
        (root / "submission").mkdir()
        shutil.copy(notebook, root / "submission")
        (root / "submission_metadata.json").write_text(json.dumps({"users": [{"email": "ada@example.org"}]}))
        with monkeypatch.context() as patch:
            patch.setenv("GRADER_ACCEPT_RISK", "1" if variable else "")
            assert gradescope.main(root) == 0
    assert risks == [False, True]


def test_a_pack_lies_with_the_class_and_is_its_owners(home, tmp_path, monkeypatch):
    """Not in the folder where one happens to be, which may be a repository."""
    monkeypatch.chdir(tmp_path)
    assert command(home, "pack", "gradescope", UNIT).exit_code == 0
    assert (home / "packs" / f"gradescope_{UNIT}.zip").stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == []
    there = subprocess.run(
        ["git", "check-ignore", f"grader/packs/gradescope_{UNIT}.zip"], cwd=ROOT, capture_output=True
    )
    assert there.returncode == 0


def test_the_same_class_packs_the_same_bytes(home, tmp_path):
    for name in ("one.zip", "two.zip"):
        assert command(home, "pack", "gradescope", UNIT, "--to", tmp_path / name).exit_code == 0
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


# ------------------------------------------------------------------------------------------------- GitHub Classroom


@pytest.fixture(scope="module")
def repository(home, notebook, tmp_path_factory):
    made = tmp_path_factory.mktemp("zip") / "pack.zip"
    done = command(home, "pack", "github", UNIT, "--to", made, "--repository", "somebody/course")
    assert done.exit_code == 0, done.output
    root = tmp_path_factory.mktemp("repository")
    with zipfile.ZipFile(made) as pack:
        pack.extractall(root)
    assert (root / f"{UNIT}.ipynb").read_bytes() == (ROOT / "notebooks" / UNIT / f"{UNIT}.ipynb").read_bytes()
    shutil.copy(notebook, root)
    return root


def check_step(root, tmp_path, student, pushed):
    """Run the workflow's step `check` as a runner would, in a run of that date."""
    workflow = yaml.safe_load((root / ".github" / "workflows" / "points.yml").read_text())
    step = next(step for step in workflow["jobs"]["points"]["steps"] if step.get("id") == "course")
    assert workflow["jobs"]["points"]["steps"][1]["with"]["repository"] == "somebody/course"
    (tmp_path / "gh").write_text(f"#!/bin/sh\necho {pushed.isoformat()}\n")
    (tmp_path / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    for name in ("gh", "python"):
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    environment |= {
        "GRADER_HOME": str(tmp_path / "class"),
        "STUDENT": student,
        "GITHUB_OUTPUT": str(tmp_path / "output"),
    }
    return subprocess.run(["bash", "-e", "-c", step["run"]], cwd=root, env=environment, capture_output=True, text=True)


@pytest.mark.slow
def test_the_workflow_prints_points_and_tells_the_reporter(repository, tmp_path):
    ran = check_step(repository, tmp_path, "ben", DUE + timedelta(days=1))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.splitlines()[-2:] == ["Late: 0.4 points are taken off, which leaves 3.6.", "Points 3.6/50"]
    encoded = (tmp_path / "output").read_text().removeprefix("result=")
    told = json.loads(base64.b64decode(encoded))
    assert (told["version"], told["status"], told["max_score"]) == (1, "fail", 50)
    assert sum(test["score"] for test in told["tests"]) == pytest.approx(3.6)


def test_nothing_secret_is_in_the_repository(home, repository):
    text = "".join(path.read_text() for path in (repository / ".github").rglob("*") if path.is_file())
    assert (home / "secret").exists() and (home / "secret").read_text().strip() not in text
    assert "example.org" not in text and not list(repository.rglob("secret"))


def test_no_student_is_named_in_what_all_of_them_can_read():
    """Whatever field is added to the rules: one that holds names is marked, or this fails."""
    names = {"ada": "2026-12-15T00:00:00+00:00"}
    whole = Rules("u", {"grace": 1.0}, {"more": 1}, "2026-12-01T00:00:00+00:00", names, names)
    assert "ada" in json.dumps(asdict(whole)) and "ada" not in json.dumps(asdict(whole.public))
    assert {each.name for each in fields(Rules)} == {"unit", "lateness", "counts", "due", "extended", "ids"}
    assert (whole.public.due, whole.public.lateness) == (whole.due, whole.lateness)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["grader.py", "json.py", "pip.py"])
def test_a_module_beside_the_notebook_is_not_imported(repository, tmp_path, name):
    shutil.copytree(repository, root := tmp_path / "root")
    (root / name).write_text("print('Points 99/99')\nraise SystemExit(0)\n")
    (root / f"{UNIT}.ipynb").write_text("no notebook")
    ran = check_step(root, tmp_path, "ben", DUE)
    assert ran.returncode == 1 and "99/99" not in ran.stdout and "is not a notebook" in ran.stdout
    workflow = (root / ".github" / "workflows" / "points.yml").read_text()
    assert "python -m" not in workflow and "git log" not in workflow


def test_the_template_says_what_to_do(repository):
    assert f"`{UNIT}.ipynb`" in (repository / "README.md").read_text()


def test_setup_of_the_workflow_takes_the_cpu_build_once(repository):
    """A download of gigabytes at each push of each student is what makes a class give up."""
    steps = yaml.safe_load((repository / ".github" / "workflows" / "points.yml").read_text())["jobs"]["points"]["steps"]
    assert any("--torch-backend=cpu" in step.get("run", "") for step in steps)
    cache = next(step for step in steps if step.get("uses", "").startswith("actions/cache@"))
    assert cache["with"]["path"] == "~/.cache/uv" and ".course/constraints.txt" in cache["with"]["key"]


def test_a_roster_without_addresses_is_matched_by_login_and_number(tmp_path):
    """Canvas exports none in its gradebook."""
    people = [Person(id="1001", first="Ada", last="Right", login="ada7", sis="S-77")]
    (student,) = enrolled.enrol(tmp_path, people).students
    rules = rules_of(tmp_path, UNIT)
    for user in ({"email": "Ada7@uni.example"}, {"email": "a.right@mail.example", "sid": "s-77"}):
        assert gradescope._student(rules, {"users": [user]}) == student
    assert gradescope._student(rules, {"users": [{"email": "eve@uni.example"}]}) == "eve@uni.example"
    assert "1 students of the class can be told" in command(tmp_path, "pack", "gradescope", UNIT).output


def test_a_date_in_another_zone_is_said_in_utc(graded, home):
    """A penalty that names the wrong hour is appealed, and rightly."""
    due = datetime.fromisoformat("2026-12-02T23:59-08:00")
    told = {"users": [{"email": "ben@example.org", "assignment": {"due_date": due.isoformat()}}]}
    told |= {"created_at": (due + timedelta(days=1)).isoformat(), "assignment": {}}
    notebook = single.GradedNotebook(UNIT, "ben", [], counts.of(None, UNIT))
    found = gradescope.result(replace(notebook, verdicts=[refused(find(SOLVED), "no")]), rules_of(home, UNIT), told)
    assert found["score"] == 0 and "after" not in found["output"]  # nothing earned, nothing lost
    full = replace(refused(find(SOLVED), "no"), points=4.0)
    found = gradescope.result(replace(notebook, verdicts=[full]), rules_of(home, UNIT), told)
    assert "Handed in after 2026-12-03 07:59 UTC" in found["output"]


def test_a_group_has_the_time_of_whoever_has_most_and_one_set_of_inputs():
    later = {"ada": (DUE + timedelta(days=3)).isoformat()}
    rules = Rules(UNIT, {}, due=DUE.isoformat(), extended=later, ids={"ada@x": "ada", "zoe@x": "zoe"})
    users = [{"email": "zoe@x", "assignment": {}}, {"email": "ada@x", "assignment": {}}]
    for order in (users, users[::-1]):
        told = {"users": order, "assignment": {"due_date": None}}
        assert gradescope._student(rules, told) == "ada"
        assert max(gradescope._due(rules, told, user) for user in order) == DUE + timedelta(days=3)


# ------------------------------------------------------------------------------------------------- the command


@pytest.mark.parametrize(
    "words, sentence",
    [
        (("canvas", UNIT), "There is no pack for 'canvas'. There are: gradescope, github."),
        (("gradescope", UNIT, "--to", "nowhere/pack.zip"), "There is no folder nowhere to write pack.zip to."),
        (("github", UNIT), "Name the course's repository on GitHub: --repository OWNER/NAME."),
    ],
)
def test_what_is_missing_is_a_sentence(tmp_path, words, sentence):
    done = command(tmp_path, "pack", *words)
    assert done.exit_code == 1 and sentence in " ".join(done.output.split())


def test_the_reporter_and_the_spec_are_named():
    assert "classroom-resources/autograding-grading-reporter" in (ROOT / "grader/packing/github.py").read_text()
    assert Path(ROOT / "docs" / "instructors.md").read_text().count("grader pack") >= 2
