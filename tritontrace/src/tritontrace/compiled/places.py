"""Places in a kernel, from lines as the compiler knows them: "line 3: `x = tl.load(x_ptr)`", numbered as Source.line says."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from triton.runtime.jit import JITFunction

from tritontrace.ttir.sources import Source, functions_of, source_of

Frame = tuple[str, int]  # a file, and a line in it


class Places:
    """Source places of a kernel and of every function of the author's that it calls; Triton's own are left out, as in a trace."""

    def __init__(self, kernel: JITFunction, arguments: dict[str, Any]):
        self.kernel = source_of(kernel)
        self._known: dict[str, tuple[str, Source]] = {}  # by text: the name of the file, and the source
        for function in functions_of(kernel, arguments.values()):
            source = source_of(function)
            if not source.library:
                file = os.path.basename(function.fn.__code__.co_filename)
                self._known.setdefault("".join(source.lines), (file, source))

    def of_lines(self, frames: Iterable[Frame]) -> str:
        """Return the place of frames, innermost call first, with files as PTX and Triton's intermediate code name them."""
        frames = list(frames)
        found = [self._find(os.path.basename(file), line, frames[-1] == (file, line)) for file, line in frames]
        return self._sentence([frame for frame in found if frame])

    def _find(self, file: str, line: int, outermost: bool) -> tuple[Source, int] | None:
        """The function that has this line, and the line of that function.

        Code from Triton's cache names the file of an earlier session, as each session names the files of its cells
        anew; the lines are the same. An unknown file is taken for such a one.
        """
        there = [(name, source) for name, source in self._known.values() if source.has(line)]
        named = [source for name, source in there if name == file]
        if not named and all(name != file for name, _ in self._known.values()):
            named = [source for _, source in there if source == self.kernel or not outermost]
            named = named if outermost or len(named) == 1 else []
        return (named[0], named[0].line(line)) if named else None

    def of_texts(self, frames: Iterable[tuple[str, int]]) -> str:
        """Return the place of frames, innermost call first, each the text of a function and a line of it."""
        found = [(self._known[text][1], line) for text, line in frames if text in self._known]
        return self._sentence([(source, source.line(source.first_line + line - 1)) for source, line in found])

    def of_text(self, part: str) -> str:
        """Return the first line of the kernel's body that contains `part`."""
        _, *lines = self.kernel.numbered()
        return next((self._sentence([(self.kernel, n)]) for n, text in lines if part in text), "")

    @staticmethod
    def line(place: str) -> int:
        """Return the number of a place: 3 for "line 3: ..."."""
        return int(place.split()[1].rstrip(":"))

    def _sentence(self, frames: Sequence[tuple[Source, int]]) -> str:
        """The line of the kernel, and of the innermost helper that it reaches; "" if the kernel is not among them."""
        kernel = next((line for source, line in reversed(frames) if source == self.kernel), None)
        if kernel is None:
            return ""
        helper = next(((source, line) for source, line in frames if source != self.kernel), None)
        inner = f", in `{helper[0].name}`, line {helper[1]}: `{helper[0].text(helper[1])}`" if helper else ""
        return f"line {kernel}: `{self.kernel.text(kernel)}`{inner}"
