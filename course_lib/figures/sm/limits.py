"""Room on an SM, chains, walks over tiles, the two ladders; and a table of cards."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from course_lib.exercises.sm import walks as orders
from course_lib.exercises.sm.limits import CARDS, LIMITS, cycles_of, room
from course_lib.exercises.sm.tiles import three_levels
from course_lib.figures.widgets import Sliders, choice, explore, slider, stops
from course_lib.hardware.measurements import measured
from tritontrace.colours import CLEAR, FOUR, IDLE, INK, LIBRARIES, LIMIT, ONE, THREE, TWO
from tritontrace.gpu import GPU, KiB, datasheet
from tritontrace.picture import WIDTH, Picture, bare, on_white
from tritontrace.tracing import grouped
from tritontrace.words import plural

# ------------------------------------------------------------------------------------------------ occupancy


@on_white
def occupancy(registers: int = 168, shared_kib: int = 40, warps: int = 4, card: str = "H200") -> Figure:
    """Programs that each of the four limits lets onto an SM; and the warps there, for every number of registers."""
    if not (1 <= registers <= 255 and shared_kib >= 1 and 1 <= warps <= 32):
        raise ValueError(
            f"registers are 1 to 255, shared_kib at least 1, warps 1 to 32; got {registers}, {shared_kib}, {warps}"
        )
    gpu = datasheet(card).sm_limits
    lets = room(registers, shared_kib * KiB, warps, gpu)
    programs = min(lets.values())
    figure = Picture(WIDTH, 3.8)
    bars, curve = figure.subplots(1, 2, width_ratios=[1, 1.25])
    short = [lets[limit] == programs for limit in LIMITS]
    drawn = bars.barh(
        LIMITS,
        [lets[limit] for limit in LIMITS],
        color=[TWO if least else FOUR for least in short],
        hatch=["//" if least else "" for least in short],
        edgecolor="white",
    )
    bars.bar_label(drawn, padding=3)
    bars.invert_yaxis()
    asked = {"registers": f"{registers} registers a thread", "shared memory": f"{shared_kib} KiB of shared memory"}
    asked["warps"] = plural(warps, "warp")
    bars.set_yticks(range(len(LIMITS)), [asked.get(limit, limit) for limit in LIMITS])
    bars.set(xlabel="programs that it lets onto an SM", xlim=(0, 1.15 * max(lets.values())))
    bars.xaxis.set_major_locator(MaxNLocator(integer=True))
    bars.set_title(f"{card}: {plural(programs, 'program')}")

    numbers = range(16, 256)
    effective_programs = [warps * min(room(r, shared_kib * KiB, warps, gpu).values()) for r in numbers]
    alone = [warps * room(r, shared_kib * KiB, warps, gpu)["registers"] for r in numbers]
    curve.step(numbers, np.minimum(alone, gpu["warps"]), where="mid", color=INK, linestyle=":", label="registers alone")
    curve.step(numbers, effective_programs, where="mid", color=ONE, linewidth=2, label="all four limits")
    curve.plot([registers], [warps * programs], "o", color=LIMIT, markersize=9, clip_on=False, label="here")
    curve.set(xlabel="registers of a thread", ylabel="warps on an SM", ylim=(0, 1.08 * gpu["warps"]), xlim=(16, 255))
    curve.set_title(f"{warps * programs} of {gpu['warps']} warps")
    curve.legend(frameon=False)
    for ax in (bars, curve):
        bare(ax)
    least = " and ".join(limit for limit, is_least in zip(LIMITS, short, strict=True) if is_least)
    figure.caption(
        f"Programs of {plural(warps, 'warp')}, {registers} registers a thread, {shared_kib} KiB of shared memory: "
        + (
            f"{_fit(programs)}; hatched: room that is too small for one more program, limited by {least}."
            if programs
            else f"none fits: {least}."
        )
    )
    return figure


def _fit(programs: int) -> str:
    return f"{programs} fit" if programs > 1 else "one fits"


def explore_occupancy() -> Sliders | Figure:
    """The picture with sliders in a notebook; the picture alone elsewhere."""
    return explore(
        occupancy,
        registers=slider("registers", 16, 255),
        shared_kib=slider("KiB", 1, 227),
        warps=stops("warps", (1, 2, 3, 4, 7, 8, 12, 16)),
        card=choice("card", CARDS),
    )


# ------------------------------------------------------------------------------------------------ chains


@on_white
def chains(latency: int = 4, most: int = 8) -> Figure:
    """Instructions a cycle on one scheduler, by warps, for one, two and four independent chains in each."""
    figure, steps = Picture(WIDTH, 3.8), 200
    ax = figure.subplots()
    for many, colour, marker, style in ((1, ONE, "o", "-"), (2, THREE, "s", "--"), (4, LIMIT, "^", ":")):
        rates = [w * many * steps / cycles_of(w, many, steps, latency, 1) for w in range(1, most + 1)]
        ax.plot(range(1, most + 1), rates, style, color=colour, marker=marker, label=plural(many, "chain"))
    found = measured("memory_hierarchy")
    if found:
        ax.plot([1], [1 / found["fma"][0]], "*", color=INK, markersize=14, label="measured on an H200")
    ax.set(xlabel="warps on the scheduler", ylabel="instructions a cycle", ylim=(0, 1.1), xlim=(0.7, most + 0.3))
    ax.set_title(f"results after {latency} cycles")
    ax.legend(frameon=False, loc="lower right")
    bare(ax)
    figure.caption(
        f"Simulated, cycle by cycle. The scheduler is busy from {latency} chains on, whichever warps they belong to: {latency} warps with "
        f"one chain, or one warp with {latency} chains. Below that the rate is the number of chains divided by {latency}."
    )
    return figure


# ------------------------------------------------------------------------------------------------ tiles

TILE, WARP_TILE, THREAD_TILE = (128, 128), (64, 32), (8, 8)


@on_white
def nested_tiles() -> Figure:
    """A program's tile in warp tiles, one of these in thread tiles, one of these in products; each with what it needs of a and b."""
    figure = Picture(WIDTH, 3.9)
    steps = (("program", TILE, WARP_TILE), ("warp", WARP_TILE, THREAD_TILE), ("thread", THREAD_TILE, (1, 1)))
    for ax, (whose, (M, N), (m, n)) in zip(figure.subplots(1, 3), steps, strict=True):
        margin = 0.14 * max(M, N)
        ax.add_patch(Rectangle((0, 0), N, M, facecolor=FOUR, edgecolor=INK))
        ax.add_patch(Rectangle((0, 0), n, m, facecolor=TWO, edgecolor=INK, hatch="//"))
        ax.add_patch(Rectangle((-margin, 0), margin / 2, M, facecolor=IDLE, edgecolor=INK))
        ax.add_patch(Rectangle((0, -margin), N, margin / 2, facecolor=IDLE, edgecolor=INK))
        ax.add_patch(Rectangle((-margin, 0), margin / 2, m, facecolor=TWO, edgecolor=INK, hatch="//"))
        ax.add_patch(Rectangle((0, -margin), n, margin / 2, facecolor=TWO, edgecolor=INK, hatch="//"))
        ax.hlines(np.arange(m, M, m), 0, N, color="white", linewidth=1)
        ax.vlines(np.arange(n, N, n), 0, M, color="white", linewidth=1)
        ax.set(xlim=(-1.2 * margin, N), ylim=(M, -1.2 * margin), aspect="equal", xlabel="columns", ylabel="rows")
        ax.set_xticks([0, N])
        ax.set_yticks([0, M])
        bare(ax, "top", "right", "left", "bottom")
        ax.set_title(f"a {whose}'s {M} × {N}\nin parts of {m} × {n}")
    into, out_of, threads = three_levels(TILE, WARP_TILE, THREAD_TILE, 1, 4)
    figure.caption(
        "Hatched: the part that the next picture shows, and what it needs of a (left) and of b (above). For each k a program fetches "
        f"{into:,} bytes of float32 into shared memory, its 8 warps fetch {out_of:,} out of it, and its 256 threads fetch {threads:,} "
        "into registers."
    )
    return figure


# ------------------------------------------------------------------------------------------------ walks


@on_white
def walks(side: int = 48, sms: int = 132, group: int = 8) -> Figure:
    """The tiles that are worked on at the same time, in three persistent orders, and what the L2 model fetches for each."""
    tiles = side * side
    order = grouped(side, side, group).tolist()
    each = -(-tiles // sms)
    plans = {
        "a piece of the order each": [order[pid * each : (pid + 1) * each] for pid in range(sms)],
        f"row order, every {sms}th": [[divmod(i, side) for i in range(pid, tiles, sms)] for pid in range(sms)],
        f"groups of {group} rows, every {sms}th": [order[pid::sms] for pid in range(sms)],
    }
    figure, told = Picture(WIDTH, 4.2), []
    for ax, (name, lists) in zip(figure.subplots(1, len(plans), sharey=True), plans.items(), strict=True):
        now = [own[5] for own in lists if len(own) > 5]  # some round in the middle
        picture = np.zeros((side, side))
        picture[tuple(np.array(now).T)] = 1
        ax.imshow(picture, cmap=ListedColormap([CLEAR, ONE]), interpolation="nearest", aspect="auto")
        share = orders.dram_share(lists, side, side, sms)
        rows, columns = (len({tile[axis] for tile in now}) for axis in (0, 1))
        told.append(f"{rows} rows and {columns} columns")
        ax.set_title(f"{name}\nDRAM bytes: {share:.2f}")
        ax.set(xlabel="columns of tiles", ylabel="" if told[1:] else "rows of tiles")
    figure.caption(
        f"{side} × {side} tiles, {sms} programs; blue: the tiles of the sixth round. They need {told[0]} of tiles, {told[1]}, {told[2]}. "
        "DRAM bytes are those of the L2 model, divided by those of row order."
    )
    return figure


# ------------------------------------------------------------------------------------------------ ladders

PRODUCT = (  # label, (BLOCK_M, BLOCK_N, BLOCK_K, warps, stages) of measured/tiling.json, what changed
    ("32 × 32 × 32", [32, 32, 32, 2, 3], "unit 05's kernel, small tiles"),
    ("64 × 64 × 32", [64, 64, 32, 4, 3], "half as many reads of a and b"),
    ("64 × 64 × 64", [64, 64, 64, 4, 4], "longer steps, one stage more"),
    ("128 × 64 × 64", [128, 64, 64, 4, 4], "b is shared by more"),
    ("128 × 128 × 64", [128, 128, 64, 4, 3], "and a, too"),
    ("128 × 256 × 64", [128, 256, 64, 8, 3], "all registers of an SM"),
    ("4 stages", [128, 256, 64, 8, 4], "one more step ahead"),
)
STEPS = {
    "unit 09": "pointers, any strides",
    "exp2": "exponentials of base 2",
    "descriptors": "TMA fetches the tiles",
    "tuned": "tiles, warps and stages searched for",
    "overlapped": "softmax while products run, in Gluon",
}


def product_steps(n: int = 4096) -> list[tuple[str, float, float, str]]:
    """List (label, TFLOP/s, cuBLAS's TFLOP/s in the same run, what changed) for each step of the product."""
    tiling, last = measured("tiling"), measured("matmul")
    speeds = {tuple(row["tile"]): row["flops"] / 1e12 for row in tiling["tiles"] if row["n"] == n}
    found = [(label, speeds[tuple(tile)], tiling["cublas"][str(n)] / 1e12, said) for label, tile, said in PRODUCT]
    (row,) = (row for row in last["rows"] if row["size"] == f"{n} x {n} x {n}" and not row["what"])
    return [*found, ("persistent", row["own"], row["torch"], "persistent programs, warps with roles, in Gluon")]


@on_white
def matmul_ladder(n: int = 4096) -> Figure:
    """The share of cuBLAS's speed that each step of the product reaches, and what changed."""
    steps = product_steps(n)
    figure = Picture(WIDTH, 4.2)
    ax = figure.subplots()
    _bars(ax, [(label, own / torchs, f"{own:.0f}", said) for label, own, torchs, said in steps], 1.3)
    ax.axvline(1, color=LIMIT, linestyle=":", linewidth=1.5)
    ax.set_xlabel("speed, cuBLAS in the same run = 1 (numbers: TFLOP/s)", loc="left")
    ax.set_xlim(0, 2.75)
    ax.set_xticks([0, 0.5, 1])
    gains = [(own / torchs) / (before / other) for (_, before, other, _), (_, own, torchs, _) in _pairs(steps)]
    largest = max(range(len(gains)), key=gains.__getitem__)
    figure.caption(
        f"{n} × {n} × {n}, bfloat16, one {measured('tiling')['machine']}. Each bar is one step further than the one below it. "
        f"The step to {steps[largest + 1][0]} gains most, a factor of {gains[largest]:.2f}. The last bar was "
        f"measured on one {measured('matmul')['machine']}, against cuBLAS there."
    )
    return figure


@on_white
def attention_ladder(d: int = 128, length: int = 16384) -> Figure:
    """TFLOP/s of each step of attention, what changed, and how busy the tensor cores were where that was counted."""
    found = measured("attention")
    (row,) = (r for r in found["ladder"] if (r["d"], r["length"], r["causal"]) == (d, length, False))
    busy = {counted["name"]: counted["tensor"] for counted in found["counters"]}
    speeds = {name: contender["tflops"] for name, contender in row["contenders"].items()}
    figure = Picture(WIDTH, 3.8)
    ax = figure.subplots()
    counted = {name: f"tensor cores {busy[name]:.0%} busy" if name in busy else "" for name in speeds}
    words = {name: ",\n".join(filter(None, (STEPS.get(name), counted[name]))) for name in speeds}
    _bars(
        ax,
        [(name, speeds[name], f"{speeds[name]:.0f}", words[name]) for name in speeds],
        1.08 * found["ceiling"],
        peers=[name for name in speeds if name not in STEPS],
    )
    ax.axvline(found["ceiling"], color=LIMIT, linestyle=":", linewidth=1.5)
    ax.set_xlabel("TFLOP/s (red: torch's product)", loc="left")
    ax.set_xlim(0, 2.2 * found["ceiling"])
    ax.set_xticks([0, 200, 400, 600, 800])
    own = [speeds[name] for name in STEPS]
    gains = [after / before for before, after in _pairs(own)]
    largest = max(range(len(gains)), key=gains.__getitem__)
    figure.caption(
        f'Heads of {d}, {length:,} tokens, bfloat16, one {found["machine"]}. The step to "{list(STEPS)[largest + 1]}" gains most, '
        f"a factor of {gains[largest]:.2f}. Hatched: libraries. Busy is what Nsight Compute counted."
    )
    return figure


def _pairs(values: list) -> list[tuple]:
    return list(pairwise(values))


def _bars(ax, rows: list[tuple[str, float, str, str]], column: float, peers: list[str] | None = None) -> None:
    """Horizontal bars from below, each with a number at its end, and words that begin at `column`."""
    labels, widths, numbers, words = zip(*rows, strict=True)
    others = [label in (peers or []) for label in labels]
    drawn = ax.barh(
        range(len(rows)),
        widths,
        color=[LIBRARIES if other else FOUR for other in others],
        hatch=["//" if other else "" for other in others],
        edgecolor="white",
    )
    ax.bar_label(drawn, numbers, padding=4, bbox={"facecolor": "white", "edgecolor": "none", "pad": 1}, zorder=3)
    for y, said in enumerate(words):
        ax.text(column, y, said, va="center")
    ax.set_yticks(range(len(rows)), labels)
    bare(ax)


# ------------------------------------------------------------------------------------------------ cards

# Versions of Dao-AILab/flash-attention that run on each. 1 and 2: its README (Turing; Ampere, Ada and Hopper). 3: written for Hopper, and
# "now works on Ampere, Ada, and Hopper" (issue 1049, 2025-03-03). 4: "for Hopper and Blackwell GPUs" (PyPI, flash-attn-4). 2 on a B200:
# timed in issue 1589.
VERSIONS = {"sm_75": "1", "sm_80": "2, 3", "sm_86": "2, 3", "sm_89": "2, 3", "sm_90": "2, 3, 4", "sm_100": "2, 4"}
QUERIES, HEAD = 64, 128


def tile_bytes(card: GPU, keys: int, stages: int) -> int:
    """Count the shared memory of a program of unit 09's kernel: q, k and v of the stages, and p where products read it from there."""
    by_tma = int(card.architecture.removeprefix("sm_")) >= 90
    a_stage, p = 2 * keys * HEAD * 2, 0 if by_tma else QUERIES * keys * 2
    return QUERIES * HEAD * 2 + (stages if by_tma else stages - 1) * a_stage + p


def largest_keys(card: GPU, stages: int) -> int:
    """Return the largest tile of keys, a power of two from 16 to 256, with which a program fits; 0 if none does."""
    return max(
        (n for n in (16, 32, 64, 128, 256) if tile_bytes(card, n, stages) <= card.shared_bytes_per_block), default=0
    )


def which_attention() -> str:
    """Return a table as text: for each card, which FlashAttention runs, the tile of keys that fits, and what is timed of it."""
    timed = measured("attention")
    peers = [name for name in timed["ladder"][0]["contenders"] if name not in STEPS] + list(timed["peers"]["forward"])
    lines = [f"{'card':10} {'':6}  KiB a program   FlashAttention-   keys, 2 stages   3 stages   timed here"]
    for name in ("T4", "A10G", "L4", "A100 80GB", "H100 SXM", "B200"):
        card = datasheet(name)
        kib, two, three = card.shared_bytes_per_block // KiB, largest_keys(card, 2), largest_keys(card, 3)
        said = f"ours, {', '.join(peers)} (H200)" if card.architecture == "sm_90" else "nothing"
        lines.append(
            f"{name:10} {card.architecture:6}  {kib:13}   {VERSIONS[card.architecture]:15}   {two:14}   {three:8}   {said}"
        )
    return "\n".join(lines)
