"""A matplotlib figure that notebooks show once, with or without pyplot, and that follows the page's theme."""

from __future__ import annotations

import base64
import html
import io
import os
import re
import textwrap
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, ParamSpec, TypeVar

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backend_bases import FigureCanvasBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.collections import PathCollection, PolyCollection
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.textpath import TextPath
from matplotlib.transforms import Affine2D
from PIL import Image

from tritontrace.colours import DARK, EDGE, GREEN_INK, INK, PAPER, RED_INK, THINNED

__all__ = [
    "CARD",
    "COLOURS",
    "DPI",
    "LETTERS_PER_INCH",
    "LONGEST",
    "MARGIN",
    "SHARP",
    "SMALLEST",
    "STILL",
    "WIDTH",
    "Picture",
    "bare",
    "box",
    "boxes",
    "contrast",
    "ink_on",
    "live",
    "name_ends",
    "numbers",
    "on_white",
    "spread",
]

P = ParamSpec("P")
R = TypeVar("R")

MARGIN = 0.08  # inches around each plot
LETTERS_PER_INCH = 13  # of a caption
WIDTH = 7.2  # inches of a picture, at most: a page narrower than that would shrink its words
SMALLEST = 9  # points of what is written in one
POINTS = 72  # in an inch
DPI = 100  # as a page shows a picture: pixels of the page in an inch
SHARP = 2  # dots of a bitmap in such a pixel: screens that have more of them are common
COLOURS = 256  # of a bitmap: a third of the bytes, and no difference that an eye sees
LONGEST = 1_000_000  # characters of a drawing; a picture of that many strokes is a smaller bitmap
STILL = "TRITONTRACE_STILL"  # set where cells run for readers who have no kernel, as where a book is built

CARD = "margin:0;padding:8px;width:fit-content;max-width:100%;box-sizing:border-box;color:inherit"
WHITE_CARD = f"{CARD};border-radius:6px;background:white;color:{INK}"  # of a bitmap, in any theme
# Black below light letters, white below dark ones, where a page says nothing else; before it, what JupyterLab, VS Code, Colab and
# Sphinx's themes call theirs. A fixed white would lie below the light letters of any other dark page
GROUND = "lch(from currentColor calc((50 - l) * 100) 0 0)"
for _theirs in ("pst-color-background", "colab-primary-surface-color", "vscode-editor-background", "jp-layout-color0"):
    GROUND = f"var(--{_theirs},{GROUND})"


def contrast(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Compute the contrast ratio of two colours, (..., 3) of sRGB from 0 to 1 each: (...), from 1 to 21. WCAG 2 asks 4.5 of text (*Web
    Content Accessibility Guidelines*, 1.4.3).

    >>> import numpy as np
    >>> float(contrast(np.zeros(3), np.ones(3)))
    21.0
    """

    def luminance(colour: np.ndarray) -> np.ndarray:
        linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
        return linear @ np.array([0.2126, 0.7152, 0.0722])

    a, b = luminance(np.asarray(one)) + 0.05, luminance(np.asarray(other)) + 0.05
    return np.maximum(a, b) / np.minimum(a, b)


def ink_on(ground: str | Sequence[float]) -> str:
    """Return dark or white, for text on a ground of this colour: whichever has more contrast. On white and on pale colours, which follow
    the page, it is INK, which does so, too.

    >>> from tritontrace.colours import INK
    >>> ink_on("white") == INK, ink_on("black")
    (True, 'white')
    """
    if to_hex(ground) == PAPER or THINNED.get(to_hex(ground), ("", 1))[1] < 0.5:
        return INK
    return max((DARK, "white"), key=lambda ink: contrast(to_rgb(ink), to_rgb(ground)))


def on_white(draw: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function that draws a Picture: ink is dark and letters are of one size, whatever style the notebook has chosen for its own
    plots.

    >>> @on_white
    ... def line():
    ...     drawn = Picture(4, 2)
    ...     drawn.subplots().plot([1, 2])
    ...     return drawn
    >>> isinstance(line(), Picture)
    True
    """
    ink = ["text.color", "axes.labelcolor", "axes.edgecolor", "axes.titlecolor", "xtick.color", "ytick.color"]
    letters = ["font.size", "axes.labelsize", "xtick.labelsize", "ytick.labelsize", "legend.fontsize"]
    return rc_context(
        dict.fromkeys(ink, INK)
        | dict.fromkeys(letters, SMALLEST)
        | {"axes.facecolor": "white", "legend.facecolor": "white", "axes.titley": 1}
        | {"axes.titlesize": 10, "axes.titlelocation": "left", "figure.titlesize": 10}
    )(draw)


def bare(ax: Axes, *sides: str) -> None:
    """Hide these sides of the frame; the upper and the right one if none is named.

    >>> ax = Picture(4, 2).subplots()
    >>> bare(ax, "left")
    >>> ax.spines["left"].get_visible(), ax.spines["top"].get_visible()
    (False, True)
    """
    for side in sides or ("top", "right"):
        ax.spines[side].set_visible(False)


def box(
    ax: Axes, x: float, y: float, width: float, height: float, colour: str, text: object = "", size: float = 9
) -> None:
    """Draw a box with a text in it.

    >>> from tritontrace.colours import OURS
    >>> ax = Picture(4, 2).subplots()
    >>> box(ax, 0, 0, 2, 1, OURS, "program 0")
    """
    ax.add_patch(Rectangle((x, y), width, height, facecolor=colour, edgecolor=EDGE, linewidth=0.6))
    if text != "":
        ax.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=size, color=ink_on(colour))


def boxes(ax: Axes, corners: np.ndarray, sizes: np.ndarray, **style: Any) -> None:
    """Draw boxes, their lower left corners (n, 2) and sizes (n, 2) or (2,), as one artist, which takes half of the time of patches. style:
    what a PolyCollection takes, such as a list of n facecolors.

    >>> import numpy as np
    >>> from tritontrace.colours import OTHERS, OURS
    >>> ax = Picture(4, 2).subplots()
    >>> boxes(ax, np.array([[0, 0], [1, 0]]), np.array([[1, 1], [1, 1]]), facecolors=[OURS, OTHERS])
    """
    corners, sizes = (np.reshape(np.asarray(part, float), (-1, 1, 2)) for part in (corners, sizes))
    outlined = {"edgecolor": EDGE, "linewidth": 0.6} | style
    ax.add_collection(PolyCollection(corners + sizes * [(0, 0), (1, 0), (1, 1), (0, 1)], **outlined))


def numbers(ax: Axes, places: np.ndarray, each: Sequence[object], inks: Sequence[Any]) -> None:
    """Write numbers in the middle of these places (n, 2), each in its ink, as one artist: as many texts take five times as long.

    >>> import numpy as np
    >>> from tritontrace.colours import INK
    >>> numbers(Picture(4, 2).subplots(), np.array([[0, 0], [1, 0]]), [7, 8], [INK, INK])
    """
    drawn = PathCollection(
        [_outline(str(number)) for number in each],
        offsets=np.reshape(places, (-1, 2)),
        offset_transform=ax.transData,
        facecolors=list(inks),
        linewidths=0,
    )
    drawn.set_transform(Affine2D().scale(1 / POINTS) + ax.get_figure().dpi_scale_trans)
    ax.add_collection(drawn, autolim=False)


@lru_cache(maxsize=1024)
def _outline(number: str) -> TextPath:
    """A number's outline in points around its middle."""
    outline, high = TextPath((0, 0), number, size=SMALLEST), TextPath((0, 0), "0", size=SMALLEST).get_extents()
    wide = outline.get_extents()
    return outline.transformed(Affine2D().translate(-(wide.x0 + wide.x1) / 2, -(high.y0 + high.y1) / 2))


def spread(wanted: Sequence[float], gap: float) -> np.ndarray:
    """Move numbers as little as needed to be `gap` apart, in the order in which they are: places for labels of lines' ends.

    >>> spread([1.0, 1.1, 5.0], gap=1.0).tolist()
    [0.55, 1.55, 5.0]
    """
    order = np.argsort(wanted, kind="stable")
    steps = gap * np.arange(len(order))
    groups: list[list[float]] = []  # neighbours that have met keep the mean of where they wanted to be
    for value in np.asarray(wanted, float)[order] - steps:
        groups.append([value])
        while len(groups) > 1 and np.mean(groups[-2]) > np.mean(groups[-1]):
            groups[-2:] = [groups[-2] + groups[-1]]
    placed = np.empty(len(order))
    placed[order] = np.concatenate([np.full(len(group), np.mean(group)) for group in groups]) + steps
    return placed


def name_ends(ax: Axes, gap: float = 0.07) -> None:
    """Write the label of each line beside its right end, in place of a legend. gap: of the plot's height, from one to the next.

    >>> ax = Picture(4, 2).subplots()
    >>> _ = ax.plot([0, 1], [0, 1], label="up"), ax.plot([0, 1], [1, 1], label="level")
    >>> name_ends(ax)
    >>> [text.get_text() for text in ax.texts]
    ['up', 'level']
    """
    lines = [line for line in ax.lines if not str(line.get_label()).startswith("_")]
    ends = ax.transLimits.transform(ax.transScale.transform([line.get_xydata()[-1] for line in lines]))
    for line, (x, _), y in zip(lines, ends, spread(np.maximum(ends[:, 1], gap / 2), gap), strict=True):
        ax.annotate(str(line.get_label()), (x, y), (7, 0), "axes fraction", "offset points", va="center")


def live() -> bool:
    """Whether this is a notebook with a live kernel, in which ipywidgets make controls.

    >>> live()  # not in a script
    False
    """
    try:
        import ipywidgets  # noqa: F401
        from IPython import get_ipython
    except ImportError:
        return False
    return get_ipython() is not None


def _around(ax: Axes) -> tuple:
    """How much is written at the sides of an axes: the letters of its widest label at the left, and lines of the others; and what it
    shows, if that decides how wide it is."""
    titles = [ax.get_title(where) for where in ("left", "center", "right")]
    names = (*titles, ax.get_xlabel(), ax.get_ylabel(), *_ticks(ax.xaxis)[:1])
    letters = max(map(len, _ticks(ax.yaxis)), default=0)
    shape = () if ax.get_aspect() == "auto" else (*ax.get_xlim(), *ax.get_ylim())
    return letters, shape, ax.get_legend() is None, *(name.count("\n") + 1 if name else 0 for name in names)


def _ticks(axis: Axis) -> list[str]:
    """Return the words at the ticks, without making ticks, which takes a twentieth of a drawing's time."""
    return [str(word) for word in axis.get_major_formatter().format_ticks(axis.get_majorticklocs())]


def _themed(svg: str, words: str, width: int, spare: tuple[float, float] = (0, 0)) -> str:
    """matplotlib's file as a part of a page, whose colours its ink and its white ground take. Names of groups go, since a page
    has many pictures; those of letters and clips stay, which say the same in each.

    spare    inches above and below that are left out
    """
    drawing = svg[svg.index("<g ") : svg.rindex("</svg>")]
    drawing = re.sub(r"<!--.*?-->|(?<=<g) id=\"[^\"]*\"", "", drawing, flags=re.DOTALL)
    drawing = re.sub(r"\s*\n\s*(<?)", lambda at: "\n<" if at[1] else " ", drawing).replace(
        ' "', '"'
    )  # an element a line
    drawing = re.sub(r"#[0-9a-f]{6}\b", _on_the_page, drawing.replace(INK, "currentColor"))
    for ink in (RED_INK, GREEN_INK):
        drawing = drawing.replace(ink.lower(), f"color-mix(in srgb, {ink} 60%, currentColor)")
    drawing = re.sub(rf"(<(?:path|use|rect)\b[^>]*){PAPER}", r"\1var(--ground)", drawing)
    _, _, wide, high = map(float, re.findall(r'viewBox="([^"]*)"', svg)[0].split())
    above, below = (POINTS * inches for inches in spare)
    box = f"0 {above:g} {wide:g} {high - above - below:g}"
    return (
        f'<svg role="img" aria-label="{html.escape(words)}" viewBox="{box}" width="{width}" '
        f'style="--ground:{GROUND};max-width:100%;height:auto;stroke-linejoin:round;stroke-linecap:butt">{drawing}</svg>'
    )


def _on_the_page(colour: re.Match[str]) -> str:
    """Let the page's ground through what `paler` made, in any theme."""
    whole, share = THINNED.get(colour[0], (colour[0], 1.0))
    return colour[0] if share == 1 else f"color-mix(in srgb,{whole} {100 * share:.3g}%,var(--ground))"


class Picture(Figure):
    """width, height in inches.

    A live notebook gets it as a drawing in HTML, with the caption as text of the page and the alternative text where screen
    readers look for it. Where outputs are kept for readers without a kernel, and on code hosts, it is a bitmap, which any viewer shows.

    >>> drawn = Picture(4, 2)
    >>> _ = drawn.subplots().plot([1, 2])
    """

    places: dict | None = None
    """How a picture is made up -> where its axes and its title lie: given by who draws a picture again and again, since to find
    that out takes half of the time of a drawing. A picture that is made up like an earlier one has its axes where that one had
    them."""

    def __init__(self, width: float, height: float):
        super().__init__(figsize=(width, height), facecolor="white", layout="constrained", dpi=DPI)
        self.get_layout_engine().set(w_pad=MARGIN, h_pad=MARGIN)

    def _repr_png_(self) -> bytes:
        drawn, small = io.BytesIO(), io.BytesIO()
        self.savefig(drawn, format="png", facecolor="white", dpi=SHARP * DPI)
        self._forget_drawing()
        Image.open(drawn).convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
            small, format="png"
        )
        return small.getvalue()

    def _repr_html_(self) -> str | None:
        """Give a live notebook the drawing; where outputs are kept, viewers that trust no HTML would show nothing of it."""
        return None if os.environ.get(STILL) else self.html()

    def html(self) -> str:
        """Draw the picture as HTML: a drawing that is sharp on any screen, in the page's colours, and the caption below."""
        said = self.get_supxlabel()
        if said:
            self._supxlabel.set(visible=False, in_layout=False)
        drawn, make_up = io.StringIO(), self._make_up() if self.places is not None else None
        known = self.places.get(make_up) if self.places else None
        if known:
            self.set_layout_engine("none")
            places, title = known
            for ax, place in zip(self.axes, places, strict=True):
                ax.set_position(place)
            if self._suptitle:
                self._suptitle.set_position(title)
        self.set_dpi(SHARP * DPI)  # of what becomes a bitmap in the drawing
        with rc_context({"svg.hashsalt": "picture"}):  # the same picture is the same text
            FigureCanvasSVG(self).print_svg(
                drawn, metadata={"Date": None}
            )  # savefig would draw it twice, once to lay it out
        spare = self._spare() if self.places is None else (0.0, 0.0)  # what is drawn again and again keeps its height
        self._forget_drawing()
        self.set_dpi(DPI)
        if self.places is not None and not known:
            title = self._suptitle and self._suptitle.get_position()
            self.places[make_up] = [ax.get_position(original=True) for ax in self.axes], title
        if said:
            self._supxlabel.set(visible=True, in_layout=True)
        width, card = round(DPI * self.get_figwidth()), CARD
        shown = _themed(drawn.getvalue(), self.words, width, spare)
        if len(shown) > LONGEST:
            card, data = WHITE_CARD, base64.b64encode(self._repr_png_()).decode()
            shown = (
                f'<img alt="{html.escape(self.words)}" width="{width}" style="max-width:100%;height:auto" '
                f'src="data:image/png;base64,{data}">'
            )
        return (
            f'<figure class="tritontrace-picture" style="{card}">{shown}'
            f'<figcaption style="max-width:{width}px">{html.escape(said)}</figcaption></figure>'
        )

    def _spare(self) -> tuple[float, float]:
        """Inches above and below that hold nothing, where plots of equal scales leave some."""
        full, page = self.get_tightbbox(FigureCanvasAgg(self).get_renderer()), self.bbox_inches
        above, below = (max(0.0, float(inches) - MARGIN) for inches in (page.y1 - full.y1, full.y0 - page.y0))
        return round(above, 2), round(below, 2)

    def _forget_drawing(self) -> None:
        """Let go of what drew it last, which its canvas and every text hold: of a bitmap that is 6 MB, and a notebook keeps its
        pictures."""
        FigureCanvasBase(self)
        for ax in self.axes:
            if not ax.axison:  # else findobj makes the ticks that nobody sees, which takes a third of a drawing's time
                ax.set(xticks=[], yticks=[])
        for text in self.findobj(Text):
            text.__dict__["_renderer"] = None  # as matplotlib does before it pickles one

    def _make_up(self) -> tuple:
        """Tell what decides where axes lie: the figure's size, and of each axes what is written around it."""
        legends = tuple(len(legend.get_texts()) for legend in self.legends)
        return (*self.get_size_inches(), legends, *(_around(ax) for ax in self.axes))

    @property
    def words(self) -> str:
        """Return the alternative text for people who cannot see the picture: its titles and its caption, or what its axes show."""
        titles = [ax.get_title(where) for ax in self.axes for where in ("left", "center")]
        texts = [*filter(None, [*titles, self.get_supxlabel()])] or [ax.get_xlabel() for ax in self.axes]
        return ". ".join(filter(None, texts)).replace("\n", " ")

    def __repr__(self) -> str:
        return f"Picture: {self.words}"

    def _repr_mimebundle_(self, include=None, exclude=None) -> tuple[dict, dict]:
        """Give a notebook the picture and, as its alternative text, what it shows."""
        if live() and not os.environ.get(STILL):
            return {"text/html": self.html(), "text/plain": repr(self)}, {}
        shown = {"alt": self.words, "width": round(DPI * self.get_figwidth())}
        return {"image/png": self._repr_png_(), "text/plain": repr(self)}, {"image/png": shown}

    def caption(self, sentence: str) -> None:
        """Set a caption below the picture, a sentence or two."""
        lines = textwrap.wrap(sentence, int(LETTERS_PER_INCH * self.get_figwidth()))
        self.supxlabel("\n".join(lines), fontsize=10, color=INK)
