"""research/matmul_persistent.py, as far as it goes without a GPU: it compiles for Hopper, and takes matrices as they lie."""

from __future__ import annotations

import pytest
import torch
from hopper import SHARED_BYTES, compiled_for_hopper
from scripts import imported


@pytest.fixture(scope="module")
def scripts():
    with imported("matmul_persistent", "matmul") as modules:
        yield modules


@pytest.mark.parametrize("a_t, b_t", [(False, False), (False, True), (True, False)])
def test_the_kernel_fits_on_a_hopper_gpu(scripts, a_t, b_t):
    persistent, _ = scripts
    x = torch.empty(512, 512, dtype=torch.bfloat16)
    values = (*persistent.descriptors(x, x, x, a_t, b_t), *[None] * 5, 512, 512, 512)
    kernel = compiled_for_hopper(persistent.persistent, *values, A_T=a_t, B_T=b_t, SCALED=False)
    assert kernel.metadata.shared <= SHARED_BYTES
    assert "wgmma.mma_async.sync.aligned.m64n256k16" in kernel.asm["ptx"]


def test_the_kernel_that_shares_its_last_round_fits_on_a_hopper_gpu(scripts):
    persistent, _ = scripts
    x, sums, there = torch.empty(512, 512, dtype=torch.bfloat16), torch.empty(8), torch.zeros(8, dtype=torch.int32)
    values = (*persistent.descriptors(x, x, x, False, False), sums, there, 4, None, None, 512, 512, 512)
    kernel = compiled_for_hopper(persistent.persistent, *values, A_T=False, B_T=False, SCALED=False)
    assert kernel.metadata.shared <= SHARED_BYTES


def test_the_kernel_for_8_bits_fits_on_a_hopper_gpu(scripts):
    persistent, _ = scripts
    x, c, scales = torch.empty(512, 512).to(torch.float8_e4m3fn), torch.empty(512, 512).bfloat16(), torch.empty(512)
    values = (*persistent.descriptors(x, x, c, False, True), None, None, None, scales, scales, 512, 512, 512)
    kernel = compiled_for_hopper(persistent.persistent, *values, A_T=False, B_T=True, SCALED=True)
    assert kernel.metadata.shared <= SHARED_BYTES
    assert "wgmma.mma_async.sync.aligned.m64n256k32" in kernel.asm["ptx"]


def test_a_matrix_is_copied_only_where_its_rows_do_not_begin_at_16_bytes(scripts):
    persistent, _ = scripts
    wide = torch.randn(64, 72).half()
    for x, transposed in ((wide, False), (wide.T, True), (wide[:, 8:40], False), (wide[:, 8:40].T, True)):
        found, turned = persistent.as_it_lies(x)
        assert turned is transposed and found.data_ptr() == x.data_ptr()
        assert torch.equal(found.T if turned else found, x)
    for x in (
        torch.randn(5, 9).half(),
        torch.randn(5, 9).half().T,
        wide[:, 1:41],
        wide[:, ::2],
        wide[:1].expand(8, -1),
    ):
        found, turned = persistent.as_it_lies(x)
        assert persistent.aligned(found) and turned == (x.stride(0) == 1) and found.data_ptr() != x.data_ptr()
        assert torch.equal(found.T if turned else found, x)


def test_what_is_wrong_is_not_timed(scripts, monkeypatch):
    _, matmul = scripts
    a, b = torch.randn(16, 8).bfloat16(), torch.randn(8, 16).bfloat16()
    monkeypatch.setattr(matmul, "works", lambda: iter([("small", a, b)]))
    monkeypatch.setattr(matmul.matmul_persistent, "product", lambda a, b: torch.full((16, 16), torch.nan).bfloat16())
    monkeypatch.setattr(matmul.bench, "ratio", None)
    monkeypatch.setattr(matmul, "beside", lambda a, b: {})  # peers, on a GPU
    (row,) = matmul.measured()
    assert row["right"] is False
    assert matmul.line(row) == "| 16 x 8 x 16 | small | | | not timed: wrong |"
