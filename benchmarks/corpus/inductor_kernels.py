"""Kernels that torch's Inductor writes, each against the function that it compiled. It writes Triton for CPU tensors, if it is asked, and
has its first configuration launched where Triton is interpreted: so each kernel is launched as any other."""

from __future__ import annotations

import pytest
import torch
from torch._inductor import async_compile, config
from torch._inductor.runtime import triton_heuristics
from torch.nn import functional as F
from torch.utils import _triton

config.cpu_backend, config.force_disable_caches = "triton", True
_triton.triton_hash_with_backend = lambda: ""  # of a compiler that nobody asks
triton_heuristics.CachingAutotuner.precompile = lambda *_, **__: None
triton_heuristics.CachingAutotuner.triton_interpret = property(lambda self: True, lambda self, value: None)
async_compile.AsyncCompile.triton = lambda self, name, source, device_str="": (
    async_compile._load_triton_kernel_from_source(name, source)
)

X, Y, ROW = torch.randn(60, 1000), torch.randn(60, 1000), torch.randn(1000)
FUNCTIONS = {
    "gelu": lambda x: F.gelu(x + ROW) * 2,
    "softmax": lambda x: x.softmax(-1),
    "log softmax of columns": lambda x: x.log_softmax(0),
    "layer norm": lambda x: F.layer_norm(x, (1000,), ROW, ROW),
    "rms norm": lambda x: F.rms_norm(x, (1000,), ROW),
    "sum of all": lambda x: (x * x).sum(),
    "variance": lambda x: x.var(0),
    "transpose": lambda x: (x.T + 1).contiguous(),
    "cat": lambda x: torch.cat([x, Y * 2], 1),
    "gather": lambda x: x[torch.arange(59, -1, -1)],
    "embedding": lambda x: F.embedding(torch.arange(50), x) * 2,
    "argmax": lambda x: x.argmax(1),
    "cumulative sum": lambda x: x.cumsum(1),
    "scatter": lambda x: torch.zeros(10, 1000).index_add(0, torch.arange(60) % 10, x),
    "where": lambda x: torch.where(x > 0, x, Y.exp()),
    "dropout": lambda x: F.dropout(x, 0.0) + x.sigmoid(),
    "cross-entropy": lambda x: F.cross_entropy(x, torch.arange(60)),
    "pooling": lambda x: F.max_pool2d(x.view(1, 6, 100, 100), 3, 2),
    "sort": lambda x: x[:, :64].sort(1).values,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_inductor(name):
    torch._dynamo.reset()
    function = FUNCTIONS[name]
    got, expected = torch.compile(function)(X), function(X)
    assert torch.allclose(got, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["gelu", "softmax", "layer norm", "rms norm", "cross-entropy", "scatter"])
def test_inductor_backward(name):
    torch._dynamo.reset()
    gradients = []
    for function in (torch.compile(FUNCTIONS[name]), FUNCTIONS[name]):
        x = X.clone().requires_grad_()
        y = function(x)
        y.backward(torch.ones_like(y) / 3)
        gradients.append(x.grad)
    assert torch.allclose(*gradients, atol=1e-4, rtol=1e-4)
