"""Stand-ins for workers.judge in tests. They are in a module of their own, so that worker processes can import it."""

import os
import signal

from grader.child import memory
from grader.cohort import workers


def judge(job, accept_risk):
    """Judges, but for the jobs of "mallory", which kill the process."""
    if job.student == "mallory":
        os.kill(os.getpid(), signal.SIGKILL)
    return _judge(job, accept_risk)


def hoard(job, accept_risk):
    """Judge nothing, and say in which process; the jobs of "hoarder" leave much in its memory."""
    if job.student == "hoarder":
        _hoard.append(bytearray(os.urandom(1) * (memory.WORKER + (1 << 20))))
    return [os.getpid()], {}


_hoard = []
_judge = workers.judge
