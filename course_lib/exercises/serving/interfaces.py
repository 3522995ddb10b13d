"""The function that every layer of a model calls for attention."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from course_lib.catalogue import say
from course_lib.criteria import EPS32, GATES, BuffersBelow, DotFlops, Launches, correct, roundings
from course_lib.exercise import Case, Effort, Exercise, Trial
from course_lib.exercises.attention.mistakes import has_nan
from course_lib.exercises.cases import BF16, operations
from course_lib.exercises.flash.mistakes import SEEN_NOTHING
from course_lib.exercises.misconceptions import Misconception, nth
from course_lib.exercises.serving.cases import layer
from course_lib.exercises.training.shared_heads import causal_besides, probabilities, scores_flops


def attended(q, k, v, mask=None, causal=True, scaling=None, window=None, top_left=False) -> torch.Tensor:
    """Compute attention's output (B, nq, Hq, D) as a layer expects it."""
    what = {"mask": mask, "causal": causal, "window": window, "top_left": top_left}
    p, v, _ = probabilities(q, k, v, scaling, **what)
    return (p @ v).transpose(1, 2)


def attended_budget(expected: torch.Tensor, dtype: torch.dtype, arguments: dict[str, Any]) -> torch.Tensor:
    """Return the error bound: one rounding of the result, one of the probabilities; float32 inside, as in unit 09."""
    p, v, size = probabilities(**arguments)
    error = (2 * math.sqrt(v.shape[2]) + 8 + 2 * size) * EPS32
    inside = error[..., None] * v.abs().amax(2, keepdim=True) + torch.finfo(dtype).eps / 2 * (p @ v.abs())
    return roundings(expected, dtype, 1) + inside.transpose(1, 2)


def but(**changed: Any) -> Callable[..., torch.Tensor | None]:
    """Make the wrong formula in which some arguments are replaced; None where they are the same."""
    return lambda **given: (
        None if all(given[name] is value for name, value in changed.items()) else attended(**given | changed)
    )


def of_a_window(wider: int) -> Callable[..., torch.Tensor | None]:
    """Make the wrong formula in which the window has so many keys more; None where there is none."""

    def wrong(window: int | None, **given: Any) -> torch.Tensor | None:
        return attended(window=window + wider, **given) if window and window + wider > 0 else None

    return wrong


def in_turn(q, k, v, **more: Any) -> torch.Tensor | None:
    """Compute attention in which head h of q reads head h % Hkv, instead of h // group."""
    group, heads = q.shape[1] // k.shape[1], k.shape[1]
    if group == 1 or heads == 1:
        return None
    return attended(q, *(x.repeat(1, group, 1, 1) for x in (k, v)), **more)


def attended_causally(mask, **more: Any) -> torch.Tensor | None:
    """The slip that what a mask shows must be causal besides; None where it is, or where attention is not causal."""
    both = causal_besides(mask, more["top_left"]) if more["causal"] else None
    return None if both is None else attended(mask=both, **more)


def alone(trials: Sequence[Trial]) -> str:
    """Say so if a result comes without the None beside it."""
    pairs = [(call["q"].transpose(1, 2), out) for trial in trials for call, out in trial.calls]
    came = any(isinstance(out, torch.Tensor) and out.shape == q.shape[1:] for q, out in pairs)
    return say("serving.attention_for.alone") if came else ""


def laid_out_as_q(trials: Sequence[Trial]) -> str:
    """Return a remark if a result has the layout of q, else ""."""
    for trial in trials:
        for call, out in trial.calls:
            q, o = call["q"], nth(out, 0)
            if isinstance(o, torch.Tensor) and o.shape == q.shape != q.transpose(1, 2).shape:
                return say("serving.attention_for.its_memory_laid_out_as_q")
    return ""


attention_for = Exercise(
    id="serving.attention_for",
    signature="attention_for(module, query: (B, Hq, Nq, D), key, value: (B, Hkv, Nk, D), attention_mask, scaling=None, "
    "sliding_window=None, top_left=False, **others) -> (B, Nq, Hq, D), None",
    called="as a layer does",
    effort=Effort(minutes=35, lines=55, difficulty=4),
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
        Case(
            "a window of 9 at the top left", "window", layer(1, 2, 1, 30, 64, 16, cached=True, window=9, top_left=True)
        ),
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
        *correct(
            "serving.attention_for",
            {"grouped": 2, "causal": 2, "top left": 2, "window": 2, "mask": 3, "scale": 1, "half": 1},
        ),
        BuffersBelow(lambda k, **_: k.nbytes / 2, 2, say("serving.attention_for.title_buffers_below")),
        DotFlops(scores_flops(128), scores_flops(1), 1, say("serving.attention_for.title_dot_flops")),
        Launches(1, 1, programs=16),
    ],
    mistakes=[
        alone,
        laid_out_as_q,
        has_nan(["window", "mask"], SEEN_NOTHING),
        Misconception(but(mask=None), say("serving.attention_for.the_mask_dropped"), attended),
        Misconception(attended_causally, say("serving.attention_for.causal_besides_the_mask"), attended),
        Misconception(but(top_left=True), say("serving.attention_for.top_left_where_bottom_right_is_meant"), attended),
        Misconception(but(top_left=False), say("serving.attention_for.bottom_right_where_top_left_is_meant"), attended),
        Misconception(but(window=None), say("serving.attention_for.the_window_ignored"), attended),
        Misconception(of_a_window(1), say("serving.attention_for.one_too_wide"), attended),
        Misconception(of_a_window(-1), say("serving.attention_for.one_too_narrow"), attended),
        Misconception(but(scaling=None), say("serving.attention_for.the_scale_ignored"), attended),
        Misconception(in_turn, (say("serving.attention_for.heads_dealt_out_in_turn")), attended),
    ],
)

EXERCISES = (attention_for,)
