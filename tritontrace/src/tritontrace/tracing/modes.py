"""Torch modes that cost nothing to use.

Torch keeps torch.compile away from what a mode does. For that it loads torch._dynamo when a mode is first used, which takes
longer than torch itself takes to load. Nothing is compiled by torch while a mode of ours is open.
"""

from __future__ import annotations

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


def keep_it_light() -> None:
    """Make every mode that is defined from now on, an author's too, one that loads nothing: for processes without torch.compile.

    >>> from tritontrace.replay import child
    >>> child.run(lambda: keep_it_light(), seconds=5)  # in a process of its own
    (None, '')
    """
    TorchDispatchMode._should_skip_dynamo = Mode._should_skip_dynamo
