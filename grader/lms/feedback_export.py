"""Feedback pages as a zip that Canvas or Moodle takes back: under the names of the files that students handed in.

    Canvas   the assignment's "Upload Submissions": doejane_1234_5678_04_memory_coalescing_feedback.html
    Moodle   "Upload multiple feedback files in a zip": Jane Doe_98765_assignsubmission_file_04_memory_coalescing_feedback.html

Both know a student by numbers that belong to one assignment, so `import` keeps these names by unit, in handed_in.json.
Canvas takes the first two parts that are numbers for the student's id and the file's, and leaves out a name whose last
part begins with "link", so it must not be the student's. Moodle splits a name at its first four underscores; versions
differ in what they make of folders, and agree on files without one. It leaves out what begins with a dot or a tilde.

(Sources: Canvas's lib/content_zipper.rb, which names the download, and infer_comment_context_from_filename of
app/models/assignment.rb; Moodle's mod/assign/feedback/file/importziplib.php, is_valid_filename_for_import.)
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from grader import disk

KEPT = "handed_in.json"


class NothingToHandBack(ValueError):
    """Raised, with a message, where there is no page, or no file name that an LMS would know."""


def remember(home: Path, unit: str, names: Mapping[str, str]) -> None:
    """Save the file names that a zip for the LMS will need. names: student -> what name_for says."""
    if names:
        known = _known(home)
        known[unit] = {**known.get(unit, {}), **names}
        disk.write({home / KEPT: json.dumps(known, indent=1).encode()})


def name_for(lms: str, path: PurePosixPath, stated: str, id: str) -> str:
    """Return the name by which the LMS knows a student's file, without its ending."""
    if lms == "Canvas":
        return path.stem
    name, file = stated.replace("_", " ").lstrip(".~ "), path.stem.rpartition("_assignsubmission_file_")[2]
    return f"{name}_{id}_assignsubmission_file_{file}"


def pack(home: Path, unit: str) -> tuple[bytes, list[str]]:
    """Return (the zip, students who have a page and are not in it). Raises NothingToHandBack."""
    pages = {path.parents[1].name: path for path in sorted((home / "feedback").glob(f"*/{unit}/{unit}.html"))}
    if not pages:
        raise NothingToHandBack(f"{unit} has no feedback pages yet: run `grader autograde {unit}` first.")
    known = {student: name for student, name in _known(home).get(unit, {}).items() if student in pages}
    if not known:
        raise NothingToHandBack(
            f"Nobody's file of {unit} came from Canvas or Moodle by `grader import`, so the LMS would know none of the pages. "
            "Import its export once more: notebooks that are as before stay as they are."
        )
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for student, name in sorted(known.items()):
            archive.write(pages[student], f"{name}_feedback.html")
    return packed.getvalue(), sorted(pages.keys() - known.keys())


def _known(home: Path) -> dict[str, dict[str, str]]:
    return disk.read(home / KEPT)
