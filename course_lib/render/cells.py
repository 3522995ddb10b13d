"""Output of a cell: HTML with the text beside it where there is a notebook, the text alone elsewhere."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from course_lib.render.drawings import code

VERDICT = "application/vnd.strides.verdict"
"""The type of a verdict as data in an output, a line of JSON, from which a build draws it anew."""
KEEP_VERDICTS = "COURSE_KEEP_VERDICTS"  # set where a build runs cells: outputs keep their verdicts as data, and show nobody's own times


@contextmanager
def shown_to_everybody() -> Iterator[None]:
    """Render outputs as for a build, without a person's data, while the block runs."""
    before = os.environ.get(KEEP_VERDICTS)
    os.environ[KEEP_VERDICTS] = "1"
    try:
        yield
    finally:
        os.environ.pop(KEEP_VERDICTS) if before is None else None


def shell() -> Any:
    """Return IPython's shell in a notebook, else None."""
    ipython = sys.modules.get("IPython")
    found = ipython.get_ipython() if ipython else None
    return found if hasattr(found, "kernel") else None


def show(text: str, html: str, tree: str = "", metadata: dict[str, Any] | None = None) -> None:
    """Display text or HTML now. tree: a verdict as data, to be kept with it;  metadata = of the output"""
    if shell() is None:
        print(text)
        return
    from IPython.display import display

    data = {"text/plain": text, "text/html": html} | ({VERDICT: tree} if tree else {})
    if metadata:
        display(data, raw=True, metadata=metadata)
    else:
        display(data, raw=True)


class Points(float):
    """The points that a check returns, which display as its verdict.

    As the value of a cell they are one output, which is the verdict. Its text is the number where nbgrader runs the cell,
    since nbgrader scores a cell by that. Where a cell goes on after the check, the verdict is shown when the cell ends,
    or before the next one.
    """

    text: str
    html: str
    tree: str
    _waiting: Points | None = None  # the last ones in a notebook, until they are shown

    def __new__(cls, points: float, text: str, html: str, tree: str = "") -> Points:
        made = super().__new__(cls, points)
        made.text, made.html, made.tree = text, html, tree
        return made

    def display_result(self) -> Points:
        """Return these points, to be shown as the value of the cell; print the verdict where there is no notebook."""
        Points._show_the_last()
        notebook = shell()
        if notebook is None:
            print(self.text)
            return self
        if Points._show_the_last not in notebook.events.callbacks["post_execute"]:
            notebook.events.register("post_execute", Points._show_the_last)
            # IPython has a printer for numbers, and asks it before _repr_mimebundle_
            notebook.display_formatter.formatters["text/plain"].for_type(
                Points, lambda points, to, _: to.text(points.plain())
            )
        Points._waiting = self
        return self

    @staticmethod
    def _show_the_last() -> None:
        waiting, Points._waiting = Points._waiting, None
        if waiting is not None:
            show(waiting.text, waiting.html, waiting.tree)

    def __reduce__(self) -> tuple:
        return float, (float(self),)

    def __repr__(self) -> str:
        return f"{float(self):g}"

    __str__ = __repr__

    def plain(self) -> str:
        """Return the verdict as text; the number alone where nbgrader runs the cell to score it."""
        return repr(self) if "NBGRADER_EXECUTION" in os.environ else self.text

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """The verdict as HTML and as text, and as data where it is to be kept."""
        if Points._waiting is self:
            Points._waiting = None
        return {"text/plain": self.plain(), "text/html": self.html} | ({VERDICT: self.tree} if self.tree else {})


class Below:
    """A display handle below the value of the running cell, for results that come later. It shows nothing outside of a notebook."""

    def __init__(self, text: str) -> None:
        self._text, self._html, self._handle = text, code(text), None
        self._lock = threading.Lock()  # what is known may come before the cell has ended
        shell().events.register("post_execute", self._open)

    def _open(self) -> None:
        from IPython.display import display

        shell().events.unregister("post_execute", self._open)
        with self._lock:
            self._handle = display(self._shown(), raw=True, display_id=True)

    def show(self, text: str, html: str) -> None:
        """Replace the displayed content, from any thread, now or when the cell has ended."""
        with self._lock:
            self._text, self._html = text, html
            if self._handle:
                self._handle.update(self._shown(), raw=True)

    def _shown(self) -> dict[str, str]:
        return {"text/plain": self._text, "text/html": f"<div>{self._html}</div>"}
