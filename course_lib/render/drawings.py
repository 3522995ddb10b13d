"""The small drawings of a verdict as HTML and SVG without scripts: where a result is wrong, what was spent, where lanes fell."""

from __future__ import annotations

import html
import math

from course_lib.catalogue import say
from course_lib.exercise import ErrorMap, Request, Spent
from tritontrace.colours import DONE, EDGE, OURS, WASTE, WRONG

BAR = 260  # pixels of the longer of two bars
STRIP = 560  # pixels that a request may take
FEW = 8  # sectors of a request, up to which each has room for its lanes


def bars(spent: Spent) -> str:
    """Render two bars to one scale, what would do and what was spent, with their ratio in large, as HTML. What was spent for nothing is
    pale and hatched, as in every picture."""
    longest = max(spent.spent, spent.needed, 1e-9)
    times, allowed = in_times(spent)
    on = f" on {spent.on}" if spent.on else ""
    needed, used = (max(2, round(BAR * value / longest)) for value in (spent.needed, spent.spent))
    return (
        f"<div><small>would do{html.escape(on)}</small></div>"
        f"<div>{_bar(needed)} <b>{_number(spent.needed)} {code(spent.unit)}</b></div>"
        f"<div><small>{spent.done} by your program</small></div>"
        f"<div>{_bar(min(used, needed), used - needed)}</div>"
        f'<div><span style="font-size:1.25em;font-weight:bold">{_number(spent.spent)}: {times}</span> <small>({allowed})</small></div>'
    )


def _bar(used: int, waste: int = 0) -> str:
    """A bar of pixels that were needed, and behind them of pixels for nothing."""
    width, pale = used + max(0, waste), ""
    if waste > 0:
        lines = "".join(f"M{x} 14l7-14" for x in range(used, width, 8))
        pale = f'<rect x="{used}" width="{waste}" height="14" fill="{WASTE}"/><path d="{lines}" stroke="{EDGE}" stroke-width="0.8"/>'
    return (
        f'<svg aria-hidden="true" width="{width}" height="14" viewBox="0 0 {width} 14" style="max-width:100%">'
        f'<rect width="{used}" height="14" fill="{OURS}"/>{pale}</svg>'
    )


def in_times(spent: Spent) -> tuple[str, str]:
    """Return two phrases: how many times as much was spent as would do, and how many times are allowed."""
    times, allowed = (value / max(spent.needed, 1e-9) for value in (spent.spent, spent.allowed))
    several, limit = _told_apart(times, allowed)
    return (
        say("shown.drawing.no_more")
        if several == "1"
        else say("shown.drawing.times", times=several)
        if times < 1000
        else say("shown.drawing.many"),
        say("shown.drawing.allowed", times=limit) if allowed > 1 else say("shown.drawing.none_allowed"),
    )


def _told_apart(one: float, other: float) -> tuple[str, str]:
    """Both numbers to three digits, or to as many as it takes to tell them apart."""
    digits = next((d for d in range(3, 9) if one == other or f"{one:.{d}g}" != f"{other:.{d}g}"), 9)
    return f"{one:.{digits}g}", f"{other:.{digits}g}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def lanes(request: Request) -> str:
    """Render one request over the sectors that it touches, as SVG: used bytes are filled, those moved for nothing are pale."""
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
            f'<rect x="{left:.1f}" y="0" width="{wide}" height="{high}" fill="{WASTE}" stroke="{EDGE}" stroke-width="0.6"/>'
        )
        left += wide
    for offset in sorted(set(request.offsets)):
        for byte, count in _cut(offset, request.itemsize):
            x = place[byte // 32] + byte % 32 * per_byte
            parts.append(
                f'<rect x="{x:.1f}" y="0" width="{max(1.5, count * per_byte - (0.5 if len(sectors) <= FEW else 0)):.1f}" '
                f'height="{high}" fill="{DONE}"/>'
            )
    said, wasted = of_request(request), 32 * len(sectors) > request.itemsize * len(set(request.offsets))
    below = html.escape(say("shown.drawing.used", request=said, wasted=wasted))
    return (
        f'<svg role="img" aria-label="{html.escape(said)}" width="{left:.0f}" height="{high}" viewBox="0 0 {left:.0f} {high}" '
        f'style="display:block;margin:4px 0 0;max-width:100%">{"".join(parts)}</svg>'
        f'<small aria-hidden="true">{below}</small>'
    )


def of_request(request: Request) -> str:
    """Return a sentence on the drawing of a request: its lanes, its sectors, and how many of their bytes are used."""
    lanes, sectors = len(request.offsets), len(request.sectors)
    used = request.itemsize * len(set(request.offsets))
    counts = {"lanes": lanes, "sectors": sectors, "used": used, "moved": 32 * sectors}
    return say("shown.drawing.request", line=request.line, **counts, does=say(f"shown.drawing.{request.op}"))


def _cut(offset: int, size: int) -> list[tuple[int, int]]:
    """(first byte, bytes) of each part of an item, cut where sectors meet."""
    first = min(size, 32 - offset % 32)
    return [(offset, first)] + ([(offset + first, size - first)] if size > first else [])


def code(sentence: str) -> str:
    """Escape a sentence for HTML, with `code` in <code> elements."""
    parts = html.escape(sentence).split("`")
    if len(parts) % 2 == 0:  # an odd backtick stays what it is
        return "`".join(parts)
    return "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts))


# ------------------------------------------------------------------------------------------------ where it is wrong

SHADES = " ░▒▓█"


def error_map(found: ErrorMap) -> str:
    """Render the map of wrong elements as SVG."""
    cell = 10
    height, width = len(found.shares) * cell, len(found.shares[0]) * cell
    rectangles = "".join(
        f'<rect x="{c * cell}" y="{r * cell}" width="{cell - 1}" height="{cell - 1}" fill="{WRONG}" '
        f'fill-opacity="{0.12 + 0.88 * share if share else 0:.2f}" stroke="{EDGE}" stroke-width="0.4"/>'
        for r, row in enumerate(found.shares)
        for c, share in enumerate(row)
    )
    label = say("shown.drawing.map_below", columns=found.columns - 1, rows=_rows(found))
    return (
        f'<svg role="img" aria-label="{say("shown.drawing.map", places=places(found))}" width="{width}" '
        f'height="{height}" viewBox="0 0 {width} {height}" style="display:block;margin:4px 0">{rectangles}</svg>'
        f"<small>{label}</small>"
    )


def error_map_text(found: ErrorMap) -> list[str]:
    """Render the map of wrong elements in characters, a line for each row."""
    width = len(found.shares[0])
    top = f"┌{'─' * width}┐ {say('shown.drawing.map_columns', columns=found.columns - 1)}"
    rows = ["│" + "".join(_shade(share) for share in row) + "│" for row in found.shares]
    rows[-1] += " " + say("shown.drawing.map_rows", rows=_rows(found))
    return [top, *rows, f"└{'─' * width}┘"]


def places(found: ErrorMap) -> str:
    """Return a phrase such as "rows 0 to 63, columns 96 to 99": the smallest rectangle that holds all wrong elements."""
    top, bottom, left, right = found.extent
    return f"{_span('row', top, bottom)}, {_span('column', left, right)}"


def _span(what: str, first: int, last: int) -> str:
    return say(f"shown.drawing.{what}", one=first == last, first=first, last=last)


def _rows(found: ErrorMap) -> str:
    """ "rows 0 to 99", and what they are where there are more than two dimensions."""
    count = math.prod(found.lead)
    several, each = bool(found.lead) and count > 1, found.rows // max(1, count)
    return say("shown.drawing.rows", last=found.rows - 1, several=several, matrices=count, each=each)


def _shade(share: float) -> str:
    return SHADES[0] if share == 0 else SHADES[min(4, 1 + int(share * 4))]
