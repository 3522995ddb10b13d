"""Outputs belong to cells: what a change of the source does to those that are there."""

import copy
import json
import re
import shutil
from base64 import b64decode
from io import BytesIO

import nbformat
import numpy as np
import pytest
import torch
import toy
from matplotlib.image import imread
from toy import UNIT

from course_lib import metadata
from course_lib.exercise import Verdict
from course_lib.exercises import UNITS
from course_lib.hardware.measurements import measured
from course_lib.metadata import CellRun
from course_lib.render.cells import VERDICT
from grader import ROOT, exercises
from grader.__main__ import app
from grader.building import build, drawings, outputs
from tritontrace.replay import wire

SOURCE = """\
# %% [markdown]
# # 90 · Toy

# %%
import math

from course_lib import progress

check = lambda name, f: print(name, f(4))

# %%
side = 3
table = {}

# %%
print("side", side)

# %%
def area(): return side * WIDTH

# %%
WIDTH = 2

# %%
print("area", area())

# %%
table["a"] = 1

# %%
print("table", table)

# %%
print("nothing")

# %% gpu="toy.speeds"
print("speeds", side)

# %%
print("root of", math.sqrt(16))

# %% exercise="toy.double"
def double(x):
    ### BEGIN SOLUTION
    return 2 * x
    ### END SOLUTION

# %% check="toy.double"
check("toy.double", double)
"""


def prepare(folder, monkeypatch):
    toy.install(monkeypatch, toy.exercise("double", 10))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    (folder / "solutions").mkdir()
    return folder


@pytest.fixture
def course(tmp_path, monkeypatch):
    return prepare(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A course whose notebook has run, once for all tests."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        course = prepare(tmp_path_factory.mktemp("ran"), monkeypatch)
        ran_on("H200", path := rebuild(course, SOURCE, execute=True))
    assert all(text.startswith("H200: ") for text in shown(path).values()) and len(shown(path)) == 7
    return course


@pytest.fixture
def executed(course, ran):
    """The same in a folder of its own."""
    shutil.copytree(ran, course, dirs_exist_ok=True)
    return course


def rebuild(course, source, **how):
    """The instructor's notebook, built."""
    (course / "solutions" / f"{UNIT}.py").write_text(source)
    return build.build(UNIT, root=course, **how)[0]


def ran_on(gpu, path):
    """The notebook as if each cell had been run on this GPU."""
    nb = nbformat.read(path, as_version=4)
    for cell in nb.cells:
        if cell.cell_type == "code":
            cell.metadata["course"].gpu = gpu
            for output in cell.outputs:
                output.text = f"{gpu}: {output.text}"
    nbformat.write(nb, path)


def shown(path):
    """source -> what is below it, of the cells that print."""
    cells = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
    return {
        cell.source: "".join(output.text for output in cell.outputs)
        for cell in cells
        if cell.source.startswith(("print", "check("))
    }


def lost(path):
    return {text for text, below in shown(path).items() if not below}


def test_a_typo_in_a_text_keeps_all_outputs(executed):
    before = (executed / "solutions" / UNIT / f"{UNIT}.ipynb").read_text()
    path = rebuild(executed, SOURCE.replace("# # 90 · Toy", "# # 90 · A toy"), execute=False)
    cells = zip(*(nbformat.reads(text, as_version=4).cells for text in (before, path.read_text())), strict=True)
    assert [(old.cell_type, new.source) for old, new in cells if old != new] == [("markdown", "# 90 · A toy")]
    assert build.missing(UNIT, executed) == build.waiting(UNIT, executed) == build.check(UNIT, executed) == []


@pytest.mark.parametrize(
    "old, new, without",
    [
        ('print("nothing")', 'print("nothing at all")', {'print("nothing at all")'}),
        ('print("side", side)', 'print("side:", side)', {'print("side:", side)'}),
        ("side = 3", "side = 4", {'print("side", side)', 'print("area", area())'}),
        ("WIDTH = 2", "WIDTH = 5", {'print("area", area())'}),  # which a function reads when it is called
        ('table["a"] = 1', 'table["b"] = 1', {'print("table", table)'}),  # which binds no name
        ("import math\n", "import cmath\nimport math\n", set()),
        ("import math\n", "import cmath as math\n", {'print("root of", math.sqrt(16))'}),
        ("return 2 * x", "return x + x", {'check("toy.double", double)'}),
    ],
)
def test_a_changed_cell_loses_its_output_and_those_of_its_readers(executed, old, new, without):
    assert lost(rebuild(executed, SOURCE.replace(old, new), execute=False)) == without


def test_a_cell_that_moves_before_what_it_reads_is_another(executed):
    moved = SOURCE.replace('# %%\ntable["a"] = 1\n\n', "").replace("# %% gpu", '# %%\ntable["a"] = 1\n\n# %% gpu')
    assert lost(rebuild(executed, moved, execute=False)) == {'print("table", table)'}


def line_of(source, words):
    """The line at which the cell with these words begins."""
    above = source[: source.index(words)]
    return above[: above.rindex("# %%")].count("\n") + 1


def test_lost_outputs_are_named_and_made_without_a_gpu_by_running_what_they_read(executed, monkeypatch):
    source = SOURCE.replace("WIDTH = 2", "WIDTH = 5").replace('print("nothing")', 'print("new")')
    path = rebuild(executed, source, execute=False)
    named = ", ".join(str(line_of(source, words)) for words in ("WIDTH = 5", 'print("area"', 'print("new")'))
    named = f"solutions/{UNIT}.py:{named}"
    sentence = f"{named}: no output of this code yet. `grader build {UNIT}` makes it."
    assert build.missing(UNIT, executed) == [sentence]
    assert sentence in build.check(UNIT, executed)

    run, execute = [], outputs.execute
    monkeypatch.setattr(
        outputs, "execute", lambda nb, root: (run.extend(c.source for c in nb.cells), execute(nb, root))
    )
    path = rebuild(executed, source, execute=True)
    assert [text.partition("\n")[0] for text in run] == [
        "side = 3",
        "def area(): return side * WIDTH",
        "WIDTH = 5",
        'print("area", area())',
        'print("new")',
    ]
    below = shown(path)
    assert below['print("area", area())'] == "area 15\n"
    assert below['print("side", side)'] == "H200: side 3\n" and below['print("table", table)'].startswith("H200")
    assert build.missing(UNIT, executed) == [] == build.check(UNIT, executed)
    code = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
    assert [c.execution_count for c in code] == list(range(1, len(code) + 1))
    assert {c.metadata.course.gpu for c in code} == {"", "H200"}


@pytest.mark.parametrize("execute", [True, False])
def test_a_cell_that_needs_a_gpu_keeps_the_output_of_one_and_is_named(executed, execute):
    source = SOURCE.replace('print("speeds", side)', 'print("speed", side)')
    path = rebuild(executed, source, execute=execute)
    assert shown(path)['print("speed", side)'] == "H200: speeds 3\n" and lost(path) == set()
    named = f"solutions/{UNIT}.py:{line_of(source, 'speed')}: output of H200, by older code. `grader build {UNIT}` on a GPU makes it anew."
    assert build.waiting(UNIT, executed) == [named]
    assert build.check(UNIT, executed) == []  # nobody without a GPU could mend it


def test_the_check_of_extra_credit_needs_a_gpu_and_what_ran_without_one_is_named(course, monkeypatch):
    toy.install(monkeypatch, toy.exercise("double", 10, bonus=2))
    path = rebuild(course, SOURCE, execute=True)
    (named,) = build.waiting(UNIT, course)
    lines = [line_of(SOURCE, words) for words in ('print("speeds"', 'check("toy')]
    assert f"py:{lines[0]}, {lines[1]}: output of a machine without a GPU." in named
    ran_on("H200", path)
    source = SOURCE.replace("return 2 * x", "return x + x")
    path = rebuild(course, source, execute=True)
    assert lost(path) == set()
    assert shown(path)['check("toy.double", double)'].startswith("H200")
    assert "output of H200, by older code" in build.waiting(UNIT, course)[0]


def test_a_gpu_runs_what_waited_for_it(executed, monkeypatch):
    source = SOURCE.replace('print("speeds", side)', 'print("speed", side)')
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "B200")
    path = rebuild(executed, source, execute=True)
    assert shown(path)['print("speed", side)'] == "speed 3\n" and build.waiting(UNIT, executed) == []
    assert shown(path)['print("side", side)'] == "H200: side 3\n"
    assert not any(
        text.startswith("H200") for text in shown(rebuild(executed, source, execute=True, again=True)).values()
    )


def test_again_runs_everything_but_what_only_a_gpu_may_replace(executed):
    below = shown(rebuild(executed, SOURCE, execute=True, again=True))
    assert {text for text, said in below.items() if said.startswith("H200")} == {'print("speeds", side)'}


def test_a_cell_that_fails_is_named_in_a_sentence(course):
    source = SOURCE.replace('print("nothing")', "1 / 0")
    with pytest.raises(build.BuildError) as refused:
        rebuild(course, source, execute=True)
    said = f"solutions/{UNIT}.py:{line_of(source, '1 / 0')} fails: ZeroDivisionError: division by zero"
    assert str(refused.value) == said


def test_a_cell_whose_kernel_dies_is_named(course):
    source = SOURCE.replace('print("nothing")', "import os\n\nos._exit(1)")
    with pytest.raises(
        build.BuildError, match=rf"^solutions/{UNIT}.py:{line_of(source, 'import os')} fails: Kernel died"
    ):
        rebuild(course, source, execute=True)


def test_a_notebook_that_is_none_is_named(executed):
    path = executed / "solutions" / UNIT / f"{UNIT}.ipynb"
    path.write_text("<<<<<<< HEAD")
    with pytest.raises(build.BuildError, match=rf"^solutions/{UNIT}/{UNIT}.ipynb cannot be read: .*, or delete it"):
        rebuild(executed, SOURCE, execute=False)
    assert path.read_text() == "<<<<<<< HEAD"


def test_widgets_stay_as_long_as_their_cell(course):
    source = SOURCE + "\n# %%\nfrom ipywidgets import IntSlider\n\n# %%\nIntSlider(7)\n\n# %%\nIntSlider(8)\n"

    def values(path):
        widgets = nbformat.read(path, as_version=4).metadata.get("widgets", {})
        states = widgets[outputs.STATE]["state"].values() if widgets else ()
        return sorted(each["state"]["value"] for each in states if each["model_name"] == "IntSliderModel")

    assert values(rebuild(course, source, execute=True)) == [7, 8]
    changed = source.replace("IntSlider(8)", "IntSlider(9)")
    assert values(rebuild(course, changed, execute=False)) == [7]
    assert values(rebuild(course, changed, execute=True)) == [7, 9]
    assert values(rebuild(course, SOURCE, execute=False)) == []


def test_running_and_not_running_are_not_asked_for_at_once(capsys):
    from typer.testing import CliRunner

    said = CliRunner().invoke(app, ["build", "--again", "--no-execute"])
    assert said.exit_code and "take one of them" in said.output


def test_it_runs_in_a_folder_of_its_own_and_the_other_units_lie_beside(tmp_path):
    (tmp_path / "solutions" / "89_other").mkdir(parents=True)
    nb = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell("import os\nprint(sorted(os.listdir('..')), os.listdir())")]
    )
    outputs.execute(nb, tmp_path)
    assert nb.cells[0].outputs[0].text == "['89_other', 'here'] []\n"


@pytest.mark.parametrize("unit", UNITS)
def test_published_verdicts_are_drawn_as_they_would_be_now(unit):
    """Each check of the instructor's notebook keeps its verdict as data, and looks as today's code draws it; so does progress."""
    notebook = nbformat.read(ROOT / "solutions" / unit / f"{unit}.ipynb", as_version=4)
    checks = {exercise.check_id for exercise in exercises(unit).values()}
    shown = {
        cell.id: [o.data for o in cell.outputs if VERDICT in o.get("data", {})]
        for cell in notebook.cells
        if cell.id in checks
    }
    assert [name for name, found in shown.items() if len(found) != 1] == [] and shown.keys() == checks
    saved = copy.deepcopy(notebook)
    outputs.redraw(notebook, unit)
    assert notebook == saved
    tables = [
        o.data for cell in notebook.cells for o in cell.get("outputs", ()) if "minutes left" in str(o.get("data"))
    ]
    assert tables and all(each in table["text/plain"] for table in tables for each in UNITS)


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS)
def test_published_pictures_are_drawn_as_they_would_be_now(unit):
    """Each picture of the instructor's notebook that takes no run says and shows what today's code draws from today's data."""
    notebook = nbformat.read(ROOT / "solutions" / unit / f"{unit}.ipynb", as_version=4)
    saved = {cell.id: pictures_of(cell)[-1] for cell in notebook.cells if pictures_of(cell)}
    drawings.renew(notebook)
    drawn = {cell.id: pictures_of(cell)[-1] for cell in notebook.cells if pictures_of(cell)}
    assert {name for name, (words, _) in drawn.items() if words != saved[name][0]} == set()
    assert {name for name, (_, pixels) in drawn.items() if apart(pixels, saved[name][1]) > 1e-3} == set()


# registers and spills: the compiler's version, which need not be the same on the machine with the GPU, decides on them
MEASURED = re.compile(
    r"seconds|\b[mnµ]s\b|\btimes as|TFLOP/s|[TGM]B/s|a batch read, or took|registers|bytes per thread"
)
ON_A_GPU = re.compile(
    r"^.*right on this GPU.*$|^ *Its kernels ran on .*$|^ *Not run on a GPU\.$| On [^.]*\bit takes [^;]*; your best takes [\d.]+\.",
    re.M,
)


def printed(cell):
    """The lines that a cell printed, without what differs from run to run: times, speeds and numbers with decimals, of random data; and
    without what a GPU adds."""
    shown = [o.text if o.output_type == "stream" else o.get("data", {}).get("text/plain", "") for o in cell.outputs]
    lines = []
    # rules, numbers of cells, dates, and lines of the course's own files
    text = re.sub(r"[─━░█]+|-{2,}|In\[\d+\]|\d{4}-\d\d-\d\d|(?<=\.py):\d+", "", ON_A_GPU.sub("", "\n".join(shown)))
    for line in text.splitlines():
        line = re.sub(r"-?(\d[\d,]*\.\d+(e[-+]?\d+)?|\d+e[-+]?\d+)", "#", line)
        lines.append(" ".join((re.sub(r"\d[\d,]*", "#", line) if MEASURED.search(line) else line).split()))
    return list(filter(None, lines))


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="cells say there what they measured")
@pytest.mark.parametrize("unit", UNITS)
def test_published_texts_are_what_a_run_prints_now(unit):
    """Each cell that needs no GPU says what today's code says."""
    notebook = nbformat.read(ROOT / "solutions" / unit / f"{unit}.ipynb", as_version=4)
    on_gpu = build.need_gpu(notebook, unit)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.id not in on_gpu]
    published = {cell.id: printed(cell) for cell in cells}
    outputs.renew(notebook, ROOT, on_gpu, again=True)
    outputs.redraw(notebook, unit)
    assert {cell.id: printed(cell) for cell in cells} == published


def test_published_outputs_are_of_one_card():
    cards = set()
    for unit in UNITS:
        notebook = nbformat.read(ROOT / "solutions" / unit / f"{unit}.ipynb", as_version=4)
        cards |= {ran.gpu for cell in notebook.cells if (ran := metadata.read(cell.metadata, CellRun))}
    assert cards - {""} == {measured("answers")["machine"]}


def pictures_of(cell):
    """(words, pixels) of each picture below a cell."""
    found = [output.data for output in cell.get("outputs", []) if "image/png" in output.get("data", {})]
    return [(data["text/plain"], imread(BytesIO(b64decode(data["image/png"])))) for data in found]


def apart(one, other):
    """The mean difference of two pictures; infinite where their sizes differ."""
    return float(np.abs(one - other).mean()) if one.shape == other.shape else np.inf


def test_another_picture_is_noticed():
    white = np.ones((90, 90, 4))
    dot = white.copy()
    dot[:6, :6, :3] = 0
    assert apart(white, white) == 0 and apart(white, dot) > 1e-3 and apart(white, white[1:]) == np.inf


def test_a_verdict_of_before_a_field_was_there_is_drawn():
    tree = wire.to_tree(Verdict("start.add_one", 7.0, 7.0, []))
    del tree["on"], tree["rests_on"]
    shown = nbformat.v4.new_output("execute_result", {VERDICT: json.dumps(tree), "text/plain": "7"})
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("check(1)", id="one", outputs=[shown])])
    outputs.redraw(notebook, UNIT)
    assert "start.add_one" in notebook.cells[0].outputs[0].data["text/plain"]
