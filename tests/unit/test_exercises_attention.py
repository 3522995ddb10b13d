"""The oracles of unit 08 agree with torch, with brute force and with a traced kernel, and its inputs are as hard as they say."""

from __future__ import annotations

import math

import pytest
import torch
from messages import id_of, parameters
from scripts import imported
from sentences import says
from torch.nn.functional import scaled_dot_product_attention

from course_lib import criteria
from course_lib.evidence import Evidence
from course_lib.execution import observe
from course_lib.exercise import Trial
from course_lib.exercises import attention as A
from grader.audit.variants import Variant
from tritontrace.replay import load
from tritontrace.results import Operation


def drawn(draw, seed: int = 1):
    return draw(torch.Generator().manual_seed(seed))


# ------------------------------------------------------------------------------------------------ footprints


@pytest.fixture(scope="module")
def script():
    with imported("flash_footprints") as [module]:
        yield module


def test_the_table_holds_every_configuration(script):
    assert list(A.oracles.footprints()) == list(script.configurations())
    assert {tuple(case[1:]) for case in A.tiles.ASKED} <= set(A.oracles.footprints())


@pytest.mark.parametrize("offset", range(3))
def test_the_kernel_still_moves_what_the_table_says(script, offset):
    for configuration in list(script.configurations())[offset::31]:
        assert script.traced_bytes(*configuration) == A.oracles.footprints()[configuration], configuration


@pytest.mark.slow
def test_the_kernel_still_moves_what_the_whole_table_says(script):
    assert {c: script.traced_bytes(*c) for c in script.configurations()} == A.oracles.footprints()


def test_tiles_looked_up_in_the_mask_move_as_much_as_the_kernel(monkeypatch):
    table = A.oracles.footprints()
    monkeypatch.setattr(A.oracles, "footprints", dict)
    assert {c: A.oracles.moved_bytes(*c) for c in table} == table


# ------------------------------------------------------------------------------------------------ attention


@pytest.mark.parametrize("causal", [False, True])
def test_the_reference_is_torchs_where_torch_masks_alike(causal):
    given = drawn(A.cases.qkv(33, 33, 16, torch.float64, lead=(2, 3)))
    o, lse = A.oracles.reference(**given, causal=causal)
    right = scaled_dot_product_attention(*given.values(), is_causal=causal)
    torch.testing.assert_close(o, right)
    assert lse.shape == (2, 3, 33)


def test_the_reference_is_aligned_at_the_bottom_right():
    given = drawn(A.cases.qkv(3, 5, 8, torch.float64))
    o, _ = A.oracles.reference(**given, causal=True)
    mask = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1]], dtype=torch.bool)
    torch.testing.assert_close(o, scaled_dot_product_attention(*given.values(), attn_mask=mask))
    torch.testing.assert_close(o[-1], A.oracles.reference(**given)[0][-1])


def test_a_query_that_sees_nothing_gives_zeros_and_minus_infinity():
    given = drawn(A.cases.qkv(6, 4, 8))
    o, lse = A.oracles.reference(**given, causal=True)
    assert (o[:2] == 0).all() and (lse[:2] == -math.inf).all() and lse[2:].isfinite().all()
    dq, dk, dv = A.oracles.gradients(**given, do=torch.ones(6, 8), causal=True)
    assert (dq[:2] == 0).all() and all(t.isfinite().all() for t in (dq, dk, dv))


def test_gradients_are_torchs():
    given = drawn(A.cases.with_backward(A.cases.qkv(9, 9, 8, torch.float64, lead=(2,)), True))
    leaves = [given[name].requires_grad_() for name in "qkv"]
    right = torch.autograd.grad(scaled_dot_product_attention(*leaves, is_causal=True), leaves, given["do"])
    for found, expected in zip(A.oracles.gradients(**given), right, strict=True):
        torch.testing.assert_close(found, expected)


def test_rotary_keeps_lengths_and_leaves_scores_to_differences():
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    places = torch.tensor([3, 0, 9, 9, 4])
    turned = A.oracles.rotated(x, places)
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1))
    torch.testing.assert_close(turned[:, 1], x[:, 1])
    moved = A.oracles.rotated(x, places + 1000)
    torch.testing.assert_close(turned @ turned.mT, moved @ moved.mT)
    by_hand = x[0, 0, 2] * math.cos(3 * 10000 ** (-2 / 8)) - x[0, 0, 3] * math.sin(3 * 10000 ** (-2 / 8))
    assert math.isclose(turned[0, 0, 2], by_hand, rel_tol=1e-12)


def test_claims_that_random_numbers_decide():
    found = A.formula.claims_checked()
    assert found["pairs_seen_causal_4_queries_6_keys"] == 3 + 4 + 5 + 6
    assert found["queries_that_see_nothing_causal_6_queries_4_keys"] == 2
    assert not found["keys_doubled_double_o"] and found["ten_more_on_every_score_leaves_o"]


@pytest.mark.parametrize(
    "scores, holds",
    [
        ("mild", lambda s: s.abs().max() < 10),
        ("large", lambda s: s.max() > 89 and s.min() < -89),
        ("rising", lambda s: (s[:, :24].amax(1) + 10 < s[:, 24:48].amax(1)).all()),
        ("last", lambda s: (s[:, -1] - s[:, :-1].amax(1) > 50).all()),
        ("low", lambda s: s.max() < -110),
    ],
)
def test_scores_are_as_they_are_called(scores, holds):
    """exp overflows float32 above 88.7, and is 0 below -104."""
    given = drawn(A.cases.qkv(24, 70, 16, scores=scores))
    assert holds(given["q"].double() @ given["k"].double().mT / 4)


@pytest.mark.parametrize("layout", ["heads", "window"])
def test_layouts_hold_the_same_values(layout):
    plain, other = (drawn(A.cases.qkv(5, 7, 8, lead=(2, 3), layout=name)) for name in ("rows", layout))
    for name in "qkv":
        assert torch.equal(plain[name], other[name]) and not other[name].is_contiguous()


# ------------------------------------------------------------------------------------------------ states


def whole(scores, v):
    return tuple(t.float() for t in A.cases.state_of(scores, v))


def test_merging_states_is_the_state_of_all_keys():
    scores, v = torch.randn(5, 20) * 4, torch.randn(20, 3)
    scores[2, :8] = -math.inf
    scores[3] = -math.inf
    parts = A.oracles.merged(whole(scores[:, :8], v[:8]), whole(scores[:, 8:], v[8:]))
    for found, right in zip(parts, whole(scores, v), strict=True):
        torch.testing.assert_close(found, right, rtol=1e-5, atol=1e-6)


def test_rearranged_states_are_those_of_the_two_laws():
    given = drawn(A.cases.rearranged(n=6))
    (m_a, _, acc_a), (m_b, _, acc_b) = given["a"], given["b"]
    assert torch.equal(m_a[:6], m_b[6:12]) and torch.equal(acc_b[:6], acc_a[6:12])
    assert A.oracles.any_order(list(A.oracles.merged(**given)), **given) == ""
    m, l, acc = A.oracles.merged(**given)
    commutes = A.oracles.any_order([m, torch.cat((2 * l[:6], l[6:])), acc], **given)
    assert parameters(commutes, "attention.merge.differs")["law"].id == "attention.merge.commutes"
    associates = A.oracles.any_order([m, l, torch.cat((acc[:18], 2 * acc[18:]))], **given)
    assert parameters(associates, "attention.merge.differs")["law"].id == "attention.merge.associates"
    assert says(A.oracles.any_order([m, l], **given), "attention.merge.no_state")


# ------------------------------------------------------------------------------------------------ tiles


def test_tiles_by_hand():
    assert A.oracles.tiles_of(2, 2, 2, 4, 4) == [[0, 1], [1, 2]]
    assert A.oracles.tiles_of(2, 2, 3, 4, 4) == [[0, 1], [1, 2]]  # a last tile of one key is never full
    assert A.oracles.tiles_of(1, 2, 2, 2, 6) == [[2, 3]]
    assert A.oracles.tiles_of(3, 2, 2, 6, 2) == [[0, 0], [0, 0], [0, 1]]


def test_right_tiles_says_which_program():
    said = A.oracles.right_tiles([[0, 1], [2, 2]], programs=2, bm=2, bn=2, nq=4, nk=4)
    assert "program 1" in said and "(1, 2); got (2, 2)" in said
    said = A.oracles.right_tiles([{"unsupported": "a tensor"}], programs=1, bm=2, bn=2, nq=2, nk=2)
    assert said.endswith("expected a pair of whole numbers (full, end), got a tensor")
    assert says(
        A.oracles.right_tiles([None, [1, 2]], programs=2, bm=2, bn=2, nq=4, nk=4), "attention.causal_tiles.no_pair"
    )


def test_no_tile_is_not_tiles_0_to_minus_1():
    said = A.oracles.right_tiles([[1, 1]], programs=1, bm=2, bn=2, nq=2, nk=2)
    assert "no tile is full and tile 0 is masked, so (0, 1); got (1, 1)" in said


def test_products_are_counted_for_visited_tiles():
    q = k = torch.empty(6, 1)
    assert A.criteria.visited_tiles(q, k, False, 2, 2) == (9, 9) and A.criteria.visited_tiles(q, k, True, 2, 2) == (
        6,
        9,
    )


# ------------------------------------------------------------------------------------------------ judging


def judged(exercise, function, seed: int = 3):
    return criteria.judge(exercise, observe(exercise, function, seed, seconds=120))


def whole_matrix(q, k, v, causal, bm, bn):
    D, Nq, Nk = q.shape[-1], q.shape[-2], k.shape[-2]
    s = q.float() @ k.float().mT * D**-0.5
    if causal:
        s = torch.where(torch.ones(Nq, Nk, dtype=torch.bool).tril(Nk - Nq), s, -math.inf)
    lse = torch.logsumexp(s, -1)
    p = torch.exp(s - torch.where(lse == -math.inf, 0, lse)[..., None])
    return (p @ v.float()).to(q.dtype), lse


def test_products_for_skipped_tiles_are_told_with_the_tiles():
    case = next(c for c in A.tiled_attention.cases if c.name == "192 queries and keys, causal")
    evidence = Evidence(case.name, outputs=[[]], operations=[Operation("mm", [[48, 16], [16, 48]])] * 32)
    finding = A.criteria.Products(2, "skips").count([Trial(case, [case.arguments(1)], evidence)])
    assert says(finding.seen, "attention.products.done", products=32)
    assert finding.expected.startswith(f"20 on {case.name}: in 10 of 16 tiles of 48 x 48")


@pytest.mark.parametrize("wrong", ["dq", "dk", "dq and dk"])
def test_results_without_their_scale_are_named(wrong):
    case = A.backward.cases[0]
    arguments = case.arguments(1)
    right = A.oracles.gradients(**arguments)._asdict()
    output = [(g * 4 if name in wrong.split(" and ") else g).float() for name, g in right.items()]
    found = criteria.judge(A.backward, [Trial(case, [arguments], Evidence(case.name, outputs=[output]))])
    assert found.findings[0].seen.startswith(wrong[:2])
    assert found.remark.startswith(f"{wrong} lack")


def test_the_whole_matrix_is_right_and_too_large():
    found = judged(A.tiled_attention, whole_matrix)
    lost = {f.title for f in found.findings if not f.passed}
    assert lost == {"no more scores than one tile", "skips tiles that no query sees"} and found.points == 10
    assert "147,456 bytes" in next(f.seen for f in found.findings if not f.passed)  # 192 x 192 x 4


def test_a_mask_at_the_top_left_is_named():
    def top_left(q, k, v, causal=False, scale=None):
        o, lse = A.oracles.reference(q, k, v, causal, scale)
        return A.forward_slips.top_left(q, k, v, causal).to(q.dtype) if causal and q.shape != k.shape else o.to(
            q.dtype
        ), lse.float()

    trials = []
    for case in A.attention.cases:
        arguments = case.arguments(1)
        trials.append(Trial(case, [arguments], Evidence(case.name, outputs=[list(top_left(**arguments))])))
    found = criteria.judge(A.attention, trials)
    assert found.remark.id == "attention.attention.aligned_at_the_top_left"
    assert {f.title for f in found.findings if not f.passed} >= {"causal, Nq != Nk too"}


@pytest.mark.parametrize("exercise", [A.attention, A.tiled_attention, A.rotary, A.backward], ids=lambda e: e.entry)
@pytest.mark.parametrize("lazy", ["zeros", "a mean", "a copy"])
def test_lazy_outputs_lose_every_group(exercise, lazy):
    """Zeros, the mean over the tokens, the input itself: none is within the budget anywhere."""
    for case in exercise.cases:
        arguments = case.arguments(2)
        expected = exercise.oracle(**arguments)
        expected = expected if isinstance(expected, tuple) else (expected,)
        names = ("x",) if "x" in arguments else ("q", "k", "v")
        right = expected[0]
        given = arguments[names[0]]
        guess = {
            "zeros": torch.zeros_like(given),
            "a mean": given.mean(-2, keepdim=True).expand_as(given),
            "a copy": given,
        }[lazy]
        if case.name == "1 x 2" and lazy != "zeros":
            continue  # one token at position 0 stays as it is
        budget = exercise.budget(right, given.dtype, arguments)
        assert ((guess.double() - right).abs() > budget).any(), case.name


def test_the_other_convention_of_pairs_is_named():
    def rotate_half(x, positions, base=10000.0):
        D = x.shape[-1]
        angle = (positions[:, None] * base ** (-torch.arange(0, D, 2) / D)).repeat(1, 2)
        first, second = x.float().chunk(2, -1)
        return (x * angle.cos() + torch.cat((-second, first), -1) * angle.sin()).to(x.dtype)

    case = A.rotary.cases[0]
    arguments = case.arguments(1)
    trial = Trial(case, [arguments], Evidence(case.name, outputs=[rotate_half(**arguments)]))
    assert criteria.judge(A.rotary, [trial]).remark.id == "attention.rotary.halves_as_pairs"


# ------------------------------------------------------------------------------------------------ what verdicts say


def test_tiles_that_lack_their_mask_are_no_pass_without_one():
    """The loop ends where the last query sees nothing more, and only what stands in the same tile comes too."""
    assert "without the causal mask" not in remark_on(
        "attention_backward", ("            if causal:\n", "            if False:\n")
    )


def remark_on(entry: str, *patches: tuple[str, str]) -> str:
    exercise = next(e for e in A.EXERCISES.values() if e.entry == entry)
    found = judged(exercise, load(Variant(exercise.id, "spoiled", (), patches).cells(), entry))
    assert found.points < found.out_of
    return found.remark


@pytest.mark.parametrize(
    "entry, patch, words",
    [
        (
            "attention",
            ("lse = torch.logsumexp(s, -1)", "lse = torch.exp(s).sum(-1).log()"),
            "attention.attention.no_maximum",
        ),
        ("attention", ("torch.where(lse == -inf, 0, lse)", "lse"), "attention.attention.nan_where_nothing_is_seen"),
        (
            "attention",
            ("(D**-0.5 if scale is None else scale)", "D**-0.5"),
            "attention.attention.ignores_the_scale_it_is_given",
        ),
        (
            "merge",
            ("acc_a * alpha_a[..., None] + acc_b * alpha_b[..., None]", "acc_a + acc_b"),
            "attention.merge.acc_is_not_corrected",
        ),
        (
            "merge",
            ("m_a - base), torch.exp(m_b - base)", "base - m_a), torch.exp(base - m_b)"),
            "attention.merge.upside_down",
        ),
        ("merge", ("torch.where(m == -inf, 0, m)", "m"), "attention.merge.nan_of_two_empty_states"),
        ("tiled_attention", ("range(-(-Nq // bm))", "range(Nq // bm)"), "attention.attention_backward.last_queries"),
        (
            "tiled_attention",
            ("else -(-Nk // bn)", "else Nk // bn"),
            "attention.tiled_attention.forgets_the_short_last_tile_of_keys",
        ),
        (
            "tiled_attention",
            ("torch.where(m == -inf, 0, m)[..., None]", "m[..., None]"),
            "attention.tiled_attention.0_0_where_nothing_was_seen",
        ),
        (
            "tiled_attention",
            ("offs_n <= offs_m + Nk - Nq", "offs_n <= offs_m"),
            "attention.tiled_attention.not_at_the_bottom_right",
        ),
        (
            "tiled_attention",
            ("offs_n <= offs_m + Nk - Nq", "offs_n < offs_m + Nk - Nq"),
            "attention.tiled_attention.off_by_one",
        ),
        ("tiled_attention", ("m + l.log()", "l.log()"), "attention.tiled_attention.lse_without_the_maximum"),
        (
            "tiled_attention",
            (
                "        m, l, acc = state\n",
                "            state = *state[:2], state[2].to(q.dtype).float()\n        m, l, acc = state\n",
            ),
            "attention.tiled_attention.a_state_in_half_precision",
        ),
        (
            "tiled_attention",
            ("acc / torch.where(l == 0, 1, l)[..., None]", "acc"),
            "attention.tiled_attention.never_divides",
        ),
        ("attention_backward", ("(dp - delta[..., i : i + B, None])", "dp"), "attention.attention_backward.no_d"),
        (
            "attention_backward",
            ("offs_n <= offs_m + Nk - Nq", "offs_n <= offs_m + Nq - Nk"),
            "attention.attention.shifted_the_other_way",
        ),
        (
            "attention_backward",
            ("offs_n <= offs_m + Nk - Nq", "offs_n <= offs_m"),
            "attention.attention.aligned_at_the_top_left",
        ),
        (
            "attention_backward",
            ("torch.where(lse == -inf, 0, lse)", "lse"),
            "attention.attention_backward.nan_where_nothing_is_seen",
        ),
        (
            "attention_backward",
            ("dq[..., i : i + B, :] +=", "dq[..., i : i + B, :] ="),
            "attention.attention_backward.the_last_tile_alone",
        ),
        *(
            ("attention", patch, f"attention.{words}")
            for patch, words in (
                (("tril(Nk - Nq)", "tril(Nq - Nk)"), "attention.shifted_the_other_way"),
                (("tril(Nk - Nq)", "tril(Nk - Nq - 1)"), "tiled_attention.off_by_one"),
                (("tril(Nk - Nq)", "triu(Nk - Nq)"), "attention.turned_round"),
                (("s, -inf)", "s, -1e9)"), "attention.weights_of_1_where_nothing_is_seen"),
                (("D**-0.5", "D**-1.0"), "attention.a_scale_of_1_by_d"),
                (("D**-0.5", "D**0.5"), "attention.a_scale_of_root_d"),
                (("), lse\n", "), s.amax(-1)\n"), "attention.lse_is_the_maximum"),
                (("), lse\n", "), lse * 1.4426950408889634\n"), "attention.lse_in_base_2"),
            )
        ),
        *(
            ("tiled_attention", patch, f"attention.{words}")
            for patch, words in (
                (("m + l.log()", "m"), "attention.lse_is_the_maximum"),
                (("range(0, end * bn, bn)", "range(bn, end * bn, bn)"), "tiled_attention.the_first_tile_is_left_out"),
                (("Nq, Nk)[1]", "Nq, Nk)[1] - 1"), "tiled_attention.the_last_tile_is_left_out"),
                (("torch.arange(j, j + s", "torch.arange(0, s"), "tiled_attention.a_key_s_number_in_its_tile"),
            )
        ),
        *(
            ("attention_backward", patch, f"attention.attention_backward.{words}")
            for patch, words in (
                (("(do.float() * o.float()).sum(-1)", "(do.float() * o.float()).mean(-1)"), "delta_is_a_mean"),
                (("(do.float() * o.float())", "do.float()"), "delta_of_do_alone"),
                (("delta[..., i : i + B, None]", "(p * dp).sum(-1, keepdim=True)"), "delta_of_each_tile"),
                (("(dp - delta", "(dp + delta"), "delta_added"),
                (("ds = p * (dp", "ds = scale * p * (dp"), "the_scale_twice"),
                (("ds = p * (dp", "ds = (dp"), "no_p"),
                (("kj.mT * scale", "kj.mT"), "p_lacks_the_scale"),
                (("doi @ vj.mT", "doi @ kj.mT"), "dp_of_k"),
                (("base[..., i : i + B, None]", "s.amax(-1, keepdim=True)"), "the_maximum_for_lse"),
                (("base[..., i : i + B, None]", "base[..., : qi.shape[-2], None]"), "lse_of_the_first_tile"),
                (("j > i + B - 1 + Nk - Nq", "j > i + Nk - Nq"), "the_walk_ends_early"),
            )
        ),
        ("flash_bytes", ("min(n, end * bn)", "end * bn"), "attention.flash_bytes.whole_tiles_alone"),
    ],
)
def test_a_slip_gets_its_own_sentence(entry, patch, words):
    assert id_of(remark_on(entry, patch)) == words


def test_a_large_negative_number_for_a_mask_is_named():
    patches = ("s, -inf)", "s, -1e9)"), ("p = torch.exp(s - base[..., None])", "p = torch.softmax(s, -1)")
    assert remark_on("attention", *patches).id == "attention.attention.equal_weights_where_nothing_is_seen"


def test_without_a_maximum_nothing_is_said_of_infinities_subtracted():
    naive = ("torch.exp(m_a - base), torch.exp(m_b - base)", "torch.exp(m_a) / m.exp(), torch.exp(m_b) / m.exp()")
    assert remark_on("merge", naive).id == "attention.merge.absolute_exponentials"


def test_p_masked_with_minus_infinity_is_not_a_query_that_sees_nothing():
    masked = "            if causal:\n                p = torch.where(offs_n <= offs_m + Nk - Nq, p, -inf)\n"
    assert says(
        remark_on("attention_backward", ("            dp = doi", f"{masked}            dp = doi")),
        "attention.attention_backward.nan_under_the_mask",
    )


def test_a_sum_that_starts_from_empty_is_named():
    empty = ("    for i in range(0, Nq, B):", "    dq = torch.empty_like(dq)\n    for i in range(0, Nq, B):")
    assert "All of dq is NaN" in remark_on("attention_backward", empty)


@pytest.mark.parametrize("entry, lost", [("attention", 3), ("tiled_attention", 5), ("attention_backward", 3)])
def test_a_slip_in_the_mask_costs_what_is_causal_alone(entry, lost):
    exercise = next(e for e in A.EXERCISES.values() if e.entry == entry)
    patch = ("tril(Nk - Nq)", "tril(Nk - Nq - 1)") if entry == "attention" else ("offs_n <= offs_m", "offs_n < offs_m")
    found = judged(exercise, load(Variant(exercise.id, "spoiled", (), (patch,)).cells(), entry))
    assert found.out_of - found.points == lost


def test_one_for_true_is_told_what_is_meant():
    answers = {name: int(value) for name, value in A.formula.claims_checked().items()}
    trial = Trial(A.claims.cases[0], [{}], Evidence("ten claims", outputs=[answers]))
    said = criteria.judge(A.claims, [trial]).findings[0].seen
    assert "values_doubled_double_o (you: 1; True or False is meant)" in said and "18" not in said


@pytest.mark.parametrize(
    "answers, points",
    [
        ({}, 5),
        ({name: True for name, value in A.formula.claims_checked().items() if type(value) is bool}, 1),
        ({name: False for name, value in A.formula.claims_checked().items() if type(value) is bool}, 1),
        ({"values_doubled_double_o": False}, 4.33),  # one of six true ones: a sixth of four points
        ({"keys_doubled_double_o": True}, 3),  # one of two false ones: half of them
        ({"values_doubled_double_o": ...}, 4.33),
        ({"pairs_seen_causal_4_queries_6_keys": 18.0}, 5),
        ({"pairs_seen_causal_4_queries_6_keys": True}, 4.5),
        ({"something else": True}, 5),
    ],
)
def test_what_anybody_guesses_in_claims_earns_nothing(answers, points):
    answers = A.formula.claims_checked() | answers
    assert (
        criteria.judge(A.claims, [Trial(A.claims.cases[0], [{}], Evidence("ten claims", outputs=[answers]))]).points
        == points
    )
