"""A unit's source as students get it: nbgrader's generate_assignment, and what this course adds to it."""

from __future__ import annotations

import hashlib
import json

from nbformat import NotebookNode
from nbgrader.preprocessors import ClearSolutions as ClearedByNbgrader
from nbgrader.preprocessors import NbGraderPreprocessor

from course_lib import metadata
from course_lib.metadata import HandedOut
from grader import exercises
from grader.gradebook import current_submission
from grader.judging.releases import COMMENT

KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
LANGUAGE = {"name": "python"}  # no version: the same notebook whatever Python built it


class ClearSolutions(ClearedByNbgrader):
    """nbgrader's preprocessor that removes solutions. In a dict of answers `...` stands for each already, and the rest is removed."""

    def preprocess_cell(self, cell: NotebookNode, resources: dict, index: int) -> tuple[NotebookNode, dict]:
        cell, resources = super().preprocess_cell(cell, resources, index)
        of_unit = exercises(resources["nbgrader"]["assignment"]).values()
        if any(e.kind == "values" and e.grade_id == cell.metadata.get("nbgrader", {}).get("grade_id") for e in of_unit):
            cell.source = cell.source.removesuffix(self.code_stub["python"]).rstrip()
        return cell, resources


class SetPoints(NbGraderPreprocessor):
    """Preprocessor that sets the points of each check in the class (grader/gradebook/counts.py): those of a path's exercise, else 0."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        counting = current_submission.counting(resources["nbgrader"])
        worth = {exercise.check_id: counting.worth(id) for id, exercise in counting.exercises.items()}
        for cell in nb.cells:
            marked = cell.metadata.get("nbgrader", {})
            if marked.get("grade"):
                marked["points"] = worth.get(marked["grade_id"], marked["points"])
        return nb, resources


class NameRelease(NbGraderPreprocessor):
    """Last step of generate_assignment: writes the release's hash into the notebook, so that it is judged as it was handed out
    (grader/judging/releases.py). Another text between the code makes no other release."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        code = [(c.metadata.get("nbgrader", {}).get("grade_id"), c.source) for c in nb.cells if c.cell_type == "code"]
        release = hashlib.sha256(json.dumps(code).encode()).hexdigest()[:12]
        metadata.write(nb.metadata, HandedOut(release))
        title = next((cell for cell in nb.cells if cell.cell_type == "markdown"), None)
        if title is not None:
            title.source = f"{title.source}\n\n{COMMENT.format(release)}"
        return nb, resources


class StripMetadata(NbGraderPreprocessor):
    """Late step of generate_assignment: removes all traces of the machine that executed the instructor's notebook."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        for cell in nb.cells:
            metadata.drop(cell.metadata)  # when and where it ran
        nb.metadata = NotebookNode(kernelspec=NotebookNode(KERNELSPEC), language_info=NotebookNode(LANGUAGE))
        nb.nbformat, nb.nbformat_minor = 4, 5
        return nb, resources
