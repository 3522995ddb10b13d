"""Unit 02, dtypes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl

from course_lib.cases import ARITHMETIC, INTEGERS, integer
from course_lib.criteria import (
    Compiles,
    Correct,
    Holds,
    Judged,
    NoBufferOfSize,
    Speed,
    Traffic,
    TritonDidTheWork,
    copy_bytes,
    sum_budget,
)
from course_lib.exercise import Case, Criterion, Exercise, Finding, Trial
from course_lib.mistakes import Mistake, every
from course_lib.tracing import trace

# ------------------------------------------------------------------------------------------------ inputs


def normal(*shape: int, dtype: torch.dtype = torch.float32, times: float = 1.0, plus: float = 0.0):
    """A drawing of x, normal around `plus`."""

    def draw(generator: torch.Generator) -> dict[str, torch.Tensor]:
        values = torch.randn(*shape, generator=generator, device=generator.device)
        return {"x": values.mul_(times).add_(plus).to(dtype)}

    return draw


def sizes(n: int, low: float, high: float, dtype: torch.dtype, scale: float):
    """A drawing of x (n,) of either sign with sizes between low and high, and the number `scale`."""

    def draw(generator: torch.Generator) -> dict[str, Any]:
        sign = torch.randint(0, 2, (n,), generator=generator, device=generator.device) * 2 - 1
        size = torch.rand(n, generator=generator, device=generator.device) * (high - low) + low
        return {"x": (sign * size).to(dtype), "scale": scale}

    return draw


def cancelling(rows: int, blocks: int):
    """A drawing of x (rows, 5 * blocks) float16: large numbers a, b, -a, -b, and as many small ones as blocks."""

    def draw(g: torch.Generator) -> dict[str, torch.Tensor]:
        pairs = torch.rand(rows, blocks, 2, generator=g, device=g.device) * 30000 + 30000
        small = torch.randn(rows, blocks, generator=g, device=g.device)
        return {"x": torch.cat([torch.cat([pairs, -pairs], 2).flatten(1), small], 1).half()}

    return draw


def patterns(exponent_bits: int, mantissa_bits: int, chosen: Callable[[torch.Generator], list[int]]):
    """A drawing of arguments for decode_float."""
    return lambda g: {"patterns": chosen(g), "exponent_bits": exponent_bits, "mantissa_bits": mantissa_bits}


def drawn_patterns(exponent_bits: int, mantissa_bits: int, fields: range, n: int = 40):
    """n patterns of either sign whose exponent field lies in `fields`, with a mantissa that is not 0."""

    def chosen(g: torch.Generator) -> list[int]:
        return [
            integer(g, 0, 1) << exponent_bits + mantissa_bits
            | integer(g, fields.start, fields.stop - 1) << mantissa_bits
            | integer(g, 1, (1 << mantissa_bits) - 1)
            for _ in range(n)
        ]

    return patterns(exponent_bits, mantissa_bits, chosen)


def specials(exponent_bits: int, mantissa_bits: int) -> list[int]:
    """Zero, infinity, the largest number and NaN, of either sign."""
    infinity = (1 << exponent_bits) - 1 << mantissa_bits
    half = 1 << exponent_bits + mantissa_bits
    return [sign | p for sign in (0, half) for p in (0, infinity, infinity - 1, infinity + 1, half - 1)]


# ------------------------------------------------------------------------------------------------ oracles


def as_signed(pattern: int, bits: int) -> int:
    return pattern - (1 << bits) if pattern >> bits - 1 else pattern


def embedded(pattern: int, exponent_bits: int, mantissa_bits: int) -> float:
    """A number with 5 or 8 exponent bits is a float16 or a float32 with a shorter mantissa: torch reads it."""
    bits, full = (16, 10) if exponent_bits == 5 else (32, 23)
    whole = torch.tensor([as_signed(pattern << full - mantissa_bits, bits)])
    if bits == 16:
        return float(whole.to(torch.int16).view(torch.float16))
    return float(whole.to(torch.int32).view(torch.float32))


@cache
def ladder(exponent_bits: int, mantissa_bits: int) -> list[float]:
    """All numbers without a sign in the order of their patterns, each from the one before it by adding the gap. The gap
    doubles at each power of two, from the second on."""
    gap, steps = 2.0 ** (2 - 2 ** (exponent_bits - 1) - mantissa_bits), 1 << mantissa_bits
    numbers = [0.0]
    for pattern in range(1, (1 << exponent_bits) - 1 << mantissa_bits):
        numbers.append(numbers[-1] + gap)
        if pattern % steps == 0 and pattern >= 2 * steps:
            gap *= 2
    return [*numbers, math.inf, *[math.nan] * (steps - 1)]


@cache
def truth(exponent_bits: int, mantissa_bits: int) -> Callable[[int], float]:
    """A pattern -> its number."""
    bits = 1 + exponent_bits + mantissa_bits
    if exponent_bits in (5, 8) and bits == 16:  # all at once
        dtype = torch.float16 if exponent_bits == 5 else torch.bfloat16
        return torch.arange(1 << 16).to(torch.uint16).view(dtype).tolist().__getitem__
    if exponent_bits in (5, 8):
        return lambda pattern: embedded(pattern, exponent_bits, mantissa_bits)
    numbers = ladder(exponent_bits, mantissa_bits)
    return lambda p: -numbers[p - len(numbers)] if p >= len(numbers) else numbers[p]


def same(a: Any, b: float) -> bool:
    """Equal to the last bit, the sign of zero included; any NaN equals any other."""
    if type(a) not in (int, float) or abs(a) > 1e308 and type(a) is int:
        return False
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b and math.copysign(1, a) == math.copysign(1, b)


def decoded(output: Any, patterns: list[int], exponent_bits: int, mantissa_bits: int) -> str:
    """ "" if `output` holds the number of each pattern; else a sentence."""
    if not isinstance(output, list):
        return f"expected a list of {len(patterns)} numbers, got {output!r:.60}"
    if len(output) != len(patterns):
        return f"expected {len(patterns):,} numbers, got {len(output):,}"
    read = truth(exponent_bits, mantissa_bits)
    wrong = [i for i, p in enumerate(patterns) if not same(output[i], read(p))]
    if not wrong:
        return ""
    p, many = patterns[wrong[0]], f"{len(wrong):,} of {len(patterns):,} patterns"
    text = f"{p:0{1 + exponent_bits + mantissa_bits}b}"
    fields = f"{text[0]} {text[1 : 1 + exponent_bits]} {text[1 + exponent_bits :]}"
    return f"{many} are wrong, first {fields}: expected {read(p)!r}, got {output[wrong[0]]!r:.60}"


UNSIGNED = {  # dtype -> integers of as many bits
    "float32": torch.int32,
    "float16": torch.int16,
    "bfloat16": torch.int16,
    "float8_e5m2": torch.uint8,
    "float8_e4m3fn": torch.uint8,
}


def next_number(x: float, dtype: str) -> tuple[float, float]:
    """(|x| as the dtype holds it, the next larger number), by adding 1 to the bits."""
    held = torch.tensor([abs(x)]).to(getattr(torch, dtype))
    above = (held.view(UNSIGNED[dtype]) + 1).view(held.dtype)
    return float(held), float(above)


def gap(x: float, dtype: str) -> float:
    held, above = next_number(x, dtype)
    return above - held


def is_gap(output: Any, x: float, dtype: str) -> str:
    right = gap(x, dtype)
    return "" if same(output, right) else f"for x = {x!r}, dtype = {dtype!r}: expected {right!r}, got {output!r:.60}"


def numbers_of(dtype: str, low: float, high: float):
    """A drawing of a number that the dtype holds, with a size from low to high, which are powers of two."""

    def draw(g: torch.Generator) -> dict[str, Any]:
        power = integer(g, int(math.log2(low)), int(math.log2(high)) - 1)
        x = torch.tensor([2.0**power * (1 + integer(g, 1, 255) / 256)]).to(getattr(torch, dtype))
        return {"x": float(x), "dtype": dtype}

    return draw


def rounded(x: torch.Tensor) -> torch.Tensor:
    """The bits of float32 numbers -> those of the same numbers as torch rounds them to bf16."""
    return x.view(torch.float32).to(torch.bfloat16).float().view(torch.int32)


def is_nan(x: torch.Tensor) -> torch.Tensor:
    return x.view(torch.float32).isnan()


def bit_exact(output: Any, x: torch.Tensor) -> str:
    """ "" if `output` has the bits of torch's own rounding; any NaN whose lower bits are 0 may stand for another."""
    if not isinstance(output, torch.Tensor) or output.dtype != torch.int32 or output.shape != x.shape:
        return f"expected an int32 tensor of shape {tuple(x.shape)}"
    right = rounded(x)
    wrong = (output != right) & ~(is_nan(output) & is_nan(right) & (output & 0xFFFF == 0))
    if not wrong.any():
        return ""
    i = int(wrong.nonzero()[0])
    bits = [f"0x{int(t[i]) & 0xFFFFFFFF:08X}" for t in (x, right, output)]
    wanted = "any NaN whose lower 16 bits are 0" if bool(is_nan(right)[i]) else bits[1]
    return f"{bits[0]} should become {wanted}, got {bits[2]} ({int(wrong.sum())} of {x.numel()} are wrong)"


@triton.jit
def relu_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i).to(tl.float32)
    tl.store(out_ptr + i, tl.maximum(x, 0.0).to(out_ptr.dtype.element_ty))


def traced_intensity(dtype: str) -> float:
    """FLOPs per byte of a ReLU, as the trace counts both."""
    x = torch.ones(1024).to(getattr(torch, dtype))
    with trace() as t:
        relu_kernel[(1,)](x, torch.empty_like(x), BLOCK=1024)
    return t.launches[0].flops.total / (t.loads.bytes + t.stores.bytes)


def counter_stops(dtype: torch.dtype) -> float:
    """Where 0 + 1 + 1 + ... no longer grows, by counting."""
    counter, one = torch.zeros((), dtype=dtype), torch.ones((), dtype=dtype)
    while counter + one != counter:
        counter = counter + one
    return float(counter)


@cache
def outcomes() -> dict[str, float]:
    """The predicted programs, run."""
    half, brain = torch.float16, torch.bfloat16
    return {
        "tiny_fp16": float(torch.tensor(1e-8).to(half) * 1000),
        "square_fp16": float(torch.tensor(300.0, dtype=half) * torch.tensor(300.0, dtype=half)),
        "weight_bf16": float(torch.tensor(1.0, dtype=brain) + torch.tensor(0.003, dtype=brain)),
        "weight_fp16": float(torch.tensor(1.0, dtype=half) + torch.tensor(2.0**-10, dtype=half)),
        "counter_bf16": counter_stops(brain),
        "above_2048_fp16": gap(2048.0, "float16"),
    }


# ---------------------------------------------------------------------------------------------- properties


@dataclass
class Ran(Criterion):
    """A gate for exercises that are judged by properties alone: every case ran, with the operations that are allowed."""

    points: float = 0
    title: str = "runs, with what torch may do here"

    def judge(self, exercise: Exercise, trials: Sequence[Trial]) -> Finding:
        for trial in trials:
            problem = Judged.of(exercise, trial).stopped
            if not problem and trial.evidence.faults:
                problem = trial.evidence.faults[0].sentence
            if problem:
                return self.lost(problem, expected=f"runs on {trial.case.name}")
        return self.earned(f"{len(trials)} cases")


def _quantized(output: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | str:
    if not isinstance(output, list) or len(output) != 2 or not all(isinstance(t, torch.Tensor) for t in output):
        return "expected two tensors, q and scale"
    q, scale = output
    if q.dtype != torch.int8 or q.shape != x.shape:
        return f"q should be int8 of shape {tuple(x.shape)}; it is {q.dtype} of shape {tuple(q.shape)}"
    if scale.dtype != torch.float32 or scale.shape != x.shape[:1]:
        return f"scale should be float32 of shape ({x.shape[0]},); it is {scale.dtype} of shape {tuple(scale.shape)}"
    return q, scale


def within_half_a_step(output: Any, x: torch.Tensor) -> str:
    """ "" if each q * scale lies within half a step of x (and a rounding error of the division)."""
    found = _quantized(output, x)
    if isinstance(found, str):
        return found
    q, scale = found[0].double(), found[1].double()[:, None]
    error = (q * scale - x.double()).abs()
    good = error <= 0.5 * scale * (1 + 1e-4)  # x / scale is rounded too, by less than 128 x 2^-24 of a step
    if good.all():
        return ""
    row, column = (int(i) for i in (~good).nonzero()[0])
    steps = float(error[row, column] / scale[row, 0])
    return f"[{row}, {column}] is {steps:.3g} steps from x; {int((~good).sum())} of {x.numel()} are more than half a step away"


def no_larger_step(output: Any, x: torch.Tensor) -> str:
    """ "" if the step of each row is the least with which its largest element fits into -127 ... 127."""
    found = _quantized(output, x)
    if isinstance(found, str):
        return found
    scale, least = found[1].double(), x.double().abs().amax(1) / 127
    good = (scale <= least * (1 + 1e-5)) | (least == 0)  # a row of zeros may have any step that is a number
    if bool(good.all()) and bool(scale.isfinite().all()):
        return ""
    row = int((~(good & scale.isfinite())).nonzero()[0])
    return f"row {row}: the step is {float(scale[row]):.6g}; {float(least[row]):.6g} would do"


def zeros_stay(output: Any, x: torch.Tensor) -> str:
    """ "" if rows of zeros are zeros in q, too, with a step above 0; and the other rows are within half a step."""
    problem = within_half_a_step(output, x)
    if problem:
        return problem
    q, scale = output
    empty = (x == 0).all(1)
    if (q[empty] != 0).any():
        return "a row of zeros is not zeros in q"
    good = scale.isfinite() & (scale > 0)
    return "" if good.all() else f"the step of row {int((~good).nonzero()[0])} is {float(scale[~good][0])}"


def rows_of_all_sizes(rows: int, columns: int, zeros: int = 0):
    """A drawing of x (rows, columns) whose rows differ in size by powers of ten; the last `zeros` rows are 0."""

    def draw(generator: torch.Generator) -> dict[str, torch.Tensor]:
        x = torch.randn(rows, columns, generator=generator) * 10.0 ** torch.arange(-3, rows - 3)[:, None]
        if zeros:
            x[-zeros:] = 0
        return {"x": x}

    return draw


# ------------------------------------------------------------------------------------------------ mistakes


def outputs_of(trials: Sequence[Trial], *groups: str) -> list[torch.Tensor]:
    found = [o for t in trials if t.case.group in groups for o in t.evidence.outputs]
    return [o for o in found if isinstance(o, torch.Tensor) and o.is_floating_point()]


def any_of(test: Callable[[torch.Tensor], torch.Tensor], groups: Sequence[str], sentence: str):
    """`sentence`, if an output of these groups has an element for which `test` is true."""
    return lambda trials: sentence if any(bool(test(o).any()) for o in outputs_of(trials, *groups)) else ""


def if_plain_is_right(look: Mistake):
    """What `look` says, unless plain results are more than 1 % off: then something else is wrong."""

    def guarded(trials: Sequence[Trial]) -> str:
        for t in trials:
            if t.case.group == "plain":
                for call, out in zip(t.inputs, t.evidence.outputs, strict=False):
                    right = call["scale"] * call["x"].double() ** 2
                    if not isinstance(out, torch.Tensor) or out.shape != right.shape:
                        return ""
                    if not torch.allclose(out.double(), right, rtol=0.01):
                        return ""
        return look(trials)

    return guarded


def times(factor: float, sentence: str, right: Callable[..., float]) -> Mistake:
    """`sentence`, if every result is that many times the right one."""
    return every(
        lambda out, /, **call: type(out) in (int, float) and math.isclose(out, factor * right(**call), rel_tol=1e-6),
        sentence,
    )


def upside_down(trials: Sequence[Trial]) -> str:
    pairs = [(c, o) for t in trials for c, o in zip(t.inputs, t.evidence.outputs, strict=False)]
    turned = pairs and all(type(o) in (int, float) and o * traced_intensity(**c) == 1 for c, o in pairs)
    return "These are bytes for each operation: turn it round." if turned else ""


def renamed(trials: Sequence[Trial]) -> str:
    wrong = any("unexpected keyword argument" in t.evidence.error for t in trials)
    return "Keep the parameter's name: the check calls relu_intensity(dtype=...)." if wrong else ""


def no_hidden_one(trials: Sequence[Trial]) -> str:
    """A sentence, if each normal number came out without the 1 before its mantissa."""
    found = []
    for t in trials:
        for call, out in zip(t.inputs, t.evidence.outputs, strict=False):
            if t.case.group == "normal" and isinstance(out, list) and len(out) == len(call["patterns"]):
                read = truth(call["exponent_bits"], call["mantissa_bits"])
                for pattern, number in zip(call["patterns"], out, strict=True):
                    power = read(pattern >> call["mantissa_bits"] << call["mantissa_bits"])  # the same with mantissa 0
                    found.append(same(number, read(pattern) - power))
    return "The 1 before the mantissa is missing: it is not stored, and counts." if found and all(found) else ""


def wraps_around(trials: Sequence[Trial]) -> str:
    """A sentence, if some q is off by about 256 steps."""
    for t in trials:
        for call, out in zip(t.inputs, t.evidence.outputs, strict=False):
            found = _quantized(out, call["x"])
            if not isinstance(found, str):
                q, scale = found[0].double(), found[1].double()[:, None]
                steps = (q * scale - call["x"]).abs() / scale
                if bool((steps < 0.51).double().mean() > 0.5) and bool(((steps - 256).abs() < 2).any()):
                    return (
                        "A number beyond 127 wraps around in int8: 128 becomes −128. Look for the largest |x| of a row."
                    )
    return ""


def cut_off(trials: Sequence[Trial]) -> str:
    """A sentence, if every q is x / scale without its digits behind the point."""
    cut = []
    for t in trials:
        for call, out in zip(t.inputs, t.evidence.outputs, strict=False):
            found = _quantized(out, call["x"])
            if not isinstance(found, str) and t.case.group in ("plain", "sizes"):
                cut.append(torch.equal(found[0], (call["x"] / found[1][:, None]).to(torch.int8)))
    return "A cast to int8 cuts off what is behind the point: round before it." if cut and all(cut) else ""


# ------------------------------------------------------------------------------------------------ formulas

decode_float = Exercise(
    id="dtypes.decode_float",
    entry="decode_float",
    signature="decode_float(patterns: list[int], exponent_bits: int, mantissa_bits: int) -> list[float]",
    kind="formula",
    minutes=20,
    difficulty=2,
    lines=14,
    cases=[
        Case("float16, normal numbers", "normal", drawn_patterns(5, 10, range(1, 31))),
        Case("tf32, normal numbers", "normal", drawn_patterns(8, 10, range(1, 255))),
        Case("float16, subnormal numbers", "subnormal", drawn_patterns(5, 10, range(0, 1))),
        Case("4 + 3 bits, subnormal numbers", "subnormal", drawn_patterns(4, 3, range(0, 1), 8)),
        Case("zeros, infinities, NaN", "special", patterns(5, 2, lambda g: specials(5, 2))),
        Case("every float16", "all", patterns(5, 10, lambda g: list(range(1 << 16)))),
        Case("every bfloat16", "all", patterns(8, 7, lambda g: list(range(1 << 16)))),
    ],
    oracle=lambda patterns, exponent_bits, mantissa_bits: [truth(exponent_bits, mantissa_bits)(p) for p in patterns],
    criteria=[
        Holds(decoded, 2, "normal numbers", "normal"),
        Holds(decoded, 1, "subnormal numbers", "subnormal"),
        Holds(decoded, 1, "zeros, infinities, NaN", "special"),
        Holds(decoded, 2, "all 65,536 patterns, twice", "all"),
    ],
    hints=[
        "Cut a pattern into three whole numbers with >> and &: sign, exponent field, mantissa field.",
        "The bias is 2 ** (exponent_bits - 1) - 1. Field 0 has no hidden 1, and the exponent 1 - bias. The highest field "
        "is not a number.",
        "fraction = mantissa / 2 ** mantissa_bits. Field 0: fraction * 2.0 ** (1 - bias). Highest field: math.inf if "
        "mantissa == 0 else math.nan. Else: (1 + fraction) * 2.0 ** (field - bias). Negate if the sign bit is set.",
    ],
    mistakes=[no_hidden_one],
)

ulp = Exercise(
    id="dtypes.ulp",
    entry="ulp",
    signature="ulp(x: float, dtype: str) -> float",
    kind="formula",
    minutes=10,
    difficulty=2,
    lines=4,
    cases=[
        *(Case(f"1.0 in {d}", "plain", lambda g, d=d: {"x": 1.0, "dtype": d}) for d in ("float16", "bfloat16")),
        Case("a float16", "plain", numbers_of("float16", 2.0**-10, 2.0**14)),
        Case("a bfloat16", "plain", numbers_of("bfloat16", 2.0**-60, 2.0**60)),
        Case("a float32", "plain", numbers_of("float32", 2.0**-60, 2.0**60)),
        Case("-3.0 in bfloat16", "plain", lambda g: {"x": -3.0, "dtype": "bfloat16"}),
        Case("2048 in float16", "powers", lambda g: {"x": 2048.0, "dtype": "float16"}),
        Case("2047 in float16", "powers", lambda g: {"x": 2047.0, "dtype": "float16"}),
        Case("0.5 in float8_e4m3fn", "powers", lambda g: {"x": 0.5, "dtype": "float8_e4m3fn"}),
        Case("a float8_e5m2", "powers", numbers_of("float8_e5m2", 2.0**-10, 2.0**10)),
        Case("0.0 in float16", "tiny", lambda g: {"x": 0.0, "dtype": "float16"}),
        Case("2 ** -20 in float16", "tiny", lambda g: {"x": 2.0**-20, "dtype": "float16"}),
        Case("2 ** -14 in float16", "tiny", lambda g: {"x": 2.0**-14, "dtype": "float16"}),
        Case("2 ** -130 in bfloat16", "tiny", lambda g: {"x": 2.0**-130, "dtype": "bfloat16"}),
    ],
    oracle=gap,
    criteria=[
        Holds(is_gap, 2, "numbers of three dtypes", "plain"),
        Holds(is_gap, 1, "powers of two, and 8 bits", "powers"),
        Holds(is_gap, 1, "zero and subnormal numbers", "tiny"),
    ],
    hints=[
        "Between 1 and 2 the gap is torch.finfo(...).eps. How large is it between 2 and 4, and between 2 ** k and 2 ** (k + 1)?",
        "math.frexp(8.0) is (0.5, 4): its exponent is one too large for us.",
        "Subnormal numbers are as far apart as the smallest normal ones: use the exponent of max(abs(x), finfo.tiny).",
    ],
    mistakes=[
        times(
            2,
            "Twice too far: math.frexp writes 8 as 0.5 * 2 ** 4, so its exponent is one larger than the field says.",
            gap,
        ),
        times(0.5, "Half of it: that is how far a number may be off after rounding. The gap is twice that.", gap),
    ],
)

predictions = Exercise(
    id="dtypes.predictions",
    entry="predicted",
    signature="predicted: dict[str, float]",
    kind="values",
    minutes=10,
    difficulty=2,
    lines=6,
    cases=[Case("six programs", "plain", lambda g: {})],
    oracle=outcomes,
    criteria=[Correct("plain", 6, "results, as torch computes them")],
    hints=[
        "For each, ask: how far is the next number of this format, and how far are its ends?",
        "A result that lies less than half a gap from where you began goes back there. A tie goes to the even mantissa.",
        "fp16 begins at 6e-8 and ends at 65 504; its gap is 1 from 1024 on. bf16 has a gap of 1/128 above 1, and of 1 from 128 on.",
    ],
)

relu_intensity = Exercise(
    id="dtypes.relu_intensity",
    entry="relu_intensity",
    signature="relu_intensity(dtype: str) -> float",
    kind="formula",
    minutes=5,
    difficulty=1,
    lines=2,
    cases=[
        *(Case(d, "plain", lambda g, d=d: {"dtype": d}) for d in ("float32", "float16", "bfloat16")),
        *(Case(d, "small", lambda g, d=d: {"dtype": d}) for d in ("float8_e4m3fn", "float8_e5m2")),
    ],
    oracle=traced_intensity,
    criteria=[
        Correct("plain", 2, "equal to the trace, 32 and 16 bits"),
        Correct("small", 1, "equal to the trace, 8 bits"),
    ],
    hints=[
        "How many operations does one element cost? How many times does it cross the memory bus?",
        "One operation (a maximum with 0), one load, one store.",
        "1 / (2 * getattr(torch, dtype).itemsize)",
    ],
    mistakes=[
        times(
            2,
            "Twice too much: one operation on each element, which crosses the bus twice, read and written.",
            traced_intensity,
        ),
        upside_down,
        renamed,
    ],
)

# ------------------------------------------------------------------------------------------------ in torch


def special_floats(generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Zeros, infinities, NaN, subnormal numbers, and numbers that round up to infinity, in drawn order."""
    bits = [
        0,
        1,
        0x7FFF,
        0x8000,
        0x8001,
        0x18000,
        0x007FFFFF,
        0x7F800000,
        0x7F7FFFFF,
        0x7F7F7FFF,
        0x7F7F8000,
        0x7FC00000,
    ]
    bits += [0x7F800001, 0x7FFFFFFF]
    both = torch.tensor(bits + [b - (1 << 31) for b in bits])
    order = torch.randperm(len(both), generator=generator)
    return {"x": both[order].to(torch.int32)}


def ties(generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Numbers halfway between two of bf16, whose upper mantissa is even or odd, and their neighbours."""
    upper = torch.randint(0x3000, 0x5000, (600,), generator=generator)
    lower = torch.randint(0x7FFF, 0x8002, (600,), generator=generator)
    sign = torch.randint(0, 2, (600,), generator=generator) << 31
    bits = sign | upper << 16 | lower
    return {"x": torch.where(bits >= 1 << 31, bits - (1 << 32), bits).to(torch.int32)}


def bits_of_numbers(n: int, *, powers: int = 0):
    """A drawing of the bits of n numbers, normal around 0, times powers of ten from -powers to powers."""

    def draw(g: torch.Generator) -> dict[str, torch.Tensor]:
        size = torch.randint(-powers, powers + 1, (n,), generator=g) if powers else torch.zeros(n)
        return {"x": (torch.randn(n, generator=g) * 10.0**size).view(torch.int32)}

    return draw


def bits_in_and_out(trials: Sequence[Trial]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """(x, output) of each call whose output is bits of as many numbers."""
    pairs = [(call["x"], out) for t in trials for call, out in zip(t.inputs, t.evidence.outputs, strict=False)]
    return [
        (x, out)
        for x, out in pairs
        if isinstance(out, torch.Tensor) and out.dtype == torch.int32 and out.shape == x.shape
    ]


def loses_nan(trials: Sequence[Trial]) -> str:
    """A sentence, if a NaN became a number, and every number what it should."""
    pairs = bits_in_and_out(trials)
    lost = any(bool((is_nan(x) & ~is_nan(out)).any()) for x, out in pairs)
    else_right = all(bool(((out == rounded(x)) | is_nan(x)).all()) for x, out in pairs)
    sentence = "A NaN went in, and an infinity or a number came out: rounding changed the bits that made it a NaN."
    return sentence if lost and else_right else ""


def shifted_down(trials: Sequence[Trial]) -> str:
    pairs = bits_in_and_out(trials)
    below = pairs and all(bool((((out << 16) == rounded(x)) | is_nan(x)).all()) for x, out in pairs)
    return (
        "These are the upper halves, shifted down. Leave them where they are: the lower 16 bits are 0." if below else ""
    )


def rounds_as(added: int, sentence: str) -> Mistake:
    """`sentence`, if every number came out as (x + added) with the lower 16 bits cleared."""

    def look(trials: Sequence[Trial]) -> str:
        pairs = bits_in_and_out(trials)
        found = pairs and all(bool(((out == (x + added & -0x10000)) | is_nan(x)).all()) for x, out in pairs)
        return sentence if found else ""

    return look


round_to_bf16 = Exercise(
    id="dtypes.round_to_bf16",
    entry="round_to_bf16",
    signature="round_to_bf16(x: (n,) int32, bits of float32) -> (n,) int32, bits whose lower 16 are 0",
    minutes=20,
    difficulty=4,
    lines=5,
    cases=[
        Case("1000 numbers", "plain", bits_of_numbers(1000)),
        Case("500 numbers of all sizes", "plain", bits_of_numbers(500, powers=30)),
        Case("600 ties and neighbours", "ties", ties),
        Case("zeros, infinities, NaN, subnormals", "special", special_floats),
    ],
    oracle=rounded,
    allows=INTEGERS,
    gates=[Ran()],
    criteria=[
        Holds(bit_exact, 2, "to the last bit"),
        Holds(bit_exact, 2, "ties go to even", "ties"),
        Holds(bit_exact, 2, "zeros, infinities, NaN, subnormal numbers", "special"),
    ],
    hints=[
        "What does adding 0x8000, and then clearing the lower 16 bits, do to a number? To a tie?",
        "It rounds to nearest, and every tie up. In a tie the lower half is exactly 0x8000, so adding 0x7FFF sends it down. The "
        "lowest bit that stays is x >> 16 & 1: for which of its values should a tie go up?",
        "up = (x + 0x7FFF + (x >> 16 & 1)) & -0x10000. The carry runs into the exponent, which is right. A NaN could become "
        "an infinity, or run on into the sign: where (x & 0x7FFFFFFF) > 0x7F800000, return 0x7FC00000 by torch.where.",
    ],
    mistakes=[
        shifted_down,
        loses_nan,
        rounds_as(0, "You always cut the lower 16 bits off. What lies more than halfway should go up."),
        rounds_as(0x8000, "All your ties go up. A tie goes to the neighbour whose lowest bit that stays is 0."),
        rounds_as(0x7FFF, "All your ties go towards 0. A tie goes to the neighbour whose lowest bit that stays is 0."),
    ],
)


def rounded_at_the_end(trials: Sequence[Trial]) -> str:
    """A sentence, if all sums of the first case are float32s that a float16 could hold."""
    sums = outputs_of(trials, "plain")
    rounded = sums and all(
        o.dtype == torch.float32 and o.numel() > 1 and torch.equal(o, o.half().float()) for o in sums
    )
    return "Each result is a float16 in a float32: the sum was rounded to float16 before the cast." if rounded else ""


half_sum = Exercise(
    id="dtypes.half_sum",
    entry="half_sum",
    signature="half_sum(x: (M, N) float16) -> (M,) float32, the sum of each row",
    minutes=5,
    difficulty=2,
    lines=1,
    cases=[
        Case("16 x 100", "plain", normal(16, 100, dtype=torch.float16)),
        Case("16 x 5000 around 1", "long", normal(16, 5000, dtype=torch.float16, plus=1)),
        Case("8 x 4001 between 0 and 1", "long", lambda g: {"x": torch.rand(8, 4001, generator=g).half()}),
        Case("16 x 2000 around 100", "large", normal(16, 2000, dtype=torch.float16, plus=100)),
        Case("16 x 2500, large numbers that cancel", "large", cancelling(16, 500)),
        Case("64 x 4096", "performance", normal(64, 4096, dtype=torch.float16)),
    ],
    oracle=lambda x: x.double().sum(1).float(),
    budget=sum_budget(lambda x: x.double().abs().sum(1), lambda x: x.shape[1]),
    allows=ARITHMETIC,
    gates=[Correct("plain")],
    criteria=[
        Correct("long", 2, "long rows"),
        Correct("large", 2, "sums and parts of sums beyond 65,504"),
        NoBufferOfSize(lambda x: x.nbytes, 1, "no float32 copy of x"),
    ],
    hints=[
        "The numbers may stay in float16. What must not is the number that they are added to.",
        "torch.sum takes a dtype, in which it adds.",
        "x.sum(1, dtype=torch.float32). x.float().sum(1) is as exact, and writes 4 bytes an element to memory first.",
    ],
    mistakes=[
        rounded_at_the_end,
        any_of(torch.isinf, ("large",), "A sum is infinite: float16 ends at 65,504, and a part of the sum passed it."),
        any_of(torch.isnan, ("large",), "A sum is NaN: one part ran to infinity, another to minus infinity."),
    ],
)


def logits(
    rows: int, columns: int, dtype: torch.dtype = torch.float32, *, times: float = 3.0, plus: float = 0.0, masked=False
):
    """A drawing of x (rows, columns), normal around `plus`. masked: about half of it is -inf, and all of row 1."""

    def draw(g: torch.Generator) -> dict[str, torch.Tensor]:
        x = torch.randn(rows, columns, generator=g, device=g.device) * times + plus
        if masked:
            x[torch.rand(rows, columns, generator=g, device=g.device) < 0.5] = -math.inf
            x[1] = -math.inf
        return {"x": x.to(dtype)}

    return draw


def logsumexp_budget(expected: torch.Tensor, dtype: torch.dtype, arguments: dict[str, Any]) -> torch.Tensor:
    """Of the result a rounding or four; of the sum under the logarithm a relative error, which is an absolute one of it."""
    size = torch.where(expected.isfinite(), expected.abs(), 0)
    return (4 * size + 2 * math.sqrt(arguments["x"].shape[1]) + 8) * torch.finfo(torch.float32).eps


stable_logsumexp = Exercise(
    id="dtypes.stable_logsumexp",
    entry="stable_logsumexp",
    signature="stable_logsumexp(x: (M, N) float32 or float16) -> (M,) float32, log(sum(exp(row)))",
    minutes=15,
    difficulty=3,
    lines=5,
    cases=[
        Case("7 x 100", "plain", logits(7, 100)),
        Case("5 x 33 around 1000", "large", logits(5, 33, plus=1000)),
        Case("5 x 33 around -1000", "large", logits(5, 33, plus=-1000)),
        Case("4 x 50, from -30000 to 30000", "large", logits(4, 50, times=10000)),
        Case("6 x 40, masked", "masked", logits(6, 40, masked=True)),
        Case("3 x 70000, float16", "float16", logits(3, 70000, torch.float16, times=0.5)),
        Case("6 x 300, float16", "float16", logits(6, 300, torch.float16, times=8)),
    ],
    oracle=lambda x: torch.logsumexp(x.double(), 1).float(),
    budget=logsumexp_budget,
    allows=ARITHMETIC,
    gates=[Correct("plain")],
    criteria=[
        Correct("large", 2, "logits near 1000, and near -1000"),
        Correct("masked", 2, "logits of -inf, a row of nothing else"),
        Correct("float16", 2, "float16 in, float32 inside"),
    ],
    hints=[
        "exp(89) overflows float32, and exp(-104) is 0. log(sum(exp(x))) = m + log(sum(exp(x - m))) for any m: which m is safe?",
        "Take the row's maximum, x.amax(1). Then the largest term is exp(0) = 1. Cast to float32 before, not after.",
        "A row of -inf has the maximum -inf, and -inf - -inf is NaN: where m is -inf subtract 0 instead, "
        "m = torch.where(m == -math.inf, 0, m). Then exp gives 0, and log(0) is -inf, which is right.",
    ],
    mistakes=[
        any_of(
            torch.isnan, ("masked",), "NaN: in a row of -inf the maximum is -inf too, and -inf - -inf is not a number."
        ),
        any_of(torch.isinf, ("large",), "Infinite: exp ran over (or all terms under) before log could bring it back."),
    ],
)

quantize_rows = Exercise(
    id="dtypes.quantize_rows",
    entry="quantize_rows",
    signature="quantize_rows(x: (M, N) float32) -> q: (M, N) int8, scale: (M,) float32",
    minutes=15,
    difficulty=3,
    lines=4,
    cases=[
        Case("8 x 100", "plain", normal(8, 100)),
        Case("1 x 1", "plain", normal(1, 1)),
        Case("7 x 200, rows of all sizes", "sizes", rows_of_all_sizes(7, 200)),
        Case("6 x 50, two rows of zeros", "zeros", rows_of_all_sizes(6, 50, zeros=2)),
    ],
    oracle=lambda x: (x.double(), x.double().abs().amax(1) / 127),  # what q * scale and scale stand for
    allows=ARITHMETIC,
    gates=[Ran()],
    criteria=[
        Holds(within_half_a_step, 2, "at most half a step away"),
        Holds(within_half_a_step, 1, "so for rows of all sizes", "sizes"),
        Holds(no_larger_step, 2, "no step larger than it must be", "sizes"),
        Holds(zeros_stay, 1, "rows of zeros", "zeros"),
    ],
    hints=[
        "int8 reaches from -128 to 127. Which step sends the largest element of a row to 127 or to -127?",
        "scale = largest / 127, for each row. q = x / scale, rounded to the nearest whole number, not cut off.",
        "A row of zeros has scale 0, and 0 / 0 is NaN: divide by torch.where(scale == 0, 1, scale). Then "
        "q = (x / scale[:, None]).round().to(torch.int8).",
    ],
    mistakes=[wraps_around, cut_off],
)

# ------------------------------------------------------------------------------------------------ kernels


def square_budget(expected: torch.Tensor, dtype: torch.dtype, arguments: dict[str, Any]) -> torch.Tensor:
    """Three times the error of one rounding, of subnormal numbers too."""
    info = torch.finfo(dtype)
    return 1.5 * info.eps * expected.abs() + 1.5 * info.tiny * info.eps


scaled_square = Exercise(
    id="dtypes.scaled_square",
    entry="scaled_square",
    signature="scaled_square(x: (n,), scale: float) -> (n,) of the dtype of x: scale * x * x",
    minutes=15,
    difficulty=3,
    lines=10,
    cases=[
        Case("4096", "plain", sizes(4096, 0.5, 2, torch.float32, 0.7)),
        Case("1", "ragged", sizes(1, 0.5, 2, torch.float32, 3.0)),
        Case("1031", "ragged", sizes(1031, 0.5, 2, torch.float16, 1.5)),
        Case("5000, bfloat16", "ragged", sizes(5000, 0.5, 100, torch.bfloat16, 0.01)),
        Case("3000 up to 60000, float16", "large", sizes(3000, 300, 60000, torch.float16, 2.0**-17)),
        Case("3000 below 1e-4, float16", "tiny", sizes(3000, 1e-5, 1e-4, torch.float16, 2.0**30)),
        Case("65536, float16", "performance", sizes(1 << 16, 0.5, 2, torch.float16, 0.5)),
    ],
    oracle=lambda x, scale: x.double() ** 2 * scale,
    budget=square_budget,
    gates=[TritonDidTheWork(), Correct("plain"), Compiles()],
    criteria=[
        Correct("ragged", 2, "ragged sizes, three dtypes"),
        Correct("large", 2, "squares beyond float16"),
        Correct("tiny", 2, "squares below float16"),
        Traffic(copy_bytes, 2),
    ],
    bonus=[
        Speed(
            "copy",
            Case("2^27, float16", "speed", sizes(1 << 27, 0.5, 2, torch.float16, 0.5)),
            copy_bytes,
            full=0.8,
            none=0.5,
            points=2,
        )
    ],
    hints=[
        "Which of the values along the way does not fit into float16, although the result does?",
        "A block has the dtype of the tensor that it was loaded from. x.to(tl.float32) makes another block; memory is not touched.",
        "x = tl.load(x_ptr + i, mask=i < n).to(tl.float32), then store scale * x * x: tl.store casts to the dtype of out_ptr.",
    ],
    mistakes=[
        if_plain_is_right(
            any_of(
                torch.isinf, ("large",), "Infinite: x * x was computed in float16, and 300 * 300 is more than it holds."
            )
        ),
        if_plain_is_right(any_of(lambda o: o == 0, ("tiny",), "Zero: x * x was computed in float16, where 1e-8 is 0.")),
    ],
)

EXERCISES = {
    exercise.id: exercise
    for exercise in (
        decode_float,
        ulp,
        round_to_bf16,
        predictions,
        half_sum,
        stable_logsumexp,
        relu_intensity,
        scaled_square,
        quantize_rows,
    )
}
