"""One more token: attention over a cache, and over pages."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from course_lib.catalogue import say
from course_lib.criteria import EPS32, GATES, BuffersBelow, GradedTrial, Launches, Traffic, correct, roundings
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.attention.mistakes import nan_in
from course_lib.exercises.cases import BF16, operations
from course_lib.exercises.misconceptions import Misconception, failing
from course_lib.exercises.serving.cases import pages, text, turned
from course_lib.exercises.serving.criteria import ReadTogether


def one_query(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None = None) -> torch.Tensor:
    """Compute attention of q (B, Hq, D) over k and v (B, Hkv, n, D), in float64."""
    B, H, D = q.shape
    rows = q.double().view(B, k.shape[1], -1, D)
    times = D**-0.5 if scale is None else scale
    return (torch.softmax(rows @ k.double().mT * times, -1) @ v.double()).view(B, H, D)


def dealt_out(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """The slip that head h of q reads head h % Hkv of k and v."""
    heads = torch.arange(q.shape[1]).view(-1, k.shape[1]).T.flatten()
    return one_query(q[:, heads], k, v)[:, heads.argsort()]


Turn = Callable[..., torch.Tensor]  # (x of new tokens, cos, sin, their positions, slots) -> x turned, float64


def by_row(row: Callable[[torch.Tensor, int], torch.Tensor] = lambda at, slots: at) -> Turn:
    """Make the Turn by row(positions, slots) of the tables."""
    return lambda x, cos, sin, at, slots: turned(x, cos[row(at, slots)].double(), sin[row(at, slots)].double())


AS_MEANT = by_row()
AT_0 = by_row(lambda at, slots: at * 0)
ONE_LATE = by_row(lambda at, slots: (at - 1).clamp(min=0))
AT_SLOT = by_row(lambda at, slots: at % slots)


def the_other_way(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, at: torch.Tensor, slots: int) -> torch.Tensor:
    """Turn (a, b) into (a cos + b sin, b cos - a sin)."""
    return turned(x, cos[at].double(), -sin[at].double())


def neighbours(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, at: torch.Tensor, slots: int) -> torch.Tensor:
    """Turn neighbours as pairs, where the two halves are meant."""
    a, b = (x.double()[..., i::2] for i in (0, 1))
    return torch.stack([a * cos[at] - b * sin[at], b * cos[at] + a * sin[at]], -1).flatten(-2)


def full_pass(q, k, v, cos, sin, cache_k, cache_v, start: int) -> tuple[torch.Tensor, ...]:
    """Compute the output (B, Hq, 1, D) of each token from `start` on by a pass over the whole text; each sees the last `slots` tokens."""
    return slipped()(q, k, v, cos, sin, cache_k, cache_v, start)


def slipped(
    q: Turn = AS_MEANT,
    k: Turn = AS_MEANT,
    v: Turn = lambda x, cos, sin, at, slots: x.double(),
    own: bool = True,
    slot: Callable[[int, int], int] = lambda t, slots: t % slots,
    attend: Callable[..., torch.Tensor] = one_query,
) -> Callable[..., tuple[torch.Tensor, ...]]:
    """Make a pass over the whole text in which q, k and v of the tokens from `start` on are turned so.

    own: whether a token sees its own key, before a ring is full;  slot: (token, slots) -> where its k and v are stored
    """
    turns = {"q": q, "k": k, "v": v}

    def outputs(q, k, v, cos, sin, cache_k, cache_v, start: int) -> tuple[torch.Tensor, ...]:
        at, slots, rows = torch.arange(q.shape[2]), cache_k.shape[2], {}
        for name, x in {"q": q, "k": k, "v": v}.items():
            before = x[:, :, :start].double() if name == "v" else AS_MEANT(x[:, :, :start], cos, sin, at[:start], slots)
            new = turns[name](x[:, :, start:], cos, sin, at[start:], slots)
            rows[name] = torch.cat([before, new], 2).to(torch.float64 if name == "q" else x.dtype)
        tokens = dict(sorted((t % slots, t) for t in range(start)))  # of a ring, those that came last
        found = []
        for t in range(start, q.shape[2]):
            tokens[slot(t, slots)] = t
            seen = [token for place, token in tokens.items() if own or token != t or t >= slots]
            found.append(attend(rows["q"][:, :, t], rows["k"][:, :, seen], rows["v"][:, :, seen])[:, :, None])
        return tuple(found)

    return outputs


def reads_empty_slots(trials: Sequence[GradedTrial]) -> str:
    """Return a remark if a result holds NaN, and a kernel has read slots of a cache that are not filled yet; else ""."""
    for t in failing(trials):
        cache, tokens = t.inputs[-1]["cache_k"], t.inputs[-1]["q"].shape[2]
        filled = cache.nbytes // cache.shape[2] * min(tokens, cache.shape[2])
        footprints = [f for launch in t.evidence.launches for f in launch.footprints if f.nbytes == cache.nbytes]
        if any(f.read_distinct_bytes > filled for f in footprints) and any(nan_in(out) for _, out in t.calls):
            return say("serving.decode_step.reads_all_slots")
    return ""


def decode_budget(expected: torch.Tensor, dtype: torch.dtype, arguments: dict[str, Any]) -> torch.Tensor:
    """Return the error bound: a rounding of the result, of the probabilities and of q and k once they are rotated; float32 inside."""
    names = ("q", "k", "v") if "k" in arguments else ("q", "k_pages", "v_pages")
    q, k, v = (arguments[name].double().nan_to_num(0) for name in names)
    D, longest = q.shape[-1], k.numel()
    score = float(q.norm(dim=-1).max() * k.norm(dim=-1).max()) * D**-0.5
    inner = 0.0 if dtype == torch.float32 else torch.finfo(dtype).eps
    error = (2 * math.sqrt(longest) + 8 + 2 * score) * EPS32 + inner * (0.5 + score / math.sqrt(D))
    return roundings(expected, dtype, 1) + error * float(v.abs().max())


def token_bytes(q, k, cos, cache_k, start: int, **_: Any) -> int:
    """Count the bytes that one token moves at best: the cached k and v once, and q, k, v and the result of the token."""
    kept, e = min(start + 1, cache_k.shape[2]), k.element_size()
    of_token = 4 * q[:, :, 0].numel() + 4 * k[:, :, 0].numel()
    return e * (2 * k[:, :, 0].numel() * kept + of_token) + 8 * k.shape[0] * k.shape[1] * cos.shape[1]


decode_step = Exercise(
    id="serving.decode_step",
    signature="decode_step(q: (B, Hq, 1, D), k, v: (B, Hkv, 1, D), cos, sin: (positions, D / 2), cache_k, cache_v: (B, Hkv, slots, D), "
    "position) -> (B, Hq, 1, D)",
    called="token by token",
    effort=Effort(minutes=35, lines=50, difficulty=4),
    cases=[
        Case("2 texts, 4 heads for 2, tokens 5 to 7, not turned", "plain", text(2, 2, 2, 8, 16, 5, 16, turns=False)),
        Case("tokens 6 to 9", "positions", text(2, 2, 2, 10, 16, 6, 16)),
        Case("3 texts, 3 heads, from the first token on", "ragged", text(3, 3, 1, 4, 32, 0, 5)),
        Case("8 heads for 1, tokens 300 and 301", "ragged", text(1, 1, 8, 302, 16, 300, 310)),
        Case("a ring of 6, tokens 4 to 13", "ring", text(2, 2, 2, 14, 16, 4, 6)),
        Case("a ring of 80, tokens 200 and 201", "ring", text(1, 2, 1, 202, 16, 200, 80)),
        Case("2 texts, tokens 90 and 91, bfloat16", "half", text(2, 2, 2, 92, 32, 90, 128, BF16)),
        Case("2 texts, 8 heads for 2, token 1023, bfloat16", "performance", text(2, 2, 4, 1024, 64, 1023, 1024, BF16)),
    ],
    oracle=full_pass,
    budget=decode_budget,
    allows=operations("copy_ clone"),
    gates=GATES,
    criteria=[
        *correct("serving.decode_step", {"positions": 3, "ragged": 2, "ring": 2, "half": 1}),
        Traffic(token_bytes, 3, at_most=1.2, title=say("serving.decode_step.title_traffic"), programs=0),
        ReadTogether(32, 1, say("serving.decode_step.title_read_together")),
        # the check keeps its inputs as they are, and hands over copies of the two caches
        BuffersBelow(lambda cache_k, **_: 2.25 * cache_k.nbytes, 1, say("serving.decode_step.title_buffers_below")),
        Launches(3, 1),
    ],
    mistakes=[
        reads_empty_slots,
        Misconception(slipped(q=AT_0), say("serving.decode_step.q_not_turned"), place=-1, each=True),
        Misconception(slipped(k=AT_0), say("serving.decode_step.k_not_turned"), place=-1, each=True),
        Misconception(slipped(AT_0, AT_0), say("serving.decode_step.position_0_for_every_token")),
        Misconception(slipped(ONE_LATE, ONE_LATE), say("serving.decode_step.positions_one_late")),
        Misconception(
            [slipped(AT_SLOT, AT_SLOT), slipped(q=AT_SLOT), slipped(k=AT_SLOT)],
            say("serving.decode_step.turned_by_the_slot"),
            strict=True,
        ),
        Misconception(slipped(v=AS_MEANT), say("serving.decode_step.v_is_turned")),
        Misconception(
            [slipped(the_other_way, the_other_way), slipped(q=the_other_way), slipped(k=the_other_way)],
            say("serving.rotary.the_other_way"),
        ),
        Misconception(
            [slipped(neighbours, neighbours), slipped(q=neighbours), slipped(k=neighbours)],
            say("serving.rotary.neighbours_as_pairs"),
        ),
        Misconception(slipped(own=False), say("serving.decode_step.its_own_key_is_not_seen")),
        Misconception(
            slipped(slot=lambda t, slots: min(t, slots - 1)), say("serving.decode_step.the_last_slot_for_all")
        ),
        Misconception(slipped(attend=dealt_out), say("serving.attention_for.heads_dealt_out_in_turn")),
        Misconception(slipped(attend=partial(one_query, scale=1.0)), say("serving.decode_step.scale_forgotten")),
    ],
)

# ------------------------------------------------------------------------------------------------ pages


def gathered(q, k_pages, v_pages, table, lengths) -> torch.Tensor:
    """Compute attention over the pages of each text, gathered in order."""
    found = []
    for b, n in enumerate(lengths.tolist()):
        pages = table[b, : -(-n // k_pages.shape[2])].long()
        k, v = (x[pages].transpose(0, 1).flatten(1, 2)[None, :, :n] for x in (k_pages, v_pages))
        found.append(one_query(q[b : b + 1], k, v))
    return torch.cat(found)


def in_order_of_memory(q, k_pages, v_pages, table, lengths) -> torch.Tensor | None:
    """Compute attention as if each text's pages lay one after the other in memory, without the page table."""
    most = table.shape[1]
    if most * len(lengths) > k_pages.shape[0]:
        return None
    straight = torch.arange(most * len(lengths)).view(len(lengths), most)
    found = gathered(q, k_pages, v_pages, straight, lengths)
    return None if found.isnan().any() else found


def of_whole_pages(q, k_pages, v_pages, table, lengths) -> torch.Tensor | None:
    """Compute attention without a text's last page if that is not full; None where all are full, or are the only ones."""
    page = k_pages.shape[2]
    taken = torch.where(lengths < page, lengths, lengths // page * page)
    return None if torch.equal(taken, lengths) else gathered(q, k_pages, v_pages, table, taken)


def of_one_length(q, k_pages, v_pages, table, lengths) -> torch.Tensor | None:
    """Compute attention as if all texts were as long as the first; None where they are, or where that needs pages that they do not have."""
    page = k_pages.shape[2]
    if bool((lengths == lengths[0]).all()) or bool((-(-lengths // page) < -(-lengths[0] // page)).any()):
        return None
    return gathered(q, k_pages, v_pages, table, lengths[:1].expand(len(lengths)))


def page_bytes(q, k_pages, lengths, **_: Any) -> int:
    """Count the bytes of k and v of the tokens that are there, and of q and the result."""
    of_token = k_pages.shape[1] * k_pages.shape[3] * k_pages.element_size()
    return 2 * of_token * int(lengths.sum()) + 2 * q.nbytes


paged_decode = Exercise(
    id="serving.paged_decode",
    signature="paged_decode(q: (B, Hq, D), k_pages, v_pages: (pages, Hkv, page, D), table: (B, n), lengths: (B,)) -> (B, Hq, D)",
    effort=Effort(minutes=20, lines=35, difficulty=3),
    cases=[
        Case("2 texts of 32 tokens in pages of 16", "plain", pages(2, 2, 2, (32, 32), 16, 16, spare=0)),
        Case("3 texts of 1, 16 and 40 tokens", "ragged", pages(3, 1, 4, (1, 16, 40), 32, 16)),
        Case("2 texts of 33 and 100 tokens, pages of 32", "ragged", pages(2, 3, 1, (33, 100), 16, 32)),
        Case("one text of 7 tokens, 20 pages that are not its", "ragged", pages(1, 2, 8, (7,), 16, 16, spare=20)),
        Case("3 texts, bfloat16", "half", pages(3, 2, 2, (50, 17, 3), 32, 16, BF16)),
        Case(
            "8 texts of 40 to 500 tokens",
            "performance",
            pages(8, 4, 2, (500, 40, 320, 77, 128, 256, 450, 199), 32, 16, BF16),
        ),
    ],
    oracle=gathered,
    budget=decode_budget,
    allows=operations("clone index index_select gather _to_copy clamp"),
    gates=GATES,
    criteria=[
        *correct("serving.paged_decode", {"ragged": 3, "half": 1}),
        Traffic(page_bytes, 3, at_most=1.1, title=say("serving.paged_decode.title_traffic"), programs=8),
        BuffersBelow(lambda k_pages, **_: k_pages.nbytes / 4, 1, say("serving.paged_decode.title_buffers_below")),
    ],
    mistakes=[
        Misconception(in_order_of_memory, say("serving.paged_decode.pages_as_they_lie"), gathered),
        Misconception(of_whole_pages, say("serving.paged_decode.only_whole_pages")),
        Misconception(of_one_length, say("serving.paged_decode.the_length_of_the_first_text")),
        lambda trials: (
            say("serving.paged_decode.lengths_rounded_up")
            if any(nan_in(out) for t in failing(trials)[:1] for _, out in t.calls)
            else ""
        ),
    ],
)

EXERCISES = (decode_step, paged_decode)
