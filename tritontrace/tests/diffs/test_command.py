"""`tritontrace diff`: scripts and stored reports, its exit status, and the page that shows it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tritontrace.__main__ import main

PAGE = Path(__file__).resolve().parents[2] / "docs" / "diff.md"
FILES = dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL))
SHOWN = re.findall(r"```text\n\$ (tritontrace .*?)\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The page's scripts, and a report of each."""
    made = tmp_path_factory.mktemp("diff")
    for name, text in FILES.items():
        (made / name).write_text(f"# {name}\n{text}")
        report = ["--gpu", "H200", "--format", "json", "-o", Path(name).stem + ".json", name]
        subprocess.run([sys.executable, "-m", "tritontrace", *report], cwd=made, check=True)
    return made


@pytest.fixture
def run(folder, monkeypatch, capsys):
    """Run the command there; returns (exit status, stdout, stderr)."""
    monkeypatch.chdir(folder)
    return lambda *arguments: (main(["diff", *arguments]), *capsys.readouterr())


@pytest.mark.slow
@pytest.mark.parametrize("command, shown", SHOWN, ids=[command for command, _ in SHOWN])
def test_the_page_shows_what_the_command_prints(run, command, shown):
    *given, status = shown.splitlines()
    code, out, _ = run(*command.split()[2:])
    assert out.splitlines() == given and status == f"exit status {code}"


@pytest.mark.slow
def test_stored_reports_say_the_same_as_scripts(run, folder):
    scripts, stored = (run(*(f"{name}.{kind}" for name in ("before", "after")), "--format", "json", *more)
                       for kind, more in (("py", ["--gpu", "H200"]), ("json", [])))  # fmt: skip
    assert json.loads(scripts[1]) == json.loads(stored[1]) and scripts[0] == stored[0] == 0


def test_a_threshold_may_stand_anywhere(run):
    for order in (["--at-most", "1.1", "before.json", "after.json"], ["before.json", "after.json", "--at-most=1.1"]):
        assert run(*order)[0] == 1
    assert run("before.json", "after.json", "--at-most", "9")[0] == 0
    data = json.loads(run("before.json", "after.json", "--at-most", "1.1", "--format", "json")[1])
    assert data["at_most"] == 1.1 and {each["count"] for each in data["exceeded"]} <= {"bytes", "sectors"}
    with pytest.raises(SystemExit):
        run("before.json", "after.json", "--at-most", "nan")


def test_each_script_has_modules_of_its_own(run, folder):
    """Two versions that import a module of one name: in one process the second would get the first one's."""
    kernel, launch = FILES["before.py"].rsplit("\n\n\n", 1)
    for version, text in (("one", kernel), ("two", kernel.replace("other=0.0)", "other=0.0) * 1.0"))):
        (folder / version).mkdir()
        (folder / version / "kernels.py").write_text(text)
        (folder / version / "script.py").write_text(f"import torch\nfrom kernels import *\n{launch}")
    code, out, _ = run("one/script.py", "two/script.py", "--format", "json")
    found = json.loads(out)
    assert code == 0 and not found["equal"] and not found["kernels"][0]["same_text"]


def test_a_script_gets_its_arguments(run, folder):
    (folder / "fails.py").write_text("import sys; sys.exit(' '.join(sys.argv[1:]))")
    code, out, _ = run("fails.py", "before.py", "--", "--size", "3")
    assert code == 2 and not out


def test_what_cannot_be_compared_is_said(run, folder):
    (folder / "other.json").write_text('{"a": 1}')
    (folder / "none.txt").write_text("nothing")
    (folder / "half.json").write_text('{"kernels": {}, "launches": [{"kernel": "a"}]}')
    for name in ("other.json", "none.txt", "half.json", "missing.py"):
        code, out, err = run("before.json", name)
        assert code == 2 and not out and name in err and len(err.splitlines()) == 1


def test_a_second_that_stops_is_not_fine(run, folder):
    data = json.loads((folder / "before.json").read_text())
    (folder / "stopped.json").write_text(json.dumps({**data, "stopped": "It was stopped."}))
    code, out, _ = run("before.json", "stopped.json")
    assert code == 2 and "It was stopped." in out and "Equal" not in out


def test_pages(run):
    assert run("before.json", "after.json", "--format", "html")[1].startswith("<!doctype html>")
    assert run("before.json", "after.json", "--format", "markdown")[1].startswith("**Traffic")
