"""Kernels that copy an input, as torch's .contiguous() would."""

from __future__ import annotations

from collections import Counter

from course_lib.catalogue import say
from course_lib.exercise import Trial
from tritontrace.results import Launch


def copied_inputs(trial: Trial) -> tuple[str, str]:
    """Return (kernel, clause that names the inputs) of the first launch of a trial that copies inputs; ("", "") if none does."""
    for launch in trial.evidence.launches:
        if names := [f"`{name}`" for name in copied_by(launch)]:
            return launch.kernel, say("criteria.result.copies", kernel=launch.kernel, inputs=names)
    return "", ""


def copied_by(launch: Launch) -> list[str]:
    """List the tensors that a launch copies: it loads each element of them once, and stores as many to buffers of as many elements."""
    loaded, stored = Counter[str](), Counter[str]()
    for access in launch.accesses:
        if access.op != "atomic":
            (loaded if access.op == "load" else stored)[access.tensor] += access.elements
    buffers = stored.keys() and all(name.startswith("buffer") for name in stored)
    same = Counter(loaded.values()) == Counter(stored.values())
    once = all(f.read_bytes == f.read_distinct_bytes for f in launch.footprints)
    return sorted(loaded) if buffers and same and once and not any(map(is_made, loaded)) else []


def is_made(tensor: str) -> bool:
    """Whether a tensor was allocated during the call, by its name in a trace ("buffer...", "out...")."""
    return tensor.startswith(("buffer", "out"))
