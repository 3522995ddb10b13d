"""A module that answers an exercise by itself is broken while the student's function runs, and in that process alone."""

import pytest
import torch
import torch.utils.flop_counter as counter_module
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import (
    FlopCounterMode,
    flop_registry,
    mm_flop,
)  # as a student's cell would, before the check

from course_lib.exercises import find
from course_lib.observe import child, observe, record_all

MODULE = "torch.utils.flop_counter"
COPIED = dict(flop_registry)


def call(function, without=MODULE):
    """The error of one call, in a child as a check makes it."""
    logs, _ = child.run(lambda: record_all(function, [[{}]], without=without), seconds=30)
    return logs[0]["calls"][0]


class Renamed(FlopCounterMode):
    pass


def with_mode(mode):
    def count():
        with mode() as counter:
            torch.ones(3, 4) @ torch.ones(4, 5)
        return counter.get_total_flops()

    return count


@pytest.mark.parametrize(
    "function",
    [
        with_mode(lambda: FlopCounterMode(display=False)),
        with_mode(lambda: counter_module.FlopCounterMode(display=False)),
        with_mode(lambda: Renamed(display=False)),
        lambda: mm_flop((3, 4), (4, 5)),
        lambda: mm_flop.__wrapped__((3, 4), (4, 5)),
        lambda: counter_module.bmm_flop((1, 3, 4), (1, 4, 5)),
        lambda: flop_registry[torch.ops.aten.mm]((3, 4), (4, 5)),
        lambda: COPIED[torch.ops.aten.mm]((3, 4), (4, 5)),
    ],
    ids=[
        "imported before",
        "by its module",
        "subclass",
        "formula",
        "wrapped",
        "another",
        "registry",
        "copy",
    ],
)
def test_torch_s_own_counter_answers_nothing(function):
    assert call(function, without="")["result"] == 120
    told = call(function)
    assert told["error"] and told["result"] is None


def test_the_sentence_says_what_is_taken_away():
    told = call(with_mode(lambda: FlopCounterMode(display=False)))["error"]
    assert told == f"uses {MODULE}, which does what this exercise asks you to write"
    assert "taken away here" in call(lambda: mm_flop((3, 4), (4, 5)))["error"]


def test_afterwards_it_counts_as_before():
    call(lambda: mm_flop((3, 4), (4, 5)))
    assert mm_flop((3, 4), (4, 5)) == 120 and torch.ops.aten.mm in flop_registry
    assert with_mode(lambda: FlopCounterMode(display=False))() == 120


def test_a_counter_of_one_s_own_is_not_disturbed():
    def count_flops(fn, *args):
        total = 0

        class Mode(TorchDispatchMode):
            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                nonlocal total
                out = function(*args, **(kwargs or {}))
                total += 2 * out.numel() * args[0].shape[-1] if function is torch.ops.aten.mm.default else 0
                return out

        with Mode():
            fn(*args)
        return total

    exercise = find("flops.count_flops")
    trials = [t for t in observe(exercise, count_flops, seed=1) if t.case.group == "products"]
    assert trials and all(t.evidence.error == "" for t in trials)
    assert all(t.evidence.outputs == [exercise.oracle(**a) for a in t.inputs] for t in trials)
