"""The version of this course, which pyproject.toml has, and the names that things had in the release before it."""

import sys
import tomllib
import warnings
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


def _version() -> str:
    """The version of the checkout that this file lies in, or of the installed package; "" if neither says one."""
    try:
        return tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    except (OSError, ValueError, KeyError):
        pass
    try:
        return version("strides-to-flashattention")
    except PackageNotFoundError:
        return ""


VERSION = _version()


def moved(old: str, new: str) -> None:
    """Warn whoever called the function that asks of an old name, which goes with the next release."""
    warnings.warn(f"{old} is {new} now; the old name goes with the next release.", DeprecationWarning, stacklevel=3)


def old_names(module: str, now: Mapping[str, str], elsewhere: Mapping[str, Any] | None = None) -> Callable[[str], Any]:
    """Make a module's __getattr__, which still finds what had another name there. now: old name -> new name, or what to
    write; elsewhere: old name -> what it stands for, where that is not in the module."""

    def found(name: str) -> Any:
        if name not in now:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        moved(name, now[name])
        return elsewhere[name] if elsewhere and name in elsewhere else getattr(sys.modules[module], now[name])

    return found
