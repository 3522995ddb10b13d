"""Runs what needs no Triton where Triton has no build, and asks that everything else says in one sentence what is missing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tritontrace import no_triton

ROOT = Path(__file__).resolve().parents[2]
HIDE = """
import sys
from importlib.machinery import PathFinder

class WithoutTriton(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] == "triton" else super().find_spec(name, path, target)

sys.meta_path[:] = [WithoutTriton if finder is PathFinder else finder for finder in sys.meta_path]
"""
KERNEL = """
import torch
import triton
import triton.language as tl

@triton.jit
def k(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), 1.0)
"""
SCRIPT = """
import torch
from kernel import k

k[(1,)](torch.zeros(8), BLOCK=8)
"""
# of units 01, 02, 03 and 08, by the operations that are to be counted or by their kernel
NEED_TRITON = {"strides.strided_copy", "dtypes.scaled_square", "dtypes.relu_intensity", "flops.dial"}


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """python(code, ...) runs Python, in which no Triton can be found."""
    folder = tmp_path_factory.mktemp("hidden")
    (folder / "sitecustomize.py").write_text(HIDE)
    (folder / "kernel.py").write_text(KERNEL)
    (folder / "script.py").write_text(SCRIPT)
    path = os.pathsep.join(map(str, [folder, ROOT, ROOT / "tritontrace" / "src"]))
    more = {
        "PYTHONPATH": path,
        "COURSE_PROGRESS": str(folder / "progress.json"),
        "PYTHONSTARTUP": str(ROOT / "strides" / "startup.py"),
    }

    def run(*words, seconds=300):
        asked = [sys.executable, *map(str, words)]
        return subprocess.run(asked, cwd=folder, env=os.environ | more, capture_output=True, text=True, timeout=seconds)

    return run


EACH = """
import tritontrace, torch
from kernel import k
from tritontrace import compile_for, equivalent, profile, simulate, trace

def launch():
    k[(1,)](torch.zeros(8), BLOCK=8)

def traced():
    with trace():
        launch()

asked = [launch, traced, lambda: compile_for(k, torch.zeros(8), BLOCK=8), lambda: profile(launch), lambda: simulate(launch)]
for each in [*asked, lambda: equivalent(launch, launch, [{}])]:
    try:
        each()
        print("nothing")
    except tritontrace.no_triton.TritonMissing as missing:
        print(missing)
"""


def test_whatever_needs_it_says_so(python):
    done = python("-c", EACH)
    assert done.stdout.splitlines() == [no_triton.SENTENCE] * 6, done.stderr


def test_the_command_says_so_in_a_line(python):
    done = python("-m", "tritontrace", "script.py")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and no_triton.SENTENCE in done.stderr


CHECKS = """
import json, sys
from tritontrace import no_triton
import grader
from course_lib import checking
from grader.published import published

seen = {}
for unit in sys.argv[1:]:
    for exercise in grader.exercises(unit).values():
        verdict = checking.verdict(exercise, published(exercise.id), 3)
        says = any(no_triton.SENTENCE in finding.seen for finding in verdict.findings)
        seen[exercise.id] = "needs Triton" if says else verdict.points == exercise.points
print(json.dumps(seen))
"""


@pytest.mark.slow
def test_units_that_need_none_of_it_are_solved(python):
    units = ("01_tensors_and_strides", "02_dtypes", "03_counting_flops", "08_attention_by_tiles")
    done = python("-c", CHECKS, *units)
    seen = json.loads(done.stdout.splitlines()[-1])
    assert {id for id, what in seen.items() if what == "needs Triton"} == NEED_TRITON, done.stderr
    assert {id for id, what in seen.items() if what is not True} == NEED_TRITON


NOTEBOOK = """
import json, sys, nbformat, nbclient
nb = nbformat.read(sys.argv[1], 4)
nbclient.NotebookClient(nb, timeout=200, allow_errors=True, kernel_name="python3").execute()
print(json.dumps([out.traceback for cell in nb.cells for out in cell.get("outputs", []) if out.output_type == "error"]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("unit, errors", [("01_tensors_and_strides", 1), ("08_attention_by_tiles", 0)])
def test_a_notebook_runs_and_a_launch_is_a_line(python, unit, errors):
    done = python("-c", NOTEBOOK, ROOT / "solutions" / unit / f"{unit}.ipynb")
    assert json.loads(done.stdout.splitlines()[-1]) == [[f"{no_triton.SENTENCE}."]] * errors, done.stderr
