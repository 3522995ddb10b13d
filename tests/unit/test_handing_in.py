"""Handing in finished work: validate(), make_zip(), reset("..."), on notebooks as students leave them."""

import json
import os
import shutil
import time
import zipfile
from types import SimpleNamespace

import nbformat
import pytest
from nbformat.sign import NotebookNotary

from course_lib import content, make_zip, reset, validate
from course_lib.catalogue import say
from course_lib.exercises import UNITS, find
from course_lib.handin import files
from course_lib.handin.validate import MARK, validated

UNIT = "04_memory_coalescing"
NAME = f"{UNIT}.ipynb"
TRANSPOSE = find("coalescing.transpose")


@pytest.fixture
def notebook(tmp_path, monkeypatch):
    """The notebook as handed out, in the student's folder, where the kernel runs."""
    folder = tmp_path / "work" / UNIT
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))
    return shutil.copy(files.released(UNIT), folder / NAME)


def edit(path, change, grade_id=TRANSPOSE.grade_id):
    """Saves the notebook after change(nb, cell) to the cell of that id."""
    nb = nbformat.read(path, as_version=4)
    change(nb, next(c for c in nb.cells if c.metadata.get("nbgrader", {}).get("grade_id") == grade_id))
    nbformat.write(nb, path)


def solve(path):
    edit(path, lambda nb, cell: cell.update(source="def transpose(x):\n    return mine(x)\n\ndef mine(x): return x.T"))


def line(path, exercise=TRANSPOSE):
    return next(found for found in validated(path).lines if found.exercise == exercise)


# ------------------------------------------------------------------------------------------------------ validate


@pytest.mark.parametrize("unit", UNITS)
def test_handed_out_nothing_would_be_graded_and_solved_all(unit):
    solved = validated(content.ROOT / "solutions" / unit / f"{unit}.ipynb").lines
    assert [(found.exercise, found.remarks) for found in solved] == [(e, []) for e in files.exercises(unit)]
    assert all(found.graded for found in solved)


def test_a_stub_is_told_from_work(notebook):
    assert not any(found.graded for found in validated(notebook).lines)
    assert line(notebook).sentence.endswith("is the stub, as it was handed out.")
    solve(notebook)
    found = line(notebook)
    assert found.graded and found.sentence.endswith("would be graded.") and found.remarks == []
    edit(notebook, lambda nb, cell: cell.update(source=f"def transpose(x):\n    {MARK}\n    return x"))
    assert line(notebook).remarks == [f"`{MARK}` still stands in it."]


def test_a_dict_of_answers_has_no_line_for_code_below_it(notebook):
    """Answered, its cell ends with the dict, and no remark on a stub is left."""
    predictions = find("coalescing.predictions")

    def one_answered(nb, cell):
        assert cell.source.endswith("}") and cell.source.count("...") == 5
        cell.source = cell.source.replace("...", "1", 1)

    def answered(nb, cell):
        cell.source = cell.source.replace("...", "1")

    edit(notebook, one_answered, predictions.grade_id)
    assert line(notebook, predictions).remarks == ["4 answers are still `...`."]

    edit(notebook, answered, predictions.grade_id)
    assert line(notebook, predictions).graded and line(notebook, predictions).remarks == []


def renamed(nb, cell):
    cell.source = "def transposed(x): return x"


def deleted(nb, cell):
    nb.cells.remove(cell)


def text(nb, cell):
    nb.cells[nb.cells.index(cell)] = nbformat.v4.new_markdown_cell("No idea.", metadata=cell.metadata)


def broken(nb, cell):
    cell.source = "def transpose(x):\nreturn x"


@pytest.mark.parametrize(
    "change, sentence",
    [
        (renamed, "is defined in no cell; cell 45, its own, defines `transposed`. Call it `transpose` again."),
        (deleted, 'is defined in no cell, and its own is gone: reset("coalescing.transpose") brings that back.'),
        (text, "is defined in no cell: cell 45 is no code cell any more."),
        (broken, "The cell of transpose (cell 45) does not parse: line 2: expected an indented block"),
    ],
)
def test_what_would_not_be_graded_and_why(notebook, change, sentence):
    edit(notebook, change)
    assert not line(notebook).graded and sentence in line(notebook).sentence


def test_what_counts_and_is_odd_is_told(notebook):
    def elsewhere(nb, cell):
        nb.cells.remove(cell)
        nb.cells.append(nbformat.v4.new_code_cell("def transpose(x): return helped(x, factor)"))
        nb.cells.append(nbformat.v4.new_code_cell("def helped(x:"))

    edit(notebook, elsewhere)
    number = len(nbformat.read(notebook, as_version=4).cells) - 1
    assert line(notebook).graded and line(notebook).remarks == [
        f"Cell {number + 1}, which seems to define `helped`, does not parse.",
        "`factor`, which it needs, is defined in no cell: in grading it fails there.",
        f"The cell that was handed out for it is gone; cell {number} counts in its place.",
    ]


def test_what_lacks_a_name_is_not_ticked_and_brings_no_points(notebook, capsys):
    def lacking(nb, cell):
        cell.source = "def transpose(x): return SIZE * x"

    edit(notebook, lacking)
    validate()
    printed = capsys.readouterr().out
    assert "! coalescing.transpose" in printed and "`SIZE`, which it needs, is defined in no cell" in printed
    assert "1 of 13 exercises would be graded, for up to 0 of 82 points." in printed


def test_the_text_says_what_was_read_and_how_many_count(notebook, capsys):
    solve(notebook)
    validate()
    printed = capsys.readouterr().out
    assert printed.startswith(f"{NAME}, as it was saved at ") and "save first" not in printed
    assert f"1 of 13 exercises would be graded, for up to {TRANSPOSE.points:g} of 82 points." in printed
    assert "✓ coalescing.transpose" in printed and "✗ coalescing.row_copy" in printed
    os.utime(notebook, (time.time() - 600,) * 2)
    validate(NAME)
    assert "That is a while ago: save first (Ctrl+S)" in capsys.readouterr().out


@pytest.mark.parametrize(
    "content, sentence",
    [
        (b"{}", "has no cells"),
        (b"\xff", "does not read as JSON"),
        (json.dumps({"cells": [{"cell_type": "code", "source": "1"}]}).encode(), "has no exercise of this course"),
        (b" " * 100_000_001, "100 MB; 100 are allowed. Clear its outputs."),
    ],
)
@pytest.mark.parametrize("command", [validate, make_zip, lambda: reset(TRANSPOSE.id)])
def test_a_file_that_would_be_refused_is_a_sentence(notebook, capsys, command, content, sentence):
    notebook.write_bytes(content)
    command()
    printed = capsys.readouterr().out
    assert (sentence in printed or "is no exercise of" in printed) and printed.count("\n") == 1
    assert notebook.read_bytes() == content and [p.name for p in notebook.parent.iterdir()] == [NAME]


def test_which_notebook_it_is(notebook, monkeypatch, tmp_path, capsys):
    copy = shutil.copy(notebook, notebook.with_name("copy.ipynb"))
    assert files.here() == notebook  # named after its folder
    assert files.here("copy.ipynb") == copy
    monkeypatch.setenv("JPY_SESSION_NAME", str(copy))
    assert files.here() == copy
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "renamed.ipynb"))
    assert files.here() == notebook
    monkeypatch.chdir(tmp_path)
    validate()
    assert (
        capsys.readouterr().out == "Which notebook? Name it in the brackets, in quotes. In this folder: no notebook.\n"
    )
    validate("nowhere.ipynb")
    assert capsys.readouterr().out.startswith("There is no notebook nowhere.ipynb here.")


# ---------------------------------------------------------------------------------------------------- submission


def test_the_zip_holds_the_notebook_as_it_was_saved(notebook, capsys):
    solve(notebook)
    os.rename(notebook, notebook.with_name("mine.ipynb"))
    make_zip()
    target = notebook.with_name("mine.zip")
    with zipfile.ZipFile(target) as archive:
        assert archive.namelist() == [NAME]
        assert archive.read(NAME) == notebook.with_name("mine.ipynb").read_bytes()
    printed = capsys.readouterr().out
    assert "1 of 13 exercises would be graded" in printed
    assert f"Hand in mine.zip, {target.stat().st_size // 1000} kB." in printed and str(target) in printed
    assert {p.name for p in notebook.parent.iterdir()} == {"mine.ipynb", "mine.zip"}


def test_the_zip_of_a_newer_notebook_replaces_none_of_the_solved_one(notebook):
    solve(notebook)
    make_zip()
    handed_in = notebook.with_suffix(".zip").read_bytes()
    newer = shutil.copy(files.released(UNIT), notebook.with_name(f"{UNIT}_2.ipynb"))
    make_zip(newer.name)
    assert notebook.with_suffix(".zip").read_bytes() == handed_in and newer.with_suffix(".zip").exists()


def test_a_fuller_notebook_beside_the_one_handed_in_is_named(notebook, capsys):
    solve(notebook)
    newer = shutil.copy(files.released(UNIT), notebook.with_name(f"{UNIT}_2.ipynb"))
    notebook.with_name("broken.ipynb").write_text("{")
    make_zip(newer.name)
    assert f"{NAME}, beside it, has more to grade: 1 of 13 exercises" in capsys.readouterr().out
    make_zip(NAME)
    assert "beside it, has" not in capsys.readouterr().out


def test_what_cannot_be_written_is_a_sentence(notebook, capsys):
    solve(notebook)
    before = notebook.read_text()
    notebook.with_name("kept").write_text("a file where the folder should be")
    notebook.with_name(f"{UNIT}.zip").mkdir()
    make_zip()
    reset(TRANSPOSE.id)
    assert capsys.readouterr().out.count("cannot be written") == 2 and notebook.read_text() == before
    assert {p.name for p in notebook.parent.iterdir()} == {NAME, "kept", f"{UNIT}.zip"}


# --------------------------------------------------------------------------------------------------------- reset


def test_the_stub_comes_back_and_what_was_there_is_kept(notebook, capsys):
    handed_out = notebook.read_text()
    solve(notebook)
    reset(TRANSPOSE.id)
    assert notebook.read_text() == handed_out
    kept = notebook.with_name("kept") / "coalescing.transpose.1.py"
    assert "return mine(x)" in kept.read_text() and str(kept) in (printed := capsys.readouterr().out)
    assert "Reload Notebook from Disk" in printed
    solve(notebook)
    reset(TRANSPOSE.id)
    assert {p.name for p in kept.parent.iterdir()} == {kept.name, "coalescing.transpose.2.py"}
    reset(TRANSPOSE.id)
    assert capsys.readouterr().out.endswith("is as it was handed out. Nothing was changed.\n")


def test_the_stub_is_shown_for_pasting_as_well(notebook, capsys):
    """Two dialogs cost unsaved work if they are answered wrongly."""
    solve(notebook)
    reset(TRANSPOSE.id)
    said = capsys.readouterr().out
    assert said.index(say("handin.reset.reload")) < said.index(say("handin.reset.or_paste")) and said.endswith(
        f"\n\n{line_stub()}\n"
    )
    reset(TRANSPOSE.id)
    assert say("handin.reset.or_paste") not in capsys.readouterr().out


def test_in_a_notebook_all_of_it_is_html_and_escaped(notebook, monkeypatch, capsys):
    shown = []
    monkeypatch.setattr("IPython.get_ipython", lambda: SimpleNamespace(kernel=1))
    monkeypatch.setattr("IPython.display.display", lambda data, raw: shown.append(data))
    edit(notebook, lambda nb, cell: cell.update(source="def transpose(x):\n    return '<b>'"))
    validate(), reset(TRANSPOSE.id)
    table, said = (data["text/html"] for data in shown)
    assert table.count("<tr>") == len(files.exercises(UNIT)) and table.count('aria-label="would be graded"') == 1
    assert "`" not in table and "<b>" not in table + said
    assert "<pre>@triton.jit\ndef transpose_kernel(" in said and not capsys.readouterr().out


def test_only_the_exercise_s_own_cells_change(notebook):
    def copied(nb, cell):
        cell.source = "def transpose(x): return 1"
        nb.cells.append(nbformat.v4.new_code_cell("def transpose(x): return 2", metadata=cell.metadata))
        nb.cells.append(nbformat.v4.new_code_cell("x = 3"))

    edit(notebook, copied)
    before = nbformat.read(notebook, as_version=4).cells
    reset(TRANSPOSE.id)
    after = nbformat.read(notebook, as_version=4).cells
    assert [c.source for c in after if c not in before] == [line_stub()]
    assert [c.source for c in before if c not in after] == [f"def transpose(x): return {n}" for n in (1, 2)]
    assert after[-1].source == "x = 3"
    kept = (notebook.with_name("kept") / "coalescing.transpose.1.py").read_text()
    assert "return 1" in kept and "return 2" in kept


def line_stub():
    cells = nbformat.read(files.released(UNIT), as_version=4).cells
    return next(c.source for c in cells if c.metadata.get("nbgrader", {}).get("grade_id") == TRANSPOSE.grade_id)


def test_a_lost_cell_comes_back_before_its_check_and_with_it_if_that_is_lost(notebook, capsys):
    handed_out = notebook.read_text()
    edit(notebook, deleted)
    reset(TRANSPOSE.id)
    assert notebook.read_text() == handed_out and "nothing to keep" in capsys.readouterr().out
    edit(notebook, deleted)
    edit(notebook, deleted, TRANSPOSE.check_id)
    reset(TRANSPOSE.id)
    assert [c.grade_id for c in files.read(notebook)[1]][-2:] == [TRANSPOSE.grade_id, TRANSPOSE.check_id]


def test_another_definition_that_still_counts_is_told(notebook, capsys):
    def twice(nb, cell):
        cell.source = "def transpose(x): return 1"
        nb.cells.append(nbformat.v4.new_code_cell("def transpose(x): return 2"))

    edit(notebook, twice)
    number = len(nbformat.read(notebook, as_version=4).cells)
    reset(TRANSPOSE.id)
    assert f"`transpose` is defined in another cell as well: cell {number} would be graded." in capsys.readouterr().out


def test_what_was_not_saved_is_not_risked(notebook, capsys):
    solve(notebook)
    os.utime(notebook, (time.time() - 600,) * 2)
    before = notebook.read_text()
    reset(TRANSPOSE.id)
    assert notebook.read_text() == before and not notebook.with_name("kept").exists()
    assert capsys.readouterr().out.startswith(
        f"{NAME} was saved 10 minutes ago. Save it now (Ctrl+S), then run this again"
    )


def test_a_notebook_that_jupyter_trusts_stays_trusted(notebook):
    solve(notebook)
    notary = NotebookNotary()
    edit(notebook, lambda nb, cell: notary.sign(nb))
    reset(TRANSPOSE.id)
    assert notary.check_signature(nbformat.read(notebook, as_version=4))


def test_a_notebook_of_before_cells_had_ids_stays_one(notebook, recwarn):
    tree = json.loads(notebook.read_text())
    tree["nbformat_minor"] = 0
    for cell in tree["cells"]:
        del cell["id"]
    notebook.write_text(json.dumps(tree))
    edit(notebook, deleted)
    edit(notebook, deleted, TRANSPOSE.check_id)
    reset(TRANSPOSE.id)
    nb = nbformat.read(notebook, as_version=4)
    nbformat.validate(nb)
    assert nb.nbformat_minor == 0 and not recwarn.list


@pytest.mark.parametrize(
    "words, sentence",
    [
        (("tiling.matmul",), f"tiling.matmul is no exercise of {NAME}. Nothing was changed."),
        (
            ("coalescing.transpos",),
            "There is no exercise 'coalescing.transpos'. Did you mean \"coalescing.transpose\"?",
        ),
        (({"a": ...},), "An exercise is named in quotes, with its unit."),
        ((TRANSPOSE.id, 3), "There is no notebook 3 here."),
        ((TRANSPOSE.id, "nowhere.ipynb"), "There is no notebook nowhere.ipynb here."),
        ((TRANSPOSE.id, str(files.released(UNIT))), "is the notebook as it was handed out. Work in a copy"),
    ],
)
def test_what_cannot_be_reset_is_a_sentence(notebook, capsys, words, sentence):
    before = notebook.read_text()
    reset(*words)
    assert sentence in capsys.readouterr().out and notebook.read_text() == before


def test_an_exercise_that_was_not_handed_out_cannot_come_back(notebook, capsys, monkeypatch, tmp_path):
    fewer = tmp_path / "notebooks" / UNIT / NAME
    fewer.parent.mkdir(parents=True)
    edit(shutil.copy(notebook, fewer), deleted)
    monkeypatch.setattr(content, "ROOT", tmp_path)
    solve(notebook)
    reset(TRANSPOSE.id)
    assert capsys.readouterr().out == f"{TRANSPOSE.id} is no exercise of {NAME}. Nothing was changed.\n"


def test_without_the_notebook_as_handed_out_nothing_is_changed(notebook, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(content, "ROOT", tmp_path)
    solve(notebook)
    before = notebook.read_text()
    reset(TRANSPOSE.id)
    assert "as it was handed out is not here" in capsys.readouterr().out and notebook.read_text() == before
    assert (
        line(notebook).graded and f"`{MARK}` still stands in it." in line(notebook, find("coalescing.row_copy")).remarks
    )
