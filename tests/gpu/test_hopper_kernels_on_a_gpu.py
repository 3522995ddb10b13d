"""The right kernels of tests/hopper on the chip that is simulated there: launched instead of simulated, they give torch's numbers."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "hopper"))
import runs

HOPPER = torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not HOPPER, reason="they are written for sm_90")]


def launched(kernel, *arguments, orders=(), work=None, **options):
    """Launch what would be simulated; there is nothing to report."""
    kernel(*arguments, **options)
    return SimpleNamespace(right=True)


@pytest.mark.parametrize("name", runs.RIGHT)
def test_right_kernels_are_right_on_a_gpu(name, monkeypatch):
    monkeypatch.setattr(runs, "simulate", launched)
    path, run = runs.RIGHT[name]
    with torch.device("cuda"):
        torch.full((1 << 25,), torch.nan)  # freed at once: what is not stored shows
        _, equal = run(runs.module_of(path))
    torch.cuda.synchronize()
    assert equal
