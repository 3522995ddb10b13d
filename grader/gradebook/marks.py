"""Verdicts into a graded notebook and the gradebook: the judge gives them, and nothing starts a kernel.

    autograded/ ── WriteVerdicts ──▶ SaveAutoGrades ──▶ SaveExtras ──▶ AssignLatePenalties ──▶ autograded/, gradebook.db

nbgrader scores a test cell by its outputs: an error gives 0, an execute_result that reads as a number gives that many
points, and anything else, no output included, gives them all. So each test cell gets one or the other here; and what the
grader could not judge has no score afterwards, neither 0 nor any other, and waits for a person or for the next run.

The check of an exercise that is not on the class's path (grader/gradebook/counts.py) is worth 0 points, so that nbgrader's maximum is
the path's; what counts of More is nbgrader's extra credit.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import replace

import nbgrader.preprocessors
from nbformat import NotebookNode, v4
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Unicode
from traitlets.utils.importstring import import_item

from course_lib import metadata, render
from course_lib.exercise import Exercise, Verdict
from course_lib.metadata import GradedOutput
from grader import exercises
from grader.catalogue import say
from grader.gradebook import counts, current_submission
from grader.gradebook.current_submission import InTheBook
from grader.judging import submission
from tritontrace.messages import message_of
from tritontrace.replay import wire


class WriteVerdicts(NbGraderPreprocessor):
    """Replacement of nbgrader's Execute: each test cell's output becomes the judge's verdict, as HTML and as a number."""

    judge = Unicode(help="(unit, student, path) -> {exercise: Verdict}, by its dotted name").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        names = resources["nbgrader"]
        by_cell = {exercise.check_id: exercise for exercise in exercises(names["assignment"]).values()}
        verdicts, problem, read = {}, "", current_submission.read(self.config, names)
        try:
            verdicts = dict(current_submission.of(names).verdicts or self._judged(names))
        except Exception as e:  # a failure of ours, whatever it is, must be seen and must not read as a mark
            problem = say("judging.failed.judge", kind=type(e).__name__, error=message_of(e))
            self.log.error("No verdicts for %s: %s", names["student"], problem)
        resources["verdicts"] = {}
        for cell in nb.cells:
            if cell.cell_type != "code":
                continue
            cell.outputs, cell.execution_count = [], None
            meta = cell.metadata.get("nbgrader", {})
            if not meta.get("grade"):
                continue
            exercise = by_cell.get(meta.grade_id)
            verdict = verdicts.get(exercise.id) if exercise else None
            try:
                cell.outputs = _outputs(verdict, float(meta.points))
                graded = GradedOutput(wire.to_tree(verdict), answer(read, exercise), bonus(verdict))
                metadata.write(cell.outputs[0].metadata, graded)
                resources["verdicts"][meta.grade_id] = verdict if verdict.judged else None
            except Exception as e:
                about = exercise.id if exercise else meta.grade_id
                cell.outputs = [
                    _no_verdict(say("judging.failed.exercise", exercise=about, problem=problem or message_of(e)))
                ]
        return nb, resources

    def _judged(self, names: dict) -> dict[str, Verdict]:
        path = current_submission.folder(self.config, names) / f"{names['notebook']}.ipynb"
        return import_item(self.judge)(names["assignment"], names["student"], path)


def _outputs(verdict: Verdict | None, out_of: float) -> list[NotebookNode]:
    if verdict is None:
        raise ValueError(say("judging.failed.nothing"))
    if not isinstance(verdict.points, (int, float)) or math.isnan(verdict.points):
        raise ValueError(say("judging.failed.points", points=repr(verdict.points)))
    points = min(max(float(verdict.points), 0.0), out_of)
    # the class keeps formgrader's MathJax away from what the student printed
    page = {"text/html": f'<div class="tex2jax_ignore">{render.html(verdict)}</div>'}
    if verdict.judged:
        mark = {"text/plain": f"{points:g}"}  # what nbgrader reads; it shows the page
        return [v4.new_output("execute_result", mark | page, execution_count=None)]
    seen = v4.new_output("display_data", page | {"text/plain": render.text(verdict)})
    return [seen, _no_verdict(verdict.findings[0].seen)]


def answer(read: submission.Submission, exercise: Exercise) -> str:
    """Hash a student's answer to an exercise, or the whole notebook where there is none."""
    try:
        sources = [source for _, source in read.answer(exercise).cells]
    except submission.Problem:
        sources = [read.problem, *(cell.source for cell in read.cells)]
    return hashlib.sha256(json.dumps(sources).encode()).hexdigest()[:16]


def bonus(verdict: Verdict) -> float:
    """Return the extra credit for speed of a verdict."""
    return max(float(verdict.bonus), 0.0) if math.isfinite(verdict.bonus) else 0.0


def extras(
    counting: counts.ExerciseCounts, verdicts: Mapping[str, Verdict], by_hand: Mapping[str, float | None]
) -> dict[str, float]:
    """Map each judged exercise to its extra credit: for speed, and in More what counts of its points.

    by_hand    exercise -> the points that a person gave; None, or nothing, where the judge's count
    """
    judged = {id: verdict for id, verdict in verdicts.items() if verdict.judged}
    points = {id: verdict.points for id, verdict in judged.items()}
    # what a person gave in More stands in the gradebook as it is, and no extra credit beside it
    points |= {id: given if counting.ways[id] == "path" else 0.0 for id, given in by_hand.items() if given is not None}
    more, speed = counting.extra(points), {id: bonus(verdict) for id, verdict in judged.items()}
    return {id: 0.0 if counting.ways[id] == "dropped" else more.get(id, 0.0) + speed[id] for id in judged}


def _no_verdict(sentence: str) -> NotebookNode:
    return v4.new_output("error", ename="NoVerdict", evalue=sentence, traceback=[f"NoVerdict: {sentence}"])


class SaveAutoGrades(InTheBook, nbgrader.preprocessors.SaveAutoGrades):
    """nbgrader's preprocessor that saves the scores of the test cells to the gradebook."""


class SaveExtras(NbGraderPreprocessor):
    """Preprocessor after SaveAutoGrades: removes the score where there is no verdict, saves extra credit (what counts of More, and the
    bonus for speed), and leaves what a person should look at as a comment on its exercise, with formgrader's flag on the submission. The
    flag goes when a person takes it away.

    SaveAutoGrades asks for a review of all points given by hand; here of those alone whose answer has changed since.
    """

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        names = resources["nbgrader"]
        where = names["notebook"], names["assignment"], names["student"]
        read, here = current_submission.read(self.config, names), current_submission.of(names)
        of_unit, verdicts = exercises(names["assignment"]), resources["verdicts"]
        with current_submission.gradebook(names) as book:
            gradebook = current_submission.LookedUp(book, *where)
            if read.flags:
                gradebook.find_submission_notebook(*where).flagged = True
            grades = {id: gradebook.find_grade(e.check_id, *where) for id, e in of_unit.items()}
            found = {id: verdict for id, e in of_unit.items() if (verdict := verdicts.get(e.check_id))}
            by_hand = {id: grade.manual_score for id, grade in grades.items()}
            counting = current_submission.counting(names)
            extra = extras(counting, found, by_hand)
            checks = {of_unit[id].check_id: points for id, points in extra.items()}
            for cell in nb.cells:
                if cell.id in checks and (graded := metadata.read(cell.outputs[0].metadata, GradedOutput)):
                    metadata.write(cell.outputs[0].metadata, replace(graded, extra=checks[cell.id]))
            for exercise in of_unit.values():
                verdict, grade = verdicts.get(exercise.check_id), grades[exercise.id]
                if verdict is None:  # nbgrader has read the error as 0
                    # trap: in nbgrader an error gives 0, a number that number, and nothing gives all: each test cell
                    # gets one of the first two, and what could not be judged has its score taken away again
                    grade.auto_score, grade.needs_manual_grade = None, exercise.id not in here.same
                    continue
                earns = bool(exercise.bonus) or counting.ways[exercise.id] == "more"
                ours = (
                    earns or counting.said or here.verdicts is not None
                )  # else a person's stays under nbgrader alone, too
                if ours and exercise.id not in here.extra:
                    grade.extra_credit = extra[exercise.id] if earns else None
                if exercise.id in here.same:
                    # trap: nbgrader means by it that the answer has changed since; a graded notebook is what the person
                    # saw
                    grade.needs_manual_grade = False
                flags = [sentence for about, sentence in read.flags if about == exercise.id]
                if flags:  # more to the point than nbgrader's own "No response."
                    gradebook.find_comment(exercise.grade_id, *where).auto_comment = "\n\n".join(flags)
            book.db.commit()
        return nb, resources


class AssignLatePenalties(InTheBook, nbgrader.preprocessors.AssignLatePenalties):
    """nbgrader's preprocessor that gets the late penalty from its plugin (grader/gradebook/late.py)."""

    def settle(self, resources: dict) -> None:
        self.db_url = resources["nbgrader"]["db_url"]  # the plugin looks there
        self.init_plugin()
        submitted = self.gradebook.find_submission(self.assignment_id, self.student_id)
        notebook = self.gradebook.find_submission_notebook(self.notebook_id, self.assignment_id, self.student_id)
        notebook.late_submission_penalty = None
        if (late := submitted.total_seconds_late) > 0:
            penalty = self.plugin_inst.late_submission_penalty(self.student_id, notebook.score, late)
            if penalty is not None:
                notebook.late_submission_penalty = self._check_late_penalty(notebook, penalty)
        self.gradebook.db.commit()
