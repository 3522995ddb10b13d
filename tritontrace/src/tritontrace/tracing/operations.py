"""Lane-wise operations of TTIR, computed on numpy arrays.

How values are held: i1 as bool; i8 to i64 as signed integers, whatever the sign means to the operation; a pointer as int64;
f32 and f64 as such; f16, bf16 and fp8 as float32 numbers that the format can hold, rounded after each operation. The shape of
an array is (programs or 1, *axes of the block, each full or 1): operands broadcast. No operation writes into its operands,
and one that changes nothing returns its operand. The caller silences numpy's floating-point warnings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
import torch

from tritontrace.messages import Message, MessageError, say
from tritontrace.ttir import ir, numerics
from tritontrace.ttir.elements import DTYPES, FLOATS, FP8, HALF, dtype_of, itemsize
from tritontrace.ttir.numerics import as_tensor, has_nan, is_poison

Array = np.ndarray


class Undefined(MessageError):
    """Raised, with a message, for an operation that has no meaning on a GPU; the evaluator adds its line."""


class NotHere(MessageError):
    """Raised for something that only a GPU can do. site: the place that asks for it, which the evaluator adds if it is None."""

    def __init__(self, message: Message, site: Any = None) -> None:
        super().__init__(message)
        self.site = site


@dataclass(frozen=True)
class Lanewise:
    """The function of one lane-wise operation, and its count of floating-point operations.

    function   operands -> the result, held as its type is
    flops      what its floating-point operations count as: "float", "special" (exp and the like), or None
    per_lane   how many of them each lane of the result takes
    """

    function: Callable[..., Array]
    flops: Literal["float", "special"] | None = None
    per_lane: int = 1


# ----------------------------------------------------------------------------------------------------- how values are held

_HALVED = {"f16": torch.Tensor.half, "bf16": torch.Tensor.bfloat16}  # faster than `to` on small blocks
_FEW = 1 << 10  # values that numpy has converted before torch begins
_KEPT = {"f16": 0xFFFFE000, "bf16": 0xFFFF0000}  # of the bits of a float32 NaN


def _halves(values: Array, element: str) -> Array:
    """The bits of float32 numbers rounded to a half precision; of NaNs, those of some NaN."""
    if element == "f16" and values.size <= _FEW:
        return values.astype(np.float16).view(np.int16)
    return _HALVED[element](as_tensor(values)).view(torch.int16).numpy()


def _of_halves(bits: Array, element: str) -> Array:
    """The float32 numbers of such bits."""
    if bits.size > _FEW:
        return as_tensor(bits).view(HALF[element]).float().numpy()
    if element == "f16":
        return bits.view(np.float16).astype(np.float32)
    return (bits.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def rounded(values: Array, element: str) -> Array:
    """Round floats (float32 or float64) once to the element's numbers: to nearest, ties to even. Poison stays poison."""
    if element in ("f32", "f64"):
        return values.astype(DTYPES[element], copy=False)
    values = numerics.to_odd(values)
    if element in FP8:
        return _fp8_numbers(element, False).take(numerics.upper_half(values))
    result = _of_halves(_halves(values, element), element)
    return _with_the_nans_of(values, result, element) if has_nan(values) else result


def cut(values: Array, element: str) -> Array:
    """Round as `rounded`, but toward zero: nothing overflows."""
    if element in ("f32", "f64"):
        return numerics.to_float(values, DTYPES[element], toward_zero=True)
    values = numerics.to_odd(values)
    if element in FP8:
        return _fp8_numbers(element, True).take(numerics.upper_half(values))
    if element == "bf16":
        result = (values.view(np.uint32) & np.uint32(_KEPT[element])).view(np.float32)
    else:
        nearest = as_tensor(values).half()
        away = torch.from_numpy(np.asarray(np.abs(nearest.float().numpy()) > np.abs(values)))
        result = (nearest.view(torch.int16) - away.to(torch.int16)).view(torch.float16).float().numpy()
    return _with_the_nans_of(values, result, element) if has_nan(values) else result


def _with_the_nans_of(values: Array, result: Array, element: str) -> Array:
    """Repairs NaNs, whose payload torch keeps in some lanes only."""
    nan = np.isnan(values)
    result.view(np.uint32)[nan] = values.view(np.uint32)[nan] & np.uint32(_KEPT[element]) | np.uint32(0x400000)
    return result


def to_memory(values: Array, element: str) -> Array:
    """Convert values to their bits in memory, as signed integers: int8 for i1 and fp8, int64 for pointers."""
    if element in FP8:
        return _fp8_codes(element).take(values.view(np.uint32) >> 16)
    if element in HALF:
        bits = _halves(values, element)
        if has_nan(values):
            nan, wide = np.isnan(values), values.view(np.uint32)
            half = wide >> 16 if element == "bf16" else (wide >> 16 & 0x8000) | 0x7C00 | (wide >> 13 & 0x3FF)
            bits[nan] = half[nan].astype(np.uint16).view(np.int16)
        return bits
    return values.view(f"i{values.itemsize}")


def from_memory(bits: Array, element: str) -> Array:
    """Convert bits in memory to values, the inverse of `to_memory`, those of NaNs too."""
    if element in FP8:
        return _fp8_values(element).take(bits.view(np.uint8))
    if element in HALF:
        values = _of_halves(bits, element)
        if element == "f16" and has_nan(values):  # those that signal would be quiet now
            nan, half = np.isnan(values), bits.view(np.uint16).astype(np.uint32)
            values.view(np.uint32)[nan] = ((half & 0x8000) << 16 | 0x7F800000 | (half & 0x3FF) << 13)[nan]
        return values
    return bits != 0 if element == "i1" else bits.view(DTYPES[element])


@cache
def _fp8_values(element: str) -> Array:
    """float32 of each of the 256 codes; NaNs have the code in their payload."""
    codes = np.arange(256, dtype=np.uint32)
    values = numerics.widen(codes.astype(np.uint8), FP8[element])
    nans = ((codes & 0x80) << 8 | 0x7F80 | (codes & 0x7F) | 0x40) << 16
    return np.where(np.isnan(values), nans.view(np.float32), values)


@cache
def _fp8_codes(element: str) -> Array:
    """The code of each number that the format holds, by the upper half of its float32 bits, which is all of it."""
    upper = np.arange(1 << 16, dtype=np.uint32) << 16
    codes = numerics.narrow(upper.view(np.float32), FP8[element])  # NaNs that no code has, poison among them
    codes[_fp8_values(element).view(np.uint32) >> 16] = np.arange(256)
    return codes.view(np.int8)


@cache
def _fp8_numbers(element: str, toward_zero: bool) -> Array:
    """The number that each `upper_half` is rounded to."""
    values = (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32)
    numbers = _fp8_values(element)[numerics.narrow(values, FP8[element], toward_zero)]
    return np.where(is_poison(values), values, numbers)


def constant(value: Any, type: ir.Type) -> Array:
    """Return the array of a constant: one number for all lanes, (1, 1, ...), or nested tuples of the type's shape, (1, *shape)."""
    if type.element in FLOATS:
        array = rounded(np.asarray(value, np.float64), type.element)
    elif type.element == "i1":
        array = np.asarray(value).astype(bool)
    else:
        dtype = DTYPES[type.element]
        value = int(value) if isinstance(value, float) else value  # 0.0 beyond the edges of a tensor
        mask = (1 << 8 * dtype.itemsize) - 1
        array = np.asarray(np.asarray(value, object) & mask, f"u{dtype.itemsize}").view(dtype)  # -1 or 0xFFFFFFFF
    return array.reshape((1,) * (1 + len(type.shape)) if array.ndim == 0 else (1, *type.shape))


def poison(element: str) -> Array:
    """Return the value of a lane that was never written: a scalar array."""
    return numerics.poison(DTYPES[element])


# ----------------------------------------------------------------------------------------------------- floats


def _with_its_nans(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Decorate a function in which numpy loses the payload of a NaN."""

    def total(x: Array) -> Array:
        result = function(x)
        if has_nan(x):
            result = np.where(np.isnan(x), x, result)
        return result

    return total


_FLOAT = {
    "arith.addf": np.add, "arith.subf": np.subtract, "arith.mulf": np.multiply, "arith.divf": np.divide,
    "tt.precise_divf": np.divide,
}  # fmt: skip
# Those whose result needs no rounding.
_EXACT = {
    "arith.remf": np.fmod, "arith.negf": np.negative, "arith.maxnumf": numerics.larger, "arith.minnumf": numerics.smaller,
    "arith.maximumf": np.maximum, "arith.minimumf": np.minimum, "math.absf": np.abs, "math.floor": np.floor, "math.ceil": np.ceil,
    "math.trunc": np.trunc, "math.roundeven": np.rint, "math.copysign": np.copysign,
}  # fmt: skip
_SPECIAL = {
    "math.sqrt": np.sqrt, "tt.precise_sqrt": np.sqrt, "math.rsqrt": numerics.rsqrt, "math.powf": np.power, "math.atan2": np.arctan2,
    **{f"math.{name}": _with_its_nans(function) for name, function in {
        "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
        "sin": np.sin, "cos": np.cos, "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asin": np.arcsin,
        "acos": np.arccos, "atan": np.arctan, "cbrt": np.cbrt, "erf": numerics.erf,
    }.items()},
}  # fmt: skip
_ORDERED = {"eq": np.equal, "gt": np.greater, "ge": np.greater_equal, "lt": np.less, "le": np.less_equal}
# Where either is NaN, "ult" holds: it is what "oge" is not.
_OPPOSITE = {"eq": "ne", "gt": "le", "ge": "lt", "lt": "ge", "le": "gt", "ne": "eq"}


def _rounding(function: Callable[..., Array], element: str) -> Callable[..., Array]:
    if element in ("f32", "f64"):
        return function
    return lambda *operands: rounded(function(*operands), element)


def _fma(element: str) -> Callable[..., Array]:
    return lambda x, y, z: rounded(numerics.wide_fma(x, y, z), element)


def _clamp(propagate_nan: bool) -> Callable[..., Array]:
    if propagate_nan:
        return lambda x, low, high: np.minimum(np.maximum(x, low), high)
    return lambda x, low, high: numerics.smaller(numerics.larger(x, low), high)


def _comparing_floats(predicate: str) -> Callable[..., Array]:
    if predicate in ("true", "false"):
        return lambda a, b: np.full(np.broadcast_shapes(a.shape, b.shape), predicate == "true")
    if predicate == "ord":
        return lambda a, b: (a == a) & (b == b)
    if predicate == "uno":
        return lambda a, b: (a != a) | (b != b)
    if predicate == "une":
        return np.not_equal
    if predicate == "one":
        return lambda a, b: (a < b) | (a > b)
    if predicate == "ueq":
        return lambda a, b: ~((a < b) | (a > b))
    if predicate[0] == "o":
        return _ORDERED[predicate[1:]]
    opposite = _ORDERED[_OPPOSITE[predicate[1:]]]
    return lambda a, b: ~opposite(a, b)


# ----------------------------------------------------------------------------------------------------- integers


def _divide_unsigned(a: Array, b: Array) -> Array:
    """Divide unsigned arrays. The result has all bits set where b is 0."""
    if b.all():
        return a // b
    zero = b == 0
    return np.where(zero, b.dtype.type(np.iinfo(b.dtype).max), a // np.where(zero, b.dtype.type(1), b))


def _divui(a: Array, b: Array) -> Array:
    return _divide_unsigned(_unsigned(a), _unsigned(b)).view(a.dtype)


def _divsi(a: Array, b: Array) -> Array:
    """Divide toward zero. The result is -1 where b is 0; the smallest number divided by -1 is itself."""
    if _not_negative(a) and _not_negative(b):
        return _divui(a, b)
    quotient = _divide_unsigned(_unsigned(np.abs(a)), _unsigned(np.abs(b))).view(a.dtype)
    sign = a ^ b
    sign >>= 8 * a.itemsize - 1  # -1 where the quotient is negative, else 0
    quotient ^= sign
    quotient -= sign
    return quotient if b.all() else np.where(b == 0, a.dtype.type(-1), quotient)


def _remainder(divide: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """Make the remainder of that division. Where b is 0, it is the dividend."""

    def rest(a: Array, b: Array) -> Array:
        product = divide(a, b)
        product *= b
        return np.subtract(a, product, out=product)

    return rest


def _not_negative(a: Array) -> bool:
    return bool(a.min(initial=0) == 0)


def _unsigned(a: Array) -> Array:
    return a.view(f"u{a.itemsize}")


def _as_unsigned(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda a, b: function(_unsigned(a), _unsigned(b)).view(a.dtype)


def _first(a: Array, b: Array) -> Array:
    return np.broadcast_to(a, np.broadcast_shapes(a.shape, b.shape))


_INTEGER = {
    "arith.addi": np.add, "arith.subi": np.subtract, "arith.muli": np.multiply,
    "arith.divsi": _divsi, "arith.divui": _divui, "arith.remsi": _remainder(_divsi), "arith.remui": _remainder(_divui),
    "arith.andi": np.bitwise_and, "arith.ori": np.bitwise_or, "arith.xori": np.bitwise_xor,
    # By as much as there are bits or more, numpy leaves 0 or the sign, as PTX does.
    "arith.shli": np.left_shift, "arith.shrsi": np.right_shift, "arith.shrui": _as_unsigned(np.right_shift),
    "arith.maxsi": np.maximum, "arith.minsi": np.minimum,
    "arith.maxui": _as_unsigned(np.maximum), "arith.minui": _as_unsigned(np.minimum),
    "math.absi": np.abs, "tt.mulhiui": numerics.high_half,
}  # fmt: skip
# Of one bit: sums are modulo 2, and signed truth is -1.
_BOOLEAN = {
    "arith.addi": np.logical_xor, "arith.subi": np.logical_xor, "arith.muli": np.logical_and,
    "arith.divsi": lambda a, b: a | ~b, "arith.divui": lambda a, b: a | ~b,
    "arith.remsi": lambda a, b: a & ~b, "arith.remui": lambda a, b: a & ~b,
    "arith.andi": np.logical_and, "arith.ori": np.logical_or, "arith.xori": np.logical_xor,
    "arith.shli": lambda a, b: a & ~b, "arith.shrsi": _first, "arith.shrui": lambda a, b: a & ~b,
    "arith.maxsi": np.logical_and, "arith.minsi": np.logical_or, "arith.maxui": np.logical_or, "arith.minui": np.logical_and,
    "math.absi": lambda a: a, "tt.mulhiui": lambda a, b: a & b & False,
}  # fmt: skip


def _comparing_integers(predicate: str, element: str) -> Callable[..., Array]:
    if predicate in ("eq", "ne"):
        return np.equal if predicate == "eq" else np.not_equal
    function = _ORDERED[predicate[1:]]
    if element == "i1":  # numpy's false < true; as signed numbers, true is the smaller one
        return (lambda a, b: function(b, a)) if predicate[0] == "s" else function
    if predicate[0] == "s":
        return function
    return lambda a, b: function(_unsigned(a), _unsigned(b))


# ----------------------------------------------------------------------------------------------------- conversions


def _same(x: Array) -> Array:
    return x


def _extended(signed: bool, source: str, target: str) -> Callable[[Array], Array]:
    dtype = DTYPES[target]
    if source == "i1" and signed:
        return lambda x: -x.astype(dtype)
    if source == "i1" or signed:
        return lambda x: x.astype(dtype, copy=False)
    return lambda x: _unsigned(x).astype(dtype)


def _truncated(target: str) -> Callable[[Array], Array]:
    dtype = DTYPES[target]
    return (lambda x: (x & 1).astype(bool)) if target == "i1" else lambda x: x.astype(dtype, copy=False)


def _to_float(signed: bool, source: str, target: str) -> Callable[[Array], Array]:
    """Convert to bf16 by way of float32, as Triton's own lowering does; what fits into f16 is exact in float32."""
    dtype = DTYPES[target]
    if source == "i1":
        return (lambda x: 0 - x.astype(dtype)) if signed else lambda x: x.astype(dtype)
    if signed:
        return _rounding(lambda x: x.astype(dtype), target)
    return _rounding(lambda x: _unsigned(x).astype(dtype), target)


def _to_integer(signed: bool, target: str) -> Callable[[Array], Array]:
    dtype = DTYPES[target]
    if target == "i1":
        return lambda x: (numerics.to_integer(x, np.dtype(np.int32)) & 1).astype(bool)
    if signed:
        return lambda x: numerics.to_integer(x, dtype)
    return lambda x: numerics.to_integer(x, np.dtype(f"u{dtype.itemsize}")).view(dtype)


def _between_floats(source: str, target: str, toward_zero: bool = False) -> Callable[[Array], Array]:
    if source == target or (target == "f32" and source != "f64") or (source in FP8 and target in HALF):
        return _same
    return (lambda x: cut(x, target)) if toward_zero else lambda x: rounded(x, target)


def _bitcast(source: str, target: str) -> Callable[[Array], Array]:
    if source == target or {source, target} <= {"i64", "ptr", "index"}:
        return _same
    return lambda x: from_memory(to_memory(x, source), target)


def _select(condition: ir.Type, value: ir.Type) -> Callable[..., Array]:
    if condition.shape == value.shape:
        return np.where
    axes = (1,) * len(value.shape)  # one truth for a whole block
    return lambda c, a, b: np.where(c.reshape(c.shape + axes), a, b)


# ----------------------------------------------------------------------------------------------------- libdevice


def _libdevice(symbol: str, target: str) -> Callable[..., Array]:
    name = symbol.removeprefix("__nv_")
    function = numerics.libdevice(symbol)
    if function is None:
        raise NotHere(say("launch.lacking.libdevice", function=name))
    if re.match("u(int|ll)2", name):  # uint2float_rn: its operand has no sign
        return lambda x: _converted(_unsigned(x), target)
    if re.search("2u(int|ll)", name):
        convert = _to_integer(False, target)
        return lambda x: convert(function(x))
    return lambda *operands: _converted(function(*operands), target)


def _converted(values: Array, target: str) -> Array:
    """Convert what a numpy function returned to the form in which values of the target type are held."""
    values, dtype = np.asarray(values), DTYPES[target]
    if dtype.kind == "f":
        return rounded(values.astype(dtype, copy=False) if values.dtype.kind != "f" else values, target)
    return numerics.to_integer(values, dtype) if values.dtype.kind == "f" else values.astype(dtype, copy=False)


# ----------------------------------------------------------------------------------------------------- atomics


def updated(kind: str, old: Array, new: Array, want: Array | None, element: str) -> Array:
    """Return the value that an atomic leaves. kind: "fadd", "add", "max", "exch", "cas", ...; want: of a cas."""
    unsigned = f"u{old.itemsize}"
    match kind:
        case "fadd":
            return rounded(old + new, element)
        case "add":
            return old + new
        case "max":
            return np.maximum(old, new)
        case "min":
            return np.minimum(old, new)
        case "umax":
            return np.maximum(old.view(unsigned), new.view(unsigned)).view(old.dtype)
        case "umin":
            return np.minimum(old.view(unsigned), new.view(unsigned)).view(old.dtype)
        case "and" | "or" | "xor":  # of floats, too: their bits
            function = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[kind]
            bits = function(to_memory(old, element), to_memory(new, element))
            return from_memory(bits, element)
        case "exch":
            return new
        case "cas":
            assert want is not None
            alike = to_memory(old, element) == to_memory(want, element)  # bits: 0.0 is not -0.0
            return np.where(alike, new, old)
    raise ValueError(kind)


def summed(sums: Array, places: Array, values: Array, element: str) -> Array:
    """Add each value to sums[place], in order, as in a histogram; rounded at the end."""
    np.add.at(sums, places, values)
    return rounded(sums, element) if element in FLOATS else sums


def memory_dtype(element: str) -> np.dtype:
    """Return the dtype as which elements are read from memory."""
    return np.dtype(f"i{itemsize(element)}")


# ----------------------------------------------------------------------------------------------------- all together


def lanewise(operation: ir.Operation, operand_types: Sequence[ir.Type]) -> Lanewise | None:
    """Make the function that computes an operation lane by lane; None if the operation is not lane-wise. Raises NotHere
    if only a GPU can compute it."""
    name, attributes = operation.name, operation.attributes
    if name in _INTEGER:
        return Lanewise((_BOOLEAN if operand_types[0].element == "i1" else _INTEGER)[name])
    if name in _FLOAT:
        return Lanewise(_rounding(_FLOAT[name], operand_types[0].element), "float")
    if name in _EXACT:
        return Lanewise(_EXACT[name], "float")
    if name in _SPECIAL:
        return Lanewise(_rounding(_SPECIAL[name], operand_types[0].element), "special")
    if name == "tt.elementwise_inline_asm":
        raise NotHere(say("launch.lacking.assembly"))
    if name not in _OTHERS:
        return None
    source, target = operand_types[0].element, operation.results[0][1].element
    match name:
        case "math.fma":
            return Lanewise(_fma(target), "float", per_lane=2)
        case "tt.clampf":
            return Lanewise(_clamp(attributes.get("propagateNan", "none") != "none"), "float")
        case "tt.extern_elementwise":
            kind = "special" if target in FLOATS else None
            return Lanewise(_libdevice(attributes["symbol"], target), kind)
        case "arith.select":
            return Lanewise(_select(*operand_types[:2]))
        case "arith.cmpi":
            return Lanewise(_comparing_integers(attributes["predicate"], source))
        case "arith.cmpf":
            return Lanewise(_comparing_floats(attributes["predicate"]))
        case "arith.extsi" | "arith.extui":
            return Lanewise(_extended(name == "arith.extsi", source, target))
        case "arith.index_cast" | "arith.index_castui":
            wider = dtype_of(target).itemsize > dtype_of(source).itemsize
            signed = name == "arith.index_cast"
            return Lanewise(_extended(signed, source, target) if wider else _truncated(target))
        case "arith.trunci":
            return Lanewise(_truncated(target))
        case "arith.sitofp" | "arith.uitofp":
            return Lanewise(_to_float(name == "arith.sitofp", source, target))
        case "arith.fptosi" | "arith.fptoui":
            return Lanewise(_to_integer(name == "arith.fptosi", target))
        case "arith.extf" | "arith.truncf" | "tt.fp_to_fp":
            return Lanewise(_between_floats(source, target, attributes.get("rounding") == "rtz"))
        case _:  # bits that stay as they are
            return Lanewise(_bitcast(source, target))


_OTHERS = frozenset({
    "math.fma", "tt.clampf", "tt.extern_elementwise", "arith.select", "arith.cmpi", "arith.cmpf", "arith.extsi", "arith.extui",
    "arith.index_cast", "arith.index_castui", "arith.trunci", "arith.sitofp", "arith.uitofp", "arith.fptosi", "arith.fptoui",
    "arith.extf", "arith.truncf", "tt.fp_to_fp", "arith.bitcast", "tt.bitcast", "tt.int_to_ptr", "tt.ptr_to_int",
})  # fmt: skip

# ----------------------------------------------------------------------------------------------------- reductions

Fold = Callable[[Array, int, str], Array]  # values, axis, element
Step = Literal["reduce", "accumulate"]


def _floats(function: np.ufunc, step: Step) -> Fold:
    """Elements narrower than float32 are rounded after each step, as a GPU adds them: halves, or what lies 1, 2, 4, ... before."""
    fold, exact = getattr(function, step), function in (np.maximum, np.minimum)

    def folded(values: Array, axis: int, element: str) -> Array:
        if exact or element in ("f32", "f64"):
            return fold(values, axis)
        combine, lanes = _rounding(function, element), np.moveaxis(values, axis, -1)
        if step == "reduce":
            return halved(combine, lanes)[..., 0]
        return np.moveaxis(doubled(combine, lanes), -1, axis)

    return folded


def halved(combine: Callable[[Array, Array], Array], values: Array) -> Array:
    """Reduce the last axis by combining its first half with its second one, until one element is left: (...,)."""
    while (half := values.shape[-1] // 2) > 0:
        values = combine(values[..., :half], values[..., half:])
    return values


def doubled(combine: Callable[[Array, Array], Array], values: Array) -> Array:
    """Compute prefixes along the last axis: each element combined with the one `distance` before it, and so on with twice that."""
    values, distance = values.copy(), 1
    while distance < values.shape[-1]:
        values[..., distance:] = combine(values[..., :-distance], values[..., distance:])
        distance *= 2
    return values


def _integers(function: np.ufunc, of_bits: np.ufunc, step: Step, unsigned: bool = False) -> Fold:
    """Fold integers in the operands' own width: numpy would widen a sum. of_bits: the function that combines i1."""
    fold, fold_bits = getattr(function, step), getattr(of_bits, step)

    def folded(values: Array, axis: int, element: str) -> Array:
        if element == "i1":
            return fold_bits(values, axis)
        operands = _unsigned(values) if unsigned else values
        return fold(operands, axis, operands.dtype).view(values.dtype)

    return folded


def _scan_numbers(fast: np.ufunc, skipping_nan: np.ufunc) -> Fold:
    """Scan and pass over NaN; from a poisoned lane on, everything is poisoned."""

    def scan(values: Array, axis: int, element: str) -> Array:
        result = fast.accumulate(values, axis)
        if has_nan(result):
            poisoned = np.logical_or.accumulate(is_poison(values), axis)
            result = np.where(poisoned, poison(element), skipping_nan.accumulate(values, axis))
        return result

    return scan


def _folds(step: Step) -> dict[str, Fold]:
    return {
        "arith.addf": _floats(np.add, step),
        "arith.mulf": _floats(np.multiply, step),
        "arith.maximumf": _floats(np.maximum, step),
        "arith.minimumf": _floats(np.minimum, step),
        "arith.addi": _integers(np.add, np.logical_xor, step),
        "arith.muli": _integers(np.multiply, np.logical_and, step),
        "arith.maxsi": _integers(np.maximum, np.logical_and, step),
        "arith.minsi": _integers(np.minimum, np.logical_or, step),
        "arith.maxui": _integers(np.maximum, np.logical_or, step, unsigned=True),
        "arith.minui": _integers(np.minimum, np.logical_and, step, unsigned=True),
        "arith.andi": _integers(np.bitwise_and, np.logical_and, step),
        "arith.ori": _integers(np.bitwise_or, np.logical_or, step),
        "arith.xori": _integers(np.bitwise_xor, np.logical_xor, step),
    }


# By the one operation that a reduction combines with. The axis holds all its lanes (it is not 1 for many).
REDUCTIONS: dict[str, Fold] = {
    **_folds("reduce"),
    "arith.maxnumf": lambda values, axis, element: numerics.fold_max(values, axis, False),
    "arith.minnumf": lambda values, axis, element: numerics.fold_min(values, axis, False),
}
SCANS: dict[str, Fold] = {
    **_folds("accumulate"),
    "arith.maxnumf": _scan_numbers(np.maximum, np.fmax),
    "arith.minnumf": _scan_numbers(np.minimum, np.fmin),
}
