import json
import os
import time

import pytest
import toy
from sentences import refusing, says

import grader
from course_lib.handin import files
from course_lib.handin.cells import Problem
from course_lib.handin.statements import statements
from grader.judging import submission
from grader.judging.submission import Cell, Reading
from grader.reporting import sources

DOUBLE, ROOT = toy.exercise("double", 10), toy.exercise("root", 4)
STUB = "def double(x):\n    ...  # your code here"


def code(source, grade_id=""):
    return source, grade_id


def answer(*cells, release=(), exercise=DOUBLE):
    """The answer to the exercise, in a notebook of code cells."""

    def numbered(cells):
        return [Cell(n, "code", *(c if isinstance(c, tuple) else (c, ""))) for n, c in enumerate(cells, 1)]

    return Reading(numbered(cells), [DOUBLE, ROOT], numbered(release)).answer(exercise)


def value(*cells, **more):
    """The result of double(3) when the program runs."""
    names = {}
    for name, source in answer(*cells, **more).cells:
        exec(compile(source, name, "exec"), names)
    return names["double"](3)


def write(path, cells, **notebook):
    content = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells} | notebook
    path.write_text(json.dumps(content))
    return path


# ------------------------------------------------------------------------------------------------------ the file


@pytest.mark.parametrize(
    "content, sentence",
    [
        (b"<html>", "no_json"),
        (b"\xff\xfe\x00", "no_json"),
        (b"[" * 100_000, "no_json"),
        (b"1" * 10_000, "no_json"),
        (b"", "no_json"),
        (b"[]", "no_cells"),
        (b'{"cells": {"a": 1}}', "no_cells"),
        (b'{"cells": ' + b"[" + b"{}," * 3_000 + b"{}]}", "cells"),
        (b'{"cells": [{"cell_type": "code", "source": "' + b"x" * 1_100_000 + b'"}]}', "characters"),
    ],
)
def test_what_is_not_a_notebook_is_refused_in_a_sentence(tmp_path, content, sentence):
    path = tmp_path / "a.ipynb"
    path.write_bytes(content)
    with refusing(f"handin.notebook.{sentence}", Problem):
        submission.read(path, [DOUBLE]).answer(DOUBLE)


def test_huge_linked_missing_and_special_files_are_refused(tmp_path):
    path = tmp_path / "unit" / "a.ipynb"
    path.parent.mkdir()
    with refusing("judging.file.missing", Problem, name="a.ipynb"):
        submission.load(path)
    with path.open("wb") as file:
        file.truncate(submission.MAX_FILE + 1)
    with refusing("handin.notebook.large", Problem, most=100):
        submission.load(path)
    os.remove(path)
    os.mkfifo(path)
    with refusing("judging.file.irregular", Problem):
        submission.load(path)
    os.remove(path)
    other = write(tmp_path / "other.ipynb", [{"cell_type": "code", "source": "def double(x): return 2 * x"}])
    path.symlink_to(other)
    with refusing("judging.file.link", Problem):
        submission.load(path)
    (tmp_path / "linked").symlink_to(path.parent)
    with refusing("judging.file.link", Problem):
        submission.load(tmp_path / "linked" / "a.ipynb")


def test_odd_cells_are_read_as_far_as_they_go(tmp_path):
    cells = [
        None,
        {},
        {"cell_type": "code"},
        {"cell_type": "code", "source": 7, "metadata": [], "id": "same"},
        {"cell_type": "code", "source": ["def double(x):\n", "    return 2 * x\n", None], "id": "same", "outputs": "?"},
        {"cell_type": "slide", "source": "\ud800", "metadata": {"nbgrader": {"grade_id": ["x"]}}},
        {"cell_type": "code", "source": "1", "metadata": {"nbgrader": "x", "tags": ["skip-execution"]}},
    ]
    read = submission.read(write(tmp_path / "a.ipynb", cells, nbformat="four", metadata=None), [DOUBLE])
    assert [c.kind for c in read.cells] == ["markdown"] * 2 + ["code"] * 3 + ["markdown", "code"]
    assert read.cells[5].source == "?" and read.cells[5].grade_id == ""
    assert read.answer(DOUBLE).cells == [("<cell 5>", "def double(x):\n    return 2 * x\n")]


def test_version_3_is_read(tmp_path):
    cells = [{"cell_type": "code", "input": ["def double(x):\n", "    return 2 * x"], "language": "python"}]
    path = write(tmp_path / "a.ipynb", None, nbformat=3, worksheets=[{"cells": cells}])
    assert submission.read(path, [DOUBLE]).answer(DOUBLE).cells[0][1].startswith("def double")


def test_outputs_are_never_looked_at(tmp_path):
    evil = {"output_type": "display_data", "data": {"text/html": "<script>1</script>", "application/javascript": "1"}}
    cell = {"cell_type": "code", "source": "double = abs", "outputs": [evil] * 3}
    read = submission.read(write(tmp_path / "a.ipynb", [cell]), [DOUBLE])
    assert "script" not in repr(read.cells)


def test_large_outputs_are_dropped_while_they_are_read(tmp_path):
    image = {"output_type": "display_data", "data": {"image/png": "A" * 5_000_000}}
    shown = {"output_type": "stream", "text": ["[[1.0, 2.0]] é 🙂\n"] * 200_000}
    cell = {"cell_type": "code", "source": "double = abs", "outputs": [image] * 4 + [shown] * 5}
    path = write(tmp_path / "a.ipynb", [cell, {"cell_type": "markdown", "attachments": {"x.png": image}}])
    assert path.stat().st_size > 45_000_000
    assert submission.read(path, [DOUBLE]).answer(DOUBLE).cells == [("<cell 1>", "double = abs\n")]


# ------------------------------------------------------------------------------------------------- which cell


def test_the_solution_is_found_by_its_id_and_the_last_copy_counts():
    copies = code("def double(x): return 1", "toy-double"), code("def double(x): return 2", "toy-double")
    assert value(*copies) == 2
    assert answer(*copies).flags == ["`double` is defined in the cells 1, 2; cell 2 counts."]
    assert value(code("def double(x): return 1", "toy-double"), code("y = 1", "toy-double")) == 1


def test_a_cell_that_has_lost_its_id_is_found_by_what_it_defines():
    assert value("def double(x): return 1", "def double(x): return 2") == 2
    assert value("double = lambda x: 7") == 7


def test_what_stands_between_the_solution_and_its_check_is_what_the_check_judged():
    check = code('check("toy.double", double)', "toy-double-check")
    first = code("def double(x): return 1", "toy-double")
    assert value(first, "def double(x): return 2", check, "def double(x): return 3") == 2
    assert value(first, check, "def double(x): return 3") == 1  # an experiment further down


def test_an_untouched_stub_yields_to_work_elsewhere():
    release = [code(STUB, "toy-double"), code('check("toy.double", double)', "toy-double-check")]
    assert value(release[0], release[1], "def double(x): return 3", release=release) == 3
    assert value(*release, release=release) is None


def test_missing_and_broken_solutions_are_named():
    with refusing("handin.answer.undefined", Problem, name="double"):
        answer("x = 1")
    with refusing("handin.answer.cell_does_not_parse", Problem, name="double", cell=1):
        answer(code("def double(x):\nreturn 1", "toy-double"))
    with refusing("handin.answer.other_cell_does_not_parse", Problem, name="double", cell=2):
        answer("1", "def double(x) return")
    for source in ("def double(x): return '\0'", "double = " + "(" * 5000, "double = " + "-" * 100_000 + "1"):
        with refusing("handin.answer.other_cell_does_not_parse", Problem, cell=1):
            answer(source)


def test_a_function_by_another_name_in_the_exercise_s_cell_is_named():
    release = [code(STUB, "toy-double"), code('check("toy.double", double)', "toy-double-check")]
    mine = code("def helper(a, b): return a\ndef my_double(x): return 2 * x", "toy-double")
    with refusing("handin.answer.undefined", Problem, name="double", any=True, other="my_double"):
        answer(mine, release=release)
    for cell in (
        code("def one(x): return x\ndef two(x): return x", "toy-double"),
        code("def f(y): return y", "toy-double"),
    ):
        with refusing("handin.answer.undefined", Problem, name="double", any=False, other=""):
            answer(cell, release=release)


def test_a_stub_pasted_below_does_not_beat_the_solution():
    stub = "import math\n\ndef helper(x):\n    ...\n\ndef double(x):\n    ...  # your code here"
    release = [code(stub, "toy-double"), code('check("toy.double", double)', "toy-double-check")]
    work = code("def helper(x): return 2 * x\ndef double(x): return helper(x)", "toy-double")
    pasted = [(stub, "toy-double"), (stub, ""), (stub.replace("here", "here  ") + "\r\n", "toy-double")]
    for copy in pasted:
        assert value(work, release[1], copy, release=release) == 6
        assert value(work, copy, release[1], release=release) == 6  # its helper neither
        assert answer(work, release[1], copy, release=release).flags == [
            "`double` is defined in the cells 1, 3; cell 1 counts, the last that is not as it was handed out."
        ]
        assert value(copy, work, release[1], release=release) == 6
    assert value(work, release[1], code("def double(x): return 5", "toy-double"), release=release) == 5
    assert value(release[0], code("helper = abs"), release[1], release=release) is None  # no work on double itself


def test_what_a_stub_was_handed_out_with_stays_where_the_work_is_elsewhere():
    stub = "def given(x): return 3 * x\n\ndef double(x):\n    ...  # your code here"
    release = [code(stub, "toy-double"), code('check("toy.double", double)', "toy-double-check")]
    found = answer(release[0], "def double(x): return given(x)", release[1], release=release)
    assert [name for name, _ in found.cells] == ["<cell 1>", "<cell 2>"] and found.missing == []


def test_a_solution_typed_into_its_check_cell_is_read():
    check = 'check("toy.double", double)'
    release = [code(STUB, "toy-double"), code(check, "toy-double-check")]
    typed = code(f"def double(x): return 6\n{check}", "toy-double-check")
    assert value(typed) == 6 and value(release[0], typed, release=release) == 6
    # it is what that check judged
    found = answer(code("def double(x): return 1", "toy-double"), typed, release=release)
    assert found.cells == [("<cell 2>", "def double(x): return 6\n")]
    assert found.flags == ["`double` is defined in the cells 1, 2; cell 2 counts."]


def test_what_stands_below_a_check_was_not_judged_by_it():
    typed = code('check("toy.double", double)\ndef double(x): return 7', "toy-double-check")
    assert value(code("def double(x): return 1", "toy-double"), typed) == 1


def test_check_cells_define_nothing_else():
    with refusing("handin.answer.undefined", Problem, name="double"):
        answer(code("def double(x) return 6", "toy-double-check"))
    with refusing("handin.answer.undefined", Problem, name="double"):
        answer(code("def double(x): return 6", "toy-root-check"))
    assert answer(code("helper = 1", "toy-root-check"), "def double(x): return helper").missing == ["helper"]
    edited = Reading(
        [Cell(1, "code", "check = 1", "toy-double-check")], [DOUBLE], [Cell(1, "code", "c", "toy-double-check")]
    )
    assert edited.flags == [("toy.double", "The check cell of `toy.double` was edited (cell 1).")]
    assert Reading([], [DOUBLE]).flags == [("toy.double", "The check cell of `toy.double` is missing.")]


def test_a_check_cell_that_a_hosted_notebook_took_the_id_of_is_not_missing(monkeypatch):
    toy.install(monkeypatch, DOUBLE)
    check = 'check("toy.double", double)'
    release = [Cell(1, "code", STUB, "toy-double"), Cell(2, "code", check, "toy-double-check")]
    bare = [Cell(1, "code", "def double(x): return 2 * x"), Cell(2, "code", check), Cell(3, "code", "double = abs")]
    read = Reading(bare, [DOUBLE], release)
    assert [sentence for _, sentence in read.flags] == ["`double` is defined in the cells 1, 3; cell 3 counts."]
    assert files.unit_of(bare) == toy.UNIT
    own = [*release, Cell(3, "code", check)]  # a second one of the student's is no check cell
    assert [cell.grade_id for cell in Reading(own, [DOUBLE], release).cells] == ["toy-double", "toy-double-check", ""]
    reworded = Reading([*bare[:1], Cell(2, "code", f"{check};")], [DOUBLE], release)
    assert reworded.flags == [("toy.double", "The check cell of `toy.double` is missing.")]


def test_the_notebook_of_another_unit_is_told_in_a_sentence(monkeypatch):
    toy.install(monkeypatch, DOUBLE, ROOT)
    other = files.read(files.released("05_tiling"))[1]
    assert Reading(other, [DOUBLE, ROOT]).flags == [("", "This is a notebook of 05_tiling.")]


def test_what_a_person_should_see_is_told_once_and_of_a_refused_file_only_why():
    cells = [
        Cell(1, "code", "def helper(x:"),
        Cell(2, "code", "def double(x): return helper(x)"),
        Cell(3, "code", "def root(x): return helper(x)"),
        *(Cell(4 + i, "code", "check()", f"toy-{name}-check") for i, name in enumerate(("double", "root"))),
    ]
    assert Reading(cells, [DOUBLE, ROOT]).flags == [
        ("toy.double", "Cell 1, which seems to define `helper`, does not parse.")
    ]
    assert Reading([], [DOUBLE], problem="a.ipynb is a folder.").flags == [("", "a.ipynb is a folder.")]


# ------------------------------------------------------------------------------------------------- what runs


def test_helpers_come_along_from_anywhere_and_nothing_else_does():
    ran = answer(
        "import math, os\nfrom course_lib import check",
        "while True: pass",
        "FACTOR = 2",
        "import seaborn",
        "os._exit(1)",
        code("def double(x):\n    return helper(x)\n\nprint(double(1))\ncheck('toy.double', double)", "toy-double"),
        "def helper(x):\n    return FACTOR * x",
        "raise SystemExit",
    )
    assert ran.cells == [
        ("<cell 3>", "FACTOR = 2\n"),
        ("<cell 6>", "def double(x):\n    return helper(x)\n"),
        ("<cell 7>", "def helper(x):\n    return FACTOR * x\n"),
    ]
    assert ran.entry == "double" and ran.flags == []


def test_a_local_variable_is_not_a_global_one():
    assert (
        answer("x = slow()", "out = 1", "def double(x):\n    out = [x for y in x]\n    return out").cells[0][0]
        == "<cell 3>"
    )


def test_demos_within_the_solution_cell_do_not_run():
    source = """\
import math
def kernel(): return 2
def double(x):
    return kernel() * x
x = double(1)
assert x == 2
with trace() as t:
    double(5)
for i in range(3):
    double(i)
kernel[(1,)](x)
while True: pass
"""
    kept = answer(code(source, "toy-double")).cells[0][1]
    assert kept == "\ndef kernel(): return 2\ndef double(x):\n    return kernel() * x\n"


def test_what_configures_something_needed_runs():
    sources = (
        "import torch, triton\nfrom m import n",
        "table = {}\nconfigs = []",
        "def alloc(size): return size\ntriton.set_allocator(alloc)\ntriton.runtime.synchronize()",
        "configs.append(1); table[0] = n; other = 3",
        "def double(x):\n    return triton.cdiv(x, table[0]) + len(configs)",
    )
    text = answer(*sources).source
    for kept in ("triton.set_allocator(alloc)", "def alloc", "configs.append(1); table[0] = n", "from m import n"):
        assert kept in text
    assert "synchronize" not in text and "other" not in text


def test_a_name_means_what_it_meant_at_the_check():
    cells = (
        "BLOCK = 1",
        code("BLOCK = 2\ndef double(x): return BLOCK", "toy-double"),
        code("check('toy.double', double)", "toy-double-check"),
        code("BLOCK = 3\ndef root(x): return BLOCK", "toy-root"),
    )
    assert value(*cells) == 2
    assert [name for name, _ in answer(*cells).cells] == ["<cell 2>"]
    assert [name for name, _ in answer(*cells, exercise=ROOT).cells] == ["<cell 4>"]


def test_conditional_and_incremental_definitions_keep_what_they_build_on():
    assert value("N = 1", "N += 1", "if N > 5:\n    N = 9", "def double(x): return N") == 2
    assert value("f = 3\nf = f * 2", "def double(x): return f") == 6
    assert value("try:\n    import nothing_there as m\nexcept ImportError:\n    m = 5", "def double(x): return m") == 5


@pytest.mark.parametrize(
    "cells",
    [
        ["def double(x): return 2 * x\nplain = double\ndef double(x): return plain(x)"],
        ["def double(x): return 2 * x", "plain = double\ndef double(x): return plain(x)"],
        [
            "def wrapped(f): return f",
            "@wrapped\ndef double(x): return 2 * x",
            "plain = double\ndef double(x): return plain(x)",
        ],
        ["def double(x): return 2 * x", "table = {'plain': double}\ndouble = lambda x: table['plain'](x)"],
        [
            "def double(x): return 2 * x",
            "class Plain:\n    run = staticmethod(double)\ndef double(x): return Plain.run(x)",
        ],
        ["def double(x): return 2 * x", "def double(x, plain=double): return plain(x)"],
        ["N = 2", "SIZES = [N for _ in range(3)]", "N = 7", "def double(x): return SIZES[0] * x"],
        [
            "def h(): return 2",
            "def g(): return h()",
            "TWO = g()",
            "def h(): return TWO * 2",
            "def double(x): return TWO * x",
        ],
        ["N = 2", "def g(): return N", "TWO = g()", "N = TWO + 5", "def double(x): return TWO * x + 0 * N"],
        [
            "sizes = [1]",
            "sizes.append(1)",
            "TWO = sum(sizes)",
            "sizes = []",
            "def double(x): return TWO * x + len(sizes)",
        ],
        ["import math as m", "TWO = m.floor(2.5)", "m = 3", "def double(x): return TWO * x + 0 * m"],
        ["TWO = N * 2", "N = 1", "def double(x): return 2 * x"],
    ],
    ids=lambda cells: " | ".join(cells)[:60],
)
def test_what_takes_a_value_takes_the_one_of_its_moment(cells):
    *others, last = cells
    assert value(*others, code(last, "toy-double")) == 6


def test_what_is_missing_is_told_once():
    assert answer("M = N", "def double(x): return M + N").missing == ["N"]


def test_a_chain_of_names_is_followed_in_little_time():
    chain = "\n".join(f"a = b = c{n + 1} = [a, b, c{n}]" for n in range(300))
    start = time.process_time()
    answer("a = b = c0 = 1", code(f"{chain}\ndef double(x): return a", "toy-double"))
    assert time.process_time() - start < 2


def test_imports_of_one_name_all_run_and_star_imports_always():
    text = answer(
        "import os", "import os.path", "from math import *", "def double(x): return os.path.sep, floor(x)"
    ).source
    assert text.split("\n\n\n") == [
        "import os",
        "import os.path",
        "from math import *",
        "def double(x): return os.path.sep, floor(x)\n",
    ]


def test_deleted_imports_come_back_from_the_release():
    ran = answer("def double(x): return math.floor(x)", release=["import math\nimport os"])
    assert ran.cells[0] == ("<handed-out cell 1>", "import math\n")
    assert ran.flags == ["`math` is defined in no cell; the cell that was handed out is used."]


def test_a_broken_helper_is_flagged():
    assert answer("def helper(x:", "def double(x): return helper(x)").flags == [
        "Cell 1, which seems to define `helper`, does not parse."
    ]


def test_lines_stay_where_they_were():
    source = (
        'print(1)\n\n@staticmethod\ndef double(x):\n    """a\nb"""\n    return x  # "é"\n\nx = "é"; y = 2; double(x)'
    )
    kept = answer(code(source + "\nz = lambda: (\n  y)", ""), "def root(x): return z()", exercise=ROOT).cells[0][1]
    assert kept.split("\n")[8:] == ["y = 2", "z = lambda: (", "  y)", ""]
    kept = answer(code(source, "")).cells[0][1].split("\n")
    assert kept[:2] == ["", ""] and kept[2:7] == [*source.split("\n")[2:6], "    return x"]


def test_magics_are_blanked():
    body = "def double(x):\n    return 2 * x"
    assert value("%matplotlib inline\n!pip install x\n" + body) == 6
    assert value("%%time\n" + body) == 6
    assert value("files = !ls\ndouble?\n" + body) == 6
    assert value("def double(x):\n    %time 1\n    return 2 * x") == 6
    assert value("def double(x):\n    return '''\n%no magic'''.count('magic')") == 1  # a string, not a magic
    assert value("%%bash\ndef double", body) == 6
    assert answer("\n%time 1\n" + body).cells[0][1].startswith("\n\ndef")


def test_windows_line_ends_and_tabs():
    assert value("def double(x):\r\n\treturn 2 * x\r\n") == 6


def test_a_cell_that_touches_globals_by_name():
    assert value("def setup():\n    global N\n    N = 4", "N = 2", "def double(x): return N") == 2


# ------------------------------------------------------------------------------------------------- what is too much


def test_more_statements_than_a_notebook_has_are_refused_before_they_are_looked_at():
    assert value("a;" * (submission.MAX_STATEMENTS - 1), "def double(x): return 2") == 2
    for cells in (("a;" * 400_000,), ("a\n" * 1_500, "def double(x): return 2\n" + "b;" * 1_500)):
        with refusing("handin.notebook.statements", Problem, most=2000):
            answer(*cells)


def test_a_cell_that_seems_to_define_everything_gives_flags_that_can_be_read():
    names = [f"a{i}" for i in range(5_000)]
    broken = "def x(:\n" + "\n".join(f"{name} = 1" for name in names)
    flags = answer(broken, f"def double(x): return [{', '.join(names)}]").flags
    assert len(flags) == submission.MAX_FLAGS + 1 and flags[-1] == "And 4980 more of this kind."


def test_lines_lists_and_unreadable_files_are_refused(tmp_path):
    path = write(tmp_path / "a.ipynb", [{"cell_type": "code", "source": "a\n" * 30_000}])
    with refusing("handin.notebook.lines", Problem, lines=30_000, most=20_000):
        submission.load(path)
    path.write_bytes(b'{"cells": [' + b"[]," * 5_000_001 + b"[]]}")
    with refusing("handin.notebook.lists", Problem, most=5_000_000):
        submission.load(path)


def test_encodings_of_editors_are_read(tmp_path):
    text = json.dumps({"cells": [{"cell_type": "code", "source": "double = abs  # é"}]}, ensure_ascii=False)
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"):
        (tmp_path / "a.ipynb").write_bytes(text.encode(encoding))
        assert submission.load(tmp_path / "a.ipynb")[0].source == "double = abs  # é"


def test_names_of_students_are_names():
    for name in ("ada", "Ada Lovelace", "o'neill", "ada.l@uni.example", "лёня", "a_b-c+d", "42"):
        assert not submission.misnamed(name)
    for name in ("*", "a*", "[ab]", "<b>", "..", "-rf", "", " ada", "a\nb", "a/b", "a" * 101):
        assert "is not a student's name" in submission.misnamed(name)


# ------------------------------------------------------------------------------------------ what costs its reader


@pytest.mark.parametrize(
    "deep", ["1 if 0 else " * 2_500 + "2", "not " * 2_500 + "1", "x" + ".a" * 2_500, "-" * 900 + "1"]
)
def test_what_is_nested_too_deeply_costs_itself_alone(tmp_path, deep):
    cells = [
        {"cell_type": "code", "source": f"def double(x):\n    return {deep}"},
        {"cell_type": "code", "source": "def root(x):\n    return x"},
    ]
    read = submission.read(write(tmp_path / "a.ipynb", cells), [DOUBLE, ROOT])
    assert read.answer(ROOT).cells == [("<cell 2>", "def root(x):\n    return x\n")]
    assert DOUBLE.id in read.answers or says(read.refused[DOUBLE.id], "handin.answer.other_cell_does_not_parse")


def test_a_notebook_that_ends_its_reader_is_refused_in_a_sentence(tmp_path, monkeypatch):
    path = write(tmp_path / "a.ipynb", [{"cell_type": "code", "source": "def double(x): return 1"}])
    for costs in (lambda path: sum(iter(int, 1)), lambda path: [0] * 10**10, lambda path: os.kill(os.getpid(), 9)):
        monkeypatch.setattr(submission, "load", costs)
        monkeypatch.setattr("grader.judging.bounded.SECONDS", 1.0)
        read = submission.read(path, [DOUBLE])
        assert read.flags == [("", read.problem)] and says(read.problem, "judging.file.too_much", name="a.ipynb")
        with refusing("judging.file.too_much", Problem):
            read.answer(DOUBLE)


def test_who_handed_in_what_was_handed_out_is_like_nobody(tmp_path):
    unit = "04_memory_coalescing"
    untouched = tmp_path / f"{unit}.ipynb"
    untouched.write_bytes(grader.released(unit).read_bytes())
    read = sources.handin(untouched, unit, "ada")
    assert len(read.sources) == len(grader.exercises(unit)) and read.tokens == {}


@pytest.mark.parametrize(
    "text",
    [
        "[x for x in y]",
        "{x for x in y}",
        "{x: x for x in y}",
        "(x for x in y)",
        "[x for row in [[x for x in y]] for x in row]",
    ],
)
def test_the_names_of_a_comprehension_are_its_own(text):
    """Python 3.12 and later have them in the symbol table of the module."""
    (statement,) = statements(Cell(1, "code", text), 1)
    assert (statement.binds, statement.reads, statement.now) == (set(), {"y"}, {"y"})


REGISTRY = """
class Table:
    def __init__(self):
        self.found = {}

    def register_as(self, name, function):
        self.found[name] = function

    def register_here(self, function):
        self.found[function.__name__] = function


def operator(function):
    return Table()


@operator
def table(x):
    return x
"""


def test_what_is_registered_with_an_object_belongs_to_it():
    """Operators of torch are told their gradients and shapes so: by a call that looks like a launch, and by decorators."""
    registered = "def back(x):\n    return 2 * x\n\n\ntable.register_as('double', back)\n"
    decorated = "@table.register_here\ndef _(x):\n    return x + 1\n"
    used = "def double(x):\n    return table.found['double'](table.found['_'](x))"
    assert value(REGISTRY, registered, decorated, used) == 8
