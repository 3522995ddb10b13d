"""The command that asks whether tests notice changes, on a module of three functions."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import mutate
import pytest

SOURCE = '''\
"""At most 3 sectors."""


def sectors(first: int, last: int = 0) -> int:
    if first > last:
        raise ValueError(f"{first + 1} comes after {last}")
    return last - first + 1


def wait(n):
    while n > 0:
        n -= 1
    return True


class Shown:
    def __repr__(self):
        return str(1 + 1)
'''
TESTS = """\
from toy import sectors, wait


def test_sectors():
    assert sectors(2, 5) == 4


def test_wait():
    assert wait(3)


def test_red():
    assert False
"""
PLAN = """\
root = "."
copied = ["src", "test_toy.py"]
pythonpath = ["src"]
preloaded = []
modules = [{ path = "src/toy.py", tests = ["test_toy.py"] }]
"""
SURVIVORS = """
[[survivors]]
reason = "a sum is the same from either end"
mutants = ["src/toy.py, wait, `while n > 0:` -> `while n > 1:`"]
"""
BOUNDARY = "src/toy.py, sectors, `if first > last:` -> `if first >= last:`"


@pytest.fixture
def toy(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "toy.py").write_text(SOURCE)
    (tmp_path / "test_toy.py").write_text(TESTS)
    (tmp_path / "mutants.toml").write_text(PLAN + SURVIVORS)
    return tmp_path


def changes(text):
    return {ast.unparse(other) for other in mutate.alternatives(ast.parse(text, mode="eval").body)}


@pytest.mark.parametrize(
    "text, expected",
    [
        ("a < b", {"a <= b"}),
        ("a < b <= c", {"a <= b <= c", "a < b < c"}),
        ("a and b and c", {"a or b or c"}),
        ("not a", {"a"}),
        ("a is None", {"a is not None"}),
        ("3", {"4"}),
        ("True", {"False"}),
        ("max(a, b)", {"min(a, b)"}),
        ("'a' + b", set()),
        ("'word'", set()),
    ],
)
def test_what_an_expression_is_changed_into(text, expected):
    assert changes(text) == expected


def test_texts_types_and_what_is_shown_stay_as_they_are(toy):
    plan = mutate.read(toy / "mutants.toml")
    found = mutate.mutants(plan, plan.modules[0])
    assert {mutant.function for mutant in found} == {"sectors", "wait"}
    assert all("{first + 1} comes after {last}" in m.source or m.change.endswith("`pass`") for m in found)
    for mutant in found:
        ast.parse(mutant.source)
        assert len(mutant.source.splitlines()) == len(SOURCE.splitlines()), "lines keep their numbers"
    assert len({str(mutant) for mutant in found}) == len(found)


def test_the_strictness_of_a_zip_stays_as_it_is(toy):
    (toy / "src" / "toy.py").write_text("def pairs(a, b):\n    return dict(zip(a, b, strict=True))\n")
    plan = mutate.read(toy / "mutants.toml")
    assert mutate.mutants(plan, plan.modules[0]) == []


def run(toy, *options):
    command = [sys.executable, mutate.__file__, toy / "mutants.toml", "--jobs", "4", "--resume", toy / "done.jsonl"]
    done = subprocess.run([*command, *options], capture_output=True, text=True)
    lines = (toy / "done.jsonl").read_text().splitlines() if (toy / "done.jsonl").exists() else []
    entries = [json.loads(line) for line in lines]
    return done, {e["mutant"]: e for e in entries if "mutant" in e}, [e for e in entries if "tests" in e]


@pytest.mark.slow
def test_the_command(toy):
    stopped, none, _ = run(toy, "--seconds", "0")
    assert stopped.returncode == 3 and not none
    done, fates, (baseline,) = run(toy)
    assert baseline["red"] == ["test_toy.py::test_red"], "fails anyway, and is left out"
    outcomes = {name.partition("toy.py, ")[2]: entry["outcome"] for name, entry in fates.items()}
    assert outcomes["sectors, `return last - first + 1` -> `return last + first + 1`"] == "killed"
    assert fates["src/toy.py, wait, `return True` -> `return False`"]["by"] == "test_toy.py::test_wait"
    assert outcomes["wait, `n -= 1` -> `pass`"] == "timed out"
    assert outcomes["wait, `while n > 0:` -> `while n > 1:`"] == "survived"
    assert done.returncode == 1 and done.stdout.count(BOUNDARY) == 2, "when it is seen, and at the end"
    assert "n > 1" not in done.stdout.partition("NOT EXPLAINED")[2]
    assert (toy / "src" / "toy.py").read_text() == SOURCE
    (toy / "mutants.toml").write_text(
        PLAN + SURVIVORS.replace("mutants = [", "mutants = [" + ", ".join(repr(n) for n in survivors(fates)) + ", ")
    )
    again, same, _ = run(toy)
    assert again.returncode == 0 and same == fates, "what is done is not run again"


def survivors(fates):
    return [name for name, entry in fates.items() if entry["outcome"] == "survived"]


def test_a_plan_that_names_no_file_is_refused_in_a_sentence(toy):
    (toy / "mutants.toml").write_text(PLAN.replace("test_toy.py", "test_gone.py"))
    done, _, _ = run(toy)
    assert done.stderr.strip() == "mutants.toml names files that do not exist: test_gone.py."


def test_the_plan_of_the_engine_names_functions_and_survivors_that_exist():
    plan = mutate.read(Path(mutate.__file__).with_name("mutants.toml"))
    known = {str(mutant) for module in plan.modules for mutant in mutate.mutants(plan, module)}
    assert plan.allowed.keys() <= known
