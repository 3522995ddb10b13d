"""A stand-in for the result of `kernel.warmup(...)` where kernels are not compiled to the end. A host asks it before
choosing a grid.

The number of programs that fit on an SM at once is min(registers of an SM / those of a program, shared memory of an SM / that of
a program). The compiler tells the shared memory. Only the assembler knows the registers, and a process that runs student code may
not start it. So the number told is the most registers that a thread may have while every program still fits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from types import SimpleNamespace
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction

from course_lib.compiled import lower
from course_lib.compiled.complaints import complaint
from course_lib.compiled.launch import resolve
from course_lib.compiled.places import Places
from course_lib.compiled.text import Text
from course_lib.hardware import gpu
from course_lib.ttir.frontend import Front, NotAnArgument, front_of
from course_lib.ttir.launching import MOST_THREADS, WARP, KernelError

WARPS, STAGES = 4, 3  # where a launch names none
Launch = Callable[..., Any]  # (*arguments, grid=..., **options)


class Warmed:
    """A kernel that is ready to be launched: `warmed[grid](...)`, with all arguments in their order.

    n_regs      32-bit registers of a thread, at most
    n_spills    0: of the assembler's, as they are not known
    metadata    shared, in bytes; name, num_warps, num_stages, num_ctas, target
    """

    n_spills, n_max_threads = 0, MOST_THREADS

    def __init__(self, name: str, options: dict[str, Any], target: GPUTarget, shared: int, launch: Launch) -> None:
        warps = options.get("num_warps", WARPS)
        own = {
            "num_warps": warps,
            "num_stages": options.get("num_stages", STAGES),
            "num_ctas": options.get("num_ctas", 1),
        }
        self.name, self.metadata = name, SimpleNamespace(name=name, shared=shared, target=target, **own)
        self.n_regs = registers_of_a_thread(warps)
        self._launch = partial(launch, **options)  # which its code is made for

    def _init_handles(self) -> None:
        """Load the kernel into a GPU, which tutorials ask for."""

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return partial(self._launch, grid=grid)

    def __getattr__(self, name: str) -> Any:
        raise KernelError(
            f"`warmup` tells `n_regs`, `metadata.shared` and the like; `{name}` is there on a GPU alone: a check runs kernels on any "
            "machine."
        )


def registers_of_a_thread(warps: int) -> int:
    """The most that the assembler may give each thread of a program: in eights, and so that one program fits on an SM."""
    card = gpu.planned_for()
    return min(card.registers_per_thread, card.registers_per_sm // (WARP * warps) // 8 * 8)


def warmed(kernel: JITFunction, args: tuple, options: dict[str, Any], launch: Launch) -> Warmed:
    """The kernel as `warmup` with these arguments returns it. Raises KernelError, with a sentence, if the compiler refuses it."""
    architecture = gpu.planned_for().architecture
    target = GPUTarget("cuda", int(architecture.removeprefix("sm_")), WARP)
    name = kernel.fn.__name__
    try:
        function, arguments, options = resolve(kernel, args, options)
    except NotAnArgument as error:
        raise KernelError(f"kernel `{name}` cannot be warmed up so: {error}.") from None
    try:
        front = front_of(function, arguments, options)
        shared = _shared_bytes(front, Text(front, arguments, target).text, target)
    except Exception as error:  # the compiler's, of many kinds
        raise KernelError(complaint(Places(function, arguments), architecture, error)) from None
    return Warmed(name, options, target, shared, launch)


@lru_cache(maxsize=64)  # a host asks before each launch
def _shared_bytes(front: Front, text: str, target: GPUTarget) -> int:
    return lower.shared_bytes_of(text, target, front.options)
