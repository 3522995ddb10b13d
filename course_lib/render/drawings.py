"""The small drawings of a verdict as HTML and SVG without scripts: where a result is wrong, what was spent, where lanes fell."""

from __future__ import annotations

import html
import math

from course_lib.exercise import ErrorMap, Request, Spent
from tritontrace.colours import DONE, EDGE, OURS, THINNED, WASTE, WRONG

BAR = 260  # pixels of the longer of two bars
STRIP = 560  # pixels that a request may take
FEW = 8  # sectors of a request, up to which each has room for its lanes


def bars(spent: Spent) -> str:
    """Two bars of one scale, what would do and what was spent, and how many times as much that is in large. What was spent for
    nothing is orange and hatched, as in every picture. Where nothing was, one bar says so."""
    longest = max(spent.spent, spent.needed, 1e-9)
    times, allowed = in_times(spent)
    on = f" on {html.escape(spent.on)}" if spent.on else ""
    needed, used = (max(2, round(BAR * value / longest)) for value in (spent.needed, spent.spent))
    amount = f'<b style="white-space:nowrap">{_number(spent.spent)} {code(spent.unit)}</b>'
    yours = f"{_bar(min(used, needed), used - needed)}<div>{amount} {spent.done} by your program"
    if used <= needed:
        return f"{yours}: {times}</div>"
    return (
        f'{_bar(needed)}<div><b style="white-space:nowrap">{_number(spent.needed)} {code(spent.unit)}</b> would do{on}</div>{yours}</div>'
        f'<div><span style="font-size:1.4em;font-weight:bold">{times}</span> <small style="white-space:nowrap">({allowed})</small></div>'
    )


def _bar(used: int, waste: int = 0) -> str:
    """A bar of pixels that were needed, and behind them of pixels for nothing."""
    width, wasted = used + max(0, waste), ""
    if waste > 0:
        lines = "".join(f"M{x} 14l7-14" for x in range(used, width, 8))
        wasted = f'<rect x="{used}" width="{waste}" height="14" {_fill(WASTE)}/><path d="{lines}" stroke="{EDGE}" stroke-width="0.8"/>'
    return (
        f'<svg aria-hidden="true" width="{width}" height="14" viewBox="0 0 {width} 14" '
        f'style="display:block;max-width:100%;margin:6px 0 1px">'
        f'<rect width="{used}" height="14" fill="{OURS}"/>{wasted}</svg>'
    )


def _fill(colour: str) -> str:
    """Fill a shape with a colour through which the page's ground shines where `paler` made it, in any theme."""
    whole, share = THINNED.get(colour, (colour, 1.0))
    return f'fill="{whole}" fill-opacity="{share:g}"'


def in_times(spent: Spent) -> tuple[str, str]:
    """Say how many times as much was spent as would do, and how many times are allowed."""
    times, allowed = (value / max(spent.needed, 1e-9) for value in (spent.spent, spent.allowed))
    several, limit = _told_apart(times, allowed)
    return (
        "no more than would do" if several == "1" else f"{several} times as many" if times < 1000 else "many more",
        f"{limit} times are allowed" if allowed > 1 else "no more are allowed",
    )


def _told_apart(one: float, other: float) -> tuple[str, str]:
    """Both numbers to three digits, or to as many as it takes to tell them apart."""
    digits = next((d for d in range(3, 9) if one == other or f"{one:.{d}g}" != f"{other:.{d}g}"), 9)
    return f"{one:.{digits}g}", f"{other:.{digits}g}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def lanes(request: Request) -> str:
    """One request over the sectors that it touches: what its lanes use is blue, what is moved for nothing is orange."""
    sectors = request.sectors
    wide = min(64, STRIP // len(sectors)) if sectors else 0
    per_byte, high = wide / 32, 18
    parts, left, gaps, place = [], 0.0, [], {}
    for number, sector in enumerate(sectors):
        if number and sector != sectors[number - 1] + 1:
            left += 4  # memory that nobody touches lies between
            gaps.append(left)
        place[sector] = left
        parts.append(
            f'<rect x="{left:.1f}" y="0" width="{wide}" height="{high}" {_fill(WASTE)} stroke="{EDGE}" stroke-width="0.6"/>'
        )
        left += wide
    for offset in sorted(set(request.offsets)):
        for byte, count in _cut(offset, request.itemsize):
            x = place[byte // 32] + byte % 32 * per_byte
            parts.append(
                f'<rect x="{x:.1f}" y="0" width="{max(1.5, count * per_byte - (0.5 if len(sectors) <= FEW else 0)):.1f}" '
                f'height="{high}" fill="{DONE}"/>'
            )
    said, wasted = html.escape(of_request(request)), 32 * len(sectors) > request.itemsize * len(set(request.offsets))
    return (
        f'<svg role="img" aria-label="{said}" width="{left:.0f}" height="{high}" viewBox="0 0 {left:.0f} {high}" '
        f'style="display:block;margin:4px 0 0;max-width:100%">{"".join(parts)}</svg>'
        f'<small aria-hidden="true">{said} Blue: used.{" Orange: moved for nothing." if wasted else ""}</small>'
    )


def of_request(request: Request) -> str:
    """Say in a sentence what the drawing of a request shows: its lanes, its sectors, and how many of their bytes are used."""
    lanes, sectors = len(request.offsets), len(request.sectors)
    used = request.itemsize * len(set(request.offsets))
    what = "reads" if request.op == "load" else "writes" if request.op == "store" else "updates"
    return (
        f"One request of line {request.line}: {lanes} lane{'s' * (lanes != 1)}, {sectors} sector{'s' * (sectors != 1)} of 32 bytes. "
        f"It {what} {used} of the {32 * sectors:,} bytes that are moved."
    )


def _cut(offset: int, size: int) -> list[tuple[int, int]]:
    """(first byte, bytes) of each part of an item, cut where sectors meet."""
    first = min(size, 32 - offset % 32)
    return [(offset, first)] + ([(offset + first, size - first)] if size > first else [])


def code(sentence: str) -> str:
    """Escaped, with `code` spans."""
    parts = html.escape(sentence).split("`")
    if len(parts) % 2 == 0:  # an odd backtick stays what it is
        return "`".join(parts)
    return "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts))


# ------------------------------------------------------------------------------------------------ where it is wrong

SHADES = " ░▒▓█"


def error_map(found: ErrorMap) -> str:
    """The map of wrong elements as SVG."""
    cell = 10
    height, width = len(found.shares) * cell, len(found.shares[0]) * cell
    rectangles = "".join(
        f'<rect x="{c * cell}" y="{r * cell}" width="{cell - 1}" height="{cell - 1}" fill="{WRONG}" '
        f'fill-opacity="{0.12 + 0.88 * share if share else 0:.2f}" stroke="{EDGE}" stroke-width="0.4"/>'
        for r, row in enumerate(found.shares)
        for c, share in enumerate(row)
    )
    label = f"columns 0 to {found.columns - 1}, {_rows(found)} from the top; filled: wrong"
    return (
        f'<svg role="img" aria-label="Map of the wrong elements, all of them in {places(found)}" width="{width}" '
        f'height="{height}" viewBox="0 0 {width} {height}" style="display:block;margin:4px 0">{rectangles}</svg>'
        f"<small>{label}</small>"
    )


def error_map_text(found: ErrorMap) -> list[str]:
    """The map in characters, a line for each row."""
    width = len(found.shares[0])
    top = f"┌{'─' * width}┐ columns 0 to {found.columns - 1}"
    rows = ["│" + "".join(_shade(share) for share in row) + "│" for row in found.shares]
    rows[-1] += f" {_rows(found)}, top to bottom; blank: right, ░▒▓ some wrong, █ most or all"
    return [top, *rows, f"└{'─' * width}┘"]


def places(found: ErrorMap) -> str:
    """ "rows 0 to 63, columns 96 to 99": the least rectangle with all that is wrong."""
    top, bottom, left, right = found.extent
    return f"{_span('row', top, bottom)}, {_span('column', left, right)}"


def _span(what: str, first: int, last: int) -> str:
    return f"{what} {first}" if first == last else f"{what}s {first} to {last}"


def _rows(found: ErrorMap) -> str:
    """ "rows 0 to 99", and what they are where there are more than two dimensions."""
    count = math.prod(found.lead)
    each = f" ({count} matrices of {found.rows // count}, one below the other)" if found.lead and count > 1 else ""
    return f"rows 0 to {found.rows - 1}{each}"


def _shade(share: float) -> str:
    return SHADES[0] if share == 0 else SHADES[min(4, 1 + int(share * 4))]
