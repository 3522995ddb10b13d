"""The pictures of 09_flash_attention_forward.

Each function returns a matplotlib Figure. Tiles are counted, and walks traced, when a picture is drawn; speeds were measured on
one H200 (benchmarks/attention.py), and the picture says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

import numpy as np
import torch
import triton
import triton.language as tl
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from course_lib.exercises.flash.naming import MAPS
from course_lib.exercises.flash.oracles import visible
from course_lib.figures.scores import Scores, Walk
from course_lib.figures.tile_maps import draw_tiles, tile_kinds, tile_labels
from course_lib.figures.tiling.named import error_maps
from course_lib.figures.widgets import Sliders, explore, slider
from course_lib.hardware.measurements import measured, whose
from tritontrace.colours import (
    DONE,
    EDGE,
    FOUR,
    IDLE,
    INK,
    LIBRARIES,
    LIMIT,
    LOADED,
    NOW,
    ONE,
    OTHERS,
    OURS,
    PART,
    RESULT,
    THREE,
    TWO,
)
from tritontrace.picture import WIDTH, Picture, bare, name_ends, on_white
from tritontrace.tracing import Trace, trace


@on_white
def name_maps() -> Figure:
    """Draw six maps of wrong weights, each (100, 100), with the edges of tiles of 32 x 32."""
    return error_maps(
        MAPS,
        "query",
        "key",
        "These are the results of six wrong kernels for causal attention, for 100 queries and 100 keys in tiles of 32 x 32 (dotted). v is "
        "the identity matrix, so o shows the weight of each key. To the right of the diagonal each weight should be 0.",
    )


def _whose() -> str:
    return f"Measured on {whose('attention')}"


# ------------------------------------------------------------------------------------------------ one program's walk


@triton.jit
def footsteps(
    q_ptr, k_ptr, v_ptr, o_ptr, N, CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """Move what a program of a forward pass moves, in that order, and compute nothing worth keeping."""
    tile, dims = tl.program_id(0), tl.arange(0, D)
    rows = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    o = tl.load(q_ptr + rows[:, None] * D + dims[None, :], mask=(rows < N)[:, None], other=0)
    stop = tl.minimum((tile + 1) * BLOCK_M, N) if CAUSAL else N
    for j in range(0, stop, BLOCK_N):
        keys = j + tl.arange(0, BLOCK_N)
        there = (keys < N)[:, None]
        o += tl.sum(tl.load(k_ptr + keys[:, None] * D + dims[None, :], mask=there, other=0))
        o += tl.sum(tl.load(v_ptr + keys[:, None] * D + dims[None, :], mask=there, other=0))
    tl.store(o_ptr + rows[:, None] * D + dims[None, :], o, mask=(rows < N)[:, None])


def a_walk(
    n: int = 256, d: int = 16, causal: bool = True, bm: int = 64, bn: int = 32
) -> tuple[Trace, dict[str, torch.Tensor]]:
    """Trace `footsteps` on one head; return the trace and its tensors q, k, v, o (n, d)."""
    numbers = torch.Generator().manual_seed(1)
    tensors = {name: torch.randn(n, d, generator=numbers) for name in "qkvo"}
    with trace() as traced:
        footsteps[(triton.cdiv(n, bm),)](*tensors.values(), n, CAUSAL=causal, D=d, BLOCK_M=bm, BLOCK_N=bn)
    return traced, tensors


def walk_of(traced: Trace, tensors: Mapping[str, torch.Tensor], program: int) -> Walk:
    """List what one program of the last launch loads of q, k, v and stores to o, in order: (name, first row, end). All
    are of one head, (N, D). Raises ValueError if the launch has no such program."""
    if not 0 <= program < traced.launches[-1].programs:
        raise ValueError(f"program is {program}; the launch has {traced.launches[-1].programs}")
    regions = {name: traced.regions.find(tensor) for name, tensor in tensors.items()}  # tensors may share one
    found = []
    for step in traced.steps[-1]:
        if step.program != program:
            continue
        touched = np.zeros(step.region.size, bool)
        touched[step.elements] = True
        for name, tensor in tensors.items():
            if regions[name] is step.region:
                rows = np.flatnonzero(step.region.in_shape_of(tensor, touched).any(-1))
                found += [(name, int(rows[0]), int(rows[-1]) + 1)] if rows.size else []
    return found


def _states(tensors: Mapping[str, torch.Tensor], query: int, tiles: list[tuple[int, int]], causal: bool) -> list:
    """(m, l, the length of acc, alpha) of one query after each of these tiles of keys, and before the first one."""
    q, k, v = (tensors[name].detach().float().cpu().reshape(-1, tensors[name].shape[-1]) for name in "qkv")
    m, l, acc = -math.inf, 0.0, torch.zeros(v.shape[1])
    found = [(m, l, 0.0, 1.0)]
    last = query + len(k) - len(q) if causal else len(k)
    for begin, end in tiles:
        end = min(end, last + 1)
        scores = k[begin:end] @ q[query] / math.sqrt(q.shape[1])
        highest = max(m, float(scores.max())) if end > begin else m
        alpha = math.exp(m - highest) if highest > -math.inf else 1.0
        p = torch.exp(scores - highest)
        m, l, acc = highest, alpha * l + float(p.sum()), alpha * acc + p @ v[begin : begin + len(p)]
        found.append((m, l, float(acc.norm()), alpha))
    return found


def _state_panel(ax, states: list, seen: int, query: int, traffic: str) -> None:
    """Draw m, l and the length of acc of a query as bars, each against the largest it gets, and what was moved so far."""
    ax.set(xlim=(0, 1), ylim=(7.4, -0.9))
    ax.axis("off")
    ax.text(0, -0.35, f"state of query {query}", fontsize=10, weight="bold", color=INK)
    alpha = states[seen][3]
    made = f"old × alpha {alpha:.2f}, + this tile's" if seen else "nothing yet"
    lowest = min((m for m, *_ in states[1:]), default=0.0)
    for row, (name, index, how) in enumerate(
        [("m", 0, "the highest score so far"), ("l", 1, made), ("|acc|", 2, made)]
    ):
        value, most = states[seen][index], max(state[index] for state in states)
        share = 0.0 if not seen else (value - lowest + 0.2) / (most - lowest + 0.2) if name == "m" else value / most
        ax.add_patch(Rectangle((0.2, 1.3 * row + 0.15), 0.8, 0.42, facecolor="white", edgecolor=EDGE, lw=0.6))
        ax.add_patch(Rectangle((0.2, 1.3 * row + 0.15), 0.8 * share, 0.42, facecolor=PART, edgecolor="none"))
        ax.text(0.16, 1.3 * row + 0.38, name, ha="right", va="center", fontsize=10, color=INK)
        ax.text(0.2, 1.3 * row + 0.85, f"{value:.2f}: {how}" if seen else how, va="center", color=INK)
    ax.text(0, 4.3, "traffic so far", fontsize=10, weight="bold", color=INK)
    ax.text(0, 4.65, traffic, va="top", color=INK, linespacing=1.5)


@on_white
def program_walk(
    program: int = 2, step: int = 7, traced: Trace | None = None, tensors: Mapping[str, torch.Tensor] | None = None
) -> Figure:
    """One program of a traced forward pass after `step` loads and stores: its rows of q and o, its tiles of k and v, the tiles of
    scores that these make on the chip, and the state of one of its queries. Without a trace, that of `a_walk`."""
    if traced is None or tensors is None:
        traced, tensors = a_walk()
    steps = walk_of(traced, tensors, program)
    step = max(0, min(step, len(steps)))
    done, (nq, nk) = steps[:step], (tensors["q"].shape[-2], tensors["k"].shape[-2])
    last = traced.launches[-1].programs - 1
    walks = {number: walk_of(traced, tensors, number) for number in range(last + 1)}
    figure = Picture(WIDTH, 4.7)
    square, panel = figure.subplots(1, 2, width_ratios=[4.4, 2.8])
    scores = Scores(square, nq, nk, {"above": "k", "left": "q", "right": "o", "below": "v"})
    mine = next(((a, b) for name, a, b in done if name == "q"), None)
    for number, (name, a, b) in enumerate(done, 1):
        now = number == step
        scores.light(scores.rows(name, a, b), RESULT if name == "o" else LOADED, now)
        if mine and name in "kv":
            scores.light(scores.tile(mine, (a, b)), LOADED if name == "k" else DONE, now)
    scores.draw(walks)
    rows = {name: sum(b - a for what, a, b in done if what == name) for name in "qkvo"}
    size = {name: tensors[name].shape[-1] * tensors[name].element_size() for name in "qkvo"}
    traffic = "\n".join(
        [
            *(f"{name}: {rows[name] * size[name]:,} bytes {'stored' if name == 'o' else 'loaded'}" for name in "qkvo"),
            "scores: 0 bytes",
        ]
    )
    own = next(((a, b) for name, a, b in steps if name == "q"), (0, nq))
    tiles = [(a, b) for name, a, b in steps if name == "v"]
    causal = any(max((b for name, _, b in walk if name == "k"), default=0) < nk for walk in walks.values())
    used = sum(name == "v" for name, *_ in done)
    _state_panel(panel, _states(tensors, own[0], tiles, causal), used, own[0], traffic)
    figure.legend(
        handles=[
            Patch(facecolor=NOW, hatch="//", edgecolor=INK, label="this step"),
            Patch(facecolor=LOADED, edgecolor=INK, label="loaded; scores made"),
            Patch(facecolor=DONE, edgecolor=INK, label="used with v, gone"),
            Patch(facecolor=RESULT, edgecolor=INK, label="stored"),
            Patch(facecolor=IDLE, edgecolor="none", label="not computed"),
        ],
        ncols=5,
        columnspacing=0.8,
        handlelength=1,
        handletextpad=0.4,
        loc="outside upper left",
        frameon=False,
    )
    if not done:
        said = f"Program {program} (of 0 to {last}) has moved nothing yet."
    else:
        verb = "stores" if done[-1][0] == "o" else "loads"
        said = (
            f"Program {program} (of 0 to {last}), step {step} of {len(steps)}: {verb} rows {done[-1][1]} to "
            f"{done[-1][2] - 1} of {done[-1][0]}. So far it has loaded {rows['q']} rows of q, {rows['k']} of k and {rows['v']} of v, and "
            f"stored {rows['o']} rows of o. The steps are traced; m, l and acc are computed from q, k and v."
        )
    figure.caption(said)
    return figure


def explore_program_walk(traced: Trace | None = None, **tensors: torch.Tensor) -> Sliders | Figure:
    """The walk with sliders for program and step in a notebook, the picture alone elsewhere. Pass a trace of your own kernel on one
    head, and q, k, v, o of it, each (N, D)."""
    if traced is None or set(tensors) != set("qkvo"):
        traced, tensors = a_walk()
    last = traced.launches[-1].programs - 1
    first = min(2, last)
    steps = len(walk_of(traced, tensors, first))
    return explore(
        partial(program_walk, program=first, step=min(7, steps), traced=traced, tensors=tensors),
        lambda program, step: {"step": len(walk_of(traced, tensors, program))},
        play="step",
        program=slider("program", 0, last),
        step=slider("step", 0, steps),
    )


# ------------------------------------------------------------------------------------------------ masks


@on_white
def windows_and_groups(
    n: int = 256, window: int = 80, group: int = 8, queries: int = 16, bm: int = 32, bn: int = 32
) -> Figure:
    """Tiles of a causal window, and of the queries of `group` heads that share one head of k and v."""
    window_mask = visible(n, n, True, window, None).numpy()
    rows_mask = np.tile(visible(queries, n, True, None, None).numpy(), (group, 1))
    figure = Picture(WIDTH, 4.6)
    for ax, mask, title in zip(
        figure.subplots(1, 2),
        (window_mask, rows_mask),
        (f"a window of {window} keys", f"{group} heads of {queries} queries, one k and v"),
        strict=True,
    ):
        draw_tiles(ax, tile_kinds(mask, bm, bn), bm, bn)
        ax.set_title(title)
    figure.axes[0].set_ylabel("query")
    figure.axes[1].set_ylabel("row r: query r % Nq of head r // Nq")
    for head in range(1, group):
        figure.axes[1].axhline(head * queries, color=LIMIT, linewidth=2, linestyle="--")
    labels = tile_labels("full", "needs the mask", "skipped")
    figure.legend(handles=labels, ncols=3, loc="outside upper left", frameon=False)
    taken = int((tile_kinds(window_mask, bm, bn) > 0).sum())
    causal = int((tile_kinds(visible(n, n, True, None, None).numpy(), bm, bn) > 0).sum())
    figure.caption(
        f"The tiles are {bm} × {bn}. Left: a window needs {taken} tiles, and causal attention without a window needs {causal}. Right: "
        f"the rows of {group} heads are stacked, head by head (dashed lines between heads). A tile of {bm} rows holds {bm // queries} "
        "heads, and its program reads k and v once."
    )
    return figure


# ------------------------------------------------------------------------------------------------ speed

PEERS = {"FlashAttention-2": (LIBRARIES, "s", "--"), "cuDNN": (INK, "^", ":"), "naive": (OTHERS, "x", "--")}
OWN = {"unit 09": (OURS, "o", "-"), "the ladder's best": (THREE, "D", "-.")}


@on_white
def ladder(d: int = 128, length: int = 16384) -> Figure:
    """Draw the speed of this unit's kernel and of what makes it faster, step by step, next to torch's two; full and causal."""
    rows = [r for r in measured("attention")["ladder"] if (r["d"], r["length"]) == (d, length)]
    names = list(rows[0]["contenders"])
    figure = Picture(WIDTH, 4.4)
    for ax, row in zip(figure.subplots(1, 2, sharey=True), sorted(rows, key=lambda r: r["causal"]), strict=True):
        speeds = [row["contenders"][name]["tflops"] for name in names]
        peers = [name in PEERS for name in names]
        bars = ax.barh(
            range(len(names)),
            speeds,
            color=[LIBRARIES if peer else FOUR for peer in peers],
            hatch=["//" if peer else "" for peer in peers],
            edgecolor="white",
        )
        ax.bar_label(bars, [f"{speed:.0f}" for speed in speeds], padding=3)
        ax.axvline(measured("attention")["ceiling"], color=LIMIT, linestyle=":", linewidth=1.5)
        ax.set_yticks(range(len(names)), names)
        ax.set_title("causal" if row["causal"] else "full")
        ax.set(xlabel="TFLOP/s", xlim=(0, 1.15 * measured("attention")["ceiling"]))
        bare(ax)
    first, best = names[0], [name for name in names if name not in PEERS][-1]
    full = next(r for r in rows if not r["causal"])["contenders"]
    gain = full[best]["tflops"] / full[first]["tflops"]
    figure.caption(
        f'{_whose()}: bfloat16, heads of {d}, {length:,} tokens. In full attention, "{best}" is {gain:.2f} times as fast as '
        f'"{first}", with the same algorithm. The red line is the speed of torch\'s matrix product, '
        f"{measured('attention')['ceiling']:.0f} TFLOP/s."
    )
    return figure


@on_white
def against_length() -> Figure:
    """TFLOP/s, and bytes held beyond q, k and v, against the number of tokens."""
    rows = measured("attention")["lengths"]
    figure = Picture(WIDTH, 4.4)
    named = {  # lines that have another name, or none, since they lie on one that has
        "tflops": {"the ladder's best": "the ladder's\nbest"},
        "peak_bytes": {"unit 09": "unit 09,\nFlash-\nAttention-2", "FlashAttention-2": "_"},
    }
    for ax, key, unit in zip(figure.subplots(1, 2), ("tflops", "peak_bytes"), (1, 1e9), strict=True):
        for name, (colour, marker, line) in (PEERS | OWN).items():
            found = [(r["length"], r["contenders"].get(name, {}).get(key)) for r in rows]
            found = [(n, value / unit) for n, value in found if value]
            if key == "peak_bytes" and name in ("cuDNN", "the ladder's best"):
                continue  # the same as the others
            ax.plot(
                *zip(*found, strict=True),
                line,
                marker=marker,
                color=colour,
                label=named[key].get(name, name),
            )
        ax.set_xscale("log", base=2)
        ax.set_xticks([r["length"] for r in rows[::2]], [f"{r['length'] // 1024}k" for r in rows[::2]])
        ax.minorticks_off()
        ax.set_xlabel("tokens")
        ax.grid(alpha=0.3)
        bare(ax)
    left, right = figure.axes
    left.set(ylabel="TFLOP/s, forward", ylim=(0, None))
    right.set(ylabel="GB held beyond q, k, v", yscale="log")
    for ax in (left, right):
        name_ends(ax)
    last = rows[-1]["contenders"]
    longest = max((r for r in rows if "peak_bytes" in r["contenders"].get("naive", {})), key=lambda r: r["length"])
    naive, own = (longest["contenders"][name]["peak_bytes"] for name in ("naive", "unit 09"))
    figure.caption(
        f"{_whose()}: one causal sequence, bfloat16, 16 heads of 128. At {longest['length'] // 1024}k tokens the naive way, which "
        f"stores all scores, needs {naive / own:.0f} times as much memory as the unit's kernel. For longer texts it does not fit. "
        f"At {rows[-1]['length'] // 1024}k the unit's kernel needs {last['unit 09']['peak_bytes'] / 1e9:.2f} GB, "
        f"for o and lse, and runs at {last['unit 09']['tflops']:.0f} TFLOP/s."
    )
    return figure


@on_white
def decode_splits() -> Figure:
    """One token against a cache: speed by the number of splits, as a share of a copy of as many bytes."""
    rows = measured("attention")["decode"]
    figure = Picture(WIDTH, 4.0)
    ax = figure.subplots()
    sizes = sorted({r["keys"] for r in rows})
    for keys, colour, marker in zip(sizes, (TWO, ONE), "so", strict=False):
        mine = [r for r in rows if r["keys"] == keys]
        ax.plot(
            [r["splits"] for r in mine],
            [r["of_copy"] for r in mine],
            marker=marker,
            color=colour,
            label=f"{keys:,} keys",
        )
    ax.axvline(132 / 8, color=INK, linestyle=":", linewidth=1)
    ax.text(132 / 8 * 1.06, 0.03, "one program for each SM", color=INK)
    ax.set_xscale("log", base=2)
    splits = sorted({r["splits"] for r in rows})
    ax.set_xticks(splits, splits)
    ax.minorticks_off()
    ax.set(xlabel="splits (there are 8 times as many programs)", ylabel="share of a copy's speed", ylim=(0, 1.1))
    ax.legend()
    ax.grid(alpha=0.3)
    bare(ax)
    long = [r for r in rows if r["keys"] == sizes[-1]]
    one, best = long[0], min(long, key=lambda r: r["ms"])
    figure.caption(
        f"{_whose()}: 32 heads of q share 8 heads of k and v, D = 128, bfloat16. With {sizes[-1]:,} keys, one program for each group takes "
        f"{1000 * one['ms']:,.0f} us. With {best['splits']} shares the kernels take {1000 * best['ms']:,.0f} us. They are "
        f"{one['ms'] / best['ms']:.0f} times as fast, and read {best['bytes'] / best['ms'] / 1e9:.1f} TB/s."
    )
    return figure
