"""attempt("fusion.online_softmax", mine): an open task. It has no target and no points, and nobody knows the best answer.

Your function runs on one large case. If its result is right, the bytes that it moves, and on a GPU the time that it takes, are kept
in your logbook (logbook.py), and a picture shows all your attempts, the published answer, and the bytes of the task itself.

tasks.py     the open tasks
picture.py   their picture
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any

import torch

from course_lib import checking, criteria, logbook, render
from course_lib.catalogue import say
from course_lib.execution import timed
from course_lib.exercise import Trial, Verdict
from course_lib.handin import twists
from course_lib.logbook import Attempt
from tritontrace.messages import message_of
from tritontrace.profiling import bench

if TYPE_CHECKING:
    from course_lib.open_tasks.tasks import OpenTask

COMPILE_SECONDS = 60.0  # an entry needs the compiler's word on registers, and large blocks take long
NO_ENTRY = say("shown.open_task.no_entry")


def attempt(exercise_id: str, entry: Any) -> Any:
    """Try your function on an open task. Return the picture of your attempts if its result is right, else print why it does not count."""
    from course_lib.open_tasks.tasks import TASKS  # which no notebook's first cell needs: it has four units' exercises

    name = str(getattr(exercise_id, "__name__", exercise_id))
    if name not in TASKS:
        print(say("shown.open_task.no_task", name=repr(name), tasks=[*TASKS]))
        return None
    try:
        task = replace(TASKS[name], exercise=twists.asked(TASKS[name].exercise))
    except ValueError as error:
        print(error)
        return None
    counted = count(task, entry)
    if isinstance(counted, Verdict):
        render.show(f"{NO_ENTRY}\n{render.text(counted)}", f"{NO_ENTRY}{render.html(counted)}")
        return None
    logbook.record_attempt(name, counted)
    from course_lib.open_tasks import picture

    return picture.attempts(task, logbook.attempts(name))


def count(task: OpenTask, entry: Any) -> Attempt | Verdict:
    """Count what a function spends on the task. Return the attempt, or the verdict that says why it does not count."""
    seed = secrets.randbits(31)
    trials = checking.observed(task.asked, entry, seed, COMPILE_SECONDS)
    if isinstance(trials, Verdict):
        return trials
    verdict = criteria.judge(task.asked, trials)
    if not all(finding.passed for finding in verdict.findings):
        return verdict
    try:
        ms, card = _timed(task, entry, seed) if bench.has_gpu() else (0.0, "")
    except ValueError as error:
        return criteria.refused(task.asked, message_of(error))
    launches = trials[0].evidence.launches
    return Attempt(
        str(date.today()), moved(trials[0]), max(each.programs for each in launches), len(launches), ms, card
    )


def moved(trial: Trial) -> int:
    """Count the bytes that all loads and stores move."""
    return sum(f.read_bytes + f.written_bytes for launch in trial.evidence.launches for f in launch.footprints)


def _timed(task: OpenTask, entry: Any, seed: int) -> tuple[float, str]:
    """(milliseconds on this GPU, its name). Raises ValueError, with a sentence, if the result is wrong there."""
    arguments = task.timed.draw(torch.Generator("cuda").manual_seed(seed))
    if wrong := timed.difference(task.exercise, arguments, entry(**arguments)):
        raise ValueError(say("shown.open_task.wrong_on_gpu", case=task.timed.name, difference=wrong))
    ratio = bench.ratio(lambda: entry(**arguments), bench.copy_of(int(task.least(**arguments))))
    return ratio.own_ms, torch.cuda.get_device_name()
