"""Arithmetic as a GPU does it, on numpy arrays: number formats that numpy lacks, rounding, conversions, libdevice.

bf16 and fp8 are held as raw bits (uint16, uint8). `widen` makes them float32, exactly; `narrow` rounds a result back.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
import torch

# ----------------------------------------------------------------------------------------------------- formats


# trap: products go through torch, whose threads one_thread() counts; numpy's take all cores


@dataclass(frozen=True)
class Format:
    """A floating-point format held as raw bits.

    special   what has no finite value: "ieee" the largest exponent (inf, NaN); "all ones" NaN alone; "minus zero" NaN alone;
              "none"
    """

    exponent_bits: int
    mantissa_bits: int
    bias: int
    special: Literal["ieee", "all ones", "minus zero", "none"]


# By Triton's names. Micikevicius et al. 2022, "FP8 Formats for Deep Learning", table 1; fnuz: AMD's CDNA 3; b15: Triton's own.
FORMATS = {
    "bf16": Format(8, 7, 127, "ieee"),
    "fp8e5": Format(5, 2, 15, "ieee"),
    "fp8e4nv": Format(4, 3, 7, "all ones"),
    "fp8e5b16": Format(5, 2, 16, "minus zero"),
    "fp8e4b8": Format(4, 3, 8, "minus zero"),
    "fp8e4b15": Format(4, 3, 15, "none"),
}


def widen(bits: np.ndarray, name: str) -> np.ndarray:
    """Convert raw bits in the format `name` to float32: exact, since each format is a part of float32."""
    if name == "bf16":
        return (bits.astype(np.uint32) << 16).view(np.float32)
    return _values(name)[bits]


def narrow(values: np.ndarray, name: str, toward_zero: bool = False) -> np.ndarray:
    """Round floats to the format `name`, as raw bits: to nearest, ties to even, unless toward_zero.

    bf16 overflows to infinity; an fp8 saturates at its largest number, as `cvt.satfinite` of sm_89 does.
    """
    values = np.ascontiguousarray(to_odd(values))
    if name == "bf16":
        return _to_bf16(values, toward_zero)
    return _codes(name, toward_zero).take(upper_half(values))


def to_odd(values: np.ndarray) -> np.ndarray:
    """Round float64 to float32 to odd (the last bit is set where anything was lost): rounding again is then as if rounding once.

    Boldo and Melquiond 2008, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd".
    """
    if values.dtype == np.float32:
        return values
    with np.errstate(over="ignore"):
        result = np.asarray(values.astype(np.float32))
    bits = result.view(np.uint32)
    lost = (result != values) & (values == values)
    bits -= np.abs(result) > np.abs(values)  # toward zero
    bits |= lost
    return result


def upper_half(values: np.ndarray) -> np.ndarray:
    """Return the first 16 bits of float32 numbers, the last of them set where the rest is not 0: all that an fp8 depends on."""
    bits = values.view(np.uint32)
    half = bits >> 16
    half |= (bits & 0xFFFF) != 0
    return half


def _to_bf16(values: np.ndarray, toward_zero: bool) -> np.ndarray:
    bits = values.view(np.uint32)
    up = 0 if toward_zero else 0x7FFF + (bits >> 16 & 1)
    rounded = ((bits + up) >> 16).astype(np.uint16)
    nan = np.isnan(values)
    if nan.any():  # a NaN keeps its upper bits: a carry could make it infinite or a number
        rounded = np.where(nan, (bits >> 16 | 0x40).astype(np.uint16), rounded)
    return rounded


def _to_fp8(values: np.ndarray, name: str, toward_zero: bool) -> np.ndarray:
    finite = _finite(name)  # ascending, so a number's place is its code
    magnitude = np.abs(values.astype(np.float64))
    below = np.clip(np.searchsorted(finite, magnitude, side="right") - 1, 0, finite.size - 1)
    above = np.minimum(below + 1, finite.size - 1)
    middle = (finite[below] + finite[above]) / 2
    up = (magnitude > middle) | ((magnitude == middle) & (below % 2 == 1))
    code = np.where(up & ~np.bool_(toward_zero), above, below)
    sign = np.signbit(values)
    if FORMATS[name].special == "minus zero":
        sign = sign & (code > 0)
    code = (code | sign << 7).astype(np.uint8)
    not_a_number = {"ieee": 0x7F, "all ones": 0x7F, "minus zero": 0x80}.get(FORMATS[name].special, finite.size - 1)
    return np.where(np.isnan(values), np.uint8(not_a_number), code)


@cache
def _codes(name: str, toward_zero: bool) -> np.ndarray:
    """The code of an fp8 format that each `upper_half` is rounded to."""
    values = (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32)
    with np.errstate(invalid="ignore"):  # signalling NaNs are among them
        return _to_fp8(values, name, toward_zero)


@cache
def _values(name: str) -> np.ndarray:
    """The float32 value of each of the 256 codes of an fp8 format."""
    form = FORMATS[name]
    code = np.arange(256)
    exponent, mantissa = (
        code >> form.mantissa_bits & (1 << form.exponent_bits) - 1,
        code & (1 << form.mantissa_bits) - 1,
    )
    fraction = mantissa / (1 << form.mantissa_bits)
    values = np.where(
        exponent == 0, np.ldexp(fraction, 1 - form.bias), np.ldexp(1 + fraction, np.maximum(exponent, 1) - form.bias)
    )
    if form.special == "ieee":
        values = np.where(exponent == (1 << form.exponent_bits) - 1, np.where(mantissa == 0, np.inf, np.nan), values)
    elif form.special == "all ones":
        values = np.where(code & 0x7F == 0x7F, np.nan, values)
    values = np.where(code & 0x80, -values, values)
    if form.special == "minus zero":
        values[0x80] = np.nan
    return values.astype(np.float32)


@cache
def _finite(name: str) -> np.ndarray:
    """The finite numbers of an fp8 format that are not negative, ascending: their codes are 0, 1, 2, ..."""
    values = _values(name)[:128]
    return values[np.isfinite(values)].astype(np.float64)


# ----------------------------------------------------------------------------------------------------- conversions


def to_integer(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Truncate floats to integers as PTX `cvt.rzi` does: what does not fit saturates. 8 bits are the lower half of 16. NaN is 0, or the
    highest bit alone where floats or integers have 64 bits. (Each kind was compared with what an H200 gives.)"""
    if dtype.itemsize == 1:
        return to_integer(values, np.dtype(f"{dtype.kind}2")).astype(dtype)
    limits = np.iinfo(dtype)
    low, high = float(limits.min), float(limits.max) + 1
    if values.min(initial=0) > low - 1 and values.max(initial=0) < high:  # and so none is NaN
        return values.astype(dtype)
    with np.errstate(invalid="ignore"):
        result = values.astype(dtype)
    outside = ~((values > low - 1) & (values < high))
    if outside.any():
        saturated = np.where(values >= high, limits.max, np.where(values < low, limits.min, result))
        wide = 8 in (values.itemsize, dtype.itemsize)
        unknown = 0 if not wide else limits.min or 1 << (8 * dtype.itemsize - 1)
        result = np.where(np.isnan(values), dtype.type(unknown), np.where(outside, saturated, result)).astype(dtype)
    return result


def to_float(values: np.ndarray, dtype: np.dtype, toward_zero: bool = False) -> np.ndarray:
    """Convert numbers to float16, float32 or float64, to nearest unless toward_zero."""
    with np.errstate(over="ignore", invalid="ignore"):
        result = values.astype(dtype)
        if toward_zero:
            result = np.where(np.abs(result) > np.abs(values), np.nextafter(result, dtype.type(0)), result)
    return result


# ----------------------------------------------------------------------------------------------------- arithmetic

# A NaN that can be told from others: arithmetic keeps its payload, and these are one another's conversions.
POISON_NAN = {2: 0x7E58, 4: 0x7FCB0000, 8: 0x7FF9600000000000}  # bits, by itemsize
POISON_INTEGER = 0x5A5A5A5A5A5A5A5B  # cut to the width needed: large, odd, and nothing an author would expect


def poison(dtype: np.dtype) -> np.ndarray:
    """Return the value of a lane that was never written: a scalar array."""
    if dtype.kind == "f":
        value = np.array(POISON_NAN[dtype.itemsize], f"u{dtype.itemsize}").view(dtype)
    elif dtype.kind == "b":
        value = np.array(True)
    else:
        value = np.array(POISON_INTEGER >> (64 - 8 * dtype.itemsize) | 1).astype(dtype)
    return value


def is_poison(values: np.ndarray) -> np.ndarray:
    """Mark the values that are poison."""
    values = np.asarray(values)
    bits = values.view(f"u{values.itemsize}") & ((1 << (8 * values.itemsize - 1)) - 1)  # whatever the sign
    return bits == POISON_NAN[values.itemsize]


def has_nan(values: np.ndarray) -> bool:
    """Whether any value is NaN, without an array of truths: what a maximum shows."""
    largest = np.maximum.reduce(values, axis=None, initial=-np.inf)
    return bool(largest != largest)


def larger(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Compute max.f32: a number wins over NaN. A poisoned lane keeps its NaN, so that it shows."""
    return _numbers_win(np.maximum(a, b), np.fmax, a, b)


def smaller(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Compute min.f32, likewise."""
    return _numbers_win(np.minimum(a, b), np.fmin, a, b)


def _numbers_win(result: np.ndarray, skipping_nan: Callable, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if has_nan(result):
        result = np.where(is_poison(a) | is_poison(b), poison(result.dtype), skipping_nan(a, b))
    return result


def fma(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Compute x * y + z, rounded once where the product fits into float64: up to float32."""
    return wide_fma(x, y, z).astype(z.dtype)


def wide_fma(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Compute x * y + z in float64; of float32 numbers, rounded so that rounding once more is as if once."""
    product = np.multiply(x, y, dtype=np.float64)
    total = np.asarray(product + z)
    if z.dtype.itemsize == 8 or (total.view(np.int64) & 0xFFFFFFF).all():
        return total  # nowhere near the middle of two float32 numbers, which has 0 in the last 28 bits
    part = total - product
    lost = (product - (total - part)) + (z - part)  # Knuth's two-sum: exact
    inexact = (lost != 0) & (lost == lost)
    if inexact.any():  # round to odd, as `to_odd` does
        bits = total.view(np.int64)
        bits -= inexact & ((lost > 0) != (total > 0))
        bits |= inexact
    return total


def dot(a: np.ndarray, b: np.ndarray, accumulator: np.ndarray) -> np.ndarray:
    """Compute a @ b + accumulator in the accumulator's dtype; float16 is summed up in float32 and rounded at the end. What a tensor core
    rounds on the way is for the caller."""
    dtype = accumulator.dtype
    if dtype.kind == "f":
        wide = np.float64 if dtype.itemsize == 8 else np.float32
        product = _product(a.astype(wide, copy=False), b.astype(wide, copy=False))
        return (product + accumulator).astype(dtype, copy=False)
    if a.itemsize == 1:  # exact in float64, which has a fast product
        return _product(a.astype(np.float64), b.astype(np.float64)).astype(dtype) + accumulator
    return np.matmul(a, b, dtype=dtype) + accumulator


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Multiply with torch, which keeps to the number of threads that it is told. numpy's product takes all cores, and
    cannot be told."""
    return torch.matmul(as_tensor(a), as_tensor(b)).numpy()


def as_tensor(values: np.ndarray) -> torch.Tensor:
    """Return the same memory as a tensor; a copy of what torch does not take or warns of, such as the result of broadcast_to."""
    values = np.asarray(values)
    if not (values.flags.c_contiguous and values.flags.writeable):
        values = values.copy()
    return torch.from_numpy(values)


def tf32(a: np.ndarray) -> np.ndarray:
    """Truncate float32 to TF32, as tensor cores do where a dot does not ask for "ieee": the last 13 bits of the mantissa are dropped."""
    return (a.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def high_half(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the upper half of the product of two integers, taken as unsigned whatever their dtype (mul.hi.u)."""
    unsigned = np.dtype(f"u{a.itemsize}")
    x, y = a.view(unsigned), b.view(unsigned)
    if a.itemsize < 8:
        product = np.multiply(x, y, dtype=np.uint64)
        product >>= np.uint64(8 * a.itemsize)
        return product.astype(unsigned).view(a.dtype)
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    x1, x0, y1, y0 = x >> half, x & low, y >> half, y & low
    middle = x1 * y0 + (x0 * y0 >> half)
    carry = x0 * y1 + (middle & low)
    return (x1 * y1 + (middle >> half) + (carry >> half)).view(a.dtype)


# ----------------------------------------------------------------------------------------------------- reductions


def fold_max(values: np.ndarray, axis: int | None, keepdims: bool) -> np.ndarray:
    """Compute the maximum along an axis; NaN counts only where all is NaN, or where a lane is poisoned."""
    return _fold_numbers(values, np.maximum, np.fmax, axis, keepdims)


def fold_min(values: np.ndarray, axis: int | None, keepdims: bool) -> np.ndarray:
    """Compute the minimum along an axis, with NaN as in `fold_max`."""
    return _fold_numbers(values, np.minimum, np.fmin, axis, keepdims)


def _fold_numbers(values: np.ndarray, fast: np.ufunc, skipping_nan: np.ufunc, axis: int | None, keepdims: bool):
    result = fast.reduce(values, axis=axis, keepdims=keepdims)
    if values.dtype.kind == "f" and has_nan(result):
        poisoned = is_poison(values).any(axis=axis, keepdims=keepdims)
        numbers = skipping_nan.reduce(values, axis=axis, keepdims=keepdims)
        result = np.where(poisoned, poison(values.dtype), numbers)
    return result


# ----------------------------------------------------------------------------------------------------- functions


def _by_torch(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable:
    return lambda x: function(as_tensor(x)).numpy()


erf = _by_torch(torch.erf)
_erfc = _by_torch(torch.special.erfc)


def rsqrt(x: np.ndarray) -> np.ndarray:
    """Compute 1 / sqrt(x)."""
    return 1 / np.sqrt(x)


def _gamma(x: float) -> float:
    try:
        return math.gamma(x)
    except (ValueError, OverflowError):  # a pole, or too large
        return math.nan if x < 0 or x != x else math.inf


def _round_half_away(x: np.ndarray) -> np.ndarray:
    whole = np.trunc(x)
    return np.copysign(np.abs(whole) + (np.abs(x - whole) >= 0.5), x)


def _count_leading_zeros(x: np.ndarray) -> np.ndarray:
    bits = 8 * x.itemsize
    unsigned = x.view(f"u{x.itemsize}")
    if bits == 64:
        high = unsigned >> np.uint64(32)
        unsigned = np.where(high > 0, high << np.uint64(32), unsigned)  # 32 bits or fewer that count: exact as floats
    return (bits - np.frexp(unsigned.astype(np.float64))[1]).astype(np.int32)


# By symbol, without the prefix `__nv_` and without what only names a dtype or a rounding to nearest.
_SAME_NAME = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh", "sqrt", "cbrt",
    "floor", "ceil", "trunc", "rint", "hypot", "copysign", "nextafter", "fmod", "isnan", "signbit",
)  # fmt: skip
_LIBDEVICE: dict[str, Callable] = {
    **{name: getattr(np, name) for name in _SAME_NAME},
    **{f"a{name}": getattr(np, f"arc{name}") for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "tan2")},
    "abs": np.abs,
    "llabs": np.abs,
    "fabs": np.abs,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "finite": np.isfinite,
    "exp10": lambda x: np.power(x.dtype.type(10), x),
    "pow": np.power,
    "powi": lambda x, n: np.power(x.astype(np.float64), n),
    "rsqrt": rsqrt,
    "rcbrt": lambda x: 1 / np.cbrt(x),
    "rhypot": lambda x, y: 1 / np.hypot(x, y),
    "rcp": lambda x: 1 / x,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "fdivide": np.divide,
    "fma": fma,
    "fdim": lambda x, y: np.maximum(x - y, 0),
    "remainder": lambda x, y: x - y * np.rint(x / y),
    "nearbyint": np.rint,
    "llrint": np.rint,
    "round": _round_half_away,
    "llround": _round_half_away,
    "saturate": lambda x: np.clip(np.nan_to_num(x), 0, 1),
    "sinpi": lambda x: np.sin(np.pi * x.astype(np.float64)),
    "cospi": lambda x: np.cos(np.pi * x.astype(np.float64)),
    "erf": erf,
    "erfc": _erfc,
    "normcdf": lambda x: _erfc(x.astype(np.float64) * -math.sqrt(0.5)) / 2,
    "tgamma": np.vectorize(_gamma, otypes=[np.float64]),
    "lgamma": _by_torch(torch.lgamma),
    "ldexp": np.ldexp,
    "scalbn": np.ldexp,
    "logb": lambda x: np.frexp(x)[1] - 1.0,
    "ilogb": lambda x: np.frexp(x)[1] - 1,
    "mulhi": lambda x, y: ((x.astype(np.int64) * y) >> 32).astype(np.int32),
    "umulhi": high_half,
    "popc": lambda x: np.bitwise_count(x.view(f"u{x.itemsize}")),
    "clz": _count_leading_zeros,
    "float_as_int": lambda x: x.view(np.int32),
    "float_as_uint": lambda x: x.view(np.uint32),
    "int_as_float": lambda x: x.view(np.float32),
    "uint_as_float": lambda x: x.view(np.float32),
    "double_as_longlong": lambda x: x.view(np.int64),
    "longlong_as_double": lambda x: x.view(np.float64),
}


_ROUNDED = {"n": np.rint, "z": np.trunc, "d": np.floor, "u": np.ceil}  # float2int_rn and the like


def libdevice(symbol: str) -> Callable | None:
    """Return the numpy function for a symbol of NVIDIA's libdevice such as `__nv_fast_expf`, or None if there is none here.

    The fast ones are as exact as the others here. The result is still to be converted to the symbol's dtype.
    """
    name = symbol.removeprefix("__nv_").removeprefix("fast_")
    if conversion := re.fullmatch(r"(?:float|double)2u?(?:int|ll)_r([nzdu])", name):
        return _ROUNDED[conversion[1]]
    if re.fullmatch(r"(?:u?int|u?ll|double)2(?:float|double)_rn", name):
        return np.asarray
    to_nearest = name.removesuffix("_rn")
    spellings = (name, re.sub("[fd]$", "", name), name.removesuffix("ll"))  # expf, isnand, popcll
    if to_nearest != name:
        spellings = (to_nearest, to_nearest[1:], to_nearest[:-1])  # fma_rn, fadd_rn, fmaf_rn
    return next((_LIBDEVICE[spelling] for spelling in spellings if spelling in _LIBDEVICE), None)
