"""Torch modes that cost nothing to use.

Torch keeps torch.compile away from what a mode does. For that it loads torch._dynamo when a mode is first used, which takes
longer than torch itself takes to load. Nothing is compiled by torch while a mode of ours is open.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial, wraps
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Mode(TorchDispatchMode):
    """A torch mode from which torch.compile is not kept away.

    >>> class Named(Mode):
    ...     def __torch_dispatch__(self, function, types, args=(), kwargs=None):
    ...         print(function)
    ...         return function(*args, **(kwargs or {}))
    >>> with Named():
    ...     _ = x + 1
    aten.add.Tensor
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


DISABLED = vars(torch)["_disable_dynamo"]  # torch's own


def keep_it_light() -> None:
    """Make every mode, an author's too, load nothing by itself: torch.compile is kept away from it once torch._dynamo is loaded,
    without which nothing is compiled.

    >>> from tritontrace.replay import child
    >>> child.run(lambda: keep_it_light(), seconds=5)  # in a process of its own
    (None, '')
    """
    torch.__dict__["_disable_dynamo"] = _disabled_once_loaded  # of modes that are defined from now on
    for mode in _derived(TorchDispatchMode):
        dispatch = vars(mode).get("__torch_dispatch__")
        if getattr(dispatch, "__globals__", {}).get("__name__") == DISABLED.__module__:  # it is what DISABLED has made
            mode.__torch_dispatch__ = _disabled_once_loaded(vars(dispatch)["__wrapped__"])


def _disabled_once_loaded(fn: Callable | None = None, recursive: bool = True) -> Callable:
    if fn is None:
        return partial(_disabled_once_loaded, recursive=recursive)
    disabled = DISABLED(fn, recursive)

    @wraps(fn)
    def dispatch(*arguments: Any, **named: Any) -> Any:
        return (disabled if "torch._dynamo" in sys.modules else fn)(*arguments, **named)

    return dispatch


def _derived(kind: type) -> Iterator[type]:
    for one in kind.__subclasses__():
        yield one
        yield from _derived(one)
