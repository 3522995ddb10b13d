"""Unit 06's solutions against quack and Liger, on a GPU: `python benchmarks/fusion_peers.py`, after `pip install -e .[peers]`.

Each ratio is one interleaved run on the same inputs, where both results are right. The table goes to
benchmarks/results/fusion_peers.md; half a minute on an H200. It fails where a solution is slower than a peer by more than noise.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import torch
import triton

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks"), str(ROOT / "research")]

import fusion  # noqa: E402
import peers  # noqa: E402

from course_lib import exercises  # noqa: E402
from course_lib.execution import timed  # noqa: E402
from tritontrace.profiling import bench  # noqa: E402

ROWS = (1024, 4096, 8192, 32768)
FLOOR = 0.98  # 1, but for noise


def of_quack() -> dict[str, Callable]:
    """Return quack's functions, called as the solutions are."""
    from quack.rmsnorm import rmsnorm_fwd
    from quack.softmax import softmax_fwd

    return {
        "softmax": softmax_fwd,
        "rmsnorm": lambda x, weight, eps: rmsnorm_fwd(x, weight, eps=eps)[0],
        "add_rmsnorm": lambda x, residual, weight, eps: rmsnorm_fwd(x, weight, residual=residual, eps=eps)[:2],
    }


def of_liger() -> dict[str, Callable]:
    """Return Liger's functions, called as the solutions are."""
    from liger_kernel.ops.fused_add_rms_norm import LigerFusedAddRMSNormFunction
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction
    from liger_kernel.ops.softmax import LigerSoftmaxFunction

    return {
        "softmax": LigerSoftmaxFunction.apply,
        "rmsnorm": LigerRMSNormFunction.apply,
        "add_rmsnorm": LigerFusedAddRMSNormFunction.apply,
    }


PEERS = {peers.QUACK: of_quack, peers.LIGER: of_liger}


def measured() -> Iterator[dict[str, Any]]:
    """Yield a row for each kernel, length and peer: the ratio, or why the peer has none."""
    theirs = {peer.name: functions() for peer, functions in PEERS.items() if not peer.problem}
    for name in ("softmax", "rmsnorm", "add_rmsnorm"):
        exercise, own = exercises.fusion.EXERCISES[f"fusion.{name}"], fusion.solution(name)
        for N in ROWS:
            arguments = fusion.DRAWN[name](fusion.ELEMENTS // N, N)(torch.Generator("cuda").manual_seed(6))
            for peer, functions in theirs.items():
                row = {"name": name, "N": N, "peer": peer, "value": None}
                yield row | against(exercise, arguments, own, functions[name])
            del arguments
            torch.cuda.empty_cache()


def against(exercise, arguments: dict[str, Any], own: Callable, other: Callable) -> dict[str, Any]:
    """Return the ratio of times, or what keeps one of the two from being timed."""
    for whose, function in (("own", own), ("peer", other)):
        try:
            wrong = timed.difference(exercise, arguments, function(*arguments.values()))
        except Exception as error:  # of another project: it may raise any
            return {"failed": whose, "why": peers.reason(error)[:80]}
        if wrong:
            return {"failed": whose, "why": wrong}
    found = bench.ratio(lambda: own(*arguments.values()), lambda: other(*arguments.values()))
    return {"value": found.speedup, "spread": found.spread, "own_ms": found.own_ms, "peer_ms": found.baseline_ms}


def line(row: dict[str, Any]) -> str:
    """Return a row of the table."""
    if row["value"] is None:
        shown = f" | | {'the solution' if row['failed'] == 'own' else row['peer']} is not right: {row['why']}"
    else:
        shown = f"{row['own_ms']:.4f} | {row['peer_ms']:.4f} | {row['value']:.3f} ± {row['spread']:.3f}"
    return f"| {row['name']} | {fusion.ELEMENTS // row['N']} x {row['N']} | {row['peer']} | {shown} |"


def report(rows: list[dict[str, Any]], versions: dict[str, str], machine: str) -> str:
    """Return the page of results."""
    return "\n".join(
        [
            f"# Unit 06 against quack and Liger, {machine}",
            "",
            f"{date.today().isoformat()}, torch {torch.__version__}, triton {triton.__version__}, float32. `ratio` is the peer's time "
            f"/ the solution's, median of interleaved pairs ± median absolute deviation. {peers.told(versions)}",
            "",
            "| kernel | size | peer | ms | peer's ms | ratio |",
            "| --- | --- | --- | --- | --- | --- |",
            *map(line, rows),
            "",
        ]
    )


def main() -> int:
    if not bench.has_gpu():
        print("This benchmark needs an NVIDIA GPU, sm_80 or newer.")
        return 0
    rows = list(measured())
    text = report(rows, peers.here(PEERS), torch.cuda.get_device_name())
    print(text)
    if not rows:
        print("There is no peer to measure against: pip install -e .[peers]")
        return 0
    timed_ones = {row["peer"] for row in rows if row["value"] is not None}
    why = {row["peer"]: row["why"] for row in rows if row.get("failed") == "peer" and row["peer"] not in timed_ones}
    peers.note(PEERS, why, torch.cuda.get_device_name())
    (ROOT / "benchmarks" / "results" / "fusion_peers.md").write_text(text)
    return 0 if all(row.get("failed") != "own" and (row["value"] or 1) >= FLOOR for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
