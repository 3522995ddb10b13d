"""The pictures of cells, drawn anew without running a notebook: as drawings that follow the theme of a unit's page, and as the bitmaps
that notebooks keep.

That works where a picture takes no more than its cell's source. One of what a student wrote, or that times what a reader guesses,
stays as it is.
"""

from __future__ import annotations

import ast
import re
from base64 import b64encode
from typing import Any

from nbformat import NotebookNode

from course_lib import figures
from course_lib.render import cells
from grader.building.states import as_in_a_live_notebook
from tritontrace.picture import Picture

GUESS = re.compile(r"\bguess_\w+")  # what a reader predicts, and nobody has filled in


def drawing(source: str, words: str) -> str | None:
    """Return the picture that a cell ends with, as HTML; None if its source alone does not make it, or its words differ. words: the saved
    picture's text, "" for any."""
    with as_in_a_live_notebook():
        picture = _drawn(source)
        return picture.html() if picture and words in ("", repr(picture)) else None


def renew(notebook: NotebookNode) -> None:
    """Redraw the bitmaps in a notebook's outputs whose cells' sources alone make them."""
    for cell in notebook.cells:
        bitmaps = [output.data for output in cell.get("outputs", []) if "image/png" in output.get("data", {})]
        if bitmaps and not timed(cell) and (picture := _drawn(cell.source)):
            bitmaps[-1]["image/png"] = b64encode(picture._repr_png_()).decode() + "\n"
            bitmaps[-1]["text/plain"] = repr(picture)
            for output in cell.outputs:
                if output.get("data") is bitmaps[-1]:
                    output.metadata["image/png"] = picture._repr_mimebundle_()[1]["image/png"]


def timed(cell: NotebookNode) -> bool:
    """Whether a cell needs a GPU to time what a reader guesses: another machine's picture would be of other times."""
    return cell.id.startswith("gpu-") and bool(GUESS.search(cell.source))


def _drawn(source: str) -> Picture | None:
    try:
        *_, last = ast.parse(source).body
    except (SyntaxError, ValueError):
        return None
    if not isinstance(last, ast.Expr) or not ast.unparse(last).startswith("figures."):
        return None
    names: dict[str, Any] = dict.fromkeys(GUESS.findall(source), ...) | {"figures": figures, "__builtins__": {}}
    try:
        with cells.shown_to_everybody():
            picture = eval(ast.unparse(last), names)
    except Exception:  # the cell has names from other cells
        return None
    return picture if isinstance(picture, Picture) else None
