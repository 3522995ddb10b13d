"""Tests of what only a GPU can show. Run them with `python -m pytest tests/gpu` on a machine that has one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

from course_lib.checking import verdict
from course_lib.execution import gpu_lock as card
from course_lib.execution import observe, on_gpu, record_apart, timed
from course_lib.exercises import find
from grader import ROOT
from grader.judging.judge import Judge
from grader.published import answer, published, solution_cell
from tritontrace import gpu
from tritontrace.profiling import bench
from tritontrace.replay import load
from tritontrace.tracing import trace

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]

KERNELS = ["row_copy", "gather_rows", "transpose", "column_sum", "deinterleave"]


@triton.jit
def add_one(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n, other=0) + 1, mask=i < n)


def test_a_kernel_is_traced_then_run_then_traced():
    x = torch.randn(1000, device="cuda")
    for _ in range(2):
        traced, compiled = torch.empty_like(x), torch.empty_like(x)
        with trace() as t:
            add_one[(4,)](x, traced, 1000, BLOCK=256)
        add_one[(4,)](x, compiled, 1000, BLOCK=256)
        assert t.loads.bytes == 4000
        assert torch.equal(traced, x + 1) and torch.equal(compiled, x + 1)


def test_the_card_is_known():
    card = gpu.current()
    assert card is not None and card.sms == torch.cuda.get_device_properties(0).multi_processor_count


@pytest.mark.parametrize("name", KERNELS)
def test_a_solution_earns_its_bonus(name):
    exercise = find(f"coalescing.{name}")
    function = published(exercise.id)
    found = verdict(exercise, function)
    assert found.points == found.out_of, found
    assert found.bonus == exercise.bonus[0].points, found.findings[-1]


@pytest.mark.parametrize("name", ["start.add_one", "fusion.softmax", "attention.attention_backward", "flash.varlen"])
def test_a_solution_is_right_on_the_gpu_too(name):
    found = verdict(find(name), published(name))
    on_the_gpu = next(finding for finding in found.findings if finding.key == "right_on_gpu")
    assert found.points == found.out_of and on_the_gpu.passed and on_the_gpu.gate, on_the_gpu


def test_a_log_that_does_not_run_there_is_not_held_against_the_kernel():
    exercise = find("start.add_one")
    trials = observe(exercise, published(exercise.id), 1)
    on_gpu.run(exercise, [{"kernels": {}, "calls": []}] * len(trials), trials, card.run)
    assert {trial.evidence.on_gpu.not_run for trial in trials if trial.evidence.on_gpu} == {"compiler"}


def test_a_slow_kernel_earns_its_points_and_no_bonus():
    source = solution_cell("coalescing.row_copy").replace("BLOCK_M = 4096 // BLOCK_N", "BLOCK_M, BLOCK_N = 8, 16")
    found = verdict(find("coalescing.row_copy"), load(answer("coalescing.row_copy", source), "row_copy"))
    assert found.points == found.out_of
    assert found.bonus < 1, found.findings[-1]


def test_a_device_named_in_the_code_is_no_obstacle():
    source = solution_cell("coalescing.row_copy").replace("device=x.device", 'device="cuda"')
    found = verdict(find("coalescing.row_copy"), load(answer("coalescing.row_copy", source), "row_copy"))
    assert found.points == found.out_of and found.bonus == 2, found


def test_a_copy_is_as_fast_as_a_copy():
    found = bench.ratio(bench.copy_of(1 << 28), bench.copy_of(1 << 28))
    assert 0.8 < found.speedup < 1.25  # a sanity check of the stopwatch, far wider than its spread


def test_a_benchmark_runs_with_plain_python():
    paths = [
        path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and Path(path).resolve() != ROOT
    ]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}  # the course itself is found without it
    run = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "coalescing.py")], env=environment, capture_output=True
    )
    assert run.returncode == 0, run.stdout.decode() + run.stderr.decode()[-2000:]


def test_the_judge_gives_extra_credit(tmp_path):
    exercise = find("coalescing.transpose")
    judge = Judge(tmp_path, accept_risk=True)
    try:
        found = judge.verdict(exercise, answer(exercise.id, solution_cell(exercise.id)), "ada")
    finally:
        judge.close()
    assert found.points == found.out_of and found.bonus == exercise.bonus[0].points, found


def test_a_kernel_that_is_wrong_where_it_is_timed_earns_no_bonus():
    """Right on every size that is traced, wrong on the large one that is timed."""
    source = solution_cell("coalescing.row_copy").replace("BLOCK_M = 4096 // BLOCK_N", "BLOCK_M, BLOCK_N = 4, 1024")
    source = source.replace("rows = tl.program_id(0)", "rows = (tl.program_id(0) % 1024)")
    exercise = find("coalescing.row_copy")
    found = verdict(exercise, load(answer(exercise.id, source), exercise.entry))
    assert found.points == found.out_of and found.bonus == 0
    said = found.findings[-1].seen
    assert "wrong on the GPU" in said and exercise.bonus[0].case.name in said and "elements differ, first at [" in said


def test_a_kernel_that_leaves_its_tensors_where_it_is_timed_is_told_so():
    source = solution_cell("coalescing.row_copy").replace(
        "tl.load(x_ptr + ", "tl.load(x_ptr + (tl.program_id(0) >> 10).to(tl.int64) * (1 << 40) + "
    )
    found = verdict(find("coalescing.row_copy"), load(answer("coalescing.row_copy", source), "row_copy"))
    assert found.points == found.out_of and found.bonus == 0
    assert "touched memory outside of its tensors" in found.findings[-1].seen, found


REMEMBERS = """
import torch
import triton
import triton.language as tl


@triton.jit
def transpose_kernel(x_ptr, out_ptr, M, N, row_stride, column_stride, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    there = (rows < M)[:, None] & (columns < N)[None, :]
    corner = x_ptr + tl.program_id(0) * BLOCK * row_stride + tl.program_id(1) * BLOCK * column_stride
    if tl.load(corner) != tl.load(out_ptr + tl.program_id(1) * BLOCK * M + tl.program_id(0) * BLOCK):
        x = tl.load(x_ptr + rows[:, None] * row_stride + columns[None, :] * column_stride, mask=there)
        tl.store(out_ptr + columns[:, None] * M + rows[None, :], x.T, mask=there.T)


def transpose(x):
    M, N = x.shape
    out = torch.empty((N, M), dtype=x.dtype, device=x.device)
    transpose_kernel[(triton.cdiv(M, 64), triton.cdiv(N, 64))](x, out, M, N, *x.stride(), BLOCK=64)
    return out
"""


def test_a_result_that_memory_still_holds_is_not_found_there():
    """A kernel that skips each tile whose first element is there already, as an earlier run on the same inputs would leave it."""
    exercise = find("coalescing.transpose")
    case = exercise.bonus[0].case
    times = []
    for entry in (load([("cell", REMEMBERS)], "transpose"), published(exercise.id)):
        (log,) = record_apart(exercise, entry, [[case.arguments(0)]], seconds=60)
        timing = timed.time_here(exercise, log, 0)
        assert not timing.problem
        times.append(timing.ratio)
    assert times[0] < 1.5 * times[1], times
