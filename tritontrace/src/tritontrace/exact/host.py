"""Torch's operations between launches, on words. An operation that is not listed here is refused by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tritontrace.exact.field import NAN, NEGATIVE, POSITIVE, UNWRITTEN, Field
from tritontrace.exact.launches import Memory, NotApplicable
from tritontrace.exact.operations import comparing
from tritontrace.messages import Message, say
from tritontrace.tracing.memory import quietly, storage_key
from tritontrace.tracing.modes import Mode

Array = np.ndarray

# They move elements: done on the words as on the numbers.
MOVES = frozenset({
    "clone", "copy_", "_to_copy", "cat", "stack", "where", "masked_fill", "masked_fill_", "masked_scatter", "fill_", "zero_",
    "tril", "triu", "tril_", "triu_", "flip", "roll", "repeat", "repeat_interleave", "index", "index_select", "index_put",
    "index_put_", "_index_put_impl_", "_unsafe_index", "index_copy", "index_copy_", "gather", "scatter", "scatter_", "embedding",
    "constant_pad_nd", "diag_embed", "slice_scatter", "select_scatter", "select_backward", "slice_backward", "diagonal_backward",
    "value_selecting_reduction_backward", "new_zeros", "zeros_like", "new_ones", "ones_like", "new_full", "full_like",
})  # fmt: skip
EMPTY = frozenset({
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted",
})  # fmt: skip


class Host(Mode):
    """Torch mode that repeats torch's operations on the field words of a Memory."""

    def __init__(self, memory: Memory):
        super().__init__()
        self._memory, self._field = memory, memory.field

    @classmethod
    def is_infra_mode(cls) -> bool:
        return True

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = function._schema.name.removeprefix("aten::")
        given = [x for x in _flat((args, kwargs)) if isinstance(x, torch.Tensor)]
        exact = [x for x in given if x.is_floating_point() and self._memory.knows(x.untyped_storage())]
        if name in EMPTY:
            result = function(*args, **kwargs)
            if result.is_floating_point() and result.numel():
                self._memory.put(result, UNWRITTEN)
            return result
        if not exact:
            return function(*args, **kwargs)
        operation = _ARITHMETIC.get(name) or _ARITHMETIC.get(name.removesuffix("_")) if name not in MOVES else None
        words = None
        if name in MOVES or operation is not None:
            with quietly(), np.errstate(all="ignore"):
                words = (
                    self._moved(function, args, kwargs)
                    if operation is None
                    else self._computed(function, operation, args, kwargs)
                )
        elif name == "_local_scalar_dense" or function._schema.is_mutable:
            raise NotApplicable(_refusal(name))
        result = function(*args, **kwargs)
        results = [x for x in _flat(result) if isinstance(x, torch.Tensor)]
        if words is None:
            held = {storage_key(x) for x in given}
            if all(storage_key(x) in held or not x.numel() for x in results):
                return result  # a view
            raise NotApplicable(_refusal(name))
        for tensor, values in zip(results, words, strict=True):
            self._put(tensor, values)
        return result

    def _put(self, tensor: torch.Tensor, values: Array) -> None:
        if not tensor.numel():
            return
        with quietly():
            if tensor.is_floating_point():
                self._memory.put(tensor, values)
            else:
                tensor.copy_(torch.from_numpy(np.ascontiguousarray(values)))

    # ------------------------------------------------------------------------------------------------- two ways

    def _moved(self, function, args, kwargs) -> list[Array]:
        """The words that an operation moves, by doing it on them."""
        schema = function._schema.arguments
        by_name = {a.name: a for a in schema}
        pairs = [(schema[i], x) for i, x in enumerate(args)] + [(by_name[n], x) for n, x in kwargs.items()]
        floats = function._schema.name == "aten::copy_" and not args[0].is_floating_point()
        if floats or (kwargs.get("dtype") is not None and not kwargs["dtype"].is_floating_point):
            raise NotApplicable(say("exact.host.casts"))
        moved = {}
        for argument, x in pairs:
            if argument.name in ("dtype", "layout", "device", "pin_memory", "memory_format", "non_blocking"):
                continue
            scalar = isinstance(x, (int, float)) and argument.name in ("value", "fill_value", "other", "self")
            moved[argument.name] = self._word(x) if scalar else _map(self._as_tensor, x)
        name = function._schema.name.removeprefix("aten::")
        if name in ("_to_copy", "copy_", "clone", "contiguous"):
            source = moved.get("src", moved["self"])
            shape = moved["self"].shape
            return [source.broadcast_to(shape).numpy()]
        if name in ("zeros_like", "new_zeros", "ones_like", "new_ones", "full_like", "new_full"):
            value = self._word(
                0 if "zeros" in name else 1 if "ones" in name else (args[-1] if len(args) > 1 else kwargs["fill_value"])
            )
            size = args[1] if name.startswith("new") else args[0].shape
            return [np.full(tuple(size), value, np.int64)]
        positional = [moved.pop(a.name) for a in schema if not a.kwarg_only and a.name in moved]
        result = function(*positional, **moved)
        return [x.numpy() for x in _flat(result) if isinstance(x, torch.Tensor)]

    def _word(self, x: float) -> int:
        return int(self._field.constant(float(np.float32(x))))

    def _as_tensor(self, x: Any) -> Any:
        """The words of a tensor of floats; other things as they are."""
        if not isinstance(x, torch.Tensor) or not x.is_floating_point():
            return x
        return torch.from_numpy(self._array(x).copy())

    def _array(self, x: torch.Tensor) -> Array:
        return self._memory.words(x).of(x) if x.numel() else np.zeros(x.shape, np.int64)

    def _computed(self, function, operation: Callable, args, kwargs) -> list[Array]:
        """The words that arithmetic gives."""
        field = self._field

        def argument(x: Any) -> Any:
            if isinstance(x, torch.Tensor):
                return self._array(x) if x.is_floating_point() else _Integers(x.detach().cpu().numpy())
            return x

        kept = {
            n: _map(argument, x)
            for n, x in kwargs.items()
            if n not in ("dtype", "layout", "device", "memory_format", "out")
        }
        result = operation(field, *_map(argument, args), **kept)
        return list(result) if isinstance(result, tuple) else [result]


class _Integers(np.ndarray):
    """Whole numbers and truths of a tensor, told from words."""

    def __new__(cls, values: Array) -> _Integers:
        return values.view(cls)


def _refusal(name: str) -> Message:
    return say("exact.host.number") if name == "_local_scalar_dense" else say("exact.host.operation", operation=name)


def _flat(x: Any) -> list:
    if isinstance(x, (list, tuple)):
        return [y for part in x for y in _flat(part)]
    return [y for part in x.values() for y in _flat(part)] if isinstance(x, dict) else [x]


def _map(function: Callable, x: Any) -> Any:
    if isinstance(x, (list, tuple)) and not isinstance(x, torch.Size):
        return type(x)(_map(function, y) for y in x)
    return function(x)


# ----------------------------------------------------------------------------------------------------- arithmetic


def _w(f: Field, x: Any) -> Array:
    """Words of an operand: an array of words, integers, or a number of the host's."""
    if isinstance(x, _Integers):
        return f.integers(np.asarray(x))
    if isinstance(x, np.ndarray):
        return x
    return f.constant(float(np.float32(x)))


def _axes(x: Array, dim: Any) -> tuple[int, ...]:
    if dim is None or dim == []:
        return tuple(range(x.ndim))
    return tuple(sorted(d % x.ndim for d in (dim if isinstance(dim, (list, tuple)) else [dim])))


def _fold(combine: Callable[[Field, Array, int], Array]) -> Callable:
    def folded(f: Field, x: Any, dim: Any = None, keepdim: bool = False) -> Array:
        x = _w(f, x)
        for axis in reversed(_axes(x, dim)):
            x = np.expand_dims(combine(f, x, axis), axis)
        axes = _axes(x, dim)
        return x if keepdim else x.reshape([n for i, n in enumerate(x.shape) if i not in axes])

    return folded


def _largest(f: Field, x: Array, axis: int) -> Array:
    result, *rest = np.moveaxis(x, axis, 0)
    for row in rest:
        result = f.larger(result, row, propagate=True)
    return result


def _smallest(f: Field, x: Array, axis: int) -> Array:
    result, *rest = np.moveaxis(x, axis, 0)
    for row in rest:
        result = f.smaller(result, row, propagate=True)
    return result


_sum, _amax, _amin = _fold(lambda f, x, axis: f.total(x, axis)), _fold(_largest), _fold(_smallest)


def _max(f: Field, x: Array, dim: int | None = None, keepdim: bool = False) -> Array | tuple[Array, Array]:
    if dim is None:
        return _amax(f, x)
    at = np.expand_dims(f.keys(x).argmax(dim), dim)
    values = np.take_along_axis(x, at, dim)
    return (values, at) if keepdim else (values.squeeze(dim), at.squeeze(dim))


def _mean(f: Field, x: Array, dim: Any = None, keepdim: bool = False) -> Array:
    count = math.prod(x.shape[axis] for axis in _axes(x, dim))
    return f.over(_sum(f, x, dim, keepdim), _w(f, count))


def _var(f: Field, x: Array, dim: Any = None, *, correction: float = 1, keepdim: bool = False) -> Array:
    away = f.minus(x, _mean(f, x, dim, True))
    count = math.prod(x.shape[axis] for axis in _axes(x, dim))
    return f.over(_sum(f, f.times(away, away), dim, keepdim), _w(f, count - correction))


def _product(f: Field, a: Array, b: Array) -> Array:
    return f.matmul(np.ascontiguousarray(a), np.ascontiguousarray(b))


def _addmm(f: Field, c: Array, a: Array, b: Array, *, beta: float = 1, alpha: float = 1) -> Array:
    return f.plus(f.times(c, _w(f, beta)), f.times(_product(f, a, b), _w(f, alpha)))


def _addr(f: Field, c: Array, a: Array, b: Array, *, beta: float = 1, alpha: float = 1) -> Array:
    return _addmm(f, c, a[:, None], b[None, :], beta=beta, alpha=alpha)


def _softmax(f: Field, x: Array, dim: int, half_to_float: bool = False) -> Array:
    e = f.exp(f.minus(x, _amax(f, x, dim, True)))
    return f.over(e, _sum(f, e, dim, True))


def _logsumexp(f: Field, x: Array, dim: Any, keepdim: bool = False) -> Array:
    largest = _amax(f, x, dim, True)
    largest = np.where(largest == NEGATIVE, 0, largest)
    result = f.plus(f.log(_sum(f, f.exp(f.minus(x, largest)), dim, True)), largest)
    return result if keepdim else result.reshape([n for i, n in enumerate(x.shape) if i not in _axes(x, dim)])


def _logaddexp(f: Field, a: Array, b: Array) -> Array:
    return _logsumexp(f, np.stack(np.broadcast_arrays(a, b)), 0)


def _softmax_backward(f: Field, grad: Array, y: Array, dim: int, dtype: Any = None) -> Array:
    return f.times(y, f.minus(grad, _sum(f, f.times(grad, y), dim, True)))


def _log_softmax_backward(f: Field, grad: Array, y: Array, dim: int, dtype: Any = None) -> Array:
    return f.minus(grad, f.times(f.exp(y), _sum(f, grad, dim, True)))


def _nan_to_num(
    f: Field, x: Array, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Array:
    largest = torch.finfo(torch.float32).max
    x = np.where(x == NAN, _w(f, nan or 0.0), x)
    x = np.where(x == POSITIVE, _w(f, largest if posinf is None else posinf), x)
    return np.where(x == NEGATIVE, _w(f, -largest if neginf is None else neginf), x)


def _safe_softmax(f: Field, x: Array, dim: int, dtype: Any = None) -> Array:
    return np.where((x == NEGATIVE).all(dim, keepdims=True), 0, _softmax(f, x, dim))


def _nll(f: Field, x: Array, target: Array, weight: Any, reduction: int, ignored: int) -> tuple[Array, Array]:
    if weight is not None:
        raise NotApplicable(say("exact.host.weights"))
    target = np.asarray(target)
    kept = target != ignored
    loss = f.minus(np.take_along_axis(x, np.where(kept, target, 0)[..., None], -1)[..., 0])
    loss, count = np.where(kept, loss, 0), _w(f, float(kept.sum()))
    if reduction == 0:
        return loss, np.array(0)
    return (f.over(_sum(f, loss), count) if reduction == 1 else _sum(f, loss)), count


def _silu_backward(f: Field, grad: Array, x: Array) -> Array:
    s = f.sigmoid(x)
    return f.times(grad, f.times(s, f.plus(f.one, f.times(x, f.minus(f.one, s)))))


def _gelu(f: Field, x: Array, *, approximate: str = "none") -> Array:
    half, one = _w(f, 0.5), f.one
    if approximate == "none":
        inner = f.named("erf")(f.times(x, _w(f, math.sqrt(0.5))))
    else:
        cube = f.times(f.times(x, x), x)
        inner = f.tanh(f.times(_w(f, math.sqrt(2 / math.pi)), f.plus(x, f.times(_w(f, 0.044715), cube))))
    return f.times(f.times(half, x), f.plus(one, inner))


def _cumsum(f: Field, x: Array, dim: int) -> Array:
    lanes = np.moveaxis(x, dim, 0).copy()
    for i in range(1, len(lanes)):
        lanes[i] = f.plus(lanes[i - 1], lanes[i])
    return np.moveaxis(lanes, 0, dim)


def _sums(function: Callable) -> Callable:
    """a + alpha b and the like."""

    def result(f: Field, a: Any, b: Any, alpha: float = 1) -> Array:
        b = _w(f, b)
        return function(f, _w(f, a), b if alpha == 1 else f.times(b, _w(f, alpha)))

    return result


def _of(method: Callable) -> Callable:
    return lambda f, *xs: method(f, *[_w(f, x) for x in xs])


def _compared(predicate: str) -> Callable:
    return lambda f, a, b: comparing(f, predicate)(*np.broadcast_arrays(_w(f, a), _w(f, b)))


def _clamp(f: Field, x: Array, low: Any = None, high: Any = None) -> Array:
    x = x if low is None else f.larger(x, _w(f, low))
    return x if high is None else f.smaller(x, _w(f, high))


def _relu_backward(f: Field, grad: Array, x: Array, threshold: float) -> Array:
    return np.where(_compared("ole")(f, x, threshold), 0, grad)


def _named(name: str) -> Callable:
    return lambda f, *xs: f.named(name)(*[_w(f, x) for x in xs])


_ARITHMETIC: dict[str, Callable] = {
    "add": _sums(Field.plus),
    "sub": _sums(Field.minus),
    "rsub": _sums(lambda f, a, b: f.minus(b, a)),
    "mul": _of(Field.times),
    "div": _of(Field.over),
    "neg": _of(lambda f, x: f.minus(x)),
    "reciprocal": _of(Field.inverse),
    "addcmul": lambda f, a, b, c, value=1: f.plus(a, f.times(_w(f, value), f.times(b, c))),
    "square": _of(lambda f, x: f.times(x, x)),
    "exp": _of(Field.exp),
    "exp2": _of(Field.exp2),
    "log": _of(Field.log),
    "log2": _of(Field.log2),
    "sqrt": _of(Field.sqrt),
    "log1p": _of(lambda f, x: f.log(f.plus(x, f.one))),
    "expm1": _of(lambda f, x: f.minus(f.exp(x), f.one)),
    "rsqrt": _of(Field.rsqrt),
    "pow": _of(Field.power),
    "sigmoid": _of(Field.sigmoid),
    "tanh": _of(Field.tanh),
    "silu": _of(lambda f, x: f.times(x, f.sigmoid(x))),
    "silu_backward": _silu_backward,
    "gelu": _gelu,
    "sigmoid_backward": lambda f, g, y: f.times(g, f.times(y, f.minus(f.one, y))),
    "tanh_backward": lambda f, g, y: f.times(g, f.minus(f.one, f.times(y, y))),
    "relu": _of(lambda f, x: f.larger(x, np.array(0))),
    "threshold_backward": _relu_backward,
    "abs": _of(Field.absolute),
    "maximum": _of(lambda f, a, b: f.larger(a, b, True)),
    "minimum": _of(lambda f, a, b: f.smaller(a, b, True)),
    "clamp": _clamp,
    "clamp_min": _clamp,
    "clamp_max": lambda f, x, high: _clamp(f, x, None, high),
    "sum": _sum,
    "mean": _mean,
    "amax": _amax,
    "amin": _amin,
    "max": _max,
    "var": _var,
    "cumsum": _cumsum,
    "logsumexp": _logsumexp,
    "logaddexp": _of(_logaddexp),
    "mm": _product,
    "bmm": _product,
    "matmul": _product,
    "addmm": _addmm,
    "addr": _addr,
    "baddbmm": _addmm,
    "dot": lambda f, a, b: _product(f, a[None], b[:, None])[0, 0],
    "mv": lambda f, a, b: _product(f, a, b[:, None])[:, 0],
    "_softmax": _softmax,
    "_log_softmax": lambda f, x, dim, half=False: f.minus(x, _logsumexp(f, x, dim, True)),
    "_softmax_backward_data": _softmax_backward,
    "_log_softmax_backward_data": _log_softmax_backward,
    "nan_to_num": _nan_to_num,
    "_safe_softmax": _safe_softmax,
    "nll_loss_forward": _nll,
    "isnan": lambda f, x: (x == NAN) | (x == UNWRITTEN),
    "isinf": lambda f, x: (x == NEGATIVE) | (x == POSITIVE),
    "isfinite": lambda f, x: x >= 0,
    **{name: _named(name) for name in ("erf", "sin", "cos", "tan", "atan")},
    **{name: _compared("une" if name == "ne" else "o" + name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
}
