"""The cell by which a student's notebook runs on Colab and Kaggle: it installs the course. And the link that opens one on Colab.

The site publishes notebooks with this cell behind their title (site.py); those of the repository have no address, and so no cell. It is not
nbgrader's: without a grade_id there is nothing to grade, to restore or to miss.
"""

from __future__ import annotations

import inspect
import re
import tomllib

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

import grader

SETUP = "hosted-setup"  # the cell's id
GITHUB, COLAB = "https://github.com/", "https://colab.research.google.com/github/"
FOLDER = "notebooks"  # of the site
BRANCH = "notebooks"  # on GitHub, with what is in FOLDER: Colab opens files of repositories alone
THEIRS = {
    "torch",
    "triton",
    "jupyterlab",
    "tritontrace",
}  # taken as the service has them, not needed there, or of the clone
COLLAPSED = {"cellView": "form", "editable": False, "jupyter": {"source_hidden": True}}  # Colab reads the first


def notebook(unit: str, address: str) -> NotebookNode:
    """Return the students' notebook with a cell that installs the course, behind its title."""
    made: NotebookNode = nbformat.read(grader.released(unit), as_version=4)
    made.cells[0].source = re.sub(
        r"\[(\d\d[^]]*)\]\(\.\./[^)]*\)", r"\1", made.cells[0].source
    )  # no other unit lies beside it
    made.cells[1:1] = [setup(address)]
    return made


def setup(address: str) -> NotebookNode:
    """Return the cell that installs the course from this address, with the dependencies of pyproject.toml."""
    project = tomllib.loads((grader.ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = [re.split(r"[^\w-]", line, maxsplit=1)[0] for line in project["dependencies"]]
    packages = " ".join(name for name in names if name not in THEIRS)
    code = (
        "# @title On Colab and Kaggle, run this first. If the course is already installed, it does nothing.\n"
        f'{inspect.getsource(_install_the_course)}\n\n_install_the_course("{address}", "{packages}")'
    )
    return new_code_cell(code, id=SETUP, metadata=COLLAPSED)


def on_colab(unit: str, address: str) -> str:
    """Return the address that opens a unit on Colab, which takes notebooks from GitHub; "" for a repository elsewhere."""
    if not address.startswith(GITHUB):
        return ""
    return f"{address.replace(GITHUB, COLAB)}/blob/{BRANCH}/{unit}.ipynb"


def _install_the_course(address, packages):
    """Install the course into this Python and leave its torch and Triton as they are."""
    import importlib.util
    import os
    import subprocess
    import sys
    from pathlib import Path

    if importlib.util.find_spec("course_lib"):
        return
    if sys.version_info < (3, 11):
        print(f"The course needs Python 3.11 or newer, and this is {sys.version.split()[0]}. Nothing was installed.")
        return
    for name in ("torch", "triton"):
        if not importlib.util.find_spec(name):
            print(
                f"The course needs {name}, which this Python does not have. Choose a machine that has it. Nothing was installed."
            )
            return
    folder = Path.home() / "strides-to-flashattention"
    pip = [sys.executable, "-m", "pip", "install", "--quiet"]
    steps = [["git", "clone", "--quiet", "--depth=1", address, str(folder)]] if not folder.exists() else []
    steps += [
        [*pip, *packages.split()],
        [*pip, "--no-deps", "--editable", str(folder / "tritontrace"), "--editable", str(folder)],
    ]
    for step in steps:
        try:  # there is nobody to type a password if git asks for one
            done = subprocess.run(step, capture_output=True, text=True, env={**os.environ, "GIT_TERMINAL_PROMPT": "0"})
            problem = (done.stderr.strip() or "no reason was given").splitlines()[-1] if done.returncode else ""
        except OSError as error:
            problem = str(error)
        if problem:
            print(f"The course is not installed. `{' '.join(step)}` failed: {problem}")
            return
    # this process began before the installation and cannot find the course without this line
    sys.path += [str(folder), str(folder / "tritontrace" / "src")]
    importlib.invalidate_caches()
    print("The course is installed. Go on with the next cell.")
