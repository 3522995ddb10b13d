"""A profile on a GPU: tensors there, and counters where Nsight Compute may read them."""

import pytest
import torch
import triton
import triton.language as tl

from course_lib import profile

pytestmark = pytest.mark.gpu
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)

N = 1 << 22


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=mask) + tl.load(y_ptr + offs, mask=mask), mask=mask)


def test_an_addition_is_limited_by_dram():
    x, y = torch.randn(2, N, device="cuda")
    out = torch.empty_like(x)
    found = profile(lambda: add[(N // 1024,)](x, y, out, N, BLOCK=1024))
    (launch,) = found.launches
    assert torch.equal(out, x + y)
    assert launch.predicted["load_sectors"] == 2 * N * 4 // 32
    if found.not_counted:
        pytest.skip(found.not_counted)
    print(found)
    assert launch.counted["load_sectors"] == pytest.approx(launch.predicted["load_sectors"], rel=0.02)
    assert launch.counted["dram_read_bytes"] == pytest.approx(launch.predicted["dram_read_bytes"], rel=0.02)
    assert launch.limit == "dram" and launch.seconds > launch.roofline.seconds
