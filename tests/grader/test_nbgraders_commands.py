"""nbgrader's own commands, typed in the folder of a class: its command line, and the files where it finds the course's settings.

What the steps do to odd notebooks is in test_preprocessors.py; this is the road of who knows nbgrader, and none of our commands.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from nbgrader.api import Gradebook

import grader

UNIT = "02_dtypes"
NOTEBOOK = Path(UNIT) / f"{UNIT}.ipynb"
NBGRADER = Path(sys.executable).parent / "nbgrader"


@pytest.mark.slow  # each command loads its libraries anew
def test_a_course_folder_with_the_settings_alone_is_generated_and_graded(tmp_path):
    home = tmp_path / "grader"
    home.mkdir()
    shutil.copy(grader.ROOT / "grader" / "nbgrader_config.py", home)  # a copy: a link's folder would be the clone
    with_solutions = grader.ROOT / "solutions" / NOTEBOOK
    put(with_solutions, tmp_path / "solutions")

    def nbgrader(*words):
        environment = os.environ | {"GRADER_HOME": str(home)}
        done = subprocess.run([NBGRADER, *words], cwd=home, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    nbgrader("generate_assignment", UNIT)
    put(with_solutions, home / "submitted" / "solved")
    put(tmp_path / "notebooks" / NOTEBOOK, home / "submitted" / "empty")
    nbgrader("autograde", UNIT)
    path = {e.check_id: e.points for e in grader.exercises(UNIT).values() if e.track == "path"}
    with Gradebook(f"sqlite:///{home / 'gradebook.db'}") as book:
        found = {s.student.id: s for s in book.assignment_submissions(UNIT)}
        scores = {student: (s.score, s.max_score, s.needs_manual_grade) for student, s in found.items()}
        grades = {grade.name: grade.auto_score for grade in found["solved"].notebooks[0].grades}
    most = sum(path.values())
    assert scores == {"solved": (most, most, False), "empty": (0, most, False)}
    assert {check: points for check, points in grades.items() if points} == path


def put(notebook, folder):
    to = folder / NOTEBOOK
    to.parent.mkdir(parents=True)
    shutil.copy(notebook, to)
