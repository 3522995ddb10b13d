"""Asks the compiler in the background what it was not asked in time during a check, and shows its answer below the verdict."""

from __future__ import annotations

import threading
from collections.abc import Callable

from course_lib.exercise import Verdict
from course_lib.render import cells
from course_lib.render.drawings import code
from course_lib.render.verdict_card import findings_html
from course_lib.render.verdicts import of_finding
from tritontrace.replay import child, wire

SECONDS = 60.0  # on the clock, for the compiler; and of CPU for what is observed once more
GOES_ON = "The compiler goes on: what it says stands here then."
NO_END = f"The compiler was asked again for {SECONDS:g} seconds, and did not end."
_one_at_a_time = threading.Lock()


def go_on(first: Verdict, again: Callable[[], Verdict]) -> threading.Thread:
    """Judge `again`, with patience, in a child of a thread of its own; below the cell's value stands what `first` did not say."""
    place = cells.Below(GOES_ON)

    def work() -> None:
        with _one_at_a_time:
            try:
                tree, _ = child.run(lambda: wire.to_tree(again()), seconds=SECONDS)
            except (child.ChildLost, ValueError):
                return place.show(NO_END, code(NO_END))
        place.show(*_shown(first, wire.from_tree(Verdict, tree)))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def _shown(first: Verdict, then: Verdict) -> tuple[str, str]:
    """The findings that were late, as they are now, in text and in HTML."""
    late = {finding.key for finding in first.findings if finding.late}
    findings = [finding for finding in then.findings if finding.key in late]
    if any(finding.late for finding in findings):
        return NO_END, code(NO_END)
    heading = "The compiler has ended since:"
    if then.points < first.points:  # never more: what was lost on a GPU was not asked again
        heading = f"The compiler has ended since; what it says makes {then.points:g} of {then.out_of:g} points:"
    return "\n".join([heading, *map(of_finding, findings)]), code(heading) + findings_html(findings)
