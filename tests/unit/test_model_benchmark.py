"""benchmarks/model.py: its tables are those of what is recorded, and it runs, at toy size, without a GPU."""

import subprocess
import sys
from pathlib import Path

import pytest
from scripts import imported

from course_lib.figures.training import recorded
from course_lib.hardware.measurements import measured

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "benchmarks" / "model.py"


def test_the_tables_are_those_of_the_recording():
    with imported("model_tables") as (model_tables,):
        assert (SCRIPT.parent / "results" / "model.md").read_text("utf-8") == model_tables.tables(measured("model"))


def test_the_prediction_of_the_unit_is_near_the_recorded_peak():
    """v is copied there, so that qkv's result is not kept: 2560 numbers of 2 bytes for each token and block."""
    t = measured("model")["training"]
    less = 22 * t["batch"] * t["length"] * 2 * 2560
    peak = t["ways"]["the course's kernels"]["peak_bytes"]
    assert 0 < peak - (recorded.predicted_bytes() - less) < 0.01 * peak


@pytest.mark.slow
def test_it_runs_without_a_gpu_at_toy_size():
    command = [sys.executable, SCRIPT, "--dry", "right", "training", "optimizer", "prefill", "decode"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=500, cwd=ROOT)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("the course's kernels") >= 5 and "failed" not in ran.stdout
