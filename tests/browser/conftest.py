"""A headless Chromium, a JupyterLab over a copy of the students' notebooks, and pages whose console must stay clean."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from lab import Lab, Notebook
from playwright.sync_api import Browser, Error, Page, expect, sync_playwright

import make
from grader import ROOT
from strides.handout import hand_out
from strides.lab import EDGES, QUIET, SETTINGS

FLAGS = "disable-gpu disable-quic no-first-run disable-background-networking disable-component-update disable-sync"
# Errors that are none, and why.
HARMLESS = {
    "/mathjax/": "formgrader's page of a submission loads MathJax from a content network, which may be out of reach",
    "net::ERR_UNKNOWN_URL_SCHEME": "JupyterLab puts a cell's attachment in its place after the browser has asked for it",
    "Could not restore the debugger state": "a test closed the notebook before JupyterLab's debugger had its answer",
    "Canceled future for create_subshell_request": "a test closed the notebook before its kernel had opened a second channel",
    "MathJax is not defined": "the same; formulas stay as they are written",
}
expect.set_options(timeout=30_000)  # ms; a busy machine is slow, not broken

Clean = Callable[[], AbstractContextManager[Page]]
Opened = Callable[[str], AbstractContextManager[Notebook]]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The system's Chromium, or playwright's own."""
    flags = [f"--{flag}" for flag in FLAGS.split()] + ["--no-sandbox"] * (os.geteuid() == 0)
    with sync_playwright() as playwright:
        try:
            found = playwright.chromium.launch(executable_path=make.chromium(), args=flags)
        except Error as error:
            pytest.exit(f"No browser: {error.message.splitlines()[0]}. {make.NO_BROWSER}", 1)
        yield found
        found.close()


@pytest.fixture(scope="session")
def clean(browser) -> Clean:
    """A page while the context lasts. What its console says of errors fails the test."""

    @contextmanager
    def clean() -> Iterator[Page]:
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda said: errors.append(f"{said.text} {said.location}") if said.type == "error" else None)
        yield page
        page.close()
        found = [error for error in errors if not any(known in error for known in HARMLESS)]
        assert not found, "The browser's console reports: " + "; ".join(found)

    return clean


@pytest.fixture(scope="session")
def lab(tmp_path_factory) -> Iterator[Lab]:
    """JupyterLab over notebooks/ as handed out, with the settings of `make lab`."""
    folder = tmp_path_factory.mktemp("student")
    for unit in sorted(path.parent for path in (ROOT / "notebooks").glob("*/*.ipynb")):
        (folder / "work").mkdir(exist_ok=True)
        hand_out(unit, folder / "work" / unit.name)
    with Lab(folder / "work", folder / "state", QUIET, EDGES, JUPYTER_CONFIG_PATH=str(SETTINGS)) as lab:
        yield lab


@pytest.fixture(scope="session")
def opened(lab, clean) -> Opened:
    """unit -> its notebook, open while the context lasts."""

    @contextmanager
    def opened(unit: str) -> Iterator[Notebook]:
        with clean() as page:
            notebook = Notebook(lab, page, f"{unit}/{unit}.ipynb")
            yield notebook
            notebook.close()

    return opened
