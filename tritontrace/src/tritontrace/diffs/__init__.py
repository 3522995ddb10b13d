"""Two traces beside one another: which line of a kernel moves more than before.

diff(before, after)                 of two traces, in a notebook or a test
tritontrace diff OLD NEW            of two scripts, or of what `tritontrace --format json` has written

compare.py     two reports as data -> a Diff;  statements.py  which statement of a kernel is which one of the other
data.py        what changed: kernels, their lines, faults, before and after;  diff.py  that with its views
show.py        it as a table, as Markdown and as HTML
command.py     the command
"""

from __future__ import annotations

from tritontrace.diffs.compare import compare
from tritontrace.diffs.diff import Diff
from tritontrace.tracing.recorded import Recorded
from tritontrace.tracing.saved import as_data


def diff(before: Recorded, after: Recorded) -> Diff:
    """Compare two traces: bytes, sectors, re-reads, FLOPs and faults, line by line.

    The Diff prints as a table; `.markdown()`, HTML in a notebook and `.to_dict()` say the same. `.exceeded(1.4)` has each count that
    grew to more than 1.4 times what it was.

    >>> with trace() as before:
    ...     _ = copy[(4,)](x, y, 1000, BLOCK=256)
    >>> with trace() as after:
    ...     _ = copy[(4,)](x, y, 500, BLOCK=256)
    >>> changed = diff(before, after)
    >>> changed.bytes, changed.equal, changed.exceeded(1.0)
    ((8000, 4000), False, [])
    >>> print(changed)
    before → after
      line ...
    """
    return compare(as_data(before), as_data(after))
