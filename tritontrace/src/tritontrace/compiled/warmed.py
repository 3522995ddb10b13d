"""A stand-in for the result of `kernel.warmup(...)` where kernels are not compiled to the end. A host asks it before
choosing a grid.

The number of programs that fit on an SM at once is min(registers of an SM / those of a program, shared memory of an SM / that of
a program). The compiler tells the shared memory. Only the assembler knows the registers, and a process that runs author code may
not start it. So the number told is the most registers that a thread may have while every program still fits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache, partial
from types import SimpleNamespace
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction

from tritontrace import gpu
from tritontrace.compiled import lower
from tritontrace.compiled.assembly import registers as registers_of
from tritontrace.compiled.complaints import complaint
from tritontrace.compiled.launch import resolve
from tritontrace.compiled.places import Places
from tritontrace.compiled.text import Text
from tritontrace.messages import message_of, say
from tritontrace.ttir.frontend import Front, NotAnArgument, front_of
from tritontrace.ttir.launching import MOST_THREADS, WARP, KernelError

WARPS, STAGES = 4, 3  # where a launch names none
KNOWN = (
    "n_regs",
    "n_spills",
    "n_max_threads",
    "metadata",
    "name",
    "asm",
    "_init_handles",
)  # of a launch, by the compiler
Launch = Callable[..., Any]  # (*arguments, grid=..., **options)


class Warmed:
    """The result of kernel.warmup(...): a compiled kernel that is launched by `warmed[grid](...)`, with all arguments in their order.

    launch      what a launch calls, with the options that its code is made for
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
        self._launch = launch

    def _init_handles(self) -> None:
        """Load the kernel into a GPU, which tutorials ask for."""

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return partial(self._launch, grid=grid)

    def __getattr__(self, name: str) -> Any:
        raise KernelError(say("launch.run.warmed", name=name))


def registers_of_a_thread(warps: int) -> int:
    """Return the most registers that the assembler may give each thread: a multiple of 8, and so that one program fits on an SM."""
    card = gpu.planned_for()
    return min(card.registers_per_thread, card.registers_per_sm // (WARP * warps) // 8 * 8)


def warmed(kernel: JITFunction, args: tuple, options: dict[str, Any], launch: Launch) -> Warmed:
    """Compile a kernel as `warmup` with these arguments does. Raises KernelError, with a message, if the compiler refuses it."""
    architecture = gpu.planned_for().architecture
    target = GPUTarget("cuda", int(architecture.removeprefix("sm_")), WARP)
    name = kernel.fn.__name__
    try:
        function, arguments, options = resolve(kernel, args, options)
    except NotAnArgument as error:
        raise KernelError(say("launch.run.not_warmed", kernel=name, reason=error.message)) from None
    try:
        front = front_of(function, arguments, options)
        shared = _shared_bytes(front, Text(front, arguments, target).text, target)
    except Exception as error:  # the compiler's, of many kinds
        raise KernelError(complaint(Places(function, arguments), architecture, error)) from None
    return Warmed(name, options, target, shared, partial(launch, **_beside_parameters(kernel, options)))


def _beside_parameters(kernel: JITFunction, options: dict[str, Any]) -> dict[str, Any]:
    """The options that a later launch takes over. One that is a parameter as well, such as `num_stages: tl.constexpr`, comes with
    the later launch's arguments."""
    return {name: value for name, value in options.items() if name not in kernel.arg_names}


@lru_cache(maxsize=64)  # a host asks before each launch
def _shared_bytes(front: Front, text: str, target: GPUTarget) -> int:
    return lower.shared_bytes_of(text, target, front.options)


class LaunchResult:
    """The result of `kernel[grid](...)`: it can be launched again, and is compiled only when its attributes need that.

    n_regs, n_spills, asm  as the assembler has them;  all else  as Warmed has it
    assemble               whether the assembler may be started here: else n_regs is Warmed's, and there is no asm
    """

    def __init__(
        self, kernel: JITFunction, args: tuple, options: dict[str, Any], launch: Launch, assemble: bool
    ) -> None:
        self._kernel, self._args, self._options, self._launch, self._assemble = kernel, args, options, launch, assemble

    @cached_property
    def _warmed(self) -> Warmed:
        return warmed(self._kernel, self._args, self._options, self._launch)

    @cached_property
    def _built(self) -> Any:
        from tritontrace.compiled import _assembled  # which imports this module

        try:
            return _assembled(self._kernel, self._args, self._options, gpu.planned_for().architecture)
        except ValueError as error:
            raise KernelError(message_of(error)) from None

    @property
    def _registers(self) -> tuple[int, int]:
        registers, spill_bytes = registers_of(self._built.asm["cubin"], self._built.asm["ptx"])
        return registers or self._warmed.n_regs, (spill_bytes or 0) // 4

    def __getattr__(self, name: str) -> Any:
        if name not in KNOWN:  # whoever looks what kind of object this is must not start the compiler
            raise AttributeError(f"the result of a launch has no `{name}`")
        if self._assemble and name in ("n_regs", "n_spills"):
            return self._registers[name == "n_spills"]
        return self._built.asm if self._assemble and name == "asm" else getattr(self._warmed, name)

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """A launch with all arguments in their order, or without those that are constants: they stay as they were."""
        return partial(self._again, grid)

    def _again(self, grid: Any, *args: Any, **more: Any) -> Any:
        parameters = self._kernel.params
        options = _beside_parameters(self._kernel, self._options)
        if len(args) == sum(not parameter.is_constexpr for parameter in parameters) < len(parameters):
            _, before, _ = resolve(self._kernel, self._args, self._options)
            given = iter(args)
            args = tuple(before[each.name] if each.is_constexpr else next(given) for each in parameters)
        return self._launch(*args, grid=grid, **{**options, **more})
