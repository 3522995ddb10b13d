"""nbgrader's exchange, where it copies files: the unit's notebook, nbgrader's two notes and a request to look again, and nothing else.

Its own copies leave out what CourseDirectory.ignore names, which here is everything (nbgrader_config.py), and follow
symbolic links, which whoever can write to an exchange can leave there.
"""

from __future__ import annotations

import contextlib
import glob
import logging
import os
from pathlib import Path
from typing import Any

from nbgrader.exchange.default import ExchangeCollect, ExchangeReleaseAssignment

from grader.judging.submission import MAX_FILE

NOTES = TIME, SECRET = (
    "timestamp.txt",
    "submission_secret.txt",
)  # when it was handed in; what its feedback is fetched by
REQUEST = "regrade.txt"  # see requests.py
NOTE_BYTES = {TIME: 200, SECRET: 200, REQUEST: 4000}


class _NotebookAlone:
    """An exchange plugin's way to copy, as described above. coursedir, log: the plugin's own."""

    coursedir: Any
    log: logging.Logger

    def do_copy(self, src: str, dest: str, log: object = None) -> None:
        """Copy from folder to folder. A link, a missing file or one that is too large stays behind, with a warning if
        it is the notebook."""
        notebook, source = f"{self.coursedir.assignment_id}.ipynb", Path(src)
        for name, most in {notebook: MAX_FILE, **NOTE_BYTES}.items():
            try:
                if source.is_symlink():
                    raise OSError("its folder is a link")
                content = plain(source / name, most)
            except OSError as problem:
                if name == notebook:
                    self.log.warning("%s was not copied: %s", source / name, problem.strerror or problem)
                continue
            Path(dest).mkdir(parents=True, exist_ok=True)
            Path(dest, name).write_bytes(content)


def plain(path: Path, most: int) -> bytes:
    """Read a regular file. Raises OSError if it is a link, no file, or larger than `most` bytes."""
    if not path.is_file():
        raise OSError("it is not there, or no file")
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(f"it has more than {most:,} bytes")
    return content


class Release(_NotebookAlone, ExchangeReleaseAssignment):
    """nbgrader's release step, for the notebook alone."""


class Collect(_NotebookAlone, ExchangeCollect):
    """nbgrader's collect step, for the notebook, the notes and a request. The same notebook again, for a request, is no later."""

    def do_copy(self, src: str, dest: str, log: object = None) -> None:
        super().do_copy(src, dest, log)
        name, copied = f"{self.coursedir.assignment_id}.ipynb", Path(dest)
        if not (copied / REQUEST).exists():
            return
        student, unit, *_ = Path(src).name.split("+")
        times = []
        for earlier in Path(src).parent.glob(f"{glob.escape(student)}+{glob.escape(unit)}+*"):
            with contextlib.suppress(OSError):
                if not earlier.is_symlink() and plain(earlier / name, MAX_FILE) == (copied / name).read_bytes():
                    times.append(plain(earlier / TIME, NOTE_BYTES[TIME]))
        if times:
            (copied / TIME).write_bytes(min(times))
