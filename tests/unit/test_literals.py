"""A prediction is written down: numbers and arithmetic on them pass, whatever else runs does not."""

import pytest

from course_lib.handin.literals import problem, problem_of_cell

IMPORTS = ("<imports>", "import math\nimport numpy as np\nimport torch\nimport triton\n")

WRITTEN = [
    "p = {'a': 4 * 1024, 'b': 2**20, 'c': -1, 'd': not True, 'e': 10_000, 'f': ...}",
    "p = {'a': math.inf, 'b': float('inf'), 'c': np.inf, 'd': torch.inf}",
    "N = 1024\np = {'a': N // 64}\np['b'] = N % 100\np.update(c=3)\np |= {'d': 5}",
    "p = dict(a=sum(128 * k for k in range(9)), b=triton.cdiv(5000, 1024), c=math.ceil(5000 / 1024))",
    "from math import ceil, inf\np = {'a': ceil(2.5), 'b': inf}",
    "p: dict[str, int] = {'a': 1 if 3 > 2 else 0}",
    "'''What I think.'''\np = {}",
]

COMPUTED = {
    "p = {'a': torch.ones(3).sum().item()}": "a call of `torch.ones(3).sum().item`",
    "x = torch.ones(3)\np = {'a': x.nbytes}": "a call of `torch.ones`",
    "from course_lib import trace\nwith trace() as t:\n    pass\np = {'a': t.bytes}": "`with`",
    "p = {}\nfor k in 'ab':\n    p[k] = 1": "a loop",
    "def f(n):\n    return n\np = {'a': f(3)}": "a function",
    "p = {k: open(k) for k in 'ab'}": "a call of `open`",
    "p = (lambda: {'a': 1})()": "a call of `lambda: {'a': 1}`",
    "p = {'a': ().__class__.__base__}": "`().__class__.__base__`",
    "p = eval('{}')": "a call of `eval`",
    "r = max\np = {'a': r(1, 2)}": "a call of `r`",
    "from course_lib.hardware.measurements import measured as r\nr = r\np = {'a': r}": "`r`",
    "import course_lib.hardware.measurements as math\np = {'a': math.measured('tiling')}\nimport math": "a call of `math.measured`",
    "math = torch\np = {'a': math.ones(3)}": "`torch`",
    "from somewhere import *\np = {'a': TABLE}": "`TABLE`",
    "p = {'a': torch}": "`torch`",
    "p = {'a': __builtins__}": "`__builtins__`",
}


@pytest.mark.parametrize("source", WRITTEN)
def test_numbers_and_arithmetic_are_a_prediction(source):
    assert problem([IMPORTS, ("<cell 3>", source)], "p") == ""
    assert problem_of_cell(source, "p") == ""


@pytest.mark.parametrize("source", COMPUTED)
def test_what_runs_something_is_none_and_is_named(source):
    told = problem([IMPORTS, ("<cell 3>", source)], "p")
    assert told.startswith("`p` is a prediction: write numbers") and COMPUTED[source] in told and " of cell 3 " in told


def test_a_notebook_s_check_looks_at_what_the_answer_is_made_by():
    cell = "%%time\nseen = torch.ones(3)\nn = 4 * known\np = {'a': n}\nprint(p, seen)"
    assert problem_of_cell(cell, "p") == ""  # `known` may stand in another cell; `seen` is nobody's answer
    assert "Line 4 has a call of `count`" in problem_of_cell(cell.replace("4 * known", "0\nn = count(p)"), "p")
    assert (
        problem_of_cell("p = {'a': x.nbytes}", "p") and problem_of_cell("", "p") == problem_of_cell("p = (", "p") == ""
    )
