"""Measure what tracing costs, by `python benchmarks/trace.py`: every launch of kernels.py, traced by

    trace       the course's trace of today
    before      the course's trace as it was at the commit BEFORE, when it ran kernels on Triton's interpreter
    plain       Triton's interpreter (TRITON_INTERPRET=1), which counts nothing
    triton-viz  its tracer, on that interpreter

Each in a process of its own, turn by turn; a time is the median over its turns. The table goes to benchmarks/results/trace.md.
All four keep the memory that they free (KEEPS): a virtual machine may hand it back to its host meanwhile, and to get the 33 MB for the
counters of `copy, stride 32` from there again took 80 ms, where a run takes 10.
`before` is checked out into build/ from the repository's history. triton-viz is not a dependency: `--install-triton-viz` puts
it into build/, and without it its column says so.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"  # ignored by git
VIZ = BUILD / "triton-viz"
VIZ_NEEDS = ("pyarrow", "z3-solver", "anytree", "cairocffi", "flask", "flask-cloudflared", "tqdm", "setuptools")
BEFORE = "7cd458d"
OLD = BUILD / f"trace-{BEFORE}"
RESULT = ROOT / "benchmarks" / "results" / "trace.md"
TURNS = {"trace": 9, "before": 5, "plain": 1, "triton-viz": 1}  # after a first one that warms up
# Settings of glibc's: all memory comes from its heap, which never shrinks
KEEPS = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(4 << 30)}
EACH, MEDIAN = 0.5, 0.1  # what a launch may take of what it took before, at most, and in the median


# ----------------------------------------------------------------------------------------------------- one process each


def serve(how: str) -> None:
    """Answer each name on stdin with the seconds that one run of it takes."""
    sys.path[:0] = [str(OLD if how == "before" else ROOT), str(ROOT / "benchmarks")]
    wrap, around, after = (lambda kernel: kernel), nullcontext, lambda: None
    if how in ("trace", "before"):
        from course_lib.tracing import trace as around
    elif how == "triton-viz":
        import triton_viz

        wrap, after = triton_viz.trace("tracer"), triton_viz.clear
    import kernels
    import torch

    torch.set_num_threads(1)
    launches = {launch.name: launch for launch in kernels.LAUNCHES}
    wrapped: dict[int, Callable] = {}
    arguments: dict[str, list] = {}
    print("ready", flush=True)
    for name in map(str.strip, sys.stdin):
        launch = launches[name]
        kernel = wrapped.setdefault(id(launch.kernel), wrap(launch.kernel))
        given = arguments.setdefault(name, launch.on("cpu"))
        start = time.perf_counter()
        try:
            with around():
                kernel[launch.grid](*given, **launch.constants)
            print(time.perf_counter() - start, flush=True)
        except Exception as error:
            print("failed:", " ".join(str(error).split()), flush=True)
        after()


class Server:
    def __init__(self, how: str):
        environment = dict(os.environ) | KEEPS | ({} if how in ("trace", "before") else {"TRITON_INTERPRET": "1"})
        if how == "triton-viz":
            environment["PYTHONPATH"] = str(VIZ)
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve", how],
            env=environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if how == "triton-viz" else None,
        )
        ready = self._answer() == "ready"
        self.complaint = "" if ready else (self._process.stderr or sys.stdin).read().strip().splitlines()[-1]

    def _answer(self) -> str:
        return self._process.stdout.readline().strip()

    def seconds(self, name: str) -> float | None:
        """None if the kernel does not run there."""
        self._process.stdin.write(name + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        return None if not answer or answer.startswith("failed:") else float(answer)

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()


# ----------------------------------------------------------------------------------------------------- the table


def check_out_before() -> None:
    if not OLD.exists():
        OLD.mkdir(parents=True)
        archive = subprocess.run(["git", "archive", BEFORE, "course_lib"], cwd=ROOT, check=True, capture_output=True)
        subprocess.run(["tar", "-x", "-C", str(OLD)], input=archive.stdout, check=True)


def install_triton_viz() -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--target", str(VIZ)]
    subprocess.run([*pip, "--no-deps", "triton-viz==3.0"], check=True)  # it would bring a Triton of its own
    subprocess.run([*pip, *VIZ_NEEDS], check=True)


def measure(names: list[str]) -> tuple[dict[str, dict[str, float]], str]:
    """Median seconds by launch and by way, and what was wrong with triton-viz, if anything."""
    servers = {how: Server(how) for how in ("trace", "before", "plain")}
    complaint = f"not installed; run `python benchmarks/{Path(__file__).name} --install-triton-viz`"
    if VIZ.exists():
        viz = Server("triton-viz")
        complaint = f"installed, but does not start: {viz.complaint}" if viz.complaint else ""
        if not viz.complaint:
            servers["triton-viz"] = viz
    medians = {}
    for name in names:
        times: dict[str, list[float]] = {how: [] for how in servers}
        for turn in range(max(TURNS.values()) + 1):
            for how, server in servers.items():
                if turn <= TURNS[how] and (turn or TURNS[how] > 1):  # the first one warms up
                    seconds = server.seconds(name)
                    if turn and seconds is not None:
                        times[how].append(seconds)
        medians[name] = {how: statistics.median(values) for how, values in times.items() if values}
        print(f"{name:<40}", " ".join(f"{how} {t * 1e3:8.1f}" for how, t in medians[name].items()), flush=True)
    for server in servers.values():
        server.close()
    return medians, complaint


def table(medians: dict[str, dict[str, float]], complaint: str) -> tuple[str, bool]:
    """The report, and whether both goals are met."""
    import numpy
    import torch
    import triton

    ratios = {name: found["trace"] / found["before"] for name, found in medians.items()}
    lines = []
    for name, found in medians.items():
        times = [
            f"{found[how] * 1e3:.1f}" if how in found else "" for how in ("trace", "before", "plain", "triton-viz")
        ]
        lines.append(f"| {name} | {' | '.join(times)} | {ratios[name]:.3f} |")
    middle, most = statistics.median(ratios.values()), max(ratios.values())
    report = [
        "# What tracing costs",
        "",
        f"{date.today().isoformat()}, {os.cpu_count()} CPU cores, Python {sys.version.split()[0]}, torch {torch.__version__}, "
        f"triton {triton.__version__}, numpy {numpy.__version__}, triton-viz {complaint or '3.0, its tracer'}. Milliseconds: "
        f"medians of {TURNS['trace']} runs of today's trace and {TURNS['before']} of that of commit {BEFORE}, which ran kernels on "
        "Triton's interpreter, and one run of the others, turn by turn in one process each, all of which keep the memory that they "
        "free. `plain` is Triton's interpreter, which "
        "counts nothing.",
        "",
        f"Today's trace takes {middle:.3f} of the time of the one before in the median (goal {MEDIAN:g}), and {most:.3f} at most "
        f"(goal {EACH:g}).",
        "",
        "| launch | trace | before | plain | triton-viz | trace / before |",
        "| --- | --- | --- | --- | --- | --- |",
        *lines,
    ]
    return "\n".join(report), most <= EACH and middle <= MEDIAN


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--install-triton-viz", action="store_true", help="first, into build/")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return 0
    if options.install_triton_viz:
        install_triton_viz()
    check_out_before()
    sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]
    import kernels

    report, good = table(*measure([launch.name for launch in kernels.LAUNCHES]))
    print(report)
    RESULT.write_text(report + "\n")
    if not good:
        print("\nA goal is missed.")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
