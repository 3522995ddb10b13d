"""A launch on this CPU: its arguments are bound, the front end reads its kernel, the TTIR is evaluated, and what was seen is recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import triton
from triton.runtime.jit import JITFunction

from tritontrace.compiled.complaints import refusal
from tritontrace.compiled.hinted import taken
from tritontrace.compiled.places import Places
from tritontrace.messages import say
from tritontrace.results import Flops, Footprint, Launch, LineFlops
from tritontrace.tracing.accesses import Accesses
from tritontrace.tracing.arithmetic import FLOATS, Arithmetic
from tritontrace.tracing.blocks import Descriptor
from tritontrace.tracing.evaluate import Code, code_of
from tritontrace.tracing.instructions import AssertionFailed
from tritontrace.tracing.memory import Arena, Region, Steps, quietly
from tritontrace.tracing.operations import NotHere
from tritontrace.tracing.pattern import Shapes
from tritontrace.tracing.program import FlopKey, Launched, Programs
from tritontrace.tracing.recorded import Recorded, distinct
from tritontrace.tracing.tuning import Tuning, contents, repeated, tuned, tuning
from tritontrace.tracing.turns import Stuck, Turns, resident, what_waits
from tritontrace.tracing.watched import Value, program_number
from tritontrace.tracing.work import TooSlow, Work
from tritontrace.ttir.frontend import LAUNCH_OPTIONS, Front, NotAnArgument, being_read, flat_values, front_of
from tritontrace.ttir.hints import Promises
from tritontrace.ttir.launching import (
    Grid,
    KernelError,
    KernelFault,
    Order,
    Site,
    bind,
    check_threads,
    grid_of,
    is_descriptor,
    offset_of,
    plain,
    positions,
    tensors_in,
    uncompilable,
)
from tritontrace.ttir.parse import Unparsed
from tritontrace.ttir.sources import jit_function, source_of, unread

BATCH = 1 << 17  # elements of the largest block, of all programs that run together: what caches hold


class Launcher:
    """Evaluates launches on the CPU, one after another.

    seen    what they did is written here;  order  of their programs, as in trace();  work  what all launches may do
    arithmetic   in which kernels are evaluated;  zeros  whether masked loads without `other` give 0;  sample  as in trace()
    """

    arithmetic: Arithmetic = FLOATS

    def __init__(
        self,
        seen: Recorded,
        order: Order = None,
        work: Work | None = None,
        zeros: bool = False,
        sample: int | None = None,
    ):
        self.seen, self.work, self.zeros, self.sample = seen, work or Work(), zeros, sample
        self._order: Order = order
        self._shapes = Shapes()

    def launch(self, kernel: Any, args: tuple, grid: Any, options: dict[str, Any]) -> None:
        """Evaluate a launch. Raises KernelFault if it reaches outside a tensor, KernelError if it cannot run here."""
        kernel = jit_function(kernel)
        if being_read():
            raise KernelError(say("launch.run.nested", kernel=kernel.fn.__name__))
        arguments = bind(kernel.fn, args, options, LAUNCH_OPTIONS)
        for hook in getattr(kernel, "pre_run_hooks", ()):
            hook(**arguments)
        source = source_of(kernel)
        grid = grid_of(source.name, grid, arguments)
        check_threads(source.name, options)
        self.seen.sources[source.name] = source
        self.seen.launches.append(Launch(source.name, grid))
        self.seen.steps.append(Steps())
        with quietly(), np.errstate(all="ignore"):  # overflow and NaN are quiet on a GPU
            try:
                code = self._code(kernel, arguments, options)
                how = tuning()
                if how:
                    self.seen.launches[-1].configuration, self.seen.launches[-1].configurations = how.chosen
                before = contents(arguments) if how else {}
                self._run(code, arguments, grid)
                if how and self._depends_on_what_was(arguments):
                    settings = {k: v for k, v in options.items() if k in LAUNCH_OPTIONS}
                    self._run_again(how, before, kernel, arguments, grid, settings)
            except KernelFault as fault:
                raise fault.with_traceback(None) from None
            except NotHere as lacking:
                raise KernelError(say("launch.run.not_here", site=str(lacking.site), problem=lacking.message)) from None
            except AssertionFailed as failed:
                raise KernelError(failed.message) from None
            except Unparsed as unknown:
                facts = {"kernel": source.name, "problem": unknown.message, "version": triton.__version__}
                raise KernelError(say("launch.run.unparsed", **facts)) from None

    # ------------------------------------------------------------------------------------------------- compile

    def _code(self, kernel: JITFunction, arguments: dict[str, Any], options: dict[str, Any]) -> Code:
        try:
            front = front_of(kernel, arguments, options)
        except NotAnArgument as error:
            raise KernelError(say("launch.arguments.wrong", kernel=kernel.fn.__name__, reason=error.message)) from None
        except Exception as error:  # of the front end, which has many kinds
            del self.seen.launches[-1], self.seen.steps[-1]  # whoever asks may take another configuration
            raise uncompilable(refusal(Places(kernel, arguments), error), kernel.fn.__name__, error) from None
        self.seen.fronts.append(front)
        self.seen.compilable.append((self.seen.launches[-1], front, arguments))
        kernel_source, *called = front.sources
        self.seen.helpers.setdefault(kernel_source.name, {}).update({s.name: s for s in called if not s.library})
        self.seen.launches[-1].tf32 = front.tf32
        given = {name: arguments.get(name) for name in unread(kernel)}
        self.seen.launches[-1].unread = {n: v if type(v) in (int, float) else None for n, v in given.items()}
        return self._code_of(front)

    def _code_of(self, front: Front) -> Code:
        if is_gluon(front):
            raise KernelError(say("launch.run.gluon", kernel=front.kernel.fn.__name__))
        return code_of(front, self._watched(front), self.arithmetic)

    # ------------------------------------------------------------------------------------------------- evaluate

    def _run(self, code: Code, arguments: dict[str, Any], grid: Grid) -> None:
        seen, front, found = self.seen, self.seen.fronts[-1], self.seen.fault_log
        tensors = {n: t for name, value in arguments.items() for n, t in tensors_in(name, value)}
        parameters = seen.regions.given(tensors)
        arena = Arena({id(region): region for region in parameters.values()}.values())
        launch, steps = seen.launches[-1], seen.steps[-1]
        numbers, steps.position = positions(prod(grid), self._order)
        if self.sample and len(numbers) > self.sample:
            if code.waits:
                raise KernelError(say("launch.waiting.sampled", kernel=launch.kernel))
            launch.sampled_from = len(numbers)
            numbers = np.asarray(numbers)[np.linspace(0, len(numbers) - 1, self.sample).astype(np.int64)]
        found.begin_launch(len(seen.launches) - 1, grid, arena, parameters, steps.position)
        for site in code.tf32:
            found.remark("tf32", site)
        memory = self._accesses(arena)
        promises = Promises()
        steps.batches = memory.batches
        turns = Turns(memory, resident(front.options.get("num_warps", 4)))
        flops, completed = Counter(), False
        launched = Launched(grid, memory, flops, self._seen_by_a_watcher, print, turns, promises, self.work)
        values = self._passed(front, arguments)

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
        except KernelFault:
            launch.stopped_from = len(numbers)
            raise
        except TooSlow:
            if (elements := sum(region.size for region in arena.regions)) >= prod(grid):
                raise
            raise TooSlow(say("launch.work.programs", programs=prod(grid), elements=elements)) from None
        except Stuck as stuck:
            raise KernelError(what_waits(stuck, memory.batches, found.who)) from None
        finally:
            memory.settle()
            seen.poisoned |= memory.poisoned
            launch.line_flops = _by_line(flops)
            launch.accesses = list(memory.counted.values())
            launch.busiest_bytes = int(steps.bytes_by_program().max(initial=0))
            arena.end_launch(completed)
            launch.footprints = [footprint for region in arena.regions for footprint in _footprints(region, launch)]
            found.races(memory.batches, memory.syncs, front.warps > 1 and not is_gluon(front), memory.weak)
            for site, program in memory.wrapped.items():
                found.remark("int32", site, program=found.who(program))
            for batch in memory.batches:
                batch.puts = None
            if front.warps > 1:
                found.early_loads(memory.batches)
            if promises.broken and (used := taken(front, arguments, list(promises.broken))):
                found.not_kept({promise: promises.broken[promise] for promise in used})

    def _accesses(self, arena: Arena) -> Accesses:
        return Accesses(arena, self.seen.fault_log, self._shapes, self.arithmetic, self.zeros)

    def _watched(self, front: Front) -> frozenset[str]:
        """The variables of a kernel whose values are asked for."""
        return frozenset(self.seen.watching)

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
            else:
                passed.append(self.arithmetic.argument(value, kind.element))
        return passed

    def _address(self, tensor: Any) -> np.ndarray:
        start = self.seen.regions.of(plain(tensor)).start
        return np.array([start + offset_of(tensor)], np.int64)

    def _seen_by_a_watcher(self, name: str, site: Site, programs: np.ndarray, values: np.ndarray) -> None:
        for watched in self.seen.watching[name]:
            number = program_number(watched.program, self.seen.launches[-1].grid)
            for row in np.flatnonzero(programs == number):
                watched.append(Value(site.line, site.source, values[row].copy()))

    # ------------------------------------------------------------------------------------------------- tuned launches

    def _depends_on_what_was(self, arguments: dict[str, Any]) -> bool:
        """Whether the last launch updates a tensor by atomics, or loads elements to which it stores."""
        tensors = [tensor for name, value in arguments.items() for _, tensor in tensors_in(name, value)]
        atomic = any(access.op == "atomic" for access in self.seen.launches[-1].accesses)
        return atomic or any(_both(self.seen.regions.of(tensor)) for tensor in tensors)

    def _run_again(self, how: Tuning, before: dict, kernel: JITFunction, arguments: dict, grid: Grid, settings: dict):
        """Look what another run of a tuned launch makes of the tensors; then they are as the first one left them.

        before: their contents before the first, by name
        """
        again, launch, found = (
            Launcher(Recorded(), self._order, self.work, self.zeros),
            self.seen.launches[-1],
            self.seen.fault_log,
        )
        with repeated(how, before, arguments) as changed:
            try:
                with tuned(None):
                    again.launch(kernel, (), grid, {**arguments, **settings})
            except TooSlow:
                raise
            except (KernelFault, KernelError) as error:
                found.not_repeated(launch, str(error))
            else:
                lost = [arguments[name] for name in how.zeroed if before[name].any()]
                for tensor in changed():
                    zeroed = any(tensor is one for one in lost)
                    found.not_repeated(launch, "", self.seen.regions.of(tensor), zeroed)


def _by_line(counted: Counter[FlopKey]) -> list[LineFlops]:
    """The floating-point operations of each line that has any, in the order of lines."""
    found: dict[tuple[str, int, str], dict[str, int]] = {}
    for (function, line, source, kind), count in sorted(counted.items()):
        found.setdefault((function, line, source), {})[kind] = count
    return [LineFlops(*line, Flops(**kinds)) for line, kinds in found.items()]


def is_gluon(front: Front) -> bool:
    """Whether a kernel is written in Gluon."""
    return getattr(front.kernel, "is_gluon", bool)()


def _footprints(region: Region, launch: Launch) -> Iterator[Footprint]:
    """The bytes of one storage that a launch read and wrote, once it has ended, for each parameter that is a part of it."""
    loaded, stored = (
        {p.name: distinct(mine) * region.itemsize for p, mine in region.parameters.of(counts, region.itemsize)}
        if counts is not None
        else {}
        for counts in (region.loaded, region.stored)
    )
    for name in (parameter.name for parameter in region.parameters.each):
        mine = [access for access in launch.accesses if access.tensor == name]
        yield Footprint(
            name,
            region.nbytes,
            read_bytes=sum(access.bytes if access.op == "load" else access.asked_bytes for access in mine),
            read_distinct_bytes=loaded.get(name, 0),
            written_bytes=sum(access.bytes for access in mine if access.op != "load"),
            written_distinct_bytes=stored.get(name, 0),
        )


def _both(region: Region) -> bool:
    """Whether an element was loaded and stored in this launch."""
    loaded, stored = region.loaded, region.stored
    return loaded is not None and stored is not None and bool(((loaded > 0) & (stored > 0)).any())
