"""The pictures of unit 10: they say what they show, and draw numbers that a hand count confirms."""

from __future__ import annotations

import re

import numpy as np
import pytest
from pictures import words

from course_lib import figures
from course_lib.exercises import flash_backward as B
from course_lib.figures.flash import walk_of
from course_lib.hardware.measurements import measured

F = figures.flash_backward

PICTURES = {
    "name_gradients": (),
    "backward_walk": ("dq", 5, 6, True),
    "explore_backward_walk": (),
    "sums_in_any_order": (64, 300),
    "context_against_memory": (),
    "backward_speed": (),
}


@pytest.mark.parametrize("causal, begins", [(True, 64), (False, 0)])
def test_dkdv_walks_over_queries(causal, begins):
    steps = walk_of(*F.a_walk("dkdv", causal), 1)  # keys 64 to 127
    assert steps[:2] == [("k", 64, 128), ("v", 64, 128)]
    assert steps[-2:] == [("dk", 64, 128), ("dv", 64, 128)]
    rows = range(begins, 256, 32)
    assert steps[2:-2] == [(name, i, i + 32) for i in rows for name in ("q", "do")]


@pytest.mark.parametrize("causal, ends", [(True, 64), (False, 256)])
def test_dq_walks_over_keys(causal, ends):
    steps = walk_of(*F.a_walk("dq", causal), 1)  # queries 32 to 63
    assert steps[:2] == [("q", 32, 64), ("do", 32, 64)] and steps[-1] == ("dq", 32, 64)
    assert steps[2:-1] == [(name, j, j + 64) for j in range(0, ends, 64) for name in ("k", "v")]


def test_the_walk_says_where_it_is():
    said = words(F.backward_walk("dkdv", 1, 8, True))
    assert "step 8 of 16: loads rows 128 to 159 of do" in said and "96 of q, 64 of k" in said
    assert "step 0 of 16." in words(F.backward_walk("dkdv", 1, 0, True))
    assert "program 3 (of 0 to 3), step 8 of 8: stores rows 192 to 255 of dv" in words(
        F.backward_walk("dkdv", 99, 99, True)
    )
    with pytest.raises(ValueError, match="'dv'"):
        F.backward_walk("dv")


def test_sliders_end_where_the_walk_does(notebook):
    named = F.explore_backward_walk().named
    assert (named["program"].max, named["step"].max) == (3, 16)
    named["program"].value = 3
    assert named["step"].max == 8
    named["kernel"].value = "dq"
    assert (named["program"].max, named["program"].value) == (7, 3)
    named["program"].value, named["step"].value = 7, 11
    named["kernel"].value = "dkdv"
    assert (named["program"].value, named["step"].value) == (3, 8), (
        "clamped by the slider, so that it agrees with the caption"
    )


def test_orders_make_different_sums_of_the_same_numbers():
    found, own, exact = F.sums_in_orders(64, 300)
    assert len(np.unique(found)) > 3 and np.abs(found - exact).max() < 1e-4
    assert F.sums_in_orders(64, 3)[1] == own  # the fixed order is fixed


def test_the_longest_texts_are_those_that_autograd_allows():
    said = F.context_against_memory("H200").get_supxlabel().replace("\n", " ")
    limits = [
        int(n.replace(",", ""))
        for n in re.findall(r"memory's size at ([\d,]+) tokens|1 at ([\d,]+)\.", said)
        for n in n
        if n
    ]
    memory = int(figures.flash_backward.datasheet("H200").hbm_bytes)
    assert limits == [B.memory.longest(memory, F.MODEL | {"scores": scores}) for scores in (True, False)]


def test_the_ratios_are_those_of_the_record():
    rows = [row["contenders"] for row in measured("attention")["backward"] if row["d"] == 64]
    ratios = [row["unit 10"]["tflops"] / row["FlashAttention-2"]["tflops"] for row in rows]
    assert len(rows) == 6 and f"{min(ratios):.2f} to {max(ratios):.2f}" in words(F.backward_speed(64))


def test_each_line_of_the_speeds_is_named_at_its_end_with_its_number():
    """The names stand apart, also where two lines end side by side."""
    figure = F.backward_speed()
    rows = [row for row in measured("attention")["backward"] if row["d"] == 128]
    for ax, causal in zip(figure.axes, (False, True), strict=True):
        mine = [row["contenders"] for row in rows if row["causal"] == causal]
        ends = {name: [row[name]["tflops"] for row in mine if name in row][-1] for name in F.CONTENDERS}
        assert [text.get_text() for text in ax.texts] == [f"{name} {tflops:.0f}" for name, tflops in ends.items()]
        assert min(np.diff(sorted(text.xy[1] for text in ax.texts))) > 30
