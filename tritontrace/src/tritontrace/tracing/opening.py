"""A trace that is open: launches go to its launcher, and torch tells which tensors nobody has written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from tritontrace.messages import say
from tritontrace.tracing.interception import launches_go_to
from tritontrace.tracing.launcher import Launcher
from tritontrace.tracing.modes import Mode
from tritontrace.tracing.recorded import Recorded
from tritontrace.tracing.regions import Regions

_open: list[Recorded] = []


def is_open() -> bool:
    """Whether a `with trace()` block is open in this process.

    >>> with trace():
    ...     is_open()
    True
    >>> is_open()
    False
    """
    return bool(_open)


@contextmanager
def opened(launcher: Launcher, configuration: int = 0) -> Iterator[Recorded]:
    """Send launches to a launcher inside the block; yields the Recorded that it fills. configuration: as in launches_go_to.

    Raises RuntimeError if a trace is open already.

    >>> from tritontrace.tracing.launcher import Launcher
    >>> from tritontrace.tracing.recorded import Recorded
    >>> with opened(Launcher(Recorded())) as seen:
    ...     _ = copy[(4,)](x, y, 1000, BLOCK=256)
    >>> seen.bytes
    8000
    """
    if _open:
        raise RuntimeError(say("asked.trace.open"))
    _open.append(launcher.seen)
    try:
        redirected = launches_go_to(launcher.launch, assemble=True, configuration=configuration)
        with redirected, _EmptyTensors(launcher.seen.regions):
            yield launcher.seen
    finally:
        _open.pop()


class _EmptyTensors(Mode):
    """Watches torch for tensors that nobody has written."""

    def __init__(self, regions: Regions):
        super().__init__()
        self._regions = regions

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Tell torch.compile that this mode changes no result: it refuses to work under any other."""
        return True

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = function(*args, **kwargs)
        if function._schema.name.removeprefix("aten::").startswith(("empty", "new_empty")) and "out" not in kwargs:
            if isinstance(result, torch.Tensor):
                self._regions.allocated(result)
        elif function._schema.is_mutable:
            for position, argument in enumerate(function._schema.arguments):
                if argument.alias_info is not None and argument.alias_info.is_write:
                    value = args[position] if position < len(args) else kwargs.get(argument.name)
                    for tensor in value if isinstance(value, (list, tuple)) else [value]:
                        if isinstance(tensor, torch.Tensor):
                            self._regions.written(tensor)
        return result
