"""Pictures of a trace: how often elements are touched, in which order programs start, and what one of them does.

Everything is computed from the steps of the launches. Colours run along cividis or are told apart by place and hatch
too, so that none means anything alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from matplotlib import colormaps
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator

from tritontrace.colours import ATOMIC, IDLE, INK, READ, WRITTEN
from tritontrace.messages import say
from tritontrace.picture import WIDTH, Picture, on_white
from tritontrace.tracing.memory import Region, Step
from tritontrace.tracing.recorded import Recorded
from tritontrace.tracing.show import grid_text, used_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage


STRIP = 32  # elements that fit side by side; a longer vector is folded into rows
MAX_NUMBERS = 256  # cells or tiles in which a number may still be legible
LEGIBLE = 0.15  # inches that a number needs
MAX_ROOMY_STEPS = 24  # bars that can each bear a hatch and the number of a line

Index = int | tuple[int, ...]  # of a program: its number in start order, or its ids (x, y, z)


# ------------------------------------------------------------------------------------------------------- heat map


@on_white
def heatmap(
    trace: Recorded,
    tensor: torch.Tensor,
    program: Index | None = None,
    launch: int | None = None,
    op: Literal["load", "store"] | None = None,
) -> Picture:
    """Draw how often each element of the tensor was loaded, or stored (atomics included): by default in the whole trace.

    program   only what this one touched, in `launch` (by default the last)
    launch    only this launch; -1 is the last
    op        by default "load", or "store" if nothing was loaded from the tensor

    Raises ValueError if the trace has no such tensor, launch or program.
    """
    region = _region(trace, tensor)
    if program is not None and launch is None:
        launch = -1
    chosen = range(len(trace.launches)) if launch is None else [_launch(trace, launch)]
    steps = [step for i in chosen for step in trace.steps[i] if step.region is region]
    who = ""
    if program is not None:
        number, who = _program(trace, chosen[0], program)
        steps = [step for step in steps if step.program == number]
    op = op or ("load" if any(step.op == "load" for step in steps) else "store")
    counts = times_touched(region, tensor, [step for step in steps if (step.op == "load") == (op == "load")])

    sheet = fold(counts, ("row, elements", "column, elements"))
    done = {"load": "loaded", "store": "stored"}[op]
    figure, ax, image = _print(sheet, int(counts.max()), f"times {done}")
    ax.set_title(f"{op}s of each element of {region.name}" + (f", by {who}" if who else ""))
    if not sheet.constant:
        _number_cells(ax, image)
    figure.caption(_said(counts, region.name, done, who))
    return figure


def times_touched(region: Region, tensor: torch.Tensor, steps: Iterable[Step]) -> np.ndarray:
    """Count how often the steps touch each element, in the tensor's shape."""
    counts = np.zeros(region.size, np.int64)
    for step in steps:
        if step.pattern.duplicates:
            np.add.at(counts, step.elements, 1)
        else:
            counts[step.elements] += 1
    return region.in_shape_of(tensor, counts)


def _said(counts: np.ndarray, name: str, done: str, who: str) -> str:
    touched = counts[counts > 0]
    by = f" by {who}" if who else ""
    if not touched.size:
        return f"No element of {name} is {done}{by}."
    low, high = int(touched.min()), int(touched.max())
    often = _times(high) if low == high else f"{low:,} to {high:,} times, {touched.mean():.3g} on average"
    if touched.size == counts.size:
        return f"Each element of {name} is {done}{by} {often}."
    return f"{touched.size:,} of {counts.size:,} elements of {name} are {done}{by}, each {often}."


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


# --------------------------------------------------------------------------------------------------------- order


@on_white
def order(trace: Recorded, tensor: torch.Tensor | None = None, launch: int = -1) -> Picture:
    """Draw the order in which a GPU starts the programs of a launch: over its grid, or over a tensor that they store to.

    Over a tensor, each element has the number of the program that stored it last.
    """
    which = _launch(trace, launch)
    grid, kernel = trace.launches[which].grid, trace.launches[which].kernel
    programs = math.prod(grid)
    if programs == 0:
        raise ValueError(say("asked.picture.no_programs", grid=grid_text(grid), launch=which, kernel=kernel))
    if tensor is None:
        starts = np.arange(programs).reshape(grid[: used_axes(grid)][::-1])
        sheet = fold(starts, ("program_id(1)", "program_id(0)"), leading="program_id(2)", unit="program")
        title = f"{kernel}: grid {grid_text(grid)}"
        said = "A GPU starts program 0 first, and program_id(0) runs fastest."
    else:
        region = _region(trace, tensor)
        starts = last_to_store(region, tensor, trace.steps[which])
        if (starts < 0).all():
            raise ValueError(say("asked.picture.no_stores", launch=which, kernel=kernel, tensor=repr(region.name)))
        sheet = fold(starts, ("row, elements", "column, elements"))
        sheet.cells[sheet.cells < 0] = np.ma.masked
        title = f"{region.name}: which program of {kernel} stores it"
        said = "Each element shows the program that stores it last; a GPU starts program 0 first."

    figure, ax, image = _print(sheet, programs - 1, "start number of the program", interpolation="nearest")
    ax.set_title(title)
    if tensor is None:
        _number_cells(ax, image)
    elif programs <= MAX_NUMBERS:
        _number_tiles(ax, image)
    figure.caption(said)
    return figure


def last_to_store(region: Region, tensor: torch.Tensor, steps: Iterable[Step]) -> np.ndarray:
    """Return the number of the program that stored each element last, in the tensor's shape; -1 where none did."""
    owner = np.full(region.size, -1, np.int64)
    for step in steps:
        if step.region is region and step.op != "load":
            owner[step.elements] = step.program
    return region.in_shape_of(tensor, owner)


def _number_tiles(ax: Axes, image: AxesImage) -> None:
    """A frame and a number for each program, if all fill rectangles and there is room."""
    cells = image.get_array()
    inches = 0.75 * ax.figure.get_size_inches()[::-1] / cells.shape  # of a cell, about
    tiles = {}
    for program in np.unique(cells.compressed()):
        rows, columns = np.nonzero((cells == program).filled(False))
        corner = np.array([rows.min(), columns.min()])
        size = np.array([rows.max(), columns.max()]) + 1 - corner
        if rows.size != size.prod() or (size * inches < LEGIBLE).any():
            return
        tiles[int(program)] = corner - 0.5, size
    for program, ((top, left), (height, width)) in tiles.items():
        ax.add_patch(Rectangle((left, top), width, height, fill=False, edgecolor="white", linewidth=1))
        _number(ax, left + width / 2, top + height / 2, program, image)


# ------------------------------------------------------------------------------------------------------ timeline


@dataclass(frozen=True)
class OperationStyle:
    """Style in which an operation is drawn: loads rise from a tensor's line, stores hang from it, atomics do both."""

    colour: str
    hatch: str
    above: float
    below: float


LOOKS = {
    "load": OperationStyle(READ, "", 1, 0),
    "store": OperationStyle(WRITTEN, "///", 0, 1),
    "atomic": OperationStyle(ATOMIC, "xxx", 1, 1),
}
ROOM = 0.33  # height of the tallest bar; tensors are 1 apart
LEAST = 0.05  # so that a single element next to a tile still shows


@on_white
def timeline(trace: Recorded, program: Index = 0, launch: int = -1) -> Picture:
    """Draw the loads, stores and atomics of one program, one after another: which tensor, how many bytes, which line.

    Raises ValueError if there is no such launch or program, or if it touched no memory.
    """
    which = _launch(trace, launch)
    number, who = _program(trace, which, program)
    kernel = trace.launches[which].kernel
    steps = trace.steps[which].of_program(number)
    if not steps:
        raise ValueError(say("asked.picture.no_memory", program=who, launch=which, kernel=kernel))
    tensors = list(dict.fromkeys(step.tensor for step in steps))
    nbytes = np.array([step.pattern.elements * step.pattern.itemsize for step in steps])
    heights = np.maximum(LEAST, ROOM * nbytes / nbytes.max())
    roomy = len(steps) <= MAX_ROOMY_STEPS
    lines = np.array([len(tensors) - 1 - tensors.index(step.tensor) for step in steps])  # the first on top

    figure = Picture(min(WIDTH, 5.5 + 0.15 * len(steps)), 1.9 + 0.8 * len(tensors))
    ax = figure.subplots()
    ax.hlines(range(len(tensors)), -0.6, len(steps) - 0.4, color=IDLE, linewidth=0.8, zorder=0)
    handles = []
    for op, look in LOOKS.items():
        at = np.array([i for i, step in enumerate(steps) if step.op == op], int)
        if at.size:
            hatch = look.hatch if roomy else ""  # it would cover a thin bar; the side tells all the same
            style = dict(facecolor=look.colour, hatch=hatch, edgecolor="white", linewidth=0)
            tall = (look.above + look.below) * heights[at]
            ax.bar(at, tall, 0.8, lines[at] - look.below * heights[at], **style)
            handles.append(Patch(label=f"{op}, {_beside(look)}", **style))
    if roomy:
        for i, (step, line, height) in enumerate(zip(steps, lines, heights, strict=True)):
            look = LOOKS[step.op]
            y, away, side = (line + height, 2, "bottom") if look.above else (line - height, -2, "top")
            place = dict(xytext=(0, away), textcoords="offset points", ha="center", va=side)
            ax.annotate(step.line, (i, y), **place)

    ax.set(xlim=(-0.6, len(steps) - 0.4), ylim=(-0.55, len(tensors) - 0.45))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=12, min_n_ticks=1))
    ax.set_yticks(range(len(tensors)), [_tick(name, steps) for name in reversed(tensors)])
    ax.set(xlabel="step of the program: each load, store or atomic is one", ylabel="tensor")
    ax.set_title(f"{kernel}, {who}", pad=24)
    ax.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2, borderpad=0, ncols=3, frameon=False
    )
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    numbers = " Small numbers: lines of the kernel." if roomy else ""
    figure.caption(
        f"{len(steps):,} step{'s' * (len(steps) > 1)}, {_moved(steps)}. "
        f"The tallest bar is {nbytes.max():,} bytes.{numbers}"
    )
    return figure


def _beside(look: OperationStyle) -> str:
    return {(1, 0): "above the line", (0, 1): "below it", (1, 1): "on both sides"}[look.above, look.below]


def _tick(name: str, steps: Sequence[Step]) -> str:
    """The tensor with the lines that touch it."""
    parts = []
    for op in LOOKS:
        lines = sorted({step.line for step in steps if step.tensor == name and step.op == op})
        if lines:
            parts.append(f"{op}: line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))}")
    return "\n".join([name, *parts])


def _moved(steps: Sequence[Step]) -> str:
    words = {"load": "loaded", "store": "stored", "atomic": "updated"}
    sums = {op: sum(s.pattern.elements * s.pattern.itemsize for s in steps if s.op == op) for op in words}
    return ", ".join(f"{count:,} bytes {words[op]}" for op, count in sums.items() if count)


# ------------------------------------------------------------------------------------------------------ what is meant


def _launch(trace: Recorded, launch: int) -> int:
    count = len(trace.launches)
    if not -count <= launch < count:
        if not count:
            raise ValueError(say("asked.picture.no_launch_at_all", launch=launch))
        raise ValueError(say("asked.picture.no_launch", launch=launch, count=count, last=count - 1))
    return launch % count


def _program(trace: Recorded, launch: int, program: Index) -> tuple[int, str]:
    """(its number in start order, what to call it)."""
    grid = trace.launches[launch].grid
    count, where = math.prod(grid), {"grid": grid_text(grid), "launch": launch}
    if isinstance(program, tuple | list):
        index = (*program, 0, 0, 0)[:3]
        if len(program) > 3 or not all(0 <= i < size for i, size in zip(index, grid, strict=True)):
            raise ValueError(say("asked.picture.no_place", program=str(program), **where))
        number = index[0] + grid[0] * (index[1] + grid[1] * index[2])
    else:
        number = program
        if not 0 <= number < count:
            raise ValueError(say("asked.picture.no_program", program=program, **where, count=count, last=count - 1))
        index = (number % grid[0], number // grid[0] % grid[1], number // (grid[0] * grid[1]))
    used = used_axes(grid)
    return number, f"program {index[0] if used == 1 else index[:used]}"


def _region(trace: Recorded, tensor: torch.Tensor) -> Region:
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(say("asked.picture.no_tensor", value=repr(tensor)))
    region = trace.regions.find(tensor)
    if region is None:
        raise ValueError(say("asked.picture.other_tensor", shape=str(tuple(tensor.shape))))
    if tensor.numel() == 0:
        shape = str(tuple(tensor.shape))
        raise ValueError(say("asked.picture.no_elements", tensor=repr(region.name), shape=shape))
    return region


# ------------------------------------------------------------------------------------------------------------- paper


@dataclass
class Sheet:
    """Values of any shape laid out in two dimensions: cells[row, column], masked where there are none."""

    cells: np.ma.MaskedArray
    xlabel: str
    ylabel: str
    blocks: Sequence[str] = ()  # names of equally high blocks of rows
    row_step: int = 0  # of a folded vector: elements in a row

    @property
    def aspect(self) -> str:
        rows, columns = self.cells.shape
        square = rows == 1 or (max(rows, columns) <= 4 * min(rows, columns) and not self.constant)
        return "equal" if square else "auto"

    @property
    def constant(self) -> bool:
        """Whether all cells hold the same number."""
        return not np.ma.is_masked(self.cells) and self.cells.size > 1 and bool(self.cells.min() == self.cells.max())

    @property
    def inches(self) -> tuple[float, float]:
        """Return width and height of a figure in which this looks well."""
        rows, columns = self.cells.shape
        if rows == 1:
            return WIDTH, 1.6
        if self.constant:
            return 6.5, 1.8
        if self.aspect == "equal":
            return 6.5, min(6.5, max(2.4, 1.4 + 4.6 * rows / columns))
        return (6.5, 6) if rows > columns else (WIDTH, 3)

    def label(self, ax: Axes) -> None:
        ax.set(xlabel=self.xlabel, ylabel=self.ylabel)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8, min_n_ticks=1))
        ax.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=8, min_n_ticks=1))
        rows = self.cells.shape[0]
        if self.blocks:
            height = rows // len(self.blocks)
            every = -(-len(self.blocks) // 16)
            ax.hlines(
                [i * height - 0.5 for i in range(1, len(self.blocks))], *ax.get_xlim(), color="white", linewidth=1
            )
            at = range(0, len(self.blocks), every)
            ax.set_yticks([(i + 0.5) * height - 0.5 for i in at], [self.blocks[i] for i in at])
        elif rows == 1:
            ax.set_yticks([])
        elif self.row_step:
            ax.yaxis.set_major_formatter(FuncFormatter(lambda row, _: f"{int(row) * self.row_step:,}"))


def fold(values: np.ndarray, names: tuple[str, str], leading: str = "", unit: str = "element") -> Sheet:
    """Lay out values as a Sheet: a vector as a strip, or rows of a power of two; of more than two dimensions the first are stacked.

    names   of the last two axes;  leading  of those before
    """
    if values.ndim < 2:
        flat = values.reshape(-1)
        if flat.size <= STRIP:
            return Sheet(_masked(flat[None, :]), f"{unit}s", "")
        width = 1 << int(np.ceil(np.log2(flat.size) / 2))
        cells = np.ma.masked_all((-(-flat.size // width), width), flat.dtype)
        cells.reshape(-1)[: flat.size] = flat
        return Sheet(cells, f"{unit} within a row of {width}", f"first {unit} of the row", row_step=width)
    if values.ndim == 2:
        return Sheet(_masked(values), names[1], names[0])
    *outer, height, _ = values.shape
    blocks = [", ".join(map(str, index)) for index in np.ndindex(*outer)]
    leading = leading or f"dimension{'s' * (len(outer) > 1)} {', '.join(map(str, range(len(outer))))}"
    cells = _masked(values.reshape(-1, values.shape[-1]))
    return Sheet(cells, names[1], f"{leading}; {height} rows each", blocks)


def _masked(values: np.ndarray) -> np.ma.MaskedArray:
    return np.ma.MaskedArray(values, np.zeros(values.shape, bool))


def _print(sheet: Sheet, most: int, label: str, **options) -> tuple[Picture, Axes, AxesImage]:
    """The sheet in colours from 0 to `most`, and what they mean next to it.

    Where several elements share a pixel, matplotlib by itself shows their average, so that stripes do not alias.
    """
    colours = colormaps["cividis"].with_extremes(bad="white")
    figure = Picture(*sheet.inches)
    ax = figure.subplots()
    image = ax.imshow(sheet.cells, cmap=colours, vmin=0, vmax=max(1, most), aspect=sheet.aspect, **options)
    sheet.label(ax)
    if sheet.cells.shape[0] > 1 and not sheet.constant:  # a strip has a number in each cell
        beside = ax.inset_axes((1.03, 0, 0.04, 1))
        figure.colorbar(image, cax=beside, label=label, ticks=MaxNLocator(integer=True, nbins=8))
    return figure, ax, image


def _number_cells(ax: Axes, image: AxesImage) -> None:
    """Each cell's number in it, where there is room."""
    cells = image.get_array()
    if cells.size <= MAX_NUMBERS and max(cells.shape) <= STRIP:
        for (row, column), value in np.ma.ndenumerate(cells):
            _number(ax, column, row, value, image)


def _number(ax: Axes, x: float, y: float, value: int, image: AxesImage) -> None:
    light = image.norm(value) > 0.5
    ax.text(x, y, value, ha="center", va="center", color=INK if light else "white")
