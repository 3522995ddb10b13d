"""Measurements on an H200, and whose they are."""

from course_lib.hardware.measurements import whose as whose_are

TERA, MIB, GIB = 1e12, 1 << 20, 1 << 30
SIDES = [16, 32, 64, 128, 256]
ITEMSIZE = {"bfloat16": 2, "float32": 4}


def whose() -> str:
    """Say on which machine and on which day the numbers were recorded."""
    return f"recorded on {whose_are('tiling')}"
