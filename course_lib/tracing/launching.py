"""What surrounds a traced launch: who is told, its errors, its arguments, its grid, the order of its programs."""

from __future__ import annotations

import difflib
import inspect
import os
import random
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import torch
import triton
from triton.tools.tensor_descriptor import TensorDescriptor

from course_lib.exercise import Fault
from course_lib.tracing.rewrite import Source

Op = Literal["load", "store", "atomic"]
FlopKind = Literal["dot", "float", "special", "reduction"]  # the fields of Flops
Grid = tuple[int, int, int]
Order = None | Literal["shuffled"] | Callable[[int], Sequence[int]]

TRITON_FOLDER = os.path.dirname(triton.__file__) + os.sep
_NOT_THE_READERS = (TRITON_FOLDER, os.path.dirname(os.path.dirname(__file__)) + os.sep, f"{os.sep}IPython{os.sep}")


class Watcher(Protocol):
    """Who is told. Tensors come by parameter name; addresses are those that `begin_launch` gave out."""

    def begin_launch(self, source: Source, grid: Grid, tensors: dict[str, torch.Tensor]) -> None: ...

    def address(self, tensor: torch.Tensor) -> int: ...

    def begin_program(self, program: int, index: Grid) -> None: ...

    def access(self, op: Op, addresses: np.ndarray, mask: np.ndarray, itemsize: int) -> None: ...

    def synchronised(self, addresses: np.ndarray) -> None: ...

    def computed(self, kind: FlopKind, operations: int) -> None: ...

    def poisoned_load(self) -> None: ...

    def end_launch(self, completed: bool) -> None: ...


# ----------------------------------------------------------------------------------------------------- errors


class _Sentence(RuntimeError):
    """An error that says all there is to say: the way to it through Triton and this package explains nothing."""

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows instead of the traceback: the reader's own lines, then the sentence. Called by IPython."""
        frames = traceback.extract_tb(self.__traceback__)
        own = [frame for frame in frames if not any(folder in frame.filename for folder in _NOT_THE_READERS)]
        places = [f"line {frame.lineno} in {frame.name}: {frame.line}" for frame in own if frame.line]
        return [*places, f"{type(self).__name__}: {self}"]


class KernelFault(_Sentence):
    """The kernel did what would crash a GPU, and was stopped before. `fault` says what and where."""

    def __init__(self, fault: Fault):
        super().__init__(fault.sentence)
        self.fault = fault


class KernelError(_Sentence):
    """A kernel could not be launched, or Python raised an error in it: one sentence with the line."""


@dataclass(frozen=True)
class Site:
    """A place in a kernel. `line` counts from its `def`; `inner` names the place in a helper that it called, if any."""

    kernel: str
    line: int
    source: str
    inner: str = ""

    def __str__(self) -> str:
        return f"kernel `{self.kernel}`, line {self.line}: `{self.source}`{self.inner}"


# ----------------------------------------------------------------------------------------------------- arguments


def bind(function: Callable, args: tuple, options: dict[str, Any], launch_options: set[str]) -> dict[str, Any]:
    """The kernel's arguments by name, defaults included. KernelError if they do not fit its parameters.

    launch_options   keywords that are not for the kernel: num_warps and the like
    """
    name, signature = function.__name__, inspect.signature(function)
    known = {n: v for n, v in options.items() if n in signature.parameters}
    for extra in options.keys() - known.keys() - launch_options:
        near = difflib.get_close_matches(extra, signature.parameters, n=1)
        guess = f" Did you mean `{near[0]}`?" if near else ""
        raise KernelError(f"kernel `{name}` has no parameter `{extra}`.{guess}")
    try:
        bound = signature.bind(*args, **known)
    except TypeError as error:
        raise KernelError(f"kernel `{name}` was launched with the wrong arguments: {error}.") from None
    bound.apply_defaults()
    return bound.arguments


def tensors_in(name: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors that a kernel reaches through one argument, each with a name."""
    if isinstance(value, tuple):
        for i, part in enumerate(value):
            yield from tensors_in(f"{name}[{i}]", part)
    elif isinstance(value, TensorDescriptor):
        yield name, plain(value.base)
    elif hasattr(value, "data_ptr"):
        yield name, plain(value)


def plain(tensor: Any) -> torch.Tensor:
    """Without the wrapper of triton.reinterpret."""
    return getattr(tensor, "base", tensor) if not isinstance(tensor, torch.Tensor) else tensor


@dataclass
class Placed:
    """A tensor in the arena, as far as Triton asks: a dtype and an address."""

    dtype: torch.dtype
    address: int

    def data_ptr(self) -> int:
        return self.address


# ----------------------------------------------------------------------------------------------------- programs


def grid_of(name: str, grid: Any, arguments: dict[str, Any]) -> Grid:
    """The three numbers of programs that a launch of kernel `name` asks for. KernelError if they are not."""
    grid = grid(arguments) if callable(grid) else grid
    if not isinstance(grid, (tuple, list)) or not 1 <= len(grid) <= 3:
        raise KernelError(
            f"kernel `{name}`: the grid is {grid!r}, expected a tuple of one to three numbers of programs."
        )
    sizes = [getattr(size, "value", size) for size in grid]
    for size in sizes:
        if not hasattr(size, "__index__") or size < 0:
            raise KernelError(
                f"kernel `{name}`: the grid {tuple(grid)} holds {size!r}, expected whole numbers. triton.cdiv?"
            )
    return tuple([int(size) for size in sizes] + [1, 1])[:3]


def programs_of(grid: Grid, order: Order) -> Iterator[tuple[int, Grid]]:
    """Each program's number and its index in the grid, in the order of execution. A GPU starts them x fastest."""
    columns, rows, layers = grid
    for program in _ordered(columns * rows * layers, order):
        yield program, (program % columns, program // columns % rows, program // (columns * rows))


def _ordered(programs: int, order: Order) -> Sequence[int]:
    if order is None:
        return range(programs)
    if order == "shuffled":
        return random.Random(0).sample(range(programs), programs)
    permutation = [int(program) for program in order(programs)]
    if sorted(permutation) != list(range(programs)):
        raise ValueError(f"order({programs}) must return each of 0 to {programs - 1} once.")
    return permutation
