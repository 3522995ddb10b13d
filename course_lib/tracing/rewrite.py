"""A kernel's Python function, rewritten so that it can run on numbers instead of being compiled.

    name = value              name = as_tensor(value)             the compiler turns every assigned number into a tensor
    for i in range(...):      for i in loop_over(range(...)):     and the variable of a loop
    f(x)                      callee(f)(x)                        a name may hold a function that does not run here

Nothing else changes: line numbers, globals and closures stay those of the original, and no name is added to the namespace
in which the kernel was written.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple


class Helpers(NamedTuple):
    """What the rewritten code calls."""

    as_tensor: Callable[[Any], Any]
    loop_over: Callable[[Any], Any]
    callee: Callable[[Any], Any]


@dataclass(frozen=True)
class Source:
    """The text of one function.

    first_line   the line of its `def` in the file
    lines        the text from the `def` on
    library      part of Triton, not written by the student
    """

    name: str
    first_line: int
    lines: tuple[str, ...]
    library: bool

    def line(self, file_line: int) -> int:
        """The line counted from the `def`, which is line 1."""
        return file_line - self.first_line + 1

    def text(self, line: int) -> str:
        return self.lines[line - 1].strip() if 1 <= line <= len(self.lines) else ""


class _Rewriter(ast.NodeTransformer):
    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        self.generic_visit(node)
        node.value = _call("as_tensor", node.value)
        return node

    def visit_For(self, node: ast.For) -> ast.For:
        self.generic_visit(node)
        node.iter = _call("loop_over", node.iter)
        return node

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name):  # an attribute is looked up in a module, where it can be replaced
            node.func = _call("callee", node.func)
        return node


def _name(helper: str) -> str:
    return f"_{helper}"


def _call(helper: str, argument: ast.expr) -> ast.Call:
    function = ast.copy_location(ast.Name(_name(helper), ast.Load()), argument)
    return ast.copy_location(ast.Call(function, [argument], []), argument)


def rewrite(function: types.FunctionType, source: Source, helpers: Helpers) -> types.FunctionType:
    """The same function, calling `helpers`."""
    (definition,) = ast.parse("".join(source.lines)).body
    definition.decorator_list = []
    parameters = definition.args
    for parameter in [*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs]:
        parameter.annotation = None
    definition.returns = None
    # Defaults and annotations were evaluated where the kernel was written; they are taken over below.
    parameters.defaults = [ast.Constant(None) for _ in parameters.defaults]
    parameters.kw_defaults = [None if default is None else ast.Constant(None) for default in parameters.kw_defaults]
    _Rewriter().visit(definition)

    # Inside a factory the free variables of the original are free variables again, and so are the helpers.
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells |= {_name(helper): types.CellType(value) for helper, value in helpers._asdict().items()}
    factory = ast.parse(f"def factory({', '.join(cells)}): return {definition.name}").body[0]
    factory.body.insert(0, definition)
    module = ast.Module([factory], [])
    ast.increment_lineno(definition, source.first_line - 1)
    ast.fix_missing_locations(module)

    namespace: dict[str, Any] = {}
    exec(compile(module, function.__code__.co_filename, "exec"), namespace)
    code = namespace["factory"](*cells).__code__
    rewritten = types.FunctionType(
        code,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        tuple(cells[name] for name in code.co_freevars),
    )
    rewritten.__kwdefaults__ = function.__kwdefaults__
    return rewritten
