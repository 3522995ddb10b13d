"""A Triton kernel as plain data, and back: which names it may use, and its rebuilding in a process that trusts nothing.

The interpreter runs kernel bodies as Python. So in a rebuilt kernel every name resolves to a parameter, a local, a number,
another of the student's kernels, or a public object of triton.language; anything else is refused in a sentence, on both
sides, before it runs.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import linecache
import textwrap
from typing import Any

import triton
import triton.language as tl
from triton.runtime.jit import JITFunction

MODULES = {"triton": triton, "triton.language": tl, "triton.language.math": tl.math}
BUILTINS = {"range", "min", "max", "abs", "len", "float", "int", "bool", "tuple", "print"}
HOST_HELPERS = {"cdiv", "next_power_of_2"}  # of `triton` itself, usable inside kernels
FORBIDDEN = {"inline_asm_elementwise", "extra", "core", "semantic", "target_info"}
ATTRIBUTES = {name for cls in (tl.tensor, tl.dtype, tl.constexpr) for name in dir(cls) if not name.startswith("_")}
ATTRIBUTES |= {
    "load",
    "store",
    "gather",
    "scatter",
    "atomic_add",
    "shape",
    "strides",
    "block_shape",
    "dtype",
    "type",
    "value",
    "T",
}
ATTRIBUTES -= {"handle", "to_ir", "codegen_name", "mangle"}
STATEMENTS = (
    ast.Import,
    ast.ImportFrom,
    ast.Lambda,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.Global,
    ast.Nonlocal,
    ast.Try,
    ast.With,
    ast.Await,
    ast.Yield,
    ast.YieldFrom,
    ast.Delete,
    ast.JoinedStr,
    ast.NamedExpr,
    ast.Raise,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
    ast.Dict,
    ast.Set,
)


class KernelRefused(ValueError):
    """A kernel uses something that a GPU kernel cannot use. The message is one sentence."""


def source_of(kernel: JITFunction) -> str:
    """The kernel's source from its `def` line on, dedented, without decorators."""
    try:
        text = textwrap.dedent("".join(inspect.getsourcelines(kernel.fn)[0]))
        definition = ast.parse(text).body[0]
    except (OSError, SyntaxError, IndexError):
        raise KernelRefused(f"the source of {kernel.__name__} cannot be read: define it in a cell with `def`") from None
    return "".join(text.splitlines(keepends=True)[definition.lineno - 1 :])


def describe(kernel: JITFunction, table: dict[str, dict[str, Any]]) -> str:
    """Write `kernel`, and every kernel it calls, into `table` as plain data; return its key (a hash of source and names)."""
    function = kernel.fn
    source = source_of(kernel)
    closure = inspect.getclosurevars(function).nonlocals
    names: dict[str, Any] = {}
    for name in sorted(_free_names(_definition(source, kernel.__name__))):
        if name in closure:
            value = closure[name]
        elif name in function.__globals__:
            value = function.__globals__[name]
        elif name in BUILTINS:
            continue
        else:
            raise KernelRefused(f"{kernel.__name__} uses `{name}`, which is not defined")
        names[name] = _describe_name(kernel.__name__, name, value, table)
    annotations = {p: _annotation(a) for p, a in getattr(function, "__annotations__", {}).items()}
    entry = {"name": kernel.__name__, "source": source, "names": names, "annotations": annotations}
    key = hashlib.sha256(repr(entry).encode()).hexdigest()[:16]
    table[key] = entry
    return key


def _annotation(annotation: Any) -> str:
    return "constexpr" if annotation is tl.constexpr or "constexpr" in str(annotation) else ""


def _describe_name(kernel: str, name: str, value: Any, table: dict[str, dict[str, Any]]) -> dict[str, Any]:
    if isinstance(value, JITFunction) and value.__module__ and value.__module__.startswith("triton.language"):
        return {"object": f"{value.__module__}.{value.__name__}"}  # tl.sum, tl.zeros: themselves decorated
    if isinstance(value, JITFunction):
        return {"kernel": describe(value, table)}
    for path, module in MODULES.items():
        if value is module:
            return {"module": path}
    if isinstance(value, tl.constexpr) and isinstance(value.value, (int, float, bool, str)):
        return {"constexpr": value.value}
    if type(value) in (int, float, bool, str):
        return {"number": value}
    for public in vars(tl), vars(tl.math):
        for label, candidate in public.items():
            if candidate is value and not label.startswith("_") and not inspect.ismodule(value):
                return {"object": f"triton.language.{'math.' if public is vars(tl.math) else ''}{label}"}
    raise KernelRefused(
        f"{kernel} uses `{name}`, a {type(value).__name__}: inside a kernel only triton.language, other kernels "
        "and tl.constexpr numbers exist"
    )


def _definition(source: str, name: str) -> ast.FunctionDef:
    """The single function definition in `source`, checked against the rules above."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise KernelRefused(f"the source of {name} is not one Python function") from None
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
        raise KernelRefused(f"the source of {name} is not one Python function")
    definition = tree.body[0]
    definition.decorator_list = []
    for node in ast.walk(definition):
        if node is not definition and isinstance(node, STATEMENTS):
            raise KernelRefused(f"{name}, line {node.lineno}: {type(node).__name__} does not exist inside a kernel")
    return definition


def _free_names(definition: ast.FunctionDef) -> set[str]:
    parameters = definition.args
    local = {a.arg for a in [*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs]}
    local |= {n.id for n in ast.walk(definition) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    loaded = set()
    for part in [*definition.body, *parameters.defaults, *filter(None, parameters.kw_defaults)]:  # not the annotations
        loaded |= {n.id for n in ast.walk(part) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    return loaded - local


def _check_attributes(definition: ast.FunctionDef, names: dict[str, Any]) -> None:
    """Every `a.b.c` must end at a public object of triton.language or at a public attribute of a block."""
    roots = {name: MODULES[entry["module"]] for name, entry in names.items() if "module" in entry}
    inner = set()
    for node in ast.walk(definition):
        if not isinstance(node, ast.Attribute) or id(node) in inner:
            continue
        chain, base = [node.attr], node.value
        while isinstance(base, ast.Attribute):
            inner.add(id(base))
            chain.append(base.attr)
            base = base.value
        chain.reverse()
        value = roots.get(base.id) if isinstance(base, ast.Name) else None
        while value in MODULES.values() and chain:
            value = _public(definition.name, node.lineno, value, chain.pop(0))
        if value in MODULES.values():
            raise KernelRefused(f"{definition.name}, line {node.lineno}: {ast.unparse(node)} is a module")
        for attribute in chain:
            if attribute not in ATTRIBUTES:
                raise KernelRefused(f"{definition.name}, line {node.lineno}: a block has no public `.{attribute}`")


def _public(kernel: str, line: int, module: Any, name: str) -> Any:
    path = next(path for path, m in MODULES.items() if m is module)
    value = getattr(module, name, None)
    allowed = not name.startswith("_") and name not in FORBIDDEN and value is not None
    if module is triton:
        allowed = allowed and (name in HOST_HELPERS or value is tl)
    elif inspect.ismodule(value):
        allowed = allowed and value is tl.math
    else:
        allowed = allowed and str(getattr(value, "__module__", "triton.language")).startswith("triton.language")
    if not allowed:
        raise KernelRefused(
            f"{kernel}, line {line}: `{path}.{name}` is not part of the language that kernels may use here"
        )
    return value


def rebuild(table: dict[str, dict[str, Any]]) -> dict[str, JITFunction]:
    """Kernels from plain data, each checked, none closed over anything but triton.language, numbers and one another.

    KernelRefused, with a sentence, for the first that breaks a rule.
    """
    built: dict[str, JITFunction] = {}

    def build(key: str, ancestors: tuple[str, ...]) -> JITFunction:
        if key in built:
            return built[key]
        entry = table.get(key)
        if not isinstance(entry, dict) or key in ancestors:
            raise KernelRefused("a kernel calls one that is not in the log, or itself")
        name, source, names = str(entry["name"]), str(entry["source"]), dict(entry["names"])
        definition = _definition(source, name)
        if definition.name != name or not name.isidentifier():
            raise KernelRefused(f"the source of {name} defines {definition.name}")
        missing = _free_names(definition) - set(names) - BUILTINS
        if missing:
            raise KernelRefused(f"{name} uses `{sorted(missing)[0]}`, which is not defined")
        _check_attributes(definition, names)
        scope: dict[str, Any] = {"__name__": "kernels", "constexpr": tl.constexpr}
        for label, value in names.items():
            scope[label] = _resolve(name, value, lambda k: build(k, (*ancestors, key)))
        _strip_annotations(definition, entry.get("annotations", {}))
        # the text as written keeps its line numbers; only the signature's annotations must resolve without the student's names
        file = f"<kernel {name} {key}>"
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        exec(compile(ast.Module([definition], []), file, "exec"), scope)
        built[key] = triton.jit(scope[name])
        return built[key]

    for key in table:
        build(key, ())
    return built


def _strip_annotations(definition: ast.FunctionDef, annotations: dict[str, str]) -> None:
    definition.returns = None
    for parameter in [*definition.args.posonlyargs, *definition.args.args, *definition.args.kwonlyargs]:
        is_constexpr = annotations.get(parameter.arg) == "constexpr"
        parameter.annotation = ast.Name("constexpr", ast.Load()) if is_constexpr else None
    ast.fix_missing_locations(definition)


def _resolve(kernel: str, entry: dict[str, Any], build: Any) -> Any:
    match entry:
        case {"module": str(path)} if path in MODULES:
            return MODULES[path]
        case {"kernel": str(key)}:
            return build(key)
        case {"constexpr": int() | float() | str() as value}:
            return tl.constexpr(value)
        case {"number": int() | float() | str() as value}:
            return value
        case {"object": str(path)}:
            module_path, _, name = path.rpartition(".")
            if module_path == "triton.language.standard":  # where tl.sum and its like are written
                module_path = "triton.language"
            if module_path in MODULES:
                return _public(kernel, 1, MODULES[module_path], name)
    raise KernelRefused(f"{kernel} names something that is not part of the language")
