"""The kernel in Gluon, which only a GPU can run: right for heads of 64 and 128, where memory held NaN before."""

import sys
from pathlib import Path

import pytest
import torch

from course_lib.exercises import attention as A
from course_lib.exercises import flash as F

HOPPER = torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not HOPPER, reason="it is written for sm_90")]


@pytest.fixture(scope="module")
def overlapped():
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
    try:
        import attention_overlapped

        yield attention_overlapped
    finally:
        sys.path.pop(0)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("d", [64, 128])
def test_the_overlapped_kernel_is_right(overlapped, d, dtype, causal):
    for seed, n in enumerate((128, 384, 1024)):
        draw = A.cases.qkv(n, n, d, dtype, lead=(2, 3), scores="rising")
        given = draw(torch.Generator("cuda").manual_seed(seed)) | {"causal": causal}
        torch.full((1 << 26,), torch.nan, device="cuda")  # freed at once: what is not stored shows
        for got, right in zip(overlapped.launch(**given), F.oracles.attend(**given), strict=True):
            assert ((got.double() - right).abs() <= F.oracles.kernel_budget(right, dtype, given)).all()
