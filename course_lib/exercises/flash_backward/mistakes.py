"""What goes wrong with gradients, and how to tell by the results."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from course_lib.exercise import Trial
from course_lib.exercises import attention
from course_lib.exercises.attention.mistakes import computes, has_nan
from course_lib.exercises.attention.oracles import seen
from course_lib.exercises.flash_backward.oracles import gradients
from course_lib.mistakes import Mistake


def with_do_named(call: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call, the gradient of o under the name `do`."""
    return {("do" if name == "dy" else name): value for name, value in call.items()}


def slip(name: str, place: int, wrong: Callable[..., Any], sentence: str) -> Mistake:
    """`sentence`, if result number `place`, which should be dq, dk or dv (`name`), is what `wrong` makes of the arguments: all three."""
    which = ("dq", "dk", "dv").index(name)

    def one_of(all_three: Callable[..., Any]) -> Callable[..., torch.Tensor | None]:
        return lambda **call: (found := all_three(**with_do_named(call))) and found[which]

    return computes(one_of(wrong), sentence, one_of(gradients), place)


def scaled(power: int) -> Callable[..., tuple[torch.Tensor, ...]]:
    """(dq, dk, dv) with the factor scale so many times more than is right."""

    def wrong(q, k, v, do, causal=False, scale=None, **_):
        times = (q.shape[-1] ** -0.5 if scale is None else scale) ** power
        dq, dk, dv = gradients(q, k, v, do, causal, scale)
        return times * dq, times * dk, dv

    return wrong


def by_the_formula(edge: Callable[[int, int], int] | None = None, minus: float = 1.0) -> Callable[..., Any]:
    """(dq, dk, dv) by the chain rule of 08, with `minus` times delta, and a mask that lets query i see the keys up to i + edge(Nq, Nk)
    although lse knows better; None where some query sees nothing, or that mask does not differ."""

    def wrong(q, k, v, do, causal=False, scale=None, **_):
        nq, nk = q.shape[-2], k.shape[-2]
        if causal and nq > nk or edge and not causal:
            return None
        q, k, v, do = (x.double() for x in (q, k, v, do))
        scale = q.shape[-1] ** -0.5 if scale is None else scale
        s, dp = scale * q @ k.mT, do @ v.mT
        right = seen(nq, nk, causal, q.device)
        p = torch.exp(s - s.masked_fill(~right, -math.inf).logsumexp(-1, keepdim=True))
        delta = (p * right * dp).sum(-1, keepdim=True)
        p = p * (torch.ones_like(right).tril(edge(nq, nk)) if edge else right)
        ds = p * (dp - minus * delta)
        return scale * ds @ k, scale * ds.mT @ q, p.mT @ do

    return wrong


def atomics(trials: Sequence[Trial]) -> str:
    found = any(a.op == "atomic" for t in trials for launch in t.evidence.launches for a in launch.accesses)
    return "Atomics add in whatever order programs arrive. Give each sum a program of its own." if found else ""


def mistakes_of(name: str, place: int) -> list[Mistake]:
    """What dq or dk (`name`), result number `place`, may lack or have twice."""
    other = {"dq": "k", "dk": "q"}[name]
    return [
        slip(
            name,
            place,
            scaled(-1),
            f"{name} lacks the factor scale: s = scale * q @ k.mT, so {name} is scale times a product of ds and {other}.",
        ),
        slip(name, place, scaled(1), f"{name} has the factor scale twice: in ds, or in {other}, and at the end."),
        slip(name, place, by_the_formula(minus=0.0), f"{name} lacks delta: ds = p * (dp - delta)."),
    ]


def masks_of(name: str) -> list[Mistake]:
    """How the mask of a kernel whose first result is dq or dk may lie."""
    return [
        slip(name, 0, by_the_formula(lambda nq, nk: 0), attention.mistakes.AT_THE_TOP_LEFT),
        slip(name, 0, by_the_formula(lambda nq, nk: nk), "These are the gradients without the causal mask."),
        slip(name, 0, by_the_formula(lambda nq, nk: nk - nq - 1), "Each query sees one key too few."),
        slip(name, 0, by_the_formula(lambda nq, nk: nk - nq + 1), "Each query sees one key too many."),
    ]


def swapped(place: int) -> Mistake:
    return slip(
        "dk", place, lambda **given: (dkv := gradients(**given)) and (dkv[0], dkv[2], dkv[1]), "dk and dv are swapped."
    )


LOST_NOTHING = has_nan(
    ["nothing", "causal"],
    "NaN: lse is -inf where a query sees nothing, and exp(s + inf) is inf. Mask p, after exp, with 0.",
)
LOST_RAGGED = has_nan(
    ["ragged", "hard"],
    "NaN: rows that are not there have a score of 0, and exp(0 - lse) may be inf; inf * 0 is NaN. Mask p with 0.",
)
