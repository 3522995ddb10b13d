"""Pictures of the large model on a GPU, as benchmarks/model.py recorded it: training steps, and tokens that are written."""

from __future__ import annotations

from matplotlib.figure import Figure

from course_lib.exercises.model.accounting import parameters_of
from course_lib.figures.model.training import kept_bytes
from course_lib.hardware.measurements import measured
from course_lib.picture import INK, OURS, THREE, WIDTH, YARDSTICK, Picture, bare, on_white
from course_lib.workloads.gpt import LARGE

COLOURS = {"torch": (YARDSTICK, ""), "torch.compile": (THREE, "\\\\"), "the course": (OURS, "//")}


def _look(name: str) -> tuple[str, str]:
    """Colour and hatch of a way, by whose kernels it runs on."""
    whose = "the course" if "course" in name else "torch.compile" if "compile" in name else "torch"
    return COLOURS[whose]


def predicted_bytes() -> int:
    """Bytes that a step of the large model holds at its peak, by the formulas of the exercise training_memory."""
    t = measured("model")["training"]
    return 16 * parameters_of(LARGE) + kept_bytes(LARGE, t["batch"], t["length"])


@on_white
def large_steps() -> Figure:
    """Draw tokens a second and peak memory of a training step of the large model, for each way to compute it."""
    found = measured("model")
    t, peak = found["training"], found["peak_flops"]
    ways = {name: way for name, way in t["ways"].items() if "step_ms" in way}
    figure = Picture(WIDTH, 0.55 * len(ways) + 1.7)
    speed, memory = figure.subplots(1, 2, sharey=True, width_ratios=[3, 2])
    tokens = t["batch"] * t["length"]
    for row, (name, way) in enumerate(ways.items()):
        seconds, (colour, hatch) = way["step_ms"] / 1e3, _look(name)
        drawn = {"color": colour, "hatch": hatch, "edgecolor": "white"}
        speed.barh(row, tokens / seconds / 1e3, **drawn)
        mfu = t["flops"] / seconds / peak
        speed.text(tokens / seconds / 1e3, row, f" {tokens / seconds / 1e3:.1f}, MFU {mfu:.2f}", va="center")
        memory.barh(row, way["peak_bytes"] / 1e9, **drawn)
        size = way["peak_bytes"] / 1e9
        memory.text(max(size, predicted_bytes() / 1e9), row, f"  {size:.1f}", va="center")
    fastest = max(tokens / way["step_ms"] for way in ways.values())
    speed.set(
        yticks=range(len(ways)), yticklabels=list(ways), xlabel="thousand tokens a second", xlim=(0, 1.35 * fastest)
    )
    most = max(way["peak_bytes"] for way in ways.values()) / 1e9
    memory.axvline(predicted_bytes() / 1e9, color=INK, linestyle="--", linewidth=1)
    memory.set(xlabel="GB at the peak", xlim=(0, 1.2 * most))
    speed.invert_yaxis()
    for ax in (speed, memory):
        bare(ax)
    figure.caption(
        f"{found['gpu']}, {found['date']}: {found['parameters'] / 1e9:.2f} B parameters in bfloat16, {t['batch']} texts of {t['length']} "
        "tokens; forward, backward and AdamW. "
        f"Dashed: what training_memory predicts for the course's kernels, {predicted_bytes() / 1e9:.1f} GB."
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
            ms, (colour, hatch) = rows[kind]["ms"], _look(kind)
            ax.barh(at, ms, color=colour, hatch=hatch, edgecolor="white")
            ax.text(ms, at, f" {ms:.2g}", va="center")
        floor = 1e3 * rows[kinds[0]]["bytes"] / bandwidth
        ax.axvline(floor, color=INK, linestyle="--", linewidth=1)
        ax.set(xlabel="ms for one token of each text", xlim=(0, 1.25 * max(row["ms"] for row in rows.values())))
        ax.set_title(f"{batch} text{'s' * (batch > 1)}: at least {floor:.2g} ms")
        bare(ax)
    figure.axes[0].set_yticks(range(len(kinds)), [kind.replace(", ", ",\n") for kind in kinds])
    figure.axes[0].invert_yaxis()
    figure.caption(
        f"{found['gpu']}, {found['date']}, after {t['after']} tokens. Dashed: the bytes of all caches and of weights that multiply, at "
        f"{bandwidth / 1e12:.2f} TB/s. If Python launches each kernel, the launches take several times as long as these bytes."
    )
    return figure
