"""Mistakes with strides, and how results reveal them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from course_lib.catalogue import say
from course_lib.exercise import Trial
from course_lib.mistakes import MistakeMatcher, every, for_cases
from tritontrace.results import Fault


def gives(wrong: Callable[..., Any], sentence: str, besides: str = "") -> MistakeMatcher:
    """Make a matcher that returns `sentence` if that wrong formula gives every result; results of group `besides` may differ."""
    look = every(lambda output, /, **arguments: _as_lists(output) == _as_lists(wrong(**arguments)), sentence)
    return for_cases(lambda case: case.group != besides, look)


def _as_lists(value: Any) -> Any:
    return [_as_lists(v) for v in value] if isinstance(value, (list, tuple)) else value


def contiguous_alone(trials: Sequence[Trial]) -> str:
    """Return a remark if a copy is right only where x is contiguous, or out of bounds only where tiles do not divide it; else ""."""
    right, outside = {True: [], False: []}, {True: [], False: []}
    for t in trials:
        if t.evidence.refused:  # torch may have made x contiguous
            return ""
        contiguous = all(arguments["x"].is_contiguous() for arguments in t.inputs)
        same = [torch.equal(output, arguments["x"]) for arguments, output in _copies(t)]
        right[contiguous].append(bool(same) and all(same) and not t.evidence.faults)
        outside[contiguous] += [f for f in t.evidence.faults if f.kind == "out of bounds"]
    if any(right[True]) and outside[True]:
        return say("strides.strided_copy.half_of_the_mask")
    if not right[True] or not all(right[True]) or all(right[False]):
        return ""
    if any(map(_is_of_a_store, outside[False])):
        return say("strides.strided_copy.out_has_the_strides_of_x")
    return say("strides.strided_copy.takes_x_for_contiguous")


def windows_alone(trials: Sequence[Trial]) -> str:
    """Return a remark if a copy is wrong where x begins inside its storage, and nowhere else, columns that lie first included; else ""."""
    wrong, right = [], []
    for t in trials:
        same = len(t.calls) == len(t.inputs) and all(torch.equal(output, a["x"]) for a, output in _copies(t))
        (right if same and not t.evidence.faults else wrong).extend(arguments["x"] for arguments in t.inputs)
    if not wrong or not all(x.storage_offset() for x in wrong):
        return ""
    columns_first = any(0 < x.stride(0) < x.stride(1) for x in right)
    return say("strides.strided_copy.windows_alone") if columns_first else ""


def _is_of_a_store(fault: Fault) -> bool:
    does = getattr(fault.sentence, "parameters", {}).get("does")
    return getattr(does, "id", "") == "trace.verb.store"


def diagonals_alone(trials: Sequence[Trial]) -> str:
    """Return a remark if only the diagonal of each tile is copied, else ""."""
    same = [output == arguments["x"] for t in trials for arguments, output in _copies(t) if min(output.shape) > 1]

    def diagonals(shape: Sequence[int], side: int) -> torch.Tensor:
        m, n = (torch.arange(size) % side for size in shape)
        return m[:, None] == n

    sides = [2**power for power in range(1, 12)]
    if not any(same and all(torch.equal(s, diagonals(s.shape, side)) for s in same) for side in sides):
        return ""
    return say("strides.strided_copy.offsets_of_one_dimension")


def _copies(trial: Trial) -> list[tuple[dict[str, Any], torch.Tensor]]:
    """The results of x's shape, with the arguments of their calls."""
    pairs = trial.calls
    return [(a, output) for a, output in pairs if isinstance(output, torch.Tensor) and output.shape == a["x"].shape]


def cut_in_the_wrong_order(x: torch.Tensor, heads: int) -> torch.Tensor:
    """Split channels into heads with a single reshape."""
    B, S, C = x.shape
    return x.reshape(B, heads, S, C // heads)


def channels_before_heads(x: torch.Tensor, heads: int) -> torch.Tensor:
    """Split channels into heads as if heads were the inner axis."""
    B, S, C = x.shape
    return x.reshape(B, S, C // heads, heads).permute(0, 3, 1, 2)


def channels_last_but_one(x: torch.Tensor, heads: int) -> torch.Tensor:
    """Split channels into heads, and swap the two new axes."""
    return x.unflatten(-1, (heads, -1)).mT


def as_if_contiguous(x: torch.Tensor, heads: int) -> torch.Tensor:
    """Split channels into heads by the strides that a contiguous x would have."""
    read = x.as_strided(x.shape, torch.empty(x.shape, device="meta").stride())
    return read.unflatten(-1, (heads, -1)).transpose(1, 2)


def equals(wrong: Callable[..., torch.Tensor], sentence: str) -> MistakeMatcher:
    """Make a matcher that returns `sentence` if every result is the tensor that this wrong function gives."""

    def same(output: Any, **arguments: Any) -> bool:
        return isinstance(output, torch.Tensor) and torch.equal(output, wrong(**arguments))

    return every(same, sentence)
