"""Rounding, conversions and functions on numpy arrays, against torch and against hand-made cases."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tritontrace.ttir import numerics

TORCH = {
    "bf16": torch.bfloat16,
    "fp8e5": torch.float8_e5m2,
    "fp8e4nv": torch.float8_e4m3fn,
    "fp8e5b16": torch.float8_e5m2fnuz,
    "fp8e4b8": torch.float8_e4m3fnuz,
}
LARGEST = {"bf16": 3.3895e38, "fp8e5": 57344, "fp8e4nv": 448, "fp8e5b16": 57344, "fp8e4b8": 240}


def bits_of(tensor):
    return (
        tensor.view(torch.uint8 if tensor.element_size() == 1 else torch.int16)
        .numpy()
        .view(f"u{tensor.element_size()}")
    )


@pytest.mark.parametrize("name", TORCH)
def test_each_code_widens_to_torchs_value(name):
    codes = np.arange(2 ** (8 * TORCH[name].itemsize), dtype=f"u{TORCH[name].itemsize}")
    signed = codes.view("i2") if codes.itemsize == 2 else codes
    expected = torch.from_numpy(signed).view(TORCH[name]).float().numpy()
    np.testing.assert_array_equal(numerics.widen(codes, name), expected)


@pytest.mark.parametrize("name", TORCH)
def test_values_halfway_between_two_codes_round_to_even(name):
    """Every finite code, every middle between neighbours, and the next float32 on both sides of it."""
    codes = np.arange(2 ** (8 * TORCH[name].itemsize), dtype=f"u{TORCH[name].itemsize}")
    values = np.unique(numerics.widen(codes, name))
    values = values[np.isfinite(values)]
    middles = ((values[1:].astype(np.float64) + values[:-1]) / 2).astype(np.float32)
    samples = np.concatenate(
        [values, middles, np.nextafter(middles, np.float32(-1e38)), np.nextafter(middles, np.float32(1e38))]
    )
    np.testing.assert_array_equal(numerics.narrow(samples, name), bits_of(torch.from_numpy(samples).to(TORCH[name])))


@given(st.floats(width=32, allow_nan=False), st.sampled_from(sorted(TORCH)))
def test_narrow_is_torchs_rounding(value, name):
    value = float(np.clip(value, -LARGEST[name], LARGEST[name]))
    sample = np.array([value], np.float32)
    assert numerics.narrow(sample, name) == bits_of(torch.from_numpy(sample).to(TORCH[name]))


@given(st.floats(width=32, allow_nan=False), st.sampled_from(sorted(TORCH)))
def test_toward_zero_is_the_next_code_below_in_size(value, name):
    value = np.float32(np.clip(value, -LARGEST[name], LARGEST[name]))
    below = numerics.widen(numerics.narrow(np.array([value]), name, toward_zero=True), name)[0]
    nearest = numerics.widen(numerics.narrow(np.array([value]), name), name)[0]
    assert abs(below) <= abs(value) and abs(below) <= abs(nearest)
    assert below == nearest or abs(nearest) > abs(value)


def test_what_has_no_code():
    huge = np.array([3.4e38, -3.4e38, np.inf, np.nan], np.float32)
    widened = {name: numerics.widen(numerics.narrow(huge, name), name) for name in TORCH}
    np.testing.assert_array_equal(widened["bf16"], [np.inf, -np.inf, np.inf, np.nan])
    for name in ("fp8e5", "fp8e4nv", "fp8e5b16", "fp8e4b8"):  # as a GPU's cvt.satfinite, unlike torch
        np.testing.assert_array_equal(widened[name], [LARGEST[name], -LARGEST[name], LARGEST[name], np.nan])


def test_a_poisoned_lane_stays_poisoned_through_conversions():
    for dtype in (np.float16, np.float32, np.float64):
        values = np.tile(numerics.poison(np.dtype(dtype)), 3)
        assert np.isnan(values).all() and numerics.is_poison(values).all() and numerics.is_poison(-values).all()
        for other in (np.float16, np.float32, np.float64):
            assert numerics.is_poison(values.astype(other)).all()
    wide = np.tile(numerics.poison(np.dtype(np.float32)), 3)
    assert numerics.is_poison(numerics.widen(numerics.narrow(wide, "bf16"), "bf16")).all()
    assert not numerics.is_poison(np.array([np.nan, 1, np.inf])).any()


def test_integers_saturate():
    values = np.array([1.9, -1.9, 300, 3e9, -3e9, 1e30, -1e30, np.nan, np.inf], np.float32)
    top, bottom = 2**31 - 1, -(2**31)
    assert numerics.to_integer(values, np.dtype(np.int32)).tolist() == [1, -1, 300, top, bottom, top, bottom, 0, top]
    top, bottom = 2**63 - 1, -(2**63)
    expected = [1, -1, 300, 3 * 10**9, -3 * 10**9, top, bottom, bottom, top]
    assert numerics.to_integer(values, np.dtype(np.int64)).tolist() == expected
    assert numerics.to_integer(values[:5], np.dtype(np.uint32)).tolist() == [1, 0, 300, 3 * 10**9, 0]
    assert numerics.to_integer(values[:3], np.dtype(np.int8)).tolist() == [1, -1, 44]


@pytest.mark.parametrize(
    "source, target, expected",
    [
        ("float32", "int16", [1, -1, 127, 128, -129, 300, 32767, -32768, 32767, 0]),
        ("float32", "uint16", [1, 0, 127, 128, 0, 300, 40000, 0, 65535, 0]),
        ("float32", "int8", [1, -1, 127, -128, 127, 44, -1, 0, -1, 0]),
        ("float32", "uint8", [1, 0, 127, 128, 0, 44, 64, 0, 255, 0]),
        ("float64", "int16", [1, -1, 127, 128, -129, 300, 32767, -32768, 32767, -32768]),
        ("float64", "uint16", [1, 0, 127, 128, 0, 300, 40000, 0, 65535, 32768]),
        ("float64", "int32", [1, -1, 127, 128, -129, 300, 40000, -(10**9), 2**31 - 1, -(2**31)]),
        ("float64", "uint32", [1, 0, 127, 128, 0, 300, 40000, 0, 2**32 - 1, 2**31]),
        ("float32", "uint64", [1, 0, 127, 128, 0, 300, 40000, 0, 2**64 - 1, 2**63]),
    ],
)
def test_floats_become_the_integers_that_an_h200_gives(source, target, expected):
    values = np.array([1.5, -1.5, 127.9, 128, -129, 300, 40000, -1e9, 1e30, np.nan], source)
    assert numerics.to_integer(values, np.dtype(target)).tolist() == expected


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_the_high_half_of_a_product(a, b):
    for bits in (32, 64):
        x, y = a % 2**bits, b % 2**bits
        dtype = np.dtype(f"u{bits // 8}")
        assert int(numerics.high_half(np.array([x], dtype), np.array([y], dtype))[0]) == x * y >> bits


def test_maximum_passes_over_nan_but_not_over_poison():
    poison = numerics.poison(np.dtype(np.float32))
    a = np.array([1, np.nan, np.nan, poison, 2], np.float32)
    b = np.array([2, 3, np.nan, 4, -1], np.float32)
    np.testing.assert_array_equal(numerics.larger(a, b), [2, 3, np.nan, np.nan, 2])
    np.testing.assert_array_equal(numerics.smaller(a, b), [1, 3, np.nan, np.nan, -1])
    block = np.stack([a, b])
    np.testing.assert_array_equal(numerics.fold_max(block, 0, False), [2, 3, np.nan, np.nan, 2])
    np.testing.assert_array_equal(numerics.fold_min(block, None, True), [[np.nan]])


def test_dot_in_each_precision():
    a, b = np.float32([[2048, 1]]), np.float32([[1], [1]])
    assert numerics.dot(a, b, np.zeros((1, 1), np.float32)) == 2049
    assert numerics.dot(a, b, np.ones((1, 1), np.float16)) == 2050  # rounded once, at the end
    bytes_ = np.full((1, 4), -128, np.int8)
    assert numerics.dot(bytes_, bytes_.T, np.ones((1, 1), np.int32)) == 65537


def test_tf32_drops_what_a_tensor_core_drops():
    x = np.float32([1 + 2**-10, 1 + 2**-10 + 2**-11, -(1 + 2**-11), 0.0, np.inf])
    np.testing.assert_array_equal(numerics.tf32(x), np.float32([1 + 2**-10, 1 + 2**-10, -1, 0, np.inf]))


@pytest.mark.parametrize(
    "symbol, value, expected",
    [
        ("__nv_tanhf", 0.5, np.tanh(0.5)), ("__nv_fast_expf", 1.0, np.e), ("__nv_frcp_rn", 4.0, 0.25), ("__nv_erfcf", 0.0, 1),
        ("__nv_isinff", np.inf, 1), ("__nv_roundf", -2.5, -3), ("__nv_rintf", -2.5, -2), ("__nv_normcdf", 0.0, 0.5),
        ("__nv_tgamma", 5.0, 24), ("__nv_lgamma", 1.0, 0), ("__nv_tgammaf", -1.0, np.nan), ("__nv_float2int_rd", -1.5, -2),
        ("__nv_float2int_rn", 2.5, 2), ("__nv_logb", 10.0, 3), ("__nv_saturatef", np.nan, 0), ("__nv_dsqrt_rn", 9.0, 3),
    ],
)  # fmt: skip
def test_libdevice(symbol, value, expected):
    np.testing.assert_allclose(numerics.libdevice(symbol)(np.array([value])), [expected])


@pytest.mark.parametrize("symbol", ["__nv_hadd", "__nv_erfcxf", "__nv_fadd_rz", "__nv_j0f", "__nv_sad", "__nv_mul24"])
def test_libdevice_does_not_guess(symbol):
    assert numerics.libdevice(symbol) is None
