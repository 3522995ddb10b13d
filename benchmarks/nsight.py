"""Counters of Nsight Compute, from a Python script that brackets what is to be counted with torch.cuda.profiler.start() and stop()."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

OPTIONS = ["--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base", "--profile-from-start", "off"]


def counted(script: str, arguments: Sequence[str], metrics: Sequence[str]) -> list[dict[str, float]]:
    """metric -> value for each launch, in order; what the GPU does not count is left out. Units are base units, and percent."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "counters.csv"
        profiler = ["ncu", *OPTIONS, "--log-file", str(log), "--metrics", ",".join(metrics)]
        subprocess.run([*profiler, sys.executable, script, *arguments], check=True)
        lines = [line for line in log.read_text().splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(io.StringIO("\n".join(lines))))[1:]  # the first holds the units
    return [{m: float(row[m].replace(",", "")) for m in metrics if row.get(m) not in (None, "", "n/a")} for row in rows]
