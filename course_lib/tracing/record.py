"""What kernels did to memory: launches, traffic per tensor and line, and what a GPU would get wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from course_lib.exercise import Access, Fault, Flops, Footprint, Launch
from course_lib.tracing import show
from course_lib.tracing.hooks import FlopKind, Interpreter, KernelFault, Op, Order, Site
from course_lib.tracing.memory import ALIGNMENT, NOBODY, SEVERAL, Arena, Ordering, Region, storage_key
from course_lib.tracing.pattern import Pattern, Patterns
from course_lib.tracing.rewrite import Source

OUTSIDE = "Is a mask missing, or a stride or an offset wrong?"
VERB = {"load": "loads from", "store": "stores to", "atomic": "updates"}


class Step(NamedTuple):
    """One load, store or atomic of one program, as it came.

    program   its number in start order, x fastest
    address   of its lowest lane, in the addresses of Region.base;  pattern  how the lanes lie from there
    """

    program: int
    op: Op
    line: int
    region: Region
    address: int
    pattern: Pattern


@dataclass
class _Sighting:
    """A fault as first seen, and how many elements it concerned in all."""

    fault: Fault
    advice: str
    elements: int = 0

    def report(self) -> Fault:
        in_all = f" ({self.elements} elements in all)" if self.elements > 1 else ""
        return replace(self.fault, sentence=f"{self.fault.sentence}{in_all}. {self.advice}")


class Trace:
    """Everything counted while `with trace() as t:` was open.

    launches   list[Launch], in order, with an Access per tensor, operation and line
    steps      for each launch every access that it made, in the order of execution
    poisoned   (kernel, line) of each load that left lanes out and gave no `other`: NaN or a wild integer came of it
    """

    def __init__(self, names: dict[str, torch.Tensor] | None = None, order: Order = None):
        self.launches: list[Launch] = []
        self.steps: list[list[Step]] = []
        self.poisoned: set[tuple[str, int]] = set()
        self.sources: dict[str, Source] = {}
        self._interpreter = Interpreter(self, order)
        self._names = {storage_key(tensor): name for name, tensor in (names or {}).items()}
        self._held = list((names or {}).values())
        self._regions: dict[int, Region] = {}  # by storage
        self._uninitialised: dict[int, torch.UntypedStorage] = {}
        self._sightings: dict[tuple[str, str, int, str], _Sighting] = {}
        self._patterns = Patterns()
        self._next_base = ALIGNMENT
        self._accesses: dict[tuple[str, Op, int], Access] = {}  # of this launch
        self._parameters: dict[str, Region] = {}  # likewise
        self._program, self._index = 0, (0, 0, 0)

    # ------------------------------------------------------------------------------------------------- results

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
        """Bytes loaded, stored and updated."""
        return self.loads.bytes + self.stores.bytes + self.atomics.bytes

    @property
    def flops(self) -> Flops:
        """Floating-point operations by kind; `.total` adds them."""
        return sum((launch.flops for launch in self.launches), Flops())

    @property
    def arithmetic_intensity(self) -> float:
        """FLOPs for each byte loaded, stored or updated."""
        return self.flops.total / max(1, self.bytes)

    @property
    def faults(self) -> list[Fault]:
        return [sighting.report() for sighting in self._sightings.values()]

    def of(self, tensor: torch.Tensor | str, op: Op | None = None) -> Access:
        """The accesses to one tensor, summed over launches and lines. KeyError if no kernel had one of that name."""
        region = self._region(tensor)
        return self._sum(op, region.name) if region else Access("", op or "load")

    def reread(self, tensor: torch.Tensor | str) -> float:
        """Times each distinct byte of the tensor was loaded, on average: 1.0 is once; 0.0 if it was never loaded."""
        footprint = self.footprint(tensor)
        return footprint.read_bytes / max(1, footprint.read_distinct_bytes)

    def footprint(self, tensor: torch.Tensor | str) -> Footprint:
        """What all launches together did to one tensor, in bytes."""
        region = self._region(tensor)
        if region is None:
            return Footprint("", tensor.untyped_storage().nbytes())
        reads, writes = (counts.astype(np.int64) * region.itemsize for counts in (region.reads, region.writes))
        return Footprint(
            region.name,
            region.nbytes,
            read_bytes=int(reads.sum()),
            read_distinct_bytes=np.count_nonzero(reads) * region.itemsize,
            written_bytes=int(writes.sum()),
            written_distinct_bytes=np.count_nonzero(writes) * region.itemsize,
        )

    def read_counts(self, tensor: torch.Tensor) -> np.ndarray:
        """How often each element was loaded, in the tensor's shape."""
        region = self._region(tensor)
        if region is None:
            return np.zeros(tensor.shape, np.uint32)
        parts = max(1, tensor.element_size() // region.itemsize)
        counts = region.reads[: region.size // parts * parts].reshape(-1, parts).max(axis=1)
        counts = np.repeat(counts, max(1, region.itemsize // tensor.element_size()))
        strides = [4 * stride for stride in tensor.stride()]
        return np.lib.stride_tricks.as_strided(counts[tensor.storage_offset() :], tensor.shape, strides).copy()

    def table(self) -> str:
        return show.table(self)

    def _repr_html_(self) -> str:
        return show.html(self)

    def source(self) -> str:
        return show.annotated(self)

    def heatmap(self, tensor: torch.Tensor):
        return show.heatmap(self.read_counts(tensor), self._region(tensor).name if self._region(tensor) else "tensor")

    def _sum(self, op: Op | None = None, name: str | None = None) -> Access:
        total = Access(name or "", op or "load")
        for launch in self.launches:
            for access in launch.accesses:
                if op in (None, access.op) and name in (None, access.tensor):
                    for counter in Access.COUNTERS:
                        setattr(total, counter, getattr(total, counter) + getattr(access, counter))
        return total

    def _region(self, tensor: torch.Tensor | str) -> Region | None:
        if isinstance(tensor, torch.Tensor):
            return self._regions.get(storage_key(tensor))
        by_name = {region.name: region for region in self._regions.values()}
        if tensor not in by_name:
            raise KeyError(f"no kernel was given a tensor named {tensor!r}; there are {', '.join(by_name) or 'none'}.")
        return by_name[tensor]

    def name(self, name: str, tensor: torch.Tensor) -> None:
        """What to call a tensor from now on, instead of the kernel's parameter."""
        self._names[storage_key(tensor)] = name
        self._held.append(tensor)

    # ------------------------------------------------------------------------------------------------- the watcher

    def begin_launch(self, source: Source, grid: tuple[int, int, int], tensors: dict[str, torch.Tensor]) -> None:
        self.sources[source.name] = source
        self.launches.append(Launch(source.name, grid))
        self.steps.append([])
        self._ordering = Ordering()
        self._accesses = {}
        self._parameters = {name: self._region_for(name, tensor) for name, tensor in tensors.items()}
        self._arena = Arena({id(region): region for region in self._parameters.values()}.values())

    def address(self, tensor: torch.Tensor) -> int:
        return self._regions[storage_key(tensor)].start + tensor.storage_offset() * tensor.element_size()

    def begin_program(self, program: int, index: tuple[int, int, int]) -> None:
        self._program, self._index = program, index
        self.launches[-1].programs += 1

    def poisoned_load(self) -> None:
        site = self._interpreter.where()
        self.poisoned.add((site.kernel, site.line))

    def access(self, op: Op, addresses: np.ndarray, mask: np.ndarray, itemsize: int) -> None:
        """Count one instruction, before it runs."""
        full = bool(mask.all())
        active = addresses.reshape(-1) if full else addresses[mask]
        if active.size == 0:
            return
        lowest, highest = int(active.min()), int(active.max())
        site = self._interpreter.where()
        region = self._arena.find(lowest, highest + itemsize)
        if region is None:
            raise KernelFault(self._out_of_bounds(op, site, active, itemsize))
        pattern = self._patterns.of(addresses, None if full else mask, lowest, itemsize)
        self._count(op, site, region, pattern, addresses.size, itemsize)
        self.steps[-1].append(Step(self._program, op, site.line, region, region.base + lowest - region.start, pattern))
        elements = region.elements(lowest, pattern, itemsize)
        if op == "load":
            self._loaded(site, region, elements, pattern)
            region.last_load[self._program] = self._ordering.tick()
        else:
            self._stored(site, region, elements, pattern, atomic=op == "atomic")
            region.last_store[self._program] = self._ordering.tick()

    def synchronised(self, addresses: np.ndarray) -> None:
        self._ordering.update(self._program, addresses)

    def computed(self, kind: FlopKind, operations: int) -> None:
        flops = self.launches[-1].flops
        setattr(flops, kind, getattr(flops, kind) + operations)

    def end_launch(self, completed: bool) -> None:
        launch = self.launches[-1]
        launch.accesses = list(self._accesses.values())
        launch.footprints = [self._launch_footprint(region) for region in self._arena.regions]
        if completed:
            self._arena.copy_back()
        self._arena = None

    # ------------------------------------------------------------------------------------------------- counting

    def _region_for(self, name: str, tensor: torch.Tensor) -> Region:
        key = storage_key(tensor)
        region = self._regions.get(key)
        if region is None:
            name = self._names.get(key) or self._fresh(name)
            storage = tensor.untyped_storage()
            region = Region(name, storage, tensor.element_size(), key not in self._uninitialised, self._next_base)
            self._next_base += -(-max(1, region.nbytes) // ALIGNMENT) * ALIGNMENT
            self._regions[key] = region
        return region

    def _fresh(self, name: str) -> str:
        """Kernels call different tensors by one name: the second `o_ptr` is `o_ptr#2`."""
        taken = {region.name for region in self._regions.values()} | set(self._names.values())
        candidates = [name] + [f"{name}#{i}" for i in range(2, len(taken) + 3)]
        return next(candidate for candidate in candidates if candidate not in taken)

    def _count(self, op: Op, site: Site, region: Region, pattern: Pattern, lanes: int, itemsize: int) -> None:
        key = (region.name, op, site.line)
        access = self._accesses.get(key)
        if access is None:
            access = self._accesses[key] = Access(region.name, op, site.line, site.source)
        nbytes = pattern.elements * itemsize
        access.instructions += 1
        access.requests += pattern.requests
        access.elements += pattern.elements
        access.bytes += nbytes
        access.masked += lanes - pattern.elements
        access.useful_bytes += pattern.useful_bytes
        access.sectors += pattern.sectors
        access.lines += pattern.lines
        if lanes == 1:
            access.single_bytes += nbytes

    def _launch_footprint(self, region: Region) -> Footprint:
        mine = [access for access in self._accesses.values() if access.tensor == region.name]
        return Footprint(
            region.name,
            region.nbytes,
            read_bytes=sum(access.bytes for access in mine if access.op == "load"),
            read_distinct_bytes=np.count_nonzero(region.reader != NOBODY) * region.itemsize,
            written_bytes=sum(access.bytes for access in mine if access.op != "load"),
            written_distinct_bytes=np.count_nonzero(region.writer != NOBODY) * region.itemsize,
        )

    # ------------------------------------------------------------------------------------------------- faults

    def _loaded(self, site: Site, region: Region, elements: slice | np.ndarray, pattern: Pattern) -> None:
        if pattern.duplicates:
            np.add.at(region.reads, elements, 1)
        else:
            region.reads[elements] += 1
        if region.ready is not None:
            raw = ~region.ready[elements]
            if raw.any():
                first = _first(elements, raw)
                self._see(
                    "uninitialised",
                    site,
                    region,
                    raw,
                    f"loads element {first} of `{region.name}`, which torch.empty made and nothing has written",
                    "Write it first, or start from torch.zeros.",
                )
        writer = region.writer[elements]
        others = (writer != NOBODY) & (writer != self._program) & ~region.by_atomic[elements]
        if others.any() and not self._ordered(region.last_store, writer[others]):
            self._see(
                "race",
                site,
                region,
                others,
                f"loads element {_first(elements, others)} of `{region.name}`, to which {self._other(writer, others)} "
                "stores in the same launch",
                "On a GPU nobody knows which comes first: use two launches, or another output tensor.",
            )
        reader = region.reader[elements]
        region.reader[elements] = np.where((reader == NOBODY) | (reader == self._program), self._program, SEVERAL)

    def _stored(self, site: Site, region: Region, elements: slice | np.ndarray, pattern: Pattern, atomic: bool) -> None:
        region.changed = True
        if pattern.duplicates:
            np.add.at(region.writes, elements, 1)
        else:
            region.writes[elements] += 1
        if region.ready is not None:
            region.ready[elements] = True
        writer, reader, by_atomic = region.writer[elements], region.reader[elements], region.by_atomic[elements]
        stored = (writer != NOBODY) & (writer != self._program) & ~(by_atomic & atomic)
        loaded = (reader != NOBODY) & (reader != self._program)
        if stored.any() and not self._ordered(region.last_store, writer[stored]):
            self._see(
                "race",
                site,
                region,
                stored,
                f"stores to element {_first(elements, stored)} of `{region.name}`, and so does "
                f"{self._other(writer, stored)}",
                "On a GPU nobody knows which comes last: give each program its own elements, or use an atomic.",
            )
        elif loaded.any() and not atomic and not self._ordered(region.last_load, reader[loaded]):
            self._see(
                "race",
                site,
                region,
                loaded,
                f"stores to element {_first(elements, loaded)} of `{region.name}`, which {self._other(reader, loaded)} "
                "loads in the same launch",
                "On a GPU nobody knows which comes first: use two launches, or another output tensor.",
            )
        elif pattern.duplicates and not atomic:
            values, counts = np.unique(elements, return_counts=True)
            twice = values[counts > 1]
            self._see(
                "race",
                site,
                region,
                np.ones(twice.size, bool),
                f"stores to element {int(twice[0])} of `{region.name}` from several lanes at once",
                "Only one of the values stays: give each lane its own element, or reduce first.",
            )
        region.writer[elements] = self._program
        region.by_atomic[elements] = atomic

    def _ordered(self, accesses: dict[int, int], programs: np.ndarray) -> bool:
        """Whether atomics put what these programs did before what this one does now."""
        others = set(np.unique(programs).tolist())
        if SEVERAL in others:
            others = accesses.keys() - {self._program}
        return self._ordering.before(accesses, others, self._program)

    def _out_of_bounds(self, op: Op, site: Site, active: np.ndarray, itemsize: int) -> Fault:
        region = self._meant(op, site, active, itemsize)
        if region is None:
            what, name = f"{VERB[op]} memory, but was given no tensor", ""
        else:
            outside = (active < region.start) | (active > region.start + region.nbytes - itemsize)
            first = (int(active[outside][0]) - region.start) // itemsize
            name = region.name
            what = (
                f"{VERB[op]} element {first} of `{name}`, which has {region.nbytes // itemsize} elements "
                f"({outside.sum()} of {active.size} lanes are outside)"
            )
        fault = Fault("out of bounds", f"{site}: {self._who()} {what}", site.kernel, site.line, name)
        sighting = _Sighting(fault, OUTSIDE)
        self._sightings[fault.kind, fault.kernel, fault.line, fault.tensor] = sighting
        return sighting.report()

    def _meant(self, op: Op, site: Site, active: np.ndarray, itemsize: int) -> Region | None:
        """The tensor that a wild access was meant for: an address alone does not say."""
        for address in (int(active.min()), int(active.max())):
            if region := self._arena.find(address, address + itemsize):
                return region
        here = {name for name, before, line in self._accesses if (before, line) == (op, site.line)}
        named = {region.name for parameter, region in self._parameters.items() if _mentions(site.source, parameter)}
        for names in (here, named):
            if len(names) == 1:
                return next(region for region in self._arena.regions if region.name in names)
        return self._arena.nearest(int(active[0])) if self._arena.regions else None

    def _see(self, kind, site: Site, region: Region, concerned: np.ndarray, what: str, advice: str) -> None:
        """Note a fault once for each kind, line and tensor, and count the elements."""
        key = (kind, site.kernel, site.line, region.name)
        if key not in self._sightings:
            fault = Fault(kind, f"{site}: {self._who()} {what}", site.kernel, site.line, region.name)
            self._sightings[key] = _Sighting(fault, advice)
        self._sightings[key].elements += int(np.count_nonzero(concerned))

    def _who(self) -> str:
        return f"program {_program_text(self._index, self.launches[-1].grid)}"

    def _other(self, programs: np.ndarray, concerned: np.ndarray) -> str:
        program = int(programs[concerned][0])
        if program == SEVERAL:
            return "more than one other program"
        columns, rows, _ = grid = self.launches[-1].grid
        index = (program % columns, program // columns % rows, program // (columns * rows))
        return f"program {_program_text(index, grid)}"


def _program_text(index: tuple[int, int, int], grid: tuple[int, int, int]) -> str:
    used = max([1] + [axis + 1 for axis in range(3) if grid[axis] > 1])
    return str(index[0]) if used == 1 else str(index[:used])


def _mentions(source: str, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", source) is not None


def _first(elements: slice | np.ndarray, concerned: np.ndarray) -> int:
    position = int(np.argmax(concerned))
    return elements.start + position if isinstance(elements, slice) else int(elements[position])


class _EmptyTensors(TorchDispatchMode):
    """Watches torch for tensors that nobody has written."""

    def __init__(self, traced: Trace):
        super().__init__()
        self._trace = traced

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = function(*args, **kwargs)
        if function._schema.name.removeprefix("aten::").startswith(("empty", "new_empty")) and "out" not in kwargs:
            if isinstance(result, torch.Tensor):
                self._trace._uninitialised[storage_key(result)] = result.untyped_storage()
        elif function._schema.is_mutable:
            for position, argument in enumerate(function._schema.arguments):
                if argument.alias_info is not None and argument.alias_info.is_write:
                    value = args[position] if position < len(args) else kwargs.get(argument.name)
                    for tensor in value if isinstance(value, (list, tuple)) else [value]:
                        if isinstance(tensor, torch.Tensor):
                            self._written(storage_key(tensor))
        return result

    def _written(self, key: int) -> None:
        self._trace._uninitialised.pop(key, None)
        if key in self._trace._regions:
            self._trace._regions[key].ready = None


_open: list[Trace] = []


def is_open() -> bool:
    """Whether a `with trace()` block is open in this process."""
    return bool(_open)


@contextmanager
def trace(names: dict[str, torch.Tensor] | None = None, order: Order = None) -> Iterator[Trace]:
    """Run every kernel launched inside in plain Python, and count what it does to memory.

    names   what to call tensors; by default the kernel's parameter names
    order   the order of the programs: None as a GPU starts them (x fastest), "shuffled", or a function from the number
            of programs to a permutation of them. A kernel whose result depends on it has a race.

    KernelFault if a kernel reaches outside a tensor; KernelError if it raises. What was counted until then remains.
    """
    if _open:
        raise RuntimeError("A trace is already open: end its `with` block before you open another.")
    traced = Trace(names, order)
    _open.append(traced)
    try:
        with traced._interpreter.installed(), _EmptyTensors(traced):
            yield traced
    finally:
        _open.pop()
