"""One program as a partition runs it, and the values that only Gluon knows: tiles are memory.View, products may be Pending."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from tritontrace.hopper.agents import Agent, Flight
from tritontrace.hopper.faults import Kind, Spot, mistake
from tritontrace.hopper.machine import Machine
from tritontrace.messages import say
from tritontrace.tracing.program import Launched, Programs
from tritontrace.tracing.sums import whole
from tritontrace.ttir import ir
from tritontrace.ttir.printed import type_of

MEMDESC = re.compile(r"!ttg\.memdesc<([^,]*), ")


class Partition(Programs):
    """One program, as one of its partitions runs it."""

    def __init__(self, numbers: np.ndarray, launched: Launched, machine: Machine, agent: Agent):
        super().__init__(numbers, launched)
        self.machine, self.agent = machine, agent


@dataclass(eq=False)
class Pending:
    """The result of a product in flight. value: (1, M, N), once `flight` is done."""

    flight: Flight
    value: np.ndarray | None = None


def arrived(value: Any, programs: Partition, spot: Spot) -> Any:
    """Return the numbers of a product that has been waited for. Raises Mistake if it has not."""
    if type(value) is not Pending:
        return whole(value)
    if not value.flight.joined:
        raise mistake(
            Kind.ACCUMULATOR,
            say(
                "hopper.use.accumulator",
                who=programs.agent.name,
                spot=str(spot),
                issued=str(value.flight.spot),
                why=value.flight.unwaited(),
            ),
            second=spot,
            first=value.flight.spot,
            who=programs.agent.name,
        )
    return value.value


def memory_of(kind: ir.Type) -> ir.Type:
    """Return the shape and element of a memory descriptor type such as "!ttg.memdesc<2x64x64xf16, ...>"."""
    found = MEMDESC.match(kind.element)
    assert found is not None
    return type_of(f"tensor<{found[1]}>")


def number(value: np.ndarray) -> int:
    """Return the value of a scalar as an int."""
    return int(value.reshape(-1)[0])
