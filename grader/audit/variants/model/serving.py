"""Unit 11, second half: positions, interfaces, caches, decoding."""

from grader.audit.variants import kinds

wrong, honest = kinds("model")

# keys of criteria
PLAIN, RAGGED, RING, LONG = "correct.plain", "correct.ragged", "correct.ring", "correct.long"
MOVES, FULL, BUFFERS = "moves.performance", "moves.full ring", "buffers_below.performance"

CACHE = [
    wrong("kv_cache", "concatenates", [MOVES, BUFFERS, RING, LONG, FULL],
          source="""class KVCache:
    def __init__(self, B, Hkv, slots, D, dtype=torch.float32, device="cpu"):
        self.k = self.v = torch.empty(B, Hkv, 0, D, dtype=dtype, device=device)

    def append(self, k, v):
        self.k, self.v = torch.cat([self.k, k], 2), torch.cat([self.v, v], 2)
        return self.k, self.v
"""),
    wrong("kv_cache", "returns copies", [MOVES, BUFFERS, FULL], ("return self.k[:, :, :n], self.v[:, :, :n]", "return self.k[:, :, :n].clone(), self.v[:, :, :n].clone()")),
    wrong("kv_cache", "returns the whole cache", [PLAIN], ("return self.k[:, :, :n], self.v[:, :, :n]", "return self.k, self.v")),
    wrong("kv_cache", "length not counted", [PLAIN], ("        self.length += new\n", "")),
    wrong("kv_cache", "v in place of k", [PLAIN], ("(self.k, k), (self.v, v)", "(self.k, v), (self.v, v)")),
]
VARIANTS = CACHE
