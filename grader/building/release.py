"""A release: all that people get who have no clone, in one folder. `make release` calls python -m grader.building.release FOLDER.

    wheels and sdists    of the engine and of the course; each wheel is built from its sdist, so both are whole
    *-course.zip         the repository as it is committed, for people without git
    *-students.zip       the same without solutions, hidden cases and variants, for a class whose exercises count
    *-site.zip           the pages for self-study, where the extra `site` is installed
    NOTES.md             what the changelogs say of the version
    CITATION.cff         with the address of the clone's origin, where there is one
    SHA256SUMS           of all of these

Versions are those of the changelogs, which must agree with both pyproject.toml and have nothing unreleased. Nothing is asked of a network.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import grader
from grader.building import origin, student_copy

HEADING = re.compile(r"^## (?P<version>\d+\.\d+\.\d+)(?: - (?P<date>\d{4}-\d\d-\d\d))?$", re.M)
ENGINE = "tritontrace"  # the folder, and the package
# what the course says of others and measures itself against, and for how long that holds
CLAIMS, CLAIM_DAYS = (Path("docs/what_next.md"), Path("benchmarks/results/peers.md")), 180


class NotReady(ValueError):
    """Raised, with a message, where files or versions do not fit a release."""


@dataclass(frozen=True)
class Version:
    """The newest version of a changelog, and what is new in it."""

    number: str
    date: str
    notes: str


def newest(folder: Path) -> Version:
    """Return the newest version in a project's changelog. Raises NotReady if there are unreleased changes, or if pyproject.toml has another
    version."""
    changes = (folder / "CHANGELOG.md").read_text("utf-8")
    heading = HEADING.search(changes)
    declared = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    if not heading:
        raise NotReady(f"{folder.name}/CHANGELOG.md has no version.")
    if re.search(r"^[-*] ", changes[: heading.start()], re.M):
        raise NotReady(f"{folder.name}/CHANGELOG.md has unreleased lines: put them below a version and a date first.")
    if not heading["date"]:
        raise NotReady(f"{folder.name}/CHANGELOG.md has no date behind {declared}: ## {declared} - YYYY-MM-DD.")
    if heading["version"] != declared:
        other = f"its CHANGELOG.md of {heading['version']}"
        raise NotReady(f"{folder.name}/pyproject.toml speaks of version {declared}, {other}.")
    after = HEADING.search(changes, heading.end())
    return Version(declared, heading["date"], changes[heading.end() : after.start() if after else None].strip())


def agree(source: Path, engine: Version) -> None:
    """Raise NotReady where the course requires another version of the engine, or the engine's own files disagree."""
    named = {
        Path("pyproject.toml"): f"{ENGINE}[pictures,prove]=={engine.number}",
        Path(ENGINE, "src", ENGINE, "__init__.py"): f'__version__ = "{engine.number}"',
    }
    for path, version in named.items():
        if version not in (source / path).read_text("utf-8"):
            raise NotReady(f"{path} does not have {version}, as {ENGINE}/CHANGELOG.md does.")


def make(source: Path, to: Path, address: str = "") -> Version:
    """Write a release of the committed files that lie in `source` into the folder `to`. Raises NotReady."""
    course, engine = newest(source), newest(source / ENGINE)
    agree(source, engine)
    to.mkdir(parents=True, exist_ok=True)
    name = f"strides-to-flashattention-{course.number}"
    cite(source / "CITATION.cff", to, course, address)
    archive(source, to / f"{name}-course.zip", name, lambda file: True)
    archive(source, to / f"{name}-students.zip", name, student_copy.handed_out)
    for project in (source / ENGINE, source):  # last: building leaves folders in them
        package(project, to)
    engines = f"## {ENGINE} {engine.number}\n\n{engine.notes}\n"
    (to / "NOTES.md").write_text(f"{course.notes}\n\n{engines}", "utf-8")
    return course


def package(project: Path, to: Path) -> None:
    """Build a project's sdist, and of that its wheel. Raises NotReady with the last line of a failing build."""
    with tempfile.TemporaryDirectory() as folder:
        _build("sdist", project, Path(folder))
        (sdist,) = Path(folder).glob("*.tar.gz")
        with tarfile.open(sdist) as packed:
            packed.extractall(folder, filter="data")
        _build("wheel", sdist.with_name(sdist.name.removesuffix(".tar.gz")), to)
        shutil.move(sdist, to / sdist.name)


def _build(what: str, project: Path, to: Path) -> None:
    hook = f"import sys; from setuptools import build_meta; build_meta.build_{what}(sys.argv[1])"
    asked = [sys.executable, "-c", hook, str(to.resolve())]
    done = subprocess.run(asked, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise NotReady(f"The {what} of {project.name} cannot be built: {done.stdout.strip().splitlines()[-1]}")


def archive(source: Path, to: Path, top: str, chosen) -> None:
    """Zip the chosen files of `source` below a folder `top`; the same files give the same bytes."""
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(path for path in source.rglob("*") if path.is_file()):
            name = path.relative_to(source).as_posix()
            if chosen(name):
                entry = zipfile.ZipInfo(f"{top}/{name}", (2026, 1, 1, 0, 0, 0))
                entry.external_attr, entry.compress_type = (path.stat().st_mode & 0o777) << 16, zipfile.ZIP_DEFLATED
                packed.writestr(entry, path.read_bytes())


def cite(citation: Path, to: Path, course: Version, address: str) -> None:
    """Write CITATION.cff with the version, its date and the repository's address."""
    lines = {"version": course.number, "date-released": course.date, "repository-code": address}
    known = "".join(f"{key}: {value}\n" for key, value in lines.items() if value)
    (to / citation.name).write_text(citation.read_text("utf-8") + known, "utf-8")


def checksums(folder: Path) -> str:
    """Return the lines that `sha256sum -c` reads."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name != "SHA256SUMS")
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)


def committed(root: Path, to: Path) -> None:
    """Write what is committed in the clone at `root` to the folder `to`. Raises NotReady if files have other contents."""
    changed = subprocess.run(["git", "-C", root, "status", "--porcelain"], capture_output=True, text=True)
    if changed.returncode:
        raise NotReady(f"{root} is no clone: a release is made of what is committed.")
    if lines := changed.stdout.splitlines():
        raise NotReady(f"Commit first, or remove: {', '.join(line[3:] for line in lines[:5])}.")
    tar = subprocess.run(["git", "-C", root, "archive", "HEAD"], check=True, stdout=subprocess.PIPE).stdout
    subprocess.run(["tar", "-x", "-C", to], check=True, input=tar)


def old_claims(page: str, today: datetime.date) -> list[str]:
    """Return the rows of a page's tables whose last column is a month that ended more than CLAIM_DAYS ago.

    >>> old_claims("| ours | 2026-10 |\n| theirs | 2026-01 |", datetime.date(2026, 11, 30))
    ['| theirs | 2026-01 |']
    """
    since = today - datetime.timedelta(CLAIM_DAYS)
    dated = re.findall(r"^(\|.*\| (\d{4})-(\d\d) \|)$", page, re.M)
    return [row for row, year, month in dated if (int(year), int(month)) < (since.year, since.month)]


def main(folder: Path) -> int:
    """Make a release in an empty `folder`, and print its contents. Return 1, with a message, if it cannot be made."""
    shutil.rmtree(folder, ignore_errors=True)
    date = subprocess.run(
        ["git", "-C", grader.ROOT, "log", "-1", "--format=%ct"], capture_output=True, text=True
    ).stdout
    os.environ.setdefault("SOURCE_DATE_EPOCH", date.strip() or "1767225600")  # the same commit gives the same wheels
    try:
        with tempfile.TemporaryDirectory() as temporary:
            source = Path(temporary, "strides-to-flashattention")
            source.mkdir()
            committed(grader.ROOT, source)
            course = make(source, folder, origin.address(grader.ROOT))
        if find_spec("myst_nb"):
            from grader.building import site

            if site.main(grader.ROOT / "build" / "site"):
                raise NotReady("The site cannot be built.")
            name = f"strides-to-flashattention-{course.number}-site"
            archive(grader.ROOT / "build" / "site" / "html", folder / f"{name}.zip", name, lambda file: True)
    except (NotReady, origin.NoAddress) as problem:
        print(problem, file=sys.stderr)
        return 1
    (folder / "SHA256SUMS").write_text(checksums(folder))
    print(f"In {os.path.relpath(folder)}:")
    for path in sorted(folder.iterdir()):
        print(f"{path.stat().st_size / 1e3:12,.0f} kB  {path.name}")
    if not find_spec("myst_nb"):
        print("The site's pages are not among them: `make site` installs what they need, then `make release` again.")
    print(f"The tag v{course.number} on this commit publishes the same, by release.yml.")
    for page in CLAIMS:
        for row in old_claims((grader.ROOT / page).read_text("utf-8"), datetime.date.today()):
            print(f"{page} says this of others, and nobody has looked for {CLAIM_DAYS} days: {row}")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute()))
