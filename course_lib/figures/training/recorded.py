"""Training steps of the large model on a GPU, as benchmarks/model.py recorded them."""

from __future__ import annotations

from matplotlib.figure import Figure

from course_lib.exercises.training.accounting import parameters_of
from course_lib.figures.training.steps import kept_bytes
from course_lib.hardware.measurements import measured
from course_lib.workloads.gpt import LARGE
from tritontrace.colours import INK, LIBRARIES, OURS, THREE
from tritontrace.picture import WIDTH, Picture, bare, on_white

COLOURS = {"torch": (LIBRARIES, ""), "torch.compile": (THREE, "\\\\"), "the course": (OURS, "//")}


def look(name: str) -> tuple[str, str]:
    """Return the colour and hatch for a way to train, by whose kernels it runs."""
    whose = "the course" if "course" in name else "torch.compile" if "compile" in name else "torch"
    return COLOURS[whose]


def predicted_bytes() -> int:
    """Compute the bytes that a step of the large model holds at its peak, by the formulas of the exercise training_memory."""
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
        seconds, (colour, hatch) = way["step_ms"] / 1e3, look(name)
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
