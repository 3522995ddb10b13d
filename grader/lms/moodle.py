"""Marks and feedback for Moodle's offline grading worksheet."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

from course_lib.exercise import Finding, Verdict
from grader.gradebook.counts import ExerciseCounts
from grader.gradebook.results import Entry
from grader.lms import rosters, scale
from grader.lms.enrolled import Member, PersonKeys
from grader.lms.matching import Export, RosterMatch, Rows, without_doubles
from grader.lms.rosters import Roster
from grader.lms.sheets import MORE

MOODLE = (
    "Identifier",
    "Full name",
    "Email address",
    "Grade",
    "Maximum Grade",
    "Last modified (grade)",
    "Feedback comments",
)


def export(
    counting: ExerciseCounts,
    entries: Sequence[Entry],
    verdicts: Mapping[str, Mapping[str, Verdict]],
    roster: Roster | None = None,
    members: Mapping[str, Member] = {},
    out_of: str = "",
) -> Export:
    """Return the rows of Moodle's offline grading worksheet, with the roster's column names: Moodle looks for its own language's.

    Moodle needs Identifier ("Participant 123"), Grade and Last modified (grade), and takes the feedback as HTML. A grade
    that was changed in Moodle after the time given stays, so a worksheet downloaded there is the best roster. It refuses a
    grade above the maximum: who has more, by extra credit, gets the maximum.

    out_of    see scale.py
    """
    own, name = counting.out_of, "the column 'Maximum Grade'"

    def comments(entry: Entry) -> str:
        return feedback(entry, verdicts.get(entry.student, {}), counting)

    students = roster.of_lms("moodle", "identifier", "grade") if roster else []
    if not students:
        if any(len(members.get(e.student, Member()).ids) > 1 for e in entries):
            raise rosters.NotARoster(
                "Moodle numbers participants anew in each assignment: give this one's grading worksheet with --roster."
            )
        scale.scale(own, None, out_of, name)
        entries, doubles = without_doubles(entries)
        rows: Rows = [
            [f"Participant {e.lms_id}" if e.lms_id else "", e.name, e.email, min(e.score, own), own, "", comments(e)]
            for e in entries
            if e.score is not None
        ]
        cut = [e.student for e in entries if e.score is not None and e.score > own]
        return Export([list(MOODLE), *rows], doubles=doubles, cut=cut)
    people = [
        PersonKeys([rosters.number(row["Identifier"])], [row.get("Email address", ""), row.get("ID number", "")])
        for row in students
    ]
    match = RosterMatch(students, people, entries, members)
    columns = list(dict.fromkeys([*students[0], "Feedback comments"]))
    maxima = [number for row in students if (number := scale.number(row.get("Maximum Grade", ""))) is not None]
    theirs = maxima[0] if maxima else None
    worth = scale.scale(own, theirs, out_of, name)
    if theirs is not None and theirs < own and out_of == "unit":
        raise scale.OtherMaximum(
            f"Moodle refuses grades above its maximum of {theirs:g}, and the unit has {own:g} points: set that maximum to {own:g} and "
            "download the worksheet again, or say `--out-of column`."
        )
    rows: Rows = []
    cut: list[str] = []
    for row, entry in match.pairs:
        graded = {}
        if entry and entry.score is not None:
            score = round(worth * entry.score, 2)
            if theirs is not None and score > theirs:
                cut.append(entry.student)
                score = theirs
            graded = {"Grade": score, "Feedback comments": comments(entry)}
        rows.append([graded.get(name, row.get(name, "")) for name in columns])
    names = roster.names("moodle") if roster else {}
    header: list[object] = [names.get(name, name) for name in columns]
    return Export([header, *rows], match.unknown, match.absent("Full name"), doubles=match.doubles, cut=cut)


def feedback(entry: Entry, verdicts: Mapping[str, Verdict], counting: ExerciseCounts) -> str:
    """Return one line of HTML per exercise that counts, in which nothing that a student wrote is active."""
    lines = []
    for id in [*counting.ids("path"), *counting.ids("more")]:
        points, exercise = entry.scores[id], counting.exercises[id]
        name = id if counting.ways[id] == "path" else f"{MORE} {id}"
        line = f"{name}: {'not graded' if points is None else f'{points:g}'} / {exercise.points:g}"
        verdict, by_hand = verdicts.get(id), []
        if fields := entry.by_hand.get(id):
            line += ", given by hand" if fields.points is not None else ""
            by_hand = [fields.comment.strip()] if fields.comment else []
        failed = [f"{f.missed}: {f.seen}" for f in verdict.findings if explains(f)] if verdict else []
        if verdict and failed and fields and fields.points is not None:
            failed[0] = f"Judged {verdict.points:g}: {failed[0]}"
        lines.append(html.escape(". ".join([line, *by_hand, *failed])))
    if entry.penalty:
        lines.append(f"late: -{entry.penalty:g}")
    if entry.gpus:
        lines.append(html.escape(f"kernels judged on {', '.join(entry.gpus)}, too"))
    return "<br>".join(lines)


def explains(finding: Finding) -> bool:
    """Whether a finding lost points, and not for a reason that another has given."""
    return finding.lost and not finding.bonus and finding.status != "same_cause"
