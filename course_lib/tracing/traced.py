"""The trace: what kernels did to memory, as launches, steps, and traffic for each tensor and line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import reduce
from math import prod
from typing import Any, Literal

import numpy as np
import torch
import triton
from triton.runtime.jit import JITFunction

from course_lib.evidence import COUNTERS, Access, Fault, Flops, Footprint, Launch
from course_lib.tracing import show
from course_lib.tracing.accesses import Accesses
from course_lib.tracing.blocks import Descriptor
from course_lib.tracing.cache import MissCurve, Stream, stream
from course_lib.tracing.evaluate import Code, Launched, Programs, code_of
from course_lib.tracing.faults import Faults
from course_lib.tracing.instructions import AssertionFailed
from course_lib.tracing.interception import launches_go_to
from course_lib.tracing.memory import ALIGNMENT, Arena, Region, Steps, bytes_behind, quietly, storage_key
from course_lib.tracing.modes import Mode
from course_lib.tracing.operations import NotHere, dtype_of
from course_lib.tracing.pattern import Shapes
from course_lib.tracing.tuning import Tuning, tuned, tuning
from course_lib.tracing.turns import Stuck, Turns, resident, what_waits
from course_lib.tracing.watched import Value, Watched, program_number
from course_lib.tracing.work import TooSlow, Work
from course_lib.ttir.frontend import LAUNCH_OPTIONS, Front, NotAnArgument, being_read, flat_values, front_of
from course_lib.ttir.hints import Promise, Promises
from course_lib.ttir.launching import (
    Grid,
    KernelError,
    KernelFault,
    Op,
    Order,
    Site,
    Uncompilable,
    bind,
    check_threads,
    grid_of,
    is_descriptor,
    plain,
    positions,
    tensors_in,
)
from course_lib.ttir.parse import Unparsed
from course_lib.ttir.sources import Source, jit_function, source_of
from course_lib.version import moved

KNOWN_TRITONS = "The trace reads what the front ends of Triton 3.4 to 3.9 write"
BATCH = 1 << 17  # elements of the largest block, of all programs that run together: what caches hold


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
        work: Work | None = None,
    ):
        self.work = work or Work()
        self.launches: list[Launch] = []
        self.steps: list[Steps] = []
        self.poisoned: set[tuple[str, int]] = set()
        self.sources: dict[str, Source] = {}
        self.fronts: list[Front] = []
        self._order: Order = order
        self._watching: dict[str, list[Watched]] = {}
        self._names = {storage_key(tensor): name for name, tensor in (names or {}).items()}
        self._held = [*(names or {}).values(), *inputs]  # so that no address is given to another tensor
        self._inputs = {storage_key(tensor) for tensor in inputs}
        self._regions: dict[int, Region] = {}  # by storage
        self._uninitialised: dict[int, torch.UntypedStorage] = {}
        self._faults = Faults()
        self._shapes = Shapes()
        self._next_base = ALIGNMENT

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

    def faults_of(self, launch: int) -> list[Fault]:
        """The faults that were seen first in the launch of this number; -1 is the last one."""
        number = range(len(self.launches))[launch]
        return [fault for fault, at in zip(self.faults, self._faults.first_seen(), strict=True) if at == number]

    def accesses_to(self, tensor: torch.Tensor | str, op: Op | None = None) -> Access:
        """The accesses to one tensor, summed over launches and lines. Raises KeyError if no kernel had one of that name."""
        region = self._region(tensor)
        return self._sum(op, region.name) if region else Access("", op or "load")

    def of(self, tensor: torch.Tensor | str, op: Op | None = None) -> Access:
        """The name that `accesses_to` had in release 0.2.0."""
        moved("of", "accesses_to")
        return self.accesses_to(tensor, op)

    def reread(self, tensor: torch.Tensor | str) -> float:
        """Times each distinct byte of the tensor was loaded, on average: 1.0 is once; 0.0 if it was never loaded."""
        footprint = self.footprint(tensor)
        return footprint.read_bytes / max(1, footprint.read_distinct_bytes)

    def footprint(self, tensor: torch.Tensor | str) -> Footprint:
        """Bytes that all launches together read from and wrote to one tensor."""
        region = self._region(tensor)
        if region is None:
            assert isinstance(tensor, torch.Tensor)  # an unknown name is refused
            return Footprint("", tensor.untyped_storage().nbytes())
        return Footprint(
            region.name,
            region.nbytes,
            read_bytes=_times(region.reads) * region.itemsize,
            read_distinct_bytes=_distinct(region.reads) * region.itemsize,
            written_bytes=_times(region.writes) * region.itemsize,
            written_distinct_bytes=_distinct(region.writes) * region.itemsize,
        )

    def read_counts(self, tensor: torch.Tensor) -> np.ndarray:
        """How often each element was loaded, in the tensor's shape."""
        region = self._region(tensor)
        if region is None:
            return np.zeros(tensor.shape, np.uint32)
        return region.in_shape_of(tensor, region.times_read())

    def l2(self, at_once: int, order=None, launch: int | None = None) -> MissCurve:
        """Traffic that an L2 of any size would leave to DRAM, over all launches or one: a cache.MissCurve.

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
        """The kernels' source with bytes and efficiency next to each line: text, and HTML where a notebook shows it."""
        return show.annotated(self)

    def heatmap(
        self,
        tensor: torch.Tensor,
        program: int | tuple[int, ...] | None = None,
        launch: int | None = None,
        op: Literal["load", "store"] | None = None,
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
                    for counter in COUNTERS:
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
        """Call a tensor by this name from now on, instead of by the kernel's parameter."""
        self._names[storage_key(tensor)] = name
        self._held.append(tensor)

    # ------------------------------------------------------------------------------------------------- launching

    def launch(self, kernel: Any, args: tuple, grid: Any, options: dict[str, Any]) -> None:
        """Run a kernel here. Raises KernelFault if it reaches outside a tensor, KernelError if it cannot run here."""
        kernel = jit_function(kernel)
        if being_read():
            raise KernelError(f"a kernel cannot launch another: call `{kernel.fn.__name__}` without a grid.")
        arguments = bind(kernel.fn, args, options, LAUNCH_OPTIONS)
        for hook in getattr(kernel, "pre_run_hooks", ()):
            hook(**arguments)
        source = source_of(kernel)
        grid = grid_of(source.name, grid, arguments)
        check_threads(source.name, options)
        self.sources[source.name] = source
        self.launches.append(Launch(source.name, grid))
        self.steps.append(Steps())
        with quietly(), np.errstate(all="ignore"):  # overflow and NaN are quiet on a GPU
            try:
                code = self._code(kernel, arguments, options)
                how = tuning()
                before = _contents(arguments) if how else {}
                self._run(code, arguments, grid)
                if how and self._depends_on_what_was(self.launches[-1], arguments):
                    self._run_again(how, before, kernel, arguments, grid, options)
            except KernelFault as fault:
                raise fault.with_traceback(None) from None
            except NotHere as lacking:
                raise KernelError(f"{lacking.site}: {lacking}") from None
            except AssertionFailed as failed:
                raise KernelError(str(failed)) from None
            except Unparsed as unknown:
                raise KernelError(
                    f"kernel `{source.name}`: {unknown}. {KNOWN_TRITONS}; this is {triton.__version__}."
                ) from None

    def _code(self, kernel: JITFunction, arguments: dict[str, Any], options: dict[str, Any]) -> Code:
        try:
            front = front_of(kernel, arguments, options)
        except NotAnArgument as error:
            raise KernelError(
                f"kernel `{kernel.fn.__name__}` was launched with the wrong arguments: {error}."
            ) from None
        except Exception as error:  # of the front end, which has many kinds
            raise Uncompilable(_said_by_the_front_end(kernel, arguments, error), kernel.fn.__name__) from None
        self.fronts.append(front)
        self.launches[-1].tf32 = front.tf32
        return self._code_of(front)

    def _code_of(self, front: Front) -> Code:
        if getattr(front.kernel, "is_gluon", bool)():
            name = front.kernel.fn.__name__
            raise KernelError(
                f"kernel `{name}` is in Gluon: simulate({name}[grid], ...) of course_lib.hopper runs it, in many orders."
            )
        return code_of(front, frozenset(self._watching))

    def _run(self, code: Code, arguments: dict[str, Any], grid: Grid) -> None:
        tensors = {n: t for name, value in arguments.items() for n, t in tensors_in(name, value)}
        parameters = {name: self._region_for(name, tensor) for name, tensor in tensors.items()}
        arena = Arena({id(region): region for region in parameters.values()}.values())
        launch, steps = self.launches[-1], self.steps[-1]
        numbers, steps.position = positions(prod(grid), self._order)
        self._faults.begin_launch(len(self.launches) - 1, grid, arena, parameters, steps.position)
        memory = Accesses(arena, self._faults, self._shapes)
        promises = Promises()
        steps.batches = memory.batches
        turns = Turns(memory, resident(self.fronts[-1].options.get("num_warps", 4)))
        flops, completed = Counter(), False
        launched = Launched(grid, memory, flops, self._seen_by_a_watcher, print, turns, promises, self.work)
        values = self._passed(self.fronts[-1], arguments)

        def together(some: np.ndarray) -> None:
            launch.programs += len(some)
            code.run(values, Programs(some, launched))

        try:
            if code.waits:
                turns.run(map(int, numbers), lambda number: together(np.array([number])))
            else:
                size = 1 if code.talks else max(1, BATCH // code.largest)
                for first in range(0, len(numbers), size):
                    together(np.array(numbers[first : first + size], np.int64))
            completed = True
        except Stuck as stuck:
            raise KernelError(what_waits(stuck, memory.batches, self._faults.who)) from None
        finally:
            self.poisoned |= memory.poisoned
            launch.flops = Flops(**flops)
            launch.accesses = list(memory.counted.values())
            arena.end_launch(completed)
            launch.footprints = [self._launch_footprint(region, launch) for region in arena.regions]
            self._faults.races(memory.batches, memory.syncs)
            if self.fronts[-1].warps > 1:
                self._faults.early_loads(memory.batches)
            if taken := _taken_at_their_word(self.fronts[-1], arguments, promises.broken):
                self._faults.not_kept({promise: promises.broken[promise] for promise in taken})

    def _depends_on_what_was(self, launch: Launch, arguments: dict[str, Any]) -> bool:
        """Whether a launch updates a tensor by atomics, or loads elements to which it stores."""
        tensors = [tensor for name, value in arguments.items() for _, tensor in tensors_in(name, value)]
        atomic = any(access.op == "atomic" for access in launch.accesses)
        return atomic or any(_both(self._regions[storage_key(tensor)]) for tensor in tensors)

    def _run_again(
        self,
        how: Tuning,
        before: dict[str, torch.Tensor],
        kernel: JITFunction,
        arguments: dict[str, Any],
        grid: Grid,
        options: dict[str, Any],
    ) -> None:
        """Look what another run of a tuned launch makes of the tensors; then they are as the first one left them.

        before: their contents before the first, by name
        """
        left, named = (
            _contents(arguments),
            {n: t for name, value in arguments.items() for n, t in tensors_in(name, value)},
        )
        for name in how.restored:
            bytes_behind(named[name]).copy_(before[name])
        for name in how.zeroed:
            named[name].zero_()
        how.prepare()
        again, settings = (
            Trace(order=self._order, work=self.work),
            {k: v for k, v in options.items() if k in LAUNCH_OPTIONS},
        )
        try:
            with tuned(None):
                again.launch(kernel, (), grid, {**arguments, **settings})
        except TooSlow:
            raise
        except (KernelFault, KernelError) as error:
            self._faults.not_repeated(self.launches[-1], str(error))
        else:
            for name, tensor in named.items():
                if not torch.equal(bytes_behind(tensor), left[name]):
                    self._faults.not_repeated(self.launches[-1], "", self._regions[storage_key(tensor)])
        for name, tensor in named.items():
            bytes_behind(tensor).copy_(left[name])

    def _passed(self, front: Front, arguments: dict[str, Any]) -> list:
        """The values of the kernel's arguments, as it gets them."""
        passed: list = []
        for _, value in flat_values(front, arguments):
            _, kind = front.entry.arguments[len(passed)]
            if is_descriptor(value):  # its sizes and strides are arguments of their own as well
                sizes = tuple(np.array([n], np.int32) for n in value.shape)
                strides = tuple(np.array([n], np.int64) for n in value.strides)
                padding = float("nan") if getattr(value, "padding", "zero") == "nan" else 0.0
                passed += [Descriptor(self._address(value.base), sizes, strides, padding), *sizes, *strides]
            elif hasattr(value, "data_ptr"):
                passed.append(self._address(value))
            else:  # a number of another size wraps around, a float is a float32: as a launch on a GPU passes them
                passed.append(np.array([value]).astype(dtype_of(kind.element)))
        return passed

    def _address(self, tensor: Any) -> np.ndarray:
        tensor = plain(tensor)
        return np.array(
            [self._regions[storage_key(tensor)].start + tensor.storage_offset() * tensor.element_size()], np.int64
        )

    # ------------------------------------------------------------------------------------------------- looking into a kernel

    def watch(self, variable: str, program: int | tuple[int, ...] = 0) -> Watched:
        """Keep, from now on, each value that a variable of a kernel is given in one program: a list of blocks, which
        fills as kernels run. Ask before the launch.

            with trace() as t:
                acc = t.watch("acc", program=(1, 0))
                kernel[grid](...)
            acc            # each value, with its line
        """
        watched = Watched(variable, program)
        self._watching.setdefault(variable, []).append(watched)
        return watched

    def _seen_by_a_watcher(self, name: str, site: Site, programs: np.ndarray, values: np.ndarray) -> None:
        for watched in self._watching[name]:
            number = program_number(watched.program, self.launches[-1].grid)
            for row in np.flatnonzero(programs == number):
                watched.append(Value(site.line, site.source, values[row].copy()))

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

    def _launch_footprint(self, region: Region, launch: Launch) -> Footprint:
        mine = [access for access in launch.accesses if access.tensor == region.name]
        return Footprint(
            region.name,
            region.nbytes,
            read_bytes=sum(access.bytes if access.op == "load" else access.asked_bytes for access in mine),
            read_distinct_bytes=_distinct(region.loaded) * region.itemsize,
            written_bytes=sum(access.bytes for access in mine if access.op != "load"),
            written_distinct_bytes=_distinct(region.stored) * region.itemsize,
        )


def _distinct(counts: np.ndarray | None) -> int:
    """How many elements were touched."""
    return 0 if counts is None else int(np.count_nonzero(counts))


def _times(counts: np.ndarray | None) -> int:
    """How often elements were touched in all."""
    return 0 if counts is None else int(counts.sum(dtype=np.int64))


def _taken_at_their_word(front: Front, arguments: dict[str, Any], broken: Iterable[Promise]) -> list[Promise]:
    from course_lib.compiled.hinted import taken  # which takes the text from here

    return taken(front, arguments, list(broken)) if broken else []


def _contents(arguments: dict[str, Any]) -> dict[str, torch.Tensor]:
    """All bytes of each tensor's storage."""
    return {n: bytes_behind(t).clone() for name, value in arguments.items() for n, t in tensors_in(name, value)}


def _both(region: Region) -> bool:
    """Whether an element was loaded and stored in this launch."""
    loaded, stored = region.loaded, region.stored
    return loaded is not None and stored is not None and bool(((loaded > 0) & (stored > 0)).any())


def _said_by_the_front_end(kernel: JITFunction, arguments: dict[str, Any], error: Exception) -> str:
    from course_lib.compiled.complaints import refusal  # which takes the compiler's sources from here
    from course_lib.compiled.places import Places

    return refusal(Places(kernel, arguments), error)


class _EmptyTensors(Mode):
    """Watches torch for tensors that nobody has written."""

    def __init__(self, traced: Trace):
        super().__init__()
        self._trace = traced

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Tell torch.compile that this mode changes no result: it refuses to work under any other."""
        return True

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
def trace(
    names: dict[str, torch.Tensor] | None = None,
    order: Order = None,
    inputs: Iterable[torch.Tensor] = (),
    work: Work | None = None,
) -> Iterator[Trace]:
    """Run every kernel launched inside on this CPU, as the compiler reads it, and count what it does to memory.

    names   what to call tensors; by default the kernel's parameter names
    order   the order of the programs: None as a GPU starts them (x fastest), "shuffled", or a function from the number
            of programs to a permutation of them. A kernel whose result depends on it has a race.
    inputs  tensors that kernels should leave as they are: a store to one is a fault
    work    what all launches may do; beyond that a KernelError, work.TooSlow

    Raises KernelFault if a kernel reaches outside a tensor, and KernelError if it raises. What was counted until then remains.
    """
    with opened(Trace(names, order, list(inputs), work)) as traced:
        yield traced


@contextmanager
def opened(traced: Trace) -> Iterator[Trace]:
    """Let launches go to this trace while it is open: `trace` for one that is made already, of a class of its own."""
    if _open:
        raise RuntimeError("A trace is already open: end its `with` block before you open another.")
    _open.append(traced)
    try:
        with launches_go_to(traced.launch), _EmptyTensors(traced):
            yield traced
    finally:
        _open.pop()
