"""What goes wrong with tiles, and how to tell."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from course_lib.criteria import (
    of_group,
)
from course_lib.exercise import Trial
from course_lib.exercises.tiling.oracles import product


def looks_like_tf32(trials: Sequence[Trial]) -> str:
    """A sentence, if float32 results are wrong by about 2^-10 of their size, and float16 ones right."""
    for trial in of_group(trials, "float32"):
        for arguments, output in zip(trial.inputs, trial.evidence.outputs, strict=False):
            right = product(**arguments)
            if isinstance(output, torch.Tensor) and output.shape == right.shape and right.numel():
                off = float((output.double() - right).abs().max() / (arguments["a"].abs() @ arguments["b"].abs()).max())
                if 2e-6 < off < 2e-3:
                    return (
                        'Float32 results have the precision of TF32: write tl.dot(..., input_precision="ieee") for them. '
                        "A GPU rounds the blocks of a float32 dot to 10 bits after the point unless you ask it not to."
                    )
    return ""


def small_tiles(trials: Sequence[Trial]) -> str:
    """A sentence, if a is read more than twice as often as tiles of 64 would read it."""
    for trial in of_group(trials, "performance"):
        N = trial.inputs[-1]["b"].shape[-1]
        for launch in trial.evidence.launches:
            for f in launch.footprints:
                if f.tensor == "a" and f.read_bytes > 2 * (N / 64) * max(1, f.read_distinct_bytes):
                    return (
                        "Each tile of c reads its rows of a and its columns of b once. Fewer, larger tiles read less."
                    )
    return ""
