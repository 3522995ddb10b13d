"""Redirect launches while something other than a GPU takes them: kernel[grid](...) calls a handler."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import triton.runtime.interpreter as interpreter
from triton.compiler.errors import CompileTimeAssertionFailure
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from tritontrace.compiled.warmed import LaunchResult, warmed
from tritontrace.tracing.tuning import tuned, tuning_of
from tritontrace.ttir.sources import jit_function

Handler = Callable[[Any, tuple, Any, dict[str, Any]], None]  # kernel, arguments, grid, keywords


@contextmanager
def launches_go_to(handler: Handler, assemble: bool = False, configuration: int = 0) -> Iterator[list[str]]:
    """Intercept launches inside the block: kernel[grid](...) calls handler(kernel, args, grid, options) and runs nothing.

    A launch returns an object as Triton's does (warmed.LaunchResult); assemble: whether the assembler may be started for it;
    configuration: which one autotuned kernels take, counted around.
    Yields the names of kernels that did not get there, since another one that was opened inside took them. Under
    TRITON_INTERPRET=1 it is the same.

    >>> def told(kernel, args, grid, options):
    ...     print(kernel.fn.__name__, grid, options)
    >>> with launches_go_to(told):
    ...     _ = copy[(4,)](x, y, 1000, BLOCK=256)
    copy (4,) {'BLOCK': 256}
    """

    def run(kernel, *args, grid, warmup=False, **options):
        if warmup:
            if not assemble:
                return warmed(jit_function(kernel), args, options, again(kernel))
            ready = launched(kernel, args, options)
            _ = ready.metadata  # the compiler may refuse it
            return ready
        for elsewhere in _open[:outer]:
            elsewhere.append(kernel.fn.__name__)
        handler(kernel, args, grid, options)
        return launched(kernel, args, options)

    def launched(kernel, args, options) -> LaunchResult:
        return LaunchResult(jit_function(kernel), args, options, again(kernel), assemble)

    def again(kernel) -> Callable[..., Any]:
        """Launch the kernel where launches go by then: host code may keep a result for longer than this is open."""
        return lambda *args, grid, **options: kernel[grid](*args, **options)

    # Up to Triton 3.5 each kernel made under TRITON_INTERPRET holds a `run` of its own; a property comes first.
    own_run = property(lambda kernel: functools.partial(run, kernel), lambda kernel, value: None)
    interpreted = interpreter.InterpretedFunction

    def run_tuned(tuner: Autotuner, *args: Any, **keywords: Any) -> Any:
        return _run_first_that_compiles(tuner, configuration, args, keywords)

    patches = (
        (JITFunction, "run", run),
        (interpreted, "run", own_run),
        (interpreted, "__getitem__", lambda kernel, grid: functools.partial(run, kernel, grid=grid)),
        (Autotuner, "run", run_tuned),
    )
    before = [(owner, name, vars(owner).get(name)) for owner, name, _ in patches]
    mine: list[str] = []
    outer = len(_open)
    _open.append(mine)
    for patch in patches:
        setattr(*patch)
    try:
        yield mine
    finally:
        _open.pop()
        for owner, name, value in before:
            delattr(owner, name) if value is None else setattr(owner, name, value)


_open: list[list[str]] = []  # of each launches_go_to that is open, the outermost first


def _run_first_that_compiles(tuner: Autotuner, number: int, args: tuple, options: dict[str, Any]) -> Any:
    """Run the tuner's configuration of that number, or the next one whose static_assert holds: Triton's tuner leaves out the others as
    well. Nothing is timed here, and no choice is remembered for a GPU."""
    tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
    try:
        configs = list(tuner.prune_configs(options)) if len(tuner.configs) > 1 else tuner.configs
        first = configs[0]
        number %= len(configs)
        configs = [*configs[number:], *configs[:number]]
        for config in configs:
            try:
                return _run_config(tuner, config, args, options, config is first)
            except CompileTimeAssertionFailure:
                if config is configs[-1]:
                    raise
    finally:
        tuner.nargs = None


def _run_config(tuner: Autotuner, config: Any, args: tuple, options: dict[str, Any], first: bool) -> Any:
    settings = config.all_kwargs()
    arguments = {**(tuner.nargs or {}), **options, **settings}
    if config.pre_hook is not None:
        config.pre_hook(arguments)
    with tuned(tuning_of(tuner, config, arguments, first)):
        result = tuner.fn.run(*args, **options, **settings)
    tuner.best_config = config
    return result
