"""The kernels in Gluon, which only a GPU can run: right for heads of 64 and 128, where memory held NaN before."""

import sys
from pathlib import Path

import pytest
import torch

from course_lib.criteria import roundings
from course_lib.exercises import attention as A
from course_lib.exercises import flash as F
from course_lib.exercises import flash_backward as B

HOPPER = torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not HOPPER, reason="it is written for sm_90")]


@pytest.fixture(scope="module")
def scripts():
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
    try:
        import attention_backward_overlapped
        import attention_overlapped

        yield attention_overlapped, attention_backward_overlapped
    finally:
        sys.path.pop(0)


@pytest.fixture(scope="module")
def overlapped(scripts):
    return scripts[0]


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


@pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS")  # by autograd's own thread, in the oracle
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("d", [64, 128])
def test_the_overlapped_backward_pass_is_right(scripts, d, dtype, causal):
    forward, backward = scripts
    for seed, n in enumerate((128, 384, 1024)):
        g = torch.Generator("cuda").manual_seed(seed)
        given = A.cases.qkv(n, n, d, dtype, lead=(2, 3), scores="rising")(g) | {"causal": causal}
        given["do"] = torch.randn(2, 3, n, d, generator=g, device="cuda").to(dtype)
        o, lse = forward.launch(**{name: x for name, x in given.items() if name != "do"})
        run = lambda: backward.launch(**given, o=o, lse=lse)  # noqa: B023, E731, called at once
        torch.full((1 << 26,), torch.nan, device="cuda")  # freed at once: what is not stored shows
        found, (_, dk, dv) = run(), run()
        assert torch.equal(found[1], dk) and torch.equal(found[2], dv)  # dq is added in any order
        rights, budgets = B.oracles.gradients(**given), B.oracles.allowances(**given, o_rounded=True)
        for got, right, budget in zip(found, rights, budgets, strict=True):
            assert ((got.double() - right).abs() <= roundings(right, dtype, 1) + budget).all()
