"""Functions of which a process may not know all that they are judged on.

RELAYS   called in two processes, of which the second knows of the first what travels between them, and no more:
         arguments ──given──▶ first process ──what it returns──▶ second process, which has none of the arguments
ONCE     called once, without arguments: what it returns is judged on every case
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from course_lib.workloads.checkpointed import stopped_state

# trap: what a process says of itself is no evidence. What it returns is, where it cannot know what it should return
Calls = Sequence[Sequence[dict[str, Any]]]  # of each case, the arguments of each call


@dataclass(frozen=True)
class Relay:
    """Two entries of calls.CALLS that run one after the other, in two processes. given: the arguments of a case -> those of the first
    process; travels: the keys of its result that are passed to the second. Both results are merged into one dict."""

    first: str
    second: str
    given: Callable[..., dict[str, Any]]
    travels: Sequence[str]


RELAYS = {
    "through a checkpoint": Relay(
        "into a file", "out of a file", lambda **arguments: {"state": stopped_state(**arguments)}, ("file", "kept")
    )
}
"""By Exercise.called."""
ONCE = frozenset({"for its inputs"})


def repeated(logs: Sequence[dict[str, Any]], calls: Calls) -> list[dict[str, Any]]:
    """Copy the log of the only call to each call of each case. Raises ValueError, KeyError or TypeError if it is malformed."""
    (log,) = logs
    (call,) = log["calls"]
    return [{**log, "calls": [call for _ in case]} for case in calls]


def first_calls(relay: Relay, calls: Calls) -> list[list[dict[str, Any]]]:
    """Return the arguments for the first process, per case and call."""
    return [[relay.given(**arguments) for arguments in case] for case in calls]


def second_calls(relay: Relay, logs: Sequence[Mapping[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return the arguments for the second process, a case for each call whose first process had a result. Raises KeyError, TypeError or
    AttributeError if the logs are malformed."""
    results = [call["result"]["dict"] for log in logs for call in log["calls"] if _has_result(call)]
    return [[{name: _text(result[name]) for name in relay.travels}] for result in results]


def joined(logs: Sequence[dict[str, Any]], second: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Merge the results of the second process into the logs of the first. Raises ValueError, or as second_calls, if they do not fit."""
    found = [{**log, "calls": [dict(call) for call in log["calls"]]} for log in logs]
    waiting = [call for log in found for call in log["calls"] if _has_result(call)]
    answers = [call for log in second for call in log["calls"]]
    for call, answer in zip(waiting, answers, strict=True):
        if answer["error"] or not _has_result(answer):
            call |= {name: answer[name] for name in ("error", "cause", "result")}
        else:
            call["result"] = {"dict": {**call["result"]["dict"], **answer["result"]["dict"]}}
    return found


def _has_result(call: Mapping[str, Any]) -> bool:
    return not call["error"] and isinstance(call["result"], dict) and "dict" in call["result"]


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError("what travels is text")
    return value
