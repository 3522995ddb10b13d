"""Widgets as rows of pictures on the site."""

import base64
import re

import pytest

from grader.building import states


def test_a_row_goes_from_the_first_setting_to_the_last():
    row = states.row_of("figures.start.explore_hiding_latency()")
    assert re.findall(r"<figcaption>([^<]*)", row) == ["wait: 20", "wait: 280", "wait: 540", "wait: 800"]
    pictures = [base64.b64decode(found) for found in re.findall(r"base64,([^\"]+)", row)]
    assert len(set(pictures)) == 4 and all(picture.startswith(b"\x89PNG") for picture in pictures)


def test_a_list_of_names_is_a_control_too():
    row = states.row_of("x = 1\nfigures.fusion.explore_chain()")
    assert len(re.findall(r"chain: ", row)) == 2 * 3, "as a caption and in words for who cannot see it"


@pytest.mark.parametrize("source", ["figures.fusion.speeds()", "figures.flash.explore_program_walk(**mine)", "1 + 1"])
def test_what_makes_no_widget_of_its_own_has_no_row(source):
    assert states.row_of(source) == ""
