"""A profile of one's own kernels: the trace's prediction, the roofline, and where Nsight Compute is, what the GPU counted.

    profile(lambda: add_kernel[grid](x, y, out, n, BLOCK=1024))

`python -m tritontrace.profiling.profiled FILE` is what runs under `ncu`: a process of its own, in which the launches are rebuilt from
plain data and run on the tensors as they were when a kernel first got them. With `times` behind FILE it says how long each takes, for a
GPU whose counters nobody may read.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tritontrace import gpu
from tritontrace.profiling import bench, nsight
from tritontrace.replay import kernels, wire
from tritontrace.replay.recording import Recorder, RecordError
from tritontrace.replay.replaying import Tape
from tritontrace.results import Launch
from tritontrace.tracing.as_on_a_gpu import as_on_a_gpu
from tritontrace.tracing.interception import launches_go_to
from tritontrace.tracing.launcher import Launcher
from tritontrace.tracing.memory import Step
from tritontrace.tracing.traced import Trace
from tritontrace.ttir.launching import is_descriptor, plain, tensors_in

SECONDS = 300.0  # for all that runs under ncu
TIMED = 9  # runs, of which the median counts
DRAM_UNIT = 64  # bytes: the least that DRAM fetches
TOGETHER = 1024  # accesses whose units are sorted at once
BUSY = 60.0  # percent of its peak, from which a part of the GPU is what others wait for
REACHED = 0.75  # of what the roofline allows: what is that fast has the roofline's own limit
SHORT = 4e-6  # seconds: an H200 takes 2.3 for a launch of one program
WASTE = 1.3  # times the bytes that must move, from which denser accesses would help
PASSING = 20.0  # percent by which the L2 is busier than DRAM where all that passes it is DRAM's: 79 and 68 in a sum on an H100

SHARES = {  # percent of the peak, by the part that is busy
    "dram": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "l2": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "tensor": "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active",
    "special": "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active",
    "issued": "smsp__issue_active.avg.pct_of_peak_sustained_active",
}
WARPS = "sm__warps_active.avg.pct_of_peak_sustained_active"
NANOSECONDS = "gpu__time_duration.sum"
METRICS = [*nsight.names(nsight.SUMS), *SHARES.values(), WARPS, NANOSECONDS]

PARTS = {
    "dram": "DRAM",
    "l2": "the L2",
    "tensor": "the tensor cores",
    "special": "the special functions (exp, log, ...)",
    "issued": "issuing instructions",
}
OF_ROOFLINE = {"memory": "dram", "products": "tensor", "other": "issued"}
WASTEFUL = (
    "It moves {:.1f} times the bytes that it must: denser accesses, larger tiles, or fewer re-reads make it faster."
)
ADVICE = {
    "dram": "Only fewer bytes make it faster: fuse it with what comes before or after, or store fewer bits.",
    "l2": "Fewer sectors between the L2 and the SMs make it faster.",
    "tensor": "It computes about as fast as the GPU multiplies: fewer or narrower products make it faster.",
    "special": "Fewer exponentials and logarithms make it faster, or products that run at the same time.",
    "issued": "Fewer instructions make it faster: wider loads, less arithmetic on addresses, larger tiles for each warp.",
}
ROWS = {
    "load_sectors": "sectors from L2 to the SMs",
    "store_sectors": "sectors from the SMs to L2",
    "dram_read_bytes": "bytes read from DRAM",
    "dot_flops": "FLOPs of products",
}


@dataclass(frozen=True)
class Roofline:
    """The lower bound of a launch's seconds on a GPU, from its datasheet; by what they are spent on.

    memory     each byte that it touches moved once between DRAM and the chip
    products   tl.dot at the peak for its dtype
    other      all else at the peak of fp32

    >>> least = Roofline(memory=2e-6, products=5e-6, other=1e-6)
    >>> max(least.memory, least.products, least.other)  # seconds, as far as all three go on at the same time
    5e-06
    """

    memory: float
    products: float
    other: float

    @property
    def seconds(self) -> float:
        return max(self.memory, self.products, self.other)

    @property
    def limit(self) -> str:
        """Return the longest of the three: "memory", "products" or "other"."""
        return max(("memory", "products", "other"), key=lambda name: getattr(self, name))


@dataclass(frozen=True)
class Profiled:
    """Profile of a launch. counted, busy and warps are the GPU's: None where nothing was counted. So is seconds: None if not timed.

    predicted   the trace's numbers: sectors, bytes and FLOPs, by the names of nsight.SUMS
    needed_bytes   what must move at least
    counted     the same by the GPU, with what explains differences: L1's hits and spilled registers, in sectors
    busy        percent of its peak, for each part of the GPU in PARTS
    warps       percent of the warps that fit on the SMs, on average

    >>> Profiled("copy", (4, 1, 1), {"load_sectors": 125}, Roofline(2e-9, 0.0, 0.0)).counted is None  # no GPU was asked
    True
    """

    kernel: str
    grid: tuple[int, int, int]
    predicted: dict[str, int]
    roofline: Roofline
    counted: dict[str, float] | None = None
    busy: dict[str, float] | None = None
    warps: float | None = None
    seconds: float | None = None
    needed_bytes: int = 0

    @property
    def reached(self) -> float:
        """Return the share of the roofline's speed that it reached; 0 if nothing was timed."""
        return self.roofline.seconds / self.seconds if self.seconds else 0.0

    @property
    def waste(self) -> float:
        """Return bytes between L2 and SMs, or from DRAM if these are more, divided by those that must move; 1 if nothing was counted."""
        if not self.counted or not self.needed_bytes:
            return 1.0
        sectors = self.counted.get("load_sectors", 0.0) + self.counted.get("store_sectors", 0.0)
        return max(32 * sectors, self.counted.get("dram_read_bytes", 0.0)) / self.needed_bytes

    # trap: a plain addition keeps the L2 busier than DRAM, since what it stores may stay in the L2
    @property
    def limit(self) -> str | None:
        """Return what limits the launch; None if nothing was counted.

        First what must happen: near the roofline its limit is the launch's. Then the busiest part of the GPU, by its name in PARTS.
        If none is busy, "launch" for one that is over as soon as it has begun, else "waiting".
        """
        if self.busy is None:
            return None
        if self.reached >= REACHED:
            return OF_ROOFLINE[self.roofline.limit]
        part = max(self.busy, key=self.busy.__getitem__)
        passing = self.busy["dram"] >= max(BUSY, self.busy["l2"] - PASSING)
        if part == "l2" and (passing or self.waste < WASTE):
            part = "dram"
        if self.busy[part] >= BUSY or (part == "dram" and self.busy["l2"] >= BUSY):
            return part
        return "launch" if self.seconds and self.seconds < SHORT else "waiting"


@dataclass(frozen=True)
class Profile:
    """The launches of one profile, in order. not_counted: why the GPU counted nothing, as a sentence; "" if it did.

    >>> found = profile(lambda: copy[(4,)](x, y, 1000, BLOCK=256))
    >>> len(found.launches), found.launches[0].grid
    (1, (4, 1, 1))
    """

    card: gpu.GPU
    launches: list[Profiled]
    not_counted: str = ""

    def __str__(self) -> str:
        return "\n".join([*map(partial(_text, self.card), self.launches), *filter(None, [self.not_counted])])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f'<pre style="white-space: pre-wrap; line-height: 1.4">{escape(str(self))}</pre>'


def profile(work: Callable[[], object]) -> Profile:
    """Profile the kernels that `work` launches: predict what each moves and computes, say what a roofline allows, and where there
    are a GPU and Nsight Compute, show what the GPU counted and which part of it is the limit.

    work   a function without parameters, such as lambda: kernel[grid](x, n, BLOCK=64). Its results are those of the trace.

    Without `ncu`, or where it may read no counters, each launch is timed. Without a GPU the prediction stands alone, and says so.
    Raises ValueError if nothing is launched, and what a trace raises.

    >>> found = profile(lambda: copy[(4,)](x, y, 1000, BLOCK=256))
    >>> (launch,) = found.launches
    >>> launch.kernel, launch.predicted["load_sectors"], launch.counted is None or launch.seconds > 0
    ('copy', 125, True)
    """
    if not callable(work):
        raise ValueError(
            "profile wants a function, since it launches the kernel itself: profile(lambda: kernel[grid](...))."
        )
    launches = _Launches()
    card, here = gpu.current_or_h200(), torch.cuda.is_available()
    with nullcontext() if here else as_on_a_gpu(), launches_go_to(launches.launch):
        work()
    trace = launches.trace
    if not trace.launches:
        raise ValueError(
            "The function launched no kernel, so there is nothing to profile. Does it call what it defines?"
        )
    foreseen = [
        Profiled(
            launch.kernel,
            launch.grid,
            predicted(trace, number),
            roofline(trace, number, card),
            needed_bytes=needed_bytes(launch),
        )
        for number, launch in enumerate(trace.launches)
    ]
    try:
        rows = launches.counted()
    except nsight.NotCounted as error:
        times = launches.timed() if bench.has_gpu() else []
        known = "the prediction, the roofline and the time" if times else "the prediction and the roofline alone"
        timed = [replace(launch, seconds=seconds) for launch, seconds in zip(foreseen, times, strict=False)]
        return Profile(card, timed or foreseen, f"{error}: this is {known}.")
    return Profile(card, [with_counters(*pair) for pair in zip(foreseen, rows, strict=True)])


# ----------------------------------------------------------------------------------------------------- prediction


def predicted(trace: Trace, number: int = 0) -> dict[str, int]:
    """Return numbers of a traced launch that a GPU's counters can confirm: sectors, bytes, FLOPs.

    >>> predicted(t)["load_sectors"], predicted(t)["store_sectors"]
    (125, 125)
    """
    launch, steps = trace.launches[number], trace.steps[number]

    def sectors(op: str, name: str) -> int:
        return sum(getattr(access, name) for access in launch.accesses if access.op == op)

    return {
        "load_sectors": sectors("load", "l2_sectors"),
        "store_sectors": sectors("store", "l2_sectors"),
        "dram_read_bytes": DRAM_UNIT * _distinct_units([step for step in steps if step.op == "load"]),
        "dot_flops": launch.flops.dot,
        "other_flops": launch.flops.total - launch.flops.dot,
        "by_request": sectors("load", "sectors"),
    }


def _distinct_units(steps: Sequence[Step]) -> int:
    """Count the units of main memory that accesses touch, TOGETHER at a time: all of them may hold many times what the tensors do."""
    seen = np.zeros(0, np.int64)
    for first in range(0, len(steps), TOGETHER):
        some = steps[first : first + TOGETHER]
        seen = np.unique(np.concatenate([seen, *(step.pattern.units(step.address, DRAM_UNIT) for step in some)]))
    return seen.size


def needed_bytes(launch: Launch) -> int:
    """Count the bytes of a launch that must move at least: each that it touches once."""
    return sum(footprint.read_distinct_bytes + footprint.written_distinct_bytes for footprint in launch.footprints)


def roofline(trace: Trace, number: int, card: gpu.GPU) -> Roofline:
    """Compute the roofline of a traced launch on a card."""
    launch = trace.launches[number]
    peak = _peak(launch, trace.fronts[number].text, card)
    other = launch.flops.total - launch.flops.dot
    return Roofline(needed_bytes(launch) / card.hbm_bandwidth, launch.flops.dot / peak, other / card.fp32_flops)


def _peak(launch: Launch, text: str, card: gpu.GPU) -> float:
    """FLOP/s of the card for the products of a launch, by what its TTIR multiplies; narrower types than fp16 count as fp16."""
    factors = set(re.findall(r"tt\.dot .*?: tensor<(?:\d+x)+(\w+)", text))
    if "f32" in factors or not factors:
        return (card.tf32_flops if launch.tf32 else None) or card.fp32_flops
    return (card.bf16_flops if factors == {"bf16"} else card.fp16_flops) or card.fp32_flops


# ----------------------------------------------------------------------------------------------------- launches


class _Launches:
    """Launches as they are made: traced on this CPU, and written down so that another process can launch it again."""

    def __init__(self) -> None:
        self.trace, self.recorder = Trace(), Recorder()
        self._here = Launcher(self.trace)
        self.refused: Exception | None = None  # why a launch could not be written down
        self.given: dict[str, torch.Tensor] = {}  # the bytes behind each tensor, when a kernel first got it
        self.copies: dict[int, torch.Tensor] = {}  # of a GPU's storages, on the CPU

    def launch(self, kernel: Any, args: tuple, grid: Any, options: dict[str, Any]) -> None:
        tensors = [t for value in (*args, *options.values()) for _, t in tensors_in("", value)]
        for tensor in tensors:
            self._note(tensor)
        try:
            self.recorder.launch(kernel, args, grid, options)
        except (RecordError, kernels.KernelRefused) as error:
            self.refused = self.refused or error
        for tensor in tensors:  # what the host has done to it since
            self._copy(tensor, back=False)
        here = tuple(map(self._on_the_cpu, args)), {name: self._on_the_cpu(value) for name, value in options.items()}
        self._here.launch(kernel, here[0], grid, here[1])
        for tensor in tensors:
            self._copy(tensor, back=True)

    def _note(self, tensor: torch.Tensor) -> None:
        if not self.recorder.storages.knows(tensor):
            name = f"t{len(self.given)}"
            self.recorder.storages.add(tensor, f"0:{name}")
            bytes_ = wire.storage_bytes(tensor.untyped_storage())
            self.given[name] = bytes_.clone() if bytes_.device.type == "cpu" else bytes_.cpu()

    def _copy(self, tensor: torch.Tensor, back: bool) -> None:
        if tensor.device.type == "cpu":
            return
        theirs = wire.storage_bytes(tensor.untyped_storage())
        mine = self.copies.setdefault(tensor.untyped_storage()._cdata, torch.empty_like(theirs, device="cpu"))
        theirs.copy_(mine) if back else mine.copy_(theirs)

    def _on_the_cpu(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self._on_the_cpu, value))
        if is_descriptor(value):
            return replace(value, base=self._on_the_cpu(value.base))
        if not hasattr(value, "data_ptr") or plain(value).device.type == "cpu":
            return value
        tensor = plain(value)
        return wire.view(self.copies[tensor.untyped_storage()._cdata].untyped_storage(), wire.layout(tensor))

    def message(self) -> bytes:
        """Everything that another process needs to launch it again. Raises NotCounted if a launch could not be written down."""
        if self.refused:
            raise nsight.NotCounted(f"The launches cannot be repeated in another process ({self.refused})")
        call = {"events": self.recorder.events, "result": None}
        return wire.pack({"log": {"kernels": self.recorder.kernels, "calls": [call]}, "given": self.given})

    def counted(self) -> list[dict[str, float]]:
        """The counters of each launch. Raises NotCounted."""
        if not bench.has_gpu():
            raise nsight.NotCounted("There is no GPU of sm_80 or newer here to count on")
        if not nsight.is_here():
            raise nsight.NotCounted("Nsight Compute (`ncu`) is not on this machine's PATH")
        with self._in_another_process() as (command, environment):
            rows = nsight.counted(command, METRICS, environment, SECONDS)
        if len(rows) != len(self.trace.launches):
            raise nsight.NotCounted(f"Nsight Compute counted {len(rows)} of {len(self.trace.launches)} launches")
        return rows

    def timed(self) -> list[float]:
        """The seconds of each launch; [] if they cannot be repeated, or do not all come to their end."""
        try:
            with self._in_another_process() as (command, environment):
                more = {"env": os.environ | environment, "timeout": SECONDS, "check": True}
                done = subprocess.run([*command, "times"], capture_output=True, **more)
                times = json.loads(done.stdout.splitlines()[-1])
        except (nsight.NotCounted, subprocess.SubprocessError, ValueError, IndexError):
            return []
        return times if len(times) == len(self.trace.launches) else []

    @contextmanager
    def _in_another_process(self) -> Iterator[tuple[list[str], dict[str, str]]]:
        """The command that launches it again, and the environment that this takes. Raises NotCounted."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "launches"
            file.write_bytes(self.message())
            path = os.pathsep.join(p for p in sys.path if p)
            yield [sys.executable, "-m", "tritontrace.profiling.profiled", str(file)], {"PYTHONPATH": path}


class _Timed(Tape):
    """A tape that takes the time of each launch, with cold caches; `events` are the begin and the end of each."""

    events: list[tuple[torch.cuda.Event, torch.cuda.Event]]

    def perform(self, event: Mapping[str, Any]) -> None:
        if "launch" not in event:
            return super().perform(event)
        flush = torch.empty(bench.FLUSH_BYTES, dtype=torch.int8, device=self.device)
        for _ in range(bench.FLUSHES):
            flush.zero_()  # the GPU is busy while the host queues the launch
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        super().perform(event)
        end.record()
        self.events.append((begin, end))


def times_again(message: bytes) -> list[float]:
    """Return the seconds of each launch in a message, in order: medians of TIMED runs on the same data, after one that compiles."""
    request, runs = wire.unpack(message), []
    tape = _Timed(request["log"], "cuda")
    for _ in range(1 + TIMED):
        tape.events = []
        tape.bind(0, {name: tensor.to("cuda", copy=True) for name, tensor in request["given"].items()})
        tape.run(0)
        torch.cuda.synchronize()
        runs.append([begin.elapsed_time(end) / 1e3 for begin, end in tape.events])
    return [statistics.median(times) for times in zip(*runs[1:], strict=True)]


def launch_again(message: bytes, device: str = "cuda") -> None:
    """Run the launches in a message twice: first uncounted, so that they are compiled, then counted, on the same data."""
    request = wire.unpack(message)
    tape = Tape(request["log"], device)
    profiler = torch.cuda.profiler if device == "cuda" else None
    for counted in (False, True):
        tape.bind(0, {name: tensor.to(device, copy=True) for name, tensor in request["given"].items()})
        if profiler:
            torch.cuda.synchronize()
            profiler.start() if counted else None
        tape.run(0)
        if profiler:
            torch.cuda.synchronize()
            profiler.stop() if counted else None


# ----------------------------------------------------------------------------------------------------- words


def with_counters(launch: Profiled, row: Mapping[str, float]) -> Profiled:
    """Return the launch with its counters from `ncu` filled in."""
    return replace(
        launch,
        counted=nsight.added(row, nsight.SUMS),
        busy={part: row.get(metric, 0.0) for part, metric in SHARES.items()},
        warps=row.get(WARPS),
        seconds=row[NANOSECONDS] / 1e9 if NANOSECONDS in row else None,
    )


def _text(card: gpu.GPU, launch: Profiled) -> str:
    counted = launch.counted
    lines = [
        f"{launch.kernel}, grid {launch.grid}",
        f"  {'':30}{'trace':>16}{'counted' if counted else '':>16}".rstrip(),
    ]
    for name, title in ROWS.items():
        if launch.predicted[name]:
            known = f"{counted[name]:>16,.0f}" if counted else ""
            lines.append(f"  {title:30}{launch.predicted[name]:>16,}{known}")
    lines.append(f"  {_allows(card, launch.roofline)}")
    if counted:
        lines += [f"  {sentence}" for sentence in (_took(launch), _limits(launch), *_differences(counted))]
    elif launch.seconds:
        lines.append(f"  {_took(launch)}")
    return "\n".join(lines)


def _allows(card: gpu.GPU, roofline: Roofline) -> str:
    on = {"memory": "to move each byte once", "products": "for its products", "other": "for its other arithmetic"}
    times = [f"{_time(getattr(roofline, name))} {words}" for name, words in on.items() if getattr(roofline, name)]
    limit = {"memory": "Memory", "products": "The products", "other": "Arithmetic"}[roofline.limit]
    verb = "are" if roofline.limit == "products" else "is"
    return f"Roofline, {card.name}: {', '.join(times)}. {limit} {verb} the limit: at best {_time(roofline.seconds)}."


def _took(launch: Profiled) -> str:
    times = launch.seconds / launch.roofline.seconds if launch.seconds else 0.0
    took = f"Took {_time(launch.seconds)}, {times:.1f} times that." if launch.seconds else ""
    shares = ", ".join(f"{PARTS[part]} {share:.0f} %" for part, share in (launch.busy or {}).items())
    return " ".join(filter(None, [took, shares and f"Busy, of its peak: {shares}."]))


def _limits(launch: Profiled) -> str:
    part = launch.limit
    assert part is not None and launch.busy is not None  # it was counted
    if part == "launch":
        return "It is over as soon as it has begun: the launch's own length is the limit. Give it more work, or fuse it with others."
    if part != "waiting":
        at = f"at {launch.busy[part]:.0f} % of its peak"
        if launch.reached >= REACHED:
            at = f"at {100 * launch.reached:.0f} % of what the roofline allows"
        wasteful = part in ("dram", "l2") and launch.waste >= WASTE
        return f"The limit is {PARTS[part]}, {at}. {WASTEFUL.format(launch.waste) if wasteful else ADVICE[part]}"
    warps = "" if launch.warps is None else f" {launch.warps:.0f} % of the warps that fit on the SMs were there."
    return (
        f"Nothing is busy for {BUSY:.0f} % of the time, so the kernel waits: for memory, for a product, or for its other warps.{warps} "
        "More programs, more stages or independent work in each program fill the gaps."
    )


def _differences(counted: Mapping[str, float]) -> list[str]:
    spilled = counted["spill_loads"] + counted["spill_stores"]
    found = []
    if counted["l1_hits"]:
        found.append(f"L1 still held {counted['l1_hits']:,.0f} sectors, so that they did not come from L2 again.")
    if spilled:
        found.append(
            f"Registers spill: {spilled:,.0f} sectors of local memory. Smaller tiles or more warps hold fewer."
        )
    return found


def _time(seconds: float) -> str:
    """A time in three digits: "12.3 µs"."""
    unit, scale = next(
        (u, s) for u, s in (("s", 1), ("ms", 1e3), ("µs", 1e6), ("ns", 1e9)) if seconds * s >= 1 or u == "ns"
    )
    return f"{seconds * scale:.3g} {unit}"


if __name__ == "__main__":
    launches = Path(sys.argv[1]).read_bytes()
    print(json.dumps(times_again(launches))) if sys.argv[2:] == ["times"] else launch_again(launches)
