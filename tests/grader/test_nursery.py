"""Zygotes that one nursery has forked: nothing of one comes to another, nothing of the class comes to any, and one that is lost is
replaced."""

import os
import secrets
import signal
import time
from pathlib import Path
from socket import socket

import pytest

from grader.child import nursery as nurseries
from grader.child import sandbox
from grader.child.zygote import Zygote
from grader.cohort import forked

LOOK = "import os, sys\n\n\ndef probe():\n    return {}"
AROUND = "sorted(name for name in sys.modules if name.startswith(('grader.judging', 'course_lib.exercises.')))"


@pytest.fixture(scope="module")
def nursery():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sandbox, "bubblewrap", lambda: ())
        patch.setenv("GRADER_HOME", "/nobody/may/know/of/it")
        made = nurseries.Nursery()
    yield made
    made.close()


@pytest.fixture
def zygotes(nursery):
    pair = Zygote(nursery.door), Zygote(nursery.door)
    yield pair
    for zygote in pair:
        zygote.close()


def probed(zygote, value, before=""):
    """Run a function that returns `value` in a child of the zygote: its result, or a sentence."""
    source = f"{before}\n{LOOK.format(value)}"
    part = {"cells": [["<cell 1>", source]], "entry": "probe", "calls": [[{}]], "called": "", "without": []}
    reply = zygote.ask({"role": "record", "parts": [part], "seconds": 10.0})
    if reply["error"]:
        return reply["error"]
    (one,) = reply["result"]
    (call,) = one["logs"][0]["calls"] if one["logs"] else [{"error": one["error"]}]
    return call["error"] or call["result"]


def gone(pid, seconds=20.0):
    """Whether a process ends, within some time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state in "ZX":
            return True
        time.sleep(0.05)
    return False


def test_zygotes_share_a_parent_and_nothing_of_one_is_in_the_other(nursery, zygotes):
    first, second = zygotes
    changed = "import builtins, torch\nbuiltins.planted = torch.planted = 1"
    assert probed(first, "1", changed) == 1
    planted = "hasattr(__import__('builtins'), 'planted') or hasattr(__import__('torch'), 'planted')"
    for zygote in (first, second, Zygote(nursery.door)):
        assert probed(zygote, planted) is False
        parent = Path(f"/proc/{zygote.forked}/stat").read_text().rpartition(")")[2].split()[1]
        assert int(parent) == nursery.process.pid


def test_a_child_has_neither_the_class_in_its_memory_nor_a_way_to_the_nursery(zygotes):
    for zygote in zygotes:
        assert probed(zygote, AROUND) == {"list": []}
        assert "GRADER_HOME" not in probed(zygote, "' '.join(os.environ)")
        open_in_zygote = [os.readlink(f"/proc/{zygote.forked}/fd/{n}") for n in os.listdir(f"/proc/{zygote.forked}/fd")]
        assert not [where for where in open_in_zygote if where.startswith("socket:")]


def test_who_kills_what_it_can_reach_costs_itself_alone(nursery, zygotes):
    first, second = zygotes
    assert probed(second, "1") == 1
    others = [nursery.process.pid, second.forked]
    kill = f"[os.kill(pid, 9) for pid in {others}]"
    assert "Operation not permitted" in probed(first, kill)
    assert probed(second, "2") == 2 and nursery.process.poll() is None


def test_a_lost_zygote_is_forked_again_and_without_a_nursery_it_starts_by_itself(tmp_path):
    made = nurseries.Nursery()
    zygote = Zygote(made.door)
    try:
        assert probed(zygote, "1") == 1
        lost = zygote.forked
        os.kill(lost, signal.SIGKILL)
        assert probed(zygote, "2") == 2 and zygote.forked not in (0, lost)
        made.process.kill()
        assert gone(zygote.forked)  # a nursery takes its zygotes along
        assert probed(zygote, "3") == 3 and not zygote.forked
    finally:
        zygote.close()
        made.close()
    assert not Path(made.folder).exists()


def test_zygotes_of_a_closed_judge_end(nursery):
    zygote = Zygote(nursery.door)
    assert probed(zygote, "1") == 1
    pid = zygote.forked
    zygote.close()
    assert gone(pid)


def zygote_of_this_worker():
    """Start a zygote from a worker: the number of its process."""
    _kept.append(Zygote(socket(fileno=os.dup(forked.given[0]))))
    assert probed(_kept[0], "1") == 1
    return _kept[0].forked


_kept = []


def holds(pid, secret):
    """Whether the bytes are in the memory of a process."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            place, rights, *_ = line.split()
            first, last = (int(end, 16) for end in place.split("-"))
            if rights.startswith("rw"):
                memory.seek(first)
                if secret in memory.read(last - first):
                    return True
    return False


def test_what_the_command_holds_is_in_the_memory_of_its_workers_and_of_no_zygote(nursery):
    secret = secrets.token_bytes(32)
    server = forked.ForkServer()
    try:
        worker = server.worker(nursery.door.fileno())
        zygote = worker.call(zygote_of_this_worker)
        assert [holds(pid, secret) for pid in (worker.pid, zygote, nursery.process.pid)] == [True, False, False]
    finally:
        server.close()
    assert gone(worker.pid) and gone(zygote)
