"""Widgets on the site: every state is drawn ahead, and the page begins with the one that the notebook begins with."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from grader.building import states
from grader.building.states import Moving

SOURCES = Path(__file__).resolve().parents[2] / "solutions"


@pytest.fixture(scope="module")
def latency() -> Moving:
    moving = states.moving("figures.start.explore_hiding_latency()")
    assert moving is not None
    return moving


def frames(moving: Moving) -> list:
    """The pictures, in a list for the values of each slider in turn."""
    name, drawn = re.fullmatch(r'course\.states\("([\w.]+)",(.*)\);\n', moving.script).groups()
    assert name == moving.name
    drawn = json.loads(drawn)

    def pictures(part: list) -> list | str:
        return (
            "\n".join(drawn["lines"][i] for i in part)
            if isinstance(part[0], int)
            else [pictures(each) for each in part]
        )

    return pictures(drawn["frames"])


def sliders(moving: Moving) -> list[dict[str, str]]:
    return [dict(re.findall(r'([\w-]+)="([^"]*)"', tag)) for tag in re.findall(r"<input [^>]*>", moving.page)]


def test_each_value_of_each_slider_has_a_picture_of_its_own(latency):
    drawn = frames(latency)
    assert [len(row) for row in drawn] == [5] * 16
    assert len({frame for row in drawn for frame in row}) == 80
    assert [slider["aria-label"] for slider in sliders(latency)] == ["warps", "wait"]
    assert [int(slider["max"]) for slider in sliders(latency)] == [15, 4]
    assert sliders(latency)[1]["data-values"] == "100|200|400|600|800"


def test_the_page_holds_the_state_that_the_sliders_stand_at(latency):
    one, other = (int(slider["value"]) for slider in sliders(latency))
    assert frames(latency)[one][other] in latency.page


def test_what_plays_in_the_notebook_plays_on_the_page_and_presets_have_buttons(latency):
    assert (
        re.findall(r'aria-label="(\w+)"[^>]*data-plays', latency.page) == ["warps"] and 'class="play"' in latency.page
    )
    programs = states.moving("figures.start.explore_programs_over_elements()")
    assert re.findall(r'data-to="(\d+)">([^<]*)', programs.page) == [("31", "n 32"), ("32", "n 33")]
    assert 'class="play"' not in programs.page


def test_a_row_ends_where_the_first_control_says():
    moving = states.moving("figures.serving.explore_which_rows()")
    assert [len(row) for row in frames(moving)] == [6, 6, 1, 6, 1, 1]


def test_a_list_of_names_is_a_control_too():
    moving = states.moving("x = 1\nfigures.fusion.explore_chain()")
    assert len(set(frames(moving))) == 3 and len(sliders(moving)) == 1


@pytest.mark.parametrize("source", ["figures.fusion.speeds()", "figures.flash.explore_program_walk(**mine)", "1 + 1"])
def test_what_makes_no_widget_of_its_own_does_not_move(source):
    assert states.moving(source) is None


def test_what_is_said_of_a_widget_is_of_one_that_units_show():
    shown = {"".join(call) for path in SOURCES.glob("*.py") for call in states.CALL.findall(path.read_text("utf-8"))}
    assert states.ON_PAGE.keys() <= shown
