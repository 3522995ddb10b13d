"""One element a program: what everybody who knows CUDA writes first. A variant of every kernel whose blocks can be as small. One that
walks over rows has 16 elements at a time: with one, its work would be too much to judge."""

from __future__ import annotations

CHANGES: dict[str, tuple[tuple[str, str], ...]] = {
    "start.add_one": (("1024", "1"),),
    "start.fixed_copy": (("1024", "1"),),
    "strides.strided_copy": (("BLOCK = 64", "BLOCK = 1"),),
    "dtypes.scaled_square": (("4096", "1"),),
    "flops.dial": (("1024", "1"),),
    "coalescing.row_copy": (
        ("BLOCK_N = min(1024, triton.next_power_of_2(N))", "BLOCK_N = 1"),
        ("4096 // BLOCK_N", "1"),
    ),
    "coalescing.gather_rows": (
        ("BLOCK_N = min(1024, triton.next_power_of_2(N))", "BLOCK_N = 1"),
        ("4096 // BLOCK_N", "1"),
    ),
    "coalescing.transpose": (("BLOCK = 64", "BLOCK = 1"),),
    "coalescing.column_sum": (("512, 128, 64", "512, 1, 1"),),
    "coalescing.deinterleave": (("BLOCK = 2048", "BLOCK = 1"),),
    "tiling.row_sums": (("triton.cdiv(M, 16)", "M"), ("BLOCK_M=16, BLOCK_K=128", "BLOCK_M=1, BLOCK_K=1")),
    "fusion.sin2_plus_cos2": (("BLOCK = 1024", "BLOCK = 1"),),
    "fusion.bias_gelu": (("BLOCK_M, BLOCK_N = 8, 256", "BLOCK_M, BLOCK_N = 1, 1"),),
    "fusion.online_softmax": (("BLOCK = min(16384, triton.next_power_of_2(N))", "BLOCK = 16"),),
    "fusion.cross_entropy": (("BLOCK = min(4096, triton.next_power_of_2(V))", "BLOCK = 16"),),
    "recomputation.sigmoid3": (("1024", "1"),),
    "recomputation.seeded_dropout": (("2048", "1"),),
    "recomputation.recomputed_gelu": (("1024", "1"),),
    "training.adamw_step": (("4096", "1"),),
}

TOO_MUCH_WORK = {"fusion.online_softmax": ("correct.long",)}
"""Criteria whose cases are too large for such blocks: they are lost as well."""
