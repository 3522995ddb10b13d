"""Tell a prediction that is written down from one that is computed. Only the source is read; nothing is run.

A prediction is numbers, True and False, and arithmetic on them: 4 * 1024, 2**20, math.inf, sum(range(9)), triton.cdiv(n, 64).
What counts by running something (torch, a trace, a file) is no prediction, so code of any other kind is told apart here.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator, Sequence

from course_lib.catalogue import say
from course_lib.handin.cells import Cell
from course_lib.handin.statements import TooMany, statements

ARITHMETIC = frozenset(
    [
        "int",
        "float",
        "bool",
        "abs",
        "min",
        "max",
        "sum",
        "round",
        "pow",
        "divmod",
        "len",
        "range",
        "dict",
        "list",
        "tuple",
        "set",
        "sorted",
        "zip",
    ]
)
"""Python's functions that a prediction may call."""
MAX_STATEMENTS = 500  # of a cell that a check looks at
CONSTANTS = frozenset(["inf", "nan", "pi", "e"])
MODULES = {"math": "math", "np": "numpy", "numpy": "numpy", "torch": "torch", "triton": "triton"}
"""Modules that these names mean where no import of them is in sight."""
STATEMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Import, ast.ImportFrom, ast.Pass)
WORDS = {
    ast.FunctionDef: say("handin.prediction.a_function"),
    ast.AsyncFunctionDef: say("handin.prediction.a_function"),
    ast.ClassDef: say("handin.prediction.a_class"),
    ast.For: say("handin.prediction.a_loop"),
    ast.While: say("handin.prediction.a_loop"),
    ast.Lambda: say("handin.prediction.a_function"),
    ast.Await: "`await`",
}


def problem(cells: Sequence[tuple[str, str]], entry: str) -> str:
    """Return a message if an answer computes what `entry` should predict; "" if it is written down as a literal, or does not parse.

    cells: (name, source) pairs, all that the answer consists of
    """
    try:
        trees = [
            (say("handin.prediction.place", cell=name.strip("<>")), ast.parse(source).body) for name, source in cells
        ]
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # whoever runs it says so in better words
        return ""
    return _told(trees, entry, whole=True)


def problem_of_cell(source: str, entry: str) -> str:
    """Return the message of `problem` for one cell. Names may come from other cells; only the statements that define `entry` count."""
    try:
        own = statements(Cell(1, "code", source), MAX_STATEMENTS)
    except (SyntaxError, TooMany):
        return ""
    todo, needed, kept = [entry], {entry}, []
    while todo:
        name = todo.pop()
        found = [s for s in own if s not in kept and (name in s.binds or name == s.mutates)]
        kept += found
        new = {read for s in found for read in s.reads} - needed
        todo, needed = todo + sorted(new), needed | new
    return _told([("", [s.node for s in own if s in kept])], entry, whole=False)


def _told(parts: Sequence[tuple[str, Sequence[ast.stmt]]], entry: str, *, whole: bool) -> str:
    reader = _LiteralReader([statement for _, body in parts for statement in body], entry, whole)
    for place, body in parts:
        for statement in body:
            for line, what in reader.foreign(statement):
                return say("handin.prediction.no_number", name=entry, line=line, place=place, what=what)
    return ""


class _LiteralReader:
    """Knows what the names of some modules mean, and decides whether an expression that uses them is arithmetic."""

    def __init__(self, body: Sequence[ast.stmt], entry: str, whole: bool) -> None:
        self.entry, self.whole = entry, whole
        self.imported: dict[str, set[str]] = {}  # name -> all that it is imported from
        self.bound: set[str] = set()
        for node in (node for statement in body for node in ast.walk(statement)):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    first = alias.name.split(".")[0]
                    self.imported.setdefault(alias.asname or first, set()).add(alias.name if alias.asname else first)
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    self.imported.setdefault(alias.asname or alias.name, set()).add(f"{node.module}.{alias.name}")
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self.bound.add(node.id)

    def foreign(self, statement: ast.stmt) -> Iterator[tuple[int, str]]:
        """(line, what) of each thing that is neither a number nor arithmetic."""
        if not isinstance(statement, STATEMENTS):
            yield statement.lineno, WORDS.get(type(statement), f"`{type(statement).__name__.lower()}`")
        elif not isinstance(statement, (ast.Import, ast.ImportFrom)):
            parts = [getattr(statement, "value", None), getattr(statement, "target", None)]
            for part in filter(None, [*parts, *getattr(statement, "targets", [])]):  # an annotation matters to nobody
                yield from self._in(part)

    def _in(self, node: ast.AST) -> Iterator[tuple[int, str]]:
        match node:
            case ast.Call(func=function, args=args, keywords=keywords):
                if not self._computes_numbers(function):
                    yield node.lineno, say("handin.prediction.call", called=ast.unparse(function)[:60])
                for argument in [*args, *(k.value for k in keywords)]:
                    yield from self._in(argument)
            case ast.Attribute():
                if not self._comes_from(node, _is_constant):
                    yield node.lineno, f"`{ast.unparse(node)[:60]}`"
            case ast.Name(id=name, ctx=ast.Load()):
                if not self._is_number(node):
                    yield node.lineno, f"`{name}`"
            case ast.Lambda() | ast.Await() | ast.Yield() | ast.YieldFrom():
                yield node.lineno, WORDS.get(type(node), "`yield`")
            case _:
                for child in ast.iter_child_nodes(node):
                    yield from self._in(child)

    def _is_number(self, name: ast.Name) -> bool:
        """Whether a name stands for a number, a table of them, or one of Python's functions of numbers."""
        if name.id in self.imported:
            return self._comes_from(name, _is_constant)
        elsewhere = not self.whole and not hasattr(builtins, name.id)
        return name.id in self.bound or name.id in ARITHMETIC or elsewhere

    def _computes_numbers(self, function: ast.expr) -> bool:
        match function:
            case ast.Name(id=name) if name not in self.imported:
                return name in ARITHMETIC and name not in self.bound
            case ast.Attribute(value=ast.Name(id=name), attr="update") if (
                name == self.entry and name not in self.imported
            ):
                return True
        return self._comes_from(function, _is_arithmetic)

    def _comes_from(self, node: ast.expr, allowed: Callable[[str], bool]) -> bool:
        """Whether a name, or an attribute of one, can stand for nothing but what is `allowed`: paths as "math.inf"."""
        attribute = f".{node.attr}" if isinstance(node, ast.Attribute) else ""
        root = node.value if isinstance(node, ast.Attribute) else node
        if not isinstance(root, ast.Name) or root.id in self.bound:
            return False
        unseen = {MODULES[root.id]} if not self.whole and root.id in MODULES else set()
        origins = self.imported.get(root.id, unseen)
        return bool(origins) and all(allowed(origin + attribute) for origin in origins)


def _is_constant(path: str) -> bool:
    module, _, name = path.partition(".")
    return module in ("math", "numpy", "torch") and name in CONSTANTS


def _is_arithmetic(path: str) -> bool:
    return path.startswith("math.") or path in ("triton.cdiv", "triton.next_power_of_2")
