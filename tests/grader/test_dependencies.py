"""Dependencies: which cells read what an earlier one gives, by names alone."""

import pytest
from nbformat.v4 import new_code_cell

from grader.building.dependencies import inputs


def readers(cells, number, instead):
    """The numbers of the other cells whose inputs are not the same with `instead` in the place of one."""

    def digests(sources):
        made = [new_code_cell(source, id=f"cell-{n}") for n, source in enumerate(sources)]
        return [found.digest for found in inputs(made).values()]

    before, after = digests(cells), digests([instead if n == number else cell for n, cell in enumerate(cells)])
    assert before[number] != after[number]
    return [n for n in range(len(cells)) if before[n] != after[n] and n != number]


KERNEL = "import triton\nfrom course_lib import trace\n@triton.jit\ndef k(x, out): ..."
TRACED = [KERNEL, "x, out = [1], [0]", "with trace() as t:\n    k[1,](x, out)\nt.show()", "print(out)", "print(k)"]


@pytest.mark.parametrize(
    "cells, number, instead, found",
    [
        (["a = 1", "b = a", "print(b)", "c = 2", "print(c)"], 0, "a = 2", [1, 2]),
        (
            ["a = 1", "b = a", "a = 2", "print(a)", "print(b)"],
            0,
            "a = 3",
            [1, 4],
        ),  # what b was made of, not the later a
        (["def f(): return A", "A = 1", "print(f())", "A = 2", "print(f())"], 1, "A = 3", [2]),
        (["def f(): return g()", "def g(): return A", "A = 1", "print(f())"], 2, "A = 3", [3]),
        (["def f(): return A", "A = 1", "a = f()", "A = 2", "print(a)"], 3, "A = 3", []),
        (["a = []", "a.append(1)", "print(a)", "a = []", "print(a)"], 1, "a.append(2)", [2]),
        (["a = {}", "for i in (1, 2):\n    a[i] = i", "print(a)"], 1, "for i in (1, 3):\n    a[i] = i", [2]),
        (["a = 1\nb = 1", "print(a)", "print(b)"], 0, "a = 1\nb = 2", [2]),  # statements count, not cells
        (["import math, os", "math.pi", "os.sep"], 0, "import math, re", [2]),
        (["from os import path, sep", "path", "sep"], 0, "from os import path, sep, walk", []),
        (["from os import *", "sep", "1"], 0, "from sys import *", [1, 2]),  # its names cannot be known
        (["import torch", "torch.manual_seed(0)", "torch.rand(1)", "2"], 1, "torch.manual_seed(1)", [2]),
        (["import pylab", "pylab.plot(1)", "pylab.plot(2)"], 1, "pylab.plot(3)", []),
        (["f = 1", "def f(x): ...", "f(2)", "f(3)"], 2, "f(4)", []),
        (["def f(): ...", "f()"], 0, "# a line\ndef f(): ...", [1]),  # traces show the lines of functions
        (["def f(): ...", "f()"], 0, "def f(): ...\n# a line", []),
        (["a = 1", "a = = 1", "print(a)"], 1, "a = = 2", []),  # does not parse: it never runs
        (["a = 1", "%time a", "!ls", "print(a)"], 0, "a = 2", [3]),
        (["from course_lib import check, progress", 'check("x", 1)', "progress()"], 1, 'check("x", 2)', [2]),
        (TRACED, 2, TRACED[2].replace("t.show", "t.draw"), []),
        (TRACED, 2, TRACED[2].replace("(x, out)", "(out, x)"), [3]),  # a kernel writes where it is given
        (TRACED, 0, KERNEL.replace("...", "x"), [2, 3, 4]),
        ([*TRACED[:3], TRACED[2], "t.show()"], 2, TRACED[2].replace("t.show", "t.draw"), []),  # another t
    ],
)
def test_readers(cells, number, instead, found):
    assert readers(cells, number, instead) == found


def test_a_cell_that_is_written_twice_counts_where_it_stands():
    made = [new_code_cell(source, id=f"{n}") for n, source in enumerate(["a = 1", "print(a)", "a = 2", "print(a)"])]
    found = inputs(made)
    assert found["1"].digest != found["3"].digest
    assert (found["1"].cells, found["3"].cells) == ({"0"}, {"2"})
