"""Promises of docs/teaching.md: ten questions with answers for each unit, commands that exist, slides of the saved pictures."""

import re
import tomllib
from pathlib import Path

import nbformat
import pytest

from course_lib.exercises import UNITS
from grader.__main__ import app
from grader.building import slides

ROOT = Path(__file__).resolve().parents[2]
ORAL = tomllib.loads((ROOT / "docs" / "oral.toml").read_text("utf-8"))
PAGE = (ROOT / "docs" / "teaching.md").read_text("utf-8")


def test_each_unit_has_ten_questions_and_answers():
    assert list(ORAL) == list(UNITS)
    for unit, questions in ORAL.items():
        assert len(questions) == 10, unit
        assert all(question.endswith(("?", ".")) and answer.endswith(".") for question, answer in questions.items())
    assert len({question for questions in ORAL.values() for question in questions}) == 10 * len(UNITS)


def test_commands_of_the_page_exist():
    commands = set(re.findall(r"\bgrader ([a-z-]+)\b", PAGE))
    known = {command.name or command.callback.__name__ for command in app.registered_commands}
    assert {"counts", "due", "release", "slides"} <= commands <= known


def test_the_self_test_has_an_answer_to_each_question():
    section = PAGE.split("## Who can take it")[1].split("\n## ")[0]
    questions = re.findall(r"^\d+\. .+", section, re.M)
    assert len(questions) >= 8 and all(re.search(r"\*.+\*$", question) for question in questions)


@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_has_slides(unit, tmp_path):
    shown = list(slides.slides(nbformat.read(ROOT / "solutions" / unit / f"{unit}.ipynb", 4).cells))
    assert len(shown) >= 2
    for slide in shown:
        assert slide.title and slide.question and slide.picture and slide.alt and len(slide.lines) <= slides.LINES
    assert slides.write(unit, ROOT, tmp_path / "slides.html") == len(shown)
    assert (tmp_path / "slides.html").read_text("utf-8").count("<section>") == len(shown)


def test_a_unit_that_is_none_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no unit"):
        slides.write("99_nothing", tmp_path, tmp_path / "slides.html")
    assert not list(tmp_path.iterdir())
