"""Unit 07. What each variant must lose stands next to it; () means full marks."""

from grader.audit.variants import kinds
from grader.audit.variants.forms import logging

wrong, honest = kinds("recomputation")

PLAIN = ["correct.plain"]
WORK = ["triton_did_the_work"]

KEPT = ["correct.plain"]
BYTES, INPUTS, SHARED, OTHERS = ("correct.plain", "correct.inputs", "correct.shared", "correct.others")
STORED, AGAIN = "correct.stored", "correct.recomputed"
TWICE = "correct.twice"
RAGGED, LARGE = "correct.ragged", "correct.hard"
ONLY_X, FORWARD, BACKWARD, FIVE = (
    "saves.performance",
    "launches.performance.forward",
    "launches.performance.backward",
    "traffic.performance",
)
ONLY_INPUTS, EIGHT = "saves.performance", "traffic.performance"
LOGITS, ONCE, DENSE, TABLE = (
    "correct.hard",
    "traffic.performance",
    "coalesced.load.performance",
    "buffers_below.performance",
)
ROWS, NORM_TRAFFIC, ATOMICS, PROGRAMS = (
    "correct.hard",
    "traffic.performance",
    "no_atomics.performance",
    "programs.performance",
)
ANY, NOTHING = "correct.probabilities", "keeps_nothing.performance"
GRADIENTS, MEMORY, FREES, DROPOUT, AFTER = (
    "holds.look.plain",
    "seen.recomputes.memory",
    "seen.looked.memory",
    "seen.same_dropout.dropout",
    "seen.looked.after",
)
LEAST, SAYS, COUNTED = (
    "holds.has_the_least_peak.plain",
    "holds.says_its_peak.plain",
    "holds.holds_when_counted.counted",
)

SIGMOID_CALL = "        sigmoid3_kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)  # reads n, writes n\n"
ONE_SIGMOID = """@triton.jit
def one(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.sigmoid(tl.load(x_ptr + i, mask=i < n, other=0).to(tl.float32)), mask=i < n)


@triton.jit
def one_back(s_ptr, dy_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    s = tl.load(s_ptr + i, mask=i < n, other=0).to(tl.float32)
    dy = tl.load(dy_ptr + i, mask=i < n, other=0).to(tl.float32)
    tl.store(dx_ptr + i, dy * s * (1 - s), mask=i < n)


class Sigmoid3(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        n, kept = x.numel(), [x]
        for _ in range(3):
            kept.append(torch.empty_like(x))
            one[(triton.cdiv(n, 2048),)](kept[-2], kept[-1], n, BLOCK=2048)
        ctx.save_for_backward(*kept[1:])
        return kept[-1]

    @staticmethod
    def backward(ctx, dy):
        n = dy.numel()
        for s in ctx.saved_tensors[::-1]:
            dx = torch.empty_like(dy)
            one_back[(triton.cdiv(n, 2048),)](s, dy, dx, n, BLOCK=2048)
            dy = dx
        return dy
"""
STORING = """@triton.jit
def forward_kernel(x_ptr, s1_ptr, s2_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    s1 = tl.sigmoid(tl.load(x_ptr + i, mask=i < n, other=0).to(tl.float32))
    s2 = tl.sigmoid(s1)
    tl.store(s1_ptr + i, s1, mask=i < n)
    tl.store(s2_ptr + i, s2, mask=i < n)
    tl.store(out_ptr + i, tl.sigmoid(s2), mask=i < n)


@triton.jit
def backward_kernel(s1_ptr, s2_ptr, dy_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    s1 = tl.load(s1_ptr + i, mask=i < n, other=0).to(tl.float32)
    s2 = tl.load(s2_ptr + i, mask=i < n, other=0).to(tl.float32)
    s3 = tl.sigmoid(s2)
    dy = tl.load(dy_ptr + i, mask=i < n, other=0).to(tl.float32)
    tl.store(dx_ptr + i, dy * s3 * (1 - s3) * s2 * (1 - s2) * s1 * (1 - s1), mask=i < n)


class Sigmoid3(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        n, (s1, s2, out) = x.numel(), (torch.empty_like(x) for _ in range(3))
        forward_kernel[(triton.cdiv(n, 2048),)](x, s1, s2, out, n, BLOCK=2048)
        ctx.save_for_backward(s1, s2)
        return out

    @staticmethod
    def backward(ctx, dy):
        s1, s2 = ctx.saved_tensors
        dx, n = torch.empty_like(dy), dy.numel()
        backward_kernel[(triton.cdiv(n, 2048),)](s1, s2, dy, dx, n, BLOCK=2048)
        return dx
"""
STORED_MASK = """@triton.jit
def forward_kernel(x_ptr, mask_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    kept = tl.rand(seed, i) >= p
    x = tl.load(x_ptr + i, mask=i < n, other=0).to(tl.float32)
    tl.store(mask_ptr + i, kept.to(tl.int8), mask=i < n)
    tl.store(out_ptr + i, tl.where(kept, x / (1 - p), 0.0), mask=i < n)


@triton.jit
def backward_kernel(dy_ptr, mask_ptr, dx_ptr, n, p, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    kept = tl.load(mask_ptr + i, mask=i < n, other=0)
    dy = tl.load(dy_ptr + i, mask=i < n, other=0).to(tl.float32)
    tl.store(dx_ptr + i, tl.where(kept != 0, dy / (1 - p), 0.0), mask=i < n)


class SeededDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, p, seed):
        out, mask, n = torch.empty_like(x), torch.empty(x.shape, dtype=torch.int8, device=x.device), x.numel()
        ctx.p = p
        ctx.save_for_backward(mask)
        forward_kernel[(triton.cdiv(n, 2048),)](x, mask, out, n, p, seed, BLOCK=2048)
        return out

    @staticmethod
    def backward(ctx, dy):
        (mask,) = ctx.saved_tensors
        dx, n = torch.empty_like(dy), dy.numel()
        backward_kernel[(triton.cdiv(n, 2048),)](dy, mask, dx, n, ctx.p, BLOCK=2048)
        return dx, None, None
"""
OWN_SOFTMAX = """@triton.jit
def kernel(x_ptr, target_ptr, lse_ptr, dloss_ptr, dx_ptr, V, BLOCK: tl.constexpr):
    row, offs_n = tl.program_id(0), tl.arange(0, BLOCK)
    target, dloss = tl.load(target_ptr + row), tl.load(dloss_ptr + row)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, V, BLOCK):
        x = tl.load(x_ptr + row * V + start + offs_n, mask=start + offs_n < V, other=-float("inf")).to(tl.float32)
        total += tl.exp(x - tl.load(lse_ptr + row))
    sums = tl.sum(total, axis=0)
    for start in range(0, V, BLOCK):
        x = tl.load(x_ptr + row * V + start + offs_n, mask=start + offs_n < V, other=-float("inf")).to(tl.float32)
        p = tl.exp(x - tl.load(lse_ptr + row)) / sums
        dx = (p - tl.where(start + offs_n == target, 1.0, 0.0)) * dloss
        tl.store(dx_ptr + row * V + start + offs_n, dx, mask=start + offs_n < V)


def cross_entropy_backward(x, target, lse, dloss):
    M, V = x.shape
    dx = torch.empty_like(x)
    kernel[(M,)](x, target, lse, dloss, dx, V, BLOCK=1024)
    return dx
"""
TWO_STEPS = """@triton.jit
def probabilities(x_ptr, lse_ptr, p_ptr, V, BLOCK: tl.constexpr):
    row, offs_n = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * V + offs_n, mask=offs_n < V, other=0).to(tl.float32)
    tl.store(p_ptr + row * V + offs_n, tl.exp(x - tl.load(lse_ptr + row)), mask=offs_n < V)


@triton.jit
def gradient(p_ptr, target_ptr, dloss_ptr, dx_ptr, V, BLOCK: tl.constexpr):
    row, offs_n = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    p = tl.load(p_ptr + row * V + offs_n, mask=offs_n < V, other=0)
    dx = (p - tl.where(offs_n == tl.load(target_ptr + row), 1.0, 0.0)) * tl.load(dloss_ptr + row)
    tl.store(dx_ptr + row * V + offs_n, dx, mask=offs_n < V)


def cross_entropy_backward(x, target, lse, dloss):
    M, V = x.shape
    p, dx = torch.empty((M, V), dtype=torch.float32, device=x.device), torch.empty_like(x)
    grid = (M, triton.cdiv(V, 4096))
    probabilities[grid](x, lse, p, V, BLOCK=4096)
    gradient[grid](p, target, dloss, dx, V, BLOCK=4096)
    return dx
"""
LOCKS = """@triton.jit
def rmsnorm_backward_kernel(
    x_ptr, weight_ptr, rstd_ptr, dy_ptr, dx_ptr, partial_ptr, lock_ptr, N, GROUPS: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0)
    offs_n = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + offs_n, mask=offs_n < N, other=0).to(tl.float32)
    dy = tl.load(dy_ptr + row * N + offs_n, mask=offs_n < N, other=0).to(tl.float32)
    weight = tl.load(weight_ptr + offs_n, mask=offs_n < N, other=0).to(tl.float32)
    rstd = tl.load(rstd_ptr + row)
    normed = x * rstd
    g = dy * weight
    dx = rstd * (g - normed * (tl.sum(g * normed, axis=0) / N))
    tl.store(dx_ptr + row * N + offs_n, dx, mask=offs_n < N)
    part = dy * normed
    group = row % GROUPS
    lock, count = lock_ptr + group, lock_ptr + GROUPS + group
    sums = partial_ptr + group * N + offs_n
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    if tl.load(count) == 0:  # the first to come stores, the others add
        tl.atomic_xchg(count, 1)
    else:
        part += tl.load(sums, mask=offs_n < N)
    tl.store(sums, part, mask=offs_n < N)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def add_rows_kernel(partial_ptr, out_ptr, P, N, BLOCK_P: tl.constexpr, BLOCK_N: tl.constexpr):
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    total = tl.zeros((BLOCK_P, BLOCK_N), dtype=tl.float32)
    for start in range(0, P, BLOCK_P):
        offs_m = start + tl.arange(0, BLOCK_P)[:, None]
        total += tl.load(partial_ptr + offs_m * N + offs_n, mask=(offs_m < P) & (offs_n < N), other=0)
    tl.store(out_ptr + offs_n, tl.sum(total, axis=0)[None, :], mask=offs_n < N)


def rmsnorm_backward(x, weight, rstd, dy):
    M, N = x.shape
    GROUPS = 64
    dx = torch.empty_like(x)
    partial = torch.zeros((GROUPS, N), dtype=torch.float32, device=x.device)
    locks = torch.zeros(2 * GROUPS, dtype=torch.int32, device=x.device)
    dweight = torch.empty(N, dtype=torch.float32, device=x.device)
    rmsnorm_backward_kernel[(M,)](
        x, weight, rstd, dy, dx, partial, locks, N, GROUPS=GROUPS, BLOCK=triton.next_power_of_2(N)
    )
    add_rows_kernel[(triton.cdiv(N, 64),)](partial, dweight, GROUPS, N, BLOCK_P=32, BLOCK_N=64)
    return dx, dweight
"""

WRONG = [
    # -------------------- kept_tensors
    wrong("kept_tensors", "relu keeps nothing", KEPT, ('"relu(x)": 1', '"relu(x)": 0')),
    wrong("kept_tensors", "a sum keeps one", KEPT, ('"x + y": 0', '"x + y": 1')),
    wrong("kept_tensors", "inputs count", KEPT, ('"x * y": 0', '"x * y": 2')),
    wrong("kept_tensors", "the last output is free", KEPT, ('"three sigmoids": 3', '"three sigmoids": 2')),
    wrong("kept_tensors", "gelu keeps its output", KEPT, ('"gelu(x)": 0', '"gelu(x)": 1')),
    wrong("kept_tensors", "one tensor of the MLP", KEPT, ('"gelu(x @ w1) @ w2": 8', '"gelu(x @ w1) @ w2": 4')),
    wrong("kept_tensors", "tensors, whatever their size", KEPT, ('"gelu(x @ w1) @ w2": 8', '"gelu(x @ w1) @ w2": 2')),
    # -------------------- saved_bytes
    wrong("saved_bytes", "inputs count", [BYTES, INPUTS, SHARED], ("if address not in own", "if True")),
    wrong(
        "saved_bytes",
        "each tensor, not each storage",
        [SHARED],
        (
            "kept[storage.data_ptr()] = storage.nbytes()",
            "kept[len(kept)] = 0 if storage.data_ptr() in own else storage.nbytes()",
        ),
        ("    kept = {}", "    own = {t.untyped_storage().data_ptr() for t in inputs}\n    kept = {}"),
        ("if address not in own", "if True"),
    ),
    wrong("saved_bytes", "elements, not bytes", [BYTES, INPUTS, SHARED, OTHERS], ("= storage.nbytes()", "= t.numel()")),
    wrong(
        "saved_bytes", "float32 alone", [OTHERS], ("= storage.nbytes()", "= 4 * (storage.nbytes() // t.element_size())")
    ),
    wrong("saved_bytes", "bytes of the view", [SHARED], ("storage.nbytes()", "t.numel() * t.element_size()")),
    wrong(
        "saved_bytes",
        "bytes of the first view",
        [SHARED],
        (
            "kept[storage.data_ptr()] = storage.nbytes()",
            "kept.setdefault(storage.data_ptr(), t.numel() * t.element_size())",
        ),
    ),
    wrong(
        "saved_bytes",
        "keeps nothing, and meets addresses again",
        [SHARED],
        ("        return t\n", "        return None\n"),
    ),
    wrong(
        "saved_bytes",
        "the result counts",
        [BYTES, INPUTS, SHARED, OTHERS],
        ("    own =", "    kept[0] = out.untyped_storage().nbytes()\n    own ="),
    ),
    wrong(
        "saved_bytes",
        "addresses of tensors",
        [SHARED],
        ("t.untyped_storage().data_ptr() for t in inputs", "t.data_ptr() for t in inputs"),
        ("kept[storage.data_ptr()]", "kept[t.data_ptr()]"),
    ),
    # -------------------- sigmoid3_traffic
    wrong("sigmoid3_traffic", "backward reads all three", [STORED], ("else (4, 4)", "else (4, 5)")),
    wrong("sigmoid3_traffic", "one sigmoid after the other", [STORED], ("else (4, 4)", "else (6, 9)")),
    wrong("sigmoid3_traffic", "forgets the gradient that arrives", [AGAIN], ("(2, 3) if", "(2, 2) if")),
    wrong("sigmoid3_traffic", "forward stores s1", [AGAIN], ("(2, 3) if", "(3, 3) if")),
    wrong(
        "sigmoid3_traffic",
        "float32 alone",
        [STORED, AGAIN],
        ("* n * itemsize, backward * n * itemsize", "* n * 4, backward * n * 4"),
    ),
    wrong("sigmoid3_traffic", "the other way round", [STORED, AGAIN], ("if recompute", "if not recompute")),
    wrong(
        "sigmoid3_traffic",
        "elements",
        [STORED, AGAIN],
        ("* n * itemsize, backward * n * itemsize", "* n, backward * n"),
    ),
    # -------------------- sigmoid3
    wrong("sigmoid3", "one kernel a sigmoid", [ONLY_X, FORWARD, BACKWARD, FIVE], source=ONE_SIGMOID),
    wrong("sigmoid3", "stores s1 and s2", [ONLY_X, FIVE], source=STORING),
    wrong("sigmoid3", "two sigmoids", PLAIN, ("tl.sigmoid(tl.sigmoid(tl.sigmoid(x)))", "tl.sigmoid(tl.sigmoid(x))")),
    wrong("sigmoid3", "a factor is missing", PLAIN, (" * s1 * (1 - s1)", "")),
    wrong("sigmoid3", "one factor alone", PLAIN, (" * s2 * (1 - s2) * s1 * (1 - s1)", "")),
    wrong(
        "sigmoid3",
        "factors added",
        PLAIN,
        ("s3 * (1 - s3) * s2 * (1 - s2) * s1 * (1 - s1)", "(s3 * (1 - s3) + s2 * (1 - s2) + s1 * (1 - s1))"),
    ),
    wrong("sigmoid3", "s2 of x", PLAIN, ("s2 = tl.sigmoid(s1)", "s2 = tl.sigmoid(x)")),
    wrong("sigmoid3", "s3 of s1", PLAIN, ("s3 = tl.sigmoid(s2)", "s3 = tl.sigmoid(s1)")),
    wrong("sigmoid3", "s3 of x", PLAIN, ("s3 = tl.sigmoid(s2)", "s3 = tl.sigmoid(x)")),
    wrong("sigmoid3", "x in the first factor", PLAIN, ("s1 * (1 - s1)", "x * (1 - x)")),
    wrong(
        "sigmoid3",
        "arguments in all factors",
        PLAIN,
        ("s3 * (1 - s3) * s2", "s2 * (1 - s2) * s1"),
        ("(1 - s2) * s1 * (1 - s1)", "(1 - s1) * x * (1 - x)"),
    ),
    wrong(
        "sigmoid3",
        "keeps the result for x",
        PLAIN,
        ("        ctx.save_for_backward(x)\n", ""),
        ("        return out\n", "        ctx.save_for_backward(out)\n        return out\n"),
    ),
    wrong("sigmoid3", "a sign in the third factor", PLAIN, ("s3 * (1 - s3)", "s3 * (1 + s3)")),
    wrong("sigmoid3", "half of the third factor", PLAIN, ("s3 * (1 - s3)", "s3")),
    wrong("sigmoid3", "backward returns nothing", PLAIN, ("        return dx\n", "")),
    wrong(
        "sigmoid3",
        "x on the class",
        [TWICE],
        ("ctx.save_for_backward(x)", "Sigmoid3.x = x"),
        ("(x,) = ctx.saved_tensors", "x = Sigmoid3.x"),
    ),
    wrong("sigmoid3", "forgets dy", PLAIN, ("dx = dy * s3", "dx = s3")),
    wrong("sigmoid3", "no mask on the stores", [RAGGED, LARGE], ("tl.sigmoid(x))), mask=i < n)", "tl.sigmoid(x))))")),
    wrong("sigmoid3", "whole blocks only", [RAGGED, LARGE], ("triton.cdiv(n, 1024)", "max(1, n // 1024)")),
    wrong(
        "sigmoid3",
        "an exponential that overflows",
        [LARGE],
        ("s1 = tl.sigmoid(x)", "e = tl.exp(x)\n    s1 = e / (1 + e)"),
    ),
    wrong(
        "sigmoid3",
        "stays in half precision",
        [RAGGED, LARGE, ONLY_X, FORWARD, BACKWARD, FIVE],
        ("other=0).to(tl.float32)", "other=0)"),
    ),
    wrong("sigmoid3", "forward twice", [FORWARD, FIVE], (SIGMOID_CALL, SIGMOID_CALL + SIGMOID_CALL)),
    wrong(
        "sigmoid3",
        "keeps the result, too, and reads it",
        [ONLY_X, FIVE],
        (
            "ctx.save_for_backward(x)\n        out, n = torch.empty_like(x), x.numel()",
            "out, n = torch.empty_like(x), x.numel()\n        ctx.save_for_backward(x, out)",
        ),
        ("def sigmoid3_backward_kernel(x_ptr,", "def sigmoid3_backward_kernel(out_ptr, x_ptr,"),
        ("s3 = tl.sigmoid(s2)\n    dx", "s3 = tl.load(out_ptr + i, mask=i < n, other=0).to(tl.float32)\n    dx"),
        ("(x,) = ctx.saved_tensors", "x, out = ctx.saved_tensors"),
        (
            "sigmoid3_backward_kernel[(triton.cdiv(n, 1024),)](x,",
            "sigmoid3_backward_kernel[(triton.cdiv(n, 1024),)](out, x,",
        ),
        tells="backward reads what forward keeps",
    ),
    wrong("sigmoid3", "keeps a copy of x", WORK, ("ctx.save_for_backward(x)", "ctx.save_for_backward(x.clone())")),
    wrong(
        "sigmoid3", "torch computes", WORK, ("        return out\n", "        return x.sigmoid().sigmoid().sigmoid()\n")
    ),
    # -------------------- recomputed_gelu
    wrong(
        "recomputed_gelu",
        "x and the gate on the class",
        [TWICE],
        ("ctx.save_for_backward(x, gate)", "RecomputedGelu.inputs = x, gate"),
        ("ctx.saved_tensors", "RecomputedGelu.inputs"),
    ),
    wrong(
        "recomputed_gelu",
        "the tanh approximation",
        PLAIN,
        ("0.5 * (1 + tl.erf(x * 0.7071067811865476))", "tl.sigmoid(1.5957691216 * (x + 0.044715 * x * x * x))"),
    ),
    wrong("recomputed_gelu", "the density forgotten", PLAIN, ("(F + x * density)", "F")),
    wrong("recomputed_gelu", "density without its root", PLAIN, ("0.3989422804014327 * ", "")),
    wrong("recomputed_gelu", "gradients swapped", PLAIN, ("return dx, dgate", "return dgate, dx")),
    wrong("recomputed_gelu", "the gate's gradient without x", PLAIN, ("dy * x * F", "dy * F")),
    wrong(
        "recomputed_gelu",
        "a density that overflows",
        [LARGE],
        ("0.3989422804014327 * tl.exp(-0.5 * x * x)", "0.3989422804014327 * tl.exp(0.5 * x * x) / tl.exp(x * x)"),
    ),
    wrong(
        "recomputed_gelu",
        "keeps gelu(x)",
        [ONLY_INPUTS, EIGHT],
        ("def gelu_kernel(x_ptr, gate_ptr, out_ptr, n", "def gelu_kernel(x_ptr, gate_ptr, out_ptr, kept_ptr, n"),
        (
            "    tl.store(out_ptr + i, x * F * gate, mask=i < n)",
            "    tl.store(kept_ptr + i, x * F, mask=i < n)\n    tl.store(out_ptr + i, x * F * gate, mask=i < n)",
        ),
        (
            "        ctx.save_for_backward(x, gate)\n",
            "        kept = torch.empty_like(x)\n        ctx.save_for_backward(x, gate, kept)\n",
        ),
        ("(x, gate, out, n, BLOCK=1024)", "(x, gate, out, kept, n, BLOCK=1024)"),
        ("x, gate = ctx.saved_tensors", "x, gate, kept = ctx.saved_tensors"),
        ("def gelu_backward_kernel(x_ptr,", "def gelu_backward_kernel(kept_ptr, x_ptr,"),
        ("dy * x * F", "dy * tl.load(kept_ptr + i, mask=i < n, other=0).to(tl.float32)"),
        ("(x, gate, dy, dx, dgate, n, BLOCK=1024)", "(kept, x, gate, dy, dx, dgate, n, BLOCK=1024)"),
    ),
    wrong(
        "recomputed_gelu",
        "a launch for each gradient",
        [BACKWARD, EIGHT],
        (
            "        gelu_backward_kernel[(triton.cdiv(n, 1024),)](x, gate, dy, dx, dgate, n, BLOCK=1024)\n",
            "        spare = torch.empty_like(x)\n"
            "        gelu_backward_kernel[(triton.cdiv(n, 1024),)](x, gate, dy, dx, spare, n, BLOCK=1024)\n"
            "        gelu_backward_kernel[(triton.cdiv(n, 1024),)](x, gate, dy, spare, dgate, n, BLOCK=1024)\n",
        ),
    ),
    wrong("recomputed_gelu", "whole blocks only", [RAGGED, LARGE], ("triton.cdiv(n, 1024)", "max(1, n // 1024)")),
    wrong(
        "recomputed_gelu",
        "stays in half precision",
        [RAGGED, LARGE, ONLY_INPUTS, BACKWARD, EIGHT],
        ("other=0).to(tl.float32)", "other=0)"),
    ),
    wrong("recomputed_gelu", "torch computes", WORK, ("return out\n", "return torch.nn.functional.gelu(x) * gate\n")),
    # -------------------- cross_entropy_backward
    wrong("cross_entropy_backward", "the target forgotten", PLAIN, ("(p - tl.where(offs_n == target, 1.0, 0.0))", "p")),
    wrong(
        "cross_entropy_backward", "lse of the next row", PLAIN, ("tl.load(lse_ptr + row)", "tl.load(lse_ptr + row + 1)")
    ),
    wrong("cross_entropy_backward", "dloss forgotten", PLAIN, (" * dloss\n", "\n")),
    wrong(
        "cross_entropy_backward",
        "dloss on p alone",
        PLAIN,
        ("(p - tl.where(offs_n == target, 1.0, 0.0)) * dloss", "p * dloss - tl.where(offs_n == target, 1.0, 0.0)"),
    ),
    wrong(
        "cross_entropy_backward",
        "each block by itself",
        [RAGGED, ONCE, DENSE, TABLE],
        ("mask=offs_n < V, other=0)", "mask=offs_n < V, other=-float('inf'))"),
        ("tl.exp(x - lse)", "tl.softmax(x)"),
        ("min(4096,", "min(1024,"),
    ),
    wrong(
        "cross_entropy_backward",
        "the logits of row 0",
        PLAIN,
        ("tl.load(x_ptr + first + offs_n", "tl.load(x_ptr + offs_n"),
    ),
    wrong("cross_entropy_backward", "the target of row 0", PLAIN, ("target_ptr + row)", "target_ptr)")),
    wrong("cross_entropy_backward", "lse of row 0", PLAIN, ("lse_ptr + row)", "lse_ptr)")),
    wrong("cross_entropy_backward", "dloss of row 0", PLAIN, ("dloss_ptr + row)", "dloss_ptr)")),
    wrong("cross_entropy_backward", "the mean over rows", PLAIN, (" * dloss\n", " * dloss / tl.num_programs(0)\n")),
    wrong(
        "cross_entropy_backward", "exponentials that overflow", [LOGITS], ("tl.exp(x - lse)", "tl.exp(x) / tl.exp(lse)")
    ),
    wrong(
        "cross_entropy_backward",
        "the target of the block",
        [RAGGED],
        ("offs_n == target", "tl.arange(0, BLOCK) == target"),
    ),
    wrong("cross_entropy_backward", "adds lse", PLAIN, ("tl.exp(x - lse)", "tl.exp(x + lse)")),
    wrong("cross_entropy_backward", "the logarithm of lse", PLAIN, ("tl.exp(x - lse)", "tl.exp(x - tl.log(lse))")),
    wrong("cross_entropy_backward", "divides by lse", PLAIN, ("tl.exp(x - lse)", "tl.exp(x) / lse")),
    wrong("cross_entropy_backward", "no mask", [RAGGED, LOGITS], (", mask=offs_n < V, other=0)", ")")),
    wrong("cross_entropy_backward", "only the first block", [RAGGED], ("(M, triton.cdiv(V, BLOCK))", "(M, 1)")),
    wrong("cross_entropy_backward", "adds up the row again", [ONCE], source=OWN_SOFTMAX),
    wrong("cross_entropy_backward", "a table of probabilities", [ONCE, TABLE], source=TWO_STEPS),
    wrong(
        "cross_entropy_backward",
        "rounds the logits",
        PLAIN,
        ("other=0).to(tl.float32)", "other=0).to(tl.float16).to(tl.float32)"),
    ),
    wrong(
        "cross_entropy_backward",
        "always float32",
        [RAGGED, LOGITS, ONCE, DENSE, TABLE],
        ("torch.empty_like(x)", "torch.empty(x.shape, device=x.device)"),
    ),
    wrong(
        "cross_entropy_backward",
        "torch computes",
        WORK,
        ("    return dx\n", "    return torch.exp(x - lse[:, None]) * dloss[:, None]\n"),
    ),
    # -------------------- rmsnorm_backward
    wrong(
        "rmsnorm_backward",
        "rstd taken as constant",
        PLAIN,
        ("(g - normed * (tl.sum(g * normed, axis=1)[:, None] / N))", "g"),
    ),
    wrong("rmsnorm_backward", "the sum, not the mean", PLAIN, ("[:, None] / N)", "[:, None])")),
    wrong("rmsnorm_backward", "the mean over the block", [RAGGED, ROWS], ("[:, None] / N)", "[:, None] / BLOCK_N)")),
    wrong("rmsnorm_backward", "the weight forgotten", PLAIN, ("g = dy * weight", "g = dy")),
    wrong(
        "rmsnorm_backward",
        "dweight of rows that are not normed",
        PLAIN,
        ("tl.sum(dy * normed, axis=0)", "tl.sum(dy * x, axis=0)"),
    ),
    wrong(
        "rmsnorm_backward",
        "one program's rows alone",
        PLAIN,
        ("for start in range(0, P, BLOCK_P)", "for start in range(0, 1, BLOCK_P)"),
        ("(offs_m < P)", "(offs_m < 1)"),
    ),
    wrong(
        "rmsnorm_backward",
        "rows beyond the last",
        [RAGGED, ROWS],
        ("min(M, (program + 1) * rows_each)", "(program + 1) * rows_each"),
    ),
    wrong(
        "rmsnorm_backward",
        "atomics",
        [ATOMICS],
        (
            "tl.store(partial_ptr + program * N + offs_n, total[None, :], mask=offs_n < N)",
            "tl.atomic_add(partial_ptr + offs_n, total[None, :], mask=offs_n < N)",
        ),
        ("partial = torch.empty((P, N)", "partial = torch.zeros((1, N)"),
        ("(partial, dweight, P, N,", "(partial, dweight, 1, N,"),
    ),
    wrong("rmsnorm_backward", "one program", [PROGRAMS], ("max(16, triton.cdiv(M, 256))", "1024")),
    wrong("rmsnorm_backward", "a partial sum for every row", [NORM_TRAFFIC], ("max(16, triton.cdiv(M, 256))", "1")),
    wrong(
        "rmsnorm_backward",
        "adds in half precision",
        [RAGGED, ROWS, NORM_TRAFFIC, ATOMICS, PROGRAMS, DENSE],
        (
            "total += tl.sum(dy * normed, axis=0)",
            "total = (total + tl.sum(dy * normed, axis=0)).to(weight_ptr.dtype.element_ty).to(tl.float32)",
        ),
    ),
    wrong(
        "rmsnorm_backward",
        "products in half precision",
        [RAGGED, ROWS, NORM_TRAFFIC, ATOMICS, PROGRAMS, DENSE],
        (
            "normed = x * rstd",
            "normed = (x.to(x_ptr.dtype.element_ty) * rstd.to(x_ptr.dtype.element_ty)).to(tl.float32)",
        ),
    ),
    wrong(
        "rmsnorm_backward",
        "reads x twice",
        [NORM_TRAFFIC],
        (
            "        g = dy * weight\n",
            "        x = tl.load(x_ptr + offs_m * N + offs_n, mask=inside, other=0).to(tl.float32)\n"
            "        normed = x * rstd\n        g = dy * weight\n",
        ),
    ),
    wrong("rmsnorm_backward", "torch adds the rows", WORK, ("return dx, dweight\n", "return dx, partial.sum(0)\n")),
    # -------------------- seeded_dropout
    wrong("seeded_dropout", "a mask in memory", [NOTHING, ONCE], source=STORED_MASK),
    wrong("seeded_dropout", "drops what it should keep", PLAIN, (">= p", "< p")),
    wrong("seeded_dropout", "drops the number that is p", [ANY], (">= p", "> p")),
    wrong("seeded_dropout", "backward with p = 0", PLAIN, ("dy, dx, n, ctx.p,", "dy, dx, n, 0.0,")),
    wrong("seeded_dropout", "no scale", PLAIN, ("x / (1 - p)", "x")),
    wrong(
        "seeded_dropout", "another mask backward", PLAIN, ("ctx.p, ctx.seed = p, seed", "ctx.p, ctx.seed = p, seed + 1")
    ),
    wrong(
        "seeded_dropout",
        "the same mask in every block",
        PLAIN,
        ("tl.rand(seed, i)", "tl.rand(seed, tl.arange(0, BLOCK))"),
    ),
    wrong(
        "seeded_dropout",
        "p and seed on the class",
        [TWICE],
        ("ctx.p, ctx.seed = p, seed", "SeededDropout.last = p, seed"),
        ("ctx.p, ctx.seed", "*SeededDropout.last"),
    ),
    wrong(
        "seeded_dropout",
        "the seed in a global",
        [TWICE],
        ("ctx.p, ctx.seed = p, seed", "global last\n        ctx.p, last = p, seed"),
        ("ctx.p, ctx.seed", "ctx.p, last"),
    ),
    wrong("seeded_dropout", "one seed for all", [RAGGED, ANY, NOTHING, ONCE], ("tl.rand(seed, i)", "tl.rand(7, i)")),
    wrong(
        "seeded_dropout",
        "keeps x",
        [NOTHING, ONCE],
        (
            "        ctx.p, ctx.seed = p, seed\n",
            "        ctx.p, ctx.seed = p, seed\n        ctx.save_for_backward(x, torch.empty_like(x))\n",
        ),
        (
            "        return dx, None, None",
            "        dropout_kernel[(triton.cdiv(n, 2048),)](ctx.saved_tensors[0], ctx.saved_tensors[1], n, ctx.p, ctx.seed, BLOCK=2048)\n"
            "        return dx, None, None",
        ),
    ),
    wrong("seeded_dropout", "whole blocks only", [RAGGED, ANY], ("triton.cdiv(n, 2048)", "max(1, n // 2048)")),
    wrong(
        "seeded_dropout",
        "half of the elements",
        [RAGGED, ANY, NOTHING, ONCE],
        ("tl.rand(seed, i) >= p", "tl.rand(seed, i) >= 0.5"),
    ),
    wrong(
        "seeded_dropout",
        "torch's dropout",
        WORK,
        ("        return out\n", "        return torch.nn.functional.dropout(x, p)\n"),
    ),
    # -------------------- checkpoint
    wrong(
        "checkpoint",
        "keeps everything",
        [MEMORY, FREES, DROPOUT, AFTER],
        ("return Checkpoint.apply(fn, *args)", "return fn(*args)"),
    ),
    wrong(
        "checkpoint",
        "holds on to its arguments",
        [FREES],
        ("ctx.others = [None if isinstance(a, torch.Tensor) else a for a in args]", "ctx.args = args"),
        ("        ctx.save_for_backward(*(a if isinstance(a, torch.Tensor) else None for a in args))\n", ""),
        (
            "args = [other if t is None else t.detach().requires_grad_(t.requires_grad) for t, other in saved]",
            "args = [a.detach().requires_grad_(a.requires_grad) if isinstance(a, torch.Tensor) else a for a in ctx.args]",
        ),
        ("        saved = zip(ctx.saved_tensors, ctx.others, strict=True)\n", ""),
    ),
    wrong("checkpoint", "dropout drawn anew", [DROPOUT], ("torch.set_rng_state(ctx.rng)", "pass")),
    wrong(
        "checkpoint", "does not detach", [MEMORY, FREES, DROPOUT], ("t.detach().requires_grad_(t.requires_grad)", "t")
    ),
    wrong(
        "checkpoint",
        "the state is not put back",
        [AFTER],
        ("with torch.random.fork_rng(devices=[]), torch.enable_grad():", "with torch.enable_grad():"),
    ),
    wrong("checkpoint", "a seed of its own", [DROPOUT], ("torch.set_rng_state(ctx.rng)", "torch.manual_seed(0)")),
    wrong(
        "checkpoint",
        "the gradient that arrives is forgotten",
        [GRADIENTS],
        ("torch.autograd.grad(out, leaves, dy)", "torch.autograd.grad(out, leaves, torch.ones_like(dy))"),
    ),
    wrong(
        "checkpoint",
        "no gradient for weights",
        [GRADIENTS],
        ("found.get(id(a)) for a in args", "found.get(id(a)) if a is args[0] else None for a in args"),
    ),
    wrong(
        "checkpoint",
        "recomputed at once",
        [MEMORY, FREES, DROPOUT],
        (
            "        return fn(*args)  # in",
            "        with torch.enable_grad():\n"
            "            ctx.again = fn(*[a.detach().requires_grad_() if isinstance(a, torch.Tensor) else a for a in args])\n"
            "        torch.set_rng_state(ctx.rng)\n"
            "        return fn(*args)  # in",
        ),
    ),
    wrong(
        "checkpoint",
        "no gradients inside backward",
        [GRADIENTS, MEMORY, FREES, DROPOUT, AFTER],
        (", torch.enable_grad():", ":"),
    ),
    wrong(
        "checkpoint",
        "one state for all",
        [DROPOUT],
        ("fn, torch.get_rng_state()", "fn, RNG"),
        ("class Checkpoint(", "RNG = torch.Generator().manual_seed(17).get_state()\n\n\nclass Checkpoint("),
    ),
    wrong(
        "checkpoint",
        "torch's own",
        ["runs"],
        source="from torch.utils.checkpoint import checkpoint as ready\n\n\ndef checkpoint(fn, *args):\n    return ready(fn, *args, use_reentrant=False)\n",
    ),
    # Six of ten: locks are no race, but they are atomics, and one row a program reads the weight again for each.
    wrong(
        "rmsnorm_backward",
        "locks for groups of rows, as Triton's layer-norm tutorial has them",
        ["traffic.performance", "no_atomics.performance"],
        source=LOCKS,
    ),
    # -------------------- segments_for
    wrong(
        "segments_for", "the square root", [LEAST], ("best = min(peaks, key=peaks.get)", "best = round(layers**0.5)")
    ),
    wrong("segments_for", "one segment", [LEAST], ("best = min(peaks, key=peaks.get)", "best = 1")),
    wrong("segments_for", "a segment a layer", [LEAST], ("best = min(peaks, key=peaks.get)", "best = layers")),
    wrong("segments_for", "rounds down", [SAYS, LEAST, COUNTED], ("-(-layers // s)", "(layers // s)")),
    wrong("segments_for", "boundaries are free", [LEAST, SAYS, COUNTED], ("s * boundary + ", "")),
    wrong("segments_for", "only boundaries", [LEAST, SAYS, COUNTED], (" + -(-layers // s) * inside", "")),
    wrong("segments_for", "no more than the half", [LEAST], ("range(1, layers + 1)", "range(1, max(2, layers // 3))")),
    wrong(
        "segments_for",
        "a number of bytes twice too large",
        [SAYS, COUNTED],
        ("return best, peaks[best]", "return best, 2 * peaks[best]"),
    ),
]


def autotuned(block: str, *blocks: int) -> list[tuple[str, str]]:
    """Patches that let Triton's tuner choose among these blocks for sigmoid3, whose grid is made for `block`."""
    configs = ", ".join(f"triton.Config(dict(BLOCK={n}))" for n in blocks)
    return [
        (
            "@triton.jit\ndef sigmoid3_kernel",
            f"@triton.autotune([{configs}], key=['n'])\n@triton.jit\ndef sigmoid3_kernel",
        ),
        ("[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)", f"[lambda meta: (triton.cdiv(n, {block}),)](x, out, n)"),
    ]


HONEST = [
    honest("seeded_dropout", "tl.random.rand", ("tl.rand(seed, i)", "tl.random.rand(seed, i)")),
    honest("sigmoid3", "autotuned", *autotuned("meta['BLOCK']", 512, 2048)),
    wrong(
        "sigmoid3",
        "autotuned, with the grid of one configuration",
        ["correct.plain"],
        *autotuned("2048", 2048, 64),
        tells="BLOCK=64",
    ),
    wrong(
        "sigmoid3",
        "autotuned, a mask of one configuration",
        [RAGGED, LARGE],
        *autotuned("meta['BLOCK']", 64, 2048),
        ("(tl.sigmoid(x))), mask=i < n)", "(tl.sigmoid(x))), mask=(i < n) | (BLOCK > 64))"),
        tells="BLOCK=2048",
    ),
    honest(
        "rmsnorm_backward",
        "persistent: every P-th row",
        (
            "first, end = program * rows_each, min(M, (program + 1) * rows_each)\n    for start in range(first, end, BLOCK_M):",
            "end = M\n    for start in range(program * BLOCK_M, M, tl.num_programs(0) * BLOCK_M):",
        ),
        ("max(16, triton.cdiv(M, 256))", "16"),
        ("max(1, min(16, 4096 // BLOCK_N))", "2"),
    ),
    honest(
        "seeded_dropout",
        "a helper and 512 elements a program",
        (
            "@triton.jit\ndef dropout_kernel",
            "@triton.jit\ndef drop(x, i, p, seed):\n    return tl.where(tl.rand(seed, i) < p, 0.0, x / (1 - p))\n\n\n@triton.jit\ndef dropout_kernel",
        ),
        ("    kept = tl.rand(seed, i) >= p\n", ""),
        ("tl.where(kept, x / (1 - p), 0.0)", "drop(x, i, p, seed)"),
        ("2048", "512"),
    ),
    honest(
        "recomputed_gelu",
        "two-dimensional blocks",
        (
            "i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
            "i = tl.program_id(0) * BLOCK + tl.reshape(tl.arange(0, BLOCK), (32, BLOCK // 32))",
        ),
    ),
    honest(
        "saved_bytes",
        "walks the graph's storages by identity",
        ("storage.data_ptr()] = storage.nbytes()", "storage._cdata] = storage.nbytes()"),
        ("t.untyped_storage().data_ptr() for t", "t.untyped_storage()._cdata for t"),
        ("    kept = {}", "    held, kept = [], {}"),
        ("        return t\n", "        held.append(storage)\n        return t\n"),
    ),
    honest(
        "sigmoid3_traffic",
        "counts tensors",
        source="def sigmoid3_traffic(n, itemsize, recompute):\n"
        "    forward = ['x', 'out'] if recompute else ['x', 's1', 's2', 'out']\n"
        "    backward = ['x', 'dy', 'dx'] if recompute else ['s1', 's2', 'dy', 'dx']\n"
        "    return len(forward) * n * itemsize, len(backward) * n * itemsize\n",
    ),
    honest(
        "sigmoid3",
        "blocks of 512, exp2",
        ("1024", "512"),
        ("s1 = tl.sigmoid(x)", "s1 = 1 / (1 + tl.exp2(x * -1.4426950408889634))"),
    ),
    honest(
        "sigmoid3",
        "persistent, with a helper",
        source="""@triton.jit
def third(x):
    return tl.sigmoid(tl.sigmoid(tl.sigmoid(x)))


@triton.jit
def walk(x_ptr, dy_ptr, out_ptr, n, BACKWARD: tl.constexpr, BLOCK: tl.constexpr):
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < n, other=0).to(tl.float32)
        s3 = third(x)
        if BACKWARD:
            s1 = tl.sigmoid(x)
            s2 = tl.sigmoid(s1)
            dy = tl.load(dy_ptr + i, mask=i < n, other=0).to(tl.float32)
            s3 = dy * s1 * s2 * s3 * ((1 - s1) * (1 - s2) * (1 - s3))
        tl.store(out_ptr + i, s3, mask=i < n)


class Sigmoid3(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        out = torch.empty_like(x)
        walk[(132,)](x, x, out, x.numel(), BACKWARD=False, BLOCK=1024)
        return out

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        dx = torch.empty_like(x)
        walk[(132,)](x, dy, dx, x.numel(), BACKWARD=True, BLOCK=1024)
        return dx
""",
    ),
    honest(
        "recomputed_gelu",
        "two sigmoids' worth of blocks, exp2",
        ("1024", "4096"),
        ("tl.exp(-0.5 * x * x)", "tl.exp2(x * x * -0.7213475204444817)"),
    ),
    honest(
        "cross_entropy_backward",
        "blocks of 256, exp2",
        ("min(4096,", "min(256,"),
        ("tl.exp(x - lse)", "tl.exp2((x - lse) * 1.4426950408889634)"),
    ),
    honest(
        "cross_entropy_backward",
        "a loop over the row",
        source="""@triton.jit
def kernel(x_ptr, target_ptr, lse_ptr, dloss_ptr, dx_ptr, V, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    target, lse, dloss = tl.load(target_ptr + row), tl.load(lse_ptr + row), tl.load(dloss_ptr + row)
    for start in range(0, V, BLOCK):
        offs_n = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * V + offs_n, mask=offs_n < V, other=-float("inf")).to(tl.float32)
        p = tl.exp(x - lse)
        tl.store(dx_ptr + row * V + offs_n, tl.where(offs_n == target, p - 1, p) * dloss, mask=offs_n < V)


def cross_entropy_backward(x, target, lse, dloss):
    dx = torch.empty_like(x)
    kernel[(x.shape[0],)](x, target, lse, dloss, dx, x.shape[1], BLOCK=2048)
    return dx
""",
    ),
    honest("rmsnorm_backward", "eight rows a program", ("max(16, triton.cdiv(M, 256))", "8")),
    honest("rmsnorm_backward", "one row at a time", ("max(1, min(16, 4096 // BLOCK_N))", "1")),
    honest(
        "rmsnorm_backward",
        "tensors of 64 bits, another order",
        ("offs_m * N + offs_n, dx", "offs_m.to(tl.int64) * N + offs_n, dx"),
        (
            "dx = rstd * (g - normed * (tl.sum(g * normed, axis=1)[:, None] / N))",
            "dx = rstd * g - normed * (rstd * tl.sum(g * normed, axis=1)[:, None] / N)",
        ),
    ),
    honest("seeded_dropout", "blocks of 1024, a product", ("2048", "1024"), ("x / (1 - p)", "x * (1 / (1 - p))")),
    honest(
        "checkpoint",
        "saved tensors, a graph of its own",
        source="""class Rerun(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, count, *args):
        ctx.fn, ctx.where = fn, [isinstance(a, torch.Tensor) for a in args]
        ctx.others = [None if is_tensor else a for a, is_tensor in zip(args, ctx.where)]
        ctx.save_for_backward(*[a for a, is_tensor in zip(args, ctx.where) if is_tensor])
        ctx.state = torch.random.get_rng_state()
        return fn(*args)

    @staticmethod
    def backward(ctx, dy):
        tensors = iter(ctx.saved_tensors)
        args = [next(tensors).detach().requires_grad_() if w else o for w, o in zip(ctx.where, ctx.others)]
        now = torch.random.get_rng_state()
        torch.random.set_rng_state(ctx.state)
        with torch.enable_grad():
            out = ctx.fn(*args)
        torch.random.set_rng_state(now)
        out.backward(dy)
        return (None, None, *[a.grad if w else None for a, w in zip(args, ctx.where)])


def checkpoint(fn, *args):
    return Rerun.apply(fn, len(args), *args)
""",
    ),
    honest(
        "checkpoint",
        "hooks that recompute",
        source="""def checkpoint(fn, *args):
    state, again = torch.get_rng_state(), []

    def recompute():
        kept = []
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(state)
            own = [a.detach().requires_grad_(a.requires_grad) if isinstance(a, torch.Tensor) else a for a in args]
            with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.detach()), lambda n: None):
                fn(*own)
        return kept

    count = iter(range(10**6))

    def unpack(n):
        if not again:
            again.extend(recompute())
        return again[n]

    with torch.autograd.graph.saved_tensors_hooks(lambda t: next(count), unpack):
        return fn(*args)
""",
    ),
    honest(
        "segments_for",
        "by lengths of segments",
        source="def segments_for(layers, boundary, inside):\n"
        "    best = None\n"
        "    for length in range(layers, 0, -1):\n"
        "        segments = -(-layers // length)\n"
        "        peak = segments * boundary + -(-layers // segments) * inside\n"
        "        if best is None or peak < best[1]:\n"
        "            best = segments, peak\n"
        "    return best\n",
    ),
]

LOG = logging(
    (wrong, honest),
    "recomputation.gradient_log",
    ({"N": 65536}, {"N": 98304}),
    ("first_gradient", {"bytes": "60*N", "sectors": "60*N/32", "launches": 6}),
)

VARIANTS = LOG + WRONG + HONEST
