"""Unit 08. What each variant must lose stands next to it; () means full marks."""

from grader.audit.variants import Variant, kinds

wrong, honest = kinds("attention")

PLAIN = ["correct.plain"]
TRUTHS, COUNTED = ["truths.plain"], ["numbers.plain"]
SHAPES, ANYWHERE, ANGLES = ("correct.shapes", "correct.anywhere", "correct.half")
ANY, CAUSAL, NOTHING, FAR, HALF = (
    "correct.ragged",
    "correct.causal",
    "correct.nothing",
    "correct.hard",
    "correct.half",
)
EMPTY, BOTH, APART = ("correct.identity", "correct.nothing", "correct.large")
WHOLE, SHORT, MORE_KEYS, MORE_QUERIES = (
    "holds.right_tiles.plain",
    "holds.right_tiles.ragged",
    "holds.right_tiles.more keys",
    "holds.right_tiles.more queries",
)
RAGGED, HARD, TILE, SKIPS, NEVER = (
    "correct.ragged",
    "correct.hard",
    "largest_buffer.performance",
    "products.performance",
    "largest_buffer.performance",
)
BYTES, BYTES_RAGGED, BYTES_CAUSAL, BYTES_WIDE = (
    "correct.plain",
    "correct.ragged",
    "correct.causal",
    "correct.causal ragged",
)

# ------------------------------------------------------------------------------------------------ tiles, seen otherwise

STATE_UPDATE = """
            m_new = torch.maximum(m, s.amax(-1))
            base = torch.where(m_new == -inf, 0, m_new)
            p = torch.exp(s - base[..., None])
            factor = torch.exp(m - base)
            l = l * factor + p.sum(-1)
            acc = acc * factor[..., None] + p @ v[..., j : j + bn, :].float()
            m = m_new
"""
ONLINE = (
    """
def tiled_attention(q, k, v, causal, bm, bn):
    Nq, D, Nk = *q.shape[-2:], k.shape[-2]
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[:-1], dtype=torch.float32, device=q.device)
    for i in range(0, Nq, bm):
        qi = q[..., i : i + bm, :].float() * D**-0.5
        offs_m = torch.arange(i, i + qi.shape[-2], device=q.device)[:, None]
        m = torch.full(qi.shape[:-1], -inf, device=q.device)
        l = torch.zeros(qi.shape[:-1], device=q.device)
        acc = torch.zeros(qi.shape, device=q.device)
        for j in range(0, Nk, bn):
            if causal and j > i + qi.shape[-2] - 1 + Nk - Nq:
                break
            s = qi @ k[..., j : j + bn, :].float().mT
            if causal:
                offs_n = torch.arange(j, j + s.shape[-1], device=q.device)
                s = torch.where(offs_n <= offs_m + Nk - Nq, s, -inf)
"""
    + STATE_UPDATE
    + """
        o[..., i : i + bm, :] = acc / torch.where(l == 0, 1, l)[..., None]
        lse[..., i : i + bm] = m + l.log()
    return o, lse
"""
)


def online(name: str, loses: list[str], *patches: tuple[str, str], says: str = "") -> Variant:
    """The loop with the update written out, changed."""
    source = ONLINE
    for old, new in patches:
        if old not in source:
            raise ValueError(f"{name}: no {old!r}")
        source = source.replace(old, new)
    return Variant("attention.tiled_attention", name, tuple(loses), source=source)


ALL_TILED = [RAGGED, CAUSAL, NOTHING, HARD, HALF, TILE, SKIPS]

WRONG = [
    # -------------------- attention
    wrong(
        "attention", "no scale", PLAIN, ("(D**-0.5 if scale is None else scale)", "(1.0 if scale is None else scale)")
    ),
    wrong("attention", "a scale of 1 / D", PLAIN, ("D**-0.5", "D**-1.0")),
    wrong("attention", "ignores the scale it is given", [ANY], ("(D**-0.5 if scale is None else scale)", "D**-0.5")),
    wrong("attention", "sqrt of Nq", PLAIN, ("D**-0.5", "Nq**-0.5")),
    wrong("attention", "aligned at the top left", [CAUSAL, NOTHING], ("tril(Nk - Nq)", "tril()")),
    wrong("attention", "off by one", [CAUSAL, NOTHING], ("tril(Nk - Nq)", "tril(Nk - Nq - 1)")),
    wrong("attention", "sees one more", [CAUSAL, NOTHING], ("tril(Nk - Nq)", "tril(Nk - Nq + 1)")),
    wrong("attention", "no mask", [CAUSAL, NOTHING], ("if causal:", "if False:")),
    wrong(
        "attention", "a mask of zeros", [CAUSAL, NOTHING], ("torch.where(sees, s, -inf)", "torch.where(sees, s, 0.0)")
    ),
    wrong("attention", "NaN where nothing is seen", [NOTHING], ("torch.where(lse == -inf, 0, lse)", "lse")),
    wrong("attention", "a mean of all where nothing is seen", [NOTHING], ("s, -inf)", "s, -1e30)")),
    wrong(
        "attention",
        "a softmax of equal scores where nothing is seen",
        [NOTHING],
        ("torch.where(sees, s, -inf)", "torch.where(sees, s, -1e30)"),
        ("torch.exp(s - base[..., None])", "torch.softmax(s, -1)"),
    ),
    wrong(
        "attention", "a softmax along the queries", PLAIN, ("torch.exp(s - base[..., None])", "torch.softmax(s, -2)")
    ),
    wrong("attention", "no maximum", [FAR, HALF], ("lse = torch.logsumexp(s, -1)", "lse = torch.exp(s).sum(-1).log()")),
    wrong("attention", "scores in half precision", [HALF], ("q.float() @ k.float().mT", "(q @ k.mT).float()")),
    wrong("attention", "a product with v in half precision", [HALF], ("(p @ v.float())", "(p.to(v.dtype) @ v)")),
    wrong("attention", "o in float32", [HALF], (".to(q.dtype), lse", ", lse")),
    wrong("attention", "a scale of sqrt(D)", PLAIN, ("D**-0.5", "D**0.5")),
    wrong("attention", "the mask shifted the other way", [CAUSAL, NOTHING], ("tril(Nk - Nq)", "tril(Nq - Nk)")),
    wrong("attention", "the mask turned round", [CAUSAL, NOTHING], ("tril(Nk - Nq)", "triu(Nk - Nq)")),
    wrong(
        "attention",
        "a mask after the softmax",
        [CAUSAL, NOTHING],
        ("        s = torch.where(sees, s, -inf)\n", ""),
        ("    return (p @", "    if causal:\n        p = torch.where(sees, p, 0.0)\n    return (p @"),
    ),
    wrong("attention", "the maximum for lse", PLAIN, ("), lse\n", "), s.amax(-1)\n")),
    wrong("attention", "lse in base 2", PLAIN, ("), lse\n", "), lse * 1.4426950408889634\n")),
    wrong("attention", "o alone", PLAIN, (".to(q.dtype), lse", ".to(q.dtype)")),
    wrong("attention", "no heads", [ANY, CAUSAL, NOTHING, HALF], ("k.float().mT", "k.float().reshape(-1, D).T")),
    wrong(
        "attention",
        "torch's own",
        PLAIN,
        source="def attention(q, k, v, causal=False, scale=None):\n"
        "    o = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)\n"
        "    return o, torch.logsumexp(q @ k.mT * q.shape[-1] ** -0.5, -1)\n",
    ),
    # -------------------- rotary
    wrong(
        "rotary",
        "half and half",
        PLAIN,
        ("x[..., 0::2].float(), x[..., 1::2].float()", "(t.float() for t in x.chunk(2, -1))"),
    ),
    wrong(
        "rotary",
        "column i with column i + D / 2, as GPT-NeoX has it",
        PLAIN,
        ("x[..., 0::2].float(), x[..., 1::2].float()", "(t.float() for t in x.chunk(2, -1))"),
        ("torch.stack(turned, -1).flatten(-2)", "torch.cat(turned, -1)"),
    ),
    wrong("rotary", "the other way round", PLAIN, ("angle = positions", "angle = -positions")),
    wrong("rotary", "all pairs alike", PLAIN, ("(-torch.arange(0, D, 2,", "(-torch.zeros(D // 2,")),
    wrong("rotary", "counts pairs by one", PLAIN, ("/ D)  #", "/ D / 2)  #")),
    wrong(
        "rotary",
        "angles in half precision",
        [ANGLES],
        ("positions[:, None].float() * freq", "(positions[:, None].float() * freq).to(x.dtype).float()"),
    ),
    wrong(
        "rotary",
        "turns in half precision",
        [ANGLES],
        ("x[..., 0::2].float(), x[..., 1::2].float()", "x[..., 0::2], x[..., 1::2]"),
        ("angle.cos()", "angle.cos().to(x.dtype)"),
        ("angle.sin()", "angle.sin().to(x.dtype)"),
    ),
    wrong(
        "rotary", "positions from 0", [ANYWHERE, ANGLES], ("positions[:, None]", "torch.arange(x.shape[-2])[:, None]")
    ),
    wrong("rotary", "returns float32", [ANGLES], (".to(x.dtype)", "")),
    wrong(
        "rotary", "another order of columns", PLAIN, ("torch.stack(turned, -1).flatten(-2)", "torch.cat(turned, -1)")
    ),
    wrong("rotary", "wraps at 4096", [ANYWHERE, ANGLES], ("positions[:, None]", "(positions % 4096)[:, None]")),
    wrong(
        "rotary",
        "two dimensions alone",
        [SHAPES, ANYWHERE, ANGLES],
        ("torch.stack(turned, -1).flatten(-2)", "torch.stack(turned, -1).reshape(-1, D)"),
    ),
    wrong(
        "rotary",
        "positions in half precision",
        [ANGLES],
        ("positions[:, None].float()", "positions[:, None].to(x.dtype).float()"),
    ),
    # -------------------- claims
    *(
        wrong("claims", name, TRUTHS, patch)
        for name, patch in (
            ("order matters", ('leave_o": True,  # a mean', 'leave_o": False,  # a mean')),
            ("queries keep their places", ('shuffle_o": True', 'shuffle_o": False')),
            ("scores count as they are", ('leaves_o": True,  # exp', 'leaves_o": False,  # exp')),
            ("keys are values", ('keys_doubled_double_o": False', 'keys_doubled_double_o": True')),
            ("rotary is absolute", ('q_k_all_moved_by_7_leaves_o": True', 'q_k_all_moved_by_7_leaves_o": False')),
            (
                "rotary on v does not matter",
                ('v_too_all_moved_by_7_leaves_o": False', 'v_too_all_moved_by_7_leaves_o": True'),
            ),
            ("all true", (": False", ": True")),
            ("all false", (": True", ": False")),
        )
    ),
    wrong("claims", "aligned at the top left", COUNTED, ("18,", "10,")),
    wrong("claims", "everybody sees something", COUNTED, ('4_keys": 2', '4_keys": 0')),
    # -------------------- merge
    wrong("merge", "acc is not corrected", PLAIN, ("acc_a * alpha_a[..., None]", "acc_a")),
    wrong("merge", "l is not corrected", PLAIN, ("l_a * alpha_a", "l_a")),
    wrong("merge", "l_b is not corrected", PLAIN, ("l_b * alpha_b", "l_b")),
    wrong("merge", "neither l is corrected", PLAIN, ("l_a * alpha_a + l_b * alpha_b", "l_a + l_b")),
    wrong("merge", "no maximum", PLAIN, ("torch.maximum(m_a, m_b)", "m_a")),
    wrong(
        "merge",
        "factors exchanged",
        PLAIN,
        ("torch.exp(m_a - base), torch.exp(m_b - base)", "torch.exp(m_b - base), torch.exp(m_a - base)"),
    ),
    wrong("merge", "upside down", PLAIN, ("torch.exp(m_a - base)", "torch.exp(base - m_a)")),
    wrong(
        "merge",
        "a base of 0 beside an empty state",
        [EMPTY],
        ("torch.where(m == -inf, 0, m)", "torch.where(torch.minimum(m_a, m_b) == -inf, 0, m)"),
    ),
    wrong("merge", "NaN of two empty states", [BOTH], ("torch.where(m == -inf, 0, m)", "m")),
    wrong("merge", "a maximum of at least -100", [APART], ("torch.where(m == -inf, 0, m)", "m.clamp(min=-100)")),
    wrong(
        "merge",
        "absolute exponentials",
        [APART],
        ("base = torch.where(m == -inf, 0, m)", "base = torch.zeros_like(m)"),
        (
            "return m, l_a * alpha_a + l_b * alpha_b, acc_a * alpha_a[..., None] + acc_b * alpha_b[..., None]",
            "back = torch.exp(-torch.where(m == -inf, 0, m))\n    return m, (l_a * alpha_a + l_b * alpha_b) * back, (acc_a * alpha_a[..., None] + acc_b * alpha_b[..., None]) * back[..., None]",
        ),
    ),
    wrong(
        "merge",
        "an empty state has m = -1e4",
        [BOTH],
        (
            "m = torch.maximum(m_a, m_b)",
            "m = torch.maximum(m_a, m_b).clamp(min=-1e4)\n    m_a, m_b = m_a.clamp(min=-1e4), m_b.clamp(min=-1e4)",
        ),
        ("l_a * alpha_a + l_b", "(l_a + (m_a == -1e4)) * alpha_a + l_b"),
    ),
    wrong(
        "merge",
        "one maximum for all",
        PLAIN,
        ("torch.maximum(m_a, m_b)", "torch.maximum(m_a, m_b).amax().expand(m_a.shape)"),
    ),
    wrong(
        "merge",
        "acc becomes a mean",
        PLAIN,
        (
            "acc_a * alpha_a[..., None] + acc_b * alpha_b[..., None]",
            "(acc_a * alpha_a[..., None] + acc_b * alpha_b[..., None]) / (l_a * alpha_a + l_b * alpha_b)[..., None]",
        ),
    ),
    wrong(
        "merge",
        "in half precision",
        PLAIN,
        ("return m, ", "acc_a, acc_b = acc_a.half().float(), acc_b.half().float()\n    return m, "),
    ),
    wrong(
        "merge",
        "exponents clamped at -10",
        [APART],
        (
            "torch.exp(m_a - base), torch.exp(m_b - base)",
            "torch.exp((m_a - base).clamp(min=-10)), torch.exp((m_b - base).clamp(min=-10))",
        ),
    ),
    # -------------------- causal_tiles
    wrong("causal_tiles", "aligned at the top left", [MORE_KEYS, MORE_QUERIES], ("i + nk - nq + 1", "i + 1")),
    wrong("causal_tiles", "off by one", [WHOLE, SHORT, MORE_KEYS, MORE_QUERIES], ("i + nk - nq + 1", "i + nk - nq")),
    wrong(
        "causal_tiles",
        "square tiles alone",
        [WHOLE, SHORT, MORE_KEYS, MORE_QUERIES],
        ("seen_by(first) // bn, -(-seen_by(last) // bn)", "pid, pid + 1"),
    ),
    wrong(
        "causal_tiles",
        "the last query decides both",
        [WHOLE, SHORT, MORE_KEYS, MORE_QUERIES],
        ("seen_by(first) // bn", "seen_by(last) // bn"),
    ),
    wrong(
        "causal_tiles",
        "end rounds down",
        [WHOLE, SHORT, MORE_KEYS, MORE_QUERIES],
        ("-(-seen_by(last) // bn)", "seen_by(last) // bn"),
    ),
    wrong(
        "causal_tiles",
        "a short last tile is full",
        [SHORT, MORE_KEYS, MORE_QUERIES],
        (
            "return seen_by(first) // bn",
            "return -(-seen_by(first) // bn) if seen_by(first) == nk else seen_by(first) // bn",
        ),
    ),
    wrong("causal_tiles", "fewer than no keys", [MORE_QUERIES], ("max(i + nk - nq + 1, 0)", "i + nk - nq + 1")),
    wrong(
        "causal_tiles",
        "no last query",
        [SHORT, MORE_KEYS, MORE_QUERIES],
        ("min((pid + 1) * bm, nq) - 1", "(pid + 1) * bm - 1"),
        ("min(max(i + nk - nq + 1, 0), nk)", "max(i + nk - nq + 1, 0)"),
    ),
    wrong(
        "causal_tiles",
        "no mask at all",
        [WHOLE, SHORT, MORE_KEYS, MORE_QUERIES],
        ("return seen_by(first) // bn, ", "return -(-seen_by(last) // bn), "),
    ),
    # -------------------- tiled_attention
    wrong("tiled_attention", "no scale", PLAIN, (" * D**-0.5", "")),
    wrong("tiled_attention", "a scale of 1 / D", PLAIN, ("D**-0.5", "D**-1.0")),
    wrong("tiled_attention", "a scale of 1 / sqrt(bn)", ALL_TILED, ("D**-0.5", "bn**-0.5")),
    wrong(
        "tiled_attention",
        "off by one",
        [CAUSAL, NOTHING, SKIPS],
        ("offs_n <= offs_m + Nk - Nq", "offs_n < offs_m + Nk - Nq"),
    ),
    wrong(
        "tiled_attention",
        "sees one key more",
        [CAUSAL, NOTHING, SKIPS],
        ("offs_n <= offs_m + Nk - Nq", "offs_n <= offs_m + 1 + Nk - Nq"),
        ("causal_tiles(pid, bm, bn, Nq, Nk)[1] if causal else ", ""),
    ),
    wrong(
        "tiled_attention",
        "a query's number in its tile",
        [CAUSAL, NOTHING, SKIPS],
        (
            "torch.arange(tile_m.start, tile_m.stop, device=q.device)",
            "torch.arange(tile_m.stop - tile_m.start, device=q.device)",
        ),
    ),
    wrong(
        "tiled_attention",
        "aligned at the top left",
        [CAUSAL, NOTHING, SKIPS],
        ("offs_n <= offs_m + Nk - Nq", "offs_n <= offs_m"),
        ("causal_tiles(pid, bm, bn, Nq, Nk)[1] if causal else ", ""),
    ),
    wrong(
        "tiled_attention",
        "no mask in a tile",
        [CAUSAL, NOTHING, SKIPS],
        ("            if causal:\n", "            if False:\n"),
    ),
    wrong(
        "tiled_attention",
        "takes tiles that nobody sees",
        [SKIPS],
        ("causal_tiles(pid, bm, bn, Nq, Nk)[1] if causal else ", ""),
    ),
    wrong(
        "tiled_attention",
        "full tiles alone",
        [CAUSAL, NOTHING, SKIPS],
        ("causal_tiles(pid, bm, bn, Nq, Nk)[1]", "causal_tiles(pid, bm, bn, Nq, Nk)[0]"),
    ),
    wrong(
        "tiled_attention",
        "forgets the short last tile of keys",
        [RAGGED, CAUSAL, NOTHING, HARD, HALF],
        ("-(-Nk // bn)", "Nk // bn"),
        ("causal_tiles(pid, bm, bn, Nq, Nk)[1]", "min(Nk // bn, causal_tiles(pid, bm, bn, Nq, Nk)[1])"),
    ),
    wrong(
        "tiled_attention",
        "NaN where nothing was seen yet",
        [CAUSAL, NOTHING],
        ("torch.where(m == -inf, 0, m)[..., None]", "m[..., None]"),
    ),
    wrong("tiled_attention", "0 / 0 where nothing was seen", [NOTHING], ("torch.where(l == 0, 1, l)", "l")),
    wrong(
        "tiled_attention",
        "v in half precision, and so acc",
        [HALF],
        ("p @ v[..., j : j + bn, :].float()", "(p.to(v.dtype) @ v[..., j : j + bn, :]).float()"),
    ),
    wrong(
        "tiled_attention",
        "scores in half precision",
        [HALF],
        ("q[..., tile_m, :].float()", "q[..., tile_m, :]"),
        ("k[..., j : j + bn, :].float().mT", "k[..., j : j + bn, :].mT"),
        ("            m = s.amax(-1)", "            s = s.float()\n            m = s.amax(-1)"),
        ("acc = torch.zeros_like(qi)", "acc = torch.zeros_like(qi).float()"),
    ),
    wrong("tiled_attention", "the maximum for lse", PLAIN, ("m + l.log()", "m")),
    wrong("tiled_attention", "a scale of sqrt(D)", PLAIN, ("D**-0.5", "D**0.5")),
    wrong(
        "tiled_attention",
        "a mean of each tile",
        PLAIN,
        (
            "p.sum(-1), p @ v[..., j : j + bn, :].float()",
            "torch.ones_like(m), p @ v[..., j : j + bn, :].float() / p.sum(-1)[..., None]",
        ),
    ),
    wrong(
        "tiled_attention",
        "the first tile of keys left out",
        PLAIN,
        ("range(0, end * bn, bn)", "range(bn, end * bn, bn)"),
    ),
    wrong(
        "tiled_attention",
        "the last tile that a causal query sees left out",
        [CAUSAL, NOTHING, SKIPS],
        ("causal_tiles(pid, bm, bn, Nq, Nk)[1]", "causal_tiles(pid, bm, bn, Nq, Nk)[1] - 1"),
    ),
    wrong(
        "tiled_attention",
        "a key's number in its tile",
        [CAUSAL, NOTHING, SKIPS],
        ("torch.arange(j, j + s.shape[-1], device=q.device)", "torch.arange(s.shape[-1], device=q.device)"),
    ),
    wrong(
        "tiled_attention",
        "the state goes on to the next queries",
        PLAIN,
        ("    for pid in range(-(-Nq // bm)):\n", "    state = None\n    for pid in range(-(-Nq // bm)):\n"),
        (
            "        state = torch.full_like(acc[..., 0], -inf), torch.zeros_like(acc[..., 0]), acc\n",
            "        n = qi.shape[-2]\n        if state is None:\n            state = torch.full_like(acc[..., 0], -inf), torch.zeros_like(acc[..., 0]), acc\n"
            "        state = state[0][..., :n], state[1][..., :n], state[2][..., :n, :]\n",
        ),
    ),
    wrong("tiled_attention", "lse in base 2", PLAIN, ("m + l.log()", "(m + l.log()) * 1.4426950408889634")),
    wrong("tiled_attention", "lse without the maximum", PLAIN, ("m + l.log()", "l.log()")),
    wrong(
        "tiled_attention",
        "divides by the last tile's sum",
        PLAIN,
        ("        m, l, acc = state\n", "        m, _, acc = state\n        l = p.sum(-1)\n"),
    ),
    wrong("tiled_attention", "never divides", PLAIN, ("acc / torch.where(l == 0, 1, l)[..., None]", "acc")),
    wrong(
        "tiled_attention",
        "whole rows of scores",
        [TILE],
        source="def tiled_attention(q, k, v, causal, bm, bn):\n    parts = [attention(q[..., i : i + bm, :], k[..., : max(0, k.shape[-2] - q.shape[-2] + min(i + bm, q.shape[-2])), :] if causal else k, v[..., : max(0, k.shape[-2] - q.shape[-2] + min(i + bm, q.shape[-2])), :] if causal else v, causal) for i in range(0, q.shape[-2], bm)] if not causal or q.shape[-2] <= k.shape[-2] else [attention(q, k, v, causal)]\n    return torch.cat([p[0] for p in parts], -2), torch.cat([p[1] for p in parts], -1)\n",
    ),
    wrong(
        "tiled_attention",
        "the whole matrix",
        [TILE, SKIPS],
        source="def tiled_attention(q, k, v, causal, bm, bn):\n    return attention(q, k, v, causal)\n",
    ),
    online(
        "no running maximum",
        [HARD, HALF],
        ("m_new = torch.maximum(m, s.amax(-1))", "m_new = torch.zeros_like(m)"),
        ("torch.exp(m - base)", "1 + 0 * base"),
    ),
    online(
        "the tile's maximum alone",
        PLAIN,
        ("torch.maximum(m, s.amax(-1))", "s.amax(-1)"),
        ("factor = torch.exp(m - base)", "factor = torch.ones_like(m)"),
    ),
    online("no rescaling", PLAIN, ("factor = torch.exp(m - base)", "factor = torch.ones_like(m)")),
    online("acc is not rescaled", PLAIN, ("acc * factor[..., None]", "acc")),
    online("l is not rescaled", PLAIN, ("l * factor", "l")),
    online("rescales upside down", PLAIN, ("torch.exp(m - base)", "torch.exp(torch.where(m == -inf, m, base - m))")),
    online(
        "m starts at 0",
        [HARD],
        ("torch.full(qi.shape[:-1], -inf, device=q.device)", "torch.zeros(qi.shape[:-1], device=q.device)"),
        ("lse[..., i : i + bm] = m + l.log()", "lse[..., i : i + bm] = torch.where(l == 0, -inf, m + l.log())"),
    ),
    online("the maximum is not kept", PLAIN, ("            m = m_new\n", "")),
    online(
        "a state in half precision",
        [HALF],
        ("            m = m_new\n", "            m, l, acc = m_new, l, acc.to(q.dtype).float()\n"),
    ),
    online(
        "sums in half precision",
        [HALF],
        ("            m = m_new\n", "            m, l, acc = m_new, l.to(q.dtype).float(), acc\n"),
    ),
    online(
        "divides after each tile",
        PLAIN,
        (
            "            m = m_new\n",
            "            m = m_new\n            acc = acc / torch.where(l == 0, 1, l)[..., None]\n",
        ),
    ),
    online(
        "scores capped at 40",
        [HARD, HALF],
        ("            m_new = torch", "            s = torch.where(s < 40, s, 40.0)\n            m_new = torch"),
    ),
    # -------------------- flash_bytes
    wrong(
        "flash_bytes", "k and v once", [BYTES, BYTES_RAGGED, BYTES_CAUSAL, BYTES_WIDE], ("2 * rows * d", "2 * n * d")
    ),
    wrong("flash_bytes", "no lse", [BYTES, BYTES_RAGGED, BYTES_CAUSAL, BYTES_WIDE], (" + 4 * n", "")),
    wrong(
        "flash_bytes",
        "k without v",
        [BYTES, BYTES_CAUSAL, BYTES_RAGGED, BYTES_WIDE],
        ("2 * rows * d", "rows * d"),
    ),
    wrong(
        "flash_bytes",
        "lse of itemsize bytes",
        [BYTES, BYTES_CAUSAL, BYTES_RAGGED, BYTES_WIDE],
        ("4 * n", "itemsize * n"),
    ),
    wrong("flash_bytes", "whole tiles alone", [BYTES_RAGGED, BYTES_WIDE], ("min(n, end * bn)", "end * bn")),
    wrong(
        "flash_bytes",
        "causal costs as much",
        [BYTES_CAUSAL, BYTES_WIDE],
        ("causal_tiles(pid, bm, bn, n, n)[1] if causal else ", ""),
    ),
    wrong(
        "flash_bytes",
        "causal costs half",
        [BYTES_CAUSAL, BYTES_WIDE],
        ("causal_tiles(pid, bm, bn, n, n)[1] if causal else ", ""),
        ("2 * rows * d * itemsize", "(rows if causal else 2 * rows) * d * itemsize"),
    ),
    wrong(
        "flash_bytes",
        "full tiles alone",
        [BYTES_CAUSAL, BYTES_WIDE],
        ("(pid, bm, bn, n, n)[1]", "(pid, bm, bn, n, n)[0]"),
    ),
    wrong(
        "flash_bytes",
        "as many as it sees, not as it loads",
        [BYTES_WIDE],
        ("min(n, end * bn)", "min(n, (pid + 1) * bm) if causal else n"),
    ),
    wrong(
        "flash_bytes",
        "q for each tile of keys",
        [BYTES, BYTES_RAGGED, BYTES_CAUSAL, BYTES_WIDE],
        ("2 * n * d * itemsize + 4 * n", "n * d * itemsize * (1 + -(-n // bn)) + 4 * n"),
    ),
    wrong(
        "flash_bytes",
        "by key tiles",
        [BYTES, BYTES_RAGGED, BYTES_CAUSAL, BYTES_WIDE],
        ("-(-n // bm)):", "-(-n // bn)):"),
    ),
    # -------------------- attention_backward
    wrong("attention_backward", "no D", PLAIN, ("(dp - delta[..., i : i + B, None])", "dp")),
    wrong("attention_backward", "D from q", PLAIN, ("do.float() * o.float()", "do.float() * q.float()")),
    wrong(
        "attention_backward",
        "D of the tile alone",
        [RAGGED, CAUSAL, HARD, HALF, NEVER],
        ("delta[..., i : i + B, None]", "(p * dp).sum(-1, keepdim=True)"),
    ),
    wrong(
        "attention_backward",
        "delta divided by D",
        PLAIN,
        ("(do.float() * o.float()).sum(-1)", "(do.float() * o.float()).mean(-1)"),
    ),
    wrong("attention_backward", "delta from do alone", PLAIN, ("(do.float() * o.float())", "do.float()")),
    wrong("attention_backward", "delta added", PLAIN, ("(dp - delta", "(dp + delta")),
    wrong(
        "attention_backward",
        "delta in half precision",
        [HALF],
        ("(do.float() * o.float()).sum(-1)", "(do * o).sum(-1).float()"),
    ),
    wrong("attention_backward", "ds without p", PLAIN, ("ds = p * (dp", "ds = (dp")),
    wrong("attention_backward", "dp from k", PLAIN, ("doi @ vj.mT", "doi @ kj.mT")),
    wrong(
        "attention_backward", "the maximum for lse", PLAIN, ("base[..., i : i + B, None]", "s.amax(-1, keepdim=True)")
    ),
    wrong(
        "attention_backward",
        "dv without the mask",
        [CAUSAL, NOTHING],
        ("p.mT @ doi", "torch.exp(qi @ kj.mT * scale - base[..., i : i + B, None]).mT @ doi"),
    ),
    wrong(
        "attention_backward",
        "lse of the first queries",
        [CAUSAL, NOTHING, HALF, NEVER],
        ("base[..., i : i + B, None]", "base[..., : qi.shape[-2], None]"),
    ),
    wrong(
        "attention_backward",
        "ends with the first query of a tile",
        [CAUSAL, NOTHING],
        ("j > i + B - 1 + Nk - Nq", "j > i + Nk - Nq"),
    ),
    wrong(
        "attention_backward",
        "a mask at the top left in the right tiles",
        [CAUSAL, NOTHING],
        ("offs_n <= offs_m + Nk - Nq", "offs_n <= offs_m"),
    ),
    wrong("attention_backward", "dq without the scale", PLAIN, ("ds @ kj * scale", "ds @ kj")),
    wrong("attention_backward", "dk without the scale", PLAIN, ("ds.mT @ qi * scale", "ds.mT @ qi")),
    wrong("attention_backward", "the scale twice", PLAIN, ("ds = p * (dp", "ds = scale * p * (dp")),
    wrong("attention_backward", "dv from ds", PLAIN, ("p.mT @ doi", "ds.mT @ doi")),
    wrong("attention_backward", "no scale in the scores", PLAIN, ("kj.mT * scale", "kj.mT")),
    wrong(
        "attention_backward",
        "the last tile alone",
        [RAGGED, CAUSAL, HARD, HALF, NEVER],
        ("dq[..., i : i + B, :] +=", "dq[..., i : i + B, :] ="),
    ),
    wrong(
        "attention_backward",
        "dk of the last queries alone",
        [CAUSAL, NOTHING, HALF, NEVER],
        ("dk[..., j : j + B, :] +=", "dk[..., j : j + B, :] ="),
    ),
    wrong("attention_backward", "NaN where nothing is seen", [NOTHING], ("torch.where(lse == -inf, 0, lse)", "lse")),
    wrong("attention_backward", "no mask", [CAUSAL, NOTHING], ("            if causal:\n", "            if False:\n")),
    wrong(
        "attention_backward",
        "no mask, and all tiles",
        [CAUSAL, NOTHING],
        ("            if causal:\n", "            if False:\n"),
        ("if causal and j > i", "if False and j > i"),
    ),
    wrong(
        "attention_backward",
        "off by one",
        [CAUSAL, NOTHING],
        ("offs_n <= offs_m + Nk - Nq", "offs_n < offs_m + Nk - Nq"),
    ),
    wrong(
        "attention_backward",
        "aligned at the top left",
        [CAUSAL, NOTHING],
        ("offs_n <= offs_m + Nk - Nq", "offs_n <= offs_m"),
        ("if causal and j > i + B - 1 + Nk - Nq", "if False"),
    ),
    wrong(
        "attention_backward",
        "stops a tile early",
        [CAUSAL, NOTHING],
        ("j > i + B - 1 + Nk - Nq", "j > i + Nk - Nq - 1"),
        ("j > i", "j >= max(1, i)"),
    ),
    wrong(
        "attention_backward",
        "a second softmax",
        [RAGGED, CAUSAL, NOTHING, HARD, HALF, NEVER],
        ("torch.exp(s - base[..., i : i + B, None])", "torch.softmax(s, -1)"),
    ),
    wrong(
        "attention_backward",
        "a second softmax, without NaN",
        [RAGGED, CAUSAL, HARD, HALF, NEVER],
        ("torch.exp(s - base[..., i : i + B, None])", "torch.softmax(s, -1).nan_to_num()"),
    ),
    wrong(
        "attention_backward", "exp without lse", PLAIN, ("torch.exp(s - base[..., i : i + B, None])", "torch.exp(s)")
    ),
    wrong("attention_backward", "exp2 of s", PLAIN, ("torch.exp(s - base", "torch.exp2(s - base")),
    wrong(
        "attention_backward",
        "sums in half precision",
        [HALF],
        ("dtype=torch.float32, device=t.device", "dtype=t.dtype, device=t.device"),
        ("ds @ kj * scale", "(ds @ kj * scale).to(q.dtype)"),
        ("ds.mT @ qi * scale", "(ds.mT @ qi * scale).to(q.dtype)"),
        ("p.mT @ doi", "(p.mT @ doi).to(q.dtype)"),
    ),
    wrong(
        "attention_backward",
        "products in half precision",
        [HALF],
        ("p.mT @ doi", "(p.to(q.dtype).mT @ do[..., i : i + B, :]).float()"),
    ),
    wrong(
        "attention_backward",
        "float32 gradients",
        [HALF],
        ("dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)", "dq, dk, dv"),
    ),
    wrong("attention_backward", "one large tile", [NEVER], ("B = D**-0.5, 64", "B = D**-0.5, 1024")),
    wrong(
        "attention_backward",
        "a mask of Nq x Nk",
        [NEVER],
        (
            "    dq, dk, dv = (",
            "    everything = torch.ones(Nq, Nk, dtype=torch.bool, device=q.device).tril(Nk - Nq)\n    dq, dk, dv = (",
        ),
        ("torch.where(offs_n <= offs_m + Nk - Nq, s, -inf)", "torch.where(everything[i : i + B, j : j + B], s, -inf)"),
    ),
    wrong(
        "attention_backward",
        "dk and dv exchanged",
        PLAIN,
        ("dk.to(k.dtype), dv.to(v.dtype)", "dv.to(k.dtype), dk.to(v.dtype)"),
    ),
    wrong("attention_backward", "dq accumulates in o", PLAIN, ("dq.to(q.dtype),", "o.copy_(dq),")),
]

HONEST = [
    honest(
        "attention",
        "torch.softmax",
        source="def attention(q, k, v, causal=False, scale=None):\n    scale = q.shape[-1] ** -0.5 if scale is None else scale\n    s = torch.einsum('...qd,...kd->...qk', q.float(), k.float()) * scale\n    if causal:\n        i, j = torch.arange(q.shape[-2])[:, None], torch.arange(k.shape[-2])\n        s = s.masked_fill(j > i + k.shape[-2] - q.shape[-2], float('-inf'))\n    p = torch.nan_to_num(torch.softmax(s, -1), nan=0.0)\n    return torch.einsum('...qk,...kd->...qd', p, v.float()).to(q.dtype), torch.logsumexp(s, -1)\n",
    ),
    honest(
        "attention",
        "base 2",
        ("p = torch.exp(s - base[..., None])", "p = torch.exp2((s - base[..., None]) * 1.4426950408889634)"),
    ),
    honest(
        "attention",
        "scales q first",
        (
            "s = q.float() @ k.float().mT * (D**-0.5 if scale is None else scale)",
            "s = (q.float() * (D**-0.5 if scale is None else scale)) @ k.float().mT",
        ),
    ),
    honest(
        "rotary",
        "writes into an empty tensor",
        source="import math\n\n\ndef rotary(x, positions, base=10000.0):\n    D = x.shape[-1]\n    freq = torch.exp(torch.arange(0, D, 2).float() * (-math.log(base) / D))\n    angle = positions.float()[:, None] * freq\n    even, odd = x[..., ::2].float(), x[..., 1::2].float()\n    out = torch.empty_like(x)\n    out[..., ::2] = even * torch.cos(angle) - odd * torch.sin(angle)\n    out[..., 1::2] = odd * torch.cos(angle) + even * torch.sin(angle)\n    return out\n",
    ),
    honest(
        "rotary",
        "turns a copy by 90 degrees",
        source="def rotary(x, positions, base=10000.0):\n    D = x.shape[-1]\n    i = torch.arange(0, D, 2, dtype=torch.float32).repeat_interleave(2)\n    angle = positions[:, None].float() * base ** (-i / D)\n    pairs = x.float().unflatten(-1, (-1, 2))\n    turned = torch.stack((-pairs[..., 1], pairs[..., 0]), -1).flatten(-2)\n    return (x.float() * angle.cos() + turned * angle.sin()).to(x.dtype)\n",
    ),
    honest(
        "merge",
        "by log-sum-exps",
        source="def merge(a, b):\n    (m_a, l_a, acc_a), (m_b, l_b, acc_b) = a, b\n    m = torch.maximum(m_a, m_b)\n    fa = torch.where(m_a == m, 1.0, torch.exp(m_a - m))\n    fb = torch.where(m_b == m, 1.0, torch.exp(m_b - m))\n    return m, fa * l_a + fb * l_b, fa.unsqueeze(-1) * acc_a + fb.unsqueeze(-1) * acc_b\n",
    ),
    honest(
        "merge",
        "base 2",
        (
            "torch.exp(m_a - base), torch.exp(m_b - base)",
            "torch.exp2((m_a - base) * 1.4426950408889634), torch.exp2((m_b - base) * 1.4426950408889634)",
        ),
    ),
    honest(
        "merge",
        "NaN put right",
        ("base = torch.where(m == -inf, 0, m)", "base = m"),
        (
            "torch.exp(m_a - base), torch.exp(m_b - base)",
            "torch.nan_to_num(torch.exp(m_a - base)), torch.nan_to_num(torch.exp(m_b - base))",
        ),
    ),
    honest(
        "causal_tiles",
        "looks at every tile",
        source="def causal_tiles(pid, bm, bn, nq, nk):\n    rows = range(pid * bm, min((pid + 1) * bm, nq))\n    full = end = 0\n    for j in range((nk + bn - 1) // bn):\n        first, last = j * bn, j * bn + bn - 1\n        if last < nk and last <= rows[0] + nk - nq:\n            full += 1\n        if first <= rows[-1] + nk - nq:\n            end += 1\n    return full, end\n",
    ),
    online("the update written out", []),
    online(
        "base 2",
        [],
        ("torch.exp(s - base[..., None])", "torch.exp2((s - base[..., None]) * 1.4426950408889634)"),
        ("torch.exp(m - base)", "torch.exp2((m - base) * 1.4426950408889634)"),
    ),
    online(
        "backwards",
        [],
        ("for j in range(0, Nk, bn):", "for j in reversed(range(0, Nk, bn)):"),
        ("                break\n", "                continue\n"),
    ),
    online(
        "masks with a large number",
        [],
        ("s = torch.where(offs_n <= offs_m + Nk - Nq, s, -inf)", "s = s.masked_fill(offs_n > offs_m + Nk - Nq, -inf)"),
    ),
    online(
        "rescales when it must, by a where",
        [],
        ("factor = torch.exp(m - base)", "factor = torch.where(m == m_new, 1.0, torch.exp(m - base))"),
        ("base = torch.where(m_new == -inf, 0, m_new)", "base = torch.clamp(m_new, min=-1e30)"),
    ),
    honest(
        "tiled_attention",
        "a mean and an lse for each tile",
        source="""
def tiled_attention(q, k, v, causal, bm, bn):
    Nq, Nk, D = q.shape[-2], k.shape[-2], q.shape[-1]
    o, lse = torch.zeros_like(q), torch.zeros(q.shape[:-1], dtype=torch.float32)
    for i in range(0, Nq, bm):
        qi = q[..., i : i + bm, :].float()
        out, total = torch.zeros_like(qi), torch.full(qi.shape[:-1], float("-inf"))
        for j in range(0, Nk, bn):
            last = min(i + bm, Nq) - 1 + Nk - Nq
            if causal and j > last:
                continue
            s = torch.matmul(qi, k[..., j : j + bn, :].float().transpose(-1, -2)) / D**0.5
            if causal:
                mask = torch.arange(j, j + s.shape[-1])[None, :] > torch.arange(i, i + s.shape[-2])[:, None] + (Nk - Nq)
                s.masked_fill_(mask, float("-inf"))
            part = torch.logsumexp(s, -1)
            both = torch.logaddexp(total, part)
            safe = torch.where(both == float("-inf"), 0.0, both)
            p = torch.exp(s - safe[..., None])
            out = out * torch.exp(total - safe)[..., None] + p @ v[..., j : j + bn, :].float()
            total = both
        o[..., i : i + bm, :] = out.to(q.dtype)
        lse[..., i : i + bm] = total
    return o, lse
""",
    ),
    honest(
        "flash_bytes",
        "tile by tile",
        source="def flash_bytes(n, d, bm, bn, itemsize, causal):\n    total = 0\n    for i in range(0, n, bm):\n        queries = min(bm, n - i)\n        total += 2 * queries * d * itemsize + 4 * queries\n        for j in range(0, n, bn):\n            if not causal or j <= i + queries - 1:\n                total += 2 * min(bn, n - j) * d * itemsize\n    return total\n",
    ),
    honest("attention_backward", "tiles of 96", ("scale, B = D**-0.5, 64", "scale, B = D**-0.5, 96")),
    honest(
        "attention_backward",
        "scales q first",
        ("q[..., i : i + B, :].float(), do", "q[..., i : i + B, :].float() * scale, do"),
        ("qi @ kj.mT * scale", "qi @ kj.mT"),
        ("ds.mT @ qi * scale", "ds.mT @ qi"),
    ),
    honest(
        "attention_backward",
        "base 2",
        (
            "torch.exp(s - base[..., i : i + B, None])",
            "torch.exp2((s - base[..., i : i + B, None]) * 1.4426950408889634)",
        ),
    ),
    honest(
        "attention_backward",
        "keys outside, queries inside",
        source="""
def attention_backward(q, k, v, o, do, lse, causal):
    Nq, Nk, D = q.shape[-2], k.shape[-2], q.shape[-1]
    scale, BM, BN = 1 / D**0.5, 48, 96
    rowsum = torch.sum(do.float() * o.float(), dim=-1, keepdim=True)
    safe = lse.masked_fill(lse == float("-inf"), 0.0).unsqueeze(-1)
    dq = torch.zeros_like(q, dtype=torch.float32)
    dks, dvs = [], []
    for j in range(0, Nk, BN):
        kj, vj = k[..., j : j + BN, :].float(), v[..., j : j + BN, :].float()
        dk, dv = torch.zeros_like(kj), torch.zeros_like(vj)
        for i in range(0, Nq, BM):
            qi, doi = q[..., i : i + BM, :].float(), do[..., i : i + BM, :].float()
            p = torch.exp(scale * (qi @ kj.transpose(-1, -2)) - safe[..., i : i + BM, :])
            if causal:
                seen = torch.arange(i, i + qi.shape[-2])[:, None] + (Nk - Nq) >= torch.arange(j, j + kj.shape[-2])
                p = torch.where(seen, p, 0.0)
            ds = p * (doi @ vj.transpose(-1, -2) - rowsum[..., i : i + BM, :]) * scale
            dq[..., i : i + BM, :] += ds @ kj
            dk += ds.transpose(-1, -2) @ qi
            dv += p.transpose(-1, -2) @ doi
        dks.append(dk)
        dvs.append(dv)
    return dq.to(q.dtype), torch.cat(dks, -2).to(k.dtype), torch.cat(dvs, -2).to(v.dtype)
""",
    ),
]

VARIANTS = WRONG + HONEST
