"""Statements of a work log: which numbers of its rounds are stated, and as what formulas.

Where rounds are recorded this is all that is known of them; course_lib/exercises/rounds.py judges them.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from course_lib.catalogue import say

CALLED = "in a round"
"""Of Exercise.called: whose exercises are work logs."""
COUNTED = {"bytes": "moved", "sectors": "touched", "launches": "made"}
"""The numbers that a round states, and what is done to them."""
MOST_ROUNDS = 5  # that are judged: one that saves nothing costs nothing
LONGEST = 200  # characters of a formula
OPERATIONS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}


def evaluated(formula: str, sizes: Mapping[str, float]) -> float:
    """Evaluate a formula of sizes, numbers, + - * / //, squares, and cdiv(a, b), rounded up. Raises ValueError with a clause.

    >>> evaluated("8 * M * N + cdiv(M, 64)", {"M": 100, "N": 10})
    8002.0
    """

    def of(node: ast.AST) -> Any:
        match node:
            case ast.Constant(value=int() | float() as number):
                return number
            case ast.Name(id=name) if name in sizes:
                return sizes[name]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATIONS:
                return OPERATIONS[type(op)](of(left), of(right))
            case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=2)):
                return of(left) ** 2
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -of(operand)
            case ast.Call(func=ast.Name(id="cdiv"), args=[whole, part], keywords=[]):
                return -(-of(whole) // of(part))
        raise ValueError(say("criteria.rounds.other_operation", node=ast.unparse(node)[:40], sizes=[*sizes]))

    if not formula:
        raise ValueError(say("criteria.rounds.not_stated"))
    if len(formula) > LONGEST:
        raise ValueError(say("criteria.rounds.too_long", characters=LONGEST))
    try:
        value = float(of(ast.parse(formula.strip(), mode="eval").body))
    except (SyntaxError, ArithmeticError, RecursionError, MemoryError):
        raise ValueError(say("criteria.rounds.no_formula")) from None
    if not math.isfinite(value):
        raise ValueError(say("criteria.rounds.not_finite"))
    return value


def written(rounds: Any) -> list[dict[str, str]]:
    """Return the formulas of each round as text; "" for what a round does not state."""
    if not isinstance(rounds, (list, tuple)):
        return []
    rows = [each if isinstance(each, Mapping) else {} for each in rounds[:MOST_ROUNDS]]
    return [{name: _text(row.get(name)) for name in COUNTED} for row in rows]


def _text(value: Any) -> str:
    return str(value)[: LONGEST + 1] if isinstance(value, (int, float, str)) else ""
