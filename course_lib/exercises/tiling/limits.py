"""Limits of a kernel on an SM: the room for programs, and the slowest of several levels of memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from course_lib.catalogue import say
from course_lib.criteria import Holds
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.cases import fixed, integer
from course_lib.exercises.tiling.oracles import traced
from course_lib.mistakes import every
from course_lib.words import in_words

# ------------------------------------------------------------------------------------------------ occupancy

H200_SM = {"warps": 64, "programs": 32, "registers": 65536, "shared_bytes": 228 << 10}
A100_SM = {"warps": 64, "programs": 32, "registers": 65536, "shared_bytes": 164 << 10}
A10G_SM = {"warps": 48, "programs": 16, "registers": 65536, "shared_bytes": 100 << 10}
T4_SM = {"warps": 32, "programs": 16, "registers": 65536, "shared_bytes": 64 << 10}
LIMITS = ("registers", "shared memory", "warps", "programs")


def takes(programs: int, warps: int, registers: int, shared_bytes: int) -> dict[str, int]:
    """Add up what `programs` programs take of an SM, warp by warp: registers come in units of 256 a warp, and the system reserves 1 KiB of
    shared memory for each program."""
    units = sum(-(-registers * 32 // 256) for _ in range(programs * warps))
    return {
        "registers": 256 * units,
        "shared memory": sum(shared_bytes + 1024 for _ in range(programs)),
        "warps": programs * warps,
        "programs": programs,
    }


def _room(sm: dict[str, int]) -> dict[str, int]:
    return {name: sm[name.replace("shared memory", "shared_bytes")] for name in LIMITS}


def most_programs(warps: int, registers: int, shared_bytes: int, sm: dict[str, int]) -> tuple[int, list[str]]:
    """Return (programs that fit on an SM, the resources that one more lacks), by adding one after the other."""
    programs, room = 0, _room(sm)
    while True:
        taken = takes(programs + 1, warps, registers, shared_bytes)
        if short := [name for name in LIMITS if taken[name] > room[name]]:
            return programs, short
        programs += 1


def fills_the_sm(output: Any, warps: int, registers: int, shared_bytes: int, sm: dict[str, int]) -> str:
    """Return "" if this many programs fit, and the limit is what one more lacks; else a message."""
    said = say("tiling.occupancy.kernel", warps=warps, registers=registers, shared_bytes=shared_bytes)
    if (
        not isinstance(output, (list, tuple))
        or len(output) != 2
        or type(output[0]) is not int
        or type(output[1]) is not str
    ):
        return say("tiling.occupancy.no_pair", given=said, limits=[*LIMITS], got=in_words(output))
    programs, limit = output
    if limit not in LIMITS:
        return say("tiling.occupancy.no_limit", given=said, limit=repr(limit), limits=[*LIMITS])
    most, short = most_programs(warps, registers, shared_bytes, sm)
    if programs > most:
        taken, room = takes(most + 1, warps, registers, shared_bytes), _room(sm)
        return say(
            "tiling.occupancy.too_many",
            given=said,
            programs=most + 1,
            taken=taken[short[0]],
            limit=short[0],
            room=room[short[0]],
        )
    if programs < most:
        return say("tiling.occupancy.one_more", given=said, programs=programs)
    return "" if limit in short else say("tiling.occupancy.enough", given=said, limit=limit)


def kernel_on(name: str, group: str, sm: dict[str, int], warps: int, registers: int, shared_bytes: int) -> Case:
    """Make a case about programs of one kind on one SM."""
    return fixed(name, group, warps=warps, registers=registers, shared_bytes=shared_bytes, sm=dict(sm))


def _programs(out: Any) -> Any:
    return out[0] if isinstance(out, list) and out else None


occupancy = Exercise(
    id="tiling.occupancy",
    signature="programs_per_sm(warps: int, registers: int, shared_bytes: int, sm: dict[str, int]) -> tuple[int, str]",
    kind="formula",
    effort=Effort(minutes=12, lines=8, difficulty=3),
    track="more",
    cases=[
        kernel_on("a matmul on an H200", "shared memory", H200_SM, 8, 128, 144 << 10),
        kernel_on("its smaller tile", "shared memory", H200_SM, 4, 64, 36 << 10),
        kernel_on("the same on an A10G", "shared memory", A10G_SM, 4, 64, 36 << 10),
        kernel_on("just too much", "shared memory", H200_SM, 4, 32, 114 << 10),
        kernel_on("many registers", "registers", H200_SM, 8, 255, 20 << 10),
        kernel_on("half as many", "registers", A100_SM, 4, 128, 8 << 10),
        kernel_on("33 registers", "registers", H200_SM, 4, 33, 0),
        kernel_on("a copy", "the rest", H200_SM, 4, 24, 0),
        kernel_on("one warp each", "the rest", H200_SM, 1, 24, 0),
        kernel_on("a T4", "the rest", T4_SM, 8, 32, 0),
        kernel_on("a program that does not fit", "the rest", T4_SM, 8, 64, 96 << 10),
    ],
    oracle=lambda **_: None,
    criteria=[
        Holds(fills_the_sm, 2, say("tiling.occupancy.title_shared_memory"), "shared memory"),
        Holds(fills_the_sm, 2, say("tiling.occupancy.title_registers"), "registers"),
        Holds(fills_the_sm, 2, say("tiling.occupancy.title_the_rest"), "the rest"),
    ],
    mistakes=[
        every(
            lambda out, warps, registers, shared_bytes, sm: (
                _programs(out) == min(sm["warps"] // warps, sm["programs"], sm["shared_bytes"] // (shared_bytes + 1024))
            ),
            say("tiling.occupancy.registers_are_forgotten"),
        ),
        every(
            lambda out, warps, registers, shared_bytes, sm: (
                _programs(out)
                == min(
                    sm["warps"] // warps,
                    sm["programs"],
                    sm["shared_bytes"] // max(shared_bytes, 1),
                    sm["registers"] // (warps * -(-registers * 32 // 256) * 256),
                )
            ),
            say("tiling.occupancy.the_kibibyte_is_forgotten"),
        ),
    ],
)

# ------------------------------------------------------------------------------------------------ roofs

LEVELS = ("tensor cores", "DRAM", "L2", "shared memory")


def level_seconds(
    m: int, n: int, k: int, tile: Sequence[int], warp_tile: Sequence[int], itemsize: int, rates: dict[str, float]
) -> dict[str, float]:
    """Compute the seconds of each memory level, from traces: of one program that reads all, of tiles, of the parts of warps."""
    of_tiles, of_warps = traced(m, n, k, *tile, itemsize=itemsize), traced(m, n, k, *warp_tile, itemsize=itemsize)
    a, b, c = (torch.empty(shape, device="meta") for shape in ((m, k), (k, n), (m, n)))
    amounts = {
        "tensor cores": int(torch.full((m, n), 2 * k).sum()),
        "DRAM": itemsize * sum(t.numel() for t in (a, b, c)),
        "L2": of_tiles.bytes,
        "shared memory": of_warps.loads.bytes,
    }
    return {level: amount / rates[level] for level, amount in amounts.items()}


def is_the_slowest(output: Any, **case: Any) -> str:
    """Return "" if (seconds, level) names the level that takes longest, and its time; else a message."""
    if not isinstance(output, (list, tuple)) or len(output) != 2 or type(output[0]) not in (int, float):
        return say("tiling.roofs.no_pair", levels=[*LEVELS], got=in_words(output))
    seconds, level = output
    if level not in LEVELS:
        return say("tiling.roofs.no_level", level=in_words(level), levels=[*LEVELS])
    right = level_seconds(**case)
    if not math.isclose(seconds, max(right.values()), rel_tol=1e-6):
        slowest = max(right, key=right.__getitem__)
        return say("tiling.roofs.not_the_slowest", slowest=slowest, right=right[slowest], seconds=seconds, level=level)
    return (
        ""
        if math.isclose(right[level], seconds, rel_tol=1e-6)
        else say("tiling.roofs.alone", level=level, seconds=right[level])
    )


RATES = {"tensor cores": 989.4e12, "DRAM": 4.8e12, "L2": 9.7e12, "shared memory": 33.5e12}
SIZES = {"m": 256, "n": 256, "k": 128}


def roof(
    name: str, group: str, tile: tuple[int, int], warp_tile: tuple[int, int], itemsize: int = 2, **more: Any
) -> Case:
    """Make a case about a product in tiles; `more` are other sizes, or rates."""
    rates = RATES | more.pop("rates", {})
    return fixed(
        name, group, **(SIZES | more), tile=list(tile), warp_tile=list(warp_tile), itemsize=itemsize, rates=rates
    )


def _level(out: Any) -> Any:
    return out[1] if isinstance(out, list) and len(out) == 2 else None


roofs = Exercise(
    id="tiling.roofs",
    signature="slowest_level(m, n, k, tile, warp_tile, itemsize, rates: dict[str, float]) -> tuple[float, str]",
    kind="formula",
    effort=Effort(minutes=12, lines=10, difficulty=3),
    track="more",
    cases=[
        roof("tiles of 16", "L2", (16, 16), (16, 16)),
        roof("tiles of 64 x 32", "L2", (64, 32), (64, 32)),
        roof("long tiles of one row of warps", "L2", (16, 128), (16, 128), rates={"shared memory": 1e15}),
        roof("one tile in all", "the others", (256, 256), (256, 256)),
        roof("a thin product", "the others", (128, 16), (64, 16), n=16, rates={"L2": 5e13}),
        roof("slow tensor cores", "the others", (128, 128), (64, 64), rates={"tensor cores": 5e13}),
        roof("warps of 16 x 16", "the others", (128, 128), (16, 16), rates={"shared memory": 9e12}),
        roof(
            "ragged, float32",
            "the others",
            (64, 64),
            (32, 16),
            itemsize=4,
            m=130,
            n=100,
            k=70,
            rates={"shared memory": 9e12},
        ),
    ],
    oracle=lambda **_: None,
    criteria=[
        Holds(is_the_slowest, 3, say("tiling.roofs.title_l2"), "L2"),
        Holds(is_the_slowest, 3, say("tiling.roofs.title_the_others"), "the others"),
    ],
    mistakes=[
        every(lambda out, **_: _level(out) == "DRAM", say("tiling.roofs.dram_alone")),
        every(
            lambda out, **case: (
                isinstance(out, list)
                and len(out) == 2
                and type(out[0]) in (int, float)
                and math.isclose(out[0], sum(level_seconds(**case).values()), rel_tol=1e-6)
            ),
            say("tiling.roofs.one_after_the_other"),
        ),
    ],
)


def drawn_kernel(g: torch.Generator) -> dict[str, Any]:
    """Draw the arguments of programs_per_sm."""
    return {
        "warps": 1 << integer(g, 0, 4),
        "registers": integer(g, 16, 255),
        "shared_bytes": 1024 * integer(g, 0, 100),
        "sm": dict(H200_SM),
    }
