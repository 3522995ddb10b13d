"""Liger-Kernel's own kernels, by its own host code: 24 more rows for trace_vs_counters.py, of kernels that nobody here wrote.

    pip install --no-deps liger-kernel==0.8.5        (https://github.com/linkedin/Liger-Kernel; importing this needs it)

LAUNCHES names twelve operations, each with a function that does its forward and its backward pass on a device: two launches each.
launches("cuda") takes them as Liger makes them there, with this GPU's number of SMs; what comes back can be launched again, on a GPU
or traced on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from course_kernels import Launch
from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction
from liger_kernel.ops.fused_add_rms_norm import LigerFusedAddRMSNormFunction
from liger_kernel.ops.geglu import LigerGELUMulFunction
from liger_kernel.ops.group_norm import LigerGroupNormFunction
from liger_kernel.ops.kl_div import LigerKLDivLossFunction
from liger_kernel.ops.layer_norm import LigerLayerNormFunction
from liger_kernel.ops.relu_squared import LigerReLUSquaredFunction
from liger_kernel.ops.rms_norm import LigerRMSNormFunction
from liger_kernel.ops.rope import LigerRopeFunction
from liger_kernel.ops.softmax import LigerSoftmaxFunction
from liger_kernel.ops.sparsemax import LigerSparsemaxFunction
from liger_kernel.ops.swiglu import LigerSiLUMulFunction
from triton.runtime.jit import JITFunction

from tritontrace.tracing import trace

FP16, BF16 = torch.float16, torch.bfloat16
# never by position, though one of Liger's kernels has a parameter of that name
COMPILER_OPTIONS = {"num_warps", "num_stages"}


def _random(device: str, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(len(shape) + sum(shape))  # the same numbers in each process
    return torch.randn(shape, generator=generator).to(device, dtype).requires_grad_()


def _backward_of(result: torch.Tensor | tuple[torch.Tensor, ...]) -> None:
    """The backward pass of what a forward pass returned."""
    results = [y for y in (result if isinstance(result, tuple) else (result,)) if y is not None]
    torch.autograd.backward(results, [torch.full_like(y, 0.5) for y in results])


def softmax(device: str) -> None:
    _backward_of(LigerSoftmaxFunction.apply(_random(device, 1024, 2048)))


def rms_norm(device: str) -> None:
    _backward_of(LigerRMSNormFunction.apply(_random(device, 1024, 2048), _random(device, 2048), 1e-6))


def layer_norm(device: str) -> None:
    x, w, b = _random(device, 1024, 2048), _random(device, 2048), _random(device, 2048)
    _backward_of(LigerLayerNormFunction.apply(x, w, b, 1e-5))


def fused_add_rms_norm(device: str) -> None:
    x, r, w = (_random(device, *shape, dtype=BF16) for shape in ((1024, 1000), (1024, 1000), (1000,)))
    _backward_of(LigerFusedAddRMSNormFunction.apply(x, r, w, 1e-6))


def group_norm(device: str) -> None:
    channels, groups = 64, 8
    x, w, b = _random(device, 16, channels, 1000), _random(device, channels), _random(device, channels)
    _backward_of(LigerGroupNormFunction.apply(x, w, b, channels, groups, 1e-5))


def swiglu(device: str) -> None:
    _backward_of(LigerSiLUMulFunction.apply(_random(device, 512, 2048), _random(device, 512, 2048)))


def geglu(device: str) -> None:
    _backward_of(LigerGELUMulFunction.apply(*(_random(device, 1024, 1000, dtype=FP16) for _ in range(2))))


def relu_squared(device: str) -> None:
    _backward_of(LigerReLUSquaredFunction.apply(_random(device, 1024, 1500)))


def sparsemax(device: str) -> None:
    _backward_of(LigerSparsemaxFunction.apply(_random(device, 256, 1000), -1))


def cross_entropy(device: str) -> None:
    rows, vocabulary = 1024, 5003
    targets = torch.randint(vocabulary, (rows,), generator=torch.Generator().manual_seed(rows)).to(device)
    _backward_of(LigerCrossEntropyFunction.apply(_random(device, rows, vocabulary), targets, None)[0])


def kl_div(device: str) -> None:
    y, target = _random(device, 1024, 1500).log_softmax(-1), _random(device, 1024, 1500).softmax(-1).detach()
    _backward_of(LigerKLDivLossFunction.apply(y, target))


def rope(device: str) -> None:
    B, Hq, Hk, T, D = 2, 16, 4, 512, 64
    q, k = _random(device, B, Hq, T, D, dtype=BF16), _random(device, B, Hk, T, D, dtype=BF16)
    angles = (torch.arange(T)[:, None] / 10_000 ** (torch.arange(D // 2) * 2 / D)).repeat(1, 2)[None]
    _backward_of(LigerRopeFunction.apply(q, k, angles.cos().to(device, BF16), angles.sin().to(device, BF16)))


LAUNCHES: tuple[tuple[str, Callable[[str], None]], ...] = (
    ("softmax, fp32", softmax),
    ("RMSNorm, fp32", rms_norm),
    ("LayerNorm, fp32", layer_norm),
    ("add and RMSNorm, bf16", fused_add_rms_norm),
    ("GroupNorm, fp32", group_norm),
    ("SwiGLU, fp32", swiglu),
    ("GEGLU, fp16", geglu),
    ("ReLU squared, fp32", relu_squared),
    ("sparsemax, fp32", sparsemax),
    ("cross-entropy, fp32", cross_entropy),
    ("KL divergence, fp32", kl_div),
    ("RoPE, bf16", rope),
)


def launches(device: str) -> list[Launch]:
    """Two launches of each operation, with the arguments that Liger gives them on this device; on "cpu" they are traced."""
    found = []
    for name, both in LAUNCHES:
        with trace() if device == "cpu" else nullcontext(), _noted() as calls:
            both(device)
        found += [
            Launch(f"Liger: {name}, {way}", kernel, grid, lambda arguments=arguments: _copies(arguments), constants)
            for way, (kernel, grid, arguments, constants) in zip(("forward", "backward"), calls, strict=True)
        ]
    return found


@contextmanager
def _noted() -> Iterator[list[tuple]]:
    """Each launch while this is open: kernel, grid, arguments as they are before it, and compiler options."""
    run, calls = JITFunction.run, []

    def note(kernel: JITFunction, *args: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        calls.append((kernel, grid, *_by_position(kernel, args, options)))
        return run(kernel, *args, grid=grid, warmup=warmup, **options)

    JITFunction.run = note
    try:
        yield calls
    finally:
        JITFunction.run = run


def _by_position(kernel: JITFunction, args: tuple, options: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """Arguments by position as far as they go: a Launch moves those to its device."""
    args, options = list(args), dict(options)
    for name in kernel.arg_names[len(args) :]:
        if name not in options or name in COMPILER_OPTIONS:
            break
        args.append(options.pop(name))
    return tuple(_copies(args)), options


def _copies(arguments: Any) -> list:
    """Kernels store to their arguments, and some of Liger's to their inputs."""
    return [a.detach().clone() if isinstance(a, torch.Tensor) else a for a in arguments]
