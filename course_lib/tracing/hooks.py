"""Runs Triton kernels on Triton's own interpreter, in Python, and tells a watcher of every access before it happens.

While an Interpreter is installed, `kernel[grid](...)` runs here instead of on a GPU. The kernel object is untouched: the
same `@triton.jit` function compiles before and after. TRITON_INTERPRET need not be set; if it is, its kernels run here too.

Triton's language is patched to work on numbers, with language.py and the operations of builder.py, reached through plans.py.
These three files, hooks.py, language.py and builder.py, are the only ones of tracing/ that touch Triton's internals.
"""

from __future__ import annotations

import copy
import functools
import inspect
import os
import sys
import traceback
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import triton
import triton.compiler.code_generator  # noqa: F401  it keeps references to parts of tl: it must see them unpatched
import triton.language as tl
import triton.language.extra.cuda.libdevice as cuda_libdevice
import triton.language.extra.libdevice as libdevice
import triton.runtime.interpreter as interpreter
from triton.backends.nvidia.compiler import CUDAOptions
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction
from triton.tools.tensor_descriptor import TensorDescriptor

from course_lib.tracing import language
from course_lib.tracing.builder import SPREADS, Builder, Handle, ManyTruths, NotHere, numpy_dtype, tensor_of, wide
from course_lib.tracing.launching import (
    TRITON_FOLDER,
    FlopKind,
    Grid,
    KernelError,
    KernelFault,
    Op,
    Order,
    Placed,
    Site,
    Watcher,
    bind,
    grid_of,
    plain,
    programs_of,
    tensors_in,
)
from course_lib.tracing.plans import Plans, Recorder
from course_lib.tracing.rewrite import Helpers, Source, rewrite

__all__ = [  # what the other rooms use
    "LAUNCH_OPTIONS", "FlopKind", "Interpreter", "KernelError", "KernelFault", "Op", "Order", "Site", "Watcher",
    "grid_of", "launches_go_to", "source_of",
]  # fmt: skip

LAUNCH_OPTIONS = set(CUDAOptions.__dataclass_fields__) | {"device", "stream"}  # not parameters of the kernel
PATCHED = (  # restored as they were
    tl, tl.core, tl.math, tl.tensor, tl.dtype, tl.constexpr, tl.core.tensor_descriptor_base, libdevice, cuda_libdevice,
)  # fmt: skip

HINTS = ("multiple_of", "max_contiguous", "max_constancy")  # to the compiler; here they do nothing
STATIC = ("static_assert", "static_print")  # Python does what the compiler does


# ----------------------------------------------------------------------------------------------------- the interpreter


class Interpreter:
    """`with interpreter.installed():` kernels run here, and whom it serves is told; `where()` is the line that runs now."""

    def __init__(self):
        self._functions: dict[Any, Callable] = {}  # rewritten, by the original
        self._sources: dict[int, Source] = {}  # by id of the code object, of every function that ran
        self._sites: dict[tuple[int, ...], Site] = {}
        self._kernel: Source | None = None
        self._builder = Builder(lambda function, tensors: self.call(function, tensors, {}))
        recorder = Recorder(self._builder)
        self._semantic = type(interpreter.interpreter_semantic)(recorder)
        self._plans = Plans(self._builder, recorder, tl.tensor, Handle, SPREADS)

    def serve(self, watcher: Watcher, order: Order = None) -> None:
        """Tell this watcher from now on. What the front end has said, and what has been rewritten, is kept."""
        self._watcher = self._builder.watcher = watcher
        self._order = order

    # ------------------------------------------------------------------------------------------------- launching

    def launch(self, kernel: Any, args: tuple, options: dict[str, Any], grid: Any) -> None:
        if self._kernel is not None:
            raise KernelError(f"a kernel cannot launch another: call `{kernel.fn.__name__}` without a grid.")
        for traced in _going_elsewhere:
            traced.append(kernel.fn.__name__)
        function = self._rewritten(kernel)
        source = self._sources[id(function.__code__)]
        arguments = bind(kernel.fn, args, options, LAUNCH_OPTIONS)
        for hook in getattr(kernel, "pre_run_hooks", ()):
            hook(**arguments)
        grid = grid_of(source.name, grid, arguments)
        constexprs = {p.name for p in _jit_function(kernel).params if p.is_constexpr}
        tensors = {n: t for name, value in arguments.items() for n, t in tensors_in(name, value)}
        self._kernel = source
        self._watcher.begin_launch(source, grid, tensors)
        completed = False
        try:
            values = {n: language.unwrap(v) if n in constexprs else self._convert(v) for n, v in arguments.items()}
            self._run_programs(function, values, grid)
            completed = True
        except KernelFault as fault:
            raise fault.with_traceback(None) from None
        except Exception as error:
            site = self._site_of(error)
            raise KernelError(f"{site}: {_message(error, site)}") from None
        finally:
            for kind, operations in self._builder.flops.items():
                self._watcher.computed(kind, operations)
            self._builder.flops.clear()
            self._watcher.end_launch(completed)
            self._kernel = None

    def _run_programs(self, function: Callable, values: dict[str, Any], grid: Grid) -> None:
        self._builder.set_grid_dim(*grid)
        with np.errstate(all="ignore"):  # overflow and NaN are quiet on a GPU
            for program, index in programs_of(grid, self._order):
                self._builder.grid_idx = index
                self._watcher.begin_program(program, index)
                function(**values)

    def _convert(self, value: Any) -> Any:
        """An argument as the kernel sees it: pointers, descriptors and scalar tensors."""
        if isinstance(value, tl.constexpr):
            return value.value
        if isinstance(value, tuple):
            parts = [self._convert(part) for part in value]
            return type(value)(*parts) if hasattr(value, "_fields") else tl.tuple(parts)
        if isinstance(value, bool):
            return tensor_of(np.array([value]), tl.int1)
        if isinstance(value, float):
            return tensor_of(np.array([value], np.float32), tl.float32)  # as a launch on a GPU passes it
        if isinstance(value, TensorDescriptor):
            placed = copy.copy(value)
            placed.base = self._placed(value.base)
            return interpreter._implicit_cvt(placed)
        if hasattr(value, "data_ptr"):
            return interpreter._implicit_cvt(self._placed(value))
        return interpreter._implicit_cvt(value)

    def _placed(self, tensor: Any) -> Placed:
        return Placed(tensor.dtype, self._watcher.address(plain(tensor)))

    # ------------------------------------------------------------------------------------------------- functions

    def call(self, function: Any, args: tuple, options: dict[str, Any]) -> Any:
        """A call of a `@triton.jit` function from within a kernel."""
        if self._kernel is None:
            raise KernelError(f"`{function.__name__}` is a kernel: launch it as {function.__name__}[grid](...).")
        rewritten = self._rewritten(function)
        args = tuple(map(language.unwrap, args))
        options = {n: language.unwrap(v) for n, v in options.items() if n not in ("_semantic", "_generator")}
        if self._sources[id(rewritten.__code__)].library:
            return self._plans.call(function, args, options, rewritten)
        return rewritten(*args, **options)

    def _rewritten(self, kernel: Any) -> Callable:
        rewritten = self._functions.get(kernel.fn)
        if rewritten is None:
            source = source_of(kernel)
            rewritten = self._functions[kernel.fn] = _rewritten(kernel.fn, source)
            self._sources[id(rewritten.__code__)] = source
        return rewritten

    def _planned(self, member: Callable) -> Callable:
        """A function of tl, callable from Python."""

        def run(*args, **options):
            return member(*args, **options, _semantic=self._semantic)

        def call(*args, **options):
            if options.pop("_semantic", None) is not None:
                return run(*args, **options)  # the front end calls itself
            return self._plans.call(member, args, options, run)

        return call

    # ------------------------------------------------------------------------------------------------- places

    def where(self) -> Site:
        sources, frames, frame = self._sources, [], sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            if id(code) in sources:
                frames += (id(code), frame.f_lineno)
                if sources[id(code)] is self._kernel:
                    break
            frame = frame.f_back
        return self._site(tuple(frames))

    def _site_of(self, error: BaseException) -> Site:
        frames, traceback = [], error.__traceback__
        while traceback is not None:
            code = traceback.tb_frame.f_code
            if id(code) in self._sources:
                frames = [id(code), traceback.tb_lineno, *frames]
            traceback = traceback.tb_next
        return self._site(tuple(frames))

    def _site(self, frames: tuple[int, ...]) -> Site:
        """frames: a function's code and a line in its file, and so on, innermost first, the kernel last."""
        site = self._sites.get(frames)
        if site is None:
            calls = [(self._sources[code], line) for code, line in zip(frames[::2], frames[1::2], strict=True)]
            site = self._sites[frames] = _site(calls or [(self._kernel, self._kernel.first_line)])
        return site

    # ------------------------------------------------------------------------------------------------- hooks

    @contextmanager
    def installed(self) -> Iterator[None]:
        _check_triton()
        with ExitStack() as undo:
            snapshot = [(owner, dict(vars(owner))) for owner in PATCHED]
            undo.callback(_restore, snapshot)
            undo.callback(_stand_ins.clear)
            self._patch_language(snapshot)

            def patch(owner: Any, name: str, value: Any) -> None:
                undo.callback(_put_back, owner, name, vars(owner).get(name))
                setattr(owner, name, value)

            def run(kernel, *args, grid, warmup=False, **options):
                return None if warmup else self.launch(kernel, args, options, grid)

            def call(function, *args, **options):
                return self.call(function, args, options)

            # Up to Triton 3.5 each kernel made under TRITON_INTERPRET holds a `run` of its own; a property comes first.
            own_run = property(lambda kernel: functools.partial(run, kernel), lambda kernel, value: None)
            interpreted = interpreter.InterpretedFunction
            patch(JITFunction, "run", run)
            patch(JITFunction, "__call__", call)
            patch(interpreted, "run", own_run)
            patch(interpreted, "__getitem__", lambda kernel, grid: functools.partial(run, kernel, grid=grid))
            patch(interpreted, "__call__", call)
            patch(Autotuner, "run", _run_first_config)
            patch(interpreter, "TensorHandle", Handle)
            patch(interpreter, "_get_np_dtype", numpy_dtype)
            patch(interpreter, "interpreter_builder", self._builder)
            patch(interpreter, "interpreter_semantic", self._semantic)
            yield

    def _patch_language(self, originals: list[tuple[Any, dict[str, Any]]]) -> None:
        """Make tl's functions work on numbers. Triton does so at each launch and leaks; here once, undone by _restore."""

        class Everything:
            __globals__ = {"tl": tl, "core": tl.core}

        interpreter._patch_lang(Everything)
        for owner, members in originals:
            for name, member in members.items():
                if tl.core.is_builtin(member) and name not in (*HINTS, *STATIC):
                    setattr(owner, name, self._planned(member))
        for lang in (tl, tl.core):
            lang.reduce, lang.associative_scan = self._planned(language.reduce), self._planned(language.scan)
            lang.static_range = language.static_range
            for name in HINTS:
                setattr(lang, name, lambda tensor, values: tensor)
        for name, member in dict(vars(libdevice)).items():  # stubs, for which the compiler takes the GPU's own
            if inspect.isfunction(member) and hasattr(cuda_libdevice, name):
                setattr(libdevice, name, getattr(cuda_libdevice, name))
        self._patch_values()
        for owner, members in originals:  # for names that were imported from there before
            for name, member in members.items():
                if callable(member) and vars(owner).get(name) is not member:
                    _stand_ins[id(member)] = vars(owner)[name]
        _stand_ins[id(min)] = lambda *args: language.of_tensors(args, tl.minimum, min)
        _stand_ins[id(isinstance)] = language.is_instance
        _stand_ins[id(max)] = lambda *args: language.of_tensors(args, tl.maximum, max)

    def _patch_values(self) -> None:
        """What Python does with tensors and constants by itself."""
        tl.tensor.__bool__ = lambda tensor: self._truth(tensor, sys._getframe(1).f_code.co_filename)
        tl.tensor.__index__ = lambda tensor: int(self._one_value(tensor, TypeError, "is not one whole number"))
        tl.tensor.T = property(lambda tensor: tl.trans(tensor))
        for name, member in list(vars(tl.tensor).items()):
            if isinstance(member, JITFunction):  # x.sum() and the like; the compiler binds the tensor by itself
                setattr(tl.tensor, name, language.method(member))
        for name, member in list(vars(tl.constexpr).items()):
            if name.startswith("__") and inspect.isfunction(member) and len(inspect.signature(member).parameters) == 2:
                setattr(tl.constexpr, name, language.constant_and_tensor(member))

    def _truth(self, tensor: tl.tensor, caller: str) -> bool:
        if caller.startswith(TRITON_FOLDER) and os.path.basename(caller) in ("semantic.py", "core.py"):
            return True  # Triton asks `other.handle if other else None`: is there one at all
        return bool(self._one_value(tensor, ManyTruths, "is neither true nor false"))

    def _one_value(self, tensor: tl.tensor, error: type[TypeError], complaint: str) -> Any:
        self._plans.value_asked()
        values = wide(tensor.handle)
        if values.size != 1:
            raise error(f"a block of {values.size} values {complaint}")
        return values.reshape(-1)[0]


_going_elsewhere: list[list[str]] = []  # of each launches_go_to that is open: what a trace inside ran in its place


class NotCompiled:
    """What `kernel.warmup(...)` returns where kernels are interpreted. Whoever asks it for registers is told why it has none."""

    def __getattr__(self, name: str) -> Any:
        raise KernelError(
            f"`warmup` compiles nothing here, so there is no `{name}`: a check interprets kernels, on any machine. Choose the number of "
            "programs, warps and stages yourself."
        )


@contextmanager
def launches_go_to(handler: Callable[[JITFunction, tuple, Any, dict[str, Any]], None]) -> Iterator[list[str]]:
    """While open, kernel[grid](...) calls handler(kernel, args, grid, options) and runs nothing.

    Yields the names of kernels that did not get there, since a trace opened inside took them.
    """
    before = JITFunction.run, Autotuner.run

    def run(kernel, *args, grid, warmup, **options):
        return NotCompiled() if warmup else handler(kernel, args, grid, options)

    JITFunction.run, Autotuner.run = run, _run_first_config
    _going_elsewhere.append([])
    try:
        yield _going_elsewhere[-1]
    finally:
        _going_elsewhere.pop()
        JITFunction.run, Autotuner.run = before


# ----------------------------------------------------------------------------------------------------- sources


_rewrites: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # by function object: a redefined kernel is another
_jit_functions: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
_stand_ins: dict[int, Callable] = {}  # while tracing: what runs instead of a function, by its id


def _jit_function(kernel: Any) -> JITFunction:
    """Under TRITON_INTERPRET `@triton.jit` makes another kind of object, which knows neither source nor parameters."""
    if isinstance(kernel, JITFunction):
        return kernel
    if kernel.fn not in _jit_functions:
        _jit_functions[kernel.fn] = JITFunction(kernel.fn)
    return _jit_functions[kernel.fn]


def source_of(kernel: Any) -> Source:
    """The text of a `@triton.jit` function from its `def` on, as it was when it was decorated."""
    jit = _jit_function(kernel)
    lines = jit.src.splitlines(keepends=True)
    # Triton 3.4 keeps the text from the `def` on only
    decorated = jit.raw_src if hasattr(jit, "raw_src") else inspect.getsourcelines(kernel.fn)[0]
    first_line = jit.starting_line_number + len(decorated) - len(lines)
    library = kernel.fn.__code__.co_filename.startswith(TRITON_FOLDER)
    return Source(kernel.fn.__name__, first_line, tuple(lines), library)


def _rewritten(function: Any, source: Source) -> Callable:
    if function not in _rewrites:
        _rewrites[function] = rewrite(function, source, Helpers(_as_tensor, _loop_over, _callee))
    return _rewrites[function]


def _as_tensor(value: Any) -> Any:
    if isinstance(value, tl.tensor):
        return value
    return interpreter.interpreter_semantic.to_tensor(value, False)


def _loop_over(iterable: Iterable) -> Iterable:
    """The variable of a loop over `range` is an int32 to the compiler, of `tl.static_range` a constant."""
    return map(_as_tensor, iterable) if isinstance(iterable, range) else iterable


def _callee(function: Any) -> Any:
    return _stand_ins.get(id(function), function)


def _site(calls: list[tuple[Source, int]]) -> Site:
    """calls: (function, line in its file), innermost first, the kernel last."""
    kernel, file_line = calls[-1]
    line = kernel.line(file_line)
    helper = next(((s, s.line(n)) for s, n in calls[:-1] if not s.library), None)
    inner = f", in `{helper[0].name}`, line {helper[1]}: `{helper[0].text(helper[1])}`" if helper else ""
    return Site(kernel.name, line, kernel.text(line), inner)


def _message(error: Exception, site: Site) -> str:
    text = " ".join(str(error).split())
    if "`_semantic` argument" in text:
        return "this function has no version that runs without a GPU, or was not called as tl.<name>"
    if isinstance(error, NotHere):
        return text
    from course_lib.compiled.complaints import instead_of_truth, readable, reason_of

    if isinstance(error, ManyTruths):
        return f"{text}. {instead_of_truth(site.inner or site.source)}"
    if isinstance(error, AssertionError) and not text:
        return reason_of(traceback.extract_tb(error.__traceback__)[-1].name)
    said = readable(text)
    return (
        said
        if said != text or isinstance(error, TypeError | ValueError)
        else f"{type(error).__name__}: {text}".rstrip(": ")
    )


# ----------------------------------------------------------------------------------------------------- tl, patched


def _check_triton() -> None:
    """KernelError if this Triton lacks something that is used here."""
    for owner, names in NEEDED:
        for name in names.split():
            if not hasattr(owner, name):
                raise KernelError(
                    f"The tracer runs on Triton 3.4 to 3.9; this is {triton.__version__}, whose {owner.__name__} has no "
                    f"`{name}`. Install a version that fits, as pyproject.toml names it."
                )


NEEDED = (
    (interpreter, "InterpreterBuilder InterpretedFunction TensorHandle interpreter_builder interpreter_semantic "
     "_patch_lang _implicit_cvt _get_np_dtype _interpreter _ir"),
    (interpreter.InterpreterBuilder, "create_atomic_rmw create_atomic_cas create_masked_load create_masked_store set_grid_dim"),
    (interpreter._interpreter, "load store"),
    (tl.core, "is_builtin tensor constexpr dtype tensor_descriptor_base"),
    (tl.standard, "_sum_combine _prod_combine _xor_combine _or_combine _elementwise_max _elementwise_min"),
    (JITFunction, "run __call__"),
    (Autotuner, "run prune_configs"),
)  # fmt: skip


def _run_first_config(tuner: Autotuner, *args: Any, **options: Any) -> Any:
    """Nothing is timed here, so the first configuration runs, and none is remembered for a GPU."""
    tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
    try:
        config = tuner.prune_configs(options)[0] if len(tuner.configs) > 1 else tuner.configs[0]
        settings = config.all_kwargs()
        if config.pre_hook is not None:
            config.pre_hook({**tuner.nargs, **options, **settings})
        return tuner.fn.run(*args, **options, **settings)
    finally:
        tuner.nargs = None


def _put_back(owner: Any, name: str, value: Any) -> None:
    delattr(owner, name) if value is None else setattr(owner, name, value)


def _restore(snapshot: list[tuple[Any, dict[str, Any]]]) -> None:
    for owner, before in snapshot:
        for name, value in list(vars(owner).items()):
            if name not in before:
                delattr(owner, name)
            elif value is not before[name]:
                setattr(owner, name, before[name])
