"""Values that a variable of a kernel takes in one program, one after another, for learners who want to look into a kernel."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tritontrace.ttir.launching import Grid


class Value(NamedTuple):
    """One value assigned to a watched variable: the line, and its elements."""

    line: int
    source: str
    block: np.ndarray


class Watched(list[Value]):
    """The values of one variable in one program, in order; it displays each with its line."""

    def __init__(self, variable: str, program: int | tuple[int, ...]):
        super().__init__()
        self.variable, self.program = variable, program

    def __repr__(self) -> str:
        if not self:
            return f"`{self.variable}` was given no value in program {self.program}: is that a variable of a kernel that ran?"
        return "\n".join(
            f"line {value.line}: `{value.source}`  {self.variable} {list(value.block.shape)} =\n{value.block}"
            for value in self
        )


def program_number(program: int | tuple[int, ...], grid: Grid) -> int:
    """Convert a program's index in the grid to its number in start order, x fastest."""
    index = (program,) if isinstance(program, int) else tuple(program)
    x, y, z = (*index, 0, 0)[:3]
    return x + grid[0] * (y + grid[1] * z)
