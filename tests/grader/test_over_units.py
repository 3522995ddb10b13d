"""A class over all its units: who is behind and why, which exercises cost most, and what students ask to be looked at again."""

import os

import pytest
import toyclass
from test_disk import run
from toy import UNIT

from course_lib.exercises import UNITS
from grader.gradebook import counts, results
from grader.gradebook.results import Entry
from grader.lms import enrolled
from grader.lms.rosters import Person
from grader.reporting import effort, report, term

FIRST, SECOND, THIRD = [*UNITS][4:7]


def entry(unit, student, share, *, zero=(), unknown=False, name=""):
    """A student's line with this share of each exercise of the path; nothing in those that are named in `zero`."""
    counting = counts.of(None, unit)
    worth = {id: 0.0 if id in zero else share * counting.exercises[id].points for id in counting.ids("path")}
    if unknown:
        worth[counting.ids("path")[0]] = None
    total = sum(points or 0.0 for points in worth.values())
    return Entry(student, name, "", "", "", worth, {}, total, 0.0)


@pytest.fixture
def course(tmp_path, monkeypatch):
    """made(unit -> entries): the class of these gradebooks; the unit that was named last was graded last."""

    def made(books):
        def gradebook(home, unit):
            if unit not in books:
                raise results.NotGraded(unit)
            return books[unit]

        monkeypatch.setattr(results, "gradebook", gradebook)
        monkeypatch.setattr(results, "verdicts", lambda home, unit, student: {})
        for number, unit in enumerate(books):
            path = results.entered_path(tmp_path, unit, "ada")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            os.utime(path, (number, number))
        return term.of_class(tmp_path)

    made.home = tmp_path
    return made


def test_who_is_behind_is_said_with_the_reason(course):
    good = {unit: [entry(unit, "ada", 0.9)] for unit in (FIRST, SECOND, THIRD)}
    good[FIRST] += [
        entry(FIRST, "ben", 0.9),
        entry(FIRST, "cyd", 0.4),
        entry(FIRST, "dee", 0.3),
        entry(FIRST, "eve", 0.7),
    ]
    good[SECOND] += [entry(SECOND, "ben", 0.9), entry(SECOND, "cyd", 0.4), entry(SECOND, "eve", 0.2)]
    good[THIRD] += [entry(THIRD, "ben", 0.6), entry(THIRD, "cyd", 0.3), entry(THIRD, "eve", 0.7)]
    good[THIRD] += [entry(THIRD, "fay", 1.0, unknown=True)]
    whole = course(good)
    assert whole.latest == THIRD and whole.units == [FIRST, SECOND, THIRD]
    assert {one.student: one.behind[THIRD] for one in whole.behind} == {
        "dee": ["nothing"],
        "cyd": ["low"],
        "ben": ["fell"],
    }
    assert [one.student for one in whole.behind] == ["dee", "cyd", "ben"]  # reasons over the term, then the mean
    assert whole.of("eve").behind == {SECOND: ["low", "fell"]}
    fay = whole.of("fay")
    assert fay.shares[THIRD] is None and THIRD not in fay.behind  # a person has yet to see to that
    assert whole.of("ben").mean == pytest.approx(0.8)
    with pytest.raises(ValueError, match="no gus"):
        whole.of("gus")


def test_who_is_in_a_roster_and_never_handed_in_is_behind(course):
    enrolled.enrol(course.home, [Person(id="7", first="Gus", login="gus", email="gus@example.org")], by_login=True)
    whole = course({FIRST: [entry(FIRST, "ada", 0.9)]})
    assert [(one.student, one.name, one.behind[FIRST]) for one in whole.behind] == [("gus", "Gus", ["nothing"])]


def test_the_exercises_that_cost_most_stand_first(course):
    first, second, *_ = counts.of(None, FIRST).ids("path")
    whole = course({FIRST: [entry(FIRST, "ada", 1.0, zero=[first]), entry(FIRST, "ben", 1.0, zero=[first, second])]})
    assert [(one.exercise, one.lost, one.students) for one in whole.costly[FIRST]] == [
        (first, 1.0, 2),
        (second, 0.5, 1),
    ]


def test_a_page_has_everybody_and_runs_nothing(course):
    whole = course({FIRST: [entry(FIRST, "ada", 0.9, name=toyclass.HOSTILE), entry(FIRST, "ben", 0.2)]})
    page = term.page(whole)
    assert "ben" in page and "&lt;script&gt;" in page and "<script" not in page
    assert f"../feedback/ada/{FIRST}/{FIRST}.html" in page


def test_no_unit_yet(course):
    with pytest.raises(results.NotGraded):
        course({})


def test_the_command_and_the_report_of_a_real_class(tmp_path, monkeypatch):
    home = toyclass.make(monkeypatch, tmp_path)
    code, said = run("term")
    assert code == 0 and "dee" in said and (home / "reports" / "term.html").exists()
    code, said = run("term", "--student", "ben")
    assert code == 0 and UNIT in said and "10 (71 %)" in said
    code, said = run("term", "--student", "nobody")
    assert code == 1 and said.count(".") == 1
    (home / "submitted" / "ben" / UNIT / "regrade.txt").write_text(f"root is right\x1b[2J {toyclass.HOSTILE}")
    monkeypatch.setattr(report, "solution_cell", lambda exercise: "")
    shown = report.of_class(home, UNIT, published=lambda exercise: "")
    assert shown.requests.keys() == {"ben"} and "<script" not in report.page(shown)
    _, said = run("export", UNIT)
    monkeypatch.setattr(report, "write", lambda home, unit: home)
    code, said = run("report", UNIT)
    assert "asks to look again: ben: root is right [2J" in said


def test_shared_effort_stands_beside_points_and_changes_none(course, monkeypatch):
    first, *_ = counts.of(None, FIRST).ids("path")
    books = {FIRST: [entry(FIRST, "ada", 1.0, zero=[first]), entry(FIRST, "ben", 0.2)]}
    before = course(books)
    shared = {"ada": {first: effort.CountedEffort(41, 3)}}
    monkeypatch.setattr(effort, "of_unit", lambda home, unit: shared)
    whole = course(books)
    assert whole.of("ada").effort == {FIRST: effort.CountedEffort(41, 3)} and whole.of("ben").effort == {}
    assert next(one for one in whole.costly[FIRST] if one.exercise == first).effort == effort.CountedEffort(41, 3)
    assert [(one.student, one.shares, one.behind) for one in whole.standings] == [
        (one.student, one.shares, one.behind) for one in before.standings
    ]
    page = term.page(whole)
    assert "41, 3" in page and "41+3" in page and "41" not in term.page(before)
