"""The data that operations of a module work on: the programs that run together, the parts of a function, and what a launch shares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from tritontrace.tracing.accesses import Accesses
from tritontrace.tracing.arithmetic import Arithmetic
from tritontrace.tracing.dataflow import Dataflow
from tritontrace.tracing.divergence import Registers
from tritontrace.tracing.turns import Turns
from tritontrace.tracing.work import Work
from tritontrace.ttir import ir
from tritontrace.ttir.hints import Promises
from tritontrace.ttir.launching import FlopKind, Grid, Site

Step = Callable[[Registers, Any], None]  # with Programs; in Gluon with a Partition

# floating-point operations: of which function, line and text of it, and their kind
FlopKey = tuple[str, int, str, FlopKind]


class Launched(NamedTuple):
    """State that all programs of a launch share."""

    grid: Grid
    memory: Accesses
    flops: Counter[FlopKey]
    watch: Callable[[str, Site, np.ndarray, np.ndarray], None]  # name, place, programs, values
    say: Callable[[str], None]
    turns: Turns  # where a program gives its turn away
    promises: Promises  # those that were not kept
    work: Work


@dataclass
class Programs:
    """The programs that are evaluated together. numbers: in start order, x fastest."""

    numbers: np.ndarray
    launched: Launched

    def __len__(self) -> int:
        return self.numbers.size

    @cached_property
    def index(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return tl.program_id(0), (1), (2): (programs,) each."""
        columns, rows, _ = self.launched.grid
        across = self.numbers % columns, self.numbers // columns % rows, self.numbers // (columns * rows)
        x, y, z = (axis.astype(np.int32) for axis in across)
        return x, y, z

    def some(self, which: np.ndarray) -> Programs:
        return Programs(self.numbers[which], self.launched)

    def many_of_the_first(self, count: int) -> Programs:
        """Replicate the first program `count` times, to call a combine function on the elements of a block as if each were a program's. Its
        FLOPs are not counted: the reduction that calls it is."""
        return Programs(np.repeat(self.numbers[:1], count), self.launched._replace(flops=Counter()))


@dataclass
class Region:
    """The body of a loop, a branch or a reduction. outside: registers that it reads and does not set."""

    arguments: list[int]
    steps: list[Step]
    values: list[int]
    outside: list[int]
    cost: tuple[int, int]

    def run(self, registers: Registers, programs: Programs, passed: Iterable = ()) -> list:
        for register, value in zip(self.arguments, passed, strict=True):
            registers[register] = value
        programs.launched.work.spend(self.cost, len(programs))
        for step in self.steps:
            step(registers, programs)
        return [registers[i] for i in self.values]


class ModuleCode(Protocol):
    """Interface of a module's code that an operation may use: evaluate.Code. waits: programs may wait for one another."""

    module: ir.Module
    waits: bool
    arithmetic: Arithmetic


class Body(Protocol):
    """The facts that an operation may ask of the function that it stands in: evaluate.Body has it. flow: of its values."""

    flow: Dataflow

    @property
    def code(self) -> ModuleCode: ...

    def new(self, scope: dict[str, int], name: str, kind: ir.Type) -> int:
        """Allocate a register for a value, and return its number."""
        ...

    def region(self, region: list[ir.Block], scope: Mapping[str, int]) -> Region:
        """Compile a region of one block."""
        ...

    def called(self, callee: ir.Function, place: ir.Place) -> Callee:
        """Return a function that is called from a place in this one."""
        ...

    def type_of(self, name: str) -> ir.Type: ...

    def site(self, place: ir.Place) -> Site: ...

    def counted(self, place: ir.Place, kind: FlopKind | None) -> FlopKey | None: ...


class Callee(Protocol):
    """Interface of a function that can be run for programs."""

    def run(self, values: Sequence, programs: Programs) -> list: ...
