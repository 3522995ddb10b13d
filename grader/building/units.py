"""The table of units, from TEACHES and the exercises: in README.md, and as `{{units}}` in a notebook's source."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

import grader
from course_lib.exercise import Exercise, Track

TEACHES = {
    "00_start_here": ("00 start here", "the machine, and how checks, hints and traces work"),
    "01_tensors_and_strides": ("01 tensors and strides", "pointer, shape, strides, offset; views and copies"),
    "02_dtypes": ("02 dtypes", "what 32, 16 and 8 bits hold, and what goes wrong in them"),
    "03_counting_flops": ("03 counting FLOPs", "cost, intensity, rooflines, and timing a GPU"),
    "04_memory_coalescing": ("04 memory coalescing", "sectors, rows against columns, dense transposes"),
    "05_tiling": ("05 tiling", "re-reads, a matmul for every size and stride, waves, the L2"),
    "06_fusion": ("06 fusion", "softmax, RMSNorm and cross-entropy in one launch each"),
    "07_recomputation": ("07 recomputation", "what backward needs, checkpoints, dropout from a seed"),
    "08_attention_by_tiles": ("08 attention by tiles", "online softmax, merging, tiles, the backward pass, in torch"),
    "09_flash_attention_forward": (
        "09 FlashAttention forward",
        "the same loop in Triton; causal, grouped heads, windows, decoding",
    ),
    "10_flash_attention_backward": ("10 FlashAttention backward", "gradients by recomputation, `FlashAttention.apply`"),
    "11_training_a_model": ("11 training a model", "AdamW in one launch, memory, checkpoints, your kernels in a GPT"),
    "12_serving_a_model": ("12 serving a model", "positions, the function that layers call, caches, pages, batches"),
    "13_inside_an_sm": ("13 inside an SM", "power, occupancy, machine code, layouts, banks, copies ahead of use"),
    "14_hopper_by_hand": ("14 Hopper by hand", "TMA, barriers, wgmma, warps with roles: simulated on a laptop"),
}
"""The unit's folder -> its name for readers, and what it teaches."""

GROUPS = {
    "00_start_here": "The machine",
    "04_memory_coalescing": "Memory traffic",
    "08_attention_by_tiles": "FlashAttention",
    "11_training_a_model": "Beyond the path",
}
"""The unit's folder -> the group of units that begins with it."""

TRACKS: tuple[Track, ...] = ("path", "more")
PAGE = Path("README.md")
HEAD = "| unit | what it teaches | main path | More |\n| --- | --- | --- | --- |\n"
TABLE = re.compile(re.escape(HEAD) + r"(\|.*\n)*")


def table_for_notebooks(here: str) -> str:
    """Return the table with links to the other notebooks, as they lie next to that of `here`."""
    rows = ["| unit | what it teaches | minutes | of More |", "| --- | --- | --- | --- |"]
    for unit, (name, teaches) in TEACHES.items():
        link = f"**{name}** (you are here)" if unit == here else f"[{name}](../{unit}/{unit}.ipynb)"
        rows.append(f"| {link} | {teaches} | {minutes_of(_on('path', unit))} | {minutes_of(_on('more', unit))} |")
    return "\n".join(rows)


def text(root: Path) -> str:
    """Return the README with the table as the exercises are now. Raises ValueError if it has no such table."""
    rows = []
    for unit, (name, teaches) in TEACHES.items():
        if unit in GROUPS:
            rows.append(f"| **{GROUPS[unit]}** | | | |\n")
        link = f"[{name}](solutions/{unit}/{unit}.ipynb)"
        rows.append(f"| {link} | {teaches} | {' | '.join(_said(_on(track, unit)) for track in TRACKS)} |\n")
    page, found = TABLE.subn(lambda _: HEAD + "".join(rows), (root / PAGE).read_text("utf-8"))
    if found != 1:
        raise ValueError(f"{PAGE} has {found} tables with the head {HEAD.splitlines()[0]!r}, and must have one.")
    return page


def write(root: Path) -> Path:
    """Write the README's table of units, and return its path."""
    (root / PAGE).write_text(text(root), "utf-8")
    return PAGE


def check(root: Path) -> list[str]:
    """List a message if the README's table differs from the exercises."""
    fresh = (root / PAGE).read_text("utf-8") == text(root)
    return [] if fresh else [f"{PAGE}: its table of units is stale: `grader build --no-execute` writes it anew."]


def _said(exercises: Collection[Exercise]) -> str:
    return f"{len(exercises)} · {minutes_of(exercises)} min".replace(" ", "\N{NO-BREAK SPACE}") if exercises else ""


def _on(track: Track, unit: str) -> list[Exercise]:
    return on(track, grader.exercises(unit).values())


def on(track: Track, exercises: Collection[Exercise]) -> list[Exercise]:
    """Select the exercises of one track."""
    return [exercise for exercise in exercises if exercise.track == track]


def minutes_of(exercises: Collection[Exercise]) -> int:
    """Sum the minutes that the exercises take, without reading."""
    return sum(exercise.effort.minutes for exercise in exercises)
