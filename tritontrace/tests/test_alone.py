"""The library knows nothing of the course that it began in: neither by its imports nor by its words."""

import ast
import re
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parents[1] / "src" / "tritontrace"
FILES = sorted(path.relative_to(SOURCES).as_posix() for path in SOURCES.rglob("*.py"))
ROOT = SOURCES.parents[1]
TELLING = {"test_alone.py", "test_installed.py"}  # they must name it
READ = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "tests").rglob("*.py"), *SOURCES.rglob("*.py")]
READ = sorted(path.relative_to(ROOT).as_posix() for path in READ if path.name not in TELLING)
COURSE = {"course_lib", "grader", "solutions", "benchmarks", "nbgrader"}
WORDS = re.compile(
    r"students?|courses?|course_lib|grad(?:e|es|ed|er|ers|ing)|nbgrader|exercises?|lessons?|homework", re.I
)
CHECK = re.compile(
    r"\b(?:a|each|the|own) check(?:'s)?\b|`check`|\bcheck\(\)|\bchecks run\b"
)  # the course's check(), not the verb
EXPECTED = {"of course"}


def imported(text: str) -> set[str]:
    """The packages that a module imports, wherever in it."""
    nodes = list(ast.walk(ast.parse(text)))
    names = [each.name for node in nodes if isinstance(node, ast.Import) for each in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.split(".")[0] for name in names}


def words_of(text: str) -> list[str]:
    """The words of a text that only a course would say; parts of names count, as in `course_picture`."""
    for phrase in EXPECTED:
        text = text.replace(phrase, "")
    words = [word for word in re.findall(r"[A-Za-z]+|\w+", text.replace("_", " ")) if WORDS.fullmatch(word)]
    return words + CHECK.findall(text)


@pytest.mark.parametrize("file", FILES)
def test_no_import_leads_to_the_course(file):
    assert not imported((SOURCES / file).read_text("utf-8")) & COURSE


@pytest.mark.parametrize("file", READ)
def test_no_word_speaks_of_the_course(file):
    assert words_of((ROOT / file).read_text("utf-8")) == []


def test_the_words_would_be_noticed():
    said = "the student's kernel, in a check that `grader` runs: COURSE_LIB_STILL, an exercise, of course"
    assert words_of(said) == ["student", "grader", "COURSE", "exercise", "a check"]
    assert words_of("hints that are checked; tensors that check their bounds") == []
    assert imported("def f():\n    from course_lib.words import plural") & COURSE
