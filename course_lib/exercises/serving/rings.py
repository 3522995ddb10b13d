"""The cache of keys and values, a ring once it is full, and what wrong rings hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch

from course_lib.catalogue import say
from course_lib.criteria import BuffersBelow, Correct, GradedTrial, correct
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.cases import BF16, operations
from course_lib.exercises.misconceptions import Misconception, failing
from course_lib.exercises.serving.cases import ring, tokens
from course_lib.exercises.serving.criteria import Moves
from course_lib.mistakes import MistakeMatcher


def kept(x: torch.Tensor, slots: int, so_far: int) -> torch.Tensor:
    """Return the filled slots of a cache of `slots` places after `so_far` tokens of x (B, H, N, D): token t is in slot t % slots."""
    return ring(x, slots, so_far)[:, :, : min(so_far, slots)]


def appended(k: torch.Tensor, v: torch.Tensor, slots: int, pieces: Sequence[int]) -> tuple[torch.Tensor, ...]:
    """Return k and v in the cache after each piece; where it is a ring, after the last."""
    ends = [sum(pieces[: i + 1]) for i in range(len(pieces))]
    ends = ends if slots >= k.shape[2] else ends[-1:]
    return tuple(kept(x, slots, end).double() for end in ends for x in (k, v))


def in_order(k: torch.Tensor, v: torch.Tensor, slots: int, pieces: Sequence[int]) -> tuple[torch.Tensor, ...] | None:
    """Return k and v as a wrong ring buffer has them: tokens from the oldest to the newest."""
    first = k.shape[2] - slots
    return tuple(x[:, :, first:].double() for x in (k, v)) if first > 0 and first % slots else None


Writes = Callable[[int, int, int], Iterable[tuple[int, int]]]  # (length, new tokens, slots) -> (slot, which of the new)


def written(writes: Writes, counts: Callable[[int, int], int] = lambda length, slots: length):
    """Make what a full ring holds if each piece is written so, and `counts` is what self.length becomes; None where a slot stays empty."""

    def wrong(k, v, slots: int, pieces: Sequence[int]) -> tuple[torch.Tensor, ...] | None:
        tokens, length, first = [-1] * slots, 0, 0
        for new in pieces:
            for slot, i in writes(length, new, slots):
                tokens[slot] = first + i
            length, first = counts(length + new, slots), first + new
        return None if first <= slots or -1 in tokens else tuple(x[:, :, tokens].double() for x in (k, v))

    return wrong


def from_the_start_again(length: int, new: int, slots: int) -> Iterable[tuple[int, int]]:
    """Write a piece that does not fit behind the others from slot 0 on."""
    skip = max(0, new - slots)
    start = (length + skip) % slots
    start = 0 if start + new - skip > slots else start
    return ((start + i - skip, i) for i in range(skip, new))


def up_to_the_last_slot(length: int, new: int, slots: int) -> Iterable[tuple[int, int]]:
    """Write of a piece's last tokens those that fit up to the last slot."""
    skip = max(0, new - slots)
    start = (length + skip) % slots
    return ((start + i - skip, i) for i in range(skip, new) if start + i - skip < slots)


def in_turn(length: int, new: int, slots: int) -> Iterable[tuple[int, int]]:
    """Write each token to its slot."""
    return (((length + i) % slots, i) for i in range(new))


WRONG_WRITES = {
    "kv_cache.beginning_of_a_long_prompt": [
        written(lambda length, new, slots: ((slot, i) for slot, i in in_turn(length, new, slots) if i < slots)),
        written(
            lambda length, new, slots: (((length + i + max(0, new - slots)) % slots, i) for i in range(min(new, slots)))
        ),
    ],
    "kv_cache.a_long_prompt_from_its_first_slot": [
        written(
            lambda length, new, slots: (((length + i) % slots, max(0, new - slots) + i) for i in range(min(new, slots)))
        )
    ],
    "kv_cache.length_stops_at_slots": [written(in_turn, min)],
    "kv_cache.new_tokens_dropped": [
        written(lambda length, new, slots: ((length + i, i) for i in range(new) if length + i < slots)),
        written(lambda length, new, slots: ((length + i, i) for i in range(new) if length + i < slots), min),
    ],
    "decode_step.the_last_slot_for_all": [
        written(lambda length, new, slots: ((min(length + i, slots - 1), i) for i in range(new)))
    ],
    "kv_cache.from_the_start_again": [written(from_the_start_again)],
    "kv_cache.nothing_wraps": [written(up_to_the_last_slot)],
}
"""The id of a sentence -> what a ring holds by that mistake."""


def of_a_length(length: Callable[..., int], says: str, newest: bool | None = None) -> MistakeMatcher:
    """Make the matcher of a last k with this many tokens, where another number is right.

    newest: whether these must be the tokens that came last, or must be others; None for any
    """

    def look(trials: Sequence[GradedTrial]) -> str:
        for trial in failing(trials):
            for call, out in trial.calls:
                k = out[-2] if isinstance(out, list) and len(out) > 1 else None
                right = min(call["k"].shape[2], call["slots"])
                if isinstance(k, torch.Tensor) and k.dim() == 4 and k.shape[2] != right:
                    fits = newest in (None, torch.equal(k, call["k"][:, :, -k.shape[2] :]))
                    return says if fits and k.shape[2] == length(call["k"], call["slots"], call["pieces"]) else ""
        return ""

    return look


kv_cache = Exercise(
    id="serving.kv_cache",
    signature="KVCache(B, Hkv, slots, D, dtype, device).append(k, v: (B, Hkv, n, D)) -> views (B, Hkv, min(length, slots), D) of both",
    called="through a cache",
    effort=Effort(minutes=15, lines=10, difficulty=2),
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
        *correct("serving.kv_cache", {"ragged": 1, "ring": 2, "long": 1}),
        Moves(lambda k, v, **_: 1.05 * 2 * (k.nbytes + v.nbytes), 2, say("serving.kv_cache.title_moves")),
        Moves(
            lambda k, v, **_: 1.05 * 2 * (k.nbytes + v.nbytes),
            1,
            say("serving.kv_cache.title_moves_full_ring"),
            "full ring",
        ),
        BuffersBelow(lambda k, **_: k.nbytes / 8, 1, say("serving.kv_cache.title_buffers_below"), "full ring"),
    ],
    mistakes=[
        of_a_length(lambda k, slots, pieces: slots, say("serving.kv_cache.returns_the_whole_cache")),
        of_a_length(lambda k, slots, pieces: pieces[-1], say("serving.kv_cache.returns_the_new_tokens"), newest=True),
        of_a_length(lambda k, slots, pieces: pieces[-1], say("serving.kv_cache.length_not_counted"), newest=False),
        of_a_length(lambda k, slots, pieces: k.shape[2], say("serving.kv_cache.more_than_the_slots")),
        of_a_length(lambda k, slots, pieces: min(k.shape[2], slots) - 1, say("serving.kv_cache.one_too_few")),
        *(Misconception(wrongs, say(f"serving.{name}"), each=True) for name, wrongs in WRONG_WRITES.items()),
        Misconception(in_order, say("serving.kv_cache.concatenates_the_newest_alone"), appended),
    ],
)

EXERCISES = (kv_cache,)
