"""A run that is stopped, and goes on as if it had not been."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations
from typing import Any

from course_lib.catalogue import say
from course_lib.criteria import Holds
from course_lib.exercise import Case, Effort, Exercise, Trial
from course_lib.exercises.cases import fixed
from course_lib.mistakes import every, on_exception
from course_lib.workloads.checkpointed import PARTS, bytes_held, first_loss_without, losses_from, run_straight, step_of

SMALL_FILE = say("training.checkpoint.small_file")


@cache
def straight(**arguments: Any) -> list[float]:
    """Return the losses of the run without a checkpoint."""
    return run_straight(**arguments)


def _text(output: Any, name: str) -> str:
    """A part of what came back: "" if it is no text."""
    part = output.get(name) if isinstance(output, dict) else None
    return part if type(part) is str else ""


def _resumed(output: Any, after: int) -> list[float]:
    """The losses of the run that was loaded."""
    return list(losses_from(_text(output, "loaded"), after))


def _small(output: Any) -> bool:
    """Whether the file is too small for weights and moments: less than half of their bytes, of which text takes four for three."""
    return len(_text(output, "file")) * 3 / 4 < bytes_held() / 2


def same_step(output: Any, before: int, **_: Any) -> str:
    """Return "" if the step after loading is right, else a message."""
    step = step_of(_text(output, "loaded"))
    return "" if step == before else say("training.checkpoint.step", step=step, before=before)


def first_loss(output: Any, before: int, **arguments: Any) -> str:
    """Return "" if the first loss after loading is right, else a message: the weights, the tokens and what is hidden decide it."""
    if _small(output):
        return SMALL_FILE
    right, seen = straight(before=before, **arguments)[before], _resumed(output, arguments["after"])[:1]
    return "" if seen == [right] else say("training.checkpoint.first_loss", got=_said(seen), right=right)


def later_losses(output: Any, before: int, **arguments: Any) -> str:
    """Return "" if all losses after loading are right, else a message: moments, rate and the loader's next epoch decide them."""
    if _small(output):
        return SMALL_FILE
    right, resumed = straight(before=before, **arguments)[before:], _resumed(output, arguments["after"])
    if resumed == right:
        return ""
    if len(resumed) != len(right):
        return say("training.checkpoint.does_not_train")
    at = next(i for i, (a, b) in enumerate(zip(resumed, right, strict=True)) if a != b)
    return say("training.checkpoint.later_losses", losses=at, got=resumed[at], right=right[at])


def undisturbed(output: Any, before: int, after: int, **arguments: Any) -> str:
    """Return "" if the run that was saved goes on as it would have, else a message."""
    right = straight(before=before, after=after, **arguments)[before:]
    went_on = list(losses_from(_text(output, "after"), after))
    return "" if went_on == right else say("training.checkpoint.disturbed")


def stays_whole(output: Any, before: int, after: int, **arguments: Any) -> str:
    """Return "" if a save that fails leaves a file that loads, else a message."""
    first_losses, whole = _text(output, "kept"), _text(output, "whole")
    right = straight(before=before, after=after, **arguments)[before:]
    if first_losses and (first_losses == _text(output, "file") or list(losses_from(whole, after)) == right):
        return ""
    return say("training.checkpoint.not_whole")


def _said(losses: list[Any]) -> str:
    words = [f"{loss:.9f}" if type(loss) is float else say("training.training_memory.no_number") for loss in losses]
    return ", ".join(words) or say("training.checkpoint.none")


def missing_for(loss: float, **arguments: Any) -> Sequence[str]:
    """Return the fewest parts of a checkpoint without which a loaded run has this first loss; () if there are none."""
    choices = (missing for count in range(1, 1 + len(PARTS)) for missing in combinations(PARTS, count))
    return next((missing for missing in choices if first_loss_without(missing, **arguments) == loss), ())


def missing_parts(trials: Sequence[Trial]) -> str:
    """Return a remark that names the parts of a checkpoint without which a run has the first loss that was seen, else ""."""
    for trial in trials:
        for call, output in trial.calls:
            seen = _resumed(output, call["after"])[:1]
            if seen and not _small(output) and seen != [straight(**call)[call["before"]]]:
                parts = [*missing_for(seen[0], **call)]
                return say("training.checkpoint.missing_parts", parts=parts) if parts else ""
    return ""


def _moments(output: Any, before: int, **arguments: Any) -> bool:
    later = later_losses(output, before=before, **arguments)
    return bool(later) and not first_loss(output, before=before, **arguments) and not same_step(output, before)


def stopped(name: str, before: int, after: int, seed: int) -> Case:
    """Make a case of a run that is stopped after `before` steps."""
    return fixed(name, "plain", before=before, after=after, seed=seed)


checkpoint = Exercise(
    id="training.checkpoint",
    signature="Checkpoint.save(path, run), Checkpoint.load(path, run); run has model, optimizer, loader, generator, step",
    kind="formula",
    called="through a checkpoint",
    blank=say("training.checkpoint.blank"),
    effort=Effort(minutes=25, lines=18, difficulty=3),
    cases=[stopped("4 steps, 5 more", 4, 5, 1), stopped("7 steps, 4 more", 7, 4, 5)],
    oracle=lambda **arguments: tuple(straight(**arguments)),
    criteria=[
        Holds(same_step, 1, say("training.checkpoint.title_plain")),
        Holds(first_loss, 3, say("training.checkpoint.title_first_loss")),
        Holds(later_losses, 3, say("training.checkpoint.title_later_losses")),
        Holds(undisturbed, 1, say("training.checkpoint.title_undisturbed")),
        Holds(stays_whole, 1, say("training.checkpoint.title_stays_whole")),
    ],
    mistakes=[
        missing_parts,
        every(_moments, say("training.checkpoint.optimizer_not_saved")),
        on_exception("Weights only load failed", say("training.checkpoint.the_run_as_an_object")),
    ],
)
