"""Variants of unit 06 that forms draw. fusion.toml has the others."""

from grader.audit.variants import kinds
from grader.audit.variants.forms import breaking, logging

wrong, honest = kinds("fusion")

VARIANTS = [
    *breaking(wrong, "break_softmax", "{'x': torch.randn(16, 64)}"),
    *logging(
        (wrong, honest),
        "fusion.softmax_log",
        ({"M": 64, "N": 512}, {"M": 128, "N": 384}),
        ("first_softmax", {"bytes": "32*M*N", "sectors": "M*N", "launches": 5}),
    ),
]
