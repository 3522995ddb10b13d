"""Results of a GPU, and what they do to a verdict. The GPU is played: what comes back is written by hand. A real one: tests/gpu."""

import os
import signal
import subprocess
import sys
import time
from functools import cache

import pytest

from course_lib import criteria, judging, render
from course_lib.execution import gpu_lock, observe, on_gpu
from course_lib.exercises import find
from course_lib.hardware.measurements import measured
from grader.published import published
from tritontrace.replay import wire

EXERCISE = find("start.add_one")
NAMES = [case.name for case in EXERCISE.cases]


@cache
def observed():
    return observe(EXERCISE, published(EXERCISE.id), 7, seconds=60)


@pytest.fixture(autouse=True)
def has_gpu(monkeypatch):
    monkeypatch.setattr(on_gpu, "can_run", lambda exercise: True)


def trials():
    for trial in observed():
        trial.evidence.on_gpu = trial.evidence.timing = None
    return observed()


def told(*steps):
    """The bytes of what the process with the GPU tells."""
    packed = [wire.pack(step) for step in steps]
    return b"".join(map(gpu_lock.framed, packed))


def right(change=lambda index, out: out):
    outputs = [[change(index, out) for out in trial.evidence.outputs] for index, trial in enumerate(observed())]
    return [{"gpu": "H200"}, *({"case": index, "outputs": out} for index, out in enumerate(outputs))]


def judged(written, *, counts=True, late=False):
    """(the verdict, the finding on the GPU) where the GPU writes this, and has no time for more if it is late."""

    def run(message, seconds):
        if wire.unpack(message)["asked"] == "time":
            return subprocess.CompletedProcess([], 1, b"", b"killed")
        if late:
            raise subprocess.TimeoutExpired("gpu", seconds, output=written)
        return subprocess.CompletedProcess([], 0, written, b"")

    def record(calls):
        return [{"calls": [{"error": ""}], "kernels": {}} for _ in calls]

    found = judging.judge(EXERCISE, trials(), 7, record, gpu=judging.GPUPolicy(run, counts))
    return found, next(finding for finding in found.findings if finding.key == "right_on_gpu")


def test_right_there_is_right():
    found, on_the_gpu = judged(told(*right()))
    assert found.points == found.out_of and on_the_gpu.passed and on_the_gpu.gate


def test_wrong_there_is_wrong():
    found, on_the_gpu = judged(told(*right(lambda index, out: out * (1 if index != 2 else 2))))
    assert found.points == 0 and on_the_gpu.lost and on_the_gpu.on == NAMES[2]
    assert [finding.key for finding in found.findings if finding.lost] == ["right_on_gpu"]


def test_wrong_there_is_shown_and_costs_nothing_where_a_class_is_judged_elsewhere_too():
    found, on_the_gpu = judged(told(*right(lambda index, out: out + 1)), counts=False)
    assert found.points == found.out_of and on_the_gpu.lost and found.outcome == "right" and found.bonus == 0


def test_where_it_did_not_run_a_verdict_says_so_and_what_is_recorded():
    exercise = find("coalescing.row_copy")
    found = criteria.judge(exercise, observe(exercise, published(exercise.id), 7, seconds=60))
    row = measured("answers")["answers"][exercise.id]
    assert "Not run on a GPU. Recorded on" in render.text(found) and f"{row['ratio']:.2f} of" in render.html(found)
    ran, _ = judged(told(*right()))
    assert ran.gpu == "H200" and "Not run on a GPU" not in render.text(ran)
    assert all("ran on H200, too" in shown for shown in (render.text(ran), render.html(ran)))


@pytest.mark.parametrize(
    "end, late",
    [([{"launched": 1}], True), ([{"case": 1, "stopped": "the GPU stopped the kernel"}], False)],
    ids=["no end", "stopped"],
)
def test_a_kernel_that_ends_badly_there_is_wrong(end, late):
    found, on_the_gpu = judged(told(*right()[:2], *end), late=late)
    assert found.points == 0 and on_the_gpu.lost and on_the_gpu.on == NAMES[1] and on_the_gpu.cause.kind == "stopped"


@pytest.mark.parametrize(
    "written",
    [
        b"",
        told({"gpu": "H200"}),
        told(*right())[:40],
        told({"case": 0, "not_run": "failed", "said": "no driver"}),
        told({"gpu": "H200"}, {"case": 0, "not_run": "memory", "said": "out of memory"}),
        told({"gpu": "H200"}, {"case": 0, "not_run": "compiler", "said": "OutOfResources"}),
    ],
)
@pytest.mark.parametrize("late", [False, True])
def test_what_the_machine_fails_at_costs_nothing(written, late):
    found, on_the_gpu = judged(written, late=late)
    assert found.points == found.out_of and on_the_gpu.status == "not_judged"


def test_a_busy_gpu_is_not_waited_for(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(gpu_lock, "PATIENCE", 0.1)
    with gpu_lock.alone(), pytest.raises(gpu_lock.Busy) as alone:
        gpu_lock.run(b"", 5.0)
    held = trials()

    def busy(message, seconds):
        raise gpu_lock.Busy(3)

    on_gpu.run(EXERCISE, [{}] * len(held), held, busy)
    assert {(trial.evidence.on_gpu.not_run, trial.evidence.on_gpu.waiting) for trial in held} == {("busy", 3)}
    line = criteria.RightOnGPU().judge(EXERCISE, held)
    assert line.status == "not_judged" and "3 other checks" in line.seen
    assert alone.value.waiting == 0


def test_who_finds_the_gpu_busy_is_told_how_many_wait(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    waits = f"import runpy\nwith runpy.run_path({gpu_lock.__file__!r})['alone'](30.0): pass"
    with gpu_lock.alone():
        more = os.environ | {"TMPDIR": str(tmp_path)}
        others = [subprocess.Popen([sys.executable, "-c", waits], env=more) for _ in range(3)]
        seen, ends = 0, time.monotonic() + 20
        while seen < 3 and time.monotonic() < ends:
            with pytest.raises(gpu_lock.Busy) as busy, gpu_lock.alone(patience=0.05):
                pass
            seen = busy.value.waiting
    assert seen == 3 and [other.wait() for other in others] == [0, 0, 0]
    with gpu_lock.alone(patience=0.05):
        pass


ANSWERS = """
import os, struct, sys
(length,) = struct.unpack("<Q", sys.stdin.buffer.read(8))
sys.stdout.buffer.write(b"%d " % os.getpid() + sys.stdin.buffer.read(length))
"""


def test_a_prepared_process_has_the_next_message_and_one_alone(monkeypatch, tmp_path):
    """Also where a fork of this process holds its input open."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(gpu_lock, "COMMAND", (sys.executable, "-c", ANSWERS))
    for _ in range(2):
        gpu_lock.prepare()
    (waiting,) = gpu_lock._prepared
    if not (fork := os.fork()):
        time.sleep(60)
        os._exit(0)
    try:
        first, second = (gpu_lock.run(b"message", 20.0).stdout.split() for _ in range(2))
    finally:
        os.kill(fork, signal.SIGKILL)
        os.waitpid(fork, 0)
    assert first == [b"%d" % waiting.pid, b"message"] and second[0] != first[0] and second[1] == b"message"


def test_a_prepared_process_that_has_ended_is_replaced(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(gpu_lock, "COMMAND", (sys.executable, "-c", ANSWERS))
    gpu_lock.prepare()
    (ended,) = gpu_lock._prepared
    ended.kill()
    ended.wait()
    assert gpu_lock.run(b"message", 20.0).stdout.endswith(b" message")


def test_a_message_longer_than_a_pipe_reaches_a_process_that_starts_slowly(monkeypatch, tmp_path):
    """Tensors of a check are megabytes, and the process imports torch before it reads them."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(gpu_lock, "COMMAND", (sys.executable, "-c", "import time; time.sleep(0.5)\n" + ANSWERS))
    message = bytes(range(256)) * 16_384  # 4 MB
    assert gpu_lock.run(message, 20.0).stdout.partition(b" ")[2] == message


def test_a_run_that_has_ended_before_it_began_raises(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(gpu_lock, "COMMAND", (sys.executable, "-c", "import time; time.sleep(60)"))
    run = gpu_lock.Interruptible()
    run.end()
    with pytest.raises(subprocess.TimeoutExpired):
        run(b"message", 20.0)
    with gpu_lock.alone(patience=0.05):  # and the GPU is free
        pass


def test_what_left_its_tensors_stays_off_the_gpu():
    from dataclasses import replace

    held = [replace(trial, evidence=replace(trial.evidence)) for trial in trials()]
    held[0].evidence.error = "the kernel reads outside of `x`"

    def never(message, seconds):
        raise AssertionError("it ran")

    on_gpu.run(EXERCISE, [{}] * len(held), held, never)
    assert all(trial.evidence.on_gpu is None for trial in held)
