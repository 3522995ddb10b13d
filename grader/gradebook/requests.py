"""Requests to look at a mark again: a file `regrade.txt` that a student hands in beside the notebook, through the exchange.

It stays until the student hands in without it, or somebody removes it. Whoever changes nothing but that file keeps the time of
handing in (exchange.py).
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from grader.gradebook.exchange import NOTE_BYTES, REQUEST, plain

SHOWN = 300  # letters of a request in a table


def of_unit(home: Path, unit: str) -> dict[str, str]:
    """Map each student to their request, on one line without terminal control characters."""
    asked = {}
    for path in sorted(home.glob(f"submitted/*/{unit}/{REQUEST}")):
        with contextlib.suppress(OSError):
            text = plain(path, NOTE_BYTES[REQUEST]).decode("utf-8", "replace")
            words = "".join(letter if letter.isprintable() else " " for letter in text).split()
            if words:
                asked[path.parents[1].name] = " ".join(words)[:SHOWN]
    return asked
