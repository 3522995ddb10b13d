"""Variants of unit 07: tuners, and the work log. recomputation.toml has the others."""

from grader.audit.variants import kinds
from grader.audit.variants.forms import logging

wrong, honest = kinds("recomputation")


def autotuned(block: str, *blocks: int) -> list[tuple[str, str]]:
    """Patches that let Triton's tuner choose among these blocks for sigmoid3, whose grid is made for `block`."""
    configs = ", ".join(f"triton.Config(dict(BLOCK={n}))" for n in blocks)
    return [
        (
            "@triton.jit\ndef sigmoid3_kernel",
            f"@triton.autotune([{configs}], key=['n'])\n@triton.jit\ndef sigmoid3_kernel",
        ),
        ("[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)", f"[lambda meta: (triton.cdiv(n, {block}),)](x, out, n)"),
    ]


VARIANTS = [
    honest("sigmoid3", "autotuned", *autotuned("meta['BLOCK']", 512, 2048)),
    wrong(
        "sigmoid3",
        "autotuned, with the grid of one configuration",
        ["correct.plain"],
        *autotuned("2048", 2048, 64),
        tells="BLOCK=64",
    ),
    wrong(
        "sigmoid3",
        "autotuned, a mask of one configuration",
        ["correct.ragged", "correct.hard"],
        *autotuned("meta['BLOCK']", 64, 2048),
        ("(tl.sigmoid(x))), mask=i < n)", "(tl.sigmoid(x))), mask=(i < n) | (BLOCK > 64))"),
        tells="BLOCK=2048",
    ),
    *logging(
        (wrong, honest),
        "recomputation.gradient_log",
        ({"N": 65536}, {"N": 98304}),
        ("first_gradient", {"bytes": "60*N", "sectors": "60*N/32", "launches": 6}),
    ),
]
