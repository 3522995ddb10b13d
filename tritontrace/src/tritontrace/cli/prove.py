"""Prove that a script's kernels stay inside their tensors, for all sizes: tritontrace prove script.py

The script runs once, as for a trace. Of each access it is then asked whether any sizes let a lane reach outside its tensor, or two
programs store to one element. Exit status: 0 if all is proved, 1 if there is a counterexample, 3 if something is not decided, 2 if
the script could not be run to its end.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from html import escape
from pathlib import Path

from tritontrace.cli.script import FAULTS, FINE, cannot, card_of, named, parser_for, problem_with, run, write
from tritontrace.tracing.as_on_a_gpu import CUDA, as_on_a_gpu
from tritontrace.tracing.report import place_in

NOT_DECIDED = 3


def main(arguments: Sequence[str]) -> int:
    """Run `tritontrace prove` on a script, write the report, and return the exit status."""
    parser = parser_for(
        "tritontrace prove",
        "For all sizes: does each access stay inside its tensor, and does one program alone store to each element? "
        "Whether every element is stored, and with the right value, is not asked.",
    )
    options = parser.parse_args(arguments)
    if problem := problem_with(options):
        return cannot(problem)
    try:
        from tritontrace.proving import proofs, show
        from tritontrace.proving.host_runs import sized_launches
        from tritontrace.proving.shapes import SizedShapes
    except ModuleNotFoundError as missing:
        return cannot(f"{missing}.")
    script, card = Path(options.script), card_of(options)
    with redirect_stdout(sys.stderr), as_on_a_gpu(card, CUDA), sized_launches(SizedShapes(literals=True)) as launcher:
        problem = run(script, options.arguments, options.seconds)
    launches = launcher.launches
    if not launches:
        return cannot(problem or f"{script} launched no kernel. Does it call what it defines?")
    proof = proofs.proof_of(launches)
    sources = {launch.front.sources[0].name: launch.front.sources[0] for launch in launches}

    def where(kernel: str, line: int) -> str:
        return place_in(sources[kernel], line or sources[kernel].shown_from)

    title = f"{script}, as on {named(card)}"
    lines = [title, *show.table(proof, where).splitlines(), *([problem] if problem else [])]
    match options.format:
        case "json":
            write(
                options, json.dumps({"script": options.script, "stopped": problem, **proof.to_dict()}, indent=1) + "\n"
            )
        case "html":
            rows = "\n".join(map(escape, lines[1:]))
            write(options, f'<!doctype html><meta charset="utf-8"><title>{escape(title)}</title><pre>{rows}</pre>\n')
        case _:
            write(options, "\n".join([*lines, ""]))
    if proof.outcome == "counterexample":
        return FAULTS
    if problem:
        return cannot(problem)
    return FINE if proof else NOT_DECIDED
