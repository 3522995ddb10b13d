"""Sentences where nothing could be timed. Timing itself needs a GPU: tests/gpu."""

import subprocess

import pytest

from course_lib.execution import timed
from course_lib.exercises import find

EXERCISE = find("coalescing.transpose")
LOG = {"kernels": {"k": {}}, "calls": [{"error": ""}]}


def said(log=LOG, traced=("k",), stderr=b"", run=None):
    run = run or (lambda message, seconds: subprocess.CompletedProcess([], 1, b"", stderr))
    return timed.measure(EXERCISE, log, 0, traced, run).problem


def test_a_kernel_for_large_inputs_alone_is_named_with_the_input():
    problem = said(traced=())
    assert problem.startswith(f"not measured: {EXERCISE.bonus[0].case.name} gets a kernel that none of the smaller")


@pytest.mark.parametrize(
    "stderr, told",
    [
        (b"Traceback ...\ntriton.OutOfResources: shared memory, Required: 327680\nSee the docs.\n", "OutOfResources"),
        (b"RuntimeError: CUDA error: CUBLAS_STATUS\nCompile with `TORCH_USE_CUDA_DSA` to ...\n", "CUBLAS_STATUS"),
        (b"killed\n", "killed"),
        (b"", "no message"),
    ],
)
def test_of_a_run_that_failed_the_error_is_quoted_and_not_the_last_line(stderr, told):
    assert told in said(stderr=stderr) and "TORCH_USE" not in said(stderr=stderr)


def test_a_run_without_an_end():
    def run(message, seconds):
        raise subprocess.TimeoutExpired("timed", timed.SECONDS)

    assert said(run=run) == "not measured: no end after 60 seconds"
