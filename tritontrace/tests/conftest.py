"""Fixtures and settings of all tests."""

import sys

import pytest
import torch

torch.set_num_threads(1)  # threads of small work fight for two cores


@pytest.fixture(autouse=True)
def no_notebook_is_left():
    """A shell of IPython would make whatever the process tests next show itself as in a notebook."""
    yield
    if IPython := sys.modules.get("IPython"):
        assert IPython.get_ipython() is None


@pytest.fixture
def compile_every_time(monkeypatch):
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")  # the disk cache would hide a damaged `tl`


@pytest.fixture
def two_threads():
    """torch with two threads of its own, as in a notebook."""
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)
