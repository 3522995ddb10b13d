"""Unit 14's persistent kernel keeps its count of steps when Triton inlines the helpers, which one way to write it does not."""

from __future__ import annotations

import torch

from grader import published
from tritontrace import compiled
from tritontrace.replay import load

EXERCISE = "hopper.persistent_matmul"
AS_PUBLISHED = (
    "for k in range(steps):\n            i = done + k\n            s = i % STAGES\n            mbarrier.wait(full"
)
FROM_DONE = "for i in range(done, done + steps):\n            s = i % STAGES\n            mbarrier.wait(full"


def loops_that_count(answer) -> int:
    """The number of loops that hand a whole number on, in the text from which Triton makes machine code."""
    tiles_of, kernel = (answer.__globals__[name] for name in ("tiles_of", "persistent_kernel"))
    a, b, c = (torch.zeros(shape, dtype=torch.float16) for shape in ((192, 128), (128, 128), (192, 128)))
    built = compiled._assembled(
        kernel, (*(tiles_of(x, 64, 64) for x in (a, b, c)), 2, 6, 2), {"STAGES": 3, "num_warps": 4}, "sm_90"
    )
    return sum("scf.for" in line and "-> (i32)" in line for line in built.asm["ttgir"].splitlines())


def of_source(source: str):
    return load(published.answer(EXERCISE, source), "persistent_matmul", on_the_cpu=True)


def test_producer_and_consumer_both_count():
    assert loops_that_count(of_source(published.solution_cell(EXERCISE))) == 2


def test_a_triton_that_is_mended_is_noticed():
    """If this fails, unit 14 and tritontrace/docs/limits.md need no longer warn of `range(done, done + steps)`."""
    source = published.solution_cell(EXERCISE)
    assert AS_PUBLISHED in source
    assert loops_that_count(of_source(source.replace(AS_PUBLISHED, FROM_DONE))) == 1
