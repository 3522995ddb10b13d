"""Writing a text, in pictures: which rows see what, and what prefill and decoding are limited by."""

from __future__ import annotations

import textwrap

import numpy as np
from matplotlib.figure import Figure

from course_lib.exercises.serving.batching import cache_bytes
from course_lib.exercises.serving.positions import CALLS, rows_of
from course_lib.figures.training.recorded import look
from course_lib.figures.widgets import Sliders, explore, slider
from course_lib.hardware.measurements import measured
from tritontrace.colours import EDGE, FOUR, IDLE, INK, NOW, ONE, TWO, paler
from tritontrace.gpu import datasheet
from tritontrace.picture import SMALLEST, WIDTH, Picture, bare, boxes, numbers, on_white

# ------------------------------------------------------------------------------------------------ which rows see what

ACROSS = max(call["nk"] for call in CALLS.values()) + 4  # from one call to the next one beside it, and below
DOWN = max(call["nq"] for call in CALLS.values()) + 9


@on_white
def which_rows(call: int = 2, row: int = 1) -> Figure:
    """The six calls of a generation. One of them, numbered from 1, is lit, with one of its queries, from 1, and the keys that it sees."""
    names = list(CALLS)
    if not 1 <= call <= len(names):
        raise ValueError(f"call is {call}; there are calls 1 to {len(names)}.")
    arguments = CALLS[names[call - 1]]
    nq, nk = arguments["nq"], arguments["nk"]
    if not 1 <= row <= nq:
        raise ValueError(f"row is {row}; call {call} has {nq} queries.")

    figure = Picture(WIDTH, 3.9)
    ax = figure.subplots()  # one for all: six would take twice as long to draw
    ax.axis("off")
    ax.set(aspect="equal", xlim=(-4.5, 3 * ACROSS - 3), ylim=(2 * DOWN - 4.5, -5))
    ends, places = [], []
    for number, (name, each) in enumerate(CALLS.items(), 1):
        seen, lit = rows_of(**each).numpy(), number == call
        y, x = DOWN * ((number - 1) // 3), ACROSS * ((number - 1) % 3)
        every, shade = np.argwhere(np.ones_like(seen)), FOUR if lit else paler(FOUR, 0.35)
        colours = [shade if seen[i, j] else "white" for i, j in every]
        boxes(ax, every[:, ::-1] + (x, y), (1, 1), facecolor=colours, edgecolor=EDGE if lit else IDLE, linewidth=0.5)
        title = textwrap.fill(f"{number}  {name}", 26)
        ax.text(x, y - 0.7, title, va="bottom", fontweight="bold" if lit else "normal", fontsize=SMALLEST + lit)
        last, end = (length - 1 for length in seen.shape)
        ends += [0, end, *[0, last][: last + 1]]
        places += [(x + 0.5, y + last + 2), (x + end + 0.5, y + last + 2)]
        places += [(x - 1.2, y + 0.5), (x - 1.2, y + last + 0.5)][: last + 1]
        if number > 3:
            ax.text(x + seen.shape[1] / 2, y + last + 1.4, "key", ha="center", va="top")
        if x == 0:
            ax.text(x - 2.8, y + seen.shape[0] / 2, "query", rotation=90, ha="right", va="center")
        if lit:
            boxes(ax, [(x, y + row - 1)], (nk, 1), facecolor="none", edgecolor=INK, linewidth=1.4, zorder=3)
            keys = np.flatnonzero(seen[row - 1])
            boxes(ax, [(x + j, y + row - 1) for j in keys], (1, 1), facecolor=NOW, edgecolor=INK, linewidth=0.5)
    numbers(ax, np.array(places), ends, [INK] * len(ends))
    span = f"keys {keys[0]} to {keys[-1]}" if len(keys) > 1 else f"key {keys[0]}"
    figure.caption(f"Call {call} of {len(names)}. Query {row - 1} of {nq} sees {span} of {nk}: {_why(arguments)}.")
    return figure


def _why(arguments: dict) -> str:
    """Say what decides, for one of CALLS."""
    if arguments["mask"]:
        return "places 17 to 23 hold no token yet, and a mask hides them"
    if arguments["top_left"]:
        return "the queries are the first positions and the places after them are empty, but the shapes do not say so"
    if arguments["window"]:
        return f"the last {arguments['window']}, its own included"
    if arguments["nq"] == 1:
        return "it is the last position, so it sees all keys"
    return "those up to its own position" + (", which is not its row" if arguments["nq"] < arguments["nk"] else "")


def explore_which_rows() -> Sliders | Figure:
    """The picture with sliders for the call and the query in a notebook, the picture alone elsewhere."""
    queries = [call["nq"] for call in CALLS.values()]
    return explore(
        which_rows,
        lambda call, row: {"row": queries[call - 1]},
        play="call",
        call=slider("call", 1, len(CALLS)),
        row=slider("query", 1, queries[1]),
    )


# ------------------------------------------------------------------------------------------------ prefill and decoding

MODEL = dict(layers=32, kv_heads=8, head_dim=128, itemsize=2)
PARAMETERS, HEADS, TEXT = 8 * 10**9, 32, 8192


def step(texts: int, tokens: int, before: int) -> tuple[float, float]:
    """Return (FLOPs, bytes) of a step of the model that takes `tokens` new tokens of each text after `before` others: each weight is read
    once and multiplied with every token, each cached key and value is read once for each text."""
    new = texts * tokens
    pairs = texts * (tokens * before + tokens * (tokens + 1) / 2)
    flops = 2 * PARAMETERS * new + 4 * MODEL["layers"] * HEADS * MODEL["head_dim"] * pairs
    return flops, MODEL["itemsize"] * PARAMETERS + texts * cache_bytes(**MODEL, tokens=before + tokens)


@on_white
def prefill_and_decode(card: str = "H200") -> Figure:
    """Steps of a model of 8 B parameters under a card's roof: prompts that are read, and tokens that are written."""
    sheet = datasheet(card)
    peak, bandwidth = sheet.bf16_flops, sheet.hbm_bandwidth
    figure = Picture(WIDTH, 4.8)
    ax = figure.subplots()
    x = np.logspace(-1, 5, 200)
    ax.plot(x, np.minimum(peak, x * bandwidth) / 1e12, color=INK, linewidth=2)
    groups = (
        ("prefill: a prompt of 128, 1024, 8192 tokens", ONE, "s", [(1, n, 0) for n in (128, 1024, 8192)]),
        (f"decoding after {TEXT:,} tokens: 1, 8, 100 texts", TWO, "o", [(b, 1, TEXT) for b in (1, 8, 100)]),
    )
    for label, colour, marker, steps in groups:
        found = [(*step(*one), one[0] * one[1]) for one in steps]
        speeds = [(flops / nbytes, min(peak, flops / nbytes * bandwidth), flops, new) for flops, nbytes, new in found]
        ax.plot(
            [s[0] for s in speeds],
            [s[1] / 1e12 for s in speeds],
            marker=marker,
            markersize=9,
            linestyle="none",
            color=colour,
            label=label,
        )
        for i, (intensity, speed, flops, new) in enumerate(speeds):
            ax.annotate(
                f"{new * speed / flops:,.0f} tokens/s",
                (intensity, speed / 1e12),
                xytext=(10, -14 - 12 * (marker == "s" and i == 1)),
                textcoords="offset points",
            )
    ax.set(xscale="log", yscale="log", xlim=(0.3, 1e5), ylim=(1, 3000))
    ax.set_xlabel("FLOPs for each byte of memory")
    ax.set_ylabel("TFLOP/s, at most")
    ax.set_title(f"A model of 8 B parameters on one {card}, bfloat16")
    ax.legend(loc="lower right", frameon=False)
    ax.grid(alpha=0.3)
    bare(ax)
    figure.caption(
        "Bounds from the datasheet. A prompt uses each weight for all its tokens, and reaches the flat roof. A step that writes a token "
        "uses each weight once for each text. More texts at once help, until most of the bytes are those of their caches. From then on "
        "the points hardly move."
    )
    return figure


@on_white
def large_decoding() -> Figure:
    """Draw the time of one more token of the large model, launched from Python and as a CUDA graph, over what memory needs."""
    found = measured("model")
    t, bandwidth = found["decode"], found["bandwidth"]
    batches = sorted({row["batch"] for row in t["rows"]})
    kinds = list(dict.fromkeys(row["way"] for row in t["rows"]))
    figure = Picture(WIDTH, 3.2)
    for ax, batch in zip(figure.subplots(1, len(batches), sharey=True, squeeze=False)[0], batches, strict=True):
        rows = {row["way"]: row for row in t["rows"] if row["batch"] == batch}
        for at, kind in enumerate(kinds):
            ms, (colour, hatch) = rows[kind]["ms"], look(kind)
            ax.barh(at, ms, color=colour, hatch=hatch, edgecolor="white")
            ax.text(ms, at, f" {ms:.2g}", va="center")
        floor = 1e3 * rows[kinds[0]]["bytes"] / bandwidth
        ax.axvline(floor, color=INK, linestyle="--", linewidth=1)
        ax.set(xlabel="ms for a token of each", xlim=(0, 1.25 * max(row["ms"] for row in rows.values())))
        ax.set_title(f"{batch} text{'s' * (batch > 1)}: at least {floor:.2g} ms")
        bare(ax)
    figure.axes[0].set_yticks(range(len(kinds)), [kind.replace(", ", ",\n") for kind in kinds])
    figure.axes[0].invert_yaxis()
    figure.caption(
        f"{found['gpu']}, {found['date']}, after {t['after']} tokens. Dashed: the bytes of all caches and of weights that multiply, at "
        f"{bandwidth / 1e12:.2f} TB/s. If Python launches each kernel, the launches take several times as long as these bytes."
    )
    return figure
