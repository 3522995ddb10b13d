"""Mistakes in results: where a result is wrong, and the mistake it looks like.

An exercise's typical mistakes are functions of all its trials that return a sentence, or "". The common kinds are below.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch

from course_lib.catalogue import one_by_one, say
from course_lib.exercise import Case, ErrorMap, MistakeMatcher, Trial
from tritontrace.results import Cause

MAP_ROWS, MAP_COLUMNS = 12, 32
NEARLY_ALL = 0.75


def as_matrix(wrong: torch.Tensor) -> torch.Tensor:
    """Reshape a boolean mask to (rows, columns): leading dimensions are folded, a vector is one row."""
    if wrong.dim() == 0:
        return wrong.reshape(1, 1)
    return wrong.reshape(-1, wrong.shape[-1])


def error_map(wrong: torch.Tensor) -> ErrorMap:
    """Compute the share of wrong elements in each cell of a grid of at most 12 x 32 cells over the output; some must be wrong."""
    lead = list(wrong.shape[:-2])
    wrong = as_matrix(wrong).double()
    rows, columns = wrong.shape
    extent = [int(i) for along in wrong.nonzero().T for i in along.aminmax()]
    row_edges = _edges(rows, MAP_ROWS)
    column_edges = _edges(columns, MAP_COLUMNS)
    shares = [
        [float(wrong[top:bottom, left:right].mean()) for left, right in itertools.pairwise(column_edges)]
        for top, bottom in itertools.pairwise(row_edges)
    ]
    return ErrorMap(shares, rows, columns, extent, lead)


def _edges(length: int, cells: int) -> list[int]:
    step = max(1, math.ceil(length / cells))
    return [*range(0, length, step), length]


def first_difference(wrong: torch.Tensor, expected: torch.Tensor, seen: torch.Tensor, values: bool = True) -> str:
    """Return a phrase such as "first at [3, 64]: expected 1.5, got 0.0", and how many elements differ; without `values`, only the place."""
    index = tuple(int(i) for i in wrong.nonzero()[0])
    place = "[" + ", ".join(map(str, index)) + "]"
    count, total = int(wrong.sum()), wrong.numel()
    share = {"wrong": count, "all": total, "place": place}
    if not values:  # 0, inf and nan say what went wrong and nothing of the data
        got = float(seen[index])
        telling = got == 0 or not math.isfinite(got)
        return (
            say("criteria.looks.first_telling", **share, got=got)
            if telling
            else say("criteria.looks.first_hidden", **share)
        )
    right, got = (f"{float(x[index]):.6g}" for x in (expected, seen))
    if right == got:
        right, got = (f"{float(x[index]):.9g}" for x in (expected, seen))
    return say("criteria.looks.first", **share, right=right, got=got)


def looks_like(
    wrong: torch.Tensor,
    expected: torch.Tensor,
    seen: torch.Tensor,
    arguments: dict[str, Any],
    kernel: bool = True,
    unstored: int | None = None,
    poisoned: Sequence[str] = (),
) -> str:
    """Return a remark on the mistake that usually gives such a result; "" if it looks like no known one.

    kernel    whether kernels made it: without one, nothing is said of masks, grids and stores
    unstored  bytes of it that no kernel stored, as the trace saw; None if that is not known. What is wrong and was stored
              was computed, not forgotten
    poisoned  Evidence.poisoned
    """
    mask = as_matrix(wrong)
    matrices = mask.reshape(-1, wrong.shape[-2] if wrong.dim() > 1 else 1, mask.shape[1])
    rows, columns = matrices.any(2).any(0), mask.any(0)
    bad = seen[wrong].double()
    if kernel and bool(wrong.all()) and bool((seen == 0).all()):
        stored_nothing = unstored == seen.numel() * seen.element_size()
        return say(f"criteria.looks.{'no_store' if stored_nothing else 'zeros' if unstored == 0 else 'all_zero'}")
    for name, value in arguments.items():
        if _holds(value, seen):
            return say("criteria.looks.input", name=name)
        if isinstance(value, torch.Tensor) and _in_the_same_order(value, seen):
            return say("criteria.looks.input_in_order", name=name)
    if seen.dim() == 2 and seen.shape[0] == seen.shape[1] and torch.equal(seen, expected.T.to(seen.dtype)):
        return say("criteria.looks.transposed")
    if not kernel:
        return ""
    turned = _side_of_turned_tiles(expected, seen)
    if turned:
        copied = any(_holds(value, expected) for value in arguments.values())
        return say(f"criteria.looks.tiles_{'of_a_copy' if copied else 'turned'}", side=turned)
    unmoved = _side_of_unmoved_tiles(expected, seen)
    if unmoved:
        return say("criteria.looks.tiles_unmoved", side=unmoved)
    nan = bool(bad.isnan().all()) and not bool(expected.isnan().any())
    empty = nan or bool((bad == 0).all())
    along = "column" if seen.dim() > 1 else "element"
    some = matrices[matrices.any(2).any(1)]  # the others are right
    right_rows = as_matrix(expected).reshape(matrices.shape)[..., ~rows, :]  # zeros may be right for another reason
    tail = _tail(matrices.flatten(1), "matrix", empty)
    if not tail and not bool((right_rows == 0).all(-1).any()):
        tail = _tail(some.transpose(0, 1).flatten(1), "row", empty)
    tail = tail or _tail(some.flatten(0, 1).T, along, empty) or _period(columns, along) or _period(rows, "row")
    if empty and unstored == bad.numel() * seen.element_size():  # the kernel stored all elements but these
        one = say(f"criteria.looks.{'not_stored' if nan else 'still_zero'}")
        return say("criteria.looks.both", one=one, other=tail or say("criteria.looks.left_out"))
    return _of_nan(tail, stored=unstored == 0, poisoned=poisoned) if nan else tail


def _of_nan(tail: str, stored: bool, poisoned: Sequence[str]) -> str:
    """Say where NaN comes from. stored: the kernel stored it."""
    lanes = say("criteria.looks.poisoned", lines=[*poisoned]) if poisoned else ""
    if tail:
        return say("criteria.looks.both", one=tail, other=lanes) if lanes else tail
    if lanes:
        return say("criteria.looks.poisoned_or", poisoned=lanes)
    return say(f"criteria.looks.{'nan_stored' if stored else 'nan'}")


def _holds(value: Any, result: torch.Tensor) -> bool:
    """Whether an argument holds what a result does, element by element."""
    alike = isinstance(value, torch.Tensor) and value.shape == result.shape
    return alike and torch.equal(value.to(result.dtype), result)


def _in_the_same_order(value: torch.Tensor, seen: torch.Tensor) -> bool:
    """Whether a result is an input that was only cut to another shape."""
    reshaped = value.shape != seen.shape and value.numel() == seen.numel() > 1
    return reshaped and torch.equal(value.reshape(-1).to(seen.dtype), seen.reshape(-1))


def _side_of_turned_tiles(expected: torch.Tensor, seen: torch.Tensor) -> int:
    """The side of the square tiles that are each transposed where they lie; 0 if there are none."""
    return _side_of_tiles(expected, seen, lambda tiles: tiles.transpose(-1, -2))


def _side_of_unmoved_tiles(expected: torch.Tensor, seen: torch.Tensor) -> int:
    """The side of the square tiles that are right in themselves, and lie mirrored at the diagonal; 0 if there are none."""
    return _side_of_tiles(expected, seen, lambda tiles: tiles.transpose(0, 1))


def _side_of_tiles(expected: torch.Tensor, seen: torch.Tensor, moved: Callable[[torch.Tensor], torch.Tensor]) -> int:
    """The side of the square tiles of which the result is made, if those of the right one are moved so; 0 if there are none."""
    if seen.dim() != 2:
        return 0

    def tiles(matrix: torch.Tensor, side: int) -> torch.Tensor:
        return matrix.to(seen.dtype).unfold(0, side, side).unfold(1, side, side)

    sides = [side for side in (8, 16, 32, 64, 128) if not any(n % side for n in seen.shape)]
    return next((s for s in sides if torch.equal(tiles(seen, s), moved(tiles(expected, s)))), 0)


def _tail(wrong: torch.Tensor, axis: str, empty: bool) -> str:
    """Wrong from some index to the end, right before: a short tail that no program covers, or all but the first block.

    wrong   (indices along the axis, all other elements)
    empty   what is wrong is NaN or 0, as it is where a mask left elements out
    """
    bad = wrong.any(1)
    if bad.numel() < 2 or not bool(bad[-1]) or bool(bad.all()):
        return ""
    start = int(bad.to(torch.int8).argmax())
    if not bool(bad[start:].all()):
        return ""
    if start <= bad.numel() // 2:
        right = _range(axis, 0, start - 1)
        if float(wrong[start:].double().mean()) < NEARLY_ALL:
            return ""  # elsewhere, too, something is right
        if empty:
            return say("criteria.looks.right_alone_empty", where=right)
        if axis != "matrix" and start % 8:
            return ""  # no block ends there
        return say("criteria.looks.right_alone", where=right)
    if axis == "column" and start % 8 and not empty:
        return ""  # no block begins there
    where = _range(axis, start, bad.numel() - 1)
    return say(f"criteria.looks.wrong_{'matrix' if axis == 'matrix' else 'alone'}", where=where)


def _range(axis: str, first: int, last: int) -> str:
    """Say which indices along an axis."""
    if first == last:
        return say(f"criteria.looks.{axis}", first=first)
    return say(f"criteria.looks.{'matrices' if axis == 'matrix' else f'{axis}s'}", first=first, last=last)


def _period(bad: torch.Tensor, axis: str) -> str:
    """Wrong in every p-th row or column."""
    where = bad.nonzero().flatten()
    if where.numel() < 3 or bool(bad.all()):
        return ""
    steps = where.diff()
    if bool((steps == steps[0]).all()) and int(steps[0]) > 1:
        return say("criteria.looks.period", period=int(steps[0]), axis=say(f"criteria.looks.every_{axis}s"))
    return ""


# ------------------------------------------------------------------------------------------------------- of an exercise


def for_cases(chosen: Callable[[Case], bool], look: MistakeMatcher) -> MistakeMatcher:
    """Restrict a matcher to the trials of some cases."""
    return lambda trials: look([t for t in trials if chosen(t.case)])


def every(matches: Callable[..., bool], sentence: str) -> MistakeMatcher:
    """Make a matcher that returns `sentence` if matches(output, **arguments) for every result."""

    def look(trials: Sequence[Trial]) -> str:
        pairs = [p for t in trials for p in t.calls]
        found = [output is not None and matches(output, **arguments) for arguments, output in pairs]
        return sentence if found and all(found) else ""

    return look


def miscounted(reasons: Mapping[tuple[str, object], str]) -> MistakeMatcher:
    """Make a matcher of wrong predictions. reasons: (question, the answer of a likely miscount) -> what it forgets."""

    def look(trials: Sequence[Trial]) -> str:
        answers = [output for t in trials for output in t.evidence.outputs if isinstance(output, dict)]
        given = {
            (question, answer)
            for one in answers
            for question, answer in one.items()
            if isinstance(answer, (int, float, str))
        }
        return one_by_one(sentence for miscount, sentence in reasons.items() if miscount in given)

    return look


def on_fault(kind: str, sentence: str) -> MistakeMatcher:
    """Make a matcher that returns `sentence` if the trace saw a fault of that kind."""
    return lambda trials: sentence if any(f.kind == kind for t in trials for f in t.evidence.faults) else ""


def on_race(stores: str) -> MistakeMatcher:
    """Make a matcher that explains a race. stores: the sentence for several programs that store to the same element."""

    def look(trials: Sequence[Trial]) -> str:
        between = {f.between for t in trials for f in t.evidence.faults if f.kind == "race"}
        return next((sentence for kind, sentence in {**RACES, "stores": stores}.items() if kind in between), "")

    return look


RACES = {  # by Fault.between, what is most special first
    "threads": say("criteria.race.threads"),
    "lanes": say("criteria.race.lanes"),
    "stores": "",
    "load and store": say("criteria.race.load_and_store"),
}


def in_tf32(trials: Sequence[Trial]) -> bool:
    """Whether some kernel's product reads float32 as TF32: none does where every tl.dot says "ieee", or its blocks are others."""
    return any(launch.tf32 for t in trials for launch in t.evidence.launches)


def as_tf32(x: torch.Tensor) -> torch.Tensor:
    """Truncate float32 to TF32, which has 10 bits after the point; return it in float64."""
    return (x.float().contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32).double()


def on_exception(words: str, sentence: str) -> MistakeMatcher:
    """Make a matcher that returns `sentence` if a call ended with an exception of that class, or one whose message contains `words`."""

    def fits(cause: Cause | None) -> bool:
        return cause is not None and (
            words == cause.details.get("exception") or words in cause.details.get("message", "")
        )

    return lambda trials: sentence if any(t.evidence.error and fits(t.evidence.cause) for t in trials) else ""


def torch_did(operations: Collection[str], sentence: str) -> MistakeMatcher:
    """Make a matcher that returns `sentence` if one of these torch operations was refused."""

    def look(trials: Sequence[Trial]) -> str:
        refused = [t.evidence.cause for t in trials if t.evidence.refused and t.evidence.cause]
        return sentence if any(cause.details.get("operation") in operations for cause in refused) else ""

    return look


def row_by_row_into_columns(expected: Callable[..., torch.Tensor]) -> MistakeMatcher:
    """Make a matcher that returns a remark if the right result was stored row by row into a matrix that lies column by column."""

    def look(trials: Sequence[Trial]) -> str:
        for trial in trials:
            for arguments, output in trial.calls:
                right = expected(**arguments)
                if not isinstance(output, torch.Tensor) or output.shape != right.shape or torch.equal(output, right):
                    continue
                # trap: an input that is read without its strides leads to the same numbers
                strides_are_read = not any(launch.unread for launch in trial.evidence.launches)
                if strides_are_read and torch.equal(output, right.reshape(right.shape[::-1]).T):
                    return say("criteria.looks.row_by_row")
        return ""

    return look
