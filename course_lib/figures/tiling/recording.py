"""Measurements on an H200, and whose they are."""

from typing import Any

from course_lib.hardware import recordings

TERA, MIB, GIB = 1e12, 1 << 20, 1 << 30
SIDES = [16, 32, 64, 128, 256]
ITEMSIZE = {"bfloat16": 2, "float32": 4}


def recorded() -> dict[str, Any]:
    """The measurements of benchmarks/tiling.py on one H200: machine, date, tiles, cublas, orders, curve, vocabulary."""
    return recordings.read("tiling")


def whose() -> str:
    """Say on which machine and on which day the numbers were recorded."""
    return f"recorded on one {recorded()['machine']}, {recorded()['date']}"
