"""Unit 08, attention by tiles.

What units 08 to 10 share:

    q       (..., Nq, D);  k, v (..., Nk, D);  o (..., Nq, D) of q's dtype
    scale   1 / sqrt(D) unless given; scores are scale * q @ k.mT
    causal  aligned at the bottom right: query i sees the keys j <= i + Nk - Nq, so that the last query sees all keys. So do
            FlashAttention from 2.1 on and every decoder with a cache; torch's scaled_dot_product_attention(is_causal=True)
            aligns at the top left, j <= i. For Nq == Nk both are the same.
    lse     (..., Nq) float32, the natural logarithm of the sum of exp(scores) of each query
    a query that sees no key: zeros in o, -inf in lse, zero gradients, no NaN

Oracles: torch in float64, autograd, masks looked at element by element, and a traced kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import torch

from course_lib import recordings
from course_lib.answers import in_words
from course_lib.cases import ARITHMETIC, fixed, operations
from course_lib.criteria import Correct, Holds, Judged, OnceRight, roundings
from course_lib.exercise import Case, Exercise, Finding, Trial
from course_lib.mistakes import Mistake, every

EPS32 = torch.finfo(torch.float32).eps

PRODUCTS = operations("mm bmm addmm baddbmm addmm_ baddbmm_ mv dot")
TENSORS = PRODUCTS | ARITHMETIC
TENSORS |= operations(
    "arange cat stack tril triu tril_ triu_ index index_put index_put_ _index_put_impl_ pow logaddexp"
)
ATTENTION = TENSORS | operations(
    "_softmax logsumexp log_softmax _log_softmax sigmoid log1p expm1 exp2_ logaddexp2 permute_copy"
)

# ------------------------------------------------------------------------------------------------ inputs


def qkv(
    nq: int,
    nk: int,
    d: int,
    dtype: torch.dtype = torch.float32,
    *,
    lead: Sequence[int] = (),
    layout: str = "rows",
    scores: str = "mild",
    offset: float = 0.0,
    **more: Any,
):
    """A drawing of q (*lead, nq, d), k and v (*lead, nk, d), then `more`.

    scores  how scale * q @ k.mT looks: "mild" around 0; "large", to about 150 either way; "rising" by 60 from the first key to
            the last; "last", one of about 80 at the last key; "low", all near -200
    offset  is added to v
    layout  "rows" is contiguous; "heads" has the last leading dimension between the others, as (B, N, H, D) seen as (B, H, N, D);
            "windows" are views into larger tensors full of NaN; "columns" has the last two dimensions swapped in memory
    """

    def draw(g: torch.Generator) -> dict[str, Any]:
        def normal(n: int) -> torch.Tensor:
            return torch.randn(*lead, n, d, generator=g, device=g.device)

        q, k, v = normal(nq), normal(nk), normal(nk) + offset
        if scores == "large":
            q = 40 * q
        elif scores != "mild":
            q, k = 1 + q / 4, k / 4  # each q points along (1, ..., 1): adding r there adds r * sqrt(d) to its scores
            ramp = torch.linspace(0, 60, nk, device=g.device)
            if scores == "last":
                ramp = torch.where(torch.arange(nk, device=g.device) == nk - 1, 80.0, 0.0)
            elif scores == "low":
                ramp = torch.full_like(ramp, -200)
            k = k + ramp[:, None] / math.sqrt(d)
        return {name: laid_out(x.to(dtype), layout) for name, x in zip("qkv", (q, k, v), strict=True)} | more

    return draw


def laid_out(x: torch.Tensor, layout: str) -> torch.Tensor:
    """x (..., N, D) with the same values in another layout: see qkv."""
    if layout == "heads":
        return x.transpose(-3, -2).contiguous().transpose(-3, -2)
    if layout == "columns":
        return x.mT.contiguous().mT
    if layout == "windows":
        *lead, n, d = x.shape
        around = torch.full((*lead, n + 5, d + 3), math.nan, dtype=x.dtype, device=x.device)
        around[..., 2 : 2 + n, 1 : 1 + d] = x
        return around[..., 2 : 2 + n, 1 : 1 + d]
    return x


def with_backward(draw: Callable, causal: bool):
    """That drawing, with o and lse as a forward pass leaves them, and do; `causal` last."""

    def drawn(g: torch.Generator) -> dict[str, Any]:
        given = draw(g)
        o, lse = reference(**given, causal=causal)
        q = given["q"]
        do = torch.randn(q.shape, generator=g, device=g.device).to(q.dtype)
        return given | {"o": o.to(q.dtype), "do": do, "lse": lse.float(), "causal": causal}

    return drawn


def state_of(scores: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(m, l, acc) in float64 of scores (..., N, n) and values (n, D): maximum, sum of exp, sum of exp times value."""
    m = scores.double().amax(-1)
    p = torch.exp(scores.double() - torch.where(m == -math.inf, 0, m)[..., None])
    return m, p.sum(-1), p @ v.double()


def states(
    *shape: int, d: int = 8, keys: int = 12, mean: Sequence[float] = (0, 0), spread: float = 3.0, nothing: str = ""
):
    """A drawing of a and b, the states of `shape` queries after `keys` keys each; mean: of the scores of a, and of b.

    nothing: whose rows have seen no key: "a", "b", "both", or "" for none. Of these every second row.
    """

    def draw(g: torch.Generator) -> dict[str, Any]:
        found = {}
        for name, mu in zip("ab", mean, strict=True):
            scores = torch.randn(*shape, keys, generator=g, device=g.device) * spread + mu
            if nothing in (name, "both"):
                scores[..., ::2, :] = -math.inf
            found[name] = tuple(t.float() for t in state_of(scores, torch.randn(keys, d, generator=g, device=g.device)))
        return found

    return draw


def rearranged(n: int = 6, d: int = 4):
    """A drawing whose rows pair up: a and b of row i and of row n + i, x + y and y + x; then (x + y) + z and x + (y + z)."""

    def draw(g: torch.Generator) -> dict[str, Any]:
        x, y, z = (states(n, d=d, mean=(mu, 0), spread=2.0)(g)["a"] for mu in (0, 3, -2))
        xy, yz = merged(x, y), merged(y, z)
        return {"a": rows(x, y, xy, x), "b": rows(y, x, z, yz)}

    return draw


def rows(*parts: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """States one below the other."""
    return tuple(torch.cat(column) for column in zip(*parts, strict=True))


# ------------------------------------------------------------------------------------------------ oracles


def seen(nq: int, nk: int, causal: bool = True, device: Any = None) -> torch.Tensor:
    """(nq, nk), True where a query sees a key."""
    everything = torch.ones(nq, nk, dtype=torch.bool, device=device)
    return everything.tril(nk - nq) if causal else everything


def reference(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, scale: float | None = None, **_: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """(o, lse) in float64."""
    q, k, v = q.double(), k.double(), v.double()
    scores = (q @ k.mT) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    scores = scores.masked_fill(~seen(q.shape[-2], k.shape[-2], causal, q.device), -math.inf)
    lse = scores.logsumexp(-1)
    return torch.softmax(scores, -1).nan_to_num(0) @ v, lse


class Forward(NamedTuple):
    o: torch.Tensor
    lse: torch.Tensor


class Gradients(NamedTuple):
    dq: torch.Tensor
    dk: torch.Tensor
    dv: torch.Tensor


class State(NamedTuple):
    m: torch.Tensor
    l: torch.Tensor
    acc: torch.Tensor


def output_and_lse(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **more: Any) -> Forward:
    o, lse = reference(q, k, v, **more)
    return Forward(o, lse.float())


def gradients(q, k, v, do, causal: bool = False, **_: Any) -> Gradients:
    """(dq, dk, dv) in float64, by autograd; queries that see nothing are left out, and get zeros."""
    nothing = max(0, q.shape[-2] - k.shape[-2]) if causal else 0
    with torch.enable_grad():
        leaves = [t.double().detach().requires_grad_() for t in (q, k, v)]
        o, _ = reference(leaves[0][..., nothing:, :], *leaves[1:], causal=causal)
        return Gradients(*torch.autograd.grad(o, leaves, do[..., nothing:, :].double()))


def merged(a: Sequence[torch.Tensor], b: Sequence[torch.Tensor]) -> State:
    """The state of both together, by way of log-sum-exps and means, in float64."""
    m = torch.maximum(a[0], b[0]).double()
    base = torch.where(m == -math.inf, 0, m)
    lse_a, lse_b = (x[0].double() + x[1].double().log() for x in (a, b))
    l = torch.exp(torch.logaddexp(lse_a, lse_b) - base)
    shares = [
        torch.exp(lse - base)[..., None] * (x[2].double() / x[1].double()[..., None]).nan_to_num(0)
        for lse, x in ((lse_a, a), (lse_b, b))
    ]
    return State(m.float(), l.float(), sum(shares).float())


def rotated(x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0) -> torch.Tensor:
    """Pairs (x[2 i], x[2 i + 1]) as complex numbers, each turned by position * base ** (-2 i / D)."""
    turns = base ** (-torch.arange(0, x.shape[-1], 2, dtype=torch.float64, device=x.device) / x.shape[-1])
    pairs = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())
    angles = positions.double()[:, None] * turns
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


def tiles_of(programs: int, bm: int, bn: int, nq: int, nk: int) -> list[list[int]]:
    """[full, end] for each program: looked up in the mask, tile by tile."""
    mask, found = seen(nq, nk).numpy(), []
    for pid in range(programs):
        band = mask[pid * bm : (pid + 1) * bm]
        tiles = [band[:, start : start + bn] for start in range(0, nk, bn)]
        whole = [t.all() and t.shape[1] == bn for t in tiles]
        found.append([int(sum(whole)), int(sum(t.any() for t in tiles))])
    return found


@cache
def footprints() -> dict[tuple, int]:
    """(n, d, bm, bn, itemsize, causal) -> bytes that a traced kernel moved."""
    return {tuple(row[:-1]): row[-1] for row in recordings.read("flash_footprints")["rows"]}


def moved_bytes(n: int, d: int, bm: int, bn: int, itemsize: int, causal: bool) -> int:
    """Bytes of a forward pass, as traced if it was; else each program's tiles are looked up in the mask."""
    traced = footprints().get((n, d, bm, bn, itemsize, causal))
    if traced is not None:
        return traced
    mask, keys = seen(n, n, causal).numpy(), 0
    for first in range(0, n, bm):
        for start in range(0, n, bn):
            if mask[first : first + bm, start : start + bn].any():
                keys += min(bn, n - start)
    return 2 * n * d * itemsize + 4 * n + 2 * keys * d * itemsize


# ------------------------------------------------------------------------------------------------ budgets


def rotary_budget(expected, dtype, arguments):
    """One rounding of a result no longer than its pair, and what an angle in float32 may be off by."""
    x, positions = arguments["x"].double(), arguments["positions"].double()
    length = x.unflatten(-1, (-1, 2)).norm(dim=-1).repeat_interleave(2, -1)
    turns = arguments.get("base", 10000.0) ** (-torch.arange(0, x.shape[-1], 2, device=x.device).double() / x.shape[-1])
    angle = (positions.abs()[:, None] * turns).repeat_interleave(2, -1)
    return length * (0.75 * torch.finfo(dtype).eps + (8 + 8 * angle) * EPS32)


def merge_budget(expected, dtype, arguments):
    """Each factor exp(m - m_new) is off by some roundings, and by one of its exponent."""
    (m_a, _, acc_a), (m_b, _, acc_b) = arguments["a"], arguments["b"]
    apart = (m_a - m_b).double().abs().nan_to_num(0, posinf=0)
    relative = (8 + apart) * EPS32
    if expected.dim() == m_a.dim():
        return relative * torch.where(expected.isfinite(), expected.abs(), 0)
    m = torch.maximum(m_a, m_b).double()
    base = torch.where(m == -math.inf, 0, m)
    size = sum(torch.exp(x.double() - base)[..., None] * acc.double().abs() for x, acc in ((m_a, acc_a), (m_b, acc_b)))
    return relative[..., None] * size


def score_error(q: torch.Tensor, k: torch.Tensor, scale: float | None = None) -> torch.Tensor:
    """(..., Nq): the relative error of exp(score), and of a sum of them, that honest float32 arithmetic may have."""
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    size = (scale * q.double().abs() @ k.double().abs().mT).amax(-1)
    return (2 * math.sqrt(k.shape[-2]) + 8 + 2 * size) * EPS32


def attention_budget(expected, dtype, arguments):
    """Of o: four roundings of its own, and the error of float32 arithmetic times the largest |v| of the channel. Of lse: that
    error, and a rounding or four."""
    q, k, v = (arguments[name] for name in "qkv")
    error = score_error(q, k, arguments.get("scale"))
    if expected.dim() < q.dim():
        return error + 4 * EPS32 * torch.where(expected.isfinite(), expected.abs(), 0)
    return roundings(expected, dtype) + error[..., None] * v.double().abs().amax(-2, keepdim=True)


def backward_budget(expected, dtype, arguments):
    """Sums over keys (dq) or queries (dk, dv), each term with the error of its probability, added in float32. o was rounded to
    the task's dtype, and so delta = rowsum(do * o) is off by as much."""
    which = next(i for i, found in enumerate(gradients(**arguments)) if torch.equal(found, expected))
    q, k, v, o, do = (arguments[name].double() for name in ("q", "k", "v", "o", "do"))
    scale = 1 / math.sqrt(q.shape[-1])
    mask = seen(q.shape[-2], k.shape[-2], arguments["causal"], q.device)
    p = torch.softmax((q @ k.mT * scale).masked_fill(~mask, -math.inf), -1).nan_to_num(0)
    walk = 2 * math.sqrt(q.shape[-2] + q.shape[-1]) * EPS32
    # of s - lse: the score's error, and lse's own last bit
    error = (score_error(q, k) + walk + EPS32 * arguments["lse"].double().abs().nan_to_num(0, posinf=0))[..., None]
    do_o = (do * o).abs().sum(-1, keepdim=True)
    ds = p * ((do.abs() @ v.abs().mT + do_o) * error + torch.finfo(dtype).eps / 2 * do_o)
    sums = (lambda: scale * ds @ k.abs(), lambda: scale * ds.mT @ q.abs(), lambda: (p * error).mT @ do.abs())
    return roundings(expected, dtype) + sums[which]()


# ------------------------------------------------------------------------------------------------ properties


def any_order(output: Any, a: Sequence[torch.Tensor], b: Sequence[torch.Tensor]) -> str:
    """ "" if the rows of `rearranged` agree: x + y with y + x, and (x + y) + z with x + (y + z)."""
    if not isinstance(output, list) or len(output) != 3 or not all(isinstance(t, torch.Tensor) for t in output):
        return "expected three tensors, m, l and acc"
    n = len(a[0]) // 4
    for name, out, right in zip(("m", "l", "acc"), output, merged(a, b), strict=True):
        if out.shape != right.shape:
            return f"{name}: expected shape {tuple(right.shape)}, got {tuple(out.shape)}"
        parts = out.double().split(n)
        for law, one, other in (("a + b is not b + a", 0, 1), ("(a + b) + c is not a + (b + c)", 2, 3)):
            apart = (parts[one] - parts[other]).abs().max()
            if not apart <= 1e-5 * (1 + parts[one].abs().max()):
                return f"{law}: `{name}` differs by {float(apart):.3g}"
    return ""


def _tiles(first: int, end: int, kind: str) -> str:
    """ "tile 3 is full", "tiles 0 to 2 are full" or "no tile is full"."""
    if end - first < 2:
        return f"tile {first} is {kind}" if end > first else f"no tile is {kind}"
    return f"tiles {first} to {end - 1} are {kind}"


def right_tiles(output: Any, programs: int, bm: int, bn: int, nq: int, nk: int) -> str:
    right = tiles_of(programs, bm, bn, nq, nk)
    for pid, (found, expected) in enumerate(zip(output, right, strict=True)):
        said = f"nq = {nq}, nk = {nk}, tiles of {bm} x {bn}, program {pid}"
        if not isinstance(found, list) or [type(x) for x in found] != [int, int]:
            return f"{said}: expected a pair of whole numbers (full, end), got {in_words(found)}"
        if found != expected:
            full, end = expected
            kinds = f"{_tiles(0, full, 'full')} and {_tiles(full, end, 'masked')}"
            return f"{said}: {kinds}, so ({full}, {end}); got {tuple(found)}"
    return ""


# ------------------------------------------------------------------------------------------------ criteria of this unit


@dataclass
class LargestBuffer(OnceRight):
    """No single allocation beside the results has a limit's size. limit: the arguments -> bytes."""

    limit: Callable[..., float]
    points: float
    title: str
    group: str = "performance"

    def count(self, group: Sequence[Trial]) -> Finding:
        for trial in group:
            largest, limit = trial.evidence.largest_buffer, self.limit(**trial.inputs[-1])
            if largest >= limit:
                expected = f"less than {limit:,.0f} bytes on {trial.case.name}"
                return self.lost(f"a tensor of {largest:,} bytes", expected=expected)
        largest = max(t.evidence.largest_buffer for t in group)
        return self.earned(f"at most {largest:,} bytes at once")


@dataclass
class Products(OnceRight):
    """Two matrix products for each tile of scores that some query of it sees a key of."""

    points: float
    title: str
    group: str = "performance"

    def count(self, group: Sequence[Trial]) -> Finding:
        for trial in group:
            done = sum(name in PRODUCTS for name in trial.evidence.operations)
            visited, tiles = visited_tiles(**trial.inputs[-1])
            allowed = 2 * visited
            if done > allowed:
                given = trial.inputs[-1]
                who = f"{visited} of {tiles} tiles of {given['bm']} x {given['bn']} hold a key that somebody sees"
                return self.lost(f"{done} products", expected=f"{allowed} on {trial.case.name}: {who}")
        return self.earned(f"{done} products, {allowed} allowed")


def visited_tiles(q: torch.Tensor, k: torch.Tensor, causal: bool, bm: int, bn: int, **_: Any) -> tuple[int, int]:
    """(tiles that some query of it sees a key of, all tiles)"""
    nq, nk = q.shape[-2], k.shape[-2]
    mask = seen(nq, nk, causal)
    corners = list(product(range(0, nq, bm), range(0, nk, bn)))
    return sum(bool(mask[i : i + bm, j : j + bn].any()) for i, j in corners), len(corners)


# ------------------------------------------------------------------------------------------------ mistakes


def shown(trials: Sequence[Judged]) -> list[Judged]:
    """The trials that are not right; those of group "plain" alone, if there are such: they close a gate, and a verdict shows no more."""
    wrong = [t for t in trials if t.case.group == "plain" and t.difference]
    return wrong or [t for t in trials if t.difference]


def results(trials: Sequence[Judged], place: int = 0) -> Iterator[tuple[dict[str, Any], torch.Tensor]]:
    """(arguments, result) of each call of the trials that are shown; of several results the one at that place."""
    for t in shown(trials):
        for call, out in zip(t.inputs, t.evidence.outputs, strict=False):
            found = part(out, place)
            if isinstance(found, torch.Tensor) and found.is_floating_point():
                yield call, found


def part(value: Any, place: int) -> Any:
    """The result at that place, of several; or the only one."""
    return value[place] if isinstance(value, (list, tuple)) and len(value) > place else value


def is_rather(found: torch.Tensor, guess: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether `found` is ten times nearer to the guess than to what is right. A NaN is near to a NaN alone."""

    def apart(x: torch.Tensor) -> float:
        same = (found == x) | (found.isnan() & x.isnan())
        return float((found.double() - x).masked_fill(same, 0).nan_to_num(math.inf).norm())

    return found.shape == guess.shape == right.shape and apart(guess) < apart(right) / 10


def computes(
    wrong: Callable[..., Any],
    sentence: str,
    unlike: Callable[..., Any] = output_and_lse,
    place: int = 0,
) -> Mistake:
    """`sentence`, if some result is what `wrong` of its arguments is, rather than what `unlike` of them is; of several results the
    one at that place. `wrong` may return None where it has nothing to compare with."""

    def look(trials: Sequence[Judged]) -> str:
        for call, found in results(trials, place):
            guess = part(wrong(**call), place)
            if guess is not None and is_rather(found, guess, part(unlike(**call), place)):
                return sentence
        return ""

    return look


def unscaled(q, k, v, **more):
    return reference(q, k, v, **(more | {"scale": 1.0}))[0]


def top_left(q, k, v, causal=False, scale=None, **_):
    """Causal attention with j <= i, where that is something else."""
    nq, nk = q.shape[-2], k.shape[-2]
    if not causal or nq == nk:
        return None
    scores = q.double() @ k.double().mT * (scale or 1 / math.sqrt(q.shape[-1]))
    mask = torch.ones(nq, nk, dtype=torch.bool, device=q.device).tril()
    return torch.softmax(scores.masked_fill(~mask, -math.inf), -1) @ v.double()


def all_keys(q, k, v, causal=False, **more):
    return reference(q, k, v, **more)[0] if causal else None


def has_nan(groups: Sequence[str], sentence: str) -> Mistake:
    """`sentence`, if a result of these groups that is shown as wrong holds a NaN, and not one from a masked lane without `other`."""

    def look(trials: Sequence[Judged]) -> str:
        outputs = [
            o for t in shown(trials) if t.case.group in groups and not t.evidence.poisoned for o in t.evidence.outputs
        ]
        tensors = [x for o in outputs for x in (o if isinstance(o, list) else [o]) if isinstance(x, torch.Tensor)]
        return sentence if any(bool(x.isnan().any()) for x in tensors if x.is_floating_point()) else ""

    return look


def no_scale_on_the_way_back(trials: Sequence[Trial]) -> str:
    """A sentence that names which of dq and dk are 1 / scale times too large."""
    for t in trials:
        for call, out in zip(t.inputs, t.evidence.outputs, strict=False):
            if not isinstance(out, list) or len(out) != 3 or not all(isinstance(x, torch.Tensor) for x in out):
                continue
            factor, right = math.sqrt(call["q"].shape[-1]), gradients(**call)
            lacks = [
                name
                for name, found, expected in zip(("dq", "dk"), out, right, strict=False)
                if found.shape == expected.shape and torch.allclose(found.double(), factor * expected, 0.02, 0.02)
            ]
            if lacks:
                verb = "lacks" if len(lacks) == 1 else "lack"
                return f"{' and '.join(lacks)} {verb} the factor scale: s = scale * q @ k.mT, so ds / dq and ds / dk have it."
    return ""


AT_THE_TOP_LEFT = "This mask is aligned at the top left. Ours lets the last query see all keys: j <= i + Nk - Nq."
TOP_LEFT = computes(top_left, AT_THE_TOP_LEFT)
UNSCALED = computes(unscaled, "These are the results without the scale 1 / sqrt(D).")
UNMASKED = computes(all_keys, "These are the results without the causal mask.")


# ------------------------------------------------------------------------------------------------ what attention is


def claims_checked() -> dict[str, bool | int]:
    """Each claim, tried on random numbers."""
    g = torch.Generator().manual_seed(8)
    q, k, v = (torch.randn(6, 8, generator=g, dtype=torch.float64) for _ in range(3))
    order, places = torch.randperm(6, generator=g), torch.arange(6)
    o, causal = reference(q, k, v)[0], reference(q, k, v, causal=True)[0]

    def placed(shift: int, v_too: bool) -> torch.Tensor:
        turned = [rotated(x, places + shift) for x in (q, k, v)]
        return reference(turned[0], turned[1], turned[2] if v_too else v)[0]

    def same(x: torch.Tensor, y: torch.Tensor) -> bool:
        return torch.allclose(x, y)

    return {
        "keys_and_values_shuffled_alike_leave_o": same(reference(q, k[order], v[order])[0], o),
        "queries_shuffled_shuffle_o": same(reference(q[order], k, v)[0], o[order]),
        "ten_more_on_every_score_leaves_o": same(torch.softmax(q @ k.T / math.sqrt(8) + 10, -1) @ v, o),
        "keys_doubled_double_o": same(reference(q, 2 * k, v)[0], 2 * o),
        "values_doubled_double_o": same(reference(q, k, 2 * v)[0], 2 * o),
        "causal_first_query_returns_first_value": same(causal[0], v[0]),
        "rotary_on_q_k_all_moved_by_7_leaves_o": same(placed(7, False), placed(0, False)),
        "rotary_on_v_too_all_moved_by_7_leaves_o": same(placed(7, True), placed(0, True)),
        "pairs_seen_causal_4_queries_6_keys": int(seen(4, 6).sum()),
        "queries_that_see_nothing_causal_6_queries_4_keys": int((~seen(6, 4)).all(1).sum()),
    }


claims = Exercise(
    id="attention.claims",
    entry="claims",
    signature="claims: dict[str, bool | int]",
    kind="values",
    minutes=5,
    difficulty=2,
    lines=10,
    cases=[Case("ten claims", "plain", lambda g: {})],
    oracle=claims_checked,
    criteria=[Correct("plain", 5, "as torch finds them")],
    hints=[
        "Each row of o is a mean of the rows of v, weighted by a softmax of that query's scores. Which of these changes the weights?",
        "A softmax does not change if the same number is added to all its scores; it does if they are multiplied. Rotary leaves "
        "a dot product of q and k as it is if both are moved by as many places.",
        "With 4 queries and 6 keys the last query sees 6 keys, and each one before it one less. With 6 queries and 4 keys the "
        "same rule leaves none for the first two. A rotated v arrives in o as it was rotated, whatever the query's place.",
    ],
)


def positions(
    *shape: int, d: int, places: Callable[[int, torch.Generator], torch.Tensor], dtype: torch.dtype = torch.float32
):
    """A drawing of x (*shape, d) and positions (shape[-1],)."""

    def draw(g: torch.Generator) -> dict[str, torch.Tensor]:
        x = torch.randn(*shape, d, generator=g, device=g.device).to(dtype)
        return {"x": x, "positions": places(shape[-1], g)}

    return draw


def from_zero(n: int, g: torch.Generator) -> torch.Tensor:
    return torch.arange(n, device=g.device)


def anywhere(n: int, g: torch.Generator) -> torch.Tensor:
    return torch.randint(0, 30000, (n,), generator=g, device=g.device)


def halves(x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0) -> torch.Tensor:
    """The other convention: (x[i], x[i + D / 2]) are a pair."""
    paired = torch.stack(x.chunk(2, -1), -1).flatten(-2)
    return rotated(paired, positions, base).unflatten(-1, (-1, 2)).mT.flatten(-2)


rotary = Exercise(
    id="attention.rotary",
    entry="rotary",
    signature="rotary(x: (..., N, D), positions: (N,), base=10000.0) -> (..., N, D) of the dtype of x",
    minutes=15,
    difficulty=2,
    lines=6,
    cases=[
        Case("7 x 8", "plain", positions(7, d=8, places=from_zero)),
        Case("(2, 3, 5, 16)", "shapes", positions(2, 3, 5, d=16, places=from_zero)),
        Case("1 x 2", "shapes", positions(1, d=2, places=from_zero)),
        Case("9 x 6, up to 30,000", "anywhere", positions(9, d=6, places=anywhere)),
        Case("(2, 33, 32), up to 30,000", "anywhere", positions(2, 33, d=32, places=anywhere)),
        Case("20 x 16, bfloat16", "half", positions(20, d=16, places=anywhere, dtype=torch.bfloat16)),
        Case("(3, 20, 8), float16", "half", positions(3, 20, d=8, places=anywhere, dtype=torch.float16)),
    ],
    oracle=rotated,
    budget=rotary_budget,
    allows=TENSORS | operations("cos sin repeat_interleave flip roll exp2"),
    gates=[Correct("plain")],
    criteria=[
        Correct("shapes", 1, "leading dimensions, any D"),
        Correct("anywhere", 2, "positions up to 30,000, in any order"),
        Correct("half", 2, "half precision in and out, angles in float32"),
    ],
    hints=[
        "Turning the point (x, y) by the angle t gives (x cos t - y sin t, x sin t + y cos t). How many points are there in a row of D?",
        "Even and odd columns: x[..., 0::2] and x[..., 1::2], each (..., N, D / 2). The angles are positions[:, None] times "
        "base ** (-2 i / D), (N, D / 2), in float32.",
        "freq = base ** (-torch.arange(0, D, 2, dtype=torch.float32) / D); angle = positions[:, None].float() * freq; fill "
        "out[..., 0::2] with even * cos - odd * sin and out[..., 1::2] with even * sin + odd * cos, even and odd being "
        "float32; return it in the dtype of x.",
    ],
    mistakes=[
        computes(
            halves,
            "This pairs column i with column i + D / 2, as some models do; here 2 i and 2 i + 1 are a pair.",
            rotated,
        ),
        computes(
            lambda x, positions, **_: rotated(x, -positions),
            "Turned the wrong way round: look at the sign of the sine.",
            rotated,
        ),
    ],
)

attention = Exercise(
    id="attention.attention",
    entry="attention",
    signature="attention(q: (..., Nq, D), k, v: (..., Nk, D), causal=False, scale=None) -> o: (..., Nq, D), lse: (..., Nq) float32",
    minutes=20,
    difficulty=2,
    lines=12,
    cases=[
        Case("6 queries, 9 keys", "plain", qkv(6, 9, 8)),
        Case("(2, 3) heads, 5 queries, 11 keys", "ragged", qkv(5, 11, 16, lead=(2, 3))),
        Case("1 query, 1 key", "ragged", qkv(1, 1, 16)),
        Case("7 queries, 12 keys, scale 0.3", "ragged", qkv(7, 12, 32, lead=(2,), layout="windows", scale=0.3)),
        Case("13 queries, 13 keys, causal", "causal", qkv(13, 13, 16, causal=True)),
        Case("5 queries, 12 keys, causal", "causal", qkv(5, 12, 16, lead=(2,), causal=True)),
        Case("12 queries, 5 keys, causal", "nothing", qkv(12, 5, 16, lead=(2,), causal=True)),
        Case("8 queries, 30 keys, large scores", "hard", qkv(8, 30, 16, scores="large")),
        Case("8 queries, 30 keys, low scores", "hard", qkv(8, 30, 16, scores="low")),
        Case(
            "12 queries, 40 keys, bfloat16",
            "half",
            qkv(12, 40, 32, torch.bfloat16, lead=(2,), scores="large", offset=4.0),
        ),
        Case("9 queries, 20 keys, float16", "half", qkv(9, 20, 32, torch.float16, scores="rising", causal=True)),
    ],
    oracle=output_and_lse,
    budget=attention_budget,
    allows=ATTENTION,
    gates=[Correct("plain")],
    criteria=[
        Correct("ragged", 1, "any shape, a scale of one's own"),
        Correct("causal", 2, "causal, Nq != Nk too"),
        Correct("nothing", 1, "queries that see no key"),
        Correct("hard", 1, "scores far from 0"),
        Correct("half", 1, "half precision in and out, float32 inside"),
    ],
    hints=[
        "Four steps: scores, mask, softmax, a weighted mean of v. q @ k.mT multiplies the last two dimensions of any tensors.",
        "Mask with -inf before the softmax: torch.ones(Nq, Nk, dtype=torch.bool).tril(Nk - Nq) is True where a query sees a key. "
        "torch.logsumexp and torch.softmax subtract the maximum for you.",
        "A row of -inf makes torch.softmax NaN: use p = torch.exp(s - torch.where(lse == -math.inf, 0, lse)[..., None]) with "
        "lse = torch.logsumexp(s, -1). Cast q, k and v with .float() first, and o back to q.dtype last.",
    ],
    mistakes=[
        UNSCALED,
        UNMASKED,
        TOP_LEFT,
        has_nan(
            ["nothing"], "NaN: a query that sees nothing has scores of -inf alone, and a softmax of them is 0 / 0."
        ),
    ],
)

# ------------------------------------------------------------------------------------------------ by tiles

merge = Exercise(
    id="attention.merge",
    entry="merge",
    signature="merge(a, b) -> (m, l, acc), the state of both; each is (m: (...,), l: (...,), acc: (..., D))",
    minutes=15,
    difficulty=3,
    lines=7,
    cases=[
        Case("10 queries", "plain", states(10)),
        Case("(2, 3, 5) queries", "plain", states(2, 3, 5, d=4)),
        Case("6 queries, b the larger", "plain", states(6, mean=(0, 5))),
        Case("b has seen nothing", "identity", states(7, nothing="b")),
        Case("a has seen nothing", "identity", states(7, nothing="a")),
        Case("neither has seen anything", "nothing", states(2, 7, nothing="both")),
        Case("scores near 1000 and 960", "large", states(9, mean=(1000, 960), spread=10)),
        Case("scores near -500 and 500", "large", states(9, mean=(-500, 500), spread=1)),
        Case("6 states, exchanged and regrouped", "order", rearranged()),
    ],
    oracle=merged,
    budget=merge_budget,
    allows=ATTENTION,
    gates=[Correct("plain")],
    criteria=[
        Correct("identity", 2, "the empty state changes nothing"),
        Correct("nothing", 1, "two empty states"),
        Correct("large", 2, "scores far from 0, and far apart"),
        Holds(any_order, 1, "any order, any grouping", "order"),
    ],
    hints=[
        "Both sums were taken relative to their own maximum. Relative to which should the new ones be?",
        "m = torch.maximum(m_a, m_b). A sum relative to m_a becomes one relative to m when it is multiplied by exp(m_a - m). "
        "What does that give where both maxima are -inf?",
        "Where m is -inf, subtract 0 in place of m: base = torch.where(m == -math.inf, 0, m). Then fa = torch.exp(m_a - base) is 0 "
        "for an empty state, and likewise fb; l = l_a * fa + l_b * fb; acc = acc_a * fa[..., None] + acc_b * fb[..., None].",
    ],
    mistakes=[
        has_nan(
            ["identity", "nothing"],
            "NaN: -inf - -inf is not a number. An empty state has the maximum -inf, and so have two of them.",
        ),
        has_nan(["large"], "NaN: an exp ran over. Both factors are at most 1 if the larger maximum is subtracted."),
    ],
)

SHAPES = [(2, 2), (3, 2), (2, 3), (4, 1)]


def tile_cases(group: str, wanted: Callable[[int, int, int, int], bool]) -> list[Case]:
    """Every nq and nk from 1 to 8 with tiles of four shapes, as far as wanted."""
    sides = range(1, 9)
    return [
        fixed(
            f"{nq} queries, {nk} keys, tiles of {bm} x {bn}", group, programs=-(-nq // bm), bm=bm, bn=bn, nq=nq, nk=nk
        )
        for (bm, bn), nq, nk in product(SHAPES, sides, sides)
        if wanted(nq % bm, nk % bn, nq, nk)
    ]


causal_tiles = Exercise(
    id="attention.causal_tiles",
    entry="causal_tiles",
    signature="causal_tiles(pid, bm, bn, nq, nk) -> tuple[int, int]: (full, end)",
    kind="formula",
    called="for every program",
    minutes=15,
    difficulty=3,
    lines=5,
    cases=[
        fixed("256 queries and keys, tiles of 64 x 32", "plain", programs=4, bm=64, bn=32, nq=256, nk=256),
        *tile_cases("plain", lambda qs, ks, nq, nk: qs == ks == 0 and nq == nk),
        *tile_cases("ragged", lambda qs, ks, nq, nk: (qs or ks) and nq == nk),
        *tile_cases("more keys", lambda qs, ks, nq, nk: nq < nk),
        *tile_cases("more queries", lambda qs, ks, nq, nk: nq > nk),
    ],
    oracle=tiles_of,
    criteria=[
        Holds(right_tiles, 2, "as many queries as keys, whole tiles"),
        Holds(right_tiles, 1, "ragged sizes", "ragged"),
        Holds(right_tiles, 1, "more keys than queries", "more keys"),
        Holds(right_tiles, 1, "more queries than keys", "more queries"),
    ],
    hints=[
        "Two queries decide: what the first of the tile sees, all of them see; what the last does not see, none sees.",
        "Query i sees i + nk - nq + 1 keys, at least 0 and at most nk. The last query of the tile is min((pid + 1) * bm, nq) - 1.",
        "seen_by = lambda i: min(max(i + nk - nq + 1, 0), nk). full = seen_by(first) // bn, and end = -(-seen_by(last) // bn), "
        "which rounds up.",
    ],
    mistakes=[],
)


def tiled(
    nq: int, nk: int, d: int, bm: int, bn: int, dtype: torch.dtype = torch.float32, *, causal: bool = False, **more: Any
):
    return qkv(nq, nk, d, dtype, **more, causal=causal, bm=bm, bn=bn)


tiled_attention = Exercise(
    id="attention.tiled_attention",
    entry="tiled_attention",
    signature="tiled_attention(q, k, v, causal: bool, bm: int, bn: int) -> o: (..., Nq, D), lse: (..., Nq) float32",
    minutes=35,
    difficulty=4,
    lines=30,
    cases=[
        Case("32 queries, 48 keys", "plain", tiled(32, 48, 16, 16, 16)),
        Case("(2, 3) heads, 37 queries, 50 keys", "ragged", tiled(37, 50, 16, 32, 24, lead=(2, 3), layout="heads")),
        Case("1 query, 33 keys", "ragged", tiled(1, 33, 32, 16, 16, layout="windows")),
        Case("20 queries, 7 keys, one tile", "ragged", tiled(20, 7, 8, 64, 64)),
        Case("40 queries and keys, causal", "causal", tiled(40, 40, 16, 24, 16, causal=True)),
        Case("23 queries, 61 keys, causal", "causal", tiled(23, 61, 16, 16, 32, lead=(2,), causal=True)),
        Case("44 queries, 19 keys, causal", "nothing", tiled(44, 19, 16, 16, 16, lead=(2,), causal=True)),
        Case("large scores", "hard", tiled(24, 70, 16, 32, 24, scores="large")),
        Case("scores that rise from tile to tile", "hard", tiled(24, 70, 16, 32, 24, scores="rising", offset=20.0)),
        Case("one score of 80, at the last key", "hard", tiled(24, 65, 16, 32, 32, scores="last")),
        Case("scores near -200", "hard", tiled(24, 70, 16, 32, 32, scores="low", causal=True)),
        Case("bfloat16, large scores", "half", tiled(30, 100, 32, 32, 48, torch.bfloat16, scores="large", offset=4.0)),
        Case("float16, rising scores", "half", tiled(33, 60, 32, 32, 24, torch.float16, scores="rising", causal=True)),
        Case("bfloat16, 8 tiles of keys", "half", tiled(20, 125, 16, 32, 16, torch.bfloat16, lead=(2,))),
        Case("192 queries and keys", "performance", tiled(192, 192, 16, 48, 48)),
        Case("192 queries and keys, causal", "performance", tiled(192, 192, 16, 48, 48, causal=True)),
        Case("96 queries, 192 keys, causal", "performance", tiled(96, 192, 16, 48, 48, causal=True)),
    ],
    oracle=output_and_lse,
    budget=attention_budget,
    allows=ATTENTION,
    gates=[Correct("plain")],
    criteria=[
        Correct("ragged", 2, "ragged sizes, leading dimensions"),
        Correct("causal", 2, "causal, Nq != Nk too"),
        Correct("nothing", 1, "queries that see no key"),
        Correct("hard", 3, "large, rising, low scores"),
        Correct("half", 2, "half precision in and out, float32 inside"),
        LargestBuffer(lambda q, k, bm, **_: 4 * bm * k.shape[-2], 2, "no scores beyond one tile"),
        Products(2, "skips what nobody sees"),
    ],
    hints=[
        "Two loops: over tiles of bm queries, and inside over tiles of bn keys. What does a tile of queries carry from one tile of "
        "keys to the next?",
        "Its state (m, l, acc). A tile of scores s has the state (s.amax(-1), p.sum(-1), p @ v) with p = exp(s - its maximum): "
        "merge it into the one you carry. After the last tile o = acc / l and lse = m + log(l).",
        "Start from m = -inf, l = 0, acc = 0. For the mask compare rows = i + torch.arange(...) + Nk - Nq with cols = j + "
        "torch.arange(...). causal_tiles(pid, bm, bn, Nq, Nk)[1] says where to stop. At the end, "
        "o = acc / torch.where(l == 0, 1, l)[..., None], written into o[..., i : i + bm, :]. Cast tiles with .float().",
    ],
    mistakes=[
        UNSCALED,
        UNMASKED,
        TOP_LEFT,
        has_nan(
            ["nothing", "causal"],
            "NaN: where a query has seen nothing yet, m is -inf, and -inf - -inf is not a number; at the end l may be 0.",
        ),
        has_nan(
            ["hard"], "NaN: an exp ran over, or all terms of a sum under. Subtract the running maximum before exp."
        ),
    ],
)

ASKED = [
    ("plain", 256, 64, 64, 64, 2, False),
    ("plain", 128, 32, 32, 64, 4, False),
    ("ragged", 200, 64, 64, 32, 2, False),
    ("ragged", 33, 16, 16, 32, 4, False),
    ("causal", 256, 64, 64, 64, 2, True),
    ("causal", 256, 32, 128, 32, 2, True),
    ("causal ragged", 256, 64, 32, 128, 2, True),
    ("causal ragged", 200, 64, 64, 32, 2, True),
    ("causal ragged", 130, 16, 32, 64, 4, True),
]
"""(group, n, d, bm, bn, itemsize, causal) of the public cases; all are in the table of traced footprints."""

NAMES = ("n", "d", "bm", "bn", "itemsize", "causal")

flash_bytes = Exercise(
    id="attention.flash_bytes",
    entry="flash_bytes",
    signature="flash_bytes(n, d, bm, bn, itemsize, causal) -> int",
    kind="formula",
    minutes=15,
    difficulty=3,
    lines=6,
    cases=[
        fixed(f"n = {c[0]}, tiles of {c[2]} x {c[3]}{', causal' * c[5]}", group, **dict(zip(NAMES, c, strict=True)))
        for group, *c in ASKED
    ],
    oracle=moved_bytes,
    criteria=[
        Correct("plain", 1, "equal to the trace"),
        Correct("ragged", 1, "equal to the trace, ragged sizes"),
        Correct("causal", 2, "equal to the trace, causal"),
        Correct("causal ragged", 1, "equal to the trace, causal, ragged or wide tiles"),
    ],
    hints=[
        "Who reads what? q, o and lse belong to one program each. k and v are read again by every program.",
        "A program of a full pass reads n rows of k and of v. A causal one stops after the last tile that it sees: "
        "causal_tiles(pid, bm, bn, n, n)[1] tiles of bn rows, of which the last may be short.",
        "rows = sum(min(n, end * bn) for each program), with end = ceil(n / bn) where it is not causal. Then "
        "2 * n * d * itemsize for q and o, 4 * n for lse, 2 * rows * d * itemsize for k and v.",
    ],
    mistakes=[
        every(
            lambda output, n, **a: output == moved_bytes(n, **a) - 4 * n,
            "All but lse: one float32 for each query is written too.",
        ),
        every(
            lambda output, n, d, itemsize, **_: output in (4 * n * d * itemsize, 4 * n * d * itemsize + 4 * n),
            "That reads k and v once. Each program reads them again: programs share nothing but the memory.",
        ),
    ],
)

# ------------------------------------------------------------------------------------------------ backward

backward = Exercise(
    id="attention.attention_backward",
    entry="attention_backward",
    signature="attention_backward(q, k, v, o, do, lse, causal: bool) -> dq, dk, dv",
    minutes=35,
    difficulty=5,
    lines=30,
    cases=[
        Case("32 queries, 48 keys", "plain", with_backward(qkv(32, 48, 16), False)),
        Case(
            "(2, 2) heads, 37 queries, 70 keys",
            "ragged",
            with_backward(qkv(37, 70, 16, lead=(2, 2), layout="heads"), False),
        ),
        Case("1 query, 90 keys", "ragged", with_backward(qkv(1, 90, 32), False)),
        Case("75 queries and keys, causal", "causal", with_backward(qkv(75, 75, 16), True)),
        Case("23 queries, 80 keys, causal", "causal", with_backward(qkv(23, 80, 16, lead=(2,)), True)),
        Case("90 queries, 31 keys, causal", "nothing", with_backward(qkv(90, 31, 16, lead=(2,)), True)),
        Case("large scores", "hard", with_backward(qkv(24, 70, 16, scores="large"), False)),
        Case("rising scores, v around 20", "hard", with_backward(qkv(24, 70, 16, scores="rising", offset=20.0), True)),
        Case("scores near -200", "hard", with_backward(qkv(24, 70, 16, scores="low"), False)),
        Case("bfloat16", "half", with_backward(qkv(150, 140, 32, torch.bfloat16), False)),
        Case("float16, causal", "half", with_backward(qkv(100, 100, 16, torch.float16, lead=(2,)), True)),
        Case("320 queries and keys", "performance", with_backward(qkv(320, 320, 16), False)),
        Case("320 queries and keys, causal", "performance", with_backward(qkv(320, 320, 16), True)),
    ],
    oracle=gradients,
    budget=backward_budget,
    allows=ATTENTION,
    gates=[Correct("plain")],
    criteria=[
        Correct("ragged", 2, "ragged sizes, leading dimensions"),
        Correct("causal", 2, "causal, Nq != Nk too"),
        Correct("nothing", 1, "queries that see no key"),
        Correct("hard", 3, "large, rising, low scores"),
        Correct("half", 2, "half precision in and out, float32 inside"),
        LargestBuffer(lambda q, k, **_: q.shape[-2] * k.shape[-2], 2, "never Nq x Nk"),
    ],
    hints=[
        "A tile of scores can be computed again from q and k. With lse, how do you get its probabilities without a softmax?",
        "p = exp(s - lse) is exact in each tile. Then dv += p.mT @ do, dp = do @ v.mT, ds = p * (dp - delta), dq += ds @ k * scale "
        "and dk += ds.mT @ q * scale, with delta = rowsum(do * o), computed once.",
        "Queries that see nothing have lse = -inf and scores of -inf, and exp(-inf - -inf) is not a number: subtract base = "
        "torch.where(lse == -math.inf, 0, lse) in place of lse. Accumulate dq, dk, dv in float32 tensors of the shape of q, k, v, "
        "take tiles of 64 by 64, and cast each result once, at the end.",
    ],
    mistakes=[
        has_nan(["nothing"], "NaN: lse is -inf where a query sees nothing, and exp(-inf - -inf) is not a number."),
        no_scale_on_the_way_back,
    ],
)

EXERCISES = {
    exercise.id: exercise
    for exercise in (
        attention,
        rotary,
        claims,
        merge,
        causal_tiles,
        tiled_attention,
        flash_bytes,
        backward,
    )
}
