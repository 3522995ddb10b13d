"""A matmul to be broken."""

from __future__ import annotations

import torch

from course_lib.catalogue import say
from course_lib.exercise import Effort, Exercise
from course_lib.exercises.breaking import Given, Kills, mutant

KERNEL = """@triton.jit
def given_kernel(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, K, BLOCK):
        k = start + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + rows * stride_am + k[None, :] * stride_ak, mask=(rows < M) & (k[None, :] < K), other=0)
        b = tl.load(b_ptr + k[:, None] * stride_bk + cols * stride_bn, mask=(k[:, None] < K) & (cols < N), other=0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(c_ptr + rows * N + cols, acc, mask=(rows < M) & (cols < N))


def given_matmul(a, b):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty(M, N, dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
    given_kernel[grid](a, b, c, M, N, K, *a.stride(), *b.stride(), BLOCK=32)
    return c
"""


def in_sums(expected: torch.Tensor, dtype: torch.dtype, arguments: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return the error bound of honest float32 sums, and of the dtype of the result."""
    a, b = arguments["a"].double().abs(), arguments["b"].double().abs()
    return 32 * torch.finfo(torch.float32).eps * (a @ b) + 2 * torch.finfo(dtype).eps * expected.abs() + 1e-30


MATMUL = Given(
    KERNEL,
    "given_matmul",
    {"a": "MK", "b": "KN"},
    right=lambda a, b: a.double() @ b.double(),
    budget=in_sums,
    numbers={},
    lawful=lambda a, b: say("criteria.mutants.large_side") if max(*a.shape, *b.shape) > 256 else "",
)

break_matmul = Exercise(
    id="tiling.break_matmul",
    signature='breaking_inputs() -> a list of at most 3 dicts {"a": a tensor (M, K), "b": a tensor (K, N)}',
    kind="formula",
    called="for its inputs",
    effort=Effort(minutes=15, lines=6, difficulty=3),
    track="more",
    cases=[
        mutant("the last step along K is missing", ("range(0, K, BLOCK)", "range(0, K // BLOCK * BLOCK, BLOCK)")),
        mutant("b packed", ("k[:, None] * stride_bk", "k[:, None] * N")),
        mutant("TF32", (', input_precision="ieee"', "")),
        mutant("strides of a swapped", ("rows * stride_am + k[None, :] * stride_ak", "rows * stride_ak + k[None, :] * stride_am")),
    ],
    oracle=lambda **_: None,
    criteria=[Kills(MATMUL, 1 / 2, 4)],
)  # fmt: skip
