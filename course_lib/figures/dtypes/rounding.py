"""Pictures of rounding: in a counter, along the number line, in a sum, in a quantized matrix."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import torch
from matplotlib.figure import Figure

from course_lib.figures.dtypes.patterns import FORMATS, gap_above, largest, pattern_of, value_of, values
from tritontrace.colours import EDGE, FIVE, FOUR, IDLE, INK, LIMIT, ONE, OTHERS, OURS, THREE, TWO
from tritontrace.picture import WIDTH, Picture, bare, on_white

LOOKS = {  # one colour, line and marker for a format in every picture
    "fp32": (INK, "-", "o"),
    "tf32": (THREE, "--", "v"),
    "fp16": (ONE, "-", "s"),
    "bf16": (TWO, "-", "D"),
    "e4m3": (FIVE, "-.", "^"),
    "e5m2": (FOUR, ":", "P"),
    "int8": (EDGE, "--", "x"),
}


@lru_cache
def count_by_ones(name: str, additions: int) -> np.ndarray:
    """The counter after each addition of 1, in that format."""
    dtype = FORMATS[name].dtype
    one, counter, seen = torch.ones((), dtype=dtype), torch.zeros((), dtype=dtype), []
    for _ in range(additions):
        following = counter + one
        seen.append(float(following))
        if following == counter:  # it will not move again
            break
        counter = following
    return np.array(seen + [seen[-1]] * (additions - len(seen)))


@on_white
def counting(guess: float = ..., additions: int = 4000) -> Figure:
    """A counter to which 1 is added again and again, in three formats. guess: where fp16 ends; anything else is none."""
    figure = Picture(WIDTH, 3.9)
    ax = figure.subplots()
    ends = {}
    for name in ("fp32", "fp16", "bf16"):
        colour, line, marker = LOOKS[name]
        seen = count_by_ones(name, additions)
        ends[name] = seen[-1]
        ax.plot(range(1, additions + 1), seen, line, color=colour, marker=marker, markevery=additions // 8, label=name)
        ax.annotate(f"{name}: {seen[-1]:,.0f}", (additions, seen[-1]), (8, 0), textcoords="offset points", va="center")
    told = "no guess yet"
    if isinstance(guess, (int, float)) and not isinstance(guess, bool) and math.isfinite(guess):
        ax.plot([0, additions], [guess, guess], color=LIMIT, linestyle=":", linewidth=1.5)
        ax.annotate("your guess", (0, guess), (4, 4), textcoords="offset points", color=LIMIT)
        told = f"you guessed {guess:,.0f}"
    ax.set(xlabel="how often 1 was added", ylabel="the counter", xlim=(0, additions * 1.16), ylim=(0, additions * 1.1))
    ax.set_title(f"counting by ones; {told}")
    bare(ax)
    figure.caption(
        f"fp16 stops at {ends['fp16']:,.0f} and bf16 at {ends['bf16']:,.0f}: from there on, adding 1 changes nothing."
    )
    return figure


@lru_cache
def relative_gaps(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return (powers of two that the format represents, the gap above each divided by it)."""
    powers = 2.0 ** np.arange(-150, 129)
    held = [p for p in powers if p <= largest(name) and value_of(pattern_of(p, name), name) == p]
    return np.array(held), np.array([gap_above(p, name) / p if p < largest(name) / 2 else np.nan for p in held])


@on_white
def range_against_resolution() -> Figure:
    """Draw for each format the sizes that it reaches, and the numbers that it has between 1 and 2."""
    figure = Picture(WIDTH, 3.9)
    reach, ruler = figure.subplots(1, 2, sharey=True, width_ratios=[1.9, 1])
    names = sorted(FORMATS, key=lambda name: (-largest(name), FORMATS[name].bits))
    for y, name in enumerate(names):
        sizes, gaps = relative_gaps(name)
        full = 1.0 if name == "int8" else sizes[np.nanargmin(gaps)]  # below it, subnormals run out of bits
        reach.plot([sizes[0], full], [y, y], color=IDLE, linewidth=9, solid_capstyle="butt")
        reach.plot([full, largest(name)], [y, y], color=OURS, linewidth=9, solid_capstyle="butt")
        count = math.ceil(0.25 / gap_above(1.0, name))
        if count > 64:  # a ruler whose marks touch
            ruler.plot([1, 1.25], [y, y], color=OURS, linewidth=15, solid_capstyle="butt")
        else:
            ruler.vlines(1 + gap_above(1.0, name) * np.arange(count), y - 0.26, y + 0.26, color=OURS, linewidth=1.2)
        ruler.text(1.265, y, f"{count:,}", va="center")
    reach.vlines(1e-8, -0.6, 6.6, color=INK, linewidth=1.4, linestyle=(0, (1, 1.5)))
    reach.text(1e-8, -0.65, "1e-8", ha="center", va="bottom")
    reach.set(
        xscale="log", xlabel="size of a number (grey: with fewer and fewer bits)", xlim=(1e-47, 1e41), ylim=(6.6, -1.3)
    )
    reach.set_xticks([10.0**k for k in range(-40, 41, 20)])
    reach.minorticks_off()
    reach.set_yticks(range(len(names)), names)
    reach.set_title("range: 8 bits of exponent reach furthest")
    ruler.set(xlabel="all numbers from 1 up to 1.25", xlim=(0.995, 1.44), xticks=[1, 1.125, 1.25])
    ruler.set_title("resolution")
    reach.set_ylabel("format")
    for ax in (reach, ruler):
        ax.tick_params(axis="y", length=0)
        bare(ax, "top", "right", "left")
    figure.caption(
        "A long bar means a wide range, and a dense ruler means fine steps. fp16 has the finer steps, bf16 the wider range. 1e-8 lies "
        "on the bar of bf16, but left of that of fp16."
    )
    return figure


@on_white
def rounding_staircase() -> Figure:
    """bf16 between 256 and 264: where each number goes, and what rounding and cutting off do to it."""
    figure = Picture(WIDTH, 4.2)
    left, right = figure.subplots(1, 2)
    x = torch.linspace(256, 264, 801)
    nearest = x.bfloat16().float()
    cut = (x.view(torch.int32) >> 16 << 16).view(torch.float32)
    left.plot(x, nearest, ".", color=OURS, markersize=2.5)
    left.plot(x, x, color=IDLE, zorder=0)
    ties = torch.arange(257.0, 264, 2)
    left.plot(ties, ties.bfloat16().float(), "o", color=TWO, markersize=7, label="ties: halfway between two")
    for tie in ties:
        goes = float(tie.bfloat16())
        shift, side = ((7, -12), "left") if goes < tie else ((0, 8), "center")  # two meet at a number of the format
        left.annotate(f"{tie:.0f} → {goes:.0f}", (tie, goes), shift, textcoords="offset points", ha=side)
    left.set(xlabel="a number", ylabel="what bf16 makes of it", xticks=range(256, 265, 2), yticks=range(256, 265, 2))
    left.set_ylim(255.3, 266)
    left.set_title("round to nearest, ties to even")
    left.legend(loc="upper left")
    for y, colour, style, name in ((nearest, ONE, "-", "nearest"), (cut, TWO, "--", "lower bits cut off")):
        mean = float((y - x)[:-1].mean())
        right.plot(x, y - x, style, color=colour, label=f"{name}: mean error {mean + 0.0:+.2f}".replace("-", "−"))
    right.axhline(0, color=INK, linewidth=0.8)
    right.set(xlabel="a number", ylabel="error", xticks=range(256, 265, 2), ylim=(-2.2, 1.9))
    right.set_title("the error of one rounding")
    right.legend(loc="upper right")
    for ax in (left, right):
        ax.grid(alpha=0.25)
        bare(ax)
    figure.caption(
        "The gap here is 2. So rounding to nearest is off by at most 1, up as often as down. "
        "Cutting off is off by up to 2, and always down."
    )
    return figure


@on_white
def number_lines(upto: float = 16.0) -> Figure:
    """Every number from 0 to `upto` that fits in 8 bits: e4m3, e5m2, and int8 with a scale."""
    figure = Picture(WIDTH, 3)
    ax = figure.subplots()
    rows = [(name, np.unique(values(np.arange(128), name))) for name in ("e4m3", "e5m2")]
    rows.append((f"int8 × {upto:g}/127", np.arange(128) * upto / 127))
    for y, (name, numbers) in enumerate(rows):
        inside = numbers[np.isfinite(numbers) & (numbers <= upto)]
        colour = LOOKS[name.split()[0]][0]
        ax.vlines(inside, y - 0.3, y + 0.3, color=colour if y < 2 else INK, linewidth=1)
        ax.text(upto * 1.01, y, f"{len(inside)} numbers", va="center")
    ax.set_yticks(range(len(rows)), [name for name, _ in rows])
    ax.set(xlim=(-0.1, upto * 1.1), ylim=(len(rows) - 0.5, -0.5), xlabel="value", xticks=np.linspace(0, upto, 9))
    ax.set_title(f"all numbers of 8 bits from 0 to {upto:g}")
    bare(ax, "top", "right", "left")
    figure.caption(
        "Floats crowd near zero, because the gap doubles at each power of two. A scaled int8 has the same gap everywhere."
    )
    return figure


@lru_cache
def running_sums(n: int = 1 << 14) -> dict[str, np.ndarray]:
    """Sums of the first 1, 2, 4, ... of n drawn fp16 numbers between 0 and 1, four ways; "exact" is float64."""
    x = torch.rand(n, generator=torch.Generator().manual_seed(2)).half().numpy()
    lengths = 2 ** np.arange(int(math.log2(n)) + 1)

    def in_pairs(part: np.ndarray) -> float:
        while len(part) > 1:
            part = part[0::2] + part[1::2]  # in fp16
        return float(part[0])

    return {
        "lengths": lengths,
        "exact": np.cumsum(x, dtype=np.float64)[lengths - 1],
        "fp16, one after the other": np.cumsum(x, dtype=np.float16)[lengths - 1].astype(float),
        "fp16, in pairs": np.array([in_pairs(x[:k]) for k in lengths]),
        "fp32 accumulator": np.cumsum(x, dtype=np.float32)[lengths - 1].astype(float),
    }


@on_white
def running_sum() -> Figure:
    """A sum of fp16 numbers that grows, against the exact one; and its relative error."""
    found = running_sums()
    n, exact = found["lengths"], found["exact"]
    ways = {"fp16, one after the other": (FIVE, "s"), "fp16, in pairs": (TWO, "D"), "fp32 accumulator": (ONE, "o")}
    figure = Picture(WIDTH, 4)
    left, right = figure.subplots(1, 2)
    left.plot(n, exact, color=IDLE, linewidth=5, label="exact")
    for name, (colour, marker) in ways.items():
        left.plot(n, found[name], color=colour, marker=marker, markersize=4, label=name)
        error = np.abs(found[name] - exact) / exact
        right.plot(n, np.maximum(error, 2.0**-30), color=colour, marker=marker, markersize=4)
        right.annotate(f"{error[-1]:.2g}", (n[-1], max(error[-1], 2.0**-30)), (6, -3), textcoords="offset points")
    left.set(xlabel="numbers added", ylabel="sum", xticks=range(0, int(n[-1]) + 1, 4096))
    figure.legend(loc="outside upper left", ncols=4, frameon=False)
    right.set_xscale("log", base=2)
    right.set_yscale("log", base=10)
    right.set(xlabel="numbers added", ylabel="relative error (no less than 1e-9 drawn)", ylim=(5e-10, 3))
    for ax in (left, right):
        ax.grid(alpha=0.25)
        bare(ax)
    lost = 1 - found["fp16, one after the other"][-1] / exact[-1]
    figure.caption(
        f"Added one after the other in fp16, {n[-1]:,} numbers lose {lost:.0%} of their sum, because the sum grows only until the next "
        "number is less than half a gap. Adding in pairs helps, and an fp32 accumulator helps most."
    )
    return figure


@on_white
def quantization_error(rows: int = 6, columns: int = 256) -> Figure:
    """A matrix whose rows differ in size, in int8 with one scale for all and with a scale for each row."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(rows, columns, generator=generator) * 4.0 ** -torch.arange(rows)[:, None]
    figure = Picture(WIDTH, 3.8)
    ax = figure.subplots()
    one = x.abs().max() / 127
    each = x.abs().amax(1, keepdim=True) / 127
    kinds = (("one scale for the matrix", one, OTHERS, "//"), ("a scale for each row", each, OURS, ""))
    for i, (name, scale, colour, hatch) in enumerate(kinds):
        error = (((x / scale).round() * scale - x).square().mean(1).sqrt() / x.square().mean(1).sqrt()).numpy()
        bars = ax.bar(
            np.arange(rows) + 0.4 * (i - 0.5), error, 0.38, color=colour, hatch=hatch, edgecolor="white", label=name
        )
        ax.bar_label(bars, [f"{e:.1%}" for e in error])
    ax.set_yscale("log")
    ax.set(ylabel="error / size of the row (rms)", ylim=(2e-3, 6))
    ax.set_xticks(range(rows), [f"row {k}\nmax {float(x[k].abs().max()):.2g}" for k in range(rows)])
    ax.set_xlabel("each row is drawn from numbers a quarter as large as those of the one before it")
    ax.legend(loc="upper left", ncols=2)
    bare(ax)
    figure.caption(
        "One large row sets the step for all rows, and small rows are lost in it. With a step of its own, each row keeps its digits."
    )
    return figure
