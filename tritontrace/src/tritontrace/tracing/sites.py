"""Places of operations in the module -> places in the author's kernel, as sentences name them."""

from __future__ import annotations

import linecache
from collections.abc import Sequence

from tritontrace.ttir import ir
from tritontrace.ttir.launching import Site
from tritontrace.ttir.sources import TRITON_FOLDER, Source

Way = Sequence[
    tuple[ir.Function, ir.Place]
]  # from the kernel through calls: each function, and the place reached in it


class Sites:
    """Finds the source lines of TTIR operations. sources: the kernel's text first, then those of the functions that it calls."""

    def __init__(self, sources: Sequence[Source]):
        self._kernel = sources[0]
        self._helpers = {(source.file, source.first_line): source for source in sources}
        self._known: dict[tuple, Site] = {}

    def site(self, way: Way) -> Site:
        """Return the line of the kernel, and of the innermost helper of the author's that it called, if any."""
        key = tuple((function.name, place.line) for function, place in way)
        if key not in self._known:
            self._known[key] = self._site(way)
        return self._known[key]

    def _site(self, way: Way) -> Site:
        line = self._kernel.line(way[0][1].line) if way[0][1].line else self._kernel.shown_from
        own = [(function, place) for function, place in way[1:] if not is_library(function)]
        inner = ""
        if own:
            function, place = own[-1]
            name, number, text = self._in_helper(function, place)
            inner = f", in `{name}`, line {number}: `{text}`"
        return Site(self._kernel.name, line, self._kernel.text(line), inner)

    def frames(self, way: Way) -> list[tuple[str, int, str]]:
        """List the author's functions on the way, the kernel first: name, the number of the line, its text. One is left out if no line of
        it is known but its `def`, as where a partition begins."""
        helpers = [(function, place) for function, place in way[1:] if not is_library(function)]
        frames = [self._in_helper(*each) for each in helpers if each[1].line > each[0].place.line]
        line = self._kernel.line(way[0][1].line)
        return [(self._kernel.name, line, self._kernel.text(line))][: line > self._kernel.shown_from] + frames

    def called(self, function: ir.Function) -> str:
        """Return the name of a function in the source."""
        return self._in_helper(function, function.place)[0]

    def _in_helper(self, function: ir.Function, place: ir.Place) -> tuple[str, int, str]:
        source = self._helpers.get((function.place.file, function.place.line))
        if source is not None:
            return source.name, source.line(place.line), source.text(source.line(place.line))
        name = function.name.partition("__")[0].rpartition(".")[2]
        return name, place.line - function.place.line + 1, linecache.getline(place.file, place.line).strip()


def is_library(function: ir.Function) -> bool:
    """Whether a function is Triton's own, such as tl.sum."""
    return function.place.file.startswith(TRITON_FOLDER)
