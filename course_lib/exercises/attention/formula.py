"""Exercises on the formula of attention: claims about it, positions, the whole matrix of scores, and gradients."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from course_lib.catalogue import say
from course_lib.criteria import Correct, Numbers, Truths, correct
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.attention.cases import anywhere, from_zero, positions, qkv, with_backward
from course_lib.exercises.attention.criteria import ATTENTION, TENSORS, LargestBuffer
from course_lib.exercises.attention.forward_slips import each_sees_a_key, no_infinities
from course_lib.exercises.attention.gradient_mistakes import A_SECOND_SOFTMAX, CHAIN_RULE
from course_lib.exercises.attention.mistakes import (
    FORMULA_SLIPS,
    NO_MAXIMUM,
    TOP_LEFT,
    UNMASKED,
    UNSCALED,
    has_nan,
    no_scale_on_the_way_back,
    starts_from_empty,
)
from course_lib.exercises.attention.oracles import (
    attention_budget,
    backward_budget,
    gradients,
    output_and_lse,
    reference,
    rotary_budget,
    rotated,
    seen,
)
from course_lib.exercises.cases import fixed, operations
from course_lib.exercises.misconceptions import Misconception

# ------------------------------------------------------------------------------------------------ what attention is


def claims_checked() -> dict[str, bool | int]:
    """Return the right answers of the exercise, each claim tried on random numbers."""
    g = torch.Generator().manual_seed(8)
    q, k, v = (torch.randn(6, 8, generator=g, dtype=torch.float64) for _ in range(3))
    order, places = torch.randperm(6, generator=g), torch.arange(6)
    o, causal = reference(q, k, v)[0], reference(q, k, v, causal=True)[0]

    def placed(shift: int, v_too: bool) -> torch.Tensor:
        turned = [rotated(x, places + shift) for x in (q, k, v)]
        return reference(turned[0], turned[1], turned[2] if v_too else v)[0]

    def same(x: torch.Tensor, y: torch.Tensor) -> bool:
        return torch.allclose(x, y)

    return {
        "keys_and_values_shuffled_alike_leave_o": same(reference(q, k[order], v[order])[0], o),
        "queries_shuffled_shuffle_o": same(reference(q[order], k, v)[0], o[order]),
        "ten_more_on_every_score_leaves_o": same(torch.softmax(q @ k.T / math.sqrt(8) + 10, -1) @ v, o),
        "keys_doubled_double_o": same(reference(q, 2 * k, v)[0], 2 * o),
        "values_doubled_double_o": same(reference(q, k, 2 * v)[0], 2 * o),
        "causal_first_query_returns_first_value": same(causal[0], v[0]),
        "rotary_on_q_k_all_moved_by_7_leaves_o": same(placed(7, False), placed(0, False)),
        "rotary_on_v_too_all_moved_by_7_leaves_o": same(placed(7, True), placed(0, True)),
        "pairs_seen_causal_4_queries_6_keys": int(seen(4, 6).sum()),
        "queries_that_see_nothing_causal_6_queries_4_keys": int((~seen(6, 4)).all(1).sum()),
    }


claims = Exercise(
    id="attention.claims",
    signature="claims: dict[str, bool | int]",
    kind="values",
    effort=Effort(minutes=8, lines=10, difficulty=2),
    track="more",
    cases=[fixed("ten claims", "plain")],
    oracle=claims_checked,
    criteria=[Truths(4, say("attention.claims.title_truths")), Numbers(1, say("attention.claims.title_numbers"))],
)


def halves(x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0) -> torch.Tensor:
    """Compute rotary embeddings in the other convention, where x[i] and x[i + D / 2] are a pair."""
    paired = torch.stack(x.chunk(2, -1), -1).flatten(-2)
    return rotated(paired, positions, base).unflatten(-1, (-1, 2)).mT.flatten(-2)


def rounded(positions_too: bool) -> Callable[..., torch.Tensor | None]:
    """Make rotary with positions, or with angles, rounded to the dtype of x; None where that has room for them."""

    def wrong(x, positions, base=10000.0):
        if x.dtype == torch.float32:
            return None
        if positions_too:
            return rotated(x, positions.to(x.dtype), base)
        angles = positions.double()[:, None] * base ** (-torch.arange(0, x.shape[-1], 2).double() / x.shape[-1])
        pairs = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())
        angles = angles.to(x.dtype).double()
        return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)

    return wrong


rotary = Exercise(
    id="attention.rotary",
    signature="rotary(x: (..., N, D), positions: (N,), base=10000.0) -> (..., N, D) of the dtype of x",
    effort=Effort(minutes=15, lines=6, difficulty=2),
    track="more",
    cases=[
        Case("7 x 8", "plain", positions(7, d=8, places=from_zero)),
        Case("(2, 3, 5, 16)", "shapes", positions(2, 3, 5, d=16, places=from_zero)),
        Case("1 x 2", "shapes", positions(1, d=2, places=from_zero)),
        Case("9 x 6, up to 30,000", "anywhere", positions(9, d=6, places=anywhere)),
        Case("(2, 33, 32), up to 30,000", "anywhere", positions(2, 33, d=32, places=anywhere)),
        Case("20 x 16, bfloat16", "half", positions(20, d=16, places=anywhere, dtype=torch.bfloat16)),
        Case("(3, 20, 8), float16", "half", positions(3, 20, d=8, places=anywhere, dtype=torch.float16)),
    ],
    oracle=rotated,
    budget=rotary_budget,
    allows=TENSORS | operations("cos sin repeat_interleave flip roll exp2"),
    gates=[Correct("plain")],
    criteria=correct("attention.rotary", {"shapes": 1, "anywhere": 2, "half": 2}),
    mistakes=[
        Misconception(halves, say("attention.rotary.halves_as_pairs"), rotated),
        Misconception(
            lambda x, positions, **_: rotated(x, -positions), say("attention.rotary.the_other_way_round"), rotated
        ),
        Misconception(rounded(positions_too=True), say("attention.rotary.rounded_positions"), rotated, each=True),
        Misconception(rounded(positions_too=False), say("attention.rotary.rounded_angles"), rotated, each=True),
    ],
)

attention = Exercise(
    id="attention.attention",
    signature="attention(q: (..., Nq, D), k, v: (..., Nk, D), causal=False, scale=None) -> o: (..., Nq, D), lse: (..., Nq) float32",
    without=["course_lib.workloads.torch_attention"],
    effort=Effort(minutes=20, lines=12, difficulty=2),
    cases=[
        Case("6 queries, 9 keys", "plain", qkv(6, 9, 8)),
        Case("(2, 3) heads, 5 queries, 11 keys", "ragged", qkv(5, 11, 16, lead=(2, 3))),
        Case("1 query, 1 key", "ragged", qkv(1, 1, 16)),
        Case("7 queries, 12 keys, scale 0.3", "ragged", qkv(7, 12, 32, lead=(2,), layout="window", scale=0.3)),
        Case("13 queries, 13 keys, causal", "causal", qkv(13, 13, 16, causal=True)),
        Case("5 queries, 12 keys, causal", "causal", qkv(5, 12, 16, lead=(2,), causal=True)),
        Case("12 queries, 5 keys, causal", "nothing", qkv(12, 5, 16, lead=(2,), causal=True)),
        Case("8 queries, 30 keys, large scores", "hard", qkv(8, 30, 16, scores="large")),
        Case("8 queries, 30 keys, low scores", "hard", qkv(8, 30, 16, scores="low")),
        Case(
            "12 queries, 40 keys, bfloat16",
            "half",
            qkv(12, 40, 32, torch.bfloat16, lead=(2,), scores="large", v_mean=4.0),
        ),
        Case("9 queries, 20 keys, float16", "half", qkv(9, 20, 32, torch.float16, scores="rising")),
    ],
    oracle=output_and_lse,
    budget=attention_budget,
    allows=ATTENTION,
    gates=[Correct("plain")],
    criteria=correct("attention.attention", {"ragged": 1, "causal": 2, "nothing": 1, "hard": 1, "half": 1}),
    mistakes=[
        UNSCALED,
        UNMASKED,
        TOP_LEFT,
        *FORMULA_SLIPS,
        *NO_MAXIMUM,
        has_nan(["nothing"], say("attention.attention.nan_where_nothing_is_seen"), each_sees_a_key),
    ],
)


# ------------------------------------------------------------------------------------------------ backward


backward = Exercise(
    id="attention.attention_backward",
    signature="attention_backward(q, k, v, o, do, lse, causal: bool) -> dq, dk, dv",
    without=["torch.autograd.graph"],
    effort=Effort(minutes=35, lines=30, difficulty=5),
    cases=[
        Case("32 queries, 48 keys", "plain", with_backward(qkv(32, 48, 16), False)),
        Case(
            "(2, 2) heads, 37 queries, 70 keys",
            "ragged",
            with_backward(qkv(37, 70, 16, lead=(2, 2), layout="heads"), False),
        ),
        Case("1 query, 90 keys", "ragged", with_backward(qkv(1, 90, 32), False)),
        Case("75 queries and keys, causal", "causal", with_backward(qkv(75, 75, 16), True)),
        Case("23 queries, 80 keys, causal", "causal", with_backward(qkv(23, 80, 16, lead=(2,)), True)),
        Case("90 queries, 31 keys, causal", "nothing", with_backward(qkv(90, 31, 16, lead=(2,)), True)),
        Case("large scores", "hard", with_backward(qkv(24, 70, 16, scores="large"), False)),
        Case("rising scores, v around 20", "hard", with_backward(qkv(24, 70, 16, scores="rising", v_mean=20.0), False)),
        Case("scores near -200", "hard", with_backward(qkv(24, 70, 16, scores="low"), False)),
        Case("bfloat16", "half", with_backward(qkv(150, 140, 32, torch.bfloat16), False)),
        Case("float16", "half", with_backward(qkv(100, 100, 16, torch.float16, lead=(2,)), False)),
        Case(
            "bfloat16, v around 20, do around 3",
            "half",
            with_backward(qkv(24, 40, 256, torch.bfloat16, v_mean=20.0), False, do_mean=3.0),
        ),
        Case("320 queries and keys", "performance", with_backward(qkv(320, 320, 16), False)),
        Case("320 queries and keys, causal", "performance", with_backward(qkv(320, 320, 16), True)),
    ],
    oracle=gradients,
    budget=backward_budget,
    allows=ATTENTION,
    gates=[Correct("plain")],
    criteria=[
        *correct("attention.attention_backward", {"ragged": 2, "causal": 2, "nothing": 1, "hard": 3, "half": 2}),
        LargestBuffer(
            lambda q, k, **_: q.shape[-2] * k.shape[-2], 2, say("attention.attention_backward.title_largest_buffer")
        ),
    ],
    mistakes=[
        starts_from_empty,
        A_SECOND_SOFTMAX,
        has_nan(["causal"], say("attention.attention_backward.nan_under_the_mask"), no_infinities),
        has_nan(["nothing"], say("attention.attention_backward.nan_where_nothing_is_seen"), each_sees_a_key),
        *CHAIN_RULE,
        no_scale_on_the_way_back,
    ],
)
