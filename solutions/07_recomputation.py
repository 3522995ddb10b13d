# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 07 · Recomputation
#
# **After this unit you can** say which tensors autograd keeps between the forward and the backward pass, and how much
# memory they take. You can write backward kernels that compute numbers again instead of loading them, and drop elements
# at random without storing which ones. You need 04 (memory traffic) and 06 (fusion, softmax, RMSNorm). You need no
# GPU, because traffic and live bytes are counted on the CPU.

# %%
import torch
import triton
import triton.language as tl

from course_lib import check, figures, gpu, hint, profile, progress, trace  # noqa: F401 (hint is yours to call)

# %% [markdown]
# ## The question
#
# You have computed a number, and you will need it again later. There are two ways:
# * **Store it**: write it to memory, and read it back later.
# * **Forget it**: compute it again later, from the numbers that it was computed from.
#
# The second way sounds wasteful. How much arithmetic can a GPU do in the time that it takes to write one float32 and
# read it back?

# %% predict="recomputation.guess_flops"
# How many float32 operations fit into that time? Write a number before you go on; it earns no points.
guess_flops = ...

# %% gpu="recomputation.card"
card = gpu.current_or_h200()
per_byte = card.fp32_flops / card.hbm_bandwidth
print(f"{card.name}: {card.fp32_flops / 1e12:.0f} TFLOP/s in float32, {card.hbm_bandwidth / 1e12:.1f} TB/s of memory")
print(f"one float32 written and read back, 8 bytes, takes as long as {8 * per_byte:.0f} operations")
print("you guessed", "nothing" if guess_flops is ... else guess_flops)

# %% [markdown]
# A sigmoid takes an exponential, an addition and a division. Computing it again is cheaper than storing it.
#
# A training step stores many numbers. One idea has two uses here, the second in *More*:
# * **For speed**: a kernel that computes numbers again, instead of reading them, moves fewer bytes.
# * **For memory**: a model that computes numbers again, instead of keeping them, fits on a smaller GPU.
#
# ## What autograd keeps
#
# When you compute `y = x.sigmoid()` on a tensor that requires gradients, torch notes how to compute the gradient of x,
# and **saves** the tensors that this will need. They stay in memory until the backward pass has used them. Which
# tensors are they? The ones that appear in the derivative:
#
# | f | derivative | needs |
# | --- | --- | --- |
# | x + y | 1 and 1 | nothing |
# | x · y | y and x | both inputs |
# | s = sigmoid(x) | s (1 - s) | the *output* |
# | r = relu(x) | 1 where x > 0 | x or r; torch takes r |
# | x @ w | dy @ wᵀ and xᵀ @ dy | both inputs |
# | gelu(x) | a function of x | the *input* |
#
# Keeping an input costs nothing extra if it is in memory anyway, like a weight or a tensor that an earlier operation
# saved. Keeping an intermediate result costs its full size.
#
# ## Exercise: predict what is kept
#
# {{exercise recomputation.kept_tensors}}
#
# x and y are float32 tensors of shape (64, 32), `w1` is (32, 128) and `w2` is (128, 32); all of them require gradients.
# How many tensors **of the size of x** does autograd keep for each expression? Do not count x, y, w1 and w2. A tensor
# that is four times as large as x counts as four. "three sigmoids" is `x.sigmoid().sigmoid().sigmoid()`.
#
# Write numbers, or arithmetic on numbers such as `4 * 1024`. Code that works out the answers is not a prediction, and
# earns nothing.
#
# `hint("recomputation.kept_tensors")` gives a hint, and a stronger one each time you call it. Every exercise in this
# unit has such hints.

# %% exercise="recomputation.kept_tensors"
kept_tensors = {
    "x + y": ...,
    "x * y": ...,
    "relu(x)": ...,
    "three sigmoids": ...,
    "gelu(x)": ...,
    "gelu(x @ w1) @ w2": ...,
}
### BEGIN SOLUTION
kept_tensors = {
    "x + y": 0,  # both derivatives are 1
    "x * y": 0,  # the derivatives are y and x, which are inputs
    "relu(x)": 1,  # the output, which tells where x > 0
    "three sigmoids": 3,  # each output s, for s (1 - s)
    "gelu(x)": 0,  # x, an input
    "gelu(x @ w1) @ w2": 8,  # the product for gelu, gelu's result for w2: 4 each
}
### END SOLUTION

# %% check="recomputation.kept_tensors"
check("recomputation.kept_tensors", kept_tensors)

# %% [markdown]
# The next cell shows these expressions and some others. Which expression would worry you most if x became a hundred
# times as long?

# %%
figures.recomputation.what_autograd_keeps()

# %% [markdown]
# *GELU by parts* is a well-known approximation of *gelu*. But it consists of eight small operations, and it keeps three
# tensors instead of none. For each operation of torch, somebody wrote the derivative and chose which tensors to keep.
# **You can do this, too**: with `torch.autograd.Function` you write a forward pass and a backward pass, and choose what
# is kept between them.

# %% [markdown]
# ## Recomputing for speed
#
# Take the three sigmoids. In torch each of them is a separate kernel. In the forward pass, each of the three kernels
# reads one tensor and writes one. In the backward pass, each of three kernels reads two tensors (the gradient that
# arrives, and the saved output) and writes one. How many tensors are read or written in all? And how many are read or
# written if the three sigmoids are fused, as in unit 06?

# %%
figures.recomputation.three_ways()

# %% [markdown]
# We call reading or writing one whole tensor a **memory operation**. Fusing reduces the number of memory operations
# from 15 to 8. But the fused forward kernel still writes the first two sigmoids, s1 and s2, which only the backward
# pass needs. (It also writes s3, which is the result. The backward pass does not read s3: it computes s3 again from s2,
# which is a first case of recomputation.) If you keep only x, 5 memory operations are left. The
# backward pass then computes all three sigmoids again, in registers. This costs no time, because the kernel waits for
# memory anyway.
#
# ## Exercise: the bytes of three sigmoids
#
# {{exercise recomputation.sigmoid3_traffic}}
#
# For n elements of `itemsize` bytes, how many bytes does the fused forward kernel move, and how many bytes does the
# fused backward kernel move? With `recompute=False` s1 and s2 are stored, as in the second row of the picture. With
# `recompute=True` they are not stored, as in the third row. Your numbers must equal those of traced kernels, with s1
# and s2 stored ({{correct.stored}}) and with both recomputed ({{correct.recomputed}}).


# %% exercise="recomputation.sigmoid3_traffic"
def sigmoid3_traffic(n: int, itemsize: int, recompute: bool) -> tuple[int, int]:
    """n elements of itemsize bytes -> the bytes that the forward kernel moves, and those that the backward kernel moves."""
    ### BEGIN SOLUTION
    forward, backward = (2, 3) if recompute else (4, 4)
    return forward * n * itemsize, backward * n * itemsize
    ### END SOLUTION


# %% check="recomputation.sigmoid3_traffic"
check("recomputation.sigmoid3_traffic", sigmoid3_traffic)

# %% [markdown]
# ## A function with a backward of its own
#
# The next cell shows how you give torch your own backward pass. The example computes a square with kernels:


# %%
@triton.jit
def square_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0)
    tl.store(out_ptr + i, x * x, mask=i < n)


@triton.jit
def square_backward_kernel(x_ptr, dy_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0)
    dy = tl.load(dy_ptr + i, mask=i < n, other=0)
    tl.store(dx_ptr + i, 2 * x * dy, mask=i < n)


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):  # runs in no_grad mode, so torch saves nothing by itself
        ctx.save_for_backward(x)  # keep inputs and outputs in this way, and numbers as attributes of ctx
        out = torch.empty_like(x)
        square_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out

    @staticmethod
    def backward(ctx, dy):  # takes the gradient of the result, returns one for each argument of forward
        (x,) = ctx.saved_tensors
        dx = torch.empty_like(x)
        square_backward_kernel[(triton.cdiv(x.numel(), 1024),)](x, dy, dx, x.numel(), BLOCK=1024)
        return dx


x = torch.randn(5000, requires_grad=True)
with trace() as t:
    y = Square.apply(x)
    (dx,) = torch.autograd.grad(y, x, torch.ones(5000))
print("right:", torch.allclose(dx, 2 * x))
print(t.table())

# %% [markdown]
# The table has five rows, one for each memory operation. Outside these exercises, the `dy` that arrives may be a view
# with any strides. After `y.sum().backward()` it is a single 1, expanded with strides of 0. So library code calls `dy =
# dy.contiguous()`. Here dy, like x, is contiguous, and you may use torch only to allocate tensors and to make views.
#
# ## Exercise: three sigmoids, five memory operations
#
# {{exercise recomputation.sigmoid3}}
#
# Write `Sigmoid3`. `Sigmoid3.apply(x)` is `x.sigmoid().sigmoid().sigmoid()` for a contiguous x of any shape, in
# float32, float16 or bfloat16. A kernel may treat x as a vector of `x.numel()` elements. Compute in float32;
# `tl.sigmoid` works on each element of a block. The check compares your gradients with those of autograd in float64.
# Three lines of the backward kernel are missing; the class that launches both is yours. Full marks require
# * the right result and gradient at odd sizes ({{correct.ragged}}) and for large numbers ({{correct.hard}}),
# * the right gradient where `Sigmoid3` is applied to another x before the backward pass ({{correct.twice}}), as every
#   model does that uses it in two layers. So keep x on `ctx`, which is new for each application,
# * a backward pass that reads x and dy, and nothing that the forward pass wrote ({{saves.performance}}),
# * one launch in the forward pass ({{launches.performance.forward}}), and one in the backward pass
#   ({{launches.performance.backward}}),
# * five memory operations in all, by at least 32 programs where the input is large ({{traffic.performance}}).
#
# Here and below, the check counts what the backward pass *reads*. It does not see a tensor that is kept but never read,
# although such a tensor takes memory, too. So give `save_for_backward` only what the backward pass needs.
#
# There is extra credit on a GPU, for 8192 × 8192 numbers. You get {{speed}} if your kernel reaches {{speed.full}} of a
# copy's speed, and some of the points if it reaches more than {{speed.none}}.


# %% exercise="recomputation.sigmoid3"
@triton.jit
def sigmoid3_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """out[i] = sigmoid(sigmoid(sigmoid(x[i])))"""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0).to(tl.float32)
    tl.store(out_ptr + i, tl.sigmoid(tl.sigmoid(tl.sigmoid(x))), mask=i < n)


@triton.jit
def sigmoid3_backward_kernel(x_ptr, dy_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    """dx[i] = dy[i] times the derivative at x[i]"""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0).to(tl.float32)
    dy = tl.load(dy_ptr + i, mask=i < n, other=0).to(tl.float32)
    s1 = tl.sigmoid(x)  # computed again, not read
    ### BEGIN SOLUTION
    s2 = tl.sigmoid(s1)
    s3 = tl.sigmoid(s2)
    dx = dy * s3 * (1 - s3) * s2 * (1 - s2) * s1 * (1 - s1)
    ### END SOLUTION
    tl.store(dx_ptr + i, dx, mask=i < n)


class Sigmoid3(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: torch.Tensor) -> torch.Tensor:
        """x, contiguous, any shape -> sigmoid(sigmoid(sigmoid(x)))"""
        ### BEGIN SOLUTION
        ctx.save_for_backward(x)
        out, n = torch.empty_like(x), x.numel()
        sigmoid3_kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)  # reads n, writes n
        return out
        ### END SOLUTION

    @staticmethod
    def backward(ctx, dy: torch.Tensor) -> torch.Tensor:
        """The gradient of the result, contiguous -> the gradient of x"""
        ### BEGIN SOLUTION
        (x,) = ctx.saved_tensors
        dx, n = torch.empty_like(x), x.numel()
        sigmoid3_backward_kernel[(triton.cdiv(n, 1024),)](x, dy, dx, n, BLOCK=1024)  # reads 2 n, writes n
        return dx
        ### END SOLUTION


# %% check="recomputation.sigmoid3"
check("recomputation.sigmoid3", Sigmoid3)

# %% [markdown]
# ## Keep one number per row
#
# Recomputing is cheap if each result depends on a single element of the input. A softmax is different: its derivative
# needs probabilities, and a probability needs the sum over its row. Must the backward pass read the row once for the
# sum and once more for the result?
#
# It need not: **keep the sum, and forget the rest**. The sum is one number for each row. The cross-entropy of a row of
# logits x, with the right answer t, is
#
# > loss = lse - x[t], with lse = log Σ exp(x[j])
#
# The gradient follows from the chain rule. d lse / d x[j] = exp(x[j]) / Σ exp(x) = exp(x[j] - lse), so
#
# > d loss / d x[j] = exp(x[j] - lse) - (1 if j = t, else 0)
#
# If lse is kept, the backward pass has *no sum left to compute*, and each block of a row can be computed by itself. How
# much memory does this save?

# %%
tokens, vocabulary = 8192, 128_256  # a batch for a model with a large vocabulary
print(f"probabilities in float32: {tokens * vocabulary * 4 / 2**30:.1f} GiB;  lse: {tokens * 4 / 2**10:.0f} KiB")

# %% [markdown]
# Why keep lse, and not the maximum and the sum of exponentials? Those would be two numbers, and lse alone is enough. It
# is safe, too: exp(x - lse) cannot overflow, because x ≤ lse. FlashAttention, too, keeps one lse for each row of a
# matrix of scores that it never stores (units 09 and 10).
#
# ## Exercise: cross-entropy, backward
#
# {{exercise recomputation.cross_entropy_backward}}
#
# `x` has the shape (M, V). It holds contiguous logits in float32, float16 or bfloat16. `target` has the shape (M,) and
# holds int64 numbers. `lse` and `dloss` have the shape (M,) and are float32. `dloss` holds the gradients that arrive at
# the losses of the rows. Return the gradient of x, in x's dtype. Full marks require
# * the right result at odd sizes ({{correct.ragged}}), and for logits around 100, logits around -200, and rows with
#   some logits, but not all, at -inf, as for forbidden words ({{correct.hard}}),
# * x read once and the gradient written once, by at least 32 programs where the input is large
#   ({{traffic.performance}}), with dense loads ({{coalesced.load.performance}}),
# * no table of probabilities in addition to the result ({{buffers_below.performance}}).
#
# There is extra credit on a GPU, for 8192 rows of 8192. You get {{speed}} if your kernel reaches {{speed.full}} of a
# copy's speed, and some of the points if it reaches more than {{speed.none}}.


# %% exercise="recomputation.cross_entropy_backward"
@triton.jit
def cross_entropy_backward_kernel(x_ptr, target_ptr, lse_ptr, dloss_ptr, dx_ptr, V, BLOCK: tl.constexpr):
    """dx[row, j] = (softmax(x[row])[j] - [j is the target]) * dloss[row] for one row and BLOCK columns"""
    ### BEGIN SOLUTION
    row = tl.program_id(0)
    offs_n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    first = row.to(tl.int64) * V  # with a large vocabulary there are more than 2^31 logits
    target, lse, dloss = tl.load(target_ptr + row), tl.load(lse_ptr + row), tl.load(dloss_ptr + row)
    x = tl.load(x_ptr + first + offs_n, mask=offs_n < V, other=0).to(tl.float32)
    p = tl.exp(x - lse)  # the softmax without a sum, which lse contains
    dx = (p - tl.where(offs_n == target, 1.0, 0.0)) * dloss
    tl.store(dx_ptr + first + offs_n, dx, mask=offs_n < V)
    ### END SOLUTION


def cross_entropy_backward(
    x: torch.Tensor, target: torch.Tensor, lse: torch.Tensor, dloss: torch.Tensor
) -> torch.Tensor:
    """x: (M, V) logits, contiguous, target: (M,) int64, lse: (M,) float32, dloss: (M,) float32 -> dx: (M, V)"""
    ### BEGIN SOLUTION
    M, V = x.shape
    dx = torch.empty_like(x)
    BLOCK = min(4096, triton.next_power_of_2(V))
    cross_entropy_backward_kernel[(M, triton.cdiv(V, BLOCK))](x, target, lse, dloss, dx, V, BLOCK=BLOCK)
    return dx
    ### END SOLUTION


# %% check="recomputation.cross_entropy_backward"
check("recomputation.cross_entropy_backward", cross_entropy_backward)

# %% [markdown]
# ## Random numbers, twice
#
# Dropout sets a random share p of the elements to 0, and divides the others by 1 - p. The gradient passes, also divided
# by 1 - p, where the element passed. So the backward pass needs to know which elements did: the **mask**. If the mask
# is stored, it is one more tensor. Can it be computed again, although it is random?
#
# It can, because random numbers in a computer follow from a seed. A *counter-based* generator (Philox, in torch on GPUs
# and in Triton) goes one step further. Its i-th number is a function of the seed and i alone. There is no state, so the
# number can be computed again from (seed, i).


# %%
@triton.jit
def draw_kernel(out_ptr, seed, first, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.rand(seed, first + i))


for seed, first in ((7, 0), (7, 4), (8, 0)):
    out = torch.empty(8)
    with trace():
        draw_kernel[(1,)](out, seed, first, BLOCK=8)
    print(f"seed {seed}, numbers {first} to {first + 7}:", " ".join(f"{v:.3f}" for v in out.tolist()))

# %% [markdown]
# The fifth number of the first row is the first number of the second row. No program has to wait for another, and two
# numbers, a seed and p, stand for a mask of any size.
#
# ## Exercise: dropout without a mask
#
# {{exercise recomputation.seeded_dropout}}
#
# Write `SeededDropout`. `SeededDropout.apply(x, p, seed)` takes a contiguous x of any shape and 0 ≤ p < 1. Element i,
# counted in memory order, is kept if `tl.rand(seed, i) >= p`, and then it is divided by 1 - p. All other elements
# become 0. Full marks require
# * the right result and gradient at odd sizes ({{correct.ragged}}), and for any p and any seed
#   ({{correct.probabilities}}); the kept elements must be exactly those of this rule,
# * the right gradient where the function is applied with another p and seed before the backward pass
#   ({{correct.twice}}),
# * a backward pass that reads **nothing** from the forward pass, not even x ({{keeps_nothing.performance}}),
# * four memory operations, by at least 32 programs where the input is large ({{traffic.performance}}).
#
# Philox takes much code, so choose blocks of 512 to 2048 elements, which compile fast. With blocks of 8192 you have to
# wait.
#
# There is extra credit on a GPU, for 8192 × 8192 numbers. You get {{speed}} if your kernel reaches {{speed.full}} of a
# copy's speed, and some of the points if it reaches more than {{speed.none}}.


# %% exercise="recomputation.seeded_dropout"
@triton.jit
def dropout_kernel(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    """out[i] = x[i] / (1 - p) where element i is kept, else 0"""
    ### BEGIN SOLUTION
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    kept = tl.rand(seed, i) >= p
    x = tl.load(x_ptr + i, mask=i < n, other=0).to(tl.float32)
    tl.store(out_ptr + i, tl.where(kept, x / (1 - p), 0.0), mask=i < n)
    ### END SOLUTION


class SeededDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: torch.Tensor, p: float, seed: int) -> torch.Tensor:
        """x, contiguous, any shape -> x / (1 - p) where tl.rand(seed, i) >= p, else 0"""
        ### BEGIN SOLUTION
        ctx.p, ctx.seed = p, seed
        out, n = torch.empty_like(x), x.numel()
        dropout_kernel[(triton.cdiv(n, 2048),)](x, out, n, p, seed, BLOCK=2048)
        return out
        ### END SOLUTION

    @staticmethod
    def backward(ctx, dy: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        """The gradient of the result, contiguous -> the gradient of x; p and seed have none"""
        ### BEGIN SOLUTION
        dx, n = torch.empty_like(dy), dy.numel()
        dropout_kernel[(triton.cdiv(n, 2048),)](dy, dx, n, ctx.p, ctx.seed, BLOCK=2048)
        return dx, None, None
        ### END SOLUTION


# %% check="recomputation.seeded_dropout"
check("recomputation.seeded_dropout", SeededDropout)

# %% [markdown]
# ## What was it worth?
#
# Here are the solutions of this unit, two of them of exercises in *More*, on one NVIDIA H200, in float32 on tensors of
# 134 or 268 MB. In the first column, 1.0 is the speed of a copy of as many bytes as the solution must move. (All sizes
# and spreads are in `benchmarks/results/recomputation.md` of the course's repository.)
#
# | | speed of a copy = 1 | of torch eager = 1 | of torch.compile = 1 |
# | --- | --- | --- | --- |
# | Sigmoid3, forward and backward | {{measured Sigmoid3}} |
# | RecomputedGelu, forward and backward | {{measured RecomputedGelu}} |
# | cross_entropy_backward, 8192 rows of 8192 | {{measured cross_entropy_backward}} |
# | rmsnorm_backward, 8192 rows of 4096 | {{measured rmsnorm_backward}} |
# | SeededDropout, forward and backward | {{measured SeededDropout}} |
#
# Look at the first row. With 5 memory operations instead of 15 we expect a factor of 3 over eager torch, and the
# measured factor is {{measured Sigmoid3, torch eager}}. torch.compile also fuses operations and chooses what to keep.
# So our kernels are not much faster, and for the cross-entropy torch.compile is faster. RMSNorm reaches
# {{measured rmsnorm_backward, copy}} of a copy, because it has sums along rows and a second launch.
#
# SeededDropout, in the last row, is far from the speed of memory, and slower than torch. Philox mixes seed and counter
# in ten rounds of multiplications and exclusive ors, which are about a hundred integer operations. One call makes
# *four* random numbers, but `tl.rand` uses only one of them. So arithmetic is the limit here, and recomputing is no
# longer free. (torch uses all four numbers. `tl.rand4x` gives all four, but under another rule than the exercise's.)
# But SeededDropout still keeps nothing.
#
# How far is a kernel from the speed of memory on *your* card? `profile` sets the counts of a trace beside the least time
# by the datasheet, and on a GPU beside the time that the launch took. Here it looks at both halves of `Square`. Guess
# first: how many times the least time do they take?

# %% gpu="recomputation.profile"
x = torch.randn(1 << 22, device="cuda" if torch.cuda.is_available() else "cpu", requires_grad=True)
dy = torch.randn_like(x)
profile(lambda: torch.autograd.grad(Square.apply(x), x, dy))

# %% [markdown]
# Where there is a GPU, the checks of this unit time your own kernels against copies, too.

# %%
figures.timed.on_your_card("recomputation")

# %% [markdown]
# ## What you now know
#
# * Autograd keeps what derivatives need, such as the outputs of sigmoids and relus and the inputs of products. With
#   large batches, these tensors are most of a training step's memory.
# * A GPU does many operations in the time of one store and one load, so what is cheap to compute is not worth keeping.
#   Three sigmoids need 15 memory operations in torch, 8 if they are fused, and 5 if they are also recomputed.
# * If recomputing needs a sum over a row, keep one number that contains this sum: lse for a softmax.
# * Random numbers follow from a seed and a counter, so a dropout mask need not be kept.

# %%
progress()

# %% [markdown]
# The unit is worth {{unit points}}, over {{unit exercises}}. Hand in this notebook; the grader runs the same checks on
# inputs that you have not seen.

# %% [markdown]
# ## More
#
# {{unit more}} You count what autograd keeps, write a norm's backward pass without atomics (each program stores a
# partial sum, and these are added up in a fixed order, so that every run gives the same bits), and train a deep model
# in a fraction of its memory. A checkpoint keeps the boundaries of s segments, and recomputes what is inside: for n
# layers the memory is s · boundary + ⌈n / s⌉ · inside, and the price is one more forward pass.

# %% [markdown]
# ## Exercise: count what is kept
#
# {{exercise recomputation.saved_bytes}}
#
# torch can tell you what it saves. The code
#
# ```python
# with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
#     out = fn(*inputs)
# ```
#
# calls `pack(t)` for every tensor t that autograd saves for the backward pass, and keeps what `pack` returns. (The
# backward pass hands this value to `unpack`, and uses what `unpack` returns.) Write `saved_bytes(fn, *inputs)`. It runs
# `fn` once, and returns how many bytes autograd keeps. Count whole storages (unit 01: a tensor is a view of a storage).
#
# Full marks require
# * the right number of bytes ({{correct.plain}}), without the storages of the inputs ({{correct.inputs}}),
# * each storage counted once and whole, however many views of it are kept ({{correct.shared}}),
# * the right number for other dtypes, and 0 where nothing is kept ({{correct.others}}).
#
# A verdict names the `fn` that the check passed to your function. For example,
# `course_lib.workloads.activations.chain("twenty sigmoids", [64, 128])` returns the `fn` with that name, and its
# arguments.
#
# You can tell storages apart by `t.untyped_storage().data_ptr()`. There is one trap: as soon as a tensor is gone,
# another tensor may get its address. If `pack` does not return t, does anything still keep t in memory?


# %% exercise="recomputation.saved_bytes"
def saved_bytes(fn, *inputs: torch.Tensor) -> int:
    """The bytes that autograd keeps between forward and backward of fn(*inputs): each storage once, without those of inputs."""
    ### BEGIN SOLUTION
    kept = {}  # address of a storage -> its bytes

    def pack(t):
        storage = t.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        out = fn(*inputs)  # noqa: F841  while out lives, no address is used twice
    own = {t.untyped_storage().data_ptr() for t in inputs}
    return sum(nbytes for address, nbytes in kept.items() if address not in own)
    ### END SOLUTION


# %% check="recomputation.saved_bytes"
check("recomputation.saved_bytes", saved_bytes)

# %% [markdown]
# ## Exercise: a gated GELU that keeps nothing
#
# {{exercise recomputation.recomputed_gelu}}
#
# The feed-forward layers of many language models apply a GELU to one projection and multiply the result by another
# projection: `gelu(x) * gate`. Torch keeps x and gate. It also keeps gelu(x), for the gradient of gate. But gelu(x) can
# be computed again from x.
#
# Let F(x) = (1 + erf(x / √2)) / 2 be the normal distribution function. Then gelu(x) = x F(x), and F'(x) = exp(-x² / 2)
# / √(2π). Write `RecomputedGelu` with this exact GELU (as in `torch.nn.functional.gelu`, without the tanh
# approximation). x and gate are contiguous and have the same shape. Triton has `tl.erf`. A kernel cannot use `math`, so
# write √2 and √(2π) as numbers. Full marks require
# * the right result and both gradients at odd sizes ({{correct.ragged}}) and for large numbers ({{correct.hard}}),
# * the right gradients where the function is applied to another x and gate before the backward pass
#   ({{correct.twice}}),
# * a backward pass that reads x, gate and dy, and nothing that the forward pass wrote ({{saves.performance}}),
# * one launch in the backward pass ({{launches.performance.backward}}), and eight memory operations in all, by at least
#   32 programs where the input is large ({{traffic.performance}}). Which eight are they?
#
# There is extra credit on a GPU, for 8192 × 4096 numbers. You get {{speed}} if your kernel reaches {{speed.full}} of a
# copy's speed, and some of the points if it reaches more than {{speed.none}}.


# %% exercise="recomputation.recomputed_gelu"
@triton.jit
def gelu_kernel(x_ptr, gate_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """out[i] = gelu(x[i]) * gate[i]"""
    ### BEGIN SOLUTION
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0).to(tl.float32)
    gate = tl.load(gate_ptr + i, mask=i < n, other=0).to(tl.float32)
    F = 0.5 * (1 + tl.erf(x * 0.7071067811865476))
    tl.store(out_ptr + i, x * F * gate, mask=i < n)
    ### END SOLUTION


@triton.jit
def gelu_backward_kernel(x_ptr, gate_ptr, dy_ptr, dx_ptr, dgate_ptr, n, BLOCK: tl.constexpr):
    """Both gradients for BLOCK elements"""
    ### BEGIN SOLUTION
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0).to(tl.float32)
    gate = tl.load(gate_ptr + i, mask=i < n, other=0).to(tl.float32)
    dy = tl.load(dy_ptr + i, mask=i < n, other=0).to(tl.float32)
    F = 0.5 * (1 + tl.erf(x * 0.7071067811865476))
    density = 0.3989422804014327 * tl.exp(-0.5 * x * x)
    tl.store(dx_ptr + i, dy * gate * (F + x * density), mask=i < n)
    tl.store(dgate_ptr + i, dy * x * F, mask=i < n)
    ### END SOLUTION


class RecomputedGelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        """x and gate, contiguous, of one shape -> gelu(x) * gate"""
        ### BEGIN SOLUTION
        ctx.save_for_backward(x, gate)
        out, n = torch.empty_like(x), x.numel()
        gelu_kernel[(triton.cdiv(n, 1024),)](x, gate, out, n, BLOCK=1024)  # reads 2 n, writes n
        return out
        ### END SOLUTION

    @staticmethod
    def backward(ctx, dy: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The gradient of the result, contiguous -> the gradients of x and of gate"""
        ### BEGIN SOLUTION
        x, gate = ctx.saved_tensors
        dx, dgate, n = torch.empty_like(x), torch.empty_like(x), x.numel()
        # reads 3 n, writes 2 n
        gelu_backward_kernel[(triton.cdiv(n, 1024),)](x, gate, dy, dx, dgate, n, BLOCK=1024)
        return dx, dgate
        ### END SOLUTION


# %% check="recomputation.recomputed_gelu"
check("recomputation.recomputed_gelu", RecomputedGelu)

# %% [markdown]
# ## A gradient that every row adds to
#
# RMSNorm divides each row by its root mean square, and multiplies it by a weight: `y = x * rstd * weight`. The forward
# pass has kept one number for each row, `rstd = 1 / sqrt(mean(x²) + eps)`. What does the backward pass need?
#
# Let n = x · rstd be the normed row, and let g = dy · weight be the gradient that arrives at n. Then
#
# > dx = rstd · (g - n · mean(g · n))
#
# The second term comes from rstd, which depends on every element of the row. The derivative is ∂rstd / ∂x[j] = −rstd³
# x[j] / N, which gives the term −rstd · n · mean(g · n). You need not keep n, because n is x times one number.
#
# All rows share the weight, so each row adds to the gradient of the weight: dweight[j] is the sum of dy · n over all
# rows. There may be a million rows, and many programs work on them. As in unit 04's `column_sum`, there are two ways to
# add up what these programs compute:
# * **Atomics** are simple, but the programs add in any order. The sum of floats depends on the order, so two runs of
#   the same training differ in the last bits, and soon in all bits. A bug that shows only in every second run is hard
#   to find.
# * **Partial sums** need two kernels. Each program of the first kernel adds up its own rows in registers, and stores
#   one row of partial sums. A second, small kernel adds up these rows, always in the same order.
#
# ## Exercise: RMSNorm, backward, without atomics
#
# {{exercise recomputation.rmsnorm_backward}}
#
# x and dy have the shape (M, N) and are contiguous. weight has the shape (N,). All three have the same dtype. rstd has
# the shape (M,), is float32, and was computed with eps = 1e-6. Return dx in the dtype of x, and dweight in float32. A
# row fits into one block: N is at most some thousands. Full marks require
# * both gradients right at odd sizes ({{correct.ragged}}), and for many rows and for rows of large numbers in float16
#   ({{correct.hard}}),
# * x and dy read once and dx written once, with at most a fifth more bytes for everything else
#   ({{traffic.performance}}),
# * no atomics ({{no_atomics.performance}}),
# * at least 8 programs for 128 rows ({{programs.performance}}), and dense loads ({{coalesced.load.performance}}).
#
# So a program should do several rows, but not too many: 16 rows are a good choice, and more rows where M is very large.
#
# There is extra credit on a GPU, for 8192 rows of 4096. You get {{speed}} if your kernel reaches {{speed.full}} of a
# copy's speed, and some of the points if it reaches more than {{speed.none}}.


# %% exercise="recomputation.rmsnorm_backward"
@triton.jit
def rmsnorm_backward_kernel(
    x_ptr,
    weight_ptr,
    rstd_ptr,
    dy_ptr,
    dx_ptr,
    partial_ptr,
    M,
    N,
    rows_each,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """dx for rows_each rows, BLOCK_M at a time; partial[program] = their part of dweight"""
    ### BEGIN SOLUTION
    program = tl.program_id(0)
    offs_n = tl.arange(0, BLOCK_N)[None, :]
    weight = tl.load(weight_ptr + offs_n, mask=offs_n < N, other=0).to(tl.float32)
    total = tl.zeros((BLOCK_N,), dtype=tl.float32)
    first, end = program * rows_each, min(M, (program + 1) * rows_each)
    for start in range(first, end, BLOCK_M):
        offs_m = start + tl.arange(0, BLOCK_M)[:, None]
        inside = (offs_m < end) & (offs_n < N)
        rstd = tl.load(rstd_ptr + offs_m, mask=offs_m < end, other=0)
        x = tl.load(x_ptr + offs_m * N + offs_n, mask=inside, other=0).to(tl.float32)
        dy = tl.load(dy_ptr + offs_m * N + offs_n, mask=inside, other=0).to(tl.float32)
        normed = x * rstd  # computed again, because one number per row was kept, and not the row
        total += tl.sum(dy * normed, axis=0)
        g = dy * weight
        dx = rstd * (g - normed * (tl.sum(g * normed, axis=1)[:, None] / N))
        tl.store(dx_ptr + offs_m * N + offs_n, dx, mask=inside)
    tl.store(partial_ptr + program * N + offs_n, total[None, :], mask=offs_n < N)
    ### END SOLUTION


@triton.jit
def add_rows_kernel(partial_ptr, out_ptr, P, N, BLOCK_P: tl.constexpr, BLOCK_N: tl.constexpr):
    """out[n] = sum of column n of partial (P, N), always in the same order"""
    ### BEGIN SOLUTION
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    total = tl.zeros((BLOCK_P, BLOCK_N), dtype=tl.float32)
    for start in range(0, P, BLOCK_P):
        offs_m = start + tl.arange(0, BLOCK_P)[:, None]
        total += tl.load(partial_ptr + offs_m * N + offs_n, mask=(offs_m < P) & (offs_n < N), other=0)
    tl.store(out_ptr + offs_n, tl.sum(total, axis=0)[None, :], mask=offs_n < N)
    ### END SOLUTION


def rmsnorm_backward(
    x: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor, dy: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """x, dy: (M, N), contiguous, weight: (N,), rstd: (M,) float32 -> dx: (M, N), dweight: (N,) float32"""
    ### BEGIN SOLUTION
    M, N = x.shape
    rows_each = max(16, triton.cdiv(M, 256))  # 256 programs keep all SMs busy; more would write more partial sums
    P = triton.cdiv(M, rows_each)
    BLOCK_N = triton.next_power_of_2(N)
    BLOCK_M = max(1, min(16, 4096 // BLOCK_N))
    dx = torch.empty_like(x)
    partial = torch.empty((P, N), dtype=torch.float32, device=x.device)
    dweight = torch.empty(N, dtype=torch.float32, device=x.device)
    rmsnorm_backward_kernel[(P,)](
        x, weight, rstd, dy, dx, partial, M, N, rows_each, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=8
    )
    add_rows_kernel[(triton.cdiv(N, 64),)](partial, dweight, P, N, BLOCK_P=64, BLOCK_N=64)
    return dx, dweight
    ### END SOLUTION


# %% check="recomputation.rmsnorm_backward"
check("recomputation.rmsnorm_backward", rmsnorm_backward)

# %% [markdown]
# ## Recomputing for memory
#
# Now take a whole model of 24 layers. Each layer is `x + gelu(x @ w1) @ w2`, and x @ w1 is four times as wide as x. We
# call a tensor that passes from one layer to the next a **boundary**. A layer keeps x, x @ w1 and gelu(x @ w1), which
# have the size of 1 + 4 + 4 = 9 boundaries. So all layers together keep 24 × 9 = 216 boundaries. The next cell computes
# how many bytes these are for 16,384 tokens, a width of 1024 and two bytes for each element.

# %%
boundary = 16384 * 1024 * 2
print(f"{24 * 9} boundaries of {boundary / 2**20:.0f} MiB: {24 * 9 * boundary / 2**30:.2f} GiB of activations")

# %% [markdown]
# The weights take only 0.4 GiB. What if we keep only the boundaries, and compute the rest of each layer again when the
# backward pass needs it? This is called a **checkpoint**. In the forward pass, a piece of the model keeps only its
# input. In the backward pass, the piece runs forward once more and now keeps everything. Then its gradients are
# computed.
#
# The price is one more forward pass. A forward pass takes a third of the FLOPs of a training step (unit 03: 2 parts
# forward, 4 parts backward), so a checkpointed step does a third more FLOPs. How much memory do checkpoints save? And
# how long should a piece, or **segment**, be: one layer, or six?

# %% predict="recomputation.guess_segments"
# 24 layers: into how many segments would you cut them? Write a number; it earns no points.
guess_segments = ...

# %%
figures.recomputation.explore_checkpoints()

# %% [markdown]
# Try your guess, and then 1, 5, 12 and 24 segments, with 24 layers.
# * A single segment saves nothing. When it is recomputed, everything inside it is in memory at the same time.
# * With more segments, more boundaries are kept (orange), and each segment keeps less inside (blue).
# * The extra compute is the same for any number of segments. Only the memory depends on this number.
#
# If a layer kept only its input, √24 ≈ 5 segments would be best, because s + 24 / s is least at s = √24. This is the √n
# rule (Chen et al., 2016): n layers need only as much memory as 2 √n layers. In our model a layer keeps 9 boundaries,
# so shorter segments are better: s + 9 · 24 / s is least at s = √216 ≈ 15. (Segments consist of whole layers, so the
# best number can differ from 15.)
#
# ## Exercise: checkpoint
#
# {{exercise recomputation.checkpoint}}
#
# Write `checkpoint(fn, *args)`. It returns `fn(*args)`, a single tensor, and until the backward pass it keeps nothing
# but the arguments. The backward pass runs `fn` again. The arguments are tensors, with or without gradients, and other
# things, such as numbers. All weights that `fn` uses are among its arguments. The check calls your function in a
# training step in float64, with autograd as the reference. `torch.utils.checkpoint` does the same already, but you
# cannot use it while the check runs.
#
# There may be dropout inside `fn`. On the CPU, torch's own dropout draws from a generator with a *state*, which every
# draw changes. What happens if you do not put the state back before you run `fn` again?

# %%
figures.recomputation.masks()

# %% [markdown]
# `torch.get_rng_state()` and `torch.set_rng_state(state)` read and set this state. `torch.random.fork_rng(devices=[])`
# is a context that puts the state back when it ends. You need this because what is drawn *after* the backward pass
# should not depend on whether something was recomputed. (A GPU has a generator of its own, with
# `torch.cuda.get_rng_state()`. Your `checkpoint` may ignore it.)
#
# Full marks require
# * the result and all gradients of fn ({{holds.look.plain}}),
# * only the arguments, the result and a random state alive before the backward pass, and fn run once in the forward
#   pass and once in the backward pass ({{seen.recomputes.memory}}),
# * nothing kept in memory any longer than the backward pass needs it ({{seen.looked.memory}}),
# * dropout that keeps exactly the same elements both times ({{seen.same_dropout.dropout}}),
# * the random state as it would be without the checkpoint ({{seen.looked.after}}).
#
# Four things surprise people:
# * Inside `forward` of a Function, gradients are off. Here this is what you want.
# * Inside `backward` they are off, too. Here this is not what you want.
# * If you run `fn` on the arguments themselves, the backward pass goes on into the operations that computed the
#   arguments. `detach()` cuts these off, but a detached tensor no longer has `requires_grad`.
# * A tensor that is an attribute of `ctx` stays in memory until the whole graph is gone. A tensor in
#   `ctx.save_for_backward` is freed as soon as the backward pass is done with it. Pass None there for an argument that
#   is not a tensor.


# %% exercise="recomputation.checkpoint"
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, *args):
        """Runs fn(*args), keeping its arguments and the random state alone"""
        ### BEGIN SOLUTION
        ctx.fn, ctx.rng = fn, torch.get_rng_state()
        ctx.others = [None if isinstance(a, torch.Tensor) else a for a in args]
        ctx.save_for_backward(*(a if isinstance(a, torch.Tensor) else None for a in args))
        return fn(*args)  # in no_grad mode: nothing inside is kept
        ### END SOLUTION

    @staticmethod
    def backward(ctx, dy):
        """Runs fn once more, now with gradients"""
        ### BEGIN SOLUTION
        saved = zip(ctx.saved_tensors, ctx.others, strict=True)
        args = [other if t is None else t.detach().requires_grad_(t.requires_grad) for t, other in saved]
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.rng)  # dropout draws what it drew before; fork_rng puts everything back afterwards
            out = ctx.fn(*args)
        leaves = [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad]
        found = dict(zip(map(id, leaves), torch.autograd.grad(out, leaves, dy), strict=True))
        return None, *(found.get(id(a)) for a in args)  # None for fn, and for what has no gradient
        ### END SOLUTION


def checkpoint(fn, *args):
    """fn(*args), with gradients; between forward and backward only args are kept"""
    ### BEGIN SOLUTION
    return Checkpoint.apply(fn, *args)
    ### END SOLUTION


# %% check="recomputation.checkpoint"
check("recomputation.checkpoint", checkpoint)

# %% [markdown]
# ## Exercise: how many segments?
#
# {{exercise recomputation.segments_for}}
#
# A model has `layers` layers. Each layer passes `boundary` bytes on to the next layer, and keeps `inside` bytes,
# including its input. The layers are cut into s segments whose lengths differ by at most one, so the longest has
# ⌈layers / s⌉ layers. The peak of the memory comes when the last segment has just been recomputed. Then s boundaries
# are alive, and everything that the layers of one segment keep. (This counts the segment's input twice. Leave it so:
# with one segment, our 24 layers then have a peak of 217 boundaries, not 216.)
#
# Return the number of segments with the least peak (any of them, if several numbers have the same peak), and this peak.
# Full marks require
# * a number of segments with the least peak ({{holds.has_the_least_peak.plain}}),
# * the right peak for this number ({{holds.says_its_peak.plain}}),
# * a prediction that holds for a real model of 24 layers ({{holds.holds_when_counted.counted}}). The check counts its
#   live bytes after each operation. It adds the temporary tensors of one layer's backward pass to your prediction.


# %% exercise="recomputation.segments_for"
def segments_for(layers: int, boundary: int, inside: int) -> tuple[int, int]:
    """Layers, bytes between two layers, bytes that a layer keeps (its input included) -> best number of segments, its peak"""
    ### BEGIN SOLUTION
    peaks = {s: s * boundary + -(-layers // s) * inside for s in range(1, layers + 1)}
    best = min(peaks, key=peaks.get)
    return best, peaks[best]
    ### END SOLUTION


# %% check="recomputation.segments_for"
check("recomputation.segments_for", segments_for)

# %% [markdown]
# ## Prediction against measurement
#
# The picture shows how many bytes of the model are alive after each operation: without checkpoints, and with your
# checkpoint and your number of segments. The thin lines are the same on a GPU, with torch's checkpoint, as the GPU's
# allocator reports it. The dashed line is your prediction plus the temporary tensors of one layer's backward pass. Does
# the curve stay below this line?

# %% gpu="recomputation.memory_timeline"
figures.recomputation.memory_timeline(segments_for(24, 1, 9), checkpoint)

# %% [markdown]
# The peak has fallen from 216 boundaries to 30, for a third more FLOPs. On the H200 the step took
# {{measured checkpoints' time}} times as long, and it needed {{measured checkpoints' peak}} GiB instead of
# {{measured peak without checkpoints}} GiB. (The peaks in the picture are two or three boundaries higher, because of
# the temporary tensors of one layer's backward pass.) The thin lines have the same peaks, so the bytes that are counted
# on a CPU are those that the GPU's allocator hands out.
#
# When is which kind of recomputation worth it?
#
# | | recompute inside a kernel | checkpoint a piece of the model |
# | --- | --- | --- |
# | what it is for | speed: fewer bytes moved | memory: fewer bytes alive |
# | what is computed again | elementwise operations, with one number per row | everything, matrix products included |
# | what it costs | nothing, while memory is the limit | about a third more FLOPs |
# | who does it for you | torch.compile (which chooses what to keep by a minimum cut), FlashAttention | torch.utils.checkpoint |
#
# *Selective* checkpoints lie between the two. They keep the results of matrix products, which are expensive to compute,
# and recompute the rest. FlashAttention does both at once. It never stores its matrix of scores. It keeps the output
# and one number for each row of this matrix, and recomputes the rest, tile by tile. So it moves fewer bytes *and* keeps
# fewer. You build it in the next three units.

# %% [markdown]
# ## Exercise: a work log of a gradient
#
# {{exercise recomputation.gradient_log}}
#
# A **work log** makes a wasteful version better in rounds. Before you write the next one, you state what it will move;
# the traces of both versions show what did change. This log begins with the gradient of three sigmoids, in which each step
# there and back is a launch and stores what it makes. Both halves count here, since they run in one call.

# %%
from course_lib import worklog

worklog("recomputation.gradient_log")

# %% [markdown]
# `gradient_log()` returns your rounds as a list of dicts, such as
# `{"change": "...", "bytes": "56*N", "sectors": "...", "launches": 5, "version": my_gradient}`. What you state are totals of the new
# version, as formulas in quotes: numbers, N, `+ - * /`, `//`, and `cdiv(a, b)`, which rounds up. State a round without its
# `version` first and run the last cell of this section; your logbook keeps the statement.
#
# A round holds if its version is right, each of its numbers is at most a tenth off, and at least one of them is a tenth
# below that of every version before it. Three rounds that hold give {{rounds_held.performance}}, each a third of them; up to
# five are judged, so one that fails costs nothing. The check has lengths that you do not see, multiples of 1024.
# `strides log` makes a page of your log.


# %% exercise="recomputation.gradient_log"
### BEGIN SOLUTION
@triton.jit
def log_forward_kernel(x_ptr, s1_ptr, s2_ptr, s3_ptr, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    s1 = tl.sigmoid(tl.load(x_ptr + i, mask=i < N))
    s2 = tl.sigmoid(s1)
    tl.store(s1_ptr + i, s1, mask=i < N)
    tl.store(s2_ptr + i, s2, mask=i < N)
    tl.store(s3_ptr + i, tl.sigmoid(s2), mask=i < N)


@triton.jit
def log_step_back_kernel(s_ptr, ds_ptr, dx_ptr, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    s, ds = tl.load(s_ptr + i, mask=i < N), tl.load(ds_ptr + i, mask=i < N)
    tl.store(dx_ptr + i, ds * s * (1 - s), mask=i < N)


@triton.jit
def log_backward_kernel(s1_ptr, s2_ptr, s3_ptr, dy_ptr, dx_ptr, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    s1, s2 = tl.load(s1_ptr + i, mask=i < N), tl.load(s2_ptr + i, mask=i < N)
    s3, dy = tl.load(s3_ptr + i, mask=i < N), tl.load(dy_ptr + i, mask=i < N)
    tl.store(dx_ptr + i, dy * s3 * (1 - s3) * s2 * (1 - s2) * s1 * (1 - s1), mask=i < N)


@triton.jit
def log_recomputed_kernel(x_ptr, dy_ptr, dx_ptr, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    s1, dy = tl.sigmoid(tl.load(x_ptr + i, mask=i < N)), tl.load(dy_ptr + i, mask=i < N)
    s2 = tl.sigmoid(s1)
    s3 = tl.sigmoid(s2)
    tl.store(dx_ptr + i, dy * s3 * (1 - s3) * s2 * (1 - s2) * s1 * (1 - s1), mask=i < N)


def forward_in_one(x, dy):
    N, grid = x.numel(), (triton.cdiv(x.numel(), 1024),)
    s1, s2, s3 = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
    d2, d1, dx = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
    log_forward_kernel[grid](x, s1, s2, s3, N, BLOCK=1024)
    log_step_back_kernel[grid](s3, dy, d2, N, BLOCK=1024)
    log_step_back_kernel[grid](s2, d2, d1, N, BLOCK=1024)
    log_step_back_kernel[grid](s1, d1, dx, N, BLOCK=1024)
    return dx


def both_in_one(x, dy):
    N, grid = x.numel(), (triton.cdiv(x.numel(), 1024),)
    s1, s2, s3, dx = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
    log_forward_kernel[grid](x, s1, s2, s3, N, BLOCK=1024)
    log_backward_kernel[grid](s1, s2, s3, dy, dx, N, BLOCK=1024)
    return dx


def recomputed(x, dy):
    N, dx = x.numel(), torch.empty_like(x)
    log_recomputed_kernel[(triton.cdiv(N, 1024),)](x, dy, dx, N, BLOCK=1024)
    return dx


### END SOLUTION
def gradient_log():
    """The rounds, in order: dicts of change, bytes, sectors, launches and version."""
    ### BEGIN SOLUTION
    return [
        {"change": "one launch there", "bytes": "52*N", "sectors": "52*N/32", "launches": 4, "version": forward_in_one},
        {"change": "one launch back", "bytes": "36*N", "sectors": "36*N/32", "launches": 2, "version": both_in_one},
        {"change": "nothing is kept", "bytes": "12*N", "sectors": "12*N/32", "launches": 1, "version": recomputed},
    ]
    ### END SOLUTION


# %% check="recomputation.gradient_log"
check("recomputation.gradient_log", gradient_log)

# %%
worklog("recomputation.gradient_log", gradient_log)

# %% [markdown]
# ## Further reading
#
# * Chen, Xu, Zhang, Guestrin, *Training Deep Nets with Sublinear Memory Cost* (2016): √n segments, and recursion below
#   that.
# * Horace He, *Min-cut optimal(*) recomputation*, PyTorch developers' forum (2022): recomputation that makes training
#   faster, found by a minimum cut; what torch.compile does.
# * Korthikanti et al., *Reducing Activation Recomputation in Large Transformer Models* (2022): what each part of a
#   transformer keeps, and which part to recompute.
# * Stanford, *CS336: Language Modeling from Scratch*: the lecture on GPUs, on recomputation.
# * Salmon et al., *Parallel Random Numbers: As Easy as 1, 2, 3* (2011): Philox, and why a counter is enough.
# * The Triton tutorial on low-memory dropout; the PyTorch notes on extending autograd and on saved-tensor hooks.
# * Dao et al., *FlashAttention* (2022), section 3.1: the backward pass by recomputation.
