"""A training step around the optimizer: accumulation, clipping, the schedule of the rate."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch

from course_lib.catalogue import say
from course_lib.criteria import Holds, correct
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.cases import fixed
from course_lib.exercises.recomputation.checkpoints import Seen
from course_lib.mistakes import every, for_cases
from course_lib.workloads.gpt import GPT
from course_lib.workloads.rehearsals import run_accumulate, run_clip, there
from tritontrace.results import Steps

CLOSE = 1e-7  # in float64, of numbers near 1


def alike(a: Any, b: Any) -> bool:
    """Whether two lists of lists of numbers are equal up to rounding."""
    return (
        isinstance(a, list)
        and [len(row) for row in a] == [len(row) for row in b]
        and all(abs(x - y) <= CLOSE for row, right in zip(a, b, strict=True) for x, y in zip(row, right, strict=True))
    )


# ------------------------------------------------------------------------------------------------------- accumulation


def one_batch(model: GPT, batches: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> float:
    """Compute the loss and the gradients of all micro-batches as one batch."""
    tokens, targets = (torch.cat(parts) for parts in zip(*batches, strict=True))
    model.zero_grad()
    loss = model(tokens, targets)
    loss.backward()
    return loss.item()


@cache
def whole(**arguments: Any) -> dict[str, Any]:
    """Return the report of a run with one batch."""
    return there(run_accumulate(one_batch, **arguments))


def same_loss(output: Any, **arguments: Any) -> str:
    """Return "" if loss and gradients are those of one batch, else a message."""
    right = whole(**arguments)
    if type(output["loss"]) not in (int, float):
        return say("training.accumulate.no_number")
    if not abs(output["loss"] - right["loss"]) <= CLOSE:
        return say("training.accumulate.loss", got=output["loss"], right=right["loss"])
    return "" if alike(output["gradients"], right["gradients"]) else gradients_are(output, right)


def gradients_are(output: Any, right: dict[str, Any]) -> str:
    """Return the message on how gradients differ from those of one batch."""
    if not any(output["gradients"]):
        return say("training.accumulate.no_backward")
    factor = factor_of(output["gradients"], right["gradients"])
    return say("training.accumulate.times", factor=factor) if factor else say("training.accumulate.gradients")


def factor_of(found: Sequence[list[float]], right: Sequence[list[float]]) -> float:
    """Return the factor by which all gradients are too large; 0 if there is none."""
    top, at = max((abs(v), (i, j)) for i, row in enumerate(right) for j, v in enumerate(row))
    if [len(row) for row in found] != [len(row) for row in right] or top == 0:
        return 0.0
    factor = found[at[0]][at[1]] / right[at[0]][at[1]]
    return factor if alike([[v * factor for v in row] for row in right], found) else 0.0


def begins_anew(output: Any, **arguments: Any) -> str:
    """Return "" if a second call gives the same gradients, else a message."""
    if not any(output["gradients"]):
        return say("training.accumulate.no_gradient")
    right = whole(**arguments)["gradients"]
    return "" if alike(output["again"], right) else say("training.accumulate.second_call")


def one_at_a_time(output: Any, rows: int, parts: int, **arguments: Any) -> str:
    """Return "" if hardly more bytes are alive than one micro-batch needs, else a message."""
    if not any(output["gradients"]):
        return say("training.accumulate.no_gradient")
    return too_many(output["peak"], rows, parts, **arguments)


def too_many(alive: int, rows: int, parts: int, **arguments: Any) -> str:
    """Return a message if more bytes are alive than 1.5 times what a micro-batch needs, else ""."""
    allowed = int(1.5 * whole(rows=rows // parts, parts=1, **arguments)["peak"])
    if alive <= allowed:
        return ""
    return say("training.accumulate.alive", alive=alive, allowed=allowed)


def waiting(steps: Steps, rows: int, parts: int, **arguments: Any) -> str:
    """Return "" if the log shows few enough bytes that are used again later, and the work itself; else a message."""
    back = sum(half.count("embedding_dense_backward") for half in steps.operations)
    if back < parts or steps.alive < whole(rows=rows // parts, parts=1, **arguments)["peak"] / 2:
        return say("training.accumulate.passes", passes=back, parts=parts)
    return too_many(steps.alive, rows, parts, **arguments)


def micro(name: str, group: str, /, **changes: Any) -> Case:
    """Make a case of some micro-batches."""
    return fixed(name, group, **({"rows": 8, "length": 12, "parts": 4, "padded": False, "seed": 1} | changes))


def by_parts(output: Any, parts: int, **arguments: Any) -> bool:
    """Whether gradients are sums over several micro-batches instead of means."""
    factor = factor_of(output["gradients"], whole(parts=parts, **arguments)["gradients"])
    return parts == 1 or arguments["padded"] or abs(factor - parts) < 1e-6


accumulate = Exercise(
    id="training.accumulate",
    signature="accumulate(model, batches: [(tokens, targets), ...]) -> float, the mean loss; its gradient in p.grad",
    kind="formula",
    called="in micro-batches",
    effort=Effort(minutes=15, lines=9, difficulty=3),
    cases=[
        micro("4 micro-batches", "plain"),
        micro("one batch", "plain", parts=1, rows=4, length=7, seed=2),
        micro("half of it padding", "padded", padded=True, seed=3),
        micro("a micro-batch that is all padding", "padded", padded=True, empty=True, seed=5),
        micro("8 micro-batches of 8 rows", "memory", rows=64, parts=8, seed=4),
    ],
    oracle=lambda **arguments: (whole(**arguments)["loss"],),
    criteria=[
        Holds(same_loss, 3, say("training.accumulate.title_plain")),
        Holds(same_loss, 2, say("training.accumulate.title_padded"), "padded"),
        Holds(begins_anew, 1, say("training.accumulate.title_begins_anew")),
        Seen(one_at_a_time, 1, say("training.accumulate.title_seen"), "memory", log=waiting),
    ],
    mistakes=[
        every(by_parts, say("training.accumulate.summed_not_averaged")),
        lambda trials: (
            MEANS
            if any(t.case.group == "padded" and any(_mean_of_means(o, c) for c, o in _pairs(t)) for t in trials)
            else ""
        ),
        for_cases(
            lambda case: case.name == "a micro-batch that is all padding",
            every(lambda output, **_: output["loss"] != output["loss"], say("training.accumulate.no_mean_of_nothing")),
        ),
    ],
)

MEANS = say("training.accumulate.a_mean_of_means")


def _pairs(trial: Any) -> list[tuple[dict[str, Any], Any]]:
    return [(c, o) for c, o in trial.calls if isinstance(o, dict)]


def _mean_of_means(output: dict[str, Any], call: dict[str, Any]) -> bool:
    def means(model, batches):
        losses = [model(tokens, targets) / len(batches) for tokens, targets in batches]
        loss = torch.stack(losses).sum()
        loss.backward()
        return float(loss.detach())

    guess = there(run_accumulate(means, **call))["loss"]
    return type(output["loss"]) is float and abs(output["loss"] - guess) < CLOSE < abs(guess - whole(**call)["loss"])


# ------------------------------------------------------------------------------------------------------- clipping


def clip_of_torch(gradients: Sequence[torch.Tensor], largest: float) -> float:
    """Clip gradients by torch's own function; return the norm before."""
    leaves = [torch.nn.Parameter(torch.zeros_like(g)) for g in gradients]
    for leaf, gradient in zip(leaves, gradients, strict=True):
        leaf.grad = gradient  # the same tensor: it is changed in place
    return float(torch.nn.utils.clip_grad_norm_(leaves, largest))


def clipped(name: str, group: str, /, sizes: Sequence[int] = (7, 12, 1), **changes: Any) -> Case:
    """Make a case of gradients of these sizes."""
    return fixed(name, group, **({"sizes": list(sizes), "scale": 1.0, "largest": 1.0, "seed": 1} | changes))


def clipped_by_torch(**arguments: Any) -> dict[str, Any]:
    """Return the report of a run with torch's own function."""
    return there(run_clip(clip_of_torch, **arguments))


def same_norm(output: Any, **arguments: Any) -> str:
    """Return "" if the returned norm, which may be a sum in float32, is right; else a message."""
    right = clipped_by_torch(**arguments)["norm"]
    return (
        ""
        if abs(output["norm"] - right) <= 1e-5 * right
        else say("training.clip.norm", right=right, got=output["norm"])
    )


def same_gradients(output: Any, **arguments: Any) -> str:
    """Return "" if the gradients are clipped right, else a message. Torch divides by the norm + 1e-6, others need not."""
    right = clipped_by_torch(**arguments)["gradients"]
    pairs = [(x, y) for a, b in zip(output["gradients"], right, strict=True) for x, y in zip(a, b, strict=True)]
    off = max(abs(x - y) / (abs(y) + 1e-12) for x, y in pairs)
    return "" if not off > 1e-5 else say(f"training.clip.{'slightly_off' if off < 1 else 'off'}", percent=100 * off)


clip = Exercise(
    id="training.clip",
    track="more",
    signature="clip(gradients: list of tensors, largest: float) -> float, the norm before; the tensors are changed in place",
    kind="formula",
    without=["torch.nn.utils.clip_grad"],
    called="on gradients",
    effort=Effort(minutes=8, lines=6, difficulty=2),
    cases=[
        clipped("a norm above the limit", "plain"),
        clipped("far above", "plain", scale=100.0, largest=0.5, seed=2),
        clipped("one tensor", "plain", sizes=[40], seed=3),
        clipped("a norm below the limit", "below", scale=0.01, seed=4),
        clipped("just below", "below", sizes=[2], scale=0.5, largest=4.0, seed=5),
    ],
    oracle=lambda **arguments: (clipped_by_torch(**arguments)["norm"],),
    criteria=[
        Holds(same_norm, 1, say("training.clip.title_plain")),
        Holds(same_gradients, 2, say("training.clip.title_same_gradients")),
        Holds(same_gradients, 1, say("training.clip.title_below"), "below"),
    ],
    mistakes=[
        lambda trials: (
            say("training.clip.copies_are_scaled")
            if any(_untouched(o, c) for t in trials for c, o in _pairs(t))
            else ""
        ),
        lambda trials: (
            say("training.clip.each_tensor_by_itself")
            if any(_each_by_itself(o, c) for t in trials for c, o in _pairs(t))
            else ""
        ),
    ],
)


def _untouched(output: dict[str, Any], call: dict[str, Any]) -> bool:
    given = there(run_clip(lambda gradients, largest: 0.0, **call))["gradients"]
    return alike(output["gradients"], given) and not alike(given, clipped_by_torch(**call)["gradients"])


def _each_by_itself(output: dict[str, Any], call: dict[str, Any]) -> bool:
    def each(gradients, largest):
        return [clip_of_torch([g], largest) for g in gradients] and 0.0

    guess, right = there(run_clip(each, **call))["gradients"], clipped_by_torch(**call)["gradients"]
    return alike(output["gradients"], guess) and not alike(guess, right)


# ------------------------------------------------------------------------------------------------------- the rate


def scheduled(step: int, steps: int, peak: float, warm_up: int) -> float:
    """Compute the learning rate by torch's schedules: LinearLR through the warm-up, then CosineAnnealingLR to a tenth."""
    weight = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = torch.optim.SGD([weight], peak)
    if step < warm_up:
        if warm_up == 1:
            return peak
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1 / warm_up, 1.0, warm_up - 1)
        turns = step
    else:
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps - warm_up, peak / 10)
        turns = min(step, steps) - warm_up
    for _ in range(turns):
        optimizer.step()
        schedule.step()
    return float(optimizer.param_groups[0]["lr"])


def at(step: int, group: str, /, steps: int = 100, peak: float = 3e-3, warm_up: int = 10) -> Case:
    """Make a case of one step."""
    name = f"step {step} of {steps}, {warm_up} to warm up"
    return fixed(name, group, step=step, steps=steps, peak=peak, warm_up=warm_up)


def of_step(change: int) -> Callable[..., bool]:
    """Make a function that tells whether the rate is that of the step `change` later."""

    def matches(output: Any, step: int, steps: int, **arguments: Any) -> bool:
        if type(output) not in (int, float):
            return False
        guess = 0.0 if step + change < 0 else scheduled(step + change, steps, **arguments)
        return abs(output - guess) <= 1e-9 or step >= steps

    return matches


TO_ZERO = say("training.learning_rate.down_to_zero")


def _to_zero(output: Any, step: int, steps: int, peak: float, warm_up: int) -> bool:
    share = (step - warm_up) / (steps - warm_up)
    return type(output) is float and abs(output - peak * (1 + math.cos(math.pi * share)) / 2) <= 1e-9


def _begins_with_0(output: Any, step: int, steps: int, peak: float, warm_up: int) -> bool:
    return type(output) in (int, float) and abs(output - peak * step / warm_up) <= 1e-9


def _counted_from_0(output: Any, step: int, steps: int, peak: float, warm_up: int) -> bool:
    rate = peak * (0.1 + 0.45 * (1 + math.cos(math.pi * step / steps)))
    return type(output) is float and abs(output - rate) <= 1e-9


learning_rate = Exercise(
    id="training.learning_rate",
    track="more",
    signature="learning_rate(step: int, steps: int, peak: float, warm_up: int) -> float; steps count from 0",
    kind="formula",
    without=["torch.optim"],
    rel_tol=1e-7,
    effort=Effort(minutes=8, lines=6, difficulty=2),
    cases=[
        at(0, "warm-up"),
        at(4, "warm-up"),
        at(9, "warm-up"),
        at(0, "warm-up", 50, 1e-3, 1),
        at(10, "cosine"),
        at(55, "cosine"),
        at(99, "cosine"),
        at(0, "cosine", 20, 1e-2, 0),
        at(100, "after"),
        at(140, "after"),
    ],
    oracle=scheduled,
    criteria=correct("training.learning_rate", {"warm-up": 1, "cosine": 2, "after": 1}),
    mistakes=[
        every(of_step(-1), say("training.learning_rate.a_step_late")),
        for_cases(lambda case: case.group == "cosine", every(_to_zero, TO_ZERO)),
        every(of_step(1), say("training.learning_rate.a_step_early")),
        for_cases(
            lambda case: case.group == "warm-up", every(_begins_with_0, say("training.learning_rate.begins_with_0"))
        ),
        for_cases(
            lambda case: case.group == "cosine", every(_counted_from_0, say("training.learning_rate.counted_from_0"))
        ),
    ],
)
