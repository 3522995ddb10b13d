"""One variant on a GPU, in a process of its own: `python alone.py SCRIPT NAME` says on its last line how it ended, as JSON.

right    all results were right, and nothing besides them was written;  wrong  they were not
stopped  an error of the launch or of the GPU ended it
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from course_lib.execution.timed import difference
from course_lib.exercise import Exercise
from course_lib.exercises import find
from course_lib.exercises.coalescing.cases import matrix, matrix_and_index, pairs
from grader.audit import variants
from tritontrace.replay import load

RUNS = 30  # on the large inputs: threads that do not wait for one another are often lucky
LARGE = {
    "coalescing.row_copy": matrix(4096, 2000),
    "coalescing.gather_rows": matrix_and_index(4096, 2000, 4096),
    "coalescing.transpose": matrix(2048, 2048),
    "coalescing.column_sum": matrix(8192, 512),
    "coalescing.deinterleave": pairs(1 << 21),
    "fusion.online_softmax": matrix(4096, 4096),
}
CANARY, AROUND = 77, 64  # what no result is; elements of it behind each


def main(script: str, name: str) -> None:
    (variant,) = [v for v in candidates() if (v.script, v.name) == (script, name)]
    exercise = find(variant.exercise)
    function = load(variant.cells(), exercise.entry, on_the_cpu=False)
    try:
        wrong = first_wrong(exercise, function)
    except Exception as error:
        say("stopped", f"{type(error).__name__}: {error}")
    else:
        say("wrong" if wrong else "right", wrong)


def candidates() -> Sequence[variants.Variant]:
    return [*variants.scripts(), *variants.of_unit("recomputation")]


def say(outcome: str, how: str) -> None:
    print(json.dumps({"outcome": outcome, "how": how[:500]}), flush=True)


def first_wrong(exercise: Exercise, function: Any) -> str:
    """Say what is wrong in the first wrong result; "" if all are right."""
    draws = [(case.name, case.draw, 1) for case in exercise.cases if case.group != "speed"]
    if exercise.id in LARGE:
        draws.append(("the large one", LARGE[exercise.id], RUNS))
    for name, draw, times in draws:
        given = draw(torch.Generator().manual_seed(0))
        for _ in range(times):  # on inputs of its own: one that is changed is not the next run's
            there = {n: on_the_gpu(v) if isinstance(v, torch.Tensor) else v for n, v in given.items()}
            with guarded() as behind:
                results = function(**there)
            torch.cuda.synchronize()
            results = tuple(r.cpu() for r in (results if isinstance(results, tuple) else (results,)))
            if what := difference(exercise, given, results):
                return f"{name}: {what}"
            if any(bool((canaries != CANARY).any()) for canaries in behind):
                return f"{name}: written outside of a tensor"
    return ""


def on_the_gpu(x: torch.Tensor) -> torch.Tensor:
    """The same tensor there: its whole storage, so that strides stay and rows begin where they did."""
    whole = torch.empty(0, dtype=torch.uint8).set_(x.untyped_storage()).cuda()
    there = torch.empty(0, dtype=x.dtype, device="cuda")
    return there.set_(whole.untyped_storage(), x.storage_offset(), x.shape, x.stride())


@contextmanager
def guarded() -> Iterator[list[torch.Tensor]]:
    """Memory that is allocated inside is full of canaries, and so is what lies behind it: yields those."""
    behind: list[torch.Tensor] = []
    before = torch.empty, torch.zeros, torch.empty_like

    def make(*size: Any, dtype: torch.dtype | None = None, device: Any = None) -> torch.Tensor:
        shape = torch.Size(size[0] if isinstance(size[0], (tuple, list)) else size)
        whole = torch.full((prod(shape) + AROUND,), CANARY, dtype=dtype or torch.float32, device=device)
        behind.append(whole[prod(shape) :])
        return whole[: prod(shape)].view(shape)

    torch.empty = make
    torch.zeros = lambda *size, **options: make(*size, **options).zero_()
    torch.empty_like = lambda x: make(x.shape, dtype=x.dtype, device=x.device)
    try:
        yield behind
    finally:
        torch.empty, torch.zeros, torch.empty_like = before


if __name__ == "__main__":
    main(*sys.argv[1:])
