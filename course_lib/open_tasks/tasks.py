"""The open tasks: functions of exercises, each on one large case, where fewer bytes than the published answer's are to be had."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from course_lib.criteria import Compiles, Correct, TritonDidTheWork
from course_lib.exercise import Case, Exercise
from course_lib.exercises.cases import BF16
from course_lib.exercises.flash.cases import heads
from course_lib.exercises.flash.whole import flash_attention_forward
from course_lib.exercises.fusion.cases import rows
from course_lib.exercises.fusion.kernels import online_softmax
from course_lib.exercises.serving.caches import paged_decode
from course_lib.exercises.serving.cases import pages, prefixed
from course_lib.exercises.serving.criteria import ReadTogether
from course_lib.exercises.tiling.criteria import ByTheCompiler
from course_lib.exercises.tiling.tuning import spilled

PROGRAMS = 32  # at least: one program that does it all would spare bytes, and leave a GPU idle


@dataclass(frozen=True)
class OpenTask:
    """A function to be rewritten so that it moves fewer bytes.

    exercise   whose function it is: its signature, its oracle and what torch may do in it
    case       what is traced;  timed  what runs on a GPU
    least      the arguments of a call -> the bytes that every answer moves; whether any answer moves no more is not known
    """

    exercise: Exercise
    case: Case
    timed: Case
    least: Callable[..., float]

    @cached_property
    def asked(self) -> Exercise:
        """Return the task as an exercise whose gates an attempt must pass. Spilled registers are refused, since they move bytes that no
        trace sees."""
        gates = (
            TritonDidTheWork(),
            Correct("performance"),
            Compiles(),
            ByTheCompiler(spilled, 0, "no spills"),
            ReadTogether(PROGRAMS, 0, f"at least {PROGRAMS} programs share the work"),
        )
        return replace(self.exercise, cases=[self.case], gates=gates, criteria=(), bonus=())

    @cached_property
    def least_bytes(self) -> float:
        return self.least(**self.case.arguments(0))


def softmax_bytes(x: torch.Tensor) -> int:
    """Count the bytes of x, read once, and of the result, written once."""
    return 2 * x.nbytes


def attention_bytes(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **_: object) -> int:
    """Count the bytes of q, k and v, read once, and of o and lse, written once."""
    return 2 * q.nbytes + k.nbytes + v.nbytes + 4 * (q.numel() // q.shape[-1])


def prefix_bytes(
    q: torch.Tensor, k_pages: torch.Tensor, table: torch.Tensor, lengths: torch.Tensor, **_: object
) -> int:
    """Count the bytes of k and v of each page, read once, however many texts it belongs to; of q, read, and the result, written once."""
    page = k_pages.shape[2]
    of_token = 2 * k_pages.shape[1] * k_pages.shape[3] * k_pages.element_size()
    shared = int((table == table[0]).all(0).sum()) * page
    return of_token * (int(lengths.sum()) - (len(lengths) - 1) * shared) + 2 * q.nbytes


PREFIX = 512  # tokens
ENDS = (16, 90, 33, 5, 64, 27, 120, 48)  # tokens of each text behind them


def texts_with_a_prefix(Hkv: int, group: int, D: int, page: int) -> Case:
    """Make the case of eight texts that begin with the same pages."""
    drawn = pages(len(ENDS), Hkv, group, [PREFIX + end for end in ENDS], D, page, BF16)
    return Case(
        f"{len(ENDS)} texts that share their first {PREFIX} tokens", "performance", prefixed(drawn, PREFIX // page)
    )


TASKS = {
    task.exercise.id: task
    for task in (
        OpenTask(
            online_softmax,
            Case("32 x 65536, float32", "performance", rows(32, 65536)),
            Case("2048 x 65536, float32", "speed", rows(2048, 65536)),
            softmax_bytes,
        ),
        OpenTask(
            flash_attention_forward,
            Case(
                "4 heads of 1024 queries and keys, D = 128, bfloat16",
                "performance",
                heads(1024, 1024, 128, BF16, lead=(4,)),
            ),
            Case("16 heads of 8192, D = 128, bfloat16", "speed", heads(8192, 8192, 128, BF16, lead=(1, 16))),
            attention_bytes,
        ),
        OpenTask(paged_decode, texts_with_a_prefix(4, 4, 64, 16), texts_with_a_prefix(8, 4, 128, 16), prefix_bytes),
    )
}
