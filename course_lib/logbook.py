"""The best points of every exercise that was ever checked here, its last time on a GPU, all attempts at open tasks, what work logs have
stated, and how many checks and hints were asked for, in five files of the student's own.

The first is ~/.local/share/strides-to-flashattention/progress.json (XDG_DATA_HOME moves it, COURSE_PROGRESS names another), and
times.json, attempts.json, statements.json and effort.json lie beside it: next to no notebook, so that restarts, copies and course
updates leave them alone. Only `check`, `hint`, `attempt` and `worklog` write to them; grades are made elsewhere, and `effort` shows
the last one.
"""

from __future__ import annotations

import html
import json
import os
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from course_lib import content
from course_lib.catalogue import say
from course_lib.evidence import Timing
from course_lib.exercise import Exercise, Verdict
from course_lib.exercises import UNITS, ids, titles, unit_of

BAR = 20  # characters
LEFT = "style='text-align:left;font-weight:normal;padding-right:14px'"


def path() -> Path:
    """Return the file in which progress is saved."""
    named = os.environ.get("COURSE_PROGRESS")
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return Path(named) if named else data / "strides-to-flashattention" / "progress.json"


def whereabouts() -> str:
    """Return a sentence for the student on where `path()` is."""
    if os.environ.get("COURSE_PROGRESS"):
        place: str = say("shown.progress.named_file")
    else:
        place = str(path()).replace(str(Path.home()), "~", 1)
    return say("shown.progress.kept", place=place)


def best() -> dict[str, float]:
    """Return the most points that a check has given, by exercise id or _extra(id); {} if there is no file, or it cannot be read."""
    try:
        kept = json.loads(path().read_text())
        points: dict[str, float] = {}
        for key, value in kept.items():
            today = " ".join(map(ids.current, str(key).split()))  # "id extra" is extra credit
            points[today] = max(float(value), points.get(today, 0.0))
        return points
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


@dataclass(frozen=True)
class Attempt:
    """Bytes, programs and time that a right answer to an open task spent.

    programs  of the launch that has most;  ms  on a GPU, 0 without one
    """

    date: str
    bytes: int
    programs: int
    launches: int
    ms: float = 0.0
    gpu: str = ""


def attempts(exercise_id: str) -> list[Attempt]:
    """List the attempts at an open task in the order in which they were made; [] where they cannot be read."""
    try:
        return [Attempt(**each) for each in _by_exercise(_attempts_path()).get(exercise_id, [])]
    except (TypeError, AttributeError):
        return []


def record_attempt(exercise_id: str, attempt: Attempt) -> None:
    """Save an attempt, unless the last one spent the same and neither was timed."""
    made = attempts(exercise_id)
    if made and not attempt.ms and replace(made[-1], date=attempt.date) == attempt:
        return
    everything = _by_exercise(_attempts_path())
    _write(_attempts_path(), everything | {exercise_id: [asdict(each) for each in (*made, attempt)]})


def _attempts_path() -> Path:
    return path().with_name("attempts.json")


def _by_exercise(file: Path) -> dict[str, Any]:
    """The entries of a file by exercise; {} if there is none, or it cannot be read."""
    try:
        read = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return {ids.current(name): made for name, made in read.items()} if isinstance(read, dict) else {}


def record_effort(exercise_id: str, what: Literal["checks", "hints"]) -> None:
    """Count one more check or hint of an exercise."""
    everything, today = _by_exercise(_effort_path()), effort(exercise_id)
    _write(_effort_path(), everything | {exercise_id: today | {what: today[what] + 1}})


def effort(exercise_id: str) -> dict[str, int]:
    """Count the checks and the hints of an exercise that were requested on this machine; 0 where that cannot be read."""
    counted = _by_exercise(_effort_path()).get(exercise_id)
    counted = counted if isinstance(counted, dict) else {}
    return {what: n if type(n := counted.get(what)) is int else 0 for what in ("checks", "hints")}


def _effort_path() -> Path:
    return path().with_name("effort.json")


@dataclass(frozen=True)
class StatedRound:
    """Formulas that a work log states for one round.

    before   they stood there while the round had no version
    traced   its version was seen: from then on the statement is kept as it is
    """

    date: str
    formulas: dict[str, str]
    before: bool
    traced: bool


def record_statement(exercise_id: str, change: str, now: StatedRound) -> StatedRound:
    """Save what a round states, keyed by the change that it describes. Return the formulas as they were when the round's version was first
    traced, or as they are now."""
    file = path().with_name("statements.json")
    everything = _by_exercise(file)
    rounds = everything.get(exercise_id)
    rounds = rounds if isinstance(rounds, dict) else {}
    try:
        first = StatedRound(**rounds.get(change, {}))
    except TypeError:
        first = None
    if first and first.traced:
        return first
    if first and first.formulas == now.formulas:
        now = replace(first, traced=now.traced)
    _write(file, everything | {exercise_id: rounds | {change: asdict(now)}})
    return now


_one_at_a_time = threading.Lock()  # times come from a thread of their own


def record_best(verdict: Verdict) -> None:
    """Save the points if they are the best so far, and the time if there is one. Does nothing where the file cannot be written."""
    with _one_at_a_time:
        if verdict.timing and verdict.timing.microseconds:
            everything = _by_exercise(_times_path())
            _write(_times_path(), everything | {verdict.exercise: asdict(verdict.timing)})
        kept = best()
        if better := {key: points for key, points in points_of(verdict).items() if points > kept.get(key, 0.0)}:
            _write(path(), kept | better)


def points_of(verdict: Verdict) -> dict[str, float]:
    """Return the points and the extra credit of a verdict, keyed as in best(): none while it waits for the compiler, and none for findings
    that the compiler was not asked about in time."""
    points = 0.0 if verdict.waits else verdict.points - verdict.points_of_late
    return {verdict.exercise: points, _extra(verdict.exercise): verdict.bonus}


def time_of(exercise_id: str) -> Timing | None:
    """Return the last time that a check measured on a GPU; None if there is none, or it cannot be read."""
    entry = _by_exercise(_times_path()).get(exercise_id)
    try:
        return Timing(**entry) if entry else None
    except TypeError:
        return None


def _times_path() -> Path:
    return path().with_name("times.json")


def _write(file: Path, kept: dict[str, Any]) -> None:
    if path().exists() and not path().is_file():  # /dev/null keeps nothing, and root would put a file in its place
        return
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(kept, indent=1))
        draft.replace(file)  # whole or not at all: several notebooks may be open
    except OSError:
        pass


def _extra(exercise_id: str) -> str:
    """The key under which an exercise's extra credit is kept."""
    return f"{exercise_id} extra"


class Progress:
    """Exercises and points by unit, as text and as HTML.

    units    folder of the unit -> its exercises
    kept     the points of each exercise, as best() has them
    here     the unit of the notebook that asks; "" if it cannot be told
    where    a sentence on the file in which they are kept
    """

    def __init__(self, units: dict[str, list[Exercise]], kept: Mapping[str, float], here: str, where: str = "") -> None:
        self.units, self.kept, self.here, self.where = units, kept, here, where

    def points(self, exercise: Exercise) -> float:
        return min(self.kept.get(exercise.id, 0.0), exercise.points)

    def extra(self, exercise: Exercise) -> float:
        """Return the extra credit of an exercise, as a check on a GPU gives it: never part of the points."""
        return self.kept.get(_extra(exercise.id), 0.0)

    def on_path(self, unit: str) -> list[Exercise]:
        """List the exercises of the unit's main path: its points are theirs."""
        return [exercise for exercise in self.units.get(unit, []) if exercise.track == "path"]

    def done(self, exercise: Exercise) -> bool:
        return self.points(exercise) == exercise.points

    @property
    def unit(self) -> str:
        """Return the unit to go on with: the furthest that was begun, if its main path is not done, else the next one whose path is not;
        the first one if all are."""
        units = list(self.units)
        furthest = max((i for i, unit in enumerate(units) if any(map(self.points, self.units[unit]))), default=0)
        return next(filter(self._left, units[furthest:] + units[:furthest]), units[0])

    def _left(self, unit: str) -> list[Exercise]:
        return [exercise for exercise in self.on_path(unit) if not self.done(exercise)]

    @property
    def next(self) -> str:
        """Return a sentence on the next exercise of the main path that lacks points: in this unit, or else in the unit to go on with."""
        unit = self.here if self._left(self.here) else self.unit
        if not self._left(unit):
            return say("shown.progress.all_done")
        exercise = self._left(unit)[0]
        done = say("shown.progress.unit_done", unit=titles.of(self.here)) if self.here in self.units else ""
        got, title = self.points(exercise), titles.title(exercise.id)
        points = {"begun": bool(got), "points": got, "out_of": exercise.points}
        minutes = say("shown.progress.minutes", minutes=exercise.effort.minutes, **points)
        if unit == self.here:
            return say("shown.progress.next_here", exercise=title, minutes=minutes)
        return say("shown.progress.next", done=done, exercise=title, unit=titles.of(unit), minutes=minutes)

    def rows(self) -> list[tuple[str, int, int, float, float, str]]:
        """List (unit, exercises done, exercises, points, points to be had, the same of More and extra credit in words) for each unit. All
        numbers are the main path's."""
        rows = []
        for unit, of_unit in self.units.items():
            path, more = self.on_path(unit), [e for e in of_unit if e.track == "more"]
            extra, in_more = sum(map(self.extra, of_unit)), sum(map(self.points, more))
            said = f", {in_more:g} of {sum(e.points for e in more):g} in More" if more else ""
            said += f" and {extra:g} extra" if extra else ""
            done, points = sum(map(self.done, path)), sum(map(self.points, path))
            rows.append((unit, done, len(path), points, sum(e.points for e in path), said))
        return rows

    def minutes_left(self, unit: str) -> int:
        """Sum the minutes of the exercises on a unit's main path that are not done."""
        return sum(exercise.effort.minutes for exercise in self._left(unit))

    @property
    def total(self) -> str:
        """Return a sentence on how much of the main path is done, and how long the rest takes."""
        rows, minutes = self.rows(), sum(map(self.minutes_left, self.units))
        points, out_of = sum(row[3] for row in rows), sum(row[4] for row in rows)
        long = minutes >= 90
        rest = (
            say("shown.progress.hours", hours=minutes / 60)
            if long
            else say("shown.progress.minutes_left", minutes=minutes)
        )
        return say("shown.progress.total", points=points, out_of=out_of, left=minutes > 0, rest=rest)

    def __repr__(self) -> str:
        wide = max(map(len, self.units))
        lines = [
            f"{unit:<{wide}}  {done:>2} of {count:>2} exercises  {points:>4g} of {out_of:>3g} points  {_bar(points / out_of)}{extra}"
            for unit, done, count, points, out_of, extra in self.rows()
        ]
        return "\n".join([self.next, *lines, self.total, self.where])

    def _repr_html_(self) -> str:
        heads = "".join(
            f"<th scope='col' {LEFT}>{name}</th>" for name in ("unit", "main path", "points", "minutes left", "More")
        )
        body = "".join(
            f"<tr><th scope='row' {LEFT}>{_link(unit)}</th>"
            f"<td {LEFT}><meter aria-hidden='true' min='0' max='1' value='{points / out_of:.3f}' style='width:{METER}px'></meter></td>"
            f"<td {LEFT}>{points:g} of {out_of:g}</td><td {LEFT}>{self.minutes_left(unit) or 'done'}</td>"
            f"<td {LEFT}>{html.escape(extra.removeprefix(', ').removeprefix(' and ').replace(' in More', '')) or 'none'}</td></tr>"
            for unit, _, _, points, out_of, extra in self.rows()
        )
        below = html.escape(f"{self.total} {self.where}")
        return f"<p><b>{html.escape(self.next)}</b></p><table><tr>{heads}</tr>{body}</table><p>{below}</p>"


METER = 180  # pixels of each unit's bar


def _link(unit: str) -> str:
    """A link from one unit's notebook to another's, which lies beside it."""
    return f"<a href='../{unit}/{unit}.ipynb'>{html.escape(titles.of(unit))}</a>"


def _bar(share: float) -> str:
    full = int(BAR * share)
    return "█" * full + "░" * (BAR - full)


def progress() -> Progress:
    """Return your points and what is next: the best that `check` has given you on this machine, whatever notebook it was in."""
    return progress_with(best(), unit_here(), whereabouts())


def progress_with(kept: Mapping[str, float], here: str, where: str) -> Progress:
    """Return the Progress over all units for these points."""
    units = {
        unit: list(import_module(f"course_lib.exercises.{module}").EXERCISES.values()) for unit, module in UNITS.items()
    }
    return Progress(units, kept, here, where)


def next_after(exercise: Exercise) -> str:
    """Return a sentence on what comes after a finished exercise: the next of its unit's main path, and where the published solution is."""
    module = exercise.id.partition(".")[0]
    if module not in UNITS.values():
        return ""
    unit = unit_of(exercise.id)
    of_unit = Progress({unit: [*import_module(f"course_lib.exercises.{module}").EXERCISES.values()]}, best(), unit)
    path_done = all(map(of_unit.done, of_unit.on_path(unit)))
    next_one = say("shown.progress.path_done", unit=titles.of(unit)) if path_done else of_unit.next
    published = content.ROOT / "solutions" / unit
    return say("shown.progress.to_compare", next=next_one, unit=unit) if published.is_dir() else next_one


def unit_here() -> str:
    """Return the unit whose notebook this kernel belongs to, by JupyterLab's session name or the folder's name; "" if neither is one."""
    paths = (Path(os.environ.get("JPY_SESSION_NAME", "")), Path.cwd())
    return next((part for path in paths for part in (path.stem, *reversed(path.parts)) if part in UNITS), "")
