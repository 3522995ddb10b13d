"""Unit 04. What each variant must lose stands next to it; () means full marks."""

from grader.audit.variants import kinds

wrong, honest = kinds("coalescing")

WRONG = [
    # -------------------- sectors_touched
    wrong(
        "sectors_touched",
        "ignores the end of an element",
        ["elements that straddle sectors"],
        ("(a + itemsize - 1) // 32", "a // 32"),
    ),
    wrong(
        "sectors_touched",
        "one byte too far",
        ["neighbours, strides, repeats", "any order, no lane at all", "elements that straddle sectors"],
        ("(a + itemsize - 1)", "(a + itemsize)"),
    ),
    wrong(
        "sectors_touched",
        "counts 128-byte lines",
        ["any order, no lane at all", "neighbours, strides, repeats", "elements that straddle sectors"],
        ("(a // 32, (a + itemsize - 1) // 32)", "(a // 128, (a + itemsize - 1) // 128)"),
    ),
    wrong(
        "sectors_touched",
        "counts repeats",
        ["any order, no lane at all", "neighbours, strides, repeats", "elements that straddle sectors"],
        (
            "len({sector for first, last in first_and_last for sector in range(first, last + 1)})",
            "len([sector for first, last in first_and_last for sector in range(first, last + 1)])",
        ),
    ),
    wrong(
        "sectors_touched",
        "the span from first to last",
        ["neighbours, strides, repeats", "any order, no lane at all", "elements that straddle sectors"],
        (
            "len({sector for first, last in first_and_last for sector in range(first, last + 1)})",
            "max(b for _, b in first_and_last) - min(a for a, _ in first_and_last) + 1",
        ),
    ),
    wrong(
        "sectors_touched",
        "trusts the order",
        ["any order, no lane at all", "elements that straddle sectors"],
        (
            "len({sector for first, last in first_and_last for sector in range(first, last + 1)})",
            "1 + sum(a != b for (a, _), (b, _) in zip(first_and_last, first_and_last[1:]))",
        ),
    ),
    wrong(
        "sectors_touched",
        "sectors of 64 bytes",
        ["any order, no lane at all", "neighbours, strides, repeats", "elements that straddle sectors"],
        ("(a // 32, (a + itemsize - 1) // 32)", "(a // 64, (a + itemsize - 1) // 64)"),
    ),
    # -------------------- strided_efficiency
    wrong(
        "strided_efficiency",
        "one over the stride",
        ["equal to the trace in float32", "odd strides, other dtypes"],
        ("return 32 * itemsize / (32 * sectors_touched(addresses, itemsize))", "return 1 / stride"),
    ),
    wrong(
        "strided_efficiency",
        "always 4 bytes apart",
        ["odd strides, other dtypes"],
        ("lane * stride * itemsize", "lane * stride * 4"),
    ),
    wrong(
        "strided_efficiency",
        "float32 alone",
        ["odd strides, other dtypes"],
        ("return 32 * itemsize / (32 * sectors_touched(addresses, itemsize))", "return 1 / min(stride, 8)"),
    ),
    wrong(
        "strided_efficiency",
        "addresses in elements",
        ["equal to the trace in float32", "odd strides, other dtypes"],
        ("lane * stride * itemsize", "lane * stride"),
    ),
    wrong(
        "strided_efficiency",
        "upside down",
        ["equal to the trace in float32", "odd strides, other dtypes"],
        (
            "32 * itemsize / (32 * sectors_touched(addresses, itemsize))",
            "32 * sectors_touched(addresses, itemsize) / (32 * itemsize)",
        ),
    ),
    wrong(
        "strided_efficiency",
        "31 lanes",
        ["equal to the trace in float32", "odd strides, other dtypes"],
        ("range(32)", "range(31)"),
    ),
    wrong(
        "strided_efficiency",
        "lines of 128 bytes",
        ["equal to the trace in float32", "odd strides, other dtypes"],
        (
            "return 32 * itemsize / (32 * sectors_touched(addresses, itemsize))",
            "return itemsize * 32 / (128 * len({a // 128 for a in addresses}))",
        ),
    ),
    # -------------------- predictions
    wrong(
        "predictions",
        "requests, not sectors",
        ["sectors, as the trace counts them"],
        ('"neighbours": 128', '"neighbours": 32'),
    ),
    wrong(
        "predictions",
        "every fourth float",
        ["sectors, as the trace counts them"],
        ('"every_fourth": 256', '"every_fourth": 512'),
    ),
    wrong(
        "predictions",
        "a shift costs one sector in all",
        ["sectors, as the trace counts them"],
        ('"shifted": 160', '"shifted": 129'),
    ),
    wrong(
        "predictions",
        "a mask saves half",
        ["sectors, as the trace counts them"],
        ('"half_masked": 128', '"half_masked": 64'),
    ),
    wrong(
        "predictions", "a column is one request", ["sectors, as the trace counts them"], ('"column": 64', '"column": 2')
    ),
    wrong("predictions", "a text", ["sectors, as the trace counts them"], ('"column": 64', '"column": "64"')),
    # -------------------- divergence_passes
    wrong(
        "divergence_passes",
        "every warp twice",
        ["short warps, other sizes, none", "whole warps"],
        ("len(set(taken[start : start + warp]))", "2"),
    ),
    wrong(
        "divergence_passes",
        "forgets the short warp",
        ["short warps, other sizes, none"],
        ("range(0, len(taken), warp)", "range(0, len(taken) - warp + 1, warp)"),
    ),
    wrong(
        "divergence_passes",
        "always 32",
        ["short warps, other sizes, none"],
        (
            "taken[start : start + warp])) for start in range(0, len(taken), warp)",
            "taken[start : start + 32])) for start in range(0, len(taken), 32)",
        ),
    ),
    wrong(
        "divergence_passes",
        "missing lanes say no",
        ["short warps, other sizes, none"],
        ("set(taken[start : start + warp])", "set((taken[start : start + warp] + [False] * warp)[:warp])"),
    ),
    wrong(
        "divergence_passes",
        "all threads in one warp",
        ["short warps, other sizes, none", "whole warps"],
        ("sum(len(set(taken[start : start + warp])) for start in range(0, len(taken), warp))", "len(set(taken))"),
    ),
    wrong(
        "divergence_passes",
        "only the if",
        ["short warps, other sizes, none", "whole warps"],
        ("len(set(taken[start : start + warp]))", "any(taken[start : start + warp])"),
    ),
    wrong(
        "divergence_passes",
        "at least one pass",
        ["short warps, other sizes, none"],
        (
            "sum(len(set(taken[start : start + warp])) for start in range(0, len(taken), warp))",
            "max(1, sum(len(set(taken[start : start + warp])) for start in range(0, len(taken), warp)))",
        ),
    ),
    # -------------------- padded_stride
    wrong(
        "padded_stride",
        "always pads",
        ["no larger than that takes"],
        ("triton.cdiv(n, per_sector) * per_sector", "(n // per_sector + 1) * per_sector"),
    ),
    wrong(
        "padded_stride",
        "rounds down",
        ["every row starts a sector", "no larger than that takes"],
        ("triton.cdiv(n, per_sector)", "(n // per_sector)"),
    ),
    wrong(
        "padded_stride",
        "32 elements",
        ["no larger than that takes"],
        ("32 // itemsize", "32"),
    ),
    wrong(
        "padded_stride",
        "pads to lines",
        ["no larger than that takes"],
        ("32 // itemsize", "128 // itemsize"),
    ),
    wrong(
        "padded_stride",
        "float32 alone",
        ["every row starts a sector", "no larger than that takes"],
        ("32 // itemsize", "8"),
    ),
    wrong(
        "padded_stride",
        "in bytes",
        ["no larger than that takes"],
        ("* per_sector\n", "* 32\n"),
    ),
    wrong(
        "padded_stride",
        "a power of two",
        ["no larger than that takes"],
        ("triton.cdiv(n, per_sector) * per_sector", "triton.next_power_of_2(n)"),
    ),
    # -------------------- row_copy
    wrong(
        "row_copy",
        "no row mask",
        ["right on ragged inputs", "right where rows lie apart"],
        ("inside = (rows < M) & (cols < N)", "inside = cols < N"),
    ),
    wrong(
        "row_copy",
        "no column mask",
        ["right on ragged inputs", "right where rows lie apart"],
        ("inside = (rows < M) & (cols < N)", "inside = rows < M"),
    ),
    wrong("row_copy", "ignores the row stride", ["right where rows lie apart"], ("rows * row_stride", "rows * N")),
    wrong(
        "row_copy",
        "output strided like the input",
        ["right where rows lie apart"],
        ("out_ptr + rows * N", "out_ptr + rows * row_stride"),
    ),
    wrong(
        "row_copy",
        "one column a program",
        ["loads are dense", "stores are dense"],
        ("min(1024, triton.next_power_of_2(N))", "1"),
    ),
    wrong(
        "row_copy",
        "runs of four",
        ["loads are dense", "stores are dense"],
        ("min(1024, triton.next_power_of_2(N))", "4"),
    ),
    wrong(
        "row_copy",
        "reads twice",
        ["reads once, writes once"],
        (
            "tile = tl.load(x_ptr + rows * row_stride + cols, mask=inside)",
            "tile = tl.load(x_ptr + rows * row_stride + cols, mask=inside)\n    tile = tl.load(x_ptr + rows * row_stride + cols, mask=inside)",
        ),
    ),
    wrong(
        "row_copy",
        "always float32",
        [
            "right on ragged inputs",
            "right where rows lie apart",
            "loads are dense",
            "stores are dense",
            "reads once, writes once",
        ],
        ("dtype=x.dtype, ", ""),
    ),
    wrong("row_copy", "torch copies", ["computed by your Triton kernel"], ("return out", "return x.clone()")),
    wrong(
        "row_copy", "second block of columns lost", ["right on ragged inputs"], ("tl.program_id(1) * BLOCK_N + ", "")
    ),
    # -------------------- gather_rows
    wrong(
        "gather_rows",
        "ignores the index",
        ["right on plain inputs"],
        ("rows = tl.load(index_ptr + k, mask=k < K, other=0)[:, None]", "rows = k[:, None]"),
    ),
    wrong(
        "gather_rows",
        "no column mask",
        ["right on ragged inputs", "repeated rows, rows that lie apart"],
        ("inside = (k[:, None] < K) & (cols < N)", "inside = k[:, None] < K"),
    ),
    wrong(
        "gather_rows",
        "no row mask",
        ["right on ragged inputs", "repeated rows, rows that lie apart"],
        ("inside = (k[:, None] < K) & (cols < N)", "inside = cols < N"),
    ),
    wrong(
        "gather_rows",
        "ignores the row stride",
        ["repeated rows, rows that lie apart"],
        ("rows * row_stride", "rows * N"),
    ),
    wrong(
        "gather_rows",
        "row numbers in one byte",
        ["right on plain inputs"],
        ("other=0)[:, None]", "other=0).to(tl.int8)[:, None]"),
    ),
    wrong(
        "gather_rows",
        "one column a program",
        ["loads are dense", "stores are dense", "no more bytes than are returned"],
        ("min(1024, triton.next_power_of_2(N))", "1"),
    ),
    wrong(
        "gather_rows",
        "runs of four",
        ["loads are dense", "stores are dense", "no more bytes than are returned"],
        ("min(1024, triton.next_power_of_2(N))", "4"),
    ),
    wrong(
        "gather_rows",
        "reads twice",
        ["no more bytes than are returned"],
        (
            "tile = tl.load(x_ptr + rows * row_stride + cols, mask=inside)",
            "tile = tl.load(x_ptr + rows * row_stride + cols, mask=inside)\n    tile = tl.load(x_ptr + rows * row_stride + cols, mask=inside)",
        ),
    ),
    wrong("gather_rows", "torch gathers", ["computed by your Triton kernel"], ("return out", "return x[index]")),
    wrong("gather_rows", "stores at the source row", ["right on plain inputs"], ("k[:, None] * N", "rows * N")),
    # -------------------- transpose
    wrong(
        "transpose",
        "one row a program",
        ["stores are dense"],
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
        ["loads are dense"],
        (
            "cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]",
            "cols = tl.program_id(1) + tl.arange(0, 1)[None, :]",
        ),
        (", triton.cdiv(N, BLOCK))", ", N)"),
        ("BLOCK = 64", "BLOCK = 512"),
    ),
    wrong("transpose", "tiles of four", ["loads are dense", "stores are dense"], ("BLOCK = 64", "BLOCK = 4")),
    wrong(
        "transpose",
        "no mask on the load",
        ["right on ragged inputs", "right on strided inputs"],
        ("cols * stride_n, mask=inside)", "cols * stride_n)"),
    ),
    wrong(
        "transpose",
        "mask of the other shape",
        ["right on plain inputs"],
        ("(rows < M) & (cols < N)", "(rows < N) & (cols < M)"),
    ),
    wrong(
        "transpose",
        "x taken as contiguous",
        ["right on strided inputs"],
        ("rows * stride_m + cols * stride_n", "rows * N + cols"),
    ),
    wrong("transpose", "column stride taken as 1", ["right on strided inputs"], ("cols * stride_n", "cols")),
    wrong(
        "transpose",
        "reads twice",
        ["reads once, writes once"],
        ("    tl.store(", "    tile = tl.load(x_ptr + rows * stride_m + cols * stride_n, mask=inside)\n    tl.store("),
    ),
    wrong(
        "transpose",
        "always float32",
        ["right on ragged inputs", "loads are dense", "stores are dense", "reads once, writes once"],
        ("dtype=x.dtype, ", ""),
    ),
    wrong("transpose", "torch turns", ["computed by your Triton kernel"], ("return out", "return x.T.contiguous()")),
    wrong(
        "transpose",
        "only whole tiles",
        ["right on ragged inputs", "right on strided inputs"],
        ("(triton.cdiv(M, BLOCK), triton.cdiv(N, BLOCK))", "(max(1, M // BLOCK), max(1, N // BLOCK))"),
    ),
    wrong(
        "transpose",
        "out has the strides of a view",
        ["right on plain inputs"],
        ("torch.empty((N, M), dtype=x.dtype, device=x.device)", "torch.empty_like(x.T)"),
    ),
    # -------------------- column_sum
    wrong("column_sum", "one column a program", ["loads are dense"], ("512, 128, 64", "512, 512, 1")),
    wrong("column_sum", "bands of four", ["loads are dense"], ("512, 128, 64", "512, 512, 4")),
    wrong(
        "column_sum",
        "one program a band",
        ["at least 8 programs share a tall input"],
        ("ROWS, BLOCK_M, BLOCK_N = 512", "ROWS, BLOCK_M, BLOCK_N = 1 << 20"),
    ),
    wrong(
        "column_sum",
        "parts overwrite each other",
        [
            "ragged sizes, rows that lie apart",
            "long columns in float16",
            "loads are dense",
            "reads once",
            "at least 8 programs share a tall input",
        ],
        ("tl.atomic_add(", "tl.store("),
    ),
    wrong("column_sum", "adds to what was there", ["right on plain inputs"], ("torch.zeros(N", "torch.empty(N")),
    wrong(
        "column_sum",
        "adds in float16",
        ["long columns in float16", "loads are dense", "reads once"],
        ("dtype=tl.float32)\n    for", "dtype=x_ptr.dtype.element_ty)\n    for"),
        ("total += tile.to(tl.float32)", "total += tile"),
    ),
    wrong(
        "column_sum",
        "no row mask",
        ["long columns in float16", "ragged sizes, rows that lie apart"],
        ("(rows < M) & (cols < N)", "cols < N"),
    ),
    wrong(
        "column_sum",
        "masked lanes unset",
        ["long columns in float16", "ragged sizes, rows that lie apart"],
        (", other=0)", ")"),
    ),
    wrong(
        "column_sum", "ignores the row stride", ["ragged sizes, rows that lie apart"], ("rows * row_stride", "rows * N")
    ),
    wrong(
        "column_sum",
        "parts overlap",
        ["right on plain inputs"],
        ("ROWS, BLOCK_M, BLOCK_N = 512", "ROWS, BLOCK_M, BLOCK_N = 500"),
    ),
    wrong(
        "column_sum",
        "reads twice",
        ["reads once"],
        (
            "        total += tile.to(tl.float32)",
            "        tile = tl.load(x_ptr + rows * row_stride + cols, mask=(rows < M) & (cols < N), other=0)\n        total += tile.to(tl.float32)",
        ),
    ),
    wrong("column_sum", "torch sums", ["computed by your Triton kernel"], ("return out", "return x.float().sum(0)")),
    # -------------------- deinterleave
    wrong(
        "deinterleave",
        "two strided loads",
        ["loads are dense"],
        (
            "pairs = tl.reshape(tl.load(x_ptr + j, mask=j < 2 * N), (BLOCK, 2))\n    even, odd = tl.split(pairs)\n    i = pid * BLOCK + tl.arange(0, BLOCK)  # pairs",
            "i = pid * BLOCK + tl.arange(0, BLOCK)\n    even = tl.load(x_ptr + 2 * i, mask=i < N)\n    odd = tl.load(x_ptr + 2 * i + 1, mask=i < N)",
        ),
    ),
    wrong(
        "deinterleave",
        "reads twice",
        ["reads once, writes once"],
        (
            "even, odd = tl.split(pairs)",
            "even, _ = tl.split(pairs)\n    pairs = tl.reshape(tl.load(x_ptr + j, mask=j < 2 * N), (BLOCK, 2))\n    _, odd = tl.split(pairs)",
        ),
    ),
    wrong("deinterleave", "half of the input", ["right on plain inputs"], ("mask=j < 2 * N", "mask=j < N")),
    wrong(
        "deinterleave",
        "no mask on the load",
        ["right in float16", "right on ragged inputs"],
        (", mask=j < 2 * N)", ")"),
    ),
    wrong(
        "deinterleave",
        "halves, not pairs",
        ["right on plain inputs"],
        (
            "tl.reshape(tl.load(x_ptr + j, mask=j < 2 * N), (BLOCK, 2))",
            "tl.trans(tl.reshape(tl.load(x_ptr + j, mask=j < 2 * N), (2, BLOCK)))",
        ),
    ),
    wrong("deinterleave", "swapped", ["right on plain inputs"], ("even, odd = tl.split", "odd, even = tl.split")),
    wrong(
        "deinterleave",
        "only whole blocks",
        ["right on ragged inputs"],
        ("triton.cdiv(N, BLOCK)", "max(1, N // BLOCK)"),
    ),
    wrong(
        "deinterleave",
        "no mask on the stores",
        ["right in float16", "right on ragged inputs"],
        ("even, mask=i < N)", "even)"),
        ("odd, mask=i < N)", "odd)"),
    ),
    wrong(
        "deinterleave",
        "always float32",
        ["right in float16", "loads are dense", "stores are dense", "reads once, writes once"],
        ("even = torch.empty(N, dtype=x.dtype, ", "even = torch.empty(N, "),
        ("odd = torch.empty(N, dtype=x.dtype, ", "odd = torch.empty(N, "),
    ),
    wrong(
        "deinterleave",
        "torch takes every other",
        ["computed by your Triton kernel"],
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
        (
            "return 32 * itemsize / (32 * sectors_touched(addresses, itemsize))",
            "return (torch.tensor(32.0 * itemsize) / (32 * sectors_touched(addresses, itemsize))).item()",
        ),
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
    honest("row_copy", "masked lanes get a value", ("mask=inside)  #", "mask=inside, other=0)  #")),
    honest("transpose", "tiles of 128", ("BLOCK = 64", "BLOCK = 128")),
    honest("column_sum", "bands of 128", ("512, 128, 64", "512, 64, 128")),
]

VARIANTS = WRONG + HONEST
