"""The pictures of 00_start_here.

    gpu_facts.py   what is known of a card beyond its datasheet, and how to say it
    hardware.py    what a GPU is made of, its memories, and how compute outgrew them
    dies.py        a CPU and a GPU side by side, and a GPU with its memory, from above
    execution.py   how a GPU works through many elements: launches, programs, warps that wait; and dot products

Each picture is a matplotlib Figure. Sizes and speeds are those of the machine's own GPU where there is one, else of an
H200 as its datasheet has it, and each picture says which. Colours are Okabe and Ito's, and none means anything alone.
"""

from course_lib.figures.start.dies import floor_plan, two_dies
from course_lib.figures.start.execution import (
    dots_and_weights,
    explore_hiding_latency,
    explore_programs_over_elements,
    hiding_latency,
    one_or_many,
    programs_over_elements,
    thread_hierarchy,
)
from course_lib.figures.start.gpu_facts import clock, lanes
from course_lib.figures.start.hardware import compute_outgrew_memory, ladder, memories, memory_hierarchy, working_sets

__all__ = [
    "clock",
    "compute_outgrew_memory",
    "dots_and_weights",
    "explore_hiding_latency",
    "explore_programs_over_elements",
    "floor_plan",
    "hiding_latency",
    "ladder",
    "lanes",
    "memories",
    "memory_hierarchy",
    "one_or_many",
    "programs_over_elements",
    "thread_hierarchy",
    "two_dies",
    "working_sets",
]
