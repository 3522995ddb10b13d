"""The work log of a saved notebook as a page of its own."""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path

import torch

from course_lib import work_logs
from course_lib.handin.cells import Problem
from course_lib.handin.validate import validated
from tritontrace.replay import load


def write(notebook: Path, exercise_id: str, out: Path) -> int:
    """Write the page of a work log and print the state of its rounds; return 1, with a message, where there is none."""
    try:
        exercise = work_logs.exercise_of(exercise_id)
        line = next((line for line in validated(notebook).lines if line.exercise.id == exercise.id), None)
        if line is None or line.answer is None:
            raise ValueError(f"{exercise.id}: {line.sentence if line else f'no exercise of {notebook.name}.'}")
        with chdir(notebook.absolute().parent):
            rounds = load(line.answer.cells, exercise.entry, on_the_cpu=not torch.cuda.is_available())
        page = work_logs.page.Page(exercise, work_logs.log.of_rounds(exercise, rounds))
        out.write_text(page.document(), "utf-8")
    except (OSError, Problem, ValueError) as problem:
        print(f"{problem.filename}: {problem.strerror}." if isinstance(problem, OSError) else problem)
        return 1
    print(f"{page}\n\n{out}")
    return 0
