"""The kernels of unit 04 against a copy of as many bytes, on a GPU.

    python benchmarks/coalescing.py

Each line: milliseconds of the kernel, and copy time / kernel time, both from one run. A student's full bonus is at 0.8.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

SOURCE = Path(__file__).parents[1] / "solutions" / "04_memory_coalescing.py"
SIZE = 8192


@dataclass(frozen=True)
class Kernel:
    """A function of the unit, arguments for it, and the bytes that it must read and write."""

    name: str
    arguments: Callable[[], tuple[Any, ...]]
    nbytes: Callable[..., int]


def matrix(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, device="cuda").to(dtype)


def in_and_out(x: torch.Tensor, *_: torch.Tensor) -> int:
    return 2 * x.numel() * x.element_size()


KERNELS = [
    Kernel("row_copy", lambda: (matrix(SIZE, SIZE),), in_and_out),
    Kernel("column_sum", lambda: (matrix(SIZE, SIZE),), lambda x: x.numel() * x.element_size() + 4 * x.shape[1]),
    Kernel("transpose", lambda: (matrix(SIZE, SIZE),), in_and_out),
    Kernel("gather_rows", lambda: (matrix(SIZE, SIZE), torch.randperm(SIZE, device="cuda")), in_and_out),
    Kernel("deinterleave", lambda: (matrix(SIZE * SIZE),), in_and_out),
]


def load(source: Path, names: list[str]) -> dict[str, Callable]:
    """The functions of a unit, and nothing that it draws or checks: its imports and definitions alone are run.

    Triton reads the source of a kernel from its file, at its own line: the lines stay where they are.
    """
    tree = ast.parse(source.read_text())
    kept = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.Import)]
    scope: dict[str, Any] = {"__name__": source.stem}
    exec(compile(ast.Module(kept, type_ignores=[]), str(source), "exec"), scope)
    return {name: scope[name] for name in names}


def milliseconds(pairs: int, launch: Callable[[], Any], copy: Callable[[], Any]) -> tuple[float, float]:
    """Medians of launch and copy, taken in turns."""
    from triton.testing import do_bench

    times = [(do_bench(launch, warmup=5, rep=20), do_bench(copy, warmup=5, rep=20)) for _ in range(pairs)]
    return tuple(sorted(side)[pairs // 2] for side in zip(*times, strict=True))


def main() -> None:
    functions = load(SOURCE, [kernel.name for kernel in KERNELS])
    print(torch.cuda.get_device_name(), f"torch {torch.__version__}")
    for kernel in KERNELS:
        for dtype in (torch.float32, torch.float16):
            first, *rest = kernel.arguments()
            arguments = (first.to(dtype), *rest)
            function, nbytes = functions[kernel.name], kernel.nbytes(*arguments)
            source = torch.randn(nbytes // 8, device="cuda")
            target = torch.empty_like(source)
            own, copy = milliseconds(9, lambda f=function, a=arguments: f(*a), lambda s=source, t=target: t.copy_(s))
            print(f"{kernel.name:14} {str(dtype):14} {own:.3f} ms  copy {copy:.3f} ms  ratio {copy / own:.3f}")


if __name__ == "__main__":
    main()
