"""Gluon kernels of research/, compiled for a Hopper GPU without one."""

from __future__ import annotations

from typing import Any

from triton.backends.compiler import GPUTarget
from triton.compiler import compile as compiled
from triton.experimental.gluon._runtime import GluonASTSource
from triton.runtime.jit import mangle_type

SHARED_BYTES = 232_448  # that a program may have


def compiled_for_hopper(kernel: Any, *values: Any, **constants: Any) -> Any:
    """Compile the kernel as a launch with these values would, with 4 warps. Returns Triton's compiled kernel."""
    names = kernel.arg_names
    signature = dict(zip(names, map(mangle_type, values), strict=False)) | dict.fromkeys(constants, "constexpr")
    source = GluonASTSource(kernel, signature, {(names.index(name),): value for name, value in constants.items()})
    return compiled(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})
