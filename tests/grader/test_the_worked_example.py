"""docs/adding_an_exercise.md: its exercise, solution and variants do what the page says."""

import ast
import re
import textwrap

import pytest

import grader
from course_lib.checking import verdict
from course_lib.exercises.fusion import kernels
from grader.audit.variants import fusion as variants
from tritontrace.replay import load

PAGE = (grader.ROOT / "docs" / "adding_an_exercise.md").read_text()
DEFINED, ANNOUNCED, SOLVED, HIDDEN, SPOILT = map(textwrap.dedent, re.findall(r"```python\n(.*?)   ```", PAGE, re.S))
IMPORTS = "import torch\nimport triton\nimport triton.language as tl\n"


@pytest.fixture(scope="module")
def swish():
    scope = dict(vars(kernels))
    exec(DEFINED, scope)
    return scope["swish"]


def judged(swish, *patches):
    source = SOLVED.partition("# %% check=")[0]
    for before, after in patches:
        assert before in source
        source = source.replace(before, after)
    return verdict(swish, load([("<cell 1>", IMPORTS + source)], "swish"), seed=1)


def test_its_announcement_names_each_criterion(swish):
    assert re.findall(r"\{\{(\w+\.\w+)\}\}", ANNOUNCED) == [criterion.key for criterion in swish.criteria]


def test_its_solution_earns_everything(swish):
    found = judged(swish)
    assert found.points == swish.points, found.findings


def test_its_variants_lose_what_they_say(swish):
    kinds = []
    for call in [node.value for node in ast.parse(SPOILT).body]:
        keys = [getattr(variants, name.id) for name in call.args[2].elts] if call.func.id == "wrong" else []
        patches = [ast.literal_eval(argument) for argument in call.args if isinstance(argument, ast.Tuple)]
        found = judged(swish, *patches)
        lost = [finding.key for finding in found.findings if finding.judged and not finding.passed]
        assert lost == keys, (call.args[1].value, lost)
        kinds.append(call.func.id)
    assert set(kinds) == {"wrong", "honest"}


def test_its_hidden_cases_are_cases():
    assert ast.parse("match 'swish':\n" + textwrap.indent(HIDDEN, "    "))
