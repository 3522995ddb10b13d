"""Variants of unit 05: other tiles, tuners, and what forms draw. tiling.toml has the others."""

from grader.audit import named
from grader.audit.variants import kinds
from grader.audit.variants.forms import breaking, logging, naming

wrong, honest = kinds("tiling")

READ_A, READ_B = "rereads.a.performance", "rereads.b.performance"

SMALL = "dict(BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, num_warps=4, num_stages=3)"
BIG = "dict(BLOCK_M=128, BLOCK_N=256, BLOCK_K=64, num_warps=8, num_stages=3)"


def tiles(small: tuple[int, ...], big: tuple[int, ...]) -> list[tuple[str, str]]:
    """Patches that give the published matmul other tiles."""
    form = "dict(BLOCK_M={}, BLOCK_N={}, BLOCK_K={}, num_warps={}, num_stages={})"
    return [(SMALL, form.format(*small)), (BIG, form.format(*big))]


def autotuned(*widths: int) -> list[tuple[str, str]]:
    """Patches that let Triton's tuner choose among tiles of 64 rows and these columns for the published matmul."""
    tiles = (f"dict(BLOCK_M=64, BLOCK_N={n}, BLOCK_K=32, GROUP=8), num_warps=4, num_stages=2" for n in widths)
    configs = ", ".join(f"triton.Config({tile})" for tile in tiles)
    return [
        (
            "@triton.jit\ndef matmul_kernel",
            f"@triton.autotune([{configs}], key=['M', 'N', 'K'])\n@triton.jit\ndef matmul_kernel",
        ),
        ("    grid = (", "    grid = lambda shape: ("),
        (", GROUP=8, **shape)", ")"),
    ]


WRONG = [
    wrong("matmul", "tiles of 32", [READ_A, READ_B], *tiles((32, 32, 32, 4, 2), (32, 32, 32, 4, 2))),
    wrong("matmul", "flat tiles", [READ_B], *tiles((16, 128, 32, 4, 2), (16, 256, 32, 4, 2))),
    wrong("matmul", "tall tiles", [READ_A], *tiles((128, 16, 32, 4, 2), (256, 16, 32, 4, 2))),
    wrong(
        "matmul",
        "loads a twice",
        [READ_A],
        *tiles((64, 64, 32, 4, 2), (64, 64, 32, 4, 2)),
        (
            "        b = tl.load(",
            "        a = (a + tl.load(a_ptrs, mask=(rows < M) & (k[None, :] < K - start), other=0)) / 2\n        a = a.to(a_ptr.dtype.element_ty)\n        b = tl.load(",
        ),
    ),
    wrong("matmul", "steps of 8", ["compiles"], *tiles((64, 64, 8, 4, 2), (128, 128, 8, 4, 2))),
]

HONEST = [
    honest("matmul", "tiles of 128 and 64", *tiles((64, 128, 16, 4, 2), (128, 128, 32, 4, 3))),
    honest("matmul", "tall, not square", *tiles((128, 64, 16, 4, 2), (256, 64, 32, 8, 3))),
    honest("matmul", "autotuned", *autotuned(64, 128)),
    honest(
        "matmul",
        "autotuned, a static_assert leaves configurations out",
        *autotuned(256, 64, 128),
        ("    pid, batch =", "    tl.static_assert(BLOCK_N < 256)\n    pid, batch ="),
    ),
    wrong(
        "matmul",
        "autotuned, with the grid of one configuration",
        ["correct.plain"],
        *autotuned(64, 32, 128),
        ('triton.cdiv(N, shape["BLOCK_N"])', "triton.cdiv(N, 64)"),
        tells="BLOCK_M=64, BLOCK_N=32",
    ),
]

VARIANTS = [
    *WRONG,
    *HONEST,
    *breaking(wrong, "break_matmul", "{'a': torch.randn(64, 64), 'b': torch.randn(64, 64)}"),
    *naming((wrong, honest), ("name_maps", "named_maps"), named.CAUSES["tiling.name_maps"]),
    *logging(
        (wrong, honest),
        "tiling.matmul_log",
        ({"M": 128, "N": 256, "K": 64}, {"M": 256, "N": 128, "K": 128}),
        (
            "first_matmul",
            {"bytes": "2*M*N*K*(1 + 1/64) + 2*M*N", "sectors": "M*N*K*(1 + 1/64)/16 + M*N/16", "launches": 1},
        ),
    ),
]
