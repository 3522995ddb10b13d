"""Drawings of what a layer hands over while a text is written."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from course_lib.exercises.cases import FP32
from course_lib.exercises.training.shared_heads import projected


def tokens(B: int, heads: int, pieces: Sequence[int], D: int, slots: int, dtype: torch.dtype = FP32):
    """Return a function that draws k and v (B, heads, N, D), slots, and pieces, which add up to N."""

    def draw(g: torch.Generator) -> dict[str, Any]:
        k, v = projected(g, B, sum(pieces), (heads, heads), D, dtype)
        return {"k": k, "v": v, "slots": slots, "pieces": list(pieces)}

    return draw


def tables(positions: int, D: int, turns: bool = True, base: float = 100.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the rotary tables (cos, sin), (positions, D / 2) each; of a rotation by nothing if `turns` is False."""
    angles = torch.arange(positions)[:, None] * base ** (-torch.arange(0, D, 2) / D) * turns
    return angles.cos(), angles.sin()


def turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate x (..., N, D) in float64, its halves as pairs, by the tables (N, D / 2)."""
    a, b = x.double().chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def ring(x: torch.Tensor, slots: int, so_far: int) -> torch.Tensor:
    """Return a ring cache of `slots` places after `so_far` tokens of x (B, H, N, D), token t in slot t % slots; NaN in empty slots."""
    found = torch.full((*x.shape[:2], slots, x.shape[3]), math.nan, dtype=x.dtype, device=x.device)
    at = torch.arange(max(0, so_far - slots), so_far)
    found[:, :, at % slots] = x[:, :, at]
    return found


def text(
    B: int, Hkv: int, group: int, n: int, D: int, start: int, slots: int, dtype: torch.dtype = FP32, turns: bool = True
):
    """Return a function that draws q, k, v of n tokens, cos, sin, and caches that hold the first `start` tokens, k rotated; the other
    tokens are to be appended."""

    def draw(g: torch.Generator) -> dict[str, Any]:
        q, k, v = projected(g, B, n, (Hkv * group, Hkv, Hkv), D, dtype)
        cos, sin = (table.to(g.device) for table in tables(n, D, turns))
        caches = {"cache_k": ring(turned(k, cos, sin).to(dtype), slots, start), "cache_v": ring(v, slots, start)}
        return {"q": q, "k": k, "v": v, "cos": cos, "sin": sin} | caches | {"start": start}

    return draw


def pages(
    B: int, Hkv: int, group: int, lengths: Sequence[int], D: int, page: int, dtype: torch.dtype = FP32, spare: int = 3
):
    """Return a function that draws q (B, Hq, D), k_pages, v_pages (pages, Hkv, page, D), table (B, most pages of a text), lengths (B,),
    both int32.

    Pages lie in any order; those of no text, and the places behind a text's last token, are NaN. Entries of the table behind a
    text's last page are 2^30.
    """
    needed = [math.ceil(n / page) for n in lengths]

    def draw(g: torch.Generator) -> dict[str, Any]:
        total = sum(needed) + spare
        order = torch.randperm(total, generator=g, device=g.device)
        table = torch.full((B, max(needed)), 2**30, dtype=torch.int32, device=g.device)
        k, v = (torch.full((total, Hkv, page, D), math.nan, device=g.device) for _ in range(2))
        at = 0
        for b, n in enumerate(lengths):
            table[b, : needed[b]] = order[at : at + needed[b]]
            for i in range(needed[b]):
                there = min(page, n - i * page)
                for x in (k, v):
                    x[order[at + i], :, :there] = torch.randn(Hkv, there, D, generator=g, device=g.device)
            at += needed[b]
        q = torch.randn(B, Hkv * group, D, generator=g, device=g.device).to(dtype)
        return {"q": q, "k_pages": k.to(dtype), "v_pages": v.to(dtype), "table": table} | {
            "lengths": torch.tensor(lengths, dtype=torch.int32, device=g.device)
        }

    return draw


def prefixed(draw: Callable[[torch.Generator], dict[str, Any]], shared: int) -> Callable[..., dict[str, Any]]:
    """Return a function that draws `pages` with one prefix: all texts begin with the first `shared` pages of the first text."""

    def drawn(g: torch.Generator) -> dict[str, Any]:
        arguments = draw(g)
        arguments["table"][1:, :shared] = arguments["table"][0, :shared]
        return arguments

    return drawn


def layer(
    B: int,
    Hkv: int,
    group: int,
    nq: int,
    nk: int,
    D: int,
    dtype: torch.dtype = FP32,
    *,
    mask: str = "",
    causal: bool = True,
    cached: bool = False,
    v_mean: float = 0.0,
    **more: Any,
):
    """Return a function that draws q (B, Hq, nq, D), k and v (B, Hkv, nk, D) as a layer has them, mask, causal, scaling, window, top_left.

    v_mean  is added to v
    cached  k and v come from a cache: contiguous, where q is a view of (B, nq, H, D)
    mask    "" for None; "padded", texts that begin later, causal at the bottom right; "holes", any keys, and a query that sees none.
            (B, 1, nq, nk), True where a key may be seen; "one for all" is "holes" with one mask for all texts, of stride 0
    """

    def draw(g: torch.Generator) -> dict[str, Any]:
        q = projected(g, B, nq, (Hkv * group,), D, dtype)[0]
        k, v = projected(g, B, nk, (Hkv, Hkv), D, dtype)
        v = v + v_mean if v_mean else v
        if cached:
            k, v = k.contiguous(), v.contiguous()
        given = {"q": q, "k": k, "v": v, "mask": seen_by(mask, B, nq, nk, g), "causal": causal}
        return given | {"scaling": None, "window": None, "top_left": False} | more

    return draw


def seen_by(kind: str, B: int, nq: int, nk: int, g: torch.Generator) -> torch.Tensor | None:
    """Draw a mask of a kind that `layer` lists."""
    if not kind:
        return None
    if kind == "padded":
        begins = torch.randint(0, nk // 2, (B, 1, 1, 1), generator=g, device=g.device)
        keys = torch.arange(nk, device=g.device)
        return (keys >= begins) & (keys <= torch.arange(nk - nq, nk, device=g.device)[:, None])
    mask = torch.rand(1 if kind == "one for all" else B, 1, nq, nk, generator=g, device=g.device) < 0.6
    mask[:, :, nq // 2] = False
    return mask.expand(B, 1, nq, nk)
