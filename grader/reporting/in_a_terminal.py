"""A unit's gradebook and a class's term as tables, and lines below the first on what a person should look at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from course_lib.exercise import Exercise
from course_lib.exercises import titles
from grader.gradebook import counts, requests, results
from grader.gradebook.counts import ExerciseCounts
from grader.gradebook.results import Entry
from grader.lms import enrolled, rejected
from grader.reporting.term import WORDS, Term

COLUMN = 7  # letters of the column for one exercise


def gradebook(home: Path, unit: str, width: int) -> tuple[Table, list[str]]:
    """Return the gradebook as a table, a row per student and a column per exercise that counts, and lines below it. Those of More stand
    behind the path's, with a + before points. If wider than `width` letters, lost exercises have numbers. Raises results.NotGraded."""
    entries, counting = results.gradebook(home, unit), counts.of(home, unit)
    exercises = [counting.exercises[id] for id in (*counting.ids("path"), *counting.ids("more"))]
    wide = max(len(entry.student) for entry in entries) + COLUMN * len(exercises) + 20 > width
    late, letters = any(entry.penalty for entry in entries), results.places(entries)
    table = Table(title=unit)
    table.add_column("student", no_wrap=True)
    for number, exercise in enumerate([] if wide else exercises, 1):
        sign = "/" if counting.ways[exercise.id] == "path" else "+"
        table.add_column(f"{number}\n{sign}{exercise.points:g}", justify="right", no_wrap=True)
    for title in ["on"] * bool(letters) + ["late"] * late + [f"total\n/{counting.out_of:g}"]:
        table.add_column(title, justify="right", no_wrap=True)
    if wide:
        table.add_column("points lost, by number")
    for entry in entries:
        row = (
            [] if wide else [_cell(entry.scores[e.id], entry.extra.get(e.id), e.id in entry.by_hand) for e in exercises]
        )
        penalty = [f"-{entry.penalty:g}" if entry.penalty else ""] * late
        lost, on = [_lost(entry, exercises, counting)] * wide, [letters.get(entry.on, "")] * bool(letters)
        table.add_row(escape(entry.student), *row, *on, *penalty, _cell(entry.score), *lost)
    return table, [*_below(home, unit, entries, exercises), *by_hand(home, unit, entries)]


def _below(home: Path, unit: str, entries: list[Entry], exercises: Sequence[Exercise]) -> Iterator[str]:
    letters = results.places(entries)
    yield ", ".join(f"{number} {titles.title(exercise.id)}" for number, exercise in enumerate(exercises, 1))
    for on in letters or {entry.on: "" for entry in entries if entry.on}:
        yield f"{letters.get(on, '')} judged on {'; '.join(on)}".lstrip()
    others = rejected.sentences(home, unit)
    if absent := [one for one in enrolled.missing(home, unit, entries) if one.student not in others]:
        names = "; ".join(one.student if one.name == one.student else f"{one.name} ({one.student})" for one in absent)
        yield f"handed in nothing ({len(absent)}): {names}"
    for student, sentence in others.items():
        yield f"to look at: {student}: {sentence}"
    for entry in entries:
        if entry.hours_late:
            cost = "" if entry.penalty else "; it cost nothing (c.ByTheDay in grader/nbgrader_config.py)"
            yield f"late: {entry.student}, by {entry.hours_late:.1f} hours{cost}"
    for student, words in requests.of_unit(home, unit).items():
        yield f"asks to look again: {student}: {words}"


def _lost(entry: Entry, exercises: Sequence[Exercise], counting: ExerciseCounts) -> str:
    """The path's exercises with points lost, for a table with no room for a column each: "3 -2, 7 ?"."""
    parts = []
    for number, exercise in enumerate(exercises, 1):
        points, hand = entry.scores[exercise.id], "*" * (exercise.id in entry.by_hand)
        if counting.ways[exercise.id] == "path" and (points is None or points < exercise.points or hand):
            parts.append(f"{number} {'?' if points is None else f'{points - exercise.points:g}'}{hand}")
    return ", ".join(parts)


def _cell(points: float | None, extra: float | None = None, by_hand: bool = False) -> str:
    return "?" if points is None else f"{points:g}" + (f" +{extra:g}" if extra else "") + "*" * by_hand


def by_hand(home: Path, unit: str, entries: list[Entry]) -> Iterator[str]:
    """Yield lines on what was given by hand, and what of it a person should look at."""
    for entry in entries:
        for id, fields in entry.by_hand.items():
            judged = "nothing" if fields.judged is None else f"{fields.judged:g}"
            given = [f"{fields.points:g} points, {judged} by the judge"] if fields.points is not None else []
            given += ["a comment"] if fields.comment else []
            yield f"* by hand: {entry.student}: {id}: {'; '.join(given)}"
    for entry in entries:
        for id, fields in entry.by_hand.items():
            if fields.review:
                stands = "they stand until you change them, or choose Resolve in formgrader"
                yield f"to look at: {entry.student}: {id}: the points by hand are for an earlier answer; {stands}"
    yield from behind(home, unit, entries)


def behind(home: Path, unit: str, entries: list[Entry]) -> Iterator[str]:
    """Yield lines on students who were given something by hand that their page does not show yet."""
    if students := results.behind(home, unit, entries):
        late = f"feedback and penalty for lateness follow with the next `autograde {unit}`"
        yield f"by hand since the last autograde: {', '.join(students)}: {late}"


def term(whole: Term, student: str = "") -> Table:
    """Return a table of who is behind in the unit that was graded last, and why; or of one student through all units. Raises ValueError if
    the class has no such student."""
    if not student:
        table = Table(
            "student", "why", title=f"behind in {whole.latest}: {len(whole.behind)} of {len(whole.standings)}"
        )
        for one in whole.behind:
            table.add_row(escape(one.student), "; ".join(WORDS[r] for r in one.behind[whole.latest]))
        return table
    one = whole.of(student)
    table = Table("unit", "points", "late", "behind", "checks, hints", title=f"{one.name} ({student})")
    for unit in whole.units:
        entry, share, asked = one.entries.get(unit), one.shares[unit], one.effort.get(unit)
        points = "-" if entry is None else "?" if share is None else f"{entry.score:g} ({100 * share:.0f} %)"
        late = f"{entry.hours_late:.1f} h" if entry and entry.hours_late else ""
        why = "; ".join(WORDS[r] for r in one.behind.get(unit, ()))
        table.add_row(unit, points, late, why, f"{asked.checks:g}, {asked.hints:g}" if asked else "")
    return table
