"""Units whose marks are published: what has been graded stays as it is, whatever changes in the course."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

from grader import disk


def since(home: Path, unit: str) -> str:
    """The day on which the unit was frozen, as 2026-11-30; "" if it is not."""
    return _units(home).get(unit, "")


def freeze(home: Path, unit: str) -> None:
    """Keep the marks of everybody who has been graded in this unit."""
    _write(home, {unit: date.today().isoformat()} | _units(home))


def thaw(home: Path, unit: str) -> None:
    """Let the next autograde change marks again."""
    _write(home, {name: day for name, day in _units(home).items() if name != unit})


def _units(home: Path) -> dict[str, str]:
    return disk.read(home / "frozen.json")


def _write(home: Path, units: dict[str, str]) -> None:
    disk.write({home / "frozen.json": json.dumps(units, indent=1).encode()})
