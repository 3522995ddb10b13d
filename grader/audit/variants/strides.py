"""Unit 01. What each variant must lose stands next to it; () means full marks."""

from grader.audit.variants import kinds

wrong, honest = kinds("strides")

PLAIN, RANK = "correct.plain", "correct.any rank"

FLAT = [
    wrong("flat_index", "forgets the offset", ["correct.offset", RANK], ("offset + ", "")),
    wrong("flat_index", "strides turned round", [PLAIN, "correct.offset", RANK], ("zip(index, strides, ", "zip(index, strides[::-1], ")),
    wrong("flat_index", "two axes alone", [PLAIN, RANK], ("sum(i * s for i, s in zip(index, strides, strict=True))", "index[0] * strides[0] + index[1] * strides[1]")),
    wrong("flat_index", "the last stride is 1", [PLAIN, "correct.offset", RANK], ("offset + sum(i * s for i, s in zip(index, strides, strict=True))", "offset + sum(i * s for i, s in zip(index, [*strides[:-1], 1]))")),
    wrong("flat_index", "stride 0 taken for 1", ["correct.offset", RANK], ("i * s for", "i * (s or 1) for")),
    wrong("flat_index", "counts bytes", [PLAIN, "correct.offset", RANK], ("return offset", "return 4 * offset"), ("+ sum(i * s", "+ sum(4 * i * s")),
    wrong("flat_index", "the offset for each axis", ["correct.offset", RANK], ("offset + sum(i * s for", "sum(offset + i * s for")),
    wrong("flat_index", "returns nothing", [PLAIN, "correct.offset", RANK], ("return offset", "offset")),
    honest("flat_index", "a loop", source="""
def flat_index(index, strides, offset):
    for axis in range(len(index)):
        offset += index[axis] * strides[axis]
    return offset
"""),
]  # fmt: skip

AXES, ANY = "holds.strides_of_a_new_tensor.plain", "holds.strides_of_a_new_tensor.any rank"

ROW_MAJOR = [
    wrong("row_major_strides", "column-major", [AXES, ANY], ("reversed(shape)", "shape"), ("strides[::-1]", "strides")),
    wrong("row_major_strides", "its own size counts", [AXES, ANY], ("        strides.append(step)\n        step *= size  # one step along the next axis skips all of this one\n", "        step *= size\n        strides.append(step)\n")),
    wrong("row_major_strides", "not turned round", [AXES, ANY], ("strides[::-1]", "strides")),
    wrong("row_major_strides", "sizes, not products", [AXES, ANY], ("step *= size", "step = size")),
    wrong("row_major_strides", "two axes alone", [AXES, ANY], source="""
def row_major_strides(shape):
    return [shape[1], 1]
"""),
    wrong("row_major_strides", "at least one axis", [ANY], ("strides, step = [], 1", "strides, step = [], 1 if shape[0] else 1")),
    wrong("row_major_strides", "sizes of 1 get stride 0", [ANY], ("strides.append(step)", "strides.append(step if size > 1 else 0)")),
    honest("row_major_strides", "torch knows", source="""
def row_major_strides(shape):
    return torch.empty(shape, device="meta").stride()
"""),
    honest("row_major_strides", "products", source="""
import math


def row_major_strides(shape):
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
"""),
]  # fmt: skip

ONE, NONE = "correct.size 1", "correct.empty"

CONTIGUOUS = [
    wrong("is_contiguous", "equal strides", [ONE], (" if size != 1)", ")")),
    wrong("is_contiguous", "forgets empty ones", [NONE], ("if 0 in shape:", "if False:")),
    wrong("is_contiguous", "empty is not", [NONE], ("return True", "return False")),
    wrong("is_contiguous", "falling strides", [PLAIN, ONE], ("return all(stride == e for size, stride, e in zip(shape, strides, expected, strict=True) if size != 1)", "return list(strides) == sorted(strides, reverse=True)")),
    wrong("is_contiguous", "the last stride is 1", [PLAIN, ONE], ("return all(stride == e for size, stride, e in zip(shape, strides, expected, strict=True) if size != 1)", "return strides[-1] == 1")),
    wrong("is_contiguous", "the first axis alone", [PLAIN, ONE], source="""
import math


def is_contiguous(shape, strides):
    if 0 in shape or not shape:
        return True
    return strides[0] * shape[0] == math.prod(shape)
"""),
    wrong("is_contiguous", "always", [PLAIN, ONE], ("if 0 in shape:", "if True:")),
    wrong("is_contiguous", "never", [PLAIN, ONE, NONE], ("if 0 in shape:\n        return True", "if True:\n        return False")),
    wrong("is_contiguous", "any axis will do", [PLAIN, ONE], ("return all(", "return any(")),
    honest("is_contiguous", "by walking", source="""
def is_contiguous(shape, strides):
    step = 1
    for size, stride in list(zip(shape, strides))[::-1]:
        if size == 0:
            return True
        if size > 1 and stride != step:
            return 0 in shape
        step *= size
    return True
"""),
]  # fmt: skip

NEW = ["correct.plain"]

PREDICTIONS = [
    wrong("predictions", "a transpose copies", NEW, ('"x.T": 0', '"x.T": 16384')),
    wrong("predictions", "reshape never copies", NEW, ('"x.T.reshape(4096)": 16384', '"x.T.reshape(4096)": 0')),
    wrong("predictions", "contiguous always copies", NEW, ('"x.contiguous()": 0', '"x.contiguous()": 16384')),
    wrong("predictions", "expand copies", NEW, ('"x.expand(10, 64, 64)": 0', '"x.expand(10, 64, 64)": 163840')),
    wrong("predictions", "a list is a slice", NEW, ('"x[[0, 1]]": 512', '"x[[0, 1]]": 0')),
    wrong("predictions", "elements, not bytes", NEW, ('"x.half()": 8192', '"x.half()": 4096')),
    wrong("predictions", "half in place", NEW, ('"x.half()": 8192', '"x.half()": 0')),
    wrong("predictions", "float always copies", NEW, ('"x.float()": 0', '"x.float()": 16384')),
    wrong("predictions", "a step copies", NEW, ('"x[:, ::2]": 0', '"x[:, ::2]": 8192')),
    wrong("predictions", "float copies", NEW, ('"x.float()": 0', '"x.float()": "0"')),
    honest("predictions", "floats", ('"x.half()": 8192', '"x.half()": 8192.0')),
]

FLOAT, OTHER = "correct.float32", "correct.dtypes"

BYTES = [
    wrong("tensor_bytes", "always 4", [OTHER], ("getattr(torch, dtype).itemsize", "4")),
    wrong("tensor_bytes", "elements", [FLOAT, OTHER], (" * getattr(torch, dtype).itemsize", "")),
    wrong("tensor_bytes", "bits", [FLOAT, OTHER], (".itemsize", ".itemsize * 8")),
    wrong("tensor_bytes", "adds the sizes", [FLOAT, OTHER], ("elements *= size", "elements += size")),
    wrong("tensor_bytes", "from zero", [FLOAT, OTHER], ("elements = 1", "elements = 0")),
    wrong("tensor_bytes", "needs an axis", [FLOAT], ("elements = 1\n", "elements = min(1, 1 + shape[0])\n")),
    wrong("tensor_bytes", "in 32 bits", [FLOAT], ("return elements * ", "return (elements & 0x1FFFFFFF) * ")),
    honest("tensor_bytes", "from an empty tensor", source="""
def tensor_bytes(shape, dtype):
    return torch.Size(shape).numel() * torch.empty(0, dtype=getattr(torch, dtype)).element_size()
"""),
]  # fmt: skip

LIKE, VIEWS = "holds.problem.plain", "holds.problem.strided"

TRANSPOSE = [
    wrong("transpose_view", "sizes alone", [LIKE, VIEWS], ("    strides[i], strides[j] = strides[j], strides[i]\n", "")),
    wrong("transpose_view", "strides alone", [LIKE, VIEWS], ("    shape[i], shape[j] = shape[j], shape[i]\n", "")),
    wrong("transpose_view", "turns all axes round", [LIKE, VIEWS], ("return shape, strides", "return list(shape[::-1]), list(strides[::-1])")),
    wrong("transpose_view", "the last two", [LIKE, VIEWS], ("shape, strides = list(shape), list(strides)", "shape, strides, i, j = list(shape), list(strides), -1, -2")),
    wrong("transpose_view", "new strides", [LIKE, VIEWS], ("return shape, strides", "return shape, list(torch.empty(shape).stride())")),
    wrong("transpose_view", "a contiguous x", [VIEWS], ("shape, strides = list(shape), list(strides)", "shape, strides = list(shape), list(torch.empty(shape).stride())")),
    wrong("transpose_view", "the shape alone", [LIKE, VIEWS], ("return shape, strides", "return shape")),
    wrong("transpose_view", "a tensor", [LIKE, VIEWS], ("return shape, strides", "return torch.empty(1).as_strided([1], [1])")),
    wrong("transpose_view", "negative sizes", [LIKE, VIEWS], ("return shape, strides", "return shape, [-s for s in strides]")),
    wrong("transpose_view", "too many axes", [LIKE, VIEWS], ("return shape, strides", "return [1] * 99 + shape, [0] * 99 + strides")),
    honest("transpose_view", "asks torch", source="""
def transpose_view(shape, strides, i, j):
    y = torch.empty_strided(shape, strides, device="meta").transpose(i, j)
    return y.shape, y.stride()
"""),
]  # fmt: skip

REPEATED, FRONT, OF_VIEWS = "holds.problem.plain", "holds.problem.leading", "holds.problem.strided"

BROADCAST = [
    wrong("broadcast_view", "strides of a copy", [REPEATED, FRONT, OF_VIEWS], ("[0] * missing + kept", "list(torch.empty(target).stride())")),
    wrong("broadcast_view", "keeps the stride", [REPEATED, FRONT, OF_VIEWS], ("0 if n == 1 else s for", "s for")),
    wrong("broadcast_view", "no new axes", [FRONT, OF_VIEWS], ("list(target), [0] * missing + kept", "list(target[missing:]), kept")),
    wrong("broadcast_view", "new axes behind", [FRONT, OF_VIEWS], ("[0] * missing + kept", "kept + [0] * missing")),
    wrong("broadcast_view", "step 1 for new axes", [FRONT, OF_VIEWS], ("[0] * missing", "[1] * missing")),
    wrong("broadcast_view", "a contiguous x", [OF_VIEWS], ("zip(shape, strides, strict=True)", "zip(shape, torch.empty(shape).stride())")),
    wrong("broadcast_view", "the old shape", [REPEATED, FRONT, OF_VIEWS], ("return list(target)", "return list(shape)")),
    honest("broadcast_view", "asks torch", source="""
def broadcast_view(shape, strides, target):
    y = torch.empty_strided(shape, strides, device="meta").expand(target)
    return y.shape, y.stride()
"""),
]  # fmt: skip

TILES, ANY_TILES = "holds.problem.plain", "holds.problem.strided"

TILE = [
    wrong("tile_view", "strides of a copy", [TILES, ANY_TILES], ("[bm * stride_m, bn * stride_n, stride_m, stride_n]", "[N // bn * bm * bn, bm * bn, bn, 1]")),
    wrong("tile_view", "a contiguous x", [ANY_TILES], ("[bm * stride_m, bn * stride_n, stride_m, stride_n]", "[bm * N, bn, N, 1]")),
    wrong("tile_view", "the last stride is 1", [ANY_TILES], ("bn * stride_n, stride_m, stride_n]", "bn, stride_m, 1]")),
    wrong("tile_view", "steps of one row", [TILES, ANY_TILES], ("[bm * stride_m, bn * stride_n,", "[stride_m, stride_n,")),
    wrong("tile_view", "bm and bn swapped", [TILES, ANY_TILES], ("[bm * stride_m, bn * stride_n,", "[bn * stride_m, bm * stride_n,")),
    wrong("tile_view", "rows cut like reshape", [TILES, ANY_TILES], ("[M // bm, N // bn, bm, bn], [bm * stride_m, bn * stride_n, stride_m, stride_n]", "[M // bm, bm, N // bn, bn], [bm * stride_m, stride_m, bn * stride_n, stride_n]")),
    wrong("tile_view", "one tile too many", [TILES, ANY_TILES], ("[M // bm, N", "[M // bm + 1, N")),
    honest("tile_view", "asks torch", source="""
def tile_view(shape, strides, bm, bn):
    y = torch.empty_strided(shape, strides, device="meta").unfold(0, bm, bm).unfold(1, bn, bn)
    return y.shape, y.stride()
"""),
]  # fmt: skip

ROW, BATCH = "holds.problem.plain", "holds.problem.batch"

WINDOWS = [
    wrong("sliding_windows", "one window too few", [ROW, BATCH], ("// step + 1", "// step")),
    wrong("sliding_windows", "the last, partial window too", [ROW, BATCH], ("(length - width) // step + 1", "-(-length // step)")),
    wrong("sliding_windows", "stride 1", [BATCH], ("[*strides[:-1], step * strides[-1], strides[-1]]", "[*strides[:-1], step, 1]")),
    wrong("sliding_windows", "windows side by side", [ROW, BATCH], ("step * strides[-1], strides[-1]]", "width * strides[-1], strides[-1]]")),
    wrong("sliding_windows", "window and element swapped", [ROW, BATCH], ("[*outer, windows, width]", "[*outer, width, windows]")),
    wrong("sliding_windows", "one axis alone", [BATCH], ("[*outer, windows, width]", "[windows, width]"), ("[*strides[:-1], step * strides[-1], strides[-1]]", "[step * strides[-1], strides[-1]]")),
    wrong("sliding_windows", "the steps within the window", [ROW, BATCH], ("step * strides[-1], strides[-1]]", "strides[-1], step * strides[-1]]")),
    honest("sliding_windows", "asks torch", source="""
def sliding_windows(shape, strides, width, step):
    y = torch.empty_strided(shape, strides, device="meta").unfold(-1, width, step)
    return y.shape, y.stride()
"""),
]  # fmt: skip

HEADS, OF_VIEW = "correct.plain", "correct.strided"
BODY = 'rearrange(x, "b s (h d) -> b h s d", h=heads).contiguous()'
AS_STRIDED = "x.as_strided((B, heads, S, C // heads), (S * C, C // heads, C, 1)).contiguous()"

SPLIT = [
    wrong("split_heads", "cut in the order of storage", [HEADS, OF_VIEW], (BODY, "x.reshape(x.shape[0], heads, x.shape[1], -1).clone()")),
    wrong("split_heads", "a view", [HEADS, OF_VIEW], (".contiguous()", "")),
    wrong("split_heads", "channels before heads", [HEADS, OF_VIEW], ("(h d)", "(d h)")),
    wrong("split_heads", "not swapped", [HEADS, OF_VIEW], ("-> b h s d", "-> b s h d"), (".contiguous()", ".clone()")),
    wrong("split_heads", "the wrong two swapped", [HEADS, OF_VIEW], ("-> b h s d", "-> b s d h")),
    wrong("split_heads", "sequence and batch swapped", [HEADS, OF_VIEW], ("b s (h d)", "s b (h d)")),
    wrong("split_heads", "contiguous x alone", [OF_VIEW], ("return " + BODY, "B, S, C = x.shape\n    return " + AS_STRIDED)),
    wrong("split_heads", "in float32", [HEADS], (BODY, BODY + ".float()")),
    honest("split_heads", "a clone, which keeps the strides", (".contiguous()", ".clone()")),
    honest("split_heads", "in torch", (BODY, "x.reshape(*x.shape[:2], heads, -1).transpose(1, 2).contiguous()")),
    honest("split_heads", "unflatten and permute", (BODY, "x.unflatten(-1, (heads, -1)).permute(0, 2, 1, 3).clone(memory_format=torch.contiguous_format)")),
    honest("split_heads", "into a tensor of its own", source="""
def split_heads(x, heads):
    B, S, C = x.shape
    out = torch.empty(B, heads, S, C // heads, dtype=x.dtype, device=x.device)
    for h in range(heads):
        out[:, h] = x[:, :, h * (C // heads) : (h + 1) * (C // heads)]
    return out
"""),
]  # fmt: skip

EINSUM = [
    wrong("einsum_predictions", "one product for three", [PLAIN], ('"products: mk,kn,np->mp": 2', '"products: mk,kn,np->mp": 1')),
    wrong("einsum_predictions", "elementwise is a product", [PLAIN], ('"products: mn,mn->mn": 0', '"products: mn,mn->mn": 1')),
    wrong("einsum_predictions", "a transposed matrix is copied", [PLAIN], ('"bytes copied: mk,nk->mn": 0', '"bytes copied: mk,nk->mn": 16384')),
    wrong("einsum_predictions", "heads are views", [PLAIN], ("65536", "0")),
    wrong("einsum_predictions", "one of two heads is copied", [PLAIN], ("65536", "32768")),
    wrong("einsum_predictions", "both orders alike", [PLAIN], ("16384,  # 2 * 64**2", "532480,  # 2 * 64**2")),
    wrong("einsum_predictions", "nothing written", [PLAIN], source="predicted_einsum = {}\n"),
    honest("einsum_predictions", "arithmetic", ("65536", "2 * (2 * 64 * 4 * 16) * 4"), ("2560", "2 * 64 * 4 * 5"), ("532480", "2 * 64**3 + 2 * 64**2")),
]  # fmt: skip

FIRST, GROUPED = "correct.plain", "correct.grouped"
CUT, JOIN = 'rearrange(q, "b s (g r) d -> b s g r d", g=k.shape[2])', '"b g r s t -> b (g r) s t"'

SCORES = [
    wrong("grouped_scores", "as many heads of keys as of queries", [GROUPED], source="""
def grouped_scores(q, k):
    return torch.einsum("bshd,bthd->bhst", q, k)
"""),
    wrong("grouped_scores", "h modulo G", [GROUPED], ("(g r) d ->", "(r g) d ->"), (JOIN, '"b g r s t -> b (r g) s t"')),
    wrong("grouped_scores", "joined the other way", [GROUPED], (JOIN, '"b g r s t -> b (r g) s t"')),
    wrong("grouped_scores", "the sum over heads", [FIRST], ("bsgrd,btgd->bgrst", "bsgrd,btkd->bgrst")),
    wrong("grouped_scores", "keys and queries swapped", [FIRST], ("b (g r) s t", "b (g r) t s")),
    wrong("grouped_scores", "the group is summed", [GROUPED], source="""
def grouped_scores(q, k):
    R = q.shape[2] // k.shape[2]
    q = rearrange(q, "b s (g r) d -> b s g r d", r=R)
    return torch.einsum("bsgrd,btgd->bgst", q, k).repeat(1, R, 1, 1)
"""),
    wrong("grouped_scores", "the number of groups is 2", [FIRST], ("g=k.shape[2]", "g=2")),
    honest("grouped_scores", "keys repeated", source="""
def grouped_scores(q, k):
    k = k.repeat_interleave(q.shape[2] // k.shape[2], dim=2)
    return q.transpose(1, 2) @ k.permute(0, 2, 3, 1)
"""),
    honest("grouped_scores", "head by head", source="""
def grouped_scores(q, k):
    R = q.shape[2] // k.shape[2]
    return torch.stack([torch.einsum("bsd,btd->bst", q[:, :, h], k[:, :, h // R]) for h in range(q.shape[2])], 1)
"""),
]  # fmt: skip

OTHER, MEAN = "correct.other", 'reduce(x, "b (n w) c -> b n c", "mean", w=width)'

POOL = [
    wrong("mean_pool", "windows of tokens far apart", [FIRST], ("(n w)", "(w n)")),
    wrong("mean_pool", "sums", [FIRST], ('"mean"', '"sum"')),
    wrong("mean_pool", "the largest", [FIRST], ('"mean"', '"max"')),
    wrong("mean_pool", "width windows", [FIRST], ("w=width", "n=width")),
    wrong("mean_pool", "as if contiguous", [OTHER], (MEAN, "x.as_strided((x.shape[0], x.shape[1] // width, width, x.shape[2]), (x.shape[1] * x.shape[2], width * x.shape[2], x.shape[2], 1)).mean(2)")),
    wrong("mean_pool", "all tokens", [FIRST], (MEAN, 'reduce(x, "b s c -> b 1 c", "mean")')),
    wrong("mean_pool", "a window of one is left out", [OTHER], (MEAN, MEAN + " if width > 1 else x[:, :0]")),
    honest("mean_pool", "unfold", (MEAN, "x.unfold(1, width, width).mean(-1)")),
    honest("mean_pool", "slices added", (MEAN, "sum(x[:, i::width].float() for i in range(width)).div(width).to(x.dtype)")),
]  # fmt: skip

RAGGED, STRIDED, ZERO = ("correct.ragged", "correct.strided", "correct.zero strides")
FIRST, WORK, ONCE = "correct.plain", "triton_did_the_work", "traffic.performance"

COPY = [
    wrong("strided_copy", "takes x for contiguous", [STRIDED, ZERO, ONCE], ("rows * stride_m + cols * stride_n", "rows * N + cols")),
    wrong("strided_copy", "the column stride is 1", [STRIDED, ZERO, ONCE], ("cols * stride_n", "cols")),
    wrong("strided_copy", "strides swapped", [FIRST], ("rows * stride_m + cols * stride_n", "rows * stride_n + cols * stride_m")),
    wrong("strided_copy", "no mask", [FIRST], ("(rows < M) & (cols < N)", "(rows >= 0) & (cols >= 0)"), ("BLOCK = 64", "BLOCK = 128")),
    wrong("strided_copy", "masks rows alone", [RAGGED, STRIDED, ZERO], ("(rows < M) & (cols < N)", "(rows < M) & (cols >= 0)")),
    wrong("strided_copy", "8 by 8 programs for every x", [RAGGED], ("triton.cdiv(M, BLOCK), triton.cdiv(N, BLOCK)", "8, 8")),
    wrong("strided_copy", "offsets of one dimension", [FIRST], ("[:, None]", ""), ("[None, :]", "")),
    wrong("strided_copy", "no last tile", [RAGGED, STRIDED, ZERO], ("triton.cdiv(M, BLOCK), triton.cdiv(N, BLOCK)", "M // BLOCK, N // BLOCK")),
    wrong("strided_copy", "out has the strides of x", [STRIDED, ZERO, ONCE], ("out_ptr + rows * N + cols", "out_ptr + rows * stride_m + cols * stride_n")),
    wrong("strided_copy", "the output as a column-major one", [FIRST], ("out_ptr + rows * N + cols", "out_ptr + rows + cols * M")),
    wrong("strided_copy", "one program does it twice", [ONCE], ("    tl.store(out", "    tile = tl.load(x_ptr + rows * stride_m + cols * stride_n, mask=inside)\n    tl.store(out")),
    wrong("strided_copy", "torch does it", [WORK], source="""
def strided_copy(x):
    return x.contiguous().clone()
"""),
    wrong("strided_copy", "copies first", [WORK], ("M, N = x.shape", "x = x.clone()\n    M, N = x.shape")),
    wrong("strided_copy", "a contiguous copy by torch", [WORK], ("M, N = x.shape", "x = x.contiguous()\n    M, N = x.shape")),
    wrong("strided_copy", "the offset is added twice", [STRIDED], ("stride_n, BLOCK: tl", "stride_n, offset, BLOCK: tl"), ("x_ptr + rows", "x_ptr + offset + rows"), ("x.stride(1), BLOCK", "x.stride(1), x.storage_offset(), BLOCK")),
    wrong("strided_copy", "returns x", [WORK], ("return out", "return x")),
    honest("strided_copy", "tiles of 16", ("BLOCK = 64", "BLOCK = 16")),
    honest("strided_copy", "one row a program", source="""
@triton.jit
def row_kernel(x_ptr, out_ptr, N, stride_m, stride_n, BLOCK: tl.constexpr):
    m = tl.program_id(0)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        row = tl.load(x_ptr + m * stride_m + cols * stride_n, mask=cols < N, other=0)
        tl.store(out_ptr + m * N + cols, row, mask=cols < N)


def strided_copy(x):
    M, N = x.shape
    out = torch.empty(M, N, dtype=x.dtype, device=x.device)
    row_kernel[(M,)](x, out, N, *x.stride(), BLOCK=128)
    return out
"""),
    honest("strided_copy", "one dimension, divided", source="""
@triton.jit
def flat_kernel(x_ptr, out_ptr, n, N, stride_m, stride_n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i // N * stride_m + i % N * stride_n, mask=i < n), mask=i < n)


def strided_copy(x):
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    flat_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), x.shape[1], *x.stride(), BLOCK=1024)
    return out
"""),
]  # fmt: skip

VARIANTS = [
    *FLAT,
    *ROW_MAJOR,
    *CONTIGUOUS,
    *PREDICTIONS,
    *BYTES,
    *TRANSPOSE,
    *BROADCAST,
    *TILE,
    *WINDOWS,
    *SPLIT,
    *EINSUM,
    *SCORES,
    *POOL,
    *COPY,
]
