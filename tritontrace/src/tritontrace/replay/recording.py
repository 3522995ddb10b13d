"""Record: call the author's function and write down, as plain data, what it did.

The log of one case is a tree (see wire.py):

    kernels   key -> {name, source, names, annotations}                        (kernels.py)
    calls     one per call: {events, result, error, cause, unread}
      event   {"op": "aten.add.Tensor", "args": [...], "kwargs": {...}, "out": [...]}   "kept": True of memory from before
              {"launch": key, "grid": [x, y, z], "arguments": {...}, "options": {...}}

Values in a log are numbers, strings, None, and small dicts, one key naming the kind:
    {"tensor": storage id, dtype, size, stride, offset}   {"tuple": [...]}   {"list": [...]}   {"dtype": "float32"}
    {"device": "cpu"}   {"kernel": key}   {"descriptor": ...}   {"unsupported": "numpy.ndarray"}
A storage id is "0:x" for the argument x of call 0, and "n" for the n-th allocation. Views need no events: a tensor is
its storage and a layout, however the author made it. Kernels are not run while recording; only what
the host does counts here.
"""

from __future__ import annotations

import inspect
import linecache
import math
import re
import sys
import sysconfig
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from importlib import import_module
from numbers import Rational
from types import ModuleType
from typing import Any, ClassVar

import torch
import triton
import triton.language as tl
from torch._library.custom_ops import OPDEFS
from torch.utils._python_dispatch import _disable_current_modes
from triton.runtime.jit import JITFunction
from triton.tools.tensor_descriptor import TensorDescriptor

from tritontrace.compiled import OPTIONS
from tritontrace.compiled.warmed import LaunchResult
from tritontrace.messages import Message, MessageError, message_of, say
from tritontrace.replay import kernels, layouts
from tritontrace.replay.replaying import FILLS
from tritontrace.replay.wire import layout, storage_bytes, to_tree
from tritontrace.results import Cause, tensors_of
from tritontrace.tracing.as_on_a_gpu import CPU, CUDA, OnTheCpu, as_on_a_gpu
from tritontrace.tracing.interception import launches_go_to
from tritontrace.tracing.memory import quietly
from tritontrace.tracing.modes import Mode
from tritontrace.tracing.tuning import Tuning, tuning
from tritontrace.ttir.frontend import LAUNCH_OPTIONS, front_of
from tritontrace.ttir.launching import AssertionRefused, KernelError, grid_of, tensors_in, uncompilable
from tritontrace.ttir.sources import TRITON_FOLDER, code_of, functions_of, in_a_cell, jit_function

Mark = Callable[..., int]
Caller = Callable[[Any, dict[str, Any], Mark], Any]

MAX_EVENTS = 2_000
LIBRARY = tuple(f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib"))  # Python's own
# folders, as file names of code have them
NOT_THE_AUTHORS = "/site-packages/", "/dist-packages/", TRITON_FOLDER, *LIBRARY, "<frozen "
TORCHS_OWN = {name.partition("::")[0] for name in torch.library._defs}  # libraries that torch itself makes in Python
NOT_OWN = say("replay.value.not_own")


class RecordError(MessageError, ValueError):
    """Raised, with a message, where the function did something that no log can hold."""


# trap: a view is no event: a tensor is its storage and a layout, since views are made in countless ways
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
            return {"unsupported": NOT_OWN}
        return {"tensor": self.ids[tensor.untyped_storage()._cdata]} | layout(tensor)


class Recorder(Mode):
    """Dispatch mode that logs every torch operation of this thread below autograd, and every launch."""

    def __init__(self) -> None:
        super().__init__()
        self.storages = _Storages()
        self.kernels: dict[str, dict[str, Any]] = {}
        self.events: list[dict[str, Any]] = []
        self.states: dict[bytes, int] = {}
        self.numbers: dict[int, torch.Tensor] = {}  # single numbers that are tensors so far, by id

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.namespace != "aten" and (own := _implementation(function)):
            with self, OnTheCpu():  # torch has closed both for what it takes for one operation
                return own(*args, **(kwargs or {}))
        if taken := next((module for module, does in BELOW.items() if module in _taken and does(str(function))), ""):
            raise RecordError(_by_hand(taken))
        function, args = self._filled_by_a_number(function, args)
        if function == torch.ops.aten.lift_fresh.default and not args[0].shape:  # `x[...] = 0` makes it of the number
            self.numbers[id(args[0])] = args[0]
            return args[0]
        if str(function) in FILLS:
            self._keep(args[0])
        before = [self.encode(a) for a in args], {k: self.encode(v) for k, v in (kwargs or {}).items()}
        random = torch.Tag.nondeterministic_seeded in function.tags
        state = self._state() if random else None
        out = function(*args, **(kwargs or {}))
        tensors = [t for t in (out if isinstance(out, (list, tuple)) else [out]) if isinstance(t, torch.Tensor)]
        is_view = tensors and all(self.storages.knows(t) for t in tensors) and not function._schema.is_mutable
        if not is_view:
            for tensor in tensors:
                self.storages.add(tensor)
            event = {
                "op": str(function),
                "args": before[0],
                "kwargs": before[1],
                "out": [self.encode(t) for t in tensors],
            }
            self._write(event | ({"state": state} if random else {}))
        return out

    def _filled_by_a_number(self, function: Any, args: tuple) -> tuple[Any, tuple]:
        """`x[...] = 0` as a fill by a number; any other operation as it is."""
        if function in (torch.ops.aten.fill_.Tensor, torch.ops.aten.copy_.default) and id(args[1]) in self.numbers:
            return torch.ops.aten.fill_.Scalar, (args[0], args[1].item())
        return function, args

    def _made_of_a_number(self, tensor: torch.Tensor) -> None:
        """Log a single number that is used as the tensor that it is."""
        if self.numbers.pop(id(tensor), None) is not None:
            self.storages.add(tensor)
            made = {"op": "aten.lift_fresh.default", "args": [{"unsupported": NOT_OWN}], "kwargs": {}}
            self._write(made | {"out": [self.storages.value(tensor)]})

    def _state(self) -> int:
        """A number for torch's random state: the same for the same one."""
        with _disable_current_modes():  # nothing of this is the author's
            return self.states.setdefault(torch.get_rng_state().numpy().tobytes(), len(self.states))

    def launch(self, kernel: JITFunction, args: Sequence[Any], grid: Any, kwargs: dict[str, Any]) -> None:
        # of what Triton takes besides the kernel's parameters, only what shapes the code is worth repeating
        options = {k: v for k, v in kwargs.items() if k in OPTIONS}
        parameters = jit_function(kernel).signature  # as it was when decorated, which is what a launch on a GPU goes by
        extra = LAUNCH_OPTIONS - set(parameters.parameters)  # a parameter called num_warps is given its value, too
        try:
            bound = parameters.bind(*args, **{k: v for k, v in kwargs.items() if k not in extra})
        except TypeError as error:
            raise RecordError(say("replay.record.parameters", kernel=kernel.__name__, reason=str(error))) from None
        bound.apply_defaults()
        try:
            grid = grid_of(kernel.__name__, grid, dict(bound.arguments))
        except KernelError as error:
            raise RecordError(error.message) from None
        for name, value in bound.arguments.items():
            for _, tensor in tensors_in(name, value):
                self._keep(tensor)
        event = {
            "launch": kernels.describe(kernel, self.kernels),
            "grid": list(grid),
            "arguments": {name: self._argument(kernel, name, value) for name, value in bound.arguments.items()},
            "options": {k: self.encode(v) for k, v in options.items()},
        }
        if (how := tuning()) is not None:
            _assert_statically(kernel, dict(bound.arguments), options)
            names = {"zeroed": list(how.zeroed), "restored": list(how.restored), "settings": list(how.settings)}
            event["tuned"] = {**names, "before": self._hooks(how)}
        self._write(event)

    def _argument(self, kernel: Any, name: str, value: Any) -> Any:
        """An argument of a launch as it stands in a log."""
        if inspect.isfunction(value):
            return {"unsupported": say("replay.value.function", kernel=kernel.__name__, name=name)}
        return self.encode(value)

    def _hooks(self, how: Tuning) -> list[dict[str, Any]]:
        """The events that a tuner's hooks cause before each run."""
        events, self.events = self.events, []
        try:
            how.prepare()
            return self.events
        finally:
            self.events = events

    def mark(self, what: str = "backward") -> int:
        """Write a mark into the log: the forward half ends here, or what was asked of a simulated GPU. Returns the number of launches
        before it; an empty word is not written."""
        launches = sum("launch" in event for event in self.events)
        if what:
            self._write({"mark": what, "state": self._state()})
        return launches

    def _keep(self, tensor: torch.Tensor) -> None:
        """Log memory from before this call, such as a workspace that is used again, as if it were allocated here. Of
        its content only whether it is zeros is told; a replay would have other numbers."""
        self._made_of_a_number(tensor)
        if self.storages.knows(tensor):
            return
        storage = tensor.untyped_storage()
        self.storages.add(tensor)
        # of a GPU's memory a process like this may know nothing
        zeros = storage.device.type == "cpu" and not storage_bytes(storage).numpy().any()
        own = {"size": [storage.nbytes()], "stride": [1], "offset": 0, "dtype": "uint8"}
        made = {"op": "aten.zeros.default" if zeros else "aten.empty.memory_format", "args": [{"list": own["size"]}]}
        out = [{"tensor": self.storages.ids[storage._cdata]} | own]
        self._write(
            made | {"kwargs": {"dtype": {"dtype": "uint8"}, "device": {"device": "cpu"}}, "out": out, "kept": True}
        )

    def _write(self, event: dict[str, Any]) -> None:
        if len(self.events) >= MAX_EVENTS:
            raise RecordError(say("replay.record.too_many", most=MAX_EVENTS))
        self.events.append(event)

    def encode(self, value: Any) -> Any:
        """Encode a value for the log."""
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if type(value) in (torch.Tensor, torch.nn.Parameter):
            self._made_of_a_number(value)
            return self.storages.value(value)
        if isinstance(value, (tuple, torch.Size)):
            named = {"fields": list(fields)} if (fields := getattr(value, "_fields", None)) is not None else {}
            return {"tuple": [self.encode(v) for v in value]} | named
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
            padding = (
                {"padding": value.padding} if getattr(value, "padding", "zero") != "zero" else {}
            )  # none up to 3.5
            return {"descriptor": self.encode(value.base)} | shapes | padding
        if layouts.is_descriptor(value) and (fields := layouts.fields_of(value)):
            return {"gluon descriptor": self.encode(value.base), "fields": fields}
        if layouts.is_layout(value) and (described := layouts.described(value)):
            return {"gluon layout": described}
        if isinstance(value, Rational):
            return int(value.numerator) if value.denominator == 1 else float(value)
        if hasattr(value, "item") and getattr(value, "shape", None) == () and type(value).__module__ == "numpy":
            return self.encode(value.item())  # numpy scalars are numbers
        if (inspect.ismethod(value) or inspect.isbuiltin(value)) and isinstance(value.__self__, torch.Tensor):
            example = f"x.{value.__name__}({_first_axis(value.__name__)})"
            return {"unsupported": say("replay.value.method", method=value.__name__, example=example)}
        return {"unsupported": f"a {type(value).__module__}.{type(value).__name__}".replace("builtins.", "")}


def _assert_statically(kernel: Any, arguments: dict[str, Any], options: dict[str, Any]) -> None:
    """Raise AssertionRefused where a kernel's static_assert fails: a tuner then takes another configuration."""
    kernel = jit_function(kernel)
    if any("static_assert" in function.src for function in functions_of(kernel, arguments.values())):
        with quietly():
            try:
                front_of(kernel, arguments, options)
            except Exception as error:  # of the front end, which has many kinds
                refused = uncompilable(message_of(error), kernel.__name__, error)
                if isinstance(refused, AssertionRefused):
                    raise refused from None


def _implementation(function: torch._ops.OpOverload) -> Callable[..., Any] | None:
    """The Python function that torch.library.custom_op or triton_op made this operation of, that for a GPU if there are several;
    None for an operation of torch. RecordError for one that was made in another way."""
    if definition := OPDEFS.get(function._schema.name):
        backends = definition._backend_fns
        return backends.get("cuda") or backends.get(None) or definition._init_fn
    if function._schema.name in torch.library._defs and function.namespace not in TORCHS_OWN:
        raise RecordError(say("replay.record.library", operation=function._schema.name))
    return None


def by_name(function: Callable, arguments: dict[str, Any], mark: Mark) -> Any:
    """Return f(**arguments): a call in one half.

    >>> by_name(lambda x, n: x + n, {"x": 1, "n": 2}, mark=lambda *_: 0)
    3
    """
    return called(function, arguments)


def called(function: Callable, arguments: dict[str, Any]) -> Any:
    """Return f(**arguments); in order where `f` is the `apply` of a torch.autograd.Function, which knows no names.

    >>> called(lambda x, n: x + n, {"x": 1, "n": 2})
    3
    """
    of = getattr(function, "__self__", None)
    if isinstance(of, type) and issubclass(of, torch.autograd.Function) and function.__name__ == "apply":
        return function(*arguments.values())
    return function(**arguments)


def record(
    function: Any, calls: Sequence[dict[str, Any]], by: Caller = by_name, configuration: int = 0, launches: bool = True
) -> dict[str, Any]:
    """Call `function` once for each dict of arguments; return the log. Nothing the function raises gets out.

    by: how it is called: `by(function, arguments, mark)` returns the result, and calls `mark` where a second half begins.
    configuration: the number of the one that autotuned kernels take in all calls but the last, which takes the first one
    launches: whether kernels are asked for; where they are not, nothing is called again for want of one

    Tensors say that they lie on the CPU, as they do. Code that asks may insist on CUDA: where it then fails, or launches nothing, it is
    called again with tensors that say that.

    >>> def copied(x):
    ...     out = torch.empty_like(x)
    ...     _ = copy[(4,)](x, out, x.numel(), BLOCK=256)
    ...     return out
    >>> log = record(copied, [{"x": x}])
    >>> call = log["calls"][0]
    >>> call["error"], [event.get("op") or event["grid"] for event in call["events"]]
    ('', ['aten.empty_like.default', [4, 1, 1]])
    """
    log, has_asked = _recorded(function, calls, by, configuration, CPU)
    if launches and has_asked and not _launches(log):
        on_cuda, _ = _recorded(function, calls, by, configuration, CUDA)
        return on_cuda if _launches(on_cuda) else log
    return log


def _launches(log: dict[str, Any]) -> bool:
    """Whether no call of a log ended with an error, and one launched a kernel."""
    events = [event for call in log["calls"] for event in call["events"]]
    return not any(call["error"] for call in log["calls"]) and any("launch" in event for event in events)


def _recorded(
    function: Any, calls: Sequence[dict[str, Any]], by: Caller, configuration: int, tensors_on: torch.device
) -> tuple[dict[str, Any], bool]:
    """(log, whether `function` has asked a tensor for its device), with tensors that say that they lie there."""
    recorder, has_asked = Recorder(), False
    log: dict[str, Any] = {"kernels": recorder.kernels, "calls": []}
    for index, arguments in enumerate(calls):
        for identity, _, tensor in tensors_of(index, arguments):
            recorder.storages.add(tensor, identity)
        recorder.events = []
        number = configuration if index + 1 < len(calls) else 0
        call = {"events": recorder.events, "result": None, "error": "", "cause": None, "unread": []}
        log["calls"].append(call)
        try:
            with (
                recorder,
                as_on_a_gpu(tensors_on=tensors_on) as devices,
                _no_warnings(),
                launches_go_to(recorder.launch, configuration=number) as traced,
            ):
                result = by(function, _fresh(arguments), recorder.mark) if callable(function) else function
            if traced:
                call["traced"] = True  # what a function finds out so is not what it computes
            if traced and not any("launch" in event for event in recorder.events):
                raise RecordError(say("replay.record.traced"))
            call["result"] = recorder.encode(None if isinstance(result, LaunchResult) else result)
        except (RecordError, kernels.KernelRefused, KernelError) as error:
            call["error"], call["cause"] = error.message, to_tree(Cause("refused", details={"message": str(error)}))
        except BaseException as error:  # SystemExit and KeyboardInterrupt of the author's are the author's
            call["error"], call["cause"] = describe_exception(error), to_tree(_cause_of(error))
            call["unread"] = unread(error)
        has_asked |= devices.has_been_asked
        if call["error"]:
            break
    return log, has_asked


@contextmanager
def _no_warnings() -> Iterator[None]:
    """Silence torch's warnings, which would name lines of this file: the author printed none of them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=rf"({'|'.join(kernels.HOSTS)})\.")
        yield


def _fresh(value: Any) -> Any:
    """Copy lists and dicts but not tensors, so that what one call does to its lists does not reach the next."""
    if isinstance(value, dict):
        return {key: _fresh(v) for key, v in value.items()}
    return [_fresh(v) for v in value] if isinstance(value, list) else value


# what a function uses by other names than that of the module which is taken away
SHOWN = {"torch.autograd.graph": say("replay.record.autograd")}

# what does a module's work below it, in C++, where nothing can be broken: seen at the operations of torch that it causes
BELOW: dict[str, Callable[[str], bool]] = {
    "torch.autograd.graph": lambda operation: torch._C._current_autograd_node() is not None,
    "torch.autograd.profiler": lambda operation: torch._C._autograd._profiler_enabled(),  # pyright: ignore[reportAttributeAccessIssue]
    "torch.optim": lambda operation: operation.startswith("aten._fused_"),
}
_taken: set[str] = set()


def _by_hand(module: str) -> Message:
    return say("replay.record.by_hand", what=SHOWN.get(module, module))


def take_away(module: str) -> None:
    """Make everything in a module, or in a package and its modules, raise RecordError, whoever imported it before: for children that record
    functions which must not use it.

    >>> from tritontrace.replay import child
    >>> child.run(lambda: take_away("torch.nn.functional"), seconds=5)  # in a process of its own
    (None, '')
    """

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise RecordError(_by_hand(module))

    def gone(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("this does what is to be written by hand, and is taken away here")

    def gone_in_steps(*args: Any, **kwargs: Any) -> Iterator[None]:  # a generator's code may only become a generator's
        raise RuntimeError("this does what is to be written by hand, and is taken away here")
        yield

    class Taken(ModuleType):
        __path__: ClassVar[list[str]] = []  # so that Python asks for modules in it, and is refused in the same words

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):  # what an import asks for
                raise AttributeError(name)
            refuse()

    class NotLoaded:
        @staticmethod
        def find_spec(name: str, path: Any = None, target: Any = None) -> None:
            if name.startswith(f"{module}."):
                refuse()

    def take_apart(each: str) -> None:
        for name, value in list(vars(sys.modules[each]).items()):
            if isinstance(value, dict) and not name.startswith("__"):
                value.clear()
            elif getattr(value, "__module__", "") != each:
                continue
            elif isinstance(value, type):
                methods = (getattr(method, "__func__", method) for method in vars(value).values())
                for method in methods:
                    if getattr(method, "__module__", "") == each:  # an Enum has some of its module's own
                        empty(method)
                with suppress(AttributeError, TypeError):
                    value.__init__ = value.__enter__ = refuse
            else:
                empty(value)

    def empty(function: Any) -> None:
        """Leave nothing of a function, and of what it wraps."""
        while hasattr(function, "__code__"):
            code = (gone_in_steps if inspect.isgeneratorfunction(function) else gone).__code__
            function.__code__ = code.replace(
                co_freevars=function.__code__.co_freevars
            )  # it must name what it closes over
            function = getattr(function, "__wrapped__", None)

    _taken.add(module)
    parent, _, own_name = module.rpartition(".")
    setattr(import_module(parent), own_name, Taken(module))
    loaded = [name for name in sys.modules if name == module or name.startswith(f"{module}.")]
    for each in loaded:
        take_apart(each)
    for each in {*loaded, module}:
        sys.modules[each] = Taken(each)
    sys.meta_path.insert(0, NotLoaded)


def unread(error: BaseException | None) -> list[str]:
    """List files and modules that could not be read, from an error or one that it was raised from. What is missing may not be the
    author's.

    >>> unread(FileNotFoundError(2, "No such file", "weights.pt"))
    ['weights.pt']
    """
    found: list[str] = []
    for _ in range(10):
        if isinstance(error, OSError):
            found.append(str(error.filename))
        elif isinstance(error, ImportError):
            found += [str(error.path), str(error.name)]
        error = error and (error.__cause__ or error.__context__)
    return found


def _cause_of(error: BaseException) -> Cause:
    """Describe an error as data: the exception, its words, and the line of the author's code nearest to it."""
    *_, last = [None, *_own_frames(error)]
    details = {"exception": type(error).__name__, "message": _words_of(error), "line": last.line or "" if last else ""}
    return Cause("raised", f"{last.filename}:{last.lineno}" if last else "", details)


def _own_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """Frames in which the error passed through the author's code, the nearest one last."""
    others = (*NOT_THE_AUTHORS, *(f"/{host}/" for host in kernels.HOSTS))
    frames = traceback.extract_tb(error.__traceback__)
    return [f for f in frames if not any(folder in f.filename.replace("\\", "/") for folder in others)]


def _words_of(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]


def describe_exception(error: BaseException) -> Message:
    """Describe an error in one sentence, with the line of the author's code nearest to it.

    >>> try:
    ...     {}["x"]
    ... except KeyError as error:
    ...     print(describe_exception(error))
    raised KeyError: 'x', in line 2: `{}["x"]`
    """
    *_, last = [None, *_own_frames(error)]
    words = _words_of(error)
    facts = {
        "exception": type(error).__name__,
        "where": _where(last) if last else "",
        "advice": _advice(error, words, last.line or "" if last else "", entered=last is not None),
    }
    return say("replay.raised.error_with", words=words, **facts) if words else say("replay.raised.error", **facts)


def _where(frame: traceback.FrameSummary) -> Message:
    place = "of_a_cell" if in_a_cell(frame.filename) else "of_a_file"  # in which lines are counted
    function = "" if frame.name == "<module>" else say(f"replay.raised.{place}", function=frame.name)
    code = say("replay.raised.code", code=code_of(frame.line)) if frame.line else ""
    return say("replay.raised.line", line=frame.lineno, function=function, code=code)


def _first_axis(method: str) -> str:
    return "0" if method in ("stride", "size") else ""


def _advice(error: BaseException, message: str, line: str, entered: bool) -> str:
    """Say what Python's words do not tell a newcomer. line: the author's line; entered: the error came from within
    their function."""
    if type(error) is NameError and error.name:
        return say("replay.raised.undefined", name=error.name)
    if message.startswith("'function' object is not subscriptable"):
        return say("replay.raised.no_kernel")
    if method := re.search(r"\.(stride|size|numel|dim)\[", line):
        example = f"x.{method[1]}({_first_axis(method[1])})"
        return say("replay.raised.method", method=method[1], example=example)
    if "torch.Size" in message or message.startswith("can only concatenate tuple"):
        return say("replay.raised.shape")
    if (called := re.search(r"\btl\.(\w+)\(", line)) and "outside of the scope of a kernel" in message:
        there = "outside_write" if hasattr(triton, called[1]) else "outside"
        return say(f"replay.raised.{there}", function=called[1])
    if message.startswith("Cannot call @triton.jit'd outside of the scope of a kernel"):
        return say("replay.raised.no_grid")
    if message.startswith("Boolean value of Tensor with more than one value"):
        return say("replay.raised.truth")
    if re.search(r"got an unexpected keyword argument|missing \d+ required positional", message) and not entered:
        return say("replay.raised.names")
    return ""


def load(cells: Sequence[tuple[str, str]], entry: str, *, on_the_cpu: bool = True) -> Any:
    r"""Execute an answer's cells in order in a namespace of their own; return what `entry` names.

    cells: (file name, source). Raises ValueError, with a sentence, if a cell fails or the name is not there.

    >>> load([("cell 1", "def double(x):\n    return 2 * x")], "double")(21)
    42
    """
    scope: dict[str, Any] = {"__name__": "__main__"}
    with as_on_a_gpu() if on_the_cpu else nullcontext():
        for name, source in cells:
            linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
            try:
                exec(compile(source, name, "exec", dont_inherit=True), scope)
            except BaseException as error:
                problem = describe_exception(error)
                raise ValueError(say("replay.record.cell", cell=name.strip("<>"), problem=problem)) from None
    if entry not in scope:
        raise ValueError(say("replay.record.no_entry", name=entry))
    return scope[entry]
