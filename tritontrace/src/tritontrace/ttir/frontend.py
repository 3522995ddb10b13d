"""A kernel and its arguments -> the module that Triton's front end makes of them, once for each specialisation.

The kernel's Python is never run: Triton's code generator reads it, as for a GPU. What it wrote is what is evaluated, and
whoever compiles the kernel further compiles this text; there is no second way to ask what the kernel means.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import BaseBackend, GPUTarget
from triton.backends.nvidia.compiler import CUDAOptions
from triton.runtime.jit import JITFunction, mangle_type, native_specialize_impl

from tritontrace.messages import MessageError, say
from tritontrace.ttir import ir, printed
from tritontrace.ttir.launching import is_descriptor
from tritontrace.ttir.parse import parse
from tritontrace.ttir.sources import Source, compiled_language, functions_of, source_of

TARGET = GPUTarget("cuda", 90, 32)  # whose front end accepts Hopper's instructions, too
LAUNCH_OPTIONS = set(CUDAOptions.__dataclass_fields__) | {"device", "stream"}  # not parameters of the kernel
OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")  # those of them that shape the code
TF32_DOT = re.compile(r"tt\.dot [^\n]*inputPrecision = tf32 : tensor<[\dx]*xf32\b")
ALIGNED = 16  # bytes, or a number's divisor: what a launch looks for and the compiler makes use of


class NotAnArgument(MessageError, ValueError):
    """Raised for arguments that do not fit the kernel, with the reason and without a full stop."""


@dataclass(frozen=True, eq=False)
class Front:
    """A kernel's TTIR, as Triton's front end wrote it for one set of argument types and constants.

    text        TTIR as printed, with places
    values      names of the parameters whose values are passed at a launch, in order: the others are constants
    options     of the launch, those that shape the code
    sources     the kernel's text first, then those of the functions that it calls
    """

    kernel: JITFunction
    text: str
    values: tuple[str, ...]
    options: dict[str, Any]
    sources: tuple[Source, ...]

    @cached_property
    def module(self) -> ir.Module:
        return parse(self.text)

    @cached_property
    def tf32(self) -> bool:
        """Whether some product reads blocks of float32 as TF32."""
        return TF32_DOT.search(self.text) is not None

    @property
    def entry(self) -> ir.Function:
        return next(function for function in self.module.values() if function.public)

    @property
    def warps(self) -> int:
        """Return the number of warps of each program."""
        return self.options.get("num_warps", CUDAOptions.num_warps)

    def aligned(self, arguments: dict[str, Any]) -> str:
        """Return the text with a launch's knowledge of its arguments: which are multiples of 16. The compiler makes its loads and stores as
        wide as that allows."""
        as_they_come = {p.name for p in self.kernel.params if p.do_not_specialize or p.do_not_specialize_on_alignment}
        notes: list[str] = []
        for name, value in flat_values(self, arguments):
            known = name not in as_they_come and _is_aligned(value)
            notes.append(f" {{tt.divisibility = {ALIGNED} : i32}}" if known else "")
            if is_descriptor(value):  # its sizes and strides are arguments of their own
                notes += [""] * (2 * len(value.shape))
        head, found, rest = self.text.partition("  tt.func public ")
        line, newline, rest = rest.partition("\n")
        note = iter(notes)
        line = re.sub(r"(%[\w$.-]+: .*?)( loc\()", lambda argument: argument[1] + next(note) + argument[2], line)
        return head + found + line + newline + rest


def specialise(kernel: JITFunction, arguments: dict[str, Any]) -> tuple[dict[str, str], dict[Any, Any]]:
    """Return the types of the arguments by name, and the constants among them: as for a launch, 1 is one. Raises NotAnArgument."""
    signature, constants = {}, {}
    for parameter in kernel.params:
        name, value = parameter.name, arguments[parameter.name]
        value = value.value if isinstance(value, tl.constexpr) else value
        special = not (parameter.do_not_specialize or parameter.annotation_type)
        if parameter.is_constexpr or value is None or (special and _is_one(value)):
            signature[name], constants[name] = "constexpr", value
            continue
        try:
            signature[name] = parameter.annotation_type or _type_of(value, parameter.is_const)
        except OverflowError:
            raise NotAnArgument(say("launch.argument.too_large", name=name, value=str(value))) from None
        except Exception:  # of several kinds, all of them saying that there is no such type
            raise NotAnArgument(say("launch.argument.no_type", name=name, type=type(value).__name__)) from None
        if signature[name] == "constexpr":  # a kernel or a dtype is one, whatever the parameter says
            constants[name] = value
        if isinstance(value, tuple):
            kinds = dict(_parts(signature[name]))
            constants |= {(parameter.num, *at): part for at, part in _parts(value) if kinds[at] == "constexpr"}
    return signature, constants


def front_of(kernel: JITFunction, arguments: dict[str, Any], options: dict[str, Any]) -> Front:
    """Return the Front of a launch, cached for each kernel, set of types, constants and options.

    Raises NotAnArgument, and what Triton's front end raises (CompilationError or another error) if it refuses the kernel.
    """
    signature, constants = specialise(kernel, arguments)
    if kernel.hash is None:
        _look_at(functions_of(kernel))
    options = {name: options[name] for name in OPTIONS if options.get(name) is not None}
    key = (
        _Same(kernel),
        tuple((name, str(kind)) for name, kind in signature.items()),
        tuple((name, _hashable(value)) for name, value in constants.items()),
        tuple(options.items()),
        tuple(_dependencies(kernel)),
    )
    if key not in _fronts:
        called = functions_of(kernel, constants.values())
        _look_at(called)
        with compiled_language(), _asking(kernel):
            text = printed.make_module(kernel, signature, constants, {}, options, TARGET)
        values = tuple(name for name, kind in signature.items() if kind != "constexpr")
        if len(_fronts) >= MOST:
            _fronts.clear()
        _fronts[key] = Front(kernel, text, values, options, tuple(map(source_of, called)))
    return _fronts[key]


MOST = 500  # modules that are remembered: a notebook's cells define kernels again and again
_fronts: dict[Hashable, Front] = {}
_asked: list[JITFunction] = []  # what the front end reads now


class _NoGpu:
    """A stand-in for the GPU that Triton asks for while the front end reads a kernel. A launch would ask for more."""

    def get_current_target(self) -> GPUTarget:
        return TARGET

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"0 active drivers: `{name}` is asked while a kernel is read")


@contextmanager
def _asking(kernel: JITFunction) -> Iterator[None]:
    """Tell a kernel that asks for its GPU (tl.target_info), while this is open, that it is TARGET, whatever this machine has."""
    before = dict(vars(triton.runtime.driver))
    stand_in: Any = _NoGpu()
    triton.runtime.driver.set_active(stand_in)
    _asked.append(kernel)
    try:
        yield
    finally:
        _asked.pop()
        vars(triton.runtime.driver).clear()
        vars(triton.runtime.driver).update(before)


def being_read() -> bool:
    """Whether the front end is compiling a kernel now. What launches another one then is a kernel itself."""
    return bool(_asked)


def _look_at(functions: Sequence[JITFunction]) -> None:
    """Make Triton look at what the functions use, as a launch does first. Raises RuntimeError if that is not Triton's."""
    try:
        for function in functions:
            _ = function.cache_key
    except Exception:
        for function in functions:
            if str(function.hash).startswith("recursion:"):
                function.hash = None  # Triton forgets to, and would let the same kernel pass the next time
        raise


def _dependencies(kernel: JITFunction) -> Iterator[Hashable]:
    """Everything that the names of a kernel and of the functions it calls stand for now: a notebook's cell may be run
    again with another helper."""
    seen, waiting = set(), [kernel]
    while waiting:
        function = waiting.pop().fn
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        scope = function.__globals__
        for value in (
            *(scope.get(name) for name in function.__code__.co_names),
            *(_content(cell) for _, cell in cells),
        ):
            if isinstance(value, tl.constexpr):
                yield _hashable(value.value)
            elif isinstance(value, (int, float, str)):
                yield _hashable(value)
            elif isinstance(value, tl.dtype) or (callable(value) and not isinstance(value, JITFunction)):
                yield _Same(value)
            elif isinstance(value, JITFunction) and id(value) not in seen:
                seen.add(id(value))
                waiting.append(value)
                yield _Same(value)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


@dataclass(frozen=True)
class _Same:
    """A key that equals only the very same object, which it keeps alive."""

    value: Any

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value


def _hashable(value: Any) -> Hashable:
    """A key of a constant: 1, 1.0 and True are three, -0.0 and 0.0 two."""
    if isinstance(value, (tuple, list)):
        return tuple(map(_hashable, value))
    if isinstance(value, JITFunction):
        return _Same(value), tuple(_dependencies(value))
    try:
        hash(value)
    except TypeError:
        return _Same(value)
    return type(value), value, repr(value) if isinstance(value, float) else ""


def _parts(value: Sequence[Any], at: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Any]]:
    """The numbers and tensors in nested tuples, each with its indices."""
    for i, part in enumerate(value):
        if isinstance(part, tuple):
            yield from _parts(part, (*at, i))
        else:
            yield (*at, i), part


Place = tuple[str, tuple[int, ...]]
"""A parameter, and the indices of a part of the tuple that it is."""


def flat_places(front: Front, arguments: dict[str, Any]) -> Iterator[tuple[Place, Any]]:
    """Yield (place, value) of all that is passed at a launch, in the order of the kernel's parameters in the module: tuples part by part,
    without the constants in them."""
    for name in front.values:
        value = arguments[name]
        if isinstance(value, tuple):
            kinds = dict(_parts(_type_of(value)))
            yield from (((name, at), part) for at, part in _parts(value) if kinds[at] != "constexpr")
        else:
            yield (name, ()), value


def flat_values(front: Front, arguments: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield (name, value) of all that is passed at a launch, in this order."""
    return ((name, value) for (name, _), value in flat_places(front, arguments))


def _type_of(value: Any, const: bool = False) -> Any:
    """The type of an argument as a launch finds it, in Triton's words; of a tuple one for each part. const: it is not stored to."""
    return native_specialize_impl(BaseBackend, value, const, False, True)[0] if const else mangle_type(value)


def _is_one(value: Any) -> bool:
    return type(value) is int and value == 1


def _is_aligned(value: Any) -> bool:
    if is_descriptor(value):
        return False
    aligned = value.data_ptr() if hasattr(value, "data_ptr") else value
    return type(aligned) is int and aligned % ALIGNED == 0
