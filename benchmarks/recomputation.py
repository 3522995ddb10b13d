"""Unit 07's solutions against torch eager, torch.compile and a copy, on a GPU: `python benchmarks/recomputation.py`.

Each ratio is one interleaved run: median of the ratios baseline time / own time, and their median absolute deviation. Then
the 24-layer model of the unit: peak memory and time with and without checkpoints. The tables go to
benchmarks/results/recomputation.md; `--record` also writes what the notebook shows where there is no GPU.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import date
from pathlib import Path

import torch
import triton
from torch.nn.functional import cross_entropy, dropout, gelu, rms_norm

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from course_lib.execution import timed  # noqa: E402
from course_lib.exercise import Exercise  # noqa: E402
from course_lib.exercises.recomputation import EXERCISES  # noqa: E402
from course_lib.exercises.recomputation.oracles import RMS_EPS  # noqa: E402
from course_lib.figures.recomputation import MADE  # noqa: E402
from course_lib.hardware import measurements  # noqa: E402
from course_lib.workloads import activations  # noqa: E402
from grader.published import published  # noqa: E402
from tritontrace.profiling import bench  # noqa: E402

LAYERS, SEGMENTS, RECORDED = 24, (0, 1, 2, 4, 5, 6, 8, 12, 24), (0, 5, 12, 24)
MARGIN = 0.1  # what a reference must have above a student's full bonus
Work = Callable[[], object]


def both_halves(fn: Callable, inputs: list[torch.Tensor], dy: torch.Tensor) -> Work:
    """Forward and backward of fn(*inputs), as a function to time."""
    leaves = [x.detach().requires_grad_() for x in inputs]

    def run() -> tuple[torch.Tensor, ...]:
        out = fn(*leaves)
        return (out.detach(), *torch.autograd.grad(out, leaves, dy))

    return run


def three_sigmoids(x: torch.Tensor) -> torch.Tensor:
    return x.sigmoid().sigmoid().sigmoid()


def gated(x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
    return gelu(x) * gate


def cross_entropy_formula(x, target, lse, dloss):
    p = torch.exp(x - lse[:, None])
    return (p - (torch.arange(x.shape[1], device=x.device) == target[:, None]).to(x.dtype)) * dloss[:, None]


def rmsnorm_formula(x, weight, rstd, dy):
    n, g = x * rstd[:, None], dy * weight
    return rstd[:, None] * (g - n * (g * n).mean(1, keepdim=True)), (dy * n).sum(0)


def again(out: torch.Tensor, inputs: list[torch.Tensor], dy: torch.Tensor) -> Work:
    """The backward half of torch's own, as often as it is called."""
    return lambda: torch.autograd.grad(out, inputs, dy, retain_graph=True)


def peers(exercise: Exercise, a: dict) -> tuple[Work, Work]:
    """The same work in torch eager and in torch.compile."""
    match exercise.entry:
        case "Sigmoid3":
            fns, inputs = (three_sigmoids, torch.compile(three_sigmoids)), [a["x"]]
        case "RecomputedGelu":
            fns, inputs = (gated, torch.compile(gated)), [a["x"], a["gate"]]
        case "SeededDropout":
            drop = lambda x: dropout(x, a["p"])  # noqa: E731
            fns, inputs = (drop, torch.compile(drop)), [a["x"]]
        case "cross_entropy_backward":
            x, compiled = a["x"].detach().requires_grad_(), torch.compile(cross_entropy_formula)
            loss = cross_entropy(x, a["target"], reduction="none")
            return again(loss, [x], a["dloss"]), lambda: compiled(**a)
        case "rmsnorm_backward":
            x, weight = (a[name].detach().requires_grad_() for name in ("x", "weight"))
            compiled = torch.compile(rmsnorm_formula)
            return again(rms_norm(x, x.shape[1:], weight, RMS_EPS), [x, weight], a["dy"]), lambda: compiled(**a)
    return tuple(both_halves(fn, inputs, a["dy"]) for fn in fns)


def own_work(exercise: Exercise, a: dict) -> Work:
    function = published(exercise.id, on_the_cpu=False)
    if not isinstance(function, type):
        return lambda: function(**a)
    *names, _ = a
    tensors = [name for name in names if isinstance(a[name], torch.Tensor)]
    numbers = {name: a[name] for name in names if name not in tensors}
    return both_halves(lambda *x: function.apply(*x, *numbers.values()), [a[n] for n in tensors], a["dy"])


def row(exercise: Exercise) -> tuple[str, bool]:
    """A line of the table, and whether the solution is right and fast enough."""
    speed = exercise.bonus[0]
    a = speed.case.draw(torch.Generator("cuda").manual_seed(4))
    own = own_work(exercise, a)
    right = not timed.difference(exercise, a, own())
    nbytes = int(speed.needed(**a))
    against = [bench.ratio(own, baseline) for baseline in (bench.copy_of(nbytes), *peers(exercise, a))]
    shown = " | ".join(f"{found.speedup:.2f} ± {found.spread:.2f}" for found in against)
    line = (
        f"| {exercise.entry} | {speed.case.name} | {nbytes / 1e6:.0f} | {against[0].own_ms:.3f} | {shown} "
        f"| {nbytes / against[0].own_ms / 1e9:.2f} | {'yes' if right else 'NO'} |"
    )
    return line, right and against[0].value >= speed.full + MARGIN * speed.full


def memory() -> tuple[list[str], dict[int, activations.MemoryTimeline]]:
    """Lines of the second table: peak and time by number of segments."""
    sizes = dict(layers=LAYERS, device="cuda", **MADE)
    activations.train_step(segments=1, **sizes)  # libraries take their workspaces
    timelines = {s: activations.train_step(segments=s, **sizes) for s in SEGMENTS}
    one = activations.train_step(1, device="cuda", **MADE)
    working = (one.peak - one.inside) / one.boundary
    model = activations.deep_model(**sizes)

    def step(segments: int) -> Work:
        return lambda: activations.forward_pass(model, segments).backward()

    lines = []
    for s, timeline in timelines.items():
        predicted = (s + math.ceil(LAYERS / s) * 9 if s else LAYERS * 9) + working
        seen = timeline.peak / timeline.boundary
        slower = 1 / bench.ratio(step(s), step(0), pairs=10).speedup if s else 1.0
        lines.append(f"| {s or 'none'} | {timeline.peak / 2**30:.2f} | {seen:.1f} | {predicted:.1f} | {slower:.2f} |")
    return lines, timelines


def main() -> int:
    if not bench.has_gpu():
        print("This benchmark needs an NVIDIA GPU, sm_80 or newer.")
        return 0
    lines, passed = [], True
    for exercise in EXERCISES.values():
        if exercise.bonus:
            line, good = row(exercise)
            lines.append(line)
            passed &= good
            torch.cuda.empty_cache()
            torch._dynamo.reset()
    peaks, timelines = memory()
    machine = {"machine": torch.cuda.get_device_name(), "date": date.today().isoformat(), "torch": torch.__version__}
    table = "\n".join(
        [
            f"# Unit 07 against torch and a device-to-device copy, {machine['machine']}",
            "",
            f"{machine['date']}, torch {torch.__version__}, triton {triton.__version__}, float32. Each ratio is the other's time / "
            "own time, median of interleaved pairs ± median absolute deviation. The copy moves as many bytes as the recomputing "
            "version must; `TB/s` are those bytes over own time. Sigmoid3, RecomputedGelu and SeededDropout are forward and backward "
            "together, through autograd; the other two are backward alone: torch eager is autograd's backward, torch.compile the "
            "formula on the same inputs.",
            "",
            "| solution | size | MB | own ms | copy | torch eager | torch.compile | TB/s | right |",
            "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
            *lines,
            "",
            f"## A model of {LAYERS} layers, {MADE['tokens']} tokens, width {MADE['width']}, bfloat16",
            "",
            "What the allocator hands out during one training step beside weights, their gradients and the input. A boundary is what "
            "passes between two layers. Predicted: segments + 9 ceil(24 / segments), and what one layer's backward works with.",
            "",
            "| segments | peak, GiB | in boundaries | predicted | time, no checkpoints = 1 |",
            "| --- | --- | --- | --- | --- |",
            *peaks,
            "",
        ]
    )
    (ROOT / "benchmarks" / "results" / "recomputation.md").write_text(table)
    if "--record" in sys.argv[1:]:
        kept = machine | {"timelines": {s: asdict(timelines[s]) for s in RECORDED}}
        measurements.path("memory_timeline").write_text(json.dumps(kept, separators=(",", ":")) + "\n")
    print(table)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
