"""The pictures of a unit's page as drawings, which follow the page's theme; notebooks keep bitmaps.

A cell's picture is drawn anew where that takes no more than its source, and kept only if its words are those of the saved one: a picture
that was made on a GPU, or of what a student wrote, stays the bitmap that it is.
"""

from __future__ import annotations

import ast
import re
from typing import Any

from course_lib import figures
from grader.building.states import as_in_a_live_notebook
from tritontrace.picture import Picture

GUESS = re.compile(r"\bguess_\w+")  # what a reader predicts, and nobody has filled in


def drawing(source: str, words: str) -> str | None:
    """The picture that a cell ends with, as HTML; None if it takes more than the source, or has other words. words: the saved
    picture's text, "" for any."""
    try:
        *_, last = ast.parse(source).body
    except (SyntaxError, ValueError):
        return None
    if not isinstance(last, ast.Expr) or not ast.unparse(last).startswith("figures."):
        return None
    names: dict[str, Any] = dict.fromkeys(GUESS.findall(source), ...) | {"figures": figures, "__builtins__": {}}
    with as_in_a_live_notebook():
        try:
            picture = eval(ast.unparse(last), names)
        except Exception:  # the cell has names from other cells
            return None
        return picture.html() if isinstance(picture, Picture) and words in ("", repr(picture)) else None
