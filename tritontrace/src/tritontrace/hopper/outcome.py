"""The outcome that came to light of launches in several orders, as data: a Run for each order, faults, and what is asked of them all."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tritontrace.hopper.faults import Fault, Spot
from tritontrace.hopper.machine import Product
from tritontrace.hopper.timeline import TENSOR_CORES, Timeline
from tritontrace.results import Counts
from tritontrace.results import Fault as MemoryFault
from tritontrace.tracing.traced import Trace


@dataclass
class Run:
    """One simulation under one execution order: its fault if there was one, its counts, each product as issued; a timeline of "timed".

    unwritten  reads of shared memory that nobody had written: the run goes on behind them
    sites   the kernel's instructions that began a copy or a product: what, by which partition, where
    exponentials   cycles of them; beside_products  of those, the ones while a product of the same partition was under way
    partitions     of the program that had most
    """

    order: str
    trace: Trace
    fault: Fault | None = None
    unwritten: list[Fault] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    products: list[Product] = field(default_factory=list)
    sites: set[tuple[str, str, Spot, int]] = field(default_factory=set)
    shared_bytes: int = 0
    exponentials: float = 0.0
    beside_products: float = 0.0
    partitions: int = 1
    timeline: Timeline | None = None

    @property
    def one_way(self) -> bool:
        """Whether every execution order gives the same run: one partition, with nothing in flight and nothing to wait for."""
        done = self.counts
        under_way = done.tma_loads + done.tma_stores + done.async_copies + done.wgmma
        return self.fault is None and self.partitions == 1 and not under_way + done.barriers

    # trap: the most over all orders: in one alone, somebody may have waited for every copy before others multiply
    @property
    def overlapped(self) -> float:
        """Return Report.overlapped in this execution order alone."""
        work = sum(product.multiply_adds for product in self.products)
        return sum(p.multiply_adds for p in self.products if p.copies) / work if work else 0.0

    @property
    def read_ahead(self) -> float:
        """Return the share of the tile bytes loaded by threads that are loaded while a copy is in flight."""
        return self.counts.threads_read_ahead / max(1, self.counts.threads_read)


@dataclass(repr=False)
class Outcome:
    """The results of simulating a kernel in several execution orders."""

    runs: list[Run]
    faults: list[Fault]

    @property
    def right(self) -> bool:
        """Whether no execution order brought a fault to light. Whether the numbers are right, the tensors say."""
        return not self.faults and not self.memory_faults

    @property
    def memory_faults(self) -> list[MemoryFault]:
        """List faults in the use of global memory, as a trace finds them: races between programs, uninitialised reads."""
        return self.trace.faults

    @property
    def fault(self) -> Fault | None:
        """Return the fault that says most about its cause, or None."""
        return self.faults[0] if self.faults else None

    def run(self, order: str) -> Run:
        """Return the Run in the execution order of that name."""
        return next(run for run in self.runs if run.order == order)

    @property
    def counts(self) -> Counts:
        """Return numbers of barriers, copies, products and bytes; of the first execution order, and equal in all if there is no fault."""
        return self.runs[0].counts

    @property
    def instructions(self) -> Counter[str]:
        """Count the instructions of the kernel that issue a "TMA load", "TMA store", "cp.async" or "wgmma", however often they run."""
        return Counter(what for what, *_ in self.runs[0].sites)

    @property
    def shared_bytes(self) -> int:
        return max(run.shared_bytes for run in self.runs)

    @property
    def products(self) -> list[Product]:
        """Return the products of the first execution order, as issued. In "lazy", whoever fetches is as far ahead as it may be."""
        return self.runs[0].products

    @property
    def overlapped(self) -> float:
        """Return the share of the products, by their work, issued while a copy was in flight that had not been waited for yet: in the
        execution order with the highest share. 0 means that each product waits for all copies."""
        return max(run.overlapped for run in self.runs)

    @property
    def exponentials_beside_products(self) -> float:
        """Return the share of the exponentials that a partition computes while a product of its own is in flight."""
        run = self.runs[0]
        return run.beside_products / run.exponentials if run.exponentials else 0.0

    @property
    def read_ahead(self) -> float:
        """Return the share of the tile bytes loaded by threads that are loaded while a copy to shared memory is in flight: in the execution
        order with the highest share. 0 means that each load waits for all copies."""
        return max(run.read_ahead for run in self.runs)

    @property
    def trace(self) -> Trace:
        """Return the trace of the first execution order: what it did to global memory."""
        return self.runs[0].trace

    @property
    def tensor_cores_busy(self) -> float | None:
        """Return the share of the time in which tensor cores were busy, by the model in timeline.py; None without the order "timed"."""
        timeline = next((run.timeline for run in self.runs if run.timeline), None)
        return timeline.busy(TENSOR_CORES) if timeline else None
