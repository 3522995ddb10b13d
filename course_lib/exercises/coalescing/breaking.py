"""A transpose to be broken."""

from __future__ import annotations

from course_lib.criteria import roundings
from course_lib.exercise import Effort, Exercise
from course_lib.exercises.breaking import Given, Kills, mutant

KERNEL = """@triton.jit
def given_kernel(x_ptr, out_ptr, M, N, stride_m, stride_n, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = (rows < M) & (cols < N)
    tile = tl.load(x_ptr + rows * stride_m + cols * stride_n, mask=inside)
    tl.store(out_ptr + cols * M + rows, tile, mask=inside)


def given_transpose(x):
    M, N = x.shape
    out = torch.empty(N, M, dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
    given_kernel[grid](x, out, M, N, x.stride(0), x.stride(1), BLOCK=32)
    return out
"""

TRANSPOSE = Given(
    KERNEL,
    "given_transpose",
    {"x": "MN"},
    right=lambda x: x.double().T,
    budget=lambda expected, dtype, arguments: roundings(expected, dtype, times=0.25),
    numbers={},
)

break_transpose = Exercise(
    id="coalescing.break_transpose",
    signature='breaking_inputs() -> a list of at most 3 dicts {"x": a tensor (M, N)}',
    kind="formula",
    called="for its inputs",
    effort=Effort(minutes=12, lines=5, difficulty=3),
    track="more",
    cases=[
        mutant("no column is masked", ("(rows < M) & (cols < N)", "rows < M")),
        mutant("rows packed", ("rows * stride_m", "rows * N")),
        mutant("columns packed", ("cols * stride_n", "cols")),
        mutant(
            "the grid turned", ("(triton.cdiv(M, 32), triton.cdiv(N, 32))", "(triton.cdiv(N, 32), triton.cdiv(M, 32))")
        ),
    ],
    oracle=lambda **_: None,
    criteria=[Kills(TRANSPOSE, 1 / 2, 4)],
)
