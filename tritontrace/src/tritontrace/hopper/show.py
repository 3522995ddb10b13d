"""An Outcome as people read it: what is wrong, in which orders; what was done; how much went on at the same time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape

from tritontrace.hopper.memory import LIMIT
from tritontrace.hopper.outcome import Outcome
from tritontrace.words import plural


def _title(report: Outcome) -> str:
    orders = plural(len(report.runs), "order")
    if report.right:
        return f"No mistake in {orders}: {', '.join(run.order for run in report.runs)}"
    found = sum(run.fault is not None for run in report.runs)
    return f"Mistakes in {found} of {orders}" if found else f"Mistakes in global memory, in {orders}"


def _sentences(report: Outcome) -> Iterator[str]:
    for fault in report.faults:
        orders = [run.order for run in report.runs if run.fault and run.fault.kind is fault.kind]
        yield f"{fault.kind.value} ({', '.join(orders)}): {fault.sentence}"
    for fault in report.memory_faults:
        yield fault.sentence


def _rows(report: Outcome) -> Iterator[tuple[str, str]]:
    counts = report.counts
    yield "shared memory", f"{report.shared_bytes:,} of {LIMIT:,} bytes"
    yield "barriers", f"{counts.barriers:,}"
    copies = (
        (counts.tma_loads, "by TMA to shared memory"),
        (counts.async_copies, "by cp.async"),
        (counts.tma_stores, "by TMA from shared memory"),
    )
    moved = ", ".join(f"{count:,} {how}" for count, how in copies if count)
    if moved:
        yield "copies", f"{moved}; {counts.bytes_to_shared:,} bytes in, {counts.bytes_from_shared:,} out"
    if counts.wgmma:
        yield "products", f"{counts.wgmma:,}; {100 * report.overlapped:.0f} % of them with a copy under way"
    if (busy := report.tensor_cores_busy) is not None and counts.wgmma and report.right:
        yield "tensor cores", f"busy {100 * busy:.0f} % of the time, by a model that nothing was fitted to"


def text(report: Outcome) -> str:
    """Render a report as text."""
    rows = [f"    {label:<14} {value}" for label, value in _rows(report)]
    return "\n".join([_title(report), *_sentences(report), *rows])


def html(report: Outcome) -> str:
    """Render a report as HTML without scripts, in the colours of the page."""
    style = "text-align: left; padding: 2px 10px; background: transparent; color: inherit"
    rows = "".join(
        f'<tr><td style="{style}">{label}</td><td style="{style}">{_code(value)}</td></tr>'
        for label, value in _rows(report)
    )
    said = "".join(f"<p>{_code(sentence)}</p>" for sentence in _sentences(report))
    return (
        '<div style="color: var(--jp-content-font-color1, inherit)">'
        f'<b>{escape(_title(report))}</b>{said}<table style="border-collapse: collapse">{rows}</table></div>'
    )


def _code(sentence: str) -> str:
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(sentence))
