"""Unit 09. What each variant must lose stands next to it; () means full marks."""

from grader.audit import named
from grader.audit.variants import Variant, kinds
from grader.audit.variants.forms import KILLS, breaking, logging, naming
from grader.published import solution_cell

wrong, honest = kinds("flash")


def with_update(entry: str, name: str, loses: list[str], *patches: tuple[str, str], tells: str = "") -> Variant:
    """The published solution with an online_update of its own in the cell, patched there or anywhere."""
    update = solution_cell("flash.online_update").partition("\n\n\n@triton.jit\ndef weighted_mean_kernel")[0]
    source = update + "\n\n\n" + solution_cell(f"flash.{entry}")
    for old, new in patches:
        if old not in source:
            raise ValueError(f"{name}: no {old!r}")
        source = source.replace(old, new)
    return wrong(entry, name, loses, source=source, tells=tells)


# keys of criteria
COUNTED = ["correct.plain"]
PLAIN, KERNEL, COMPILES = "correct.plain", "triton_did_the_work", "compiles"
RAGGED, HARD, LATE, HALF, SINGLE = ("correct.ragged", "correct.hard", "correct.late", "correct.half", "correct.float32")
READ, LAUNCH, LOADS, STORES = (
    "rereads.k.performance",
    "launches.performance",
    "coalesced.load.performance",
    "coalesced.store.performance",
)
LEADING, VIEWS, DIMS, CAUSAL, NOTHING, HALVES, SCALE = (
    "correct.leading",
    "correct.strided",
    "correct.dims",
    "correct.causal",
    "correct.nothing",
    "correct.half",
    "correct.scale",
)
BYTES, PRODUCTS, BUFFER = ("traffic.performance", "dot_flops.performance", "buffers_below.performance")
COSTS = [BYTES, PRODUCTS, LAUNCH, BUFFER, LOADS, STORES]
LONGER = "correct.longer"
IN_WINDOW, FEW = "traffic.performance", "dot_flops.performance"
TWO, GROUP_READ = "correct.hard", "rereads.k.performance"
EMPTY, SHARED, TWO_LAUNCHES, CACHE = (
    "correct.empty",
    "programs.performance",
    "launches.performance",
    "traffic.performance",
)

NO_MAXIMUM = ("m_new = tl.maximum(m, tl.max(s, 1))", "m_new = tl.zeros_like(m)")
NO_RESCALING = ("alpha = tl.exp(m - base)", "alpha = tl.full(m.shape, 1.0, tl.float32)")
L_UNCORRECTED = ("l * alpha + tl.sum", "l + tl.sum")
ACC_UNCORRECTED = ("acc * alpha[:, None]", "acc")
CORRECTED_TWICE = ("acc * alpha[:, None]", "acc * (alpha * alpha)[:, None]")
TILE_MAXIMUM = ("m_new = tl.maximum(m, tl.max(s, 1))", "m_new = tl.max(s, 1)")
COPY = """@triton.jit
def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


def copied(x):
    y = torch.empty_like(x)
    copy_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y


"""
# P V without tl.dot, key by key
P_V = 'acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None], input_precision="ieee")'
KEY_BY_KEY = """acc = acc * alpha[:, None]
    at = tl.arange(0, s.shape[1])
    for key in range(s.shape[1]):
        weight = tl.sum(tl.where(at[None, :] == key, p.to(v.dtype).to(tl.float32), 0.0), 1)
        acc += weight[:, None] * tl.sum(tl.where(at[:, None] == key, v.to(tl.float32), 0.0), 0)[None, :]"""
ONE_ROW = """@triton.jit
def row_kernel(q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, scale, Nq, Nk, sqh, sqn, sqd, skh, skn, skd, svh, svn, svd, soh, son, sod, CAUSAL: tl.constexpr, D: tl.constexpr, BD: tl.constexpr, BN: tl.constexpr):
    row, head = tl.program_id(0), tl.program_id(1)
    offs_d = tl.arange(0, BD)
    q = tl.load(q_ptr + head * sqh + row * sqn + offs_d * sqd, mask=offs_d < D, other=0).to(tl.float32) * scale
    m, l, acc = -float("inf"), 0.0, tl.zeros((BD,), tl.float32)
    sees = tl.minimum(tl.maximum(row + 1 + Nk - Nq, 0), Nk) if CAUSAL else Nk
    for j in range(0, sees, BN):
        offs_n = j + tl.arange(0, BN)
        inside = (offs_n < sees)[:, None] & (offs_d < D)[None, :]
        k = tl.load(k_ptr + head * skh + offs_n[:, None] * skn + offs_d[None, :] * skd, mask=inside, other=0).to(tl.float32)
        v = tl.load(v_ptr + head * svh + offs_n[:, None] * svn + offs_d[None, :] * svd, mask=inside, other=0).to(tl.float32)
        s = tl.where(offs_n < sees, tl.sum(k * q[None, :], 1), -float("inf"))
        m_new = tl.maximum(m, tl.max(s, 0))  # finite: the row sees a key of each tile
        p, alpha = tl.exp(s - m_new), tl.exp(m - m_new)
        l = l * alpha + tl.sum(p, 0)
        acc = acc * alpha + tl.sum(p[:, None] * v, 0)
        m = m_new
    o = acc / tl.where(l == 0, 1, l)
    tl.store(o_ptr + head * soh + row * son + offs_d * sod, o.to(o_ptr.dtype.element_ty), mask=offs_d < D)
    tl.store(lse_ptr + head * Nq + row, m + tl.log(l))


def flash_attention_forward(q, k, v, causal=False, scale=None):
    Nq, D, Nk = *q.shape[-2:], k.shape[-2]
    o, lse = torch.empty_like(q), torch.empty(q.shape[:-1], dtype=torch.float32, device=q.device)
    flat = [x[None, None].flatten(0, -4) for x in (q, k, v, o)]
    strides = [s for x in flat for s in x.stride()[1:]]
    scale = D**-0.5 if scale is None else scale
    for b in range(flat[0].shape[0]):
        at = [x[b] for x in flat]
        H = at[0].shape[0]
        row_kernel[(Nq, H)](*at, lse.flatten()[b * H * Nq :], scale, Nq, Nk, *strides, CAUSAL=causal, D=D, BD=triton.next_power_of_2(D), BN=64)
    return o, lse
"""
HALF_ACC = ("    m = m_new\n", "    acc = acc.to(v.dtype).to(tl.float32)\n    m = m_new\n")
HALF_L = ("    m = m_new\n", "    l = l.to(v.dtype).to(tl.float32)\n    m = m_new\n")
HALF_P = ("    l = l * alpha + tl.sum(p, 1)", "    l = l * alpha + tl.sum(p.to(v.dtype), 1).to(tl.float32)")
NAN_STATE = ('tl.where(m_new == -float("inf"), 0.0, m_new)', "m_new")
FLOOR = ('tl.where(m_new == -float("inf"), 0.0, m_new)', "tl.maximum(m_new, 0.0)")
TF32 = (', input_precision="ieee"', "")
EXP2 = [
    ("p = tl.exp(s - base[:, None])", "p = tl.exp2((s - base[:, None]) * 1.4426950408889634)"),
    ("alpha = tl.exp(m - base)", "alpha = tl.exp2((m - base) * 1.4426950408889634)"),
]

WRONG = [
    # -------------------- predictions
    wrong("predictions", "tiles of keys", COUNTED, ('64 queries": 16,', '64 queries": 8,')),
    wrong("predictions", "once", COUNTED, ('128 queries": 8,', '128 queries": 1,')),
    wrong("predictions", "half of the tiles", COUNTED, ('causal pass": 36,', 'causal pass": 32,')),
    wrong("predictions", "all tiles need the mask", COUNTED, ('need the mask": 8,', 'need the mask": 36,')),
    wrong("predictions", "2 bytes an element", COUNTED, ("128 * 128 * 4", "128 * 128 * 2")),
    wrong("predictions", "tiles of 64 queries twice", COUNTED, ('128 queries": 8,', '128 queries": 16,')),
    wrong("predictions", "all tiles", COUNTED, ('causal pass": 36,', 'causal pass": 64,')),
    wrong("predictions", "without the diagonal", COUNTED, ('causal pass": 36,', 'causal pass": 28,')),
    wrong("predictions", "elements of the accumulator", COUNTED, ("128 * 128 * 4", "128 * 128")),
    wrong("predictions", "scores in memory", COUNTED, ('written to memory": 0,', 'written to memory": 1024 * 1024 * 2,')),
    # -------------------- online_update
    wrong("online_update", "no maximum", [HARD, LATE], NO_MAXIMUM),
    wrong("online_update", "no rescaling", [PLAIN], NO_RESCALING),
    wrong("online_update", "l is not rescaled", [PLAIN], L_UNCORRECTED),
    wrong("online_update", "acc is not rescaled", [PLAIN], ACC_UNCORRECTED),
    wrong("online_update", "acc is rescaled twice", [PLAIN], CORRECTED_TWICE),
    wrong("online_update", "the maximum of the tile", [HARD], TILE_MAXIMUM),
    wrong("online_update", "the old maximum stays", [PLAIN], ("    m = m_new\n", "")),
    wrong("online_update", "an accumulator in half precision", [HALF], HALF_ACC),
    wrong("online_update", "acc is rounded before its sum", [HALF], (P_V, 'acc = (acc * alpha[:, None]).to(v.dtype).to(tl.float32) + tl.dot(p.to(v.dtype), v, input_precision="ieee")')),
    wrong("online_update", "probabilities relative to their own tile", [PLAIN], ("p = tl.exp(s - base[:, None])", "p = tl.exp(s - tl.max(s, 1)[:, None])")),
    wrong("online_update", "factors along the columns", [PLAIN], ("alpha[:, None]", "alpha[None, :]")),
    wrong("online_update", "old sums by the new maximum", [PLAIN], ("tl.exp(m - base)", "tl.exp(-base)")),
    wrong("online_update", "old sums by the tile's maximum", [PLAIN], ("tl.exp(m - base)", "tl.exp(m - tl.max(s, 1))")),
    wrong("online_update", "new and old sums rescaled", [PLAIN], ("l * alpha + tl.sum(p, 1)", "(l + tl.sum(p, 1)) * alpha")),
    wrong("online_update", "acc is divided in each step", [PLAIN], ("    m = m_new\n", "    acc = acc / l[:, None]\n    m = m_new\n")),
    wrong("online_update", "a sum in half precision", [PLAIN], HALF_L),
    wrong("online_update", "sums rounded probabilities in half precision", [PLAIN], HALF_P),
    wrong("online_update", "NaN for empty rows", [LATE], NAN_STATE),
    wrong("online_update", "no maximum below 0", [HARD, LATE], FLOOR),
    wrong("online_update", "one maximum for all rows", [HARD], ("tl.max(s, 1)", "tl.max(s)")),
    wrong("online_update", "0 for a maximum of -inf stays", [LATE], ("    m = m_new\n", "    m = base\n")),
    wrong("online_update", "sums rounded probabilities", [PLAIN], ("tl.sum(p, 1)", "tl.sum(p.to(v.dtype).to(tl.float32), 1)")),
    wrong("online_update", "exp2 without log2 e", [PLAIN], ("tl.exp(", "tl.exp2(")),
    wrong("online_update", "TF32", [RAGGED, HARD, LATE, SINGLE], TF32),
    wrong("online_update", "probabilities of the tile", [PLAIN], ("p.to(v.dtype), v", "(p / tl.sum(p, 1)[:, None]).to(v.dtype), v")),
    wrong("online_update", "keys and rows swapped", [COMPILES], ("tl.sum(p, 1)", "tl.sum(p, 0)"), ("tl.max(s, 1)", "tl.max(s, 0)")),
    wrong("online_update", "torch does it", [PLAIN], source="def weighted_mean(s, v):\n    return torch.softmax(s, -1) @ v.float(), torch.logsumexp(s, -1)\n"),
    # -------------------- one_head
    with_update("one_head", "no maximum", [HARD], NO_MAXIMUM),
    with_update("one_head", "no rescaling", [PLAIN], NO_RESCALING),
    with_update("one_head", "l is not rescaled", [PLAIN], L_UNCORRECTED),
    with_update("one_head", "acc is not rescaled", [PLAIN], ACC_UNCORRECTED),
    with_update("one_head", "powers of two", [PLAIN], ("p = tl.exp(s - base[:, None])", "p = tl.exp2(s - base[:, None])"), ("alpha = tl.exp(m - base)", "alpha = tl.exp2(m - base)")),
    wrong("one_head", "the first Nq keys alone", [PLAIN], ("range(0, Nk, BLOCK_N)", "range(0, tl.minimum(Nq, Nk), BLOCK_N)"), ("offs_n[None, :] < Nk, s", "offs_n[None, :] < tl.minimum(Nq, Nk), s")),
    wrong("one_head", "half of lse in base 2", [PLAIN], ("m + tl.log(l)", "m + tl.log2(l)")),
    wrong("one_head", "the first tile of keys in each turn", [PLAIN], ("offs_n = j + tl.arange", "offs_n = tl.arange")),
    wrong("one_head", "the first tile of keys in each turn, Nq keys", [PLAIN], ("offs_n = j + tl.arange", "offs_n = tl.arange"), ("BLOCK_N=32", "BLOCK_N=64")),
    wrong("one_head", "lse is the maximum", [PLAIN], ("m + tl.log(l)", "m")),
    wrong("one_head", "no scale", [PLAIN], ("q, k, v, o, lse, D**-0.5", "q, k, v, o, lse, 1.0")),
    wrong("one_head", "a scale of (2 D)^-0.5", [PLAIN], ("D**-0.5", "(2 * D)**-0.5")),
    wrong("one_head", "lanes past the end store to the last row", [RAGGED, HARD], ("tl.store(lse_ptr + offs_m, m + tl.log(l), mask=offs_m < Nq)", "tl.store(lse_ptr + tl.minimum(offs_m, Nq - 1), m + tl.log(l))")),
    wrong("one_head", "loads what another program stores", [RAGGED, READ, LAUNCH, LOADS], ("    acc = tl.zeros((BLOCK_M, D), tl.float32)\n", "    acc = tl.zeros((BLOCK_M, D), tl.float32)\n    if tl.program_id(0) > 0:\n        l += 0 * tl.load(lse_ptr)\n")),
    wrong("one_head", "a scale of 1 / D", [PLAIN], ("D**-0.5", "1 / D")),
    wrong("one_head", "missing keys score 0", [RAGGED, HARD], ('        s = tl.where(offs_n[None, :] < Nk, s, -float("inf"))\n', "")),
    wrong("one_head", "only whole tiles of keys", [RAGGED, HARD], ("range(0, Nk, BLOCK_N)", "range(0, Nk // BLOCK_N * BLOCK_N, BLOCK_N)")),
    wrong("one_head", "only whole tiles of queries", [RAGGED], ("triton.cdiv(Nq, 64)", "max(1, Nq // 64)")),
    wrong("one_head", "masked positions unset", [RAGGED, HARD], ("mask=inside, other=0", "mask=inside")),
    wrong("one_head", "tiles of 16 queries", [READ], ("cdiv(Nq, 64)", "cdiv(Nq, 16)"), ("BLOCK_M=64", "BLOCK_M=16")),
    wrong("one_head", "TF32", [RAGGED, HARD], TF32),
    wrong("one_head", "scores in half precision", [PLAIN], ('"ieee") * scale', '"ieee").to(q_ptr.dtype.element_ty).to(tl.float32) * scale')),
    wrong("one_head", "forgets to divide", [PLAIN], ("(acc / l[:, None])", "acc")),
    wrong("one_head", "lse in base 2", [PLAIN], ("m + tl.log(l)", "(m + tl.log(l)) * 1.4426950408889634")),
    wrong("one_head", "lse without the maximum", [PLAIN], ("m + tl.log(l)", "tl.log(l)")),
    wrong("one_head", "k loaded twice", [READ], ("        v = tl.load(v_ptr", "        k = ((k + tl.load(k_ptr + kv_offs, mask=inside, other=0)) * 0.5).to(k_ptr.dtype.element_ty)\n        v = tl.load(v_ptr")),
    wrong("one_head", "k read from a copy, again and again", [LAUNCH, READ], ("@triton.jit\ndef one_head_kernel", COPY + "@triton.jit\ndef one_head_kernel"), ("(Nq, 64)", "(Nq, 32)"), ("BLOCK_M=64", "BLOCK_M=32"), ("[grid](q, k, v,", "[grid](q, copied(k), v,")),
    wrong("one_head", "a launch for each tile of queries", [LAUNCH, READ],
        ("    one_head_kernel[grid](q, k, v, o, lse, D**-0.5, Nq,", "    for i in range(0, Nq, 64):\n        one_head_kernel[(1,)](q[i:], k, v, o[i:], lse[i:], D**-0.5, Nq - i,")),
    wrong("one_head", "even and odd channels of k apart", [LOADS],
        ("        kv_offs, inside", "        pairs = offs_n[:, None] * D + 2 * tl.arange(0, D // 2)[None, :]\n        kv_offs, inside"),
        ("        k = tl.load(k_ptr + kv_offs, mask=inside, other=0)\n", "        k = tl.join(tl.load(k_ptr + pairs, mask=inside, other=0), tl.load(k_ptr + pairs + 1, mask=inside, other=0)).reshape(BLOCK_N, D)\n")),
    wrong("one_head", "l begins as a number", [COMPILES], ("l = tl.zeros((BLOCK_M,), tl.float32)", "l = 0.0")),
    wrong("one_head", "torch does it", [KERNEL], ("return o, lse", "return torch.softmax((q @ k.T).float() * D**-0.5, -1).to(v.dtype) @ v, lse")),
    # -------------------- causal_one_head
    with_update("causal_one_head", "no maximum", [HARD], NO_MAXIMUM),
    with_update("causal_one_head", "l is not rescaled", [PLAIN], L_UNCORRECTED),
    wrong("causal_one_head", "no mask", [PLAIN], ("offs_m + 1 + Nk - Nq, Nk)", "offs_m * 0 + Nk, Nk)")),
    wrong("causal_one_head", "aligned at the top left", [LONGER, HARD], ("offs_m + 1 + Nk - Nq, Nk)", "offs_m + 1, Nk)")),
    wrong("causal_one_head", "shifted the other way", [LONGER, HARD], ("offs_m + 1 + Nk - Nq, Nk)", "tl.maximum(offs_m + 1 + Nq - Nk, 0), Nk)")),
    wrong("causal_one_head", "sees one key fewer", [PLAIN], ("offs_m + 1 + Nk - Nq, Nk)", "offs_m + Nk - Nq, Nk)")),
    wrong("causal_one_head", "sees one key more", [PLAIN], ("offs_m + 1 + Nk - Nq, Nk)", "offs_m + 2 + Nk - Nq, Nk)")),
    wrong("causal_one_head", "the last row's tiles without a mask", [PLAIN], ("stop = tl.min(sees, 0) //", "stop = tl.max(sees, 0) //")),
    wrong("causal_one_head", "the tile that the first row cuts without a mask", [PLAIN], ("tl.min(sees, 0) // BLOCK_N * BLOCK_N", "tl.cdiv(tl.min(sees, 0), BLOCK_N) * BLOCK_N")),
    wrong("causal_one_head", "the first part begins anew", [PLAIN], ("sees, whole, stop", "sees, 0, stop")),
    wrong("causal_one_head", "the comparison turned round", [PLAIN], ("< sees[:, None]", "> sees[:, None]")),
    wrong("causal_one_head", "the comparison turned round, from the first unseen key", [PLAIN], ("< sees[:, None]", ">= sees[:, None]")),
    wrong("causal_one_head", "unseen keys score 0", [PLAIN], ('< sees[:, None], s, -float("inf"))', "< sees[:, None], s, 0.0)")),
    wrong("causal_one_head", "whole tiles that are not whole", [PLAIN], ("tl.min(sees, 0) // BLOCK_N * BLOCK_N", "tl.min(sees, 0)")),
    wrong("causal_one_head", "ends with the first row", [PLAIN], ("tl.max(sees, 0)", "tl.min(sees, 0)")),
    wrong("causal_one_head", "the mask for whole tiles", [PLAIN], ("0, whole, D, BLOCK_N, False)", "0, whole, D, BLOCK_N, True)"), ("whole, stop, D, BLOCK_N, True)", "whole, stop, D, BLOCK_N, False)")),
    wrong("causal_one_head", "the second part is forgotten", [PLAIN], ("    m, l, acc = walk_keys(m, l, acc, q, k_ptr, v_ptr, scale, Nk, sees, whole, stop, D, BLOCK_N, True)\n", "")),
    wrong("causal_one_head", "all tiles", [PRODUCTS, BYTES], ("BLOCK_N, tl.max(sees, 0)", "BLOCK_N, Nk")),
    wrong("causal_one_head", "tiles of 16 queries", [BYTES], ("cdiv(Nq, 64)", "cdiv(Nq, 16)"), ("BLOCK_M=64", "BLOCK_M=16")),
    wrong("causal_one_head", "TF32", [RAGGED, HARD], TF32),
    wrong("causal_one_head", "no scale", [PLAIN], ("D**-0.5", "1.0")),
    wrong("causal_one_head", "lse in base 2", [PLAIN], ("m + tl.log(l)", "(m + tl.log(l)) * 1.4426950408889634")),
    wrong("causal_one_head", "a launch for each tile of queries", [LAUNCH], ("    causal_one_head_kernel[grid](q, k, v, o, lse, D**-0.5, Nq, Nk,", "    for i in range(0, Nq, 64):\n        causal_one_head_kernel[(1,)](q[i:], k, v, o[i:], lse[i:], D**-0.5, Nq - i, Nk,")),
    wrong("causal_one_head", "l begins as a number", [COMPILES], ("l = tl.zeros((BLOCK_M,), tl.float32)", "l = 0.0")),
    wrong("causal_one_head", "torch does it", [KERNEL], ("return o, lse", "return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True), lse")),
    # -------------------- flash_attention_forward: the update
    with_update("flash_attention_forward", "no running maximum", [HARD], NO_MAXIMUM),
    with_update("flash_attention_forward", "no rescaling", [RAGGED, VIEWS, DIMS, SINGLE, CAUSAL, HARD, HALVES, *COSTS], NO_RESCALING),
    with_update("flash_attention_forward", "l is not rescaled", [RAGGED, VIEWS, DIMS, SINGLE, CAUSAL, HARD, HALVES, *COSTS], L_UNCORRECTED),
    with_update("flash_attention_forward", "acc is not rescaled", [RAGGED, VIEWS, DIMS, SINGLE, CAUSAL, HARD, HALVES, *COSTS], ACC_UNCORRECTED),
    with_update("flash_attention_forward", "the maximum of the tile", [CAUSAL, NOTHING, HARD], TILE_MAXIMUM),
    with_update("flash_attention_forward", "an accumulator in half precision", [HALVES], HALF_ACC),
    with_update("flash_attention_forward", "a sum in half precision", [PLAIN], HALF_L),
    with_update("flash_attention_forward", "NaN for empty rows", [NOTHING], NAN_STATE),
    with_update("flash_attention_forward", "TF32", [SINGLE, HARD], TF32),
    # -------------------- flash_attention_forward: the rest
    wrong("flash_attention_forward", "torch's own", [KERNEL], source="def flash_attention_forward(q, k, v, causal=False, scale=None):\n    o = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)\n    return o, torch.logsumexp((q @ k.mT).float() * q.shape[-1] ** -0.5, -1)\n"),
    wrong("flash_attention_forward", "makes copies", [KERNEL], ("    Nq, D, Nk =", "    q, k, v = (x.contiguous() for x in (q, k, v))\n    Nq, D, Nk =")),
    wrong("flash_attention_forward", "scores in half precision", [PLAIN], ('k.T, input_precision="ieee") * scale', 'k.T, input_precision="ieee").to(q.dtype).to(tl.float32) * scale')),
    wrong("flash_attention_forward", "q scaled in half precision", [PLAIN], ("Nq, D, BLOCK_D, False)\n    k_ptr", "Nq, D, BLOCK_D, False)\n    q = (q * scale).to(q_ptr.dtype.element_ty)\n    scale = 1.0\n    k_ptr")),
    wrong("flash_attention_forward", "no scale", [PLAIN], ("D**-0.5 if scale is None else scale", "1.0 if scale is None else scale")),
    wrong("flash_attention_forward", "a scale of (2 D)^-0.5", [PLAIN], ("D**-0.5", "(2 * D)**-0.5")),
    wrong("flash_attention_forward", "a scale of 1 / D", [PLAIN], ("D**-0.5", "1 / D")),
    wrong("flash_attention_forward", "ignores the scale it is given", [HARD, SCALE], ("D**-0.5 if scale is None else scale", "D**-0.5")),
    wrong("flash_attention_forward", "a scale for padded heads", [DIMS], ("D**-0.5", "triton.next_power_of_2(D)**-0.5")),
    wrong("flash_attention_forward", "no causal mask", [CAUSAL, NOTHING, HARD, *COSTS], ("    if CAUSAL:\n        sees", "    if False:\n        sees")),
    wrong("flash_attention_forward", "aligned at the top left", [CAUSAL, NOTHING, HARD], ("offs_m + 1 + Nk - Nq, 0)", "offs_m + 1, 0)")),
    wrong("flash_attention_forward", "batches and heads swapped in q", [PLAIN], ("b * stride_qb + h * stride_qh", "h * stride_qb + b * stride_qh")),
    wrong("flash_attention_forward", "batches and heads exchanged", [PLAIN], ("head // H, head % H", "head % H, head // H")),
    wrong("flash_attention_forward", "tiles and heads exchanged", [PLAIN], ("tl.program_id(0) % tiles, (tl.program_id(0) // tiles)", "tl.program_id(0) // tiles, (tl.program_id(0) % tiles)")),
    wrong("flash_attention_forward", "o stored row after row", [VIEWS], ("offs_m[:, None] * stride_on + offs_d[None, :] * stride_od", "offs_m[:, None] * D + offs_d[None, :]")),
    wrong("flash_attention_forward", "v by the strides of k", [VIEWS], ("load_rows(v_ptr, offs_n, stride_vn, stride_vd", "load_rows(v_ptr, offs_n, stride_kn, stride_kd")),
    wrong("flash_attention_forward", "k by the strides of v", [VIEWS], ("load_rows(k_ptr, offs_n, stride_kn, stride_kd", "load_rows(k_ptr, offs_n, stride_vn, stride_vd")),
    wrong("flash_attention_forward", "a scale of BLOCK_D", [DIMS], ("D**-0.5 if", "triton.next_power_of_2(D)**-0.5 if")),
    wrong("flash_attention_forward", "batches and heads swapped in k", [PLAIN], ("b * stride_kb + h * stride_kh", "h * stride_kb + b * stride_kh")),
    wrong("flash_attention_forward", "batches and heads swapped in v", [PLAIN], ("b * stride_vb + h * stride_vh", "h * stride_vb + b * stride_vh")),
    wrong("flash_attention_forward", "batches and heads swapped in o", [PLAIN], ("b * stride_ob + h * stride_oh", "h * stride_ob + b * stride_oh")),
    wrong("flash_attention_forward", "batches and heads swapped in k and v", [PLAIN], ("b * stride_kb + h * stride_kh", "h * stride_kb + b * stride_kh"), ("b * stride_vb + h * stride_vh", "h * stride_vb + b * stride_vh")),
    wrong("flash_attention_forward", "shifted the other way", [CAUSAL, NOTHING, HARD], ("offs_m + 1 + Nk - Nq, 0)", "offs_m + 1 + Nq - Nk, 0)")),
    wrong("flash_attention_forward", "a float32 result through float16", [SINGLE, HARD], ("o.to(o_ptr.dtype.element_ty)", "(o.to(tl.float16) if q.dtype == tl.float32 else o.to(q.dtype))")),
    wrong("flash_attention_forward", "lse with the strides of q", [VIEWS], ("torch.empty(q.shape[:-1], dtype=torch.float32, device=q.device)", "torch.empty_like(q[..., 0], dtype=torch.float32)")),
    wrong("flash_attention_forward", "sees one key fewer", [CAUSAL, NOTHING, HARD, *COSTS], ("offs_m + 1 + Nk - Nq, 0)", "offs_m + Nk - Nq, 0)")),
    wrong("flash_attention_forward", "sees one key more", [CAUSAL, NOTHING, HARD, *COSTS], ("offs_m + 1 + Nk - Nq, 0)", "offs_m + 2 + Nk - Nq, 0)")),
    wrong("flash_attention_forward", "one row a program", [BYTES, PRODUCTS, STORES], source=ONE_ROW),
    wrong("flash_attention_forward", "no skipping", [BYTES, PRODUCTS], ("stop = tl.min(sees, 0) // BLOCK_N * BLOCK_N, tl.max(sees, 0)", "stop = tl.min(sees, 0) // BLOCK_N * BLOCK_N, Nk")),
    wrong("flash_attention_forward", "one tile too many", [BYTES, PRODUCTS], ("BLOCK_N * BLOCK_N, tl.max(sees, 0)", "BLOCK_N * BLOCK_N, tl.minimum(tl.max(sees, 0) + BLOCK_N, Nk)")),
    wrong("flash_attention_forward", "the last row's tiles without a mask", [CAUSAL, NOTHING, HARD, *COSTS], ("stop = tl.min(sees, 0) //", "stop = tl.max(sees, 0) //")),
    wrong("flash_attention_forward", "missing keys score 0", [RAGGED, LEADING, VIEWS, DIMS, SINGLE, CAUSAL, NOTHING, HARD, SCALE, *COSTS], ("s, -float(\"inf\"))\n        v = load", "s, 0.0)\n        v = load")),
    wrong("flash_attention_forward", "hidden scores are -1e4", [NOTHING], ("s, -float(\"inf\"))\n        v = load", "s, -1e4)\n        v = load")),
    wrong("flash_attention_forward", "0 / 0 where nothing is seen", [NOTHING], ("acc / tl.where(l == 0, 1, l)[:, None]", "acc / l[:, None]")),
    wrong("flash_attention_forward", "lse in base 2", [PLAIN], ("m + tl.log(l)", "(m + tl.log(l)) * 1.4426950408889634")),
    wrong("flash_attention_forward", "lse is the maximum", [PLAIN], ("m + tl.log(l), mask", "m, mask")),
    wrong("flash_attention_forward", "lse in half precision", [PLAIN], ("m + tl.log(l), mask", "(m + tl.log(l)).to(q.dtype), mask")),
    wrong("flash_attention_forward", "o in float32", [PLAIN], ("o = torch.empty_like(q)", "o = torch.empty_like(q, dtype=torch.float32)")),
    wrong("flash_attention_forward", "a scale of 0 taken for none", [SCALE], ("D**-0.5 if scale is None else scale", "scale or D**-0.5")),
    with_update("flash_attention_forward", "P V as sums", [PRODUCTS], (P_V, KEY_BY_KEY)),
    wrong("flash_attention_forward", "3 stages for heads of 256: too much for sm_80", [DIMS], ("num_warps=8 if wide else 4, num_stages=2 if wide else 3", "num_warps=4, num_stages=3")),
    wrong("flash_attention_forward", "heads of powers of two alone", [DIMS], (" & (offs_d < D)[None, :]", "")),
    wrong("flash_attention_forward", "contiguous heads alone", [VIEWS], ("for x in heads for stride in x.stride()", "for x in heads for stride in (x.shape[1] * x.shape[2] * x.shape[3], x.shape[2] * x.shape[3], x.shape[3], 1)")),
    wrong("flash_attention_forward", "a unit stride in each row", [VIEWS], ("offs_d[None, :] * stride_d", "offs_d[None, :]")),
    wrong("flash_attention_forward", "k's strides for v", [VIEWS], ("for x in heads for", "for x in (heads[0], heads[1], heads[1], heads[3]) for")),
    wrong("flash_attention_forward", "one batch alone", [VIEWS], ("b, h = head // H, head % H", "b, h = 0, head")),
    wrong("flash_attention_forward", "four dimensions alone", [RAGGED, LEADING, VIEWS, DIMS, SINGLE, CAUSAL, NOTHING, HARD, HALVES, SCALE, *COSTS], ("        while x.dim() < 4:\n            x = x[None]\n        return x.flatten(0, -4)", "        return x")),
    wrong("flash_attention_forward", "tiles of 32 queries", [BYTES], ("BLOCK_M=64, BLOCK_N=64", "BLOCK_M=32, BLOCK_N=64")),
    wrong("flash_attention_forward", "tiles of 256 keys", [BYTES, PRODUCTS], ("BLOCK_M=64, BLOCK_N=64", "BLOCK_M=64, BLOCK_N=256 if D < 64 else 64")),
    wrong("flash_attention_forward", "keeps the scores", [BYTES, BUFFER],
        ("        v = load_rows(v_ptr", "        at = p_ptr + sees[:, None] * 0 + tl.program_id(0).to(tl.int64) * 0 + offs_n[None, :] + tl.arange(0, q.shape[0])[:, None] * Nk + tl.program_id(0).to(tl.int64) * q.shape[0] * Nk\n        tl.store(at, s, mask=(offs_n < Nk)[None, :])\n        v = load_rows(v_ptr"),
        ("m, l, acc, q, k_ptr, v_ptr, scale, Nk, sees,", "m, l, acc, q, p_ptr, k_ptr, v_ptr, scale, Nk, sees,"),
        ("q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, scale, H, Nq, Nk,", "q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, p_ptr, scale, H, Nq, Nk,"),
        ("(*heads, lse, D**", "(*heads, lse, torch.empty(B * H * (Nq + 128) * Nk, dtype=torch.float32, device=q.device), D**")),
    # -------------------- sliding_window
    wrong("sliding_window", "one key more", [PLAIN], ("offs_m + 1 - window", "offs_m - window")),
    wrong("sliding_window", "one key fewer", [PLAIN], ("offs_m + 1 - window", "offs_m + 2 - window")),
    wrong("sliding_window", "no window", [PLAIN], ("tl.maximum(offs_m + 1 - window, 0)", "offs_m * 0")),
    wrong("sliding_window", "no mask for keys that are too old", [PLAIN], ("(offs_n[None, :] >= first[:, None]) & ", "")),
    wrong("sliding_window", "both sides", [PLAIN], (" & (offs_n[None, :] <= offs_m[:, None])", "")),
    wrong("sliding_window", "begins one key too late", [RAGGED], ("tl.min(first, 0) //", "(tl.min(first, 0) + (tl.min(first, 0) > 0).to(tl.int32)) //")),
    wrong("sliding_window", "begins one key too late, tiles of 64", [RAGGED], ("tl.min(first, 0) //", "(tl.min(first, 0) + (tl.min(first, 0) > 0).to(tl.int32)) //"), ("BLOCK_N=32", "BLOCK_N=64")),
    wrong("sliding_window", "without its own key", [PLAIN], ("offs_n[None, :] <= offs_m[:, None]", "offs_n[None, :] < offs_m[:, None]")),
    wrong("sliding_window", "starts at the first key", [IN_WINDOW, FEW], ("range(start, stop, BLOCK_N)", "range(0, stop, BLOCK_N)")),
    with_update("sliding_window", "P V as sums", [FEW], (P_V, KEY_BY_KEY)),
    wrong("sliding_window", "walks to the end", [IN_WINDOW, FEW], ("range(start, stop, BLOCK_N)", "range(start, N, BLOCK_N)")),
    wrong("sliding_window", "the last row's window", [PLAIN], ("tl.min(first, 0) //", "tl.max(first, 0) //")),
    wrong("sliding_window", "a window as wide as a tile", [RAGGED, HARD, IN_WINDOW, FEW], ("offs_m + 1 - window", "offs_m + 1 - BLOCK_N")),
    wrong("sliding_window", "one head", [PLAIN], ("head * N * D + offs_n", "offs_n")),
    with_update("sliding_window", "NaN for rows that have seen nothing yet", [PLAIN], NAN_STATE),
    with_update("sliding_window", "no rescaling", [PLAIN], NO_RESCALING),
    wrong("sliding_window", "torch does it, with a mask", [KERNEL], ("return o\n", "i = torch.arange(N, device=q.device)\n    seen = (i <= i[:, None]) & (i > i[:, None] - window)\n    return torch.nn.functional.scaled_dot_product_attention(q, k, v, seen)\n")),
    # -------------------- varlen
    with_update("varlen", "no maximum", [HARD], NO_MAXIMUM),
    wrong("varlen", "sees the texts before", [PLAIN], ("range(begin, tl", "range(0, tl")),
    wrong("varlen", "not causal", [PLAIN], ("offs_n[None, :] <= offs_m[:, None]", "offs_n[None, :] < end"), ("range(begin, tl.minimum(first + BLOCK_M, end), BLOCK_N)", "range(begin, end, BLOCK_N)")),
    wrong("varlen", "no query sees its own key", [PLAIN], ("offs_n[None, :] <= offs_m", "offs_n[None, :] < offs_m")),
    wrong("varlen", "rows count from 0 in each text, keys do not", [PLAIN], ("<= offs_m[:, None]", "<= offs_m[:, None] - begin")),
    wrong("varlen", "no scale", [PLAIN], ("D**-0.5", "1.0")),
    wrong("varlen", "forgets to divide", [PLAIN], ("(acc / l[:, None])", "acc")),
    wrong("varlen", "stores past the end of a text", [PLAIN], ("o, mask=(offs_m < end)[:, None]", "o, mask=(offs_m < T)[:, None]")),
    wrong("varlen", "a text without a token goes on to the end", [EMPTY], ("    first = begin + tile", "    end = tl.where(end == begin, T, end)\n    first = begin + tile")),
    wrong("varlen", "whole tiles alone", [PLAIN], ("triton.cdiv(longest, 64)", "max(1, longest // 64)")),
    wrong("varlen", "as if all texts were as long as the first", [PLAIN], ("tl.load(offsets_ptr + seq), tl.load(offsets_ptr + seq + 1)", "seq * tl.load(offsets_ptr + 1), (seq + 1) * tl.load(offsets_ptr + 1)")),
    wrong("varlen", "TF32", [RAGGED, HARD], TF32),
    wrong("varlen", "a mask for the texts before, whose keys are read", [FEW, IN_WINDOW], ("range(begin, tl", "range(0, tl"), ("offs_n[None, :] <= offs_m[:, None]", "(offs_n[None, :] <= offs_m[:, None]) & (offs_n[None, :] >= begin)")),
    wrong("varlen", "all keys of a text for each tile", [IN_WINDOW], ("range(begin, tl.minimum(first + BLOCK_M, end), BLOCK_N)", "range(begin, end, BLOCK_N)")),
    wrong("varlen", "tiles of 16 queries", [IN_WINDOW], ("cdiv(longest, 64)", "cdiv(longest, 16)"), ("BLOCK_M=64", "BLOCK_M=16")),
    wrong("varlen", "a launch for each head", [LAUNCH, IN_WINDOW], ("tl.program_id(2).to(tl.int64)", "0"), ("    varlen_kernel[(triton.cdiv(longest, 64), S, H)](q, k, v, o,", "    for h in range(H):\n        varlen_kernel[(triton.cdiv(longest, 64), S)](q[h], k[h], v[h], o[h],")),
    honest("varlen", "the host reads the offsets: a wait, which no trace counts", ("    o = torch.empty_like(q)\n    varlen", "    o = torch.empty_like(q)\n    longest = max(b - a for a, b in zip(offsets.tolist(), offsets.tolist()[1:]))\n    varlen")),
    wrong("varlen", "l begins as a number", [COMPILES], ("l = tl.zeros((BLOCK_M,), tl.float32)", "l = 0.0")),
    wrong("varlen", "torch does it", [KERNEL], source="def varlen(q, k, v, offsets, longest):\n    s = (q @ k.mT).float() * q.shape[-1] ** -0.5\n    text = torch.searchsorted(offsets, torch.arange(q.shape[1], dtype=torch.int32), right=True)\n    s = s.masked_fill((text[:, None] != text) | torch.ones_like(s[0], dtype=torch.bool).triu(1), -float('inf'))\n    return torch.softmax(s, -1).to(v.dtype) @ v\n"),
    # -------------------- grouped_attention
    wrong("grouped_attention", "heads in another order", [PLAIN], ("head * group * Nq * D + offs_m[:, None] * D", "(head + offs_m[:, None] // Nq * tl.num_programs(1)) * Nq * D + offs_m[:, None] % Nq * D")),
    wrong("grouped_attention", "the first head for all", [PLAIN], ("head * Nk * D + offs_n", "offs_n")),
    wrong("grouped_attention", "row is query", [CAUSAL, NOTHING, TWO, GROUP_READ, LAUNCH], ("offs_m % Nq + 1", "offs_m + 1")),
    wrong("grouped_attention", "head is query", [CAUSAL, NOTHING, TWO, GROUP_READ, LAUNCH], ("offs_m % Nq + 1", "offs_m // Nq + 1")),
    wrong("grouped_attention", "aligned at the top left", [CAUSAL, NOTHING, TWO, GROUP_READ, LAUNCH], ("offs_m % Nq + 1 + Nk - Nq", "offs_m % Nq + 1")),
    wrong("grouped_attention", "shifted the other way", [CAUSAL, NOTHING, TWO, GROUP_READ, LAUNCH], ("offs_m % Nq + 1 + Nk - Nq", "offs_m % Nq + 1 + Nq - Nk")),
    wrong("grouped_attention", "until the last row", [CAUSAL, NOTHING, TWO], ("tl.max(sees, 0), BLOCK_N", "tl.min(sees, 0), BLOCK_N")),
    wrong("grouped_attention", "only whole tiles of keys", [RAGGED, TWO], ("tl.int32) + Nk\n", "tl.int32) + Nk // BLOCK_N * BLOCK_N\n")),
    wrong("grouped_attention", "k read from a copy, again and again", [GROUP_READ, LAUNCH], ("def grouped_attention(", COPY + "def grouped_attention("), ("BLOCK_M=64", "BLOCK_M=16"), ("group * Nq, 64)", "group * Nq, 16)"), ("](q, k, v,", "](q, copied(k), v,")),
    wrong("grouped_attention", "one head a program", [GROUP_READ], ("BLOCK_M=64", "BLOCK_M=16"), ("group * Nq, 64)", "group * Nq, 16)")),
    wrong("grouped_attention", "copies k and v for each head", [KERNEL], ("    group, o =", "    k, v = (x.repeat_interleave(Hq // Hkv, 0) for x in (k, v))\n    Hkv = Hq\n    group, o =")),
    wrong("grouped_attention", "0 / 0", [NOTHING], ("acc / tl.where(l == 0, 1, l)[:, None]", "acc / l[:, None]")),
    with_update("grouped_attention", "no rescaling", [PLAIN], NO_RESCALING),
    # -------------------- flash_decode
    wrong("flash_decode", "adds the shares up", [PLAIN], ("alpha = tl.exp(m - tl.max(m, 0))", "alpha = tl.where(parts < splits, 1.0, 0.0)")),
    wrong("flash_decode", "a mean of the shares", [PLAIN], ("o = tl.sum(alpha[:, None] * acc, 0) / tl.sum(alpha * l, 0)", "o = tl.sum(acc / tl.where(l == 0, 1, l)[:, None], 0) / splits")),
    wrong("flash_decode", "l is not corrected", [PLAIN], ("tl.sum(alpha * l, 0)", "tl.sum(l, 0)")),
    wrong("flash_decode", "states in float16", [HALVES], ("acc = torch.empty(Hq, splits, D, dtype=torch.float32", "acc = torch.empty(Hq, splits, D, dtype=q.dtype")),
    wrong("flash_decode", "one share of each head alone", [PLAIN], ("share_kernel[(splits, Hkv)]", "share_kernel[(1, Hkv)]")),
    wrong("flash_decode", "no maximum of the shares", [HARD], ("tl.exp(m - tl.max(m, 0))", "tl.exp(m)")),
    wrong("flash_decode", "shares overlap", [RAGGED, EMPTY, HARD], ("offs_n[None, :] < stop, s", "offs_n[None, :] < Nk, s"), ("(offs_n < stop)[:, None]", "(offs_n < Nk)[:, None]")),
    wrong("flash_decode", "forgets the rest", [RAGGED, EMPTY, HARD], ("share = triton.cdiv(Nk, splits)", "share = max(1, Nk // splits)")),
    wrong("flash_decode", "one share", [SHARED], ("share = triton.cdiv(Nk, splits)", "share = Nk")),
    wrong("flash_decode", "no splits", [SHARED], ("(Hkv, Nk, _) = q.shape, k.shape\n", "(Hkv, Nk, _) = q.shape, k.shape\n    splits = 1\n")),
    wrong("flash_decode", "a program for each head", [CACHE],
        ("group, o = Hq // Hkv, torch.empty_like(q)", "group, o, shared = 1, torch.empty_like(q), Hq // Hkv"),
        ("tl.program_id(1).to(tl.int64)\n    offs_m", "tl.program_id(1).to(tl.int64)\n    kv = head // shared\n    offs_m"),
        ("head * Nk * D + offs_n", "kv * Nk * D + offs_n"),
        ("scale, group, Nk, share,\n", "scale, group, shared, Nk, share,\n"),
        ("D**-0.5, group, Nk", "D**-0.5, group, shared, Nk"),
        ("(splits, Hkv)", "(splits, Hq)")),
    wrong("flash_decode", "a merge for each head", [TWO_LAUNCHES], ("    merge_kernel[(Hq,)](m, l, acc, o,", "    for head in range(Hq):\n        merge_kernel[(1,)](m[head], l[head], acc[head], o[head],")),
    wrong("flash_decode", "torch merges", [KERNEL], ("    merge_kernel[(Hq,)](m, l, acc, o, splits, D=D, BLOCK=triton.next_power_of_2(splits))\n    return o", "    alpha = torch.exp(m - m.amax(1, keepdim=True))\n    return ((alpha[..., None] * acc).sum(1) / (alpha * l).sum(1, keepdim=True)).to(q.dtype)")),
    with_update("flash_decode", "no running maximum", [HARD], NO_MAXIMUM),
]  # fmt: skip

HONEST = [
    honest("online_update", "exp2", *EXP2),
    honest("online_update", "adds the product", ('acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None], input_precision="ieee")', 'acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")')),
    honest("one_head", "tiles of 128 x 64", ("BLOCK_M=64, BLOCK_N=32", "BLOCK_M=128, BLOCK_N=64"), ("cdiv(Nq, 64)", "cdiv(Nq, 128)")),
    honest("one_head", "k loaded as columns", ("k = tl.load(k_ptr + kv_offs, mask=inside, other=0)", "k = tl.load(k_ptr + offs_d[:, None] + offs_n[None, :] * D, mask=(offs_n < Nk)[None, :], other=0)"), ("k.T", "k")),
    honest("causal_one_head", "one loop, masked throughout", ("sees, 0, whole,", "sees, 0, 0,"), ("sees, whole, stop,", "sees, 0, stop,")),
    honest("causal_one_head", "tiles of 128 x 64, the longest first", ("BLOCK_M=64, BLOCK_N=32", "BLOCK_M=128, BLOCK_N=64"), ("cdiv(Nq, 64)", "cdiv(Nq, 128)"), ("    offs_m, offs_d = tl.program_id(0) * BLOCK_M", "    offs_m, offs_d = (tl.num_programs(0) - 1 - tl.program_id(0)) * BLOCK_M")),
    honest("causal_one_head", "rows past the last see more", ("tl.minimum(offs_m + 1 + Nk - Nq, Nk)", "offs_m + 1 + Nk - Nq")),
    with_update("causal_one_head", "exp2", [], *EXP2),
    honest("flash_attention_forward", "tiles of 128 x 64", ("BLOCK_M=64, BLOCK_N=64, num_warps=8 if wide else 4", "BLOCK_M=128, BLOCK_N=64, num_warps=8")),
    honest("flash_attention_forward", "tiles of 128 x 128", ("BLOCK_M=64, BLOCK_N=64, num_warps", "BLOCK_M=64 if wide else 128, BLOCK_N=64 if wide else 128, num_warps")),
    honest("flash_attention_forward", "oblong tiles", ("BLOCK_M=64, BLOCK_N=64", "BLOCK_M=64, BLOCK_N=64 if wide else 128")),
    honest("flash_attention_forward", "one loop, masked throughout", ("sees, 0, whole,", "sees, 0, 0,"), ("sees, whole, stop,", "sees, 0, stop,")),
    honest("flash_attention_forward", "starts with the shortest", ("tile = tiles - 1 - tile", "tile = tile")),
    honest("flash_attention_forward", "o contiguous", ("torch.empty_like(q)", "torch.empty(q.shape, dtype=q.dtype, device=q.device)")),
    with_update("flash_attention_forward", "exp2", [], *EXP2),
    honest("sliding_window", "tiles of 128 x 128", ("BLOCK_M=64, BLOCK_N=32", "BLOCK_M=128, BLOCK_N=128"), ("cdiv(N, 64)", "cdiv(N, 128)")),
    honest("varlen", "tiles of 128 x 64", ("BLOCK_M=64, BLOCK_N=32", "BLOCK_M=128, BLOCK_N=64"), ("cdiv(longest, 64)", "cdiv(longest, 128)")),
    honest("varlen", "rows and keys count from the beginning of a text", ("<= offs_m[:, None]", "- begin <= offs_m[:, None] - begin")),
    with_update("varlen", "exp2", [], *EXP2),
    honest("grouped_attention", "tiles of 128 x 64", ("BLOCK_M=64, BLOCK_N=32", "BLOCK_M=128, BLOCK_N=64"), ("group * Nq, 64)", "group * Nq, 128)")),
    honest("flash_decode", "larger tiles", ("BLOCK_N=64", "BLOCK_N=128")),
    honest("flash_decode", "no rows but the group's", ("max(16, triton.next_power_of_2(group))", "triton.next_power_of_2(group)")),
    honest("flash_decode", "a whole warp of rows", ("max(16,", "max(32,")),
]  # fmt: skip

NAMING = naming((wrong, honest), ("name_maps", "named_maps"), named.CAUSES["flash.name_maps"])

BREAKING = [
    *breaking(wrong, "break_attention", "{'q': torch.randn(32, 32), 'k': torch.randn(32, 32), 'v': torch.randn(32, 32), 'causal': True}"),
    wrong("break_attention", "numbers that no kernel gets right", [KILLS], ("return [", "return [{'q': torch.full((3, 16), float('nan')), 'k': torch.randn(4, 16), 'v': torch.randn(4, 16), 'causal': False}, ")),
    wrong("break_attention", "more than is allowed", [KILLS], ("return [", "return [{'q': torch.randn(300, 64), 'k': torch.randn(4, 64), 'v': torch.randn(4, 64), 'causal': False}, ")),
    wrong("break_attention", "the exercise for another dtype", [KILLS], source="def breaking_inputs():\n    return [{'q': torch.randn(8, 16), 'k': torch.randn(4, 16), 'v': torch.randn(4, 16), 'causal': True}]\n"),
    wrong("break_attention", "sizes alone", [KILLS], source="""
def breaking_inputs():
    return [{"q": torch.randn(40, 32), "k": torch.randn(70, 32), "v": torch.randn(70, 32), "causal": True}]
"""),
    honest("break_attention", "in another order", ("return [", "return ["), ("randn(37, 16)", "randn(50, 16)")),
]  # fmt: skip

LOG = logging(
    (wrong, honest),
    "flash.attention_log",
    ({"Nq": 256, "Nk": 128, "D": 64}, {"Nq": 128, "Nk": 384, "D": 64}),
    (
        "first_attention",
        {
            "bytes": "16*Nq*Nk + 6*Nq*Nk*D/32 + 2*Nq*D",
            "sectors": "(16*Nq*Nk + 6*Nq*Nk*D/32 + 2*Nq*D)/32",
            "launches": 3,
        },
    ),
)

VARIANTS = LOG + NAMING + BREAKING + WRONG + HONEST
