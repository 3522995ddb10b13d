"""An Outcome as plain data: what results.py says of a launch in Gluon."""

from __future__ import annotations

from tritontrace.hopper.faults import Fault
from tritontrace.hopper.outcome import Outcome
from tritontrace.hopper.restarts import restarts
from tritontrace.hopper.shared_accesses import passes
from tritontrace.results import Hazard, Multiplied, Simulated


def simulated(report: Outcome) -> Simulated:
    """Convert the outcome of a launch without a fault to a Simulated."""
    return Simulated(
        orders=len(report.runs),
        instructions=dict(report.instructions),
        shared_bytes=report.shared_bytes,
        overlapped=report.overlapped,
        read_ahead=report.read_ahead,
        passes=passes(report.trace.fronts[-1]),
        restarts=restarts(report.trace.fronts[-1]),
        beside_products=report.exponentials_beside_products,
        fetchers=sorted({who for what, who, *_ in report.runs[0].sites if what == "TMA load"}),
        products=[
            Multiplied(p.who, str(p.spot), p.shape, p.copies, p.products, p.own, p.stores) for p in report.products
        ],
        **vars(report.counts),
    )


def hazard(fault: Fault) -> Hazard:
    """Convert a fault of a launch to a Hazard, as plain data."""
    return Hazard(
        fault.kind.value,
        fault.message,
        lines=[str(spot) for spot in fault.lines],
        buffer=fault.buffer,
        who=fault.who,
        other=fault.other,
        phase_passed=fault.phase_passed,
        phase_wanted=fault.phase_wanted,
        waiting=[each.briefly for each in fault.waiting],
        order=fault.order,
    )
