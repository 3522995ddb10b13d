"""More answers that the sample class hands in for unit 04."""

from __future__ import annotations

import copy

from nbformat import NotebookNode

from grader.audit.samples import Sample, cell_of, insert_before, solved, solved_but

TRANSPOSE = "coalescing.transpose"

ONE_ROW_A_PROGRAM = """\
@triton.jit
def transpose_kernel(x_ptr, out_ptr, M, N, stride_m, stride_n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    values = tl.load(x_ptr + row * stride_m + cols * stride_n, mask=cols < N)
    tl.store(out_ptr + cols * M + row, values, mask=cols < N)


def transpose(x):
    M, N = x.shape
    out = torch.empty((N, M), dtype=x.dtype, device=x.device)
    transpose_kernel[(M,)](x, out, M, N, x.stride(0), x.stride(1), BLOCK=triton.next_power_of_2(N))
    return out
"""

HELPERS = """
@triton.jit
def tile_of(pid_m, pid_n, BLOCK: tl.constexpr):
    rows = pid_m * BLOCK + tl.arange(0, BLOCK)[:, None]
    cols = pid_n * BLOCK + tl.arange(0, BLOCK)[None, :]
    return rows, cols


def empty_transposed(x):
    return torch.empty(x.shape[::-1], dtype=x.dtype, device=x.device)
"""

WITH_HELPERS = """
@triton.jit
def transpose_kernel(x_ptr, out_ptr, M, N, stride_m, stride_n, BLOCK: tl.constexpr):
    rows, cols = tile_of(tl.program_id(0), tl.program_id(1), BLOCK)
    inside = (rows < M) & (cols < N)
    tile = tl.load(x_ptr + rows * stride_m + cols * stride_n, mask=inside, other=0)
    tl.store(out_ptr + cols * M + rows, tile, mask=inside)


def transpose(x):
    out = empty_transposed(x)
    grid = (triton.cdiv(x.shape[0], 64), triton.cdiv(x.shape[1], 64))
    transpose_kernel[grid](x, out, *x.shape, *x.stride(), BLOCK=64)
    return out
"""


def with_helpers(notebook: NotebookNode) -> NotebookNode:
    """Solve the transpose with helpers in a cell of their own."""
    cell = cell_of(solved(notebook), TRANSPOSE)
    cell.source = WITH_HELPERS
    insert_before(notebook, cell, HELPERS)
    return notebook


def with_a_copied_check(notebook: NotebookNode) -> NotebookNode:
    """Duplicate a check cell: JupyterLab's copy and paste keeps the metadata, so two cells have one grade_id."""
    check = cell_of(solved(notebook), TRANSPOSE, check=True)
    again = copy.deepcopy(check)
    again["id"] = "pasted"
    notebook.cells.insert(notebook.cells.index(check), again)
    return notebook


SAMPLES = [
    Sample(
        "missing-mask",
        "a transpose without masks",
        solved_but(TRANSPOSE, (", mask=inside", "")),
        earns={TRANSPOSE: 7},  # ragged 2 and strided 1 are lost: it reads outside
    ),
    Sample(
        "strided-access",
        "a right transpose that stores down columns",
        solved_but(TRANSPOSE, source=ONE_ROW_A_PROGRAM),
        earns={TRANSPOSE: 7},  # dense stores: 3
    ),
    Sample(
        "torch-call",
        "torch instead of a kernel",
        solved_but(TRANSPOSE, source="def transpose(x):\n    return x.T.contiguous()\n"),
        earns={TRANSPOSE: 0},
    ),
    Sample("copied-check", "a check cell copied, with its metadata", with_a_copied_check),
    Sample(
        "endless-loop",
        "a transpose that never returns",
        solved_but(TRANSPOSE, source="def transpose(x):\n    while True:\n        pass\n"),
        earns={TRANSPOSE: 0},
    ),
    Sample("helper-cell", "helper functions in an added cell", with_helpers),
]
