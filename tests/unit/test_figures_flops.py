"""The pictures of unit 03: they exist, say what they show, and draw numbers that a hand count or the recording confirms."""

from __future__ import annotations

import inspect

import pytest
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from course_lib import bench, figures, gpu, throughput

F = figures.flops

PICTURES = {
    "product_anatomy": (),
    "three_products": (8, 16, 32),
    "blow_up": ((16, 64), 4),
    "roofline": (64, 64, 64, "fp32", "T4"),
    "roofline_widget": (),
    "operations_under_the_roof": (),
    "promised_and_reached": (),
    "sixteen_bytes": (),
    "launch_timeline": (),
    "timers": (),
    "mystery_plot": (),
}

recorded = pytest.mark.skipif(bench.available(), reason="here these pictures are measured, not recorded")


@pytest.fixture(scope="module")
def picture():
    drawn = {}

    def draw(name: str) -> Figure:
        if name not in drawn:
            drawn[name] = getattr(F, name)(*PICTURES[name])
        return drawn[name]

    return draw


def test_every_picture_is_in_this_list():
    public = {n for n, f in inspect.getmembers(F, inspect.isfunction) if f.__module__ == F.__name__ and n[0] != "_"}
    returns_figure = {n for n in public if "Figure" in str(inspect.signature(getattr(F, n)).return_annotation)}
    assert returns_figure == set(PICTURES)


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_labelled_and_opaque(picture, name):
    figure = picture(name)
    assert isinstance(figure, Figure)
    assert figure.get_facecolor() == to_rgba("white")
    assert figure.get_supxlabel().endswith((".", "%")), "a sentence below says what to see"
    assert any(ax.get_xlabel() for ax in figure.axes)
    assert any(ax.get_ylabel() or ax.get_yticklabels() for ax in figure.axes)
    assert figure._repr_png_().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_stay_dark_on_white_in_a_dark_notebook(name):
    from matplotlib import rc_context

    with rc_context({"text.color": "white", "axes.labelcolor": "white", "xtick.color": "white"}):
        figure = getattr(F, name)(*PICTURES[name])
    assert {to_rgba(ax.xaxis.label.get_color()) for ax in figure.axes} == {to_rgba("#222222")}


def test_a_product_is_counted_as_drawn():
    told = F.product_anatomy(2, 3, 4).get_supxlabel()
    assert "2 × 2 × 3 × 4 = 48 FLOPs" in told.replace("\n", " ")


def test_three_products_are_alike():
    texts = [text.get_text() for text in F.three_products(8, 16, 32).axes[0].texts]
    assert len(texts) == 3 and all(text.endswith(f": {2 * 8 * 16 * 32:,}") for text in texts)


def test_spread_grows_by_the_root_of_the_width_and_not_when_scaled():
    left, right = F.blow_up((256,), layers=4).axes
    grown, kept = left.lines[0].get_ydata(), right.lines[0].get_ydata()
    assert grown[-1] == pytest.approx(256**2, rel=0.25)
    assert kept[-1] == pytest.approx(1, rel=0.25)


@pytest.mark.parametrize(
    ("sizes", "limit", "seconds"),
    [
        ((1, 4096, 4096, "bf16", "H200"), "memory", 2 * (4096 + 4096 + 4096**2) / 4.8e12),
        ((8192, 8192, 8192, "bf16", "H200"), "arithmetic", 2 * 8192**3 / 989.4e12),
        ((64, 64, 64, "fp32", "T4"), "memory", 3 * 4 * 64 * 64 / 320e9),
        ((1024, 1024, 1024, "fp32", "T4"), "arithmetic", 2 * 1024**3 / 8.1e12),
    ],
)
def test_the_roofline_computes_like_a_hand(sizes, limit, seconds):
    told = F.roofline(*sizes).get_supxlabel().replace("\n", " ")
    assert told.endswith(f"{limit} is the limit.")
    assert f"{seconds * 1e6:.3g} µs" in told


def test_the_point_is_on_the_roof():
    ax = F.roofline(512, 512, 512).axes[0]
    (x,), (y,) = ax.lines[2].get_data()
    sheet = gpu.datasheet("H200")
    assert x == pytest.approx(2 * 512**3 / (6 * 512**2))
    assert y == pytest.approx(min(x * sheet.hbm_bandwidth, sheet.bf16_flops) / 1e12)


def test_a_card_without_the_units_says_so():
    assert "V100 has no tf32 units" in F.roofline(64, 64, 64, "tf32", "V100").axes[0].get_title("left")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [((64, 64, 64, "fp4"), "fp4"), ((0, 1, 1), "m = 0"), ((1, 1, 1, "bf16", "H300"), "H300")],
)
def test_the_roofline_names_a_wrong_argument(arguments, word):
    with pytest.raises(ValueError, match=word):
        F.roofline(*arguments)


def test_the_widget_redraws_when_a_value_changes():
    pytest.importorskip("ipywidgets")
    widget = F.Roofline()
    pictures = {widget.png}
    changes = ((widget.m, 1), (widget.n, 64), (widget.k, 128), (widget.dtype, "fp32"), (widget.card, "T4"))
    for control, value in changes:
        control.value = value
        pictures.add(widget.png)
    assert len(pictures) == 6
    assert widget.png == F.roofline(1, 64, 128, "fp32", "T4")._repr_png_()


def test_the_widget_leaves_a_picture_for_readers_without_a_kernel():
    """The picture is a plain image among the cell's outputs, and a slider updates that same output."""
    InteractiveShell = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell
    from IPython.utils.capture import capture_output

    InteractiveShell.instance()
    try:
        with capture_output() as shown:
            widget = F.roofline_widget()
            widget._ipython_display_()
            widget.m.value = 1
        assert isinstance(widget, F.Roofline)
        images = [output for output in shown.outputs if "image/png" in output.data]
        assert len(images) == 2 and images[0].data["image/png"] != images[1].data["image/png"]
        assert images[1].update and images[0].transient["display_id"] == images[1].transient["display_id"]
    finally:
        InteractiveShell.clear_instance()


# -------------------------------------------------------------------------------------------------- the recording


def test_the_recording_is_whole():
    found = throughput.recorded()
    assert found["machine"] and found["date"] and found["torch"]
    assert [n for n, _ in found["curve"]["points"]] == throughput.curve_sizes()
    assert {n & -n for n in throughput.curve_sizes()} >= {1, 2, 4, 8, 16, 64}
    for what in ("random", "zeros"):
        assert set(found["ceilings"][what]) == set(throughput.PRECISIONS)
    assert {row["work"] for row in found["pitfalls"]} == {"matmul", "add"}


def test_nothing_recorded_is_faster_than_the_card():
    found, sheet = throughput.recorded(), gpu.datasheet("H200")
    assert max(speed for _, speed in found["curve"]["points"]) < sheet.bf16_flops
    assert found["ceilings"]["copy_bytes_per_second"] < sheet.hbm_bandwidth
    for op in found["operations"]:
        assert op["flops"] / op["seconds"] < sheet.bf16_flops
        assert op["bytes"] / op["seconds"] < sheet.hbm_bandwidth


@recorded
def test_the_prose_around_the_recording_holds():
    """What the notebook says of the recorded pictures, in words."""
    found = throughput.recorded()
    assert 1.1 < found["ceilings"]["zeros"]["bf16"] / found["ceilings"]["random"]["bf16"] < 1.3
    points = dict(found["curve"]["points"])
    assert points[4096] / points[4097] > 4
    seconds = {op["name"]: op["seconds"] for op in found["operations"]}
    assert seconds["16 rows × matrix"] == pytest.approx(seconds["matrix × vector"], rel=0.1)
    assert seconds["gelu"] < seconds["add"]
    relus = found.get("relus") or {"float32": 2, "float16": 1}  # recorded since unit 02 asks for it
    assert 1.7 < relus["float32"] / relus["float16"] < 2.1
    rows = {row["timer"]: row["bytes"] / row["seconds"] for row in found["pitfalls"] if row["work"] == "add"}
    assert max(rows.values()) < gpu.datasheet("H200").hbm_bandwidth
    assert len([timer for timer in rows if timer != "right"]) == 3


@recorded
def test_whose_numbers_they_are_stands_in_the_picture(picture):
    for name in ("operations_under_the_roof", "promised_and_reached", "timers", "mystery_plot"):
        assert "recorded on one NVIDIA H200" in repr(picture(name))


def test_the_branches_share_out_all_sizes(picture):
    drawn = [len(line.get_xdata()) for line in picture("mystery_plot").axes[0].lines]
    if not bench.available():
        assert sum(drawn) == len(throughput.curve_sizes())
    assert len(drawn) == len(F.BRANCHES) == 4
