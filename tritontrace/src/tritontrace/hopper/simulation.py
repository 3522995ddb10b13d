"""Runs launches in several orders, and keeps what came to light."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from tritontrace.compiled import quiet
from tritontrace.compiled.complaints import refusal
from tritontrace.compiled.places import Places
from tritontrace.hopper import facts
from tritontrace.hopper.evaluate import Code, code_of
from tritontrace.hopper.faults import Fault, Kind, Mistake, Spot, mistake
from tritontrace.hopper.machine import Machine
from tritontrace.hopper.orders import ORDERS, Order, order_of
from tritontrace.hopper.outcome import Run
from tritontrace.hopper.report import Report
from tritontrace.hopper.timeline import Costs
from tritontrace.hopper.upkeep import Upkeep
from tritontrace.messages import Message, say
from tritontrace.threads import one_thread
from tritontrace.tracing.interception import launches_go_to
from tritontrace.tracing.launcher import Launcher
from tritontrace.tracing.memory import bytes_behind, storage_key
from tritontrace.tracing.program import Programs
from tritontrace.tracing.traced import Trace
from tritontrace.tracing.work import Work
from tritontrace.ttir.frontend import Front
from tritontrace.ttir.launching import Hazardous, KernelError, KernelFault, Uncompilable, tensors_in


@one_thread()
def simulate(
    launch: Callable,
    *args: Any,
    orders: Sequence[str] = ORDERS,
    work: Work | None = None,
    costs: Costs | None = None,
    **options: Any,
) -> Report:
    """Run `launch(*args, **options)` once in each of these execution orders, and return a Report.

    launch   a kernel with its grid, or a function that launches kernels;  orders  names, as in orders.py
    work     what all orders together may do; beyond that a KernelError, work.TooSlow
    costs    of copies, for the order "timed", other than timeline.py has them, in cycles

    Tensors hold what the last order left, and each order begins with what they held before. A run ends at its first mistake.
    Raises KernelFault if a kernel reaches outside of a tensor, KernelError if it cannot run here, ValueError without an order.

    >>> report = simulate(fetch[(1,)], x_desc, y, WAITS=True, num_warps=4)
    >>> report.right, report.counts.tma_loads, report.counts.bytes_to_shared
    (True, 1, 256)
    >>> report = simulate(fetch[(1,)], x_desc, y, WAITS=False, orders=("lazy",), num_warps=4)
    >>> report.fault.kind.value, [spot.line for spot in report.fault.lines]
    ('read before it is there', [6, 11])
    >>> simulate(fetch[(1,)], x_desc, y, WAITS=True, orders=())
    Traceback (most recent call last):
        ...
    ValueError: orders is empty: name one at least.
    """
    if not orders:
        raise ValueError(say("asked.simulation.no_orders"))

    def start(simulation: _Simulation) -> None:
        with launches_go_to(simulation.launch, assemble=True):
            launch(*args, **options)

    return _report([_Simulation(order_of(name, costs), name, work) for name in orders], start)


def _report(simulations: Sequence[_Simulation], start: Callable[[_Simulation], None]) -> Report:
    """Start the same in each simulation, one after the other on the same data and random numbers; once, where no order can change
    anything."""
    runs, consequences, before, random, first = [], [], {}, torch.get_rng_state(), None
    for simulation in simulations:
        if runs and runs[0].one_way and simulation.run.timeline is None:
            runs.append(replace(runs[0], order=simulation.run.order, timeline=None))
            continue
        simulation.begin(before)
        torch.set_rng_state(random)
        try:
            start(simulation)
        except Mistake as found:
            simulation.run.fault = found.fault.found(simulation.run.order, simulation.program)
        except (KernelError, KernelFault):
            if not simulation.run.unwritten:
                raise  # else it comes of numbers that nobody has written
        finally:
            simulation.end()
        runs.append(simulation.run)
        behind = simulation.run.fault
        if simulation.run.unwritten:
            simulation.run.fault = simulation.run.unwritten[0]
            consequences += [*simulation.run.unwritten[1:], *([behind] if behind else [])]
        if simulation.run.fault is None:
            remains = simulation.left()
            if first is not None and (other := _other(first, remains)):
                simulation.run.fault = Fault(Kind.ORDER, other).found(simulation.run.order, 0)
            first = first or remains
    return Report(runs, _each_once([run.fault for run in runs if run.fault], consequences))


class Left(NamedTuple):
    """Results in global memory that a execution order left behind.

    launches  the kernel and the grid of each;  tensors  by the launch and the parameter where each was seen first: itself, its bytes,
              and which of these some kernel stored. Functions that allocate make others in each order
    """

    order: str
    launches: list[tuple[str, tuple[int, ...]]]
    tensors: dict[tuple[int, str], tuple[torch.Tensor, torch.Tensor, torch.Tensor]]


def _other(one: Left, another: Left) -> Message | None:
    """Say what `another` left otherwise than `one`; None for nothing."""
    orders = {"order": another.order, "first": one.order}
    if one.launches != another.launches:
        theirs, ours = _called(another.launches), _called(one.launches)
        return say("hopper.order.launches", **orders, launches=theirs, others=ours)
    for key, (tensor, bytes_left, stored) in another.tensors.items():
        _, before, stored_before = one.tensors[key]
        differs = (
            (bytes_left != before) & (stored | stored_before)
            if before.numel() == bytes_left.numel()
            else torch.ones_like(stored)
        )
        if differs.any():
            element = int(differs.nonzero()[0]) // tensor.element_size()
            return say("hopper.order.numbers", **orders, element=element, size=tensor.numel())
    return None


def _called(launches: Sequence[tuple[str, tuple[int, ...]]]) -> str:
    return ", ".join(f"`{kernel}` with grid {grid}" for kernel, grid in launches) or "nothing"


def _each_once(*groups: list[Fault]) -> list[Fault]:
    """Faults of the same kind at the same lines once, group by group those first that say most."""
    known: dict[Any, Fault] = {}
    for faults in groups:
        for fault in sorted(faults, key=lambda fault: fault.kind.rank):
            known.setdefault((fault.kind, fault.lines), fault)
    return list(known.values())


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
    where = say("hopper.use.at", spot=str(spots[-1])) if spots else ""
    return mistake(
        Kind.REGISTERS,
        say("hopper.use.layout", where=where, warps=int(there), held=held),
        second=spots[-1] if spots else None,
    )


def _overwrite(tensor: torch.Tensor, held: torch.Tensor) -> None:
    """Put bytes behind a tensor, past torch, where a trace would take it for written."""
    bytes_behind(tensor).numpy()[...] = held.numpy()


class _Simulation(Launcher):
    """A launcher whose programs run on machines.

    before  tensors by storage, with the bytes that they held at first. It keeps them alive: no other tensor gets their address
    """

    def __init__(self, order: Order, name: str, work: Work | None, inputs: Iterable[torch.Tensor] = ()):
        self.trace = Trace(inputs=inputs)
        super().__init__(self.trace, work=work)
        self.decisions, self.program = order, 0
        self.run = Run(name, self.trace, timeline=order.timeline)
        self.before: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._given: dict[int, tuple[tuple[int, str], torch.Tensor]] = {}  # by storage: where it was seen first
        self._earlier: dict[int, torch.Tensor] = {}  # by storage: the bytes that the orders before this one left
        self._first = 0  # the number of the first launch in this order

    def begin(self, before: dict[int, tuple[torch.Tensor, torch.Tensor]]) -> None:
        """Begin one more order of events: each tensor holds what it held before the first order was simulated."""
        self.before, self._given, self._first = before, {}, len(self.trace.launches)
        self._earlier = {key: bytes_behind(tensor).clone() for key, (tensor, _) in before.items()}
        for tensor, held in before.values():
            _overwrite(tensor, held)

    def end(self) -> None:
        """Let tensors that this order was not given hold what an earlier one left: it made them for itself."""
        for key in self._earlier.keys() - self._given.keys():
            _overwrite(self.before[key][0], self._earlier[key])

    def left(self) -> Left:
        """Return the launches of this order, and the tensors that it was given with what they hold now."""
        launches = [(launch.kernel, launch.grid) for launch in self.trace.launches[self._first :]]
        tensors = {
            key: (tensor, bytes_behind(tensor).clone(), self._stored(tensor)) for key, tensor in self._given.values()
        }
        return Left(self.run.order, launches, tensors)

    def _stored(self, tensor: torch.Tensor) -> torch.Tensor:
        """Mark which of the bytes behind a tensor some kernel stored."""
        region = self.trace.regions.of(tensor)
        if region.writes is None:
            return torch.zeros(region.nbytes, dtype=torch.bool)
        return torch.from_numpy(region.writes > 0).repeat_interleave(region.itemsize)[: region.nbytes]

    def _code_of(self, front: Front) -> Any:
        for source in front.sources[1:]:  # a partition's lines are its own ones
            self.trace.sources.setdefault(source.name, source)
        return _OneByOne(code_of(front), self)

    def _code(self, kernel: Any, arguments: dict[str, Any], options: dict[str, Any]) -> Any:
        if (ctas := options.get("num_ctas") or 1) > 1:
            name = getattr(kernel, "__name__", "kernel")
            raise KernelError(say("launch.run.clusters", kernel=name, ctas=ctas))
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
            for part, tensor in tensors_in(name, value):
                key, number = storage_key(tensor), len(self.trace.launches) - 1 - self._first
                self.before.setdefault(key, (tensor, bytes_behind(tensor).clone()))
                self._given.setdefault(key, ((number, part), tensor))
        self.upkeep = Upkeep()
        super()._run(code, arguments, grid)
        if isinstance(code, _OneByOne):
            self.upkeep.look(code.gates)

    def on_a_machine(self, code: Code, values: list, programs: Programs) -> None:
        """Run these programs of a launch, each on a machine of its own, one after another."""
        machine = Machine(self.decisions, self.work)
        self.program = int(programs.numbers[0])
        try:
            code.run_block(values, programs, machine)
            self.upkeep.add(machine)
        finally:
            order, number = self.run.order, self.program
            self.run.unwritten += [fault.found(order, number) for fault in machine.shared.unwritten]
            self.run.counts += machine.account()
            self.run.products += machine.products
            self.run.sites |= machine.sites
            self.run.exponentials += machine.exponentials
            self.run.beside_products += machine.beside_products
            self.run.partitions = max(self.run.partitions, len(machine.agents))
            self.run.shared_bytes = max(self.run.shared_bytes, machine.shared.most)


# trap: all orders run on the same data; what is counted is the first order's, and the first hazard ends the launch
class EveryOrder(_Simulation):
    """A launcher that simulates each launch once in each of these execution orders, on the same data. It counts the first order's; what a
    tensor holds is the last one's. Of each launch the facts stand in Launch.simulated.

    Raises Hazardous for a launch with a fault.

    >>> from tritontrace.tracing import opened
    >>> with opened(EveryOrder()) as seen:
    ...     _ = fetch[(1,)](x_desc, y, WAITS=True, num_warps=4)
    >>> seen.launches[0].simulated.orders > 1
    True
    """

    def __init__(self, orders: Sequence[str] = ORDERS, inputs: Iterable[torch.Tensor] = (), work: Work | None = None):
        super().__init__(order_of(orders[0]), orders[0], work, inputs)
        self._others = orders[1:]

    @one_thread()
    def launch(self, kernel: Any, args: tuple, grid: Any, options: dict[str, Any]) -> None:
        """Simulate one launch in each execution order, as kernel[grid](*args, **options) asks for it."""
        self.run = Run(self.run.order, self.trace)

        def start(simulation: _Simulation) -> None:
            _Simulation.launch(simulation, kernel, args, grid, options)

        report = _report([self, *map(self._other, self._others)], start)
        if report.faults:
            raise Hazardous(list(map(facts.hazard, report.faults)))
        self.trace.launches[-1].simulated = facts.simulated(report)

    def _other(self, name: str) -> _Simulation:
        """A simulation in another order, which calls tensors by the same names."""
        made = _Simulation(order_of(name), name, self.work)
        made.trace.regions.names, made.trace.regions.inputs = self.trace.regions.names, self.trace.regions.inputs
        return made


class _OneByOne:
    """Code as a trace runs it: one program after another, each on a machine; those that may wait for one another take turns."""

    talks, largest = True, 1

    def __init__(self, code: Code, simulation: _Simulation):
        self._code, self._simulation, self.waits, self.tf32 = code, simulation, code.waits, code.tf32

    @property
    def gates(self) -> set[object]:
        return self._code.gates

    def run(self, values: list, programs: Programs) -> None:
        self._simulation.on_a_machine(self._code, values, programs)
