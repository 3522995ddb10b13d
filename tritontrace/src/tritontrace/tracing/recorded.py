"""A record of launches, as data: an Access for each tensor, operation and line, every step, faults, and sums of these."""

from __future__ import annotations

from collections.abc import Container, Iterable
from functools import reduce
from typing import Any

import numpy as np
import torch

from tritontrace.messages import say
from tritontrace.results import COUNTERS, Access, Fault, Flops, Footprint, Launch, Note
from tritontrace.tracing.cache import MissCurve, Stream, stream
from tritontrace.tracing.faults import Faults
from tritontrace.tracing.memory import Steps
from tritontrace.tracing.regions import Regions
from tritontrace.tracing.watched import Watched
from tritontrace.ttir.frontend import Front
from tritontrace.ttir.launching import Op
from tritontrace.ttir.sources import Source


class Recorded:
    """Data of a trace: its launches and their counts. A Launcher (launcher.py) writes it; show.py, draw.py and report.py read it.

    launches   list[Launch], in order, with an Access per tensor, operation and line
    steps      for each launch every access that it made, in the order of execution
    poisoned   (kernel, line) of each load that left lanes out and gave no `other`: NaN or a wild integer came of it
    sources    the text of each kernel, by name;  helpers  by the kernel, of the functions that it calls
    fronts  what the compiler's front end made of each launch
    compilable each launch that it accepted, with its front and its arguments
    regions    the tensors that kernels were given;  fault_log  what a GPU would get wrong;  watching  by variable
    """

    def __init__(self, names: dict[str, torch.Tensor] | None = None, inputs: Iterable[torch.Tensor] = ()):
        self.launches: list[Launch] = []
        self.steps: list[Steps] = []
        self.poisoned: set[tuple[str, int]] = set()
        self.sources: dict[str, Source] = {}
        self.helpers: dict[str, dict[str, Source]] = {}
        self.fronts: list[Front] = []
        self.compilable: list[tuple[Launch, Front, dict[str, Any]]] = []
        self.regions = Regions(names or {}, inputs)
        self.fault_log = Faults()
        self.watching: dict[str, list[Watched]] = {}

    # ------------------------------------------------------------------------------------------------- asked for before

    def name(self, name: str, tensor: torch.Tensor) -> None:
        """Name a tensor from now on, instead of by the kernel's parameter."""
        self.regions.name(name, tensor)

    def watch(self, variable: str, program: int | tuple[int, ...] = 0) -> Watched:
        """Record each value assigned to a variable of a kernel in one program from now on: a list of blocks, which fills as kernels run.
        Ask before the launch.

            with trace() as t:
                acc = t.watch("acc", program=(1, 0))
                kernel[grid](...)
            acc            # each value, with its line
        """
        watched = Watched(variable, program)
        self.watching.setdefault(variable, []).append(watched)
        return watched

    # ------------------------------------------------------------------------------------------------- sums

    @property
    def programs(self) -> int:
        return sum(launch.programs for launch in self.launches)

    @property
    def loads(self) -> Access:
        return self._sum(op="load")

    @property
    def stores(self) -> Access:
        return self._sum(op="store")

    @property
    def atomics(self) -> Access:
        return self._sum(op="atomic")

    @property
    def bytes(self) -> int:
        """Sum the bytes loaded, stored and updated."""
        return self.loads.bytes + self.stores.bytes + self.atomics.bytes

    @property
    def flops(self) -> Flops:
        """Sum the floating-point operations by kind; `.total` adds them."""
        return sum((launch.flops for launch in self.launches), Flops())

    @property
    def arithmetic_intensity(self) -> float:
        """Return the FLOPs for each byte loaded, stored or updated."""
        return self.flops.total / max(1, self.bytes)

    @property
    def faults(self) -> list[Fault]:
        return self.fault_log.report()

    @property
    def notes(self) -> list[Note]:
        """List remarks on what is no fault."""
        return self.fault_log.notes

    def faults_of(self, launch: int) -> list[Fault]:
        """List the faults that were seen first in the launch of this number; -1 is the last one."""
        number = range(len(self.launches))[launch]
        return [fault for fault, at in zip(self.faults, self.fault_log.first_seen(), strict=True) if at == number]

    def _sum(self, op: Op | None = None, names: Container[str] | None = None, name: str = "") -> Access:
        total = Access(name, op or "load")
        for launch in self.launches:
            for access in launch.accesses:
                if op in (None, access.op) and (names is None or access.tensor in names):
                    for counter in COUNTERS:
                        setattr(total, counter, getattr(total, counter) + getattr(access, counter))
        return total

    # ------------------------------------------------------------------------------------------------- of one tensor

    def accesses_to(self, tensor: torch.Tensor | str, op: Op | None = None) -> Access:
        """Sum the accesses to one tensor over launches and lines. Raises KeyError if no kernel had one of that name."""
        region = self.regions.find(tensor)
        return self._sum(op, region.names, region.name) if region else Access("", op or "load")

    def reread(self, tensor: torch.Tensor | str) -> float:
        """Return how often each distinct byte of the tensor was loaded, on average: 1.0 is once; 0.0 if it was never loaded."""
        footprint = self.footprint(tensor)
        return footprint.read_bytes / max(1, footprint.read_distinct_bytes)

    def footprint(self, tensor: torch.Tensor | str) -> Footprint:
        """Count the bytes that all launches together read from and wrote to one tensor. Of a trace that was read back, each launch has its
        own: `launch.footprints`."""
        if self.launches and not len(list(self.regions)):
            raise KeyError(say("asked.trace.no_tensors"))
        region = self.regions.find(tensor)
        if region is None:
            assert isinstance(tensor, torch.Tensor)  # an unknown name is refused
            return Footprint("", tensor.untyped_storage().nbytes())
        return Footprint(
            region.name,
            region.nbytes,
            read_bytes=_times(region.reads) * region.itemsize,
            read_distinct_bytes=distinct(region.reads) * region.itemsize,
            written_bytes=_times(region.writes) * region.itemsize,
            written_distinct_bytes=distinct(region.writes) * region.itemsize,
        )

    def read_counts(self, tensor: torch.Tensor) -> np.ndarray:
        """Count how often each element was loaded, in the tensor's shape."""
        region = self.regions.find(tensor)
        if region is None:
            return np.zeros(tensor.shape, np.uint32)
        return region.in_shape_of(tensor, region.times_read())

    def l2(self, *, at_once: int, order: np.ndarray | None = None, launch: int | None = None) -> MissCurve:
        """Compute the traffic that an L2 of any size would leave to DRAM, over all launches or one: a cache.MissCurve.

        at_once  programs that run in lock-step, such as one for each SM
        order    how programs start: None as on a GPU, else their numbers or tiles (see cache.stream)
        """
        launches = self.steps if launch is None else [self.steps[launch]]
        return MissCurve(reduce(Stream.then, (stream(steps, at_once, order) for steps in launches)))


def distinct(counts: np.ndarray | None) -> int:
    """Count the elements that were touched."""
    return 0 if counts is None else int(np.count_nonzero(counts))


def _times(counts: np.ndarray | None) -> int:
    """How often elements were touched in all."""
    return 0 if counts is None else int(counts.sum(dtype=np.int64))
