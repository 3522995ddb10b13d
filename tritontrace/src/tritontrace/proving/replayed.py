"""A counterexample, launched: tensors of its sizes are made, and the trace says whether what was expected happens."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from tritontrace.proving import formulas
from tritontrace.proving.launches import SizedLaunch, Tensor
from tritontrace.proving.sizes import plain
from tritontrace.results import Fault
from tritontrace.tracing.launcher import Launcher
from tritontrace.tracing.opening import opened
from tritontrace.tracing.recorded import Recorded
from tritontrace.ttir.launching import KernelError, KernelFault

MOST = 1 << 22  # elements of all tensors, and programs, of a launch that is tried


def faults_with(launch: SizedLaunch, sizes: dict[str, int], zeros: bool = False) -> list[Fault] | None:
    """Trace the launch with these sizes and return its faults; None if it is too large, or does not run. zeros: whether whole numbers in
    its tensors are 0."""
    made: dict[int, torch.Tensor] = {}
    new: deque[tuple[Any, Any]] = deque()
    try:
        grid = tuple(formulas.value(axis, sizes) for axis in launch.grid)
        elements = sum(prod(_sizes(one, sizes)) for _, one in launch.values if isinstance(one, Tensor))
        if elements > MOST or prod(grid) > MOST:
            return None
        for (_, value), example in zip(launch.values, launch.examples, strict=True):
            if isinstance(value, Tensor):
                order = list(value.order) if value.order is not None else None
                numbers = torch.zeros_like(example) if zeros and not example.is_floating_point() else example
                again = made.setdefault(value.storage, filled(numbers, _sizes(value, sizes), order))
                new.append((example, again))
            else:
                new.append((example, formulas.value(value, sizes) if value is not None else example))
    except ZeroDivisionError:
        return None

    def put(value: Any) -> Any:
        if new and new[0][0] is value:
            return new.popleft()[1]
        if isinstance(value, tuple):
            return type(value)(*map(put, value)) if hasattr(value, "_fields") else tuple(map(put, value))
        return plain(value)

    passed = {name: put(launch.arguments[name]) for name in launch.front.values}  # in the order of `new`
    arguments = {**plain(launch.arguments), **passed}
    launcher = Launcher(Recorded())
    with opened(launcher) as seen:
        try:
            launcher.launch(launch.front.kernel, (), grid, {**arguments, **launch.options})
        except KernelFault:
            pass
        except KernelError:
            return None
    return seen.faults


def _sizes(tensor: Tensor, sizes: dict[str, int]) -> list[int]:
    return [formulas.value(size, sizes) for size in tensor.sizes]


MOST_FILLED = 1 << 20  # elements


def filled(example: torch.Tensor, shape: Sequence[int], order: list[int] | None = None) -> torch.Tensor:
    """Make a tensor of this shape with an example's numbers, repeated; order: of its axes, from the outermost in memory.

    >>> filled(torch.tensor([1, 2, 3]), (2, 2)).tolist()
    [[1, 2], [3, 1]]

    trap: sizes that are tried may be large, all at once. Memory that nobody touches costs nothing: so much has no numbers.
    """
    numbers = example.detach().reshape(-1)
    numbers = numbers if numbers.numel() else torch.zeros(1, dtype=example.dtype)
    count, order = prod(shape), order or list(range(len(shape)))
    many = count > MOST_FILLED
    flat = numbers.new_empty(count) if many else numbers.repeat(-(-count // numbers.numel()))[:count].clone()
    made = flat.reshape([shape[axis] for axis in order])
    return made.permute([order.index(axis) for axis in range(len(order))])
