"""make_zip(): the zip to hand in. It holds the notebook as saved, and nothing else."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

from course_lib.catalogue import say
from course_lib.handin import files
from course_lib.handin.cells import Problem
from course_lib.handin.validate import Validation, validated


def pack(validation: Validation) -> Path:
    """Write the zip to hand in next to the notebook, under the notebook's name, and return its path. It holds UNIT.ipynb, whatever the
    notebook is called. Raises Problem if it cannot be written."""
    target = validation.path.with_suffix(".zip")
    draft = target.with_suffix(f".{os.getpid()}")
    try:
        with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(f"{validation.unit}.ipynb", validation.content)  # what was validated, not read again
        draft.replace(target)  # whole or not at all
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise Problem(say("handin.archive.refused", file=str(target), why=error.strerror)) from None
    return target


def fuller(found: Validation) -> str:
    """Return a message if another notebook next to this one has more of the unit's exercises solved, else ""."""
    for path in sorted(found.path.parent.glob("*.ipynb")):
        try:
            other = validated(path) if path != found.path else found
        except (Problem, OSError):
            continue
        if other.unit == found.unit and len(other.graded) > len(found.graded):
            return say("handin.archive.fuller", name=path.name, graded=len(other.graded), of=len(other.lines))
    return ""


def make_zip(notebook: str = "") -> None:
    """Print what would be graded, and write the zip to hand in. notebook: a file's name, where it is not clear."""
    try:
        found = validated(files.here(notebook))
        target = pack(found)
    except Problem as problem:
        print(problem)
        return
    size = target.stat().st_size
    print(found.text())
    print("\n" + say("handin.archive.made", name=target.name, size=max(1, size // 1000), file=str(target)))
    if other := fuller(found):
        print(other)
