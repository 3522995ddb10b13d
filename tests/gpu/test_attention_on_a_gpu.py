"""The kernels in Gluon, which only a GPU can run: right for heads of 64 and 128, where memory held NaN before."""

import importlib
import subprocess
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
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "research"))
    try:
        import attention_backward_overlapped
        import attention_overlapped

        yield attention_overlapped, attention_backward_overlapped
    finally:
        sys.path.pop(0)


@pytest.fixture(scope="module", params=["attention_overlapped", "attention_in_turns"])
def forward(scripts, request):
    return importlib.import_module(request.param)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("d", [64, 128])
def test_the_forward_pass_is_right(forward, d, dtype, causal):
    for seed, n in enumerate((128, 384, 1024)):
        draw = A.cases.qkv(n, n, d, dtype, lead=(2, 3), scores="rising")
        given = draw(torch.Generator("cuda").manual_seed(seed)) | {"causal": causal}
        torch.full((1 << 26,), torch.nan, device="cuda")  # freed at once: what is not stored shows
        for got, right in zip(forward.launch(**given), F.oracles.attend(**given), strict=True):
            assert ((got.double() - right).abs() <= F.oracles.kernel_budget(right, dtype, given)).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "heads, n", [(1, 2176), (5, 3968), (42, 2048)]
)  # on 132 SMs: 17 walks, 1 round and 23, 5 rounds and 12
def test_a_shared_last_round_is_right_and_has_the_same_bits_twice(scripts, heads, n, dtype):
    forward = importlib.import_module("attention_in_turns")
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    assert forward.sharing(heads * n // 128, n // 128, sms) != (None, None)
    given = A.cases.qkv(n, n, 128, dtype, lead=(1, heads), scores="rising")(torch.Generator("cuda").manual_seed(n))
    given["causal"] = False
    torch.full((1 << 26,), torch.nan, device="cuda")  # freed at once: what is not stored shows
    o, lse = forward.launch(**given)
    assert o.shape == given["q"].shape and o.is_contiguous() and lse.is_contiguous()
    assert all(map(torch.equal, (o, lse), forward.launch(**given)))
    for head in {*range(0, heads, 8), heads - 1}:  # a float64 oracle of all at once would need too much memory
        one = {name: x[:, head : head + 1] if name != "causal" else x for name, x in given.items()}
        got = o[:, head : head + 1], lse[:, head : head + 1]
        for found, right in zip(got, F.oracles.attend(**one), strict=True):
            assert ((found.double() - right).abs() <= F.oracles.kernel_budget(right, dtype, one)).all()


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
        run = lambda **how: backward.launch(**given, o=o, lse=lse, **how)  # noqa: B023, E731, called at once
        torch.full((1 << 26,), torch.nan, device="cuda")  # freed at once: what is not stored shows
        found, (_, dk, dv), in_order, again = run(), run(), run(deterministic=True), run(deterministic=True)
        assert torch.equal(found[1], dk) and torch.equal(found[2], dv)  # dq is added in any order
        assert all(map(torch.equal, in_order, again))
        rights, budgets = B.oracles.gradients(**given), B.oracles.allowances(**given, o_rounded=True)
        for gradients in (found, in_order):
            for got, right, budget in zip(gradients, rights, budgets, strict=True):
                assert ((got.double() - right).abs() <= roundings(right, dtype, 1) + budget).all()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [64, 128])
def test_a_fixed_order_holds_where_not_all_programs_run_at_once(scripts, d, causal):
    forward, backward = scripts
    g = torch.Generator("cuda").manual_seed(d)
    q, k, v, do = (torch.randn(1, 1, 128 * 264, d, generator=g, device="cuda").bfloat16() for _ in range(4))
    o, lse = forward.launch(q, k, v, causal)
    found, again = (backward.launch(q, k, v, o, lse, do, causal, deterministic=True) for _ in range(2))
    assert all(map(torch.equal, found, again))


NEIGHBOUR = """
import torch
a = torch.randn(8192, 8192, device="cuda").bfloat16()
print("ready", flush=True)
while True:
    for _ in range(10):
        a @ a
    torch.cuda.synchronize()
"""


@pytest.fixture
def neighbour():
    """Another process that keeps the GPU busy, so that it changes between the two every few milliseconds."""
    process = subprocess.Popen([sys.executable, "-c", NEIGHBOUR], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        yield
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("d, causal", [(64, False), (64, True), (128, False), (128, True)])
def test_another_process_on_the_gpu_changes_nothing(scripts, neighbour, d, causal):
    """The memory of a barrier that is not invalidated may hold nothing else: a GPU that changes processes writes the barrier back."""
    forward, backward = scripts
    g = torch.Generator("cuda").manual_seed(d)
    q, k, v, do = (torch.randn(1, 1, 128 * 264, d, generator=g, device="cuda").bfloat16() for _ in range(4))
    o, lse = forward.launch(q, k, v, causal)
    found = backward.launch(q, k, v, o, lse, do, causal, deterministic=True)
    for _ in range(50):
        assert torch.equal(forward.launch(q, k, v, causal)[0], o)
        assert all(map(torch.equal, found, backward.launch(q, k, v, o, lse, do, causal, deterministic=True)))
