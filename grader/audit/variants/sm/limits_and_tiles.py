"""Limits, tiles, machine code, orders of tiles, descriptors."""

from grader.audit.variants import kinds

wrong, honest = kinds("sm")

# ------------------------------------------------------------------------------------------------ light and watts

PEAK, THROTTLED = "correct.peak", "correct.throttled"
LIGHT = [
    wrong("speed_of_light", "one operation for a multiply-add", [PEAK, THROTTLED], ("2 * sms * macs", "sms * macs")),
    wrong("speed_of_light", "four tensor cores more", [PEAK, THROTTLED], ("2 * sms * macs", "8 * sms * macs")),
    wrong("speed_of_light", "idle watts throttle, too", [THROTTLED], ("((limit - idle) / switching)", "(limit / (idle + switching))")),
    wrong("speed_of_light", "a straight line", [THROTTLED], (" ** (1 / 3)", "")),
    wrong("speed_of_light", "a square root", [THROTTLED], ("(1 / 3)", "(1 / 2)")),
    wrong("speed_of_light", "faster than the clock", [PEAK], ("min(1.0, ((limit - idle) / switching) ** (1 / 3))", "((limit - idle) / switching) ** (1 / 3)")),
    wrong("speed_of_light", "never throttles", [THROTTLED], ("peak, peak * share", "peak, peak")),
    wrong("speed_of_light", "the other order", [THROTTLED], ("peak, peak * share", "peak * share, peak")),
    honest("speed_of_light", "watts by logarithms", ("share = min(1.0, ((limit - idle) / switching) ** (1 / 3))", "import math\n    share = math.exp(min(0.0, math.log((limit - idle) / switching)) / 3)")),
]  # fmt: skip

TRUE = "truths.plain"
POWER = [
    wrong("power", "all true", [TRUE], (": False", ": True")),
    wrong("power", "all false", [TRUE], (": True", ": False")),
    wrong("power", "nothing", [TRUE], source="power = {}\n"),
    wrong("power", "zeros are skipped", [TRUE], ('multiplications": False', 'multiplications": True')),
    wrong("power", "watts of one SM", [TRUE], ('others may": True', 'others may": False')),
    wrong("power", "words", [TRUE], (": True", ': "yes"')),
    wrong("power", "the clock can be anything", [TRUE], ("1.4 GHz\": False", "1.4 GHz\": True")),
    honest("power", "another order", source="""power = {
    "watts that one SM does not use, the others may": True,
    "half of the power for switching would leave less than 3/4 of the speed": False,
    "during the product of random numbers the clock can have been 1.3 GHz": True,
    "during the product of zeros the clock can have been 1.4 GHz": False,
    "zeros need fewer multiplications": False,
    "989.4 TFLOP/s need 1.83 GHz on all 132 SMs": True,
}
"""),
]  # fmt: skip

# ------------------------------------------------------------------------------------------------ occupancy

REGISTERS, SHARED, ALL = (f"holds.as_nvidia_counts.{group}" for group in ("registers", "shared memory", "all together"))
BY_HAND = """def occupancy(registers, shared, warps, gpu):
    quarters = [gpu["registers"] // gpu["partitions"] // gpu["register_unit"]] * gpu["partitions"]
    units = (32 * registers + gpu["register_unit"] - 1) // gpu["register_unit"]
    room, seats = gpu["shared_bytes"], gpu["warps"]
    each = (shared + gpu["reserved_bytes"] + gpu["shared_unit"] - 1) // gpu["shared_unit"] * gpu["shared_unit"]
    programs = 0
    while True:
        if programs == gpu["programs"]:
            return programs, "programs"
        if seats < warps:
            return programs, "warps"
        if room < each:
            return programs, "shared memory"
        for _ in range(warps):
            quarter = quarters.index(max(quarters))
            quarters[quarter] -= units
        if min(quarters) < 0:
            return programs, "registers"
        programs, seats, room = programs + 1, seats - warps, room - each
"""
OCCUPANCY = [
    wrong("occupancy", "one pool of registers", [REGISTERS, ALL], ('gpu["partitions"] * in_a_partition // warps', 'gpu["registers"] // (a_warp * warps)')),
    wrong("occupancy", "registers without units", [REGISTERS, ALL], ('whole(32 * registers, gpu["register_unit"])', "32 * registers")),
    wrong("occupancy", "shared memory without units", [SHARED, ALL], ('whole(shared + gpu["reserved_bytes"], gpu["shared_unit"])', '(shared + gpu["reserved_bytes"])')),
    wrong("occupancy", "nothing is reserved", [SHARED, ALL], ('shared + gpu["reserved_bytes"]', "shared")),
    wrong("occupancy", "units before what is reserved", [SHARED, ALL], ('whole(shared + gpu["reserved_bytes"], gpu["shared_unit"])', '(whole(shared, 1024) + gpu["reserved_bytes"])')),
    wrong("occupancy", "a register for each warp", [REGISTERS, ALL], ("32 * registers", "registers")),
    wrong("occupancy", "warps of programs are not dealt out", [REGISTERS, SHARED, ALL], ('gpu["partitions"] * in_a_partition // warps', 'in_a_partition // -(-warps // 4)')),
    wrong("occupancy", "rounded for a program", [REGISTERS, ALL], ('gpu["partitions"] * in_a_partition // warps', 'gpu["registers"] // whole(32 * registers * warps, gpu["register_unit"])')),
    wrong("occupancy", "the largest room", [REGISTERS, SHARED, ALL], ("min(room", "max(room")),
    wrong("occupancy", "one reason for all", [REGISTERS, SHARED, ALL], ("return room[limit], limit", 'return room[limit], "registers"')),
    wrong("occupancy", "the number alone", [REGISTERS, SHARED, ALL], ("return room[limit], limit", "return room[limit]")),
    wrong("occupancy", "no places", [REGISTERS, ALL], ('"programs": gpu["programs"],', '"programs": 64,')),
    honest("occupancy", "one program after the other", source=BY_HAND),
]  # fmt: skip

# ------------------------------------------------------------------------------------------------ chains

WAITS, BUSY, SLOW = "correct.waits", "correct.busy", "correct.slow pipe"
SCHEDULED = """import heapq


def chains_and_warps(warps, chains, steps, latency, interval):
    waiting = [(0, i, steps) for i in range(warps * chains)]
    now = last = 0
    while waiting:
        ready, i, left = heapq.heappop(waiting)
        now = max(now, ready)
        last = now + latency
        if left > 1:
            heapq.heappush(waiting, (last, i, left - 1))
        now += interval
    need = 1
    while need * chains * interval < latency:
        need += 1
    return last, need
"""
CHAINS = [
    wrong("chains", "one after the other", [WAITS, BUSY, SLOW], ("cycles = (steps - 1) * max(latency, a_round) + a_round - interval + latency", "cycles = warps * chains * steps * latency")),
    wrong("chains", "whole rounds", [WAITS, BUSY, SLOW], ("cycles = (steps - 1) * max(latency, a_round) + a_round - interval + latency", "cycles = steps * max(latency, a_round)")),
    wrong("chains", "the pipe is never slow", [SLOW], ("warps * chains * interval", "warps * chains"), ("a_round - interval", "a_round - 1"), ("(chains * interval)", "chains")),
    wrong("chains", "the latency alone", [BUSY, SLOW], ("max(latency, a_round)", "latency")),
    wrong("chains", "the pipe alone", [WAITS, SLOW], ("max(latency, a_round)", "a_round")),
    wrong("chains", "chains do not help", [WAITS, BUSY, SLOW], ("-(-latency // (chains * interval))", "-(-latency // interval)")),
    wrong("chains", "rounded down", [WAITS, BUSY, SLOW], ("-(-latency // (chains * interval))", "latency // (chains * interval)")),
    wrong("chains", "one too many", [WAITS, BUSY, SLOW], ("-(-latency // (chains * interval))", "latency // (chains * interval) + 1")),
    wrong("chains", "one chain by itself", [WAITS, BUSY, SLOW], ("cycles = (steps - 1) * max(latency, a_round) + a_round - interval + latency", "cycles = steps * latency")),
    wrong("chains", "an interval too many", [WAITS, BUSY, SLOW], (" - interval + latency", " + latency")),
    wrong("chains", "a latency behind each round", [WAITS, BUSY, SLOW], ("max(latency, a_round)", "(latency + a_round)")),
    wrong("chains", "without the last wait", [WAITS, BUSY, SLOW], (" - interval + latency", "")),
    honest("chains", "a queue", source=SCHEDULED),
]  # fmt: skip

# ------------------------------------------------------------------------------------------------ tiles

WHOLE, EDGES = "correct.whole", "correct.edges"
COUNTED = """def warp_tile_bytes(tile, warp_tile, thread_tile, bk, itemsize):
    (M, N), (m, n), (tm, tn) = tile, warp_tile, thread_tile
    warps = threads = 0
    for i in range(0, M, m):
        for j in range(0, N, n):
            rows, cols = min(m, M - i), min(n, N - j)
            warps += rows + cols
            for k in range(0, rows, tm):
                for l in range(0, cols, tn):
                    threads += min(tm, rows - k) + min(tn, cols - l)
    return [bk * itemsize * x for x in (M + N, warps, threads)]
"""
ACROSS = """def warp_tile_bytes(tile, warp_tile, thread_tile, bk, itemsize):
    def cuts(size, part):
        return [min(part, size - at) for at in range(0, size, part)]

    def fetched(part):
        rows, columns = (cuts(size, of) for size, of in zip(tile, part))
        return sum(r + c for r in rows for c in columns) * bk * itemsize

    return tuple(map(fetched, (tile, warp_tile, thread_tile)))
"""
TILES = [
    wrong("warp_tile_bytes", "all share registers", [WHOLE, EDGES], ("(M + N, numbers(M, N, m, n), of_threads)", "(M + N, M + N, M + N)")),
    wrong("warp_tile_bytes", "sums as well", [WHOLE, EDGES], ("bk * itemsize * count", "(bk * count + M * N) * itemsize")),
    wrong("warp_tile_bytes", "two loads for each product", [WHOLE, EDGES], ("    return tuple(bk", "    of_threads = 2 * M * N\n    return tuple(bk")),
    wrong("warp_tile_bytes", "one k", [WHOLE, EDGES], ("bk * itemsize * count", "itemsize * count")),
    wrong("warp_tile_bytes", "a's parts for b", [WHOLE, EDGES], ("M * triton.cdiv(N, n) + N * triton.cdiv(M, m)", "M * triton.cdiv(M, m) + N * triton.cdiv(N, n)")),
    wrong("warp_tile_bytes", "rounded down", [EDGES], ("M * triton.cdiv(N, n) + N * triton.cdiv(M, m)", "M * max(1, N // n) + N * max(1, M // m)")),
    wrong("warp_tile_bytes", "threads of the whole tile", [EDGES], ("min(m, M - i), min(n, N - j)", "m, n")),
    wrong("warp_tile_bytes", "threads across the borders of warps", [EDGES], source=ACROSS),
    wrong("warp_tile_bytes", "once for a warp", [WHOLE, EDGES], ("    return tuple(bk", "    of_threads = numbers(M, N, m, n)\n    return tuple(bk")),
    wrong("warp_tile_bytes", "a alone", [WHOLE, EDGES], ("(M + N, numbers", "(M, numbers")),
    wrong("warp_tile_bytes", "a times b", [WHOLE, EDGES], ("(M + N, numbers", "(M * N, numbers")),
    wrong("warp_tile_bytes", "numbers, not bytes", [WHOLE, EDGES], ("bk * itemsize * count", "bk * count")),
    honest("warp_tile_bytes", "part by part", source=COUNTED),
]  # fmt: skip

READ = "numbers.plain"
CODE = [
    wrong("machine_code", "nothing", [READ], source="read_code = {}\n"),
    wrong("machine_code", "wide loads from odd rows", [READ], ('1001": 32', '1001": 128')),
    wrong("machine_code", "bytes for bits", [READ], ('1024": 128', '1024": 16')),
    wrong("machine_code", "mma on an H200", [READ], ('sm_90": "wgmma"', 'sm_90": "mma"')),
    wrong("machine_code", "cp.async for descriptors", [READ], ('"TMA"', '"cp.async"')),
    wrong("machine_code", "as in the PTX", [READ], ('one chain": 4', 'one chain": 1')),
    wrong("machine_code", "one chain of eight", [READ], ('another, two chains": 4', 'another, two chains": 8')),
    wrong("machine_code", "wgmma on an A100", [READ], ('sm_80": "mma"', 'sm_80": "wgmma"')),
    wrong("machine_code", "TMA for addresses", [READ], ('"cp.async"', '"TMA"')),
    wrong("machine_code", "nothing spills", [READ], ('"1 warp"', '"none"')),
    honest("machine_code", "another order", ('    "bits, rows of 1024": 128,\n    "bits, rows of 1001": 32,\n', '    "bits, rows of 1001": 32,\n    "bits, rows of 1024": 128,\n')),
]  # fmt: skip

# ------------------------------------------------------------------------------------------------ walks

DEALT, L2 = "holds.is_dealt.dealt", "holds.shares_l2.cache"
LIST = "for number in range(pid, grid_m * grid_n, sms):"
TILE = "tiles.append((first + within % height, within // height))"
STRIPES = """def persistent_order(pid, sms, grid_m, grid_n, group):
    # columns of 8 tiles, downwards and upwards in turns
    order, down = [], True
    for left in range(0, grid_n, 8):
        rows = range(grid_m) if down else reversed(range(grid_m))
        order += [(m, n) for m in rows for n in range(left, min(left + 8, grid_n))]
        down = not down
    return order[pid::sms]
"""
PIECES = """def persistent_order(pid, sms, grid_m, grid_n, group):
    order = []
    for first in range(0, grid_m, group):
        for n in range(grid_n):
            order += [(m, n) for m in range(first, min(first + group, grid_m))]
    each = -(-len(order) // sms)
    return order[pid * each : (pid + 1) * each]
"""
ORDER = [
    wrong("persistent_order", "rows", [L2], (TILE, "tiles.append(divmod(number, grid_n))")),
    wrong("persistent_order", "a piece each", [L2], source=PIECES),
    wrong("persistent_order", "whole rounds alone", [DEALT, L2], (LIST, "for number in range(pid, grid_m * grid_n // sms * sms, sms):")),
    wrong("persistent_order", "the last group is full", [DEALT, L2], ("min(group, grid_m - first)", "group")),
    wrong("persistent_order", "two do the same", [DEALT, L2], (LIST, "for number in range(pid // 2, grid_m * grid_n, sms):")),
    wrong("persistent_order", "the first program does it", [DEALT, L2], (LIST, "for number in range(grid_m * grid_n) if pid == 0 else ():")),
    wrong("persistent_order", "one tile each", [DEALT, L2], (LIST, "for number in [pid]:")),
    wrong("persistent_order", "m and n swapped", [DEALT, L2], ("(first + within % height, within // height)", "(within // height, first + within % height)")),
    honest("persistent_order", "stripes, down and up", source=STRIPES),
    honest("persistent_order", "the last program first", (LIST, "for number in range(sms - 1 - pid, grid_m * grid_n, sms):")),
]  # fmt: skip

COVERED, BALANCED, CUTS = "holds.covers.covered", "holds.is_balanced.balanced", "holds.is_in_few_pieces.balanced"
WHOLE_TILES = """def balanced_walk(pid, sms, tiles, steps):
    return [(tile, 0, steps) for tile in range(pid, tiles, sms)]
"""
STEPS = """def balanced_walk(pid, sms, tiles, steps):
    return [(*divmod(i, steps), i % steps + 1) for i in range(pid, tiles * steps, sms)]
"""
WAVES = """def balanced_walk(pid, sms, tiles, steps):
    # whole tiles for all but what one round and a bit of them leaves, and shares of that
    rounds = max(0, tiles // sms - (tiles % sms > 0))
    pieces = [(tile, 0, steps) for tile in range(pid, rounds * sms, sms)]
    rest, first = (tiles - rounds * sms) * steps, rounds * sms
    at, end = pid * rest // sms, (pid + 1) * rest // sms
    while at < end:
        tile, step = divmod(at, steps)
        n = min(steps - step, end - at)
        pieces.append((first + tile, step, step + n))
        at += n
    return pieces
"""
SHARE = "at, end = pid * total // sms, (pid + 1) * total // sms"
BALANCE = [
    wrong("balanced_walk", "whole tiles", [BALANCED], source=WHOLE_TILES),
    wrong("balanced_walk", "single steps", [CUTS], source=STEPS),
    wrong("balanced_walk", "the last one gets the rest", [BALANCED], (SHARE, "at = pid * (total // sms)\n    end = total if pid == sms - 1 else at + total // sms")),
    wrong("balanced_walk", "rounded down", [COVERED, BALANCED, CUTS], (SHARE, "at, end = pid * (total // sms), (pid + 1) * (total // sms)")),
    wrong("balanced_walk", "steps of the line", [COVERED, BALANCED, CUTS], ("(tile, at - tile * steps, stop - tile * steps)", "(tile, at, stop)")),
    wrong("balanced_walk", "ends at the last step", [COVERED, BALANCED, CUTS], ("stop - tile * steps)", "stop - tile * steps - 1)")),
    wrong("balanced_walk", "one piece each", [COVERED, BALANCED, CUTS], ("        at = stop\n", "        break\n")),
    wrong("balanced_walk", "tiles only", [COVERED, BALANCED, CUTS], ("pieces.append((tile, at - tile * steps, stop - tile * steps))", "pieces.append(tile)")),
    honest("balanced_walk", "the mean, rounded up", (SHARE, "each = -(-total // sms)\n    at, end = min(total, pid * each), min(total, (pid + 1) * each)")),
    honest("balanced_walk", "whole tiles first", source=WAVES),
]  # fmt: skip

# ------------------------------------------------------------------------------------------------ products

PLAIN, RAGGED, LONG, DESCRIBED_ALL = "correct.plain", "correct.ragged", "correct.long", "by_descriptors.performance"
A, B, KERNEL = "rereads.a.performance", "rereads.b.performance", "triton_did_the_work"
BLOCKS = "BLOCK_M, BLOCK_N, BLOCK_K = 64, 128, 32"
IN_THE_KERNEL = """@triton.jit
def kernel(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BLOCK, BLOCK])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BLOCK, BLOCK])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BLOCK, BLOCK])
    m, n = tl.program_id(1) * BLOCK, tl.program_id(0) * BLOCK
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK):
        acc += tl.dot(a.load([m, k]), b.load([k, n]))
    c.store([m, n], acc.to(c_ptr.dtype.element_ty))


def descriptor_matmul(a, b):
    (M, K), N = a.shape, b.shape[1]
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device=a.device))
    c = a.new_empty(M, N)
    kernel[(triton.cdiv(N, 64), triton.cdiv(M, 64))](a, b, c, M, N, K, BLOCK=64)
    return c
"""
BY_POINTERS = """@triton.jit
def kernel(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, K, BLOCK):
        k = start + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + rows * K + k[None, :], mask=(rows < M) & (k[None, :] < K), other=0)
        b = tl.load(b_ptr + k[:, None] * N + cols, mask=(k[:, None] < K) & (cols < N), other=0)
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows * N + cols, acc.to(c_ptr.dtype.element_ty), mask=(rows < M) & (cols < N))


def descriptor_matmul(a, b):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty(M, N, dtype=a.dtype, device=a.device)
    kernel[(triton.cdiv(M, 64), triton.cdiv(N, 64))](a, b, c, M, N, K, BLOCK=64)
    return c
"""
TORCHS = """def descriptor_matmul(a, b):
    return a @ b
"""
WALKING = (
    ("    m, n = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N\n    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)\n    for k in range(0, K, BLOCK_K):\n        acc = tl.dot(a_desc.load([m, k]), b_desc.load([k, n]), acc)\n    c_desc.store([m, n], acc.to(c_desc.dtype))\n",
     "    for tile in range(tl.program_id(0), ROWS * COLS, tl.num_programs(0)):\n        m, n = tile // COLS * BLOCK_M, tile % COLS * BLOCK_N\n        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)\n        for k in range(0, K, BLOCK_K):\n            acc = tl.dot(a_desc.load([m, k]), b_desc.load([k, n]), acc)\n        c_desc.store([m, n], acc.to(c_desc.dtype))\n"),
    ("a_desc, b_desc, c_desc, K, BLOCK_M: tl", "a_desc, b_desc, c_desc, K, ROWS, COLS, BLOCK_M: tl"),
    ("descriptor_kernel[grid](a_desc, b_desc, c_desc, K, ", "descriptor_kernel[(132,)](a_desc, b_desc, c_desc, K, *grid, "),
)  # fmt: skip
DESCRIPTORS = [
    wrong("descriptor_matmul", "torch's", [KERNEL], source=TORCHS),
    wrong("descriptor_matmul", "pointers", [DESCRIBED_ALL], source=BY_POINTERS),
    wrong("descriptor_matmul", "the store by pointers", [DESCRIBED_ALL], ("c_desc.store([m, n], acc.to(c_desc.dtype))", "rows, cols = m + tl.arange(0, BLOCK_M)[:, None], n + tl.arange(0, BLOCK_N)[None, :]\n    tl.store(c_ptr + rows * N + cols, acc.to(c_desc.dtype), mask=(rows < M) & (cols < N))"), ("a_desc, b_desc, c_desc, K, BLOCK_M: tl", "a_desc, b_desc, c_desc, c_ptr, M, N, K, BLOCK_M: tl"), ("a_desc, b_desc, c_desc, K, BLOCK_M=BLOCK_M", "a_desc, b_desc, c_desc, c, M, N, K, BLOCK_M=BLOCK_M")),
    wrong("descriptor_matmul", "whole steps alone", [RAGGED, LONG], ("range(0, K, BLOCK_K)", "range(0, K // BLOCK_K * BLOCK_K, BLOCK_K)")),
    wrong("descriptor_matmul", "the grid rounds down", [RAGGED, DESCRIBED_ALL, A, B], ("(triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))", "(max(1, M // BLOCK_M), max(1, N // BLOCK_N))")),
    wrong("descriptor_matmul", "sums in halves", [PLAIN], ("acc = tl.dot(a_desc.load([m, k]), b_desc.load([k, n]), acc)", "acc = tl.dot(a_desc.load([m, k]), b_desc.load([k, n]), acc).to(a_desc.dtype).to(tl.float32)")),
    wrong("descriptor_matmul", "the last step alone", [PLAIN], ("b_desc.load([k, n]), acc)", "b_desc.load([k, n]))")),
    wrong("descriptor_matmul", "tiles by number", [PLAIN], ("m, n = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N", "m, n = tl.program_id(0), tl.program_id(1)")),
    wrong("descriptor_matmul", "rows of b for columns", [PLAIN], ("b_desc.load([k, n])", "b_desc.load([n, k])")),
    wrong("descriptor_matmul", "tiles of 32 rows", [B], (BLOCKS, "BLOCK_M, BLOCK_N, BLOCK_K = 32, 64, 32")),
    wrong("descriptor_matmul", "tiles of 32 columns", [A], (BLOCKS, "BLOCK_M, BLOCK_N, BLOCK_K = 64, 32, 32")),
    wrong("descriptor_matmul", "rows padded to 3", [PLAIN], ("    c_desc = ", "    c = torch.empty(M, N + 3, dtype=a.dtype, device=a.device)[:, :N]\n    c_desc = ")),
    honest("descriptor_matmul", "descriptors made in the kernel", source=IN_THE_KERNEL),
    honest("descriptor_matmul", "large tiles", (BLOCKS, "BLOCK_M, BLOCK_N, BLOCK_K = 128, 128, 64")),
    honest("descriptor_matmul", "as many programs as SMs", *WALKING),
]  # fmt: skip

PRECISION, LAUNCHES, TRAFFIC = "correct.precision", "launches.performance", "traffic.performance"
EPILOGUE = "    acc = acc * tl.sigmoid(acc)\n"
BIAS = "    acc += tl.load(bias_ptr + cols, mask=cols < N, other=0).to(tl.float32)[None, :]\n"
TWO = """@triton.jit
def epilogue_kernel(y_ptr, bias_ptr, out_ptr, n, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(y_ptr + i, mask=i < n, other=0).to(tl.float32)
    y += tl.load(bias_ptr + i % N, mask=i < n, other=0).to(tl.float32)
    tl.store(out_ptr + i, (y * tl.sigmoid(y)).to(out_ptr.dtype.element_ty), mask=i < n)


def linear_silu(x, w, bias):
    (M, K), N = x.shape, w.shape[1]
    y = torch.empty(M, N, dtype=torch.float32, device=x.device)
    out = torch.empty(M, N, dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(M, 64), triton.cdiv(N, 64))
    product_kernel[grid](x, w, y, M, N, K, BLOCK=64)
    epilogue_kernel[(triton.cdiv(M * N, 1024),)](y, bias, out, M * N, N, BLOCK=1024)
    return out
"""
PRODUCT = BY_POINTERS.partition("\n\ndef descriptor_matmul")[0].replace("def kernel", "def product_kernel") + "\n\n"
DESCRIBED = """from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def kernel(x, w, bias_ptr, out, N, K, BLOCK: tl.constexpr):
    m, n = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK
    cols = n + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32) + tl.load(bias_ptr + cols, mask=cols < N, other=0).to(tl.float32)[None, :]
    for k in range(0, K, BLOCK):
        acc = tl.dot(x.load([m, k]), w.load([k, n]), acc)
    out.store([m, n], (acc / (1 + tl.exp(-acc))).to(out.dtype))


def linear_silu(x, w, bias):
    (M, K), N = x.shape, w.shape[1]
    out = torch.empty(M, N, dtype=x.dtype, device=x.device)
    tiles = [TensorDescriptor.from_tensor(t, [64, 64]) for t in (x, w, out)]
    kernel[(triton.cdiv(M, 64), triton.cdiv(N, 64))](*tiles[:2], bias, tiles[2], N, K, BLOCK=64)
    return out
"""
LAYER = [
    wrong("linear_silu", "two kernels", [LAUNCHES, TRAFFIC], source=PRODUCT + TWO),
    wrong("linear_silu", "no bias", [PLAIN], (BIAS, "")),
    wrong("linear_silu", "no activation", [PLAIN], (EPILOGUE, "")),
    wrong("linear_silu", "a ReLU", [PLAIN], (EPILOGUE, "    acc = tl.maximum(acc, 0)\n")),
    wrong("linear_silu", "the sigmoid alone", [PLAIN], (EPILOGUE, "    acc = tl.sigmoid(acc)\n")),
    wrong("linear_silu", "bias last", [PLAIN], (BIAS + EPILOGUE, EPILOGUE + BIAS)),
    wrong("linear_silu", "the bias in each step", [PLAIN], ("        acc = tl.dot(x, w, acc)\n" + BIAS, "        acc = tl.dot(x, w, acc)\n    " + BIAS)),
    wrong("linear_silu", "the sigmoid without the bias", [PLAIN], (BIAS + EPILOGUE, "    part = tl.sigmoid(acc)\n" + BIAS + "    acc = acc * part\n")),
    wrong("linear_silu", "the other sign", [PLAIN], (EPILOGUE, "    acc = acc / (1 + tl.exp(acc))\n")),
    wrong("linear_silu", "rounded before the bias", [PRECISION], (BIAS, "    acc = acc.to(out_ptr.dtype.element_ty).to(tl.float32)\n" + BIAS)),
    wrong("linear_silu", "rounded before silu", [PRECISION], (EPILOGUE, "    acc = acc.to(out_ptr.dtype.element_ty).to(tl.float32)\n" + EPILOGUE)),
    wrong("linear_silu", "bias of the rows", [PLAIN], (BIAS, "    acc += tl.load(bias_ptr + rows, mask=rows < N, other=0).to(tl.float32)\n")),
    wrong("linear_silu", "no mask for the bias", [RAGGED, PRECISION, LAUNCHES, TRAFFIC], ("tl.load(bias_ptr + cols, mask=cols < N, other=0)", "tl.load(bias_ptr + cols)")),
    wrong("linear_silu", "small tiles", [TRAFFIC], ("BLOCK_M=64, BLOCK_N=128", "BLOCK_M=32, BLOCK_N=32"), ("triton.cdiv(M, 64), triton.cdiv(N, 128)", "triton.cdiv(M, 32), triton.cdiv(N, 32)")),
    wrong("linear_silu", "torch adds the bias", [KERNEL], ("    return out\n", "    return torch.nn.functional.silu(out + bias)\n"), (BIAS + EPILOGUE, "")),
    honest("linear_silu", "descriptors, and the bias first", source=DESCRIBED),
]  # fmt: skip

VARIANTS = [
    *LIGHT,
    *POWER,
    *OCCUPANCY,
    *CHAINS,
    *TILES,
    *CODE,
    *ORDER,
    *BALANCE,
    *DESCRIPTORS,
    *LAYER,
]
