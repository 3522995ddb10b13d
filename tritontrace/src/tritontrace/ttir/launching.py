"""The surroundings of a traced launch: who is told, its errors, its arguments, its grid, the order of its programs."""

from __future__ import annotations

import difflib
import inspect
import os
import random
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from triton.compiler.errors import CompilationError, CompileTimeAssertionFailure, UnsupportedLanguageConstruct
from triton.tools.tensor_descriptor import TensorDescriptor

from tritontrace.messages import Message, MessageError, say
from tritontrace.results import Fault, Hazard
from tritontrace.ttir.sources import TRITON_FOLDER

Op = Literal["load", "store", "atomic"]
FlopKind = Literal["dot", "float", "special", "reduction"]  # the fields of Flops
Grid = tuple[int, int, int]
Order = None | Literal["shuffled"] | Callable[[int], Sequence[int]]

# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", the same from 7.5 to 12.0
MOST_PROGRAMS_X, MOST_PROGRAMS_YZ = 2**31 - 1, 65_535
MOST_THREADS, WARP = 1024, 32  # of a program; of a warp

_NOT_THE_READERS = (TRITON_FOLDER, os.path.dirname(os.path.dirname(__file__)) + os.sep, f"{os.sep}IPython{os.sep}")


# ----------------------------------------------------------------------------------------------------- errors


class _Sentence(MessageError, RuntimeError):
    """An error that says all there is to say: the way to it through Triton and this package explains nothing."""

    def _render_traceback_(self) -> list[str]:
        """Lines that a notebook shows instead of the traceback: the reader's own lines, then the sentence. IPython calls this."""
        frames = traceback.extract_tb(self.__traceback__)
        own = [frame for frame in frames if not any(folder in frame.filename for folder in _NOT_THE_READERS)]
        places = [f"line {frame.lineno} in {frame.name}: {frame.line}" for frame in own if frame.line]
        return [*places, f"{type(self).__name__}: {self}"]


class KernelFault(_Sentence):
    """Raised where a kernel was stopped before an access that would crash a GPU. `fault` says what and where.

    >>> from tritontrace import KernelFault
    >>> with trace():
    ...     try:
    ...         copy[(4,)](x, torch.empty(900), 1000, BLOCK=256)
    ...     except KernelFault as stopped:
    ...         print(stopped.fault.kind, stopped.fault.line)
    out of bounds 4
    """

    def __init__(self, fault: Fault):
        super().__init__(fault.sentence)
        self.fault = fault


class KernelError(_Sentence):
    """Raised, with a message and its line, where a kernel cannot be launched, or cannot run here. `message` says it as data.

    >>> with trace():
    ...     _ = copy[(4,)](x, y, BLOCK=256)
    Traceback (most recent call last):
        ...
    tritontrace.ttir.launching.KernelError: kernel `copy`...
    """


class Uncompilable(KernelError, CompilationError):
    """Raised for a kernel that the compiler refuses, whatever the GPU. It is Triton's own error as well."""

    def __init__(self, sentence: Message, kernel: str):
        RuntimeError.__init__(self, sentence)
        self.kernel, self.src, self.node, self.error_message = kernel, None, None, sentence

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.kernel)


class AssertionRefused(Uncompilable, CompileTimeAssertionFailure):
    """Raised for a kernel whose static_assert fails."""


class ConstructRefused(Uncompilable, UnsupportedLanguageConstruct):
    """Raised for a kernel with Python that Triton does not support."""


def uncompilable(sentence: Message, kernel: str, error: BaseException | None) -> Uncompilable:
    """Return the exception for a refused kernel, derived from the class of error that Triton raised."""
    while error is not None:
        for triton_s, ours in (
            (CompileTimeAssertionFailure, AssertionRefused),
            (UnsupportedLanguageConstruct, ConstructRefused),
        ):
            if isinstance(error, triton_s):
                return ours(sentence, kernel)
        error = error.__cause__
    return Uncompilable(sentence, kernel)


class Hazardous(KernelError):
    """Raised where a Gluon launch has faults in some execution order; `hazards` has them, the most telling first."""

    def __init__(self, hazards: list[Hazard]):
        super().__init__(hazards[0].sentence)
        self.hazards = hazards


@dataclass(frozen=True)
class Site:
    """A place in a kernel. `line` is numbered as Source.line says; `inner` names the place in a helper that it called, if any."""

    kernel: str
    line: int
    source: str
    inner: str = ""

    def __str__(self) -> str:
        return f"kernel `{self.kernel}`, line {self.line}: `{self.source}`{self.inner}"


# ----------------------------------------------------------------------------------------------------- arguments


def bind(function: Callable, args: tuple, options: dict[str, Any], launch_options: set[str]) -> dict[str, Any]:
    """Bind the kernel's arguments by name, defaults included. Raises KernelError if they do not fit its parameters.

    launch_options   keywords that are not for the kernel: num_warps and the like
    """
    name, signature = function.__name__, inspect.signature(function)
    known = {n: v for n, v in options.items() if n in signature.parameters}
    for extra in options.keys() - known.keys() - launch_options:
        near = difflib.get_close_matches(extra, signature.parameters, n=1)
        guess = say("launch.arguments.near", near=near[0]) if near else ""
        raise KernelError(say("launch.arguments.unknown", kernel=name, parameter=extra, guess=guess))
    try:
        bound = signature.bind(*args, **known)
    except TypeError as error:
        raise KernelError(say("launch.arguments.wrong", kernel=name, reason=str(error))) from None
    bound.apply_defaults()
    return bound.arguments


def is_descriptor(value: Any) -> bool:
    """Whether it is a tensor descriptor: Triton's, or Gluon's, which is a class of its own and costs an import."""
    return isinstance(value, TensorDescriptor) or hasattr(value, "block_shape")


def tensors_in(name: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors that a kernel reaches through one argument, each with a name."""
    if isinstance(value, tuple):
        for i, part in enumerate(value):
            yield from tensors_in(f"{name}[{i}]", part)
    elif is_descriptor(value):
        yield name, plain(value.base)
    elif hasattr(value, "data_ptr"):
        yield name, plain(value)


def plain(value: Any) -> torch.Tensor:
    """Return the tensor that a pointer points into: itself, or that of an object with `data_ptr()`, such as triton.reinterpret makes.

    Raises KernelError if the object holds no such tensor.
    """
    if isinstance(value, torch.Tensor):
        return value
    address = value.data_ptr()
    for held in _held_by(value):
        start = held.untyped_storage().data_ptr()
        if start <= address < start + max(1, held.untyped_storage().nbytes()):
            return held
    raise KernelError(say("launch.arguments.no_tensor", type=type(value).__name__))


def offset_of(value: Any) -> int:
    """Return the bytes from the beginning of its storage to where a pointer points."""
    tensor = plain(value)
    if tensor is value:
        return int(tensor.storage_offset()) * tensor.element_size()
    return value.data_ptr() - tensor.untyped_storage().data_ptr()


def _held_by(value: Any, depth: int = 3) -> Iterator[torch.Tensor]:
    """The tensors among an object's attributes, and in the objects that it wraps."""
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    for held in (*getattr(value, "__dict__", {}).values(), *(getattr(value, name, None) for name in slots)):
        if isinstance(held, torch.Tensor):
            yield held
        elif depth and hasattr(held, "data_ptr"):
            yield from _held_by(held, depth - 1)


# ----------------------------------------------------------------------------------------------------- programs


def grid_of(name: str, grid: Any, arguments: dict[str, Any]) -> Grid:
    """Return the three numbers of programs of a launch's grid. Raises KernelError if it is malformed."""
    grid = grid(arguments) if callable(grid) else grid
    if not isinstance(grid, (tuple, list)) or not 1 <= len(grid) <= 3:
        raise KernelError(say("launch.grid.no_tuple", kernel=name, grid=repr(grid)))
    sizes = [getattr(size, "value", size) for size in grid]
    for size in sizes:
        if not hasattr(size, "__index__") or size < 0:
            raise KernelError(say("launch.grid.no_number", kernel=name, grid=str(tuple(grid)), size=repr(size)))
    x, y, z = tuple([int(size) for size in sizes] + [1, 1])[:3]
    for axis, size, most in (
        ("first", x, MOST_PROGRAMS_X),
        ("second", y, MOST_PROGRAMS_YZ),
        ("third", z, MOST_PROGRAMS_YZ),
    ):
        if size > most:
            raise KernelError(
                say("launch.grid.too_large", kernel=name, size=size, most=most, axis=say(f"launch.axis.{axis}"))
            )
    return x, y, z


def check_threads(name: str, options: dict[str, Any]) -> None:
    """Raise KernelError if a launch of kernel `name` has an invalid num_warps."""
    warps = options.get("num_warps")
    if warps is None:
        return
    if type(warps) is not int or warps < 1 or warps & (warps - 1):
        raise KernelError(say("launch.warps.no_power_of_2", kernel=name, warps=repr(warps)))
    if WARP * warps > MOST_THREADS:
        raise KernelError(
            say("launch.warps.too_many", kernel=name, warps=warps, threads=WARP * warps, most=MOST_THREADS)
        )


def positions(programs: int, order: Order) -> tuple[Sequence[int] | np.ndarray, np.ndarray | None]:
    """Return (the programs' numbers in the order of execution, the place of each in it). A GPU starts them x fastest; None: so do these."""
    if order is None:
        return range(programs), None
    if order == "shuffled":
        numbers = random.Random(0).sample(range(programs), programs)
    else:
        numbers = [int(program) for program in order(programs)]
        if sorted(numbers) != list(range(programs)):
            raise ValueError(say("launch.order.not_each_once", programs=programs, last=programs - 1))
    position = np.empty(programs, np.int64)
    position[numbers] = np.arange(programs)
    return np.array(numbers, np.int64), position
