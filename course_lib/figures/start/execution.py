"""How a GPU works through many elements: launches, programs, warps that wait; and a dot product."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from course_lib.exercises.start import issue
from course_lib.figures.start.gpu_facts import when
from course_lib.figures.widgets import Sliders, explore, slider, stops
from course_lib.hardware import hierarchy
from course_lib.hardware.measurements import measured
from tritontrace import gpu
from tritontrace.colours import DONE, EDGE, FOUR, IDLE, INK, LIMIT, ONE, OTHERS, OURS, TWO, paler
from tritontrace.picture import WIDTH, Picture, bare, box, ink_on, on_white


def _from(first: int, sizes: Sequence[int]) -> str:
    """Say between which two sizes a curve was crossed; `first` is the size just after the crossing."""
    before = sizes.index(first) - 1
    return f"from somewhere between {sizes[before]:,} and {first:,}" if before >= 0 else f"from {first:,}"


@on_white
def one_or_many(guess: float = ...) -> Figure:
    """x + 1 for 1 to 16,777,216 floats: the CPU timed here; the GPU timed here too, or as recorded on an H200.

    guess: the number of elements from which the GPU wins. Anything that is not a number, `...` included, is no guess.
    """
    sizes = hierarchy.ADD_ONE
    cpu = [seconds for _, seconds in hierarchy.add_one_seconds(sizes, "cpu")]
    if torch.cuda.is_available():
        other, label = hierarchy.add_one_seconds(sizes, "cuda"), f"{torch.cuda.get_device_name()}, timed here"
    else:
        kept = measured("memory_hierarchy")
        other, label = kept["add_one"], f"an {kept['machine']}, {when(kept)}"
    other = [seconds for _, seconds in other]

    figure = Picture(WIDTH, 4.2)
    ax = figure.subplots()
    ax.plot(sizes, np.array(cpu) * 1e6, color=OTHERS, marker="o", markersize=4, linewidth=2.5)
    ax.plot(sizes[: len(other)], np.array(other) * 1e6, color=OURS, marker="s", markersize=4, linewidth=2.5)
    for seconds, rival, whose in ((cpu, other, "one core of this machine's CPU, timed here"), (other, cpu, label)):
        above = seconds[0] > rival[0]
        ax.text(1, seconds[0] * 1e6 * (1.25 if above else 0.8), whose, va="bottom" if above else "top", fontsize=10)
    ax.set(xscale="log", yscale="log", xlabel="n, elements of x (float32)", ylabel="until x + 1 is there, microseconds")
    pairs = list(zip(sizes, cpu, other, strict=False))
    wins = [pairs[i][0] for i in range(len(pairs)) if all(b < a for _, a, b in pairs[i:])]
    if isinstance(guess, (int, float, np.number)) and guess > 0:
        ax.axvline(guess, color=INK, linestyle=":", linewidth=1)
        ax.text(guess, 0.97, f" your guess: {guess:,.0f}", transform=ax.get_xaxis_transform(), va="top")
    said = f"the GPU wins {_from(wins[0], sizes)} elements on" if wins else "the GPU never wins in this range"
    if wins and wins[0] > sizes[0]:  # the lines cross between two sizes
        ax.axvline((wins[0] * sizes[sizes.index(wins[0]) - 1]) ** 0.5, color=EDGE, linewidth=1)
    if cpu[-1] > other[-1]:
        ends, low = [cpu[-1] * 1e6, other[-1] * 1e6], cpu[-1] ** 0.13 * other[-1] ** 0.87 * 1e6  # below the CPU's line
        ax.annotate("", (sizes[-1], ends[0]), (sizes[-1], ends[1]), arrowprops={"arrowstyle": "<->", "color": INK})
        ax.text(sizes[-1] / 1.5, low, f"× {cpu[-1] / other[-1]:,.0f}", ha="right", fontsize=16, fontweight="bold")
        said += f";\nwith {sizes[-1]:,} it is {cpu[-1] / other[-1]:.0f} times as fast as one core"
    ax.set_ylim(bottom=0.4 * min(cpu[0], other[0]) * 1e6)
    ax.set_title(said)
    bare(ax)
    figure.caption(
        "At the left end, one element costs the GPU as much time as ten thousand, because the launch takes most of the time. "
        "At the right end, the GPU is faster because it moves many more bytes a second."
    )
    return figure


@on_white
def hiding_latency(warps: int = 4, latency: int = 400, work: int = 40) -> Figure:
    """One scheduler and its warps. Each warp issues `work` cycles of instructions, waits `latency` cycles for memory, and
    so on: simulated, cycle by cycle."""
    cycles = 1500
    slots = issue(warps, latency, work, cycles)
    period = max(latency + work, warps * work)
    later = issue(warps, latency, work, 5 * period)[-period:]  # settled
    busy = np.count_nonzero(later >= 0) / later.size

    figure = Picture(WIDTH, 2.2 + 0.22 * max(warps, 4))
    ax = figure.subplots()
    for warp in range(warps):
        ax.add_patch(Rectangle((0, warp + 0.12), cycles, 0.76, facecolor="white", edgecolor=IDLE, hatch="////", lw=0.4))
        for start, stop in _runs(slots == warp):
            ax.add_patch(Rectangle((start, warp + 0.12), stop - start, 0.76, facecolor=DONE, edgecolor=DONE, lw=0.4))
    for start, stop in _runs(slots >= 0):
        ax.add_patch(Rectangle((start, warps + 0.4), stop - start, 1, facecolor=TWO, edgecolor=TWO, lw=0.4))
    ax.add_patch(Rectangle((0, warps + 0.4), cycles, 1, fill=False, edgecolor=INK, lw=0.8))
    ax.set(xlim=(0, cycles), ylim=(warps + 1.5, -0.1), xlabel="time, cycles")
    names = (
        [f"warp {w}" for w in range(warps)] if warps <= 8 else [f"warp {w}" if w % 4 == 0 else "" for w in range(warps)]
    )
    ax.set_yticks([*(np.arange(warps) + 0.5), warps + 0.9], [*names, "the ALUs"])
    ax.tick_params(axis="y", length=0)
    ax.set_title(f"{warps} warps: {work} cycles of work, {latency} of waiting")
    ax.legend(
        handles=[
            Patch(color=DONE, label="works"),
            Patch(facecolor="white", edgecolor=EDGE, hatch="////", label="waits"),
            Patch(color=TWO, label="ALUs work"),
        ],
        ncols=3,
        frameon=False,
        loc="lower right",
        bbox_to_anchor=(1, 0.99),
    )
    bare(ax)
    figure.caption(f"The ALUs are busy in {busy:.0%} of the cycles. More warps do not make any single warp wait less.")
    return figure


def _runs(on: np.ndarray) -> list[tuple[int, int]]:
    """(start, stop) of each run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], on.astype(np.int8), [0]))))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def explore_hiding_latency() -> Sliders | Figure:
    """The picture with sliders in a notebook; the picture alone elsewhere."""
    return explore(
        hiding_latency,
        play="warps",
        warps=slider("warps", 1, 16),
        latency=slider("wait", 20, 800, 20),
        work=slider("work", 10, 100, 10),
    )


@on_white
def thread_hierarchy(card: gpu.GPU | None = None) -> Figure:
    """A launch of 12 programs, one of its programs, one of its warps; each strip is the marked box of the one above, enlarged."""
    card = card or gpu.current_or_h200()
    figure = Picture(WIDTH, 4.6)
    ax = figure.subplots()
    rows = {  # y -> boxes, the chosen one, its colour, what is written in a box, the title
        5.2: (
            12,
            5,
            TWO,
            "{}",
            f"the grid of kernel[(12,)](...): 12 programs, dealt out to {card.sms} SMs in any order",
        ),
        2.8: (
            4,
            2,
            FOUR,
            "warp {}",
            "one program, here 5: 4 warps, 128 threads. It stays on one SM, whose memory its warps share",
        ),
        0.4: (
            32,
            None,
            FOUR,
            "{}",
            "one warp, here 2: 32 threads, or lanes, of one instruction, each with registers of its own",
        ),
    }
    for y, (count, chosen, colour, written, title) in rows.items():
        wide = 12 / count
        for i in range(count):
            ground = (
                colour
                if i == chosen
                else paler(FOUR, 0.35)
                if chosen is None
                else "white"
                if y > 5
                else paler(TWO, 0.3)
            )
            box(ax, i * wide, y, 0.94 * wide, 0.9, ground, written.format(i))
        ax.text(0, y + 1.05, title)
        if chosen is not None:
            for there, here in ((chosen * wide, 0), (chosen * wide + 0.94 * wide, 12)):
                ax.plot([there, here], [y, y - 1.0], color=EDGE, linewidth=0.8, linestyle=":")
    ax.set(xlim=(-0.05, 12.05), ylim=(0.2, 6.8), xticks=[], yticks=[])
    ax.set(xlabel="lanes of a warp", ylabel="each strip is a box of the one above")
    bare(ax, *ax.spines)
    figure.caption(
        "You choose the grid, and you write what one program does with its blocks of numbers. The compiler divides each block among "
        "the lanes. CUDA calls a program a block."
    )
    return figure


@on_white
def programs_over_elements(n: int = 10, block: int = 4) -> Figure:
    """ceil(n / block) programs, a block of positions each: which element each position has, and which are masked."""
    if n < 1 or block < 1:
        raise ValueError(f"n and block count elements, from 1 on: got n = {n}, block = {block}")
    programs = len(range(0, n, block))
    figure = Picture(WIDTH, 1.5 + 0.36 * programs)
    ax = figure.subplots()
    for p in range(programs):
        for position in range(block):
            i = p * block + position
            inside = i < n
            style = dict(facecolor=FOUR) if inside else dict(facecolor="white", hatch="////")
            ax.add_patch(Rectangle((position, p), 0.94, 0.9, edgecolor=INK if inside else EDGE, linewidth=0.8, **style))
            if inside and (block <= 16 or position % 2 == 0):
                ax.text(position + 0.47, p + 0.45, i, ha="center", va="center_baseline", color=ink_on(FOUR))
    ax.set(xlim=(-0.1, block), ylim=(programs, -0.1), xlabel="position in the block: tl.arange(0, BLOCK)")
    ticks = np.arange(0, block, 1 if block <= 16 else 2)
    ax.set_xticks(ticks + 0.47, ticks)
    ax.set_yticks(np.arange(programs) + 0.45, [f"program {p}" for p in range(programs)])
    ax.tick_params(length=0)
    ax.set_title(f"n = {n}, BLOCK = {block}; the number in a box is i = program * BLOCK + position")
    bare(ax, *ax.spines)
    masked = programs * block - n
    figure.caption(
        f"{programs} program{'s' * (programs > 1)} × {block} = {programs * block} positions for {n} element{'s' * (n > 1)}: "
        f"{masked} hatched, where i < n is false, so the mask switches them off."
    )
    return figure


def explore_programs_over_elements() -> Sliders | Figure:
    """The picture with sliders in a notebook; the picture alone elsewhere."""
    return explore(programs_over_elements, telling=(32, 33), n=slider("n", 1, 64), block=stops("BLOCK", [4, 8, 16, 32]))


@on_white
def dots_and_weights(width: int = 64, keys: int = 8, seed: int = 0) -> Figure:
    """A query and some keys, one of which is much like it: the dot products, and what a softmax makes of them."""
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(width, generator=generator)
    key = torch.randn(keys, width, generator=generator)
    key[3] = query + 0.1 * torch.randn(width, generator=generator)
    dots = key @ query
    figure = Picture(WIDTH, 3.3)
    left, right = figure.subplots(1, 2)
    for ax, values, digits, label in (
        (left, dots.tolist(), 1, "dot product with the query"),
        (right, torch.softmax(dots / width**0.5, 0).tolist(), 3, f"softmax of dot / √{width}"),
    ):
        drawn = ax.bar(
            range(keys), values, color=[TWO if k == 3 else ONE for k in range(keys)], edgecolor=INK, linewidth=0.8
        )
        ax.bar_label(drawn, [f"{round(value, digits):g}" for value in values], padding=2)
        ax.axhline(1, color=LIMIT, linestyle=":", linewidth=1)
        ax.set(xlabel="key (key 3 is the query plus a little noise)", ylabel=label, xticks=range(keys))
        ax.margins(y=0.15)
        bare(ax)
    figure.caption(
        "The dot product of similar vectors is large, and not near 1 (dotted line). A weight, after the softmax, may be near 1."
    )
    return figure
