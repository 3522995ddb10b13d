"""The Dockerfile's steps without an engine: its context, its last RUN and its CMD, in a folder that has nothing else.

pip and JupyterLab are stand-ins that write down what they were asked for, so nothing is downloaded. test_container.py builds the
image where an engine works.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

from grader import ROOT

LINES = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text("utf-8")).splitlines()
INSTRUCTIONS = [tuple(line.split(" ", 1)) for line in LINES if line and not line.startswith("#")]
ARGUMENTS = dict(rest.split("=") for instruction, rest in INSTRUCTIONS if instruction == "ARG")
INSTRUCTORS = (
    "grader/secret",
    "grader/gradebook.db",
    "grader/submitted/ada/notebook",
    "grader/marks.csv",
    ".git/config",
)
STAND_IN = """import json, os, sys
with open(os.environ["ASKED"], "a") as file:
    print(json.dumps(sys.argv[1:]), file=file)
"""


def all_of(name: str) -> list[str]:
    return [rest for instruction, rest in INSTRUCTIONS if instruction == name]


def ignored(path: str) -> bool:
    """Whether .dockerignore keeps a file, or a folder that it is in, out of the context."""
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    patterns = [line.removeprefix("**/") for line in lines if line and not line.startswith("#")]
    anywhere = {line.removeprefix("**/") for line in lines if line.startswith("**/")}
    parts = Path(path).parts
    heads = ["/".join(parts[: i + 1]) for i in range(len(parts))]
    return any(
        fnmatch(part if pattern in anywhere else head, pattern)
        and (pattern in anywhere or head.count("/") == pattern.count("/"))
        for pattern in patterns
        for head, part in zip(heads, parts, strict=True)
    )


@pytest.fixture(scope="module")
def course(tmp_path_factory) -> Path:
    """/course of the image: what COPY takes from a clone in which an instructor has worked, and what the last RUN makes of it."""
    folder = tmp_path_factory.mktemp("image") / "course"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if not ignored(name) and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    packages = folder.parent / "packages" / "pip"
    packages.mkdir(parents=True)
    (packages / "__init__.py").touch()
    (packages / "__main__.py").write_text(STAND_IN)
    for step in all_of("RUN")[-2:]:
        run(folder, step)
    return folder


def run(course: Path, step: str) -> None:
    """Run a step as a shell in /course does. `python3` is this Python without its packages."""
    programs = course.parent / "bin"
    programs.mkdir(exist_ok=True)
    if not (programs / "python3").exists():
        (programs / "python3").symlink_to(sys._base_executable)
    environment = {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(course.parent),
        "PYTHONPATH": str(course.parent / "packages"),
        "ASKED": str(course.parent / "asked"),
        "TORCH": ARGUMENTS["TORCH"],
    }
    done = subprocess.run(["sh", "-c", step], cwd=course, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def asked(course: Path) -> list[list[str]]:
    return [json.loads(line) for line in (course.parent / "asked").read_text().splitlines()]


def test_the_base_is_a_python_that_the_course_is_for():
    assert all_of("FROM") == ["$BASE"]
    version = re.fullmatch(r"python:(3\.\d+)-slim", ARGUMENTS["BASE"])[1]
    assert version in ("3.11", "3.12", "3.13")


@pytest.mark.parametrize("build", ["cpu", "cuda"])
def test_a_compiler_is_there_for_a_gpu_alone(tmp_path, build):
    """Triton makes its launchers with one. Lists and archives of packages stay in no layer."""
    (tmp_path / "apt-get").write_text('#!/bin/sh\necho "$@" >> "$ASKED"\n')
    (tmp_path / "apt-get").chmod(0o755)
    step, lists = all_of("RUN")[0].split(" && rm -rf ")
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "TORCH": build, "ASKED": str(tmp_path / "asked")}
    subprocess.run(["sh", "-ec", step], env=environment, check=True)
    update, installed, clean = (tmp_path / "asked").read_text().splitlines()
    assert (update, clean, lists) == ("update", "clean", "/var/lib/apt/lists/*")
    assert {"bubblewrap", "git"} <= set(installed.split())
    assert ({"gcc", "libc6-dev"} <= set(installed.split())) == (build == "cuda")


def test_what_an_instructor_has_does_not_get_in():
    assert [path for path in INSTRUCTORS if not ignored(path)] == []
    assert ignored("work/00_start_here/00_start_here.ipynb") and ignored("course_lib/__pycache__/x.pyc")
    assert not ignored("grader/building/build.py") and not ignored("tritontrace/tests/shared/runs.py")


def test_nobody_is_root_when_the_course_is_copied_and_run():
    order = [instruction for instruction, _ in INSTRUCTIONS]
    assert all_of("USER") == ["learner"] and order.index("USER") < order.index("COPY") < order.index("CMD")
    assert all(step.startswith("--chown=learner ") for step in all_of("COPY")), "the files belong to the user"


@pytest.mark.slow
def test_it_installs_the_course_with_its_constraints_and_keeps_no_cache(course):
    needed, uv, again, own = asked(course)
    assert (
        needed[:4] == ["install", "--progress-bar=off", "-c", str(course / "constraints.txt")]
        and "torch==2.13.0" in needed
    )
    assert (uv[0], uv[-1]) == ("uninstall", "uv") and again == needed, "which pip then has"
    assert own[2:] == ["--no-deps", "--editable", str(course / "tritontrace"), "--editable", str(course)]
    assert all("PIP_NO_CACHE_DIR=1 UV_NO_CACHE=1" in step for step in all_of("RUN")[-2:])
    assert (course / ".venv" / "bin" / "python").exists() and (course / "work").is_dir()


@pytest.mark.slow
def test_a_change_of_the_course_installs_no_dependency_again(tmp_path, course):
    """The layer with torch is made of what stands before `COPY . .`, and of nothing else."""
    order = [INSTRUCTIONS.index(("COPY", step)) for step in all_of("COPY")]
    assert all_of("COPY")[-1] == "--chown=learner . ." and INSTRUCTIONS[order[-1] - 1][0] == "RUN"
    folder = tmp_path / "course"
    for step in all_of("COPY")[:-1]:
        *names, to = step.split()[1:]
        for name in names:
            (folder / to).mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / to / Path(name).name)
    shutil.copytree(course.parent / "packages", tmp_path / "packages")
    run(folder, all_of("RUN")[-2])
    assert [words[0] for words in asked(folder)] == ["install", "uninstall"]


def test_torch_s_build_is_an_argument_that_the_container_keeps():
    assert ARGUMENTS["TORCH"] == "cuda" and "TORCH=$TORCH" in all_of("ENV")


@pytest.mark.slow
def test_its_command_opens_the_lab_to_the_host_and_installs_nothing_more(course):
    jupyterlab = course.parent / "packages" / "jupyterlab"
    jupyterlab.mkdir()
    (jupyterlab / "__main__.py").write_text(STAND_IN)
    before = len(asked(course))
    (command,) = all_of("CMD")
    assert command.startswith('[".venv/bin/strides", ')  # pip, which is a stand-in, did not install it
    run(course, ".venv/bin/python -m strides " + " ".join(json.loads(command)[1:]))
    (lab,) = asked(course)[before:]
    assert {"--no-browser", "--ip=0.0.0.0", f"--notebook-dir={course / 'work'}"} <= set(lab)
    assert (course / "work" / "00_start_here" / "00_start_here.ipynb").exists()
    assert f"COURSE_PROGRESS={all_of('WORKDIR')[0]}/work/.progress.json" in all_of("ENV")
