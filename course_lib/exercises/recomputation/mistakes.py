"""Mistakes in unit 07, and how results reveal them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

import torch
import triton
from torch.nn.functional import gelu, pad

from course_lib.catalogue import say
from course_lib.criteria import GradedTrial, passed_on
from course_lib.exercise import Exercise, Trial
from course_lib.exercises.misconceptions import Misconception, row_0
from course_lib.exercises.recomputation.oracles import kept_elements, two_like_x
from course_lib.mistakes import MistakeMatcher, every, on_exception, torch_did


def saved_something(sentence: str) -> MistakeMatcher:
    """Make a matcher that returns `sentence` if backward used a buffer that a kernel of the forward half wrote."""

    def look(trials: Sequence[Trial]) -> str:
        for evidence in (t.evidence for t in trials):
            forward = [f for launch in evidence.launches if launch.phase == 0 for f in launch.footprints]
            written = {f.tensor for f in forward if f.written_bytes and f.tensor.startswith("buffer")}
            if any(s.tensor in written for s in evidence.saved or ()):
                return sentence
        return ""

    return look


def applied_once(*mistakes: MistakeMatcher) -> MistakeMatcher:
    """Make the matcher of the first of these mistakes that is seen in calls without another application between."""

    def look(trials: Sequence[GradedTrial]) -> str:
        once = [t for t in trials if "between" not in t.inputs[-1]]
        return next((says for matcher in mistakes if (says := matcher(once))), "")

    return look


def of_the_other(oracle: Callable[..., Any], *names: str) -> Misconception:
    """Make the Misconception that the first gradient is made from the application between: from all inputs of these names, or from one."""

    def mixed(taken: Collection[str]) -> Callable[..., Any]:
        def wrong(dy: torch.Tensor, between: Sequence[Any] = (), **inputs: Any) -> Any:
            others = dict(zip(inputs, between, strict=False))
            return oracle(**inputs | {name: others[name] for name in taken}, dy=dy) if between else None

        return wrong

    return Misconception(
        [mixed(names), *(mixed([name]) for name in names)], say("recomputation.twice.of_the_other"), place=1
    )


def if_applied_to_others(trials: Sequence[GradedTrial]) -> str:
    """Return a remark if all that is wrong is wrong where another application was made before the way back; else ""."""
    wrong = [t for t in trials if t.difference]
    return say("recomputation.twice.only_then") if wrong and all("between" in t.inputs[-1] for t in wrong) else ""


FLOAT32 = on_exception("Expected dtype ['fp32', 'fp64']", say("recomputation.sigmoid3.float32"))


GRADIENTS = on_exception(
    "returned an incorrect number of gradients",
    say("recomputation.sigmoid3.number_of_gradients"),
)


cast_by_autograd = torch_did(  # autograd casts where a gradient has another dtype than its tensor
    ["_to_copy"],
    say("recomputation.sigmoid3.cast_by_autograd"),
)


def saved_nothing(trials: Sequence[Trial]) -> str:
    """Return a remark if backward found no saved tensors, else ""."""
    on_exception = [t.evidence.cause.details for t in trials if t.evidence.error and t.evidence.cause]
    empty = any(
        "not enough values to unpack" in of.get("message", "")
        and "got 0)" in of["message"]
        and "saved_tensors" in of.get("line", "")
        for of in on_exception
    )
    return say("recomputation.sigmoid3.saved_nothing") if empty else ""


def nan_if_hard(exercise: Callable[[], Exercise], sentence: str) -> MistakeMatcher:
    """Make a matcher that returns `sentence` if results of hard inputs hold NaN, and those of ragged inputs are right.

    On ragged inputs, elements that are not stored show as NaN, too.
    """

    def has_nan(output: Any) -> bool:
        parts = output if isinstance(output, list) else [output]
        return any(isinstance(part, torch.Tensor) and bool(part.isnan().any()) for part in parts)

    def look(trials: Sequence[Trial]) -> str:
        hard = any(t.case.group == "hard" and any(map(has_nan, t.evidence.outputs)) for t in trials)
        ragged = [GradedTrial.of(exercise(), t) for t in trials if t.case.group == "ragged"]
        return sentence if hard and ragged and not any(t.difference for t in ragged) else ""

    return look


def several_launches(phases: Collection[int], passed: str, apart: str = "") -> MistakeMatcher:
    """Make a matcher of performance cases that launch several kernels in one of these halves (0 forward, 1 backward).

    passed   what to say where one of them loads what another one stored;  apart  where none does, if that is something else
    """

    def look(trials: Sequence[Trial]) -> str:
        costly = [t.evidence.launches for t in trials if t.case.group == "performance"]
        halves = [[one for one in launches if one.phase == phase] for launches in costly for phase in phases]
        several = [half for half in halves if len(half) > 1]
        if not several:
            return ""
        return passed if any(map(passed_on, several)) else apart or passed

    return look


def mean_over_a_block(trials: Sequence[Trial]) -> str:
    """Return a remark if every ragged dx is that of a mean over the whole block instead of the row, else ""."""
    found, matters = [], False
    for t in trials:
        for call, out in t.calls if t.case.group == "ragged" else ():
            x, weight, rstd, dy = (call[name].double() for name in ("x", "weight", "rstd", "dy"))
            n, g, N = x * rstd[:, None], dy * weight, x.shape[1]
            dx = rstd[:, None] * (g - n * (g * n).sum(1, keepdim=True) / triton.next_power_of_2(N))
            got = out[0] if isinstance(out, list) and isinstance(out[0], torch.Tensor) else torch.empty(0)
            found.append(got.shape == dx.shape and torch.allclose(got.double(), dx, rtol=0.02, atol=1e-4))
            matters |= triton.next_power_of_2(N) > N
    return say("recomputation.rmsnorm_backward.the_mean_over_the_block") if matters and all(found) else ""


def partial_sums_of_each_row(trials: Sequence[Trial]) -> str:
    """Return a remark if the first kernel writes a buffer as large as a float32 x, else ""."""
    large = any(
        f.tensor.startswith("buffer") and f.written_distinct_bytes >= 4 * t.inputs[-1]["x"].numel()
        for t in trials
        if t.case.group == "performance"
        for launch in t.evidence.launches[:1]
        for f in launch.footprints
    )
    return say("recomputation.rmsnorm_backward.a_partial_sum_for_every_row") if large else ""


def unscaled(trials: Sequence[Trial]) -> str:
    """Return a remark if results hold the kept elements unscaled, else "". With p = 0 that is right."""
    mistake = every(
        lambda output, x, p, seed, dy: (
            two_like_x(output, x) and torch.equal(output[0], torch.where(kept_elements(x, p, seed), x, 0))
        ),
        say("recomputation.seeded_dropout.no_scale"),
    )
    return mistake([t for t in trials if any(call["p"] for call in t.inputs)])


def another_mask(trials: Sequence[Trial]) -> str:
    """Return a remark if forward keeps the right elements, and backward passes gradients of others; else ""."""
    pairs = [p for t in trials for p in t.calls]
    if not pairs or not all(two_like_x(output, call["x"]) for call, output in pairs):
        return ""
    forward = all(torch.equal(o[0] != 0, kept_elements(c["x"], c["p"], c["seed"]) & (c["x"] != 0)) for c, o in pairs)
    backward = all(torch.equal(out != 0, dx != 0) for _, (out, dx) in pairs)
    if not forward or backward:
        return ""
    nothing_dropped = all(torch.equal(dx != 0, c["dy"] != 0) for c, (_, dx) in pairs)
    return say(f"recomputation.seeded_dropout.{'no' if nothing_dropped else 'another'}_mask_backward")


def in_tensors(trials: Sequence[GradedTrial]) -> str:
    """Return a remark that states a wrong count of bytes in tensors, forward and backward, or as a count of elements; else ""."""
    made: dict[bool, set[tuple[float, ...]]] = {}
    for t in (t for t in trials if t.difference):
        for call, out in t.calls:
            if not isinstance(out, list) or len(out) != 2 or not all(type(n) is int and n < 1 << 60 for n in out):
                return ""
            made.setdefault(call["recompute"], set()).add(tuple(n / call["n"] / call["itemsize"] for n in out))
    if made and not any(t.difference is None for t in trials):
        elements = all(
            [n * call["itemsize"] for n in out] == [*t.exercise.oracle(**call)] for t in trials for call, out in t.calls
        )
        if elements:
            return say("recomputation.sigmoid3_traffic.elements")
    alike = {way: counts.pop() for way, counts in made.items() if len(counts) == 1}
    way, counts = next(((way, counts) for way, counts in alike.items() if all(n % 1 == 0 for n in counts)), (None, ()))
    if way is None:
        return ""
    forward, backward = map(int, counts)
    how = "recomputed" if way else "stored"
    return say(f"recomputation.sigmoid3_traffic.{how}", forward=forward, backward=backward)


def sigmoids_of(x: torch.Tensor) -> list[torch.Tensor]:
    """Compute s1, s2 and s3, each the sigmoid of the one before, in float64."""
    s1 = x.double().sigmoid()
    return [s1, s1.sigmoid(), s1.sigmoid().sigmoid()]


def chain_of(x: torch.Tensor, factors: Sequence[int]) -> torch.Tensor:
    """Return the product of the derivatives s (1 - s) of the sigmoids with these numbers."""
    s = sigmoids_of(x)
    return math.prod((s[n] * (1 - s[n]) for n in factors), start=torch.ones_like(s[0]))


def odd_factor(n: int, of: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Make the wrong gradient in which the factor of sigmoid number n is `of(s)`."""
    return lambda x, dy: dy.double() * chain_of(x, [m for m in range(3) if m != n]) * of(sigmoids_of(x)[n])


TOLD_APART = 1000  # s (1 + s) of the third sigmoid is nearly 1: results are compared as closely as float32 allows


SIGMOIDS = [
    Misconception(lambda x, dy: sigmoids_of(x)[1], say("recomputation.sigmoid3.two_sigmoids")),
    Misconception(
        [odd_factor(n, torch.ones_like) for n in range(3)],
        say("recomputation.sigmoid3.a_factor_is_missing"),
        place=1,
        times=TOLD_APART,
    ),
    Misconception(
        [odd_factor(n, of) for n in range(3) for of in (lambda s: s * (1 + s), lambda s: s, lambda s: 1 - s)],
        say("recomputation.sigmoid3.a_factor_is_another"),
        place=1,
        times=TOLD_APART,
    ),
    Misconception(lambda x, dy: chain_of(x, range(3)), say("recomputation.sigmoid3.forgets_dy"), place=1),
    Misconception(
        [lambda x, dy, n=n: dy.double() * chain_of(x, [n]) for n in range(3)],
        say("recomputation.sigmoid3.one_factor_alone"),
        place=1,
        times=TOLD_APART,
    ),
    Misconception(
        [
            lambda x, dy: dy.double() * chain_of(x, [1, 2]) * x.double() * (1 - x.double()),
            lambda x, dy: dy.double() * chain_of(x, [0, 1]) * x.double() * (1 - x.double()),
        ],
        say("recomputation.sigmoid3.of_the_argument"),
        place=1,
        times=TOLD_APART,
    ),
    Misconception(
        lambda x, dy: dy.double() * chain_of(sigmoids_of(x)[2], range(3)),
        say("recomputation.sigmoid3.at_the_result"),
        place=1,
        times=TOLD_APART,
    ),
    Misconception(
        lambda x, dy: dy.double() * sum(chain_of(x, [n]) for n in range(3)),
        say("recomputation.sigmoid3.factors_are_added"),
        place=1,
        times=TOLD_APART,
    ),
    Misconception(
        [lambda x, dy, of=of: dy.double() * math.prod(chain_of(x, [n]) for n in of) for of in ((0, 0, 1), (0, 1, 1))],
        say("recomputation.sigmoid3.of_another_number"),
        place=1,
        times=TOLD_APART,
    ),
]
"""Slips in sigmoid3."""


def phi(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the normal distribution function F(x), where gelu(x) = x F(x), and its derivative, the normal density."""
    return (1 + (x / math.sqrt(2)).erf()) / 2, torch.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def gelu_slip(place: int, wrong: Callable[..., torch.Tensor], says: str) -> Misconception:
    """Make the Misconception that result number `place` is wrong(x, gate, dy, F, density), all in float64."""

    def of_call(**call: torch.Tensor) -> torch.Tensor:
        x, gate, dy = (call[name].double() for name in ("x", "gate", "dy"))
        return wrong(x, gate, dy, *phi(x))

    return Misconception(of_call, says, place=place)


GELUS = [
    gelu_slip(
        0,
        lambda x, gate, dy, F, density: gelu(x, approximate="tanh") * gate,
        say("recomputation.recomputed_gelu.the_tanh_approximation"),
    ),
    gelu_slip(
        1,
        lambda x, gate, dy, F, density: dy * gate * F,
        say("recomputation.recomputed_gelu.the_density_forgotten"),
    ),
    gelu_slip(
        1,
        lambda x, gate, dy, F, density: dy * gate * (F + x * density * math.sqrt(2 * math.pi)),
        say("recomputation.recomputed_gelu.density_without_its_root"),
    ),
    gelu_slip(
        2, lambda x, gate, dy, F, density: dy * F, say("recomputation.recomputed_gelu.the_gate_s_gradient_without_x")
    ),
]
"""Slips in recomputed_gelu."""


def logits_slip(wrong: Callable[..., torch.Tensor], says: str) -> Misconception:
    """Make the Misconception that the gradient is wrong(p, ones at the targets, dloss (M, 1)), all in float64."""

    def of_call(x: torch.Tensor, target: torch.Tensor, lse: torch.Tensor, dloss: torch.Tensor) -> torch.Tensor:
        p = torch.exp(x.double() - lse.double()[:, None])
        return wrong(p, torch.zeros_like(p).scatter_(1, target[:, None], 1), dloss.double()[:, None])

    return Misconception(of_call, says)


def gradient_of_logits(
    x: torch.Tensor, target: torch.Tensor, lse: torch.Tensor, dloss: torch.Tensor, block: int = 0
) -> torch.Tensor:
    """Compute dx as a kernel does, in float64. block: each block of that many columns is divided by its own sum, and lse is not used."""
    p = torch.exp(x.double() - lse.double()[:, None])
    if block:
        blocks = pad(x.double(), (0, -x.shape[1] % block), value=-torch.inf).unflatten(1, (-1, block))
        p = blocks.softmax(2).flatten(1)[:, : x.shape[1]]
    return (p - torch.zeros_like(p).scatter_(1, target[:, None], 1)) * dloss.double()[:, None]


LOGITS = [
    logits_slip(lambda p, ones, dloss: p * dloss, say("recomputation.cross_entropy_backward.the_target_forgotten")),
    logits_slip(lambda p, ones, dloss: p - ones, say("recomputation.cross_entropy_backward.dloss_forgotten")),
    logits_slip(lambda p, ones, dloss: p * dloss - ones, say("recomputation.cross_entropy_backward.dloss_on_p_alone")),
    Misconception(
        [partial(gradient_of_logits, block=2**k) for k in range(5, 14)],
        say("recomputation.cross_entropy_backward.each_block_by_itself"),
        each=True,
        strict=True,
    ),
    Misconception(
        lambda x, target, lse, dloss: gradient_of_logits(x, target, -lse, dloss),
        say("recomputation.cross_entropy_backward.adds_lse"),
    ),
    Misconception(
        lambda x, target, lse, dloss: (
            gradient_of_logits(x, target, lse.log(), dloss) if bool((lse > 0).all()) else None  # NaN is like every NaN
        ),
        say("recomputation.cross_entropy_backward.the_logarithm_of_lse"),
    ),
    *(row_0(gradient_of_logits, name) for name in ("x", "target", "lse", "dloss")),
]
"""Slips in cross_entropy_backward."""


def norm_slip(place: int, wrong: Callable[..., torch.Tensor], says: str) -> Misconception:
    """Make the Misconception that result number `place` is wrong(n, g, rstd, x, dy, weight): n = x * rstd, g = dy * weight, in float64."""

    def of_call(x: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
        x, weight, rstd, dy = x.double(), weight.double(), rstd.double()[:, None], dy.double()
        return wrong(x * rstd, dy * weight, rstd, x, dy, weight)

    return Misconception(of_call, says, place=place)


def along_rows(x: torch.Tensor) -> torch.Tensor:
    """Compute the mean of each row, (M, 1)."""
    return x.mean(1, keepdim=True)


RMSNORMS = [
    norm_slip(
        0,
        lambda n, g, rstd, x, dy, weight: rstd * (g - n * (g * n).sum(1, keepdim=True)),
        say("recomputation.rmsnorm_backward.the_sum_not_the_mean"),
    ),
    norm_slip(
        0,
        lambda n, g, rstd, x, dy, weight: rstd * (dy - n * along_rows(dy * n)),
        say("recomputation.rmsnorm_backward.the_weight_forgotten"),
    ),
    norm_slip(
        0,
        lambda n, g, rstd, x, dy, weight: rstd * g,
        say("recomputation.rmsnorm_backward.rstd_taken_as_constant"),
    ),
    norm_slip(
        1,
        lambda n, g, rstd, x, dy, weight: (dy * x).sum(0),
        say("recomputation.rmsnorm_backward.dweight_of_rows_that_are_not_normed"),
    ),
]
"""Slips in rmsnorm_backward."""

UPSIDE_DOWN = Misconception(
    lambda x, p, seed, dy: x.double() * ~kept_elements(x, p, seed) / (1 - p),
    say("recomputation.seeded_dropout.drops_what_it_should_keep"),
)


def one_block_for_all(block: int) -> Callable[..., torch.Tensor]:
    """Make the wrong dropout in which every block of elements draws the random numbers of the first one."""

    def wrong(x: torch.Tensor, p: float, seed: int, dy: torch.Tensor) -> torch.Tensor:
        kept = kept_elements(x, p, seed).flatten()
        return x.double() * kept[torch.arange(x.numel()) % block].reshape(x.shape) / (1 - p)

    return wrong


SAME_MASK = Misconception(
    [one_block_for_all(2**k) for k in range(7, 13)],
    say("recomputation.seeded_dropout.the_same_mask_in_every_block"),
)
