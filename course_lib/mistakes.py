"""Mistakes in results: where a result is wrong, and the mistake it looks like.

An exercise's typical mistakes are functions of all its trials that return a sentence, or "". The common kinds are below.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch

from course_lib.exercise import Case, ErrorMap, MistakeMatcher, Trial
from tritontrace.results import Cause

MAP_ROWS, MAP_COLUMNS = 12, 32
NEARLY_ALL = 0.75


def as_matrix(wrong: torch.Tensor) -> torch.Tensor:
    """A boolean mask of any shape as (rows, columns): leading dimensions are folded, a vector is one row."""
    if wrong.dim() == 0:
        return wrong.reshape(1, 1)
    return wrong.reshape(-1, wrong.shape[-1])


def error_map(wrong: torch.Tensor) -> ErrorMap:
    """The share of wrong elements in each cell of a grid of at most 12 x 32 cells over the output; something is wrong."""
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
    """ "first at [3, 64]: expected 1.5, got 0.0", and how many there are; without `values`, where alone."""
    index = tuple(int(i) for i in wrong.nonzero()[0])
    place = "[" + ", ".join(map(str, index)) + "]"
    count, total = int(wrong.sum()), wrong.numel()
    share = f"{count:,} of {total:,} {'element' if total == 1 else 'elements'} {'differs' if count == 1 else 'differ'}"
    if not values:  # 0, inf and nan say what went wrong and nothing of the data
        got = float(seen[index])
        return f"{share}, first at {place}" + (f": got {got:g}" if got == 0 or not math.isfinite(got) else "")
    right, got = (f"{float(x[index]):.6g}" for x in (expected, seen))
    if right == got:
        right, got = (f"{float(x[index]):.9g}" for x in (expected, seen))
    return f"{share}, first at {place}: expected {right}, got {got}"


NOT_STORED = "Your kernel did not store these elements: memory that nobody wrote shows as NaN here."
STILL_ZERO = "Your kernel did not store these elements: they hold the 0 that was there before."
LEFT_OUT = "Does a mask leave them out, does a loop end before them, or has the grid too few programs?"
NO_STORE = "Your kernel stores nothing here: does a mask leave everything out, or does a loop take no turn?"
ZEROS = (
    "Your kernel stores 0 everywhere: does a loop take no turn here, does a mask leave everything out, did the numbers under- or "
    "overflow on the way?"
)
ALL_ZERO = "Everything is zero: did the kernel store anything, does a loop take no turn here, did numbers under- or overflow on the way?"
NO_PROGRAM = "No program ran on this input: has the grid 0 programs here? `//` rounds down, triton.cdiv rounds up."
NO_KERNEL = "No kernel is launched on this input."
NO_LAUNCH = (
    "The last call launches no kernel, and an earlier one does: is a result kept? Each call is given other numbers, in tensors that "
    "may look the same."
)


def looks_like(
    wrong: torch.Tensor,
    expected: torch.Tensor,
    seen: torch.Tensor,
    arguments: dict[str, Any],
    kernel: bool = True,
    unstored: int | None = None,
    poisoned: Sequence[str] = (),
) -> str:
    """The mistake that such a result usually comes from, in a sentence or two; "" if it looks like none we know.

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
        return NO_STORE if stored_nothing else ZEROS if unstored == 0 else ALL_ZERO
    for name, value in arguments.items():
        if _holds(value, seen):
            return f"The result equals the input `{name}`: is anything computed, and is it stored?"
        if isinstance(value, torch.Tensor) and _in_the_same_order(value, seen):
            return f"The result holds the numbers of `{name}` in the order of `{name}`: does each go where it belongs?"
    if seen.dim() == 2 and seen.shape[0] == seen.shape[1] and torch.equal(seen, expected.T.to(seen.dtype)):
        return "The result is the transpose of the right one: are the two strides swapped?"
    if not kernel:
        return ""
    turned = _side_of_turned_tiles(expected, seen)
    if turned:
        what = f"Each tile of {turned} x {turned} is in its place, and is transposed in itself"
        if any(_holds(value, expected) for value in arguments.values()):
            return f"{what}, and nothing is to be turned in a copy: are the two `None`s swapped in the load, or in the store?"
        return f"{what}: is it turned twice (by tl.trans or permute, and by the offsets of the store), or not at all?"
    unmoved = _side_of_unmoved_tiles(expected, seen)
    if unmoved:
        return (
            f"Each tile of {unmoved} x {unmoved} is right in itself, and lies where the one on the other side of the diagonal belongs: are "
            "the rows and columns at which a tile begins swapped in the store, too?"
        )
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
        return f"{NOT_STORED if nan else STILL_ZERO} {tail or LEFT_OUT}"
    return _of_nan(tail, stored=unstored == 0, poisoned=poisoned) if nan else tail


def _of_nan(tail: str, stored: bool, poisoned: Sequence[str]) -> str:
    """Say where NaN comes from. stored: the kernel stored it."""
    lanes = (
        f"Masked positions loaded without `other` hold NaN here and anything on a GPU ({', '.join(poisoned)}): do they reach the "
        "result?"
        if poisoned
        else ""
    )
    if tail:
        return f"{tail} {lanes}".rstrip()
    causes = "inf / inf, inf - inf, 0 / 0, a stride that reads between the rows, or a sum that starts from torch.empty"
    if lanes:
        return f"{lanes} Other causes of NaN: {causes}."
    if stored:
        return f"Your kernel stored every element, and computed or loaded NaN: {causes}?"
    return (
        f"Memory that nobody wrote shows as NaN here: did nothing store these elements? Other causes of NaN: {causes}."
    )


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
    several = "matrices" if axis == "matrix" else f"{axis}s"
    if start <= bad.numel() // 2:
        right = f"{several} 0 to {start - 1}" if start > 1 else f"{axis} 0"
        if float(wrong[start:].double().mean()) < NEARLY_ALL:
            return ""  # elsewhere, too, something is right
        if empty:
            return (
                f"Right in {right} alone: does a mask or a loop end too early, has the grid too few programs, or do the offsets not "
                "move on?"
            )
        if axis != "matrix" and start % 8:
            return ""  # no block ends there
        return (
            f"Right in {right} alone: do the offsets move on from program to program, by whole blocks and right strides? "
            "If they do, what is new from there on: a mask, or the bounds of a loop?"
        )
    if axis == "column" and start % 8 and not empty:
        return ""  # no block begins there
    which = f"{several} {start} to {bad.numel() - 1}" if start < bad.numel() - 1 else f"{axis} {start}"
    if axis == "matrix":
        return f"Wrong in {which} alone: does a loop end before it, or is something wrong for it that is right for the others?"
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
        return f"Wrong in one of every {int(steps[0])} {axis}s: an offset that is wrong once per block or per program?"
    return ""


# ------------------------------------------------------------------------------------------------------- of an exercise


def for_cases(chosen: Callable[[Case], bool], look: MistakeMatcher) -> MistakeMatcher:
    """Make the mistake that looks at the trials of some cases alone."""
    return lambda trials: look([t for t in trials if chosen(t.case)])


def every(matches: Callable[..., bool], sentence: str) -> MistakeMatcher:
    """Say `sentence` if matches(output, **arguments) for every result that there is."""

    def look(trials: Sequence[Trial]) -> str:
        pairs = [p for t in trials for p in t.calls]
        found = [output is not None and matches(output, **arguments) for arguments, output in pairs]
        return sentence if found and all(found) else ""

    return look


def miscounted(reasons: Mapping[tuple[str, object], str]) -> MistakeMatcher:
    """Make the mistake that explains wrong predictions. reasons: (question, the answer of a likely miscount) -> what it forgets."""

    def look(trials: Sequence[Trial]) -> str:
        answers = [output for t in trials for output in t.evidence.outputs if isinstance(output, dict)]
        given = {(question, answer) for one in answers for question, answer in one.items() if isinstance(answer, int)}
        return " ".join(dict.fromkeys(sentence for miscount, sentence in reasons.items() if miscount in given))

    return look


def on_fault(kind: str, sentence: str) -> MistakeMatcher:
    """Say `sentence` if the trace saw a fault of that kind."""
    return lambda trials: sentence if any(f.kind == kind for t in trials for f in t.evidence.faults) else ""


def on_race(stores: str) -> MistakeMatcher:
    """Make a mistake that explains a race. stores: the sentence for several programs that store to the same element."""

    def look(trials: Sequence[Trial]) -> str:
        between = {f.between for t in trials for f in t.evidence.faults if f.kind == "race"}
        return next((sentence for kind, sentence in {**RACES, "stores": stores}.items() if kind in between), "")

    return look


RACES = {  # by Fault.between, what is most special first
    "threads": "The threads of a program do not wait for one another: tl.debug_barrier() between a store and a load of the same "
    "elements, or values that stay in a variable.",
    "lanes": "Several positions of one block store to the same element: does something, % or tl.minimum, lead positions past the "
    "end back into the tensor? A mask leaves them out.",
    "stores": "",
    "load and store": "A program loads what another one stores in the same launch, and nothing says which comes first: use two "
    "launches, or another tensor.",
}


def in_tf32(trials: Sequence[Trial]) -> bool:
    """Whether some kernel's product reads float32 as TF32: none does where every tl.dot says "ieee", or its blocks are others."""
    return any(launch.tf32 for t in trials for launch in t.evidence.launches)


def as_tf32(x: torch.Tensor) -> torch.Tensor:
    """10 bits of what float32 has after the point; the others are dropped. In float64."""
    return (x.float().contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32).double()


def on_exception(words: str, sentence: str) -> MistakeMatcher:
    """Say `sentence` if a call ended with an exception of that class, or one that says `words`: Python's, torch's or Triton's own."""

    def fits(cause: Cause | None) -> bool:
        return cause is not None and (
            words == cause.details.get("exception") or words in cause.details.get("message", "")
        )

    return lambda trials: sentence if any(t.evidence.error and fits(t.evidence.cause) for t in trials) else ""


def torch_did(operations: Collection[str], sentence: str) -> MistakeMatcher:
    """Say `sentence` if one of these operations of torch was refused."""

    def look(trials: Sequence[Trial]) -> str:
        refused = [t.evidence.cause for t in trials if t.evidence.refused and t.evidence.cause]
        return sentence if any(cause.details.get("operation") in operations for cause in refused) else ""

    return look


def row_by_row_into_columns(expected: Callable[..., torch.Tensor]) -> MistakeMatcher:
    """Say so if a result holds what is expected, stored row by row into a matrix that lies column by column."""

    def look(trials: Sequence[Trial]) -> str:
        for trial in trials:
            for arguments, output in trial.calls:
                right = expected(**arguments)
                if not isinstance(output, torch.Tensor) or output.shape != right.shape or torch.equal(output, right):
                    continue
                # trap: an input that is read without its strides leads to the same numbers
                strides_are_read = not any(launch.unread for launch in trial.evidence.launches)
                if strides_are_read and torch.equal(output, right.reshape(right.shape[::-1]).T):
                    return (
                        "Stored row by row into an output that lies column by column: torch.empty_like takes over the strides "
                        "of what it is given. Is your output contiguous?"
                    )
        return ""

    return look
