"""Shows below a verdict what it does not wait for: what the compiler was not asked in time, and times on a GPU."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from course_lib.catalogue import say
from course_lib.exercise import Finding, Verdict
from course_lib.render import cells
from course_lib.render.drawings import code
from course_lib.render.verdict_card import findings_html
from course_lib.render.verdicts import of_finding
from tritontrace.replay import child, wire

SECONDS = 60.0  # on the clock, for the compiler; and of CPU for what is observed once more
BELOW = "below a verdict"  # the threads' name
GOES_ON = say("shown.afterwards.goes_on")
NO_END = say("shown.afterwards.no_end", seconds=SECONDS)
NOT_TIMED = say("shown.afterwards.not_timed")
_one_at_a_time = threading.Lock()
Shown = tuple[str, str]
"""Text, and the same as HTML."""


def below(meanwhile: str, work: Callable[[], Shown]) -> threading.Thread:
    """Run `work` in a thread, and show its result below the current cell's value; until then, `meanwhile`."""
    place = cells.Below(meanwhile)
    thread = threading.Thread(target=lambda: place.show(*work()), daemon=True, name=BELOW)
    thread.start()
    return thread


def go_on(first: Verdict, again: Callable[[], Verdict], keep: Callable[[Verdict], str]) -> threading.Thread:
    """Judge again, with patience, in a child, and show below the cell's value what the first verdict did not say.

    keep   keeps the points that hold then, and returns a sentence on what comes next, or ""
    """

    def work() -> Shown:
        with _one_at_a_time:
            try:
                tree, _ = child.run(lambda: wire.to_tree(again()), seconds=SECONDS)
                then = wire.from_tree(Verdict, tree)
            except (child.ChildLost, ValueError):
                then = first
        late = {finding.key for finding in first.findings if finding.late}
        findings = [finding for finding in then.findings if finding.key in late]
        if not findings or any(finding.late for finding in findings):
            keep(first)
            return NO_END, code(NO_END)
        points = min(first.points, then.points)  # never more: what was lost on a GPU was not asked again
        after = keep(replace(then, points=points, bonus=0.0))
        heading = say("shown.afterwards.ended")
        if then.points <= first.points:
            heading = say("shown.afterwards.ended_with", points=points, out_of=then.out_of)
        new = [sentence for sentence in (then.remark, after) if sentence and sentence != first.remark]
        text = "\n".join([heading, *map(of_finding, findings), *new])
        return text, code(heading) + findings_html(findings) + "".join(f"<div>{code(one)}</div>" for one in new)

    return below(GOES_ON, work)


def in_time(findings: Sequence[Finding], gpu: str) -> Shown:
    """Render the findings on speed, measured since, as text and as HTML."""
    extra = sum(finding.points for finding in findings)
    heading = say("shown.afterwards.timed", gpu=gpu, extra=extra) if gpu else say("shown.afterwards.untimed")
    return "\n".join([heading, *map(of_finding, findings)]), code(heading) + findings_html([*findings])
