"""A class on a JupyterHub, by the commands of docs/jupyterhub.md: released, fetched, solved, submitted, collected, graded and
given back, with an instructor and two students in a browser.

`make hub` runs in a copy of the clone, whose .venv is this environment under another name, so nothing is installed.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from jupyterhub.spawner import LocalProcessSpawner, SimpleLocalProcessSpawner
from lab import STARTING, Notebook
from playwright.sync_api import expect
from traitlets.config.loader import PyFileConfigLoader

import grader
import make
from course_lib.exercises import find, titles
from grader import ROOT
from grader.gradebook import results
from grader.published import solution_cell

PAGE = (ROOT / "docs" / "jupyterhub.md").read_text("utf-8")
START, RELEASE, COLLECT = re.findall(r"\n\n((?:    .+\n)+)", PAGE.partition("## For a class")[0])
UNIT = "00_start_here"
EXERCISE = find("start.add_one")
POINTS = sum(exercise.points for exercise in grader.exercises(UNIT).values() if exercise.track == "path")


def copy_of_the_clone(folder: Path) -> Path:
    """All files that git knows or would add, and a .venv that counts as set up for `make hub`."""
    listed = subprocess.run(
        ["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, check=True, stdout=subprocess.PIPE
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file() and not (ROOT / name).is_symlink():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    (folder / ".venv").mkdir()
    for path in Path(sys.prefix).iterdir():
        if path.name != "installed":
            (folder / ".venv" / path.name).symlink_to(path)
    (folder / ".venv" / "installed").write_text(f"{make.stamp_of(folder, make.torch_build())}\nhub")
    return folder


def free_ports(number: int) -> list[int]:
    """Ports of this machine that nobody listens on."""
    sockets = [socket.socket() for _ in range(number)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Hub:
    """`make hub` in the copy: its folders, and the people who log in."""

    def __init__(self, folder: Path, browser) -> None:
        self.course, self.home, self.log = copy_of_the_clone(folder / "course"), folder / "hub", folder / "log"
        self.browser = browser
        port, hub_port, proxy_port = free_ports(3)
        self.address = f"http://127.0.0.1:{port}"
        self.options = [
            f"--JupyterHub.bind_url={self.address}",
            f"--JupyterHub.hub_port={hub_port}",
            f"--ConfigurableHTTPProxy.api_url=http://127.0.0.1:{proxy_port}",
            "--Spawner.args=--LabApp.expose_app_in_browser=True",  # what lab.py drives
            *["--Spawner.args=--allow-root"] * (os.geteuid() == 0),
        ]

    @contextmanager
    def running(self):
        """The hub while the context lasts, as the page starts it."""
        assert START.strip() == "make hub"
        environment = os.environ | {"HUB_HOME": str(self.home), "PYTHONPATH": str(self.course)}
        with self.log.open("w") as log:
            command = [sys.executable, "make.py", "hub", *self.options]
            hub = subprocess.Popen(command, cwd=self.course, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            deadline = time.monotonic() + STARTING
            while "JupyterHub is now running" not in self.log.read_text():
                assert hub.poll() is None and time.monotonic() < deadline, self.log.read_text()
                time.sleep(0.2)
            yield self
        finally:
            hub.terminate()  # it is JupyterHub itself, which ends its servers and its proxy
            hub.wait(60)

    @contextmanager
    def person(self, name: str):
        """Log in under a name, while the context lasts."""
        context = self.browser.new_context(viewport={"width": 1400, "height": 1000})
        page = context.new_page()
        page.goto(f"{self.address}/hub/login")
        page.get_by_label("Username").fill(name)
        page.get_by_label("Password").fill("whatever")
        page.get_by_role("button", name="Sign in").click()
        page.locator("#jp-top-panel").wait_for(timeout=2000 * STARTING)
        yield Person(self, name, page)
        context.close()


class Person:
    """Somebody who has logged in, in a browser of their own, and the server that was started for them."""

    def __init__(self, hub: Hub, name: str, page) -> None:
        self.hub, self.page, self.home = hub, page, hub.home / "homes" / name
        self.base = f"{hub.address}/user/{name}/"

    def url(self, path: str) -> str:
        return self.base + path

    def types(self, commands: str) -> None:
        """Types commands into a new terminal, one after the other as long as all is well, and waits for the last."""
        done = self.hub.home / f"done-{time.monotonic_ns()}"
        lines = " && ".join(line.strip() for line in commands.strip().splitlines())
        self.page.goto(self.url("lab?reset"))
        self.page.locator(".jp-LauncherCard", has_text="Terminal").click()
        self.page.locator(".jp-Terminal .xterm-screen").wait_for()
        self.page.wait_for_timeout(1000)  # for the shell's prompt
        self.page.keyboard.insert_text(f"({lines}) > {done}.log 2>&1; echo $? > {shlex.quote(str(done))}")
        self.page.keyboard.press("Enter")
        deadline = time.monotonic() + STARTING
        while not (done.exists() and done.read_text()):
            assert time.monotonic() < deadline, Path(f"{done}.log").read_text()
            self.page.wait_for_timeout(200)
        assert done.read_text().strip() == "0", Path(f"{done}.log").read_text()

    def presses(self, button: str) -> None:
        """Presses a button in nbgrader's list of assignments."""
        self.page.goto(self.url("lab?reset"))
        self.page.get_by_role("menuitem", name="Nbgrader").click()
        self.page.get_by_text("Assignment List", exact=True).click()
        self.page.get_by_role("button", name=button, exact=True).click()


@pytest.fixture(scope="module")
def hub(tmp_path_factory, browser):
    with Hub(tmp_path_factory.mktemp("hub"), browser).running() as hub:
        yield hub


def wait_for(found):
    """Ask until the answer is true, and return it."""
    deadline = time.monotonic() + STARTING
    while not (result := found()):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return result


def test_a_class_goes_round(hub):
    with hub.person("instructor") as instructor, hub.person("ada") as ada, hub.person("ben") as ben:
        instructor.types(RELEASE)

        for student in (ada, ben):
            student.presses("Fetch")
            wait_for((student.home / UNIT / f"{UNIT}.ipynb").exists)
        notebook = Notebook(ada, ada.page, f"{UNIT}/{UNIT}.ipynb")
        notebook.run(notebook.find(r"(?m).*^from course_lib import .*")[0])
        notebook.write(*notebook.find(r"@triton.jit\ndef add_one_kernel.*"), solution_cell(EXERCISE.id))
        ada.page.keyboard.press("Shift+Enter")
        verdict = notebook.run(*notebook.find(re.escape(f'check("{EXERCISE.id}", add_one)')))
        expect(verdict).to_contain_text(
            f"right {titles.title(EXERCISE.id)} {EXERCISE.points:g} / {EXERCISE.points:g} points"
        )
        ada.page.evaluate("jupyterapp.commands.execute('docmanager:save')")
        notebook.close()
        for student in (ada, ben):
            student.presses("Submit")
        wait_for(lambda: len(list((hub.home / "exchange").glob(f"*/inbound/*+{UNIT}+*/timestamp.txt"))) == 2)

        instructor.types(COLLECT)
        with results.book(hub.course / "grader") as book:
            scores = {s.student.id: s.score for s in book.assignment_submissions(UNIT)}
        assert scores == {"ada": EXERCISE.points, "ben": 0}
        instructor.page.goto(instructor.url("formgrader"))
        instructor.page.get_by_role("link", name="Manage Students").click()
        for name, points in scores.items():
            expect(instructor.page.get_by_role("row").filter(has_text=name)).to_contain_text(f"{points:g} / {POINTS:g}")

        for student in (ada, ben):
            student.presses("Fetch Feedback")
        pages = [wait_for(lambda s=s: list((s.home / UNIT / "feedback").rglob("*.html")))[0] for s in (ada, ben)]
        assert f"{EXERCISE.points:g} / {POINTS:g}" in re.sub(r"<[^>]*>|\s+", " ", pages[0].read_text())
        assert pages[0].read_text() != pages[1].read_text()


def test_a_class_s_own_settings_run_each_server_as_its_owner(tmp_path, monkeypatch):
    """The page's file for a class, loaded and asked what each server is told; no account is made."""
    monkeypatch.setenv("HUB_HOME", str(tmp_path / "hub"))
    monkeypatch.setenv("HUB_INSTRUCTORS", "grace,alan")
    settings = "".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
    (tmp_path / "hub.py").write_text(settings.replace("/srv/course", str(ROOT)))
    found = PyFileConfigLoader("hub.py", str(tmp_path)).load_config()
    assert (found.JupyterHub.authenticator_class, found.JupyterHub.spawner_class) == ("pam", "localprocess")
    assert found.Spawner.mem_limit == "2G" and any("cull_idle_timeout" in word for word in found.Spawner.args)
    assert found.JupyterHub.concurrent_spawn_limit < 100
    (culler,), (role,) = found.JupyterHub.services, found.JupyterHub.load_roles
    assert role["services"] == [culler["name"]] and "delete:servers" in role["scopes"]

    def told(kind, name):
        spawner = kind()
        spawner.user = SimpleNamespace(name=name)
        found.Spawner.pre_spawn_hook(spawner)
        return spawner

    student, instructor = told(LocalProcessSpawner, "ada"), told(LocalProcessSpawner, "alan")
    assert "HUB_STUDENT" not in student.environment and student.notebook_dir == "", "the account says who it is"
    assert told(SimpleLocalProcessSpawner, "ada").environment["HUB_STUDENT"] == "ada"
    assert str(ROOT / "grader") in instructor.environment["JUPYTER_CONFIG_PATH"].split(os.pathsep)
    assert instructor.notebook_dir == str(ROOT) and "GRADER_HOME" not in student.environment
    exchange = Path(student.environment["HUB_EXCHANGE"])
    assert exchange == tmp_path / "hub" / "exchange" and exchange.stat().st_mode & 0o777 == 0o777
