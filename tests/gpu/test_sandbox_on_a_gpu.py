"""On a GPU machine: one process has the GPU and a share of its memory; no other child sees it."""

import re
import tempfile

import pytest
import torch

from course_lib.exercises import find
from grader.child import gpu_child, sandbox
from grader.judging.judge import Judge
from grader.published import answer, solution_cell

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]

COPY = find("coalescing.row_copy")


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    judge = Judge(tmp_path_factory.mktemp("home"))
    yield judge
    judge.close()


def refusal(verdict):
    return next(f.seen for f in verdict.findings if f.judged and not f.passed)


def test_a_solution_is_timed_inside_the_sandbox(judge, monkeypatch):
    ran = []
    original = gpu_child.run
    monkeypatch.setattr(gpu_child, "run", lambda *asked: ran.append(original(*asked)) or ran[-1])
    verdict = judge.judge(COPY, answer(COPY.id, solution_cell(COPY.id)), seed=1)
    assert sandbox.enough(judge.level) and verdict.points == verdict.out_of
    assert verdict.bonus == COPY.bonus[0].points, ran[-1].stderr.decode()
    assert next(f for f in verdict.findings if f.key == "right_on_gpu").passed


def test_the_gpu_is_left_as_it_was(judge):
    """Take the least of three times, since what other workers take of the same GPU meanwhile counts, too."""
    taken = []
    for seed in (2, 3, 4):
        before, _ = torch.cuda.mem_get_info()
        judge.judge(COPY, answer(COPY.id, solution_cell(COPY.id)), seed=seed)
        taken.append(before - torch.cuda.mem_get_info()[0])
    assert min(taken) < 1 << 28


def test_other_children_do_not_see_the_gpu(judge):
    source = "def row_copy(x):\n    raise ValueError(f'sees {torch._C._cuda_getDeviceCount()} GPUs')"
    verdict = judge.judge(COPY, [("<cell 1>", "import torch"), ("<cell 2>", source)], seed=1)
    assert re.search("sees 0 GPUs|RuntimeError", refusal(verdict))
    source = "def row_copy(x):\n    open('/dev/nvidia0', 'rb')"
    verdict = judge.judge(COPY, [("<cell 2>", source)], seed=1)
    assert re.search("PermissionError|FileNotFoundError", refusal(verdict))


@pytest.mark.parametrize("name", ["training.checkpoint", "training.swap_in"])
def test_torchs_optimizers_step_where_the_driver_is_shut_away(judge, name):
    exercise = find(name)
    verdict = judge.judge(exercise, answer(name, solution_cell(name)), seed=1)
    assert verdict.points == verdict.out_of, refusal(verdict)


def test_memory_is_capped(monkeypatch):
    for name in ("HOME", "TMPDIR", "TRITON_CACHE_DIR"):
        monkeypatch.setenv(name, "/tmp")  # put back after main
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (gpu_child.FREE_BYTES - 1, 1 << 37))
    monkeypatch.setattr(sandbox, "confine", lambda *a, **k: None)
    monkeypatch.setattr(sandbox, "become_nobody", lambda: None)
    with pytest.raises(SystemExit, match="another process holds the rest"):
        gpu_child.main()
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (1 << 37, torch.cuda.get_device_properties(0).total_memory))
    monkeypatch.setattr(
        gpu_child.gpu_process,
        "main",
        lambda: torch.empty(gpu_child.GPU_BYTES + (1 << 30), dtype=torch.uint8, device="cuda"),
    )
    try:
        with pytest.raises(torch.OutOfMemoryError):
            gpu_child.main()
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
