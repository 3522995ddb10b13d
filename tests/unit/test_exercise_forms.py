"""Break it, name it: what earns points there, and what must not."""

from __future__ import annotations

import importlib
import json
import random
from base64 import b64encode

import pytest
import torch

from course_lib.evidence import Evidence
from course_lib.execution.calls import for_its_inputs, packed
from course_lib.exercise import Trial
from course_lib.exercises import find
from course_lib.exercises.breaking import Kills, tensor_of
from course_lib.exercises.naming import Names
from course_lib.exercises.sealed import opened
from grader.audit import named
from grader.published import published

BREAK = [
    "coalescing.break_transpose",
    "tiling.break_matmul",
    "fusion.break_softmax",
    "flash.break_attention",
    "flash_backward.break_gradients",
]
NAME = named.CAUSES


def all_cases(exercise_id: str):
    hidden = importlib.import_module(f"grader.judging.hidden.{exercise_id.split('.')[0]}")
    return [*find(exercise_id).cases, *hidden.cases(exercise_id, random.Random(0))]


def broken(exercise_id: str, function, cases=None):
    exercise = find(exercise_id)
    (criterion,) = exercise.criteria
    assert isinstance(criterion, Kills)
    written = for_its_inputs(function, {}, lambda *_: None)
    trials = [Trial(c, [c.arguments(0)], Evidence(c.name, outputs=[written])) for c in cases or all_cases(exercise_id)]
    return criterion.judge(exercise, trials)


@pytest.mark.parametrize("exercise_id", BREAK)
def test_the_published_inputs_kill_every_mutant(exercise_id):
    found = broken(exercise_id, published(exercise_id))
    assert found.passed, found.seen
    assert broken(exercise_id, published(exercise_id), find(exercise_id).cases).passed  # those of the notebook alone


def drawn(exercise_id: str, rng: random.Random, ragged: bool):
    """Inputs that somebody writes who has not looked at the kernel."""
    side = (lambda: rng.randrange(1, 100)) if ragged else (lambda: rng.choice((32, 64, 96)))
    match exercise_id:
        case "coalescing.break_transpose" | "fusion.break_softmax":
            return {"x": torch.randn(side(), side())}
        case "tiling.break_matmul":
            K = side()
            return {"a": torch.randn(side(), K), "b": torch.randn(K, side())}
    N, D = side(), rng.choice((16, 32, 64))
    names = ["q", "k", "v"] + ["do"] * (exercise_id == "flash_backward.break_gradients")
    return {name: torch.randn(N, D) for name in names} | {"causal": rng.random() < 0.5}


@pytest.mark.parametrize("exercise_id", BREAK)
def test_random_numbers_earn_next_to_nothing(exercise_id):
    rng = random.Random(7)
    torch.manual_seed(7)
    points = []
    for ragged in (False, True, True, True):
        found = broken(exercise_id, lambda ragged=ragged: [drawn(exercise_id, rng, ragged) for _ in range(3)])
        points.append(found.points / found.out_of)
    assert sum(points) / len(points) <= 0.05, points


@pytest.mark.parametrize("exercise_id", BREAK)
def test_where_the_given_kernel_fails_nothing_is_earned(exercise_id, monkeypatch):
    (criterion,) = find(exercise_id).criteria
    monkeypatch.setattr(type(criterion.given), "wrong", lambda self, arguments, changes=(): "another result")
    importlib.import_module("course_lib.exercises.breaking")._problem.cache_clear()
    try:
        found = broken(exercise_id, published(exercise_id))
    finally:
        importlib.import_module("course_lib.exercises.breaking")._problem.cache_clear()
    assert found.points == 0 and "fails, too" in found.seen


def written(shape, strides, storage, dtype="float32"):
    """A tensor as an answer may claim that it was taken apart."""
    if isinstance(storage, list):
        storage = b64encode(torch.tensor(storage).numpy().tobytes()).decode()
    return [{"x": {"shape": shape, "strides": strides, "dtype": dtype, "storage": storage}}]


FORGED = [
    written([3, 3], [9, 9], [1.0] * 9),  # reaches further
    written([3, 3], [-1, 1], [1.0] * 9),
    written([1 << 40, 3], [0, 1], [1.0] * 9),  # far too much work
    written([3], [1], [1.0] * 3),
    written([3, 1], [1, 1], "no base 64"),
    written([3, 1], [1, 1], "ÄÄÄÄ"),
    written([3, 1], [1, 1], "AAAAAAAA"),  # six bytes: a number and a half
    written([3, 1], [1, 1], 3),
    written([3, 1], [1, 1], {"AAAA": "AAAA"}),
    written([3, 1], [1, 1], [1, 2, 3], "int64"),
    written([0, 3], [1, 1], ""),
    written([1, 1], [1, 1], [1.0], ["float32"]),
    written([1, 1], [0, 1], [float("nan")]),
    written([1, 1], [0, 1], "AACAfw=="),  # an infinity
    [{"x": None}],
    [3],
    {"x": 3},
    [],
    "x",
]


@pytest.mark.parametrize("claimed", FORGED, ids=lambda claimed: json.dumps(claimed)[:40])
def test_inputs_that_are_none_earn_nothing(claimed):
    exercise = find("coalescing.break_transpose")
    trials = [Trial(c, [c.arguments(0)], Evidence(c.name, outputs=[claimed])) for c in exercise.cases]
    found = exercise.criteria[0].judge(exercise, trials)
    assert found.points == 0 and found.seen.startswith(("input 1 ", "expected a list"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("layout", ["whole", "slice", "transposed", "broadcast"])
def test_a_tensor_comes_as_it_was(layout, dtype):
    whole = torch.randn(5, 7, 4, dtype=dtype)
    views = {
        "whole": whole,
        "slice": whole[1:3, ::2, 1],
        "transposed": whole.mT,
        "broadcast": whole[2, 3, 1].expand(4, 6),
    }
    found = tensor_of(packed(views[layout]))
    assert torch.equal(found, views[layout]) and found.dtype == dtype and found.stride() == views[layout].stride()


def named_as(exercise_id: str, answers: object):
    exercise = find(exercise_id)
    (criterion,) = exercise.criteria
    assert isinstance(criterion, Names)
    return criterion.judge(exercise, [Trial(exercise.cases[0], [{}], Evidence("it", outputs=[answers]))])


@pytest.mark.parametrize("exercise_id", NAME)
def test_the_seals_are_those_of_the_plain_text(exercise_id):
    (criterion,) = find(exercise_id).criteria
    assert criterion.explanations == named.sealed_texts(exercise_id, NAME[exercise_id])
    assert set(criterion.causes) == set(NAME[exercise_id])
    for cause, (picture, text) in NAME[exercise_id].items():
        salt = f"{exercise_id}/{picture}"
        assert [opened(criterion.explanations[picture], salt, c) for c in criterion.causes if c != cause] == [None] * 5
        assert opened(criterion.explanations[picture], salt, cause) == text


@pytest.mark.parametrize("exercise_id", named.MAPPED)
def test_the_maps_are_those_of_the_mistakes(exercise_id):
    module = importlib.import_module(f"course_lib.exercises.{exercise_id.split('.')[0]}.naming")
    assert named.drawn(NAME[exercise_id], named.MAPPED[exercise_id]()) == module.MAPS


@pytest.mark.parametrize("exercise_id", NAME)
def test_guesses_of_causes_earn_nothing_on_average(exercise_id):
    rng = random.Random(3)
    causes = list(NAME[exercise_id])
    points = [named_as(exercise_id, {p: rng.choice(causes) for p in "ABCDEF"}).points for _ in range(300)]
    assert sum(points) / len(points) < 0.03
    assert named_as(exercise_id, dict.fromkeys("ABCDEF", causes[0])).points == 0


@pytest.mark.parametrize("answers", [None, 3, [], {"A": 1}, {"A": ["x"]}, {"A": "no cause"}, {"A": {"a": "b"}}])
def test_answers_that_are_none_earn_nothing(answers):
    assert named_as("tiling.name_maps", answers).points == 0
