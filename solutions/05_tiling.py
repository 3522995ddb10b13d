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
# # 05 · Tiling
#
# **After this unit you can** write a matrix product in Triton that reads each element a few dozen times instead of
# thousands of times. You can say beforehand how many bytes it moves, choose its tiles by what the compiler says, and
# number its tiles so that the L2 cache helps. You need 03 (FLOPs, the roofline) and 04 (a kernel on tiles, sectors,
# traces). You need no GPU, because traffic is counted on the CPU. Each picture names the GPU on which its times were
# measured; nearly always it was an NVIDIA H200.

# %%
import torch
import triton
import triton.language as tl

from course_lib import bench, check, compile_for, figures, gpu, hint, profile, progress, trace  # noqa: F401 (hint is yours to call)
from course_lib.hardware.measurements import measured

device = "cuda" if torch.cuda.is_available() else "cpu"

# %% [markdown]
# ## The question
#
# How many times does a matrix product *read* each element? This question is behind the speed of every product.
#
# The product `c` of two 4096 by 4096 matrices `a` and `b` takes 2 × 4096³ FLOPs. In bfloat16 each of `a` and `b` takes
# 32 MiB. Suppose that a kernel computes each element of `c` separately. For each element it reads a row of `a` and a
# column of `b`, multiplies their numbers pair by pair, and adds the products up.

# %% predict="tiling.guess_bytes"
# How many GiB does that kernel read in all? Write a number before you go on; it earns no points.
guess_gib = ...

# %% [markdown]
# Each element of `c` needs 2 × 4096 numbers of 2 bytes, and there are 4096² elements:

# %%
naive = 4096**2 * 2 * 4096 * 2
print(f"{naive / 2**30:,.0f} GiB (you said {guess_gib if guess_gib is not ... else 'nothing'})")
card = gpu.datasheet("H200")
reading, computing = naive / card.hbm_bandwidth * 1e3, 2 * 4096**3 / card.bf16_flops * 1e3
print(
    f"if every read went to DRAM, an H200 would spend {reading:.0f} ms reading; the arithmetic takes {computing:.2f} ms"
)

# %% [markdown]
# The FLOPs cannot be avoided. But each element of `a` and `b` is read 4096 times, and these reads take most of the
# time, even if caches answer some of them. Here is such a kernel. A trace counts its reads on small matrices.


# %%
@triton.jit
def one_element(a_ptr, b_ptr, c_ptr, N, K: tl.constexpr):
    """c[m, n] = a[m, :] @ b[:, n]; program (n, m) computes one element."""
    n, m, k = tl.program_id(0), tl.program_id(1), tl.arange(0, K)
    a = tl.load(a_ptr + m * K + k)
    b = tl.load(b_ptr + k * N + n)
    tl.store(c_ptr + m * N + n, tl.sum(a * b))


a, b, c = torch.randn(32, 64), torch.randn(64, 32), torch.empty(32, 32)
with trace() as t:
    one_element[(32, 32)](a, b, c, 32, K=64)
print("right:", torch.allclose(c, a @ b, atol=1e-4))
print(f"each element of a is read {t.reread(a):.0f} times, of b {t.reread(b):.0f} times")

# %% [markdown]
# The result has 32 columns, so each element of `a` is read 32 times. What else could a program do with a row of `a`
# once it has loaded it?
#
# ## A product is a sum of outer products
#
# You know a matrix product as rows times columns. Each element of `c` is the *inner* product of a row and a column, so
# a kernel reads 2 K numbers to compute one element. Now let the outer loop run over k instead of over the elements of
# `c`. Take *column* k of `a` and *row* k of `b`. Their **outer product** is a whole (M, N) matrix, in which every
# number of the column is multiplied by every number of the row. The sum of these matrices over all k is a @ b.

# %%
figures.tiling.outer_products()

# %% [markdown]
# Now count the work for one k. M + N numbers are read, and M × N multiplications are done with them. This is the idea
# of the whole unit: **read a few numbers, and use each of them many times.**

# %% [markdown]
# ## Tiles
#
# There is a catch. The sum `c` has M × N numbers, and each step adds to all of them. A result of 4096 by 4096 has 16.8
# million numbers, but the registers of an SM hold only 65,536. So we cut `c` into **tiles** that do fit. A program
# keeps one tile of `c`, of shape (BLOCK_M, BLOCK_N), in registers from the first k to the last. For this tile it needs
# BLOCK_M rows of `a` and BLOCK_N columns of `b`. It loads the rows in pieces that are BLOCK_K long, and the columns
# likewise.

# %%
figures.tiling.tile_anatomy()

# %% [markdown]
# How many times is row 0 of `a` loaded now? Every program whose tile lies in the first row of tiles loads it once, and
# there are N / BLOCK_N such programs.
#
# > Each element of **a** is read **N / BLOCK_N** times, and each element of **b** is read **M / BLOCK_M** times.

# %% [markdown]
# ## Exercise: predict what is read
#
# {{exercise tiling.predictions}}
#
# Consider the product of two 256 by 256 matrices. How many times is each element of `a` loaded, and each element of
# `b`,
# * with tiles of 64 × 64 (BLOCK_M × BLOCK_N),
# * with tiles of 32 × 128, which hold as many elements as tiles of 64 × 64,
# * with tiles of 64 × 64, if BLOCK_K (the length of the pieces) is doubled from 32 to 64?
#
# Write down five numbers; the last question asks only about `a`. The check then counts with a trace.
#
# Write numbers, or arithmetic on numbers such as `4 * 1024`. Code that works out the answers is not a prediction, and
# earns nothing. `hint("tiling.predictions")` gives a hint, and a stronger one each time you call it. Every exercise in
# this unit has such a check and such hints.

# %% exercise="tiling.predictions"
predicted_reads = {
    "a, tiles of 64 x 64": ...,
    "b, tiles of 64 x 64": ...,
    "a, tiles of 32 x 128": ...,
    "b, tiles of 32 x 128": ...,
    "a, tiles of 64 x 64, BLOCK_K twice as large": ...,
}
### BEGIN SOLUTION
predicted_reads = {
    "a, tiles of 64 x 64": 4,  # 256 / 64
    "b, tiles of 64 x 64": 4,
    "a, tiles of 32 x 128": 2,  # 256 / 128: as many as there are tiles side by side
    "b, tiles of 32 x 128": 8,  # 256 / 32
    "a, tiles of 64 x 64, BLOCK_K twice as large": 4,  # the same columns, in fewer pieces
}
### END SOLUTION

# %% check="tiling.predictions"
check("tiling.predictions", predicted_reads)

# %% [markdown]
# With tiles of 32 × 128, each element of `a` is read 2 times instead of 4, and each element of `b` is read 8 times
# instead of 4. That makes more reads in all: 2 + 8 instead of 4 + 4. A program with a tile of BLOCK_M × BLOCK_N does 2
# × BLOCK_M × BLOCK_N FLOPs for every BLOCK_M + BLOCK_N numbers that it reads. Of all tiles with the same area, the
# **square** has the smallest sum of its sides.

# %% [markdown]
# ## Exercise: sums of rows
#
# {{exercise tiling.row_sums}}
#
# A matmul is a loop along K that keeps sums in registers. Write the loop first, without the product: compute the sum of
# each row of `a`, in float32. Each program handles a block of rows, and goes through all columns from left to right. K
# may be any number, such as 1, 300 or 5001. So the last step needs a mask, and masked positions must add zero. Three
# lines of the kernel are missing, two in the loop and one at the end; the function that launches it is yours. Full
# marks require
# * the right sums for any sizes, even if there are gaps between the rows in memory ({{correct.ragged}}),
# * the right sums for long rows of float16 ({{correct.float16}}),
# * dense loads ({{coalesced.load.performance}}),
# * at least 32 programs that together read each element once, and store each sum once ({{traffic.performance}}).


# %% exercise="tiling.row_sums"
@triton.jit
def row_sums_kernel(a_ptr, out_ptr, M, K, stride_m, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr):
    """out[m] = the sum of a[m, :], for BLOCK_M rows."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_K), tl.float32)
    for start in range(0, K, BLOCK_K):
        ### BEGIN SOLUTION
        k = start + tl.arange(0, BLOCK_K)[None, :]
        acc += tl.load(a_ptr + rows * stride_m + k, mask=(rows < M) & (k < K), other=0).to(tl.float32)
        ### END SOLUTION
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    ### BEGIN SOLUTION
    tl.store(out_ptr + m, tl.sum(acc, 1), mask=m < M)
    ### END SOLUTION


def row_sums(a: torch.Tensor) -> torch.Tensor:
    """a: (M, K), column stride 1 -> (M,) float32."""
    ### BEGIN SOLUTION
    M, K = a.shape
    out = torch.empty(M, dtype=torch.float32, device=a.device)
    row_sums_kernel[(triton.cdiv(M, 16),)](a, out, M, K, a.stride(0), BLOCK_M=16, BLOCK_K=128)
    return out
    ### END SOLUTION


# %% check="tiling.row_sums"
check("tiling.row_sums", row_sums)

# %% [markdown]
# ## The kernel
#
# Now the product joins the loop. You need to know four new things.
#
# **`tl.dot(a, b, acc)`** multiplies two blocks on the tensor cores, and adds the product to an accumulator. The blocks
# have the shapes (BLOCK_M, BLOCK_K) and (BLOCK_K, BLOCK_N). Their sides are powers of two. BLOCK_K, the side that is
# summed over, is at least 16 (32 for numbers of one byte). BLOCK_M and BLOCK_N may be smaller than 16, and then the
# compiler pads the blocks. The accumulator is float32 even for blocks of float16 or bfloat16, because thousands of
# products are added up. Unit 02 showed how wrong such a sum becomes in half precision.
#
# **Float32 blocks** are rounded to TF32 (10 bits after the point) on their way into the tensor cores, unless you write
# `tl.dot(a, b, acc, input_precision="ieee")`. A trace rounds them, too, so you can see the effect on the CPU. For other
# dtypes `input_precision` does nothing.
#
# **In a kernel**, `c_ptr.dtype.element_ty` is the dtype of the tensor that `c_ptr` points to, so `acc.to(...)` with it
# rounds the sums to the dtype of the result. And `tl.cdiv` is `triton.cdiv`, for numbers in a kernel.
#
# **Pointers that move.** Inside the loop only the position along K changes. So make two blocks of pointers before the
# loop, and advance them in each step: `a_ptrs += BLOCK_K * stride_ak`. The positions `k = tl.arange(0, BLOCK_K)` then
# stay as they are. K - start numbers remain at the step that begins at start, so the mask along K is `k < K - start`.
#
# The next kernel uses `tl.dot` and pointers that move. It is run twice, once with float16 and once with float32, so
# that you can see the rounding to TF32. A single program computes a result that is just one tile, in several steps
# along K. It needs no mask.


# %%
@triton.jit
def one_tile(a_ptr, b_ptr, c_ptr, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """c = a @ b for contiguous a (BLOCK_M, K) and b (K, BLOCK_N), where BLOCK_K divides K. Launch one program."""
    rows, cols, k = tl.arange(0, BLOCK_M)[:, None], tl.arange(0, BLOCK_N)[None, :], tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows * K + k[None, :]  # (BLOCK_M, BLOCK_K)
    b_ptrs = b_ptr + k[:, None] * BLOCK_N + cols  # (BLOCK_K, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * BLOCK_N
    tl.store(c_ptr + rows * BLOCK_N + cols, acc.to(c_ptr.dtype.element_ty))


a, b = torch.randn(32, 128).half(), torch.randn(128, 32).half()
c = torch.empty(32, 32, dtype=torch.float16)
with trace() as t:
    one_tile[(1,)](a, b, c, 128, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32)
print("right:", torch.allclose(c.double(), a.double() @ b.double(), atol=0.02))
print(f"each element of a is read {t.reread(a):.0f} time; {t.flops.dot:,} FLOPs in tl.dot")
a32, b32, c32 = a.float(), torch.randn(128, 32), torch.empty(32, 32)
with trace():
    one_tile[(1,)](a32, b32, c32, 128, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32)
print(f"float32, rounded to TF32: off by {(c32 - a32 @ b32).abs().max():.4f}; without this rounding, by about 0.00001")
print(compile_for(one_tile, a, b, c, 128, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32, gpu="sm_90"))

# %% [markdown]
# Four things in the compiler's report matter here. It says how wide the loads and stores are: 128 bits, which is the
# widest possible. It names the instruction of the tensor cores: `mma`, or `wgmma` for tiles of 64 rows and more. It
# says how many of the 232,448 bytes (227 KiB) of shared memory a program takes. And it says how many registers each
# thread takes. (Its `cp.async` is an instruction that copies a tile into shared memory while the program goes on.)
#
# **Warps and stages** are arguments of the launch, too: `kernel[grid](..., num_warps=8, num_stages=3)`. A **stage** is
# room for the tiles of one step: with three of them, the tiles of two later steps arrive while one step is computed.
# By default a program has 4 warps, that is, 128 threads. So with a tile of 128 × 256, each thread holds 256 sums. A
# thread has at most 255 registers. What happens to the sums that do not fit?

# %%
a, b = torch.empty(128, 1024).half(), torch.empty(1024, 256).half()
c = torch.empty(128, 256).half()
for num_warps in (4, 8):
    shape = dict(BLOCK_M=128, BLOCK_N=256, BLOCK_K=64, num_warps=num_warps, num_stages=3)
    facts = compile_for(one_tile, a, b, c, 1024, gpu="sm_90", **shape)
    print(
        f"{num_warps} warps: {facts.registers} registers per thread; {facts.spill_bytes} bytes per thread are spilled to memory"
    )

# %% [markdown]
# With 4 warps the sums **spill**: part of the accumulator ends up in memory, and the program has to load and store it
# again and again. The result is still right, and a trace does not count these bytes. Neither the result nor the trace
# shows the spill, so look at what `compile_for` says, and give large tiles 8 warps.
#
# ## Exercise: one step
#
# {{exercise tiling.one_step}}
#
# A matmul is like `row_sums`, with a product in each step. Now write just one step. K is at most 64, so one block
# holds all of K, and there is no loop. The matrices `a` and `b` are contiguous, in float16. Blocks can reach past the
# last row of `a` and past the last column of `b`. If K is smaller than BLOCK_K, they also reach past the end of K.
# Masked loads need `other=0`. Otherwise undefined values past the end of K would be multiplied and added to the sums.
# Full marks require
# * the right result for any sizes of `c` ({{correct.ragged}}),
# * the right result for any K up to 64 ({{correct.short}}),
# * one program for each tile, so that at least 8 programs share a tall `c` ({{programs.tall}}).


# %% exercise="tiling.one_step"
@triton.jit
def one_step_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr):
    """One tile of c = a @ b; BLOCK_K holds all of K."""
    ### BEGIN SOLUTION
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    k = tl.arange(0, BLOCK_K)
    a = tl.load(a_ptr + rows * K + k[None, :], mask=(rows < M) & (k[None, :] < K), other=0)
    b = tl.load(b_ptr + k[:, None] * N + cols, mask=(k[:, None] < K) & (cols < N), other=0)
    c = tl.dot(a, b).to(c_ptr.dtype.element_ty)
    tl.store(c_ptr + rows * N + cols, c, mask=(rows < M) & (cols < N))
    ### END SOLUTION


def one_step(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a: (M, K), b: (K, N), K at most 64 -> (M, N)."""
    ### BEGIN SOLUTION
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty(M, N, dtype=a.dtype, device=a.device)
    one_step_kernel[(triton.cdiv(M, 32), triton.cdiv(N, 32))](a, b, c, M, N, K, BLOCK=32, BLOCK_K=64)
    return c
    ### END SOLUTION


# %% check="tiling.one_step"
check("tiling.one_step", one_step)

# %% [markdown]
# ## Any strides, and batches
#
# A matmul that others can use takes more than two contiguous matrices.
#
# **Any strides.** `x.T`, a slice, and a head of an attention layer are views, with strides of their own (unit 01). If a
# kernel takes both strides of each matrix as arguments, it can read all of these views without a copy. `.contiguous()`
# would launch another kernel, with its own traffic, so it is not allowed here.
#
# **Batches.** If `a` has the shape (B, M, K) and `b` has (B, K, N), there are B products to compute. `a` and `b` have
# the same number of dimensions, two or three. Use the second axis of the grid, `tl.program_id(1)`, to say which product
# of the batch a program works on, and pass one more stride for each matrix. A single product is a batch of one, and
# `a[None]` gives such a batch, as a view.
#
# ## Exercise: matmul
#
# {{exercise tiling.matmul}}
#
# Write `matmul(a, b)` for matrices of float16, bfloat16 and float32, with any sizes and any strides. The result has the
# dtype of `a`, and is contiguous. Use one kernel, and ordinary pointers, as in `one_tile`. Begin with a single product
# in float16. Then earn the points one by one:
# * The result is right for ragged sizes ({{correct.ragged}}), for transposed matrices and slices ({{correct.strided}}),
#   and for batches ({{correct.batched}}).
# * Sums over a long K keep their precision ({{correct.long}}), and products of float32 matrices have the full precision
#   of float32 ({{correct.float32}}).
# * Each element of `a` is read at most N / 64 times ({{rereads.a.performance}}), and each element of `b` at most M / 64
#   times ({{rereads.b.performance}}). In all, the kernel moves no more bytes than tiles of 64 × 64 need, and stores
#   each element of the result once ({{traffic.performance}}). A kernel that leaves a large product to fewer than 32
#   programs earns nothing here.
# * Loads are dense ({{coalesced.load.performance}}), and so are stores ({{coalesced.store.performance}}).
#
# A function in which torch makes a copy earns nothing at all, and `a.contiguous()` can make one.
#
# `tl.program_id(0)` is the number of a tile. With grid_n = tl.cdiv(N, BLOCK_N) in the kernel, let program pid compute
# the tile (pid // grid_n, pid % grid_n). `GROUP` is for the section *Which tile first?*, which shows a better
# order. Until then ignore `GROUP`, or remove it.
#
# Which tile should you take? For float16 and bfloat16, a tile of 128 × 256 with BLOCK_K = 64 is a good start, with 8
# warps and three stages; *Where tiles live* says why, and *Tile, warps, stages* asks whether a fourth stage is worth
# its shared memory. Float32 numbers take twice the space, and a product of float32 blocks without rounding to TF32
# takes many registers. So use smaller tiles for float32: BLOCK_M = BLOCK_N = 64 and BLOCK_K = 32 are large enough.
#
# There is extra credit on a GPU, for a product of 4096 × 4096 × 4096 in bfloat16. You get {{speed}} if your kernel
# reaches {{speed.full}} of the speed of `torch.matmul`, and some of the points if it reaches more than
# {{speed.none}}.


# %% exercise="tiling.matmul"
@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    stride_ab, stride_am, stride_ak, stride_bb, stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """One tile of c = a @ b, for one matrix of the batch. c is contiguous."""
    ### BEGIN SOLUTION
    pid, batch = tl.program_id(0), tl.program_id(1).to(tl.int64)
    grid_m, grid_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    first = pid // (GROUP * grid_n) * GROUP  # which tile: GROUP rows of tiles, column by column
    height = min(grid_m - first, GROUP)
    within = pid % (GROUP * grid_n)
    rows = (first + within % height) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]  # (BLOCK_M, 1)
    cols = (within // height) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]  # (1, BLOCK_N)
    k = tl.arange(0, BLOCK_K)

    a_ptrs = a_ptr + batch * stride_ab + rows * stride_am + k[None, :] * stride_ak  # (BLOCK_M, BLOCK_K)
    b_ptrs = b_ptr + batch * stride_bb + k[:, None] * stride_bk + cols * stride_bn  # (BLOCK_K, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        a = tl.load(a_ptrs, mask=(rows < M) & (k[None, :] < K - start), other=0)
        b = tl.load(b_ptrs, mask=(k[:, None] < K - start) & (cols < N), other=0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    inside = (rows < M) & (cols < N)
    tl.store(c_ptr + batch * M * N + rows * N + cols, acc.to(c_ptr.dtype.element_ty), mask=inside)
    ### END SOLUTION


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a (M, K) or (B, M, K), b (K, N) or (B, K, N), any strides -> (M, N) or (B, M, N), contiguous."""
    ### BEGIN SOLUTION
    if a.dim() == 2:
        return matmul(a[None], b[None])[0]
    (B, M, K), N = a.shape, b.shape[2]
    c = torch.empty(B, M, N, dtype=a.dtype, device=a.device)
    if a.dtype == torch.float32:
        shape = dict(BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, num_warps=4, num_stages=3)
    else:
        shape = dict(BLOCK_M=128, BLOCK_N=256, BLOCK_K=64, num_warps=8, num_stages=3)
    grid = (triton.cdiv(M, shape["BLOCK_M"]) * triton.cdiv(N, shape["BLOCK_N"]), B)
    matmul_kernel[grid](a, b, c, M, N, K, *a.stride(), *b.stride(), GROUP=8, **shape)
    return c
    ### END SOLUTION


# %% check="tiling.matmul"
check("tiling.matmul", matmul)

# %% [markdown]
# If there is a GPU, the next cell times your kernel and `torch.matmul` in the same run. `torch.matmul` calls NVIDIA's
# library cuBLAS.

# %% gpu="tiling.speed"
if bench.has_gpu():
    a, b = (torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    if matmul(a, b) is None:
        print("solve matmul to see its speed")
    else:
        found = bench.ratio(lambda: matmul(a, b), lambda: torch.matmul(a, b))
        print(f"{2 * 4096**3 / found.own_ms / 1e9:.0f} TFLOP/s, {found.speedup:.2f} of torch's speed")
else:
    print("This machine has no GPU on which the course can time kernels.")

# %% [markdown]
# What limits your kernel? `profile` sets what the trace counts beside the roofline, and on a GPU beside the time that the
# launch took, or beside its counters. Guess first: is memory or the product the limit at a size of 512?

# %% gpu="tiling.profile"
a, b = (torch.randn(512, 512, device=device).half() for _ in range(2))
with trace():
    done = matmul(a, b)
print("solve matmul to see what limits it" if done is None else profile(lambda: matmul(a, b)))

# %% [markdown]
# ## Exercise: bytes of a tiled product
#
# {{exercise tiling.matmul_bytes}}
#
# Every program loads its rows of `a` and its columns of `b` once, and stores its tile of `c` once. Positions outside
# the matrices are masked and move nothing. How many bytes are moved in all? Full marks require the number that a trace
# counts
# * if the sides of the tile divide the sides of the matrices ({{correct.whole}}),
# * and if they do not ({{correct.ragged}}).


# %% exercise="tiling.matmul_bytes"
def matmul_bytes(m: int, n: int, k: int, bm: int, bn: int, itemsize: int) -> int:
    """Bytes loaded and stored by (m, k) @ (k, n) in tiles of bm x bn."""
    ### BEGIN SOLUTION
    a = m * k * triton.cdiv(n, bn)
    b = k * n * triton.cdiv(m, bm)
    return itemsize * (a + b + m * n)
    ### END SOLUTION


# %% check="tiling.matmul_bytes"
check("tiling.matmul_bytes", matmul_bytes)

# %%
for tile in (1, 16, 64, 128, 256):
    moved = matmul_bytes(4096, 4096, 4096, tile, tile, 2)
    if moved is None:
        print("solve matmul_bytes to see the numbers")
        break
    print(f"tile {tile:3}: {moved / 2**30:7.2f} GiB, {2 * 4096**3 / moved:6.1f} FLOP/byte")

# %% [markdown]
# On an H200, arithmetic and DRAM take the same time at 206 FLOP/byte (the ridge of unit 03). All these tiles have a
# lower intensity. So if every read went to DRAM, no product with these tiles would reach the speed of the tensor cores.
# The L2 cache closes most of the gap. The section *Which tile first?*, near the end of the unit, shows how.
#
# ## Where tiles live
#
# So tiles should be as large as possible. What limits their size?
#
# * **Registers.** The tile of `c` is called the **accumulator**. It lies in registers, as BLOCK_M × BLOCK_N float32
#   numbers. The registers of an SM hold 65,536 such numbers in all, and some registers are needed for addresses. In
#   practice an accumulator can occupy at most half of them: 32,768 numbers, as in a tile of 128 × 256.
# * **Shared memory.** The tiles of `a` and `b` pass through shared memory. This is what shared memory is for: a number
#   is loaded once, and all threads of the program use it. With tiles of 128 × 128, each number in the tile of `a` is
#   used in 128 multiplications, but it is loaded from L2 only once. One program can have at most 227 KiB of shared
#   memory on an H200, and 163 KiB on an A100. In CUDA you program three things yourself: the copy into shared memory,
#   the wait for that copy, and the reads from shared memory. In Triton you use `tl.load` and `tl.dot` on blocks, and
#   the compiler generates all three.
# * **The shape of a tensor-core instruction.** Hopper's tensor-core instruction is called `wgmma`. It takes its
#   operands directly from shared memory (the first operand may also come from registers). One `wgmma` multiplies 64
#   rows of `a` by 8 to 256 columns of `b`. Along K it takes 32 bytes at once, that is, 16 half-precision numbers. Four
#   warps share this work. The older instruction `mma.sync`, the only one that an A100 has, works on 16 rows and 8
#   columns. It takes its operands from registers, so each warp first loads its part of the tiles into its registers. If
#   BLOCK_M is below 64, Triton uses `mma.sync` on Hopper, too. Because `wgmma` takes 64 rows, the sides of tiles are
#   usually multiples of 64. (On a TPU they are multiples of 128. Its unit for matrix products is an array of 128 × 128
#   multipliers, or 256 × 256 from v6e on, and smaller blocks are padded to this size.)
# * **Pipelining.** While the tensor cores work on one pair of tiles, the next pairs should be on their way. With
#   `num_stages=3` there are three **stages**. On Hopper each stage is a buffer in shared memory for one pair of tiles:
#   one pair is in use, and two are arriving. Three stages take three times the space of one.

# %%
figures.tiling.pipelining()

# %% [markdown]
# * **Occupancy.** If several programs fit onto one SM, one program may work while another waits. The **occupancy** of
#   an SM is the number of warps on it, divided by the number of warps that it has room for. With BLOCK_M = 128, BLOCK_N
#   = 256, BLOCK_K = 64 and three stages, a program takes 144 KiB of shared memory. An H200's SM has 228 KiB (and the
#   system takes 1 KiB for each program), so only one such program fits. (Its registers would leave no room for a second
#   one, either.) A program of this size has 8 warps. That is 12.5 % of the 64 warps that the SM has room for. A kernel
#   without a pipeline would need more than 8 warps: while all 8 waited for memory, there would be no others to take
#   over. A matmul can get by with so few warps, because its pipeline hides the waits.
#
# Move the sliders. Of the tiles that fit, which one has the highest intensity? What does a third stage cost? And what is
# wrong with a tile of 256 × 256?

# %%
figures.tiling.explore_tile_sizes()

# %% [markdown]
# With BLOCK_K = 64 on an H200, the tile of 128 × 256 (or 256 × 128) has the highest intensity of all tiles that fit: 85
# FLOP/byte. Each stage takes 48 KiB, so a third stage costs as much as the first. A tile of 256 × 256 would take all
# the registers of an SM for its sums, and leave none for addresses. It runs, but a part of its sums spills to memory.

# %% [markdown]
# ## Tile, warps, stages
#
# Your kernel is right, and five numbers of its launch are still open. Each of them has a price:
#
# | number | what more of it gives | what it takes |
# | --- | --- | --- |
# | BLOCK_M, BLOCK_N | fewer bytes: `a` is read N / BLOCK_N times, `b` M / BLOCK_M times | registers for BLOCK_M × BLOCK_N sums |
# | `num_warps` | more threads, so fewer sums for each | warps that an SM has room for, 64 |
# | `num_stages` | more bytes on their way while the tensor cores work | shared memory, (BLOCK_M + BLOCK_N) × BLOCK_K × 2 bytes a stage |
# | BLOCK_K | fewer steps, so fewer waits | shared memory, likewise |
#
# How many stages are enough? That depends on how long a step takes, and how long a tile takes to arrive. The next cell
# computes the first for a tile of 128 × 256 at full speed, and takes the second from the measurement of unit 00: one
# answer from main memory, with nobody else asking. How many pairs should be on their way while one is used?

# %%
sheet = gpu.datasheet("H200")
step = 2 * 128 * 256 * 64 / (sheet.bf16_flops / sheet.sms)
wait = max(seconds for _, _, seconds in measured("memory_hierarchy")["latency"])
print(f"one step of 64 along K: {step * 1e6:.2f} µs on an SM at full speed, {(128 + 256) * 64 * 2:,} bytes to load")
print(f"one answer from memory: {wait * 1e6:.2f} µs")

# %% [markdown]
# One tile on its way arrives in time only if nothing else delays it, and 132 SMs ask at the same moment. With two or three
# tiles on their way, a delay does no harm. So use the shared memory for stages: what stays empty is of no use.
#
# Before you choose, say for a tile of 128 × 256 with BLOCK_K = 64: how many sums has each thread with 4 warps, and with
# 8? And how many stages fit into the 232,448 bytes that a program may have?
#
# ## Exercise: tune
#
# {{exercise tiling.tune}}
#
# The kernel and its launch are given: a product of two large contiguous matrices in bfloat16, on an H100 or H200
# (sm_90). You write the configuration. It need not fit an A100. Full marks require
# * that the sums stay in registers: no spills ({{by_the_compiler.spilled}}),
# * that the products are done by `wgmma` ({{by_the_compiler.without_wgmma}}),
# * that the tiles of all stages together fill at least two thirds of the shared memory that a program may have
#   ({{by_the_compiler.half_empty}}),
# * that no more bytes are moved than tiles of 128 × 256 move ({{traffic.performance}}).
#
# The first three are what the compiler says, without a GPU. There is extra credit on a GPU, for a product of 4096 × 4096
# × 4096. You get {{speed}} if the kernel reaches {{speed.full}} of the speed of `torch.matmul`, and some of the points
# if it reaches more than {{speed.none}}.


# %% exercise="tiling.tune"
def configuration() -> dict[str, int]:
    """BLOCK_M, BLOCK_N, BLOCK_K, num_warps and num_stages, for large products in bfloat16 on an H200."""
    ### BEGIN SOLUTION
    return dict(BLOCK_M=128, BLOCK_N=256, BLOCK_K=64, num_warps=8, num_stages=4)
    ### END SOLUTION


@triton.jit
def tuned_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """Given. One tile of c = a @ b; all three are contiguous."""
    pid, grid_n = tl.program_id(0), tl.cdiv(N, BLOCK_N)
    rows = (pid // grid_n) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    cols = (pid % grid_n) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows * K + k[None, :]
    b_ptrs = b_ptr + k[:, None] * N + cols
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        a = tl.load(a_ptrs, mask=(rows < M) & (k[None, :] < K - start), other=0)
        b = tl.load(b_ptrs, mask=(k[:, None] < K - start) & (cols < N), other=0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * N
    tl.store(c_ptr + rows * N + cols, acc.to(c_ptr.dtype.element_ty), mask=(rows < M) & (cols < N))


def tuned_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor | None:
    """Given. a (M, K) @ b (K, N), contiguous, with your configuration."""
    chosen = configuration()
    if chosen is None:
        return None
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty(M, N, dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(M, chosen["BLOCK_M"]) * triton.cdiv(N, chosen["BLOCK_N"]),)
    tuned_kernel[grid](a, b, c, M, N, K, **chosen)
    return c


# %%
chosen = configuration()
if chosen is None:
    print("write a configuration to see what the compiler says of it")
else:
    a, b, c = (torch.empty(2048, 2048, dtype=torch.bfloat16) for _ in range(3))
    print(compile_for(tuned_kernel, a, b, c, 2048, 2048, 2048, gpu="sm_90", **chosen))

# %% check="tiling.tune"
check("tiling.tune", tuned_matmul)

# %% [markdown]
# A tile of 128 × 256 and the same tile turned, 256 × 128, move the same bytes, and the compiler's report is nearly the
# same, too. Are they equally fast? Write down what you expect, for three stages and for four. The picture in the next
# section has all four of them.

# %% [markdown]
# ## Autotuning
#
# Which tile is fastest? The answer depends on the bytes that are moved, but also on registers, stages, warps and the
# size of the product. Nobody can predict the effect of all of these together, so people measure. `triton.autotune`
# takes a kernel and a list of configurations. Whenever the kernel is launched with a new `key` (here with new sizes),
# the autotuner times each configuration and remembers the best one:
#
# ```python
# configs = [
#     triton.Config({"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP": 8}, num_warps=8, num_stages=3),
#     triton.Config({"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP": 8}, num_warps=4, num_stages=4),
#     ...
# ]
# tuned = triton.autotune(configs, key=["M", "N", "K"])(matmul_kernel)
# tuned[lambda meta: (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]), B)](a, b, c, M, N, K, ...)
# ```
#
# The grid becomes a function, because it depends on the tile. The autotuner calls this function with a dict, here
# called `meta`, that holds the configuration. If you use the autotuner in an exercise, the check counts bytes with your
# first configuration, so put a good one first. The others run on small inputs, one after another, and must give right
# results, too: nobody knows which one the autotuner will choose on a GPU. The next cell shows the speed of the course's
# own solution with several configurations.

# %%
figures.tiling.autotuned()

# %% [markdown]
# A fourth stage takes the tile of 128 × 256 from {{measured tile, three stages}} to {{measured tile, four stages}}
# TFLOP/s, which nobody would have guessed from its bytes, since they are the same. The turned tile gains nothing from
# it ({{measured turned tile, three stages}} and {{measured turned tile, four stages}}). With four stages,
# `tuned_kernel` has {{measured plain product 4096}} of the speed of `torch.matmul` at 4096, and {{measured plain
# product 8192}} at 8192 (`benchmarks/results/tiling.md`). But where `b` is transposed, it has {{measured plain product
# b transposed}}, and no configuration that was tried has more.
#
# ## Which tile first?
#
# One question is left. A trace says that `a` is read N / BLOCK_N times. With 16,384 columns and tiles of 256, this is
# 64 times. Must all of these reads go to DRAM? Between the SMs and DRAM lies the **L2** cache, which has 60 MiB on an
# H200. If two programs that run at the same time need the same tile of `a`, DRAM delivers it only once.
#
# So it matters *which* tiles are computed at the same time. This depends on how a kernel turns its program number into
# a tile. With large tiles an H200 runs 132 programs at a time, one on each SM. If tiles are numbered row by row (**row
# order**), the tiles of these programs lie in three or four long rows. Together these tiles need few rows of `a`, but
# all columns of `b`. Which order would be better?

# %%
figures.tiling.orders()

# %% [markdown]
# It would be better if the tiles formed a compact patch. For the same number of tiles, a compact patch has fewer rows
# and columns in total than a long strip. This is the advantage of the square again, now for tiles instead of numbers.
# The common way to get a patch is **grouped order**: take `group` rows of tiles, go through them column by column, and
# then take the next `group` rows.
#
# ## Exercise: grouped order
#
# {{exercise tiling.grouped_order}}
#
# Which tile (m, n) belongs to program `pid` of a grid of grid_m × grid_n tiles? The first `group` programs take the
# tiles of column 0 in the first `group` rows. The next `group` programs take the tiles of column 1 in the same rows,
# and so on. After the last column come the next `group` rows. The last group may have fewer rows. Full marks require
# * each tile exactly once ({{holds.is_an_order.plain}}),
# * one group after the other, and within each group one column after the other ({{holds.finishes_groups.plain}}), even
#   when the last group has fewer rows ({{holds.finishes_groups.ragged}}),
# * in a model of an L2 cache, at most 0.65 times as many bytes from DRAM as with row order
#   ({{holds.saves_traffic.cache}}).
#
# Plain arithmetic (`//`, `%`, `min`) is enough, so the same lines also work inside a kernel.


# %% exercise="tiling.grouped_order"
def grouped_order(pid: int, grid_m: int, grid_n: int, group: int) -> tuple[int, int]:
    """The tile (m, n) of program pid."""
    ### BEGIN SOLUTION
    first = pid // (group * grid_n) * group  # the first row of this group
    height = min(grid_m - first, group)
    within = pid % (group * grid_n)
    return first + within % height, within // height
    ### END SOLUTION


# %% check="tiling.grouped_order"
check("tiling.grouped_order", grouped_order)

# %% [markdown]
# Now go back to your matmul. Replace the lines that number the tiles in row order with the lines of `grouped_order`.
# Replace `group` with `GROUP`, and define `grid_m = tl.cdiv(M, BLOCK_M)`. `GROUP=8` in the launch is a good start. Run
# the check again: the result must still be right.
#
# How many bytes does DRAM deliver in each order, and how much time does a better order save? The left picture shows
# what the model says, for L2 caches of many sizes. The right picture shows the speed of one kernel on an H200, with its
# tiles in each of these orders.

# %%
figures.tiling.order_traffic()

# %% [markdown]
# In the model of an H200, grouped order reads about a quarter as many bytes as row order. On the GPU it is only a few
# percent faster. Why so little? At these sizes the product is limited by arithmetic, and seldom waits for DRAM. (The
# third order in the pictures, the Hilbert curve, is explained in *More*. In the model it reads the fewest bytes. On the
# GPU, at N = 16384, it was faster in some runs and grouped order in others; `benchmarks/results/tiling.md` shows the
# spread.) The model runs 132 programs in lock-step, but on a real GPU they drift apart. A model explains, but only a
# measurement can say which order is faster. Grouped order costs five lines of code, and is well worth it.
#
# How fast are your own kernels? On a GPU, their checks time them against cuBLAS.

# %%
figures.timed.on_your_card("tiling")

# %% [markdown]
# ## What you now know
#
# * A matrix product is a sum of outer products: few numbers are read, and each is used many times. Without tiles a
#   product reads each element of `a` N times. With tiles of BLOCK_N columns, it reads each element of `a` N / BLOCK_N
#   times.
# * Of all tiles with the same area, the square has the highest intensity. Registers limit the size of the accumulator.
#   Shared memory limits the size of the tiles of `a` and `b`, and the number of stages.
# * Programs that run at the same time should compute a compact patch of tiles. Then L2 already has most of what the
#   next program needs.
#
# Every kernel so far has done one operation. In unit 06 several operations become one kernel, so their intermediate
# results need not pass through memory.

# %%
progress()

# %% [markdown]
# The unit is worth {{unit points}}, over {{unit exercises}}. Hand in this notebook; the grader runs the same checks on
# inputs that you have not seen.

# %% [markdown]
# ## More
#
# {{unit more}} You compute products in torch, ask what limits tiles at each level of memory, climb from the naive
# kernel to tiles, and predict the mystery plot. You see there why one column too many costs a column of tiles, one tile
# too many costs a wave, and a size that is not divisible by 8 costs most of the speed, until padding gets it back.

# %% [markdown]
# ## Exercise: outer products
#
# {{exercise tiling.outer_product_matmul}}
#
# Write a @ b as a sum of outer products, in torch, on the CPU. Write one loop, over k. Torch may multiply and add
# elementwise here, but it must not multiply matrices. Full marks require
# * the right result for any sizes ({{correct.ragged}}),
# * one outer product for each k ({{counted.plain}}).
#
# Until you solve an exercise, its check says that nothing has been returned yet. `hint("tiling.outer_product_matmul")`
# gives a hint, and a stronger one each time you call it.


# %% exercise="tiling.outer_product_matmul"
def outer_product_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a (M, K), b (K, N) -> (M, N), as a sum of K outer products."""
    ### BEGIN SOLUTION
    c = torch.zeros(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)
    for k in range(a.shape[1]):
        c += torch.outer(a[:, k], b[k, :])
    return c
    ### END SOLUTION


# %% check="tiling.outer_product_matmul"
check("tiling.outer_product_matmul", outer_product_matmul)

# %% [markdown]
# ## Exercise: tiles in torch
#
# {{exercise tiling.tiled_matmul}}
#
# Write the tiled product first in torch, on the CPU. Cut the result into tiles of bm × bn. For each tile of `c`,
# multiply tiles (bm, bk) of `a` by tiles (bk, bn) of `b` with `@`, and add these products up. M, N and K need not be
# multiples of the sides of the tiles. Full marks require
# * the right result for such ragged sizes ({{correct.ragged}}),
# * one product for each combination of a tile of `c` and a piece of K ({{counted.plain}}).


# %% exercise="tiling.tiled_matmul"
def tiled_matmul(a: torch.Tensor, b: torch.Tensor, bm: int, bn: int, bk: int) -> torch.Tensor:
    """a (M, K), b (K, N) -> (M, N), tile by tile."""
    ### BEGIN SOLUTION
    (M, K), N = a.shape, b.shape[1]
    c = torch.zeros(M, N, dtype=a.dtype, device=a.device)
    for i in range(0, M, bm):
        for j in range(0, N, bn):
            for k in range(0, K, bk):
                c[i : i + bm, j : j + bn] += a[i : i + bm, k : k + bk] @ b[k : k + bk, j : j + bn]
    return c
    ### END SOLUTION


# %% check="tiling.tiled_matmul"
check("tiling.tiled_matmul", tiled_matmul)

# %% [markdown]
# ## Exercise: the best tile
#
# {{exercise tiling.best_tile}}
#
# The sides bm and bn are powers of two: 16, 32, 64, 128 or 256. Each number takes 2 bytes, BLOCK_K is 64, and there are
# three stages. So a tile fits if both of these hold:
#
# * 3 × 64 × (bm + bn) × 2, the bytes of shared memory that it needs, is at most `shared_bytes`.
# * bm × bn, the number of elements in its accumulator, is at most 32,768.
#
# Of the tiles that fit, return the pair (bm, bn) that moves the fewest bytes in an (m, k) @ (k, n) product. (If there
# are several such pairs, return any of them.) You may call `matmul_bytes`. Full marks require the best tile
# * for large square products ({{holds.fits_and_moves_least.large}}),
# * for other shapes ({{holds.fits_and_moves_least.other shapes}}).


# %% exercise="tiling.best_tile"
def best_tile(m: int, n: int, k: int, shared_bytes: int) -> tuple[int, int]:
    """The tile (bm, bn) that fits and moves the fewest bytes."""
    ### BEGIN SOLUTION
    sides = (16, 32, 64, 128, 256)
    candidates = [
        (bm, bn) for bm in sides for bn in sides if 3 * 64 * (bm + bn) * 2 <= shared_bytes and bm * bn <= 32768
    ]
    return min(candidates, key=lambda tile: matmul_bytes(m, n, k, *tile, 2))
    ### END SOLUTION


# %% check="tiling.best_tile"
check("tiling.best_tile", best_tile)

# %% [markdown]
# ## Exercise: how many programs share an SM?
#
# {{exercise tiling.occupancy}}
#
# How many programs fit onto one SM? Four limits apply, and the limit that is reached first decides:
#
# | limit | what a program takes | an H200's SM has |
# | --- | --- | --- |
# | `"registers"` | `warps` × (32 × `registers`, rounded up to a multiple of 256) | 65,536 |
# | `"shared memory"` | `shared_bytes`, plus 1024 bytes that the system takes for each program | 233,472 bytes |
# | `"warps"` | `warps` | 64 (that is, 2048 threads) |
# | `"programs"` | 1 (CUDA's manuals call programs *blocks*) | 32 |
#
# `registers` is the number of registers that each thread uses. The argument `sm` holds the numbers of the last column
# for one GPU, as `sm["registers"]`, `sm["shared_bytes"]`, `sm["warps"]` and `sm["programs"]`. Return how many programs
# fit, and the name (from the first column) of the limit that leaves no room for one more program. If there are several
# such limits, name any of them. Full marks require the right pair
# * where shared memory is the limit ({{holds.fills_the_sm.shared memory}}),
# * where registers are the limit ({{holds.fills_the_sm.registers}}),
# * where one of the other two is the limit, or no program fits at all ({{holds.fills_the_sm.the rest}}).


# %% exercise="tiling.occupancy"
def programs_per_sm(warps: int, registers: int, shared_bytes: int, sm: dict[str, int]) -> tuple[int, str]:
    """(programs that fit onto one SM at the same time, the limit that leaves no room for one more)."""
    ### BEGIN SOLUTION
    of_a_warp = triton.cdiv(32 * registers, 256) * 256
    fit = {
        "registers": sm["registers"] // (warps * of_a_warp),
        "shared memory": sm["shared_bytes"] // (shared_bytes + 1024),
        "warps": sm["warps"] // warps,
        "programs": sm["programs"],
    }
    limit = min(fit, key=fit.get)
    return fit[limit], limit
    ### END SOLUTION


# %% check="tiling.occupancy"
check("tiling.occupancy", programs_per_sm)

# %%
h200 = {"registers": 65536, "shared_bytes": 233472, "warps": 64, "programs": 32}
for name, kernel in {
    "matmul, 128 x 256 x 64": (8, 168, 144 << 10),
    "matmul, 64 x 64 x 32": (4, 80, 24 << 10),
    "softmax, a row in registers": (4, 64, 0),
    "copy": (4, 24, 0),
}.items():
    found = programs_per_sm(*kernel, h200)
    if found is None:
        print("solve programs_per_sm to see the numbers")
        break
    print(f"{name:28} {found[0]:2} programs, occupancy {found[0] * kernel[0] / 64:4.0%}; limit: {found[1]}")

# %% [markdown]
# High occupancy is not a goal in itself. A copy needs many warps, because while one warp waits, only other warps can
# make use of the time. A matmul has work of its own to fill this time. Its pipeline loads the next tiles, and its warps
# have many independent multiplications to issue one after the other (*instruction-level parallelism*). So it can afford
# fewer warps, and use the registers and the shared memory for a larger tile.
#
# ## A roof for each level
#
# Unit 03 drew one roof, that of DRAM. But a tile passes through three memories. Each memory has its own rate, and each
# delivers a different number of bytes:
# * **DRAM** delivers `a` and `b` once, and receives `c` once, if the L2 cache does its job.
# * **L2** delivers the rows of `a` and the columns of `b` that each program needs, and receives the program's tile of
#   `c`. `matmul_bytes` counts these bytes.
# * **Shared memory** delivers the rows and columns that each *warp* needs for its own part of the tile. If the 4 warps
#   of a program share a tile of 128 × 128, each warp computes a part of 64 × 64. The four parts form a 2 × 2 square.
#   Two parts that lie side by side need the same rows of `a`, so each row is read twice. The result does not pass
#   through shared memory.
#
# | memory | delivers | receives |
# | --- | --- | --- |
# | DRAM | `a` and `b`, once | `c` |
# | L2 | for each program, its rows of `a` and its columns of `b` | for each program, its tile of `c` |
# | shared memory | for each warp, its rows of `a` and its columns of `b` | nothing that counts here |
#
# So there are tiles within tiles. A program's tile saves reads from L2, and a warp's part of it saves reads from shared
# memory. If the ALUs do the arithmetic instead of the tensor cores, there is a third size of tile: each thread has a
# small tile of its own inside the warp's tile, and this saves reads from shared memory, too. Each memory has its own
# intensity. The question is always the same: which is slowest, the arithmetic or one of the memories?
#
# ## Exercise: the slowest level
#
# {{exercise tiling.roofs}}
#
# A product (m, k) @ (k, n) is cut into tiles of `tile = [bm, bn]`, one for each program. Each tile is cut into parts of
# `warp_tile = [wm, wn]`, one for each warp. The dict `rates` holds FLOP/s for `"tensor cores"`, and bytes/s for
# `"DRAM"`, `"L2"` and `"shared memory"`. Each warp reads its rows of `a` and its columns of `b` once from shared
# memory, and for simplicity masked positions move nothing and cost no FLOPs. The result goes straight from registers to
# L2, not through shared memory. The tensor cores and the three memories all work at the same time. Return the time in
# seconds that the slowest of these four takes, and the name of the slowest. Full marks require the right pair
# * where the L2 cache is the slowest ({{holds.is_the_slowest.L2}}),
# * where another of the four is the slowest ({{holds.is_the_slowest.the others}}).


# %% exercise="tiling.roofs"
def slowest_level(m, n, k, tile, warp_tile, itemsize, rates) -> tuple[float, str]:
    """(seconds, name) of the level that sets the pace of a matmul: tensor cores, DRAM, L2 or shared memory."""
    ### BEGIN SOLUTION
    amounts = {
        "tensor cores": 2 * m * n * k,
        "DRAM": itemsize * (m * k + k * n + m * n),
        "L2": matmul_bytes(m, n, k, *tile, itemsize),
        "shared memory": matmul_bytes(m, n, k, *warp_tile, itemsize) - itemsize * m * n,
    }
    seconds = {level: amount / rates[level] for level, amount in amounts.items()}
    slowest = max(seconds, key=seconds.get)
    return seconds[slowest], slowest
    ### END SOLUTION


# %% check="tiling.roofs"
check("tiling.roofs", slowest_level)

# %%
# an H200's rates: two are from its datasheet, the L2 rate was measured in unit 00, and the shared-memory rate is
# calculated: 128 bytes per cycle for each of 132 SMs, at 1.98 GHz
rates = {"tensor cores": 989.4e12, "DRAM": 4.8e12, "L2": 9.7e12, "shared memory": 128 * 132 * 1.98e9}
for tile, warp_tile in (((16, 16), (16, 16)), ((64, 64), (32, 32)), ((128, 128), (64, 64)), ((128, 256), (64, 64))):
    found = slowest_level(4096, 4096, 4096, tile, warp_tile, 2, rates)
    if found is None:
        print("solve slowest_level to see the numbers")
        break
    print(f"tile {tile!s:10}, warps' part {warp_tile!s:8}: {found[0] * 1e6:6.0f} µs, limited by {found[1]}")

# %% [markdown]
# With small tiles L2 is by far the slowest level. DRAM is never the slowest. Even with the largest tile that fits, L2
# takes about a fifth longer than the tensor cores would take at the datasheet's speed. In practice both take about the
# same time, because no product reaches the datasheet's speed (unit 03). Larger tiles are not the only way to reduce
# reads. Hopper offers one more way for shared memory, and one for L2. With `wgmma`, four warps share each read of b
# from shared memory. And one load from L2 can serve several programs of a *thread-block cluster* at once (*multicast*).
#
# ## Up from the naive kernel, rung by rung
#
# How many bytes does the simplest kernel move, and how much does each idea save? Here are three kernels, as three rungs
# of a ladder. In the first kernel, each program computes one element of `c`, from a row of `a` and a column of `b`. In
# the second, each program computes a strip of a row of `c`. In each step it multiplies one number of `a` by a piece of
# a row of `b`. In the third, each program computes a tile.

# %% given="tiling.ladder"

# %% [markdown]
# ## Exercise: predict the ladder
#
# {{exercise tiling.ladder}}
#
# All matrices are 128 × 128, in float16. The first kernel, `naive`, has BLOCK_K = 64, and 128 × 128 programs. The
# second kernel computes strips of 64 elements, and the third computes tiles of 32 × 32. How many times does each kernel
# read each element of `a` and of `b`? The naive kernel loads 64 numbers of a column of `b` at a time. How many sectors
# of 32 bytes does one such load touch? And how many bytes does the third kernel move in all, loads and stores together?
# Each right answer is worth {{correct.plain / 7}}.

# %% exercise="tiling.ladder"
predicted_ladder = {
    "times a is read, naive": ...,
    "times b is read, naive": ...,
    "sectors of a load of b, naive": ...,
    "times a is read, strips of 64": ...,
    "times b is read, strips of 64": ...,
    "times a is read, tiles of 32": ...,
    "bytes in all, tiles of 32": ...,
}
### BEGIN SOLUTION
predicted_ladder = {
    "times a is read, naive": 128,  # by the programs of a row of c
    "times b is read, naive": 128,
    "sectors of a load of b, naive": 64,  # each of 64 numbers in a row of its own
    "times a is read, strips of 64": 2,  # 128 / 64 strips make a row of c
    "times b is read, strips of 64": 128,  # each row of c needs all of b
    "times a is read, tiles of 32": 4,  # 128 / 32
    "bytes in all, tiles of 32": 294912,  # 2 * (4 + 4 + 1) * 128 * 128
}
### END SOLUTION

# %% check="tiling.ladder"
check("tiling.ladder", predicted_ladder)

# %%
side = 128
a, b = torch.randn(side, side).half(), torch.randn(side, side).half()
print("rung      programs   MB moved   sectors x 32 B   FLOP/byte")
for name, kernel, grid, block in (
    ("naive", naive, (side, side), {"BLOCK_K": 64}),
    ("strips", strip, (side, side // 64), {"BLOCK_N": 64}),
    ("tiles", tile, (side // 32, side // 32), {"BLOCK": 32}),
):
    c = torch.empty(side, side, dtype=torch.float16)
    with trace() as t:
        kernel[grid](a, b, c, side, side, **block)
    assert torch.allclose(c.double(), a.double() @ b.double(), atol=0.05)
    lines = 32 * (t.loads.sectors + t.stores.sectors) / 1e6
    print(f"{name:8} {t.programs:9,} {t.bytes / 1e6:10.2f} {lines:13.2f} MB {2 * side**3 / t.bytes:10.1f}")

# %% [markdown]
# Each rung reads less than the one before it. The naive kernel does the most reading, and it also wastes nearly all of
# each read of `b`. Every load of a column touches one sector of 32 bytes for each number of 2 bytes, so it moves 16
# times the bytes that it needs. Tiles have two advantages: there are fewer reads, and tensor cores can do the sums.
#
# The next rungs in this unit are larger tiles, a pipeline, and a good order of the tiles. With them and the right
# number of stages, a kernel reaches {{measured plain product 4096}} of the speed of cuBLAS, NVIDIA's library for matrix
# products, at 4096 on an H200, and {{measured plain product 8192}} at 8192. In other products more is left: with `b`
# transposed it has {{measured plain product b transposed}}. Libraries use further techniques, and in plain Triton some
# of them are out of reach:
#
# * The hardware can load whole tiles by itself. The unit that does this is called the TMA (Tensor Memory Accelerator).
# * Some warps can be reserved for loading, while the other warps only multiply.
# * A *persistent* matmul has one program for each SM. With P programs, program p computes the tiles p, p + P, p + 2 P
#   and so on, until none is left. While it is still storing one tile, it has already begun to load the next one.
# * The store can be asynchronous as well. The threads put the tile into shared memory, and the TMA unit copies it from
#   there to main memory. The threads carry on immediately. They wait for the copy only when they need the same part of
#   shared memory again.
#
# In such kernels, *barriers* make some warps wait for other warps, or for a copy to finish. A barrier is a counter in
# shared memory. It counts the threads that have arrived, or the bytes that have been copied. Triton has no functions
# for such counters (`tl.debug_barrier` only lets all threads of a program wait for one another), but Gluon, a
# lower-level language that comes with Triton, does. `tritontrace.hopper` runs Gluon kernels
# without a GPU, and says what is wrong with their barriers (units 13 and 14). Under *Further reading*, Boehm's text covers the
# rungs of this unit, and Gordić's text covers the techniques listed here.

# %% [markdown]
# ## Exercise: name it
#
# {{exercise tiling.name_maps}}
#
# When a product is wrong, the verdict shows a map of where it is wrong. With some practice you can tell from the map
# why it is wrong. Here are the maps of six kernels, each with one mistake. Which mistake belongs to which map? Write
# one of the following names on each line, in quotes. Then run the check, which explains each map that you have named
# correctly.
#
# * `"all programs load the first columns of b"`
# * `"no mask on the store's columns"`
# * `"rows are compared with N"`
# * `"sums are kept in float16"`
# * `"the grid rounds down"`
# * `"the last step along K is missing"`
#
# Guessing alone gets some answers right, so the first three right answers earn nothing, and each further right answer
# earns {{names.plain / 3}} ({{names.plain}} in all).

# %%
figures.tiling.name_maps()

# %% exercise="tiling.name_maps"
named_maps = {
    "A": ...,
    "B": ...,
    "C": ...,
    "D": ...,
    "E": ...,
    "F": ...,
}
### BEGIN SOLUTION
named_maps = {
    "A": "no mask on the store's columns",
    "B": "all programs load the first columns of b",
    "C": "sums are kept in float16",
    "D": "the grid rounds down",
    "E": "rows are compared with N",
    "F": "the last step along K is missing",
}
### END SOLUTION

# %% check="tiling.name_maps"
check("tiling.name_maps", named_maps)

# %% [markdown]
# ## Exercise: break a matmul
#
# {{exercise tiling.break_matmul}}
#
# A bug is found only if somebody thinks of an input that exposes it. Below is a correct kernel. There are also wrong
# versions of it, called *mutants*. Each mutant has one change: for example, a mask is missing, one stride is confused
# with another, or a sum is kept in float16. On many inputs a mutant still gives the right result. Write inputs on which
# it gives a wrong one.
#
# `breaking_inputs()` returns a list of at most three inputs, each a dict `{"a": tensor, "b": tensor}`. The shapes are
# (M, K) and (K, N), with any strides, and no side is longer than 256. The dtype is float32 or float16. From its first
# element to its last, gaps included, a tensor may span at most 16,384 elements of memory.
#
# The check first runs the given kernel on all of your inputs. **If the given kernel fails on one of them, you earn
# nothing.** Then the check runs the mutants. A mutant is *killed* if its result is wrong on one of your inputs, or if
# it reaches outside a tensor. The check in this notebook has four mutants, and the grader has more. Random matrices of
# ordinary sizes kill about half of the mutants. So up to half of them earn nothing, and the others share
# {{kills.mutants}}: of four mutants here, two killed earn nothing, three earn half, and four earn all.

# %% given="tiling.break_matmul"


# %% exercise="tiling.break_matmul"
def breaking_inputs() -> list[dict]:
    """At most three inputs, `{"a": tensor, "b": tensor}`, that expose wrong versions of the kernel."""
    ### BEGIN SOLUTION
    apart = torch.randn(120, 140)[:100:2, ::3]  # (50, 47)
    turned = torch.randn(90, 47).T  # (47, 90)
    return [
        {"a": apart, "b": turned},
        {"a": 30 + torch.rand(40, 256), "b": torch.rand(256, 20)},
        {"a": torch.randn(1, 33), "b": torch.randn(33, 200)},
    ]
    ### END SOLUTION


# %% check="tiling.break_matmul"
check("tiling.break_matmul", breaking_inputs)

# %% [markdown]
# ## Too few tiles
#
# What if the result is small and K is long? A product of 128 × 128 × 65,536 has 4 tiles of 64 × 64, for 132 SMs. Smaller
# tiles would be more, but they would read more as well. What else can be divided among programs?
#
# The sum along K. Cut K into *shares*, and let each program sum up one share of one tile. This is called **split-K**.
# The parts are then added up by a second kernel. Each part is a tile in float32, which is written and read once. So
# split-K moves more bytes than one program for each tile, and it pays only where there are too few tiles. Before you run
# the next cell: with 32 shares, how do the bytes of the parts compare with those of `a` and `b`?

# %%
m, n, k, splits = 128, 128, 65536, 32
print(f"programs: {m // 64 * n // 64} without shares, {m // 64 * n // 64 * splits} with {splits}")
print(f"a and b: {2 * (m + n) * k / 1e6:.1f} MB; parts, written and read: {2 * 4 * splits * m * n / 1e6:.1f} MB")

# %% [markdown]
# ## Exercise: split-K
#
# {{exercise tiling.split_k}}
#
# `a` and `b` are contiguous, in float16, bfloat16 or float32. `splits` is the number of shares. Use two kernels: one
# that stores the parts, and one that adds them up. Full marks require
# * the right result for any sizes, also if `splits` does not divide K ({{correct.ragged}}), and if some shares are empty,
#   as with 5 numbers in 8 shares ({{correct.empty}}),
# * parts in float32, so that large parts may cancel ({{correct.long}}),
# * no more bytes than tiles of 64 × 64 and the parts need, by programs that share the work ({{traffic.performance}}),
# * at most two launches ({{launches.performance}}), and no atomics ({{no_atomics.performance}}): whoever adds up parts in
#   the order in which they arrive gets other bits in every run.


# %% exercise="tiling.split_k"
@triton.jit
def parts_kernel(
    a_ptr, b_ptr, parts_ptr, M, N, K, share,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """The part of one tile that one share of K gives: parts (splits, M, N), float32."""
    ### BEGIN SOLUTION
    tile, split = tl.program_id(0), tl.program_id(1)
    grid_n = tl.cdiv(N, BLOCK_N)
    rows = (tile // grid_n) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    cols = (tile % grid_n) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    stop = tl.minimum((split + 1) * share, K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)  # what an empty share stores
    for start in range(split * share, stop, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + rows * K + k[None, :], mask=(rows < M) & (k[None, :] < stop), other=0)
        b = tl.load(b_ptr + k[:, None] * N + cols, mask=(k[:, None] < stop) & (cols < N), other=0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(parts_ptr + (split * M + rows) * N + cols, acc, mask=(rows < M) & (cols < N))
    ### END SOLUTION


@triton.jit
def sum_kernel(parts_ptr, c_ptr, n, splits, BLOCK: tl.constexpr):
    """c, n numbers: the sum of all parts."""
    ### BEGIN SOLUTION
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for split in range(splits):
        total += tl.load(parts_ptr + split * n + offs, mask=offs < n, other=0)
    tl.store(c_ptr + offs, total.to(c_ptr.dtype.element_ty), mask=offs < n)
    ### END SOLUTION


def split_k(a: torch.Tensor, b: torch.Tensor, splits: int) -> torch.Tensor:
    """a (M, K) @ b (K, N), contiguous, the sum along K in `splits` shares -> (M, N)."""
    ### BEGIN SOLUTION
    (M, K), N = a.shape, b.shape[1]
    parts = torch.empty(splits, M, N, dtype=torch.float32, device=a.device)
    c = torch.empty(M, N, dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(M, 64) * triton.cdiv(N, 64), splits)
    share = triton.cdiv(K, splits)
    parts_kernel[grid](a, b, parts, M, N, K, share, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32)
    sum_kernel[(triton.cdiv(M * N, 512),)](parts, c, M * N, splits, BLOCK=512)
    return c
    ### END SOLUTION


# %% check="tiling.split_k"
check("tiling.split_k", split_k)

# %% [markdown]
# ## Tiles that are not full
#
# 256 columns fit into one tile of 256. How many tiles do 257 columns take?

# %%
figures.tiling.tile_quantization()

# %% [markdown]
# If tiles are 256 wide, a matrix with 257 columns takes two of them, and the second one costs a whole tile's work for a
# single column. (In the picture the tiles are only 128 wide, so 257 columns take three tiles side by side.) This is
# **tile quantization**. There is a second effect of the same kind. A GPU hands out tiles to its SMs. An A100 has 108
# SMs. If there are 98 tiles, all of them run at the same time, in one **wave**. If there are 120 tiles, 108 of them run
# in a first wave and 12 in a second wave, which takes as long as the first. This is **wave quantization**.
#
# Now consider both effects together, on an A100 with tiles of 256 × 128. At N = 1792 there are 7 × 14 = 98 tiles. How
# many tiles are there at N = 1793?
#
# Move the sliders, and find the sizes that waste the most.

# %%
figures.tiling.explore_waves()

# %% [markdown]
# Sizes just above a **cliff**, where one more wave begins, waste the most. At N = 1793 there is a full wave of 108
# tiles, and a second wave of only 12. In these two waves, the SMs spend only 45 % of their time on the 1793 × 1793
# elements that we want. The rest goes to parts of tiles that lie outside the result, and to SMs that have no tile. The
# larger N is, the more waves there are, and the less the last wave matters. Very small sizes do not even fill the first
# wave.
#
# ## Exercise: tiles and waves
#
# {{exercise tiling.tiles_and_waves}}
#
# An (m, n) result is cut into tiles of bm × bn, and each of `sms` SMs works on one tile at a time. How many tiles are
# there, and how many waves? Full marks require both numbers
# * for whole tiles ({{correct.whole}}),
# * for tiles and waves that are not full ({{correct.cliffs}}).


# %% exercise="tiling.tiles_and_waves"
def tiles_and_waves(m: int, n: int, bm: int, bn: int, sms: int) -> tuple[int, int]:
    """(tiles of the result, waves in which they run)."""
    ### BEGIN SOLUTION
    tiles = triton.cdiv(m, bm) * triton.cdiv(n, bn)
    return tiles, triton.cdiv(tiles, sms)
    ### END SOLUTION


# %% check="tiling.tiles_and_waves"
check("tiling.tiles_and_waves", tiles_and_waves)

# %%
for n in (1792, 1793, 1794):
    print(n, tiles_and_waves(n, n, 256, 128, 108))

# %% [markdown]
# Matrices with N = 1793 have only 0.06 % more columns than those with N = 1792, but multiplying them takes twice as
# many waves. On an H200 the cliffs are at other sizes, because it has 132 SMs.
#
# ## The branches
#
# Unit 03 ended with a mystery: the plot below shows how fast a GPU multiplies two (N, N) matrices in bfloat16, for 230
# sizes N.

# %% gpu="tiling.mystery_plot"
figures.flops.mystery_plot()

# %% [markdown]
# The points form branches, and along a branch the speed often drops from one size to the next: these are the cliffs.
#
# Where do the branches come from? It matters whether N is divisible by 8, by 4, by 2, or by none of
# these. A row of N bfloat16 numbers is 2 N bytes long. When tiles are copied into shared memory, each thread can copy
# 16 bytes at a time, if these bytes begin at a multiple of 16 bytes. If N is divisible by 8, every row begins at such a
# multiple: the rows are **aligned**. If N is 4 times an odd number, only every second row is aligned. Then the compiler
# can rely only on multiples of 8 bytes. If N is twice an odd number, every row begins at a multiple
# of 4 bytes, and if N is odd, at a multiple of 2 bytes. If N is not divisible by 8, a kernel cannot use the TMA (the
# unit of an H200 that copies whole tiles) at all.
#
# So four branches are possible. But the plot shows only three, because sizes that are twice an odd number and sizes
# that are 4 times an odd number are equally fast. Hence the width of a copy does not explain everything. The plot does
# not say which kernels cuBLAS uses for these sizes. It does show what share of the top branch's speed each branch
# reaches, and you will need these shares below.
#
# You can see the effect of alignment in a kernel of your own, without a GPU, because the compiler says how wide the
# kernel's loads are.

# %%
a, c = torch.randn(64, 4100).half(), torch.empty(64, 64, dtype=torch.float16)


@triton.jit
def load_rows(a_ptr, c_ptr, stride, SIDE: tl.constexpr):
    i = tl.arange(0, SIDE)
    tl.store(c_ptr + i[:, None] * SIDE + i[None, :], tl.load(a_ptr + i[:, None] * stride + i[None, :]))


for stride in (4096, 4100, 4098, 4097):
    facts = compile_for(load_rows, a, c, stride, SIDE=64, gpu="sm_90")
    print(f"rows {stride} numbers apart: a thread loads {facts.load_bits} bits at a time")

# %% [markdown]
# (Triton asks only whether the stride is divisible by 16. If it is not, Triton makes no further distinction: it treats
# a stride that is divisible by 8, 4 or 2 like an odd one.)
#
# ## Exercise: predict the mystery plot
#
# {{exercise tiling.predicted_throughput}}
#
# Write a model of four parts, for products of (n, n) matrices with 2-byte numbers:
#
# 1. **Waves.** Each SM does `flops_per_second` / `sms` FLOPs in a second. A tile takes 2 × bm × bn × n FLOPs, and this
#    gives the time of one tile. Every wave takes this long, even a last wave that is not full. Multiply it by the
#    number of waves to get the computing time.
# 2. **Memory.** Each of the three matrices passes through memory once, at `bytes_per_second`. This gives the memory
#    time.
# 3. **Launch.** The GPU computes and moves data at the same time, so take the longer of the computing time and the
#    memory time. Then add `launch_seconds`.
# 4. **Alignment.** If n is not divisible by 8, the product reaches only a share of the speed that parts 1 to 3 give.
#    What is this share if n is odd, twice an odd number, or 4 times an odd number? The next cell shows the mystery plot
#    again; read the shares off it.
#
# The speed is 2 n³ FLOPs divided by the seconds. Return a list of speeds in FLOP/s, one for each size in `sizes`. You
# may call `tiles_and_waves`. Full marks require
# * for sizes that are multiples of 8, the speeds that these parts give ({{holds.follows_the_model.roofline}} for
#   the small sizes, {{holds.follows_the_model.waves}} for the large ones),
# * for sizes that are not divisible by 8, a lower speed than for the next multiple of 8
#   ({{holds.slows_down.alignment}}),
# * for the 230 sizes that were measured on an H200, a **rank correlation** of at least 0.95 between your speeds and the
#   measured ones ({{holds.ranks_the_measured.measured}}). A rank correlation is 1 if your model puts all sizes into the
#   measured order of speed, and 0 if its order has nothing to do with the measured one.


# %% gpu="tiling.mystery_plot_again"
figures.flops.mystery_plot()


# %% exercise="tiling.predicted_throughput"
def predicted_throughput(
    sizes: list[int],
    bm: int,
    bn: int,
    sms: int,
    flops_per_second: float,
    bytes_per_second: float,
    launch_seconds: float,
) -> list[float]:
    """FLOP/s of (n, n) @ (n, n) in 2-byte numbers for each n of `sizes`."""
    ### BEGIN SOLUTION
    share = {1: 0.2, 2: 0.28, 4: 0.3, 8: 1.0}  # by the power of two that divides n, as read off the plot
    speeds = []
    for n in sizes:
        _, waves = tiles_and_waves(n, n, bm, bn, sms)
        wave = 2 * bm * bn * n / (flops_per_second / sms)
        seconds = launch_seconds + max(waves * wave, 6 * n * n / bytes_per_second)
        speeds.append(2 * n**3 / seconds * share[min(8, n & -n)])
    return speeds
    ### END SOLUTION


# %% check="tiling.predicted_throughput"
check("tiling.predicted_throughput", predicted_throughput)

# %% [markdown]
# The next picture shows your model together with the measured curve. The model is given tiles of 128 × 128 and the
# number of SMs of the GPU that was measured. Its two rates are the measured FLOP/s of a large product and the measured
# bytes/s of a copy.

# %% gpu="tiling.predicted_against_measured"
figures.tiling.predicted_against_measured(predicted_throughput)

# %% gpu="tiling.how_well"
print(figures.tiling.how_well(predicted_throughput))

# %% [markdown]
# The rest of this cell describes an H200. (If there is a GPU here, the picture was measured on it just now. Which of
# the statements hold for your GPU?) Look at the picture first. For multiples of 8 the lines (the model) lie about 15 %
# below the marks (the measurement). This does no harm, because a rank correlation depends only on how the sizes are
# ranked by speed, and multiplying all speeds by the same factor does not change the ranking. Next look at sizes below N
# = 1000 that are not divisible by 8. There the measured speed is 2 to 3 times the speed that the course's own solution
# to this exercise predicts. The reason is part 4 of the model. It slows down the whole product, and with it the launch.
# In reality a launch takes the same time whether or not the rows are aligned, and in a small product the launch is a
# large part of the time.
#
# Then read the table, in three steps.
# * The model puts *all* sizes in almost the right order. But much of this is easy to get right, because large products
#   run faster than small ones, and aligned ones faster than odd ones. Without part 4 the correlation is lower, as the
#   column *no alignment* shows. (Without part 4 an odd size gets the speed of its neighbours.)
# * Among *large* multiples of 8, size and alignment tell you little; the waves decide the order. There the model's
#   correlation is higher than that of *size alone*, which ranks sizes by N, but far from 1.
# * Why is it far from 1? Among the worst misses, which are listed below the table, look only at the multiples of 8 (if
#   there are any). For these sizes the last wave has only a few tiles, and the product is much *faster* than predicted.
#   There are two reasons. cuBLAS has many kernels, each with its own size of tile, and switches to another kernel if
#   the last wave would be nearly empty. And the speed of a large product is limited by power: when some SMs have
#   nothing to do, the other SMs can use the power that the idle ones do not need, and run at a higher clock.
#
# How well does the model predict a kernel that uses the *same* tile for all sizes? The next picture shows the course's
# own matmul with one fixed tile, on an H200.

# %%
figures.tiling.one_tile_for_all(predicted_throughput)

# %% [markdown]
# ## Why a vocabulary is padded
#
# GPT-2 has 50,257 tokens in its vocabulary. Its last layer multiplies by a matrix with 50,257 columns, one for each
# token. This number is odd, so the product lies on the lowest branch. If 47 tokens that never occur are added to the
# vocabulary, there are 50,304 = 64 × 786 columns.
#
# ## Exercise: pad
#
# {{exercise tiling.pad_to_multiple}}
#
# Return the smallest multiple of `multiple` that is at least n ({{holds.pads_least.plain}}).


# %% exercise="tiling.pad_to_multiple"
def pad_to_multiple(n: int, multiple: int) -> int:
    """n rounded up to a multiple."""
    ### BEGIN SOLUTION
    return triton.cdiv(n, multiple) * multiple
    ### END SOLUTION


# %% check="tiling.pad_to_multiple"
check("tiling.pad_to_multiple", pad_to_multiple)

# %%
print("50257 padded to a multiple of 64:", pad_to_multiple(50257, 64))
print(figures.tiling.vocabulary())

# %% [markdown]
# The padded product does more work, yet it takes less time.
#
# What if you cannot choose the size, because the matrices come from elsewhere? You can copy the matrices into longer
# rows that begin at multiples of 16 bytes, multiply these copies, and copy the result back. Does this save time? Take
# matrices of shape (4097, 4097), and predict two durations: (1) that of multiplying the original matrices, and (2) that
# of copying both matrices, multiplying the copies, and copying the result back. So three matrices are copied, and
# copying a number means reading 2 bytes and writing 2 bytes. The times below were measured on an H100, whose memory
# moves about 3 TB per second. For the two products, use the speeds in the mystery plot. (It shows an H200, but an
# H100's speeds are similar.) The product of the original matrices lies on the lowest branch of the plot, and the
# product of the copies on the highest.

# %%
print("one copy, at 3 TB/s:", round(2 * 2 * 4097**2 / 3e12 * 1e6), "us")
print(figures.tiling.copied_first())

# %% [markdown]
# In this measurement cuBLAS multiplies the original matrices. The kernel in `research/matmul_persistent.py`
# multiplies the copies. It is about as fast as cuBLAS when rows are aligned. Copying takes less time than multiplying
# the copied matrices. Even together, copying and multiplying take less than half the time that cuBLAS needs for the
# original matrices. The time of the copies grows with N², and the time that they save grows with N³. So the larger the
# product, the more the copies pay off. Copying does not make 4097 as cheap as 4096, though. A single extra row of
# numbers still needs a whole extra row of tiles, and a single extra column an extra column of tiles. If these extra
# tiles no longer fit into the last wave, they need one more wave.

# %% [markdown]
# ## Which tile first, without a parameter
#
# Is there an order that needs no parameter such as `group`? The **Hilbert curve** visits each cell of a square once and
# always steps to a neighbouring cell. The curve is built from smaller copies of itself, so any stretch of it, long or
# short, covers cells that lie close together. The tiles of the programs that run at the same time therefore form a
# patch, however many programs there are. Each quarter of the square holds a Hilbert curve with half as many cells on a
# side. Two of these small curves are flipped, so that every small curve begins next to the cell where the previous one
# ended. The picture in *Which tile first?* shows which two.
#
# ## Exercise: Hilbert order
#
# {{exercise tiling.hilbert_order}}
#
# Which tile (m, n) belongs to program `pid`, if the programs follow the Hilbert curve through side × side tiles? `side`
# is a power of two (1 included). You may use any of the curve's mirror images. Full marks require
# * each tile exactly once, next to the one before it ({{holds.touches.plain}}),
# * squares within squares: the first 4 tiles fill a square, and so do the first 16, the first 64 and so on
#   ({{holds.stays_near.plain}}),
# * in the model of an L2 cache, at most 0.65 times as many bytes from DRAM as with row order
#   ({{holds.saves_traffic.cache}}).


# %% exercise="tiling.hilbert_order"
def hilbert_order(pid: int, side: int) -> tuple[int, int]:
    """The tile (m, n) of program pid along the Hilbert curve through side x side tiles."""
    ### BEGIN SOLUTION
    if side == 1:
        return 0, 0
    h = side // 2
    quarter, rest = divmod(pid, h * h)
    m, n = hilbert_order(rest, h)
    if quarter == 0:
        return n, m  # turned
    if quarter == 1:
        return m, n + h
    if quarter == 2:
        return m + h, n + h
    return 2 * h - 1 - n, h - 1 - m  # turned the other way
    ### END SOLUTION


# %% check="tiling.hilbert_order"
check("tiling.hilbert_order", hilbert_order)

# %% [markdown]
# ## Exercise: a work log of a product
#
# {{exercise tiling.matmul_log}}
#
# A **work log** makes a wasteful kernel better in rounds. Before you write the next version, you state what it will
# move; the traces of both versions show what did change. The first version of this log has a strip of one row for each
# program.

# %%
from course_lib import worklog

worklog("tiling.matmul_log")

# %% [markdown]
# `matmul_log()` returns your rounds as a list of dicts, such as
# `{"change": "...", "bytes": "2*M*K + 2*K*N + 2*M*N", "sectors": "...", "launches": 1, "version": my_matmul}`. What you state are
# totals of the new version, as formulas in quotes: numbers, M, N, K, `+ - * /`, `//`, and `cdiv(a, b)`, which rounds up.
# State a round without its `version` first and run the last cell of this section; your logbook keeps the statement.
#
# A round holds if its version is right, each of its numbers is at most a tenth off, and at least one of them is a tenth
# below that of every version before it. Three rounds that hold give {{rounds_held.performance}}, each a third of them; up to
# five are judged, so one that fails costs nothing. The check has shapes that you do not see, all multiples of 128 in M and
# N, and of 64 in K. `strides log` makes a page of your log.


# %% exercise="tiling.matmul_log"
### BEGIN SOLUTION
@triton.jit
def log_matmul_kernel(a_ptr, b_ptr, c_ptr, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, cols = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        ks = k + tl.arange(0, BK)
        a = tl.load(a_ptr + rows[:, None] * K + ks[None, :])
        b = tl.load(b_ptr + ks[:, None] * N + cols[None, :])
        total = tl.dot(a, b, total)
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], total.to(tl.float16))


def log_matmul(a, b, BM, BN):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    log_matmul_kernel[(M // BM, N // BN)](a, b, c, N, K, BM=BM, BN=BN, BK=32)
    return c


def with_16_rows(a, b):
    return log_matmul(a, b, 16, 64)


def with_32_rows(a, b):
    return log_matmul(a, b, 32, 64)


def with_squares(a, b):
    return log_matmul(a, b, 64, 64)


### END SOLUTION
def matmul_log():
    """The rounds, in order: dicts of change, bytes, sectors, launches and version."""
    ### BEGIN SOLUTION
    return [
        # b is read for each 16 rows, not for each row
        {
            "change": "tiles of 16 x 64",
            "bytes": "2*M*N*K/64 + 2*M*N*K/16 + 2*M*N",
            "sectors": "(2*M*N*K/64 + 2*M*N*K/16 + 2*M*N) / 32",
            "launches": 1,
            "version": with_16_rows,
        },
        {
            "change": "tiles of 32 x 64",
            "bytes": "2*M*N*K/64 + 2*M*N*K/32 + 2*M*N",
            "sectors": "(2*M*N*K/64 + 2*M*N*K/32 + 2*M*N) / 32",
            "launches": 1,
            "version": with_32_rows,
        },
        {
            "change": "tiles of 64 x 64",
            "bytes": "4*M*N*K/64 + 2*M*N",
            "sectors": "(4*M*N*K/64 + 2*M*N) / 32",
            "launches": 1,
            "version": with_squares,
        },
    ]
    ### END SOLUTION


# %% check="tiling.matmul_log"
check("tiling.matmul_log", matmul_log)

# %%
worklog("tiling.matmul_log", matmul_log)

# %% [markdown]
# ## Further reading
#
# * The Triton documentation, the tutorial *Matrix Multiplication*: pointers, grouped order, autotuning.
# * NVIDIA, *Matrix Multiplication Background User's Guide*: tile and wave quantization, alignment.
# * Horace He, *What Shapes Do Matrix Multiplications Like?*: the plot on which this unit's mystery plot is modelled.
# * NVIDIA, CUTLASS documentation, *Efficient GEMM in CUDA*: thread block tiles, warp tiles, pipelining.
# * Simon Boehm, *How to Optimize a CUDA Matmul Kernel for cuBLAS-like Performance*, 2022.
# * Aleksa Gordić, *Inside NVIDIA GPUs: Anatomy of high performance matmul kernels*, 2025: PTX and SASS, warp tiles,
#   and, for Hopper, the TMA, barriers and asynchronous stores.
# * Stanford, *CS336: Language Modeling from Scratch*: the lecture on GPUs, which discusses this unit's mystery plot.
# * Andrej Karpathy on padding nanoGPT's vocabulary to 50304, 2023 (about 25 % faster training).
