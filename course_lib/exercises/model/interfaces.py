"""A model's attention: the function that its layers call, and gradients of heads that several queries share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from course_lib.criteria import EPS32, GATES, BuffersBelow, Correct, DotFlops, Launches, NoAtomics, Traffic, roundings
from course_lib.exercise import Case, Exercise, Trial
from course_lib.exercises.attention.mistakes import has_nan
from course_lib.exercises.cases import BF16, operations
from course_lib.exercises.flash.criteria import pairs
from course_lib.exercises.flash.mistakes import SEEN_NOTHING
from course_lib.exercises.flash_backward.oracles import CHANCE, KeysAndValues, remembered
from course_lib.exercises.model.cases import layer, shared_heads
from course_lib.exercises.slips import Slip, part

# ------------------------------------------------------------------------------------------------ what is seen


def sees(nq: int, nk: int, causal: bool, window: int | None, top_left: bool, mask: torch.Tensor | None) -> torch.Tensor:
    """(nq, nk), or (B, 1, nq, nk) for a mask: True where a query sees a key. A mask says all; without one, queries are the last
    nq of nk positions, or at the top left the first."""
    if mask is not None:
        return mask
    if not causal:
        return torch.ones(nq, nk, dtype=torch.bool)
    at = torch.arange(nq)[:, None] + (0 if top_left else nk - nq)
    keys = torch.arange(nk)
    return (keys <= at) & (keys > at - (window or nk + nq))


def probabilities(q, k, v, scaling, **what: Any) -> tuple[torch.Tensor, ...]:
    """(p, v for each head of q, the largest sum of |terms| of a score), in float64."""
    group = q.shape[1] // k.shape[1]
    q, k, v = q.double(), *(x.double().repeat_interleave(group, 1) for x in (k, v))
    scale = q.shape[-1] ** -0.5 if scaling is None else scaling
    mask = sees(q.shape[2], k.shape[2], **what).to(q.device)
    s = (q @ k.mT * scale).masked_fill(~mask, -math.inf)
    return torch.softmax(s, -1).nan_to_num(0), v, (scale * q.abs() @ k.abs().mT).amax(-1)


def attended(q, k, v, mask=None, causal=True, scaling=None, window=None, top_left=False) -> torch.Tensor:
    """(B, nq, Hq, D)."""
    what = {"mask": mask, "causal": causal, "window": window, "top_left": top_left}
    p, v, _ = probabilities(q, k, v, scaling, **what)
    return (p @ v).transpose(1, 2)


def attended_budget(expected: torch.Tensor, dtype: torch.dtype, arguments: dict[str, Any]) -> torch.Tensor:
    """One rounding of the result, one of the probabilities; float32 inside, as in unit 09."""
    p, v, size = probabilities(**arguments)
    error = (2 * math.sqrt(v.shape[2]) + 8 + 2 * size) * EPS32
    inside = error[..., None] * v.abs().amax(2, keepdim=True) + torch.finfo(dtype).eps / 2 * (p @ v.abs())
    return roundings(expected, dtype, 1) + inside.transpose(1, 2)


def but(**changed: Any) -> Callable[..., torch.Tensor | None]:
    """Make a slip: these arguments are taken for others. None where they are the same."""
    return lambda **given: (
        None if all(given[name] is value for name, value in changed.items()) else attended(**given | changed)
    )


def in_turn(q, k, v, **more: Any) -> torch.Tensor | None:
    """The slip that heads of q are dealt out in turn: head h reads head h % Hkv."""
    group, heads = q.shape[1] // k.shape[1], k.shape[1]
    if group == 1 or heads == 1:
        return None
    return attended(q, *(x.repeat(1, group, 1, 1) for x in (k, v)), **more)


def laid_out_as_q(trials: Sequence[Trial]) -> str:
    """Say so if a result has the layout of q."""
    for trial in trials:
        for call, out in zip(trial.inputs, trial.evidence.outputs, strict=False):
            q, o = call["q"], part(out, 0)
            if isinstance(o, torch.Tensor) and o.shape == q.shape != q.transpose(1, 2).shape:
                return "The result is laid out as q is, but the layer wants (B, Nq, Hq, D): all heads of one token, then those of the next."
    return ""


def scores_flops(side: int) -> Callable[..., int]:
    """Count FLOPs of two products of each tile of side x side of which something is seen, causal."""
    return lambda q, k, **_: 4 * q.shape[-1] * q.shape[0] * q.shape[1] * pairs(q.shape[2], k.shape[2], True, side=side)


attention_for = Exercise(
    id="model.attention_for",
    entry="attention_for",
    signature="attention_for(module, query: (B, Hq, Nq, D), key, value: (B, Hkv, Nk, D), attention_mask, scaling=None, "
    "sliding_window=None, top_left=False, **others) -> (B, Nq, Hq, D), None",
    called="as a layer does",
    minutes=35,
    difficulty=4,
    lines=55,
    cases=[
        Case("2 texts, 3 heads, 40 tokens, not causal", "plain", layer(2, 3, 1, 40, 40, 16, causal=False)),
        Case("6 heads for 2", "grouped", layer(2, 2, 3, 33, 33, 16, causal=False)),
        Case("8 heads for 1, k and v from a cache", "grouped", layer(1, 1, 8, 20, 50, 32, causal=False, cached=True)),
        Case("a prompt of 50 tokens", "causal", layer(2, 2, 2, 50, 50, 16)),
        Case("a second piece of 6 tokens after 10", "causal", layer(2, 2, 2, 6, 16, 16, cached=True)),
        Case("one token after 69", "causal", layer(2, 1, 4, 1, 70, 16, cached=True)),
        Case("a prompt of 10 in 24 places", "top left", layer(2, 2, 2, 10, 24, 16, cached=True, top_left=True)),
        Case("a prompt of 70 in 200 places", "top left", layer(1, 2, 1, 70, 200, 16, cached=True, top_left=True)),
        Case("a window of 16, 100 tokens", "window", layer(1, 2, 2, 100, 100, 16, window=16)),
        Case("a window of 9, 5 tokens after 60", "window", layer(2, 1, 2, 5, 65, 16, cached=True, window=9)),
        Case("padded on the left", "mask", layer(3, 2, 2, 40, 40, 16, mask="padded")),
        Case("any keys, a query that sees none", "mask", layer(2, 2, 1, 30, 45, 16, mask="holes", cached=True)),
        Case("one mask for all texts", "mask", layer(3, 1, 2, 17, 33, 16, mask="one for all")),
        Case("a scale of 0.3", "scale", layer(1, 2, 2, 40, 40, 16, scaling=0.3)),
        Case("8 heads for 2, bfloat16", "half", layer(1, 2, 4, 60, 60, 32, BF16)),
        Case(
            "16 queries, 4096 keys, v around 20, bfloat16",
            "half",
            layer(1, 1, 1, 16, 4096, 16, BF16, v_mean=20.0, causal=False),
        ),
        Case("8 heads for 2, 256 tokens, bfloat16", "performance", layer(2, 2, 4, 256, 256, 32, BF16)),
    ],
    oracle=attended,
    budget=attended_budget,
    allows=operations("clone _to_copy"),
    gates=GATES,
    criteria=[
        Correct("grouped", 2, "heads that share k and v"),
        Correct("causal", 2, "causal, the queries are the last positions"),
        Correct("top left", 2, "causal, the queries are the first positions"),
        Correct("window", 2, "a window"),
        Correct("mask", 3, "a mask is obeyed"),
        Correct("scale", 1, "the scale of the model"),
        Correct("half", 1, "half precision in and out, float32 inside"),
        BuffersBelow(lambda k, **_: k.nbytes / 2, 2, "no copy of k or v in memory"),
        DotFlops(scores_flops(128), scores_flops(1), 1, "causal: half the products, and the diagonal"),
        Launches(1, 1, programs=16),
    ],
    hints=[
        "It is unit 09's kernel, with strides for four axes and with other ends of the loop. Begin without a mask. Allocate o as (B, Nq, "
        "Hq, D), and hand over its strides in the order of q's.",
        "head // group is the head of k and v, and position = row + (0 if top_left else Nk - Nq). A query sees the keys <= position that "
        "are > position - window. If module.is_causal is False, it sees all keys.",
        "A mask says everything, causality and window included. Load its tile with the strides of attention_mask.stride(), any of which "
        "may be 0, and put -inf where it is False. A query that sees nothing has l = 0, so divide by tl.where(l == 0, 1, l). If m is "
        "still -inf, subtract 0 instead of m.",
    ],
    mistakes=[
        laid_out_as_q,
        has_nan(["window", "mask"], SEEN_NOTHING),
        Slip(
            but(mask=None),
            "The mask is dropped. If attention_mask is not None, it alone says what a query sees.",
            attended,
        ),
        Slip(
            but(top_left=True),
            "The queries are the last of the keys' positions, but the mask is aligned at the top left. Use position = row + Nk - Nq.",
            attended,
        ),
        Slip(
            but(top_left=False),
            "With top_left the queries are the first of the keys' positions, but the mask is aligned at the bottom right. Use position = "
            "row.",
            attended,
        ),
        Slip(
            but(window=None),
            "The window is ignored. A query sees the last `sliding_window` keys, its own included.",
            attended,
        ),
        Slip(but(scaling=None), "The model's `scaling` is ignored, and 1 / sqrt(D) is used instead.", attended),
        Slip(
            in_turn,
            (
                "A head of q reads the wrong head of k and v. Head h of q reads head h // group: the heads of a group are neighbours."
            ),
            attended,
        ),
    ],
)

# ------------------------------------------------------------------------------------------------ shared heads, backward


@remembered
def of_heads(q, k, v, do, scale: float) -> tuple[KeysAndValues, KeysAndValues]:
    """(dk, dv) that each head of q gives, (B, Hkv, group, Nk, D) in float64, and their error bounds.

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
    """dk and dv in float64: sums over the heads of q that read a head of k and v."""
    return KeysAndValues(*(x.sum(2) for x in of_heads(q, k, v, do, scale)[0]))


def shared_budget(expected: torch.Tensor, dtype: torch.dtype, arguments: dict[str, Any]) -> torch.Tensor:
    """Error bound for dk or dv, whichever is expected."""
    bounds = of_heads(*(arguments[name] for name in ("q", "k", "v", "do", "scale")))[1]
    which = next(i for i, found in enumerate(shared_gradients(**arguments)) if torch.equal(found, expected))
    return roundings(expected, dtype, 1) + bounds[which].sum(2)


def of_one_head(which: int) -> Callable[..., KeysAndValues | None]:
    """Make a slip: one head of a group stands for all."""

    def wrong(q, k, v, do, scale: float, **_: Any) -> KeysAndValues | None:
        if q.shape[1] == k.shape[1]:
            return None
        return KeysAndValues(*(x[:, :, which] for x in of_heads(q, k, v, do, scale)[0]))

    return wrong


def at_the_top_left(q, k, v, do, scale: float, **_: Any) -> KeysAndValues | None:
    """The slip that query i sees keys up to i. lse and delta are those of the right alignment."""
    if q.shape[2] == k.shape[2]:
        return None
    group = q.shape[1] // k.shape[1]
    p, v = probabilities(q, k, v, scale, mask=None, causal=True, window=None, top_left=False)[:2]
    q, do, seen = q.double(), do.double(), p.tril()
    dp = do @ v.mT
    ds = seen * (dp - (p * dp).sum(-1, keepdim=True))
    return KeysAndValues(*(x.unflatten(1, (-1, group)).sum(2) for x in (scale * ds.mT @ q, seen.mT @ do)))


def unscaled(**given: Any) -> KeysAndValues:
    """The slip that dk lacks its factor scale."""
    dk, dv = shared_gradients(**given)
    return KeysAndValues(dk / given["scale"], dv)


def backward_flops(side: int) -> Callable[..., int]:
    """Count FLOPs of four products of each tile of side x side of which something is seen, causal."""
    return lambda **given: 2 * scores_flops(side)(**given)


def least_bytes(q, k, **_: Any) -> int:
    """Bytes that tiles of 64 keys move: k, v, dk and dv once; for each tile, q and do of those heads and queries that see it."""
    n, size = k.shape[2], q.element_size()
    seen = sum(n - start for start in range(0, n, 64))
    return size * 4 * k.numel() + q.shape[0] * q.shape[1] * seen * (2 * q.shape[3] * size + 8)


grouped_backward = Exercise(
    id="model.grouped_backward",
    entry="grouped_backward",
    signature="grouped_backward(q, do: (B, Hq, Nq, D), k, v: (B, Hkv, Nk, D), lse, delta: (B, Hq, Nq), scale) -> dk, dv: "
    "(B, Hkv, Nk, D), causal",
    minutes=30,
    difficulty=4,
    lines=45,
    cases=[
        Case("2 texts, 3 heads, 64 tokens", "plain", shared_heads(2, 3, 1, 64, 64, 16)),
        Case("6 heads for 2, 40 tokens", "grouped", shared_heads(2, 2, 3, 40, 40, 16)),
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
        Correct("grouped", 3, "the sum over the heads of a group"),
        Correct("ragged", 1, "any sizes, Nq < Nk too"),
        Correct("half", 1, "half precision in and out, float32 inside"),
        NoAtomics(2),
        BuffersBelow(lambda k, **_: k.nbytes / 2, 2, "no gradients of single heads of q in memory"),
        DotFlops(backward_flops(128), backward_flops(1), 1, "causal: half the products, and the diagonal"),
        Traffic(
            least_bytes,
            2,
            at_most=1.1,
            title="k, v read once; dk, dv written once; q and do for each tile of 64 keys",
            programs=16,
        ),
        Launches(1, 1),
    ],
    hints=[
        "Unit 10's dkdv sums over queries. Here dk and dv of a head also sum over the heads of q that read it. Which program computes "
        "this sum?",
        "A program has BLOCK_N keys of one head of k and v, keeps dk and dv in registers, and has two loops. The outer one goes over the "
        "group's heads. The inner one goes over tiles of queries, from the first that sees these keys.",
        "for g in range(GROUP): h = head * GROUP + g, and the rows of lse and delta begin at (batch * Hq + h) * Nq. Go on as in unit 10: "
        "p = exp(q kᵀ scale - lse), dv += pᵀ do, ds = p (do vᵀ - delta), dk += dsᵀ q; at the end dk * scale.",
    ],
    mistakes=[
        Slip(
            of_one_head(0),
            "dk and dv are those of the first head of each group alone. Sum over all heads of q that read this head of k and v.",
            shared_gradients,
        ),
        Slip(
            of_one_head(-1),
            "dk and dv are those of the last head of each group alone. Sum over all heads of q that read this head of k and v.",
            shared_gradients,
        ),
        Slip(
            at_the_top_left,
            "The mask is aligned at the top left. The queries are the last positions: query i sees keys up to i + Nk - Nq.",
            shared_gradients,
        ),
        Slip(
            unscaled,
            "dk lacks the factor scale: the scores are scale times q k, and so is their gradient.",
            shared_gradients,
        ),
    ],
)

EXERCISES = (attention_for, grouped_backward)
