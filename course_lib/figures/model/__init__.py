"""The pictures of 11_a_real_model.

training.py    a block as launches and bytes, the memory of a step, losses laid over each other
"""

from course_lib.figures.model.training import (
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
    "losses",
    "memory_of_a_model",
    "memory_of_a_step",
    "schedule",
    "step_by_step",
]
