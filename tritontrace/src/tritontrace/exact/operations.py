"""The operations of TTIR on the words of a field: rounding and formats mean nothing, floats are words, integers stay integers."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from math import prod
from typing import Any

import numpy as np

from tritontrace.exact.field import NAN, UNWRITTEN, Field
from tritontrace.messages import say
from tritontrace.tracing import blocks, operations
from tritontrace.tracing.arithmetic import Arithmetic
from tritontrace.tracing.operations import Lanewise, NotHere
from tritontrace.ttir import ir
from tritontrace.ttir.elements import FLOATS, dtype_of

Array = np.ndarray


class NoMeaning(NotHere):
    """Raised for an operation that has no meaning in a finite field."""


WORD = np.dtype(np.int64)


@cache
def arithmetic(field: Field) -> Arithmetic:
    """Return the arithmetic of a finite field, for a trace."""
    folds = _folds(field)
    return Arithmetic(
        lanewise=partial(_lanewise, field),
        blocks={
            **blocks.OPERATIONS,
            "tt.dot": partial(_dot, field),
            "tt.dot_scaled": _no_scaled_dot,
            "tt.gather": partial(blocks.gather, poison=_poison),
        },
        reductions={**operations.REDUCTIONS, **{name: _reduced(fold) for name, fold in folds.items()}},
        scans={**operations.SCANS, **{name: _scanned(fold) for name, fold in folds.items()}},
        constant=partial(_constant, field),
        argument=lambda number, element: np.array(
            [field.constant(float(np.float32(number)))] if element in FLOATS else [number]
        ).astype(WORD if element in FLOATS else dtype_of(element)),
        poison=_poison,
        is_poison=lambda values, element: np.zeros((1,) * values.ndim, bool),  # its own comparison tells
        from_memory=lambda values, element: values if element in FLOATS else operations.from_memory(values, element),
        to_memory=lambda values, element: values if element in FLOATS else operations.to_memory(values, element),
        held=lambda element: WORD if element in FLOATS else operations.memory_dtype(element),
        updated=partial(_updated, field),
        added=partial(_added, field),
    )


def _poison(element: str) -> Array:
    return np.array(UNWRITTEN) if element in FLOATS else operations.poison(element)


def _constant(field: Field, value: Any, type: ir.Type) -> Array:
    if type.element not in FLOATS:
        return operations.constant(value, type)
    words = np.empty(np.shape(value), WORD)
    bits = {"f16": 11, "bf16": 8}.get(type.element, 24)
    for place in np.ndindex(words.shape):
        number = functools.reduce(lambda nested, i: nested[i], place, value)
        words[place] = field.constant(float(np.float32(number)), bits)
    return words.reshape((1,) * (1 + len(type.shape)) if words.ndim == 0 else (1, *type.shape))


# ----------------------------------------------------------------------------------------------------- lane by lane


def _lanewise(field: Field, op: ir.Operation, kinds: Sequence[ir.Type]) -> Lanewise | None:
    name, results = op.name, [kind for _, kind in op.results]
    if not any(kind.element in FLOATS for kind in (*kinds, *results)):
        return operations.lanewise(op, kinds)
    if (function := _arithmetic(field).get(name)) is not None:
        return Lanewise(function, "float")
    match name:
        case "arith.select":
            return operations.lanewise(op, kinds)
        case "arith.cmpf":
            return Lanewise(comparing(field, op.attributes["predicate"]))
        case "arith.sitofp":
            return Lanewise(field.integers if kinds[0].element != "i1" else lambda x: field.integers(-x.astype(WORD)))
        case "arith.uitofp":
            return Lanewise(lambda x: field.integers(x.view(f"u{x.itemsize}") if x.dtype.kind == "i" else x))
        case "arith.extf" | "arith.truncf" | "tt.fp_to_fp":
            return Lanewise(lambda x: x)
        case "arith.fptosi" | "arith.fptoui":
            raise NoMeaning(say("exact.no_meaning.integer"))
        case "arith.bitcast" | "tt.bitcast":
            if kinds[0].element == results[0].element:
                return Lanewise(lambda x: x)
            raise NoMeaning(say("exact.no_meaning.bits"))
        case "tt.clampf":
            propagate = op.attributes.get("propagateNan", "none") != "none"
            return Lanewise(lambda x, a, b: field.smaller(field.larger(x, a, propagate), b, propagate), "float")
        case "tt.extern_elementwise":
            return Lanewise(_libdevice(field, op.attributes["symbol"], results[0].element), "special")
        case "math.floor" | "math.ceil" | "math.trunc" | "math.roundeven" | "arith.remf" | "math.copysign":
            raise NoMeaning(say("exact.no_meaning.sign", function=name.partition(".")[2]))
    if name.startswith("math."):
        return Lanewise(field.named(name.removeprefix("math.")), "special")
    return operations.lanewise(op, kinds)


@cache
def _arithmetic(field: Field) -> dict[str, Callable[..., Array]]:
    return {
        "arith.addf": field.plus, "arith.subf": field.minus, "arith.mulf": field.times, "arith.divf": field.over,
        "tt.precise_divf": field.over, "arith.negf": field.minus, "math.fma": field.fma, "math.absf": field.absolute,
        "arith.maxnumf": field.larger, "arith.minnumf": field.smaller,
        "arith.maximumf": partial(field.larger, propagate=True), "arith.minimumf": partial(field.smaller, propagate=True),
        "math.exp": field.exp, "math.exp2": field.exp2, "math.log": field.log, "math.log2": field.log2,
        "math.sqrt": field.sqrt, "tt.precise_sqrt": field.sqrt, "math.rsqrt": field.rsqrt, "math.powf": field.power,
        "math.tanh": field.tanh,
    }  # fmt: skip


def comparing(field: Field, predicate: str) -> Callable[[Array, Array], Array]:
    """Return the comparison that arith.cmpf names: ordered ones are false, and unordered ones true, where a word is no number."""
    if predicate in ("true", "false"):
        return lambda a, b: np.full(np.broadcast_shapes(a.shape, b.shape), predicate == "true")

    def number(a: Array) -> Array:
        return (a != NAN) & (a != UNWRITTEN)

    def compare(a: Array, b: Array) -> Array:
        field.note(a, b)
        both = number(a) & number(b)
        if predicate in ("ord", "uno"):
            return both if predicate == "ord" else ~both
        equal = field.same(a, b)
        match predicate[1:]:
            case "eq":
                result = equal
            case "ne":
                result = ~equal
            case "gt" | "ge":
                result = (field.keys(a) > field.keys(b)) & ~equal | (equal & (predicate[1:] == "ge"))
            case _:
                result = (field.keys(a) < field.keys(b)) & ~equal | (equal & (predicate[1:] == "le"))
        return result & both if predicate[0] == "o" else result | ~both

    return compare


def _libdevice(field: Field, symbol: str, target: str) -> Callable[..., Array]:
    name = symbol.removeprefix("__nv_").removeprefix("fast_")
    name = re.sub("_rn$", "", name)
    name = name[:-1] if name.endswith("f") and name not in ("erf", "normcdf") else name
    known = {
        "exp": field.exp, "exp2": field.exp2, "log": field.log, "log2": field.log2, "sqrt": field.sqrt, "fsqrt": field.sqrt,
        "rsqrt": field.rsqrt, "pow": field.power, "tanh": field.tanh, "fma": field.fma, "fadd": field.plus, "fsub": field.minus,
        "fmul": field.times, "fdiv": field.over, "fdivide": field.over, "div": field.over, "rcp": field.inverse,
        "frcp": field.inverse, "fmax": field.larger, "fmin": field.smaller, "fabs": field.absolute, "erf": field.named("erf"),
        "exp10": lambda x: field.power(field.integers(np.array(10)), x),
        "log1p": lambda x: field.log(field.plus(x, field.one)),
        "expm1": lambda x: field.minus(field.exp(x), field.one),
    }  # fmt: skip
    if name in known:
        return known[name]
    if target not in FLOATS or re.search("floor|ceil|trunc|rint|round|fmod|remainder|copysign|_as_|2float", name):
        raise NoMeaning(say("exact.no_meaning.libdevice", function=name))
    return field.named(name)


# ----------------------------------------------------------------------------------------------------- whole blocks


def _dot(field: Field, op: ir.Operation, kinds: Sequence[ir.Type]) -> blocks.Whole:
    a, b, acc = kinds[:3]
    if acc.element not in FLOATS:
        return blocks.OPERATIONS["tt.dot"](op, kinds)

    def dot(x: Array, y: Array, z: Array) -> Array:
        return field.plus(field.matmul(blocks.spread(x, a.shape), blocks.spread(y, b.shape)), z)

    return blocks.Whole(dot, "dot", 2 * prod(acc.shape) * a.shape[-1])


def _no_scaled_dot(op: ir.Operation, kinds: Sequence[ir.Type]) -> blocks.Whole:
    raise NoMeaning(say("exact.no_meaning.scales"))


Combine = Callable[[Array, Array], Array]


def _folds(field: Field) -> dict[str, Combine]:
    table = _arithmetic(field)
    names = ["addf", "mulf", "maxnumf", "minnumf", "maximumf", "minimumf"]
    return {f"arith.{name}": table[f"arith.{name}"] for name in names}


def _reduced(combine: Combine) -> operations.Fold:
    def fold(values: Array, axis: int, element: str) -> Array:
        return operations.halved(combine, np.moveaxis(values, axis, -1))[..., 0]

    return fold


def _scanned(combine: Combine) -> operations.Fold:
    def scan(values: Array, axis: int, element: str) -> Array:
        return np.moveaxis(operations.doubled(combine, np.moveaxis(values, axis, -1)), -1, axis)

    return scan


# ----------------------------------------------------------------------------------------------------- atomics


def _updated(field: Field, kind: str, old: Array, new: Array, want: Array | None, element: str) -> Array:
    if element not in FLOATS:
        return operations.updated(kind, old, new, want, element)
    match kind:
        case "fadd":
            return field.plus(old, new)
        case "max" | "min":
            return (field.larger if kind == "max" else field.smaller)(old, new)
        case "exch":
            return new
        case "cas":
            return np.where(old == want, new, old)
    raise NoMeaning(say("exact.no_meaning.atomic", kind=kind))


def _added(field: Field, sums: Array, places: Array, values: Array, element: str) -> Array:
    if element not in FLOATS:
        return operations.summed(sums, places, values, element)
    order = np.argsort(places, kind="stable")
    starts = np.flatnonzero(np.diff(places[order], prepend=-1))
    for place, part in zip(places[order][starts], np.split(values[order], starts[1:]), strict=True):
        sums[place] = field.plus(sums[place], field.total(part, 0))
    return sums
