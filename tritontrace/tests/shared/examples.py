"""Examples in docstrings of public names: `>>>` lines, run with the names that the package's docstring makes."""

import ast
import doctest
import importlib
import inspect
import re
import runpy
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).resolve().parents[2] / "src"
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
ON_A_GPU = "# on a GPU"  # ends an example that needs one


def public_names() -> dict[str, list[str]]:
    """Module -> its `__all__`, of each module that has one. Nothing is imported for it."""
    found = {}
    for path in SOURCES.rglob("*.py"):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.Assign) and any(getattr(target, "id", "") == "__all__" for target in node.targets):
                module = ".".join(path.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__")
                found[module] = ast.literal_eval(node.value)
    return dict(sorted(found.items()))


class Known:
    """The names that examples know: made by code in the docstrings of the packages in which they stand, above all the library's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._made: dict[str, dict[str, Any]] = {}

    def to(self, module: str) -> dict[str, Any]:
        """What the examples of a module know."""
        outer = self.to(module.rpartition(".")[0]) if "." in module else {}
        if module not in self._made:
            code = re.search(
                r"Examples .* know these.*:\n\n((?:    .*\n|\n)+)", importlib.import_module(module).__doc__ or ""
            )
            script = self.folder / f"{module}.py"  # where Triton finds the text of kernels
            script.write_text(textwrap.dedent(code[1]) if code else "")
            self._made[module] = runpy.run_path(str(script), outer)
        return self._made[module]


def is_own(value: Any) -> bool:
    """Whether it is a function or a class of this library."""
    return callable(value) and (getattr(value, "__module__", "") or "").startswith("tritontrace")


def needs_an_example(value: Any) -> bool:
    """Whether it is one of which a reader may ask how it is used. Exceptions are shown where they are raised."""
    return is_own(value) and not (inspect.isclass(value) and issubclass(value, BaseException))


def of(module: str, name: str, known: Known) -> Iterator[doctest.DocTest]:
    """The examples in the docstrings of a public name, of its methods, and of what it inherits from this library."""
    home = importlib.import_module(module)
    value = getattr(home, name)
    finder = doctest.DocTestFinder(exclude_empty=True)
    for each in inspect.getmro(value) if inspect.isclass(value) else (inspect.unwrap(value),):
        if is_own(each):
            names = {**known.to(each.__module__), **{public: getattr(home, public) for public in home.__all__}}
            yield from (found for found in finder.find(each, name, globs=names) if found.examples)


def without_types(module: str) -> Iterator[str]:
    """Yield each parameter and each result of a module's public functions, and of its classes' public methods, that has no type,
    and each of them that has no docstring."""
    home = importlib.import_module(module)
    for name in home.__all__:
        value = getattr(home, name)
        if not is_own(value):
            continue
        methods = inspect.getmembers(value, inspect.isfunction) if inspect.isclass(value) else [("", value)]
        for method, function in methods:
            if not method.startswith("_") and is_own(inspect.unwrap(function)):
                whole = f"{name}.{method}".rstrip(".")
                signature = inspect.signature(inspect.unwrap(function))
                untyped = [
                    p.name for p in signature.parameters.values() if p.annotation is p.empty and p.name != "self"
                ]
                result = ["return"] if signature.return_annotation is signature.empty else []
                yield from (
                    f"{whole}: {part}" for part in untyped + result + ([] if function.__doc__ else ["docstring"])
                )


def wrong(test: doctest.DocTest) -> str:
    """Run an example; "" or what went wrong."""
    said: list[str] = []
    doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(test, out=said.append)
    return "".join(said)
