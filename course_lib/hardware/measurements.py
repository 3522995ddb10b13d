"""Measurements: what benchmarks/ found on one GPU, named in each, for readers without one. They are kept in
course_lib/hardware/measured/NAME.json, in SI units.

found = measured("mystery_plot")   in course_lib and notebooks
recorded = write("mystery_plot", found)   in benchmarks/, whose pages are made of what was recorded
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "measured"


def path(name: str) -> Path:
    """Return the file with the measurements of that name."""
    return FOLDER / f"{name}.json"


@cache
def measured(name: str) -> dict[str, Any]:
    """Load the measurements of that name: machine, date, and the numbers. Raises FileNotFoundError without them."""
    return json.loads(path(name).read_text(encoding="utf-8"))


def whose(name: str) -> str:
    """Return a phrase that says on which machine and on which day the measurements of that name were made."""
    return f"one {measured(name)['machine']}, {measured(name)['date']}"


def write(name: str, found: dict[str, Any], digits: int = 5) -> dict[str, Any]:
    """Write measurements, one line for each key, and return them as `measured` reads them. Floats are rounded to `digits` significant
    digits, since more are noise: a page made of `found` may round the last digit otherwise."""
    lines = [
        f" {json.dumps(key)}: {json.dumps(_rounded(value, digits), ensure_ascii=False)}" for key, value in found.items()
    ]
    path(name).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    measured.cache_clear()
    return measured(name)


def _rounded(value: Any, digits: int) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(item, digits) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(item, digits) for item in value]
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value
