"""Show people what the compiler found: a small table and what to do about it, as text and as HTML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape

from tritontrace.gpu import datasheet
from tritontrace.results import Compiled

REGISTERS = datasheet("H200").registers_per_thread  # the same on every architecture


class Shown(Compiled):
    """The facts that compile_for found, which show themselves as a table."""

    def __str__(self) -> str:
        return text(self)

    def _repr_html_(self) -> str:
        return html(self)


def remarks(found: Compiled) -> list[str]:
    """Sentences on what an author would want to change, and on the precision of fp32 dots.

    >>> remarks(compile_for(copy, x, y, 1000, BLOCK=256))
    []
    """
    if not found.accepted:
        return [found.complaint]
    said = [
        f"kernel `{found.kernel}`, {place}: {found.gpu} multiplies these fp32 blocks as TF32, which keeps 10 of the 23 bits "
        'after the point. Write tl.dot(..., input_precision="ieee") for fp32.'
        for place in found.tf32_dots
    ]
    if found.dots and int(found.gpu.removeprefix("sm_")) < 80:
        said.append(
            f"Triton does not use the tensor cores of {found.gpu}, and there is no TF32: fp32 dots are exact fp32."
        )
    if found.spills:
        said.append(
            f"Each thread keeps {found.spill_bytes:,} bytes in slow memory, as its registers do not suffice. "
            "Use smaller blocks, or more warps."
        )
    return said


def _rows(found: Compiled) -> Iterator[tuple[str, str]]:
    for op, widths, widest in (("load", found.loads, found.load_bits), ("store", found.stores, found.store_bits)):
        for place, bits in widths.items():
            yield op, f"{bits} bits per thread, {place}"
        if widest and not widths:
            yield op, f"{widest} bits per thread"
    for place, elements in found.spans.items():
        passes = found.passes[place]
        how = "one instruction" if passes == 1 else f"{passes} instructions, each of which touches the sectors of all"
        yield "a warp", f"{' x '.join(map(str, elements))} elements in {how}, {place}"
    if found.dots or found.tensor_cores:
        yield "tensor cores", ", ".join(found.tensor_instructions) or "none: tl.dot runs on ordinary cores"
    if found.copies:
        yield "copies", ", ".join(found.copies)
    limit = f" of {found.shared_limit:,}" if found.shared_limit else ""
    yield "shared memory", f"{found.shared_bytes:,}{limit} bytes per program"
    if found.registers is not None:
        yield "registers", f"{found.registers} of {REGISTERS} per thread"
    if found.spill_bytes is None:
        yield "spills", "unknown: the machine code does not tell"
    else:
        yield "spills", f"{found.spill_bytes:,} bytes per thread" if found.spill_bytes else "none"


def _title(found: Compiled) -> str:
    verdict = (
        "accepted"
        if found.accepted
        else "not compiled in time"
        if found.too_slow
        else "the compiler failed"
        if found.crashed
        else "refused"
    )
    return f"{found.kernel} for {found.gpu}: {verdict}"


def text(found: Compiled) -> str:
    """Render the facts as text: a title, a row for each fact, and remarks."""
    rows = list(_rows(found)) if found.accepted else []
    return "\n".join([_title(found), *(f"    {label:<14} {value}" for label, value in rows), *remarks(found)])


def html(found: Compiled) -> str:
    """Render the facts as HTML without scripts. Colours are those of the page, so that it reads well in a dark theme, too."""
    style = "text-align: left; padding: 2px 10px; background: transparent; color: inherit"
    rows = "".join(
        f'<tr><td style="{style}">{label}</td><td style="{style}">{_code(value)}</td></tr>'
        for label, value in (_rows(found) if found.accepted else ())
    )
    notes = "".join(f"<p>{_code(sentence)}</p>" for sentence in remarks(found))
    return (
        '<div style="color: var(--jp-content-font-color1, inherit)">'
        f'<b>{escape(_title(found))}</b><table style="border-collapse: collapse">{rows}</table>{notes}</div>'
    )


def _code(sentence: str) -> str:
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(sentence))
