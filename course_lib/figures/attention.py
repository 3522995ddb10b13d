"""The pictures of 08_attention_by_tiles; 09 and 10 show some of them again.

Each function returns a matplotlib Figure. What a picture says was computed when it was drawn. Colours are Okabe and Ito's, and
none means anything alone: there is a hatch, a marker or a word too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from torch.utils._python_dispatch import TorchDispatchMode

from course_lib.figures.tile_maps import draw_tiles, tile_kinds, tile_labels
from course_lib.figures.widgets import Sliders, choice, explore, slider, stops
from tritontrace.colours import (
    DONE,
    FAINT,
    FOUR,
    IDLE,
    INK,
    LIMIT,
    NOW,
    ONE,
    OTHERS,
    OURS,
    PART,
    RESULT,
    THREE,
)
from tritontrace.gpu import datasheet
from tritontrace.picture import WIDTH, Picture, bare, boxes, ink_on, on_white

# ------------------------------------------------------------------------------------------- why the scores are the problem


class _Carried(TorchDispatchMode):
    """Count the elements that torch's operations read and write, and the most that one operation reads and writes."""

    def __init__(self):
        super().__init__()
        self.moved = self.held = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        if not function.is_view:
            elements = sum(t.numel() for t in (*args, out) if isinstance(t, torch.Tensor))
            self.moved, self.held = self.moved + elements, max(self.held, elements)
        return out


def carried(n: int, d: int) -> tuple[int, int]:
    """Count (elements moved, elements held at once) by attention as four operations of torch, for n queries and keys. The tensors
    have shapes but no data."""
    q, k, v = (torch.empty(n, d, device="meta") for _ in range(3))
    with _Carried() as counted:
        scores = (q @ k.T) * d**-0.5
        torch.softmax(scores, -1) @ v
    return counted.moved, counted.held


@on_white
def memory_against_length(d: int = 128, itemsize: int = 2, heads: int = 32, bm: int = 128) -> Figure:
    """Draw the bytes that one layer moves and holds, against the number of tokens: with a matrix of scores, and by tiles."""
    lengths = [1 << p for p in range(9, 18)]
    naive = [carried(n, d) for n in lengths]
    asked = [
        2 * n * d + 2 * n * d * -(-n // bm) for n in lengths
    ]  # q and o once, k and v once for each tile of queries
    least = [4 * n * d for n in lengths]
    lines = {
        "scores in memory": (OTHERS, "s", "--", [f[0] for f in naive], [f[1] for f in naive]),
        "by tiles": (OURS, "o", "-", asked, least),
        "caches": (THREE, "^", "-.", least, None),
    }
    words = (  # beside each line: what it is, how many tokens from the left, and points from there
        {
            "scores in memory": ("scores in memory", 4, (-8, 2)),
            "by tiles": ("by tiles, as the\nprograms ask", 5, (8, -18)),
            "caches": ("by tiles, if caches\nkeep k and v", 4, (2, -32)),
        },
        {"scores in memory": ("scores in memory", 4, (-8, 2)), "by tiles": ("by tiles", 4, (8, -14))},
    )
    figure = Picture(WIDTH, 4.2)
    for part, (ax, label) in enumerate(zip(figure.subplots(1, 2), ("GB moved", "GB held at once"), strict=True)):
        for name, (colour, marker, line, *found) in lines.items():
            if found[part]:
                sizes = [heads * itemsize * f / 1e9 for f in found[part]]
                ax.plot(lengths, sizes, line, marker=marker, color=colour)
                said, at, offset = words[part][name]
                side = "right" if offset[0] < 0 else "left"
                ax.annotate(said, (lengths[at], sizes[at]), offset, textcoords="offset points", ha=side)
        if part:
            memory = datasheet("H200").hbm_bytes / 1e9
            ax.axhline(memory, color=INK, linewidth=1, linestyle=":")
            ax.text(lengths[0], memory * 1.25, f"all memory of\nan H200, {memory:.0f} GB", color=INK)
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.set_xticks(lengths[::2], [f"{n // 1024}k" if n >= 1024 else n for n in lengths[::2]])
        ax.minorticks_off()
        ax.set(xlabel="tokens", ylabel=label)
        ax.grid(alpha=0.3)
        bare(ax)
    at = lengths.index(1 << 15)
    ratios = naive[at][0] / asked[at], naive[at][0] / least[at], naive[at][1] / least[at]
    figure.caption(
        f"The forward pass of {heads} heads of {d}, with {itemsize} bytes for each element. With scores in memory, scores and weights are "
        f"held at once, and six such matrices are read or written. At 32k tokens, programs with tiles of {bm} queries ask for "
        f"{ratios[0]:.1f} times fewer bytes. If the L2 cache keeps none of these, DRAM delivers them all. If it keeps k and v, DRAM "
        f"delivers {ratios[1]:.0f} times fewer bytes than with scores in memory. Tiles hold {ratios[2]:.0f} times fewer bytes at once."
    )
    return figure


# ------------------------------------------------------------------------------------------------------------ positions


@on_white
def rotary_positions(d: int = 16, base: float = 10000.0) -> Figure:
    """Draw two pairs of a vector turned by their positions, and a dot product against the distance of two positions."""
    figure = Picture(WIDTH, 4.2)
    clocks = figure.subplot_mosaic([["fast", "dots"], ["slow", "dots"]], width_ratios=[1, 1.8])
    for pair, (place, colour) in enumerate((("fast", ONE), ("slow", THREE))):
        ax, turn = clocks[place], base ** (-2 * pair / d)
        angles = turn * np.arange(8)
        ax.plot(np.cos(np.linspace(0, 2 * np.pi, 90)), np.sin(np.linspace(0, 2 * np.pi, 90)), color=IDLE, linewidth=1)
        for n, angle in enumerate(angles):
            ax.plot([0, np.cos(angle)], [0, np.sin(angle)], color=colour, linewidth=2.2 if n == 0 else 1)
            ax.text(1.25 * np.cos(angle), 1.25 * np.sin(angle), n, ha="center", va="center")
        ax.set(xlim=(-1.5, 1.5), ylim=(-1.5, 1.5), aspect="equal", xticks=[], yticks=[])
        ax.set_title(f"pair {pair}: {turn:.2g} radian{'s' * (turn != 1)}\na position, 0 to 7")
        bare(ax, *ax.spines)

    g = torch.Generator().manual_seed(3)
    q = torch.randn(d, generator=g, dtype=torch.float64)
    k = q + 0.5 * torch.randn(d, generator=g, dtype=torch.float64)

    def turned(x: torch.Tensor, place: int) -> torch.Tensor:
        angles = place * base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
        pairs = torch.view_as_complex(x.reshape(-1, 2)) * torch.polar(torch.ones_like(angles), angles)
        return torch.view_as_real(pairs).flatten()

    ax = clocks["dots"]
    looks = ((0, FOUR, "-", "", 0), (100, ONE, "", "o", 2), (5000, INK, "", "x", 5))  # where the key stands
    for row, (place, colour, line, marker, first) in enumerate(looks):
        distances = np.arange(first, 65, 6 if marker else 1)
        scores = [float(turned(q, place + int(n)) @ turned(k, place)) for n in distances]
        style = dict(linestyle=line, marker=marker, color=colour, linewidth=5, markersize=6)
        ax.plot(distances, scores, **style)
        ax.plot([20, 24], [11.2 - 0.75 * row] * 2, **style)
        ax.text(26, 11.2 - 0.75 * row, f"key at {place:,}, query so much further on", va="center")
    ax.set(xlabel="distance from key to query, positions", ylabel="q · k", ylim=(0, 12))
    ax.set_title("q · k depends on the distance alone")
    bare(ax)
    figure.caption(
        "Each pair of a vector turns at its own speed as the position grows. A dot product depends only on the distance of the two "
        "positions: wherever the key stands, the values lie on one curve."
    )
    return figure


# ------------------------------------------------------------------------------------------------------- online softmax

PATTERNS = ("mixed", "rising", "falling", "one at the end")
ORDERS = ("first to last", "last to first", "shuffled")
LABELS = 8  # tiles in the picture of the online softmax that have room for a label each


def scores_of(pattern: str, n: int = 24) -> tuple[np.ndarray, np.ndarray]:
    """Make (scores, values) of one query and n keys. The values are one column of v."""
    g = np.random.default_rng(8)
    noise, values = g.normal(size=n), g.uniform(0, 10, size=n)
    ramp = np.linspace(-2, 2, n)
    if pattern not in PATTERNS:
        raise ValueError(f"pattern is {pattern!r}; this figure draws {', '.join(PATTERNS)}")
    scores = {
        "mixed": 1.2 * noise,
        "rising": ramp + 0.5 * noise,
        "falling": 0.5 * noise - ramp,
        "one at the end": 0.6 * noise,
    }[pattern]
    if pattern == "one at the end":
        scores[-1] = 5.0
    return scores, values


def online_states(
    scores: Sequence[float], values: Sequence[float], tiles: Sequence[range]
) -> list[tuple[float, float, float, float]]:
    """Return the state (m, l, acc, alpha) after each tile: maximum, sum, weighted sum, and the factor by which the old sums were
    multiplied."""
    m, l, acc, found = -math.inf, 0.0, 0.0, []
    for tile in tiles:
        new = max(m, max(scores[j] for j in tile))
        alpha = math.exp(m - new) if l else 0.0
        p = {j: math.exp(scores[j] - new) for j in tile}
        l, acc, m = l * alpha + sum(p.values()), acc * alpha + sum(p[j] * values[j] for j in tile), new
        found.append((m, l, acc, alpha))
    return found


@on_white
def online_softmax(seen: int = 3, tile: int = 6, order: str = "first to last", pattern: str = "mixed") -> Figure:
    """One query over 24 keys, tile by tile: its scores and running maximum, the corrected sum, the output so far."""
    scores, values = scores_of(pattern)
    n = len(scores)
    if order not in ORDERS:
        raise ValueError(f"order is {order!r}; this figure draws {', '.join(ORDERS)}")
    if tile < 1 or seen < 0:
        raise ValueError(f"a tile has at least one key, and a count is not negative: got tile {tile}, seen {seen}")
    tiles = [range(start, min(start + tile, n)) for start in range(0, n, tile)]
    if order == "last to first":
        tiles = tiles[::-1]
    elif order == "shuffled":
        tiles = tiles[1::2][::-1] + tiles[::2]
    seen = min(seen, len(tiles))
    labelled = range(len(tiles)) if len(tiles) <= LABELS else [seen - 1]  # more labels than that would overlap
    states = online_states(scores, values, tiles)
    exact = online_states(scores, values, [range(n)])[0]

    figure = Picture(WIDTH, 6.4)
    top, middle, bottom = figure.subplots(3, 1, height_ratios=[1.3, 1, 1])
    floor = scores.min() - 0.6
    for number, part in enumerate(tiles):
        state = "now" if number == seen - 1 else "seen" if number < seen else "not yet"
        colour, hatch = {"now": (NOW, "//"), "seen": (DONE, ""), "not yet": (IDLE, "")}[state]
        look = dict(facecolor=colour, hatch=hatch, edgecolor="white")
        boxes(top, [(j + 0.1, floor) for j in part], [(0.8, scores[j] - floor) for j in part], **look)
        if number not in labelled:
            continue
        top.text(
            np.mean(part) + 0.5,
            floor + 0.1,
            f"tile {number + 1}",
            ha="center",
            va="bottom",
            color=INK,
            bbox=dict(facecolor="white", edgecolor="none", pad=1, alpha=0.85),
        )
    if seen:
        top.axhline(states[seen - 1][0], color=LIMIT, linewidth=2, label="m, the running maximum")
    handles = [
        Patch(color=DONE, label="seen"),
        Patch(facecolor=NOW, hatch="//", edgecolor="white", label="this tile"),
        Patch(color=IDLE, label="not yet"),
    ]
    top.legend(handles=[*handles, *top.lines], ncols=4, loc="lower left", bbox_to_anchor=(0, 1), frameon=False)
    top.set(xlim=(0, n), ylim=(floor, scores.max() + 0.4), xlabel="key", ylabel="score")
    top.set_xticks(range(0, n + 1, tile))
    top.locator_params(axis="y", nbins=3)

    steps = range(1, len(tiles) + 1)
    before, highest = 0.0, max(s[1] for s in states)
    for step, (_, l, _, alpha) in zip(steps, states, strict=True):
        if step > seen:
            break
        kept = before * alpha
        middle.bar(step, kept, 0.6, color=PART, edgecolor="white")
        middle.bar(step, l - kept, 0.6, bottom=kept, color=RESULT, hatch="..", edgecolor="white")
        words = f"{l:.2f}" + (f"\nold × {alpha:.2f}" if step > 1 else "")
        if step - 1 in labelled:
            middle.text(step, l + 0.03 * highest, words, ha="center", va="bottom", color=INK)
        before = l
    middle.legend(
        handles=[
            Patch(color=PART, label="l, sum of exp(s - m): the old sum, corrected"),
            Patch(facecolor=RESULT, hatch="..", edgecolor="white", label="what this tile adds"),
        ],
        ncols=2,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        frameon=False,
    )
    middle.set(ylabel="sum l", ylim=(0, 1.45 * highest))
    middle.locator_params(axis="y", nbins=3)
    outputs = [acc / l for _, l, acc, _ in states]
    bottom.axhline(exact[2] / exact[1], color=INK, linestyle=":", label="softmax over all keys at once")
    bottom.plot(steps[:seen], outputs[:seen], "o-", color=OURS, label="acc / l, the output so far")
    bottom.legend(ncols=2, loc="lower left", bbox_to_anchor=(0, 1), frameon=False)
    bottom.set(ylabel="output", ylim=(0, 10), yticks=[0, 5, 10], xlabel="tiles merged")
    for ax in (middle, bottom):
        ax.set(xlim=(0.4, len(tiles) + 0.6))
    middle.set_xticks([])  # those of the axes below
    bottom.set_xticks(steps)
    for ax in (top, middle, bottom):
        bare(ax)
    if seen == 0:
        said = "No tile is seen yet: m is -inf, and l and acc are 0."
    elif seen < len(tiles):
        m, l, acc, alpha = states[seen - 1]
        said = f"After {seen} of {len(tiles)} tiles m = {m:.2f}, l = {l:.2f}, acc = {acc:.2f}."
        if seen > 1:
            said += f" The last tile multiplied the old sums by alpha = {alpha:.3f}."
    else:
        m, l, acc, _ = states[-1]
        said = f"All tiles: acc / l = {acc / l:.4f}. A softmax over all keys at once gives {exact[2] / exact[1]:.4f}."
    figure.caption(said)
    return figure


def explore_online_softmax() -> Sliders | Figure:
    """The picture with controls in a notebook; the picture alone where there is no notebook or no ipywidgets."""
    keys = len(scores_of(PATTERNS[0])[0])
    return explore(
        online_softmax,
        lambda tile, **_: {"seen": math.ceil(keys / tile)},
        seen=slider("tiles seen", 0, keys),
        tile=slider("keys per tile", 1, keys),
        order=choice("order", ORDERS),
        pattern=choice("scores", PATTERNS),
    )


# ------------------------------------------------------------------------------------------------------- merging orders


def _merge(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
    m = max(a[0], b[0])
    return m, a[1] * math.exp(a[0] - m) + b[1] * math.exp(b[0] - m)


@on_white
def merge_orders() -> Figure:
    """Eight tiles merged one after the other, and in a tree: (m, l) at every merge."""
    scores, _ = scores_of("mixed")
    leaves = [
        (max(part), sum(math.exp(s - max(part)) for s in part))
        for part in (list(scores[j : j + 3]) for j in range(0, 24, 3))
    ]

    figure = Picture(WIDTH, 5.6)
    chain, tree = figure.subplots(1, 2)

    def node(ax, x: float, y: float, state: tuple[float, float], colour: str) -> None:
        words = f"{state[0]:.2f}\n{state[1]:.2f}"
        ax.text(
            x,
            y,
            words,
            ha="center",
            va="center",
            color=ink_on(colour),
            bbox=dict(boxstyle="round", facecolor=colour, edgecolor=INK),
        )

    def edge(ax, start: tuple[float, float], end: tuple[float, float]) -> None:
        ax.plot(*zip(start, end, strict=True), color=INK, linewidth=0.8, zorder=0)

    at, state = (0.0, 0.0), leaves[0]
    for ax in (chain, tree):
        for j, leaf in enumerate(leaves):
            node(ax, j, 0, leaf, FAINT)
    for j in range(1, 8):
        state, here = _merge(state, leaves[j]), (float(j), float(j))
        edge(chain, at, here)
        edge(chain, (j, 0), here)
        node(chain, *here, state, FOUR)
        at = here
    level = [((float(j), 0.0), leaf) for j, leaf in enumerate(leaves)]
    while len(level) > 1:
        merged = []
        for (p, a), (r, b) in zip(level[::2], level[1::2], strict=True):
            here = ((p[0] + r[0]) / 2, p[1] + 7 / 3)
            edge(tree, p, here)
            edge(tree, r, here)
            merged.append((here, _merge(a, b)))
        for here, both in merged:
            node(tree, *here, both, PART)
        level = merged
    for ax, name, depth in ((chain, "one after the other: 7 steps", 7), (tree, "in pairs: 3 steps", 3)):
        ax.set(xlim=(-0.6, 7.6), ylim=(-0.6, 7.6), xlabel="tile of keys")
        ax.set_xticks(range(8), range(1, 9))
        ax.set_yticks(np.linspace(0, 7, depth + 1), range(depth + 1))
        ax.set_title(name)
        bare(ax)
    chain.set_ylabel("steps that wait for each other")
    (m, l), (tm, tl) = state, level[0][1]
    figure.caption(
        f"Each box shows m, and l below it. The chain ends with ({m:.2f}, {l:.4f}), the tree with ({tm:.2f}, {tl:.4f}): any order "
        "and any grouping give the same state. A program that walks along the keys is the chain. Programs that share them are the tree."
    )
    return figure


# --------------------------------------------------------------------------------------------------------- causal tiles


def causal_mask(nq: int, nk: int) -> np.ndarray:
    """Return where a query sees a key, aligned at the bottom right."""
    return np.tril(np.ones((nq, nk), dtype=bool), nk - nq)


def pass_cost(nq: int, nk: int, bm: int, bn: int, d: int, itemsize: int, visited: np.ndarray) -> tuple[int, int]:
    """Count (bytes moved, FLOPs of the products) of a forward pass over the tiles that are `visited`. A tile at the edge costs the
    FLOPs of a whole tile, and moves only the rows that exist."""
    width = np.minimum(bn, nk - bn * np.arange(visited.shape[1]))
    rows = int((visited * width).sum())
    return 2 * nq * d * itemsize + 4 * nq + 2 * rows * d * itemsize, int(visited.sum()) * 4 * bm * bn * d


@on_white
def causal_map(nq: int = 512, nk: int = 512, bm: int = 64, bn: int = 64, d: int = 128, itemsize: int = 2) -> Figure:
    """The tiles of a causal pass: full, masked, skipped; bytes and FLOPs against a pass over all of them."""
    if min(nq, nk, bm, bn, d, itemsize) < 1:
        raise ValueError("every size of a causal map is at least 1")
    kinds = tile_kinds(causal_mask(nq, nk), bm, bn)
    counts = [int((kinds == kind).sum()) for kind in (2, 1, 0)]
    causal, everything = (pass_cost(nq, nk, bm, bn, d, itemsize, visited) for visited in (kinds > 0, kinds >= 0))

    figure = Picture(WIDTH, 5.0)
    ax, bars = figure.subplots(1, 2, width_ratios=[1.5, 1])
    draw_tiles(ax, kinds, bm, bn)
    seen_from = np.array([0, nq])
    ax.plot(seen_from + nk - nq, seen_from, color=LIMIT, linewidth=1.5)
    ax.set_ylabel("query")
    labels = tile_labels(f"full: {counts[0]}", f"masked: {counts[1]}", f"skipped: {counts[2]}")
    ax.legend(handles=labels, ncols=3, loc="lower left", bbox_to_anchor=(0, 1), frameon=False)
    shares = [c / e for c, e in zip(causal, everything, strict=True)]
    drawn = bars.bar(["bytes", "FLOPs"], shares, 0.6, color=[FOUR, THREE], hatch=["", ".."], edgecolor="white")
    words = [
        f"{causal[0] / 1e6:.3g} of\n{everything[0] / 1e6:.3g} MB",
        f"{causal[1] / 1e9:.3g} of\n{everything[1] / 1e9:.3g} GFLOP",
    ]
    bars.bar_label(
        drawn,
        [f"{s:.1%}\n{w}" for s, w in zip(shares, words, strict=True)],
        padding=5,
        bbox=dict(facecolor="white", edgecolor="none", pad=1),
    )
    bars.axhline(0.5, color=INK, linestyle=":", linewidth=1, zorder=0)
    bars.text(0.5, 0.51, "half", ha="center", va="bottom", color=INK)
    bars.set(ylim=(0, 1.35), yticks=[0, 0.5, 1], ylabel="causal pass / pass over all tiles")
    bare(bars)
    rows, columns = kinds.shape
    figure.caption(
        f"{nq} queries, {nk} keys, tiles of {bm} × {bn}: {counts[0] + counts[1]} of {rows * columns} tiles are taken, and only "
        f"{counts[1]} of these need a mask. Below the line, queries see keys."
    )
    return figure


def explore_causal_map() -> Sliders | Figure:
    """The map with controls in a notebook; the map alone where there is no notebook or no ipywidgets."""
    powers = [16, 32, 64, 128, 256]
    return explore(
        causal_map,
        nq=slider("queries", 32, 1024, 32),
        nk=slider("keys", 32, 1024, 32),
        bm=stops("query tile", powers),
        bn=stops("key tile", powers),
    )
