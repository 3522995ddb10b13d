"""A kernel as plain data, and back: which names it may use, and its rebuilding in a process that trusts nothing.

Triton's code generator reads a kernel and never runs it. But it looks up the kernel's names and their attributes as Python
objects, and calls what it finds. So in a rebuilt kernel every name stands for a parameter, a local, plain data, another of
the author's kernels, or a public object of its language, Triton's or Gluon's (names.py); every attribute is one of those or one
of a block's. All else is refused in a sentence, here or by the code generator.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import inspect
import json
import linecache
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any

import triton.language as tl
from triton.runtime.jit import JITFunction

from tritontrace.messages import Message, MessageError, message_of, say
from tritontrace.replay import layouts
from tritontrace.replay.names import (
    BUILTINS,
    DECORATORS,
    TRITON,
    AllowedNames,
    ConstexprFunction,
    names_of,
    refused_builtins,
)
from tritontrace.ttir.launching import KernelError
from tritontrace.ttir.sources import jit_function, source_of

FIELD = "the field"  # no name that a kernel could write


class KernelRefused(MessageError, ValueError):
    """Raised, with a message, for a kernel that uses something which no GPU kernel can use."""


HOSTS = {
    "tritontrace"
}  # packages whose kernels may be used, and whose lines no error names: who calls record() adds its own
MOST_LINES = 100_000  # of a cell: a log of more is not believed

# ----------------------------------------------------------------------------------------------- from a kernel to data


# trap: a name in a kernel may stand for a parameter, a local, a number, a layout, a kernel or its language (names.py);
# all else is refused, a constexpr_function too. The front end runs Python at compile time, in the trusted process
def describe(kernel: Any, table: dict[str, dict[str, Any]], callers: tuple[JITFunction, ...] = ()) -> str:
    """Serialise `kernel`, and every kernel it calls, into `table` as plain data; return its key (a hash of all that it is).

    >>> table = {}
    >>> key = describe(copy, table)
    >>> table[key]["name"], table[key]["gluon"], table[key]["source"].splitlines()[0]
    ('copy', False, 'def copy(x_ptr, y_ptr, n, BLOCK: tl.constexpr):')
    """
    kernel = jit_function(kernel)
    name, source = kernel.__name__, getattr(kernel, "src", None)  # what Triton compiles
    if kernel in callers:
        raise KernelRefused(say("replay.kernel.recursive", kernel=name))
    package = re.search(r"(?:site|dist)-packages[/\\](\w+)", kernel.fn.__code__.co_filename)
    if package and package[1] not in HOSTS:
        raise KernelRefused(say("replay.kernel.package", kernel=name, package=package[1]))
    if not isinstance(source, str):
        raise KernelRefused(say("replay.kernel.no_source", kernel=name))

    names, first = names_of(is_gluon(kernel)), source_of(kernel).shown_from

    def described(what: str, line: int, value: Any) -> dict[str, Any]:
        found = _described(value, names, table, (*callers, kernel))
        if found is None:
            facts = {"kernel": name, "line": line, "name": what}
            raise KernelRefused(
                say("replay.kernel.no_value", **facts, value=_in_words(value), instead=_instead_of(value, names))
            )
        return found

    (own, used), scope = _names_in(source, name, first), kernel.get_capture_scope()
    for what, line in used.items():
        if what not in scope and what not in BUILTINS:
            near = _near(what, own | BUILTINS)
            raise KernelRefused(say("replay.kernel.unknown", kernel=name, line=line, name=what, near=near))
    entry = {
        "name": name,
        "source": source,
        "names": {what: described(what, line, scope[what]) for what, line in used.items() if what in scope},
        "defaults": {p.name: described(p.name, first, p.default) for p in kernel.params if p.has_default},
        "annotations": {p.name: "constexpr" if p.is_constexpr else p.annotation_type for p in kernel.params},
        "do_not_specialize": [p.name for p in kernel.params if p.do_not_specialize],
        "noinline": bool(kernel.noinline),
        "gluon": is_gluon(kernel),
        "line": first,
    }
    key = key_of(entry)
    first_key, before = vars(kernel).setdefault("described", (key, entry["names"]))
    if first_key != key:
        raise KernelRefused(_changed(name, before, entry["names"]))
    table[key] = entry
    return key


def _changed(kernel: str, before: dict[str, Any], now: dict[str, Any]) -> Message:
    """Say what a kernel uses that was changed after its first launch. before, now: what its names stand for."""
    for name, value in now.items():
        if value.keys() & {"value", "constexpr"} and before.get(name, value) != value:
            return say("replay.kernel.constant_changed", kernel=kernel, name=name)
    return say("replay.kernel.changed", kernel=kernel)


def with_helpers(keys: Iterable[str], table: Mapping[str, dict[str, Any]]) -> set[str]:
    """Return these kernels of a table, and all that they call, by key."""
    found, waiting = set(), list(keys)
    while waiting:
        key = waiting.pop()
        if key not in found:
            found.add(key)
            waiting += _kernels_in([table[key]["names"], table[key].get("defaults", {})])
    return found


def _kernels_in(described: Any) -> Iterator[str]:
    parts = described.items() if isinstance(described, dict) else enumerate(described)
    for kind, value in parts:
        if kind == "kernel" and isinstance(value, str):
            yield value
        elif isinstance(value, (dict, list)):
            yield from _kernels_in(value)


def key_of(entry: dict[str, Any]) -> str:
    """Return the key of a kernel in a table: a hash of its source and of all that its names stand for, helpers by their keys.

    >>> table = {}
    >>> key = describe(copy, table)
    >>> key_of(table[key]) == key
    True
    """
    entry = {what: value for what, value in entry.items() if what != "line"}  # where it stands changes nothing
    return hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()[:16]


def is_gluon(kernel: JITFunction) -> bool:
    """Whether a kernel is written in Gluon."""
    return bool(getattr(kernel, "is_gluon", bool)())  # which Triton 3.4 does not ask


def _described(
    value: Any, names: AllowedNames, table: dict[str, dict[str, Any]], callers: tuple[JITFunction, ...]
) -> dict | None:
    """Describe what a name stands for, as plain data; None if no kernel may use it."""
    if value is None or type(value) in (int, float, bool, str):
        return {"value": value}
    if type(value) is tuple:
        parts = [_described(part, names, table, callers) for part in value]
        return None if None in parts else {"tuple": parts}
    if isinstance(value, tl.constexpr):
        inner = _described(value.value, names, table, callers)
        return inner and {"constexpr": inner}
    if inspect.ismodule(value) and value.__name__ in names.modules:
        return {"module": value.__name__}
    if id(value) in names.objects:
        return {"object": names.objects[id(value)]}
    if layouts.is_layout(value):
        data = layouts.described(value)
        return data and {"layout": data}
    return {"kernel": describe(value, table, callers)} if isinstance(value, JITFunction) else None


def _in_words(value: Any) -> Message:
    """Say what a value is that no kernel may use."""
    if isinstance(value, tl.constexpr):
        return say("replay.kind.constexpr", value=_in_words(value.value))
    if isinstance(value, ConstexprFunction):
        return say("replay.kind.constexpr_function")
    kind = "builtin" if type(value).__module__ == "builtins" else "object"
    return say(f"replay.kind.{kind}", type=type(value).__name__)


def _instead_of(value: Any, names: AllowedNames) -> Message:
    decorator = DECORATORS[names.language]
    if isinstance(value, ConstexprFunction):
        return say("replay.instead.constexpr_function", decorator=decorator)
    if getattr(value, "__triton_aggregate__", False):
        return say("replay.instead.aggregate")
    question = say("replay.instead.question", decorator=decorator) if inspect.isfunction(value) else ""
    return say(f"replay.instead.{names.language.lower()}", question=question)


# ----------------------------------------------------------------------------------------------- what a kernel says


def _definition(source: str, name: str, first: int) -> ast.FunctionDef:
    """The single function definition in `source`, without what Python evaluates of it: decorators, annotations, defaults. Its lines have
    numbers from `first` on."""
    try:
        (definition,) = ast.parse(source).body
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        definition = None
    if not isinstance(definition, ast.FunctionDef):
        raise KernelRefused(say("replay.kernel.no_function", kernel=name))
    ast.increment_lineno(definition, first - 1)
    parameters = definition.args
    if parameters.vararg or parameters.kwarg or parameters.kwonlyargs or parameters.posonlyargs:
        raise KernelRefused(say("replay.kernel.parameters", kernel=name, line=first))
    definition.decorator_list, definition.returns, parameters.defaults = [], None, []
    for parameter in parameters.args:
        parameter.annotation = None
    for node in ast.walk(definition):
        # though a kernel may bind it: Triton finds its own where that is in a branch not taken
        if isinstance(node, ast.Name) and node.id in refused_builtins():
            raise KernelRefused(say("replay.kernel.builtin", kernel=name, line=node.lineno, name=node.id))
        if isinstance(node, (ast.FunctionDef, ast.Lambda)) and node is not definition:
            raise KernelRefused(say("replay.kernel.function_inside", kernel=name, line=node.lineno))
    return definition


@lru_cache(maxsize=256)  # a kernel is launched many times
def _names_in(source: str, name: str, first: int) -> tuple[set[str], dict[str, int]]:
    """(a kernel's parameters and locals; what it takes from outside, with a line). first: the number of its first line."""
    definition = _definition(source, name, first)
    nodes = [node for part in (definition.args, *definition.body) for node in ast.walk(part)]
    names = [node for node in nodes if isinstance(node, ast.Name)]
    own = {node.id for node in names if not isinstance(node.ctx, ast.Load)}
    own |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    return own, {node.id: node.lineno for node in sorted(names, key=lambda node: node.id) if node.id not in own}


class _Attributes(ast.NodeTransformer):
    """Lets through what ends at a public object of the language or at a public attribute of a block; any other attribute
    can only be a NamedTuple's, and will be asked of nothing else."""

    def __init__(self, kernel: str, names: AllowedNames, modules: Mapping[str, str]):
        self.kernel, self.names, self.modules = kernel, names, modules  # name -> path

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if path := self._module(node.value):
            public = self.names.public[path]
            if node.attr not in public:
                raise self._refused(node, _lacks(f"`{_short(path)}`", node.attr, public))
            return node
        node.value = self.visit(node.value)
        if node.attr in self.names.attributes:
            return node
        if node.attr.startswith("_") or not isinstance(node.ctx, ast.Load):
            raise self._refused(node, _lacks(UNKNOWN, node.attr, self.names.attributes))
        asked = ast.Call(ast.Name(FIELD, ast.Load()), [node.value, ast.Constant(node.attr)], [])
        return ast.fix_missing_locations(ast.copy_location(asked, node))

    def _refused(self, node: ast.Attribute, lack: Message) -> KernelRefused:
        return KernelRefused(say("replay.kernel.lacks", kernel=self.kernel, line=node.lineno, lack=lack))

    def _module(self, node: ast.expr) -> str:
        """The path of the module that an expression names; "" if it names none."""
        if isinstance(node, ast.Name):
            return self.modules.get(node.id, "")
        if isinstance(node, ast.Attribute) and (path := self._module(node.value)):
            path = f"{path}.{node.attr}"
            return path if path in self.names.modules else ""
        return ""


def _short(path: str) -> str:
    """The path of a module as kernels write it."""
    return path.replace("triton.experimental.gluon.language", "gl").replace("triton.language", "tl")


@tl.core.builtin
def _field(value: Any, name: tl.constexpr, _semantic: Any = None) -> Any:
    """value.name, for NamedTuples alone."""
    value, field = value.value if isinstance(value, tl.constexpr) else value, str(name.value)
    fields: Any = (
        getattr(value.type, "fields", None) if isinstance(value, tl.tuple) else getattr(type(value), "_fields", None)
    )
    if isinstance(value, (tl.tuple, tuple)) and fields and field in fields:
        return value[fields.index(field)]
    raise AttributeError(_lacks(_of_the_kind(value), field, () if isinstance(value, str) else TRITON.attributes))


UNKNOWN = say("replay.kind.unknown")


def _of_the_kind(value: Any) -> Message:
    """Say what a value is in a kernel."""
    if isinstance(value, (str, int, float)):
        return say("replay.kind.text") if isinstance(value, str) else say("replay.kind.number")
    kind = getattr(value, "type", None)
    if not isinstance(kind, tl.dtype):
        return UNKNOWN
    return say(f"replay.kind.{'block' if kind.is_block() else 'pointer' if kind.is_ptr() else 'number'}")


CLOSE = 0.7  # `core` is not near `store`
INSTEAD = {  # of names that Python or its modules have: what a kernel can say
    "float": ".to(dtype)",
    "abs": "tl.abs",
    "sum": "tl.sum",
    "inf": "float('inf')",
    "nan": "float('nan')",
    "math": say("replay.instead.math"),
    "np": say("replay.instead.numpy"),
    "torch": "tl",
}


def _lacks(what: str, name: str, known: Iterable[str]) -> Message:
    return say("replay.kernel.lack", of=what, name=name, near=_near(name, known))


def _near(name: str, known: Iterable[str]) -> str:
    """A question, if a name looks like one of the known ones, misspelt; what to write, if it is known from elsewhere."""
    if name in INSTEAD:
        return say("replay.kernel.write", instead=INSTEAD[name])
    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=CLOSE)
    return say("replay.kernel.near", near=near[0]) if near else ""


# ----------------------------------------------------------------------------------------------- from data to a kernel


class Rebuilt(JITFunction):
    """A JITFunction of which the compiler reads the very tree that was checked, and not its text again."""

    def __init__(self, function: Callable, source: str, checked: ast.Module, **options: Any):
        super().__init__(function, **options)
        self._src, self._checked = source, checked

    def parse(self) -> ast.Module:
        return self._checked

    def __getitem__(self, grid: Any) -> Callable:
        """Launch with constants that are plain data: what a tensor holds could be asked while the kernel is compiled."""

        def launch(*args: Any, **arguments: Any) -> Any:
            arguments |= zip(self.arg_names, args, strict=False)
            for parameter in self.params:
                value = arguments.get(parameter.name)
                if parameter.is_constexpr and not _is_constant(value):
                    kind = say("launch.argument.no_constant", name=parameter.name, type=type(value).__name__)
                    raise KernelError(say("launch.arguments.wrong", kernel=self.__name__, reason=kind))
            return self.run(**arguments, grid=grid, warmup=False)

        return launch


@cache
def _rebuilt_in_gluon() -> type[Rebuilt]:
    """The class of rebuilt kernels in Gluon."""
    from triton.experimental.gluon._runtime import GluonJITFunction

    return type("RebuiltInGluon", (Rebuilt, GluonJITFunction), {})


def _is_constant(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(map(_is_constant, value))
    if layouts.is_layout(value):
        return True
    return value is None or isinstance(value, (bool, int, float, str, tl.dtype, JITFunction))


def rebuild(table: dict[str, dict[str, Any]]) -> dict[str, JITFunction]:
    """Rebuild kernels from plain data, closed over nothing but triton.language, plain data and one another. Raises KernelRefused for the
    first that breaks a rule.

    KernelRefused, with a sentence, for the first that breaks a rule.
    """
    try:
        return dict(_rebuild(json.dumps(table)))
    except KernelRefused:
        raise
    except RecursionError:
        raise KernelRefused(say("replay.kernel.too_deep")) from None
    except Exception as error:  # a table of another shape
        raise KernelRefused(say("replay.kernel.not_rebuilt", exception=type(error).__name__)) from None


# trap: the cache's key is the whole table, all that can change a kernel: who forges a log gets the kernels of that very log
@lru_cache(
    maxsize=64
)  # logs of one function mostly hold the same kernels, and a fork inherits those that were rebuilt before
def _rebuild(content: str) -> dict[str, JITFunction]:
    table = json.loads(content)
    built: dict[str, JITFunction] = {}

    def build(key: str, ancestors: tuple[str, ...]) -> JITFunction:
        if key not in built:
            entry = table.get(key)
            if not isinstance(entry, dict) or key in ancestors:
                raise KernelRefused(say("replay.kernel.not_in_the_log"))
            built[key] = _rebuilt(key, entry, lambda k: build(k, (*ancestors, key)))
        return built[key]

    for key in table:
        build(key, ())
    return built


def _rebuilt(key: str, entry: dict[str, Any], build: Callable[[str], JITFunction]) -> JITFunction:
    name, source = entry["name"], entry["source"]
    line = entry.get("line")
    first = line if type(line) is int and 1 <= line <= MOST_LINES else 1
    definition = _definition(source, name, first)
    if definition.name != name:
        raise KernelRefused(say("replay.kernel.other_name", kernel=name, name=definition.name))
    modules = {what: value["module"] for what, value in entry["names"].items() if "module" in value}
    gluon = entry.get("gluon") is True
    names = names_of(gluon)
    definition.body = [_Attributes(name, names, modules).visit(statement) for statement in definition.body]
    module, file = ast.Module([definition], []), f"<kernel {name} {key}>"
    lines = ["\n"] * (first - 1) + source.splitlines(
        keepends=True
    )  # so that its lines have the numbers of the author's cell
    linecache.cache[file] = (len(source), None, lines, file)
    scope = {what: _resolve(name, names, value, build) for what, value in entry["names"].items()}
    # Triton tells functions of one name apart by their modules
    scope |= {FIELD: _field, "__name__": f"kernel_{key}", "__builtins__": {}}
    exec(compile(module, file, "exec"), scope)
    function = scope.pop(name)
    defaults = {what: _resolve(name, names, value, build) for what, value in entry.get("defaults", {}).items()}
    parameters = [
        p.replace(default=defaults.get(p.name, p.empty), annotation=entry["annotations"].get(p.name) or p.empty)
        for p in inspect.signature(function).parameters.values()
    ]
    function.__signature__ = inspect.Signature(parameters)
    fixed = [str(what) for what in entry.get("do_not_specialize", ())]
    kind = _rebuilt_in_gluon() if gluon else Rebuilt
    ast.increment_lineno(module, 1 - first)  # Triton counts from the `def`, and adds where that stands
    return kind(function, source, module, do_not_specialize=fixed, noinline=entry.get("noinline") is True)


def _resolve(kernel: str, names: AllowedNames, described: dict[str, Any], build: Callable[[str], JITFunction]) -> Any:
    match described:
        case {"value": None | int() | float() | str() as value}:
            return value
        case {"tuple": list(parts)}:
            return tuple(_resolve(kernel, names, part, build) for part in parts)
        case {"constexpr": inner}:
            return tl.constexpr(_resolve(kernel, names, inner, build))
        case {"module": str(path)} if path in names.modules:
            return names.modules[path]
        case {"layout": data}:
            try:
                return layouts.rebuilt(data)
            except ValueError as error:
                raise KernelRefused(say("replay.kernel.layout", kernel=kernel, problem=message_of(error))) from None
        case {"kernel": str(key)}:
            return build(key)
        case {"object": str(path)}:
            module, _, name = path.rpartition(".")
            if name in names.public.get(module, ()):
                return getattr(names.modules[module], name)
    raise KernelRefused(say("replay.kernel.no_language", kernel=kernel))
