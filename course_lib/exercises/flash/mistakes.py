"""What goes wrong with a forward pass, and how to tell by the results."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from course_lib.cases import BRAIN, HALF, SINGLE
from course_lib.criteria import Judged
from course_lib.exercise import Evidence
from course_lib.exercises.attention.mistakes import (
    AT_THE_TOP_LEFT,
    THE_OTHER_WAY,
    WITHOUT_MASK,
    WITHOUT_SCALE,
    Wrong,
    computes,
    has_nan,
    misshapen,
    part,
    results,
    shown,
)
from course_lib.exercises.attention.oracles import Forward
from course_lib.exercises.flash.oracles import attend, decoded, means, visible, windowed
from course_lib.mistakes import Mistake, as_tf32, in_tf32, racing, raised, torch_did

TILES = (16, 32, 64, 128)  # of keys: those that a kernel may have
TF32 = (
    'Float32 results have the precision of TF32: write tl.dot(..., input_precision="ieee"), in all products. A GPU rounds the '
    "blocks of a float32 dot to 10 bits after the point unless you ask it not to."
)


def looks_like_tf32(trials: Sequence[Judged]) -> str:
    """A sentence, if kernels multiply in TF32, and the errors of float32 results point where those of it do, in the scores, in the
    values, or in both."""
    if not in_tf32(shown(trials)):
        return ""
    sums = torch.zeros(3, 3, dtype=torch.float64)  # of these: seen times guessed, and the squares of each
    for call, found in results(trials):
        right = part(_oracle_of(call)(**call), 0)
        if call["v"].dtype != SINGLE or found.shape != right.shape:
            continue
        seen = across(found.double() - right, right)
        for i, guess in enumerate(with_tf32(**call)):
            guessed = across(guess - right, right)
            sums[i] += torch.stack([(seen * guessed).sum(), seen.square().sum(), guessed.square().sum()]).cpu()
    along, seen, guessed = sums.unbind(1)
    return TF32 if bool((along > 0.7 * (seen * guessed).sqrt()).any()) else ""  # of a NaN, or of nothing, it is not


def across(error: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """The part of an error that is no factor of a row: what divides a row by a wrong number leaves none."""
    size = right.square().sum(-1, keepdim=True)
    return error - (error * right).sum(-1, keepdim=True) / torch.where(size == 0, 1, size) * right


def with_tf32(**call: Any) -> list[torch.Tensor]:
    """o, if the product that makes the scores is TF32, if that with the values is, and if both are."""
    rounded = call | {name: as_tf32(call[name]) for name in "qk" if name in call}
    found = []
    for given, values in ((rounded, False), (call, True), (rounded, True)):
        s, v = scored(**given)
        p, l = weights(s)
        found.append(of_rows((as_tf32(p) @ as_tf32(v) if values else p @ v) / l[..., None], call))
    return found


def rounded_result(trials: Sequence[Judged]) -> str:
    """A sentence, if float32 results hold numbers of half precision alone, and are nearly right."""
    for call, found in results(trials):
        right = part(_oracle_of(call)(**call), 0)
        if call["v"].dtype != SINGLE or found.shape != right.shape or (found - right).norm() > 0.01 * right.norm():
            continue
        for dtype in (BRAIN, HALF):  # which has most numbers of the first as well
            if bool(found.any()) and torch.equal(found, found.to(dtype).to(found.dtype)):
                return f"o is rounded to {str(dtype)[6:]} before the store. o.to(o_ptr.dtype.element_ty) is what o was allocated as."
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
                    if misshapen(out, t.exercise.oracle(**t.inputs[-1])):
                        return ""
                    stored = stored_bytes(t.evidence, label) // x.element_size()
                    if stored < x.numel():
                        return (
                            f"{t.case.name}: kernels stored {stored:,} of {x.numel():,} elements of a result: does the grid cover the "
                            "last, partial tile (triton.cdiv), and each head?"
                        )
    return ""


copied = torch_did(
    ["clone"],
    ".reshape and .flatten copy, too, where no view has that shape. x[None, None].flatten(0, -4) is a view (B, H, N, D) of "
    "every input here.",
)


def in_bounds(look: Mistake) -> Mistake:
    """What `look` says, unless kernels were at fault: a NaN that came from elsewhere in memory is nobody's arithmetic."""
    return lambda trials: "" if any(t.evidence.faults for t in shown(trials)) else look(trials)


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


def scored(
    v, q=None, k=None, s=None, causal=False, scale=None, window=None, splits=None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores (..., Nq, Nk) in float64, -inf where a query does not see a key, and the values (..., Nk, D) of each row's head."""
    if s is not None:
        return s.double(), v.double()
    q = q[:, None] if splits else q
    mask = visible(q.shape[-2], k.shape[-2], causal or bool(window), window, q.device)
    return under(mask, q, k, scale), of_each_head(q, v)


def exponentials(s: torch.Tensor) -> torch.Tensor:
    """exp(s - m); zeros where nothing is seen."""
    m = s.amax(-1, keepdim=True)
    return torch.exp(s - torch.where(m == -math.inf, 0, m))


def weights(s: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(p, l): exp(s - m), and the sum of each row; where nothing is seen, zeros and 1."""
    p = exponentials(s)
    l = p.sum(-1)
    return p, torch.where(l == 0, 1, l)


def of_rows(o: torch.Tensor, call: dict[str, Any]) -> torch.Tensor:
    """o (..., Nq, D) as a call wants it: of one token, without its dimension."""
    return o[..., 0, :] if "splits" in call else o


def instead(change: Callable[[torch.Tensor], torch.Tensor] = lambda s: s, **others: Any) -> Callable[..., Forward]:
    """(o, lse) of these arguments in place of a call's own, and of scores changed so."""

    def wrong(**call):
        s, v = scored(**(call | others))
        s = change(s)
        return Forward(of_rows(torch.softmax(s, -1).nan_to_num(0) @ v, call), s.logsumexp(-1))

    return wrong


def edge(at: Callable[[int, int], int], clamped: bool = True) -> Callable[..., torch.Tensor | None]:
    """o, if query i saw the keys up to i + at(Nq, Nk), where that is not Nk - Nq. Not clamped: keys that are not there, too, whose
    scores and values are 0."""

    def wrong(q, k, v, causal=False, scale=None, **_):
        nq, nk = q.shape[-2], k.shape[-2]
        if not causal or at(nq, nk) == nk - nq:
            return None
        k, v = (x if clamped else torch.nn.functional.pad(x, (0, 0, 0, nq)) for x in (k, v))
        mask = torch.ones(nq, k.shape[-2], dtype=torch.bool, device=q.device).tril(at(nq, nk))
        return softened(mask, q, k, v, scale)

    return wrong


def softened(mask: torch.Tensor, q, k, v, scale: float | None = None, nothing: float = 0.0) -> torch.Tensor:
    """o under that mask; `nothing` where a query sees nothing."""
    return torch.softmax(under(mask, q, k, scale), -1).nan_to_num(nothing) @ of_each_head(q, v)


def shifted(by: int) -> Callable[..., torch.Tensor | None]:
    """o, if the edge of a causal mask, or the old end of a window, lay so many keys further out."""

    def wrong(q, k, v, causal=False, scale=None, window=None, **_):
        if window is None:
            return edge(lambda nq, nk: nk - nq + by)(q, k, v, causal, scale)
        return softened(visible(q.shape[-2], k.shape[-2], True, window + by, q.device), q, k, v)

    return wrong


def without_its_own(nothing: float) -> Callable[..., torch.Tensor]:
    """o, if a window ended one key before its query's own; `nothing` in the first row, which then sees nothing."""
    return lambda q, k, v, window: softened(
        visible(q.shape[-2], k.shape[-2], True, window, q.device).tril(-1), q, k, v, nothing=nothing
    )


def in_the_tiles_of_a_walk(bm: int, bn: int) -> Callable[..., torch.Tensor]:
    """o, if the walk of each bm queries begins with their window, and no mask says so: in tiles of bn keys."""

    def wrong(q, k, v, window):
        n = q.shape[-2]
        places = torch.arange(n, device=q.device)
        start = (places // bm * bm - window + 1).clamp(min=0) // bn * bn
        return softened((places >= start[:, None]) & (places <= places[:, None]), q, k, v)

    return wrong


def rows_as_queries(trials: Sequence[Judged]) -> str:
    """A sentence, if all that is wrong are causal results, and of each group all heads but the first."""
    off = []
    for call, found in results(trials):
        right, group = part(_oracle_of(call)(**call), 0), call["q"].shape[0] // call["k"].shape[0]
        if not call["causal"] or found.shape != right.shape or group == 1:
            return ""
        error = (found - right).flatten(1).norm(dim=1) / right.flatten(1).norm(dim=1)
        off.append(bool((error[::group] < 0.02).all() and (error > 0.1).any()))
    return ROWS_AS_QUERIES if off and all(off) else ""


def few_programs(trials: Sequence[Judged]) -> str:
    """A sentence, if results are wrong, and the first kernel had fewer programs than there are shares of all heads."""
    for t in shown(trials):
        heads, splits, launches = t.inputs[-1]["k"].shape[0], t.inputs[-1]["splits"], t.evidence.launches
        if len(launches) == 2 and launches[0].programs < heads * splits:
            return (
                f"{t.case.name}: `{launches[0].kernel}` has {launches[0].programs} programs, for {splits} shares of {heads} heads of k "
                "and v: is its grid (splits, Hkv)?"
            )
    return ""


def infinite(trials: Sequence[Judged]) -> str:
    """A sentence, if sums of many values ran over."""
    over = any(bool(o.isinf().any()) for t in trials if t.case.group == "half" for _, o in results([t]))
    return "inf: the sums of a share exceed what float16 can hold, 65504. Its m, l and acc are float32." if over else ""


def first_keys(q, k, v, causal=False, **more: Any) -> torch.Tensor | None:
    """o of the first Nq keys, where there are more."""
    n = q.shape[-2]
    return instead()(q=q, k=k[..., :n, :], v=v[..., :n, :], **more).o if n < k.shape[-2] and not causal else None


def other_keys(sides: Callable[[int, int], int]) -> list[Callable[..., torch.Tensor | None]]:
    """o of as many keys as sides(Nk, tile) says, for tiles of several sizes: those that are not there have scores and values of 0."""

    def of_tile(tile: int) -> Callable[..., torch.Tensor | None]:
        def wrong(q, k, v, **more: Any) -> torch.Tensor | None:
            nk = k.shape[-2]
            keys = sides(nk, tile)
            if more.get("causal") or more.get("window") or more.get("splits") or keys in (0, nk):
                return None
            k, v = (torch.nn.functional.pad(x, (0, 0, 0, keys - nk)) for x in (k, v))  # or cut, if that is below 0
            return instead()(q=q, k=k, v=v, **more).o

        return wrong

    return [of_tile(tile) for tile in TILES]


def in_tiles(
    acc_too: bool = True, l_too: bool = True, rounded: bool = False
) -> list[Callable[..., torch.Tensor | None]]:
    """o of a walk along tiles of several sizes. acc_too, l_too: whether that sum is multiplied when the maximum grows; rounded: acc is
    rounded to v's dtype after each tile."""

    def of_tile(tile: int) -> Callable[..., torch.Tensor | None]:
        def wrong(**call: Any) -> torch.Tensor | None:
            s, v = scored(**call)
            dtype = call["v"].dtype
            if call.get("window") or call.get("splits") or s.shape[-1] <= tile or rounded and dtype == SINGLE:
                return None

            def half(x: torch.Tensor) -> torch.Tensor:
                return x.to(dtype).double() if rounded else x

            m, l = torch.full_like(s[..., 0], -math.inf), torch.zeros_like(s[..., 0])
            acc = v.new_zeros(*s.shape[:-1], v.shape[-1])
            for of_keys, values in zip(s.split(tile, -1), v.split(tile, -2), strict=True):
                top = torch.maximum(m, of_keys.amax(-1))
                base = torch.where(top == -math.inf, 0, top)
                p, shrink = torch.exp(of_keys - base[..., None]), torch.exp(m - base)
                l = (l * shrink if l_too else l) + p.sum(-1)
                acc = half((acc * shrink[..., None] if acc_too else acc) + half(p) @ values)
                m = top
            o = acc / torch.where(l == 0, 1, l)[..., None]
            return o if "s" in call else o.to(dtype).double()  # online_update's is float32

        return wrong

    return [of_tile(tile) for tile in TILES]


def swapped_heads(*names: str) -> Callable[..., Any]:
    """o, if batch and head are swapped where these of q, k, v and o are read or stored."""

    def turned(x: torch.Tensor, name: str) -> torch.Tensor:
        return x.transpose(0, 1) if name in names else x

    def wrong(q, k, v, **more: Any) -> torch.Tensor | None:
        if q.dim() != 4 or q.shape[0] != q.shape[1] or q.shape[:2] != k.shape[:2]:
            return None
        return turned(attend(turned(q, "q"), turned(k, "k"), turned(v, "v"), **more).o, "o")

    return wrong


def undivided(**call: Any) -> torch.Tensor:
    """The accumulator in place of o: sums of exp(s - m) v."""
    s, v = scored(**call)
    return of_rows(exponentials(s) @ v, call)


def lse_by(combine: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Callable[..., tuple[None, torch.Tensor]]:
    """lse, made of m and l so."""

    def wrong(**call):
        s, _ = scored(**call)
        return None, combine(s.amax(-1), exponentials(s).sum(-1))

    return wrong


def lost(below: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., torch.Tensor]:
    """o, if all terms of these rows of s ran under."""
    return lambda s, v: means(s, v).o.masked_fill(below(s)[:, None], 0)


def far_below_its_neighbours(s: torch.Tensor, rows: int = 32) -> torch.Tensor:
    """Which rows have an exp of 0 in float32, relative to the largest score of the rows that a program has."""
    return torch.cat([top < top.max() - 104 for top in s.amax(1).split(rows)])


def low_behind_an_empty_tile(s: torch.Tensor, tile: int = 64) -> torch.Tensor:
    """Which rows see nothing in their first tile, and have an exp of 0 relative to 0."""
    return (s[:, :tile].amax(1) == -math.inf) & (s.amax(1) < -104)


def of_rounded_weights(sums_too: bool, tile: int = 64) -> Callable[..., tuple[None, torch.Tensor] | None]:
    """lse, if l adds up weights that are rounded to v's dtype, tile by tile; sums_too: and so is the sum of each tile."""

    def wrong(s, v):
        m, l = torch.full_like(s[:, 0], -math.inf), torch.zeros_like(s[:, 0])
        for of_tile in s.split(tile, 1):
            top = torch.maximum(m, of_tile.amax(1))
            base = torch.where(top == -math.inf, 0, top)
            p = torch.exp(of_tile - base[:, None]).to(v.dtype).float().sum(1)
            m, l = top, l * torch.exp(m - base) + (p.to(v.dtype).float() if sums_too else p)
        return (None, (m + l.log()).double()) if v.dtype != SINGLE else None

    return wrong


def of_rounded_scores(scaled: bool) -> Callable[..., Forward | None]:
    """(o, lse), if the products, or the products times the scale, are rounded to half precision."""

    def wrong(q, **more):
        factor = more.pop("scale", None) or q.shape[-1] ** -0.5

        def rounded(s: torch.Tensor) -> torch.Tensor:
            return (s * factor).to(q.dtype).double() if scaled else s.to(q.dtype).double() * factor

        return instead(rounded, scale=1.0)(q=q, **more) if q.dtype != SINGLE else None

    return wrong


def with_strides_of(q, k, v, causal=False, scale=None) -> tuple[None, torch.Tensor] | None:
    """lse as it reads if it was stored row by row into torch.empty_like(q[..., 0])."""
    lse = torch.empty_like(q[..., 0], dtype=torch.float64)
    if lse.is_contiguous():
        return None
    lse.as_strided((lse.numel(),), (1,)).copy_(attend(q, k, v, causal, scale).lse.flatten())
    return None, lse


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


def slip(wrong: Wrong, sentence: str, place: int = 0, each: bool = False, times: float = 10) -> Mistake:
    """`sentence`, if some result at that place is what `wrong` of its arguments is, or one of several, and not what is right; each: if
    each is."""
    return computes(
        wrong, sentence, unlike=lambda **call: _oracle_of(call)(**call), place=place, each=each, times=times
    )


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
UNSCALED = slip(instead(scale=1.0), WITHOUT_SCALE)
WITHOUT_WINDOW = [
    slip(
        instead(window=None, causal=True),
        "These are the results without the window: of all keys up to the query's own.",
    ),
    *(
        slip(
            in_the_tiles_of_a_walk(bm, bn),
            "The walk begins with the window, and no mask does: in its first tile are keys that are too old.",
        )
        for bm in (16, 32, 64, 128)
        for bn in (16, 32, 64, 128)
    ),
]
TOP_LEFT = slip(edge(lambda nq, nk: 0), AT_THE_TOP_LEFT)
MASKS = [
    *(slip(edge(lambda nq, nk: nq - nk, clamped), THE_OTHER_WAY, each=True) for clamped in (True, False)),
    slip(lambda causal=False, **call: instead()(**call) if causal else None, WITHOUT_MASK, each=True),
    TOP_LEFT,
]
FIRST_KEYS = slip(first_keys, "Only the first Nq keys are read. The walk along the keys ends at Nk, the length of k.")
ROWS_AS_QUERIES = "The mask takes a row of the group for a query. Row r is query r % Nq of its head."
POWERS_OF_2 = slip(
    instead(lambda s: s * math.log(2)),
    "The weights are powers of 2 here: tl.exp2(x) is 2**x. exp(x) is tl.exp2(x * 1.4426950408889634), the factor being log2 e.",
    times=30,  # a scale of (2D)^-0.5 is 0.7071 of the right one, and ln 2 is 0.6931
)
BASES = [
    slip(
        lse_by(lambda m, l: (m + l.log()) / math.log(2)),
        "lse is in base 2: times ln 2, which is 0.6931471805599453.",
        place=1,
        each=True,
    ),
    *(
        slip(
            lse_by(mixed),
            "One term of lse is in base 2, the other in base e. It is m + tl.log(l), or (m + tl.log2(l)) * ln 2 where m is in base 2.",
            place=1,
            each=True,
        )
        for mixed in (lambda m, l: m + l.log2(), lambda m, l: m / math.log(2) + l.log())
    ),
    slip(
        lse_by(lambda m, l: l.log()),
        "lse lacks m: l is relative to the maximum, so it is m + log(l).",
        place=1,
        each=True,
    ),
]
LOST = [
    slip(
        lost(far_below_its_neighbours),
        "Rows far below their neighbours come out as 0. Each row has a maximum of its own: tl.max(s, 1), not of all s.",
        each=True,
    ),
    slip(
        lost(low_behind_an_empty_tile),
        "A row that has seen nothing yet keeps m = -inf: what stands in for it inside exp, 0, is not the new m.",
        each=True,
    ),
]
ROUNDED_SUMS = [
    slip(of_rounded_weights(too), "l adds up rounded weights: sum p before rounding it to v's dtype.", place=1)
    for too in (False, True)
]
ROUNDED_SCORES = [
    slip(
        of_rounded_scores(scaled),
        "The scores were rounded to half precision: keep what tl.dot gives, float32.",
        place=1,
    )
    for scaled in (False, True)
]
ROUNDED_ACCUMULATOR = slip(
    in_tiles(rounded=True),
    "acc was rounded to half precision after each tile, and what is small beside it is lost: keep it in float32, and round o alone.",
)
STRIDED_LSE = slip(
    with_strides_of,
    "lse is not contiguous here: torch.empty_like keeps the order of q's strides. Allocate it with torch.empty(q.shape[:-1], ...).",
    place=1,
)
ONE_TOO_FEW = "Each query sees one key too few."
OWN_KEY = [slip(without_its_own(nothing), f"{ONE_TOO_FEW} Its own is missing.") for nothing in (math.nan, 0.0)]
EDGES = [
    slip(shifted(-1), ONE_TOO_FEW),
    slip(shifted(1), "Each query sees one key too many."),
]
OTHER_SCALE = slip(
    lambda scale=None, **call: None if scale is None else attend(**call),
    "These are the results with a scale of D**-0.5, where another was given.",
    each=True,
)
MISSING_KEYS = slip(
    other_keys(lambda nk, tile: -(-nk // tile) * tile),
    "Keys that are not there have a score of 0 here, and so a share of each row: their scores must be -inf.",
    each=True,
)
LAST_KEYS = slip(
    other_keys(lambda nk, tile: nk // tile * tile),
    "The last, partial tile of keys is left out: the loop goes on until all Nk are there, range(0, Nk, BLOCK_N).",
    each=True,
)
NOT_RESCALED = [
    slip(
        in_tiles(**how),
        f"When the maximum grows, {what}: multiply by exp(m - m_new). Both are relative to m.",
        each=True,
    )
    for what, how in (
        ("l is multiplied, and acc is not", {"acc_too": False}),
        ("acc is multiplied, and l is not", {"l_too": False}),
        ("neither acc nor l is multiplied", {"acc_too": False, "l_too": False}),
    )
]
SWAPPED_HEADS = [
    slip(
        swapped_heads(*names),
        f"Batches and heads are swapped in the offsets of {' and '.join(names)}: a program's batch goes with stride(0), its head with "
        "stride(1).",
    )
    for names in ("q", "k", "v", "o", "kv")
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
SEEN_NOTHING = (
    "NaN: where a row has seen nothing yet, m is -inf, and -inf - -inf is not a number; at the end l may be 0."
)
NAN = in_bounds(has_nan(["nothing", "causal", "late"], SEEN_NOTHING))
NAN_IN_WINDOW = in_bounds(has_nan(["plain", "ragged"], SEEN_NOTHING))
NAN_AT_ONCE = in_bounds(
    has_nan(["plain"], "NaN: is it exp(m - m_new), and not the other way? m starts at -inf, and exp(inf) * 0 is NaN.")
)
OVERFLOW = in_bounds(
    has_nan(["hard"], "NaN: an exp ran over, or all terms of a sum under. Subtract the running maximum before exp.")
)
VIEWS = [
    raised(
        "view size is not compatible",
        "Some inputs here are views, which .view cannot reshape so and .reshape copies. x[None, None].flatten(0, -4) is a view of each.",
    ),
    copied,
]
RACE = racing("Two programs store to the same place: do tile and head come from the program's number, each once?")
