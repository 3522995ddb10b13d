"""Pictures of what a GPU is made of: from a switch to a transformer, its memories, and how they grew apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_lib.figures.start.cards import HBM, TENSOR_CORES, YEARS, lanes, size, transistors, when, whose
from course_lib.hardware import gpu, hierarchy
from course_lib.hardware.measurements import measured
from course_lib.picture import BLUE, GREEN, INK, ORANGE, SKY, Picture, bare, ink_on, on_white


def rungs(card: gpu.GPU) -> list[tuple[str, str, str, str]]:
    """(part, rung, what it is, how many or how large), from the bottom up."""
    billions = transistors(card)
    return [
        (
            "circuits",
            "transistor",
            "a switch: one voltage opens or closes the way for another",
            f"{billions:g} billion" if billions else "",
        ),
        ("circuits", "gate", "a few transistors: out = not (a and b) takes four", ""),
        ("circuits", "flip-flop", "gates that feed each other: they keep one bit until the next tick of the clock", ""),
        (
            "circuits",
            "register",
            "32 bits side by side: one number, where arithmetic can reach it",
            f"{card.registers_per_sm:,} in each SM",
        ),
        (
            "processor",
            "ALU",
            "gates between registers: a multiplication and an addition (FMA) in a cycle",
            f"{lanes(card)} in each SM",
        ),
        (
            "processor",
            "tensor core",
            "many multipliers and adders, wired for one small matrix product: D = A B + C",
            f"{TENSOR_CORES.get(card.architecture, 4)} in each SM",
        ),
        (
            "processor",
            "SM",
            "streaming multiprocessor: schedulers, ALUs, tensor cores, registers, shared memory",
            f"{card.sms} on the GPU",
        ),
        (
            "processor",
            "GPU",
            "the SMs, a cache for all of them (L2), and main memory beside the chip (DRAM)",
            f"{size(card.hbm_bytes)} of memory",
        ),
        (
            "language",
            "ISA",
            "the instructions that this chip understands, as bits. Written out for people: SASS",
            card.architecture,
        ),
        (
            "language",
            "PTX",
            "assembly for no chip in particular; an assembler makes SASS of it, in a cubin file",
            "",
        ),
        (
            "software",
            "CUDA",
            "driver, libraries and a C++ for kernels. Triton, beside it, writes PTX as well",
            "",
        ),
        (
            "software",
            "PyTorch",
            "tensors and gradients; for each operation it calls a kernel that was compiled before",
            "",
        ),
        ("software", "transformer", "matrix products, softmax, sums: one kernel launch after another", ""),
    ]


PARTS = {"circuits": SKY, "processor": BLUE, "language": GREEN, "software": ORANGE}


@on_white
def ladder(card: gpu.GPU | None = None) -> Figure:
    """Draw the ladder from a switch to a transformer: thirteen rungs, each resting on those below."""
    card = card or gpu.current_or_h200()
    figure = Picture(11, 6.2)
    ax = figure.subplots()
    rows = rungs(card)
    for y, (part, name, what, count) in enumerate(rows):
        ax.add_patch(Rectangle((0, y + 0.06), 1.75, 0.88, facecolor=PARTS[part], edgecolor=INK, linewidth=0.8))
        ax.text(
            0.875,
            y + 0.5,
            name,
            ha="center",
            va="center_baseline",
            color=ink_on(PARTS[part]),
            fontsize=10,
            fontweight="bold",
        )
        ax.text(1.9, y + 0.5, what, ha="left", va="center_baseline", fontsize=9.5)
        ax.text(11.2, y + 0.5, count, ha="right", va="center_baseline", fontsize=9.5, fontweight="bold")
    parts = [part for part, *_ in rows]
    for part in PARTS:
        first, last = parts.index(part), len(parts) - parts[::-1].index(part)
        ax.text(-0.2, (first + last) / 2, part, rotation=90, ha="center", va="center", fontsize=10)
        ax.plot([-0.05, -0.05], [first + 0.1, last - 0.1], color=PARTS[part], linewidth=3)
    ax.set(xlim=(-0.4, 11.3), ylim=(0, len(rows)), xticks=[], yticks=[])
    ax.set_xlabel("what a rung is, and how many of it there are")
    ax.set_ylabel("each rests on those below")
    bare(ax, *ax.spines)
    figure.caption(
        f"From a switch (bottom) to a transformer (top). You will write kernels in Triton, beside CUDA, and read the PTX "
        f"and the SASS that they become. Numbers: {whose(card)}."
    )
    return figure


@dataclass(frozen=True)
class Memory:
    """One rung of the memory hierarchy. rate: bytes/s; wait: (cycles, seconds) until an answer. None: not known."""

    name: str
    nbytes: float
    made_of: str
    rate: float | None
    source: str
    wait: tuple[float, float] | None


def memories(card: gpu.GPU) -> list[Memory]:
    """The card's memories from the fastest to the largest. Sizes are the card's; speeds and waits are measured where
    there is a measurement."""
    registers, shared = 4 * card.registers_per_sm, card.shared_bytes_per_sm
    found = hierarchy.of(card)
    known = {name: hierarchy.level(found, name) if found else (None,) * 3 for name in ("L1", "L2", "memory")}
    waits = {name: level[:2] if found else None for name, level in known.items()}
    name = "HBM" if card.architecture in HBM else "GDDR memory"
    rate, source = (known["memory"][2], "measured") if found else (card.hbm_bandwidth, "datasheet")
    return [
        Memory(
            "registers",
            registers * card.sms,
            f"{size(registers)} × {card.sms} SMs",
            8 * card.fp32_flops,  # a multiply-add, two FLOPs, reads three registers and writes one
            "computed",
            tuple(found["fma"]) if found else None,
        ),
        Memory(
            "shared memory, L1",
            shared * card.sms,
            f"{size(shared)} × {card.sms} SMs",
            known["L1"][2],
            "measured",
            waits["L1"],
        ),
        Memory("L2", card.l2_bytes, "one for all SMs", known["L2"][2], "measured", waits["L2"]),
        Memory(name, card.hbm_bytes, "beside the chip", rate, source, waits["memory"]),
    ]


@on_white
def memory_hierarchy(card: gpu.GPU | None = None) -> Figure:
    """Registers, shared memory, L2, HBM: how much, how fast, how long one waits."""
    card = card or gpu.current_or_h200()
    rows = memories(card)
    figure = Picture(11, 3.9)
    axes = figure.subplots(1, 3, sharey=True)
    y = np.arange(len(rows))
    looks = dict(color=[BLUE, GREEN, SKY, ORANGE], edgecolor=INK, linewidth=0.8)

    axes[0].barh(y, [row.nbytes for row in rows], **looks)
    for i, row in enumerate(rows):
        axes[0].text(row.nbytes * 1.3, i, f"{size(row.nbytes)}\n{row.made_of}", va="center", fontsize=8.5)
    axes[0].set(xscale="log", xlim=(1e6, 3e14), xlabel="bytes", title="how much", xticks=[1e6, 1e8, 1e10, 1e12])
    axes[0].set_yticks(y, [row.name for row in rows])
    axes[0].invert_yaxis()

    axes[1].barh(y, [(row.rate or 0) / 1e12 for row in rows], **looks)
    for i, row in enumerate(rows):
        text = f"{row.rate / 1e12:.3g} TB/s\n{row.source}" if row.rate else "not measured"
        axes[1].text((row.rate or 1e11) / 1e12 * 1.15, i, text, va="center", fontsize=8.5)
    axes[1].set(xscale="log", xlim=(0.1, 2e4), xlabel="TB/s, all SMs together", title="how fast")

    waits = [row.wait[0] if row.wait else 0 for row in rows]
    axes[2].barh(y, waits, **looks)
    for i, row in enumerate(rows):
        text = f"{row.wait[0]:.0f} cycles\n{row.wait[1] * 1e9:.3g} ns" if row.wait else "not measured"
        axes[2].text(waits[i] + 0.02 * max(*waits, 500), i, text, va="center", fontsize=8.5)
    axes[2].set(xlim=(0, 1.5 * max(*waits, 500)), xlabel="cycles until an answer", title="how long one waits")
    for ax in axes:
        bare(ax)
    figure.caption(
        f"Each step down is slower and further away, and the last is larger by far. Sizes: {whose(card)}. Speeds and waits: "
        f"{when(hierarchy.of(card))}. The registers' speed is computed: 16 bytes for each multiply-add at the peak rate."
    )
    return figure


@on_white
def working_sets() -> Figure:
    """Wait of one load, and bytes a second of all SMs, by how much memory is gone over again and again: measured on this
    machine's GPU, else as recorded."""
    found = hierarchy.measured_here() or measured("memory_hierarchy")
    figure = Picture(10, 4)
    left, right = figure.subplots(1, 2)
    wait, rate = found["latency"], found["bandwidth"]
    left.plot([n for n, *_ in wait], [c for _, c, _ in wait], color=BLUE, marker="o", markersize=4)
    left.set(xscale="log", ylabel="cycles from one load to the next", ylim=(0, None))
    left.set_title("each load needs what the last one brought", loc="left", fontsize=11)
    right.plot([n for n, _ in rate], [r / 1e12 for _, r in rate], color=ORANGE, marker="s", markersize=4)
    right.set(xscale="log", ylabel="TB/s read by all SMs together", ylim=(0, None))
    right.set_title("everybody reads, past the L1 caches", loc="left", fontsize=11)
    for ax in (left, right):
        ax.axvline(found["l2_bytes"], color=INK, linestyle=":", linewidth=1)
        ax.text(found["l2_bytes"], 0.04, " L2 is full", transform=ax.get_xaxis_transform(), fontsize=9)
        ticks = [1 << k for k in ((12, 16, 20, 24, 28) if ax is left else (20, 23, 26, 29))]
        ax.set_xticks(ticks, [size(t) for t in ticks])
        ax.minorticks_off()
        ax.set_xlabel("working set: bytes gone over again and again")
        ax.grid(alpha=0.3)
        bare(ax)
    figure.caption(
        "A flat piece of a curve is a memory, a step is where it is full. Left: L1, L2, main memory. Right: L2, main "
        f"memory. {found['machine']}, {when(found)}."
    )
    return figure


@on_white
def compute_outgrew_memory() -> Figure:
    """Datasheets of five generations: matrix products and memory bandwidth, and their ratio."""
    cards = [gpu.datasheet(name) for name in YEARS]
    years = list(YEARS.values())
    flops = np.array([card.fp16_flops for card in cards])
    bandwidth = np.array([card.hbm_bandwidth for card in cards])

    figure = Picture(10, 4)
    left, right = figure.subplots(1, 2)
    for values, colour, marker, label in (
        (flops, BLUE, "o", "fp16 matrix products, FLOP/s"),
        (bandwidth, ORANGE, "s", "memory, bytes/s"),
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
    left.legend(fontsize=9, loc="upper left")
    left.grid(alpha=0.3)

    names = [f"{card.name.split()[0]}\n{year}" for card, year in zip(cards, years, strict=True)]
    drawn = right.bar(names, flops / bandwidth, color=GREEN, edgecolor=INK, linewidth=0.8)
    right.bar_label(drawn, [f"{ratio:.0f}" for ratio in flops / bandwidth])
    right.set(xlabel="GPU, year", ylabel="FLOPs for each byte it can move", ylim=(0, 1.15 * max(flops / bandwidth)))
    for ax in (left, right):
        bare(ax)
    figure.caption(
        "What a kernel must compute with each byte, to keep the tensor cores busy, has about doubled. Dense figures from datasheets."
    )
    return figure
