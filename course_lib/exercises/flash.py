"""Unit 09, FlashAttention forward in Triton. Shapes, masks and lse as in unit 08: see course_lib/exercises/attention.py.

    grouped heads   q (Hq, ..., D), k and v (Hkv, ..., D): query head h reads head h // (Hq // Hkv) of k and v
    window          query i sees at most `window` keys, its own the last: i + Nk - Nq - window < j <= i + Nk - Nq

Oracles: torch in float64, head by head, with masks looked at element by element; tiles counted one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from course_lib.criteria import (
    Coalesced,
    Compiles,
    Correct,
    DotFlops,
    Judged,
    Launches,
    NoBufferOfSize,
    Programs,
    Rereads,
    Speed,
    Traffic,
    TritonDidTheWork,
    roundings,
)
from course_lib.exercise import Case, Evidence, Exercise
from course_lib.exercises.attention import (
    EPS32,
    TOP_LEFT,
    UNMASKED,
    UNSCALED,
    Forward,
    computes,
    has_nan,
    moved_bytes,
    qkv,
    results,
    seen,
    shown,
    tiles_of,
)
from course_lib.mistakes import Mistake, faulty

GATES = (TritonDidTheWork(), Correct("plain"), Compiles())
HALF, BRAIN, SINGLE = torch.float16, torch.bfloat16, torch.float32

# ------------------------------------------------------------------------------------------------ inputs


def one_of_each_head(draw: Callable, heads: int) -> Callable:
    """That drawing of one head, with `heads` of q and the one k and v for all of them, as views of stride 0."""

    def drawn(g: torch.Generator) -> dict[str, Any]:
        given = draw(g)
        q = torch.randn(heads, *given["q"].shape, generator=g, device=g.device).to(given["q"].dtype)
        return given | {"q": q} | {name: given[name].expand(heads, -1, -1) for name in "kv"}

    return drawn


def by_columns(draw: Callable) -> Callable:
    """That drawing, with q and k laid out column by column; v stays as it is."""
    return lambda g: (given := draw(g)) | {name: given[name].mT.contiguous().mT for name in "qk"}


def backwards(draw: Callable) -> Callable:
    """That drawing, with the keys in the opposite order."""
    return lambda g: (given := draw(g)) | {name: given[name].flip(-2) for name in "kv"}


def grouped(
    heads: int, group: int, nq: int, nk: int, d: int, dtype: torch.dtype = HALF, *, scores: str = "mild", **more: Any
):
    """A drawing of q (heads * group, nq, d), k and v (heads, nk, d), then `more`."""

    def draw(g: torch.Generator) -> dict[str, Any]:
        given = qkv(group * nq, nk, d, dtype, lead=(heads,), scores=scores)(g)
        return given | {"q": given["q"].reshape(heads * group, nq, d)} | more

    return draw


def one_token(heads: int, group: int, nk: int, d: int, splits: int, dtype: torch.dtype = HALF, **kind: Any):
    """A drawing of q (heads * group, d), k and v (heads, nk, d), and splits."""

    def draw(g: torch.Generator) -> dict[str, Any]:
        given = grouped(heads, group, 1, nk, d, dtype, **kind)(g)
        return given | {"q": given["q"][:, 0].contiguous(), "splits": splits}

    return draw


def scored(M: int, N: int, D: int, dtype: torch.dtype = SINGLE, *, scores: str = "mild", offset: float = 0.0):
    """A drawing of s (M, N), float32, and v (N, D) around `offset`.

    scores  "mild" around 0; "large", to about 150 either way; "rising" or "falling" by 300 along a row; "low", all near -300; "late", the
            first half of each row -inf; "nothing", every other row -inf
    """

    def draw(g: torch.Generator) -> dict[str, torch.Tensor]:
        s = torch.randn(M, N, generator=g, device=g.device)
        v = (torch.randn(N, D, generator=g, device=g.device) + offset).to(dtype)
        if scores == "large":
            s = 40 * s
        elif scores == "rising":
            s = s + torch.linspace(0, 300, N, device=g.device)
        elif scores == "falling":
            s = s - torch.linspace(0, 300, N, device=g.device)
        elif scores == "low":
            s = s - 300
        elif scores == "late":
            s[:, : N // 2] = -math.inf
        elif scores == "nothing":
            s[::2] = -math.inf
        return {"s": s, "v": v}

    return draw


# ------------------------------------------------------------------------------------------------ oracles


def visible(nq: int, nk: int, causal: bool, window: int | None, device: Any) -> torch.Tensor:
    """(nq, nk), True where a query sees a key."""
    mask = seen(nq, nk, causal, device)
    if window is not None:
        mask &= ~torch.ones_like(mask).tril(nk - nq - window)  # keys too old for the window
    return mask


def by_heads(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float | None, window: int | None
) -> Iterator[tuple[torch.Tensor, ...]]:
    """For each head of q (heads, Nq, D), k and v (fewer heads, Nk, D), in float64: the probabilities (Nq, Nk), v (Nk, D), the
    log-sum-exp (Nq,), and the largest sum of |terms| of a score (Nq,)."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    mask = visible(q.shape[-2], k.shape[-2], causal, window, q.device)
    group = q.shape[0] // k.shape[0]
    for h in range(q.shape[0]):
        one, key, value = q[h].double(), k[h // group].double(), v[h // group].double()
        s = (one @ key.mT * scale).masked_fill(~mask, -math.inf)
        size = (abs(scale) * one.abs() @ key.abs().mT).amax(-1)
        yield torch.softmax(s, -1).nan_to_num(0), value, s.logsumexp(-1), size


def attend(q, k, v, causal=False, scale=None, window=None, **_: Any) -> Forward:
    """(o, lse): o (..., Nq, D) in float64, lse (..., Nq) in float32."""
    heads = [x.reshape(-1, *x.shape[-2:]) for x in (q, k, v)]
    found = [(p @ value, lse) for p, value, lse, _ in by_heads(*heads, causal, scale, window)]
    o, lse = (torch.stack(part) for part in zip(*found, strict=True))
    return Forward(o.reshape(q.shape), lse.reshape(q.shape[:-1]).float())


def only_o(q, k, v, **more: Any) -> torch.Tensor:
    return attend(q, k, v, **more)[0]


def windowed(q, k, v, window: int) -> torch.Tensor:
    return attend(q, k, v, causal=True, window=window)[0]


def decoded(q, k, v, splits: int) -> torch.Tensor:
    return attend(q[:, None], k, v)[0][:, 0]


def means(s: torch.Tensor, v: torch.Tensor) -> Forward:
    """(o, lse) of scores: in float64, and in float32."""
    return Forward(torch.softmax(s.double(), -1).nan_to_num(0) @ v.double(), s.double().logsumexp(-1).float())


# ------------------------------------------------------------------------------------------------ budgets


def kernel_budget(expected, dtype, arguments):
    """Of o: one rounding of the result and one of the probabilities, to the dtype of v, with half as much again; and float32
    arithmetic inside. Of lse: float32 arithmetic alone."""
    q, k, v = (arguments[name] for name in "qkv")
    more = [arguments.get(name) for name in ("causal", "scale", "window")]
    rows = q[:, None] if q.dim() == k.dim() - 1 else q
    heads = [x.reshape(-1, *x.shape[-2:]) for x in (rows, k, v)]
    found = []
    for p, value, _, size in by_heads(*heads, bool(more[0]), *more[1:]):
        error = (2 * math.sqrt(k.shape[-2]) + 8 + 2 * size) * EPS32
        found.append((error, p @ value.abs(), error[:, None] * value.abs().amax(0)))
    error, weights, inside = (torch.stack(part) for part in zip(*found, strict=True))
    if expected.shape != q.shape:
        return error.reshape(expected.shape) + 4 * EPS32 * expected.abs().nan_to_num(0, posinf=0, neginf=0)
    return rounded(expected, dtype, v.dtype, weights.reshape(q.shape)) + inside.reshape(q.shape)


def rounded(expected: torch.Tensor, dtype: torch.dtype, inner: torch.dtype, weights: torch.Tensor) -> torch.Tensor:
    """Two roundings of the result, one of the terms that it sums; weights: the sum of their absolute values."""
    return roundings(expected, dtype, 1) + torch.finfo(inner).eps / 2 * weights


def means_budget(expected, dtype, arguments):
    """The same, of given scores."""
    s, v = arguments["s"].double(), arguments["v"].double()
    error = (2 * math.sqrt(s.shape[1]) + 32) * EPS32
    if expected.dim() == 1:
        return error + 4 * EPS32 * expected.abs().nan_to_num(0, posinf=0, neginf=0)
    weights = torch.softmax(s, -1).nan_to_num(0) @ v.abs()
    return rounded(expected, dtype, arguments["v"].dtype, weights) + error * v.abs().amax(0)


# ------------------------------------------------------------------------------------------------ what it may cost

TILE, WIDE = 64, 128  # rows of a query tile at least, and of a key tile at most, that full marks allow


def heads_of(x: torch.Tensor) -> int:
    return math.prod(x.shape[:-2])


def least_bytes(q, k, v, causal: bool, **_: Any) -> int:
    """Of tiles of 64 queries and 128 keys, as flash_bytes of unit 08 has it. Nq = Nk."""
    (n, d), size = q.shape[-2:], q.element_size()
    return heads_of(q) * moved_bytes(n, d, TILE, WIDE, size, causal)


def pairs(nq: int, nk: int, causal: bool, window: int | None = None, side: int = WIDE) -> int:
    """Pairs of a query and a key in the tiles of side x side that hold one that is seen."""
    mask = visible(nq, nk, causal, window, None)
    tiles = [(i, j) for i in range(0, nq, side) for j in range(0, nk, side)]
    return side * side * sum(bool(mask[i : i + side, j : j + side].any()) for i, j in tiles)


def least_flops(q, k, v, causal: bool = True, window: int | None = None, **_: Any) -> int:
    """Two products of each tile of 128 x 128 that is seen."""
    return 4 * q.shape[-1] * heads_of(q) * pairs(q.shape[-2], k.shape[-2], causal, window)


def windows_bytes(q, k, v, window: int) -> int:
    """q and o once, and for each 64 queries the keys and values that they see, with a tile of 128 more."""
    (n, d), size = q.shape[-2:], q.element_size()
    spans = [min(n, i + TILE) - max(0, i - window + 1 - WIDE) for i in range(0, n, TILE)]
    return heads_of(q) * (2 * n * d + 2 * d * sum(spans)) * size


# ------------------------------------------------------------------------------------------------ mistakes


def looks_like_tf32(trials: Sequence[Judged]) -> str:
    """A sentence, if float32 results are wrong, but not very, and all that is wrong of half precision nearly right."""
    off = {SINGLE: [], HALF: [], BRAIN: []}  # the error of each result that is shown, as a share of it
    for call, found in results(trials):
        right = _oracle_of(call)(**call)
        right = right.o if isinstance(right, Forward) else right
        if found.shape != right.shape:
            return ""
        off[call["v"].dtype].append(float((found.double() - right).norm() / right.norm()))
    like_it = any(x > 2**-14 for x in off[SINGLE]) and all(x < 0.1 for x in off[SINGLE])  # a NaN is neither
    if like_it and all(x < 0.02 for x in off[HALF] + off[BRAIN]):
        return (
            'Float32 results have the precision of TF32: write tl.dot(..., input_precision="ieee"), in both products. A GPU rounds the '
            "blocks of a float32 dot to 10 bits after the point unless you ask it not to."
        )
    return ""


def _oracle_of(call: dict[str, Any]) -> Callable[..., Any]:
    """What answers a call with these arguments."""
    if "s" in call:
        return means
    if "splits" in call:
        return decoded
    return windowed if "window" in call else attend


def unstored(trials: Sequence[Judged]) -> str:
    """A sentence, if kernels left elements of a result as they were allocated."""
    for t in shown(trials):
        for out in t.evidence.outputs[-1:]:
            parts = out if isinstance(out, list) else [out]
            for place, x in enumerate(parts):
                label = f"out[{place}]" if isinstance(out, list) else "out"
                if isinstance(x, torch.Tensor) and x.isnan().any():
                    stored = stored_bytes(t.evidence, label) // x.element_size()
                    if stored < x.numel():
                        return (
                            f"{t.case.name}: kernels stored {stored:,} of {x.numel():,} elements of a result: does the grid cover the "
                            "last, partial tile (triton.cdiv), and each head?"
                        )
    return ""


def stored_bytes(evidence: Evidence, label: str) -> int:
    """What the kernels of the last call wrote of a result, each byte counted once."""
    own = [f for launch in evidence.launches for f in launch.footprints if f.tensor == label]
    return sum(f.written_distinct_bytes for f in own)


def of_each_head(q: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """k or v in float64, repeated so that each head of q has its own."""
    return (x if x.dim() == 2 else x.repeat_interleave(q.shape[0] // x.shape[0], 0)).double()


def under(mask: torch.Tensor, q: torch.Tensor, k: torch.Tensor, scale: float | None = None) -> torch.Tensor:
    """Scores (..., Nq, Nk) in float64, where this mask (Nq, Nk) is True, and -inf elsewhere."""
    scores = q.double() @ of_each_head(q, k).mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    return scores.masked_fill(~mask, -math.inf)


def shifted(by: int) -> Callable[..., torch.Tensor | None]:
    """o, if the edge of a causal mask, or the old end of a window, lay so many keys further out."""

    def wrong(q, k, v, causal=False, scale=None, window=None, **_):
        mask = visible(q.shape[-2], k.shape[-2], True, window and window + by, q.device)
        if window is None:
            mask = torch.ones_like(mask).tril(k.shape[-2] - q.shape[-2] + by)
        seen_by = torch.softmax(under(mask, q, k, scale), -1).nan_to_num(0)
        return seen_by @ of_each_head(q, v) if causal or window else None

    return wrong


def undivided(q, k, v, causal=False, scale=None, window=None, **_) -> torch.Tensor:
    """The accumulator in place of o: sums of exp(s - m) v."""
    s = under(visible(q.shape[-2], k.shape[-2], causal or bool(window), window, q.device), q, k, scale)
    return torch.exp(s - s.amax(-1, keepdim=True)).nan_to_num(0) @ of_each_head(q, v)


def other_heads(q, k, v, **more: Any) -> Any:
    """What comes of reading head h % Hkv of k and v."""
    heads = torch.arange(q.shape[0], device=q.device) % k.shape[0]
    return _oracle_of(more)(q, k[heads], v[heads], **more)


def merged_by(merge: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor | None]:
    """Decoding, with a merge of the shares' states: m and l (splits, Hq), acc (splits, Hq, D)."""

    def wrong(q, k, v, splits):
        if k.shape[-2] % splits:
            return None  # who knows where the student cuts
        k, v = (of_each_head(q, x).chunk(splits, 1) for x in (k, v))
        s = torch.stack(
            [(one @ q.double()[..., None])[..., 0] * q.shape[-1] ** -0.5 for one in k]
        )  # (splits, Hq, share)
        m = s.amax(-1)
        p = torch.exp(s - m[..., None])
        return merge(m, p.sum(-1), torch.stack([(one[:, None] @ x)[:, 0] for one, x in zip(p, v, strict=True)]))

    return wrong


def slip(wrong: Callable[..., Any], sentence: str, place: int = 0) -> Mistake:
    """`sentence`, if some result at that place is what `wrong` of its arguments is, and not what is right."""
    return computes(wrong, sentence, unlike=lambda **call: _oracle_of(call)(**call), place=place)


def scale_in(factor: float) -> Callable[..., Forward]:
    """(o, lse), if q * scale * factor is rounded to q's dtype."""

    def wrong(q, k, v, causal=False, scale=None):
        scale = q.shape[-1] ** -0.5 if scale is None else scale
        rounded = (q.float() * (scale * factor)).to(q.dtype)
        return attend(rounded, k, v, causal, 1 / factor)

    return wrong


ROUNDED_Q = (
    "The scale went into q, and was rounded to q's dtype there. Multiply the scores in its place, which are float32."
)
SCALED_Q = [slip(scale_in(factor), ROUNDED_Q, place=1) for factor in (1.0, math.log2(math.e))]
EDGES = [
    slip(shifted(-1), "Each query sees one key too few."),
    slip(shifted(1), "Each query sees one key too many."),
]
UNDIVIDED = slip(undivided, "These are the sums. Divide by l after the last tile: o = acc / l.")
OTHER_HEADS = slip(
    other_heads, "Here head h of q reads head h % Hkv of k and v. Heads of a group are neighbours: h // (Hq // Hkv)."
)
MERGES = [
    slip(
        merged_by(lambda m, l, acc: acc.sum(0) / l.sum(0)[..., None]),
        "The shares are added up as they are. Each is relative to a maximum of its own: weight its l and acc with exp(m - top).",
    ),
    slip(
        merged_by(lambda m, l, acc: (acc / l[..., None]).mean(0)),
        "This is the mean of the shares' results. Add up their acc and their l, each weighted with exp(m - top), and divide then.",
    ),
    slip(
        merged_by(lambda m, l, acc: (torch.exp(m - m.amax(0))[..., None] * acc).sum(0) / l.sum(0)[..., None]),
        "acc is weighted with exp(m - top), and l is not. Both are relative to the maximum of their share.",
    ),
]
NAN = has_nan(
    ["nothing", "causal", "late", "plain"],
    "NaN: where a row has seen nothing yet, m is -inf, and -inf - -inf is not a number; at the end l may be 0.",
)
OVERFLOW = has_nan(
    ["hard"], "NaN: an exp ran over, or all terms of a sum under. Subtract the running maximum before exp."
)
RACE = faulty(
    "race", "Two programs store to the same place: do tile and head come from the program's number, each once?"
)

# ------------------------------------------------------------------------------------------------ predictions

ASKED = {"n": 1024, "d": 128, "itemsize": 2}


def counted() -> dict[str, int]:
    """Each number of `predictions`, counted tile by tile."""
    n, d, size = ASKED["n"], ASKED["d"], ASKED["itemsize"]

    def times(bm: int) -> int:
        beside = 2 * n * d * size + 4 * n  # q, o and lse
        return (moved_bytes(n, d, bm, 64, size, False) - beside) // (2 * n * d * size)

    ends = [end for _, end in tiles_of(8, 128, 128, n, n)]
    fulls = [full for full, _ in tiles_of(8, 128, 128, n, n)]
    return {
        "times k is read, tiles of 64 queries": times(64),
        "times k is read, tiles of 128 queries": times(128),
        "tiles of a causal pass": sum(ends),
        "of these, tiles that need the mask": sum(ends) - sum(fulls),
        "bytes of the accumulator of a program": torch.zeros(128, d).nbytes,
        "bytes of scores written to memory": 0,
    }


predictions = Exercise(
    id="flash.predictions",
    entry="predictions",
    signature="predictions: dict[str, int]",
    kind="values",
    minutes=5,
    difficulty=2,
    lines=6,
    cases=[Case("six numbers", "plain", lambda g: {})],
    oracle=counted,
    criteria=[Correct("plain", 3, "as they are counted")],
    hints=[
        "Each program reads all of k. How many programs are there?",
        "With 8 x 8 square tiles, row i of a causal map has i + 1 tiles, and the last of them lies on the diagonal.",
        "The accumulator is float32, whatever q is: 128 rows of 128 numbers, 4 bytes each. Scores stay on the chip.",
    ],
)

# ------------------------------------------------------------------------------------------------ one tile


@dataclass
class UpdateIsWritten(TritonDidTheWork):
    """The gate of kernels, for one that is half given: of the plain case, the state that a program ends with is not the one that it
    starts from. (Elsewhere sums may run under and look the same.)"""

    def _problem(self, exercise: Exercise, evidence: Evidence, group: str) -> str:
        untouched = [
            isinstance(out, list)
            and all(
                isinstance(x, torch.Tensor) and (x == start).all()
                for x, start in zip(out, (0, -math.inf), strict=False)
            )
            for out in evidence.outputs
        ]
        if group == "plain" and untouched and all(untouched):
            return "online_update returns nothing new yet: its body is not filled in"
        return super()._problem(exercise, evidence, group)


online_update = Exercise(
    id="flash.online_update",
    entry="weighted_mean",
    signature="online_update(m, l, acc, s, v) -> m, l, acc, called by weighted_mean(s: (M, N), v: (N, D)) -> o, lse",
    minutes=15,
    difficulty=3,
    lines=7,
    cases=[
        Case("64 rows of 128 scores, float16", "plain", scored(64, 128, 32, HALF)),
        Case("1 row of 5", "ragged", scored(1, 5, 16)),
        Case("100 rows of 333", "ragged", scored(100, 333, 64)),
        Case("large scores", "hard", scored(40, 300, 32, scores="large")),
        Case("scores that rise by 300", "hard", scored(40, 300, 32, scores="rising", offset=20.0)),
        Case("scores that fall by 300", "hard", scored(40, 300, 32, scores="falling", offset=20.0)),
        Case("scores near -300", "hard", scored(40, 300, 32, scores="low")),
        Case("tiles of -inf first", "late", scored(40, 300, 32, scores="late")),
        Case("rows of -inf alone", "late", scored(40, 300, 32, scores="nothing")),
        Case("32 rows of 4096, bfloat16", "half", scored(32, 4096, 32, BRAIN, offset=20.0)),
        Case("32 rows of 4096, float16", "half", scored(32, 4096, 32, HALF, offset=20.0)),
        Case("40 rows of 500, float32, v around 20", "float32", scored(40, 500, 32, offset=20.0)),
    ],
    oracle=means,
    budget=means_budget,
    gates=(UpdateIsWritten(), *GATES[1:]),
    criteria=[
        Correct("ragged", 1),
        Correct("hard", 2, "large, rising, low scores"),
        Correct("late", 2, "rows that have seen nothing yet, or ever"),
        Correct("half", 2, "half precision in, float32 inside"),
        Correct("float32", 1, "float32 stays float32"),
    ],
    hints=[
        "It is merge of unit 08, with a state that you have and one that you make: of a tile of scores, relative to the new "
        "maximum at once.",
        "m_new = tl.maximum(m, tl.max(s, 1)). What was summed relative to m becomes relative to m_new when it is multiplied by "
        "exp(m - m_new). Where m_new is -inf, subtract 0 in its place.",
        'p = tl.exp(s - base[:, None]) and shrink = tl.exp(m - base), with base = tl.where(m_new == -float("inf"), 0.0, m_new); '
        'l * shrink + tl.sum(p, 1); tl.dot(p.to(v.dtype), v, acc * shrink[:, None], input_precision="ieee").',
    ],
    mistakes=[NAN, OVERFLOW, looks_like_tf32],
)

# ------------------------------------------------------------------------------------------------ one head

one_head = Exercise(
    id="flash.one_head",
    entry="one_head",
    signature="one_head(q: (Nq, D), k: (Nk, D), v: (Nk, D), contiguous) -> o: (Nq, D), lse: (Nq,) float32",
    minutes=25,
    difficulty=3,
    lines=30,
    cases=[
        Case("64 queries, 128 keys, float16", "plain", qkv(64, 128, 32, HALF)),
        Case("37 queries, 50 keys, bfloat16", "ragged", qkv(37, 50, 32, BRAIN)),
        Case("200 queries, 1 key, float16", "ragged", qkv(200, 1, 32, HALF)),
        Case("1 query, 333 keys, float32", "ragged", qkv(1, 333, 32)),
        Case("large scores, float16", "hard", qkv(24, 170, 32, HALF, scores="large")),
        Case("rising scores, float32", "hard", qkv(24, 270, 32, scores="rising", offset=20.0)),
        Case("one score of 80, at the last key", "hard", qkv(24, 257, 32, scores="last")),
        Case("scores near -200, bfloat16", "hard", qkv(24, 170, 32, BRAIN, scores="low")),
        Case("384 queries and keys, float16", "performance", qkv(384, 384, 64, HALF)),
    ],
    oracle=attend,
    budget=kernel_budget,
    gates=GATES,
    criteria=[
        Correct("ragged", 2),
        Correct("hard", 2, "large, rising, low scores"),
        Rereads("k", lambda q, **_: math.ceil(q.shape[-2] / TILE), 2, "k is read at most Nq / 64 times"),
        Launches(1, 1),
        Coalesced("load", 1),
    ],
    hints=[
        "Your tiled_attention of unit 08, without its outer loop: that loop is the grid. What does a program load once, and what "
        "again and again?",
        "q once, (BLOCK_M, D). In the loop keys = j + tl.arange(0, BLOCK_N), tiles of k and v of (BLOCK_N, D) under the mask keys < "
        "Nk, s = tl.dot(q, k.T) * scale. Scores of keys that are not there must become -inf: 0 is a score like any other.",
        'Start from tl.full((BLOCK_M,), -float("inf"), tl.float32) and zeros. After the loop o = acc / l[:, None] and lse = m + '
        'tl.log(l), stored under rows < Nq; o.to(o_ptr.dtype.element_ty). The grid is (triton.cdiv(Nq, BLOCK_M),); input_precision="ieee" '
        "in the dot.",
    ],
    mistakes=[RACE, unstored, UNSCALED, UNDIVIDED, *SCALED_Q, OVERFLOW, looks_like_tf32],
)

# ------------------------------------------------------------------------------------------------ the whole of it


def heads(
    nq: int, nk: int, d: int, dtype: torch.dtype = HALF, *, lead: Sequence[int] = (2,), causal=False, **more: Any
):
    """A drawing of q, k, v, causal, and scale if it is given."""
    scale = {"scale": more.pop("scale")} if "scale" in more else {}
    return qkv(nq, nk, d, dtype, lead=lead, **more, causal=causal, **scale)


def torchs_flash(q, k, v, causal, **_: Any) -> Callable[[], object]:
    """torch's FlashAttention-2 on the same inputs."""

    def run() -> object:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return scaled_dot_product_attention(q, k, v, is_causal=causal)

    return run


flash_attention_forward = Exercise(
    id="flash.flash_attention_forward",
    entry="flash_attention_forward",
    signature="flash_attention_forward(q: (..., Nq, D), k, v: (..., Nk, D), causal=False, scale=None) -> o, lse: (..., Nq) float32",
    minutes=50,
    difficulty=5,
    lines=75,
    cases=[  # few sizes of heads: the grader compiles every kernel for each, for two GPUs
        Case("(2, 2) heads of 64 queries and keys, float16", "plain", heads(64, 64, 32, lead=(2, 2))),
        Case("37 queries, 50 keys", "ragged", heads(37, 50, 32)),
        Case("1 query, 200 keys, bfloat16", "ragged", heads(1, 200, 32, BRAIN)),
        Case("130 queries, 7 keys", "ragged", heads(130, 7, 32)),
        Case("no leading dimension", "leading", heads(40, 30, 32, lead=())),
        Case("(3, 1, 2) heads", "leading", heads(20, 30, 32, lead=(3, 1, 2))),
        Case("(B, N, H, D) as (B, H, N, D)", "strided", heads(40, 33, 32, lead=(2, 3), layout="heads")),
        Case("windows", "strided", heads(30, 45, 32, BRAIN, lead=(2,), layout="windows")),
        Case(
            "(2, 2, B, N, H, D) as (2, 2, B, H, N, D)", "strided", heads(9, 14, 32, lead=(2, 2, 1, 2), layout="heads")
        ),
        Case("q and k column by column", "strided", by_columns(heads(30, 40, 32))),
        Case("one k and v for 3 heads, stride 0", "strided", one_of_each_head(heads(30, 40, 32, lead=()), 3)),
        Case("heads of 48", "dims", heads(33, 50, 48, lead=())),
        Case("heads of 16", "dims", heads(33, 50, 16, lead=())),
        Case("heads of 256", "dims", heads(20, 70, 256, lead=())),
        Case("128 queries and keys, heads of 128, bfloat16", "dims", heads(128, 128, 128, BRAIN, lead=(1, 1))),
        Case("33 queries, 150 keys, float32", "float32", heads(33, 150, 32, SINGLE, lead=())),
        Case("70 queries, 90 keys, float32", "float32", heads(70, 90, 32, SINGLE, lead=(), offset=20.0)),
        Case("100 queries and keys, causal", "causal", heads(100, 100, 32, causal=True)),
        Case("23 queries, 161 keys, causal", "causal", heads(23, 161, 32, causal=True)),
        Case("1 query, 70 keys, causal", "causal", heads(1, 70, 32, causal=True)),
        Case("144 queries, 49 keys, causal", "nothing", heads(144, 49, 32, causal=True)),
        Case("70 queries, 3 keys, causal", "nothing", heads(70, 3, 32, causal=True)),
        Case("large scores", "hard", heads(24, 170, 32, BRAIN, scores="large")),
        Case("rising scores, float32", "hard", heads(24, 270, 32, SINGLE, scores="rising", offset=20.0, lead=())),
        Case(
            "scores that fall by 340",
            "hard",
            backwards(heads(24, 270, 32, SINGLE, scores="rising", scale=1.0, lead=())),
        ),
        Case("one score of 80, at the last key", "hard", heads(24, 257, 32, scores="last")),
        Case("scores near -200, causal", "hard", heads(150, 170, 32, scores="low", causal=True)),
        Case("large scores, float16, causal", "hard", heads(70, 70, 32, scores="large", causal=True)),
        Case("16 queries, 4096 keys, bfloat16", "half", heads(16, 4096, 32, BRAIN, lead=(), offset=20.0)),
        Case("16 queries, 4096 keys, float16", "half", heads(16, 4096, 32, HALF, lead=(), offset=20.0)),
        Case("a scale of 0.4", "scale", heads(33, 44, 32, scale=0.4)),
        Case("a scale of 0.02, bfloat16", "scale", heads(33, 44, 32, BRAIN, scale=0.02)),
        Case("512 queries and keys, float16", "performance", heads(512, 512, 32, lead=(1,))),
        Case("512 queries and keys, causal, float16", "performance", heads(512, 512, 32, lead=(1,), causal=True)),
    ],
    oracle=attend,
    budget=kernel_budget,
    gates=GATES,
    criteria=[
        Correct("ragged", 2),
        Correct("leading", 1, "any number of leading dimensions"),
        Correct("strided", 3, "right on views, without copies"),
        Correct("dims", 1, "heads of any size from 16 to 256"),
        Correct("float32", 1, "float32 stays float32"),
        Correct("causal", 2, "causal, Nq != Nk too"),
        Correct("nothing", 1, "queries that see no key"),
        Correct("hard", 3, "large, rising, low scores"),
        Correct("half", 2, "half precision in and out, float32 inside"),
        Correct("scale", 1, "a scale of one's own"),
        Traffic(least_bytes, 2, at_most=1.0, title="the bytes of flash_bytes, tiles of 64 x 128 or better"),
        DotFlops(least_flops, 2, "causal: half the products, and the diagonal"),
        Launches(1, 1),
        NoBufferOfSize(lambda q, k, **_: heads_of(q) * q.shape[-2] * k.shape[-2], 1, "nothing of Nq x Nk in memory"),
        Coalesced("load", 1),
        Coalesced("store", 1),
    ],
    bonus=[
        Speed(
            "torch's FlashAttention-2",
            Case("16 heads of 128, 8192 tokens, bfloat16", "speed", heads(8192, 8192, 128, BRAIN, lead=(1, 16))),
            lambda q, k, v, **_: q.nbytes + k.nbytes + v.nbytes + q.nbytes,
            full=1.0,
            none=0.6,
            points=4,
            baseline=torchs_flash,
            advice="Try 64 x 64 tiles, 4 warps, 3 stages; then tl.exp2: see *How fast?* below.",
        )
    ],
    hints=[
        "Begin with one_head. Then one thing at a time: a program finds its head, then its strides; then `sees`, how many keys each "
        "row sees; then two loops, over tiles that all rows see whole, and over those that need a mask.",
        "x[None] until x has four dimensions, then x.flatten(0, -4), is a view (B, H, N, D) of any of these; *x.stride() are four "
        "numbers for the kernel. sees = min(max(rows + 1 + Nk - Nq, 0), Nk) if causal, else Nk; a score stays where keys < sees.",
        "whole = tl.min(sees, 0) // BLOCK_N * BLOCK_N, stop = tl.max(sees, 0): the first loop goes from 0 to whole, the second from "
        "whole to stop. BLOCK_D = triton.next_power_of_2(D), with a mask dims < D. Tiles of 64 x 64 with num_stages=3 for half "
        "precision, 64 x 32 for float32. l is 0 for a row that sees nothing: divide by tl.where(l == 0, 1, l).",
    ],
    mistakes=[
        RACE,
        unstored,
        UNSCALED,
        UNMASKED,
        TOP_LEFT,
        *EDGES,
        UNDIVIDED,
        *SCALED_Q,
        NAN,
        OVERFLOW,
        looks_like_tf32,
    ],
)

# ------------------------------------------------------------------------------------------------ what models add

sliding_window = Exercise(
    id="flash.sliding_window",
    entry="sliding_window",
    signature="sliding_window(q, k, v: (H, N, D), contiguous, window: int) -> o: (H, N, D)",
    minutes=15,
    difficulty=3,
    lines=35,
    cases=[
        Case("2 heads of 128, window 32, float16", "plain", qkv(128, 128, 32, HALF, lead=(2,), window=32)),
        Case("100 tokens, window 1", "ragged", qkv(100, 100, 32, HALF, lead=(2,), window=1)),
        Case("333 tokens, window 50, bfloat16", "ragged", qkv(333, 333, 32, BRAIN, lead=(1,), window=50)),
        Case("70 tokens, window 1000", "ragged", qkv(70, 70, 32, HALF, lead=(2,), window=1000)),
        Case("1 token, window 7, float32", "ragged", qkv(1, 1, 32, lead=(3,), window=7)),
        Case("large scores", "hard", qkv(170, 170, 32, HALF, lead=(1,), scores="large", window=77)),
        Case("rising scores, float32", "hard", qkv(170, 170, 32, lead=(1,), scores="rising", offset=20.0, window=100)),
        Case("scores near -200", "hard", qkv(170, 170, 32, BRAIN, lead=(1,), scores="low", window=65)),
        Case("768 tokens, window 128", "performance", qkv(768, 768, 32, HALF, lead=(1,), window=128)),
    ],
    oracle=windowed,
    budget=lambda expected, dtype, arguments: kernel_budget(expected, dtype, arguments | {"causal": True}),
    gates=GATES,
    criteria=[
        Correct("ragged", 2),
        Correct("hard", 2, "large, rising, low scores"),
        Traffic(windows_bytes, 2, at_most=1.0, title="reads the keys of the window, and no more"),
        DotFlops(least_flops, 1, "multiplies in the window alone"),
    ],
    hints=[
        "Causal gives each row an end of what it sees. A window gives it a beginning, too. Where does the loop begin?",
        "sees = rows + 1, since Nq = Nk, and first = max(sees - window, 0). The loop goes from the first key of the tile's first row "
        "to the last key of its last row.",
        "start = max(tile * BLOCK_M + 1 - window, 0) // BLOCK_N * BLOCK_N, stop = min((tile + 1) * BLOCK_M, N), and the scores "
        "stay where (keys >= first) & (keys < sees). In the first tiles some rows see nothing yet: online_update copes.",
    ],
    mistakes=[RACE, unstored, *EDGES, UNDIVIDED, NAN, OVERFLOW, looks_like_tf32],
)

grouped_attention = Exercise(
    id="flash.grouped_attention",
    entry="grouped_attention",
    signature="grouped_attention(q: (Hq, Nq, D), k, v: (Hkv, Nk, D), contiguous, causal: bool) -> o: (Hq, Nq, D)",
    minutes=20,
    difficulty=4,
    lines=35,
    cases=[
        Case("4 heads for 2, 32 queries, 64 keys", "plain", grouped(2, 2, 32, 64, 32, causal=False)),
        Case("6 for 2, 13 queries, 50 keys, bfloat16", "ragged", grouped(2, 3, 13, 50, 32, BRAIN, causal=False)),
        Case("3 for 3, 70 queries, 33 keys", "ragged", grouped(3, 1, 70, 33, 32, causal=False)),
        Case("5 for 1, 1 query, 100 keys, float32", "ragged", grouped(1, 5, 1, 100, 32, SINGLE, causal=False)),
        Case("6 for 2, 30 queries and keys", "causal", grouped(2, 3, 30, 30, 32, causal=True)),
        Case("8 for 1, 20 queries, 90 keys", "causal", grouped(1, 8, 20, 90, 32, BRAIN, causal=True)),
        Case("6 for 2, 40 queries, 11 keys", "nothing", grouped(2, 3, 40, 11, 32, causal=True)),
        Case("large scores, causal", "hard", grouped(2, 3, 25, 170, 32, scores="large", causal=True)),
        Case("rising scores, float32", "hard", grouped(1, 3, 25, 170, 32, SINGLE, scores="rising", causal=False)),
        Case("16 heads for 2, 16 queries, 512 keys", "performance", grouped(2, 8, 16, 512, 32, causal=False)),
        Case("16 for 2, 16 queries, 512 keys, causal", "performance", grouped(2, 8, 16, 512, 32, causal=True)),
    ],
    oracle=only_o,
    budget=kernel_budget,
    gates=GATES,
    criteria=[
        Correct("ragged", 2),
        Correct("causal", 2, "causal, Nq != Nk too"),
        Correct("nothing", 1, "queries that see no key"),
        Correct("hard", 1, "large, rising scores"),
        Rereads(
            "k",
            lambda q, k, **_: math.ceil(q.shape[0] // k.shape[0] * q.shape[1] / TILE),
            2,
            "k is read once for each 64 rows of a group",
        ),
        Launches(1, 1),
    ],
    hints=[
        "A tile of queries is a tile of rows. Must they be of one head? All heads of a group read the same k and v.",
        "A group has group * Nq rows, and since q is contiguous they lie one after the other: row r is query r % Nq of head r // Nq "
        "of the group. The grid is (triton.cdiv(group * Nq, BLOCK_M), Hkv).",
        "q, o and the mask go by rows: q_ptr + (hkv * group * Nq + rows[:, None]) * D + dims. Only causal asks which query a row "
        "is: sees = min(max(rows % Nq + 1 + Nk - Nq, 0), Nk). A tile may hold rows of several heads, so let the loop go to "
        "tl.max(sees, 0).",
    ],
    mistakes=[RACE, unstored, OTHER_HEADS, *EDGES, UNDIVIDED, OVERFLOW, NAN, looks_like_tf32],
)


def cache_bytes(q, k, v, splits: int) -> int:
    """k and v, q and o once; a state of each head and split, written and read."""
    return k.nbytes + v.nbytes + 2 * q.nbytes + 2 * 4 * splits * q.shape[0] * (q.shape[1] + 2)


flash_decode = Exercise(
    id="flash.flash_decode",
    entry="flash_decode",
    signature="flash_decode(q: (Hq, D), k, v: (Hkv, Nk, D), contiguous, splits: int) -> o: (Hq, D)",
    minutes=30,
    difficulty=4,
    lines=60,
    cases=[
        Case("8 heads for 2, 256 keys, 4 splits", "plain", one_token(2, 4, 256, 32, 4)),
        Case("6 for 2, 333 keys, 3 splits, bfloat16", "ragged", one_token(2, 3, 333, 32, 3, BRAIN)),
        Case("3 for 3, 1000 keys, 7 splits", "ragged", one_token(3, 1, 1000, 32, 7)),
        Case("4 for 1, 300 keys, 4 splits, heads of 128, bfloat16", "ragged", one_token(1, 4, 300, 128, 4, BRAIN)),
        Case("20 for 1, 77 keys, 1 split, float32", "ragged", one_token(1, 20, 77, 32, 1, SINGLE)),
        Case("5 keys, 8 splits", "empty", one_token(2, 2, 5, 32, 8)),
        Case("130 keys, 16 splits", "empty", one_token(1, 4, 130, 32, 32, BRAIN)),
        Case("large scores", "hard", one_token(1, 4, 400, 32, 5, scores="large")),
        Case("rising scores, float32", "hard", one_token(1, 4, 400, 32, 5, SINGLE, scores="rising")),
        Case("scores near -200", "hard", one_token(2, 2, 400, 32, 6, BRAIN, scores="low")),
        Case("8 heads for 2, 2048 keys, 8 splits", "performance", one_token(2, 4, 2048, 32, 8)),
    ],
    oracle=decoded,
    budget=kernel_budget,
    gates=GATES,
    criteria=[
        Correct("ragged", 2),
        Correct("empty", 2, "splits without a key"),
        Correct("hard", 2, "large, rising, low scores"),
        Programs(16, 2, "performance"),
        Launches(2, 1),
        Traffic(cache_bytes, 2, at_most=1.05, title="k and v read once, for all heads of a group"),
    ],
    bonus=[
        Speed(
            "copy",
            Case("32 heads for 8, 65,536 keys, bfloat16", "speed", one_token(8, 4, 65536, 128, 32, BRAIN)),
            lambda q, k, v, **_: k.nbytes + v.nbytes,
            full=0.75,
            none=0.4,
            points=2,
        )
    ],
    hints=[
        "One query has one tile of rows, and would be one program's work. Who else could take a share of the keys, and what must "
        "each hand over so that the shares can be merged?",
        "First kernel, grid (splits, Hkv): the state (m, l, acc) of the group's rows after this share of the keys, stored as "
        "float32 of (Hq, splits) and (Hq, splits, D). Second kernel, grid (Hq,): merge the states of one head, all at once.",
        "To merge: m = tl.load(...) of all splits, top = tl.max(m), factor = tl.exp(m - top), o = tl.sum(factor[:, None] * acc, 0) / "
        "tl.sum(factor * l). Blocks have powers of two as sizes: load m with other=-inf, and l and acc with other=0. tl.dot wants 16 "
        "rows at least: BLOCK_M = max(16, triton.next_power_of_2(group)), with a mask rows < group.",
    ],
    mistakes=[RACE, unstored, OTHER_HEADS, *MERGES, OVERFLOW, looks_like_tf32],
)

EXERCISES = {
    exercise.id: exercise
    for exercise in (
        predictions,
        online_update,
        one_head,
        flash_attention_forward,
        sliding_window,
        grouped_attention,
        flash_decode,
    )
}
