"""The image of the Dockerfile: built, looked at, started, and the commands of docs/hosted.md run in it.

It runs where Docker, Podman or Buildah works and the base image can be had: in `make verify` on such a machine, and in a hosted
workflow. CONTAINER_BASE names another base with Python's `venv`. Debian's packages make one without a registry:

    debootstrap --variant=minbase --include=ca-certificates,python3-venv bookworm base
    tar -C base -c . | docker import - localhost/python:3.11-slim

TORCH=cuda builds the other image, and downloads 3 GB for it. CONTAINER_IMAGE names an image that is built already.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from scripts import COPY

from grader import ROOT

pytestmark = pytest.mark.slow
TORCH = os.environ.get("TORCH") or "cpu"
IMAGE = os.environ.get("CONTAINER_IMAGE", f"localhost/strides-to-flashattention:{TORCH}-test")
OWN = re.search(r"^ARG BASE=(\S+)", (ROOT / "Dockerfile").read_text("utf-8"), re.M)[1]
BASE = os.environ.get("CONTAINER_BASE", OWN)
ARGUMENTS = ["--network=host", f"--build-arg=BASE={BASE}", f"--build-arg=TORCH={TORCH}", "-t", IMAGE, str(ROOT)]
MOST_GB = {"cpu": 2.2, "cuda": 6.5}[TORCH]  # as docs/hosted.md says
BUILDING, STARTING, RUNNING = 3600, 180, 600  # seconds


def ran(*command: str, seconds: float = RUNNING) -> subprocess.CompletedProcess:
    """Run a command, with what it prints as one text."""
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds)


class Engine:
    """Docker, or Podman, which has the same commands."""

    def __init__(self, name: str) -> None:
        self.name = name

    def works(self) -> bool:
        """Whether it is here, has the base image or gets it, and runs it."""
        if not shutil.which(self.name):
            return False
        with self.inside(BASE, ["true"]) as command:
            return ran(*command).returncode == 0

    def build(self) -> subprocess.CompletedProcess:
        return ran(self.name, "build", *ARGUMENTS, seconds=BUILDING)

    def gigabytes(self) -> float:
        (found,) = json.loads(ran(self.name, "image", "inspect", IMAGE).stdout)
        return found["Size"] / 1e9

    @contextmanager
    def inside(self, image: str, command: Sequence[str] = ()) -> Iterator[list[str]]:
        """The words that run a command in a new container, by default the image's own."""
        yield [self.name, "run", "--rm", "--network=host", image, *command]


class Buildah(Engine):
    """Buildah, which needs no more than chroot; it runs commands, and not the image's own."""

    def build(self) -> subprocess.CompletedProcess:
        return ran("buildah", "build", "--isolation=chroot", *ARGUMENTS, seconds=BUILDING)

    def gigabytes(self) -> float:
        number, unit = ran("buildah", "images", "--format", "{{.Size}}", IMAGE).stdout.split()
        return float(number) * {"GB": 1.0, "MB": 1e-3}[unit]

    @contextmanager
    def inside(self, image: str, command: Sequence[str] = ()) -> Iterator[list[str]]:
        if not command:
            command = json.loads(ran("buildah", "inspect", "--type=image", image).stdout)["OCIv1"]["config"]["Cmd"]
        container = ran("buildah", "from", image).stdout.split()[-1]
        try:
            yield ["buildah", "run", "--isolation=chroot", container, "--", *command]
        finally:
            ran("buildah", "rm", container)


@pytest.fixture(scope="module")
def engine():
    """The first engine that works, with the image."""
    engines = (Engine("docker"), Engine("podman"), Buildah("buildah"))
    found = next((engine for engine in engines if engine.works()), None)
    if found is None:
        pytest.skip(f"neither Docker nor Podman nor Buildah runs {BASE} here")
    if "CONTAINER_IMAGE" not in os.environ:
        built = found.build()
        assert built.returncode == 0, built.stdout[-3000:]
    return found


@pytest.fixture
def inside(engine):
    """command -> what it prints in a new container. A failure fails the test."""

    def inside(*command):
        with engine.inside(IMAGE, command) as words:
            done = ran(*words)
        assert done.returncode == 0, done.stdout[-3000:]
        return done.stdout

    return inside


def test_it_is_not_larger_than_the_page_says(engine):
    assert 0 < engine.gigabytes() < MOST_GB


def test_nobody_is_root_in_it(inside):
    assert inside("id", "-un").strip() == "learner"
    assert inside("sh", "-c", "touch work/mine && echo yes").strip() == "yes", "the volume belongs to the user"


def test_nothing_of_an_instructor_s_is_in_it(inside):
    listed = set(inside("ls", "-A", "/course", "/course/grader").split())
    assert "solutions" in listed and not listed & {".git", "secret", "gradebook.db", "submitted", "hub/"}


def test_it_answers(engine, tmp_path):
    """JupyterLab, as the image's own command starts it: the address that it prints is the page that it serves."""
    log = tmp_path / "log"
    with engine.inside(IMAGE) as command, log.open("w") as out:
        lab = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        try:
            deadline = time.monotonic() + STARTING
            while not (address := re.search(r"http://127\.0\.0\.1:\d+/lab\S*token=\w+", log.read_text())):
                assert lab.poll() is None and time.monotonic() < deadline, log.read_text()
                time.sleep(1)
            with urllib.request.urlopen(address[0], timeout=30) as answer:
                assert answer.status == 200 and b"JupyterLab" in answer.read()
        finally:
            lab.terminate()  # which it hears as process 1
            lab.wait(9)  # within the ten seconds of `docker stop`


def test_what_is_solved_is_checked_and_a_script_traced_in_it(inside):
    assert "start.add_one" in inside(".venv/bin/strides", "check", "solutions/00_start_here/00_start_here.ipynb")
    script = f"cat > /tmp/copy.py <<'END'\n{COPY}\nEND\n.venv/bin/strides trace --gpu H200 /tmp/copy.py"
    assert "4,000 bytes loaded" in inside("sh", "-c", script)


def test_a_sample_class_is_graded_in_it(inside):
    """The sandbox is what there is: without namespaces for bubblewrap, Landlock and seccomp."""
    said = inside(".venv/bin/python", "-m", "grader", "demo", "00_start_here", "--folder", "/tmp/demo")
    assert "full-marks" in said and "blank" in said
