"""Mistakes in access patterns, and how results reveal them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from course_lib.catalogue import say
from course_lib.criteria import GradedTrial, accesses
from course_lib.exercise import ErrorBudget, Trial
from course_lib.mistakes import MistakeMatcher
from tritontrace.results import Access


def wasteful(op: str, sentence: str, times: float = 0, alone: bool = False) -> MistakeMatcher:
    """Make a matcher that returns `sentence` if all is right and whole warps waste their loads (or stores): a sector for each lane.

    times   instead, with that many times the sectors that their bytes fill
    alone   the sentence is about these alone: what moves the other way must be dense
    """

    def look(trials: Sequence[GradedTrial]) -> str:
        if any(t.difference for t in trials):
            return ""
        costly = [t for t in trials if t.case.group == "performance"]
        waste = _wasteful(accesses(costly, op))
        others = _wasteful(accesses(costly, "store" if op == "load" else "load"))
        fits = all(
            a.elements > 28 * a.requests
            and (_is_near(32 * a.sectors / a.useful_bytes, times) if times else _is_near(a.sectors / a.elements, 1))
            for a in waste
        )
        return sentence if waste and fits and not (alone and others) else ""

    return look


def _wasteful(found: Sequence[Access]) -> list[Access]:
    """Return those that touch more sectors than their bytes fill, and move a part of the bytes that counts."""
    total = sum(a.bytes for a in found)
    return [a for a in found if a.bytes >= 0.02 * total and 32 * a.sectors > 1.05 * a.useful_bytes]


def _is_near(value: float, right: float) -> bool:
    return 0.9 * right <= value <= 1.1 * right


def short_runs(trials: Sequence[GradedTrial]) -> str:
    """Return a remark if all is right, and a wasteful request moves runs of neighbours that are shorter than a sector, else ""."""
    if any(t.difference for t in trials):
        return ""
    for t in trials:
        if t.case.group != "performance":
            continue
        for a in _wasteful([*accesses([t], "load"), *accesses([t], "store")]):
            itemsize = a.bytes // max(1, a.elements)
            runs = _runs(sorted(set(a.request)), itemsize)
            if runs and itemsize < max(runs) < 32:
                return say("coalescing.row_copy.short_runs", line=a.line, bytes=max(runs), case=t.case.name)
    return ""


def _runs(offsets: Sequence[int], itemsize: int) -> list[int]:
    """Bytes of each stretch of elements that lie side by side."""
    runs: list[int] = []
    for before, offset in zip([None, *offsets], offsets, strict=False):
        if before is not None and offset == before + itemsize:
            runs[-1] += itemsize
        else:
            runs.append(itemsize)
    return runs


def the_last_rows_alone(trials: Sequence[Trial]) -> str:
    """Return a remark if every sum is that of the last rows of x alone, else ""; what programs overwrite looks alike."""
    if any(t.evidence.faults for t in trials):
        return ""
    left_out = []
    for t in trials:
        for arguments, output in t.calls:
            x = arguments["x"].double()
            if not isinstance(output, torch.Tensor) or output.shape != x.shape[1:]:
                return ""
            sums = x.flip(0).cumsum(0)  # of the last row, the last two, ...
            alike = ((sums - output.double()).abs() <= 1e-3 * (1 + sums.abs())).all(1)
            if not alike.any():
                return ""
            left_out.append(not alike[-1])
    return say("coalescing.column_sum.the_last_rows_alone") if any(left_out) else ""


def the_first_rows_alone(trials: Sequence[GradedTrial]) -> str:
    """Return a remark if every wrong sum is that of the first rows of x alone, or a multiple of it for programs along an axis; else ""."""
    repeated = set()
    for t in trials if not any(t.evidence.faults for t in trials) else []:
        counts = {1} | {count for launch in t.evidence.launches for count in launch.grid}
        for arguments, output in t.calls if t.difference else []:
            sums = arguments["x"].double().cumsum(0)[:-1]  # of the first row, the first two, ...
            if not isinstance(output, torch.Tensor) or output.shape != sums.shape[1:]:
                return ""
            near = 1e-3 * (1 + sums.abs())
            fit = [n for n in counts if bool(((n * sums - output).abs() <= n * near).all(1).any())]
            if not fit:
                return ""
            repeated.add(min(fit) > 1)
    if len(repeated) != 1:
        return ""
    return say(f"coalescing.column_sum.the_first_rows_{'again' if repeated.pop() else 'alone'}")


def read_several_times(trials: Sequence[GradedTrial]) -> str:
    """Return a remark if x is read more than once, on average, in each case whose sums are wrong, else ""."""
    wrong = [t for t in trials if t.difference and t.evidence.launches]
    times = []
    for t in wrong:
        of_x = [f for launch in t.evidence.launches for f in launch.footprints if f.tensor == "x"]
        times.append(sum(f.read_bytes for f in of_x) / max(1, t.inputs[-1]["x"].nbytes))
    if not times or min(times) < 1.2:
        return ""
    return say(
        "coalescing.column_sum.read_several_times", times=min(times), case=wrong[times.index(min(times))].case.name
    )


def kept_in_16_bits(trials: Sequence[Trial]) -> str:
    """Return a remark if sums of floats are off by no more than 16 bits round, and lie on float16's grid, on which right ones do not."""

    def on_the_grid(sums: torch.Tensor) -> float:
        return float((sums * 2**14 % 1 == 0).double().mean())  # float16 numbers above 1/16 are multiples of 2**-14

    looks = []
    for t in trials:
        for arguments, output in t.calls:
            x, sums = arguments["x"].double(), arguments["x"].double().sum(0)
            if arguments["x"].dtype != torch.float32:
                continue
            if not isinstance(output, torch.Tensor) or output.shape != sums.shape:
                return ""
            close = (output - sums).abs().mean() <= 2**-11 * x.abs().sum(0).mean()  # not zeros, nor a part of the sums
            looks.append(
                bool(close) and on_the_grid(output.double()) > 0.5 and on_the_grid(sums.float().double()) < 0.25
            )
    return say("coalescing.column_sum.kept_in_16_bits") if looks and all(looks) else ""


def added_in_float16(budget: ErrorBudget, sentence: str, axis: int = 0) -> MistakeMatcher:
    """Make a matcher that returns `sentence` if every sum of floats along an axis of the only argument is right, and sums of halves
    are off by more than `budget`."""

    def look(trials: Sequence[Trial]) -> str:
        right = {torch.float32: [], torch.float16: []}
        for t in trials:
            for arguments, output in t.calls:
                (x,) = arguments.values()
                sums = x.double().sum(axis)
                finite = isinstance(output, torch.Tensor) and output.shape == sums.shape and output.isfinite().all()
                if not finite or output.dtype != torch.float32 or t.evidence.faults:
                    return ""
                right[x.dtype].append(bool(((output - sums).abs() <= budget(sums, torch.float32, arguments)).all()))
        if not all(right[torch.float32]) or all(right[torch.float16]):
            return ""
        return sentence

    return look


def one_element_apart(x: torch.Tensor, index: torch.Tensor | None = None) -> torch.Tensor:
    """Gather rows, or all of them, as if each began one element after the row before it."""
    rows = x.as_strided(x.shape, (1, 1))
    return rows if index is None else rows[index]


def the_first_of_each_part(rows: int, height: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Make the wrong formula in which each turn of a loop over a part of `rows` rows adds its first `height` rows."""
    return lambda x: -(-rows // height) * torch.stack([part[:height].double().sum(0) for part in x.split(rows)]).sum(0)


def the_ends_of_parts_twice(rows: int, height: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Make the wrong formula in which tiles of `height` rows lead past the end of each part of `rows` rows."""
    tall = -(-rows // height) * height
    return lambda x: torch.stack([x[start : start + tall].double().sum(0) for start in range(0, len(x), rows)]).sum(0)


def sums_of_blocks(width: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Make the wrong formula in which each column of a block has the sum of all its columns."""
    return lambda x: torch.cat([part.sum().expand(part.shape[1]) for part in x.double().split(width, 1)])


def of_the_first_index(height: int) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """Make the wrong formula in which all rows of block p are the row that index[p] names."""
    return lambda x, index: x[index[torch.arange(len(index)) // height]]


DOWN_A_COLUMN = say("coalescing.column_sum.one_column_a_program")


def halves_of_blocks(x: torch.Tensor, block: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the first and the second halves of each 2 * block elements of x (2 N,), instead of every other element."""
    n = torch.arange(x.numel() // 2)
    first = n // block * 2 * block + n % block
    return x[first.clamp(max=x.numel() - 1)], x[(first + block).clamp(max=x.numel() - 1)]
