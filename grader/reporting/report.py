"""The class report: one HTML page about one unit, for the people who teach it.

    submissions for a person to look at, and why     points of each student in each exercise
    the mistakes that most students made             sources that look alike, or like the published solution

The order on the page is that of grader/templates/report.html.j2. Plots are SVG within the page, drawn in the page's own ink so that
light, dark and paper all suit. Whatever comes from a student is text: the template escapes by itself, and the plots hold only names
of exercises.
"""

from __future__ import annotations

import io
import re
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

import grader
from course_lib import render
from course_lib.exercise import Exercise, Verdict
from course_lib.exercises import titles
from course_lib.version import VERSION
from grader import TEMPLATES, disk
from grader.cohort.classroom import is_poison
from grader.gradebook import counts, requests, results
from grader.gradebook.counts import ExerciseCounts
from grader.gradebook.results import Entry
from grader.lms import enrolled, rejected
from grader.lms.enrolled import Absent, Member
from grader.published import solution_cell
from grader.reporting import similar, sources
from grader.reporting.sources import StudentFlag
from tritontrace.colours import INK, ONE

MISTAKES = 20  # the most mistakes that are shown, and the most pairs
PAIRS = 40
FEW = 3  # names that stand there without a click
NO_VERDICT = "has no verdict: grade it again, and read what the feedback page says"


# ------------------------------------------------------------------------------------------------- what it says


@dataclass
class FrequentMistake:
    """A gate or criterion that students failed, with the message that most of them saw, and how many did."""

    exercise: str
    title: str
    students: list[str] = field(default_factory=list)
    sentences: Counter[str] = field(default_factory=Counter)

    @property
    def sentence(self) -> str:
        return self.sentences.most_common(1)[0][0] if self.sentences else ""

    @property
    def alike(self) -> int:
        """Count the students who saw that message, up to its numbers."""
        kinds = Counter()
        for sentence, count in self.sentences.items():
            kinds[_kind(sentence)] += count
        return kinds[_kind(self.sentence)]


def mistakes(verdicts: Mapping[str, Mapping[str, Verdict]]) -> list[FrequentMistake]:
    """List the mistakes of a class, the most frequent first. A blank answer is no mistake, and neither is what a failed gate left
    unjudged.

    verdicts    student -> exercise -> verdict
    """
    found: dict[tuple[str, str], FrequentMistake] = {}
    for student, of_student in verdicts.items():
        for exercise, verdict in of_student.items():
            if blank(verdict) or is_poison(verdict):
                continue
            for f in verdict.findings:
                if f.lost and not f.bonus:
                    mistake = found.setdefault((exercise, f.key), FrequentMistake(exercise, f.missed))
                    mistake.title = mistake.title if f.blank else f.missed  # who has begun says better what it is
                    mistake.students.append(student)
                    if f.status != "same_cause":
                        mistake.sentences[". ".join(filter(None, (f.seen.rstrip("."), f.detail)))] += 1
    return sorted(found.values(), key=lambda m: (-len(m.students), m.exercise, m.title))


def _kind(sentence: str) -> str:
    return re.sub(r"[\d.,]+", "#", sentence)


def unjudged(verdict: Verdict | None) -> str:
    """Return a message on why a person or the grader has yet to judge the exercise; "" if it has been judged."""
    if verdict is None:
        return NO_VERDICT
    return "" if verdict.judged and not is_poison(verdict) else verdict.findings[0].seen


def blank(verdict: Verdict) -> bool:
    """Whether the exercise was handed in as handed out: the function returns nothing, the prediction is not filled in."""
    return verdict.outcome == "not_begun"


@dataclass(frozen=True)
class Distribution:
    """Scores of the class in one exercise, or in all.

    more    whether the exercise's points are not part of the maximum
    """

    name: str
    out_of: float
    points: list[float]
    blank: int = 0
    more: bool = False

    @property
    def mean(self) -> float:
        return statistics.fmean(self.points) if self.points else 0.0

    @property
    def median(self) -> float:
        return statistics.median(self.points) if self.points else 0.0

    @property
    def full(self) -> int:
        return sum(p >= self.out_of for p in self.points)

    @property
    def none(self) -> int:
        return sum(p <= 0 for p in self.points)


@dataclass(frozen=True)
class Alike:
    """Similar sources of one exercise, to be compared side by side."""

    exercise: str
    pair: similar.Pair
    sources: list[str]


@dataclass(frozen=True)
class ClassReport:
    """The class report on one unit."""

    unit: str
    entries: list[Entry]
    exercises: list[Exercise]  # those that count, the path's first
    counting: ExerciseCounts
    total: Distribution
    distributions: list[Distribution]
    mistakes: list[FrequentMistake]
    flags: list[StudentFlag]
    rejected: Mapping[str, str]  # student -> which file of theirs is no notebook of the unit
    requests: Mapping[str, str]  # student -> what to look at again, in the student's words
    unjudged: list[StudentFlag]
    alike: list[Alike]
    published: dict[str, list[str]]  # exercise -> whose source is the published one
    behind: list[str]  # who was given something by hand since the last autograde
    members: Mapping[str, Member]  # sections and groups, as rosters have them
    unread: list[str]  # whose file as a whole could not be judged: their points are in no mean
    absent: list[Absent]  # who is in a roster and handed in nothing
    not_begun: frozenset[tuple[str, str]]  # student, exercise

    @property
    def judged_on(self) -> dict[tuple[str, ...], str]:
        """Map the machines that judged the class to letters, where they differ."""
        return results.places(self.entries)

    @property
    def places(self) -> list[str]:
        """List which of "section" and "group" are known."""
        return [name for name in ("section", "group") if any(getattr(m, name) for m in self.members.values())]


def of_class(home: Path, unit: str, published=solution_cell) -> ClassReport:
    """Make the class report of a unit. Raises NotGraded if nobody has been graded.

    published    the published solution of an exercise
    """
    entries, counting = results.gradebook(home, unit), counts.of(home, unit)
    path, more, others = counting.ids("path"), counting.ids("more"), rejected.sentences(home, unit)
    exercises = [counting.exercises[id] for id in (*path, *more)]
    verdicts = {e.student: results.verdicts(home, unit, e.student) for e in entries}
    handins = {
        e.student: sources.handin(home / "submitted" / e.student / unit / f"{unit}.ipynb", unit, e.student)
        for e in entries
    }
    readable = [e for e in entries if not handins[e.student].problem]  # of a file that is none, points say nothing
    texts = {x.id: {s: h.sources[x.id] for s, h in handins.items() if x.id in h.sources} for x in exercises}
    tokens = {x.id: {s: h.tokens[x.id] for s, h in handins.items() if x.id in h.tokens} for x in exercises}
    known = {x.id: similar.tokens(published(x.id)) for x in exercises}
    released = sources.handin(grader.released(unit), unit, "").sources
    given = {x.id: similar.tokens(released.get(x.id, "")) for x in exercises}
    alike = [
        Alike(x.id, pair, [texts[x.id][student] for student in pair.students[:2]])
        for x in exercises
        for pair in similar.pairs(tokens[x.id], leave_out=known[x.id], given=given[x.id])
    ]
    return ClassReport(
        unit=unit,
        entries=entries,
        exercises=exercises,
        counting=counting,
        total=Distribution("total", counting.out_of, [e.score for e in readable if e.score is not None]),
        distributions=[replace(_distribution(x, readable, verdicts), more=x.id in more) for x in exercises],
        mistakes=mistakes({e.student: verdicts[e.student] for e in readable}),
        flags=[flag for h in handins.values() for flag in h.flags],
        rejected=others,
        requests=requests.of_unit(home, unit),
        unjudged=[
            StudentFlag(e.student, x.id, sentence)
            for e in entries
            for x in exercises
            if (sentence := unjudged(verdicts[e.student].get(x.id)))
        ],
        alike=sorted(alike, key=lambda a: (-a.pair.ratio, -len(a.pair.students), a.exercise)),
        published={x.id: same for x in exercises if (same := similar.equal_to(known[x.id], tokens[x.id]))},
        behind=results.behind(home, unit, entries),
        members=enrolled.members(home),
        unread=[e.student for e in entries if handins[e.student].problem],
        absent=[one for one in enrolled.missing(home, unit, entries) if one.student not in others],
        not_begun=frozenset((student, id) for student, of in verdicts.items() for id, v in of.items() if blank(v)),
    )


def _distribution(exercise: Exercise, entries: Sequence[Entry], verdicts: Mapping) -> Distribution:
    excused = {student for student, v in verdicts.items() if exercise.id in v and v[exercise.id].outcome == "excused"}
    points = [p for e in entries if e.student not in excused and (p := e.scores[exercise.id]) is not None]
    left = sum(blank(v[exercise.id]) for e in entries if exercise.id in (v := verdicts[e.student]))
    return Distribution(titles.title(exercise.id), exercise.points, points, left)


# --------------------------------------------------------------------------------------------------- the plots


def histogram(of: Distribution, *, width: float = 3.0, height: float = 1.5) -> Markup:
    """Draw how many students earned how many points, as SVG. width, height in inches."""
    style: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": of.name,
        "font.family": "sans-serif",
        "font.size": 10,
    }
    ink = dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK)
    step = next(s for s in (0.5, 1, 2, 5, 10, 20, 50, 100, 1000) if of.out_of / s <= 20)
    bins = int(of.out_of // step) + 1
    counts = Counter(min(int(max(0.0, p) // step), bins - 1) for p in of.points)
    with rc_context({**style, **ink}):
        figure = Figure(figsize=(width, height), facecolor="none", layout="constrained")
        ax = figure.add_subplot(facecolor="none")
        ax.bar([i * step for i in range(bins)], [counts[i] for i in range(bins)], width=0.86 * step, color=ONE)
        ax.set_xlim(-0.6 * step, (bins - 0.4) * step)
        ax.set_ylim(0, max([*counts.values(), 1]) * 1.08)
        ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        ax.yaxis.set_major_locator(MaxNLocator(3, integer=True))
        ax.set_xlabel("points" if step <= 1 else f"points, in steps of {step:g}")
        ax.set_ylabel("students")
        ax.spines[["top", "right"]].set_visible(False)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    return _inline(buffer.getvalue(), f"Histogram of {of.name}: mean {of.mean:.1f} of {of.out_of:g} points")


def _inline(svg: str, label: str) -> Markup:
    """A matplotlib SVG as part of a page: in its ink and font, scaling with its box, with words for who cannot see it."""
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r'font: ([\d.]+px) [^;"]*', r"font: \1 system-ui, sans-serif", svg)
    return Markup(svg.replace("<svg ", f'<svg role="img" aria-label="{Markup.escape(label)}" ', 1))


# --------------------------------------------------------------------------------------------------- the page


def environment() -> Environment:
    """Make the Jinja environment of reports: everything is escaped, and what a template misspells is an error."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["code"] = lambda sentence: Markup(render.code(sentence))
    made.filters["points"] = lambda value: "?" if value is None else f"{value:g}"
    return made


def page(report: ClassReport, feedback: str = "../feedback") -> str:
    """Render the report as HTML. feedback: where the students' feedback lies, seen from the page."""
    template = environment().get_template("report.html.j2")
    return template.render(
        r=report,
        histogram=histogram,
        feedback=feedback,
        now=datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
        most_mistakes=MISTAKES,
        most_pairs=PAIRS,
        few=FEW,
        alike_from=similar.ALIKE,
        shortest=similar.SHORTEST,
        run=similar.RUN,
        names={x.id: titles.title(x.id) for x in report.exercises},
        unit=titles.of(report.unit),
        version=VERSION,
    )


def write(home: Path, unit: str) -> Path:
    """Write home/reports/UNIT.html and return its path. Raises NotGraded if nobody has been graded."""
    path = home / "reports" / f"{unit}.html"
    disk.write({path: page(of_class(home, unit)).encode()})
    return path
