"""Counters of Nsight Compute (`ncu`), of a process that brackets what is to be counted with torch.cuda.profiler.start() and stop()."""

from __future__ import annotations

import csv
import io
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["L1", "OPTIONS", "SUMS", "XBAR", "NotCounted", "added", "counted", "is_here", "names"]

OPTIONS = ["--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base", "--profile-from-start", "off"]

XBAR = "l1tex__m_xbar2l1tex_read_sectors"  # from L2, over the crossbar, into L1
L1 = "l1tex__t_sectors_pipe_lsu_mem"  # at L1's own door
SUMS: dict[str, tuple[str, ...]] = {  # each is the sum of these counters
    "load_sectors": (f"{XBAR}_mem_lg_op_ld", f"{XBAR}_pipe_tma"),
    "store_sectors": ("l1tex__m_l1tex2xbar_write_sectors",),
    "dram_read_bytes": ("dram__bytes_read",),
    "dot_flops": (
        "sm__ops_path_tensor_src_fp16",
        "sm__ops_path_tensor_src_bf16_dst_fp32",
        "sm__ops_path_tensor_src_tf32_dst_fp32",
    ),
    "l1_hits": (f"{L1}_global_op_ld_lookup_hit",),
    "l1_load_sectors": (f"{L1}_global_op_ld",),
    "l1_store_sectors": (f"{L1}_global_op_st",),
    "spill_loads": (f"{L1}_local_op_ld",),
    "spill_stores": (f"{L1}_local_op_st",),
}


class NotCounted(RuntimeError):
    """Raised, with a message, where Nsight Compute counted nothing, or not everything."""


def is_here() -> bool:
    """Whether `ncu` is on the PATH.

    >>> is_here() in (True, False)
    True
    """
    return shutil.which("ncu") is not None


def counted(
    command: Sequence[str],
    metrics: Sequence[str],
    environment: Mapping[str, str] | None = None,
    seconds: float | None = None,
) -> list[dict[str, float]]:
    """Run a command under Nsight Compute, and return metric -> value for each of its launches, in order; what the GPU does not count is
    left out. Units are base units, and percent. Raises NotCounted if the command or the profiler fails, or takes longer than `seconds`.

    >>> counted(["python", "script.py"], names(SUMS))  # on a GPU
    Traceback (most recent call last):
        ...
    tritontrace.profiling.nsight.NotCounted: ...
    """
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "counters.csv"
        profiler = ["ncu", *OPTIONS, "--log-file", str(log), "--metrics", ",".join(metrics)]
        try:
            done = subprocess.run([*profiler, *command], env=os.environ | dict(environment or {}), timeout=seconds)
        except subprocess.TimeoutExpired:
            raise NotCounted(f"Nsight Compute was not done after {seconds:g} seconds") from None
        text = log.read_text() if log.exists() else ""
    if done.returncode or "==ERROR==" in text:
        said = [line.removeprefix("==ERROR==").strip() for line in text.splitlines() if line.startswith("==ERROR==")]
        raise NotCounted(f"Nsight Compute failed ({said[0] if said else f'exit status {done.returncode}'})")
    lines = [line for line in text.splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(io.StringIO("\n".join(lines))))[1:]  # the first holds the units
    return [{m: float(row[m].replace(",", "")) for m in metrics if row.get(m) not in (None, "", "n/a")} for row in rows]


def added(row: Mapping[str, float], sums: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Sum the counters of a launch by name; what was not counted is 0.

    >>> added({"loads.sum": 3.0, "stores.sum": 4.0}, {"both": ["loads", "stores"], "others": ["atomics"]})
    {'both': 7.0, 'others': 0.0}
    """
    return {name: sum(row.get(f"{counter}.sum", 0.0) for counter in counters) for name, counters in sums.items()}


def names(sums: Mapping[str, Sequence[str]]) -> list[str]:
    """List the metrics that `added` sums.

    >>> names({"both": ["loads", "stores"]})
    ['loads.sum', 'stores.sum']
    """
    return sorted({f"{counter}.sum" for counters in sums.values() for counter in counters})
