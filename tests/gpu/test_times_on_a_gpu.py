"""Times that a verdict does not wait for, and a profile where no counters may be read, on a real card."""

import threading
import time

import pytest
import torch

from course_lib import profile
from course_lib.checking import verdict
from course_lib.execution import gpu_lock
from course_lib.exercises import find
from grader import doctor
from grader.published import published
from tritontrace.profiling import nsight

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]
EXERCISE = find("coalescing.row_copy")


@pytest.fixture(scope="module")
def judged():
    """(the verdict, what measures its times)."""
    measures = []
    found = verdict(EXERCISE, published(EXERCISE.id), later=measures.append)
    (measure,) = measures
    return found, measure


def test_right_on_the_gpu_is_said_before_it_is_timed(judged):
    found, measure = judged
    assert found.points == found.out_of and found.bonus == 0 and found.gpu == torch.cuda.get_device_name()
    assert next(finding for finding in found.findings if finding.bonus).status == "not_measured"
    timing = measure(gpu_lock.Interruptible())
    assert not timing.problem and timing.ratio > 0.5 and timing.gpu == found.gpu


def test_a_run_that_is_ended_gives_the_gpu_free(judged):
    run = gpu_lock.Interruptible()
    thread = threading.Thread(target=judged[1], args=(run,))
    thread.start()
    time.sleep(2)  # it is at work
    with pytest.raises(gpu_lock.Busy), gpu_lock.alone(patience=0.05):
        pass
    run.end()
    with gpu_lock.alone(patience=10):
        pass
    thread.join(20)
    assert not thread.is_alive()


def test_a_profile_without_counters_says_how_long_each_launch_takes(monkeypatch):
    monkeypatch.setattr(nsight, "is_here", lambda: False)
    x = torch.randn(4096, 4096, device="cuda")
    copy = published(EXERCISE.id)
    found = profile(lambda: copy(x))
    (launch,) = found.launches
    assert launch.counted is None and 1 < launch.seconds / launch.roofline.seconds < 3, found
    assert "Took " in str(found)


def test_the_doctor_names_the_card_and_says_who_may_read_counters(tmp_path):
    rows = {row.what.strip(): row for row in doctor.examine(tmp_path, accept_risk=True)}
    assert rows["GPU 0"].here.startswith(torch.cuda.get_device_name(0)) and rows["counters"].here
