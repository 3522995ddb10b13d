"""The oracles of unit 09 agree with torch and with brute force, its budgets tell honest arithmetic from the rest, and the published
kernel moves what unit 08 predicts."""

from __future__ import annotations

import math
from functools import cache

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from course_lib import criteria, trace
from course_lib.exercise import Evidence, Trial
from course_lib.exercises import attention as A
from course_lib.exercises import flash as F
from course_lib.observe.record import load
from grader.variants import program, solution_cell


def drawn(draw, seed: int = 1):
    return draw(torch.Generator().manual_seed(seed))


@cache
def solution(name: str):
    exercise = F.EXERCISES[f"flash.{name}"]
    return load(program(exercise.id, solution_cell(exercise.id)), exercise.entry)


# ------------------------------------------------------------------------------------------------ oracles


@pytest.mark.parametrize("causal", [False, True])
def test_attend_is_the_reference_of_unit_08(causal):
    given = drawn(A.qkv(13, 29, 16, torch.float64, lead=(2, 3), layout="heads"))
    o, lse = F.attend(**given, causal=causal, scale=0.3)
    right, right_lse = A.reference(**given, causal=causal, scale=0.3)
    torch.testing.assert_close(o, right)
    torch.testing.assert_close(lse, right_lse.float())


def test_grouped_heads_are_torchs():
    given = drawn(F.grouped(2, 3, 7, 11, 16, torch.float64))
    right = scaled_dot_product_attention(*(x[None] for x in given.values()), enable_gqa=True)[0]
    torch.testing.assert_close(F.only_o(**given), right)
    causal = F.only_o(**given, causal=True)
    torch.testing.assert_close(causal[4], F.only_o(given["q"][4:5], given["k"][1:], given["v"][1:], causal=True)[0])


def test_a_window_by_hand():
    mask = F.visible(5, 5, True, 2, None)
    assert mask.int().tolist() == [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 1, 1]]
    assert torch.equal(F.visible(5, 5, True, 5, None), A.seen(5, 5))
    given = drawn(A.qkv(9, 9, 16, lead=(2,)))
    torch.testing.assert_close(F.windowed(**given, window=1), given["v"].double())  # each sees its own value


def test_one_token_is_the_last_row():
    given = drawn(F.one_token(2, 3, 20, 16, 4))
    o = F.decoded(**given)
    for head in range(6):
        alone = A.reference(given["q"][head : head + 1], given["k"][head // 3], given["v"][head // 3])[0]
        torch.testing.assert_close(o[head : head + 1], alone)


def test_means_are_softmaxes():
    given = drawn(F.scored(6, 9, 4, scores="nothing"))
    o, lse = F.means(**given)
    assert (o[::2] == 0).all() and (lse[::2] == -math.inf).all()
    torch.testing.assert_close(o[1::2], torch.softmax(given["s"][1::2].double(), 1) @ given["v"].double())


@pytest.mark.parametrize(
    ("scores", "holds"),
    [
        ("large", lambda s: s.max() > 89 and s.min() < -89),
        ("rising", lambda s: (s[:, :64].amax(1) + 40 < s[:, -64:].amax(1)).all() and s.max() > 200),
        ("falling", lambda s: (s[:, -64:].amax(1) + 89 < s[:, :64].amax(1)).all()),
        ("low", lambda s: s.max() < -110),
        ("late", lambda s: s[:, :150].isinf().all() and s[:, 150:].isfinite().all()),
        ("nothing", lambda s: s[::2].isinf().all() and s[1::2].isfinite().all()),
    ],
)
def test_scores_are_as_they_are_called(scores, holds):
    """exp overflows float32 above 88.7, and is 0 below -104."""
    assert holds(drawn(F.scored(40, 300, 8, scores=scores))["s"])


# ------------------------------------------------------------------------------------------------ costs


@pytest.mark.parametrize("causal", [False, True])
def test_the_published_kernel_moves_what_unit_08_predicts(causal):
    """flash_bytes, asked for the tiles of the published kernel: 64 x 64 in half precision."""
    given = drawn(A.qkv(256, 256, 32, torch.float16, lead=(3,)))
    with trace() as t:
        solution("flash_attention_forward")(**given, causal=causal)
    assert t.bytes == 3 * A.moved_bytes(256, 32, 64, 64, 2, causal)
    assert t.bytes <= F.least_bytes(**given, causal=causal)
    assert t.flops.dot <= F.least_flops(**given, causal=causal)


def test_causal_products_are_half_and_the_diagonal():
    q = k = torch.empty(1, 1024, 64)
    full, causal = (F.least_flops(q, k, None, causal=causal) for causal in (False, True))
    assert full == 4 * 1024 * 1024 * 64 and causal == full * (8 * 9 / 2) / 64


def test_a_window_costs_in_proportion_to_the_length():
    def cost(n: int) -> tuple[int, int]:
        q = torch.empty(1, n, 32, dtype=torch.float16)
        return F.least_flops(q, q, q, causal=True, window=128), F.windows_bytes(q, q, q, 128)

    (short, few), (long, many) = cost(1024), cost(4096)
    assert 3.8 < long / short < 4.4 and 3.8 < many / few < 4.4


def test_bytes_fall_with_the_group():
    """16 queries: one head of k and v for 8 heads of q is read twice in tiles of 64 rows, and 8 times without groups."""
    read = {}
    for group in (1, 2, 4, 8):
        given = drawn(F.grouped(8 // group, group, 16, 256, 32))
        with trace() as t:
            solution("grouped_attention")(**given, causal=False)
        read[group] = t.footprint(given["k"]).read_bytes
    assert read == {g: 256 * 32 * 2 * max(8 // g, 2 if g == 8 else 0) for g in read}


# ------------------------------------------------------------------------------------------------ budgets


def judged(exercise, function):
    """The verdict on what a function of torch computes, as if kernels had."""
    trials = []
    for case in exercise.cases:
        arguments = case.arguments(1)
        out = function(**arguments)
        trials.append(
            Trial(case, [arguments], Evidence(case.name, outputs=[list(out) if isinstance(out, tuple) else out]))
        )
    return {
        f.title
        for f in (
            criterion.judge(exercise, trials)
            for criterion in exercise.criteria
            if isinstance(criterion, criteria.Correct)
        )
        if not f.passed
    }


def in_float32(q, k, v, causal=False, scale=None):
    """Attention in float32, its probabilities rounded to v's dtype before the second product."""
    o, lse = A.reference(q, k, v, causal, scale)
    s = q.float() @ k.float().mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    s = s.masked_fill(~A.seen(q.shape[-2], k.shape[-2], causal), -math.inf)
    m = s.amax(-1, keepdim=True)
    p = torch.exp(s - torch.where(m == -math.inf, 0, m))
    l = p.sum(-1, keepdim=True)
    o = (p.to(v.dtype).float() @ v.float()) / torch.where(l == 0, 1, l)
    return o.to(q.dtype), (m + l.log())[..., 0]


def test_honest_rounding_is_within_the_budget():
    assert judged(F.flash_attention_forward, in_float32) == set()


@pytest.mark.parametrize("lazy", ["zeros", "a mean", "a copy"])
@pytest.mark.parametrize(
    "name", ["one_head", "flash_attention_forward", "sliding_window", "grouped_attention", "flash_decode"]
)
def test_lazy_outputs_lose_every_case(name, lazy):
    """Zeros, the mean of v, the input itself: none is within the budget anywhere."""
    exercise = F.EXERCISES[f"flash.{name}"]
    for case in exercise.cases:
        arguments = case.arguments(2)
        right = exercise.oracle(**arguments)
        right = right[0] if isinstance(right, tuple) else right
        q, v = arguments["q"], arguments["v"]
        if lazy == "a mean" and (v.shape[-2] == 1 or case.group == "half"):
            continue  # of one key it is right, and near enough of 4096 values around 20
        heads = v.mean(-2, keepdim=True) if v.dim() == right.dim() else v.mean(-2)
        heads = (
            heads.repeat_interleave(right.shape[0] // heads.shape[0], 0) if right.dim() == heads.dim() < 4 else heads
        )
        guess = {"zeros": torch.zeros_like(q), "a mean": heads.expand_as(right), "a copy": q}[lazy]
        budget = exercise.budget(right, q.dtype, arguments)
        assert ((guess.double() - right).abs() > budget).any(), case.name


# ------------------------------------------------------------------------------------------------ mistakes


def remark(exercise, function) -> str:
    trials = []
    for case in exercise.cases:
        arguments = case.arguments(1)
        trials.append(Trial(case, [arguments], Evidence(case.name, outputs=[list(function(**arguments))])))
    return next((said for mistake in exercise.mistakes if (said := mistake(trials))), "")


def as_tf32(x: torch.Tensor) -> torch.Tensor:
    """Float32 rounded to 10 bits after the point; other dtypes as they are."""
    return (x.view(torch.int32) + 0x1000 & ~0x1FFF).view(torch.float32) if x.dtype == torch.float32 else x


def test_tf32_is_named():
    def tf32(q, k, v, causal, scale=None):
        return in_float32(*(as_tf32(x.contiguous()) for x in (q, k, v)), causal, scale)

    assert "TF32" in remark(F.flash_attention_forward, tf32)
    assert remark(F.flash_attention_forward, in_float32) == ""


def test_a_missing_scale_and_a_mask_at_the_top_left_are_named():
    assert "without the scale" in remark(F.one_head, lambda q, k, v: in_float32(q, k, v, scale=1.0))

    def top_left(q, k, v, causal, scale=None):
        wrong = A.top_left(q, k, v, causal, scale)
        o, lse = in_float32(q, k, v, causal, scale)
        return (o if wrong is None else wrong.to(q.dtype)), lse

    assert "top left" in remark(F.flash_attention_forward, top_left)
