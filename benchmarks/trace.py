"""What tracing costs: the tracer against Triton's plain interpreter and triton-viz's tracer, `python benchmarks/trace.py`.

The same kernels run at the same sizes in three processes, turn by turn; a time is the median over the turns. The table
goes to benchmarks/results/trace.md. triton-viz is not a dependency: `--install-triton-viz` puts it into build/, and
without it its column says so.
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
VIZ = ROOT / "build" / "triton-viz"  # ignored by git
VIZ_NEEDS = ("pyarrow", "z3-solver", "anytree", "cairocffi", "flask", "flask-cloudflared", "tqdm", "setuptools")
RESULT = ROOT / "benchmarks" / "results" / "trace.md"
TURNS = 9
GOALS = {  # tracing may cost at most so many times the plain interpreter
    "vector add, 1 Mi, blocks of 1024": 1.5,
    "matmul, 256 x 256 x 256, tiles of 32": 1.5,
    "softmax, 64 x 1000": 0.5,
    "flash forward, causal, 2 x 256 x 64, tiles of 32": 0.5,
}


# ----------------------------------------------------------------------------------------------------- one process each


def workloads(wrap: Callable) -> dict[str, Callable[[], None]]:
    """Launches by name, each on tensors of its own. wrap: what is put around a kernel."""
    import kernels
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    add, matmul, softmax, flash = map(wrap, (kernels.add, kernels.matmul, kernels.softmax, kernels.flash_forward))
    n, size, heads, S, D = 1 << 20, 256, 2, 256, 64
    x, y, o = torch.randn(n), torch.randn(n), torch.empty(n)
    a, b, c = torch.randn(size, size), torch.randn(size, size), torch.empty(size, size)
    rows, shares = torch.randn(64, 1000), torch.empty(64, 1000)
    q, k, v, out = (torch.randn(heads, S, D) for _ in range(4))
    lse = torch.empty(heads, S)
    launches = (
        lambda: add[(n // 1024,)](x, y, o, n, BLOCK=1024),
        lambda: matmul[(size // 32, size // 32)](a, b, c, size, size, size, BLOCK=32, BLOCK_K=32, PRECISION="ieee"),
        lambda: softmax[(64,)](rows, shares, 1000, BLOCK=1024),
        lambda: flash[(S // 32, heads)](
            q, k, v, out, lse, D**-0.5, S, D=D, BLOCK_M=32, BLOCK_N=32, CAUSAL=True
        ),
    )  # fmt: skip
    return dict(zip(GOALS, launches, strict=True))


def serve(how: str) -> None:
    """Answer each name on stdin with the seconds that one run of it takes."""
    sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]
    wrap, around, after = (lambda kernel: kernel), nullcontext, lambda: None
    if how == "trace":
        from course_lib.tracing import trace as around
    elif how == "triton-viz":
        import triton_viz

        wrap, after = triton_viz.trace("tracer"), triton_viz.clear
    launches = workloads(wrap)
    print("ready", flush=True)
    for name in map(str.strip, sys.stdin):
        start = time.perf_counter()
        try:
            with around():
                launches[name]()
            print(time.perf_counter() - start, flush=True)
        except Exception as error:
            print("failed:", " ".join(str(error).split()), flush=True)
        after()


class Server:
    def __init__(self, how: str):
        environment = dict(os.environ) | ({} if how == "trace" else {"TRITON_INTERPRET": "1"})
        if how == "triton-viz":
            environment["PYTHONPATH"] = str(VIZ)
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve", how],
            env=environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.complaint = "" if self._answer() == "ready" else self._process.stderr.read().strip().splitlines()[-1]

    def _answer(self) -> str:
        return self._process.stdout.readline().strip()

    def seconds(self, name: str) -> float | None:
        """None if the kernel does not run there."""
        self._process.stdin.write(name + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        return None if answer.startswith("failed:") else float(answer)

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()


# ----------------------------------------------------------------------------------------------------- the table


def install_triton_viz() -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--target", str(VIZ)]
    subprocess.run([*pip, "--no-deps", "triton-viz==3.0"], check=True)  # it would bring a Triton of its own
    subprocess.run([*pip, *VIZ_NEEDS], check=True)


def measure() -> tuple[dict[str, dict[str, float]], str]:
    """Median seconds by workload and by way, and what was wrong with triton-viz, if anything."""
    servers = {how: Server(how) for how in ("plain", "trace")}
    complaint = f"not installed; run `python benchmarks/{Path(__file__).name} --install-triton-viz`"
    if VIZ.exists():
        viz = Server("triton-viz")
        complaint = f"installed, but does not start: {viz.complaint}" if viz.complaint else ""
        if not viz.complaint:
            servers["triton-viz"] = viz
    medians = {}
    for name in GOALS:
        times: dict[str, list[float]] = {how: [] for how in servers}
        for turn in range(TURNS + 1):
            for how, server in servers.items():
                seconds = server.seconds(name)
                if turn and seconds is not None:  # the first one warms up
                    times[how].append(seconds)
        medians[name] = {how: statistics.median(values) for how, values in times.items() if values}
    for server in servers.values():
        server.close()
    return medians, complaint


def table(medians: dict[str, dict[str, float]], complaint: str) -> tuple[str, bool]:
    """The report, and whether every goal is met."""
    import torch
    import triton

    lines, good = [], True
    for name, goal in GOALS.items():
        plain, traced, viz = (medians[name].get(how) for how in ("plain", "trace", "triton-viz"))
        good &= traced <= goal * plain and (viz is None or traced < viz)
        nothing = "not measured" if complaint else "fails"
        others = f"{viz * 1e3:.0f} | {traced / viz:.2f}" if viz else f"{nothing} | "
        lines.append(f"| {name} | {plain * 1e3:.0f} | {traced * 1e3:.0f} | {traced / plain:.2f} | {goal} | {others} |")
    report = [
        "# What tracing costs",
        "",
        f"{date.today().isoformat()}, {os.cpu_count()} CPU cores, Python {sys.version.split()[0]}, torch {torch.__version__}, "
        f"triton {triton.__version__}, triton-viz {complaint or '3.0, its tracer'}. Milliseconds, medians of {TURNS} runs, "
        "turn by turn in one process each. `plain` is Triton's interpreter (TRITON_INTERPRET=1), which counts nothing.",
        "",
        "| kernel | plain | trace | trace / plain | at most | triton-viz | trace / triton-viz |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *lines,
    ]
    return "\n".join(report), good


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
    report, good = table(*measure())
    print(report)
    RESULT.write_text(report + "\n")
    if not good:
        print("\nA goal is missed.")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
