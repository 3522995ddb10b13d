"""A phase of a barrier, counted by hand: when it is over, what whoever waits then knows, and what is wrong with its bytes."""

import pytest
from sentences import says

from tritontrace.hopper import Kind
from tritontrace.hopper.barriers import Barrier
from tritontrace.hopper.faults import Mistake, Spot

MADE, EXPECTS, ARRIVES = (Spot("ring", line, f"line {line}") for line in (1, 2, 3))


def test_nobody_waits_for_a_phase_before_the_first():
    barrier = Barrier("ready", 1, 1, MADE)
    assert barrier.open_for(1) and not barrier.open_for(0)
    assert barrier.opened_at == 0


def test_whoever_waits_knows_what_those_knew_who_arrived_in_this_phase_or_before():
    barrier = Barrier("ready", 2, 2, MADE)
    barrier.arrive("a", ARRIVES, 1, {"a": 3, "c": 1}, 10.0)
    assert (barrier.completed, barrier.clock) == (0, {}), "half of it"
    barrier.arrive("b", ARRIVES, 1, {"b": 5}, 20.0)
    assert (barrier.completed, barrier.opened_at, barrier.clock) == (1, 20, {"a": 3, "b": 5, "c": 1})
    barrier.arrive("a", ARRIVES, 2, {"a": 7}, 30.0)
    assert (barrier.completed, barrier.opened_at, barrier.clock) == (2, 30, {"a": 7, "b": 5, "c": 1})


def test_more_bytes_than_expected_are_told_when_no_copy_is_under_way():
    """Two copies of 64 bytes, of which the phase expects 96."""
    barrier = Barrier("ready", 1, 1, MADE, bytes=96, copies={0, 1})
    barrier.arrive("producer", EXPECTS, 1, {}, 0.0)
    barrier.landed(0, 64, {}, 1.0)
    assert (barrier.completed, barrier.bytes) == (0, 32)
    with pytest.raises(Mistake) as caught:
        barrier.landed(1, 64, {}, 2.0)
    fault = caught.value.fault
    assert (fault.kind, fault.buffer, fault.who, fault.second) == (Kind.BYTES, "ready", "producer", EXPECTS)
    assert says(fault.sentence, "hopper.barrier.bytes_told", bytes=32, who="producer", spot=str(EXPECTS))


def test_bytes_that_come_before_they_are_expected_are_no_mistake_while_a_copy_is_under_way():
    barrier = Barrier("ready", 1, 1, MADE, copies={0, 1})
    barrier.landed(0, 64, {}, 0.0)
    barrier.arrive("a", ARRIVES, 1, {}, 1.0)
    assert (barrier.completed, barrier.bytes) == (0, -64)


def test_bytes_that_nobody_expected():
    """A barrier for no arrivals at all."""
    barrier = Barrier("ready", 0, 0, MADE, copies={0})
    with pytest.raises(Mistake) as caught:
        barrier.landed(0, 64, {}, 0.0)
    fault = caught.value.fault
    assert (fault.kind, fault.who, fault.second) == (Kind.BYTES, "nobody", None)
    assert "None" not in fault.sentence
