"""Marks in the feedback of a submission, and the notes of nbgrader's exchange next to it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from nbformat import NotebookNode
from nbgrader.preprocessors import GetGrades as GetsScores

from course_lib import metadata
from course_lib.metadata import GradedOutput
from grader.gradebook import results
from grader.gradebook.current_submission import InTheBook
from grader.gradebook.exchange import NOTE_BYTES, NOTES


class GetGrades(InTheBook, GetsScores):
    """nbgrader's preprocessor that puts points and comments into the cells, extended by the verdict and by whether points were given by
    hand. Cells that have no points from judge or person have none, where nbgrader says 0."""

    def _get_score(self, cell: NotebookNode, resources: dict) -> None:
        super()._get_score(cell, resources)
        where = self.notebook_id, self.assignment_id, self.student_id
        grade = self.gradebook.find_grade(cell.metadata.nbgrader.grade_id, *where)
        cell.metadata.nbgrader["by_hand"] = grade.manual_score is not None
        graded = metadata.read(cell.outputs[0].get("metadata", {}), GradedOutput) if cell.outputs else None
        cell.metadata.nbgrader["verdict"] = results.verdict(graded) if graded else None
        if grade.auto_score is None and grade.manual_score is None:
            cell.metadata.nbgrader.score = None

    def settle(self, resources: dict) -> None:
        notebook = self.gradebook.find_submission_notebook(self.notebook_id, self.assignment_id, self.student_id)
        penalty = notebook.late_submission_penalty or 0
        student = self.gradebook.find_student(self.student_id)
        resources["nbgrader"] |= {
            "name": " ".join(filter(None, (student.first_name, student.last_name))),
            "score": notebook.score - penalty,
            "max_score": notebook.max_score,
            "late_penalty": penalty,
        }


def carry_notes(*, assignment: str, student: str, notebooks: Iterable[str]) -> None:
    """Copy the two note files of a submission to the next stage, as nbgrader's hook after each submission."""
    for source in (Path(notebook).with_name(note) for notebook in notebooks for note in NOTES):
        step, *names = source.parts[-4:-1]
        following = {"submitted": "autograded", "autograded": "feedback"}.get(step)
        if (
            following
            and source.is_file()
            and not source.is_symlink()
            and source.stat().st_size <= NOTE_BYTES[source.name]
        ):
            target = source.parents[3].joinpath(following, *names, source.name)
            target.unlink(missing_ok=True)
            shutil.copyfile(source, target)
