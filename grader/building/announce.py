"""Announcements: `{{...}}` in a source's Markdown becomes what the exercises say, when the notebooks are built.

    {{exercise tiling.matmul}}    `tiling.matmul` · main path · 20 points · about 60 minutes · about 35 lines · difficulty ●●●●○
    {{unit points}}               71 points on the main path; also {{unit exercises}}, eleven exercises, {{unit minutes}}, 172 minutes
                                  for those, and {{unit hours}}, six hours with reading
    {{unit more}}                 what More asks for and is worth, in three sentences
    {{units}}                     the table of units (see units.py)
    {{measured product 4096}}     778, what a recording says (see quoted.py): no text has a measured number that was typed

From the line that announces an exercise to that of the next, criteria are named by their keys:

    {{correct.ragged}}            3 points
    {{correct.ragged + speed}}    5 points, of both together
    {{all}}                       20 points, of all criteria, which need not be named then; extra credit is not among them
    {{correct.plain / 10}}        half a point, for each of ten answers
    {{wiring}}                    8 points, the most that an answer earns by calling functions of earlier exercises that are wrong
    {{speed.full}}                0.8, the ratio that earns all of an extra credit; {{speed.none}}, from which on it earns any
    {{tiling.matmul correct.ragged}}    3 points, anywhere in the unit

Whoever leaves a criterion out, or types points by hand, is told the line. A single criterion needs no name: its points stand
in the line that announces the exercise.
"""

# trap: points in a source's text are written {{correct.ragged}}: typed ones are refused, since course_lib/exercises
# says them once

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping

from course_lib.exercise import Exercise, Track
from course_lib.exercises import BEYOND, UNITS
from grader.building import quoted, units
from tritontrace.words import plural

MARKER = re.compile(r"\{\{([^{}]*)\}\}")
TYPED = re.compile(r"\b(\d+(\.\d+)?|half\s+a)\s+points?\b", re.I)
NUMBERS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
NUMBERS += ["eleven", "twelve", "thirteen", "fourteen", "fifteen"]
# minutes of reading and trying things out for each minute of an exercise: "half as long again", says unit 00
READING = 0.5


class AnnouncementError(ValueError):
    """Raised for a text that announces an exercise wrongly, or incompletely. `line` is the source's."""

    def __init__(self, line: int, sentence: str) -> None:
        super().__init__(sentence)
        self.line = line


class Announcer:
    """Fills in the markers of the Markdown cells of one source, which come in order."""

    def __init__(self, unit: str, exercises: Mapping[str, Exercise]) -> None:
        self.unit, self.exercises = unit, exercises
        self.current: _Announced | None = None
        self.seen: set[str] = set()

    def filled(self, text: str, first: int) -> str:
        """Returns the text of a cell, whose first line is that of the source, with its markers replaced."""

        def line(position: int) -> int:
            return first + text.count("\n", 0, position)

        if typed := TYPED.search(text):
            said = " ".join(typed[0].split())
            hint = "Write {{KEY}} of the criterion, or {{unit points}}."
            raise AnnouncementError(line(typed.start()), f"{said!r} is typed by hand. {hint}")
        if "{{" in (rest := MARKER.sub(lambda marker: " " * len(marker[0]), text)):
            raise AnnouncementError(line(rest.index("{{")), "a {{ without its }}.")
        return MARKER.sub(lambda marker: self._said(" ".join(marker[1].split()), line(marker.start())), text)

    def finish(self) -> None:
        """Raises AnnouncementError if the last announcement leaves a criterion out."""
        if self.current:
            self.current.demand_all()

    def _said(self, words: str, line: int) -> str:
        first, _, rest = words.partition(" ")
        if words == "units":
            return units.table_for_notebooks(self.unit)
        if first == "measured":
            if rest not in quoted.QUOTED:
                raise AnnouncementError(
                    line, f"{{{{{words}}}}}: no such number; quoted.py has {', '.join(quoted.QUOTED)}."
                )
            return quoted.text(rest)
        if first == "unit":
            if rest not in OF_UNIT:
                raise AnnouncementError(line, f"{{{{{words}}}}}: of a unit there are {', '.join(OF_UNIT)}.")
            return OF_UNIT[rest](units.on(OF_TRACK.get(rest, "path"), self.exercises.values()))
        if first == "exercise":
            self.finish()
            self.current = _Announced(self._new(rest, line), line)
            return header(self.current.exercise)
        if first in self.exercises:
            return _Announced(self.exercises[first], line).said(rest, line)
        if not self.current:
            raise AnnouncementError(line, f"{{{{{words}}}}} stands before the first {{{{exercise ...}}}}.")
        return self.current.said(words, line)

    def _new(self, name: str, line: int) -> Exercise:
        if name not in self.exercises:
            known = ", ".join(self.exercises) or "none"
            raise AnnouncementError(line, f"{self.unit} has no exercise {name!r}. It has: {known}.")
        if name in self.seen:
            raise AnnouncementError(line, f"`{name}` is announced a second time.")
        self.seen.add(name)
        return self.exercises[name]


def header(exercise: Exercise) -> str:
    """Return the line that announces an exercise."""
    if exercise.kind == "values":
        length = plural(exercise.effort.lines, "answer")
    else:
        length = f"about {plural(exercise.effort.lines, 'line')}"
    return " · ".join(
        [
            f"`{exercise.id}`",
            *_worth(exercise),
            f"about {plural(exercise.effort.minutes, 'minute')}",
            length,
            f"difficulty {'●' * exercise.effort.difficulty}{'○' * (5 - exercise.effort.difficulty)}",
            # the course's own modules have the answer, too, but nobody comes upon them
            *(f"without `{module}`" for module in exercise.without if module.startswith("torch.")),
        ]
    )


def _worth(exercise: Exercise) -> list[str]:
    """Whether it is on the main path, and its points."""
    if exercise.track == "more":
        return ["More", extra(exercise.points)]
    beyond = exercise.id.partition(".")[0] in {UNITS[unit] for unit in BEYOND}
    return [*([] if beyond else ["main path"]), points(exercise.points)]


def points(number: float) -> str:
    """Format a number of points: "2 points", "1 point" or "half a point"."""
    return "half a point" if number == 0.5 else f"{number:g} point{'' if number == 1 else 's'}"


def extra(number: float) -> str:
    """Format extra credit: "2 extra points"."""
    return points(number).replace("point", "extra point")


class _Announced:
    """One exercise, and which of its criteria have been named so far."""

    def __init__(self, exercise: Exercise, line: int) -> None:
        self.exercise, self.line = exercise, line
        self.points = {c.key: c.points for c in [*exercise.criteria, *exercise.bonus]}
        self.limits = {} if exercise.wiring is None else {"wiring": exercise.wiring}
        self.shares = {
            f"{c.key}.{end}": getattr(c, end) for c in exercise.bonus for end in ("full", "none") if hasattr(c, end)
        }
        self.named: set[str] = set()

    def said(self, words: str, line: int) -> str:
        """The text that a marker below the announcement stands for."""
        if words in self.shares:
            self.named.add(words)
            return f"{self.shares[words]:g}"
        if words in self.limits:
            self.named.add(words)
            return points(self.limits[words])
        names, _, among = words.partition(" / ")
        keys: list[str] = []
        for name in names.split(" + "):
            if name != "all" and name not in self.points:
                known = ", ".join([*self.points, *self.shares, *self.limits])
                raise AnnouncementError(line, f"`{self.exercise.id}` has no criterion {name!r}. It has: {known}.")
            keys += [c.key for c in self.exercise.criteria] if name == "all" else [name]
        if among and not re.fullmatch("[1-9][0-9]*", among):
            raise AnnouncementError(line, f"{{{{{words}}}}}: behind the / stands the number of answers, a whole one.")
        self.named.update(keys)
        return points(sum(self.points[key] for key in keys) / int(among or 1))

    def demand_all(self) -> None:
        """Raises AnnouncementError if a criterion is left out."""
        alone = [c.key for c in self.exercise.criteria] if len(self.exercise.criteria) == 1 else []
        unnamed = [
            f"{{{{{key}}}}}" for key in [*self.points, *self.shares, *self.limits] if key not in {*self.named, *alone}
        ]
        if unnamed:
            raise AnnouncementError(self.line, f"`{self.exercise.id}` is announced without {', '.join(unnamed)}.")


def _in_words(number: int) -> str:
    return NUMBERS[number] if number < len(NUMBERS) else str(number)


def _exercises(exercises: Collection[Exercise]) -> str:
    return plural(len(exercises), "exercise").replace(str(len(exercises)), _in_words(len(exercises)))


def hours(minutes: float) -> str:
    """Format minutes to the nearest half hour: "half an hour", "one hour", "four and a half hours"."""
    whole, half = divmod(max(1, round(minutes / 30)), 2)
    if not whole:
        return "half an hour"
    return f"{_in_words(whole)}{' and a half' * half} hour{'' if (whole, half) == (1, 0) else 's'}"


def _more(exercises: Collection[Exercise]) -> str:
    """Say how many exercises of More there are, and their time."""
    if not exercises:
        return "Nothing on the main path needs it."
    many, minutes = _exercises(exercises), plural(units.minutes_of(exercises), "minute")
    start = "The exercise takes" if len(exercises) == 1 else f"The {many} take"
    worth = sum(exercise.points for exercise in exercises)
    makes = "up for points that you lost above, up to the maximum of the unit"
    return (
        f"Nothing on the main path needs it. {start} about {minutes}. They are worth {extra(worth)}, which make {makes}."
    ).replace("They are", "It is" if len(exercises) == 1 else "They are")


OF_TRACK: dict[str, Track] = {"more": "more"}  # the path's is all else
OF_UNIT: dict[str, Callable[[Collection[Exercise]], str]] = {
    "more": _more,
    "points": lambda exercises: points(sum(exercise.points for exercise in exercises)),
    "exercises": _exercises,
    "minutes": lambda exercises: plural(units.minutes_of(exercises), "minute"),
    "hours": lambda exercises: hours((1 + READING) * units.minutes_of(exercises)),
}
