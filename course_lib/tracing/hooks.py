"""Runs Triton kernels on Triton's own interpreter, in Python, and tells a watcher of every access before it happens.

The only file that touches Triton's internals. While an Interpreter is installed, `kernel[grid](...)` runs here instead
of on a GPU. The kernel object is untouched: the same `@triton.jit` function compiles before and after. TRITON_INTERPRET
need not be set; if it is, its kernels are run here too.
"""

from __future__ import annotations

import copy
import difflib
import inspect
import os
import random
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import torch
import triton
import triton.compiler.code_generator  # noqa: F401  it keeps references to parts of tl: it must see them unpatched
import triton.language as tl
import triton.runtime.interpreter as interpreter
from triton.backends.nvidia.compiler import CUDAOptions
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction
from triton.tools.tensor_descriptor import TensorDescriptor

from course_lib.exercise import Fault
from course_lib.tracing.rewrite import Source, rewrite

Op = Literal["load", "store", "atomic"]
FlopKind = Literal["dot", "float", "special", "reduction"]  # the fields of Flops
Order = None | Literal["shuffled"] | Callable[[int], Sequence[int]]

TRITON_FOLDER = os.path.dirname(triton.__file__) + os.sep
LAUNCH_OPTIONS = set(CUDAOptions.__dataclass_fields__) | {"device", "stream"}  # not parameters of the kernel
PATCHED = (tl, tl.core, tl.math, tl.tensor, tl.dtype, tl.core.tensor_descriptor_base)  # restored as they were
POISON_INTEGER = 0x5A5A5A5A5A5A5A5B  # cut to the width needed: large, odd, and nothing a student would expect
# A NaN that can be told from others: arithmetic keeps its payload, and these are one another's conversions.
POISON_NAN = {2: 0x7E58, 4: 0x7FCB0000, 8: 0x7FF9600000000000}  # bits, by itemsize
POISON_BF16 = 0x7FCB


class KernelFault(RuntimeError):
    """The kernel did what would crash a GPU, and was stopped before. `fault` says what and where."""

    def __init__(self, fault: Fault):
        super().__init__(fault.sentence)
        self.fault = fault


class KernelError(RuntimeError):
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


class Watcher(Protocol):
    """Who is told. Tensors come by parameter name; addresses are those that `begin_launch` gave out."""

    def begin_launch(self, source: Source, grid: tuple[int, int, int], tensors: dict[str, torch.Tensor]) -> None: ...

    def address(self, tensor: torch.Tensor) -> int: ...

    def begin_program(self, program: int, index: tuple[int, int, int]) -> None: ...

    def access(self, op: Op, addresses: np.ndarray, mask: np.ndarray, itemsize: int) -> None: ...

    def synchronised(self, addresses: np.ndarray) -> None: ...

    def computed(self, kind: FlopKind, operations: int) -> None: ...

    def poisoned_load(self) -> None: ...

    def end_launch(self, completed: bool) -> None: ...


class Interpreter:
    """`with interpreter.installed():` kernels run here; `where()` is the line that runs now."""

    def __init__(self, watcher: Watcher, order: Order = None):
        self._watcher = watcher
        self._order = order
        self._sources: dict[Any, Source] = {}  # by code object, of every function that ran
        self._functions: dict[Any, Callable] = {}
        self._kernel: Source | None = None

    # ------------------------------------------------------------------------------------------------- launching

    def launch(self, kernel: Any, args: tuple, options: dict[str, Any], grid: Any) -> None:
        if self._kernel is not None:
            raise KernelError(f"a kernel cannot launch another: call `{kernel.fn.__name__}` without a grid.")
        function = self._rewritten(kernel)
        source = self._sources[function.__code__]
        arguments = _bind(kernel, source.name, args, options)
        for hook in getattr(kernel, "pre_run_hooks", ()):
            hook(**arguments)
        grid = grid_of(source.name, grid, arguments)
        constexprs = {p.name for p in _jit_function(kernel).params if p.is_constexpr}
        tensors = {n: t for name, value in arguments.items() for n, t in _tensors(name, value)}
        outer, self._kernel = self._kernel, source
        self._watcher.begin_launch(source, grid, tensors)
        completed = False
        try:
            values = {n: _unwrap(v) if n in constexprs else self._convert(v) for n, v in arguments.items()}
            self._run_programs(function, values, grid)
            completed = True
        except KernelFault:
            raise
        except Exception as error:
            raise KernelError(f"{self._site_of(error)}: {_message(error)}") from error
        finally:
            self._watcher.end_launch(completed)
            self._kernel = outer

    def _run_programs(self, function: Callable, values: dict[str, Any], grid: tuple[int, int, int]) -> None:
        builder = interpreter.interpreter_builder
        builder.set_grid_dim(*grid)
        columns, rows, _ = grid
        for program in _ordered(grid[0] * grid[1] * grid[2], self._order):
            # a GPU starts programs with x running fastest
            index = (program % columns, program // columns % rows, program // (columns * rows))
            builder.grid_idx = index
            self._watcher.begin_program(program, index)
            with np.errstate(all="ignore"), warnings.catch_warnings():  # overflow and NaN are quiet on a GPU
                warnings.simplefilter("ignore", RuntimeWarning)
                function(**values)

    def _convert(self, value: Any) -> Any:
        """An argument as the kernel sees it: pointers, descriptors and scalar tensors."""
        if isinstance(value, tl.constexpr):
            return value.value
        if isinstance(value, tuple):
            return (
                type(value)(*map(self._convert, value))
                if hasattr(value, "_fields")
                else tl.tuple([self._convert(v) for v in value])
            )
        if isinstance(value, bool):
            return _scalar(np.array([value]), tl.int1)
        if isinstance(value, float):
            return _scalar(np.array([value], np.float32), tl.float32)  # as a launch on a GPU passes it
        if isinstance(value, TensorDescriptor):
            placed = copy.copy(value)
            placed.base = self._placed(value.base)
            return interpreter._implicit_cvt(placed)
        if hasattr(value, "data_ptr"):
            return interpreter._implicit_cvt(self._placed(value))
        return interpreter._implicit_cvt(value)

    def _placed(self, tensor: Any) -> _Placed:
        return _Placed(tensor.dtype, self._watcher.address(_plain(tensor)))

    # ------------------------------------------------------------------------------------------------- functions

    def call(self, function: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """A call of a `@triton.jit` function from within a kernel."""
        if self._kernel is None:
            raise KernelError(f"`{function.__name__}` is a kernel: launch it as {function.__name__}[grid](...).")
        kwargs = {name: value for name, value in kwargs.items() if name not in ("_semantic", "_generator")}
        return self._rewritten(function)(*map(_unwrap, args), **{n: _unwrap(v) for n, v in kwargs.items()})

    def _rewritten(self, kernel: Any) -> Callable:
        if kernel.fn not in self._functions:
            source = source_of(kernel)
            self._functions[kernel.fn] = rewritten = _rewritten(kernel.fn, source)
            self._sources[rewritten.__code__] = source
        return self._functions[kernel.fn]

    # ------------------------------------------------------------------------------------------------- places

    def where(self) -> Site:
        frames, frame = [], sys._getframe(1)
        while frame is not None:
            source = self._sources.get(frame.f_code)
            if source is not None:
                frames.append((source, frame.f_lineno))
                if source is self._kernel:
                    break
            frame = frame.f_back
        return self._site(frames)

    def _site_of(self, error: BaseException) -> Site:
        frames, traceback = [], error.__traceback__
        while traceback is not None:
            source = self._sources.get(traceback.tb_frame.f_code)
            if source is not None:
                frames.insert(0, (source, traceback.tb_lineno))
            traceback = traceback.tb_next
        return self._site(frames)

    def _site(self, frames: list[tuple[Source, int]]) -> Site:
        """frames: (function, line in its file), innermost first, the kernel last."""
        if not frames:
            return Site(self._kernel.name, 1, self._kernel.text(1))
        kernel, file_line = frames[-1]
        line = kernel.line(file_line)
        inner = ""
        helper = next(((s, s.line(n)) for s, n in frames[:-1] if not s.library), None)
        if helper:
            inner = f", in `{helper[0].name}`, line {helper[1]}: `{helper[0].text(helper[1])}`"
        return Site(kernel.name, line, kernel.text(line), inner)

    # ------------------------------------------------------------------------------------------------- hooks

    @contextmanager
    def installed(self) -> Iterator[None]:
        with ExitStack() as undo:
            snapshot = [(owner, dict(vars(owner))) for owner in PATCHED]
            undo.callback(_restore, snapshot)
            _patch_language()

            def patch(owner: Any, name: str, value: Any) -> None:
                undo.callback(setattr, owner, name, getattr(owner, name))
                setattr(owner, name, value)

            def run(kernel, *args, grid, warmup, **options):
                return None if warmup else self.launch(kernel, args, options, grid)

            def call(function, *args, **kwargs):
                return self.call(function, args, kwargs)

            for kind in (JITFunction, interpreter.InterpretedFunction):
                patch(kind, "run", run)
                patch(kind, "__call__", call)
            patch(Autotuner, "run", _run_first_config)
            patch(interpreter, "_interpreter", self._memory(interpreter._interpreter))
            patch(interpreter.InterpreterBuilder, "create_masked_load", self._poisoning_load())
            patch(interpreter.ReduceScanOpInterface, "to_tensor", _reduced(interpreter.ReduceScanOpInterface.to_tensor))
            patch(interpreter.ReduceOps, "min_max", _min_max(interpreter.ReduceOps.min_max))
            yield

    def _memory(self, real: Any) -> Any:
        """Stands in for the module through which the interpreter reads and writes memory."""
        watch, synchronised = self._watcher.access, self._watcher.synchronised

        class Memory:
            def __getattr__(self, name):
                return getattr(real, name)

            @staticmethod
            def load(addresses, mask, other, dtype):
                watch("load", addresses, np.asarray(mask), dtype.itemsize)
                return real.load(addresses, mask, other, dtype)

            @staticmethod
            def store(addresses, values, mask):
                watch("store", addresses, np.asarray(mask), values.itemsize)  # a descriptor's mask is a memoryview
                return real.store(addresses, values, mask)

            @staticmethod
            def atomic_rmw(operation, addresses, values, mask, order):
                watch("atomic", addresses, mask, values.itemsize)
                if order != real.MEM_SEMANTIC.RELAXED:
                    synchronised(addresses[mask])
                return real.atomic_rmw(operation, addresses, values, mask, order)

            @staticmethod
            def atomic_cas(addresses, expected, values, order):
                watch("atomic", addresses, np.ones(addresses.shape, bool), values.itemsize)
                if order != real.MEM_SEMANTIC.RELAXED:
                    synchronised(addresses)
                return real.atomic_cas(addresses, expected, values, order)

        return Memory()

    def _poisoning_load(self) -> Callable:
        """A masked load without `other` yields 0 on the interpreter and anything on a GPU: make that show."""
        original, watcher = interpreter.InterpreterBuilder.create_masked_load, self._watcher

        def create_masked_load(builder, pointers, mask, other, *options, **more):
            if isinstance(mask, np.ndarray):  # as descriptors and block pointers pass it
                mask = interpreter.TensorHandle(mask, tl.int1)
            if other is None and not mask.data.all():
                watcher.poisoned_load()
                other = _poison(np.shape(pointers.data), pointers.get_element_ty())
            return original(builder, pointers, mask, other, *options, **more)

        return create_masked_load


@contextmanager
def launches_go_to(handler: Callable[[JITFunction, tuple, Any, dict[str, Any]], None]) -> Iterator[None]:
    """While open, kernel[grid](...) calls handler(kernel, args, grid, options) and runs nothing."""
    before = JITFunction.run, Autotuner.run

    def run(kernel, *args, grid, warmup, **options):
        return None if warmup else handler(kernel, args, grid, options)

    JITFunction.run, Autotuner.run = run, _run_first_config
    try:
        yield
    finally:
        JITFunction.run, Autotuner.run = before


# ----------------------------------------------------------------------------------------------------- sources


_rewrites: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # by function object: a redefined kernel is another
_jit_functions: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def _jit_function(kernel: Any) -> JITFunction:
    """Under TRITON_INTERPRET `@triton.jit` makes another kind of object, which knows neither source nor parameters."""
    if isinstance(kernel, JITFunction):
        return kernel
    if kernel.fn not in _jit_functions:
        _jit_functions[kernel.fn] = JITFunction(kernel.fn)
    return _jit_functions[kernel.fn]


def source_of(kernel: Any) -> Source:
    """The text of a `@triton.jit` function from its `def` on, as it was when it was decorated."""
    jit = _jit_function(kernel)
    lines = jit.src.splitlines(keepends=True)
    first_line = jit.starting_line_number + len(jit.raw_src) - len(lines)
    library = kernel.fn.__code__.co_filename.startswith(TRITON_FOLDER)
    return Source(kernel.fn.__name__, first_line, tuple(lines), library)


def _rewritten(function: Any, source: Source) -> Callable:
    if function not in _rewrites:
        _rewrites[function] = rewrite(function, source, _as_tensor)
    return _rewrites[function]


def _as_tensor(value: Any) -> Any:
    return interpreter.interpreter_semantic.to_tensor(value, False)


# ----------------------------------------------------------------------------------------------------- arguments


@dataclass
class _Placed:
    """A tensor in the arena, as far as Triton asks: a dtype and an address."""

    dtype: torch.dtype
    address: int

    def data_ptr(self) -> int:
        return self.address


def _bind(kernel: Any, name: str, args: tuple, options: dict[str, Any]) -> dict[str, Any]:
    signature = inspect.signature(kernel.fn)
    known = {n: v for n, v in options.items() if n in signature.parameters}
    for extra in options.keys() - known.keys() - LAUNCH_OPTIONS:
        near = difflib.get_close_matches(extra, signature.parameters, n=1)
        guess = f" Did you mean `{near[0]}`?" if near else ""
        raise KernelError(f"kernel `{name}` has no parameter `{extra}`.{guess}")
    try:
        bound = signature.bind(*args, **known)
    except TypeError as error:
        raise KernelError(f"kernel `{name}` was launched with the wrong arguments: {error}.") from error
    bound.apply_defaults()
    return bound.arguments


def grid_of(name: str, grid: Any, arguments: dict[str, Any]) -> tuple[int, int, int]:
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


def _tensors(name: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, tuple):
        for i, part in enumerate(value):
            yield from _tensors(f"{name}[{i}]", part)
    elif isinstance(value, TensorDescriptor):
        yield name, _plain(value.base)
    elif hasattr(value, "data_ptr"):
        yield name, _plain(value)


def _plain(tensor: Any) -> torch.Tensor:
    """Without the wrapper of triton.reinterpret."""
    return getattr(tensor, "base", tensor) if not isinstance(tensor, torch.Tensor) else tensor


def _unwrap(value: Any) -> Any:
    return value.value if isinstance(value, tl.constexpr) else value


def _scalar(data: np.ndarray, dtype: tl.dtype) -> tl.tensor:
    return tl.tensor(interpreter.TensorHandle(data, dtype), dtype)


def _ordered(programs: int, order: Order) -> Sequence[int]:
    if order is None:
        return range(programs)
    if order == "shuffled":
        return random.Random(0).sample(range(programs), programs)
    permutation = [int(program) for program in order(programs)]
    if sorted(permutation) != list(range(programs)):
        raise ValueError(f"order({programs}) must return each of 0 to {programs - 1} once.")
    return permutation


def _poison(shape: tuple[int, ...], dtype: tl.dtype) -> interpreter.TensorHandle:
    kind = interpreter._get_np_dtype(dtype)
    if kind.kind == "f":
        value = np.array(POISON_NAN[kind.itemsize], f"u{kind.itemsize}").view(kind)
    elif dtype.is_floating():  # bf16 and fp8 are held as raw bits; these are NaN in each of them
        value = np.array(POISON_BF16 if kind.itemsize == 2 else 0x7F, kind)
    elif kind.kind == "b":
        value = np.array(True)
    else:
        value = np.array(POISON_INTEGER >> (64 - 8 * kind.itemsize) | 1).astype(kind)
    return interpreter.TensorHandle(np.full(shape, value, kind), dtype)


def _is_poison(values: np.ndarray) -> np.ndarray:
    bits = values.view(f"u{values.itemsize}") & ((1 << (8 * values.itemsize - 1)) - 1)  # whatever the sign
    return bits == POISON_NAN[values.itemsize]


def _min_max(original: Callable) -> Callable:
    """tl.max and tl.min pass over NaN, so a poisoned lane would not show in them: keep its NaN."""

    def min_max(operation, input, val_reduce_op, idx_reduce_op=None):
        def reduce(values, axis, keepdims):
            result = val_reduce_op(values, axis=axis, keepdims=keepdims)
            if values.dtype.kind != "f":
                return result
            poisoned = _is_poison(values).any(axis=axis, keepdims=keepdims)
            return np.where(poisoned, values.dtype.type(np.nan), result)

        return original(operation, input, reduce if val_reduce_op else None, idx_reduce_op)

    return min_max


def _reduced(original: Callable) -> Callable:
    """numpy sums int32 in int64 and then refuses what does not fit; a GPU wraps around."""

    def to_tensor(operation, result, dtype):
        return original(operation, np.asarray(result).astype(interpreter._get_np_dtype(dtype))[()], dtype)

    return to_tensor


def _message(error: Exception) -> str:
    text = " ".join(str(error).split())
    if "`_semantic` argument" in text:
        return "this function has no version that runs without a GPU, or was not called as tl.<name>"
    return (
        text if isinstance(error, TypeError | ValueError) and text else f"{type(error).__name__}: {text}".rstrip(": ")
    )


# ----------------------------------------------------------------------------------------------------- tl, patched


def _run_first_config(tuner: Autotuner, *args: Any, **options: Any) -> Any:
    """Nothing is timed here, so the first configuration runs, and none is remembered for a GPU."""
    tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
    try:
        config = tuner.prune_configs(options)[0] if len(tuner.configs) > 1 else tuner.configs[0]
        settings = config.all_kwargs()
        if config.pre_hook is not None:
            config.pre_hook({**tuner.nargs, **options, **settings})
        return tuner.fn.run(*args, **options, **settings)
    finally:
        tuner.nargs = None


def _patch_language() -> None:
    """Make tl's functions work on numbers. Triton does so at each launch and leaks; here once, undone by _restore."""

    class Everything:
        __globals__ = {"tl": tl, "core": tl.core}

    interpreter._patch_lang(Everything)
    tl.tensor.__bool__ = _truth
    tl.tensor.__index__ = _index
    for name, member in list(vars(tl.tensor).items()):
        if isinstance(member, JITFunction):  # x.sum() and the like; the compiler binds the tensor by itself
            setattr(tl.tensor, name, lambda self, *args, _function=member, **kwargs: _function(self, *args, **kwargs))


def _restore(snapshot: list[tuple[Any, dict[str, Any]]]) -> None:
    for owner, before in snapshot:
        for name, value in list(vars(owner).items()):
            if name not in before:
                delattr(owner, name)
            elif value is not before[name]:
                setattr(owner, name, before[name])


def _truth(tensor: tl.tensor) -> bool:
    caller = sys._getframe(1).f_code.co_filename
    if caller.startswith(TRITON_FOLDER) and os.path.basename(caller) in ("semantic.py", "core.py"):
        return True  # Triton asks `other.handle if other else None`: is there one at all
    values = np.asarray(tensor.handle.data)
    if values.size != 1:
        raise TypeError(
            f"a block of {values.size} values is neither true nor false. "
            "Write (a) & (b) instead of `a and b` or `lo <= x < hi`, ~a instead of `not a`, tl.where instead of `if`"
        )
    return bool(values.reshape(-1)[0])


def _index(tensor: tl.tensor) -> int:
    values = np.asarray(tensor.handle.data)
    if values.size != 1:
        raise TypeError(f"a block of {values.size} values is not one whole number")
    return int(values.reshape(-1)[0])  # numpy 2.4 refuses int(array of one element), which Triton 3.6 relies on
