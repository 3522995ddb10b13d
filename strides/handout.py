"""A unit for the student to work in: copied once, and after that only ever joined by newer versions."""

from __future__ import annotations

import hashlib
import itertools
import json
import shutil
import sys
from pathlib import Path


def hand_out(unit: Path, mine: Path) -> str:
    """Copy a unit for the student to work in, keeping existing files: a notebook with newer code goes next to the old one, under another
    name. Returns a message on what is new for a student who has begun it, or ""."""
    given = unit / f"{unit.name}.ipynb"
    version, note = hashlib.sha256(given.read_bytes()).hexdigest(), mine / ".handed_out"
    known = note.read_text().split() if note.exists() else []  # version, and code of that version
    if version in known:
        return ""
    code, news = code_of(given), ""
    if not mine.exists():
        shutil.copytree(unit, mine)
        sign(mine / given.name)
    elif code in known:  # a blank copy next to the work would be handed in by mistake
        news = f"work/{unit.name}: only text has changed: stay in yours. The newer text: {given}"
    elif known:  # else it was copied before there were notes: which version it was is not known
        newer = next(path for n in itertools.count(2) if not (path := mine / f"{unit.name}_{n}.ipynb").exists())
        shutil.copy(given, newer)
        sign(newer)
        news = (
            f"work/{unit.name}: the course has a newer version, {newer.name}. Yours is untouched. Code has changed: copy your "
            "solutions over and go on in the newer one, or stay in yours. Hand in one."
        )
    note.write_text(f"{version}\n{code}\n")
    return news


def sign(notebook: Path) -> None:
    """Write into a copy which Python runs it, in the words of its kernel: JupyterLab would, and call the notebook changed as soon as it is
    open. Which release it is, it says already."""
    content = json.loads(notebook.read_text("utf-8"))
    content.setdefault("metadata", {})["language_info"] = {
        "codemirror_mode": {"name": "ipython", "version": sys.version_info.major},
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "name": "python",
        "nbconvert_exporter": "python",
        "pygments_lexer": f"ipython{sys.version_info.major}",
        "version": sys.version.split()[0],
    }
    notebook.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8")


def code_of(notebook: Path) -> str:
    """Hash a notebook's code cells."""
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    return hashlib.sha256(json.dumps([c["source"] for c in cells if c["cell_type"] == "code"]).encode()).hexdigest()
