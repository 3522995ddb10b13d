"""Torch without what compiles it, for processes in which torch compiles nothing.

Some of torch loads torch._dynamo when it is first used, which takes longer and more memory than torch itself: modes and
optimizers. Where autograd is given a gradient, it loads SymPy to compare two shapes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial, wraps
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

DISABLED = vars(torch)["_disable_dynamo"]  # torch's own
GRADIENTS = getattr(torch.autograd, "_make_grads", None)  # torch's own
BRACKETED = getattr(
    sys.modules["torch.optim.optimizer"], "_use_grad_for_differentiable", None
)  # torch's, around each step


def keep_it_light() -> None:
    """Make modes, an author's too, optimizers and gradients load nothing by themselves: what torch.compile is kept away
    from, it is kept away from once torch._dynamo is loaded, without which nothing is compiled.

    >>> from tritontrace.replay import child
    >>> child.run(lambda: keep_it_light(), seconds=5)  # in a process of its own
    (None, '')
    """
    torch.__dict__["_disable_dynamo"] = _disabled_once_loaded  # of modes that are defined from now on
    for owner in (*_derived(TorchDispatchMode), torch.optim.Optimizer):
        _lighten(owner)
    for optimizer in _derived(torch.optim.Optimizer):
        step = vars(optimizer).get("step")
        if BRACKETED and getattr(step, "__code__", None) is BRACKETED(_nothing).__code__:
            optimizer.step = _step(step)
    if GRADIENTS:
        torch.autograd.__dict__["_make_grads"] = _gradients


def _nothing() -> None:
    pass


def _lighten(owner: type) -> None:
    """Replace what DISABLED has made."""
    for name, function in list(vars(owner).items()):
        made = getattr(function, "__globals__", {}).get("__name__") == DISABLED.__module__
        if made and "__wrapped__" in vars(function):
            setattr(owner, name, _disabled_once_loaded(vars(function)["__wrapped__"]))


def _disabled_once_loaded(fn: Callable | None = None, recursive: bool = True) -> Callable:
    if fn is None:
        return partial(_disabled_once_loaded, recursive=recursive)
    disabled = DISABLED(fn, recursive)

    @wraps(fn)
    def call(*arguments: Any, **named: Any) -> Any:
        return (disabled if "torch._dynamo" in sys.modules else fn)(*arguments, **named)

    return call


def _step(torchs: Callable) -> Callable:
    """An optimizer's step that tells torch._dynamo where its graph breaks if there is one."""
    inner = vars(torchs)["__wrapped__"]

    @wraps(inner)
    def step(self: torch.optim.Optimizer, *arguments: Any, **named: Any) -> Any:
        if "torch._dynamo" in sys.modules:
            return torchs(self, *arguments, **named)
        with torch.set_grad_enabled(self.defaults["differentiable"]):
            return inner(self, *arguments, **named)

    return step


def _gradients(outputs: Sequence[Any], grads: Sequence[Any], is_grads_batched: bool) -> tuple:
    """The gradients with which autograd begins: those that are given, where they plainly fit; else torch looks at them."""
    fitting = not is_grads_batched and all(map(_fits, outputs, grads))
    return tuple(grads) if fitting else GRADIENTS(outputs, grads, is_grads_batched)


def _fits(output: Any, gradient: Any) -> bool:
    both = isinstance(output, torch.Tensor) and isinstance(gradient, torch.Tensor)
    if not both or output.is_nested or gradient.is_nested or output.is_complex() != gradient.is_complex():
        return False
    return all(type(n) is int for n in (*output.shape, *gradient.shape)) and output.shape == gradient.shape


def _derived(kind: type) -> Iterator[type]:
    for one in kind.__subclasses__():
        yield one
        yield from _derived(one)
