"""The pictures of 02_dtypes.

Each function returns a matplotlib Figure. Values come from torch's own casts and views of bits; experiments run when a
picture is drawn, with fixed seeds, and are kept. Colours are Okabe and Ito's; a letter, a marker or a hatch says the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_lib.picture import BLUE, GREEN, GREY, INK, ORANGE, RED, SKY, Picture, bare, on_white
from course_lib.threads import one_thread
from course_lib.widgets import Explorer, live


@dataclass(frozen=True)
class Format:
    """exponent + mantissa bits and a sign. tf32 lives in registers of tensor cores alone: torch has no dtype for it, so
    its patterns are read as the upper 19 bits of a float32."""

    name: str
    exponent: int
    mantissa: int
    dtype: torch.dtype
    integers: torch.dtype  # of as many bits, to look at patterns

    @property
    def bits(self) -> int:
        return 1 + self.exponent + self.mantissa

    @property
    def unused(self) -> int:
        """Lower bits of `dtype` that the format does not have: 13 for tf32."""
        return 8 * self.dtype.itemsize - self.bits

    @property
    def bias(self) -> int:
        return 2 ** (self.exponent - 1) - 1


FORMATS = {
    f.name: f
    for f in (
        Format("fp32", 8, 23, torch.float32, torch.int32),
        Format("tf32", 8, 10, torch.float32, torch.int32),
        Format("fp16", 5, 10, torch.float16, torch.int16),
        Format("bf16", 8, 7, torch.bfloat16, torch.int16),
        Format("e4m3", 4, 3, torch.float8_e4m3fn, torch.int8),
        Format("e5m2", 5, 2, torch.float8_e5m2, torch.int8),
        Format("int8", 0, 7, torch.int8, torch.int8),
    )
}
LOOKS = {  # one colour, line and marker for a format in every picture
    "fp32": (INK, "-", "o"),
    "tf32": (GREEN, "--", "v"),
    "fp16": (BLUE, "-", "s"),
    "bf16": (ORANGE, "-", "D"),
    "e4m3": (RED, "-.", "^"),
    "e5m2": (SKY, ":", "P"),
    "int8": ("#777777", "--", "x"),
}
PALE = {"S": "#E8A47C", "E": "#FBE3B1", "M": "#BBD9EE"}  # sign, exponent, mantissa
FULL = {"S": RED, "E": ORANGE, "M": BLUE}  # the same, for lines


def _format(name: str) -> Format:
    if name not in FORMATS:
        raise ValueError(f"format is {name!r}; these figures draw {', '.join(FORMATS)}")
    return FORMATS[name]


def values(patterns: np.ndarray | list[int] | int, name: str) -> np.ndarray:
    """The numbers that these bit patterns stand for (float64), as torch reads them."""
    f = _format(name)
    shifted = torch.as_tensor(patterns, dtype=torch.int64) << f.unused
    width = 8 * f.integers.itemsize
    signed = torch.where(shifted >= 1 << (width - 1), shifted - (1 << width), shifted)  # as a signed integer holds them
    return signed.to(f.integers).view(f.dtype).double().numpy()


def value_of(pattern: int, name: str) -> float:
    return float(values([pattern], name)[0])


def pattern_of(number: float, name: str) -> int:
    """The bit pattern of the number nearest to `number`, as torch casts it; int8 stops at -128 and 127."""
    f = _format(name)
    if name == "int8":
        number = 0 if math.isnan(number) else max(-128, min(127, round(max(-1e3, min(1e3, number)))))
    pattern = int(torch.tensor([number]).to(f.dtype).view(f.integers)[0]) & (1 << 8 * f.integers.itemsize) - 1
    below = pattern >> f.unused
    if name != "tf32" or not math.isfinite(number):
        return below
    return min((below, below + 1), key=lambda p: (abs(value_of(p, name) - number), p % 2))  # the nearer, then the even


def largest(name: str) -> float:
    every = values(np.arange(1 << min(FORMATS[name].bits - 1, 16)), name) if FORMATS[name].bits <= 16 else None
    if every is not None:
        return float(np.max(every[np.isfinite(every)]))
    return value_of((1 << FORMATS[name].bits - 1) - (1 << FORMATS[name].mantissa) - 1, name)


def gap_above(number: float, name: str) -> float:
    """From the format's number nearest to |number| to the next larger one."""
    pattern = pattern_of(abs(number), name)
    return value_of(pattern + 1, name) - value_of(pattern, name)


def _short(number: float) -> str:
    return f"{number:.7g}"


# ------------------------------------------------------------------------------------------------------------ formats


def _field(f: Format, bit: int) -> str:
    """S, E or M: what the bit belongs to, the highest being bit 0."""
    return "S" if bit == 0 else "E" if bit <= f.exponent else "M"


def _cells(ax, f: Format, y: float, pattern: int | None = None, height: float = 0.8, left: float = 0) -> None:
    """The bits of a format as boxes: S, E and M, or 0 and 1 if there is a pattern."""
    for i in range(f.bits):
        field = _field(f, i)
        ax.add_patch(Rectangle((left + i, y), 1, height, facecolor=PALE[field], edgecolor=INK, linewidth=0.8))
        text = field if pattern is None else str(pattern >> (f.bits - 1 - i) & 1)
        ax.text(left + i + 0.5, y + height / 2, text, ha="center", va="center_baseline", fontsize=9, color=INK)


@on_white
def formats() -> Figure:
    """The bits of the seven formats, side by side, with the largest number and the gap above 1 of each."""
    figure = Picture(10, 3.8)
    ax = figure.subplots()
    for row, f in enumerate(FORMATS.values()):
        _cells(ax, f, row)
        smallest = value_of(1, f.name)
        for x, number in zip((37, 42, 47.5), (largest(f.name), smallest, gap_above(1, f.name)), strict=True):
            ax.text(x, row + 0.4, f"{number:.3g}", fontsize=9, ha="right", va="center_baseline", color=INK)
    for x, title in zip((37, 42, 47.5), ("largest", "smallest > 0", "gap above 1"), strict=True):
        ax.text(x, -0.3, title, fontsize=9, ha="right", color=INK)
    ax.set(xlim=(0, 48), ylim=(len(FORMATS), -0.9), xlabel="bits, the highest first")
    ax.set_yticks(
        [row + 0.4 for row in range(len(FORMATS))],
        [f"{f.name} ({f.bits} bits)" for f in FORMATS.values()],
    )
    ax.set_xticks([0, 8, 16, 24, 32])
    ax.xaxis.set_label_coords(0.33, -0.1)
    ax.set_title(
        "S: sign.  E: exponent, which sets the range.  M: mantissa, which sets the resolution", fontsize=11, loc="left"
    )
    bare(ax, *ax.spines)
    figure.caption(
        "bf16 is fp32 with 16 mantissa bits cut off: the same range, coarse steps. fp16 spends its bits the other way. "
        "int8 is a whole number: its S counts −128."
    )
    return figure


# -------------------------------------------------------------------------------------------------------- bit explorer


@on_white
def bit_explorer(pattern: int = 0b0_01111_1000000000, format: str = "fp16") -> Figure:
    """The bits of one number, what each field says, and its neighbours. pattern: the bits as a whole number."""
    f = _format(format)
    if not 0 <= pattern < 1 << f.bits:
        raise ValueError(f"{format} has {f.bits} bits: a pattern lies between 0 and {(1 << f.bits) - 1}, not {pattern}")
    value = value_of(pattern, format)

    figure = Picture(9, 3.4)
    top, line = figure.subplots(2, 1, height_ratios=[1.25, 1])
    _cells(top, f, 0, pattern)
    for start, length, label in ((0, 1, "sign"), (1, f.exponent, "exponent"), (1 + f.exponent, f.mantissa, "mantissa")):
        if length:
            label = "value" if format == "int8" and start else label
            top.text(start + length / 2, 1.0, label, ha="center", va="top", fontsize=9, color=INK)
    top.text(0, 1.5, _reading(pattern, f, value), fontsize=11, va="top", color=INK)
    top.set(xlim=(-0.2, max(19, f.bits) + 0.2), ylim=(2.0, -0.1), xticks=[], yticks=[])
    top.set_title(f"{format}, pattern 0x{pattern:0{-(-f.bits // 4)}X}", fontsize=11, loc="left")
    bare(top, *top.spines)

    near = _neighbours(pattern, f) if math.isfinite(value) else []
    if near:
        line.axhline(0, color=GREY, zorder=0)
    for number in near:
        mine = number == value
        line.plot(number, 0, "o" if mine else "|", color=BLUE if mine else INK, markersize=11 if mine else 20, zorder=2)
        line.annotate(
            _short(number), (number, 0), (0, 17 if mine else -24), textcoords="offset points", ha="center", fontsize=8
        )
    if not near:
        line.text(0.5, 0.5, "no neighbours: not a finite number", transform=line.transAxes, ha="center", fontsize=10)
    line.set(yticks=[], ylim=(-1, 1), xticks=[], xlabel="the number (dot) and its neighbours in this format")
    line.margins(x=0.08)
    bare(line, *line.spines)
    figure.caption(_gaps(near, value, pattern, f))
    return figure


def _reading(pattern: int, f: Format, value: float) -> str:
    """The formula that the fields spell, in words where they mean something special."""
    if f.name == "int8":
        return f"two's complement: {value:.0f}"
    sign, field = pattern >> f.bits - 1, pattern >> f.mantissa & (1 << f.exponent) - 1
    fraction = (pattern & (1 << f.mantissa) - 1) / (1 << f.mantissa)
    minus = "−" if sign else ""
    if not math.isfinite(value):
        return f"{minus}infinity" if math.isinf(value) else "NaN: not a number"
    if field == 0:
        kind = "subnormal, " if fraction else ""
        return f"{minus}(0 + {_short(fraction)}) × 2^{1 - f.bias}  =  {_short(value)}   ({kind}exponent field 0)"
    return f"{minus}(1 + {_short(fraction)}) × 2^({field} − {f.bias})  =  {_short(value)}"


def _neighbours(pattern: int, f: Format) -> list[float]:
    """The finite numbers up to two patterns away, in order. One more pattern is one step away from zero."""
    if f.name == "int8":
        value = value_of(pattern, f.name)
        return [v for v in value + np.arange(-2, 3) if -128 <= v <= 127]
    sign, magnitude, half = pattern >> f.bits - 1, pattern & (1 << f.bits - 1) - 1, 1 << f.bits - 1
    found = []
    for step in range(-2, 3):
        m = magnitude + step  # below zero the other sign begins
        p = m | sign * half if m >= 0 else -m | (1 - sign) * half
        if 0 <= abs(m) < half:
            found.append(value_of(p, f.name))
    return sorted({v for v in found if math.isfinite(v)})


def _gaps(near: list[float], value: float, pattern: int, f: Format) -> str:
    if not near:
        return "All exponent bits set: no number, but a sign that something overflowed or was not defined."
    at = near.index(value)
    below = f"{value - near[at - 1]:.3g} below" if at else ""
    above = f"{near[at + 1] - value:.3g} above" if at + 1 < len(near) else "nothing finite above"
    return f"The gap to the next number is {', '.join(filter(None, [below, above]))}: what falls between is rounded."


class BitExplorer(Explorer):
    """Switches for the bits of a number, a field to type one, and a choice of format, over bit_explorer."""

    def __init__(self, number: float = 1.5, format: str = "fp16"):
        from ipywidgets import Dropdown, FloatText, HBox, Layout, ToggleButton, VBox

        self.format = Dropdown(options=list(FORMATS), value=format, description="format")
        self.number = FloatText(value=number, description="number", continuous_update=False)
        self.bits = [ToggleButton(description="0", layout=Layout(width="26px", padding="0")) for _ in range(32)]
        self.controls = VBox(
            [HBox([self.format, self.number]), HBox(self.bits, layout=Layout(flex_flow="row wrap"))],
        )
        self._setting = False  # whether the controls are being set by us
        self._show_number()
        self.format.observe(self._show_number, names="value")
        self.number.observe(self._show_number, names="value")
        for bit in self.bits:
            bit.observe(self._show_bits, names="value")

    @property
    def pattern(self) -> int:
        f = FORMATS[self.format.value]
        return sum(bit.value << f.bits - 1 - i for i, bit in enumerate(self.bits[: f.bits]))

    def _show_number(self, _change=None) -> None:
        """Switches follow the number, in the chosen format."""
        if not self._setting:
            self._set(pattern_of(self.number.value, self.format.value))

    def _show_bits(self, _change=None) -> None:
        """The number follows the switches."""
        if not self._setting:
            self._set(self.pattern)

    def _set(self, pattern: int) -> None:
        f, self._setting = FORMATS[self.format.value], True
        try:
            for i, bit in enumerate(self.bits):
                bit.layout.display = None if i < f.bits else "none"
                bit.value = i < f.bits and bool(pattern >> f.bits - 1 - i & 1)
                bit.description = str(int(bit.value))
                bit.layout.border_bottom = f"3px solid {FULL[_field(f, i)]}"
            self.number.value = value_of(pattern, f.name)
        finally:
            self._setting = False
        self.draw()

    def picture(self) -> Figure:
        return bit_explorer(self.pattern, self.format.value)


def bit_explorer_widget() -> BitExplorer | Figure:
    """The picture with switches in a notebook; the picture alone where there is no notebook or no ipywidgets."""
    return BitExplorer() if live() else bit_explorer()


# ------------------------------------------------------------------------------------------------------------ counting


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
    figure = Picture(9, 3.9)
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
        ax.plot([0, additions], [guess, guess], color=RED, linestyle=":", linewidth=1.5)
        ax.annotate("your guess", (0, guess), (4, 4), textcoords="offset points", color=RED)
        told = f"you guessed {guess:,.0f}"
    ax.set(xlabel="how often 1 was added", ylabel="the counter", xlim=(0, additions * 1.16), ylim=(0, additions * 1.1))
    ax.set_title(f"counting by ones; {told}", fontsize=11, loc="left")
    bare(ax)
    figure.caption(
        f"fp16 stops at {ends['fp16']:,.0f} and bf16 at {ends['bf16']:,.0f}: from there on, adding 1 changes nothing."
    )
    return figure


# ------------------------------------------------------------------------------------------------- range, resolution


@lru_cache
def relative_gaps(name: str) -> tuple[np.ndarray, np.ndarray]:
    """(powers of two that the format holds, the gap above each divided by it)."""
    powers = 2.0 ** np.arange(-150, 129)
    held = [p for p in powers if p <= largest(name) and value_of(pattern_of(p, name), name) == p]
    return np.array(held), np.array([gap_above(p, name) / p if p < largest(name) / 2 else np.nan for p in held])


@on_white
def range_against_resolution() -> Figure:
    """For each format, how far apart neighbouring numbers are, relative to their size, over all sizes."""
    figure = Picture(9.5, 4.6)
    ax = figure.subplots()
    for name in FORMATS:
        x, gaps = relative_gaps(name)
        known = np.isfinite(gaps)
        gaps = np.where(known, gaps, gaps[known][-1])  # the last power of two: as the one before it
        if name == "int8":
            gaps = 1 / x
        colour, line, marker = LOOKS[name]
        ends = np.array([0, len(x) - 1])
        ax.plot(x, gaps, line, color=colour, linewidth=2)
        ax.plot(
            x[ends],
            gaps[ends],
            marker,
            color=colour,
            linestyle="none",
            label=f"{name}, {x[0]:.1g} to {largest(name):.3g}",
        )
    ax.axvline(1e-8, color=INK, linewidth=0.8, linestyle=(0, (1, 2)))
    ax.annotate("1e-8", (1e-8, 3), ha="center", fontsize=9)
    ax.set_xscale("log")
    ax.set_yscale("log", base=2)
    ax.set(
        xlabel="size of the number",
        ylabel="gap to the next number / number",
        ylim=(2.0**-25, 8),
        yticks=[2.0**-k for k in (0, 3, 7, 10, 15, 23)],
    )
    ax.set_xlim(1e-47, 1e41)
    ax.set_xticks([10.0**k for k in range(-40, 41, 10)])
    ax.minorticks_off()
    ax.grid(alpha=0.25)
    ax.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    bare(ax)
    figure.caption(
        "Length is range, depth is resolution. fp16 is deep and short, bf16 long and shallow. Lines rise on the left where "
        "subnormals run out of bits. 1e-8 lies on bf16's line and not on fp16's."
    )
    return figure


# ------------------------------------------------------------------------------------------------------------ rounding


@on_white
def rounding_staircase() -> Figure:
    """bf16 between 256 and 264: where each number goes, and what rounding and cutting off do to it."""
    figure = Picture(9, 4.2)
    left, right = figure.subplots(1, 2)
    x = torch.linspace(256, 264, 801)
    nearest = x.bfloat16().float()
    cut = (x.view(torch.int32) >> 16 << 16).view(torch.float32)
    left.plot(x, nearest, ".", color=BLUE, markersize=2.5)
    left.plot(x, x, color=GREY, zorder=0)
    ties = torch.arange(257.0, 264, 2)
    left.plot(ties, ties.bfloat16().float(), "o", color=RED, markersize=7, label="ties: halfway between two")
    for tie in ties:
        goes = float(tie.bfloat16())
        left.annotate(f"{tie:.0f} → {goes:.0f}", (tie, goes), (6, -11), textcoords="offset points", fontsize=8)
    left.set(xlabel="a number", ylabel="what bf16 makes of it", xticks=range(256, 265, 2), yticks=range(256, 265, 2))
    left.set_ylim(255.3, 265.5)
    left.set_title("round to nearest, ties to even", fontsize=11)
    left.legend(fontsize=8, loc="upper left")
    for y, colour, style, name in ((nearest, BLUE, "-", "nearest"), (cut, ORANGE, "--", "lower bits cut off")):
        mean = float((y - x)[:-1].mean())
        right.plot(x, y - x, style, color=colour, label=f"{name}: mean error {mean + 0.0:+.2f}".replace("-", "−"))
    right.axhline(0, color=INK, linewidth=0.8)
    right.set(xlabel="a number", ylabel="error", xticks=range(256, 265, 2), ylim=(-2.2, 1.9))
    right.set_title("the error of one rounding", fontsize=11)
    right.legend(fontsize=8, loc="upper right")
    for ax in (left, right):
        ax.grid(alpha=0.25)
        bare(ax)
    figure.caption(
        "The gap here is 2, so rounding errs by at most 1, up as often as down; cutting off errs by up to 2, always down."
    )
    return figure


@on_white
def number_lines(upto: float = 16.0) -> Figure:
    """Every number from 0 to `upto` that fits in 8 bits: e4m3, e5m2, and int8 with a scale."""
    figure = Picture(9.5, 3)
    ax = figure.subplots()
    rows = [(name, np.unique(values(np.arange(128), name))) for name in ("e4m3", "e5m2")]
    rows.append((f"int8 × {upto:g}/127", np.arange(128) * upto / 127))
    for y, (name, numbers) in enumerate(rows):
        inside = numbers[np.isfinite(numbers) & (numbers <= upto)]
        colour = LOOKS[name.split()[0]][0]
        ax.vlines(inside, y - 0.3, y + 0.3, color=colour if y < 2 else INK, linewidth=1)
        ax.text(upto * 1.01, y, f"{len(inside)} numbers", va="center", fontsize=9)
    ax.set_yticks(range(len(rows)), [name for name, _ in rows])
    ax.set(xlim=(-0.1, upto * 1.1), ylim=(len(rows) - 0.5, -0.5), xlabel="value", xticks=np.linspace(0, upto, 9))
    ax.set_title(f"all numbers of 8 bits from 0 to {upto:g}", fontsize=11, loc="left")
    bare(ax, "top", "right", "left")
    figure.caption(
        "Floats crowd near zero: the gap doubles at each power of two. A scaled int8 has the same gap everywhere."
    )
    return figure


# ---------------------------------------------------------------------------------------------------------------- sums


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
    ways = {
        "fp16, one after the other": (RED, "s"),
        "fp16, in pairs": (ORANGE, "D"),
        "fp32 accumulator": (BLUE, "o"),
    }
    figure = Picture(9, 4)
    left, right = figure.subplots(1, 2)
    left.plot(n, exact, color=GREY, linewidth=5, label="exact")
    for name, (colour, marker) in ways.items():
        left.plot(n, found[name], color=colour, marker=marker, markersize=4, label=name)
        error = np.abs(found[name] - exact) / exact
        right.plot(n, np.maximum(error, 2.0**-30), color=colour, marker=marker, markersize=4)
        right.annotate(
            f"{error[-1]:.2g}", (n[-1], max(error[-1], 2.0**-30)), (6, -3), textcoords="offset points", fontsize=9
        )
    left.set(xlabel="numbers added", ylabel="sum", xticks=range(0, int(n[-1]) + 1, 4096))
    left.legend(fontsize=8, loc="upper left")
    right.set_xscale("log", base=2)
    right.set_yscale("log", base=10)
    right.set(xlabel="numbers added", ylabel="relative error (no less than 1e-9 drawn)", ylim=(5e-10, 3))
    for ax in (left, right):
        ax.grid(alpha=0.25)
        bare(ax)
    lost = 1 - found["fp16, one after the other"][-1] / exact[-1]
    figure.caption(
        f"Added one after the other in fp16, {n[-1]:,} numbers lose {lost:.0%} of their sum: it grows until the next number "
        "is less than half a gap. Pairs help, and an fp32 accumulator helps most."
    )
    return figure


# ------------------------------------------------------------------------------------------------------------ training


WAYS = ("fp32", "bf16", "bf16, fp32 master weights")


@lru_cache
def training_runs(steps: int = 400, rate: float = 0.003, every: int = 10) -> dict[str, dict[str, list[float]]]:
    """A net of 16 -> 32 -> 1 learns a drawn net of the same shape, by plain gradient descent, three ways.

    Per way: "step", "loss" (of the weights, in float64, every `every` steps) and "moved", the share of weights that the
    step changed.
    """
    with one_thread():
        return {way: _train(way, steps, rate, every) for way in WAYS}


def _train(way: str, steps: int, rate: float, every: int) -> dict[str, list[float]]:
    generator = torch.Generator().manual_seed(2)
    draw = lambda *shape: torch.randn(*shape, generator=generator)  # noqa: E731
    x, teacher = draw(512, 16), (draw(16, 32) / 4, draw(32, 1) / 32**0.5)
    y = torch.tanh(x @ teacher[0]) @ teacher[1]
    low = torch.float32 if way == "fp32" else torch.bfloat16
    stored = low if way == "bf16" else torch.float32  # the copy of the weights that steps are added to
    weights = [(draw(16, 32) / 4).to(stored), (draw(32, 1) / 32**0.5).to(stored)]
    found: dict[str, list[float]] = {"step": [], "loss": [], "moved": []}
    for step in range(steps):
        batch = torch.randint(0, len(x), (128,), generator=generator)
        used = [w.to(low).requires_grad_() for w in weights]
        out = torch.tanh(x[batch].to(low) @ used[0]) @ used[1]
        ((out.float() - y[batch]) ** 2).mean().backward()
        with torch.no_grad():
            stepped = [w - rate * u.grad.to(stored) for w, u in zip(weights, used, strict=True)]
            moved = sum(int((a != b).sum()) for a, b in zip(weights, stepped, strict=True))
            weights = stepped
            if step % every == 0 or step == steps - 1:
                exact = torch.tanh(x.double() @ weights[0].double()) @ weights[1].double()
                found["step"].append(step + 1)
                found["loss"].append(float(((exact - y) ** 2).mean()))
                found["moved"].append(moved / sum(w.numel() for w in weights))
    return found


@on_white
def training_run() -> Figure:
    """The loss of three runs that differ in their dtypes alone, and the share of weights that each step changes."""
    runs = training_runs()
    looks = dict(zip(WAYS, ((INK, "-", "o"), (RED, "--", "s"), (BLUE, "-", "D")), strict=True))
    figure = Picture(9.5, 4)
    left, right = figure.subplots(1, 2)
    for way, (colour, line, marker) in looks.items():
        run = runs[way]
        wide = 5 if way == "fp32" else 1.8  # the repaired run lies on it
        shade = GREY if way == "fp32" else colour
        style = dict(
            color=shade, linestyle=line, marker=marker, markersize=wide + 2, markevery=5, linewidth=wide, label=way
        )
        left.plot(run["step"], run["loss"], **style)
        right.plot(run["step"], run["moved"], **style)
    left.set_yscale("log")
    left.set_yticks([0.1, 0.2, 0.5], ["0.1", "0.2", "0.5"])
    left.minorticks_off()
    left.set(xlabel="step", ylabel="loss (of these weights, computed in fp64)")
    right.set(xlabel="step", ylabel="share of weights that a step changes", ylim=(0, 1.05))
    left.legend(fontsize=8)
    for ax in (left, right):
        ax.grid(alpha=0.25)
        bare(ax)
    ends = [runs[way]["loss"][-1] for way in WAYS]
    figure.caption(
        f"Pure bf16 ends at a loss of {ends[1]:.3f}, fp32 at {ends[0]:.3f}: most steps are less than half a gap of their "
        f"weight and change nothing. With fp32 master weights bf16 ends at {ends[2]:.3f}."
    )
    return figure


@lru_cache
def gradients() -> np.ndarray:
    """|gradient| of every weight of a drawn net of eight layers, for a loss averaged over 64 examples; zeros left out."""
    generator = torch.Generator().manual_seed(5)
    draw = lambda *shape: torch.randn(*shape, generator=generator)  # noqa: E731
    with one_thread():
        weights = [(draw(64, 64) * 0.03).requires_grad_() for _ in range(8)]
        h = draw(64, 64)
        for w in weights:
            h = torch.tanh(h @ w)
        (h - draw(64, 64)).square().mean().backward()
        found = torch.cat([w.grad.flatten() for w in weights]).abs().numpy().astype(np.float64)
    return found[found > 0]


def share_lost(scale: float) -> float:
    """The share of `gradients()` that become zero in fp16 when the loss is multiplied by `scale`."""
    return float((torch.tensor(gradients() * scale).half() == 0).double().mean())


LOSS_SCALE = 2.0**16  # where torch.amp.GradScaler begins


@on_white
def loss_scaling(scale: float = LOSS_SCALE) -> Figure:
    """How large gradients are, and what of them fp16 can hold, without and with a scaled loss."""
    figure = Picture(9, 4.4)
    axes = figure.subplots(2, 1, sharex=True, sharey=True)
    bins = np.arange(-44, 23)
    for ax, factor, name in zip(axes, (1.0, scale), ("loss", f"loss × {scale:,.0f}"), strict=True):
        sizes = np.log2(gradients() * factor)
        ax.axvspan(-44, -25, facecolor="#F3D9CC", hatch="//", edgecolor="white", linewidth=0)
        ax.axvspan(-25, -14, facecolor="#FBF1DC", linewidth=0)
        ax.axvspan(16, 22, facecolor="#F3D9CC", hatch="//", edgecolor="white", linewidth=0)
        ax.hist(sizes, bins=bins, color=BLUE, edgecolor="white")
        ax.set_title(f"gradients of {name}: {share_lost(factor):.1%} become 0 in fp16", fontsize=11, loc="left")
        ax.set_ylabel("gradients")
        bare(ax)
    for x, zone in ((-43.5, "fp16: 0"), (-24.5, "fp16: subnormal"), (-1, "fp16: normal"), (16.3, "fp16: ∞")):
        for ax in axes:
            ax.annotate(zone, (x, 0.85), xycoords=("data", "axes fraction"), fontsize=9)
    axes[1].set(xticks=range(-40, 21, 8), xlabel="size of the gradient", ylim=(0, 1.25 * axes[1].get_ylim()[1]))
    axes[1].set_xticklabels([f"$2^{{{k}}}$" for k in range(-40, 21, 8)])
    figure.caption("Scaling the loss moves every gradient to the right, out of the zone that fp16 rounds to zero.")
    return figure


SCALED_WAYS = {  # name -> (dtype that the net computes in, factor on the loss)
    "fp32": (torch.float32, 1.0),
    "fp16": (torch.float16, 1.0),
    f"fp16, loss × {LOSS_SCALE:,.0f}": (torch.float16, LOSS_SCALE),
    "bf16": (torch.bfloat16, 1.0),
}


@lru_cache
def scaled_runs(steps: int = 400, rate: float = 0.0003) -> dict[str, dict[str, list[float]]]:
    """A net of three layers of 64 learns to give small numbers, about 0.003, with Adam and fp32 master weights, four ways.

    Per way: "loss" of the batch before each step, over that of answering 0; "zero", the share of gradients that are 0.
    """
    with one_thread():
        return {way: _train_scaled(dtype, scale, steps, rate) for way, (dtype, scale) in SCALED_WAYS.items()}


def _train_scaled(low: torch.dtype, scale: float, steps: int, rate: float) -> dict[str, list[float]]:
    generator = torch.Generator().manual_seed(2)
    draw = lambda *shape: torch.randn(*shape, generator=generator)  # noqa: E731
    size = 0.003
    x, teacher = draw(1024, 64), (draw(64, 64) / 8, draw(64, 64) / 8)
    y = torch.tanh(x @ teacher[0]) @ teacher[1] * size
    weights = [(draw(64, 64) * 0.1 * f).requires_grad_() for f in (1, 1, size)]  # the last layer gives small numbers
    adam = torch.optim.Adam(weights, lr=rate, eps=1e-12)  # its usual eps, 1e-8, is larger than these gradients
    found: dict[str, list[float]] = {"loss": [], "zero": []}
    for _ in range(steps):
        batch = torch.randint(0, len(x), (256,), generator=generator)
        used = [w.detach().to(low, copy=True).requires_grad_() for w in weights]
        h = torch.tanh(torch.tanh(x[batch].to(low) @ used[0]) @ used[1])
        loss = ((h @ used[2]).float() - y[batch]).square().mean()
        (loss * scale).backward()
        for w, u in zip(weights, used, strict=True):
            w.grad = u.grad.float() / scale  # in fp32, where the quotient is no smaller than it may be
        adam.step()
        zeros = sum(int((w.grad == 0).sum()) for w in weights)
        found["loss"].append(float(loss.detach() / y.square().mean()))
        found["zero"].append(zeros / sum(w.numel() for w in weights))
    return found


@on_white
def fp16_training() -> Figure:
    """The loss of four runs that differ in dtype and in the factor on the loss, and the share of gradients that are 0."""
    runs = scaled_runs()
    looks = dict(zip(runs, ((INK, "-", "o"), (RED, "--", "s"), (BLUE, "-", "D"), (ORANGE, ":", "^")), strict=True))
    figure = Picture(9.5, 4)
    left, right = figure.subplots(1, 2)
    for way, (colour, line, marker) in looks.items():
        wide = 6 if way == "fp32" else 2  # the others lie on it
        style = dict(
            color=GREY if way == "fp32" else colour, linestyle=line, marker=marker, linewidth=wide, markersize=wide + 3,
            markevery=(60 * list(looks).index(way) // 4, 60), label=way,
        )  # fmt: skip
        left.plot(runs[way]["loss"], **style)
        right.plot(runs[way]["zero"], **style)
    left.set_yscale("log")
    left.set_yticks([0.1, 0.2, 0.5, 1, 2], ["0.1", "0.2", "0.5", "1", "2"])
    left.minorticks_off()
    left.set(xlabel="step", ylabel="loss / loss of a net that answers 0")
    right.set(xlabel="step", ylabel="share of gradients that are 0", ylim=(-0.05, 1.05))
    left.legend(fontsize=8, loc="upper right")
    for ax in (left, right):
        ax.grid(alpha=0.25)
        bare(ax)
    plain, lost, scaled, bf16 = (run["loss"][-1] for run in runs.values())
    figure.caption(
        f"In fp16 {runs['fp16']['zero'][-1]:.0%} of the gradients are 0 and the loss stays at {lost:.2f}. With a scaled loss it "
        f"falls to {scaled:.3f}, as in fp32 ({plain:.3f}). bf16 needs no scale ({bf16:.3f})."
    )
    return figure


# -------------------------------------------------------------------------------------------------------- quantization


@on_white
def quantization_error(rows: int = 6, columns: int = 256) -> Figure:
    """A matrix whose rows differ in size, in int8 with one scale for all and with a scale for each row."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(rows, columns, generator=generator) * 4.0 ** -torch.arange(rows)[:, None]
    figure = Picture(9, 3.8)
    ax = figure.subplots()
    one = x.abs().max() / 127
    each = x.abs().amax(1, keepdim=True) / 127
    kinds = (("one scale for the matrix", one, RED, "//"), ("a scale for each row", each, BLUE, ""))
    for i, (name, scale, colour, hatch) in enumerate(kinds):
        error = (((x / scale).round() * scale - x).square().mean(1).sqrt() / x.square().mean(1).sqrt()).numpy()
        bars = ax.bar(
            np.arange(rows) + 0.4 * (i - 0.5), error, 0.38, color=colour, hatch=hatch, edgecolor="white", label=name
        )
        ax.bar_label(bars, [f"{e:.1%}" for e in error], fontsize=8)
    ax.set_yscale("log")
    ax.set(ylabel="error / size of the row (rms)", ylim=(2e-3, 6))
    ax.set_xticks(range(rows), [f"row {k}\nmax {float(x[k].abs().max()):.2g}" for k in range(rows)])
    ax.set_xlabel("each row is drawn from numbers a quarter as large as those of the one before it")
    ax.legend(fontsize=9, loc="upper left", ncols=2)
    bare(ax)
    figure.caption(
        "One large row sets the step for all, and small rows drown in it. With a step of its own, each row keeps its digits."
    )
    return figure
