"""Three ways to tell attention where a token stands, and what each of them touches."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from course_lib.catalogue import say
from course_lib.criteria import (
    EPS32,
    GATES,
    Coalesced,
    Correct,
    Launches,
    Numbers,
    Traffic,
    Truths,
    copy_bytes,
    correct,
    roundings,
)
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.cases import ARITHMETIC, BF16, FP32, fixed, operations
from course_lib.exercises.misconceptions import Misconception
from course_lib.exercises.serving.cases import projected, seen_by
from course_lib.exercises.training.shared_heads import sees
from course_lib.mistakes import miscounted

MAKES = ARITHMETIC | operations("arange linspace sin cos stack cat pow outer tril triu tensor unsqueeze lift_fresh")


def angles(positions: torch.Tensor, D: int, base: float = 10000.0) -> torch.Tensor:
    """Compute the rotary angles (N, D / 2) of positions (N,), in float64: position / base^(2 i / D)."""
    return positions.double()[:, None] / base ** (torch.arange(0, D, 2, dtype=torch.float64) / D)


# ------------------------------------------------------------------------------------------------ added to the embedding


def waves(positions: torch.Tensor, D: int, base: float = 10000.0) -> torch.Tensor:
    """Compute sinusoidal position embeddings, sin in even columns, cos in odd: Vaswani and others, Attention Is All You Need, section
    3.5."""
    of = angles(positions, D, base)
    return torch.stack([of.sin(), of.cos()], -1).flatten(1).float()


def waves_budget(expected: torch.Tensor, dtype: torch.dtype, arguments: dict[str, Any]) -> torch.Tensor:
    """Return the error bound: an angle in float32 is off by a few roundings of itself."""
    return torch.full_like(expected, 4 * EPS32 * (1 + int(arguments["positions"].max())))


def somewhere(n: int, D: int, furthest: int = 300):
    """Return a function that draws positions (n,), whole numbers from 0 to `furthest` in any order, and D."""

    def draw(g: torch.Generator) -> dict[str, Any]:
        return {"positions": torch.randint(0, furthest, (n,), generator=g, device=g.device), "D": D}

    return draw


sinusoidal = Exercise(
    id="serving.sinusoidal",
    signature="sinusoidal(positions: (N,) int64, D) -> (N, D) float32",
    effort=Effort(minutes=8, lines=4, difficulty=2),
    cases=[
        Case("12 positions, D = 16", "plain", somewhere(12, 16)),
        Case("1 position, D = 8", "sizes", somewhere(1, 8, 10**6)),
        Case("200 positions, D = 2", "sizes", somewhere(200, 2)),
        Case("33 positions, D = 130", "sizes", somewhere(33, 130)),
    ],
    oracle=waves,
    budget=waves_budget,
    allows=MAKES,
    gates=[Correct("plain")],
    criteria=[Correct("sizes", 2, say("serving.sinusoidal.title_sizes"))],
    mistakes=[
        Misconception(
            lambda positions, D: (
                (found := waves(positions, D)) is not None and torch.cat([found[:, ::2], found[:, 1::2]], 1)
            ),
            say("serving.sinusoidal.all_sines_first"),
            waves,
        ),
        Misconception(lambda positions, D: waves(positions + 1, D), say("serving.sinusoidal.positions_from_1"), waves),
        Misconception(
            lambda positions, D: waves(positions, D, 100.0),
            say("serving.sinusoidal.exponents_of_i_d"),
            waves,
            each=True,
        ),
        Misconception(
            lambda positions, D: waves(positions, D).unflatten(1, (-1, 2)).flip(2).flatten(1),
            say("serving.sinusoidal.cosines_first"),
            waves,
            each=True,
        ),
        Misconception(
            lambda positions, D: waves(torch.arange(len(positions)), D),
            say("serving.sinusoidal.by_the_row"),
            waves,
            each=True,
        ),
    ],
)

# ------------------------------------------------------------------------------------------------ turned


def placed(B: int, H: int, n: int, D: int, dtype: torch.dtype = FP32, first: int = 0, base: float = 10000.0):
    """Return a function that draws x (B, H, n, D) as a layer has it, positions (n,) int32 from `first` on, and base."""

    def draw(g: torch.Generator) -> dict[str, Any]:
        x = projected(g, B, n, (H,), D, dtype)[0]
        return {"x": x, "positions": torch.arange(first, first + n, dtype=torch.int32, device=g.device), "base": base}

    return draw


def anywhere(B: int, H: int, n: int, D: int, **more: Any):
    """Return a function that draws what `placed` does, with positions in any order."""

    def draw(g: torch.Generator) -> dict[str, Any]:
        given = placed(B, H, n, D, **more)(g)
        return given | {"positions": torch.randint(0, 300, (n,), generator=g, device=g.device, dtype=torch.int32)}

    return draw


def rotated(x: torch.Tensor, positions: torch.Tensor, base: float, times: float = 1.0) -> torch.Tensor:
    """Rotate x in float64, its halves as pairs: Su and others, RoFormer, equation 34, in the order that Llama has."""
    of = times * angles(positions.cpu(), x.shape[-1], base).to(x.device)
    a, b = x.double().chunk(2, -1)
    return torch.cat([a * of.cos() - b * of.sin(), b * of.cos() + a * of.sin()], -1)


def neighbours(x: torch.Tensor, positions: torch.Tensor, base: float) -> torch.Tensor:
    """Rotate x with neighbours as pairs, where the two halves are meant."""
    of = angles(positions.cpu(), x.shape[-1], base).to(x.device)
    a, b = x.double()[..., ::2], x.double()[..., 1::2]
    return torch.stack([a * of.cos() - b * of.sin(), b * of.cos() + a * of.sin()], -1).flatten(-2)


def one_after_another(x: torch.Tensor, positions: torch.Tensor, base: float) -> torch.Tensor | None:
    """Rotate x as if positions followed one another from the first one on; None where they do."""
    taken = positions[0] + torch.arange(len(positions), device=positions.device)
    return None if torch.equal(taken, positions.long()) else rotated(x, taken, base)


def by_power(power: float) -> Callable[..., torch.Tensor]:
    """Make the wrong formula in which the base is raised to this power: log(2) is what log for log2 gives, 1 / log(2) exp for exp2."""
    return lambda x, positions, base: rotated(x, positions, base**power)


def stored_as_contiguous(x: torch.Tensor, positions: torch.Tensor, base: float) -> torch.Tensor | None:
    """Return what torch.empty_like(x) holds if a kernel stores to it as if it were contiguous; None where it is."""
    out = torch.empty_like(x)
    return None if out.is_contiguous() else rotated(x, positions, base).flatten().as_strided(x.shape, out.stride())


def read_as_contiguous(x: torch.Tensor, positions: torch.Tensor, base: float) -> torch.Tensor | None:
    """Rotate what is read if x is taken for contiguous; None where it is."""
    strides = torch.empty(x.shape, device="meta").stride()
    return None if x.is_contiguous() else rotated(x.as_strided(x.shape, strides), positions, base)


def rotary_budget(expected: torch.Tensor, dtype: torch.dtype, arguments: dict[str, Any]) -> torch.Tensor:
    """Return the error bound: a rounding of the result, and of an angle in float32."""
    x, furthest = arguments["x"].double(), int(arguments["positions"].max())
    a, b = x.chunk(2, -1)
    length = torch.hypot(a, b)
    return roundings(expected, dtype, 1) + 16 * EPS32 * (1 + furthest) * torch.cat([length, length], -1)


rotary = Exercise(
    id="serving.rotary",
    signature="rotary(x: (B, H, N, D), positions: (N,) int32, base=10000.0) -> (B, H, N, D), contiguous",
    effort=Effort(minutes=15, lines=20, difficulty=3),
    cases=[
        Case("2 texts, 2 heads, 16 tokens", "plain", placed(2, 2, 16, 16)),
        Case("tokens from 37 on", "positions", placed(1, 2, 9, 32, first=37)),
        Case("one token, number 500", "positions", placed(2, 3, 1, 16, first=500)),
        Case("positions in any order", "positions", anywhere(2, 1, 21, 16)),
        Case("3 heads of 24, a base of 500000", "ragged", placed(1, 3, 19, 24, base=500000.0)),
        Case("heads of 80", "ragged", placed(2, 1, 5, 80)),
        Case("bfloat16", "half", placed(2, 2, 33, 32, BF16, first=11)),
        Case("2 texts, 8 heads, 128 tokens", "performance", placed(2, 8, 128, 64)),
    ],
    oracle=rotated,
    budget=rotary_budget,
    gates=GATES,
    criteria=[
        *correct("serving.rotary", {"positions": 2, "ragged": 1, "half": 1}),
        Traffic(lambda x, positions, **_: copy_bytes(x) + positions.nbytes * x.shape[1] * x.shape[0], 2),
        Coalesced("load", 1),
        Launches(1, 1),
    ],
    mistakes=[
        Misconception(
            lambda x, positions, base: rotated(x, positions, base, -1.0),
            say("serving.rotary.the_other_way"),
            rotated,
        ),
        Misconception(neighbours, say("serving.rotary.neighbours_as_pairs"), rotated),
        Misconception(
            lambda x, positions, base: rotated(x, positions - positions.min(), base) if positions.min() else None,
            say("serving.rotary.by_the_row_not_the_position"),
            rotated,
        ),
        Misconception(one_after_another, say("serving.rotary.from_the_first_position_on")),
        Misconception(
            lambda x, positions, base: torch.cat(
                [*rotated(x, positions, base).chunk(2, -1)[:1], x.chunk(2, -1)[1]], -1
            ),
            say("serving.rotary.the_first_half_alone"),
        ),
        Misconception(stored_as_contiguous, say("serving.rotary.stored_as_contiguous"), rotated),
        Misconception(read_as_contiguous, say("serving.rotary.read_as_contiguous"), rotated),
        Misconception(by_power(0.5), say("serving.rotary.exponents_of_i_d"), rotated),
        Misconception(
            lambda x, positions, base: rotated(x, positions, 10000.0) if base != 10000.0 else None,
            say("serving.rotary.the_base_ignored"),
            rotated,
        ),
        Misconception(
            [by_power(math.log(2)), by_power(1 / math.log(2))],
            say("serving.rotary.a_power_of_e_for_one_of_2"),
            rotated,
        ),
    ],
)

# ------------------------------------------------------------------------------------------------ added to the scores


def biases(heads: int, nq: int, nk: int, top_left: bool = False, ahead: bool = False) -> torch.Tensor:
    """Compute ALiBi biases (heads, nq, nk), as in Press, Smith and Lewis, Train Short, Test Long, section 3: -slope times how far a key is
    behind, slope = 2^(-8 (h + 1) / heads). Two wrong ones: top_left, the queries are the first positions; ahead, keys ahead have biases as
    well.

    Two slips: at the top_left the queries are the first positions; keys ahead have biases as well.
    """
    slopes = 2.0 ** (-8.0 * torch.arange(1, heads + 1, dtype=torch.float64) / heads)
    behind = torch.arange(nq)[:, None] + (0 if top_left else nk - nq) - torch.arange(nk)
    return -slopes[:, None, None] * (behind if ahead else behind.clamp(min=0))


def biased(times: float = 1.0, early: bool = False, **slip: bool) -> Callable[..., torch.Tensor]:
    """Make a function that adds their biases, `times` times, to scores (heads, nq, nk), with slopes that may begin a head early."""

    def add(scores: torch.Tensor) -> torch.Tensor:
        heads, nq, nk = scores.shape
        more = 2.0 ** (8.0 / heads) if early else 1.0
        return scores.double() + times * more * biases(heads, nq, nk, **slip)

    return add


def of_8_heads(scores: torch.Tensor) -> torch.Tensor | None:
    """Add the biases that heads have where there are 8 of them; None where there are."""
    heads, nq, nk = scores.shape
    times = 2.0 ** (-torch.arange(1, heads + 1, dtype=torch.float64) * (1 - 8 / heads))[:, None, None]
    return None if heads == 8 else scores.double() + times * biases(heads, nq, nk)


def scored(heads: int, nq: int, nk: int):
    """Return a function that draws scores (heads, nq, nk)."""
    return lambda g: {"scores": torch.randn(heads, nq, nk, generator=g, device=g.device)}


alibi = Exercise(
    id="serving.alibi",
    signature="alibi(scores: (heads, nq, nk)) -> (heads, nq, nk)",
    effort=Effort(minutes=8, lines=5, difficulty=2),
    cases=[
        Case("8 heads, 6 queries and keys", "plain", scored(8, 6, 6)),
        Case("2 heads, 1 query, 9 keys", "decode", scored(2, 1, 9)),
        Case("4 heads, 3 queries, 20 keys", "decode", scored(4, 3, 20)),
        Case("12 heads", "heads", scored(12, 4, 4)),
        Case("1 head, 200 keys", "heads", scored(1, 200, 200)),
    ],
    oracle=biased(),
    budget=lambda expected, dtype, arguments: 8 * EPS32 * (1 + expected.abs() + arguments["scores"].double().abs()),
    allows=MAKES,
    gates=[Correct("plain")],
    criteria=correct("serving.alibi", {"decode": 1, "heads": 2}),
    mistakes=[
        Misconception(biased(-1.0), say("serving.alibi.positive"), biased()),
        Misconception(of_8_heads, say("serving.alibi.slopes_of_8_heads"), biased()),
        Misconception(biased(early=True), say("serving.alibi.slopes_one_early"), biased()),
        Misconception(biased(top_left=True), say("serving.alibi.aligned_at_the_top_left"), biased()),
        Misconception(biased(ahead=True), say("serving.alibi.keys_ahead_raised"), biased()),
    ],
)

# ------------------------------------------------------------------------------------------------ what each touches


def touched() -> dict[str, bool]:
    """Return, by trying, which results change when one token moves, and which when all of them do."""
    g = torch.Generator().manual_seed(3)
    x, weights = torch.randn(6, 8, generator=g).double(), torch.randn(3, 8, 8, generator=g).double()

    def layer(way: str, first: int) -> dict[str, torch.Tensor]:
        at = torch.arange(first, first + 6)
        given = x + waves(at, 8).double() if way == "sinusoidal" else x
        q, k, v = (given @ w for w in weights)
        if way == "rotary":
            q, k = (rotated(t[None, None], at, 10000.0)[0, 0] for t in (q, k))
        bias = biases(1, 6, 6)[0] if way == "ALiBi" else 0.0
        return {"q": q, "k": k, "v": v, "scores": q @ k.T + bias}

    found = {}
    for way in ("sinusoidal", "rotary", "ALiBi"):
        here, moved, bare = layer(way, 0), layer(way, 100), layer("", 0)
        found |= {f"{way} changes {name}": not torch.allclose(here[name], bare[name]) for name in "qkv"}
        found[f"{way}: a text that begins at 100 has the same scores"] = torch.allclose(here["scores"], moved["scores"])
    return found


touches = Exercise(
    id="serving.touches",
    signature="touches: dict[str, bool]",
    kind="values",
    effort=Effort(minutes=5, lines=12, difficulty=2),
    cases=[fixed("twelve times True or False", "plain")],
    oracle=touched,
    criteria=[Truths(3, say("serving.touches.title_truths"))],
    mistakes=[
        miscounted(
            {
                **{(f"sinusoidal changes {x}", False): say("serving.touches.added_to_x") for x in "qkv"},
                ("sinusoidal: a text that begins at 100 has the same scores", True): say(
                    "serving.touches.not_distances"
                ),
                **{(f"rotary changes {x}", False): say("serving.touches.turned") for x in "qk"},
                ("rotary changes v", True): say("serving.touches.v_is_not_turned"),
                ("rotary: a text that begins at 100 has the same scores", False): say("serving.touches.of_two_angles"),
                **{(f"ALiBi changes {x}", True): say("serving.touches.added_to_scores") for x in "qkv"},
                ("ALiBi: a text that begins at 100 has the same scores", False): say("serving.touches.of_distances"),
            }
        )
    ],
)

# ------------------------------------------------------------------------------------------------ which rows see what

CALLS: dict[str, dict[str, Any]] = {
    "a prompt of 10": dict(nq=10, nk=10, causal=True, window=None, top_left=False, mask=""),
    "a second piece of 6": dict(nq=6, nk=16, causal=True, window=None, top_left=False, mask=""),
    "one token, 17th": dict(nq=1, nk=17, causal=True, window=None, top_left=False, mask=""),
    "a prompt of 10 in 24 places": dict(nq=10, nk=24, causal=True, window=None, top_left=True, mask=""),
    "one token, 17th, in 24 places": dict(nq=1, nk=24, causal=True, window=None, top_left=False, mask="filled"),
    "a window of 4, one token, 17th": dict(nq=1, nk=17, causal=True, window=4, top_left=False, mask=""),
}
"""The six calls of a generation: how a layer calls attention, and what tells it which keys are seen."""


def rows_of(nq: int, nk: int, causal: bool, window: int | None, top_left: bool, mask: str) -> torch.Tensor:
    """Return the mask (nq, nk), True where a query sees a key. mask "filled": 17 places of nk hold a token."""
    given = (
        (torch.arange(nk) < 17).expand(1, 1, nq, nk)
        if mask == "filled"
        else seen_by(mask, 1, nq, nk, torch.Generator())
    )
    return sees(nq, nk, causal, window, top_left, given).reshape(nq, nk)


def keys_seen() -> dict[str, int]:
    """Count the keys that the first and the last query of each call see."""
    found = {}
    for name, call in CALLS.items():
        counts = rows_of(**call).sum(1)
        found |= {f"{name}: the first query": int(counts[0])} if call["nq"] > 1 else {}
        found[f"{name}: the last query"] = int(counts[-1])
    return found


which_rows = Exercise(
    id="serving.which_rows",
    signature="which_rows: dict[str, int]",
    kind="values",
    effort=Effort(minutes=6, lines=9, difficulty=2),
    cases=[fixed("nine numbers", "plain")],
    oracle=keys_seen,
    criteria=[Numbers(3, say("serving.which_rows.title_numbers"))],
    mistakes=[
        miscounted(
            {
                **{("a prompt of 10: the first query", n): say("serving.which_rows.itself_alone") for n in (0, 10)},
                **{("a prompt of 10: the last query", n): say("serving.which_rows.itself_too") for n in (1, 9)},
                **{
                    ("a second piece of 6: the first query", n): say("serving.which_rows.the_first_piece")
                    for n in (1, 6, 10)
                },
                **{
                    ("a second piece of 6: the last query", n): say("serving.which_rows.the_first_piece")
                    for n in (6, 15)
                },
                **{("one token, 17th: the last query", n): say("serving.which_rows.all_before") for n in (1, 16)},
                **{
                    ("a prompt of 10 in 24 places: the first query", n): say("serving.which_rows.first_places")
                    for n in (10, 15, 24)
                },
                **{
                    ("a prompt of 10 in 24 places: the last query", n): say("serving.which_rows.first_places")
                    for n in (1, 24)
                },
                **{
                    ("one token, 17th, in 24 places: the last query", n): say("serving.which_rows.empty_places")
                    for n in (1, 16, 24)
                },
                **{
                    ("a window of 4, one token, 17th: the last query", n): say("serving.which_rows.window")
                    for n in (1, 3, 5, 17)
                },
            }
        )
    ],
)

EXERCISES = (sinusoidal, rotary, alibi, touches, which_rows)
