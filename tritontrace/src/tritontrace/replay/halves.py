"""Facts about both halves of a call, read from its log; nothing is replayed. They need no trust in measurements that
were made in the process that ran the call."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from tritontrace.replay.wire import DTYPES
from tritontrace.results import Steps

BEGIN, BACKWARD, END = "begin", "backward", "end"


def steps(events: Sequence[Mapping[str, Any]]) -> Steps:
    """Read the Steps of a call from its events, with marks where it begins, where backward begins and where it ends. Without these marks
    they are empty.

    >>> steps([])
    Steps(kept=0, alive=0, operations=[[], []], states=[[], []], restored=False)
    """
    marks = {event["mark"]: i for i, event in enumerate(events) if "mark" in event}
    if not {BEGIN, BACKWARD, END} <= marks.keys():
        return Steps()
    forward = [e for e in events[marks[BEGIN] : marks[BACKWARD]] if "op" in e]
    backward = [e for e in events[marks[BACKWARD] : marks[END]] if "op" in e]
    given = {identity for e in events[: marks[BEGIN]] if "op" in e for identity, _ in _storages(e["out"])}
    made: dict[str, int] = {}
    for event in forward:
        for identity, nbytes in _storages(event["out"]):
            if identity not in given:
                made[identity] = max(nbytes, made.get(identity, 0))
    used = {identity for e in backward for identity, _ in _storages([e["args"], e["kwargs"]])}
    return Steps(
        kept=sum(nbytes for identity, nbytes in made.items() if identity in used),
        alive=_alive(forward + backward, given),
        operations=[[str(e["op"]).split(".")[1] for e in half] for half in (forward, backward)],
        states=[[int(e["state"]) for e in half if "state" in e] for half in (forward, backward)],
        restored=events[marks[BACKWARD]]["state"] == events[marks[END]]["state"],
    )


def _alive(events: Sequence[Mapping[str, Any]], given: set[str]) -> int:
    """Most bytes that wait for their last use, of storages that these events make. What is held and never used does not count."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    size: dict[str, int] = {}
    for i, event in enumerate(events):
        for identity, nbytes in _storages([event["args"], event["kwargs"], event["out"]]):
            if identity not in given:
                first.setdefault(identity, i)
                last[identity], size[identity] = i, max(nbytes, size.get(identity, 0))
    changes = [0] * (len(events) + 1)
    for identity, nbytes in size.items():
        changes[first[identity]] += nbytes
        changes[last[identity] + 1] -= nbytes
    return max(accumulate(changes), default=0)


def _storages(value: Any) -> Iterator[tuple[str, int]]:
    """(storage id, bytes of the elements that are seen of it) of every tensor in values of a log."""
    match value:
        case {"tensor": str(identity), "dtype": str(dtype), "size": list(size)}:
            yield identity, math.prod(size) * DTYPES[dtype].itemsize
        case dict():
            yield from _storages(list(value.values()))
        case list():
            for item in value:
                yield from _storages(item)
