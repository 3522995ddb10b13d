"""What all tests share."""

import os

import pytest


@pytest.fixture(scope="session", autouse=True)
def no_progress_of_whoever_tests(tmp_path_factory):
    os.environ["COURSE_PROGRESS"] = str(tmp_path_factory.mktemp("progress") / "progress.json")


@pytest.fixture
def compile_every_time(monkeypatch):
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")  # the disk cache would hide a damaged `tl`
