"""Runs launches in several orders, and keeps what came to light."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from course_lib.compiled import quiet
from course_lib.compiled.complaints import refusal
from course_lib.compiled.places import Places
from course_lib.evidence import Counts
from course_lib.evidence import Fault as MemoryFault
from course_lib.hopper import facts, show
from course_lib.hopper.evaluate import Code, code_of
from course_lib.hopper.faults import Fault, Kind, Mistake, Spot, mistake
from course_lib.hopper.machine import Machine, Product
from course_lib.hopper.orders import ORDERS, Order, order_of
from course_lib.hopper.timeline import TENSOR_CORES, Costs, Timeline
from course_lib.hopper.upkeep import Upkeep
from course_lib.threads import one_thread
from course_lib.tracing.evaluate import Programs
from course_lib.tracing.interception import launches_go_to
from course_lib.tracing.memory import bytes_behind, storage_key
from course_lib.tracing.traced import Trace
from course_lib.tracing.work import Work
from course_lib.ttir.frontend import Front
from course_lib.ttir.launching import Hazardous, Uncompilable, tensors_in
from course_lib.words import plural


@dataclass
class Run:
    """One order: its fault if there was one, what was done, each product as it was issued; a timeline of "timed".

    sites   the kernel's instructions that began a copy or a product: what, by which partition, where
    exponentials   cycles of them; beside_products  of those, the ones while a product of the same partition was under way
    partitions     of the program that had most
    """

    order: str
    trace: Trace
    fault: Fault | None = None
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
        """Whether it can come to pass in no other order: by one partition, with nothing under way and nobody to wait for."""
        done = self.counts
        under_way = done.tma_loads + done.tma_stores + done.async_copies + done.wgmma
        return self.fault is None and self.partitions == 1 and not under_way + done.barriers

    @property
    def overlapped(self) -> float:
        """The same as Report.overlapped, in this order alone."""
        work = sum(product.multiply_adds for product in self.products)
        return sum(p.multiply_adds for p in self.products if p.copies) / work if work else 0.0

    @property
    def read_ahead(self) -> float:
        """The part of what threads load of tiles, by bytes, that they load while a copy is under way."""
        return self.counts.threads_read_ahead / max(1, self.counts.threads_read)


@dataclass(repr=False)
class Report:
    """All that came to light of a kernel in several orders."""

    runs: list[Run]
    faults: list[Fault]

    @property
    def right(self) -> bool:
        """Whether no order brought a mistake to light. Whether the numbers are right, the tensors say."""
        return not self.faults and not self.memory_faults

    @property
    def memory_faults(self) -> list[MemoryFault]:
        """Faults that a trace finds in the use of global memory: races between programs, tensors that nobody has written."""
        return self.trace.faults

    @property
    def fault(self) -> Fault | None:
        """The fault that says most of its cause."""
        return self.faults[0] if self.faults else None

    def run(self, order: str) -> Run:
        return next(run for run in self.runs if run.order == order)

    @property
    def counts(self) -> Counts:
        """Numbers of barriers, copies, products and bytes; of the first order, and all have the same if there is no fault."""
        return self.runs[0].counts

    @property
    def instructions(self) -> Counter[str]:
        """How many instructions of the kernel begin a "TMA load", "TMA store", "cp.async" or "wgmma", however often they run."""
        return Counter(what for what, *_ in self.runs[0].sites)

    @property
    def shared_bytes(self) -> int:
        return max(run.shared_bytes for run in self.runs)

    @property
    def products(self) -> list[Product]:
        """The products of the first order, as they were issued. In "lazy", whoever fetches is as far ahead as it may be."""
        return self.runs[0].products

    @property
    def overlapped(self) -> float:
        """The part of the products, by their work, beside which a copy was under way that nobody had waited for yet: in
        the order in which they are most. 0 means that each product waits for all copies."""
        return max(run.overlapped for run in self.runs)

    @property
    def exponentials_beside_products(self) -> float:
        """The part of the exponentials that a partition computes while a product of its own is under way."""
        run = self.runs[0]
        return run.beside_products / run.exponentials if run.exponentials else 0.0

    @property
    def read_ahead(self) -> float:
        """The part of what threads load of tiles, by bytes, that they load while a copy to shared memory is under way: in the order
        in which that is most. 0 means that each load waits for all copies."""
        return max(run.read_ahead for run in self.runs)

    @property
    def trace(self) -> Trace:
        """The trace of the first order: what it did to global memory."""
        return self.runs[0].trace

    def timeline(self, program: int = 0):
        """A Picture of what was busy when in one program, by the model in timeline.py. ValueError without the order "timed"."""
        from course_lib.hopper import draw  # matplotlib takes a while

        return draw.timeline(self, program)

    def __str__(self) -> str:
        return show.text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return show.html(self)

    @property
    def tensor_cores_busy(self) -> float | None:
        """The part of the time in which tensor cores were busy, by the model in timeline.py; None without the order "timed"."""
        timeline = next((run.timeline for run in self.runs if run.timeline), None)
        return timeline.busy(TENSOR_CORES) if timeline else None


@one_thread()
def simulate(
    launch: Callable,
    *args: Any,
    orders: Sequence[str] = ORDERS,
    work: Work | None = None,
    costs: Costs | None = None,
    **options: Any,
) -> Report:
    """Run `launch(*args, **options)` once in each of these orders, and return a Report.

        report = simulate(kernel[(4,)], a_desc, b_desc, c_ptr, K, num_warps=4)

    launch   a kernel with its grid, or a function that launches kernels;  orders  names, as in orders.py
    work     what all orders together may do; beyond that a KernelError, work.TooSlow
    costs    of copies, for the order "timed", other than timeline.py has them

    Tensors hold what the last order left, and each order begins with what they held before. A run ends at its first mistake.
    Raises KernelFault if a kernel reaches outside of a tensor, KernelError if it cannot run here.
    """
    if not orders:
        raise ValueError("orders is empty: name one at least.")

    def start(simulation: _Simulation) -> None:
        with launches_go_to(simulation.launch):
            launch(*args, **options)

    return _report([_Simulation(order_of(name, costs), name, work) for name in orders], start)


def _report(simulations: Sequence[_Simulation], start: Callable[[_Simulation], None]) -> Report:
    """Start the same in each simulation, one after the other on the same data; once, where no order can change anything."""
    runs, before, after = [], {}, None
    for simulation in simulations:
        if runs and runs[0].one_way and simulation.run.timeline is None:
            runs.append(replace(runs[0], order=simulation.run.order, timeline=None))
            continue
        simulation.before = before
        simulation.restore()
        try:
            start(simulation)
        except Mistake as found:
            simulation.run.fault = found.fault.found(simulation.run.order, simulation.program)
        runs.append(simulation.run)
        if simulation.run.fault is None:
            left = {key: bytes_behind(tensor).clone() for key, (tensor, _) in before.items()}
            if after is not None and (other := next((key for key in left if not left[key].equal(after[key])), None)):
                where = _first_other(before[other][0], left[other], after[other])
                simulation.run.fault = _differs(runs, where).found(simulation.run.order, 0)
            after = after or left
    found = [run.fault for run in runs if run.fault]
    return Report(runs, _each_once(found))


def _first_other(tensor: torch.Tensor, left: torch.Tensor, after: torch.Tensor) -> str:
    """Say where the bytes behind a tensor differ first."""
    byte = int((left != after).nonzero()[0])
    return f"element {byte // tensor.element_size():,} of a tensor with {tensor.numel():,}"


def _differs(runs: list[Run], where: str) -> Fault:
    same = next(run.order for run in runs if run.fault is None)
    return Fault(
        Kind.ORDER,
        f'the order "{runs[-1].order}" leaves other numbers than "{same}", first in {where}. Either two partitions store to one element, '
        "or one loads it before another has stored it, and no barrier says who comes first.",
    )


def _each_once(faults: list[Fault]) -> list[Fault]:
    """Faults of the same kind at the same lines once, those first that say most."""
    known: dict[Any, Fault] = {}
    for fault in faults:
        known.setdefault((fault.kind, fault.lines), fault)
    return sorted(known.values(), key=lambda fault: fault.kind.rank)


OTHER_WARPS = re.compile(r"Layout has (\d+) warps per CTA, but the context requires (\d+) warps")  # Triton's verifier


def _foreign(error: BaseException | None, held: str, there: str) -> Mistake:
    """The mistake of a partition that is passed a block which other warps hold, as the front end finds it."""
    spots: list[Spot] = []
    while error is not None:
        line = getattr(getattr(error, "node", None), "lineno", 0)
        source = (getattr(error, "src", None) or "").splitlines()
        name = re.match(r"\s*def (\w+)", source[0]) if source else None
        if name and line and name[1] not in [spot.function for spot in spots]:
            spots.append(Spot(name[1], line, source[line - 1].strip(), spots[-1] if spots else None))
        error = error.__cause__
    where = f" in {spots[-1]}" if spots else ""
    return mistake(
        Kind.REGISTERS,
        f"a block is used{where}, by {plural(int(there), 'warp')}, and its layout spreads it over the registers of {held}. A layout must "
        "have as many warps as run the line: num_warps of the launch, or what warp_specialize gives the partition. What other warps hold "
        "comes through shared memory alone.",
        second=spots[-1] if spots else None,
    )


class _Simulation(Trace):
    """A trace whose programs run on machines. before: tensors by storage, with the bytes that they held at first."""

    def __init__(self, order: Order, name: str, work: Work | None, inputs: Iterable[torch.Tensor] = ()):
        super().__init__(inputs=inputs, work=work)
        self.decisions, self.program = order, 0
        self.run = Run(name, self, timeline=order.timeline)
        self.before: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def restore(self) -> None:
        for tensor, held in self.before.values():
            bytes_behind(tensor).numpy()[...] = held.numpy()  # past torch, where a trace would take it for written

    def _code_of(self, front: Front) -> Any:
        return _OneByOne(code_of(front), self)

    def _code(self, kernel: Any, arguments: dict[str, Any], options: dict[str, Any]) -> Any:
        heard: list[str] = []
        try:
            with quiet(heard):
                return super()._code(kernel, arguments, options)
        except Uncompilable as refused:
            if found := OTHER_WARPS.search("".join(heard)):
                raise _foreign(refused.__context__, *found.groups()) from None
            raise Uncompilable(
                refusal(Places(kernel, arguments), refused.__context__, "".join(heard)), refused.kernel
            ) from None

    def _run(self, code: Any, arguments: dict[str, Any], grid: Any) -> None:
        for name, value in arguments.items():
            for _, tensor in tensors_in(name, value):
                self.before.setdefault(storage_key(tensor), (tensor, bytes_behind(tensor).clone()))
        self.upkeep = Upkeep()
        super()._run(code, arguments, grid)
        if isinstance(code, _OneByOne):
            self.upkeep.look(code.gates)

    def on_a_machine(self, code: Code, values: list, programs: Programs) -> None:
        machine = Machine(self.decisions, self.work)
        self.program = int(programs.numbers[0])
        try:
            code.run_block(values, programs, machine)
            self.upkeep.add(machine)
        finally:
            self.run.counts += machine.account()
            self.run.products += machine.products
            self.run.sites |= machine.sites
            self.run.exponentials += machine.exponentials
            self.run.beside_products += machine.beside_products
            self.run.partitions = max(self.run.partitions, len(machine.agents))
            self.run.shared_bytes = max(self.run.shared_bytes, machine.shared.most)


class EveryOrder(_Simulation):
    """A trace whose launches run once in each of these orders, on the same data. It counts the first order's; what a tensor holds
    is the last one's. Of each launch the facts stand in Launch.simulated.

    Raises Hazardous for a launch with a fault.
    """

    def __init__(self, orders: Sequence[str] = ORDERS, inputs: Iterable[torch.Tensor] = (), work: Work | None = None):
        super().__init__(order_of(orders[0]), orders[0], work, inputs)
        self._others = orders[1:]

    @one_thread()
    def launch(self, kernel: Any, args: tuple, grid: Any, options: dict[str, Any]) -> None:
        self.run = Run(self.run.order, self)

        def start(simulation: _Simulation) -> None:
            _Simulation.launch(simulation, kernel, args, grid, options)

        report = _report([self, *map(self._other, self._others)], start)
        if report.faults:
            raise Hazardous(list(map(facts.hazard, report.faults)))
        self.launches[-1].simulated = facts.simulated(report)

    def _other(self, name: str) -> _Simulation:
        """A simulation in another order, which calls tensors by the same names."""
        made = _Simulation(order_of(name), name, self.work)
        made._names, made._inputs = self._names, self._inputs
        return made


class _OneByOne:
    """Code as a trace runs it: one program after another, each on a machine."""

    talks, waits, largest = True, False, 1

    def __init__(self, code: Code, simulation: _Simulation):
        self._code, self._simulation = code, simulation

    @property
    def gates(self) -> set[object]:
        return self._code.gates

    def run(self, values: list, programs: Programs) -> None:
        self._simulation.on_a_machine(self._code, values, programs)
