"""What goes wrong with strides, and how to tell by the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from course_lib.exercise import Trial
from course_lib.mistakes import Mistake, every


def gives(wrong: Callable[..., Any], sentence: str, besides: str = "") -> Mistake:
    """`sentence`, if that wrong formula gives everything that was returned; the group `besides` may be otherwise."""
    look = every(lambda output, /, **arguments: _as_lists(output) == _as_lists(wrong(**arguments)), sentence)
    return lambda trials: look([t for t in trials if t.case.group != besides])


def _as_lists(value: Any) -> Any:
    return [_as_lists(v) for v in value] if isinstance(value, (list, tuple)) else value


def contiguous_alone(trials: Sequence[Trial]) -> str:
    """A copy that is right where x is contiguous, and wrong elsewhere."""
    if any(f.kind == "out of bounds" and "stores to" in f.sentence for t in trials for f in t.evidence.faults):
        return "Does the store use the strides of the output, N and 1, or those of x?"
    right = {True: [], False: []}
    for t in trials:
        for arguments, output in zip(t.inputs, t.evidence.outputs, strict=False):
            x = arguments["x"]
            same = isinstance(output, torch.Tensor) and output.shape == x.shape and torch.equal(output, x)
            if not same and isinstance(output, torch.Tensor) and torch.equal(output, x.reshape(x.shape[::-1]).T):
                return (
                    "Stored row by row into an output that lies column by column: torch.empty_like(x) takes over x's strides. "
                    "Is your output contiguous?"
                )
            right[x.is_contiguous()].append(same and not t.evidence.faults)
    if right[True] and all(right[True]) and not all(right[False]):
        return "Right where x is contiguous: does each load use both of x's own strides, x.stride(0) and x.stride(1)?"
    return ""


def cut_in_the_wrong_order(x: torch.Tensor, heads: int) -> torch.Tensor:
    B, S, C = x.shape
    return x.reshape(B, heads, S, C // heads)


def channels_before_heads(x: torch.Tensor, heads: int) -> torch.Tensor:
    B, S, C = x.shape
    return x.reshape(B, S, C // heads, heads).permute(0, 3, 1, 2)


def equals(wrong: Callable[..., torch.Tensor], sentence: str) -> Mistake:
    """`sentence`, if every result is the tensor that this wrong function gives."""

    def same(output: Any, **arguments: Any) -> bool:
        return isinstance(output, torch.Tensor) and torch.equal(output, wrong(**arguments))

    return every(same, sentence)
