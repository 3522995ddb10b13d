"""Cases of unit 08's exercises."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from course_lib.exercises.attention.oracles import merged, reference
from course_lib.exercises.cases import laid_out


def qkv(
    nq: int,
    nk: int,
    d: int,
    dtype: torch.dtype = torch.float32,
    *,
    lead: Sequence[int] = (),
    layout: str = "rows",
    scores: str = "mild",
    v_mean: float = 0.0,
    **more: Any,
):
    """Return a function that draws q (*lead, nq, d), k and v (*lead, nk, d), and passes on `more`.

    scores  what scale * q @ k.mT is like: "mild", around 0; "flat", all within 0.2 of 0; "large", up to about 150 either way;
            "rising", by 60 from the first key to the last; "last", one score of about 80, at the last key; "low", all near -200
    v_mean  a number that is added to v
    layout  how each of q, k and v lies in memory: see course_lib.exercises.cases.laid_out
    """

    def draw(g: torch.Generator) -> dict[str, Any]:
        def normal(n: int) -> torch.Tensor:
            return torch.randn(*lead, n, d, generator=g, device=g.device)

        q, k, v = normal(nq), normal(nk), normal(nk) + v_mean
        if scores in ("large", "flat"):
            q = q * (40 if scores == "large" else 2**-6)
        elif scores != "mild":
            q, k = (
                1 + q / 4,
                k / 4,
            )  # each q points along (1, ..., 1), so adding r to a key adds r * sqrt(d) to its scores
            ramp = torch.linspace(0, 60, nk, device=g.device)
            if scores == "last":
                ramp = torch.where(torch.arange(nk, device=g.device) == nk - 1, 80.0, 0.0)
            elif scores == "low":
                ramp = torch.full_like(ramp, -200)
            k = k + ramp[:, None] / math.sqrt(d)
        return {name: laid_out(x.to(dtype), layout) for name, x in zip("qkv", (q, k, v), strict=True)} | more

    return draw


def with_backward(draw: Callable, causal: bool):
    """Extend `draw` with o and lse as a forward pass leaves them, and with do; `causal` comes last."""

    def drawn(g: torch.Generator) -> dict[str, Any]:
        given = draw(g)
        o, lse = reference(**given, causal=causal)
        q = given["q"]
        do = torch.randn(q.shape, generator=g, device=g.device).to(q.dtype)
        return given | {"o": o.to(q.dtype), "do": do, "lse": lse.float(), "causal": causal}

    return drawn


def state_of(scores: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Compute (m, l, acc) in float64 of scores (..., N, n) and values (n, D): maximum, sum of exp, sum of exp times value."""
    m = scores.double().amax(-1)
    p = torch.exp(scores.double() - torch.where(m == -math.inf, 0, m)[..., None])
    return m, p.sum(-1), p @ v.double()


def states(
    *shape: int, d: int = 8, keys: int = 12, mean: Sequence[float] = (0, 0), spread: float = 3.0, nothing: str = ""
):
    """Return a function that draws a and b, the states of `shape` queries after `keys` keys each. mean: those of the scores of a and of b.

    nothing: in which state every second row has seen no key: "a", "b", "both", or "" for none.
    """

    def draw(g: torch.Generator) -> dict[str, Any]:
        found = {}
        for name, mu in zip("ab", mean, strict=True):
            scores = torch.randn(*shape, keys, generator=g, device=g.device) * spread + mu
            if nothing in (name, "both"):
                scores[..., ::2, :] = -math.inf
            found[name] = tuple(t.float() for t in state_of(scores, torch.randn(keys, d, generator=g, device=g.device)))
        return found

    return draw


def rearranged(n: int = 6, d: int = 4):
    """Return a function that draws states to merge in two orders: x + y in row i, y + x in row n + i; then (x + y) + z and x + (y + z)."""

    def draw(g: torch.Generator) -> dict[str, Any]:
        x, y, z = (states(n, d=d, mean=(mu, 0), spread=2.0)(g)["a"] for mu in (0, 3, -2))
        xy, yz = merged(x, y), merged(y, z)
        return {"a": rows(x, y, xy, x), "b": rows(y, x, z, yz)}

    return draw


def rows(*parts: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Put the rows of several states one below the other."""
    return tuple(torch.cat(column) for column in zip(*parts, strict=True))


def positions(
    *shape: int, d: int, places: Callable[[int, torch.Generator], torch.Tensor], dtype: torch.dtype = torch.float32
):
    """Return a function that draws x (*shape, d) and positions (shape[-1],)."""

    def draw(g: torch.Generator) -> dict[str, torch.Tensor]:
        x = torch.randn(*shape, d, generator=g, device=g.device).to(dtype)
        return {"x": x, "positions": places(shape[-1], g)}

    return draw


def from_zero(n: int, g: torch.Generator) -> torch.Tensor:
    """The positions 0, 1, ..., n - 1."""
    return torch.arange(n, device=g.device)


def anywhere(n: int, g: torch.Generator) -> torch.Tensor:
    """Draw n positions below 30000, in any order."""
    return torch.randint(0, 30000, (n,), generator=g, device=g.device)


def tiled(
    nq: int, nk: int, d: int, bm: int, bn: int, dtype: torch.dtype = torch.float32, *, causal: bool = False, **more: Any
):
    """Make a drawing as `qkv` does, with tiles of bm x bn."""
    return qkv(nq, nk, d, dtype, **more, causal=causal, bm=bm, bn=bn)
