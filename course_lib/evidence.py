"""Evidence: what is observed of a case, as plain data (numbers, strings, tensors).

It crosses process borders and holds nothing of the student's: it outlives the child in which the student's code ran.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from tritontrace.results import Replay, Steps


@dataclass
class Timing:
    """A speed ratio measured on a GPU in one interleaved run: baseline's time / the answer's time, with its spread."""

    case: str
    baseline: str
    ratio: float
    spread: float
    gpu: str
    problem: str = ""  # one sentence if there is nothing to measure; the ratio is then 0
    microseconds: float = 0.0  # of a run
    by_machine: bool = False  # whether the problem is the machine's, and no fault of the kernel


@dataclass
class GPURun:
    """Results of a case's calls on a GPU, where the compiled kernels ran on the inputs that were traced.

    outputs   as in Evidence
    error     "stopped": the GPU ended a kernel;  "endless": a kernel had no end
    not_run   why nothing is known, through no fault of the kernel: "busy", "memory", "compiler", "failed"
    said      the driver's or the compiler's words
    waiting   how many others waited for a busy GPU
    """

    gpu: str
    outputs: list[Any] = field(default_factory=list)
    error: Literal["", "stopped", "endless"] = ""
    not_run: Literal["", "busy", "memory", "compiler", "failed"] = ""
    said: str = ""
    waiting: int = 0


@dataclass
class Formula:
    """How a wrong result compares with the oracle where nothing is rounded: a wrong formula, or only wrong rounding.

    right    it is the right result
    like     places in Exercise.mistakes of those that give just this, and not the right result
    """

    right: bool
    like: list[int] = field(default_factory=list)


@dataclass
class SmallestFault:
    """The smallest input for which a kernel reaches outside a tensor.

    shapes   (argument, its shape)
    line     of the kernel that does it, with the tensor that it means and what it does: load, store or atomic
    """

    shapes: list[tuple[str, tuple[int, ...]]]
    line: int
    tensor: str
    op: str


# trap: holds nothing of the student's but plain data, since it outlives the child that ran their code
@dataclass
class Evidence(Replay):
    """Everything that was observed of one case: what the engine saw of it, and what only a check asks for.

    did      of each call of a formula: what was asked of a simulated GPU
    steps    of each call of a formula with two halves
    on_gpu   what the compiled kernels did on a GPU
    timing   against a baseline, there
    formula  of a call with a wrong result
    smallest the smallest input for which a kernel reaches outside a tensor, where one does in this case
    printed  what the student's code printed
    """

    did: list[list[str]] = field(default_factory=list)
    steps: list[Steps] = field(default_factory=list)
    on_gpu: GPURun | None = None
    timing: Timing | None = None
    formula: Formula | None = None
    smallest: SmallestFault | None = None
    printed: str = ""
