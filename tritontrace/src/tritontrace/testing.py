"""Assertions on a trace, for tests of one's own kernels; each fails with a sentence that names the line.

    with as_on_a_gpu(), trace() as t:
        softmax(x)
    assert_no_faults(t)
    assert_bytes_at_most(t, 2 * x.nbytes)

`as_on_a_gpu` (tracing/as_on_a_gpu.py) is for host code that asks for a GPU. Under pytest all of it is an ordinary failure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritontrace.results import Fault
from tritontrace.tracing import show
from tritontrace.tracing.as_on_a_gpu import as_on_a_gpu
from tritontrace.tracing.recorded import Recorded
from tritontrace.tracing.report import place, table
from tritontrace.words import plural

__all__ = [
    "as_on_a_gpu",
    "assert_bytes_at_most",
    "assert_efficiency_at_least",
    "assert_launches_at_most",
    "assert_no_faults",
    "assert_no_races",
    "assert_proved",
]


def assert_no_faults(trace: Recorded, *kinds: str) -> None:
    """Fail if a kernel did what a GPU would get wrong; kinds: only these kinds, as Fault.kind has them.

    >>> assert_no_faults(t)
    >>> with trace(inputs=[y]) as wrong:
    ...     _ = copy[(4,)](x, y, 1000, BLOCK=256)
    >>> assert_no_faults(wrong, "race", "out of bounds")  # it has none of these
    >>> assert_no_faults(wrong)
    Traceback (most recent call last):
        ...
    AssertionError: ...: input changed: kernel `copy`, line 4: ...
    """
    __tracebackhide__ = True
    _launched(trace)
    found = [fault for fault in trace.faults if not kinds or fault.kind in kinds]
    if found:
        raise AssertionError("\n".join(_said(trace, fault) for fault in found))


def assert_no_races(trace: Recorded) -> None:
    """Fail if programs, or threads of one, race.

    >>> assert_no_races(t)
    >>> with trace() as wrong:
    ...     _ = copy[(2, 2)](x, y, 1000, BLOCK=512)  # two programs for each block
    >>> assert_no_races(wrong)
    Traceback (most recent call last):
        ...
    AssertionError: ...: race: kernel `copy`, line 4: ...
    """
    __tracebackhide__ = True
    assert_no_faults(trace, "race")


def assert_bytes_at_most(trace: Recorded, most: int) -> None:
    """Fail if the launches together load, store and update more bytes than `most`.

    >>> assert_bytes_at_most(t, x.nbytes + y.nbytes)
    >>> assert_bytes_at_most(t, x.nbytes)
    Traceback (most recent call last):
        ...
    AssertionError: 8,000 bytes moved, 4,000 allowed. Most by ...: `...`, 4,000 bytes.
    ...
    """
    __tracebackhide__ = True
    _launched(trace)
    if any(launch.sampled_from for launch in trace.launches):
        raise AssertionError("A sample of programs was traced: its bytes are not those of the launch.")
    if trace.bytes > most:
        each = [(access, launch.kernel) for launch in trace.launches for access in launch.accesses]
        line, kernel = max(each, key=lambda one: one[0].bytes)
        by = f"Most by {place(trace, kernel, line.line)}: `{line.source}`, {line.bytes:,} bytes."
        raise AssertionError(f"{trace.bytes:,} bytes moved, {most:,} allowed. {by}\n{table(trace)}")


def assert_efficiency_at_least(trace: Recorded, least: float) -> None:
    """Fail if a line uses less than this share, from 0 to 1, of the bytes in the sectors that it touches; lines of single elements are
    left out.

    >>> assert_efficiency_at_least(t, 0.9)
    >>> with trace() as strided:
    ...     _ = copy[(1,)](x[::2].clone(), y, 100, BLOCK=128)
    >>> assert_efficiency_at_least(strided, 1.0)
    Traceback (most recent call last):
        ...
    AssertionError: ...
    """
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


def assert_launches_at_most(trace: Recorded, most: int) -> None:
    """Fail if kernels were launched more often than `most`.

    >>> assert_launches_at_most(t, 1)
    >>> with trace() as twice:
    ...     _ = copy[(4,)](x, y, 1000, BLOCK=256)
    ...     _ = copy[(4,)](y, x, 1000, BLOCK=256)
    >>> assert_launches_at_most(twice, 1)
    Traceback (most recent call last):
        ...
    AssertionError: 2 launches, 1 allowed.
    ...
    """
    __tracebackhide__ = True
    _launched(trace)
    if len(trace.launches) > most:
        raise AssertionError(f"{plural(len(trace.launches), 'launch', 'launches')}, {most:,} allowed.\n{table(trace)}")


def assert_proved(function: Callable, *args: Any, **kwargs: Any) -> None:
    """Fail unless each access of a function's kernels stays inside its tensor for all sizes, and one program alone stores to each
    element; the arguments are an example, as for `prove`.

    >>> def copied(x, times):
    ...     _ = copy[(triton.cdiv(x.numel(), 256), times)](x, torch.empty_like(x), x.numel(), BLOCK=256)
    >>> assert_proved(copied, x, 1)
    >>> assert_proved(copied, x, 2)
    Traceback (most recent call last):
        ...
    AssertionError: kernel `copy`, line 4: wrong for n = 1: kernel `copy`, line 4: ...
    """
    __tracebackhide__ = True
    from tritontrace.proving import prove  # which needs z3
    from tritontrace.proving.show import sentence

    proof = prove(function, *args, **kwargs)
    claims = [claim for launch in proof.launches for claim in launch.claims if claim.outcome != "proved"]
    sentences = [f"kernel `{claim.site.kernel}`, line {claim.site.line}: {sentence(claim)}" for claim in claims]
    if proof.unseen:
        sizes = ", ".join(f"{name} = {number}" for name, number in proof.unseen.items())
        sentences.append(
            f"not decided, because there are more ways through the host code than are tried, as for {sizes}"
        )
    elif not proof.complete:
        sentences.append("not decided, because z3 gave up looking for further ways through the host code")
    if sentences:
        raise AssertionError("\n".join(sentences))


def _launched(trace: Recorded) -> None:
    """Fail if nothing was launched: of nothing, everything holds."""
    if not trace.launches:
        raise AssertionError("No kernel was launched while the trace was open.")


def _said(trace: Recorded, fault: Fault) -> str:
    return f"{place(trace, fault.kernel, fault.line)}: {fault.kind}: {fault.sentence}"
