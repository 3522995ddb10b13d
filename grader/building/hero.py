"""The verdict that one sees first, in the README's picture and on the site's first page: of the transpose that the README lists."""

from __future__ import annotations

import re

from course_lib import checking, render
from course_lib.exercises import find
from grader import ROOT
from grader.published import answer
from tritontrace.replay import load

LAUNCH = """

def transpose(x):
    M, N = x.shape
    out = torch.empty((N, M), dtype=x.dtype, device=x.device)
    transpose_kernel[(M,)](x, out, M, N, x.stride(0), x.stride(1), BLOCK=triton.next_power_of_2(N))
    return out
"""


def verdict() -> str:
    """Check the README's kernel, and render its verdict as HTML."""
    listing = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), flags=re.DOTALL)[0]
    exercise = find("coalescing.transpose")
    wasteful = load(answer(exercise.id, listing + LAUNCH), exercise.entry)
    return render.html(checking.verdict(exercise, wasteful, seed=0))
