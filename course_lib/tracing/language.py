"""Triton's language on numbers, where its own functions want a compiler: hooks.py puts these in their place."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import triton.language as tl
from triton.runtime.jit import JITFunction

from course_lib.tracing.builder import Handle


def unwrap(value: Any) -> Any:
    return value.value if isinstance(value, tl.constexpr) else value


def reduce(input, axis, combine_fn, keep_dims=False, _semantic=None, _generator=None):
    """tl.reduce; the interpreting builder has no regions, so the function goes to it as it is."""
    inputs, axis, keep_dims = _several(input), unwrap(axis), bool(unwrap(keep_dims))
    shape = _shape(inputs[0])
    axis = None if axis is None else _axis(axis, shape)
    kept = [1 if axis in (None, i) else n for i, n in enumerate(shape)]
    left = kept if keep_dims else [] if axis is None else shape[:axis] + shape[axis + 1 :]
    handles = _semantic.builder.create_reduction(combine_fn, axis, keep_dims, *[t.handle for t in inputs])
    results = tuple(_with_shape(handle, t.dtype, left) for handle, t in zip(handles, inputs, strict=True))
    return results[0] if isinstance(input, tl.tensor) else results


def scan(input, axis, combine_fn, reverse=False, _semantic=None, _generator=None):
    """tl.associative_scan, likewise."""
    inputs, axis = _several(input), _axis(unwrap(axis), _shape(_several(input)[0]))
    handles = _semantic.builder.create_prefix_scan(combine_fn, axis, bool(unwrap(reverse)), *[t.handle for t in inputs])
    results = tuple(_with_shape(handle, t.dtype, _shape(t)) for handle, t in zip(handles, inputs, strict=True))
    return results[0] if isinstance(input, tl.tensor) else results


def _several(input: Any) -> tuple[tl.tensor, ...]:
    return (input,) if isinstance(input, tl.tensor) else tuple(input)


def _shape(tensor: tl.tensor) -> list[int]:
    return [int(unwrap(n)) for n in tensor.shape]


def _axis(axis: int, shape: list[int]) -> int:
    if not -len(shape) <= axis < len(shape):
        raise ValueError(f"axis {axis} is out of bounds for a block of shape {tuple(shape)}")
    return axis % len(shape)


def _with_shape(handle: Handle, dtype: tl.dtype, shape: list[int]) -> tl.tensor:
    return tl.tensor(handle, tl.block_type(dtype, shape) if shape else dtype)


def static_range(start: Any, stop: Any = None, step: Any = 1, **options: Any) -> list[int]:
    return list(range(0, start, step) if stop is None else range(start, stop, step or 1))


def of_tensors(args: tuple, of_two: Callable, otherwise: Callable) -> Any:
    """Python's min and max are tl.minimum and tl.maximum to the compiler."""
    return functools.reduce(of_two, args) if any(isinstance(a, tl.tensor) for a in args) else otherwise(*args)


def is_instance(value: Any, kind: type) -> bool:
    """As the compiler answers it: what it knows as a constant is a plain number here."""
    if kind is tl.constexpr:
        return isinstance(value, (tl.constexpr, int, float, str, tl.dtype))
    return isinstance(value, kind)


def method(function: JITFunction) -> Callable:
    return lambda tensor, *args, **options: function(tensor, *args, **options)


def constant_and_tensor(operator: Callable) -> Callable:
    """`constant + tensor` is a tensor, not a constant."""

    def call(constant: tl.constexpr, other: Any) -> Any:
        result = operator(constant, other)
        return result.value if isinstance(getattr(result, "value", None), tl.tensor) else result

    return call
