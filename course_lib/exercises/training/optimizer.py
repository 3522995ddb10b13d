"""Optimizers: what each adds to the one before, and AdamW in one launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from course_lib.catalogue import say
from course_lib.criteria import EPS32, GATES, BuffersBelow, Launches, Traffic, correct, roundings
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.cases import BF16, FP32, fixed, operations
from course_lib.exercises.misconceptions import Misconception
from course_lib.mistakes import every, for_cases, on_fault

TORCHS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": lambda p, lr: torch.optim.SGD(p, lr),
    "momentum": lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9),
    "adagrad": lambda p, lr: torch.optim.Adagrad(p, lr, eps=1e-8),
    "rmsprop": lambda p, lr: torch.optim.RMSprop(p, lr, alpha=0.99, eps=1e-8),
    "adam": lambda p, lr: torch.optim.Adam(p, lr, betas=(0.9, 0.999), eps=1e-8),
}
"""The rules that `update` knows, with the constants that the unit names."""


def by_torch(rule: str, start: float, gradients: list[float], lr: float) -> tuple[float, ...]:
    """Return the weight after each step of torch's optimizer, in float64."""
    p = torch.tensor([start], dtype=torch.float64, requires_grad=True)
    optimizer, found = TORCHS[rule]([p], lr), []
    for gradient in gradients:
        p.grad = torch.tensor([gradient], dtype=torch.float64)
        optimizer.step()
        found.append(float(p.detach()))
    return tuple(found)


def steps(name: str, rule: str, gradients: list[float], lr: float = 0.1, start: float = 1.0) -> Case:
    """Make a case of one weight that gets these gradients, in the group of its rule."""
    return fixed(name, rule, rule=rule, start=start, gradients=gradients, lr=lr)


def alike(wrong: Callable[..., list[float]]) -> Callable[..., bool]:
    """Make a function that tells whether the weights are those that `wrong` gives, where that is not right."""

    def matches(output: Any, **arguments: Any) -> bool:
        guess, right = wrong(**arguments), by_torch(**arguments)
        if not isinstance(output, list) or len(output) != len(guess) or not all(type(v) is float for v in output):
            return False
        return any(abs(a - b) > 1e-9 for a, b in zip(guess, right, strict=True)) and all(
            abs(a - b) <= 1e-9 * max(1, abs(b)) for a, b in zip(output, guess, strict=True)
        )

    return matches


def of_rule(rule: str, matches: Callable[..., bool], sentence: str) -> Callable[..., str]:
    """Make a matcher that returns `sentence` if every result of this rule satisfies `matches`."""
    return for_cases(lambda case: case.group == rule, every(matches, sentence))


def uncorrected(rule: str, start: float, gradients: list[float], lr: float) -> list[float]:
    """Return the weights of Adam without its bias corrections."""
    p, m, v, found = start, 0.0, 0.0, []
    for g in gradients:
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        p -= lr * m / (v**0.5 + 1e-8)
        found.append(p)
    return found


def outside(rule: str, start: float, gradients: list[float], lr: float) -> list[float]:
    """Return the weights of an Adam that divides the root of v by 1 - 0.999^t, and not v."""
    p, m, v, found = start, 0.0, 0.0, []
    for t, g in enumerate(gradients, 1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        p -= lr * (m / (1 - 0.9**t)) / (v**0.5 / (1 - 0.999**t) + 1e-8)
        found.append(p)
    return found


def averaged(rule: str, start: float, gradients: list[float], lr: float) -> list[float]:
    """Return the weights of momentum as a mean: 0.9 of the old and 0.1 of the new."""
    p, m, found = start, 0.0, []
    for g in gradients:
        m = 0.9 * m + 0.1 * g
        p -= lr * m
        found.append(p)
    return found


update = Exercise(
    id="training.update",
    track="more",
    signature="update(rule: str, p: float, g: float, state: dict, lr: float) -> float, the new p; state is kept between steps",
    kind="formula",
    without=["torch.optim"],
    called="step by step",
    effort=Effort(minutes=15, lines=18, difficulty=2),
    cases=[
        steps("sgd, 3 steps", "sgd", [1.0, -0.5, 2.0]),
        steps("momentum, 4 steps", "momentum", [1.0, 1.0, -0.5, 2.0]),
        steps("adagrad, 4 steps", "adagrad", [3.0, 1.0, -0.5, 2.0]),
        steps("adagrad, small gradients", "adagrad", [3e-8, -1e-8, 2e-8], lr=0.01),
        steps("rmsprop, 4 steps", "rmsprop", [3.0, 1.0, -0.5, 2.0], lr=0.01),
        steps("adam, 5 steps", "adam", [3.0, 1.0, -0.5, 2.0, 0.25], lr=0.01),
        steps("adam, small gradients", "adam", [3e-8, -1e-8, 2e-8], lr=0.01),
    ],
    oracle=by_torch,
    criteria=correct("training.update", {"sgd": 1, "momentum": 1, "adagrad": 1, "rmsprop": 1, "adam": 2}),
    mistakes=[
        of_rule("adam", alike(uncorrected), say("training.update.adam_without_bias_correction")),
        of_rule("adam", alike(outside), say("training.update.adam_corrects_the_root_of_v")),
        of_rule("momentum", alike(averaged), say("training.update.momentum_as_a_mean")),
    ],
)


# ------------------------------------------------------------------------------------------------------- AdamW

BETA1, BETA2, EPS = 0.9, 0.95, 1e-8


def weights(
    n: int, low: torch.dtype | None = None, *, step: int = 1000, decay: float = 0.0, small: bool = False
) -> Callable[[torch.Generator], dict[str, Any]]:
    """Return a function that draws p, g, m, v, low and AdamW's other arguments.

    A late step without decay and with gradients far above eps, so that each of these can be wrong alone. low: the dtype of
    the model's rounded copy of p and of the gradient;  small: gradients near eps.
    """

    def draw(g: torch.Generator) -> dict[str, Any]:
        def normal(scale: float) -> torch.Tensor:
            return torch.randn(n, generator=g, device=g.device) * scale

        p, size = normal(1.0), EPS if small else 1.0
        m, v = normal(size), (0.5 + torch.rand(n, generator=g, device=g.device)) * size**2
        tensors = {"p": p, "g": normal(size).to(low or FP32), "m": m, "v": v, "low": None if low is None else p.to(low)}
        told = {"lr": 1e-2, "beta1": BETA1, "beta2": BETA2, "eps": EPS, "weight_decay": decay, "step": step}
        return tensors | told | {"changes": ["p", "m", "v"] + ([] if low is None else ["low"])}

    return draw


def stepped(
    *,
    exponent: int = 0,
    corrected: str = "mv",
    sign: int = 1,
    coupled: bool = False,
    by_rate: bool = True,
    inside: bool = False,
    folded: bool = False,
) -> Callable[..., tuple]:
    """Make a function for one step of AdamW in float64, which returns p, m, v and the rounded p; or one with a mistake in it.

    exponent    how many steps later than it is the bias corrections take it to be;  corrected: which of m and v have one
    sign        -1: the step goes up
    coupled     decay is put into the gradient;  by_rate: decay is times the rate
    inside      eps is under the root;  folded: eps is added to the root of v, before the correction, and corrected with it
    """

    def made(p, g, m, v, low, lr, beta1, beta2, eps, weight_decay, step, **_: Any) -> tuple:
        p, g = p.double(), g.double()
        g = g + weight_decay * p if coupled else g
        m, v = beta1 * m.double() + (1 - beta1) * g, beta2 * v.double() + (1 - beta2) * g * g
        t = step + exponent
        c1, c2 = (1 - beta**t if name in corrected and t else 1.0 for name, beta in (("m", beta1), ("v", beta2)))
        root = (v / c2 + eps).sqrt() if inside else (v / c2).sqrt() + (eps / c2**0.5 if folded else eps)
        p = p if coupled else p * (1 - (lr if by_rate else 1) * weight_decay)
        p = p - sign * lr * (m / c1) / root
        return p.float(), m.float(), v.float(), *([] if low is None else [p.to(low.dtype)])

    return made


def near(expected: torch.Tensor, dtype: torch.dtype, arguments: dict[str, Any]) -> torch.Tensor:
    """Return the error bound of a few float32 roundings of each term, and those of the result's dtype."""
    terms = expected.abs() + arguments["m"].double().abs() + arguments["g"].double().abs() + 4 * arguments["lr"]
    return roundings(expected, dtype, 2) + 8 * EPS32 * terms


def least_bytes(p: torch.Tensor, g: torch.Tensor, low: torch.Tensor | None, **_: Any) -> int:
    """Count the bytes of a step: p, m, v read and written, g read, low written: 28 bytes per parameter, in half precision, too."""
    return 24 * p.numel() + g.nbytes + (0 if low is None else low.nbytes)


def from_the_rounded(low: torch.Tensor | None, **call: Any) -> tuple | None:
    """Compute a step that begins from the model's rounded weights; None where there are none."""
    return None if low is None else stepped()(**(call | {"p": low.float()}), low=low)


def slip(says: str, wrong: Callable[..., tuple | None] | None = None, **mistake: Any) -> Misconception:
    """Make a Misconception about the new p."""
    return Misconception(wrong or stepped(**mistake), says, stepped())


adamw_step = Exercise(
    id="training.adamw_step",
    signature="adamw_step(p, g, m, v, low: (n,) or None, lr, beta1, beta2, eps, weight_decay, step) -> None, in place",
    called="in place",
    blank=say("training.adamw_step.blank"),
    effort=Effort(minutes=25, lines=26, difficulty=3),
    cases=[
        Case("4096", "plain", weights(4096)),
        Case("5001", "ragged", weights(5001)),
        Case("1", "ragged", weights(1)),
        Case("step 1", "first", weights(777, step=1)),
        Case("step 3", "first", weights(777, step=3)),
        Case("decay 0.1", "decay", weights(999, decay=0.1)),
        Case("gradients near eps", "small", weights(999, small=True)),
        Case("gradients near eps, step 2", "small", weights(999, step=2, small=True)),
        Case("bfloat16 weights", "half", weights(3000, BF16)),
        Case("131072", "performance", weights(131072)),
        Case("131072, bfloat16 weights", "performance", weights(131072, BF16)),
    ],
    oracle=stepped(),
    budget=near,
    allows=operations("clone"),
    gates=GATES,
    criteria=[
        *correct("training.adamw_step", {"ragged": 1, "first": 3, "decay": 2, "small": 1, "half": 2}),
        Launches(1, 1),
        Traffic(least_bytes, 3, at_most=1.01, title=say("training.adamw_step.title_traffic")),
        BuffersBelow(lambda p, **_: p.nbytes / 8, 1, say("training.adamw_step.title_buffers_below")),
    ],
    mistakes=[
        slip(say("training.adamw_step.bias_corrections_forgotten"), corrected=""),
        slip(say("training.adamw_step.only_m_is_corrected"), corrected="m"),
        slip(say("training.adamw_step.only_v_is_corrected"), corrected="v"),
        slip(say("training.adamw_step.goes_up"), sign=-1),
        slip(say("training.adamw_step.t_one_too_large"), exponent=1),
        slip(say("training.adamw_step.t_one_too_small"), exponent=-1),
        slip(say("training.adamw_step.decay_coupled_to_the_gradient"), coupled=True),
        slip(say("training.adamw_step.decay_not_times_the_rate"), by_rate=False),
        slip(say("training.adamw_step.eps_under_the_root"), inside=True),
        slip(say("training.adamw_step.eps_corrected_with_the_root"), folded=True),
        slip(say("training.adamw_step.starts_from_the_rounded_weights"), from_the_rounded),
        on_fault("out of bounds", say("training.adamw_step.no_mask")),
    ],
)
