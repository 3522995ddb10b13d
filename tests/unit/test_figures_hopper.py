"""The pictures of unit 14: they exist, and draw numbers that a count confirms."""

from __future__ import annotations

import pytest
import torch
from pictures import words

from course_lib import figures
from course_lib.exercises.hopper.rings import RING
from course_lib.figures.hopper.clusters import kib_of_a_step
from tritontrace.hopper import schedule
from tritontrace.hopper.language import gl, gluon

F = figures.hopper

PICTURES = {
    "clusters": (4,),
    "ring": (9, 4),
    "explore_ring": (),
    "pipelines": (),
    "pipeline": (3, 700, 2),
    "explore_pipeline": (),
    "timeline_of": (),
}


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
    races = F.six_races()
    for said in (repr(races), races._repr_html_()):
        assert all(f"ring {letter}: 2 slots, 5 steps" in said for letter in "ABCDEF")
        assert f"\n{len(RING.splitlines())}      store_wait(0)" in said
        assert "ring G" not in said
    assert races._repr_html_().count("<pre ") == 6 and "<img" not in races._repr_html_()
    assert "ring G" in repr(F.two_races(3))


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
