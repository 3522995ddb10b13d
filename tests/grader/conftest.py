"""Fixtures of the grader's tests."""

import pytest

from grader.judging.judge import Judge


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    """A judge with a folder of its own; on a machine without a sandbox, too."""
    judge = Judge(tmp_path_factory.mktemp("home"), accept_risk=True)
    yield judge
    judge.close()
