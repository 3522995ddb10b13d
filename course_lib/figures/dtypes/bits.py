"""The bits of the formats side by side, and of one number under switches."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_lib.figures.dtypes.patterns import (
    FORMATS,
    BitFormat,
    gap_above,
    known,
    largest,
    pattern_of,
    short,
    value_of,
)
from course_lib.figures.widgets import Explorer, live
from tritontrace.colours import FIVE, IDLE, INK, ONE, OURS, TWO, paler
from tritontrace.picture import WIDTH, Picture, bare, ink_on, on_white

FULL = {"S": FIVE, "E": TWO, "M": ONE}  # sign, exponent, mantissa
PALE = {field: paler(colour, 0.4) for field, colour in FULL.items()}


def field_of(f: BitFormat, bit: int) -> str:
    """Return S, E or M: the field that the bit belongs to, the highest being bit 0."""
    return "S" if bit == 0 else "E" if bit <= f.exponent else "M"


def _cells(ax, f: BitFormat, y: float, pattern: int | None = None, height: float = 0.8, left: float = 0) -> None:
    """The bits of a format as boxes: S, E and M, or 0 and 1 if there is a pattern."""
    for i in range(f.bits):
        field = field_of(f, i)
        ax.add_patch(Rectangle((left + i, y), 1, height, facecolor=PALE[field], edgecolor=INK, linewidth=0.8))
        text = field if pattern is None else str(pattern >> (f.bits - 1 - i) & 1)
        ax.text(left + i + 0.5, y + height / 2, text, ha="center", va="center_baseline", color=ink_on(PALE[field]))


@on_white
def formats() -> Figure:
    """The bits of the seven formats, side by side, with the largest number and the gap above 1 of each."""
    figure = Picture(WIDTH, 3.8)
    ax = figure.subplots()
    for row, f in enumerate(FORMATS.values()):
        _cells(ax, f, row)
        smallest = value_of(1, f.name)
        for x, number in zip((38.5, 46, 53.5), (largest(f.name), smallest, gap_above(1, f.name)), strict=True):
            ax.text(x, row + 0.4, f"{number:.3g}", ha="right", va="center_baseline", color=INK)
    for x, title in zip((38.5, 46, 53.5), ("largest", "smallest > 0", "gap above 1"), strict=True):
        ax.text(x, -0.3, title, ha="right", color=INK)
    ax.set(xlim=(0, 54), ylim=(len(FORMATS), -0.9), xlabel="bits, the highest first")
    ax.set_yticks([row + 0.4 for row in range(len(FORMATS))], [f"{f.name} ({f.bits} bits)" for f in FORMATS.values()])
    ax.set_xticks([0, 8, 16, 24, 32])
    ax.xaxis.set_label_coords(0.3, -0.1)
    ax.set_title("S: sign.  E: exponent, which sets the range.  M: mantissa, which sets the resolution")
    bare(ax, *ax.spines)
    figure.caption(
        "bf16 is fp32 with 16 mantissa bits cut off, so it has the same range, but coarse steps. fp16 has fewer exponent bits and more "
        "mantissa bits. int8 is a whole number, and its S counts −128."
    )
    return figure


@on_white
def bit_explorer(pattern: int = 0b0_01111_1000000000, format: str = "fp16") -> Figure:
    """The bits of one number, what each field says, and its neighbours. pattern: the bits as a whole number."""
    f = known(format)
    if not 0 <= pattern < 1 << f.bits:
        raise ValueError(f"{format} has {f.bits} bits: a pattern lies between 0 and {(1 << f.bits) - 1}, not {pattern}")
    value = value_of(pattern, format)

    figure = Picture(WIDTH, 3.4)
    top, line = figure.subplots(2, 1, height_ratios=[1.25, 1])
    _cells(top, f, 0, pattern)
    for start, length, label in ((0, 1, "sign"), (1, f.exponent, "exponent"), (1 + f.exponent, f.mantissa, "mantissa")):
        if length:
            label = "value" if format == "int8" and start else label
            top.text(start + length / 2, 1.0, label, ha="center", va="top", color=INK)
    top.text(0, 1.5, _reading(pattern, f, value), fontsize=11, va="top", color=INK)
    top.set(xlim=(-0.2, max(19, f.bits) + 0.2), ylim=(2.0, -0.1), xticks=[], yticks=[])
    top.set_title(f"{format}, pattern 0x{pattern:0{-(-f.bits // 4)}X}")
    bare(top, *top.spines)

    near = _neighbours(pattern, f) if math.isfinite(value) else []
    if near:
        line.axhline(0, color=IDLE, zorder=0)
    for number in near:
        mine = number == value
        line.plot(number, 0, "o" if mine else "|", color=OURS if mine else INK, markersize=11 if mine else 20, zorder=2)
        line.annotate(short(number), (number, 0), (0, 17 if mine else -24), textcoords="offset points", ha="center")
    if not near:
        line.text(0.5, 0.5, "no neighbours: not a finite number", transform=line.transAxes, ha="center", fontsize=10)
    line.set(yticks=[], ylim=(-1, 1), xticks=[], xlabel="the number (dot) and its neighbours in this format")
    line.margins(x=0.08)
    bare(line, *line.spines)
    figure.caption(_gaps(near, value, pattern, f))
    return figure


def _reading(pattern: int, f: BitFormat, value: float) -> str:
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
        return f"{minus}(0 + {short(fraction)}) × 2^{1 - f.bias}  =  {short(value)}   ({kind}exponent field 0)"
    return f"{minus}(1 + {short(fraction)}) × 2^({field} − {f.bias})  =  {short(value)}"


def _neighbours(pattern: int, f: BitFormat) -> list[float]:
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


def _gaps(near: list[float], value: float, pattern: int, f: BitFormat) -> str:
    if not near:
        return "All exponent bits are set. This is not a finite number, but a sign that something overflowed or was not defined."
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
        self.controls = VBox([HBox([self.format, self.number]), HBox(self.bits, layout=Layout(flex_flow="row wrap"))])
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
                bit.layout.border_bottom = f"3px solid {FULL[field_of(f, i)]}"
            self.number.value = value_of(pattern, f.name)
        finally:
            self._setting = False
        self.draw()

    def picture(self) -> Figure:
        return bit_explorer(self.pattern, self.format.value)


def explore_bits() -> BitExplorer | Figure:
    """The picture with switches in a notebook; the picture alone where there is no notebook or no ipywidgets."""
    return BitExplorer() if live() else bit_explorer()
