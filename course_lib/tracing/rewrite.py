"""A kernel's Python function, rewritten so that it can run on numbers instead of being compiled.

The compiler turns every assigned number into a tensor (`acc = 0.0` is an fp32 scalar). Python would keep a float, so
each `name = value` becomes `name = _as_tensor(value)`. Nothing else changes: line numbers, globals and closures stay
those of the original, and no name is added to the namespace in which the kernel was written.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

AS_TENSOR = "_as_tensor"


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


class _AssignTensors(ast.NodeTransformer):
    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        self.generic_visit(node)
        node.value = ast.Call(ast.Name(AS_TENSOR, ast.Load()), [node.value], [])
        return node


def rewrite(function: types.FunctionType, source: Source, as_tensor: Callable[[Any], Any]) -> types.FunctionType:
    """The same function with every assigned value passed through `as_tensor`."""
    (definition,) = ast.parse("".join(source.lines)).body
    definition.decorator_list = []
    parameters = definition.args
    for parameter in [*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs]:
        parameter.annotation = None
    definition.returns = None
    # Defaults and annotations were evaluated where the kernel was written; they are taken over below.
    parameters.defaults = [ast.Constant(None) for _ in parameters.defaults]
    parameters.kw_defaults = [None if default is None else ast.Constant(None) for default in parameters.kw_defaults]
    _AssignTensors().visit(definition)

    # Inside a factory the free variables of the original are free variables again, and so is _as_tensor.
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells[AS_TENSOR] = types.CellType(as_tensor)
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
