"""Instructors see a graded class in nbgrader's formgrader, by the way that the README shows."""

from __future__ import annotations

import subprocess
import sys

import pytest
from lab import Lab
from playwright.sync_api import expect

import grader
from grader import ROOT

UNIT = "00_start_here"
POINTS = [exercise.points if exercise.track == "path" else 0 for exercise in grader.exercises(UNIT).values()]


@pytest.fixture(scope="module")
def formgrader(clean, tmp_path_factory):
    """Formgrader in a JupyterLab started in grader/, over the sample class of a unit: one solved it, one handed in nothing."""
    folder = tmp_path_factory.mktemp("class")
    demo = [sys.executable, "-m", "grader", "demo", UNIT, "--folder", str(folder / "demo")]
    subprocess.run(demo, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    with Lab(ROOT / "grader", folder, GRADER_HOME=str(folder / "demo" / "grader")) as lab, clean() as page:
        page.goto(lab.url("lab?reset"))
        page.get_by_role("menuitem", name="Nbgrader").click()
        page.get_by_text("Formgrader", exact=True).click()
        yield page.frame_locator("iframe")


def test_it_shows_the_students_and_their_scores(formgrader):
    formgrader.get_by_role("link", name="Manage Students").click()
    for student, points in {"full-marks": sum(POINTS), "blank": 0}.items():
        row = formgrader.get_by_role("row").filter(has=formgrader.get_by_role("gridcell", name=student, exact=True))
        expect(row).to_contain_text(f"{points:g} / {sum(POINTS):g}")


def test_it_opens_a_submission(formgrader):
    formgrader.get_by_role("link", name="Manual Grading").click()
    for link in (UNIT, UNIT):  # the assignment, then its notebook
        formgrader.get_by_role("gridcell").get_by_role("link", name=link).click()
    best = formgrader.get_by_role("row").filter(has_text=f"{sum(POINTS):g} / {sum(POINTS):g}")
    best.get_by_role("link", name="Submission").click()
    expect(formgrader.get_by_text("computed by your Triton kernel").first).to_be_visible()  # a line of a verdict
    scores = formgrader.locator("input.score")
    expect(scores).to_have_count(len(POINTS))
    assert [float(score.get_attribute("placeholder")) for score in scores.all()] == POINTS
