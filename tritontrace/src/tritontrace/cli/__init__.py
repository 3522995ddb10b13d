"""The command: `tritontrace script.py`, and `tritontrace COMMAND ...` for each module here that has a `main`.

trace.py     a script's kernels, counted: what the command does without another word
simulate.py  a script's kernels in Gluon, in many orders
prove.py     a script's kernels, for all sizes
diff.py      two scripts, or what they counted, line by line
script.py    what all need: a script, run as Python would
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from pkgutil import iter_modules

__all__ = ["main"]
COMMANDS = {module.name for module in iter_modules(__path__)} - {"script"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name, those of the process if none are given; return the exit status.

    >>> main(["there_is_no_such_script.py"])  # says so on stderr
    2
    """
    first, *rest = [*(sys.argv[1:] if arguments is None else arguments)] or ["--help"]
    command, rest = (first, rest) if first in COMMANDS else ("trace", [first, *rest])
    return import_module(f"tritontrace.cli.{command}").main(rest)
