"""The card with which a unit begins, in notebooks and on its page: time, points, what it needs, its best picture, its question.

In a notebook it is Markdown, with the picture as an attachment of the cell; on a page it is HTML, and the picture follows the theme.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from nbformat import NotebookNode

from course_lib import figures
from course_lib.exercise import Exercise
from course_lib.exercises import UNITS, titles
from grader.building import units
from grader.building.announce import hours
from tritontrace.colours import DARK, INK, PAPER
from tritontrace.picture import Picture

FILE = "cover.png"  # the attachment
SITTING = 240  # minutes, reading included, beyond which a unit takes several


@dataclass(frozen=True)
class Cover:
    """The card at the head of a unit.
    picture   the one that says most of the unit: a function of course_lib.figures that takes nothing
    question  what the unit answers, for whoever has not read a line of it
    """

    picture: str
    question: str

    def drawn(self) -> Picture:
        room, name = self.picture.split(".")
        return getattr(getattr(figures, room), name)()


COVERS = {
    "00_start_here": Cover(
        "start.two_dies", "How many numbers must one add before a GPU is faster than one core of a CPU?"
    ),
    "01_tensors_and_strides": Cover(
        "strides.views_of_one_storage",
        "Which operations copy a tensor, and which only read the same memory in another way?",
    ),
    "02_dtypes": Cover(
        "dtypes.loss_scaling", "Half the bits take half the time to move. What goes wrong in them, and where?"
    ),
    "03_counting_flops": Cover(
        "flops.launch_timeline", "How long do 1024 GPUs train a model of 70 billion parameters on 15 trillion tokens?"
    ),
    "04_memory_coalescing": Cover(
        "coalescing.tile_footprints",
        "Two kernels copy the same matrix, along rows and down columns. How much more does one cost?",
    ),
    "05_tiling": Cover("tiling.orders", "A product reads each number thousands of times. How few times are enough?"),
    "06_fusion": Cover(
        "fusion.chain", "How many times as long do five kernels take as one that does the work of all five?"
    ),
    "07_recomputation": Cover(
        "recomputation.three_ways", "When is it faster to compute a number again than to remember it?"
    ),
    "08_attention_by_tiles": Cover(
        "attention.merge_orders", "How can a softmax be computed piece by piece, before its largest score is known?"
    ),
    "09_flash_attention_forward": Cover(
        "flash.program_walk", "How fast can attention be if no score ever reaches memory?"
    ),
    "10_flash_attention_backward": Cover(
        "flash_backward.backward_walk", "What do gradients of attention cost if no kernel has kept the probabilities?"
    ),
    "11_training_a_model": Cover(
        "training.memory_of_a_model", "How much memory, time and money does it take to train a model?"
    ),
    "12_serving_a_model": Cover(
        "serving.which_rows", "How many tokens a second can a model of 8 billion parameters write?"
    ),
    "13_inside_an_sm": Cover(
        "sm.matmul_ladder", "What is left between a good kernel in Triton and NVIDIA's own library?"
    ),
    "14_hopper_by_hand": Cover(
        "hopper.pipeline", "How do copies and tensor cores work at the same time, and what may go wrong?"
    ),
}


def facts(exercises: Collection[Exercise]) -> dict[str, str]:
    """Return the rows of a unit's card: how many exercises are on the main path, how long they take, what they are worth."""
    path = units.on("path", exercises)
    minutes = units.minutes_of(path)
    whole = 1.5 * minutes
    return {
        "exercises": f"{len(path)}",
        "their time": f"{minutes} minutes",
        "with reading": f"about {hours(whole)}{', in several sittings' if whole > SITTING else ''}",
        "points": f"{sum(exercise.points for exercise in path):g}",
    }


NEEDS = re.compile(r"(?:You\s+need|needs:)\s(.*?)(?:\.(?:\s+|$)|\n\n)", flags=re.DOTALL)


def needed(text: str) -> list[str]:
    """List the units that a text names after "You need", or its card after "needs"."""
    by_number = {unit[:2]: unit for unit in UNITS}
    sentence = NEEDS.search(text)
    numbers = dict.fromkeys(re.findall(r"\b\d\d\b", re.sub(r"\([^)]*\)", "", sentence[1]))) if sentence else {}
    return [by_number[number] for number in numbers if number in by_number]


def _without_needs(text: str) -> str:
    """Drop the sentence that names units, which the card does."""
    return NEEDS.sub("", text, count=1).rstrip() if needed(text) else text


def named(unit: str) -> str:
    """Return a unit's number and title: "04 Memory coalescing"."""
    return titles.of(unit).replace(" · ", " ")


# ------------------------------------------------------------------------------------------------------- notebooks


def put(notebook: NotebookNode, unit: str, exercises: Mapping[str, Exercise]) -> None:
    """Write the card behind the title of a unit's first cell; `attach` adds its picture."""
    first = notebook.cells[0]
    title, _, rest = first.source.partition("\n\n")
    cover = COVERS[unit]
    row = facts(exercises.values()) | {
        "needs": ", ".join(f"[{named(other)}](../{other}/{other}.ipynb)" for other in needed(rest)) or "no other unit"
    }
    told = " · ".join(f"{head}:\N{NO-BREAK SPACE}**{fact}**" for head, fact in row.items())
    words = cover.picture.partition(".")[2].replace("_", " ")
    first.source = (
        f"{title}\n\n**{cover.question}**\n\n{told}\n\n![{words}](attachment:{FILE})\n\n{_without_needs(rest)}"
    )


def attach(notebook: NotebookNode, unit: str, old: NotebookNode | None, anew: bool) -> None:
    """Add the card's picture: that of the old notebook, unless it has none or `anew` is set."""
    attached = old.cells[0].get("attachments") if old and old.cells else None
    if anew or not attached:
        picture = COVERS[unit].drawn()
        picture.supxlabel("")  # the unit says it where the picture stands
        bitmap = b64encode(picture._repr_png_()).decode()
        attached = {FILE: {"image/png": bitmap, "image/svg+xml": by_itself(picture.html())}}
    notebook.cells[0]["attachments"] = attached


def by_itself(picture: str) -> str:
    """Extract the drawing from a picture's HTML as a file of its own, dark where it is shown on a dark page. The course's lab puts it in
    the bitmap's place (course_lib/jupyter/labextensions)."""
    drawing = re.findall(r"<svg .*</svg>", picture, flags=re.DOTALL)[0]
    dark = f"@media (prefers-color-scheme: dark) {{ svg {{ color: {PAPER}; --jp-layout-color0: {DARK} }} }}"
    head = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
    style = f"<style>svg {{ color: {INK} }} {dark}</style>"
    return re.sub(r"^<svg ([^>]*>)", lambda at: f"{head}{at[1]}{style}", drawing)


# ------------------------------------------------------------------------------------------------------------ pages


def covered(text: str, unit: str, exercises: Collection[Exercise], picture: str) -> str:
    """Return the first cell of a unit's page, with the card in HTML. text: the cell, in whose place the card of notebooks may stand."""
    title, _, rest = text.partition("\n\n")
    needs = ", ".join(f'<a href="{other}.html">{named(other)}</a>' for other in needed(rest)) or "no other unit"
    rest = _without_needs(rest[rest.index("**After") :] if "**After" in rest else rest)
    row = facts(exercises) | {"needs": needs}
    told = "".join(f"<div><dt>{head}</dt><dd>{fact}</dd></div>" for head, fact in row.items())
    question = f'<p class="question">{COVERS[unit].question}</p>'
    return f'{title}\n\n<div class="cover">{question}<dl>{told}</dl>\n{picture}\n</div>\n\n{rest}'
