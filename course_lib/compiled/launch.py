"""The arguments of a kernel as a launch would find them: by name, with their types, constants and alignments."""

from __future__ import annotations

import difflib
import inspect
from typing import Any

import triton.language as tl
from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.jit import JITFunction, mangle_type

from course_lib.tracing.hooks import LAUNCH_OPTIONS

OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")


class LaunchError(ValueError):
    """These arguments do not fit the kernel: why, without a full stop."""


def undecorated(kernel: Any) -> JITFunction:
    """The `@triton.jit` function inside its decorators. TypeError if there is none."""
    while isinstance(kernel, Autotuner | Heuristics):
        kernel = kernel.fn
    if isinstance(kernel, JITFunction):
        return kernel
    raise TypeError(
        f"expected a kernel made by @triton.jit, got a {type(kernel).__name__}. Pass the kernel itself, without a grid; "
        "if TRITON_INTERPRET is set, unset it."
    )


def resolve(kernel: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[JITFunction, dict[str, Any], dict[str, Any]]:
    """The function inside its decorators, its arguments by name, and the compiler's options."""
    names = kernel.arg_names
    if len(args) > len(names):
        raise LaunchError(f"it has {len(names)} parameters, and {len(args)} arguments were given")
    for name in kwargs:
        if name in names[: len(args)]:
            raise LaunchError(f"`{name}` is given twice, by its place and by its name")
        if name not in names and name not in LAUNCH_OPTIONS:
            near = difflib.get_close_matches(name, names, n=1)
            raise LaunchError(f"it has no parameter `{name}`" + (f"; `{near[0]}` may be meant" if near else ""))
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    while not isinstance(kernel, JITFunction):
        if isinstance(kernel, Autotuner):
            given = {**kernel.configs[0].all_kwargs(), **given}
        else:
            given |= {name: heuristic(given) for name, heuristic in kernel.values.items()}
        kernel = kernel.fn
    parameters = inspect.signature(kernel.fn).parameters
    missing = [n for n, parameter in parameters.items() if n not in given and parameter.default is parameter.empty]
    if missing:
        raise LaunchError(f"`{missing[0]}` is missing among its arguments")
    options = {name: given.pop(name) for name in OPTIONS if given.get(name) is not None and name not in names}
    return kernel, {n: given.get(n, parameter.default) for n, parameter in parameters.items()}, options


def specialise(kernel: JITFunction, arguments: dict[str, Any]) -> tuple[dict, dict, dict]:
    """Types, constants and alignments, as a launch would find them: 1 becomes a constant, multiples of 16 are noted."""
    signature, constants, attributes = {}, {}, {}
    for parameter in kernel.params:
        name, value = parameter.name, arguments[parameter.name]
        value = value.value if isinstance(value, tl.constexpr) else value
        special = not parameter.do_not_specialize
        if parameter.is_constexpr or value is None or special and _is_one(value):
            signature[name], constants[name] = "constexpr", value
            continue
        try:
            signature[name] = mangle_type(value)
        except Exception:  # of several kinds, all of them saying that there is no such type
            raise LaunchError(f"`{name}` is a {type(value).__name__}, and kernels take tensors and numbers") from None
        parts = {(parameter.num, i): part for i, part in enumerate(value)} if isinstance(value, tuple) else {}
        constants |= {place: part for place, part in parts.items() if part is None or _is_one(part)}
        for place, part in (parts or {(parameter.num,): value}).items():
            if special and _is_aligned(part):
                attributes[place] = [["tt.divisibility", 16]]
    return signature, constants, attributes


def _is_one(value: Any) -> bool:
    return type(value) is int and value == 1


def _is_aligned(value: Any) -> bool:
    aligned = value.data_ptr() if hasattr(value, "data_ptr") else value
    return type(aligned) is int and aligned % 16 == 0
