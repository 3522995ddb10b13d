"""JupyterLab as a process, and a notebook in it as a page: what the browser tests drive.

`Lab` is a server over a folder. `Notebook` is one open notebook: it finds cells by their source, runs them and shows them. The page
moves to a cell and runs it through JupyterLab's own commands, those behind the keys; all else is done with mouse and keyboard.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from playwright.sync_api import Locator, Page

STARTING = 120  # seconds for a server, a kernel with torch imported, a cell
FIRST_VISIT = {"fetchNews": "false", "checkForUpdates": False}  # no question about news over the notebook, no network


class Lab:
    """A JupyterLab on a free port that serves `folder`; settings, runtime files and progress lie in `state`. A context manager."""

    def __init__(self, folder: Path, state: Path, *options: str, cwd: Path | None = None, **environment: str) -> None:
        settings = state / "settings" / "@jupyterlab" / "apputils-extension"
        settings.mkdir(parents=True)
        (settings / "notification.jupyterlab-settings").write_text(json.dumps(FIRST_VISIT))
        self.runtime, self.log = state / "runtime", state / "log"
        environment |= {
            "JUPYTER_CONFIG_DIR": str(state / "config"),
            "JUPYTER_DATA_DIR": str(state / "data"),
            "JUPYTER_RUNTIME_DIR": str(self.runtime),
            "JUPYTERLAB_SETTINGS_DIR": str(state / "settings"),
            "IPYTHONDIR": str(state / "ipython"),
            "COURSE_PROGRESS": str(state / "progress.json"),
        }
        root = ["--allow-root"] if os.geteuid() == 0 else []
        own = ["--no-browser", "--ServerApp.port=0", "--LabApp.expose_app_in_browser=True", f"--notebook-dir={folder}"]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "jupyterlab", *own, *root, *options],
                env=os.environ | environment,
                cwd=cwd or folder,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def __enter__(self) -> Lab:
        deadline = time.monotonic() + STARTING
        while time.monotonic() < deadline and self.process.poll() is None:
            for path in self.runtime.glob("jpserver-*.json"):
                try:
                    self.server = json.loads(path.read_text())
                    return self
                except ValueError:  # being written
                    pass
            time.sleep(0.2)
        self.__exit__()
        raise RuntimeError(f"JupyterLab did not start. It says:\n{self.log.read_text()}")

    def __exit__(self, *_exception: object) -> None:
        self.process.terminate()  # kernels are shut down with it
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def url(self, path: str) -> str:
        return f"{self.server['url']}{path}{'&' if '?' in path else '?'}token={self.server['token']}"


NOTEBOOK = "window.jupyterapp?.shell?.currentWidget?.content"
READY = f"() => {NOTEBOOK}?.widgets?.length && jupyterapp.shell.currentWidget.sessionContext.session?.kernel"
SOURCES = f"() => {NOTEBOOK}.widgets.map(c => c.model.type === 'code' ? c.model.sharedModel.getSource() : '')"
SHOW = f"""async index => {{
    const notebook = {NOTEBOOK};
    notebook.activeCellIndex = index;
    await notebook.scrollToItem(index, 'center');
}}"""
RUN = """seconds => Promise.race([
    jupyterapp.commands.execute('notebook:run-cell'),
    new Promise((_, late) => setTimeout(() => late(new Error(`still running after ${seconds} s`)), 1000 * seconds)),
])"""
THEME = """async theme => {
    const loaded = new Promise(done => document.querySelector('body').dataset.jpThemeName === theme ? done()
        : new MutationObserver(done).observe(document.body, {attributeFilter: ['data-jp-theme-name']}));
    await jupyterapp.commands.execute('apputils:change-theme', {theme});
    await loaded;
}"""
LIGHT, DARK = "JupyterLab Light", "JupyterLab Dark"


class Notebook:
    """The notebook at `path` under the lab's folder, opened with a kernel of its own."""

    def __init__(self, lab: Lab, page: Page, path: str) -> None:
        self.page = page
        page.goto(lab.url(f"lab/tree/{path}?reset"))  # reset: the tabs of the test before stay closed
        page.wait_for_function(READY, timeout=1000 * STARTING)
        self.sources: list[str] = page.evaluate(SOURCES)

    def find(self, pattern: str) -> list[int]:
        """The indices of the code cells whose whole source matches."""
        return [i for i, source in enumerate(self.sources) if re.fullmatch(pattern, source, re.DOTALL)]

    def show(self, index: int) -> Locator:
        """Scrolls to a cell: the page holds only those near the window. The cell, until another one is shown."""
        self.page.evaluate(SHOW, index)
        return self.page.locator(".jp-Notebook-cell.jp-mod-active")

    def run(self, index: int) -> Locator:
        """Runs a cell and waits for it. An error in it fails the test."""
        cell = self.show(index)
        self.page.evaluate(RUN, STARTING)
        assert not cell.locator(".jp-RenderedText[data-mime-type$=error], [data-mime-type$=stderr]").count(), (
            cell.inner_text()
        )
        return cell

    def write(self, index: int, source: str) -> None:
        """Replaces what stands in a cell, as a student does: click, select all, paste."""
        self.show(index).locator(".cm-content").click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(source)

    def theme(self, name: str) -> None:
        self.page.evaluate(THEME, name)
        self.page.wait_for_timeout(300)  # colours change by a transition

    def close(self) -> None:
        self.page.evaluate("jupyterapp.shell.currentWidget.sessionContext.shutdown()")
