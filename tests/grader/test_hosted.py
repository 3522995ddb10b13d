"""Notebooks of the site for Colab and Kaggle, where the clone's origin is known. The cell that installs the course is run as a file
by a Python that has none, with a git and a pip that write down what they were asked for."""

import ast
import json
import os
import subprocess
import sys
import tomllib

import nbformat
import pytest
import toy
import yaml
from packaging.requirements import Requirement

import grader
from course_lib.exercises import UNITS
from course_lib.handin import cells, files
from grader.building import build, hosted, origin, site

PROJECT = tomllib.loads((grader.ROOT / "pyproject.toml").read_text("utf-8"))["project"]
TWO = {unit: UNITS[unit] for unit in ("02_dtypes", "05_tiling")}
COURSE = "https://github.com/ada/course"
CODE = hosted.setup(COURSE).source
GIT = """#!/bin/sh
echo "$GIT_TERMINAL_PROMPT $@" >> "$HOME/git"
for last; do :; done
mkdir -p "$last/course_lib" && touch "$last/course_lib/__init__.py"
"""
PIP = """import json, os, sys
with open(os.environ["HOME"] + "/pip", "a") as file:
    print(json.dumps(sys.argv[1:]), file=file)
if os.environ.get("PIP_FAILS"):
    sys.exit("a long story\\nERROR: no network")
"""


@pytest.fixture
def service(tmp_path):
    """Runs code in a Python without the course, with torch and triton of its own, and returns what it prints."""
    home, programs, packages = tmp_path / "home", tmp_path / "bin", tmp_path / "packages"
    for folder in (home, programs, *(packages / name for name in ("torch", "triton", "pip"))):
        folder.mkdir(parents=True)
        (folder / "__init__.py").touch()
    (programs / "git").write_text(GIT)
    (programs / "git").chmod(0o755)
    (packages / "pip" / "__main__.py").write_text(PIP)

    def run(code, **environment):
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"
        base = {"PATH": path, "HOME": str(home), "PYTHONPATH": str(packages)}
        command = [sys._base_executable, "-c", code]  # not the one of .venv, which has the course
        done = subprocess.run(command, cwd=tmp_path, env={**base, **environment}, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    run.home, run.packages = home, packages
    return run


def asked_of_pip(service):
    return [json.loads(line) for line in (service.home / "pip").read_text().splitlines()]


@pytest.mark.parametrize(
    "remote, address",
    [
        ("https://github.com/ada/course.git", COURSE),
        ("https://ada:a-token@github.com/ada/course/", COURSE),
        ("git@github.com:ada/course.git", COURSE),
        ("ssh://git@github.com:22/ada/course", COURSE),
        ("git@gitlab.example:group/part/course.git", "https://gitlab.example/group/part/course"),
        ("http://localhost:3000/ada/course", "http://localhost:3000/ada/course"),
        *(
            (path, "")
            for path in ("/srv/course", "../course", "file:///srv/course", "C:/course", "ada@host:/srv/course")
        ),
        (f'{COURSE}"); print("', ""),
        (f"{COURSE}](elsewhere)", ""),
    ],
)
def test_the_address_is_that_of_the_clone_s_origin(tmp_path, monkeypatch, remote, address):
    monkeypatch.delenv(origin.SETTING, raising=False)
    for words in (["init", "-q"], ["remote", "add", "origin", remote]):
        subprocess.run(["git", "-C", tmp_path, *words], check=True)
    assert origin.address(tmp_path) == address
    (tmp_path / "unpacked").mkdir()
    assert origin.address(tmp_path / "unpacked") == "", "a folder in somebody else's repository"


def test_without_git_or_an_origin_there_is_none_and_a_setting_comes_first(tmp_path, monkeypatch):
    monkeypatch.delenv(origin.SETTING, raising=False)
    assert origin.address(tmp_path) == ""
    subprocess.run(["git", "-C", tmp_path, "init", "-q"], check=True)
    assert origin.address(tmp_path) == ""
    subprocess.run(["git", "-C", tmp_path, "remote", "add", "origin", "https://github.com/ben/fork"], check=True)
    monkeypatch.setenv(origin.SETTING, f"{COURSE}.git")
    assert origin.address(tmp_path) == COURSE
    monkeypatch.setenv(origin.SETTING, "")
    assert origin.address(tmp_path) == "", "so that a site says nothing of an origin"
    monkeypatch.delenv(origin.SETTING)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert origin.address(tmp_path) == ""


def test_a_setting_that_is_no_address_is_told_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv(origin.SETTING, "ada/course")
    assert site.main(tmp_path / "site") == 1
    said = capsys.readouterr().err
    assert said.startswith(f"{origin.SETTING}=ada/course ") and said.count("\n") == 1


@pytest.fixture(scope="module")
def staged(tmp_path_factory):
    """Sources for Sphinx, by the repository's address; of two units, whose widgets and pictures are not drawn."""
    made = {said: tmp_path_factory.mktemp("source") for said in ("", COURSE)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(site, "UNITS", TWO)
        patch.setattr(site.lessons, "ahead", lambda calls, saved: ({}, {}))
        for said, folder in made.items():
            site.stage(folder, said)
    return made


@pytest.mark.parametrize("unit", TWO)
def test_with_an_origin_each_unit_s_page_leads_to_its_notebook_on_colab_and_as_a_file(staged, unit):
    cells = nbformat.read(staged[COURSE] / f"{unit}.ipynb", as_version=4).cells
    colab = f"https://colab.research.google.com/github/ada/course/blob/notebooks/{unit}.ipynb"
    assert f"]({colab})" in cells[1].source and f'href="notebooks/{unit}.ipynb"' in cells[1].source
    published = nbformat.read(staged[COURSE] / "extra" / "notebooks" / f"{unit}.ipynb", as_version=4)
    released = nbformat.read(grader.released(unit), as_version=4)
    setup = published.cells.pop(1)
    assert (setup.id, setup.source, setup.outputs, setup.execution_count) == (hosted.SETUP, CODE, [], None)
    assert setup.metadata == hosted.COLLAPSED and setup.metadata.jupyter.source_hidden
    assert "../" not in published.cells[0].source, "no other unit lies beside it"
    released.cells[0].source = published.cells[0].source
    assert published == released and f'"{COURSE}"' in CODE


@pytest.mark.parametrize("unit", TWO)
def test_without_one_no_page_speaks_of_it(staged, unit):
    pages = [nbformat.read(staged[said] / f"{unit}.ipynb", as_version=4).cells for said in ("", COURSE)]
    assert [cell.source for cell in pages[0]] == [cell.source for i, cell in enumerate(pages[1]) if i != 1]
    assert list((staged[""] / "extra").rglob("*.ipynb")) == []


def test_the_first_page_says_how_to_get_the_course_where_it_knows(staged):
    line = f"git clone {COURSE} course"
    index = {said: (staged[said] / "index.md").read_text("utf-8") for said in ("", COURSE)}
    assert line in index[COURSE] and "git clone" not in index[""]


def test_a_host_without_colab_has_the_file_alone():
    line = site.lessons.to_work_in("05_tiling", "https://gitlab.example/ada/course").source
    assert "colab.research" not in line and 'href="notebooks/05_tiling.ipynb"' in line


def test_the_workflow_pushes_what_colab_opens_and_leaves_the_clone_as_it_is(tmp_path):
    clone, bare = tmp_path / "clone", tmp_path / "bare"
    page = f"{clone}/build/site/html/notebooks/05_tiling.ipynb"
    subprocess.run(["git", "init", "-q", "--bare", bare], check=True)
    subprocess.run(["git", "clone", "-q", bare, clone], check=True, capture_output=True)
    os.makedirs(os.path.dirname(page))
    (clone / ".gitignore").write_text("build\n")
    nbformat.write(hosted.notebook("05_tiling", COURSE), page)
    (workflow,) = yaml.safe_load((grader.ROOT / ".github/workflows/site.yml").read_text("utf-8"))["jobs"].values()
    (step,) = (step for step in workflow["steps"] if "git push" in step.get("run", ""))
    for _ in range(2):  # the second one over the first
        subprocess.run(
            ["bash", "-e", "-c", step["run"]], cwd=clone, env=os.environ | step["env"], check=True, capture_output=True
        )
    git = {"cwd": clone, "check": True, "capture_output": True, "text": True}
    listed = subprocess.run(["git", "ls-tree", "--name-only", "origin/notebooks"], **git).stdout
    assert listed == "05_tiling.ipynb\n"
    assert subprocess.run(["git", "status", "--short"], **git).stdout == "?? .gitignore\n"
    guide = (grader.ROOT / "docs" / "hosted.md").read_text("utf-8")
    assert [line for line in step["run"].splitlines() if f"    {line}" not in guide] == []


def test_the_cell_binds_one_name_that_no_answer_uses():
    definition, call = ast.parse(CODE, feature_version=(3, 8)).body  # an older Python must get as far as the sentence
    assert isinstance(definition, ast.FunctionDef) and definition.name.startswith("_")
    assert isinstance(call, ast.Expr)


def test_where_the_course_is_it_does_nothing(tmp_path):
    code = f"import subprocess, sys\nsubprocess.run = None\nbefore = list(sys.path)\n{CODE}\nassert sys.path == before"
    environment = {**os.environ, "PYTHONPATH": str(grader.ROOT), "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "") and list(tmp_path.iterdir()) == []


def test_it_installs_without_pins_and_names_neither_torch_nor_triton(service):
    service(CODE)
    folder = str(service.home / "strides-to-flashattention")
    clone = f"0 clone --quiet --depth=1 {COURSE} {folder}\n"
    assert (service.home / "git").read_text() == clone
    packages, course = asked_of_pip(service)
    needed = {Requirement(line).name for line in PROJECT["dependencies"]} - {
        "torch",
        "triton",
        "tritontrace",
        "jupyterlab",
    }
    assert packages[:2] == course[:2] == ["install", "--quiet"]
    assert set(packages[2:]) == needed  # names alone: what is there already satisfies them
    assert course[2:] == ["--no-deps", "--editable", f"{folder}/tritontrace", "--editable", folder]


def test_no_package_that_it_names_brings_torch_or_triton():
    from importlib.metadata import requires

    waiting, seen = asked_for(CODE), set()
    while waiting:
        name = waiting.pop()
        seen.add(name)
        lines = [Requirement(line) for line in requires(name) or []]
        needed = [line.name for line in lines if line.marker is None or line.marker.evaluate({"extra": ""})]
        waiting += [each for each in needed if each not in seen]
    assert "jaxtyping" in seen and {"torch", "triton"} & seen == set()


def asked_for(code):
    call = ast.parse(code).body[-1].value
    return call.args[1].value.split()


def test_a_kernel_that_was_started_before_finds_the_course(service):
    told = service(f"import importlib.util as u\nassert not u.find_spec('course_lib')\n{CODE}\nimport course_lib")
    assert told == "The course is installed. Go on with the next cell.\n"


def test_a_second_run_after_a_failure_goes_on_from_there(service):
    told = service(CODE, PIP_FAILS="1")
    assert told.startswith("The course is not installed. `") and told.endswith("failed: ERROR: no network\n")
    assert told.count("\n") == 1 and len(asked_of_pip(service)) == 1
    assert "is installed. Go on" in service(CODE)
    assert len((service.home / "git").read_text().splitlines()) == 1


@pytest.mark.parametrize("name", ["torch", "triton"])
def test_without_torch_or_triton_it_says_so_and_installs_nothing(service, name):
    (service.packages / name / "__init__.py").unlink()
    (service.packages / name).rmdir()
    told = service(CODE)
    assert told.startswith(f"The course needs {name}, ") and told.count("\n") == 1
    assert {path.name for path in service.home.iterdir()} == {"__init__.py"}


def test_an_older_python_is_told_so(service):
    told = service(f"import sys\nsys.version_info, sys.version = (3, 10, 12), '3.10.12 (main)'\n{CODE}")
    assert told == "The course needs Python 3.11 or newer, and this is 3.10.12. Nothing was installed.\n"
    assert PROJECT["requires-python"] == ">=3.11"


def test_without_git_it_says_so(service):
    assert "failed: " in service(CODE, PATH="/nowhere") and not (service.home / "pip").exists()


def test_handing_in_does_not_see_the_cell(tmp_path, monkeypatch):
    toy.install(monkeypatch)
    (tmp_path / "solutions").mkdir()
    (tmp_path / "solutions" / f"{toy.UNIT}.py").write_text(toy.SOURCE)
    _, students = build.build(toy.UNIT, execute=False, root=tmp_path)
    monkeypatch.setattr(grader, "released", lambda unit: students)
    nb = hosted.notebook(toy.UNIT, COURSE)
    assert nb.cells[1].id == hosted.SETUP and "nbgrader" not in nb.cells[1].metadata
    read = cells.parse(nbformat.writes(nb).encode(), students.name)
    assert read[1].grade_id == "" and len(read) == 1 + len(cells.parse(students.read_bytes(), students.name))


def test_a_unit_is_still_known_by_its_exercises():
    for unit in UNITS:
        assert files.unit_of(files.read(files.released(unit))[1]) == unit
