"""A notebook as handed in -> the program to run for each exercise. All that is odd about notebooks ends here.

    load                 a file -> cells: kind, source, grade_id. Outputs, tags and foreign metadata are never looked at
    Submission.program   the statements that define the exercise's function, and those that define names they use, and
                         so on

Nothing here runs a student's code. A cell becomes top-level statements, and a statement is part of the program if it
defines something that is needed. Demos, checks, endless loops and errors elsewhere are left out by construction.
"""

from __future__ import annotations

import ast
import builtins
import json
import re
import stat
import symtable
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal

from course_lib.exercise import Exercise
from grader import check_id
from grader import flags as source_rules

MAX_FILE = 20_000_000  # bytes, outputs included
MAX_SOURCE = 500_000  # characters in all cells
MAX_LINES = 20_000  # in all cells; a semicolon counts as one
MAX_PARTS = 1_000_000  # lists and objects: a bracket of two bytes takes sixty in memory
MAX_CELLS = 2_000
MAX_STATEMENTS = 2_000  # at top level: more than any honest notebook, few enough to search
MAX_FLAGS = 20  # a person reads them


class Problem(Exception):
    """One sentence to the student: why there is nothing to run."""


@dataclass(frozen=True)
class Cell:
    number: int  # counted from 1
    kind: Literal["code", "markdown", "raw"]
    source: str
    grade_id: str = ""


@dataclass(frozen=True)
class Program:
    """What to run for one exercise: (name, source) pairs in order, each to be compiled under its own name."""

    cells: list[tuple[str, str]]
    entry: str
    flags: list[str] = field(default_factory=list)  # for a person to look at; they never take a point

    @property
    def source(self) -> str:
        return "\n\n".join(source for _, source in self.cells)


# ------------------------------------------------------------------------------------------------------ the file


def misnamed(student: str) -> str:
    """What is wrong with a student's name, which is a folder's: a sentence, or "". It goes into paths, globs and pages."""
    if re.fullmatch(r"[\w@+][\w@+. '-]{0,99}", student) and student == student.strip():
        return ""
    return (
        f"The folder submitted/{ascii(student)[1:-1][:100]} is not a student's name: letters, digits and . _ - @ + ' are "
        "allowed. Rename it."
    )


def load(path: Path) -> list[Cell]:
    """The cells of a notebook of any version. Problem if it cannot be read or should not be."""
    path = Path(path)
    try:
        status = path.lstat()
    except OSError:
        raise Problem(f"There is no notebook {path.name}.") from None
    # a link may point at somebody else's work, at the solutions or at the gradebook
    if stat.S_ISLNK(status.st_mode) or path.parent.is_symlink() or path.parent.parent.is_symlink():
        raise Problem(f"{path.name} is a symbolic link, not a notebook. Hand in the file itself.")
    if not stat.S_ISREG(status.st_mode):
        raise Problem(f"{path.name} is not a regular file.")
    if status.st_size > MAX_FILE:
        raise Problem(
            f"{path.name} has {status.st_size / 1e6:.0f} MB; {MAX_FILE // 1_000_000} are allowed. Clear its outputs."
        )
    try:
        content = path.read_bytes()
    except OSError as error:
        raise Problem(f"{path.name} cannot be read: {error.strerror}.") from None
    if (parts := content.count(b"[") + content.count(b"{")) > MAX_PARTS:
        raise Problem(f"{path.name} holds {parts} lists and objects; {MAX_PARTS} are allowed. Clear its outputs.")
    try:
        notebook = json.loads(content)  # UTF-8, or what an editor on Windows made of it
    except (ValueError, RecursionError):
        raise Problem(f"{path.name} is not a notebook: it does not read as JSON.") from None
    return _cells(notebook, path.name)


def _cells(notebook: object, name: str) -> list[Cell]:
    notebook = _dict(notebook)
    found = notebook.get("cells")
    if not isinstance(found, list):  # nbformat 3
        found = [c for sheet in _list(notebook.get("worksheets")) for c in _list(_dict(sheet).get("cells"))]
    if not found:
        raise Problem(f"{name} is not a notebook: it has no cells.")
    if len(found) > MAX_CELLS:
        raise Problem(f"{name} has {len(found)} cells; {MAX_CELLS} are allowed.")
    cells = []
    for number, raw in enumerate(map(_dict, found), 1):
        kind = raw.get("cell_type")
        grade_id = _dict(_dict(raw.get("metadata")).get("nbgrader")).get("grade_id")
        cells.append(
            Cell(
                number=number,
                kind=kind if kind in ("code", "raw") else "markdown",
                source=_text(raw.get("source", raw.get("input"))),
                grade_id=grade_id if isinstance(grade_id, str) else "",
            )
        )
    if (length := sum(len(cell.source) for cell in cells)) > MAX_SOURCE:
        raise Problem(f"{name} has {length} characters in its cells; {MAX_SOURCE} are allowed.")
    if (lines := sum(cell.source.count("\n") + cell.source.count(";") for cell in cells)) > MAX_LINES:
        raise Problem(f"{name} has {lines} lines in its cells; {MAX_LINES} are allowed.")
    return cells


def _dict(value: object) -> dict:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list:
    return value if isinstance(value, list) else []


def _text(value: object) -> str:
    text = "".join(part for part in value if isinstance(part, str)) if isinstance(value, list) else value
    text = text if isinstance(text, str) else ""
    return text.encode("utf-8", "replace").decode()  # lone surrogates could be written to no file


# ------------------------------------------------------------------------------------------------ the statements


class TooMany(Exception):
    """More statements than a notebook may have."""


@dataclass(eq=False)
class Statement:
    """One top-level statement of a cell.

    binds      names it gives a value to;  reads = global names it needs, function bodies included
    mutates    the name whose object it changes: configs in `configs.append(...)`, `configs[0] = ...`
    plain      it replaces what a name was before: an unconditional def, class or assignment
    """

    cell: Cell
    node: ast.stmt
    text: list[str]  # its lines, the first without what stands before it
    binds: set[str]
    reads: set[str]
    mutates: str = ""

    @property
    def plain(self) -> bool:
        whole = (ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
        return isinstance(self.node, whole) and not (isinstance(self.node, ast.Assign) and self.binds & self.reads)

    @property
    def imports(self) -> bool:
        return isinstance(self.node, (ast.Import, ast.ImportFrom))

    @property
    def always(self) -> bool:
        """Its names cannot be known (`import *`) or reach the whole cell (`__future__`)."""
        return isinstance(self.node, ast.ImportFrom) and (
            self.node.module == "__future__" or self.node.names[0].name == "*"
        )

    @property
    def course(self) -> set[str]:
        """The names it imports from course_lib."""
        if isinstance(self.node, ast.ImportFrom) and (self.node.module or "").split(".")[0] == "course_lib":
            return self.binds
        if isinstance(self.node, ast.Import):
            return {n.asname or "course_lib" for n in self.node.names if n.name.split(".")[0] == "course_lib"}
        return set()


def _statements(cell: Cell, most: int) -> list[Statement]:
    """SyntaxError if the cell does not parse, magics blanked; TooMany, before any work is done, beyond `most`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes
            source, tree = _parse(cell.source)
            if len(tree.body) > most:
                raise TooMany
            lines = source.split("\n")
            return [_statement(cell, node, lines) for node in tree.body]
    except (ValueError, MemoryError, RecursionError) as e:  # null bytes, nested too deeply
        raise SyntaxError(str(e) or "nested too deeply") from None


def _parse(source: str) -> tuple[str, ast.Module]:
    source = source.replace("\r\n", "\n").replace("\r", "\n").replace("\f", " ")
    try:
        return source, ast.parse(source)
    except SyntaxError:
        source = _without_magics(source)
        return source, ast.parse(source)


def _statement(cell: Cell, node: ast.stmt, lines: list[str]) -> Statement:
    text = _segment(node, lines)
    binds, reads = _names(symtable.symtable("\n".join(text), "<cell>", "exec"), top=True)
    return Statement(cell, node, text, binds, reads, _mutated(node))


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
            indent = re.match(r"\s*", line)[0]
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


def _names(table: symtable.SymbolTable, top: bool) -> tuple[set[str], set[str]]:
    """Global names that are bound, and read, in a scope and the scopes within it."""
    binds, reads = set(), set()
    for symbol in table.get_symbols():
        if not top and not symbol.is_global():
            continue
        if symbol.is_assigned() or symbol.is_imported():
            binds.add(symbol.get_name())
        if symbol.is_referenced():
            reads.add(symbol.get_name())
    for child in table.get_children():
        inner_binds, inner_reads = _names(child, top=False)
        binds, reads = binds | inner_binds, reads | inner_reads
    return binds, reads


def _mutated(node: ast.stmt) -> str:
    """The name at the root of `name.method(...)`, `name[i] = ...`, `name.attribute = ...`."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
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


# ------------------------------------------------------------------------------------------------ the submission


class Submission:
    """What a student handed in: cells, and the program that each exercise runs."""

    def __init__(self, cells: Sequence[Cell], exercises: Sequence[Exercise], release: Sequence[Cell] = (), problem=""):
        self.cells, self.problem = list(cells), problem
        self._checks = {check_id(e): e for e in exercises}
        self._entries = {e.entry for e in exercises}
        self._programs: dict[str, Program] = {}  # by exercise, of those asked for
        self._released = {cell.grade_id: cell.source for cell in release if cell.grade_id}
        self._released_sources = {cell.source for cell in release}
        self._statements, self.broken = self._parsed(self.cells)  # broken: cell number -> why it does not parse
        self._given, _ = self._parsed(release, given=True)  # for names whose cell the student has deleted
        self._course = {name for s in self._statements + self._given for name in s.course}
        self._binding = _by_name(self._statements, lambda s: s.binds)
        self._binding_given = _by_name(self._given, lambda s: s.binds)
        self._mutating = _by_name(self._statements, lambda s: {s.mutates} - {""})
        self._seeming = self._seemingly_defined()  # name -> numbers of the broken cells that look as if they defined it

    def _parsed(self, cells: Iterable[Cell], *, given: bool = False) -> tuple[list[Statement], dict[int, str]]:
        statements, broken = [], {}
        for cell in cells:
            if cell.kind == "code" and cell.grade_id not in self._checks:
                try:
                    if cell.source in self._released_sources:  # most cells of most submissions
                        statements += _statements_as_given(cell, given)
                    else:
                        statements += _statements(cell, MAX_STATEMENTS - len(statements))
                except SyntaxError as e:
                    broken[cell.number] = f"line {e.lineno or 1}: {e.msg}"
                except TooMany:
                    self.problem = f"The notebook has more than {MAX_STATEMENTS} statements at top level."
                    return [], {}
        return statements, broken

    def _seemingly_defined(self) -> dict[str, list[int]]:
        pattern = re.compile(
            r"^[ \t]*(?:def|class)[ \t]+(?P<def>\w+)|^(?P<assign>\w+)[ \t]*=|^[ \t]*(?:import|from)\b(?P<import>[^\n]*)",
            re.M,
        )
        found: dict[str, list[int]] = {}
        for cell in self.cells:
            if cell.number in self.broken:
                words = {
                    w for match in pattern.finditer(cell.source) for w in re.findall(r"\w+", match[match.lastgroup])
                }
                for word in words:
                    found.setdefault(word, []).append(cell.number)
        return found

    @cached_property
    def flags(self) -> list[tuple[str, str]]:
        """For a person to look at: (exercise, sentence), the exercise "" if it is about the file. None takes a point."""
        if self.problem:
            return [("", self.problem)]
        found: dict[str, str] = {}  # sentence -> exercise: a helper's cell belongs to several
        for exercise in self._checks.values():
            of_program = []
            with suppress(Problem):  # the verdict says so
                of_program = self.program(exercise).flags
            for sentence in self._of_check(exercise) + of_program:
                found.setdefault(sentence, exercise.id)
        return [(exercise, sentence) for sentence, exercise in found.items()]

    def _of_check(self, exercise: Exercise) -> list[str]:
        """What is odd about the exercise's check cell."""
        own = [cell for cell in self.cells if cell.grade_id == check_id(exercise)]
        given = self._released.get(check_id(exercise))
        edited = [cell.number for cell in own if given is not None and given.strip() != cell.source.strip()]
        if not own:
            return [f"The check cell of `{exercise.id}` is missing."]
        return [f"The check cell of `{exercise.id}` was edited (cell {number})." for number in edited]

    def solution(self, exercise: Exercise) -> Cell:
        """The cell whose definition of the exercise's function counts.

        The last one of the exercise's own cells (an honest copy has the same id), because that is what a run from top
        to bottom leaves defined. A cell without the id counts if it stands between those and the check, or if those
        are gone or as they were handed out.
        """
        if self.problem:
            raise Problem(self.problem)
        defining = [s.cell for s in self._statements if exercise.entry in s.binds]
        own = [cell for cell in defining if cell.grade_id == exercise.grade_id]
        other = [cell for cell in defining if cell.grade_id != exercise.grade_id]
        if own:
            blank = own[-1].source.strip() == self._released.get(exercise.grade_id, "").strip()
            end = self._check_number(exercise)
            rivals = [c for c in other if blank or (end and own[-1].number < c.number < end)]
            return (rivals or own)[-1]
        if other:
            return other[-1]
        for cell in self.cells:
            if cell.grade_id == exercise.grade_id and (why := self.broken.get(cell.number)):
                raise Problem(f"The cell of {exercise.entry} (cell {cell.number}) does not parse: {why}.")
        for number in self._seeming.get(exercise.entry, ()):
            why = self.broken[number]
            raise Problem(f"Cell {number}, which seems to define {exercise.entry}, does not parse: {why}.")
        raise Problem(f"No code cell defines {exercise.entry}.")

    def _check_number(self, exercise: Exercise) -> int:
        return next((cell.number for cell in self.cells if cell.grade_id == check_id(exercise)), 0)

    def program(self, exercise: Exercise) -> Program:
        """What to run for the exercise. Problem if there is nothing to run."""
        if exercise.id not in self._programs:
            self._programs[exercise.id] = self._program_of(exercise)
        return self._programs[exercise.id]

    def _program_of(self, exercise: Exercise) -> Program:
        home = self.solution(exercise)
        end = max(home.number, self._check_number(exercise))  # what a later exercise redefines is not meant here
        flags = []
        cells = sorted({s.cell.number for s in self._statements if exercise.entry in s.binds})
        if len(cells) > 1:
            listed = ", ".join(map(str, cells))
            flags.append(f"`{exercise.entry}` is defined in the cells {listed}; cell {home.number} was judged.")

        needed: set[str] = set()
        kept: set[int] = set()  # id of a statement
        todo = [exercise.entry]
        while todo:
            name = todo.pop()
            if name in needed:
                continue
            needed.add(name)
            binding = self._binding.get(name, [])
            found = _definers([s for s in binding if s.cell is home or name != exercise.entry], end)
            if not found and (found := _definers(self._binding_given.get(name, []), end=MAX_CELLS)):
                flags.append(f"`{name}` is defined in no cell; the cell that was handed out was used.")
            if not found and not hasattr(builtins, name):
                numbers = self._seeming.get(name, ())
                flags += [f"Cell {n}, which seems to define `{name}`, does not parse." for n in numbers]
            found += [s for s in self._mutating.get(name, ()) if s.cell.number <= end and self._configures(s)]
            kept.update(map(id, found))
            todo += [read for s in found for read in s.reads - needed]
        if len(flags) > MAX_FLAGS:
            flags[MAX_FLAGS:] = [f"And {len(flags) - MAX_FLAGS} more of this kind."]
        given = [s for s in self._given if id(s) in kept]
        own = _assemble([s for s in self._statements if id(s) in kept or s.always], "cell")
        flags += map(str, source_rules.of_program(exercise, own))
        return Program(_assemble(given, "handed-out cell") + own, exercise.entry, flags)

    def _configures(self, s: Statement) -> bool:
        """`configs.append(...)`, `table[0] = ...`, `triton.set_allocator(...)`: they bind nothing and still matter."""
        if s.imports or s.binds or s.reads & (self._entries | self._course):
            return False
        method = getattr(getattr(getattr(s.node, "value", None), "func", None), "attr", "")  # "" for an assignment
        origins = self._binding.get(s.mutates, [])
        if any(other.imports for other in origins):  # torch.set_..., but not torch.cuda.synchronize() or plt.show()
            return not method or method.startswith(("set_", "manual_seed", "register"))
        launches = isinstance(s.node, ast.Expr) and any(isinstance(o.node, ast.FunctionDef) for o in origins)
        return not launches  # kernel[grid](...), kernel.warmup(...) at top level are a demo


def _by_name(statements: Iterable[Statement], names: Callable[[Statement], set[str]]) -> dict[str, list[Statement]]:
    """name -> the statements that `names` says it of, in order."""
    found: dict[str, list[Statement]] = {}
    for statement in statements:
        for name in names(statement):
            found.setdefault(name, []).append(statement)
    return found


@lru_cache(maxsize=1024)
def _statements_as_given(cell: Cell, given: bool) -> list[Statement]:
    """Statements of a cell as it was handed out, parsed once for a class. `given`: a statement of the release and the same
    one of a submission are two."""
    return _statements(cell, MAX_STATEMENTS)


@lru_cache(maxsize=8)
def _released(path: Path, changed: int) -> tuple[Cell, ...]:
    return tuple(load(path))


def _definers(binding: list[Statement], end: int) -> list[Statement]:
    """Of the statements that bind a name, those that give it its value at cell `end`; later ones only if there is none."""
    found = []
    for statement in reversed([s for s in binding if s.cell.number <= end] or binding):
        found.append(statement)
        if statement.plain:  # what came before is replaced
            break
    return found


def _assemble(statements: list[Statement], name: str) -> list[tuple[str, str]]:
    """Each statement on the line where it stands in its cell, so that messages name the student's own lines."""
    cells: dict[int, list[str]] = {}
    for s in statements:
        lines = cells.setdefault(s.cell.number, [])
        first = s.node.end_lineno - len(s.text)
        lines += [""] * (first + len(s.text) - len(lines))
        lines[first] += ("; " if lines[first] else "") + s.text[0]
        lines[first + 1 : first + len(s.text)] = s.text[1:]
    return [(f"<{name} {number}>", "\n".join(lines) + "\n") for number, lines in cells.items()]


def read(path: Path, exercises: Sequence[Exercise], release: Path | None = None) -> Submission:
    """A submitted notebook. Never raises: what is wrong with the file as a whole is said by each `program`.

    release    the notebook as it was handed out: tells an untouched stub from work, and brings back deleted imports
    """
    given = _released(release, release.stat().st_mtime_ns) if release else ()
    try:
        return Submission(load(path), exercises, given)
    except Problem as problem:
        return Submission([], exercises, given, problem=str(problem))
