"""A timeline of one SM: what is busy when, by a model in cycles. It shows who waits for whom; it is no measurement.

Each cost in `Costs` is measured, a datasheet's, or assumed, as is said there; none is fitted to a kernel's counters. Not in it: the port of
shared memory, which tensor cores, TMA and threads share; other SMs; clocks that change. So let a criterion compare two kernels
with a margin of ten points at least, and never judge a speed by it.

Next to the counters of an H100 (tests/hopper/test_timeline_and_counters.py) the part of the time in which tensor cores are busy is right
within ten points for four products of matrices, from 0.10 to 0.96, and for attention with heads of 128. With heads of 64 it is too large,
by 17 points. (Counted again with 132 heads, whose tiles came from cold caches, they were busy for 0.71 and 0.45: 15 and 20 points less than
here.) Its parts are right where each runs alone, as benchmarks/hopper_costs.py measured them: a softmax takes 868 cycles, 846
here. What the model lacks shows where one partition's softmax meets the products of another one, and that has not been measured: perhaps
a product whose left operand is in registers holds its warps longer, perhaps tensor cores, which keep their sums in registers too, slow
other instructions down.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tritontrace.hopper.agents import Agent, Flight


@dataclass(frozen=True)
class Costs:
    """Cycle costs on one SM of an H100 or H200. Files that are named are those of the repository in which this library began.

    Datasheets: 4096 dense FLOPs in half precision in a cycle (NVIDIA, *H100 Tensor Core GPU Architecture*, 2022); in a cycle 128 results
    of additions and multiplications in float32, 64 of comparisons, conversions and arithmetic with integers, 16 of the special function
    units, and 32 banks of 4 bytes (CUDA C++ Programming Guide, "Arithmetic Instructions" and "Shared Memory").

    Measured on an H100 (benchmarks/hopper_costs.py, hardware/measured/hopper_costs.json): a product takes 56 cycles more than its
    multiply-adds, which product_issue and product_latency add up to; the row of a tile is reduced in 56 cycles more than its instructions
    take, which depend on one another (`reduction`); a sum of exponentials takes 27 more than that (`special_latency`); `wait` and
    `arrive`, the warpgroup's own barrier before each included. `dependent`: fma in hardware/measured/memory_hierarchy.json.

    Measured on an H200, copy_bytes: research/matmul_persistent.py takes 48 KiB for each 128 x 256 x 64 of a product, and ran
    803 TFLOP/s (benchmarks/results/matmul.md), which are 71 GB/s for each of 132 SMs. 699 TFLOP/s with tensor cores busy for 81 %
    of the time (results/attention.md) mean a clock of 1.60 GHz, and 71 GB/s are 44 bytes per cycle of it. A plain loop read 35 to
    51 from L2 (benchmarks/latency.py, hardware/measured/memory_hierarchy.json: 9.0 to 13.3 TB/s at 1.98 GHz).

    copy_latency: 680 cycles from main memory are measured there, 283 from L2; the 20 cycles of the engine are assumed.

    Assumed: how product_issue and product_latency share what was measured, and fence. They are tens of cycles where a tile takes hundreds.

    >>> slow = simulate(fetch[(1,)], x_desc, y, WAITS=True, orders=("timed",), costs=Costs(copy_latency=7000), num_warps=4)
    >>> slow.right
    True
    """

    multiply_adds: float = 2048  # of the tensor cores in a cycle, of 16-bit numbers
    product_issue: float = 16
    product_latency: float = 40  # from its end to registers that can be read
    lanes: float = 128  # of instructions in a cycle, for a thread each
    half_rate: float = 64  # of those that compare, choose, convert or compute with integers
    dependent: float = 4.1  # from an instruction to another one that uses its result
    reduction: float = 56  # from a thread's part of a row to what its four threads have of it
    special: float = 16  # results of exp2 and the like in a cycle
    special_latency: float = 27  # from the last of them to an instruction that uses it
    shared_bytes: float = 128  # between registers and shared memory in a cycle
    copy_latency: float = 700
    copy_bytes: float = 44  # of TMA and cp.async in a cycle
    wait: float = 80  # to look at a barrier that is open
    arrive: float = 16
    fence: float = 30


class Bar(NamedTuple):
    """An interval of cycles in which something was busy.

    row   a partition, COPIES or TENSOR_CORES;  what  with what it was busy, or for which partition

    >>> Bar("fetch", 0.0, 700.0, "copy").end  # cycles
    700.0
    """

    row: str
    start: float
    end: float
    what: str


COPIES, TENSOR_CORES, COMPUTES = "copies", "tensor cores", "arithmetic"
ISSUED, HALF, SPECIAL = "issued", "half rate", "special"  # what the warps of all partitions share
OWN = "own"  # cycles in which a partition's own warps are at it, one instruction after another
CHAINS = 2  # rows of a product's tile that a thread holds: it reduces them side by side
CHUNK = 16  # cycles for which partitions compete at a time


@dataclass
class Timeline:
    """The bars of one program after another, each from cycle 0 on."""

    costs: Costs
    bars: list[Bar] = field(default_factory=list)
    programs: list[list[Bar]] = field(default_factory=list)

    def begin(self) -> None:
        self.bars = []
        self.programs.append(self.bars)
        self._free: dict[str, float] = dict.fromkeys((COPIES, TENSOR_CORES, ISSUED, HALF, SPECIAL), 0.0)

    def bar(self, row: str, start: float, end: float, what: str) -> None:
        self.bars.append(Bar(row, start, end, what))

    def issued(self, flight: Flight) -> None:
        """Schedule the end of a flight: copies run one after the other, and so do products."""
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
        """Schedule arithmetic: the pipes run in parallel, each for one partition after another."""
        start = agent.time
        for pipe, cycles in work.items():
            if pipe == OWN:
                end = start + cycles / agent.warps
            else:
                end = self._free[pipe] = max(self._free[pipe], start) + cycles
            agent.time = max(agent.time, end)
        self.bar(agent.name, start, agent.time, COMPUTES)

    @property
    def cycles(self) -> float:
        """Sum the cycles of all programs, run one after the other."""
        return sum(max((bar.end for bar in bars), default=0.0) for bars in self.programs)

    def busy(self, row: str) -> float:
        """Return the share of the time in which a row was busy, over all programs."""
        spent = sum(bar.end - bar.start for bars in self.programs for bar in bars if bar.row == row)
        return spent / self.cycles if self.cycles else 0.0
