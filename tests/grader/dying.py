"""Stand-ins for workers.judge in tests. They are in a module of their own, so that worker processes can import it."""

import os
import signal

from grader.cohort import workers


def judge(job, accept_risk):
    """Judges, but for the jobs of "mallory", which kill the process."""
    if job.student == "mallory":
        os.kill(os.getpid(), signal.SIGKILL)
    return _judge(job, accept_risk)


_judge = workers.judge
