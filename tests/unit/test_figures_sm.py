"""The pictures of unit 13: they exist, and draw numbers that a count confirms."""

from __future__ import annotations

import pytest
from pictures import words

from course_lib import figures
from course_lib.exercises.sm import walks
from course_lib.figures.sm import limits
from tritontrace.gpu import datasheet

F = figures.sm

PICTURES = {
    "occupancy": (128, 100, 8, "A100 80GB"),
    "explore_occupancy": (),
    "chains": (),
    "nested_tiles": (),
    "walks": (),
    "matmul_ladder": (),
    "attention_ladder": (),
    "who_holds_what": (),
    "explore_who_holds_what": (),
    "banks": (3,),
}


def test_occupancy_names_what_is_too_little():
    assert "H200: 3 programs" in words(F.occupancy(168, 40, 4))
    assert "one more program, limited by registers" in words(F.occupancy(168, 40, 4))
    assert "one more program, limited by shared memory" in words(F.occupancy(64, 100, 4))
    assert "none fits: shared memory" in words(F.occupancy(64, 100, 4, "T4"))
    with pytest.raises(ValueError, match="registers are 1 to 255"):
        F.occupancy(300)


def test_the_widget_follows_its_controls(notebook):
    widget = F.explore_occupancy()
    widget.named["card"].value = "T4"
    assert "T4: 1 program" in words(widget.figure)
    widget.named["registers"].value = 32
    widget.named["shared_kib"].value = 8
    assert "T4: 8 programs" in words(widget.figure)


def test_the_lit_lane_follows_its_controls(notebook):
    widget = F.explore_who_holds_what()
    assert "lane 5 of warp 0 holds 2 pieces of the block, in r0-3 and r4-7" in words(widget.figure)
    widget.named["size"].value = "1 x 2"  # 64 lanes with two columns each cover 16 x 8 elements
    widget.named["lane"].value = 31
    assert "lane 31 of warp 0 holds 4 pieces of the block, in r0-1 and r2-3 and r4-5 and r6-7" in words(widget.figure)


def test_the_walk_in_groups_is_the_best_of_three():
    said = words(F.walks())
    assert "DRAM bytes: 1.00" in said
    order = [[divmod(i, 12) for i in range(pid, 144, 7)] for pid in range(7)]
    assert walks.dram_share(order, 12, 12, 7) == 1


def test_ladders_rise_to_the_libraries_speed():
    steps = limits.product_steps()
    assert steps[0][1] < 0.3 * steps[0][2] and steps[-1][1] > 0.95 * steps[-1][2]
    assert "a factor of 2.04" in words(F.matmul_ladder())
    assert 'The step to "overlapped" gains most, a factor of 1.29' in words(F.attention_ladder())


def test_tiles_of_keys_fit_the_card_that_is_named():
    assert [limits.largest_keys(datasheet(name), 3) for name in ("T4", "A10G", "L4", "A100 80GB", "H100 SXM")] == [
        32,
        64,
        64,
        128,
        128,
    ]
    table = F.which_attention()
    for name in ("T4", "A10G", "L4", "A100 80GB", "H100 SXM", "B200"):
        assert f"\n{name} " in table
    for kib in ("64", "99", "163", "227"):
        assert f" {kib} " in table


def test_the_tables_bytes_are_those_of_unit_09():
    """64 queries and 128 keys of 128 halves, 3 stages: 16 KiB of q; on an A100 two stages of 64 KiB and p, on Hopper three."""
    a100, h100 = datasheet("A100 80GB"), datasheet("H100 SXM")
    assert limits.tile_bytes(a100, 128, 3) == (16 + 2 * 64 + 16) << 10
    assert limits.tile_bytes(h100, 128, 3) == (16 + 3 * 64) << 10


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
