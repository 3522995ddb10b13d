"""FlagGems puts its kernels in the place of torch's operations on CUDA tensors. Here tensors are the CPU's, on which the engine itself
computes: the kernels stand in while the test's own code runs, and not within a launch."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from torch.overrides import _get_current_function_mode
from torch.utils._python_dispatch import TorchDispatchMode

os.environ["GEMS_VENDOR"] = "nvidia"  # else it asks nvidia-smi
import flag_gems
from flag_gems.runtime.register import Register

MODE: Any = _get_current_function_mode()  # by which tensors are a GPU's


class Gems(TorchDispatchMode):
    """A stand-in for `flag_gems.use_gems()`."""

    def __init__(self, unused: Any = None, **_: Any) -> None:
        super().__init__()
        self.functions: dict[str, Callable[..., Any]] = {}
        flag_gems.enable(lib=self, unused=unused or [], registrar=Register)

    def impl(self, key: str, function: Callable[..., Any], dispatch_key: str) -> None:
        self.functions[key] = function

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(function).removeprefix("aten.").removesuffix(".default")
        with MODE:  # which torch leaves while it calls an operation
            return self.functions.get(name, function)(*args, **(kwargs or {}))


flag_gems.use_gems = Gems
