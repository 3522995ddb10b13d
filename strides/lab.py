"""The course in JupyterLab: units handed out, and the one that is next opened."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from course_lib import content
from strides.handout import hand_out

SETTINGS = content.PACKAGE / "jupyter"  # without nbgrader's buttons, which are an instructor's
# The server's own reports would carry ours out of sight, and warn of what no student can act on, such as that a notebook is
# not trusted yet. Its address is shown at every level
QUIET = "--log-level=ERROR"
EDGES = f"--LabApp.extra_labextensions_path={SETTINGS / 'labextensions'}"  # what the course adds to notebooks


def work(folder: Path, options: Sequence[str]) -> int:
    """Hand out what is new and open JupyterLab at the next unit in `folder`. options: for JupyterLab."""
    units = sorted(p for p in (content.ROOT / "notebooks").iterdir() if (p / f"{p.name}.ipynb").exists())
    for news in filter(None, [hand_out(unit, folder / unit.name) for unit in units]):
        print(news)
    unit = next_unit()
    first = f"{unit}/{unit}.ipynb" if (folder / unit / f"{unit}.ipynb").exists() else unit  # it may be renamed
    print(f"JupyterLab opens {_named(folder)}/{first}, which is next. Ctrl+C here, twice, ends it.", flush=True)
    return _jupyter(folder, first, options)


def solutions(folder: Path, options: Sequence[str]) -> int:
    """Copy the solutions to `folder`, over those of an earlier version, and open them."""
    if not (content.ROOT / "solutions").is_dir():
        print("This copy of the course has no solutions.")
        return 1
    shutil.copytree(content.ROOT / "solutions", folder, ignore=shutil.ignore_patterns("*.py", ".*"), dirs_exist_ok=True)
    print(f"JupyterLab opens a copy of the solutions, {_named(folder)}. Ctrl+C here, twice, ends it.", flush=True)
    return _jupyter(folder, "", options)


def next_unit() -> str:
    """Return the next unit by the course's progress, computed in another process, which the lab need not carry along; the first one, if
    that fails."""
    asked = [sys.executable, "-c", "from course_lib import progress; print(progress().unit)"]
    answer = subprocess.run(asked, capture_output=True, text=True).stdout.strip()
    return answer or min(path.name for path in (content.ROOT / "notebooks").iterdir() if path.is_dir())


def _named(folder: Path) -> str:
    """A folder as one would type it: from the clone, or from home."""
    if folder.is_relative_to(content.OWN) and not content.INSTALLED:
        return str(folder.relative_to(content.OWN))
    return str(folder).replace(str(Path.home()), "~", 1)


def _jupyter(folder: Path, first: str, options: Sequence[str]) -> int:
    root = ["--allow-root"] * (sys.platform != "win32" and os.geteuid() == 0)  # as in most containers
    settings = os.pathsep.join(filter(None, [str(SETTINGS), os.environ.get("JUPYTER_CONFIG_PATH")]))
    asked = [
        sys.executable,
        "-m",
        "jupyterlab",
        f"--notebook-dir={folder}",
        f"--LabApp.default_url=/lab/tree/{first}",
        EDGES,
    ]
    environment = os.environ | {"JUPYTER_CONFIG_PATH": settings}
    if find_spec("triton") is None:  # so that cells can import Triton before they import the course
        environment["PYTHONSTARTUP"] = str(Path(__file__).with_name("startup.py"))
    return _become([*asked, QUIET, *root, *options], environment)


def _become(command: list[str], environment: Mapping[str, str]) -> int:
    """Run a command in the place of this process, which Ctrl+C would otherwise end before JupyterLab has stopped its kernels."""
    if sys.platform == "win32":  # there, the shell would not wait
        return subprocess.call(command, env=environment)
    os.execve(command[0], command, environment)
