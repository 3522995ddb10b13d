"""Imports lead down, wherever they stand: at the top of a module, in a function, for types alone. So no circle is left."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "tritontrace"

# from the roof to the ground
ROOMS = [
    {"__main__", "pytest_plugin", "cli"},
    {"testing", "diffs"},
    {"profiling"},
    {"replay"},
    {"hopper", "exact", "proving"},
    {"tracing"},
    {"compiled"},
    {"ttir"},
    {"results", "gpu", "colours", "picture", "words", "messages", "threads", "lazily", "no_triton"},
]
TRACING = [
    {"saved"},
    {"traced", "report", "show", "draw"},  # views
    {"warps"},
    {"opening", "interception", "as_on_a_gpu", "no_gpu", "launcher", "tuning", "modes", "light"},
    {
        "evaluate",
        "control",
        "instructions",
        "program",
        "turns",
        "dataflow",
        "cas_loads",
        "wraps",
        "unused",
        "undefined_masks",
        "sites",
    },
    {"recorded", "regions", "accesses", "faults", "races", "ordering", "threads", "cache", "memory", "watched"},  # data
    {"parameters", "divergence", "arithmetic", "blocks", "operations", "pattern", "sums", "work"},
]
HOPPER = [
    {"simulation"},
    {"report", "show", "draw", "facts", "saved"},  # views
    {"evaluate", "instructions", "upkeep", "values", "arithmetic", "outcome", "scheduling"},
    {"machine", "orders", "timeline"},
    {"memory", "agents", "barriers"},
    {"restarts"},
    {"clocks", "faults", "banks", "language", "shared_accesses"},
]


def modules() -> dict[str, Path]:
    """Name -> file, for each module of the library; the library is ""."""
    names = {path: path.relative_to(PACKAGE).with_suffix("").parts for path in PACKAGE.rglob("*.py")}
    return {".".join(name[:-1] if name[-1] == "__init__" else name): path for path, name in names.items()}


def imported(path: Path, known: dict[str, Path]) -> set[str]:
    """The modules of the library that a file names in its imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            assert not node.level, f"{path}: write the whole name of a module"
            whole = [f"{node.module}.{each.name}" for each in node.names]
            names = [name if own_name(name) in known else node.module for name in whole]
        found |= {own_name(name) for name in names if name.split(".")[0] == PACKAGE.name}
    assert found <= known.keys(), f"{path}: {found - known.keys()}"
    return found


def own_name(module: str) -> str:
    """A module's name without the library's."""
    return module.partition(".")[2]


MODULES = modules()
ARROWS = {name: imported(path, MODULES) - {name, ""} for name, path in MODULES.items() if name}


def part_of(module: str, folder: str) -> str:
    """The file or folder that a module is, or is in, of a folder."""
    return module.removeprefix(f"{folder}." if folder else "").split(".")[0]


def test_no_circle():
    """A package's own __init__ is left out: what it imports is what it is called by, and no module asks it for that."""
    packages = {name for name, path in MODULES.items() if path.name == "__init__.py"}
    TopologicalSorter({name: of - packages for name, of in ARROWS.items() if name not in packages}).prepare()


@pytest.mark.parametrize("folder, floors", [("", ROOMS), ("tracing", TRACING), ("hopper", HOPPER)])
def test_arrows_lead_down(folder, floors):
    """Files of one floor may know one another; no_circle looks at them."""
    height = {name: floor for floor, names in enumerate(floors) for name in names}
    prefix = f"{folder}." if folder else ""
    inside = [name for name in ARROWS if name.startswith(prefix)]
    assert {part_of(name, folder) for name in inside} == height.keys()  # a new file gets a floor
    arrows = {(name, other) for name in inside for other in ARROWS[name] if other.startswith(prefix)}
    assert [(a, b) for a, b in sorted(arrows) if height[part_of(b, folder)] < height[part_of(a, folder)]] == []


@pytest.mark.parametrize("folder, views, hidden", [
    ("tracing", {"show", "draw", "report"}, {"launcher", "evaluate", "opening", "traced"}),
    ("hopper", {"show", "draw", "facts"}, {"simulation", "evaluate", "report"}),
])  # fmt: skip
def test_views_know_data_alone(folder, views, hidden):
    asked, known = [f"{folder}.{view}" for view in views], set()
    while asked:
        known.add(name := asked.pop())
        asked += [other for other in ARROWS[name] - known if other.startswith(f"{folder}.")]
    assert known.isdisjoint({f"{folder}.{name}" for name in hidden})


def test_an_import_in_a_function_and_one_for_types_count(tmp_path):
    path = tmp_path / "f.py"
    path.write_text(
        "if TYPE_CHECKING:\n    from tritontrace.tracing.show import table\n"
        "def f():\n    from tritontrace.tracing import draw\n    import tritontrace.results\n"
    )
    assert imported(path, MODULES) == {"tracing.show", "tracing.draw", "results"}
