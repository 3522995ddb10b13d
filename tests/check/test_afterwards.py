"""Asks that the compiler goes on after a verdict, and that its answer is shown below it."""

from dataclasses import replace

import nbformat
import pytest
from nbformat import v4

from course_lib import checking, logbook, render
from course_lib.execution import progress
from course_lib.exercise import Finding, Verdict
from course_lib.exercises import find
from course_lib.render import afterwards

TRANSPOSE = find("coalescing.transpose")


def verdict(status="passed", seen="sm_80", points=10.0, late=False) -> Verdict:
    compiles = Finding("compiles for a GPU", 0, 0, status, seen=seen, key="compiles", gate=True, late=late)
    other = Finding("right on plain inputs", points, 10.0, "passed", seen="right in 1 case", key="correct.plain")
    return Verdict(TRANSPOSE.id, points, 10.0, [compiles, other])


def nothing_next(answered):
    return ""


def go_on(first, again):
    afterwards.go_on(first, again, nothing_next).join()


def test_what_was_late_alone_is_shown_as_it_is_then(places):
    go_on(verdict(late=True), lambda: verdict(seen="sm_80, sm_90"))
    (place,) = places
    assert len(place.shown) == 2 and "sm_80, sm_90" in place.shown[1] and "right in 1 case" not in place.shown[1]


def test_points_that_it_costs_are_told(places):
    go_on(verdict(late=True), lambda: verdict("failed", "spills", points=3.0))
    assert "3 of 10 points" in places[0].shown[1] and "spills" in places[0].shown[1]


def no_answer():
    raise ValueError("the function changed")


def test_points_that_were_lost_elsewhere_do_not_come_back(places):
    go_on(verdict(late=True, points=0.0), lambda: verdict(points=10.0))
    assert "points" not in places[0].shown[1].splitlines()[0]


@pytest.mark.parametrize("again", [lambda: verdict(late=True), no_answer])
def test_that_there_is_no_answer_is_told(places, again):
    go_on(verdict(late=True), again)
    assert places[0].shown[1:] == [afterwards.NO_END]


TUNE = find("tiling.tune")


def of_tune(late, points=(2, 1, 2), traffic=3) -> Verdict:
    statuses = ["not_judged" if late else "passed" if p else "failed" for p in points]
    out_of = [criterion.points for criterion in TUNE.criteria]
    findings = [
        Finding(c.title, p, c.points, status, key=c.key, about=c.about, late=late)
        for c, p, status in zip(TUNE.criteria, points, statuses, strict=False)
    ]
    findings.append(Finding("traffic", traffic, out_of[-1], "passed", key="traffic"))
    return Verdict(TUNE.id, float(sum(points) + traffic), TUNE.points, findings)


@pytest.fixture
def checked(tmp_path, monkeypatch, places):
    """Checks an answer whose compiler is late; returns what check returned, what is kept then, and what is kept in the end."""
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.json"))
    monkeypatch.setattr(progress, "is_watched", lambda: True)
    monkeypatch.setattr(render, "shell", lambda: object())
    threads, below = [], afterwards.below
    monkeypatch.setattr(afterwards, "below", lambda *given: threads.append((given[1], below)) or None)

    def check(late, then):
        monkeypatch.setattr(checking, "verdict", lambda *_: late)
        monkeypatch.setattr(checking, "_judged_with_patience", lambda *_: then)
        points = checking.check(late.exercise, print)
        at_first = logbook.best().get(late.exercise, 0.0)
        for work, run in threads:
            run(afterwards.GOES_ON, work).join()
        return points, at_first, logbook.best().get(late.exercise, 0.0)

    return check


def test_nothing_is_kept_or_right_before_the_compiler_has_ended(checked, places):
    then = replace(of_tune(late=False, points=(0, 0, 0)), remark="more warps")
    points, at_first, in_the_end = checked(of_tune(late=True), then)
    assert (points, at_first, in_the_end) == (3, 0, 3) and "more warps" in places[0].shown[1]
    assert render.OUTCOMES["waiting"][0] in points.text and "Next" not in points.text


def test_what_the_compiler_makes_is_kept_when_it_has_ended(checked, places):
    points, at_first, in_the_end = checked(of_tune(late=True), of_tune(late=False))
    assert (points, at_first, in_the_end) == (3, 0, 8)
    assert "8 of 8 points" in places[0].shown[1] and logbook.next_after(TUNE) in places[0].shown[1]


def test_what_no_compiler_spoke_for_is_never_kept(checked, places):
    _, at_first, in_the_end = checked(of_tune(late=True), of_tune(late=True))
    assert (at_first, in_the_end) == (0, 3) and places[0].shown[1:] == [afterwards.NO_END]


def test_behind_a_late_gate_all_points_wait(checked, places):
    points, at_first, in_the_end = checked(verdict(late=True), verdict("failed", points=0.0))
    assert (at_first, in_the_end) == (0, 0) and render.OUTCOMES["waiting"][0] in points.text


@pytest.mark.slow
def test_a_notebook_goes_on_and_shows_it_below_the_verdict():
    NotebookClient = pytest.importorskip("nbclient").NotebookClient
    from grader.published import IMPORTS, solution_cell

    hurry = "import os, threading\nfrom course_lib import checking\ncheck = checking.check\n"
    hurry += "os.environ['TRITON_ALWAYS_COMPILE'], checking.COMPILE_SECONDS = '1', 0.01"
    answer, waiting = f"{IMPORTS}\n{solution_cell(TRANSPOSE.id)}", "for t in threading.enumerate():"
    waiting += f"\n    if t.name == {afterwards.BELOW!r}: t.join()"
    cells = [hurry, answer, f'check("{TRANSPOSE.id}", {TRANSPOSE.entry})', waiting]
    nb = v4.new_notebook(cells=[v4.new_code_cell(cell) for cell in cells])
    NotebookClient(nb, timeout=120, kernel_name="python3").execute()
    first, below = (output.data["text/plain"] for output in nb.cells[2].outputs)
    assert "not asked in time" in first and "not asked in time" not in below
    assert below.startswith("The compiler has ended since") and "sm_80, sm_90" in below
    nbformat.validate(nb)
