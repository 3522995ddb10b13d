"""The container of the Dockerfile: built, looked at, started, and a sample class graded in it.

It runs where Docker or Podman can build: in `make verify` on such a machine, and in a hosted workflow. Building takes the time of
downloading torch for GPUs, about 3 GB; CONTAINER_IMAGE names an image that was built already.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
import urllib.request

import pytest

from grader import ROOT

pytestmark = pytest.mark.slow
IMAGE = os.environ.get("CONTAINER_IMAGE", "strides-to-flashattention:test")
MOST_GB = 10.0  # docs/hosted.md says about 8
BUILDING, STARTING = 3600, 180  # seconds


def engine() -> str:
    """The engine that works here: its name, or ""."""
    for name in ("docker", "podman"):
        if shutil.which(name) and subprocess.run([name, "info"], capture_output=True, timeout=60).returncode == 0:
            return name
    return ""


@pytest.fixture(scope="module")
def container():
    """(engine, image), built unless CONTAINER_IMAGE names one."""
    name = engine()
    if not name:
        pytest.skip("neither Docker nor Podman works here")
    if "CONTAINER_IMAGE" not in os.environ:
        base = re.search(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(), re.M)[1]
        if subprocess.run([name, "pull", base], capture_output=True, timeout=600).returncode:
            pytest.skip(f"{base}, on which the image is built, cannot be fetched here")
        built = subprocess.run(
            [name, "build", "--network=host", "-t", IMAGE, str(ROOT)], capture_output=True, text=True, timeout=BUILDING
        )
        assert built.returncode == 0, built.stdout[-3000:] + built.stderr[-3000:]
    return name, IMAGE


@pytest.fixture
def inside(container):
    """command -> what it prints in a new container. A failure fails the test."""

    def inside(*command):
        name, image = container
        done = subprocess.run(
            [name, "run", "--rm", "--network=host", image, *command], capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    return inside


def test_it_is_not_larger_than_the_page_says(container):
    name, image = container
    (found,) = json.loads(subprocess.run([name, "image", "inspect", image], check=True, capture_output=True).stdout)
    assert found["Size"] / 1e9 < MOST_GB


def test_nobody_is_root_in_it(inside):
    assert inside("id", "-un").strip() == "learner"
    assert inside("sh", "-c", "touch work/mine && echo yes").strip() == "yes", "the volume belongs to the user"


def test_nothing_of_an_instructor_s_is_in_it(inside):
    listed = set(inside("ls", "-A", "/course", "/course/grader").split())
    assert not listed & {".git", "secret", "gradebook.db", "submitted", "hub"}


def test_it_answers(container):
    """JupyterLab, as the image's own command starts it: the address that it prints is the page that it serves."""
    name, image = container
    cid = subprocess.run(
        [name, "run", "--rm", "-d", "--network=host", image], check=True, capture_output=True, text=True
    ).stdout.strip()
    try:
        deadline, address = time.monotonic() + STARTING, None
        while not address:
            said = subprocess.run([name, "logs", cid], capture_output=True, text=True)
            address = re.search(r"http://127\.0\.0\.1:\d+/lab\S*token=\w+", said.stdout + said.stderr)
            assert time.monotonic() < deadline, said.stdout + said.stderr
            time.sleep(1)
        with urllib.request.urlopen(address[0], timeout=30) as answer:
            assert answer.status == 200 and b"JupyterLab" in answer.read()
    finally:
        subprocess.run([name, "stop", "-t", "5", cid], capture_output=True)


def test_a_sample_class_is_graded_in_it(inside):
    """With the sandbox that there is: without namespaces for bubblewrap, Landlock and seccomp."""
    said = inside(".venv/bin/python", "-m", "grader", "demo", "00_start_here", "--folder", "/tmp/demo")
    assert "full-marks" in said and "blank" in said
