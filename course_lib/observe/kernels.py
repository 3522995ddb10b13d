"""A Triton kernel as plain data, and back: which names it may use, and its rebuilding in a process that trusts nothing.

The interpreter runs kernel bodies as Python. So in a rebuilt kernel every name resolves to a parameter, a local, a number,
another of the student's kernels, or a public object of triton.language; anything else is refused in a sentence, on both
sides, before it runs.
"""

from __future__ import annotations

import ast
import builtins
import difflib
import hashlib
import inspect
import json
import linecache
import re
import textwrap
import weakref
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

import triton
import triton.language as tl
import triton.language.extra.cuda.libdevice as cuda_libdevice
import triton.language.extra.libdevice as libdevice
from triton.runtime.jit import JITFunction, KernelInterface

MODULES = {
    "triton": triton,
    "triton.language": tl,
    "triton.language.math": tl.math,
    "triton.language.extra": tl.extra,
    "triton.language.extra.cuda": tl.extra.cuda,
    "triton.language.extra.libdevice": libdevice,
    "triton.language.extra.cuda.libdevice": cuda_libdevice,
}
BUILTINS = {"range", "min", "max", "abs", "len", "float", "int", "bool", "tuple", "print", "isinstance"}
KINDS = {
    "tensor",
    "tensor_descriptor",
    "constexpr",
    "dtype",
}  # classes of tl that `isinstance` may ask about, and nobody call
REFUSED_BUILTINS = {"getattr", "hasattr", "list"}  # Triton has them; a name given as text would be a way out
HOST_HELPERS = {"cdiv", "next_power_of_2"}  # of `triton` itself, usable inside kernels
TYPES = {"constexpr", "range", "static_range", "tuple", "pointer_type", "PropagateNan", "TRITON_MAX_TENSOR_NUMEL"}


def _functions(module: Any) -> set[str]:
    """Names of the language's functions and dtypes in a module: what only helps Triton itself (str_to_ty evaluates
    strings) is not among them."""
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (isinstance(value, (KernelInterface, tl.dtype)) or getattr(value, "__triton_builtin__", False))
    }


PUBLIC = {
    "triton": HOST_HELPERS | {"language"},
    "triton.language": (_functions(tl) | TYPES | {"math", "extra"}) - {"inline_asm_elementwise"},
    "triton.language.math": _functions(tl.math),
    "triton.language.extra": {"cuda", "libdevice"},
    "triton.language.extra.cuda": {"libdevice"},
    "triton.language.extra.libdevice": _functions(cuda_libdevice) & set(vars(libdevice)),  # stubs for the GPU's own
    "triton.language.extra.cuda.libdevice": _functions(cuda_libdevice),
}
ATTRIBUTES = {name for cls in (tl.tensor, tl.dtype, tl.constexpr) for name in dir(cls) if not name.startswith("_")}
ATTRIBUTES |= {"load", "store", "gather", "scatter", "atomic_add"}  # of tensor descriptors
ATTRIBUTES |= {"shape", "strides", "block_shape", "dtype", "type", "value", "numel", "T"}
ATTRIBUTES |= {"element_ty", "primitive_bitwidth", "int_bitwidth", "itemsize"}  # of dtypes
ATTRIBUTES |= {"ALL", "NONE"}  # of PropagateNan
ATTRIBUTES -= {"handle", "to_ir", "codegen_name", "mangle"}
NODES = (
    *(ast.FunctionDef, ast.arguments, ast.arg, ast.expr_context, ast.boolop, ast.operator, ast.unaryop, ast.cmpop),
    *(ast.Return, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.While, ast.If, ast.Assert, ast.Expr),
    *(ast.Pass, ast.Break, ast.Continue, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.IfExp, ast.Compare, ast.Call),
    *(ast.keyword, ast.Constant, ast.Attribute, ast.Subscript, ast.Slice, ast.Starred, ast.Name, ast.List, ast.Tuple),
)
IN_WORDS = {
    "JoinedStr": "an f-string",
    "Lambda": "a lambda",
    "FunctionDef": "a function",
    "ClassDef": "a class",
    "Import": "an import",
    "ImportFrom": "an import",
    "NamedExpr": "`:=`",
    "ListComp": "a comprehension",
    "SetComp": "a comprehension",
    "DictComp": "a comprehension",
    "GeneratorExp": "a comprehension",
    "Dict": "a dict",
    "Set": "a set",
}


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


def describe(kernel: JITFunction, table: dict[str, dict[str, Any]], callers: tuple[JITFunction, ...] = ()) -> str:
    """Write `kernel`, and every kernel it calls, into `table` as plain data; return its key (a hash of source and names)."""
    function = kernel.fn
    if kernel in callers:
        raise KernelRefused(f"{kernel.__name__} calls itself: kernels cannot recurse")
    package = re.search(r"(?:site|dist)-packages[/\\](\w+)", function.__code__.co_filename)
    if package and package[1] != "course_lib":
        raise KernelRefused(f"{kernel.__name__} comes from the package {package[1]}: write a kernel of your own")
    source, free = _reading(kernel)
    closure = inspect.getclosurevars(function).nonlocals
    names: dict[str, Any] = {}
    for name, line in sorted(free.items()):
        if name in closure:
            value = closure[name]
        elif name in function.__globals__:
            value = function.__globals__[name]
        elif name in BUILTINS:
            continue
        else:
            raise KernelRefused(f"{kernel.__name__}, line {line}: {_unknown(name, function.__code__.co_varnames)}")
        if isinstance(value, tl.constexpr) and isinstance(value.value, tl.dtype):
            value = value.value
        described = _describe_name(value, table, (*callers, kernel))
        if described is None:
            question = ". Is `@triton.jit` missing above it?" if inspect.isfunction(value) else ""
            raise KernelRefused(
                f"{kernel.__name__}, line {line}: `{name}` is a {type(value).__name__}: inside a kernel only "
                f"triton.language, other kernels and tl.constexpr numbers exist{question}"
            )
        names[name] = described
    annotations = {p: _annotation(a) for p, a in getattr(function, "__annotations__", {}).items()}
    entry = {"name": kernel.__name__, "source": source, "names": names, "annotations": annotations}
    key = key_of(entry)
    table[key] = entry
    return key


def with_helpers(keys: Iterable[str], table: Mapping[str, dict[str, Any]]) -> set[str]:
    """These kernels of a table, and all that they call."""
    found, waiting = set(), list(keys)
    while waiting:
        key = waiting.pop()
        if key not in found:
            found.add(key)
            waiting += [named["kernel"] for named in table[key]["names"].values() if "kernel" in named]
    return found


_readings: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # by function object: a redefined kernel is another


def _reading(kernel: JITFunction) -> tuple[str, dict[str, int]]:
    """The kernel's source and its free names, read once however often it is launched."""
    if kernel.fn not in _readings:
        source = source_of(kernel)
        _readings[kernel.fn] = source, _free_names(_definition(source, kernel.__name__))
    return _readings[kernel.fn]


def key_of(entry: dict[str, Any]) -> str:
    """The key of a kernel in a table: a hash of its source and of all that its names stand for, helpers by their keys."""
    return hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()[:16]


def _annotation(annotation: Any) -> str:
    return "constexpr" if annotation is tl.constexpr or "constexpr" in str(annotation) else ""


def _describe_name(value: Any, table: dict[str, dict[str, Any]], callers: tuple[JITFunction, ...]) -> dict | None:
    """What a name stands for, as plain data; None if no kernel may use it."""
    for path, module in MODULES.items():
        if value is module:
            return {"module": path}
    if isinstance(value, tl.constexpr) and isinstance(value.value, (int, float, bool, str)):
        return {"constexpr": value.value}
    if type(value) in (int, float, bool, str):
        return {"number": value}
    for path, public in PUBLIC.items():
        for label in sorted(public):
            if getattr(MODULES[path], label) is value:
                return {"object": f"{path}.{label}"}
    return {"kernel": describe(value, table, callers)} if isinstance(value, JITFunction) else None


def _definition(source: str, name: str) -> ast.FunctionDef:
    """The single function definition in `source`, without decorators and annotations, checked against the rules above."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        raise KernelRefused(f"the source of {name} is not one Python function") from None
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
        raise KernelRefused(f"the source of {name} is not one Python function")
    definition = tree.body[0]
    definition.decorator_list, definition.returns = [], None
    if definition.args.vararg or definition.args.kwarg:
        raise KernelRefused(f"{name}, line 1: a kernel takes no *args and no **kwargs")
    for parameter in _parameters(definition):
        parameter.annotation = None
    for node in ast.walk(definition):
        place = f"{name}, line {getattr(node, 'lineno', definition.lineno)}"
        if not isinstance(node, NODES) or (isinstance(node, ast.FunctionDef) and node is not definition):
            kind = type(node).__name__
            raise KernelRefused(f"{place}: {IN_WORDS.get(kind, kind)} does not exist inside a kernel")
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            raise KernelRefused(f"{place}: nothing can be assigned to {ast.unparse(node)}")
        if isinstance(node, ast.keyword) and (node.arg is None or node.arg.startswith("_")):
            raise KernelRefused(f"{place}: a call inside a kernel has no argument {ast.unparse(node)}")
    return definition


def _parameters(definition: ast.FunctionDef) -> list[ast.arg]:
    return [*definition.args.posonlyargs, *definition.args.args, *definition.args.kwonlyargs]


def _free_names(definition: ast.FunctionDef) -> dict[str, int]:
    """Names that the function takes from outside, with the line of one use. Defaults are evaluated outside as well,
    whatever the parameters and locals are called."""
    parameters = definition.args
    local = {a.arg for a in _parameters(definition)}
    local |= {n.id for n in ast.walk(definition) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}

    def loaded(parts: list[ast.AST]) -> dict[str, int]:
        nodes = [n for part in parts for n in ast.walk(part) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
        return {n.id: n.lineno for n in reversed(nodes)}

    defaults = loaded([*parameters.defaults, *filter(None, parameters.kw_defaults)])
    return {name: line for name, line in loaded(definition.body).items() if name not in local} | defaults


def _check_attributes(definition: ast.FunctionDef, names: dict[str, Any]) -> None:
    """Every `a.b.c` must end at a public object of triton.language or at a public attribute of a block."""
    roots = {name: MODULES[entry["module"]] for name, entry in names.items() if "module" in entry}
    inner = {id(kind) for kind in _kinds_asked(definition)} if "isinstance" not in names else set()
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
                near = ". Write .to(tl.float32)" if attribute == "float" else _near(attribute, ATTRIBUTES)
                raise KernelRefused(
                    f"{definition.name}, line {node.lineno}: a block has no public `.{attribute}`{near}"
                )


def _kinds_asked(definition: ast.FunctionDef) -> list[ast.Attribute]:
    """The `tl.tensor` of each `isinstance(x, tl.tensor)`; KernelRefused for a kind that is none of KINDS."""
    kinds = []
    for node in ast.walk(definition):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            kind = node.args[-1] if len(node.args) == 2 and not node.keywords else node
            if not isinstance(kind, ast.Attribute) or not isinstance(kind.value, ast.Name) or kind.attr not in KINDS:
                known = ", ".join(f"tl.{name}" for name in sorted(KINDS))
                raise KernelRefused(f"{definition.name}, line {node.lineno}: `isinstance` asks for one of {known} here")
            kinds.append(kind)
    if kinds and "isinstance" not in _free_names(definition):
        raise KernelRefused(f"{definition.name}: `isinstance` is a name of its own there; call that something else")
    return kinds


def _unknown(name: str, local: Iterable[str] = ()) -> str:
    if name in REFUSED_BUILTINS:
        return f"`{name}` is not part of the language that kernels may use here"
    return f"`{name}` does not exist inside a kernel{_near(name, {*local, *BUILTINS})}"


def _public(kernel: str, line: int, module: Any, name: str) -> Any:
    path = next(path for path, m in MODULES.items() if m is module)
    if name not in PUBLIC[path] and not hasattr(module, name):
        near, said = _near(name, PUBLIC[path]), path.replace("triton.language", "tl")
        raise KernelRefused(f"{kernel}, line {line}: `{said}` has no `{name}`{near}")
    if name not in PUBLIC[path]:
        raise KernelRefused(
            f"{kernel}, line {line}: `{path}.{name}` is not part of the language that kernels may use here"
        )
    return getattr(module, name)


INSTEAD = {  # of names that Python's other modules have: what a kernel can say
    "inf": "float('inf')",
    "nan": "float('nan')",
    "math": "the functions of tl, such as tl.sqrt, or the number itself",
    "np": "tl, or the number itself",
    "torch": "tl",
}


def _near(name: str, known: Iterable[str]) -> str:
    """A question, if a name looks like one of the known ones, misspelt; what to write, if it is known from elsewhere."""
    if name in INSTEAD:
        return f". Write {INSTEAD[name]}"
    near = difflib.get_close_matches(name, sorted(known), n=1)
    return f". Did you mean `{near[0]}`?" if near else ""


def rebuild(table: dict[str, dict[str, Any]]) -> dict[str, JITFunction]:
    """Kernels from plain data, each checked, none closed over anything but triton.language, numbers and one another.

    KernelRefused, with a sentence, for the first that breaks a rule.
    """
    try:
        return dict(_rebuild(json.dumps(table)))
    except KernelRefused:
        raise
    except Exception as error:  # a table of another shape, a default that cannot be evaluated
        raise KernelRefused(f"a kernel of the log cannot be rebuilt ({type(error).__name__})") from None


@lru_cache(maxsize=4)  # the logs of an exercise's cases mostly hold the same kernels
def _rebuild(content: str) -> dict[str, JITFunction]:
    table = json.loads(content)
    built: dict[str, JITFunction] = {}

    def build(key: str, ancestors: tuple[str, ...]) -> JITFunction:
        if key not in built:
            entry = table.get(key)
            if not isinstance(entry, dict) or key in ancestors:
                raise KernelRefused("a kernel calls one that is not in the log, or itself")
            built[key] = _rebuilt(key, entry, lambda k: build(k, (*ancestors, key)))
        return built[key]

    for key in table:
        build(key, ())
    return built


def _rebuilt(key: str, entry: dict[str, Any], build: Callable[[str], JITFunction]) -> JITFunction:
    name, source, names = entry["name"], entry["source"], entry["names"]
    definition = _definition(source, name)
    if definition.name != name:
        raise KernelRefused(f"the source of {name} defines {definition.name}")
    free = _free_names(definition)
    missing = sorted(free.keys() - names.keys() - BUILTINS)
    if missing:
        raise KernelRefused(f"{name}, line {free[missing[0]]}: {_unknown(missing[0])}")
    unused = sorted(names.keys() - free.keys())
    if unused:
        raise KernelRefused(f"{name} does not use `{unused[0]}`")
    _check_attributes(definition, names)
    checked = ast.dump(definition)
    # no other builtin exists, should a name slip through
    scope: dict[str, Any] = {"__name__": "kernels", "__builtins__": {b: getattr(builtins, b) for b in BUILTINS}}
    scope |= {label: _resolve(name, value, build) for label, value in names.items()}
    for parameter in _parameters(definition):
        if entry["annotations"].get(parameter.arg) == "constexpr":
            parameter.annotation = ast.Constant("constexpr")
    ast.fix_missing_locations(definition)
    # the compiler reads the text, and looks up what parameters are annotated with; lines and comments stay as written
    source = _without_annotations(source)
    file = f"<kernel {name} {key}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(ast.Module([definition], []), file, "exec"), scope)
    kernel = triton.jit(scope[name])
    # The tracer and the compiler read the text again. Lines can be cut so that they would find another function there.
    if ast.dump(_definition(kernel.src, name)) != checked:
        raise KernelRefused(f"the source of {name} does not read the same twice")
    return kernel


def _without_annotations(source: str) -> str:
    """The source with blanks where its parameters have annotations."""
    lines = [line.encode() for line in source.split("\n")]  # the parser counts bytes
    for parameter in _parameters(ast.parse(source).body[0]):
        annotation = parameter.annotation
        if annotation is not None:
            start = parameter.col_offset + len(parameter.arg.encode())
            for number in range(parameter.lineno - 1, annotation.end_lineno):
                first = start if number == parameter.lineno - 1 else 0
                last = annotation.end_col_offset if number == annotation.end_lineno - 1 else len(lines[number])
                lines[number] = lines[number][:first] + b" " * (last - first) + lines[number][last:]
    return b"\n".join(lines).decode()


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
            if module_path in MODULES:
                return _public(kernel, 1, MODULES[module_path], name)
    raise KernelRefused(f"{kernel} names something that is not part of the language")
