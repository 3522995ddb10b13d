"""Cases of unit 02's exercises."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from course_lib.exercises.cases import integer


def normal(*shape: int, dtype: torch.dtype = torch.float32, scale: float = 1.0, mean: float = 0.0):
    """Return a function that draws x, normal around `mean`."""

    def draw(generator: torch.Generator) -> dict[str, torch.Tensor]:
        values = torch.randn(*shape, generator=generator, device=generator.device)
        return {"x": values.mul_(scale).add_(mean).to(dtype)}

    return draw


def sizes(n: int, low: float, high: float, dtype: torch.dtype, scale: float):
    """Return a function that draws x (n,) of either sign with sizes between low and high, and the number `scale`."""

    def draw(generator: torch.Generator) -> dict[str, Any]:
        sign = torch.randint(0, 2, (n,), generator=generator, device=generator.device) * 2 - 1
        size = torch.rand(n, generator=generator, device=generator.device) * (high - low) + low
        return {"x": (sign * size).to(dtype), "scale": scale}

    return draw


def cancelling(rows: int, blocks: int):
    """Return a function that draws x (rows, 5 * blocks) float16: large numbers a, b, -a, -b, and as many small ones as blocks."""

    def draw(g: torch.Generator) -> dict[str, torch.Tensor]:
        pairs = torch.rand(rows, blocks, 2, generator=g, device=g.device) * 30000 + 30000
        small = torch.randn(rows, blocks, generator=g, device=g.device)
        return {"x": torch.cat([torch.cat([pairs, -pairs], 2).flatten(1), small], 1).half()}

    return draw


def patterns(exponent_bits: int, mantissa_bits: int, chosen: Callable[[torch.Generator], list[int]]):
    """Return a function that draws arguments for decode_float."""
    return lambda g: {"patterns": chosen(g), "exponent_bits": exponent_bits, "mantissa_bits": mantissa_bits}


def drawn_patterns(exponent_bits: int, mantissa_bits: int, fields: range, n: int = 40):
    """Return a function that draws n bit patterns of either sign, with an exponent in `fields` and a mantissa that is not 0."""

    def chosen(g: torch.Generator) -> list[int]:
        return [
            integer(g, 0, 1) << exponent_bits + mantissa_bits
            | integer(g, fields.start, fields.stop - 1) << mantissa_bits
            | integer(g, 1, (1 << mantissa_bits) - 1)
            for _ in range(n)
        ]

    return patterns(exponent_bits, mantissa_bits, chosen)


def specials(exponent_bits: int, mantissa_bits: int) -> list[int]:
    """List the bit patterns of zero, infinity, the largest number and NaN, of either sign."""
    infinity = (1 << exponent_bits) - 1 << mantissa_bits
    half = 1 << exponent_bits + mantissa_bits
    return [sign | p for sign in (0, half) for p in (0, infinity, infinity - 1, infinity + 1, half - 1)]


def numbers_of(dtype: str, low: float, high: float):
    """Return a function that draws a number that the dtype represents, with a size from low to high, which are powers of two."""

    def draw(g: torch.Generator) -> dict[str, Any]:
        power = integer(g, int(math.log2(low)), int(math.log2(high)) - 1)
        x = torch.tensor([2.0**power * (1 + integer(g, 1, 255) / 256)]).to(getattr(torch, dtype))
        return {"x": float(x), "dtype": dtype}

    return draw


def rows_of_all_sizes(rows: int, columns: int, zeros: int = 0):
    """Return a function that draws x (rows, columns) whose rows have sizes from 1e-6 to 1000; the last `zeros` rows are 0."""

    def draw(generator: torch.Generator) -> dict[str, torch.Tensor]:
        x = torch.randn(rows, columns, generator=generator) * torch.logspace(-6, 3, rows)[:, None]
        if zeros:
            x[-zeros:] = 0
        return {"x": x}

    return draw


def special_floats(generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Draw zeros, infinities, NaN, subnormal numbers, and numbers that round up to infinity, in random order."""
    bits = [
        0,
        1,
        0x7FFF,
        0x8000,
        0x8001,
        0x18000,
        0x007FFFFF,
        0x7F800000,
        0x7F7FFFFF,
        0x7F7F7FFF,
        0x7F7F8000,
        0x7FC00000,
    ]
    bits += [0x7F800001, 0x7FFFFFFF]
    both = torch.tensor(bits + [b - (1 << 31) for b in bits])
    order = torch.randperm(len(both), generator=generator)
    return {"x": both[order].to(torch.int32)}


def ties(generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Draw float32 numbers halfway between two of bf16, whose upper mantissa is even or odd, and their neighbours."""
    upper = torch.randint(0x3000, 0x5000, (600,), generator=generator)
    lower = torch.randint(0x7FFF, 0x8002, (600,), generator=generator)
    sign = torch.randint(0, 2, (600,), generator=generator) << 31
    bits = sign | upper << 16 | lower
    return {"x": torch.where(bits >= 1 << 31, bits - (1 << 32), bits).to(torch.int32)}


def bits_of_numbers(n: int, *, powers: int = 0):
    """Return a function that draws the bits of n numbers, normal around 0, times powers of ten from -powers to powers."""

    def draw(g: torch.Generator) -> dict[str, torch.Tensor]:
        size = torch.randint(-powers, powers + 1, (n,), generator=g) if powers else torch.zeros(n)
        return {"x": (torch.randn(n, generator=g) * 10.0**size).view(torch.int32)}

    return draw


def logits(
    rows: int, columns: int, dtype: torch.dtype = torch.float32, *, scale: float = 3.0, mean: float = 0.0, masked=False
):
    """Return a function that draws x (rows, columns), normal around `mean`. masked: about half of it is -inf, and all of row 1."""

    def draw(g: torch.Generator) -> dict[str, torch.Tensor]:
        x = torch.randn(rows, columns, generator=g, device=g.device) * scale + mean
        if masked:
            x[torch.rand(rows, columns, generator=g, device=g.device) < 0.5] = -math.inf
            x[1] = -math.inf
        return {"x": x.to(dtype)}

    return draw
