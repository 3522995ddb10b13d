"""Submitted notebooks, as nbgrader's chain gets them: what was read, in the gradebook's own cells.

    submitted/ ── SubmissionExporter ──▶ Normalise ──▶ autograded/

Of a file only the kinds and the sources of its cells come in.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.exporters import NotebookExporter
from nbformat import NotebookNode, v4
from nbgrader.preprocessors import NbGraderPreprocessor

from grader import exercises
from grader.gradebook import current_submission
from grader.gradebook.release import KERNELSPEC, LANGUAGE
from grader.judging import submission


class SubmissionExporter(NotebookExporter):
    """nbconvert exporter that reads submitted notebooks through submission.read: only kinds and sources of cells come in.

    A file that is refused becomes a notebook with one cell, which says why; its exercises then score 0.
    """

    def from_filename(self, filename: str, resources: dict | None = None, **kw) -> tuple[str, dict]:
        if not resources or Path(filename).parent != current_submission.folder(self.config, resources["nbgrader"]):
            return super().from_filename(filename, resources, **kw)
        resources.setdefault("metadata", {})["name"] = Path(filename).stem
        return self.from_notebook_node(
            notebook(current_submission.read(self.config, resources["nbgrader"])), resources, **kw
        )


def notebook(read: submission.Submission) -> NotebookNode:
    """Return the cells of a submission, with nothing else in them; where it is refused, one cell that says why."""
    cells = [_clean(cell.kind, cell.source) for cell in read.cells] or [_clean("markdown", read.problem)]
    cells = [cell | {"id": f"cell-{number}", "metadata": {}} for number, cell in enumerate(cells, 1)]
    metadata = {"kernelspec": KERNELSPEC, "language_info": LANGUAGE}
    return nbformat.from_dict({"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": cells})


def _clean(kind: str, source: str) -> dict[str, Any]:
    if kind == "code":
        return {"cell_type": "code", "source": source, "outputs": [], "execution_count": None}
    if kind == "raw":  # nbconvert would put it into the page as it is
        source = "\n".join(f"    {line}" for line in source.splitlines())
    return {"cell_type": "markdown", "source": source}


class Normalise(NbGraderPreprocessor):
    """Preprocessor that keeps exactly one cell for each cell of the gradebook, with the gradebook's metadata.

    Of copies the solution that was judged stays, and the first check cell; deleted cells come back as they were handed
    out. Then no honest accident (a copy, #1083 of nbgrader) and no edit of metadata can change a score or stop a run.
    """

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        names = resources["nbgrader"]
        with current_submission.gradebook(names) as gradebook:
            book = gradebook.find_notebook(names["notebook"], names["assignment"])
            points = {cell.name: cell.max_score for cell in book.grade_cells}
            solutions = {cell.name for cell in book.solution_cells}
            given = {cell.name: (cell.source, cell.checksum) for cell in book.source_cells}
        chosen = self._chosen(nb, names)
        for name, (source, checksum) in given.items():
            graded, absent = name in points, name not in chosen
            if absent:
                chosen[name] = v4.new_code_cell(source)
                after = [i for i, cell in enumerate(nb.cells) if f"{cell.id}-check" == name]
                nb.cells.insert(after[0] + 1 if after else len(nb.cells), chosen[name])
            cell = chosen[name]
            cell.id = name
            if graded:
                cell.source = source
            cell.metadata = NotebookNode(
                deletable=False,
                **({"not_in_the_file": True} if absent else {}),
                nbgrader=NotebookNode(
                    grade=graded,
                    solution=name in solutions,
                    locked=graded,
                    task=False,
                    grade_id=name,
                    schema_version=3,
                    cell_type="code",
                    checksum=checksum,
                    **({"points": points[name]} if graded else {}),
                ),
            )
        return nb, resources

    def _chosen(self, nb: NotebookNode, names: dict) -> dict[str, NotebookNode]:
        """grade_id -> the cell that stands for it, by submission's rule. One that is both answer and check becomes two."""
        read, cells = current_submission.read(self.config, names), list(nb.cells)
        chosen: dict[str, NotebookNode] = {}
        for cell in read.cells:
            if cell.kind == "code":
                chosen.setdefault(cell.grade_id, cells[cell.number - 1])
        for exercise in exercises(names["assignment"]).values():
            with contextlib.suppress(submission.Problem):  # the verdict says what is wrong
                chosen[exercise.grade_id] = answer = cells[read.solution(exercise).number - 1]
                if answer is chosen.get(exercise.check_id):
                    chosen[exercise.grade_id] = v4.new_code_cell(answer.source)
                    nb.cells.insert(nb.cells.index(answer), chosen[exercise.grade_id])
        return chosen
