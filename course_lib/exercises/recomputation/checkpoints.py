"""Exercises on checkpoints: a layer's activations are thrown away and computed again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from course_lib.catalogue import say
from course_lib.criteria import Holds
from course_lib.exercise import Effort, Exercise, Trial
from course_lib.exercises.cases import fixed
from course_lib.exercises.recomputation.cases import step
from course_lib.exercises.recomputation.oracles import least_peak, peak_of
from course_lib.mistakes import on_exception
from course_lib.words import in_words
from course_lib.workloads.activations import run_checkpoint, train_step
from tritontrace.results import Steps


@cache
def plain_step(**arguments: Any) -> dict[str, Any]:
    """Run the training step without a checkpoint."""
    return run_checkpoint(lambda fn, *args: fn(*args), **arguments)


def like_the_plain_step(*keys: str) -> Callable[..., str]:
    """Make a function that returns "" if these parts of the output equal those of a step without a checkpoint, else a message."""
    names = {
        "out": say("recomputation.checkpoint.result"),
        "gradients": say("recomputation.checkpoint.gradient"),
        "after": say("recomputation.checkpoint.random_number"),
    }

    def look(output: Any, **arguments: Any) -> str:
        if not isinstance(output, dict):
            return say("recomputation.checkpoint.no_tensor")
        wrong = [names[k] for k in keys if output.get(k) != plain_step(**arguments)[k]]
        return say("recomputation.checkpoint.differs", what=wrong[0]) if wrong else ""

    return look


def wrong_runs(draws: Sequence[int], calls: int) -> str:
    """Return a message if fn did not run once forward and once backward in each call, else ""."""
    if len(draws) == 2 * calls:
        return ""
    said = say("recomputation.checkpoint.runs", checkpoints=calls, expected=2 * calls, seen=len(draws))
    if len(draws) < 2 * calls:
        return say("recomputation.checkpoint.too_few", given=said)
    if calls > 1 and len(draws) == calls + 2**calls - 1:  # each backward runs those of all calls before it
        return say("recomputation.checkpoint.too_many", given=said)
    return said


def once_recomputed(look: Callable[..., str]) -> Callable[..., str]:
    """Restrict a property to outputs whose fn ran again after the forward runs: a plain call saves nothing, but must earn nothing."""

    def looked(output: Any, calls: int, **arguments: Any) -> str:
        if isinstance(output, dict) and len(output["draws"]) <= calls:
            return wrong_runs(output["draws"], calls)
        return look(output, calls=calls, **arguments)

    return looked


def recomputes(output: Any, rows: int, width: int, calls: int, **_: Any) -> str:
    """Return "" if only the inputs of the calls are saved, and fn runs once in each half; else a message."""
    kept, draws = output.get("kept"), output.get("draws")
    allowed = (calls - 1) * 8 * rows * width + 8192  # a random state is 5 KB
    if type(kept) is not int or type(draws) is not list:
        return say("recomputation.checkpoint.nothing_observed")
    if kept > allowed:
        return say("recomputation.checkpoint.alive", kept=kept, allowed=allowed)
    return wrong_runs(draws, calls)


def lets_go(output: Any, **_: Any) -> str:
    """Return "" if hardly any bytes are still held after backward, else a message."""
    left = output.get("left")
    if type(left) is not int:
        return say("recomputation.checkpoint.nothing_observed")
    return "" if left <= 8192 else say("recomputation.checkpoint.left", bytes=left)


def same_dropout(output: Any, calls: int, **_: Any) -> str:
    """Return "" if the recomputation drops what the forward run dropped, else a message."""
    draws = output.get("draws") or []
    if wrong_runs(draws, calls):
        return wrong_runs(draws, calls)
    halves = draws[:calls], draws[calls:][::-1]
    return "" if halves[0] == halves[1] else say("recomputation.checkpoint.other_dropout")


@dataclass
class Seen(Holds):
    """Criterion on a property measured in the judged function's process, which the log of a rehearsal must show as well. log: steps, calls,
    rows, width, p -> "" or a message.

    log: steps, calls, rows, width, p -> "" or a sentence
    """

    log: Callable[..., str] = lambda steps, **_: ""

    def _problem(self, trial: Trial, output: Any, arguments: dict[str, Any]) -> str:
        if problem := super()._problem(trial, output, arguments):
            return problem
        call = next(i for i, given in enumerate(trial.inputs) if given is arguments)
        problem = self.log(trial.evidence.steps[call] if call < len(trial.evidence.steps) else Steps(), **arguments)
        return say("criteria.result.does_not_hold", case=trial.case.name) if problem and trial.case.hidden else problem


def runs_again(steps: Steps, calls: int, **_: Any) -> str:
    """Return "" if each call ran fn, which has one GELU, once in each half; else a message."""
    runs = [half.count("gelu") for half in steps.operations]
    if runs == [calls, calls]:
        return ""
    return say("recomputation.checkpoint.seen_runs", checkpoints=calls, forward=runs[0], backward=runs[1])


def comes_back(steps: Steps, calls: int, **_: Any) -> str:
    """Return "" if fn ran in backward, else a message."""
    return "" if steps.operations[1].count("gelu") >= calls else runs_again(steps, calls)


def uses_the_arguments_alone(steps: Steps, calls: int, rows: int, width: int, **arguments: Any) -> str:
    """Return "" if backward uses hardly more than the arguments, and runs fn again; else a message."""
    allowed = (calls - 1) * 8 * rows * width + 8192  # as in `recomputes`
    if steps.kept > allowed:
        return say("recomputation.checkpoint.uses", kept=steps.kept, allowed=allowed)
    return runs_again(steps, calls)


def draws_again(steps: Steps, calls: int, **_: Any) -> str:
    """Return "" if dropout is drawn from the same random states in backward as in the forward run, else a message."""
    forward, backward = (sorted(half)[:calls] for half in steps.states)
    if problem := runs_again(steps, calls):
        return problem
    return "" if forward == backward else say("recomputation.checkpoint.other_states")


def puts_back(steps: Steps, calls: int, **_: Any) -> str:
    """Return "" if backward leaves the random state as it was, else a message."""
    return comes_back(steps, calls) or ("" if steps.restored else say("recomputation.checkpoint.state_is_another"))


checkpoint = Exercise(
    id="recomputation.checkpoint",
    signature="checkpoint(fn, *args) -> fn(*args)",
    kind="formula",
    called="in a training step",
    without=["torch.utils.checkpoint"],
    effort=Effort(minutes=30, lines=28, difficulty=4),
    track="more",
    cases=[
        step("a layer", "plain", p=0.0),
        step("one input with a gradient", "plain", p=0.0, frozen=True, rows=7),
        step("a large layer", "memory", rows=64, width=32),
        step("three in a row", "memory", rows=64, width=32, calls=3),
        step("dropout", "dropout"),
        step("dropout, three in a row", "dropout", calls=3, seed=4),
        step("what is drawn later", "after", seed=5),
    ],
    oracle=lambda **arguments: (plain_step(**arguments)["after"],),
    criteria=[
        Holds(like_the_plain_step("out", "gradients"), 3, say("recomputation.checkpoint.title_plain")),
        Seen(recomputes, 2, say("recomputation.checkpoint.title_seen"), "memory", log=uses_the_arguments_alone),
        Seen(once_recomputed(lets_go), 1, say("recomputation.checkpoint.title_seen_memory"), "memory", log=comes_back),
        Seen(same_dropout, 2, say("recomputation.checkpoint.title_seen_dropout"), "dropout", log=draws_again),
        Seen(
            once_recomputed(like_the_plain_step("after")),
            2,
            say("recomputation.checkpoint.title_seen_after"),
            "after",
            log=puts_back,
        ),
    ],
    mistakes=[
        on_exception(
            "element 0 of tensors does not require grad", say("recomputation.checkpoint.no_gradients_inside_backward")
        ),
        on_exception(
            "One of the differentiated Tensors does not require grad", say("recomputation.checkpoint.no_gradient")
        ),
        on_exception(
            "argument to `grad()` cannot be empty", say("recomputation.checkpoint.nothing_to_differentiate_by")
        ),
        on_exception("returned an incorrect number of gradients", say("recomputation.checkpoint.number_of_gradients")),
        on_exception("through the graph a second time", say("recomputation.checkpoint.does_not_detach")),
    ],
)

MODEL = {"layers": 24, "boundary": 65536, "inside": 589824}  # bytes of train_step's layers: 512 tokens, width 32


def cut(segments: int, layers: int, boundary: int, inside: int) -> str:
    """Describe a cut into segments in words."""
    return say("recomputation.segments_for.cut", boundary=boundary, inside=inside, layers=layers, segments=segments)


def has_the_least_peak(output: Any, layers: int, boundary: int, inside: int) -> str:
    """Return "" if the segments of a prediction (segments, peak) give the lowest peak of all, else a message."""
    if problem := no_prediction(output, layers):
        return problem
    peak, least = peak_of(layers, boundary, inside, output[0]), least_peak(layers, boundary, inside)
    return (
        ""
        if peak == least[1]
        else say(
            "recomputation.segments_for.not_least",
            cut=cut(output[0], layers, boundary, inside),
            peak=peak,
            least=least[1],
        )
    )


def says_its_peak(output: Any, layers: int, boundary: int, inside: int) -> str:
    """Return "" if the peak of a prediction (segments, peak) is that of its segments, else a message."""
    if problem := no_prediction(output, layers):
        return problem
    peak = peak_of(layers, boundary, inside, output[0])
    return (
        ""
        if output[1] == peak
        else say(
            "recomputation.segments_for.other_peak",
            cut=cut(output[0], layers, boundary, inside),
            peak=peak,
            got=output[1],
        )
    )


def holds_when_counted(output: Any, layers: int, boundary: int, inside: int) -> str:
    """Return "" if the counted model stays just below the predicted peak plus one layer's temporary tensors in backward; else a message."""
    if problem := no_prediction(output, layers):
        return problem
    working = counted_peak(1, 0) - inside
    counted = counted_peak(layers, output[0]) - working
    if counted > output[1]:
        return say("recomputation.segments_for.more", segments=output[0], counted=counted, got=output[1])
    return (
        "" if counted > 0.8 * output[1] else say("recomputation.segments_for.less", segments=output[0], counted=counted)
    )


@cache
def counted_peak(layers: int, segments: int) -> int:
    """Count the peak of a training step in bytes."""
    return train_step(layers, segments).peak


def no_prediction(output: Any, layers: int) -> str:
    """Return "" for two whole numbers of which the first can be a number of segments, else a message."""
    two = isinstance(output, list) and [type(v) for v in output] == [int, int]
    if two and 1 <= output[0] <= layers:
        return ""
    pair = f"({', '.join(map(in_words, output))})" if isinstance(output, list) else in_words(output)
    return say("recomputation.segments_for.no_pair", layers=layers, got=pair)


segments_for = Exercise(
    id="recomputation.segments_for",
    signature="segments_for(layers: int, boundary: int, inside: int) -> (segments: int, peak: int)",
    kind="formula",
    without=["course_lib.workloads.activations"],
    effort=Effort(minutes=10, lines=5, difficulty=3),
    track="more",
    cases=[
        fixed("16 layers that keep one tensor each", "plain", layers=16, boundary=1000, inside=1000),
        fixed("one layer", "plain", layers=1, boundary=10, inside=90),
        fixed("23 layers", "plain", layers=23, boundary=10, inside=90),
        fixed("100 thin layers", "plain", layers=100, boundary=4096, inside=8192),
        fixed("wide boundaries", "plain", layers=40, boundary=500, inside=100),
        fixed("a model of 24 layers", "counted", **MODEL),
    ],
    oracle=least_peak,
    criteria=[
        Holds(has_the_least_peak, 2, say("recomputation.segments_for.title_plain")),
        Holds(says_its_peak, 1, say("recomputation.segments_for.title_says_its_peak")),
        Holds(holds_when_counted, 2, say("recomputation.segments_for.title_counted"), group="counted"),
    ],
)
