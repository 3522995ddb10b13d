"""The pictures of 05_tiling.

Each function returns a matplotlib Figure. Bytes, tiles and waves are counted when a picture is drawn. Speeds were measured:
torch's products here where there is a GPU, else on one H200, and the unit's own kernel on an H200 (benchmarks/tiling.py); the
picture says which.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_lib import bench, gpu, recordings
from course_lib.exercises.tiling.oracles import dealt, moved, rank_correlation, traced
from course_lib.figures.flops import BRANCHES, speeds
from course_lib.picture import BLUE, GREEN, GREY, INK, ORANGE, RED, RED_INK, SKY, Picture, bare, ink_on, on_white
from course_lib.tracing.cache import MissCurve, grouped, hilbert, matmul_tiles, row_major
from course_lib.widgets import Sliders, live
from course_lib.words import plural

TERA, MIB, GIB = 1e12, 1 << 20, 1 << 30
SIDES = [16, 32, 64, 128, 256]
ITEMSIZE = {"bfloat16": 2, "float32": 4}


def recorded() -> dict[str, Any]:
    """What benchmarks/tiling.py measured on one H200: machine, date, tiles, cublas, orders, curve, vocabulary."""
    return recordings.read("tiling")


def _whose() -> str:
    return f"recorded on one {recorded()['machine']}, {recorded()['date']}"


def _empty(ax, xlabel: str = "", ylabel: str = "") -> None:
    """No ticks and no frame, for drawings of matrices."""
    ax.set(xticks=[], yticks=[], xlabel=xlabel, ylabel=ylabel)
    bare(ax, *ax.spines)


# ------------------------------------------------------------------------------------------------ outer products


@on_white
def outer_products(m: int = 5, n: int = 7, k: int = 3) -> Figure:
    """a @ b, as the sum of outer products of a's columns and b's rows; small whole numbers."""
    generator = np.random.default_rng(5)
    a, b = generator.integers(-2, 3, (m, k)), generator.integers(-2, 3, (k, n))
    figure = Picture(9.5, 3.4)
    axes = figure.subplots(1, k + 1)
    limit = 1.6 * max(np.abs(a @ b).max(), 4)  # short of the darkest, on which no ink is legible
    for i, ax in enumerate(axes):
        values = np.outer(a[:, i], b[i]) if i < k else a @ b
        drawn = ax.imshow(values, cmap="PuOr", vmin=-limit, vmax=limit)
        for (row, column), value in np.ndenumerate(values):
            ink = ink_on(drawn.to_rgba(value))
            ax.text(column, row, value, ha="center", va="center", fontsize=9, color=ink)
        if i < k:
            ax.set_xticks(range(n), b[i], color=RED_INK)
            ax.set_yticks(range(m), a[:, i], color=BLUE)
            ax.xaxis.tick_top()
            ax.tick_params(length=0)
            ax.set_xlabel(f"row {i} of b above,\ncolumn {i} of a at the left", fontsize=9)
        else:
            ax.set(xticks=[], yticks=[])
            ax.set_xlabel("their sum", fontsize=9)
        ax.set_title(f"{'+ ' if 0 < i < k else ''}outer product {i}" if i < k else "= a @ b", fontsize=11)
    figure.caption(
        f"Each outer product reads {m} + {n} numbers and makes {m} × {n} products of them. "
        f"Together they read each of the {m * k} + {k * n} numbers of a and b once."
    )
    return figure


# ------------------------------------------------------------------------------------------------ a tile


@on_white
def tile_anatomy(side: int = 8, block: int = 2, block_k: int = 2) -> Figure:
    """Which rows of a and which columns of b one tile of c needs, and in which pieces; each cell is a tile, counts come from a
    trace."""
    figure = Picture(9.5, 3.9)
    axes = figure.subplots(1, 3)
    m, n = 1, 2  # the tile
    pieces = side // block_k
    for ax, name in zip(axes, "abc", strict=True):
        down, across = {"a": (block, block_k), "b": (block_k, block), "c": (block, block)}[name]
        for i in range(0, side, down):
            for j in range(0, side, across):
                ax.add_patch(Rectangle((j, i), across, down, facecolor="white", edgecolor=GREY, linewidth=0.6))
        if name == "c":
            ax.add_patch(Rectangle((n * block, m * block), block, block, facecolor=GREEN, edgecolor=INK, linewidth=2))
            ax.text(
                (n + 0.5) * block, (m + 0.5) * block, "acc", ha="center", va="center", color=ink_on(GREEN), fontsize=9
            )
        for p in range(pieces if name != "c" else 0):
            at = (p * block_k, m * block) if name == "a" else (n * block, p * block_k)
            size = (block_k, block) if name == "a" else (block, block_k)
            colour, hatch = (SKY, "") if p == 0 else ("white", "///")
            ax.add_patch(
                Rectangle(at, *size, facecolor=colour, edgecolor=INK if p == 0 else BLUE, hatch=hatch, linewidth=1.2)
            )
            white = {"facecolor": "white", "edgecolor": "none", "pad": 1}
            ax.text(at[0] + size[0] / 2, at[1] + size[1] / 2, p, ha="center", va="center", fontsize=10, bbox=white)
        ax.set(xlim=(-0.1, side + 0.1), ylim=(side + 0.1, -0.1), aspect="equal")
        rows, columns = {"a": ("M", "K"), "b": ("K", "N"), "c": ("M", "N")}[name]
        _empty(ax, columns, rows)
        ax.set_title(
            {"a": "a: loaded in steps 0, 1, ...", "b": "b: loaded in steps 0, 1, ...", "c": "c: one tile"}[name],
            fontsize=11,
        )
    found = traced(128, 192, 128, 64, 64)  # other numbers than the exercise asks for
    figure.caption(
        f"The program of this tile loads a band of a and a band of b, a pair of tiles in each step, and adds up in registers. "
        f"Traced, a result of 128 × 192 in tiles of 64 × 64: a is read {found.reread('a_ptr'):.0f} times, "
        f"b {found.reread('b_ptr'):.0f} times."
    )
    return figure


# ------------------------------------------------------------------------------------------------ the tile's size


def tile_costs(block_m: int, block_n: int, block_k: int, stages: int, dtype: str, n: int = 4096) -> dict[str, float]:
    """What a tile takes and gives: bytes of shared memory and of registers, intensity, bytes loaded by an n cubed product."""
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
    figure = Picture(9.5, 4.3)
    shape, rest = figure.subfigures(1, 2, width_ratios=[1, 1.9])
    shape.set_facecolor("white"), rest.set_facecolor("white")

    ax = shape.subplots()
    ax.add_patch(Rectangle((0, 0), block_n, block_m, facecolor=GREEN, edgecolor=INK))
    ax.add_patch(Rectangle((-block_k - 20, 0), block_k, block_m, facecolor=SKY, edgecolor=INK))
    ax.add_patch(Rectangle((0, -block_k - 20), block_n, block_k, facecolor=ORANGE, hatch="//", edgecolor=INK))
    for x, y, text in (
        (block_n / 2, block_m / 2, "c"),
        (-block_k / 2 - 20, block_m / 2, "a"),
        (block_n / 2, -block_k / 2 - 20, "b"),
    ):
        white = {"facecolor": "white", "edgecolor": "none", "pad": 2}
        ax.text(x, y, text, ha="center", va="center", bbox=white)
    ax.set(xlim=(-160, 264), ylim=(264, -160), aspect="equal")
    ax.set(xticks=[0, 64, 128, 256], yticks=[0, 64, 128, 256], xlabel="columns", ylabel="rows")
    ax.set_title(f"c {block_m} × {block_n}, steps of {block_k}", fontsize=11, loc="left")
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
            f"{card}'s ridge, were all of it from DRAM",
        ),
    ]
    for ax, (name, value, limit, unit, what) in zip(rest.subplots(3, 1), gauges, strict=True):
        over = value > limit and name != "intensity"
        ax.barh([0], [value], color=RED if over else BLUE, hatch="xx" if over else "", edgecolor="white", height=0.6)
        ax.axvline(limit, color=INK, linestyle="--", linewidth=1.5)
        ax.text(
            limit,
            0.52,
            f"{limit:,.0f}: {what} ",
            fontsize=9,
            va="bottom",
            ha="right",
        )
        told = f" {value:,.0f} {unit}" + (": does not fit" if over else "")
        white = {"facecolor": "white", "edgecolor": "none", "pad": 1}
        ax.text(value, 0, told, va="center", ha="left", fontsize=10, bbox=white)
        ax.set(xlim=(0, 1.55 * max(limit, min(value, 3 * limit))), ylim=(-0.4, 0.9), yticks=[], xlabel=unit)
        ax.set_title(name, fontsize=11, loc="left")
        bare(ax)
    figure.caption(
        f"A product of 4096 × 4096 {dtype} matrices in these tiles loads {cost['loaded'] / GIB:.2f} GiB. "
        f"A square of the same area would load {_square(block_m, block_n, dtype) / GIB:.2f} GiB. "
        f"By their shared memory, {programs} such programs fit onto one SM of {card} at a time."
    )
    return figure


def _square(block_m: int, block_n: int, dtype: str) -> float:
    side = (block_m * block_n) ** 0.5
    return ITEMSIZE[dtype] * 2 * 4096**3 / side


def tile_sizes_widget() -> Sliders | Figure:
    """The picture with sliders in a notebook; the picture alone elsewhere."""
    if not live():
        return tile_sizes()
    from ipywidgets import Dropdown, IntSlider, SelectionSlider

    def side(name: str, value: int, options: list[int] = SIDES):
        return SelectionSlider(options=options, value=value, description=name, continuous_update=False)

    return Sliders(
        tile_sizes,
        block_m=side("BLOCK_M", 64),
        block_n=side("BLOCK_N", 64),
        block_k=side("BLOCK_K", 64, [16, 32, 64, 128]),
        stages=IntSlider(3, 1, 6, description="stages", continuous_update=False),
        dtype=Dropdown(options=list(ITEMSIZE), value="bfloat16", description="dtype"),
        card=Dropdown(options=[sheet.name for sheet in gpu.DATASHEETS], value="H200", description="GPU"),
    )


@on_white
def pipelining(load: float = 2.0, dot: float = 1.0, steps: int = 6) -> Figure:
    """Loads and dots of one program with 1, 2 and 3 stages. A drawing: a load takes `load`, a dot `dot`, in no unit."""
    figure = Picture(9.5, 4.6)
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
            ax.add_patch(Rectangle((start, row), load, 0.8, facecolor=SKY, edgecolor=INK))
            ax.text(start + load / 2, row + 0.4, f"load {step}", ha="center", va="center", fontsize=8)
            ax.add_patch(Rectangle((begin, stages), dot, 0.8, facecolor=ORANGE, hatch="//", edgecolor=INK))
            white = {"facecolor": "white", "edgecolor": "none", "pad": 1}
            ax.text(begin + dot / 2, stages + 0.4, step, ha="center", va="center", fontsize=8, bbox=white)
        ends[stages] = dots[-1][1]
        ax.axvline(ends[stages], color=RED, linestyle="--", linewidth=1.5)
        ax.set_yticks(
            [row + 0.4 for row in range(stages + 1)], [*(f"buffer {b}" for b in range(stages)), "tl.dot"], fontsize=9
        )
        ax.set(ylim=(stages + 1, -0.1), xlim=(0, steps * (load + dot) + 0.3), ylabel="")
        ax.set_title(f"num_stages = {stages}: {steps} steps take {ends[stages]:g}", fontsize=11, loc="left")
        bare(ax)
    axes[-1].set(xlabel="time, in no unit (a drawing: a load takes twice as long as a dot)")
    figure.caption(
        f"With one buffer loads and dots take turns. With three, the tensor cores wait for the first load alone: "
        f"{ends[1] / ends[3]:.1f} times faster, for three times the shared memory."
    )
    return figure


# ------------------------------------------------------------------------------------------------ autotuning


@on_white
def autotuned() -> Figure:
    """The published kernel by tile, at 4096 cubed in bfloat16, as a share of cuBLAS."""
    found = recorded()
    rows = sorted(found["tiles"], key=lambda row: -row["flops"])
    cublas = found["cublas"]["4096"]
    figure = Picture(9.5, 4.6)
    ax = figure.subplots()
    for y, row in enumerate(rows):
        m, n, *_ = row["tile"]
        ax.barh(y, row["flops"] / TERA, color=BLUE, edgecolor="white")
        intensity = 2 * m * n / (2 * (m + n))
        said = f"{row['flops'] / cublas:.2f} of cuBLAS; {intensity:.0f} FLOP/byte"
        ax.text(1.02 * cublas / TERA, y, said, va="center", fontsize=9)
    ax.axvline(cublas / TERA, color=INK, linestyle="--", linewidth=1.5)
    ax.text(cublas / TERA, -0.7, "cuBLAS ", fontsize=9, va="bottom", ha="right")
    names = ["{} × {} × {}, {} warps, {} stages".format(*row["tile"]) for row in rows]
    ax.set_yticks(range(len(rows)), names, fontsize=9)
    ax.invert_yaxis()
    ax.set(xlabel="TFLOP/s", ylabel="configuration", xlim=(0, cublas / TERA * 1.5))
    ax.set_title(f"4096 × 4096 × 4096, bfloat16; {_whose()}", fontsize=11, loc="left", pad=16)
    bare(ax)
    best, worst = rows[0]["flops"], rows[-1]["flops"]
    figure.caption(
        f"One kernel, {len(rows)} configurations, a factor of {best / worst:.1f} between the best and the worst. "
        "The intensity sorts them roughly; the rest is warps and stages, and is measured, not derived. All lie left of the ridge (206): "
        "the L2 delivers what DRAM could not."
    )
    return figure


# ------------------------------------------------------------------------------------------------ tiles and waves


@on_white
def tile_quantization(sizes: tuple[int, int] = (256, 257), block: int = 128) -> Figure:
    """Tiles over a matrix that they cover exactly, and over one with one row and one column more."""
    figure = Picture(9.5, 4.2)
    told = []
    for ax, size in zip(figure.subplots(1, 2), sizes, strict=True):
        tiles, _ = dealt(size, size, block, block, 1)
        across = round(tiles**0.5)
        for i in range(across):
            for j in range(across):
                inside = min(block, size - i * block) * min(block, size - j * block) / block**2
                ax.add_patch(
                    Rectangle((j * block, i * block), block, block, facecolor=SKY if inside == 1 else "white", edgecolor=INK,
                              hatch="" if inside == 1 else "//")
                )  # fmt: skip
                ax.text(
                    (j + 0.5) * block,
                    (i + 0.5) * block,
                    f"{inside:.1%}" if inside < 1 else "full",
                    ha="center",
                    va="center",
                    fontsize=10,
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 2},
                )
        ax.add_patch(Rectangle((0, 0), size, size, facecolor="none", edgecolor=RED, linewidth=2))
        ax.set(xlim=(-8, 400), ylim=(400, -8), aspect="equal", xlabel="columns", ylabel="rows")
        ax.set_xticks([0, 128, 256, 384])
        ax.set_yticks([0, 128, 256, 384])
        used = size * size / (tiles * block * block)
        ax.set_title(f"{size} × {size}: {tiles} tiles of {block} × {block}, {used:.0%} used", fontsize=11, loc="left")
        bare(ax)
        told.append(tiles)
    figure.caption(
        f"The red frame is the matrix. One row and one column more take {told[1]} tiles instead of {told[0]}: "
        "a masked lane of tl.dot costs as much as any other."
    )
    return figure


@on_white
def waves(m: int = 1793, n: int = 1793, bm: int = 256, bn: int = 128, sms: int = 108) -> Figure:
    """Tiles of an (m, n) result, by the wave in which they run, and the SMs at work in each wave."""
    if min(m, n, bm, bn, sms) < 1:
        raise ValueError(f"sizes are at least 1: got m = {m}, n = {n}, tiles {bm} x {bn}, {sms} SMs")
    tiles, count = dealt(m, n, bm, bn, sms)
    down, across = -(-m // bm), -(-n // bn)
    wave = np.arange(tiles).reshape(down, across) // sms
    figure = Picture(9.5, 4.4)
    grid, busy = figure.subplots(1, 2, width_ratios=[1.25, 1])
    colours = colormaps["cividis"](np.linspace(0.15, 1, max(count, 2)))
    grid.imshow(colours[wave], extent=(0, across * bn, down * bm, 0), aspect="auto", interpolation="nearest")
    if tiles <= 160:
        for (i, j), w in np.ndenumerate(wave):
            grid.text(
                (j + 0.5) * bn, (i + 0.5) * bm, w + 1, ha="center", va="center", fontsize=8, color=ink_on(colours[w])
            )
    if tiles <= 4000:
        grid.vlines(np.arange(1, across) * bn, 0, down * bm, color="white", linewidth=0.5)
        grid.hlines(np.arange(1, down) * bm, 0, across * bn, color="white", linewidth=0.5)
    grid.add_patch(Rectangle((0, 0), n, m, facecolor="none", edgecolor=RED, linewidth=2))
    grid.set(xlabel="columns (red frame: the matrix)", ylabel="rows")
    grid.set_title(f"{tiles} tiles of {bm} × {bn}; number: wave", fontsize=11, loc="left")

    at_work = np.bincount(wave.ravel(), minlength=count)
    busy.bar(range(1, count + 1), at_work, color=colours[:count], edgecolor=INK, linewidth=0.5)
    busy.axhline(sms, color=INK, linestyle="--", linewidth=1.5)
    busy.text(0.42, sms, f"{sms} SMs", fontsize=9, va="bottom")
    if count <= 12:
        for w, value in enumerate(at_work, 1):
            busy.text(
                w,
                value / 2,
                value,
                ha="center",
                va="center",
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 2},
            )
    busy.set(xlabel="wave", ylabel="SMs at work", ylim=(0, 1.15 * sms), xlim=(0.4, count + 0.6))
    busy.xaxis.get_major_locator().set_params(integer=True)
    bare(busy)
    used = m * n / (count * sms * bm * bn)
    one = plural(count, "wave")
    busy.set_title(one, fontsize=11, loc="left")
    figure.caption(
        f"{m} × {n}: {tiles} tiles in {one}. {at_work[-1]} of {sms} SMs work in the last wave; "
        f"of all that the SMs could have computed meanwhile, {used:.0%} was asked for."
    )
    return figure


def waves_widget() -> Sliders | Figure:
    """The picture with sliders in a notebook; the picture alone elsewhere. The size is that of a square result."""
    if not live():
        return waves()
    from ipywidgets import BoundedIntText, SelectionSlider

    def square(size: int, **rest: int) -> Figure:
        return waves(size, size, **rest)

    def side(name: str, value: int):
        return SelectionSlider(options=SIDES[2:], value=value, description=name, continuous_update=False)

    return Sliders(
        square,
        size=BoundedIntText(1793, 1, 8192, description="N"),
        bm=side("BLOCK_M", 256),
        bn=side("BLOCK_N", 128),
        sms=SelectionSlider(options=[40, 58, 108, 132, 148], value=108, description="SMs", continuous_update=False),
    )


# ------------------------------------------------------------------------------------------------ the mystery plot

Predict = Callable[..., Any]


def measured_and_predicted(predict: Predict) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, str]:
    """Sizes, measured FLOP/s, predicted FLOP/s (None if `predict` gives none), and whose measurement it is."""
    (curve, whose), (ceilings, _) = speeds("curve"), speeds("ceilings")
    sizes, measured = (np.array([point[i] for point in curve["points"]]) for i in (0, 1))
    sms = gpu.num_sms() if bench.available() else gpu.datasheet("H200").sms
    machine = {
        "sms": sms,
        "flops_per_second": ceilings["random"]["bf16"],
        "bytes_per_second": ceilings["copy_bytes_per_second"],
        "launch_seconds": 5e-6,
    }
    return sizes, measured, _called(predict, sizes, bm=128, bn=128, **machine), whose


def _called(predict: Predict, sizes: np.ndarray, **arguments: Any) -> np.ndarray | None:
    found = predict([int(n) for n in sizes], **arguments)
    try:
        found = np.array(found, dtype=float)
    except (TypeError, ValueError):
        return None
    return found if found.shape == sizes.shape and np.isfinite(found).all() and (found > 0).all() else None


@on_white
def predicted_against_measured(predict: Predict) -> Figure:
    """The mystery plot with a model laid over it, and model against measurement; the worst misses are named."""
    sizes, measured, model, whose = measured_and_predicted(predict)
    figure = Picture(9.5, 6.6)
    curve, ratio = figure.subplots(2, 1, height_ratios=[2, 1], sharex=True)
    even = sizes & -sizes
    for low, high, name, colour, marker in BRANCHES:
        chosen = (even >= low) & (even <= high)
        label = f"N is {name}" if name != "multiple of 8" else "N is a multiple of 8"
        curve.plot(
            sizes[chosen],
            measured[chosen] / TERA,
            marker=marker,
            markersize=4,
            color=colour,
            linestyle="none",
            label=label,
        )
        if model is not None:
            curve.plot(sizes[chosen], model[chosen] / TERA, color=colour, linewidth=1)
            ratio.plot(
                sizes[chosen],
                model[chosen] / measured[chosen],
                marker=marker,
                markersize=4,
                color=colour,
                linestyle="none",
            )
    curve.set(ylabel="TFLOP/s", ylim=(0, None), xlim=(0, None))
    curve.legend(fontsize=9, frameon=False, loc="upper left")
    curve.set_title(f"marks: measured; lines: the model. {whose}", fontsize=11, loc="left")
    ratio.axhline(1, color=INK, linewidth=1)
    ratio.set(xlabel="N", ylabel="model / measured", yscale="log", ylim=(0.3, 2.5))
    ratio.set_yticks([0.5, 0.7, 1, 1.5, 2], ["0.5", "0.7", "1", "1.5", "2"])
    ratio.minorticks_off()
    for ax in (curve, ratio):
        ax.grid(alpha=0.3)
        bare(ax)
    if model is None:
        figure.caption("There is no model yet: solve predicted_throughput, and its curves appear here.")
        return figure
    for i in worst_misses(sizes, measured, model, 4, apart=128):
        place = (0, 9) if model[i] > measured[i] else (0, -13)
        ratio.annotate(
            sizes[i],
            (sizes[i], model[i] / measured[i]),
            xytext=place,
            textcoords="offset points",
            fontsize=8,
            ha="center",
        )
    figure.caption(
        f"Rank correlation over {len(sizes)} sizes: {rank_correlation(model, measured):.3f}. The numbers below name the worst misses "
        "from N = 1024 on."
    )
    return figure


def worst_misses(sizes: np.ndarray, measured: np.ndarray, model: np.ndarray, count: int, apart: int = 0) -> list[int]:
    """Indices of the sizes from 1024 on where the model is furthest off, as a factor; no two nearer than `apart`."""
    off = np.abs(np.log(model / measured)) * (sizes >= 1024)
    chosen: list[int] = []
    for i in np.argsort(-off):
        if len(chosen) < count and all(abs(sizes[i] - sizes[j]) >= apart for j in chosen):
            chosen.append(int(i))
    return chosen


def how_well(predict: Predict) -> str:
    """Rank correlations by kind of size, of the model, of the model without alignment, and of size alone; the worst misses."""
    sizes, measured, model, whose = measured_and_predicted(predict)
    if model is None:
        return "solve predicted_throughput to see how well it predicts"
    kinds = [
        ("all sizes", sizes > 0),
        ("multiples of 8", sizes % 8 == 0),
        ("multiples of 8, from 2500 on", (sizes % 8 == 0) & (sizes >= 2500)),
        ("4 × odd", sizes % 8 == 4),
        ("2 × odd", sizes % 4 == 2),
        ("odd", sizes % 2 == 1),
    ]
    smooth = np.interp(sizes, sizes[sizes % 8 == 0], model[sizes % 8 == 0])  # as if every size were a multiple of 8
    lines = [
        f"rank correlation with the measured speeds ({whose})",
        f"{'':30}sizes   model   no alignment   size alone",
    ]
    for name, chosen in kinds:
        rho = [rank_correlation(y[chosen], measured[chosen]) for y in (model, smooth, sizes)]
        lines.append(f"{name:30}{chosen.sum():5}   {rho[0]:5.3f}   {rho[1]:12.3f}   {rho[2]:10.3f}")
    lines.append("worst misses, from N = 1024 on:")
    for i in worst_misses(sizes, measured, model, 5):
        tiles, count = dealt(int(sizes[i]), int(sizes[i]), 128, 128, 132)
        last = "in one wave of" if count == 1 else f"the last of {count} waves has"
        said = f"measured {measured[i] / TERA:4.0f}, predicted {model[i] / TERA:4.0f} TFLOP/s"
        lines.append(f"    N = {sizes[i]}: {said}; {tiles} tiles of 128 × 128, {last} {(tiles - 1) % 132 + 1}")
    return "\n".join(lines)


@on_white
def one_tile_for_all(predict: Predict) -> Figure:
    """Throughput of the published kernel with one tile against size, and the model for that tile."""
    found = recorded()
    bm, bn, *_ = found["curve"]["tile"]
    sizes, measured = (np.array([point[i] for point in found["curve"]["points"]]) for i in (0, 1))
    sms = gpu.datasheet("H200").sms
    counts = np.array([dealt(int(n), int(n), bm, bn, sms)[1] for n in sizes])
    used = sizes.astype(float) ** 2 / (counts * sms * bm * bn)
    full = (measured / used)[sizes > 3000].max()  # what all SMs together reached, the idle ones counted as well
    model = _called(
        predict, sizes, bm=bm, bn=bn, sms=sms, flops_per_second=full, bytes_per_second=4.25e12, launch_seconds=5e-6
    )
    figure = Picture(9.5, 4.4)
    ax = figure.subplots()
    ax.plot(sizes, measured / TERA, color=BLUE, marker="o", markersize=4, linewidth=0.8, label="measured")
    if model is not None:
        ax.plot(sizes, model / TERA, color=ORANGE, linestyle="--", label="the model")
    for i in range(1, len(sizes)):
        if counts[i] > counts[i - 1]:
            ax.axvline((sizes[i] + sizes[i - 1]) / 2, color=GREY, linewidth=1, zorder=0)
            ax.text((sizes[i] + sizes[i - 1]) / 2, 20, f" {counts[i]}", fontsize=8, color=INK)
    ax.set(xlabel="N, multiples of 64 (a grey line: another wave begins)", ylabel="TFLOP/s", ylim=(0, None))
    ax.legend(fontsize=9, frameon=False, loc="upper left")
    ax.set_title(f"the published matmul with tiles of {bm} × {bn} alone, bfloat16; {_whose()}", fontsize=11, loc="left")
    bare(ax)
    if model is None:
        figure.caption(
            "Each grey line is a cliff: one more wave. Solve predicted_throughput, and the model appears here."
        )
        return figure
    figure.caption(
        f"With one tile for all sizes the sawtooth is there: rank correlation {rank_correlation(model, measured):.3f}, "
        f"and {rank_correlation(sizes, measured):.3f} for size alone. The model's peak is the best that a full wave reached here."
    )
    return figure


def vocabulary() -> str:
    """Time of GPT-2's last layer with its vocabulary as it is, and padded."""
    rows = recorded()["vocabulary"]
    lines = [f"(8192, 768) @ (768, vocabulary), bfloat16; {_whose()}"]
    for row in rows:
        flops = 2 * 8192 * 768 * row["vocabulary"]
        lines.append(
            f"    {row['vocabulary']}: {row['seconds'] * 1e3:.2f} ms, {flops / row['seconds'] / TERA:.0f} TFLOP/s"
        )
    faster, more = rows[0]["seconds"] / rows[1]["seconds"], rows[1]["vocabulary"] - rows[0]["vocabulary"]
    lines.append(f"    {faster:.1f} times faster with {more} columns more")
    return "\n".join(lines)


# ------------------------------------------------------------------------------------------------ orders

ORDERS = [
    ("row order", lambda m, n: row_major(m, n), ORANGE, "-"),
    ("grouped, 8 rows", lambda m, n: grouped(m, n, 8), BLUE, "--"),
    ("Hilbert's curve", lambda m, n: hilbert(m, n), GREEN, "-."),
]


@on_white
def orders(side: int = 48, at_once: int = 132) -> Figure:
    """When each tile of a side x side grid starts, in three orders; the first `at_once` programs are hatched."""
    figure = Picture(9.5, 4)
    for ax, (name, order, _, _) in zip(figure.subplots(1, 3), ORDERS, strict=True):
        tiles = order(side, side)
        starts = np.empty((side, side), int)
        starts[tiles[:, 0], tiles[:, 1]] = np.arange(side * side)
        image = ax.imshow(starts, cmap="cividis", extent=(0, side, side, 0))
        first = tiles[:at_once]
        for m, n in first:
            ax.add_patch(Rectangle((n, m), 1, 1, facecolor="white", edgecolor=INK, hatch="xx", linewidth=0.2))
        rows, columns = (len(np.unique(first[:, axis])) for axis in (0, 1))
        ax.set(xlabel="column of tiles (a band of b)", ylabel="row of tiles (a band of a)")
        ax.set_title(f"{name}:\n{rows} + {columns} = {rows + columns} bands wanted", fontsize=11, loc="left")
    figure.colorbar(image, ax=figure.axes, shrink=0.7, label="start number")
    figure.caption(
        f"Hatched: the {at_once} tiles that run together in the first wave. The same number in each order, and different numbers "
        "of bands of a and b that they want. A compact patch wants fewest."
    )
    return figure


@on_white
def order_traffic(side: int = 64, k: int = 32, at_once: int = 132) -> Figure:
    """Left: DRAM bytes of three orders in the L2 model, by size of the L2. Right: measured times on an H200."""
    figure = Picture(9.5, 4.3)
    model, timed = figure.subplots(1, 2, width_ratios=[1.5, 1])
    tile_bytes = 128 * 128 * 2
    sizes = np.geomspace(2 * MIB, 256 * MIB, 200)
    at_l2 = {}
    for name, order, colour, line in ORDERS:
        curve = MissCurve(matmul_tiles(order(side, side), k, at_once, tile_bytes))
        model.plot(sizes / MIB, curve.read_bytes(sizes) / GIB, color=colour, linestyle=line, linewidth=2, label=name)
        at_l2[name] = curve.read_bytes(60 * MIB)
    model.axvline(60, color=INK, linestyle=":", linewidth=1)
    model.text(60, 0.02, " H200", transform=model.get_xaxis_transform(), fontsize=9)
    model.set(xscale="log", xlabel="size of the L2, MiB", ylabel="GiB read from DRAM", ylim=(0, None))
    model.set_xticks([2, 4, 8, 16, 32, 64, 128, 256], ["2", "4", "8", "16", "32", "64", "128", "256"])
    model.minorticks_off()
    model.legend(fontsize=9, frameon=False)
    model.set_title(
        f"the model: a and b of {side * 128} × {k * 128} and {k * 128} × {side * 128}", fontsize=10, loc="left"
    )

    rows = recorded()["orders"]
    names = sorted({row["n"] for row in rows})
    for i, (label, colour, hatch) in enumerate((("grouped, 8", BLUE, "//"), ("Hilbert", GREEN, ".."))):
        own = [next(row for row in rows if row["n"] == n and row["order"] == label) for n in names]
        values, spreads = [row["ratio"] for row in own], [row["spread"] for row in own]
        bars = timed.bar(
            np.arange(len(names)) + 0.4 * i - 0.2,
            values,
            0.38,
            color=colour,
            hatch=hatch,
            edgecolor="white",
            label=label,
            yerr=spreads,
            ecolor=INK,
            capsize=3,
        )
        timed.bar_label(
            bars, [f"{v:.2f}\n± {s:.2f}" for v, s in zip(values, spreads, strict=True)], fontsize=8, padding=2
        )
    timed.axhline(1, color=ORANGE, linewidth=2)
    timed.set_xticks(range(len(names)), names)
    top = 1.4 * max(row["ratio"] for row in rows)
    timed.set(xlabel="N, products of (N, N)", ylabel="speed, row order = 1", ylim=(0, top))
    timed.legend(fontsize=9, frameon=False, loc="upper left", ncols=2)
    timed.set_title(_whose(), fontsize=10, loc="left")
    for ax in (model, timed):
        ax.grid(alpha=0.3)
        bare(ax)
    share = at_l2["grouped, 8 rows"] / at_l2["row order"]
    figure.caption(
        f"With an H200's L2 grouped order reads {share:.2f} of row order's bytes in the model (tiles of 128 × 128, {at_once} at once). "
        "Right, what that is worth in speed; each bar was timed against row order in the same run (± its spread)."
    )
    return figure
