"""Show people what the compiler found: a small table and what to do about it, as text and as HTML."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from tritontrace.compiled.places import Places
from tritontrace.compiled.warps import WIDEST
from tritontrace.gpu import datasheet
from tritontrace.messages import say
from tritontrace.results import Compiled, Passes, Requests, Slow, Warps
from tritontrace.words import plural

REGISTERS = datasheet("H200").registers_per_thread  # the same on every architecture


class Shown(Compiled):
    """The result of compile_for, which displays as a table."""

    def __str__(self) -> str:
        return text(self)

    def _repr_html_(self) -> str:
        return html(self)


class ShownWarps(Warps):
    """The result of warps_for, which displays as a table."""

    @property
    def slow(self) -> list[Slow]:
        """List lines that are slow for a reason that bytes and sectors do not show.

        >>> [(each.kind, each.op, each.times) for each in warps_for(copy, x, y, 1000, BLOCK=1024).slow]
        [('narrow', 'load', 4.0), ('narrow', 'store', 4.0)]
        """
        return slow_lines(self)

    def __str__(self) -> str:
        return _text(*_of_warps(self))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return _html(*_of_warps(self))


def remarks(found: Compiled) -> list[str]:
    """List sentences on what an author would want to change, and on the precision of fp32 dots.

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
    return _text(_title(found), list(_rows(found)) if found.accepted else [], remarks(found))


def html(found: Compiled) -> str:
    """Render the facts as HTML without scripts. Colours are those of the page, so that it reads well in a dark theme, too."""
    return _html(_title(found), list(_rows(found)) if found.accepted else [], remarks(found))


Row = tuple[str, str]


def _text(title: str, rows: Sequence[Row], below: Sequence[str]) -> str:
    return "\n".join([title, *(f"    {label:<14} {value}" for label, value in rows), *below])


def _html(title: str, rows: Sequence[Row], below: Sequence[str]) -> str:
    style = "text-align: left; padding: 2px 10px; background: transparent; color: inherit"
    cells = "".join(
        f'<tr><td style="{style}">{label}</td><td style="{style}">{_code(value)}</td></tr>' for label, value in rows
    )
    notes = "".join(f"<p>{_code(sentence)}</p>" for sentence in below)
    return (
        '<div style="color: var(--jp-content-font-color1, inherit)">'
        f'<b>{escape(title)}</b><table style="border-collapse: collapse">{cells}</table>{notes}</div>'
    )


def _code(sentence: str) -> str:
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(sentence))


# ----------------------------------------------------------------------------------------------------- warps

LOUD = 2.0  # times as many sectors or passes as needed, from which on a line is named


def _of_warps(found: Warps) -> tuple[str, list[Row], list[str]]:
    if found.complaint:
        return f"{found.kernel} for {found.gpu}: refused", [], [found.complaint]
    rows = [(each.op, f"{_how(each)}, {each.line}") for each in found.requests if each.line]
    rows += [
        (f"shared {each.op}", f"{each.passes:,} passes, {each.needed:,} needed, {each.line}")
        for each in found.passes
        if each.line
    ]
    below = [each.sentence for each in slow_lines(found)]
    if not found.whole:
        below.append("Long loops were not followed to their end: counts are of their first turns.")
    return f"{found.kernel} for {found.gpu}: warps of {plural(found.programs, 'program')}", rows, below


def _how(each: Requests) -> str:
    width = f"{each.lane_bytes} bytes per lane, {plural(each.requests, 'request')}"
    if each.by_data:
        return f"{width}, to addresses that are not known"
    needed = f", {each.needed / each.requests:.3g} needed" if each.spread > 1 else ""
    return f"{width} of {each.sectors / max(1, each.requests):.3g} sectors{needed}"


def slow_lines(found: Warps, efficiency: Mapping[tuple[int, str], float] | None = None) -> list[Slow]:
    """List the lines that are slow for a reason that bytes and sectors do not show.

    efficiency   of lines and operations, as a trace counts it for whole blocks: where it says by itself that sectors are wasted, the
                 lanes' stride is no news
    """
    reasons: list[Slow] = []
    for each in found.requests:
        if not each.line:
            continue
        known = (efficiency or {}).get((Places.line(each.line), each.op), 1.0)
        verb = {"load": "loads", "store": "stores", "atomic": "updates"}[each.op]
        if each.narrow and not each.split:
            sentence = say(
                "compiler.warps.narrow",
                kernel=found.kernel,
                place=each.line,
                does=say(f"compiler.warps.{each.op}"),
                bytes=each.lane_bytes,
                wide=each.aligned_bytes,
                names=[f"`{name}`" for name in found.unaligned],
            )
            reasons.append(Slow("narrow", each.line, each.op, each.aligned_bytes / each.lane_bytes, sentence))
        elif each.narrow:
            beside = min(each.beside_bytes, WIDEST)
            of = f" It knows nothing of {_listed(found.unaligned)}." if found.unaligned else ""
            why = (
                "The compiler joins them where it knows that addresses and masks are multiples of 16: pass sizes and strides that "
                f"are, or promise it by tl.multiple_of.{of}"
                if each.joinable
                else "They cannot be joined, as an address is no multiple of them, or a mask cuts them."
            )
            reasons.append(
                Slow(
                    "narrow",
                    each.line,
                    each.op,
                    beside / each.lane_bytes,
                    f"kernel `{found.kernel}`, {each.line}: a lane {verb} {each.lane_bytes} bytes at a time, though "
                    f"{beside} lie side by side. {why}",
                )
            )
        elif each.strided and each.spread >= LOUD and known >= LOUD / each.spread:
            reasons.append(
                Slow(
                    "strided",
                    each.line,
                    each.op,
                    each.spread,
                    f"kernel `{found.kernel}`, {each.line}: neighbouring lanes are {each.apart:,} bytes apart, so that a request "
                    f"touches {each.sectors / each.requests:.3g} sectors where {each.needed / each.requests:.3g} would do. The "
                    "compiler lays lanes along the axis that it knows to be contiguous: let it see that one, by a stride that is "
                    "1 at the launch or in the code, without % or // on the way.",
                )
            )
    worst: dict[str, Passes] = {}
    for each in found.passes:
        if each.line and (each.line not in worst or each.conflicts > worst[each.line].conflicts):
            worst[each.line] = each
    reasons += [
        Slow(
            "conflicts",
            each.line,
            each.op,
            each.conflicts,
            f"kernel `{found.kernel}`, {each.line}: at its {each.op}s, warps pass shared memory {each.conflicts:.3g} times as often as "
            "without bank conflicts. The compiler moves a block between threads there: another order of its axes, another tile or "
            "another num_warps changes how.",
        )
        for each in worst.values()
        if each.conflicts >= LOUD
    ]
    return reasons


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
