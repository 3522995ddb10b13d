"""What goes wrong with attention, and how to tell by the results."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from course_lib.criteria import Judged
from course_lib.exercise import Trial
from course_lib.exercises.attention.oracles import gradients, output_and_lse, reference
from course_lib.mistakes import Mistake


def shown(trials: Sequence[Judged]) -> list[Judged]:
    """The trials that are not right; those of group "plain" alone, if there are such: they close a gate, and a verdict shows no more."""
    wrong = [t for t in trials if t.case.group == "plain" and t.difference]
    return wrong or [t for t in trials if t.difference]


def results(trials: Sequence[Judged], place: int = 0) -> Iterator[tuple[dict[str, Any], torch.Tensor]]:
    """(arguments, result) of each call of the trials that are shown; of several results the one at that place."""
    for t in shown(trials):
        for call, out in zip(t.inputs, t.evidence.outputs, strict=False):
            found = part(out, place)
            if isinstance(found, torch.Tensor) and found.is_floating_point():
                yield call, found


def part(value: Any, place: int) -> Any:
    """The result at that place, of several; or the only one."""
    return value[place] if isinstance(value, (list, tuple)) and len(value) > place else value


def is_rather(found: torch.Tensor, guess: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether `found` is ten times nearer to the guess than to what is right. A NaN is near to a NaN alone."""

    def apart(x: torch.Tensor) -> float:
        same = (found == x) | (found.isnan() & x.isnan())
        return float((found.double() - x).masked_fill(same, 0).nan_to_num(math.inf).norm())

    return found.shape == guess.shape == right.shape and apart(guess) < apart(right) / 10


def computes(
    wrong: Callable[..., Any],
    sentence: str,
    unlike: Callable[..., Any] = output_and_lse,
    place: int = 0,
) -> Mistake:
    """`sentence`, if some result is what `wrong` of its arguments is, rather than what `unlike` of them is; of several results the
    one at that place. `wrong` may return None where it has nothing to compare with."""

    def look(trials: Sequence[Judged]) -> str:
        for call, found in results(trials, place):
            guess = part(wrong(**call), place)
            if guess is not None and is_rather(found, guess, part(unlike(**call), place)):
                return sentence
        return ""

    return look


def unscaled(q, k, v, **more):
    return reference(q, k, v, **(more | {"scale": 1.0}))[0]


def top_left(q, k, v, causal=False, scale=None, **_):
    """Causal attention with j <= i, where that is something else."""
    nq, nk = q.shape[-2], k.shape[-2]
    if not causal or nq == nk:
        return None
    scores = q.double() @ k.double().mT * (scale or 1 / math.sqrt(q.shape[-1]))
    mask = torch.ones(nq, nk, dtype=torch.bool, device=q.device).tril()
    return torch.softmax(scores.masked_fill(~mask, -math.inf), -1) @ v.double()


def all_keys(q, k, v, causal=False, **more):
    return reference(q, k, v, **more)[0] if causal else None


def has_nan(groups: Sequence[str], sentence: str) -> Mistake:
    """`sentence`, if a result of these groups that is shown as wrong holds a NaN, and not one from a masked lane without `other`."""

    def look(trials: Sequence[Judged]) -> str:
        outputs = [
            o for t in shown(trials) if t.case.group in groups and not t.evidence.poisoned for o in t.evidence.outputs
        ]
        tensors = [x for o in outputs for x in (o if isinstance(o, list) else [o]) if isinstance(x, torch.Tensor)]
        return sentence if any(bool(x.isnan().any()) for x in tensors if x.is_floating_point()) else ""

    return look


def no_scale_on_the_way_back(trials: Sequence[Trial]) -> str:
    """A sentence that names which of dq and dk are 1 / scale times too large."""
    for t in trials:
        for call, out in zip(t.inputs, t.evidence.outputs, strict=False):
            if not isinstance(out, list) or len(out) != 3 or not all(isinstance(x, torch.Tensor) for x in out):
                continue
            factor, right = math.sqrt(call["q"].shape[-1]), gradients(**call)
            lacks = [
                name
                for name, found, expected in zip(("dq", "dk"), out, right, strict=False)
                if found.shape == expected.shape and torch.allclose(found.double(), factor * expected, 0.02, 0.02)
            ]
            if lacks:
                verb = "lacks" if len(lacks) == 1 else "lack"
                return f"{' and '.join(lacks)} {verb} the factor scale: s = scale * q @ k.mT, so ds / dq and ds / dk have it."
    return ""


AT_THE_TOP_LEFT = "This mask is aligned at the top left. Ours lets the last query see all keys: j <= i + Nk - Nq."
TOP_LEFT = computes(top_left, AT_THE_TOP_LEFT)
UNSCALED = computes(unscaled, "These are the results without the scale 1 / sqrt(D).")
UNMASKED = computes(all_keys, "These are the results without the causal mask.")
