"""Timed ratios on a GPU: two things measured in one interleaved run, and the spread.

A GPU's clock, temperature and neighbours change from second to second; a ratio of two times taken next to each other
does not. So nothing here reports a time alone.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

__all__ = ["FLUSHES", "FLUSH_BYTES", "GPUStopped", "Ratio", "copy_of", "has_gpu", "ratio", "stopped"]

FLUSH_BYTES = 1 << 30  # written between two measurements: larger than any L2
FLUSHES = 4  # times, about a millisecond on an H200: as long as a busy host may need to queue what is timed


@dataclass(frozen=True)
class Ratio:
    """Result of a timing: speedup = baseline time / own time (above 1: faster than the baseline); spread = median absolute deviation.

    own_ms and baseline_ms are medians of the same run, for arithmetic on bytes and FLOPs.

    >>> Ratio(speedup=1.9, spread=0.02, own_ms=0.10, baseline_ms=0.19, pairs=40).speedup
    1.9
    """

    speedup: float
    spread: float
    own_ms: float
    baseline_ms: float
    pairs: int


class GPUStopped(RuntimeError):
    """Raised where the GPU has stopped this process; in a notebook its message stands alone, without a stack trace."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def stopped(error: RuntimeError) -> str:
    """Explain a CUDA error for whoever wrote the kernel.

    >>> print(stopped(RuntimeError("CUDA error: an illegal memory access was encountered")))
    the kernel touched memory outside of its tensors (CUDA: an illegal memory access)
    """
    if "illegal memory access" in str(error):
        return "the kernel touched memory outside of its tensors (CUDA: an illegal memory access)"
    return f"the GPU stopped the kernel ({str(error).strip().splitlines()[0][:150]})"


def ratio(
    own: Callable[[], object],
    baseline: Callable[[], object],
    pairs: int = 40,
    prepare: Callable[[], object] = lambda: None,
    inspect: Callable[[Any], None] = lambda result: None,
) -> Ratio:
    """Time `own` against `baseline`: ABBA order, cold L2, two warm-up pairs; repeated if its halves disagree by 5 %.

    prepare   called before each call of `own`, outside of its time
    inspect   called with what each timed call of `own` returned, after its time was taken
    Raises GPUStopped, with a sentence, if a CUDA error ends all work on the GPU in this process.

    >>> a, b = torch.ones(1 << 26, device="cuda"), torch.empty(1 << 26, device="cuda")  # on a GPU
    >>> ratio(lambda: copy[(1 << 16,)](a, b, 1 << 26, BLOCK=1024), copy_of(1 << 29)).pairs
    40
    """
    try:
        for _ in range(2):
            prepare(), own(), torch.cuda.synchronize(), baseline()
    except torch.AcceleratorError as error:
        raise GPUStopped(
            f"Not timed: {stopped(error)}. After that no GPU work runs in this process: mend the kernel, and begin "
            "another one (in a notebook, Kernel > Restart Kernel)."
        ) from None
    found = _measure(own, baseline, pairs, prepare, inspect)
    halves = [statistics.median(r for r, _, _ in half) for half in (found[: pairs // 2], found[pairs // 2 :])]
    if abs(halves[0] - halves[1]) > 0.05 * max(halves):
        found += _measure(own, baseline, pairs, prepare, inspect)
    ratios = [r for r, _, _ in found]
    middle = statistics.median(ratios)
    return Ratio(
        speedup=middle,
        spread=statistics.median(abs(r - middle) for r in ratios),
        own_ms=statistics.median(own_ms for _, own_ms, _ in found),
        baseline_ms=statistics.median(baseline_ms for _, _, baseline_ms in found),
        pairs=len(found),
    )


def _measure(
    own: Callable, baseline: Callable, pairs: int, prepare: Callable, inspect: Callable
) -> list[tuple[float, float, float]]:
    flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")
    found = []
    for pair in range(pairs):
        order = (own, baseline) if pair % 2 == 0 else (baseline, own)
        times = {}
        for work in order:
            if work is own:
                prepare()
            for _ in range(FLUSHES):
                flush.zero_()
            # the host queues ahead of the device, so that launch overhead hides behind the flush
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            result = work()
            end.record()
            torch.cuda.synchronize()
            times[work] = start.elapsed_time(end)
            if work is own:
                inspect(result)
            del result
        found.append((times[baseline] / times[own], times[own], times[baseline]))
    return found


def copy_of(nbytes: int) -> Callable[[], object]:
    """Make a baseline for kernels bound by memory: a device-to-device copy that reads nbytes / 2 and writes nbytes / 2.

    >>> copying = copy_of(1 << 28)  # on a GPU
    >>> copying()
    """
    source = torch.randint(-128, 127, (nbytes // 2,), dtype=torch.int8, device="cuda")
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def has_gpu() -> bool:
    """Whether there is a GPU to time on: sm_80 or newer.

    >>> has_gpu() in (True, False)
    True
    """
    return torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 0)
