"""Vector clocks: what an agent knows of the others."""

from __future__ import annotations

Clock = dict[int, int]  # agent -> its last event that is known


def join(clock: Clock, other: Clock) -> None:
    """Let whoever has `clock` know what `other` knows."""
    for agent, tick in other.items():
        if clock.get(agent, 0) < tick:
            clock[agent] = tick
