"""Solutions of earlier units, for a demonstration in a later one: out of the student's own notebooks, as they are saved.

    solution("fusion.rmsnorm")      the function, or None where that notebook is not there or has no answer yet
    kernels()                       the kernels of a model, the student's where they are solved, and whose each is
    attention()                     attention(q, k, v, scale) for heads that share k and v, with a way back

Nothing here judges: a wrong solution is used as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from course_lib.exercises import find, unit_of
from course_lib.handin import files
from course_lib.handin.answer import Notebook
from course_lib.handin.cells import Problem
from course_lib.workloads import launched, shared_heads
from course_lib.workloads.launched import EPS, Kernels
from tritontrace.replay import load


def solution(exercise_id: str, folder: Path | None = None) -> Any:
    """Load what the student's saved notebook defines for an exercise; None without one, or where it does not run.

    folder: that of the unit one is in; the notebooks of the others lie beside it.
    """
    exercise = find(exercise_id)
    unit = unit_of(exercise_id)
    try:
        _, cells = files.read((folder or Path.cwd()).parent / unit / f"{unit}.ipynb")
        release = files.released(unit)
        given = files.read(release)[1] if release.is_file() else []
        notebook = Notebook(cells, files.exercises(unit), given)
        if notebook.attempted(exercise):
            return load(notebook.answer(exercise).cells, exercise.entry, on_the_cpu=not torch.cuda.is_available())
    except (Problem, ValueError):  # not there, not a notebook, or it raises
        pass
    return None


def kernels(folder: Path | None = None) -> tuple[Kernels, dict[str, str]]:
    """Return the kernels of a model, with the student's where these are solved: RMSNorm and cross-entropy of units 06 and 07, attention of
    09 and 10, for heads that share k and v by this unit's grouped_backward.

    Returns them, and the name of each kernel -> "yours" or "given".
    """
    own: dict[str, Callable] = {}
    for name, (exercise_ids, adapt) in ADAPTED.items():
        found = [solution(exercise_id, folder) for exercise_id in exercise_ids]
        if all(each is not None for each in found):
            own[name] = adapt(*found)
    return Kernels(**own), {name: "yours" if name in own else "given" for name in launched.ALL}


def attention(folder: Path | None = None) -> tuple[Callable, str]:
    """Return a differentiable causal attention(q, k, v, scale) for heads that share k and v, and whose it is: the student's, of
    flash_attention_forward, delta, dq and grouped_backward, where all four are solved; else torch's.

    Of the student's flash_attention_forward, delta, dq and grouped_backward where all four are solved; else torch's.
    """
    needed = {name: ADAPTED[name] for name in ("attention", "attention_backward")}
    found = {name: [solution(each, folder) for each in ids] for name, (ids, _) in needed.items()}
    if any(each is None for functions in found.values() for each in functions):
        return shared_heads.of_torch, "torch's"
    return shared_heads.differentiable(*(adapt(*found[name]) for name, (_, adapt) in needed.items())), "yours"


def _norm(rmsnorm: Callable) -> Callable:
    def norm(x, weight):
        _, rstd = launched.norm(x, weight)  # unit 06 stores none
        return rmsnorm(x.reshape(-1, x.shape[-1]), weight, EPS).view(x.shape), rstd

    return norm


def _norm_backward(rmsnorm_backward: Callable) -> Callable:
    def norm_backward(dy, x, weight, rstd):
        flat, dflat = (t.reshape(-1, t.shape[-1]).contiguous() for t in (x, dy))
        dx, dweight = rmsnorm_backward(flat, weight, rstd.flatten(), dflat)
        return dx.view(x.shape), dweight.to(weight.dtype)

    return norm_backward


def _cross_entropy(cross_entropy: Callable) -> Callable:
    def losses(logits, targets):
        found = cross_entropy(logits, targets)
        return found, found + logits.gather(1, targets[:, None])[:, 0]  # lse = loss + x[target]

    return losses


def _cross_entropy_backward(backward: Callable) -> Callable:
    return lambda dlosses, logits, targets, lse: backward(logits, targets, lse, dlosses.contiguous())


ATTENTION = ("flash_backward.delta", "flash_backward.dq", "training.grouped_backward")
ADAPTED: dict[str, tuple[tuple[str, ...], Callable[..., Callable]]] = {
    "norm": (("fusion.rmsnorm",), _norm),
    "norm_backward": (("recomputation.rmsnorm_backward",), _norm_backward),
    "attention": (("flash.flash_attention_forward",), shared_heads.forward),
    "attention_backward": (ATTENTION, shared_heads.backward),
    "cross_entropy": (("fusion.cross_entropy",), _cross_entropy),
    "cross_entropy_backward": (("recomputation.cross_entropy_backward",), _cross_entropy_backward),
}
"""Kernels that another unit asks for -> the exercises, and what makes their functions fit."""
