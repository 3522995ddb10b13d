"""The formula of a wrong result: evaluated where nothing is rounded, beside the right one and those of known mistakes.

It explains, and nobody loses a point by it. So whatever goes wrong on the way leaves a result without an explanation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from course_lib.criteria import GradedTrial
from course_lib.evidence import Formula
from course_lib.exercise import Exercise, Trial
from course_lib.exercises.misconceptions import Misconception, failing, nth, several

# of all arguments of the call together: comparing has no limit of time, and this bounds what it costs
MOST_ELEMENTS = 1 << 14
FAR_OFF = 0.05  # of what a result should be
Tree = Mapping[str, Any]  # what execution.exactly gives
Evaluate = Callable[[Trial], Tree | None]


def add(exercise: Exercise, trials: Sequence[GradedTrial], evaluate: Evaluate) -> bool:
    """Compare the smallest wrong case of a verdict with the oracle in exact arithmetic; store and report whether a Formula was found.

    evaluate    a trial -> what execution.exactly gave for its first call in another process
    """
    if exercise.kind != "kernel" or exercise.language != "Triton":
        return False
    # trap: where only the second call is wrong, it may be what the first one left behind
    ran = (t for t in failing(trials) if not t.stopped and not t.evidence.faults)
    # a tuner's configuration that is told of explains enough, and another one would be evaluated
    small = [t for t in ran if not any(t.evidence.configurations) and _elements(t) <= MOST_ELEMENTS]
    trial = next((t for t in sorted(small, key=_elements) if t.is_wrong_in_numbers), None)
    if trial is None:
        return False
    try:
        tree = evaluate(trial)
        formula = _compared(exercise, tree, trial, trials) if tree else None
        if formula and (formula.right or formula.like or _is_far_off(trial)):
            trial.evidence.formula = formula
    except Exception:  # of the engine's, an oracle's or a mistake's: any operation may have no meaning there
        return False
    return trial.evidence.formula is not None


def _elements(trial: GradedTrial) -> int:
    return sum(x.numel() for x in trial.inputs[0].values() if isinstance(x, torch.Tensor))


def _is_far_off(trial: GradedTrial) -> bool:
    """Whether a result is off by more than numbers are rounded. A constant of the host's that is rounded itself has another value where
    nothing is, too: of a result that is nearly right nobody can tell."""
    right = trial.exercise.oracle(**trial.inputs[0])
    rights, outputs = (x if isinstance(x, (list, tuple)) else [x] for x in (right, trial.evidence.outputs[0]))
    pairs = [(got.double(), wanted.double()) for got, wanted in zip(outputs, rights, strict=True)]
    off = ((got - wanted).masked_fill(got == wanted, 0).norm() for got, wanted in pairs)
    sizes = (wanted.nan_to_num(0, 0, 0).norm() for _, wanted in pairs)
    return any(not bool(one <= FAR_OFF * size) for one, size in zip(off, sizes, strict=True))


def _compared(exercise: Exercise, tree: Tree, trial: GradedTrial, trials: Sequence[GradedTrial]) -> Formula | None:
    """Compare what was evaluated with the right result and those of the mistakes that the numbers look like; None if nobody can tell."""
    from tritontrace.exact import Evaluated, Reference, equivalent

    arguments = trial.inputs[0]
    answer = equivalent(Evaluated(tree), exercise.oracle, [arguments])
    if answer.outcome == "not applicable":
        return None
    formula = Formula(answer.outcome == "equal")
    known = [] if formula.right else [(n, m) for n, m in enumerate(exercise.mistakes) if isinstance(m, Misconception)]
    known = [(n, m) for n, m in known if m(trials)]  # a dozen online softmaxes would take 15 seconds to compare with
    wrong: dict[int, Evaluated] = {}  # results that are not right, by place: of others any mistake may give the same
    for place in {mistake.place for _, mistake in known}:
        result = Evaluated(tree, place)
        if equivalent(result, _at(place, exercise.oracle), [arguments]).outcome == "different":
            wrong[place] = result
    for number, mistake in known:
        results = [one for one in several(mistake.wrong) if one(**arguments) is not None]
        given = [Reference(_at(mistake.place, one)) for one in results if mistake.place in wrong]
        if any(equivalent(wrong[mistake.place], one, [arguments]).outcome == "equal" for one in given):
            formula.like.append(number)
    return formula


def _at(place: int, function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function that returns one of several results."""
    return lambda **arguments: nth(function(**arguments), place)
