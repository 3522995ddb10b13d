"""A trace outside of a notebook: each launch with its traffic, FLOPs and faults, as a table, as plain data, or as a page.

Lines are lines of files here, `add.py:12`, which editors and terminals know how to open.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import asdict
from html import escape
from typing import Any

from course_lib.evidence import Access, Fault, Footprint, Launch
from course_lib.tracing import show
from course_lib.tracing.traced import Trace
from course_lib.words import plural

SCHEMA = 1  # of as_data: a number that grows when a name in it changes


def as_data(trace: Trace) -> dict[str, Any]:
    """Everything that was counted, as JSON can hold it; sizes are in bytes, a launch's faults are those first seen in it."""
    return {
        "schema": SCHEMA,
        "bytes": trace.bytes,
        "flops": trace.flops.total,
        "launches": [_launch(trace, number, launch) for number, launch in enumerate(trace.launches)],
        "masked_without_other": [
            {"kernel": kernel, "where": place(trace, kernel, line)} for kernel, line in sorted(trace.poisoned)
        ],
    }


def _launch(trace: Trace, number: int, launch: Launch) -> dict[str, Any]:
    def moved(op: str) -> int:
        return sum(access.bytes for access in launch.accesses if access.op == op)

    total = _sum(launch.accesses)
    return {
        "kernel": launch.kernel,
        "where": place(trace, launch.kernel, 1),
        "grid": list(launch.grid),
        "programs": launch.programs,
        "bytes": {op: moved(op) for op in ("load", "store", "atomic")},
        "sectors": total.sectors,
        "efficiency": total.efficiency,
        "flops": asdict(launch.flops),
        "tensors": [
            {**asdict(footprint), "reads_per_byte": reads_per_byte(footprint)} for footprint in launch.footprints
        ],
        "lines": [_access(trace, launch, access) for access in launch.accesses],
        "faults": [
            {
                "kind": fault.kind,
                "where": place(trace, fault.kernel, fault.line),
                "tensor": fault.tensor,
                "between": fault.between,
                "sentence": fault.sentence,
            }
            for fault in trace.faults_of(number)
        ],
    }


def _access(trace: Trace, launch: Launch, access: Access) -> dict[str, Any]:
    counted = {name: value for name, value in asdict(access).items() if name not in ("line", "request")}
    return {"where": place(trace, launch.kernel, access.line), **counted, "efficiency": access.efficiency}


def _sum(accesses: Iterable[Access]) -> Access:
    return sum(accesses, Access("", "load"))


def reads_per_byte(footprint: Footprint) -> float:
    """Times that each byte which a launch loads of a tensor is loaded, on average; 0.0 if it loads none."""
    return footprint.read_bytes / max(1, footprint.read_distinct_bytes)


def place(trace: Trace, kernel: str, line: int) -> str:
    """The line of a kernel, counted from its `def`, as a line of its file: "add.py:12"."""
    source = trace.sources[kernel]
    return f"{_short(source.file)}:{source.first_line + line - 1}"


def _short(file: str) -> str:
    """A path from the working directory, where the file lies below it; of an installed package, from where packages are."""
    below = os.path.relpath(file)
    return below if not below.startswith(os.pardir) else file.rpartition(f"site-packages{os.sep}")[2]


# ----------------------------------------------------------------------------------------------------- for people


def table(trace: Trace) -> str:
    """The launches, those that are alike together, a row for each tensor and operation; the summary and the faults below."""
    found = show.groups(trace)
    worst = show.worst_line(found)
    columns = [name for name in show.COLUMNS if name != "masked lanes"]
    rows = [columns, *(_cells(trace, group, row) for group in found for row in group.rows)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [show.aligned(columns, widths)] if found else []
    for group in found:
        lines += [_heading(trace, group)]
        for row in group.rows:
            mark = f"  {show.WORST}" if worst and row is worst.row else ""
            lines.append(show.aligned(_cells(trace, group, row), widths) + mark)
    lines += [*show.summary(trace), faults_in_all(trace.faults)]
    lines += [f"{place(trace, fault.kernel, fault.line)}: {fault.kind}: {fault.sentence}" for fault in trace.faults]
    lines += [f"{place(trace, kernel, line)}: {MASKED}" for kernel, line in sorted(trace.poisoned)]
    if worst:
        lines.append(f"{place(trace, worst.kernel, worst.access.line)}: {worst.sentence}")
    return "\n".join(line.rstrip() for line in lines)


MASKED = "masked lanes are loaded without `other`: on a GPU they hold anything, here NaN or a wild number."


def _heading(trace: Trace, group: show.Group) -> str:
    first = group.launches[0]
    of = sum(launch.flops.total for launch in group.launches)
    return f"{group.heading}, at {place(trace, first.kernel, 1)}: {of:,} FLOPs"


def _cells(trace: Trace, group: show.Group, row: show.Row) -> list[str]:
    cells = dict(zip(show.COLUMNS, row.cells(), strict=True))
    first = trace.sources[group.launches[0].kernel].first_line
    cells["lines"] = ", ".join(str(first + line - 1) for line in sorted(row.by_line))
    del cells["masked lanes"]
    return list(cells.values())


KINDS = (("race", "race"), ("out of bounds", "access out of bounds"), ("uninitialised", "read of what nobody wrote"))


def faults_in_all(faults: list[Fault]) -> str:
    """Say how many faults of each kind there are; of races, accesses out of bounds and uninitialised reads, that there are none."""
    kinds = [fault.kind for fault in faults]
    named = [_count(kinds.count(kind), words) for kind, words in KINDS]
    others = sum(kind not in dict(KINDS) for kind in kinds)
    return ", ".join(named) + (f", {plural(others, 'other fault')}" if others else "") + "."


def _count(number: int, words: str) -> str:
    several = {
        "access out of bounds": "accesses out of bounds",
        "read of what nobody wrote": "reads of what nobody wrote",
    }
    return f"no {words}" if not number else plural(number, words, several.get(words, ""))


def page(trace: Trace, title: str, remark: str = "") -> str:
    """An HTML page that stands alone, light or dark as the reader's system is: the table, then each kernel's source."""
    notes = "".join(f"<p>{show.with_code(text)}</p>" for text in (remark, faults_in_all(trace.faults)) if text)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title><style>'
        ":root { color-scheme: light dark } body { font: 15px/1.5 system-ui, sans-serif; margin: 2em }"
        f"</style></head><body><h1>{escape(title)}</h1>{notes}{show.html(trace)}"
        f"<h2>Line by line</h2>{show.annotated(trace).html}</body></html>\n"
    )
