"""The pictures of 00_start_here.

Each function returns a matplotlib Figure. Sizes and speeds are those of the machine's own GPU where there is one, else of an
H200 as its datasheet has it, and each picture says which. Colours are Okabe and Ito's, and none means anything alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from course_lib import gpu, hierarchy
from course_lib.exercises.start import issue
from course_lib.picture import BLUE, GREEN, GREY, INK, ORANGE, RED, SKY, Picture, bare, ink_on, on_white
from course_lib.widgets import Sliders, live

# Of one SM, from NVIDIA's architecture whitepapers: fp32 lanes and tensor cores.
LANES = {"sm_70": 64, "sm_75": 64, "sm_80": 64}  # 128 elsewhere
TENSOR_CORES = {"sm_70": 8, "sm_75": 8}  # 4 elsewhere
TRANSISTORS = {  # billions, of the chip on that card, whole: V100 GV100, T4 TU104, A100 GA100, L4 AD104, ...
    "V100": 21.1,
    "T4": 13.6,
    "A100": 54.2,
    "A10G": 28.3,
    "L4": 35.8,
    "L40S": 76.3,
    "H100": 80,
    "H200": 80,
    "B200": 208,
    "3090": 28.3,
    "4090": 76.3,
    "5090": 92.2,
}
HBM = ("sm_70", "sm_80", "sm_90", "sm_100")  # the others have GDDR memory: DRAM, too, with fewer wires

YEARS = {"V100": 2017, "A100 40GB": 2020, "H100 SXM": 2022, "H200": 2024, "B200": 2025}  # in which each was first sold


def lanes(card: gpu.GPU) -> int:
    """fp32 lanes of one SM: multiply-adds that it starts in a cycle."""
    return LANES.get(card.architecture, 128)


def clock(card: gpu.GPU) -> float:
    """Cycles a second at which the datasheet's fp32 figure holds: 2 FLOPs a lane and cycle."""
    return card.fp32_flops / (2 * card.sms * lanes(card))


def transistors(card: gpu.GPU) -> float | None:
    """Billions, or None for a card that is not listed."""
    words = re.split(r"[^A-Z0-9]+", card.name.upper())
    return next((billions for model, billions in TRANSISTORS.items() if model in words), None)


def _whose(card: gpu.GPU) -> str:
    return f"{card.name}, this machine's" if card.measured else f"NVIDIA's, for an {card.name} (there is no GPU here)"


def _when(found: dict | None) -> str:
    """Where measurements come from."""
    if not found:
        return "not measured"
    return "measured here" if found is hierarchy.measured_here() else f"recorded on {found['date']}"


def size(count: float) -> str:
    """Bytes for people: 256 KiB, 33 MiB, 141 GB."""
    for unit, scale in (("GB", 1e9), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count:g} B"


# -------------------------------------------------------------------------------------------------------- one or many


def _from(first: int, sizes: Sequence[int]) -> str:
    """Where a curve measured at `sizes` was crossed, if `first` is the first size behind the crossing."""
    before = sizes.index(first) - 1
    return f"from somewhere between {sizes[before]:,} and {first:,}" if before >= 0 else f"from {first:,}"


@on_white
def one_or_many(guess: float = ...) -> Figure:
    """x + 1 for 1 to 16 777 216 floats: the CPU timed here; the GPU timed here too, or as recorded on an H200.

    guess: from how many elements on the GPU wins; ..., or anything else that is not a number, is no guess.
    """
    sizes = hierarchy.ADD_ONE
    cpu = [seconds for _, seconds in hierarchy.add_one_seconds(sizes, "cpu")]
    if torch.cuda.is_available():
        other, label = hierarchy.add_one_seconds(sizes, "cuda"), f"{torch.cuda.get_device_name()}, timed here"
    else:
        kept = hierarchy.recorded()
        other, label = (kept["add_one"], f"an {kept['machine']}, {_when(kept)}") if kept else ([], "no GPU")
    other = [seconds for _, seconds in other]

    figure = Picture(9, 4.2)
    ax = figure.subplots()
    ax.plot(sizes, np.array(cpu) * 1e6, color=ORANGE, marker="o", label="one core of this machine's CPU, timed here")
    ax.plot(sizes[: len(other)], np.array(other) * 1e6, color=BLUE, marker="s", linestyle="--", label=label)
    ax.set(xscale="log", yscale="log", xlabel="n, elements of x (float32)", ylabel="until x + 1 is there, microseconds")
    pairs = list(zip(sizes, cpu, other, strict=False))
    wins = [pairs[i][0] for i in range(len(pairs)) if all(b < a for _, a, b in pairs[i:])]
    if isinstance(guess, (int, float, np.number)) and guess > 0:
        ax.axvline(guess, color=INK, linestyle=":", linewidth=1)
        ax.text(guess, 0.97, f" your guess: {guess:,.0f}", transform=ax.get_xaxis_transform(), va="top", fontsize=9)
    said = f"the GPU wins {_from(wins[0], sizes)} elements on" if wins else "the GPU never wins in this range"
    if other and cpu[-1] > other[-1]:
        said += f"\nwith {sizes[-1]:,} it takes 1 / {cpu[-1] / other[-1]:.0f} of the time"
    ax.set_title(said, loc="left", fontsize=11)
    ax.legend(fontsize=9, loc="upper left", bbox_to_anchor=(0, 0.9))
    ax.grid(alpha=0.3)
    bare(ax)
    figure.caption(
        "Left: one element costs the GPU as much as ten thousand, since asking is what takes the time. "
        "Right: the GPU moves many more bytes a second."
    )
    return figure


# -------------------------------------------------------------------------------------------------------------- ladder


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
    """From a switch to a transformer: thirteen rungs, each resting on those below."""
    card = card or gpu.assumed()
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
        f"and the SASS that they become. Numbers: {_whose(card)}."
    )
    return figure


# ------------------------------------------------------------------------------------------------------ hiding latency


@on_white
def hiding_latency(warps: int = 4, latency: int = 400, work: int = 40) -> Figure:
    """One scheduler and its warps. Each warp issues `work` cycles of instructions, waits `latency` cycles for memory, and
    so on: simulated, cycle by cycle."""
    cycles = 1500
    slots = issue(warps, latency, work, cycles)
    period = max(latency + work, warps * work)
    later = issue(warps, latency, work, 5 * period)[-period:]  # settled
    busy = np.count_nonzero(later >= 0) / later.size

    figure = Picture(9, 2.2 + 0.22 * max(warps, 4))
    ax = figure.subplots()
    for warp in range(warps):
        ax.add_patch(Rectangle((0, warp + 0.12), cycles, 0.76, facecolor="white", edgecolor=GREY, hatch="////", lw=0.4))
        for start, stop in _runs(slots == warp):
            ax.add_patch(Rectangle((start, warp + 0.12), stop - start, 0.76, facecolor=BLUE, edgecolor=BLUE, lw=0.4))
    for start, stop in _runs(slots >= 0):
        ax.add_patch(Rectangle((start, warps + 0.4), stop - start, 1, facecolor=ORANGE, edgecolor=ORANGE, lw=0.4))
    ax.add_patch(Rectangle((0, warps + 0.4), cycles, 1, fill=False, edgecolor=INK, lw=0.8))
    ax.set(xlim=(0, cycles), ylim=(warps + 1.5, -0.1), xlabel="time, cycles")
    names = (
        [f"warp {w}" for w in range(warps)] if warps <= 8 else [f"warp {w}" if w % 4 == 0 else "" for w in range(warps)]
    )
    ax.set_yticks([*(np.arange(warps) + 0.5), warps + 0.9], [*names, "the ALUs"])
    ax.tick_params(axis="y", length=0)
    ax.set_title(f"{warps} warps: {work} cycles of work, {latency} of waiting", loc="left", fontsize=11)
    ax.legend(
        handles=[
            Patch(color=BLUE, label="works"),
            Patch(facecolor="white", edgecolor="#A0A0A0", hatch="////", label="waits"),
            Patch(color=ORANGE, label="ALUs work"),
        ],
        ncols=3,
        fontsize=9,
        frameon=False,
        loc="lower right",
        bbox_to_anchor=(1, 0.99),
    )
    bare(ax)
    figure.caption(
        f"The ALUs are at work in {busy:.0%} of the cycles. No warp waits a cycle less when there are more of them."
    )
    return figure


def _runs(on: np.ndarray) -> list[tuple[int, int]]:
    """(start, stop) of each run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], on.astype(np.int8), [0]))))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def hiding_latency_widget() -> Sliders | Figure:
    """The picture with sliders in a notebook; the picture alone elsewhere."""
    if not live():
        return hiding_latency()
    from ipywidgets import IntSlider

    return Sliders(
        hiding_latency,
        warps=IntSlider(4, 1, 16, description="warps", continuous_update=False),
        latency=IntSlider(400, 20, 800, 20, description="wait", continuous_update=False),
        work=IntSlider(40, 10, 100, 10, description="work", continuous_update=False),
    )


# ------------------------------------------------------------------------------------------------------------ hierarchy


@on_white
def thread_hierarchy(card: gpu.GPU | None = None) -> Figure:
    """A launch of 12 programs, one of its programs, one of its warps; and what runs each."""
    card = card or gpu.assumed()
    figure = Picture(9, 5.4)
    grid, program, warp = figure.subplots(3, 1)
    for p in range(12):
        chosen = p == 5
        grid.add_patch(Rectangle((p, 0), 0.92, 1, facecolor=ORANGE if chosen else "white", edgecolor=INK))
        grid.text(p + 0.46, 0.5, f"program\n{p}", ha="center", va="center", fontsize=9)
    program.add_patch(
        Rectangle((-0.05, -0.05), 12, 1.1, facecolor=ORANGE)
    )  # what the chosen one of the row above is made of
    warp.add_patch(Rectangle((-0.05, -0.05), 12.02, 1.1, facecolor=SKY))
    for w in range(4):
        program.add_patch(Rectangle((3 * w, 0), 2.9, 1, facecolor=SKY if w == 2 else "white", edgecolor=INK))
        program.text(
            3 * w + 1.45, 0.5, f"warp {w}: threads {32 * w} to {32 * w + 31}", ha="center", va="center", fontsize=9
        )
    for lane in range(32):
        x = 12 * lane / 32
        warp.add_patch(Rectangle((x, 0), 0.34, 1, facecolor="white", edgecolor=INK))
        warp.text(x + 0.17, 0.5, lane, ha="center", va="center", fontsize=8)
    titles = (
        f"the GRID of kernel[(12,)](...): 12 programs, dealt out to the GPU's {card.sms} SMs in any order",
        "one PROGRAM, here 5 (CUDA: block), with 4 warps: 128 threads. It stays on ONE SM, and its warps share memory there",
        "one WARP, here 2: 32 threads, or lanes, that execute the same instruction together. Each has registers of its own",
    )
    for ax, title in zip((grid, program, warp), titles, strict=True):
        ax.set(xlim=(-0.05, 12), ylim=(1.05, -0.05), xticks=[], yticks=[])
        ax.set_title(title, loc="left", fontsize=10)
        bare(ax, *ax.spines)
    for ax, label in ((grid, "GPU"), (program, "SM"), (warp, "lanes")):
        ax.set_ylabel(label)
    warp.set_xlabel("number of the lane")
    figure.caption(
        "You choose the grid and write what one program does with its blocks; the compiler deals a block out to lanes."
    )
    return figure


@on_white
def programs_over_elements(n: int = 10, block: int = 4) -> Figure:
    """ceil(n / block) programs, a block of positions each: which element each position has, and which are masked."""
    if n < 1 or block < 1:
        raise ValueError(f"n and block count elements, from 1 on: got n = {n}, block = {block}")
    programs = len(range(0, n, block))
    figure = Picture(9, 1.5 + 0.36 * programs)
    ax = figure.subplots()
    for p in range(programs):
        for position in range(block):
            i = p * block + position
            inside = i < n
            style = dict(facecolor=SKY) if inside else dict(facecolor="white", hatch="////")
            ax.add_patch(
                Rectangle((position, p), 0.94, 0.9, edgecolor=INK if inside else "#A0A0A0", linewidth=0.8, **style)
            )
            if block <= 32 and inside:
                ax.text(
                    position + 0.47, p + 0.45, i, ha="center", va="center_baseline", fontsize=9 if block <= 16 else 7
                )
    ax.set(xlim=(-0.1, block), ylim=(programs, -0.1), xlabel="position in the block: tl.arange(0, BLOCK)")
    ax.set_xticks(np.arange(block) + 0.47, range(block), fontsize=8)
    ax.set_yticks(np.arange(programs) + 0.45, [f"program {p}" for p in range(programs)], fontsize=9)
    ax.tick_params(length=0)
    ax.set_title(
        f"n = {n}, BLOCK = {block}; the number in a box is i = program * BLOCK + position", loc="left", fontsize=11
    )
    bare(ax, *ax.spines)
    masked = programs * block - n
    figure.caption(
        f"{programs} program{'s' * (programs > 1)} × {block} = {programs * block} positions for {n} element{'s' * (n > 1)}: "
        f"{masked} hatched, where i < n is false and the mask is off."
    )
    return figure


def programs_over_elements_widget() -> Sliders | Figure:
    """The picture with sliders in a notebook; the picture alone elsewhere."""
    if not live():
        return programs_over_elements()
    from ipywidgets import IntSlider, SelectionSlider

    return Sliders(
        programs_over_elements,
        n=IntSlider(10, 1, 64, description="n", continuous_update=False),
        block=SelectionSlider(options=[4, 8, 16, 32], value=4, description="BLOCK", continuous_update=False),
    )


# ---------------------------------------------------------------------------------------------------------- memories


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
    """From the fastest to the largest. Sizes are the card's; speeds and waits are measured, where there is a measurement."""
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
    card = card or gpu.assumed()
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
        f"Each step down is slower and further away, and the last is larger by far. Sizes: {_whose(card)}. Speeds and waits: "
        f"{_when(hierarchy.of(card))}. The registers' speed is computed: 16 bytes for each multiply-add at the peak rate."
    )
    return figure


@on_white
def working_sets() -> Figure:
    """Wait of one load, and bytes a second of all SMs, by how much memory is gone over again and again: measured on this
    machine's GPU, else as recorded."""
    found = hierarchy.measured_here() or hierarchy.recorded()
    figure = Picture(10, 4)
    left, right = figure.subplots(1, 2)
    wait, rate = (found["latency"], found["bandwidth"]) if found else ([], [])
    left.plot([n for n, *_ in wait], [c for _, c, _ in wait], color=BLUE, marker="o", markersize=4)
    left.set(xscale="log", ylabel="cycles from one load to the next", ylim=(0, None))
    left.set_title("each load needs what the last one brought", loc="left", fontsize=11)
    right.plot([n for n, _ in rate], [r / 1e12 for _, r in rate], color=ORANGE, marker="s", markersize=4)
    right.set(xscale="log", ylabel="TB/s read by all SMs together", ylim=(0, None))
    right.set_title("everybody reads, past the L1 caches", loc="left", fontsize=11)
    for ax in (left, right):
        if found:
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
        f"memory. {found['machine'] if found else 'No GPU'}, {_when(found)}."
    )
    return figure


# ------------------------------------------------------------------------------------------------------------- growth


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


# ----------------------------------------------------------------------------------------------------- dot and softmax


@on_white
def dots_and_weights(width: int = 64, keys: int = 8, seed: int = 0) -> Figure:
    """A query and some keys, one of which is much like it: the dot products, and what a softmax makes of them."""
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(width, generator=generator)
    key = torch.randn(keys, width, generator=generator)
    key[3] = query + 0.1 * torch.randn(width, generator=generator)
    dots = key @ query
    figure = Picture(9, 3.3)
    left, right = figure.subplots(1, 2)
    for ax, values, form, label in (
        (left, dots, "{:.1f}", "dot product with the query"),
        (right, torch.softmax(dots / width**0.5, 0), "{:.3f}", f"softmax of dot / √{width}"),
    ):
        drawn = ax.bar(
            range(keys), values, color=[ORANGE if k == 3 else BLUE for k in range(keys)], edgecolor=INK, linewidth=0.8
        )
        ax.bar_label(drawn, [form.format(value) for value in values], fontsize=8, padding=2)
        ax.axhline(1, color=RED, linestyle=":", linewidth=1)
        ax.set(xlabel="key (key 3 is the query plus a little noise)", ylabel=label, xticks=range(keys))
        ax.margins(y=0.15)
        bare(ax)
    figure.caption(
        "Similar vectors have a large dot product, not one near 1 (dotted). After the softmax, a weight may be near 1."
    )
    return figure
