"""The text of a kernel: which file and lines a `@triton.jit` function comes from, and those that it calls."""

from __future__ import annotations

import ast
import inspect
import io
import os
import sys
import tokenize
import types
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import triton
import triton.language as tl
import triton.runtime.interpreter as interpreter
from triton.runtime.jit import JITFunction

TRITON_FOLDER = os.path.dirname(triton.__file__) + os.sep


LONGEST = 100  # letters of a line that a sentence shows


@dataclass(frozen=True)
class Source:
    """The source text of one function, and its place in a file.

    first_line   the line of its `def` in the file, or in the cell
    lines        the text from the `def` on
    library      part of Triton, not written by the author
    file         where it stands; a notebook's cell has a name like a file's
    """

    name: str
    first_line: int
    lines: tuple[str, ...]
    library: bool
    file: str = ""

    @property
    def shown_from(self) -> int:
        """Return the number of its `def` in sentences: what JupyterLab shows beside a line of a cell; of a file, whose kernels are looked
        up by name, 1."""
        return self.first_line if in_a_cell(self.file) else 1

    def line(self, file_line: int) -> int:
        """Convert a line number of the file or cell to that of sentences."""
        return file_line - self.first_line + self.shown_from

    def text(self, line: int) -> str:
        """Return the line with that number as sentences show it: its code, of a long one the beginning."""
        code = code_of(dict(self.numbered()).get(line, ""))
        return code if len(code) <= LONGEST else f"{code[: LONGEST - 4]} ..."

    def numbered(self) -> Iterator[tuple[int, str]]:
        """Yield each line with its number in sentences, beginning with the `def`."""
        return enumerate(self.lines, start=self.shown_from)

    def has(self, file_line: int) -> bool:
        return 0 <= file_line - self.first_line < len(self.lines)


@lru_cache(maxsize=4096)  # each specialisation of a kernel asks for the same lines
def code_of(line: str) -> str:
    """Return a line of a source without its comment and the space around it."""
    if "#" not in line:
        return line.strip()
    try:
        for token in tokenize.generate_tokens(io.StringIO(line.strip()).readline):
            if token.type == tokenize.COMMENT:
                return line.strip()[: token.start[1]].rstrip()
    except (tokenize.TokenError, SyntaxError):  # a part of a statement
        pass
    return line.strip()


def in_a_cell(file: str) -> bool:
    """Whether a file's name is that of a notebook's cell."""
    return file.startswith("<") or "ipykernel" in file


def source_of(kernel: Any) -> Source:
    """Return the Source of a `@triton.jit` function from its `def` on, as it was when it was decorated."""
    jit = jit_function(kernel)
    lines = jit.src.splitlines(keepends=True)
    # Triton 3.4 keeps the text from the `def` on only
    decorated = jit.raw_src if hasattr(jit, "raw_src") else inspect.getsourcelines(kernel.fn)[0]
    first_line = jit.starting_line_number + len(decorated) - len(lines)
    file = kernel.fn.__code__.co_filename
    return Source(kernel.fn.__name__, first_line, tuple(lines), file.startswith(TRITON_FOLDER), file)


@cache
def unread(kernel: JITFunction) -> tuple[str, ...]:
    """Return the parameters, constants left out, that no line of a kernel uses."""
    nodes = [node for statement in kernel.parse().body[0].body for node in ast.walk(statement)]  # pyright: ignore[reportAttributeAccessIssue]
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    return tuple(p.name for p in kernel.params if not p.is_constexpr and p.name not in used)


def functions_of(kernel: JITFunction, arguments: Iterable[Any] = ()) -> list[JITFunction]:
    """List the kernel and all that it calls by a name or is given, transitively."""
    found = [kernel, *(value for value in arguments if isinstance(value, JITFunction))]
    for function in found:  # grows
        closure = inspect.getclosurevars(function.fn)
        called = (v for v in {**closure.globals, **closure.nonlocals}.values() if isinstance(v, JITFunction))
        found += [value for value in called if not any(value is other for other in found)]
    return found


# ------------------------------------------------------------------------------------------------- TRITON_INTERPRET=1


_jit_functions: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # by function object


def jit_function(kernel: Any) -> JITFunction:
    """Return the kernel as a JITFunction, as the compiler takes it. Under TRITON_INTERPRET `@triton.jit` makes objects of another kind,
    which know neither source nor parameters, and so are the functions of triton.language that are written in Triton."""
    if isinstance(kernel, JITFunction):
        return kernel
    if kernel.fn not in _jit_functions:
        # first of all noted: a function may name itself
        made = _jit_functions[kernel.fn] = JITFunction(kernel.fn)
        made.fn = made._fn = _with_compiled_globals(kernel.fn)  # pyright: ignore[reportAttributeAccessIssue] - of some Tritons
        made.__globals__ = made.fn.__globals__
    return _jit_functions[kernel.fn]


def _with_compiled_globals(function: types.FunctionType) -> types.FunctionType:
    """The same function, whose globals hold compiled functions wherever the original's hold interpreted ones."""
    scope = dict(function.__globals__)
    for name in function.__code__.co_names:
        if isinstance(value := scope.get(name), interpreter.InterpretedFunction):
            scope[name] = jit_function(value)
    copy = types.FunctionType(function.__code__, scope, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__, copy.__module__ = function.__kwdefaults__, function.__module__
    copy.__annotations__ = function.__annotations__
    return copy


@contextmanager
def compiled_language() -> Iterator[None]:
    """Replace functions of triton.language that are written in Triton by their JITFunctions inside the block."""
    replaced = []
    for module in _language_modules() if interpreter.InterpretedFunction in map(type, vars(tl).values()) else ():
        for name, value in list(vars(module).items()):
            if isinstance(value, interpreter.InterpretedFunction):
                replaced.append((module, name, value))
                setattr(module, name, jit_function(value))
    try:
        yield
    finally:
        for module, name, value in replaced:
            setattr(module, name, value)


def _language_modules() -> list[types.ModuleType]:
    return [module for name, module in list(sys.modules.items()) if name.startswith("triton.language")]
