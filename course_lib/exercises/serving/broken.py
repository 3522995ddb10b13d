"""Six broken ways to put attention into a model, to be named and then mended."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from course_lib.catalogue import say
from course_lib.criteria import EPS32, Correct, Numbers, correct
from course_lib.criteria.costs import CostCriterion
from course_lib.exercise import Case, Effort, Exercise, Finding, Trial
from course_lib.exercises.cases import ARITHMETIC, fixed, operations
from course_lib.exercises.misconceptions import Misconception
from course_lib.exercises.serving.cases import projected, seen_by, tables, turned
from course_lib.exercises.training.shared_heads import causal_besides, sees
from course_lib.mistakes import miscounted
from course_lib.workloads.gradients import dotted

NAMED = {
    "padded texts differ, the others agree": 1,
    "a prompt agrees, its second piece does not": 2,
    "losses fall as before, the projections of q, k and v stay as they were": 3,
    "all agrees until activations are recomputed": 4,
    "every row differs, in a model whose configuration names a multiplier": 5,
    "all agrees, and the peak of memory grows with the cache times the group": 6,
}

name_it = Exercise(
    id="serving.name_it",
    signature="name_it: dict[str, int]",
    kind="values",
    effort=Effort(minutes=5, lines=6, difficulty=2),
    cases=[fixed("six causes", "plain")],
    oracle=lambda: dict(NAMED),
    criteria=[Numbers(3, say("serving.name_it.title_numbers"))],
    mistakes=[
        miscounted(
            {
                (line, cause): reason
                for (line, right), reason in zip(
                    NAMED.items(),
                    (
                        say("serving.name_it.padding"),
                        say("serving.name_it.second_piece"),
                        say("serving.name_it.projections"),
                        say("serving.name_it.recomputed"),
                        say("serving.name_it.multiplier"),
                        say("serving.name_it.memory"),
                    ),
                    strict=True,
                )
                for cause in NAMED.values()
                if cause != right
            }
        )
    ],
)

# ------------------------------------------------------------------------------------------------ mend it


def attention_of(
    B: int, Hkv: int, group: int, nq: int, nk: int, D: int, *, turns=False, mask="", scale: float | None = None
):
    """Return a function that draws q (B, Hq, nq, D), k, v (B, Hkv, nk, D), before rotary embeddings, cos, sin, mask, scale, dy. The queries
    are the last nq of nk."""

    def draw(g: torch.Generator) -> dict[str, Any]:
        (q, dy), (k, v) = (projected(g, B, n, (h, h), D, torch.float32) for n, h in ((nq, Hkv * group), (nk, Hkv)))
        cos, sin = (t.to(g.device) for t in tables(nk, D, turns))
        seen = seen_by(mask, B, nq, nk, g)
        if seen is not None:  # a token of the padding sees itself, so that no row is without a key
            seen = seen | torch.ones(nq, nk, dtype=torch.bool, device=g.device).tril(nk - nq).triu(nk - nq)
        more = {"mask": seen, "scale": D**-0.5 if scale is None else scale}
        return {"q": q, "k": k, "v": v, "cos": cos, "sin": sin} | more | {"dy": dy}

    return draw


def trained(q, k, v, cos, sin, mask, scale: float, dy) -> tuple[torch.Tensor, ...]:
    """Compute (o, dq, dk, dv) in float64."""
    group, (nq, nk) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    with torch.enable_grad():
        leaves = [x.double().detach().requires_grad_() for x in (q, k, v)]
        rows = turned(leaves[0], cos[nk - nq :].double(), sin[nk - nq :].double())
        keys, values = (
            x.repeat_interleave(group, 1) for x in (turned(leaves[1], cos.double(), sin.double()), leaves[2])
        )
        seen = sees(nq, nk, True, None, False, mask).to(q.device)
        o = torch.softmax((rows @ keys.mT * scale).masked_fill(~seen, -math.inf), -1) @ values
        return o.detach(), *torch.autograd.grad(dotted(o, dy), leaves)


def trained_budget(expected: torch.Tensor, dtype: torch.dtype, arguments: dict[str, Any]) -> torch.Tensor:
    """Return the error bound of float32 arithmetic in a model of some tokens: a few hundred roundings of the largest value."""
    return torch.full_like(expected, 400 * EPS32 * (1 + float(expected.abs().max())))


def but(**changed: Any) -> Any:
    """Make the wrong formula in which some arguments are replaced; None where they are the same."""

    def wrong(**given: Any) -> tuple[torch.Tensor, ...] | None:
        new = {name: value(given) for name, value in changed.items()}
        return (
            None
            if all(new[name] is given[name] or new[name] == given[name] for name in new)
            else trained(**given | new)
        )

    return wrong


def trained_causally(mask, **given: Any) -> tuple[torch.Tensor, ...] | None:
    """The slip that what a mask shows must be causal besides; None where it is."""
    both = causal_besides(mask)
    return None if both is None else trained(mask=both, **given)


@dataclass
class NoRepeats(CostCriterion):
    """Criterion: no operation of torch copies k or v for each head of q."""

    missed = say("serving.no_repeats.missed")
    points: float
    title: str = say("serving.no_repeats.title")
    group: str = "shared"

    def count(self, group: Sequence[Trial]) -> Finding:
        for trial in group:
            q, k = (trial.inputs[-1][name] for name in ("q", "k"))
            every = q.shape[0] * q.shape[1] * k.shape[2] * k.shape[3]
            for operation in trial.evidence.operations:
                if math.prod(operation.result) >= every:
                    detail = say("serving.no_repeats.advice")
                    return self.lost(
                        say("serving.no_repeats.torch_does", operation=operation.name, result=str(operation.result)),
                        detail=detail,
                    )
        return self.earned(say("criteria.atomics.none"))


mended = Exercise(
    id="serving.mended",
    signature="mended(q: (B, Hq, Nq, D), k, v: (B, Hkv, Nk, D), cos, sin: (Nk, D / 2), mask, scale) -> (B, Hq, Nq, D)",
    called="as a checkpoint does",
    effort=Effort(minutes=15, lines=18, difficulty=3),
    cases=[
        Case("2 texts, 2 heads, 7 tokens, not turned", "plain", attention_of(2, 2, 1, 7, 7, 8)),
        Case("5 tokens after 6", "causal", attention_of(1, 2, 1, 5, 11, 8)),
        Case("padded on the left", "mask", attention_of(3, 2, 1, 9, 9, 8, mask="padded")),
        Case("a mask that shows later keys", "mask", attention_of(2, 2, 1, 7, 9, 8, mask="holes")),
        Case("a scale of 0.9", "scale", attention_of(1, 2, 1, 6, 6, 8, scale=0.9)),
        Case("turned", "again", attention_of(2, 2, 1, 8, 8, 8, turns=True)),
        Case("6 heads for 2, 5 queries, 12 keys", "shared", attention_of(2, 2, 3, 5, 12, 8)),
        Case(
            "4 heads for 1, all at once",
            "shared",
            attention_of(2, 1, 4, 4, 23, 16, turns=True, mask="padded", scale=0.4),
        ),
    ],
    oracle=trained,
    budget=trained_budget,
    allows=ARITHMETIC
    | operations(
        "mm bmm baddbmm _unsafe_view _softmax _softmax_backward_data slice_backward select_backward cat stack expand repeat index_select "
        "detach tril triu arange zeros_like new_zeros index _local_scalar_dense neg lift_fresh logsumexp scalar_tensor index_put_ "
        "unbind copy_ div_ sub_ rsub index_add embedding_dense_backward index_select_backward zero_ slice_scatter constant_pad_nd "
        "_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention_for_cpu_backward repeat_interleave index_add_"
    ),
    gates=[Correct("plain")],
    criteria=[
        *correct("serving.mended", {"mask": 1, "causal": 2, "scale": 2, "again": 2}),
        NoRepeats(1),
    ],
    mistakes=[
        Misconception(trained_causally, say("serving.mended.causal_besides_the_mask"), trained),
        Misconception(but(mask=lambda given: None), say("serving.mended.the_mask_dropped"), trained),
        Misconception(
            but(scale=lambda given: given["q"].shape[-1] ** -0.5),
            say("serving.mended.the_scale_ignored"),
            trained,
        ),
    ],
)

EXERCISES = (name_it, mended)
