"""Submissions as an LMS exports them, a folder or a zip, to submitted/STUDENT/UNIT/UNIT.ipynb.

    Canvas    doejane_1234_5678_04_memory_coalescing.ipynb, with _LATE after the name if it came late
              anon_a9Xz_5678_04_memory_coalescing.ipynb of an anonymous assignment, LATE_anon_... if late
    Moodle    Jane Doe_98765_assignsubmission_file/notebook.ipynb, before 4.1 with a _ more, or all in one name
    plain     STUDENT/anything/notebook.ipynb, which nbgrader's own submitted/ is too, or STUDENT.ipynb

Where a notebook may be there may be a zip with one notebook in it, as a student's make_zip() makes it; of several the
one that is named after the unit counts. A notebook may have become NAME.ipynb.txt or NAME.ipynb.json on its way. Of a
student's notebooks one that is as it was handed out never counts before one with work in it.

(Sources: Canvas's lib/content_zipper.rb, Moodle's mod/assign/classes/downloader.php.)

The LMS's id is the identity: whoever the gradebook knows by the same id is that student, whatever the name is now.

What is hostile or odd is left out with a sentence, and the rest imported. Nothing is unpacked but notebooks, one at a
time, to a name of our own making; what stands in them is data that grader.judging.submission looks at later.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from nbgrader.utils import parse_utc

import grader
from grader import disk
from grader.gradebook import results
from grader.judging.submission import as_letters, other_unit, stem_of
from grader.lms import enrolled, feedback_export, rejected
from grader.lms.enrolled import student_id
from grader.lms.exported import (
    MAX_LOOKED_INTO,
    File,
    FileProblem,
    NotAnExport,
    content_of,
    is_rubbish,
    opened,
    shown,
    unpacked,
    worked_on,
)

MAX_TOTAL = 4_000_000_000  # bytes of all notebooks together


CANVAS = re.compile(r"(?P<name>\w+?)(?P<late>_LATE)?_(?P<id>\d+)_(?P<order>\d+)_(?P<file>.+)", re.S)
ANONYMOUS = re.compile(r"(?P<late>LATE_)?(?P<name>anon)_(?P<id>[A-Za-z0-9]+)_(?P<order>\d+)_(?P<file>.+)", re.S)
MOODLE = re.compile(r"(?P<name>.+?)_(?P<id>\d+)_assignsubmission_(?:file|onlinetext)_?/?(?P<file>.+)", re.S)


@dataclass(frozen=True)
class ImportedNotebook:
    """A notebook, and the student who handed it in."""

    student: str
    file: File
    order: tuple = ()  # the latest is the greatest
    full_name: str = ""
    lms_id: str = ""
    late: bool = False
    stated: str = ""  # the student's name as the export writes it
    lms: str = ""  # by whose pattern it is named

    @property
    def name_in_the_lms(self) -> str:
        return feedback_export.name_for(self.lms, self.file.path, self.stated, self.lms_id)


@dataclass
class Imported:
    """Result of an import of submissions.
    students    in order;  remarks = sentences on what was left out or is worth knowing
    rejected         students of whom no notebook came in, though they handed in something, and why
    replaced, new    those of the students whose notebook, or its time, is another than before; who had none before
    """

    students: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    rejected: dict[str, str] = field(default_factory=dict)
    replaced: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    dry_run: bool = False

    @property
    def was(self) -> str:
        """Return the verb of what happens to a file: of a dry run it is conditional."""
        return "would be" if self.dry_run else "was"

    @property
    def were(self) -> str:
        """Return the same verb for several files."""
        return "would be" if self.dry_run else "were"

    @property
    def changes(self) -> str:
        """Return a phrase such as "1 replaced, 17 as before, 2 new", without those that are 0."""
        replaced, new = len(self.replaced), len(self.new)
        counts = {"replaced": replaced, "as before": len(self.students) - replaced - new, "new": new}
        return ", ".join(f"{count} {what}" for what, count in counts.items() if count)


# ------------------------------------------------------------------------------------------------------- whose


def whose(file: File, unit: str, skip: int = 0) -> ImportedNotebook | None:
    """Return whose notebook a file is, by its name, or None. skip: folders around the whole export."""
    parts = file.path.parts[skip:]
    path = "/".join(parts)
    if match := MOODLE.fullmatch(path):
        name = " ".join(match["name"].split("/")[-1].split())
        return ImportedNotebook(
            student_id(f"{name}_{match['id']}"), file, (file.changed,), name, match["id"], False, name, "Moodle"
        )
    letters = as_letters(path)
    if len(parts) == 1 and (match := ANONYMOUS.fullmatch(letters) or CANVAS.fullmatch(letters)):
        student = f"{path[slice(*match.span('name'))]}_{match['id']}"
        lms_id = match["id"] if match["id"].isdigit() else ""
        return ImportedNotebook(
            student_id(student), file, (int(match["order"]),), "", lms_id, bool(match["late"]), student, "Canvas"
        )
    stated = parts[0] if len(parts) > 1 else stem_of(path) or PurePosixPath(path).stem
    if not student_id(stated) or stated in (unit, "submitted"):
        return None
    return ImportedNotebook(student_id(stated), file, (file.changed,), stated=stated)


def _wrapped(paths: list[PurePosixPath], unit: str) -> int:
    """How many folders stand around the whole export, such as nbgrader's submitted/ or the zip's own name."""
    skip = 0
    while paths and all(len(p.parts) > skip + 2 and p.parts[skip] == paths[0].parts[skip] for p in paths):
        students = {p.parts[skip + 1] for p in paths}
        if paths[0].parts[skip] != "submitted" and (len(students) == 1 or unit in students):
            break  # one student's folder, and what is in it
        skip += 1
    return skip


# ----------------------------------------------------------------------------------------------------- import


def collect(
    source: Path, unit: str, home: Path, *, dry_run: bool = False, times: Mapping[str, datetime] = {}
) -> Imported:
    """Import every notebook in `source` whose name tells the student. Raises NotAnExport if there is none.

    Of several by one student the latest counts, one that is named after the unit before any other. What the student
    handed in before is replaced.  Names and ids of the LMS go into nbgrader's gradebook, for the way back.

    times    the LMS's id -> when that student handed in, where no timestamp.txt says it
    """
    done = Imported(dry_run=dry_run)
    with opened(source) as files:
        files = [unpacked(f, unit) for f in files if not is_rubbish(f.path)]
        done.remarks += [f"{shown(f)} {f.problem}; it {done.was} left out." for f in files if f.problem]
        damaged, files = [f for f in files if f.problem], [f for f in files if not f.problem]
        stamps = {f.path.parent: f for f in files if f.path.name == "timestamp.txt" and len(f.path.parts) > 1}
        chosen = _chosen(files, unit, known := enrolled.known(home), done)
        skip = _wrapped([f.path for f in files if stem_of(f.path.name)], unit)
        for handin in filter(None, (whose(f, unit, skip) for f in damaged)):
            done.rejected.setdefault(
                known.get(handin.lms_id, handin.student), f"{shown(handin.file)} {handin.file.problem}"
            )
        if not chosen:
            raise NotAnExport(" ".join([f"{source} holds no notebook that says whose it is.", *done.remarks]))
        total = 0
        for student, handin in sorted(chosen.items()):
            try:
                content = content_of(handin.file)
                total += len(content)
                if total > MAX_TOTAL:
                    raise FileProblem(f"is beyond the {MAX_TOTAL / 1e9:g} GB that an import may have")
            except FileProblem as problem:
                done.remarks.append(f"{shown(handin.file)} {problem}; {student} {done.was} left out.")
                done.rejected[student] = f"{shown(handin.file)} {problem}"
                continue
            if other := other_unit(content, list(grader.exercises(unit).values())):
                done.remarks.append(f"{shown(handin.file)} is a notebook of {other}; {student} {done.was} left out.")
                done.rejected[student] = f"{shown(handin.file)} is a notebook of {other}"
                continue
            stamp = _timestamp(stamps.get(handin.file.path.parent), student, done)
            if not stamp and (when := times.get(handin.lms_id)):
                stamp = f"{when.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC".encode()
            if not content.strip():
                done.remarks.append(
                    f"The notebook of {student} is empty ({shown(handin.file)}); it {done.was} imported."
                )
            folder = home / "submitted" / student / unit
            before = _there(folder, unit)
            if before != (content, stamp):
                (done.new if before is None else done.replaced).append(student)
                if not dry_run:
                    _write(folder, unit, content, stamp)
            done.students.append(student)
    if not dry_run:
        rejected.remember(home, unit, done.rejected, done.students)
        _remember(home, [chosen[student] for student in done.students])
        handed_in = {student: chosen[student] for student in done.students if chosen[student].lms}
        feedback_export.remember(home, unit, {student: h.name_in_the_lms for student, h in handed_in.items()})
    if done.replaced:
        done.remarks.append(f"What was there {done.was} replaced: {', '.join(done.replaced)}.")
    if late := [student for student in done.students if chosen[student].late]:
        done.remarks.append(f"Marked late by Canvas, which takes what lateness costs: {', '.join(late)}.")
    return done


def _identified(handins: list[ImportedNotebook], known: Mapping[str, str], done: Imported) -> list[ImportedNotebook]:
    """The handins under the names by which the gradebook knows their ids.

    An LMS has one name for an id at a time. Where an export has two, a name may only look as if it held another's id: the one
    that is known counts, else none.
    """
    names: dict[str, set[str]] = {}
    for handin in handins:
        names.setdefault(handin.lms_id, set()).add(handin.student)
    names.pop("", None)
    for id, called in sorted(names.items()):
        student = known.get(id)
        if len(called) > 1:
            counts = f"only {student} {done.was} imported" if student in called else f"they {done.were} left out"
            stated = " and ".join(sorted(called))
            done.remarks.append(
                f"{stated} have the same id of the LMS in one export; {counts}. Remove what is not theirs."
            )
            names[id] = called & {student}
        elif student and not any(_alike(student, name) for name in called):
            done.remarks.append(
                f"{min(called)} has the LMS's id of {student}, and {done.was} imported under that name."
            )
    lms = next((h.lms for h in handins if h.lms), "")
    others = sorted({h.student for h in handins if not h.lms})
    if lms and others:
        told = f"Some files are named as {lms} names them, and those of {', '.join(others)} are not"
        came = "would come" if done.dry_run else "came"
        done.remarks.append(f"{told}: they {came} in without {lms}'s id and without LATE.")
    return [
        replace(h, student=known.get(h.lms_id, h.student))
        for h in handins
        if not h.lms_id or h.student in names[h.lms_id]
    ]


def _alike(student: str, name: str) -> bool:
    """Whether these student ids differ in the LMS's id alone, as Moodle gives another in each assignment."""
    return student.rpartition("_")[0] == name.rpartition("_")[0]


def _chosen(files: list[File], unit: str, known: Mapping[str, str], done: Imported) -> dict[str, ImportedNotebook]:
    """Student -> the notebook that counts."""
    notebooks = [f for f in files if stem_of(f.path.name)]
    skip = _wrapped([f.path for f in notebooks], unit)
    told: list[ImportedNotebook] = []
    for file in notebooks:
        if handin := whose(file, unit, skip):
            told.append(handin)
        else:
            done.remarks.append(
                f"{shown(file)} does not say whose it is; it {done.was} left out. Put it into a folder named so."
            )
    by_student: dict[str, list[ImportedNotebook]] = {}
    for handin in _identified(told, known, done):
        by_student.setdefault(handin.student, []).append(handin)
    others = [h for f in files if f not in notebooks and f.path.name != "timestamp.txt" and (h := whose(f, unit, skip))]
    lms_ids = {h.student: h.lms_id for h in others}
    for student, names in _grouped(others).items():
        if student not in by_student and known.get(lms_ids[student]) not in by_student:
            done.remarks.append(f"{student} handed in no notebook, but {', '.join(names[:3])}.")
            done.rejected[known.get(lms_ids[student], student)] = ", ".join(names[:3])
    chosen = {}
    for student, handins in by_student.items():
        if len({h.stated for h in handins}) > 1:
            named = " and ".join(sorted({repr(h.stated) for h in handins}))
            done.remarks.append(
                f"{named} would both be called {student}; both {done.were} left out. Rename one of them."
            )
            continue
        handins.sort(key=lambda h: (unit in h.file.path.name, *h.order, _copy(h.file.path), str(h.file.path)))
        chosen[student] = latest = handins[-1]
        if len(handins) > 1:
            looked_into = reversed(handins[-MAX_LOOKED_INTO:])
            chosen[student] = next((h for h in looked_into if worked_on(h.file, unit)), latest)
            same = [h for h in handins if h.order == latest.order and h is not latest]
            why = "the latest" if chosen[student] is latest else "the latest with work in it"
            why += ", of several with the same time" if same and chosen[student] is latest else ""
            done.remarks.append(
                f"{student} has {len(handins)} notebooks; {chosen[student].file.path.name}, {why}, counts."
            )
    return chosen


def _copy(path: PurePosixPath) -> int:
    """The number that a browser or an LMS put behind a name that was there already: 1 of "04-1.ipynb" and "04 (1).ipynb", else 0."""
    match = re.search(r"(?:-(\d{1,3})| \((\d{1,3})\))$", stem_of(path.name))
    return int(match[1] or match[2]) if match else 0


def _grouped(handins: Iterable[ImportedNotebook]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for handin in handins:
        found.setdefault(handin.student, []).append(handin.file.path.name)
    return found


def _timestamp(file: File | None, student: str, done: Imported) -> bytes:
    """The content of nbgrader's timestamp.txt if it holds a time, otherwise b""."""
    if file is None:
        return b""
    try:
        content = file.read()[:100]
        parse_utc(content.decode().strip())
    except (OSError, zipfile.BadZipFile, zlib.error, ValueError, OverflowError):
        done.remarks.append(f"The timestamp.txt of {student} holds no time; it {done.was} left out.")
        return b""
    return content


def _there(folder: Path, unit: str) -> tuple[bytes, bytes] | None:
    """The notebook and the timestamp.txt of a submission, b"" for none of the latter; None if there is no notebook, or a
    link."""
    notebook, stamp = folder / f"{unit}.ipynb", folder / "timestamp.txt"
    places = (folder.parent, folder, notebook, stamp)
    if any(place.is_symlink() for place in places) or not notebook.is_file():
        return None
    return notebook.read_bytes(), stamp.read_bytes() if stamp.is_file() else b""


def _write(folder: Path, unit: str, content: bytes, stamp: bytes) -> None:
    """Write the file whole or not at all, and never through a link."""
    for place in (folder.parent, folder):
        if place.is_symlink():
            place.unlink()
    notebook, note = folder / f"{unit}.ipynb", folder / "timestamp.txt"
    disk.write({notebook: content, note: stamp} if stamp else {notebook: content})
    if not stamp:
        note.unlink(missing_ok=True)


def _remember(home: Path, handins: Iterable[ImportedNotebook]) -> None:
    """Enter names and LMS ids into the gradebook, where the export tells them."""
    with results.book(home) as book:
        for handin in handins:
            first, _, last = handin.full_name.rpartition(" ")
            known = {"first_name": first, "last_name": last, "lms_user_id": handin.lms_id}
            book.update_or_create_student(handin.student, **{key: value for key, value in known.items() if value})
