"""The kernels of a model with a way back for autograd, and what is kept between its halves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.workloads.gpt import Ops
from course_lib.workloads.launched import Kernels


def differentiable(kernels: Kernels) -> Ops:
    """Make the slots of a model that use these kernels forward and backward, and save only what a hand-written kernel saves."""

    def norm_of(x: Tensor, weight: Tensor) -> Tensor:
        return _Launched.apply("norm", kernels, lambda given, made: (*given, made[1]), x, weight)

    def attention_of(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return _Launched.apply("attention", kernels, lambda given, made: (*given, *made), q, k, v)

    def swiglu_of(gate: Tensor, up: Tensor) -> Tensor:
        return _Launched.apply("swiglu", kernels, lambda given, made: given, gate, up)

    def loss_of(logits: Tensor, targets: Tensor) -> Tensor:
        return _Launched.apply("cross_entropy", kernels, lambda given, made: (*given, made[1]), logits, targets).mean()

    return Ops(norm=norm_of, attention=attention_of, swiglu=swiglu_of, loss=loss_of)


class _Launched(torch.autograd.Function):
    """The first result of a kernel. saves: (arguments, results) -> the tensors that its backward kernel takes behind dy."""

    @staticmethod
    def forward(ctx: Any, name: str, kernels: Kernels, saves: Callable, *tensors: Tensor) -> Tensor:
        out = getattr(kernels, name)(*tensors)
        made = out if isinstance(out, tuple) else (out,)
        ctx.save_for_backward(*saves(tensors, made))
        ctx.back, ctx.missing = getattr(kernels, f"{name}_backward"), sum(not t.is_floating_point() for t in tensors)
        return made[0]

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple:
        found = ctx.back(dy, *ctx.saved_tensors)
        return None, None, None, *(found if isinstance(found, tuple) else (found,)), *(None for _ in range(ctx.missing))


class SavedBytes:
    """Context manager that counts the bytes of storages that autograd saves, each once; weights, and what exists anyway, do not count."""

    def __init__(self, *there: torch.Tensor) -> None:
        self._there = {t.untyped_storage()._cdata for t in there}
        self._kept: dict[int, torch.Tensor] = {}

    def __enter__(self) -> SavedBytes:
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, lambda t: t)
        self._hooks.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._hooks.__exit__(*error)

    def _pack(self, tensor: torch.Tensor) -> torch.Tensor:
        self._kept.setdefault(tensor.untyped_storage()._cdata, tensor)  # held: no address is given out twice
        return tensor

    @property
    def bytes(self) -> int:
        return sum(t.untyped_storage().nbytes() for key, t in self._kept.items() if key not in self._there)
