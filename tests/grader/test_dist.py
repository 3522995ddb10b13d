"""A release: what it refuses to be, what is in it, and its wheels in an empty environment, where they are a whole course."""

from __future__ import annotations

import datetime
import json
import re
import socket
import subprocess
import tarfile
import time
import urllib.request
import zipfile
from importlib.util import find_spec
from pathlib import Path

import nbformat
import pytest
import yaml
from bare import environment, install
from scripts import COPY

from course_lib.exercises import UNITS
from grader import ROOT
from grader.audit import samples
from grader.building import release

TRACKED = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True, check=True).stdout
ORIGIN = "https://git.example/ada/course"


def project(folder: Path, changes: str, version: str = "1.2.0") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "CHANGELOG.md").write_text(f"# Changelog\n\nWhat changed.\n\n{changes}")
    (folder / "pyproject.toml").write_text(f'[project]\nversion = "{version}"\n')
    return folder


def test_claims_about_others_grow_old():
    page = "| ours | |\n| theirs | 2026-11 |\n| hers | 2026-04 |\n"
    assert release.old_claims(page, datetime.date(2026, 11, 29)) == ["| hers | 2026-04 |"]
    for page, row in zip(release.CLAIMS, (r"^\| \[.*", r"^\| (?!peer|---).*"), strict=True):
        rows = re.findall(row, (ROOT / page).read_text("utf-8"), re.M)
        assert rows and set(release.old_claims("\n".join(rows), datetime.date(2030, 1, 1))) == set(rows), (
            "each has a date"
        )


def test_the_version_and_its_notes_are_the_changelog_s(tmp_path):
    changes = "## Unreleased\n\n## 1.2.0 - 2026-12-01\n\n### Added\n- A unit.\n\n## 1.1.0 - 2026-11-01\n\n- Older.\n"
    assert release.newest(project(tmp_path, changes)) == release.Version("1.2.0", "2026-12-01", "### Added\n- A unit.")


@pytest.mark.parametrize(
    "changes, version",
    [
        ("## Unreleased\n- News.\n\n## 1.2.0 - 2026-12-01\n- Older.\n", "1.2.0"),
        ("## 1.2.0 - 2026-12-01\n- A unit.\n", "1.1.0"),
        ("## Unreleased\n* News.\n\n## 1.2.0 - 2026-12-01\n* Older.\n", "1.2.0"),
        ("## 1.2.0\n- A unit.\n", "1.2.0"),
        ("- News.\n", "1.2.0"),
    ],
)
def test_what_is_not_of_one_version_is_no_release(tmp_path, changes, version):
    with pytest.raises(release.NotReady):
        release.newest(project(tmp_path, changes, version))


def test_both_projects_name_one_engine(tmp_path):
    """Else pip finds no engine for the wheel of the course."""
    source = project(tmp_path, "")
    (source / "pyproject.toml").write_text('dependencies = ["tritontrace[pictures,prove]==0.3.0"]')
    package = source / "tritontrace" / "src" / "tritontrace" / "__init__.py"
    package.parent.mkdir(parents=True)
    package.write_text('__version__ = "0.3.0"\n')
    release.agree(source, release.Version("0.3.0", "", ""))
    with pytest.raises(release.NotReady, match=r"^pyproject\.toml"):
        release.agree(source, release.Version("0.3.1", "", ""))
    package.write_text('__version__ = "0.2.0"\n')
    with pytest.raises(release.NotReady, match=r"__init__\.py"):
        release.agree(source, release.Version("0.3.0", "", ""))


def test_a_release_is_what_is_committed(tmp_path):
    def git(*words):
        own = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", "-C", clone, *own, *words], check=True, capture_output=True)

    clone, to = project(tmp_path / "clone", ""), tmp_path / "to"
    to.mkdir()
    with pytest.raises(release.NotReady):
        release.committed(clone, to)
    git("init", "-q")
    (clone / ".gitignore").write_text("secret\n")
    (clone / "secret").write_text("0123")
    git("add", ".")
    git("commit", "-qm", "all")
    release.committed(clone, to)
    assert {path.name for path in to.iterdir()} == {".gitignore", "CHANGELOG.md", "pyproject.toml"}
    (clone / "draft").touch()
    with pytest.raises(release.NotReady, match="draft"):
        release.committed(clone, to)


def test_the_citation_is_one_and_says_what_is_known(tmp_path):
    release.cite(ROOT / "CITATION.cff", tmp_path, release.Version("1.2.0", "2026-12-01", ""), ORIGIN)
    cited = yaml.safe_load((tmp_path / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= cited.keys()  # what its schema requires
    assert (cited["version"], str(cited["date-released"]), cited["repository-code"]) == ("1.2.0", "2026-12-01", ORIGIN)
    release.cite(ROOT / "CITATION.cff", tmp_path, release.Version("1.2.0", "", ""), "")
    assert not {"date-released", "repository-code"} & yaml.safe_load((tmp_path / "CITATION.cff").read_text()).keys()


def test_the_same_files_are_the_same_zip(tmp_path):
    project(tmp_path / "source", "")
    for name in ("one", "two"):
        release.archive(tmp_path / "source", tmp_path / f"{name}.zip", "course", lambda file: file != "pyproject.toml")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    assert zipfile.ZipFile(tmp_path / "one.zip").namelist() == ["course/CHANGELOG.md"]


# ------------------------------------------------------------------------------------------------------------ made


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A release of the tracked files as they are, with what is unreleased given a version."""
    if find_spec("setuptools") is None:
        pytest.skip("setuptools is not there to build with")
    source, to = (tmp_path_factory.mktemp(name) for name in ("source", "release"))
    for name in filter(None, TRACKED.split("\0")):
        if (ROOT / name).exists():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    for folder in (source, source / "tritontrace"):
        version = release.tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]["version"]
        changes = re.sub(
            r"^## Unreleased\n",
            f"## {version} - 2026-12-01\n",
            (folder / "CHANGELOG.md").read_text("utf-8"),
            flags=re.M,
        )
        (folder / "CHANGELOG.md").write_text(changes, "utf-8")
    release.make(source, to, ORIGIN)
    (to / "SHA256SUMS").write_text(release.checksums(to))
    return to


def names(file: Path) -> set[str]:
    """The files that a wheel, an sdist or a zip holds, without the folder on top of the latter two."""
    if file.suffix == ".gz":
        with tarfile.open(file) as packed:
            return {name.partition("/")[2] for name in packed.getnames()}
    with zipfile.ZipFile(file) as packed:
        return {name if file.suffix == ".whl" else name.partition("/")[2] for name in packed.namelist()}


@pytest.mark.slow
def test_what_is_in_it(made):
    assert subprocess.run(["sha256sum", "-c", "--strict", "SHA256SUMS"], cwd=made, capture_output=True).returncode == 0
    (wheel,), (sdist,) = made.glob("strides*.whl"), made.glob("strides*.tar.gz")
    for unit in UNITS:
        assert {f"course_lib/{kind}/{unit}/{unit}.ipynb" for kind in ("notebooks", "solutions")} <= names(wheel)
    assert {f"course_lib/exercises/hints/{module}.md" for module in UNITS.values()} <= names(wheel)
    kept_back = re.compile(r"(^|/)(grader/judging/hidden|grader/audit/variants|tests)/")
    assert [name for file in (wheel, sdist) for name in names(file) if kept_back.search(name)] == []
    assert not [name for name in names(wheel) if not name.startswith(("course_lib/", "grader/", "strides"))]
    assert {path.name.partition("-")[0] for path in made.glob("*.whl")} == {"tritontrace", "strides_to_flashattention"}
    assert {path.name.partition("-")[0] for path in made.glob("*.tar.gz")} == {
        "tritontrace",
        "strides_to_flashattention",
    }
    (course,), (students,) = made.glob("*-course.zip"), made.glob("*-students.zip")
    assert {name for name in TRACKED.split("\0") if name and (ROOT / name).exists()} == names(course)
    assert "make.py" in names(students) and not [
        name for name in names(students) if name.startswith(("solutions", "grader"))
    ]


@pytest.fixture(scope="module")
def installed(made, tmp_path_factory) -> Path:
    """The folder of an environment in which the wheels are, with what they need."""
    folder = tmp_path_factory.mktemp("bare")
    install(environment(folder, without=("strides_to", "course")), *made.glob("*.whl"))
    return folder


def ran(installed: Path, *words: str | Path, status: int = 0) -> str:
    """The text that a command of that environment prints, outside of the clone."""
    home = installed / "home"
    home.mkdir(exist_ok=True)
    command = [installed / "bin" / "strides", *words]
    done = subprocess.run(
        command, cwd=home, env=settings(home), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert done.returncode == status, done.stdout
    return done.stdout


def settings(home: Path) -> dict[str, str]:
    return {"HOME": str(home), "PATH": "/usr/bin:/bin", "XDG_DATA_HOME": str(home / "data")}


@pytest.mark.slow
def test_its_wheels_check_trace_and_grade(installed, tmp_path):
    code = "import course_lib, grader, tritontrace as t; print(course_lib.__file__, grader.__file__, t.__file__)"
    asked = [installed / "bin" / "python", "-c", code]
    where = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.split()
    assert all(Path(path).is_relative_to(installed) for path in where), "they are the wheels' own"
    notebook = tmp_path / "00_start_here.ipynb"
    given = nbformat.read(ROOT / "notebooks" / notebook.stem / notebook.name, 4)
    nbformat.write(samples.solved(given), notebook)
    assert "start.add_one" in ran(installed, "check", notebook)
    progress = ran(installed, "next")
    assert re.search(r"^Next: .+ in 01 ", progress, re.M), "all of unit 00 is kept"
    (tmp_path / "script.py").write_text(COPY)
    assert "4,000 bytes loaded" in ran(installed, "trace", "--gpu", "H200", tmp_path / "script.py")
    demo = ran(installed, "demo", "00_start_here")
    assert re.search(r"full-marks.*\b22\b", demo) and re.search(r"blank.*\b0\b", demo)
    ran(installed, "grade", "autograde", "00_start_here", status=1)  # a class needs hidden cases


@pytest.mark.slow
def test_its_lab_opens_a_unit(installed):
    home = installed / "home"
    home.mkdir(exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = ["--no-browser", f"--ServerApp.port={port}", "--ServerApp.token=t", "--ServerApp.disable_check_xsrf=True"]
    lab = subprocess.Popen(
        [installed / "bin" / "strides", "lab", *options], cwd=home, env=settings(home), stdout=subprocess.DEVNULL
    )

    def asked(path: str, body: dict | None = None) -> dict:
        data = json.dumps(body).encode() if body else None
        request = urllib.request.Request(f"http://127.0.0.1:{port}/api/{path}", data, {"Authorization": "token t"})
        return json.load(urllib.request.urlopen(request, timeout=60))

    try:
        until = time.monotonic() + 120
        while True:
            try:
                unit = asked("contents/00_start_here/00_start_here.ipynb")
                break
            except OSError:
                assert lab.poll() is None and time.monotonic() < until
                time.sleep(0.5)
        assert unit["content"]["cells"]
        session = {"path": unit["path"], "name": "", "type": "notebook", "kernel": {"name": "python3"}}
        assert asked("sessions", session)["kernel"]["name"] == "python3"
        assert (home / "strides-to-flashattention" / "work" / "14_hopper_by_hand" / "14_hopper_by_hand.ipynb").exists()
    finally:
        lab.terminate()
        lab.wait(30)
