"""What goes wrong with a forward pass, and how to tell by the results."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from course_lib.cases import BRAIN, HALF, SINGLE
from course_lib.criteria import Judged
from course_lib.exercise import Evidence, Trial
from course_lib.exercises.attention.mistakes import computes, has_nan, part, results, shown
from course_lib.exercises.attention.oracles import Forward
from course_lib.exercises.flash.oracles import attend, decoded, means, visible, windowed
from course_lib.mistakes import Mistake, faulty, raised

TF32 = (
    'Float32 results have the precision of TF32: write tl.dot(..., input_precision="ieee"), in all products. A GPU rounds the '
    "blocks of a float32 dot to 10 bits after the point unless you ask it not to."
)


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
    return TF32 if like_it and all(x < 0.02 for x in off[HALF] + off[BRAIN]) else ""


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
                    if x.shape != part(t.exercise.oracle(**t.inputs[-1]), place).shape:
                        return ""  # of another shape: that says all
                    stored = stored_bytes(t.evidence, label) // x.element_size()
                    if stored < x.numel():
                        return (
                            f"{t.case.name}: kernels stored {stored:,} of {x.numel():,} elements of a result: does the grid cover the "
                            "last, partial tile (triton.cdiv), and each head?"
                        )
    return ""


def copied(trials: Sequence[Trial]) -> str:
    """A sentence, if torch copied a view."""
    if any("a copy (.clone or .contiguous)" in t.evidence.refused for t in trials):
        return (
            ".reshape and .flatten copy, too, where no view has that shape. x[None, None].flatten(0, -4) is a view (B, H, N, D) of "
            "every input here."
        )
    return ""


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
RACE = faulty(
    "race", "Two programs store to the same place: do tile and head come from the program's number, each once?"
)
