"""Measure what tracing costs, by `python benchmarks/trace.py`: every launch of course_kernels.py, and ten of Liger's where it is
installed, traced by

    trace       tritontrace as it is
    before      the trace as it was at another commit, by default the last that ran kernels on Triton's interpreter; --before fcf7874
                is the last before tritontrace was a library of its own
    plain       Triton's interpreter (TRITON_INTERPRET=1), which counts nothing
    triton-viz  its tracer, on that interpreter

Each in a process of its own, turn by turn; a time is the median over its turns, in seconds of CPU, and memory the most that a process
had. The last two are measured beside the interpreter alone, and so is today's trace of a launch of 65,536 programs. The table goes to
benchmarks/results/trace.md, beside another commit to trace_COMMIT.md. The command ends with 1 if a goal is missed (GOALS).
All four keep the memory that they free (KEEPS): a virtual machine may hand it back to its host meanwhile, and to get the 33 MB for the
counters of `copy, stride 32` from there again took 80 ms, where a run takes 10.
`before` is checked out into build/ from the repository's history. triton-viz is not a dependency: `--install-triton-viz` puts
it into build/, and without it its column says so.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from datetime import date
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"  # ignored by git
VIZ = BUILD / "triton-viz"
VIZ_NEEDS = ("pyarrow", "z3-solver", "anytree", "cairocffi", "flask", "flask-cloudflared", "tqdm", "setuptools")
INTERPRETER, MOVED = "7cd458d", "fcf7874"  # the last commits before the engine, and before it was a library
GOALS = {INTERPRETER: (0.08, 0.25, 9.0), MOVED: (1.05, 9.0, 1.05)}  # of time: in the median, at most; of memory
PUBLIC = 10  # of Liger's operations
MANY, MANY_SECONDS = "65,536 programs of 1,024 elements", 2.0
RESULTS = ROOT / "benchmarks" / "results"
# Settings of glibc's: all memory comes from its heap, which never shrinks
KEEPS = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(4 << 30)}


# ----------------------------------------------------------------------------------------------------- one process each


def old(commit: str) -> Path:
    """The folder of a commit's sources."""
    return BUILD / f"trace-{commit}"


def serve(how: str, before: str) -> None:
    """Answer each name on stdin with the seconds that one run of it takes, and the most MB that the process had until then."""
    sys.path[:0] = [str(ROOT / "benchmarks")]
    wrap, around, after = (lambda kernel: kernel), nullcontext, lambda: None
    if how == "trace":
        sys.path[:0] = [str(ROOT / "tritontrace" / "src")]
        from tritontrace.tracing import trace as around
    elif how == "before":
        sys.path[:0] = [str(old(before) / "tritontrace" / "src"), str(old(before))]
        if (old(before) / "tritontrace").exists():
            from tritontrace.tracing import trace as around
        else:
            from course_lib.tracing import trace as around
        assert str(old(before)) in sys.modules[around.__module__].__file__
    elif how == "triton-viz":
        import triton_viz

        wrap, after = triton_viz.trace("tracer"), triton_viz.clear
    import course_kernels as kernels
    import torch

    torch.set_num_threads(1)
    launches = {launch.name: launch for launch in (*kernels.LAUNCHES, *public(), many())}
    wrapped: dict[int, Callable] = {}
    arguments: dict[str, list] = {}
    print("ready", flush=True)
    for name in map(str.strip, sys.stdin):
        if name not in launches:
            print("failed: it is not here", flush=True)
            continue
        launch = launches[name]
        kernel = wrapped.setdefault(id(launch.kernel), wrap(launch.kernel))
        given = arguments.setdefault(name, launch.on("cpu"))
        start = time.process_time()
        try:
            with around():
                kernel[launch.grid](*given, **launch.constants)
            seconds = time.process_time() - start
            print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, flush=True)
        except Exception as error:
            print("failed:", " ".join(str(error).split()), flush=True)
        after()


def public() -> list:
    """The forward launches of PUBLIC of Liger's operations, as Liger makes them; none where it is not installed, or a trace of that
    time cannot run its host code."""
    try:
        import liger

        return [launch for launch in liger.launches("cpu") if launch.name.endswith("forward")][:PUBLIC]
    except Exception as error:  # of another project, or of another time
        print(f"Liger's are left out: {' '.join(str(error).split())}", file=sys.stderr)
        return []


def many():
    """A launch of many programs, each of one block."""
    import course_kernels as kernels
    import torch

    n = 65536 * 1024
    arguments = lambda: (torch.ones(n), torch.ones(n), torch.empty(n), n)  # noqa: E731
    return kernels.Launch(MANY, kernels.add, (65536,), arguments, {"BLOCK": 1024})


class Server:
    def __init__(self, how: str, before: str):
        self.megabytes = 0.0
        environment = dict(os.environ) | KEEPS | ({} if how in ("trace", "before") else {"TRITON_INTERPRET": "1"})
        if how == "triton-viz":
            environment["PYTHONPATH"] = str(VIZ)
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve", how, "--before", before],
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
        if not answer or answer.startswith("failed:"):
            return None
        seconds, self.megabytes = map(float, answer.split())
        return seconds

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()


# ----------------------------------------------------------------------------------------------------- the table


def check_out(commit: str) -> None:
    if not old(commit).exists():
        archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
        old(commit).mkdir(parents=True)
        subprocess.run(["tar", "-x", "-C", str(old(commit))], input=archive, check=True)


def install_triton_viz() -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--target", str(VIZ)]
    subprocess.run([*pip, "--no-deps", "triton-viz==3.0"], check=True)  # it would bring a Triton of its own
    subprocess.run([*pip, *VIZ_NEEDS], check=True)


class Measured(NamedTuple):
    """Median seconds by launch and by way, the most MB by way, and what was wrong with triton-viz, if anything."""

    seconds: dict[str, dict[str, float]]
    megabytes: dict[str, float]
    complaint: str


def measure(names: list[str], before: str, turns: int) -> Measured:
    servers = {how: Server(how, before) for how in ("trace", "before")}
    complaint = f"not installed; run `python benchmarks/{Path(__file__).name} --install-triton-viz`"
    if before == INTERPRETER:
        servers["plain"] = Server("plain", before)
        if VIZ.exists():
            viz = Server("triton-viz", before)
            complaint = f"installed, but does not start: {viz.complaint}" if viz.complaint else ""
            if not viz.complaint:
                servers["triton-viz"] = viz
    medians: dict[str, dict[str, float]] = {}
    for name in names:
        times: dict[str, list[float]] = {how: [] for how in servers}
        for turn in range(turns + 1):
            for how, server in servers.items():
                wanted = turns if how in ("trace", "before") else 1
                if turn <= wanted and (turn or wanted > 1):  # the first one warms up
                    seconds = server.seconds(name)
                    if turn and seconds is not None:
                        times[how].append(seconds)
        medians[name] = {how: statistics.median(values) for how, values in times.items() if values}
        print(f"{name:<40}", " ".join(f"{how} {t * 1e3:8.1f}" for how, t in medians[name].items()), flush=True)
    megabytes = {how: server.megabytes for how, server in servers.items()}
    if before == INTERPRETER:
        medians[MANY] = {"trace": statistics.median(servers["trace"].seconds(MANY) or 0.0 for _ in range(4))}
    for server in servers.values():
        server.close()
    return Measured(medians, megabytes, complaint)


def table(measured: Measured, before: str, turns: int) -> tuple[str, bool]:
    """The report, and whether time and memory are as good as they are to be."""
    import numpy
    import torch
    import triton

    medians, megabytes, complaint = measured
    ratios = {
        name: found["trace"] / found["before"] for name, found in medians.items() if {"trace", "before"} <= {*found}
    }
    ways = [how for how in ("trace", "before", "plain", "triton-viz") if how in megabytes]
    lines = []
    for name, found in medians.items():
        times = [f"{found[how] * 1e3:.1f}" if how in found else "" for how in ways]
        lines.append(f"| {name} | {' | '.join(times)} | {f'{ratios[name]:.3f}' if name in ratios else ''} |")
    goals = GOALS.get(before, GOALS[MOVED])
    reached = statistics.median(ratios.values()), max(ratios.values()), megabytes["trace"] / megabytes["before"]
    middle, most, memory = reached
    others = f" `plain` is Triton's interpreter, which counts nothing; triton-viz is {complaint or '3.0, its tracer'}."
    report = [
        "# What tracing costs",
        "",
        f"{date.today().isoformat()}, {os.cpu_count()} CPU cores, Python {sys.version.split()[0]}, torch {torch.__version__}, "
        f"triton {triton.__version__}, numpy {numpy.__version__}. Milliseconds of CPU: medians of {turns} runs of today's trace and of "
        f"that of commit {before}, turn by turn in one process each, all of which keep the memory that they free."
        + (others if before == INTERPRETER else ""),
        "",
        f"Today's trace takes {middle:.3f} of the time of the one before in the median, and {most:.3f} at most. The most memory of "
        f"its process is {megabytes['trace']:.0f} MB, {memory:.3f} of the one before. Goals: {goals[0]:g} in the median, {goals[1]:g} at "
        f"most, {goals[2]:g} of memory" + (f"; {MANY_SECONDS:g} s for {MANY}." if before == INTERPRETER else "."),
        "",
        f"| launch | {' | '.join(ways)} | trace / before |",
        "| --- " * (2 + len(ways)) + "|",
        *lines,
    ]
    good = all(value <= goal for value, goal in zip(reached, goals, strict=True))
    return "\n".join(report), good and medians.get(MANY, {"trace": 0.0})["trace"] <= MANY_SECONDS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--install-triton-viz", action="store_true", help="first, into build/")
    parser.add_argument("--before", default=INTERPRETER, metavar="COMMIT", help="what to compare with")
    parser.add_argument(
        "--turns", type=int, default=9, help="runs of today's trace and of that of the commit, after one that warms up"
    )
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.before)
        return 0
    if options.install_triton_viz:
        install_triton_viz()
    check_out(options.before)
    sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks"), str(ROOT / "research")]
    import course_kernels as kernels

    names = [launch.name for launch in (*kernels.LAUNCHES, *public())]
    report, good = table(measure(names, options.before, options.turns), options.before, options.turns)
    print(report)
    name = "trace.md" if options.before == INTERPRETER else f"trace_{options.before}.md"
    (RESULTS / name).write_text(report + "\n")
    if not good:
        print("\nA goal is missed.")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
