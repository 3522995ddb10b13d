"""The copy that students get runs by itself, and no answer is in it."""

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

import grader
from course_lib.exercises import UNITS
from grader.building import student_copy
from grader.gradebook import converting

NAMES = subprocess.run(
    ["git", "-C", grader.ROOT, "ls-files"], capture_output=True, text=True, check=True
).stdout.splitlines()


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """The copy as `copy` makes it of a clean checkout; this one may have changes."""
    to = tmp_path_factory.mktemp("release")
    for name in filter(student_copy.handed_out, NAMES):
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        (to / name).write_bytes((grader.ROOT / name).read_bytes())
    return to


def test_no_solution_is_in_it(copy):
    text = "\n".join(path.read_text("utf-8") for path in copy.rglob("*") if path.suffix in {".py", ".md"})
    text += "\n".join(cell.source for path in copy.rglob("*.ipynb") for cell in nbformat.read(path, 4).cells)
    for unit in UNITS:
        source = (grader.ROOT / "solutions" / f"{unit}.py").read_text("utf-8")
        for solved in re.findall(r"### BEGIN SOLUTION\n(.*?)\s*### END SOLUTION", source, re.S):
            if solved.count("\n") > 2:
                assert solved not in text
    assert {"Dockerfile", "compose.yaml"} <= {path.name for path in copy.iterdir()}, "docs/hosted.md names them"
    assert not any((copy / name).exists() for name in ("solutions", "grader", "tests", "docs/solutions.md", "research"))


def test_an_exercise_is_checked_in_it(copy):
    code = "; ".join(
        [
            "import course_lib, tritontrace",
            "course_lib.check('flops.matmul_cost', lambda m, n, k: None)",
            "print(course_lib.__file__, tritontrace.__file__)",
        ]
    )
    env = {"PYTHONPATH": f"{copy}:{copy / 'tritontrace' / 'src'}", "PATH": "/usr/bin:/bin", "HOME": str(copy)}
    done = subprocess.run([sys.executable, "-c", code], cwd=copy, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *_, ours, engine = done.stdout.split()
    assert Path(ours).is_relative_to(copy) and Path(engine).is_relative_to(copy)
    assert "flops.matmul_cost" in done.stdout


def test_what_nbgrader_would_release_is_what_is_committed(tmp_path):
    """Byte for byte, so that formgrader's Generate leaves a clone that `git pull` can update."""
    for unit in UNITS:
        converting.register(tmp_path, unit)
        made = (tmp_path / "registered" / unit / f"{unit}.ipynb").read_bytes()
        assert made == (grader.ROOT / "notebooks" / unit / f"{unit}.ipynb").read_bytes(), unit


def test_what_is_not_committed_is_refused(tmp_path):
    def git(*words):
        subprocess.run(
            ["git", "-C", tmp_path / "course", "-c", "user.name=a", "-c", "user.email=a@b", *words],
            check=True,
            capture_output=True,
        )

    (tmp_path / "course" / "course_lib").mkdir(parents=True)
    (tmp_path / "course" / "solutions").mkdir()
    (tmp_path / "course" / "course_lib" / "a.py").write_text("1")
    (tmp_path / "course" / "solutions" / "a.py").write_text("1")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "all")
    assert student_copy.copy(tmp_path / "course", tmp_path / "out") == 1
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["course_lib"]
    with pytest.raises(ValueError, match="there already"):
        student_copy.copy(tmp_path / "course", tmp_path / "out")
    (tmp_path / "course" / "course_lib" / "a.py").write_text("2")
    with pytest.raises(ValueError, match=r"course_lib/a\.py"):
        student_copy.copy(tmp_path / "course", tmp_path / "other")
