"""The course's kernels as the operations of course_lib/workloads/gpt.py, for model.py: autograd's functions and an operator.

The kernels are those of the published solutions of units 06 to 11. SwiGLU's two stand here, and attention in Gluon is that of
attention_in_turns.py and attention_backward_overlapped.py. Without a GPU they run under a trace.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from course_lib import trace
from course_lib.workloads import shared_heads
from course_lib.workloads.gpt import GPT, Ops
from grader.published import published

DRY = not torch.cuda.is_available()
DEVICE = "cpu" if DRY else "cuda"


@triton.jit
def swiglu_kernel(gate_ptr, up_ptr, out_ptr, stride, H, BLOCK: tl.constexpr):
    row, cols = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    gate = tl.load(gate_ptr + row * stride + cols, mask=cols < H, other=0).to(tl.float32)
    up = tl.load(up_ptr + row * stride + cols, mask=cols < H, other=0).to(tl.float32)
    tl.store(out_ptr + row * H + cols, gate * tl.sigmoid(gate) * up, mask=cols < H)


@triton.jit
def swiglu_backward_kernel(dy_ptr, gate_ptr, up_ptr, dgate_ptr, dup_ptr, stride, H, BLOCK: tl.constexpr):
    row, cols = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    dy = tl.load(dy_ptr + row * H + cols, mask=cols < H, other=0).to(tl.float32)
    gate = tl.load(gate_ptr + row * stride + cols, mask=cols < H, other=0).to(tl.float32)
    up = tl.load(up_ptr + row * stride + cols, mask=cols < H, other=0).to(tl.float32)
    s = tl.sigmoid(gate)
    tl.store(dgate_ptr + row * H + cols, dy * up * s * (1 + gate * (1 - s)), mask=cols < H)
    tl.store(dup_ptr + row * H + cols, dy * gate * s, mask=cols < H)


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    H, out = gate.shape[-1], dense_as(gate)
    swiglu_kernel[(out.numel() // H, triton.cdiv(H, 1024))](gate, up, out, gate.stride(-2), H, BLOCK=1024)
    return out


def swiglu_backward(dy: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    H = gate.shape[-1]
    dgate, dup = dense_as(gate), dense_as(up)
    grid = (dgate.numel() // H, triton.cdiv(H, 1024))
    swiglu_backward_kernel[grid](dy.contiguous(), gate, up, dgate, dup, gate.stride(-2), H, BLOCK=1024)
    return dgate, dup


def on_device(f: Callable) -> Callable:
    """f, or without a GPU f under a trace."""

    def traced(*given: Any, **more: Any) -> Any:
        with trace():
            return f(*given, **more)

    return traced if DRY else f


@cache
def course(exercise: str, name: str = "") -> Callable:
    return on_device(published(exercise, name, on_the_cpu=DRY))


@cache
def of_norm() -> tuple[Callable, Callable]:
    """norm_forward and norm_backward of unit 11, out of one cell: it registers an operator, which can be done once."""
    cell = published("training.operator_norm", "norm_forward", on_the_cpu=DRY).__globals__
    return on_device(cell["norm_forward"]), on_device(cell["norm_backward"])


class Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        out, rstd = of_norm()[0](x.flatten(0, -2), weight)
        ctx.save_for_backward(x, weight, rstd)
        return out.view(x.shape)

    @staticmethod
    def backward(ctx, dy):
        x, weight, rstd = ctx.saved_tensors
        dx, dweight = of_norm()[1](x.flatten(0, -2), weight, rstd, dy.flatten(0, -2))
        return dx.view(x.shape), dweight


class Rotary(torch.autograd.Function):
    """Turned by the positions 0, 1, ...; the way back turns by the same angles the other way."""

    @staticmethod
    def forward(ctx, x):
        return course("serving.rotary")(x, positions(x.shape[2]))

    @staticmethod
    def backward(ctx, dy):
        return course("serving.rotary")(dy, -positions(dy.shape[2]))


@cache
def positions(count: int) -> Tensor:
    return torch.arange(count, dtype=torch.int32, device=DEVICE)


class SwiGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up):
        ctx.save_for_backward(gate, up)
        return on_device(swiglu)(gate, up)

    @staticmethod
    def backward(ctx, dy):
        return on_device(swiglu_backward)(dy, *ctx.saved_tensors)


class Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, targets):
        losses = course("fusion.cross_entropy")(logits, targets)
        lse = losses + logits.gather(1, targets[:, None])[:, 0]
        ctx.save_for_backward(logits, targets, lse)
        return losses.mean()

    @staticmethod
    def backward(ctx, dloss):
        logits, targets, lse = ctx.saved_tensors
        rows = (dloss / len(targets)).expand(len(targets)).contiguous()
        return course("recomputation.cross_entropy_backward")(logits, targets, lse, rows), None


@cache
def both_ways() -> tuple[Callable, Callable]:
    """Attention forward and backward, for heads that share k and v."""
    names = ("flash_backward.delta", "flash_backward.dq", "training.grouped_backward")
    return shared_heads.forward(course("flash.flash_attention_forward")), shared_heads.backward(*map(course, names))


def in_gluon() -> Callable:
    """Attention of this folder's two kernels in Gluon, which know no shared heads: k and v are repeated, dk and dv summed by torch."""
    import attention_backward_overlapped
    import attention_in_turns

    def for_each_head(x: Tensor, heads: int) -> Tensor:
        return x.repeat_interleave(heads // x.shape[1], 1)

    def there(q: Tensor, k: Tensor, v: Tensor, scale: None) -> tuple[Tensor, Tensor]:
        return attention_in_turns.launch(q, *(for_each_head(x, q.shape[1]) for x in (k, v)), True)

    def back(do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, scale: None) -> tuple[Tensor, ...]:
        wide = [for_each_head(x, q.shape[1]) for x in (k, v)]
        dq, *others = attention_backward_overlapped.launch(q, *wide, o, lse, do.contiguous(), True)
        return dq, *(x.unflatten(1, (k.shape[1], -1)).sum(2) for x in others)

    return shared_heads.differentiable(there, back)


def dense_as(x: Tensor) -> Tensor:
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


@cache
def as_operator() -> Callable:
    """The same attention as an operator that torch.compile knows."""
    there, back = both_ways()
    names = ", ".join(f"Tensor {name}" for name in ("do", "q", "k", "v", "o", "lse"))
    attention = torch.library.custom_op(
        "course_model::attention", there, mutates_args=(), schema="(Tensor q, Tensor k, Tensor v) -> (Tensor, Tensor)"
    )
    backward = torch.library.custom_op(
        "course_model::attention_backward", back, mutates_args=(), schema=f"({names}) -> (Tensor, Tensor, Tensor)"
    )
    attention.register_fake(lambda q, k, v: (dense_as(q), q.new_empty(q.shape[:-1], dtype=torch.float32)))
    backward.register_fake(lambda do, q, k, v, o, lse: tuple(map(dense_as, (q, k, v))))
    attention.register_autograd(
        lambda ctx, do, _: backward(do, *ctx.saved_tensors),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs, *output),
    )
    return lambda q, k, v: attention(q.contiguous(), k.contiguous(), v.contiguous())[0]


def of_course() -> Ops:
    return Ops(
        norm=Norm.apply,
        rotary=lambda x, cos, sin: Rotary.apply(x),
        attention=shared_heads.differentiable(*both_ways()),
        swiglu=SwiGLU.apply,
        loss=Loss.apply,
    )


class Adam:
    """The course's AdamW, a launch for each parameter, with float32 masters: the same for all ways."""

    def __init__(self, model: GPT) -> None:
        self.parameters, self.step_ = list(model.parameters()), 0
        self.state = [
            (p.detach().float(), *(torch.zeros_like(p, dtype=torch.float32) for _ in "mv")) for p in self.parameters
        ]

    def step(self) -> None:
        self.step_ += 1
        for p, (master, m, v) in zip(self.parameters, self.state, strict=True):
            flat = (x.view(-1) for x in (master, p.grad, m, v, p.detach()))
            course("training.adamw_step")(*flat, 1e-5, 0.9, 0.95, 1e-8, 0.1 * (p.dim() > 1), self.step_)
            p.grad = None
