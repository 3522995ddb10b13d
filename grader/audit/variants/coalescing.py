"""Unit 04. What each variant must lose stands next to it; () means full marks."""

from grader.audit import named
from grader.audit.variants import kinds
from grader.audit.variants.forms import KILLS, breaking, logging, naming

wrong, honest = kinds("coalescing")

STRIDES, ORDER, STRADDLING = "correct.strides", "correct.order", "correct.straddling"
FLOAT32, OTHERS = "correct.float32", "correct.other dtypes"
WHOLE, SHORT = "correct.whole warps", "correct.short warps"
PLAIN, RAGGED, APART, FLOAT16 = "correct.plain", "correct.ragged", "correct.strided", "correct.float16"
LOADS, STORES, ONCE = "coalesced.load.performance", "coalesced.store.performance", "traffic.performance"
STARTS, TALL, TRITON = "holds.starts_sectors.plain", "programs.tall", "triton_did_the_work"

COUNTED = "len({sector for first, last in first_and_last for sector in range(first, last + 1)})"
RATIO = "return 32 * itemsize / (32 * sectors_touched(addresses, itemsize))"

WRONG = [
    # -------------------- sectors_touched
    wrong("sectors_touched", "ignores the end of an element", [STRADDLING], ("(a + itemsize - 1) // 32", "a // 32")),
    wrong(
        "sectors_touched", "one byte too far", [STRIDES, ORDER, STRADDLING], ("(a + itemsize - 1)", "(a + itemsize)")
    ),
    wrong(
        "sectors_touched",
        "counts 128-byte lines",
        [ORDER, STRIDES, STRADDLING],
        ("(a // 32, (a + itemsize - 1) // 32)", "(a // 128, (a + itemsize - 1) // 128)"),
    ),
    wrong(
        "sectors_touched",
        "counts repeats",
        [ORDER, STRIDES, STRADDLING],
        (COUNTED, "len([sector for first, last in first_and_last for sector in range(first, last + 1)])"),
    ),
    wrong(
        "sectors_touched",
        "the span from first to last",
        [STRIDES, ORDER, STRADDLING],
        (COUNTED, "max(b for _, b in first_and_last) - min(a for a, _ in first_and_last) + 1"),
    ),
    wrong(
        "sectors_touched",
        "trusts the order",
        [ORDER, STRADDLING],
        (COUNTED, "1 + sum(a != b for (a, _), (b, _) in zip(first_and_last, first_and_last[1:]))"),
    ),
    wrong(
        "sectors_touched",
        "sectors of 64 bytes",
        [ORDER, STRIDES, STRADDLING],
        ("(a // 32, (a + itemsize - 1) // 32)", "(a // 64, (a + itemsize - 1) // 64)"),
    ),
    # -------------------- strided_efficiency
    wrong("strided_efficiency", "one over the stride", [FLOAT32, OTHERS], (RATIO, "return 1 / stride")),
    wrong("strided_efficiency", "always 4 bytes apart", [OTHERS], ("lane * stride * itemsize", "lane * stride * 4")),
    wrong("strided_efficiency", "float32 alone", [OTHERS], (RATIO, "return 1 / min(stride, 8)")),
    wrong(
        "strided_efficiency", "addresses in elements", [FLOAT32, OTHERS], ("lane * stride * itemsize", "lane * stride")
    ),
    wrong(
        "strided_efficiency",
        "upside down",
        [FLOAT32, OTHERS],
        (
            "32 * itemsize / (32 * sectors_touched(addresses, itemsize))",
            "32 * sectors_touched(addresses, itemsize) / (32 * itemsize)",
        ),
    ),
    wrong("strided_efficiency", "31 lanes", [FLOAT32, OTHERS], ("range(32)", "range(31)")),
    wrong(
        "strided_efficiency",
        "lines of 128 bytes",
        [FLOAT32, OTHERS],
        (RATIO, "return itemsize * 32 / (128 * len({a // 128 for a in addresses}))"),
    ),
    # -------------------- predictions
    wrong("predictions", "requests, not sectors", [PLAIN], ('"neighbours": 128', '"neighbours": 32')),
    wrong("predictions", "every fourth float", [PLAIN], ('"every_fourth": 256', '"every_fourth": 512')),
    wrong("predictions", "a shift costs one sector in all", [PLAIN], ('"shifted": 160', '"shifted": 129')),
    wrong("predictions", "a mask saves half", [PLAIN], ('"half_masked": 128', '"half_masked": 64')),
    wrong("predictions", "a column is one request", [PLAIN], ('"column": 64', '"column": 2')),
    wrong("predictions", "a text", [PLAIN], ('"column": 64', '"column": "64"')),
    # -------------------- divergence_passes
    wrong("divergence_passes", "every warp twice", [SHORT, WHOLE], ("len(set(taken[start : start + warp]))", "2")),
    wrong(
        "divergence_passes",
        "forgets the short warp",
        [SHORT],
        ("range(0, len(taken), warp)", "range(0, len(taken) - warp + 1, warp)"),
    ),
    wrong(
        "divergence_passes",
        "always 32",
        [SHORT],
        (
            "taken[start : start + warp])) for start in range(0, len(taken), warp)",
            "taken[start : start + 32])) for start in range(0, len(taken), 32)",
        ),
    ),
    wrong(
        "divergence_passes",
        "missing lanes say no",
        [SHORT],
        ("set(taken[start : start + warp])", "set((taken[start : start + warp] + [False] * warp)[:warp])"),
    ),
    wrong(
        "divergence_passes",
        "all threads in one warp",
        [SHORT, WHOLE],
        ("sum(len(set(taken[start : start + warp])) for start in range(0, len(taken), warp))", "len(set(taken))"),
    ),
    wrong(
        "divergence_passes",
        "only the if",
        [SHORT, WHOLE],
        ("len(set(taken[start : start + warp]))", "any(taken[start : start + warp])"),
    ),
    wrong(
        "divergence_passes",
        "at least one pass",
        [SHORT],
        (
            "sum(len(set(taken[start : start + warp])) for start in range(0, len(taken), warp))",
            "max(1, sum(len(set(taken[start : start + warp])) for start in range(0, len(taken), warp)))",
        ),
    ),
    # -------------------- padded_stride
    wrong(
        "padded_stride",
        "always pads",
        [PLAIN],
        ("triton.cdiv(n, per_sector) * per_sector", "(n // per_sector + 1) * per_sector"),
    ),
    wrong("padded_stride", "rounds down", [STARTS, PLAIN], ("triton.cdiv(n, per_sector)", "(n // per_sector)")),
    wrong("padded_stride", "32 elements", [PLAIN], ("32 // itemsize", "32")),
    wrong("padded_stride", "pads to lines", [PLAIN], ("32 // itemsize", "128 // itemsize")),
    wrong("padded_stride", "float32 alone", [STARTS, PLAIN], ("32 // itemsize", "8")),
    wrong("padded_stride", "in bytes", [PLAIN], ("* per_sector\n", "* 32\n")),
    wrong(
        "padded_stride",
        "a power of two",
        [PLAIN],
        ("triton.cdiv(n, per_sector) * per_sector", "triton.next_power_of_2(n)"),
    ),
    # -------------------- row_copy
    wrong("row_copy", "no row mask", [RAGGED, APART], ("inside = (rows < M) & (cols < N)", "inside = cols < N")),
    wrong("row_copy", "no column mask", [RAGGED, APART], ("inside = (rows < M) & (cols < N)", "inside = rows < M")),
    wrong("row_copy", "ignores the row stride", [APART], ("rows * row_stride", "rows * N")),
    wrong("row_copy", "output strided like the input", [APART], ("out_ptr + rows * N", "out_ptr + rows * row_stride")),
    wrong("row_copy", "one column a program", [LOADS, STORES], ("min(1024, triton.next_power_of_2(N))", "1")),
    wrong("row_copy", "runs of four", [LOADS, STORES], ("min(1024, triton.next_power_of_2(N))", "4")),
    wrong(
        "row_copy",
        "reads twice",
        [ONCE],
        (
            "tile = tl.load(x_ptr + rows * row_stride + cols, mask=inside)",
            "tile = tl.load(x_ptr + rows * row_stride + cols, mask=inside)\n    tile = tl.load(x_ptr + rows * row_stride + cols, mask=inside)",
        ),
    ),
    wrong("row_copy", "always float32", [RAGGED, APART, LOADS, STORES, ONCE], ("dtype=x.dtype, ", "")),
    wrong("row_copy", "torch copies", [TRITON], ("return out", "return x.clone()")),
    wrong("row_copy", "second block of columns lost", [RAGGED], ("tl.program_id(1) * BLOCK_N + ", "")),
    # -------------------- gather_rows
    wrong(
        "gather_rows",
        "ignores the index",
        [PLAIN],
        ("rows = tl.load(index_ptr + k, mask=k < K, other=0)[:, None]", "rows = k[:, None]"),
    ),
    wrong(
        "gather_rows",
        "no column mask",
        [RAGGED, APART],
        ("inside = (k[:, None] < K) & (cols < N)", "inside = k[:, None] < K"),
    ),
    wrong(
        "gather_rows", "no row mask", [RAGGED, APART], ("inside = (k[:, None] < K) & (cols < N)", "inside = cols < N")
    ),
    wrong("gather_rows", "rows one element apart", [PLAIN], ("rows * row_stride", "rows")),
    wrong("gather_rows", "ignores the row stride", [APART], ("rows * row_stride", "rows * N")),
    wrong("gather_rows", "row numbers in one byte", [PLAIN], ("other=0)[:, None]", "other=0).to(tl.int8)[:, None]")),
    wrong("gather_rows", "one column a program", [LOADS, STORES, ONCE], ("min(1024, triton.next_power_of_2(N))", "1")),
    wrong("gather_rows", "runs of four", [LOADS, STORES, ONCE], ("min(1024, triton.next_power_of_2(N))", "4")),
    wrong(
        "gather_rows",
        "reads twice",
        [ONCE],
        (
            "tile = tl.load(x_ptr + rows * row_stride + cols, mask=inside)",
            "tile = tl.load(x_ptr + rows * row_stride + cols, mask=inside)\n    tile = tl.load(x_ptr + rows * row_stride + cols, mask=inside)",
        ),
    ),
    wrong("gather_rows", "torch gathers", [TRITON], ("return out", "return x[index]")),
    wrong(
        "gather_rows",
        "masks by the row that it reads",
        [PLAIN],
        ("(k[:, None] < K) & (cols < N)", "(rows < K) & (cols < N)"),
    ),
    wrong("gather_rows", "stores at the source row", [PLAIN], ("k[:, None] * N", "rows * N")),
    # -------------------- transpose
    wrong(
        "transpose",
        "one row a program",
        [STORES],
        (
            "rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]",
            "rows = tl.program_id(0) + tl.arange(0, 1)[:, None]",
        ),
        ("(triton.cdiv(M, BLOCK), ", "(M, "),
        ("BLOCK = 64", "BLOCK = 512"),
    ),
    wrong(
        "transpose",
        "one column a program",
        [LOADS],
        (
            "cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]",
            "cols = tl.program_id(1) + tl.arange(0, 1)[None, :]",
        ),
        (", triton.cdiv(N, BLOCK))", ", N)"),
        ("BLOCK = 64", "BLOCK = 512"),
    ),
    wrong(
        "transpose",
        "the grid the other way round",
        [PLAIN],
        ("(triton.cdiv(M, BLOCK), triton.cdiv(N, BLOCK))", "(triton.cdiv(N, BLOCK), triton.cdiv(M, BLOCK))"),
    ),
    wrong("transpose", "tiles of four", [LOADS, STORES, ONCE], ("BLOCK = 64", "BLOCK = 4")),
    wrong("transpose", "tiles of eight", [LOADS, STORES], ("BLOCK = 64", "BLOCK = 8")),
    wrong("transpose", "no mask on the load", [RAGGED, APART], ("cols * stride_n, mask=inside)", "cols * stride_n)")),
    wrong("transpose", "mask of the other shape", [PLAIN], ("(rows < M) & (cols < N)", "(rows < N) & (cols < M)")),
    wrong(
        "transpose",
        "x taken as contiguous",
        [APART],
        ("rows * stride_m + cols * stride_n", "rows * N + cols"),
        tells="if it were contiguous",
    ),
    wrong("transpose", "column stride taken as 1", [APART], ("cols * stride_n", "cols")),
    wrong(
        "transpose",
        "reads twice",
        [ONCE],
        ("    tl.store(", "    tile = tl.load(x_ptr + rows * stride_m + cols * stride_n, mask=inside)\n    tl.store("),
    ),
    wrong("transpose", "always float32", [RAGGED, LOADS, STORES, ONCE], ("dtype=x.dtype, ", "")),
    wrong("transpose", "torch turns", [TRITON], ("return out", "return x.T.contiguous()")),
    wrong(
        "transpose",
        "only whole tiles",
        [RAGGED, APART],
        ("(triton.cdiv(M, BLOCK), triton.cdiv(N, BLOCK))", "(max(1, M // BLOCK), max(1, N // BLOCK))"),
    ),
    wrong(
        "transpose",
        "out has the strides of a view",
        [PLAIN],
        ("torch.empty((N, M), dtype=x.dtype, device=x.device)", "torch.empty_like(x.T)"),
    ),
    # -------------------- column_sum
    wrong("column_sum", "one column a program", [LOADS], ("512, 128, 64", "512, 512, 1")),
    wrong("column_sum", "bands of four", [LOADS], ("512, 128, 64", "512, 512, 4")),
    wrong(
        "column_sum", "one program a band", [TALL], ("ROWS, BLOCK_M, BLOCK_N = 512", "ROWS, BLOCK_M, BLOCK_N = 1 << 20")
    ),
    wrong(
        "column_sum",
        "parts overwrite each other",
        [RAGGED, FLOAT16, LOADS, ONCE, TALL],
        ("tl.atomic_add(", "tl.store("),
    ),
    wrong("column_sum", "a result in the dtype of x", [FLOAT16, LOADS, ONCE], ("dtype=torch.float32", "dtype=x.dtype")),
    wrong(
        "column_sum",
        "to the end from each part on",
        [FLOAT16, RAGGED, LOADS, ONCE, TALL],
        ("min(M, first + ROWS)", "M"),
    ),
    wrong(
        "column_sum",
        "the grid the other way round",
        [PLAIN],
        ("(triton.cdiv(N, BLOCK_N), triton.cdiv(M, ROWS))", "(triton.cdiv(M, ROWS), triton.cdiv(N, BLOCK_N))"),
    ),
    wrong("column_sum", "adds to what was there", [PLAIN], ("torch.zeros(N", "torch.empty(N")),
    wrong(
        "column_sum",
        "adds in float16",
        [FLOAT16, LOADS, ONCE],
        ("dtype=tl.float32)\n    for", "dtype=x_ptr.dtype.element_ty)\n    for"),
        ("total += tile.to(tl.float32)", "total += tile"),
    ),
    wrong(
        "column_sum", "no program for the last rows", [RAGGED, FLOAT16], ("triton.cdiv(M, ROWS))", "max(M // ROWS, 1))")
    ),
    wrong(
        "column_sum",
        "every part begins at row 0",
        [PLAIN],
        ("first = tl.program_id(1) * ROWS", "first = 0"),
        ("ROWS, BLOCK_M, BLOCK_N = 512", "ROWS, BLOCK_M, BLOCK_N = 256"),
    ),
    wrong(
        "column_sum",
        "adds in float16, whatever x is",
        [PLAIN],
        ("dtype=tl.float32)\n    for", "dtype=tl.float16)\n    for"),
        ("total += tile.to(tl.float32)", "total += tile.to(tl.float16)"),
    ),
    wrong("column_sum", "no row mask", [FLOAT16, RAGGED], ("(rows < M) & (cols < N)", "cols < N")),
    wrong("column_sum", "masked positions unset", [FLOAT16, RAGGED], (", other=0)", ")")),
    wrong("column_sum", "ignores the row stride", [RAGGED], ("rows * row_stride", "rows * N")),
    wrong("column_sum", "parts overlap", [PLAIN], ("ROWS, BLOCK_M, BLOCK_N = 512", "ROWS, BLOCK_M, BLOCK_N = 500")),
    wrong(
        "column_sum",
        "reads twice",
        [ONCE],
        (
            "        total += tile.to(tl.float32)",
            "        tile = tl.load(x_ptr + rows * row_stride + cols, mask=(rows < M) & (cols < N), other=0)\n        total += tile.to(tl.float32)",
        ),
    ),
    wrong("column_sum", "torch sums", [TRITON], ("return out", "return x.float().sum(0)")),
    # -------------------- deinterleave
    wrong(
        "deinterleave",
        "two strided loads",
        [LOADS],
        (
            "pairs = tl.reshape(tl.load(x_ptr + j, mask=j < 2 * N), (BLOCK, 2))\n    even, odd = tl.split(pairs)\n    i = pid * BLOCK + tl.arange(0, BLOCK)  # pairs",
            "i = pid * BLOCK + tl.arange(0, BLOCK)\n    even = tl.load(x_ptr + 2 * i, mask=i < N)\n    odd = tl.load(x_ptr + 2 * i + 1, mask=i < N)",
        ),
    ),
    wrong(
        "deinterleave",
        "reads twice",
        [ONCE],
        (
            "even, odd = tl.split(pairs)",
            "even, _ = tl.split(pairs)\n    pairs = tl.reshape(tl.load(x_ptr + j, mask=j < 2 * N), (BLOCK, 2))\n    _, odd = tl.split(pairs)",
        ),
    ),
    wrong("deinterleave", "half of the input", [PLAIN], ("mask=j < 2 * N", "mask=j < N")),
    wrong("deinterleave", "no mask on the load", [FLOAT16, RAGGED], (", mask=j < 2 * N)", ")")),
    wrong(
        "deinterleave",
        "halves, not pairs",
        [PLAIN],
        (
            "tl.reshape(tl.load(x_ptr + j, mask=j < 2 * N), (BLOCK, 2))",
            "tl.trans(tl.reshape(tl.load(x_ptr + j, mask=j < 2 * N), (2, BLOCK)))",
        ),
    ),
    wrong(
        "deinterleave",
        "a mask of values that were left out",
        [RAGGED, FLOAT16],
        ("odd, mask=i < N", "odd, mask=odd < N"),
    ),
    wrong("deinterleave", "swapped", [PLAIN], ("even, odd = tl.split", "odd, even = tl.split")),
    wrong("deinterleave", "only whole blocks", [RAGGED], ("triton.cdiv(N, BLOCK)", "max(1, N // BLOCK)")),
    wrong(
        "deinterleave",
        "no mask on the stores",
        [FLOAT16, RAGGED],
        ("even, mask=i < N)", "even)"),
        ("odd, mask=i < N)", "odd)"),
    ),
    wrong(
        "deinterleave",
        "always float32",
        [FLOAT16, LOADS, STORES, ONCE],
        ("even = torch.empty(N, dtype=x.dtype, ", "even = torch.empty(N, "),
        ("odd = torch.empty(N, dtype=x.dtype, ", "odd = torch.empty(N, "),
    ),
    wrong(
        "deinterleave",
        "torch takes every other",
        [TRITON],
        ("return even, odd", "return x[0::2].contiguous(), x[1::2].contiguous()"),
    ),
]

HONEST = [
    honest(
        "sectors_touched",
        "with numpy",
        source="import numpy as np\n\n\ndef sectors_touched(addresses, itemsize):\n"
        "    at = np.array(addresses, dtype=int)[:, None] + np.arange(itemsize)\n    return np.unique(at // 32).size\n",
    ),
    honest(
        "strided_efficiency",
        "a closed form",
        source="def strided_efficiency(stride, itemsize):\n    return max(1 / stride, itemsize / 32)\n",
    ),
    honest(
        "strided_efficiency",
        "in float32",
        (RATIO, "return (torch.tensor(32.0 * itemsize) / (32 * sectors_touched(addresses, itemsize))).item()"),
    ),
    honest(
        "padded_stride",
        "with ceilings",
        ("triton.cdiv(n, per_sector) * per_sector", "-(-n // per_sector) * per_sector"),
    ),
    honest(
        "divergence_passes",
        "any and all",
        ("len(set(taken[start : start + warp]))", "2 - (all(w := taken[start : start + warp]) or not any(w))"),
    ),
    honest("row_copy", "masked positions get a value", ("mask=inside)  #", "mask=inside, other=0)  #")),
    honest("transpose", "tiles of 128", ("BLOCK = 64", "BLOCK = 128")),
    honest("column_sum", "bands of 128", ("512, 128, 64", "512, 64, 128")),
]

BREAKING = [
    *breaking(wrong, "break_transpose", "{'x': torch.randn(64, 64)}"),
    wrong("break_transpose", "numbers that no kernel gets right", [KILLS], ("return [", "return [{'x': torch.full((3, 5), float('nan'))}, ")),
    wrong("break_transpose", "more than is allowed", [KILLS], ("return [", "return [{'x': torch.ones(200, 200)}, ")),
    wrong("break_transpose", "the exercise for another dtype", [KILLS], source="def breaking_inputs():\n    return [{'x': torch.ones(4, 70, dtype=torch.int32)}]\n"),
    wrong("break_transpose", "sizes alone", [KILLS], source="def breaking_inputs():\n    return [{'x': torch.randn(100, 37)}]\n"),
    honest("break_transpose", "two inputs of one tensor", source="""
def breaking_inputs():
    x = torch.linspace(-1e-7, 3, 16000).reshape(100, 160)
    x[:, :5] = 3e-8
    return [{"x": x[:45:2, 1:140:3]}, {"x": x.T[:70, :99]}, {"x": x[:1]}]
"""),
]  # fmt: skip

NAMING = naming((wrong, honest), ("name_lanes", "named_lanes"), named.CAUSES["coalescing.name_lanes"])

LOG = logging(
    (wrong, honest),
    "coalescing.transpose_log",
    ({"M": 256, "N": 128}, {"M": 128, "N": 384}),
    ("first_transpose", {"bytes": "16*M*N", "sectors": "3*M*N/8 + M*N", "launches": 2}),
)

VARIANTS = LOG + NAMING + BREAKING + WRONG + HONEST
