"""Unit 11, second half: positions, interfaces, caches, decoding."""

from grader.audit.variants import kinds

wrong, honest = kinds("model")

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
    wrong("kv_cache", "concatenates", [MOVES, RING, LONG, FULL, BUFFERS], source=CONCATENATED),
    wrong("kv_cache", "concatenates, the newest alone", [MOVES, RING, LONG, FULL, BUFFERS], (BODY, SORTED), says="sorted by age"),
    wrong("kv_cache", "returns copies", [MOVES, FULL, BUFFERS], (VIEWS, "return self.k[:, :, :n].clone(), self.v[:, :, :n].clone()")),
    wrong("kv_cache", "returns the whole cache", [PLAIN], (VIEWS, "return self.k, self.v"), says="slots that no token has come to"),
    wrong("kv_cache", "returns the new tokens", [PLAIN], (VIEWS, "return k, v"), says="the new tokens alone"),
    wrong("kv_cache", "length not counted", [PLAIN], ("        self.length += new\n", "        self.length = new\n")),
    wrong("kv_cache", "k in place of v", [PLAIN], ("(self.k, k), (self.v, v)", "(self.k, k), (self.v, k)")),
    wrong("kv_cache", "no ring", [RING, LONG, FULL, BUFFERS], (BODY, "        self.k[:, :, self.length : self.length + new] = k[:, :, : self.slots - self.length]\n        self.v[:, :, self.length : self.length + new] = v[:, :, : self.slots - self.length]\n        self.length = min(self.length + new, self.slots)\n")),
    wrong("kv_cache", "starts again at the end", [RING, LONG], ("first = min(new - skip, self.slots - start)", "start, first = (0, new - skip) if start + new - skip > self.slots else (start, new - skip)")),
    wrong("kv_cache", "of a long prompt, its beginning", [LONG], ("x[:, :, skip : skip + first]", "x[:, :, :first]"), ("x[:, :, skip + first :]", "x[:, :, first : new - skip]")),
    wrong("kv_cache", "a long prompt from slot 0", [LONG], ("(self.length + skip) % self.slots", "self.length % self.slots")),
    wrong("kv_cache", "one slot for the last", [RAGGED, RING, LONG, FULL, BUFFERS], ("n = min(self.length, self.slots)", "n = min(self.length, self.slots - 1)")),
    wrong("kv_cache", "writes all old tokens again", [MOVES, FULL, BUFFERS], ("            cache[:, :, : new - skip - first] = x[:, :, skip + first :]\n", "            cache[:, :, : new - skip - first] = x[:, :, skip + first :]\n            cache.copy_(cache.clone())\n")),
    wrong("kv_cache", "twice the slots", [BUFFERS], ("torch.empty(2, B, Hkv, slots, D", "torch.empty(2, B, Hkv, 2 * slots, D")),
    honest("kv_cache", "slots by their numbers", ("        new = k.shape[2]\n", "        new = k.shape[2]\n"), (BODY, LAPS)),
    honest("kv_cache", "k and v in tensors of their own", ("self.k, self.v = torch.empty(2, B, Hkv, slots, D, dtype=dtype, device=device)", "self.k, self.v = (torch.zeros(B, slots, Hkv, D, dtype=dtype, device=device).transpose(1, 2) for _ in range(2))")),
]  # fmt: skip
VARIANTS = CACHE
