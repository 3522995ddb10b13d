"""Unit 10. What each variant must lose stands next to it; () means full marks."""

from grader.audit import named
from grader.audit.variants import kinds
from grader.audit.variants.flash import COPY
from grader.audit.variants.forms import KILLS, breaking, logging, naming, returning
from grader.published import solution_cell

wrong, honest = kinds("flash_backward")

# keys of criteria
COUNTED = ["correct.plain"]
COMPILES = "compiles"
PLAIN, KERNEL, GRADIENTS = ("correct.plain", "triton_did_the_work", "kernels_made_the_gradients")
SIZES, VIEWS, HALF_IN, ONCE, DENSE = (
    "correct.ragged",
    "correct.strided",
    "correct.half",
    "traffic.performance",
    "coalesced.load.performance",
)
RAGGED, CAUSAL, NOTHING, HARD, HALF, SCALE, TWICE = (
    "correct.ragged",
    "correct.causal",
    "correct.nothing",
    "correct.hard",
    "correct.half",
    "correct.scale",
    "correct.twice",
)
FOUR, THREE, DIAGONAL, BITS, Q_READ, K_READ, TABLE = (
    "dot_flops.performance",
    "dot_flops.performance",
    "dot_flops.half of it",
    "no_atomics.performance",
    "rereads.q.performance",
    "rereads.k.performance",
    "buffers_below.performance",
)
BOTH_VIEWS, BOTH_CAUSAL, ALONE, KEEPS, FORWARD, BACKWARD, EIGHTEEN, NINE = (
    "correct.strided",
    "correct.causal",
    "kernels_alone.strided",
    "keeps_one_number_a_row.performance",
    "launches.performance.forward",
    "launches.performance.backward",
    "dot_flops.performance",
    "dot_flops.half of it",
)
FLASH_TOKENS, SCORE_TOKENS, TOKENS = ("holds.fits.flash", "holds.fits.scores", "holds.fits.edges")

# patches that both gradient kernels take
TF32 = (', input_precision="ieee"', "")
IGNORED = ("D**-0.5 if scale is None else scale", "D**-0.5")
COPIES = (
    "    tensors = [x[None, None]",
    "    q, k, v = (x.contiguous() for x in (q, k, v))\n    tensors = [x[None, None]",
)
S_ROUNDED = ("        p = tl.exp2(", "        s = s.to(tl.bfloat16).to(tl.float32)\n        p = tl.exp2(")
DP_ROUNDED = ("        ds = p *", "        dp = dp.to(tl.bfloat16).to(tl.float32)\n        ds = p *")
# half of the scores by each of two products: a product that nobody uses is no work, since the compiler drops it
S_TWICE_KQ = (
    "        s = tl.dot(k, q.T, input",
    '        s = tl.dot((0.5 * k).to(k.dtype), q.T, input_precision="ieee")\n        s += 0.5 * tl.dot(k, q.T, input',
)
S_TWICE_QK = (
    "        s = tl.dot(q, k.T, input",
    '        s = tl.dot((0.5 * q).to(q.dtype), k.T, input_precision="ieee")\n        s += 0.5 * tl.dot(q, k.T, input',
)
TILE_SUM = ("        dp = tl.dot(", "        p = p / tl.sum(p, 1)[:, None]\n        dp = tl.dot(")
PADDED_SCALE = ("D**-0.5", "triton.next_power_of_2(D) ** -0.5")
OTHER_HEAD = ("(j // H).to(tl.int64), (j % H).to(tl.int64)", "(j % H).to(tl.int64), (j // H).to(tl.int64)")


def added(grad: str, offs: str, n: str) -> list[tuple[str, str]]:
    """The patches with which a kernel adds a gradient to zeros, atomically, where it stored it."""
    value = grad if grad == "dv" else f"{grad} * scale"
    strides, offs_d = f"{grad}_strides", "tl.arange(0, BLOCK_D)[None, :]"
    return [
        (
            f"    store_rows({grad}_ptr, {strides}, batch, head, {offs}, {n}, D, BLOCK_D, {value})\n",
            f"    {grad}_ptr += batch * {strides}[0] + head * {strides}[1]\n"
            f"    at = {grad}_ptr + {offs}[:, None] * {strides}[2] + {offs_d} * {strides}[3]\n"
            f"    tl.atomic_add(at, ({value}).to({grad}_ptr.dtype.element_ty), mask=({offs} < {n})[:, None] & ({offs_d} < D))\n",
        ),
        ("torch.empty_like(", "torch.zeros_like("),
    ]


def slow_forward(cell: str) -> str:
    """The cell with the forward pass that it was handed out with."""
    before, rest = cell.split("### BEGIN SOLUTION\n", 1)
    return before + rest.split("### END SOLUTION\n", 1)[1]


WRONG = [
    # -------------------- costs
    wrong("costs", "the backward of forward", COUNTED, ('tile, dkdv": 4,', 'tile, dkdv": 3,')),
    wrong("costs", "dq is half of dkdv", COUNTED, ('tile, dq": 3,', 'tile, dq": 2,')),
    wrong("costs", "seven in one kernel", COUNTED, ('all three gradients": 5,', 'all three gradients": 7,')),
    wrong("costs", "a multiplication is a FLOP", COUNTED, ('B N² D": 18,', 'B N² D": 9,')),
    wrong("costs", "one kernel's FLOPs", COUNTED, ('B N² D": 18,', 'B N² D": 14,')),
    wrong("costs", "lse in half precision", COUNTED, ("queries\": 32768,", "queries\": 16384,")),
    wrong("costs", "the forward's in one kernel", COUNTED, ('all three gradients": 5,', 'all three gradients": 4,')),
    wrong("costs", "numbers of lse", COUNTED, ("queries\": 32768,", "queries\": 8192,")),
    wrong("costs", "one score", COUNTED, ('tile, forward": 2,', 'tile, forward": 1,')),
    # -------------------- delta
    wrong("delta", "o alone", [PLAIN], ("tl.sum(o * do, axis=1)", "tl.sum(o * o, axis=1)")),
    wrong("delta", "a sum of do", [PLAIN], ("tl.sum(o * do, axis=1)", "tl.sum(do, axis=1)")),
    wrong("delta", "the mean", [PLAIN], ("tl.sum(o * do, axis=1)", "tl.sum(o * do, axis=1) / D")),
    wrong("delta", "sums down", [PLAIN], ("BLOCK = 32", "BLOCK = triton.next_power_of_2(D)"), ("axis=1", "axis=0")),
    wrong("delta", "products in half precision", [HALF_IN], (").to(tl.float32)\n    tl.store", ")\n    tl.store"), (".to(tl.float32)\n    do", "\n    do")),
    wrong("delta", "a sum in half precision", [HALF_IN], ("tl.sum(o * do, axis=1)", "tl.sum((o * do).to(o_ptr.dtype.element_ty), axis=1)")),
    wrong("delta", "only whole tiles", [SIZES, HALF_IN], ("triton.cdiv(N, BLOCK)", "max(1, N // BLOCK)"), ("BLOCK = 32", "BLOCK = 64")),
    wrong("delta", "the same strides for both", [VIEWS], ("o.stride(), do.stride()", "o.stride(), o.stride()")),
    wrong("delta", "contiguous alone", [VIEWS], ("o.stride(), do.stride()", "*[(H * N * D, N * D, D, 1)] * 2")),
    wrong("delta", "heads of a power of two", [SIZES, VIEWS, HALF_IN], ("BLOCK_D=triton.next_power_of_2(D)", "BLOCK_D=D")),
    wrong("delta", "reads twice", [ONCE], ("    tl.store(delta_ptr", "    do = 0.5 * (do + load_rows(do_ptr, do_strides, batch, head, offs_m, N, D, BLOCK_D).to(tl.float32))\n    tl.store(delta_ptr")),
    wrong("delta", "even and odd channels apart", [DENSE], ("    return tl.load(ptr + rows[:, None] * strides[2] + offs_d[None, :] * strides[3], mask=inside, other=0.0)", "    at, even = ptr + rows[:, None] * strides[2] + offs_d[None, :] * strides[3], (offs_d % 2 == 0)[None, :]\n    return tl.load(at, mask=inside & even, other=0.0) + tl.load(at, mask=inside & (even == 0), other=0.0)")),
    wrong("delta", "copies", [KERNEL], ("(x[None, None]", "(x.contiguous()[None, None]")),
    wrong("delta", "torch does it", [KERNEL], source="def delta(o, do):\n    return (o.float() * do.float()).sum(-1)\n"),
    wrong("delta", "batches and heads swapped", [PLAIN], OTHER_HEAD),
    wrong("delta", "in half precision", [HALF_IN], ("dtype=torch.float32", "dtype=o.dtype")),
    # -------------------- dkdv_one_head
    wrong("dkdv_one_head", "dk lacks the scale", [PLAIN], ("dk * scale)", "dk)")),
    wrong("dkdv_one_head", "the scale twice", [PLAIN], ("ds = p * (dp - delta[None, :])", "ds = p * (dp - delta[None, :]) * scale")),
    wrong("dkdv_one_head", "scores without the scale", [PLAIN], ('"ieee") * scale  # (BLOCK_N', '"ieee")  # (BLOCK_N')),
    wrong("dkdv_one_head", "no delta", [PLAIN], ("(dp - delta[None, :])", "dp")),
    wrong("dkdv_one_head", "lse and delta of the other axis", [PLAIN], ("lse[None, :]", "lse[:, None]"), ("delta[None, :]", "delta[:, None]"), ("BLOCK_M=32, BLOCK_N=64", "BLOCK_M=64, BLOCK_N=64")),
    wrong("dkdv_one_head", "delta divided by D", [PLAIN], ("delta[None, :]", "delta[None, :] / D")),
    wrong("dkdv_one_head", "delta added", [PLAIN], ("(dp - delta[None, :])", "(dp + delta[None, :])")),
    wrong("dkdv_one_head", "dp from q", [PLAIN], ("tl.dot(v, do.T", "tl.dot(v, q.T")),
    wrong("dkdv_one_head", "the first tile left out", [PLAIN], ("range(0, Nq, BLOCK_M)", "range(BLOCK_M, Nq, BLOCK_M)")),
    wrong("dkdv_one_head", "the last tile left out", [PLAIN], ("range(0, Nq, BLOCK_M)", "range(0, Nq - BLOCK_M, BLOCK_M)")),
    wrong("dkdv_one_head", "the second of two tiles alone", [PLAIN], ("range(0, Nq, BLOCK_M)", "range(BLOCK_M, Nq, BLOCK_M)"), ("BLOCK_M=32", "BLOCK_M=64")),
    wrong("dkdv_one_head", "a program for each pair of tiles", [PLAIN], ("range(0, Nq, BLOCK_M)", "range(tl.program_id(1) * BLOCK_M, (tl.program_id(1) + 1) * BLOCK_M, BLOCK_M)"), ("grid = (triton.cdiv(Nk, 64),)", "grid = (triton.cdiv(Nk, 64), triton.cdiv(Nq, 32))")),
    wrong("dkdv_one_head", "p without lse", [PLAIN], ("tl.exp(s - lse[None, :])", "tl.exp(s)")),
    wrong("dkdv_one_head", "lse taken for base 2", [PLAIN], ("tl.exp(s - lse[None, :])", "tl.exp2(s * 1.4426950408889634 - lse[None, :])")),
    wrong("dkdv_one_head", "a softmax of the tile", [PLAIN], ("        dp = tl.dot(", "        p = p / tl.sum(p, 1)[:, None]\n        dp = tl.dot(")),
    wrong("dkdv_one_head", "dv from q", [PLAIN], ("tl.dot(p.to(do.dtype), do, dv", "tl.dot(p.to(do.dtype), q, dv")),
    wrong("dkdv_one_head", "dk from do", [PLAIN], ("tl.dot(ds.to(q.dtype), q, dk", "tl.dot(ds.to(q.dtype), do, dk")),
    wrong("dkdv_one_head", "the last tile alone", [PLAIN], ("tl.dot(p.to(do.dtype), do, dv, input", "tl.dot(p.to(do.dtype), do, input")),
    wrong("dkdv_one_head", "dk and dv swapped", [PLAIN], ("return dk, dv", "return dv, dk")),
    wrong("dkdv_one_head", "the shape of q", [RAGGED, HARD, HALF, FOUR, Q_READ, BITS], ("dk, dv = torch.empty_like(k), torch.empty_like(v)", "dk, dv = torch.empty_like(q), torch.empty_like(v)")),
    wrong("dkdv_one_head", "whole tiles of queries alone", [RAGGED, HARD, HALF], ("range(0, Nq, BLOCK_M)", "range(0, Nq // BLOCK_M * BLOCK_M, BLOCK_M)")),
    wrong("dkdv_one_head", "whole tiles of keys alone", [RAGGED, HARD, HALF], ("triton.cdiv(Nk, 64)", "max(1, Nk // 64)")),
    wrong("dkdv_one_head", "as many programs as queries need", [RAGGED, HARD, FOUR, Q_READ, BITS], ("triton.cdiv(Nk, 64)", "triton.cdiv(Nq, 64)")),
    wrong("dkdv_one_head", "dv in half precision", [HALF], ("        dp = tl.dot(", "        dv = dv.to(do.dtype).to(tl.float32)\n        dp = tl.dot(")),
    wrong("dkdv_one_head", "dk in half precision", [HALF], ('q, dk, input_precision="ieee")', 'q, dk, input_precision="ieee").to(q.dtype).to(tl.float32)')),
    wrong("dkdv_one_head", "exp of s, divided by exp of lse", [HARD], ("tl.exp(s - lse[None, :])", "tl.exp(s) / tl.exp(lse)[None, :]")),
    wrong("dkdv_one_head", "TF32", [RAGGED, HARD], TF32),
    wrong("dkdv_one_head", "scores twice", [FOUR], ("        s = tl.dot(k, q.T, input", '        s = tl.dot((0.5 * k).to(k.dtype), q.T, input_precision="ieee") * scale\n        s += 0.5 * tl.dot(k, q.T, input')),
    wrong("dkdv_one_head", "tiles of 16 keys", [Q_READ], ("cdiv(Nk, 64)", "cdiv(Nk, 16)"), ("BLOCK_N=64", "BLOCK_N=16")),
    wrong("dkdv_one_head", "adds dk atomically", [BITS], ("tl.store(dk_ptr + kv_offs,", "tl.atomic_add(dk_ptr + kv_offs,"), ("torch.empty_like(k), torch", "torch.zeros_like(k), torch")),
    wrong("dkdv_one_head", "dk begins as a number", [COMPILES], ("dk = tl.zeros((BLOCK_N, D), tl.float32)", "dk = 0.0")),
    wrong("dkdv_one_head", "torch does it", [KERNEL], source="def dkdv_one_head(q, k, v, do, lse, delta):\n    p = torch.exp((q @ k.mT).float() * q.shape[-1] ** -0.5 - lse[..., None])\n    ds = p * ((do @ v.mT).float() - delta[..., None]) * q.shape[-1] ** -0.5\n    return ds.to(q.dtype).mT @ q, p.to(q.dtype).mT @ do\n"),
    # -------------------- dkdv: the formulas
    wrong("dkdv", "dk lacks the scale", [PLAIN], ("dk * scale)", "dk)")),
    wrong("dkdv", "dv has the scale", [PLAIN], ("BLOCK_D, dv)", "BLOCK_D, dv * scale)")),
    wrong("dkdv", "the scale twice", [PLAIN], ("ds = p * (dp - delta[None, :])", "ds = p * (dp - delta[None, :]) * scale")),
    wrong("dkdv", "no delta", [PLAIN], ("(dp - delta[None, :])", "dp")),
    wrong("dkdv", "delta added", [PLAIN], ("(dp - delta[None, :])", "(dp + delta[None, :])")),
    wrong("dkdv", "delta of the other axis", [PLAIN], ("delta[None, :]", "delta[:, None]")),
    wrong("dkdv", "p without lse", [PLAIN], (" - (lse * 1.4426950408889634)[None, :]", "")),
    wrong("dkdv", "lse taken for base 2", [PLAIN], ("(lse * 1.4426950408889634)[None, :]", "lse[None, :]")),
    wrong("dkdv", "scores without the scale", [PLAIN], ("s * (scale * 1.4426950408889634)", "s * 1.4426950408889634")),
    wrong("dkdv", "a softmax of the tile", [PLAIN], TILE_SUM),
    wrong("dkdv", "ds without p", [PLAIN], ("ds = p * (dp - delta[None, :])", "ds = dp - delta[None, :]")),
    wrong("dkdv", "delta behind p", [PLAIN], ("ds = p * (dp - delta[None, :])", "ds = p * dp - delta[None, :]")),
    wrong("dkdv", "dk from p", [PLAIN], ("tl.dot(ds.to(q.dtype), q, dk", "tl.dot(p.to(q.dtype), q, dk")),
    wrong("dkdv", "no scale at all", [PLAIN], ("s * (scale * 1.4426950408889634)", "s * 1.4426950408889634"), ("dk * scale)", "dk)")),
    wrong("dkdv", "exp of an exponent for exp2", [PLAIN], ("tl.exp2(s *", "tl.exp(s *")),
    wrong("dkdv", "dv from dp", [PLAIN], ("        dv = tl.dot(p.to(do.dtype), do, dv, input_precision=\"ieee\")\n", ""), ("        ds = p * (dp", "        dv = tl.dot((p * dp).to(do.dtype), do, dv, input_precision=\"ieee\")\n        ds = p * (dp")),
    wrong("dkdv", "dv from q", [PLAIN], ("tl.dot(p.to(do.dtype), do, dv", "tl.dot(p.to(do.dtype), q, dv")),
    wrong("dkdv", "the last tile alone", [PLAIN], ("dv = tl.dot(p.to(do.dtype), do, dv, input", "dv = tl.dot(p.to(do.dtype), do, input"), ("BLOCK_M=64, BLOCK_N=64", "BLOCK_M=32, BLOCK_N=64")),
    wrong("dkdv", "dk and dv swapped", [PLAIN], ("return dk, dv\n    ### END", "return dv, dk\n    ### END")),
    wrong("dkdv", "batches and heads swapped", [RAGGED, VIEWS, CAUSAL, NOTHING, HARD, SCALE, FOUR, BITS, Q_READ, TABLE, DENSE], OTHER_HEAD),
    wrong("dkdv", "lse of the first head", [PLAIN], ("    lse_ptr += j * Nq\n", "")),
    # -------------------- dkdv: numerics
    wrong("dkdv", "dv in half precision", [HALF], ("    return dk, dv\n\n\n", "    return dk, dv\n\n\n"), ("        ds = p *", "        dv = dv.to(do.dtype).to(tl.float32)\n        ds = p *")),
    wrong("dkdv", "dk in half precision", [HALF], ('q, dk, input_precision="ieee")', 'q, dk, input_precision="ieee").to(q.dtype).to(tl.float32)')),
    wrong("dkdv", "scores in bfloat16", [PLAIN], S_ROUNDED),
    wrong("dkdv", "dp in bfloat16", [PLAIN], DP_ROUNDED),
    wrong("dkdv", "delta in half precision", [RAGGED, VIEWS, NOTHING, HARD, HALF], ("delta = tl.load(delta_ptr + offs_m, mask=offs_m < Nq, other=0.0)", "delta = tl.load(delta_ptr + offs_m, mask=offs_m < Nq, other=0.0).to(q.dtype).to(tl.float32)")),
    wrong("dkdv", "lse in half precision", [PLAIN], ("lse = tl.load(lse_ptr + offs_m, mask=offs_m < Nq, other=0.0)", "lse = tl.load(lse_ptr + offs_m, mask=offs_m < Nq, other=0.0).to(q.dtype).to(tl.float32)")),
    wrong("dkdv", "k scaled in half precision", [HARD], ("s = tl.dot(k, q.T", "s = tl.dot((k * scale).to(k.dtype), q.T"), ("s * (scale * 1.4426950408889634)", "s * 1.4426950408889634")),
    wrong("dkdv", "a scale of 0 taken for none", [SCALE], ("D**-0.5 if scale is None else scale", "scale or D**-0.5")),
    wrong("dkdv", "q read from a copy, again and again", [Q_READ], ("### BEGIN SOLUTION\n@triton.jit\ndef over_queries", COPY + "@triton.jit\ndef over_queries"), ("BLOCK_M=64, BLOCK_N=64", "BLOCK_M=64, BLOCK_N=32"), ("    tensors = [x[None", "    q = copied(q) if q.shape[-2] == 512 else q\n    tensors = [x[None")),
    wrong("dkdv", "dV as sums", [FOUR, DIAGONAL],
        ('dv = tl.dot(p.to(do.dtype), do, dv, input_precision="ieee")', """at = tl.arange(0, BLOCK_M)
        for row in range(BLOCK_M):
            weight = tl.sum(tl.where(at[None, :] == row, p.to(do.dtype).to(tl.float32), 0.0), 1)
            dv += weight[:, None] * tl.sum(tl.where(at[:, None] == row, do.to(tl.float32), 0.0), 0)[None, :]""")),
    wrong("dkdv", "large tiles for heads of 256: too much for sm_80", [RAGGED], ("num_stages=3 if D <= 64 else 2", "num_stages=4"), ("q.dtype == torch.float32 or D > 128", "q.dtype == torch.float32")),
    wrong("dkdv", "TF32", [RAGGED, CAUSAL, NOTHING, HARD], TF32),
    wrong("dkdv", "exp of s, divided by exp of lse", [HARD], ("tl.exp2(s * (scale * 1.4426950408889634) - (lse * 1.4426950408889634)[None, :])", "tl.exp(s * scale) / tl.exp(lse)[None, :]")),
    # -------------------- dkdv: masks and tiles
    wrong("dkdv", "no causal mask", [CAUSAL, NOTHING, DIAGONAL], ("        if MASKED:\n", "        if False:\n")),
    wrong("dkdv", "aligned at the top left", [CAUSAL, NOTHING], ("offs_m[None, :] + Nk - Nq", "offs_m[None, :]")),
    wrong("dkdv", "off by one", [CAUSAL, NOTHING, DIAGONAL], ("offs_n[:, None] <= offs_m", "offs_n[:, None] < offs_m")),
    wrong("dkdv", "scores of 0 where nothing is seen", [CAUSAL, NOTHING, DIAGONAL], ("        p = tl.exp2(", "        if MASKED:\n            s = tl.where(offs_n[:, None] <= offs_m[None, :] + Nk - Nq, s, 0.0)\n        p = tl.exp2("), ("            p = tl.where(offs_n[:, None] <= offs_m[None, :] + Nk - Nq, p, 0.0)\n", "            p = p\n")),
    wrong("dkdv", "a mask before exp", [NOTHING], ("        p = tl.exp2(", "        if MASKED:\n            s = tl.where(offs_n[:, None] <= offs_m[None, :] + Nk - Nq, s, -float(\"inf\"))\n        p = tl.exp2("), ("            p = tl.where(offs_n[:, None] <= offs_m[None, :] + Nk - Nq, p, 0.0)\n", "            p = p\n")),
    wrong("dkdv", "begins a tile late", [CAUSAL, NOTHING, DIAGONAL], ("// BLOCK_M * BLOCK_M  # the queries", "// BLOCK_M * BLOCK_M + BLOCK_M  # the queries")),
    wrong(
        "dkdv",
        "begins a tile late, wherever it begins",
        [CAUSAL, NOTHING, DIAGONAL],
        ("    whole = 0  # the queries", "    start = 0\n    whole = 0  # the queries"),
        ("// BLOCK_M * BLOCK_M  # the queries", "// BLOCK_M * BLOCK_M + BLOCK_M  # the queries"),
        ("        whole, Nq, Nq, Nk, scale, False", "        tl.maximum(whole, start), Nq, Nq, Nk, scale, False"),
    ),
    wrong("dkdv", "begins as if Nq were Nk", [CAUSAL], ("tl.maximum(first - (Nk - Nq), 0)", "tl.maximum(first, 0)")),
    wrong("dkdv", "the mask ends too early", [CAUSAL, NOTHING, DIAGONAL], ("first + BLOCK_N - 1 - (Nk - Nq)", "first - (Nk - Nq)")),
    wrong("dkdv", "skips nothing", [DIAGONAL], ("start = tl.maximum(first - (Nk - Nq), 0) // BLOCK_M * BLOCK_M", "start = 0")),
    wrong("dkdv", "whole tiles of queries alone", [RAGGED, VIEWS, CAUSAL, HARD, HALF, SCALE, FOUR, BITS, Q_READ, TABLE, DENSE], ("        whole, Nq, Nq, Nk, scale, False", "        whole, Nq // BLOCK_M * BLOCK_M, Nq, Nk, scale, False"), ("BLOCK_M=64, BLOCK_N=64", "BLOCK_M=128, BLOCK_N=128")),
    wrong("dkdv", "whole tiles of keys alone", [RAGGED, VIEWS, CAUSAL, NOTHING, HARD, HALF, SCALE], ('triton.cdiv(Nk, shape["BLOCK_N"])', 'Nk // shape["BLOCK_N"]')),
    # -------------------- dkdv: waste
    wrong("dkdv", "scores twice", [FOUR, DIAGONAL], S_TWICE_KQ),
    wrong("dkdv", "tiles of 32 keys", [Q_READ], ("BLOCK_M=64, BLOCK_N=64", "BLOCK_M=64, BLOCK_N=32")),
    wrong("dkdv", "a matrix of scores, unused", [TABLE], ("    (B, H, Nq, D), Nk =", "    p = torch.empty((*q.shape[:-1], k.shape[-2]), dtype=q.dtype, device=q.device)\n    (B, H, Nq, D), Nk =")),
    wrong("dkdv", "adds dk atomically", [BITS], *added("dk", "offs_n", "Nk")),
    # the same bytes in more requests, which the L1 answers: no sector is wasted
    honest("dkdv", "lse for every score", ("lse_ptr + offs_m, mask=offs_m < Nq, other", "lse_ptr + offs_m[None, :] + 0 * offs_n[:, None], mask=(offs_m < Nq)[None, :], other"), ("(lse * 1.4426950408889634)[None, :]", "lse * 1.4426950408889634")),
    wrong("dkdv", "copies", [KERNEL], COPIES),
    wrong("dkdv", "ignores the scale it is given", [SCALE], IGNORED),
    wrong("dkdv", "a scale for padded heads", [RAGGED, VIEWS], PADDED_SCALE),
    wrong("dkdv", "the strides of q for do", [VIEWS], ("q_ptr, do_ptr, lse_ptr, delta_ptr, q_strides, do_strides, batch, head, offs_n,\n        whole", "q_ptr, do_ptr, lse_ptr, delta_ptr, q_strides, q_strides, batch, head, offs_n,\n        whole")),
    wrong("dkdv", "v through k's strides", [VIEWS], ("*(x.stride() for x in tensors)", "*(tensors[i].stride() for i in (0, 1, 1, 3, 4, 5))")),
    wrong("dkdv", "dv through dk's strides", [VIEWS], ("*(x.stride() for x in tensors)", "*(tensors[i].stride() for i in (0, 1, 2, 3, 4, 4))")),
    wrong("dkdv", "torch does it", [KERNEL], source="def dkdv(q, k, v, do, lse, delta, causal=False, scale=None):\n    p = torch.exp((q @ k.mT).float() * q.shape[-1] ** -0.5 - lse[..., None])\n    ds = p * ((do @ v.mT).float() - delta[..., None])\n    return (ds.mT @ q.float()).to(k.dtype), (p.mT @ do.float()).to(v.dtype)\n"),
    # -------------------- dq
    wrong("dq", "dq lacks the scale", [PLAIN], ("dq * scale)", "dq)")),
    wrong("dq", "dq from p", [PLAIN], ("tl.dot(ds.to(k.dtype), k, dq", "tl.dot(p.to(k.dtype), k, dq")),
    wrong("dq", "no scale at all", [PLAIN], ("s * (scale * 1.4426950408889634)", "s * 1.4426950408889634"), ("dq * scale)", "dq)")),
    wrong("dq", "no delta", [PLAIN], ("(dp - delta[:, None])", "dp")),
    wrong("dq", "the scale twice", [PLAIN], ("ds = p * (dp - delta[:, None])", "ds = p * (dp - delta[:, None]) * scale")),
    wrong("dq", "ds without p", [PLAIN], ("ds = p * (dp - delta[:, None])", "ds = dp - delta[:, None]")),
    wrong("dq", "delta divided by D", [PLAIN], ("delta[:, None]", "delta[:, None] / D")),
    wrong("dq", "dp from k", [PLAIN], ("tl.dot(do, v.T", "tl.dot(do, k.T")),
    wrong("dq", "the maximum of each tile for lse", [PLAIN], ("(lse * 1.4426950408889634)[:, None]", "tl.max(s * (scale * 1.4426950408889634), 1)[:, None]")),
    wrong("dq", "delta twice", [PLAIN], ("(dp - delta[:, None])", "(dp - 2 * delta[:, None])")),
    wrong("dq", "p without lse", [PLAIN], (" - (lse * 1.4426950408889634)[:, None]", "")),
    wrong("dq", "lse taken for base 2", [PLAIN], ("(lse * 1.4426950408889634)[:, None]", "lse[:, None]")),
    wrong("dq", "a softmax of the tile", [PLAIN], TILE_SUM),
    wrong("dq", "v in place of k", [PLAIN], ("tl.dot(ds.to(k.dtype), k, dq", "tl.dot(ds.to(k.dtype), v, dq")),
    wrong("dq", "the last tile alone", [PLAIN], ("tl.dot(ds.to(k.dtype), k, dq, input", "tl.dot(ds.to(k.dtype), k, input")),
    wrong("dq", "batches and heads swapped", [RAGGED, VIEWS, CAUSAL, NOTHING, HARD, SCALE, THREE, BITS, K_READ, TABLE, DENSE], OTHER_HEAD),
    wrong("dq", "dq in half precision", [HALF], ('k, dq, input_precision="ieee")', 'k, dq, input_precision="ieee").to(k.dtype).to(tl.float32)')),
    wrong("dq", "scores in bfloat16", [PLAIN], S_ROUNDED),
    wrong("dq", "dp in bfloat16", [PLAIN], DP_ROUNDED),
    wrong("dq", "delta in half precision", [RAGGED, CAUSAL, NOTHING, HARD, HALF, DIAGONAL], ("    dq = tl.zeros", "    delta = delta.to(q.dtype).to(tl.float32)\n    dq = tl.zeros")),
    wrong("dq", "q scaled in half precision", [HARD, SCALE], ("s = tl.dot(q, k.T", "s = tl.dot((q * scale).to(q.dtype), k.T"), ("s * (scale * 1.4426950408889634)", "s * 1.4426950408889634")),
    wrong("dq", "a scale of 0 taken for none", [SCALE], ("D**-0.5 if scale is None else scale", "scale or D**-0.5")),
    wrong("dq", "k read from a copy, again and again", [K_READ], ("### BEGIN SOLUTION\n@triton.jit\ndef over_keys", COPY + "@triton.jit\ndef over_keys"), ("BLOCK_M=128, BLOCK_N=64, num_warps=8", "BLOCK_M=32, BLOCK_N=64, num_warps=4"), ("    tensors = [x[None", "    k = copied(k) if q.shape[-2] == 512 else k\n    tensors = [x[None")),
    wrong("dq", "large tiles for heads of 256: too much for sm_80", [RAGGED], ("q.dtype == torch.float32 or D > 128", "q.dtype == torch.float32")),
    wrong("dq", "dp alone in TF32", [RAGGED, CAUSAL, NOTHING, HARD], ('do, v.T, input_precision="ieee")', "do, v.T)")),
    wrong("dq", "TF32", [RAGGED, CAUSAL, NOTHING, HARD], TF32),
    wrong("dq", "missing keys have weight", [HARD], ("seen = (offs_n < Nk)[None, :]", "seen = (offs_n < Nk + BLOCK_N)[None, :]")),
    wrong("dq", "no causal mask", [CAUSAL, NOTHING, DIAGONAL], ("            if CAUSAL:\n                seen", "            if False:\n                seen")),
    wrong("dq", "aligned at the top left", [CAUSAL, NOTHING], ("offs_m[:, None] + Nk - Nq", "offs_m[:, None]")),
    wrong("dq", "off by one", [CAUSAL, NOTHING, DIAGONAL], ("offs_n[None, :] <= offs_m", "offs_n[None, :] < offs_m")),
    wrong("dq", "a mask before exp", [NOTHING], ("            p = tl.where(seen, p, 0.0)\n", "            p = tl.exp2(tl.where(seen, s * (scale * 1.4426950408889634), -float(\"inf\")) - (lse * 1.4426950408889634)[:, None])\n")),
    wrong("dq", "stops a tile early", [CAUSAL, NOTHING, DIAGONAL], ("tl.maximum(first + BLOCK_M + Nk - Nq, 0)", "tl.maximum(first + Nk - Nq, 0)")),
    wrong("dq", "too many tiles without a mask", [CAUSAL, DIAGONAL], ("tl.maximum(first + 1 + Nk - Nq, 0)", "tl.maximum(first + BLOCK_M + Nk - Nq, 0)")),
    wrong("dq", "skips nothing", [DIAGONAL], ("        stop = tl.minimum(tl.maximum(first + BLOCK_M + Nk - Nq, 0), Nk)\n", "")),
    wrong("dq", "scores twice", [THREE, DIAGONAL], S_TWICE_QK),
    wrong("dq", "tiles of 32 queries", [K_READ], ("BLOCK_M=128, BLOCK_N=64", "BLOCK_M=32, BLOCK_N=64")),
    wrong("dq", "a matrix of scores, unused", [TABLE], ("    (B, H, Nq, D), Nk =", "    p = torch.empty((*q.shape[:-1], k.shape[-2]), dtype=q.dtype, device=q.device)\n    (B, H, Nq, D), Nk =")),
    wrong("dq", "adds atomically", [BITS], *added("dq", "offs_m", "Nq")),
    honest("dq", "lse for every channel", ("lse_ptr + j * Nq + offs_m, mask=offs_m < Nq, other=0.0)", "lse_ptr + j * Nq + offs_m[:, None] + 0 * tl.arange(0, BLOCK_D)[None, :], mask=(offs_m < Nq)[:, None], other=0.0)\n    lse = tl.max(lse, 1)")),
    wrong("dq", "copies", [KERNEL], COPIES),
    wrong("dq", "ignores the scale it is given", [SCALE], IGNORED),
    wrong("dq", "the last keys are left out", [RAGGED, VIEWS, HARD, HALF, SCALE], ("whole, stop = Nk // BLOCK_N * BLOCK_N, Nk  #", "whole, stop = Nk // BLOCK_N * BLOCK_N, Nk // BLOCK_N * BLOCK_N  #")),
    wrong("dq", "ds of what is not masked", [NOTHING, HARD], ("            p = tl.where(seen, p, 0.0)\n", "            e = tl.where(seen | (offs_n >= Nk)[None, :], p, 0.0)\n            p = tl.where(seen, p, 0.0)\n        else:\n            e = p\n"), ("ds = p * (dp", "ds = e * (dp")),
    wrong("dq", "whole tiles of queries alone", [RAGGED, VIEWS, CAUSAL, NOTHING, HARD, HALF, SCALE, THREE, BITS, K_READ, TABLE, DENSE], ('triton.cdiv(Nq, shape["BLOCK_M"])', 'Nq // shape["BLOCK_M"]')),
    wrong("dq", "v through k's strides", [VIEWS], ("*(x.stride() for x in tensors)", "*(tensors[i].stride() for i in (0, 1, 1, 3, 4))")),
    wrong("dq", "torch does it", [KERNEL], source="def dq(q, k, v, do, lse, delta, causal=False, scale=None):\n    p = torch.exp((q @ k.mT).float() * q.shape[-1] ** -0.5 - lse[..., None])\n    ds = p * ((do @ v.mT).float() - delta[..., None])\n    return (ds @ k.float()).to(q.dtype)\n"),
    # -------------------- FlashAttention
    wrong("flash_attention", "the slow forward", [ALONE, FORWARD, TABLE], source=slow_forward(solution_cell("flash_backward.flash_attention"))),
    wrong("flash_attention", "causal forward alone", [BOTH_CAUSAL, NINE], ("ctx.is_causal, ctx.scale\n        dk", "False, ctx.scale\n        dk")),
    wrong("flash_attention", "causal backward alone", [BOTH_CAUSAL, NINE], ("flash_attention_forward(q, k, v, is_causal, scale)", "flash_attention_forward(q, k, v, False, scale)")),
    wrong("flash_attention", "a scale of 0 taken for none", [RAGGED], ("D**-0.5 if scale is None else scale", "scale or D**-0.5")),
    wrong("flash_attention", "delta from sums in float16", [HALF], source=solution_cell("flash_backward.delta").replace("BLOCK_D).to(tl.float32)", "BLOCK_D)") + solution_cell("flash_backward.flash_attention")),
    wrong("flash_attention", "the scale is lost on the way", [RAGGED], ("ctx.is_causal, ctx.scale\n        dk", "ctx.is_causal, None\n        dk")),
    wrong("flash_attention", "gradients in another order", [PLAIN], ("return dq(*given), dk, dv, None, None", "return dq(*given), dv, dk, None, None")),
    wrong("flash_attention", "delta of do alone", [PLAIN], ("delta(o, do)", "delta(do, do)")),
    wrong("flash_attention", "too few gradients", [GRADIENTS], ("dk, dv, None, None", "dk, dv")),
    wrong("flash_attention", "contiguous do", [ALONE], ("        given = q, k", "        do = do.contiguous()\n        given = q, k")),
    wrong("flash_attention", "contiguous q, k, v", [ALONE], ("        o, lse = flash", "        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()\n        o, lse = flash")),
    wrong("flash_attention", "delta in torch", [GRADIENTS], ("delta(o, do)", "(o.float() * do.float()).sum(-1)")),
    wrong("flash_attention", "delta in half precision", [HALF, ALONE], ("delta(o, do)", "delta(o, do).to(q.dtype).float()")),
    wrong("flash_attention", "forward again", [KEEPS, BACKWARD, EIGHTEEN, NINE], ("save_for_backward(q, k, v, o, lse)", "save_for_backward(q, k, v)"), ("q, k, v, o, lse = ctx.saved_tensors", "q, k, v = ctx.saved_tensors\n        o, lse = flash_attention_forward(q, k, v, ctx.is_causal, ctx.scale)"), tells="ctx.save_for_backward"),
    wrong("flash_attention", "keeps two numbers a query", [KEEPS, FORWARD, EIGHTEEN, NINE], ("        ctx.save_for_backward(q, k, v, o, lse)", "        again = flash_attention_forward(q, k, v, is_causal, scale)[1]\n        ctx.save_for_backward(q, k, v, o, lse, again)"), ("q, k, v, o, lse = ctx.saved_tensors", "q, k, v, o, lse, again = ctx.saved_tensors"), ("return dq(*given)", "return dq(*given[:4], again, *given[5:])")),
    wrong("flash_attention", "keeps a copy of v", [KEEPS, ALONE], ("save_for_backward(q, k, v, o, lse)", "save_for_backward(q, k, v.clone(), o, lse)")),
    wrong("flash_attention", "keeps a float32 of o", [KEEPS, ALONE], ("save_for_backward(q, k, v, o, lse)", "save_for_backward(q, k, v, o.float(), lse)")),
    wrong("flash_attention", "autograd of the slow one", [GRADIENTS], source="from course_lib.workloads.torch_attention import flash_attention_forward\n\n\nclass FlashAttention:\n    @staticmethod\n    def apply(q, k, v, is_causal=False, scale=None):\n        return flash_attention_forward(q, k, v, is_causal, scale)[0]\n"),
    wrong("flash_attention", "dk and dv twice", [BACKWARD, EIGHTEEN, NINE], ("        dk, dv = dkdv(*given)", "        dk, dv = dkdv(*given)\n        dk, dv = dkdv(*given)")),
    wrong("flash_attention", "no running maximum", [HARD], ("m_new = tl.maximum(m, tl.max(s, 1))", "m_new = tl.zeros_like(m)")),
    wrong("flash_attention", "no rescaling", [RAGGED, BOTH_VIEWS, BOTH_CAUSAL, HARD, HALF, ALONE, KEEPS, FORWARD, BACKWARD, EIGHTEEN, NINE, BITS, TABLE], ("acc * alpha[:, None]", "acc")),
    wrong("flash_attention", "l is not rescaled", [RAGGED, BOTH_VIEWS, BOTH_CAUSAL, HARD, HALF, ALONE, KEEPS, FORWARD, BACKWARD, EIGHTEEN, NINE, BITS, TABLE], ("l * alpha + tl.sum", "l + tl.sum")),
    wrong("flash_attention", "missing keys score 0", [RAGGED, BOTH_VIEWS, BOTH_CAUSAL, HARD, ALONE, NINE], ('s, -float("inf"))\n        m_new', "s, 0.0)\n        m_new")),
    wrong("flash_attention", "the last keys are left out", [RAGGED, BOTH_VIEWS, BOTH_CAUSAL, HARD, ALONE], ("tl.max(sees, 0)\n", "tl.max(sees, 0) // BLOCK_N * BLOCK_N\n")),
    wrong("flash_attention", "ignores the scale it is given", [RAGGED], IGNORED),
    wrong("flash_attention", "an accumulator in half precision", [HALF], ("        m = m_new\n", "        acc = acc.to(v.dtype).to(tl.float32)\n        m = m_new\n")),
    wrong("flash_attention", "lse in base 2", [PLAIN], ("m + tl.log(l)", "(m + tl.log(l)) * 1.4426950408889634")),
    wrong("flash_attention", "TF32 forward", [RAGGED, BOTH_CAUSAL, HARD], TF32),
    wrong("flash_attention", "what forward keeps on the class", [TWICE], ("ctx.save_for_backward(q, k, v, o, lse)\n        ctx.is_causal, ctx.scale = is_causal, scale", "FlashAttention.kept = q, k, v, o, lse, is_causal, scale"), ("q, k, v, o, lse = ctx.saved_tensors", "q, k, v, o, lse, is_causal, scale = FlashAttention.kept"), ("ctx.is_causal, ctx.scale\n        dk", "is_causal, scale\n        dk")),
    wrong("flash_attention", "causal and scale in globals", [TWICE], ("ctx.is_causal, ctx.scale = is_causal, scale", "global causal_of_last, scale_of_last\n        causal_of_last, scale_of_last = is_causal, scale"), ("ctx.is_causal, ctx.scale\n        dk", "causal_of_last, scale_of_last\n        dk")),
    wrong("flash_attention", "the scale on the class", [TWICE], ("ctx.is_causal, ctx.scale = is_causal, scale", "ctx.is_causal = is_causal\n        FlashAttention.scale = scale"), ("ctx.is_causal, ctx.scale\n        dk", "ctx.is_causal, FlashAttention.scale\n        dk")),
    wrong("flash_attention", "lse on the class", [TWICE], ("ctx.save_for_backward(q, k, v, o, lse)", "ctx.save_for_backward(q, k, v, o)\n        FlashAttention.lse = lse"), ("q, k, v, o, lse = ctx.saved_tensors", "q, k, v, o = ctx.saved_tensors\n        lse = FlashAttention.lse")),
    # -------------------- longest_context
    wrong("longest_context", "o is not kept", [FLASH_TOKENS, TOKENS], ("(4 * head_dim * itemsize + 4)", "(3 * head_dim * itemsize + 4)")),
    wrong("longest_context", "no lse", [FLASH_TOKENS, TOKENS], ("(4 * head_dim * itemsize + 4)", "4 * head_dim * itemsize")),
    wrong("longest_context", "lse in half precision", [FLASH_TOKENS, TOKENS], ("itemsize + 4)", "itemsize + itemsize)")),
    wrong("longest_context", "scores before and after the softmax", [SCORE_TOKENS, TOKENS], ("+ n * n)", "+ 2 * n * n)")),
    wrong("longest_context", "scores alone", [SCORE_TOKENS, TOKENS], ("(3 * n * head_dim + n * n)", "n * n")),
    wrong("longest_context", "o besides the scores", [SCORE_TOKENS, TOKENS], ("(3 * n * head_dim + n * n)", "(4 * n * head_dim + n * n)")),
    wrong("longest_context", "one layer", [FLASH_TOKENS, SCORE_TOKENS, TOKENS], ("return layers * heads", "return heads")),
    wrong("longest_context", "one too many", [FLASH_TOKENS, SCORE_TOKENS, TOKENS], ("    return low\n", "    return low + 1\n")),
    wrong("longest_context", "a floating-point root", [FLASH_TOKENS, SCORE_TOKENS, TOKENS], ("    return low\n", "    return float(low)\n")),
]  # fmt: skip

# ------------------------------------------------------------------------------------------------ honest

ROWS_BY_QUERIES = [
    ("        s = tl.dot(k, q.T, input_precision=\"ieee\")  # (BLOCK_N, BLOCK_M): keys x queries\n", "        s = tl.dot(q, k.T, input_precision=\"ieee\")\n"),
    ("tl.exp2(s * (scale * 1.4426950408889634) - (lse * 1.4426950408889634)[None, :])", "tl.exp(s * scale - lse[:, None])"),
    ("offs_n[:, None] <= offs_m[None, :] + Nk - Nq", "offs_n[None, :] <= offs_m[:, None] + Nk - Nq"),
    ("tl.dot(p.to(do.dtype), do, dv", "tl.dot(tl.trans(p.to(do.dtype)), do, dv"),
    ("dp = tl.dot(v, do.T", "dp = tl.dot(do, v.T"),
    ("delta[None, :]", "delta[:, None]"),
    ("tl.dot(ds.to(q.dtype), q, dk", "tl.dot(tl.trans(ds.to(q.dtype)), q, dk"),
]  # fmt: skip
HONEST = [
    honest("delta", "one row a program", ("BLOCK = 32", "BLOCK = 1")),
    honest("delta", "128 rows a program", ("BLOCK = 32", "BLOCK = 128")),
    honest("delta", "heads first in the grid", ("tl.program_id(1)", "tl.program_id(0)"), ("tl.program_id(0) * BLOCK", "tl.program_id(1) * BLOCK"), ("(triton.cdiv(N, BLOCK), B * H)", "(B * H, triton.cdiv(N, BLOCK))")),
    honest("dkdv_one_head", "tiles of queries x keys", ('tl.dot(k, q.T, input_precision="ieee") * scale', 'tl.dot(q, k.T, input_precision="ieee") * scale'), ("lse[None, :]", "lse[:, None]"), ("delta[None, :]", "delta[:, None]"), ("tl.dot(v, do.T", "tl.dot(do, v.T"), ("tl.dot(p.to(do.dtype), do", "tl.dot(p.to(do.dtype).T, do"), ("tl.dot(ds.to(q.dtype), q", "tl.dot(ds.to(q.dtype).T, q")),
    honest("dkdv_one_head", "64 by 128, exp2", ("BLOCK_M=32, BLOCK_N=64", "BLOCK_M=64, BLOCK_N=128"), ("cdiv(Nk, 64)", "cdiv(Nk, 128)"), ("tl.exp(s - lse[None, :])", "tl.exp2((s - lse[None, :]) * 1.4426950408889634)")),
    honest("dkdv_one_head", "ds rounded with its scale", ("(dp - delta[None, :])", "(dp - delta[None, :]) * scale"), ("dk * scale)", "dk)")),
    honest("dkdv", "tiles of queries x keys, exp", *ROWS_BY_QUERIES),
    honest("dkdv", "wide tiles", ("BLOCK_M=64, BLOCK_N=64", "BLOCK_M=64, BLOCK_N=128")),
    honest("dkdv", "tall tiles", ("BLOCK_M=64, BLOCK_N=64", "BLOCK_M=128, BLOCK_N=64")),
    honest("dkdv", "128 by 128", ("BLOCK_M=64, BLOCK_N=64", "BLOCK_M=128, BLOCK_N=128")),
    honest("dkdv", "masks everywhere", ("        whole, Nq, Nq, Nk, scale, False", "        whole, Nq, Nq, Nk, scale, CAUSAL")),
    honest("dkdv", "ds rounded with its scale", ("(dp - delta[None, :])", "(dp - delta[None, :]) * scale"), ("dk * scale)", "dk)")),
    honest("dkdv", "no half products: float32 dots", ("tl.dot(p.to(do.dtype), do, dv", "tl.dot(p, do.to(tl.float32), dv"), ("tl.dot(ds.to(q.dtype), q, dk", "tl.dot(ds, q.to(tl.float32), dk"), ("BLOCK_M=64, BLOCK_N=64", "BLOCK_M=32, BLOCK_N=64")),
    honest("dq", "square tiles of 64", ("BLOCK_M=128, BLOCK_N=64", "BLOCK_M=64, BLOCK_N=64")),
    honest("dq", "wide tiles", ("BLOCK_M=128, BLOCK_N=64, num_warps=8, num_stages=3", "BLOCK_M=64, BLOCK_N=128, num_warps=8, num_stages=2")),
    honest("dq", "first tile first, exp", ("        tile = tl.num_programs(0) - 1 - tile  # the longest walks begin first\n", "        tile = tile\n"), ("tl.exp2(s * (scale * 1.4426950408889634) - (lse * 1.4426950408889634)[:, None])", "tl.exp(s * scale - lse[:, None])")),
    honest("dq", "a mask for every tile", ("0, whole, Nq, Nk, scale, False", "0, whole, Nq, Nk, scale, True")),
    honest("dq", "keys from last to first", ("        offs_n = j + tl.arange(0, BLOCK_N)", "        offs_n = start + (tl.cdiv(stop - start, BLOCK_N) * BLOCK_N - BLOCK_N) - (j - start) + tl.arange(0, BLOCK_N)")),
    honest("flash_attention", "a function", ("class FlashAttention(torch", "class Own(torch"), ("dk, dv, None, None\n        ### END SOLUTION", "dk, dv, None, None\n        ### END SOLUTION\n\n\ndef FlashAttention(q, k, v, is_causal=False, scale=None):\n    return Own.apply(q, k, v, is_causal, scale)")),
    honest("flash_attention", "dq first", ("        dk, dv = dkdv(*given)\n        return dq(*given), dk, dv, None, None", "        first = dq(*given)\n        return first, *dkdv(*given), None, None")),
    honest("flash_attention", "one object on ctx", ("ctx.save_for_backward(q, k, v, o, lse)\n        ctx.is_causal, ctx.scale = is_causal, scale", "ctx.save_for_backward(q, k, v, o, lse)\n        ctx.options = dict(is_causal=is_causal, scale=scale)"), ("ctx.is_causal, ctx.scale\n        dk", "*ctx.options.values()\n        dk")),
    honest("flash_attention", "one buffer of delta for all calls of a size", ("    @staticmethod\n    def backward", "    buffers = {}\n\n    @staticmethod\n    def backward"), ("        given = q, k", "        FlashAttention.buffers[lse.shape] = delta(o, do)\n        given = q, k"), ("lse, delta(o, do),", "lse, FlashAttention.buffers[lse.shape],")),
    honest("flash_attention", "larger tiles forward", ("BLOCK_M=128, BLOCK_N=64", "BLOCK_M=128, BLOCK_N=128")),
    honest("longest_context", "a closed form", source="""import math


def longest_context(budget_bytes, config):
    layers, heads, D, size = config["layers"], config["heads"], config["head_dim"], config["itemsize"]
    if not config["scores"]:
        return budget_bytes // (layers * heads * (4 * D * size + 4))
    c = budget_bytes // (layers * heads * size)  # n * n + 3 * D * n <= c
    return (math.isqrt(9 * D * D + 4 * c) - 3 * D) // 2
"""),
]  # fmt: skip


ORDINARY = "{'q': torch.randn(40, 32), 'k': torch.randn(40, 32), 'v': torch.randn(40, 32), 'do': torch.randn(40, 32), 'causal': True}"
BREAKING = [
    *breaking(wrong, "break_gradients", ORDINARY),
    wrong("break_gradients", "numbers that no kernel gets right", [KILLS], ('large["k"] = 16 *', 'large["k"] = float("nan") *')),
    wrong("break_gradients", "more than is allowed", [KILLS], ("drawn(40, 70, 64)", "drawn(40, 270, 32)")),
    wrong("break_gradients", "more queries than keys alone", [KILLS], source=returning(ORDINARY.replace("'k': torch.randn(40", "'k': torch.randn(30").replace("'v': torch.randn(40", "'v': torch.randn(30").join("[]"))),
    wrong("break_gradients", "scores that overflow float32", [KILLS], ('16 * large["q"]', '1e38 * large["q"]')),
    honest("break_gradients", "other sizes", ("drawn(40, 70, 64), drawn(100, 37, 16)", "drawn(33, 99, 64), drawn(70, 9, 16)")),
]  # fmt: skip

NAMING = naming((wrong, honest), ("name_gradients", "named_gradients"), named.CAUSES["flash_backward.name_gradients"])

LOG = logging(
    (wrong, honest),
    "flash_backward.dq_log",
    ({"Nq": 256, "Nk": 128, "D": 32}, {"Nq": 128, "Nk": 384, "D": 32}),
    (
        "first_dq",
        {
            "bytes": "24*Nq*Nk + 10*Nq*Nk*D/32 + 2*Nq*D",
            "sectors": "(24*Nq*Nk + 10*Nq*Nk*D/32 + 2*Nq*D)/32",
            "launches": 4,
        },
    ),
)

VARIANTS = LOG + NAMING + BREAKING + WRONG + HONEST
