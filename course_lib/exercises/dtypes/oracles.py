"""Oracles of unit 02: tables of all numbers of a format, torch's conversions, traced kernels, and properties."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl

from course_lib.catalogue import say
from course_lib.criteria import GradedTrial
from course_lib.exercise import Criterion, Exercise, Finding, Trial
from course_lib.words import in_words
from tritontrace.tracing import trace

# ------------------------------------------------------------------------------------------------ oracles


def as_signed(pattern: int, bits: int) -> int:
    """Read a bit pattern as a signed integer of that many bits."""
    return pattern - (1 << bits) if pattern >> bits - 1 else pattern


def embedded(pattern: int, exponent_bits: int, mantissa_bits: int) -> float:
    """Decode a float format with 5 or 8 exponent bits by torch, as a float16 or a float32 with a shorter mantissa."""
    bits, full = (16, 10) if exponent_bits == 5 else (32, 23)
    whole = torch.tensor([as_signed(pattern << full - mantissa_bits, bits)])
    if bits == 16:
        return float(whole.to(torch.int16).view(torch.float16))
    return float(whole.to(torch.int32).view(torch.float32))


@cache
def ladder(exponent_bits: int, mantissa_bits: int) -> list[float]:
    """List all numbers without a sign in the order of their bit patterns, each from the one before it by adding the gap. The gap doubles at
    each power of two, from the second on."""
    gap, steps = 2.0 ** (2 - 2 ** (exponent_bits - 1) - mantissa_bits), 1 << mantissa_bits
    numbers = [0.0]
    for pattern in range(1, (1 << exponent_bits) - 1 << mantissa_bits):
        numbers.append(numbers[-1] + gap)
        if pattern % steps == 0 and pattern >= 2 * steps:
            gap *= 2
    return [*numbers, math.inf, *[math.nan] * (steps - 1)]


@cache
def truth(exponent_bits: int, mantissa_bits: int) -> Callable[[int], float]:
    """Make the function that maps a bit pattern to its number."""
    bits = 1 + exponent_bits + mantissa_bits
    if exponent_bits in (5, 8) and bits == 16:  # all at once
        dtype = torch.float16 if exponent_bits == 5 else torch.bfloat16
        return torch.arange(1 << 16).to(torch.uint16).view(dtype).tolist().__getitem__
    if exponent_bits in (5, 8):
        return lambda pattern: embedded(pattern, exponent_bits, mantissa_bits)
    numbers = ladder(exponent_bits, mantissa_bits)
    return lambda p: -numbers[p - len(numbers)] if p >= len(numbers) else numbers[p]


def same(a: Any, b: float) -> bool:
    """Whether two numbers are equal to the last bit, the sign of zero included; any NaN equals any other."""
    if type(a) not in (int, float) or (abs(a) > 1e308 and type(a) is int):
        return False
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b and math.copysign(1, a) == math.copysign(1, b)


def as_answer(output: Any, cure: str = say("dtypes.answers.item")) -> str:
    """Describe a value that came in place of a number. cure: what to do with a tensor."""
    words = in_words(output)
    return say("dtypes.answers.cured", got=words, cure=cure) if words == "a tensor" else words


def decoded(output: Any, patterns: list[int], exponent_bits: int, mantissa_bits: int) -> str:
    """Return "" if `output` holds the number of each bit pattern, else a message."""
    if not isinstance(output, list):
        return say(
            "dtypes.decode_float.no_list", patterns=len(patterns), got=as_answer(output, say("dtypes.answers.tolist"))
        )
    if len(output) != len(patterns):
        return say("dtypes.decode_float.count", patterns=len(patterns), got=len(output))
    read = truth(exponent_bits, mantissa_bits)
    wrong = [i for i, p in enumerate(patterns) if not same(output[i], read(p))]
    if not wrong:
        return ""
    p, many = patterns[wrong[0]], say("dtypes.decode_float.many", wrong=len(wrong), all=len(patterns))
    text = f"{p:0{1 + exponent_bits + mantissa_bits}b}"
    fields = f"{text[0]} {text[1 : 1 + exponent_bits]} {text[1 + exponent_bits :]}"
    return say(
        "dtypes.decode_float.wrong", many=many, first=fields, right=repr(read(p)), got=as_answer(output[wrong[0]])
    )


UNSIGNED = {  # dtype -> integers of as many bits
    "float32": torch.int32,
    "float16": torch.int16,
    "bfloat16": torch.int16,
    "float8_e5m2": torch.uint8,
    "float8_e4m3fn": torch.uint8,
}


def next_number(x: float, dtype: str) -> tuple[float, float]:
    """Return (|x| as the dtype represents it, the next larger number), by adding 1 to the bits."""
    held = torch.tensor([abs(x)]).to(getattr(torch, dtype))
    above = (held.view(UNSIGNED[dtype]) + 1).view(held.dtype)
    return float(held), float(above)


def gap(x: float, dtype: str) -> float:
    """Return the distance from the format's number nearest to x to the next larger one."""
    held, above = next_number(x, dtype)
    return above - held


def is_gap(output: Any, x: float, dtype: str) -> str:
    """Return "" if `output` is the gap of the dtype at x, else a message."""
    right = gap(x, dtype)
    return (
        ""
        if same(output, right)
        else say("dtypes.ulp.wrong", x=repr(x), dtype=repr(dtype), right=repr(right), got=as_answer(output))
    )


def rounded(x: torch.Tensor) -> torch.Tensor:
    """Round the bits of float32 numbers to those of bf16, as torch rounds."""
    return x.view(torch.float32).to(torch.bfloat16).float().view(torch.int32)


def is_nan(x: torch.Tensor) -> torch.Tensor:
    """Mark the bit patterns that stand for NaN in float32."""
    return x.view(torch.float32).isnan()


def bit_exact(output: Any, x: torch.Tensor) -> str:
    """Return "" if `output` has the bits of torch's own rounding, else a message; any NaN whose lower bits are 0 will do."""
    if not isinstance(output, torch.Tensor) or output.dtype != torch.int32 or output.shape != x.shape:
        return say("dtypes.round_to_bf16.no_bits", shape=str(tuple(x.shape)))
    right = rounded(x)
    wrong = (output != right) & ~(is_nan(output) & is_nan(right) & (output & 0xFFFF == 0))
    if not wrong.any():
        return ""
    i = int(wrong.nonzero()[0])
    bits = [f"0x{int(t[i]) & 0xFFFFFFFF:08X}" for t in (x, right, output)]
    wanted = say("dtypes.round_to_bf16.any_nan") if bool(is_nan(right)[i]) else bits[1]
    return say(
        "dtypes.round_to_bf16.wrong", bits=bits[0], right=wanted, got=bits[2], wrong=int(wrong.sum()), all=x.numel()
    )


@triton.jit
def relu_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """Compute max(x, 0) of BLOCK elements in float32."""
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i).to(tl.float32)
    tl.store(out_ptr + i, tl.maximum(x, 0.0).to(out_ptr.dtype.element_ty))


def traced_intensity(dtype: str) -> float:
    """Return the FLOPs per byte of a ReLU, as the trace counts both."""
    x = torch.ones(1024).to(getattr(torch, dtype))
    with trace() as t:
        relu_kernel[(1,)](x, torch.empty_like(x), BLOCK=1024)  # pyright: ignore[reportArgumentType]
    return t.launches[0].flops.total / (t.loads.bytes + t.stores.bytes)


def counter_stops(dtype: torch.dtype) -> float:
    """Return the number at which 0 + 1 + 1 + ... no longer grows, found by counting."""
    counter, one = torch.zeros((), dtype=dtype), torch.ones((), dtype=dtype)
    while counter + one != counter:
        counter = counter + one
    return float(counter)


@cache
def outcomes() -> dict[str, float]:
    """Run the programs whose results students predict, and return the results."""
    half, brain = torch.float16, torch.bfloat16
    return {
        "tiny_fp16": float(torch.tensor(1e-8).to(half) * 1000),
        "square_fp16": float(torch.tensor(300.0, dtype=half) * torch.tensor(300.0, dtype=half)),
        "weight_bf16": float(torch.tensor(1.0, dtype=brain) + torch.tensor(0.003, dtype=brain)),
        "weight_fp16": float(torch.tensor(1.0, dtype=half) + torch.tensor(2.0**-10, dtype=half)),
        "counter_bf16": counter_stops(brain),
        "above_2048_fp16": gap(2048.0, "float16"),
    }


# ------------------------------------------------------------------------------------------------ properties


@dataclass
class Ran(Criterion):
    """Gate for exercises that are judged by properties alone: every case ran, with the operations that are allowed.

    dtypes: those that torch may compute; none: all.
    """

    missed = say("criteria.seen.does_not_run")
    dtypes: Sequence[str] = ()
    points: float = 0
    title: str = say("dtypes.ran.title")

    def judge(self, exercise: Exercise, trials: Sequence[Trial]) -> Finding:
        for trial in trials:
            judged = GradedTrial.of(exercise, trial)
            problem, cause = judged.stopped, judged.cause
            if not problem and trial.evidence.faults:
                problem, cause = trial.evidence.faults[0].sentence, trial.evidence.faults[0].cause
            problem = problem or self._other_dtype(trial)
            if problem:
                expected = say("dtypes.ran.expected", case=trial.case.name)
                return self.lost(problem, expected=expected, cause=cause, at=judged.at)
        return self.earned(say("dtypes.ran.cases", cases=len(trials)))

    def _other_dtype(self, trial: Trial) -> str:
        """Say so if torch computed another dtype, such as that of a view, or a kernel something."""
        if self.dtypes and trial.evidence.launches:
            return say("dtypes.ran.kernel", kernel=trial.evidence.launches[0].kernel, dtype=self.dtypes[0])
        for op in trial.evidence.operations if self.dtypes else ():
            other = next((dtype for dtype in op.dtypes if dtype not in self.dtypes), "")
            if other:
                return say("dtypes.ran.other_dtype", other=other, operation=op.name, dtype=self.dtypes[0])
        return ""


def quantized(output: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | str:
    """Return q (rows, columns) and scale (rows,) of an output, or a message on what is wrong with their types and shapes."""
    if not isinstance(output, list) or len(output) != 2 or not all(isinstance(t, torch.Tensor) for t in output):
        return say("dtypes.quantize_rows.no_pair")
    q, scale = output
    if q.dtype != torch.int8 or q.shape != x.shape:
        return say("dtypes.quantize_rows.q", right=str(tuple(x.shape)), dtype=str(q.dtype), shape=str(tuple(q.shape)))
    if scale.dtype != torch.float32 or scale.shape != x.shape[:1]:
        return say("dtypes.quantize_rows.scale", rows=x.shape[0], dtype=str(scale.dtype), shape=str(tuple(scale.shape)))
    return q, scale


def within_half_a_step(output: Any, x: torch.Tensor) -> str:
    """Return "" if each q * scale lies within half a step of x (and a rounding error of the division), else a message."""
    found = quantized(output, x)
    if isinstance(found, str):
        return found
    q, scale = found[0].double(), found[1].double()[:, None]
    error = (q * scale - x.double()).abs()
    good = error <= 0.5 * scale * (1 + 1e-4)  # x / scale is rounded too, by less than 128 x 2^-24 of a step
    if good.all():
        return ""
    row, column = (int(i) for i in (~good).nonzero()[0])
    steps = float(error[row, column] / scale[row, 0])
    return say("dtypes.quantize_rows.off", row=row, column=column, steps=steps, wrong=int((~good).sum()), all=x.numel())


def least_step(output: Any, x: torch.Tensor) -> str:
    """Return "" if the step of each row is the smallest with which its largest element fits into -127 ... 127, else a message."""
    found = quantized(output, x)
    if isinstance(found, str):
        return found
    scale, least = found[1].double(), x.double().abs().amax(1) / 127
    off = (scale - least).abs() > 1e-5 * least
    good = (~off | (least == 0)) & scale.isfinite()  # a row of zeros may have any step that is a number
    if bool(good.all()):
        return ""
    row = int((~good).nonzero()[0])
    return say("dtypes.quantize_rows.step", row=row, step=float(scale[row]), least=float(least[row]))


def zeros_stay(output: Any, x: torch.Tensor) -> str:
    """Return "" if rows of zeros are zeros in q, too, with a step above 0, and the other rows are within half a step; else a message."""
    problem = within_half_a_step(output, x)
    if problem:
        return problem
    q, scale = output
    empty = (x == 0).all(1)
    if (q[empty] != 0).any():
        return say("dtypes.quantize_rows.zeros")
    good = scale.isfinite() & (scale > 0)
    return (
        ""
        if good.all()
        else say("dtypes.quantize_rows.zero_step", row=int((~good).nonzero()[0]), step=float(scale[~good][0]))
    )
