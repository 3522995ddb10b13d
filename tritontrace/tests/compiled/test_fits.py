"""Kernels that surely fit into a GPU's shared memory are accepted by the compiler, and take no more than was said."""

from itertools import product

import pytest
import torch
import triton
import triton.language as tl
from test_compiled import FLOAT, HALF, O, X, copy, matmul
from test_lower import accepted, count, launched, multiply_integers, transpose

from tritontrace.compiled import fits
from tritontrace.replay.replaying import compile_every, compile_launched
from tritontrace.ttir.frontend import front_of

pytestmark = pytest.mark.usefixtures("compile_every_time")
GPUS = ["sm_80", "sm_90"]


@triton.jit
def tile(x_ptr, k, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    return tl.load(x_ptr + offs[:, None] * 256 + k + offs[None, :])


@triton.jit
def by_helpers(x_ptr, o_ptr, K, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    """Attention's shape: a product of a product, a row's maximum, loads in a function that the loop calls."""
    offs = tl.arange(0, BLOCK)
    q = tile(x_ptr, 0, BLOCK)
    m = tl.full((BLOCK,), float("-inf"), tl.float32)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in tl.range(0, K, BLOCK, num_stages=STAGES):
        scores = tl.dot(q, tl.trans(tile(x_ptr, k, BLOCK)))
        m_new = tl.maximum(m, tl.max(scores, 1))
        p = tl.exp(scores - m_new[:, None])
        acc = tl.dot(p.to(q.dtype), tile(x_ptr, k, BLOCK), acc * tl.exp(m - m_new)[:, None])
        m = m_new
    tl.store(o_ptr + offs[:, None] * 256 + offs[None, :], acc)


@triton.jit
def in_two_loops(x_ptr, o_ptr, K, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(0, K, BLOCK):
        for j in range(0, K, BLOCK):
            x = tl.load(x_ptr + (i + offs)[:, None] * 256 + j + offs[None, :])
            total += tl.sum(x * tl.trans(x), 1) + tl.sum(x, 0)
    tl.store(o_ptr + offs, total)


@triton.jit
def one_after_the_other(x_ptr, o_ptr, K, BLOCK: tl.constexpr, STAGES: tl.constexpr, LOOPS: tl.constexpr):
    """Causal attention's shape: whole tiles, then those that are masked."""
    offs = tl.arange(0, BLOCK)
    q = tile(x_ptr, 0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for loop in tl.static_range(LOOPS):
        for k in tl.range(loop * K, (loop + 1) * K, BLOCK, num_stages=STAGES):
            acc = tl.dot(q, tl.trans(tile(x_ptr, k, BLOCK)) + tile(x_ptr, k + 1, BLOCK), acc)
    tl.store(o_ptr + offs[:, None] * 256 + offs[None, :], acc)


def cases():
    for BLOCK, warps in product((16, 64, 128), (1, 4, 8)):
        yield transpose, {"x_ptr": FLOAT, "o_ptr": FLOAT, "BLOCK": BLOCK}, {"num_warps": warps}
    for dtype, BM, BK, stages in product((torch.float16, torch.bfloat16, torch.float32), (16, 64), (16, 64), (1, 3, 5)):
        x = torch.zeros(256, 256, dtype=dtype)
        arguments = dict(zip(matmul.arg_names, (x, x, FLOAT, 256, 256, BM, BK, "tf32"), strict=True))
        yield matmul, arguments, {"num_stages": stages}
    for dtype, BLOCK, stages in product((torch.float16, torch.float32), (16, 32, 64), (1, 2, 6)):
        x = torch.zeros(256, 256, dtype=dtype)
        yield by_helpers, {"x_ptr": x, "o_ptr": FLOAT, "K": 256, "BLOCK": BLOCK, "STAGES": stages}, {"num_stages": 2}
    for dtype, BLOCK, stages in product((torch.float16, torch.float32), (16, 64), (2, 6)):
        x = torch.zeros(256, 256, dtype=dtype)
        arguments = {"x_ptr": x, "o_ptr": FLOAT, "K": 128, "BLOCK": BLOCK, "STAGES": stages, "LOOPS": 3}
        yield one_after_the_other, arguments, {}
    for BLOCK in (16, 64):
        yield in_two_loops, {"x_ptr": FLOAT, "o_ptr": O, "K": 256, "BLOCK": BLOCK}, {}


@pytest.mark.slow
@pytest.mark.parametrize("gpu", GPUS)
def test_the_compiler_takes_no_more_than_the_bound(gpu):
    sure = 0
    for kernel, arguments, options in cases():
        front = front_of(kernel, arguments, options)
        known = accepted(kernel, gpu, **arguments, **options)
        what = kernel.__name__, {n: v for n, v in arguments.items() if isinstance(v, int)}, options
        if not known.to_the_end:
            assert 4 * known.shared_bytes <= 3 * fits.most_shared_bytes(front), what  # with room to spare
        if fits.surely(front, gpu):
            sure += 1
            assert known.accepted and not known.to_the_end, what
    assert sure > 40


def test_a_loop_takes_the_place_of_the_one_before():
    """Of another loop the operands of its product alone come on top."""
    arguments = {
        "x_ptr": torch.zeros(256, 256, dtype=torch.float16),
        "o_ptr": FLOAT,
        "K": 128,
        "BLOCK": 64,
        "STAGES": 3,
    }
    one, two = (
        fits.most_shared_bytes(front_of(one_after_the_other, {**arguments, "LOOPS": loops}, {})) for loops in (1, 2)
    )
    assert two - one == 2 * 64 * 64 * 2


@triton.jit(noinline=True)
def apart(x_ptr, o_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(o_ptr + offs, tl.load(x_ptr + offs))


@triton.jit
def calls(x_ptr, o_ptr, BLOCK: tl.constexpr):
    apart(x_ptr, o_ptr, BLOCK)


@triton.jit
def unrolled(x_ptr, o_ptr, K, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    for k in tl.range(0, K, BLOCK, loop_unroll_factor=8):
        tl.store(o_ptr + k + offs, tl.load(x_ptr + k + offs))


@pytest.mark.parametrize(
    "kernel, arguments, options",
    [
        (calls, {"x_ptr": X, "o_ptr": O, "BLOCK": 64}, {}),
        (unrolled, {"x_ptr": X, "o_ptr": O, "K": 256, "BLOCK": 64}, {}),
        (copy, {"x_ptr": X, "o_ptr": O, "n": 8, "STRIDE": 2, "BLOCK": 64}, {"maxnreg": 32}),
        (copy, {"x_ptr": X, "o_ptr": O, "n": 8, "STRIDE": 2, "BLOCK": 64}, {"num_ctas": 2}),
        (copy, {"x_ptr": X.to(torch.float8_e5m2), "o_ptr": O, "n": 8, "STRIDE": 2, "BLOCK": 64}, {}),
        (count, {"o_ptr": torch.zeros(1, dtype=torch.bfloat16)}, {}),
        (multiply_integers, {"x_ptr": FLOAT.to(torch.int8), "o_ptr": FLOAT.to(torch.int32), "BLOCK": 32}, {}),
        (transpose, {"x_ptr": FLOAT, "o_ptr": FLOAT, "BLOCK": 128}, {"num_warps": 1}),  # registers run out
        (transpose, {"x_ptr": FLOAT, "o_ptr": FLOAT, "BLOCK": 256}, {"num_warps": 32}),  # half a MiB
    ],
    ids=lambda value: getattr(value, "__name__", "")[:20],
)
def test_of_others_nothing_is_sure(kernel, arguments, options):
    assert not fits.surely(front_of(kernel, arguments, options), "sm_80")


def test_where_the_passes_are_unknown_nothing_is_sure(monkeypatch):
    front = front_of(copy, {"x_ptr": X, "o_ptr": O, "n": 8, "STRIDE": 2, "BLOCK": 64}, {})
    assert fits.surely(front, "sm_80")
    monkeypatch.setattr(fits.lower, "available", lambda: False)
    assert not fits.surely(front, "sm_80")


def launch(BM, stages, x=HALF):
    arguments = dict(zip(matmul.arg_names, (x, x, FLOAT, 256, 256, BM, 64, "tf32"), strict=True))
    return launched(matmul, arguments, num_stages=stages)


def facts(*launches):
    return compile_every([launches], GPUS, 60)[0]


def test_every_set_has_its_facts_for_every_gpu():
    found = facts(launch(16, 2), launch(64, 2), launch(32, 2), launch(32, 2, FLOAT))
    assert sorted(known.gpu for known in found) == 4 * ["sm_80"] + 4 * ["sm_90"] and all(f.accepted for f in found)


def test_a_set_of_small_constants_with_too_many_stages_is_refused():
    found = facts(launch(64, 30), launch(128, 2))
    refused = [(known.gpu, "bytes of shared memory" in known.complaint) for known in found if not known.accepted]
    assert refused == [("sm_80", True), ("sm_90", True)]


def test_the_largest_set_of_each_kernel_is_asked(monkeypatch):
    asked = []
    monkeypatch.setitem(compile_every.__globals__, "_compiled", lambda wanted, *_: asked.extend(wanted) or [])
    other = launch(32, 2)._replace(key="another")
    with pytest.raises(ValueError, match="zip"):  # for there are no answers
        facts(launch(64, 2), launch(16, 2), launch(32, 2), other)
    assert [(one[0], one[2]["BM"], gpu) for one, gpu, _ in asked] == [("k", 64, "sm_80"), ("another", 32, "sm_80")]


def test_a_check_asks_no_older_gpu_about_what_surely_fits():
    found = compile_launched([launch(64, 2), launch(16, 2)], GPUS, 60)
    assert [(known.gpu, known.accepted, known.to_the_end) for known in found] == [
        ("sm_80", True, False),
        ("sm_90", True, True),
    ]
    assert all(known.cases == ["a case"] for known in found)


def test_a_check_asks_an_older_gpu_about_what_may_not_fit():
    found = compile_launched([launch(64, 10, FLOAT)], GPUS, 60)
    refused = [known.gpu for known in found if "bytes of shared memory" in known.complaint]
    assert "sm_80" in refused
