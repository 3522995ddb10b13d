"""Sentences where nothing could be timed. Timing itself needs a GPU: tests/gpu."""

import subprocess

import pytest
from messages import parameters
from sentences import says

from course_lib.execution import timed
from course_lib.exercises import find

EXERCISE = find("coalescing.transpose")
LOG = {"kernels": {"k": {}}, "calls": [{"error": ""}]}


def said(log=LOG, traced=("k",), stderr=b"", run=None):
    run = run or (lambda message, seconds: subprocess.CompletedProcess([], 1, b"", stderr))
    return timed.measure(EXERCISE, log, 0, traced, run).problem


def test_a_kernel_for_large_inputs_alone_is_named_with_the_input():
    assert says(said(traced=()), "criteria.speed.other_kernel", case=EXERCISE.bonus[0].case.name)


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
    (error,) = parameters(said(stderr=stderr), "criteria.speed.failed").values()
    assert told in error and "TORCH_USE" not in error


def test_a_run_without_an_end():
    def run(message, seconds):
        raise subprocess.TimeoutExpired("timed", timed.SECONDS)

    assert says(said(run=run), "criteria.speed.endless", seconds=60)
