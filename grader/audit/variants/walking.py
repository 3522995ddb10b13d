"""Every kernel as one that few programs run: each walks over the places of the grid that the kernel had.

One program that does all the work spares traffic by itself, and leaves a GPU idle; as many as a GPU has SMs are a
persistent kernel, which is honest. The variants are made from the published solutions.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from typing import Any

PLACE = [f"place_{axis}" for axis in range(3)]
GRID = [f"grid_{axis}" for axis in range(3)]
ASKS = {
    f"{language}.{name}": said
    for language in ("tl", "gl")
    for name, said in (("program_id", PLACE), ("num_programs", GRID))
}

WALK = """
@{jit}
def {name}({parameters}):
    for step in range({language}.program_id(0), grid_0 * grid_1 * grid_2, {language}.num_programs(0)):
        {name}_at({places}, {arguments})
"""


def walked(source: str, programs: int) -> str:
    """A cell whose launches K[grid](...) become K[(programs,)](*grid, ...).

    What K did in a program is a helper that is told its place in the grid. Of K's decorators none is kept but triton.jit, or
    gluon.jit. Raises ValueError if nothing is launched.
    """
    tree = ast.parse(source)
    launches = _Launches(programs)
    tree = launches.visit(tree)
    if not launches.kernels:
        raise ValueError("no kernel is launched")
    body: list[ast.stmt] = []
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef) and statement.name in launches.kernels:
            body += _two_kernels(statement)
        else:
            body.append(statement)
    tree.body = body
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def asks_elsewhere(source: str) -> bool:
    """Whether a function that is not launched asks for its place in the grid: `walked` does not tell it."""
    tree, launches = ast.parse(source), _Launches(1)
    launches.visit(copy.deepcopy(tree))
    helpers = [f for f in tree.body if isinstance(f, ast.FunctionDef) and f.name not in launches.kernels]
    return any(ast.unparse(node) in ASKS for f in helpers for node in ast.walk(f) if isinstance(node, ast.Attribute))


def _two_kernels(kernel: ast.FunctionDef) -> list[ast.stmt]:
    """The helper that does what the kernel did at one place, and the walk over all places."""
    names = [a.arg for a in kernel.args.args]
    gluon = "gluon.jit" in map(ast.unparse, kernel.decorator_list)
    jit, language = ("gluon.jit", "gl") if gluon else ("triton.jit", "tl")
    helper = _Places().visit(copy.deepcopy(kernel))
    helper.name = f"{kernel.name}_at"
    helper.decorator_list = [ast.parse(jit, mode="eval").body]
    _put_first(helper, PLACE + GRID)
    places = "step % grid_0, step // grid_0 % grid_1, step // (grid_0 * grid_1), " + ", ".join(GRID)
    arguments = ", ".join(f"{n}={n}" for n in names)
    walk: Any = ast.parse(
        WALK.format(name=kernel.name, parameters="", places=places, arguments=arguments, jit=jit, language=language)
    ).body[0]
    walk.args = copy.deepcopy(kernel.args)
    _put_first(walk, GRID)
    return [helper, walk]


def _put_first(function: ast.FunctionDef, names: Sequence[str]) -> None:
    function.args.args[:0] = [ast.arg(name) for name in names]


class _Places(ast.NodeTransformer):
    """tl.program_id(1) becomes place_1, tl.num_programs(1) grid_1, and so do gl's; axis= may name it."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        names = ASKS.get(ast.unparse(node.func))
        if names is None:
            return node
        axis = [*node.args, *(keyword.value for keyword in node.keywords)][0]
        return ast.Name(names[ast.literal_eval(axis)], ast.Load())


class _Launches(ast.NodeTransformer):
    """K[grid](...) becomes K[(programs,)](*grid, ...), with a grid of three axes."""

    def __init__(self, programs: int) -> None:
        self.programs, self.kernels = programs, set()

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if not (isinstance(node.func, ast.Subscript) and isinstance(node.func.value, ast.Name)):
            return node
        self.kernels.add(node.func.value.id)
        grid = f"*(*{ast.unparse(node.func.slice)}, 1, 1)[:3]"
        called: Any = ast.parse(f"f({grid})", mode="eval").body
        node.args[:0] = called.args
        node.func.slice = ast.parse(f"({self.programs},)", mode="eval").body
        return node
