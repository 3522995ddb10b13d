"""Each kind of cause that the course or the grader names is one that exists."""

import ast
from pathlib import Path
from typing import get_args

from course_lib.exercise import NOT_THE_RUN, CauseKind

ROOT = Path(__file__).resolve().parents[2]
KINDS = {kind for literal in get_args(CauseKind) for kind in (get_args(literal) or [literal])}


def test_kinds_are_known():
    calls = [
        node
        for folder in ("course_lib", "grader")
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Cause" and node.args
    ]
    named = {call.args[0].value for call in calls if isinstance(call.args[0], ast.Constant)}
    assert {"blank", "wrong", "waste", "grader_failed"} <= named <= KINDS
    assert set(NOT_THE_RUN) <= KINDS
