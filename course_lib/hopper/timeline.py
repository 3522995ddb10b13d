"""A timeline of one SM: what is busy when, by a model in cycles. It shows who waits for whom; it is no measurement.

Costs are rates of datasheets, a bandwidth that was measured, and latencies of microbenchmarks; none is fitted to a kernel. Not in it:
the port of shared memory, which tensor cores, TMA and threads share; other SMs; clocks that change. So let a criterion compare two
kernels with a margin of ten points at least, and never grade a speed by it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from course_lib.hopper.machine import Agent, Flight


@dataclass(frozen=True)
class Costs:
    """Costs on one SM of an H100 or H200, in cycles.

    Rates: NVIDIA, *H100 Tensor Core GPU Architecture*, 2022: 4096 dense FLOPs in half precision and 128 lanes of float32 in a cycle;
    CUDA C++ Programming Guide, "Arithmetic Instructions": 16 results of the special function units; "Shared Memory": 32 banks of 4
    bytes. From L2 an H200 delivered 8.2 TB/s to an attention kernel (hardware/measured/attention.json, "descriptors"), which are 36
    bytes for each of 132 SMs at 1.75 GHz: it may be more. Latencies are the order of magnitude in Luo et al., *Dissecting the
    NVIDIA Hopper Architecture through Microbenchmarking*, 2024; those below 100 cycles hardly change a result.
    """

    multiply_adds: float = 2048  # of the tensor cores in a cycle, of 16-bit numbers
    product_issue: float = 16
    product_latency: float = 60  # from its end to registers that can be read
    lanes: float = 128  # of ordinary arithmetic in a cycle
    special: float = 16  # results of exp2 and the like in a cycle
    shared_bytes: float = 128  # between registers and shared memory in a cycle
    copy_latency: float = 700
    copy_bytes: float = 36  # of TMA and cp.async in a cycle
    wait: float = 30  # to look at a barrier that is open
    arrive: float = 20
    fence: float = 30


class Bar(NamedTuple):
    """A stretch from one cycle to another in which something was busy.

    row   a partition, COPIES or TENSOR_CORES;  what  with what it was busy, or for which partition
    """

    row: str
    start: float
    end: float
    what: str


COPIES, TENSOR_CORES, COMPUTES = "copies", "tensor cores", "arithmetic"
CHUNK = 64  # cycles for which partitions compete at a time


@dataclass
class Timeline:
    """The bars of one program after another, each from cycle 0 on."""

    costs: Costs
    bars: list[Bar] = field(default_factory=list)
    programs: list[list[Bar]] = field(default_factory=list)

    def begin(self) -> None:
        self.bars = []
        self.programs.append(self.bars)
        self._free = {COPIES: 0.0, TENSOR_CORES: 0.0, "lanes": 0.0, "special": 0.0}

    def bar(self, row: str, start: float, end: float, what: str) -> None:
        self.bars.append(Bar(row, start, end, what))

    def issued(self, flight: Flight) -> None:
        """Set when a flight ends: the copies go one after the other, and so do the products."""
        costs, now = self.costs, flight.issuer.time
        if flight.cycles:  # a product
            row, start, latency = TENSOR_CORES, now + costs.product_issue, costs.product_latency
            cycles = flight.cycles
        else:
            row, start, latency, cycles = COPIES, now, costs.copy_latency, flight.bytes / costs.copy_bytes
        start = max(self._free[row], start)
        self._free[row] = start + cycles
        self.bar(row, start, start + cycles, flight.who)
        flight.end = start + cycles + latency

    def compute(self, agent: Agent, work: dict[str, float]) -> None:
        """Put arithmetic on the clock: ordinary one and exponentials side by side, each shared with the other partitions."""
        start = agent.time
        for pipe, cycles in work.items():
            self._free[pipe] = max(self._free[pipe], start) + cycles
            agent.time = max(agent.time, self._free[pipe])
        self.bar(agent.name, start, agent.time, COMPUTES)

    @property
    def cycles(self) -> float:
        """The cycles of all programs, one after the other."""
        return sum(max((bar.end for bar in bars), default=0.0) for bars in self.programs)

    def busy(self, row: str) -> float:
        """The part of the time in which a row was busy, over all programs."""
        spent = sum(bar.end - bar.start for bars in self.programs for bar in bars if bar.row == row)
        return spent / self.cycles if self.cycles else 0.0
