"""An autotuned launch as a GPU does it the first time: all configurations run on the same tensors, the one that counts last.

Here one configuration runs. Whether the runs before it would matter is found out by running it once more, on what it left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from triton.runtime.autotuner import Autotuner

from tritontrace.tracing.memory import bytes_behind
from tritontrace.ttir.launching import tensors_in


@dataclass(frozen=True)
class Tuning:
    """An autotuner's changes to a kernel's tensors between two runs.

    zeroed, restored  names of parameters: set to 0, and as they were before the first run;  prepare  does what hooks do
    settings          names of what the configuration gives; none if it is the first one
    chosen            the configuration, of how many
    """

    zeroed: Sequence[str]
    restored: Sequence[str]
    prepare: Callable[[], None]
    settings: Sequence[str] = ()
    chosen: tuple[str, int] = ("", 0)


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
    """Return how the current launch is tuned; None if it is not."""
    return _now[-1]


def tuning_of(tuner: Autotuner, config: Any, arguments: dict[str, Any], first: bool = True) -> Tuning | None:
    """Return the Tuning of a launch, None without a choice. arguments: by name, the configuration's too; first: the first of its tuner."""
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

    zeroed, restored = () if before else tuner.reset_to_zero, () if before or after else tuner.restore_value
    settings = () if first else (*config.kwargs, "num_warps", "num_stages")
    said = ", ".join(f"{name}={value}" for name, value in config.all_kwargs().items())
    return Tuning(tuple(zeroed), tuple(restored), prepare, settings, (said, len(tuner.configs)))


def contents(arguments: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Copy all bytes of each tensor's storage, by name."""
    return {n: bytes_behind(t).clone() for name, value in arguments.items() for n, t in tensors_in(name, value)}


@contextmanager
def repeated(
    how: Tuning, before: dict[str, torch.Tensor], arguments: dict[str, Any]
) -> Iterator[Callable[[], list[torch.Tensor]]]:
    """Prepare tensors for another run of a tuned launch; at the end they are as the first run left them.

    before: their contents before the first run. Yields a function that returns the tensors that differ from what that run left.
    """
    left = contents(arguments)
    named = {n: t for name, value in arguments.items() for n, t in tensors_in(name, value)}
    for name in how.restored:
        bytes_behind(named[name]).copy_(before[name])
    for name in how.zeroed:
        named[name].zero_()
    how.prepare()
    yield lambda: [tensor for name, tensor in named.items() if not torch.equal(bytes_behind(tensor), left[name])]
    for name, tensor in named.items():
        bytes_behind(tensor).copy_(left[name])
