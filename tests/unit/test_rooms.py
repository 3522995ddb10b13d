"""Imports inside course_lib lead down, those inside functions included, and no circle is left."""

from __future__ import annotations

import ast
import operator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import course_lib
from course_lib import trace
from course_lib.hardware import bench

ROOT = Path(__file__).resolve().parents[2]
# from the roof to the ground; those of one line know nothing of one another
FLOORS = [
    {"checking", "fixtures"},
    {"figures", "handin", "judging", "logbook"},
    {"render"},
    {"observe"},
    {"exercises"},
    {"criteria"},
    {"mistakes", "workloads"},
    {"hopper"},
    {"tracing"},
    {"compiled"},
    {"exercise", "hardware", "ttir"},
    {"evidence", "picture", "threads", "version", "words"},
]
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}


def modules() -> dict[str, Path]:
    """Name -> file, for each module of course_lib."""
    paths = (ROOT / "course_lib").rglob("*.py")
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


def imported(path: Path, known: dict[str, Path]) -> set[str]:
    """The modules of course_lib that a file names in its imports, wherever these stand; what is for types alone is left out."""
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            node.body = []
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{each.name}" for each in node.names}
            found |= {name if name in known else node.module for name in names}
    return found & known.keys()


ARROWS = {name: imported(path, known) - {name} for known in [modules()] for name, path in known.items()}


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


@pytest.mark.parametrize("name", sorted(ARROWS.keys() - {"course_lib"}))
def test_arrows_lead_down(name):
    others = {room(other) for other in ARROWS[name]} - {room(name), ""}
    assert [other for other in others if FLOOR[other] <= FLOOR[room(name)]] == []


def test_no_circle():
    """A package's own __init__ is left out: what it imports is what it is called by, and no module asks it for that."""
    packages = {name for name, path in modules().items() if path.name == "__init__.py"}
    TopologicalSorter({name: of - packages for name, of in ARROWS.items() if name not in packages}).prepare()


def test_the_root_is_small():
    assert len(list((ROOT / "course_lib").glob("*.py"))) <= 12


def test_a_notebook_of_the_last_release_still_finds_its_modules():
    with pytest.warns(DeprecationWarning, match=r"course_lib\.workloads\.torch_attention now"):
        from course_lib.slow_attention import flash_attention_forward

    from course_lib.workloads import torch_attention

    assert flash_attention_forward is torch_attention.flash_attention_forward


@pytest.mark.parametrize(
    "old, now",
    [
        ("submission", "make_zip"),
        ("slow_attention", "torch_attention"),
        ("gpu.assumed", "gpu.current_or_h200"),
        ("bench.available", "bench.has_gpu"),
        ("figures.strides.stride_explorer_widget", "figures.strides.explore_strides"),
        ("figures.tiling.waves_widget", "figures.tiling.explore_waves"),
    ],
)
def test_names_of_the_last_release_still_work_and_say_what_they_are_called_now(old, now):
    course_lib.__dict__.pop(old, None)
    found = operator.attrgetter(now)(course_lib)
    with pytest.warns(DeprecationWarning, match=rf"{old.split('.')[-1]} is {now.split('.')[-1]} now"):
        assert operator.attrgetter(old)(course_lib) is found


def test_so_do_methods_of_the_last_release():
    with pytest.warns(DeprecationWarning, match=r"Ratio\.speedup"):
        assert bench.Ratio(2.0, 0.1, 1.0, 2.0, 3).value == 2.0
    with trace() as t:
        pass
    with pytest.warns(DeprecationWarning, match="accesses_to"), pytest.raises(KeyError):
        t.of("x_ptr")
