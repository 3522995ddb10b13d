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
# **After this unit you can** write a matrix product in Triton that reads each element a few times instead of thousands, say
# beforehand how many bytes it moves, and explain why one row more can halve a GPU's speed. This takes several
# sittings, about {{unit hours}} in all, {{unit minutes}} of them for {{unit exercises}}. You need 03 (FLOPs, the roofline)
# and 04 (a kernel on tiles, sectors, traces). No GPU is needed: traffic is counted on the CPU. Times were measured on an
# NVIDIA H200, and each picture says so.

# %%
import torch
import triton
import triton.language as tl

from course_lib import bench, check, compile_for, figures, gpu, hint, progress, trace  # noqa: F401 (hint is yours to call)

device = "cuda" if torch.cuda.is_available() else "cpu"

# %% [markdown]
# ## The question
#
# Unit 03 ended with a mystery: the speed of an (N, N) by (N, N) product in bfloat16, for 230 sizes N.

# %% gpu="tiling.mystery_plot"
figures.flops.mystery_plot()

# %% [markdown]
# Branches, waves, cliffs. At the end of this unit you will predict this plot with ten lines of your own. The way there
# leads through the question that decides the speed of every product: how often is each element *read*?
#
# A product of two 4096 by 4096 matrices takes 2 × 4096³ FLOPs. In bfloat16 the two factors take 2 × 32 MiB. Suppose a
# kernel computes each element of the result by itself: it reads a row of a and a column of b, multiplies them and adds up.

# %% predict="tiling.guess_bytes"
# How many GiB does that kernel read in all? Write a number before you go on; no points hang on it.
guess_gib = ...

# %% [markdown]
# Each element of the result needs 2 × 4096 numbers of 2 bytes, and there are 4096² elements:

# %%
naive = 4096**2 * 2 * 4096 * 2
print(f"{naive / 2**30:,.0f} GiB (you said {guess_gib if guess_gib is not ... else 'nothing'})")
card = gpu.datasheet("H200")
reading, computing = naive / card.hbm_bandwidth * 1e3, 2 * 4096**3 / card.bf16_flops * 1e3
print(f"if each read went to DRAM, an H200 would read for {reading:.0f} ms; the arithmetic takes {computing:.2f} ms")

# %% [markdown]
# We cannot do with fewer FLOPs. But each element is read 4096 times, and that is what takes the time. Here is such a
# kernel, traced on small matrices.


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
# The result has 32 columns, and each element of a is read 32 times. What more could a program do with a row of a once it
# has loaded it?
#
# ## A product is a sum of outer products
#
# You know a product as rows times columns: each element is an *inner* product, and 2 K numbers are read to make one. Turn
# the loops around. Take *column* k of a and *row* k of b. Their **outer product** is a whole (M, N) matrix: every number of
# the column meets every number of the row. Add these up over all k, and you have a @ b.

# %%
figures.tiling.outer_products()

# %% [markdown]
# Now count. M + N numbers are read, and M × N multiplications are done with them. That is the whole secret: **read a few
# numbers, and use each many times.**
#
# ## Exercise: outer products
#
# {{exercise tiling.outer_product_matmul}}
#
# Write a @ b as a sum of outer products, in torch, on the CPU. Write one loop, over k. Torch may multiply and add
# elementwise here, but it must not multiply matrices. Full marks need
# * the right result for any sizes ({{correct.ragged}}),
# * one outer product for each k ({{counted.plain}}).
#
# As long as an exercise is unsolved, its check prints that nothing is returned yet. `hint("tiling.outer_product_matmul")`
# gives a hint, and a stronger one each time. This holds for every exercise here.


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
# ## Tiles
#
# There is a catch. The sum c has M × N numbers and is touched in every step. A result of 4096 by 4096 does not fit where
# the arithmetic happens: an SM has registers for 65,536 numbers. So cut c into **tiles** that do fit. A program keeps one
# tile (BLOCK_M, BLOCK_N) of c in registers, from the first k to the last. For this tile it needs BLOCK_M rows of a and
# BLOCK_N columns of b, and it loads them in pieces of BLOCK_K.

# %%
figures.tiling.tile_anatomy()

# %% [markdown]
# How often is row 0 of a loaded now? Every program whose tile lies in the first row of tiles loads it once, and there are N
# / BLOCK_N of those.
#
# > Each element of **a** is read **N / BLOCK_N** times, each element of **b** **M / BLOCK_M** times.
#
# ## Exercise: the same in torch
#
# {{exercise tiling.tiled_matmul}}
#
# Do it first without a GPU in mind. Cut the product into tiles: for each tile (bm, bn) of the result, add up products of a
# tile (bm, bk) of a and a tile (bk, bn) of b, each made with `@`. Sizes need not be multiples of the tile's. Full marks
# need
# * the right result for ragged sizes ({{correct.ragged}}),
# * one product for each triple of tiles ({{counted.plain}}).


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
# ## Exercise: predict what is read
#
# {{exercise tiling.predictions}}
#
# Think of a product of two 256 by 256 matrices. How many times is each element of a, or of b, loaded
# * with tiles of 64 × 64 (that is BLOCK_M × BLOCK_N),
# * with tiles of 32 × 128, which hold as many elements,
# * and if BLOCK_K, the length of the pieces, is doubled from 32 to 64?
#
# Write down five numbers. Then a trace will count.
#
# Write numbers, or arithmetic on them such as `4 * 1024`. Code that finds them out is no prediction: it earns nothing.


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
# The tile of 32 × 128 reads `a` 2 times instead of 4, and `b` 8 times instead of 4: 2 + 8 against 4 + 4. A program with a
# tile of BLOCK_M × BLOCK_N does 2 × BLOCK_M × BLOCK_N FLOPs for each BLOCK_M + BLOCK_N numbers. Of all tiles with the same
# area, which has the smallest sum of sides? The **square**.
#
# ## Exercise: bytes of a tiled product
#
# {{exercise tiling.matmul_bytes}}
#
# Every program loads its rows of a and its columns of b once, and stores its tile of c once. Lanes outside of the matrices
# are masked and move nothing. How many bytes move in all? Your number must equal that of a trace
# * where tiles divide the sizes ({{correct.whole}}),
# * and where they do not ({{correct.ragged}}).


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
# All of these lie left of the ridge of unit 03, 206 FLOP/byte on an H200: if every read went to DRAM, none of these
# products would reach the speed of the tensor cores. The L2 cache closes the gap, as *Which tile first?* shows at the end.
#
# ## Where tiles live
#
# So tiles should be as large as possible. What stops them?
#
# * The **accumulator**, the tile of c, lives in registers: BLOCK_M × BLOCK_N float32 numbers. The registers of an SM hold
#   65,536 of them in all, and addresses need some. In practice one stops at half of that, 32,768 numbers, which is a tile
#   of 128 × 256.
# * The tiles of a and b pass through **shared memory**. From there Hopper's `wgmma` instruction feeds the tensor cores
#   directly. The older `mma.sync`, all that an A100 has, takes its operands from registers, so each warp first loads its
#   part of the tiles into them. An H200 gives one program at most 227 KiB of shared memory, an A100 163 KiB. This is what
#   shared memory is for: a little is loaded once, and all threads of the program use it. With tiles of 128 × 128 each
#   number of a's tile enters 128 products, and for all of them it crosses the wires from L2 only once. In CUDA you write
#   the copy, the barrier and the reads yourself; in Triton, `tl.load` and `tl.dot` on a block make the compiler write
#   them.
# * The **tensor core's own shape** counts, too. One `wgmma` takes 64 rows of a, 8 to 256 columns of b, and 32 bytes of K
#   (16 numbers of half precision), and four warps share the work. With BLOCK_M below 64 Triton falls back to `mma.sync`,
#   whose shape is 16 × 8. A TPU's unit is a square of 128 × 128, from v6e on 256 × 256, and what does not fill it is
#   padded. So sides of 64 and 128 are no accident.
# * While the tensor cores work on one pair of tiles, the next ones should be on their way. This is **pipelining**:
#   `num_stages=3` makes the compiler keep three pairs of tiles in shared memory, of which one is in use and two are
#   arriving. It costs three times the space.

# %%
figures.tiling.pipelining()

# %% [markdown]
# * If several programs fit onto one SM, one may work while another waits. The **occupancy** of an SM is the number of warps
#   on it, divided by the number that it has room for. With tiles of 128 × 256 × 64 and three stages, a program fills 144
#   KiB of shared memory, so an H200's SM (228 KiB, of which the system takes 1 for each program) holds one: 8 warps, where
#   there is room for 64. That is 12.5 %. A kernel without a pipeline would starve: while a warp waits for memory, nobody
#   else has work. A matmul can live with that, since its pipeline hides the waits.
#
# Move the sliders. Which tile has the highest intensity and still fits? What does a third stage cost? And why is 256 × 256
# out of the question?

# %%
figures.tiling.explore_tile_sizes()

# %% [markdown]
# With BLOCK_K = 64 on an H200, 128 × 256 (or 256 × 128) has the highest intensity of all tiles that fit: 85 FLOP/byte. Each
# of its stages takes 48 KiB, the third as much as the first. And 256 × 256 sums would take all the registers of an SM, with
# none left for an address.
#
# ## Exercise: the best tile
#
# {{exercise tiling.best_tile}}
#
# Sides are powers of two: 16, 32, 64, 128 or 256. Numbers have 2 bytes, BLOCK_K is 64, and there are three stages. So a
# tile fits if
# * 3 × 64 × (bm + bn) × 2 bytes are at most `shared_bytes`, and
# * bm × bn is at most 32,768.
#
# Return the pair (bm, bn) that fits and moves the fewest bytes in an (m, k) @ (k, n) product. (If there are several,
# return any of them.) You may call `matmul_bytes`. Full marks need the best tile
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
# Shared memory and registers limit the tile. The number of programs on an SM has four limits, and the one that is reached
# first counts:
#
# | limit | what a program takes | an H200's SM has |
# | --- | --- | --- |
# | `"registers"` | `registers` for each of the 32 threads of each warp; a warp's are rounded up to a multiple of 256 | 65,536 |
# | `"shared memory"` | `shared_bytes`, and 1024 bytes that the system keeps for each program | 233,472 bytes |
# | `"warps"` | its warps; 64 warps are the 2048 threads that CUDA's manuals speak of | 64 |
# | `"programs"` | one: CUDA says *blocks* | 32 |
#
# `sm` holds the last column, for whichever GPU is meant, as `sm["registers"]`, `sm["shared_bytes"]`, `sm["warps"]` and
# `sm["programs"]`. Return how many programs fit, and the name (from the first column) of the limit that keeps one more
# from fitting. If there are several such limits, name any of them. Full marks need the right pair
# * where shared memory is the limit ({{holds.fills_the_sm.shared memory}}),
# * where registers are ({{holds.fills_the_sm.registers}}),
# * where one of the others is, or not a single program fits ({{holds.fills_the_sm.the rest}}).


# %% exercise="tiling.occupancy"
def programs_per_sm(warps: int, registers: int, shared_bytes: int, sm: dict[str, int]) -> tuple[int, str]:
    """(programs that fit onto one SM at the same time, the limit that keeps one more from it)."""
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
# High occupancy is not a goal in itself. A copy needs many warps, since only other warps can fill the time in which one
# waits. A matmul has work of its own for that time: its pipeline, and many independent multiplications in a row
# (*instruction-level parallelism*). It gives up warps for a larger tile.
#
# ## A roof for each level
#
# Unit 03 drew one roof, DRAM's. But a tile passes through three memories. Each has a rate of its own, and each delivers a
# different number of bytes:
#
# * **DRAM** gives each matrix once, if the L2 cache does its work,
# * **L2** gives every program its rows of a and its columns of b, and takes its tile of c: what `matmul_bytes` counts,
# * **shared memory** gives every *warp* the rows and columns for its own part of the tile, again and again. If the 4 warps
#   of a program share a tile of 128 × 128, each has a part of 64 × 64. Two parts lie side by side and need the same rows of
#   a, so each row is read twice.
#
# So there are tiles within tiles: a program's tile saves reads from L2, a warp's part saves reads from shared memory, and,
# on ordinary ALUs, a thread's part saves reads of shared memory into registers. Each level has an intensity of its own, and
# the question is always the same: which level is the slowest?
#
# ## Exercise: the slowest level
#
# {{exercise tiling.roofs}}
#
# A product (m, k) @ (k, n) is cut into tiles `tile = [bm, bn]`, one for each program, and each tile is cut into parts
# `warp_tile = [wm, wn]`, one for each warp. `rates` has FLOP/s for `"tensor cores"`, and bytes/s for `"DRAM"`, `"L2"` and
# `"shared memory"`. Only a and b come from shared memory: each part reads its rows and columns once, masked positions move
# nothing, and the result leaves through registers. The tensor cores and the three memories all work at the same time.
# Return the seconds that the slowest of the four takes, and its name. Full marks need the right pair
# * where the L2 cache is the slowest ({{holds.is_the_slowest.L2}}),
# * where it is another one ({{holds.is_the_slowest.the others}}).


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
# an H200: datasheet; datasheet; unit 00's measurement; 128 bytes a cycle for each of 132 SMs at 1.98 GHz
rates = {"tensor cores": 989.4e12, "DRAM": 4.8e12, "L2": 9.7e12, "shared memory": 128 * 132 * 1.98e9}
for tile, warp_tile in (((16, 16), (16, 16)), ((64, 64), (32, 32)), ((128, 128), (64, 64)), ((128, 256), (64, 64))):
    found = slowest_level(4096, 4096, 4096, tile, warp_tile, 2, rates)
    if found is None:
        print("solve slowest_level to see the numbers")
        break
    print(f"tile {tile!s:10}, warps' part {warp_tile!s:8}: {found[0] * 1e6:6.0f} µs, by {found[1]}")

# %% [markdown]
# With small tiles L2 sets the pace by far, and DRAM never does. Even with the largest tile that fits, L2 takes a little
# longer than the tensor cores would at the speed of their datasheet. Hopper has three answers. `wgmma` lets four warps read
# b from shared memory together. Programs of a *thread-block cluster* can read each other's shared memory, and one load from
# L2 can go to several of them at once (*multicast*). And no product reaches the datasheet's rate anyway, as unit 03
# measured.
#
# ## From naive up, rung by rung
#
# How does the plainest kernel fare, and what does each idea save? Here are three rungs of a ladder. In the first, each
# program makes one element of c, from a row of a and a column of b. In the second, it makes a strip of a row of c, from one
# number of a and a piece of a row of b at a time. In the third, it makes a tile.


# %%
@triton.jit
def naive(a_ptr, b_ptr, c_ptr, N, K, BLOCK_K: tl.constexpr):
    """One element of c for each program: a row of a, times a column of b."""
    m, n = tl.program_id(0), tl.program_id(1)
    acc = 0.0
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        acc += tl.sum(tl.load(a_ptr + m * K + k).to(tl.float32) * tl.load(b_ptr + k * N + n).to(tl.float32))
    tl.store(c_ptr + m * N + n, acc.to(c_ptr.dtype.element_ty))


@triton.jit
def strip(a_ptr, b_ptr, c_ptr, N, K, BLOCK_N: tl.constexpr):
    """A strip of a row of c for each program: one number of a, times a piece of a row of b, for each k."""
    m, cols = tl.program_id(0), tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_N,), tl.float32)
    for k in range(0, K):
        acc += tl.load(a_ptr + m * K + k).to(tl.float32) * tl.load(b_ptr + k * N + cols).to(tl.float32)
    tl.store(c_ptr + m * N + cols, acc.to(c_ptr.dtype.element_ty))


@triton.jit
def tile(a_ptr, b_ptr, c_ptr, N, K, BLOCK: tl.constexpr):
    """A square tile of c for each program."""
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, K, BLOCK):
        k = start + tl.arange(0, BLOCK)
        acc = tl.dot(tl.load(a_ptr + rows * K + k[None, :]), tl.load(b_ptr + k[:, None] * N + cols), acc)
    tl.store(c_ptr + rows * N + cols, acc.to(c_ptr.dtype.element_ty))


# %% [markdown]
# ## Exercise: predict the ladder
#
# {{exercise tiling.ladder}}
#
# a, b and c are 128 × 128 matrices of float16. The naive kernel has BLOCK_K = 64, and 128 × 128 programs. The second
# kernel makes strips of 64, and the third makes tiles of 32 × 32. How often does each kernel read each element of a and of
# b? The naive kernel loads a piece of a column of b at a time: how many sectors of 32 bytes does one such load touch? And
# how many bytes does the kernel with tiles move in all, loads and stores together? Each is worth {{correct.plain / 7}}.

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
# Each rung reads less. The first one reads most often, and it also wastes most of each read: every load of a column touches
# a sector for each number, 16 times the bytes that it needs. Tiles bring two things at once: fewer reads, and tensor cores
# to do the sums. Larger tiles, a pipeline and a good order of the tiles are the rungs that come next in this unit, and
# `tiling.speed` below shows how far up that is: about nine tenths of cuBLAS. What is missing from there on needs
# instructions that plain Triton leaves to its compiler: loads of whole tiles by the hardware (TMA), warps that only load
# and others that only multiply, and *persistent* kernels. A persistent matmul has one program for each SM. With P programs,
# program p computes the tiles p, p + P, p + 2 P and so on, until none is left. It need not stop between two tiles: while
# the last one is being stored, the first loads of the next one are under way. The store can be asynchronous as well: the
# threads put the tile into shared memory, the TMA unit copies it out, and the threads wait only before they use that part
# of shared memory again. *Barriers*, which are counters in shared memory, make one part wait for another: they count the
# threads that have arrived and the bytes that have been copied. Triton leaves barriers to its compiler and has no words for
# them. Gluon, the language below it, has, and `course_lib.hopper` runs kernels in Gluon without a GPU and names what is
# wrong with their barriers. Under *Where to read on*, Boehm's text climbs the rungs up to here, and Gordić's those above.
#
# ## Exercise: sums of rows
#
# {{exercise tiling.row_sums}}
#
# A matmul is a loop along K that keeps something in registers. Write the loop first, without the product: it makes the sum
# of each row of a, in float32. Each program has a block of rows and walks along all columns. K may be any number, such as
# 1, 300 or 5001. So the last step is masked, and masked positions add zeros. Full marks need
# * the right sums for any sizes and for rows that lie apart ({{correct.ragged}}), and for long rows of float16
#   ({{correct.float16}}),
# * dense loads ({{coalesced.load.performance}}), and each element read once, by at least 32 programs
#   ({{traffic.performance}}).


# %% exercise="tiling.row_sums"
@triton.jit
def row_sums_kernel(a_ptr, out_ptr, M, K, stride_m, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr):
    """out[m] = the sum of a[m, :], for BLOCK_M rows."""
    ### BEGIN SOLUTION
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_K), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)[None, :]
        acc += tl.load(a_ptr + rows * stride_m + k, mask=(rows < M) & (k < K), other=0).to(tl.float32)
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
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
# Now the product. Three things are new.
#
# **`tl.dot(a, b, acc)`** adds the product of two blocks, (BLOCK_M, BLOCK_K) by (BLOCK_K, BLOCK_N), to an accumulator, on
# the tensor cores. Sides are powers of two, and the one that is summed over, BLOCK_K, is at least 16 (32 for numbers of
# one byte). Blocks with fewer than 16 rows or columns are padded. The accumulator is float32, also for float16 and
# bfloat16 blocks: thousands of products are added, and unit 02 showed what half precision makes of that.
#
# **Float32 blocks** are rounded to TF32 (10 bits after the point) on their way into the tensor cores, unless you write
# `input_precision="ieee"`. The trace rounds them, too, so that you see it. For other dtypes the option does nothing.
#
# **Pointers that move.** Inside the loop over k only the position along K changes. So set up two blocks of pointers before
# the loop, and advance them: `a_ptrs += BLOCK_K * stride_ak`.
#
# Here are all three in one program. It makes a result of one tile, in several steps along K, and needs no mask.


# %%
@triton.jit
def one_tile(a_ptr, b_ptr, c_ptr, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """c = a @ b with a (BLOCK_M, K), b (K, BLOCK_N), contiguous; BLOCK_K divides K. One program."""
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
print(f"in float32, as TF32: off by {(c32 - a32 @ b32).abs().max():.4f}; such sums are exact to about 0.00001")
print(compile_for(one_tile, a, b, c, 128, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32, gpu="sm_90"))

# %% [markdown]
# The compiler tells us four things. It says how wide loads and stores are: 128 bits, the widest there are. It names the
# instruction of the tensor cores: `mma`, or `wgmma` for tiles of 64 rows and more. It says how much of the 232,448 bytes
# (227 KiB) of shared memory a program takes. And it counts the registers. A *thread* is what unit 04 called a lane: a warp
# has 32.
#
# **Warps and stages** are arguments of the launch, too: `kernel[grid](..., num_warps=8, num_stages=3)`. Unless you say
# otherwise, a program has 4 warps. Those are 128 threads. So a tile of 128 × 256 sums gives each thread 256 of them: one
# more than a thread has registers. What happens to the rest?

# %%
a, b = torch.empty(128, 1024).half(), torch.empty(1024, 256).half()
c = torch.empty(128, 256).half()
for num_warps in (4, 8):
    shape = dict(BLOCK_M=128, BLOCK_N=256, BLOCK_K=64, num_warps=num_warps, num_stages=3)
    facts = compile_for(one_tile, a, b, c, 1024, gpu="sm_90", **shape)
    print(
        f"{num_warps} warps: {facts.registers} registers a thread, {facts.spill_bytes} bytes a thread spill to memory"
    )

# %% [markdown]
# With 4 warps the sums **spill**: part of the accumulator lies in memory, and has to be fetched and put back. The
# result is right, and no check of bytes sees it. So ask `compile_for`, and give large tiles 8 warps.
#
# **Any strides.** `x.T`, a slice, a head of an attention layer: they are views, with strides of their own (unit 01). A
# kernel that asks for both strides of each matrix can read all of these views, without a copy. `.contiguous()` would be a
# kernel of its own, with its own traffic, and is not allowed here.
#
# **Batches.** (B, M, K) by (B, K, N) are B products; a and b both have two dimensions, or both three. Give the second axis
# of the grid, `tl.program_id(1)`, to the batch, and give each matrix one stride more. A single product is a batch of one:
# `a[None]` is a view.
#
# ## Exercise: one step
#
# {{exercise tiling.one_step}}
#
# A matmul is row_sums with a product in each step. Now write the step alone: K is at most 64, so one block holds all of it
# and there is no loop. a and b are contiguous float16. Tiles stick out on every side: past the rows of a, past the columns
# of b, and, where K is less than the block, past the end of K in both. There a masked load needs `other=0`. Otherwise
# values that nobody has written are multiplied and added. Full marks need
# * the right result for any sizes of c ({{correct.ragged}}),
# * the right result for any K up to 64 ({{correct.short}}),
# * a program for each tile: at least 8 that share a tall c ({{programs.tall}}).


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
# ## Exercise: matmul
#
# {{exercise tiling.matmul}}
#
# Write `matmul(a, b)` for float16, bfloat16 and float32, of any sizes and any strides. The result has the dtype of a. Use
# one kernel, and plain pointers. Begin with a single product in float16. Then earn the points one by one:
# * right for ragged sizes ({{correct.ragged}}), for transposed matrices and slices ({{correct.strided}}), for batches
#   ({{correct.batched}}),
# * sums over a long K keep their precision ({{correct.long}}), and float32 stays float32 ({{correct.float32}}),
# * `a` is read at most N / 64 times ({{rereads.a.performance}}), `b` at most M / 64 times ({{rereads.b.performance}}), and
#   there is no second pass over memory ({{traffic.performance}}). All three need at least 32 programs for a large product.
#   A function in which torch makes a copy, `a.contiguous()` included, earns nothing at all,
# * dense loads ({{coalesced.load.performance}}) and stores ({{coalesced.store.performance}}).
#
# The first axis of the grid numbers the tiles, and `tl.cdiv` works in kernels, too: with grid_n = tl.cdiv(N, BLOCK_N), let
# program pid do tile (pid // grid_n, pid % grid_n). `GROUP` is for the last section of this unit, where you will find a
# better order; until then ignore it, or take it out.
#
# Which tile? For float16 and bfloat16, what `best_tile` says is a good start, with 8 warps and three stages. Float32
# numbers take twice the room, and the exact product of float32 blocks takes many registers: tiles of 64 × 64 × 32 are
# large enough there.
#
# Extra credit on a GPU: {{speed}} at {{speed.full}} of the speed of `torch.matmul`, and a part of these points from
# {{speed.none}} on (4096 × 4096 × 4096, bfloat16).


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
# Where there is a GPU, the next cell times your kernel against `torch.matmul`, which calls NVIDIA's cuBLAS, in the same
# run.

# %% gpu="tiling.speed"
if bench.has_gpu():
    a, b = (torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    if matmul(a, b) is None:
        print("solve matmul to see its speed")
    else:
        found = bench.ratio(lambda: matmul(a, b), lambda: torch.matmul(a, b))
        print(f"{2 * 4096**3 / found.own_ms / 1e9:.0f} TFLOP/s, {found.speedup:.2f} of torch's speed")
else:
    print("There is no GPU here that the course times on.")

# %% [markdown]
# ## Exercise: name it
#
# {{exercise tiling.name_maps}}
#
# When a product is wrong, the verdict shows a map of where it is wrong. With some practice you can read from the map why.
# Here are six maps, of six kernels with one mistake each. Which mistake belongs to which map? Write one of these into each
# line, in quotes, and run the check: the explanation of a picture comes with the right answer.
#
# * `"all programs load the first columns of b"`
# * `"no mask on the store's columns"`
# * `"rows are compared with N"`
# * `"sums are kept in float16"`
# * `"the grid rounds down"`
# * `"the last step along K is missing"`
#
# Guessing alone gets some right. So the first three right answers earn nothing, and each of the others earns a third of the
# points ({{names.plain}}).

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
# A test is an input, and somebody has to think of it. Below is a kernel that is right. There are also wrong versions of it,
# *mutants*: each has one change, such as a mask that is missing or a stride that is taken for another, or a sum that is
# kept in float16. On most inputs a mutant gives the right result. Write inputs on which it does not.
#
# `breaking_inputs()` returns a list of at most three dicts, `{"a": tensor, "b": tensor}`. Each tensor may span at most
# 16,384 numbers of float32 or float16. a is (M, K), b is (K, N), of any strides, and no side is longer than 256. The check
# runs the kernel as it is given on all of them, and **if that fails on one, nothing is earned**. Then it runs the mutants.
# A mutant is *killed* if, on one of your inputs, its result is wrong or it reaches outside of a tensor. The check here
# knows four mutants, the grader more. Random numbers of ordinary sizes kill about half of them, so only what you kill
# beyond that half earns points ({{kills.mutants}}).


# %%
@triton.jit
def given_kernel(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, K, BLOCK):
        k = start + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + rows * stride_am + k[None, :] * stride_ak, mask=(rows < M) & (k[None, :] < K), other=0)
        b = tl.load(b_ptr + k[:, None] * stride_bk + cols * stride_bn, mask=(k[:, None] < K) & (cols < N), other=0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(c_ptr + rows * N + cols, acc, mask=(rows < M) & (cols < N))


def given_matmul(a, b):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty(M, N, dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
    given_kernel[grid](a, b, c, M, N, K, *a.stride(), *b.stride(), BLOCK=32)
    return c


# %% exercise="tiling.break_matmul"
def breaking_inputs() -> list[dict]:
    """At most three inputs, `{"a": tensor, "b": tensor}`, on which wrong versions of the kernel show."""
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
# ## Autotuning
#
# Which tile is fastest? The bytes are one part of it. Registers, stages, warps and the size of the product are others, and
# nobody can predict all of them together. So people measure. `triton.autotune` takes a kernel and a list of configurations,
# times each of them when a new `key` comes along (here: new sizes), and remembers the best:
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
# The grid becomes a function, since it depends on the tile. A check tries nothing out: it takes the first configuration,
# also where it times your kernel on a GPU. Put a good one first. Here are the times of the published solution with several
# configurations:

# %%
figures.tiling.autotuned()

# %% [markdown]
# ## Tiles that are not full
#
# 256 columns fit into one tile of 256. How many tiles do 257 columns take?

# %%
figures.tiling.tile_quantization()

# %% [markdown]
# They take two, and the second one does a whole tile's work for a single column. This is **tile quantization**. There is a
# second staircase behind it. A GPU deals tiles out to its SMs. An A100 has 108. With 98 tiles, all run at once: one
# **wave**. With 120 tiles, 108 run in a first wave, and 12 in a second one, which takes as long as the first. That is
# **wave quantization**.
#
# Now take both at once, on an A100 with tiles of 256 × 128. At N = 1792 there are 7 × 14 = 98 tiles. How many are there at
# N = 1793?
#
# Move the sliders, and find the sizes that waste the most.

# %%
figures.tiling.explore_waves()

# %% [markdown]
# Sizes just above a cliff waste the most: at 1793 a full wave and a second one of 12 tiles use 45 % of what the SMs could
# have done. The larger N is, the more waves there are, and the less the last one matters. Very small sizes never even fill
# the first wave.
#
# ## Exercise: tiles and waves
#
# {{exercise tiling.tiles_and_waves}}
#
# An (m, n) result is cut into tiles of bm × bn, and each of `sms` SMs works on one tile at a time. How many tiles are
# there, and how many waves? Full marks need both numbers
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
# From 1792 to 1793, 0.06 % more columns cost twice the time. On an H200 the cliffs lie elsewhere, since it has 132 SMs.
#
# ## The branches
#
# What about the branches of the mystery plot? They follow from the largest power of two that divides N. A row of N bfloat16
# numbers is 2 N bytes long. A copy into shared memory moves 16 bytes at a time for each thread, and these bytes must begin
# at a multiple of 16. If 8 divides N, every row begins at such a multiple. If N is 4 × odd, only every second row does, so
# a kernel cannot rely on it. What every row can rely on is a multiple of 8 bytes for 4 × odd, of 4 for 2 × odd, and of 2
# for odd. An H200's fast copy unit (TMA, new in the Hopper generation) refuses such rows altogether.
#
# So four branches are possible. The plot shows three: 2 × odd and 4 × odd coincide. So the bytes of a copy cannot be the
# whole story, and the plot does not say which kernels cuBLAS takes for those sizes. What share of the top branch's speed
# each branch has, you must read off the plot: it does not follow from 8, 4 and 2.
#
# You can see alignment in a kernel of your own, without a GPU: the compiler says how wide its loads are.

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
# (Triton only asks whether 16 divides the stride. It makes no difference between 8, 4 and 2.)
#
# ## Exercise: predict the mystery plot
#
# {{exercise tiling.predicted_throughput}}
#
# Write a model of four parts, for products of (n, n) matrices with 2-byte numbers:
#
# 1. **Waves.** One SM does 1 / sms of the `flops_per_second`. A tile has 2 × bm × bn × n FLOPs, which gives its time. The
#    total time is the number of waves × the time of one tile, however full the last wave is.
# 2. **Memory.** Three matrices pass through memory at least once, at `bytes_per_second`.
# 3. Waves and memory work at the same time, so the slower of the two counts. Add the **launch**: `launch_seconds`.
# 4. **Alignment.** If 8 does not divide n, the product reaches only a share of that speed. Which share is it for odd
#    sizes, for 2 × odd, for 4 × odd? Read your own shares off the plot above.
#
# Speed is 2 n³ FLOPs divided by seconds. Return a list of speeds in FLOP/s, one for each of `sizes`. You may call
# `tiles_and_waves`. Full marks need
# * the model's numbers for small sizes ({{holds.follows_the_model.roofline}}) and for large ones
#   ({{holds.follows_the_model.waves}}), all of them multiples of 8,
# * for sizes that 8 does not divide, less speed than you predict for the next multiple of 8
#   ({{holds.slows_down.alignment}}),
# * and, for the 230 sizes measured on an H200, a **rank correlation** of at least 0.95
#   ({{holds.ranks_the_measured.measured}}): 1 means that your model puts
#   all sizes into the measured order of speed, 0 that it knows nothing of it.


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
# Here is your model over the measured curve. It takes tiles of 128 × 128, the SMs of the GPU that was measured, and two
# measured ceilings: those of a large product and of a copy.

# %% gpu="tiling.predicted_against_measured"
figures.tiling.predicted_against_measured(predicted_throughput)

# %% gpu="tiling.how_well"
print(figures.tiling.how_well(predicted_throughput))

# %% [markdown]
# The following sentences are about an H200. (If there is a GPU here, the picture was measured on it just now: which of the
# sentences hold for yours?) Look at the picture first. For multiples of 8 the lines lie some 15 % below the marks. That
# does no harm: the same factor for all sizes leaves their order as it is, and a rank correlation looks at the order alone.
# Below N = 1000, sizes that 8 does not divide are in truth 2 to 3 times faster than predicted, with the shares of the
# published solution. The reason is part 4: it slows down the launch as well, and a launch takes the same time for every
# size.
#
# Then read the table in three steps.
#
# * Over *all* sizes the model sorts almost perfectly. But much of that is easy: large is faster than small, aligned is
#   faster than odd. Without part 4 the correlation falls, as the column *no alignment* says. (Among the odd sizes alone,
#   part 4 changes almost nothing, since all of them have the same share.)
# * Among *large* multiples of 8, where size and alignment say little, the order is that of the waves. There the model does
#   better than *size alone*, and it is far from perfect.
# * The worst misses show why. Look first at those that 8 divides, if there are any. Their last wave has a handful of
#   tiles, and there the product is *faster* than predicted. (Which other sizes are among the worst misses depends on your
#   shares.) cuBLAS has a whole shelf of kernels, and takes another tile where one leaves a poor last wave. And on a large
#   product power sets the limit: SMs that have nothing to do leave their watts to the others, which then run at a higher
#   clock.
#
# So what does a kernel do that has only *one* tile? The published matmul, with a fixed tile, on the same GPU:

# %%
figures.tiling.one_tile_for_all(predicted_throughput)

# %% [markdown]
# ## Why a vocabulary is padded
#
# GPT-2 has 50 257 tokens in its vocabulary. The last layer multiplies by a (d_model, 50257) matrix: the size is odd, so it
# lies on the lowest branch. Add 47 tokens that never occur, and it is 50 304 = 64 × 786.
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
# That is more work, done in less time.
#
# What if the size is not yours to choose, because the matrices come from elsewhere? You can copy them into longer rows,
# which begin at multiples of 16 bytes, multiply the copies, and copy the result back. Is that worth its time? Predict it
# for matrices of (4097, 4097): each of the three copies reads and writes 2 bytes for each number, and memory on an H100
# moves about 3 TB in a second. The product runs at the speed of the lowest branch on the matrices as they lie, and at that
# of the highest branch on the copies.

# %%
print("one copy, at 3 TB/s:", round(2 * 2 * 4097**2 / 3e12 * 1e6), "us")
print(figures.tiling.copied_first())

# %% [markdown]
# The copies take less time than the product, and copies and product together take less than half of the time that cuBLAS
# needs for the rows as they lie. The time of the copies grows with N², and what they save grows with N³: the larger the
# product, the better the bargain. (The kernel is `benchmarks/matmul_persistent.py`, about as fast as cuBLAS where rows are
# aligned. It has one row and one column of tiles more than for 4096, each for a single row or column of numbers, so the
# wave quantization from above costs it time, too.)
#
# ## Which tile first?
#
# One thing is left. The trace says that a is read N / BLOCK_N times: 16 times for 4096 columns and tiles of 256. Must all
# of these reads go to DRAM? Between the SMs and DRAM lies the **L2** cache, 60 MB on an H200. If two programs that run at
# the same time want the same tile of a, DRAM delivers it once.
#
# So it matters *which* tiles run at the same time. That is decided by how a kernel turns its program number into a tile.
# An H200 runs 132 programs at once. In row order they lie in a few long rows: they want few rows of `a`, and all columns
# of `b`. What would be better?

# %%
figures.tiling.orders()

# %% [markdown]
# A compact patch would be better: for the same number of tiles, its rows and columns together are fewer. It is the square
# again, one level up. The common way is **grouped order**: take `group` rows of tiles, go through them column by column,
# then take the next `group` rows.
#
# ## Exercise: grouped order
#
# {{exercise tiling.grouped_order}}
#
# Which tile (m, n) belongs to program `pid` of a grid of grid_m × grid_n tiles? The first `group` programs take the first
# `group` rows of column 0, the next ones column 1, and so on; after the last column come the next `group` rows. The last
# group may have fewer rows. Full marks need
# * each tile once ({{holds.is_an_order.plain}}),
# * groups, column by column ({{holds.finishes_groups.plain}}), also when the last one is not full
#   ({{holds.finishes_groups.ragged}}),
# * at most 0.65 of the DRAM bytes of row order, on a model of an L2 ({{holds.saves_traffic.cache}}).
#
# Plain arithmetic (`//`, `%`, `min`) will do, so the same lines also work inside a kernel.


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
# Now go back to your matmul. Put these lines in place of the two that number the tiles in row order, with `GROUP` for
# `group` and grid_m = tl.cdiv(M, BLOCK_M). `GROUP=8` in the launch is a good start. Check it again: it must stay right.
#
# Can one do it without a parameter? **Hilbert's curve** visits each cell of a square, always steps to a neighbour, and
# stays near where it was at every scale. Whatever the number of programs that run together, they form a patch. The curve is
# made of itself: it consists of four curves of half the size, the first and last of which are turned.
#
# ## Exercise: Hilbert's order
#
# {{exercise tiling.hilbert_order}}
#
# This exercise is for those who want more. `side` is a power of two (1 included). Any of the curve's mirror images will do.
# Full marks need
# * each tile once, next to the one before ({{holds.touches.plain}}),
# * squares within squares: the first 4 tiles fill a square, and so do the first 16, the first 64 and so on
#   ({{holds.stays_near.plain}}),
# * at most 0.65 of the DRAM bytes of row order ({{holds.saves_traffic.cache}}).


# %% exercise="tiling.hilbert_order"
def hilbert_order(pid: int, side: int) -> tuple[int, int]:
    """The tile (m, n) of program pid along Hilbert's curve through side x side tiles."""
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
# How many bytes does DRAM deliver in each order, and how much does it matter for the time? The left picture shows the
# model, for an L2 of any size. The right one shows the same kernel, timed on an H200 with its tiles in each order.

# %%
figures.tiling.order_traffic()

# %% [markdown]
# In the model the bytes fall to about a quarter. On the GPU the speed rises by one to a few percent. Why so little? At
# these sizes arithmetic sets the pace, and the product seldom waits for DRAM. In the model Hilbert's curve reads the fewest
# bytes. On the GPU, at 16384, sometimes one order was ahead and sometimes the other (`benchmarks/results/tiling.md` has the
# spread): the model runs 132 programs in lock-step, and on the machine they drift apart. A model explains, but the clock
# decides. Grouped order costs five lines, and it pays off.
#
# ## What you now know
#
# * Without tiles a product reads each element N times; with tiles of BLOCK_N columns, N / BLOCK_N times. It is a sum of outer
#   products: few numbers read, each used many times.
# * Square tiles have the highest intensity. Registers limit the accumulator, shared memory the tiles and the stages in flight.
# * One column too many costs a column of tiles, one tile too many costs a wave, and a size that 8 does not divide costs
#   most of the speed. Padding buys it back.
# * Programs that run together should form a patch, so that L2 serves the second reader.
# * A model of ten lines sorts 230 measured sizes. Where it fails, it says what the library does that you did not think of.
#
# Every kernel so far did one operation. In 06 several operations become one kernel, and the bytes between them disappear.

# %% gpu="tiling.progress"
progress()

# %% [markdown]
# The unit has {{unit points}} in {{unit exercises}}. Hand in this notebook; the grader runs the same checks on inputs
# that you have not
# seen.
#
# ## Where to read on
#
# * The Triton documentation, the tutorial *Matrix Multiplication*: pointers, grouped order, autotuning.
# * NVIDIA, *Matrix Multiplication Background User's Guide*: tile and wave quantization, alignment.
# * Horace He, *What Shapes Do Matrix Multiplications Like?*: the plot that this unit's mystery follows.
# * NVIDIA, CUTLASS documentation, *Efficient GEMM in CUDA*: thread block tiles, warp tiles, pipelining.
# * Simon Boehm, *How to Optimize a CUDA Matmul Kernel for cuBLAS-like Performance*, 2022.
# * Aleksa Gordić, *Inside NVIDIA GPUs: Anatomy of high performance matmul kernels*, 2025: PTX and SASS, warp tiles, and on
#   Hopper TMA, barriers and asynchronous stores.
# * Stanford, *CS336: Language Modeling from Scratch*: the lecture on GPUs, which has the plot of this unit's mystery.
# * Andrej Karpathy on padding nanoGPT's vocabulary to 50304, 2023 (about 25 % faster training).
