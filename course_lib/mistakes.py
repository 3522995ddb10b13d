"""Where a result is wrong, and the mistake it looks like.

What an exercise knows of its typical mistakes are functions of all its trials: a sentence, or "". The common kinds stand below.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from course_lib.exercise import ErrorMap, Trial

MAP_ROWS, MAP_COLUMNS = 12, 32


def as_matrix(wrong: torch.Tensor) -> torch.Tensor:
    """A boolean mask of any shape as (rows, columns): leading dimensions are folded, a vector is one row."""
    if wrong.dim() == 0:
        return wrong.reshape(1, 1)
    return wrong.reshape(-1, wrong.shape[-1])


def error_map(wrong: torch.Tensor) -> ErrorMap:
    """The share of wrong elements in each cell of a grid of at most 12 x 32 cells over the output."""
    wrong = as_matrix(wrong).double()
    rows, columns = wrong.shape
    row_edges = _edges(rows, MAP_ROWS)
    column_edges = _edges(columns, MAP_COLUMNS)
    shares = [
        [
            float(wrong[top:bottom, left:right].mean())
            for left, right in zip(column_edges, column_edges[1:], strict=False)
        ]
        for top, bottom in zip(row_edges, row_edges[1:], strict=False)
    ]
    return ErrorMap(shares, rows, columns)


def _edges(length: int, cells: int) -> list[int]:
    step = max(1, math.ceil(length / cells))
    return [*range(0, length, step), length]


def first_difference(wrong: torch.Tensor, expected: torch.Tensor, seen: torch.Tensor, values: bool = True) -> str:
    """ "first at [3, 64]: expected 1.5, got 0.0", and how many there are; without `values`, where alone."""
    index = tuple(int(i) for i in wrong.nonzero()[0])
    place = "[" + ", ".join(map(str, index)) + "]"
    count = int(wrong.sum())
    share = f"{count:,} of {wrong.numel():,} elements differ"
    if not values:  # 0, inf and nan say what went wrong and nothing of the data
        got = float(seen[index])
        return f"{share}, first at {place}" + (f": got {got:g}" if got == 0 or not math.isfinite(got) else "")
    return f"{share}, first at {place}: expected {float(expected[index]):.6g}, got {float(seen[index]):.6g}"


def looks_like(
    wrong: torch.Tensor,
    expected: torch.Tensor,
    seen: torch.Tensor,
    arguments: dict[str, Any],
    kernel: bool = True,
    stored: bool = False,
) -> str:
    """One sentence on the mistake that such a result usually comes from; "" if it looks like none we know.

    kernel   whether kernels made it: without one, nothing is said of masks, grids and stores
    stored   whether they stored every byte of it, as the trace saw: what is wrong was then computed, not forgotten
    """
    mask = as_matrix(wrong)
    rows, columns = mask.any(1), mask.any(0)
    bad = seen[wrong].double()
    if kernel and bool(wrong.all()) and bool((seen == 0).all()):
        return (
            "Everything is zero: did the kernel store anything, does the grid have programs, did the numbers under- or overflow "
            "on the way?"
        )
    for name, value in arguments.items():
        if isinstance(value, torch.Tensor) and value.shape == seen.shape and torch.equal(value.to(seen.dtype), seen):
            return f"The result equals the input `{name}`: was anything computed?"
    if seen.dim() == 2 and seen.shape[0] == seen.shape[1] and torch.equal(seen, expected.T.to(seen.dtype)):
        return "The result is the transpose of the right one: are the two strides swapped?"
    if not kernel:
        return ""
    tail = _tail(rows, "row") or _tail(columns, "column" if seen.dim() > 1 else "element")
    if tail:
        return tail
    if bool(bad.isnan().all()) and not bool(expected.isnan().any()):
        if stored:
            return (
                "Your kernel stored every element, and these are NaN: it computed them (inf / inf, inf - inf, 0 / 0), or loaded "
                "them (masked lanes without `other`, a stride that reads between the rows, a sum that starts from torch.empty)."
            )
        return (
            "The wrong elements are NaN, which a check writes into fresh memory: nothing stored them (or: a sum started from "
            "torch.empty, a stride reads between the rows, masked lanes were loaded without `other`)."
        )
    periodic = _period(columns, "column") or _period(rows, "row")
    return periodic


def _tail(bad: torch.Tensor, axis: str) -> str:
    """Wrong from some index to the end, right before: a short tail that no program covers, or all but the first block."""
    if bad.numel() < 2 or not bool(bad[-1]) or bool(bad.all()):
        return ""
    start = int(bad.to(torch.int8).argmax())
    if not bool(bad[start:].all()):
        return ""
    if start <= bad.numel() // 2:
        right = f"{axis}s 0 to {start - 1}" if start > 1 else f"{axis} 0"
        return f"Right in {right} alone: do the offsets move on from program to program, by whole blocks and right strides?"
    which = f"{axis}s {start} to {bad.numel() - 1}" if start < bad.numel() - 1 else f"{axis} {start}"
    return (
        f"Wrong in {which} alone: is the last, partial block missing (triton.cdiv in the grid), its mask wrong, or does another "
        "program take its place?"
    )


def _period(bad: torch.Tensor, axis: str) -> str:
    """Wrong in every p-th row or column."""
    where = bad.nonzero().flatten()
    if where.numel() < 3 or bool(bad.all()):
        return ""
    steps = where.diff()
    if bool((steps == steps[0]).all()) and int(steps[0]) > 1:
        return f"Wrong in every {int(steps[0])}th {axis}: an offset that is wrong once per block or per program?"
    return ""


# ------------------------------------------------------------------------------------------------------- of an exercise

Mistake = Callable[[Sequence[Trial]], str]


def every(matches: Callable[..., bool], sentence: str) -> Mistake:
    """`sentence`, if matches(output, **arguments) for every result that there is."""

    def look(trials: Sequence[Trial]) -> str:
        pairs = [p for t in trials for p in zip(t.inputs, t.evidence.outputs, strict=False)]
        found = [output is not None and matches(output, **arguments) for arguments, output in pairs]
        return sentence if found and all(found) else ""

    return look


def faulty(kind: str, sentence: str) -> Mistake:
    """`sentence`, if the trace saw a fault of that kind."""
    return lambda trials: sentence if any(f.kind == kind for t in trials for f in t.evidence.faults) else ""


def raised(words: str, sentence: str) -> Mistake:
    """`sentence`, if a call ended with an error that says `words`."""
    return lambda trials: sentence if any(words in t.evidence.error for t in trials) else ""
