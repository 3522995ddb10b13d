"""Variants of unit 04 that forms draw. coalescing.toml has the others."""

from grader.audit import named
from grader.audit.variants import kinds
from grader.audit.variants.forms import breaking, logging, naming

wrong, honest = kinds("coalescing")

VARIANTS = [
    *breaking(wrong, "break_transpose", "{'x': torch.randn(64, 64)}"),
    *naming((wrong, honest), ("name_lanes", "named_lanes"), named.CAUSES["coalescing.name_lanes"]),
    *logging(
        (wrong, honest),
        "coalescing.transpose_log",
        ({"M": 256, "N": 128}, {"M": 128, "N": 384}),
        ("first_transpose", {"bytes": "16*M*N", "sectors": "3*M*N/8 + M*N", "launches": 2}),
    ),
]
