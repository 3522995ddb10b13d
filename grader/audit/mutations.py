"""Mutations of the published kernels: does every small change of one cost something?

Each `@triton.jit` or `@gluon.jit` function of a published solution is changed in one place of its syntax tree: an operator, a
mask, a bound, a constant, a dtype; in Gluon also a wait, an arrival, a slot, a number of bytes, or the order of two statements. A
mutant that still gets full marks is a survivor: a hole in the tests, unless it means the same
as the original or merely costs what nobody grades. survivors.toml explains each; an unexplained one fails `make verify`.
"""

from __future__ import annotations

import ast
import dataclasses
import itertools
import multiprocessing
import os
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import grader
from course_lib import criteria, execution
from course_lib.exercise import Exercise
from course_lib.exercises import find
from course_lib.workloads.stated import CALLED
from grader import published
from grader.judging.cases import all_cases
from tritontrace import compiled
from tritontrace.replay import load
from tritontrace.replay.child import ChildLost

SURVIVORS = Path(__file__).with_name("survivors.toml")
SEED = 42
SECONDS, COMPILE_SECONDS = 20.0, 60.0


@dataclass(frozen=True)
class Mutant:
    """A kernel of an exercise's solution with one change.

    `change` names the statement by its text, so that it outlives an edit elsewhere in the kernel: "`i = a + b` -> `i = a - b`";
    "`i = a + b` (2) -> ..." is the second statement of that text. "`a()` <-> `b()`" are two statements that have changed places.
    """

    exercise: str
    kernel: str
    change: str
    source: str  # of the solution's cell

    def __str__(self) -> str:
        return f"{self.exercise}, {self.kernel}, {self.change}"


# ------------------------------------------------------------------------------------------------ making them

OPERATORS: dict[type, tuple[type, ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Add, ast.FloorDiv),
    ast.FloorDiv: (ast.Mult,),
    ast.Div: (ast.Mult,),
    ast.Mod: (ast.FloorDiv,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
}
COMPARISONS: dict[type, tuple[type, ...]] = {
    ast.Lt: (ast.LtE, ast.NotEq),
    ast.LtE: (ast.Lt,),
    ast.Gt: (ast.GtE,),
    ast.GtE: (ast.Gt,),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
}
OTHER_NAMES = {"min": "max", "max": "min", "maximum": "minimum", "minimum": "maximum", "sum": "max", "exp": "exp2"}
OTHER_NAMES |= {"atomic_add": "store", "float32": "float16", "M": "N", "N": "M", "BLOCK_M": "BLOCK_N"}
OTHER_NAMES |= {"rows": "cols", "offs_m": "offs_n"}
OPTIONAL = {"mask", "other", "axis", "input_precision"}  # arguments that a call may lack


OTHER_BARRIERS = {"full": "empty", "empty": "full", "a_tiles": "b_tiles", "b_tiles": "a_tiles"}
ACTS = {"mma", "mma_wait", "issue_scores", "issue_values"}  # calls whose time matters, though they give a value
JITS = {"triton.jit", "gluon.jit"}


def in_gluon(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the replacements of a node in a Gluon kernel, beside `alternatives`: another slot, byte count or bound."""
    match node:
        case ast.BinOp(left, ast.Mod(), right):  # the slot after
            yield ast.BinOp(ast.BinOp(left, ast.Add(), ast.Constant(1)), ast.Mod(), right)
        case ast.Attribute(_, "nbytes"):
            yield ast.BinOp(node, ast.Add(), ast.Constant(16))
        case ast.Call(ast.Name("range"), [*before, last]):
            yield ast.Call(node.func, [*before, ast.BinOp(last, ast.Sub(), ast.Constant(1))], node.keywords)
        case ast.Call(function, arguments, keywords):
            if any(keyword.arg == "pred" for keyword in keywords):
                yield ast.Call(function, arguments, [k for k in keywords if k.arg != "pred"])
        case ast.Constant(1) if not isinstance(node.value, bool):  # mma_wait(1): nothing may be under way
            yield ast.Constant(0)
        case ast.Name(name, ast.Load()) if name in OTHER_BARRIERS:
            yield ast.Name(OTHER_BARRIERS[name], node.ctx)
        case ast.Assign([target], ast.Call(ast.Name("mma_wait"))):
            yield ast.Assign([target], target, lineno=node.lineno)


def swaps(kernel: ast.FunctionDef) -> Iterator[tuple[ast.stmt, ast.stmt]]:
    """Yield pairs of neighbouring statements to swap, of which one waits, arrives, copies or multiplies."""
    for parent in ast.walk(kernel):
        body = getattr(parent, "body", [])
        for first, second in itertools.pairwise(body):
            simple = all(isinstance(s, (ast.Expr, ast.Assign, ast.AugAssign)) for s in (first, second))
            if simple and (_acts(first) or _acts(second)):
                yield first, second


def _acts(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(ast.Call()):
            return True
        case ast.Assign(_, ast.Call(ast.Name(name))):
            return name in ACTS
    return False


def alternatives(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the replacements of a node."""
    match node:
        case ast.BinOp(left, op, right):
            for other in OPERATORS.get(type(op), ()):
                yield ast.BinOp(left, other(), right)
            if isinstance(op, ast.BitAnd):  # half of a mask
                yield from (left, right)
        case ast.Compare(left, [op], right):
            for other in COMPARISONS.get(type(op), ()):
                yield ast.Compare(left, [other()], right)
        case ast.Constant(bool()):
            yield ast.Constant(not node.value)
        case ast.Constant(int() | float() as number):
            yield ast.Constant(number + 1)
            if number > 1:
                yield ast.Constant(number - 1)
        case ast.Call(ast.Attribute(value, "to"), [to, *_], _):
            if ast.unparse(to) != "tl.int64":  # it matters beyond 2**31 elements, and no case has as many
                yield value
        case ast.Call(function, arguments, keywords):
            for keyword in keywords:
                if keyword.arg in OPTIONAL:
                    yield ast.Call(function, arguments, [k for k in keywords if k is not keyword])
        case ast.Attribute(value, name) if name in OTHER_NAMES:
            yield ast.Attribute(value, OTHER_NAMES[name], node.ctx)
        case ast.Name(name, ast.Load()) if name in OTHER_NAMES:
            yield ast.Name(OTHER_NAMES[name], node.ctx)
        case ast.Tuple([first, second], ast.Load()) if isinstance(first, ast.Slice) != isinstance(second, ast.Slice):
            yield ast.Tuple([second, first], node.ctx)  # [:, None] and [None, :]
        case ast.AugAssign() | ast.Expr(ast.Call()):
            yield ast.Pass()
    if isinstance(node, ast.AugAssign):
        yield ast.Assign([node.target], node.value, lineno=node.lineno)


def mutants(exercise: str) -> list[Mutant]:
    """List every mutant of the exercise's published kernels, each text once."""
    cell = published.solution_cell(exercise)
    tree = ast.parse(cell)
    used, found = used_by(tree, find(exercise).entry), {}
    for kernel in tree.body:
        decorators = set(map(ast.unparse, getattr(kernel, "decorator_list", ())))
        if not isinstance(kernel, ast.FunctionDef) or not decorators & JITS:
            continue
        gluon = "gluon.jit" in decorators
        if gluon and not _asked_for(cell, kernel):
            continue
        if kernel.name not in used:  # a later exercise's
            continue
        if kernel.name in find(exercise).given:  # the grader puts the course's in its place: no change of it is judged
            continue
        names = {n.id for n in ast.walk(kernel) if isinstance(n, ast.Name)} | {a.arg for a in kernel.args.args}
        statements = [n for part in kernel.body for n in ast.walk(part) if isinstance(n, ast.stmt)]
        place_of_it = tree.body.index(kernel)
        above, below = (
            ast.unparse(ast.Module(part, [])) for part in (tree.body[:place_of_it], tree.body[place_of_it + 1 :])
        )
        texts: Counter[str] = Counter()

        def cell_with(instead: dict[int, ast.AST], kernel: ast.FunctionDef = kernel, above=above, below=below) -> str:
            return f"{above}\n\n{ast.unparse(replaced(kernel, instead))}\n\n{below}\n"

        for statement in statements:
            before = head_of(statement)
            texts[before] += 1
            place = f"`{before}`" + (f" ({texts[before]})" if texts[before] > 1 else "")
            for node in nodes_of(statement):
                for other in [*alternatives(node), *(in_gluon(node) if gluon else ())]:
                    if isinstance(other, ast.Name) and other.id not in names | {"min", "max"}:
                        continue
                    instead = {id(node): other}
                    after = head_of(replaced(statement, instead))
                    if after != before:
                        change, source = f"{place} -> `{after}`", cell_with(instead)
                        found.setdefault(source, Mutant(exercise, kernel.name, change, source))
        for first, second in swaps(kernel) if gluon else ():
            source = cell_with({id(first): second, id(second): first})
            change = f"`{head_of(first)}` <-> `{head_of(second)}`"
            found.setdefault(source, Mutant(exercise, kernel.name, change, source))
    return list(found.values())


def _asked_for(cell: str, kernel: ast.FunctionDef) -> bool:
    """Whether a part of a kernel is to be written: what is handed out is nobody's answer."""
    inside, lines = False, set()
    for number, line in enumerate(cell.splitlines(), 1):
        inside = inside or "### BEGIN SOLUTION" in line
        if inside:
            lines.add(number)
        inside = inside and "### END SOLUTION" not in line
    return bool(lines & set(range(kernel.lineno, (kernel.end_lineno or 0) + 1)))


def used_by(tree: ast.Module, entry: str) -> set[str]:
    """Return the names that `entry` uses, directly or through other definitions of the cell."""
    defined = {node.name: node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    used, todo = set(), [entry]
    while todo:
        name = todo.pop()
        if name not in used:
            used.add(name)
            body = ast.walk(defined[name]) if name in defined else ()
            todo += [node.id for node in body if isinstance(node, ast.Name)]
    return used


def nodes_of(statement: ast.AST) -> Iterator[ast.AST]:
    """Yield a statement and the nodes in it, down to the next statement. Docstrings have nothing to change."""
    yield statement
    for child in ast.iter_child_nodes(statement):
        if not isinstance(child, ast.stmt):
            yield from nodes_of(child)


def replaced(tree: Any, instead: Mapping[int, ast.AST]) -> Any:
    """Return a copy of a syntax tree with some nodes replaced, which are given by id. Unchanged parts are shared: copying all takes ten
    times as long."""
    if id(tree) in instead:
        return instead[id(tree)]
    if isinstance(tree, list):
        parts = [replaced(part, instead) for part in tree]
        return parts if any(new is not old for new, old in zip(parts, tree, strict=True)) else tree
    if not isinstance(tree, ast.AST):
        return tree
    fields = {name: replaced(value, instead) for name, value in ast.iter_fields(tree)}
    if all(value is getattr(tree, name) for name, value in fields.items()):
        return tree
    return ast.copy_location(type(tree)(**fields), tree)


def head_of(statement: ast.AST) -> str:
    """Return a statement's first line."""
    return ast.unparse(statement).partition("\n")[0]


# ------------------------------------------------------------------------------------------------ killing them


def lost(mutant: Mutant) -> str:
    """Return the title of the first gate or criterion that the mutant loses, "" if it survives."""
    torch.set_num_threads(1)
    exercise = find(mutant.exercise)
    exercise = dataclasses.replace(exercise, cases=all_cases(exercise, SEED), bonus=())
    try:
        entry = load(published.answer(exercise.id, mutant.source), exercise.entry)
        for compile_seconds in (0.0, COMPILE_SECONDS):  # what survives the trace is also compiled
            trials = execution.observe(
                exercise, entry, SEED, seconds=SECONDS + compile_seconds, compile_seconds=compile_seconds
            )
            verdict = criteria.judge(exercise, trials)
            failed = [finding.title for finding in verdict.findings if finding.lost]
            if failed:
                return failed[0]
    except (ChildLost, ValueError) as reason:
        return f"runs ({reason})"
    return ""


def run(
    chosen: Sequence[Mutant], progress: Callable[[int, int], None] = lambda done, total: None
) -> list[tuple[Mutant, str]]:
    """Judge mutants, and list (mutant, what it loses) in order."""
    compiled.warm_up()  # once, before the workers are forked
    found = []
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), mp_context=context) as pool:
        for mutant, title in zip(chosen, pool.map(lost, chosen), strict=True):
            found.append((mutant, title))
            progress(len(found), len(chosen))
    return found


def of_unit(unit: str) -> list[Mutant]:
    """List all mutants of a unit's kernels, except work logs, which ask nothing of versions on other sizes."""
    kernels: list[Exercise] = [e for e in grader.exercises(unit).values() if e.kind == "kernel" and e.called != CALLED]
    return [mutant for exercise in kernels for mutant in mutants(exercise.id)]


@dataclass
class MutationReport:
    """The outcomes of a unit's mutants."""

    outcomes: list[tuple[Mutant, str]]  # what each loses first, "" for a survivor
    reasons: dict[str, str]  # of the survivors that survivors.toml explains

    @property
    def survivors(self) -> list[Mutant]:
        return [mutant for mutant, title in self.outcomes if not title]

    @property
    def unexplained(self) -> list[str]:
        return [str(mutant) for mutant in self.survivors if str(mutant) not in self.reasons]

    @property
    def stale(self) -> list[str]:
        """List the changes that survivors.toml explains although no such mutant survives."""
        judged, alive = {m.exercise for m, _ in self.outcomes}, set(map(str, self.survivors))
        return [change for change in self.reasons if change.partition(",")[0] in judged and change not in alive]


def report(
    unit: str, progress: Callable[[int, int], None] = lambda done, total: None, at_most: int | None = None
) -> MutationReport:
    """Run a unit's mutants. at_most: run only this many of them, spread evenly."""
    chosen = of_unit(unit)
    step = -(-len(chosen) // at_most) if at_most and chosen else 1
    return MutationReport(run(chosen[::step], progress), explained())


def explained(path: Path = SURVIVORS) -> dict[str, str]:
    """Read survivors.toml: str(mutant) -> why it may survive."""
    reasons: dict[str, str] = {}
    for group in tomllib.loads(path.read_text())["survivors"]:
        for change in group["changes"]:
            reasons[f"{group['exercise']}, {group['kernel']}, {change}"] = group["reason"]
    return reasons
