"""The pictures of 11_a_real_model.

training.py    a block as launches and bytes, the memory of a step, losses laid over each other
serving.py     what rows see in the six calls of a generation; tokens a second under the roof
recorded.py    the large model on a GPU, as a benchmark recorded it

Each function but step_by_step returns a matplotlib Figure. Numbers are counted when a picture is drawn, recorded on a GPU, or a
datasheet's, and each picture says which.
"""

from course_lib.figures.model.recorded import large_decoding, large_steps
from course_lib.figures.model.serving import explore_which_rows, prefill_and_decode, which_rows
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
    "explore_which_rows",
    "large_decoding",
    "large_steps",
    "losses",
    "memory_of_a_model",
    "memory_of_a_step",
    "prefill_and_decode",
    "schedule",
    "step_by_step",
    "which_rows",
]
