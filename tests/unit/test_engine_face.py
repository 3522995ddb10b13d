"""The course uses the library that traces kernels through its public names alone: those in the `__all__` of its modules."""

import ast
import importlib
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENGINE = "tritontrace"
FILES = [
    path
    for room in ("course_lib", "grader", "strides", "solutions", "benchmarks", "research")
    for path in sorted((ROOT / room).rglob("*.py"))
]
USERS = [path.relative_to(ROOT).as_posix() for path in FILES if ENGINE in path.read_text("utf-8")]


def names_a_module(text: object) -> bool:
    return isinstance(text, str) and text.startswith(f"{ENGINE}.") and text.replace(".", "").isidentifier()


@cache
def module(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


def private(text: str) -> list[str]:
    """List what a file takes of the library that is not public: names imported from it, and attributes of its modules. Where an
    exercise says `without`, a module is taken away, and not used."""
    tree = ast.parse(text)
    taken_away = {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and node.arg == "without"
        for name in ast.walk(node)
    }
    modules: dict[str, ModuleType] = {}
    found = []

    def take(home: str, name: str, alias: str) -> None:
        inner = module(f"{home}.{name}")
        if inner is not None and hasattr(inner, "__all__") and name not in getattr(module(home), "__all__", ()):
            modules[alias] = inner
        elif name not in getattr(module(home), "__all__", ()):
            found.append(f"{home}.{name}")

    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == ENGINE:
            for each in node.names:
                take(node.module, each.name, each.asname or each.name)
        elif isinstance(node, ast.Import):
            ours = [each.name for each in node.names if each.name.split(".")[0] == ENGINE]
            found += [name for name in ours if not hasattr(module(name), "__all__")]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            home = modules[node.value.id]
            if node.attr not in home.__all__:
                found.append(f"{home.__name__}.{node.attr}")
        elif (
            isinstance(node, ast.Constant)
            and node not in taken_away
            and names_a_module(node.value)
            and not hasattr(module(node.value), "__all__")
        ):
            found.append(node.value)
    return found


@pytest.mark.parametrize("file", USERS)
def test_only_public_names_are_used(file):
    assert private((ROOT / file).read_text("utf-8")) == []


def test_private_names_would_be_noticed():
    assert private("from tritontrace.tracing.pattern import LINE") == ["tritontrace.tracing.pattern.LINE"]
    assert private("from tritontrace.replay import wire\nwire.pack([]), wire._naturals") == [
        "tritontrace.replay.wire._naturals"
    ]
    assert private("import tritontrace.hopper.simulation") == ["tritontrace.hopper.simulation"]
    assert private("from tritontrace.replay import record, wire\nfrom tritontrace import trace") == []
    assert private('HOMES = {"trace": ("tritontrace.tracing.traced", "trace")}') == ["tritontrace.tracing.traced"]
