"""The command `strides`: what its help loads, the lab after the course has changed, a notebook checked from a terminal.

In the lab the student's work stays, and a new version is told of once.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from course_lib import content, logbook
from course_lib.exercises import find
from grader.audit import samples
from strides import completion, lab, seen
from strides.__main__ import COMMANDS, main

UNIT = "04_memory_coalescing"
LIBRARIES = {"torch", "triton", "numpy", "rich", "typer", "nbformat", "jupyterlab", "grader"}


def strides(*arguments):
    return main(arguments)


@pytest.mark.parametrize(
    "words", [[], ["--help"], *([name, "--help"] for name in ("lab", "next", "check", "log", "completion"))]
)
def test_the_help_loads_no_library(words):
    code = f"""
import sys
from strides.__main__ import main
try:
    main({words})
except SystemExit:
    pass
print("LOADED", *{{name.partition(".")[0] for name in sys.modules}})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    text, loaded = done.stdout.rsplit("LOADED", 1)
    assert text.strip() and LIBRARIES & set(loaded.split()) == set()


def test_the_grader_s_help_loads_its_command_line_alone():
    code = "import grader.__main__, sys; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert LIBRARIES & set(done.stdout.split()) == {"rich", "typer", "grader"}


def test_every_command_is_in_the_help_and_an_unknown_one_is_named(capsys):
    assert strides("--help") == 0
    assert set(COMMANDS) <= set(capsys.readouterr().out.split())
    assert strides("checks") == 2
    said = capsys.readouterr()
    assert "strides check" in said.out and "'checks'" in said.err


@pytest.mark.parametrize(
    "line, words",
    [
        ("strides ", set(COMMANDS)),
        ("strides c", {"check", "completion"}),
        ("strides completion ", {"bash", "zsh", "fish"}),
        ("strides demo 04", {UNIT}),
        ("strides grade auto", {"autograde"}),
        ("strides grade kill", {"kill-matrix"}),
        ("strides grade autograde 04", {UNIT}),
        ("strides check ", set()),  # a shell offers files
    ],
)
def test_tab_completes(line, words):
    assert set(completion.candidates(line, COMMANDS)) == words


def test_bash_takes_the_line_and_asks(tmp_path):
    bash = shutil.which("bash")
    if not bash:
        pytest.skip("no bash")
    (tmp_path / "strides").write_text(f'#!/bin/sh\nexec {sys.executable} -m strides "$@"\n')
    (tmp_path / "strides").chmod(0o755)
    script = f'PATH={tmp_path}:$PATH; eval "$(strides completion bash)"; complete -p strides; COMP_LINE="strides ch" strides --complete'
    done = subprocess.run([bash, "-c", script], capture_output=True, text=True, check=True)
    registered, *offered = done.stdout.splitlines()
    assert completion.ASK in registered and offered == ["check"]


@pytest.mark.parametrize("arguments", [["--gpu", "H200", "x.py"], ["x.py", "--its", "own"]])
def test_trace_is_the_engine_s(monkeypatch, arguments):
    monkeypatch.setattr("tritontrace.cli.main", lambda words: [*words])
    assert strides("trace", *arguments) == arguments


def test_a_copy_without_a_grader_says_so(monkeypatch, capsys):
    lacks = {"grader"}
    monkeypatch.setattr("strides.__main__.find_spec", lambda name: None if name in lacks else object())
    assert strides("demo") == 1 and "no grader" in capsys.readouterr().out
    lacks = {"nbgrader"}
    assert strides("grade", "doctor") == 1 and "[grader]" in capsys.readouterr().out


@pytest.fixture
def handed_in(tmp_path, monkeypatch):
    """A notebook of unit 00 with one right answer, one wrong and one not begun; no notes of other checks."""
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.json"))
    nb = nbformat.read(content.ROOT / "notebooks" / "00_start_here" / "00_start_here.ipynb", 4)
    solved = samples.solved(nbformat.read(content.ROOT / "notebooks" / "00_start_here" / "00_start_here.ipynb", 4))
    samples.cell_of(nb, "start.add_one").source = samples.cell_of(solved, "start.add_one").source
    samples.cell_of(nb, "start.myths").source = samples.cell_of(solved, "start.myths").source.replace("True", "False")
    path = tmp_path / "00_start_here.ipynb"
    nbformat.write(nb, path)
    return path


def test_a_saved_notebook_is_checked_and_its_points_are_kept(handed_in, capsys):
    assert strides("check", str(handed_in)) == 1
    said = capsys.readouterr().out
    assert "start.add_one" in said and "start.myths" in said and "start.fixed_copy" not in said
    kept = logbook.best()
    assert kept["start.add_one"] == 7 and kept["start.myths"] > 0
    assert strides("check", str(handed_in), "start.add_one") == 0


@pytest.mark.parametrize(
    "exercise, part", [("start.nothing", "no exercise"), ("flops.matmul_cost", "no exercise of 00_start_here.ipynb")]
)
def test_what_cannot_be_checked_is_told_in_a_sentence(handed_in, capsys, exercise, part):
    assert strides("check", str(handed_in), exercise) == 1
    assert part in capsys.readouterr().out
    assert strides("check", str(handed_in.with_name("none.ipynb"))) == 1
    assert "none.ipynb cannot be read" in capsys.readouterr().out


@pytest.fixture
def logged(tmp_path, monkeypatch):
    """A notebook of unit 04 in which the work log alone is solved, its last round stated and not written."""
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.json"))
    nb = nbformat.read(content.ROOT / "notebooks" / UNIT / f"{UNIT}.ipynb", 4)
    solved = samples.cell_of(samples.solved(nbformat.from_dict(nb)), "coalescing.transpose_log").source
    samples.cell_of(nb, "coalescing.transpose_log").source = solved.replace(', "version": by_large_tiles', "")
    path = tmp_path / f"{UNIT}.ipynb"
    nbformat.write(nb, path)
    return path


def test_a_work_log_becomes_a_page(logged, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert strides("log", str(logged), "coalescing.transpose_log") == 0
    page, said = (tmp_path / "coalescing.transpose_log.html").read_text("utf-8"), capsys.readouterr().out
    assert page.count("<h4>") == 3 and page.count("data:image/png") == 1 and page.count("<details open>") == 2
    assert "36,864" in page and "36,864" in said and "cell " in said  # the line of a cell
    assert strides("log", str(logged), "coalescing.transpose_log", "-o", str(tmp_path / "named.html")) == 0
    assert (tmp_path / "named.html").exists()


@pytest.mark.parametrize(
    "exercise, part",
    [
        ("coalescing.transpose", "coalescing.transpose"),
        ("tiling.matmul_log", f"{UNIT}.ipynb"),
        ("nothing", "'nothing'"),
    ],
)
def test_what_has_no_work_log_is_told_in_a_sentence(logged, tmp_path, capsys, exercise, part):
    assert strides("log", str(logged), exercise, "-o", str(tmp_path / "page.html")) == 1
    said = capsys.readouterr().out
    assert part in said and said.count("\n") == 1 and not (tmp_path / "page.html").exists()
    assert strides("log", str(logged.with_name("none.ipynb")), exercise) == 1
    assert capsys.readouterr().out.count("\n") == 1


def test_an_answer_is_traced_as_a_check_calls_it(logged):
    """Forward and backward; a version of a work log by its case."""
    unit = "07_recomputation"
    both = seen.traced(content.ROOT / "solutions" / unit / f"{unit}.ipynb", find("recomputation.sigmoid3"))
    one = seen.traced(logged, find("coalescing.transpose_log"))
    two = seen.traced(logged, find("coalescing.transpose_log"), "version 2, 256 x 128")
    assert [len(each.launches) for each in (both, one, two)] == [2, 1, 1]
    assert (one.stores.sectors, two.stores.sectors) == (32_768, 8_192)


def test_solutions_are_opened_as_a_copy(course, capsys, monkeypatch):
    assert strides("lab", "--solutions") == 1 and "no solutions" in capsys.readouterr().out
    (course / "solutions" / UNIT).mkdir(parents=True)
    (course / "solutions" / UNIT / f"{UNIT}.ipynb").write_text("solved")
    (course / "solutions" / f"{UNIT}.py").write_text("source")
    assert strides("lab", "--solutions") == 0
    assert [path.name for path in (course / "build" / "solutions").rglob("*.*")] == [f"{UNIT}.ipynb"]


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A course of one unit; what would be installed and started is not."""
    release(tmp_path, "as handed out")
    monkeypatch.setattr(content, "ROOT", tmp_path)
    monkeypatch.setattr(content, "OWN", tmp_path)
    monkeypatch.setattr(lab, "_become", lambda command, environment: 0)
    monkeypatch.setattr(lab, "next_unit", lambda: UNIT)
    return tmp_path


OPENS = f"JupyterLab opens work/{UNIT}/{UNIT}.ipynb, which is next. Ctrl+C here, twice, ends it.\n"


def release(course, text, code="x = 1"):
    path = course / "notebooks" / UNIT / f"{UNIT}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    cells = [{"cell_type": "markdown", "source": [text]}, {"cell_type": "code", "source": [code]}]
    path.write_text(json.dumps({"cells": cells}))


def work(course, text, name=f"{UNIT}.ipynb"):
    (course / "work" / UNIT / name).write_text(json.dumps({"cells": [{"source": [text]}]}))


def notebooks(course):
    found = (course / "work" / UNIT).glob("*.ipynb")
    return {path.name: json.loads(path.read_text())["cells"][0]["source"][0] for path in found}


def test_the_first_time_copies(course, capsys):
    strides("lab")
    assert notebooks(course) == {f"{UNIT}.ipynb": "as handed out"}
    assert capsys.readouterr().out == OPENS, "one line"


def test_a_copy_says_which_python_runs_it_as_the_kernel_will(course):
    from ipykernel.ipkernel import IPythonKernel

    strides("lab")
    copy = json.loads((course / "work" / UNIT / f"{UNIT}.ipynb").read_text())
    kernel = IPythonKernel()
    kernel.shell_class.clear_instance()
    assert copy["metadata"]["language_info"] == kernel.language_info
    given = json.loads((course / "notebooks" / UNIT / f"{UNIT}.ipynb").read_text())
    assert copy["cells"] == given["cells"] and "metadata" not in given


def test_an_update_keeps_the_work_and_puts_the_new_version_beside_it(course, capsys):
    strides("lab")
    work(course, "my work")
    capsys.readouterr()
    strides("lab")
    assert notebooks(course) == {f"{UNIT}.ipynb": "my work"} and capsys.readouterr().out == OPENS
    release(course, "mended", code="x = 1.5")
    strides("lab")
    assert notebooks(course) == {f"{UNIT}.ipynb": "my work", f"{UNIT}_2.ipynb": "mended"}
    said = capsys.readouterr().out
    assert f"the course has a newer version, {UNIT}_2.ipynb. Yours is untouched. Code has changed" in said
    work(course, "my later work", f"{UNIT}_2.ipynb")
    strides("lab")
    assert capsys.readouterr().out == OPENS
    release(course, "mended again", code="x = 2")
    strides("lab")
    assert f"{UNIT}_3.ipynb. Yours is untouched. Code has changed" in capsys.readouterr().out
    assert notebooks(course) == {
        f"{UNIT}.ipynb": "my work",
        f"{UNIT}_2.ipynb": "my later work",
        f"{UNIT}_3.ipynb": "mended again",
    }


def test_where_only_text_has_changed_no_blank_copy_lies_beside_the_work(course, capsys):
    strides("lab")
    work(course, "my work")
    capsys.readouterr()
    release(course, "mended")
    strides("lab")
    assert notebooks(course) == {f"{UNIT}.ipynb": "my work"}
    assert capsys.readouterr().out.startswith(f"work/{UNIT}: only text has changed: stay in yours.")
    strides("lab")
    assert capsys.readouterr().out == OPENS  # said once
    release(course, "mended", code="x = 2")
    strides("lab")
    assert f"{UNIT}_2.ipynb" in notebooks(course)


def test_work_from_before_versions_were_noted_stays(course, capsys):
    mine = course / "work" / UNIT
    mine.mkdir(parents=True)
    work(course, "my work")
    strides("lab")
    assert notebooks(course) == {f"{UNIT}.ipynb": "my work"} and capsys.readouterr().out == OPENS
    release(course, "mended", code="x = 2")
    strides("lab")
    assert f"{UNIT}_2.ipynb" in notebooks(course)


def test_the_notebook_that_is_next_is_opened(course, monkeypatch):
    commands = []
    monkeypatch.setattr(lab, "_become", lambda command, environment: commands.append(command) or 0)
    strides("lab")
    assert f"--LabApp.default_url=/lab/tree/{UNIT}/{UNIT}.ipynb" in commands[0]


def test_a_notebook_that_was_renamed_is_found_in_its_folder(course, capsys):
    strides("lab")
    (course / "work" / UNIT / f"{UNIT}.ipynb").rename(course / "work" / UNIT / "mine.ipynb")
    capsys.readouterr()
    strides("lab")
    assert f"opens work/{UNIT}, which" in capsys.readouterr().out


def test_which_unit_is_next_is_asked_of_the_course(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.json"))
    assert lab.next_unit() == "00_start_here"
    (tmp_path / "progress.json").write_text('{"coalescing.transpose": 3}')
    assert lab.next_unit() == UNIT
    (tmp_path / "python").write_text("#!/bin/sh\necho a trace >&2; exit 1\n")
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert lab.next_unit() == "00_start_here", "no stack trace for a student"


def test_lab_asks_no_question_about_news():
    said = json.loads((lab.SETTINGS / "labconfig" / "default_setting_overrides.json").read_text())
    assert said["@jupyterlab/apputils-extension:notification"]["fetchNews"] == "false"


def test_the_lab_s_own_extension_is_where_jupyterlab_looks():
    folder = Path(lab.EDGES.partition("=")[2]) / "strides"
    package = json.loads((folder / "package.json").read_text())
    assert (folder / package["jupyterlab"]["_build"]["load"]).is_file() and package["name"] == folder.name


def test_lines_have_numbers_since_verdicts_name_them():
    said = json.loads((lab.SETTINGS / "labconfig" / "default_setting_overrides.json").read_text())
    assert said["@jupyterlab/notebook-extension:tracker"]["codeCellConfig"]["lineNumbers"] is True


def test_what_was_copied_is_said_last_and_the_students_lab_starts_quietly_without_nbgrader_s_buttons(
    course, capsys, monkeypatch
):
    called = {}

    def become(command, environment):
        called.update(environment, command=command, said=capsys.readouterr().out)
        return 0

    monkeypatch.setattr(lab, "_become", become)
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "/mine")
    strides("lab", "--no-browser")
    assert called["said"] == OPENS and capsys.readouterr().out == ""
    assert (
        lab.EDGES in called["command"]
        and "--log-level=ERROR" in called["command"]
        and called["command"][-1] == "--no-browser"
    )
    assert called["JUPYTER_CONFIG_PATH"] == f"{lab.SETTINGS}:/mine"
    disabled = json.loads((lab.SETTINGS / "labconfig" / "page_config.json").read_text())["disabledExtensions"]
    assert disabled == {"@jupyter/nbgrader": True}
