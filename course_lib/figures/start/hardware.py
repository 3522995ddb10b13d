"""Pictures of what a GPU is made of: from a switch to a transformer, its memories, and how they grew apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from course_lib.figures.start.gpu_facts import HBM, TENSOR_CORES, YEARS, lanes, size, transistors, when, whose
from course_lib.hardware import hierarchy
from course_lib.hardware.measurements import measured
from tritontrace import gpu
from tritontrace.colours import ALUS, CONTROL, DRAM, EDGE, FAINT, INK, L2, NOW, OURS, REGISTERS, SHARED
from tritontrace.picture import WIDTH, Picture, bare, box, ink_on, on_white


def counts(card: gpu.GPU) -> dict[str, str]:
    """Map each part of a card to how many of it there are, or how large it is, as text."""
    billions = transistors(card)
    return {
        "GPU": f"{size(card.hbm_bytes)} of memory",
        "SM": f"{card.sms} on the GPU",
        "ALU": f"{lanes(card)} in each SM",
        "tensor core": f"{TENSOR_CORES.get(card.architecture, 4)} in each SM",
        "register": f"{card.registers_per_sm:,} in each SM",
        "gate": "4 transistors",
        "transistor": f"{billions:g} billion in all" if billions else "",
    }


SOFTWARE = {  # from the top down
    "transformer": "products of matrices, softmax, sums",
    "PyTorch": "tensors and gradients; calls a kernel for each operation",
    "Triton, CUDA": "languages for kernels, and a driver",
    "PTX": "assembly for no chip in particular",
    "ISA: SASS": "the instructions that this chip understands",
}


@on_white
def ladder(card: gpu.GPU | None = None) -> Figure:
    """Draw the ladder from a transformer to a switch: software above, and the machine below, each part inside the one before it."""
    card = card or gpu.current_or_h200()
    told = counts(card)
    figure = Picture(WIDTH, 6)
    above, below = figure.subplots(2, 1, height_ratios=[1, 1.35])
    for i, (name, what) in enumerate(SOFTWARE.items()):
        y = len(SOFTWARE) - 1 - i
        box(above, 0, y + 0.1, 2.2, 0.8, FAINT, name, 10)
        above.text(2.4, y + 0.5, what, va="center")
        if i:
            above.annotate("", (1.1, y + 0.88), (1.1, y + 1.12), arrowprops={"arrowstyle": "->", "color": INK})
    above.set(xlim=(-0.05, 10), ylim=(0, len(SOFTWARE)))
    above.set_title("software: each is written in the words of the one below it")

    width, gap = 2.2, 0.4
    parts = {"GPU": _gpu, "SM": _sm, "ALU": _alu, "gate": _gate}
    for i, (name, inside) in enumerate(parts.items()):
        x = i * (width + gap)
        chosen = inside(below, x, width)
        below.text(x, -0.12, name, fontsize=10, fontweight="bold", va="top")
        below.text(x, -0.42, told[name], va="top")
        if i + 1 < len(parts):
            left, low, wide, high = chosen
            for there, here in ((low, 0), (low + high, width)):
                below.plot([left + wide, x + width + gap], [there, here], color=EDGE, linewidth=0.7)
    below.text(3 * (width + gap), -0.72, told["transistor"], va="top")
    below.set(xlim=(-0.05, 4 * width + 3 * gap + 0.05), ylim=(-1.15, width + 0.1), aspect="equal")
    below.set_title("hardware: each is a part of the one to its left (yellow)")
    kinds = {
        ALUS: "a part that computes",
        CONTROL: f"tensor core: {told['tensor core']}",
        REGISTERS: f"registers: {told['register']}",
        SHARED: "shared memory, L1",
        L2: "L2, for all SMs",
        DRAM: "memory beside the chip",
    }
    figure.legend(
        handles=[Patch(facecolor=colour, edgecolor=EDGE, label=label) for colour, label in kinds.items()],
        loc="outside upper left",
        ncols=3,
        columnspacing=1,
        frameon=False,
    )
    above.set_ylabel("what is written")
    below.set(ylabel="what it runs on", xlabel="each step to the right: one part, enlarged")
    for ax in (above, below):
        ax.set(xticks=[], yticks=[])
        bare(ax, *ax.spines)
    figure.caption(
        "You will write kernels in Triton, and read the PTX and the SASS that they become. A gate is four transistors. Two gates "
        "that feed each other keep a bit, and a register keeps 32 bits. The drawing is not to scale, and shows fewer parts than there "
        f"are. Numbers: {whose(card)}."
    )
    return figure


DrawnPlace = tuple[float, float, float, float]  # x, y, width, height


def _gpu(ax: Axes, x: float, side: float) -> DrawnPlace:
    """SMs around L2, between two rows of memory."""
    ax.add_patch(Rectangle((x, 0), side, side, facecolor=FAINT, edgecolor=EDGE, linewidth=0.6, zorder=0.5))
    box(ax, x + 0.1, 0.08, side - 0.2, 0.28, DRAM, "memory")
    box(ax, x + 0.1, side / 2 - 0.14, side - 0.2, 0.28, L2, "L2")
    wide = (side - 0.2) / 12
    rows = [0.44 + 0.13 * i for i in range(4)] + [side / 2 + 0.22 + 0.165 * i for i in range(4)]
    for y in rows:
        for column in range(12):
            box(ax, x + 0.1 + column * wide, y, 0.8 * wide, 0.1, ALUS)
    chosen = (x + 0.1 + 11 * wide, rows[-1], 0.8 * wide, 0.1)
    box(ax, *chosen, NOW)
    return chosen


def _sm(ax: Axes, x: float, side: float) -> DrawnPlace:
    """Four quarters, each with a scheduler, registers, lanes and a tensor core, above the memory that they share."""
    ax.add_patch(Rectangle((x, 0), side, side, facecolor=FAINT, edgecolor=EDGE, linewidth=0.6, zorder=0.5))
    box(ax, x + 0.1, 0.08, side - 0.2, 0.28, SHARED, "shared, L1")
    half = (side - 0.3) / 2
    for i in range(4):
        left, low = x + 0.1 + (i % 2) * (half + 0.1), 0.44 + (i // 2) * 0.86
        box(ax, left, low + 0.6, half, 0.16, REGISTERS)
        box(ax, left, low, 0.36 * half, 0.52, CONTROL)
        for lane in range(8):
            box(ax, left + (0.42 + 0.145 * (lane % 4)) * half, low + 0.28 * (lane // 4), 0.12 * half, 0.22, ALUS)
    chosen = (x + 0.1 + half + 0.1 + (0.42 + 0.145 * 3) * half, 0.44 + 0.86 + 0.28, 0.12 * half, 0.22)
    box(ax, *chosen, NOW)
    return chosen


def _alu(ax: Axes, x: float, side: float) -> DrawnPlace:
    """Registers in, an array of gates, a register out."""
    ax.add_patch(Rectangle((x, 0), side, side, facecolor=FAINT, edgecolor=EDGE, linewidth=0.6, zorder=0.5))
    for i, name in enumerate("abc"):
        box(ax, x + 0.1 + 0.7 * i, side - 0.4, 0.6, 0.3, REGISTERS, name)
    box(ax, x + 0.8, 0.1, 0.6, 0.3, REGISTERS, "ab+c")
    for row in range(6):
        for column in range(9):
            box(ax, x + 0.13 + 0.22 * column, 0.52 + 0.2 * row, 0.16, 0.13, ALUS)
    chosen = (x + 0.13 + 0.22 * 8, 0.52 + 0.2 * 5, 0.16, 0.13)
    box(ax, *chosen, NOW)
    return chosen


def _gate(ax: Axes, x: float, side: float) -> DrawnPlace:
    """Four switches: two that join the output to the supply, side by side, and two that join it to ground, in a row."""
    ax.add_patch(Rectangle((x, 0), side, side, facecolor=FAINT, edgecolor=EDGE, linewidth=0.6, zorder=0.5))
    wire = dict(color=INK, linewidth=1.2, zorder=0.9)
    left, middle, right, out = x + 0.6, x + 1.1, x + 1.6, 1.2
    ax.plot([left, right], [side - 0.15] * 2, **wire)
    ax.plot([left, right], [out, out], **wire)
    ax.plot([middle, middle], [0.15, out], **wire)
    for at in (left, right):
        ax.plot([at, at], [out, side - 0.15], **wire)
    ax.plot([right, x + side - 0.12], [out, out], **wire)
    for cx, cy, name in ((left, 1.62, "a"), (right, 1.62, "b"), (middle, 0.85, "a"), (middle, 0.45, "b")):
        box(ax, cx - 0.17, cy - 0.14, 0.34, 0.28, ALUS, name)
    ax.text(x + side - 0.1, out - 0.08, "out", ha="right", va="top")
    return x, 0, side, side


@dataclass(frozen=True)
class MemoryLevel:
    """One rung of the memory hierarchy. rate: bytes/s; wait: (cycles, seconds) until an answer. None: not known."""

    name: str
    nbytes: float
    made_of: str
    rate: float | None
    source: str
    wait: tuple[float, float] | None


def memories(card: gpu.GPU) -> list[MemoryLevel]:
    """List the card's memories from the fastest to the largest. Sizes are the card's; speeds and waits are measured where there is a
    measurement."""
    registers, shared = 4 * card.registers_per_sm, card.shared_bytes_per_sm
    found = hierarchy.of(card)
    known = {name: hierarchy.level(found, name) if found else (None,) * 3 for name in ("L1", "L2", "memory")}
    waits = {name: level[:2] if found else None for name, level in known.items()}
    name = "HBM" if card.architecture in HBM else "GDDR memory"
    rate, source = (known["memory"][2], "measured") if found else (card.hbm_bandwidth, "datasheet")
    return [
        MemoryLevel(
            "registers",
            registers * card.sms,
            f"{size(registers)} × {card.sms} SMs",
            8 * card.fp32_flops,  # a multiply-add, two FLOPs, reads three registers and writes one
            "computed",
            tuple(found["fma"]) if found else None,
        ),
        MemoryLevel(
            "shared memory, L1",
            shared * card.sms,
            f"{size(shared)} × {card.sms} SMs",
            known["L1"][2],
            "measured",
            waits["L1"],
        ),
        MemoryLevel("L2", card.l2_bytes, "one for all SMs", known["L2"][2], "measured", waits["L2"]),
        MemoryLevel(name, card.hbm_bytes, "beside the chip", rate, source, waits["memory"]),
    ]


ARM = 0.7  # metres to a register, if to fetch from one is to stretch out an arm


@on_white
def memory_hierarchy(card: gpu.GPU | None = None) -> Figure:
    """Registers, shared memory, L2, HBM, all to scale: a pipe as long as one waits and as wide as bytes come fast, and at its end
    what holds them, by its area."""
    card = card or gpu.current_or_h200()
    rows = memories(card)
    figure = Picture(WIDTH, 4.6)
    ax = figure.subplots()
    # Waits to scale, in cycles; what is not measured stands where it does on an H200, without a pipe
    at = [row.wait[0] if row.wait else usual for row, usual in zip(rows, (4, 30, 280, 700), strict=True)]
    end = 1.72 * at[-1]
    largest = (end - at[-1], 2.4)  # width and height of the last memory's box
    area, wide = largest[0] * largest[1] / rows[-1].nbytes, 0.9 / max(row.rate or 0 for row in rows)
    for i, (row, x) in enumerate(zip(rows, at, strict=True)):
        y, colour = -i, (REGISTERS, SHARED, L2, DRAM)[i]
        if row.wait and row.rate:
            ax.add_patch(Rectangle((0, y - wide * row.rate / 2), x, wide * row.rate, facecolor=OURS, linewidth=0))
        if row is rows[-1]:
            width, height, low = *largest, y - 0.45
        else:
            width = (area * row.nbytes * largest[0] / largest[1]) ** 0.5
            height, low = width * largest[1] / largest[0], y - width * largest[1] / largest[0] / 2
        ax.add_patch(Rectangle((x, low), width, height, facecolor=colour, linewidth=0))
        told = [
            f"{size(row.nbytes)}: {row.made_of}",
            f"{row.rate / 1e12:.3g} TB/s, {row.source}" if row.rate else "speed: not measured",
            f"{row.wait[0]:.0f} cycles, {row.wait[1] * 1e9:.3g} ns" if row.wait else "wait: not measured",
        ]
        ground = colour if row is rows[-1] else "white"
        ax.text(x + 0.018 * end, low + height / 2, "\n".join(told), va="center", linespacing=1.3, color=ink_on(ground))
    ax.set(xlim=(0, end), ylim=(-len(rows) + 0.5, 0.5))
    ax.set_xlabel("cycles until an answer: the length of a pipe", loc="left")
    ax.set_xticks(np.arange(0, at[-1] + 1, 100))
    ax.set_yticks(-np.arange(len(rows)), [row.name for row in rows])
    ax.tick_params(left=False)
    if rows[0].wait:
        metres = ARM / at[0]
        above = ax.secondary_xaxis("top", functions=(lambda x: x * metres, lambda x: x / metres))
        above.set_xlabel(f"metres, if a register is at arm's length ({ARM} m)", loc="left")
        above.set_xticks(np.arange(0, at[-1] * metres, 20))
        bare(above)
    bare(ax, *ax.spines)
    figure.caption(
        "To scale: the length of each pipe is the wait, its width is the bytes a second of all SMs together, and the area of each box is "
        f"the size. Sizes: {whose(card)}. Speeds and waits: {when(hierarchy.of(card))}. The registers' speed is computed: 16 bytes "
        "for each multiply-add at the peak rate."
    )
    return figure


@on_white
def working_sets() -> Figure:
    """Wait of one load, and bytes a second of all SMs, by how much memory is gone over again and again: measured on this
    machine's GPU, else as recorded."""
    found = hierarchy.measured_here() or measured("memory_hierarchy")
    figure = Picture(WIDTH, 4)
    left, right = figure.subplots(1, 2)
    wait, rate = found["latency"], found["bandwidth"]
    left.plot([n for n, *_ in wait], [c for _, c, _ in wait], color=OURS, marker="o", markersize=4)
    left.set(xscale="log", ylabel="cycles from one load to the next", ylim=(0, None))
    left.set_title("each load needs what the last one brought")
    right.plot([n for n, _ in rate], [r / 1e12 for _, r in rate], color=OURS, marker="s", markersize=4)
    right.set(xscale="log", ylabel="TB/s read by all SMs together", ylim=(0, None))
    right.set_title("everybody reads, past the L1 caches")
    for ax in (left, right):
        ax.axvline(found["l2_bytes"], color=INK, linestyle=":", linewidth=1)
        ax.text(found["l2_bytes"], 0.04, " L2 is full", transform=ax.get_xaxis_transform())
        ticks = [1 << k for k in ((12, 16, 20, 24, 28) if ax is left else (20, 23, 26, 29))]
        ax.set_xticks(ticks, [size(t) for t in ticks])
        ax.minorticks_off()
        ax.set_xlabel("working set: bytes gone over again and again")
        ax.grid(alpha=0.3)
        bare(ax)
    figure.caption(
        "Each flat piece of a curve is one memory, and a step is where this memory is full. Left: L1, L2, main memory. Right: L2, "
        f"main memory. {found['machine']}, {when(found)}."
    )
    return figure


@on_white
def compute_outgrew_memory() -> Figure:
    """Datasheets of five generations: matrix products and memory bandwidth, and their ratio."""
    cards = [gpu.datasheet(name) for name in YEARS]
    years = list(YEARS.values())
    flops = np.array([card.fp16_flops for card in cards])
    bandwidth = np.array([card.hbm_bandwidth for card in cards])

    figure = Picture(WIDTH, 4)
    left, right = figure.subplots(1, 2)
    for values, colour, marker, label in (
        (flops, ALUS, "o", "fp16 matrix products, FLOP/s"),
        (bandwidth, DRAM, "s", "memory, bytes/s"),
    ):
        left.plot(years, values / values[0], color=colour, marker=marker, label=label)
        left.annotate(
            f"× {values[-1] / values[0]:.1f}", (years[-1], values[-1] / values[0]), (6, -3), textcoords="offset points"
        )
    left.set(
        yscale="log", yticks=[1, 2, 5, 10, 20], yticklabels=[1, 2, 5, 10, 20], xlim=(2016.5, 2026.5), ylim=(0.8, 30)
    )
    left.minorticks_off()
    left.set(xlabel="year", ylabel=f"times a {cards[0].name}", xticks=range(2017, 2026, 2))
    left.legend(loc="upper left")
    left.grid(alpha=0.3)

    names = [f"{card.name.split()[0]}\n{year}" for card, year in zip(cards, years, strict=True)]
    drawn = right.bar(names, flops / bandwidth, color=OURS, edgecolor=INK, linewidth=0.8)
    right.bar_label(drawn, [f"{ratio:.0f}" for ratio in flops / bandwidth])
    right.set(xlabel="GPU, year", ylabel="FLOPs for each byte it can move", ylim=(0, 1.15 * max(flops / bandwidth)))
    for ax in (left, right):
        bare(ax)
    figure.caption(
        "To keep the tensor cores of the newest GPU busy, a kernel must do about twice as many FLOPs with each byte as on a V100. The "
        "numbers come from datasheets, for dense matrices."
    )
    return figure
