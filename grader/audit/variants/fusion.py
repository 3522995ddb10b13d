"""Unit 06. What each variant must lose stands next to it; () means full marks."""

from grader.audit.variants import Variant, kinds
from grader.audit.variants.forms import KILLS, breaking, logging

wrong, honest = kinds("fusion")

ONE, ALL, CUTS = "correct.one by one", "correct.all in one", "correct.cuts"
LIMITS = ["correct.plain"]
LAUNCHES = "correct.plain"
PLAIN, RAGGED, APART = "correct.plain", "correct.ragged", "correct.strided"
HALF, LAUNCH, TRITON = "correct.half", "launches.performance", "triton_did_the_work"
ONCE = "traffic.performance"
SOFTMAX = "correct.hard"
ONLINE, LONG = "correct.hard", "correct.long"
TWICE = "traffic.performance"
NORM, BOTH = "correct.hard", "traffic.performance"
LOSS, LOGITS = "correct.hard", "traffic.performance"
PROBABILITIES = "buffers_below.performance"

# ------------------------------------------------------------------------------------------------ whole cells

TWO_LAUNCHES_SIN_COS = """
@triton.jit
def sin2_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    sine = tl.sin(tl.load(x_ptr + i, mask=i < n).to(tl.float32))
    tl.store(out_ptr + i, sine * sine, mask=i < n)


@triton.jit
def add_cos2_kernel(squares_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cosine = tl.cos(tl.load(y_ptr + i, mask=i < n).to(tl.float32))
    tl.store(out_ptr + i, tl.load(squares_ptr + i, mask=i < n) + cosine * cosine, mask=i < n)


def sin2_plus_cos2(x, y):
    (n,) = x.shape
    squares, out = torch.empty(n, dtype=torch.float32, device=x.device), torch.empty_like(x)
    sin2_kernel[(triton.cdiv(n, 1024),)](x, squares, n, BLOCK=1024)
    add_cos2_kernel[(triton.cdiv(n, 1024),)](squares, y, out, n, BLOCK=1024)
    return out
"""

BIAS_THEN_GELU = """
@triton.jit
def add_kernel(x_ptr, bias_ptr, out_ptr, M, N, row_stride, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    inside = (offs_m < M) & (offs_n < N)
    x = tl.load(x_ptr + offs_m * row_stride + offs_n, mask=inside).to(tl.float32)
    tl.store(out_ptr + offs_m * N + offs_n, x + tl.load(bias_ptr + offs_n, mask=offs_n < N).to(tl.float32), mask=inside)


@triton.jit
def gelu_kernel(z_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    z = tl.load(z_ptr + i, mask=i < n)
    tl.store(out_ptr + i, 0.5 * z * (1 + tl.erf(z * 0.7071067811865476)), mask=i < n)


def bias_gelu(x, bias):
    M, N = x.shape
    z = torch.empty((M, N), dtype=torch.float32, device=x.device)
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    add_kernel[(triton.cdiv(M, 16), triton.cdiv(N, 256))](x, bias, z, M, N, x.stride(0), BLOCK_M=16, BLOCK_N=256)
    gelu_kernel[(triton.cdiv(M * N, 2048),)](z, out, M * N, BLOCK=2048)
    return out
"""

TWO_STAGE_SOFTMAX = """
@triton.jit
def reduce_kernel(x_ptr, m_ptr, l_ptr, N, row_stride, BLOCK: tl.constexpr):
    row, offs_n = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * row_stride + offs_n, mask=offs_n < N, other=-float("inf")).to(tl.float32)
    m = tl.max(x, axis=0)
    tl.store(m_ptr + row, m)
    tl.store(l_ptr + row, tl.sum(tl.exp(x - m), axis=0))


@triton.jit
def divide_kernel(x_ptr, m_ptr, l_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr):
    row, offs_n = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * row_stride + offs_n, mask=offs_n < N).to(tl.float32)
    tl.store(out_ptr + row * N + offs_n, tl.exp(x - tl.load(m_ptr + row)) / tl.load(l_ptr + row), mask=offs_n < N)


def softmax(x):
    M, N = x.shape
    m, l = (torch.empty(M, dtype=torch.float32, device=x.device) for _ in range(2))
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    BLOCK = triton.next_power_of_2(N)
    reduce_kernel[(M,)](x, m, l, N, x.stride(0), BLOCK=BLOCK)
    divide_kernel[(M,)](x, m, l, out, N, x.stride(0), BLOCK=BLOCK)
    return out
"""

SEVERAL_ROWS_SOFTMAX = """
@triton.jit
def softmax_kernel(x_ptr, out_ptr, M, N, row_stride, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    offs_n = tl.arange(0, BLOCK_N)[None, :]
    inside = (offs_m < M) & (offs_n < N)
    x = tl.load(x_ptr + offs_m * row_stride + offs_n, mask=inside, other=-float("inf")).to(tl.float32)
    x = tl.where(offs_m < M, x, 0.0)
    p = tl.exp2((x - tl.max(x, axis=1, keep_dims=True)) * 1.4426950408889634)
    tl.store(out_ptr + offs_m * N + offs_n, p / tl.sum(p, axis=1, keep_dims=True), mask=inside)


def softmax(x):
    M, N = x.shape
    out = x.new_empty(M, N)
    BLOCK_N = triton.next_power_of_2(N)
    BLOCK_M = max(1, 4096 // BLOCK_N)
    softmax_kernel[(triton.cdiv(M, BLOCK_M),)](x, out, M, N, x.stride(0), BLOCK_M, BLOCK_N)
    return out
"""

PERSISTENT_SOFTMAX = """
@triton.jit
def row_softmax(x):
    p = tl.exp(x - tl.max(x, axis=0))
    return p / tl.sum(p, axis=0)


@triton.jit
def softmax_kernel(x_ptr, out_ptr, M, N, row_stride, BLOCK: tl.constexpr):
    offs_n = tl.arange(0, BLOCK)
    for row in tl.range(tl.program_id(0), M, tl.num_programs(0), num_stages=2):
        x = tl.load(x_ptr + row * row_stride + offs_n, mask=offs_n < N, other=-float("inf")).to(tl.float32)
        tl.store(out_ptr + row * N + offs_n, row_softmax(x), mask=offs_n < N)


def softmax(x):
    M, N = x.shape
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    softmax_kernel[(min(M, 132),)](x, out, M, N, x.stride(0), BLOCK=triton.next_power_of_2(N), num_warps=8)
    return out
"""

ONE_LANE_EACH = """
@triton.jit
def online_softmax_kernel(x_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    m, l = tl.full((BLOCK,), -3.4e38, tl.float32), tl.zeros((BLOCK,), tl.float32)
    for start in range(0, N, BLOCK):
        offs_n = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * row_stride + offs_n, mask=offs_n < N, other=-float("inf")).to(tl.float32)
        m_new = tl.maximum(m, x)
        l = l * tl.exp(m - m_new) + tl.exp(x - m_new)
        m = m_new
    top = tl.max(m, axis=0)
    total = tl.sum(l * tl.exp(m - top), axis=0)
    for start in range(0, N, BLOCK):
        offs_n = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * row_stride + offs_n, mask=offs_n < N).to(tl.float32)
        tl.store(out_ptr + row * N + offs_n, tl.exp(x - top) / total, mask=offs_n < N)


def online_softmax(x):
    M, N = x.shape
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    online_softmax_kernel[(M,)](x, out, N, x.stride(0), BLOCK=2048, num_warps=4)
    return out
"""

SPLIT_ROWS = """
@triton.jit
def parts_kernel(x_ptr, m_ptr, l_ptr, N, row_stride, parts, BLOCK: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    offs_n = part * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * row_stride + offs_n, mask=offs_n < N, other=-float("inf")).to(tl.float32)
    m = tl.maximum(tl.max(x, axis=0), -1e38)
    tl.store(m_ptr + row * parts + part, m)
    tl.store(l_ptr + row * parts + part, tl.sum(tl.exp(x - m), axis=0))


@triton.jit
def merge_kernel(x_ptr, m_ptr, l_ptr, out_ptr, N, row_stride, parts, BLOCK: tl.constexpr, PARTS: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    k = tl.arange(0, PARTS)
    ms = tl.load(m_ptr + row * parts + k, mask=k < parts, other=-float("inf"))
    m = tl.max(ms, axis=0)
    l = tl.sum(tl.load(l_ptr + row * parts + k, mask=k < parts, other=0) * tl.exp(ms - m), axis=0)
    offs_n = part * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * row_stride + offs_n, mask=offs_n < N).to(tl.float32)
    tl.store(out_ptr + row * N + offs_n, tl.exp(x - m) / l, mask=offs_n < N)


def online_softmax(x):
    M, N = x.shape
    BLOCK = 16384
    parts = triton.cdiv(N, BLOCK)
    m, l = (torch.empty((M, parts), dtype=torch.float32, device=x.device) for _ in range(2))
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    parts_kernel[(M, parts)](x, m, l, N, x.stride(0), parts, BLOCK=BLOCK)
    PARTS = triton.next_power_of_2(parts)
    merge_kernel[(M, parts)](x, m, l, out, N, x.stride(0), parts, BLOCK=BLOCK, PARTS=PARTS)
    return out
"""

ONE_BLOCK = """
@triton.jit
def online_softmax_kernel(x_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr):
    row, offs_n = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * row_stride + offs_n, mask=offs_n < N, other=-float("inf")).to(tl.float32)
    p = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * N + offs_n, p / tl.sum(p, axis=0), mask=offs_n < N)


def online_softmax(x):
    M, N = x.shape
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    online_softmax_kernel[(M,)](x, out, N, x.stride(0), BLOCK=triton.next_power_of_2(N), num_warps=16)
    return out
"""

THREE_PASSES = (
    (
        "        m_new = tl.maximum(m, tl.max(x, axis=0))\n"
        "        alpha = tl.exp(m - m_new)  # brings the old sum to the new maximum\n"
        "        l = l * alpha + tl.sum(tl.exp(x - m_new), axis=0)\n"
        "        m = m_new\n",
        "        m = tl.maximum(m, tl.max(x, axis=0))\n"
        "    for start in range(0, N, BLOCK):\n"
        "        offs_n = start + tl.arange(0, BLOCK)\n"
        '        x = tl.load(x_ptr + row * row_stride + offs_n, mask=offs_n < N, other=-float("inf")).to(tl.float32)\n'
        "        l += tl.sum(tl.exp(x - m), axis=0)\n",
    ),
)

RMSNORM_TILES = """
@triton.autotune([triton.Config({}, num_warps=4), triton.Config({}, num_warps=8)], key=["N"])
@triton.jit
def rmsnorm_kernel(x_ptr, weight_ptr, out_ptr, M, N, row_stride, eps, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    offs_n = tl.arange(0, BLOCK_N)[None, :]
    inside = (offs_m < M) & (offs_n < N)
    x = tl.load(x_ptr + offs_m * row_stride + offs_n, mask=inside, other=0).to(tl.float32)
    scale = 1 / tl.sqrt(tl.sum(x * x, axis=1, keep_dims=True) / N + eps)
    weight = tl.load(weight_ptr + offs_n, mask=offs_n < N).to(tl.float32)
    tl.store(out_ptr + offs_m * N + offs_n, x * scale * weight, mask=inside)


def rmsnorm(x, weight, eps):
    M, N = x.shape
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    BLOCK_N = triton.next_power_of_2(N)
    BLOCK_M = max(1, 4096 // BLOCK_N)
    rmsnorm_kernel[(triton.cdiv(M, BLOCK_M),)](x, weight, out, M, N, x.stride(0), eps, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N)
    return out
"""

NORM_READS_H_AGAIN = """
@triton.jit
def add_kernel(x_ptr, residual_ptr, h_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n).to(tl.float32)
    tl.store(h_ptr + i, x + tl.load(residual_ptr + i, mask=i < n).to(tl.float32), mask=i < n)


@triton.jit
def rmsnorm_kernel(h_ptr, weight_ptr, out_ptr, N, eps, BLOCK: tl.constexpr):
    offs_n = tl.arange(0, BLOCK)
    at, inside = tl.program_id(0) * N + offs_n, offs_n < N
    h = tl.load(h_ptr + at, mask=inside, other=0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(h * h, axis=0) / N + eps)
    tl.store(out_ptr + at, h * scale * tl.load(weight_ptr + offs_n, mask=inside).to(tl.float32), mask=inside)


def add_rmsnorm(x, residual, weight, eps):
    M, N = x.shape
    out, h = torch.empty_like(x), torch.empty_like(x)
    add_kernel[(triton.cdiv(M * N, 2048),)](x, residual, h, M * N, BLOCK=2048)
    rmsnorm_kernel[(M,)](h, weight, out, N, eps, BLOCK=triton.next_power_of_2(N))
    return out, h
"""

STORES_PROBABILITIES = """
@triton.jit
def probabilities_kernel(x_ptr, p_ptr, V, row_stride, BLOCK: tl.constexpr):
    row, offs_n = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * row_stride + offs_n, mask=offs_n < V, other=-float("inf")).to(tl.float32)
    x -= tl.max(x, axis=0)
    tl.store(p_ptr + row * V + offs_n, x - tl.log(tl.sum(tl.exp(x), axis=0)), mask=offs_n < V)


@triton.jit
def pick_kernel(p_ptr, target_ptr, out_ptr, V):
    row = tl.program_id(0)
    tl.store(out_ptr + row, -tl.load(p_ptr + row * V + tl.load(target_ptr + row)))


def cross_entropy(logits, target):
    M, V = logits.shape
    p = torch.empty((M, V), dtype=torch.float32, device=logits.device)
    out = torch.empty(M, dtype=torch.float32, device=logits.device)
    probabilities_kernel[(M,)](logits, p, V, logits.stride(0), BLOCK=triton.next_power_of_2(V), num_warps=16)
    pick_kernel[(M,)](p, target, out, V)
    return out
"""

PICKED_ON_THE_WAY = """
@triton.jit
def cross_entropy_kernel(logits_ptr, target_ptr, out_ptr, V, row_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    target = tl.load(target_ptr + row)
    m, l, right = -3.4e38, 0.0, 0.0
    for start in range(0, V, BLOCK):
        offs_n = start + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + row * row_stride + offs_n, mask=offs_n < V, other=-float("inf")).to(tl.float32)
        m_new = tl.maximum(m, tl.max(x, axis=0))
        l = l * tl.exp(m - m_new) + tl.sum(tl.exp(x - m_new), axis=0)
        m = m_new
        right += tl.sum(tl.where(offs_n == target, x, 0.0), axis=0)
    tl.store(out_ptr + row, tl.log(l) + (m - right))


def cross_entropy(logits, target):
    M, V = logits.shape
    out = torch.empty(M, dtype=torch.float32, device=logits.device)
    cross_entropy_kernel[(M,)](logits, target, out, V, logits.stride(0), BLOCK=2048)
    return out
"""

ONE_BLOCK_A_ROW = """
@triton.jit
def cross_entropy_kernel(logits_ptr, target_ptr, out_ptr, V, row_stride, BLOCK: tl.constexpr):
    row, offs_n = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(logits_ptr + row * row_stride + offs_n, mask=offs_n < V, other=-float("inf")).to(tl.float32)
    m = tl.max(x, axis=0)
    right = tl.load(logits_ptr + row * row_stride + tl.load(target_ptr + row)).to(tl.float32)
    tl.store(out_ptr + row, tl.log(tl.sum(tl.exp(x - m), axis=0)) + m - right)


def cross_entropy(logits, target):
    M, V = logits.shape
    out = torch.empty(M, dtype=torch.float32, device=logits.device)
    BLOCK = triton.next_power_of_2(V)
    cross_entropy_kernel[(M,)](logits, target, out, V, logits.stride(0), BLOCK=BLOCK, num_warps=16)
    return out
"""

FLOAT32_RESULT = (
    "out = torch.empty((M, N), dtype=x.dtype, device=x.device)",
    "out = torch.empty((M, N), device=x.device)",
)


def guesses(name: str, key: str, number: str, comma: str = ",") -> Variant:
    """A wrong prediction of one function's launches."""
    right = {"product_gelu": "2", "print_between": "2", "over_its_sum": "3", "attention": "3"}.get(key, "1")
    return wrong("predicted_launches", name, [LAUNCHES], (f'"{key}": {right}{comma}', f'"{key}": {number}{comma}'))


WRONG = [
    # -------------------- chain_bytes
    wrong("chain_bytes", "counts tensors, not bytes", [ONE, ALL, CUTS], ("* n * itemsize", "* n")),
    wrong("chain_bytes", "always float32", [ONE, ALL, CUTS], ("* n * itemsize", "* n * 4")),
    wrong(
        "chain_bytes",
        "stores every result",
        [ALL, CUTS],
        ("made & {ops[-1][0], *(name for _, *inputs in later for name in inputs)}", "made"),
    ),
    wrong("chain_bytes", "loads what it makes", [ALL, CUTS], ("for name in inputs} - made", "for name in inputs}")),
    wrong(
        "chain_bytes",
        "forgets the result",
        [ONE, ALL, CUTS],
        (
            "{ops[-1][0], *(name for _, *inputs in later for name in inputs)}",
            "{name for _, *inputs in later for name in inputs}",
        ),
    ),
    wrong(
        "chain_bytes",
        "loads once for each use",
        [ALL, CUTS],
        (
            "{name for _, *inputs in own for name in inputs} - made",
            "[n for _, *ins in own for n in ins if n not in made]",
        ),
    ),
    wrong(
        "chain_bytes",
        "one store a kernel",
        [CUTS],
        ("stores = made & {ops[-1][0], *(name for _, *inputs in later for name in inputs)}", "stores = [0]"),
    ),
    wrong("chain_bytes", "one load an operation", [ONE, ALL, CUTS], ("len(loads)", "len(own)")),
    # -------------------- read_profiles
    wrong("read_profiles", "few bytes, so the launch", LIMITS, ('"C": "too few programs"', '"C": "the launch"')),
    wrong("read_profiles", "products, so tensor cores", LIMITS, ('"C": "too few programs"', '"C": "tensor cores"')),
    wrong("read_profiles", "a cache, so memory", LIMITS, ('"C": "too few programs"', '"C": "memory"')),
    wrong("read_profiles", "multiply-adds, so arithmetic", LIMITS, ('"D": "memory"', '"D": "arithmetic"')),
    wrong("read_profiles", "small, so too few programs", LIMITS, ('"A": "the launch"', '"A": "too few programs"')),
    wrong(
        "read_profiles",
        "memory everywhere",
        LIMITS,
        ('"A": "the launch"', '"A": "memory"'),
        ('"B": "arithmetic"', '"B": "memory"'),
    ),
    wrong("read_profiles", "numbers", LIMITS, ('"D": "memory"', '"D": 4')),
    honest(
        "read_profiles",
        "in another order",
        source='limited_by = {"D": "memory", "C": "too few programs", "B": "arithmetic", "A": "the launch"}\n',
    ),
    # -------------------- predicted_launches
    guesses("five operations, five kernels", "sin2_plus_cos2", "5"),
    guesses("a softmax in three", "softmax", "3"),
    guesses("a kernel for each output", "add_rmsnorm", "2"),
    guesses("GELU inside the product", "product_gelu", "1"),
    guesses("the sum in one", "over_its_sum", "2"),
    guesses("one kernel, however long", "over_its_sum", "1"),
    guesses("print is a kernel", "print_between", "3"),
    guesses("five kernels of attention", "attention", "5"),
    guesses("a print changes nothing", "print_between", "1"),
    guesses("FlashAttention by itself", "attention", "1"),
    # -------------------- sin2_plus_cos2
    wrong(
        "sin2_plus_cos2",
        "a mask of values that were left out",
        ["correct.ragged", "correct.half"],
        ("cosine * cosine, mask=i < n)", "cosine * cosine, mask=cosine < n)"),
    ),
    wrong("sin2_plus_cos2", "two kernels", [LAUNCH, ONCE], source=TWO_LAUNCHES_SIN_COS),
    wrong(
        "sin2_plus_cos2",
        "the identity for one angle",
        [PLAIN],
        ("sine * sine + cosine * cosine", "sine * sine + 1 - sine * sine"),
    ),
    wrong(
        "sin2_plus_cos2",
        "no mask on the loads",
        [RAGGED, HALF],
        ("tl.load(x_ptr + i, mask=i < n)", "tl.load(x_ptr + i)"),
    ),
    wrong(
        "sin2_plus_cos2",
        "no mask on the store",
        [RAGGED, HALF],
        ("sine * sine + cosine * cosine, mask=i < n)", "sine * sine + cosine * cosine)"),
    ),
    wrong("sin2_plus_cos2", "only whole blocks", [RAGGED, HALF], ("triton.cdiv(N, BLOCK)", "max(1, N // BLOCK)")),
    wrong("sin2_plus_cos2", "no squares", [PLAIN], ("sine * sine + cosine * cosine", "sine + cosine")),
    wrong("sin2_plus_cos2", "the cosine of x", [PLAIN], ("tl.cos(tl.load(y_ptr", "tl.cos(tl.load(x_ptr")),
    wrong(
        "sin2_plus_cos2",
        "rounds before the sine",
        [PLAIN],
        (
            "tl.load(x_ptr + i, mask=i < n).to(tl.float32)",
            "tl.load(x_ptr + i, mask=i < n).to(tl.float16).to(tl.float32)",
        ),
    ),
    wrong("sin2_plus_cos2", "in the dtype of x", [HALF], (".to(tl.float32)", "")),
    wrong(
        "sin2_plus_cos2",
        "reads x twice",
        [ONCE],
        (
            "sine * sine + cosine * cosine, ",
            "sine * tl.sin(tl.load(x_ptr + i, mask=i < n).to(tl.float32)) + cosine * cosine, ",
        ),
    ),
    wrong("sin2_plus_cos2", "torch does it", [TRITON], ("return out", "return x.sin() ** 2 + y.cos() ** 2")),
    # -------------------- bias_gelu
    wrong("bias_gelu", "two kernels", [LAUNCH, ONCE], source=BIAS_THEN_GELU),
    wrong(
        "bias_gelu",
        "reads x twice",
        [ONCE],
        (
            "    tl.store(",
            "    x = tl.load(x_ptr + offs_m * row_stride + offs_n, mask=inside)\n    z = x.to(tl.float32) + bias\n    tl.store(",
        ),
    ),
    honest(  # the same bytes for each of its rows: a request more, and every byte of it is used
        "bias_gelu",
        "the bias for every element",
        ("tl.load(bias_ptr + offs_n, mask=offs_n < N)", "tl.load(bias_ptr + offs_n + offs_m * 0, mask=inside)"),
    ),
    wrong(
        "bias_gelu",
        "the tanh approximation",
        [PLAIN],
        ("(1 + tl.erf(z * 0.7071067811865476))", "2 * tl.sigmoid(1.5957691216057308 * (z + 0.044715 * z * z * z))"),
    ),
    wrong(
        "bias_gelu",
        "the bias of the row",
        [PLAIN],
        ("tl.load(bias_ptr + offs_n, mask=offs_n < N)", "tl.load(bias_ptr + offs_m, mask=offs_m < N)"),
    ),
    wrong(
        "bias_gelu",
        "by a sigmoid",
        [PLAIN],
        ("0.5 * z * (1 + tl.erf(z * 0.7071067811865476))", "z * tl.sigmoid(1.702 * z)"),
    ),
    wrong("bias_gelu", "silu", [PLAIN], ("0.5 * z * (1 + tl.erf(z * 0.7071067811865476))", "z * tl.sigmoid(z)")),
    wrong("bias_gelu", "relu", [PLAIN], ("0.5 * z * (1 + tl.erf(z * 0.7071067811865476))", "tl.maximum(z, 0.0)")),
    wrong("bias_gelu", "the root of 2 forgotten", [PLAIN], ("tl.erf(z * 0.7071067811865476)", "tl.erf(z)")),
    wrong(
        "bias_gelu",
        "the bias afterwards",
        [PLAIN],
        (".to(tl.float32) + bias", ".to(tl.float32)"),
        ("(z * 0.7071067811865476))", "(z * 0.7071067811865476)) + bias"),
    ),
    wrong("bias_gelu", "forgets the bias", [PLAIN], (".to(tl.float32) + bias", ".to(tl.float32)")),
    wrong(
        "bias_gelu",
        "no column mask",
        [RAGGED, APART, HALF],
        ("(offs_m < M) & (offs_n < N)", "(offs_m < M) & (offs_n < N + BLOCK_N)"),
    ),
    wrong("bias_gelu", "x taken as contiguous", [APART], ("offs_m * row_stride", "offs_m * N")),
    wrong(
        "bias_gelu",
        "columns of four",
        ["coalesced.load.performance"],
        ("BLOCK_M, BLOCK_N = 8, 256", "BLOCK_M, BLOCK_N = 256, 4"),
    ),
    wrong("bias_gelu", "always float32", [HALF, LAUNCH, ONCE, "coalesced.load.performance"], FLOAT32_RESULT),
    wrong("bias_gelu", "torch adds the bias", [TRITON], ("](x, bias,", "](x + bias, bias,")),
    wrong(
        "sin2_plus_cos2",
        "exchanged",
        [PLAIN],
        ("tl.sin(", "tl.cosine("),
        ("tl.cos(", "tl.sin("),
        ("tl.cosine(", "tl.cos("),
    ),
    wrong(
        "sin2_plus_cos2",
        "of the squares",
        [PLAIN],
        (
            "    sine = tl.sin(tl.load(x_ptr + i, mask=i < n).to(tl.float32))",
            "    x = tl.load(x_ptr + i, mask=i < n).to(tl.float32)",
        ),
        (
            "    cosine = tl.cos(tl.load(y_ptr + i, mask=i < n).to(tl.float32))",
            "    y = tl.load(y_ptr + i, mask=i < n).to(tl.float32)",
        ),
        ("sine * sine + cosine * cosine", "tl.sin(x * x) + tl.cos(y * y)"),
    ),
    wrong(
        "sin2_plus_cos2",
        "squares the sum",
        [PLAIN],
        ("sine * sine + cosine * cosine", "(sine + cosine) * (sine + cosine)"),
    ),
    wrong("sin2_plus_cos2", "multiplies", [PLAIN], ("sine * sine + cosine * cosine", "sine * cosine")),
    wrong("sin2_plus_cos2", "subtracts", [PLAIN], ("sine * sine + cosine", "sine * sine - cosine")),
    # -------------------- softmax
    wrong("softmax", "rows as if they followed one another", [APART], ("row * row_stride", "row * N")),
    wrong(
        "softmax",
        "rows of the result lie as far apart as those of x",
        [APART],
        (
            "torch.empty((M, N), dtype=x.dtype, device=x.device)",
            "torch.empty_strided(x.shape, x.stride(), dtype=x.dtype)",
        ),
        ("row * N", "row * row_stride"),
        tells="not contiguous",
    ),
    wrong("softmax", "two kernels that read twice", [LAUNCH, ONCE], source=TWO_STAGE_SOFTMAX),
    wrong("softmax", "no maximum", [SOFTMAX], ("tl.exp(x - tl.max(x, axis=0))", "tl.exp(x)")),
    wrong(
        "softmax",
        "reads its row twice",
        [ONCE],
        (
            "    p = tl.exp(",
            '    x = tl.load(x_ptr + row * row_stride + offs_n, mask=offs_n < N, other=-float("inf")).to(tl.float32)\n    p = tl.exp(',
        ),
    ),
    wrong("softmax", "masked positions hold 0", [RAGGED, APART, SOFTMAX], ('other=-float("inf")', "other=0")),
    wrong("softmax", "masked positions unset", [RAGGED, APART, SOFTMAX], (', other=-float("inf")', "")),
    wrong("softmax", "x taken as contiguous", [APART], ("row * row_stride", "row * N")),
    wrong(
        "softmax", "the largest magnitude", [RAGGED, APART, SOFTMAX], ("tl.max(x, axis=0)", "tl.max(tl.abs(x), axis=0)")
    ),
    wrong("softmax", "powers of 2", [PLAIN], ("tl.exp(x -", "tl.exp2(x -")),
    wrong("softmax", "no division", [PLAIN], ("p / tl.sum(p, axis=0)", "p")),
    wrong("softmax", "1e-6 in the sum", [RAGGED], ("p / tl.sum(p, axis=0)", "p / (tl.sum(p, axis=0) + 1e-6)")),
    wrong("softmax", "the logarithm of the sum", [PLAIN], ("p / tl.sum(p, axis=0)", "p / tl.log(tl.sum(p, axis=0))")),
    wrong(
        "softmax",
        "the logarithm of the softmax",
        [PLAIN],
        ("p / tl.sum(p, axis=0)", "x - tl.max(x, axis=0) - tl.log(tl.sum(p, axis=0))"),
    ),
    wrong("softmax", "divided by the length", [PLAIN], ("p / tl.sum(p, axis=0)", "p / N")),
    wrong("softmax", "logits cut off at 80", [SOFTMAX], ("x - tl.max(x, axis=0)", "tl.minimum(x, 80.0)")),
    wrong(
        "softmax",
        "exponentials in float16",
        [PLAIN],
        ("p = tl.exp(x - tl.max(x, axis=0))", "p = tl.exp(x - tl.max(x, axis=0)).to(tl.float16).to(tl.float32)"),
    ),
    wrong(
        "softmax",
        "divided by the sum of x",
        [PLAIN],
        ("p / tl.sum(p, axis=0)", "p / tl.sum(tl.where(offs_n < N, x, 0), axis=0)"),
    ),
    wrong("softmax", "always float32", [RAGGED, APART, SOFTMAX, LAUNCH, ONCE], FLOAT32_RESULT),
    wrong(
        "softmax",
        "stores, loads and divides",
        [ONCE],
        (
            "    tl.store(out_ptr + row * N + offs_n, p / tl.sum(p, axis=0), mask=offs_n < N)",
            "    tl.store(out_ptr + row * N + offs_n, p, mask=offs_n < N)\n"
            "    tl.store(out_ptr + row * N + offs_n, p / tl.sum(p, axis=0), mask=offs_n < N)",
        ),
    ),
    wrong("softmax", "torch does it", [TRITON], ("return out", "return torch.softmax(x, 1)")),
    # -------------------- online_softmax
    wrong("online_softmax", "three passes", [TWICE], *THREE_PASSES),
    wrong("online_softmax", "a row in one block", [LONG], source=ONE_BLOCK),
    wrong("online_softmax", "the old sum uncorrected", [ONLINE, LONG], ("l * alpha", "l")),
    wrong(
        "online_softmax",
        "alpha of the new maximum alone",
        [ONLINE, LONG],
        ("        alpha = tl.exp(m - m_new)", "        m = m_new\n        alpha = tl.exp(m - m_new)"),
    ),
    wrong("online_softmax", "alpha twice", [LONG], ("l * alpha", "l * alpha * alpha")),
    wrong("online_softmax", "powers of 2", [PLAIN], ("tl.exp(", "tl.exp2(")),
    wrong("online_softmax", "starts at -inf", [ONLINE], ("m, l = -3.4e38, 0.0", 'm, l = -float("inf"), 0.0')),
    wrong("online_softmax", "starts at 0", [ONLINE], ("m, l = -3.4e38, 0.0", "m, l = 0.0, 0.0")),
    wrong("online_softmax", "starts at -100", [ONLINE], ("m, l = -3.4e38, 0.0", "m, l = -100.0, 0.0")),
    wrong("online_softmax", "starts at -10000", [ONLINE], ("m, l = -3.4e38, 0.0", "m, l = -1e4, 0.0")),
    wrong(
        "online_softmax",
        "stores in both loops",
        [TWICE],
        (
            "        m = m_new\n",
            "        m = m_new\n        tl.store(out_ptr + row * N + offs_n, x, mask=offs_n < N)\n",
        ),
        tells="`out` is written 2 times",
    ),
    wrong("online_softmax", "no maximum", [ONLINE], ("m_new = tl.maximum(m, tl.max(x, axis=0))", "m_new = m * 0.0")),
    wrong(
        "online_softmax",
        "the maximum of the last block",
        [ONLINE],
        ("tl.maximum(m, tl.max(x, axis=0))", "tl.max(x, axis=0)"),
    ),
    wrong("online_softmax", "ignores the row stride", [RAGGED], ("row * row_stride", "row * N")),
    wrong("online_softmax", "masked positions hold 0", [PLAIN], ('other=-float("inf")', "other=0")),
    wrong(
        "online_softmax", "only whole blocks", [TRITON], ("range(0, N, BLOCK)", "range(0, N // BLOCK * BLOCK, BLOCK)")
    ),
    wrong(
        "online_softmax",
        "masked positions hold 0 in short blocks",
        [PLAIN],
        ('other=-float("inf")', "other=0"),
        ("min(16384, triton.next_power_of_2(N))", "1024"),
    ),
    wrong("online_softmax", "no division", [PLAIN], ("tl.exp(x - m) / l", "tl.exp(x - m)")),
    wrong("online_softmax", "the sum of the last block", [LONG, ONLINE], ("l = l * alpha + tl.sum", "l = tl.sum")),
    wrong("online_softmax", "1e-6 in the sum", [RAGGED], ("tl.exp(x - m) / l", "tl.exp(x - m) / (l + 1e-6)")),
    wrong("online_softmax", "the logarithm of the sum", [PLAIN], ("tl.exp(x - m) / l", "tl.exp(x - m) / tl.log(l)")),
    wrong("online_softmax", "the maximum stays where it starts", [PLAIN], ("        m = m_new\n", "")),
    wrong(
        "online_softmax",
        "alpha on the new block, too",
        [PLAIN],
        ("l * alpha + tl.sum(tl.exp(x - m_new), axis=0)", "(l + tl.sum(tl.exp(x - m_new), axis=0)) * alpha"),
    ),
    wrong("online_softmax", "torch does it", [TRITON], ("return out", "return torch.softmax(x, 1)")),
    # -------------------- rmsnorm
    wrong("rmsnorm", "divides by the block", [RAGGED, APART, NORM], ("axis=0) / N + eps", "axis=0) / BLOCK + eps")),
    wrong("rmsnorm", "divides by N - 1", [PLAIN], (" / N + eps)", " / (N - 1) + eps)")),
    wrong("rmsnorm", "eps times N", [PLAIN], (" / N + eps)", " / N + eps * N)")),
    wrong("rmsnorm", "no eps", [RAGGED, NORM], (" / N + eps)", " / N)")),
    wrong(
        "rmsnorm",
        "eps outside the root",
        [RAGGED, NORM],
        ("tl.rsqrt(tl.sum(x * x, axis=0) / N + eps)", "1 / (tl.sqrt(tl.sum(x * x, axis=0) / N) + eps)"),
    ),
    wrong(
        "rmsnorm",
        "squares in the dtype of x",
        [NORM],
        ("tl.sum(x * x, axis=0)", "tl.sum((x * x).to(x_ptr.dtype.element_ty).to(tl.float32), axis=0)"),
    ),
    wrong("rmsnorm", "a sum, not a mean", [PLAIN], ("axis=0) / N + eps", "axis=0) + eps")),
    wrong("rmsnorm", "the mean of magnitudes", [PLAIN], ("tl.sum(x * x, axis=0)", "tl.sum(tl.abs(x), axis=0)")),
    wrong("rmsnorm", "not squared", [PLAIN], ("tl.sum(x * x, axis=0)", "tl.sum(x, axis=0)")),
    wrong(
        "rmsnorm",
        "the square of the mean",
        [PLAIN],
        ("tl.sum(x * x, axis=0) / N", "tl.sum(x, axis=0) / N * tl.sum(x, axis=0) / N"),
    ),
    wrong(
        "rmsnorm",
        "the square of the sum",
        [PLAIN],
        ("tl.sum(x * x, axis=0) / N", "tl.sum(x, axis=0) * tl.sum(x, axis=0) / N"),
    ),
    wrong(
        "rmsnorm",
        "divided by the standard deviation",
        [PLAIN],
        ("tl.sum(x * x, axis=0) / N", "tl.sum(x * x, axis=0) / N - (tl.sum(x, axis=0) / N) * (tl.sum(x, axis=0) / N)"),
    ),
    wrong("rmsnorm", "divided by rsqrt", [PLAIN], ("x * scale * weight", "x / scale * weight")),
    wrong("rmsnorm", "one more than the weights", [PLAIN], ("x * scale * weight", "x * scale * (1 + weight)")),
    wrong("rmsnorm", "adds the weights", [PLAIN], ("x * scale * weight", "x * scale + weight")),
    wrong("rmsnorm", "divided by the weights", [PLAIN], ("x * scale * weight", "x * scale / weight")),
    wrong(
        "rmsnorm",
        "no root",
        [PLAIN],
        ("tl.rsqrt(tl.sum(x * x, axis=0) / N + eps)", "1 / (tl.sum(x * x, axis=0) / N + eps)"),
    ),
    wrong("rmsnorm", "the layer norm", [PLAIN], ("    scale =", "    x = x - tl.sum(x, axis=0) / N\n    scale =")),
    wrong(
        "rmsnorm",
        "reads x twice",
        [ONCE],
        (
            "    weight =",
            "    x = tl.load(x_ptr + row * row_stride + offs_n, mask=offs_n < N, other=0).to(tl.float32)\n    weight =",
        ),
    ),
    wrong(
        "rmsnorm",
        "a launch for each row",
        [LAUNCH, ONCE],
        (
            "    rmsnorm_kernel[(M,)](x, weight, out, N,",
            "    for row in range(M):\n        rmsnorm_kernel[(1,)](x[row], weight, out[row], N,",
        ),
        ("x.stride(0)", "N"),
    ),
    wrong("rmsnorm", "forgets the weights", [PLAIN], ("x * scale * weight", "x * scale")),
    wrong("rmsnorm", "x taken as contiguous", [APART], ("row * row_stride", "row * N")),
    wrong("rmsnorm", "masked positions unset", [RAGGED, APART, NORM], (", other=0,", ",")),
    wrong(
        "rmsnorm",
        "torch does it",
        [TRITON],
        ("return out", "return torch.nn.functional.rms_norm(x, weight.shape, weight, eps)"),
    ),
    # -------------------- add_rmsnorm
    wrong("add_rmsnorm", "two kernels", [LAUNCH, BOTH], source=NORM_READS_H_AGAIN),
    wrong("add_rmsnorm", "the norm, twice", [PLAIN], ("return out, h", "return out, out"), tells="and so is result 1"),
    wrong(
        "add_rmsnorm",
        "adds afterwards",
        [PLAIN],
        ("tl.sum(h * h, axis=0)", "tl.sum((h - residual) * (h - residual), axis=0)"),
        (
            'h += tl.load(residual_ptr + at, mask=inside, other=0, eviction_policy="evict_last").to(tl.float32)',
            "residual = tl.load(residual_ptr + at, mask=inside, other=0).to(tl.float32)\n    h += residual",
        ),
        ("h * scale * weight", "(h - residual) * scale * weight + residual"),
    ),
    wrong(
        "add_rmsnorm",
        "forgets the residual",
        [PLAIN],
        ("tl.sum(h * h, axis=0)", "tl.sum((h - residual) * (h - residual), axis=0)"),
        (
            'h += tl.load(residual_ptr + at, mask=inside, other=0, eviction_policy="evict_last").to(tl.float32)',
            "residual = tl.load(residual_ptr + at, mask=inside, other=0).to(tl.float32)\n    h += residual",
        ),
        ("h * scale * weight", "(h - residual) * scale * weight"),
    ),
    wrong("add_rmsnorm", "adds the sum again", [PLAIN], ("h * scale * weight", "h * scale * weight + h")),
    wrong("add_rmsnorm", "in the other order", [PLAIN], ("return out, h", "return h, out")),
    wrong(
        "add_rmsnorm",
        "normalises x",
        [PLAIN],
        (
            "h * scale * weight",
            "(h - tl.load(residual_ptr + at, mask=inside, other=0).to(tl.float32)) * scale * weight",
        ),
    ),
    wrong("add_rmsnorm", "divides by the block", [RAGGED, NORM], ("axis=0) / N + eps", "axis=0) / BLOCK + eps")),
    wrong("add_rmsnorm", "no eps", [RAGGED, NORM], (" / N + eps)", " / N)")),
    wrong(
        "add_rmsnorm",
        "reads the sum back",
        [BOTH],
        (
            "    scale =",
            "    tl.debug_barrier()\n    h = tl.load(h_ptr + at, mask=inside, other=0).to(tl.float32)\n    scale =",
        ),
        tells="writes it and reads it back",
    ),
    wrong("add_rmsnorm", "adds into x", [PLAIN], ("tl.store(h_ptr + at", "tl.store(x_ptr + at")),
    wrong("add_rmsnorm", "torch adds", [TRITON], ("return out, h", "return out, x + residual")),
    # -------------------- cross_entropy
    wrong("cross_entropy", "stores the probabilities", [LOGITS, PROBABILITIES], source=STORES_PROBABILITIES),
    wrong("cross_entropy", "no maximum", [LOSS], ("m_new = tl.maximum(m, tl.max(x, axis=0))", "m_new = m * 0.0")),
    wrong("cross_entropy", "starts at -inf", [LOSS], ("m, l = -3.4e38, 0.0", 'm, l = -float("inf"), 0.0')),
    wrong("cross_entropy", "starts at 0", [LOSS], ("m, l = -3.4e38, 0.0", "m, l = 0.0, 0.0")),
    wrong("cross_entropy", "starts at -100", [LOSS], ("m, l = -3.4e38, 0.0", "m, l = -100.0, 0.0")),
    wrong("cross_entropy", "starts at -10000", [LOSS], ("m, l = -3.4e38, 0.0", "m, l = -1e4, 0.0")),
    wrong("cross_entropy", "the old sum uncorrected", [RAGGED, LOSS, LOGITS, PROBABILITIES], ("l * alpha", "l")),
    wrong("cross_entropy", "forgets the maximum", [PLAIN], ("m + tl.log(l) - right", "tl.log(l) - right")),
    wrong(
        "cross_entropy",
        "the target's row as if rows followed one another",
        [RAGGED],
        ("logits_ptr + row * row_stride + tl.load(", "logits_ptr + row * V + tl.load("),
    ),
    wrong("cross_entropy", "the target forgotten", [PLAIN], ("m + tl.log(l) - right", "m + tl.log(l)")),
    wrong("cross_entropy", "the other sign", [PLAIN], ("m + tl.log(l) - right", "right - m - tl.log(l)")),
    wrong(
        "cross_entropy", "the mean", [PLAIN], ("m + tl.log(l) - right", "(m + tl.log(l) - right) / tl.num_programs(0)")
    ),
    wrong("cross_entropy", "the probability", [PLAIN], ("m + tl.log(l) - right", "tl.exp(right - m) / l")),
    wrong("cross_entropy", "base two", [PLAIN], ("tl.log(l)", "tl.log2(l)")),
    wrong("cross_entropy", "the first class", [PLAIN], (" + tl.load(target_ptr + row))", ")")),
    wrong(
        "cross_entropy",
        "the target's logit of row 0",
        [PLAIN],
        ("logits_ptr + row * row_stride + tl.load(", "logits_ptr + tl.load("),
    ),
    wrong("cross_entropy", "the target of row 0", [PLAIN], ("target_ptr + row)", "target_ptr)")),
    wrong("cross_entropy", "the logits of row 0", [PLAIN], ("logits_ptr + row * row_stride", "logits_ptr")),
    wrong("cross_entropy", "masked positions hold 0", [PLAIN], ('other=-float("inf")', "other=0")),
    wrong("cross_entropy", "subtracts the maximum", [PLAIN], ("m + tl.log(l) - right", "tl.log(l) - m - right")),
    wrong(
        "cross_entropy",
        "the logits as if rows followed one another, but not the target's",
        [RAGGED],
        ("logits_ptr + row * row_stride + offs_n", "logits_ptr + row * V + offs_n"),
    ),
    wrong(
        "cross_entropy",
        "all losses into one",
        [PLAIN],
        ("tl.store(out_ptr + row, m", "tl.atomic_add(out_ptr + row * 0, m"),
    ),
    wrong(
        "cross_entropy",
        "the logarithm of the softmax",
        [LOSS],
        ("m + tl.log(l) - right", "-tl.log(tl.exp(right - m) / l)"),
    ),
    wrong(
        "cross_entropy",
        "two passes",
        [LOGITS],
        (
            "        m_new = tl.maximum(m, tl.max(x, axis=0))\n"
            "        alpha = tl.exp(m - m_new)\n"
            "        l = l * alpha + tl.sum(tl.exp(x - m_new), axis=0)\n"
            "        m = m_new\n",
            "        m = tl.maximum(m, tl.max(x, axis=0))\n"
            "    for start in range(0, V, BLOCK):\n"
            "        offs_n = start + tl.arange(0, BLOCK)\n"
            '        x = tl.load(logits_ptr + row * row_stride + offs_n, mask=offs_n < V, other=-float("inf")).to(tl.float32)\n'
            "        l += tl.sum(tl.exp(x - m), axis=0)\n",
        ),
    ),
    wrong("cross_entropy", "ignores the row stride", [RAGGED], ("row * row_stride", "row * V")),
    wrong(
        "cross_entropy",
        "torch does it",
        [TRITON],
        ("return out", "return torch.nn.functional.cross_entropy(logits.float(), target, reduction='none')"),
    ),
]

HONEST = [
    honest(
        "chain_bytes",
        "by simulation",
        source="""
def chain_bytes(n, ops, itemsize, fused):
    moved, kernels = 0, []
    for count in fused:
        kernels.append(ops[:count])
        ops = ops[count:]
    last = kernels[-1][-1][0]
    for k, kernel in enumerate(kernels):
        here = set()
        for result, *inputs in kernel:
            for name in inputs:
                if name not in here:
                    moved += n * itemsize
                    here.add(name)
            here.add(result)
        for result, *_ in kernel:
            if result == last or any(result in op[1:] for other in kernels[k + 1 :] for op in other):
                moved += n * itemsize
    return moved
""",
    ),
    honest("sin2_plus_cos2", "blocks of 512", ("BLOCK = 1024", "BLOCK = 512")),
    honest(
        "sin2_plus_cos2",
        "in another order",
        ("sine * sine + cosine * cosine", "1 + (cosine * cosine - (1 - sine * sine))"),
    ),
    honest("bias_gelu", "one row a program", ("BLOCK_M, BLOCK_N = 8, 256", "BLOCK_M, BLOCK_N = 1, 1024")),
    honest("bias_gelu", "other tiles", ("BLOCK_M, BLOCK_N = 8, 256", "BLOCK_M, BLOCK_N = 32, 64")),
    honest("bias_gelu", "masked positions get a value", ("mask=inside, eviction", "mask=inside, other=0, eviction")),
    honest("softmax", "several rows a program, exp2", source=SEVERAL_ROWS_SOFTMAX),
    honest("softmax", "eight rows a program", source=SEVERAL_ROWS_SOFTMAX.replace("max(1, 4096 // BLOCK_N)", "8")),
    honest("softmax", "persistent, with a helper", source=PERSISTENT_SOFTMAX),
    honest("softmax", "multiplies by the reciprocal", ("p / tl.sum(p, axis=0)", "p * (1 / tl.sum(p, axis=0))")),
    honest("online_softmax", "a state for each lane", source=ONE_LANE_EACH),
    honest("online_softmax", "two stages over split rows", source=SPLIT_ROWS),
    honest("online_softmax", "small blocks", ("min(16384,", "min(1024,")),
    honest("rmsnorm", "tiles of rows, autotuned", source=RMSNORM_TILES),
    honest(
        "rmsnorm",
        "a square root and a division",
        ("tl.rsqrt(tl.sum(x * x, axis=0) / N + eps)", "1.0 / tl.sqrt(tl.sum(x * x, axis=0) / N + eps)"),
    ),
    honest(
        "add_rmsnorm",
        "the sum as it is stored",
        ("    scale =", "    h = h.to(x_ptr.dtype.element_ty).to(tl.float32)\n    scale ="),
    ),
    honest("cross_entropy", "a row in one block", source=ONE_BLOCK_A_ROW),
    honest("cross_entropy", "the target picked on the way", source=PICKED_ON_THE_WAY),
]

BREAKING = [
    *breaking(wrong, "break_softmax", "{'x': torch.randn(16, 64)}"),
    wrong("break_softmax", "numbers that no kernel gets right", [KILLS], ("return [", "return [{'x': torch.full((3, 5), float('inf'))}, ")),
    wrong("break_softmax", "more than is allowed", [KILLS], ("return [", "return [{'x': torch.ones(200, 200)}, ")),
    wrong("break_softmax", "the exercise for another dtype", [KILLS], source="def breaking_inputs():\n    return [{'x': torch.randn(64, 3).T}]\n"),
    wrong("break_softmax", "sizes alone", [KILLS], source="def breaking_inputs():\n    return [{'x': torch.randn(10, 137)}]\n"),
    honest("break_softmax", "rows by hand", source="""
def breaking_inputs():
    row = [float(i) for i in range(-20300, -20000)]
    back = list(reversed([0.5 * i for i in range(250)]))
    return [{"x": torch.tensor([row, row])[:, :290]}, {"x": torch.tensor([back])}]
"""),
]  # fmt: skip

LOG = logging(
    (wrong, honest),
    "fusion.softmax_log",
    ({"M": 64, "N": 512}, {"M": 128, "N": 384}),
    ("first_softmax", {"bytes": "32*M*N", "sectors": "M*N", "launches": 5}),
)

VARIANTS = LOG + BREAKING + WRONG + HONEST
