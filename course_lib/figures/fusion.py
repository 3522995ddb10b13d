"""The pictures of 06_fusion.

Each function returns a matplotlib Figure. What a picture counts is traced when it is drawn; what it cites was recorded on a
GPU that the picture names. Colours are Okabe and Ito's, and none means anything alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import torch
import triton
import triton.language as tl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Patch, Rectangle
from torch.utils._python_dispatch import TorchDispatchMode

from course_lib.figures.widgets import Explorer, live
from course_lib.hardware import inductor
from course_lib.hardware.measurements import measured
from course_lib.workloads.chains import CHAINS, traced_stages
from tritontrace.colours import (
    FOUR,
    IDLE,
    INK,
    LIBRARIES,
    LIMIT,
    ONE,
    OTHERS,
    OURS,
    PART,
    READ,
    RESULT,
    THREE,
    TWO,
    WRITTEN,
)
from tritontrace.picture import WIDTH, Picture, bare, ink_on, on_white
from tritontrace.tracing import trace
from tritontrace.words import plural

# ------------------------------------------------------------------------------------------------------------ chains


def kernels_of(ops: Sequence[Sequence[str]], cuts: Sequence[int]) -> list[int]:
    """Turn cuts into the number of operations of each kernel: 5 operations that are cut after 2 give [2, 3]."""
    inner = sorted(set(cuts))
    if inner and not 1 <= inner[0] <= inner[-1] < len(ops):
        raise ValueError(f"{len(ops)} operations can be cut after 1 to {len(ops) - 1} of them, not after {list(cuts)}")
    edges = [0, *inner, len(ops)]
    return [stop - start for start, stop in itertools.pairwise(edges)]


def _written(op: Sequence[str]) -> str:
    return f"{op[0]} ← {', '.join(op[1:])}"


@on_white
def chain(name: str = "sin² + cos²", cuts: Sequence[int] | None = None) -> Figure:
    """A chain of operations as a factory: kernels above, memory below, an arrow for each tensor that is carried.

    name: of course_lib.workloads.chains.CHAINS; cuts: the numbers of operations after which a kernel ends; None cuts after each.
    """
    if name not in CHAINS:
        raise ValueError(f"there is no chain {name!r}; there are {', '.join(CHAINS)}")
    ops = CHAINS[name]
    fused = kernels_of(ops, range(1, len(ops)) if cuts is None else cuts)
    n, itemsize = 1024, 4
    stages, moved = traced_stages(n, ops, itemsize, fused)

    figure = Picture(WIDTH, 4.0)
    ax = figure.subplots()
    ax.add_patch(Rectangle((0, 0), len(ops), 0.5, facecolor=IDLE, edgecolor=INK))
    ax.text(len(ops) / 2, 0.12, "memory (DRAM)", ha="center", va="center", color=ink_on(IDLE), fontsize=10)
    left = 0
    for number, stage in enumerate(stages, 1):
        width = len(stage.ops)
        box = FancyBboxPatch(
            (left + 0.08, 1.6),
            width - 0.16,
            1.3,
            boxstyle="round,pad=0,rounding_size=0.06",
            facecolor=FOUR,
            edgecolor=INK,
        )
        ax.add_patch(box)
        ax.text(left + width / 2, 2.72, f"kernel {number}", ha="center", va="center", color=ink_on(FOUR), fontsize=10)
        for k, op in enumerate(stage.ops):
            ax.text(left + k + 0.5, 2.2, _written(op), ha="center", va="center", color=ink_on(FOUR))
        carried = [(tensor, True) for tensor in stage.loads] + [(tensor, False) for tensor in stage.stores]
        for k, (tensor, up) in enumerate(carried):
            x = left + width * (k + 0.5) / len(carried)
            foot, head = (0.5, 1.58) if up else (1.6, 0.52)
            style = dict(mutation_scale=14, linewidth=2, color=READ if up else WRITTEN, linestyle="-" if up else "--")
            ax.add_patch(FancyArrowPatch((x, foot), (x, head), arrowstyle="-|>", shrinkA=0, shrinkB=0, **style))
            ax.text(x, 0.34, tensor, ha="center", va="center", color=ink_on(IDLE), fontweight="bold")
        left += width
    ax.set(xlim=(-0.05, len(ops) + 0.05), ylim=(-0.05, 3.0), yticks=[0.25, 2.25])
    ax.set_yticklabels(["tensors", "registers"])
    ax.set_xticks([k + 0.5 for k in range(len(ops))], range(1, len(ops) + 1))
    ax.set_xlabel("operation of the chain")
    ax.tick_params(length=0)
    for side in ax.spines.values():
        side.set_visible(False)
    ax.legend(
        handles=[
            Line2D([], [], color=READ, linewidth=2, label="loaded, upwards (solid)"),
            Line2D([], [], color=WRITTEN, linewidth=2, linestyle="--", label="stored, downwards (dashed)"),
        ],
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=2,
        frameon=False,
    )
    launches = plural(len(stages), "launch", "launches")
    figure.caption(
        f"{name}: {launches}, {moved // (n * itemsize)} tensors moved, {moved / n:.0f} bytes for each float32 element "
        "(traced). A result stays in registers until the end of its kernel."
    )
    return figure


class Chain(Explorer):
    """Controls for chain(): a list of chains, and a switch for each place where the chain can be cut."""

    def __init__(self):
        from ipywidgets import Dropdown, HBox, VBox

        self.name = Dropdown(options=list(CHAINS), description="chain")
        self.switches = HBox([])
        self.controls = VBox([self.name, self.switches])
        self.name.observe(self._choose, names="value")
        self._choose()

    def _choose(self, _change=None) -> None:
        from ipywidgets import ToggleButton

        places = range(1, len(CHAINS[self.name.value]))
        self.switches.children = [
            ToggleButton(
                True,
                description=f"cut after {k}",
                tooltip=f"whether operations {k} and {k + 1} are in one kernel or in two",
                icon="scissors",
            )
            for k in places
        ]
        self.watch(*self.switches.children)
        self.draw()

    @property
    def cuts(self) -> list[int]:
        return [k for k, switch in enumerate(self.switches.children, 1) if switch.value]

    def picture(self) -> Figure:
        return chain(self.name.value, self.cuts)


def explore_chain() -> Chain | Figure:
    """The picture with switches in a notebook; the picture alone where there is no notebook or no ipywidgets."""
    return Chain() if live() else chain()


# ---------------------------------------------------------------------------------------------------- five against one


class _ElementCounter(TorchDispatchMode):
    """Record (operation, elements read and written) of each of torch's operations."""

    def __init__(self):
        super().__init__()
        self.found: list[tuple[str, int]] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        tensors = [t for t in [*args, *(out if isinstance(out, tuple) else [out])] if isinstance(t, torch.Tensor)]
        self.found.append((function._schema.name.removeprefix("aten::"), sum(t.numel() for t in tensors)))
        return out


def moved_by_torch(function: Callable, *arguments: torch.Tensor) -> list[tuple[str, int]]:
    """List (operation, elements read and written) for each operation that torch runs in the call."""
    with _ElementCounter() as moved:
        function(*arguments)
    return moved.found


@on_white
def five_against_one(guess: float = ...) -> Figure:
    """sin(x)**2 + cos(y)**2: tensors carried by torch's operations and by one kernel, and on a GPU the milliseconds.

    guess: how many times longer torch takes; anything that is not a number is no guess.
    """
    n = 1 << 12
    eager = sum(elements for _, elements in moved_by_torch(inductor.sin2_plus_cos2, torch.ones(n), torch.ones(n))) // n
    rows = [("elements carried for each result (counted)", [eager, 3], "{:.0f}")]
    free = measured("fusion")["chain_ms"]
    machine = measured("fusion")["machine"]
    rows.append(
        (f"milliseconds for {free['n']:,} float32 ({machine}, recorded)", [free["eager"], free["fused"]], "{:.2f} ms")
    )
    figure = Picture(WIDTH, 4.2)
    for ax, (label, values, form) in zip(figure.subplots(2, 1), rows, strict=True):
        drawn = ax.barh(
            ["torch, 5 kernels", "one kernel"], values, color=[LIBRARIES, OURS], hatch=["//", ""], edgecolor="white"
        )
        ax.bar_label(drawn, [form.format(v) for v in values], padding=4)
        ax.invert_yaxis()
        ax.set(xlabel=label, xlim=(0, 1.2 * max(values)))
        ax.set_title(f"torch / one kernel = {values[0] / values[1]:.2f}")
        bare(ax)
    said = f"you guessed {guess:g} times" if isinstance(guess, (int, float)) else "no guess yet"
    figure.caption(f"The time depends on the number of elements moved, and hardly on the arithmetic ({said}).")
    return figure


# --------------------------------------------------------------------------------------------------- free operations


@on_white
def free_operations() -> Figure:
    """Time of one kernel that reads a vector, does k multiply-adds to each element, and writes it: recorded on a GPU."""
    found = measured("fusion")
    free = found["free"]
    steps, ms, floor = free["operations"], free["ms"], free["copy_ms"]
    figure = Picture(WIDTH, 3.8)
    ax = figure.subplots()
    ax.plot(steps, ms, "o-", color=OURS)
    ax.axhline(floor, color=INK, linestyle=":")
    one_by_one = [k * floor for k in steps if k * floor <= 4 * max(ms)]
    ax.plot(steps[: len(one_by_one)], one_by_one, "s--", color=OTHERS)
    several = (steps[len(one_by_one) - 1], one_by_one[-1])
    for said, at, offset, side in (
        ("one fused kernel", (steps[-1], ms[-1]), (-8, 2), "right"),
        ("a copy of the same bytes", (steps[-1], floor), (0, -12), "right"),
        ("k kernels of one operation each (k copies)", several, (9, -3), "left"),
    ):
        ax.annotate(said, at, offset, textcoords="offset points", ha=side)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xticks(steps, steps)
    ticks = [t for t in (0.1, 0.2, 0.5, 1, 2, 5, 10) if min(ms) / 2 <= t <= 5 * max(ms)]
    ax.set_yticks(ticks, ticks)
    ax.minorticks_off()
    ax.set_ylim(min(ms) / 2, 5 * max(ms))
    ax.set(xlabel="operations on each element (multiply-adds)", ylabel=f"milliseconds, {free['n']:,} float32")
    ax.grid(alpha=0.3)
    ax.set_title(f"{found['machine']}, recorded {found['date']}")
    bare(ax)
    last = max(k for k, t in zip(steps, ms, strict=True) if t <= 1.1 * floor)
    figure.caption(
        f"Up to {last} operations for each element take no longer than none: memory is busy, and the arithmetic units wait. Beyond that, "
        "each operation costs the time of its arithmetic. Fusing still saves bytes, but they take an ever smaller share of the time."
    )
    return figure


# ----------------------------------------------------------------------------------------------------------- softmax


@triton.jit
def three_passes(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    """A softmax that reads its row for the maximum, for the sum, and for the result."""
    row, m, l = tl.program_id(0), -float("inf"), 0.0
    for start in range(0, N, BLOCK):
        x = tl.load(x_ptr + row * N + start + tl.arange(0, BLOCK))
        m = tl.maximum(m, tl.max(x, axis=0))
    for start in range(0, N, BLOCK):
        x = tl.load(x_ptr + row * N + start + tl.arange(0, BLOCK))
        l += tl.sum(tl.exp(x - m), axis=0)
    for start in range(0, N, BLOCK):
        x = tl.load(x_ptr + row * N + start + tl.arange(0, BLOCK))
        tl.store(out_ptr + row * N + start + tl.arange(0, BLOCK), tl.exp(x - m) / l)


def by_hand(x: torch.Tensor) -> torch.Tensor:
    """Compute a softmax by five operations of torch."""
    shifted = x - x.amax(1, keepdim=True)
    p = shifted.exp()
    return p / p.sum(1, keepdim=True)


@lru_cache
def softmax_elements(M: int = 16, N: int = 2048) -> dict[str, list[tuple[str, float]]]:
    """Count, for each way to compute a softmax, (pass, elements read and written in units of M x N)."""
    x = torch.randn(M, N)
    torch_ops = [(name, elements / x.numel()) for name, elements in moved_by_torch(by_hand, x)]
    with trace() as t:
        three_passes[(M,)](x, torch.empty_like(x), N, BLOCK=512)
    three = t.bytes / x.nbytes
    return {
        "five operations": torch_ops,
        "one kernel, three passes": [("max", 1.0), ("sum", 1.0), ("result", three - 2)],
    }


@on_white
def softmax_passes() -> Figure:
    """Draw the traffic of a softmax: five operations of torch, one kernel that reads its row three times, and the least
    possible."""
    counted = softmax_elements()
    counted = counted | {"the least possible": [("once in, once out", 2.0)]}
    colours = [ONE, TWO, THREE, FOUR, IDLE]
    figure = Picture(WIDTH, 3.4)
    ax = figure.subplots()
    for y, passes in enumerate(counted.values()):
        left = 0.0
        for k, (name, amount) in enumerate(passes):
            ax.barh(y, amount, left=left, color=colours[k], edgecolor="white")
            if amount > 0.5:
                ax.text(
                    left + amount / 2, y, f"{name}\n{amount:.3g}", ha="center", va="center", color=ink_on(colours[k])
                )
            left += amount
        ax.text(left + 0.08, y, f"{left:.2f}", va="center", color=INK, fontweight="bold")
    ax.set_yticks(range(len(counted)), list(counted))
    ax.invert_yaxis()
    ax.set(xlim=(0, 9.2), xlabel="elements read and written / elements of x (counted)")
    bare(ax)
    figure.caption(
        "A single kernel does not store intermediate results. If it keeps the row in registers, it also reads the row only once. The "
        "exercise asks for such a kernel, with a total of 2."
    )
    return figure


def online_states(row: Sequence[float], block: int) -> list[tuple[float, float, float]]:
    """Return (m, l, alpha) after each block of a row: the running maximum and sum, and the factor that corrected the sum before."""
    m, l, found = -math.inf, 0.0, []
    for start in range(0, len(row), block):
        part = row[start : start + block]
        m_new = max(m, *part) if len(part) > 1 else max(m, part[0])
        alpha = math.exp(m - m_new) if m > -math.inf else 1.0
        l = l * alpha + sum(math.exp(v - m_new) for v in part)
        m = m_new
        found.append((m, l, alpha))
    return found


@on_white
def online_steps(block: int = 8) -> Figure:
    """The online softmax on one row of 48 values: the running maximum, and the sum with its corrections."""
    g = torch.Generator().manual_seed(6)
    row = (torch.randn(48, generator=g) + torch.linspace(0, 4, 48)).tolist()
    states = online_states(row, block)
    ends = [min(len(row), (k + 1) * block) for k in range(len(states))]
    starts = [0, *ends[:-1]]

    figure = Picture(WIDTH, 5.8)
    top, bottom = figure.subplots(2, 1, sharex=True)
    top.vlines([i + 0.5 for i in range(len(row))], min(row) - 0.3, row, color=FOUR, linewidth=4)
    top.plot([i + 0.5 for i in range(len(row))], row, "o", color=ONE, markersize=4, label="x")
    for k, (start, end, (m, _, _)) in enumerate(zip(starts, ends, states, strict=True)):
        top.hlines(m, start, end, color=LIMIT, linewidth=2.5, label="m, the largest so far" if k == 0 else None)
    top.set(ylabel="value", ylim=(min(row) - 0.3, max(row) + 0.6))
    top.legend(loc="upper left", ncols=2)

    before = 0.0
    for start, end, (_, l, alpha) in zip(starts, ends, states, strict=True):
        kept = before * alpha
        bottom.bar((start + end) / 2, kept, 0.7 * block, color=PART, hatch="//", edgecolor="white")
        bottom.bar((start + end) / 2, l - kept, 0.7 * block, bottom=kept, color=RESULT, edgecolor="white")
        bottom.text((start + end) / 2, l + 0.25, f"l = {l:.2f}", ha="center", color=INK)
        if start:
            bottom.text((start + end) / 2, l + 1.25, f"old l × {alpha:.2f}", ha="center", color=INK)
        before = l
    bottom.set(
        ylim=(0, 1.45 * max(l for _, l, _ in states)),
        ylabel="l: sum of exp(x - m)",
        xlabel="position in the row",
        xlim=(0, len(row)),
    )
    bottom.set_xticks([0, *ends])
    bottom.legend(
        handles=[
            Patch(facecolor=PART, hatch="//", edgecolor="white", label="what is left of the old sum"),
            Patch(facecolor=RESULT, label="what this block adds"),
        ],
        loc="upper left",
        ncols=2,
    )
    for ax in (top, bottom):
        bare(ax)
    exact = sum(math.exp(v - max(row)) for v in row)
    figure.caption(
        f"Where the maximum grows, the old sum is multiplied by alpha = exp(m - m_new). The last l is {states[-1][1]:.4f}; "
        f"two passes over the row give {exact:.4f}."
    )
    return figure


# ------------------------------------------------------------------------------------------------------------ speeds


@on_white
def speeds(operations: Sequence[str] = ("softmax", "rmsnorm", "add_rmsnorm", "cross_entropy")) -> Figure:
    """Speed against a copy of the needed bytes, by row length: torch, torch.compile and this unit's solutions; recorded."""
    found = measured("fusion")
    ways = {
        "eager": ("torch", LIBRARIES, "s", "--"),
        "compile": ("torch.compile", THREE, "^", "-."),
        "solution": ("this unit's solution", OURS, "o", "-"),
    }
    figure = Picture(WIDTH, 5.6)
    axes = figure.subplots(2, 2, sharex=True, sharey=True).flat
    for ax, operation in zip(axes, operations, strict=True):
        table = found["speeds"][operation]
        for way, (label, colour, marker, line) in ways.items():
            ax.plot(table["N"], table[way], marker=marker, linestyle=line, color=colour, label=label)
        ax.axhline(1, color=INK, linewidth=0.8, linestyle=":")
        ax.set_xscale("log", base=2)
        ax.set_xticks(table["N"], [f"{n // 1024}k" for n in table["N"]])
        ax.minorticks_off()
        ax.set_title(operation)
        ax.grid(alpha=0.3)
        ax.set_ylim(0, 1.1)
        bare(ax)
    for ax in figure.axes[2:]:
        ax.set_xlabel("length of a row, elements")
    for ax in figure.axes[::2]:
        ax.set_ylabel("speed / copy")
    figure.axes[0].legend(loc="lower left")
    figure.caption(
        f"float32, {found['machine']}, torch {found['torch']}, {found['date']}. 1 is a device-to-device copy of the bytes that the "
        "operation must move. A kernel below 1 moves more bytes than these, or waits."
    )
    return figure
