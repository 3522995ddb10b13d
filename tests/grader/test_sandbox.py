"""Which sandbox is used, and what happens where there is none."""

import pytest

from grader import sandbox


def test_without_a_sandbox_grading_is_refused_unless_the_risk_is_accepted(monkeypatch):
    monkeypatch.setattr(sandbox, "level", lambda: "none")
    with pytest.raises(sandbox.NoSandbox, match="Install the package `bubblewrap`, or grade with --accept-risk"):
        sandbox.require(False)
    assert sandbox.require(True) == "none"


def test_without_bubblewrap_the_command_is_left_alone(monkeypatch):
    monkeypatch.setattr(sandbox, "bubblewrap_works", lambda: False)
    assert sandbox.wrap(["python"]) == ["python"]


def test_bubblewrap_shows_the_course_without_its_exercises(monkeypatch):
    monkeypatch.setattr(sandbox, "bubblewrap_works", lambda: True)
    command = sandbox.wrap(["python"])
    bound = [command[i + 1] for i, word in enumerate(command) if word == "--ro-bind"]
    course = str(sandbox.ROOT / "course_lib")
    assert f"{course}/criteria.py" in bound and f"{course}/exercises" not in bound and course not in bound
    assert str(sandbox.ROOT / "grader" / "judge.py") not in bound
    assert command[-2:] == ["--", "python"]
