"""Copies of a class's books: one that stays, from before marks change, and one that a dry run writes to and throws away.

snapshots/UNIT_DAY_TIME_CODE.db    the gradebook as it was before the course's version CODE judged the unit
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

BOOKS = "gradebook.db"
RULES = ("counts.json", "late.json")  # not what holds marks fast: a dry run asks what would change without that


def snapshot(home: Path, unit: str, code: str, *, resumed: bool) -> Path:
    """Copy the gradebook to snapshots/; return the copy. resumed: an earlier run for this code was stopped, and its copy is used."""
    folder, name = home / "snapshots", f"{code[:12]}.db"
    if resumed and (earlier := sorted(folder.glob(f"{unit}_*_{name}"))):
        return earlier[-1]
    folder.mkdir(mode=0o700, exist_ok=True)
    to = folder / f"{unit}_{datetime.now():%Y-%m-%d_%H%M%S}_{name}"
    _copy(home / BOOKS, to)
    return to


@contextlib.contextmanager
def rehearsal(home: Path, unit: str) -> Iterator[Path]:
    """Yield a temporary copy of all that an autograde of the unit reads and writes apart from submissions and verdicts."""
    for forgotten in home.glob(".dry_run.*"):  # of a process that was killed
        shutil.rmtree(forgotten, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=".dry_run.", dir=home) as name:
        folder = Path(name)
        (folder / "submitted").symlink_to(home / "submitted")
        for file in RULES:
            if (home / file).exists():
                shutil.copy2(home / file, folder / file)
        if (home / BOOKS).exists():
            _copy(home / BOOKS, folder / BOOKS)
        for graded in home.glob(f"autograded/*/{unit}"):
            shutil.copytree(graded, folder / graded.relative_to(home))
        for page in home.glob(f"feedback/*/{unit}/{unit}.html"):  # that there is one is all that is asked
            (folder / page.relative_to(home)).parent.mkdir(parents=True)
            (folder / page.relative_to(home)).touch()
        if (entered := home / "verdicts" / "entered" / unit).exists():
            shutil.copytree(entered, folder / entered.relative_to(home))
        yield folder


def _copy(book: Path, to: Path) -> None:
    """Copy a gradebook, also while formgrader writes to it; for the instructor's eyes alone, and whole or not at all."""
    draft = to.with_name(f".{to.name}.draft")
    draft.unlink(missing_ok=True)
    draft.touch(mode=0o600)
    try:
        with contextlib.closing(sqlite3.connect(book)) as old, contextlib.closing(sqlite3.connect(draft)) as new:
            old.backup(new)
        draft.replace(to)
    finally:
        draft.unlink(missing_ok=True)
