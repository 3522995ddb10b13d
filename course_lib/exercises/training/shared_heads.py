"""Gradients of heads of k and v that several heads of q share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from course_lib.catalogue import say
from course_lib.criteria import (
    EPS32,
    GATES,
    BuffersBelow,
    DotFlops,
    Launches,
    NoAtomics,
    Traffic,
    correct,
    roundings,
)
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.cases import BF16, FP32, operations
from course_lib.exercises.flash.criteria import pairs
from course_lib.exercises.flash.oracles import attend
from course_lib.exercises.flash_backward.oracles import CHANCE, KeysAndValues
from course_lib.exercises.misconceptions import Misconception, multiplied_in_tf32
from course_lib.exercises.remembered import remembered
from course_lib.mistakes import as_tf32

# ------------------------------------------------------------------------------------------------ what a layer hands over


def projected(
    g: torch.Generator, B: int, n: int, heads: Sequence[int], D: int, dtype: torch.dtype
) -> list[torch.Tensor]:
    """Draw tensors (B, H, n, D), one for each number of heads, as views of one projection (B, n, sum of H, D)."""
    whole = torch.randn(B, n, sum(heads), D, generator=g, device=g.device).to(dtype)
    return list(whole.transpose(1, 2).split(list(heads), 1))


def shared_heads(
    B: int,
    Hkv: int,
    group: int,
    nq: int,
    nk: int,
    D: int,
    dtype: torch.dtype = FP32,
    turning: bool = False,
    across: bool = False,
):
    """Return a function that draws q, k, v, do (heads as a layer has them), lse and delta (B, Hq, nq) of a causal pass, and scale.

    turning  do is around 3 for the first half of the queries and around -3 for the others, so that sums over queries grow first
    across   do lies in memory by columns, as what comes back through a transpose does
    """

    def draw(g: torch.Generator) -> dict[str, Any]:
        q, do = projected(g, B, nq, (Hkv * group, Hkv * group), D, dtype)
        k, v = projected(g, B, nk, (Hkv, Hkv), D, dtype)
        if turning:
            do = do + torch.where(torch.arange(nq, device=g.device) < nq // 2, 3, -3)[:, None].to(dtype)
            q = q + 2
        if across:
            do = do.mT.contiguous().mT
        scale = 0.7 * D**-0.5
        o, lse = attend(q, *(x.repeat_interleave(group, 1) for x in (k, v)), causal=True, scale=scale)
        delta = (do.double() * o).sum(-1).float()
        return {"q": q, "k": k, "v": v, "do": do, "lse": lse, "delta": delta, "scale": scale}

    return draw


# ------------------------------------------------------------------------------------------------ what is seen


def sees(nq: int, nk: int, causal: bool, window: int | None, top_left: bool, mask: torch.Tensor | None) -> torch.Tensor:
    """Return the mask (nq, nk), or (B, 1, nq, nk) if `mask` is given: True where a query sees a key. A given mask decides alone; without
    one, queries are the last nq of nk positions, or with top_left the first."""
    if mask is not None:
        return mask
    if not causal:
        return torch.ones(nq, nk, dtype=torch.bool)
    at = torch.arange(nq)[:, None] + (0 if top_left else nk - nq)
    keys = torch.arange(nk)
    return (keys <= at) & (keys > at - (window or nk + nq))


def causal_besides(mask: torch.Tensor | None, top_left: bool = False) -> torch.Tensor | None:
    """Return the mask (B, 1, nq, nk) without the keys that come after a query; None if there is no mask, or if it shows none of them."""
    if mask is None:
        return None
    both = mask & sees(mask.shape[-2], mask.shape[-1], True, None, top_left, None).to(mask.device)
    return None if torch.equal(both, mask) else both


def probabilities(q, k, v, scaling, **what: Any) -> tuple[torch.Tensor, ...]:
    """Compute (p, v for each head of q, the largest sum of |terms| of a score), in float64."""
    group = q.shape[1] // k.shape[1]
    q, k, v = q.double(), *(x.double().repeat_interleave(group, 1) for x in (k, v))
    scale = q.shape[-1] ** -0.5 if scaling is None else scaling
    mask = sees(q.shape[2], k.shape[2], **what).to(q.device)
    s = (q @ k.mT * scale).masked_fill(~mask, -math.inf)
    return torch.softmax(s, -1).nan_to_num(0), v, (scale * q.abs() @ k.abs().mT).amax(-1)


def scores_flops(side: int) -> Callable[..., int]:
    """Make a function that counts the FLOPs of two products of each visible tile of side x side, causal."""
    return lambda q, k, **_: 4 * q.shape[-1] * q.shape[0] * q.shape[1] * pairs(q.shape[2], k.shape[2], True, side=side)


# ------------------------------------------------------------------------------------------------ shared heads, backward


@remembered
def of_heads(q, k, v, do, scale: float) -> tuple[KeysAndValues, KeysAndValues]:
    """Compute (dk, dv) from each head of q, (B, Hkv, group, Nk, D) in float64, and their error bounds.

    Bounds as in unit 10: float32 inside, and in half precision one rounding of each probability and of each ds.
    """
    group = q.shape[1] // k.shape[1]
    unit = torch.finfo(q.dtype).eps / 2 if q.dtype != torch.float32 else 0.0
    p, v, size = probabilities(q, k, v, scale, mask=None, causal=True, window=None, top_left=False)
    q, do = q.double(), do.double()
    dp = do @ v.mT
    ds = p * (dp - (p * dp).sum(-1, keepdim=True))
    error = ((2 * math.sqrt(sum(p.shape[-2:]) + q.shape[-1]) + 8 + 2 * size) * EPS32)[..., None] * p
    sizes = do.abs() @ v.abs().mT + (do.abs() * (p @ v.abs())).sum(-1, keepdim=True)

    def walk(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return CHANCE * unit * torch.sqrt((x * x).mT @ (y * y))

    def by_group(dk: torch.Tensor, dv: torch.Tensor) -> KeysAndValues:
        return KeysAndValues(dk.unflatten(1, (-1, group)), dv.unflatten(1, (-1, group)))

    bounds = scale * ((error * sizes).mT @ q.abs() + walk(ds, q)), error.mT @ do.abs() + walk(p, do)
    return by_group(scale * ds.mT @ q, p.mT @ do), by_group(*bounds)


def shared_gradients(q, k, v, do, scale: float, **_: Any) -> KeysAndValues:
    """Compute dk and dv in float64: sums over the heads of q that read a head of k and v."""
    return KeysAndValues(*(x.sum(2) for x in of_heads(q, k, v, do, scale)[0]))


def shared_budget(expected: torch.Tensor, dtype: torch.dtype, arguments: dict[str, Any]) -> torch.Tensor:
    """Return the error bound for dk or dv, whichever is expected."""
    bounds = of_heads(*(arguments[name] for name in ("q", "k", "v", "do", "scale")))[1]
    which = next(i for i, found in enumerate(shared_gradients(**arguments)) if torch.equal(found, expected))
    return roundings(expected, dtype, 1) + bounds[which].sum(2)


def of_one_head(which: int) -> Callable[..., KeysAndValues | None]:
    """Make the wrong formula in which one head of a group stands for all."""

    def wrong(q, k, v, do, scale: float, **_: Any) -> KeysAndValues | None:
        if q.shape[1] == k.shape[1]:
            return None
        return KeysAndValues(*(x[:, :, which] for x in of_heads(q, k, v, do, scale)[0]))

    return wrong


def mean_of_heads(q, k, v, do, scale: float, **_: Any) -> KeysAndValues | None:
    """Compute dk and dv with the sum over a group divided by its number of heads; None for groups of one."""
    if q.shape[1] == k.shape[1]:
        return None
    return KeysAndValues(*(x.mean(2) for x in of_heads(q, k, v, do, scale)[0]))


def at_the_top_left(q, k, v, do, scale: float, **_: Any) -> KeysAndValues | None:
    """Compute dk and dv as if query i saw keys up to i. lse and delta are those of the right alignment."""
    if q.shape[2] == k.shape[2]:
        return None
    group = q.shape[1] // k.shape[1]
    p, v = probabilities(q, k, v, scale, mask=None, causal=True, window=None, top_left=False)[:2]
    q, do, seen = q.double(), do.double(), p.tril()
    dp = do @ v.mT
    ds = seen * (dp - (p * dp).sum(-1, keepdim=True))
    return KeysAndValues(*(x.unflatten(1, (-1, group)).sum(2) for x in (scale * ds.mT @ q, seen.mT @ do)))


def without_mask(q, k, v, do, lse, delta, scale: float, **_: Any) -> KeysAndValues:
    """Compute dk and dv as if every query read every key, with lse and delta of the causal pass."""
    group = q.shape[1] // k.shape[1]
    q, do, k, v = q.double(), do.double(), *(x.double().repeat_interleave(group, 1) for x in (k, v))
    p = torch.exp(scale * q @ k.mT - lse.double()[..., None])
    ds = p * (do @ v.mT - delta.double()[..., None])
    return KeysAndValues(*(x.unflatten(1, (-1, group)).sum(2) for x in (scale * ds.mT @ q, p.mT @ do)))


def paired(q, k, v, do, scale: float, keys: torch.Tensor, rows: torch.Tensor, **_: Any) -> KeysAndValues:
    """Compute dk and dv where head h of q reads head keys[h] of k and v, and rows rows[h] of lse and delta; both as the right pass has."""
    group = q.shape[1] // k.shape[1]
    o, lse = attend(q, *(x.repeat_interleave(group, 1) for x in (k, v)), causal=True, scale=scale)
    delta = (do.double() * o.double()).sum(-1, keepdim=True)[:, rows]
    seen = sees(q.shape[2], k.shape[2], True, None, False, None).to(q.device)
    q, do = q.double(), do.double()
    p = torch.exp(scale * q @ k.double()[:, keys].mT - lse.double()[:, rows, :, None]).where(seen, 0)
    ds = p * (do @ v.double()[:, keys].mT - delta)
    nothing = torch.zeros(k.shape, dtype=torch.float64, device=k.device)
    return KeysAndValues(*(nothing.index_add(1, keys, x) for x in (scale * ds.mT @ q, p.mT @ do)))


def heads_in_turn(q, k, **given: Any) -> KeysAndValues | None:
    """Compute dk and dv as if head h of q read head h % Hkv of k and v; None for groups of one."""
    heads = torch.arange(q.shape[1], device=q.device)
    return None if q.shape[1] == k.shape[1] else paired(q, k, keys=heads % k.shape[1], rows=heads, **given)


def rows_of_shared_heads(q, k, **given: Any) -> KeysAndValues | None:
    """Compute dk and dv with rows of lse and delta that are numbered by the head of k and v; None for groups of one."""
    B, Hq, Hkv = q.shape[0], q.shape[1], k.shape[1]
    if Hq == Hkv or B > 1:  # in later texts these are rows of other texts
        return None
    shared = torch.arange(Hq, device=q.device) // (Hq // Hkv)
    return paired(q, k, keys=shared, rows=shared, **given)


def in_tf32(q, k, v, do, lse, delta, scale: float, **_: Any) -> list[torch.Tensor]:
    """Compute dk with one of its products in TF32, or all of them."""
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    seen = sees(q.shape[2], k.shape[2], True, None, False, None).to(q.device)

    def dk(*coarse: str) -> torch.Tensor:
        def product(name: str, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return as_tf32(a) @ as_tf32(b) if name in coarse else a.double() @ b.double()

        p = torch.exp(scale * product("s", q, k.mT) - lse.double()[..., None]).where(seen, 0)
        ds = p * (product("dp", do, v.mT) - delta.double()[..., None])
        return (scale * product("dk", ds.mT, q)).unflatten(1, (-1, group)).sum(2)

    return [dk("s"), dk("dp"), dk("dk"), dk("s", "dp", "dk")]


def unscaled(**given: Any) -> KeysAndValues:
    """Compute dk without its factor scale, and dv."""
    dk, dv = shared_gradients(**given)
    return KeysAndValues(dk / given["scale"], dv)


def backward_flops(side: int) -> Callable[..., int]:
    """Make a function that counts the FLOPs of four products of each visible tile of side x side, causal."""
    return lambda **given: 2 * scores_flops(side)(**given)


def for_each_tile(q, k, **_: Any) -> dict[str, int]:
    """Count the bytes that tiles of 64 keys read of those heads and queries that see them."""
    n = k.shape[2]
    rows = q.shape[0] * q.shape[1] * sum(n - start for start in range(0, n, 64))
    wide = rows * q.shape[3] * q.element_size()
    return {"q": wide, "do": wide, "lse": 4 * rows, "delta": 4 * rows}


def least_bytes(k, **given: Any) -> int:
    """Count the bytes that are moved: k, v, dk and dv once; for each tile of keys what sees it."""
    return 4 * k.nbytes + sum(for_each_tile(k=k, **given).values())


grouped_backward = Exercise(
    id="training.grouped_backward",
    signature="grouped_backward(q, do: (B, Hq, Nq, D), k, v: (B, Hkv, Nk, D), lse, delta: (B, Hq, Nq), scale) -> dk, dv: "
    "(B, Hkv, Nk, D), causal",
    effort=Effort(minutes=30, lines=45, difficulty=4),
    cases=[
        Case("2 texts, 3 heads, 64 tokens", "plain", shared_heads(2, 3, 1, 64, 64, 16)),
        Case("6 heads for 2, 140 tokens", "grouped", shared_heads(2, 2, 3, 140, 140, 16)),
        Case("8 heads for 1", "grouped", shared_heads(3, 1, 8, 33, 33, 32)),
        Case("37 queries, 100 keys", "ragged", shared_heads(1, 2, 2, 37, 100, 16)),
        Case("1 query, 70 keys", "ragged", shared_heads(2, 1, 2, 1, 70, 16)),
        Case("8 heads for 2, 150 tokens, bfloat16", "half", shared_heads(1, 2, 4, 150, 150, 32, BF16)),
        Case(
            "2 heads for 1, sums that cancel, bfloat16", "half", shared_heads(1, 1, 2, 512, 512, 16, BF16, turning=True)
        ),
        Case("2 texts, 8 heads for 4, 256 tokens, bfloat16", "performance", shared_heads(2, 4, 2, 256, 256, 32, BF16)),
    ],
    oracle=shared_gradients,
    budget=shared_budget,
    allows=operations("clone sum _to_copy"),
    gates=GATES,
    criteria=[
        *correct("training.grouped_backward", {"grouped": 3, "ragged": 1, "half": 1}),
        NoAtomics(2),
        BuffersBelow(lambda k, **_: k.nbytes / 2, 2, say("training.grouped_backward.title_buffers_below")),
        DotFlops(backward_flops(128), backward_flops(1), 1, say("training.grouped_backward.title_dot_flops")),
        Traffic(
            least_bytes,
            2,
            at_most=1.1,
            title=say("training.grouped_backward.title_traffic"),
            programs=16,
            again=for_each_tile,
        ),
        Launches(1, 1),
    ],
    mistakes=[
        Misconception(
            mean_of_heads,
            say("training.grouped_backward.the_mean_over_a_group"),
            shared_gradients,
            each=True,
        ),
        Misconception(without_mask, say("training.grouped_backward.not_causal"), shared_gradients, each=True),
        Misconception(
            of_one_head(0),
            say("training.grouped_backward.the_first_head_of_each_group"),
            shared_gradients,
            each=True,
        ),
        Misconception(
            of_one_head(-1),
            say("training.grouped_backward.the_last_head_of_each_group"),
            shared_gradients,
            each=True,
        ),
        Misconception(at_the_top_left, say("training.grouped_backward.aligned_at_the_top_left"), shared_gradients),
        Misconception(unscaled, say("training.grouped_backward.dk_not_scaled"), shared_gradients),
        Misconception(heads_in_turn, say("training.grouped_backward.heads_in_turn"), shared_gradients, each=True),
        Misconception(
            rows_of_shared_heads, say("training.grouped_backward.lse_of_a_shared_head"), shared_gradients, each=True
        ),
        multiplied_in_tf32(in_tf32, shared_gradients),
    ],
)
