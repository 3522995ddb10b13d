"""Facts about a card beyond its datasheet, and how to say them."""

from __future__ import annotations

import re

from course_lib.hardware import hierarchy
from tritontrace import gpu

# Of one SM, from NVIDIA's architecture whitepapers: fp32 lanes and tensor cores.
LANES = {"sm_70": 64, "sm_75": 64, "sm_80": 64}  # 128 elsewhere
TENSOR_CORES = {"sm_70": 8, "sm_75": 8}  # 4 elsewhere
TRANSISTORS = {  # billions, of the chip on that card, whole: V100 GV100, T4 TU104, A100 GA100, L4 AD104, ...
    "V100": 21.1,
    "T4": 13.6,
    "A100": 54.2,
    "A10G": 28.3,
    "L4": 35.8,
    "L40S": 76.3,
    "H100": 80,
    "H200": 80,
    "B200": 208,
    "3090": 28.3,
    "4090": 76.3,
    "5090": 92.2,
}
HBM = ("sm_70", "sm_80", "sm_90", "sm_100")  # the others have GDDR memory: DRAM, too, with fewer wires

YEARS = {"V100": 2017, "A100 40GB": 2020, "H100 SXM": 2022, "H200": 2024, "B200": 2025}  # in which each was first sold


def lanes(card: gpu.GPU) -> int:
    """Return the number of fp32 lanes of one SM: multiply-adds that it starts in a cycle."""
    return LANES.get(card.architecture, 128)


def clock(card: gpu.GPU) -> float:
    """Return the cycles a second at which the datasheet's fp32 figure holds: 2 FLOPs per lane and cycle."""
    return card.fp32_flops / (2 * card.sms * lanes(card))


def transistors(card: gpu.GPU) -> float | None:
    """Return a card's transistors in billions, or None if it is not listed."""
    words = re.split(r"[^A-Z0-9]+", card.name.upper())
    return next((billions for model, billions in TRANSISTORS.items() if model in words), None)


def whose(card: gpu.GPU) -> str:
    """Return a phrase that says whether numbers are those of this machine's GPU or of a datasheet."""
    return f"{card.name}, this machine's" if card.measured else f"NVIDIA's, for an {card.name} (there is no GPU here)"


def when(found: dict | None) -> str:
    """Return a phrase that says where and when measurements were made."""
    if not found:
        return "not measured"
    return "measured here" if found is hierarchy.measured_here() else f"recorded on {found['date']}"


def size(count: float) -> str:
    """Format a number of bytes: 256 KiB, 33 MiB, 141 GB."""
    for unit, scale in (("GB", 1e9), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count:g} B"
