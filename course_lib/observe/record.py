"""Record: call the student's function and write down, as plain data, what it did.

The log of one case is a tree (see wire.py):

    kernels   key -> {name, source, names, annotations}                        (kernels.py)
    calls     one per call: {events, result, error, where}
      event   {"op": "aten.add.Tensor", "args": [...], "kwargs": {...}, "out": [...]}
              {"launch": key, "grid": [x, y, z], "arguments": {...}, "options": {...}}

Values in a log are numbers, strings, None, and small dicts, one key naming the kind:
    {"tensor": storage id, dtype, size, stride, offset}   {"tuple": [...]}   {"list": [...]}   {"dtype": "float32"}
    {"device": "cpu"}   {"kernel": key}   {"descriptor": ...}   {"unsupported": "numpy.ndarray"}
A storage id is "0:x" for the argument x of call 0, and "n" for the n-th allocation. Views need no events: a tensor is
its storage and a layout, however the student made it. Kernels are not run while recording; only what
the host does counts here.
"""

from __future__ import annotations

import inspect
import linecache
import math
import re
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from numbers import Rational
from types import SimpleNamespace
from typing import Any

import torch
import torch._dynamo  # noqa: F401  torch's modes import it at first use; here it is paid once, before any fork
import triton
import triton.language as tl
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction
from triton.tools.tensor_descriptor import TensorDescriptor

from course_lib import gpu
from course_lib.compiled import OPTIONS
from course_lib.observe import kernels
from course_lib.observe.calls import CALLS
from course_lib.observe.wire import layout, tensors_of
from course_lib.tracing import hooks

MAX_EVENTS = 2_000


class RecordError(ValueError):
    """The function did something that no log can hold. The message is one sentence."""


class _Storages:
    """Ids for the storages seen so far; it holds them, so that no address is given out twice."""

    def __init__(self) -> None:
        self.ids: dict[int, str] = {}
        self.held: list[torch.UntypedStorage] = []

    def add(self, tensor: torch.Tensor, name: str | None = None) -> None:
        storage = tensor.untyped_storage()
        if storage._cdata not in self.ids:
            self.ids[storage._cdata] = name or str(len(self.held))
            self.held.append(storage)

    def knows(self, tensor: torch.Tensor) -> bool:
        return tensor.untyped_storage()._cdata in self.ids

    def value(self, tensor: torch.Tensor) -> dict[str, Any]:
        if not self.knows(tensor):
            return {"unsupported": "a tensor that was neither passed to the function nor made by torch inside it"}
        return {"tensor": self.ids[tensor.untyped_storage()._cdata]} | layout(tensor)


class _OnTheCpu(TorchFunctionMode):
    """A device named in the student's code becomes the CPU, and `assert x.is_cuda` holds: recording needs no GPU,
    whatever the code says."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if kwargs.get("device") is not None and torch.device(kwargs["device"]).type != "meta":
            kwargs["device"] = "cpu"
        if function is torch.Tensor.cuda:
            return args[0]
        if function == torch.Tensor.is_cuda.__get__:
            return True
        if function is torch.Tensor.to and len(args) > 1 and isinstance(args[1], (str, torch.device)):
            args = (args[0], args[1] if torch.device(args[1]).type == "meta" else "cpu", *args[2:])
        return function(*args, **kwargs)


@contextmanager
def _without_cuda() -> Iterator[None]:
    """What code written for a GPU says to the driver around its launches means nothing here, and must not fail."""
    names = {
        "device": lambda device: nullcontext(),
        "set_device": lambda device: None,
        "synchronize": lambda device=None: None,
    }
    if not torch.cuda.is_available():
        planned_for = gpu.assumed()
        properties = SimpleNamespace(name=planned_for.name, multi_processor_count=planned_for.sms)
        names |= {"current_device": lambda: 0, "get_device_properties": lambda device=None: properties}
    before = {name: getattr(torch.cuda, name) for name in names}
    drivers = dict(vars(triton.runtime.driver))
    try:
        for name, stand_in in names.items():
            setattr(torch.cuda, name, stand_in)
        if not torch.cuda.is_available():
            triton.runtime.driver.set_active(_driver(planned_for))
        yield
    finally:
        vars(triton.runtime.driver).update(drivers)
        for name, original in before.items():
            setattr(torch.cuda, name, original)


def _driver(planned_for: gpu.GPU) -> SimpleNamespace:
    """What Triton's tutorials ask its driver, answered as on that GPU."""
    properties = {
        "multiprocessor_count": planned_for.sms,
        "max_num_regs": planned_for.registers_per_sm,
        "max_shared_mem": planned_for.shared_bytes_per_block,
        "warpSize": 32,
    }
    return SimpleNamespace(
        get_active_torch_device=lambda: torch.device("cpu"),  # where tensors are when this is asked
        get_current_device=lambda: 0,
        get_current_target=lambda: GPUTarget("cuda", int(planned_for.architecture.removeprefix("sm_")), 32),
        utils=SimpleNamespace(get_device_properties=lambda device=0: dict(properties)),
    )


@contextmanager
def _for_a_gpu() -> Iterator[None]:
    """Code written for a GPU runs here without one."""
    with _OnTheCpu(), _without_cuda():
        yield


class _Recorder(TorchDispatchMode):
    """Sees every torch operation of this thread below autograd, and every launch."""

    def __init__(self) -> None:
        super().__init__()
        self.storages = _Storages()
        self.kernels: dict[str, dict[str, Any]] = {}
        self.events: list[dict[str, Any]] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        before = [self.encode(a) for a in args], {k: self.encode(v) for k, v in (kwargs or {}).items()}
        out = function(*args, **(kwargs or {}))
        tensors = [t for t in (out if isinstance(out, (list, tuple)) else [out]) if isinstance(t, torch.Tensor)]
        is_view = tensors and all(self.storages.knows(t) for t in tensors) and not function._schema.is_mutable
        if not is_view:
            for tensor in tensors:
                self.storages.add(tensor)
            self._write(
                {"op": str(function), "args": before[0], "kwargs": before[1], "out": [self.encode(t) for t in tensors]}
            )
        return out

    def launch(self, kernel: JITFunction, args: Sequence[Any], grid: Any, kwargs: dict[str, Any]) -> None:
        # of what Triton takes beside the kernel's parameters, only what shapes the code is worth repeating
        options = {k: v for k, v in kwargs.items() if k in OPTIONS}
        parameters = inspect.signature(kernel.fn)
        try:
            bound = parameters.bind(*args, **{k: v for k, v in kwargs.items() if k not in hooks.LAUNCH_OPTIONS})
        except TypeError as error:
            raise RecordError(f"the launch of {kernel.__name__} does not fit its parameters: {error}") from None
        bound.apply_defaults()
        try:
            grid = hooks.grid_of(kernel.__name__, grid, dict(bound.arguments))
        except hooks.KernelError as error:
            raise RecordError(str(error)) from None
        self._write(
            {
                "launch": kernels.describe(kernel, self.kernels),
                "grid": list(grid),
                "arguments": {name: self.encode(value) for name, value in bound.arguments.items()},
                "options": {k: self.encode(v) for k, v in options.items()},
            }
        )

    def mark(self) -> None:
        """The forward half of this call ends here."""
        self._write({"mark": "backward"})

    def _write(self, event: dict[str, Any]) -> None:
        if len(self.events) >= MAX_EVENTS:
            raise RecordError(
                f"more than {MAX_EVENTS} torch operations and launches in one call: do more in each, with larger tiles"
            )
        self.events.append(event)

    def encode(self, value: Any) -> Any:
        """A value as it stands in a log."""
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if type(value) in (torch.Tensor, torch.nn.Parameter):
            return self.storages.value(value)
        if isinstance(value, (tuple, torch.Size)):
            return {"tuple": [self.encode(v) for v in value]}
        if type(value) is list:
            return {"list": [self.encode(v) for v in value]}
        if type(value) is dict:
            return {"dict": {str(k): self.encode(v) for k, v in value.items()}}
        if isinstance(value, torch.dtype):
            return {"dtype": str(value).removeprefix("torch.")}
        if isinstance(value, torch.device):
            return {"device": "cpu"}
        if isinstance(value, (torch.layout, torch.memory_format)):
            return {type(value).__name__: str(value).removeprefix("torch.")}
        if isinstance(value, tl.constexpr):
            return self.encode(value.value)
        if isinstance(value, tl.dtype):
            return {"tl.dtype": value.name}
        if isinstance(value, JITFunction):
            return {"kernel": kernels.describe(value, self.kernels)}
        if isinstance(value, TensorDescriptor):
            shapes = {name: list(getattr(value, name)) for name in ("shape", "strides", "block_shape")}
            return {"descriptor": self.encode(value.base)} | shapes
        if isinstance(value, Rational):
            return int(value) if value.denominator == 1 else float(value)
        if hasattr(value, "item") and getattr(value, "shape", None) == () and type(value).__module__ == "numpy":
            return self.encode(value.item())  # numpy scalars are numbers
        if (inspect.ismethod(value) or inspect.isbuiltin(value)) and isinstance(value.__self__, torch.Tensor):
            example = f"x.{value.__name__}({_first_axis(value.__name__)})"
            return {"unsupported": f"the method `{value.__name__}` without calling it; write brackets, as in {example}"}
        return {"unsupported": f"a {type(value).__module__}.{type(value).__name__}".replace("builtins.", "")}


def record(function: Any, calls: Sequence[dict[str, Any]], called: str = "") -> dict[str, Any]:
    """Call `function` once for each dict of arguments; return the log. Nothing the function raises gets out.

    called: see Exercise.
    """
    recorder = _Recorder()
    log: dict[str, Any] = {"kernels": recorder.kernels, "calls": []}
    for index, arguments in enumerate(calls):
        for identity, _, tensor in tensors_of(index, arguments):
            recorder.storages.add(tensor, identity)
        recorder.events = []
        call = {"events": recorder.events, "result": None, "error": ""}
        log["calls"].append(call)
        try:
            with recorder, _for_a_gpu(), _no_warnings(), hooks.launches_go_to(recorder.launch) as traced:
                by = CALLS[called]
                result = by(function, _fresh(arguments), recorder.mark) if callable(function) else function
            if traced and not any("launch" in event for event in recorder.events):
                raise RecordError("a `with trace()` inside the function keeps its launches from the check: take it out")
            call["result"] = recorder.encode(result)
        except (RecordError, kernels.KernelRefused, hooks.KernelError) as error:
            call["error"] = str(error)
        except BaseException as error:  # SystemExit and KeyboardInterrupt of the student's are the student's
            call["error"] = describe_exception(error)
        if call["error"]:
            break
    return log


@contextmanager
def _no_warnings() -> Iterator[None]:
    """None of torch's, which would name lines of this file: the student printed none of it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"course_lib\.")
        yield


def _fresh(value: Any) -> Any:
    """Lists and dicts copied, tensors not: what one call does to its lists is not the next one's business."""
    if isinstance(value, dict):
        return {key: _fresh(v) for key, v in value.items()}
    return [_fresh(v) for v in value] if isinstance(value, list) else value


def take_away(module: str) -> None:
    """Break everything in a module, whoever imported it before: for children that record, who need no torch for what the
    exercise asks."""

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise RecordError(f"uses {module}, which does what this exercise asks you to write")

    def gone(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("this part of torch does what the exercise asks you to write, and is taken away here")

    for name, value in vars(import_module(module)).items():
        if isinstance(value, dict) and not name.startswith("__"):
            value.clear()
        elif getattr(value, "__module__", "") == module and isinstance(value, type):
            value.__init__ = value.__enter__ = refuse
        elif getattr(value, "__module__", "") == module:
            while hasattr(
                value, "__code__"
            ):  # a function, and what it wraps; its code must name the variables it closes over
                value.__code__ = gone.__code__.replace(co_freevars=value.__code__.co_freevars)
                value = getattr(value, "__wrapped__", None)


def describe_exception(error: BaseException) -> str:
    """What went wrong as one sentence, with the line of the student's code nearest to it."""
    frames = [
        f for f in traceback.extract_tb(error.__traceback__) if "/course_lib/" not in f.filename.replace("\\", "/")
    ]
    own = [f for f in frames if "site-packages" not in f.filename and "dist-packages" not in f.filename]
    where = ""
    if own:
        function = "" if own[-1].name == "<module>" else f" of its {_place(own[-1].filename)}, in `{own[-1].name}`"
        where = f", in line {own[-1].lineno}{function}" + (f": `{own[-1].line.strip()}`" if own[-1].line else "")
    message = " ".join(str(error).split())[:300]
    advice = _advice(error, message, own[-1].line or "" if own else "", entered=bool(own))
    return (
        f"raised {type(error).__name__}"
        + (f": {message}" if message else "")
        + where
        + (f". {advice}" if advice else "")
    )


def _first_axis(method: str) -> str:
    return "0" if method in ("stride", "size") else ""


def _place(filename: str) -> str:
    """What a line of code is counted in."""
    return "cell" if filename.startswith("<") or "ipykernel" in filename else "file"


def _advice(error: BaseException, message: str, line: str, entered: bool) -> str:
    """What Python's words do not say to a newcomer. line: of the student's; entered: the error came from within their function."""
    if type(error) is NameError and error.name:
        return f"No cell that was run defines `{error.name}`: run the one that does first, or is it misspelt?"
    if message.startswith("'function' object is not subscriptable"):
        return "Is `@triton.jit` missing above the kernel?"
    if method := re.search(r"\.(stride|size|numel|dim)\[", line):
        return f"`{method[1]}` is a method: call it with round brackets, as in x.{method[1]}({_first_axis(method[1])})."
    if "torch.Size" in message or message.startswith("can only concatenate tuple"):
        return "A shape holds a number for each axis: take one of them, as in x.shape[0]."
    if (called := re.search(r"\btl\.(\w+)\(", line)) and "outside of the scope of a kernel" in message:
        here = f"; here, write triton.{called[1]}" if hasattr(triton, called[1]) else ""
        return f"`tl.{called[1]}` works inside kernels alone{here}."
    if message.startswith("Cannot call @triton.jit'd outside of the scope of a kernel"):
        return "A kernel is launched with its grid in square brackets: kernel[(programs,)](...)."
    if message.startswith("Boolean value of Tensor with more than one value"):
        return "An `if` cannot look at each element of a tensor: torch.where chooses for each."
    if re.search(r"got an unexpected keyword argument|missing \d+ required positional", message) and not entered:
        return "A check passes arguments by name: keep the names of the parameters as the exercise gives them."
    return ""


def load(cells: Sequence[tuple[str, str]], entry: str, *, on_the_cpu: bool = True) -> Any:
    """Execute a program's cells in order in a namespace of their own; return what `entry` names.

    cells: (file name, source). ValueError, with a sentence, if a cell fails or the name is not there.
    """
    scope: dict[str, Any] = {"__name__": "__main__"}
    with _for_a_gpu() if on_the_cpu else nullcontext():
        for name, source in cells:
            linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
            try:
                exec(compile(source, name, "exec", dont_inherit=True), scope)
            except BaseException as error:
                raise ValueError(f"{name.strip('<>')} {describe_exception(error)}") from None
    if entry not in scope:
        raise ValueError(f"no cell defines `{entry}`")
    return scope[entry]
