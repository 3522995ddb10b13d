"""The report of what came to light of launches in several orders, as people see it: text, HTML and a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tritontrace.hopper import show
from tritontrace.hopper.outcome import Outcome

if TYPE_CHECKING:
    from tritontrace.picture import Picture


class Report(Outcome):
    """The result of `simulate`: an Outcome, with views of it.

    >>> right.right, right.fault, right.counts.barriers, right.shared_bytes, right.instructions["TMA load"]
    (True, None, 1, 264, 1)
    >>> right.trace.stores.bytes  # what it did to global memory
    256
    >>> print(wrong)
    Mistakes in 6 of 6 orders
    read before it is there (lazy, timed, eager, random:0, random:1, random:2): ...
    """

    def timeline(self, program: int = 0) -> Picture:
        """Draw the timeline of one program, by the model in timeline.py. Raises ValueError without the execution order "timed"."""
        from tritontrace.hopper import draw  # matplotlib takes a while

        return draw.timeline(self, program)

    def __str__(self) -> str:
        return show.text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return show.html(self)
