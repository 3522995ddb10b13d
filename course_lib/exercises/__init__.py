"""One module or package per unit: the exercises with their cases, oracles, criteria and points. Hints are text, in hints/UNIT.md.

A large unit is a package: what its exercises are given in cases.py, what is right in oracles.py, how a wrong result is
recognised in mistakes.py, criteria of its own in criteria.py, the exercises in modules by subject, listed in __init__.py.

What several units share: cases.py, ways to draw them; misconceptions.py, results that mistakes give; wrong_formulas.py, whether
a wrong result is of its formula or of its numbers; remembered.py, what a verdict asks more than once. Three forms of exercise
have modules of their own: breaking.py, inputs that show what is wrong with a kernel; naming.py, a picture whose cause is to be
named; rounds.py, a work log. sealed.py keeps explanations until the answer is written. twists.py draws tasks in place of an
exercise's own, from the twists.py of its unit. `find` knows an exercise by its id, and ids.py those of earlier releases;
titles.py says what people call it.

Oracles are torch, brute force or the trace; closed forms and solutions live elsewhere.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING

from course_lib.exercises import ids

if TYPE_CHECKING:  # it brings torch, and the names of the units are asked for by each command's help
    from course_lib.exercise import Exercise

UNITS = {
    "00_start_here": "start",
    "01_tensors_and_strides": "strides",
    "02_dtypes": "dtypes",
    "03_counting_flops": "flops",
    "04_memory_coalescing": "coalescing",
    "05_tiling": "tiling",
    "06_fusion": "fusion",
    "07_recomputation": "recomputation",
    "08_attention_by_tiles": "attention",
    "09_flash_attention_forward": "flash",
    "10_flash_attention_backward": "flash_backward",
    "11_training_a_model": "training",
    "12_serving_a_model": "serving",
    "13_inside_an_sm": "sm",
    "14_hopper_by_hand": "hopper",
}
"""The unit's folder in notebooks/ and solutions/ -> its module here, its page in hints/, and its module in figures/,
grader/judging/hidden and grader/audit/variants."""

BEYOND = ("11_training_a_model", "12_serving_a_model", "13_inside_an_sm", "14_hopper_by_hand")
"""Units behind the main path, which each stand alone: what counts there is the unit's own."""


def unit_of(exercise_id: str) -> str:
    """Return the unit's folder for an exercise's id. Raises StopIteration if no unit has such exercises."""
    return next(unit for unit, module in UNITS.items() if module == exercise_id.partition(".")[0])


def find(exercise_id: str) -> Exercise:
    """Return the exercise of that id. Raises ValueError with the nearest names if there is none."""
    # whatever the student has put into the brackets, the function itself for one
    name = ids.current(str(getattr(exercise_id, "__name__", exercise_id))[:100])
    unit, _, _ = name.partition(".")
    units = [unit] if unit in UNITS.values() else UNITS.values()
    exercises = {k: v for u in units for k, v in import_module(f"course_lib.exercises.{u}").EXERCISES.items()}
    if name in exercises:
        return exercises[name]
    near = [k for k in exercises if k.endswith(f".{name}")] or get_close_matches(name, exercises, n=1, cutoff=0)
    meant = f'Did you mean "{(near or list(exercises))[0]}"?'
    if not isinstance(exercise_id, str):
        raise ValueError(f"An exercise is named in quotes, with its unit. {meant}")
    raise ValueError(f"There is no exercise {repr(exercise_id)[:100]}. {meant}")
