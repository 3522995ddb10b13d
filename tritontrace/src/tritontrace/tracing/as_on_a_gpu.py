"""A simulated GPU for host code: code that was written for a GPU runs here without one, and gets the answers that one
would give.

Recording runs no kernel and needs no GPU. What such code does with devices, streams, events and memory means nothing then, but it
must not fail. Questions about the GPU are answered for this machine's, or for an H200 (gpu.planned_for).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import torch
import triton
from torch.autograd.function import BackwardCFunction
from torch.overrides import TorchFunctionMode
from triton._C import libtriton
from triton.backends.compiler import GPUTarget

from tritontrace import gpu, no_triton
from tritontrace.messages import say
from tritontrace.ttir.launching import MOST_THREADS, WARP, KernelError

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)


@contextmanager
def as_on_a_gpu(card: gpu.GPU | None = None, tensors_on: torch.device = CPU) -> Iterator[OnTheCpu]:
    """Let code written for a GPU run here without one, or in a fork of a process that has one, inside the block.

    card        the GPU that answers; None: gpu.planned_for()
    tensors_on  what `x.device` says. Code of others may insist on CUDA

    >>> with as_on_a_gpu(), trace() as found:
    ...     torch.cuda.is_available()
    ...     on_the_gpu = torch.ones(1000, device="cuda")
    ...     _ = copy[(4,)](on_the_gpu, torch.empty_like(on_the_gpu), 1000, BLOCK=256)
    True
    >>> found.bytes
    8000
    """
    card = card or gpu.planned_for()
    patches = [(torch.cuda, name, value) for name, value in WITHOUT_EFFECT.items()]
    patches += [(torch.cuda.nvtx, name, value) for name, value in NVTX.items()]
    patches += [(torch.cuda, name, value) for name, value in _answers(card).items()]
    patches += [(torch.accelerator, name, value) for name, value in ACCELERATOR.items()]
    patches += [(torch, "set_default_device", _nothing()), (triton.testing, "do_bench", _once)]
    generator = PhiloxGenerator()
    generator.manual_seed(torch.initial_seed())
    patches += [(torch.cuda, name, generator.manual_seed) for name in ("manual_seed", "manual_seed_all")]
    patches += [(torch, "compile", _as_it_is), (torch.cuda, "default_generators", (generator,))]
    patches += [(getattr(libtriton, "nvidia", None), "cublas", SimpleNamespace(CublasLt=CublasLt))]
    patches += [(torch.autocast, "__init__", _on_the_cpu(torch.autocast.__init__))]
    mode = OnTheCpu(tensors_on)
    patches += [(BackwardCFunction, "apply", in_mode(mode, BackwardCFunction.apply))]
    patches = [(owner, name, value) for owner, name, value in patches if hasattr(owner, name)]  # as this torch has it
    patches += [(torch._C, "_cuda_getCurrentRawStream", _zero())]  # which a torch without CUDA lacks
    before = [(owner, name, getattr(owner, name, None)) for owner, name, _ in patches]
    drivers = dict(vars(triton.runtime.driver))
    try:
        for patch in patches:
            setattr(*patch)
        if not no_triton.is_missing():
            triton.runtime.driver.set_active(_driver(card, tensors_on))
        with mode:
            yield mode
    finally:
        vars(triton.runtime.driver).update(drivers)
        for owner, name, value in before:
            if value is None:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


class OnTheCpu(TorchFunctionMode):
    """Torch mode in which a device named in the code becomes the CPU, and `assert x.is_cuda` holds.

    tensors_on      what `x.device` says
    has_been_asked  whether anybody has read that
    """

    def __init__(self, tensors_on: torch.device = CPU) -> None:
        super().__init__()
        self._tensors_on = tensors_on
        self.has_been_asked = False

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if kwargs:
            kwargs = dict(kwargs)
            if kwargs.get("device") is not None:
                kwargs["device"] = _here(kwargs["device"])
            if "pin_memory" in kwargs:  # of host memory for a GPU's copies
                kwargs["pin_memory"] = False
        if function in (torch.Tensor.cuda, torch.Tensor.pin_memory):
            return args[0]
        if function == IS_CUDA:
            return True
        if function == DEVICE:
            self.has_been_asked = True
            device = function(*args)
            return device if device.type == "meta" else self._tensors_on
        if function is torch.Tensor.to and len(args) > 1 and isinstance(args[1], (str, int, torch.device)):
            args = (args[0], _here(args[1]), *args[2:])
        return function(*args, **kwargs) if kwargs else function(*args)


IS_CUDA, DEVICE = torch.Tensor.is_cuda.__get__, torch.Tensor.device.__get__  # pyright: ignore[reportAttributeAccessIssue] - properties


def _here(device: str | int | torch.device) -> str | int | torch.device:
    """The CPU for a device, which may be the number of a GPU; "meta" stays."""
    return device if not isinstance(device, int) and torch.device(device).type == "meta" else "cpu"


class Device:
    """Stand-in for torch.cuda.device, with one device."""

    idx = prev_idx = 0

    def __init__(self, device: Any = None) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: Any) -> None:
        pass


class Stream:
    """Stand-in for torch.cuda.Stream: everything is done when Python goes on."""

    cuda_stream = 0

    def __init__(self, device: Any = None, priority: int = 0, **_: Any) -> None:
        self.device, self.priority = torch.device("cpu"), priority

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def query(self) -> bool:
        return True

    def record_event(self, event: Any = None) -> Any:
        event = event or Event()
        event.record(self)
        return event

    def synchronize(self) -> None:
        pass

    def is_capturing(self) -> bool:
        """Whether a CUDA graph is being recorded."""
        return False

    wait_event = wait_stream = lambda self, other: None


class Event:
    """Stand-in for torch.cuda.Event, with this machine's clock."""

    def __init__(self, enable_timing: bool = False, **_: Any) -> None:
        self.seconds = 0.0

    def record(self, stream: Any = None) -> None:
        self.seconds = time.perf_counter()

    def elapsed_time(self, end: Event) -> float:
        """Return the milliseconds from this event to `end`."""
        return 1e3 * (end.seconds - self.seconds)

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass

    def wait(self, stream: Any = None) -> None:
        pass


class PhiloxGenerator(torch.Generator):
    """Stand-in for a GPU's generator, whose state is a seed and an offset; torch draws from the CPU's."""

    _offset = 0

    def manual_seed(self, seed: int) -> torch.Generator:
        self._offset = 0
        return super().manual_seed(seed)

    def get_state(self) -> torch.Tensor:
        seed = self.initial_seed()
        return torch.tensor([seed - (seed >> 63 << 64), self._offset]).view(torch.uint8)  # of 64 bits, as they are

    def set_state(self, new_state: torch.Tensor) -> torch.Generator:
        seed, offset = new_state.view(torch.int64).tolist()
        self.manual_seed(seed)
        self._offset = offset
        return self


class CUDAGraph:
    """Stand-in for torch.cuda.CUDAGraph in type annotations; it has no instances."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise KernelError(say("launch.run.graph"))


class CublasLt:
    """Stand-in for the cuBLAS that Triton's scripts call to compare with: torch computes it."""

    def __init__(self, workspace: torch.Tensor) -> None:
        pass

    def matmul(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
        """Compute c = a @ b.T in place."""
        c.copy_(a.float() @ b.float().T)

    def gemm(
        self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, d: torch.Tensor, alpha: float, beta: float
    ) -> None:
        """Compute d = alpha * a @ b.T + beta * c in place."""
        d.copy_(alpha * (a.float() @ b.float().T) + beta * c.float())


def _nothing() -> Callable[..., None]:
    return lambda *_, **__: None


def _zero() -> Callable[..., int]:
    return lambda *_, **__: 0


def _context() -> Callable[..., nullcontext]:
    return lambda *_, **__: nullcontext()


def in_mode(mode: TorchFunctionMode, apply: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that it runs with the mode active: torch calls backward functions without the caller's modes."""

    def applied(*args: Any) -> Any:
        with mode:
            return apply(*args)

    return applied


def _as_it_is(model: Any = None, **_: Any) -> Any:
    """Return what torch.compile makes of a function: itself, which runs eagerly."""
    return model if model is not None else lambda function: function


def _on_the_cpu(begin: Callable[..., None]) -> Callable[..., None]:
    """torch.autocast for a GPU, whose tensors are the CPU's here."""

    def begin_here(self: Any, device_type: str, dtype: torch.dtype | None = None, *more: Any, **named: Any) -> None:
        if device_type == "cuda":
            device_type, dtype = "cpu", dtype or torch.float16
        begin(self, device_type, dtype, *more, **named)

    return begin_here


def _once(function: Callable[[], Any], *_: Any, quantiles: Any = None, **__: Any) -> Any:
    """Call what triton.testing.do_bench would time, once. How long it takes here says nothing, so the answer is NaN."""
    function()
    return math.nan if quantiles is None else [math.nan for _ in quantiles]


def _no_launcher(*_: Any, **__: Any) -> None:
    """Refuse to launch what triton.compile returned."""
    raise KernelError(say("launch.run.machine_code"))


def _stream() -> Callable[..., Stream]:
    return lambda *_, **__: Stream()


def _each(names: str, make: Callable[[], Any]) -> dict[str, Any]:
    """A function for each name: torch._dynamo, which some of torch loads when first used, refuses to be loaded while several
    functions are one."""
    return {name: make() for name in names.split()}


# of torch.cuda: what concerns work that a GPU does, and here none does any
WITHOUT_EFFECT = {
    **_each("set_device synchronize init empty_cache set_stream seed seed_all", _nothing),
    **_each("reset_peak_memory_stats reset_accumulated_memory_stats", _nothing),
    **_each("reset_max_memory_allocated reset_max_memory_cached", _nothing),
    **_each("memory_allocated max_memory_allocated memory_reserved max_memory_reserved", _zero),
    **_each("device_of stream", _context),
    "device": Device,
    **_each("current_stream default_stream", _stream),
    "Stream": Stream,
    "Event": Event,
    "CUDAGraph": CUDAGraph,
    "is_current_stream_capturing": lambda: False,  # optimizers of torch 2.11 ask it where torch was built for CUDA
}
# of torch.accelerator, which torch's optimizers ask where torch was built for CUDA: there it would look for a driver
ACCELERATOR = {
    **_each("synchronize set_stream set_device_index", _nothing),
    **_each("current_device_index", _zero),
    **_each("current_stream", _stream),
}
NVTX = _each("mark range_push range_pop range_end", _nothing)
NVTX |= _each("range_start", _zero) | _each("range", _context)


def _answers(card: gpu.GPU) -> dict[str, Any]:
    """The answers that torch.cuda gives on that GPU, by the names of its functions."""
    major, minor = divmod(_capability(card), 10)
    properties = SimpleNamespace(
        name=card.name,
        major=major,
        minor=minor,
        multi_processor_count=card.sms,
        total_memory=card.hbm_bytes,
        warp_size=WARP,
        max_threads_per_block=MOST_THREADS,
        max_threads_per_multi_processor=card.threads_per_sm,
        regs_per_multiprocessor=card.registers_per_sm,
        shared_memory_per_block=48 << 10,  # without asking for more
        shared_memory_per_block_optin=card.shared_bytes_per_block,
        shared_memory_per_multiprocessor=card.shared_bytes_per_sm,
        L2_cache_size=card.l2_bytes,
    )
    return {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_properties": lambda device=None: properties,
        "get_device_capability": lambda device=None: (major, minor),
        "get_device_name": lambda device=None: card.name,
        "is_bf16_supported": lambda including_emulation=True: major >= 8,
        "mem_get_info": lambda device=None: (card.hbm_bytes, card.hbm_bytes),
        "get_rng_state": lambda device=None: torch.get_rng_state(),  # torch asks once it thinks that there is a GPU
        "set_rng_state": lambda state, device=None: torch.set_rng_state(state),
    }


def _driver(card: gpu.GPU, tensors_on: torch.device) -> Any:
    """A stand-in for Triton's driver that answers what Triton's tutorials ask, as on that GPU."""
    properties = {
        "multiprocessor_count": card.sms,
        "max_num_regs": card.registers_per_sm,
        "max_shared_mem": card.shared_bytes_per_block,
        "warpSize": WARP,
    }
    return SimpleNamespace(
        get_active_torch_device=lambda: tensors_on,  # where tensors are when this is asked
        get_current_device=lambda: 0,
        set_current_device=_nothing(),
        get_current_stream=_zero(),
        get_current_target=lambda: GPUTarget("cuda", _capability(card), WARP),
        get_device_interface=lambda: torch.cuda,
        launcher_cls=_no_launcher,
        utils=SimpleNamespace(get_device_properties=lambda device=0: dict(properties)),
    )


def _capability(card: gpu.GPU) -> int:
    """90 for an H200."""
    return int(card.architecture.removeprefix("sm_"))
