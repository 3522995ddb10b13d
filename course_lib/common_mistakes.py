"""Kinds of wrong results that need no exercise: an argument that is read by other strides, a result stored by others, a constant factor.

Each is found by computing what the mistake would give, so that a sentence is said of a result that is just that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from course_lib.exercise import Trial

MOST_ELEMENTS = 1 << 18  # of all arguments together: with more, looking would take longer than judging
FEWEST_ELEMENTS = 8  # of which a factor is no accident


def misread(arguments: dict[str, Any], is_result_of: Callable[[dict[str, Any]], bool]) -> str:
    """Say which argument is read by strides that are not its own, if the result is just what that gives.

    is_result_of   arguments -> whether the result is the right one of these
    """
    tensors = {n: x for n, x in arguments.items() if isinstance(x, torch.Tensor) and x.is_floating_point()}
    if sum(x.numel() for x in tensors.values()) > MOST_ELEMENTS:
        return ""
    for name, x in tensors.items():
        for what, strides in _other_strides(x):
            if (read := _viewed(x, strides)) is not None and is_result_of(arguments | {name: read}):
                return f"This is the result for `{name}` {what.format(name=name)}"
    return ""


def _other_strides(x: torch.Tensor) -> Iterator[tuple[str, Sequence[int]]]:
    """Yield what a kernel may take for the strides of a tensor, and how that is said."""
    strides = x.stride()
    axes = [axis for axis in range(x.dim()) if x.shape[axis] > 1]
    for i, first in enumerate(axes):
        for second in axes[i + 1 :]:
            swapped = list(strides)
            swapped[first], swapped[second] = strides[second], strides[first]
            sentence = (
                f"read with its strides {first} and {second} swapped: does each multiply the index along its own axis?"
            )
            yield sentence, swapped
    contiguous = torch.empty(x.shape, device="meta").stride()
    if axes and contiguous[axes[-1]] != strides[axes[-1]]:
        unit = [*strides]
        unit[axes[-1]] = 1
        yield (
            f"read as if elements along axis {axes[-1]} were neighbours: multiply their index by {{name}}.stride({axes[-1]}).",
            unit,
        )
    other = next((axis for axis in axes if contiguous[axis] != strides[axis]), None)
    if other is not None:
        yield (
            f"read as if it were contiguous: its elements along axis {other} lie {{name}}.stride({other}) apart. Is that number used?",
            contiguous,
        )


def _viewed(x: torch.Tensor, strides: Sequence[int]) -> torch.Tensor | None:
    """The same memory by other strides; None where these lead out of it, or nowhere else."""
    last = x.storage_offset() + sum((n - 1) * s for n, s in zip(x.shape, strides, strict=True))
    if x.numel() == 0 or not 0 <= last < x.untyped_storage().nbytes() // x.element_size():
        return None
    read = x.as_strided(x.shape, tuple(strides))
    return None if torch.equal(read.nan_to_num(), x.nan_to_num()) else read


ACROSS = (
    "The numbers of the right result, stored where its transpose has them: are the two strides of the store swapped?"
)


def stored_across(seen: torch.Tensor) -> torch.Tensor | None:
    """Return the result that was meant if what is seen was stored by the strides of its transpose; None without two axes."""
    if seen.dim() < 2 or min(seen.shape[-2:]) == 1:
        return None
    return seen.reshape(seen.mT.shape).mT


def constant(right: torch.Tensor, seen: torch.Tensor) -> str:
    """Say by which number each element is multiplied, or what is added to it, if that is one number for all of them."""
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
        return f"Each element is {abs(more):.4g} {'more' if more > 0 else 'less'} than the right one." if alike else ""
    return f"Each element is {times:.4g} times the right one: a factor that is missing, or one too many?"


def rounded(right: torch.Tensor, seen: torch.Tensor) -> str:
    """Say so if each element is the right one with the precision of a coarser dtype."""
    for dtype in (torch.bfloat16, torch.float16):
        finfo = torch.finfo(dtype)
        if finfo.eps <= torch.finfo(seen.dtype).eps or not torch.equal(seen.to(dtype).to(seen.dtype), seen):
            continue
        right = right.double()
        if bool(((seen.double() - right).abs() <= 0.51 * finfo.eps * right.abs() + finfo.smallest_normal).all()):
            name = str(dtype).removeprefix("torch.")
            return f"Each element is the right one, rounded to {name}: does the kernel convert to it, or a buffer have that dtype?"
    return ""


def unread(trials: Sequence[Trial], wrong: Sequence[Trial]) -> str:
    """Say which parameters no line of a kernel of the wrong trials uses, lengths left out: where one program has a row of its own,
    none asks how many rows there are. What reaches past an end for want of a length is a fault, and is told."""
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
    return " ".join(
        f"Your kernel `{kernel}` never uses its parameter{'s' * (len(unused) > 1)} {', '.join(f'`{name}`' for name in unused)}."
        for kernel, unused in names.items()
    )


def right_while_short(right: Sequence[Trial], wrong: Sequence[Trial]) -> str:
    """Say along which one axis all that is wrong is longer than all that is right."""
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
    which = {1: "last", 2: "last but one"}.get(axis, f"{axis}th from the last")
    return (
        f"Right where the {which} axis of `{name}` has at most {max(lengths[: len(right)])} elements, and wrong from "
        f"{min(lengths[len(right) :])} on: does a loop end before the axis does? Or is something wrong from the second block on: a "
        "pointer that does not go on by a whole block times its own stride, a mask, or what goes from block to block?"
    )


def _length(trial: Trial, name: str, axis: int) -> int:
    """The length along an axis, counted from the last, which is 1; 0 if there is none."""
    x = trial.inputs[0].get(name)
    return x.shape[-axis] if isinstance(x, torch.Tensor) and x.dim() >= axis else 0
