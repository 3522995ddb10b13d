"""A cell -> its top-level statements: which names each binds, and which it needs. Nothing is run."""

from __future__ import annotations

import ast
import re
import symtable
import warnings
from dataclasses import dataclass

from course_lib.handin.cells import Cell

OURS = ("course_lib", "tritontrace")


class TooMany(Exception):
    """Raised for more statements than a notebook may have."""


@dataclass(eq=False)
class SourceStatement:
    """One top-level statement of a cell.

    binds      names it gives a value to;  reads = global names it needs, function bodies included
    now        those of them that it reads when it runs itself: what a function's body reads is read when that is called
    mutates    the name whose object it changes: configs in `configs.append(...)`, `configs[0] = ...`
    plain      it replaces what a name was before: an unconditional def, class or assignment
    """

    cell: Cell
    node: ast.stmt
    text: list[str]  # its lines, the first without what stands before it
    binds: set[str]
    reads: set[str]
    now: set[str]
    mutates: str = ""

    @property
    def plain(self) -> bool:
        whole = (ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
        return isinstance(self.node, whole) and not (isinstance(self.node, ast.Assign) and self.binds & self.reads)

    @property
    def harmless(self) -> bool:
        """Whether the statement only binds names: a def, an import, an assignment that calls nothing."""
        if isinstance(self.node, (ast.FunctionDef, ast.Import, ast.ImportFrom)):
            return True
        return isinstance(self.node, (ast.Assign, ast.AnnAssign)) and not any(
            isinstance(part, ast.Call) for part in ast.walk(self.node)
        )

    @property
    def registers(self) -> bool:
        """Whether the statement registers something with an object, whatever else it binds."""
        return registered(self.node) is not None

    @property
    def imports(self) -> bool:
        return isinstance(self.node, (ast.Import, ast.ImportFrom))

    @property
    def always(self) -> bool:
        """Whether the statement's names cannot be known (`import *`) or reach the whole cell (`__future__`)."""
        return isinstance(self.node, ast.ImportFrom) and (
            self.node.module == "__future__" or self.node.names[0].name == "*"
        )

    @property
    def course(self) -> set[str]:
        """Return the names that the statement imports from course_lib."""
        if isinstance(self.node, ast.ImportFrom) and (self.node.module or "").split(".")[0] in OURS:
            return self.binds
        if isinstance(self.node, ast.Import):
            return {n.asname or n.name.split(".")[0] for n in self.node.names if n.name.split(".")[0] in OURS}
        return set()


def statements(cell: Cell, most: int) -> list[SourceStatement]:
    """Split a cell into statements, magics blanked. Raises SyntaxError if it does not parse, TooMany, before any work, beyond `most`."""
    try:
        source, tree = parsed(cell.source)
        if len(tree.body) > most:
            raise TooMany
        lines = source.split("\n")
        return [_statement(cell, node, lines) for node in tree.body]
    except (ValueError, MemoryError, RecursionError) as e:  # null bytes, nested too deeply
        raise SyntaxError(str(e) or "nested too deeply") from None


def parsed(source: str) -> tuple[str, ast.Module]:
    """Parse a cell: its source with magics blanked, and its syntax tree. Raises SyntaxError, ValueError, MemoryError or RecursionError."""
    source = source.replace("\r\n", "\n").replace("\r", "\n").replace("\f", " ")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes
        try:
            return source, ast.parse(source)
        except SyntaxError:
            source = _without_magics(source)
            return source, ast.parse(source)


def _statement(cell: Cell, node: ast.stmt, lines: list[str]) -> SourceStatement:
    text = _segment(node, lines)
    table = symtable.symtable(_with_generators("\n".join(text), node), "<cell>", "exec")
    binds, reads = _names(table, top=True)
    _, now = _names(table, top=True, bodies=False)
    return SourceStatement(cell, node, text, binds, reads, now, mutated(node))


def _without_magics(source: str) -> str:
    """IPython's %line, %%cell and !shell lines blanked; their numbers stay. A cell in another language is blank."""
    lines = source.split("\n")
    first = next((line for line in lines if line.strip()), "")
    if match := re.match(r"\s*%%(\w+)", first):
        if match[1] not in ("time", "timeit", "capture", "prun"):
            return ""
        lines[lines.index(first)] = ""
    for i, line in enumerate(lines):
        if re.match(r"\s*[%!]|\s*[\w.]+\?{1,2}\s*$|\s*\?{1,2}[\w.]+\s*$", line):
            indent = line[: len(line) - len(line.lstrip())]
            lines[i] = f"{indent}pass" if indent else ""
        else:
            lines[i] = re.sub(r"^(\s*\w+\s*=\s*)[%!].*", r"\1None", line)
    return "\n".join(lines)


def _segment(node: ast.stmt, lines: list[str]) -> list[str]:
    first = min([node.lineno] + [d.lineno for d in getattr(node, "decorator_list", [])])
    text = lines[first - 1 : node.end_lineno]
    text[-1] = text[-1].encode()[: node.end_col_offset].decode()
    if first == node.lineno:
        text[0] = text[0].encode()[node.col_offset :].decode()
    return text


class _Generators(ast.NodeTransformer):
    """Turn a list, set or dict comprehension into the generator that has the same names."""

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp) -> ast.AST:
        return self.generic_visit(ast.GeneratorExp(node.elt, node.generators))

    visit_SetComp = visit_ListComp

    def visit_DictComp(self, node: ast.DictComp) -> ast.AST:
        return self.generic_visit(ast.GeneratorExp(ast.Tuple([node.key, node.value], ast.Load()), node.generators))


def _with_generators(text: str, node: ast.stmt) -> str:
    """The text for a symbol table: Python 3.12 and later put the names of a comprehension among those of the module."""
    if any(isinstance(part, (ast.ListComp, ast.SetComp, ast.DictComp)) for part in ast.walk(node)):
        return ast.unparse(_Generators().visit(ast.parse(text)))
    return text


COMPREHENSIONS = {"listcomp", "setcomp", "dictcomp", "genexpr"}  # scopes that run where they stand


def _names(table: symtable.SymbolTable, top: bool, bodies: bool = True) -> tuple[set[str], set[str]]:
    """Global names that are bound, and read, in a scope and the scopes within it; of functions only with `bodies`."""
    binds, reads = set(), set()
    for symbol in table.get_symbols():
        if not top and not symbol.is_global():
            continue
        if symbol.is_assigned() or symbol.is_imported():
            binds.add(symbol.get_name())
        if symbol.is_referenced():
            reads.add(symbol.get_name())
    for child in table.get_children():
        if not bodies and child.get_type() == "function" and child.get_name() not in COMPREHENSIONS:
            continue
        inner_binds, inner_reads = _names(child, top=False, bodies=bodies)
        binds, reads = binds | inner_binds, reads | inner_reads
    return binds, reads


def registered(node: ast.stmt) -> ast.expr | None:
    """Return the call or decorator by which a statement registers something with an object, as torch's custom operators need:
    `op.register_autograd(...)`, `@op.register_fake`. None if it does not."""
    tried = [node.value.func] if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else []
    tried += [d.func if isinstance(d, ast.Call) else d for d in getattr(node, "decorator_list", [])]
    return next((t for t in tried if isinstance(t, ast.Attribute) and t.attr.startswith("register")), None)


def mutated(node: ast.AST) -> str:
    """Return the name at the root of `name.method(...)`, `name[i] = ...`, `name.attribute = ...`, `@name.register_...`."""
    if isinstance(node, ast.FunctionDef) and (target := registered(node)):
        pass
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        target = node.value.func
        if isinstance(target, ast.Name):
            return ""
    elif isinstance(node, ast.Assign):
        target = node.targets[0]
    elif isinstance(node, ast.AugAssign):
        target = node.target
    else:
        return ""
    while isinstance(target, (ast.Attribute, ast.Subscript, ast.Call)):
        target = target.func if isinstance(target, ast.Call) else target.value
    return target.id if isinstance(target, ast.Name) else ""
