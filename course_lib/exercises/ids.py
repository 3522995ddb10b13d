"""Ids of exercises across releases: what an earlier release has written down is read as if this one had written it.

renamed.toml says which id has become which. Ids stand in progress.json and attempts.json, in the cells of notebooks that were handed
out, in their checks, and in the cells of gradebooks.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path

CHECK = "-check"  # behind an exercise's grade_id: the cell that has its points


@cache
def renamed() -> dict[str, str]:
    """Return the table of renamed exercises: id in an earlier release -> id in this one."""
    return tomllib.loads((Path(__file__).parent / "renamed.toml").read_text("utf-8"))


def current(exercise_id: str) -> str:
    """Return an exercise's id in this release, from the id that it has or had."""
    return renamed().get(exercise_id, exercise_id)


def current_cell(grade_id: str) -> str:
    """Return the grade_id of an answer or check cell in this release, from the one that nbgrader has or had."""
    answer = grade_id.removesuffix(CHECK)
    return _cells().get(answer, answer) + grade_id[len(answer) :]


@cache
def _cells() -> dict[str, str]:
    return {re.sub(r"\W", "-", old): re.sub(r"\W", "-", new) for old, new in renamed().items()}
