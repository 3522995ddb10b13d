"""One sentence for a launch outside of `trace()` where there is no GPU."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tritontrace.messages import say

drivers: Any = import_module("triton.runtime.driver")  # the module; triton.runtime has its `driver` under that name

SENTENCE = say("launch.run.no_gpu")


def say_so() -> None:
    """Replace Triton's error "0 active drivers" by SENTENCE. It still looks for a GPU itself, and only when it needs one."""
    if getattr(drivers._create_driver, "__module__", "") == __name__:
        return
    create = drivers._create_driver

    def create_or_say_so():
        try:
            return create()
        except RuntimeError as error:
            if not str(error).startswith("0 active drivers"):
                raise
        raise RuntimeError(SENTENCE)  # out here: Triton's own words would stand above it

    drivers._create_driver = create_or_say_so
    if "default" in vars(drivers.driver):  # Triton 3.4 has taken hold of it
        drivers.driver.default._init_fn = create_or_say_so
