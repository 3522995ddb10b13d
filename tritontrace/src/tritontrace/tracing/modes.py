"""Torch modes that cost nothing to use.

Torch keeps torch.compile away from what a mode does. For that it loads torch._dynamo when a mode is first used, which takes
longer than torch itself takes to load. Nothing is compiled by torch while a mode of ours is open.
"""

from __future__ import annotations

from torch.utils._python_dispatch import TorchDispatchMode


class Mode(TorchDispatchMode):
    """A torch dispatch mode that does not exclude torch.compile.

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
