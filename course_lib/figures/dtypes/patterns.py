"""Pictures of bit patterns, as torch reads and casts them: the formats, their numbers, the gaps between them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True)
class BitFormat:
    """A number format of a sign, exponent bits and mantissa bits. tf32 exists only in registers of tensor cores: torch has no dtype for it,
    so its patterns are read as the upper 19 bits of a float32."""

    name: str
    exponent: int
    mantissa: int
    dtype: torch.dtype
    integers: torch.dtype  # of as many bits, to look at patterns

    @property
    def bits(self) -> int:
        return 1 + self.exponent + self.mantissa

    @property
    def unused(self) -> int:
        """Count the lower bits of `dtype` that the format does not have: 13 for tf32."""
        return 8 * self.dtype.itemsize - self.bits

    @property
    def bias(self) -> int:
        return 2 ** (self.exponent - 1) - 1


FORMATS = {
    f.name: f
    for f in (
        BitFormat("fp32", 8, 23, torch.float32, torch.int32),
        BitFormat("tf32", 8, 10, torch.float32, torch.int32),
        BitFormat("fp16", 5, 10, torch.float16, torch.int16),
        BitFormat("bf16", 8, 7, torch.bfloat16, torch.int16),
        BitFormat("e4m3", 4, 3, torch.float8_e4m3fn, torch.int8),
        BitFormat("e5m2", 5, 2, torch.float8_e5m2, torch.int8),
        BitFormat("int8", 0, 7, torch.int8, torch.int8),
    )
}


def known(name: str) -> BitFormat:
    """Return the format of this name. Raises ValueError if it is not among those that are drawn."""
    if name not in FORMATS:
        raise ValueError(f"format is {name!r}; these figures draw {', '.join(FORMATS)}")
    return FORMATS[name]


def values(patterns: np.ndarray | list[int] | int, name: str) -> np.ndarray:
    """The numbers that these bit patterns stand for (float64), as torch reads them."""
    f = known(name)
    shifted = torch.as_tensor(patterns, dtype=torch.int64) << f.unused
    width = 8 * f.integers.itemsize
    signed = torch.where(shifted >= 1 << (width - 1), shifted - (1 << width), shifted)  # as a signed integer holds them
    return signed.to(f.integers).view(f.dtype).double().numpy()


def value_of(pattern: int, name: str) -> float:
    """The number that a bit pattern stands for."""
    return float(values([pattern], name)[0])


def pattern_of(number: float, name: str) -> int:
    """The bit pattern of the number nearest to `number`, as torch casts it; int8 stops at -128 and 127."""
    f = known(name)
    if name == "int8":
        number = 0 if math.isnan(number) else max(-128, min(127, round(max(-1e3, min(1e3, number)))))
    pattern = int(torch.tensor([number]).to(f.dtype).view(f.integers)[0]) & (1 << 8 * f.integers.itemsize) - 1
    below = pattern >> f.unused
    if name != "tf32" or not math.isfinite(number):
        return below
    return min((below, below + 1), key=lambda p: (abs(value_of(p, name) - number), p % 2))  # the nearer, then the even


def largest(name: str) -> float:
    """The largest finite number of a format."""
    every = values(np.arange(1 << min(FORMATS[name].bits - 1, 16)), name) if FORMATS[name].bits <= 16 else None
    if every is not None:
        return float(np.max(every[np.isfinite(every)]))
    return value_of((1 << FORMATS[name].bits - 1) - (1 << FORMATS[name].mantissa) - 1, name)


def gap_above(number: float, name: str) -> float:
    """The distance from the format's number nearest to |number| to the next larger one."""
    pattern = pattern_of(abs(number), name)
    return value_of(pattern + 1, name) - value_of(pattern, name)


def short(number: float) -> str:
    """Write a number with at most seven digits."""
    return f"{number:.7g}"
