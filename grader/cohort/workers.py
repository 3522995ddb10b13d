"""Workers that judge: processes of this machine, or those of a Dask cluster. Each takes a Job and gives a verdict.

A job carries all that it needs (cells and a seed, never the course's secret), so a worker shares nothing with the
instructor's machine but the course's code. A worker that dies takes the job that it had with it; what to do then is up to
classroom.py.
"""

from __future__ import annotations

import functools
import gc
import os
import queue
import signal
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from socket import socket
from typing import Any, Protocol

import torch

import grader
from course_lib import execution
from course_lib.exercise import Exercise, Verdict
from course_lib.exercises import twists, unit_of
from grader.child import memory, sandbox
from grader.child.nursery import Nursery
from grader.cohort import canary, forked
from grader.cohort.forked import WorkerDied, WorkerProcess
from grader.judging import judge as judging
from grader.judging import verdicts
from tritontrace.replay import wire

AHEAD = 2  # jobs handed out per worker, so that none waits for the next


@dataclass(frozen=True)
class QueuedAnswer:
    """An answer to judge: an exercise's id, the cells that define its function, the seed of the hidden inputs, and the key of the student's
    twist, "" for none."""

    exercise: str
    cells: tuple[tuple[str, str], ...]
    seed: int
    twist: str = ""

    @property
    def task(self) -> Exercise:
        """Return the exercise with the student's twist."""
        return twists.named(self.exercise, self.twist)


@dataclass(frozen=True)
class JudgingJob:
    """Answers of one student to judge. `version`: what verdicts.checkout() is where the class is kept.

    canary    a published answer that a worker judges before its first job with it
    """

    student: str
    answers: tuple[QueuedAnswer, ...]
    version: str
    kernels: bool = False  # its answers have some, which a GPU can run
    gpu: grader.GPUMode = "shown"
    canary: QueuedAnswer | None = None
    many: bool = False  # the class is large: to know the published kernels pays
    patient: bool = False  # nobody waits: its answers may be judged one by one, should they disturb one another

    def apart(self) -> list[JudgingJob]:
        """Split the job into one for each answer."""
        return [replace(self, answers=(answer,)) for answer in self.answers]


class OtherVersion(RuntimeError):
    """Raised, with a message, where a worker has other code, another torch or another Triton than the instructor's machine."""


class WorkersLost(RuntimeError):
    """Raised, with instructions, where no worker is left to judge."""


class NoCluster(WorkersLost):
    """Raised where there is no cluster to grade on."""


class Workers(Protocol):
    """Interface of the pools of workers that run jobs."""

    @property
    def died(self) -> tuple[type[Exception], ...]:
        """Return the exceptions of a future that mean that the job's worker died."""
        ...

    @property
    def slots(self) -> int:
        """Return how many jobs to submit at a time."""
        ...

    def device(self, mode: grader.GPUMode) -> str:
        """Return verdicts.device() of the workers that have a GPU."""
        ...

    def places(self, mode: grader.GPUMode) -> list[str]:
        """Return verdicts.place() of each worker."""
        ...

    def submit(self, job: JudgingJob) -> Future[tuple[list[Any], dict[str, float]]]:
        """Submit a job, and return the future of judge(job)."""
        ...

    def close(self, *, now: bool = False) -> None:
        """Shut down; now: also workers that still judge."""
        ...


# ------------------------------------------------------------------------------------------------ in a worker

_own = threading.local()


def judge(job: JudgingJob, accept_risk: bool) -> tuple[list[Any], dict[str, float]]:
    """(the verdicts as trees, seconds by phase). judge.Postponed unless the job is patient; canary.Broken, GraderFailed or another
    exception if our own machinery fails."""
    if job.version != verdicts.checkout():
        raise OtherVersion(
            f"A worker on {os.uname().nodename} has another version of the course, of torch or of Triton than this "
            "machine. Give every worker the same checkout and environment, then start the workers again."
        )
    if not hasattr(_own, "judge"):
        torch.set_num_threads(1)  # workers fill the cores, not their threads
        door = next((socket(fileno=os.dup(descriptor)) for descriptor in forked.given), None)  # of a nursery
        _own.judge, _own.heard, _own.warm = judging.Judge(accept_risk=accept_risk, door=door), set(), ""
        gc.set_threshold(100_000)  # there is hardly any garbage in the messages of a submission
    _own.judge.gpu = job.gpu
    if job.canary and job.canary not in _own.heard:
        canary.judge_references(_own.judge, _answers(job.canary))
        _own.heard.add(job.canary)
    unit = unit_of(job.answers[0].exercise)
    if job.many and unit != _own.warm:
        _own.judge.warm(canary.references(unit))
        _own.warm = unit
    execution.SPENT.clear()
    try:
        found = _own.judge.judge_all(_answers(*job.answers), judging.CpuBudget(hurry=not job.patient))
        return wire.to_tree(found), dict(execution.SPENT)
    finally:
        gc.collect()  # what refers to itself there holds tensors, some 20 MB of them
        gc.freeze()  # what is left, torch and Triton above all, stays: to look among it again takes 0.1 s each time


def _answers(*answers: QueuedAnswer) -> list[judging.JudgedAnswer]:
    return [(of.task, of.cells, of.seed) for of in answers]


def held() -> int:
    """Bytes that this worker and its zygote hold."""
    forked = _own.judge.zygote.forked if hasattr(_own, "judge") else 0  # another process is its parent
    return memory.resident(os.getpid()) + (memory.resident(forked) if forked else 0)


def close() -> None:
    """Close this worker's judge, if it has one."""
    if hasattr(_own, "judge"):
        _own.judge.close()


def verdicts_of(trees: list[Any]) -> list[Verdict]:
    """Read verdicts from trees of plain data."""
    return wire.from_tree(list[Verdict], trees)


# ------------------------------------------------------------------------------------------------ this machine


class Local:
    """`count` processes of this machine, each replaced when it dies, or holds more than memory.WORKER when a job is done. With
    GPUs, each has one in sight. Where no bubblewrap keeps their zygotes apart, one nursery forks these."""

    died = (WorkerDied,)

    def __init__(self, count: int, *, accept_risk: bool = False) -> None:
        self.count, self.accept_risk = count, accept_risk
        self.server = forked.ForkServer()
        self.seats: queue.SimpleQueue[int] = queue.SimpleQueue()
        for seat in range(count):
            self.seats.put(seat)
        self.threads = ThreadPoolExecutor(count, thread_name_prefix="worker")  # each waits for a process of its own
        self.local = threading.local()
        self.processes: dict[int, WorkerProcess] = {}  # by seat
        self.nursery: Nursery | None = None
        self.starting = threading.Lock()

    @property
    def slots(self) -> int:
        return AHEAD * self.count

    def device(self, mode: grader.GPUMode) -> str:
        return verdicts.device(mode)

    def places(self, mode: grader.GPUMode) -> list[str]:
        return [verdicts.place(mode)] * self.count

    def submit(self, job: JudgingJob) -> Future:
        return self.threads.submit(self._in_my_process, job)

    def _in_my_process(self, job: JudgingJob) -> tuple[list[Any], dict[str, float]]:
        if not hasattr(self.local, "seat"):
            self.local.seat = self.seats.get()
        seat = self.local.seat
        try:
            if seat not in self.processes:
                self.processes[seat] = self.server.worker(*self._door())
                self.processes[seat].call(_see_one_gpu, seat)
            judged = self.processes[seat].call(judge, job, self.accept_risk)
            if self.processes[seat].call(held) > memory.WORKER:
                self._let_go(seat)
            return judged
        except WorkerDied:
            self._let_go(seat)
            raise

    def _door(self) -> list[int]:
        """The door where the next worker gets its zygote, as a descriptor; [] if it starts one."""
        if sandbox.bubblewrap_works():
            return []
        with self.starting:
            self.nursery = self.nursery or Nursery()
            return [self.nursery.door.fileno()]

    def _let_go(self, seat: int) -> None:
        """End the process of a seat, if it has one: the next job has another."""
        if process := self.processes.pop(seat, None):
            with suppress(WorkerDied):
                process.call(close)
            process.close()

    def close(self, *, now: bool = False) -> None:
        for process in list(self.processes.values()) if now else ():
            os.kill(process.pid, signal.SIGKILL)
        self.threads.shutdown(cancel_futures=True)
        for seat in list(self.processes):
            self._let_go(seat)
        self.server.close()
        if self.nursery:
            self.nursery.close()


def _see_one_gpu(seat: int) -> None:
    """Give a new worker one GPU to see, if there are any."""
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(torch.cuda.device_count())))
    if gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus.split(",")[seat % len(gpus.split(","))]


# ------------------------------------------------------------------------------------------------ a cluster


class Dask:
    """Workers of a Dask scheduler, as many as there are at each moment. Needs the extra `cluster`.

    A worker that was started with `--resources GPU=1` judges answers with kernels, and those go nowhere else; if there
    is none, they go anywhere and no GPU runs them.
    """

    def __init__(self, address: str, *, accept_risk: bool = False, seconds: float = 60.0) -> None:
        try:
            from distributed import Client, KilledWorker
        except ImportError:
            raise NoCluster("--scheduler needs Dask: install the extra `cluster`, pip install '.[cluster]'.") from None
        self.died = (KilledWorker,)
        self.accept_risk = accept_risk
        try:
            self.client = Client(address, timeout=min(seconds, 10.0), set_as_default=False)
        except (OSError, ValueError) as error:
            raise NoCluster(f"No Dask scheduler answers at {address} ({error}).") from None
        try:
            self.client.wait_for_workers(1, timeout=seconds)
        except TimeoutError:
            self.client.close()
            raise NoCluster(
                f"The scheduler at {address} has had no worker for {seconds:.0f} s: start `dask worker {address}` "
                "somewhere, or ask your cluster's queue why its jobs wait."
            ) from None

        def tell_of_deaths(
            dask_scheduler: Any,
        ) -> None:  # in here, so that it travels whole: the scheduler has no grader
            dask_scheduler.allowed_failures = (
                0  # classroom.py knows better than to try a poisonous job again in company
            )

        self.client.run_on_scheduler(tell_of_deaths)

    def _workers(self) -> dict[str, Any]:
        return self.client.scheduler_info(n_workers=-1)["workers"]

    @property
    def slots(self) -> int:
        return AHEAD * max(1, sum(worker["nthreads"] for worker in self._workers().values()))

    @functools.cached_property
    def with_gpu(self) -> list[str]:
        """List the workers that have a GPU."""
        return [address for address, worker in self._workers().items() if worker["resources"].get("GPU")]

    def device(self, mode: grader.GPUMode) -> str:
        """Return the GPU of the workers that have one. Raises NoCluster if they differ: a class is timed on one kind."""
        told: Any = self.client.run(verdicts.device, mode, workers=self.with_gpu) if self.with_gpu else {}
        found = sorted(set(told.values()))
        if len(found) > 1:
            raise NoCluster(
                f"The workers have different GPUs ({', '.join(found)}), and times on them do not compare: give the "
                "resource GPU to workers of one kind."
            )
        return found[0] if found else verdicts.NO_GPU

    def places(self, mode: grader.GPUMode) -> list[str]:
        found: Any = self.client.run(verdicts.place, mode)
        return [*found.values()]

    def submit(self, job: JudgingJob) -> Future:
        resources = {"GPU": 1} if job.kernels and job.gpu != "none" and self.with_gpu else None
        return self.client.get_executor(resources=resources, pure=False).submit(judge, job, self.accept_risk)

    def close(self, *, now: bool = False) -> None:
        """Cancel jobs that still run; the scheduler and its workers stay."""
        self.client.close()
