"""Unit 05. What each variant must lose stands next to it; () means full marks."""

from grader.audit import named
from grader.audit.variants import kinds
from grader.audit.variants.forms import KILLS, breaking, logging, naming

wrong, honest = kinds("tiling")

# keys of criteria
OUTER, ANY = "counted.plain", "correct.ragged"
TRIPLES, CUT = "counted.plain", "correct.ragged"
TRACE = "correct.whole"
LARGE, OTHER = "holds.fits_and_moves_least.large", "holds.fits_and_moves_least.other shapes"
RAGGED, STRIDED, BATCHED = "correct.ragged", "correct.strided", "correct.batched"
LONG, SINGLE = "correct.long", "correct.float32"
READ_A, READ_B, DETOUR = ("rereads.a.performance", "rereads.b.performance", "traffic.performance")
LOADS, STORES = "coalesced.load.performance", "coalesced.store.performance"
PERFORMANCE = [READ_A, READ_B, DETOUR, LOADS, STORES]
WHOLE, CLIFFS = "correct.whole", "correct.cliffs"
SMALL_SIZES, WAVES = "holds.follows_the_model.roofline", "holds.follows_the_model.waves"
SLOWER, RANKS = "holds.slows_down.alignment", "holds.ranks_the_measured.measured"
ONCE, GROUPS, LAST = "holds.is_an_order.plain", "holds.finishes_groups.plain", "holds.finishes_groups.ragged"
CACHE, BESIDE, SQUARES = ("holds.saves_traffic.cache", "holds.touches.plain", "holds.stays_near.plain")
PADS = "holds.pads_least.plain"

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


SPILLS, WGMMA, FILLED, MOVED = (
    "by_the_compiler.spilled",
    "by_the_compiler.without_wgmma",
    "by_the_compiler.half_empty",
    "traffic.performance",
)
CHOSEN = "BLOCK_M=128, BLOCK_N=256, BLOCK_K=64, num_warps=8, num_stages=4"
EMPTY, PARTS_LONG, PARTS_BYTES, TWO_LAUNCHES, SAME_BITS = (
    "correct.empty",
    "correct.long",
    "traffic.performance",
    "launches.performance",
    "no_atomics.performance",
)


def config(m: int, n: int, k: int, warps: int, stages: int) -> tuple[str, str]:
    """The patch that chooses another configuration."""
    return CHOSEN, f"BLOCK_M={m}, BLOCK_N={n}, BLOCK_K={k}, num_warps={warps}, num_stages={stages}"


SPLIT_K = """@triton.jit
def parts_kernel(a_ptr, b_ptr, part_ptr, M, N, K, sab, sam, sak, sbb, sbk, sbn, SPLIT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pid, batch, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    rows = (pid // tl.cdiv(N, BN)) * BM + tl.arange(0, BM)[:, None]
    cols = (pid % tl.cdiv(N, BN)) * BN + tl.arange(0, BN)[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(split * BK, K, SPLIT * BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + batch * sab + rows * sam + k[None, :] * sak, mask=(rows < M) & (k[None, :] < K), other=0)
        b = tl.load(b_ptr + batch * sbb + k[:, None] * sbk + cols * sbn, mask=(k[:, None] < K) & (cols < N), other=0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    here = part_ptr + ((batch * SPLIT + split) * M + rows) * N + cols
    tl.store(here, acc, mask=(rows < M) & (cols < N))


@triton.jit
def sum_kernel(part_ptr, c_ptr, n, SPLIT: tl.constexpr, BLOCK: tl.constexpr):
    i, batch = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1)
    total = tl.zeros((BLOCK,), tl.float32)
    for split in range(SPLIT):
        total += tl.load(part_ptr + (batch * SPLIT + split) * n + i, mask=i < n, other=0)
    tl.store(c_ptr + batch * n + i, total, mask=i < n)


def matmul(a, b):
    if a.dim() == 2:
        return matmul(a[None], b[None])[0]
    (B, M, K), N = a.shape, b.shape[2]
    part = torch.empty(B, 2, M, N, dtype=torch.float32, device=a.device)
    c = torch.empty(B, M, N, dtype=a.dtype, device=a.device)
    side = 64 if a.dtype == torch.float32 else 128
    grid = (triton.cdiv(M, side) * triton.cdiv(N, side), B, 2)
    parts_kernel[grid](a, b, part, M, N, K, *a.stride(), *b.stride(), SPLIT=2, BM=side, BN=side, BK=32, num_warps=8)
    sum_kernel[(triton.cdiv(M * N, 4096), B)](part, c, M * N, SPLIT=2, BLOCK=4096)
    return c
"""
ALLOCATED = "    part = torch.empty(B, 2, M, N, dtype=torch.float32, device=a.device)\n"
SPLIT_K_KEPT = "workspaces = {}\n\n\n" + SPLIT_K.replace(
    ALLOCATED,
    """    if workspaces.setdefault("parts", a.new_empty(0, dtype=torch.float32)).numel() < 2 * B * M * N:
        workspaces["parts"] = torch.empty(2 * B * M * N, device=a.device)
    part = workspaces["parts"]
""",
)

SHARED, REGISTERS, REST = (f"holds.fills_the_sm.{group}" for group in ("shared memory", "registers", "the rest"))
ROOM = [SHARED, REGISTERS, REST]
L2, OTHERS = "holds.is_the_slowest.L2", "holds.is_the_slowest.the others"
PLAIN, SHORT, FLOAT16 = "correct.plain", "correct.short", "correct.float16"
SUMS_READ, SUMS_MOVED = "coalesced.load.performance", "traffic.performance"

LADDER = [
    wrong("occupancy", "registers are forgotten", [REGISTERS], ("sm[\"registers\"] // (warps * of_a_warp)", "10**6")),
    wrong("occupancy", "registers of one thread a warp", [REGISTERS], ("32 * registers, 256) * 256", "registers, 256) * 256")),
    wrong("occupancy", "not rounded up", [REGISTERS], ("triton.cdiv(32 * registers, 256) * 256", "32 * registers")),
    wrong("occupancy", "the kibibyte is forgotten", [SHARED], ("(shared_bytes + 1024)", "max(shared_bytes, 1)")),
    wrong("occupancy", "any number of programs", [REST], ('"programs": sm["programs"]', '"programs": 10**6')),
    wrong("occupancy", "any number of warps", [REST], ('"warps": sm["warps"] // warps', '"warps": 10**6')),
    wrong("occupancy", "at least one", [REST], ("return fit[limit], limit", "return max(1, fit[limit]), limit")),
    wrong("occupancy", "warps of 64 always", [REST], ('sm["warps"] // warps', "64 // warps")),
    wrong("occupancy", "the limit is always shared memory", [REGISTERS, REST], ("return fit[limit], limit", 'return fit[limit], "shared memory"')),
    wrong("occupancy", "the share, not the number", ROOM, ("return fit[limit], limit", 'return fit[limit] * warps / sm["warps"], limit')),
    honest("occupancy", "one after the other", source="""
def programs_per_sm(warps, registers, shared_bytes, sm):
    each = {"registers": warps * (-(-32 * registers // 256) * 256), "shared memory": shared_bytes + 1024, "warps": warps, "programs": 1}
    room = {"registers": sm["registers"], "shared memory": sm["shared_bytes"], "warps": sm["warps"], "programs": sm["programs"]}
    programs = 0
    while True:
        for name in room:
            room[name] -= each[name]
            if room[name] < 0:
                return programs, name
        programs += 1
"""),
    wrong("roofs", "DRAM alone", [L2, OTHERS], ("slowest = max(seconds, key=seconds.get)", 'slowest = "DRAM"')),
    wrong("roofs", "one after the other", [L2, OTHERS], ("return seconds[slowest]", "return sum(seconds.values())")),
    wrong("roofs", "every level gets what DRAM gets", [L2], ("matmul_bytes(m, n, k, *tile, itemsize)", "itemsize * (m * k + k * n + m * n)")),
    wrong("roofs", "the result is not stored", [L2], ("matmul_bytes(m, n, k, *tile, itemsize)", "matmul_bytes(m, n, k, *tile, itemsize) - itemsize * m * n")),
    wrong("roofs", "the result comes from shared memory", [OTHERS], (" - itemsize * m * n", "")),
    wrong("roofs", "warps share all", [OTHERS], ("matmul_bytes(m, n, k, *warp_tile, itemsize)", "matmul_bytes(m, n, k, *tile, itemsize)")),
    wrong("roofs", "half of the FLOPs", [OTHERS], ("2 * m * n * k", "m * n * k")),
    wrong("roofs", "the fastest", [L2, OTHERS], ("max(seconds", "min(seconds")),
    wrong("roofs", "no tensor cores", [OTHERS], ('        "tensor cores": 2 * m * n * k,\n', "")),
    honest("roofs", "by hand", source="""
def slowest_level(m, n, k, tile, warp_tile, itemsize, rates):
    def read(bm, bn):
        return itemsize * (m * k * triton.cdiv(n, bn) + k * n * triton.cdiv(m, bm))

    return max(
        (read(*tile) / rates["L2"] + itemsize * m * n / rates["L2"], "L2"),
        (read(*warp_tile) / rates["shared memory"], "shared memory"),
        (itemsize * (m * k + k * n + m * n) / rates["DRAM"], "DRAM"),
        (2 * m * n * k / rates["tensor cores"], "tensor cores"),
    )
"""),
    wrong("ladder", "b is read by columns", [PLAIN], ('"times b is read, strips of 64": 128', '"times b is read, strips of 64": 2')),
    wrong("ladder", "columns are dense", [PLAIN], ('"sectors of a load of b, naive": 64', '"sectors of a load of b, naive": 4')),
    wrong("ladder", "strips read a once", [PLAIN], ('"times a is read, strips of 64": 2', '"times a is read, strips of 64": 1')),
    wrong("ladder", "the result is no traffic", [PLAIN], ("294912", "262144")),
    wrong("ladder", "K steps count", [PLAIN], ('"times a is read, naive": 128', '"times a is read, naive": 256')),
    honest("ladder", "arithmetic", ("294912", "2 * 9 * 128 * 128"), ('"times a is read, tiles of 32": 4', '"times a is read, tiles of 32": 128 // 32')),
    wrong("row_sums", "the last block alone", [PLAIN], ("acc += tl.load", "acc = tl.load")),
    wrong("row_sums", "the first block each time", [PLAIN], ("k = start + tl.arange", "k = tl.arange")),
    wrong("row_sums", "the first block is missing", [PLAIN], ("range(0, K, BLOCK_K)", "range(BLOCK_K, K, BLOCK_K)")),
    wrong("row_sums", "blocks overlap", [PLAIN], ("range(0, K, BLOCK_K)", "range(0, tl.cdiv(K, BLOCK_K))")),
    wrong("row_sums", "a sum without an axis", [PLAIN], ("tl.sum(acc, 1)", "tl.sum(acc)")),
    wrong("row_sums", "whole blocks alone", [ANY, FLOAT16], ("range(0, K, BLOCK_K)", "range(0, K // BLOCK_K * BLOCK_K, BLOCK_K)"), tells="does a loop take no turn"),
    wrong("row_sums", "columns are not masked", [PLAIN], ("mask=(rows < M) & (k < K)", "mask=(rows < M) & (k >= 0)"), ("BLOCK_M=16, BLOCK_K=128", "BLOCK_M=16, BLOCK_K=1024")),
    wrong("row_sums", "rows are not masked", [ANY, FLOAT16], ("mask=(rows < M) & (k < K)", "mask=k < K")),
    wrong("row_sums", "rows packed", [ANY], ("a.stride(0), BLOCK_M", "K, BLOCK_M")),
    wrong("row_sums", "adds in float16", [FLOAT16, SUMS_READ, SUMS_MOVED], ("acc = tl.zeros((BLOCK_M, BLOCK_K), tl.float32)", "acc = tl.zeros((BLOCK_M, BLOCK_K), a_ptr.dtype.element_ty)"), ("other=0).to(tl.float32)", "other=0)")),
    wrong("row_sums", "a step for each column", [SUMS_READ, SUMS_MOVED], ("BLOCK_M=16, BLOCK_K=128", "BLOCK_M=128, BLOCK_K=1")),
    wrong("row_sums", "reads twice", [SUMS_MOVED], ("    m = tl.program_id(0)", "        acc += 0 * tl.load(a_ptr + rows * stride_m + k, mask=(rows < M) & (k < K), other=0, volatile=True).to(tl.float32)\n    m = tl.program_id(0)")),
    wrong("row_sums", "stored in each step", [SUMS_MOVED], ("other=0).to(tl.float32)\n", "other=0).to(tl.float32)\n        m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)\n        tl.store(out_ptr + m, tl.sum(acc, 1), mask=m < M)\n"), tells="after the loop"),
    wrong("row_sums", "start is multiplied by BLOCK_K", [PLAIN], ("k = start + tl", "k = start * BLOCK_K + tl")),
    wrong("row_sums", "rows one element apart", [PLAIN], ("a.stride(0), BLOCK_M", "a.stride(1), BLOCK_M")),
    wrong("row_sums", "each step's sums in float16", [FLOAT16, SUMS_READ, SUMS_MOVED], ("acc = tl.zeros((BLOCK_M, BLOCK_K), tl.float32)", "acc = tl.zeros((BLOCK_M,), tl.float32)"), ("acc += tl.load(a_ptr + rows * stride_m + k, mask=(rows < M) & (k < K), other=0).to(tl.float32)", "acc += tl.sum(tl.load(a_ptr + rows * stride_m + k, mask=(rows < M) & (k < K), other=0), 1, dtype=a_ptr.dtype.element_ty)"), ("tl.sum(acc, 1), mask", "acc, mask")),
    wrong("row_sums", "stored in each step, in a part of a larger tensor", [SUMS_MOVED], ("other=0).to(tl.float32)\n", "other=0).to(tl.float32)\n        m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)\n        tl.store(out_ptr + m, tl.sum(acc, 1), mask=m < M)\n"), ("torch.empty(M,", "torch.empty(64 * M,"), ("return out", "return out[:M]")),
    wrong("row_sums", "exchanged in each step", [SUMS_MOVED], ("other=0).to(tl.float32)\n", "other=0).to(tl.float32)\n        m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)\n        tl.atomic_xchg(out_ptr + m, tl.sum(acc, 1), mask=m < M)\n"), ("    tl.store(out_ptr + m, tl.sum(acc, 1), mask=m < M)\n", "")),
    wrong("row_sums", "stored in each step, in a buffer", [SUMS_MOVED], ("other=0).to(tl.float32)\n", "other=0).to(tl.float32)\n        m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)\n        tl.store(steps_ptr + m, tl.sum(acc, 1), mask=m < M)\n"), ("a_ptr, out_ptr, M", "a_ptr, out_ptr, steps_ptr, M"), ("(a, out, M", "(a, out, torch.empty_like(out), M")),
    wrong("row_sums", "torch does it", ["triton_did_the_work"], source="def row_sums(a):\n    return a.float().sum(1)\n"),
    wrong("row_sums", "halves come back", [PLAIN], ("out = torch.empty(M, dtype=torch.float32", "out = torch.empty(M, dtype=torch.float16")),
    wrong("row_sums", "acc begins as a number", ["compiles"], ("acc = tl.zeros((BLOCK_M, BLOCK_K), tl.float32)", "acc = 0.0"), tells="tl.zeros([16, 128], ...)"),
    honest("row_sums", "sums in each step", ("acc = tl.zeros((BLOCK_M, BLOCK_K), tl.float32)", "acc = tl.zeros((BLOCK_M,), tl.float32)"), ("acc += tl.load(a_ptr + rows * stride_m + k, mask=(rows < M) & (k < K), other=0).to(tl.float32)", "acc += tl.sum(tl.load(a_ptr + rows * stride_m + k, mask=(rows < M) & (k < K), other=0).to(tl.float32), 1)"), ("tl.sum(acc, 1), mask", "acc, mask")),
    honest("row_sums", "a program for a row", ("BLOCK_M=16, BLOCK_K=128", "BLOCK_M=1, BLOCK_K=512"), ("triton.cdiv(M, 16)", "M")),
    wrong("one_step", "K is not masked", ["correct.ragged", SHORT], ("mask=(rows < M) & (k[None, :] < K)", "mask=rows < M"), ("mask=(k[:, None] < K) & (cols < N)", "mask=cols < N")),
    wrong("one_step", "a alone is masked along K", ["correct.ragged", SHORT], ("mask=(k[:, None] < K) & (cols < N)", "mask=cols < N")),
    wrong("one_step", "masked positions are not zeros", ["correct.ragged", SHORT], (", other=0)", ")")),
    wrong("one_step", "masked positions are ones", ["correct.ragged", SHORT], ("(k[None, :] < K), other=0", "(k[None, :] < K), other=1"), ("(cols < N), other=0", "(cols < N), other=1")),
    wrong("one_step", "b by the stride of a", ["correct.ragged", SHORT, "programs.tall"], ("k[:, None] * N + cols", "k[:, None] * K + cols")),
    wrong("one_step", "no last tiles", ["correct.ragged", SHORT, "programs.tall"], ("triton.cdiv(M, 32), triton.cdiv(N, 32)", "M // 32, N // 32")),
    wrong("one_step", "K of 32", [PLAIN], ("BLOCK_K=64", "BLOCK_K=32")),
    wrong("one_step", "the store is not masked", ["correct.ragged", SHORT, "programs.tall"], ("c, mask=(rows < M) & (cols < N)", "c, mask=rows < M")),
    wrong("one_step", "torch does it", ["triton_did_the_work"], source="def one_step(a, b):\n    return a @ b\n"),
    wrong("one_step", "tiles of 24", ["compiles"], ("BLOCK=32", "BLOCK=24"), ("M, 32), triton.cdiv(N, 32)", "M, 24), triton.cdiv(N, 24)")),
    honest("one_step", "without tensor cores", ("tl.dot(a, b)", "tl.sum(a.to(tl.float32)[:, :, None] * b.to(tl.float32)[None, :, :], 1)"), ("BLOCK=32", "BLOCK=16"), ("M, 32), triton.cdiv(N, 32)", "M, 16), triton.cdiv(N, 16)")),
    honest("one_step", "b alone has zeros", ("(k[None, :] < K), other=0", "(k[None, :] < K), other=0.0"), ("BLOCK=32", "BLOCK=64"), ("M, 32), triton.cdiv(N, 32)", "M, 64), triton.cdiv(N, 64)")),
]  # fmt: skip

WRONG = [
    # -------------------- outer_product_matmul
    wrong(
        "outer_product_matmul",
        "multiplies matrices",
        ["correct.plain"],
        source="def outer_product_matmul(a, b):\n    return a @ b\n",
    ),
    wrong("outer_product_matmul", "one k too few", ["correct.plain"], ("range(a.shape[1])", "range(a.shape[1] - 1)")),
    wrong("outer_product_matmul", "loops over rows", ["correct.plain"], ("range(a.shape[1])", "range(a.shape[0])")),
    wrong(
        "outer_product_matmul",
        "turned",
        ["correct.plain"],
        ("torch.outer(a[:, k], b[k, :])", "torch.outer(b[k, :], a[:, k])"),
    ),
    wrong("outer_product_matmul", "keeps the last", ["correct.plain"], ("c += ", "c = ")),
    wrong("outer_product_matmul", "adds in float16", ["correct.plain"], ("dtype=a.dtype", "dtype=torch.float16")),
    wrong(
        "outer_product_matmul",
        "each twice",
        [OUTER],
        (
            "c += torch.outer(a[:, k], b[k, :])",
            "c += torch.outer(a[:, k], 0.5 * b[k, :])\n        c += torch.outer(0.5 * a[:, k], b[k, :])",
        ),
    ),
    wrong(
        "outer_product_matmul",
        "element by element",
        [ANY, OUTER],
        ("c += torch.outer(a[:, k], b[k, :])", "for m in range(a.shape[0]):\n            c[m] += a[m, k] * b[k, :]"),
    ),
    # -------------------- tiled_matmul
    wrong("tiled_matmul", "one product", [TRIPLES], source="def tiled_matmul(a, b, bm, bn, bk):\n    return a @ b\n"),
    wrong(
        "tiled_matmul",
        "whole bands of K",
        [TRIPLES],
        ("range(0, K, bk)", "range(0, K, K)"),
        ("k : k + bk]", "k : k + K]"),
        ("[k : k + bk,", "[k : k + K,"),
    ),
    wrong("tiled_matmul", "only whole tiles", [CUT], ("range(0, M, bm)", "range(0, M - bm + 1, bm)")),
    wrong("tiled_matmul", "only whole pieces of K", [CUT], ("range(0, K, bk)", "range(0, K - bk + 1, bk)")),
    wrong("tiled_matmul", "keeps the last piece", ["correct.plain"], ("] += a[", "] = a[")),
    wrong("tiled_matmul", "sides swapped", [CUT], ("range(0, M, bm)", "range(0, M, bn)")),
    wrong(
        "tiled_matmul",
        "a tile too short",
        ["correct.plain"],
        ("a[i : i + bm, k : k + bk]", "a[i : i + bm, k : k + bk - 1]"),
        ("b[k : k + bk,", "b[k : k + bk - 1,"),
    ),
    wrong("tiled_matmul", "adds in float16", ["correct.plain"], ("dtype=a.dtype", "dtype=torch.float16")),
    # -------------------- matmul_bytes
    wrong("matmul_bytes", "forgets the result", [TRACE, CUT], (" + m * n)", ")")),
    wrong("matmul_bytes", "numbers, not bytes", [TRACE, CUT], ("itemsize * (", "(")),
    wrong(
        "matmul_bytes",
        "whole tiles",
        [CUT],
        ("    a = m * k", "    m, n = triton.cdiv(m, bm) * bm, triton.cdiv(n, bn) * bn\n    a = m * k"),
    ),
    wrong("matmul_bytes", "the result is read, too", [TRACE, CUT], (" + m * n)", " + 2 * m * n)")),
    wrong(
        "matmul_bytes",
        "sides swapped",
        [TRACE, CUT],
        ("triton.cdiv(n, bn)", "triton.cdiv(m, bm)"),
        ("b = k * n * triton.cdiv(m, bm)", "b = k * n * triton.cdiv(n, bn)"),
    ),
    wrong(
        "matmul_bytes", "rounds down", [CUT], ("triton.cdiv(n, bn)", "(n // bn)"), ("triton.cdiv(m, bm)", "(m // bm)")
    ),
    wrong(
        "matmul_bytes",
        "a fraction of a tile",
        [CUT],
        ("triton.cdiv(n, bn)", "n / bn"),
        ("triton.cdiv(m, bm)", "m / bm"),
    ),
    wrong(
        "matmul_bytes",
        "rows and columns of a tile swapped",
        [CUT],
        ("triton.cdiv(n, bn)", "triton.cdiv(n, bm)"),
        ("triton.cdiv(m, bm)", "triton.cdiv(m, bn)"),
    ),
    wrong("matmul_bytes", "masked positions move", [CUT], ("a = m * k", "a = triton.cdiv(m, bm) * bm * k")),
    wrong("matmul_bytes", "always 4 bytes", [TRACE, CUT], ("itemsize * (", "4 * (")),
    wrong("matmul_bytes", "each once", [TRACE, CUT], (" * triton.cdiv(n, bn)", ""), (" * triton.cdiv(m, bm)", "")),
    # -------------------- predictions
    wrong(
        "predictions", "tiles in all", ["correct.plain"], ('"a, tiles of 64 x 64": 4,', '"a, tiles of 64 x 64": 16,')
    ),
    wrong(
        "predictions",
        "by the other side",
        ["correct.plain"],
        ('"a, tiles of 32 x 128": 2,', '"a, tiles of 32 x 128": 8,'),
        ('"b, tiles of 32 x 128": 8,', '"b, tiles of 32 x 128": 2,'),
    ),
    wrong("predictions", "longer pieces halve it", ["correct.plain"], ('twice as large": 4,', 'twice as large": 2,')),
    wrong("predictions", "one left out", ["correct.plain"], ('    "b, tiles of 64 x 64": 4,\n', "")),
    wrong("predictions", "words", ["correct.plain"], ('"b, tiles of 64 x 64": 4,', '"b, tiles of 64 x 64": "four",')),
    wrong(
        "predictions",
        "nothing saved",
        ["correct.plain"],
        ('"a, tiles of 64 x 64": 4,', '"a, tiles of 64 x 64": 256,'),
        ('"b, tiles of 64 x 64": 4,', '"b, tiles of 64 x 64": 256,'),
    ),
    # -------------------- best_tile
    wrong(
        "best_tile",
        "the largest area",
        [LARGE, OTHER],
        ("key=lambda tile: matmul_bytes(m, n, k, *tile, 2)", "key=lambda tile: (-tile[0] * tile[1], tile)"),
    ),
    wrong("best_tile", "squares alone", [LARGE, OTHER], ("if 3 * 64", "if bm == bn and 3 * 64")),
    wrong("best_tile", "no limit of registers", [LARGE], (" and bm * bn <= 32768", "")),
    wrong(
        "best_tile", "no limit of shared memory", [LARGE, OTHER], ("3 * 64 * (bm + bn) * 2 <= shared_bytes and ", "")
    ),
    wrong("best_tile", "one stage", [LARGE, OTHER], ("3 * 64 *", "64 *")),
    wrong("best_tile", "most bytes", [LARGE, OTHER], ("min(candidates", "max(candidates")),
    wrong("best_tile", "always 128 x 256", [LARGE, OTHER], ("    sides =", "    return 128, 256\n    sides =")),
    # -------------------- matmul
    wrong("matmul", "torch multiplies", ["triton_did_the_work"], source="def matmul(a, b):\n    return a @ b\n"),
    wrong(
        "matmul",
        "makes copies",
        ["triton_did_the_work"],
        ("    (B, M, K), N", "    a, b = a.contiguous(), b.contiguous()\n    (B, M, K), N"),
    ),
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
    wrong("matmul", "TF32", [SINGLE], (', input_precision="ieee"', "")),
    wrong(
        "matmul",
        "an accumulator in half precision",
        [RAGGED, STRIDED, BATCHED, LONG, *PERFORMANCE],
        (
            "acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)",
            "acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=a_ptr.dtype.element_ty)",
        ),
        (
            'acc = tl.dot(a, b, acc, input_precision="ieee")',
            'acc += tl.dot(a, b, input_precision="ieee").to(a_ptr.dtype.element_ty)',
        ),
    ),
    wrong(
        "matmul",
        "the sum in half precision",
        [RAGGED, STRIDED, BATCHED, LONG, *PERFORMANCE],
        (
            'acc = tl.dot(a, b, acc, input_precision="ieee")',
            'acc = tl.dot(a, b, acc, input_precision="ieee").to(a_ptr.dtype.element_ty).to(tl.float32)',
        ),
    ),
    wrong(
        "matmul",
        "no mask along K",
        [RAGGED, STRIDED, BATCHED, LONG, SINGLE],
        ("(rows < M) & (k[None, :] < K - start)", "rows < M"),
        ("(k[:, None] < K - start) & (cols < N)", "cols < N"),
    ),
    wrong(
        "matmul",
        "no mask along M and N in the loads",
        ["correct.plain"],
        ("(rows < M) & (k[None, :] < K - start)", "k[None, :] < K - start"),
        ("(k[:, None] < K - start) & (cols < N)", "k[:, None] < K - start"),
    ),
    wrong("matmul", "masked positions unset", [RAGGED, STRIDED, BATCHED, LONG, SINGLE], (", other=0)", ")")),
    wrong(
        "matmul",
        "only whole tiles",
        [RAGGED, STRIDED, BATCHED, LONG, SINGLE, *PERFORMANCE],
        ('triton.cdiv(N, shape["BLOCK_N"])', 'max(1, N // shape["BLOCK_N"])'),
        ('triton.cdiv(M, shape["BLOCK_M"])', 'M // shape["BLOCK_M"]'),
    ),
    wrong(
        "matmul",
        "contiguous matrices alone",
        [STRIDED, BATCHED, SINGLE],
        ("*a.stride(), *b.stride()", "M * K, K, 1, K * N, N, 1"),
    ),
    wrong(
        "matmul",
        "strides of a swapped",
        ["correct.plain"],
        ("rows * stride_am + k[None, :] * stride_ak", "rows * stride_ak + k[None, :] * stride_am"),
        ("a_ptrs += BLOCK_K * stride_ak", "a_ptrs += BLOCK_K * stride_am"),
        tells="result for `a` read with its strides",
    ),
    wrong(
        "matmul",
        "b goes on by the stride of its rows' elements",
        [RAGGED, STRIDED, BATCHED, LONG, SINGLE, *PERFORMANCE],
        ("b_ptrs += BLOCK_K * stride_bk", "b_ptrs += BLOCK_K * stride_bn"),
    ),
    wrong(
        "matmul", "strides of b swapped", ["correct.plain"], ("*b.stride()", "b.stride(0), b.stride(2), b.stride(1)")
    ),
    wrong("matmul", "a goes on by BLOCK_K", [STRIDED], ("a_ptrs += BLOCK_K * stride_ak", "a_ptrs += BLOCK_K")),
    wrong(
        "matmul",
        "b stays where it is",
        [RAGGED, STRIDED, BATCHED, LONG, SINGLE, *PERFORMANCE],
        ("        b_ptrs += BLOCK_K * stride_bk\n", ""),
    ),
    wrong(
        "matmul",
        "each group as high as the others",
        [RAGGED, SINGLE, *PERFORMANCE],
        ("height = min(grid_m - first, GROUP)", "height = GROUP"),
    ),
    wrong(
        "matmul",
        "the last block alone",
        [RAGGED, STRIDED, BATCHED, LONG, SINGLE, *PERFORMANCE],
        ('acc = tl.dot(a, b, acc, input_precision="ieee")', 'acc = tl.dot(a, b, input_precision="ieee")'),
    ),
    wrong(
        "matmul",
        "stored in each step",
        [DETOUR],
        (
            "        a_ptrs += BLOCK_K",
            "        tl.store(c_ptr + batch * M * N + rows * N + cols, acc.to(c_ptr.dtype.element_ty), mask=(rows < M) & (cols < N))\n        a_ptrs += BLOCK_K",
        ),
        tells="after the loop",
    ),
    wrong(
        "matmul",
        "the mask of pointers that stand still",
        [RAGGED, STRIDED, BATCHED, LONG, SINGLE],
        ("k[None, :] < K - start", "k[None, :] < K"),
        ("k[:, None] < K - start", "k[:, None] < K"),
    ),
    wrong(
        "matmul",
        "columns first in memory",
        ["correct.plain"],
        (
            "torch.empty(B, M, N, dtype=a.dtype, device=a.device)",
            "torch.empty(B, N, M, dtype=a.dtype, device=a.device).mT",
        ),
        ("rows * N + cols", "rows + cols * M"),
        tells="not contiguous",
    ),
    *(
        wrong(
            "matmul",
            f"row order, {what}",
            [RAGGED, *also, SINGLE, *PERFORMANCE],
            ("rows = (first + within % height)", f"rows = ({row})"),
            ("cols = (within // height)", f"cols = ({column})"),
        )
        for what, row, column, also in [
            ("divided by grid_m", "pid // grid_m", "pid % grid_m", []),
            ("row and column swapped", "pid % grid_n", "pid // grid_n", [STRIDED]),
        ]
    ),
    wrong("matmul", "all of a batch in one place", [BATCHED], ("c_ptr + batch * M * N + rows", "c_ptr + rows")),
    wrong("matmul", "rows of c K apart", ["correct.plain"], ("rows * N + cols", "rows * K + cols")),
    wrong("matmul", "the first of each batch", [BATCHED], ("b_ptr + batch * stride_bb", "b_ptr + 0 * stride_bb")),
    wrong(
        "matmul",
        "no batches",
        [BATCHED],
        ("    if a.dim() == 2:", "    if a.dim() == 3:\n        raise ValueError('one matrix')\n    if a.dim() == 2:"),
        ("return matmul(a[None], b[None])[0]", "a, b = a[None], b[None]"),
        ("return c\n", "return c[0]\n"),
    ),
    wrong("matmul", "float32 results", ["correct.plain"], ("dtype=a.dtype, device", "dtype=torch.float32, device")),
    wrong(
        "matmul",
        "adds to what was there",
        ["correct.plain"],
        (
            "acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)",
            "acc = tl.load(c_ptr + batch * M * N + rows * N + cols, mask=(rows < M) & (cols < N), other=0).to(tl.float32)",
        ),
    ),
    wrong("matmul", "steps of 8", ["compiles"], *tiles((64, 64, 8, 4, 2), (128, 128, 8, 4, 2))),
    # -------------------- tiles_and_waves
    wrong(
        "tiles_and_waves",
        "rounds tiles down",
        [CLIFFS],
        ("triton.cdiv(m, bm) * triton.cdiv(n, bn)", "(m // bm) * (n // bn)"),
    ),
    wrong("tiles_and_waves", "rounds waves down", [WHOLE, CLIFFS], ("triton.cdiv(tiles, sms)", "tiles // sms")),
    wrong(
        "tiles_and_waves",
        "by area",
        [CLIFFS],
        ("triton.cdiv(m, bm) * triton.cdiv(n, bn)", "triton.cdiv(m * n, bm * bn)"),
    ),
    wrong(
        "tiles_and_waves",
        "sides swapped",
        [CLIFFS],
        ("triton.cdiv(m, bm) * triton.cdiv(n, bn)", "triton.cdiv(m, bn) * triton.cdiv(n, bm)"),
    ),
    wrong("tiles_and_waves", "a wave too many", [WHOLE, CLIFFS], ("triton.cdiv(tiles, sms)", "tiles // sms + 1")),
    wrong(
        "tiles_and_waves",
        "turned",
        [WHOLE, CLIFFS],
        ("return tiles, triton.cdiv(tiles, sms)", "return triton.cdiv(tiles, sms), tiles"),
    ),
    wrong("tiles_and_waves", "tiles alone", [WHOLE, CLIFFS], ("return tiles, triton.cdiv(tiles, sms)", "return tiles")),
    # -------------------- predicted_throughput
    wrong("predicted_throughput", "no launch", [SMALL_SIZES, WAVES], ("seconds = launch_seconds + ", "seconds = ")),
    wrong(
        "predicted_throughput",
        "waves may be fractions",
        [SMALL_SIZES, WAVES],
        ("waves * wave", "n * n / (bm * bn * sms) * wave"),
    ),
    wrong(
        "predicted_throughput",
        "no memory",
        [SMALL_SIZES],
        ("max(waves * wave, 6 * n * n / bytes_per_second)", "waves * wave"),
    ),
    wrong(
        "predicted_throughput",
        "one after the other",
        [SMALL_SIZES, WAVES],
        ("max(waves * wave, 6 * n * n / bytes_per_second)", "waves * wave + 6 * n * n / bytes_per_second"),
    ),
    wrong("predicted_throughput", "no alignment", [SLOWER, RANKS], (" * share[min(8, n & -n)]", "")),
    wrong(
        "predicted_throughput",
        "alignment upside down",
        [SMALL_SIZES, WAVES, SLOWER, RANKS],
        ("{1: 0.2, 2: 0.28, 4: 0.3, 8: 1.0}", "{1: 1.0, 2: 0.3, 4: 0.28, 8: 0.2}"),
    ),
    wrong("predicted_throughput", "seconds", [SMALL_SIZES, WAVES, RANKS], ("2 * n**3 / seconds", "seconds")),
    wrong(
        "predicted_throughput",
        "the whole GPU for each tile",
        [SMALL_SIZES, WAVES, RANKS],
        ("(flops_per_second / sms)", "flops_per_second"),
    ),
    wrong("predicted_throughput", "4-byte numbers", [SMALL_SIZES], ("6 * n * n", "12 * n * n")),
    wrong(
        "predicted_throughput", "one number", [SMALL_SIZES, WAVES, SLOWER, RANKS], ("return speeds", "return speeds[0]")
    ),
    # -------------------- pad_to_multiple
    wrong(
        "pad_to_multiple",
        "one too many",
        [PADS],
        ("triton.cdiv(n, multiple) * multiple", "(n // multiple + 1) * multiple"),
    ),
    wrong(
        "pad_to_multiple", "rounds down", [PADS], ("triton.cdiv(n, multiple) * multiple", "n // multiple * multiple")
    ),
    wrong("pad_to_multiple", "the padding alone", [PADS], ("triton.cdiv(n, multiple) * multiple", "-n % multiple")),
    wrong(
        "pad_to_multiple",
        "a power of two",
        [PADS],
        ("triton.cdiv(n, multiple) * multiple", "triton.next_power_of_2(n)"),
    ),
    wrong("pad_to_multiple", "always 64", [PADS], ("triton.cdiv(n, multiple) * multiple", "triton.cdiv(n, 64) * 64")),
    wrong(
        "pad_to_multiple",
        "a float",
        [PADS],
        ("triton.cdiv(n, multiple) * multiple", "float(triton.cdiv(n, multiple) * multiple)"),
    ),
    # -------------------- grouped_order
    wrong(
        "grouped_order",
        "row order",
        [GROUPS, LAST, CACHE],
        source="def grouped_order(pid, grid_m, grid_n, group):\n    return pid // grid_n, pid % grid_n\n",
    ),
    wrong(
        "grouped_order",
        "column order",
        [GROUPS, LAST, CACHE],
        source="def grouped_order(pid, grid_m, grid_n, group):\n    return pid % grid_m, pid // grid_m\n",
    ),
    wrong(
        "grouped_order",
        "rows within groups",
        [GROUPS, LAST, CACHE],
        ("first + within % height, within // height", "first + within // grid_n, within % grid_n"),
    ),
    wrong(
        "grouped_order",
        "last group as high as the others",
        [LAST],
        ("height = min(grid_m - first, group)", "height = group"),
    ),
    wrong(
        "grouped_order",
        "groups of columns",
        [GROUPS, LAST],
        source="def grouped_order(pid, grid_m, grid_n, group):\n    first = pid // (group * grid_m) * group\n    width = min(grid_n - first, group)\n    within = pid % (group * grid_m)\n    return within // width, first + within % width\n",
    ),
    wrong(
        "grouped_order",
        "turned",
        [ONCE, GROUPS, LAST],
        ("return first + within % height, within // height", "return within // height, first + within % height"),
    ),
    wrong(
        "grouped_order",
        "forgets the first row",
        [ONCE, GROUPS, LAST, CACHE],
        ("return first + within", "return within"),
    ),
    wrong(
        "grouped_order",
        "everyone the first tile",
        [ONCE, GROUPS, LAST, CACHE],
        ("return first + within % height, within // height", "return 0, 0"),
    ),
    # -------------------- hilbert_order
    wrong(
        "hilbert_order",
        "row order",
        [BESIDE, SQUARES, CACHE],
        source="def hilbert_order(pid, side):\n    return pid // side, pid % side\n",
    ),
    wrong(
        "hilbert_order",
        "a snake",
        [SQUARES, CACHE],
        source="def hilbert_order(pid, side):\n    m, n = divmod(pid, side)\n    return m, n if m % 2 == 0 else side - 1 - n\n",
    ),
    wrong(
        "hilbert_order",
        "Morton's order",
        [BESIDE],
        source="def hilbert_order(pid, side):\n    if side == 1:\n        return 0, 0\n    h = side // 2\n    quarter, rest = divmod(pid, h * h)\n    m, n = hilbert_order(rest, h)\n    return m + quarter // 2 * h, n + quarter % 2 * h\n",
    ),
    wrong(
        "hilbert_order",
        "nothing turned",
        [BESIDE],
        ("return n, m  # turned", "return m, n"),
        ("return 2 * h - 1 - n, h - 1 - m", "return h + m, n"),
    ),
    wrong(
        "hilbert_order", "the last quarter not turned", [BESIDE], ("return 2 * h - 1 - n, h - 1 - m", "return h + m, n")
    ),
    wrong("hilbert_order", "quarters overlap", [BESIDE, SQUARES, CACHE], ("return m + h, n + h", "return m, n + h")),
    wrong("hilbert_order", "outside", [BESIDE, SQUARES, CACHE], ("return m, n + h", "return m, n + side")),
]

HONEST = [
    honest("outer_product_matmul", "by broadcasting", ("torch.outer(a[:, k], b[k, :])", "a[:, k, None] * b[None, k]")),
    honest("outer_product_matmul", "addr", ("c += torch.outer(a[:, k], b[k, :])", "c = torch.addr(c, a[:, k], b[k])")),
    honest("outer_product_matmul", "from the end", ("range(a.shape[1])", "reversed(range(a.shape[1]))")),
    honest(
        "tiled_matmul",
        "k outermost",
        source=(
            "def tiled_matmul(a, b, bm, bn, bk):\n    c = a.new_zeros(a.shape[0], b.shape[1])\n"
            "    for a_band, b_band in zip(a.split(bk, 1), b.split(bk, 0)):\n"
            "        for c_rows, a_tile in zip(c.split(bm), a_band.split(bm)):\n"
            "            for tile, b_tile in zip(c_rows.split(bn, 1), b_band.split(bn, 1)):\n"
            "                tile.addmm_(a_tile, b_tile)\n    return c\n"
        ),
    ),
    honest(
        "tiled_matmul",
        "an accumulator for each tile",
        (
            "            for k in range(0, K, bk):\n                c[i : i + bm, j : j + bn] += a[i : i + bm, k : k + bk] @ b[k : k + bk, j : j + bn]\n",
            "            acc = torch.zeros_like(c[i : i + bm, j : j + bn])\n            for k in range(0, K, bk):\n"
            "                acc = acc + torch.matmul(a[i : i + bm, k : k + bk], b[k : k + bk, j : j + bn])\n            c[i : i + bm, j : j + bn] = acc\n",
        ),
    ),
    honest(
        "matmul_bytes",
        "tile by tile",
        source=(
            "def matmul_bytes(m, n, k, bm, bn, itemsize):\n    total = m * n\n    for i in range(0, m, bm):\n        for j in range(0, n, bn):\n"
            "            total += (min(bm, m - i) + min(bn, n - j)) * k\n    return total * itemsize\n"
        ),
    ),
    honest("predictions", "floats", ('"a, tiles of 64 x 64": 4,', '"a, tiles of 64 x 64": 256 / 64,')),
    honest("best_tile", "the last of the best", ("min(candidates, key", "min(reversed(candidates), key")),
    honest(
        "best_tile",
        "bytes of its own",
        ("matmul_bytes(m, n, k, *tile, 2)", "-(-n // tile[1]) * m + -(-m // tile[0]) * n"),
    ),
    honest(
        "tiles_and_waves", "with ceilings", ("triton.cdiv(m, bm) * triton.cdiv(n, bn)", "-(-m // bm) * -(-n // bn)")
    ),
    honest(
        "predicted_throughput",
        "other shares",
        ("{1: 0.2, 2: 0.28, 4: 0.3, 8: 1.0}", "{1: 0.15, 2: 0.2, 4: 0.22, 8: 1.0}"),
    ),
    honest(
        "predicted_throughput",
        "one share for all",
        ("{1: 0.2, 2: 0.28, 4: 0.3, 8: 1.0}", "{1: 0.25, 2: 0.25, 4: 0.25, 8: 1.0}"),
    ),
    honest("pad_to_multiple", "by what is left", ("triton.cdiv(n, multiple) * multiple", "n + -n % multiple")),
    honest(
        "grouped_order",
        "divmod",
        source=(
            "def grouped_order(pid, grid_m, grid_n, group):\n    which, within = divmod(pid, group * grid_n)\n"
            "    height = min(grid_m - which * group, group)\n    n, m = divmod(within, height)\n    return which * group + m, n\n"
        ),
    ),
    honest(
        "hilbert_order",
        "a mirror image, with bits",
        source=(
            "def hilbert_order(pid, side):\n    x = y = 0\n    s = 1\n    while s < side:\n        rx = 1 & (pid // 2)\n        ry = 1 & (pid ^ rx)\n"
            "        if ry == 0:\n            if rx == 1:\n                x, y = s - 1 - x, s - 1 - y\n            x, y = y, x\n"
            "        x, y = x + s * rx, y + s * ry\n        pid //= 4\n        s *= 2\n    return x, y\n"
        ),
    ),
    # -------------------- matmul
    honest("matmul", "tiles of 128 and 64", *tiles((64, 128, 16, 4, 2), (128, 128, 32, 4, 3))),
    honest("matmul", "tall, not square", *tiles((128, 64, 16, 4, 2), (256, 64, 32, 8, 3))),
    honest("matmul", "row order", ("GROUP=8", "GROUP=1")),
    honest(
        "matmul",
        "the sum outside of tl.dot",
        ('acc = tl.dot(a, b, acc, input_precision="ieee")', 'acc += tl.dot(a, b, input_precision="ieee")'),
    ),
    honest("matmul", "precision by the older name", ('input_precision="ieee"', "allow_tf32=False")),
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
    honest(
        "matmul",
        "a grid of three axes, no groups",
        source="""@triton.jit
def kernel(a_ptr, b_ptr, c_ptr, M, N, K, sab, sam, sak, sbb, sbk, sbn, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr):
    batch = tl.program_id(2)
    rows = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + batch * sab + rows[:, None] * sam + k[None, :] * sak, (rows[:, None] < M) & (k[None, :] < K), 0.0)
        b = tl.load(b_ptr + batch * sbb + cols[:, None] * sbn + k[None, :] * sbk, (cols[:, None] < N) & (k[None, :] < K), 0.0)
        acc = tl.dot(a, b.T, acc, input_precision="ieee")
    tl.store(c_ptr + batch * M * N + rows[:, None] * N + cols[None, :], acc, (rows[:, None] < M) & (cols[None, :] < N))


def matmul(a, b):
    M, K, N = *a.shape[-2:], b.shape[-1]
    strides = [0, *a.stride(), 0, *b.stride()] if a.dim() == 2 else [*a.stride(), *b.stride()]
    c = a.new_empty(*a.shape[:-1], N)
    grid = (triton.cdiv(N, 64), triton.cdiv(M, 64), a.shape[0] if a.dim() == 3 else 1)
    kernel[grid](a, b, c, M, N, K, *strides, BLOCK=64, BLOCK_K=32)
    return c
""",
    ),
    honest(
        "matmul",
        "persistent, a helper kernel, wrapped indices",
        source="""@triton.jit
def place(tile, grid_m, grid_n, GROUP: tl.constexpr):
    first = tile // (GROUP * grid_n) * GROUP
    height = tl.minimum(grid_m - first, GROUP)
    return first + tile % (GROUP * grid_n) % height, tile % (GROUP * grid_n) // height


@triton.jit
def kernel(a_ptr, b_ptr, c_ptr, B, M, N, K, sab, sam, sak, sbb, sbk, sbn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    grid_m, grid_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    for job in range(tl.program_id(0), B * grid_m * grid_n, tl.num_programs(0)):
        batch = (job // (grid_m * grid_n)).to(tl.int64)
        m, n = place(job % (grid_m * grid_n), grid_m, grid_n, 4)
        rows, cols = m * BM + tl.arange(0, BM), n * BN + tl.arange(0, BN)
        k = tl.arange(0, BK)
        a_ptrs = a_ptr + batch * sab + (rows % M)[:, None] * sam + k[None, :] * sak
        b_ptrs = b_ptr + batch * sbb + k[:, None] * sbk + (cols % N)[None, :] * sbn
        acc = tl.zeros((BM, BN), tl.float32)
        for start in range(0, K, BK):
            a = tl.load(a_ptrs, mask=k[None, :] < K - start, other=0.0)
            b = tl.load(b_ptrs, mask=k[:, None] < K - start, other=0.0)
            acc = tl.dot(a, b, acc, input_precision="ieee")
            a_ptrs += BK * sak
            b_ptrs += BK * sbk
        c = c_ptr + batch * M * N + rows[:, None] * N + cols[None, :]
        tl.store(c, acc.to(c_ptr.dtype.element_ty), mask=(rows[:, None] < M) & (cols[None, :] < N))


def matmul(a, b):
    single = a.dim() == 2
    if single:
        a, b = a.unsqueeze(0), b.unsqueeze(0)
    (B, M, K), N = a.shape, b.shape[-1]
    c = torch.empty((B, M, N), dtype=a.dtype, device=a.device)
    kernel[(132,)](a, b, c, B, M, N, K, *a.stride(), *b.stride(), BM=64, BN=64, BK=32)
    return c.squeeze(0) if single else c
""",
    ),
    honest("matmul", "split along K, parts in a buffer", source=SPLIT_K),
    honest("matmul", "split along K, parts in a buffer that is kept", source=SPLIT_K_KEPT),
]

NAMING = naming((wrong, honest), ("name_maps", "named_maps"), named.CAUSES["tiling.name_maps"])

BREAKING = [
    *breaking(wrong, "break_matmul", "{'a': torch.randn(64, 64), 'b': torch.randn(64, 64)}"),
    wrong("break_matmul", "numbers that no kernel gets right", [KILLS], ("return [", "return [{'a': torch.full((3, 5), float('nan')), 'b': torch.ones(5, 3)}, ")),
    wrong("break_matmul", "more than is allowed", [KILLS], ("return [", "return [{'a': torch.ones(200, 200), 'b': torch.ones(200, 3)}, ")),
    wrong("break_matmul", "the exercise for another dtype", [KILLS], source="def breaking_inputs():\n    return [{'a': torch.ones(4, 70, dtype=torch.int32), 'b': torch.ones(70, 3)}]\n"),
    wrong("break_matmul", "sizes alone", [KILLS], source="def breaking_inputs():\n    return [{'a': torch.randn(100, 37), 'b': torch.randn(37, 50)}]\n"),
    honest("break_matmul", "other sizes", ("30 + torch.rand(40, 256), \"b\": torch.rand(256, 20)", "20 * torch.randn(30, 200), \"b\": torch.randn(200, 70)")),
]  # fmt: skip

LOG = logging(
    (wrong, honest),
    "tiling.matmul_log",
    ({"M": 128, "N": 256, "K": 64}, {"M": 256, "N": 128, "K": 128}),
    ("first_matmul", {"bytes": "2*M*N*K*(1 + 1/64) + 2*M*N", "sectors": "M*N*K*(1 + 1/64)/16 + M*N/16", "launches": 1}),
)

VARIANTS = LOG + BREAKING + NAMING + LADDER + WRONG + HONEST

VARIANTS += [
    # -------------------- tune
    wrong("tune", "4 warps", [SPILLS], config(128, 256, 64, 4, 4)),
    wrong("tune", "256 x 256", [SPILLS], config(256, 256, 64, 8, 3)),
    wrong("tune", "256 x 256, 16 warps: no such registers", [SPILLS, WGMMA, FILLED], config(256, 256, 32, 16, 4)),
    wrong("tune", "three stages", [FILLED], config(128, 256, 64, 8, 3)),
    wrong("tune", "five stages: too much shared memory", [SPILLS, WGMMA, FILLED], config(128, 256, 64, 8, 5)),
    wrong("tune", "short steps", [FILLED], config(128, 256, 32, 8, 4)),
    wrong("tune", "the default warps and stages", [SPILLS, FILLED], (", num_warps=8, num_stages=4", "")),
    wrong("tune", "128 x 128, six stages", [MOVED], config(128, 128, 64, 8, 6)),
    wrong("tune", "64 x 64", [FILLED, MOVED], config(64, 64, 64, 4, 4)),
    wrong("tune", "32 rows: mma.sync", [WGMMA, MOVED], config(32, 256, 64, 4, 6)),
    wrong("tune", "no number for BLOCK_K", ["correct.plain"], ("BLOCK_K=64, ", "")),
    wrong("tune", "torch multiplies", ["triton_did_the_work"], source="def configuration():\n    pass\n\n\ndef tuned_matmul(a, b):\n    return a @ b\n", tells="`configuration` returns nothing"),
    honest("tune", "the tile turned", config(256, 128, 64, 8, 4)),
    honest("tune", "long steps", config(128, 256, 128, 8, 2)),
    honest("tune", "16 warps", config(128, 256, 64, 16, 4)),
    # -------------------- split_k
    wrong("split_k", "the rest of K is left out", [RAGGED, EMPTY, PARTS_LONG], ("share = triton.cdiv(K, splits)", "share = K // splits")),
    wrong("split_k", "shares overlap", [RAGGED, EMPTY, PARTS_LONG], ("k[None, :] < stop", "k[None, :] < K"), ("k[:, None] < stop", "k[:, None] < K")),
    wrong("split_k", "the last share goes past K", [RAGGED, EMPTY, PARTS_LONG], ("stop = tl.minimum((split + 1) * share, K)", "stop = (split + 1) * share")),
    wrong("split_k", "empty shares store nothing", [EMPTY], ("acc, mask=(rows < M) & (cols < N))", "acc, mask=(rows < M) & (cols < N) & (split * share < K))")),
    wrong("split_k", "parts in half precision", [RAGGED, EMPTY, PARTS_LONG], ("parts = torch.empty(splits, M, N, dtype=torch.float32", "parts = torch.empty(splits, M, N, dtype=a.dtype"), ("+ cols, acc, mask", "+ cols, acc.to(parts_ptr.dtype.element_ty), mask")),
    wrong("split_k", "adds up in half precision", [RAGGED, EMPTY, PARTS_LONG], ("        total += tl.load(parts_ptr + split * n + offs, mask=offs < n, other=0)\n", "        total += tl.load(parts_ptr + split * n + offs, mask=offs < n, other=0)\n        total = total.to(c_ptr.dtype.element_ty).to(tl.float32)\n")),
    wrong("split_k", "the first part alone", ["correct.plain"], ("for split in range(splits):", "for split in range(1):")),
    wrong("split_k", "all parts in one place", ["correct.plain"], ("(split * M + rows) * N", "rows * N")),
    wrong("split_k", "one share, whatever is asked", [PARTS_BYTES], ("    parts = torch", "    splits = 1\n    parts = torch")),
    wrong("split_k", "tiles of 16", [PARTS_BYTES], ("triton.cdiv(M, 64) * triton.cdiv(N, 64)", "triton.cdiv(M, 16) * triton.cdiv(N, 16)"), ("BLOCK_M=64, BLOCK_N=64", "BLOCK_M=16, BLOCK_N=16")),
    wrong("split_k", "one program adds up", [PARTS_BYTES], ("triton.cdiv(M * N, 512)", "1"), ("BLOCK=512", "BLOCK=triton.next_power_of_2(M * N)")),
    wrong("split_k", "a launch for each share", [TWO_LAUNCHES, PARTS_BYTES], ("N, K, share,\n", "N, K, share, split,\n"), ("tile, split = tl.program_id(0), tl.program_id(1)", "tile = tl.program_id(0)"), ("    parts_kernel[grid](a, b, parts, M, N, K, share, BLOCK", "    for split in range(splits):\n        parts_kernel[grid[:1]](a, b, parts, M, N, K, share, split, BLOCK"), tells="`parts_kernel` is launched"),
    wrong("split_k", "parts are added atomically", [SAME_BITS], ("    tl.store(parts_ptr + (split * M + rows) * N + cols, acc,", "    tl.atomic_add(parts_ptr + rows * N + cols, acc,"), ("torch.empty(splits, M, N,", "torch.zeros(1, M, N,"), ("parts, c, M * N, splits,", "parts, c, M * N, 1,")),
    wrong("split_k", "TF32", [RAGGED], (', input_precision="ieee"', "")),
    wrong("split_k", "the sum begins as a number", ["compiles"], ("total = tl.zeros((BLOCK,), tl.float32)", "total = 0.0"), tells="tl.zeros([512], ...)"),
    wrong("split_k", "torch adds up", ["triton_did_the_work"], ("    sum_kernel[(triton.cdiv(M * N, 512),)](parts, c, M * N, splits, BLOCK=512)\n    return c", "    return parts.sum(0).to(a.dtype)")),
    honest("split_k", "wide tiles, long steps", ("BLOCK_M=64, BLOCK_N=64, BLOCK_K=32", "BLOCK_M=64, BLOCK_N=128, BLOCK_K=64"), ("triton.cdiv(N, 64)", "triton.cdiv(N, 128)")),
    honest("split_k", "shares of every splits-th step", ("range(split * share, stop, BLOCK_K)", "range(split * BLOCK_K, K, tl.num_programs(1) * BLOCK_K)"), ("k[None, :] < stop", "k[None, :] < K"), ("k[:, None] < stop", "k[:, None] < K")),
]  # fmt: skip
