"""A CUDA error in timed code becomes one sentence, and no stack trace in a notebook."""

import pytest
import torch

from tritontrace.profiling import bench

ILLEGAL = "CUDA error: an illegal memory access was encountered\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions."


def test_a_notebook_that_the_gpu_has_stopped_is_told_so(monkeypatch):
    def broken():
        raise torch.AcceleratorError(ILLEGAL)

    monkeypatch.setattr(torch.cuda, "synchronize", broken)
    with pytest.raises(bench.GPUStopped) as stopped:
        bench.ratio(lambda: None, lambda: None)
    (line,) = stopped.value._render_traceback_()
    assert "touched memory outside of its tensors" in line and "Restart Kernel" in line and "TORCH_USE" not in line


def test_other_errors_keep_their_first_line():
    said = bench.stopped(torch.AcceleratorError("CUDA error: misaligned address\nFor debugging consider passing ..."))
    assert said == "the GPU stopped the kernel (CUDA error: misaligned address)"
