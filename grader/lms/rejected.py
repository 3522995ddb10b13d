"""Files that students handed in and `import` did not take: rejected.json next to the submissions, unit -> student -> why.

Who stands there has handed in something, and a person should look at it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path

from grader import disk

KEPT = "rejected.json"


def remember(home: Path, unit: str, reasons: Mapping[str, str], imported: Collection[str]) -> None:
    """Save why files of these students were not imported, and forget those whose notebook was."""
    known = disk.read(home / KEPT)
    before = known.get(unit, {})
    now = {student: why for student, why in {**before, **reasons}.items() if student not in imported}
    if now != before:
        disk.write({home / KEPT: json.dumps(known | {unit: now}, indent=1).encode()})


def sentences(home: Path, unit: str) -> dict[str, str]:
    """Map each student whose file was not imported to a sentence on it."""
    known = disk.read(home / KEPT).get(unit, {})
    return {student: f"handed in a file that is no notebook of this unit: {why}" for student, why in known.items()}
