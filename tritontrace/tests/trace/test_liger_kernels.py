"""Liger-Kernel's own kernels, called by its own host code, run under trace() unchanged and give torch's results.

They come from the package, so nothing of them was written for the trace: https://github.com/linkedin/Liger-Kernel. Twelve
operations, forward and backward, 24 launches. Bytes are counted by hand next to each.
"""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("liger_kernel")

from liger_kernel.ops import (
    cross_entropy,
    fused_add_rms_norm,
    geglu,
    group_norm,
    kl_div,
    layer_norm,
    relu_squared,
    rms_norm,
    rope,
    softmax,
    sparsemax,
    swiglu,
)

from tritontrace.tracing import trace

SMS = 132
F32, BF16 = torch.float32, torch.bfloat16
ROWS = pytest.mark.parametrize("M, N", [(6, 128), (7, 100)])
DTYPES = pytest.mark.parametrize("dtype", [F32, BF16], ids=["fp32", "bf16"])


@pytest.fixture(autouse=True)
def on_an_h200(monkeypatch):
    """Liger's host code takes the CPU for an H200: three functions ask whether a tensor is on "cuda", and then for the number of
    SMs; two modules ask for the generation."""
    torch.manual_seed(0)
    for function in (
        rms_norm.rms_norm_backward,
        layer_norm.layer_norm_backward,
        fused_add_rms_norm.fused_add_rms_norm_backward,
    ):
        code = function.__code__
        asks_for_cpu = code.replace(co_consts=tuple("cpu" if c == "cuda" else c for c in code.co_consts))
        monkeypatch.setattr(function, "__code__", asks_for_cpu)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(multi_processor_count=SMS))
    for module in (swiglu, cross_entropy):
        monkeypatch.setattr(module, "infer_device_arch", lambda: "hopper")


def check(liger, plain, *inputs, tolerance=None, upstream=None):
    """Forward and backward of Liger, traced, against those of plain torch in float64; the bytes of its two launches.

    inputs     tensors; those of floating point get gradients
    tolerance  by default what a bfloat16 or a float32 allows
    upstream   the gradient of the result, by default random
    Returns ((loaded, stored), (loaded, stored)), atomics counted as stored.
    """
    tolerance = tolerance or (2e-2 if inputs[0].dtype == BF16 else 2e-5)
    # clones, since Liger stores some gradients in place of its inputs
    leaves = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
    exact = [x.double().requires_grad_() if x.is_floating_point() else x for x in inputs]
    expected = _several(plain(*exact))
    upstream = [torch.randn_like(y) if upstream is None else torch.full_like(y, upstream) for y in expected]
    torch.autograd.backward(expected, upstream)
    with trace() as t:
        got = [y for y in _several(liger(*leaves)) if y is not None]
        torch.autograd.backward(got, [g.to(y.dtype) for g, y in zip(upstream, got, strict=True)])
    assert t.faults == []
    for y, y64 in zip(got, expected, strict=True):
        torch.testing.assert_close(y.double(), y64, rtol=tolerance, atol=tolerance)
    for x, x64 in zip(leaves, exact, strict=True):
        if x.requires_grad:
            scale = max(1.0, x64.grad.abs().max().item())
            torch.testing.assert_close(x.grad.double(), x64.grad, rtol=tolerance, atol=tolerance * scale)
    forward, backward = t.launches
    return _traffic(forward), _traffic(backward)


def _several(result):
    return result if isinstance(result, tuple) else (result,)


def _traffic(launch):
    loaded = sum(access.bytes for access in launch.accesses if access.op == "load")
    return loaded, sum(access.bytes for access in launch.accesses) - loaded


# ----------------------------------------------------------------------------------------------------- one row, one program


@ROWS
@DTYPES
def test_softmax(M, N, dtype):
    x = torch.randn(M, N).to(dtype)
    forward, backward = check(softmax.LigerSoftmaxFunction.apply, lambda x: x.softmax(-1), x)
    row = M * N * x.element_size()
    assert forward == (row, row)
    assert backward == (2 * row, row)


@ROWS
@DTYPES
@pytest.mark.parametrize("multiplier", [1.0, 0.5])
def test_swiglu(M, N, dtype, multiplier):
    a, b = torch.randn(M, N).to(dtype), torch.randn(M, N).to(dtype)
    forward, backward = check(
        lambda a, b: swiglu.LigerSiLUMulFunction.apply(a, b, multiplier), lambda a, b: F.silu(multiplier * a) * b, a, b
    )
    row = M * N * a.element_size()
    assert forward == (2 * row, row)
    assert backward == (3 * row, 2 * row)


@ROWS
@DTYPES
def test_geglu(M, N, dtype):
    a, b = torch.randn(M, N).to(dtype), torch.randn(M, N).to(dtype)
    forward, backward = check(geglu.LigerGELUMulFunction.apply, lambda a, b: F.gelu(a, approximate="tanh") * b, a, b)
    row = M * N * a.element_size()
    assert forward == (2 * row, row)
    assert backward == (3 * row, 2 * row)


@ROWS
@DTYPES
def test_relu_squared(M, N, dtype):
    x = torch.randn(M, N).to(dtype)
    forward, backward = check(relu_squared.LigerReLUSquaredFunction.apply, lambda x: x.relu().square(), x)
    row = M * N * x.element_size()
    assert forward == (row, row)
    assert backward == (2 * row, row)


def plain_sparsemax(x):
    """Martins and Astudillo 2016, algorithm 1."""
    z = x.sort(-1, descending=True).values
    k = torch.arange(1, x.shape[-1] + 1)
    size = (1 + k * z > z.cumsum(-1)).sum(-1, keepdim=True)
    return (x - (z.cumsum(-1).gather(-1, size - 1) - 1) / size).relu()


@ROWS
@DTYPES
def test_sparsemax(M, N, dtype):
    x = torch.randn(M, N).to(dtype)
    forward, backward = check(lambda x: sparsemax.LigerSparsemaxFunction.apply(x, -1), plain_sparsemax, x)
    row = M * N * x.element_size()
    assert forward == (row + 4 * M * N, row)  # and the sorted row, in float32
    assert backward == (4 * row, row)  # two passes


@ROWS
@DTYPES
@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")
@pytest.mark.parametrize("reduction", ["batchmean", "mean", "sum"])
@pytest.mark.parametrize("log_target", [False, True])
def test_kl_div(M, N, dtype, reduction, log_target):
    y, target = torch.randn(M, N).log_softmax(-1).to(dtype), torch.randn(M, N).log_softmax(-1)
    target = (target if log_target else target.exp()).to(dtype)
    forward, backward = check(
        lambda y: kl_div.LigerKLDivLossFunction.apply(y, target, reduction, log_target),
        lambda y: F.kl_div(y, target.double(), reduction=reduction, log_target=log_target),
        y,
    )
    row = M * N * y.element_size()
    assert forward == (2 * row, 4 * M)
    assert backward == (row, row)


# ----------------------------------------------------------------------------------------------------- normalisations
# Backward of the first three: a program for each of the SMs, whether or not a row is left for it. Each loads the weights, and stores its
# share of their gradient, in float32.


@ROWS
@DTYPES
@pytest.mark.parametrize("casting", ["llama", "gemma", "none"])
def test_rms_norm(M, N, dtype, casting):
    x, w = torch.randn(M, N).to(dtype), torch.rand(N).to(dtype)
    offset = 1.0 if casting == "gemma" else 0.0
    forward, backward = check(
        lambda x, w: rms_norm.LigerRMSNormFunction.apply(x, w, 1e-6, offset, casting),
        lambda x, w: F.rms_norm(x, (N,), w + offset, 1e-6),
        x,
        w,
        tolerance=4e-2 if dtype == BF16 else None,
    )
    size = x.element_size()
    rstd = M * (size if casting == "none" else 4)
    assert forward == (2 * M * N * size, M * N * size + rstd)
    assert backward == ((2 * M + SMS) * N * size + rstd, M * N * size + 4 * SMS * N)


@ROWS
@DTYPES
def test_fused_add_rms_norm(M, N, dtype):
    x, r, w = torch.randn(M, N).to(dtype), torch.randn(M, N).to(dtype), torch.rand(N).to(dtype)
    forward, backward = check(
        lambda x, r, w: fused_add_rms_norm.LigerFusedAddRMSNormFunction.apply(x, r, w, 1e-6),
        lambda x, r, w: (F.rms_norm(x + r, (N,), w, 1e-6), x + r),
        x,
        r,
        w,
        tolerance=4e-2 if dtype == BF16 else None,
    )
    size = x.element_size()
    assert forward == (3 * M * N * size, 2 * M * N * size + 4 * M)
    assert backward == ((3 * M + SMS) * N * size + 4 * M, M * N * size + 4 * SMS * N)


@ROWS
@DTYPES
def test_layer_norm(M, N, dtype):
    x, w, b = torch.randn(M, N).to(dtype), torch.rand(N).to(dtype), torch.rand(N).to(dtype)
    forward, backward = check(
        lambda x, w, b: layer_norm.LigerLayerNormFunction.apply(x, w, b, 1e-5),
        lambda x, w, b: F.layer_norm(x, (N,), w, b, 1e-5),
        x,
        w,
        b,
    )
    size = x.element_size()
    assert forward == (3 * M * N * size, M * N * size + 8 * M)
    assert backward == ((2 * M + SMS) * N * size + 8 * M, M * N * size + 2 * 4 * SMS * N)


@pytest.mark.parametrize("B, C, L, groups", [(2, 8, 32, 2), (3, 12, 25, 4)])
def test_group_norm(B, C, L, groups):
    x, w, b = torch.randn(B, C, L), torch.rand(C), torch.rand(C)
    forward, backward = check(
        lambda x, w, b: group_norm.LigerGroupNormFunction.apply(x, w, b, C, groups, 1e-5),
        lambda x, w, b: F.group_norm(x, groups, w, b, 1e-5),
        x,
        w,
        b,
    )
    n = B * C * L
    assert forward == (4 * (2 * n + 2 * n), 4 * (n + 2 * B * groups))  # x twice; a weight and a bias for each element
    assert backward == (4 * (4 * n + 2 * B * C + 2 * B * groups), 4 * (n + 2 * B * C))  # dw and db by atomic_add


# ----------------------------------------------------------------------------------------------------- rope, cross-entropy


@DTYPES
@pytest.mark.parametrize("B, Hq, Hk, T, D", [(2, 4, 2, 5, 16), (1, 3, 3, 4, 24)])
def test_rope(B, Hq, Hk, T, D, dtype):
    q, k = torch.randn(B, Hq, T, D).to(dtype), torch.randn(B, Hk, T, D).to(dtype)
    angles = (torch.arange(T)[:, None] / 100 ** (torch.arange(D // 2) / D)).repeat(1, 2)
    cos, sin = angles.cos()[None].to(dtype), angles.sin()[None].to(dtype)

    def rotated(x):
        left, right = x.chunk(2, -1)
        return x * cos.double()[:, None] + torch.cat([-right, left], -1) * sin.double()[:, None]

    forward, backward = check(
        lambda q, k: rope.LigerRopeFunction.apply(q, k, cos, sin), lambda q, k: (rotated(q), rotated(k)), q, k
    )
    moved = B * T * (Hq + Hk) * D * q.element_size()
    assert forward == backward == (moved + B * T * D * q.element_size(), moved)  # halves of cos and sin


def plain_cross_entropy(x, y, weight=None, smoothing=0.0, softcap=None, z=0.0):
    x = x if softcap is None else softcap * torch.tanh(x / softcap)
    weight = None if weight is None else weight.double()
    loss = F.cross_entropy(x, y, weight=weight, label_smoothing=smoothing)
    return loss + z * x.logsumexp(-1)[y != -100].square().sum() / (y != -100).sum()


@ROWS
@DTYPES
@pytest.mark.parametrize("ignored", [0, 2])
def test_cross_entropy(M, N, dtype, ignored):
    x, y = torch.randn(M, N).to(dtype), torch.randint(N, (M,))
    y[:ignored] = -100
    forward, backward = check(
        lambda x, y: cross_entropy.LigerCrossEntropyFunction.apply(x, y, None)[0],
        plain_cross_entropy,
        x,
        y,
        upstream=0.5,  # with 1 there is nothing to launch
    )
    size, rows = x.element_size(), M - ignored
    assert forward == (8 * M + rows * (2 * N + 1) * size, (M * N + 2 * rows) * size)
    assert backward == (M * N * size + M * size, M * N * size)  # the gradient of the loss, loaded for each row


@ROWS
def test_cross_entropy_with_all_that_it_can_do(M, N):
    x, y, weight = torch.randn(M, N), torch.randint(N, (M,)), torch.rand(N) + 0.5
    y[1], y[2] = -100, x[2].argmax()
    options = {"label_smoothing": 0.1, "softcap": 3.0, "lse_square_scale": 1e-2}
    found = {}

    def liger(x, y):
        loss, z_loss, found["accuracy"], found["predicted"] = cross_entropy.LigerCrossEntropyFunction.apply(
            x, y, weight, -100, *(options[n] for n in ("lse_square_scale", "label_smoothing")), "mean", options["softcap"],
            True, True, True,
        )  # fmt: skip
        return loss

    forward, backward = check(
        liger, lambda x, y: plain_cross_entropy(x, y, weight, 0.1, 3.0, 1e-2), x, y, tolerance=1e-4, upstream=0.5
    )
    predicted = x.argmax(-1)
    predicted[1] = -1
    assert found["predicted"].tolist() == predicted.tolist()
    assert found["accuracy"].item() == pytest.approx((predicted == y).sum().item() / (M - 1))
    assert forward[0] == 8 * M + (M - 1) * (4 * N + 2) * 4  # the row and the weights twice, one of each again
    assert backward == (M * N * 4 + M * 4, M * N * 4)


# ----------------------------------------------------------------------------------------------------- an H200's counters


def rows(M, N):
    return torch.randn(M, N)


def leaf(M, N):
    return torch.randn(M, N).requires_grad_()


def targets(M, N):
    return torch.randint(N, (M,))


# Sectors that an H200 loaded in these launches, those included that its L1 still held. Which sizes were launched is not
# recorded: these here make just as many. Whatever the number of SMs, the traffic is the same.
COUNTED = {
    "softmax": (lambda: softmax.LigerSoftmaxFunction.apply(leaf(512, 4096)), [262_144, 524_288]),
    "softmax, twice as wide": (lambda: softmax.LigerSoftmaxFunction.apply(rows(512, 8192)), [524_288]),
    "swiglu": (lambda: swiglu.LigerSiLUMulFunction.apply(leaf(512, 2048), leaf(512, 2048)), [262_144, 393_216]),
    "rms_norm": (lambda: rms_norm.LigerRMSNormFunction.apply(rows(512, 4096), torch.rand(4096), 1e-6), [524_288]),
    "layer_norm": (
        lambda: layer_norm.LigerLayerNormFunction.apply(rows(512, 4096), torch.rand(4096), torch.rand(4096), 1e-5),
        [786_432],
    ),
    "cross_entropy": (  # rows that begin in the midst of a sector
        lambda: cross_entropy.LigerCrossEntropyFunction.apply(leaf(1024, 5003), targets(1024, 5003), None)[0],
        [1_284_608],
    ),
    "sparsemax": (  # 64,000 of forward by hand
        lambda: sparsemax.LigerSparsemaxFunction.apply(leaf(256, 1000), -1),
        [64_000, 128_000],
    ),
}


@pytest.mark.parametrize("name", COUNTED)
def test_load_sectors_are_as_many_as_an_h200_counted(name):
    liger, counted = COUNTED[name]
    with trace() as t:
        result = liger()
        if result.requires_grad:
            result.backward(torch.ones_like(result))
    assert t.faults == []
    assert [sum(a.l2_sectors for a in launch.accesses if a.op == "load") for launch in t.launches] == counted
