"""A home whose disk is full or read-only: files are written whole or not at all, and what the disk refuses is told from a
failure of ours."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sqlite3
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

EVERYTHING = frozenset([errno.ENOSPC, errno.EDQUOT, errno.EROFS])  # what one file is refused for, all are
ANYTHING = EVERYTHING | {errno.EACCES, errno.EPERM, errno.EIO}
OF_SQLITE = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR}


class WriteRefused(RuntimeError):
    """Raised, with a clause that says why, where the disk refuses a write, or a file cannot be read."""


# trap: files of a home go through this: a full disk must leave the old file
def write(files: Mapping[Path, bytes]) -> None:
    """Write the files, all of them whole, or leave all as they were: also when the disk is full, or this process is stopped."""
    unique = f".draft.{os.getpid()}.{threading.get_ident()}"  # short: a student's name may be as long as a name can be
    drafts = {path.with_name(f"{unique}.{number}"): path for number, path in enumerate(files)}
    try:
        for draft, path in drafts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            draft.unlink(missing_ok=True)  # never through a link
            try:
                draft.write_bytes(files[path])
            except OSError as error:
                error.filename = str(path)  # the draft's name tells nobody anything
                raise
        for draft, path in drafts.items():
            draft.replace(path)
    finally:
        for draft in drafts:
            with contextlib.suppress(OSError):  # the first error is the one to tell
                draft.unlink(missing_ok=True)


def read(path: Path) -> dict[str, Any]:
    """Read a JSON file of the grader's home, by unit or by student; {} if there is no such file. Raises WriteRefused if it is no JSON
    object any more."""
    try:
        kept = json.loads(path.read_text("utf-8")) if path.exists() else {}
    except ValueError as error:
        raise WriteRefused(f"{path} is no JSON any more ({error})") from None
    if not isinstance(kept, dict):
        raise WriteRefused(f"{path} holds no JSON object")
    return kept


def refusal(error: BaseException | None, of: frozenset[int] = ANYTHING) -> str:
    """Return the disk's refusal in the system's words; "" if the error is about anything else. of: numbers of the system's errors."""
    if isinstance(error, WriteRefused):
        return str(error)
    if isinstance(error, OSError) and error.errno in of:
        return f"{error.strerror} ({error.filename})" if error.filename else str(error.strerror)
    if isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF in OF_SQLITE:
        return f"{error} (gradebook.db)"
    if error is None:
        return ""
    seen = (
        None if error.__suppress_context__ else error.__context__
    )  # SQLAlchemy and nbgrader raise their own around sqlite's
    return refusal(getattr(error, "orig", None) or error.__cause__ or seen, of)


def require_new(folder: Path) -> None:
    """Raise ValueError, with a message, if a folder that is to be made has something in it already."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} is there already. Name a new folder.")
