"""The instructor's commands from the command line: `grade`, and what each says when something is missing."""

import json

import nbformat
import pytest
from nbformat import v4
from typer.testing import CliRunner

from course_lib.exercises import find
from course_lib.version import VERSION
from grader.__main__ import app
from grader.published import IMPORTS, solution_cell

UNIT = "04_memory_coalescing"
EXERCISES = ("coalescing.padded_stride", "coalescing.divergence_passes")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADER_HOME", str(tmp_path_factory.mktemp("home")))
        yield lambda *words: CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    cells = [v4.new_code_cell(IMPORTS)]
    for id in EXERCISES:
        cells.append(v4.new_code_cell(solution_cell(id) + "\nname = '<script>'\n"))
        cells[-1].metadata["nbgrader"] = {"grade_id": find(id).grade_id}
    path = tmp_path_factory.mktemp("work") / "ada.ipynb"
    nbformat.write(v4.new_notebook(cells=cells), path)
    return path


def test_one_notebook_is_judged_and_no_gradebook_touched(run, notebook):
    page = notebook.with_suffix(".html")
    done = run("grade", notebook, "--json", "--html", page, "--accept-risk")
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert (found["unit"], found["student"], found["points"], found["out_of"]) == (UNIT, "ada", 8, 50)
    assert found["version"] == VERSION and f"Course version {VERSION}." in page.read_text()
    earned = {v["exercise"]: v["points"] for v in found["verdicts"] if v["points"]}
    assert earned == dict.fromkeys(EXERCISES, 4)
    assert "8 of 50 points" in page.read_text() and "<script" not in page.read_text()
    assert not list(notebook.parent.glob("*.db"))
    text = run("grade", notebook, "--student", "ada", "--accept-risk").output  # from disk
    assert "ada, 04_memory_coalescing: 8 of 50 points" in text and "No code cell defines transpose." in text


@pytest.mark.parametrize(
    "words, sentence",
    [
        (("report", UNIT), f"{UNIT} has not been graded yet"),
        (("kill-matrix", "99_none"), "There is no unit '99_none'."),
        (
            ("kill-matrix", UNIT, "--exercise", "none"),
            f"{UNIT} has no exercise 'none' with variants. There are: sectors",
        ),
        (("export", UNIT, "canvas"), f"{UNIT} has not been graded yet"),
        (("extend", UNIT, "ada", "--days", "2"), "not in the gradebook yet"),
    ],
)
def test_what_is_missing_is_a_sentence(run, words, sentence):
    done = run(*words)
    assert done.exit_code == 1 and sentence in " ".join(done.output.split()) and "Traceback" not in done.output


def test_a_notebook_of_no_unit_is_a_sentence(run, tmp_path):
    path = tmp_path / "other.ipynb"
    nbformat.write(v4.new_notebook(cells=[v4.new_code_cell("1")]), path)
    done = run("grade", path)
    assert done.exit_code == 1 and "other.ipynb has no exercise of any unit here" in " ".join(done.output.split())


def test_one_exercise_s_variants_are_judged_alone(run):
    done = run("kill-matrix", UNIT, "--exercise", "padded_stride")
    assert done.exit_code == 0 and "8 of 8 variants lose what they should" in done.output
    assert "padded_stride" in done.output and "transpose" not in done.output
