"""Source rules: what in an answer a person should look at. They never take a point; verdicts come from execution.

A rule reads the text alone, so it is evaded with ease and now and then points at something innocent. That is why each
says in a sentence what was found and what to look for. Kernels are left out: tritontrace/replay/kernels.py refuses in them whatever is
not Triton's language.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from course_lib.criteria import TritonDidTheWork
from course_lib.exercise import Exercise

MAX_FLAGS = 20  # of one answer


@dataclass(frozen=True)
class Flag:
    """One warning of a rule about an answer. `cell` is as in the answer, such as "cell 7"; lines count from 1 within it."""

    rule: str
    cell: str
    line: int
    sentence: str

    def __str__(self) -> str:
        return f"{self.cell[:1].upper()}{self.cell[1:]}, line {self.line}: {self.sentence}"


def of_answer(exercise: Exercise, cells: Sequence[tuple[str, str]]) -> list[Flag]:
    """List the flags that the rules raise on the cells (name, source) of one exercise's answer, in order; each rule at most once a line."""
    try:
        return _found(exercise, cells)
    except RecursionError:
        return [Flag("too deep", "the answer", 1, "something in it is nested too deeply to be looked at. What is it?")]


def _found(exercise: Exercise, cells: Sequence[tuple[str, str]]) -> list[Flag]:
    found: dict[tuple[str, str, int], Flag] = {}
    of_kernels = any(isinstance(gate, TritonDidTheWork) for gate in exercise.gates)
    trees = [(name.strip("<>"), _parsed(source)) for name, source in cells if not name.startswith("<handed-out")]
    imported = {alias: path for _, tree in trees for alias, path in _imports(tree)}
    kernels = {node.name for _, tree in trees for node in ast.walk(tree) if _is_kernel(node)}
    answer = _Answer(of_kernels, exercise.called in FILES, imported, kernels)
    for cell, tree in trees:
        for node in _host_nodes(tree):
            for rule, look in RULES.items():
                if sentence := look(node, answer):
                    found.setdefault((rule, cell, node.lineno), Flag(rule, cell, node.lineno, sentence))
    return list(found.values())[:MAX_FLAGS]


@dataclass(frozen=True)
class _Answer:
    """An answer's facts that a rule may need besides the node it looks at: whether torch must not compute, whether files are asked
    for, what the imported names stand for ("np" -> "numpy"), and the names of its kernels."""

    of_kernels: bool
    of_files: bool
    imported: dict[str, str]
    kernels: set[str]

    @property
    def modules(self) -> set[str]:
        return {path.partition(".")[0] for path in self.imported.values()}

    def path(self, node: ast.AST) -> str:
        """The dotted path of a name or attribute with its import resolved: "numpy.linalg.norm"; "" if it has no root."""
        parts = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        return ".".join([self.imported.get(node.id, node.id), *reversed(parts)])


def _parsed(source: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the verdict says why it does not run
        return ast.Module([], [])


def _imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                root = name.name.partition(".")[0]
                yield (name.asname, name.name) if name.asname else (root, root)
        elif isinstance(node, ast.ImportFrom):
            for name in node.names:
                yield name.asname or name.name, f"{node.module}.{name.name}"


def _is_kernel(node: ast.AST) -> TypeGuard[ast.FunctionDef]:
    if not isinstance(node, ast.FunctionDef):
        return False
    decorators = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
    return any(ast.unparse(d).endswith("jit") and "torch" not in ast.unparse(d) for d in decorators)


def _host_nodes(tree: ast.AST) -> Iterator[Any]:
    """All nodes with a line, in the order of the text, those inside kernels left out."""
    for child in ast.iter_child_nodes(tree):
        if hasattr(child, "lineno"):
            yield child
        if not _is_kernel(child):
            yield from _host_nodes(child)


def _shown(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 60 else text[:56] + " ..."


# ------------------------------------------------------------------------------------------------------ the rules


def _words(text: str) -> set[str]:
    return set(text.split())


ALLOCATES = _words(
    """empty empty_like empty_permuted empty_strided zeros zeros_like ones ones_like full full_like device dtype Size is_tensor no_grad
    inference_mode enable_grad set_grad_enabled manual_seed finfo iinfo Generator get_default_dtype set_default_dtype
    set_float32_matmul_precision is_grad_enabled use_deterministic_algorithms is_floating_point broadcast_shapes as_strided
    chunk split unbind narrow squeeze unsqueeze permute transpose swapaxes movedim flatten unflatten view_as_real
    view_as_complex"""
)
COMPUTES = _words(
    """abs add addmm amax amin argmax baddbmm bmm clone contiguous copy_ cumsum div dot einsum exp exp2 float gather half
    bfloat16 double index_copy_ index_select logsumexp masked_fill masked_scatter matmul mean mm mul norm pow prod scatter
    scatter_add_ softmax sort square sub sum tril triu where"""
)
MODULES_OF = {
    "threads": {"threading", "_thread", "concurrent", "multiprocessing", "asyncio", "queue", "sched", "joblib"},
    "foreign code": {"ctypes", "cffi", "numba", "cupy", "jax", "cython", "pybind11", "tvm", "numexpr", "scipy"},
    "files and processes": {
        *("subprocess", "socket", "urllib", "http", "requests", "ftplib", "shutil", "tempfile", "glob", "pathlib"),
        *("signal", "pty", "mmap", "resource", "pickle", "shelve", "sqlite3", "zipfile", "tarfile"),
    },
    "looks around": {"gc", "inspect", "traceback", "importlib", "pkgutil", "weakref", "dis", "tracemalloc", "grader"},
    "hidden names": {"operator", "linecache", "codeop", "codecs", "base64", "marshal", "types", "builtins", "ast"},
}
HIDING = {"eval", "exec", "compile", "__import__", "getattr", "setattr", "delattr", "globals", "locals", "vars"}
HARMLESS_OS = {"environ", "getenv", "path", "cpu_count", "sep", "linesep"}
OPENS = {"open", "io.open", "io.open_code", "io.FileIO"}  # io itself serves to keep bytes in memory, too
FILES = {"from a file", "through a checkpoint"}  # how exercises are called that ask for files
OF_FILES = {"pathlib", "tempfile", "glob", "shutil", "mmap", "pickle", "zipfile", "tarfile"}
WRAPPERS = {
    f"torch.{name}" for name in ("amp.custom_fwd", "amp.custom_bwd", "cuda.amp.custom_fwd", "cuda.amp.custom_bwd")
}
PUBLISHED = {"torch.utils._python_dispatch.TorchDispatchMode"}  # internal by name alone
PLAIN_DUNDERS = {"__name__", "__doc__", "__version__", "__init__", "__call__", "__post_init__", "__len__", "__file__"}


def torch_computes(node: ast.AST, answer: _Answer) -> str:
    """Flag work that torch does in an exercise that asks for a kernel."""
    if not answer.of_kernels:
        return ""
    what = ""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        what = _shown(node)
    if isinstance(node, (ast.Call, ast.FunctionDef, ast.AsyncFunctionDef)):
        called = [node.func] if isinstance(node, ast.Call) else node.decorator_list
        for function in called:
            if answer.path(function) in WRAPPERS:  # with cast_inputs they are called, and that is a copy in the log
                continue
            root, _, rest = answer.path(function).partition(".")
            of_torch = (
                root == "torch"
                and rest
                and rest.split(".")[0] not in ALLOCATES | {"cuda", "autograd", "backends", "library"}
            )
            of_a_tensor = (
                isinstance(function, ast.Attribute) and function.attr in COMPUTES and root not in answer.modules
            )
            if re.fullmatch(r"\w+\.contiguous", _shown(function)):
                continue  # of an argument, it mostly does nothing; where it copies, that is an event of the log
            if of_torch or of_a_tensor:
                what = _shown(function)
    return (
        what
        and f"`{what}` makes torch copy or compute on the host; the work should be a kernel's. Is it for the result?"
    )


def values_on_the_host(node: ast.AST, answer: _Answer) -> str:
    """Flag a kernel exercise that reads or makes values on the host."""
    if not answer.of_kernels or not isinstance(node, ast.Call):
        return ""
    reads = isinstance(node.func, ast.Attribute) and node.func.attr in ("numpy", "item", "tolist", "__array__")
    makes = answer.path(node.func) in _FROM_VALUES
    if not reads and not makes:
        return ""
    return f"`{_shown(node.func)}` moves a tensor's values to Python or from it. Are they of the answer?"


def hidden_names(node: ast.AST, answer: _Answer) -> str:
    """Flag code that reaches names or runs texts that cannot be seen."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in HIDING:
        if not answer.of_kernels and ast.unparse(node).startswith("getattr(torch, "):  # a dtype by its name
            return ""
        return f"`{_shown(node)}` reaches a name or runs a text that cannot be seen here. What does it stand for?"
    if isinstance(node, ast.Attribute) and node.attr.startswith("__") and node.attr not in PLAIN_DUNDERS:
        return f"`{_shown(node)}` goes behind an object's public side. What for?"
    if (
        isinstance(node, ast.Attribute)
        and re.match("_(?!_|foreach_)", node.attr)  # torch's own optimizers, and many others', call torch._foreach_...
        and ast.unparse(node.value) not in ("self", "cls")
    ):
        return f"`{_shown(node)}` is private to its object. What for?"
    private = [p for p in _paths_imported(node) if re.search(r"(^|\.)_(?!_future__)", p) and p not in PUBLISHED]
    if private:
        return f"imports `{private[0]}`, which is internal to its package. What for?"
    return _imported(node, "hidden names", "serves to reach names or texts indirectly. What does it stand for?")


def patched_modules(node: ast.AST, answer: _Answer) -> str:
    """Flag assignments to a part of a module or of a kernel, and `get_ipython()`."""
    targets = node.targets if isinstance(node, (ast.Assign, ast.Delete)) else []
    targets = [node.target] if isinstance(node, (ast.AugAssign, ast.AnnAssign)) else targets
    for target in (t for group in targets for t in (group.elts if isinstance(group, ast.Tuple) else [group])):
        root = target
        while isinstance(root, (ast.Attribute, ast.Subscript)):
            root = root.value
        if not isinstance(target, ast.Attribute) or not isinstance(root, ast.Name):
            continue
        foreign = root.id in answer.imported or root.id in answer.kernels
        if foreign and not answer.path(target).startswith(("torch.backends.", "torch._dynamo.config")):
            return f"`{_shown(target)} = ...` replaces a part of a module or a kernel. Does the result depend on it?"
    if isinstance(node, ast.Call) and answer.path(node.func).split(".")[-1] == "get_ipython":
        return "`get_ipython()` reaches the notebook itself. What for?"
    return ""


def looks_around(node: ast.AST, answer: _Answer) -> str:
    """Flag imports of the checks' own modules, and looks at Python's frames or modules."""
    course = [p for p in _paths_imported(node) if _INTERNAL & {".".join(p.split(".")[:2])}]
    if course:
        return f"imports `{course[0]}`, which is the checks' own. What for?"
    if isinstance(node, ast.Attribute):
        path = answer.path(node)
        if path in ("sys._getframe", "sys.modules", "sys.settrace", "sys.setprofile", "sys.meta_path"):
            return f"`{path}` looks at what else runs here, such as a check. What for?"
    return _imported(node, "looks around", "looks at what else is in the process. What for?")


def files_and_processes(node: ast.AST, answer: _Answer) -> str:
    """Flag calls that reach files or processes; files alone where the exercise asks for none."""
    if isinstance(node, ast.Call):
        path = answer.path(node.func)
        root, _, rest = path.partition(".")
        starts = rest.startswith(("system", "popen", "exec", "spawn", "fork", "posix_spawn", "kill"))
        of_os = root == "os" and rest and rest.split(".")[0] not in HARMLESS_OS and (starts or not answer.of_files)
        if of_os or (path in OPENS and not answer.of_files):
            return f"`{_shown(node.func)}` reaches files or processes, which this exercise does not need. What for?"
    what = "reaches files, processes or the network, which this exercise does not need. What for?"
    return _imported(node, "files and processes", what, OF_FILES if answer.of_files else ())


def threads(node: ast.AST, answer: _Answer) -> str:
    """Flag imports that run code in other threads."""
    return _imported(node, "threads", "runs code beside the function. Does it work on the result?")


def foreign_code(node: ast.AST, answer: _Answer) -> str:
    """Flag code that is compiled by something other than Triton."""
    if isinstance(node, ast.Attribute) and answer.path(node).startswith(
        ("torch.utils.cpp_extension", "torch.cuda.jiterator")
    ):
        return f"`{_shown(node)}` builds code that is not Triton's. Does it work on the result?"
    return _imported(node, "foreign code", "runs compiled code that is not Triton's. Does it work on the result?")


def streams(node: ast.AST, answer: _Answer) -> str:
    """Flag streams, graphs and futures, in which work goes on outside the function."""
    if isinstance(node, ast.Attribute):
        path = answer.path(node)
        if path in (
            "torch.cuda.stream",
            "torch.cuda.Stream",
            "torch.cuda.graph",
            "torch.cuda.CUDAGraph",
            "torch.futures",
        ):
            return f"`{path}` lets work go on beside the function. Is it waited for?"
    return ""


def swallowed_errors(node: ast.AST, answer: _Answer) -> str:
    """Flag errors that are caught and dropped."""
    if not isinstance(node, ast.ExceptHandler) or any(isinstance(n, ast.Raise) for n in ast.walk(node)):
        return ""
    caught = "" if node.type is None else ast.unparse(node.type)
    if caught not in ("", "Exception", "BaseException", "RuntimeError"):
        return ""
    does = f"`{_shown(node.body[0])}`"
    return f"`except {caught}:` hides every error and goes on with {does}. Is that another way to the answer?".replace(
        "except :", "except:"
    )


_FROM_VALUES = {f"torch.{name}" for name in ("from_numpy", "tensor", "as_tensor", "frombuffer")}
_FROM_VALUES |= {f"numpy.{name}" for name in ("array", "asarray", "ascontiguousarray", "from_dlpack", "frombuffer")}
_INTERNAL = {
    f"course_lib.{name}"
    for name in ("execution", "checking", "judging", "criteria", "exercises", "mistakes", "exercise", "evidence")
} | {"tritontrace.replay", "tritontrace.results"}


def _paths_imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [name.name for name in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{name.name}" for name in node.names]
    return []


def _imported(node: ast.AST, rule: str, what: str, but: Collection[str] = ()) -> str:
    for path in _paths_imported(node):
        if path.split(".")[0] in MODULES_OF[rule].difference(but):
            return f"imports `{path}`, which {what}"
    return ""


RULES: dict[str, Callable[[ast.AST, _Answer], str]] = {
    "torch computes": torch_computes,
    "values on the host": values_on_the_host,
    "hidden names": hidden_names,
    "patched modules": patched_modules,
    "looks around": looks_around,
    "files and processes": files_and_processes,
    "threads": threads,
    "foreign code": foreign_code,
    "streams": streams,
    "swallowed errors": swallowed_errors,
}
