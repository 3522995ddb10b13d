"""The pictures of 07_recomputation.

Each function returns a matplotlib Figure. What a picture counts is counted when it is drawn; what it cites says so in the
picture. Colours are Okabe and Ito's, and none means anything alone: there is a number, a hatch or a word too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import torch
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from torch.utils._python_dispatch import TorchDispatchMode

from course_lib.exercises.recomputation.oracles import kept_bytes, sigmoid_bytes
from course_lib.figures.widgets import Explorer, live
from course_lib.hardware.measurements import measured
from course_lib.workloads.activations import MemoryTimeline, checkpoint_of_torch, split_evenly, train_step
from tritontrace.colours import FOUR, IDLE, INK, ONE, OTHERS, OURS, READ, THREE, TWO, WRITTEN, sheer
from tritontrace.picture import WIDTH, Picture, bare, box, on_white

LAYERS = 24
MADE = dict(tokens=16384, width=1024, dtype=torch.bfloat16)  # the deep model on a GPU; on a CPU a small one is counted


# ------------------------------------------------------------------------------------------------ what is kept

ASKED = ("add", "multiply", "gelu", "relu", "three sigmoids", "gated gelu", "gelu by parts", "mlp", "attention")


@on_white
def what_autograd_keeps(names: Sequence[str] = ASKED) -> Figure:
    """Draw the bytes kept for backward besides the arguments, as multiples of the bytes of x: counted here, x is 256 x 64 float32."""
    sizes = {"mlp": [256, 64, 256]}
    kept = [kept_bytes(name, sizes.get(name, [256, 64])) / (256 * 64 * 4) for name in names]
    figure = Picture(WIDTH, 1.2 + 0.36 * len(names))
    ax = figure.subplots()
    drawn = ax.barh(names, kept, color=OURS, edgecolor="white")
    ax.bar_label(drawn, [f"{v:g}" for v in kept], padding=4)
    ax.invert_yaxis()
    ax.set(
        xlabel="kept for backward / bytes of x (x is 256 × 64; the MLP is 4 times as wide inside)", ylabel="f(x, ...)"
    )
    ax.set_xlim(0, 1.1 * max(1, *kept))
    bare(ax)
    figure.caption(
        "Autograd keeps the tensors that derivatives need and that are not inputs. Attention keeps a table of all pairs of tokens, which "
        "grows with the square of the number of tokens."
    )
    return figure


# ------------------------------------------------------------------------------------------------ three ways


class _TensorCounter(TorchDispatchMode):
    """Count the tensors of x's size that torch's operations read and write."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size, self.reads, self.writes = size, 0, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        if "sigmoid" in str(function):
            self.reads += sum(isinstance(a, torch.Tensor) and a.numel() == self.size for a in args)
            self.writes += 1
        return out


@lru_cache
def eager_operations() -> tuple[tuple[int, int], tuple[int, int]]:
    """Count ((reads, writes) forward, (reads, writes) backward) of three sigmoids in torch."""
    with torch.enable_grad():
        x = torch.randn(100, requires_grad=True)
        with _TensorCounter(100) as forward:
            y = x.sigmoid().sigmoid().sigmoid()
        with _TensorCounter(100) as backward:
            y.backward(torch.ones(100))
    return (forward.reads, forward.writes), (backward.reads, backward.writes)


@on_white
def three_ways() -> Figure:
    """Reads and writes of three sigmoids, forward and backward: in torch, fused and stored, fused and recomputed."""
    n, item = 4096, 4
    stored, recomputed = (tuple(b // (n * item) for b in sigmoid_bytes(n, item, way)) for way in (False, True))
    eager = [(["r"] * (reads // 3) + ["w"] * (writes // 3)) * 3 for reads, writes in eager_operations()]
    rows = [
        ("torch, one operation\nafter the other", *eager),
        ("two fused kernels,\ns1 and s2 stored", ["x", "s1", "s2", "out"], ["s1", "s2", "dy", "dx"]),
        ("two fused kernels,\ns1 and s2 recomputed", ["x", "out"], ["x", "dy", "dx"]),
    ]
    if [(len(forward), len(backward)) for _, forward, backward in rows[1:]] != [stored, recomputed]:
        raise AssertionError("the picture and the trace count differently")
    figure = Picture(WIDTH, 3.5)
    ax = figure.subplots()
    for y, (_, forward, backward) in enumerate(rows):
        for k, name in enumerate(forward + backward):
            is_backward = k >= len(forward)
            is_read = name in ("r", "x", "dy") or (is_backward and name in ("s1", "s2"))
            colour = READ if is_read else WRITTEN
            at = k + 0.2 * is_backward
            box(ax, at, y, 0.9, 0.62, colour, name)
        ax.vlines(len(forward) + 0.05, y - 0.06, y + 0.68, color=INK, linewidth=1.4)
        total = len(forward) + len(backward)
        ax.text(total + 0.4, y + 0.31, f"{len(forward)} + {len(backward)} = {total}", va="center")
    ax.set(xlim=(-0.1, 18.6), ylim=(2.8, -0.2), xlabel="tensors read and written: forward | backward")
    ax.set_xticks([])
    ax.set_yticks([y + 0.31 for y in range(3)], [name for name, *_ in rows])
    ax.tick_params(axis="y", length=0)
    handles = [Patch(facecolor=READ, label="read (r)"), Patch(facecolor=WRITTEN, label="write (w)")]
    ax.legend(handles=handles, loc="lower right", ncols=2, frameon=False)
    bare(ax)
    ax.spines["bottom"].set_visible(False)
    figure.caption(
        "Each row computes the same derivative. The rows differ in how often tensors pass through memory (counted, not estimated)."
    )
    return figure


# ------------------------------------------------------------------------------------------------ the schedule

INSIDE = 9  # a layer keeps 9 times the bytes of its input: x, and two tensors that are four times as wide


def schedule(layers: int, segments: int) -> tuple[np.ndarray, list[tuple[str, float, float]]]:
    """Return (steps of (time, boundaries, inside), bars of (word, start, length)) of a training step. segments 0: no checkpoints.

    time counts one layer's forward as 1, its backward as 2; memory counts the bytes that pass between two layers as 1.
    Raises ValueError if there are more segments than layers.
    """
    if not 0 <= segments <= layers:
        raise ValueError(f"{layers} layers make 0 to {layers} segments, not {segments}.")
    now, edge, inside = 0.0, 0, 0
    points, bars = [(0.0, 0, 0)], []

    def step(word: str, takes: float) -> None:
        nonlocal now
        bars.append((word, now, takes))
        now += takes
        points.append((now, edge, inside))

    lengths = split_evenly(layers, segments) if segments else [layers]
    for length in lengths:
        edge += bool(segments)
        for _ in range(length):
            inside += 0 if segments else INSIDE
            step("forward", 1)
    for length in reversed(lengths):
        for _ in range(length if segments else 0):
            inside += INSIDE
            step("again", 1)
        for _ in range(length):
            step("backward", 2)
            inside -= INSIDE
            points.append((now, edge, inside))
        edge -= bool(segments)
        points.append((now, edge, inside))
    return np.array(points), bars


def peak(layers: int, segments: int) -> int:
    """Return the most memory that is alive at once, in units of a boundary."""
    points, _ = schedule(layers, segments)
    return int((points[:, 1] + points[:, 2]).max())


@on_white
def checkpoints_on_a_timeline(layers: int = 24, segments: int = 5) -> Figure:
    """Memory over the time of one training step, and the peak for every number of segments."""
    points, bars = schedule(layers, segments)
    none, most = peak(layers, 0), peak(layers, segments)
    figure = Picture(WIDTH, 4.4)
    places = figure.subplot_mosaic(
        [["line", "valley"], ["words", "valley"]], width_ratios=[2.1, 1], height_ratios=[5, 0.8]
    )
    line, words, valley = places["line"], places["words"], places["valley"]

    time, edge, inside = points.T
    line.fill_between(time, edge, step="pre", color=TWO, label="boundaries", hatch="//", edgecolor="white")
    line.fill_between(time, edge, edge + inside, step="pre", color=FOUR, label="inside of layers")
    plain, _ = schedule(layers, 0)
    line.step(plain[:, 0], plain[:, 2], where="pre", color=INK, linestyle=":", label=f"no checkpoints, up to {none}")
    line.set(ylabel="alive, in boundaries", ylim=(0, 1.3 * most), xticks=[])  # few boundaries are to be seen, too
    line.set_title(f"{layers} layers, {segments} segments")

    shown = {"forward": (ONE, ""), "again": (TWO, "//"), "backward": (THREE, "")}
    for word, (colour, hatch) in shown.items():
        spans = [(start, length) for w, start, length in bars if w == word]
        words.broken_barh(
            spans,
            (0, 1),
            facecolor=colour,
            hatch=hatch,
            edgecolor="white",
            linewidth=0.5,
            label=word.replace("again", "forward again"),
        )
    words.set(yticks=[], xlabel="time, in forward passes of a layer", xlim=line.get_xlim(), ylim=(0, 1))
    figure.legend(loc="outside upper left", ncols=3, frameon=False)

    counts = np.arange(1, layers + 1)
    peaks = [peak(layers, int(s)) for s in counts]
    valley.plot(counts, peaks, color=OURS, marker=".", markersize=5)
    valley.plot([segments], [most], "D", color=TWO, markeredgecolor=INK, markersize=8)
    side, shift = ("left", 6) if segments < layers / 2 else ("right", -6)  # where the number has room
    valley.annotate(f"{most}", (segments, most), xytext=(shift, 8), textcoords="offset points", ha=side)
    valley.set(xlabel="segments", ylabel="peak, in boundaries", ylim=(0, 1.16 * none))
    valley.grid(alpha=0.3)
    valley.locator_params(nbins=4)
    line.locator_params(axis="y", nbins=4)
    best = int(counts[int(np.argmin(peaks))])
    valley.set_title(f"least: {min(peaks)} at {best}")
    for ax in (line, words, valley):
        bare(ax)
    again = sum(length for word, _, length in bars if word == "again")
    figure.caption(
        f"The peak is {most} of {none} boundaries ({most / none:.0%}). It costs {again:g} more forward passes of a layer: "
        f"{again / (3 * layers):.0%} more FLOPs, whatever the number of segments."
    )
    return figure


class CheckpointExplorer(Explorer):
    """Sliders over checkpoints_on_a_timeline."""

    def __init__(self):
        from ipywidgets import HBox, IntSlider

        self.layers = IntSlider(24, 2, 48, description="layers")
        self.segments = IntSlider(5, 1, 24, description="segments")
        self.controls = HBox([self.layers, self.segments])
        self.layers.observe(self._fit, names="value")
        self.watch(self.segments)
        self.draw()

    def _fit(self, _change) -> None:
        """Allow no more segments than layers. The slider draws by itself if its value has to change."""
        before = self.segments.value
        self.segments.max = self.layers.value
        if self.segments.value == before:
            self.draw()

    def picture(self) -> Figure:
        return checkpoints_on_a_timeline(self.layers.value, self.segments.value)


def explore_checkpoints() -> CheckpointExplorer | Figure:
    """The picture with sliders in a notebook; the picture alone where there is no notebook or no ipywidgets."""
    return CheckpointExplorer() if live() else checkpoints_on_a_timeline()


# ------------------------------------------------------------------------------------------------ random numbers


@on_white
def masks(rows: int = 12, columns: int = 28, p: float = 0.3, seed: int = 7) -> Figure:
    """Draw what torch's dropout keeps in the forward run, and in recomputations with and without the random state put back."""

    def drawn() -> np.ndarray:
        return (torch.nn.functional.dropout(torch.ones(rows, columns), p) > 0).numpy()

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        state = torch.get_rng_state()
        forward, careless = drawn(), drawn()
        torch.set_rng_state(state)
        careful = drawn()
    figure = Picture(WIDTH, 3.1)
    titles = ["forward", "recomputed,\nthe state put back", "recomputed,\nthe state left alone"]
    for ax, again, title in zip(figure.subplots(1, 3), (forward, careful, careless), titles, strict=True):
        wrong = again != forward
        ax.imshow(
            np.where(wrong, 2, again), cmap=ListedColormap([sheer(IDLE), ONE, TWO]), vmin=0, vmax=2, aspect="auto"
        )
        ax.plot(*wrong.nonzero()[::-1], "x", color=INK, markersize=4, markeredgewidth=0.8)
        differ = "the reference" if title == "forward" else f"{int(wrong.sum())} of {wrong.size} elements differ"
        ax.set(xticks=[], yticks=[], xlabel=differ)
        ax.set_title(title)
    figure.axes[0].set_ylabel("elements of x")
    handles = [Patch(color=ONE, label="kept"), Patch(color=IDLE, label="dropped"), Patch(color=TWO, label="× differs")]
    figure.legend(handles=handles, loc="outside upper right", ncols=3, frameon=False)
    figure.caption(
        "A gradient is right only with the mask of the forward run. With another mask it belongs to a function that was never computed."
    )
    return figure


# ------------------------------------------------------------------------------------------------ measured


def timelines(segments: Sequence[int], checkpoint: Callable = checkpoint_of_torch) -> dict[int, MemoryTimeline]:
    """Count the live bytes of training steps of the small model: number of segments -> MemoryTimeline."""
    return {s: train_step(LAYERS, s, checkpoint=checkpoint) for s in segments}


def on_a_gpu(segments: Sequence[int]) -> tuple[dict[int, MemoryTimeline], str]:
    """Return the timelines of a large model, and where they were measured: this machine's GPU, or else the nearest recording."""
    if torch.cuda.is_available():
        train_step(LAYERS, 1, device="cuda", **MADE)  # libraries take their workspaces
        return {s: train_step(LAYERS, s, device="cuda", **MADE) for s in segments}, torch.cuda.get_device_name()
    kept = measured("memory_timeline")
    found = {int(s): MemoryTimeline(**timeline) for s, timeline in kept["timelines"].items()}
    nearest = {min(found, key=lambda r, s=s: (abs(r - s), bool(r) != bool(s))) for s in segments}
    return {s: found[s] for s in sorted(nearest)}, f"{kept['machine']}, recorded {kept['date']}"


def working(of: Callable[[int, int], MemoryTimeline] = train_step) -> float:
    """Return the memory that the backward pass of one layer needs besides what the layer keeps, in boundaries."""
    one = of(1, 0)
    return (one.peak - one.inside) / one.boundary


@on_white
def memory_timeline(prediction: tuple[int, int] | None = None, checkpoint: Callable | None = None) -> Figure:
    """24 layers with and without checkpoints: live bytes over the operations of one step, counted here and on a GPU.

    prediction   (segments, peak), as segments_for(24, 1, 9) returns them; anything else draws five segments and no prediction
    checkpoint   yours; torch's is used if there is none, or if yours fails
    """
    told = (
        isinstance(prediction, (tuple, list)) and len(prediction) == 2 and all(isinstance(v, int) for v in prediction)
    )
    segments = prediction[0] if told and 1 <= prediction[0] <= LAYERS else 5
    try:
        counted, whose = timelines((0, segments), checkpoint or checkpoint_of_torch), "your checkpoint"
    except Exception:  # not written yet
        counted, whose = timelines((0, segments)), "torch's checkpoint"
    whose = whose if checkpoint else "torch's checkpoint"
    on_gpu, where = on_a_gpu((0, segments))
    figure = Picture(WIDTH, 4.4)
    ax, extra, peaks = figure.subplots(), working(), []
    for steps, wide, colours in ((counted, 2.2, (OTHERS, OURS)), (on_gpu, 0.7, (INK, INK))):
        for timeline, colour in zip(steps.values(), colours, strict=True):
            alive = np.array(timeline.bytes) / timeline.boundary
            ax.plot(np.linspace(0, 1, len(alive)), alive, color=colour, linewidth=wide)
            peaks.append((alive.argmax() / (len(alive) - 1), alive.max()))
    (at, most), (_, least), *_ = peaks
    ax.annotate(f"no checkpoints: {most:.0f}", (at, most), (10, -4), textcoords="offset points", fontsize=11)
    ax.annotate(f"thin: {where}", (at, most), (38, -22), textcoords="offset points")
    note = f"{segments} segments: {least:.1f}\n{most / least:.1f} times less"
    ax.annotate(note, (0.27, least), (0, 14), textcoords="offset points", fontsize=11)
    if told:
        ax.axhline(prediction[1] + extra, color=INK, linestyle="--", linewidth=1.2)
        note = f"predicted:\n{prediction[1]} + {extra:.1f}"
        ax.annotate(note, (1.2, prediction[1] + extra), (0, 4), textcoords="offset points", ha="right")
    ax.set_title(f"counted here, {whose}")
    ax.set(xlabel="operations of one training step, first to last", ylabel="alive, in boundaries", xticks=[])
    ax.set(ylim=(0, 1.08 * most), xlim=(-0.01, 1.2))
    bare(ax)
    figure.caption(
        "A boundary is the tensor that passes from one layer to the next. The dashed line is the prediction plus "
        f"{extra:.1f} boundaries for the temporary tensors of one layer's backward pass."
    )
    return figure
