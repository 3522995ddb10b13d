"""One unit from end to end: the sample class is built, handed in, judged, and written to nbgrader's gradebook."""

import html

import pytest
from nbgrader.api import Gradebook

import grader
from course_lib.exercises import UNITS, titles
from grader.audit import samples
from grader.building import build
from grader.commands.judging import grade

ONE = "05_tiling"  # in `make test`; the others take minutes


@pytest.fixture(scope="module", params=[u if u == ONE else pytest.param(u, marks=pytest.mark.slow) for u in UNITS])
def graded(request, tmp_path_factory):
    """(unit, folder) of a graded sample class."""
    unit = request.param
    folder = tmp_path_factory.mktemp("class")
    home = folder / "grader"
    patch = pytest.MonkeyPatch()
    patch.setenv("GRADER_HOME", str(home))
    patch.setenv("GRADER_ACCEPT_RISK", "1")
    _, release = build.build(unit, execute=False, root=grader.ROOT, out=folder)
    samples.write(unit, release, home / "submitted")
    grade(home, unit, workers=2, accept_risk=True, root=folder)
    yield unit, home
    patch.undo()


def test_every_sample_earns_what_stands_beside_it(graded):
    unit, home = graded
    path = {e.id for e in grader.exercises(unit).values() if e.track == "path"}  # More is extra: test_what_counts.py
    expected = {
        sample.student: {id: points for id, points in sample.expected(unit).items() if id in path}
        for sample in samples.of_unit(unit)
    }
    found = {}
    with Gradebook(f"sqlite:///{home / 'gradebook.db'}") as gradebook:
        for entry in gradebook.find_assignment(unit).submissions:
            grades = [g for notebook in entry.notebooks for g in notebook.grades]
            scores = {g.name: g.auto_score for g in grades}
            found[entry.student.id] = {
                e.id: scores[e.check_id]
                for e in grader.exercises(unit).values()
                if e.check_id in scores and e.id in path
            }
            extra = sum(g.extra_credit or 0 for g in grades)
            assert entry.score == pytest.approx(sum(found[entry.student.id].values()) + extra)
    assert found == expected


def test_everyone_gets_feedback(graded):
    unit, home = graded
    for sample in samples.of_unit(unit):
        assert (home / "feedback" / sample.student / unit / f"{unit}.html").exists()
    if unit == "04_memory_coalescing":
        page = (home / "feedback" / "strided-access" / unit / f"{unit}.html").read_text()
        assert "stores are dense" in page and "of every 32 bytes" in page
        assert "did not finish within" in (home / "feedback" / "endless-loop" / unit / f"{unit}.html").read_text()


def test_feedback_shows_no_solution_to_the_blank_submission(graded):
    unit, home = graded
    page = (home / "feedback" / "blank" / unit / f"{unit}.html").read_text()
    asked = grader.exercises(unit).values()
    lines = [e.id for e in asked if f'<span id="{e.check_id}">{html.escape(titles.title(e.id))}</span>' in page]
    assert "BEGIN SOLUTION" not in page and lines and all(f'id="{e.check_id}"' in page for e in asked), (
        "a line, or a card"
    )
