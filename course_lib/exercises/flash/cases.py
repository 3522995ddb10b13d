"""Cases of unit 09's exercises."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from course_lib.exercises.attention.cases import qkv
from course_lib.exercises.cases import FP16, FP32


def one_of_each_head(draw: Callable, heads: int) -> Callable:
    """Return a function that draws q with `heads` heads, from one that draws a single head. They share k and v, as views of stride 0."""

    def drawn(g: torch.Generator) -> dict[str, Any]:
        given = draw(g)
        q = torch.randn(heads, *given["q"].shape, generator=g, device=g.device).to(given["q"].dtype)
        return given | {"q": q} | {name: given[name].expand(heads, -1, -1) for name in "kv"}

    return drawn


def by_columns(draw: Callable) -> Callable:
    """Return a function that draws the same with q and k laid out column by column; v stays as it is."""
    return lambda g: (given := draw(g)) | {name: given[name].mT.contiguous().mT for name in "qk"}


def each_in_its_order(draw: Callable, names: Sequence[str] = "qkv") -> Callable:
    """Return a function that draws the same with a different order of axes in memory for each of these tensors (B, H, N, D): (B, H, N, D),
    (D, B, H, N), (N, D, B, H), (H, N, D, B). No stride is the same in any two of them."""

    def laid_out(x: torch.Tensor, turns: int) -> torch.Tensor:
        there, back = ([(axis + by) % 4 for axis in range(4)] for by in (-turns, turns))
        return x.permute(there).contiguous().permute(back)

    return lambda g: (given := draw(g)) | {name: laid_out(given[name], i) for i, name in enumerate(names)}


def backwards(draw: Callable) -> Callable:
    """Return a function that draws the same with k and v in reverse order."""
    return lambda g: (given := draw(g)) | {name: given[name].flip(-2) for name in "kv"}


def grouped(
    heads: int,
    group: int,
    nq: int,
    nk: int,
    d: int,
    dtype: torch.dtype = FP16,
    *,
    scores: str = "mild",
    v_mean: float = 0.0,
    **more: Any,
):
    """Return a function that draws q (heads * group, nq, d), k and v (heads, nk, d), then `more`."""

    def draw(g: torch.Generator) -> dict[str, Any]:
        given = qkv(group * nq, nk, d, dtype, lead=(heads,), scores=scores, v_mean=v_mean)(g)
        return given | {"q": given["q"].reshape(heads * group, nq, d)} | more

    return draw


def one_token(heads: int, group: int, nk: int, d: int, splits: int, dtype: torch.dtype = FP16, **kind: Any):
    """Return a function that draws q (heads * group, d), k and v (heads, nk, d), and splits."""

    def draw(g: torch.Generator) -> dict[str, Any]:
        given = grouped(heads, group, 1, nk, d, dtype, **kind)(g)
        return given | {"q": given["q"][:, 0].contiguous(), "splits": splits}

    return draw


def scored(M: int, N: int, D: int, dtype: torch.dtype = FP32, *, scores: str = "mild", v_mean: float = 0.0):
    """Return a function that draws s (M, N), float32, and v (N, D) around `v_mean`.

    scores  "mild" around 0; "large", to about 150 either way; "rising" or "falling" by 300 along a row; "low", all near -300; "late", the
            first half of each row -inf; "late and low", that and the rest near -300; "nothing", every other row -inf; "apart", every
            other row near -300
    """

    def draw(g: torch.Generator) -> dict[str, torch.Tensor]:
        s = torch.randn(M, N, generator=g, device=g.device)
        v = (torch.randn(N, D, generator=g, device=g.device) + v_mean).to(dtype)
        if scores == "large":
            s = 40 * s
        elif scores == "rising":
            s = s + torch.linspace(0, 300, N, device=g.device)
        elif scores == "falling":
            s = s - torch.linspace(0, 300, N, device=g.device)
        elif scores == "low":
            s = s - 300
        elif scores in ("late", "late and low"):
            s = s - (300 if scores == "late and low" else 0)
            s[:, : N // 2] = -math.inf
        elif scores == "apart":
            s[::2] -= 300
        elif scores == "nothing":
            s[::2] = -math.inf
        return {"s": s, "v": v}

    return draw


def heads(
    nq: int, nk: int, d: int, dtype: torch.dtype = FP16, *, lead: Sequence[int] = (2,), causal=False, **more: Any
):
    """Return a function that draws q, k, v, causal, and scale if it is given."""
    scale = {"scale": more.pop("scale")} if "scale" in more else {}
    return qkv(nq, nk, d, dtype, lead=lead, **more, causal=causal, **scale)
