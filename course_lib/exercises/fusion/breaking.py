"""A softmax that students break."""

from __future__ import annotations

import torch

from course_lib.catalogue import say
from course_lib.exercise import Effort, Exercise
from course_lib.exercises.breaking import Given, Kills, mutant, near_as

KERNEL = """@triton.jit
def given_kernel(x_ptr, out_ptr, N, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    m, l = -float("inf"), 0.0
    for start in range(0, N, BLOCK):
        offs_n = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * stride + offs_n, mask=offs_n < N, other=-float("inf")).to(tl.float32)
        new = tl.maximum(m, tl.max(x, 0))
        l = l * tl.exp(m - new) + tl.sum(tl.exp(x - new), 0)
        m = new
    for start in range(0, N, BLOCK):
        offs_n = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * stride + offs_n, mask=offs_n < N, other=0).to(tl.float32)
        tl.store(out_ptr + row * N + offs_n, tl.exp(x - m) / l, mask=offs_n < N)


def given_softmax(x):
    M, N = x.shape
    out = torch.empty(M, N, dtype=x.dtype, device=x.device)
    given_kernel[(M,)](x, out, N, x.stride(0), BLOCK=64)
    return out
"""


def lawful(x: torch.Tensor) -> str:
    """Return a message if the function promises no result for x, else "". It promises one for finite numbers, in rows of stride 1."""
    if x.shape[1] > 1 and x.stride(1) != 1:
        return say("criteria.mutants.columns_apart")
    return "" if bool(x.isfinite().all()) else say("criteria.mutants.values_not_finite")


SOFTMAX = Given(
    KERNEL,
    "given_softmax",
    {"x": "MN"},
    right=lambda x: x.double().softmax(1),
    budget=near_as(lambda x: x.double().softmax(1) * (1 + x.double().abs().amax(1, keepdim=True)) + 1e-30, times=4),
    numbers={},
    lawful=lawful,
)

break_softmax = Exercise(
    id="fusion.break_softmax",
    signature='breaking_inputs() -> a list of at most 3 dicts {"x": a tensor (M, N), column stride 1}',
    kind="formula",
    called="for its inputs",
    effort=Effort(minutes=15, lines=6, difficulty=4),
    track="more",
    cases=[
        mutant("the maximum is never below 0", ("tl.maximum(m, tl.max(x, 0))", "tl.maximum(m, 0.0)")),
        mutant(
            "the maximum of the last block alone",
            ("tl.maximum(m, tl.max(x, 0))", "tl.max(x, 0)"),
            ("l * tl.exp(m - new)", "l * tl.exp(tl.minimum(m - new, 0.0))"),
        ),
        mutant("the old sum is not corrected", ("l * tl.exp(m - new)", "l")),
        mutant("rows packed", ("row * stride + offs_n", "row * N + offs_n")),
    ],
    oracle=lambda **_: None,
    criteria=[Kills(SOFTMAX, 1 / 2, 4)],
)  # fmt: skip
