"""A trace with lines of files: each launch with its traffic, FLOPs and faults, as a table, or as a page.

Lines are lines of files here, `add.py:12`, which editors and terminals know how to open.
"""

from __future__ import annotations

import os
import sys
from html import escape

from tritontrace.messages import say
from tritontrace.results import Fault, Footprint, Launch
from tritontrace.tracing import show
from tritontrace.tracing.recorded import Recorded
from tritontrace.ttir.sources import Source, in_a_cell
from tritontrace.words import plural


def reads_per_byte(launch: Launch, footprint: Footprint) -> float:
    """Return how often each byte that a launch loads of a tensor is loaded, on average; 0.0 if it loads none. Old values that atomics
    return are no loads."""
    loaded = sum(
        access.bytes for access in launch.accesses if access.op == "load" and access.tensor == footprint.tensor
    )
    return loaded / max(1, footprint.read_distinct_bytes)


def place(trace: Recorded, kernel: str, line: int) -> str:
    """Convert a line of a kernel, numbered as in sentences, to a line of its file: "add.py:12"."""
    return place_in(trace.sources[kernel], line)


def place_in(source: Source, line: int) -> str:
    """Convert a line of a function, numbered as in sentences, to a line of its file."""
    return f"{_short(source.file)}:{source.first_line + line - source.shown_from}"


def _short(file: str) -> str:
    """A path from the working directory, where the file lies below it; of an installed package, from where packages are; of a
    notebook's cell, the number by which the notebook knows it: "In[7]"."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)() if in_a_cell(file) else None
    if shell and (named := shell.compile.format_code_name(file)):
        return named[1]
    below = os.path.relpath(file)
    return below if not below.startswith(os.pardir) else file.rpartition(f"site-packages{os.sep}")[2]


# ----------------------------------------------------------------------------------------------------- for people


def table(trace: Recorded) -> str:
    """Render the launches, equal ones together, a row for each tensor and operation; the summary and the faults below."""
    found = show.groups(trace)
    worst = show.worst_line(found)
    columns = [name for name in show.COLUMNS if name != "masked positions"]
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
    lines += [f"{place(trace, note.kernel, note.line)}: {note.sentence}" for note in trace.notes]
    lines += [f"{place(trace, kernel, line)}: {sentence}" for kernel, line, sentence in show.of_warps(trace)]
    lines += show.looked_at(trace)
    if worst:
        lines.append(f"{place(trace, worst.kernel, worst.access.line)}: {worst.sentence}")
    return "\n".join(line.rstrip() for line in lines)


def _heading(trace: Recorded, group: show.Group) -> str:
    first = group.launches[0]
    of = sum(launch.flops.total for launch in group.launches)
    return f"{group.heading}, at {place(trace, first.kernel, trace.sources[first.kernel].shown_from)}: {of:,} FLOPs"


def _cells(trace: Recorded, group: show.Group, row: show.Row) -> list[str]:
    cells = dict(zip(show.COLUMNS, row.cells(), strict=True))
    source = trace.sources[group.launches[0].kernel]
    first = source.first_line - source.shown_from
    cells["lines"] = ", ".join(str(first + line) for line in sorted(row.by_line))
    del cells["masked positions"]
    return list(cells.values())


KINDS = (("race", "race"), ("out of bounds", "access out of bounds"), ("uninitialised", "read of what nobody wrote"))


def faults_in_all(faults: list[Fault]) -> str:
    """Return a sentence that counts the faults of each kind; races, accesses out of bounds and uninitialised reads even if none."""
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


def page(trace: Recorded, title: str, remark: str = "") -> str:
    """Render an HTML page that stands alone, light or dark as the reader's system is: the table, then each kernel's source."""
    notes = "".join(f"<p>{show.with_code(text)}</p>" for text in (remark, faults_in_all(trace.faults)) if text)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title><style>'
        ":root { color-scheme: light dark } body { font: 15px/1.5 system-ui, sans-serif; margin: 2em }"
        f"</style></head><body><h1>{escape(title)}</h1>{notes}{show.html(trace)}"
        f"<h2>Line by line</h2><p>{escape(say('trace.lines'))}</p>{show.annotated(trace).html}</body></html>\n"
    )
