"""Rules for the pictures of every unit: each is listed in its unit's test, labelled, opaque and legible."""

from __future__ import annotations

import inspect

import pytest
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.text import Text
from pictures import UNITS, as_shown, clipped, covering, darken, drawn, faint, listed
from sampling import first_ones

from course_lib import figures
from tritontrace.picture import SMALLEST, WIDTH

PICTURES = [(unit, name) for unit in UNITS for name in listed(unit)]
OF_EACH_UNIT = [(unit, next(iter(listed(unit)))) for unit in UNITS]
OTHERS = [picture for picture in PICTURES if picture not in OF_EACH_UNIT]
of_pictures = pytest.mark.parametrize("unit, name", first_ones(OF_EACH_UNIT + OTHERS, len(UNITS)))
# several plots, whose axes are drawn and written by hand, so that a drag is fast
IN_ONE_AXES = tuple(
    explore + name for name in ("program_walk", "which_rows", "backward_walk") for explore in ("", "explore_")
)
FLAT = ("bit_explorer", "explore_bits", "clusters")  # bits in a row, numbers on a line, boxes and arrows


@pytest.mark.parametrize("unit", UNITS)
def test_every_picture_is_listed(unit):
    F = getattr(figures, unit)
    own = {
        n: f for n, f in inspect.getmembers(F, inspect.isfunction) if f"{f.__module__}.".startswith(f"{F.__name__}.")
    }
    public = {n for n in own if n[0] != "_"}
    returns_figure = {n for n in public if "Figure" in str(inspect.signature(getattr(F, n)).return_annotation)}
    assert returns_figure == set(listed(unit))


@of_pictures
def test_pictures_are_labelled_and_opaque(unit, name):
    figure = drawn(unit, name)
    assert isinstance(figure, Figure)
    assert figure.get_facecolor() == to_rgba("white")
    assert figure.get_supxlabel().endswith((".", "%")), "a sentence below says what to see"
    if name in IN_ONE_AXES:
        assert {"key", "query"} <= {text.get_text() for text in figure.findobj(Text)}
    else:
        assert any(ax.get_xlabel() for ax in figure.axes)
        assert name in FLAT or any(ax.get_ylabel() or ax.get_yticklabels() for ax in figure.axes)
    assert figure._repr_png_().startswith(b"\x89PNG")


def too_large_for_a_page(figure: Figure) -> list[str]:
    """List what of a figure a page would shrink, or nobody could read."""
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    found = [f"{text.get_text()!r}: {text.get_fontsize()} pt" for text in texts if text.get_fontsize() < SMALLEST]
    width = float(figure.get_figwidth())
    return found + [f"{width} inches wide"] * (width > WIDTH)


@of_pictures
def test_pictures_fit_a_page_in_letters_that_can_be_read(unit, name):
    assert too_large_for_a_page(drawn(unit, name)) == []


@of_pictures
def test_no_picture_is_cut_off(unit, name):
    assert clipped(drawn(unit, name)) < 0.01


@of_pictures
def test_no_legend_lies_over_what_is_drawn(unit, name):
    assert covering(getattr(getattr(figures, unit), name)(*listed(unit)[name])) == []


@pytest.mark.parametrize("place, noticed", [("lower center", ["up"]), ("upper left", [])])
def test_a_legend_over_a_line_is_noticed(place, noticed):
    figure = Figure()
    ax = figure.subplots()
    ax.plot([0, 1, 2], [0, 0, 2], label="up")
    ax.legend(loc=place)
    assert covering(figure) == noticed


def test_a_label_beyond_the_page_is_noticed():
    figure = Figure(figsize=(4, 2))
    figure.subplots().annotate("high", (0.5, 1.3), xycoords="axes fraction", annotation_clip=False)
    assert clipped(figure) > 0.05


def test_small_letters_and_wide_pictures_are_found():
    figure = Figure(figsize=(7.5, 3))
    figure.subplots().text(0.5, 0.5, "small", fontsize=8.5)
    assert too_large_for_a_page(figure) == ["'small': 8.5 pt", "7.5 inches wide"]


@of_pictures
def test_pictures_stay_legible_in_a_dark_notebook(unit, name):
    dark = {"text.color": "white", "axes.labelcolor": "white", "xtick.color": "white", "axes.facecolor": "black"}
    with rc_context(dark):
        figure = getattr(getattr(figures, unit), name)(*listed(unit)[name])
    for ax in figure.axes:
        assert to_rgba(ax.xaxis.label.get_color()) == to_rgba("#222222")
        assert ax.get_facecolor() == to_rgba("white") or not ax.axison
    assert faint(figure) == []
    darken(figure)
    assert faint(figure) == [], "on a dark page, whose colours a drawing takes"


def test_faint_text_is_found():
    figure = Figure()
    ax = figure.subplots()
    ax.barh([0, 1], [1, 1], color=["#333333", "orange"])
    ax.text(0.5, 0, "dark on dark")
    ax.text(0.5, 1, "dark on light")
    ax.text(0.1, 1, "light on light", color="white")
    assert [text.split(":")[0] for text in faint(figure)] == ["'dark on dark'", "'light on light'"]


def test_a_widgets_picture_says_what_it_shows(notebook):
    from IPython.display import display

    display(figures.coalescing.explore_lanes_over_memory())
    (shown,) = notebook.images()
    assert 'aria-label="float32: lane i wants' in shown.data["text/html"] and "<figcaption" in shown.data["text/html"]


@pytest.mark.parametrize(
    "unit, widget, change",
    [
        ("strides", "explore_strides", lambda widget: (widget.offset, 4)),
        ("dtypes", "explore_bits", lambda widget: (widget.bits[3], not widget.bits[3].value)),
        ("flops", "explore_roofline", lambda widget: (widget.named["m"], 1)),
        ("coalescing", "explore_lanes_over_memory", lambda widget: (widget.named["stride"], 4)),
        ("fusion", "explore_chain", lambda widget: (widget.switches.children[1], False)),
        ("recomputation", "explore_checkpoints", lambda widget: (widget.segments, 4)),
    ],
)
def test_a_widget_leaves_a_picture_for_readers_without_a_kernel(notebook, unit, widget, change):
    """The picture is a plain image among the cell's outputs, and a control updates that same output."""
    made = getattr(getattr(figures, unit), widget)()
    made._ipython_display_()
    control, value = change(made)
    control.value = value
    before, after = notebook.images()
    assert before.data["text/html"] != after.data["text/html"]
    assert after.update and before.transient["display_id"] == after.transient["display_id"]


def test_every_switch_of_a_chain_says_what_it_does(notebook):
    tooltips = [switch.tooltip for switch in figures.fusion.explore_chain().switches.children]
    assert all(tooltips) and len(set(tooltips)) == len(tooltips)


def test_no_control_is_without_a_tooltip(notebook):
    """ipywidgets shows the word "null" then."""
    made = figures.coalescing.explore_lanes_over_memory()
    made._ipython_display_()
    assert made.controls.tooltip == "" and made.named["stride"].tooltip == "stride"


@pytest.mark.parametrize(
    "unit, widget, draw, changes",
    [
        ("start", "explore_hiding_latency", "hiding_latency", {"warps": 9, "latency": 200, "work": 20}),
        ("start", "explore_programs_over_elements", "programs_over_elements", {"n": 33, "block": 16}),
        (
            "attention",
            "explore_online_softmax",
            "online_softmax",
            {"seen": 1, "tile": 4, "order": "shuffled", "pattern": "rising"},
        ),
        ("attention", "explore_causal_map", "causal_map", {"nq": 256, "nk": 1024, "bm": 128, "bn": 32}),
    ],
)
def test_each_slider_redraws_the_picture(notebook, unit, widget, draw, changes):
    F = getattr(figures, unit)
    sliders = getattr(F, widget)()
    sliders._ipython_display_()
    pictures = {sliders.shown}
    for name, value in changes.items():
        sliders.named[name].value = value
        pictures.add(sliders.shown)
    assert len(pictures) == 1 + len(changes)
    alone = getattr(F, draw)(**changes)
    alone.places = sliders.places
    assert sliders.shown == as_shown(alone)
    images = notebook.images()
    assert len(images) == 1 + len(changes) and all(image.update for image in images[1:])
    assert len({image.transient["display_id"] for image in images}) == 1


WIDGETS = [(unit, name) for unit in UNITS for name in dir(getattr(figures, unit)) if name.startswith("explore_")]


def _leaves(control):
    children = getattr(control, "children", ())
    return [leaf for child in children for leaf in _leaves(child)] if children else [control]


@pytest.mark.parametrize("unit, name", first_ones(WIDGETS, 3))
def test_what_is_written_stays_inside_the_picture_while_controls_move(notebook, unit, name):
    """A widget keeps places of axes from picture to picture; labels of another picture may be longer."""
    widget = getattr(getattr(figures, unit), name)()
    for control in _leaves(widget.controls):
        ends = [getattr(control, end) for end in ("min", "max") if hasattr(control, end)]
        if type(control).__name__ == "Play" or not ends:
            continue
        for value in (*ends, control.value):
            control.value = value
            figure = widget.figure
            figure.supxlabel("")  # the caption is text of the page here
            taken, (width, height) = (
                figure.get_tightbbox(FigureCanvasAgg(figure).get_renderer()),
                figure.get_size_inches(),
            )
            assert min(taken.x0, taken.y0) > -0.02, (control.description, value, taken)
            assert taken.x1 < width + 0.02 and taken.y1 < height + 0.02, (control.description, value, taken)


def test_a_picture_made_up_alike_is_laid_out_once(notebook):
    explorer = figures.strides.explore_strides()
    for offset in (1, 2, 3):
        explorer.offset.value = offset
        places, _ = explorer.places[explorer.figure._make_up()]
        assert [ax.get_position(original=True).bounds for ax in explorer.figure.axes] == [p.bounds for p in places]
    assert len(explorer.places) == 1
