"""Runs Triton kernels on Triton's own interpreter, in Python, and tells a watcher of every access before it happens.

The only file that touches Triton's internals. While an Interpreter is installed, `kernel[grid](...)` runs here instead
of on a GPU. The kernel object is untouched: the same `@triton.jit` function compiles before and after. TRITON_INTERPRET
need not be set; if it is, its kernels are run here too.

Builder      what each operation does: Triton's interpreting builder, with a GPU's arithmetic, counting FLOPs
Interpreter  launches kernels, with Triton's language patched to work on numbers through that builder
"""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
import os
import sys
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, Literal, Protocol

import numpy as np
import torch
import triton
import triton.compiler.code_generator  # noqa: F401  it keeps references to parts of tl: it must see them unpatched
import triton.language as tl
import triton.language.extra.cuda.libdevice as cuda_libdevice
import triton.language.extra.libdevice as libdevice
import triton.runtime.interpreter as interpreter
from triton.backends.nvidia.compiler import CUDAOptions
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction
from triton.tools.tensor_descriptor import TensorDescriptor

from course_lib.tracing import numerics
from course_lib.tracing.launching import (
    TRITON_FOLDER,
    Grid,
    KernelError,
    KernelFault,
    Order,
    Placed,
    Site,
    bind,
    grid_of,
    plain,
    programs_of,
    tensors_in,
)
from course_lib.tracing.numerics import FORMATS
from course_lib.tracing.plans import Plans, Recorder
from course_lib.tracing.rewrite import Helpers, Source, rewrite

Op = Literal["load", "store", "atomic"]
FlopKind = Literal["dot", "float", "special", "reduction"]  # the fields of Flops

__all__ = [  # what the other rooms use
    "LAUNCH_OPTIONS", "FlopKind", "Interpreter", "KernelError", "KernelFault", "Op", "Order", "Site", "Watcher",
    "grid_of", "launches_go_to", "source_of",
]  # fmt: skip

LAUNCH_OPTIONS = set(CUDAOptions.__dataclass_fields__) | {"device", "stream"}  # not parameters of the kernel
PATCHED = (  # restored as they were
    tl, tl.core, tl.math, tl.tensor, tl.dtype, tl.constexpr, tl.core.tensor_descriptor_base, libdevice, cuda_libdevice,
)  # fmt: skip

HINTS = ("multiple_of", "max_contiguous", "max_constancy")  # to the compiler; here they do nothing
STATIC = ("static_assert", "static_print")  # Python does what the compiler does


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


# ----------------------------------------------------------------------------------------------------- the builder


class Handle(interpreter.TensorHandle):
    """A numpy array and Triton's dtype of its elements. A scalar has shape (1,)."""

    def __init__(self, data: np.ndarray, dtype: tl.dtype):
        self.data = data
        self.dtype = dtype


class NotHere(AttributeError):
    """Something that only a GPU can do."""


class ManyTruths(TypeError):
    """A block was asked whether it is true."""


class Builder(interpreter.InterpreterBuilder):
    """Triton's interpreting builder, with a GPU's arithmetic, counting floating-point operations in `flops`.

    combine   calls a kernel's helper: (function, tensors) -> tensors; for tl.reduce with a function of the student's
    """

    def __init__(self, watcher: Watcher, combine: Callable):
        super().__init__()
        # The overflow check of integers casts to int64 and back, and then reports nothing unless debugging.
        self.options = replace(self.options, sanitize_overflow=False)
        self.flops: Counter[FlopKind] = Counter()
        self._watcher = watcher
        self._combine = combine

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("create_"):
            raise AttributeError(name)
        what = name.removeprefix("create_")
        raise NotHere(
            f"Triton's `{what}` operation has no version that runs without a GPU; write the kernel without it"
        )

    # ------------------------------------------------------------------------------------------------- memory

    def create_load(self, pointers: Handle, *options: Any) -> Handle:
        return self.create_masked_load(pointers, np.ones(pointers.data.shape, bool), None)

    def create_masked_load(
        self, pointers: Handle, mask: Any, other: Handle | None, *options: Any, **more: Any
    ) -> Handle:
        dtype = pointers.get_element_ty()
        mask, kind = _data(mask), _numpy_dtype(dtype)
        if other is not None:
            values = other.data
        elif mask.all():
            values = np.zeros(mask.shape, kind)
        else:  # 0 on Triton's interpreter and anything on a GPU: make that show
            self._watcher.poisoned_load()
            values = numerics.poison(mask.shape, kind, dtype.name in FORMATS)
        self._watcher.access("load", pointers.data, mask, kind.itemsize)
        return Handle(_memory.load(pointers.data, mask, values, kind), dtype)

    def create_descriptor_load(self, descriptor: Any, indices: list[Handle], *options: Any) -> Handle:
        if hasattr(descriptor, "padding"):
            return super().create_descriptor_load(descriptor, indices, *options)
        pointers, mask = descriptor.materialize_pointers(
            indices
        )  # Triton 3.4 pads with zeros alone, and leaves them out
        dtype = pointers.get_element_ty()
        return self.create_masked_load(pointers, mask, Handle(np.zeros(mask.shape, _numpy_dtype(dtype)), dtype))

    def create_store(self, pointers: Handle, value: Handle, *options: Any) -> None:
        self.create_masked_store(pointers, value, np.ones(pointers.data.shape, bool))

    def create_masked_store(self, pointers: Handle, value: Handle, mask: Any, *options: Any) -> None:
        mask, kind = _data(mask), _numpy_dtype(pointers.get_element_ty())
        values = value.data if value.data.dtype == kind else value.data.astype(kind)
        self._watcher.access("store", pointers.data, mask, kind.itemsize)
        _memory.store(pointers.data, values, mask)

    def create_atomic_cas(self, pointers: Handle, expected: Handle, value: Handle, order: Any, *options: Any) -> Handle:
        self._watcher.access("atomic", pointers.data, np.ones(pointers.data.shape, bool), value.data.itemsize)
        if order != interpreter._ir.MEM_SEMANTIC.RELAXED:
            self._watcher.synchronised(pointers.data)
        return super().create_atomic_cas(pointers, expected, value, order, *options)

    def create_atomic_rmw(
        self, kind: Any, pointers: Handle, value: Handle, mask: Handle, order: Any, *options: Any
    ) -> Handle:
        self._watcher.access("atomic", pointers.data, mask.data, value.data.itemsize)
        if order != interpreter._ir.MEM_SEMANTIC.RELAXED:
            self._watcher.synchronised(pointers.data[mask.data])
        if value.dtype.name in ("bf16", "fp16"):  # of which Triton's interpreter knows no sum
            return self._add_one_by_one(pointers, value, mask)
        return super().create_atomic_rmw(kind, pointers, value, mask, order, *options)

    def _add_one_by_one(self, pointers: Handle, value: Handle, mask: Handle) -> Handle:
        """An atomic_add; two lanes may have the same address."""
        before = np.zeros(value.data.shape, value.data.dtype)
        one = np.ones(1, bool)
        for lane in zip(*np.nonzero(mask.data), strict=True):
            address = pointers.data[lane].reshape(1)
            old = Handle(_memory.load(address, one, np.zeros(1, before.dtype), before.dtype), value.dtype)
            new = _narrowed(_wide(old) + _wide(Handle(value.data[lane].reshape(1), value.dtype)), value.dtype)
            _memory.store(address, new, one)
            before[lane] = old.data[0]
        return Handle(before, value.dtype)

    # ------------------------------------------------------------------------------------------------- values

    def cast_impl(self, source: Handle, target: tl.dtype, toward_zero: bool = False) -> Handle:
        target = target.scalar
        return Handle(_narrowed(_wide(source), target, toward_zero), target)

    def create_fp_to_fp(self, source: Handle, target: tl.dtype, rounding: Any) -> Handle:
        return self.cast_impl(source, target, toward_zero=rounding == interpreter._ir.ROUNDING_MODE.RTZ)

    def get_all_ones_value(self, dtype: tl.dtype) -> Handle:
        return Handle(~np.zeros(1, _numpy_dtype(dtype)), dtype.scalar)

    def create_addptr(self, pointers: Handle, offsets: Handle) -> Handle:
        width = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        steps = offsets.data.astype(np.uint64)  # wraps around for a negative offset, and so does the sum
        if width > 1:
            steps *= np.uint64(width)
        return Handle(pointers.data + steps, pointers.dtype)

    def create_select(self, condition: Handle, yes: Handle, no: Handle) -> Handle:
        return Handle(np.where(condition.data, yes.data, no.data), yes.dtype)

    def create_fma(self, x: Handle, y: Handle, z: Handle) -> Handle:
        return self._computed("float", _narrowed(numerics.fma(_wide(x), _wide(y), _wide(z)), z.dtype), z.dtype, 2)

    def create_clampf(self, x: Handle, low: Handle, high: Handle, propagate_nan: Any) -> Handle:
        values = _wide(x), _wide(low), _wide(high)
        if propagate_nan == interpreter._ir.PROPAGATE_NAN.ALL:
            clamped = np.minimum(np.maximum(values[0], values[1]), values[2])
        else:
            clamped = numerics.smaller(numerics.larger(values[0], values[1]), values[2])
        return self._computed("float", _narrowed(clamped, x.dtype), x.dtype)

    def create_ashr(self, x: Handle, bits: Handle) -> Handle:
        signed = np.dtype(f"i{x.data.itemsize}")
        return Handle(np.right_shift(x.data.view(signed), bits.data.view(signed)).view(x.data.dtype), x.dtype)

    def create_umulhi(self, a: Handle, b: Handle) -> Handle:
        return Handle(numerics.high_half(a.data, b.data), a.dtype)

    def create_histogram(self, values: Handle, bins: int, mask: Handle | None) -> Handle:
        counted = values.data if mask is None else values.data[mask.data]
        counted = counted[(counted >= 0) & (counted < bins)]
        return Handle(np.bincount(counted, minlength=bins).astype(np.int32), tl.int32)

    def create_extern_elementwise(
        self, library, path, symbol: str, operands: list[Handle], result: tl.dtype, pure
    ) -> Handle:
        function = numerics.libdevice(symbol)
        if function is None:
            raise NotHere(
                f"libdevice's `{symbol.removeprefix('__nv_')}` has no version that runs without a GPU; "
                "write it with tl.exp, tl.log, tl.sqrt and the like, or run this kernel on a GPU"
            )
        dtype = result.scalar
        values = _narrowed(function(*[operand.data for operand in operands]), dtype)
        return self._computed("special" if dtype.is_floating() else None, values, dtype)

    def create_inline_asm(self, *arguments: Any) -> None:
        raise NotHere("inline assembly runs on a GPU only; write it with functions of tl")

    def _computed(self, kind: FlopKind | None, data: np.ndarray, dtype: tl.dtype, operations: int = 1) -> Handle:
        if kind is not None:
            self.flops[kind] += operations * data.size
        return Handle(data, dtype)

    # ------------------------------------------------------------------------------------------------- dot, reduce

    def create_dot(self, a: Handle, b: Handle, accumulator: Handle, *options: Any) -> Handle:
        result = numerics.dot(_wide(a), _wide(b), _wide(accumulator))
        self.flops["dot"] += 2 * result.size * a.data.shape[-1]
        return Handle(_narrowed(result, accumulator.dtype), accumulator.dtype)

    def create_dot_scaled(self, *operands: Any) -> Handle:
        result = super().create_dot_scaled(*operands)
        values, packed = operands[0], operands[0].dtype.name not in FORMATS  # two fp4 to a byte
        self.flops["dot"] += 2 * result.data.size * values.data.shape[-1] * (2 if packed else 1)
        return result

    def create_reduction(self, combine: Any, axis: int | None, keep_dims: bool, *inputs: Handle) -> tuple[Handle, ...]:
        if inputs[0].dtype.is_floating():
            result_size = 1 if axis is None else inputs[0].data.size // inputs[0].data.shape[axis]
            self.flops["reduction"] += inputs[0].data.size - result_size
        if id(combine) in INDEX_OF:
            best, where = INDEX_OF[id(combine)]
            values = _wide(inputs[0])
            results = [_narrowed(best(values, axis, keep_dims), inputs[0].dtype), where(values, axis, keep_dims)]
        elif id(combine) in FOLDS:
            values = _wide(inputs[0])
            results = [_narrowed(FOLDS[id(combine)](values, axis, keep_dims), inputs[0].dtype)]
        else:
            results = self._folded(combine, axis, inputs, scan=False)
            if keep_dims:
                shape = inputs[0].data.shape
                kept = (
                    [1] * len(shape)
                    if axis is None
                    else [1 if i == axis % len(shape) else n for i, n in enumerate(shape)]
                )
                results = [result.reshape(kept) for result in results]
        return tuple(_typed(result, handle.dtype) for result, handle in zip(results, inputs, strict=True))

    def create_prefix_scan(self, combine: Any, axis: int, reverse: bool, *inputs: Handle) -> tuple[Handle, ...]:
        size, length = inputs[0].data.size, inputs[0].data.shape[axis]
        if inputs[0].dtype.is_floating():
            self.flops["reduction"] += size - size // length
        turned = [Handle(np.flip(handle.data, axis), handle.dtype) if reverse else handle for handle in inputs]
        if id(combine) in SCANS:
            values = _wide(turned[0])
            results = [_narrowed(SCANS[id(combine)].accumulate(values, axis, dtype=values.dtype), turned[0].dtype)]
        else:
            results = self._folded(combine, axis, turned, scan=True)
        results = [np.flip(result, axis) if reverse else result for result in results]
        return tuple(_typed(result, handle.dtype) for result, handle in zip(results, inputs, strict=True))

    def _folded(self, combine: Any, axis: int | None, inputs: tuple[Handle, ...], scan: bool) -> list[np.ndarray]:
        """With a function of the student's: from left to right along the axis, all lines at once."""
        dtypes = [handle.dtype for handle in inputs]
        arrays = [handle.data.reshape(-1) if axis is None else np.moveaxis(handle.data, axis, 0) for handle in inputs]
        flops = self.flops.copy()  # a reduction counts as one, whatever its function does
        try:
            running = self._running(combine, arrays, dtypes)
        except ManyTruths:  # it decides by `if`, and so takes one value at a time
            lines = [array.reshape(len(array), -1).T for array in arrays]
            results = [self._running(combine, parts, dtypes) for parts in zip(*lines, strict=True)]
            running = [np.stack(r, 1).reshape(a.shape) for r, a in zip(zip(*results, strict=True), arrays, strict=True)]
        self.flops = flops
        return [np.moveaxis(array, 0, axis or 0) if scan else array[-1] for array in running]

    def _running(self, combine: Any, arrays: list[np.ndarray], dtypes: list[tl.dtype]) -> list[np.ndarray]:
        """arrays: (n, ...). What the function has made of the first 1, 2, ..., n, in the same shape."""
        slices = [[_tensor(part, dtype) for part in array] for array, dtype in zip(arrays, dtypes, strict=True)]

        def step(left: tuple[tl.tensor, ...], right: tuple[tl.tensor, ...]) -> tuple[tl.tensor, ...]:
            result = self._combine(combine, (*left, *right))
            results = result if isinstance(result, (tuple, list, tl.tuple)) else (result,)
            return tuple(_tensor(getattr(t, "handle", t), like.dtype) for t, like in zip(results, left, strict=True))

        steps = itertools.accumulate(zip(*slices, strict=True), step)
        columns = zip(*steps, strict=True)
        return [
            np.stack([t.handle.data for t in column]).reshape(a.shape)
            for column, a in zip(columns, arrays, strict=True)
        ]


def _data(mask: Handle | np.ndarray) -> np.ndarray:
    """Descriptors pass the array itself, and block pointers a memoryview."""
    return mask.data if isinstance(mask, interpreter.TensorHandle) else np.asarray(mask)


def _wide(handle: Handle) -> np.ndarray:
    """The values as numbers that numpy can compute with."""
    name = handle.dtype.name
    return numerics.widen(handle.data, name) if name in FORMATS else handle.data


def _narrowed(values: np.ndarray, dtype: tl.dtype, toward_zero: bool = False) -> np.ndarray:
    """Numbers as the array that a handle of this dtype holds."""
    if dtype.name in FORMATS:
        return numerics.narrow(values, dtype.name, toward_zero)
    kind = _numpy_dtype(dtype)
    if values.dtype == kind:
        return values
    if values.dtype.kind == "f" and kind.kind in "iu":
        return numerics.to_integer(values, kind)
    return numerics.to_float(values, kind, toward_zero) if kind.kind == "f" else values.astype(kind)


def _typed(values: Any, dtype: tl.dtype) -> Handle:
    """A handle of an array, or of a number, which gets the shape (1,)."""
    values = np.atleast_1d(values)
    return Handle(values if values.dtype == _numpy_dtype(dtype) else _narrowed(values, dtype), dtype)


def _tensor(values: Any, dtype: tl.dtype) -> tl.tensor:
    """A tensor of an array, a number, or a handle; a block unless it is one number."""
    if isinstance(values, interpreter.TensorHandle):
        values = _narrowed(_wide(values), dtype)
    shape = np.shape(values)
    return tl.tensor(_typed(values, dtype), tl.block_type(dtype, list(shape)) if shape not in ((), (1,)) else dtype)


_original_numpy_dtype, _memory = interpreter._get_np_dtype, interpreter._interpreter
_numpy_dtypes: dict[str, np.dtype] = {}  # by Triton's name


def _numpy_dtype(dtype: tl.dtype) -> np.dtype:
    dtype = dtype.scalar
    kind = _numpy_dtypes.get(dtype.name)
    if kind is None:
        kind = _numpy_dtypes[dtype.name] = _original_numpy_dtype(dtype)
    return kind


# Builder methods that compute lane by lane, by the end of their names.
FLOATING: dict[str, tuple[FlopKind, Callable]] = {
    **{name: ("float", function) for name, function in {
        "fadd": np.add, "fsub": np.subtract, "fmul": np.multiply, "fdiv": np.divide, "precise_divf": np.divide,
        "approx_divf": np.divide, "frem": np.fmod, "fneg": np.negative, "minimumf": np.minimum, "maximumf": np.maximum,
        "minnumf": numerics.smaller, "maxnumf": numerics.larger, "fabs": np.abs, "floor": np.floor, "ceil": np.ceil,
    }.items()},
    **{name: ("special", function) for name, function in {
        "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sin": np.sin, "cos": np.cos, "sqrt": np.sqrt,
        "precise_sqrt": np.sqrt, "rsqrt": numerics.rsqrt, "erf": numerics.erf,
    }.items()},
}  # fmt: skip
COMPARING = {
    "EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal,
}  # fmt: skip
INTEGER = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "shl": np.left_shift, "lshr": np.right_shift, "minsi": np.minimum, "minui": np.minimum,
    "maxsi": np.maximum, "maxui": np.maximum, "srem": np.fmod, "urem": np.fmod, "iabs": np.abs,
}  # fmt: skip


def _floating(kind: FlopKind, function: Callable) -> Callable:
    def method(builder: Builder, *handles: Handle) -> Handle:
        dtype = handles[0].dtype
        return builder._computed(kind, _narrowed(function(*map(_wide, handles)), dtype), dtype)

    return method


def _comparing(function: Callable) -> Callable:
    return lambda builder, a, b: Handle(function(_wide(a), _wide(b)), tl.int1)


def _integer(function: Callable) -> Callable:
    def method(builder: Builder, *handles: Handle) -> Handle:
        data = [handle.data for handle in handles]
        if data[0].dtype != bool:
            return Handle(function(*data), handles[0].dtype)
        return Handle((function(*[d.view(np.int8) for d in data]) & 1).astype(bool), tl.int1)  # a number of one bit

    return method


def _of_constant(name: str) -> Callable:
    return lambda builder, value: Handle(numerics.narrow(np.array([value]), name), getattr(tl, DTYPE_OF[name]))


DTYPE_OF = {dtype.name: name for name, dtype in vars(tl).items() if isinstance(dtype, tl.dtype)}
for _name, (_kind, _function) in FLOATING.items():
    setattr(Builder, f"create_{_name}", _floating(_kind, _function))
for _name, _function in INTEGER.items():
    setattr(Builder, f"create_{_name}", _integer(_function))
for _name in dir(interpreter.InterpreterBuilder):
    if _name.startswith(("create_icmp", "create_fcmp")):
        setattr(Builder, _name, _comparing(COMPARING[_name[-2:]]))
for _name in FORMATS:
    if _name in DTYPE_OF:
        setattr(Builder, f"get_{_name}", _of_constant(_name))
for _name in ("si_to_fp", "ui_to_fp", "fp_to_si", "fp_to_ui", "fp_ext", "fp_trunc"):
    setattr(Builder, f"create_{_name}", lambda builder, source, target: builder.cast_impl(source, target))
# To these numpy spreads a smaller operand by itself.
SPREADS = {f"create_{name}" for name in (*FLOATING, *INTEGER, "addptr", "select", "fma", "clampf", "sdiv", "udiv")} | {
    name for name in vars(Builder) if "cmp" in name and "atomic" not in name
}


def _folding(function: np.ufunc) -> Callable:
    return lambda values, axis, keep_dims: function.reduce(values, axis=axis, keepdims=keep_dims, dtype=values.dtype)


# What tl.sum, tl.max, tl.cumsum and the like combine with. By id: the hash of a kernel reads its source.
FOLDS = {
    id(tl.standard._sum_combine): _folding(np.add),
    id(tl.standard._xor_combine): _folding(np.bitwise_xor),
    id(tl.standard._or_combine): _folding(np.bitwise_or),
    id(tl.standard._elementwise_max): numerics.fold_max,
    id(tl.standard._elementwise_min): numerics.fold_min,
}
INDEX_OF = {
    id(tl.standard._argmax_combine_tie_break_left): (numerics.fold_max, numerics.index_of_max),
    id(tl.standard._argmax_combine_tie_break_fast): (numerics.fold_max, numerics.index_of_max),
    id(tl.standard._argmin_combine_tie_break_left): (numerics.fold_min, numerics.index_of_min),
    id(tl.standard._argmin_combine_tie_break_fast): (numerics.fold_min, numerics.index_of_min),
}
SCANS = {id(tl.standard._sum_combine): np.add, id(tl.standard._prod_combine): np.multiply}


# ----------------------------------------------------------------------------------------------------- the interpreter


class Interpreter:
    """`with interpreter.installed():` kernels run here; `where()` is the line that runs now."""

    def __init__(self, watcher: Watcher, order: Order = None):
        self._watcher = watcher
        self._order = order
        self._functions: dict[Any, Callable] = {}  # rewritten, by the original
        self._sources: dict[int, Source] = {}  # by id of the code object, of every function that ran
        self._sites: dict[tuple[int, ...], Site] = {}
        self._kernel: Source | None = None
        self._builder = Builder(watcher, lambda function, tensors: self.call(function, tensors, {}))
        recorder = Recorder(self._builder)
        self._semantic = type(interpreter.interpreter_semantic)(recorder)
        self._plans = Plans(self._builder, recorder, tl.tensor, Handle, SPREADS)

    # ------------------------------------------------------------------------------------------------- launching

    def launch(self, kernel: Any, args: tuple, options: dict[str, Any], grid: Any) -> None:
        if self._kernel is not None:
            raise KernelError(f"a kernel cannot launch another: call `{kernel.fn.__name__}` without a grid.")
        function = self._rewritten(kernel)
        source = self._sources[id(function.__code__)]
        arguments = bind(kernel.fn, args, options, LAUNCH_OPTIONS)
        for hook in getattr(kernel, "pre_run_hooks", ()):
            hook(**arguments)
        grid = grid_of(source.name, grid, arguments)
        constexprs = {p.name for p in _jit_function(kernel).params if p.is_constexpr}
        tensors = {n: t for name, value in arguments.items() for n, t in tensors_in(name, value)}
        self._kernel = source
        self._watcher.begin_launch(source, grid, tensors)
        completed = False
        try:
            values = {n: _unwrap(v) if n in constexprs else self._convert(v) for n, v in arguments.items()}
            self._run_programs(function, values, grid)
            completed = True
        except KernelFault as fault:
            raise fault.with_traceback(None) from None
        except Exception as error:
            raise KernelError(f"{self._site_of(error)}: {_message(error)}") from None
        finally:
            for kind, operations in self._builder.flops.items():
                self._watcher.computed(kind, operations)
            self._builder.flops.clear()
            self._watcher.end_launch(completed)
            self._kernel = None

    def _run_programs(self, function: Callable, values: dict[str, Any], grid: Grid) -> None:
        self._builder.set_grid_dim(*grid)
        with np.errstate(all="ignore"), warnings.catch_warnings():  # overflow and NaN are quiet on a GPU
            warnings.simplefilter("ignore", RuntimeWarning)
            for program, index in programs_of(grid, self._order):
                self._builder.grid_idx = index
                self._watcher.begin_program(program, index)
                function(**values)

    def _convert(self, value: Any) -> Any:
        """An argument as the kernel sees it: pointers, descriptors and scalar tensors."""
        if isinstance(value, tl.constexpr):
            return value.value
        if isinstance(value, tuple):
            parts = [self._convert(part) for part in value]
            return type(value)(*parts) if hasattr(value, "_fields") else tl.tuple(parts)
        if isinstance(value, bool):
            return _tensor(np.array([value]), tl.int1)
        if isinstance(value, float):
            return _tensor(np.array([value], np.float32), tl.float32)  # as a launch on a GPU passes it
        if isinstance(value, TensorDescriptor):
            placed = copy.copy(value)
            placed.base = self._placed(value.base)
            return interpreter._implicit_cvt(placed)
        if hasattr(value, "data_ptr"):
            return interpreter._implicit_cvt(self._placed(value))
        return interpreter._implicit_cvt(value)

    def _placed(self, tensor: Any) -> Placed:
        return Placed(tensor.dtype, self._watcher.address(plain(tensor)))

    # ------------------------------------------------------------------------------------------------- functions

    def call(self, function: Any, args: tuple, options: dict[str, Any]) -> Any:
        """A call of a `@triton.jit` function from within a kernel."""
        if self._kernel is None:
            raise KernelError(f"`{function.__name__}` is a kernel: launch it as {function.__name__}[grid](...).")
        rewritten = self._rewritten(function)
        args = tuple(map(_unwrap, args))
        options = {n: _unwrap(v) for n, v in options.items() if n not in ("_semantic", "_generator")}
        if self._sources[id(rewritten.__code__)].library:
            return self._plans.call(function, args, options, rewritten)
        return rewritten(*args, **options)

    def _rewritten(self, kernel: Any) -> Callable:
        rewritten = self._functions.get(kernel.fn)
        if rewritten is None:
            source = source_of(kernel)
            rewritten = self._functions[kernel.fn] = _rewritten(kernel.fn, source)
            self._sources[id(rewritten.__code__)] = source
        return rewritten

    def _planned(self, member: Callable) -> Callable:
        """A function of tl, callable from Python."""

        def run(*args, **options):
            return member(*args, **options, _semantic=self._semantic)

        def call(*args, **options):
            if options.pop("_semantic", None) is not None:
                return run(*args, **options)  # the front end calls itself
            return self._plans.call(member, args, options, run)

        return call

    # ------------------------------------------------------------------------------------------------- places

    def where(self) -> Site:
        sources, frames, frame = self._sources, [], sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            if id(code) in sources:
                frames += (id(code), frame.f_lineno)
                if sources[id(code)] is self._kernel:
                    break
            frame = frame.f_back
        return self._site(tuple(frames))

    def _site_of(self, error: BaseException) -> Site:
        frames, traceback = [], error.__traceback__
        while traceback is not None:
            code = traceback.tb_frame.f_code
            if id(code) in self._sources:
                frames = [id(code), traceback.tb_lineno, *frames]
            traceback = traceback.tb_next
        return self._site(tuple(frames))

    def _site(self, frames: tuple[int, ...]) -> Site:
        """frames: a function's code and a line in its file, and so on, innermost first, the kernel last."""
        site = self._sites.get(frames)
        if site is None:
            calls = [(self._sources[code], line) for code, line in zip(frames[::2], frames[1::2], strict=True)]
            site = self._sites[frames] = _site(calls or [(self._kernel, self._kernel.first_line)])
        return site

    # ------------------------------------------------------------------------------------------------- hooks

    @contextmanager
    def installed(self) -> Iterator[None]:
        _check_triton()
        with ExitStack() as undo:
            snapshot = [(owner, dict(vars(owner))) for owner in PATCHED]
            undo.callback(_restore, snapshot)
            undo.callback(_stand_ins.clear)
            self._patch_language(snapshot)

            def patch(owner: Any, name: str, value: Any) -> None:
                undo.callback(_put_back, owner, name, vars(owner).get(name))
                setattr(owner, name, value)

            def run(kernel, *args, grid, warmup=False, **options):
                return None if warmup else self.launch(kernel, args, options, grid)

            def call(function, *args, **options):
                return self.call(function, args, options)

            patch(JITFunction, "run", run)
            patch(JITFunction, "__call__", call)
            # Up to Triton 3.5 each kernel made under TRITON_INTERPRET holds a `run` of its own; a property comes first.
            patch(
                interpreter.InterpretedFunction, "run", property(lambda kernel: functools.partial(run, kernel), _ignore)
            )
            patch(
                interpreter.InterpretedFunction,
                "__getitem__",
                lambda kernel, grid: functools.partial(run, kernel, grid=grid),
            )
            patch(interpreter.InterpretedFunction, "__call__", call)
            patch(Autotuner, "run", _run_first_config)
            patch(interpreter, "TensorHandle", Handle)
            patch(interpreter, "_get_np_dtype", _numpy_dtype)
            patch(interpreter, "interpreter_builder", self._builder)
            patch(interpreter, "interpreter_semantic", self._semantic)
            yield

    def _patch_language(self, originals: list[tuple[Any, dict[str, Any]]]) -> None:
        """Make tl's functions work on numbers. Triton does so at each launch and leaks; here once, undone by _restore."""

        class Everything:
            __globals__ = {"tl": tl, "core": tl.core}

        interpreter._patch_lang(Everything)
        for owner, members in originals:
            for name, member in members.items():
                if tl.core.is_builtin(member) and name not in (*HINTS, *STATIC):
                    setattr(owner, name, self._planned(member))
        for name, member in dict(vars(libdevice)).items():  # stubs, for which the compiler takes the GPU's own
            if inspect.isfunction(member) and hasattr(cuda_libdevice, name):
                setattr(libdevice, name, getattr(cuda_libdevice, name))
        for lang in (tl, tl.core):
            lang.reduce, lang.associative_scan = self._planned(_reduce), self._planned(_scan)
            lang.static_range = _static_range
            for name in HINTS:
                setattr(lang, name, lambda tensor, values: tensor)
        for owner, members in originals:  # for names that were imported from there before
            for name, member in members.items():
                if callable(member) and vars(owner).get(name) is not member:
                    _stand_ins[id(member)] = vars(owner)[name]
        _stand_ins[id(min)] = lambda *args: _of_tensors(args, tl.minimum, min)
        _stand_ins[id(max)] = lambda *args: _of_tensors(args, tl.maximum, max)
        tl.tensor.__bool__ = self._truth
        tl.tensor.__index__ = self._index
        tl.tensor.T = property(lambda tensor: tl.trans(tensor))
        for name, member in list(vars(tl.tensor).items()):
            if isinstance(member, JITFunction):  # x.sum() and the like; the compiler binds the tensor by itself
                setattr(tl.tensor, name, _method(member))
        for name, member in list(vars(tl.constexpr).items()):
            if name.startswith("__") and inspect.isfunction(member) and len(inspect.signature(member).parameters) == 2:
                setattr(tl.constexpr, name, _constant_and_tensor(member))

    @property
    def _truth(self) -> Callable[[tl.tensor], bool]:
        def truth(tensor: tl.tensor) -> bool:
            caller = sys._getframe(1).f_code.co_filename
            if caller.startswith(TRITON_FOLDER) and os.path.basename(caller) in ("semantic.py", "core.py"):
                return True  # Triton asks `other.handle if other else None`: is there one at all
            return bool(self._one_value(tensor, BLOCK_TRUTH, ManyTruths))

        return truth

    @property
    def _index(self) -> Callable[[tl.tensor], int]:
        return lambda tensor: int(self._one_value(tensor, "a block of {} values is not one whole number", TypeError))

    def _one_value(self, tensor: tl.tensor, complaint: str, error: type[TypeError]) -> Any:
        self._plans.abandon()  # what happens next depends on the value
        values = np.asarray(tensor.handle.data)
        if values.size != 1:
            raise error(complaint.format(values.size))
        return _wide(tensor.handle).reshape(-1)[0]


BLOCK_TRUTH = (
    "a block of {} values is neither true nor false. "
    "Write (a) & (b) instead of `a and b` or `lo <= x < hi`, ~a instead of `not a`, tl.where instead of `if`"
)


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
_stand_ins: dict[int, Callable] = {}  # while tracing: what runs instead of a function, by its id


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
    # Triton 3.4 keeps the text from the `def` on only
    decorated = jit.raw_src if hasattr(jit, "raw_src") else inspect.getsourcelines(kernel.fn)[0]
    first_line = jit.starting_line_number + len(decorated) - len(lines)
    library = kernel.fn.__code__.co_filename.startswith(TRITON_FOLDER)
    return Source(kernel.fn.__name__, first_line, tuple(lines), library)


def _rewritten(function: Any, source: Source) -> Callable:
    if function not in _rewrites:
        _rewrites[function] = rewrite(function, source, Helpers(_as_tensor, _loop_over, _callee))
    return _rewrites[function]


def _as_tensor(value: Any) -> Any:
    if isinstance(value, tl.tensor):
        return value
    return interpreter.interpreter_semantic.to_tensor(value, False)


def _loop_over(iterable: Iterable) -> Iterable:
    """The variable of a loop over `range` is an int32 to the compiler, of `tl.static_range` a constant."""
    return map(_as_tensor, iterable) if isinstance(iterable, range) else iterable


def _callee(function: Any) -> Any:
    return _stand_ins.get(id(function), function)


def _site(calls: list[tuple[Source, int]]) -> Site:
    """calls: (function, line in its file), innermost first, the kernel last."""
    kernel, file_line = calls[-1]
    line = kernel.line(file_line)
    helper = next(((s, s.line(n)) for s, n in calls[:-1] if not s.library), None)
    inner = f", in `{helper[0].name}`, line {helper[1]}: `{helper[0].text(helper[1])}`" if helper else ""
    return Site(kernel.name, line, kernel.text(line), inner)


def _unwrap(value: Any) -> Any:
    return value.value if isinstance(value, tl.constexpr) else value


def _message(error: Exception) -> str:
    text = " ".join(str(error).split())
    if "`_semantic` argument" in text:
        return "this function has no version that runs without a GPU, or was not called as tl.<name>"
    return (
        text
        if isinstance(error, TypeError | ValueError | NotHere) and text
        else f"{type(error).__name__}: {text}".rstrip(": ")
    )


# ----------------------------------------------------------------------------------------------------- tl, patched


def _check_triton() -> None:
    """KernelError if this Triton lacks something that is used here."""
    for owner, names in NEEDED:
        for name in names.split():
            if not hasattr(owner, name):
                raise KernelError(
                    f"The tracer runs on Triton 3.4 to 3.9; this is {triton.__version__}, whose {owner.__name__} has no "
                    f"`{name}`. Install a version that fits, as pyproject.toml names it."
                )


NEEDED = (
    (interpreter, "InterpreterBuilder InterpretedFunction TensorHandle interpreter_builder interpreter_semantic "
     "_patch_lang _implicit_cvt _get_np_dtype _interpreter _ir"),
    (interpreter.InterpreterBuilder, "create_atomic_rmw create_atomic_cas create_masked_load create_masked_store set_grid_dim"),
    (interpreter._interpreter, "load store"),
    (tl.core, "is_builtin tensor constexpr dtype tensor_descriptor_base"),
    (tl.standard, "_sum_combine _prod_combine _xor_combine _or_combine _elementwise_max _elementwise_min"),
    (JITFunction, "run __call__"),
    (Autotuner, "run prune_configs"),
)  # fmt: skip


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


def _reduce(input, axis, combine_fn, keep_dims=False, _semantic=None, _generator=None):
    """tl.reduce; the interpreting builder has no regions, so the function goes to it as it is."""
    inputs, axis, keep_dims = _several(input), _unwrap(axis), bool(_unwrap(keep_dims))
    shape = _shape(inputs[0])
    axis = None if axis is None else _axis(axis, shape)
    kept = [1 if axis in (None, i) else n for i, n in enumerate(shape)]
    left = kept if keep_dims else [] if axis is None else shape[:axis] + shape[axis + 1 :]
    handles = _semantic.builder.create_reduction(combine_fn, axis, keep_dims, *[t.handle for t in inputs])
    results = tuple(_with_shape(handle, t.dtype, left) for handle, t in zip(handles, inputs, strict=True))
    return results[0] if isinstance(input, tl.tensor) else results


def _scan(input, axis, combine_fn, reverse=False, _semantic=None, _generator=None):
    """tl.associative_scan, likewise."""
    inputs, axis = _several(input), _axis(_unwrap(axis), _shape(_several(input)[0]))
    handles = _semantic.builder.create_prefix_scan(
        combine_fn, axis, bool(_unwrap(reverse)), *[t.handle for t in inputs]
    )
    results = tuple(_with_shape(handle, t.dtype, _shape(t)) for handle, t in zip(handles, inputs, strict=True))
    return results[0] if isinstance(input, tl.tensor) else results


def _several(input: Any) -> tuple[tl.tensor, ...]:
    return (input,) if isinstance(input, tl.tensor) else tuple(input)


def _shape(tensor: tl.tensor) -> list[int]:
    return [int(_unwrap(n)) for n in tensor.shape]


def _axis(axis: int, shape: list[int]) -> int:
    if not -len(shape) <= axis < len(shape):
        raise ValueError(f"axis {axis} is out of bounds for a block of shape {tuple(shape)}")
    return axis % len(shape)


def _with_shape(handle: Handle, dtype: tl.dtype, shape: list[int]) -> tl.tensor:
    return tl.tensor(handle, tl.block_type(dtype, shape) if shape else dtype)


def _static_range(start: Any, stop: Any = None, step: Any = 1, **options: Any) -> list[int]:
    return list(range(0, start, step) if stop is None else range(start, stop, step or 1))


def _of_tensors(args: tuple, of_two: Callable, otherwise: Callable) -> Any:
    """Python's min and max are tl.minimum and tl.maximum to the compiler."""
    return functools.reduce(of_two, args) if any(isinstance(a, tl.tensor) for a in args) else otherwise(*args)


def _method(function: JITFunction) -> Callable:
    return lambda tensor, *args, **options: function(tensor, *args, **options)


def _constant_and_tensor(operator: Callable) -> Callable:
    """`constant + tensor` is a tensor, not a constant."""

    def call(constant: tl.constexpr, other: Any) -> Any:
        result = operator(constant, other)
        return result.value if isinstance(getattr(result, "value", None), tl.tensor) else result

    return call


def _ignore(kernel: Any, value: Any) -> None:
    """The setter of a property that only hides what is set."""


def _put_back(owner: Any, name: str, value: Any) -> None:
    delattr(owner, name) if value is None else setattr(owner, name, value)


def _restore(snapshot: list[tuple[Any, dict[str, Any]]]) -> None:
    for owner, before in snapshot:
        for name, value in list(vars(owner).items()):
            if name not in before:
                delattr(owner, name)
            elif value is not before[name]:
                setattr(owner, name, before[name])
