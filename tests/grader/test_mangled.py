"""Notebooks that a merge, a magic or a slip of the hand has mangled: read as meant where that is plain, else named with the line."""

import json

import pytest
import toy
from messages import parameters
from sentences import refusing, says

from course_lib.handin.cells import Problem, parse
from grader.judging.submission import Cell, Reading

DOUBLE, ROOT = toy.exercise("double", 10), toy.exercise("root", 4)
RIGHT = "def double(x):\n    return 2 * x\n"


def reading(*cells, exercises=(DOUBLE,)):
    """A notebook of cells (kind, source, grade_id), with the checks of the exercises behind them."""
    checks = [("code", f'check("{e.id}", {e.entry})', e.check_id) for e in exercises]
    return Reading([Cell(n, *cell) for n, cell in enumerate([*cells, *checks], 1)], list(exercises))


def double_of_3(read):
    names = {}
    for name, source in read.answer(DOUBLE).cells:
        exec(compile(source, name, "exec"), names)
    return names["double"](3)


def flagged(read):
    return [sentence for exercise, sentence in read.flags if exercise == "toy.double"]


@pytest.mark.parametrize("kind", ["markdown", "raw"])
@pytest.mark.parametrize("source", [RIGHT, f"```python\n{RIGHT}```", f"~~~\n{RIGHT}\n~~~"])
def test_an_answer_cell_of_another_kind_is_read_as_code(kind, source):
    read = reading((kind, source, "toy-double"))
    assert double_of_3(read) == 6 and read.cells[0].kind == "code"
    (sentence,) = flagged(read)
    assert sentence.startswith("Cell 1 is a") and read.work == ["toy.double"]


def test_text_in_an_answer_cell_stays_text():
    read = reading(("markdown", "I did not manage `double`.", "toy-double"))
    assert says(read.submission().refused["toy.double"], "handin.answer.undefined", name="double")
    both = reading(("markdown", "def double(x): return 7", "toy-double"), ("code", RIGHT, "toy-double"))
    assert double_of_3(both) == 6 and flagged(both) == []


@pytest.mark.parametrize("grade_id", ["toy-double", ""])
@pytest.mark.parametrize(
    "halves",
    [
        ["import functools\n@functools.cache", RIGHT],
        ["@staticmethod", "@staticmethod", "def double(x): return 2 * x"],
        ["FACTORS = [1,", "2]\ndef double(x): return FACTORS[1] * x"],
    ],
)
def test_a_cell_that_was_split_is_read_as_one(grade_id, halves):
    read = reading(*(("code", half, grade_id) for half in halves))
    assert double_of_3(read) == 6
    (sentence,) = flagged(read)
    assert sentence.startswith(f"Cells 1 to {len(halves)} ")


def test_a_cell_that_does_not_parse_takes_no_neighbour_along():
    read = reading(("code", "def double(x) return 7", "toy-double"), ("code", "helper = 1", "toy-double"))
    refused = read.submission().refused["toy.double"]
    assert "Cell 1" not in str(read.flags) and says(refused, "handin.answer.cell_does_not_parse", cell=1)
    apart = reading(("code", "@cache", "toy-root"), ("code", RIGHT, "toy-double"))
    assert double_of_3(apart) == 6 and flagged(apart) == []


def test_the_markers_of_a_merge_are_named_with_their_line_in_a_cell_and_in_the_file():
    merged = f"# mine\n<<<<<<< HEAD\n{RIGHT}=======\ndef double(x):\n    return x + x\n>>>>>>> theirs\n"
    read = reading(("code", merged, "toy-double"))
    refused = read.submission().refused["toy.double"]
    assert parameters(refused, "handin.answer.conflict") == {"line": 2, "marker": "<<<<<<< HEAD"}
    assert len(flagged(read)) == 1 and "line 2" in flagged(read)[0]

    notebook = json.dumps({"cells": [{"cell_type": "code", "source": RIGHT}]}, indent=1).split("\n")
    notebook[3:3] = ["<<<<<<< HEAD", "=======", ">>>>>>> theirs"]
    with refusing("handin.notebook.none", Problem):
        parse("\n".join(notebook).encode(), "a.ipynb")
    with refusing("handin.notebook.no_json", Problem, where=" (line 3)"):
        parse(b'{\n"cells":\n!', "a.ipynb")


@pytest.mark.parametrize(
    "cell, words",
    [
        (("code", f"%%writefile answers.py\n{RIGHT}", "toy-double"), "line 2, and `%%writefile`"),
        (("markdown", f"My answer:\n{RIGHT}", ""), "line 2, and is a Markdown cell"),
        (("raw", RIGHT, ""), "line 1, and is a raw cell"),
    ],
)
def test_an_answer_that_nothing_runs_is_named_on_the_page_and_to_look_at(cell, words):
    read = reading(cell)
    assert words in read.submission().refused["toy.double"]
    assert [words in sentence for sentence in flagged(read)] == [True]


def test_an_import_of_what_was_not_handed_in_is_named_with_its_line():
    source = "import math\nfrom my_answers import double"
    read = reading(("code", source, "toy-double"), ("code", "import torch", ""))
    assert flagged(read) == ["Cell 1, line 2, imports `my_answers`, which is not here. A file that was not handed in?"]
    assert flagged(reading(("code", f"import math, torch.nn as nn\n{RIGHT}", "toy-double"))) == []


def test_a_notebook_of_another_unit_is_judged_in_nothing(monkeypatch):
    """Though it happens to define a function of the same name."""
    from course_lib.handin import files

    toy.install(monkeypatch, DOUBLE, ROOT)
    other = list(files.read(files.released("05_tiling"))[1])
    read = Reading([*other, Cell(len(other) + 1, "code", RIGHT)], [DOUBLE, ROOT]).submission()
    assert read.answers == {} and read.attempted == []
    assert set(read.refused.values()) == {"This is a notebook of 05_tiling."}
