"""Torch without what compiles it, for processes in which torch compiles nothing.

Some of torch loads torch._dynamo when it is first used, which takes longer and more memory than torch itself: modes and
optimizers. Where autograd is given a gradient, torch loads SymPy to compare two shapes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial, wraps
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

# Torch's own: what keeps torch.compile away from a function, and the name under which its answer is remembered at the function; what
# looks at given gradients; what stands around each step of an optimizer
DISABLED, REMEMBERED = vars(torch)["_disable_dynamo"], "__dynamo_disable"
GRADIENTS: Any = getattr(torch.autograd, "_make_grads", None)
BRACKETED: Any = getattr(sys.modules["torch.optim.optimizer"], "_use_grad_for_differentiable", None)


def keep_it_light() -> None:
    """Keep torch's modes, optimizers and gradients from loading torch._dynamo by themselves: what torch.compile must skip is marked once
    torch._dynamo is loaded, without which nothing is compiled.

    >>> from tritontrace.replay import child
    >>> child.run(lambda: keep_it_light(), seconds=5)  # in a process of its own
    (None, '')
    """
    torch.__dict__["_disable_dynamo"] = _disabled  # of modes that are defined from now on
    for owner in (*_derived(TorchDispatchMode), torch.optim.Optimizer):
        for function in list(vars(owner).values()):
            _lighten(function)
    for optimizer in _derived(torch.optim.Optimizer):
        step = vars(optimizer).get("step")
        if BRACKETED and step is not None and getattr(step, "__code__", None) is BRACKETED(_nothing).__code__:
            optimizer.step = _step(step)
    if GRADIENTS:
        torch.autograd.__dict__["_make_grads"] = _gradients


def _nothing() -> None:
    pass


def _disabled(fn: Callable | None = None, recursive: bool = True) -> Callable:
    if fn is None:
        return partial(_disabled, recursive=recursive)
    made = DISABLED(fn, recursive)
    _lighten(made)
    return made


def _lighten(function: Any) -> None:
    """Let what DISABLED has made, wherever a function wraps it, call what it was made of as long as torch._dynamo is not loaded."""
    while "__wrapped__" in getattr(function, "__dict__", ()):
        inner = vars(function)["__wrapped__"]
        if function.__globals__.get("__name__") == DISABLED.__module__ and REMEMBERED not in vars(inner):
            vars(inner)[REMEMBERED] = _as_it_is(inner, function)
        function = inner


def _as_it_is(inner: Callable, made: Callable) -> Callable:
    def call(*arguments: Any, **named: Any) -> Any:
        if "torch._dynamo" not in sys.modules:
            return inner(*arguments, **named)
        vars(inner).pop(REMEMBERED, None)
        return made(*arguments, **named)

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
