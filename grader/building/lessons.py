"""The units as pages: the instructors' notebooks, whose solutions and hints are folded and whose widgets move without a kernel."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import nbformat
from nbformat import NotebookNode, v4

from course_lib.exercise import Exercise
from course_lib.exercises.hints import hints_on
from grader import ROOT, exercises
from grader.building import covers, drawings, hosted, states
from grader.building.build import SET_UP
from grader.building.outputs import asks_for_progress
from grader.building.states import Moving

WIDGET = "application/vnd.jupyter.widget-view+json"
TO_PREDICT = re.compile(r"^\w+ = \.\.\.$", re.MULTILINE)


def drawn(units: Iterable[str], linked: Callable[[str], str]) -> dict[str, tuple[NotebookNode, list[Moving]]]:
    """Build each unit's page and its widgets. linked: a cell's text -> the same with links between pages."""
    notebooks = {unit: nbformat.read(ROOT / "solutions" / unit / f"{unit}.ipynb", as_version=4) for unit in units}
    cells = [cell for notebook in notebooks.values() for cell in notebook.cells if cell.cell_type == "code"]
    called = {found[0] for cell in cells if _moves(cell) and (found := states.CALL.search(cell.source))}
    saved = {(cell.source, words) for cell in cells if not _moves(cell) and (words := _picture(cell))}
    saved |= {(_cover(unit), "") for unit in notebooks}
    moving, still = ahead(called, saved)
    return {unit: page(unit, notebook, linked, moving, still) for unit, notebook in notebooks.items()}


def ahead(
    calls: Iterable[str], saved: Iterable[tuple[str, str]]
) -> tuple[dict[str, Moving | None], dict[tuple[str, str], str | None]]:
    """Draw (calls -> widgets, sources and words -> pictures) in as many processes as there are cores."""
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:  # a process that has run torch must not fork
        widgets = {call: pool.submit(states.moving, call) for call in calls}
        pictures = {each: pool.submit(drawings.drawing, *each) for each in saved}
        return (
            {call: widget.result() for call, widget in widgets.items()},
            {each: picture.result() for each, picture in pictures.items()},
        )


def page(
    unit: str,
    notebook: NotebookNode,
    linked: Callable[[str], str],
    moving: dict[str, Moving | None],
    still: dict[tuple[str, str], str | None],
) -> tuple[NotebookNode, list[Moving]]:
    """Return the notebook as a page, and the widgets on it. moving: calls -> widgets; still: sources and words of cells -> pictures."""
    by_cell = {exercise.grade_id: exercise for exercise in exercises(unit).values()}
    cells, widgets = [], []
    for cell in notebook.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        exercise = by_cell.get(name)
        cell.metadata = {}
        if cell.cell_type == "markdown":
            cell.source = linked(cell.source)
            if cell is notebook.cells[0]:
                cell.source = covers.covered(cell.source, unit, by_cell.values(), still.get((_cover(unit), "")) or "")
                cell.pop("attachments", None)
        elif exercise:
            cells += [hints(exercise)] * bool(hints_on(exercise.id))
            cell.metadata = {
                "tags": ["exercise", "hide-input"],
                "mystnb": {"code_prompt_show": f"Show a solution of {exercise.entry}"},
            }
        elif SET_UP.match(cell.source):
            cell.metadata = {"tags": ["hide-input"], "mystnb": {"code_prompt_show": "Show what is imported"}}
        else:
            cell.metadata = {
                "tags": ["check" if name else "prediction" if TO_PREDICT.search(cell.source) else "demonstration"]
            }
        if cell.cell_type == "code":
            found = states.CALL.search(cell.source) if _moves(cell) else None
            widget = moving.get(found[0]) if found else None
            picture = widget.page if widget else still.get((cell.source, _picture(cell)))
            if widget:
                widgets.append(widget)
            cell.outputs = [
                output
                for output in cell.outputs
                if not (_clutter(output) or (picture and "image/png" in output.get("data", {})))
            ]
            if picture:
                cell.outputs.append(v4.new_output("display_data", {"text/html": picture}))
            if asks_for_progress(cell):  # the table is that of whoever built the notebook
                cell.outputs = [output for output in cell.outputs if output.output_type == "stream"]
        cells.append(cell)
    notebook.cells = cells
    notebook.metadata.pop("widgets", None)
    return notebook, widgets


def _cover(unit: str) -> str:
    return f"figures.{covers.COVERS[unit].picture}()"


def _moves(cell: NotebookNode) -> bool:
    return any(WIDGET in output.get("data", {}) for output in cell.outputs)


def _picture(cell: NotebookNode) -> str:
    """The words of the picture that a cell shows; "" for none, and for one of times that another machine has not."""
    data = [output.get("data", {}) for output in cell.outputs]
    words = [each["text/plain"] for each in data if "image/png" in each and "text/plain" in each]
    return words[-1] if words and not drawings.timed(cell) else ""


def _clutter(output: NotebookNode) -> bool:
    """Whether an output is a widget that no page can show, or warnings, which concern who ran the cell."""
    return WIDGET in output.get("data", {}) or (output.output_type == "stream" and output.name == "stderr")


def to_work_in(unit: str, address: str) -> NotebookNode:
    """Return the cell that links from a unit's page to the notebook to work in."""
    colab, file = hosted.on_colab(unit, address), f"{hosted.FOLDER}/{unit}.ipynb"
    opened = f"[Open the exercises on Google Colab]({colab}), or" if colab else "For Colab or Kaggle,"
    return v4.new_markdown_cell(
        f'{opened} <a href="{file}" download>download their notebook</a>. Its first code cell installs the course.'
    )


def hints(exercise: Exercise) -> NotebookNode:
    """Return a cell with the hints of an exercise, each folded."""
    folded = [
        f"<details><summary>Hint {i} for {exercise.entry}</summary>\n\n{hint}\n\n</details>\n"
        for i, hint in enumerate(hints_on(exercise.id), start=1)
    ]
    return v4.new_markdown_cell("\n".join(folded))
