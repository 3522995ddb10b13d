"""A verdict as text and as HTML. Text first: it is what a terminal, a log and a screen reader get."""

from __future__ import annotations

import html as _html
import math
import textwrap

from course_lib.exercise import ErrorMap, Finding, Verdict

SHADES = " ░▒▓█"


def text(verdict: Verdict) -> str:
    """The verdict in plain text, one line per finding, what to look at below it."""
    return _printable(_text(verdict))


def _printable(sentence: str) -> str:
    """Remove what no terminal and no notebook file can take: half a surrogate pair, escape sequences."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in sentence)


def _text(verdict: Verdict) -> str:
    width = max([len(f.title) for f in _shown(verdict)] + [len(verdict.exercise), 34])
    lines = [f"{verdict.exercise:<{width + 2}}  {_earned(verdict)}"]
    for finding in _shown(verdict):
        points = "" if finding.gate else _points(finding.points, finding.out_of)
        lines.append(f"{_mark(finding)} {finding.title:<{width}}  {points:<9} {finding.seen}".rstrip())
        if line := _expected(finding):
            lines.append(f"    {line}")
        if finding.judged:
            lines += [f"    {part}" for part in textwrap.wrap(finding.detail, 110)]
            if finding.error_map:
                lines.append(f"    where it is wrong: {_places(finding.error_map)}")
                lines += [f"    {row}" for row in _map_text(finding.error_map)]
    if verdict.bonus:
        lines.append(f"extra credit: {verdict.bonus:g}")
    for sentence in filter(None, (_carried(verdict), verdict.remark)):
        lines += textwrap.wrap(sentence, 114)
    if verdict.printed:
        lines += ["your code printed:", textwrap.indent(verdict.printed.rstrip(), "    ")]
    return "\n".join(lines)


def _shown(verdict: Verdict) -> list[Finding]:
    """The findings; those that a failed gate left unjudged are one line. Of what could not be judged: why."""
    if not verdict.judged:
        return verdict.findings[:1]
    waiting = [f for f in verdict.findings if not f.judged and not f.bonus and not f.gate]
    if not waiting or not any(f.lost for f in verdict.findings if f.gate):
        return verdict.findings
    out_of = sum(f.out_of for f in waiting)
    rest = Finding("the other criteria", 0, out_of, "not_judged", seen="not judged until then")
    return [f for f in verdict.findings if f.judged or f.gate] + [rest]


def _carried(verdict: Verdict) -> str:
    """Say which points rest on the mistake of an earlier exercise, or ""."""
    points = sum(finding.carried for finding in verdict.findings)
    if not verdict.rests_on:
        return ""
    several = len(verdict.rests_on) > 1
    where = ", ".join(f"`{exercise}`" for exercise in verdict.rests_on)
    return (
        f"{points:g} of the {verdict.points:g} points were lost by {'mistakes' if several else 'a mistake'} in {where} and are "
        f"given back: with the published functions in place of yours from there, this is earned. One mistake costs once."
    )


def _expected(finding: Finding) -> str:
    """Say what a failed finding expected. A wrong result names its case, which tells the shape; a blank answer gets nothing."""
    if not finding.lost or (finding.cause and finding.cause.kind == "blank"):
        return ""
    if finding.on:
        return f"on {finding.on}"
    return f"expected: {finding.expected}" if finding.expected else ""


def html(verdict: Verdict) -> str:
    """The same as an HTML fragment without scripts: readable in light and dark themes, everything escaped."""
    return _printable(_html_of(verdict))


def _html_of(verdict: Verdict) -> str:
    escape = _html.escape
    rows = []
    for finding in _shown(verdict):
        points = "" if finding.gate else _points(finding.points, finding.out_of)
        below = ""
        if line := _expected(finding):
            below += f"<div>{escape(line)}</div>"
        if finding.judged:
            if finding.detail:
                below += f"<div>{code(finding.detail)}</div>"
            if finding.error_map:
                below += _map_svg(finding.error_map)
        word, tone = _standing(finding)
        said = f'<span role="img" aria-label="{word}" title="{word}" style="{CHIP}background:{tone}">{_mark(finding)}</span>'
        rows.append(
            f'<tr><td style="{CELL}">{said}</td>'
            f'<th scope="row" style="{CELL}font-weight:normal;white-space:nowrap">{escape(finding.title)}</th>'
            f'<td style="{CELL}white-space:nowrap">{points}</td>'
            f'<td style="{CELL}">{code(finding.seen)}{below}</td></tr>'
        )
    said = filter(None, (_carried(verdict), verdict.remark))
    remark = "".join(f'<div style="margin-top:6px">{code(sentence)}</div>' for sentence in said)
    printed = (
        f"<details><summary>what your code printed</summary><pre>{escape(verdict.printed)}</pre></details>"
        if verdict.printed
        else ""
    )
    bonus = f" &nbsp; extra credit {verdict.bonus:g}" if verdict.bonus else ""
    return (
        f'<div style="border-left:4px solid {_verdict_tone(verdict)};padding:4px 12px;margin:4px 0">'
        f"<div><b>{escape(verdict.exercise)}</b> &nbsp; <b>{_earned(verdict)}</b> points{bonus}</div>"
        '<table aria-label="criteria: mark, title, points, what was seen" '
        f'style="border-collapse:collapse;margin-top:4px;color:inherit">{"".join(rows)}</table>{remark}{printed}</div>'
    )


CELL = "text-align:left;vertical-align:top;padding:2px 10px 2px 0;border:none;background:none;color:inherit;"
# Okabe-Ito: told apart by colour-blind eyes, and seen on white and on JupyterLab's dark grey. No colour can be read as text
# on both (4.5 : 1), so marks are dark on a chip of it; mark and label say the same without colour
CHIP = "color:#111;font-weight:bold;border-radius:3px;padding:0 5px;"
PASSED, PARTIAL, FAILED, NEUTRAL = "#009E73", "#B8860B", "#D55E00", "#808080"


def _verdict_tone(verdict: Verdict) -> str:
    if not verdict.judged:
        return NEUTRAL
    if verdict.points >= verdict.out_of:
        return PASSED
    return PARTIAL if verdict.points > 0 else FAILED


def _standing(finding: Finding) -> tuple[str, str]:
    """A word for it, and a colour."""
    if not finding.judged:
        return "not judged", NEUTRAL
    if finding.passed:
        return "passed", PASSED
    return ("partly", PARTIAL) if finding.points > 0 else ("failed", FAILED)


def _mark(finding: Finding) -> str:
    if not finding.judged:
        return "·"
    return "✓" if finding.passed else "✗"


def _earned(verdict: Verdict) -> str:
    return _points(verdict.points, verdict.out_of) if verdict.judged else f"? / {verdict.out_of:g}"


def _points(points: float, out_of: float) -> str:
    return f"{points:g} / {out_of:g}"


def code(sentence: str) -> str:
    """Escaped, with `code` spans."""
    parts = _html.escape(sentence).split("`")
    if len(parts) % 2 == 0:  # an odd backtick stays what it is
        return "`".join(parts)
    return "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts))


def _map_text(error_map: ErrorMap) -> list[str]:
    width = len(error_map.shares[0])
    top = f"┌{'─' * width}┐ columns 0 to {error_map.columns - 1}"
    rows = ["│" + "".join(_shade(share) for share in row) + "│" for row in error_map.shares]
    rows[-1] += f" {_rows(error_map)}, top to bottom; blank: right, ░▒▓ some wrong, █ most or all"
    return [top, *rows, f"└{'─' * width}┘"]


def _places(error_map: ErrorMap) -> str:
    """ "rows 0 to 63, columns 96 to 99": the least rectangle with all that is wrong."""
    top, bottom, left, right = error_map.extent
    return f"{_span('row', top, bottom)}, {_span('column', left, right)}"


def _span(what: str, first: int, last: int) -> str:
    return f"{what} {first}" if first == last else f"{what}s {first} to {last}"


def _rows(error_map: ErrorMap) -> str:
    """ "rows 0 to 99", and what they are where there are more than two dimensions."""
    count = math.prod(error_map.lead)
    each = f" ({count} matrices of {error_map.rows // count}, one below the other)" if error_map.lead and count else ""
    return f"rows 0 to {error_map.rows - 1}{each}"


def _shade(share: float) -> str:
    return SHADES[0] if share == 0 else SHADES[min(4, 1 + int(share * 4))]


def _map_svg(error_map: ErrorMap) -> str:
    cell = 10
    height, width = len(error_map.shares) * cell, len(error_map.shares[0]) * cell
    rectangles = "".join(
        f'<rect x="{c * cell}" y="{r * cell}" width="{cell - 1}" height="{cell - 1}" fill="{FAILED}" '
        f'fill-opacity="{0.12 + 0.88 * share if share else 0:.2f}" stroke="{NEUTRAL}" stroke-width="0.4"/>'
        for r, row in enumerate(error_map.shares)
        for c, share in enumerate(row)
    )
    label = f"columns 0 to {error_map.columns - 1}, {_rows(error_map)} from the top; filled: wrong"
    return (
        f'<svg role="img" aria-label="Map of the wrong elements, all of them in {_places(error_map)}" width="{width}" '
        f'height="{height}" viewBox="0 0 {width} {height}" style="display:block;margin:4px 0">{rectangles}</svg>'
        f"<small>{label}</small>"
    )
