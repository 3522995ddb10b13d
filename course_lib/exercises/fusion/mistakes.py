"""Mistakes in fused kernels, and how results reveal them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
import triton

from course_lib.catalogue import say
from course_lib.criteria import GradedTrial, passed_on
from course_lib.criteria.results import SomeTrial
from course_lib.exercise import Trial
from course_lib.exercises.fusion.cases import nbytes
from course_lib.exercises.misconceptions import Misconception, row_0
from course_lib.mistakes import MistakeMatcher
from course_lib.workloads.chains import traced_stages


def performance(trials: Sequence[SomeTrial]) -> list[SomeTrial]:
    """Select the trials of the performance group that launched a kernel."""
    return [t for t in trials if t.case.group == "performance" and t.evidence.launches]


def read_times(tensor: str, times: float, sentence: str) -> MistakeMatcher:
    """Make a matcher that returns `sentence` if kernels with right results read a tensor at least `times` times."""

    def look(trials: Sequence[GradedTrial]) -> str:
        for trial in (t for t in performance(trials) if not t.difference):
            own = [f for launch in trial.evidence.launches for f in launch.footprints if f.tensor == tensor]
            distinct = max([1, *(f.read_distinct_bytes for f in own)])
            if sum(f.read_bytes for f in own) >= times * distinct:
                return sentence
        return ""

    return look


def several_launches(trials: Sequence[Trial]) -> str:
    """Return a remark if a call makes several launches, by whether one reads what another wrote; else ""."""
    several = [t.evidence.launches for t in performance(trials) if len(t.evidence.launches) > 1]
    if not several:
        return ""
    return ONE_LAUNCH if any(map(passed_on, several)) else SIDE_BY_SIDE


def results(trials: Sequence[Trial], *groups: str) -> list[tuple[dict[str, Any], torch.Tensor]]:
    """Collect (arguments, result) of each call in these groups, or in all, that returned a tensor. Of a tuple, take the first part."""
    pairs = [p for t in trials if t.case.group in groups or not groups for p in t.calls]
    firsts = [(arguments, o[0] if isinstance(o, list) and o else o) for arguments, o in pairs]
    return [(arguments, o) for arguments, o in firsts if isinstance(o, torch.Tensor)]


def nan_of_exp(trials: Sequence[GradedTrial]) -> str:
    """Return a remark on the cause of NaN in exponentials along rows, unless masked positions without `other` explain it; else ""."""
    lanes = any(t.evidence.poisoned for t in trials)
    if lanes and any(bool(o.isnan().any()) for _, o in results(trials, "ragged")):
        return ""
    pairs = [
        (next(iter(a.values())).float(), out.isnan().reshape(len(out), -1))
        for a, out in results(trials, "plain", "hard")
    ]
    rows = [x[nan.any(1)] for x, nan in pairs if len(x) == len(nan) and bool(nan.any())]
    if any(bool((x.abs().amax(1) < 80).any()) for x in rows):  # exp(x) is neither 0 nor infinite there
        everywhere = not lanes and all(bool(nan.all()) for _, nan in pairs)
        return UPSIDE_DOWN if everywhere and all(map(stored_whole, trials)) else ""
    if any(map(_overflow, rows)):
        if any(bool(out.isnan().any()) for _, out in results(trials, "ragged")):
            return ""  # there nothing overflows: the cause is another one
        right = [x[~nan.any(1)] for x, nan in pairs if len(x) == len(nan)]
        if any(bool(out.isposinf().any()) for _, out in results(trials, "plain", "hard")):
            return ""  # the sum is too small
        return NOT_THE_MAXIMUM if any(map(_overflow, right)) else OVERFLOWS
    masked = [bool(x.isinf().any()) for x in rows]
    if any(masked):
        return MASKED_START if all(masked) else ""
    return STARTS_AT_0 if rows else ""


def log_of_0(trials: Sequence[GradedTrial]) -> str:
    """Return a remark if losses are -inf where all logits are far below 0, and no others are infinite; else ""."""
    pairs = [
        (arguments["logits"].float().amax(1), out) for arguments, out in results(trials, "plain", "ragged", "hard")
    ]
    tops = torch.cat([top[out.isinf()] for top, out in pairs if top.shape == out.shape] or [torch.empty(0)])
    nothing_subtracted = any(bool(out.isposinf().any()) for _, out in pairs)
    return STARTS_AT_0 if len(tops) and bool((tops < -80).all()) and not nothing_subtracted else ""


def stored_whole(trial: Trial) -> bool:
    """Whether kernels wrote each element of the last result, the only one: what they did not write shows as NaN, too."""
    written = sum(
        f.written_distinct_bytes for launch in trial.evidence.launches for f in launch.footprints if f.tensor == "out"
    )
    return all(written >= nbytes(out) for _, out in results([trial])[-1:])


def _overflow(rows: torch.Tensor) -> bool:
    """Whether the exponentials of some finite row would not be finite."""
    return bool(((rows.amax(1) > 89) & rows.isfinite().all(1)).any())


def overflows(trials: Sequence[GradedTrial]) -> str:
    """Return a remark if a softmax of whole rows is NaN where exp(x) is infinite, else ""."""
    return OVERFLOWS if nan_of_exp(trials) == OVERFLOWS else ""


def nan_beside_masked_positions(trials: Sequence[GradedTrial]) -> str:
    """Return a remark if rows of a power of 2 of elements are right, and others all NaN, though stored and not masked; else ""."""
    nan: dict[bool, set[bool]] = {True: set(), False: set()}  # by whether a block that holds a row has masked positions
    for t in trials:
        if t.stopped or t.evidence.faults or t.evidence.poisoned or not t.evidence.launches:
            return ""
        if not stored_whole(t):
            return ""
        for call, out in results([t]):
            N = call["x"].shape[1]
            whole = bool(out.isnan().all())
            if whole or not t.difference:
                nan[triton.next_power_of_2(N) != N].add(whole)
            else:
                return ""
    return say("fusion.softmax.nan_beside_masked_positions") if nan == {True: {True}, False: {False}} else ""


def columns_add_up(trials: Sequence[GradedTrial]) -> str:
    """Return a remark if the columns of a block of rows add up to 1, and not the rows; else ""."""
    for arguments, out in results([t for t in trials if t.difference], "plain"):
        M, N = arguments["x"].shape
        for rows in (2, 4, 8, 16, 32, 64):
            if out.shape == (M, N) and M % rows == 0:
                sums = out.double().reshape(-1, rows, N).sum(1)
                if torch.allclose(sums, torch.ones_like(sums), rtol=0.01):
                    return say("fusion.softmax.columns_add_up", rows=rows)
    return ""


def cut_off(trials: Sequence[GradedTrial]) -> str:
    """Return a remark if the start of each row is its own softmax, and the rest of the row was not stored; else ""."""
    for arguments, out in results([t for t in trials if t.difference]):
        there = ~out.isnan()
        first = int(there[0].sum()) if out.dim() == 2 else 0
        if out.shape == arguments["x"].shape and 0 < first < out.shape[1] and bool((there.sum(1) == first).all()):
            right = torch.softmax(arguments["x"][:, :first].double(), 1)
            if torch.allclose(out[:, :first].double(), right, 0.01):
                return say("fusion.softmax.cut_off", columns=out.shape[1], first=first)
    return ""


def not_apart(function: Callable[..., torch.Tensor]) -> MistakeMatcher:
    """Make the matcher of programs that begin one element apart instead of one row."""

    def wrong(x: torch.Tensor) -> torch.Tensor:
        return function(x.as_strided(x.shape, (x.stride(1), x.stride(1))))

    mistake = Misconception(wrong, say("fusion.softmax.not_apart"), each=True)

    def look(trials: Sequence[GradedTrial]) -> str:
        # row * N gives the same result where a row has one element, and where both ways read the NaN next to a window
        said, found = mistake(trials), results([t for t in trials if t.difference])
        telling = said and any(call["x"].shape[1] > 1 and bool(out[1:].isfinite().any()) for call, out in found)
        return said if telling else ""

    return look


def divided_by(sum_of: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    """Make the wrong formula that divides p = exp(x - m) by `sum_of(x, p)`."""

    def wrong(x: torch.Tensor) -> torch.Tensor:
        p = torch.exp(x.double() - x.double().amax(1, keepdim=True))
        return p / sum_of(x.double(), p)

    return wrong


def normed_by(factor: Callable[[torch.Tensor, float], torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Make the wrong formula that multiplies x (plus residual) by the weight and by `factor(x, eps)`."""

    def wrong(x: torch.Tensor, weight: torch.Tensor, eps: float, residual: torch.Tensor | None = None) -> torch.Tensor:
        x = x.double() + (0 if residual is None else residual.double())
        return x * weight.double() * factor(x, eps)

    return wrong


def layer_norm(x: torch.Tensor, weight: torch.Tensor, eps: float, residual: torch.Tensor | None = None) -> torch.Tensor:
    """Compute the layer norm of x (plus residual), without a bias."""
    x = x.double() + (0 if residual is None else residual.double())
    return F.layer_norm(x, weight.shape, weight.double(), eps=eps)


def mean_square(x: torch.Tensor) -> torch.Tensor:
    """Compute the mean of the squares of each row."""
    return x.square().mean(1, keepdim=True)


def rsqrt_of_mean(x: torch.Tensor, eps: float) -> torch.Tensor:
    """Compute the factor by which RMSNorm multiplies each row."""
    return (mean_square(x) + eps).rsqrt()


def weighted_by(of: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Make the wrong formula in which of(normed row, weight) takes the place of their product."""

    def wrong(x: torch.Tensor, weight: torch.Tensor, eps: float, residual: torch.Tensor | None = None) -> torch.Tensor:
        return of(normed_by(rsqrt_of_mean)(x, torch.ones_like(weight), eps, residual), weight.double())

    return wrong


def loss_by(of_row: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Make a cross-entropy loss from of_row(float32 logits (M, V), logits of the targets (M,))."""
    return lambda logits, target: of_row(logits.float(), logits.float().gather(1, target[:, None])[:, 0])


def packed(x: torch.Tensor) -> torch.Tensor:
    """Return the matrix that is read where rows of x are taken to follow one another."""
    return x.as_strided(x.shape, (x.shape[1], 1))


def padded(block: int) -> Callable[..., torch.Tensor]:
    """Make the wrong loss in which masked positions of the last block hold 0."""
    return loss_by(lambda x, right: F.pad(x.double(), (0, -x.shape[1] % block)).logsumexp(1) - right)


def uncorrected(block: int) -> Callable[..., torch.Tensor]:
    """Make the wrong loss in which the sum of earlier blocks is not rescaled when the maximum grows."""

    def loss(x: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        blocks = F.pad(x.double(), (0, -x.shape[1] % block), value=-torch.inf).unflatten(1, (-1, block))
        m = blocks.amax(2).cummax(1).values.clamp(min=-3.4e38)
        return m[:, -1] + (blocks - m[:, :, None]).exp().sum((1, 2)).log() - right

    return loss_by(loss)


def infinite_everywhere(trials: Sequence[Trial]) -> str:
    """Return a remark if every result is infinite in each element, else ""."""
    found = [bool(out.isposinf().all()) for _, out in results(trials)]
    return say("fusion.online_softmax.infinite_everywhere") if found and all(found) else ""


def all_zero(group: str, sentence: str) -> MistakeMatcher:
    """Make a matcher that returns `sentence` if a result of this group is zero everywhere."""
    return lambda trials: sentence if any(not bool(o.any()) for _, o in results(trials, group)) else ""


def scaled_rows(too_large: str, too_small: str = "") -> MistakeMatcher:
    """Make a matcher of rows that are the softmax times a factor below 1 or above it, since its sum is too large or too small."""

    def look(trials: Sequence[Trial]) -> str:
        for arguments, out in results(trials, "plain", "ragged", "hard", "long"):
            right, out = torch.softmax(arguments["x"].double(), 1), out.double()
            if out.shape == right.shape and bool(out.isfinite().all()):
                factor = out.sum(1, keepdim=True)
                far = (out - factor * right).abs().amax(1, keepdim=True) / (factor * right).amax(1, keepdim=True)
                if not bool((far < 0.01).all() and (factor > 0).all()):
                    continue
                below, above = factor < 0.99, factor > 1.01
                if bool(below.any()) != bool(above.any()):
                    return too_large if below.any() else too_small
        return ""

    return look


def divided_by_the_block(trials: Sequence[Trial]) -> str:
    """Return a remark if a mean of squares was taken over a whole block, masked positions included; else ""."""
    found = False
    for arguments, out in results(trials, "ragged"):
        x, N = arguments["x"].double() + arguments.get("residual", torch.zeros(())).double(), arguments["x"].shape[1]
        if triton.next_power_of_2(N) == N:
            continue  # no lane is masked
        mean = x.square().sum(1, keepdim=True) / triton.next_power_of_2(N)
        likely = x * torch.rsqrt(mean + arguments["eps"]) * arguments["weight"].double()
        if out.shape != likely.shape or not torch.allclose(out.double(), likely, rtol=0.01, atol=0.01):
            return ""
        found = True
    return BY_BLOCK if found else ""


def one_store_each(out: Any, n: int, ops: Sequence[Sequence[str]], itemsize: int, fused: Sequence[int]) -> bool:
    """Tell whether the bytes of a chain were counted as if each kernel stored one tensor."""
    stages, _ = traced_stages(n, ops, itemsize, fused)
    return out == n * itemsize * sum(len(stage.loads) + 1 for stage in stages)


ONE_LAUNCH = say("fusion.add_rmsnorm.two_kernels")
SIDE_BY_SIDE = say("fusion.rmsnorm.a_launch_for_each_row")
IN_REGISTERS = say("fusion.bias_gelu.reads_x_twice")
NOT_THE_MAXIMUM = say("fusion.online_softmax.the_maximum_of_the_last_block")
OVERFLOWS = say("fusion.online_softmax.no_maximum")
STARTS_AT_0 = say("fusion.online_softmax.starts_at_0")
UPSIDE_DOWN = say("fusion.online_softmax.upside_down")
MASKED_START = say("fusion.cross_entropy.starts_at_inf")

MASKED_ZERO = say("fusion.online_softmax.masked_positions_count")
NO_CORRECTION = say("fusion.online_softmax.no_correction")
BY_BLOCK = say("fusion.add_rmsnorm.divides_by_the_block")
SQUARED = say("fusion.rmsnorm.squares_in_the_dtype_of_x")
NORMS = (
    [
        Misconception(normed_by(factor), sentence, each=True)
        for factor, sentence in (
            (
                lambda x, eps: 1 / (mean_square(x).sqrt() + eps),
                say("fusion.rmsnorm.eps_outside_the_root"),
            ),
            (lambda x, eps: mean_square(x).rsqrt(), say("fusion.add_rmsnorm.no_eps")),
            (
                lambda x, eps: (x.square().sum(1, keepdim=True) + eps).rsqrt(),
                say("fusion.rmsnorm.a_sum_not_a_mean"),
            ),
            (
                lambda x, eps: 1 / (mean_square(x) + eps),
                say("fusion.rmsnorm.no_root"),
            ),
            (
                lambda x, eps: (x.square().sum(1, keepdim=True) / (x.shape[1] - 1) + eps).rsqrt(),
                say("fusion.rmsnorm.one_less"),
            ),
            (
                lambda x, eps: (mean_square(x) + eps * x.shape[1]).rsqrt(),
                say("fusion.rmsnorm.eps_for_each_element"),
            ),
            (lambda x, eps: (mean_square(x) + eps).sqrt(), say("fusion.rmsnorm.multiplied_by_the_root")),
            (lambda x, eps: (x.mean(1, keepdim=True) + eps).rsqrt(), say("fusion.rmsnorm.not_squared")),
            (lambda x, eps: (x.var(1, correction=0, keepdim=True) + eps).rsqrt(), say("fusion.rmsnorm.the_variance")),
        )
    ]
    + [
        Misconception([normed_by(factor) for factor in factors], sentence, each=True, strict=True)
        for factors, sentence in (
            (
                [
                    lambda x, eps: 1 / (x.abs().mean(1, keepdim=True) + eps),
                    lambda x, eps: (x.abs().mean(1, keepdim=True) + eps).rsqrt(),
                ],
                say("fusion.rmsnorm.magnitudes"),
            ),
            (
                [
                    lambda x, eps: (x.mean(1, keepdim=True).square() + eps).rsqrt(),
                    lambda x, eps: (x.sum(1, keepdim=True).square() / x.shape[1] + eps).rsqrt(),
                ],
                say("fusion.rmsnorm.squared_after_the_sum"),
            ),
        )
    ]
    + [
        Misconception(weighted_by(of), sentence, each=True)
        for of, sentence in (
            (lambda x, weight: x, say("fusion.rmsnorm.forgets_the_weights")),
            (lambda x, weight: x * (1 + weight), say("fusion.rmsnorm.one_more_than_the_weights")),
            (lambda x, weight: x + weight, say("fusion.rmsnorm.adds_the_weights")),
            (lambda x, weight: x / weight, say("fusion.rmsnorm.divided_by_the_weights")),
        )
    ]
    + [Misconception(layer_norm, say("fusion.rmsnorm.the_layer_norm"), each=True)]
)
OF_X = Misconception(
    lambda x, residual, weight, eps: x.double() * weight.double() * rsqrt_of_mean(x.double() + residual.double(), eps),
    say("fusion.add_rmsnorm.normalises_x"),
    each=True,
)
RESIDUAL = [
    OF_X,
    Misconception(
        lambda x, residual, weight, eps: normed_by(rsqrt_of_mean)(x, weight, eps) + residual.double(),
        say("fusion.add_rmsnorm.adds_afterwards"),
        each=True,
    ),
    Misconception(
        lambda x, residual, weight, eps: normed_by(rsqrt_of_mean)(x, weight, eps),
        say("fusion.add_rmsnorm.forgets_the_residual"),
        each=True,
    ),
    Misconception(
        lambda x, residual, weight, eps: (
            normed_by(rsqrt_of_mean)(x, weight, eps, residual) + x.double() + residual.double()
        ),
        say("fusion.add_rmsnorm.adds_again"),
        each=True,
    ),
]
CROSS_ENTROPY = [
    *(
        Misconception(padded(2**k), say("fusion.cross_entropy.masked_positions_hold_0"), each=True)
        for k in range(7, 18)
    ),
    *(
        Misconception(uncorrected(2**k), say("fusion.cross_entropy.the_old_sum_uncorrected"), each=True)
        for k in range(7, 18)
    ),
    Misconception(
        loss_by(lambda x, right: x.logsumexp(1) - x.amax(1) - right),
        say("fusion.cross_entropy.forgets_the_maximum"),
        each=True,
    ),
    Misconception(
        loss_by(lambda x, right: x.logsumexp(1) - 2 * x.amax(1) - right),
        say("fusion.cross_entropy.subtracts_the_maximum"),
        each=True,
    ),
    Misconception(
        lambda logits, target: packed(logits).double().logsumexp(1) - logits.double().gather(1, target[:, None])[:, 0],
        say("fusion.cross_entropy.packed_rows"),
        each=True,
        times=1000,
    ),
    Misconception(
        lambda logits, target: logits.double().logsumexp(1) - logits.double()[0, target],
        say("fusion.cross_entropy.the_target_in_row_0"),
        each=True,
        times=1000,
    ),
    Misconception(
        lambda logits, target: logits.double().logsumexp(1) - packed(logits).double().gather(1, target[:, None])[:, 0],
        say("fusion.cross_entropy.the_target_in_packed_rows"),
        each=True,
        times=1000,
    ),
    Misconception(
        loss_by(lambda x, right: x.amax(1) + (x.logsumexp(1) - x.amax(1)) / math.log(2) - right),
        say("fusion.cross_entropy.log2"),
        each=True,
        times=100,
    ),
    *(row_0(loss_by(lambda x, right: x.double().logsumexp(1) - right), name) for name in ("logits", "target")),
    *(
        Misconception(loss_by(of_row), sentence, each=True)
        for of_row, sentence in (
            (lambda x, right: x.double().logsumexp(1), say("fusion.cross_entropy.the_target_forgotten")),
            (lambda x, right: right - x.double().logsumexp(1), say("fusion.cross_entropy.the_other_sign")),
            (lambda x, right: (x.double().logsumexp(1) - right) / len(x), say("fusion.cross_entropy.the_mean")),
            (lambda x, right: (right - x.double().logsumexp(1)).exp(), say("fusion.cross_entropy.the_probability")),
            (lambda x, right: -(right - x.double().logsumexp(1)).exp(), say("fusion.cross_entropy.the_probability")),
        )
    ),
    Misconception(
        loss_by(lambda x, right: x.exp().sum(1).log() - right),
        say("fusion.cross_entropy.no_maximum"),
        each=True,
    ),
    Misconception(
        loss_by(lambda x, right: -(torch.exp(right - x.amax(1)) / torch.exp(x - x.amax(1, keepdim=True)).sum(1)).log()),
        say("fusion.cross_entropy.the_logarithm_of_the_softmax"),
    ),
]
SIN_COS = [
    Misconception(lambda x, y, of=of: of(x.double(), y.double()), sentence, each=True)
    for of, sentence in (
        (lambda x, y: x.cos().square() + y.sin().square(), say("fusion.sin2_plus_cos2.exchanged")),
        (lambda x, y: x.square().sin() + y.square().cos(), say("fusion.sin2_plus_cos2.of_the_squares")),
        (lambda x, y: x.sin().square() - y.cos().square(), say("fusion.sin2_plus_cos2.subtracted")),
        (lambda x, y: x.sin() + y.cos(), say("fusion.sin2_plus_cos2.not_squared")),
        (lambda x, y: (x.sin() + y.cos()).square(), say("fusion.sin2_plus_cos2.squared_after_the_sum")),
        (lambda x, y: x.sin() * y.cos(), say("fusion.sin2_plus_cos2.multiplied")),
    )
]
BASE_2 = Misconception(
    lambda x: torch.softmax(x.double() * math.log(2), 1), say("fusion.softmax.powers_of_2"), each=True, times=100
)
NO_DIVISION = Misconception(divided_by(lambda x, p: torch.ones(())), say("fusion.softmax.no_division"), each=True)
SOFTMAX = [
    NO_DIVISION,
    BASE_2,
    Misconception(
        [divided_by(lambda x, p, eps=10.0**-n: p.sum(1, keepdim=True) + eps) for n in range(3, 8)],
        say("fusion.softmax.eps_in_the_sum"),
        each=True,
    ),
    Misconception(
        divided_by(lambda x, p: p.sum(1, keepdim=True).log()), say("fusion.softmax.the_logarithm_of_the_sum"), each=True
    ),
    Misconception(lambda x: x.double().log_softmax(1), say("fusion.softmax.the_logarithm_of_the_softmax"), each=True),
    Misconception(
        divided_by(lambda x, p: torch.tensor(float(x.shape[1]))), say("fusion.softmax.divided_by_the_length"), each=True
    ),
    Misconception(
        [
            lambda x, most=most: torch.softmax(x.double().clamp(max=most), 1)
            for most in (10, 20, 30, 50, 60, 70, 80, 85, 88)
        ],
        say("fusion.softmax.logits_cut_off"),
    ),
]
STORES_ONE = say("fusion.chain_bytes.one_store_a_kernel")
GELUS = [
    Misconception(lambda x, bias, of=of: of(x.double(), bias.double()), sentence, each=True)
    for of, sentence in (
        (lambda x, bias: F.gelu(x + bias, approximate="tanh"), say("fusion.bias_gelu.the_tanh_approximation")),
        (lambda x, bias: (x + bias) * torch.sigmoid(1.702 * (x + bias)), say("fusion.bias_gelu.by_sigmoid")),
        (lambda x, bias: F.silu(x + bias), say("fusion.bias_gelu.silu")),
        (lambda x, bias: F.relu(x + bias), say("fusion.bias_gelu.relu")),
        (
            lambda x, bias: 0.5 * (x + bias) * (1 + torch.erf(x + bias)),
            say("fusion.bias_gelu.the_root_of_2_forgotten"),
        ),
        (lambda x, bias: F.gelu(x) + bias, say("fusion.bias_gelu.the_bias_afterwards")),
        (lambda x, bias: F.gelu(x), say("fusion.bias_gelu.forgets_the_bias")),
    )
]


def by_row(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Compute GELU with bias[i] added to row i."""
    own = bias.double()[torch.arange(len(x)).clamp(max=len(bias) - 1)]
    return F.gelu(x.double() + own[:, None])
