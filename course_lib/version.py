"""The version of this course, which pyproject.toml has."""

import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


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
