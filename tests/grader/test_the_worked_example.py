"""docs/adding_an_exercise.md: its exercise, solution and variants do what the page says."""

import ast
import re
import textwrap
import tomllib

import pytest

import grader
from course_lib.checking import verdict
from course_lib.exercises.fusion import kernels
from grader.audit.variants import of_row
from tritontrace.replay import load

PAGE = (grader.ROOT / "docs" / "adding_an_exercise.md").read_text()
DEFINED, ANNOUNCED, SOLVED, HIDDEN, SPOILT = map(
    textwrap.dedent, re.findall(r"```(?:python|toml)\n(.*?)   ```", PAGE, re.S)
)
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
    rows = tomllib.loads(SPOILT)["swish"]
    variants = [of_row("fusion.swish", name, rows) for name in rows]
    for variant in variants:
        findings = judged(swish, *variant.patches).findings
        assert [f.key for f in findings if f.judged and not f.passed] == [*variant.loses], variant.name
    assert {bool(variant.loses) for variant in variants} == {True, False}


def test_its_hidden_cases_are_cases():
    assert ast.parse("match 'swish':\n" + textwrap.indent(HIDDEN, "    "))
