"""A Diff: what changed between two traces, with its views."""

from __future__ import annotations

from tritontrace.diffs import show
from tritontrace.diffs.data import Changes


class Diff(Changes):
    """The result of `diff`: Changes, with views as a table, as Markdown and in a notebook."""

    def table(self) -> str:
        """Render one row for each line whose traffic changed, with other changes below."""
        return show.table(self)

    def markdown(self) -> str:
        """Render the table for a pull request."""
        return show.markdown(self)

    __str__ = __repr__ = table

    def _repr_html_(self) -> str:
        return show.html(self)
