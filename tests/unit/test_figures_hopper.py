"""The pictures of unit 12: they exist, and draw numbers that a count confirms."""

from __future__ import annotations

import pytest
from pictures import words

from course_lib import figures

F = figures.hopper

PICTURES = {
    "who_holds_what": (),
    "banks": (3,),
    "ring": (9, 4),
    "explore_ring": (),
}

# ------------------------------------------------------------------------------------------------ part two


def test_a_ring_tells_phases():
    assert "Tile 5 is number 2 in slot 2. Its reader waits for phase 1 of full[2], which has parity 1" in words(
        F.ring(5, 3)
    )
    assert "parity 1 of empty[1]: it has never opened" in words(F.ring(1, 2))
    with pytest.raises(ValueError, match="rings of 1 to 4"):
        F.ring(3, 5)


def test_the_ring_follows_its_sliders(notebook):
    widget = F.explore_ring()
    widget.named["tile"].value, widget.named["size"].value = 7, 2
    assert "Tile 7 is number 4 in slot 1" in words(widget.figure)


def test_banks_are_counted():
    said = words(F.banks(31))
    assert "unswizzled: 32 passes" in said
    assert "padded by a word: 1 pass" in said
    assert "swizzled: 1 pass" in said
    with pytest.raises(ValueError, match="columns 0 to 31"):
        F.banks(32)


def test_each_lane_has_as_many_registers_as_are_drawn():
    assert "each lane has 8 registers of it" in words(F.who_holds_what())
    assert "each lane has 1 register of it" in words(F.who_holds_what((1, 1), (8, 4), (2, 1), (1, 0), (16, 4)))
