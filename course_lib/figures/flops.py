"""The pictures of 03_counting_flops.

Each function returns a matplotlib Figure. FLOPs are counted by torch when a picture is drawn. Speeds are measured here
where there is a GPU (sm_80 or newer); elsewhere they are one H200's, recorded, or a datasheet's, and the picture says which.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Polygon, Rectangle
from torch.utils.flop_counter import FlopCounterMode

from course_lib.figures.widgets import Sliders, choice, explore, stops
from course_lib.hardware import throughput
from course_lib.hardware.measurements import measured, whose
from tritontrace import gpu
from tritontrace.colours import (
    EDGE,
    FIVE,
    FOUR,
    IDLE,
    INK,
    LEFT,
    LIMIT,
    ONE,
    OTHERS,
    OURS,
    RED_INK,
    RESULT,
    RIGHT,
    THREE,
    TWO,
    WASTE,
    WRONG,
)
from tritontrace.picture import WIDTH, Picture, bare, box, ink_on, on_white
from tritontrace.profiling import bench

ITEMSIZE = {"bf16": 2, "fp16": 2, "tf32": 4, "fp32": 4}
TERA = 1e12


def count(work: Callable[[], object]) -> int:
    """FLOPs of the matrix products in work(), by torch's counter."""
    with FlopCounterMode(display=False) as counter:
        work()
    return counter.get_total_flops()


@cache
def speeds(what: str) -> tuple[Any, str]:
    """Return the numbers of "curve", "ceilings", "operations" or "pitfalls", measured on this GPU or recorded, and a phrase on which."""
    if bench.has_gpu():
        live = {
            "curve": lambda: {"dtype": "bfloat16", "points": throughput.matmul_curve()},
            "ceilings": throughput.ceilings,
            "operations": throughput.operations,
            "pitfalls": throughput.pitfalls_afresh,
        }
        return live[what](), f"measured here, {torch.cuda.get_device_name()}"
    return measured("mystery_plot")[what], f"recorded on {whose('mystery_plot')}"


# --------------------------------------------------------------------------------------------------------- products


@on_white
def product_anatomy(m: int = 4, n: int = 6, k: int = 5) -> Figure:
    """c = a @ b: the row, the column and the element that they make."""
    figure = Picture(WIDTH, 3.6)
    ax = figure.subplots()
    gap = 1.6
    places = [("a", m, k, 0), ("b", k, n, k + gap), ("c", m, n, k + n + 2 * gap)]
    row, column = 1, 2
    tall = max(m, k)
    for name, rows, columns, left in places:
        top = (tall - rows) / 2
        for i in range(rows):
            for j in range(columns):
                marked = {"a": i == row, "b": j == column, "c": (i, j) == (row, column)}[name]
                colour = {"a": LEFT, "b": RIGHT, "c": RESULT}[name] if marked else "white"
                ax.add_patch(Rectangle((left + j, top + i), 1, 1, facecolor=colour, edgecolor=INK))
                if marked:
                    text = {"a": f"a{j}", "b": f"b{i}", "c": "c"}[name]
                    ax.text(left + j + 0.5, top + i + 0.5, text, ha="center", va="center", color=ink_on(colour))
        shape = {"a": "(m, k)", "b": "(k, n)", "c": "(m, n)"}[name]
        ax.text(left + columns / 2, top - 0.25, f"{name}: {shape} = ({rows}, {columns})", ha="center", fontsize=11)
    ax.text(k + gap / 2, tall / 2, "@", ha="center", va="center", fontsize=16)
    ax.text(k + n + 1.5 * gap, tall / 2, "=", ha="center", va="center", fontsize=16)
    ax.set(xlim=(-0.5, k + 2 * n + 2 * gap + 0.5), ylim=(tall + 0.3, -1), aspect="equal", xticks=[], yticks=[])
    ax.set(xlabel="columns", ylabel="rows")
    for spine in ax.spines.values():
        spine.set_visible(False)
    terms = " + ".join(f"a{i}·b{i}" for i in range(k))
    ax.set_title(f"c = {terms}")
    figure.caption(
        f"One element takes {k} multiplications and, from a sum that starts at 0, {k} additions. "
        f"{m} × {n} elements: 2 × {m} × {n} × {k} = {2 * m * n * k} FLOPs."
    )
    return figure


@on_white
def three_products(tokens: int = 64, d_in: int = 256, d_out: int = 512) -> Figure:
    """A linear layer's three products as one box with a side for each size: two of its faces are read, and the third is made."""
    x, w, dy = (torch.empty(s, device="meta") for s in ((tokens, d_in), (d_in, d_out), (tokens, d_out)))
    products = [
        ("forward:  y = x @ w", count(lambda: x @ w), {"x": LEFT, "w": RIGHT, "y": RESULT}),
        ("backward:  dw = x.T @ dy", count(lambda: x.T @ dy), {"x": LEFT, "dy": RIGHT, "dw": RESULT}),
        ("backward:  dx = dy @ w.T", count(lambda: dy @ w.T), {"dy": LEFT, "w": RIGHT, "dx": RESULT}),
    ]
    wide, high, deep = (math.log2(2 * size) / 4 for size in (d_out, d_in, tokens))  # not to scale
    back = np.array([0.62, 0.42]) * deep
    across, up, zero = np.array([wide, 0]), np.array([0, high]), np.zeros(2)
    figure = Picture(WIDTH, 2.6)
    for ax, (name, flops, faces) in zip(figure.subplots(1, 3), products, strict=True):
        for matrix, colour in faces.items():
            # w lies in front, x at the side, y on top
            corner, one, other = {"w": (zero, across, up), "x": (across, back, up), "y": (up, across, back)}[matrix[-1]]
            corners = [corner, corner + one, corner + one + other, corner + other]
            made = colour == RESULT
            ax.add_patch(
                Polygon(corners, facecolor=colour, edgecolor=INK, linewidth=2.2 if made else 0.8, zorder=2 + made)
            )
            ax.text(
                *np.mean(corners, axis=0), matrix, ha="center", va="center", color=ink_on(colour), fontsize=11, zorder=4
            )
        ax.text(wide / 2, -0.12, f"{d_out:,} out", ha="center", va="top")
        ax.text(-0.12, high / 2, f"{d_in:,} in", ha="right", va="center")
        ax.text(*(across + back / 2 + [0.1, -0.12]), f"{tokens:,} tokens", va="top")
        ax.set(
            xlim=(-1.1, wide + back[0] + 0.5), ylim=(-0.5, high + back[1] + 0.1), aspect="equal", xticks=[], yticks=[]
        )
        ax.set_title(name)
        ax.set_xlabel(f"{flops:,} FLOPs", fontsize=11, fontweight="bold")
        bare(ax, *ax.spines)
    figure.axes[0].set_ylabel("one box, three times")
    once = 2 * tokens * d_in * d_out
    figure.caption(
        f"One box, and another face is made each time (framed, green). Each product has 2 FLOPs for each unit of the volume, {once:,}, so "
        f"backward is twice forward. That is 2 for each of {d_in * d_out:,} weights and {tokens} tokens, and 4 on the way back."
    )
    return figure


@on_white
def blow_up(widths: tuple[int, ...] = (64, 256, 1024), layers: int = 8) -> Figure:
    """The spread of the values behind each layer of a deep linear model: weights from randn, and scaled ones."""
    figure = Picture(WIDTH, 3.8)
    axes = figure.subplots(1, 2, sharey=True)
    for ax, title, scale in (
        (axes[0], "w = randn(d, d)", lambda d: 1.0),
        (axes[1], "w = randn(d, d) / sqrt(d)", lambda d: d**-0.5),
    ):
        for width, colour, marker in zip(widths, (ONE, TWO, THREE), ("o", "s", "^"), strict=False):
            generator = torch.Generator().manual_seed(width)
            x = torch.randn(256, width, generator=generator)
            spread = [float(x.std())]
            for _ in range(layers):
                x = x @ (torch.randn(width, width, generator=generator) * scale(width))
                spread.append(float(x.std()))
            ax.plot(spread, color=colour, marker=marker, label=f"d = {width}")
        ax.axhline(65504, color=LIMIT, linestyle="--", linewidth=1)
        ax.set(yscale="log", xlabel="layers passed", title=title)
        ax.grid(alpha=0.3)
        bare(ax)
    axes[0].set_ylabel("standard deviation of the values")
    axes[0].text(layers, 65504 / 2, "largest float16", color=RED_INK, ha="right", va="top")
    axes[1].legend(frameon=False)
    figure.caption(
        "On the left, each layer of width d multiplies the spread by sqrt(d). On the right, the spread stays near 1."
    )
    return figure


# --------------------------------------------------------------------------------------------------------- roofline


def peak(card: gpu.GPU, dtype: str) -> float | None:
    """Dense FLOP/s by the datasheet; None where the card has no units for it."""
    return getattr(card, f"{dtype}_flops")


def _roof(ax, flops_per_second: float, bytes_per_second: float, **style) -> float:
    """Draws a roof; returns its ridge in FLOP/byte."""
    ridge = flops_per_second / bytes_per_second
    x = np.array([1e-2, ridge, 1e5])
    ax.plot(x, np.minimum(x * bytes_per_second, flops_per_second) / TERA, **style)
    return ridge


def _roofline_axes(ax) -> None:
    ax.set(xscale="log", yscale="log", xlim=(0.05, 2e4))
    ax.set(xlabel="intensity, FLOPs for each byte moved", ylabel="speed, TFLOP/s")
    ax.minorticks_off()  # a drag waits for each of them
    ax.grid(alpha=0.3)
    bare(ax)


@on_white
def roofline(m: int = 512, n: int = 4096, k: int = 4096, dtype: str = "bf16", card: str = "H200") -> Figure:
    """One matrix product under one card's roof, by its datasheet."""
    if dtype not in ITEMSIZE:
        raise ValueError(f"dtype is {dtype!r}; this figure draws {', '.join(ITEMSIZE)}")
    if min(m, n, k) < 1:
        raise ValueError(f"sizes are at least 1: got m = {m}, n = {n}, k = {k}")
    sheet = gpu.datasheet(card)
    flops_per_second, note = peak(sheet, dtype), ""
    if flops_per_second is None:
        note, flops_per_second = f" ({card} has no {dtype} units: fp32's speed)", sheet.fp32_flops
    flops, nbytes = 2 * m * n * k, ITEMSIZE[dtype] * (m * k + k * n + m * n)
    intensity = flops / nbytes
    seconds = max(flops / flops_per_second, nbytes / sheet.hbm_bandwidth)
    by_memory = nbytes / sheet.hbm_bandwidth > flops / flops_per_second

    figure = Picture(WIDTH, 4.6)
    ax = figure.subplots()
    ridge = _roof(ax, flops_per_second, sheet.hbm_bandwidth, color=INK, linewidth=2)
    ax.axvspan(1e-3, ridge, color=FOUR, alpha=0.18)
    ax.axvspan(ridge, 1e6, color=TWO, alpha=0.18)
    speed = flops / seconds / TERA
    ax.plot([intensity] * 2, [1e-9, speed], color=OURS, linestyle=":", linewidth=1.5)
    ax.plot([intensity], [speed], marker="o", markersize=11, color=OURS, linestyle="none")
    _roofline_axes(ax)
    ax.set_ylim(0.1, 1e4)  # room above the fastest card, where no roof crosses the words
    ax.text(0.07, 5000, "memory is the limit", fontsize=10)
    ax.text(1.6e4, 5000, "arithmetic is the limit", fontsize=10, ha="right")
    ax.annotate(
        f"ridge: {ridge:.0f} FLOP/byte",
        (ridge, flops_per_second / TERA),
        xytext=(-4, 8),
        textcoords="offset points",
        ha="right",
    )
    ax.set_title(f"({m}, {k}) @ ({k}, {n}) in {dtype} under the datasheet of {card}{note}")
    figure.caption(
        f"{flops:.3g} FLOPs / {nbytes:.3g} bytes = {intensity:.3g} FLOP/byte. At best {speed:.3g} TFLOP/s, "
        f"{100 * speed * TERA / flops_per_second:.3g} % of the peak, and {seconds * 1e6:.3g} µs: "
        f"{'memory' if by_memory else 'arithmetic'} is the limit."
    )
    return figure


def explore_roofline() -> Sliders | Figure:
    """The picture with sliders in a notebook; the picture alone where there is no notebook or no ipywidgets."""
    powers = [2**i for i in range(15)]
    return explore(
        roofline,
        m=stops("m", powers),
        n=stops("n", powers),
        k=stops("k", powers),
        dtype=choice("dtype", list(ITEMSIZE)),
        card=choice("GPU", [sheet.name for sheet in gpu.DATASHEETS]),
    )


@on_white
def operations_under_the_roof() -> Figure:
    """Operations of a model in bf16: measured speed, under the measured ceilings and those of the datasheet."""
    (ceilings, whose), (operations, _) = speeds("ceilings"), speeds("operations")
    copy, product = ceilings["copy_bytes_per_second"], ceilings["random"]["bf16"]
    sheet = gpu.current_or_h200()
    figure = Picture(WIDTH, 5.2)
    ax = figure.subplots()
    promised = sheet.bf16_flops or sheet.fp32_flops
    _roof(ax, promised, sheet.hbm_bandwidth, color=INK, linestyle="--")
    ridge = _roof(ax, product, copy, color=INK, linewidth=2)
    beside = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
    ax.annotate("datasheet", (1, promised / TERA), (4, 0), va="bottom", **beside)
    ax.annotate("a large product,\nmeasured", (1, product / TERA), (4, 4), va="top", **beside)
    ax.annotate("a copy, measured", (3, 3 * copy / TERA), (12, -6), textcoords="offset points", va="top")
    crowded = {"1024 rows × matrix": (10, 20), "matmul 2048": (-70, 42), "matmul 8192": (-16, -36)}
    for op in operations:
        x, y = op["flops"] / op["bytes"], op["flops"] / op["seconds"] / TERA
        kind = "product" if "mat" in op["name"] else "elementwise"
        colour, marker = {"product": (ONE, "o"), "elementwise": (TWO, "s")}[kind]
        ax.plot([x], [y], marker=marker, color=colour, markersize=8, linestyle="none")
        offset = crowded.get(op["name"], (10, -5))
        line = {"arrowstyle": "-", "color": INK, "linewidth": 0.7} if op["name"] in crowded else None
        ax.annotate(op["name"], (x, y), xytext=offset, textcoords="offset points", arrowprops=line)
    _roofline_axes(ax)
    ax.set_ylim(0.3, 6000)
    for marker, colour, label in (("o", ONE, "matrix products"), ("s", TWO, "other operations")):
        ax.plot([], [], marker=marker, color=colour, linestyle="none", label=label)
    ax.legend(loc="lower right", frameon=False)
    ax.set_title(whose)
    figure.caption(
        f"Left of the measured ridge, {ridge:.0f} FLOP/byte, more arithmetic for each byte is almost free. "
        f"A copy reached {copy / sheet.hbm_bandwidth:.0%} of the datasheet's bandwidth."
    )
    return figure


@on_white
def promised_and_reached() -> Figure:
    """Products of 8192 x 8192 matrices by dtype: from the datasheet's dense FLOP/s down to what was reached, and its other figure."""
    ceilings, whose = speeds("ceilings")
    sheet = gpu.current_or_h200()
    names = [name for name in ("bf16", "fp16", "tf32", "fp32") if peak(sheet, name)]
    figure = Picture(WIDTH, 3.4)
    ax = figure.subplots()
    for y, name in enumerate(names):
        dense, zeros, random = (
            v / TERA for v in (peak(sheet, name), ceilings["zeros"][name], ceilings["random"][name])
        )
        ax.plot([random, dense], [y, y], color=IDLE, linewidth=3, zorder=1)
        points = [(random, OURS, "o", OURS), (zeros, OTHERS, "s", OTHERS), (dense, INK, "o", "white")]
        if name != "fp32":
            ax.plot([dense, 2 * dense], [y, y], color=EDGE, linestyle=":", linewidth=1, zorder=1)
            points.append((2 * dense, EDGE, "X", "white"))
        for value, edge, marker, fill in points:
            ax.plot(value, y, marker, markersize=9, markerfacecolor=fill, markeredgecolor=edge, markeredgewidth=1.6)
        place = dict(textcoords="offset points", va="top")
        ax.annotate(f"{random / dense:.0%}", (dense, y), (8, -5), fontsize=12, fontweight="bold", **place)
        ax.annotate(f"{random:,.0f} of {dense:,.0f}", (dense, y), (46, -7), **place)
    dense, zeros, random = (
        v / TERA for v in (peak(sheet, names[0]), ceilings["zeros"][names[0]], ceilings["random"][names[0]])
    )
    words = ((random, "random\nnumbers", "right"), (zeros, "zeros", "center"), (dense, "promised,\ndense", "left"))
    words += ((2 * dense, "printed, “with\nsparsity” *", "right"),)
    for value, word, side in words:
        ax.text(value, -0.28, word, ha=side, va="bottom")
    ax.set_yticks(range(len(names)), names)
    ax.set(xlabel="TFLOP/s", ylabel="dtype", xlim=(0, 2.1 * dense), ylim=(len(names) - 0.4, -1.15))
    ax.set_title(f"{sheet.name}: random numbers reach {random / dense:.0%} of bf16's dense peak\n{whose}")
    ax.tick_params(axis="y", length=0)
    bare(ax, "top", "right", "left")
    faster = ceilings["zeros"]["bf16"] / ceilings["random"]["bf16"]
    share = ceilings["random"]["bf16"] / (sheet.bf16_flops or sheet.fp32_flops)
    figure.caption(
        f"On random numbers bf16 reaches {share:.0%} of the dense peak, and {share / 2:.0%} of the number with the asterisk. "
        f"On zeros the same product is {faster - 1:.0%} faster."
    )
    return figure


# ----------------------------------------------------------------------------------------------------------- memory


@on_white
def sixteen_bytes() -> Figure:
    """Bytes for each parameter that training keeps, activations apart, by optimizer."""
    parts = [("parameters", ONE), ("gradients", TWO), ("optimizer's state", THREE)]
    rows = [("SGD", (4, 4, 0)), ("SGD, momentum", (4, 4, 4)), ("AdaGrad", (4, 4, 4)), ("Adam, AdamW", (4, 4, 8))]
    figure = Picture(WIDTH, 2.8)
    ax = figure.subplots()
    for y, (_, values) in enumerate(rows):
        left = 0
        for value, (_, colour) in zip(values, parts, strict=True):
            if value:
                ax.barh(y, value, left=left, color=colour, edgecolor="white")
                ax.text(left + value / 2, y, str(value), ha="center", va="center", color=ink_on(colour))
            left += value
        ax.text(left + 0.2, y, f"{left} bytes", va="center")
    ax.set_yticks(range(len(rows)), [name for name, _ in rows])
    ax.invert_yaxis()
    ax.set(xlabel="bytes for each parameter, all in float32", ylabel="optimizer", xlim=(0, 19), xticks=range(0, 17, 4))
    ax.legend(
        handles=[Patch(facecolor=colour, label=name) for name, colour in parts],
        frameon=False,
        ncols=3,
        loc="lower right",
        bbox_to_anchor=(1, 1),
    )
    bare(ax)
    figure.caption("AdamW keeps two averages for each parameter: 16 bytes in all, before a single activation.")
    return figure


# ----------------------------------------------------------------------------------------------------------- timing


@on_white
def launch_timeline() -> Figure:
    """Draw what host and device do when a function is timed without waiting, and with. A drawing, not a measurement."""
    figure = Picture(WIDTH, 4)
    axes = figure.subplots(2, 1, sharex=True)
    bars = {"host": [(0, 0.6, "work()", FOUR)], "device": [(0.6, 6.0, "the kernel runs", ONE)]}
    for ax, title, stop, wait in (
        (axes[0], "without waiting: the clock times the queueing", 0.6, False),
        (axes[1], "with synchronize(): the clock times the work", 6.6, True),
    ):
        host = bars["host"] + ([(0.6, 6.0, "synchronize() waits", IDLE)] if wait else [])
        for y, row in enumerate((host, bars["device"])):
            for start, length, text, colour in row:
                box(ax, start, y, length, 0.7, colour, text)
        for x, gap, side in ((0, -0.05, "right"), (stop, 0.05, "left")):
            ax.axvline(x, color=LIMIT, linestyle="--")
            ax.text(x + gap, -0.1, "clock()", color=RED_INK, va="bottom", ha=side)
        ax.set(ylim=(2.15, -0.55), xlim=(-0.8, 7.5), ylabel="who")
        ax.set_yticks([0.35, 1.35], ["host", "device"])
        ax.set_title(title)
        bare(ax)
    axes[1].set(xlabel="time, in no unit (a drawing)", xticks=[])
    figure.caption(
        "A launch puts work into a queue and returns. A timer that does not wait measures how fast the queue takes orders."
    )
    return figure


@on_white
def timers() -> Figure:
    """The same work by wrong timers and a right one: what each would have you believe."""
    found, whose = speeds("pitfalls")
    sheet = gpu.current_or_h200()
    panels = [
        ("matmul", "flops", "TFLOP/s", sheet.bf16_flops or sheet.fp32_flops, "a bf16 product, 8192 × 8192 × 8192"),
        ("add", "bytes", "TB/s", sheet.hbm_bandwidth, "x + y, 2²¹ float32, 24 MiB in all"),
    ]
    figure = Picture(WIDTH, 4)
    for ax, (work, unit, label, limit, title) in zip(figure.subplots(2, 1), panels, strict=True):
        rows = [row for row in found if row["work"] == work]
        values = {row["timer"]: row[unit] / row["seconds"] / TERA for row in rows}
        most = limit / TERA
        least, last = min(values.values()) / 2.5, max([*values.values(), most]) * 4
        ax.axvspan(most, last, color=WASTE, zorder=0, linewidth=0)
        ax.axvline(values["right"], color=OURS, linewidth=1, zorder=0)
        for y, (timer, value) in enumerate(values.items()):
            right = timer == "right"
            ax.plot([values["right"], value], [y, y], color=EDGE, linewidth=1.5, zorder=1)
            ax.plot(value, y, "o" if right else "X", color=OURS if right else WRONG, markersize=9)
            told = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
            off = "" if right else f": {_times(value / values['right'])}"
            place = dict(transform=ax.get_yaxis_transform(), va="center")
            ax.text(1.02, y, f"{told} {label}{off}", fontweight="bold" if right else "normal", **place)
        ax.text(most * 1.08, len(values) - 1, "more than the\ndatasheet's peak", va="center", color=INK)
        ax.set_yticks(range(len(values)), values)
        ax.set(xscale="log", xlabel=label, ylabel="timer", xlim=(least, last), ylim=(len(values) - 0.5, -0.6))
        ax.set_title(f"{title}; {whose}")
        ax.tick_params(axis="y", length=0)
        bare(ax)
    figure.caption(
        "A number on the orange ground is more than such a GPU can do. The other wrong timers are wrong without showing it."
    )
    return figure


def _times(ratio: float) -> str:
    return f"{ratio:.2g} times too fast" if ratio > 1 else f"{1 / ratio:.2g} times too slow"


# ---------------------------------------------------------------------------------------------------------- mystery

BRANCHES = [  # largest power of two that divides N, from and to; name, colour, marker
    (1, 1, "odd", FIVE, "x"),
    (2, 2, "2 × odd", TWO, "s"),
    (4, 4, "4 × odd", THREE, "^"),
    (8, 1 << 20, "multiple of 8", ONE, "o"),
]


@on_white
def mystery_plot() -> Figure:
    """Throughput of N x N x N products in bfloat16 against N."""
    curve, whose = speeds("curve")
    sizes, flops = np.array([p[0] for p in curve["points"]]), np.array([p[1] for p in curve["points"]]) / TERA
    figure = Picture(WIDTH, 5)
    ax = figure.subplots()
    even = sizes & -sizes
    for low, high, name, colour, marker in BRANCHES:
        chosen = (even >= low) & (even <= high)
        ax.plot(
            sizes[chosen],
            flops[chosen],
            marker=marker,
            markersize=5,
            color=colour,
            linewidth=0.7,
            label=f"N is {name}" if name != "multiple of 8" else "N is a multiple of 8",
        )
    ax.set(xlabel="N", ylabel="TFLOP/s", ylim=(0, None), xlim=(0, None))
    ax.legend(frameon=False, loc="upper left")
    ax.grid(alpha=0.3)
    ax.set_title(f"(N, N) @ (N, N), bfloat16, random numbers; {whose}")
    bare(ax)
    figure.caption(
        f"{len(sizes)} sizes, one kind of work. Larger is faster, but not steadily, and sizes that differ by one can "
        f"differ several times in speed. Why is the question of unit 05."
    )
    return figure
