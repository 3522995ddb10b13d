"""Unit 07, recomputation.

Oracles: autograd in float64, its saved-tensor hooks, traced kernels, the schedule of a checkpointed backward played through
step by step, and a deep model whose live bytes are counted.
"""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch.nn.functional import cross_entropy, gelu, rms_norm

from course_lib.activations import chain, run_checkpoint, split_evenly, train_step
from course_lib.answers import in_words
from course_lib.cases import fixed
from course_lib.criteria import (
    GATES,
    Coalesced,
    Correct,
    Holds,
    Launches,
    NoAtomics,
    NoBufferOfSize,
    OnceRight,
    Programs,
    Saves,
    Speed,
    Traffic,
    roundings,
)
from course_lib.exercise import Case, Exercise, Finding, Trial
from course_lib.mistakes import Mistake, raised
from course_lib.tracing import trace

EPS32 = torch.finfo(torch.float32).eps
RMS_EPS = 1e-6


def against_copy(name: str, draw: Callable, needed: Callable, full: float) -> Speed:
    """Extra credit: full at that share of the speed of a device copy of the needed bytes."""
    return Speed("copy", Case(name, "speed", draw), needed, full=full, none=full - 0.3, points=2)


# ------------------------------------------------------------------------------------------------ inputs


def normal(g: torch.Generator, shape: Sequence[int], dtype: torch.dtype, scale: float = 1.0) -> torch.Tensor:
    return (torch.randn(*shape, generator=g, device=g.device) * scale).to(dtype)


def elementwise(shape: Sequence[int], dtype: torch.dtype = torch.float32, *, scale: float = 1.0, names: str = "x dy"):
    """A drawing of tensors of one shape. scale: of all but dy, which is the last."""
    *inputs, dy = names.split()
    return lambda g: {n: normal(g, shape, dtype, scale) for n in inputs} | {dy: normal(g, shape, dtype)}


def dropped(shape: Sequence[int], p: float, seed: int, dtype: torch.dtype = torch.float32):
    """A drawing of x and dy, with p and the seed of the mask."""
    return lambda g: {
        "x": normal(g, shape, dtype),
        "p": p,
        "seed": seed,
        "dy": normal(g, shape, dtype),
    }


def logits(
    M: int, V: int, dtype: torch.dtype = torch.float32, *, scale: float = 3.0, shift: float = 0.0, ban: float = 0.0
):
    """A drawing of x (M, V), target, lse, dloss. ban: the share of logits, none of them a target's, that are -inf."""

    def draw(g: torch.Generator) -> dict[str, torch.Tensor]:
        x = normal(g, (M, V), dtype, scale) + shift
        target = torch.randint(V, (M,), generator=g, device=g.device)
        if ban:
            banned = torch.rand(M, V, generator=g, device=g.device) < ban
            x = x.masked_fill(banned.scatter(1, target[:, None], False), -math.inf)
        lse = torch.logsumexp(x.double(), 1).float()
        return {"x": x, "target": target, "lse": lse, "dloss": normal(g, (M,), torch.float32)}

    return draw


def normed(M: int, N: int, dtype: torch.dtype = torch.float32, *, scale: float = 1.0):
    """A drawing of x (M, N), weight (N,), rstd (M,), dy (M, N); rows of x of very different sizes."""

    def draw(g: torch.Generator) -> dict[str, torch.Tensor]:
        rows = torch.exp(normal(g, (M, 1), torch.float32)).clamp(max=8)  # float16 ends at 65504
        x = (normal(g, (M, N), torch.float32, scale) * rows).to(dtype)
        rstd = torch.rsqrt(x.double().square().mean(1) + RMS_EPS).float()
        return {"x": x, "weight": normal(g, (N,), dtype), "rstd": rstd, "dy": normal(g, (M, N), dtype)}

    return draw


def times(count: float) -> Callable[..., float]:
    """So many times the bytes of x."""
    return lambda x, **_: count * x.nbytes


# ------------------------------------------------------------------------------------------------ oracles


def with_gradients(fn: Callable, dy: torch.Tensor, **inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """(out, dx, ...), one gradient for each of `inputs` and named after it, in float64."""
    names = namedtuple("WithGradients", ["out", *(f"d{name}" for name in inputs)])
    with torch.enable_grad():
        leaves = [x.double().detach().requires_grad_() for x in inputs.values()]
        out = fn(*leaves)
        return names(out.detach(), *torch.autograd.grad(out, leaves, dy.double()))


def kept_bytes(name: str, sizes: Sequence[int]) -> int:
    """Bytes that autograd keeps for the backward pass of a chain, beside its arguments."""
    kept: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage()._cdata] = tensor.untyped_storage()
        return tensor

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        fn, args = chain(name, sizes)
        _out = fn(*args)
    own = {a.untyped_storage()._cdata for a in args}
    return sum(storage.nbytes() for key, storage in kept.items() if key not in own)


@triton.jit
def sigmoids(x_ptr, s1_ptr, s2_ptr, out_ptr, n, STORE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    s1 = tl.sigmoid(tl.load(x_ptr + i, mask=i < n, other=0).to(tl.float32))
    s2 = tl.sigmoid(s1)
    if STORE:
        tl.store(s1_ptr + i, s1, mask=i < n)
        tl.store(s2_ptr + i, s2, mask=i < n)
    tl.store(out_ptr + i, tl.sigmoid(s2), mask=i < n)


@triton.jit
def sigmoids_backward(x_ptr, s1_ptr, s2_ptr, dy_ptr, dx_ptr, n, STORED: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if STORED:
        s1 = tl.load(s1_ptr + i, mask=i < n, other=0).to(tl.float32)
        s2 = tl.load(s2_ptr + i, mask=i < n, other=0).to(tl.float32)
    else:
        s1 = tl.sigmoid(tl.load(x_ptr + i, mask=i < n, other=0).to(tl.float32))
        s2 = tl.sigmoid(s1)
    s3 = tl.sigmoid(s2)
    dy = tl.load(dy_ptr + i, mask=i < n, other=0).to(tl.float32)
    tl.store(dx_ptr + i, dy * s1 * (1 - s1) * s2 * (1 - s2) * s3 * (1 - s3), mask=i < n)


@cache
def sigmoid_bytes(n: int, itemsize: int, recompute: bool) -> tuple[int, int]:
    """(forward, backward) bytes of three fused sigmoids, traced: between them s1 and s2 are stored, or only x is there."""
    x = torch.ones(n, dtype={2: torch.float16, 4: torch.float32, 8: torch.float64}[itemsize])
    s1, s2, out, dy, dx = (torch.ones_like(x) for _ in range(5))
    BLOCK, found = 1024, []
    for kernel, tensors in ((sigmoids, (x, s1, s2, out)), (sigmoids_backward, (x, s1, s2, dy, dx))):
        with trace() as t:
            kernel[(triton.cdiv(n, BLOCK),)](*tensors, n, not recompute, BLOCK=BLOCK)
        found.append(t.bytes)
    return found[0], found[1]


@triton.jit
def draws(out_ptr, n, seed, BLOCK: tl.constexpr):
    """out[i] = the i-th random number of the seed."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.rand(seed, i), mask=i < n)


def kept_elements(x: torch.Tensor, p: float, seed: int) -> torch.Tensor:
    """Where dropout keeps x: a boolean tensor of its shape."""
    drawn = torch.empty(x.shape, device=x.device)
    launch = lambda: draws[(triton.cdiv(x.numel(), 4096),)](drawn, x.numel(), seed, BLOCK=4096)  # noqa: E731
    if x.is_cuda:
        launch()
    else:
        with trace():
            launch()
    return drawn >= p


def dropout_and_gradient(x, p, seed, dy) -> tuple[torch.Tensor, torch.Tensor]:
    kept = kept_elements(x, p, seed).double() / (1 - p)
    return with_gradients(lambda x: x * kept, dy, x=x)


class NormGradients(NamedTuple):
    dx: torch.Tensor
    dweight: torch.Tensor


def rmsnorm_gradients(x, weight, rstd, dy) -> NormGradients:
    norm = lambda x, weight: rms_norm(x, x.shape[1:], weight, RMS_EPS)  # noqa: E731
    _, dx, dweight = with_gradients(norm, dy, x=x, weight=weight)
    return NormGradients(dx, dweight.float())


def peak_of(layers: int, boundary: int, inside: int, segments: int) -> int:
    """A checkpointed step played through: boundaries pile up, then segments are recomputed, last first, and freed."""
    kept, peak = segments * boundary, 0
    for length in reversed(split_evenly(layers, segments)):
        peak = max(peak, kept + length * inside)
        kept -= boundary
    return peak


def least_peak(layers: int, boundary: int, inside: int) -> tuple[int, int]:
    peaks = {s: peak_of(layers, boundary, inside, s) for s in range(1, layers + 1)}
    best = min(peaks, key=peaks.get)
    return best, peaks[best]


# ------------------------------------------------------------------------------------------------ budgets


def sigmoid_budget(expected, dtype, arguments):
    """Each factor s (1 - s) may be off by a few roundings of 1, of what dy brings; of the result's dtype, if s was stored."""
    dy = arguments["dy"].double().abs()
    return roundings(expected, dtype) + 4 * EPS32 * (1 + dy) + torch.finfo(dtype).eps / 16 * dy


def gelu_budget(expected, dtype, arguments):
    """The normal distribution function is off by a rounding of 1, and multiplies all of these."""
    x, gate, dy = (arguments[name].double().abs() for name in ("x", "gate", "dy"))
    return roundings(expected, dtype) + 8 * EPS32 * (x * gate + dy * gate * (1 + x) + dy * x)


def cross_entropy_budget(expected, dtype, arguments):
    """x - lse is off by a rounding of the larger, and so is the exponent's relative error."""
    x, lse, dloss = (arguments[name].double() for name in ("x", "lse", "dloss"))
    size = torch.where(x.isinf(), 0, x.abs()) + lse[:, None].abs() + 8
    p = torch.exp(x - lse[:, None])
    return roundings(expected, dtype) + 2 * EPS32 * dloss.abs()[:, None] * (p * size + 1)


def rmsnorm_budget(expected, dtype, arguments):
    """Sums of N terms for dx, of M terms for dweight: a random walk of roundings, with room for any order."""
    x, weight, dy = (arguments[name].double() for name in ("x", "weight", "dy"))
    rstd = arguments["rstd"].double()[:, None]
    M, N = x.shape
    if expected.dim() == 1:
        size, length = (dy * x * rstd).abs().sum(0), M
    else:
        g = (weight * dy).abs()
        size = rstd * (g + (x * rstd).abs() * (g * (x * rstd).abs()).mean(1, keepdim=True))
        length = N
    return roundings(expected, dtype) + (2 * math.sqrt(length) + 8) * EPS32 * size


def rounding_budget(expected, dtype, arguments):
    return roundings(expected, dtype)


# ------------------------------------------------------------------------------------------------ criteria of this unit


@dataclass
class KeepsNothing(OnceRight):
    """Backward uses nothing that the forward half had: no buffer, no output, and no input either."""

    points: float
    title: str = "keeps nothing, not even x"
    group: str = "performance"

    def count(self, group: Sequence[Trial]) -> Finding:
        for trial in group:
            saved = trial.evidence.saved
            if saved is None or 0 not in trial.evidence.ready:
                return self.lost("no forward half that ends with its result")
            if saved:
                return self.lost(", ".join(f"backward uses `{s.tensor}`: {s.nbytes:,} bytes" for s in saved))
        return self.earned("nothing is kept")


def saved_something(sentence: str) -> Mistake:
    """`sentence`, if backward used a buffer of the forward half."""
    return lambda trials: (
        sentence if any(s.tensor.startswith("buffer") for t in trials for s in t.evidence.saved or ()) else ""
    )


FLOAT32 = raised(
    "Expected dtype ['fp32', 'fp64']",
    "tl.exp, tl.erf and tl.sigmoid take float32: put .to(tl.float32) behind each load.",
)


def several_launches(sentence: str) -> Mistake:
    """`sentence`, if a call of a performance case launches more than one kernel a half."""
    return lambda trials: (
        sentence if any(len(t.evidence.launches) > 2 for t in trials if t.case.group == "performance") else ""
    )


# ------------------------------------------------------------------------------------------------ what autograd keeps

QUESTIONS = {
    "x + y": ("add", [64, 32]),
    "x * y": ("multiply", [64, 32]),
    "relu(x)": ("relu", [64, 32]),
    "three sigmoids": ("three sigmoids", [64, 32]),
    "gelu(x)": ("gelu", [64, 32]),
    "gelu(x @ w1) @ w2": ("mlp", [64, 32, 128]),
}

kept_tensors = Exercise(
    id="recomputation.kept_tensors",
    entry="kept_tensors",
    signature="kept_tensors: dict[str, int]",
    kind="values",
    minutes=5,
    difficulty=2,
    lines=6,
    cases=[Case("six expressions", "plain", lambda g: {})],
    oracle=lambda: {say: kept_bytes(*work) // (4 * 64 * 32) for say, work in QUESTIONS.items()},
    criteria=[Correct("plain", 3, "as many as autograd keeps")],
    hints=[
        "Write the derivative. Which tensors stand in it? If one of them is an input, it is there anyway.",
        "The derivative of relu needs to know where x > 0, and torch reads that off the output. That of a sigmoid s is s (1 - s).",
        "gelu(x @ w1) @ w2 keeps two tensors of 64 x 128: the product goes into gelu's derivative, and gelu's result into w2's.",
    ],
)

saved_bytes = Exercise(
    id="recomputation.saved_bytes",
    entry="saved_bytes",
    signature="saved_bytes(fn, *inputs) -> int",
    kind="formula",
    called="on a chain",
    minutes=10,
    difficulty=3,
    lines=9,
    cases=[
        fixed("relu", "plain", name="relu", sizes=[30, 17]),
        fixed("three sigmoids", "plain", name="three sigmoids", sizes=[30, 17]),
        fixed("a gated GELU", "plain", name="gated gelu", sizes=[9, 40]),
        fixed("a sum", "inputs", name="add", sizes=[30, 17]),
        fixed("a product", "inputs", name="multiply", sizes=[30, 17]),
        fixed("an MLP", "inputs", name="mlp", sizes=[11, 8, 32]),
        fixed("one tensor, kept twice", "shared", name="one exponential, twice", sizes=[12, 5]),
        fixed("views of inputs", "shared", name="a product of views", sizes=[12, 5]),
        fixed("a row for all rows", "shared", name="a row for all", sizes=[12, 5]),
        fixed("half of a tensor", "shared", name="a product with half", sizes=[12, 5]),
        fixed("twenty sigmoids", "shared", name="twenty sigmoids", sizes=[64, 128]),
        fixed("half precision", "others", name="sigmoid in half precision", sizes=[12, 5]),
        fixed("no gradients", "others", name="without grad", sizes=[12, 5]),
    ],
    oracle=kept_bytes,
    criteria=[
        Correct("plain", 2, "bytes of what is kept"),
        Correct("inputs", 1, "inputs do not count"),
        Correct("shared", 2, "each storage once and whole"),
        Correct("others", 1, "other dtypes, nothing to keep"),
    ],
    hints=[
        "with torch.autograd.graph.saved_tensors_hooks(pack, unpack): pack(t) is called for each tensor that autograd keeps.",
        "Two tensors may be views of one storage: t.untyped_storage().data_ptr() names it, .nbytes() is its size.",
        "Let pack put {pointer: bytes} into a dict and return t: as long as t lives, nobody else gets its address. Leave out "
        "pointers of inputs.",
    ],
)

# ------------------------------------------------------------------------------------------------ recomputing for speed


def traffic(n: int, itemsize: int, recompute: bool) -> Case:
    way = "recomputed" if recompute else "stored"
    return fixed(f"{n} of {itemsize} bytes, {way}", way, n=n, itemsize=itemsize, recompute=recompute)


sigmoid3_traffic = Exercise(
    id="recomputation.sigmoid3_traffic",
    entry="sigmoid3_traffic",
    signature="sigmoid3_traffic(n: int, itemsize: int, recompute: bool) -> (int, int)",
    kind="formula",
    minutes=5,
    difficulty=2,
    lines=2,
    cases=[traffic(n, b, r) for r in (False, True) for n, b in ((1000, 4), (4096, 2), (77, 8))],
    oracle=sigmoid_bytes,
    criteria=[
        Correct("stored", 2, "with s1 and s2 stored, equal to the trace"),
        Correct("recomputed", 2, "recomputed, equal to the trace"),
    ],
    hints=[
        "Count tensors first: which ones does the forward kernel read and write, which ones the backward kernel?",
        "Stored: x in; s1, s2 and the result out. Then s1, s2 and dy in, dx out: the third sigmoid follows from s2.",
        "Recomputed: x in, the result out; then x and dy in, dx out. Each tensor is n * itemsize bytes.",
    ],
)

sigmoid3 = Exercise(
    id="recomputation.sigmoid3",
    entry="Sigmoid3",
    signature="Sigmoid3.apply(x, contiguous) -> sigmoid(sigmoid(sigmoid(x)))",
    called="forward and backward",
    minutes=20,
    difficulty=3,
    lines=30,
    cases=[
        Case("64 x 128", "plain", elementwise((64, 128))),
        Case("one element", "ragged", elementwise((1,))),
        Case("37 x 53 x 3", "ragged", elementwise((37, 53, 3))),
        Case("5001, bfloat16", "ragged", elementwise((5001,), torch.bfloat16)),
        Case("large numbers", "hard", elementwise((40, 77), scale=60)),
        Case("large numbers, float16", "hard", elementwise((3001,), torch.float16, scale=60)),
        Case("128 x 512", "performance", elementwise((128, 512))),
        Case("128 x 512, float16", "performance", elementwise((128, 512), torch.float16)),
    ],
    oracle=lambda x, dy: with_gradients(lambda x: x.sigmoid().sigmoid().sigmoid(), dy, x=x),
    budget=sigmoid_budget,
    gates=GATES,
    criteria=[
        Correct("ragged", 2),
        Correct("hard", 1, "right for large numbers"),
        Saves(lambda x, dy: 0, 3, "keeps nothing but x"),
        Launches(1, 1, phase=0),
        Launches(1, 1, phase=1),
        Traffic(times(5), 2, title="five memory operations"),
    ],
    bonus=[against_copy("8192 x 8192", elementwise((8192, 8192)), times(5), full=0.85)],
    hints=[
        "forward(ctx, x): allocate, launch, ctx.save_for_backward(x), return. backward(ctx, dy): load x and dy, compute s1, s2, "
        "s3 again, store dx.",
        "With s = sigmoid(z), ds/dz = s (1 - s). The chain has three such factors: of s1, s2 and s3.",
        "dx = dy * s3 * (1 - s3) * s2 * (1 - s2) * s1 * (1 - s1), where s1 = tl.sigmoid(x.to(tl.float32)), and so on; x and dy "
        "are one-dimensional to the kernel: x.numel() elements.",
    ],
    mistakes=[
        FLOAT32,
        saved_something(
            "A tensor that forward writes and backward reads costs two memory operations. Can backward compute it?"
        ),
        several_launches("Three sigmoids in three launches pass through memory twice on the way: compute them in one."),
    ],
)

recomputed_gelu = Exercise(
    id="recomputation.recomputed_gelu",
    entry="RecomputedGelu",
    signature="RecomputedGelu.apply(x, gate), contiguous, of one shape -> gelu(x) * gate",
    called="forward and backward",
    minutes=15,
    difficulty=3,
    lines=35,
    cases=[
        Case("64 x 128", "plain", elementwise((64, 128), names="x gate dy")),
        Case("one element", "ragged", elementwise((1,), names="x gate dy")),
        Case("37 x 53 x 3", "ragged", elementwise((37, 53, 3), names="x gate dy")),
        Case("5001, bfloat16", "ragged", elementwise((5001,), torch.bfloat16, names="x gate dy")),
        Case("large numbers", "hard", elementwise((40, 77), scale=8, names="x gate dy")),
        Case("large numbers, float16", "hard", elementwise((3001,), torch.float16, scale=20, names="x gate dy")),
        Case("128 x 256", "performance", elementwise((128, 256), names="x gate dy")),
        Case("128 x 256, float16", "performance", elementwise((128, 256), torch.float16, names="x gate dy")),
    ],
    oracle=lambda x, gate, dy: with_gradients(lambda x, gate: gelu(x) * gate, dy, x=x, gate=gate),
    budget=gelu_budget,
    gates=GATES,
    criteria=[
        Correct("ragged", 2),
        Correct("hard", 2, "right for large numbers"),
        Saves(lambda x, gate, dy: 0, 3, "keeps nothing but x and the gate"),
        Launches(1, 1, phase=1),
        Traffic(times(8), 2, title="eight memory operations"),
    ],
    bonus=[against_copy("8192 x 4096", elementwise((8192, 4096), names="x gate dy"), times(8), full=0.85)],
    hints=[
        "gelu(x) = x F(x), with F(x) = (1 + erf(x / sqrt(2))) / 2. What are the derivatives of x F(x) g by x and by g?",
        "F' is the normal density: exp(-x * x / 2) / sqrt(2 pi). So dgate = dy * x * F and dx = dy * gate * (F + x * F').",
        "backward loads x, gate and dy and stores both gradients; it returns (dx, dgate), in the order of forward's arguments. "
        "tl.erf wants float32.",
    ],
    mistakes=[
        FLOAT32,
        saved_something("gelu(x) can be computed again from x: nothing but the inputs must be kept."),
        several_launches("Both gradients need x, gate and dy: load them once, in one kernel."),
    ],
)

# ------------------------------------------------------------------------------------------------ keeping less: one number a row

cross_entropy_backward = Exercise(
    id="recomputation.cross_entropy_backward",
    entry="cross_entropy_backward",
    signature="cross_entropy_backward(x: (M, V), target: (M,), lse: (M,), dloss: (M,)) -> (M, V)",
    minutes=15,
    difficulty=2,
    lines=16,
    cases=[
        Case("48 rows of 256", "plain", logits(48, 256)),
        Case("one row of one", "ragged", logits(1, 1)),
        Case("37 rows of 5003", "ragged", logits(37, 5003)),
        Case("9 rows of 777, bfloat16", "ragged", logits(9, 777, torch.bfloat16)),
        Case("logits around 100", "hard", logits(20, 333, shift=100.0)),
        Case("logits around -200", "hard", logits(20, 333, shift=-200.0)),
        Case("logits of large spread, float16", "hard", logits(20, 333, torch.float16, scale=30.0)),
        Case("a third of them -inf", "hard", logits(20, 333, ban=0.33)),
        Case("64 rows of 4096", "performance", logits(64, 4096)),
        Case("64 rows of 4096, float16", "performance", logits(64, 4096, torch.float16)),
    ],
    oracle=lambda x, target, lse, dloss: (
        with_gradients(lambda x: cross_entropy(x, target, reduction="none"), dloss, x=x).dx
    ),
    budget=cross_entropy_budget,
    gates=GATES,
    criteria=[
        Correct("ragged", 2),
        Correct("hard", 2, "right for large logits and for -inf"),
        Traffic(lambda x, target, lse, dloss: 2 * x.nbytes, 2),
        Coalesced("load", 1),
        NoBufferOfSize(lambda x, target, lse, dloss: x.nbytes / 8, 1, "no table of probabilities"),
    ],
    bonus=[against_copy("8192 rows of 8192", logits(8192, 8192), times(2), full=0.8)],
    hints=[
        "loss = lse - x[target]. What is the derivative of lse by x[j]? And of x[target]?",
        "d loss / d x[j] = exp(x[j] - lse) - (1 if j is the target else 0). No sum over the row is left to do.",
        "A program takes one row and one block of its columns: tl.load(target_ptr + row), p = tl.exp(x - lse), then "
        "(p - tl.where(cols == target, 1.0, 0.0)) * dloss.",
    ],
    mistakes=[
        FLOAT32,
        lambda trials: (
            "exp(x) overflows beyond 88: subtract lse before you exponentiate, not after."
            if any(t.case.group == "hard" and _has_nan(t) for t in trials)
            else ""
        ),
    ],
)


def _has_nan(trial: Trial) -> bool:
    return any(isinstance(out, torch.Tensor) and bool(out.isnan().any()) for out in trial.evidence.outputs)


rmsnorm_backward = Exercise(
    id="recomputation.rmsnorm_backward",
    entry="rmsnorm_backward",
    signature="rmsnorm_backward(x: (M, N), weight: (N,), rstd: (M,), dy: (M, N)) -> (M, N), (N,) float32",
    minutes=25,
    difficulty=4,
    lines=40,
    cases=[
        Case("96 rows of 128", "plain", normed(96, 128)),
        Case("1 x 1", "ragged", normed(1, 1)),
        Case("131 rows of 77", "ragged", normed(131, 77)),
        Case("3 rows of 1031", "ragged", normed(3, 1031)),
        Case("70 rows of 200, bfloat16", "ragged", normed(70, 200, torch.bfloat16)),
        Case("many rows, float16", "hard", normed(301, 33, torch.float16)),
        Case("large rows, float16", "hard", normed(40, 300, torch.float16, scale=1000.0)),
        Case("128 rows of 2048", "performance", normed(128, 2048)),
        Case("128 rows of 1024, float16", "performance", normed(128, 1024, torch.float16)),
    ],
    oracle=rmsnorm_gradients,
    budget=rmsnorm_budget,
    gates=GATES,
    criteria=[
        Correct("ragged", 2),
        Correct("hard", 2, "right for many rows and for large ones"),
        Traffic(times(3), 2, at_most=1.2, title="x and dy read once, dx written once"),
        NoAtomics(2),
        Programs(8, 1, group="performance"),
        Coalesced("load", 1),
    ],
    bonus=[against_copy("8192 rows of 4096", normed(8192, 4096), times(3), full=0.7)],
    hints=[
        "With n = x * rstd: dweight[j] is the sum of dy * n down column j, and dx is what comes through n and through rstd.",
        "g = weight * dy; dx = rstd * (g - n * mean(g * n)), the mean along the row. A program that does many rows, one after "
        "the other, adds up its own dy * n in registers.",
        "Each program stores its sum as a row of partial (programs, N); a second kernel adds up the columns of partial. With 16 "
        "rows a program, partial is a sixteenth of x.",
    ],
    mistakes=[
        lambda trials: (
            "Atomics add in whatever order programs arrive: store a row of partial sums for each program instead."
            if any(a.op == "atomic" for t in trials for launch in t.evidence.launches for a in launch.accesses)
            else ""
        )
    ],
)

# ------------------------------------------------------------------------------------------------ random numbers

seeded_dropout = Exercise(
    id="recomputation.seeded_dropout",
    entry="SeededDropout",
    signature="SeededDropout.apply(x, contiguous, p: float, seed: int) -> x / (1 - p) or 0",
    called="forward and backward",
    minutes=10,
    difficulty=3,
    lines=25,
    cases=[
        Case("64 x 128, p = 0.5", "plain", dropped((64, 128), 0.5, 7)),
        Case("one element", "ragged", dropped((1,), 0.3, 11)),
        Case("37 x 53 x 3, p = 0.1", "ragged", dropped((37, 53, 3), 0.1, 123456789)),
        Case("5001, bfloat16", "ragged", dropped((5001,), 0.25, 99, torch.bfloat16)),
        Case("p = 0: nothing is dropped", "probabilities", dropped((1000,), 0.0, 5)),
        Case("p = 0.9", "probabilities", dropped((50, 60), 0.9, 5)),
        Case("another seed", "probabilities", dropped((50, 60), 0.9, 6)),
        Case("128 x 512", "performance", dropped((128, 512), 0.2, 42)),
        Case("128 x 512, float16", "performance", dropped((128, 512), 0.2, 43, torch.float16)),
    ],
    oracle=dropout_and_gradient,
    budget=rounding_budget,
    gates=GATES,
    criteria=[
        Correct("ragged", 2),
        Correct("probabilities", 1, "any p, any seed"),
        KeepsNothing(3),
        Traffic(times(4), 2),
    ],
    bonus=[against_copy("8192 x 8192", dropped((8192, 8192), 0.2, 42), times(4), full=0.5)],
    hints=[
        "The mask is a function of the seed and of the element's number. What must be kept to compute it a second time?",
        "dx is dropout of dy, with the same seed: one kernel serves both halves.",
        "kept = tl.rand(seed, i) >= p; tl.where(kept, x / (1 - p), 0.0). Put p and seed on ctx as plain attributes; backward "
        "returns dx, None, None.",
    ],
    mistakes=[saved_something("The mask is not needed: tl.rand(seed, i) gives the same numbers whenever it is asked.")],
)

# ------------------------------------------------------------------------------------------------ checkpoints


def step(name: str, group: str, /, **changes: Any) -> Case:
    """A case for checkpoint: one run of a layer with dropout, unless told otherwise."""
    return fixed(name, group, **({"rows": 12, "width": 6, "p": 0.4, "calls": 1, "frozen": False, "seed": 17} | changes))


@cache
def plain_step(**arguments: Any) -> dict[str, Any]:
    """The same without a checkpoint."""
    return run_checkpoint(lambda fn, *args: fn(*args), **arguments)


def like_the_plain_step(*keys: str) -> Callable[..., str]:
    names = {"out": "the result", "gradients": "a gradient", "after": "a random number drawn after backward"}

    def look(output: Any, **arguments: Any) -> str:
        if not isinstance(output, dict):
            return "returned no tensor"
        wrong = [names[k] for k in keys if output.get(k) != plain_step(**arguments)[k]]
        return f"{wrong[0]} is another than without the checkpoint" if wrong else ""

    return look


def wrong_runs(draws: Sequence[int], calls: int) -> str:
    """ "" if fn ran once forward and once backward in each call."""
    if len(draws) == 2 * calls:
        return ""
    checkpoints = "1 checkpoint" if calls == 1 else f"{calls} checkpoints"
    said = f"{checkpoints}: {2 * calls} runs of fn expected, {len(draws)} seen"
    if len(draws) < 2 * calls:
        return f"{said}; backward has to run fn once more"
    return f"{said}; recomputing runs the arguments' own history, unless you detach() them"


def recomputes(output: Any, rows: int, width: int, calls: int, **_: Any) -> str:
    """Kept are the inputs of the calls; and fn runs once in each half."""
    kept, draws = output.get("kept"), output.get("draws")
    allowed = (calls - 1) * 8 * rows * width + 8192  # a random state is 5 KB
    if type(kept) is not int or type(draws) is not list:
        return "nothing was observed"
    if kept > allowed:
        return f"{kept:,} bytes are alive before backward, beside arguments and result; {allowed:,} would do"
    return wrong_runs(draws, calls)


def lets_go(output: Any, **_: Any) -> str:
    left = output.get("left")
    if type(left) is not int:
        return "nothing was observed"
    return "" if left <= 8192 else f"{left:,} bytes are still held after backward, beside gradients and result"


def same_dropout(output: Any, calls: int, **_: Any) -> str:
    draws = output.get("draws") or []
    if wrong_runs(draws, calls):
        return wrong_runs(draws, calls)
    halves = draws[:calls], draws[calls:][::-1]
    return "" if halves[0] == halves[1] else "dropout kept other elements in the recomputation than in the forward run"


checkpoint = Exercise(
    id="recomputation.checkpoint",
    entry="checkpoint",
    signature="checkpoint(fn, *args) -> fn(*args)",
    kind="formula",
    called="in a training step",
    without="torch.utils.checkpoint",
    minutes=30,
    difficulty=4,
    lines=28,
    cases=[
        step("a layer", "plain", p=0.0),
        step("one input with a gradient", "plain", p=0.0, frozen=True, rows=7),
        step("a large layer", "memory", rows=64, width=32),
        step("three in a row", "memory", rows=64, width=32, calls=3),
        step("dropout", "dropout"),
        step("dropout, three in a row", "dropout", calls=3, seed=4),
        step("what is drawn later", "after", seed=5),
    ],
    oracle=lambda **arguments: (plain_step(**arguments)["after"],),
    criteria=[
        Holds(like_the_plain_step("out", "gradients"), 3, "result and gradients of fn"),
        Holds(recomputes, 2, "keeps the arguments alone, runs fn once more", group="memory"),
        Holds(lets_go, 1, "lets go of them when backward has passed", group="memory"),
        Holds(same_dropout, 2, "the same dropout, bit for bit", group="dropout"),
        Holds(like_the_plain_step("after"), 2, "leaves the random state as it was", group="after"),
    ],
    hints=[
        "A torch.autograd.Function: forward runs in no_grad mode, so nothing inside is kept. What will backward need?",
        "backward: detach the arguments, require gradients again, run fn under torch.enable_grad(), and ask "
        "torch.autograd.grad(out, leaves, dy).",
        "ctx.rng = torch.get_rng_state() before fn runs; in backward, with torch.random.fork_rng(devices=[]): "
        "torch.set_rng_state(ctx.rng), then fn. Return None for fn and for every argument without a gradient. Tensors go through "
        "ctx.save_for_backward, which takes None for the others.",
    ],
    mistakes=[
        raised("does not require grad", "Inside backward gradients are off: run fn there under torch.enable_grad()."),
        raised(
            "through the graph a second time",
            "Run on the arguments themselves, fn runs their history, too: detach() them.",
        ),
    ],
)

MODEL = {"layers": 24, "boundary": 65536, "inside": 589824}  # bytes of train_step's layers: 512 tokens, width 32


def has_the_least_peak(output: Any, layers: int, boundary: int, inside: int) -> str:
    if problem := no_prediction(output, layers):
        return problem
    peak, least = peak_of(layers, boundary, inside, output[0]), least_peak(layers, boundary, inside)
    return (
        ""
        if peak == least[1]
        else f"{output[0]} segments of {layers} layers peak at {peak:,} bytes; {least[1]:,} is possible"
    )


def says_its_peak(output: Any, layers: int, boundary: int, inside: int) -> str:
    if problem := no_prediction(output, layers):
        return problem
    peak = peak_of(layers, boundary, inside, output[0])
    return (
        ""
        if output[1] == peak
        else f"{output[0]} segments of {layers} layers peak at {peak:,} bytes, not {output[1]:,}"
    )


def holds_when_counted(output: Any, layers: int, boundary: int, inside: int) -> str:
    """The counted model stays below the prediction plus what a single layer's backward works with, and is near to it."""
    if problem := no_prediction(output, layers):
        return problem
    working = counted_peak(1, 0) - inside
    counted = counted_peak(layers, output[0]) - working
    if counted > output[1]:
        return f"{output[0]} segments: {counted:,} bytes were counted, {output[1]:,} predicted"
    return "" if counted > 0.8 * output[1] else f"{output[0]} segments need no more than {counted:,} bytes, as counted"


@cache
def counted_peak(layers: int, segments: int) -> int:
    return train_step(layers, segments).peak


def no_prediction(output: Any, layers: int) -> str:
    """ "" for two whole numbers of which the first may be a number of segments."""
    two = isinstance(output, list) and [type(v) for v in output] == [int, int]
    if two and 1 <= output[0] <= layers:
        return ""
    return f"expected (segments, peak) with 1 to {layers} segments, got {in_words(output)}"


segments_for = Exercise(
    id="recomputation.segments_for",
    entry="segments_for",
    signature="segments_for(layers: int, boundary: int, inside: int) -> (segments: int, peak: int)",
    kind="formula",
    minutes=10,
    difficulty=3,
    lines=5,
    cases=[
        fixed("16 layers that keep one tensor each", "plain", layers=16, boundary=1000, inside=1000),
        fixed("one layer", "plain", layers=1, boundary=10, inside=90),
        fixed("23 layers", "plain", layers=23, boundary=10, inside=90),
        fixed("100 thin layers", "plain", layers=100, boundary=4096, inside=8192),
        fixed("wide boundaries", "plain", layers=40, boundary=500, inside=100),
        fixed("a model of 24 layers", "counted", **MODEL),
    ],
    oracle=least_peak,
    criteria=[
        Holds(has_the_least_peak, 2, "no other number of segments needs less"),
        Holds(says_its_peak, 1, "the peak of that many segments"),
        Holds(holds_when_counted, 2, "a counted model of 24 layers stays below it", group="counted"),
    ],
    hints=[
        "With s segments: which tensors are alive when the last segment has just been recomputed?",
        "s boundaries, and `inside` for each layer of one segment; the longest has ceil(layers / s) layers.",
        "min over s from 1 to layers of s * boundary + -(-layers // s) * inside; return s with it.",
    ],
)

EXERCISES = {
    exercise.id: exercise
    for exercise in (
        kept_tensors,
        saved_bytes,
        sigmoid3_traffic,
        sigmoid3,
        recomputed_gelu,
        cross_entropy_backward,
        rmsnorm_backward,
        seeded_dropout,
        checkpoint,
        segments_for,
    )
}
