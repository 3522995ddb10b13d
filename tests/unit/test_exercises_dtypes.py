"""The oracles of unit 02 agree with each other and with torch."""

from __future__ import annotations

import math

import pytest
import torch
from stopped import raised, refused

from course_lib.evidence import Evidence
from course_lib.exercise import Trial
from course_lib.exercises import dtypes as D


@pytest.mark.parametrize("exponent_bits, mantissa_bits, dtype", [(5, 10, torch.float16), (8, 7, torch.bfloat16)])
def test_the_ladder_of_gaps_is_what_torch_reads(exponent_bits, mantissa_bits, dtype):
    torchs = torch.arange(1 << 15).to(torch.int16).view(dtype).tolist()
    assert all(map(D.oracles.same, D.oracles.ladder(exponent_bits, mantissa_bits), torchs))
    read = D.oracles.truth(exponent_bits, mantissa_bits)
    every = torch.arange(1 << 16).to(torch.uint16).view(dtype).tolist()
    assert all(D.oracles.same(read(p), v) for p, v in enumerate(every))


def test_shorter_mantissas_are_read_as_longer_ones():
    read, torchs = D.oracles.truth(5, 2), torch.arange(256).to(torch.uint8).view(torch.float8_e5m2).tolist()
    assert all(D.oracles.same(read(p), v) for p, v in enumerate(torchs))
    negative = D.oracles.truth(3, 4)
    assert D.oracles.same(negative(0x80), -0.0) and negative(0xFF - 0x0F) == -math.inf and negative(0xB0) == -1.0


@pytest.mark.parametrize(
    "a, b, equal",
    [
        (0.0, 0.0, True),
        (0.0, -0.0, False),
        (math.nan, math.nan, True),
        (1, 1.0, True),
        (10**400, math.inf, False),
        ("1", 1.0, False),
    ],
)
def test_same_means_to_the_last_bit(a, b, equal):
    assert D.oracles.same(a, b) is equal


@pytest.mark.parametrize(
    "x, dtype, gap",
    [(1.0, "float16", 2.0**-10), (-3.0, "bfloat16", 2.0**-6), (0.0, "float16", 2.0**-24), (2047.0, "float16", 1.0)],
)
def test_gaps_known_by_heart(x, dtype, gap):
    assert D.oracles.gap(x, dtype) == gap


def test_a_traced_relu_moves_each_element_twice():
    assert D.oracles.traced_intensity("float32") == 1 / 8
    assert D.oracles.traced_intensity("float8_e5m2") == 1 / 2


def test_special_floats_and_ties_hold_what_they_should():
    g = torch.Generator().manual_seed(1)
    bits = D.cases.special_floats(g)["x"]
    x, rounded = bits.view(torch.float32), D.oracles.rounded(bits).view(torch.float32)
    assert x.isnan().any() and x.isinf().any() and (x == 0).sum() == 2
    assert (rounded.isinf() & x.isfinite()).any(), "a number that rounds up to infinity"
    assert ((D.cases.ties(g)["x"] & 0xFFFF) == 0x8000).sum() > 100


def test_any_nan_stands_for_another_and_zero_has_a_sign():
    x = torch.tensor([0x7F800001, 0, -(1 << 31)], dtype=torch.int32)
    assert D.oracles.bit_exact(torch.tensor([-0x400000, 0, -(1 << 31)], dtype=torch.int32), x) == ""
    assert "0x7F800001 should become any NaN" in D.oracles.bit_exact(torch.zeros(3, dtype=torch.int32), x)
    assert "0x80000000 should become 0x80000000, got 0x00000000" in D.oracles.bit_exact(
        torch.tensor([0x7FC00000, 0, 0], dtype=torch.int32), x
    )
    for odd in (None, x.float(), x[:2], x):
        assert D.oracles.bit_exact(odd, x)


def test_quantized_rows_are_judged_by_their_own_steps():
    x = torch.tensor([[1.0, -127.0], [0.0, 0.0]])
    good = [torch.tensor([[1, -127], [0, 0]], dtype=torch.int8), torch.tensor([1.0, 1.0])]
    assert D.oracles.within_half_a_step(good, x) == D.oracles.least_step(good, x) == D.oracles.zeros_stay(good, x) == ""
    assert "step of row 1" in D.oracles.zeros_stay([good[0], torch.tensor([1.0, 0.0])], x)
    for step in (2.0, 0.5, math.nan):
        assert "row 0" in D.oracles.least_step([good[0], torch.tensor([step, 1.0])], x)
    for odd in (None, [good[0]], [good[0].int(), good[1]], [good[0], good[1].double()]):
        assert D.oracles.within_half_a_step(odd, x)


def test_a_floor_under_the_step_shows_where_it_matters():
    case = next(c for c in D.quantize_rows.cases if c.group == "sizes")
    x = case.arguments(3)["x"]
    for floor, holds in ((1e-12, True), (1e-8, True), (1e-6, False)):
        scale = (x.abs().amax(1) / 127).clamp(min=floor)
        output = [(x / scale[:, None]).round().to(torch.int8), scale]
        assert D.oracles.within_half_a_step(output, x) == ""
        assert (D.oracles.least_step(output, x) == "") is holds


def test_a_tensor_in_place_of_a_number_is_told_how_to_become_one():
    tensor = {"unsupported": "a tensor"}
    assert D.oracles.is_gap(tensor, 1.0, "float16").endswith("got a tensor (.item() makes a number of it)")
    assert D.oracles.decoded(tensor, [0, 1], 5, 2).endswith("got a tensor (.tolist() makes a list of it)")


@pytest.mark.parametrize("name", ["add_", "bitwise_and_", "bitwise_or_", "__irshift__", "masked_fill_"])
def test_what_is_allowed_is_allowed_in_place(name):
    assert name in D.round_to_bf16.allows and name in D.half_sum.allows


def test_the_budget_of_a_masked_row_accepts_no_number():
    budget = D.in_torch.logsumexp_budget(torch.tensor([-math.inf, 5.0]), torch.float32, {"x": torch.zeros(2, 9)})
    assert bool(budget.isfinite().all())


def test_the_budget_of_a_square_accepts_each_order_of_its_roundings():
    x = torch.rand(1 << 20, generator=torch.Generator().manual_seed(0)) + 0.5
    scale = torch.tensor(0.7)
    given = {"x": x, "scale": 0.7}
    budget = D.kernels.square_budget(right := D.scaled_square.oracle(**given), torch.float32, given)
    for squared in (scale * x * x, x * x * scale, (scale.sqrt() * x) * (scale.sqrt() * x)):
        assert bool(((squared.double() - right).abs() <= budget).all())
    assert not bool(((scale * x * x * (1 + 2**-10) - right).abs() <= budget).any())


# ------------------------------------------------------------------------------------------------ mistakes


def remark(name: str, outputs) -> str:
    """The remark on an exercise whose calls return outputs(arguments)."""
    exercise = D.EXERCISES[f"dtypes.{name}"]
    trials = []
    for i, case in enumerate(exercise.cases):
        calls = [case.arguments(i), case.arguments(i + 100)]
        trials.append(Trial(case, calls, Evidence(case.name, outputs=[outputs(**call) for call in calls])))
    return next(filter(None, (look(trials) for look in exercise.mistakes)), "")


def cut(x):
    scale = quantized(x, 127)[1]
    return [(x / scale[:, None]).to(torch.int8), scale]


def shifted_by(x, m):
    return m + (x - m[:, None]).exp().sum(1).log()


@pytest.mark.parametrize(
    "name, outputs, word",
    [
        ("ulp", lambda x, dtype: 2 * D.oracles.gap(x, dtype), "frexp_s_exponent"),
        ("ulp", lambda x, dtype: D.oracles.gap(x, dtype) / 2, "half_of_it_as_for_rounding"),
        ("ulp", D.oracles.gap, ""),
        ("relu_intensity", lambda dtype: 1 / D.oracles.traced_intensity(dtype), "bytes_per_operation"),
        ("relu_intensity", lambda dtype: 2 * D.oracles.traced_intensity(dtype), "a_comparison_and_a_product"),
        ("round_to_bf16", D.oracles.rounded, ""),
        ("round_to_bf16", lambda x: D.oracles.rounded(x) >> 16 & 0xFFFF, "the_upper_half_shifted_down"),
        ("round_to_bf16", lambda x: (x + 0x7FFF + (x >> 16 & 1)) & -0x10000, "nan_runs_over"),
        ("round_to_bf16", lambda x: x & -0x10000, "cuts_off"),
        ("round_to_bf16", lambda x: (x + 0x8000) & -0x10000, "ties_up"),
        ("round_to_bf16", lambda x: (x + 0x7FFF) & -0x10000, "ties_towards_zero"),
        ("half_sum", lambda x: x.sum(1).float(), "is_rounded"),
        ("half_sum", lambda x: x.sum(1, dtype=torch.bfloat16).float(), "is_rounded"),
        ("half_sum", lambda x: x.float().sum(1), ""),
        ("scaled_square", lambda x, scale: x * x * scale, "casts_after_the_square"),
        ("scaled_square", lambda x, scale: x * x, ""),
        ("quantize_rows", lambda x: quantized(x, 128), "by_128"),
        ("quantize_rows", lambda x: quantized(x, 127), ""),
        ("quantize_rows", cut, "cuts_off"),
        ("quantize_rows", lambda x: [torch.zeros(x.shape, dtype=torch.int8), torch.full((len(x),), 1e-30)], ""),
        ("stable_logsumexp", lambda x: shifted_by(x.float(), x.float().amax(1)), "a_masked_row_is_nan"),
        ("stable_logsumexp", lambda x: shifted_by(x.float(), x.float().mean(1).nan_to_num(0, 0, 0)), "no_maximum"),
        ("stable_logsumexp", lambda x: torch.full((len(x),), math.nan), ""),
        ("quantize_rows", lambda x: [quantized(x, 127)[0], 1 / quantized(x, 127)[1]], ""),
    ],
)
def test_remarks_on_typical_mistakes(name, outputs, word):
    told = remark(name, outputs)
    assert told.id == f"dtypes.{name}.{word}" if word else told == ""


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_rounded_sum_is_said_to_have_the_dtype_it_had(dtype):
    assert remark("half_sum", lambda x: x.sum(1, dtype=getattr(torch, dtype)).float()).parameters == {"dtype": dtype}


@pytest.mark.parametrize(
    "name, evidence, word",
    [
        ("quantize_rows", raised("The size of tensor a (100) must match"), "scale_by_row"),
        ("round_to_bf16", raised("value cannot be converted to type int without overflow"), "no_int32"),
        ("round_to_bf16", refused("lift_fresh"), "number_in_place"),
    ],
)
def test_remarks_on_what_stopped(name, evidence, word):
    exercise = D.EXERCISES[f"dtypes.{name}"]
    trial = Trial(exercise.cases[0], [exercise.cases[0].arguments(0)], Evidence("", **evidence))
    told = next(filter(None, (look([trial]) for look in exercise.mistakes)), "")
    assert told.id == f"dtypes.{name}.{word}"


def test_a_result_of_one_row_is_not_cut_off():
    case = D.quantize_rows.cases[1]
    call = case.arguments(0)
    trial = Trial(case, [call], Evidence(case.name, outputs=[quantized(call["x"], 127)]))
    assert D.mistakes.cut_off([trial]) == ""


def quantized(x, steps):
    scale = x.abs().amax(1) / steps
    scale = torch.where(scale == 0, 1, scale)
    return [(x / scale[:, None]).round().to(torch.int32).to(torch.int8), scale]


def test_the_hidden_one_is_missed():
    def without(patterns, exponent_bits, mantissa_bits):
        read = D.oracles.truth(exponent_bits, mantissa_bits)
        return [read(p) - read(p >> mantissa_bits << mantissa_bits) for p in patterns]

    def right(patterns, exponent_bits, mantissa_bits):
        return [D.oracles.truth(exponent_bits, mantissa_bits)(p) for p in patterns]

    assert remark("decode_float", without).id == "dtypes.decode_float.forgets_the_hidden_1"
    assert remark("decode_float", right) == ""
