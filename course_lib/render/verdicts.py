"""A verdict as text: what a terminal and a log get. card.py shows the same as HTML.

Both say first what came of it, and the sentence that helps most; then what lost points, and last what holds.
"""

from __future__ import annotations

import re
import textwrap

from course_lib.catalogue import say
from course_lib.exercise import CodeLine, Finding, Outcome, Verdict
from course_lib.exercises import find
from course_lib.hardware.measurements import measured
from course_lib.render import drawings
from tritontrace.colours import EDGE, HOLDS, PARTLY, WRONG

SIGNS: dict[Outcome, tuple[str, str]] = {  # its sign, its colour
    "right": ("✓", HOLDS),
    "wasteful": ("≈", PARTLY),
    "partly": ("◐", PARTLY),
    "wrong": ("✗", WRONG),
    "waiting": ("…", EDGE),
    "not_begun": ("○", EDGE),
    "did_not_run": ("✗", WRONG),
    "not_accepted": ("✗", WRONG),
    "not_judged": ("?", EDGE),
    "excused": ("–", EDGE),
}
OUTCOMES = {
    name: (say(f"shown.outcome.{name}"), *looks) for name, looks in SIGNS.items()
}  # its words, its sign, its colour


def text(verdict: Verdict, after: str = "") -> str:
    """Render the verdict in plain text, one line per finding, with details below it. after: a sentence on what comes next."""
    return printable("\n".join([_text(verdict), *textwrap.wrap(after, 114)]))


def printable(sentence: str) -> str:
    """Replace what no terminal and no notebook file can take: half a surrogate pair, escape sequences."""
    if re.sub(r"[\n\t]", "", sentence).isprintable():
        return sentence
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in sentence)


def _text(verdict: Verdict) -> str:
    findings = shown(verdict)
    width = max([len(f.title) for f in findings] + [len(verdict.exercise), 34])
    words, sign, _ = OUTCOMES[verdict.outcome]
    lines = [f"{verdict.exercise:<{width + 2}}  {earned(verdict)}  {sign} {words}"]
    for sentence in (*asked(verdict), *advice(verdict)):
        lines += textwrap.wrap(sentence, 114)
    for finding in findings:
        lines += _finding(finding, width)
    if verdict.bonus:
        lines.append(say("shown.verdict.extra", points=verdict.bonus))
    lines += textwrap.wrap(gpu_line(verdict), 114)
    if verdict.printed:
        lines += [say("shown.verdict.printed"), textwrap.indent(verdict.printed.rstrip(), "    ")]
    return "\n".join(lines)


def of_finding(finding: Finding) -> str:
    """Render one finding in plain text, as it stands in the verdict."""
    return printable("\n".join(_finding(finding, len(finding.title))))


def _finding(finding: Finding, width: int) -> list[str]:
    """The lines of one finding, its title as wide as others are."""
    points = "" if finding.gate else points_of(finding.points, finding.out_of)
    seen, detail = (unquoted(sentence, finding.at) for sentence in (finding.seen, finding.detail))
    lines = [f"{standing(finding)[1]} {finding.title:<{width}}  {points:<9} {seen}".rstrip()]
    if line := expected(finding):
        lines.append(f"    {line}")
    if finding.judged:
        lines += [f"    {part}" for line in detail.splitlines() for part in textwrap.wrap(line, 110)]
        if finding.at:
            lines.append(f"    {finding.at.number} │ {finding.at.source}")
        if finding.request and finding.lost:
            lines += [f"    {part}" for part in textwrap.wrap(drawings.of_request(finding.request), 110)]
        if finding.error_map:
            lines.append(f"    {say('shown.verdict.place', places=drawings.places(finding.error_map))}")
            lines += [f"    {row}" for row in drawings.error_map_text(finding.error_map)]
    return lines


def shown(verdict: Verdict) -> list[Finding]:
    """List the findings to show, those that lost points first; those that a failed gate left unjudged are one line. If nothing was judged,
    only the first, which says why."""
    if not verdict.judged:
        return verdict.findings[:1]
    findings = verdict.findings
    waiting = [f for f in findings if not f.judged and not f.bonus and not f.gate]
    if waiting and any(f.lost for f in findings if f.gate):
        out_of = sum(f.out_of for f in waiting)
        rest = Finding(say("shown.verdict.others"), 0, out_of, "not_judged", seen=say("shown.verdict.not_yet"))
        findings = [f for f in findings if f.judged or f.gate] + [rest]
    return sorted(_folded_causes(findings), key=lambda f: 1 if f.passed else 0 if f.judged else 2)


def _folded_causes(findings: list[Finding]) -> list[Finding]:
    """The findings, those that were lost by a cause that is told already as one line: one mistake is told once, with what it costs."""
    again = [f for f in findings if f.status == "same_cause"]
    if len(again) < 2:
        return findings
    title, points = say("shown.verdict.more", criteria=len(again)), sum(f.points for f in again)
    titles = "; ".join(f.title for f in again)
    seen = say("shown.verdict.told_above", titles=titles)
    row = Finding(title, points, sum(f.out_of for f in again), "same_cause", seen=seen)
    row.about, row.cause = ("cost" if all(f.wasteful for f in again) else "result"), again[0].cause
    return [f for f in findings if f.status != "same_cause"] + [row]


def asked(verdict: Verdict) -> list[str]:
    """Return a sentence on the student's task as a list, [] unless it has a twist."""
    return [say("shown.verdict.task", task=verdict.asked)] if verdict.asked else []


def advice(verdict: Verdict) -> list[str]:
    """List the sentences below the headline: what helps most, and which points depend on an earlier mistake."""
    return [sentence for sentence in (verdict.remark, _one_mistake(verdict), _carried(verdict)) if sentence]


def _one_mistake(verdict: Verdict) -> str:
    """Say what one mistake costs where it alone loses points in several criteria."""
    lost = [f for f in verdict.findings if f.lost and not f.bonus and not f.gate]
    alike = lost and lost[0].cause and all(f.cause == lost[0].cause for f in lost)
    points = sum(f.out_of - f.points for f in lost)
    return (
        say("shown.verdict.one_mistake", points=points)
        if alike and len(lost) > 1 and points and not lost[0].blank
        else ""
    )


def _carried(verdict: Verdict) -> str:
    """Say which points rest on the mistake of an earlier exercise, or ""."""
    points = sum(finding.carried for finding in verdict.findings)
    if not verdict.rests_on:
        return ""
    where = [f"`{exercise}`" for exercise in verdict.rests_on]
    facts = {"carried": points, "points": verdict.points, "mistakes": len(where)}
    return say("shown.verdict.given_back", **facts, exercises=where)


def expected(finding: Finding) -> str:
    """Return a phrase on what a failed finding expected. A wrong result names its case, which tells the shape; a blank answer gets ""."""
    if not finding.lost or finding.blank:
        return ""
    if finding.on:
        return say("shown.verdict.on", case=finding.on)
    return say("shown.verdict.expected", expected=finding.expected) if finding.expected else ""


def unquoted(sentence: str, at: CodeLine | None) -> str:
    """Return a sentence without the text of the line that is shown below it."""
    return sentence.replace(f": `{at.source}`", "", 1) if at else sentence


def gpu_line(verdict: Verdict) -> str:
    """Return a sentence on the GPU on which the kernels ran, too; if they earned points and ran on none, on what the published answer
    reached on the recorded one."""
    if verdict.gpu:
        return say("shown.verdict.on_gpu", gpu=verdict.gpu)
    ran = any(f.key == "right_on_gpu" for f in verdict.findings)
    try:
        exercise = find(verdict.exercise)
    except ValueError:
        return ""
    if ran or not verdict.points or exercise.kind != "kernel":
        return ""
    recorded = measured("answers")
    row = recorded["answers"].get(exercise.id, {})
    if "ratio" not in row:
        return say("shown.verdict.no_gpu")
    facts = {name: row[name] for name in ("microseconds", "case", "ratio", "against")}
    return say("shown.verdict.recorded", machine=recorded["machine"], date=recorded["date"], **facts)


def standing(finding: Finding) -> tuple[str, str, str]:
    """Return a finding's state as a word, a sign and a colour."""
    if not finding.judged:
        return "not judged", "·", EDGE
    if finding.passed:
        return "passed", "✓", HOLDS
    if finding.blank:
        return "not begun", "○", EDGE
    if finding.points > 0:
        return "partly", "◐", PARTLY
    return ("wasteful", "≈", PARTLY) if finding.wasteful else ("failed", "✗", WRONG)


def earned(verdict: Verdict) -> str:
    """Return the points as "7 / 10"; a question mark where the grader failed."""
    return points_of(verdict.points, verdict.out_of) if verdict.judged else f"? / {verdict.out_of:g}"


def points_of(points: float, out_of: float) -> str:
    """Format points as "7 / 10"."""
    return f"{points:g} / {out_of:g}"
