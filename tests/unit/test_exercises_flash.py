"""The oracles of unit 09 agree with torch and with brute force, its budgets tell honest arithmetic from the rest, and the published
kernel moves what unit 08 predicts."""

from __future__ import annotations

import math
from functools import cache

import pytest
import torch
from messages import id_of
from sentences import says
from torch.nn.functional import scaled_dot_product_attention

from course_lib import criteria, trace
from course_lib.evidence import Evidence
from course_lib.exercise import Trial
from course_lib.exercises import attention as A
from course_lib.exercises import flash as F
from grader.published import published
from tritontrace.results import Fault, Footprint, Launch


def drawn(draw, seed: int = 1):
    return draw(torch.Generator().manual_seed(seed))


@cache
def solution(name: str):
    return published(f"flash.{name}")


# ------------------------------------------------------------------------------------------------ oracles


@pytest.mark.parametrize("causal", [False, True])
def test_attend_is_the_reference_of_unit_08(causal):
    given = drawn(A.cases.qkv(13, 29, 16, torch.float64, lead=(2, 3), layout="heads"))
    o, lse = F.oracles.attend(**given, causal=causal, scale=0.3)
    right, right_lse = A.oracles.reference(**given, causal=causal, scale=0.3)
    torch.testing.assert_close(o, right)
    torch.testing.assert_close(lse, right_lse.float())


def test_grouped_heads_are_torchs():
    given = drawn(F.cases.grouped(2, 3, 7, 11, 16, torch.float64))
    right = scaled_dot_product_attention(*(x[None] for x in given.values()), enable_gqa=True)[0]
    torch.testing.assert_close(F.oracles.only_o(**given), right)
    causal = F.oracles.only_o(**given, causal=True)
    torch.testing.assert_close(
        causal[4], F.oracles.only_o(given["q"][4:5], given["k"][1:], given["v"][1:], causal=True)[0]
    )


def test_a_window_by_hand():
    mask = F.oracles.visible(5, 5, True, 2, None)
    assert mask.int().tolist() == [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 1, 1]]
    assert torch.equal(F.oracles.visible(5, 5, True, 5, None), A.oracles.seen(5, 5))
    given = drawn(A.cases.qkv(9, 9, 16, lead=(2,)))
    torch.testing.assert_close(F.oracles.windowed(**given, window=1), given["v"].double())  # each sees its own value


def test_one_token_is_the_last_row():
    given = drawn(F.cases.one_token(2, 3, 20, 16, 4))
    o = F.oracles.decoded(**given)
    for head in range(6):
        alone = A.oracles.reference(given["q"][head : head + 1], given["k"][head // 3], given["v"][head // 3])[0]
        torch.testing.assert_close(o[head : head + 1], alone)


def test_means_are_softmaxes():
    given = drawn(F.cases.scored(6, 9, 4, scores="nothing"))
    o, lse = F.oracles.means(**given)
    assert (o[::2] == 0).all() and (lse[::2] == -math.inf).all()
    torch.testing.assert_close(o[1::2], torch.softmax(given["s"][1::2].double(), 1) @ given["v"].double())


@pytest.mark.parametrize(
    "scores, holds",
    [
        ("large", lambda s: s.max() > 89 and s.min() < -89),
        ("rising", lambda s: (s[:, :64].amax(1) + 40 < s[:, -64:].amax(1)).all() and s.max() > 200),
        ("falling", lambda s: (s[:, -64:].amax(1) + 89 < s[:, :64].amax(1)).all()),
        ("low", lambda s: s.max() < -110),
        ("late", lambda s: s[:, :150].isinf().all() and s[:, 150:].isfinite().all()),
        ("late and low", lambda s: s[:, :150].isinf().all() and s[:, 150:].max() < -110),
        ("apart", lambda s: s[::2].max() + 104 < s[1::2].min()),
        ("nothing", lambda s: s[::2].isinf().all() and s[1::2].isfinite().all()),
    ],
)
def test_scores_are_as_they_are_called(scores, holds):
    """exp overflows float32 above 88.7, and is 0 below -104."""
    assert holds(drawn(F.cases.scored(40, 300, 8, scores=scores))["s"])


# ------------------------------------------------------------------------------------------------ costs


@pytest.mark.parametrize("causal", [False, True])
def test_the_published_kernel_moves_what_unit_08_predicts(causal):
    """flash_bytes, asked for the tiles of the published kernel: 64 x 64 in half precision."""
    given = drawn(A.cases.qkv(256, 256, 32, torch.float16, lead=(3,)))
    with trace() as t:
        solution("flash_attention_forward")(**given, causal=causal)
    assert t.bytes == 3 * A.oracles.moved_bytes(256, 32, 64, 64, 2, causal)
    assert t.bytes <= F.criteria.least_bytes(**given, causal=causal)
    assert (
        F.criteria.least_flops(**given, causal=causal) <= t.flops.dot <= F.criteria.tiles_flops(**given, causal=causal)
    )


def test_causal_products_are_half_and_the_diagonal():
    q = k = torch.empty(1, 1024, 64)
    full, causal = (F.criteria.tiles_flops(q, k, None, causal=causal) for causal in (False, True))
    assert full == 4 * 1024 * 1024 * 64 and causal == full * (8 * 9 / 2) / 64
    least = [F.criteria.least_flops(q, k, None, causal=causal) for causal in (False, True)]
    assert least == [full, 4 * 64 * 1024 * 1025 / 2]


def test_a_window_costs_in_proportion_to_the_length():
    def cost(n: int) -> tuple[int, int]:
        q = torch.empty(1, n, 32, dtype=torch.float16)
        return F.criteria.least_flops(q, q, q, causal=True, window=128), F.criteria.windows_bytes(q, q, q, 128)

    (short, few), (long, many) = cost(1024), cost(4096)
    assert 3.8 < long / short < 4.4 and 3.8 < many / few < 4.4


def test_bytes_fall_with_the_group():
    """16 queries: one head of k and v for 8 heads of q is read twice in tiles of 64 rows, and 8 times without groups."""
    read = {}
    for group in (1, 2, 4, 8):
        given = drawn(F.cases.grouped(8 // group, group, 16, 256, 32))
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
    o, lse = A.oracles.reference(q, k, v, causal, scale)
    s = q.float() @ k.float().mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    s = s.masked_fill(~A.oracles.seen(q.shape[-2], k.shape[-2], causal), -math.inf)
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
        if lazy == "a mean" and (v.shape[-2] == 1 or case.group == "half" or arguments.get("scale") == 0):
            continue  # of one key or with a scale of 0 it is right, and near enough of 4096 values around 20
        heads = v.mean(-2, keepdim=True) if v.dim() == right.dim() else v.mean(-2)
        heads = (
            heads.repeat_interleave(right.shape[0] // heads.shape[0], 0) if right.dim() == heads.dim() < 4 else heads
        )
        guess = {"zeros": torch.zeros_like(q), "a mean": heads.expand_as(right), "a copy": q}[lazy]
        budget = exercise.budget(right, q.dtype, arguments)
        assert ((guess.double() - right).abs() > budget).any(), case.name


# ------------------------------------------------------------------------------------------------ mistakes


def trial(exercise, case, function, launches=()) -> criteria.GradedTrial:
    """A case judged on what a function of torch computes."""
    arguments = case.arguments(1)
    out = function(**arguments)
    evidence = Evidence(case.name, outputs=[list(out) if isinstance(out, tuple) else out], launches=list(launches))
    return criteria.GradedTrial(case, [arguments], evidence, exercise)


def said_of(exercise, trials) -> str:
    return next((said for mistake in exercise.mistakes if (said := mistake(trials))), "")


def remark(exercise, function, tf32=False) -> str:
    """The remark on the results of a torch function. tf32: its kernels multiply in TF32."""
    trials = [trial(exercise, case, function) for case in exercise.cases]
    for one in trials:
        one.evidence.launches = [Launch("k", (1, 1, 1), tf32=True)] if tf32 else []
    return said_of(exercise, trials)


def test_tf32_is_named():
    def tf32(q, k, v, causal, scale=None):
        return in_float32(*(F.slips.as_tf32(x).to(x.dtype) for x in (q, k, v)), causal, scale)

    assert remark(F.flash_attention_forward, tf32, tf32=True).id == "criteria.kind.tf32"
    assert id_of(remark(F.flash_attention_forward, tf32)) != "criteria.kind.tf32"  # each dot says "ieee"
    assert remark(F.flash_attention_forward, in_float32, tf32=True) == ""


@pytest.mark.parametrize("name", ["one_head", "flash_attention_forward", "sliding_window", "grouped_attention"])
@pytest.mark.parametrize("product", range(3))
def test_each_product_in_tf32_is_named(name, product):
    def tf32(**call):
        return F.slips.with_tf32(**call)[product] if call["v"].dtype == torch.float32 else None

    exercise = F.EXERCISES[f"flash.{name}"]
    assert remark(exercise, slipping(exercise, tf32), tf32=True).id == "criteria.kind.tf32"


@pytest.mark.parametrize("name", ["one_head", "flash_attention_forward", "flash_decode"])
def test_a_wrong_divisor_is_no_tf32(name):
    """Off by about as much, and the products are as they should be."""
    exercise = F.EXERCISES[f"flash.{name}"]

    def wrong(**call):
        s, v = F.slips.scored(**call)
        p, l = F.slips.weights(s)
        return F.slips.of_rows(p @ v / (l + 1e-3)[..., None], call) if v.dtype == torch.float64 else None

    assert any(t.difference for t in trials_of(exercise, slipping(exercise, wrong)))
    assert remark(exercise, slipping(exercise, wrong), tf32=True) == ""


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_float32_result_of_half_precision_is_no_tf32(dtype):
    def rounded(q, k, v, causal, scale=None):
        o, lse = in_float32(q, k, v, causal, scale)
        return o.to(dtype).to(o.dtype) if q.dtype == torch.float32 else o, lse

    sentence = "flash.flash_attention_forward.a_rounded_result"
    assert says(remark(F.flash_attention_forward, rounded), sentence, dtype=str(dtype)[6:])


def slipping(exercise, wrong):
    """Make a function that returns what the slip computes where it differs from the right result; o is in q's dtype."""

    def function(**arguments):
        right, slip = exercise.oracle(**arguments), wrong(**arguments)
        right, slip = (x if isinstance(x, tuple) else (x, None) for x in (right, slip))
        o, lse = (one if other is None else other for one, other in zip(right, slip, strict=True))
        o = o.to(arguments["q"].dtype)
        return o if right[1] is None else (o, lse.float())

    return function


@pytest.mark.parametrize(
    "how, word",
    [
        ({"acc_too": False}, "flash.online_update.acc_is_not_multiplied"),
        ({"l_too": False}, "flash.online_update.l_is_not_multiplied"),
        ({"acc_too": False, "l_too": False}, "flash.online_update.nothing_is_multiplied"),
        ({"rounded": True}, "flash.flash_attention_forward.an_accumulator_in_half_precision"),
    ],
)
def test_what_an_update_forgets_is_named(how, word):
    def updated(s, v):
        o, lse = F.oracles.means(s, v)
        slip = F.slips.in_tiles(**how)[2](s=s, v=v)
        return (o if slip is None else slip).float(), lse

    assert id_of(remark(F.online_update, updated)) == word


@pytest.mark.parametrize(
    "wrong, word",
    [
        *(
            (F.updates.in_tiles_by(update), word)
            for update, word in (
                (F.updates.relative_to_the_tile, "flash.online_update.p_relative_to_its_own_tile"),
                (F.updates.along_the_columns, "flash.online_update.factors_along_the_columns"),
                (F.updates.divided, "flash.online_update.divided_in_each_step"),
            )
        ),
        (
            F.updates.in_tiles_by(F.updates.rounded_before_its_sum, rounds=True),
            "flash.flash_attention_forward.an_accumulator_in_half_precision",
        ),
    ],
)
def test_what_an_update_computes_is_named(wrong, word):
    def updated(s, v):
        o, lse = F.oracles.means(s, v)
        slip = wrong[2](s=s, v=v)
        return (o if slip is None else slip).float(), lse

    assert id_of(remark(F.online_update, updated)) == word


def test_a_maximum_that_stays_is_asked_for():
    def updated(s, v):
        o, lse = F.oracles.means(s, v)
        return o.float(), torch.full_like(lse, -math.inf)

    assert id_of(remark(F.online_update, updated)) == "flash.online_update.lse_of_inf_alone"


def by_dtype(wrong):
    """Make that slip in tiles of 64 keys, and in tiles of 32 of float32, as the published forward has them."""
    return lambda **call: wrong[1 if call["v"].dtype == torch.float32 else 2](**call)


def always_causal(wrong):
    """Make that slip in an exercise whose calls do not say that they are causal."""
    return lambda **call: wrong(causal=True, **call)


ATTENTIONS = [F.one_head, F.flash_attention_forward, F.sliding_window, F.grouped_attention, F.flash_decode]


@pytest.mark.parametrize(
    "exercise, wrong, word",
    [
        (F.flash_attention_forward, F.slips.shifted(-1), "flash.causal_one_head.sees_one_key_fewer"),
        (F.flash_attention_forward, F.slips.shifted(1), "flash.causal_one_head.sees_one_key_more"),
        (F.sliding_window, F.slips.shifted(-1), "flash.causal_one_head.sees_one_key_fewer"),
        (F.sliding_window, F.slips.shifted(1), "flash.causal_one_head.sees_one_key_more"),
        *(
            (F.one_head, wrong, "flash.online_update.acc_is_not_multiplied")
            for wrong in F.slips.in_tiles(acc_too=False)[1:3]
        ),
        *(
            (F.one_head, wrong, "flash.online_update.l_is_not_multiplied")
            for wrong in F.slips.in_tiles(l_too=False)[1:3]
        ),
        (F.one_head, F.slips.in_tiles(acc_too=False, l_too=False)[2], "flash.online_update.nothing_is_multiplied"),
        (F.flash_attention_forward, F.slips.in_tiles(acc_too=False)[1], "flash.online_update.acc_is_not_multiplied"),
        (
            F.flash_attention_forward,
            by_dtype(F.slips.in_tiles(acc_too=False)),
            "flash.online_update.acc_is_not_multiplied",
        ),
        (F.flash_attention_forward, by_dtype(F.slips.in_tiles(l_too=False)), "flash.online_update.l_is_not_multiplied"),
        *(
            (F.flash_attention_forward, wrong, "flash.flash_attention_forward.an_accumulator_in_half_precision")
            for wrong in F.slips.in_tiles(rounded=True)
        ),
        (
            F.flash_attention_forward,
            by_dtype(F.slips.other_keys(lambda nk, tile: -(-nk // tile) * tile)),
            "flash.flash_attention_forward.missing_keys_score_0",
        ),
        *(
            (F.one_head, wrong, "flash.flash_attention_forward.missing_keys_score_0")
            for wrong in F.slips.other_keys(lambda nk, tile: -(-nk // tile) * tile)[1:]
        ),
        (
            F.flash_attention_forward,
            F.slips.other_keys(lambda nk, tile: -(-nk // tile) * tile)[2],
            "flash.flash_attention_forward.missing_keys_score_0",
        ),
        *(
            (F.one_head, wrong, "flash.grouped_attention.only_whole_tiles_of_keys")
            for wrong in F.slips.other_keys(lambda nk, tile: nk // tile * tile)[1:]
        ),
        (
            F.flash_attention_forward,
            F.slips.other_keys(lambda nk, tile: nk // tile * tile)[2],
            "flash.grouped_attention.only_whole_tiles_of_keys",
        ),
        (
            F.flash_attention_forward,
            lambda scale=None, **call: None if scale is None else F.oracles.attend(**call),
            "flash.flash_attention_forward.a_scale_of_0_taken_for_none",
        ),
        *(
            (F.flash_attention_forward, F.slips.swapped_heads(*n), "flash.flash_attention_forward.swapped_heads")
            for n in ("q", "k", "v", "o", "kv")
        ),
        (
            F.flash_attention_forward,
            lambda q, scale=None, **call: (
                None if scale is not None else F.oracles.attend(q, scale=(2 * q.shape[-1]) ** -0.5, **call)
            ),
            "",
        ),
        (F.one_head, lambda q, **call: F.oracles.attend(q, scale=(2 * q.shape[-1]) ** -0.5, **call), ""),
        (F.one_head, F.slips.instead(scale=1.0), "attention.attention.no_scale"),
        (F.sliding_window, F.slips.instead(scale=1.0), "attention.attention.no_scale"),
        (F.grouped_attention, F.slips.instead(scale=1.0), "attention.attention.no_scale"),
        (F.flash_decode, F.slips.instead(scale=1.0), "attention.attention.no_scale"),
        (F.flash_attention_forward, F.slips.edge(lambda nq, nk: 0), "attention.attention.aligned_at_the_top_left"),
        (F.grouped_attention, F.slips.edge(lambda nq, nk: 0), "attention.attention.aligned_at_the_top_left"),
        (F.flash_attention_forward, F.slips.edge(lambda nq, nk: nq - nk), "attention.attention.shifted_the_other_way"),
        (
            F.grouped_attention,
            F.slips.edge(lambda nq, nk: nq - nk, clamped=False),
            "attention.attention.shifted_the_other_way",
        ),
        (F.flash_attention_forward, F.slips.instead(causal=False), "attention.attention.no_mask"),
        (F.grouped_attention, F.slips.instead(causal=False), "attention.attention.no_mask"),
        (F.one_head, F.slips.first_keys, "flash.one_head.the_first_nq_keys_alone"),
        *(
            (exercise, F.slips.the_same_keys(tile), "flash.one_head.the_same_keys_again")
            for exercise in (F.one_head, F.flash_attention_forward)
            for tile in (32, 64)
        ),
        (F.one_head, F.slips.lse_by(lambda m, l: m), "attention.attention.lse_is_the_maximum"),
        (F.one_head, lambda **call: F.oracles.attend(scale=1 / 32, **call), "attention.attention.a_scale_of_1_by_d"),
        (F.flash_attention_forward, F.slips.of_a_power_of_2, "flash.flash_attention_forward.a_scale_of_block_d"),
        (F.flash_attention_forward, F.slips.lse_of_other_heads, "flash.flash_attention_forward.lse_of_other_heads"),
        *(
            (F.flash_attention_forward, F.slips.by_strides_of(*n), "flash.flash_attention_forward.strides_of_another")
            for n in ("vk", "kv")
        ),
        *(
            (F.causal_one_head, always_causal(F.walks.counted(times, 64, 32)), f"flash.causal_one_head.{word}")
            for times, word in (
                (F.walks.turned_round(False), "the_comparison_turned_round"),
                (F.walks.turned_round(True), "the_comparison_turned_round"),
                (F.walks.uncut, "tiles_without_a_mask"),
                (F.walks.whole_by_the_last_row, "tiles_without_a_mask"),
                (F.walks.not_rounded_down, "keys_counted_twice"),
                (F.walks.begun_anew, "keys_counted_twice"),
                (F.walks.ends_with_the_first_row, "ends_with_the_first_row"),
            )
        ),
        (F.causal_one_head, always_causal(F.walks.unseen_score_0(64, 32)), "flash.causal_one_head.unseen_keys_score_0"),
        (F.flash_attention_forward, F.slips.first_keys, "flash.one_head.the_first_nq_keys_alone"),
        (F.sliding_window, F.slips.instead(window=None, causal=True), "flash.sliding_window.no_window"),
        (
            F.sliding_window,
            F.slips.in_the_tiles_of_a_walk(64, 32),
            "flash.sliding_window.no_mask_for_keys_that_are_too_old",
        ),
        (F.sliding_window, F.slips.without_its_own(0.0), "flash.causal_one_head.its_own_key_is_missing"),
        *((e, F.slips.instead(lambda s: s * math.log(2)), "flash.one_head.powers_of_two") for e in ATTENTIONS),
        (F.one_head, F.slips.undivided, "flash.one_head.forgets_to_divide"),
        (F.sliding_window, F.slips.undivided, "flash.one_head.forgets_to_divide"),
        (F.grouped_attention, F.slips.other_heads, "flash.grouped_attention.heads_in_another_order"),
        (F.flash_decode, F.slips.other_heads, "flash.grouped_attention.heads_in_another_order"),
        (
            F.flash_decode,
            F.slips.merged_by(lambda m, l, acc: acc.sum(0) / l.sum(0)[..., None]),
            "flash.flash_decode.adds_the_shares_up",
        ),
        (
            F.flash_decode,
            F.slips.merged_by(lambda m, l, acc: (acc / l[..., None]).mean(0)),
            "flash.flash_decode.a_mean_of_the_shares",
        ),
    ],
)
def test_slips_are_named(exercise, wrong, word):
    assert id_of(remark(exercise, slipping(exercise, wrong))) == word


@pytest.mark.parametrize(
    "name", ["one_head", "flash_attention_forward", "sliding_window", "grouped_attention", "flash_decode"]
)
def test_nothing_is_said_of_what_is_right(name):
    exercise = F.EXERCISES[f"flash.{name}"]
    assert remark(exercise, slipping(exercise, lambda **_: None)) == ""


def test_a_query_that_misses_its_own_key_is_named_where_the_first_row_is_nan():
    wrong = slipping(F.sliding_window, F.slips.without_its_own(math.nan))
    trials = trials_of(F.sliding_window, wrong)
    for t in trials:
        size = t.evidence.outputs[0].nbytes
        t.evidence.launches = [Launch("k", (1, 1, 1), footprints=[Footprint("out", size, 0, 0, size, size)])]
    assert says(said_of(F.sliding_window, trials), "flash.causal_one_head.its_own_key_is_missing")


@pytest.mark.parametrize("exercise", [F.one_head, F.flash_attention_forward])
@pytest.mark.parametrize(
    "combine, word",
    [
        (lambda m, l: m + l.log2(), "flash.one_head.half_of_lse_in_base_2"),
        (lambda m, l: m * math.log2(math.e) + l.log(), "flash.one_head.half_of_lse_in_base_2"),
        (lambda m, l: (m + l.log()) * math.log2(math.e), "attention.attention.lse_in_base_2"),
        (lambda m, l: l.log(), "flash.one_head.lse_without_the_maximum"),
        (lambda m, l: m + l.log(), ""),
    ],
)
def test_the_base_of_lse_is_named(exercise, combine, word):
    def wrong(**call):
        dtype = next(iter(call.values())).dtype  # s is float32, q as it is
        return exercise.oracle(**call)[0].to(dtype), F.slips.lse_by(combine)(**call)[1].float()

    said = remark(exercise, wrong)
    assert id_of(said) == word


def test_keys_left_out_are_no_lse_without_its_maximum():
    """The last key has a score of 80, and the others alone give a lse that is nearer to log(l) than to what is right."""

    def whole_tiles(q, k, v):
        end = max(1, k.shape[0] // 32 * 32)
        return in_float32(q, k[:end], v[:end])

    assert says(remark(F.one_head, whole_tiles), "flash.grouped_attention.only_whole_tiles_of_keys")


def test_the_strides_of_lse_are_named():
    def wrong(q, k, v, causal, scale=None):
        o, lse = in_float32(q, k, v, causal, scale)
        there = torch.empty_like(q[..., 0], dtype=torch.float32)
        there.as_strided((lse.numel(),), (1,)).copy_(lse.flatten())  # stored row by row
        return o, there

    assert remark(F.flash_attention_forward, wrong).id == "flash.flash_attention_forward.lse_with_the_strides_of_q"


@pytest.mark.parametrize("sums_too", [False, True])
def test_a_sum_of_rounded_weights_is_named(sums_too):
    def wrong(s, v):
        o, lse = F.oracles.means(s, v)
        rounded = F.slips.of_rounded_weights(sums_too)(s, v)
        return o.float(), lse if rounded is None else rounded[1].float()

    assert says(remark(F.online_update, wrong), "flash.online_update.sums_rounded_probabilities")


@pytest.mark.parametrize("scaled", [False, True])
def test_rounded_scores_are_named(scaled):
    def wrong(q, k, v):
        found = F.slips.of_rounded_scores(scaled)(q=q, k=k, v=v) or F.oracles.attend(q, k, v)
        return found.o.to(q.dtype), found.lse.float()

    assert says(remark(F.one_head, wrong), "flash.flash_attention_forward.scores_in_half_precision")


@pytest.mark.parametrize("clamped", [False, True])
def test_a_row_taken_for_a_query_is_named(clamped):
    def wrong(q, k, v, causal):
        if not causal:
            return F.oracles.only_o(q, k, v).to(q.dtype)
        (heads, nq, _), nk = q.shape, k.shape[1]
        row = torch.arange(heads * nq).reshape(heads, nq, 1) % (heads // k.shape[0] * nq)
        pad = 0 if clamped else heads * nq
        k, v = (torch.nn.functional.pad(x, (0, 0, 0, pad)) for x in (k, v))
        return F.slips.softened(torch.arange(nk + pad) < row + 1 + nk - nq, q, k, v).to(q.dtype)

    assert remark(F.grouped_attention, wrong).id == "flash.grouped_attention.row_is_query"
    assert (
        remark(F.grouped_attention, lambda q, k, v, causal: wrong(q, k, v, True)) == ""
    )  # full attention is wrong, too


def test_a_missing_program_of_a_share_is_named():
    trials = trials_of(F.flash_decode, lambda q, k, v, splits: torch.ones_like(q))
    for t in trials:
        t.evidence.launches = [Launch("share_kernel", (2, 1, 1), 2), Launch("merge_kernel", (8, 1, 1), 8)]
    assert says(said_of(F.flash_decode, trials), "flash.flash_decode.few_programs", kernel="share_kernel", programs=2)
    for t in trials:
        t.evidence.launches[0].programs = 1000
    assert said_of(F.flash_decode, trials) == ""


def test_states_that_run_over_are_named():
    def wrong(q, k, v, splits):
        o = F.oracles.decoded(q, k, v, splits)
        return (torch.full_like(o, math.inf) if k.shape[1] > 5000 else o).to(q.dtype)

    assert says(remark(F.flash_decode, wrong), "flash.flash_decode.states_in_float16")


@pytest.mark.parametrize("place", [0, 1])
def test_a_nan_in_a_result_of_another_shape_is_not_explained(place):
    def wrong(q, k, v):
        o, lse = in_float32(q, k, v)
        return (torch.full_like(k, math.nan), lse) if place == 0 else (o, torch.full((k.shape[0],), math.nan))

    assert remark(F.one_head, wrong) == ""


def test_the_right_merge_of_shares_is_the_oracles():
    def merged(m, l, acc):
        factor = torch.exp(m - m.amax(0))
        return (factor[..., None] * acc).sum(0) / (factor * l).sum(0)[..., None]

    given = F.flash_decode.cases[0].arguments(1)
    torch.testing.assert_close(F.slips.merged_by(merged)(**given), F.oracles.decoded(**given))


def test_a_scale_rounded_into_q_is_named():
    def rounded(q, k, v):
        return in_float32((q.float() * q.shape[-1] ** -0.5).to(q.dtype), k, v, scale=1.0)

    assert remark(F.one_head, rounded).id == "flash.flash_attention_forward.q_scaled_in_half_precision"


def test_a_nan_is_no_tf32():
    def overflows(s, v):
        p = torch.exp(s)
        l = p.sum(1)
        return (p.to(v.dtype).float() @ v.float()) / torch.where(l == 0, 1, l)[:, None], l.log()

    assert says(remark(F.online_update, overflows), "flash.causal_one_head.no_maximum")


def test_a_factor_upside_down_is_no_row_that_saw_nothing():
    def upside_down(s, v):
        return torch.full((s.shape[0], v.shape[1]), math.nan, dtype=v.dtype), torch.full(s.shape[:1], math.nan)

    assert says(remark(F.online_update, upside_down), "flash.flash_attention_forward.nan_at_once")


def test_what_reads_elsewhere_is_no_arithmetic():
    """A NaN from out of bounds is not laid to -inf - -inf, nor to an exp."""
    for exercise in (F.online_update, F.flash_attention_forward):
        for case in exercise.cases:
            arguments = case.arguments(1)
            out = [torch.full_like(x, math.nan) for x in exercise.oracle(**arguments)]
            fault = Fault("out of bounds", "`v` is read out of bounds")
            trial = criteria.GradedTrial(
                case, [arguments], Evidence(case.name, outputs=[out], faults=[fault]), exercise
            )
            for look in (F.mistakes.NAN, F.mistakes.NAN_AT_ONCE, F.mistakes.OVERFLOW):
                assert look([trial]) == ""


def test_a_result_of_another_shape_is_not_called_unstored():
    case = F.flash_attention_forward.cases[1]
    found = trial(F.flash_attention_forward, case, lambda q, k, **_: (torch.full_like(k, math.nan), torch.zeros(2, 37)))
    assert F.mistakes.unstored([found]) == ""


@pytest.mark.parametrize(
    "below, word",
    [
        (F.slips.far_below_its_neighbours, "flash.online_update.one_maximum_for_all_rows"),
        (F.slips.low_behind_an_empty_tile, "flash.online_update.0_for_a_maximum_of_inf_stays"),
        (lambda s: s.amax(1) < -104, ""),  # no maximum at all, or none below 0
    ],
)
def test_rows_that_run_under_are_told_apart(below, word):
    def wrong(s, v):
        o, lse = F.oracles.means(s, v)
        low = below(s)
        return o.masked_fill(low[:, None], 0).float(), lse.masked_fill(low, -math.inf)

    said = remark(F.online_update, wrong)
    assert id_of(said) == word


def test_sums_that_run_under_are_no_tf32():
    """Near -300 all terms are 0, and so is o: not far from right, since v is around 0, but nothing like it."""

    def runs_under(s, v):
        base = s.amax(1).clamp(min=0)
        p = torch.exp(s - base[:, None])
        l = p.sum(1)
        return (p.to(v.dtype).float() @ v.float()) / torch.where(l == 0, 1, l)[:, None], base + l.log()

    assert remark(F.online_update, runs_under) == ""


def test_a_nan_of_unset_lanes_is_no_overflow():
    case = next(case for case in F.one_head.cases if case.group == "hard")
    found = trial(F.one_head, case, lambda q, **_: (torch.full_like(q, math.nan), torch.zeros(q.shape[0])))
    found.evidence.poisoned.append("kernel `k`, line 5")
    assert A.mistakes.has_nan(["hard"], "NaN")([found]) == ""


def test_notes_are_on_what_is_shown():
    """The plain case closes a gate: a NaN elsewhere is then not seen, and not spoken of."""

    def wrong(q, k, v, splits):
        return torch.full_like(q, math.nan) if q.abs().max() > 20 else torch.ones_like(q)

    assert any(t.difference and "nan" in t.difference.seen for t in trials_of(F.flash_decode, wrong))
    assert remark(F.flash_decode, wrong) == ""


def trials_of(exercise, function):
    return [trial(exercise, case, function) for case in exercise.cases]


@pytest.mark.parametrize(
    "stored, word", [(0, "flash.flash_attention_forward.unstored_whole"), (None, "flash.causal_one_head.no_maximum")]
)
def test_what_no_kernel_stored_is_no_overflow(stored, word):
    """Fresh memory is NaN in a check: not computed, if nothing wrote it."""
    plain, hard = F.one_head.cases[0], next(case for case in F.one_head.cases if case.group == "hard")

    def nothing(q, k, v):
        return torch.full_like(q, math.nan), torch.full(q.shape[:1], math.nan)

    arguments = hard.arguments(1)
    sizes = [arguments["q"].nbytes, 4 * arguments["q"].shape[0]]
    written = [size if stored is None else stored for size in sizes]
    prints = [Footprint(f"out[{i}]", size, 0, 0, w, w) for i, (size, w) in enumerate(zip(sizes, written, strict=True))]
    trials = [
        trial(F.one_head, plain, in_float32),
        trial(F.one_head, hard, nothing, [Launch("k", (1, 1, 1), footprints=prints)]),
    ]
    assert id_of(said_of(F.one_head, trials)) == word


def test_an_update_that_is_not_written_is_named():
    def untouched(s, v):
        return torch.zeros(s.shape[0], v.shape[1]), torch.full(s.shape[:1], -math.inf)

    trials = trials_of(F.online_update, untouched)
    verdict = criteria.judge(F.online_update, trials)
    assert says(verdict.findings[0].seen, "flash.predictions.unsolved")
    not_plain = criteria.judge(F.online_update, trials[1:])  # sums that run under look the same
    assert "nothing new" not in not_plain.findings[0].seen


def test_results_and_bounds_are_those_of_what_tensors_hold_now():
    q, k, v = (torch.randn(2, 9, 16) for _ in range(3))
    first, again = F.oracles.attend(q, k, v), F.oracles.attend(q, k, v)
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))
    first.o.zero_()  # nobody else's
    assert torch.equal(F.oracles.attend(q, k, v).o, again.o)
    arguments = {"q": q, "k": k, "v": v}
    before = F.oracles.kernel_budget(again.o, torch.float32, arguments)
    v.mul_(2)
    assert torch.equal(F.oracles.attend(q, k, v).o, 2 * again.o)
    assert bool((F.oracles.kernel_budget(again.o, torch.float32, arguments) > before).all())
    assert not torch.equal(F.oracles.attend(q, k, v, causal=True).o, 2 * again.o)
