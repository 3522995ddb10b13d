"""Units whose marks are published: what has been graded stays as it is, whatever changes in the course.

frozen.json      unit -> since when nobody who has been graded is judged again
exported.json    unit -> when its marks left for the LMS: whoever has not handed in again since keeps them, though the course changes
"""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

from grader import disk


def since(home: Path, unit: str) -> str:
    """Return the day on which the unit was frozen, as 2026-11-30; "" if it is not."""
    return disk.read(home / "frozen.json").get(unit, "")


def exported(home: Path, unit: str) -> str:
    """Return the day on which marks of the unit were last exported; "" if they were not, or have been thawed since."""
    return disk.read(home / "exported.json").get(unit, "")


def freeze(home: Path, unit: str) -> None:
    """Freeze the marks of everybody who has been graded in this unit."""
    _write(home / "frozen.json", {unit: date.today().isoformat()} | disk.read(home / "frozen.json"))


def note_export(home: Path, unit: str) -> None:
    """Record that marks of this unit were exported today."""
    _write(home / "exported.json", disk.read(home / "exported.json") | {unit: date.today().isoformat()})


def thaw(home: Path, unit: str) -> None:
    """Let the next autograde change marks again."""
    for path in (home / "frozen.json", home / "exported.json"):
        if unit in (units := disk.read(path)):
            _write(path, {name: day for name, day in units.items() if name != unit})


def _write(path: Path, units: dict[str, str]) -> None:
    disk.write({path: json.dumps(units, indent=1).encode()})
