"""Unit 12: positions, interfaces, caches, decoding. What each variant must lose stands next to it; () means full marks."""

from grader.audit.variants import kinds

wrong, honest = kinds("serving")

# keys of criteria
PLAIN, RAGGED, RING, LONG = "correct.plain", "correct.ragged", "correct.ring", "correct.long"
MOVES, FULL, BUFFERS = "moves.performance", "moves.full ring", "buffers_below.full ring"

VIEWS = "return self.k[:, :, :n], self.v[:, :, :n]"
LAPS = """        if new > self.slots:
            k, v, self.length = k[:, :, -self.slots :], v[:, :, -self.slots :], self.length + new - self.slots
        at = torch.arange(self.length, self.length + k.shape[2], device=k.device) % self.slots
        self.k[:, :, at], self.v[:, :, at] = k, v
        self.length += k.shape[2]
"""
BODY = """        skip = max(0, new - self.slots)  # of a prompt longer than the ring, its end
        start = (self.length + skip) % self.slots
        first = min(new - skip, self.slots - start)  # up to the end of the ring; the others go to its beginning
        for cache, x in (self.k, k), (self.v, v):
            cache[:, :, start : start + first] = x[:, :, skip : skip + first]
            cache[:, :, : new - skip - first] = x[:, :, skip + first :]
        self.length += new
"""
CONCATENATED = """class KVCache:
    def __init__(self, B, Hkv, slots, D, dtype=torch.float32, device="cpu"):
        self.k = self.v = torch.empty(B, Hkv, 0, D, dtype=dtype, device=device)

    def append(self, k, v):
        self.k, self.v = torch.cat([self.k, k], 2), torch.cat([self.v, v], 2)
        return self.k, self.v
"""
SORTED = """        self.k, self.v = (torch.cat([old[:, :, : self.length], x], 2)[:, :, -self.slots :] for old, x in ((self.k, k), (self.v, v)))
        self.length = self.k.shape[2]
"""
CACHE = [
    wrong("kv_cache", "concatenates", [MOVES, RING, LONG, FULL, BUFFERS], source=CONCATENATED, tells="torch does cat, which moves 147,456 bytes"),
    wrong("kv_cache", "concatenates, the newest alone", [MOVES, RING, LONG, FULL, BUFFERS], (BODY, SORTED)),
    wrong("kv_cache", "returns copies", [MOVES, FULL, BUFFERS], (VIEWS, "return self.k[:, :, :n].clone(), self.v[:, :, :n].clone()"), tells="torch does clone, which moves 147,456 bytes"),
    wrong("kv_cache", "returns the whole cache", [PLAIN], (VIEWS, "return self.k, self.v")),
    wrong("kv_cache", "returns the new tokens", [PLAIN], (VIEWS, "return k, v")),
    wrong("kv_cache", "length not counted", [PLAIN], ("        self.length += new\n", "        self.length = new\n")),
    wrong("kv_cache", "k in place of v", [PLAIN], ("(self.k, k), (self.v, v)", "(self.k, k), (self.v, k)")),
    wrong("kv_cache", "no ring", [RING, LONG, FULL, BUFFERS], (BODY, "        self.k[:, :, self.length : self.length + new] = k[:, :, : self.slots - self.length]\n        self.v[:, :, self.length : self.length + new] = v[:, :, : self.slots - self.length]\n        self.length = min(self.length + new, self.slots)\n")),
    wrong("kv_cache", "starts again at the end", [RING, LONG], ("first = min(new - skip, self.slots - start)", "start, first = (0, new - skip) if start + new - skip > self.slots else (start, new - skip)")),
    wrong("kv_cache", "of a long prompt, its beginning", [LONG], ("x[:, :, skip : skip + first]", "x[:, :, :first]"), ("x[:, :, skip + first :]", "x[:, :, first : new - skip]")),
    wrong("kv_cache", "a long prompt from slot 0", [LONG], ("(self.length + skip) % self.slots", "self.length % self.slots")),
    wrong("kv_cache", "one slot for the last", [RAGGED, RING, LONG, FULL, BUFFERS], ("n = min(self.length, self.slots)", "n = min(self.length, self.slots - 1)")),
    wrong("kv_cache", "the length stops at the slots", [RING, LONG, FULL, BUFFERS], ("self.length += new", "self.length = min(self.length + new, self.slots)")),
    wrong("kv_cache", "the last slot for all", [RING, LONG, FULL, BUFFERS], (BODY, "        for t in range(new):\n            slot = min(self.length + t, self.slots - 1)\n            self.k[:, :, slot], self.v[:, :, slot] = k[:, :, t], v[:, :, t]\n        self.length += new\n")),
    wrong("kv_cache", "nothing goes to the beginning", [RING, LONG], ("            cache[:, :, : new - skip - first] = x[:, :, skip + first :]\n", "")),
    wrong("kv_cache", "writes all old tokens again", [MOVES, FULL, BUFFERS], ("            cache[:, :, : new - skip - first] = x[:, :, skip + first :]\n", "            cache[:, :, : new - skip - first] = x[:, :, skip + first :]\n            cache.copy_(cache.clone())\n"), tells="262,144 bytes"),
    wrong("kv_cache", "twice the slots", [BUFFERS], ("torch.empty(2, B, Hkv, slots, D", "torch.empty(2, B, Hkv, 2 * slots, D")),
    honest("kv_cache", "slots by their numbers", ("        new = k.shape[2]\n", "        new = k.shape[2]\n"), (BODY, LAPS)),
    honest("kv_cache", "k and v in tensors of their own", ("self.k, self.v = torch.empty(2, B, Hkv, slots, D, dtype=dtype, device=device)", "self.k, self.v = (torch.zeros(B, slots, Hkv, D, dtype=dtype, device=device).transpose(1, 2) for _ in range(2))")),
]  # fmt: skip

POSITIONS, HALF, KERNEL, TRAFFIC, LAUNCHES = (
    "correct.positions",
    "correct.half",
    "triton_did_the_work",
    "traffic.performance",
    "launches.performance",
)
COPIED, TOGETHER = "buffers_below.performance", "read_together.performance"
RIGHT = [POSITIONS, RAGGED, RING, HALF]
COST = [TRAFFIC, TOGETHER, COPIED, LAUNCHES]
TURN_K = "    tl.store(to, a * cos - b * sin)\n    tl.store(to + D // 2, b * cos + a * sin)\n"
TABLES = "tl.load(cos_ptr + position * (D // 2) + half), tl.load(sin_ptr + position * (D // 2) + half)"
SHARES = "    splits = max(1, min(64, triton.cdiv(n, 128)))\n"
DECODE = [
    wrong("decode_step", "position 0 for every token", [*RIGHT, *COST], (TABLES, "tl.load(cos_ptr + half), tl.load(sin_ptr + half)")),
    wrong("decode_step", "positions one late", RIGHT, ("*strides, position, position % slots", "*strides, max(0, position - 1), position % slots")),
    wrong("decode_step", "turned by the slot", [RING], ("*strides, position, position % slots", "*strides, position % slots, position % slots")),
    wrong("decode_step", "q not turned", [*RIGHT, *COST], ("        tl.store(out, a * cos - b * sin)\n        tl.store(out + D // 2, b * cos + a * sin)", "        tl.store(out, a)\n        tl.store(out + D // 2, b)")),
    wrong("decode_step", "k not turned", RIGHT, (TURN_K, "    tl.store(to, a)\n    tl.store(to + D // 2, b)\n")),
    wrong("decode_step", "v turned, too", RIGHT, ("    v = tl.load(v_ptr + batch * v_strides[0] + head * v_strides[1] + dims)  # a value has no position\n", "    v_at = v_ptr + batch * v_strides[0] + head * v_strides[1]\n    turn = tl.where(dims < D // 2, -1.0, 1.0) * tl.load(sin_ptr + position * (D // 2) + dims % (D // 2))\n    v = tl.load(v_at + dims).to(tl.float32) * tl.load(cos_ptr + position * (D // 2) + dims % (D // 2))\n    v += tl.load(v_at + (dims + D // 2) % D).to(tl.float32) * turn\n")),
    wrong("decode_step", "turned the other way, k alone", RIGHT, (TURN_K, TURN_K.replace("a * cos - b * sin", "a * cos + b * sin").replace("b * cos + a * sin", "b * cos - a * sin"))),
    wrong("decode_step", "pairs of neighbours", RIGHT, ("head * k_strides[1] + half\n    a, b = tl.load(k_at).to(tl.float32), tl.load(k_at + D // 2)", "head * k_strides[1] + 2 * half\n    a, b = tl.load(k_at).to(tl.float32), tl.load(k_at + 1)"), ("slot * cache_k_strides[2] + half", "slot * cache_k_strides[2] + 2 * half"), ("    tl.store(to + D // 2, b * cos + a * sin)", "    tl.store(to + 1, b * cos + a * sin)")),
    wrong("decode_step", "k turned by the slot", [RING], ("    k_at = k_ptr", "    row = slot * (D // 2) + half\n    cos, sin = tl.load(cos_ptr + row), tl.load(sin_ptr + row)\n    k_at = k_ptr")),
    wrong("decode_step", "scale forgotten", [PLAIN], ("D**-0.5", "1.0")),
    wrong("decode_step", "the token does not see itself", [PLAIN], ("min(position + 1, slots)", "max(1, min(position, slots))")),
    wrong("decode_step", "reads all slots", [PLAIN], ("min(position + 1, slots)", "slots")),
    wrong("decode_step", "no ring: the last slot for all", [RING], ("position % slots,", "min(position, slots - 1),")),
    wrong("decode_step", "heads dealt out in turn", [PLAIN], ("heads = j * GROUP + rows", "heads = batch * Hkv * GROUP + rows * Hkv + head")),
    wrong("decode_step", "the first text's cache for all", [PLAIN], ("k_ptr += batch * k_strides[0] + head", "k_ptr += head")),
    wrong("decode_step", "copies the cache", [COPIED], ("    splits = max(", "    whole_k, whole_v = cache_k.clone(), cache_v.clone()\n    splits = max("), ("turned, cache_k, cache_v, m", "turned, whole_k, whole_v, m")),
    wrong("decode_step", "its own key is not seen", [PLAIN], ("n, GROUP = min(position + 1, slots), Hq", "n, GROUP = min(position, slots), Hq")),
    wrong("decode_step", "repeats the heads in memory", [TRAFFIC, COPIED], (SHARES, SHARES + "    cache_k, cache_v = (x[:, :, None].expand(B, Hkv, GROUP, slots, D).clone().view(B, Hq, slots, D) for x in (cache_k, cache_v))\n    Hkv, GROUP, rows = Hq, 1, dict(BLOCK_M=16, BLOCK_N=64)\n"), ("    share, rows = triton.cdiv(n, splits), dict(BLOCK_M=max(16, triton.next_power_of_2(GROUP)), BLOCK_N=64)\n", "    share = triton.cdiv(n, splits)\n")),
    wrong("decode_step", "k is read twice", [TRAFFIC], ("        s = tl.where(keys[None", "        again = tl.load(k_ptr + keys[:, None] * k_strides[2] + dims[None, :], mask=there, other=0)\n        s = 0.5 * s + 0.5 * scale * tl.dot(q, again.T, input_precision=\"ieee\")\n        s = tl.where(keys[None")),
    wrong("decode_step", "q and k turned twice over", [LAUNCHES], ("    splits = max(", "    append_kernel[(B, Hkv)](\n        q, k, v, cos, sin, turned, cache_k, cache_v, *strides, position, position % slots, GROUP=GROUP, D=D\n    )\n    splits = max(")),
    wrong("decode_step", "no shares", [TOGETHER], (SHARES, "    splits = 1\n")),
    wrong("decode_step", "a step of torch behind it", [KERNEL], ("    return o\n", "    return o + 0\n")),
    honest("decode_step", "shares of 96 keys", ("triton.cdiv(n, 128)", "triton.cdiv(n, 96)")),
    honest("decode_step", "one token's rows in tiles of 32", ("max(16, triton.next_power_of_2(GROUP)), BLOCK_N=64", "max(32, triton.next_power_of_2(GROUP)), BLOCK_N=32")),
]  # fmt: skip
PAGED = [
    wrong("paged_decode", "pages as they lie", [PLAIN], ("page = tl.load(table_ptr + batch * table_stride + i).to(tl.int64)", "page = (batch * table_stride + i).to(tl.int64)")),
    wrong("paged_decode", "the first text's table", [PLAIN], ("batch * table_stride + i", "i")),
    honest("paged_decode", "asks for every page of the table", ("tl.cdiv(length, PAGE)):", "table_stride):")),
    wrong("paged_decode", "lengths rounded up", [RAGGED, HALF, TRAFFIC, COPIED], ("there = i * PAGE + places < length", "there = i * PAGE + places < tl.cdiv(length, PAGE) * PAGE")),
    wrong("paged_decode", "v not masked", [RAGGED, HALF, TRAFFIC, COPIED], ("tl.load(v_at, mask=there[:, None], other=0)", "tl.load(v_at)")),
    wrong("paged_decode", "scores not masked", [RAGGED, HALF], ('        s = tl.where(there[None, :], s, -float("inf"))\n', "")),
    wrong("paged_decode", "the last page forgotten", [PLAIN], ("tl.cdiv(length, PAGE)", "length // PAGE - 1")),
    wrong("paged_decode", "only whole pages", [RAGGED, HALF, TRAFFIC, COPIED], ("tl.cdiv(length, PAGE)", "tl.maximum(length // PAGE, 1)")),
    wrong("paged_decode", "the length of the first text", [RAGGED, HALF, TRAFFIC, COPIED], ("tl.load(lengths_ptr + batch)", "tl.load(lengths_ptr)")),
    wrong("paged_decode", "heads dealt out in turn", [PLAIN], ("(batch * tl.num_programs(1) + head) * GROUP + rows", "batch * tl.num_programs(1) * GROUP + rows * tl.num_programs(1) + head")),
    wrong("paged_decode", "scale forgotten", [PLAIN], ("D**-0.5", "1.0")),
    wrong("paged_decode", "gathers the pages first", [TRAFFIC, COPIED], ("    o = torch.empty_like(q)\n", "    o, n = torch.empty_like(q), table.shape[1]\n    at = table.clamp(0, k_pages.shape[0] - 1).flatten()\n    k_pages, v_pages = (x.index_select(0, at) for x in (k_pages, v_pages))\n    table = torch.full_like(table, 0)\n"), ("table_stride + i).to(tl.int64)", "table_stride + i).to(tl.int64) + batch * table_stride + i")),
    wrong("paged_decode", "each page twice", [TRAFFIC], ("        s = tl.dot(q, k.T, input", "        k = 0.5 * (k + tl.load(k_at, mask=there[:, None], other=0)).to(k.dtype)\n        s = tl.dot(q, k.to(q.dtype).T, input")),
    wrong("paged_decode", "a step of torch behind it", [KERNEL], ("    return o\n", "    return o + 0\n")),
    honest("paged_decode", "keys the other way round", ("for i in range(0, tl.cdiv(length, PAGE)):", "for back in range(0, tl.cdiv(length, PAGE)):\n        i = tl.cdiv(length, PAGE) - 1 - back")),
    honest("paged_decode", "strides of copies that are none", ("k_pages.stride(), v_pages.stride()", "(*k_pages.stride(),), tuple(v_pages.stride())")),
]  # fmt: skip

GROUPED, CAUSAL, TOP_LEFT, WINDOW, MASK, SCALE = (
    "correct.grouped",
    "correct.causal",
    "correct.top left",
    "correct.window",
    "correct.mask",
    "correct.scale",
)
FLOPS = "dot_flops.performance"
COUNTED = [FLOPS, COPIED, LAUNCHES]
SAFE = 'tl.where(m_new == -float("inf"), 0.0, m_new)'
NO_MASK = "masked = attention_mask is not None"
REPEATED = "    (B, Hq, Nq, D), (Hkv, Nk) = query.shape, key.shape[1:3]\n"
LAYER = [
    wrong("attention_for", "laid out as q", [PLAIN], ("    return o, None\n", "    return o.transpose(1, 2), None\n")),
    wrong("attention_for", "the mask dropped", [MASK], (NO_MASK, "masked = False")),
    wrong("attention_for", "the mask of the first text", [MASK], ("batch * mask_strides[0] + rows", "rows")),
    wrong("attention_for", "a mask of its own strides", [MASK], ("mask.stride(), o", "(Nq * Nk, Nq * Nk, Nk, 1), o"), tells="`mask`, whose memory holds 561 elements"),
    wrong("attention_for", "top left where bottom right is meant", [CAUSAL, WINDOW], ("0 if top_left else Nk - Nq", "0")),
    wrong("attention_for", "bottom right where top left is meant", [TOP_LEFT, WINDOW], ("0 if top_left else Nk - Nq", "Nk - Nq")),
    wrong("attention_for", "the window ignored at the top left", [WINDOW], ("sliding_window or Nq + Nk", "0 if top_left else sliding_window) or Nq + Nk"), ("0 if top_left else Nk - Nq, 0", "0 if top_left else Nk - Nq, (0")),
    wrong("attention_for", "the result alone, without None", [PLAIN], ("    return o, None\n", "    return o\n")),
    wrong("attention_for", "the window ignored", [WINDOW], ("sliding_window or Nq + Nk", "Nq + Nk")),
    wrong("attention_for", "a window one too wide", [WINDOW], ("sliding_window or Nq + Nk", "(sliding_window or Nq + Nk) + 1")),
    wrong("attention_for", "a window one too narrow", [WINDOW], ("sliding_window or Nq + Nk", "(sliding_window or Nq + Nk) - 1")),
    wrong("attention_for", "the scale ignored", [SCALE], ("D**-0.5 if scaling is None else scaling", "D**-0.5")),
    wrong("attention_for", "always causal", [PLAIN], ("CAUSAL=module.is_causal and not masked", "CAUSAL=not masked")),
    wrong("attention_for", "causal besides the mask", [MASK], ("CAUSAL=module.is_causal and not masked", "CAUSAL=module.is_causal")),
    wrong("attention_for", "heads dealt out in turn", [GROUPED, CAUSAL, TOP_LEFT, WINDOW, MASK, SCALE, HALF, *COUNTED], ("head // GROUP", "head % (Hq // GROUP)")),
    wrong("attention_for", "its memory laid out as q", [PLAIN], ("torch.empty(B, Nq, Hq, D,", "torch.empty(B, Hq, Nq, D,"), ("o.transpose(1, 2).stride()", "o.stride()")),
    wrong("attention_for", "NaN for a query that sees nothing", [WINDOW, MASK], (SAFE, "m_new")),
    wrong("attention_for", "q taken for contiguous", [PLAIN], ("o, query.stride()", "o, (Hq * Nq * D, Nq * D, D, 1)")),
    wrong("attention_for", "heads repeated in memory", [COPIED], (REPEATED, REPEATED + "    key, value = (x[:, :, None].expand(B, Hkv, Hq // Hkv, Nk, D).reshape(B, Hq, Nk, D) for x in (key, value))\n    Hkv = Hq\n")),
    wrong("attention_for", "contiguous first", [COPIED], (REPEATED, REPEATED + "    query, key, value = (x.contiguous() for x in (query, key, value))\n")),
    wrong("attention_for", "all tiles", [FLOPS], ("stop = tl.minimum(first + BLOCK_M, Nk)", "stop = Nk")),
    wrong("attention_for", "sums in half precision", [HALF], ("        m = m_new\n", "        m, l, acc = m_new, l.to(v.dtype).to(tl.float32), acc.to(v.dtype).to(tl.float32)\n")),
    wrong("attention_for", "a launch for each text", [LAUNCHES], ("    layer_kernel[", "    layer_kernel[(0, 1)](\n        query, key, value, mask, o, query.stride(), key.stride(), value.stride(), mask.stride(), o.transpose(1, 2).stride(),\n        Hq, Nq, Nk, 1.0, 0, 1, GROUP=1, CAUSAL=False, MASKED=False, D=D, BLOCK_M=BLOCK_M, BLOCK_N=64) if False else None\n    for b in range(B):\n        layer_one(query[b : b + 1], key[b : b + 1], value[b : b + 1], mask[b : b + 1], o[b : b + 1], module, masked, scaling, top_left, sliding_window)\n    return o, None\n    layer_kernel["), ("def attention_for(", "def layer_one(query, key, value, mask, o, module, masked, scaling, top_left, sliding_window):\n    (B, Hq, Nq, D), (Hkv, Nk) = query.shape, key.shape[1:3]\n    layer_kernel[(triton.cdiv(Nq, 64), Hq)](\n        query, key, value, mask, o, query.stride(), key.stride(), value.stride(), mask.stride(), o.transpose(1, 2).stride(),\n        Hq, Nq, Nk, D**-0.5 if scaling is None else scaling, 0 if top_left else Nk - Nq, sliding_window or Nq + Nk,\n        GROUP=Hq // Hkv, CAUSAL=module.is_causal and not masked, MASKED=masked, D=D, BLOCK_M=64, BLOCK_N=64)\n\n\ndef attention_for(")),
    wrong("attention_for", "a step of torch behind it", [KERNEL], ("    return o, None\n", "    return o + 0, None\n")),
    honest("attention_for", "the result as a view", ("    o = torch.empty(B, Nq, Hq, D, dtype=query.dtype, device=query.device)\n", "    o = torch.empty(B, Hq, Nq, D, dtype=query.dtype, device=query.device).transpose(1, 2)\n")),
    honest("attention_for", "tiles of 32", ("BLOCK_M = 64", "BLOCK_M = 32"), ("BLOCK_N=64", "BLOCK_N=32")),
]  # fmt: skip
SIZES, HEADS, EDGES, DECODE_IN = "correct.sizes", "correct.heads", "correct.edges", "correct.decode"
DENSE = "coalesced.load.performance"
WAVES = "torch.stack([angle.sin(), angle.cos()], -1).flatten(1)"
WAVE = [
    wrong("sinusoidal", "all sines first", [PLAIN], (WAVES, "torch.cat([angle.sin(), angle.cos()], 1)")),
    wrong("sinusoidal", "cos in even columns", [PLAIN], (WAVES, "torch.stack([angle.cos(), angle.sin()], -1).flatten(1)")),
    wrong("sinusoidal", "by the row", [PLAIN], ("positions[:, None]", "torch.arange(len(positions))[:, None]")),
    wrong("sinusoidal", "positions from 1", [PLAIN], ("positions[:, None]", "(positions + 1)[:, None]")),
    wrong("sinusoidal", "a base of 1000", [PLAIN], ("10000 **", "1000 **")),
    wrong("sinusoidal", "i / D, not 2 i / D", [PLAIN], ("torch.arange(0, D, 2) / D", "torch.arange(0, D, 2) / (2 * D)")),
    wrong("sinusoidal", "turned around", [PLAIN], ("positions[:, None] / 10000 **", "positions[:, None] * 10000 **")),
    wrong("sinusoidal", "in half precision", [PLAIN], (WAVES, WAVES + ".half().float()")),
    wrong("sinusoidal", "float64", [PLAIN], (WAVES, WAVES + ".double()")),
    wrong("sinusoidal", "D of 16 alone", [SIZES], ("torch.arange(0, D, 2) / D)", "torch.arange(0, D, 2) / 16)")),
    honest("sinusoidal", "by exp", ("10000 ** (torch.arange(0, D, 2) / D)", "torch.exp(torch.arange(0, D, 2) * (math.log(10000.0) / D))")),
    honest("sinusoidal", "filled column by column", ("    return " + WAVES, "    out = torch.empty(len(positions), D)\n    out[:, ::2], out[:, 1::2] = angle.sin(), angle.cos()\n    return out")),
]  # fmt: skip
PAIR = "    tl.store(out, a * tl.cos(angle) - b * tl.sin(angle), mask=inside)\n    tl.store(out + D // 2, b * tl.cos(angle) + a * tl.sin(angle), mask=inside)\n"
TURN = [
    wrong("rotary", "the other way", [PLAIN], ("- b * tl.sin", "+ b * tl.sin"), ("+ a * tl.sin", "- a * tl.sin")),
    wrong("rotary", "neighbours as pairs", [PLAIN], ("+ pairs[None, :] * x_strides[3]", "+ 2 * pairs[None, :] * x_strides[3]"), ("at + D // 2 * x_strides[3]", "at + x_strides[3]"), ("* D + pairs[None, :]", "* D + 2 * pairs[None, :]"), ("tl.store(out + D // 2", "tl.store(out + 1")),
    wrong("rotary", "by the row, not the position", [POSITIONS, HALF], ("tl.load(positions_ptr + rows, mask=rows < N, other=0)", "rows")),
    wrong("rotary", "from the first position on", [POSITIONS], ("tl.load(positions_ptr + rows, mask=rows < N, other=0)", "(tl.load(positions_ptr) + rows)")),
    wrong("rotary", "the base ignored", [RAGGED], ("math.log2(base)", "math.log2(10000.0)")),
    wrong("rotary", "exponents of i / D", [PLAIN], ("(-2.0 / D)", "(-1.0 / D)")),
    wrong("rotary", "natural logarithm", [PLAIN], ("math.log2(base)", "math.log(base)")),
    wrong("rotary", "a power of e for one of 2", [PLAIN], ("tl.exp2(pairs", "tl.exp(pairs")),
    wrong("rotary", "taken for contiguous", [PLAIN], ("out, x.stride()", "out, (H * N * D, N * D, D, 1)")),
    wrong("rotary", "the strides of x for the result", [PLAIN], ("torch.empty(B, H, N, D, dtype=x.dtype, device=x.device)", "torch.empty_like(x)")),
    wrong("rotary", "in place", [KERNEL], ("    out = torch.empty(B, H, N, D, dtype=x.dtype, device=x.device)\n", "    out = x\n"), ("out = out_ptr + (j * N + rows)[:, None] * D + pairs[None, :]", "out = at"), ("tl.store(out + D // 2,", "tl.store(out + D // 2 * x_strides[3],")),
    wrong("rotary", "the first half alone", [PLAIN], ("    tl.store(out + D // 2, b * tl.cos(angle) + a * tl.sin(angle), mask=inside)\n", "    tl.store(out + D // 2, b, mask=inside)\n")),
    wrong("rotary", "powers of two alone", [RAGGED], ("(pairs < D // 2)[None, :]", "(pairs < BLOCK)[None, :]")),
    wrong("rotary", "in half precision", [HALF], ("other=0).to(tl.float32)\n    b = ", "other=0)\n    b = "), ("mask=inside, other=0).to(tl.float32)\n    out", "mask=inside, other=0)\n    out"), (PAIR, PAIR.replace("tl.cos(angle)", "tl.cos(angle).to(a.dtype)").replace("tl.sin(angle)", "tl.sin(angle).to(a.dtype)"))),
    wrong("rotary", "a launch for each text", [LAUNCHES], ("    rotary_kernel[(triton.cdiv(N, BLOCK_N), B * H)](\n        x, positions, out, x.stride(), H, N, math.log2(base), D=D, BLOCK=BLOCK, BLOCK_N=BLOCK_N\n    )\n", "    for b in range(B):\n        rotary_kernel[(triton.cdiv(N, BLOCK_N), H)](\n            x[b], positions, out[b], (0, *x.stride()[1:]), H, N, math.log2(base), D=D, BLOCK=BLOCK, BLOCK_N=BLOCK_N\n        )\n")),
    wrong("rotary", "reads each row twice", [TRAFFIC], ("    out = out_ptr +", "    a = 0.5 * a + 0.5 * tl.load(at, mask=inside, other=0).to(tl.float32)\n    b = 0.5 * b + 0.5 * tl.load(at + D // 2 * x_strides[3], mask=inside, other=0).to(tl.float32)\n    out = out_ptr +")),
    wrong("rotary", "even and odd pairs apart", [DENSE], ("    a = tl.load(at, mask=inside, other=0).to(tl.float32)\n", "    even = inside & (pairs % 2 == 0)[None, :]\n    odd = inside & (pairs % 2 == 1)[None, :]\n    a = (tl.load(at, mask=even, other=0) + tl.load(at, mask=odd, other=0)).to(tl.float32)\n")),
    honest("rotary", "8 rows a program", ("min(32, triton.next_power_of_2(N))", "min(8, triton.next_power_of_2(N))")),
    honest("rotary", "the base by exp", ("tl.exp2(pairs.to(tl.float32) * (-2.0 / D) * log2_base)", "tl.exp(pairs.to(tl.float32) * (-2.0 / D) * (log2_base * 0.6931471805599453))")),
]  # fmt: skip
BEHIND = "scores - slopes[:, None, None] * behind.clamp(min=0)"
ALIBI = [
    wrong("alibi", "positive", [PLAIN], (BEHIND, "scores + slopes[:, None, None] * behind.clamp(min=0)")),
    wrong("alibi", "slopes one early", [PLAIN], ("torch.arange(1, heads + 1)", "torch.arange(heads)")),
    wrong("alibi", "one slope for all", [PLAIN], (BEHIND, "scores - slopes[-1:, None, None] * behind.clamp(min=0)")),
    wrong("alibi", "slopes of 8 heads", [DECODE_IN, HEADS], ("* torch.arange(1, heads + 1) / heads", "* torch.arange(1, heads + 1) / 8")),
    wrong("alibi", "aligned at the top left", [DECODE_IN], ("torch.arange(nk - nq, nk)[:, None]", "torch.arange(nq)[:, None]")),
    wrong("alibi", "keys ahead too", [PLAIN], ("behind.clamp(min=0)", "behind.abs()")),
    wrong("alibi", "keys ahead raised", [PLAIN], ("behind.clamp(min=0)", "behind")),
    wrong("alibi", "turned", [PLAIN], ("behind = torch.arange(nk - nq, nk)[:, None] - torch.arange(nk)", "behind = torch.arange(nk) - torch.arange(nk - nq, nk)[:, None]")),
    wrong("alibi", "one further", [PLAIN], ("behind.clamp(min=0)", "(behind + 1).clamp(min=0)")),
    honest("alibi", "slopes by exp2", ("2 ** (-8 * torch.arange(1, heads + 1) / heads)", "torch.exp2(-8 * torch.arange(1, heads + 1) / heads)")),
    honest("alibi", "masked by tril", ("behind.clamp(min=0)", "behind.tril(nk - nq)")),
]  # fmt: skip


def told(entry: str, name: str, key: str, answer: str, right: str, wrongly: str = ""):
    """A prediction with one answer other than the right one: `wrongly`, or what nobody takes for it."""
    return wrong(
        entry,
        name,
        [key],
        (
            f'"{answer}": {right}',
            f'"{answer}": {"False" if right == "True" else "True" if right == "False" else wrongly or "99"}',
        ),
    )


TOUCHES = [
    told("touches", f"not so: {answer}", "truths.plain", answer, right)
    for answer, right in (
        ("sinusoidal changes v", "True"), ("sinusoidal changes q", "True"), ("sinusoidal changes k", "True"),
        ("sinusoidal: a text that begins at 100 has the same scores", "False"), ("rotary changes v", "False"), ("rotary changes k", "True"),
        ("rotary: a text that begins at 100 has the same scores", "True"), ("ALiBi changes q", "False"), ("ALiBi changes v", "False"),
    )
]  # fmt: skip
ROWS = [
    told("which_rows", f"not so: {answer}", "numbers.plain", answer, right, wrongly)
    for answer, right, wrongly in (
        ("a prompt of 10: the first query", "1", "10"), ("a prompt of 10: the last query", "10", "9"),
        ("a second piece of 6: the first query", "11", "1"), ("a second piece of 6: the last query", "16", "6"),
        ("one token, 17th: the last query", "17", "1"), ("a prompt of 10 in 24 places: the first query", "1", "15"),
        ("a prompt of 10 in 24 places: the last query", "10", "24"), ("one token, 17th, in 24 places: the last query", "17", "24"),
        ("a window of 4, one token, 17th: the last query", "4", "5"),
    )
] + [told("which_rows", "a number that nobody takes for it", "numbers.plain", "a prompt of 10: the last query", "10")]  # fmt: skip
SERVE = [
    wrong("capacity", "k alone", [PLAIN, HEADS, WINDOW, EDGES], ("2 * config", "config")),
    wrong("capacity", "one layer", [PLAIN, HEADS, WINDOW, EDGES], ('config["layers"] * config["kv_heads"]', 'config["kv_heads"]')),
    wrong("capacity", "32 heads of k and v", [PLAIN, HEADS, WINDOW, EDGES], ('config["kv_heads"]', "32")),
    wrong("capacity", "8 heads of k and v", [HEADS], ('config["kv_heads"]', "8")),
    wrong("capacity", "two bytes a number", [HEADS], ('kept * config["itemsize"]', "kept * 2")),
    wrong("capacity", "the window forgotten", [WINDOW], ('min(tokens, config["window"] or tokens)', "tokens")),
    wrong("capacity", "the window for all", [WINDOW], ('min(tokens, config["window"] or tokens)', 'config["window"] or tokens')),
    wrong("capacity", "weights forgotten", [PLAIN, HEADS, WINDOW, EDGES], ("max(0, memory - weights)", "memory")),
    wrong("capacity", "less than nothing", [EDGES], ("max(0, memory - weights)", "(memory - weights)")),
    wrong("capacity", "two bytes a weight", [HEADS], ('config["parameters"] * config["itemsize"]', 'config["parameters"] * 2')),
    wrong("capacity", "rounded up", [PLAIN, HEADS, WINDOW, EDGES], ("max(0, memory - weights) // kv_bytes", "-(-max(0, memory - weights) // kv_bytes)")),
    wrong("capacity", "seconds of the caches alone", [PLAIN, HEADS, WINDOW, EDGES], ("(weights + largest_batch * kv_bytes)", "(largest_batch * kv_bytes)")),
    wrong("capacity", "the weights for each text", [PLAIN, HEADS, WINDOW, EDGES], ("(weights + largest_batch * kv_bytes)", "largest_batch * (weights + kv_bytes)")),
    honest("capacity", "counted in floats of the quotient", ("(weights + largest_batch * kv_bytes) / bandwidth", "weights / bandwidth + largest_batch * (kv_bytes / bandwidth)")),
]  # fmt: skip

NAMES = [
    told("name_it", f"not so: {answer}", "numbers.plain", answer, right, "1" if right != "1" else "2")
    for answer, right in (
        ("padded texts differ, the others agree", "1"), ("a prompt agrees, its second piece does not", "2"),
        ("losses fall as before, the projections of q, k and v stay as they were", "3"), ("all agrees until activations are recomputed", "4"),
        ("every row differs, in a model whose configuration names a multiplier", "5"),
        ("all agrees, and the peak of memory grows with the cache times the group", "6"),
    )
] + [
    wrong("name_it", "two causes changed places", ["numbers.plain"], ('they were": 3', 'they were": 4'), ('are recomputed": 4', 'are recomputed": 3')),
    wrong("name_it", "one cause for all", ["numbers.plain"], *((f'": {i},', '": 1,') for i in range(2, 7))),
]  # fmt: skip
AGAIN, REPEATS = "correct.again", "no_repeats.shared"
NEW_TENSORS = (
    "        a, b = x[..., : D // 2], x[..., D // 2 :]\n        return torch.cat([a * c - b * s, b * c + a * s], -1)\n"
)
IN_PLACE = "        a, b = x[..., : D // 2].clone(), x[..., D // 2 :].clone()\n        x[..., : D // 2], x[..., D // 2 :] = a * c - b * s, b * c + a * s\n        return x\n"
MENDED = [
    wrong("mended", "as it was handed out", [PLAIN], ("### BEGIN SOLUTION\ndef mended(", "def never(")),
    wrong("mended", "the mask dropped", [MASK, REPEATS], ("    if mask is not None:", "    if False:")),
    wrong("mended", "causal besides the mask", [MASK], ("sees = mask.view(B, 1, 1, Nq, Nk)", "sees = sees & mask.view(B, 1, 1, Nq, Nk)")),
    wrong("mended", "aligned at the top left", [CAUSAL, REPEATS], (".tril(Nk - Nq)", ".tril()")),
    wrong("mended", "aligned at the bottom right, q turned from 0", [REPEATS], ("turned(q, Nk - Nq)", "turned(q, 0)")),
    wrong("mended", "forward alone", [PLAIN], ("    p = torch.softmax(", "    scores = scores.detach()\n    v = v.detach()\n    p = torch.softmax(")),
    wrong("mended", "v alone has a gradient", [PLAIN], ("    p = torch.softmax(", "    scores = scores.detach()\n    p = torch.softmax(")),
    wrong("mended", "rotary in place, under checkpointing", [AGAIN, REPEATS], (NEW_TENSORS, IN_PLACE)),
    wrong("mended", "the scale ignored", [SCALE, REPEATS], (".mT * scale  #", ".mT * D**-0.5  #")),
    wrong("mended", "heads repeated", [REPEATS], ("    rows = turned(q", "    k, v = (x.repeat_interleave(Hq // Hkv, 1) for x in (k, v))\n    Hkv = Hq\n    rows = turned(q")),
    wrong("mended", "heads repeated by broadcasting", [REPEATS], ("rows @ turned(k, 0).mT * scale", "rows.view(B, Hkv, -1, Nq, D) @ turned(k, 0).mT[:, :, None] * scale")),
    wrong("mended", "heads dealt out in turn", [REPEATS], ("turned(q, Nk - Nq).reshape(B, Hkv, -1, D)", "turned(q, Nk - Nq).view(B, -1, Hkv, Nq, D).transpose(1, 2).reshape(B, Hkv, -1, D)")),
    wrong("mended", "not causal", [PLAIN], (".tril(Nk - Nq)", "")),
    honest("mended", "by a function of torch", ("    p = torch.softmax(scores.masked_fill(~sees, -math.inf), -1)\n", "    p = scores.masked_fill(~sees, -math.inf).softmax(-1)\n")),
    honest("mended", "scores by where", ("scores.masked_fill(~sees, -math.inf)", "torch.where(sees, scores, -math.inf)")),
]  # fmt: skip
VARIANTS = [
    *WAVE,
    *TURN,
    *ALIBI,
    *TOUCHES,
    *ROWS,
    *SERVE,
    *LAYER,
    *CACHE,
    *DECODE,
    *PAGED,
    *NAMES,
    *MENDED,
]
