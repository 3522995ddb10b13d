"""Unit 00, start here."""

from __future__ import annotations

import itertools
import math
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import triton
import triton.language as tl

from course_lib.catalogue import say
from course_lib.criteria import GATES, Correct, Programs, Traffic, copy_bytes, correct
from course_lib.exercise import Case, Criterion, Effort, Exercise, Finding, Trial
from course_lib.exercises import sealed
from course_lib.exercises.cases import fixed
from course_lib.exercises.misconceptions import Misconception
from course_lib.mistakes import MistakeMatcher, every, miscounted, on_exception, on_race
from course_lib.words import as_written, is_answer
from tritontrace.results import Cause
from tritontrace.tracing import trace

# ------------------------------------------------------------------------------------------------ inputs


def vector(length: int, dtype: str = "float32"):
    """Return a function that draws x (length,)."""
    return lambda g: {"x": torch.randn(length, generator=g, device=g.device).to(getattr(torch, dtype))}


# ------------------------------------------------------------------------------------------------ oracles


def issue(warps: int, latency: int, work: int, cycles: int) -> np.ndarray:
    """Return the warp (cycles,) that issues in each cycle, -1 where none can.

    A warp issues `work` cycles in a row, then waits `latency` cycles; of those that are ready, the one goes first that has
    been ready longest.
    """
    slots = np.full(cycles, -1)
    ready = [0] * warps  # the cycle from which each warp may issue
    now = 0
    while now < cycles:
        warp = min(range(warps), key=ready.__getitem__)
        now = max(now, ready[warp])
        slots[now : now + work] = warp
        now += work
        ready[warp] = now + latency
    return slots


def fewest_warps(latency: int, work: int) -> int:
    """Return the fewest warps with which no cycle of three rounds is lost, tried one after the other."""
    return next(w for w in itertools.count(1) if (issue(w, latency, work, 3 * (latency + work)) >= 0).all())


@triton.jit
def doubled(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Compute 2 x in float32, BLOCK elements for each program."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, 2.0 * tl.load(x_ptr + i, mask=i < n, other=0).to(tl.float32), mask=i < n)


def traced_doubling() -> dict[str, int]:
    """Trace the doubling of 5000 halves into floats, 1024 at a time, and return the right answers."""
    n, BLOCK = 5000, 1024
    x = torch.ones(n, dtype=torch.float16)
    with trace() as t:
        doubled[(len(range(0, n, BLOCK)),)](x, torch.empty(n), n, BLOCK=BLOCK)  # pyright: ignore[reportArgumentType]
    return {
        "programs": t.programs,
        "masked_positions": t.loads.masked,
        "bytes_loaded": t.loads.bytes,
        "bytes_stored": t.stores.bytes,
    }


# ------------------------------------------------------------------------------------------------ criteria


@dataclass
class SharedWork(Programs):
    """Criterion Programs with messages about a vector."""

    @property
    def title(self) -> str:
        return say("criteria.programs.title", programs=self.programs)


@dataclass
class Statement(Criterion):
    """One true-or-false statement. Its explanation is shown after any answer; it opens with the right one alone."""

    name: str
    points: float = 0.5
    group: str = "plain"

    @property
    def title(self) -> str:
        return self.name

    @property
    def missed(self) -> str:
        return say("criteria.result.missed", title=self.name)

    def judge(self, exercise: Exercise, trials: Sequence[Trial]) -> Finding:
        answers = trials[0].evidence.outputs[0] if trials[0].evidence.outputs else None
        answer = answers.get(self.name) if isinstance(answers, dict) else None
        if type(answer) is not bool:
            written = (
                as_written(answer)
                if isinstance(answers, dict) and self.name in answers
                else say("criteria.result.no_answer")
            )
            cause = None if is_answer(answer) else Cause("blank", self.name)
            return self.lost(say("start.myths.neither", name=self.name, written=written), cause=cause)
        explanation = opened(self.name, answer)
        if explanation is None:
            return self.lost(f"{not answer}.", detail=opened(self.name, not answer))
        return self.earned(f"{answer}.", detail=explanation)


def opened(key: str, answer: bool) -> str | None:
    """Return the explanation of a statement if `answer` is right, else None."""
    return sealed.opened(SEALED[key], f"start.myths/{key}", answer)


SEALED = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
"""Explanation of each statement, sealed with the right answer."""

# ------------------------------------------------------------------------------------------------ mistakes


def ends_early(expected: Callable[..., torch.Tensor]) -> MistakeMatcher:
    """Make a matcher that returns a remark if each wrong result is right up to some element, and wrong from there on."""

    def look(trials: Sequence[Trial]) -> str:
        told = [
            (torch.isclose(output.double(), expected(**arguments), rtol=0.01), t.evidence)
            for t in trials
            for arguments, output in t.calls
            if isinstance(output, torch.Tensor) and output.shape == arguments["x"].shape
        ]
        if any(e.faults for _, e in told) or any(right[right.int().sum() :].any() for right, _ in told):
            return ""
        runs = [(len(right), int(right.sum()), sum(launch.programs for launch in e.launches)) for right, e in told]
        cut = [(n, stored, programs) for n, stored, programs in runs if stored < n]
        if not 0 < len(cut) < len(runs):
            return ""
        lengths, _, counts = map(set, zip(*runs, strict=True))
        if len(counts) == 1 < len(lengths):
            return say("start.kernel.fixed_grid", programs=counts.pop())
        if all((n - stored) * programs <= stored for n, stored, programs in cut):  # less than a block is missing
            return say("start.add_one.only_whole_blocks")
        return say("start.kernel.too_few_programs")

    return look


def same_elements(trials: Sequence[Trial]) -> str:
    """Return a remark on a race between programs' stores, by how the stores overlap; else ""."""
    races = [(f, t.evidence.launches) for t in trials for f in t.evidence.faults if f.between == "stores"]
    stored = [
        (footprint.written_bytes, footprint.written_distinct_bytes, launch.grid)
        for fault, launches in races
        for launch in launches
        for footprint in launch.footprints
        if footprint.tensor == fault.tensor
    ]
    others = {math.prod(grid[1:]) for _, _, grid in stored}
    if len(others) == 1 < max(others) and all(
        written == distinct * math.prod(grid[1:]) for written, distinct, grid in stored
    ):
        stores = say("start.kernel.second_axis", programs=others.pop())
    elif stored and all(written == distinct * math.prod(grid) for written, distinct, grid in stored):
        stores = say("start.add_one.every_program_does_it_all")
    else:
        stores = say("start.fixed_copy.blocks_overlap")
    return on_race(stores)(trials)


WITHOUT_A_GRID = on_exception("Cannot call @triton.jit'd", say("start.kernel.no_grid"))

# ------------------------------------------------------------------------------------------------ numbers

warps_needed = Exercise(
    id="start.warps_needed",
    signature="warps_needed(latency: int, work: int) -> int",
    kind="formula",
    effort=Effort(minutes=5, lines=1, difficulty=2),
    track="more",
    cases=[
        fixed("400 and 40", "even", latency=400, work=40),
        fixed("480 and 32", "even", latency=480, work=32),
        fixed("10 and 10", "even", latency=10, work=10),
        fixed("480 and 40 and a bit", "ragged", latency=481, work=40),
        fixed("399 and 40", "ragged", latency=399, work=40),
        fixed("a short wait", "ragged", latency=1, work=100),
        fixed("no wait", "no wait", latency=0, work=5),
    ],
    oracle=fewest_warps,
    criteria=correct("start.warps_needed", {"even": 1, "ragged": 1, "no wait": 1}),
    mistakes=[
        every(
            lambda out, latency, work: out == -(-latency // work), say("start.warps_needed.forgets_the_one_that_waits")
        ),
        every(lambda out, latency, work: out == 1 + latency // work, say("start.warps_needed.rounds_down")),
    ],
)

num_programs = Exercise(
    id="start.num_programs",
    signature="num_programs(n: int, block: int) -> int",
    kind="formula",
    effort=Effort(minutes=5, lines=1, difficulty=1),
    track="more",
    cases=[
        fixed("4096 in blocks of 1024", "whole", n=4096, block=1024),
        fixed("64 in blocks of 64", "whole", n=64, block=64),
        fixed("1000 in blocks of 256", "ragged", n=1000, block=256),
        fixed("1025 in blocks of 1024", "ragged", n=1025, block=1024),
        fixed("2047 in blocks of 1024", "ragged", n=2047, block=1024),
        fixed("600 in blocks of 128", "ragged", n=600, block=128),
        fixed("1 in a block of 128", "small", n=1, block=128),
        fixed("none", "small", n=0, block=128),
    ],
    oracle=lambda n, block: len(range(0, n, block)),  # where each program starts
    criteria=correct("start.num_programs", {"whole": 1, "ragged": 1, "small": 1}),
    mistakes=[
        every(lambda out, n, block: out == n // block, say("start.num_programs.rounds_down")),
        every(lambda out, n, block: out == n // block + 1, say("start.num_programs.one_too_many")),
    ],
)

predictions = Exercise(
    id="start.predictions",
    signature="predicted_double: dict[str, int]",
    kind="values",
    effort=Effort(minutes=5, lines=4, difficulty=1),
    cases=[fixed("one launch", "plain")],
    oracle=traced_doubling,
    criteria=[Correct("plain", 4, say("start.predictions.title_plain"))],
    mistakes=[
        miscounted(
            {
                ("programs", 4): say("start.predictions.full_blocks_alone"),
                ("programs", 5000): say("start.predictions.one_for_each_element"),
                ("masked_positions", 1144): say("start.predictions.masks_one_program_too_many"),
                ("bytes_loaded", 10_240): say("start.predictions.bytes_loaded"),
                ("bytes_loaded", 5000): say("start.predictions.elements_loaded"),
                ("bytes_stored", 5000): say("start.predictions.elements_stored"),
                ("bytes_loaded", 20_000): say("start.predictions.one_dtype_for_both"),
                ("bytes_stored", 20_480): say("start.predictions.bytes_stored"),
                ("bytes_stored", 10_000): say("start.predictions.bytes_of_a_float"),
                ("programs", 5000 / 1024): say("start.predictions.a_part_of_a_program"),
                ("masked_positions", 5000 % 1024): say("start.predictions.elements_of_the_last_program"),
            }
        )
    ],
)

FIRST = {  # the statements of the main path, on what stands above them; the others are More's
    "faster_operations",
    "more_warps_than_alus",
    "warp_shares_instruction",
    "caches_are_sram",
    "compute_outgrew_memory",
    "add_one_needs_flops",
    "shared_memory_is_global",
    "program_is_thread",
    "programs_in_order",
    "launch_returns_early",
}
myths = Exercise(
    id="start.myths",
    signature="myths: dict[str, bool]",
    kind="values",
    effort=Effort(minutes=8, lines=10, difficulty=2),
    cases=[fixed("the statements", "plain")],
    oracle=lambda: {},  # each statement is judged by its seal
    criteria=[Statement(key) for key in SEALED if key in FIRST],
)

more_myths = Exercise(
    id="start.more_myths",
    signature="more_myths: dict[str, bool]",
    kind="values",
    effort=Effort(minutes=14, lines=24, difficulty=2),
    track="more",
    cases=[fixed("the statements", "plain")],
    oracle=lambda: {},
    criteria=[Statement(key) for key in SEALED if key not in FIRST],
)

# ------------------------------------------------------------------------------------------------ kernels

add_one = Exercise(
    id="start.add_one",
    signature="add_one(x: (n,), contiguous) -> (n,)",
    effort=Effort(minutes=15, lines=8, difficulty=2),
    cases=[
        Case("8192 elements", "plain", vector(8192)),
        Case("1 element", "ragged", vector(1)),
        Case("1000 elements", "ragged", vector(1000)),
        Case("5001 elements", "ragged", vector(5001)),
        Case("70001 elements", "ragged", vector(70_001)),
        Case("777 elements, float16", "float16", vector(777, "float16")),
        Case("65536 elements", "performance", vector(1 << 16)),
        Case("65536 elements, float16", "performance", vector(1 << 16, "float16")),
    ],
    oracle=lambda x: x.double() + 1,
    gates=GATES,
    criteria=[
        *correct("start.add_one", {"ragged": 4, "float16": 1}),
        Traffic(copy_bytes, 2, programs=8),
    ],
    mistakes=[
        same_elements,
        Misconception(lambda x: torch.arange(len(x)) + 1.0, say("start.add_one.adds_to_positions"), each=True),
        ends_early(lambda x: x.double() + 1),
        WITHOUT_A_GRID,
    ],
)

fixed_copy = Exercise(
    id="start.fixed_copy",
    signature="fixed_copy(x: (n,), contiguous) -> (n,)",
    effort=Effort(minutes=10, lines=9, difficulty=2),
    cases=[
        Case("8192 elements", "plain", vector(8192)),
        Case("1 element", "ragged", vector(1)),
        Case("1000 elements", "ragged", vector(1000)),
        Case("5001 elements", "ragged", vector(5001)),
        Case("70001 elements", "ragged", vector(70_001)),
        Case("65536 elements", "performance", vector(1 << 16)),
    ],
    oracle=lambda x: x.double(),
    gates=GATES,
    criteria=[
        Correct("ragged", 3, say("start.fixed_copy.title_ragged")),
        Traffic(copy_bytes, 1, programs=0),
        SharedWork(8, 2, group="performance"),
    ],
    mistakes=[same_elements, ends_early(lambda x: x.double()), WITHOUT_A_GRID],
)

EXERCISES = {
    exercise.id: exercise
    for exercise in (add_one, predictions, fixed_copy, myths, num_programs, warps_needed, more_myths)
}
