"""Cases of unit 06's exercises."""

from __future__ import annotations

import math
from typing import Any

import torch

from course_lib.exercises.cases import FP32, Drawing, laid_out, named_by


def normal(generator: torch.Generator, *shape: int) -> torch.Tensor:
    """Draw a normal tensor of this shape in float32."""
    return torch.randn(*shape, generator=generator, device=generator.device)


def rows(
    M: int,
    N: int,
    dtype: torch.dtype = FP32,
    *,
    window: bool = False,
    scale: float = 1.0,
    mean: float = 0.0,
    rising: float = 0.0,
    masked: int = 0,
) -> Drawing:
    """Draw x (M, N), column stride 1: scale * normal + mean, plus a slope that rises by `rising` along each row.

    window   a view into a wider matrix full of NaN, so that an element read from outside shows
    masked   the number of elements at the start of each row that are -inf
    """

    def draw(generator: torch.Generator) -> dict[str, torch.Tensor]:
        slope = torch.linspace(0, rising, N, device=generator.device)
        values = (normal(generator, M, N) * scale + mean + slope).to(dtype)
        values[:, :masked] = -math.inf
        return {"x": laid_out(values, "window" if window else "rows")}

    slope = f"{'rising' if rising > 0 else 'falling'} by {abs(rising):g}" if rising else ""
    around = f" around {mean:g}" if mean and not rising else ""
    words = [slope, f"{masked} of them -inf" if masked else "", "a window" if window else ""]
    return Drawing(named_by(f"{M} x {N}{around}", dtype, *words), draw)


def also(draw: Drawing, *names: str, scale: float = 1.0, mean: float = 0.0) -> Drawing:
    """Extend `draw` with vectors (N,) of these names in x's dtype, normal * scale + mean."""

    def drawn(generator: torch.Generator) -> dict[str, torch.Tensor]:
        found = draw(generator)
        N, dtype = found["x"].shape[-1], found["x"].dtype
        return found | {name: (normal(generator, N) * scale + mean).to(dtype) for name in names}

    return Drawing(draw.name, drawn)


def vectors(N: int, dtype: torch.dtype = FP32, scale: float = 3.0) -> Drawing:
    """Draw x and y (N,)."""
    return Drawing(named_by(str(N), dtype), lambda g: {name: (normal(g, N) * scale).to(dtype) for name in ("x", "y")})


def normed(draw: Drawing, eps: float = 1e-6) -> Drawing:
    """Extend `draw` with weights around 1, and with eps."""
    return Drawing(draw.name, lambda g: also(draw, "weight", scale=0.5, mean=1.0)(g) | {"eps": eps})


def added(draw: Drawing, eps: float = 1e-6) -> Drawing:
    """Draw x, a residual like it, weight and eps."""

    def drawn(generator: torch.Generator) -> dict[str, Any]:
        pair = {name: draw(generator)["x"] for name in ("x", "residual")}
        rest = normed(draw, eps)(generator)
        return pair | {name: rest[name] for name in ("weight", "eps")}

    return Drawing(draw.name, drawn)


def labelled(M: int, V: int, dtype: torch.dtype = FP32, **kind: Any) -> Drawing:
    """Draw logits (M, V) and target (M,) int64. Targets are not masked; the first and the last such class are among them."""
    logits = rows(M, V, dtype, **kind)

    def draw(generator: torch.Generator) -> dict[str, torch.Tensor]:
        first = kind.get("masked", 0)
        target = torch.randint(first, V, (M,), generator=generator, device=generator.device)
        target[0], target[-1] = V - 1, first
        return {"logits": logits(generator)["x"], "target": target}

    return Drawing(logits.name, draw)


def nbytes(*tensors: torch.Tensor) -> int:
    """Count the bytes of all these tensors."""
    return sum(t.numel() * t.element_size() for t in tensors)
