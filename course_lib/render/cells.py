"""Output of a cell: HTML with the text beside it where there is a notebook, the text alone elsewhere."""

from __future__ import annotations

import sys
from typing import Any


def shell() -> Any:
    """IPython's shell, where this is a notebook; else None."""
    ipython = sys.modules.get("IPython")
    found = ipython.get_ipython() if ipython else None
    return found if hasattr(found, "kernel") else None


def show(text: str, html: str) -> None:
    """Show it now."""
    if shell() is None:
        print(text)
        return
    from IPython.display import display

    display({"text/plain": text, "text/html": html}, raw=True)


class Points(float):
    """The points that a check gives.

    As the value of a cell they are one output, which shows as the verdict and whose text is the number: by that text
    nbgrader scores a cell. Where a cell goes on after the check, the verdict is shown when the cell ends, or before the
    next one.
    """

    text: str
    html: str
    _waiting: Points | None = None  # the last ones in a notebook, until they are shown

    def __new__(cls, points: float, text: str, html: str) -> Points:
        made = super().__new__(cls, points)
        made.text, made.html = text, html
        return made

    def hand_over(self) -> Points:
        """Return these points, to be shown as the value of the cell; print the verdict where there is no notebook."""
        Points._show_the_last()
        notebook = shell()
        if notebook is None:
            print(self.text)
            return self
        if Points._show_the_last not in notebook.events.callbacks["post_execute"]:
            notebook.events.register("post_execute", Points._show_the_last)
        Points._waiting = self
        return self

    @staticmethod
    def _show_the_last() -> None:
        waiting, Points._waiting = Points._waiting, None
        if waiting is not None:
            show(waiting.text, waiting.html)

    def __reduce__(self) -> tuple:
        return float, (float(self),)

    def __repr__(self) -> str:
        return f"{float(self):g}"

    __str__ = __repr__

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """The verdict as HTML, and the number as text."""
        if Points._waiting is self:
            Points._waiting = None
        return {"text/plain": repr(self), "text/html": self.html}
