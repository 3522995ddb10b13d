"""Hidden cases of unit 13: limits, tiles, machine code, orders of tiles, first steps in Gluon."""

from __future__ import annotations

import random

from course_lib.exercise import Case
from course_lib.exercises.cases import BF16, FP16, FP32, fixed
from course_lib.exercises.sm.cases import matrix
from course_lib.exercises.sm.gluon import COLUMNS, ROWS, blocked
from course_lib.exercises.sm.limits import chip, issue
from course_lib.exercises.sm.products import layer
from course_lib.exercises.sm.tiles import nest
from course_lib.exercises.sm.walks import grid, shares
from course_lib.exercises.tiling.cases import factors
from tritontrace.gpu import datasheet


def kernel(rng: random.Random) -> list[int]:
    """Draw [registers, shared, warps] of a kernel that may or may not fit."""
    return [rng.randrange(16, 256), rng.randrange(1, 100 << 10), rng.choice((1, 2, 3, 4, 5, 6, 8, 10, 12, 16))]


def cases(exercise_id: str, rng: random.Random) -> list[Case]:
    """Draw the hidden cases of an exercise."""
    M, N, K = rng.randrange(65, 160), 8 * rng.randrange(5, 20), 8 * rng.randrange(5, 20)
    wide = 8 * rng.randrange(9, 24)
    sms, rows, columns = rng.randrange(20, 120), rng.randrange(5, 20), rng.randrange(5, 20)
    match exercise_id.split(".")[1]:
        case "speed_of_light":
            return [
                chip("a hidden chip", "peak", sms, 64 * rows, 1e9 + 1e7 * columns, 200.0),
                chip("a hidden limit", "throttled", sms, 512, 1e9 + 1e7 * columns, 400.0 + 50 * rows, idle=60.0, limit=300.0),
            ]  # fmt: skip
        case "occupancy":
            drawn = [kernel(rng) for _ in range(500)]
            return [
                fixed("hidden kernels", "all together", kernels=drawn, gpu=datasheet("H200").sm_limits),
                fixed("hidden kernels", "all together", kernels=drawn, gpu=datasheet("RTX 4090").sm_limits),
            ]
        case "chains":
            slow = rng.choice((2, 4, 8))
            return [
                issue("hidden waits", "waits", 1 + rows % 3, 1 + columns % 2, steps=10 + rows, latency=30 + columns),
                issue("a hidden pipe", "slow pipe", 1 + rows % 4, 1 + columns % 3, latency=12 + columns, interval=slow),
                issue("enough", "busy", 4 + rows, 2, steps=columns, latency=5),
            ]
        case "warp_tile_bytes":
            return [
                nest("hidden tiles", "whole", (32 * (1 + rows % 4), 128), (32, 32 * (1 + columns % 2)), (8, 4)),
                nest("hidden edges", "edges", (20 + rows, 40 + columns), (16, 32), (4, 8), bk=1 + rows % 5),
            ]
        case "persistent_order":
            return [
                grid("a hidden grid", "dealt", rows, columns, 3 + sms % 13, 1 + rows % 5),
                grid("a large hidden grid", "cache", 40 + rows % 8, 48 + columns % 4, 132, 8),
            ]
        case "balanced_walk":
            return [
                shares("hidden tiles", "covered", rows, columns, 3 + sms % 13),
                shares("hidden loads", "balanced", 3 * sms // 2, columns, sms),
            ]
        case "descriptor_matmul":
            return [
                Case("hidden sizes", "ragged", factors(M, N, K, FP16)),
                Case("a hidden K", "long", factors(24, 32, 8 * (60 + rows), BF16)),
            ]
        case "linear_silu":
            return [
                Case("hidden sizes", "ragged", layer(M, N, K, whole=True)),
                Case("a hidden bias", "precision", layer(M, 48, K, apart=300.0 + rows, scale=0.25)),
            ]
        case "holder":
            layouts = {
                "again": (ROWS, ([4, 1], [8, 4], [2, 2], [1, 0], [128, 32])),
                "columns": (COLUMNS, ([1, 1], [32, 1], [2, 2], [0, 1], [128, 8])),
            }
            return [
                fixed(f"hidden element {n}", group, **blocked(*_element(rng, layout[-1]), *layout))
                for group, both in layouts.items()
                for layout in both
                for n in range(6)
            ]
        case "shared_transpose":
            return [
                Case(f"{M} x {wide}", "ragged", matrix(M, wide, FP32)),
                Case(f"{M + 300} x {wide + 300}", "performance", matrix(M + 300, wide + 300, FP32)),
            ]
        case "async_column_sum":
            return [
                Case(f"{5 * M} x {wide + 3}", "ragged", matrix(5 * M, wide + 3, FP32)),
                Case(f"{7 * M} x {wide}", "performance", matrix(7 * M, wide, FP32)),
            ]
    return []


def _element(rng: random.Random, shape: list[int]) -> tuple[int, int]:
    return rng.randrange(shape[0]), rng.randrange(shape[1])
