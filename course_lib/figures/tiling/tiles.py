"""One tile: the products it is made of, what it takes of an SM, how its loads are hidden, how fast it is."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_lib.exercises.tiling.oracles import moved, traced
from course_lib.figures.tiling.recording import GIB, ITEMSIZE, SIDES, TERA, whose
from course_lib.figures.widgets import Sliders, choice, explore, slider, stops
from course_lib.hardware.measurements import measured
from tritontrace import gpu
from tritontrace.colours import EDGE, IDLE, INK, LEFT, LIMIT, LOADED, OURS, PART, RESULT, RIGHT, TWO, WRONG
from tritontrace.picture import WIDTH, Picture, bare, box, ink_on, on_white
from tritontrace.words import plural


def _empty(ax, xlabel: str = "", ylabel: str = "") -> None:
    """No ticks and no frame, for drawings of matrices."""
    ax.set(xticks=[], yticks=[], xlabel=xlabel, ylabel=ylabel)
    bare(ax, *ax.spines)


@on_white
def outer_products(m: int = 5, n: int = 7, k: int = 3) -> Figure:
    """a @ b, as the sum of outer products of a's columns and b's rows; small whole numbers."""
    generator = np.random.default_rng(5)
    a, b = generator.integers(-2, 3, (m, k)), generator.integers(-2, 3, (k, n))
    figure = Picture(WIDTH, 4.4)
    axes = figure.subplots(2, 2).flat
    for i, ax in enumerate(axes):
        last = i == k
        sheet = a @ b if last else np.outer(a[:, i], b[i])
        for (row, column), value in np.ndenumerate(sheet):
            box(ax, column, row, 1, 1, RESULT if last else PART, value)
        for row in range(0 if last else m):
            box(ax, -1.3, row, 1, 1, LEFT, a[row, i])
        for column in range(0 if last else n):
            box(ax, column, -1.3, 1, 1, RIGHT, b[i, column])
        ax.set(xlim=(-1.4, n + 0.1), ylim=(m + 0.1, -1.4), aspect="equal")
        _empty(ax, "columns" if i >= 2 else "", "" if i % 2 else "rows")
        title = "c = a @ b: their sum" if last else f"{'+ ' * (i > 0)}column {i} of a times row {i} of b"
        ax.set_title(title)
    figure.caption(
        f"Each number of a column of a (sky blue) is multiplied by each number of a row of b (orange): {m} + {n} numbers are read for "
        f"{m} × {n} products. All outer products together read each of the {m * k} + {k * n} numbers of a and b once."
    )
    return figure


@on_white
def tile_anatomy(side: int = 8, block: int = 2, block_k: int = 2) -> Figure:
    """Draw which rows of a and which columns of b one tile of c needs, and in which pieces: a left of c, b above it. Each cell is
    a tile; counts come from a trace."""
    figure = Picture(WIDTH, 6.4)
    ax = figure.subplots()
    m, n, gap = 1, 2, 1.2  # the tile, and the room between the matrices
    for x, y, down, across in (
        (-side - gap, 0, block, block_k),
        (0, -side - gap, block_k, block),
        (0, 0, block, block),
    ):
        for i in range(0, side, down):
            for j in range(0, side, across):
                ax.add_patch(Rectangle((x + j, y + i), across, down, facecolor="white", edgecolor=IDLE, linewidth=0.6))
    for step in range(side // block_k):
        box(ax, -side - gap + step * block_k, m * block, block_k, block, LEFT, f"step {step}")
        box(ax, n * block, -side - gap + step * block_k, block, block_k, RIGHT, f"step {step}")
    box(ax, n * block, m * block, block, block, RESULT, "acc", 11)
    lines = dict(color=EDGE, linewidth=0.8, linestyle=":")
    for i in (0, 1):  # the band of a runs on to the tile, and so does the band of b
        ax.plot([-gap, n * block], [(m + i) * block] * 2, **lines)
        ax.plot([(n + i) * block] * 2, [-gap, m * block], **lines)
    for x, y, name in ((-side - gap, side + 0.5, "a, (M, K)"), (0, side + 0.5, "c, (M, N)")):
        ax.text(x, y, name, fontsize=11, va="center")
    ax.text(0, -side - gap - 0.5, "b, (K, N)", fontsize=11, va="center")
    told = (
        "In each step the program\n"
        "1. loads a tile of a and a tile of b\n"
        "    into shared memory, once,\n"
        "2. multiplies them: each number of a\n"
        "    meets BLOCK_N of b, each of b\n"
        "    BLOCK_M of a,\n"
        "3. adds to acc, in registers.\n\n"
        "After the last step it stores acc."
    )
    ax.text(-side - gap, -side - gap + 0.2, told, fontsize=10, va="top", linespacing=1.5)
    ax.set(xlim=(-side - gap - 0.1, side + 0.1), ylim=(side + 1, -side - gap - 1), aspect="equal")
    _empty(ax, "columns", "rows")
    found = traced(128, 192, 128, 64, 64)  # other numbers than the exercise asks for
    figure.caption(
        f"The tile of c lies where its band of a (the rows that it needs) meets its band of b (the columns). "
        f"A trace of a 128 × 192 result in tiles of 64 × 64 says that a is read {found.reread('a_ptr'):.0f} times, "
        f"and b {found.reread('b_ptr'):.0f} times."
    )
    return figure


def tile_costs(block_m: int, block_n: int, block_k: int, stages: int, dtype: str, n: int = 4096) -> dict[str, float]:
    """Compute the costs and gains of a tile: bytes of shared memory and of registers, intensity, bytes that a product of n cubed loads."""
    itemsize = ITEMSIZE[dtype]
    loaded = itemsize * moved(n, n, n, block_m, block_n)
    return {
        "shared": stages * block_k * (block_m + block_n) * itemsize,
        "registers": 4 * block_m * block_n,
        "loaded": loaded,
        "intensity": 2 * n**3 / loaded,
    }


@on_white
def tile_sizes(
    block_m: int = 64,
    block_n: int = 64,
    block_k: int = 64,
    stages: int = 3,
    dtype: str = "bfloat16",
    card: str = "H200",
) -> Figure:
    """One tile: its shape, what it takes of an SM, and what it saves."""
    if dtype not in ITEMSIZE:
        raise ValueError(f"dtype is {dtype!r}; this figure draws {', '.join(ITEMSIZE)}")
    if min(block_m, block_n, block_k, stages) < 1:
        raise ValueError(f"sides and stages are at least 1: got {block_m}, {block_n}, {block_k}, {stages}")
    sheet, cost = gpu.datasheet(card), tile_costs(block_m, block_n, block_k, stages, dtype)
    peak = (sheet.bf16_flops or sheet.fp32_flops) if dtype == "bfloat16" else sheet.fp32_flops
    programs = int(sheet.shared_bytes_per_sm // (cost["shared"] + 1024))  # CUDA keeps 1 KiB for itself
    figure = Picture(WIDTH, 4.3)
    ax, gauged = figure.subplots(1, 2, width_ratios=[1, 1.9])
    ax.add_patch(Rectangle((0, 0), block_n, block_m, facecolor=RESULT, edgecolor=INK))
    ax.add_patch(Rectangle((-block_k - 20, 0), block_k, block_m, facecolor=LEFT, edgecolor=INK))
    ax.add_patch(Rectangle((0, -block_k - 20), block_n, block_k, facecolor=RIGHT, edgecolor=INK))
    for x, y, text, colour in (
        (block_n / 2, block_m / 2, "c", RESULT),
        (-block_k / 2 - 20, block_m / 2, "a", LEFT),
        (block_n / 2, -block_k / 2 - 20, "b", RIGHT),
    ):
        ax.text(x, y, text, ha="center", va="center", color=ink_on(colour))
    ax.set(xlim=(-160, 264), ylim=(264, -160), aspect="equal")
    ax.set(xticks=[0, 64, 128, 256], yticks=[0, 64, 128, 256], xlabel="columns", ylabel="rows")
    ax.set_title(f"c {block_m} × {block_n}, steps of {block_k}")
    bare(ax)

    gauges = [
        (
            "shared memory",
            cost["shared"] / 1024,
            sheet.shared_bytes_per_block / 1024,
            "KiB",
            f"one program on {card} may have",
        ),
        ("accumulator", cost["registers"] / 1024, 128, "KiB", "half of an SM's registers"),
        (
            "intensity",
            cost["intensity"],
            peak / sheet.hbm_bandwidth,
            "FLOP/byte",
            f"{card}'s ridge, if DRAM delivers all",
        ),
    ]
    for row, (name, value, limit, unit, what) in enumerate(gauges):
        over, end = value > limit and name != "intensity", 1.1 * max(limit, value)
        look = dict(color=WRONG if over else OURS, hatch="xx" if over else "", edgecolor="white")
        gauged.barh(row, value / end, 0.3, **look)
        gauged.plot([limit / end] * 2, [row - 0.2, row + 0.38], color=INK, linestyle="--", linewidth=1.5)
        side = "right" if 2 * limit > end else "left"  # of the line: where the sentence has room
        gauged.text(limit / end, row + 0.2, f" {limit:,.0f} {unit}: {what} ", va="top", ha=side)
        told = f"{name}: {value:,.0f} {unit}" + ", does not fit" * over
        gauged.text(0, row - 0.21, told, fontsize=10, va="bottom")
    gauged.set(xlim=(0, 1), ylim=(2.5, -0.45))
    gauged.set_axis_off()
    fit = f"{plural(programs, 'such program fits', 'such programs fit')} onto one SM of {card} at a time"
    if not programs:
        fit = f"not even one such program fits onto an SM of {card}"
    figure.caption(
        f"A product of 4096 × 4096 {dtype} matrices in these tiles loads {cost['loaded'] / GIB:.2f} GiB. "
        f"A square of the same area would load {_square(block_m, block_n, dtype) / GIB:.2f} GiB. "
        f"As far as shared memory is concerned, {fit}."
    )
    return figure


def _square(block_m: int, block_n: int, dtype: str) -> float:
    side = (block_m * block_n) ** 0.5
    return ITEMSIZE[dtype] * 2 * 4096**3 / side


def explore_tile_sizes() -> Sliders | Figure:
    """The picture with sliders in a notebook; the picture alone elsewhere."""
    return explore(
        tile_sizes,
        block_m=stops("BLOCK_M", SIDES),
        block_n=stops("BLOCK_N", SIDES),
        block_k=stops("BLOCK_K", [16, 32, 64, 128]),
        stages=slider("stages", 1, 6),
        dtype=choice("dtype", list(ITEMSIZE)),
        card=choice("GPU", [sheet.name for sheet in gpu.DATASHEETS]),
    )


@on_white
def pipelining(load: float = 2.0, dot: float = 1.0, steps: int = 6) -> Figure:
    """Loads and dots of one program with 1, 2 and 3 stages. A drawing: a load takes `load`, a dot `dot`, in no unit."""
    figure = Picture(WIDTH, 4.6)
    axes = figure.subplots(3, 1, sharex=True)
    ends = {}
    for ax, stages in zip(axes, (1, 2, 3), strict=True):
        dots: list[tuple[float, float]] = []
        for step in range(steps):
            free = dots[step - stages][1] if step >= stages else 0.0  # its buffer was read for the last time
            start, arrived = free, free + load
            begin = max(arrived, dots[-1][1] if dots else 0.0)
            dots.append((begin, begin + dot))
            row = step % stages
            box(ax, start, row, load, 0.8, LOADED, f"load {step}")
            box(ax, begin, stages, dot, 0.8, TWO, step)
        ends[stages] = dots[-1][1]
        ax.axvline(ends[stages], color=LIMIT, linestyle="--", linewidth=1.5)
        ax.set_yticks([row + 0.4 for row in range(stages + 1)], [*(f"buffer {b}" for b in range(stages)), "tl.dot"])
        ax.set(ylim=(stages + 1, -0.1), xlim=(0, steps * (load + dot) + 0.3), ylabel="")
        ax.set_title(f"num_stages = {stages}: {steps} steps take {ends[stages]:g} units of time")
        bare(ax)
    axes[-1].set(xlabel="time, in no unit (a drawing: a load takes twice as long as a dot)")
    figure.caption(
        f"With one buffer, loads and products take turns. With three buffers, the tensor cores wait only for the first load. "
        f"This is {ends[1] / ends[3]:.2f} times as fast, and takes three times the shared memory."
    )
    return figure


@on_white
def autotuned() -> Figure:
    """The published kernel by tile, at 4096 cubed in bfloat16, as a share of cuBLAS."""
    found = measured("tiling")
    rows = sorted(found["tiles"], key=lambda row: -row["flops"])
    cublas = found["cublas"]["4096"]
    figure = Picture(WIDTH, 4.6)
    ax = figure.subplots()
    for y, row in enumerate(rows):
        m, n, *_ = row["tile"]
        ax.barh(y, row["flops"] / TERA, color=OURS, edgecolor="white")
        intensity = 2 * m * n / (2 * (m + n))
        said = f"{row['flops'] / cublas:.2f}; {intensity:.0f} FLOP/byte"
        ax.text(1.02 * cublas / TERA, y, said, va="center")
    ax.axvline(cublas / TERA, color=INK, linestyle="--", linewidth=1.5)
    ax.text(cublas / TERA, -0.7, "cuBLAS: 1 ", va="bottom", ha="right")
    names = ["{} × {} × {}, {}, {}".format(*row["tile"]) for row in rows]
    ax.set_yticks(range(len(rows)), names)
    ax.invert_yaxis()
    ax.set(xlabel="TFLOP/s", ylabel="tile, warps, stages", xlim=(0, cublas / TERA * 1.45))
    ax.set_title(f"4096 × 4096 × 4096, bfloat16\n{whose()}", pad=16)
    bare(ax)
    best, worst = rows[0]["flops"], rows[-1]["flops"]
    figure.caption(
        f"The best of these {len(rows)} configurations of one kernel is {best / worst:.1f} times as fast as the worst. "
        "Sorting them by intensity gives roughly the same order as sorting them by speed. Warps and stages have an effect, too, which "
        "can only be measured. All intensities are below the ridge (206), so DRAM alone could not deliver these "
        "bytes fast enough."
    )
    return figure
