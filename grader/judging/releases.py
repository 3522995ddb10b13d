"""Earlier releases of a unit's notebook. A submission says which one it was handed out as; the clone's history has it.

What a notebook says of itself is a hint, never a proof: a release counts if git knows it, and its exercises are those that git
has. The course writes the hint twice (grader/gradebook/release.py), since hosted notebooks lose one of them: into the notebook's
metadata, and as a comment into its title.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from course_lib.handin.cells import Cell, Problem, parse

COMMENT = "<!-- release {} -->"
STATED = re.compile(rb'<!-- release ([0-9a-f]{12}) -->|"release": ?"([0-9a-f]{12})"')
HEAD, TAIL = 1 << 20, 1 << 17  # bytes of a file in which the title and the metadata stand


@dataclass(frozen=True)
class HandedOutRelease:
    """A unit's notebook as a student got it.

    cells   of that notebook;  date  on which it was committed, "" for the one of today
    unknown whether the submission names a release that git does not have, so that it is read as one of today
    """

    cells: tuple[Cell, ...] = ()
    date: str = ""
    unknown: bool = False


def of(submission: Path, current: Path, cells: tuple[Cell, ...]) -> HandedOutRelease:
    """Return the release as which a submission was handed out. current, cells: today's notebook."""
    stated = _stated(submission)
    if not stated or stated == _stated(current):
        return HandedOutRelease(cells)
    return _earlier(current, stated) or HandedOutRelease(cells, unknown=True)


def _stated(path: Path) -> str:
    """The release that a notebook names, "" if it names none or is no file."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return ""
            content = file.read(HEAD)
            file.seek(max(len(content), os.fstat(file.fileno()).st_size - TAIL))
            content += file.read(TAIL)
    except OSError:
        return ""
    match = STATED.search(content)
    return (match[1] or match[2]).decode() if match else ""


@lru_cache(maxsize=64)
def _earlier(current: Path, stated: str) -> HandedOutRelease | None:
    """The release that was committed under this name, None if git has none."""

    def git(*words: str) -> bytes:
        return subprocess.run(["git", *words], cwd=current.parent, capture_output=True, check=True).stdout

    try:
        log = git("log", "--format=%H %cs", f"-S{COMMENT.format(stated)}", "--", current.name)
        commit, date = log.decode().splitlines()[-1].split()
        return HandedOutRelease(tuple(parse(git("show", f"{commit}:./{current.name}"), current.name)), date)
    except (OSError, subprocess.CalledProcessError, IndexError, Problem):
        return None
