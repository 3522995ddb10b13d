"""Environments that have what the one that runs the tests has, linked in, but for ours: nothing is downloaded."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from collections.abc import Sequence
from pathlib import Path

OURS = ("__editable__", "tritontrace", "_virtualenv")  # beginnings of names in site-packages


def environment(folder: Path, without: Sequence[str] = ()) -> Path:
    """Make an environment without our packages, and without those whose names begin so; return its Python."""
    venv.create(folder, with_pip=False, symlinks=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    for entry in sorted(Path(sysconfig.get_path("purelib")).iterdir()):
        left_out = entry.name.startswith((*OURS, *without))
        if entry.suffix != ".pth" and not left_out and not (packages / entry.name).exists():
            (packages / entry.name).symlink_to(entry)
    for data in ("share", "etc"):  # of Jupyter
        if (Path(sys.prefix) / data).exists() and not (folder / data).exists():
            (folder / data).symlink_to(Path(sys.prefix) / data)
    return folder / "bin" / "python"


def install(python: Path, *what: Path) -> None:
    """Install packages of ours from a folder or a wheel."""
    pip = [python, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index", *what]
    home = python.parents[1]
    done = subprocess.run(
        pip, cwd=home, env={"HOME": str(home), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
