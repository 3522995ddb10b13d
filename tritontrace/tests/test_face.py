"""The public face: which modules are public, that each name of theirs is there and says what it is, and what imports cost."""

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parents[1] / "src"
# For whoever has kernels; then for whoever builds on the library.
FACE = ["tritontrace", "tritontrace.results", "tritontrace.testing", "tritontrace.gpu", "tritontrace.hopper.language"]
BUILDERS = [
    "tritontrace.cli",
    "tritontrace.cli.diff",
    "tritontrace.colours",
    "tritontrace.compiled",
    "tritontrace.exact",
    "tritontrace.hopper",
    "tritontrace.messages",
    "tritontrace.no_triton",
    "tritontrace.picture",
    "tritontrace.profiling",
    "tritontrace.profiling.bench",
    "tritontrace.profiling.nsight",
    "tritontrace.proving",
    "tritontrace.replay",
    "tritontrace.replay.child",
    "tritontrace.replay.wire",
    "tritontrace.threads",
    "tritontrace.tracing",
    "tritontrace.words",
]
EXTRAS = {"tritontrace.picture": "matplotlib", "tritontrace.proving": "z3"}


def with_a_face() -> list[str]:
    """The modules that have an `__all__`."""
    found = []
    for path in SOURCES.rglob("*.py"):
        targets = [node.targets for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.Assign)]
        if any(getattr(target, "id", "") == "__all__" for each in targets for target in each):
            found.append(".".join(path.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__"))
    return sorted(found)


def test_public_modules_are_those_with_all():
    assert with_a_face() == sorted([*FACE, *BUILDERS])


@pytest.mark.parametrize("name", [*FACE, *BUILDERS])
def test_each_public_name_is_there_and_says_what_it_is(name):
    if name in EXTRAS:
        pytest.importorskip(EXTRAS[name])
    if name == "tritontrace.hopper.language" or name.startswith("tritontrace.hopper"):
        pytest.importorskip("triton.experimental.gluon.nvidia.hopper")
    module = importlib.import_module(name)
    for public in module.__all__:
        value = getattr(module, public)
        own = getattr(value, "__module__", "") or ""
        if (inspect.isfunction(value) or inspect.isclass(value)) and own.startswith("tritontrace"):
            assert value.__doc__ and not value.__doc__.startswith(f"{public}("), public


def test_an_import_by_itself_loads_no_library():
    asked = "import tritontrace, sys; print({'torch', 'triton', 'numpy', 'matplotlib'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_what_is_private_is_told_from_what_is_not_there():
    package = importlib.import_module("tritontrace")
    with pytest.raises(AttributeError, match="has no 'traces'; it has"):
        package.traces  # noqa: B018
