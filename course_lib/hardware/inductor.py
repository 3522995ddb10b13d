"""Triton code that torch.compile writes for some functions, and how many kernels it launches.

On a GPU it is asked here; `measured("fusion")` is the same from one H200, for readers without one. `python benchmarks/fusion.py`
records anew. Inductor is the part of torch.compile that writes the kernels.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch

from course_lib.hardware.measurements import measured
from tritontrace.colours import INK
from tritontrace.words import plural

F = torch.nn.functional


# ------------------------------------------------------------------------------------------------ functions


def sin2_plus_cos2(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.sin() ** 2 + y.cos() ** 2


def bias_gelu(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.gelu(x + bias)


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, dim=1)


def rmsnorm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    return F.rms_norm(x, weight.shape, weight, eps)


def add_rmsnorm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    h = x + residual
    return F.rms_norm(h, weight.shape, weight, eps), h


def cross_entropy(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits, target, reduction="none")


def product_gelu(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.gelu(x @ w)


def over_its_sum(x: torch.Tensor) -> torch.Tensor:
    return x / x.sum()


def print_between(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    print("half way")
    return y.cos()


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.softmax(q @ k.T, dim=1) @ v


FUNCTIONS: dict[str, Callable] = {
    f.__name__: f
    for f in (
        sin2_plus_cos2,
        bias_gelu,
        softmax,
        rmsnorm,
        add_rmsnorm,
        cross_entropy,
        product_gelu,
        over_its_sum,
        print_between,
        attention,
    )
}
LAUNCHED = {  # shapes of float32 inputs for which launches are counted
    "sin2_plus_cos2": [(1 << 24,), (1 << 24,)],
    "softmax": [(4096, 4096)],
    "add_rmsnorm": [(4096, 4096), (4096, 4096), (4096,)],
    "product_gelu": [(4096, 4096), (4096, 4096)],
    "over_its_sum": [(1 << 24,)],
    "print_between": [(1 << 24,)],
    "attention": [(4096, 1024), (4096, 1024), (4096, 1024)],
}
SHOWN = {  # a name in the recording -> function, shapes of its inputs
    "sin2_plus_cos2": ("sin2_plus_cos2", [(1 << 24,), (1 << 24,)]),
    "softmax, rows of 1024": ("softmax", [(16384, 1024)]),
    "softmax, rows of 32768": ("softmax", [(2048, 32768)]),
}


# ------------------------------------------------------------------------------------------------ asked on a GPU


def compiled(name: str, *arguments: Any) -> Callable[[], object]:
    """Compile the function of that name by torch.compile for these arguments, and bind it to them."""
    import torch._inductor.config

    torch._inductor.config.compile_threads = 1  # no pool of workers, which a sandbox would not let start
    torch._dynamo.reset()
    function = torch.compile(FUNCTIONS[name], dynamic=False)
    function(*arguments)
    return lambda: function(*arguments)


def triton_code(function: Callable, *arguments: Any) -> list[str]:
    """Return the Triton kernels that torch.compile writes for these arguments, which lie on a GPU."""
    from torch._inductor.utils import run_and_get_code

    torch._dynamo.reset()
    _, modules = run_and_get_code(torch.compile(function, dynamic=False), *arguments)
    written = [
        text for module in modules for text in re.findall(r"async_compile\.triton\([^,]+, '''(.*?)'''", module, re.S)
    ]
    return [text[text.index("@triton.jit") :].strip() + "\n" for text in written]


def launches(function: Callable, *arguments: Any) -> int:
    """Count the GPU kernels of one call of the compiled function, by torch's profiler."""
    from torch.profiler import ProfilerActivity, profile

    torch._dynamo.reset()
    made = torch.compile(function, dynamic=False)
    for _ in range(3):
        made(*arguments)
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        made(*arguments)
        torch.cuda.synchronize()
    on_gpu = [e for e in seen.events() or () if e.device_type.name == "CUDA"]
    return sum(1 for e in on_gpu if not e.name.lower().startswith(("memcpy", "memset")))


def drawn(shapes: list[tuple[int, ...]]) -> list[torch.Tensor]:
    """Draw normal tensors of these shapes on the GPU."""
    return [torch.randn(*shape, device="cuda") for shape in shapes]


# ------------------------------------------------------------------------------------------------ recorded


def recorded_launches() -> dict[str, int]:
    """Return the recorded number of launches of one call, by function."""
    return measured("fusion")["launches"]


class GeneratedCode(str):
    """Source text that a notebook shows highlighted."""

    def _repr_html_(self) -> str:
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import PythonLexer

        page = f"background: white; color: {INK}; padding: 0.5em"  # legible in a dark notebook too
        return highlight(str(self), PythonLexer(), HtmlFormatter(noclasses=True, nobackground=True, prestyles=page))

    def __repr__(self) -> str:
        return str(self)


def generated(name: str) -> GeneratedCode:
    """Return the Triton code for an entry of SHOWN: generated now where there is a GPU, else as recorded; its first line says which."""
    if name not in SHOWN:
        raise ValueError(f"no code is kept for {name!r}; there is {', '.join(SHOWN)}")
    if torch.cuda.is_available():
        function, shapes = SHOWN[name]
        kernels = triton_code(FUNCTIONS[function], *drawn(shapes))
        where = f"written just now for {torch.cuda.get_device_name()} by torch {torch.__version__}"
    else:
        found = measured("fusion")
        kernels = found["code"][name]
        where = f"recorded on an {found['machine']} with torch {found['torch']}, {found['date']}"
    return GeneratedCode(f"# {plural(len(kernels), 'kernel')}, {where}\n" + "\n".join(kernels))
