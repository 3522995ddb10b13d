"""Numbers that we measured stand in texts by `{{measured KEY}}` alone, so a new recording changes the text, too."""

import re

import pytest

import grader
from course_lib.exercises import UNITS
from grader.building import quoted
from grader.building.announce import AnnouncementError, Announcer

SOURCES = {unit: (grader.ROOT / "solutions" / f"{unit}.py").read_text("utf-8") for unit in UNITS}
MEASURED = re.compile(
    r"\d ?(TFLOP/s|TB/s|µs)|\d microseconds|\d milliseconds|\b20\d\d-\d\d-\d\d\b|\bprototypes? of this unit"
)
CITED = re.compile(r"datasheet|issue \d+")


@pytest.mark.parametrize("unit", UNITS)
def test_no_measured_number_is_typed(unit):
    """A claim of others says whose it is: a datasheet's, an issue's."""
    typed = [
        paragraph
        for cell in texts(SOURCES[unit])
        for paragraph in re.split(r"\n\n|\n(?=[*|])", cell)
        if MEASURED.search(paragraph) and not CITED.search(paragraph)
    ]
    assert not typed


def test_each_number_is_a_number_and_is_quoted():
    said = {
        " ".join(key.split())
        for text in SOURCES.values()
        for key in re.findall(r"\{\{measured ([^{}]+)\}\}", text.replace("\n#", ""))
    }
    assert said == set(quoted.QUOTED)
    assert all(float(number) > 0 for key in quoted.QUOTED for number in quoted.text(key).split(" | "))


def test_a_number_that_no_recording_has_is_refused():
    with pytest.raises(AnnouncementError, match="no such number"):
        Announcer("05_tiling", {}).filled("{{measured product 4095}}", 1)
    with pytest.raises(KeyError, match="no row"):
        quoted.on_page("tiling", ("4095 cubed, bfloat16",), "ratio")


def texts(source):
    """The Markdown cells of a source."""
    for cell in re.split(r"^# %%", source, flags=re.M):
        if cell.startswith(" [markdown]"):
            yield re.sub(r"^# ?", "", cell, flags=re.M)
