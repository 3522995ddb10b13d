"""The arguments of a kernel as a launch would find them, by name, and the compiler's options."""

from __future__ import annotations

import difflib
import inspect
from typing import Any

import triton.language as tl
from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.jit import JITFunction

from tritontrace import no_triton
from tritontrace.messages import say
from tritontrace.ttir.frontend import LAUNCH_OPTIONS, OPTIONS, Front, NotAnArgument, specialise


def undecorated(kernel: Any) -> JITFunction:
    """Return the `@triton.jit` function inside decorators, or of a Front. Raises TypeError if there is none."""
    no_triton.demand()
    while isinstance(kernel, Autotuner | Heuristics):
        kernel = kernel.fn
    if isinstance(kernel, Front):
        return kernel.kernel
    if isinstance(kernel, JITFunction):
        return kernel
    raise TypeError(say("compiler.asked.no_kernel", type=type(kernel).__name__))


def resolve(kernel: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[JITFunction, dict[str, Any], dict[str, Any]]:
    """Return the function inside its decorators, its arguments by name, and compiler options. Raises NotAnArgument if they do not fit.

    Of what the front end has read the arguments are given by name, and the options are known to it.
    """
    if isinstance(kernel, Front):
        return kernel.kernel, kwargs, {}
    names = kernel.arg_names
    if len(args) > len(names):
        raise NotAnArgument(say("launch.argument.too_many", parameters=len(names), arguments=len(args)))
    for name in kwargs:
        if name in names[: len(args)]:
            raise NotAnArgument(say("launch.argument.twice", name=name))
        if name not in names and name not in LAUNCH_OPTIONS:
            near = difflib.get_close_matches(name, names, n=1)
            if near:
                raise NotAnArgument(say("launch.argument.unknown_near", name=name, near=near[0]))
            raise NotAnArgument(say("launch.argument.unknown", name=name))
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    named = dict(kwargs)  # an option that is a parameter's name, too, is both
    while not isinstance(kernel, JITFunction):
        if isinstance(kernel, Autotuner):
            given = {**kernel.configs[0].all_kwargs(), **given}
            named = {**kernel.configs[0].all_kwargs(), **named}
        else:
            given |= {name: heuristic(given) for name, heuristic in kernel.values.items()}
        kernel = kernel.fn
    parameters = inspect.signature(kernel.fn).parameters
    missing = [n for n, parameter in parameters.items() if n not in given and parameter.default is parameter.empty]
    if missing:
        raise NotAnArgument(say("launch.argument.missing", name=missing[0]))
    options = {name: named[name] for name in OPTIONS if named.get(name) is not None}
    arguments = {name: given.get(name, parameter.default) for name, parameter in parameters.items()}
    arguments = {n: v.value if isinstance(v, tl.constexpr) else v for n, v in arguments.items()}
    specialise(kernel, arguments)  # there may be a value that no kernel takes
    return kernel, arguments, options
