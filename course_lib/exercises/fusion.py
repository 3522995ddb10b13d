"""Unit 06, fusion."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import triton

from course_lib import cases, inductor
from course_lib.cases import BRAIN, HALF
from course_lib.chains import CHAINS, traced_bytes, traced_stages
from course_lib.criteria import (
    EPS32,
    GATES,
    BuffersBelow,
    Coalesced,
    Correct,
    Judged,
    Launches,
    Speed,
    Traffic,
    roundings,
)
from course_lib.exercise import Budget, Case, Exercise, Trial
from course_lib.mistakes import Mistake, every

F = torch.nn.functional


def against_copy(name: str, draw: Callable, needed: Callable) -> Speed:
    """Extra credit: full at 0.75 of the speed of a device copy of the needed bytes."""
    return Speed("copy", Case(name, "speed", draw), needed, full=0.75, none=0.4, points=2)


# ------------------------------------------------------------------------------------------------ inputs


def normal(generator: torch.Generator, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=generator, device=generator.device)


def rows(
    M: int,
    N: int,
    dtype: torch.dtype = torch.float32,
    *,
    window: bool = False,
    scale: float = 1.0,
    shift: float = 0.0,
    rising: float = 0.0,
    masked: int = 0,
):
    """A drawing of x (M, N), column stride 1: scale * normal + shift, and along a row a rise of `rising`.

    window   a view into a wider matrix full of NaN, so that an element read from outside shows
    masked   so many elements at the start of each row are -inf
    """

    def draw(generator: torch.Generator) -> dict[str, torch.Tensor]:
        slope = torch.linspace(0, rising, N, device=generator.device)
        values = (normal(generator, M, N) * scale + shift + slope).to(dtype)
        values[:, :masked] = -math.inf
        if window:
            values = cases.window(values)
        return {"x": values}

    return draw


def also(draw: Callable, *names: str, scale: float = 1.0, shift: float = 0.0):
    """`draw`, and vectors (N,) of those names in x's dtype, normal * scale + shift."""

    def drawn(generator: torch.Generator) -> dict[str, torch.Tensor]:
        found = draw(generator)
        N, dtype = found["x"].shape[-1], found["x"].dtype
        return found | {name: (normal(generator, N) * scale + shift).to(dtype) for name in names}

    return drawn


def two(draw: Callable, second: str):
    """`draw` twice: x, and a second tensor like it."""
    return lambda g: {"x": draw(g)["x"], second: draw(g)["x"]}


def vectors(N: int, dtype: torch.dtype = torch.float32, scale: float = 3.0):
    """A drawing of x and y (N,)."""
    return lambda g: {name: (normal(g, N) * scale).to(dtype) for name in ("x", "y")}


def normed(draw: Callable, eps: float = 1e-6):
    """`draw`, weights around 1, and eps."""
    return lambda g: also(draw, "weight", scale=0.5, shift=1.0)(g) | {"eps": eps}


def added(draw: Callable, eps: float = 1e-6):
    """x, residual, weight, eps."""

    def drawn(generator: torch.Generator) -> dict[str, Any]:
        pair, rest = two(draw, "residual")(generator), normed(draw, eps)(generator)
        return pair | {name: rest[name] for name in ("weight", "eps")}

    return drawn


def labelled(M: int, V: int, dtype: torch.dtype = torch.float32, **kind: Any):
    """A drawing of logits (M, V) and target (M,) int64: classes that are not masked, the first and the last among them."""

    def draw(generator: torch.Generator) -> dict[str, torch.Tensor]:
        first = kind.get("masked", 0)
        target = torch.randint(first, V, (M,), generator=generator, device=generator.device)
        target[0], target[-1] = V - 1, first
        return {"logits": rows(M, V, dtype, **kind)(generator)["x"], "target": target}

    return draw


def nbytes(*tensors: torch.Tensor) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)


# ------------------------------------------------------------------------------------------------ oracles and budgets


def near(magnitude: Callable[..., torch.Tensor], steps: float = 8) -> Budget:
    """roundings(expected) + steps eps32 magnitude: a few roundings in float32, and one on the way out."""

    def budget(expected: torch.Tensor, dtype: torch.dtype, arguments: dict[str, Any]) -> torch.Tensor:
        return roundings(expected, dtype) + steps * EPS32 * magnitude(**arguments)

    return budget


def softmax_budget(expected: torch.Tensor, dtype: torch.dtype, arguments: dict[str, Any]) -> torch.Tensor:
    """Of the row's largest probability: roundings, and (2 sqrt(N) + max |x|) eps32."""
    x = arguments["x"].double()
    largest = torch.where(x.isinf(), 0, x).abs().amax(1, keepdim=True)
    top = expected.amax(1, keepdim=True)
    return roundings(top, dtype) + (2 * math.sqrt(x.shape[1]) + largest) * EPS32 * top


def loss_budget(expected: torch.Tensor, dtype: torch.dtype, arguments: dict[str, Any]) -> torch.Tensor:
    """A difference of two numbers as large as the logits, and a sum of V terms inside a logarithm."""
    x = arguments["logits"].double()
    largest = torch.where(x.isinf(), 0, x).abs().amax(1)
    return (4 * expected.abs() + 4 * largest + 2 * math.sqrt(x.shape[1])) * EPS32


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    x = x.double()
    return x * torch.rsqrt(x.square().mean(1, keepdim=True) + eps) * weight.double()


def add_rms_norm(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float) -> tuple:
    h = x.double() + residual.double()
    return rms_norm(h, weight, eps), h


def norm_budget(expected: torch.Tensor, dtype: torch.dtype, arguments: dict[str, Any]) -> torch.Tensor:
    """x times a root of a sum of N squares: relative errors alone, as x itself is exact; of a sum x + residual the
    rounded summands."""
    N = arguments["x"].shape[1]
    budget = roundings(expected, dtype) + 2 * math.sqrt(N) * EPS32 * expected.abs()
    if "residual" in arguments:
        scale = arguments["x"].double().abs() + arguments["residual"].double().abs()
        size = expected.abs() / (arguments["x"].double() + arguments["residual"].double()).abs().clamp_min(1e-30)
        budget = budget + 2 * EPS32 * scale * size
    return budget


# ------------------------------------------------------------------------------------------------ mistakes


def performance(trials: Sequence[Trial]) -> list[Trial]:
    return [t for t in trials if t.case.group == "performance" and t.evidence.launches]


def read_times(tensor: str, times: float, sentence: str) -> Mistake:
    """`sentence`, if a tensor is read at least so many times by kernels that get it right."""

    def look(trials: Sequence[Judged]) -> str:
        for trial in (t for t in performance(trials) if not t.difference):
            own = [f for launch in trial.evidence.launches for f in launch.footprints if f.tensor == tensor]
            distinct = max([1, *(f.read_distinct_bytes for f in own)])
            if sum(f.read_bytes for f in own) >= times * distinct:
                return sentence
        return ""

    return look


def launched(more_than: int, sentence: str) -> Mistake:
    """`sentence`, if a call launches more kernels than that."""
    return lambda trials: sentence if any(len(t.evidence.launches) > more_than for t in performance(trials)) else ""


def results(trials: Sequence[Trial], *groups: str) -> list[tuple[dict[str, Any], torch.Tensor]]:
    """(arguments, result) of each call in these groups, or in all, that gave a tensor; of a tuple its first part."""
    pairs = [
        p
        for t in trials
        if t.case.group in groups or not groups
        for p in zip(t.inputs, t.evidence.outputs, strict=False)
    ]
    firsts = [(arguments, o[0] if isinstance(o, list) and o else o) for arguments, o in pairs]
    return [(arguments, o) for arguments, o in firsts if isinstance(o, torch.Tensor)]


def computes(wrong: Callable[..., torch.Tensor], sentence: str) -> Mistake:
    """`sentence`, if all results that are not right are what `wrong` makes of the arguments."""

    def close(out: torch.Tensor, guess: torch.Tensor) -> bool:
        share = max(1e-3, 4 * torch.finfo(out.dtype).eps)
        most = guess.nan_to_num(0, 0, 0).abs().max().item()
        return out.shape == guess.shape and torch.allclose(
            out.double(), guess.double(), share, 1e-5 * most, equal_nan=True
        )

    def look(trials: Sequence[Judged]) -> str:
        found = [(t, *pair) for t in trials if t.difference for pair in results([t])]
        likely = all(close(out, wrong(**arguments)) for _, arguments, out in found)
        firsts = (right[0] if isinstance(right := t.exercise.oracle(**a), tuple) else right for t, a, _ in found)
        unlike = not all(close(out, right) for (*_, out), right in zip(found, firsts, strict=True))
        return sentence if found and likely and unlike else ""

    return look


def nan_of_exp(trials: Sequence[Judged]) -> str:
    """Where the NaN of exponentials along rows comes from, if masked lanes without `other` do not explain it as well."""
    lanes = any(t.evidence.poisoned for t in trials)
    if lanes and any(bool(o.isnan().any()) for _, o in results(trials, "ragged")):
        return ""
    pairs = [
        (next(iter(a.values())).float(), out.isnan().reshape(len(out), -1))
        for a, out in results(trials, "plain", "hard")
    ]
    rows = [x[nan.any(1)] for x, nan in pairs if len(x) == len(nan) and bool(nan.any())]
    if any(bool((x.abs().amax(1) < 80).any()) for x in rows):  # exp(x) is neither 0 nor infinite there
        return UPSIDE_DOWN if not lanes and all(bool(nan.all()) for _, nan in pairs) else ""
    if any(bool(((x.amax(1) > 89) & x.isfinite().all(1)).any()) for x in rows):
        return OVERFLOWS
    masked = [bool(x.isinf().any()) for x in rows]
    if any(masked):
        return MASKED_START if all(masked) else ""
    return STARTS_AT_0 if rows else ""


def overflows(trials: Sequence[Judged]) -> str:
    """A sentence, if a softmax of whole rows is NaN where exp(x) is infinite."""
    return OVERFLOWS if nan_of_exp(trials) == OVERFLOWS else ""


def columns_add_up(trials: Sequence[Judged]) -> str:
    """A sentence, if it is the columns of a block of rows that add up to 1."""
    for arguments, out in results([t for t in trials if t.difference], "plain"):
        M, N = arguments["x"].shape
        for rows in (2, 4, 8, 16, 32, 64):
            if out.shape == (M, N) and M % rows == 0:
                sums = out.double().reshape(-1, rows, N).sum(1)
                if torch.allclose(sums, torch.ones_like(sums), rtol=0.01):
                    return f"In each block of {rows} rows the columns add up to 1: for the rows take the maximum and the sum along axis=1."
    return ""


def cut_off(trials: Sequence[Judged]) -> str:
    """A sentence, if each row is the softmax of a first block of it, and the rest was left out."""
    for arguments, out in results([t for t in trials if t.difference]):
        there = ~out.isnan()
        first = int(there[0].sum()) if out.dim() == 2 else 0
        if out.shape == arguments["x"].shape and 0 < first < out.shape[1] and bool((there.sum(1) == first).all()):
            right = torch.softmax(arguments["x"][:, :first].double(), 1)
            if torch.allclose(out[:, :first].double(), right, 0.01):
                return (
                    f"Of rows of {out.shape[1]} the columns from {first} on are neither read nor stored: a block must hold the row: "
                    "triton.next_power_of_2(N) lanes."
                )
    return ""


def not_apart(function: Callable[..., torch.Tensor]) -> Mistake:
    """A sentence, if program i began i elements after the first."""

    def wrong(x: torch.Tensor) -> torch.Tensor:
        return function(x.as_strided(x.shape, (x.stride(1), x.stride(1))))

    return computes(
        wrong,
        "Here each program starts one element after the one before it. Rows lie x.stride(0) apart; x.stride(1) is 1.",
    )


def divided_by(sum_of: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    """exp(x - m), divided by a sum of x and of itself."""

    def wrong(x: torch.Tensor) -> torch.Tensor:
        p = torch.exp(x.double() - x.double().amax(1, keepdim=True))
        return p / sum_of(x.double(), p)

    return wrong


def normed_by(factor: Callable[[torch.Tensor, float], torch.Tensor]) -> Callable[..., torch.Tensor]:
    """x (and residual) times weight, times a factor of x and eps."""

    def wrong(x: torch.Tensor, weight: torch.Tensor, eps: float, residual: torch.Tensor | None = None) -> torch.Tensor:
        x = x.double() + (0 if residual is None else residual.double())
        return x * weight.double() * factor(x, eps)

    return wrong


def mean_square(x: torch.Tensor) -> torch.Tensor:
    return x.square().mean(1, keepdim=True)


def loss_by(of_row: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Callable[..., torch.Tensor]:
    """A loss of float32 logits (M, V), and those of the targets (M,)."""
    return lambda logits, target: of_row(logits.float(), logits.float().gather(1, target[:, None])[:, 0])


def padded(block: int) -> Callable[..., torch.Tensor]:
    """The loss, if masked lanes of the last block hold 0."""
    return loss_by(lambda x, right: F.pad(x.double(), (0, -x.shape[1] % block)).logsumexp(1) - right)


def all_zero(group: str, sentence: str) -> Mistake:
    """`sentence`, if a result of that group is zero everywhere."""
    return lambda trials: sentence if any(not bool(o.any()) for _, o in results(trials, group)) else ""


def scaled_rows(sentence: str) -> Mistake:
    """`sentence`, if rows are the softmax but for a factor below 1: the sum that divides them is too large."""

    def look(trials: Sequence[Trial]) -> str:
        for arguments, out in results(trials, "plain", "ragged", "hard", "long"):
            right, out = torch.softmax(arguments["x"].double(), 1), out.double()
            if out.shape == right.shape and bool(out.isfinite().all()):
                factor = out.sum(1, keepdim=True)
                far = (out - factor * right).abs().amax(1, keepdim=True) / (factor * right).amax(1, keepdim=True)
                below = (factor > 0) & (factor < 1.02)
                if bool((far < 0.01).all() and below.all() and (factor < 0.98).any()):
                    return sentence
        return ""

    return look


def divided_by_the_block(trials: Sequence[Trial]) -> str:
    """A sentence, if a mean of squares was taken over a whole block, masked lanes included."""
    found = False
    for arguments, out in results(trials, "ragged"):
        x, N = arguments["x"].double() + arguments.get("residual", torch.zeros(())).double(), arguments["x"].shape[1]
        if triton.next_power_of_2(N) == N:
            continue  # no lane is masked
        mean = x.square().sum(1, keepdim=True) / triton.next_power_of_2(N)
        likely = x * torch.rsqrt(mean + arguments["eps"]) * arguments["weight"].double()
        if out.shape != likely.shape or not torch.allclose(out.double(), likely, rtol=0.01, atol=0.01):
            return ""
        found = True
    return BY_BLOCK if found else ""


def one_store_each(out: Any, n: int, ops: Sequence[Sequence[str]], itemsize: int, fused: Sequence[int]) -> bool:
    """Whether a chain's bytes were counted as if each kernel stored one tensor."""
    stages, _ = traced_stages(n, ops, itemsize, fused)
    return out == n * itemsize * sum(len(stage.loads) + 1 for stage in stages)


ONE_LAUNCH = "What the first kernel stores, the second loads again: that trip through memory is what fusion saves."
OVERFLOWS = "exp(x) is infinite in float32 from x = 89 on, and inf / inf is NaN: subtract the row's maximum first."
STARTS_AT_0 = (
    "All logits of these rows are far below 0, and each exp is 0: 0 / 0 is NaN. The running maximum must be one of the logits: "
    "start it from -3.4e38; 0 is larger than all of these."
)
UPSIDE_DOWN = (
    "NaN in every row, and no logit is large: does exp(m_new - m) multiply the old sum? From m = -3.4e38 that is infinite, and "
    "infinite times 0 is NaN. The factor is exp(m - m_new), at most 1."
)
MASKED_START = (
    "-inf - -inf is NaN: while a row has shown nothing but -inf, its maximum is -inf. Start the running maximum from a finite "
    "number, or leave such blocks out."
)

FACTOR = "Each row is the softmax but for a factor below 1, so the sum s is too large. "
MASKED_ZERO = FACTOR + "With other=0 each masked lane adds exp(0 - m) to it: other=-float('inf') adds exp(-inf) = 0."
NO_CORRECTION = (
    FACTOR + "When the maximum grows, is the old sum multiplied by exp(m - m_new)? And do masked lanes hold -inf? With "
    "other=0 each adds exp(0 - m)."
)
BY_BLOCK = "The squares are divided by the length of the block. Masked lanes are no elements of the row: divide by N."
SQUARED = "In float16 300 squared is infinite, and x / inf is 0: convert to float32 before you square."
NORMS = [
    computes(normed_by(factor), sentence)
    for factor, sentence in (
        (
            lambda x, eps: 1 / (mean_square(x).sqrt() + eps),
            "eps is added to the root. It stands below it: rsqrt(mean + eps).",
        ),
        (lambda x, eps: mean_square(x).rsqrt(), "eps is missing: rsqrt(mean + eps)."),
        (
            lambda x, eps: (x.square().sum(1, keepdim=True) + eps).rsqrt(),
            "The squares are added up, and not divided by N: the norm takes their mean.",
        ),
        (
            lambda x, eps: 1 / (mean_square(x) + eps),
            "Divided by the mean of the squares; the norm divides by its root.",
        ),
    )
]
CROSS_ENTROPY = [
    *(
        computes(padded(2**k), "With other=0 each masked lane adds exp(0 - m) to s: other=-float('inf') adds 0.")
        for k in range(7, 18)
    ),
    computes(
        loss_by(lambda x, right: x.logsumexp(1) - x.amax(1) - right),
        "This lacks m: s is relative to the maximum, so the logarithm of the sum is m + log(s).",
    ),
    computes(
        loss_by(lambda x, right: x.exp().sum(1).log() - right),
        "exp(x) is infinite in float32 from x = 89 on: subtract the row's maximum first.",
    ),
    computes(
        loss_by(lambda x, right: -(torch.exp(right - x.amax(1)) / torch.exp(x - x.amax(1, keepdim=True)).sum(1)).log()),
        "exp(x[t] - m) is 0 for a target far below the maximum, and log(0) infinite: m + log(s) - x[t] needs no exp of x[t].",
    ),
]
STORES_ONE = "Each kernel is counted with one store. How many of its results does a later kernel need?"


def by_row(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """GELU with bias[i] added to row i."""
    own = bias.double()[torch.arange(len(x)).clamp(max=len(bias) - 1)]
    return F.gelu(x.double() + own[:, None])


# ------------------------------------------------------------------------------------------------ formulas


def chain(name: str, group: str, fused: Sequence[int], n: int = 1000, itemsize: int = 4) -> Case:
    given = {"n": n, "ops": CHAINS[name], "itemsize": itemsize, "fused": list(fused)}
    return Case(f"{name} in kernels of {list(fused)}", group, lambda g: given)


chain_bytes = Exercise(
    id="fusion.chain_bytes",
    entry="chain_bytes",
    signature="chain_bytes(n: int, ops: list[list[str]], itemsize: int, fused: list[int]) -> int",
    kind="formula",
    minutes=15,
    difficulty=3,
    lines=8,
    cases=[
        *(chain(name, "one by one", [1] * len(ops)) for name, ops in CHAINS.items()),
        *(chain(name, "all in one", [len(ops)], itemsize=2) for name, ops in CHAINS.items()),
        chain("sin² + cos²", "cuts", [2, 3]),
        chain("sin² + cos²", "cuts", [4, 1], 777, 2),
        chain("sin² + cos²", "cuts", [1, 3, 1]),
        chain("bias, GELU, dropout, residual", "cuts", [2, 1, 1]),
        chain("SwiGLU", "cuts", [1, 1, 2]),
        chain("SwiGLU", "cuts", [3, 1], 64, 8),
    ],
    oracle=traced_bytes,
    without="course_lib.chains",
    criteria=[
        Correct("one by one", 2, "one kernel for each operation"),
        Correct("all in one", 2, "all in one kernel"),
        Correct("cuts", 2, "cut anywhere, as the trace counts it"),
    ],
    hints=[
        "Take one kernel at a time. Which names does it use that it does not make? Which does it make that are used later?",
        "A kernel reads each tensor once, however many of its operations use it; what it makes for itself stays in registers.",
        "reads = {inputs of its operations} - {results of its operations}; writes = {its results} & ({inputs of all later "
        "operations} | {the last result}). Sets count each name once.",
    ],
    mistakes=[every(one_store_each, STORES_ONE)],
)

predicted_launches = Exercise(
    id="fusion.predicted_launches",
    entry="predicted_launches",
    signature="predicted_launches: dict[str, int]",
    kind="values",
    minutes=10,
    difficulty=2,
    lines=7,
    cases=[Case("seven functions", "plain", lambda g: {})],
    oracle=lambda: inductor.recorded_launches(),
    criteria=[Correct("plain", 7, "launches, as measured with torch.compile")],
    hints=[
        "Where must every program have finished before the next operation may begin? There is a cut, and nowhere else.",
        "A row of 4096 fits into one program; a tensor of 16 million does not. A matrix product goes to a library as it is.",
        "Dividing by the sum of a whole tensor: many programs add up parts, one adds the parts, many divide. A print needs "
        "the finished tensor.",
    ],
)

# ------------------------------------------------------------------------------------------------ kernels

sin2_plus_cos2 = Exercise(
    id="fusion.sin2_plus_cos2",
    entry="sin2_plus_cos2",
    signature="sin2_plus_cos2(x: (N,), y: (N,), contiguous) -> (N,)",
    minutes=10,
    difficulty=2,
    lines=9,
    cases=[
        Case("4096", "plain", vectors(4096)),
        Case("1", "ragged", vectors(1)),
        Case("5001", "ragged", vectors(5001)),
        Case("999, float16", "half", vectors(999, HALF)),
        Case("1333 around 100, bfloat16", "half", vectors(1333, BRAIN, scale=100.0)),
        Case("131072", "performance", vectors(1 << 17)),
        Case("65536", "performance", vectors(1 << 16)),
    ],
    oracle=lambda x, y: x.double().sin().square() + y.double().cos().square(),
    budget=near(lambda x, y: torch.ones_like(x, dtype=torch.float64)),
    gates=GATES,
    criteria=[
        Correct("ragged", 1),
        Correct("half", 1, "right in float16 and bfloat16"),
        Launches(1, 1),
        Traffic(lambda x, y: 3 * nbytes(x), 3, at_most=1.0),
    ],
    bonus=[against_copy("33554432", vectors(1 << 25), lambda x, y: 3 * nbytes(x))],
    hints=[
        "It is the first kernel of unit 00 with a longer line in the middle. What must be loaded, what stored?",
        "tl.sin and tl.cos want float32: convert with .to(tl.float32) after the load. tl.store converts back.",
        "s = tl.sin(x); c = tl.cos(y); tl.store(out_ptr + i, s * s + c * c, mask=i < n).",
    ],
    mistakes=[launched(1, ONE_LAUNCH)],
)

bias_gelu = Exercise(
    id="fusion.bias_gelu",
    entry="bias_gelu",
    signature="bias_gelu(x: (M, N), column stride 1, bias: (N,)) -> (M, N), contiguous",
    minutes=15,
    difficulty=3,
    lines=12,
    cases=[
        Case("64 x 256", "plain", also(rows(64, 256), "bias")),
        Case("1 x 1", "ragged", also(rows(1, 1), "bias")),
        Case("37 x 1031", "ragged", also(rows(37, 1031, scale=3.0), "bias")),
        Case("61 x 7", "ragged", also(rows(61, 7), "bias")),
        Case("45 x 100, a window", "strided", also(rows(45, 100, window=True), "bias")),
        Case("50 x 130, float16", "half", also(rows(50, 130, HALF, scale=4.0), "bias")),
        Case("50 x 130, bfloat16", "half", also(rows(50, 130, BRAIN, scale=4.0), "bias")),
        Case("256 x 512", "performance", also(rows(256, 512), "bias")),
        Case("128 x 1024, bfloat16", "performance", also(rows(128, 1024, BRAIN), "bias")),
    ],
    oracle=lambda x, bias: F.gelu(x.double() + bias.double()),
    budget=near(lambda x, bias: x.double().abs() + bias.double().abs()),
    gates=GATES,
    criteria=[
        Correct("ragged", 2),
        Correct("strided", 1, "right where rows lie apart"),
        Correct("half", 1, "right in float16 and bfloat16"),
        Launches(1, 1),
        Traffic(lambda x, bias: 2 * nbytes(x) + x.shape[0] * nbytes(bias), 2, at_most=1.0),
        Coalesced("load", 1),
    ],
    bonus=[against_copy("8192 x 8192", also(rows(8192, 8192), "bias"), lambda x, bias: 2 * nbytes(x))],
    hints=[
        "Give a program a piece of x, as in unit 04's row_copy: a part of a row, or a tile. Which elements of the bias does it need?",
        "Load them at bias_ptr + cols, with the mask of the columns. For a tile that is a block (1, BLOCK_N), which broadcasts over "
        "the rows when you add it.",
        "z = x.to(tl.float32) + bias.to(tl.float32), then 0.5 * z * (1 + tl.erf(z * 0.7071067811865476)).",
    ],
    mistakes=[
        computes(
            lambda x, bias: F.gelu(x.double() + bias.double(), approximate="tanh"),
            "This is GELU's approximation by tanh. Here it is exact: 0.5 * z * (1 + erf(z / sqrt(2))).",
        ),
        computes(
            by_row, "Each row has one number of the bias. It has one for each column: load it at bias_ptr + cols."
        ),
        launched(1, ONE_LAUNCH),
        read_times("x", 1.9, ONE_LAUNCH),
    ],
)


def softmax_bytes(x: torch.Tensor) -> int:
    return 2 * nbytes(x)


softmax = Exercise(
    id="fusion.softmax",
    entry="softmax",
    signature="softmax(x: (M, N), column stride 1, N up to 32768) -> (M, N), contiguous",
    minutes=20,
    difficulty=3,
    lines=10,
    cases=[
        Case("64 x 256", "plain", rows(64, 256)),
        Case("1 x 1", "ragged", rows(1, 1)),
        Case("37 x 1031", "ragged", rows(37, 1031)),
        Case("61 x 7, float16", "ragged", rows(61, 7, HALF)),
        Case("45 x 100, a window", "strided", rows(45, 100, window=True)),
        Case("20 x 777 around 1000", "hard", rows(20, 777, scale=20.0, shift=1000.0)),
        Case("20 x 500, rising by 200, float16", "hard", rows(20, 500, HALF, rising=200.0)),
        Case("20 x 300 around -300, bfloat16", "hard", rows(20, 300, BRAIN, scale=30.0, shift=-300.0)),
        Case("20 x 300, 150 of them -inf", "hard", rows(20, 300, scale=5.0, masked=150)),
        Case("128 x 1024", "performance", rows(128, 1024)),
        Case("64 x 4096, bfloat16", "performance", rows(64, 4096, BRAIN)),
    ],
    oracle=lambda x: torch.softmax(x.double(), 1),
    budget=softmax_budget,
    gates=GATES,
    criteria=[
        Correct("ragged", 2),
        Correct("strided", 1, "right where rows lie apart"),
        Correct("hard", 3, "right for large, low and masked logits"),
        Launches(1, 1),
        Traffic(softmax_bytes, 3, at_most=1.0),
    ],
    bonus=[against_copy("8192 x 8192", rows(8192, 8192), softmax_bytes)],
    hints=[
        "One program, one row: once the row is in registers, how often must memory be asked again?",
        "BLOCK = triton.next_power_of_2(N) holds a row. Masked lanes must not change the maximum or the sum: which `other` "
        "is right for both?",
        "x = tl.load(..., other=-float('inf')).to(tl.float32); p = tl.exp(x - tl.max(x, axis=0)); store p / tl.sum(p, axis=0).",
    ],
    mistakes=[
        overflows,
        columns_add_up,
        cut_off,
        not_apart(lambda x: torch.softmax(x.double(), 1)),
        computes(
            divided_by(lambda x, p: x.sum(1, keepdim=True)),
            "Each row is divided by the sum of x: divide by the sum of p.",
        ),
        computes(divided_by(lambda x, p: 1.0), "These are the exponentials p: divide by their sum."),
        scaled_rows(MASKED_ZERO),
        launched(1, ONE_LAUNCH),
        read_times(
            "x", 1.9, "The row was in registers already: keep the block and compute on it, instead of loading it again."
        ),
    ],
)

LONG = 1_060_000  # no block is that long: Triton's largest has 2**20 elements

online_softmax = Exercise(
    id="fusion.online_softmax",
    entry="online_softmax",
    signature="online_softmax(x: (M, N), column stride 1, any N) -> (M, N), contiguous",
    minutes=25,
    difficulty=4,
    lines=18,
    cases=[
        Case("64 x 3000", "plain", rows(64, 3000)),
        Case("1 x 1", "ragged", rows(1, 1)),
        Case("7 x 10007", "ragged", rows(7, 10007)),
        Case("30 x 999, a window, float16", "ragged", rows(30, 999, HALF, window=True)),
        Case("5 x 20011, rising by 3000", "hard", rows(5, 20011, rising=3000.0)),
        Case("5 x 20011, falling by 3000", "hard", rows(5, 20011, shift=500.0, rising=-3000.0)),
        Case("3 x 40000, 36000 of them -inf", "hard", rows(3, 40000, scale=10.0, masked=36000)),
        Case("5 x 9000 around -300, bfloat16", "hard", rows(5, 9000, BRAIN, scale=30.0, shift=-300.0)),
        Case(f"1 x {LONG:_}", "long", rows(1, LONG)),
        Case("16 x 16384", "performance", rows(16, 16384)),
        Case("8 x 16384, bfloat16", "performance", rows(8, 16384, BRAIN)),
    ],
    oracle=lambda x: torch.softmax(x.double(), 1),
    budget=softmax_budget,
    gates=GATES,
    criteria=[
        Correct("ragged", 2),
        Correct("hard", 3, "right for a rising maximum and a masked start"),
        Correct("long", 2, "right for a row longer than any block"),
        Traffic(lambda x: 3 * nbytes(x), 3, at_most=1.01, title="reads at most twice, writes once"),
    ],
    bonus=[
        Speed(
            "torch.compile",
            Case("2048 x 32768", "speed", rows(2048, 32768)),
            lambda x: 2 * nbytes(x),
            full=0.9,
            none=0.6,
            points=2,
            baseline=lambda x: inductor.compiled("softmax", x),
        )
    ],
    hints=[
        "After each block you know the largest value so far, and a sum that was taken relative to it. What must happen to the "
        "old sum when the maximum grows from m to m_new?",
        "s = s * tl.exp(m - m_new) + tl.sum(tl.exp(x - m_new), axis=0), with m_new = tl.maximum(m, tl.max(x, axis=0)). A second "
        "loop over the row stores tl.exp(x - m) / s.",
        "Start with s = 0.0 and a finite m, such as -3.4e38: then a block of -inf gives exp(-inf) = 0, where m = -inf would give "
        "-inf - -inf, NaN.",
    ],
    mistakes=[
        nan_of_exp,
        not_apart(lambda x: torch.softmax(x.double(), 1)),
        scaled_rows(NO_CORRECTION),
        read_times(
            "x", 2.9, "The maximum and the sum can be found in one pass: correct the sum whenever the maximum grows."
        ),
    ],
)

rmsnorm = Exercise(
    id="fusion.rmsnorm",
    entry="rmsnorm",
    signature="rmsnorm(x: (M, N), column stride 1, weight: (N,), eps: float) -> (M, N), contiguous",
    minutes=15,
    difficulty=3,
    lines=11,
    cases=[
        Case("64 x 256", "plain", normed(rows(64, 256))),
        Case("1 x 1, eps 0.1", "ragged", normed(rows(1, 1), 0.1)),
        Case("37 x 1031", "ragged", normed(rows(37, 1031), 1e-5)),
        Case("61 x 7, float16", "ragged", normed(rows(61, 7, HALF))),
        Case("45 x 100, a window", "strided", normed(rows(45, 100, window=True))),
        Case("30 x 600 around 300, float16", "hard", normed(rows(30, 600, HALF, scale=100.0, shift=300.0))),
        Case("30 x 600 near 0.001, eps 0.00001", "hard", normed(rows(30, 600, scale=1e-3), 1e-5)),
        Case("30 x 3000 around 20, bfloat16", "hard", normed(rows(30, 3000, BRAIN, shift=20.0))),
        Case("128 x 1024", "performance", normed(rows(128, 1024))),
        Case("64 x 2048, bfloat16", "performance", normed(rows(64, 2048, BRAIN))),
    ],
    oracle=rms_norm,
    budget=norm_budget,
    gates=GATES,
    criteria=[
        Correct("ragged", 2),
        Correct("strided", 1, "right where rows lie apart"),
        Correct("hard", 3, "right for large and tiny values"),
        Launches(1, 1),
        Traffic(lambda x, weight, eps: 2 * nbytes(x) + x.shape[0] * nbytes(weight), 3, at_most=1.0),
    ],
    bonus=[against_copy("8192 x 8192", normed(rows(8192, 8192)), lambda x, weight, eps: 2 * nbytes(x))],
    hints=[
        "It has softmax's shape: load a row, reduce it to one number, use the row again, store it.",
        "Masked lanes load 0, which adds nothing to a sum of squares; divide by N, not by the length of the block. Square in "
        "float32: 300 squared is more than float16 can hold.",
        "scale = tl.rsqrt(tl.sum(x * x, axis=0) / N + eps); then load the weights and store x * scale * weight. tl.store "
        "converts to the dtype of out.",
    ],
    mistakes=[
        divided_by_the_block,
        *NORMS,
        all_zero("hard", SQUARED),
        launched(1, ONE_LAUNCH),
        read_times(
            "x", 1.9, "The row was in registers already: keep the block and compute on it, instead of loading it again."
        ),
    ],
)

add_rmsnorm = Exercise(
    id="fusion.add_rmsnorm",
    entry="add_rmsnorm",
    signature="add_rmsnorm(x: (M, N), residual: (M, N), weight: (N,), eps: float), contiguous -> (M, N) normed, (M, N) sum",
    minutes=10,
    difficulty=2,
    lines=13,
    cases=[
        Case("64 x 256", "plain", added(rows(64, 256))),
        Case("1 x 1, eps 0.1", "ragged", added(rows(1, 1), 0.1)),
        Case("37 x 1031", "ragged", added(rows(37, 1031), 1e-5)),
        Case("61 x 7, float16", "ragged", added(rows(61, 7, HALF))),
        Case("30 x 600 around 300, float16", "hard", added(rows(30, 600, HALF, scale=100.0, shift=300.0))),
        Case("30 x 600 near 0.001, eps 0.00001", "hard", added(rows(30, 600, scale=1e-3), 1e-5)),
        Case("30 x 3000 around 20, bfloat16", "hard", added(rows(30, 3000, BRAIN, shift=20.0))),
        Case("128 x 1024", "performance", added(rows(128, 1024))),
        Case("64 x 2048, bfloat16", "performance", added(rows(64, 2048, BRAIN))),
    ],
    oracle=add_rms_norm,
    budget=norm_budget,
    gates=GATES,
    criteria=[
        Correct("ragged", 2),
        Correct("hard", 2, "right for large and tiny values"),
        Launches(1, 1),
        Traffic(
            lambda x, residual, weight, eps: 4 * nbytes(x) + x.shape[0] * nbytes(weight),
            3,
            at_most=1.0,
            title="reads both once, writes both once",
        ),
    ],
    bonus=[
        against_copy("8192 x 8192", added(rows(8192, 8192)), lambda x, residual, weight, eps: 4 * nbytes(x)),
    ],
    hints=[
        "Two kernels would write the sum and read it again. Where is the sum when your rmsnorm needs it?",
        "Load x and residual, add them in float32, store the sum, and go on with the block that you have in hand.",
        "h = x.to(tl.float32) + residual.to(tl.float32); tl.store(h_ptr + ..., h, mask=inside); then rmsnorm's lines with h for x. "
        "Return (out, h).",
    ],
    mistakes=[divided_by_the_block, *NORMS, all_zero("hard", SQUARED), launched(1, ONE_LAUNCH)],
)

cross_entropy = Exercise(
    id="fusion.cross_entropy",
    entry="cross_entropy",
    signature="cross_entropy(logits: (M, V), column stride 1, target: (M,) int64) -> (M,) float32",
    minutes=20,
    difficulty=4,
    lines=15,
    cases=[
        Case("64 x 1000", "plain", labelled(64, 1000)),
        Case("1 x 1", "ragged", labelled(1, 1)),
        Case("17 x 10007", "ragged", labelled(17, 10007)),
        Case("9 x 50257", "ragged", labelled(9, 50257)),
        Case("30 x 999, a window", "ragged", labelled(30, 999, window=True)),
        Case("20 x 3000, rising by 500", "hard", labelled(20, 3000, rising=500.0)),
        Case("20 x 3000 around 1000", "hard", labelled(20, 3000, scale=20.0, shift=1000.0)),
        Case("3 x 40000, 36000 of them -inf", "hard", labelled(3, 40000, scale=10.0, masked=36000)),
        Case("20 x 1500, float16", "hard", labelled(20, 1500, HALF, scale=30.0)),
        Case("20 x 1500 around 90, bfloat16", "hard", labelled(20, 1500, BRAIN, scale=20.0, shift=90.0)),
        Case("64 x 8192", "performance", labelled(64, 8192)),
        Case("32 x 16384", "performance", labelled(32, 16384)),
    ],
    oracle=lambda logits, target: F.cross_entropy(logits.double(), target, reduction="none").float(),
    budget=loss_budget,
    gates=GATES,
    criteria=[
        Correct("ragged", 2),
        Correct("hard", 3, "right for large, rising and masked logits"),
        Traffic(lambda logits, target: nbytes(logits), 3, at_most=1.01, title="reads the logits once"),
        BuffersBelow(lambda logits, target: nbytes(logits) / 8, 2, "no probabilities stored"),
    ],
    bonus=[
        against_copy("8192 x 32768", labelled(8192, 32768), lambda logits, target: nbytes(logits)),
    ],
    hints=[
        "-log(softmax(x)[t]) needs no softmax: write it out with the logarithm of the sum of exponentials.",
        "loss = m + log(s) - x[t], with m and s as in online_softmax; the second loop is not needed.",
        "x[t] is one more load of a single element: tl.load(logits_ptr + row * row_stride + tl.load(target_ptr + row)).",
    ],
    mistakes=[
        nan_of_exp,
        *CROSS_ENTROPY,
        read_times(
            "logits",
            1.9,
            "The maximum and the sum can be found in one pass: correct the sum whenever the maximum grows.",
        ),
    ],
)

EXERCISES = {
    exercise.id: exercise
    for exercise in (
        chain_bytes,
        sin2_plus_cos2,
        predicted_launches,
        bias_gelu,
        softmax,
        online_softmax,
        rmsnorm,
        add_rmsnorm,
        cross_entropy,
    )
}
