"""Measure what a unit costs the kernel of its notebook, by `python benchmarks/whole_units.py [UNIT ...]`, all units if none.

Every cell of the solved notebook runs in a kernel as JupyterLab starts one. Seconds are of CPU, over the kernel and the children that
it has waited for: of the first cell, which imports, of the first check, and of all cells. Memory is the kernel's own, without its
children: after the last cell, and the most that it had. The table goes to benchmarks/results/whole_units.md.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from datetime import date
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import nbformat  # noqa: E402
from grading import cpu_of  # noqa: E402
from imports import bytecode_kept  # noqa: E402
from jupyter_client.manager import KernelManager  # noqa: E402

from course_lib.exercises import UNITS  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "whole_units.md"
PATIENCE = 900  # seconds on the clock for a cell
GOAL_CHECK, GOAL_MEMORY = 1.5, 450  # seconds of a session's first check, and MB after a unit


class Costs(NamedTuple):
    """Seconds of CPU, and MB."""

    imports: float
    check: float
    cells: float
    after: int
    most: int


def megabytes(pid: int) -> tuple[int, int]:
    """(what a process has in memory, the most that it had)."""
    sizes = dict(re.findall(r"(VmRSS|VmHWM):\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text()))
    return int(sizes["VmRSS"]) // 1024, int(sizes["VmHWM"]) // 1024


def costs(unit: str) -> Costs:
    """Run a unit's solved notebook. RuntimeError names the cell that fails."""
    notebook = nbformat.read(ROOT / "solutions" / unit / f"{unit}.ipynb", as_version=4)
    manager, folder = KernelManager(), tempfile.mkdtemp(prefix="unit-")
    manager.start_kernel(cwd=folder, env=bytecode_kept() | {"COURSE_PROGRESS": os.devnull, "PYTHONPATH": str(ROOT)})
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=PATIENCE)
        pid = manager.provisioner.pid
        began = before = cpu_of(pid)
        imports = check = 0.0
        for number, cell in enumerate(cell for cell in notebook.cells if cell.cell_type == "code"):
            reply = client.execute_interactive(cell.source, timeout=PATIENCE, output_hook=lambda message: None)
            if reply["content"]["status"] != "ok" and "raises-exception" not in cell.metadata.get("tags", []):
                raise RuntimeError(f"{unit}, code cell {number}: {reply['content'].get('evalue')}")
            spent = cpu_of(pid)
            imports = imports or spent - before
            if not check and re.search(r"^check\(", cell.source, re.M):
                check = spent - before
            before = spent
        return Costs(imports, check, before - began, *megabytes(pid))
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def main() -> None:
    rows = {}
    for unit in sys.argv[1:] or UNITS:
        rows[unit] = costs(unit)
        print(f"{unit:<30}", *(f"{value:8.2f}" for value in rows[unit]), flush=True)
    if len(rows) < len(UNITS):
        return
    head = (
        f"{date.today().isoformat()}, Python {sys.version.split()[0]}, {len(os.sched_getaffinity(0))} cores, no GPU. The first check of a "
        f"session takes {max(row.check for row in rows.values()):.2f} s of CPU at most (goal {GOAL_CHECK:g}), and a kernel has "
        f"{max(row.after for row in rows.values())} MB after its unit at most (goal {GOAL_MEMORY})."
    )
    lines = [
        f"| {unit} | {row.imports:.2f} | {row.check:.2f} | {row.cells:.0f} | {row.after} | {row.most} |"
        for unit, row in rows.items()
    ]
    text = "\n".join(
        [
            "# What a unit costs its kernel",
            "",
            head,
            "",
            "| unit | first cell, s | first check, s | all cells, s | MB after | most MB |",
            "| --- | ---: | ---: | ---: | ---: | ---: |",
            *lines,
            "",
        ]
    )
    RESULT.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
