"""A notebook's cells -> the answer to each exercise: the code that runs for it.

Nothing here runs a student's code. A cell becomes top-level statements, and a statement is part of the answer if it
defines something that is needed. Demos, checks, endless loops and errors elsewhere are left out by construction.
"""

from __future__ import annotations

import ast
import builtins
import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import takewhile

from course_lib.catalogue import say
from course_lib.exercise import Exercise
from course_lib.exercises import ids
from course_lib.handin import mangled
from course_lib.handin.cells import MAX_CELLS, Cell, Problem
from course_lib.handin.statements import SourceStatement, TooMany, parsed, statements

MAX_STATEMENTS = 2_000  # at top level: more than any honest notebook, few enough to search
MAX_FLAGS = 20  # a person reads them
# When an answer asks for a name: before a statement of this number, when all have run, or at any time
AT_LAST, WHENEVER = math.inf, -1


@dataclass(frozen=True)
class Answer:
    """The code to run for one exercise: (name, source) pairs in order, each to be compiled under its own name."""

    cells: list[tuple[str, str]]
    entry: str
    flags: list[str] = field(default_factory=list)  # for a person to look at; they never take a point
    missing: list[str] = field(default_factory=list)  # names that it needs and nothing defines
    calls: list[str] = field(default_factory=list)  # names that it needs, of other exercises' cells as handed out

    @property
    def source(self) -> str:
        return "\n\n".join(source for _, source in self.cells)

    @property
    def own(self) -> list[tuple[str, str]]:
        """Return the exercise's own cells, without those that were deleted and came back as they were handed out."""
        return [(name, source) for name, source in self.cells if name.startswith("<cell ")]


class Notebook:
    """A student's notebook: cells, and the answer to each exercise.

    release    the cells as they were handed out: they tell an untouched stub from work, and bring back deleted imports
    problem    a sentence if the file as a whole cannot be read: every `solution` and `answer` says it
    """

    def __init__(self, cells: Sequence[Cell], exercises: Sequence[Exercise], release: Sequence[Cell] = (), problem=""):
        self.exercises, self.problem = list(exercises), problem
        self._checks = {e.check_id: e.entry for e in exercises}
        answers = {e.grade_id: e.entry for e in exercises}
        self.cells, self._mended = mangled.as_code(self._with_check_ids(cells, release), answers)
        self._entries = {e.entry for e in exercises}
        self._answers: dict[str, Answer] = {}  # by exercise, of those asked for
        self._released = {cell.grade_id: cell.source for cell in release if cell.grade_id}
        self._released_sources = {cell.source for cell in release}
        self._statements, self.broken = self._parsed(self.cells)  # broken: cell number -> why it does not parse
        whole, halves = mangled.joined(self.cells, self.broken)
        if halves:
            self.cells, self._mended = whole, self._mended | halves
            self._statements, self.broken = self._parsed(self.cells)
        self._idle = self._pass_over_stubs()  # exercise -> numbers of its stubs, where there is work on it as well
        self._number = {id(s): number for number, s in enumerate(self._statements)}
        self._given, _ = self._parsed(release, given=True)  # for names whose cell the student has deleted
        self._course = {name for s in self._statements + self._given for name in s.course}
        self._binding = _by_name(self._statements, lambda s: s.binds)
        self._binding_given = _by_name(self._given, lambda s: s.binds)
        self._mutating = _by_name(self._statements, lambda s: {s.mutates} - {""})
        self._seeming = self._seemingly_defined()  # name -> numbers of the broken cells that look as if they defined it

    def _with_check_ids(self, cells: Sequence[Cell], release: Sequence[Cell]) -> list[Cell]:
        """Find a check cell by its words if it has lost its id, as some hosted notebooks save it."""
        lost = self._checks.keys() - {cell.grade_id for cell in cells}
        words = {cell.source.strip(): cell.grade_id for cell in release if cell.grade_id in lost}
        return [
            replace(cell, grade_id=words.get(cell.source.strip(), ""))
            if cell.kind == "code" and not cell.grade_id
            else cell
            for cell in cells
        ]

    def _parsed(self, cells: Iterable[Cell], *, given: bool = False) -> tuple[list[SourceStatement], dict[int, str]]:
        found, broken = [], {}
        for cell in cells:
            if cell.kind == "code":
                try:
                    if cell.source in self._released_sources:  # most cells of most submissions
                        own = _statements_as_given(cell, given)
                    else:
                        own = statements(cell, MAX_STATEMENTS - len(found))
                    found += self._typed(cell, own) if cell.grade_id in self._checks else own
                except SyntaxError as e:
                    if cell.grade_id not in self._checks:
                        broken[cell.number] = mangled.conflict(cell.source) or say(
                            "handin.notebook.line", line=e.lineno or 1, problem=e.msg
                        )
                except TooMany:
                    self.problem = say("handin.notebook.statements", most=MAX_STATEMENTS)
                    return [], {}
        return found, broken

    def _typed(self, cell: Cell, own: list[SourceStatement]) -> list[SourceStatement]:
        """Statements that were typed in above the check in a check cell, if they define what is checked. What is below
        the check was not judged."""
        above = list(takewhile(lambda s: "check" not in s.reads, own))
        return above if any(self._checks[cell.grade_id] in s.binds for s in above) else []

    def _pass_over_stubs(self) -> dict[str, list[int]]:
        """Drop what an untouched stub defines if a cell with work on it defines that, too: a pasted stub is no answer."""
        passed_over = {}
        for exercise in self.exercises:
            defining = {s.cell.number: s.cell for s in self._statements if exercise.entry in s.binds}
            stubs = {number for number, cell in defining.items() if self.untouched(exercise, cell)}
            if stubs and stubs != defining.keys():
                worked = defining.keys() - stubs
                names = {name for s in self._statements if s.cell.number in worked for name in s.binds}
                self._statements = [
                    s for s in self._statements if s.cell.number not in stubs or not s.binds or s.binds - names
                ]
                passed_over[exercise.id] = sorted(stubs)
        return passed_over

    def _seemingly_defined(self) -> dict[str, list[int]]:
        pattern = re.compile(
            r"^[ \t]*(?:def|class)[ \t]+(?P<def>\w+)|^(?P<assign>\w+)[ \t]*=|^[ \t]*(?:import|from)\b(?P<import>[^\n]*)",
            re.M,
        )
        found: dict[str, list[int]] = {}
        for cell in self.cells:
            if cell.number in self.broken:
                words = {
                    w
                    for match in pattern.finditer(cell.source)
                    for w in re.findall(r"\w+", match[match.lastgroup or 0])
                }
                for word in words:
                    found.setdefault(word, []).append(cell.number)
        return found

    def untouched(self, exercise: Exercise, cell: Cell) -> bool:
        """Whether the cell is the exercise's stub, as it was handed out: a comment, a docstring or a blank line is no work."""
        return _written(cell.source) == _written(self._released.get(exercise.grade_id, ""))

    def attempted(self, exercise: Exercise) -> bool:
        """Whether a student has begun the exercise: more than the stub, though it may not parse."""
        try:
            return not self.untouched(exercise, self.solution(exercise))
        except Problem:
            own = [cell for cell in self.cells if cell.grade_id == exercise.grade_id]
            return self.seems_to_define(exercise.entry) or any(cell.number in self.broken for cell in own)

    def names_of(self, cell: Cell) -> set[str]:
        """Return the names that a cell defines."""
        return {name for s in self._statements if s.cell == cell for name in s.binds}

    def seems_to_define(self, name: str) -> bool:
        """Whether a cell that does not parse looks as if it defined the name."""
        return name in self._seeming

    def check_cell_warnings(self, exercise: Exercise) -> list[str]:
        """List messages on an edited, copied or missing check cell of the exercise."""
        own = [cell for cell in self.cells if cell.grade_id == exercise.check_id]
        given = self._released.get(exercise.check_id)
        edited = [
            cell.number for cell in own if given is not None and given.strip() != _with_current_ids(cell.source.strip())
        ]
        if not own:
            return [say("handin.check_cell.missing", exercise=exercise.id)]
        return [say("handin.check_cell.edited", exercise=exercise.id, cell=number) for number in edited]

    def solution(self, exercise: Exercise) -> Cell:
        """Return the cell whose definition of the exercise's function counts: an untouched stub if there is no other. Raises Problem.

        The last one of the exercise's own cells (an honest copy has the same id), because that is what a run from top
        to bottom leaves defined. A cell without the id counts if it stands between those and the check, or is the check,
        or if those are gone or as they were handed out.
        """
        if self.problem:
            raise Problem(self.problem)
        defining = [s.cell for s in self._statements if exercise.entry in s.binds]
        own = [cell for cell in defining if cell.grade_id == exercise.grade_id]
        other = [cell for cell in defining if cell.grade_id != exercise.grade_id]
        if own:
            rivals = [c for c in other if own[-1].number < c.number <= self._check_number(exercise)]
            return (rivals or own)[-1]
        if other:
            return other[-1]
        for cell in self.cells:
            if cell.grade_id == exercise.grade_id and (why := self.broken.get(cell.number)):
                raise Problem(say("handin.answer.cell_does_not_parse", name=exercise.entry, cell=cell.number, why=why))
        for number in self._seeming.get(exercise.entry, ()):
            why = self.broken[number]
            raise Problem(say("handin.answer.other_cell_does_not_parse", cell=number, name=exercise.entry, why=why))
        lost = mangled.elsewhere(self.cells, exercise.entry, self._released_sources)
        other = self._by_another_name(exercise)
        raise Problem(lost or say("handin.answer.undefined", name=exercise.entry, any=bool(other), other=other))

    def _by_another_name(self, exercise: Exercise) -> str:
        """Return the only function in the exercise's own cells that takes what the exercise's takes, which it does not define; else ""."""
        asked = [p for s in self._given if exercise.entry in s.binds if (p := _parameters(s.node))]
        nodes = (s.node for s in self._statements if s.cell.grade_id == exercise.grade_id)
        names = {node.name for node in nodes if isinstance(node, ast.FunctionDef) and _parameters(node) in asked}
        return names.pop() if len(names) == 1 else ""

    def mangled(self, exercise: Exercise) -> str:
        """Return a message on an exercise's cell that cannot run: it holds a merge conflict, or is not a code cell; else ""."""
        unparsed = [cell for cell in self.cells if cell.number in self.broken and cell.grade_id == exercise.grade_id]
        unparsed += [cell for cell in self.cells if cell.number in self._seeming.get(exercise.entry, ())]
        for cell in unparsed:
            if why := mangled.conflict(cell.source):
                return say("handin.answer.does_not_parse", cell=cell.number, why=why)
        return mangled.elsewhere(self.cells, exercise.entry, self._released_sources)

    def _check_number(self, exercise: Exercise) -> int:
        return next((cell.number for cell in self.cells if cell.grade_id == exercise.check_id), 0)

    def answer(self, exercise: Exercise) -> Answer:
        """Return the code to run for the exercise. Raises Problem if there is nothing to run."""
        if exercise.id not in self._answers:
            self._answers[exercise.id] = self._answer_of(exercise)
        return self._answers[exercise.id]

    def _answer_of(self, exercise: Exercise) -> Answer:
        home = self.solution(exercise)
        end = max(home.number, self._check_number(exercise))  # what a later exercise redefines is not meant here
        flags, missing = [self._mended[home.number]] if home.number in self._mended else [], []
        stubs = self._idle.get(exercise.id, [])
        cells = sorted({s.cell.number for s in self._statements if exercise.entry in s.binds} | set(stubs))
        if len(cells) > 1:
            later, facts = bool(stubs and stubs[-1] > home.number), {"name": exercise.entry, "cells": cells}
            flags.append(say("handin.answer.several_cells", **facts, cell=home.number, later=later))

        kept: set[int] = set()  # id of a statement
        todo: list[tuple[str, float]] = [(exercise.entry, AT_LAST)]
        asked = set(todo)
        starred = any(s.always and getattr(s.node, "module", "") != "__future__" for s in self._statements)
        while todo:
            name, when = todo.pop()
            binding = self._binding.get(name, [])
            earlier = bisect_left(binding, when, key=self._number_of) if when != AT_LAST else 0
            if when == WHENEVER:
                found = [s for s in binding if s.cell.number <= end and s.harmless]
            elif earlier:
                found = [binding[earlier - 1], *self._changes(name, end)]
            elif when != AT_LAST:  # nothing was there yet: cells may have been run in another order
                todo += {(name, AT_LAST)} - asked
                asked.add((name, AT_LAST))
                continue
            else:
                found = _definers([s for s in binding if s.cell is home or name != exercise.entry], end)
                if not found and (found := _definers(self._binding_given.get(name, []), end=MAX_CELLS)):
                    flags.append(say("handin.answer.as_handed_out", name=name))
                if not found and not hasattr(builtins, name):
                    numbers = self._seeming.get(name, ())
                    flags += [say("handin.answer.seems_to_define", cell=n, name=name) for n in numbers]
                    missing += [] if numbers or starred else [name]
                found += self._changes(name, end)
            kept.update(map(id, found))
            # `plain = f` takes the f of its moment; what this one calls, if it is called at once, must be there by then
            wanted = {(read, self._number_of(s)) for s in found for read in s.now}
            wanted |= {(name, self._number_of(s)) for s in found if earlier and name in s.binds and not s.plain}
            wanted |= {(read, AT_LAST) for s in found for read in s.reads - s.now}
            if when != AT_LAST:
                wanted |= {(read, WHENEVER) for s in found for read in s.reads - s.now}
            todo += wanted - asked
            asked |= wanted
        for s in self._statements:
            if s.imports and id(s) in kept and (module := mangled.absent(s.node)):
                place = {"cell": s.cell.number, "line": s.node.lineno}
                flags.append(say("handin.answer.absent_module", **place, module=module))
        if len(flags) > MAX_FLAGS:
            flags[MAX_FLAGS:] = [say("handin.answer.more", count=len(flags) - MAX_FLAGS)]
        given = [s for s in self._given if id(s) in kept]
        own = _assemble([s for s in self._statements if id(s) in kept or s.always], "cell")
        calls = sorted({name for name, _ in asked} & self._handed_out_by_others(exercise))
        return Answer(_assemble(given, "handed-out cell") + own, exercise.entry, flags, sorted(missing), calls)

    def _handed_out_by_others(self, exercise: Exercise) -> set[str]:
        """The names that the cells of other exercises were handed out with."""
        others = {e.grade_id for e in self.exercises} - {exercise.grade_id}
        return {name for s in self._given if s.cell.grade_id in others and not s.imports for name in s.binds}

    def _number_of(self, s: SourceStatement) -> float:
        """A statement's place among the student's statements."""
        return self._number.get(id(s), AT_LAST)

    def _changes(self, name: str, end: int) -> list[SourceStatement]:
        """The statements up to cell `end` that change what a name stands for, and bind nothing."""
        return [s for s in self._mutating.get(name, ()) if s.cell.number <= end and self._configures(s)]

    def _configures(self, s: SourceStatement) -> bool:
        """`configs.append(...)`, `table[0] = ...`, `triton.set_allocator(...)`: they bind nothing and still matter."""
        if s.imports or (s.binds and not s.registers) or s.reads & (self._entries | self._course):
            return False
        method = getattr(getattr(getattr(s.node, "value", None), "func", None), "attr", "")  # "" for an assignment
        origins = self._binding.get(s.mutates, [])
        if any(other.imports for other in origins):  # torch.set_..., but not torch.cuda.synchronize() or plt.show()
            return not method or method.startswith(("set_", "manual_seed", "register"))
        launches = (
            isinstance(s.node, ast.Expr)
            and not s.registers
            and any(isinstance(o.node, ast.FunctionDef) for o in origins)
        )
        return not launches  # kernel[grid](...), kernel.warmup(...) at top level are a demo


def _by_name(
    statements: Iterable[SourceStatement], names: Callable[[SourceStatement], set[str]]
) -> dict[str, list[SourceStatement]]:
    """Name -> the statements for which `names` returns it, in order."""
    found: dict[str, list[SourceStatement]] = {}
    for statement in statements:
        for name in names(statement):
            found.setdefault(name, []).append(statement)
    return found


def _with_current_ids(source: str) -> str:
    """The text of a check, which names its exercise, as this release hands it out."""
    return re.sub(r'"([\w.]+)"', lambda name: f'"{ids.current(name[1])}"', source)


@lru_cache(maxsize=4096)
def _written(source: str) -> str:
    """Return what a source says to Python: its syntax tree without docstrings and `pass`, as text; its lines where it does not parse."""
    try:
        _, tree = parsed(source)
        for node in ast.walk(tree):
            if isinstance(body := getattr(node, "body", None), list):
                node.body = [s for s in body if not _says_nothing(s)]  # pyright: ignore[reportAttributeAccessIssue]
        return ast.dump(tree)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return "\n".join(line.rstrip() for line in source.strip().splitlines())


def _says_nothing(node: ast.stmt) -> bool:
    """Whether the statement is `pass`, `...`, a docstring or another constant."""
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


@lru_cache(maxsize=1024)
def _statements_as_given(cell: Cell, given: bool) -> list[SourceStatement]:
    """Statements of a cell as it was handed out, parsed once for a class. `given`: a statement of the release and the same
    one of a submission are two."""
    return statements(cell, MAX_STATEMENTS)


def _parameters(node: ast.stmt) -> list[str]:
    """Return the names of a function's parameters; [] of any other statement."""
    return [p.arg for p in ast.walk(node.args) if isinstance(p, ast.arg)] if isinstance(node, ast.FunctionDef) else []


def _definers(binding: list[SourceStatement], end: int) -> list[SourceStatement]:
    """Choose the statements that give a name its value at cell `end`, of those that bind it; later ones only if there
    is none before."""
    found = []
    for statement in reversed([s for s in binding if s.cell.number <= end] or binding):
        found.append(statement)
        if statement.plain:  # what came before is replaced
            break
    return found


def _assemble(statements: list[SourceStatement], name: str) -> list[tuple[str, str]]:
    """Each statement on the line where it stands in its cell, so that messages name the student's own lines."""
    cells: dict[int, list[str]] = {}
    for s in statements:
        lines = cells.setdefault(s.cell.number, [])
        assert s.node.end_lineno is not None  # it was parsed
        first = s.node.end_lineno - len(s.text)
        lines += [""] * (first + len(s.text) - len(lines))
        lines[first] += ("; " if lines[first] else "") + s.text[0]
        lines[first + 1 : first + len(s.text)] = s.text[1:]
    return [(f"<{name} {number}>", "\n".join(lines) + "\n") for number, lines in cells.items()]
