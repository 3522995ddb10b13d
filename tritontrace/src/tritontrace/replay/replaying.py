"""Replay: rebuild the author's kernels alone and run a recorded log on fresh inputs.

No host code of the author's runs here. A torch operation runs only if it allocates, or if it is allowed by name.
`Tape` is the part that tracing on the CPU and timing on a GPU share.
"""

from __future__ import annotations

import math
from collections import Counter, namedtuple
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
import triton.language as tl
from triton.runtime.jit import JITFunction
from triton.tools.tensor_descriptor import TensorDescriptor

from tritontrace.compiled import OPTIONS, compile_all, fits
from tritontrace.compiled.limit import Job
from tritontrace.messages import Message, MessageError, message_of, say
from tritontrace.replay import kernels, layouts
from tritontrace.replay.names import DECORATORS
from tritontrace.replay.wire import DTYPES, WireError, storage_bytes, view
from tritontrace.results import Cause, Compiled, Fault, Operation, Replay, Saved, tensors_of
from tritontrace.tracing import KernelError, KernelFault, opened
from tritontrace.tracing.launcher import Launcher
from tritontrace.tracing.recorded import Recorded
from tritontrace.tracing.tuning import Tuning, tuned
from tritontrace.tracing.work import Work
from tritontrace.ttir.frontend import Front
from tritontrace.ttir.launching import Hazardous, Uncompilable, is_descriptor

ALLOCATIONS = frozenset(
    [
        "empty",
        "empty_like",
        "empty_permuted",
        "empty_strided",
        "new_empty",
        "new_empty_strided",
        "zeros",
        "zeros_like",
        "new_zeros",
        "ones",
        "ones_like",
        "new_ones",
        "full",
        "full_like",
        "new_full",
    ]
)
IN_WORDS: dict[str, str] = {  # torch's operations by their aten names, as authors know them
    "_to_copy": say("replay.operation.to_copy"),
    "clone": say("replay.operation.clone"),
    "copy_": say("replay.operation.copy"),
    **dict.fromkeys(("mm", "bmm", "addmm", "baddbmm"), say("replay.operation.matmul")),
    "mul": say("replay.operation.mul"),
    "add": say("replay.operation.add"),
    "sum": say("replay.operation.sum"),
    "lift_fresh": say("replay.operation.lift"),
    "_softmax_backward_data": say("replay.operation.softmax_backward"),
    "_safe_softmax": say("replay.operation.attention"),
    "_scaled_dot_product_flash_attention_for_cpu": say("replay.operation.attention"),
    "_scaled_dot_product_attention_math": say("replay.operation.attention"),
    "_local_scalar_dense": say("replay.operation.item"),
}
FILLS = ("aten.zero_.default", "aten.fill_.Scalar")  # of what is not an input: torch.zeros in two steps


Compiler = Callable[[Sequence[Job], float], list[Compiled]]  # as compile_all is called


class ToCompile(NamedTuple):
    """A launch to be compiled.

    key     of the kernel;  front: what was evaluated of it
    case    the name of the case whose call made it
    tuned   by an autotuner
    spare   made in a first call, with another configuration than the last call takes: asked about only where that one does not fit
    """

    key: str
    front: Front
    arguments: dict[str, Any]
    case: str
    tuned: bool = False
    spare: bool = False


# what the compiler is asked: a kernel's key, its types and constants, its options
Key = tuple[str, tuple[str, ...], tuple]
KEPT = ", made before the call"  # of such a buffer, to which no contents come along
MAX_BYTES = 4 << 30
MOST_LETTERS = 200  # of a configuration in words


class Refused(MessageError, ValueError):
    """Raised, with a message, where the log holds something that is not allowed.

    operation   of torch, by its aten name, if it is one
    """

    operation = ""

    @classmethod
    def of(cls, operation: str, sentence: Message) -> Refused:
        error = cls(sentence)
        error.operation = operation
        return error

    @property
    def cause(self) -> Cause:
        return Cause("refused", details={"operation": self.operation} if self.operation else {"message": str(self)})


class ReturnsInput(Refused):
    """Raised where the function returns one of its inputs, or a view of it. result: what that is, for the message."""

    def __init__(self, sentence: Message, result: Any) -> None:
        super().__init__(sentence)
        self.result = result


class Halves:
    """The forward and the backward half of a replayed call, and the tensors passed between them.

    The log says where backward begins; it is not believed. A gradient that is used before, or an output that is not there
    by then, shows.
    """

    def __init__(self, two: bool) -> None:
        self.two = two
        self.phases: list[int] = []  # of each launch
        self.saved: dict[str, Saved] | None = None  # from the mark on
        self.ready: list[int] = []
        self._before: dict[str, bytes] = {}  # what was there at the mark
        self._over = False

    def launched(self) -> None:
        self.phases.append(0 if self.saved is None else 1)

    def begin_backward(self, outputs: Mapping[str, str], storages: Mapping[str, torch.UntypedStorage]) -> None:
        if self.saved is not None:
            raise Refused(say("replay.log.two_halves"))
        self.saved = {}
        self._before = {i: _contents(s) if i in outputs else b"" for i, s in storages.items()}

    def used(self, identity: str, name: str, nbytes: int, layout: Mapping[str, Any]) -> None:
        """Record that a launch or an operation used a storage."""
        if self._over:
            return
        is_gradient = ":" in identity and name.partition("[")[0] == "dy"
        if is_gradient and self.two and self.saved is None:
            raise Refused(say("replay.log.early_gradient"))
        if self.saved is not None and identity in self._before and not is_gradient:
            self.saved.setdefault(identity, Saved(name, nbytes, list(layout.get("size", []))))

    def end(self, outputs: Mapping[str, str], storages: Mapping[str, torch.UntypedStorage]) -> None:
        self._over = True
        done = (i in self._before and self._before[i] == _contents(storages[i]) for i in outputs if i in storages)
        self.ready = [position for position, is_done in enumerate(done) if is_done]


def _contents(storage: torch.UntypedStorage) -> bytes:
    return storage_bytes(storage).numpy().tobytes()


class Tape:
    """A log bound to inputs on one device: `run(call)` performs a call's events and returns its result.

    >>> from tritontrace.replay import record
    >>> tape = Tape(record(lambda x: x + 1, [{"x": x}]))
    """

    def __init__(
        self, log: Mapping[str, Any], device: str = "cpu", allows: Collection[str] = (), language: str = ""
    ) -> None:
        self.log, self.device, self.allows = log, torch.device(device), frozenset(allows)
        # trap: a kernel in Gluon is simulated and one in Triton traced, so one cannot pass for the other
        self.language = language  # in which kernels must be; "": either
        self.storages: dict[str, torch.UntypedStorage] = {}
        self.held: set[int] = set()  # what tells these storages apart
        self.operations: list[Operation] = []
        self.launched: list[
            tuple[str, dict[str, Any], bool]
        ] = []  # in the call that runs: a kernel's key, its arguments, by a tuner
        self.keys: list[str] = []  # of the kernels launched, in all calls
        self.configurations: list[str] = []  # see Replay
        self.allocated: dict[str, int] = {}  # in the call that runs: bytes of each storage
        self.used: dict[str, int] = {}  # the same of all that it was not given: an earlier call may have made it
        self.made: dict[int, list[str]] = {}  # call -> storages that its last run allocated
        self.outputs: dict[str, str] = {}  # storage id -> name, of the call that runs
        self.names: dict[str, str] = {}  # storage id -> name, of all
        self.halves = Halves(False)
        self.named: Callable[[str, torch.Tensor], None] = lambda name, tensor: None
        try:
            self.kernels = kernels.rebuild(log["kernels"])
        except kernels.KernelRefused as refusal:
            raise Refused(refusal.message) from None
        # keys tell what was traced and what is compiled
        if any(key != kernels.key_of(entry) for key, entry in log["kernels"].items()):
            raise Refused(say("replay.log.other_key"))

    def bind(self, call: int, arguments: Mapping[str, Any]) -> None:
        """Bind the arguments of a call to their storages."""
        for identity, name, tensor in tensors_of(call, arguments):
            self._hold(identity, tensor.untyped_storage())
            self.names[identity] = name
            self.named(name, tensor)

    def _hold(self, identity: str, storage: torch.UntypedStorage) -> None:
        self._let_go(identity)
        self.storages[identity] = storage
        self.held.add(storage._cdata)

    def _let_go(self, identity: str) -> None:
        if (storage := self.storages.pop(identity, None)) is not None:
            self.held.discard(storage._cdata)

    def run(self, call: int) -> Any:
        """Perform the events of a call, by its number, and return its result. Raises Refused if the log does not fit."""
        entry = self.log["calls"][call]
        for identity in self.made.pop(call, ()):  # what an earlier run of this call allocated is gone
            self._let_go(identity)
        self.operations, self.allocated, self.used, self.launched = [], {}, {}, []
        self.configurations.append("")
        self.outputs = dict(_storages_of(entry["result"], "out"))
        self.halves = Halves(any("mark" in event for event in entry["events"]))
        for event in entry["events"]:
            self.perform(event)
        self.made[call] = list(self.allocated)
        if self.device.type == "cpu":
            self.halves.end(self.outputs, self.storages)
        inputs = [identity.partition(":")[2] for identity in self.outputs if ":" in identity]
        result = self.decode(entry["result"])
        if inputs:
            raise ReturnsInput(say("replay.log.input_returned", tensor=inputs[0]), result)
        return result

    def overwrite(self, call: int) -> None:
        """Set all bits of what the last run of this call allocated, its results among it: the next run may get that memory."""
        for identity in self.made.get(call, ()):
            storage_bytes(self.storages[identity]).fill_(0xFF)

    def perform(self, event: Mapping[str, Any]) -> None:
        """Perform one event of the log: a launch, a torch operation, the beginning of a backward pass."""
        if "mark" in event:
            self.halves.begin_backward(self.outputs, self.storages if self.device.type == "cpu" else {})
            return
        if "launch" in event:
            kernel = self.kernels.get(event["launch"])
            if kernel is None:
                raise Refused(say("replay.log.no_kernel"))
            self._speaks(kernel)
            arguments = {name: self.decode(value) for name, value in event["arguments"].items()}
            options = {name: self.decode(value) for name, value in event["options"].items()}
            if not options.keys() <= set(OPTIONS):
                raise Refused(say("replay.log.options", options=str(sorted(options))))
            self.launched.append((event["launch"], arguments, "tuned" in event))
            self.keys.append(event["launch"])
            if all(event["grid"]):
                self.halves.launched()
            how = self._tuning(event.get("tuned"), arguments)
            if how and how.settings:
                self.configurations[-1] = _configuration(kernel, how.settings, {**arguments, **options})
            with tuned(how):
                kernel[tuple(event["grid"])](**{**arguments, **options})  # of no programs: it is compiled, as on a GPU
            return
        name, operation = self.operation(event)
        wanted = sum(math.prod(spec["size"]) * DTYPES[spec["dtype"]].itemsize for spec in event["out"])
        if wanted > MAX_BYTES:
            raise Refused(say("replay.log.too_large", gib=wanted / 2**30, most=MAX_BYTES >> 30))
        args, named = [self.decode(a) for a in event["args"]], {k: self.decode(v) for k, v in event["kwargs"].items()}
        results = operation(*args, **named)
        if name not in ALLOCATIONS:
            self.operations.append(_operation(name, [*args, *named.values()], results))
        for spec, tensor in zip(
            event["out"], results if isinstance(results, (list, tuple)) else [results], strict=True
        ):
            identity = spec["tensor"]
            if identity not in self.storages:
                if tensor.untyped_storage()._cdata in self.held:
                    raise Refused(say("replay.log.two_names"))
                self._hold(identity, tensor.untyped_storage())
                self.allocated[identity] = tensor.untyped_storage().nbytes()
                if "empty" in name and self.device.type == "cpu":
                    # all bits set is NaN in every float: what no kernel stores must not be right by luck. Past
                    # torch, so that the trace still counts the tensor as never written.
                    storage_bytes(tensor.untyped_storage()).numpy().fill(0xFF)
                buffer = f"buffer {len(self.allocated)}{KEPT if event.get('kept') else ''}"
                self.names[identity] = self.outputs.get(identity, buffer)
                self.named(self.names[identity], tensor)

    def _speaks(self, kernel: JITFunction) -> None:
        """Raise Refused for a kernel in another language than `language`."""
        spoken = "Gluon" if kernels.is_gluon(kernel) else "Triton"
        if self.language not in ("", spoken):
            facts = {"kernel": kernel.__name__, "language": spoken, "decorator": DECORATORS[spoken]}
            facts |= {"asked": self.language, "instead": DECORATORS[self.language]}
            raise Refused(say("replay.log.language", **facts))

    def _tuning(self, how: Any, arguments: Mapping[str, Any]) -> Tuning | None:
        """The tuner's work between two runs of a launch, as the log tells it."""
        match how:
            case None:
                return None
            case {
                "zeroed": list(zeroed),
                "restored": list(restored),
                "settings": list(settings),
                "before": list(events),
            }:
                for name in (*zeroed, *restored):
                    if not isinstance(arguments.get(name), torch.Tensor):
                        raise Refused(say("replay.log.reset", tensor=name))
            case _:
                raise WireError("this is not how a launch is tuned")

        def prepare() -> None:
            operations, self.operations = self.operations, []
            for event in events:
                if "op" in event:
                    self.perform(event)
            self.operations = operations

        return Tuning(zeroed, restored, prepare, settings)

    def operation(self, event: Mapping[str, Any]) -> tuple[str, torch._ops.OpOverload]:
        """Return the torch operation of an event, by name. Raises Refused if this function may not use it."""
        namespace, name, overload = [*event["op"].split("."), "default"][:3]
        own = [a for a in event["args"][:1] if isinstance(a, dict) and ":" not in a.get("tensor", ":")]
        fills = event["op"] in FILLS and own
        if namespace != "aten" or not (name in ALLOCATIONS | self.allows or fills):
            raise Refused.of(name, self._may_not(name))
        operation = getattr(getattr(torch.ops.aten, name), overload, None)
        if not isinstance(operation, torch._ops.OpOverload):
            raise Refused(say("replay.log.no_operation", operation=event["op"]))
        if operation._schema.is_mutable and name in ALLOCATIONS:
            raise Refused(say("replay.log.into", operation=name))
        return name, operation

    def _may_not(self, name: str) -> Message:
        """Say what this function may ask of torch, and that it asks for an operation besides."""
        what = IN_WORDS.get(name, name)
        if len(self.allows) > 3:
            return say("replay.log.allows_many", what=what)
        if self.allows:
            allowed = [IN_WORDS.get(each, each) for each in sorted(self.allows)]
            return say("replay.log.allows", allowed=allowed, what=what)
        return say("replay.log.allocates", what=what)

    def decode(self, value: Any) -> Any:
        """Decode a value of the log to an object of this process."""
        match value:
            case None | bool() | int() | float() | str():
                return value
            case {"tensor": str(identity)}:
                if identity not in self.storages:
                    raise Refused(say("replay.log.early_tensor"))
                if ":" not in identity:
                    self.used[identity] = self.storages[identity].nbytes()
                self.halves.used(identity, self.names.get(identity, ""), self.storages[identity].nbytes(), value)
                return view(self.storages[identity], value)
            case {"tuple": list(items), "fields": list(fields)}:
                return namedtuple("Fields", map(str, fields))(*map(self.decode, items))
            case {"tuple": list(items)}:
                return tuple(self.decode(v) for v in items)
            case {"list": list(items)}:
                return [self.decode(v) for v in items]
            case {"dict": dict(items)}:
                return {k: self.decode(v) for k, v in items.items()}
            case {"dtype": str(name)} if name in DTYPES:
                return DTYPES[name]
            case {"device": _}:
                return self.device
            case {"layout": "strided"}:
                return torch.strided
            case {"memory_format": "contiguous_format" | "preserve_format" | "channels_last" as name}:
                return getattr(torch, name)
            case {"float": "nan" | "inf" | "-inf" as name}:
                return float(name)
            case {"tl.dtype": str(name)}:
                return next(d for d in vars(tl).values() if isinstance(d, tl.dtype) and d.name == name)
            case {"kernel": str(key)} if key in self.kernels:
                return self.kernels[key]
            case {"gluon descriptor": base, "fields": dict(fields)}:
                try:
                    return layouts.descriptor(self.decode(base), fields)
                except ValueError as error:
                    raise Refused(say("replay.log.descriptor", problem=message_of(error))) from None
            case {"gluon layout": data}:
                return layouts.rebuilt(data)
            case {"descriptor": base, "shape": shape, "strides": strides, "block_shape": block_shape}:
                padding: dict[str, Any] = {"padding": "nan"} if value.get("padding") == "nan" else {}
                return TensorDescriptor(self.decode(base), shape, strides, block_shape, **padding)
            case {"unsupported": str(what)}:
                raise Refused(say("replay.log.unsupported", what=what))
        raise WireError(f"not a value: {str(value)[:100]}")


def _storages_of(value: Any, name: str):
    """(storage id, name) of every tensor in a result: out, or out[0], out[1], ... for a tuple."""
    match value:
        case {"tensor": str(identity)}:
            yield identity, name
        case {"tuple": list(items)} | {"list": list(items)}:
            for k, item in enumerate(items):
                yield from _storages_of(item, f"{name}[{k}]")


def replay(
    log: Mapping[str, Any],
    inputs: Sequence[dict[str, Any]],
    *,
    case: str,
    allows: Collection[str] = (),
    language: str = "Triton",
    launched: list[ToCompile] | None = None,
    work: Work | None = None,
) -> Replay:
    """Run a case's log on `inputs` (one dict of arguments per call), traced; return the Replay. Kernels in Gluon are simulated.

    What the last call launched is added to `launched`, for the compiler, and of earlier calls what a tuner launched.
    work: what its kernels may still do.

    >>> from tritontrace.replay import record
    >>> def copied(x):
    ...     out = torch.empty_like(x)
    ...     _ = copy[(4,)](x, out, x.numel(), BLOCK=256)
    ...     return out
    >>> again = replay(record(copied, [{"x": x}]), [{"x": x + 1}], case="ones")  # on other data
    >>> again.outputs[0].equal(x + 1), again.launches[0].kernel, again.faults
    (True, 'copy', [])
    """
    evidence = Replay(case)
    untouched = [{k: _bytes(v) for k, v in call.items()} for call in inputs]
    try:
        tape = Tape(log, allows=allows, language=language)
        evidence.configurations = tape.configurations
        given = [tensor for index, call in enumerate(inputs) for _, _, tensor in tensors_of(index, call)]
        with opened(_launcher_for(language, case, given, work)) as t:
            tape.named = t.name
            results, before = [], []
            for index, arguments in enumerate(inputs):
                first, before = len(t.launches), [*before, *tape.launched]
                tape.bind(index, arguments)
                results.append(tape.run(index))
        ran = [number for number in range(first, len(t.launches)) if all(t.launches[number].grid)]
        for number, phase in zip(ran, tape.halves.phases, strict=True):
            t.launches[number].phase = phase
        evidence.launches = [t.launches[number] for number in ran]
        evidence.idle = len(t.launches) - first - len(ran)
        evidence.saved = None if tape.halves.saved is None else list(tape.halves.saved.values())
        evidence.ready = tape.halves.ready
        faults = t.fault_log.with_equal_values()  # cases have few data
        reached = any(fault.kind == "undefined" for fault in faults)  # Evidence.poisoned says it
        evidence.faults = [fault for fault in faults if fault.kind != "undefined"]
        evidence.outputs = [_copied(result) for result in results]
        evidence.strides = [_strides(result) for result in results]
        evidence.operations = tape.operations
        spare = spare_bytes(tape, results[-1])
        evidence.largest_buffer, evidence.buffers = max(spare, default=0), sum(spare)
        for index, call in enumerate(inputs):
            for name, value in call.items():
                if _bytes(value) != untouched[index][name]:
                    sentence = say("trace.value.input_changed_by_torch", tensor=name)
                    evidence.faults.append(Fault("input changed", sentence, tensor=name))
        evidence.poisoned = [f"kernel `{name}`, line {line}" for name, line in sorted(t.poisoned) if reached]
        evidence.kernels = sorted(kernels.with_helpers(tape.keys, log["kernels"]))
        if launched is not None:
            fronts = zip([*before, *tape.launched], t.fronts, strict=True)
            for number, ((key, arguments, by_tuner), front) in enumerate(fronts):
                if number >= len(before) or by_tuner:
                    launched.append(ToCompile(key, front, arguments, case, by_tuner, spare=number < len(before)))
    except Refused as refusal:
        evidence.refused, evidence.cause = refusal.message, refusal.cause
        if isinstance(refusal, ReturnsInput):
            evidence.outputs = [_copied(refusal.result)]
    except KernelFault as fault:
        evidence.faults = [*t.faults, fault.fault] if fault.fault not in t.faults else list(t.faults)
        evidence.error, evidence.cause = fault.message, fault.fault.cause
    except Hazardous as found:
        evidence.hazards = found.hazards
        evidence.error, evidence.cause = found.message, found.hazards[0].cause
    except KernelError as error:
        kind = "compiler" if isinstance(error, Uncompilable) else "stopped"
        evidence.error, evidence.cause = error.message, Cause(kind, details={"message": str(error)})
        if isinstance(error, Uncompilable):
            sentence = say("compiler.refusal.of_all_gpus", refusal=error.message)
            evidence.compiled = [Compiled(error.kernel, "", False, sentence, cases=[case])]
    except Exception as error:  # a log that does not fit together, or an allocation too large
        words = str(error)[:200]
        evidence.error = say("replay.log.not_repeated", exception=type(error).__name__, words=words)
        evidence.cause = Cause("raised", details={"exception": type(error).__name__, "message": words})
    return evidence


def _launcher_for(language: str, case: str, given: list[torch.Tensor], work: Work | None) -> Launcher:
    """The launcher that takes an answer's launches. Its inputs are not to be written."""
    if language == "Gluon":
        from tritontrace.hopper.orders import orders_of  # which an older Triton lacks
        from tritontrace.hopper.simulation import EveryOrder

        return EveryOrder(orders_of(case), inputs=given, work=work)
    return Launcher(Recorded(inputs=given), work=work)


def _configuration(kernel: JITFunction, settings: Sequence[str], given: Mapping[str, Any]) -> str:
    """A tuner's configuration in words, of what it gives that is a number or a word."""
    values = [(name, given[name]) for name in settings if type(given.get(name)) in (bool, int, float, str)]
    pairs = ", ".join(f"{name}={value}" for name, value in values)
    return f"`{kernel.__name__}` with the configuration {pairs}"[:MOST_LETTERS]


def _operation(name: str, arguments: list[Any], results: Any) -> Operation:
    given, made = (list(_tensors_in(list(values))) for values in (arguments, [results]))
    dtypes = [str(tensor.dtype).removeprefix("torch.") for tensor in made]
    return Operation(name, [list(tensor.shape) for tensor in given], list(made[0].shape) if made else [], dtypes)


def spare_bytes(tape: Tape, result: Any) -> list[int]:
    """List the size of each storage that the last call allocated, or used without being given it, in bytes; of an output only what exceeds
    the elements that are returned."""
    returned = Counter()
    for tensor in _tensors_in(result):
        returned[tensor.untyped_storage()._cdata] += tensor.nbytes
    return [max(0, n - returned[tape.storages[i]._cdata]) for i, n in (tape.allocated | tape.used).items()]


def _tensors_in(result: Any) -> Iterator[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        yield result
    elif isinstance(result, (list, tuple)):
        for part in result:
            yield from _tensors_in(part)


# trap: texts that differ in which numbers are 1 are compiled once: a stride of 1 makes a text of its own
def compile_launched(launched: Sequence[ToCompile], gpus: Sequence[str], seconds: float) -> list[Compiled]:
    """Compile each evaluated kernel to the end for the newest GPU, the last of `gpus`; of older ones ask whether they accept it.

    Of several launches of one kernel the last counts; performance cases, and the low precisions among them, come last.
    The oldest GPU, which has the least shared memory, is also asked about the launch with the largest constants. Nobody is asked
    whether an older GPU accepts what surely fits into its shared memory: the newest one's compiler has the same objections.

    >>> from tritontrace.replay import record
    >>> launched = []
    >>> log = record(lambda x: copy[(1,)](x, x, 8, BLOCK=16), [{"x": x}])
    >>> _ = replay(log, [{"x": x}], case="in place", launched=launched)
    >>> [(found.kernel, found.gpu, found.accepted) for found in compile_launched(launched, ["sm_90"], seconds=60)]
    [('copy', 'sm_90', True)]
    """
    every, launched = launched, [one for one in launched if not one.spare]
    *older, newest = gpus
    last = {one[0]: one for one in launched}
    largest = {one[0]: one for one in sorted({_set(one): one for one in launched}.values(), key=_size)}
    more = [
        (one, newest if _for_hopper(one) else gpus[0]) for key, one in largest.items() if _size(one) > _size(last[key])
    ]
    whole = [(one, newest, True) for one in last.values()]  # first: it has more to tell, if time runs out
    asked, sure = [], []
    for one in last.values():
        for gpu in () if _for_hopper(one) else older:  # an older GPU has none of Hopper's instructions
            if fits.surely(one[1], gpu):
                sure.append((one, gpu))
            else:
                asked.append((one, gpu, False))
    more = [(one, gpu, False) for one, gpu in more if _for_hopper(one) or not fits.surely(one[1], gpu)]
    wanted, cases = [*whole, *asked, *more], _cases(launched)
    found = _compiled(wanted, seconds)
    first, end = len(whole), len(whole) + len(asked)
    by_looking = [_fitting(one[1], gpu) for one, gpu in sure]
    for fact, (one, *_) in zip([*found, *by_looking], [*wanted, *sure], strict=True):
        fact.cases = cases[_set(one)]
    facts = found[first:end] + by_looking + found[:first] + [known for known in found[end:] if not known.too_slow]
    return _with_a_tuners_choice(facts, every, seconds)


# trap: the compiler is asked about the largest constants of each kernel, and about others that fits.py does not prove
# to fit into shared memory: constants differ in nothing else that it could refuse
def compile_every(
    by_answer: Sequence[Sequence[ToCompile]],
    gpus: Sequence[str],
    seconds: float,
    reported: Collection[int] = (),
    compiler: Compiler = compile_all,
) -> list[list[Compiled]]:
    """Compile every set of dtypes and constants with which each answer launched a kernel, for each of `gpus`, the oldest first.

    The compiler is asked whether it accepts each set but those that need no asking: a set with smaller constants than another one
    of its kernel, which fits into the shared memory whatever the compiler does (compiled/fits.py). The other facts are found only
    where that takes compiling to the end (see compiled/lower.py), and for the newest GPU of the answers in `reported`, which are
    numbers of them. What is not compiled in time counts as refused. compiler: compile_all, or another that is asked as it is.
    Raises ValueError if several answers together take too long, since it may be the fault of one.

    >>> from tritontrace.replay import record
    >>> launched = []
    >>> log = record(lambda x: copy[(1,)](x, x, 8, BLOCK=16), [{"x": x}])
    >>> _ = replay(log, [{"x": x}], case="in place", launched=launched)
    >>> nothing, one = compile_every([[], launched], ["sm_90"], seconds=60)
    >>> nothing, [found.accepted for found in one]
    ([], [True])
    """
    oldest, *newer = gpus
    every, by_answer = by_answer, [[one for one in launched if not one.spare] for launched in by_answer]
    sets = [{_set(one): one for one in launched} for launched in by_answer]
    wanted = [(index, key) for index, chosen in enumerate(sets) for key in chosen]
    for_hopper = [(index, key) for index, key in wanted if _for_hopper(sets[index][key])]
    wanted = [each for each in wanted if each not in for_hopper]

    def ask(of: Sequence[tuple[int, Key]], on: Sequence[str]) -> list[tuple[int, Key, Compiled]]:
        jobs = [(index, key, gpu) for index, key in of for gpu in on]
        wanted = [(sets[i][key], gpu, i in reported and gpu == gpus[-1]) for i, key, gpu in jobs]
        answers = _compiled(wanted, seconds, compiler)
        return [(index, key, fact) for (index, key, _), fact in zip(jobs, answers, strict=True)]

    largest = [{one[0]: key for key, one in sorted(chosen.items(), key=lambda each: _size(each[1]))} for chosen in sets]
    sure = {  # in the order in which they are wanted
        (index, key): None
        for index, key in wanted
        if index not in reported and key != largest[index][key[0]] and fits.surely(sets[index][key][1], oldest)
    }
    found = [(i, key, _fitting(sets[i][key][1], gpu)) for i, key in sure for gpu in gpus]
    first = ask([each for each in wanted if each not in sure], [oldest])
    found += first
    for gpu in newer:
        asked = [each for each in first if each[0] not in reported]
        safe = [(i, key, known) for i, key, known in asked if _safe_to_assume(known, sets[i][key][1], gpu)]
        found += [(i, key, replace(known, gpu=gpu, shared_limit=0)) for i, key, known in safe]
        assumed = {(i, key) for i, key, _ in safe}
        found += ask([(i, key) for i, key, _ in first if (i, key) not in assumed], [gpu])
    found += ask(for_hopper, gpus[-1:])
    if len(by_answer) > 1 and any(fact.too_slow for _, _, fact in found):
        raise ValueError(say("compiler.failure.too_slow_together", seconds=seconds))
    cases, facts = [_cases(launched) for launched in by_answer], [[] for _ in by_answer]
    for index, key, fact in found:
        # who compiles every kernel takes none on trust: one that compiles for ever could hide what does not compile at all
        facts[index].append(replace(fact, cases=cases[index][key], too_slow=False))
    return [_with_a_tuners_choice(of, launched, seconds) for of, launched in zip(facts, every, strict=True)]


def _with_a_tuners_choice(facts: list[Compiled], launched: Sequence[ToCompile], seconds: float) -> list[Compiled]:
    """Mark those facts as left out that say that a tuner's configuration needs too much shared memory, where another one fits."""
    for fact in facts:
        mine = [one for one in launched if one.tuned and one.front.kernel.fn.__name__ == fact.kernel]
        if fact.accepted or not mine or not 0 < fact.shared_limit < fact.shared_bytes:
            continue
        fits_otherwise = any(other.accepted and (other.kernel, other.gpu) == (fact.kernel, fact.gpu) for other in facts)
        others = {_set(one): one for one in mine if one.spare}
        fact.left_out = fits_otherwise or any(
            found.accepted for found in _compiled([(one, fact.gpu, False) for one in others.values()], seconds)
        )
    return facts


def _fitting(front: Front, gpu: str) -> Compiled:
    """The facts of a kernel of which the compiler was not asked."""
    return Compiled(front.kernel.fn.__name__, gpu, True, shared_bytes=fits.most_shared_bytes(front), to_the_end=False)


# trap: only the newest GPU's code is made to the end, and asked for first; of older ones acceptance counts, which takes
# a fifth of the time
def _compiled(
    wanted: Sequence[tuple[ToCompile, str, bool]], seconds: float, compiler: Compiler = compile_all
) -> list[Compiled]:
    """The facts of each launch on a GPU, all within `seconds`; False: only whether it is accepted."""
    return compiler([(one[1], (), one[2], gpu, to_the_end) for one, gpu, to_the_end in wanted], seconds)


def _cases(launched: Sequence[ToCompile]) -> dict[Hashable, list[str]]:
    """The names of the cases in which each set was launched."""
    found: dict[Hashable, dict[str, None]] = {}
    for one in launched:
        found.setdefault(_set(one), {})[one.case] = None
    return {key: list(names) for key, names in found.items()}


def _set(launched: ToCompile) -> Key:
    """A key for what the compiler is asked: a kernel, its dtypes, constants and options.

    Which numbers happen to be 1 is left out, although each such set makes a text of its own: there may be many texts,
    and the compiler has the same objections to all of them.
    """
    key, front, arguments, *_ = launched
    constants = {p.name for p in front.kernel.params if p.is_constexpr}
    types = [repr(v) if n in constants else _type_of(v) for n, v in arguments.items()]
    return key, tuple(types), tuple(front.options.items())


def _type_of(value: Any) -> str:
    """The type that the compiler sees of an argument that is not a constant."""
    if is_descriptor(value):
        return f"{value.base.dtype} {value.block_shape} {getattr(value, 'layout', '')}"
    if isinstance(value, (list, tuple)):
        return repr([_type_of(v) for v in value])
    return str(getattr(value, "dtype", type(value)))


def _for_hopper(launched: ToCompile) -> bool:
    """Whether it is in Gluon, in which a kernel says for which GPU it is."""
    return kernels.is_gluon(launched[1].kernel)


def _size(launched: ToCompile) -> int:
    """The product of a launch's whole constants, which is roughly the size of its blocks."""
    _, front, arguments, *_ = launched
    constants = (arguments.get(p.name) for p in front.kernel.params if p.is_constexpr)
    return math.prod(max(1, value) for value in constants if isinstance(value, int))


def _safe_to_assume(known: Compiled, front: Front, gpu: str) -> bool:
    """Whether a newer GPU will accept this, too. It may need more shared memory: the operands of its products lie there."""
    return not known.to_the_end and (4 * known.shared_bytes <= known.shared_limit or fits.surely(front, gpu))


def _copied(value: Any) -> Any:
    """A result as plain data: tensors contiguous and alone in their storage."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone(memory_format=torch.contiguous_format)
    if isinstance(value, (list, tuple)):
        return [_copied(v) for v in value]
    return value


def _strides(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return list(value.stride())
    return [_strides(v) for v in value] if isinstance(value, (list, tuple)) else None


def _bytes(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return storage_bytes(value.untyped_storage()).numpy().tobytes()
    if isinstance(value, (list, tuple)):
        return [_bytes(v) for v in value]
    return value
