"""A term on one page: each student through the units, who falls behind, and which exercises cost the class most.

The numbers are the gradebook's, so a unit is there once it has been graded. The latest is the one that was graded last.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal

from course_lib.exercises import UNITS, titles
from course_lib.version import VERSION
from grader import disk
from grader.gradebook import amended, counts, results
from grader.gradebook.results import Entry
from grader.lms import enrolled
from grader.reporting import effort, report
from grader.reporting.effort import CountedEffort, Shared

HALF = 0.5  # of a unit's maximum: with less, somebody is behind
FALL = 0.25  # of the maximum below one's own mean of all earlier units
COSTLY = 3  # exercises of each unit that are named

Reason = Literal["nothing", "low", "fell"]
WORDS: dict[Reason, str] = {
    "nothing": "handed in nothing that could be graded",
    "low": "less than half of the points",
    "fell": "a quarter of the points below the mean of earlier units",
}


@dataclass(frozen=True)
class Standing:
    """One student's marks through the term.

    entries   unit -> the line of its gradebook, of those that were handed in
    shares    unit -> the score as a share of the maximum; None: nothing was handed in, or not everything could be judged
    behind    unit -> why the student is behind there; every unit that was graded and has a reason
    effort    unit -> checks and hints, where the student shares them
    """

    student: str
    name: str
    entries: Mapping[str, Entry]
    shares: Mapping[str, float | None]
    behind: Mapping[str, Sequence[Reason]]
    effort: Mapping[str, CountedEffort] = field(default_factory=dict)

    @property
    def mean(self) -> float:
        """Return the mean share over all units that were graded, a missing one counting as 0."""
        return statistics.fmean(share or 0.0 for share in self.shares.values())


@dataclass(frozen=True)
class CostlyExercise:
    """An exercise, the share of its points that the class lost, the message that most who lost some saw, and the median effort of those who
    share theirs."""

    exercise: str
    title: str
    lost: float
    sentence: str
    students: int
    effort: CountedEffort | None = None


@dataclass(frozen=True)
class Term:
    """All students of a class, over the units that have been graded, in the course's order."""

    units: list[str]
    latest: str
    standings: list[Standing]
    costly: Mapping[str, list[CostlyExercise]]

    @property
    def behind(self) -> list[Standing]:
        """List everybody who is behind in the latest unit: those with most reasons, over all units, first."""
        late = [one for one in self.standings if one.behind.get(self.latest)]
        return sorted(late, key=lambda one: (-sum(map(len, one.behind.values())), one.mean, one.student))

    def of(self, student: str) -> Standing:
        """Return one student's Standing. Raises ValueError, with a message, if the class has none of that name."""
        for one in self.standings:
            if one.student == student:
                return one
        raise ValueError(f"The class has no {student}: nothing of theirs has been graded, and no roster names them.")


def of_class(home: Path) -> Term:
    """Make the Term of a class, from every unit that has been graded. Raises results.NotGraded if none has."""
    graded: dict[str, dict[str, Entry]] = {}
    for unit in UNITS:
        try:
            graded[unit] = {entry.student: entry for entry in results.gradebook(home, unit)}
        except results.NotGraded:
            continue
    if not graded:
        raise results.NotGraded("No unit has been graded yet: run `python -m grader autograde UNIT`.")
    worth = {unit: _worth(home, unit) for unit in graded}
    names = {student: entry.name for entries in graded.values() for student, entry in entries.items()}
    for unit in graded:
        names = dict(enrolled.missing(home, unit, graded[unit].values())) | names
    efforts = {unit: effort.of_unit(home, unit) for unit in graded}
    latest = max(graded, key=lambda unit: _entered(home, unit))
    return Term(
        units=[*graded],
        latest=latest,
        standings=[_standing(student, names[student], graded, worth, efforts) for student in sorted(names)],
        costly={unit: _costly(home, unit, [*graded[unit].values()], worth[unit], efforts[unit]) for unit in graded},
    )


def _worth(home: Path, unit: str) -> dict[str, float]:
    """Map each exercise of the path to its points, when the unit was graded: its marks belong to these, whatever has changed since."""
    worth = amended.worth_in_the_book(home, unit) or counts.of(home, unit).in_the_maximum
    return {id: points for id, points in worth.items() if points}


def _standing(
    student: str,
    name: str,
    graded: Mapping[str, Mapping[str, Entry]],
    worth: Mapping[str, Mapping[str, float]],
    efforts: Mapping[str, Mapping[str, Shared]],
) -> Standing:
    entries = {unit: of_unit[student] for unit, of_unit in graded.items() if student in of_unit}
    shares: dict[str, float | None] = {}
    behind: dict[str, list[Reason]] = {}
    for unit in graded:
        score = entries[unit].score if unit in entries else None
        earlier = [share for share in shares.values() if share is not None]
        shares[unit] = share = None if score is None else score / sum(worth[unit].values())
        reasons: list[Reason] = ["nothing"] if unit not in entries else []
        if share is not None:
            if share < HALF:
                reasons.append("low")
            if earlier and share < statistics.fmean(earlier) - FALL:
                reasons.append("fell")
        if reasons:
            behind[unit] = reasons
    asked = {unit: effort.total(of_unit[student]) for unit, of_unit in efforts.items() if student in of_unit}
    return Standing(student, name, entries, shares, behind, asked)


def _costly(
    home: Path, unit: str, entries: Sequence[Entry], worth: Mapping[str, float], efforts: Mapping[str, Shared]
) -> list[CostlyExercise]:
    """The exercises of the path of which the class lost most, as a share of their points."""
    judged = {entry.student: results.verdicts(home, unit, entry.student) for entry in entries}
    sentences = {}
    for mistake in report.mistakes(judged):
        sentences.setdefault(mistake.exercise, mistake.sentence)
    costly = []
    for id, out_of in worth.items():
        points = [p for e in entries if (p := e.scores.get(id)) is not None]
        if not points:
            continue
        share = 1 - statistics.fmean(points) / out_of
        students = sum(p < out_of for p in points)
        asked = effort.median(efforts, id)
        costly.append(CostlyExercise(id, titles.title(id), share, sentences.get(id, ""), students, asked))
    return sorted([one for one in costly if one.lost > 0], key=lambda one: -one.lost)[:COSTLY]


def _entered(home: Path, unit: str) -> float:
    return max((path.stat().st_mtime for path in (home / "verdicts" / "entered" / unit).glob("*")), default=0.0)


def page(term: Term) -> str:
    """Render the term as one HTML page, everything escaped. Names lead to the students' feedback."""
    return (
        report.environment()
        .get_template("term.html.j2")
        .render(t=term, words=WORDS, now=f"{datetime.now().astimezone():%Y-%m-%d %H:%M %Z}", version=VERSION)
    )


def write(home: Path, term: Term) -> Path:
    """Write home/reports/term.html and return its path."""
    path = home / "reports" / "term.html"
    disk.write({path: page(term).encode()})
    return path
