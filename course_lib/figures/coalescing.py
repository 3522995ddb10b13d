"""The pictures of 04_memory_coalescing.

Each function returns a matplotlib Figure. What a picture counts is traced when it is drawn; what it cites says so in
the picture. Colours are Okabe and Ito's, and none means anything alone: there is a number, a hatch or an outline too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial

import numpy as np
import torch
import triton
import triton.language as tl
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from course_lib.exercises.coalescing.naming import LANES
from course_lib.figures.widgets import Sliders, choice, explore, slider
from tritontrace.colours import CLEAR, DONE, EDGE, FAINT, FOUR, IDLE, INK, ONE, THREE, TWO, WASTE, paler, sheer
from tritontrace.picture import WIDTH, Picture, bare, boxes, ink_on, on_white
from tritontrace.tracing import trace
from tritontrace.words import plural

SECTOR, FETCH, LINE, WARP = 32, 64, 128, 32  # bytes, bytes, bytes, lanes
ITEMSIZE = {"int8": 1, "float16": 2, "float32": 4}


# ------------------------------------------------------------------------------------------- kernels to count and time


@triton.jit
def copy_rows(x_ptr, out_ptr, M, N, BLOCK: tl.constexpr):
    """Copy row `row` of an (M, N) matrix in program `row`: its lanes lie along the row."""
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    offsets = row * N + i
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=i < N), mask=i < N)


@triton.jit
def copy_columns(x_ptr, out_ptr, M, N, BLOCK: tl.constexpr):
    """Copy column `column` in program `column`: its lanes lie N elements apart."""
    column, i = tl.program_id(0), tl.arange(0, BLOCK)
    offsets = i * N + column
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=i < M), mask=i < M)


@triton.jit
def strided_copy(x_ptr, out_ptr, n, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    """Store x[i * STRIDE] to out[i]."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i * STRIDE, mask=i < n), mask=i < n)


@triton.jit
def copy_tile(x_ptr, out_ptr, row_stride, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Copy the first BLOCK_M x BLOCK_N elements of a matrix into a dense one."""
    m, n = tl.arange(0, BLOCK_M)[:, None], tl.arange(0, BLOCK_N)[None, :]
    tl.store(out_ptr + m * BLOCK_N + n, tl.load(x_ptr + m * row_stride + n))


@lru_cache
def strided_sectors(stride: int, dtype: str = "float32", n: int = 4096) -> int:
    """Trace a read of n elements, `stride` apart, and count the sectors that it touches."""
    x = torch.ones(n * stride, dtype=getattr(torch, dtype))
    with trace() as t:
        strided_copy[(1,)](x, torch.empty(n, dtype=x.dtype), n, STRIDE=stride, BLOCK=triton.next_power_of_2(n))
    return t.accesses_to("x_ptr", "load").sectors


@lru_cache
def copy_sectors(way: str, size: int = 1024) -> tuple[int, int]:
    """Trace a copy of a size x size float32 matrix by "rows" or by "columns", and return (load sectors, store sectors)."""
    x = torch.ones(size, size)
    kernel = {"rows": copy_rows, "columns": copy_columns}[way]
    with trace() as t:
        kernel[(size,)](x, torch.empty_like(x), size, size, BLOCK=triton.next_power_of_2(size))
    return t.loads.sectors, t.stores.sectors


@lru_cache
def tile_sectors(row_stride: int, width: int, rows: int = 128) -> int:
    """Trace a read of the first `width` float32 of each of `rows` rows, and count the sectors that it touches."""
    x = torch.ones(rows, row_stride)
    with trace() as t:
        copy_tile[(1,)](x, torch.empty(rows, width), row_stride, BLOCK_M=rows, BLOCK_N=width)
    return t.loads.sectors


def milliseconds(launch: Callable[[], object]) -> float:
    """Time a launch on the GPU: the median in milliseconds."""
    return triton.testing.do_bench(launch, return_mode="median")


# ------------------------------------------------------------------------------------------------ rows against columns


@on_white
def rows_against_columns(guess: float = ...) -> Figure:
    """Draw both kernels, run here: sectors counted on a CPU, and also milliseconds where there is a GPU.

    guess: how many times slower the column kernel is; ..., or anything else that is not a number, is no guess.
    """
    sectors = [copy_sectors(way)[0] for way in ("rows", "columns")]
    bars = [("sectors loaded, 1024 × 1024 float32\n(counted)", sectors, "{:,.0f}")]
    if torch.cuda.is_available():
        size = 8192
        x = torch.randn(size, size, device="cuda")
        out = torch.empty_like(x)
        times = [
            milliseconds(lambda kernel=kernel: kernel[(size,)](x, out, size, size, BLOCK=size))
            for kernel in (copy_rows, copy_columns)
        ]
        bars.append((f"milliseconds, {size} × {size} float32\n({torch.cuda.get_device_name()})", times, "{:.2f} ms"))

    figure = Picture(WIDTH, 1.5 + 1.5 * len(bars))
    for ax, (label, values, form) in zip(figure.subplots(len(bars), 1, squeeze=False)[:, 0], bars, strict=True):
        drawn = ax.barh(["rows", "columns"], values, color=[ONE, TWO], hatch=["", "//"], edgecolor="white")
        ax.bar_label(drawn, [form.format(v) for v in values], padding=4)
        ax.invert_yaxis()
        ax.set(xlabel=label, ylabel="kernel", xlim=(0, 1.2 * max(values)))
        if values is sectors:
            ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.set_title(f"columns / rows = {values[1] / values[0]:.1f}")
        bare(ax)
    said = f"you guessed {guess:g} times" if isinstance(guess, (int, float, np.number)) else "no guess yet"
    figure.caption(f"The same 4 MiB are wanted by both ({said}). What differs is what the memory moves for them.")
    return figure


# ------------------------------------------------------------------------------------------------------------ anatomy


@on_white
def memory_anatomy() -> Figure:
    """A page of 4096 bytes, one of its lines, and what the line is made of."""
    figure = Picture(WIDTH, 4.2)
    page, line = figure.subplots(2, 1, height_ratios=[1, 3.4])

    for start in range(0, 4096, LINE):
        page.add_patch(Rectangle((start, 0), LINE, 1, facecolor=TWO if start == 1024 else "white", edgecolor=INK))
    page.set(xlim=(0, 4096), ylim=(0, 1), xticks=range(0, 4097, 512), yticks=[], xlabel="byte address")
    page.set_title("4096 bytes of memory are 32 lines of 128 bytes")

    rows = [
        ("line, 128 bytes\n(what the caches name)", LINE, paler(TWO, 0.3), "line"),
        ("fetch, 64 bytes\n(what DRAM sends at least)", FETCH, "white", "fetch"),
        ("sector, 32 bytes\n(what we count)", SECTOR, FOUR, "sector"),
        ("element, 4 bytes\n(what a lane wants)", 4, "white", ""),
    ]
    for y, (_, width, colour, word) in enumerate(rows):
        for i, start in enumerate(range(0, LINE, width)):
            line.add_patch(Rectangle((1024 + start, y), width, 0.86, facecolor=colour, edgecolor=INK))
            text = f"{word} {i}" if LINE // width > 1 and word else word or (str(i) if i % 2 == 0 else "")
            line.text(1024 + start + width / 2, y + 0.43, text, ha="center", va="center", color=ink_on(colour))
    line.set(xlim=(1024, 1152), ylim=(len(rows), -0.1), xticks=range(1024, 1153, 16), xlabel="byte address")
    line.set_yticks([y + 0.43 for y in range(len(rows))], [name for name, *_ in rows])
    line.tick_params(axis="y", length=0)
    line.set_title("the line at address 1024")
    bare(line)
    figure.caption("A lane that wants 4 bytes makes the memory move 32: the neighbours come along, wanted or not.")
    return figure


# -------------------------------------------------------------------------------------------------- lanes over memory


def lane_addresses(stride: int, offset: int, dtype: str) -> np.ndarray:
    """Byte addresses of 32 lanes; lane i wants element offset + i * stride of an array that starts at address 0."""
    if dtype not in ITEMSIZE:
        raise ValueError(f"dtype is {dtype!r}; this figure draws {', '.join(ITEMSIZE)}")
    if stride < 0 or offset < 0:
        raise ValueError(f"stride and offset count elements forward: got stride {stride}, offset {offset}")
    return (offset + stride * np.arange(WARP)) * ITEMSIZE[dtype]


@on_white
def lanes_over_memory(stride: int = 1, offset: int = 0, dtype: str = "float32") -> Figure:
    """32 lanes read element offset + lane * stride: which bytes they want, and which sectors light up for it."""
    item, addresses = ITEMSIZE.get(dtype, 0), lane_addresses(stride, offset, dtype)
    wanted = np.unique(addresses[:, None] + np.arange(item))
    lit = np.unique(wanted // SECTOR)
    rows = max(4, -(-int(wanted.max() + 1) // LINE))

    page = np.zeros(rows * LINE)
    page.reshape(-1, SECTOR)[lit] = 1
    page[wanted] = 2

    figure = Picture(WIDTH, min(6.4, 1.4 + 0.4 * rows))
    ax = figure.subplots()
    ax.imshow(
        page.reshape(rows, LINE),
        cmap=ListedColormap([CLEAR, sheer(WASTE), DONE]),
        vmin=0,
        vmax=2,
        aspect="auto",
        interpolation="nearest",
        extent=(0, LINE, rows, 0),
    )
    ax.vlines(range(0, LINE, item), 0, rows, color=IDLE, linewidth=0.4)
    ax.hlines(range(rows), 0, LINE, color=IDLE, linewidth=0.8)
    ax.vlines(range(0, LINE + 1, SECTOR), 0, rows, color=INK, linewidth=1.2)
    if item >= 4:  # narrower cells are too narrow for a number
        for lane, address in enumerate(addresses) if stride else [(0, addresses[0])]:
            x, y = address % LINE + item / 2, address // LINE + 0.5
            ax.text(x, y, lane, color="white", ha="center", va="center_baseline")

    ticks = range(0, rows + 1, 1 if rows <= 12 else 4)
    ax.set(
        xticks=range(0, LINE + 1, SECTOR),
        yticks=ticks,
        yticklabels=[row * LINE for row in ticks],
        xlabel="byte within the 128-byte line (a thick line every 32 bytes: one sector)",
        ylabel="byte address of the line",
    )
    ax.set_title(f"{dtype}: lane i wants element {offset} + {stride} i")
    figure.legend(
        handles=[
            Patch(color=DONE, label="wanted (number = lane)" if item >= 4 else "wanted"),
            Patch(color=WASTE, label="fetched, thrown away"),
        ],
        loc="outside upper left",
        ncols=2,
        frameon=False,
    )
    sectors, useful = len(lit), len(wanted)
    figure.caption(
        f"{sectors} sectors × 32 bytes = {32 * sectors} bytes fetched, {useful} wanted:  "
        f"efficiency {useful} / {32 * sectors} = {useful / (32 * sectors):.1%}"
    )
    return figure


def explore_lanes_over_memory() -> Sliders | Figure:
    """The picture with sliders in a notebook; the picture alone where there is no notebook or no ipywidgets."""
    return explore(
        partial(lanes_over_memory, stride=2),
        play="stride",
        telling=(1, 2, 8, 32),
        stride=slider("stride", 1, 32),
        offset=slider("offset", 0, 31),
        dtype=choice("dtype", list(ITEMSIZE)),
    )


# ---------------------------------------------------------------------------------------------------------- stride


@on_white
def sectors_against_stride(strides: Sequence[int] = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)) -> Figure:
    """Sectors per 32 lanes, and the efficiency, of a strided copy: traced here for three dtypes."""
    figure = Picture(WIDTH, 3.9)
    left, right = figure.subplots(1, 2)
    for dtype, colour, marker in (("float32", ONE, "o"), ("float16", TWO, "s"), ("int8", THREE, "^")):
        sectors = np.array([strided_sectors(stride, dtype) for stride in strides]) / (4096 / WARP)
        style = dict(color=colour, marker=marker, label=f"{dtype} ({ITEMSIZE[dtype]} B)")
        left.plot(strides, sectors, **style)
        right.plot(strides, WARP * ITEMSIZE[dtype] / (SECTOR * sectors), **style)
    for ax in (left, right):
        ax.set_xscale("log", base=2)
        ax.set(xticks=[1, 2, 4, 8, 16, 32], xticklabels=[1, 2, 4, 8, 16, 32], xlabel="stride, elements")
        ax.grid(alpha=0.3)
        bare(ax)
    left.set(ylabel="sectors for 32 lanes", ylim=(0, 34), yticks=[0, 4, 8, 16, 24, 32])
    right.set(ylabel="efficiency = useful / fetched bytes", ylim=(0, 1.05))
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=3, frameon=False)
    figure.caption("Sectors grow with the stride until each lane has one to itself: 32 / itemsize elements apart.")
    return figure


# -------------------------------------------------------------------------------------------------------- divergence


@on_white
def divergence_timeline(taken: Sequence[bool], warp: int = WARP) -> Figure:
    """Draw what each lane does in each pass over `if taken: A else: B`; a lane that is not in the branch waits."""
    warps = [list(map(bool, taken[start : start + warp])) for start in range(0, len(taken), warp)]
    passes = [[branch for branch in (True, False) if branch in lanes] for lanes in warps]
    total = sum(map(len, passes))

    figure = Picture(WIDTH, 1.4 + 0.42 * total)
    ax = figure.subplots()
    row, ticks = 0, []
    for w, (lanes, branches) in enumerate(zip(warps, passes, strict=True)):
        for branch in branches:
            for lane, took in enumerate(lanes):
                active = took == branch
                colour = (ONE if branch else TWO) if active else IDLE
                ax.add_patch(
                    Rectangle(
                        (lane, row), 0.92, 0.8, facecolor=colour, edgecolor="white", hatch="" if active else "////"
                    )
                )
                if active:
                    ax.text(
                        lane + 0.46, row + 0.4, "A" if branch else "B", color=ink_on(colour), ha="center", va="center"
                    )
            for lane in range(len(lanes), warp):
                ax.add_patch(Rectangle((lane, row), 0.92, 0.8, facecolor="none", edgecolor=EDGE, linestyle=":"))
            if len(lanes) < warp:
                ax.text(
                    (len(lanes) + warp) / 2,
                    row + 0.4,
                    "no threads",
                    ha="center",
                    va="center_baseline",
                    backgroundcolor="white",
                )
            ticks.append((row + 0.4, f"warp {w}, pass {len(ticks) + 1}"))
            row += 1
        ax.axhline(row - 0.1, color=INK, linewidth=0.8)
    ax.set(xlim=(-0.2, warp), ylim=(row, -0.2), xlabel="lane of the warp", ylabel="time, downwards")
    ax.set_xticks(np.arange(0, warp, 4) + 0.46, range(0, warp, 4))
    ax.set_yticks([y for y, _ in ticks], [name for _, name in ticks])
    ax.set_title("A: lanes that took the if.  B: lanes that took the else.  Hatched: waiting.")
    bare(ax)
    figure.caption(
        f"{len(warps)} warps, {total} passes: a divided warp walks through both branches, others through one."
    )
    return figure


# ----------------------------------------------------------------------------------------------------------- padding


@on_white
def padding_drift(n: int = 1000, rows: int = 24) -> Figure:
    """Draw where rows of float32 start within a sector, and what reading a tile costs: row stride n, n + 1, and padded."""
    padded = -(-(n + 1) * 4 // SECTOR) * SECTOR // 4
    strides = [n, n + 1, padded]
    names = [f"{n}", f"{n + 1}", f"{n + 1} padded to {padded}"]
    looks = list(zip((ONE, TWO, THREE), ("o", "s", "^"), ("none", "full", "full"), strict=True))

    figure = Picture(WIDTH, 3.9)
    left, right = figure.subplots(1, 2)
    for stride, name, (colour, marker, fill) in zip(strides, names, looks, strict=True):
        starts = [row * stride * 4 % SECTOR for row in range(rows)]
        size = 11 if stride == n else 6  # where two agree, both stay visible
        left.plot(
            starts,
            marker=marker,
            markersize=size,
            color=colour,
            linestyle="none",
            label=f"row stride {name}",
            fillstyle=fill,
        )
    left.set(xlabel="row", ylabel="start of the row within its sector, bytes", ylim=(-2, 46), yticks=range(0, 33, 4))
    left.legend(loc="upper right", framealpha=1)
    left.set_title("where rows start")

    widths, handles = (8, 16, 32), []
    for i, (stride, (colour, marker, fill)) in enumerate(zip(strides, looks, strict=True)):
        waste = [tile_sectors(stride, width) / (128 * width * 4 / SECTOR) for width in widths]
        x = np.arange(len(widths)) + 0.27 * (i - 1)
        drawn = right.bar(x, waste, 0.25, color=colour, edgecolor="white")
        right.bar_label(drawn, [f"{w:.2f}" for w in waste])
        marks = right.plot(x, [0.1] * len(x), marker, color="white", markersize=5, fillstyle=fill)
        handles.append((drawn, *marks))  # the left panel's marker on the bar's colour
    right.set_xticks(range(len(widths)), [f"128 × {w}" for w in widths])
    right.set(xlabel="tile read, rows × float32", ylabel="sectors touched / fewest possible", ylim=(0, 2.9))
    labels = [f"row stride {name}" for name in names]
    right.legend(handles, labels, loc="upper right", framealpha=1, handleheight=1.3)
    right.set_title("what a tile costs (traced)")
    for ax in (left, right):
        bare(ax)
    figure.caption(
        "With one more element per row, the row starts drift, and short runs touch two sectors instead of one."
    )
    return figure


# --------------------------------------------------------------------------------------------------- transpose tiles


def footprint(rows: range, columns: range, size: int) -> np.ndarray:
    """Return a (size, size) float32 matrix: 2 where the tile lies, 1 elsewhere in the sectors it touches, 0 for the rest."""
    cells = np.zeros((size, size // 8, 8), dtype=int)
    inside = np.zeros((size, size), dtype=bool)
    inside[rows.start : rows.stop, columns.start : columns.stop] = True
    inside = inside.reshape(cells.shape)
    cells[inside.any(-1)] = 1
    cells[inside] = 2
    return cells.reshape(size, size)


WINDOW = 24  # rows and columns of the matrix that are drawn


@on_white
def tile_footprints(size: int = 64) -> Figure:
    """Draw what one program of a transpose stores: 64 elements as the column that a row becomes, and as a square."""
    figure = Picture(WIDTH, 4.2)
    shapes = [
        ("a row a program", "and stores go down a column:", range(20, 21), range(size)),
        ("a square a program", "and stores fill them, too:", range(16, 24), range(8, 16)),
    ]
    for ax, (name, how, m, n) in zip(figure.subplots(1, 2), shapes, strict=True):
        loaded, stored = (footprint(*tile, size) for tile in ((m, n), (n, m)))
        loads, stores = (int((cells > 0).sum()) // 8 for cells in (loaded, stored))
        shown = stored[:WINDOW, 8 : 8 + WINDOW]
        for y, x in np.argwhere(shown[:, ::8]):
            ax.add_patch(Rectangle((8 * x, y), 8, 1, facecolor=WASTE, edgecolor=EDGE, linewidth=0.7))
        wanted = np.argwhere(shown == 2)[:, ::-1]
        boxes(ax, wanted, (1, 1), facecolor=DONE, edgecolor="white", linewidth=0.5)
        ax.hlines(range(WINDOW + 1), 0, WINDOW, color=FAINT, linewidth=1, zorder=0)
        ax.vlines(range(0, WINDOW + 1, 8), 0, WINDOW, color=EDGE, linewidth=0.8)
        useful = int((stored == 2).sum()) / (8 * stores)
        ax.set_title(f"{name}: loads touch {loads} sectors,\n{how} {stores}")
        ax.set_xlabel(f"{100 * useful:g}% useful", fontsize=17, fontweight="bold")
        ax.text(20, 3.5, "a sector is\n8 floats of\na row", ha="center", va="center")
        ax.set(xlim=(0, WINDOW), ylim=(WINDOW, 0), aspect="equal", xticks=[], yticks=[])
        bare(ax, *ax.spines)
    figure.axes[0].set_ylabel(f"rows of the result, {WINDOW} of {size}")
    figure.caption(
        "Both programs store 64 floats. Blue: what they want. Orange: the rest of each sector, moved for nothing. A turned row is a "
        "column; a turned square is a square."
    )
    return figure


# ---------------------------------------------------------------------------------------------------------- named


@on_white
def name_lanes() -> Figure:
    """Draw six requests of 32 lanes: the bytes that they ask for, and the sectors that they touch."""
    figure = Picture(WIDTH, 6.4)
    axes = figure.subplots(len(LANES), 1)
    for ax, (name, offsets) in zip(axes, LANES.items(), strict=True):
        sectors = sorted({o // SECTOR for o in offsets})
        lowest, end = max(0, SECTOR * (sectors[0] - 1)), SECTOR * (sectors[-1] + 2)
        for sector in sectors:
            ax.add_patch(Rectangle((SECTOR * sector, 0), SECTOR, 1, facecolor=WASTE, edgecolor=INK, linewidth=0.5))
        for offset in set(offsets):
            ax.add_patch(Rectangle((offset, 0.15), 4, 0.7, facecolor=DONE, edgecolor="none"))
        ax.set_xlim(lowest, end)
        ax.set_ylim(0, 1)
        ax.set_yticks([])
        ax.set_ylabel(name, rotation=0, labelpad=12, va="center", fontsize=11)
        ax.tick_params(labelsize=9)
        bare(ax, "top", "right", "left")
        ax.set_title(f"lanes 0, 1, 2, 3 at {', '.join(map(str, offsets[:4]))}; {plural(len(sectors), 'sector')}")
    axes[-1].set_xlabel("byte of the tensor")
    figure.caption(
        "Each picture is one load of 32 floats. Blue is what the lanes ask for, and each orange box is a sector of 32 bytes that is "
        "fetched for it. Mind the scales: some requests lie within 300 bytes, some within 12,000."
    )
    return figure
