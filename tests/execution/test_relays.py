"""Functions that are called in two processes, or once for all cases: what each process knows, and what comes back."""

import json
import random
from contextlib import suppress

import pytest
import torch

from course_lib.execution import observe, record_all, relays
from course_lib.exercises import find
from course_lib.exercises.breaking import Kills
from course_lib.workloads import checkpointed
from grader.judging.cases import all_cases
from grader.judging.task import JudgingTask
from tritontrace.replay import wire

BREAK = {
    "coalescing.break_transpose": {"x": (128, 128)},
    "fusion.break_softmax": {"x": (128, 128)},
    "tiling.break_matmul": {"a": (128, 128), "b": (128, 128)},
    "flash.break_attention": {"q": (256, 64), "k": (256, 64), "v": (256, 64)},
    "flash_backward.break_gradients": {"q": (256, 64), "k": (256, 64), "v": (256, 64), "do": (256, 64)},
}


def given_of(exercise):
    (criterion,) = exercise.criteria
    assert isinstance(criterion, Kills)
    return criterion.given


@pytest.mark.parametrize("exercise_id", BREAK)
def test_who_writes_inputs_is_asked_once_and_told_of_no_mutant(exercise_id):
    exercise = find(exercise_id)
    task = JudgingTask(exercise, [("<cell>", "def breaking_inputs(): return []")], seed=1)
    assert task.to_record(task.public)["calls"] == [[{}]] and not task.hidden
    told = json.dumps(task.to_record(task.public))
    assert not any(old in told for case in all_cases(exercise, 1) for old, _ in case.arguments(0)["changes"])
    chance = random.Random()
    outputs = [t.evidence.outputs for t in observe(exercise, lambda: [{"x": chance.random()}], 1)]
    assert len({json.dumps(output) for of_case in outputs for output in of_case}) == 1


@pytest.mark.parametrize("exercise_id", BREAK)
def test_the_largest_lawful_inputs_reach_the_class(exercise_id):
    exercise = find(exercise_id)
    given = given_of(exercise)
    numbers = {name: allowed[-1] for name, allowed in given.numbers.items()}

    def breaking_inputs():
        tensors = {name: torch.randn(shape) for name, shape in BREAK[exercise_id].items()}
        return [tensors | numbers] * 3

    task = JudgingTask(exercise, [("<cell>", "")], seed=1)
    logs = record_all(breaking_inputs, task.to_record(task.public)["calls"], called=exercise.called)
    (reply,) = wire.unpack(wire.pack([{"logs": logs, "printed": "", "error": "", "unread": []}]))
    task.store_logs(task.public, reply)
    task.load_evidence()
    assert not task.problem and len(task.trials) == len(task.cases)
    for trial in task.trials:
        assert [sorted(given.read(one)) for one in trial.evidence.outputs[0]] == [
            sorted([*given.names, *given.numbers])
        ] * 3


# ------------------------------------------------------------------------------------------------------- two processes


class Kept:
    """A checkpoint that keeps what it knows in the process."""

    state = None

    @staticmethod
    def save(path, run):
        Kept.state = run
        with open(path, "wb") as file:
            file.write(bytes(1 << 20))

    @staticmethod
    def load(path, run):
        vars(run).update(vars(Kept.state))


def test_what_stays_in_a_process_is_not_there_in_the_second():
    (trial, *_) = observe(find("training.checkpoint"), Kept, 1)
    assert trial.evidence.cause.details["exception"] == "TypeError"  # of vars(None)


def test_the_second_process_gets_the_file_and_nothing_else():
    relay = relays.RELAYS["through a checkpoint"]
    (case, *_) = find("training.checkpoint").cases
    ((call, _),) = relays.first_calls(relay, [[case.arguments(1)] * 2])
    assert list(call) == ["state"] and str(case.arguments(1)["seed"]) not in call
    result = {"file": "a", "after": "b", "kept": "c"}
    log = {"calls": [{"error": "", "result": {"dict": result}}, {"error": "raised", "result": None}]}
    assert relays.second_calls(relay, [log]) == [[{"file": "a", "kept": "c"}]]
    answer = {"error": "", "cause": None, "result": {"dict": {"loaded": "d"}}}
    (joined,) = relays.joined([log], [{"calls": [answer]}])
    assert joined["calls"][0]["result"]["dict"] == result | {"loaded": "d"} and joined["calls"][1]["error"] == "raised"


@pytest.mark.parametrize("result", [None, 7, {"dict": {}}, {"dict": {"file": 7, "kept": ""}}, {"dict": []}])
def test_what_a_first_process_writes_itself_reaches_no_second_one(result):
    relay = relays.RELAYS["through a checkpoint"]
    with suppress(KeyError, TypeError, AttributeError):
        assert relays.second_calls(relay, [{"calls": [{"error": "", "result": result}]}]) == []


def test_a_state_comes_back_to_the_byte_and_bytes_that_are_none_train_nothing():
    state = checkpointed.stopped_state(before=3, seed=2)
    assert checkpointed.step_of(state) == 3
    straight = checkpointed.run_straight(before=3, after=2, seed=2)
    assert list(checkpointed.losses_from(state, 2)) == straight[3:]
    for broken in (
        "",
        "AAAA",
        state[:-8],
        "no text of bytes",
        state[: len(state) // 2] + "A" * (len(state) - len(state) // 2),
    ):
        assert checkpointed.losses_from(broken, 2) != tuple(straight[3:])
