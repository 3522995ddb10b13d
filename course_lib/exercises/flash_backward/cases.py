"""Cases of unit 10's exercises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from course_lib.exercises.attention.oracles import output_and_lse
from course_lib.exercises.cases import FP16, FP32, LAYOUTS, laid_out
from course_lib.exercises.flash.cases import heads


def upstream(like: torch.Tensor, kind: str, g: torch.Generator) -> torch.Tensor:
    """Draw a gradient of o in the shape of `like`.

    kind   "mild" around 0; "around 3"; "turning" from around 3 to around -3 half way, so that sums over queries grow and then
           cancel; "one number" for all, a view of stride 0, as after o.sum().backward(); or a layout of
           `course_lib.exercises.cases.laid_out`, mild
    """
    if kind == "one number":
        return torch.randn((), generator=g, device=g.device).to(like.dtype).expand(like.shape)
    do = torch.randn(like.shape, generator=g, device=g.device)
    if kind in ("around 3", "turning"):
        do = do + 3
    if kind == "turning":
        do[..., like.shape[-2] // 2 :, :] -= 6
    return laid_out(do.to(like.dtype), kind if kind in LAYOUTS else "rows")


def with_dy(draw: Callable, kind: str = "mild") -> Callable:
    """Extend a drawing of q, k, v and more with a gradient of o, which comes last."""

    def drawn(g: torch.Generator) -> dict[str, Any]:
        given = draw(g)
        return given | {"dy": upstream(given["q"], kind, g)}

    return drawn


def backward(
    nq: int, nk: int, d: int, dtype: torch.dtype = FP16, *, do: str = "mild", q=0.0, k=0.0, v: str = "mild", **more: Any
):
    """Return a function that draws q, k, v, do, lse and delta as forward and `delta` leave them, causal, and scale if it is given.

    q, k are around these numbers; v is of a kind of `upstream`, with keys for queries.
    """

    def drawn(g: torch.Generator) -> dict[str, Any]:
        given = heads(nq, nk, d, dtype, **more)(g)
        given |= {name: given[name] + around for name, around in (("q", q), ("k", k)) if around}
        given |= {"v": upstream(given["v"], v, g)} if v != "mild" else {}
        return after_forward(given | {"do": upstream(given["q"], do, g)})

    return drawn


def of_one_head(nq: int, nk: int, d: int, dtype: torch.dtype = FP16, **kind: Any):
    """Return a function that draws what `backward` does, for a single head in full attention: no causal among its arguments."""
    draw = backward(nq, nk, d, dtype, lead=(), **kind)
    return lambda g: {name: value for name, value in draw(g).items() if name != "causal"}


def after_forward(given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with the lse and delta of an exact forward pass added."""
    do, rest = given["do"], {name: value for name, value in given.items() if name != "do"}
    o, lse = output_and_lse(**rest)
    delta = (do.double() * o).sum(-1).float()
    tensors = {name: rest.pop(name) for name in "qkv"}
    return tensors | {"do": do, "lse": lse, "delta": delta} | rest


def outputs(*shape: int, dtype: torch.dtype = FP32, mean: float = 0.0, layout: str = "rows", do: str = "mild"):
    """Return a function that draws o and do."""

    def draw(g: torch.Generator) -> dict[str, torch.Tensor]:
        o = (torch.randn(shape, generator=g, device=g.device) + mean).to(dtype)
        return {"o": laid_out(o, layout), "do": upstream(o, do, g)}

    return draw


def both(nq: int, nk: int, d: int, dtype: torch.dtype = FP16, *, do: str = "mild", causal=False, **more: Any):
    """Return a function that draws q, k, v, causal, scale if it is given, and dy."""
    return with_dy(heads(nq, nk, d, dtype, causal=causal, **more), do)


def model(budget: float, layers: int, heads: int, head_dim: int, itemsize: int, scores: bool) -> dict[str, Any]:
    """Make the arguments of a question about a model: a budget in bytes, and the model's configuration."""
    config = dict(layers=layers, heads=heads, head_dim=head_dim, itemsize=itemsize, scores=scores)
    return {"budget_bytes": int(budget), "config": config}
