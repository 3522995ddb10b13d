"""A verdict as an HTML card without scripts, the same in a notebook, on a feedback page and on the site.

The outcome is largest, the score stands at one place, then what helps most. What lost points follows with its line and what it spent;
each other criterion is a chip, and what was seen of those that hold is folded. Everything is escaped, and readable in light
and dark themes.
"""

from __future__ import annotations

import html as _html

from course_lib.exercise import CodeLine, Finding, Verdict
from course_lib.exercises import find, titles
from course_lib.exercises.hints import hints_on
from course_lib.render import drawings
from course_lib.render.drawings import code
from course_lib.render.verdicts import (
    OUTCOMES,
    advice,
    asked,
    earned,
    expected,
    gpu_line,
    points_of,
    printable,
    shown,
    standing,
    unquoted,
)
from tritontrace.colours import DARK, EDGE, HOLDS

# no colour can be read as text on white and on dark grey (4.5 : 1), so signs are dark on a chip of it; sign and label say
# the same without colour
CHIP = f"color:{DARK};font-weight:bold;border-radius:3px;display:inline-block;width:1.5em;text-align:center;"
CELL = "text-align:left;vertical-align:top;padding:2px 10px 2px 0;border:none;background:none;color:inherit;"
TINT = "22"  # of 255: a colour this thin leaves text readable in both themes
SIDES = "display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,19rem),1fr));gap:4px 28px;"
PILL = (
    "display:inline-block;max-width:100%;box-sizing:border-box;border-radius:1em;padding:1px 8px;"
    "margin:2px 5px 2px 0;font-size:0.92em;"
)


def html(verdict: Verdict, after: str = "") -> str:
    """Render the verdict as an HTML fragment. after: a sentence on what comes next."""
    findings = shown(verdict)
    told = [f for f in findings if f.lost or (f.judged and f.detail)]
    parts = [
        *(f'<div style="margin:2px 0 4px">{code(sentence)}</div>' for sentence in (*asked(verdict), *advice(verdict))),
        _hints(verdict),
        *map(_block, told),
        _picture(findings) if verdict.outcome == "right" else "",
        _chips([f for f in findings if f not in told]),
        _folded([f for f in findings if f not in told and f.judged]),
        _quiet(gpu_line(verdict)),
        f'<div style="margin-top:6px">{code(after)}</div>' if after else "",
        _printed(verdict),
    ]
    tone = OUTCOMES[verdict.outcome][2]
    frame = f"border:1px solid #8886;border-left:5px solid {tone};border-radius:6px;margin:6px 0;max-width:60rem"
    fits = "overflow:hidden;overflow-wrap:anywhere"
    return printable(
        f'<div style="{frame};{fits}">{_head(verdict)}<div style="padding:6px 14px 10px">{"".join(parts)}</div></div>'
    )


def _head(verdict: Verdict) -> str:
    words, sign, tone = OUTCOMES[verdict.outcome]
    bonus = f" and {verdict.bonus:g} extra" if verdict.bonus else ""
    line = f"display:flex;flex-wrap:wrap;align-items:baseline;gap:2px 14px;padding:6px 14px;background:{tone}{TINT}"
    large = "font-size:1.3em;font-weight:bold"
    return (
        f'<div style="{line}"><span style="{large}"><span aria-hidden="true" style="{CHIP}background:{tone}">{sign}</span> '
        f"{words}</span> <span>{_html.escape(titles.title(verdict.exercise))}</span> "
        f'<span style="margin-left:auto"><span style="{large}">{earned(verdict)}</span> points{bonus} {_pips(verdict)}</span></div>'
    )


def _pips(verdict: Verdict) -> str:
    """A box for each point, filled where it is earned; of many points, twenty boxes."""
    boxes = min(20, round(verdict.out_of)) if verdict.judged else 0
    full = round(boxes * verdict.points / verdict.out_of) if boxes else 0
    drawn = "".join(
        f'<rect x="{8 * i + 0.5}" y="0.5" width="6" height="9" stroke="{EDGE}" fill="{HOLDS if i < full else "none"}"/>'
        for i in range(boxes)
    )
    return f'<svg aria-hidden="true" width="{8 * boxes}" height="10" viewBox="0 0 {8 * boxes} 10">{drawn}</svg>'


def _hints(verdict: Verdict) -> str:
    """The hints of an exercise that is tried and not right, each behind a click on the one before."""
    try:
        hints = hints_on(find(verdict.exercise).id)
    except ValueError:
        return ""
    if verdict.outcome in ("right", "waiting", "not_judged", "not_begun"):
        return ""
    inner = ""
    for number, hint in reversed([*enumerate(hints, 1)]):
        inner = f"<details><summary>hint {number} of {len(hints)}</summary><div>{code(hint)}</div>{inner}</details>"
    return inner


def _block(finding: Finding) -> str:
    """A finding with all that it says, and below it, side by side, its drawings."""
    spent = drawings.bars(finding.spent) if finding.spent and finding.lost else ""
    head = f"{chip(*standing(finding))} <b>{_html.escape(finding.title)}</b>{_worth(finding)}"
    drawn = [*_drawn(finding), *[spent] * bool(spent)]
    return f'<div style="margin-top:10px">{head}{_said(finding, bool(spent))}{_side_by_side(drawn)}</div>'


def _picture(findings: list[Finding]) -> str:
    """Draw how the request of a right kernel's busiest line falls on memory, and what all of them spend."""
    falls = next((drawings.lanes(f.request) for f in findings if f.request), "")
    spends = next((drawings.bars(f.spent) for f in reversed(findings) if f.spent), "")
    return _side_by_side([part for part in (falls, spends) if part])


def _side_by_side(drawn: list[str]) -> str:
    """Drawings in as many columns as fit."""
    return f'<div style="{SIDES}">{"".join(f"<div>{each}</div>" for each in drawn)}</div>' if drawn else ""


def _worth(finding: Finding) -> str:
    return (
        "" if finding.gate else f' <span style="white-space:nowrap">{points_of(finding.points, finding.out_of)}</span>'
    )


def _said(finding: Finding, drawn: bool) -> str:
    """Say what was seen, below it what was expected, and the line. drawn: the numbers are in a drawing."""
    line = "" if drawn else _html.escape(expected(finding))
    where = f' <span style="opacity:0.75">({line})</span>' if line and finding.on else line and f"<br>{line}"
    seen, *details = (unquoted(each, finding.at) for each in (finding.seen, *finding.detail.splitlines()))
    parts = [] if drawn else [f"<div>{code(seen)}{where}</div>"]
    if finding.judged:
        parts += [f"<div>{code(detail)}</div>" for detail in details]
        parts += [_lit(finding.at, standing(finding)[2])] if finding.at else []
    return "".join(parts)


def _drawn(finding: Finding) -> list[str]:
    """The drawings of a finding that lost points: a request that wastes, and where the result is wrong."""
    wastes = [drawings.lanes(finding.request)] if finding.lost and finding.request else []
    return wastes + ([drawings.error_map(finding.error_map)] if finding.lost and finding.error_map else [])


def _lit(line: CodeLine, tone: str) -> str:
    """A line of the cell, with its number, as the cell shows it; where it is broken, its rest stands below its code."""
    indent = f"{len(str(line.number)) + 2}ch"
    style = f"border-left:3px solid {tone};background:{tone}{TINT};padding:2px 8px;margin:3px 0;font-family:monospace"
    return (
        f'<div style="{style};padding-left:calc(8px + {indent});text-indent:-{indent}">'
        f'<span style="opacity:0.75">{line.number}</span>&nbsp; {_html.escape(line.source)}</div>'
    )


def _chips(findings: list[Finding]) -> str:
    """Each criterion that has no block of its own as a quiet pill."""
    pills = "".join(f'<li style="{PILL}border:1px solid #8886">{_pill(f)}</li>' for f in findings)
    label = "other criteria"
    return f'<ul aria-label="{label}" style="list-style:none;padding:0;margin:8px 0 0">{pills}</ul>' if pills else ""


def _pill(finding: Finding) -> str:
    word, sign, _ = standing(finding)
    seen = "" if finding.judged else f": {code(finding.seen)}" if finding.seen else ""
    sign = f'<span role="img" aria-label="{word}" title="{word}">{sign}</span>'
    return f"{sign} {_html.escape(finding.title)}{seen}{_worth(finding) if finding.judged else ''}"


def _folded(holds: list[Finding]) -> str:
    if not holds:
        return ""
    return f'<details style="margin-top:4px"><summary>what was seen where they hold</summary>{findings_html(holds)}</details>'


def chip(word: str, sign: str, tone: str) -> str:
    """Render a sign on a coloured chip of fixed width, with a word for screen readers."""
    return f'<span role="img" aria-label="{word}" title="{word}" style="{CHIP}background:{tone}">{sign}</span>'


def findings_html(findings: list[Finding]) -> str:
    """Render findings as an HTML table: mark, title, points, what was seen."""
    rows = "".join(
        f'<tr><td style="{CELL}">{chip(*standing(finding))}</td>'
        f'<th scope="row" style="{CELL}font-weight:normal">{_html.escape(finding.title)}</th>'
        f'<td style="{CELL}">{_worth(finding)}</td><td style="{CELL}">{_said(finding, False)}{"".join(_drawn(finding))}</td></tr>'
        for finding in findings
    )
    label = "criteria: mark, title, points, what was seen"
    style = "border-collapse:collapse;margin-top:4px;color:inherit"
    return f'<table aria-label="{label}" style="{style}">{rows}</table>' if rows else ""


def _quiet(sentence: str) -> str:
    return f'<div style="opacity:0.75;margin-top:4px">{_html.escape(sentence)}</div>' if sentence else ""


def _printed(verdict: Verdict) -> str:
    if not verdict.printed:
        return ""
    text = f'<pre style="overflow-x:auto">{_html.escape(verdict.printed)}</pre>'
    return f"<details><summary>what your code printed</summary>{text}</details>"
