"""Assertions on a trace, for tests of one's own kernels; each fails with a sentence that names the line.

    with as_on_a_gpu(), trace() as t:
        softmax(x)
    assert_no_faults(t)
    assert_bytes_at_most(t, 2 * x.nbytes)

`as_on_a_gpu` (tracing/as_on_a_gpu.py) is for host code that asks for a GPU. Under pytest all of it is an ordinary failure.
"""

from __future__ import annotations

from course_lib.evidence import Fault
from course_lib.tracing import show
from course_lib.tracing.report import place
from course_lib.tracing.traced import Trace
from course_lib.words import plural


def assert_no_faults(trace: Trace, *kinds: str) -> None:
    """Fail if a kernel did what a GPU would get wrong; kinds: of these kinds alone, as Fault.kind has them."""
    __tracebackhide__ = True
    _launched(trace)
    found = [fault for fault in trace.faults if not kinds or fault.kind in kinds]
    if found:
        raise AssertionError("\n".join(_said(trace, fault) for fault in found))


def assert_no_races(trace: Trace) -> None:
    """Fail if programs, or threads of one, disturb one another."""
    __tracebackhide__ = True
    assert_no_faults(trace, "race")


def assert_bytes_at_most(trace: Trace, most: int) -> None:
    """Fail if the launches together load, store and update more bytes than `most`."""
    __tracebackhide__ = True
    _launched(trace)
    if trace.bytes > most:
        raise AssertionError(f"{trace.bytes:,} bytes moved, {most:,} allowed.\n{trace.table()}")


def assert_efficiency_at_least(trace: Trace, least: float) -> None:
    """Fail if a line uses less than this share of the sectors that it touches; lines of single elements are left out."""
    __tracebackhide__ = True
    _launched(trace)
    for launch in trace.launches:
        for access in launch.accesses:
            if access.bytes > access.single_bytes and access.efficiency < least:
                where = place(trace, launch.kernel, access.line)
                used = (
                    f"{show.percent(access.efficiency)} of the sectors that it touches, {show.percent(least)} asked for"
                )
                raise AssertionError(f"{where}: `{access.source}` uses {used}.")


def assert_launches_at_most(trace: Trace, most: int) -> None:
    """Fail if kernels were launched more often than `most`."""
    __tracebackhide__ = True
    _launched(trace)
    if len(trace.launches) > most:
        raise AssertionError(f"{plural(len(trace.launches), 'launch', 'launches')}, {most:,} allowed.\n{trace.table()}")


def _launched(trace: Trace) -> None:
    """Fail if nothing was launched: of nothing, everything holds."""
    if not trace.launches:
        raise AssertionError("No kernel was launched while the trace was open.")


def _said(trace: Trace, fault: Fault) -> str:
    return f"{place(trace, fault.kernel, fault.line)}: {fault.kind}: {fault.sentence}"
