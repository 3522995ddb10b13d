"""The two cells by which a student's notebook runs on Colab and Kaggle: a link that opens it there, and what installs the course.

They are put behind the title of the notebooks that students get, and of no other. Neither is nbgrader's: without a grade_id there
is nothing to grade, to restore or to miss.
"""

from __future__ import annotations

import inspect
import re
import tomllib

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

import grader

LINK, SETUP = "hosted-link", "hosted-setup"  # ids of the two cells
THEIRS = {"torch", "triton", "jupyterlab"}  # taken as the service has them, or not needed there
COLLAPSED = {"cellView": "form", "editable": False, "jupyter": {"source_hidden": True}}  # Colab reads the first


def add(nb: NotebookNode, unit: str) -> None:
    """Put both cells behind the first one, the title."""
    nb.cells[1:1] = cells(unit)


def cells(unit: str) -> list[NotebookNode]:
    """The link and the installation, as pyproject.toml has the repository's address and what the course needs."""
    project = tomllib.loads((grader.ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    address = project["urls"]["Repository"]
    page = address.replace("https://github.com/", "https://colab.research.google.com/github/")
    link = (
        f"[Open this notebook in Google Colab]({page}/blob/main/notebooks/{unit}/{unit}.ipynb). There and on Kaggle, run the "
        "folded cell below first: it installs the course. If the course is already installed, the cell does nothing."
    )
    names = [re.split(r"[^\w-]", line, maxsplit=1)[0] for line in project["dependencies"]]
    packages = " ".join(name for name in names if name not in THEIRS)
    code = (
        "# @title On Colab and Kaggle, run this first. If the course is already installed, it does nothing.\n"
        f'{inspect.getsource(_install_the_course)}\n\n_install_the_course("{address}", "{packages}")'
    )
    return [
        new_markdown_cell(link, id=LINK, metadata={"editable": False}),
        new_code_cell(code, id=SETUP, metadata=COLLAPSED),
    ]


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
    steps += [[*pip, *packages.split()], [*pip, "--no-deps", "--editable", str(folder)]]
    for step in steps:
        try:  # there is nobody to type a password if git asks for one
            done = subprocess.run(step, capture_output=True, text=True, env={**os.environ, "GIT_TERMINAL_PROMPT": "0"})
            problem = (done.stderr.strip() or "no reason was given").splitlines()[-1] if done.returncode else ""
        except OSError as error:
            problem = str(error)
        if problem:
            print(f"The course is not installed. `{' '.join(step)}` failed: {problem}")
            return
    sys.path.append(
        str(folder)
    )  # this process began before the installation and cannot find the course without this line
    importlib.invalidate_caches()
    print("The course is installed. Go on with the next cell.")
