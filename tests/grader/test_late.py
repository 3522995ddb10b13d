"""Due dates, extensions, penalties for lateness, and grading again: nbgrader's own means, the release untouched."""

import pytest
import toyclass
from toy import UNIT

from grader import books, late, nbgrader_config, preprocessors, results
from grader.late import ByTheDay


@pytest.mark.parametrize(
    "percent, at_most, hours, taken",
    [
        (10, 100, 0.1, None),  # within the grace
        (10, 100, 1, 5.0),
        (10, 100, 24, 5.0),
        (10, 100, 25, 10.0),
        (10, 30, 24 * 9, 15.0),
        (0, 100, 240, None),
    ],
)
def test_a_share_of_the_points_earned_for_each_day_begun(percent, at_most, hours, taken):
    plugin = ByTheDay(percent=percent, at_most=at_most)
    assert plugin.late_submission_penalty("ada", 50.0, hours * 3600) == taken


@pytest.fixture
def course(tmp_path, monkeypatch):
    toyclass.make(monkeypatch, tmp_path, says={"ada": toyclass.RIGHT, "ben": toyclass.RIGHT})
    return tmp_path


def grade(course, monkeypatch):
    """Grades again with 20 percent a day: student -> (total, penalty, score)."""

    def config(home, **more):
        settings = nbgrader_config.config(home, **more)
        settings.ByTheDay.percent = 20
        return settings

    monkeypatch.setattr(books, "config", config)
    outcomes = preprocessors.grade_with_nbgrader(course / "class", UNIT, root=course)
    assert set(outcomes.values()) == {"ok"}, outcomes
    return {e.student: (e.total, e.penalty, e.score) for e in results.gradebook(course / "class", UNIT)}


def test_lateness_costs_what_the_configuration_says_and_an_extension_gives_it_back(course, monkeypatch):
    home = course / "class"
    for student in ("ada", "ben"):
        (home / "submitted" / student / UNIT / "timestamp.txt").write_text("2026-11-20 10:00:00 UTC")
    due = late.set_due(home, UNIT, "2026-11-19T00:00+01:00")
    assert f"{due:%Y-%m-%d %H:%M}" == "2026-11-18 23:00"
    until = late.extend(home, UNIT, "ben", days=3)
    assert f"{until:%Y-%m-%d %H:%M}" == "2026-11-21 23:00"
    assert grade(course, monkeypatch) == {"ada": (15.5, 6.2, 9.3), "ben": (15.5, 0.0, 15.5)}
    page = (home / "feedback" / "ada" / UNIT / f"{UNIT}.html").read_text()
    assert "after a penalty of 6.2 for being late" in page and "Score: 9.3 / 14.0" in page
    late.extend(home, UNIT, "ben", days=0)
    assert grade(course, monkeypatch)["ben"] == (15.5, 6.2, 9.3)


def test_who_has_an_extension_and_nothing_handed_in_is_not_in_the_gradebook(course):
    late.set_due(course / "class", UNIT, "2026-11-19")
    late.extend(course / "class", UNIT, "zoe", days=1)
    assert [e.student for e in results.gradebook(course / "class", UNIT)] == ["ada", "ben"]


def test_what_is_no_date_or_no_unit_is_a_sentence(tmp_path):
    with pytest.raises(ValueError, match="'next week' is not a date. Write one such as 2026-11-30T23:59"):
        late.set_due(tmp_path, UNIT, "next week")
    with pytest.raises(ValueError, match="not in the gradebook yet"):
        late.extend(tmp_path, UNIT, "ada", 1)


def test_a_fixed_test_regrades_without_a_new_release(course, monkeypatch):
    release = course / "notebooks" / UNIT / f"{UNIT}.ipynb"
    before = release.read_bytes(), release.stat().st_mtime_ns
    assert [e.scores["toy.double"] for e in results.gradebook(course / "class", UNIT)] == [10, 10]
    toyclass.judged(monkeypatch, {"ada": toyclass.WRONG, "ben": toyclass.RIGHT})
    preprocessors.grade_with_nbgrader(course / "class", UNIT, root=course)
    assert [e.scores["toy.double"] for e in results.gradebook(course / "class", UNIT)] == [6, 10]
    assert results.verdicts(course / "class", UNIT, "ada") == toyclass.WRONG
    assert (release.read_bytes(), release.stat().st_mtime_ns) == before
