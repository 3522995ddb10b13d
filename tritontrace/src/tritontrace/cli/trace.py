"""Trace a script: tritontrace script.py

The script runs unchanged, on this CPU: torch and Triton answer it as on a GPU, tensors lie in ordinary memory, and each launch is
counted. Exit status: 0, 1 if a kernel has a fault, 2 if the script could not be traced to its end.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

from tritontrace import gpu
from tritontrace.cli.script import (
    FAULTS,
    FINE,
    NOT_TRACED,
    cannot,
    card_of,
    named,
    parser_for,
    positive,
    problem_with,
    run,
    write,
)
from tritontrace.tracing import Trace, report, trace
from tritontrace.tracing.as_on_a_gpu import CUDA, as_on_a_gpu
from tritontrace.tracing.saved import as_data


def main(arguments: Sequence[str]) -> int:
    """Run `tritontrace trace` on a script, write the report, and return the exit status."""
    parser = parser_for("tritontrace", "Count what a script's Triton kernels do to memory, without a GPU.")
    parser.epilog = (
        "Other commands, each with its own --help: tritontrace simulate script.py, for kernels in Gluon; "
        "tritontrace prove script.py, for all sizes; "
        "tritontrace diff old.py new.py."
    )
    parser.add_argument(
        "--other",
        choices=("undefined", "zero"),
        default="undefined",
        help="what masked loads without `other` give: 0 is what NVIDIA's GPUs do, and Triton does not promise it",
    )
    parser.add_argument(
        "--sample",
        type=positive,
        metavar="PROGRAMS",
        help="of a launch with more programs, run and count so many alone: the first, the last, and others evenly between",
    )
    parser.add_argument(
        "--warps",
        action="store_true",
        help="ask the compiler, too: how wide lanes load and store, the sectors of each request, bank conflicts",
    )
    options = parser.parse_args(arguments)
    if problem := problem_with(options):
        return cannot(problem)
    script, card = Path(options.script), card_of(options)
    # what is printed to stdout may be JSON: what the script prints goes where a person reads
    with (
        redirect_stdout(sys.stderr),
        as_on_a_gpu(card, CUDA),
        trace(other=options.other, sample=options.sample) as traced,
    ):
        problem = run(script, options.arguments, options.seconds)
    if not traced.launches and not problem:
        problem = f"{script} launched no kernel, so there is nothing to count. Does it call what it defines?"
    if options.warps and traced.launches:
        traced.warps(card.architecture)
    if traced.launches:
        write(options, _report(options, traced, card, problem))
    if traced.faults:
        return FAULTS
    shown = traced.launches and options.format == "table" and not options.output  # the problem is its last line
    return NOT_TRACED if problem and shown else cannot(problem) if problem else FINE


def _report(options: argparse.Namespace, traced: Trace, card: gpu.GPU, problem: str) -> str:
    title = f"{options.script}, as on {named(card)}"
    match options.format:
        case "json":
            head = {"script": options.script, "gpu": {"name": card.name, "sms": card.sms}, "stopped": problem}
            return json.dumps({**head, **as_data(traced)}, indent=1) + "\n"
        case "html":
            return report.page(traced, title, problem)
        case _:
            return f"{title}\n{report.table(traced)}\n" + (f"{problem}\n" if problem else "")
