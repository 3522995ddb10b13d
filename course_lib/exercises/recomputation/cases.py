"""Cases of unit 07's exercises."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from course_lib.exercise import Case
from course_lib.exercises.cases import fixed
from course_lib.exercises.recomputation.oracles import RMS_EPS, drawn


def normal(g: torch.Generator, shape: Sequence[int], dtype: torch.dtype, scale: float = 1.0) -> torch.Tensor:
    """Draw a normal tensor of this shape and dtype."""
    return (torch.randn(*shape, generator=g, device=g.device) * scale).to(dtype)


def elementwise(shape: Sequence[int], dtype: torch.dtype = torch.float32, *, scale: float = 1.0, names: str = "x dy"):
    """Return a function that draws tensors of one shape. scale: that of all tensors but dy, which is the last."""
    *inputs, dy = names.split()
    return lambda g: {n: normal(g, shape, dtype, scale) for n in inputs} | {dy: normal(g, shape, dtype)}


def dropped(shape: Sequence[int], p: float, seed: int, dtype: torch.dtype = torch.float32):
    """Return a function that draws x and dy, with p and the seed of the mask."""
    return lambda g: {"x": normal(g, shape, dtype), "p": p, "seed": seed, "dy": normal(g, shape, dtype)}


def dropped_at(shape: Sequence[int], element: int, seed: int):
    """Return a function that draws what `dropped` does, with p equal to the random number of one element, which is therefore kept."""

    def draw(g: torch.Generator) -> dict[str, Any]:
        return dropped(shape, float(drawn(math.prod(shape), seed)[element]), seed)(g)

    return draw


def logits(
    M: int, V: int, dtype: torch.dtype = torch.float32, *, scale: float = 3.0, mean: float = 0.0, ban: float = 0.0
):
    """Return a function that draws x (M, V), target, lse, dloss. ban: the share of logits, none of them a target's, that are -inf."""

    def draw(g: torch.Generator) -> dict[str, torch.Tensor]:
        x = normal(g, (M, V), dtype, scale) + mean
        target = torch.randint(V, (M,), generator=g, device=g.device)
        if ban:
            banned = torch.rand(M, V, generator=g, device=g.device) < ban
            x = x.masked_fill(banned.scatter(1, target[:, None], False), -math.inf)
        lse = torch.logsumexp(x.double(), 1).float()
        return {"x": x, "target": target, "lse": lse, "dloss": normal(g, (M,), torch.float32)}

    return draw


def normed(M: int, N: int, dtype: torch.dtype = torch.float32, *, scale: float = 1.0):
    """Return a function that draws x (M, N), weight (N,), rstd (M,), dy (M, N). The rows of x are of very different sizes."""

    def draw(g: torch.Generator) -> dict[str, torch.Tensor]:
        rows = torch.exp(normal(g, (M, 1), torch.float32)).clamp(max=8)  # float16 ends at 65504
        x = (normal(g, (M, N), torch.float32, scale) * rows).to(dtype)
        rstd = torch.rsqrt(x.double().square().mean(1) + RMS_EPS).float()
        return {"x": x, "weight": normal(g, (N,), dtype), "rstd": rstd, "dy": normal(g, (M, N), dtype)}

    return draw


def times(count: float) -> Callable[..., float]:
    """Make a function that returns `count` times the bytes of x."""
    return lambda x, **_: count * x.nbytes


def traffic(n: int, itemsize: int, recompute: bool) -> Case:
    """Make a case about n elements whose intermediate results are stored or recomputed."""
    way = "recomputed" if recompute else "stored"
    return fixed(f"{n} of {itemsize} bytes, {way}", way, n=n, itemsize=itemsize, recompute=recompute)


def step(name: str, group: str, /, **changes: Any) -> Case:
    """Make a case for checkpoint: one run of a layer with dropout, unless `changes` say otherwise."""
    return fixed(name, group, **({"rows": 12, "width": 6, "p": 0.4, "calls": 1, "frozen": False, "seed": 17} | changes))
