"""Folders of the course: where its notebooks and solutions lie, and where what is its user's goes.

A clone has them beside this package, and keeps what is its user's in itself. A wheel has them in the package, and what is its user's
lies in the home folder, so that it outlives the environment.
"""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
INSTALLED = (PACKAGE / "notebooks").is_dir()
"""Whether this is a wheel's course: setup.py put the notebooks into it."""
ROOT = PACKAGE if INSTALLED else PACKAGE.parent
"""The folder with notebooks/ and solutions/."""
OWN = Path.home() / "strides-to-flashattention" if INSTALLED else PACKAGE.parent
"""The folder with work/, and for instructors grader/ and build/; a wheel's need not be there yet."""
