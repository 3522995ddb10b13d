"""A check that takes long says how far it is, and leaves nothing of that behind."""

import os
import sys
import time

import pytest

from course_lib import checking
from course_lib.catalogue import say
from course_lib.execution import progress
from course_lib.execution.progress import CaseCounter, told
from course_lib.exercises import find
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
    with told(counted.line):
        in_a_child, _ = child.run(work, seconds=20)
    out = capsys.readouterr().out
    assert in_a_child and counted.number == 5
    assert (say("shown.checking.case", number=5, total=19) in out) == said
    assert out.endswith("\r") if said else out == ""


def test_comparing_the_results_is_told(monkeypatch, capsys):
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    monkeypatch.setenv(STILL, "")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(checking, "observed", lambda *_: [])
    monkeypatch.setattr(checking.judging, "judge", lambda *_, **__: time.sleep(0.5))
    checking.verdict(find("start.add_one"), None, seed=1)
    out = capsys.readouterr().out
    assert say("shown.checking.compares") in out and out.endswith("\r")
