"""Recordings: what benchmarks/ measured on one H200, for readers without a GPU. They are kept in
course_lib/hardware/measured/NAME.json, in SI units.

found = read("mystery_plot")       in course_lib
write("mystery_plot", found)       in benchmarks/
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "measured"


def path(name: str) -> Path:
    """The file of a recording."""
    return FOLDER / f"{name}.json"


@cache
def read(name: str) -> dict[str, Any]:
    """The recording of that name. Raises FileNotFoundError without it."""
    return json.loads(path(name).read_text(encoding="utf-8"))


def write(name: str, found: dict[str, Any], digits: int = 5) -> None:
    """Write a recording, one line for each key. Floats are rounded to `digits` significant digits, since more are noise."""
    lines = [
        f" {json.dumps(key)}: {json.dumps(_rounded(value, digits), ensure_ascii=False)}" for key, value in found.items()
    ]
    path(name).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _rounded(value: Any, digits: int) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(item, digits) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(item, digits) for item in value]
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value
