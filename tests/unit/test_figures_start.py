"""The pictures of unit 00: they exist, say what they show, and draw numbers that a hand count confirms."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from course_lib import figures, gpu

F = figures.start

PICTURES = {
    "one_or_many": (),
    "ladder": (),
    "hiding_latency": (4, 400, 40),
    "hiding_latency_widget": (),
    "thread_hierarchy": (),
    "programs_over_elements": (10, 4),
    "programs_over_elements_widget": (),
    "memory_hierarchy": (),
    "compute_outgrew_memory": (),
    "dots_and_weights": (),
}


@pytest.fixture(scope="module")
def picture():
    drawn = {}

    def draw(name: str) -> Figure:
        if name not in drawn:
            drawn[name] = getattr(F, name)(*PICTURES[name])
        return drawn[name]

    return draw


def words(figure: Figure) -> str:
    """All that is written in a figure outside its ticks."""
    texts = [figure._supxlabel, *figure.texts] + [text for ax in figure.axes for text in ax.texts]
    titles = [ax.get_title(loc) for ax in figure.axes for loc in ("left", "center")]
    return " ".join([text.get_text().replace("\n", " ") for text in texts] + titles)


def test_every_picture_is_in_this_list():
    public = {n for n, f in inspect.getmembers(F, inspect.isfunction) if f.__module__ == F.__name__ and n[0] != "_"}
    returns_figure = {n for n in public if "Figure" in str(inspect.signature(getattr(F, n)).return_annotation)}
    assert returns_figure == set(PICTURES)


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_labelled_and_opaque(picture, name):
    figure = picture(name)
    assert isinstance(figure, Figure)
    assert figure.get_facecolor() == to_rgba("white")
    assert figure.get_supxlabel().endswith("."), "a sentence below says what to see"
    assert any(ax.get_xlabel() for ax in figure.axes)
    assert any(ax.get_ylabel() or ax.get_yticklabels() for ax in figure.axes)
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_a_clock_follows_from_each_datasheet():
    """lanes x SMs x 2 x clock are the datasheet's fp32 FLOP/s: the clock must come out as one that is sold."""
    for card in gpu.DATASHEETS:
        assert 1.3e9 < F.clock(card) < 2.6e9, card.name


@pytest.mark.parametrize("card", gpu.DATASHEETS, ids=lambda card: card.name)
def test_the_machine_can_be_drawn_for_every_datasheet(card):
    for draw in (F.ladder, F.memory_hierarchy, F.thread_hierarchy):
        assert card.name in words(draw(card)) or str(card.sms) in words(draw(card))


def test_the_ladder_has_thirteen_rungs_and_the_cards_numbers():
    card = gpu.datasheet("H200")
    names = [name for _, name, *_ in F.rungs(card)]
    assert len(names) == 13 and names[0] == "transistor" and names[-1] == "transformer"
    told = words(F.ladder(card))
    for number in ("80 billion", "65,536 in each SM", "128 in each SM", "4 in each SM", "132 on the GPU", "141 GB"):
        assert number in told


def test_the_memories_of_an_h200():
    registers, shared, l2, hbm = F.memories(gpu.datasheet("H200"))
    assert registers[1] == 132 * 65536 * 4 and shared[1] == 132 * 228 * 1024 and l2[1] == 60 << 20
    assert hbm[1] == 141e9 and hbm[3] == 4.8e12
    speeds, waits = [[row[i] for row in (registers, shared, l2, hbm)] for i in (3, 4)]
    assert speeds == sorted(speeds, reverse=True) and waits == sorted(waits)


@pytest.mark.parametrize(
    ("arguments", "busy"),
    [
        ((1, 400, 40), "9%"),  # 40 / 440
        ((4, 400, 40), "36%"),
        ((11, 400, 40), "100%"),
        ((16, 20, 100), "100%"),
    ],
)
def test_hiding_latency_counts_like_a_hand(arguments, busy):
    figure = F.hiding_latency(*arguments)
    assert f"at work in {busy} of the cycles" in figure.get_supxlabel()
    ticks = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert len(ticks) == arguments[0] + 1 and ticks[-1] == "the ALUs"


def test_a_warp_issues_its_work_and_then_waits():
    assert F.issue(1, 3, 2, 10).tolist() == [0, 0, -1, -1, -1, 0, 0, -1, -1, -1]
    assert F.issue(2, 3, 2, 10).tolist() == [0, 0, 1, 1, -1, 0, 0, 1, 1, -1]
    assert F._runs(np.array([True, True, False, True])) == [(0, 2), (3, 4)]


@pytest.mark.parametrize(
    ("n", "block", "programs", "masked"), [(10, 4, 3, 2), (64, 16, 4, 0), (1, 32, 1, 31), (33, 32, 2, 31)]
)
def test_programs_over_elements_counts_like_a_hand(n, block, programs, masked):
    figure = F.programs_over_elements(n, block)
    assert figure.get_supxlabel().startswith(f"{programs} programs") and f"{masked} hatched" in figure.get_supxlabel()
    boxes = figure.axes[0].patches
    assert len(boxes) == programs * block and sum(bool(box.get_hatch()) for box in boxes) == masked
    assert [text.get_text() for text in figure.axes[0].texts] == [str(i) for i in range(n)]


@pytest.mark.parametrize("arguments", [(0, 4), (4, 0)])
def test_programs_over_elements_names_a_wrong_argument(arguments):
    with pytest.raises(ValueError, match="from 1 on"):
        F.programs_over_elements(*arguments)


def test_one_or_many_shows_the_guess(monkeypatch):
    monkeypatch.setattr(F, "add_one_seconds", lambda sizes, device: [1e-6 * (1 + n / 1000) for n in sizes])
    told = words(F.one_or_many(5000))
    assert "your guess: 5,000" in told and "wins from about 16,384" in told
    for no_number in (..., "many", None, -1):
        assert "your guess" not in words(F.one_or_many(no_number))


def test_timing_leaves_the_number_of_threads_alone():
    import torch

    before = torch.get_num_threads()
    assert all(seconds > 0 for seconds in F.add_one_seconds([1, 64], "cpu"))
    assert torch.get_num_threads() == before


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


@pytest.mark.parametrize(
    ("widget", "draw", "changes"),
    [
        ("hiding_latency_widget", "hiding_latency", {"warps": 9, "latency": 200, "work": 20}),
        ("programs_over_elements_widget", "programs_over_elements", {"n": 33, "block": 16}),
    ],
)
def test_a_widget_redraws_and_leaves_a_picture_for_readers_without_a_kernel(widget, draw, changes):
    pytest.importorskip("ipywidgets")
    InteractiveShell = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell
    from IPython.utils.capture import capture_output

    InteractiveShell.instance()
    try:
        with capture_output() as shown:
            sliders = getattr(F, widget)()
            sliders._ipython_display_()
            pictures = {sliders.png}
            for name, value in changes.items():
                sliders.named[name].value = value
                pictures.add(sliders.png)
    finally:
        InteractiveShell.clear_instance()
    assert len(pictures) == 1 + len(changes)
    assert sliders.png == getattr(F, draw)(**changes)._repr_png_()
    images = [output for output in shown.outputs if "image/png" in output.data]
    assert len(images) == 1 + len(changes)
    assert {image.transient["display_id"] for image in images} == {images[0].transient["display_id"]}
