"""The pictures of 11_training_a_model.

steps.py       a block as launches and bytes, the memory of a step, losses laid over each other
recorded.py    the large model on a GPU, as a benchmark recorded it

Each function but step_by_step returns a matplotlib Figure. Numbers are counted when a picture is drawn, recorded on a GPU, or a
datasheet's, and each picture says which.
"""

from course_lib.figures.training.recorded import large_steps
from course_lib.figures.training.steps import (
    block,
    explore_memory,
    losses,
    memory_of_a_model,
    memory_of_a_step,
    schedule,
    step_by_step,
)

__all__ = [
    "block",
    "explore_memory",
    "large_steps",
    "losses",
    "memory_of_a_model",
    "memory_of_a_step",
    "schedule",
    "step_by_step",
]
