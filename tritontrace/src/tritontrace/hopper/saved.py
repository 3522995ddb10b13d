"""Launches in several orders as JSON holds them, there and back: a trace's data (tracing/saved.py), and what came to light beyond it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tritontrace.messages import say
from tritontrace.results import Hazard
from tritontrace.tracing import saved
from tritontrace.tracing.recorded import Recorded
from tritontrace.tracing.traced import Trace


def as_data(trace: Recorded, orders: Sequence[str], mistakes: Sequence[Hazard] = ()) -> dict[str, Any]:
    """Return a trace and its simulation, as JSON can hold them: a trace's data, the names of the execution orders, the faults.

    Sizes are in bytes, shares from 0 to 1; docs/schema.md has each name.

    >>> data = as_data(right.trace, ORDERS)
    >>> data["schema"], data["bytes"], len(data["orders"]), data["mistakes"]
    (1, 512, 6, [])
    """
    return {**saved.as_data(trace), "orders": list(orders), "mistakes": [asdict(mistake) for mistake in mistakes]}


def from_data(data: Mapping[str, Any]) -> tuple[Trace, list[str], list[Hazard]]:
    """Return the trace, the orders and the mistakes that as_data made this of, or `tritontrace simulate --format json`.

    Raises ValueError where `data` has another schema, or is a trace's alone.

    >>> trace, orders, mistakes = from_data(as_data(right.trace, ORDERS))
    >>> trace.bytes, orders == list(ORDERS), mistakes
    (512, True, [])
    """
    trace = saved.from_data(data)
    if "orders" not in data:
        raise ValueError(say("asked.trace.of_a_simulation"))
    return trace, [*data["orders"]], [Hazard(**mistake) for mistake in data["mistakes"]]
