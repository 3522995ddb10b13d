"""The pictures of 01_tensors_and_strides.

Each function returns a matplotlib Figure. Layouts are torch's own: a picture asks a real tensor for its strides, its offset
and whether it is contiguous. Colours are Okabe and Ito's, and none means anything alone: each cell carries its number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import ConnectionPatch, Patch, Rectangle

from course_lib.figures.widgets import Explorer, live
from tritontrace import gpu
from tritontrace.colours import EDGE, FAINT, FOUR, INK, ONE, OTHERS, OURS, RED_INK, THREE, TWO, WRONG
from tritontrace.picture import WIDTH, Picture, bare, boxes, ink_on, numbers, on_white

STORAGE = 24  # elements of the storage that the explorer draws
MAX_ROWS, MAX_COLUMNS = 8, 12
QUIET = to_rgba(INK, 0.65)  # the number of a cell that a view does not read
LOOKS = [(colour, ink_on(colour)) for colour in (FOUR, TWO, THREE, ONE)]  # of the view's rows, in turn: cell, number


def _row(ax, each: Sequence[object], looks: Sequence[tuple[str, str]], y: float = 0) -> None:
    """Draw cells side by side, each with its number, in the colours (cell, number) of looks."""
    boxes(ax, [(x, y) for x in range(len(each))], (1, 1), facecolor=[colour for colour, _ in looks], edgecolor=INK)
    numbers(ax, [(x + 0.5, y + 0.5) for x in range(len(each))], each, [ink for _, ink in looks])


def _look(row: int) -> tuple[str, str]:
    return LOOKS[row % len(LOOKS)]


# ------------------------------------------------------------------------------------------------------------ anatomy


@on_white
def tensor_anatomy() -> Figure:
    """A 3 x 4 matrix and its transpose: two headers, one storage."""
    x = torch.arange(12.0).reshape(3, 4)
    figure = Picture(WIDTH, 4.1)
    heads, store = figure.subplots(2, 1, height_ratios=[2.2, 1])
    for left, name, tensor, colour in ((0, "x", x, ONE), (12.5, "y = x.T", x.T, THREE)):
        heads.add_patch(Rectangle((left, 0), 11.5, 6.5, facecolor="white", edgecolor=colour, linewidth=2))
        heads.text(left + 0.4, 0.7, name, fontsize=12, fontweight="bold", va="center")
        fields = {
            "storage": "the 12 numbers below",
            "offset": tensor.storage_offset(),
            "shape": tuple(tensor.shape),
            "strides": tensor.stride(),
            "dtype": "float32, 4 bytes",
        }
        for line, (field, value) in enumerate(fields.items()):
            heads.text(left + 0.4, 1.8 + line, field, fontsize=10, va="center", family="monospace")
            heads.text(left + 4.4, 1.8 + line, str(value), fontsize=10, va="center", family="monospace")
        points_to = ConnectionPatch(
            (left + 2, 6.5),
            (0.5, 0),
            "data",
            "data",
            axesA=heads,
            axesB=store,
            arrowstyle="->",
            color=colour,
            linewidth=2,
        )
        points_to.set_in_layout(False)
        figure.add_artist(points_to)
    heads.set(xlim=(-0.2, 24.2), ylim=(6.7, -0.2), xticks=[], yticks=[])
    heads.set_ylabel("tensors")
    heads.set_title("two tensors: a header each")
    bare(heads, *heads.spines)
    _row(store, range(12), [("white", INK)] * 12)
    store.set(xlim=(-0.1, 12.1), ylim=(1.05, -0.05), yticks=[], xlabel="position in storage, elements")
    store.set_xticks(np.arange(12) + 0.5, range(12))
    store.set_ylabel("memory")
    store.set_title("one storage: 48 bytes, in one row", loc="right")
    bare(store, *store.spines)
    figure.caption(
        "A tensor is a header. Both headers point to the same 12 numbers and read them with different strides."
    )
    return figure


# ----------------------------------------------------------------------------------------------------------- explorer


def positions(shape: Sequence[int], strides: Sequence[int], offset: int) -> np.ndarray:
    """(rows, columns) positions in storage of a two-dimensional view's elements."""
    rows, columns = shape
    if not (1 <= rows <= MAX_ROWS and 1 <= columns <= MAX_COLUMNS):
        raise ValueError(f"shape is {tuple(shape)}; this figure draws up to ({MAX_ROWS}, {MAX_COLUMNS})")
    if min(*strides, offset) < 0:
        raise ValueError(f"torch has no negative strides or offsets: got strides {tuple(strides)}, offset {offset}")
    return offset + strides[0] * np.arange(rows)[:, None] + strides[1] * np.arange(columns)[None, :]


@on_white
def stride_explorer(shape: Sequence[int] = (4, 6), strides: Sequence[int] = (6, 1), offset: int = 0) -> Figure:
    """A two-dimensional view of a storage of 24 numbers: the view, the storage, and the walk from one to the other."""
    where = positions(shape, strides, offset)
    rows, columns = where.shape
    fits = where.max() < STORAGE
    readers = Counter(where.ravel().tolist())

    figure = Picture(WIDTH, 5)
    axes = figure.subplot_mosaic([["store", "store"], ["view", "walk"]], width_ratios=[1, 1.2], height_ratios=[1, 5])
    view, store, walk = (axes[name] for name in ("view", "store", "walk"))

    inside = where < STORAGE
    for kept, edge, line in ((inside, INK, "-"), (~inside, WRONG, ":")):
        colours = [_look(m)[0] if kept is inside else "white" for m, _ in np.argwhere(kept)]
        boxes(view, np.argwhere(kept)[:, ::-1], (1, 1), facecolor=colours, edgecolor=edge, linestyle=line)
    cells = np.argwhere(inside | ~inside)
    inks = [_look(m)[1] if inside[m, n] else RED_INK for m, n in cells]
    numbers(view, cells[:, ::-1] + 0.5, where.ravel(), inks)
    heads = [(-0.4, m + 0.5) for m in range(rows)] + [(n + 0.5, rows + 0.4) for n in range(columns)]
    numbers(view, heads, [*range(rows), *range(columns)], [INK] * len(heads))  # where ticks would be, which take longer
    view.set(xlim=(-0.7, columns + 0.1), ylim=(rows + 0.7, -0.1), aspect="equal", xlabel="column", ylabel="row")
    view.set(xticks=[], yticks=[])
    view.set_title("the view: where each element lies")
    bare(view, *view.spines)

    row_of = {int(p): m for (m, _), p in reversed(list(np.ndenumerate(where)))}  # the first reader gives the colour
    _row(store, range(STORAGE), [_look(row_of[i]) if i in row_of else ("white", QUIET) for i in range(STORAGE)])
    for i in (i for i in range(STORAGE) if readers[i] > 1):
        store.text(i + 0.5, -0.35, f"×{readers[i]}", ha="center", va="center")
    store.set(xlim=(-0.1, STORAGE + 0.1), ylim=(1.05, -0.7), xticks=[], yticks=[])
    store.set_title("the storage: 24 numbers in one row (×2: read twice)")
    bare(store, *store.spines)

    order = np.minimum(where.ravel(), STORAGE + 1)  # all that lies outside stands in one place
    walk.plot(order + 0.5, np.arange(order.size), color=EDGE, linewidth=1, zorder=1)
    kept, lost = np.flatnonzero(order < STORAGE), np.flatnonzero(order >= STORAGE)
    colours = [_look(m)[0] for m in kept // columns]
    walk.scatter(order[kept] + 0.5, kept, color=colours, edgecolor=INK, linewidth=0.6, s=34, zorder=2)
    walk.scatter(order[lost] + 0.5, lost, color=WRONG, marker="x", s=30, zorder=2)
    walk.axvspan(STORAGE, STORAGE + 3, facecolor=FAINT, zorder=0)
    walk.text(STORAGE + 2.2, order.size / 2 - 0.5, "outside", color=RED_INK, rotation=90, va="center")
    walk.set(xlim=(-0.2, STORAGE + 3), ylim=(1.03 * order.size - 0.4, -0.03 * order.size - 0.6))
    walk.set_xticks(np.arange(0, STORAGE, 6) + 0.5, range(0, STORAGE, 6))
    walk.set(xlabel="position in storage, elements", ylabel="element of the view, row by row")
    walk.set_title("the walk: which number comes next")
    walk.locator_params(axis="y", nbins=5)
    walk.grid(alpha=0.3)
    bare(walk)

    recipe = f"shape ({rows}, {columns}), strides ({strides[0]}, {strides[1]}), offset {offset}"
    if fits:
        tensor = torch.arange(STORAGE).as_strided((rows, columns), tuple(strides), offset)
        verdict = "contiguous" if tensor.is_contiguous() else "not contiguous"
        shared = sum(1 for count in readers.values() if count > 1)
        more = f"; {shared} numbers are read more than once" if shared else ""
    else:
        verdict, more = "torch refuses", f"; position {where.max()} lies outside a storage of {STORAGE}"
    figure.suptitle(f"{recipe}:  {verdict}", fontweight="bold", color=INK)
    figure.caption(
        f"Element (m, n) lies at {offset} + {strides[0]} m + {strides[1]} n{more}. "
        "A view is contiguous if every step of its walk is one to the right."
    )
    return figure


PRESETS = {  # name -> shape, strides, offset, as torch makes them from x = torch.arange(24).reshape(4, 6)
    name: (tuple(y.shape), y.stride(), y.storage_offset())
    for x in [torch.arange(STORAGE).reshape(4, 6)]
    for name, y in {
        "x": x,
        "x.T": x.T,
        "x[1:3]": x[1:3],
        "x[:, 2:5]": x[:, 2:5],
        "x[::2, ::3]": x[::2, ::3],
        "x[1].expand(4, 6)": x[1].expand(4, 6),
        "x[:, 2:3].expand(4, 6)": x[:, 2:3].expand(4, 6),
        "x.view(8, 3)": x.view(8, 3),
        "x.flatten().unfold(0, 6, 3)": x.flatten().unfold(0, 6, 3),
    }.items()
}


class StrideExplorer(Explorer):
    """Controls over stride_explorer: choose a view of x, then move its numbers."""

    def __init__(self):
        from ipywidgets import Button, Dropdown, HBox, IntSlider, VBox

        def slider(name: str, least: int, most: int) -> IntSlider:
            return IntSlider(least, least, most, description=name)

        self.preset = Dropdown(options=list(PRESETS), value="x", description="view")
        self.reset = Button(description="reset", tooltip="back to the chosen view")
        self.rows, self.columns = slider("rows", 1, MAX_ROWS), slider("columns", 1, MAX_COLUMNS)
        self.row_stride, self.column_stride = slider("row stride", 0, STORAGE), slider("col stride", 0, STORAGE)
        self.offset = slider("offset", 0, STORAGE - 1)
        self.sliders = (self.rows, self.columns, self.row_stride, self.column_stride, self.offset)
        self.controls = VBox(
            [HBox([self.preset, self.reset, self.offset]), HBox(self.sliders[:2]), HBox(self.sliders[2:4])]
        )
        self._choosing = False
        self.preset.observe(self._choose, names="value")
        self.reset.on_click(self._choose)
        self.watch(*self.sliders)
        self._choose()

    def _choose(self, _change=None) -> None:
        """Sets all sliders to the chosen view, and draws once."""
        (rows, columns), (row_stride, column_stride), offset = PRESETS[self.preset.value]
        self._choosing = True
        for control, value in zip(self.sliders, (rows, columns, row_stride, column_stride, offset), strict=True):
            control.value = value
        self._choosing = False
        self.draw()

    def draw(self, _change=None) -> None:
        if not self._choosing:
            super().draw()

    def picture(self) -> Figure:
        rows, columns, row_stride, column_stride, offset = (control.value for control in self.sliders)
        return stride_explorer((rows, columns), (row_stride, column_stride), offset)


def explore_strides() -> StrideExplorer | Figure:
    """The picture with controls in a notebook; the picture alone where there is no notebook or no ipywidgets."""
    return StrideExplorer() if live() else stride_explorer()


# ---------------------------------------------------------------------------------------------------------- the views


@on_white
def views_of_one_storage() -> Figure:
    """Six views of a 4 x 6 matrix: the same 24 numbers, those that the view reads coloured in its row order."""
    names = ["x.T", "x[1:3]", "x[:, 2:5]", "x[::2, ::3]", "x[1].expand(4, 6)", "x.flatten().unfold(0, 6, 3)"]
    figure = Picture(WIDTH, 5.8)
    axes = figure.subplots(3, 2)
    for ax, name in zip(axes.flat, names, strict=True):
        shape, strides, offset = PRESETS[name]
        where = positions(shape, strides, offset)
        readers = Counter(where.ravel().tolist())
        first = {int(p): m for (m, _), p in reversed(list(np.ndenumerate(where)))}
        looks = [_look(first[i]) if i in first else ("white", QUIET) for i in range(STORAGE)]
        for line in (0, 1):
            _row(ax, range(12 * line, 12 * line + 12), looks[12 * line : 12 * line + 12], 1.7 * line)
        for i in (i for i in range(STORAGE) if readers[i] > 1):
            ax.text(i % 12 + 0.5, 1.7 * (i // 12) - 0.25, f"×{readers[i]}", ha="center", va="center")
        ax.set(xlim=(-0.1, 12.1), ylim=(2.8, -0.5), xticks=[], yticks=[])
        ax.set_title(f"{name}\nshape {shape}, strides {strides}, offset {offset}")
        bare(ax, *ax.spines)
    for ax in axes[-1]:
        ax.set_xlabel("storage positions 0 to 11, and 12 to 23 below")
    for ax in axes[:, 0]:
        ax.set_ylabel("storage")
    handles = [Patch(facecolor=_look(m)[0], edgecolor=INK, label=f"row {m}") for m in range(4)]
    figure.legend(
        handles=handles, loc="outside upper center", ncols=4, title="row of the view (from row 4 on the colours repeat)"
    )
    figure.caption(
        "None of these views copied a number. ×4 means that four elements of the view are this one number, which has the colour of the "
        "first row that reads it."
    )
    return figure


# ----------------------------------------------------------------------------------------------------- view or a copy


@on_white
def flat_walks() -> Figure:
    """Draw where the k-th element lies, row by row: one straight line can be reshaped to one dimension for free."""
    x = torch.arange(STORAGE).reshape(4, 6)
    views = {"x": x, "x[:, ::2]": x[:, ::2], "x[:, :4]": x[:, :4], "x.T": x.T}
    figure = Picture(WIDTH, 3.4)
    axes = figure.subplots(1, 4, sharey=True)
    for ax, (name, y), (colour, _) in zip(axes, views.items(), LOOKS, strict=True):
        order = y.reshape(-1).tolist()  # x holds its own positions
        try:
            said = f"view(-1): stride {y.view(-1).stride(0)}"
        except RuntimeError:
            said = "view(-1): refused"
        ax.plot(
            order, range(len(order)), color=colour, marker="o", markersize=4, markeredgecolor=INK, markeredgewidth=0.5
        )
        ax.set(
            xlabel="position in storage", xlim=(-1, 24), ylim=(24, -1), xticks=range(0, 25, 6), yticks=range(0, 25, 6)
        )
        ax.set_title(f"{name}\nshape {tuple(y.shape)}\nstrides {y.stride()}\n{said}")
        ax.grid(alpha=0.3)
        bare(ax)
    axes[0].set_ylabel("element, row by row")
    figure.caption(
        "One dimension has one stride, so its walk is one straight line. Where the line bends, torch refuses view(-1), and "
        "reshape must copy."
    )
    return figure


# -------------------------------------------------------------------------------------------------------------- bytes


@on_white
def one_matrix_in_bytes(rows: int = 12288, columns: int = 49152) -> Figure:
    """A matrix (GPT-3's first feed-forward matrix, unless told otherwise) in four dtypes, against what holds it."""
    dtypes = (torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.float64)
    dtypes = sorted(dtypes, key=lambda dtype: -dtype.itemsize)
    card = gpu.current_or_h200()
    sizes = [(str(d).removeprefix("torch."), rows * columns * d.itemsize, OURS, "") for d in dtypes]
    sizes += [
        (f"L2 cache, {card.name}", card.l2_bytes, OTHERS, "//"),
        (f"memory, {card.name}", card.hbm_bytes, OTHERS, "//"),
    ]
    figure = Picture(WIDTH, 3.4)
    ax = figure.subplots()
    values = [nbytes / 2**30 for _, nbytes, _, _ in sizes]
    drawn = ax.barh(
        [name for name, *_ in sizes],
        values,
        color=[colour for *_, colour, _ in sizes],
        hatch=[hatch for *_, hatch in sizes],
        edgecolor="white",
    )
    ax.bar_label(drawn, [f"{v:.3g} GiB" if v >= 0.1 else f"{1024 * v:.3g} MiB" for v in values], padding=4)
    ax.invert_yaxis()
    ax.set_xscale("log")
    ax.set(xlim=(min(values) / 2, max(values) * 4), xlabel="GiB (2³⁰ bytes), logarithmic")
    ax.set_ylabel("a GPU  |  the matrix in")
    ax.set_title(f"{rows} × {columns} = {rows * columns / 1e6:.0f} million numbers")
    ax.grid(axis="x", alpha=0.3)
    bare(ax)
    source = "as this machine's driver reports" if card.measured else "from its datasheet, since there is no GPU here"
    figure.caption(
        f"Bytes are elements times itemsize, so a dtype of half the size takes half the bytes. "
        f"Hatched bars are the room on one GPU ({source})."
    )
    return figure
