"""The pictures of unit 12: they exist, and draw numbers that a count confirms."""

from __future__ import annotations

import pytest
from pictures import words

from course_lib import figures

F = figures.serving

PICTURES = {"which_rows": (2, 3), "explore_which_rows": (), "prefill_and_decode": (), "large_decoding": ()}


def test_rows_by_hand():
    assert "Query 0 of 6 sees keys 0 to 10 of 16" in words(F.which_rows(2, 1))
    assert "Query 9 of 10 sees keys 0 to 9 of 24" in words(F.which_rows(4, 10))
    assert "Query 0 of 1 sees keys 0 to 16 of 24: places 17 to 23" in words(F.which_rows(5, 1))
    assert "Query 0 of 1 sees keys 13 to 16 of 17" in words(F.which_rows(6, 1))
    assert "Query 0 of 10 sees key 0 of 10" in words(F.which_rows(1, 1))


def test_calls_and_rows_that_are_not_there():
    with pytest.raises(ValueError, match="calls 1 to 6"):
        F.which_rows(7, 1)
    with pytest.raises(ValueError, match="call 3 has 1 queries"):
        F.which_rows(3, 2)


def test_the_widget_follows_its_sliders(notebook):
    widget = F.explore_which_rows()
    widget.named["call"].value = 4
    assert "Call 4 of 6" in words(widget.figure) and widget.named["row"].max == 10
    widget.named["call"].value = 3
    assert widget.named["row"].max == 1 == widget.named["row"].value


def test_a_step_by_hand():
    """One token after 9: 2 FLOPs per parameter, and 10 keys for 32 heads in 32 layers; 2 bytes per parameter, and 10 rows of k and of v."""
    flops, nbytes = F.step(1, 1, 9)
    assert flops == 16e9 + 4 * 32 * 32 * 128 * 10
    assert nbytes == 16e9 + 2 * 32 * 8 * 128 * 10 * 2
