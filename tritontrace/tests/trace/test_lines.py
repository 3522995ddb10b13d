"""Which line a sentence names, and what it shows of it."""

import linecache

import pytest
import torch

from tritontrace.replay import describe
from tritontrace.replay.kernels import rebuild
from tritontrace.tracing import trace
from tritontrace.ttir.sources import LONGEST, Source, code_of, source_of

CELL = """import triton
import triton.language as tl

@triton.jit
def copy(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)

    x = tl.load(x_ptr + i)  # a comment in the kernel
    tl.store(out_ptr + i, x, mask=i < n)
"""


def copy_of(file):
    linecache.cache[file] = (len(CELL), None, CELL.splitlines(keepends=True), file)
    scope = {}
    exec(compile(CELL, file, "exec"), scope)
    return scope["copy"]


def outside(kernel):
    """The fault of a load past the end."""
    with pytest.raises(Exception, match="element 10") as error, trace():
        kernel[(1,)](torch.ones(10), torch.empty(10), 10, BLOCK=16)
    return str(error.value)


@pytest.mark.parametrize("file, line", [("/tmp/ipykernel_7/1.py", 8), ("<cell 3>", 8), ("copy_in_a_file.py", 4)])
def test_a_line_of_a_cell_has_the_number_that_jupyterlab_shows(file, line):
    """Of a file it is counted from the `def`; so it stays in a kernel that is built again from a log."""
    kernel = copy_of(file)
    table = {}
    again = rebuild(table)[key] if (key := describe(kernel, table)) else None
    for one in (kernel, again):
        assert f"line {line}: `x = tl.load(x_ptr + i)`:" in outside(one)


def test_the_number_is_no_part_of_a_kernel():
    """A kernel in another place is the same kernel, and a log that lies about the place is read as one that says nothing."""
    tables = {}, {}
    keys = [describe(copy_of(file), table) for file, table in zip(("<cell 1>", "a.py"), tables, strict=True)]
    assert keys[0] == keys[1]
    for lie in (-1, 1 << 40, True, "5", None):
        again = rebuild({keys[0]: tables[0][keys[0]] | {"line": lie}})[keys[0]]
        assert source_of(again).shown_from == 1


@pytest.mark.parametrize(
    "line, code",
    [
        ("    x = 1  # one\n", "x = 1"),
        ('    x = "#"  # one\n', 'x = "#"'),
        ("    tl.store(out_ptr + i,  # the first half\n", "tl.store(out_ptr + i,"),
        ("    # nothing else\n", ""),
    ],
)
def test_comments_are_not_shown(line, code):
    assert code_of(line) == code


def test_long_lines_are_cut():
    shown = Source("k", 1, ("x = " + "1 + " * 99 + "1",), False).text(1)
    assert len(shown) == LONGEST and shown.endswith(" ...")
