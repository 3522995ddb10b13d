"""The pictures of unit 02: they exist, say what they show, and their numbers are torch's."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from pictures import words

from course_lib import figures
from course_lib.figures.dtypes.bits import BitExplorer, _neighbours
from course_lib.figures.dtypes.patterns import FORMATS, gap_above, largest, pattern_of, value_of
from course_lib.figures.dtypes.rounding import count_by_ones, relative_gaps, running_sums
from course_lib.figures.dtypes.training import WAYS, scaled_runs, share_lost, training_runs

F = figures.dtypes

PICTURES = {
    "formats": (),
    "bit_explorer": (),
    "explore_bits": (),
    "counting": (),
    "range_against_resolution": (),
    "rounding_staircase": (),
    "number_lines": (),
    "running_sum": (),
    "training_run": (),
    "loss_scaling": (),
    "fp16_training": (),
    "quantization_error": (),
}


# ------------------------------------------------------------------------------------------------ bits


@pytest.mark.parametrize(
    "number, format, pattern",
    [
        (1.5, "fp16", 0x3E00),
        (-2.0, "fp32", 0xC0000000),
        (1.0, "bf16", 0x3F80),
        (1.0, "tf32", 0x1FC00),
        (448.0, "e4m3", 0x7E),
        (1.0, "e5m2", 0x3C),
        (-1.0, "int8", 0xFF),
        (-128.0, "int8", 0x80),
        (1000.0, "int8", 0x7F),
    ],
)
def test_patterns_known_by_heart(number, format, pattern):
    assert pattern_of(number, format) == pattern
    if abs(number) < 1000:
        assert value_of(pattern, format) == number


@pytest.mark.parametrize("format", FORMATS)
def test_every_pattern_of_a_value_is_found_again(format):
    bits = FORMATS[format].bits
    step = max(1, (1 << bits) // 5003)
    for pattern in range(0, 1 << bits, step):
        value = value_of(pattern, format)
        if math.isfinite(value):
            assert pattern_of(value, format) == pattern


@pytest.mark.parametrize("number, held", [(1 + 2.0**-11, 1.0), (1 + 3 * 2.0**-11, 1 + 2.0**-9), (0.1, 0.0999755859375)])
def test_tf32_rounds_to_nearest_ties_to_even(number, held):
    assert value_of(pattern_of(number, "tf32"), "tf32") == held


def test_limits_are_those_of_finfo():
    for format in ("fp32", "fp16", "bf16", "e4m3", "e5m2"):
        info = torch.finfo(FORMATS[format].dtype)
        assert largest(format) == info.max
        assert gap_above(1.0, format) == info.eps
    assert largest("int8") == 127
    assert gap_above(1.0, "tf32") == 2.0**-10


@pytest.mark.parametrize(
    "pattern, format, told",
    [
        (0x3E00, "fp16", "(1 + 0.5) × 2^(15 − 15)  =  1.5"),
        (0x0001, "fp16", "subnormal"),
        (0x7C00, "fp16", "infinity"),
        (0x7E00, "fp16", "NaN"),
        (0x7F, "e4m3", "NaN"),
        (0x80, "int8", "-128"),
        (0x3F80, "bf16", "0.00781 above"),
        (0x40000000, "fp32", "0x40000000"),
        (0x1FC00, "tf32", "0.000977 above"),
    ],
)
def test_the_explorer_reads_a_pattern(pattern, format, told):
    assert told in words(F.bit_explorer(pattern, format))


@pytest.mark.parametrize("format", FORMATS)
def test_the_explorer_draws_a_box_for_each_bit_and_never_fails(format):
    bits = FORMATS[format].bits
    half = 1 << bits - 1
    for pattern in (0, 1, half - 1, half, half + 1, 2 * half - 1):
        figure = F.bit_explorer(pattern, format)
        assert len(figure.axes[0].patches) == bits
        figure.draw_without_rendering()


def test_the_neighbours_of_zero_are_on_both_sides():
    assert _neighbours(0, FORMATS["fp16"]) == [-(2.0**-23), -(2.0**-24), 0.0, 2.0**-24, 2.0**-23]
    assert _neighbours(0x7BFF, FORMATS["fp16"])[-1] == 65504


@pytest.mark.parametrize("arguments, word", [((0, "fp8"), "fp8"), ((1 << 16, "fp16"), "65535"), ((-1, "int8"), "-1")])
def test_the_explorer_names_a_wrong_argument(arguments, word):
    with pytest.raises(ValueError, match=word):
        F.bit_explorer(*arguments)


# ---------------------------------------------------------------------------------------------- widget


def test_the_widget_follows_its_switches_its_number_and_its_format():
    pytest.importorskip("ipywidgets")
    widget = BitExplorer()
    pictures = {widget.shown}
    widget.bits[0].value = True  # the sign
    assert widget.number.value == -1.5
    pictures.add(widget.shown)
    widget.number.value = 0.1
    assert widget.number.value == float(torch.tensor(0.1).half()) and widget.pattern == pattern_of(0.1, "fp16")
    pictures.add(widget.shown)
    for format, f in FORMATS.items():
        widget.format.value = format
        shown = [bit for bit in widget.bits if bit.layout.display != "none"]
        assert len(shown) == f.bits
        assert [bit.description for bit in shown] == list(f"{widget.pattern:0{f.bits}b}")
        pictures.add(widget.shown)
    assert len(pictures) == 3 + len(FORMATS) - 1  # fp16 at 0.1 was there before; int8 is new
    assert widget.number.value == 0


def test_the_widget_shows_infinity_and_nan():
    pytest.importorskip("ipywidgets")
    widget = BitExplorer(65504, "fp16")
    widget.bits[5].value = True  # the lowest exponent bit
    assert math.isnan(widget.number.value)
    widget.number.value = 1e9
    assert math.isinf(widget.number.value)
    widget.format.value = "int8"
    assert widget.number.value == 127


# ----------------------------------------------------------------------------------------- experiments


def test_counters_stop_where_the_gap_becomes_two(picture):
    assert count_by_ones("fp16", 4000)[-1] == 2048
    assert count_by_ones("bf16", 4000)[-1] == 256
    assert count_by_ones("fp32", 4000)[-1] == 4000
    assert "no guess yet" in words(picture("counting"))
    assert "you guessed 3,000" in words(F.counting(3000))
    for no_number in ("many", None, math.nan, True):
        assert "no guess yet" in words(F.counting(no_number))


def test_relative_gaps_are_eps_and_rise_among_subnormals():
    for format in ("fp16", "bf16", "e4m3", "e5m2"):
        x, gaps = relative_gaps(format)
        info = torch.finfo(FORMATS[format].dtype)
        assert gaps[0] == 1.0, "the smallest number is a gap of its own"
        assert np.nanmin(gaps) == info.eps
        assert x[0] == value_of(1, format) and x[-1] <= info.max


def test_fp16_loses_most_of_a_long_sum_and_an_fp32_accumulator_does_not():
    found = running_sums()
    error = {
        name: abs(sums[-1] / found["exact"][-1] - 1) for name, sums in found.items() if name not in ("lengths", "exact")
    }
    assert error["fp16, one after the other"] > 0.5
    assert 1e-6 < error["fp16, in pairs"] < 1e-3
    assert error["fp32 accumulator"] < 1e-5


@pytest.mark.slow
def test_pure_bf16_trains_worse_and_master_weights_repair_it():
    training_runs.cache_clear()
    runs = training_runs()
    plain, pure, master = (runs[way]["loss"][-1] for way in WAYS)
    assert pure > 1.5 * plain
    assert master == pytest.approx(plain, rel=0.02)
    assert runs["bf16"]["moved"][-1] < 0.3 and runs[WAYS[2]]["moved"][-1] > 0.9


def test_training_leaves_the_number_of_threads_alone(two_threads):
    training_runs()
    F.gradients()
    assert torch.get_num_threads() == 2


def test_a_scaled_loss_saves_gradients(picture):
    assert share_lost(1) > 0.05
    assert share_lost(2.0**14) < 0.001
    assert f"{share_lost(1):.1%}" in words(picture("loss_scaling"))


@pytest.mark.slow
def test_fp16_trains_with_a_scaled_loss_alone(picture):
    scaled_runs.cache_clear()
    plain, lost, scaled, bf16 = scaled_runs().values()
    assert lost["loss"][-1] > 3 * plain["loss"][-1]
    assert scaled["loss"][-1] == pytest.approx(plain["loss"][-1], rel=0.02)
    assert bf16["loss"][-1] == pytest.approx(plain["loss"][-1], rel=0.05)
    assert min(lost["zero"]) > 0.66, "two layers of three get no gradient, as the notebook says"
    assert max(plain["zero"]) == 0 and max(scaled["zero"]) < 0.01
    assert f"{lost['loss'][-1]:.2f}" in words(picture("fp16_training"))


def test_number_lines_count_what_8_bits_hold(picture):
    told = words(picture("number_lines"))
    e4m3 = torch.arange(128).to(torch.uint8).view(torch.float8_e4m3fn).float()
    assert f"{int((e4m3 <= 16).sum())} numbers" in told and "128 numbers" in told


def test_ties_are_written_as_they_go(picture):
    told = words(picture("rounding_staircase"))
    for tie in ("257 → 256", "259 → 260", "261 → 260", "263 → 264"):
        assert tie in told
