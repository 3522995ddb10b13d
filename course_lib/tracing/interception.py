"""Redirect launches while something other than a GPU takes them: kernel[grid](...) calls a handler."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import triton.runtime.interpreter as interpreter
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from course_lib.tracing.tuning import tuned, tuning_of
from course_lib.ttir.sources import jit_function

Handler = Callable[[Any, tuple, Any, dict[str, Any]], None]  # kernel, arguments, grid, keywords


@contextmanager
def launches_go_to(handler: Handler) -> Iterator[list[str]]:
    """Let kernel[grid](...) call handler(kernel, args, grid, options) and run nothing, while this is open.

    Yields the names of kernels that did not get there, since another one that was opened inside took them. Under
    TRITON_INTERPRET=1 it is the same.
    """

    def run(kernel, *args, grid, warmup=False, **options):
        if warmup:
            from course_lib.compiled.warmed import warmed  # which reads kernels as this package does

            return warmed(jit_function(kernel), args, options, functools.partial(run, kernel))
        for elsewhere in _open[:outer]:
            elsewhere.append(kernel.fn.__name__)
        return handler(kernel, args, grid, options)

    # Up to Triton 3.5 each kernel made under TRITON_INTERPRET holds a `run` of its own; a property comes first.
    own_run = property(lambda kernel: functools.partial(run, kernel), lambda kernel, value: None)
    interpreted = interpreter.InterpretedFunction
    patches = (
        (JITFunction, "run", run),
        (interpreted, "run", own_run),
        (interpreted, "__getitem__", lambda kernel, grid: functools.partial(run, kernel, grid=grid)),
        (Autotuner, "run", _run_first_config),
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


def _run_first_config(tuner: Autotuner, *args: Any, **options: Any) -> Any:
    """Run the tuner's first configuration. Nothing is timed here, and no choice is remembered for a GPU."""
    tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
    try:
        config = tuner.prune_configs(options)[0] if len(tuner.configs) > 1 else tuner.configs[0]
        settings = config.all_kwargs()
        arguments = {**tuner.nargs, **options, **settings}
        if config.pre_hook is not None:
            config.pre_hook(arguments)
        with tuned(tuning_of(tuner, config, arguments)):
            return tuner.fn.run(*args, **options, **settings)
    finally:
        tuner.nargs = None
