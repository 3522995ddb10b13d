"""docs/glossary.md and the code agree: each word has one meaning, and the code uses it so."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
TERMS = re.findall(r"^\| ([a-z][a-z ]*) \| (.+) \| `([\w.]+)` \|$", GLOSSARY.read_text("utf-8"), re.M)
OURS = sorted(
    path
    for room in ("course_lib", "grader", "benchmarks", "research", "tritontrace/src")
    for path in (ROOT / room).rglob("*.py")
)
TYPED = [
    path
    for room in ("course_lib", "grader", "tritontrace/src")
    for path in sorted((ROOT / room).rglob("*.py"))
    if "variants" not in path.parts
]
SOURCES = sorted((ROOT / "solutions").glob("*.py"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

# second meanings, which a word does not have here, and the word that is meant
ELSEWHERE = {
    r"[Ss]tudent'?s'? programs?\b|programs? of (?:a|an|the|one|each) (?:student|exercise|submission)\b": "answer",
    r"\bpublished programs?\b|\bclass _?Program\b|\bdef program\(": "answer",
    r"\bBRAIN\b": "bf16",
    r"[Mm]asked lanes?\b|lanes? (?:is|are) outside|lanes? of (?:a|one|the) (?:block|program)\b": "position",
}
# names that kernels of units 06 to 10 do not have, and the field's
FIELD = {
    "rows": "offs_m", "cols": "offs_n", "keys": "offs_n", "dims": "offs_d", "shrink": "alpha", "factor": "alpha",
    "mine": "q_offs", "theirs": "kv_offs", "there": "inside",
}  # fmt: skip
HELPERS = {"load_rows", "store_rows"}  # their rows are those of queries or of keys


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def test_the_glossary_is_short_sorted_and_one_line_a_word():
    words = [word for word, *_ in TERMS]
    rows = [line for line in GLOSSARY.read_text("utf-8").splitlines() if line.startswith("| ")]
    assert len(TERMS) == len(rows) - 2  # the head and its rule
    assert words == sorted(set(words))
    assert len(words) <= 32


@pytest.mark.parametrize("word, meaning, home", TERMS, ids=[word for word, *_ in TERMS])
def test_what_a_word_names_exists_and_uses_it(word, meaning, home):
    try:
        named = importlib.import_module(home)
    except ModuleNotFoundError:
        module, _, name = home.rpartition(".")
        named = getattr(importlib.import_module(module), name)
    said = f"{inspect.getsource(named)} {getattr(named, '__qualname__', '')}".lower().replace("_", " ")
    assert re.search(rf"\b{word}s?\b", said)


@pytest.mark.parametrize("words, meant", ELSEWHERE.items(), ids=ELSEWHERE.values())
def test_no_word_has_a_second_meaning(words, meant):
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in [*OURS, *PAGES, *SOURCES]
        for line in path.read_text("utf-8").splitlines()
        if re.search(words, line)
    ]
    assert found == [], f"it is {meant} here"


def test_whatever_is_called_judge_makes_findings_or_verdicts():
    plain = {("grader/cohort/workers.py", "judge")}  # verdicts, as they cross to another process
    found = []
    for path in OURS:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef) and re.fullmatch("judge(_all|_exercise|_submission)?", node.name):
                place = str(path.relative_to(ROOT)), node.name
                if place not in plain and not re.search(
                    "Finding|Verdict", ast.unparse(node.returns or ast.Constant(0))
                ):
                    found.append(place)
    assert found == []


def test_kernels_of_units_06_to_10_have_the_field_s_names():
    found = []
    units = [path for path in sorted((ROOT / "solutions").glob("*.py")) if "06" <= path.name[:2] <= "10"]
    broken = [ROOT / f"course_lib/exercises/{unit}/breaking.py" for unit in ("fusion", "flash", "flash_backward")]
    for unit in [*units, *broken]:
        for kernel in ast.walk(ast.parse(unit.read_text("utf-8"))):
            if isinstance(kernel, ast.FunctionDef) and "triton.jit" in map(ast.unparse, kernel.decorator_list):
                names = {node.id for node in ast.walk(kernel) if isinstance(node, ast.Name)}
                own = {"rows"} if kernel.name in HELPERS else set()
                found += [
                    f"{unit.name}, {kernel.name}: {name} is {FIELD[name]}" for name in (names & FIELD.keys()) - own
                ]
                if {
                    "m",
                    "m_new",
                } <= names:  # an online softmax: its sum is l, and what brings it to a new maximum alpha
                    found += [f"{unit.name}, {kernel.name}: no {name}" for name in ("l", "alpha") if name not in names]
    assert found == []


# What is left to rename. Both may only shrink.
TWICE = {
    "Access",
    "Body",
    "Code",
    "Fault",
    "ModuleCode",
    "Operation",
    "Programs",
    "Region",
    "Steps",
    "Stream",
    "Timed",
}  # type names with two homes: the engine's, and criteria, whose names are keys in exports
VAGUE = {
    "found": 382,
    "told": 46,
    "own": 80,
    "said": 78,
    "left": 57,
    "kept": 59,
}  # how often a result is assigned to such a name


def test_a_type_name_has_one_home():
    homes: dict[str, set[Path]] = {}
    for path in TYPED:
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, set()).add(path)
    assert {name for name, paths in homes.items() if len(paths) > 1} <= TWICE


def test_a_result_has_a_name_that_says_what_it_is():
    counts = Counter(
        node.id
        for path in TYPED
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in VAGUE
    )
    assert {word: n for word, n in counts.items() if n > VAGUE[word]} == {}
