"""Dependencies between cells: which earlier statements a cell's output needs, by the names that they bind, read and
change. Nothing is run.

What changes without a name stays unseen: an object under its second name, what a function does to a global, course_lib itself.
"""

from __future__ import annotations

# trap: an output belongs to its cell's code and to the statements that this reads, found by name; course_lib is not
# among them (`grader build --again`)
import ast
import hashlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from nbformat import NotebookNode

from course_lib.handin.cells import Cell
from course_lib.handin.statements import SourceStatement, mutated, statements

# so begin the methods that set something for a whole module: torch.set_default_dtype(...), but not plt.show()
SETTINGS = ("set_", "manual_seed", "register")


@dataclass(frozen=True)
class Inputs:
    """Everything that a cell's output depends on.

    digest    a hash of the cell's source and of the earlier statements that it needs
    cells     the ids of the cells where those stand
    """

    digest: str
    cells: frozenset[str]


def inputs(cells: Sequence[NotebookNode]) -> dict[str, Inputs]:
    """Return the inputs of each of a notebook's code cells, by id. A cell that does not parse needs nothing and gives nothing."""
    flow, found = _Flow(), {}
    for cell in cells:
        own = flow.add(cell)
        needed = {(number, name) for number, name in flow.needed(own) if number not in own}
        texts = [flow.text(number, name) for number, name in sorted(needed)]
        digest = hashlib.sha256("\n\0".join([cell.source, *dict.fromkeys(texts)]).encode()).hexdigest()[:16]
        found[cell.id] = Inputs(digest, frozenset(flow.cell_of[number] for number, _ in needed))
    return found


class _Flow:
    """The statements of the cells so far. A statement is known by its number."""

    def __init__(self) -> None:
        self.statements: list[SourceStatement] = []
        self.cell_of: list[str] = []
        self.binding: dict[str, list[int]] = {}  # name -> the statements that give it a value
        self.changing: dict[str, list[int]] = {}  # name -> those that may change the object it stands for

    def add(self, cell: NotebookNode) -> range:
        """The numbers of the cell's statements."""
        start = len(self.statements)
        try:
            found = statements(Cell(len(self.cell_of), "code", cell.source), sys.maxsize)
        except SyntaxError:
            found = []
        for number, s in enumerate(found, start):
            self.statements.append(s)
            self.cell_of.append(cell.id)
            for name in s.binds:
                self.binding.setdefault(name, []).append(number)
            for name in self._changed(s):
                self.changing.setdefault(name, []).append(number)
        return range(start, len(self.statements))

    def needed(self, own: range) -> set[tuple[int, str]]:
        """(statement, the name that it is needed for) of all that the statements of a cell lead to."""
        # what a function's body reads is read when it is called: at the latest when the cell has run
        asked = {
            (name, n if name in self.statements[n].now else own.stop) for n in own for name in self.statements[n].reads
        }
        asked |= {("*", own.stop)}
        found, todo = set(), set(asked)
        while todo:
            name, when = todo.pop()
            for number in self._making(name, when):
                found.add((number, name))
                s = self.statements[number]
                wanted = {(read, number if read in s.now else when) for read in s.reads} - asked
                asked |= wanted
                todo |= wanted
        return found

    def _making(self, name: str, when: int) -> Iterator[int]:
        """The statements before `when` that give the name its value, and that change it since."""
        first = -1
        for number in reversed([n for n in self.binding.get(name, ()) if n < when]):
            yield number
            if not self.statements[number].imports:  # what changed a module before it was imported again still holds
                first = number
            if _replaces(self.statements[number], name):
                break
        yield from (n for n in self.changing.get(name, ()) if first < n < when)

    def _changed(self, s: SourceStatement) -> set[str]:
        """The names whose objects the statement may change: `configs.append(...)`, `table[i] = ...`, `kernel[grid](x, out)`."""
        if s.always:
            return {"*"}
        found = set()
        for node in _run_by(s.node):
            root = mutated(node)
            if not self._fixed(root) or self._sets(node):
                found.add(root)
            if (call := _call(node)) and not self._imported(root or getattr(call.func, "id", "")):
                found |= {name for name in _names([*call.args, *call.keywords]) if not self._fixed(name)}
        if "check" in s.reads:
            found.add("progress")  # which shows what checks gave
        return found - s.binds - {""}

    def _bound_by(self, name: str, *kinds: type) -> bool:
        return any(isinstance(self.statements[number].node, kinds) for number in self.binding.get(name, ()))

    def _imported(self, name: str) -> bool:
        """Whether names tell what the statement calls: a module's or the course's functions, or Python's own."""
        return name not in self.binding or self._bound_by(name, ast.Import, ast.ImportFrom)

    def _fixed(self, name: str) -> bool:
        """Whether a call leaves the object as it is: a module, a function, a class."""
        return self._imported(name) or self._bound_by(name, ast.FunctionDef, ast.ClassDef)

    def _sets(self, node: ast.AST) -> bool:
        """Whether the call sets something for a whole module: torch.set_...(...), plt.rcParams[...] = ..., but not plt.show()."""
        if call := _call(node):
            return getattr(call.func, "attr", "").startswith(SETTINGS)
        return self._imported(mutated(node))

    def text(self, number: int, name: str) -> str:
        """A statement as far as the name depends on it: of an import what it imports as that name, and of a function its line, too,
        which traces show."""
        s = self.statements[number]
        if isinstance(s.node, ast.Import | ast.ImportFrom) and name != "*":
            said = [a for a in s.node.names if (a.asname or a.name).partition(".")[0] == name]
            return f"{getattr(s.node, 'module', '')} {[(a.name, a.asname) for a in said]}"
        line = s.node.lineno if isinstance(s.node, ast.FunctionDef) else ""
        return f"{line}\n" + "\n".join(s.text)


def _call(node: ast.AST) -> ast.Call | None:
    """The call that makes up a whole statement: nobody has its value, so it is there for what it does."""
    return node.value if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None


def _replaces(s: SourceStatement, name: str) -> bool:
    """Whether the statement leaves nothing of what the name was before."""
    if isinstance(s.node, ast.With):  # with trace() as t: ...
        return name in _names(item.optional_vars for item in s.node.items if item.optional_vars)
    return s.plain or s.imports


def _run_by(node: ast.AST) -> Iterator[ast.AST]:
    """A statement and those within it that run when it does: not the bodies of functions."""
    yield node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        for child in ast.iter_child_nodes(node):
            yield from _run_by(child)


def _names(nodes: Iterable[ast.AST]) -> set[str]:
    return {part.id for node in nodes for part in ast.walk(node) if isinstance(part, ast.Name)}
