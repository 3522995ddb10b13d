"""The pictures of 10_flash_attention_backward.

Each function returns a matplotlib Figure. Walks are traced, sums added up and kept bytes counted when a picture is drawn;
speeds were measured on one H200 (benchmarks/attention.py), and the picture says so.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
import triton
import triton.language as tl
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from course_lib.exercises.flash_backward.memory import kept_bytes, longest
from course_lib.exercises.flash_backward.naming import MAPS
from course_lib.figures.flash import walk_of
from course_lib.figures.scores import Scores
from course_lib.figures.tiling.named import error_maps
from course_lib.figures.widgets import Sliders, choice, explore, slider, switch
from course_lib.hardware.measurements import measured, whose
from tritontrace.colours import DONE, EDGE, FOUR, IDLE, INK, LIBRARIES, LOADED, NOW, OTHERS, OURS, PART, RESULT
from tritontrace.gpu import datasheet
from tritontrace.picture import WIDTH, Picture, bare, on_white, spread
from tritontrace.tracing import Trace, trace


@on_white
def name_gradients() -> Figure:
    """Draw six maps of wrong gradients: dq, dk and dv, (100, 32) each, with the edges of tiles of 32 rows."""
    return error_maps(
        MAPS,
        "query of dq, key of dk and dv",
        "32 channels of each",
        "Which of the three gradients is wrong, and in which rows? The maps are of six wrong backward passes of causal attention, with "
        "100 queries and 100 keys of 32 channels, in tiles of 32 (dotted).",
        strips=("dq", "dk", "dv"),
    )


# ------------------------------------------------------------------------------------------------ one program's walk


@triton.jit
def over_queries(
    q_ptr, k_ptr, v_ptr, do_ptr, dk_ptr, dv_ptr, N,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Move what a program of dkdv moves, in that order, and compute nothing worth keeping."""
    dims, first = tl.arange(0, D)[None, :], tl.program_id(0) * BLOCK_N
    mine = (first + tl.arange(0, BLOCK_N))[:, None] * D + dims
    dk, dv = tl.load(k_ptr + mine), tl.load(v_ptr + mine)
    for i in range(first // BLOCK_M * BLOCK_M if CAUSAL else 0, N, BLOCK_M):
        theirs = (i + tl.arange(0, BLOCK_M))[:, None] * D + dims
        dk += tl.sum(tl.load(q_ptr + theirs))
        dv += tl.sum(tl.load(do_ptr + theirs))
    tl.store(dk_ptr + mine, dk)
    tl.store(dv_ptr + mine, dv)


@triton.jit
def over_keys(
    q_ptr, k_ptr, v_ptr, do_ptr, dq_ptr, N,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Move what a program of dq moves, in that order."""
    dims, first = tl.arange(0, D)[None, :], tl.program_id(0) * BLOCK_M
    mine = (first + tl.arange(0, BLOCK_M))[:, None] * D + dims
    dq = tl.load(q_ptr + mine) + tl.load(do_ptr + mine)
    for j in range(0, tl.minimum(first + BLOCK_M, N) if CAUSAL else N, BLOCK_N):
        theirs = (j + tl.arange(0, BLOCK_N))[:, None] * D + dims
        dq += tl.sum(tl.load(k_ptr + theirs)) + tl.sum(tl.load(v_ptr + theirs))
    tl.store(dq_ptr + mine, dq)


KERNELS = ("dkdv", "dq")


@cache
def a_walk(
    kernel: str, causal: bool, n: int = 256, d: int = 16, bm: int = 32, bn: int = 64
) -> tuple[Trace, dict[str, torch.Tensor]]:
    """Trace one of the two kernels on a head of n queries and keys; return trace and tensors (n, d). Raises ValueError for another name."""
    if kernel not in KERNELS:
        raise ValueError(f"kernel is {kernel!r}; this figure draws {' and '.join(KERNELS)}")
    walk, own = {"dkdv": (over_queries, bn), "dq": (over_keys, bm)}[kernel]
    names = ["q", "k", "v", "do", *(["dk", "dv"] if kernel == "dkdv" else ["dq"])]
    tensors = {name: torch.ones(n, d) for name in names}
    with trace() as traced:
        walk[(n // own,)](*tensors.values(), n, CAUSAL=causal, D=d, BLOCK_M=bm, BLOCK_N=bn)
    return traced, tensors


@on_white
def backward_walk(kernel: str = "dkdv", program: int = 1, step: int = 5, causal: bool = True) -> Figure:
    """One program of a traced backward kernel after `step` loads and stores, on the matrix of scores that it never stores."""
    traced, tensors = a_walk(kernel, causal)
    program = max(0, min(program, traced.launches[-1].programs - 1))
    steps = walk_of(traced, tensors, program)
    step = max(0, min(step, len(steps)))
    done, n = steps[:step], tensors["q"].shape[0]
    walks = {number: walk_of(traced, tensors, number) for number in range(traced.launches[-1].programs)}
    figure = Picture(6.3, 5.9)
    around = {"above": ("v", "k"), "left": ("do", "q"), "right": ("dq",), "below": ("dk", "dv")}
    scores = Scores(figure.subplots(), n, n, around)
    own_names, others, results = {
        "dkdv": (("k", "v"), ("q", "do"), ("dk", "dv")),
        "dq": (("q", "do"), ("k", "v"), ("dq",)),
    }[kernel]
    mine = next(((a, b) for name, a, b in done if name in own_names), None)
    for number, (name, a, b) in enumerate(done, 1):
        now = number == step
        scores.light(scores.rows(name, a, b), RESULT if name in results else LOADED, now)
        if mine and name in others:
            tile = scores.tile((a, b), mine) if kernel == "dkdv" else scores.tile(mine, (a, b))
            scores.light(tile, DONE if name == others[1] else LOADED, now)
    used, tiles = (sum(name == others[1] for name, *_ in walk) for walk in (done, steps))
    if mine and used:
        for name in set(results) - {name for name, *_ in done}:  # fill up in registers until they are stored
            scores.light(scores.rows(name, *mine, share=used / tiles), PART)
    scores.draw(walks)
    figure.legend(
        handles=[
            Patch(facecolor=NOW, hatch="//", edgecolor=INK, label="this step"),
            Patch(facecolor=LOADED, edgecolor=INK, label="loaded; scores computed again"),
            Patch(facecolor=DONE, edgecolor=INK, label="scores used, then gone"),
            Patch(facecolor=PART, edgecolor=INK, label="added up in registers"),
            Patch(facecolor=RESULT, edgecolor=INK, label="stored, once"),
            Patch(facecolor=IDLE, edgecolor="none", label="skipped"),
        ],
        ncols=2,
        loc="outside upper left",
        frameon=False,
    )
    last = traced.launches[-1].programs - 1
    said = f"{kernel}, program {program} (of 0 to {last}), step {step} of {len(steps)}"
    if done:
        name, a, b = done[-1]
        said += f": {'stores' if name in ('dq', 'dk', 'dv') else 'loads'} rows {a} to {b - 1} of {name}"
        counts = {name: sum(b - a for what, a, b in done if what == name) for name in tensors}
        said += ". So far " + ", ".join(f"{count} of {name}" for name, count in counts.items() if count)
    figure.caption(said + f". This was traced for {n} queries and keys{', causal' * causal}.")
    return figure


def explore_backward_walk() -> Sliders | Figure:
    """The walk with controls in a notebook; the picture alone where there is no notebook or no ipywidgets."""

    def ends(kernel: str, program: int, step: int, causal: bool) -> dict[str, int]:
        traced, tensors = a_walk(kernel, causal)
        last = traced.launches[-1].programs - 1
        return {"program": last, "step": len(walk_of(traced, tensors, min(program, last)))}

    return explore(
        backward_walk,
        ends,
        play="step",
        kernel=choice("kernel", KERNELS),
        program=slider("program", 0, 7),
        step=slider("step", 0, 16),
        causal=switch("causal"),
    )


# ------------------------------------------------------------------------------------------------ the order of a sum


def sums_in_orders(parts: int = 64, orders: int = 2000) -> tuple[np.ndarray, float, float]:
    """(float32 sums of the same numbers in random orders, the sum in their own order, the exact sum)."""
    g = np.random.default_rng(10)
    numbers = g.normal(size=parts).astype(np.float32)
    one_by_one = lambda x: float(np.add.accumulate(x)[-1])  # noqa: E731  np.sum would add in pairs
    found = np.array([one_by_one(g.permutation(numbers)) for _ in range(orders)])
    return found, one_by_one(numbers), float(numbers.astype(np.float64).sum())


@on_white
def sums_in_any_order(parts: int = 64, orders: int = 2000) -> Figure:
    """Draw the values that one element of dq may take if `parts` programs add their share to it in whatever order they arrive."""
    found, own, exact = sums_in_orders(parts, orders)
    values, counts = np.unique(found, return_counts=True)
    unit = 2.0**-23 * abs(exact)
    figure = Picture(WIDTH, 3.8)
    ax = figure.subplots()
    ax.bar((values - exact) / unit, 100 * counts / orders, 0.2, color=FOUR, edgecolor=INK, linewidth=0.5)
    ax.axvline(
        (own - exact) / unit, color=OURS, linewidth=2, linestyle="--", label="in one fixed order: always this sum"
    )
    ax.axvline(0, color=INK, linewidth=1, linestyle=":", label="exact")
    ax.set(xlabel="error, in units of 2^-23 of the sum", ylabel="% of the orders")
    ax.legend()
    bare(ax)
    figure.caption(
        f"{parts} float32 numbers added in {orders:,} random orders give {len(values)} different sums. All of them are good, and chance "
        "decides which one you get. A single program that adds the numbers one after another gives the same bits every time."
    )
    return figure


# ------------------------------------------------------------------------------------------------ how long a text

MODEL = dict(layers=24, heads=16, head_dim=64, itemsize=2)


@on_white
def context_against_memory(card: str = "H200") -> Figure:
    """Bytes that the attention layers of a model keep for backward, against the number of tokens: with scores, and without."""
    memory = datasheet(card).hbm_bytes
    lengths = [1 << p for p in range(8, 22)]
    figure = Picture(WIDTH, 4.4)
    ax = figure.subplots()
    limits = {}
    for scores, label, colour, marker, line in (
        (True, "the scores are kept", OTHERS, "s", "--"),
        (False, "FlashAttention", OURS, "o", "-"),
    ):
        ax.plot(
            lengths,
            [kept_bytes(n, **MODEL, scores=scores) / 1e9 for n in lengths],
            line,
            marker=marker,
            color=colour,
            label=label,
        )
        limits[scores] = longest(int(memory), MODEL | {"scores": scores})
        ax.plot([limits[scores]] * 2, [1e-2, memory / 1e9], color=colour, linewidth=1, linestyle=":")
        ax.text(limits[scores], 1.3e-2, f" {limits[scores]:,}", color=INK)
    ax.axhline(memory / 1e9, color=INK, linewidth=1)
    ax.text(lengths[0], memory / 1e9 * 1.3, f"all memory of an {card}", color=INK)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xticks(lengths[::2], [f"{n // 1024}k" if n >= 1024 else n for n in lengths[::2]])
    ax.minorticks_off()
    ax.set(xlabel="tokens", ylabel="GB kept between forward and backward", ylim=(1e-2, 1e5))
    ax.legend(loc="upper left", bbox_to_anchor=(0, 0.9))
    ax.grid(alpha=0.3)
    bare(ax)
    figure.caption(
        f"{MODEL['layers']} layers of {MODEL['heads']} heads of {MODEL['head_dim']}, {MODEL['itemsize']} bytes per number, as counted by "
        f"autograd. The line of slope 2 reaches the memory's size at {limits[True]:,} tokens, that of slope 1 at {limits[False]:,}. Only "
        "the tensors of attention are counted."
    )
    return figure


# ------------------------------------------------------------------------------------------------ speed

CONTENDERS = {
    "naive": (EDGE, "v"),
    "FlashAttention-2": (LIBRARIES, "s"),
    "flex_attention": (FOUR, "^"),
    "unit 10": (OURS, "o"),
    "cuDNN": (INK, "D"),
}


@on_white
def backward_speed(d: int = 128) -> Figure:
    """TFLOP/s of backward passes on one H200, by length; full and causal."""
    rows = [row for row in measured("attention")["backward"] if row["d"] == d]
    figure = Picture(WIDTH, 4.4)
    for ax, causal in zip(figure.subplots(1, 2, sharey=True), (False, True), strict=True):
        mine = [row for row in rows if row["causal"] == causal]
        ends = {}
        for name, (colour, marker) in CONTENDERS.items():
            found = [(i, row["contenders"][name]["tflops"]) for i, row in enumerate(mine) if name in row["contenders"]]
            ax.plot(*zip(*found, strict=True), color=colour, marker=marker, linewidth=2 if name == "unit 10" else 1.2)
            ends[name] = found[-1]
        for (name, (x, tflops)), y in zip(ends.items(), spread([y for _, y in ends.values()], 38), strict=True):
            ax.annotate(
                f"{name} {tflops:.0f}",
                (x, y),
                (8, 0),
                textcoords="offset points",
                va="center",
                fontweight="bold" if name == "unit 10" else "normal",
            )
        ax.set_xticks(range(len(mine)), [f"{row['length'] // 1024}k" for row in mine])
        ax.set_title("causal" if causal else "full")
        ax.set(xlabel="tokens", xlim=(-0.1, len(mine) + 0.55), ylim=(0, 680))
        ax.grid(alpha=0.3, axis="y")
        bare(ax)
    figure.axes[0].set_ylabel("TFLOP/s, backward")
    ratios = [row["contenders"]["unit 10"]["tflops"] / row["contenders"]["FlashAttention-2"]["tflops"] for row in rows]
    length, peak = max(
        (row["length"], naive["peak_bytes"]) for row in rows if (naive := row["contenders"].get("naive"))
    )
    figure.caption(
        f"Measured on {whose('attention')}: bfloat16, heads of {d}, 16,384 tokens in all, 10 B N N D FLOPs counted for everyone, half of "
        f"that if causal. The unit's kernels run at {min(ratios):.2f} to {max(ratios):.2f} times the speed of FlashAttention-2. "
        f"The naive way was run up to {length // 1024}k tokens, where it takes {peak / 1e9:.0f} GB. "
        "This memory grows in proportion to the length."
    )
    return figure
