"""Compare what two versions of a script's kernels move: tritontrace diff old.py new.py"""

from tritontrace.diffs.command import main

__all__ = ["main"]
