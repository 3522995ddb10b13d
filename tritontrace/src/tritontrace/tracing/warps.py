"""The compiler, asked how the warps of each traced launch access memory, and the lines that are slow for what it answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator

from tritontrace.compiled import numbers_of, warps_all
from tritontrace.compiled.places import Places
from tritontrace.compiled.show import slow_lines
from tritontrace.compiled.warps import SECTOR
from tritontrace.messages import say
from tritontrace.results import Access, Launch, Passes, Requests, Slow, Warps
from tritontrace.tracing.recorded import Recorded


def ask(trace: Recorded, gpu: str, seconds: float) -> list[Warps]:
    """Compute and store the Warps of each launch; return them. Equal launches are compiled once. Raises ValueError without kernels."""
    if len(trace.compilable) < len(trace.launches) and not trace.fronts:
        raise ValueError(say("asked.trace.no_kernels"))
    jobs, keys = {}, []
    for launch, front, arguments in trace.compilable:
        numbers: list[Hashable] = []
        for name, value in numbers_of(front, arguments):
            if value is not None and hasattr(arguments[name], "data_ptr"):
                value %= SECTOR
            numbers.append(value)
        keys.append((front, launch.grid, *numbers))
        jobs.setdefault(keys[-1], (front, (), arguments, gpu, launch.grid))
    known = dict(zip(jobs, warps_all(list(jobs.values()), seconds), strict=True))
    for (launch, *_), key in zip(trace.compilable, keys, strict=True):
        launch.warps = known[key]
    return [known[key] for key in keys]


def slow(launch: Launch) -> list[Slow]:
    """List the lines of a launch that are slow for what its sectors do not show; [] where the compiler was not asked."""
    if launch.warps is None:
        return []
    sums: dict[tuple[int, str], Access] = {}
    for access in launch.accesses:
        if access.function == launch.kernel:
            key = access.line, access.op
            sums[key] = sums[key] + access if key in sums else access
    return slow_lines(launch.warps, {key: access.efficiency for key, access in sums.items()})


def by_line(launch: Launch) -> Iterator[tuple[int, list[Requests], list[Passes]]]:
    """Yield (line, its requests, its passes) for each line that has some."""
    lines: dict[int, tuple[list[Requests], list[Passes]]] = defaultdict(lambda: ([], []))
    for each in launch.warps.requests if launch.warps else ():
        if each.line:
            lines[Places.line(each.line)][0].append(each)
    for each in launch.warps.passes if launch.warps else ():
        if each.line:
            lines[Places.line(each.line)][1].append(each)
    yield from ((line, *both) for line, both in lines.items())
