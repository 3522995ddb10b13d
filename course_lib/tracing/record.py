"""What kernels did to memory: launches, steps, and traffic per tensor and line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import reduce

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from course_lib.exercise import Access, Fault, Flops, Footprint, Launch
from course_lib.tracing import show
from course_lib.tracing.cache import MissCurve, Stream, stream
from course_lib.tracing.faults import Faults
from course_lib.tracing.hooks import FlopKind, Interpreter, KernelFault, Op, Order, Site
from course_lib.tracing.memory import ALIGNMENT, Arena, Region, Step, storage_key
from course_lib.tracing.pattern import Pattern, Shapes
from course_lib.tracing.rewrite import Source


class Trace:
    """Everything counted while `with trace() as t:` was open.

    launches   list[Launch], in order, with an Access per tensor, operation and line
    steps      for each launch every access that it made, in the order of execution
    poisoned   (kernel, line) of each load that left lanes out and gave no `other`: NaN or a wild integer came of it
    """

    def __init__(
        self,
        names: dict[str, torch.Tensor] | None = None,
        order: Order = None,
        inputs: Iterable[torch.Tensor] = (),
        interpreter: Interpreter | None = None,
    ):
        self.launches: list[Launch] = []
        self.steps: list[list[Step]] = []
        self.poisoned: set[tuple[str, int]] = set()
        self.sources: dict[str, Source] = {}
        self._interpreter = interpreter or Interpreter()
        self._interpreter.serve(self, order)
        self._names = {storage_key(tensor): name for name, tensor in (names or {}).items()}
        self._held = [*(names or {}).values(), *inputs]  # so that no address is given to another tensor
        self._inputs = {storage_key(tensor) for tensor in inputs}
        self._regions: dict[int, Region] = {}  # by storage
        self._uninitialised: dict[int, torch.UntypedStorage] = {}
        self._faults = Faults()
        self._shapes = Shapes()
        self._next_base = ALIGNMENT
        self._accesses: dict[tuple[str, Op, int], Access] = {}  # of this launch
        self._parameters: dict[str, Region] = {}  # likewise
        self._program = 0

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
        return self._faults.report()

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
        return region.in_shape_of(tensor, region.reads)

    def l2(self, at_once: int, order=None, launch: int | None = None) -> MissCurve:
        """What an L2 of any size would leave to DRAM, over all launches or one: a cache.MissCurve.

        at_once  programs that run in lock-step, such as one for each SM
        order    how programs start: None as on a GPU, else their numbers or tiles (see cache.stream)
        """
        launches = self.steps if launch is None else [self.steps[launch]]
        return MissCurve(reduce(Stream.then, (stream(steps, at_once, order) for steps in launches)))

    def table(self) -> str:
        """One row for each kernel, tensor and operation; the line that wastes most is marked."""
        return show.table(self)

    __str__ = __repr__ = table

    def _repr_html_(self) -> str:
        return show.html(self)

    def source(self) -> show.Annotated:
        """The kernels' source with bytes and efficiency beside each line: text, and HTML where a notebook shows it."""
        return show.annotated(self)

    def heatmap(
        self,
        tensor: torch.Tensor,
        program: int | tuple[int, ...] | None = None,
        launch: int | None = None,
        op: Op | None = None,
    ):
        """A Picture of how often each element was loaded, or stored: see draw.heatmap."""
        from course_lib.tracing import draw  # matplotlib takes a while, and the grader draws nothing

        return draw.heatmap(self, tensor, program, launch, op)

    def order(self, tensor: torch.Tensor | None = None, launch: int = -1):
        """A Picture of the order in which a GPU starts programs, over the grid or over a tensor: see draw.order."""
        from course_lib.tracing import draw

        return draw.order(self, tensor, launch)

    def timeline(self, program: int | tuple[int, ...] = 0, launch: int = -1):
        """A Picture of what one program loads and stores, step by step: see draw.timeline."""
        from course_lib.tracing import draw

        return draw.timeline(self, program, launch)

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
        self._accesses = {}
        self._parameters = {name: self._region_for(name, tensor) for name, tensor in tensors.items()}
        self._arena = Arena({id(region): region for region in self._parameters.values()}.values())
        self._faults.begin_launch(grid, self._arena, self._parameters, self.steps[-1])

    def address(self, tensor: torch.Tensor) -> int:
        return self._regions[storage_key(tensor)].start + tensor.storage_offset() * tensor.element_size()

    def begin_program(self, program: int, index: tuple[int, int, int]) -> None:
        self._program = program
        self._faults.begin_program(program, index)
        self.launches[-1].programs += 1

    def poisoned_load(self) -> None:
        site = self._interpreter.where()
        self.poisoned.add((site.kernel, site.line))

    def access(self, op: Op, addresses: np.ndarray, mask: np.ndarray, itemsize: int) -> None:
        """Count one instruction, before it runs."""
        if mask.all():
            mask = None
        elif not mask.any():
            return
        site = self._interpreter.where()
        shape = self._shapes.of((op, site), addresses, mask, itemsize)
        lowest = shape.lowest(addresses)
        region = self._arena.find(lowest, lowest + shape.extent)
        if region is None:
            active = addresses.reshape(-1) if mask is None else addresses[mask]
            raise KernelFault(self._faults.out_of_bounds(op, site, active, itemsize))
        pattern, offset = shape.at(lowest), lowest - region.start
        self._count(op, site, region, pattern, addresses.size)
        elements = region.elements(offset, pattern)
        if op == "load":
            region.count_load(elements, pattern.duplicates)
            self._faults.loaded(site, region, elements)
        else:
            region.count_store(elements, pattern.duplicates)
            self._faults.stored(site, region, elements, pattern, atomic=op == "atomic")
        self.steps[-1].append(Step(self._program, op, site.line, region, region.base + offset, pattern))

    def synchronised(self, addresses: np.ndarray) -> None:
        self._faults.synchronised(addresses)

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
            region.read_only = key in self._inputs
            self._next_base += -(-max(1, region.nbytes) // ALIGNMENT) * ALIGNMENT
            self._regions[key] = region
        return region

    def _fresh(self, name: str) -> str:
        """Kernels call different tensors by one name: the second `o_ptr` is `o_ptr#2`."""
        taken = {region.name for region in self._regions.values()} | set(self._names.values())
        candidates = [name] + [f"{name}#{i}" for i in range(2, len(taken) + 3)]
        return next(candidate for candidate in candidates if candidate not in taken)

    def _count(self, op: Op, site: Site, region: Region, pattern: Pattern, lanes: int) -> None:
        key = (region.name, op, site.line)
        access = self._accesses.get(key)
        if access is None:
            access = self._accesses[key] = Access(region.name, op, site.line, site.source)
        nbytes = pattern.elements * pattern.itemsize
        access.instructions += 1
        access.requests += pattern.requests
        access.elements += pattern.elements
        access.bytes += nbytes
        access.masked += lanes - pattern.elements
        access.useful_bytes += pattern.useful_bytes
        access.sectors += pattern.sectors
        access.lines += pattern.lines
        access.l2_sectors += pattern.distinct_sectors if op == "load" else pattern.sectors
        if lanes == 1:
            access.single_bytes += nbytes

    def _launch_footprint(self, region: Region) -> Footprint:
        mine = [access for access in self._accesses.values() if access.tensor == region.name]
        return Footprint(
            region.name,
            region.nbytes,
            read_bytes=sum(access.bytes for access in mine if access.op == "load"),
            read_distinct_bytes=np.count_nonzero(region.reads != region.reads_before) * region.itemsize,
            written_bytes=sum(access.bytes for access in mine if access.op != "load"),
            written_distinct_bytes=np.count_nonzero(region.writes != region.writes_before) * region.itemsize,
        )


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
_installed: list[Interpreter] = []  # by `in_a_row`


def is_open() -> bool:
    """Whether a `with trace()` block is open in this process."""
    return bool(_open)


@contextmanager
def trace(
    names: dict[str, torch.Tensor] | None = None, order: Order = None, inputs: Iterable[torch.Tensor] = ()
) -> Iterator[Trace]:
    """Run every kernel launched inside in plain Python, and count what it does to memory.

    names   what to call tensors; by default the kernel's parameter names
    order   the order of the programs: None as a GPU starts them (x fastest), "shuffled", or a function from the number
            of programs to a permutation of them. A kernel whose result depends on it has a race.
    inputs  tensors that kernels should leave as they are: a store to one is a fault

    KernelFault if a kernel reaches outside a tensor; KernelError if it raises. What was counted until then remains.
    """
    if _open:
        raise RuntimeError("A trace is already open: end its `with` block before you open another.")
    traced = Trace(names, order, list(inputs), *_installed)
    _open.append(traced)
    try:
        with nullcontext() if _installed else traced._interpreter.installed(), _EmptyTensors(traced):
            yield traced
    finally:
        _open.pop()


@contextmanager
def in_a_row() -> Iterator[None]:
    """Traces opened one after another inside share one interpreter: Triton's language is patched once, and its front end
    asked once for each kind of call. Until the end of the block nothing compiles in this process."""
    interpreter = Interpreter()
    with interpreter.installed():
        _installed.append(interpreter)
        try:
            yield
        finally:
            _installed.pop()
