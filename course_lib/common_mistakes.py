"""Kinds of wrong results that need no exercise: an argument that is read by other strides, a result stored by others, a constant factor, a
grid the other way round.

Each is found by computing what the mistake would give, so that a sentence is said of a result that is just that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from course_lib.catalogue import one_by_one, say
from course_lib.exercise import Trial

MOST_ELEMENTS = 1 << 18  # of all arguments together: with more, looking would take longer than judging
FEWEST_ELEMENTS = 8  # of which a factor is no accident


def misread(arguments: dict[str, Any], is_result_of: Callable[[dict[str, Any]], bool]) -> str:
    """Return a remark that names the argument which was read by strides other than its own, if that gives just the result; else "".

    is_result_of   arguments -> whether the result is the right one of these
    """
    tensors = {n: x for n, x in arguments.items() if isinstance(x, torch.Tensor) and x.is_floating_point()}
    if sum(x.numel() for x in tensors.values()) > MOST_ELEMENTS:
        return ""
    for name, x in tensors.items():
        for id, facts, strides in _other_strides(x):
            if (read := viewed(x, strides)) is not None and is_result_of(arguments | {name: read}):
                return say(id, name=name, **facts)
    return ""


def _other_strides(x: torch.Tensor) -> Iterator[tuple[str, dict[str, int], Sequence[int]]]:
    """Yield what a kernel may take for the strides of a tensor: a message's id, its parameters, and the strides."""
    strides = x.stride()
    axes = [axis for axis in range(x.dim()) if x.shape[axis] > 1]
    for i, first in enumerate(axes):
        for second in axes[i + 1 :]:
            swapped = list(strides)
            swapped[first], swapped[second] = strides[second], strides[first]
            yield "criteria.kind.strides_swapped", {"first": first, "second": second}, swapped
    contiguous = torch.empty(x.shape, device="meta").stride()
    if axes and contiguous[axes[-1]] != strides[axes[-1]]:
        unit = [*strides]
        unit[axes[-1]] = 1
        yield "criteria.kind.neighbours", {"axis": axes[-1]}, unit
    other = next((axis for axis in axes if contiguous[axis] != strides[axis]), None)
    if other is not None:
        yield "criteria.kind.contiguous", {"axis": other}, contiguous


def viewed(x: torch.Tensor, strides: Sequence[int]) -> torch.Tensor | None:
    """Return the same memory as a view with these strides; None where they lead out of it, or give the same view."""
    last = x.storage_offset() + sum((n - 1) * s for n, s in zip(x.shape, strides, strict=True))
    if x.numel() == 0 or not 0 <= last < x.untyped_storage().nbytes() // x.element_size():
        return None
    read = x.as_strided(x.shape, tuple(strides))
    return None if torch.equal(read.nan_to_num(), x.nan_to_num()) else read


def stored_across(seen: torch.Tensor) -> torch.Tensor | None:
    """Return the result that was meant if `seen` was stored by the strides of its transpose; None without two axes."""
    if seen.dim() < 2 or min(seen.shape[-2:]) == 1:
        return None
    return seen.reshape(seen.mT.shape).mT


def constant(right: torch.Tensor, seen: torch.Tensor) -> str:
    """Return a remark if every element is off by the same factor, or by the same added number; else ""."""
    right, seen = right.double(), seen.double()
    finite = bool(right.isfinite().all()) and bool(seen.isfinite().all())
    if (
        right.numel() < FEWEST_ELEMENTS
        or not finite
        or float(right.std()) < 0.01 * float(right.abs().mean())
        or not seen.any()
    ):
        return ""
    times = float((seen * right).sum() / right.square().sum())
    off = float((seen - times * right).norm()) / max(1e-300, float(seen.norm()))
    if off > 2e-3 or abs(times) < 1e-6 or abs(times - 1) < 0.02:
        more = float((seen - right).mean())
        alike = float((seen - right - more).abs().max()) < 2e-3 * abs(more)
        return say(f"criteria.kind.{'more' if more > 0 else 'less'}", difference=abs(more)) if alike else ""
    return say("criteria.kind.times", factor=times)


def rounded(right: torch.Tensor, seen: torch.Tensor) -> str:
    """Return a remark if each element is the right one, rounded to a coarser dtype; else ""."""
    for dtype in (torch.bfloat16, torch.float16):
        finfo = torch.finfo(dtype)
        if finfo.eps <= torch.finfo(seen.dtype).eps or not torch.equal(seen.to(dtype).to(seen.dtype), seen):
            continue
        right = right.double()
        if bool(((seen.double() - right).abs() <= 0.51 * finfo.eps * right.abs() + finfo.smallest_normal).all()):
            return say("criteria.kind.rounded", dtype=str(dtype).removeprefix("torch."))
    return ""


def unread(trials: Sequence[Trial], wrong: Sequence[Trial]) -> str:
    """Return a remark that names the parameters which no kernel of the wrong trials uses; else "". Lengths are left out: a program with a
    row to itself need not know how many rows there are, and reaching past an end is a fault, which is reported."""
    lengths: dict[tuple[str, str], set[tuple[str, int]]] = {}  # (kernel, parameter) -> axes that were so long each time
    for trial in trials:
        axes = {
            (n, a): s for n, x in trial.inputs[-1].items() if isinstance(x, torch.Tensor) for a, s in enumerate(x.shape)
        }
        for launch in trial.evidence.launches:
            for name, value in launch.unread.items():
                alike = {axis for axis, length in axes.items() if length == value}
                lengths[launch.kernel, name] = lengths.get((launch.kernel, name), alike) & alike
    names = {
        launch.kernel: unused
        for t in wrong
        for launch in t.evidence.launches
        if (unused := [name for name in launch.unread if not lengths[launch.kernel, name]])
    }
    sentences = [
        say("criteria.kind.unread", kernel=kernel, parameters=len(unused), names=[f"`{name}`" for name in unused])
        for kernel, unused in names.items()
    ]
    return one_by_one(sentences)


def other_way_round(wrong: Sequence[Trial]) -> str:
    """Return a remark if the axes of a launch grid are swapped: along an axis of the result as many blocks are stored as the other axis of
    the grid has programs; else ""."""
    for trial in wrong:
        grid = trial.evidence.launches[0].grid
        # a grid of one axis ends with 1, too
        if len(trial.evidence.launches) > 1 or len(grid) < 2 or grid[1] == 1 or math.prod(grid[2:]) > 1:
            continue
        for _, out in trial.calls:
            for stored, length in _stored_alone(out):
                few, many = sorted(grid[:2])
                # a grid that leaves out the last block has one fewer
                if few + 1 < many and stored % few == 0 and -(-length // (stored // few)) == many:
                    return say(
                        "criteria.kind.other_way_round", grid=str(tuple(grid[:2])), first=grid[0], second=grid[1]
                    )
    return ""


def _stored_alone(out: Any) -> Iterator[tuple[int, int]]:
    """(how many, of how many) indices along each axis of a result are stored, where these are the first ones; the others are NaN, or 0."""
    if not isinstance(out, torch.Tensor) or not out.is_floating_point() or not out.numel():
        return
    for axis, length in enumerate(out.shape):
        stored = (out.nan_to_num() != 0).movedim(axis, 0).reshape(length, -1)
        count = int(stored.any(1).sum())
        if 0 < count < length and bool(stored[:count].all()):
            yield count, length


def right_while_short(right: Sequence[Trial], wrong: Sequence[Trial]) -> str:
    """Return a remark that names the one axis along which all wrong cases are longer than all right ones; else ""."""
    if len(right) < 2 or len(wrong) < 2:
        return ""
    found: dict[
        tuple[int, ...], tuple[str, int]
    ] = {}  # lengths in each trial -> argument and axis: equal ones are one axis
    for name, x in right[0].inputs[0].items():
        for axis in range(1, x.dim() + 1) if isinstance(x, torch.Tensor) else []:
            found.setdefault(tuple(_length(t, name, axis) for t in [*right, *wrong]), (name, axis))
    apart = {
        key: place for key, place in found.items() if min(key) > 0 and max(key[: len(right)]) < min(key[len(right) :])
    }
    if len(apart) != 1:
        return ""
    ((lengths, (name, axis)),) = apart.items()
    known = {1: say("criteria.kind.last"), 2: say("criteria.kind.last_but_one")}
    which = known.get(axis) or say("criteria.kind.from_the_last", axis=axis)
    short = max(lengths[: len(right)])
    return say("criteria.kind.short", axis=which, name=name, right=short, wrong=min(lengths[len(right) :]))


def _length(trial: Trial, name: str, axis: int) -> int:
    """The length along an axis, counted from the last, which is 1; 0 if there is none."""
    x = trial.inputs[0].get(name)
    return x.shape[-axis] if isinstance(x, torch.Tensor) and x.dim() >= axis else 0
