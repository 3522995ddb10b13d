"""Holes in the cases: random changes of published answers that earn all points, and compute another formula.

Each answer is changed in one to three places, drawn by a seed: in its kernels, and in the host code that launches them. What passes
the whole check is compared with the published answer where nothing is rounded, on cases of several secrets. If it computes another
formula there, a student may be wrong so and lose nothing. holes.toml explains those that may stay.
"""

from __future__ import annotations

import ast
import multiprocessing
import os
import random
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch

import grader
from course_lib.exercise import Case
from course_lib.exercises import find
from course_lib.workloads.stated import CALLED
from grader import published
from grader.audit.mutations import SEED, Mutant, alternatives, head_of, lost, nodes_of, replaced, used_by
from grader.judging.cases import all_cases
from tritontrace import compiled
from tritontrace.exact import Reference, equivalent
from tritontrace.replay import child

HOLES = Path(__file__).with_name("holes.toml")
SECRETS = (SEED, SEED + 1, SEED + 2)  # whose cases are compared on
PLACES = (1, 1, 1, 2, 2, 3)  # how many are changed, drawn evenly
MOST_ELEMENTS = 1 << 14  # of a case's tensors: of a larger one nothing else is learnt
SECONDS = 60.0  # of CPU, to compare one mutant


@dataclass(frozen=True)
class Hole:
    """A mutant that earns all points, and the case on which it computes something else, or why that could not be decided."""

    mutant: Mutant
    case: str


# ------------------------------------------------------------------------------------------------ random mutants


def further(node: ast.AST, names: Sequence[str]) -> Iterator[ast.AST]:
    """Yield more replacements of a node than `alternatives` does: another name of its function, twice and half of a number, two arguments
    swapped, a floor for a ceiling."""
    match node:
        case ast.Name(name, ast.Load()) if name in names:
            yield from (ast.Name(other, node.ctx) for other in names if other != name and _kind(other) == _kind(name))
        case ast.Constant(int() as number) if not isinstance(number, bool) and number > 1:
            yield from (ast.Constant(2 * number), ast.Constant(number // 2))
        case ast.Call(ast.Attribute(_, "cdiv"), [one, other]):
            yield ast.BinOp(one, ast.FloorDiv(), other)
        case ast.Call(function, [first, second, *others], keywords):
            yield ast.Call(function, [second, first, *others], keywords)


def _kind(name: str) -> str:
    """The kind of thing that a name stands for, by how it is written: a pointer in a number's place would not even compile."""
    return "size" if name.isupper() else next((kind for kind in ("ptr", "stride") if kind in name), "")


def drawn(exercise_id: str, count: int, seed: int) -> list[Mutant]:
    """Draw at most `count` random mutants of an exercise's published answer, each text once; the same for the same seed."""
    chance = random.Random(f"{exercise_id} {seed}")
    original = ast.parse(published.solution_cell(exercise_id))
    unchanged = ast.unparse(original) + "\n"
    used, given = used_by(original, find(exercise_id).entry), find(exercise_id).given
    chosen: dict[str, Mutant] = {}
    for _ in range(20 * count):
        if len(chosen) == count:
            break
        tree, changes, where = original, [], []
        for _ in range(chance.choice(PLACES)):
            functions = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name in used - set(given)]
            if not functions:
                return []  # an answer that is data
            function = chance.choice(functions)
            tree, change = changed(tree, function, chance)
            if change:
                changes, where = [*changes, change], [*where, function.name]
        source = ast.unparse(tree) + "\n"
        if changes and source != unchanged:
            chosen.setdefault(source, Mutant(exercise_id, " and ".join(where), " and ".join(changes), source))
    return list(chosen.values())


def changed(tree: ast.Module, function: ast.FunctionDef, chance: random.Random) -> tuple[ast.Module, str]:
    """Return the tree with one place of a function changed at random, and "`before` -> `after`"; "" if nothing was."""
    names = sorted({n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)})
    names += [a.arg for a in function.args.args]
    inside = (n for part in function.body for n in ast.walk(part))
    statement = chance.choice([n for n in inside if isinstance(n, ast.stmt)])
    places = [(n, other) for n in nodes_of(statement) for other in [*alternatives(n), *further(n, names)]]
    if not places:
        return tree, ""
    node, other = chance.choice(places)
    instead = {id(node): other}
    before, after = head_of(statement), head_of(replaced(statement, instead))
    return replaced(tree, instead), f"`{before}` -> `{after}`" if after != before else ""


# ------------------------------------------------------------------------------------------------ those that pass, and differ


def difference(mutant: Mutant) -> str:
    """Return the name of the first case, of several secrets, on which a mutant computes another formula; "" if there is none.

    Raises ChildLost if it takes too long, ValueError if it does not run.
    """
    exercise = find(mutant.exercise)
    cases = {case.name: case for secret in SECRETS for case in all_cases(exercise, secret)}
    small = sorted((case for case in cases.values() if _elements(case) <= MOST_ELEMENTS), key=_elements)

    def work() -> str:
        answer = published.called(exercise, published.answer(exercise.id, mutant.source))
        reference = Reference(
            published.called(exercise, published.answer(exercise.id, published.solution_cell(exercise.id)))
        )
        arguments = ((case.name, case.arguments(SEED)) for case in small)
        return next(
            (name for name, given in arguments if equivalent(answer, reference, [given]).outcome == "different"), ""
        )

    return child.run(work, seconds=SECONDS)[0]


def _elements(case: Case) -> int:
    return sum(x.numel() for x in case.arguments(SEED).values() if isinstance(x, torch.Tensor))


def hole(mutant: Mutant) -> Hole | None:
    """Return the Hole that a mutant shows, or None."""
    torch.set_num_threads(1)
    if lost(mutant):
        return None
    try:
        case = difference(mutant)
    except (child.ChildLost, ValueError) as reason:  # a person looks at what cannot be compared
        case = f"not compared: {reason}"
    return Hole(mutant, case) if case else None


def of_unit(unit: str, count: int, seed: int) -> list[Mutant]:
    """Draw at most `count` random mutants of each exercise of a unit that asks for kernels in Triton, work logs left out."""
    kernels = [
        e
        for e in grader.exercises(unit).values()
        if e.kind == "kernel" and e.language == "Triton" and e.called != CALLED
    ]
    return [mutant for exercise in kernels for mutant in drawn(exercise.id, count, seed)]


@dataclass
class Search:
    """The outcome of a search: how many random mutants were judged, how many earn all points, which of those are holes."""

    judged: int
    holes: list[Hole]

    def unexplained(self, reasons: dict[str, str]) -> list[Hole]:
        """List the holes for which holes.toml has no reason."""
        return [each for each in self.holes if str(each.mutant) not in reasons]


def search(chosen: Sequence[Mutant], seconds: float = float("inf")) -> Search:
    """Judge these mutants for holes; after `seconds` no new one is begun."""
    compiled.warm_up()  # once, before the workers are forked
    deadline, context = time.monotonic() + seconds, multiprocessing.get_context("fork")
    holes, judged, workers = [], 0, len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        for start in range(0, len(chosen), 4 * workers):
            if time.monotonic() > deadline:
                break
            some = chosen[start : start + 4 * workers]
            holes += filter(None, pool.map(hole, some))
            judged += len(some)
    return Search(judged, holes)


def explained(path: Path = HOLES) -> dict[str, str]:
    """Read holes.toml: str(mutant) -> why it may earn all points."""
    groups = tomllib.loads(path.read_text()).get("holes", [])
    return {mutant: group["reason"] for group in groups for mutant in group["mutants"]}
