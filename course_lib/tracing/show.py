"""A trace for people: tables, source with its traffic beside it, and how often each element was read."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from course_lib.exercise import Access, Launch

if TYPE_CHECKING:
    from course_lib.tracing.record import Trace

COLUMNS = ("kernel", "tensor", "op", "instructions", "bytes", "sectors", "efficiency", "reads per byte")


def _rows(trace: Trace) -> Iterator[tuple[str, ...]]:
    for launch in trace.launches:
        for access in _by_tensor(launch):
            yield (
                launch.kernel,
                access.tensor,
                access.op,
                f"{access.instructions:,}",
                f"{access.bytes:,}",
                f"{access.sectors:,}",
                f"{access.efficiency:.0%}",
                _reads_per_byte(launch, access),
            )


def _by_tensor(launch: Launch) -> list[Access]:
    sums: dict[tuple[str, str], Access] = {}
    for access in launch.accesses:
        key = (access.tensor, access.op)
        sums[key] = sums[key] + access if key in sums else access
    return list(sums.values())


def _reads_per_byte(launch: Launch, access: Access) -> str:
    footprint = next((f for f in launch.footprints if f.tensor == access.tensor), None)
    if access.op != "load" or footprint is None or not footprint.read_distinct_bytes:
        return ""
    return f"{footprint.read_bytes / footprint.read_distinct_bytes:.1f}"


def _remarks(trace: Trace) -> list[str]:
    """The line that wastes most, loads without `other`, and the faults."""
    remarks = []
    accesses = [(launch, access) for launch in trace.launches for access in launch.accesses]
    # single elements waste most of their sector by nature, so they are not pointed at
    blocks = [(launch, access) for launch, access in accesses if access.bytes > access.single_bytes]
    launch, worst = min(blocks, key=lambda pair: pair[1].efficiency, default=(None, None))
    if worst is not None and worst.efficiency < 0.99:
        remarks.append(
            f"Least efficient: kernel `{launch.kernel}`, line {worst.line}: `{worst.source}` "
            f"uses {worst.efficiency:.0%} of the bytes in the {worst.sectors:,} sectors it touches."
        )
    remarks += [
        f"Kernel `{kernel}`, line {line} loads masked lanes without `other`: on a GPU they hold anything, here NaN or a wild number."
        for kernel, line in sorted(trace.poisoned)
    ]
    return remarks + [fault.sentence for fault in trace.faults]


def _summary(trace: Trace) -> str:
    launches, programs = len(trace.launches), trace.programs
    return (
        f"{launches} launch{'es' * (launches != 1)}, {programs:,} program{'s' * (programs != 1)}, "
        f"{trace.loads.bytes:,} bytes loaded, {trace.stores.bytes:,} stored"
        + (f", {trace.atomics.bytes:,} updated by atomics" if trace.atomics.bytes else "")
    )


def table(trace: Trace) -> str:
    """One row for each launch, tensor and operation."""
    rows = [COLUMNS, *_rows(trace)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
    lines = [
        "  ".join(
            cell.ljust(w) if i < 3 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return "\n".join([*(line.rstrip() for line in lines), _summary(trace), *_remarks(trace)])


def html(trace: Trace) -> str:
    """The same for a notebook. Colours are those of the page, so that it reads in a dark theme too."""
    line = "border-bottom: 1px solid var(--jp-border-color2, currentColor)"

    def cells(row: tuple[str, ...], tag: str) -> str:
        align = ["left"] * 3 + ["right"] * (len(row) - 3)
        style = "padding: 2px 10px; background: transparent; color: inherit"
        return "".join(
            f'<{tag} style="text-align: {a}; {style}">{escape(cell)}</{tag}>'
            for cell, a in zip(row, align, strict=True)
        )

    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in _rows(trace))
    notes = "".join(f"<p>{escape(text)}</p>" for text in [_summary(trace), *_remarks(trace)])
    return (
        '<div style="color: var(--jp-content-font-color1, inherit)">'
        f'<table style="border-collapse: collapse"><thead><tr style="{line}">{cells(COLUMNS, "th")}</tr></thead>'
        f"<tbody>{body}</tbody></table>{notes}</div>"
    )


def annotated(trace: Trace) -> str:
    """Each kernel's source with the bytes and the efficiency of every line that touches memory."""
    blocks = []
    for kernel in dict.fromkeys(launch.kernel for launch in trace.launches):
        sums: dict[int, list[Access]] = {}
        for launch in trace.launches:
            for access in launch.accesses if launch.kernel == kernel else ():
                sums.setdefault(access.line, []).append(access)
        lines = [f"{'bytes':>14} {'efficiency':>10}  {kernel}"]
        for number, text in enumerate(trace.sources[kernel].lines, start=1):
            note = " " * 25
            if number in sums:
                moved = sum(access.bytes for access in sums[number])
                useful = sum(access.useful_bytes for access in sums[number])
                fetched = 32 * sum(access.sectors for access in sums[number])
                note = f"{moved:>14,} {useful / fetched:>10.0%}"
            lines.append(f"{note}  {number:>3} {text.rstrip()}")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def heatmap(counts: np.ndarray, name: str):
    """A matplotlib Figure of how often each element of a 2-D tensor was read."""
    from course_lib.picture import Picture

    if counts.ndim != 2:
        raise ValueError(
            f"heatmap: expected a 2-D tensor, got shape {tuple(counts.shape)}. Pass a view, as x.view(M, N)."
        )
    figure = Picture(5, 4)
    axes = figure.subplots()
    image = axes.imshow(counts, cmap="cividis", vmin=0, aspect="auto", interpolation="nearest")
    axes.set(xlabel="column", ylabel="row", title=f"loads of each element of {name}")
    figure.colorbar(image, ax=axes, label="times read")
    return figure
