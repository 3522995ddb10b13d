"""Unit 10, FlashAttention backward in Triton. Shapes, masks and lse as in unit 08: see course_lib/exercises/attention.py.

    do      (..., Nq, D), the gradient of o;  dq, dk, dv the gradients of q, k, v, of their dtypes
    delta   (..., Nq) float32, rowsum(do * o)

Oracles: autograd in float64, head by head; autograd's saved tensors, on tensors without data; products counted as torch does them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.flop_counter import FlopCounterMode

from course_lib import slow_attention
from course_lib.cases import fixed, operations
from course_lib.criteria import (
    NOTHING,
    Coalesced,
    Compiles,
    Correct,
    DotFlops,
    Holds,
    Launches,
    NoAtomics,
    NoBufferOfSize,
    Rereads,
    Speed,
    Traffic,
    roundings,
)
from course_lib.criteria.results import OnceRight
from course_lib.exercise import Case, Exercise, Finding, Trial
from course_lib.exercises import attention
from course_lib.exercises.attention import EPS32, PRODUCTS, computes, has_nan, laid_out, score_error, seen
from course_lib.exercises.flash import (
    BRAIN,
    GATES,
    HALF,
    SINGLE,
    TILE,
    attend,
    by_columns,
    heads,
    heads_of,
    kernel_budget,
    one_of_each_head,
    pairs,
    unstored,
    visible,
)
from course_lib.mistakes import Mistake, raised

# ------------------------------------------------------------------------------------------------ inputs


def upstream(like: torch.Tensor, kind: str, g: torch.Generator) -> torch.Tensor:
    """A gradient of o, shaped as `like` is.

    kind   "mild" around 0; "around 3"; "turning" from around 3 to around -3 half way, so that sums over queries grow and then
           cancel; "one number" for all, a view of stride 0, as after o.sum().backward(); "heads" or "windows", mild in that layout
    """
    if kind == "one number":
        return torch.randn((), generator=g, device=g.device).to(like.dtype).expand(like.shape)
    do = torch.randn(like.shape, generator=g, device=g.device)
    if kind in ("around 3", "turning"):
        do = do + 3
    if kind == "turning":
        do[..., like.shape[-2] // 2 :, :] -= 6
    return laid_out(do.to(like.dtype), kind)


def with_do(draw: Callable, kind: str = "mild") -> Callable:
    """That drawing of q, k, v and more, with a gradient of o, last."""

    def drawn(g: torch.Generator) -> dict[str, Any]:
        given = draw(g)
        return given | {"dy": upstream(given["q"], kind, g)}

    return drawn


def backward(
    nq: int, nk: int, d: int, dtype: torch.dtype = HALF, *, do: str = "mild", q=0.0, k=0.0, v: str = "mild", **more: Any
):
    """A drawing of q, k, v, do, lse and delta as forward and `delta` leave them, causal, and scale if it is given.

    q, k are around these numbers; v is of a kind of `upstream`, with keys for queries.
    """

    def drawn(g: torch.Generator) -> dict[str, Any]:
        given = heads(nq, nk, d, dtype, **more)(g)
        given |= {name: given[name] + around for name, around in (("q", q), ("k", k)) if around}
        given |= {"v": upstream(given["v"], v, g)} if v != "mild" else {}
        return after_forward(given | {"do": upstream(given["q"], do, g)})

    return drawn


def after_forward(given: dict[str, Any]) -> dict[str, Any]:
    """q, k, v, do, more -> with the lse and delta of an exact forward pass."""
    do, rest = given["do"], {name: value for name, value in given.items() if name != "do"}
    o, lse = attend(**rest)
    delta = (do.double() * o).sum(-1).float()
    tensors = {name: rest.pop(name) for name in "qkv"}
    return tensors | {"do": do, "lse": lse, "delta": delta} | rest


def outputs(*shape: int, dtype: torch.dtype = HALF, around: float = 0.0, layout: str = "rows", do: str = "mild"):
    """A drawing of o and do."""

    def draw(g: torch.Generator) -> dict[str, torch.Tensor]:
        o = (torch.randn(shape, generator=g, device=g.device) + around).to(dtype)
        return {"o": laid_out(o, layout), "do": upstream(o, do, g)}

    return draw


# ------------------------------------------------------------------------------------------------ oracles


class Result(NamedTuple):
    o: torch.Tensor
    dq: torch.Tensor
    dk: torch.Tensor
    dv: torch.Tensor


class KeysAndValues(NamedTuple):
    dk: torch.Tensor
    dv: torch.Tensor


def by_heads(*tensors: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """(..., N, D) each -> (N, D) each, in float64, for every head."""
    return zip(*(t.reshape(-1, *t.shape[-2:]).double() for t in tensors), strict=True)


def joined(found: Sequence[Sequence[torch.Tensor]], *like: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """What was found head by head, in the shapes of `like`."""
    return tuple(torch.stack(part).reshape(x.shape) for part, x in zip(zip(*found, strict=True), like, strict=True))


def gradients(q, k, v, do, causal: bool = False, scale: float | None = None, **_: Any) -> tuple[torch.Tensor, ...]:
    """(dq, dk, dv) in float64."""
    times = 1.0 if scale is None else scale * math.sqrt(q.shape[-1])  # a scale of one's own is one of q
    found = []
    for one in by_heads(q, k, v, do):
        dq, dk, dv = attention.gradients(times * one[0], *one[1:], causal)
        found.append((times * dq, dk, dv))
    return joined(found, q, k, v)


def keys_and_values(**given: Any) -> KeysAndValues:
    return KeysAndValues(*gradients(**given)[1:])


def result(q, k, v, dy, **more: Any) -> Result:
    return Result(attend(q, k, v, **more)[0], *gradients(q, k, v, dy, **more))


def row_dots(o: torch.Tensor, do: torch.Tensor) -> torch.Tensor:
    return (o.double() * do.double()).sum(-1).float()


# ------------------------------------------------------------------------------------------------ budgets

CHANCE = 5  # times the length of a random walk of roundings: honest ones get to 2


def delta_budget(expected, dtype, arguments):
    o, do = (arguments[name].double() for name in ("o", "do"))
    return (2 * math.sqrt(o.shape[-1]) + 4) * EPS32 * (o * do).abs().sum(-1)


def allowances(q, k, v, do, causal=False, scale=None, o_rounded: bool = False, **_: Any) -> tuple[torch.Tensor, ...]:
    """What dq, dk and dv may be off by.

    Float32 arithmetic: each probability has the error of its score, each sum that of its order. Half precision: probabilities and
    ds are rounded once, for a product, and as many errors of either sign add up to the root of their squares.
    o_rounded: delta was computed from an o of q's dtype.
    """
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    nq, nk, d = q.shape[-2], k.shape[-2], q.shape[-1]
    mask = visible(nq, nk, causal, None, q.device)
    info = torch.finfo(q.dtype)
    unit = info.eps / 2 if q.dtype != SINGLE else 0.0
    least = info.smallest_normal * unit  # float16 has no smaller numbers to round to
    order = 2 * math.sqrt(max(nq, nk) + d) * EPS32

    def walk(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return CHANCE * torch.sqrt((unit * x.abs() + least * (x != 0)) ** 2 @ y**2)

    found = []
    for q1, k1, v1, do1 in by_heads(q, k, v, do):
        s = (q1 @ k1.mT * scale).masked_fill(~mask, -math.inf)
        lse = s.logsumexp(-1, keepdim=True)
        p = torch.softmax(s, -1).nan_to_num(0)
        error = (score_error(q1, k1, scale)[:, None] + order + EPS32 * lse.abs().nan_to_num(0, posinf=0)) * p
        dp = do1 @ v1.mT
        ds = p * (dp - (p * dp).sum(-1, keepdim=True))
        sizes = do1.abs() @ v1.abs().mT + (do1.abs() * (p @ v1.abs())).sum(-1, keepdim=True)
        # one error a query: of delta, if o was rounded, and so were the probabilities that made it
        of_o = (do1 * (p @ v1)).square().sum(-1, keepdim=True) + (p * dp).square().sum(-1, keepdim=True)
        delta = (CHANCE * unit * torch.sqrt(of_o)) if o_rounded else torch.zeros_like(lse)
        dq = error * sizes @ k1.abs() + walk(ds, k1) + delta * (p @ k1).abs()
        dk = (error * sizes).mT @ q1.abs() + walk(ds.mT, q1) + CHANCE * torch.sqrt(((delta * p) ** 2).mT @ q1**2)
        dv = error.mT @ do1.abs() + walk(p.mT, do1)
        found.append((scale * dq, scale * dk, dv))
    return joined(found, q, k, v)


def gradient_budget(expected, dtype, arguments):
    """Of dq, dk or dv, whichever is expected."""
    which = next(i for i, found in enumerate(gradients(**arguments)) if torch.equal(found, expected))
    return roundings(expected, dtype, 1) + allowances(**arguments)[which]


def result_budget(expected, dtype, arguments):
    """Of o as in unit 09; of gradients with an o that was rounded."""
    given = {("do" if name == "dy" else name): value for name, value in arguments.items()}
    for i, found in enumerate(gradients(**given)):
        if torch.equal(found, expected):
            return roundings(expected, dtype, 1) + allowances(**given, o_rounded=True)[i]
    return kernel_budget(expected, dtype, given)


# ------------------------------------------------------------------------------------------------ what it may cost


def products(times: int) -> Callable[..., int]:
    """So many products of each tile of 128 x 128 that is seen."""
    return lambda q, k, causal=False, **_: (
        2 * times * q.shape[-1] * heads_of(q) * pairs(q.shape[-2], k.shape[-2], causal)
    )


def scores_bytes(q: torch.Tensor, k: torch.Tensor, **_: Any) -> int:
    """Half a byte for each score."""
    return heads_of(q) * q.shape[-2] * k.shape[-2] // 2


@dataclass
class KeepsOneNumberARow(OnceRight):
    """Backward uses the inputs, o, and one more tensor: a float32 for each query."""

    points: float
    title: str = "keeps q, k, v, o and one number a query"
    group: str = "performance"

    def count(self, group: Sequence[Trial]) -> Finding:
        allowed = 0
        for trial in group:
            evidence, arguments = trial.evidence, trial.inputs[-1]
            if evidence.saved is None or 0 not in evidence.ready:
                return self.lost("no forward half that ends with its result")
            own = [s for s in evidence.saved if s.tensor not in arguments]
            rows = [s for s in own if s.tensor != "out[0]"]
            allowed = 4 * math.prod(arguments["q"].shape[:-1])
            if len(rows) != 1 or rows[0].nbytes != allowed:
                said = ", ".join(f"`{s.tensor}` {tuple(s.shape)}: {s.nbytes:,} bytes" for s in own) or "nothing"
                expected = f"beside the inputs and o one tensor of {allowed:,} bytes on {trial.case.name}"
                return self.lost(f"{len(rows)} tensors beside the inputs and o", expected=expected, detail=said)
        return self.earned(f"o, and {allowed:,} bytes")


@dataclass
class KernelsAlone(OnceRight):
    """torch allocates and makes views, in both halves."""

    points: float
    title: str = "no torch in between, no copies"
    group: str = "strided"

    def count(self, group: Sequence[Trial]) -> Finding:
        for trial in group:
            if trial.evidence.operations:
                done = ", ".join(dict.fromkeys(trial.evidence.operations))
                return self.lost(f"torch does {done}", expected=f"kernels alone on {trial.case.name}")
        return self.earned("kernels alone")


@dataclass
class KernelsMadeTheGradients:
    """A gate: kernels of the backward half write dq, dk and dv, and do five products of what is seen; torch does no more
    products than a slow forward pass takes."""

    points: float = 0.0
    title: str = "gradients computed by your Triton kernels"

    def judge(self, exercise: Exercise, trials: Sequence[Trial]) -> Finding:
        seen = next(filter(None, (self._problem(exercise, trial) for trial in trials)), "")
        stopped = any(trial.evidence.error == seen for trial in trials)  # an error says nothing of what kernels wrote
        expected = "" if seen and stopped else "kernels of the backward half write dq, dk and dv"
        return Finding(self.title, 0, 0, not seen, expected=expected, seen=seen or "dq, dk and dv")

    def _problem(self, exercise: Exercise, trial: Trial) -> str:
        evidence = trial.evidence
        if evidence.refused:
            return evidence.refused
        if evidence.error:
            return evidence.error if not evidence.launches else ""
        if evidence.outputs[-1] is None:
            return f"{exercise.entry} {NOTHING}"
        if evidence.saved is None or len(evidence.outputs[-1]) != 4:
            return f"{exercise.entry} returns nothing yet, or too little"
        launches = [launch for launch in evidence.launches if launch.phase == 1]
        written = {f.tensor for launch in launches for f in launch.footprints if f.written_bytes}
        missing = [name for i, name in enumerate(("dq", "dk", "dv"), 1) if f"out[{i}]" not in written]
        if missing:
            return f"no kernel of the backward half writes {', '.join(missing)}"
        if sum(name in PRODUCTS for name in evidence.operations) > 2:
            return "torch multiplies matrices in the backward half"
        arguments = trial.inputs[-1]
        q, k = arguments["q"], arguments["k"]
        least = 10 * q.shape[-1] * heads_of(q) * int(seen(q.shape[-2], k.shape[-2], arguments["causal"]).sum())
        if trial.case.group == "performance" and sum(launch.flops.dot for launch in launches) < least:
            return "kernels do fewer products than gradients take"
        return ""


# ------------------------------------------------------------------------------------------------ mistakes


def with_do_named(call: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call, the gradient of o under the name `do`."""
    return {("do" if name == "dy" else name): value for name, value in call.items()}


def slip(name: str, place: int, wrong: Callable[..., Any], sentence: str) -> Mistake:
    """`sentence`, if result number `place`, which should be dq, dk or dv (`name`), is what `wrong` makes of the arguments: all three."""
    which = ("dq", "dk", "dv").index(name)

    def one_of(all_three: Callable[..., Any]) -> Callable[..., torch.Tensor | None]:
        return lambda **call: (found := all_three(**with_do_named(call))) and found[which]

    return computes(one_of(wrong), sentence, one_of(gradients), place)


def scaled(power: int) -> Callable[..., tuple[torch.Tensor, ...]]:
    """(dq, dk, dv) with the factor scale so many times more than is right."""

    def wrong(q, k, v, do, causal=False, scale=None, **_):
        times = (q.shape[-1] ** -0.5 if scale is None else scale) ** power
        dq, dk, dv = gradients(q, k, v, do, causal, scale)
        return times * dq, times * dk, dv

    return wrong


def by_the_formula(edge: Callable[[int, int], int] | None = None, minus: float = 1.0) -> Callable[..., Any]:
    """(dq, dk, dv) by the chain rule of 08, with `minus` times delta, and a mask that lets query i see the keys up to i + edge(Nq, Nk)
    although lse knows better; None where some query sees nothing, or that mask does not differ."""

    def wrong(q, k, v, do, causal=False, scale=None, **_):
        nq, nk = q.shape[-2], k.shape[-2]
        if causal and nq > nk or edge and not causal:
            return None
        q, k, v, do = (x.double() for x in (q, k, v, do))
        scale = q.shape[-1] ** -0.5 if scale is None else scale
        s, dp = scale * q @ k.mT, do @ v.mT
        right = seen(nq, nk, causal, q.device)
        p = torch.exp(s - s.masked_fill(~right, -math.inf).logsumexp(-1, keepdim=True))
        delta = (p * right * dp).sum(-1, keepdim=True)
        p = p * (torch.ones_like(right).tril(edge(nq, nk)) if edge else right)
        ds = p * (dp - minus * delta)
        return scale * ds @ k, scale * ds.mT @ q, p.mT @ do

    return wrong


def atomics(trials: Sequence[Trial]) -> str:
    found = any(a.op == "atomic" for t in trials for launch in t.evidence.launches for a in launch.accesses)
    return "Atomics add in whatever order programs arrive. Give each sum a program of its own." if found else ""


def mistakes_of(name: str, place: int) -> list[Mistake]:
    """What dq or dk (`name`), result number `place`, may lack or have twice."""
    other = {"dq": "k", "dk": "q"}[name]
    return [
        slip(
            name,
            place,
            scaled(-1),
            f"{name} lacks the factor scale: s = scale * q @ k.mT, so {name} is scale times a product of ds and {other}.",
        ),
        slip(name, place, scaled(1), f"{name} has the factor scale twice: in ds, or in {other}, and at the end."),
        slip(name, place, by_the_formula(minus=0.0), f"{name} lacks delta: ds = p * (dp - delta)."),
    ]


def masks_of(name: str) -> list[Mistake]:
    """How the mask of a kernel whose first result is dq or dk may lie."""
    return [
        slip(name, 0, by_the_formula(lambda nq, nk: 0), attention.AT_THE_TOP_LEFT),
        slip(name, 0, by_the_formula(lambda nq, nk: nk), "These are the gradients without the causal mask."),
        slip(name, 0, by_the_formula(lambda nq, nk: nk - nq - 1), "Each query sees one key too few."),
        slip(name, 0, by_the_formula(lambda nq, nk: nk - nq + 1), "Each query sees one key too many."),
    ]


def swapped(place: int) -> Mistake:
    return slip(
        "dk", place, lambda **given: (dkv := gradients(**given)) and (dkv[0], dkv[2], dkv[1]), "dk and dv are swapped."
    )


LOST_NOTHING = has_nan(
    ["nothing", "causal"],
    "NaN: lse is -inf where a query sees nothing, and exp(s + inf) is inf. Mask p, after exp, with 0.",
)
LOST_RAGGED = has_nan(
    ["ragged", "hard"],
    "NaN: rows that are not there have a score of 0, and exp(0 - lse) may be inf; inf * 0 is NaN. Mask p with 0.",
)

# ------------------------------------------------------------------------------------------------ predictions

Q, K, V, DO = (torch.empty(16, 16) for _ in range(4))


def forward_tile() -> None:
    (Q @ K.T) @ V


def dkdv_tile() -> None:
    p, dp = Q @ K.T, DO @ V.T
    (p.T @ DO, (p * dp).T @ Q)


def dq_tile() -> None:
    p, dp = Q @ K.T, DO @ V.T
    (p * dp) @ K


def all_at_once() -> None:
    p, dp = Q @ K.T, DO @ V.T
    (p.T @ DO, (p * dp).T @ Q, (p * dp) @ K)


def counted(*tiles: Callable[[], None]) -> int:
    """Products of 16 x 16 matrices, as torch counts their FLOPs."""
    with FlopCounterMode(display=False) as counter:
        for tile in tiles:
            tile()
    return counter.get_total_flops() // (2 * 16**3)


def costs_counted() -> dict[str, int]:
    both = counted(forward_tile, dkdv_tile, dq_tile)
    forward = slow_attention.flash_attention_forward(*(torch.empty(2, 8, 512, 64, device="meta") for _ in range(3)))
    return {
        "products of a tile, forward": counted(forward_tile),
        "products of a tile, dkdv": counted(dkdv_tile),
        "products of a tile, dq": counted(dq_tile),
        "products of a tile, if one kernel made all three gradients": counted(all_at_once),
        "FLOPs of forward and backward, over B N N D": 2 * both,
        "bytes of lse, 2 x 8 heads of 512 queries": forward[1].nbytes,
    }


costs = Exercise(
    id="flash_backward.costs",
    entry="costs",
    signature="costs: dict[str, int]",
    kind="values",
    minutes=5,
    difficulty=2,
    lines=6,
    cases=[Case("six numbers", "plain", lambda g: {})],
    oracle=costs_counted,
    criteria=[Correct("plain", 3, "as they are counted")],
    hints=[
        "Go down the table of the chain rule: which of its lines are products of matrices, and which does each kernel need?",
        "Both kernels need S and dP, to make P and dS of them. dkdv goes on with two products, dq with one.",
        "A product of N x D with D x N takes 2 N N D FLOPs, and so do the others. lse is float32.",
    ],
)

# ------------------------------------------------------------------------------------------------ delta

delta = Exercise(
    id="flash_backward.delta",
    entry="delta",
    signature="delta(o: (..., N, D), do: (..., N, D)) -> (..., N) float32",
    minutes=15,
    difficulty=2,
    lines=20,
    cases=[
        Case("(2, 2) heads of 64, float32", "plain", outputs(2, 2, 64, 32, dtype=SINGLE)),
        Case("37 rows of 80, bfloat16", "ragged", outputs(37, 80, dtype=BRAIN)),
        Case("(3, 1, 2) heads of 1 x 16, float32", "ragged", outputs(3, 1, 2, 1, 16, dtype=SINGLE)),
        Case("3 heads of 100 x 256", "ragged", outputs(3, 100, 256)),
        Case("(B, N, H, D) as (B, H, N, D)", "strided", outputs(2, 3, 40, 32, layout="heads", do="heads")),
        Case("windows", "strided", outputs(2, 50, 24, layout="windows", do="windows", dtype=BRAIN)),
        Case("do is one number for all", "strided", outputs(2, 3, 33, 16, do="one number")),
        Case("(2, 2, B, N, H, D)", "strided", outputs(2, 2, 1, 2, 19, 16, layout="heads", do="heads")),
        Case(
            "o around 20, do around 3, bfloat16", "half", outputs(2, 70, 128, around=20.0, do="around 3", dtype=BRAIN)
        ),
        Case("o around 300, do around 3, float16", "half", outputs(70, 256, around=300.0, do="around 3")),
        Case("8 heads of 512 x 64, bfloat16", "performance", outputs(8, 512, 64, dtype=BRAIN)),
        Case("2 heads of 512 x 128, float32", "performance", outputs(2, 512, 128, dtype=SINGLE)),
    ],
    oracle=row_dots,
    budget=delta_budget,
    gates=GATES,
    criteria=[
        Correct("ragged", 1, "any N, any D from 16 to 256"),
        Correct("strided", 2, "right on views, without copies"),
        Correct("half", 2, "half precision in, float32 inside"),
        Traffic(lambda o, do: o.nbytes + do.nbytes + 4 * math.prod(o.shape[:-1]), 1, title="o and do read once"),
        Coalesced("load", 1),
    ],
    bonus=[
        Speed(
            "copy",
            Case("64 heads of 8192 x 128, bfloat16", "speed", outputs(64, 8192, 128, dtype=BRAIN)),
            lambda o, do: o.nbytes + do.nbytes,
            full=0.8,
            none=0.5,
            points=1,
        )
    ],
    hints=[
        "It is rowsum(o * do): a program takes some rows, whole. Any number of leading dimensions becomes two: flatten the first ones.",
        "o[None, None].flatten(0, -4) is a view (B, H, N, D) of any of these, and o.stride() a tuple that a kernel takes as it is: "
        "o_strides[2] is the stride of N. Program (i, j) has rows of head j: of batch j // H, head j % H.",
        "tl.sum(o.to(tl.float32) * do.to(tl.float32), axis=1), with dims = tl.arange(0, BLOCK_D), BLOCK_D = triton.next_power_of_2(D), "
        "and the mask (rows < N)[:, None] & (dims < D)[None, :]; stored at delta_ptr + j * N + rows.",
    ],
    mistakes=[],
)

# ------------------------------------------------------------------------------------------------ dk and dv, dq


def gradient_cases(performance: Sequence[Case]) -> list[Case]:
    """What both kernels are tried on."""
    return [
        Case("(2, 1) heads of 128 queries and keys, float16", "plain", backward(128, 128, 32, lead=(2, 1))),
        Case("37 queries, 50 keys", "ragged", backward(37, 50, 16)),
        Case("1 query, 200 keys, bfloat16", "ragged", backward(1, 200, 32, BRAIN)),
        Case("130 queries, 7 keys", "ragged", backward(130, 7, 32)),
        Case("no leading dimension, heads of 80", "ragged", backward(33, 50, 80, lead=())),
        Case("(3, 1, 2) heads of 256", "ragged", backward(20, 30, 256, lead=(3, 1, 2))),
        Case("33 queries, 70 keys, float32", "ragged", backward(33, 70, 32, SINGLE, lead=())),
        Case("(B, N, H, D) as (B, H, N, D)", "strided", backward(40, 33, 32, lead=(2, 3), layout="heads", do="heads")),
        Case("windows", "strided", backward(30, 45, 24, BRAIN, layout="windows", do="windows")),
        Case("do is one number for all", "strided", backward(30, 45, 16, lead=(2, 2), do="one number")),
        Case("100 queries and keys, causal", "causal", backward(100, 100, 16, causal=True)),
        Case("23 queries, 161 keys, causal", "causal", backward(23, 161, 16, BRAIN, causal=True)),
        Case("1 query, 70 keys, causal, float32", "causal", backward(1, 70, 32, SINGLE, causal=True)),
        Case("144 queries, 49 keys, causal", "nothing", backward(144, 49, 16, causal=True)),
        Case("70 queries, 1 key, causal, float32", "nothing", backward(70, 1, 16, SINGLE, causal=True)),
        Case("large scores", "hard", backward(24, 170, 32, BRAIN, scores="large")),
        Case(
            "rising scores, v around 20, float32",
            "hard",
            backward(40, 150, 16, SINGLE, scores="rising", offset=20.0, lead=()),
        ),
        Case("scores near -200", "hard", backward(150, 170, 16, scores="low")),
        Case("scores near -200, 70 keys, float32", "hard", backward(70, 70, 16, SINGLE, scores="low", lead=())),
        Case(
            "512 queries and keys, sums over queries that cancel, bfloat16",
            "half",
            backward(512, 512, 16, BRAIN, lead=(), do="turning", q=2.0),
        ),
        Case(
            "400 queries and keys, v around 20, float16",
            "half",
            backward(400, 400, 16, lead=(), offset=20.0, do="around 3"),
        ),
        Case(
            "512 queries and keys, sums over keys that cancel, bfloat16",
            "half",
            backward(512, 512, 16, BRAIN, lead=(), k=2.0, v="turning", do="around 3"),
        ),
        Case("a scale of 0.4", "scale", backward(33, 44, 16, scale=0.4)),
        Case("a scale of 0.02", "scale", backward(33, 44, 32, BRAIN, scale=0.02)),
        *performance,
    ]


PERFORMANCE = [
    Case("512 queries and keys, float16", "performance", backward(512, 512, 32, lead=(1,))),
    Case("512 queries and keys, causal, bfloat16", "half of it", backward(512, 512, 32, BRAIN, lead=(1,), causal=True)),
]


def judged_by(tensor: str, times: Callable[..., float], title: str, count: int) -> list:
    """The criteria of both kernels."""
    return [
        Correct("ragged", 2, "any sizes, any number of leading dimensions"),
        Correct("strided", 1, "right on views, without copies"),
        Correct("causal", 2, "causal, Nq != Nk too"),
        Correct("nothing", 1, "queries that see no key"),
        Correct("hard", 2, "large, rising, low scores"),
        Correct("half", 2, "half precision in and out, float32 inside"),
        Correct("scale", 1, "a scale of one's own"),
        DotFlops(products(count), 1, f"{count} products of a tile, and no more"),
        DotFlops(products(count), 1, "causal: of half of the tiles, and the diagonal", "half of it"),
        NoAtomics(1),
        Rereads(tensor, times, 1, title),
        NoBufferOfSize(scores_bytes, 1, "nothing of Nq x Nk in memory"),
        Coalesced("load", 1),
    ]


dkdv = Exercise(
    id="flash_backward.dkdv",
    entry="dkdv",
    signature="dkdv(q, k, v, do, lse, delta, causal=False, scale=None) -> dk, dv: (..., Nk, D)",
    minutes=45,
    difficulty=5,
    lines=70,
    cases=gradient_cases(PERFORMANCE),
    oracle=keys_and_values,
    budget=gradient_budget,
    gates=GATES,
    criteria=judged_by("q", lambda k, **_: math.ceil(k.shape[-2] / TILE), "q is read at most Nk / 64 times", 4),
    hints=[
        "A program owns a tile of keys: it loads k and v once, keeps dk and dv in float32, and walks over tiles of queries. Which four "
        "products does it do for each?",
        "Work with tiles of keys x queries: s = tl.dot(k, q.T) * scale, p = tl.exp(s - lse[None, :]), dv += tl.dot(p.to(do.dtype), "
        "do), dp = tl.dot(v, do.T), ds = p * (dp - delta[None, :]), dk += tl.dot(ds.to(q.dtype), q). No tile is turned but by .T of "
        "what was loaded. Multiply dk by scale once, at the end.",
        "Rows of q, do, lse and delta that are not there are loaded as 0, and add 0. Causal: p = tl.where(keys[:, None] <= rows[None, "
        ":] + Nk - Nq, p, 0.0), and the loop begins at the tile of the first query that sees the first key: "
        "max(first_key - (Nk - Nq), 0) // BLOCK_M * BLOCK_M. Only tiles up to the one where all see all keys need the mask: a second loop "
        "goes on without it.",
    ],
    mistakes=[
        unstored,
        swapped(0),
        *mistakes_of("dk", 0),
        *masks_of("dk"),
        LOST_NOTHING,
        LOST_RAGGED,
        atomics,
    ],
)

dq = Exercise(
    id="flash_backward.dq",
    entry="dq",
    signature="dq(q, k, v, do, lse, delta, causal=False, scale=None) -> (..., Nq, D)",
    minutes=25,
    difficulty=4,
    lines=60,
    cases=gradient_cases(PERFORMANCE),
    oracle=lambda **given: gradients(**given)[0],
    budget=gradient_budget,
    gates=GATES,
    criteria=judged_by("k", lambda q, **_: math.ceil(q.shape[-2] / TILE), "k is read at most Nq / 64 times", 3),
    hints=[
        "It is the forward kernel's loop over tiles of keys, with other things inside. What does a program own, and what does it visit?",
        "Loaded once: q, do, lse, delta of a tile of queries. In the loop: k, v, s = tl.dot(q, k.T) * scale, p = tl.exp(s - lse[:, "
        "None]), dp = tl.dot(do, v.T), ds = p * (dp - delta[:, None]), dq += tl.dot(ds.to(k.dtype), k).",
        "Keys that are not there have s = 0, and exp(0 - lse) is inf where lse is below -88: p = tl.where(seen, p, 0.0), with seen = "
        "keys < Nk, and keys <= rows + Nk - Nq if causal. Tiles before min(max(first_row + 1 + Nk - Nq, 0), Nk) // BLOCK_N need no mask.",
    ],
    mistakes=[
        unstored,
        *mistakes_of("dq", 0),
        *masks_of("dq"),
        LOST_NOTHING,
        LOST_RAGGED,
        atomics,
    ],
)

# ------------------------------------------------------------------------------------------------ the whole of it


def torchs_flash(q, k, v, causal, dy) -> Callable[[], object]:
    """torch's FlashAttention-2, forward and backward, on the same inputs."""
    leaves = [t.detach().requires_grad_() for t in (q, k, v)]

    def run() -> object:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION), torch.enable_grad():
            o = scaled_dot_product_attention(*leaves, is_causal=causal)
        return torch.autograd.grad(o, leaves, dy)

    return run


def both(nq: int, nk: int, d: int, dtype: torch.dtype = HALF, *, do: str = "mild", causal=False, **more: Any):
    """A drawing of q, k, v, causal, scale if it is given, and dy."""
    return with_do(heads(nq, nk, d, dtype, causal=causal, **more), do)


flash_attention = Exercise(
    id="flash_backward.flash_attention",
    entry="FlashAttention",
    signature="FlashAttention.apply(q: (..., Nq, D), k, v: (..., Nk, D), is_causal=False, scale=None) -> (..., Nq, D)",
    called="forward and backward",
    minutes=30,
    difficulty=4,
    lines=25,
    cases=[
        Case("(2, 2) heads of 64 queries and keys, float16", "plain", both(64, 64, 16, lead=(2, 2))),
        Case("1 query, 200 keys, bfloat16", "ragged", both(1, 200, 16, BRAIN)),
        Case("(3, 1, 2) heads of 80, float32", "ragged", both(20, 30, 80, SINGLE, lead=(3, 1, 2))),
        Case("no leading dimension, a scale of 0.4", "ragged", both(33, 44, 16, lead=(), scale=0.4)),
        Case("128 queries and keys, heads of 128, bfloat16", "ragged", both(128, 128, 128, BRAIN, lead=(1, 1))),
        Case("(B, N, H, D) as (B, H, N, D)", "strided", both(40, 33, 16, lead=(2, 3), layout="heads", do="heads")),
        Case("by columns, after o.sum()", "strided", with_do(by_columns(heads(30, 40, 16)), "one number")),
        Case("one k and v for 3 heads", "strided", with_do(one_of_each_head(heads(30, 40, 16, lead=()), 3))),
        Case("23 queries, 161 keys, causal", "causal", both(23, 161, 16, BRAIN, causal=True)),
        Case("70 queries, 31 keys, causal, float32", "causal", both(70, 31, 16, SINGLE, causal=True)),
        Case("large scores", "hard", both(24, 170, 16, BRAIN, scores="large")),
        Case("rising scores, float32", "hard", both(40, 150, 16, SINGLE, scores="rising", offset=20.0, lead=())),
        Case("scores near -200", "hard", both(70, 70, 16, scores="low")),
        Case("16 queries, 2048 keys, v around 20, bfloat16", "half", both(16, 2048, 16, BRAIN, lead=(), offset=20.0)),
        Case("512 queries and keys, float16", "performance", both(512, 512, 16, lead=(1,))),
        Case("512 queries and keys, causal, bfloat16", "half of it", both(512, 512, 16, BRAIN, lead=(1,), causal=True)),
    ],
    oracle=result,
    budget=result_budget,
    allows=operations("_to_copy _unsafe_view bmm mm clone eq exp logsumexp mul scalar_tensor sub tril where"),
    gates=[KernelsMadeTheGradients(), Correct("plain"), Compiles()],
    criteria=[
        Correct("ragged", 2, "any sizes, any number of leading dimensions"),
        Correct("strided", 2, "right on views"),
        Correct("causal", 2, "causal, Nq != Nk too, queries that see no key"),
        Correct("hard", 2, "large, rising, low scores"),
        Correct("half", 1, "half precision in and out, float32 inside"),
        KernelsAlone(2),
        KeepsOneNumberARow(3),
        Launches(1, 1, phase=0),
        Launches(3, 1, phase=1),
        DotFlops(products(9), 1, "18 B N N D, forward and backward"),
        DotFlops(products(9), 1, "causal: half of it, and the diagonal", "half of it"),
        NoAtomics(1),
        NoBufferOfSize(scores_bytes, 1, "nothing of Nq x Nk in memory"),
    ],
    bonus=[
        Speed(
            "torch's FlashAttention-2, both ways",
            Case("16 heads of 128, 4096 tokens, bfloat16", "speed", both(4096, 4096, 128, BRAIN, lead=(1, 16))),
            lambda q, k, v, **_: 2 * (q.nbytes + k.nbytes + v.nbytes) + 3 * q.nbytes,
            full=1.0,
            none=0.6,
            points=4,
            baseline=torchs_flash,
            advice="Try dK and dV in 64 x 64 tiles with 4 warps, dQ likewise, and tl.exp2: see *How fast is it?* below.",
        )
    ],
    hints=[
        "forward: o and lse from your forward pass; keep the three inputs and these two, return o. backward: three kernels that you have.",
        "ctx.save_for_backward(q, k, v, o, lse), and numbers as ctx.causal, ctx.scale. backward(ctx, do) returns one gradient for each "
        "argument of forward: dq, dk, dv, None, None.",
        "rows = delta(o, do); dk, dv = dkdv(q, k, v, do, lse, rows, ctx.causal, ctx.scale); return dq(q, k, v, do, lse, rows, "
        "ctx.causal, ctx.scale), dk, dv, None, None. do may have any strides, 0 among them; your kernels take them as they come.",
    ],
    mistakes=[
        raised(
            "incorrect number of gradients",
            "backward returns one gradient, or None, for each of forward's five arguments: dq, dk, dv, None, None.",
        ),
        swapped(2),
        *mistakes_of("dq", 1),
        *mistakes_of("dk", 2),
        atomics,
    ],
)

# ------------------------------------------------------------------------------------------------ how long a text


class KeepsRows(torch.autograd.Function):
    """Attention's shapes without its arithmetic: keeps q, k, v, o and one float32 a query, as FlashAttention does."""

    @staticmethod
    def forward(ctx, q, k, v):
        o, lse = torch.empty_like(q), torch.empty(q.shape[:-1], device=q.device)
        ctx.save_for_backward(q, k, v, o, lse)
        return o

    @staticmethod
    def backward(ctx, do):
        return do, do, do


def with_scores(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention as torch's own operations: autograd keeps what it needs of them."""
    return torch.softmax(q @ k.mT, -1) @ v


@cache
def kept_bytes(tokens: int, layers: int, heads: int, head_dim: int, itemsize: int, scores: bool) -> int:
    """Bytes of all storages that autograd keeps for backward, q, k and v among them; on tensors that have no data."""
    kept: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage()._cdata] = tensor.untyped_storage()
        return tensor

    dtype = {2: BRAIN, 4: SINGLE}[itemsize]
    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        q, k, v = (
            torch.empty(heads, tokens, head_dim, dtype=dtype, device="meta", requires_grad=True) for _ in range(3)
        )
        _o = with_scores(q, k, v) if scores else KeepsRows.apply(q, k, v)
    return layers * sum(storage.nbytes() for storage in kept.values())


def longest(budget_bytes: int, config: dict[str, Any]) -> int:
    """The most tokens whose kept bytes are within the budget, found by halving."""
    low, high = 0, 1
    while kept_bytes(high, **config) <= budget_bytes:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if kept_bytes(middle, **config) <= budget_bytes else (low, middle)
    return low


def model(budget: float, layers: int, heads: int, head_dim: int, itemsize: int, scores: bool) -> dict[str, Any]:
    config = dict(layers=layers, heads=heads, head_dim=head_dim, itemsize=itemsize, scores=scores)
    return {"budget_bytes": int(budget), "config": config}


def fits(output: Any, budget_bytes: int, config: dict[str, Any]) -> str:
    """ "" if one token more would not fit, and this many do."""
    if type(output) is not int or output < 0:
        return f"expected a whole number of tokens, got {output!r}"[:100]
    for tokens, within in ((output, True), (output + 1, False)):
        if tokens and (kept_bytes(min(tokens, 1 << 40), **config) <= budget_bytes) != within:
            return f"{budget_bytes:,} bytes, {config}: {output:,} tokens are {'too many' if within else 'not the most'}"
    return ""


longest_context = Exercise(
    id="flash_backward.longest_context",
    entry="longest_context",
    signature="longest_context(budget_bytes: int, config: dict) -> int",
    kind="formula",
    minutes=15,
    difficulty=3,
    lines=8,
    cases=[
        fixed("16 GB, FlashAttention", "flash", **model(16e9, 24, 16, 64, 2, False)),
        fixed("1 GB, one layer, float32", "flash", **model(1e9, 1, 8, 128, 4, False)),
        fixed("100 kB, one layer", "flash", **model(1e5, 1, 4, 32, 2, False)),
        fixed("16 GB, scores kept", "scores", **model(16e9, 24, 16, 64, 2, True)),
        fixed("1 GB, one layer, float32, scores kept", "scores", **model(1e9, 1, 8, 128, 4, True)),
        fixed("141 GB, scores kept", "scores", **model(141e9, 32, 32, 128, 2, True)),
        fixed("one byte too few for one token", "edges", **model(2 * (4 * 64 * 2 + 4) * 3 - 1, 3, 2, 64, 2, False)),
        fixed("just one token", "edges", **model(2 * (4 * 64 * 2 + 4) * 3, 3, 2, 64, 2, False)),
        fixed("nine tokens to the byte, scores kept", "edges", **model(3 * 9 * 32 * 4 + 9 * 9 * 4, 1, 1, 32, 4, True)),
        fixed("one byte less", "edges", **model(3 * 9 * 32 * 4 + 9 * 9 * 4 - 1, 1, 1, 32, 4, True)),
    ],
    oracle=longest,
    criteria=[
        Holds(fits, 2, "FlashAttention: as autograd keeps it", "flash"),
        Holds(fits, 2, "with scores: as autograd keeps it", "scores"),
        Holds(fits, 1, "to the token", "edges"),
    ],
    hints=[
        "Write down what one layer keeps for n tokens: which tensors, how many numbers each, how many bytes a number?",
        "FlashAttention keeps q, k, v and o, of heads * head_dim * itemsize bytes a token each, and 4 bytes a token and head. With "
        "scores q, k, v, and the probabilities: heads * n * n * itemsize. All of it once a layer.",
        "The first is budget // bytes_per_token. The second is layers * heads * itemsize * (3 * head_dim * n + n * n) <= budget: "
        " solve it with whole numbers, so that the last token is right, by halving an interval or by math.isqrt.",
    ],
)

EXERCISES = {exercise.id: exercise for exercise in (costs, delta, dkdv, dq, flash_attention, longest_context)}
