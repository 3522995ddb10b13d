"""Unit 06: chains are counted, budgets tell honest from lazy results, and verdicts name the line."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import id_of

from course_lib.criteria import judge
from course_lib.execution import observe
from course_lib.exercises.fusion import EXERCISES
from course_lib.hardware import inductor
from course_lib.workloads.chains import CHAINS, traced_bytes, traced_stages
from grader.audit.variants import Variant, of_unit
from grader.published import published
from tritontrace.replay import load

KERNELS = [e for e in EXERCISES.values() if e.kind == "kernel"]
each_kernel = pytest.mark.parametrize("exercise", KERNELS, ids=[e.entry for e in KERNELS])


# ------------------------------------------------------------------------------------------------ chains


@pytest.mark.parametrize(
    "name, fused, tensors",
    [
        ("sin² + cos²", [1, 1, 1, 1, 1], 11),
        ("sin² + cos²", [5], 3),
        ("sin² + cos²", [2, 3], 5),  # x -> sin²; sin², y -> out
        ("SwiGLU", [1, 1, 1, 1], 10),
        ("SwiGLU", [4], 3),
        ("SwiGLU", [3, 1], 5),  # a -> silu; silu, b -> out
        ("bias, GELU, dropout, residual", [1, 3], 7),  # x, bias -> z; z, mask, x -> out
    ],
)
def test_a_chain_carries_what_a_hand_counts(name, fused, tensors):
    assert traced_bytes(10, CHAINS[name], 4, fused) == tensors * 40
    assert traced_bytes(2500, CHAINS[name], 2, fused) == tensors * 5000  # three programs, the last of them ragged


@st.composite
def chains(draw):
    """Operations on what there is already, and a way to cut them."""
    names, ops = ["x", "y", "z"], []
    for k in range(draw(st.integers(1, 6))):
        ops.append([f"t{k}", *draw(st.lists(st.sampled_from(names), min_size=1, max_size=3))])
        names.append(f"t{k}")
    fused = []
    while sum(fused) < len(ops):
        fused.append(draw(st.integers(1, len(ops) - sum(fused))))
    return ops, fused


@settings(max_examples=25, deadline=None)
@given(chains())
def test_the_published_formula_equals_the_trace(chain):
    formula = published("fusion.chain_bytes")
    ops, fused = chain
    assert formula(10, ops, 4, fused) == traced_bytes(10, ops, 4, fused)


@pytest.mark.parametrize("fused", [[4], [6], [5, 0], [3, 3]])
def test_a_chain_is_cut_into_its_operations(fused):
    with pytest.raises(ValueError, match="5 operations cannot be cut"):
        traced_stages(10, CHAINS["sin² + cos²"], 4, fused)


def test_predictions_ask_for_what_was_recorded():
    exercise = EXERCISES["fusion.predicted_launches"]
    assert exercise.oracle() == inductor.recorded_launches()
    assert set(inductor.recorded_launches()) == set(inductor.LAUNCHED)
    assert exercise.points == len(inductor.LAUNCHED)
    assert set(inductor.LAUNCHED) <= set(inductor.FUNCTIONS)


def test_generated_code_is_a_recording_here_and_says_so():
    if torch.cuda.is_available():
        pytest.skip("written anew where there is a GPU")
    for name in inductor.SHOWN:
        text = inductor.generated(name)
        assert "recorded on an NVIDIA" in text.splitlines()[0]
        assert text.count("@triton.jit") == 1 and "tl.store" in text
    with pytest.raises(ValueError, match="softmax, rows of 1024"):
        inductor.generated("softmax")


# ------------------------------------------------------------------------------------------------ budgets


def parts(value):
    return value if isinstance(value, tuple) else (value,)


def within(exercise, arguments, results) -> bool:
    """Whether results pass the exercise's budget."""
    first = next(v for v in arguments.values() if isinstance(v, torch.Tensor))
    passed = True
    for got, expected in zip(parts(results), parts(exercise.oracle(**arguments)), strict=True):
        dtype = first.dtype if expected.dtype == torch.float64 else expected.dtype
        expected = expected.double()
        error = (got.to(dtype).double() - expected).abs()
        passed &= bool(((error <= exercise.budget(expected, dtype, arguments)) | (got.double() == expected)).all())
    return passed


def in_torch(exercise) -> str:
    """The name in FUNCTIONS of what torch has for it."""
    return {"online_softmax": "softmax"}.get(exercise.entry, exercise.entry)


@pytest.mark.parametrize("exercise", [e for e in KERNELS if in_torch(e) in inductor.FUNCTIONS], ids=lambda e: e.entry)
def test_an_honest_float32_result_is_within_the_budget_and_uses_a_third_of_it_at_most(exercise):
    """Torch in float32, rounded to the dtype asked for, three times as far from the truth, still passes."""
    for case in exercise.cases:
        arguments = case.arguments(5)
        exact = parts(exercise.oracle(**arguments))
        single = {
            k: v.float() if isinstance(v, torch.Tensor) and v.is_floating_point() else v for k, v in arguments.items()
        }
        by_torch = parts(inductor.FUNCTIONS[in_torch(exercise)](*single.values()))
        far = tuple(
            e.double() + 3 * (t.double() - e.double()).nan_to_num(0) for e, t in zip(exact, by_torch, strict=True)
        )
        assert within(exercise, arguments, far), case.name


@each_kernel
def test_lazy_results_pass_no_case(exercise):
    for case in exercise.cases:
        arguments = case.arguments(5)
        exact = parts(exercise.oracle(**arguments))
        if exact[0].numel() == 1:
            continue  # the softmax of one element is 1, whatever it is
        zeros = tuple(torch.zeros_like(e) for e in exact)
        means = tuple(torch.full_like(e, e[e.isfinite()].mean()) for e in exact)
        first = next(iter(arguments.values()))
        copies = tuple(first.double() if e.shape == first.shape else first[:, 0].double() for e in exact)
        for lazy in (zeros, means, copies):
            assert not within(exercise, arguments, lazy), case.name


# ------------------------------------------------------------------------------------------------ what verdicts say


def verdict_of(variant: Variant):
    exercise = EXERCISES[variant.exercise]
    function = load(variant.cells(), exercise.entry)
    return judge(exercise, observe(exercise, function, 3, seconds=60))


def variant(exercise: str, name: str) -> Variant:
    return next(v for v in of_unit("fusion") if (v.exercise, v.name) == (f"fusion.{exercise}", name))


@pytest.mark.parametrize(
    "exercise, name, title, words",
    [
        ("softmax", "reads its row twice", "reads once, writes once", ["`x` is read 2 times", "line "]),
        ("online_softmax", "three passes", "reads at most twice, writes once", ["`x` is read 3 times", "line "]),
        ("sin2_plus_cos2", "two kernels", "one launch", ["`sin2_kernel`, `add_cos2_kernel`"]),
        ("cross_entropy", "two passes", "reads the logits once", ["`logits` is read 2 times", "line "]),
    ],
)
def test_what_is_wasted_costs_its_criterion_and_the_line_is_named(exercise, name, title, words):
    findings = {f.title: f for f in verdict_of(variant(exercise, name)).findings}
    assert not findings[title].passed
    for word in words:
        assert word in findings[title].detail


@pytest.mark.parametrize(
    "exercise, name, words",
    [
        ("softmax", "no maximum", "fusion.online_softmax.no_maximum"),
        ("online_softmax", "starts at -inf", "fusion.cross_entropy.starts_at_inf"),
        ("online_softmax", "starts at -100", "fusion.online_softmax.starts_at_0"),
        ("cross_entropy", "starts at 0", "fusion.online_softmax.starts_at_0"),
        ("add_rmsnorm", "two kernels", "fusion.add_rmsnorm.two_kernels"),
        ("softmax", "masked positions hold 0", "fusion.online_softmax.masked_positions_count"),
        ("online_softmax", "the old sum uncorrected", "fusion.online_softmax.no_correction"),
        ("rmsnorm", "divides by the block", "fusion.add_rmsnorm.divides_by_the_block"),
        ("add_rmsnorm", "divides by the block", "fusion.add_rmsnorm.divides_by_the_block"),
        ("rmsnorm", "squares in the dtype of x", "fusion.rmsnorm.squares_in_the_dtype_of_x"),
        ("chain_bytes", "one store a kernel", "fusion.chain_bytes.one_store_a_kernel"),
    ],
)
def test_typical_mistakes_get_a_sentence(exercise, name, words):
    assert id_of(verdict_of(variant(exercise, name)).remark) == words


def test_masked_lanes_without_other_are_no_overflow():
    """The maximum is subtracted; what is NaN comes from the mask, and the findings say so."""
    verdict = verdict_of(variant("softmax", "masked positions unset"))
    assert any("loaded without `other`" in f.detail for f in verdict.findings) and verdict.remark == ""


def spoiled(exercise: str, *patches: tuple[str, str]):
    """The verdict on the published solution with these changes."""
    return verdict_of(Variant(f"fusion.{exercise}", "spoiled", (), patches))


OUTSIDE = ("tl.rsqrt(tl.sum(x * x, axis=0) / N + eps)", "1 / (tl.sqrt(tl.sum(x * x, axis=0) / N) + eps)")
START, FACTOR = ("m, l = -3.4e38, 0.0", "m, l = 0.0, 0.0"), ("tl.exp(m - m_new)", "tl.exp(m_new - m)")


@pytest.mark.parametrize(
    "exercise, patch, words",
    [
        ("softmax", ("p / tl.sum(p, axis=0)", "p / tl.sum(x, axis=0)"), "Divide it by the sum of p"),
        ("softmax", ("x.stride(0)", "x.stride(1)"), "rows lie x.stride(0) apart"),
        ("softmax", ("triton.next_power_of_2(N)", "min(triton.next_power_of_2(N), 1024)"), "columns from 1024 on"),
        ("online_softmax", START, "above all logits"),
        ("cross_entropy", FACTOR, "Does exp(m_new - m) multiply"),
        ("cross_entropy", ('other=-float("inf")', "other=0"), "each masked position adds exp(0 - m)"),
        ("cross_entropy", ("m + tl.log(l) - right", "tl.log(l) - right"), "The loss lacks m"),
        ("rmsnorm", OUTSIDE, "You add eps to the root"),
        ("rmsnorm", (" / N + eps)", " / N)"), "eps is missing"),
        ("rmsnorm", ("axis=0) / N + eps", "axis=0) + eps"), "The norm takes the mean"),
    ],
)
def test_a_slip_gets_its_own_sentence_and_no_other(exercise, patch, words):
    assert words in spoiled(exercise, patch).remark


def test_a_store_without_a_mask_is_not_called_a_wrong_mean():
    """The only case left to look at is 1 x 1, where a block is as long as its row."""
    verdict = spoiled("rmsnorm", ("x * scale * weight, mask=offs_n < N)", "x * scale * weight)"))
    assert verdict.points < verdict.out_of and verdict.remark == ""


def test_one_forgotten_cast_costs_one_criterion():
    verdict = spoiled("sin2_plus_cos2", (".to(tl.float32)", ""))
    assert [f.title for f in verdict.findings if f.judged and not f.passed] == ["right in float16 and bfloat16"]
