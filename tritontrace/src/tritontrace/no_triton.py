"""Triton's names where Triton has no build, such as macOS: kernels can be read and defined there, and torch alone runs.

`install` makes `import triton` work with names that stand for nothing. A launch, a trace or a compilation then says what is missing.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

__all__ = ["SENTENCE", "TritonMissing", "demand", "install", "is_missing"]
SENTENCE = (
    "Triton is not installed here, and has builds for Linux alone: to launch, trace or check a kernel, go on under Linux, in WSL2, "
    "a container or a hosted notebook"
)


ARITHMETIC = {"cdiv": lambda x, y: -(-x // y), "next_power_of_2": lambda n: 1 << (n - 1).bit_length() if n > 0 else 0}
# with a small letter
TYPES = {"dtype", "tensor", "tensor_descriptor", "pointer_type", "block_type", "constexpr", "tuple"}


class TritonMissing(RuntimeError):
    """Raised where a stand-in for Triton is called, since Triton is not installed."""

    def __init__(self) -> None:
        super().__init__(SENTENCE)

    def _render_traceback_(self) -> list[str]:
        """The one line that IPython shows in place of a stack trace."""
        return [f"{SENTENCE}."]


class JITFunction:
    """Stand-in for triton.JITFunction: a kernel that can be defined but not launched."""

    def __init__(self, fn: Any = None, **_: Any) -> None:
        self.fn, self.__doc__, self.__name__ = fn, getattr(fn, "__doc__", ""), getattr(fn, "__name__", "kernel")

    def __getitem__(self, grid: Any) -> Any:
        return self.launch

    def run(self, *_: Any, **__: Any) -> Any:
        """Refuse a launch: raises TritonMissing."""
        raise TritonMissing

    __call__ = warmup = launch = run  # `launch`: a trace puts its own in the place of `run`


def _decorator(*arguments: Any, **_: Any) -> Any:
    """Decorate as `jit` does, with arguments or without."""
    if len(arguments) == 1 and callable(arguments[0]) and not isinstance(arguments[0], Name):
        return arguments[0] if isinstance(arguments[0], JITFunction) else JITFunction(arguments[0])
    return _decorator


def _nothing(*_: Any, **__: Any) -> None: ...


class Name(ModuleType):
    """Stand-in for a name of Triton's, of a module or of what is in one: it can be read and passed on, and does nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self.__name__ == "triton" and name in ARITHMETIC:
            return ARITHMETIC[name]
        if name in ("jit", "autotune", "heuristics", "aggregate", "builtin", "constexpr_function"):
            made: Any = _decorator
        elif name == "JITFunction":
            made = JITFunction
        elif name.endswith(("Error", "Failure", "Construct", "Resources")):
            made = type(name, (Exception,), {"__module__": self.__name__})
        elif name[0].isupper() or name in TYPES:
            made = dataclass(init=False)(type(name, (), {"__module__": self.__name__, "__init__": _nothing}))
        else:
            made = Name(f"{self.__name__}.{name}")
        setattr(self, name, made)
        return made

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise TritonMissing


class _Finder(MetaPathFinder, Loader):
    torch_asks = False

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        if name.partition(".")[0] != "triton" or self.torch_asks:
            return None
        if name == "triton":
            self.torch_asks = True
            try:  # torch keeps the answer, which must be no, or it would compile for Triton
                import_module("torch.utils._triton").has_triton_package()
            finally:
                self.torch_asks = False
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Name(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(__file__="triton/__init__.py", __version__="0.0.0")


def is_missing() -> bool:
    """Whether `import triton` gives this module's stand-ins.

    >>> is_missing()
    False
    """
    return any(isinstance(finder, _Finder) for finder in sys.meta_path)


def demand() -> None:
    """Raise TritonMissing where Triton is not installed.

    >>> demand()
    """
    if is_missing():
        raise TritonMissing


def install() -> None:
    """Make `import triton` work where Triton is not installed. Elsewhere it does nothing.

    >>> install()
    >>> is_missing()
    False
    """
    if "triton" not in sys.modules and find_spec("triton") is None:
        sys.meta_path.append(_Finder())
