"""Vector clocks: what an agent knows of the others."""

from __future__ import annotations

Clock = dict[int, int]  # agent -> its last event that is known


def join(clock: Clock, other: Clock) -> None:
    """Merge a vector clock into another: the maximum of each agent's tick."""
    for agent, tick in other.items():
        if clock.get(agent, 0) < tick:
            clock[agent] = tick
