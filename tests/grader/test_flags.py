"""Source rules flag a program for a person. They point at cheats and leave honest programs alone, mostly."""

import pytest

from course_lib.exercises import UNITS, find
from grader import exercises, published
from grader.audit import variants
from grader.judging import flags
from grader.judging.submission import Cell, Reading

TRANSPOSE, FORMULA = find("coalescing.transpose"), find("coalescing.sectors_touched")
SCRIPTS = variants.scripts()
ALL = [exercise for unit in UNITS for exercise in exercises(unit).values()]


def rules(source, exercise=TRANSPOSE):
    return [
        flag.rule for flag in flags.of_answer(exercise, [("<cell 1>", "import torch, triton"), ("<cell 2>", source)])
    ]


@pytest.mark.parametrize("cheat", [v for v in SCRIPTS if v.flags], ids=lambda v: f"{v.script}: {v.name}")
def test_a_cheat_is_shown_to_a_person(cheat):
    found = {flag.rule for flag in flags.of_answer(find(cheat.exercise), cheat.cells())}
    assert set(cheat.flags) <= found


@pytest.mark.parametrize("variant", [v for v in SCRIPTS if v.script[:6] == "honest"], ids=lambda v: v.name)
def test_the_honest_are_left_alone(variant):
    """But for what a person should see, whatever it is for: streams, private names."""
    assert {flag.rule for flag in flags.of_answer(find(variant.exercise), variant.cells())} == set(variant.flags)


@pytest.mark.parametrize("exercise", ALL, ids=lambda e: e.id)
def test_the_published_solutions_are_left_alone(exercise):
    assert flags.of_answer(exercise, published.answer(exercise.id, published.solution_cell(exercise.id))) == []


def test_every_rule_is_shown_by_a_cheat():
    assert {rule for v in SCRIPTS for rule in v.flags} == set(flags.RULES)


def test_a_flag_says_where_and_what():
    (flag,) = flags.of_answer(
        TRANSPOSE, [("<cell 7>", "import torch"), ("<cell 9>", "def f(x):\n    return x.clone()")]
    )
    assert (flag.rule, flag.cell, flag.line) == ("torch computes", "cell 9", 2)
    assert str(flag).startswith("Cell 9, line 2: `x.clone` makes torch copy or compute")


@pytest.mark.parametrize(
    "source, rule",
    [
        ("def f(x):\n    return x @ x", "torch computes"),
        ("import torch as t\n\ndef f(x):\n    return t.nn.functional.softmax(x)", "torch computes"),
        ("from torch import clone as empty\n\ndef f(x):\n    return empty(x)", "torch computes"),
        ("@torch.compile\ndef f(x):\n    return x", "torch computes"),
        ("import numpy as np\n\ndef f(x):\n    return np.asarray(x)", "values on the host"),
        ("def f(x):\n    return x.__class__.__dict__", "hidden names"),
        ("from torch import _C", "hidden names"),
        ("import time\ntime.sleep = print", "patched modules"),
        ("import time\n(a, time.sleep) = 1, print", "patched modules"),
        ("@triton.jit\ndef k(x):\n    pass\n\nk.run = print", "patched modules"),
        ("def f(x):\n    from course_lib.execution import timed", "looks around"),
        ("def f(x):\n    from tritontrace.replay import wire", "looks around"),
        ("def f(x):\n    open('secret')", "files and processes"),
        ("def f(x):\n    try:\n        k()\n    except:\n        pass", "swallowed errors"),
    ],
)
def test_rules(source, rule):
    assert rule in rules(source)


@pytest.mark.parametrize(
    "source",
    [
        "def f(x):\n    return torch.empty_like(x).view(-1)[2:].t()",
        "import math, os, time\n\ndef f(x):\n    return math.exp(1) * time.time() * len(os.environ.get('X', ''))",
        "import numpy as np\n\ndef f(x):\n    return np.prod(x.shape)",
        "@triton.jit\ndef k(x):\n    y = x.to(tl.float32).sum()\n    exec('1')",  # a kernel has rules of its own
        "class A:\n    def __init__(self):\n        self.a = 1",
        "torch.backends.cuda.matmul.allow_tf32 = False",
        "def f(x):\n    try:\n        k()\n    except Exception as error:\n        raise ValueError from error",
        "def f(x, dy):\n    return x.contiguous(), dy.contiguous()",
        "class F:\n    @staticmethod\n    @torch.amp.custom_fwd(device_type='cuda')\n    def forward(ctx, x):\n        return x",
        "import io\n\ndef f(x):\n    return io.BytesIO()",
        "def f(:",
        "\0",
    ],
)
def test_what_is_innocent(source):
    assert rules(source) == []


def test_a_formula_may_compute_as_it_likes():
    source = "import numpy as np\n\ndef sectors_touched(a, b):\n    return int(np.asarray(a).sum() + torch.tensor(a).sum().item())"
    assert rules(source, FORMULA) == [] and len(rules(source)) >= 2


FOR_FILES = """import io, mmap, os, pathlib, pickle, tempfile


class Checkpoint:
    def save(path, run):
        with open(path, "wb") as file:
            pickle.dump(run, file)
            os.fsync(file.fileno())
        os.replace(pathlib.Path(path), path)
"""


def test_files_are_flagged_where_nobody_asks_for_them():
    assert rules(FOR_FILES, find("training.checkpoint")) == rules(FOR_FILES, find("training.get_batch")) == []
    assert set(rules(FOR_FILES, FORMULA)) == {"files and processes"}
    for processes in ("import os\nos.fork()", "import subprocess", "import socket", "import os, pathlib, socket"):
        assert rules(processes, find("training.checkpoint")) == ["files and processes"]


def test_torchs_functions_on_many_tensors_are_no_secret():
    norm = "def clip(gradients, largest):\n    return torch._foreach_norm(gradients)"
    assert rules(norm, find("training.clip")) == []
    assert rules(norm.replace("_foreach", "_fused"), find("training.clip")) == ["hidden names"]


def test_what_was_handed_out_is_not_the_students():
    assert flags.of_answer(TRANSPOSE, [("<handed-out cell 3>", "exec('1')")]) == []


def test_there_is_an_end_to_them():
    assert len(rules("x.clone()\n" * 100)) == flags.MAX_FLAGS


def test_a_program_carries_its_flags():
    cell = Cell(4, "code", "def transpose(x):\n    return x.T.contiguous()")
    answer = Reading([cell], [TRANSPOSE]).answer(TRANSPOSE)
    assert any(text.startswith("Cell 4, line 2: `x.T.contiguous`") for text in answer.flags)
