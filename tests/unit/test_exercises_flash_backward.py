"""Unit 10: the oracles agree with autograd and with brute force, the inputs are as hard as they say, the budgets admit honest
arithmetic and nothing else, and what is kept between the halves is believed to nobody."""

from __future__ import annotations

import math

import pytest
import torch
from messages import id_of
from sampling import first_ones
from sentences import says
from stopped import raised, refused

from course_lib import criteria
from course_lib.evidence import Evidence
from course_lib.execution.calls import forward_and_backward
from course_lib.exercise import Trial
from course_lib.exercises import attention as A
from course_lib.exercises import flash_backward as B
from course_lib.exercises.flash.mistakes import unstored
from course_lib.workloads import torch_attention
from tritontrace.results import Fault, Launch, Operation, Saved


def drawn(draw, seed: int = 1):
    return draw(torch.Generator().manual_seed(seed))


# ------------------------------------------------------------------------------------------------ oracles


@pytest.mark.parametrize("sizes", [(9, 9), (5, 12), (12, 5)])
@pytest.mark.parametrize("causal", [False, True])
def test_gradients_are_autograds(sizes, causal):
    given = drawn(B.cases.with_dy(B.cases.heads(*sizes, 8, torch.float64, lead=(2, 3), causal=causal, scale=0.3)))
    leaves = [given[name].requires_grad_() for name in "qkv"]
    nothing = max(0, sizes[0] - sizes[1]) if causal else 0
    o, _ = torch_attention.flash_attention_forward(*leaves, causal, 0.3)
    found = B.oracles.result(**given)
    right = torch.autograd.grad(o[..., nothing:, :], leaves, given["dy"][..., nothing:, :])
    for mine, expected in zip(found[1:], right, strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-4, atol=1e-5)  # the slow one computes in float32
    assert (found.dq[..., :nothing, :] == 0).all()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_slow_forward_is_the_reference(causal, dtype):
    given = drawn(A.cases.qkv(12, 7, 16, dtype, lead=(2,), scores="large"))
    o, lse = torch_attention.flash_attention_forward(**given, causal=causal, scale=0.2)
    right, right_lse = A.oracles.reference(**given, causal=causal, scale=0.2)
    assert o.dtype == dtype and lse.dtype == torch.float32
    torch.testing.assert_close(o.double(), right, rtol=1e-2, atol=1e-4 if dtype == torch.float32 else 1e-1)
    torch.testing.assert_close(lse.double(), right_lse, rtol=1e-5, atol=1e-5)


def test_what_a_kernel_is_given_is_what_forward_leaves():
    given = drawn(B.cases.backward(6, 9, 8, torch.float64, causal=True))
    o, lse = A.oracles.reference(given["q"], given["k"], given["v"], True)
    torch.testing.assert_close(given["lse"], lse.float())
    torch.testing.assert_close(given["delta"], (o * given["do"]).sum(-1).float())
    assert list(given) == ["q", "k", "v", "do", "lse", "delta", "causal"]


def test_costs_are_counted():
    assert list(B.predictions.costs_counted().values()) == [2, 4, 3, 5, 18, 32768]


# ------------------------------------------------------------------------------------------------ hard inputs


def test_one_number_for_all_has_no_strides():
    do = drawn(B.cases.backward(4, 5, 8, do="one number"))["do"]
    assert do.stride() == (0, 0, 0) and do.unique().numel() == 1


def largest_partial(terms: torch.Tensor, dim: int) -> float:
    """How much larger a sum is on its way than at its end."""
    return float(terms.cumsum(dim).abs().amax(dim).mean() / terms.sum(dim).abs().mean())


def test_sums_that_cancel_grow_first():
    """Each of the three sums, over queries and over keys: half way it is five times what it comes to."""
    cases = {case.name: case for case in B.dkdv.cases if "cancel" in case.name}
    queries, keys = (
        cases[f"512 queries and keys, sums over {axis} that cancel, bfloat16"] for axis in ("queries", "keys")
    )
    for case, axis in ((queries, "queries"), (keys, "keys")):
        given = {n: v.double() if isinstance(v, torch.Tensor) else v for n, v in case.arguments(3).items()}
        q, k, v, do = (given[name] for name in ("q", "k", "v", "do"))
        p = torch.softmax(q @ k.mT / math.sqrt(16), -1)
        ds = p * (do @ v.mT - given["delta"][:, None])
        if axis == "queries":
            assert largest_partial(p[:, :, None] * do[:, None, :], 0) > 5  # dv
            assert largest_partial(ds[:, :, None] * q[:, None, :], 0) > 5  # dk
        else:
            assert largest_partial(ds[:, :, None] * k[None], 1) > 5  # dq


# ------------------------------------------------------------------------------------------------ budgets


def by_tiles(q, k, v, do, lse, delta, causal=False, scale=None, tile: int = 64, sums: torch.dtype = torch.float32):
    """(dq, dk, dv) of one head, as kernels make them: float32 inside, products of rounded tiles, sums in `sums`."""
    dtype, scale = q.dtype, q.shape[-1] ** -0.5 if scale is None else scale
    found = [torch.zeros(t.shape, dtype=sums) for t in (q, k, v)]
    mask = A.oracles.seen(q.shape[-2], k.shape[-2], causal)

    def add(place: int, rows: slice, part: torch.Tensor) -> None:
        found[place][rows] = (found[place][rows].float() + part).to(sums)

    for i in range(0, q.shape[0], tile):
        for j in range(0, k.shape[0], tile):
            rows, cols = slice(i, i + tile), slice(j, j + tile)
            s = q[rows].float() @ k[cols].float().T * scale
            p = torch.where(mask[rows, cols], torch.exp(s - lse[rows, None]), 0)
            ds = p * (do[rows].float() @ v[cols].float().T - delta[rows, None])
            p, ds = p.to(dtype).float(), ds.to(dtype).float()
            add(0, rows, ds @ k[cols].float())
            add(1, cols, ds.T @ q[rows].float())
            add(2, cols, p.T @ do[rows].float())
    return (found[0].float() * scale).to(dtype), (found[1].float() * scale).to(dtype), found[2].to(dtype)


def worst(arguments, found) -> list[float]:
    """The largest error of dq, dk and dv, in budgets."""
    shares = []
    for got, right in zip(found, B.oracles.gradients(**arguments), strict=True):
        budget = B.oracles.gradient_budget(right, got.dtype, arguments)
        shares.append(float(((got.double() - right).abs() / budget).nan_to_num(0).max()))
    return shares


SINGLE_HEADS = [case for case in B.dkdv.cases if case.arguments(1)["q"].dim() == 2]


@pytest.mark.parametrize("case", SINGLE_HEADS, ids=lambda case: case.name)
def test_honest_arithmetic_stays_within_half_of_the_budget(case):
    arguments = case.arguments(5)
    assert max(worst(arguments, by_tiles(**arguments))) < 0.5


@pytest.mark.parametrize("name, broken", [("queries", [1, 2]), ("keys", [0])])
def test_sums_in_half_precision_break_it(name, broken):
    (case,) = [case for case in B.dkdv.cases if f"sums over {name} that cancel" in case.name]
    shares = worst(case.arguments(5), by_tiles(**case.arguments(5), sums=torch.bfloat16))
    assert all(shares[place] > 2 for place in broken)


@pytest.mark.parametrize("exercise", [B.delta, B.dkdv, B.dq, B.flash_attention], ids=lambda e: e.entry)
def test_lazy_outputs_are_wrong_everywhere(exercise):
    """Zeros, and a copy of an input of that shape."""
    for case in exercise.cases:
        arguments = case.arguments(2)
        tensors = [value for value in arguments.values() if isinstance(value, torch.Tensor)]
        expected = exercise.oracle(**arguments)
        for right in expected if isinstance(expected, tuple) else (expected,):
            budget = exercise.budget(right.double(), tensors[0].dtype, arguments)
            copies = [x for x in tensors if x.shape == right.shape][:1]
            for guess in (torch.zeros_like(right), *copies):
                wrong = (guess.double() - right.double()).abs() > budget
                assert wrong.any() or not right.any(), case.name


# ------------------------------------------------------------------------------------------------ mistakes


def remark(exercise, function, tf32=False) -> str:
    """The remark on the results of a torch function. tf32: its kernels multiply in TF32."""
    trials = []
    for case in exercise.cases:
        arguments = case.arguments(1)
        out = [x.to(arguments["q"].dtype) for x in function(**arguments)]
        launches = [Launch("k", (1, 1, 1), tf32=tf32)]
        evidence = Evidence(case.name, outputs=[out if len(out) > 1 else out[0]], launches=launches)
        trials.append(criteria.GradedTrial(case, [arguments], evidence, exercise))
    return next((said for mistake in exercise.mistakes if (said := mistake(trials))), "")


def slipping(exercise, wrong):
    """Make that slip in what the exercise asks for; what is right, where the slip is not defined."""
    places = {"dkdv": slice(1, 3), "dq": slice(0, 1), "FlashAttention": slice(0, 3)}[exercise.entry]

    def function(**call):
        given = B.mistakes.with_do_named(call)
        found = (wrong(**given) or B.oracles.gradients(**given))[places]
        return (B.oracles.result(**call).o, *found) if exercise is B.flash_attention else found

    return function


@pytest.mark.parametrize("exercise", [B.dkdv, B.dq, B.flash_attention], ids=lambda e: e.entry)
@pytest.mark.parametrize(
    "wrong, word",
    [
        (B.mistakes.scaled(-1), "flash_backward.sums.no_scale"),
        (B.mistakes.scaled(1), "flash_backward.sums.scaled_twice"),
        (B.mistakes.by_the_formula(minus=0.0), "flash_backward.sums.no_delta"),
        (lambda **_: None, ""),
    ],
)
def test_slips_are_named(exercise, wrong, word):
    said = remark(exercise, slipping(exercise, wrong))
    assert id_of(said) == word


@pytest.mark.parametrize("exercise", [B.dkdv, B.dq], ids=lambda e: e.entry)
@pytest.mark.parametrize(
    "edge, word",
    [
        (lambda nq, nk: 0, "attention.attention.aligned_at_the_top_left"),
        (lambda nq, nk: nk, "flash_backward.sums.no_mask"),
        (lambda nq, nk: nk - nq - 1, "flash_backward.dkdv.off_by_one"),
        (lambda nq, nk: nk - nq + 1, "flash_backward.sums.one_key_more"),
    ],
)
def test_masks_that_lie_elsewhere_are_named(exercise, edge, word):
    assert id_of(remark(exercise, slipping(exercise, B.mistakes.by_the_formula(edge)))) == word


@pytest.mark.parametrize("exercise", [B.dkdv, B.flash_attention], ids=lambda e: e.entry)
def test_a_swap_is_named(exercise):
    def swapped(**given):
        dq, dk, dv = B.oracles.gradients(**given)
        return dq, dv, dk

    assert says(remark(exercise, slipping(exercise, swapped)), "flash_backward.dkdv.dk_and_dv_swapped")


def test_the_formula_without_a_slip_is_autograds():
    given = drawn(B.cases.backward(9, 12, 8, torch.float64, causal=True, scale=0.3))
    for mine, right in zip(B.mistakes.by_the_formula()(**given), B.oracles.gradients(**given), strict=True):
        torch.testing.assert_close(mine, right)


def test_too_few_gradients_are_told_without_further_ado():
    case = B.flash_attention.cases[0]
    stopped = raised("function FlashAttentionBackward returned an incorrect number of gradients (expected 4, got 3)")
    trials = [Trial(case, [case.arguments(1)], Evidence(case.name, **stopped))]
    verdict = criteria.judge(B.flash_attention, trials)
    assert verdict.findings[0].seen == stopped["error"] and verdict.findings[0].expected == ""
    assert verdict.remark.id == "flash_backward.flash_attention.too_few_gradients"


@pytest.mark.parametrize(
    "error, word",
    [
        (
            "returned an incorrect number of gradients (expected 4, got 1)",
            "flash_backward.flash_attention.one_gradient",
        ),
        ("backward() takes 2 positional arguments but 3 were given", "flash_backward.flash_attention.two_results"),
    ],
)
def test_what_backward_returns_is_named(error, word):
    trials = [
        Trial(case, [case.arguments(1)], Evidence(case.name, **raised(error))) for case in B.flash_attention.cases[:1]
    ]
    assert id_of(criteria.judge(B.flash_attention, trials).remark) == word


def kernel_of(exp=torch.exp, axis: int = -1, rows=("lse", "delta"), last: bool = False, turned: bool = False):
    """dkdv in tiles of 64 x 64, with lse or delta along that axis, sums of the last tile alone, or ds transposed in its tile."""

    def function(q, k, v, do, lse, delta, causal=False, scale=None):
        if causal or q.shape[-2] != 128:
            return B.oracles.gradients(q, k, v, do, causal, scale)[1:]
        scale, dk, dv = scale or q.shape[-1] ** -0.5, torch.zeros(k.shape), torch.zeros(v.shape)
        for j in range(0, 128, 64):
            for i in range(0, 128, 64):
                queries, keys = (..., slice(i, i + 64), slice(None)), (..., slice(j, j + 64), slice(None))
                lies = {x: axis if x in rows else -1 for x in ("lse", "delta")}
                shift, less = lse[queries[:2]].unsqueeze(lies["lse"]), delta[queries[:2]].unsqueeze(lies["delta"])
                p = exp(scale * q[queries].float() @ k[keys].float().mT - shift)
                ds = p * (do[queries].float() @ v[keys].float().mT - less)
                dv[keys] += p.mT @ do[queries].float()
                dk[keys] = (0 if last else dk[keys]) + scale * (ds if turned else ds.mT) @ q[queries].float()
        return dk, dv

    return function


@pytest.mark.parametrize(
    "how, word",
    [
        ({}, ""),
        ({"axis": -2, "rows": ["lse"]}, "lse lies along the wrong axis"),
        ({"axis": -2, "rows": ["delta"]}, "delta lies along the wrong axis"),
        ({"axis": -2}, "lse and delta lie along the wrong axis"),
        ({"exp": torch.exp2}, "exp2(x) is 2 to the power x"),
        ({"last": True}, "dk holds the sum of the second tile of queries alone"),
        ({"turned": True}, "A tile of ds is transposed"),
    ],
)
def test_slips_in_tiles_are_named(how, word):
    said = remark(B.dkdv, kernel_of(**how))
    assert said.startswith(word) and bool(word) == bool(said)


@pytest.mark.parametrize("exercise", [B.dkdv, B.dq], ids=lambda e: e.entry)
@pytest.mark.parametrize("products", first_ones(range(7)))
def test_tf32_is_named_whichever_products_are_in_it(exercise, products):
    names = ("dk", "dv") if exercise is B.dkdv else ("dq",)

    def tf32(**call):
        if call["q"].dtype != torch.float32:
            right = B.oracles.gradients(**call)
            return [right[("dq", "dk", "dv").index(name)] for name in names]
        return [B.mistakes.with_tf32(name)(**call)[products] for name in names]

    assert remark(exercise, tf32, tf32=True).id == "criteria.kind.tf32"
    assert id_of(remark(exercise, tf32)) != "criteria.kind.tf32"  # each dot says "ieee"


def test_a_nan_is_laid_to_queries_that_see_nothing_only_where_there_are_some():
    def said(holds, **more) -> str:
        """The remark on the right dk and dv, but NaN in calls of which that holds."""
        trials = []
        for case in B.dkdv.cases:
            call = case.arguments(1)
            out = [
                (x * (math.nan if holds(**call) else 1)).to(call["q"].dtype) for x in B.oracles.gradients(**call)[1:]
            ]
            trials.append(criteria.GradedTrial(case, [call], Evidence(case.name, outputs=[out], **more), B.dkdv))
        return B.mistakes.lost_nothing(trials)

    def sees_nothing(lse, **_):
        return bool(lse.isinf().any())

    assert said(sees_nothing).id == "flash_backward.dkdv.a_mask_before_exp"
    assert said(lambda causal=False, **_: causal) == ""
    assert said(sees_nothing, faults=[Fault("out of bounds", "lse is read out of bounds")]) == ""


def test_a_result_of_another_shape_is_not_called_unstored():
    def like_q(q, k, **_):
        return torch.full_like(q, math.nan), torch.full_like(k, math.nan)

    ragged = next(case for case in B.dkdv.cases if case.group == "ragged")
    arguments = ragged.arguments(1)
    trial = criteria.GradedTrial(
        ragged, [arguments], Evidence(ragged.name, outputs=[list(like_q(**arguments))]), B.dkdv
    )
    assert says(B.mistakes.handed_q([trial]), "flash_backward.dkdv.handed_q", name="dk", like="k")
    assert unstored([trial]) == ""


def test_swapped_heads_of_delta_are_named():
    def swapped(o, do):
        right = B.oracles.row_dots(o, do)
        return right.transpose(0, 1) if right.dim() == 3 and right.shape[0] == right.shape[1] else right

    trials = []
    for case in B.delta.cases:
        arguments = case.arguments(1)
        trials.append(
            criteria.GradedTrial(case, [arguments], Evidence(case.name, outputs=[swapped(**arguments)]), B.delta)
        )
    assert says(B.mistakes.SWAPPED_HEADS(trials), "flash_backward.delta.batches_and_heads_swapped")


@pytest.mark.parametrize(
    "evidence, word",
    [
        (raised("view size is not compatible with input tensor's size"), "flash.flash_attention_forward.views"),
        (refused("clone"), "flash.flash_attention_forward.makes_copies"),
        (raised("list index out of range", "IndexError"), "flash_backward.flash_attention.four_strides"),
        (
            {"faults": [Fault("race", "two programs", between="stores")], "outputs": [torch.zeros(2, 2, 64)]},
            "flash.flash_attention_forward.one_batch_alone",
        ),
    ],
)
@pytest.mark.parametrize("exercise", [B.delta, B.dkdv, B.dq], ids=lambda e: e.entry)
def test_what_stops_a_kernel_is_named(exercise, evidence, word):
    case = exercise.cases[0]
    trials = [criteria.GradedTrial(case, [case.arguments(1)], Evidence(case.name, **evidence), exercise)]
    assert id_of(next(said for mistake in exercise.mistakes if (said := mistake(trials)))) == word


@pytest.mark.parametrize("exercise", [B.dkdv, B.dq], ids=lambda e: e.entry)
def test_no_tensor_can_be_read_through_anothers_strides(exercise):
    """Some case has no two of q, k, v and do that share a stride."""
    for case in exercise.cases:
        strides = zip(*(case.arguments(1)[name].stride() for name in ("q", "k", "v", "do")), strict=True)
        if all(len(set(of_one_axis)) == 4 for of_one_axis in strides):
            return
    raise AssertionError("each case has two of one stride")


def test_float32_is_all_that_delta_meets_but_for_one_group():
    for case in B.delta.cases:
        assert (case.arguments(1)["o"].dtype == torch.float32) == (case.group != "half"), case.name


def test_a_stub_returns_nothing_yet():
    """Called as a check calls it, with a forward half that is still empty."""

    class Stub(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, k, v, causal=False, scale=None):
            pass

    case = B.flash_attention.cases[0]
    arguments = case.arguments(1)
    output = forward_and_backward(Stub, arguments, lambda: None)
    verdict = criteria.judge(B.flash_attention, [Trial(case, [arguments], Evidence(case.name, outputs=[output]))])
    assert verdict.findings[0].seen.startswith("FlashAttention returns nothing yet")


# ------------------------------------------------------------------------------------------------ what is kept


def halves(**changes):
    """The findings of KeepsOneNumberARow on evidence with these changes."""
    case = next(case for case in B.flash_attention.cases if case.group == "performance")
    arguments = case.arguments(1)
    rows = arguments["q"].shape[:-1]
    kept = [Saved("q", 1), Saved("out[0]", arguments["q"].nbytes), Saved("buffer 1", 4 * rows.numel(), list(rows))]
    evidence = Evidence(case.name, outputs=[list(B.oracles.result(**arguments))], saved=kept, ready=[0])
    evidence.outputs = [[t.to(arguments["q"].dtype) for t in evidence.outputs[0]]]
    evidence.launches = [Launch("k", (1, 1, 1), phase=1)]
    for name, value in changes.items():
        setattr(evidence, name, value)
    return B.criteria.KeepsOneNumberARow(3).judge(B.flash_attention, [Trial(case, [arguments], evidence)])


def test_one_number_a_row_is_enough():
    assert halves().passed


@pytest.mark.parametrize(
    "saved, seen",
    [
        ([Saved("q", 1), Saved("out[0]", 1)], "0 tensors"),
        ([Saved("out[0]", 1), Saved("buffer 1", 2048), Saved("buffer 2", 2048)], "2 tensors"),
        ([Saved("out[0]", 1), Saved("buffer 1", 4096)], "1 tensor "),
        (None, "no forward half"),
    ],
)
def test_more_or_less_is_not(saved, seen):
    found = halves(saved=saved)
    assert not found.passed and found.seen.startswith(seen)


def test_a_result_that_is_made_in_backward_keeps_nothing():
    assert says(halves(ready=[]).seen, "criteria.saves.no_forward")


# ------------------------------------------------------------------------------------------------ the slow forward


def test_torch_in_forward_passes_the_gate_and_in_backward_does_not():
    gate, case = B.criteria.KernelsMadeTheGradients(), B.flash_attention.cases[0]
    arguments = case.arguments(1)
    outputs = [list(B.oracles.result(**arguments))]
    written = [B_footprint(f"out[{i}]") for i in (1, 2, 3)]

    def judged(operations, footprints):
        launch = Launch("k", (1, 1, 1), footprints=footprints, phase=1)
        evidence = Evidence(case.name, outputs=outputs, saved=[], launches=[launch])
        evidence.operations = [Operation(name) for name in operations]
        return gate.judge(B.flash_attention, [Trial(case, [arguments], evidence)])

    assert judged(["bmm", "exp", "bmm"], written).passed
    assert says(judged([], written[:2]).seen, "flash_backward.kernels_made_the_gradients.not_written")
    assert says(judged(["bmm"] * 5, written).seen, "flash_backward.kernels_made_the_gradients.torch_multiplies")


def B_footprint(tensor: str):
    from tritontrace.results import Footprint

    return Footprint(tensor, 8, written_bytes=8, written_distinct_bytes=8)


# ------------------------------------------------------------------------------------------------ longest context


def test_kept_bytes_by_hand():
    model = dict(layers=3, heads=2, head_dim=8, itemsize=2)
    assert B.memory.kept_bytes(10, **model, scores=False) == 3 * (4 * 2 * 10 * 8 * 2 + 2 * 10 * 4)
    assert B.memory.kept_bytes(10, **model, scores=True) == 3 * (3 * 2 * 10 * 8 * 2 + 2 * 10 * 10 * 2)


@pytest.mark.parametrize("case", B.longest_context.cases, ids=lambda case: case.name)
def test_the_longest_fits_and_one_more_does_not(case):
    arguments = case.arguments(0)
    n = B.memory.longest(**arguments)
    assert B.memory.fits(n, **arguments) == ""
    kept = B.memory.kept_bytes(n + 1, **arguments["config"])
    assert f"too many, {n + 1:,} keep {kept:,} bytes" in B.memory.fits(n + 1, **arguments)
    assert n == 0 or "not the most" in B.memory.fits(n - 1, **arguments)


@pytest.mark.parametrize("output", [None, 1.0, -1, True, "9"])
def test_what_is_no_number_of_tokens_is_named(output):
    assert says(
        B.memory.fits(output, **B.longest_context.cases[0].arguments(0)), "flash_backward.longest_context.no_number"
    )


def test_an_exercise_of_nothing_is_judged():
    """The verdict on a stub says what is missing, and nothing crashes."""
    for exercise in B.EXERCISES.values():
        trials = [Trial(case, [case.arguments(0)], Evidence(case.name, outputs=[None])) for case in exercise.cases]
        assert criteria.judge(exercise, trials).points == 0
