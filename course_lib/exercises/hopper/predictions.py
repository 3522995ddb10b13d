"""Predictions of who keeps tensor cores busier: by the model of a loop, by the simulator, and by a GPU's counters."""

from __future__ import annotations

from functools import cache

from course_lib.catalogue import say
from course_lib.hardware.measurements import measured
from tritontrace.hopper import TENSOR_CORES, schedule

STEPS = 20

ATTENTION = {
    "one consumer waits": 0.40,
    "one consumer, one stage ahead": 0.52,
    "two consumers wait": 0.69,
    "two consumers, one stage ahead": 0.82,
}
"""How long tensor cores are busy, by the simulator's timeline, in attention of 1024 tokens and D 128, a ring of two tiles of 128
keys; tests/unit/test_exercises_hopper_pipelines.py simulates it."""

COUNTED = {
    "counted: unit 09's kernel": (51, say("hopper.predict_overlap.neither")),
    "counted: the same with descriptors": (61, say("hopper.predict_overlap.descriptors_alone")),
    "counted: attention_overlapped": (81, say("hopper.predict_overlap.producer_and_two")),
}
REASONS: dict[tuple[str, object], str] = {
    ("a ring of two instead of one: busy for 0.2 more of the time", True): say("hopper.predict_overlap.ring_of_two"),
    ("a ring of three instead of one: busy for 0.15 more of the time", False): say(
        "hopper.predict_overlap.ring_of_three"
    ),
    ("a ring of four instead of three: busy for 0.15 more of the time", True): say(
        "hopper.predict_overlap.ring_of_four"
    ),
    ("two consumers on one tile of b instead of one: busy for 0.2 more of the time", False): say(
        "hopper.predict_overlap.one_tile_of_b"
    ),
    ("attention: one consumer a stage ahead is busier than two that wait", True): say(
        "hopper.predict_overlap.softmax_is_longer"
    ),
    ("attention: two consumers that wait are busy for 0.15 more of the time than one that waits", False): say(
        "hopper.predict_overlap.one_multiplies"
    ),
    **{
        (line, other): reason
        for line, (right, reason) in COUNTED.items()
        for other, _ in COUNTED.values()
        if other != right
    },
    **{(line, share): say("hopper.predict_overlap.percent") for line in COUNTED for share in (0.51, 0.61, 0.81)},
}
"""A wrong answer to `predicted_overlap`, and what speaks against it."""


def busy(stages: int, consumers: int = 1) -> float:
    """Return the share of the time in which a product's tensor cores are busy: of one partition, or of two consumers with a producer."""
    bars = schedule(stages, consumers, specialised=consumers > 1, steps=STEPS)
    return sum(bar.end - bar.start for bar in bars if bar.row == TENSOR_CORES) / max(bar.end for bar in bars)


@cache
def overlaps() -> dict[str, bool | int]:
    """Return the right answers to `predicted_overlap`. Each comparison has a margin of ten points at least."""
    counted = {kernel["name"]: round(100 * kernel["tensor"]) for kernel in measured("attention")["counters"]}
    return {
        "a ring of two instead of one: busy for 0.2 more of the time": busy(2) >= busy(1) + 0.2,
        "a ring of three instead of one: busy for 0.15 more of the time": busy(3) >= busy(1) + 0.15,
        "a ring of four instead of three: busy for 0.15 more of the time": busy(4) >= busy(3) + 0.15,
        "two consumers on one tile of b instead of one: busy for 0.2 more of the time": busy(3, 2) >= busy(3) + 0.2,
        "attention: one consumer a stage ahead is busier than two that wait": (
            ATTENTION["one consumer, one stage ahead"] > ATTENTION["two consumers wait"]
        ),
        "attention: two consumers that wait are busy for 0.15 more of the time than one that waits": (
            ATTENTION["two consumers wait"] >= ATTENTION["one consumer waits"] + 0.15
        ),
        "counted: unit 09's kernel": counted["unit 09"],
        "counted: the same with descriptors": counted["descriptors"],
        "counted: attention_overlapped": counted["overlapped"],
    }
