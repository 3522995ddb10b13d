"""An autotuned launch as a GPU does it the first time: all configurations run on the same tensors, the one that counts last.

Here one configuration runs. Whether the runs before it would matter is found out by running it once more, on what it left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from triton.runtime.autotuner import Autotuner


@dataclass(frozen=True)
class Tuning:
    """A tuner's changes to a kernel's tensors between two runs.

    zeroed, restored  names of parameters: set to 0, and as they were before the first run;  prepare  does what hooks do
    """

    zeroed: Sequence[str]
    restored: Sequence[str]
    prepare: Callable[[], None]


_now: list[Tuning | None] = [None]


@contextmanager
def tuned(how: Tuning | None) -> Iterator[None]:
    """Mark launches, while this is open, as those of a tuner that chooses among several configurations."""
    _now.append(how)
    try:
        yield
    finally:
        _now.pop()


def tuning() -> Tuning | None:
    """How the launch that comes now is tuned; None: it is not."""
    return _now[-1]


def tuning_of(tuner: Autotuner, config: Any, arguments: dict[str, Any]) -> Tuning | None:
    """arguments: by name, those that the configuration gives among them."""
    if len(tuner.configs) == 1:
        return None
    before, after = tuner.user_defined_pre_hook, tuner.user_defined_post_hook  # they come in the place of Triton's own

    def prepare() -> None:
        if after:
            tuner.post_hook(arguments, exception=None)
        if before:
            tuner.pre_hook(arguments, reset_only=True)
        if config.pre_hook is not None:
            config.pre_hook(arguments)

    return Tuning(
        () if before else tuple(tuner.reset_to_zero), () if before or after else tuple(tuner.restore_value), prepare
    )
