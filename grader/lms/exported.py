"""The files of an export, a folder or a zip, and the notebook in each student's zip. What is hostile or odd has a `problem`."""

from __future__ import annotations

import io
import os
import re
import stat
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path, PurePosixPath

import grader
from grader.judging.submission import MAX_FILE, has_work, stem_of

MAX_FILES = 20_000  # and as many folders
MAX_ENTRIES = 10_000  # of a student's zip, folders among them: an entry of no bytes takes time as well
ENTRY = b"PK\1\2"  # what each begins with in a zip's table of contents
MAX_LOOKED_INTO = 20  # of one student's notebooks: is there work in it?

UNREADABLE = (OSError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError)

UTF_8 = 0x800  # a zip's flag: the name is in it. Some programs write such names without it, and they are read as cp437


@dataclass(frozen=True)
class File:
    """A file in the exported folder or zip; `problem` says why it must not be read."""

    path: PurePosixPath
    size: int
    changed: float
    read: Callable[[], bytes]
    problem: str = ""


class NotAnExport(ValueError):
    """Raised where an export as a whole cannot be read; the message is one sentence."""


class FileProblem(ValueError):
    """Raised with what is wrong with a file, in words that follow the file's name in a sentence."""


@contextmanager
def opened(source: Path) -> Iterator[list[File]]:
    """Yield all files of a folder or zip. Raises NotAnExport if it is neither, or far too large."""
    if source.is_dir():
        yield _limited(source, _in_folder(source))
    elif source.is_file() and zipfile.is_zipfile(source):
        with _Export(source) as file, zipfile.ZipFile(file) as archive:
            file.limited = False
            yield _limited(source, _members(archive))
    else:
        what = "is neither a folder nor a zip file" if source.exists() else "does not exist"
        raise NotAnExport(f"{source} {what}. Give the folder or the zip as the LMS exported it.")


class _Export(io.FileIO):
    """A zip whose table of contents, which is read at once as it is opened, is counted before anybody parses it."""

    limited = True

    def read(self, size: int = -1) -> bytes:
        content = super().read(size)
        if self.limited and content.count(ENTRY) > 2 * MAX_FILES:
            raise _too_many(Path(self.name))
        return content


def _limited(source: Path, files: Iterable[File]) -> list[File]:
    found = list(islice(files, MAX_FILES + 1))
    if len(found) > MAX_FILES:
        raise _too_many(source)
    return found


def _too_many(source: Path) -> NotAnExport:
    return NotAnExport(f"{source} has more than {MAX_FILES} files or folders. Give the export of one assignment.")


def _in_folder(source: Path) -> Iterator[File]:
    for count, (folder, folders, names) in enumerate(os.walk(source)):  # does not follow links
        if count > MAX_FILES:
            raise _too_many(source)
        for name in sorted([*names, *(f for f in folders if (Path(folder) / f).is_symlink())]):
            path = Path(folder) / name
            status = path.lstat()
            problem = "" if stat.S_ISREG(status.st_mode) else "is a link or a device, not a file"
            yield File(_path(str(path.relative_to(source))), status.st_size, status.st_mtime, _reader(path), problem)


def _reader(path: Path) -> Callable[[], bytes]:
    def read() -> bytes:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "rb") as file:
            return file.read(MAX_FILE + 1)

    return read


def _in_zip(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> File:
    path = _path(_decoded(info).replace("\\", "/"))
    problem = ""
    if path.is_absolute() or ".." in path.parts or re.match(r"[A-Za-z]:", info.filename) or "\0" in info.filename:
        problem = "has a name that leads out of the zip"
    elif (mode := info.external_attr >> 16) and stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        problem = "is a link or a device, not a file"
    elif info.flag_bits & 1:
        problem = "is encrypted"

    def read() -> bytes:  # the size that the zip states may be a lie
        with archive.open(info) as file:
            return file.read(MAX_FILE + 1)

    return File(path, info.file_size, _seconds(info.date_time), read, problem)


def _decoded(info: zipfile.ZipInfo) -> str:
    """A member's name, in UTF-8 also where the zip forgets to say so."""
    if not info.flag_bits & UTF_8:
        with suppress(UnicodeError):
            return info.filename.encode("cp437").decode()
    return info.filename


def _path(name: str) -> PurePosixPath:
    """A path whose letters are composed: systems and programs differ in how they write an accent."""
    return PurePosixPath(unicodedata.normalize("NFC", name))


def _archive(file: File) -> zipfile.ZipFile:
    content = content_of(file)
    if content.count(ENTRY) > MAX_ENTRIES:
        raise FileProblem(f"holds more than {MAX_ENTRIES} files and folders")
    return zipfile.ZipFile(io.BytesIO(content))


def _members(archive: zipfile.ZipFile) -> Iterator[File]:
    return (_in_zip(archive, info) for info in archive.infolist() if not info.is_dir())


def _seconds(when: tuple[int, ...]) -> float:
    """A zip's date as a number that grows with time."""
    year, month, day, hour, minute, second = when
    return ((((year * 12 + month) * 31 + day) * 24 + hour) * 60 + minute) * 60.0 + second


def unpacked(file: File, unit: str) -> File:
    """A student's zip stands, under its own name, for the notebook in it; `problem` if there is none to choose."""
    if file.problem or file.path.suffix.lower() != ".zip":
        return file
    try:
        with _archive(file) as archive:
            members = [member for member in _members(archive) if not is_rubbish(member.path)]
            notebooks = [member for member in members if stem_of(member.path.name)]
            named = [m for m in notebooks if re.fullmatch(rf"{re.escape(unit)}(_\d+)?", stem_of(m.path.name))]
            if 1 < len(named) <= MAX_LOOKED_INTO:  # such as a blank copy next to the work
                begun = [member for member in named if worked_on(member, unit)]
                named = begun if len(begun) == 1 else named
    except zipfile.BadZipFile:
        return replace(file, problem="is no zip, or a damaged one")
    except (FileProblem, *UNREADABLE) as error:
        return replace(file, problem=str(error) if isinstance(error, FileProblem) else f"cannot be read ({error})")
    if not notebooks:
        inner = next((member for member in members if member.path.suffix.lower() == ".zip"), None)
        if inner:
            return replace(file, problem=f"holds no notebook but another zip, {shown(inner)}")
        return file  # which is named as any other that is no notebook
    if len(notebooks) > 1 and len(named) != 1:
        return replace(
            file, problem=f"holds {len(notebooks)} notebooks, {len(named) or 'none'} of them named after the unit"
        )
    chosen = (named if len(notebooks) > 1 else notebooks)[0]
    name = chosen.path

    def read() -> bytes:  # opened anew, so that not every zip of a class is held in memory
        with _archive(file) as archive:
            return next(f for f in _members(archive) if f.path == name).read()

    return replace(chosen, path=file.path.with_suffix(".ipynb"), changed=file.changed, read=read)


def worked_on(file: File, unit: str) -> bool:
    """Whether a notebook can be read and has work in it."""
    try:
        content = content_of(file)
    except FileProblem:
        return False
    return has_work(content, list(grader.exercises(unit).values()), grader.released(unit))


def content_of(file: File) -> bytes:
    """The bytes of a file. FileProblem if there are too many or they cannot be had."""
    too_large = FileProblem(f"has more than {MAX_FILE // 1_000_000} MB")
    if file.size > MAX_FILE:
        raise too_large
    try:
        content = file.read()
    except UNREADABLE as error:
        raise FileProblem(f"cannot be read ({error})") from None
    if len(content) > MAX_FILE:
        raise too_large
    return content


def is_rubbish(path: PurePosixPath) -> bool:
    """Whether a file is one that operating systems and Jupyter leave behind."""
    return path.name.startswith("._") or bool({"__MACOSX", ".ipynb_checkpoints", ".DS_Store"} & set(path.parts))


def shown(file: File) -> str:
    """A file's name in a sentence: of any length and in any letters it may be."""
    name = "".join(c if c.isprintable() else "?" for c in str(file.path))
    return name if len(name) <= 100 else f"{name[:60]} ... {name[-30:]}"
