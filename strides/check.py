"""A saved notebook checked from a terminal, as its own check cells would."""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path

import torch

from course_lib import checking, criteria, logbook, render
from course_lib.exercise import Verdict
from course_lib.exercises import find
from course_lib.handin import literals, twists
from course_lib.handin.cells import Problem
from course_lib.handin.validate import ReportLine, validated
from tritontrace.replay import load


def check(notebook: Path, exercise_id: str = "") -> int:
    """Print the verdict on each exercise that is solved in a notebook, or on one alone, and save the points for `strides next`. Return 1 if
    something lost points, or nothing could be judged."""
    try:
        wanted = find(exercise_id) if exercise_id else None
        found = validated(notebook)
    except (OSError, Problem, ValueError) as problem:
        print(f"{notebook} cannot be read: {problem.strerror}." if isinstance(problem, OSError) else problem)
        return 1
    lines = [line for line in found.lines if wanted is None or line.exercise.id == wanted.id]
    if not lines:
        print(f"{exercise_id} is no exercise of {notebook.name}.")
    for line in lines if wanted else []:
        if not line.graded:
            print(line.sentence)
    verdicts = []
    for line in filter(lambda line: line.graded, lines):
        with chdir(found.path.parent):  # solutions of earlier units lie beside it
            verdict = _verdict(line)
        verdicts.append(verdict)
        logbook.record_best(verdict)
        print(render.text(verdict), end="\n\n")
    if not wanted:
        points, most = (sum(getattr(verdict, name) for verdict in verdicts) for name in ("points", "out_of"))
        print(f"{len(verdicts)} of {len(lines)} exercises are answered: {points:g} of {most:g} points.")
    return 0 if verdicts and all(verdict.points == verdict.out_of for verdict in verdicts) else 1


def _verdict(line: ReportLine) -> Verdict:
    assert line.answer is not None  # it is graded
    try:
        exercise, cells = twists.asked(line.exercise), line.answer.cells
    except ValueError as error:
        return criteria.refused(line.exercise, str(error))
    if exercise.kind == "values" and (computed := literals.problem(cells, exercise.entry)):
        return criteria.refused(exercise, computed)
    try:
        entry = load(cells, exercise.entry, on_the_cpu=not torch.cuda.is_available())
    except ValueError as error:
        return criteria.refused(exercise, str(error))
    return checking.verdict(exercise, entry)
