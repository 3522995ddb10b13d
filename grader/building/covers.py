"""The card with which a unit's page begins: its time, its points, what it needs, and its best picture."""

from __future__ import annotations

import re
from collections.abc import Collection

from course_lib.exercise import Exercise
from course_lib.exercises import UNITS
from grader.building import units
from grader.building.announce import hours

BEST = {
    "00_start_here": "start.two_dies",
    "01_tensors_and_strides": "strides.views_of_one_storage",
    "02_dtypes": "dtypes.loss_scaling",
    "03_counting_flops": "flops.launch_timeline",
    "04_memory_coalescing": "coalescing.memory_anatomy",
    "05_tiling": "tiling.orders",
    "06_fusion": "fusion.chain",
    "07_recomputation": "recomputation.three_ways",
    "08_attention_by_tiles": "attention.merge_orders",
    "09_flash_attention_forward": "flash.program_walk",
    "10_flash_attention_backward": "flash_backward.backward_walk",
    "11_training_a_model": "training.memory_of_a_model",
    "12_serving_a_model": "serving.which_rows",
    "13_inside_an_sm": "sm.matmul_ladder",
    "14_hopper_by_hand": "hopper.pipeline",
}
"""The unit's folder -> the picture that says most of it."""


def covered(text: str, exercises: Collection[Exercise], picture: str) -> str:
    """The first cell of a unit with its card behind the title. text: the cell; picture: HTML."""
    title, _, rest = text.partition("\n\n")
    path = units.on("path", exercises)
    minutes = units.minutes_of(path)
    facts = [
        ("exercises", f"{len(path)}, {minutes} minutes"),
        ("with reading", f"about {hours(1.5 * minutes)}"),
        ("points", f"{sum(exercise.points for exercise in path):g}"),
        ("needs", ", ".join(needed(rest)) or "no other unit"),
    ]
    said = "".join(f"<div><dt>{name}</dt><dd>{fact}</dd></div>" for name, fact in facts)
    return f'{title}\n\n<div class="cover"><dl>{said}</dl>\n{picture}\n</div>\n\n{rest}'


def needed(text: str) -> list[str]:
    """Links to the units that the text says one needs."""
    by_number = {unit[:2]: unit for unit in UNITS}
    sentence = re.search(r"You\s+need\s(.*?)\.(?:\s|$)", text, flags=re.DOTALL)
    numbers = dict.fromkeys(re.findall(r"\b\d\d\b", re.sub(r"\([^)]*\)", "", sentence[1]))) if sentence else {}
    return [f'<a href="{by_number[number]}.html">{number}</a>' for number in numbers if number in by_number]
