"""Replay: rebuild the student's kernels alone and run a recorded log on fresh inputs.

No host code of the student's runs here. A torch operation runs only if it allocates, or if the exercise allows it.
`Tape` is the part that tracing on the CPU and timing on a GPU share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from course_lib.compiled import compile_all
from course_lib.exercise import Compiled, Evidence, Fault
from course_lib.observe import kernels
from course_lib.observe.wire import DTYPES, WireError, storage_bytes, tensors_of, view
from course_lib.tracing import KernelError, KernelFault, trace

ALLOCATIONS = frozenset(
    [
        "empty",
        "empty_like",
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
IN_WORDS = {"_to_copy": "a cast or copy (.to, .half, .contiguous)", "clone": "a copy (.clone or .contiguous)"}
IN_WORDS |= {"lift_fresh": "a tensor made of values from outside (torch.tensor, torch.from_numpy)"}
IN_WORDS |= {"copy_": "a copy (.copy_)", "_local_scalar_dense": "reading a tensor's value on the host (.item)"}
Launched = tuple[Any, dict[str, Any], dict[str, Any]]  # a kernel, its arguments, its options
MAX_BYTES = 4 << 30


class Refused(ValueError):
    """The log holds something that this exercise does not allow. The message is one sentence."""


class Tape:
    """A log bound to inputs on one device: `run(call)` performs a call's events and returns its result."""

    def __init__(self, log: Mapping[str, Any], device: str = "cpu", allows: Collection[str] = ()) -> None:
        self.log, self.device, self.allows = log, torch.device(device), frozenset(allows)
        self.storages: dict[str, torch.UntypedStorage] = {}
        self.operations: list[str] = []
        self.launched: list[Launched] = []
        self.keys: list[str] = []  # of the kernels launched, in all calls
        self.allocated: dict[str, int] = {}
        self.made: dict[int, list[str]] = {}  # call -> storages that its last run allocated
        self.outputs: dict[str, str] = {}  # storage id -> name, of the call that runs
        self.named: Callable[[str, torch.Tensor], None] = lambda name, tensor: None
        try:
            self.kernels = kernels.rebuild(log["kernels"])
        except kernels.KernelRefused as refusal:
            raise Refused(str(refusal)) from None

    def bind(self, call: int, arguments: Mapping[str, Any]) -> None:
        """Give the arguments of a call their storages."""
        for identity, name, tensor in tensors_of(call, arguments):
            self.storages[identity] = tensor.untyped_storage()
            self.named(name, tensor)

    def run(self, call: int) -> Any:
        entry = self.log["calls"][call]
        for identity in self.made.pop(call, ()):  # what an earlier run of this call allocated is gone
            self.storages.pop(identity, None)
        self.operations, self.allocated, self.launched = [], {}, []
        self.outputs = dict(_storages_of(entry["result"], "out"))
        for event in entry["events"]:
            self.perform(event)
        self.made[call] = list(self.allocated)
        inputs = [identity.partition(":")[2] for identity in self.outputs if ":" in identity]
        if inputs:
            raise Refused(f"the function returns its input `{inputs[0]}`, or a view of it, not a result of its own")
        return self.decode(entry["result"])

    def perform(self, event: Mapping[str, Any]) -> None:
        if "launch" in event:
            kernel = self.kernels.get(event["launch"])
            if kernel is None:
                raise Refused("the log launches a kernel that it does not hold")
            arguments = {name: self.decode(value) for name, value in event["arguments"].items()}
            options = {name: self.decode(value) for name, value in event["options"].items()}
            self.launched.append((kernel, arguments, options))
            self.keys.append(event["launch"])
            if all(event["grid"]):
                kernel[tuple(event["grid"])](**arguments, **options)
            return
        namespace, name, overload = (event["op"].split(".") + ["default"])[:3]
        if namespace != "aten" or name not in ALLOCATIONS | self.allows:
            raise Refused(
                f"inside this function torch may only allocate and make views; it also does {IN_WORDS.get(name, name)}"
            )
        operation = getattr(getattr(torch.ops.aten, name), overload, None)
        if not isinstance(operation, torch._ops.OpOverload):
            raise Refused(f"there is no torch operation {event['op']}")
        wanted = sum(math.prod(spec["size"]) * DTYPES[spec["dtype"]].itemsize for spec in event["out"])
        if wanted > MAX_BYTES:
            raise Refused(f"the function allocates {wanted / 2**30:.1f} GiB at once; {MAX_BYTES >> 30} are allowed")
        results = operation(
            *[self.decode(a) for a in event["args"]], **{k: self.decode(v) for k, v in event["kwargs"].items()}
        )
        if name not in ALLOCATIONS:
            self.operations.append(name)
        for spec, tensor in zip(
            event["out"], results if isinstance(results, (list, tuple)) else [results], strict=True
        ):
            identity = spec["tensor"]
            if identity not in self.storages:
                self.storages[identity] = tensor.untyped_storage()
                self.allocated[identity] = tensor.untyped_storage().nbytes()
                if "empty" in name and self.device.type == "cpu":
                    # all bits set is NaN in every float: what no kernel stores must not be right by luck. Past
                    # torch, so that the trace still counts the tensor as never written.
                    storage_bytes(tensor.untyped_storage()).numpy().fill(0xFF)
                self.named(self.outputs.get(identity, f"buffer {len(self.allocated)}"), tensor)

    def decode(self, value: Any) -> Any:
        """A value of the log as an object of this process."""
        match value:
            case None | bool() | int() | float() | str():
                return value
            case {"tensor": str(identity)}:
                if identity not in self.storages:
                    raise Refused("the log uses a tensor before it exists")
                return view(self.storages[identity], value)
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
            case {"descriptor": base, "shape": shape, "strides": strides, "block_shape": block_shape}:
                return TensorDescriptor(self.decode(base), shape, strides, block_shape)
            case {"unsupported": str(what)}:
                raise Refused(f"the function uses {what}")
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
    launched: list[Launched] | None = None,
) -> Evidence:
    """Run a case's log on `inputs` (one dict of arguments per call), traced; return the Evidence.

    What the last call launched is added to `launched`, for the compiler.
    """
    evidence = Evidence(case)
    untouched = [{k: _bytes(v) for k, v in call.items()} for call in inputs]
    try:
        tape = Tape(log, allows=allows)
        with trace() as t:
            tape.named = t.name
            results = []
            for index, arguments in enumerate(inputs):
                first = len(t.launches)
                tape.bind(index, arguments)
                results.append(tape.run(index))
        evidence.launches = t.launches[first:]
        evidence.faults = list(t.faults)
        evidence.outputs = [_copied(result) for result in results]
        evidence.operations = tape.operations
        evidence.largest_buffer = max((n for i, n in tape.allocated.items() if i not in tape.outputs), default=0)
        for index, call in enumerate(inputs):
            for name, value in call.items():
                if _bytes(value) != untouched[index][name]:
                    sentence = f"the function changed its input `{name}`; write to a tensor of its own"
                    evidence.faults.append(Fault("input changed", sentence, tensor=name))
        evidence.poisoned = [f"kernel `{kernel}`, line {line}" for kernel, line in sorted(t.poisoned)]
        evidence.kernels = sorted(set(tape.keys))
        if launched is not None:
            launched += tape.launched
    except Refused as refusal:
        evidence.refused = str(refusal)
    except KernelFault as fault:
        evidence.faults = [*t.faults, fault.fault] if fault.fault not in t.faults else list(t.faults)
        evidence.error = str(fault)
    except KernelError as error:
        evidence.error = str(error)
    except Exception as error:  # a log that does not fit together, or an allocation too large
        evidence.error = f"the recorded calls cannot be repeated ({type(error).__name__}: {str(error)[:200]})"
    return evidence


def compile_launched(
    launched: Sequence[Launched], gpus: Sequence[str], seconds: float, *, every: bool
) -> list[Compiled]:
    """Compile what was launched for each of `gpus`: every set of dtypes and constants, or each kernel once.

    Of several launches of one kernel the last counts; performance cases, and the low precisions among them, come last.
    """
    chosen: dict[Any, Launched] = {}
    for kernel, arguments, options in launched:
        key = kernel.src
        if every:
            constants = {p.name for p in kernel.params if p.is_constexpr}
            types = [repr(v) if n in constants else str(getattr(v, "dtype", type(v))) for n, v in arguments.items()]
            key = (key, tuple(types), repr(options))
        chosen[key] = (kernel, arguments, options)
    jobs = [(kernel, (), arguments | options, gpu) for kernel, arguments, options in chosen.values() for gpu in gpus]
    return compile_all(jobs, seconds)


def _copied(value: Any) -> Any:
    """A result as plain data: tensors contiguous and alone in their storage."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone(memory_format=torch.contiguous_format)
    if isinstance(value, (list, tuple)):
        return [_copied(v) for v in value]
    return value


def _bytes(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return storage_bytes(value.untyped_storage()).numpy().tobytes()
    if isinstance(value, (list, tuple)):
        return [_bytes(v) for v in value]
    return value
