"""benchmarks/model.py: its tables are those of what is recorded, and it runs, at toy size, without a GPU."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from course_lib.figures.model import recorded
from course_lib.hardware.measurements import measured

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "benchmarks" / "model.py"


def loaded():
    spec = importlib.util.spec_from_file_location("model_benchmark", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_tables_are_those_of_the_recording(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    script = loaded()
    assert script.RESULT.read_text("utf-8") == script.tables(measured("model"))


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
