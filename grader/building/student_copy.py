"""A copy of the course for students: notebooks, course_lib, the command, the engine, and nothing that solves an exercise.

The published course has its solutions beside it. Who teaches with exercises that count keeps the repository private, and
hands out this copy: no solutions/, no grader (hidden cases, variants), no tests, no benchmarks or research kernels.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from grader import disk

FOLDERS = ("notebooks", "course_lib", "strides", "tritontrace/src", "benchmarks/results")
FILES = (
    *("README.md", "LICENSE", "CHANGELOG.md", "AGENTS.md", "Makefile", "make.py"),
    *("pyproject.toml", "setup.py", "MANIFEST.in", "environment.yml", "constraints.txt"),
    *("Dockerfile", ".dockerignore", "compose.yaml", ".devcontainer/devcontainer.json"),
    *("tritontrace/pyproject.toml", "tritontrace/README.md", "tritontrace/LICENSE"),
    *("docs/gpu.md", "docs/hosted.md", "docs/installing.md", "docs/what_next.md"),
)


def copy(root: Path, to: Path, twisted: Sequence[str] = ()) -> int:
    """Copy what students get, as it is committed, into the folder `to`; return the number of files. Raises ValueError if `to` has files, or
    if something is not committed: the grader would then use other points than students see.

    twisted    the units in which the class asks for twists: in the copy, checks there ask for the student's code
    """
    disk.require_new(to)
    changed = [line[3:] for line in _git(root, "status", "--porcelain").splitlines() if handed_out(line[3:])]
    if changed:
        raise ValueError(f"Commit first, or students get other points than the grader gives: {', '.join(changed[:5])}.")
    names = [name for name in _git(root, "ls-files", "-z").split("\0") if handed_out(name)]
    for name in names:
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, to / name)
    if twisted:
        (to / "notebooks" / "twists.json").write_text(json.dumps({"units": [*twisted]}))
    return len(names)


def handed_out(name: str) -> bool:
    """Whether students get the file of that name, which is relative to the repository."""
    pictures = name.startswith("docs/") and name.endswith(".png")
    return name in FILES or pictures or any(name.startswith(f"{folder}/") for folder in FOLDERS)


def _git(root: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", str(root), *words], check=True, capture_output=True, text=True).stdout
