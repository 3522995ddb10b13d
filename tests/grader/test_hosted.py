"""The cells that install the course on Colab and Kaggle, run as a file by a Python that has no course, with a git and a pip that
write down what they were asked for."""

import ast
import json
import os
import subprocess
import sys
import tomllib

import nbformat
import pytest
import toy
from packaging.requirements import Requirement

import grader
from course_lib.exercises import UNITS
from course_lib.handin import cells, files
from grader.building import build, hosted

PROJECT = tomllib.loads((grader.ROOT / "pyproject.toml").read_text("utf-8"))["project"]
CODE = hosted.cells("00_start_here")[1].source
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


@pytest.mark.parametrize("unit", UNITS)
def test_each_students_notebook_has_both_cells_once_and_no_other_has_them(unit):
    students, instructors = (
        nbformat.read(grader.ROOT / room / unit / f"{unit}.ipynb", as_version=4) for room in ("notebooks", "solutions")
    )
    link, setup = students.cells[1:3]
    assert [cell.id for cell in students.cells if cell.id.startswith("hosted")] == [hosted.LINK, hosted.SETUP]
    assert f"/notebooks/{unit}/{unit}.ipynb)" in link.source and link.source.count("](https://colab.research") == 1
    assert (setup.source, setup.outputs, setup.execution_count) == (CODE, [], None)
    assert setup.metadata == hosted.COLLAPSED and setup.metadata.jupyter.source_hidden
    assert not [cell.id for cell in instructors.cells if cell.id.startswith("hosted")]


def test_the_link_leads_to_the_repository_that_the_cell_installs():
    address = PROJECT["urls"]["Repository"]
    assert address.startswith("https://github.com/") and f'"{address}"' in CODE
    link = hosted.cells("05_tiling")[0].source
    assert address.replace("https://github.com/", "https://colab.research.google.com/github/") + "/blob/main/" in link


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
    clone = f"0 clone --quiet --depth=1 {PROJECT['urls']['Repository']} {folder}\n"
    assert (service.home / "git").read_text() == clone
    packages, course = asked_of_pip(service)
    needed = {Requirement(line).name for line in PROJECT["dependencies"]} - {"torch", "triton", "jupyterlab"}
    assert packages[:2] == course[:2] == ["install", "--quiet"]
    assert set(packages[2:]) == needed  # names alone: what is there already satisfies them
    assert course[2:] == ["--no-deps", "--editable", folder]


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


def test_handing_in_does_not_see_the_cells(tmp_path, monkeypatch):
    toy.install(monkeypatch)
    (tmp_path / "solutions").mkdir()
    (tmp_path / "solutions" / f"{toy.UNIT}.py").write_text(toy.SOURCE)
    _, students = build.build(toy.UNIT, execute=False, root=tmp_path)
    nb = nbformat.read(students, as_version=4)
    assert [cell.id for cell in nb.cells[1:3]] == [hosted.LINK, hosted.SETUP]
    assert not any("nbgrader" in cell.metadata for cell in nb.cells[1:3])
    read = cells.parse(students.read_bytes(), students.name)
    assert [cell.grade_id for cell in read[1:3]] == ["", ""]


def test_a_unit_is_still_known_by_its_exercises():
    for unit in UNITS:
        assert files.unit_of(files.read(files.released(unit))[1]) == unit
