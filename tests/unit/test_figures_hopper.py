"""The pictures of unit 12: they exist, and draw numbers that a count confirms."""

from __future__ import annotations

import pytest
import torch
from pictures import words

from course_lib import figures
from course_lib.exercises.hopper import walks
from course_lib.exercises.hopper.rings import RING
from course_lib.figures.hopper import anywhere
from course_lib.figures.hopper.clusters import kib_of_a_step
from course_lib.hardware.gpu import datasheet
from course_lib.hopper.language import gl, gluon
from course_lib.hopper.schedule import schedule

F = figures.hopper

PICTURES = {
    "occupancy": (128, 100, 8, "A100 80GB"),
    "explore_occupancy": (),
    "chains": (),
    "clusters": (4,),
    "nested_tiles": (),
    "walks": (),
    "matmul_ladder": (),
    "attention_ladder": (),
    "who_holds_what": (),
    "banks": (3,),
    "ring": (9, 4),
    "explore_ring": (),
    "pipelines": (),
    "pipeline": (3, 700, 2),
    "explore_pipeline": (),
    "timeline_of": (),
    "six_races": (),
    "two_races": (3,),
}

# ------------------------------------------------------------------------------------------------ part one


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


def test_the_walk_in_groups_is_the_best_of_three():
    said = words(F.walks())
    assert "DRAM bytes: 1.00" in said
    order = [[divmod(i, 12) for i in range(pid, 144, 7)] for pid in range(7)]
    assert walks.dram_share(order, 12, 12, 7) == 1


def test_ladders_rise_to_the_libraries_speed():
    steps = anywhere.product_steps()
    assert steps[0][1] < 0.3 * steps[0][2] and steps[-1][1] > 0.95 * steps[-1][2]
    assert "a factor of 2.04" in words(F.matmul_ladder())
    assert 'The step to "overlapped" gains most, a factor of 1.29' in words(F.attention_ladder())


def test_tiles_of_keys_fit_the_card_that_is_named():
    assert [anywhere.largest_keys(datasheet(name), 3) for name in ("T4", "A10G", "L4", "A100 80GB", "H100 SXM")] == [
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
    assert anywhere.tile_bytes(a100, 128, 3) == (16 + 2 * 64 + 16) << 10
    assert anywhere.tile_bytes(h100, 128, 3) == (16 + 3 * 64) << 10


# ------------------------------------------------------------------------------------------------ part two


def test_a_cluster_fetches_a_shared_tile_once():
    """Two programs want 16 KiB of a each, and the same 32 KiB of b."""
    assert (kib_of_a_step(2, False), kib_of_a_step(2, True), kib_of_a_step(4, True)) == (96, 64, 96)
    assert "L2 delivers 67% of the bytes" in words(F.clusters())
    with pytest.raises(ValueError, match="room for 2 to 4"):
        F.clusters(8)


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


# ------------------------------------------------------------------------------------------------ part three


def test_each_loop_says_how_long_it_takes():
    said = words(F.pipelines())
    for stages, more in ((1, {}), (2, {}), (3, {}), (3, {"consumers": 2, "specialised": True})):
        assert f"{max(bar.end for bar in schedule(stages, steps=6, **more)):,.0f} cycles" in said


def test_sliders_of_the_pipeline(notebook):
    sliders = F.explore_pipeline()
    assert set(sliders.named) == {"stages", "latency", "consumers"}
    before = sliders.shown
    sliders.named["stages"].value = 1
    assert "With 1 slot" in words(sliders.figure)
    assert sliders.shown != before


def test_the_rings_are_written_with_their_lines():
    said = words(F.six_races())
    assert all(f"ring {letter}: 2 slots, 5 steps" in said for letter in "ABCDEF")
    assert f"{len(RING.splitlines())}      store_wait(0)" in said
    assert "ring G" in words(F.two_races(3))
    assert "ring G" not in said


@gluon.jit
def fills(x_ptr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    gl.store(x_ptr + gl.arange(0, 128, layout), gl.exp2(gl.arange(0, 128, layout).to(gl.float32)))


@gluon.jit
def fills_nothing(x_ptr):
    gl.store(x_ptr + lacks, 1.0)  # noqa: F821


@pytest.mark.parametrize(
    "launch, said",
    [
        (lambda x: fills[(1,)](x, num_warps=4), "Tensor cores are busy 0 %"),
        (lambda x: None, "Nothing is launched yet"),
        (lambda x: fills_nothing[(1,)](x, num_warps=4), "Your kernel does not run"),
    ],
)
def test_a_timeline_of_whatever_a_student_has(launch, said):
    assert said in words(F.timeline_of(launch, torch.empty(128)))
