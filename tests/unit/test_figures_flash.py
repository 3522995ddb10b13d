"""The pictures of unit 09: they draw numbers that a hand count, a trace or the record confirms."""

from __future__ import annotations

import numpy as np
import pytest
from pictures import words

from course_lib import figures
from course_lib.hardware.measurements import measured

F = figures.flash

PICTURES = {
    "program_walk": (1, 4),
    "explore_program_walk": (),
    "windows_and_groups": (),
    "ladder": (),
    "against_length": (),
    "decode_splits": (),
    "name_maps": (),
}


def test_a_walk_by_hand():
    """Program 1 of 64 queries, keys in tiles of 32: q, four times k and v, o."""
    traced, tensors = F.a_walk(n=200, bm=64, bn=32)
    walk = F.walk_of(traced, tensors, 1)
    pairs = [(name, j, j + 32) for j in (0, 32, 64, 96) for name in "kv"]
    assert walk == [("q", 64, 128), *pairs, ("o", 64, 128)]
    assert F.walk_of(traced, tensors, 3)[-1] == ("o", 192, 200)
    assert [len(F.walk_of(F.a_walk(causal=False)[0], tensors, 0))] != [len(walk)]
    with pytest.raises(ValueError, match="the launch has 4"):
        F.walk_of(traced, tensors, 4)


def test_the_walk_tells_the_step():
    assert "has moved nothing yet" in words(F.program_walk(0, 0))
    assert "step 4 of 10: loads rows 32 to 63 of k" in words(F.program_walk(1, 4))
    assert "stores rows 64 to 127 of o" in words(F.program_walk(1, 99))


def test_the_walk_of_a_kernel_of_ones_own():
    traced, tensors = F.a_walk(n=64, bm=32, bn=16, causal=False)
    assert "Program 1 (of 0 to 1), step 10 of 10" in words(F.program_walk(1, 10, traced, tensors))


def test_the_widget_follows_its_sliders(notebook):
    widget = F.explore_program_walk()
    before = widget.shown
    widget.named["step"].value = 3
    assert widget.shown != before and "step 3 of" in words(widget.figure)
    widget.named["program"].value = 0
    assert "Program 0 (of 0 to 3)" in words(widget.figure)
    assert widget.named["step"].max == len(F.walk_of(*F.a_walk(), 0)) < len(F.walk_of(*F.a_walk(), 3))


def test_kinds_of_tiles_by_hand():
    mask = np.tril(np.ones((4, 4), bool))
    assert F.tile_kinds(mask, 2, 2).tolist() == [[1, 0], [2, 1]]


def test_windows_and_groups_counts_its_tiles(picture):
    said = words(picture("windows_and_groups"))
    assert (
        "needs 26 tiles, and causal attention without a window needs 36" in said
    )  # by hand: 1 + 2 + 3 + 4 and four times 4; 8 * 9 / 2
    assert "tile of 32 rows holds 2 heads" in said


def test_speeds_are_those_of_the_record(picture):
    record = measured("attention")
    assert record["machine"] in words(picture("ladder")) and record["date"] in words(picture("against_length"))
    shown = {round(patch.get_width(), 3) for ax in picture("ladder").axes for patch in ax.patches}
    rows = [r for r in record["ladder"] if (r["d"], r["length"]) == (128, 16384)]
    assert shown == {round(c["tflops"], 3) for r in rows for c in r["contenders"].values()}
