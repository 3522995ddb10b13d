"""Simulate a script's kernels in Gluon: tritontrace simulate script.py

Each launch runs in several orders of what may happen at the same time on a Hopper GPU. The script runs as for a trace, and ends at the
first launch with a mistake. Exit status: 0, 1 if a kernel has a mistake or a fault, 2 if the script could not be run to its end.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from html import escape
from pathlib import Path
from typing import Any

from tritontrace.cli.script import FAULTS, FINE, cannot, card_of, named, parser_for, problem_with, run, write
from tritontrace.hopper.orders import ORDERS
from tritontrace.hopper.saved import as_data
from tritontrace.hopper.simulation import EveryOrder
from tritontrace.results import Hazard
from tritontrace.tracing.as_on_a_gpu import CUDA, as_on_a_gpu
from tritontrace.tracing.opening import opened
from tritontrace.tracing.recorded import Recorded
from tritontrace.tracing.report import place
from tritontrace.ttir.launching import Hazardous
from tritontrace.words import plural


class _Launcher(EveryOrder):
    """Keeps the mistakes for which it stops the script."""

    def __init__(self) -> None:
        super().__init__()
        self.hazards: list[Hazard] = []

    def launch(self, kernel: Any, args: tuple, grid: Any, options: dict[str, Any]) -> None:
        try:
            super().launch(kernel, args, grid, options)
        except Hazardous as found:
            self.hazards = found.hazards
            raise


def main(arguments: Sequence[str]) -> int:
    """Run `tritontrace simulate` on a script, write the report, and return the exit status."""
    options = parser_for(
        "tritontrace simulate", "Run a script's Gluon kernels in many orders, without a GPU."
    ).parse_args(arguments)
    if problem := problem_with(options):
        return cannot(problem)
    script, card, launcher = Path(options.script), card_of(options), _Launcher()
    with redirect_stdout(sys.stderr), as_on_a_gpu(card, CUDA), opened(launcher) as seen:
        problem = run(script, options.arguments, options.seconds)
    if not seen.launches:
        return cannot(problem or f"{script} launched no kernel. Does it call what it defines?")
    problem = "" if launcher.hazards else problem
    title = f"{script}, as on {named(card)}"
    lines = [*table(seen, launcher.hazards), *filter(None, [problem])]
    match options.format:
        case "json":
            head = {"script": options.script, "gpu": {"name": card.name, "sms": card.sms}, "stopped": problem}
            found = as_data(seen, ORDERS, launcher.hazards)
            write(options, json.dumps({**head, **found}, indent=1) + "\n")
        case "html":
            rows = "".join(f"<p>{escape(line)}</p>" for line in lines)
            write(
                options,
                f'<!doctype html><meta charset="utf-8"><title>{escape(title)}</title><h1>{escape(title)}</h1>{rows}\n',
            )
        case _:
            write(options, "\n".join([title, *lines, ""]))
    if launcher.hazards or seen.faults:
        return FAULTS
    return cannot(problem) if problem else FINE


def table(seen: Recorded, hazards: Sequence[Hazard]) -> list[str]:
    """Render a line for each launch and for what overlaps in it; each mistake with its lines; faults in global memory."""
    lines = []
    for launch in seen.launches:
        if found := launch.simulated:
            begun = ", ".join(f"{kind} from {plural(count, 'line')}" for kind, count in found.instructions.items())
            lines += [
                f"{launch.kernel}, grid {launch.grid}, right in {plural(found.orders, 'order')}: {found.shared_bytes:,} bytes of shared "
                f"memory; {begun or 'nothing asynchronous'}",
                f"  copies under way beside {found.overlapped:.0%} of the products, products beside {found.beside_products:.0%} of "
                "the exponentials",
            ]
    for hazard in hazards:
        lines += [f"{hazard.kind}: {hazard.sentence}", *(f"  {line}" for line in hazard.lines)]
    return lines + [f"{place(seen, fault.kernel, fault.line)}: {fault.kind}: {fault.sentence}" for fault in seen.faults]
