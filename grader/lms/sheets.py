"""The gradebook for a spreadsheet: a row for each student, or for each criterion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import grader
from course_lib.exercise import Verdict
from grader.gradebook.counts import ExerciseCounts
from grader.gradebook.results import Entry
from grader.lms.enrolled import Absent, Member
from grader.lms.matching import Rows

MORE = "more"  # before the id of an exercise whose points are not in the maximum


def by_exercise(
    counting: ExerciseCounts,
    entries: Sequence[Entry],
    members: Mapping[str, Member] = {},
    absent: Sequence[Absent] = (),
) -> Rows:
    """Return a row per student: section and group, the points of each exercise, those of More behind the path's, the extra credit (what
    counts of More, and for speed), the penalty for lateness, the score, the maximum, which is the path's, which exercises were given points
    or a comment by hand, and on which GPU kernels were judged, too. Who has handed in nothing comes last, without points."""
    exercises = [*counting.ids("path"), *counting.ids("more")]
    last = ["extra", "penalty", "score", "out_of", "by_hand", "gpu"]
    more = (f"{MORE} {id}" for id in counting.ids("more"))
    rows: Rows = [["student", "name", "section", "group", *counting.ids("path"), *more, *last]]

    def who(student: str, name: str) -> list[object]:
        member = members.get(student, Member())
        return [student, name, member.section, member.group]

    for entry in entries:
        points = [entry.scores[id] for id in exercises]
        numbers = [*points, sum(entry.extra.values()), entry.penalty, entry.score, counting.out_of]
        rows.append([*who(entry.student, entry.name), *numbers, " ".join(entry.by_hand), ", ".join(entry.gpus)])
    nothing = [None] * (len(exercises) + len(last))
    return rows + [[*who(*student), *nothing] for student in absent]


def by_criterion(unit: str, entries: Sequence[Entry], verdicts: Mapping[str, Mapping[str, Verdict]]) -> Rows:
    """Return a row per student, exercise and criterion: what was seen and what it earned, as the judge said it, how much of that was given
    back because an earlier exercise's mistake had cost it, and on which machine. Where something was given by hand, a row of the kind "by
    hand" follows, with the points that count and the comment.

    verdicts    student -> exercise -> verdict
    """
    rows: Rows = [
        [
            "student",
            "exercise",
            "criterion",
            "kind",
            "judged",
            "passed",
            "points",
            "out_of",
            "carried",
            "expected",
            "seen",
            "detail",
            "on",
        ]
    ]
    of_unit = grader.exercises(unit)
    for entry in entries:
        for id in of_unit:
            verdict = verdicts.get(entry.student, {}).get(id)
            for f in verdict.findings if verdict and verdict.judged else ():
                kind = "gate" if f.gate else "extra" if f.bonus else "criterion"
                expected = f"{f.expected} on {f.on}" if f.on else f.expected
                said = [f.points, f.out_of, f.carried, expected, f.seen, f.detail, verdict.on if verdict else ""]
                rows.append([entry.student, id, f.title, kind, *map(_yes, (f.judged, f.passed)), *said])
            if id in entry.by_hand:
                fields = entry.by_hand[id]
                said = [fields.points, of_unit[id].points, "", "", fields.comment, EARLIER if fields.review else "", ""]
                rows.append([entry.student, id, "", "by hand", "", "", *said])
    return rows


EARLIER = "given to an earlier answer, and not looked at since"


def _yes(value: bool) -> str:
    return "yes" if value else "no"
