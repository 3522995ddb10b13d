"""Kernels in a model: autograd around launches, in each slot."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from types import SimpleNamespace
from typing import Any, cast

from course_lib.catalogue import say
from course_lib.criteria import Holds
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.cases import fixed
from course_lib.exercises.recomputation.checkpoints import Seen
from course_lib.exercises.training.oracles import differentiable
from course_lib.exercises.training.steps import CLOSE, alike, factor_of
from course_lib.mistakes import every, for_cases, on_exception
from course_lib.workloads.launched import Kernels
from course_lib.workloads.rehearsals import leave_as_it_is, run_swapped, there
from tritontrace.results import Steps


@cache
def of_torch(**arguments: Any) -> dict[str, Any]:
    """Return the report of a run with torch's operations."""
    return there(run_swapped(leave_as_it_is, **arguments))


@cache
def of_kernels(**arguments: Any) -> dict[str, Any]:
    """Return the report of a run with all kernels, correctly swapped in."""

    def swap_in(model, kernels):
        model.ops = differentiable(kernels)

    return there(run_swapped(swap_in, **arguments))


def right(**arguments: Any) -> dict[str, Any]:
    """Return the report of the right run: torch's, or where the kernels' results are scaled, theirs, which torch cannot imitate."""
    return of_torch(**arguments) if arguments.get("factor", 1.0) == 1 else of_kernels(**arguments)


def _whose(arguments: dict[str, Any]) -> str:
    factor = arguments.get("factor", 1.0)
    return say("training.swap_in.whose") if factor == 1 else say("training.swap_in.whose_scaled", factor=factor)


def every_parameter(output: Any, **arguments: Any) -> str:
    """Return "" if each parameter has torch's gradient in the first step, else a message."""
    expected = right(**arguments)["gradients"]
    for name, gradient in expected.items():
        found = output["gradients"].get(name)
        if not found:
            return say("training.swap_in.no_gradient", name=name)
        if not alike([found], [gradient]):
            return say("training.swap_in.other_gradient", name=name, whose=_whose(arguments))
    return ""


def same_losses(output: Any, **arguments: Any) -> str:
    """Return "" if the losses are right, step by step; else a message."""
    expected = right(**arguments)["losses"]
    for step, (a, b) in enumerate(zip(output["losses"], expected, strict=True)):
        if not abs(a - b) <= CLOSE:
            return say("training.swap_in.loss", step=step, got=a, whose=_whose(arguments), right=b)
    return ""


def runs_on_kernels(output: Any, **arguments: Any) -> str:
    """Return "" if any kernel is launched, else a message: torch's own operations train as well."""
    return "" if output["launches"] else say("training.swap_in.no_launch")


def launches(output: Any, **arguments: Any) -> str:
    """Return "" if all slots use the kernels, and none of them twice; else a message."""
    expected = of_kernels(**arguments)["launches"]
    for name, count in expected.items():
        found = output["launches"].get(name, 0)
        if found != count:
            return say("training.swap_in.launches", name=name, got=found, right=count)
    return ""


def keeps_little(output: Any, **arguments: Any) -> str:
    """Return "" if no more is saved between forward and backward than the kernels need, else a message. Gradients must be right."""
    if problem := every_parameter(output, **arguments):
        return problem
    return too_much(output["kept"], **arguments)


def too_much(kept: int, /, **arguments: Any) -> str:
    """Return a message if more bytes are saved than the kernels need, else ""."""
    allowed = of_kernels(**arguments)["kept"]
    return "" if kept <= 1.02 * allowed else say("training.swap_in.kept", kept=kept, allowed=allowed)


# Operations of torch by which the log knows a kernel: half, name -> how many for so many layers
SIGNS: dict[tuple[int, str], Callable[[int], int]] = {
    (0, "rsqrt"): lambda layers: 2 * layers + 1,  # norm
    (0, "logsumexp"): lambda layers: layers + 1,  # attention and cross_entropy
    (1, "logsumexp"): lambda layers: 0,
    (1, "tril"): lambda layers: layers,  # attention_backward
    (1, "sigmoid"): lambda layers: layers,  # swiglu_backward
}


def in_the_log(seen: Steps, /, layers: int, **_: Any) -> str:
    """Return "" if the log has the operations of each kernel as often as it should be launched, else a message."""
    for (half, name), count in SIGNS.items():
        if (found := seen.operations[half].count(name)) != count(layers):
            half_of_it = "forward" if half == 0 else "backward"
            return say(f"training.swap_in.log_{half_of_it}", name=name, got=found, right=count(layers))
    return ""


def used_later(seen: Steps, /, **arguments: Any) -> str:
    """Return "" if the log shows few enough bytes saved and used, else a message."""
    return too_much(seen.kept, **arguments)


def trained(name: str, group: str = "plain", /, **changes: Any) -> Case:
    """Make a case of a small model that trains some steps."""
    usual = {"layers": 2, "width": 16, "heads": 4, "kv_heads": 2, "rows": 2, "length": 9, "steps": 4, "seed": 1}
    return fixed(name, group, **(usual | changes))


def _a_sum(output: Any, **arguments: Any) -> bool:
    targets, first = arguments["rows"] * arguments["length"], right(**arguments)["losses"][0]
    return bool(output["losses"]) and abs(output["losses"][0] - targets * first) < 1e-4


def _factor(output: Any, **arguments: Any) -> float:
    names = list(right(**arguments)["gradients"])
    found = [output["gradients"].get(name, []) for name in names]
    return factor_of(found, [right(**arguments)["gradients"][name] for name in names])


def _dloss_ignored(output: Any, share: float = 1.0, **arguments: Any) -> bool:
    return share == 1.0 or abs(_factor(output, share=share, **arguments) - 1 / share) < 1e-4


def _undivided(output: Any, **arguments: Any) -> bool:
    return abs(_factor(output, **arguments) - arguments["rows"] * arguments["length"]) < 1e-4


def _gradients_by(**changes: Callable[[Callable], Callable]) -> Callable[..., dict[str, Any]]:
    """Make a function that returns the first step's gradients with some kernels changed: name -> what makes another one of it."""

    @cache
    def gradients(**arguments: Any) -> dict[str, Any]:
        def swap_in(model: Any, kernels: Any) -> None:
            others = {name: change(getattr(kernels, name)) for name, change in changes.items()}
            model.ops = differentiable(cast("Kernels", SimpleNamespace(**vars(kernels) | others)))

        return there(run_swapped(swap_in, **arguments | {"steps": 1}))["gradients"]

    return gradients


def _last_two_swapped(kernel: Callable) -> Callable:
    def swapped(*given: Any) -> tuple:
        *first, one, other = kernel(*given)
        return *first, other, one

    return swapped


def _gate_and_up_swapped(kernel: Callable) -> Callable:
    return lambda *given: kernel(*given[:-2], given[-1], given[-2])


SWAPPED = {
    "dk_and_dv_swapped": [_gradients_by(attention_backward=_last_two_swapped)],
    "dgate_and_dup_swapped": [_gradients_by(swiglu_backward=_last_two_swapped)],
    "gate_and_up_swapped": [
        _gradients_by(swiglu=_gate_and_up_swapped),
        _gradients_by(swiglu_backward=_gate_and_up_swapped),
        _gradients_by(swiglu=_gate_and_up_swapped, swiglu_backward=_gate_and_up_swapped),
    ],
}
"""The id of a sentence -> the gradients that these mistakes give."""


def _gives(gradients: Callable[..., dict[str, Any]], output: Any, **arguments: Any) -> bool:
    expected = gradients(**arguments)
    return alike([output["gradients"].get(name, []) for name in expected], [*expected.values()])


swap_in = Exercise(
    id="training.swap_in",
    signature="swap_in(model, kernels) -> None; puts kernels into the slots norm, attention, swiglu and loss of model.ops",
    kind="formula",
    called="into a model",
    blank=say("training.swap_in.blank"),
    effort=Effort(minutes=35, lines=60, difficulty=4),
    cases=[
        trained("two layers, 4 heads for 2"),
        trained(
            "one layer, 3 heads, a quarter of the loss goes back",
            **dict(layers=1, width=24, heads=3, kv_heads=3, rows=3, length=7, seed=2, share=0.25),
        ),
        trained("kernels that give 1.25 times torch's results", factor=1.25),
        trained("ten steps", "steps", steps=10, seed=3),
    ],
    oracle=lambda **arguments: tuple(right(**arguments)["losses"]),
    gates=[Holds(runs_on_kernels, 0, say("training.swap_in.title_plain"))],
    criteria=[
        Holds(every_parameter, 4, say("training.swap_in.title_every_parameter")),
        Holds(same_losses, 3, say("training.swap_in.title_steps"), "steps"),
        Seen(launches, 3, say("training.swap_in.title_seen"), log=in_the_log),
        Seen(keeps_little, 3, say("training.swap_in.title_keeps_little"), log=used_later),
    ],
    mistakes=[
        every(
            lambda output, **_: output["returned"] and not output["launches"],
            say("training.swap_in.slots_that_are_returned"),
        ),
        every(_a_sum, say("training.swap_in.a_sum_in_place_of_the_mean")),
        every(_undivided, say("training.swap_in.the_loss_is_not_divided_on_the_way_back")),
        every(_dloss_ignored, say("training.swap_in.the_gradient_of_the_loss_is_ignored")),
        lambda trials: (
            say("training.swap_in.none_for_a_norm_s_weight")
            if any(_norms_alone(o) for t in trials for o in t.evidence.outputs)
            else ""
        ),
        lambda trials: (
            say("training.swap_in.a_raw_launch_in_place_of_attention")
            if any(_cut(o) for t in trials for o in t.evidence.outputs)
            else ""
        ),
        *(
            for_cases(
                lambda case: case.name == "two layers, 4 heads for 2",
                every(partial(_gives, gradients), say(f"training.swap_in.{name}")),
            )
            for name, found in SWAPPED.items()
            for gradients in found
        ),
        on_exception("cannot assign to field", say("training.swap_in.slots_that_are_frozen")),
        on_exception("returned an incorrect number of gradients", say("training.swap_in.the_gradient_of_lse_s_place")),
        on_exception(
            "does not require grad and does not have a grad_fn", say("training.swap_in.raw_launches_everywhere")
        ),
    ],
)


def _empty(output: Any) -> list[str]:
    gradients = output.get("gradients", {}) if isinstance(output, dict) else {}
    return [name for name, gradient in gradients.items() if not gradient]


def _norms_alone(output: Any) -> bool:
    return bool(_empty(output)) and all("norm" in name for name in _empty(output))


def _cut(output: Any) -> bool:
    return any("norm" not in name for name in _empty(output))
