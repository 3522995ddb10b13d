"""A check that takes long says how far it is, and leaves nothing of that behind."""

import os
import sys
import time

import pytest

from course_lib.execution import progress
from course_lib.execution.progress import CaseCounter
from tritontrace.picture import STILL
from tritontrace.replay import child


@pytest.mark.parametrize(
    "patience, watched, still, said",
    [(0.01, True, "", True), (600, True, "", False), (0.01, True, "1", False), (0.01, False, "", False)],
)
def test_what_a_child_counts_is_told(patience, watched, still, said, monkeypatch, capsys):
    monkeypatch.setattr(progress, "PATIENCE", patience)
    monkeypatch.setenv(STILL, still)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: watched)
    counted = CaseCounter(19)

    def work():
        counted.begin(5)
        time.sleep(0.5)
        return os.getpid() != parent

    parent = os.getpid()
    with counted.told():
        in_a_child, _ = child.run(work, seconds=20)
    out = capsys.readouterr().out
    assert in_a_child and counted.number == 5
    assert ("case 5 of 19" in out) == said
    assert out.endswith("\r") if said else out == ""
