"""The cache of keys and values, and one more token."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from course_lib.criteria import BuffersBelow, Correct, Judged
from course_lib.exercise import Case, Exercise
from course_lib.exercises.cases import BF16, operations
from course_lib.exercises.model.cases import tokens
from course_lib.exercises.model.criteria import Moves
from course_lib.exercises.slips import Slip, shown
from course_lib.mistakes import Mistake

# ------------------------------------------------------------------------------------------------ the cache


def kept(x: torch.Tensor, slots: int, so_far: int) -> torch.Tensor:
    """What a cache of `slots` places holds after so many tokens of x (B, H, N, D): token t in slot t % slots."""
    first = max(0, so_far - slots)
    found = torch.empty_like(x[:, :, : so_far - first])
    for t in range(first, so_far):
        found[:, :, t % slots] = x[:, :, t]
    return found


def appended(k: torch.Tensor, v: torch.Tensor, slots: int, pieces: Sequence[int]) -> tuple[torch.Tensor, ...]:
    """k and v in the cache after each piece; where it is a ring, after the last."""
    ends = [sum(pieces[: i + 1]) for i in range(len(pieces))]
    ends = ends if slots >= k.shape[2] else ends[-1:]
    return tuple(kept(x, slots, end).double() for end in ends for x in (k, v))


def in_order(k: torch.Tensor, v: torch.Tensor, slots: int, pieces: Sequence[int]) -> tuple[torch.Tensor, ...] | None:
    """The slip of a ring whose tokens lie from the oldest to the newest."""
    first = k.shape[2] - slots
    return tuple(x[:, :, first:].double() for x in (k, v)) if first > 0 and first % slots else None


def of_a_length(length: Callable[..., int], says: str) -> Mistake:
    """Make the mistake that the last k has so many tokens, and another number is right."""

    def look(trials: Sequence[Judged]) -> str:
        for trial in shown(trials):
            for call, out in zip(trial.inputs, trial.evidence.outputs, strict=False):
                k = out[-2] if isinstance(out, list) and len(out) > 1 else None
                if isinstance(k, torch.Tensor) and k.dim() == 4 and min(call["k"].shape[2], call["slots"]) != k.shape[2]:
                    if k.shape[2] == length(call["k"], call["slots"], call["pieces"]):
                        return says
        return ""

    return look


kv_cache = Exercise(
    id="model.kv_cache",
    entry="KVCache",
    signature="KVCache(B, Hkv, slots, D, dtype, device).append(k: (B, Hkv, n, D), v) -> k, v so far: (B, Hkv, min(length, slots), D), views",
    called="through a cache",
    minutes=15,
    difficulty=2,
    lines=10,
    cases=[
        Case("2 texts, a prompt of 5, then 3 tokens", "plain", tokens(2, 2, (5, 1, 1, 1), 8, 16)),
        Case("a prompt in two pieces, then tokens", "ragged", tokens(1, 3, (4, 3, 1, 2), 16, 10)),
        Case("the last place is taken, too", "ragged", tokens(3, 1, (1, 1, 1, 1), 8, 4, BF16)),
        Case("a ring of 4, 7 tokens", "ring", tokens(2, 2, (2, 1, 1, 1, 1, 1), 8, 4)),
        Case("a ring of 5, 13 tokens, two at a time", "ring", tokens(1, 2, (3, 2, 2, 2, 2, 2), 8, 5)),
        Case("a ring of 6, a prompt of 20", "long", tokens(1, 2, (20, 1), 8, 6)),
        Case("a prompt of 64, then 8 tokens", "performance", tokens(2, 4, (64, *[1] * 8), 32, 128)),
        Case("a ring of 64, a prompt of 64, then 8 tokens", "full ring", tokens(2, 4, (64, *[1] * 8), 32, 64)),
    ],
    oracle=appended,
    allows=operations(
        "copy_ cat clone index index_put_ index_copy_ slice_scatter select_scatter scatter_ roll arange add remainder sub"
    ),
    gates=[Correct("plain")],
    criteria=[
        Correct("ragged", 1, "any pieces, up to the last place"),
        Correct("ring", 2, "a full cache is a ring: token t in slot t % slots"),
        Correct("long", 1, "of a prompt longer than the ring, its end"),
        Moves(
            lambda k, v, **_: 1.05 * 2 * (k.nbytes + v.nbytes),
            2,
            "each token is moved once, to its place",
        ),
        Moves(
            lambda k, v, **_: 1.05 * 2 * (k.nbytes + v.nbytes),
            1,
            "a full ring moves no old token",
            "full ring",
        ),
        BuffersBelow(lambda k, **_: k.nbytes / 8, 1, "nothing is allocated but the cache", "full ring"),
    ],
    hints=[
        "self.k and self.v are there from the beginning. Where does the first new token go, and what is returned?",
        "Write through a view: self.k[:, :, start:end] = k copies the new tokens and nothing else. Return a view, too.",
        "When a piece crosses the end of the ring, it is two copies: one up to the end, one from slot 0. A prompt longer than the "
        "ring is cut to its last `slots` tokens first, and self.length counts all of them.",
    ],
    mistakes=[
        of_a_length(
            lambda k, slots, pieces: slots,
            "It returns slots that no token has come to: of the cache, the first min(length, slots) are to be read.",
        ),
        of_a_length(
            lambda k, slots, pieces: pieces[-1],
            "It returns the new tokens alone; a query reads all that are kept, so return views of the cache.",
        ),
        Slip(
            in_order,
            "The ring is sorted by age, so old tokens move whenever a new one comes. Leave them: token t stays in slot t % slots, and "
            "attention with one query gives the same sum in any order of the keys.",
            appended,
        ),
    ],
)

EXERCISES = (kv_cache,)
