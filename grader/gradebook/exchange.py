"""nbgrader's exchange, where it copies files: the unit's notebook and nbgrader's two notes, and nothing else.

Its own copies leave out what CourseDirectory.ignore names, which here is everything (nbgrader_config.py), and follow
symbolic links, which whoever can write to an exchange can leave there.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

from nbgrader.exchange.default import ExchangeCollect, ExchangeReleaseAssignment

from grader.judging.submission import MAX_FILE

NOTES = "timestamp.txt", "submission_secret.txt"  # when it was handed in; what its feedback is fetched by
NOTE_BYTES = 200


class _NotebookAlone:
    """An exchange plugin's way to copy, as described above. coursedir, log: the plugin's own."""

    coursedir: Any
    log: logging.Logger

    def do_copy(self, src: str, dest: str, log: object = None) -> None:
        """Copy from folder to folder. A link, a missing file or one that is too large stays behind, with a warning if
        it is the notebook."""
        notebook, source = f"{self.coursedir.assignment_id}.ipynb", Path(src)
        for name, most in ((notebook, MAX_FILE), *((note, NOTE_BYTES) for note in NOTES)):
            try:
                if source.is_symlink():
                    raise OSError("its folder is a link")
                content = _plain(source / name, most)
            except OSError as problem:
                if name == notebook:
                    self.log.warning("%s was not copied: %s", source / name, problem.strerror or problem)
                continue
            Path(dest).mkdir(parents=True, exist_ok=True)
            Path(dest, name).write_bytes(content)


def _plain(path: Path, most: int) -> bytes:
    """The content of a file. Raises OSError if it is a link, no file, or larger than `most` bytes."""
    if not path.is_file():
        raise OSError("it is not there, or no file")
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(f"it has more than {most:,} bytes")
    return content


class Release(_NotebookAlone, ExchangeReleaseAssignment):
    """Releases the notebook alone."""


class Collect(_NotebookAlone, ExchangeCollect):
    """Collects the notebook alone."""
