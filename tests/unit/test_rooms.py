"""Imports inside course_lib, grader, strides, benchmarks and research lead down, those in functions and for types included."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# from the roof to the ground; those of one line know nothing of one another
FLOORS = {
    "course_lib": [
        {"open_tasks", "work_logs"},
        {"checking"},
        {"figures", "handin", "judging"},
        {"logbook"},
        {"render"},
        {"execution"},
        {"exercises"},
        {"criteria"},
        {"common_mistakes", "mistakes", "workloads"},
        {"exercise", "hardware"},
        {"catalogue", "content", "evidence", "metadata", "version", "words"},
    ],
    "grader": [
        {"__main__"},
        {"commands"},
        {"command_line"},
        {"audit", "building", "doctor", "hub", "packing"},
        {"reporting"},
        {"lms"},
        {"cohort"},
        {"gradebook"},
        {"judging"},
        {"child"},
        {"catalogue", "disk", "nbgrader_config", "published"},
    ],
    "strides": [{"__main__"}, {"check", "completion", "lab", "tutor", "work_log"}, {"handout", "seen", "startup"}],
}


def modules(package: str) -> dict[str, Path]:
    """Name -> file, for each module of a package. Those of benchmarks and research, which are none, have bare names."""
    paths = (ROOT / package).rglob("*.py")
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}
    return {name.removeprefix("benchmarks.").removeprefix("research."): path for name, path in names.items()}


def imported(path: Path, known: dict[str, Path]) -> set[str]:
    """The known modules that a file names in its imports, wherever these stand and whatever they are for."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            inside = {f"{node.module}.{each.name}" for each in node.names}
            names |= {name if name in known else node.module for name in inside}
    return names & known.keys()


def arrows(package: str) -> dict[str, set[str]]:
    """Module -> the modules of its package that it imports."""
    known = modules(package)
    return {name: imported(path, known) - {name} for name, path in known.items()}


ARROWS = {package: arrows(package) for package in (*FLOORS, "benchmarks", "research")}


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


@pytest.mark.parametrize(
    "package, name", [(package, name) for package in FLOORS for name in sorted(ARROWS[package].keys() - {package})]
)
def test_arrows_lead_down(package, name):
    floor = {room: number for number, rooms in enumerate(FLOORS[package]) for room in rooms}
    others = {room(other) for other in ARROWS[package][name]} - {room(name), ""}
    assert [other for other in others if floor[other] <= floor[room(name)]] == []


@pytest.mark.parametrize("package", ARROWS)
def test_no_circle(package):
    """A package's own __init__ is left out: what it imports is what it is called by, and no module asks it for that."""
    packages = {name for name, path in modules(package).items() if path.name == "__init__.py"}
    TopologicalSorter({n: of - packages for n, of in ARROWS[package].items() if n not in packages}).prepare()


def test_what_judges_knows_no_wrong_answers():
    """The variants are what the grader is tried with; it grades without them."""
    asking = {name for name, of in ARROWS["grader"].items() if any(room(other) == "audit" for other in of)}
    assert {room(name) for name in asking} <= {"commands", "audit"}


def test_the_root_is_small():
    assert len(list((ROOT / "course_lib").glob("*.py"))) <= 12
