"""The pictures of unit 00: they exist, say what they show, and draw numbers that a hand count confirms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from pictures import words

from course_lib import figures
from course_lib.exercises.start import issue
from course_lib.figures.start.execution import _runs
from course_lib.figures.start.gpu_facts import transistors
from course_lib.hardware import hierarchy
from tritontrace import gpu

F = figures.start

MEASURED = {
    "machine": "NVIDIA H200",
    "date": "2026-11-21",
    "l2_bytes": 60 << 20,
    "fma": [4, 2e-9],
    "latency": [[1 << 14, 40, 2e-8], [8 << 20, 260, 1.3e-7], [128 << 20, 600, 3e-7]],
    "l1_bandwidth": 30e12,
    "bandwidth": [[8 << 20, 7e12], [1 << 30, 4e12]],
    "add_one": [[n, 1e-5 + n / 1e11] for n in hierarchy.ADD_ONE],
}

PICTURES = {
    "one_or_many": (),
    "ladder": (),
    "two_dies": (),
    "floor_plan": (),
    "hiding_latency": (4, 400, 40),
    "explore_hiding_latency": (),
    "thread_hierarchy": (),
    "programs_over_elements": (10, 4),
    "explore_programs_over_elements": (),
    "memory_hierarchy": (),
    "working_sets": (),
    "compute_outgrew_memory": (),
    "dots_and_weights": (),
}


def test_a_clock_follows_from_each_datasheet():
    """lanes x SMs x 2 x clock are the datasheet's fp32 FLOP/s: the clock must come out as one that is sold."""
    for card in gpu.DATASHEETS:
        assert 1.3e9 < F.clock(card) < 2.6e9, card.name


@pytest.mark.parametrize("card", gpu.DATASHEETS, ids=lambda card: card.name)
def test_the_machine_can_be_drawn_for_every_datasheet(card):
    for draw in (F.ladder, F.memory_hierarchy, F.thread_hierarchy):
        assert card.name in words(draw(card)) or str(card.sms) in words(draw(card))


def test_the_ladder_has_the_cards_numbers():
    told = words(F.ladder(gpu.datasheet("H200")))
    for number in ("80 billion", "65,536 in each SM", "128 in each SM", "4 in each SM", "132 on the GPU", "141 GB"):
        assert number in told


def test_the_memories_of_an_h200(monkeypatch):
    h200 = gpu.datasheet("H200")
    monkeypatch.setattr(hierarchy, "of", lambda card: MEASURED)
    registers, shared, l2, hbm = rows = F.memories(h200)
    assert registers.nbytes == 132 * 65536 * 4 and shared.nbytes == 132 * 228 * 1024
    assert l2.nbytes == 60 << 20 and hbm.nbytes == 141e9
    assert [row.wait[0] for row in rows] == [4, 40, 260, 600]
    assert [row.rate for row in rows] == [8 * h200.fp32_flops, 30e12, 7e12, 4e12]


def test_what_is_not_measured_is_not_drawn_as_if_it_were(monkeypatch):
    monkeypatch.setattr(hierarchy, "of", lambda card: None)
    *_, l2, hbm = F.memories(gpu.datasheet("H200"))
    assert l2.rate is None and l2.wait is None and (hbm.rate, hbm.source) == (4.8e12, "datasheet")
    drawn = F.memory_hierarchy(gpu.datasheet("H200"))
    told = words(drawn)
    assert told.count("speed: not measured") == 2 and told.count("wait: not measured") == 4
    assert not [patch for patch in drawn.axes[0].patches if patch.get_x() == 0], "no pipe where nothing is known"


def test_pipes_and_boxes_are_to_scale(monkeypatch):
    """The caption says so: lengths are waits, widths are speeds, areas of boxes are sizes."""
    monkeypatch.setattr(hierarchy, "of", lambda card: MEASURED)
    card = gpu.datasheet("H200")
    rows, patches = F.memories(card), F.memory_hierarchy(card).axes[0].patches
    pipes, boxes = patches[::2], patches[1::2]
    assert [pipe.get_width() for pipe in pipes] == [row.wait[0] for row in rows] == [box.get_x() for box in boxes]
    for parts, values in (
        ([pipe.get_height() for pipe in pipes], [row.rate for row in rows]),
        ([box.get_width() * box.get_height() for box in boxes], [row.nbytes for row in rows]),
    ):
        assert [part / parts[0] for part in parts] == pytest.approx([value / values[0] for value in values])


def test_a_card_is_known_by_the_name_that_its_driver_gives_it():
    known = {
        "Tesla V100-SXM2-16GB": 21.1,
        "NVIDIA A100-SXM4-80GB": 54.2,
        "NVIDIA L4": 35.8,
        "NVIDIA GeForce RTX 4090": 76.3,
    }
    for name, billions in known.items():
        assert transistors(replace(gpu.datasheet("H200"), name=name)) == billions
    assert transistors(replace(gpu.datasheet("H200"), name="NVIDIA X1")) is None
    assert all(transistors(card) for card in gpu.DATASHEETS)


@pytest.mark.parametrize(
    "arguments, busy",
    [
        ((1, 400, 40), "9%"),  # 40 / 440
        ((4, 400, 40), "36%"),
        ((11, 400, 40), "100%"),
        ((16, 20, 100), "100%"),
    ],
)
def test_hiding_latency_counts_like_a_hand(arguments, busy):
    figure = F.hiding_latency(*arguments)
    assert f"busy in {busy} of the cycles" in figure.get_supxlabel()
    ticks = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert len(ticks) == arguments[0] + 1 and ticks[-1] == "the ALUs"


def test_a_warp_issues_its_work_and_then_waits():
    assert issue(1, 3, 2, 10).tolist() == [0, 0, -1, -1, -1, 0, 0, -1, -1, -1]
    assert issue(2, 3, 2, 10).tolist() == [0, 0, 1, 1, -1, 0, 0, 1, 1, -1]
    assert _runs(np.array([True, True, False, True])) == [(0, 2), (3, 4)]


@pytest.mark.parametrize("n, block, programs, masked", [(10, 4, 3, 2), (64, 16, 4, 0), (1, 32, 1, 31), (33, 32, 2, 31)])
def test_programs_over_elements_counts_like_a_hand(n, block, programs, masked):
    figure = F.programs_over_elements(n, block)
    assert figure.get_supxlabel().startswith(f"{programs} program{'s' if programs > 1 else ''} ×")
    assert f"{masked} hatched" in figure.get_supxlabel().replace("\n", " ")
    boxes = figure.axes[0].patches
    assert len(boxes) == programs * block and sum(bool(box.get_hatch()) for box in boxes) == masked
    every = 1 if block <= 16 else 2  # narrow boxes have no room for each number
    assert [text.get_text() for text in figure.axes[0].texts] == [str(i) for i in range(0, n, every)]


@pytest.mark.parametrize("arguments", [(0, 4), (4, 0)])
def test_programs_over_elements_names_a_wrong_argument(arguments):
    with pytest.raises(ValueError, match="from 1 on"):
        F.programs_over_elements(*arguments)


def test_one_or_many_shows_the_guess(monkeypatch):
    monkeypatch.setattr(F.execution, "measured", {"memory_hierarchy": MEASURED}.get)
    monkeypatch.setattr(hierarchy, "add_one_seconds", lambda sizes, device: [(n, 1e-6 * (1 + n / 1000)) for n in sizes])
    told = words(F.one_or_many(5000))
    assert "your guess: 5,000" in told and "wins from somewhere between 4,096 and 16,384 elements on" in told
    assert "elements on; with 16,777,216" in told
    for no_number in (..., "many", None, -1):
        assert "your guess" not in words(F.one_or_many(no_number))


def test_growth_is_the_datasheets(picture):
    told = words(picture("compute_outgrew_memory"))
    assert "× 18.0" in told and "× 8.9" in told  # 2250 / 125, 8000 / 900
    assert [t.get_text() for t in picture("compute_outgrew_memory").axes[1].texts] == [
        "139",
        "201",
        "295",
        "206",
        "281",
    ]


def test_a_similar_key_has_a_large_dot_product_and_a_weight_near_one(picture):
    left, right = ([float(t.get_text()) for t in ax.texts] for ax in picture("dots_and_weights").axes)
    assert max(left) == left[3] > 50 and right[3] > 0.99 and abs(sum(right) - 1) < 0.01
