"""Every import is declared: whoever installs the course gets it, and not only while some other library wants it too."""

import ast
import re
import sys
import tomllib
from importlib.metadata import distributions, packages_distributions
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
SUBMISSIONS = {"cheats", "honest"}  # students' code: nobody imports it
PYTESTS = {"tritontrace/src/tritontrace/pytest_plugin.py"}  # a plugin, which pytest alone imports
OURS = {"course_lib", "grader", "tritontrace"}


def plain(name: str) -> str:
    """A distribution's name as pip compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def imported(room: str) -> dict[str, str]:
    """Package -> a file of the room that imports it, anywhere in it."""
    found = {}
    for path in sorted((ROOT / room).rglob("*.py")):
        if SUBMISSIONS & set(path.parts) or str(path.relative_to(ROOT)) in PYTESTS:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            else:
                continue
            found |= {name.partition(".")[0]: str(path.relative_to(ROOT)) for name in names}
    return found


@pytest.mark.parametrize("room, extras", [("course_lib", ["transformers"]), ("grader", ["grader", "cluster", "hub"])])
def test_what_a_room_imports_is_declared(room, extras):
    lines = [*PROJECT["dependencies"], *(line for extra in extras for line in EXTRAS[extra])]
    declared = {plain(re.match(r"[\w.-]+", line)[0]) for line in lines}
    of_package = packages_distributions()
    missing = {
        package: path
        for package, path in imported(room).items()
        if package not in sys.stdlib_module_names | OURS | {"make"}
        and not declared & {plain(name) for name in of_package.get(package, [package])}
    }
    assert missing == {}


@pytest.mark.parametrize("room", ["course_lib", "grader", "tritontrace/src"])
def test_nothing_is_run_on_what_tests_are_made_of(room):
    """A library that is patched while it works breaks with its next version, and says nothing."""
    assert {"unittest", "pytest", "_pytest"} & imported(room).keys() == set()


def test_what_is_installed_takes_each_patch_of_the_oldest_python():
    """Debian 12 has Python 3.11.2. pip finds no version there where one of the constraints wants 3.11.5."""
    oldest = PROJECT["requires-python"].removeprefix(">=") + ".0"
    wanted = {d.name: d.metadata.get("Requires-Python") for d in distributions()}
    assert [name for name, those in wanted.items() if those and oldest not in SpecifierSet(those)] == []
