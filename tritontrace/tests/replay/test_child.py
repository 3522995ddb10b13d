"""A child that loops, crashes, floods or lies costs itself alone: the parent gets an answer, or a sentence."""

import ctypes
import os
import signal
import sys
import time
import typing
from pathlib import Path

import pytest
import torch
from sentences import mentions, refusing, says

from tritontrace.messages import Message, message_of
from tritontrace.replay import wire
from tritontrace.replay.child import BY_SIGNAL, PRINTED, SENTENCE, ChildLost, opened, run
from tritontrace.results import CauseKind

WITH_AN_ANSWER = {"refused", "raised", "stopped", "fault", "compiler"}


def loop():
    while True:
        pass


def deaf_loop():
    import signal

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    loop()


def with_grandchild():
    if os.fork() == 0:
        loop()
    loop()


def overflow_the_stack():
    def deeper(n):
        return deeper(n + 1)

    deeper(0)


def nested():
    tree = []
    for _ in range(10_000):
        tree = [tree]
    return tree


def raising(error):
    def work():
        raise error

    return work


def children():
    """Processes of this one, zombies included."""
    return [pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()]


@pytest.fixture(autouse=True)
def nothing_is_left():
    before, descriptors, stdout = children(), set(os.listdir("/proc/self/fd")), sys.stdout
    yield
    assert children() == before
    # what earlier tests left open may be closed meanwhile, but not these three
    assert {"0", "1", "2"} <= set(os.listdir("/proc/self/fd")) <= descriptors
    assert sys.stdout is stdout


def test_an_answer_and_what_was_printed():
    def work():
        print("working", 3)
        print("to stderr", file=sys.stderr)
        sys.__stdout__.write("past the capture")
        return {"x": torch.arange(3.0), "n": [1, None]}

    result, printed = run(work, seconds=20)
    assert result["x"].tolist() == [0, 1, 2] and result["n"] == [1, None]
    assert printed == "working 3\nto stderr\npast the capture"


def test_the_childs_changes_stay_in_the_child():
    state = torch.zeros(1)
    assert run(lambda: state.add_(1).tolist(), seconds=20)[0] == [1.0]
    assert state.tolist() == [0.0]


@pytest.mark.parametrize(
    "work", [loop, deaf_loop, with_grandchild, lambda: time.sleep(60)], ids=["loop", "deaf", "fork", "sleep"]
)
def test_too_slow(work):
    with refusing("replay.child.timeout", ChildLost, seconds="0.3"):
        run(work, seconds=0.3)


def test_a_grandchild_dies_with_the_child(tmp_path):
    def work():
        if os.fork() == 0:
            (tmp_path / "pid").write_text(str(os.getpid()))
            loop()
        loop()

    with pytest.raises(ChildLost):
        run(work, seconds=1)
    pid = (tmp_path / "pid").read_text()
    for _ in range(100):  # its new parent has to bury it
        if not os.path.exists(f"/proc/{pid}") or Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
            return
        time.sleep(0.05)
    pytest.fail("the grandchild lives")


@pytest.mark.parametrize(
    "work, kind, details",
    [
        (lambda: ctypes.string_at(0), "crashed", {"signal": "SIGSEGV"}),
        (lambda: os.abort(), "crashed", {"signal": "SIGABRT", "pointer": ""}),
        (lambda: os.kill(os.getpid(), 9), "killed", {}),
        (lambda: os.kill(os.getpid(), signal.SIGSYS), "forbidden", {}),
        (raising(MemoryError()), "memory", {}),
        (lambda: os._exit(0), "exited", {}),
        (lambda: os._exit(3), "exited", {}),
    ],
)
def test_a_child_that_dies(work, kind, details):
    with pytest.raises(ChildLost) as lost:
        run(work, seconds=20)
    assert lost.value.cause.kind == kind and says(lost.value, f"replay.child.{kind}", **details)
    assert mentions(lost.value, "replay.child.pointer") == ("SIGSEGV" in details.values())


def test_a_child_that_says_it_was_starved_is_believed_only_in_one_word():
    for said in (torch.zeros(3), "yes", 1):
        answer = wire.pack({"result": 5, "error": "", "printed": "", "starved": said})
        assert opened(answer) == (5, "")
    with pytest.raises(ChildLost) as lost:
        opened(wire.pack(["starved"]))
    assert lost.value.kind == "unreadable"


def test_each_way_to_end_is_a_kind_of_cause_and_has_a_sentence():
    kinds = set(typing.get_args(CauseKind))
    details = {"timeout": {"seconds": "1"}, "asleep": {"seconds": "1"}, "crashed": {"signal": "SIGABRT"}}
    endings = {kind: str(ChildLost(kind, **details.get(kind, {}))) for kind in kinds - WITH_AN_ANSWER}
    assert set(BY_SIGNAL.values()) <= set(endings) and len(set(endings.values())) == len(endings)


@pytest.mark.parametrize(
    "work, id, parameters",
    [
        (lambda: sys.exit(1), "failed", {"exception": "SystemExit", "words": "1"}),
        (raising(KeyboardInterrupt()), "failed", {"exception": "KeyboardInterrupt", "words": ""}),
        (raising(ValueError()), "failed_silently", {}),
        (raising(RuntimeError("x" * 1000)), "failed", {"exception": "RuntimeError", "words": "x" * 300}),
        (overflow_the_stack, "failed", {"exception": "RecursionError"}),
        (lambda: object(), "no_plain_data", {"reason": "object cannot travel"}),
        (lambda: {1: 2}, "no_plain_data", {"reason": "dict cannot travel"}),
        (lambda: [print], "no_plain_data", {"reason": "builtin_function_or_method cannot travel"}),
        (lambda: 10**5000, "no_plain_data", {}),
        (nested, "no_plain_data", {}),
    ],
)
def test_a_child_that_fails_says_why(work, id, parameters):
    with refusing(f"replay.child.{id}", **parameters):
        run(work, seconds=20)


def test_an_error_is_the_same_in_the_parent():
    message = Message("no cell defines `f`", "replay.record.no_entry", {"name": "f"})
    for error in (message, "in words alone"):
        with pytest.raises(ValueError, match=f"^{error}$") as failed:
            run(raising(ValueError(error)), seconds=20)
        assert failed.value.args == (error,) and type(failed.value.args[0]) is type(error)


@pytest.mark.parametrize("long", [Message("x" * 5000), Message("x", "odd", {"x": "x" * 5000})])
def test_a_long_error_is_cut(long):
    with pytest.raises(ValueError, match=f"^{long[:SENTENCE]}$") as failed:
        run(raising(ValueError(long)), seconds=20)
    assert type(failed.value.args[0]) is str


def test_an_output_flood_is_cut():
    def work():
        for _ in range(20_000):
            print("flood" * 100)
        return "done"

    result, printed = run(work, seconds=20)
    assert result == "done"
    assert printed == ("flood" * 100 + "\n") * 3 + ("flood" * 100 + "\n" + "flood" * 100)[: PRINTED - 3 * 501]


def test_what_the_child_writes_to_descriptors_goes_nowhere(capfd):
    run(lambda: [os.write(1, b"out"), os.write(2, b"err")], seconds=20)
    assert capfd.readouterr() == ("", "")


def test_an_answer_too_large(monkeypatch):
    monkeypatch.setattr("tritontrace.replay.child.MAX_REPLY", 1 << 16)
    assert run(lambda: "x" * 1000, seconds=20)[0] == "x" * 1000
    with refusing("replay.child.flood", ChildLost):
        run(lambda: "x" * (1 << 20), seconds=20)


@pytest.mark.parametrize("bomb", [lambda: bytearray(1 << 31), lambda: [b"x" * (1 << 24) * (k + 1) for k in range(400)]])
def test_a_memory_bomb_meets_the_limit(bomb):
    with refusing("replay.child.memory", ChildLost):
        run(bomb, seconds=20, memory=1 << 28)
    assert run(lambda: len(bytearray(1 << 24)), seconds=20, memory=1 << 28)[0] == 1 << 24


def test_a_tensor_too_large_meets_the_limit():
    with pytest.raises((ChildLost, ValueError)) as lost:
        run(lambda: torch.empty(1 << 31).sum(), seconds=20, memory=1 << 28)
    message = message_of(lost.value)
    assert message.id == "replay.child.memory" or "allocate" in message.parameters["words"]


def test_prepare_runs_first_and_in_the_child():
    os.environ.pop("PREPARED", None)
    result, _ = run(lambda: os.environ["PREPARED"], seconds=20, prepare=lambda: os.environ.update(PREPARED="yes"))
    assert result == "yes" and "PREPARED" not in os.environ


def test_without_its_sandbox_no_work_is_done():
    with refusing("replay.child.failed", exception="OSError", words="no sandbox"):
        run(lambda: "worked", seconds=20, prepare=raising(OSError("no sandbox")))


def test_the_parents_descriptors_are_closed_in_the_child(tmp_path):
    with open(tmp_path / "secret", "w+") as secret:
        number = secret.fileno()

        def work():
            paths = {number: f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")}
            return [[int(number), os.readlink(path)] for number, path in paths.items() if os.path.exists(path)]

        links, _ = run(work, seconds=20)
    assert [path for descriptor, path in links if descriptor <= 2] == ["/dev/null"] * 3
    assert number not in [descriptor for descriptor, path in links if "secret" in path]
    assert not [path for _, path in links if "secret" in path or "socket" in path]
    assert len([path for _, path in links if "pipe" in path]) == 1  # its answer


@pytest.mark.parametrize("answer", [b"", b"noise", b"strides1" + bytes(8), b"strides1" + b"\xff" * 40])
def test_an_answer_that_is_forged(answer):
    """The child's code may write to the pipe itself, before the answer."""

    def work():
        for descriptor in map(int, os.listdir("/proc/self/fd")):
            try:
                os.write(descriptor, answer)
            except OSError:
                continue
        os._exit(0)

    with pytest.raises(ChildLost) as lost:
        run(work, seconds=20)
    assert lost.value.kind == ("unreadable" if answer else "exited")


def test_one_thread_and_no_core_file():
    import resource

    threads, core = run(lambda: [torch.get_num_threads(), list(resource.getrlimit(resource.RLIMIT_CORE))], seconds=20)[
        0
    ]
    assert threads == 1 and core == [0, 0]
