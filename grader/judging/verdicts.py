"""Verdicts on disk, each under a hash of all that it depends on.

    exercise, its twist, the cells as they are run, the seed ─────┐
    engine, torch, Triton; what our code does, not how it reads ──┼─▶ key ─▶ verdicts/KEY.json
    where Python and its packages lie, and the sandbox ───────────┤
    the GPU, where an answer has kernels, and whether it counts ──┘

What is in the store need not be judged again; whatever changes has another key. So grading goes on where it was stopped, and
a better hint, comment or docstring judges no class anew.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import platform
import re
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
import triton

from course_lib.exercise import Exercise, Verdict
from grader import ENGINE, ROOT, GPUMode, disk, sources
from grader.child import sandbox
from grader.judging.provided import with_provided
from tritontrace.profiling import bench
from tritontrace.replay import wire

NO_GPU = "no GPU"
OF_ALL = ("__init__", "criteria")  # what exercises and catalogues of all units share
JUDGING = ("judging", "child")  # rooms of grader/; a change in the others changes no verdict
HIDDEN = Path("judging", "hidden")
SHOWING = ("figures", "jupyter", "render")  # rooms of course_lib/ that show what was found
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class VerdictStore:
    """Verdicts as files in one folder. Several processes may use it at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, key: str) -> Verdict | None:
        """Return the stored verdict, or None if there is none, or it cannot be read."""
        try:
            return wire.from_tree(Verdict, json.loads((self.folder / f"{key}.json").read_text()))
        except (OSError, ValueError):
            return None

    def put(self, key: str, verdict: Verdict) -> None:
        """Store the verdict atomically, unless the grader failed, so that it is judged again."""
        if verdict.judged:
            disk.write({self.folder / f"{key}.json": json.dumps(wire.to_tree(verdict)).encode()})


def key_of(exercise: Exercise, cells: Sequence[tuple[str, str]], seed: int, device: str) -> str:
    """Return the key of the verdict on an answer. `device` is device() of the process that judges."""
    unit = exercise.id.split(".")[0]
    on = device if exercise.kind == "kernel" else ""  # the other exercises get the same verdict everywhere
    run = [list(cell) for cell in with_provided(exercise, cells)]
    what = [exercise.id, run, seed, code_version(unit), _environment(), on]
    content = json.dumps([*what, exercise.twist] if exercise.twist else what)
    return hashlib.sha256(content.encode()).hexdigest()[:40]


def device(mode: GPUMode) -> str:
    """Return the GPU on which this process would run an answer's kernels, and whether that counts."""
    if mode == "none" or not bench.has_gpu():
        return NO_GPU
    return f"{torch.cuda.get_device_name()}{', counts' if mode == 'counts' else ''}"


@functools.cache
def place(mode: GPUMode) -> str:
    """Return the machine of this process, as far as a mark can depend on it: a processor's vector units decide the order of sums, a GPU
    decides speed."""
    known = Path("/proc/cpuinfo")
    model = re.search(r"^model name\s*: (.*)", known.read_text(errors="replace") if known.exists() else "", re.M)
    processor = " ".join(model[1].split()) if model else platform.machine()
    versions = f"Python {platform.python_version()}, torch {torch.__version__}, Triton {triton.__version__}"
    return f"{processor}, {versions}, {device(mode)}"


def conditions(on: str) -> list[str]:
    """List all besides answer, seed and code in a verdict's key: if any changes, an answer is judged again. on: the judge's device()."""
    return [*_environment(), on]


@functools.cache
def _environment() -> list[str]:
    """Python, the sandbox, and the folders of Python that the sandbox shows: a mended sandbox has another list."""
    return [platform.python_version(), sandbox.level(), *sorted(map(str, sandbox.packages()))]


# Held by whoever parses Python or traces where several threads judge: a process can hold one trace at a time, and Python 3.11
# and 3.12 count the depth of syntax trees for all threads together (SystemError)
one_at_a_time = threading.RLock()


@functools.cache
def code_version(unit: str = "") -> str:
    """Hash torch, Triton and all our code that a verdict of this unit (a module's name) depends on; "": of any unit."""
    digest = _versions()
    for path in _as_it_is():
        _add(digest, path, path.read_bytes())
    with one_at_a_time:
        for path in _understood(unit):
            content = path.read_bytes()
            _add(digest, path, _meaning(content) if path.suffix == ".py" else content)
    return digest.hexdigest()


@functools.cache
def checkout() -> str:
    """Hash torch, Triton and all our code that a verdict depends on, as it reads: what workers of one class must share. It parses nothing,
    so a worker has it at once."""
    digest = _versions()
    for path in (*_as_it_is(), *_understood("")):
        _add(digest, path, path.read_bytes())
    return digest.hexdigest()


def _versions() -> hashlib._Hash:
    return hashlib.sha256(f"{torch.__version__} {triton.__version__}".encode())


def _as_it_is() -> list[Path]:
    """The engine, and what was measured, which oracles read."""
    return sorted([*sources(ENGINE / "tritontrace"), *(ROOT / "course_lib" / "hardware" / "measured").glob("*.json")])


def _understood(unit: str) -> list[Path]:
    """The files of which a verdict of this unit depends on what they do; "": of any unit."""
    grading = ROOT / "grader"
    hidden = [path for path in (grading / HIDDEN).rglob("*.py") if unit in ("", _unit_of(path))]
    judging = [path for room in JUDGING for path in (grading / room).glob("*.py")]
    judging += (grading / "catalogue").glob("*.toml")
    units = (*_imported(unit), *OF_ALL, None) if unit else ()
    return [
        path
        for path in sorted([*sources(ROOT / "course_lib"), *judging, *hidden])
        if not (unit and _unit_of(path) not in units) and _name(path).parts[1] not in SHOWING
    ]


@functools.cache
def _meaning(source: bytes) -> bytes:
    """A hash of what a module does: of its syntax tree, without docstrings."""
    module = ast.parse(source)
    for node in _statements(module):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return hashlib.sha256(ast.dump(module).encode()).digest()


def _statements(block: ast.AST) -> Iterator[ast.AST]:
    """The block and all statements in it, and what these consist of but for expressions."""
    yield block
    for part in ("body", "orelse", "finalbody", "handlers", "cases"):
        inside = getattr(block, part, None)
        for each in inside if isinstance(inside, list) else ():
            yield from _statements(each)


def _imported(unit: str) -> set[str]:
    """The unit's module or package of exercises, and those of other units that it or its hidden cases take something from."""
    of_units: dict[str | None, list[Path]] = {}
    for room in (ROOT / "course_lib" / "exercises", ROOT / "grader" / HIDDEN):
        for path in room.rglob("*.py"):
            of_units.setdefault(_unit_of(path), []).append(path)
    seen, waiting = set(), [unit]
    while waiting:
        if (one := waiting.pop()) in seen or one not in of_units:
            continue
        seen.add(one)
        for node in (node for path in of_units[one] for node in _statements(ast.parse(path.read_text()))):
            module = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
            if isinstance(node, ast.ImportFrom) and module.startswith("course_lib.exercises"):
                other = module.removeprefix("course_lib.exercises").lstrip(".").split(".")[0]
                waiting += [other] if other else [alias.name for alias in node.names]
    return seen


def _unit_of(path: Path) -> str | None:
    """The unit whose exercises, sentences or hidden cases a file has, or the module that units share; None for a file from elsewhere."""
    match = re.match(r"(?:course_lib/(?:exercises|catalogue)|grader/judging/hidden)/(\w+)", _name(path).as_posix())
    return match and match[1]


@functools.cache
def _name(path: Path) -> Path:
    """A file's place in the packages, wherever these are installed."""
    return path.relative_to(ENGINE if path.is_relative_to(ENGINE / "tritontrace") else ROOT)


def _add(digest: hashlib._Hash, path: Path, content: bytes) -> None:
    digest.update(f"{_name(path)}\0".encode() + content)
