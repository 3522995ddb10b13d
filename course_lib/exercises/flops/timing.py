"""A clock that measures what it says, against a simulated GPU."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from course_lib.catalogue import say
from course_lib.criteria import Holds
from course_lib.exercise import Effort, Exercise, Trial
from course_lib.exercises.flops.cases import timed
from course_lib.exercises.flops.mistakes import every
from course_lib.exercises.flops.oracles import near_the_truth
from course_lib.mistakes import MistakeMatcher, for_cases
from course_lib.workloads.counted import SimulatedGPU


def simulated(
    cold: float,
    hot: float,
    slow_start: int,
    noise: bool,
    stamina: int,
    warm_up: int,
    runs: int,
    pick: Callable[[list[float]], float] = statistics.median,
    flush: bool = True,
    wait: bool = True,
    late: bool = False,
) -> float:
    """Return the seconds that a timer with these habits reports for a case. pick: chooses one of the times; flush: the cache before each
    run; wait: until the flush is done; late: the first flush comes after the first timed run."""
    gpu, times = SimulatedGPU(cold, hot, slow_start, noise, stamina), []
    for run in range(warm_up + runs):
        if flush and run >= warm_up + late:
            gpu.flush()
        if wait or run < warm_up:
            gpu.synchronize()
        before = gpu.clock()
        gpu.work()
        gpu.synchronize()
        times.append(gpu.clock() - before)
    return pick(times[warm_up:])


@dataclass
# trap: who runs in a process can change what measures there, so `measure`, `checkpoint`, `accumulate` and `swap_in`
# count by what the log shows
class Timed(Holds):
    """Criterion: the number is right, and the simulated clock has shown it: at least half of the runs asked for were measured so that their
    time is right. The number alone might be a guess."""

    def _problem(self, trial: Trial, output: Any, arguments: dict[str, Any]) -> str:
        if problem := super()._problem(trial, output, arguments):
            return problem
        call = next(i for i, given in enumerate(trial.inputs) if given is arguments)
        did = trial.evidence.did[call] if call < len(trial.evidence.did) else []
        runs, right = arguments["runs"], shown_by_the_clock(did, **arguments)
        if 2 * right >= runs:
            return ""
        if trial.case.hidden:
            return say("flops.measure.not_shown", case=trial.case.name)
        return say("flops.measure.few_runs", right=right, runs=runs)


def shown_by_the_clock(
    did: Sequence[str], cold: float, hot: float, slow_start: int, noise: bool, stamina: int, **_: Any
) -> int:
    """Count the runs of the work between two readings of the clock, no more than three readings apart, which show the right time for a run.
    did: the calls to the GPU, in order."""
    gpu = SimulatedGPU(cold, hot, slow_start, noise, stamina)
    runs, readings, right = 0, [], set()
    for what in did:
        if what == "clock":
            readings.append((gpu.clock(), runs))
        elif what in ("work", "flush", "synchronize"):
            getattr(gpu, what)()
            runs += what == "work"
    for i, (start, before) in enumerate(readings):
        for end, after in readings[i + 1 : i + 4]:
            if after > before and near((end - start) / (after - before), cold=cold):
                right |= set(range(before, after))
    return len(right)


def as_if(group: str, sentence: str, **how: Any) -> MistakeMatcher:
    """Make a matcher that returns `sentence` if the times of that group are those of simulated(**how)."""
    alike = every(lambda out, **case: math.isclose(out, simulated(**case, **how), rel_tol=0.01), sentence)
    return for_cases(lambda case: case.group == group, alike)


def is_launches(out: float, **_: Any) -> bool:
    """Whether a time is that of one or two launches alone."""
    return any(math.isclose(out * 1e6, n * SimulatedGPU.LAUNCH, rel_tol=0.01) for n in (1, 2))


def near(seconds: float, **case: Any) -> bool:
    """Whether a time is close to the true one."""
    return near_the_truth(seconds, **case) == ""


def as_if_many_runs(trials: Sequence[Trial]) -> str:
    """Return a remark if only the cases are wrong where the GPU slows down after as many runs as were asked for; else ""."""
    pairs = [p for t in trials for p in t.calls]
    wrong = [(case, out) for case, out in pairs if near_the_truth(out, **case)]
    found = wrong and all(case["stamina"] and isinstance(out, float) and near(out / 2, **case) for case, out in wrong)
    return say("flops.measure.more_runs_than_asked") if found else ""


measure = Exercise(
    id="flops.measure",
    signature="measure(work, gpu, warm_up: int = 5, runs: int = 20) -> float",
    kind="formula",
    called="with a simulated GPU",
    effort=Effort(minutes=15, lines=12, difficulty=3),
    cases=[
        timed("900 µs", "steady", 900.0),
        timed("20 ms", "steady", 20000.0, runs=3),
        timed("5 slow runs first", "warm-up", 700.0, slow_start=5, runs=5),
        timed("2 slow runs first", "warm-up", 1500.0, slow_start=2, warm_up=2, runs=3),
        timed("slower after 3 + 5 runs", "warm-up", 1000.0, slow_start=3, stamina=8, warm_up=3, runs=5),
        # the first, the middle and the last of these runs are disturbed ones
        timed("disturbed", "median", 800.0, noise=True, warm_up=4, runs=21),
        timed("disturbed, 45 runs", "median", 1100.0, noise=True, runs=45),
        timed("400 µs from the cache", "cold", 900.0, hot=400.0),
        timed("100 µs from the cache", "cold", 600.0, hot=100.0, runs=9),
        timed("300 µs from the cache, 1 run", "cold", 800.0, hot=300.0, runs=1),
    ],
    oracle=lambda **_: None,
    criteria=[
        Timed(near_the_truth, 4, say("flops.measure.title_timed"), group="steady"),
        Timed(near_the_truth, 2, say("flops.measure.title_timed_warm_up"), group="warm-up"),
        Timed(near_the_truth, 2, say("flops.measure.title_timed_median"), group="median"),
        Timed(near_the_truth, 2, say("flops.measure.title_timed_cold"), group="cold"),
    ],
    mistakes=[
        every(lambda out, **_: out < 0, say("flops.measure.negative")),
        every(is_launches, say("flops.measure.does_not_wait_for_the_work")),
        every(lambda out, **_: 0 < out < 20e-6 and not is_launches(out), say("flops.measure.another_clock")),
        every(lambda out, **case: near(out / 1e6, **case), say("flops.measure.microseconds")),
        as_if("steady", say("flops.measure.times_the_flush"), wait=False),
        as_if("median", say("flops.measure.the_mean"), pick=statistics.mean),
        as_if("median", say("flops.measure.the_least"), pick=min),
        as_if("median", say("flops.measure.the_greatest"), pick=max),
        as_if("median", say("flops.measure.the_first_timed_run"), pick=lambda t: t[0]),
        as_if("median", say("flops.measure.the_middle_of_an_unsorted_list"), pick=lambda t: t[len(t) // 2]),
        as_if("cold", say("flops.measure.a_warm_cache"), flush=False),
        as_if("cold", say("flops.measure.a_warm_first_run"), late=True),
        every(lambda out, **case: near(out / 1e3, **case), say("flops.measure.milliseconds")),
        as_if_many_runs,
    ],
)
