"""nbgrader's own exchange, from release to collected submission: notebooks travel, and nothing else does."""

from __future__ import annotations

import getpass

import pytest
from nbgrader.auth import Authenticator
from nbgrader.coursedir import CourseDirectory
from nbgrader.exchange.default import ExchangeFetchAssignment, ExchangeFetchFeedback, ExchangeReleaseFeedback
from nbgrader.exchange.default import ExchangeSubmit as Submit
from traitlets.config import Config

from grader.gradebook import requests
from grader.gradebook.exchange import NOTES, Collect, Release
from grader.gradebook.feedback import carry_notes
from grader.nbgrader_config import config

UNIT = "90_toy"
ME = getpass.getuser()


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A course with one released unit; `place.grader(step)` and `place.student(step)` run a step of the exchange."""

    class Place:
        course, home, desk, exchange = (tmp_path / name for name in ("course", "course/class", "desk", "exchange"))

        def grader(self, step):
            self._run(step, config(self.home, root=self.course))

        def student(self, step):
            monkeypatch.chdir(self.desk)
            settings = Config()
            settings.CourseDirectory.course_id = "strides-to-flashattention"
            self._run(step, settings)

        def _run(self, step, settings):
            settings.Exchange.root, settings.Exchange.cache = str(self.exchange), str(tmp_path / "cache")
            course = CourseDirectory(config=settings, assignment_id=UNIT)
            step(coursedir=course, authenticator=Authenticator(config=settings), config=settings).start()

        @property
        def submitted(self):
            return self.home / "submitted" / ME / UNIT

    # what a class has: folders and a released unit
    for folder in (Place.home, Place.desk, Place.course / "notebooks" / UNIT):
        folder.mkdir(parents=True)
    Place.exchange.mkdir(mode=0o777)
    (Place.course / "notebooks" / UNIT / f"{UNIT}.ipynb").write_text('{"released": 1}')
    (Place.course / "notebooks" / UNIT / "mine.txt").write_text("not for students")
    return Place()


def test_nbgrader_is_told_of_it(tmp_path):
    factory = config(tmp_path).ExchangeFactory
    assert (factory.release_assignment, factory.collect) == (
        "grader.gradebook.exchange.Release",
        "grader.gradebook.exchange.Collect",
    )


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_notebook_goes_out_comes_back_and_its_feedback_finds_the_student(place):
    place.grader(Release)
    place.student(ExchangeFetchAssignment)
    assert names(place.desk / UNIT) == [f"{UNIT}.ipynb"]
    (place.desk / UNIT / f"{UNIT}.ipynb").write_text('{"solved": 1}')
    (place.desk / UNIT / "notes.txt").write_text("my own")
    place.student(Submit)
    place.grader(Collect)
    assert names(place.submitted) == sorted([f"{UNIT}.ipynb", *NOTES])
    assert (place.submitted / f"{UNIT}.ipynb").read_text() == '{"solved": 1}'

    for step, following in (("submitted", "autograded"), ("autograded", "feedback")):
        (place.home / following / ME / UNIT).mkdir(parents=True)
        carry_notes(assignment=UNIT, student=ME, notebooks=[str(place.home / step / ME / UNIT / f"{UNIT}.ipynb")])
    (place.home / "feedback" / ME / UNIT / f"{UNIT}.html").write_text("well done")
    place.grader(ExchangeReleaseFeedback)
    place.student(ExchangeFetchFeedback)
    (page,) = (place.desk / UNIT / "feedback").rglob("*.html")
    assert page.read_text() == "well done"


def test_nothing_is_collected_through_a_link(place, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    place.grader(Release)
    inbound = place.exchange / "strides-to-flashattention" / "inbound"
    stamp = "2026-11-20 10:00:00 UTC"
    for student in ("linked-notebook", "linked-note"):
        folder = inbound / f"{student}+{UNIT}+{stamp}+x"
        folder.mkdir()
        (folder / "timestamp.txt").write_text(stamp)
        (folder / f"{UNIT}.ipynb").write_text("{}")
    (inbound / f"linked-folder+{UNIT}+{stamp}+x").symlink_to(folder)
    for student, name in (("linked-notebook", f"{UNIT}.ipynb"), ("linked-note", "submission_secret.txt")):
        linked = inbound / f"{student}+{UNIT}+{stamp}+x" / name
        linked.unlink(missing_ok=True)
        linked.symlink_to(secret)
    place.grader(Collect)
    copied = [path for path in (place.home / "submitted").rglob("*") if path.is_file()]
    assert "secret" not in [path.read_text() for path in copied]
    assert sorted(path.parts[-3] for path in copied if path.suffix == ".ipynb") == ["linked-note"]


def test_a_request_comes_with_the_notebook_and_makes_nobody_late(place, monkeypatch):
    """The same notebook again, with a request beside it, was handed in when it first was; another one, when it came."""
    place.grader(Release)
    inbound = place.exchange / "strides-to-flashattention" / "inbound"

    def hand_in(time, solved, request=""):
        folder = inbound / f"{ME}+{UNIT}+{time}+x"
        folder.mkdir()
        files = {f"{UNIT}.ipynb": solved, "timestamp.txt": time, "regrade.txt": request}
        for name, content in files.items():
            if content:
                (folder / name).write_text(content)

    def collected():
        monkeypatch.setattr(Collect, "update", True)
        place.grader(Collect)
        return (place.submitted / "timestamp.txt").read_text(), requests.of_unit(place.home, UNIT)

    first, second, third = (f"2026-11-{day} 10:00:00.000000 UTC" for day in (20, 22, 23))
    hand_in(first, '{"solved": 1}')
    assert collected() == (first, {})
    hand_in(second, '{"solved": 1}', "exercise 3: the\x1b[31m mask is right\n\nplease look " + 4 * "x")
    assert collected() == (first, {ME: "exercise 3: the [31m mask is right please look xxxx"})
    hand_in(third, '{"solved": 2}', "and now")
    assert collected() == (third, {ME: "and now"})
    (place.submitted / "regrade.txt").unlink()
    (place.submitted / "regrade.txt").symlink_to(place.submitted / f"{UNIT}.ipynb")
    assert requests.of_unit(place.home, UNIT) == {}
