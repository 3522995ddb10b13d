"""docs/solutions.md: from each exercise to its published solution, for whoever learns alone. `grader build` writes it.

The links stand there, and in no notebook: students' notebooks lie in a class's folders and in work/, where solutions/ is
out of reach or was not handed out.
"""

from __future__ import annotations

import re
from pathlib import Path

import grader
from course_lib.exercises import UNITS

PAGE = Path("docs", "solutions.md")
HEAD = """\
# From each exercise to its solution

Each unit's name leads to the notebook with solutions, outputs and pictures. Each exercise leads to the cell there that solves it.
(Where a viewer opens the notebook at its beginning, look for the heading.) Try to solve an exercise first; `hint("...")`
costs nothing. The exercises of More stand behind those of the main path. `grader build` writes this page.
"""


def text(root: Path) -> str:
    """Return the index of solutions as Markdown, from solutions/NN_topic.py. Raises ValueError if an exercise has no cell there."""
    return "\n".join([HEAD, *(_of_unit(root, unit) for unit in UNITS)])


def write(root: Path) -> Path:
    """Write the index of solutions, and return its path."""
    (root / PAGE).write_text(text(root), "utf-8")
    return PAGE


def check(root: Path) -> list[str]:
    """List a message if the page differs from the sources."""
    page = root / PAGE
    fresh = page.exists() and page.read_text("utf-8") == text(root)
    return [] if fresh else [f"{PAGE} is stale: `grader build --no-execute` writes it anew."]


def _of_unit(root: Path, unit: str) -> str:
    lines = (root / "solutions" / f"{unit}.py").read_text("utf-8").splitlines()
    notebook, entries = f"../solutions/{unit}/{unit}.ipynb", []
    for exercise in grader.exercises(unit).values():
        cell = f'# %% exercise="{exercise.id}"'
        if cell not in lines:
            raise ValueError(f"solutions/{unit}.py has no cell {cell!r}.")
        headings = [line for line in lines[: lines.index(cell)] if line.startswith("# ## ")]
        title = re.sub(r"^# ## (Exercise: )?", "", headings[-1]) if headings else exercise.entry
        entries.append(
            f"* [{title}]({notebook}#cell-id={exercise.grade_id}), `{exercise.id}`{'' if exercise.track == 'path' else ' (More)'}\n"
        )
    return f"## [{unit.replace('_', ' ')}]({notebook})\n\n{''.join(entries)}"
