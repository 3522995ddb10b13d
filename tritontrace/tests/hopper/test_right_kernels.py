"""Right kernels compute what torch does, in every order, and nothing is said against them."""

import pytest
import torch
from runs import MANY_ORDERS, RIGHT, attention, module_of, persistent
from sampling import first_ones

from tritontrace.hopper.orders import ORDERS, seeds

MODULES = {path: module_of(path) for path, _ in RIGHT.values()}


@pytest.mark.parametrize("name", first_ones(RIGHT, 7))
def test_no_false_alarm_and_torchs_numbers(name):
    path, run = RIGHT[name]
    for order in ORDERS:  # the numbers of each
        report, equal = run(MODULES[path], orders=(order,))
        assert report.right, report.fault
        assert equal, order
    report, _ = run(MODULES[path], orders=seeds(20))
    assert report.right, report.fault


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
def test_no_false_alarm_in_many_orders(name):
    path, run = RIGHT[name]
    report, equal = run(MODULES[path], orders=seeds(MANY_ORDERS))
    assert report.right, report.fault
    assert equal


@pytest.mark.parametrize("name", ["copied", "by_cp_async", "by_tma", "specialised"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_numbers_of_16_bits(name, dtype):
    path, run = RIGHT[name]
    report, equal = run(MODULES[path], orders=("lazy",), dtype=dtype)
    assert report.right, report.fault
    assert equal


@pytest.mark.parametrize("name", ["copied", "turned"])
def test_numbers_of_32_bits(name):
    path, run = RIGHT[name]
    assert run(MODULES[path], orders=("lazy", "random:1"), dtype=torch.float32)[1]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("D", first_ones([64, 128]))
def test_attention(dtype, causal, D):
    module = MODULES[RIGHT["attention_overlapped"][0]]
    report, equal = attention(module, ("lazy", "random:3"), dtype, N=256, D=D, causal=causal, programs=2)
    assert report.right, report.fault
    assert equal


@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_matmul(turned, dtype):
    report, equal = persistent(MODULES[RIGHT["matmul_persistent"][0]], ("lazy", "random:3"), dtype, turned=turned)
    assert report.right, report.fault
    assert equal
