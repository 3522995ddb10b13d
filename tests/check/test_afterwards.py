"""Asks that the compiler goes on after a verdict, and that its answer is shown below it."""

import nbformat
import pytest
from nbformat import v4

from course_lib.exercise import Finding, Verdict
from course_lib.exercises import find
from course_lib.render import afterwards

TRANSPOSE = find("coalescing.transpose")


def verdict(status="passed", seen="sm_80", points=10.0, late=False) -> Verdict:
    compiles = Finding("compiles for a GPU", 0, 0, status, seen=seen, key="compiles", gate=True, late=late)
    other = Finding("right on plain inputs", points, 10.0, "passed", seen="right in 1 case", key="correct.plain")
    return Verdict(TRANSPOSE.id, points, 10.0, [compiles, other])


def test_what_was_late_alone_is_shown_as_it_is_then(places):
    afterwards.go_on(verdict(late=True), lambda: verdict(seen="sm_80, sm_90")).join()
    (place,) = places
    assert len(place.shown) == 2 and "sm_80, sm_90" in place.shown[1] and "right in 1 case" not in place.shown[1]


def test_points_that_it_costs_are_told(places):
    afterwards.go_on(verdict(late=True), lambda: verdict("failed", "spills", points=3.0)).join()
    assert "3 of 10 points" in places[0].shown[1] and "spills" in places[0].shown[1]


def no_answer():
    raise ValueError("the function changed")


def test_points_that_were_lost_elsewhere_do_not_come_back(places):
    afterwards.go_on(verdict(late=True, points=0.0), lambda: verdict(points=10.0)).join()
    assert "points" not in places[0].shown[1].splitlines()[0]


@pytest.mark.parametrize("again", [lambda: verdict(late=True), no_answer])
def test_that_there_is_no_answer_is_told(places, again):
    afterwards.go_on(verdict(late=True), again).join()
    assert places[0].shown[1:] == [afterwards.NO_END]


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
