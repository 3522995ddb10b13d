"""What the simulator of kernels in Gluon (course_lib/hopper) finds, as plain data."""

from __future__ import annotations

from course_lib.evidence import Hazard, Multiplied, Simulated
from course_lib.hopper import Fault, Report
from course_lib.hopper.simulation import EveryOrder, Hazardous

__all__ = ["EveryOrder", "Hazardous", "hazards", "note"]


def note(trace: EveryOrder) -> None:
    """Write into each launch of a trace what came to light of it."""
    for launch, report in zip(trace.launches, trace.reports, strict=True):
        launch.simulated = simulated(report)


def simulated(report: Report) -> Simulated:
    """The facts of a launch without a fault."""
    products = [
        Multiplied(p.who, str(p.spot), p.shape, p.copies, p.products, p.own, p.stores) for p in report.products
    ]
    return Simulated(
        orders=len(report.runs),
        instructions=dict(report.instructions),
        shared_bytes=report.shared_bytes,
        overlapped=report.overlapped,
        beside_products=report.exponentials_beside_products,
        fetchers=sorted({who for what, who, *_ in report.runs[0].sites if what == "TMA load"}),
        products=products,
        **vars(report.counts),
    )


def hazards(report: Report) -> list[Hazard]:
    """The faults of a launch, the most telling first."""
    return [_hazard(fault) for fault in report.faults]


def _hazard(fault: Fault) -> Hazard:
    return Hazard(
        fault.kind.value,
        str(fault),
        lines=[str(spot) for spot in fault.lines],
        buffer=fault.buffer,
        who=fault.who,
        other=fault.other,
        phase_passed=fault.phase_passed,
        phase_wanted=fault.phase_wanted,
        waiting=[each.briefly for each in fault.waiting],
        order=fault.order,
    )
