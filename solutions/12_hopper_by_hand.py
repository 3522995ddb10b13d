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
# # 12 · Hopper by hand
#
# **After this unit you can** say what limits a card: power, registers, latency, or a level of memory. You can read its
# machine code, and write Hopper's instructions by hand: copies by TMA, barriers with phases, `wgmma`, and warps with
# roles. And you can say which wait is missing in a kernel that is wrong in one run of a thousand. This unit takes
# several sittings and about {{unit hours}} in all, including {{unit minutes}} for the {{unit exercises}}. You need 05
# (tiles, a matmul) and 09 (FlashAttention). You need no Hopper and no other GPU: kernels in **Gluon**, the language
# below Triton, run here in a simulator that is as asynchronous as the chip. The simulator tries many orders, and names
# what goes wrong in any of them.

# %%
import re

import torch
import triton
import triton.language as tl

from course_lib import check, compile_for, figures, hint, progress, trace  # noqa: F401 (some are yours to call)
from course_lib.compiled import ptx_for, sass_for
from course_lib.hardware import gpu
from course_lib.hardware.measurements import measured
from course_lib.hopper import bank_conflicts, simulate
from course_lib.hopper.language import (  # noqa: F401 (yours to use)
    TensorDescriptor,
    barrier,
    commit_group,
    copy_async,
    fence_async_shared,
    gl,
    gluon,
    mbarrier,
    mma,
    mma_wait,
    new_barriers,
    store_wait,
    tma_load,
    tma_store,
    wait_group,
)

# %% [markdown]
# # Part one: what needs no Hopper
#
# ## The question
#
# How fast is unit 05's product on an H200, next to NVIDIA's own library, and next to the datasheet?

# %%
tiling = measured("tiling")
print(f"unit 05   {max(row['flops'] for row in tiling['tiles']) / 1e12:5.0f} TFLOP/s")
print(f"cuBLAS    {tiling['cublas']['4096'] / 1e12:5.0f}")
print(f"datasheet {gpu.datasheet('H200').bf16_flops / 1e12:5.0f}")

# %% [markdown]
# The library is not much faster than your kernel, and the figure of the datasheet is far above both. Three explanations
# are possible: the chip cannot do what the datasheet says, the kernels waste what it can do, or the chip does not get
# enough power. Which of these is the main reason?

# %% predict="hopper.guess_light"
# Write "chip", "kernels" or "power" before you go on; it earns no points. The answer is in "Zeros and random numbers" below.
guess_light = ...

# %% [markdown]
# ## The speed of light
#
# A tensor core does a fixed number of multiply-adds in a cycle. An SM has four tensor cores, a GPU has a certain number
# of SMs, and the clock gives the cycles in a second. No kernel can be faster than the product of these numbers, just as
# nothing is faster than light. On Hopper the four tensor cores of an SM do 2048 multiply-adds of half-precision numbers
# in a cycle. (That is 512 each. NVIDIA's *H100 Tensor Core GPU Architecture* says 1024, but this counts sparsity, and
# dense matrices get half of it.) Which clock does the datasheet's figure assume?

# %%
macs = {"T4": 512, "A100 80GB": 1024, "L4": 512, "H200": 2048}  # half-precision multiply-adds of an SM in a cycle
for name, of_an_sm in macs.items():
    card = gpu.datasheet(name)
    clock = card.fp16_flops / (card.sms * 2 * of_an_sm)
    print(
        f"{name:10} {card.fp16_flops / 1e12:6.1f} TFLOP/s / ({card.sms:3} SMs x 2 x {of_an_sm:4}) = {clock / 1e9:.2f} GHz"
    )

# %% [markdown]
# The clock of an H200 may go up to 1.98 GHz, and the datasheet assumes 1.83 GHz. Can the chip keep this up? A chip has
# a power limit, 700 watts for an H200, and its transistors need energy each time they switch. This energy grows with
# the square of the voltage, and a higher clock needs a higher voltage. If the voltage grows in proportion to the clock,
# the watts for switching grow with the *cube* of the clock. When these watts and those that a chip draws at any clock
# exceed the limit together, the chip lowers its clock: it **throttles**.
#
# By which factor must the clock fall so that switching takes half as many watts? Guess before you compute it below.

# %% [markdown]
# ## Exercise: the speed of light, and of power
#
# {{exercise hopper.speed_of_light}}
#
# A chip has `sms` SMs, each of which does `macs` multiply-adds in a cycle. At `clock` cycles a second it draws `idle`
# watts that do not depend on the clock, and `switching` watts that grow with its cube. It may draw `limit` watts, which
# is more than `idle`. Return two numbers: the FLOP/s at that clock, and the FLOP/s at the highest clock that stays
# within the limit and is not above the given one. Full marks require
# * both numbers if power does not matter ({{correct.peak}}),
# * both numbers if the chip throttles ({{correct.throttled}}).


# %% exercise="hopper.speed_of_light"
def speed_of_light(
    sms: int, macs: int, clock: float, idle: float, switching: float, limit: float
) -> tuple[float, float]:
    """(FLOP/s at this clock, FLOP/s at the highest clock that the limit allows); clock in cycles a second, the others in watts."""
    ### BEGIN SOLUTION
    peak = 2 * sms * macs * clock
    share = min(1.0, ((limit - idle) / switching) ** (1 / 3))
    return peak, peak * share
    ### END SOLUTION


# %% check="hopper.speed_of_light"
check("hopper.speed_of_light", speed_of_light)

# %% [markdown]
# ## Zeros and random numbers
#
# Unit 03 measured the same product of bfloat16 twice, with 8192 × 8192 matrices of zeros and of random numbers. The
# multiplications are the same. How high must the clock of the tensor cores have been, at least? (If they waited in some
# cycles, it was higher.)

# %%
ceilings = measured("mystery_plot")["ceilings"]
for numbers in ("zeros", "random"):
    reached = ceilings[numbers]["bf16"]
    print(f"{numbers:6} {reached / 1e12:5.0f} TFLOP/s: at least {reached / (132 * 2 * 2048) / 1e9:.2f} GHz")

# %% [markdown]
# With zeros the wires that carry numbers keep their level, so a cycle costs less energy, and more cycles fit into the
# limit. The tensor cores skip nothing, and the kernel is the same, with the same waits. Only the **power** differs. If
# switching took twice as many watts for random numbers, the clock would fall to 79 %, according to your function. The
# measured speeds differ by less than that.
#
# This answers the question, as far as a measurement can. Of the 311 TFLOP/s between 678 and 989, zeros win back 125. At
# least this much is due to power, and no kernel of the same kind can win it back on random numbers. It may be more,
# since the product of zeros may lack power, too. So if you optimise a large product, energy is what you can still save.
# A kernel that moves fewer bytes leaves watts for the tensor cores, and SMs that are idle in the last wave leave theirs
# to the others. And a benchmark on zeros proves nothing.
#
# ## Exercise: watts, true or false
#
# {{exercise hopper.power}}
#
# Here are six statements about an H200. Write True or False for each ({{truths.plain}}). The measurements are those of
# the cell above. The same word on all six lines earns nothing.

# %% exercise="hopper.power"
power = {
    "989.4 TFLOP/s need 1.83 GHz on all 132 SMs": ...,
    "zeros need fewer multiplications": ...,
    "during the product of zeros the clock can have been 1.4 GHz": ...,
    "during the product of random numbers the clock can have been 1.3 GHz": ...,
    "half of the power for switching would leave less than 3/4 of the speed": ...,
    "watts that one SM does not use, the others may": ...,
}
### BEGIN SOLUTION
power = {
    "989.4 TFLOP/s need 1.83 GHz on all 132 SMs": True,
    "zeros need fewer multiplications": False,
    "during the product of zeros the clock can have been 1.4 GHz": False,
    "during the product of random numbers the clock can have been 1.3 GHz": True,
    "half of the power for switching would leave less than 3/4 of the speed": False,
    "watts that one SM does not use, the others may": True,
}
### END SOLUTION

# %% check="hopper.power"
check("hopper.power", power)

# %% [markdown]
# ## Room on an SM
#
# Unit 05 asked how many programs fit onto an SM. It knew four kinds of room: registers, shared memory, warps and places
# for programs. It treated the registers as one pool. Three facts make the count harder:
#
# * An SM has four **partitions**. Each has its own scheduler, its own tensor core and a quarter of the registers,
#   16,384. A warp lives in one partition, with all its registers. If the registers that are left in a partition are too
#   few for a warp, they are not used. The warps of one program need not be spread evenly over the partitions.
# * A warp gets registers in units of 256, which is 8 for each thread.
# * A program's shared memory is rounded up to units of 128 bytes (256 on cards before Ampere). On Ampere and later
#   cards, the 1024 bytes that the system takes for itself are added first.
#
# If a thread of some kernel needs 96 registers, a warp needs 3072. How many such warps fit into 65,536 registers, and
# how many into four partitions of 16,384?

# %%
print(65536 // 3072, "warps in one pool,", 4 * (16384 // 3072), "in four partitions")
for name in ("T4", "L4", "H200"):
    print(f"{name:5}", gpu.datasheet(name).sm_limits)

# %% [markdown]
# The partitions have room for one warp less. A program of 7 warps fits three times into the pool, and twice into the
# partitions.
#
# ## Exercise: occupancy by four limits
#
# {{exercise hopper.occupancy}}
#
# A thread has `registers` registers. A program has `shared` bytes of shared memory (at least one) and `warps` warps.
# `gpu` is one of the dictionaries above. Return how many programs fit onto an SM, and the limit that sets this number:
# "registers", "shared memory", "warps" or "programs" (the places for programs). If several limits give the same number,
# any of them is right. If nothing fits, the number is 0. Full marks require right answers for
# * every number of registers from 16 to 255, with 1 to 16 warps, on two cards ({{holds.as_nvidia_counts.registers}}),
# * every KiB of shared memory, on three cards ({{holds.as_nvidia_counts.shared memory}}),
# * all limits together, on seven cards from a T4 to a B200 ({{holds.as_nvidia_counts.all together}}).


# %% exercise="hopper.occupancy"
def occupancy(registers: int, shared: int, warps: int, gpu: dict[str, int]) -> tuple[int, str]:
    """(programs on an SM, the limit that sets this number). gpu: warps, programs, registers, partitions, register_unit, shared_bytes,
    reserved_bytes, shared_unit."""

    ### BEGIN SOLUTION
    def whole(amount, unit):
        return -(-amount // unit) * unit

    a_warp = whole(32 * registers, gpu["register_unit"])
    in_a_partition = gpu["registers"] // gpu["partitions"] // a_warp
    room = {
        "registers": gpu["partitions"] * in_a_partition // warps,
        "shared memory": gpu["shared_bytes"] // whole(shared + gpu["reserved_bytes"], gpu["shared_unit"]),
        "warps": gpu["warps"] // warps,
        "programs": gpu["programs"],
    }
    limit = min(room, key=room.get)
    return room[limit], limit
    ### END SOLUTION


# %% check="hopper.occupancy"
check("hopper.occupancy", occupancy)

# %% [markdown]
# Move the sliders. At which numbers of registers does an H200 lose a program? What does the 129th register of a thread
# cost, with 4 warps? And from how much shared memory on do more registers no longer cost a program?

# %%
figures.hopper.explore_occupancy()

# %% [markdown]
# Occupancy is only a means. It gives a scheduler warps to choose from, so that a wait costs nothing. But the attention
# in benchmarks/attention_overlapped.py, one of the fastest of this course, has only one program on each SM. Two groups
# of four warps multiply, and one more warp fetches. That makes nine warps, with room for 64. What hides its waits?
#
# ## Chains
#
# A multiply-add takes about 4 cycles until its result can be used (unit 00 measured 4.11 on an H200), yet a scheduler
# can begin one in each cycle. If a warp needs each result for its next instruction, its instructions are one **chain**,
# and use a quarter of the cycles. Four such warps fill the gaps, as unit 00 found. Two independent chains in one warp
# use half of the cycles, without a second warp. This is **instruction-level parallelism**, ILP. The units that execute
# an instruction are a **pipe**: it can take a new instruction every `interval` cycles, and each result is there after
# `latency` cycles. By *Little's law* the pipe is busy if `latency / interval` instructions are in flight, whichever
# warps and chains they belong to.
#
# What is the rate of one warp with 1, 2 and 4 chains, in multiply-adds a cycle? And what is the rate of 2 warps with 4
# chains each? Write your answers down before you look.

# %%
figures.hopper.chains()

# %% [markdown]
# The star is the measurement of unit 00: one warp, one chain. Not every pipe takes an instruction in each cycle. A
# partition has 32 lanes for float32 multiply-adds, so a warp's instruction enters in a single cycle. But it has only 4
# lanes for exponentials, so a warp's exponential keeps this pipe busy for 8 cycles.
#
# Memory is a pipe, too. How many bytes must be in flight so that an H200's DRAM is never idle?

# %%
found = measured("memory_hierarchy")
latency, bandwidth = found["latency"][-1][2], found["bandwidth"][-1][1]
flying = latency * bandwidth
print(f"{latency * 1e9:.0f} ns x {bandwidth / 1e12:.2f} TB/s = {flying / 1e6:.2f} MB in flight, {flying / 132 / 1024:.1f} KiB for each SM,"
      f" or {flying / 132 / 4:.0f} threads with a load of 4 bytes")  # fmt: skip

# %% [markdown]
# If each thread has one load of 4 bytes in flight, this takes more threads than the 2048 that an SM has room for. With
# loads of 16 bytes, 738 threads are enough. On Hopper a single thread is enough, if it asks a copy engine called TMA
# for a tile of 128 × 64 half-precision numbers, 16 KiB. The bytes then arrive in shared memory, and no register waits
# for them. This is what hides the waits of a kernel with nine warps.
#
# ## Exercise: chains and warps
#
# {{exercise hopper.chains}}
#
# `warps` warps run on one scheduler, each with `chains` chains of `steps` instructions. An instruction of a chain can
# begin `latency` cycles after the one before it began. The pipe can begin an instruction, of any chain, every
# `interval` cycles. The scheduler takes the instruction that has been ready for longest. Return two numbers: the cycle
# in which the last result is there, if the first instruction begins in cycle 0, and the smallest number of warps, with
# `chains` chains each, for which the pipe never waits while there is work. Full marks require both numbers
# * if too few instructions are in flight ({{correct.waits}}),
# * if enough of them are in flight ({{correct.busy}}),
# * for pipes that do not take an instruction in each cycle ({{correct.slow pipe}}).


# %% exercise="hopper.chains"
def chains_and_warps(warps: int, chains: int, steps: int, latency: int, interval: int) -> tuple[int, int]:
    """(cycles until the last result, fewest warps that keep the pipe busy)."""
    ### BEGIN SOLUTION
    a_round = warps * chains * interval
    cycles = (steps - 1) * max(latency, a_round) + a_round - interval + latency
    return cycles, -(-latency // (chains * interval))
    ### END SOLUTION


# %% check="hopper.chains"
check("hopper.chains", chains_and_warps)

# %% [markdown]
# ## Tiles within tiles
#
# Unit 05 cut a product into tiles for programs, and saw that the warps of a program read the same numbers of shared
# memory again. What does a kernel do that uses no tensor cores? It cuts the tiles twice more. A program's tile is
# divided into **warp tiles**, one for each warp, and a warp tile is divided among 32 threads. In each step of k a
# thread loads a column of its part of a and a row of its part of b, 8 numbers each, and computes all 64 products of
# them: an **outer product**, in registers.
#
# Why 8 × 8? A thread with a tile of t × t loads 2 t numbers and does t² multiply-adds. An SM does 128 float32
# multiply-adds in a cycle, and its shared memory hands 32 numbers (128 bytes) to threads. A number that is broadcast to
# eight lanes counts eight times here, since it goes into eight registers. For which t do loads and multiply-adds take
# equally long? Compute it before you go on.

# %%
for t in (1, 2, 4, 8, 16):
    print(
        f"{t:2} x {t:<2} {t * t / 128:6.3f} cycles of arithmetic, {2 * t / 32:6.3f} of shared memory, {t * t + 2 * t:4} registers"
    )

# %% [markdown]
# At 8 × 8 both take half a cycle. Smaller tiles wait for shared memory, and 16 × 16 needs more than the 255 registers
# that a thread can have. Simon Boehm's last kernel (see *Further reading*) has thread tiles in warp tiles in program
# tiles, and reaches 93.7 % of cuBLAS for float32 on an A6000.

# %%
figures.hopper.nested_tiles()

# %% [markdown]
# In Triton the compiler chooses warp and thread tiles. Here is a product for ordinary cores, as a sum of outer
# products. With 4 warps, how many sums of a tile of 128 × 128 does each thread hold? How many multiply-adds does it do
# in each step of k, and how many registers does it need at least?


# %%
@triton.jit
def by_outer_products(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    """Compute a tile of a.T @ b, for a (K, M) and b (K, N): for each k, a row of a times a row of b."""
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K):
        acc += tl.load(a_ptr + k * M + rows)[:, None] * tl.load(b_ptr + k * N + cols)[None, :]
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], acc)


a, b, c = torch.randn(64, 128), torch.randn(64, 128), torch.empty(128, 128)
with trace() as t:
    by_outer_products[(1, 1)](a, b, c, 128, 128, 64, BLOCK=128)
print(f"off by at most {(c - a.T @ b).abs().max():.1e}; {t.loads.bytes:,} bytes loaded, each once")
ptx = ptx_for(by_outer_products, a, b, c, 128, 128, 64, BLOCK=128, num_warps=4)
print(len(re.findall(r"fma\.rn\.f32", ptx)), "multiply-adds of each thread in a step")
compile_for(by_outer_products, a, b, c, 128, 128, 64, BLOCK=128, num_warps=4)

# %% [markdown]
# Each thread holds 128 sums, does 128 multiply-adds in a step, and needs more than 128 registers. A thread multiplies
# each number that it has fetched with all its partners before it drops the number. Tensor cores changed the numbers,
# not the idea: four warps hand up to 64 × 256 sums at once to `wgmma`, and these sums stay in registers in the same
# way.
#
# ## Exercise: bytes at each level
#
# {{exercise hopper.warp_tile_bytes}}
#
# In one step along K, of length `bk`, a program's `tile` (M, N) gets its bk columns of a and bk rows of b into shared
# memory. Each warp tile gets the numbers that it needs out of shared memory, and each thread tile gets those that it
# needs into registers. Each of them gets every number once, and none from a neighbour. Return three numbers of bytes:
# what comes into shared memory, what the warps ask for, and what the threads receive. (In the third number, a value
# that is broadcast to eight threads counts eight times.) A warp tile is a part of the tile, and a thread tile is a part
# of its warp tile. At the edges they are cut off. Full marks require the right numbers for
# * tiles that divide one another ({{correct.whole}}),
# * tiles that are cut off ({{correct.edges}}).


# %% exercise="hopper.warp_tile_bytes"
def warp_tile_bytes(
    tile: tuple[int, int], warp_tile: tuple[int, int], thread_tile: tuple[int, int], bk: int, itemsize: int
) -> tuple[int, int, int]:
    """Return bytes of a and b in a step: into shared memory, out of it for the warps, into the registers of threads."""

    ### BEGIN SOLUTION
    def numbers(M, N, m, n):
        return M * triton.cdiv(N, n) + N * triton.cdiv(M, m)

    (M, N), (m, n) = tile, warp_tile
    of_threads = sum(
        numbers(min(m, M - i), min(n, N - j), *thread_tile) for i in range(0, M, m) for j in range(0, N, n)
    )
    return tuple(bk * itemsize * count for count in (M + N, numbers(M, N, m, n), of_threads))
    ### END SOLUTION


# %% check="hopper.warp_tile_bytes"
check("hopper.warp_tile_bytes", warp_tile_bytes)

# %%
l2 = 9.7e12 / 132 / 1.83e9  # bytes per cycle for an SM, from unit 00's measurement; its shared memory gives 128
for tile, warp_tile, thread_tile in (
    ((128, 128), (64, 32), (8, 8)),
    ((128, 128), (64, 32), (4, 4)),
    ((16, 16), (16, 16), (4, 4)),
):
    found = warp_tile_bytes(tile, warp_tile, thread_tile, 8, 4)
    if found is None:
        print("solve warp_tile_bytes to see the numbers")
        break
    flops = 2 * tile[0] * tile[1] * 8
    roofs = [flops / moved * rate for moved, rate in zip(found, (l2, 128, 128), strict=True)]
    print(f"{tile!s:10} {warp_tile!s:8} {thread_tile!s:6} FLOP/byte:", *(f"{flops / moved:5.1f}" for moved in found),
          "   roofs, FLOP per cycle:", *(f"{roof:5.0f}" for roof in roofs))  # fmt: skip

# %% [markdown]
# An SM does 256 float32 FLOPs in a cycle on its ordinary cores. A roof below 256 holds the kernel back. With thread
# tiles of 4 × 4 it is the last roof, what threads load. With program tiles of 16 × 16 it is the first roof as well,
# that of L2. Every level has a roof of its own, and the lowest one counts.
#
# ## Reading machine code
#
# What does the compiler make of your tiles? `compile_for` says it in a table, and `ptx_for` and `sass_for` show the
# code. Here are five kernels to read. They are compiled for a GPU that you need not have.


# %%
@triton.jit
def copy_rows(x_ptr, out_ptr, stride, BLOCK: tl.constexpr):
    """Copy a row in each program."""
    i = tl.program_id(0) * stride + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i))


@triton.jit
def one_chain(x_ptr, out_ptr, steps, BLOCK: tl.constexpr):
    """Compute y = y * x + 1/2 again and again: one chain."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    y = x
    for _ in range(0, steps):
        y = y * x + 0.5
    tl.store(out_ptr + i, y)


@triton.jit
def two_chains(x_ptr, out_ptr, steps, BLOCK: tl.constexpr):
    """Compute two such chains, which do not need one another, and add their results."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    y, z = x, 2 * x
    for _ in range(0, steps):
        y = y * x + 0.5
        z = z * x + 0.25
    tl.store(out_ptr + i, y + z)


@triton.jit
def by_pointers(a_ptr, b_ptr, c_ptr, N, K, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr):
    """Compute a tile of a product, by addresses."""
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        acc = tl.dot(tl.load(a_ptr + rows * K + k[None, :]), tl.load(b_ptr + k[:, None] * N + cols), acc)
    tl.store(c_ptr + rows * N + cols, acc.to(c_ptr.dtype.element_ty))


@triton.jit
def by_descriptors(a_desc, b_desc, c_desc, K, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr):
    """Compute the same tile, by descriptors."""
    m, n = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK_K):
        acc = tl.dot(a_desc.load([m, k]), b_desc.load([k, n]), acc)
    c_desc.store([m, n], acc.to(c_desc.dtype))


# %% [markdown]
# We begin with the loop of `one_chain`, in PTX and in machine code. PTX is what Triton produces, for an abstract
# machine with any number of registers. `fma.rn.f32` is a multiply-add that rounds once (`rn` means to the nearest); its
# last operand, 0f3F000000, is 0.5, written in bits. `setp` compares, and `@%p bra` jumps if the comparison holds.
# NVIDIA's assembler, `ptxas`, turns PTX into SASS, the machine code of one chip: it chooses registers, orders
# instructions, and may copy the body of a loop. How many multiply-adds stand between the label and the jump, in each of
# the two?

# %%
x = torch.empty(4096)
ptx = ptx_for(one_chain, x, x, 1000, BLOCK=128)
print("\n".join(line for line in ptx.splitlines() if re.search(r"^\$L__BB\S+:|fma|setp|bra|add.s32", line)))

# %%
try:
    sass = sass_for(one_chain, x, x, 1000, BLOCK=128)
    print("\n".join(line for line in sass.splitlines() if re.search(r"^LBB\d+:|FFMA|BRA|ISETP|LDG|STG", line)))
except ValueError as missing:
    print(missing)

# %% [markdown]
# The PTX has one, and the SASS has several, with another loop for the steps that are left over: ptxas has **unrolled**
# the loop. This saves comparisons and jumps. It does not shorten the wait, because each FFMA reads the register that
# the one before it writes. A chain stays a chain, however often it is written down. You can control unrolling:
# `tl.range(..., loop_unroll_factor=4)` unrolls a loop four times, and `tl.static_range` unrolls it completely. ptxas
# may unroll a remaining loop once more.
#
# And what does a product look like? Here are the PTX instructions of `by_pointers` that move or multiply something,
# each with its name in SASS and what it does. A step of the loop is 32 long. How many `wgmma.mma_async` do you expect
# in it?

# %%
says = {
    "cp.async.cg": ("LDGSTS", "16 bytes for each thread, from global to shared memory, past its registers"),
    "cp.async.commit_group": ("LDGDEPBAR", "the copies begun so far are one group"),
    "cp.async.wait_group": ("DEPBAR", "wait until at most so many groups are under way"),
    "bar.sync": ("BAR.SYNC", "all warps meet: from here on everybody sees the tile"),
    "wgmma.fence": ("WARPGROUP.ARRIVE", "the sums' registers are ready for the tensor cores"),
    "wgmma.mma_async": (
        "HGMMA",
        "four warps: 64 x 64 sums += 64 x 16 of a times 16 x 64 of b, which goes on by itself",
    ),
    "wgmma.commit_group": ("(in HGMMA)", "the products begun so far are one group"),
    "wgmma.wait_group": ("WARPGROUP.DEPBAR", "wait until at most so many groups are under way"),
    "st.shared": ("STS", "results to shared memory, so that others can take them"),
    "ldmatrix": ("LDSM", "and back, in another order"),
    "st.global": ("STG", "16 bytes for each thread, to c"),
}
halves = [torch.empty(512, 512, dtype=torch.float16) for _ in range(3)]
ptx = ptx_for(by_pointers, *halves, 512, 512, BLOCK=64, BLOCK_K=32)
for name, (in_sass, what) in says.items():
    print(f"{len(re.findall(re.escape(name) + r'[. ;]', ptx)):3} x {name:22} {in_sass:17} {what}")

# %% [markdown]
# There are two, and each takes 16 of the 32. The copies and the products go on by themselves, and the loop has one wait
# for the copies and one for the products. Part two is about such instructions, and about who waits for them.
#
# Compilers are not perfect, and you find this out by reading their code. Here are three cases from this course:
# * With rows of 1001 floats, every fourth row begins at a multiple of 16 bytes. All rows use the same code, so all
#   loads are as narrow as the worst row needs.
# * A tile of sums that is too large for its warps spills into slow memory. `compile_for` says how many bytes; the compiler
#   itself says nothing.
# * In benchmarks/attention_overlapped.py the softmax of one tile stands between the start of a product and the wait for
#   it. ptxas moved the exponentials to after the wait, where no product was left to run at the same time. It moves
#   nothing across a branch, so the kernel has this wait in a loop, with a comment that says why.
#
# ## Exercise: read the machine code
#
# {{exercise hopper.machine_code}}
#
# Compile the kernels with these calls, and read the results. If you do not have NVIDIA's tools, `ptx_for` gives most of
# the answers, and you can work out the rest.
#
# ```python
# from triton.tools.tensor_descriptor import TensorDescriptor as HostDescriptor
#
# compile_for(copy_rows, x, x, 1024, BLOCK=512)                            # and with 1001
# sass_for(one_chain, x, x, 1000, BLOCK=128)                               # and of two_chains
# compile_for(by_pointers, *halves, 512, 512, BLOCK=64, BLOCK_K=32)        # and with gpu="sm_80"
# shapes = [64, 32], [32, 64], [64, 64]
# descriptors = [HostDescriptor.from_tensor(t, shape) for t, shape in zip(halves, shapes)]
# compile_for(by_descriptors, *descriptors, 512, BLOCK=64, BLOCK_K=32)
# compile_for(by_pointers, *halves, 512, 512, BLOCK=128, BLOCK_K=32, num_warps=4)     # and with 1, some seconds
# ```
#
# * How many bits does a thread load at once, for each stride?
# * How many FFMAs stand between the label and the jump back, in the longest loop of either kernel? And of the FFMAs of
#   `two_chains`, how many form one chain, in which each waits for the one before it?
# * Answer with one of the words in quotation marks: does "mma" or "wgmma" multiply on each GPU? (A100 is sm_80, H200
#   sm_90.) Does "cp.async" or "TMA" copy the tiles on sm_90?
# * With how many warps does a tile of 128 × 128 spill: "4 warps", "1 warp", "4 warps and 1 warp" or "none"?
#
# Each of the ten answers is worth {{numbers.plain / 10}}.

# %% exercise="hopper.machine_code"
read_code = {
    "bits, rows of 1024": ...,
    "bits, rows of 1001": ...,
    "FFMAs before the jump, one chain": ...,
    "FFMAs before the jump, two chains": ...,
    "longest row of FFMAs that wait for one another, two chains": ...,
    "multiplies, sm_80": ...,
    "multiplies, sm_90": ...,
    "copies, by_pointers": ...,
    "copies, by_descriptors": ...,
    "spills": ...,
}
### BEGIN SOLUTION
read_code = {
    "bits, rows of 1024": 128,
    "bits, rows of 1001": 32,
    "FFMAs before the jump, one chain": 4,
    "FFMAs before the jump, two chains": 8,
    "longest row of FFMAs that wait for one another, two chains": 4,
    "multiplies, sm_80": "mma",
    "multiplies, sm_90": "wgmma",
    "copies, by_pointers": "cp.async",
    "copies, by_descriptors": "TMA",
    "spills": "1 warp",
}
### END SOLUTION

# %% check="hopper.machine_code"
check("hopper.machine_code", read_code)

# %% [markdown]
# ## Tiles by descriptor
#
# A kernel with pointers computes an address for each element, and a mask for each edge. On Hopper one thread can ask a
# unit called **TMA**, the *tensor memory accelerator*, for a whole tile. TMA gets a **descriptor**, which the host
# makes once: it says where the matrix lies, its shape and strides, and the shape of a tile. TMA then computes the
# addresses itself, and puts the tile into shared memory in the order that the tensor cores need. A load fills elements
# beyond an edge with zeros, and a store leaves them out. Meanwhile no thread waits, and no register holds the tile.
#
# In Triton a descriptor is an argument of the kernel. (Its class is called `TensorDescriptor`, as is Gluon's in part
# two, so this part says `HostDescriptor`.)
#
# ```python
# a_desc = HostDescriptor.from_tensor(a, [64, 32])  # on the host: a matrix in tiles of 64 x 32
# tile = a_desc.load([m, k])                          # in the kernel: the tile whose first element is a[m, k]
# c_desc.store([m, n], tile)                          # a block of the descriptor's dtype
# ```
#
# TMA has conditions. The matrix and each of its rows must begin at a multiple of 16 bytes, and neighbours in a row must
# be neighbours in memory. Which of unit 05's cases would TMA refuse?
#
# It would refuse odd sizes, transposed views and slices. benchmarks/matmul_persistent.py copies such matrices first,
# and is faster because of it. The same kernel also runs on cards before Hopper, where the compiler turns descriptors
# into addresses and masks.
#
# ## Exercise: a product by descriptors
#
# {{exercise hopper.descriptor_matmul}}
#
# Write `descriptor_matmul(a, b)`, which returns a @ b. The matrices are contiguous, of float16 or bfloat16, and K and N
# are multiples of 8. Sum in float32. Full marks require
# * sizes that tiles do not divide ({{correct.ragged}}), and long sums ({{correct.long}}),
# * descriptors for all loads and stores ({{by_descriptors.performance}}),
# * that a is read at most N / 64 times ({{rereads.a.performance}}), and b at most M / 64 times
#   ({{rereads.b.performance}}).

# %% exercise="hopper.descriptor_matmul"
from triton.tools.tensor_descriptor import TensorDescriptor as HostDescriptor


### BEGIN SOLUTION
@triton.jit
def descriptor_kernel(a_desc, b_desc, c_desc, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """Compute the tile of c at (pid 0, pid 1). TMA knows where matrices end."""
    m, n = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K, BLOCK_K):
        acc = tl.dot(a_desc.load([m, k]), b_desc.load([k, n]), acc)
    c_desc.store([m, n], acc.to(c_desc.dtype))


### END SOLUTION
def descriptor_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a (M, K) @ b (K, N) -> (M, N); contiguous halves, K and N multiples of 8."""
    ### BEGIN SOLUTION
    (M, K), N = a.shape, b.shape[1]
    BLOCK_M, BLOCK_N, BLOCK_K = 64, 128, 32
    c = torch.empty(M, N, dtype=a.dtype, device=a.device)
    a_desc = HostDescriptor.from_tensor(a, [BLOCK_M, BLOCK_K])
    b_desc = HostDescriptor.from_tensor(b, [BLOCK_K, BLOCK_N])
    c_desc = HostDescriptor.from_tensor(c, [BLOCK_M, BLOCK_N])
    grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))
    descriptor_kernel[grid](a_desc, b_desc, c_desc, K, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K)
    return c
    ### END SOLUTION


# %% check="hopper.descriptor_matmul"
check("hopper.descriptor_matmul", descriptor_matmul)

# %% [markdown]
# ## An epilogue
#
# In a model, a bias and an activation often follow a product. As separate kernels, each of them would read and write
# the whole result once more. But when the loop along K ends, the sums are still in registers. To add the bias there, a
# program loads BLOCK_N numbers for a tile, and the activation moves no bytes at all. What is done to a tile between the
# loop and the store is called the **epilogue**. How many bytes does it save, in a layer of 4096 tokens and 14,336
# columns in half precision?

# %%
result = 4096 * 14336 * 2
print(f"the result: {result / 2**20:.0f} MiB; bias and activation as two kernels: {4 * result / 2**20:.0f} MiB more")

# %% [markdown]
# ## Exercise: a layer in one kernel
#
# {{exercise hopper.linear_silu}}
#
# Return y · sigmoid(y), where y = x @ w + bias, in half precision as before. You may use descriptors or pointers. Round
# only once, at the end. If the product is rounded first, and the bias nearly cancels it, hardly any digit of the result
# is right. Full marks require
# * sizes that tiles do not divide ({{correct.ragged}}), and sums that the bias nearly cancels ({{correct.precision}}),
# * one launch ({{launches.performance}}), and no more bytes than the product in tiles of 64 × 64 and the bias
#   ({{traffic.performance}}).


# %% exercise="hopper.linear_silu"
### BEGIN SOLUTION
@triton.jit
def linear_silu_kernel(
    x_ptr, w_ptr, bias_ptr, out_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    """Compute a tile of silu(x @ w + bias)."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + rows * K + k[None, :], mask=(rows < M) & (k[None, :] < K), other=0)
        w = tl.load(w_ptr + k[:, None] * N + cols[None, :], mask=(k[:, None] < K) & (cols[None, :] < N), other=0)
        acc = tl.dot(x, w, acc)
    acc += tl.load(bias_ptr + cols, mask=cols < N, other=0).to(tl.float32)[None, :]
    acc = acc * tl.sigmoid(acc)
    tl.store(
        out_ptr + rows * N + cols[None, :], acc.to(out_ptr.dtype.element_ty), mask=(rows < M) & (cols[None, :] < N)
    )


### END SOLUTION
def linear_silu(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """x (M, K), w (K, N), bias (N,) -> silu(x @ w + bias), (M, N)."""
    ### BEGIN SOLUTION
    (M, K), N = x.shape, w.shape[1]
    out = torch.empty(M, N, dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(M, 64), triton.cdiv(N, 128))
    linear_silu_kernel[grid](x, w, bias, out, M, N, K, BLOCK_M=64, BLOCK_N=128, BLOCK_K=32)
    return out
    ### END SOLUTION


# %% check="hopper.linear_silu"
check("hopper.linear_silu", linear_silu)

# %% [markdown]
# ## As many programs as SMs
#
# A launch of 2304 tiles on 132 SMs starts 2304 programs. Each program has a beginning, in which its pipeline is empty
# and the tensor cores wait, and an end, in which the tensor cores have nothing left to do. A **persistent** kernel
# starts only as many programs as there are SMs, and each program takes tile after tile. (Here the word means programs
# that stay on their SM. In unit 06 it meant rows that stay in registers.) What do you gain? The next tile's loads begin
# while this tile is stored, barriers and descriptors are set up once, and the kernel itself decides which program works
# on what, and when.
#
# There are two plans for program `pid`. It may take a piece of the order, tiles pid × 18 to pid × 18 + 17, or every
# 132nd tile, from tile pid on. Which plan reads less from DRAM? Before you answer, think about which tiles are computed
# *at the same time*.

# %%
figures.hopper.walks()

# %% [markdown]
# All SMs share one L2. What counts is how many rows of a and columns of b all programs need at the same time, not which
# tiles one program computes one after another.
#
# ## Exercise: a persistent order
#
# {{exercise hopper.persistent_order}}
#
# Return the tiles (m, n) of program `pid`, in the order in which it works on them. There are `sms` programs, and grid_m
# × grid_n tiles. `group` is as in unit 05, where you wrote `grouped_order(pid, grid_m, grid_n, group)`. Write it again
# here, or find another order that is as good. The L2 model takes the first tiles of all programs together, then the
# second tiles, and so on. Full marks require
# * that each tile is computed once, and that no program has more tiles than the mean, rounded up
#   ({{holds.is_dealt.dealt}}),
# * at most 0.65 of the bytes that are read from DRAM if each program takes every `sms`-th tile in row order
#   ({{holds.shares_l2.cache}}).


# %% exercise="hopper.persistent_order"
def persistent_order(pid: int, sms: int, grid_m: int, grid_n: int, group: int) -> list[tuple[int, int]]:
    """The tiles (m, n) of program pid, one after the other."""
    ### BEGIN SOLUTION
    tiles = []
    for number in range(pid, grid_m * grid_n, sms):
        first = number // (group * grid_n) * group
        height = min(group, grid_m - first)
        within = number % (group * grid_n)
        tiles.append((first + within % height, within // height))
    return tiles
    ### END SOLUTION


# %% check="hopper.persistent_order"
check("hopper.persistent_order", persistent_order)

# %% [markdown]
# ## Parts of tiles
#
# Suppose that there are 140 tiles for 132 SMs. Then the second round has 8 tiles, and 124 SMs are idle. Larger tiles do
# not help, and smaller ones move more bytes. What else can be cut? A tile is a sum of steps along K. Give each program
# the same number of *steps*, wherever tiles end: this is **Stream-K** (Osama and others, 2023). If the steps of a tile
# belong to two programs, this costs something: one program leaves its sums in memory, and the other adds them to its
# own. So no program should cut more tiles than it must.
#
# Each of the 140 tiles has 64 steps. How many steps does the busiest program have with whole tiles, and how many with
# its share of the steps?

# %%
print(2 * 64, "steps with whole tiles,", triton.cdiv(140 * 64, 132), "with shares")

# %% [markdown]
# ## Exercise: a balanced walk
#
# {{exercise hopper.balanced_walk}}
#
# There are `tiles` tiles, each with `steps` steps along K, and `sms` programs. Return the pieces of program `pid`, in
# any order. A piece is a tuple (tile, first step, end), and its last step is end − 1. Full marks require
# * that each step of each tile is computed once ({{holds.covers.covered}}),
# * that the busiest program has less than one step more than the mean ({{holds.is_balanced.balanced}}),
# * at most tiles + sms - 1 pieces in all ({{holds.is_in_few_pieces.balanced}}).


# %% exercise="hopper.balanced_walk"
def balanced_walk(pid: int, sms: int, tiles: int, steps: int) -> list[tuple[int, int, int]]:
    """The pieces (tile, first step, end) of program pid."""
    ### BEGIN SOLUTION
    total = tiles * steps
    at, end = pid * total // sms, (pid + 1) * total // sms
    pieces = []
    while at < end:
        tile = at // steps
        stop = min(end, (tile + 1) * steps)
        pieces.append((tile, at - tile * steps, stop - tile * steps))
        at = stop
    return pieces
    ### END SOLUTION


# %% check="hopper.balanced_walk"
check("hopper.balanced_walk", balanced_walk)

# %% [markdown]
# ## The two ladders
#
# Here is what these ideas are worth, measured on an H200 (the persistent product on an H100): first the product, from
# small tiles to a persistent kernel with specialised warps, then attention. What is the largest step of each? And what
# do the lower bars have in common?

# %%
figures.hopper.matmul_ladder()

# %% [markdown]
# The lower bars have small tiles. They read a and b more often, and L2 sets the pace, as in *Bytes at each level*. All
# bars but the last are unit 05's kernel, timed by benchmarks/tiling.py. The last bar is
# benchmarks/matmul_persistent.py, which runs at cuBLAS's speed. You build such a kernel in part three.

# %%
figures.hopper.attention_ladder()

# %% [markdown]
# The steps of attention are in benchmarks/attention_ladder.py and benchmarks/attention_overlapped.py. This picture does
# not show the next step, which is in benchmarks/attention_in_turns.py and is about as fast as FlashAttention-4. The
# hardware counters show what the speeds do not: in unit 09's kernel the tensor cores work half of the time, since
# products and softmax take turns. The largest step lets them work at the same time.
#
# ## Which FlashAttention for which card?
#
# Unit 09 asked this about four cards and three tiles. Now you know the whole answer: the card's instructions decide
# which version *runs*, and its shared memory decides which tile *fits*. Shared memory must hold the tile of q, two or
# three stages of tiles of k and v, and before Hopper also the tile of p, as in unit 09. Which cards run
# FlashAttention-3? Which cards must make do with tiles of 32 keys? Guess, then run the cell.

# %%
print(figures.hopper.which_attention())

# %% [markdown]
# "Timed" marks what this course has measured. Everything else in the table is computed from datasheets and from what
# the versions' authors say. FlashAttention-3 was written for Hopper. If you build it from source, it also runs on
# Ampere and Ada (issue 1049 of the flash-attention repository), with the older instructions of these cards. A B200 is
# newer than Hopper and still does not run everything: `wgmma` exists on Hopper alone, and no source says that the third
# version runs on a B200. The second version does, at a sixth of the card's peak (issue 1589: 380 of 2250 TFLOP/s). The
# fourth version was written for the B200, where it multiplies with `tcgen05`; it runs on Hopper, too. And on a T4 a
# kernel in Triton runs, but on ordinary cores, as `compile_for(..., gpu="sm_75")` shows.

# %% [markdown]
# # Part two: one asynchronous thing at a time
#
# In Triton you write what a program computes, and the compiler decides which thread holds what, where shared memory is
# used and when a copy begins. In kernels at the speed of cuBLAS, the author decides this. Ours are written in
# **Gluon**, which comes with Triton. It has the same Python and the same compiler, but layouts, shared memory, copies
# and barriers have names, and the compiler adds hardly anything by itself. It still adds two things if you leave them
# out: a barrier before a thread reads what another thread wrote, and a fence before TMA reads it.
#
# If you know CUDA C++: a program is a thread block, and there is no `threadIdx`. You write a line once for all threads
# of a program, and a layout says which part of it each thread does.
#
# You need no Hopper GPU. `simulate(kernel[grid], ...)` runs a Gluon kernel on your machine, several times. Copies and
# products end early, late, or at random, as they may on a GPU. The simulator names mistakes that a GPU shows only
# rarely, with their lines.
#
# ## Who holds what?
#
# A block of 16 x 32 numbers is loaded by 64 threads, two warps of 32 **lanes**. Each number must lie in a register of
# some lane. Lane 0 holds the first element. Which lane should hold the element next to it? There are two good answers,
# and a layout chooses between them.

# %%
figures.hopper.who_holds_what()

# %% [markdown]
# This is `gl.BlockedLayout([1, 4], [8, 4], [2, 1], [1, 0])`: a lane takes 1 x 4 elements, a warp has 8 x 4 lanes, and
# the program has 2 x 1 warps. `order=[1, 0]` says that registers, lanes and warps are numbered along axis 1 first, that
# is along a row, and then row by row. Four neighbours in one lane are a single load of 16 bytes, if they are float32.
# If the block is larger than the layout, the layout is repeated, and each lane gets more registers.
#
# ## Exercise: who holds an element
#
# {{exercise hopper.holder}}
#
# Write `holder(row, col, size_per_thread, threads_per_warp, warps_per_cta, order, shape)`, which returns the warp, the
# lane and the register that hold the element. `shape` is the shape of the block, in each direction a multiple of what
# the layout covers. The registers of a lane are numbered as follows: first come the elements of one repetition of the
# layout, then those of the next repetition, and both are counted along axis `order[0]` first.
#
# Full marks require the right answer
# * if the layout covers the block once ({{correct.once}}),
# * if it is repeated ({{correct.again}}),
# * if the order is [0, 1], so that numbers run down a column first ({{correct.columns}}). The right answers are those
#   of Triton itself.


# %% exercise="hopper.holder"
def holder(row, col, size_per_thread, threads_per_warp, warps_per_cta, order, shape):
    ### BEGIN SOLUTION
    def digits(axis):
        """Along one axis: the element's place within a thread, its lane, its warp and its repetition of the layout."""
        i, found = (row, col)[axis], []
        for count in (size_per_thread[axis], threads_per_warp[axis], warps_per_cta[axis]):
            found.append(i % count)
            i //= count
        return *found, i

    fast, slow = order
    (r0, lane0, warp0, again0), (r1, lane1, warp1, again1) = digits(fast), digits(slow)
    repeated = shape[fast] // (size_per_thread[fast] * threads_per_warp[fast] * warps_per_cta[fast])
    register = r0 + size_per_thread[fast] * (r1 + size_per_thread[slow] * (again0 + repeated * again1))
    return warp0 + warps_per_cta[fast] * warp1, lane0 + threads_per_warp[fast] * lane1, register
    ### END SOLUTION


# %% check="hopper.holder"
check("hopper.holder", holder)

# %% [markdown]
# ## A tile that all threads see
#
# No lane can read another lane's registers. Numbers go from lane to lane through **shared memory**. A program can have
# up to 227 KiB of it, and all its threads can reach it. In Gluon a **tile** is a piece of shared memory with a shape.
# This kernel writes a block row by row, and reads the same tile transposed, so that each lane gets a column. What must
# stand between the line that writes and the line that reads?
#
# (A vector has a layout, too. `gl.SliceLayout(1, LANES)` is `LANES` without its axis 1: if `rows` has this layout, the
# block `rows[:, None]` has the layout `LANES`. `tile.load(LANES)` reads a tile into registers, and `LANES` says which
# lane gets what.)

# %%
LANES = gl.constexpr(gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0]))


@gluon.jit
def turn(x_ptr, y_ptr):
    tile = gl.allocate_shared_memory(gl.float32, [32, 32], gl.SwizzledSharedLayout(1, 1, 1, [1, 0]))
    rows, cols = gl.arange(0, 32, gl.SliceLayout(1, LANES)), gl.arange(0, 32, gl.SliceLayout(0, LANES))
    offs = rows[:, None] * 32 + cols[None, :]
    tile.store(gl.load(x_ptr + offs))
    barrier()  # all threads have written before any of them reads
    gl.store(y_ptr + offs, tile.permute((1, 0)).load(LANES))


x = torch.arange(1024.0).reshape(32, 32)
y = torch.empty_like(x)
print(simulate(turn[(1,)], x, y, num_warps=4))
print("transposed:", torch.equal(y, x.T))

# %% [markdown]
# The kernel is right. (Without `barrier()`, which is `__syncthreads()` in CUDA C++, it is right as well, and the
# simulator reports nothing, because Triton's compiler notices that a barrier is missing and adds it. The compiler of
# CUDA C++ does not, so write barriers where they belong.)
#
# Is it fast? Shared memory has 32 **banks**, each of which delivers one word of 4 bytes in a pass. Word w lies in bank
# w mod 32. A warp that reads 32 neighbouring words gets them in one pass. How many passes does it need for a column of
# this tile? Write a number down before you look.

# %%
figures.hopper.banks()

# %% [markdown]
# The lanes that read a column meet in one bank, and each waits for those before it. There are two ways out, and both
# change only the places of elements within the tile. **Padding** adds a spare word after each row. **Swizzling** needs
# no spare bytes: row r keeps its 32 words, but word c lies in place c XOR r. That is `gl.SwizzledSharedLayout(1, 1, 32,
# order)`. Its numbers say how many elements move together (1), how many neighbouring rows move in the same way (1), and
# after how many ways the first one comes again (32). With `(1, 1, 1, order)` nothing moves. `bank_conflicts` counts the
# passes of one warp, from the two layouts alone. This warp is one of four, and reads 8 of the 32 columns:

# %%
for shared in (
    gl.SwizzledSharedLayout(1, 1, 1, [0, 1]),
    gl.SwizzledSharedLayout(1, 1, 32, [0, 1]),
):  # of the transposed tile
    print(f"max_phase={shared.max_phase}:", bank_conflicts(LANES.value, shared, [32, 32], itemsize=4))

# %% [markdown]
# ## Exercise: a transpose without bank conflicts
#
# {{exercise hopper.shared_transpose}}
#
# Write `shared_transpose(x)`: each program moves a tile of x through shared memory, so that its loads and its stores
# both run along rows of global memory. x is contiguous, of float32. Full marks require
# * the right result for ragged sizes ({{correct.ragged}}),
# * no more passes of shared memory than the bytes need, neither to write the tile nor to read it
#   ({{no_conflicts.performance}}),
# * a tile of at most 64 x 64 floats ({{shared_bytes.performance}}),
# * each element read once and written once ({{traffic.performance}}).


# %% exercise="hopper.shared_transpose"
### BEGIN SOLUTION
@gluon.jit
def transpose_kernel(x_ptr, y_ptr, M, N):
    ROWS: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    tile = gl.allocate_shared_memory(x_ptr.dtype.element_ty, [64, 64], gl.SwizzledSharedLayout(1, 1, 32, [1, 0]))
    rows, cols = gl.arange(0, 64, gl.SliceLayout(1, ROWS)), gl.arange(0, 64, gl.SliceLayout(0, ROWS))
    row, col = gl.program_id(0) * 64, gl.program_id(1) * 64
    there = (row + rows < M)[:, None] & (col + cols < N)[None, :]
    tile.store(gl.load(x_ptr + (row + rows)[:, None] * N + (col + cols)[None, :], mask=there, other=0.0))
    barrier()
    y = tile.permute((1, 0)).load(ROWS)
    there = (col + rows < N)[:, None] & (row + cols < M)[None, :]
    gl.store(y_ptr + (col + rows)[:, None] * M + (row + cols)[None, :], y, mask=there)


### END SOLUTION
def shared_transpose(x):
    ### BEGIN SOLUTION
    M, N = x.shape
    out = torch.empty(N, M, dtype=x.dtype, device=x.device)
    transpose_kernel[(triton.cdiv(M, 64), triton.cdiv(N, 64))](x, out, M, N, num_warps=4)
    return out
    ### END SOLUTION


# %% check="hopper.shared_transpose"
check("hopper.shared_transpose", shared_transpose)

# %% [markdown]
# ## A copy that nobody carries
#
# `gl.load` brings numbers into registers, and as soon as a thread uses one of them, it waits. `copy_async` (its
# instruction, cp.async, exists since Ampere) writes straight into a tile, and the thread goes on. How does the thread
# learn that the copy has ended? Copies are put into **groups**: `commit_group()` closes a group, and `wait_group(n)`
# waits until at most n groups, the newest ones, are still under way. A thread waits only for its own copies. After a
# `barrier()` the copies of all threads have arrived. This kernel does not wait:


# %%
@gluon.jit
def hasty(x_ptr, y_ptr):
    tile = gl.allocate_shared_memory(gl.float32, [32, 32], gl.SwizzledSharedLayout(1, 1, 1, [1, 0]))
    rows, cols = gl.arange(0, 32, gl.SliceLayout(1, LANES)), gl.arange(0, 32, gl.SliceLayout(0, LANES))
    offs = rows[:, None] * 32 + cols[None, :]
    copy_async(tile, x_ptr + offs)
    commit_group()
    gl.store(y_ptr + offs, tile.load(LANES))


print(simulate(hasty[(1,)], x, y, num_warps=4))

# %% [markdown]
# On a GPU this kernel may pass every test, until the memory is busy. The simulator reports the mistake in every order,
# because nothing makes the load wait for the copy. It does not ask whether the numbers happened to be right.
#
# Why copy in this way, if the thread waits anyway? Because it can ask for the **next** tiles before it works on this
# one. Three tiles in a ring are enough: one that is read, and two that are on their way.
#
# ## Exercise: a ring of copies
#
# {{exercise hopper.async_column_sum}}
#
# Write `async_column_sum(x)`, which returns the sum of each column of a contiguous matrix of float32. A program walks
# down its columns, tile by tile, while `copy_async` fetches the next tiles. `copy_async` writes zeros where its `mask=`
# is False. Full marks require
# * the right sums for ragged sizes, and for a matrix that is smaller than the ring ({{correct.ragged}}),
# * that everything is read by `copy_async` ({{uses.cp.async.performance}}), and only once, by at least two programs if
#   there are 256 columns ({{traffic.performance}}),
# * copies under way while at least seven tenths of the tiles are added up ({{overlapped.performance}}),
# * at most 64 KiB of shared memory ({{shared_bytes.performance}}).


# %% exercise="hopper.async_column_sum"
### BEGIN SOLUTION
@gluon.jit
def start_copy(x_ptr, tiles, i, M, N, steps, BLOCK: gl.constexpr, STAGES: gl.constexpr, ROWS: gl.constexpr):
    rows = i * BLOCK + gl.arange(0, BLOCK, gl.SliceLayout(1, ROWS))
    cols = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, gl.SliceLayout(0, ROWS))
    if i < steps:
        there = (rows < M)[:, None] & (cols < N)[None, :]
        copy_async(tiles.index(i % STAGES), x_ptr + rows[:, None] * N + cols[None, :], mask=there)
    commit_group()


@gluon.jit
def async_kernel(x_ptr, y_ptr, M, N, BLOCK: gl.constexpr, STAGES: gl.constexpr):
    ROWS: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    tiles = gl.allocate_shared_memory(gl.float32, [STAGES, BLOCK, BLOCK], gl.SwizzledSharedLayout(1, 1, 1, [1, 0]))
    steps = gl.cdiv(M, BLOCK)
    acc = gl.zeros((BLOCK, BLOCK), gl.float32, ROWS)
    for i in gl.static_range(STAGES - 1):
        start_copy(x_ptr, tiles, i, M, N, steps, BLOCK, STAGES, ROWS)
    for i in range(steps):
        wait_group(STAGES - 2)
        barrier()
        start_copy(x_ptr, tiles, i + STAGES - 1, M, N, steps, BLOCK, STAGES, ROWS)
        acc += tiles.index(i % STAGES).load(ROWS)
    wait_group(0)
    cols = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, gl.SliceLayout(0, ROWS))
    gl.store(y_ptr + cols, gl.sum(acc, 0), mask=cols < N)


### END SOLUTION
def async_column_sum(x):
    ### BEGIN SOLUTION
    M, N = x.shape
    out = torch.empty(N, dtype=torch.float32, device=x.device)
    async_kernel[(triton.cdiv(N, 32),)](x, out, M, N, BLOCK=32, STAGES=3, num_warps=4)
    return out
    ### END SOLUTION


# %% check="hopper.async_column_sum"
check("hopper.async_column_sum", async_column_sum)

# %% [markdown]
# ## A barrier that counts, and its phases
#
# Groups tell a thread about its own copies. What if one warp fetches, and others compute? They need something in shared
# memory that both can see: an **mbarrier**. It counts arrivals. When it has counted as many as it needs, it opens, and
# begins to count again. Each such count is a **phase**. A thread that waits names a phase by its last bit, the
# **parity**: 0 for phase 0, 1 for phase 1, 0 for phase 2.
#
# `b = new_barriers(SIZE, COUNT)` makes SIZE mbarriers, each of which needs COUNT arrivals, and `b.index(i)` is one of
# them. `mbarrier.arrive(b)` is *one* arrival, however many threads run this line: Gluon waits for all threads, and then
# one of them arrives.
#
# `mbarrier.wait(b, 0)` on a new barrier waits for phase 0. What does `mbarrier.wait(b, 1)` do? Guess, then run the
# cell, in which no thread ever arrives.


# %%
@gluon.jit
def alone(PARITY: gl.constexpr):
    b = new_barriers(1, 1)
    mbarrier.wait(b.index(0), PARITY)


for parity in (1, 0):
    print(f"parity {parity}:", simulate(alone[(1,)], PARITY=parity, num_warps=4))

# %% [markdown]
# A wait for parity 1 passes, as if a phase before the first had ended. Every ring uses this trick. Each slot has two
# barriers: `full`, for which the reader waits, and `empty`, for which the writer waits before it fills the slot again.
# In the first round all slots are free, and the writer's wait for parity 1 passes at once. Move the slider through the
# rounds:

# %%
figures.hopper.explore_ring()

# %% [markdown]
# ## Exercise: which slot, which parity
#
# {{exercise hopper.phase_of}}
#
# Write `phase_of(i, SIZE)` for tile i of a ring of SIZE slots: the slot, the parity with which its reader waits for
# `full[slot]`, and the parity with which its writer waits for `empty[slot]`. Half of the rings have two slots
# ({{correct.two}}), and the others have from one to eight ({{correct.other}}).


# %% exercise="hopper.phase_of"
def phase_of(i, SIZE):
    ### BEGIN SOLUTION
    return i % SIZE, i // SIZE & 1, (i // SIZE + 1) & 1
    ### END SOLUTION


# %% check="hopper.phase_of"
check("hopper.phase_of", phase_of)

# %% [markdown]
# ## An engine that copies tiles
#
# With `copy_async` every thread computes an address. Hopper has an engine that copies whole tiles, the **Tensor Memory
# Accelerator**, TMA. It gets a **descriptor**, which says once and for all what a matrix looks like: the tensor, its
# shape and strides, the shape of a tile, and how the tile lies in shared memory. One thread asks for a tile (you write
# `tma_load` for all threads, and Gluon chooses one of them), and the engine tells a barrier how many bytes have come.
#
# So the barrier must know how many bytes to wait for. `mbarrier.expect(b, nbytes)` tells it, and is an arrival at the
# same time. What happens if nbytes is too small, or too large? Guess, then run the cell, which tries both.

# %%
TMA_TILE = gl.NVMMASharedLayout.get_default_for([64, 64], gl.float16)


@gluon.jit
def fetch_one(x_desc, y_ptr, EXPECTED: gl.constexpr):
    ROWS: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    tile = gl.allocate_shared_memory(gl.float16, [64, 64], x_desc.layout)
    come = new_barriers(1, 1)
    mbarrier.expect(come.index(0), EXPECTED)
    tma_load(x_desc, [0, 0], come.index(0), tile)
    mbarrier.wait(come.index(0), 0)
    rows, cols = gl.arange(0, 64, gl.SliceLayout(1, ROWS)), gl.arange(0, 64, gl.SliceLayout(0, ROWS))
    gl.store(y_ptr + rows[:, None] * 64 + cols[None, :], tile.load(ROWS))


x, y = torch.randn(50, 64).half(), torch.empty(64, 64).half()
described = TensorDescriptor.from_tensor(x, [64, 64], TMA_TILE)
for nbytes in (64 * 64 * 2, 50 * 64 * 2, 64 * 64 * 4):
    print(f"{nbytes} bytes expected:", simulate(fetch_one[(1,)], described, y, EXPECTED=nbytes, num_warps=4))

# %% [markdown]
# The matrix has 50 rows, and the tile has 64. TMA fills the other rows with zeros and counts them, too: a tile is
# always 8,192 bytes. When TMA stores a tile, it leaves out what lies outside the matrix. There are no masks.
#
# A descriptor knows its tile: `x_desc.block_type.nbytes` are its bytes, `x_desc.dtype` is its dtype. TMA does not convert,
# so a tile for numbers that may be float16 or bfloat16 is allocated with `x_desc.dtype`. The layout depends on the width of
# an element alone, so one made for float16 serves both.
#
# A store is asynchronous, too: `tma_store(desc, [row, col], tile)` returns before the tile has been read.
# `store_wait(0)` waits until it has been read.
#
# ## Exercise: a copy without a register
#
# {{exercise hopper.tma_copy}}
#
# Write `tma_copy(x)`, which returns a contiguous copy of x. Each program brings one tile into shared memory, and sends
# it on from there. No number passes through a register. x is of float16 or bfloat16, and its rows are a multiple of 16
# bytes apart. Full marks require
# * the right result if tiles reach past the edges ({{correct.ragged}}), and if there are gaps between the rows of x
#   ({{correct.strided}}),
# * that TMA reads everything ({{uses.TMA load.performance}}) and writes everything ({{uses.TMA store.performance}}),
# * each element read once and written once ({{traffic.performance}}).


# %% exercise="hopper.tma_copy"
### BEGIN SOLUTION
@gluon.jit
def tma_copy_kernel(x_desc, y_desc):
    tile = gl.allocate_shared_memory(x_desc.dtype, x_desc.block_type.shape, x_desc.layout)
    come = new_barriers(1, 1)
    row, col = gl.program_id(0) * x_desc.block_type.shape[0], gl.program_id(1) * x_desc.block_type.shape[1]
    mbarrier.expect(come.index(0), x_desc.block_type.nbytes)
    tma_load(x_desc, [row, col], come.index(0), tile)
    mbarrier.wait(come.index(0), 0)
    tma_store(y_desc, [row, col], tile)
    store_wait(0)


### END SOLUTION
def tma_copy(x):
    ### BEGIN SOLUTION
    M, N = x.shape
    out = torch.empty(M, N, dtype=x.dtype, device=x.device)
    layout = gl.NVMMASharedLayout.get_default_for([64, 64], gl.float16)
    x_desc, y_desc = (TensorDescriptor.from_tensor(t, [64, 64], layout) for t in (x, out))
    tma_copy_kernel[(triton.cdiv(M, 64), triton.cdiv(N, 64))](x_desc, y_desc, num_warps=4)
    return out
    ### END SOLUTION


# %% check="hopper.tma_copy"
check("hopper.tma_copy", tma_copy)

# %% [markdown]
# ## Two who do not wait for each other
#
# Now put the ring and TMA together. `gl.warp_specialize` splits a program into **partitions**: here one warp that only
# fetches, and four warps that only add. (These are not the four partitions of an SM in part one.) Each partition has
# its own code, and they meet only at barriers. Four warps are a **warpgroup**, the unit that will multiply below.
#
#     gl.warp_specialize(
#         [
#             (add_up, (y_ptr, tiles, full, empty, ...)),   # runs on the kernel's own four warps
#             (fetch, (x_desc, tiles, full, empty, ...)),   # runs on one more
#         ],
#         [1],     # warps of each further partition
#         [24],    # registers for each of their threads
#     )
#
# ## Exercise: a ring with a fetcher
#
# {{exercise hopper.ring_column_sum}}
#
# Write `ring_column_sum(x)`, which returns the sums of columns once more. x is of float16 or bfloat16, and the sums are
# in float32. One partition fetches tiles of 64 x 64 into a ring by TMA, and the other adds them up. With 640 rows and
# two slots the ring goes round five times. Full marks require
# * the right sums for ragged sizes and for a single row ({{correct.ragged}}),
# * that everything is read by TMA ({{uses.TMA load.performance}}), and only once ({{traffic.performance}}),
# * copies under way while at least seven tenths of the tiles are added up ({{overlapped.performance}}),
# * at most four tiles in shared memory ({{shared_bytes.performance}}).


# %% exercise="hopper.ring_column_sum"
### BEGIN SOLUTION
@gluon.jit
def fetch(x_desc, tiles, full, empty, steps, SIZE: gl.constexpr):
    for i in range(steps):
        mbarrier.wait(empty.index(i % SIZE), (i // SIZE + 1) & 1)
        mbarrier.expect(full.index(i % SIZE), x_desc.block_type.nbytes)
        row = i * x_desc.block_type.shape[0]
        tma_load(x_desc, [row, gl.program_id(0) * 64], full.index(i % SIZE), tiles.index(i % SIZE))


@gluon.jit
def add_up(y_ptr, tiles, full, empty, steps, N, SIZE: gl.constexpr):
    ROWS: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    acc = gl.zeros((64, 64), gl.float32, ROWS)
    for i in range(steps):
        mbarrier.wait(full.index(i % SIZE), i // SIZE & 1)
        acc += tiles.index(i % SIZE).load(ROWS).to(gl.float32)
        mbarrier.arrive(empty.index(i % SIZE))
    cols = gl.program_id(0) * 64 + gl.arange(0, 64, gl.SliceLayout(0, ROWS))
    gl.store(y_ptr + cols, gl.sum(acc, 0), mask=cols < N)


@gluon.jit
def ring_kernel(x_desc, y_ptr, M, N, SIZE: gl.constexpr):
    tiles = gl.allocate_shared_memory(x_desc.dtype, [SIZE, 64, 64], x_desc.layout)
    full = new_barriers(SIZE, 1)
    empty = new_barriers(SIZE, 1)
    steps = gl.cdiv(M, 64)
    gl.warp_specialize(
        [
            (add_up, (y_ptr, tiles, full, empty, steps, N, SIZE)),
            (fetch, (x_desc, tiles, full, empty, steps, SIZE)),
        ],
        [1],
        [24],
    )


### END SOLUTION
def ring_column_sum(x):
    ### BEGIN SOLUTION
    M, N = x.shape
    out = torch.empty(N, dtype=torch.float32, device=x.device)
    layout = gl.NVMMASharedLayout.get_default_for([64, 64], gl.float16)
    x_desc = TensorDescriptor.from_tensor(x, [64, 64], layout)
    ring_kernel[(triton.cdiv(N, 64),)](x_desc, out, M, N, SIZE=2, num_warps=4)
    return out
    ### END SOLUTION


# %% check="hopper.ring_column_sum"
check("hopper.ring_column_sum", ring_column_sum)

# %% [markdown]
# ## A product that is under way
#
# On Hopper a warpgroup multiplies two tiles with one instruction, **wgmma**. The instruction reads both operands from
# shared memory, or the left one from registers. It adds to an accumulator that is spread over the registers of the 128
# threads, in the layout `NVMMADistributedLayout`. (In `[3, 0], [4, 1], [16, 64, 16]` the 3 stands for Hopper's
# instruction, and `[4, 1]` for four warps, one below the other. The last list says that each warp has 16 rows of 64
# sums, and that an instruction takes 16 steps of K.) And wgmma is asynchronous: `mma(a, b, acc, is_async=True)` returns
# at once. Which two things must not happen before `mma_wait`?


# %%
@gluon.jit
def impatient(a_desc, b_desc, c_ptr):
    ACC: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    a = gl.allocate_shared_memory(gl.float16, [64, 64], a_desc.layout)
    b = gl.allocate_shared_memory(gl.float16, [64, 64], b_desc.layout)
    come = new_barriers(1, 1)
    mbarrier.expect(come.index(0), 2 * a_desc.block_type.nbytes)
    tma_load(a_desc, [0, 0], come.index(0), a)
    tma_load(b_desc, [0, 0], come.index(0), b)
    mbarrier.wait(come.index(0), 0)
    acc = mma(a, b, gl.zeros((64, 64), gl.float32, ACC), is_async=True)
    acc = mma_wait(1, deps=[acc])  # one product may still be under way
    rows, cols = gl.arange(0, 64, gl.SliceLayout(1, ACC)), gl.arange(0, 64, gl.SliceLayout(0, ACC))
    gl.store(c_ptr + rows[:, None] * 64 + cols[None, :], acc)


a, b, c = torch.randn(64, 64).half(), torch.randn(64, 64).half(), torch.empty(64, 64)
two = (TensorDescriptor.from_tensor(t, [64, 64], TMA_TILE) for t in (a, b))
print(simulate(impatient[(1,)], *two, c, num_warps=4))

# %% [markdown]
# You must not use the accumulator, because it is not there yet, and you must not write to the tiles, because they are
# still read. One wait is enough for both: `acc = mma_wait(n, deps=[acc])` waits until at most n products, the newest
# ones, are under way. It returns a block. What `mma` returns is not a block yet: you may hand it to `mma` and
# `mma_wait`, but the compiler refuses arithmetic with it. If a variable is a block before a loop, it must also be a
# block at the end of each turn, so a loop over products has a wait in it.
#
# ## Exercise: accumulate on tensor cores
#
# {{exercise hopper.wgmma_matmul}}
#
# Write `wgmma_matmul(a, b)`: each program computes a tile of 64 x 64 of the product, and walks along K. a and b are
# contiguous, of float16 or bfloat16, and the product is of float32. One pair of tiles and one barrier are enough, since
# nothing has to overlap here. (Overlap is the subject of part three.) Full marks require
# * the right product for ragged sizes, also of K ({{correct.ragged}}),
# * everything read by TMA ({{uses.TMA load.performance}}),
# * everything multiplied by wgmma ({{uses.wgmma.performance}}),
# * no more read than tiles of 64 x 64 need ({{traffic.performance}}).


# %% exercise="hopper.wgmma_matmul"
### BEGIN SOLUTION
@gluon.jit
def wgmma_kernel(a_desc, b_desc, c_ptr, M, N, K):
    ACC: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    a = gl.allocate_shared_memory(a_desc.dtype, a_desc.block_type.shape, a_desc.layout)
    b = gl.allocate_shared_memory(b_desc.dtype, b_desc.block_type.shape, b_desc.layout)
    come = new_barriers(1, 1)
    row, col = gl.program_id(0) * 64, gl.program_id(1) * 64
    acc = gl.zeros((64, 64), gl.float32, ACC)
    for i in range(gl.cdiv(K, 64)):
        mbarrier.expect(come.index(0), a_desc.block_type.nbytes + b_desc.block_type.nbytes)
        tma_load(a_desc, [row, i * 64], come.index(0), a)
        tma_load(b_desc, [i * 64, col], come.index(0), b)
        mbarrier.wait(come.index(0), i & 1)
        acc = mma(a, b, acc, is_async=True)
        acc = mma_wait(0, deps=[acc])
    rows, cols = row + gl.arange(0, 64, gl.SliceLayout(1, ACC)), col + gl.arange(0, 64, gl.SliceLayout(0, ACC))
    there = (rows < M)[:, None] & (cols < N)[None, :]
    gl.store(c_ptr + rows[:, None] * N + cols[None, :], acc, mask=there)


### END SOLUTION
def wgmma_matmul(a, b):
    ### BEGIN SOLUTION
    (M, K), N = a.shape, b.shape[1]
    out = torch.empty(M, N, dtype=torch.float32, device=a.device)
    layout = gl.NVMMASharedLayout.get_default_for([64, 64], gl.float16)
    a_desc, b_desc = (TensorDescriptor.from_tensor(t, [64, 64], layout) for t in (a, b))
    wgmma_kernel[(triton.cdiv(M, 64), triton.cdiv(N, 64))](a_desc, b_desc, out, M, N, K, num_warps=4)
    return out
    ### END SOLUTION


# %% check="hopper.wgmma_matmul"
check("hopper.wgmma_matmul", wgmma_matmul)

# %% [markdown]
# # Part three: pipelines
#
# A tile can be fetched, waited for and multiplied. In part two these things happened one at a time. Now they all run at
# once, and no warp should wait if it does not have to.
#
# ## What should run at the same time?
#
# Here is the loop of part two, as it stands:
#
#     for i in range(steps):
#         expect(full, bytes); tma_load(a tile); tma_load(b tile)
#         wait(full)
#         acc = mma(a tile, b tile, acc); acc = mma_wait(0)
#
# **Question.** A tile of a has 64 x 64 elements, one of b 64 x 256, of two bytes each. For how long do the tensor cores
# work in a turn, and for how long do they wait? Use these costs of one SM:
#
# | what | cycles | where it comes from |
# | --- | --- | --- |
# | a copy: its bytes at 44 bytes in a cycle | 40 KiB: 931 | measured: what a product at cuBLAS's speed fetches |
# | after that, until the tile is there: the latency | 700 | 680 measured for main memory, 20 assumed |
# | 64 x 256 by 64 on tensor cores: 2048 multiply-adds in a cycle | 512 | datasheet |
# | from the end of a product to registers that can be read | 40 | measured, with 16 for its issue: 56 in all |
#
# One after another these take 931 + 700 + 512 + 40 = 2183 cycles, and the tensor cores work in 512 of them: 23 %. With
# a second slot in shared memory, the next tile can come while this one is multiplied. With a third, two tiles can be on
# their way. All you need is a *ring* of slots: tile i lies in slot i % STAGES.
#
# ## Exercise: predict_overlap
#
# {{exercise hopper.predict_overlap}}
#
# Which way keeps the tensor cores busier? Write True or False for six statements. In them, *0.2 more of the time*
# means, for example, 60 % of the time instead of 40 %. The first four statements are about the product above. In a ring
# of two, three or four slots, one partition fetches and multiplies. *Two consumers* are two partitions, each of which
# multiplies 64 rows of its own by the same tile of b. Then a third partition fetches 48 KiB for each turn, which has
# two products. Two consumers are compared with one, and both rings have three slots.
#
# The other two statements are about attention with D = 128. For 64 queries and 128 keys, each of the two products takes
# 512 cycles, and the softmax between them takes about 950. A consumer *waits* if it waits for each product right after
# it has issued it. A consumer is *a stage ahead* if it issues the next scores before it waits for the product with v
# ({{truths.plain}}).
#
# The last three answers were measured on an H200, with three kernels: unit 09's, the same kernel with descriptors
# (TMA), and benchmarks/attention_overlapped.py (a producer and two consumers, each a stage ahead). The tensor cores
# were busy for 51 %, 61 % and 81 % of the time, in some order. Write 51, 61 or 81 for each kernel ({{numbers.plain}}).

# %% exercise="hopper.predict_overlap"
predicted_overlap = {
    "a ring of two instead of one: busy for 0.2 more of the time": ...,
    "a ring of three instead of one: busy for 0.15 more of the time": ...,
    "a ring of four instead of three: busy for 0.15 more of the time": ...,
    "two consumers on one tile of b instead of one: busy for 0.2 more of the time": ...,
    "attention: one consumer a stage ahead is busier than two that wait": ...,
    "attention: two consumers that wait are busy for 0.15 more of the time than one that waits": ...,
    "counted: unit 09's kernel": ...,
    "counted: the same with descriptors": ...,
    "counted: attention_overlapped": ...,
}
### BEGIN SOLUTION
predicted_overlap = {
    "a ring of two instead of one: busy for 0.2 more of the time": False,
    "a ring of three instead of one: busy for 0.15 more of the time": True,
    "a ring of four instead of three: busy for 0.15 more of the time": False,
    "two consumers on one tile of b instead of one: busy for 0.2 more of the time": True,
    "attention: one consumer a stage ahead is busier than two that wait": False,
    "attention: two consumers that wait are busy for 0.15 more of the time than one that waits": True,
    "counted: unit 09's kernel": 51,
    "counted: the same with descriptors": 61,
    "counted: attention_overlapped": 81,
}
### END SOLUTION

# %% check="hopper.predict_overlap"
check("hopper.predict_overlap", predicted_overlap)

# %% [markdown]
# The picture shows the four loops. Before you read on: in each gap of their row, what do the tensor cores wait for?

# %%
figures.hopper.pipelines()

# %% [markdown]
# * **One slot**: for everything. No two things run at the same time.
# * **Two slots**: for the latency. The program asks for tile i + 1 when product i begins. The tile takes 1631 cycles to
#   come, and the product takes 512.
# * **Three slots**: for the bytes. Copies follow one another without a gap, so no further slot helps. But a copy of 40
#   KiB takes longer than its product.
# * **Two consumers**: for the bytes, but for less time. The consumers share the tile of b, so 48 KiB serve two
#   products. Fewer bytes for each product was unit 05's lesson, and it is this unit's, too.
#
# This is a model. It is right about who waits for whom, but its numbers of cycles may be off by a tenth. Move the
# sliders. With how many slots does a latency of 2000 cycles vanish?

# %%
figures.hopper.explore_pipeline()

# %% [markdown]
# ## Exercise: pipelined_matmul
#
# {{exercise hopper.pipelined_matmul}}
#
# Compute c = a @ b, with one partition of four warps for each tile of 64 x 64. Fetch by TMA into a ring of slots
# ({{uses.TMA load.performance}}), and multiply by wgmma ({{uses.wgmma.performance}}). While a product runs, at least
# one copy should be under way. During the last product of a tile nothing is left to fetch, so this is possible for
# seven of eight products. The check requires it for four of five ({{overlapped.performance}}). K may be shorter than
# the ring ({{correct.short}}), and nothing should be fetched twice ({{traffic.performance}}).
#
# Two things are easily forgotten. A slot is free when the product that read it **has ended**, not when it was issued.
# After `acc = mma_wait(1, deps=[acc])` one product may still run, and the one before it has ended. And a tile beyond
# the end of K must not be fetched, since no partition would wait for it. If `pred=` is False, `expect` and `tma_load`
# do nothing.
#
# a and b are of float16 or bfloat16, c has their dtype, and M, N and K are multiples of 64. You may use `tiles_of` and
# `store_tile`.
#
# There is extra credit on a Hopper GPU, for this exercise and for the next two (4096 × 4096 × 4096, float16). You get
# {{speed}} if your kernel reaches {{speed.full}} of the speed of cuBLAS, and some of the points if it reaches more than
# {{speed.none}}. No other GPU runs these kernels, and no point of a class depends on a Hopper.


# %% exercise="hopper.pipelined_matmul"
def tiles_of(x, rows, columns):
    """Return what TMA needs to know about a matrix of 16-bit numbers, and about the tiles in which it is fetched."""
    layout = gl.NVMMASharedLayout.get_default_for([rows, columns], gl.float16)
    return TensorDescriptor.from_tensor(x, [rows, columns], layout)


@gluon.jit
def store_tile(c_ptr, acc, row, column, N):
    """Store a block from the registers of one partition at this row and column of c, whose rows have N elements."""
    LAYOUT: gl.constexpr = acc.type.layout
    offs_m = row + gl.arange(0, acc.shape[0], gl.SliceLayout(1, LAYOUT))
    offs_n = column + gl.arange(0, acc.shape[1], gl.SliceLayout(0, LAYOUT))
    gl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(c_ptr.dtype.element_ty))


### BEGIN SOLUTION
@gluon.jit
def start_step(a_desc, b_desc, ring, i, steps):
    """Begin to fetch the tiles of step i, if there is such a step."""
    a_tiles, b_tiles, full = ring
    STAGES: gl.constexpr = a_tiles.shape[0]
    stage, there = i % STAGES, i < steps
    mbarrier.expect(full.index(stage), a_desc.block_type.nbytes + b_desc.block_type.nbytes, pred=there)
    tma_load(a_desc, [gl.program_id(0) * 64, i * 64], full.index(stage), a_tiles.index(stage), pred=there)
    tma_load(b_desc, [i * 64, gl.program_id(1) * 64], full.index(stage), b_tiles.index(stage), pred=there)


@gluon.jit
def pipelined_kernel(a_desc, b_desc, c_ptr, N, K, STAGES: gl.constexpr):
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    a_tiles = gl.allocate_shared_memory(a_desc.dtype, [STAGES, 64, 64], a_desc.layout)
    b_tiles = gl.allocate_shared_memory(b_desc.dtype, [STAGES, 64, 64], b_desc.layout)
    full = new_barriers(STAGES, 1)
    ring = (a_tiles, b_tiles, full)
    steps = K // 64
    for i in gl.static_range(STAGES - 1):
        start_step(a_desc, b_desc, ring, i, steps)
    acc = gl.zeros((64, 64), gl.float32, LAYOUT)
    for i in range(steps):
        mbarrier.wait(full.index(i % STAGES), i // STAGES & 1)
        acc = mma(a_tiles.index(i % STAGES), b_tiles.index(i % STAGES), acc, is_async=True)
        acc = mma_wait(1, deps=[acc])  # product i - 1 has ended: its slot is free
        start_step(a_desc, b_desc, ring, i + STAGES - 1, steps)
    acc = mma_wait(0, deps=[acc])
    store_tile(c_ptr, acc, gl.program_id(0) * 64, gl.program_id(1) * 64, N)


### END SOLUTION
def pipelined_matmul(a, b):
    ### BEGIN SOLUTION
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    pipelined_kernel[(M // 64, N // 64)](tiles_of(a, 64, 64), tiles_of(b, 64, 64), c, N, K, STAGES=3, num_warps=4)
    return c
    ### END SOLUTION


# %% check="hopper.pipelined_matmul"
check("hopper.pipelined_matmul", pipelined_matmul)

# %% [markdown]
# What does the simulator say about your own kernel? Tiles of 64 x 64 are small, so compared to its product, a copy
# takes longer than in the picture above.

# %%
a, b = torch.randn(64, 512).half(), torch.randn(512, 64).half()
figures.hopper.timeline_of(pipelined_matmul, a, b)

# %% [markdown]
# ## Who fetches?
#
# In this kernel one partition does everything in turn: it waits for a tile, issues a product, waits for a product, and
# asks for a tile. **Question.** What does it ask for while its four warps wait for a product, or store c? Nothing. In
# part two a separate warp did the fetching. Such a warp is a **producer**, and a partition that uses the tiles is a
# **consumer**. Now suppose that there are two consumers, which multiply different rows of a by the same tile of b. When
# is a slot free?
#
# | barrier | opens when | who arrives | arrivals of a phase | who waits | for which parity, in turn i |
# | --- | --- | --- | --- | --- | --- |
# | `full[s]` | the tile is there | the producer's expect, and the bytes | 1 | each consumer | i // STAGES & 1 |
# | `empty[s]` | **both** have read it | each consumer, after mma_wait | 2 | the producer | (i // STAGES + 1) & 1 |
#
# The consumers do not wait for each other: one may be ahead of the other by a whole ring, but no more. A consumer must
# be a whole warpgroup, since only a warpgroup can issue a product. So the second consumer has four warps as well, and
# the producer has one warp. The last list of `gl.warp_specialize` says how many registers a thread has in each
# partition but the first. Accumulators need many registers, and a producer gives up most of its own (PTX calls this
# `setmaxnreg`). A consumer makes one arrival, although it has 128 threads.
#
# ## Exercise: warp_specialised_matmul
#
# {{exercise hopper.warp_specialised_matmul}}
#
# Compute c = a @ b in tiles of 128 x 64, with a producer and two consumers of 64 rows each
# ({{specialised.performance}}). The consumers share the tile of b ({{traffic.performance}}), and multiply by wgmma
# ({{uses.wgmma.performance}}). The ring goes round more than four times in one case ({{correct.long}}), and not even
# once in another ({{correct.short}}). M is a multiple of 128, and N and K are multiples of 64. The check runs every
# case in six orders: as late as possible, as early as possible, timed like a chip, and three times at random, which
# differ from case to case. If a consumer releases a tile before it waits for the product that reads it, this is found.
#
# The extra credit on a Hopper GPU is {{speed}} at {{speed.full}} of the speed of cuBLAS, and some of the points above
# {{speed.none}}.


# %% exercise="hopper.warp_specialised_matmul"
def tiles_of(x, rows, columns):
    """Return what TMA needs to know about a matrix of 16-bit numbers, and about the tiles in which it is fetched."""
    layout = gl.NVMMASharedLayout.get_default_for([rows, columns], gl.float16)
    return TensorDescriptor.from_tensor(x, [rows, columns], layout)


@gluon.jit
def store_tile(c_ptr, acc, row, column, N):
    """Store a block from the registers of one partition at this row and column of c, whose rows have N elements."""
    LAYOUT: gl.constexpr = acc.type.layout
    offs_m = row + gl.arange(0, acc.shape[0], gl.SliceLayout(1, LAYOUT))
    offs_n = column + gl.arange(0, acc.shape[1], gl.SliceLayout(0, LAYOUT))
    gl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(c_ptr.dtype.element_ty))


### BEGIN SOLUTION
@gluon.jit
def produce_steps(a_desc, b_desc, ring, steps):
    a_tiles, b_tiles, full, empty = ring
    STAGES: gl.constexpr = b_tiles.shape[0]
    row, column = gl.program_id(0) * 128, gl.program_id(1) * 64
    for i in range(steps):
        s = i % STAGES
        mbarrier.wait(empty.index(s), (i // STAGES + 1) & 1)
        mbarrier.expect(full.index(s), 2 * a_desc.block_type.nbytes + b_desc.block_type.nbytes)
        tma_load(a_desc, [row, i * 64], full.index(s), a_tiles.index(2 * s))
        tma_load(a_desc, [row + 64, i * 64], full.index(s), a_tiles.index(2 * s + 1))
        tma_load(b_desc, [i * 64, column], full.index(s), b_tiles.index(s))


@gluon.jit
def consume_steps(c_ptr, ring, N, steps, HALF: gl.constexpr):
    a_tiles, b_tiles, full, empty = ring
    STAGES: gl.constexpr = b_tiles.shape[0]
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    acc = gl.zeros((64, 64), gl.float32, LAYOUT)
    for i in range(steps):
        s = i % STAGES
        mbarrier.wait(full.index(s), i // STAGES & 1)
        acc = mma(a_tiles.index(2 * s + HALF), b_tiles.index(s), acc, is_async=True)
        acc = mma_wait(0, deps=[acc])
        mbarrier.arrive(empty.index(s))
    store_tile(c_ptr, acc, gl.program_id(0) * 128 + HALF * 64, gl.program_id(1) * 64, N)


@gluon.jit
def specialised_kernel(a_desc, b_desc, c_ptr, N, K, STAGES: gl.constexpr):
    a_tiles = gl.allocate_shared_memory(a_desc.dtype, [2 * STAGES, 64, 64], a_desc.layout)
    b_tiles = gl.allocate_shared_memory(b_desc.dtype, [STAGES, 64, 64], b_desc.layout)
    full = new_barriers(STAGES, 1)
    empty = new_barriers(STAGES, 2)  # both consumers have read it
    ring = (a_tiles, b_tiles, full, empty)
    gl.warp_specialize(
        [
            (consume_steps, (c_ptr, ring, N, K // 64, 0)),
            (consume_steps, (c_ptr, ring, N, K // 64, 1)),
            (produce_steps, (a_desc, b_desc, ring, K // 64)),
        ],
        [4, 1],
        [200, 24],
    )


### END SOLUTION
def warp_specialised_matmul(a, b):
    ### BEGIN SOLUTION
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    specialised_kernel[(M // 128, N // 64)](tiles_of(a, 64, 64), tiles_of(b, 64, 64), c, N, K, STAGES=3, num_warps=4)
    return c
    ### END SOLUTION


# %% check="hopper.warp_specialised_matmul"
check("hopper.warp_specialised_matmul", warp_specialised_matmul)

# %% [markdown]
# Compare this with the picture of your pipelined kernel. Which row is new, and which gaps are gone?

# %%
a, b = torch.randn(128, 512).half(), torch.randn(512, 64).half()
figures.hopper.timeline_of(warp_specialised_matmul, a, b)

# %% [markdown]
# ## The end of a tile
#
# **Question.** What do the tensor cores do while c is stored? And what do they do while the next program begins, makes
# its barriers and waits for its first tile? Nothing. For two consumers as above, the first tiles of the next program
# take 1117 + 700 cycles to come. In this time the tensor cores could have computed three and a half products of 64 x
# 256 by 64.
#
# A *persistent* kernel has as many programs as the GPU has SMs, and each program takes tile after tile. When a tile of
# c ends, the producer goes on, and fetches the next tile's operands into the same ring. The result is stored by TMA,
# from a slot in shared memory, while the next products run. Before this slot is written again, `store_wait(0)` makes
# sure that the last store has read it. With both steps benchmarks/matmul_persistent.py runs at cuBLAS's speed: 1.03 of
# it at 8192 x 8192 x 8192 on an H100 (benchmarks/results/matmul.md).
#
# ## Exercise: persistent_matmul
#
# {{exercise hopper.persistent_matmul}}
#
# Compute c = a @ b in tiles of 64 x 64 with `programs` programs ({{persistent.performance}}). Program p takes the tiles
# p, p + programs, p + 2 programs, and so on. It must be right if `programs` does not divide the number of tiles, too
# ({{correct.uneven}}). Use one producer, and one or more consumers. M, N and K are multiples of 64. The result is
# stored by TMA ({{uses.TMA store.performance}}), and the products of the next tile begin during the store
# ({{beside_stores.performance}}).
#
# TMA sees what threads have written into shared memory only after `fence_async_shared()`. Triton 3.7 adds this fence if
# it is missing. Write it all the same, because other compilers do not add it.
#
# Count the steps of all tiles as `done + k`, with k from `range(steps)`. If a helper has a loop over `range(done, done
# + steps)` within another loop, Triton 3.6 and 3.7.1 begin it at the first value of `done` each time. The simulator
# runs your kernel as you have written it, and says that it is right. But on a GPU its partitions would wait for one
# another forever.
#
# The extra credit on a Hopper GPU, with 132 programs, is {{speed}} at {{speed.full}} of the speed of cuBLAS, and some
# of the points above {{speed.none}}.


# %% exercise="hopper.persistent_matmul"
def tiles_of(x, rows, columns):
    """Return what TMA needs to know about a matrix of 16-bit numbers, and about the tiles in which it is fetched."""
    layout = gl.NVMMASharedLayout.get_default_for([rows, columns], gl.float16)
    return TensorDescriptor.from_tensor(x, [rows, columns], layout)


### BEGIN SOLUTION
@gluon.jit
def produce_tiles(a_desc, b_desc, ring, columns, tiles, steps):
    a_tiles, b_tiles, full, empty = ring
    STAGES: gl.constexpr = a_tiles.shape[0]
    done = 0  # steps of all earlier tiles
    for at in range(gl.program_id(0), tiles, gl.num_programs(0)):
        for k in range(steps):
            i = done + k
            s = i % STAGES
            mbarrier.wait(empty.index(s), (i // STAGES + 1) & 1)
            mbarrier.expect(full.index(s), a_desc.block_type.nbytes + b_desc.block_type.nbytes)
            tma_load(a_desc, [at // columns * 64, k * 64], full.index(s), a_tiles.index(s))
            tma_load(b_desc, [k * 64, at % columns * 64], full.index(s), b_tiles.index(s))
        done += steps


@gluon.jit
def consume_tiles(c_desc, out, ring, columns, tiles, steps):
    a_tiles, b_tiles, full, empty = ring
    STAGES: gl.constexpr = a_tiles.shape[0]
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    done = 0
    for at in range(gl.program_id(0), tiles, gl.num_programs(0)):
        acc = gl.zeros((64, 64), gl.float32, LAYOUT)
        for k in range(steps):
            i = done + k
            s = i % STAGES
            mbarrier.wait(full.index(s), i // STAGES & 1)
            acc = mma(a_tiles.index(s), b_tiles.index(s), acc, is_async=True)
            acc = mma_wait(0, deps=[acc])
            mbarrier.arrive(empty.index(s))
        done += steps
        store_wait(0)  # the last tile has left its slot
        out.store(acc.to(c_desc.dtype))
        fence_async_shared()
        tma_store(c_desc, [at // columns * 64, at % columns * 64], out)
    store_wait(0)


@gluon.jit
def persistent_kernel(a_desc, b_desc, c_desc, columns, tiles, steps, STAGES: gl.constexpr):
    a_tiles = gl.allocate_shared_memory(a_desc.dtype, [STAGES, 64, 64], a_desc.layout)
    b_tiles = gl.allocate_shared_memory(b_desc.dtype, [STAGES, 64, 64], b_desc.layout)
    out = gl.allocate_shared_memory(c_desc.dtype, [64, 64], c_desc.layout)
    full = new_barriers(STAGES, 1)
    empty = new_barriers(STAGES, 1)
    ring = (a_tiles, b_tiles, full, empty)
    gl.warp_specialize(
        [
            (consume_tiles, (c_desc, out, ring, columns, tiles, steps)),
            (produce_tiles, (a_desc, b_desc, ring, columns, tiles, steps)),
        ],
        [1],
        [24],
    )


### END SOLUTION
def persistent_matmul(a, b, programs):
    ### BEGIN SOLUTION
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    a_desc, b_desc, c_desc = (tiles_of(x, 64, 64) for x in (a, b, c))
    persistent_kernel[(programs,)](a_desc, b_desc, c_desc, N // 64, M // 64 * (N // 64), K // 64, STAGES=3, num_warps=4)
    return c
    ### END SOLUTION


# %% check="hopper.persistent_matmul"
check("hopper.persistent_matmul", persistent_matmul)

# %% [markdown]
# The picture shows one program that computes two tiles. Which bar among the copies is the store of the first one, and
# what runs meanwhile?

# %%
a, b = torch.randn(128, 256).half(), torch.randn(256, 64).half()
figures.hopper.timeline_of(persistent_matmul, a, b, 1)

# %% [markdown]
# ## Clusters and multicast
#
# Two tiles of c, one below the other, need the same tile of b, and two SMs fetch it twice from L2. On Hopper programs
# may form a *cluster*, whose SMs lie near one another. They can read each other's shared memory, and one TMA load can
# write a tile into the shared memory of several of them (*multicast*).
#
# **Question.** With tiles of 128 x 256 of c, which part of the bytes does a cluster of two save? And when may the slot
# that holds b be written again? Answer both questions, then run the cell.

# %%
figures.hopper.clusters()

# %% [markdown]
# It saves a third: each SM still needs its own 16 KiB of a, and the 32 KiB of b come once for both. A slot is free only
# when the consumers of **all** SMs have read it, since one load writes it on all of them. So a consumer arrives at
# `empty` on its own SM and on the SM of the program that asks for the load. And on each SM `full` expects bytes that
# another SM has asked for. So programs of a cluster wait for one another, which costs some of what is saved. A cluster
# of four would save half. Try `figures.hopper.clusters(4)`.
#
# The simulator has no clusters, and the course has not measured them, because its product reaches cuBLAS's speed
# without them. Two consumers that share a tile, as in your kernel, save the same bytes within one SM.
#
# ## Attention: what runs during the softmax?
#
# Attention has something else that keeps the tensor cores waiting. For 64 queries and 128 keys with D = 128, the two
# products take 1024 cycles together, and the softmax between them takes about as long. A consumer that does these
# things in turn keeps the tensor cores busy for about half of the time.
#
# **Question.** Softmax i needs scores i. The product with v of tile i needs softmax i. What does not depend on
# softmax i at all, and could run meanwhile?
#
# The product of tile **i - 1** with v. So a consumer issues scores i and, right after them, the product of tile i - 1
# with v. It waits for the scores alone, and does its softmax while the other product runs. The products of the other
# consumer run at this time, too. This is why two consumers that wait keep the tensor cores busier than one that is a
# stage ahead. FlashAttention-3 does both, and makes the consumers take turns by barriers (*ping-pong*).
#
# ## Exercise: overlapped_attention
#
# {{exercise hopper.overlapped_attention}}
#
# Nearly all of the kernel is given: the rings, the producer, functions that issue both products, and a step of the
# online softmax. Only the consumer's walk over its tiles of keys and values is missing. Here is a walk that is right,
# but waits for each product:
#
#     m, l, acc = start_rows(q, ks)
#     for i in range(tiles):
#         s = issue_scores(q, ks, i)
#         s = mma_wait(0, deps=[s])
#         release(ks, i)
#         e, m, l, alpha = softmax_step(s, m, l, scale)
#         acc = acc * alpha[:, None]
#         acc = issue_values(as_operand(e, q), vs, i, acc)
#         acc = mma_wait(0, deps=[acc])
#         release(vs, i)
#     return acc / l[:, None]
#
# Write `walk` so that the next scores are issued before it waits for the product with v ({{ahead.performance}}), and so
# that exponentials are computed while this product runs ({{beside_products.performance}}). You must not touch acc while
# a product adds to it (it is not a block then, and the compiler refuses). So multiply by alpha after the wait
# ({{correct.large}} if maxima grow). Issue no more products than are needed ({{no_more_products.performance}}).
#
# The extra credit on a Hopper GPU, for 16 heads of 64, 4096 tokens and float16, is {{speed}} at {{speed.full}} of the
# speed of cuDNN's attention, and some of the points above {{speed.none}}.


# %% exercise="hopper.overlapped_attention"
@gluon.jit
def tile_ring(desc, SIZE: gl.constexpr, READERS: gl.constexpr):
    """Return (tiles, barriers that open when a tile is there, barriers that open when all its readers are done)."""
    ROWS: gl.constexpr = desc.block_type.shape[0]
    COLUMNS: gl.constexpr = desc.block_type.shape[1]
    tiles = gl.allocate_shared_memory(desc.dtype, [SIZE, ROWS, COLUMNS], desc.layout)
    full = new_barriers(SIZE, 1)
    empty = new_barriers(SIZE, READERS)
    return tiles, full, empty


@gluon.jit
def fetch_into(desc, row, ring, i):
    """Fetch the i-th tile of a ring as soon as its slot is free."""
    tiles, full, empty = ring
    SIZE: gl.constexpr = tiles.shape[0]
    mbarrier.wait(empty.index(i % SIZE), (i // SIZE + 1) & 1)
    mbarrier.expect(full.index(i % SIZE), desc.block_type.nbytes)
    tma_load(desc, [row, 0], full.index(i % SIZE), tiles.index(i % SIZE))


@gluon.jit
def release(ring, i):
    """Say that this consumer has read the i-th tile."""
    mbarrier.arrive(ring[2].index(i % ring[0].shape[0]))


@gluon.jit
def issue_scores(q, ks, i):
    """Wait for the i-th tile of keys, and issue s = q k^T. Nothing of s may be used before mma_wait."""
    SIZE: gl.constexpr = ks[0].shape[0]
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    mbarrier.wait(ks[1].index(i % SIZE), i // SIZE & 1)
    none = gl.zeros((64, 64), gl.float32, LAYOUT)
    return mma(q, ks[0].index(i % SIZE).permute((1, 0)), none, use_acc=False, is_async=True)


@gluon.jit
def issue_values(p, vs, i, acc):
    """Wait for the i-th tile of values, and issue acc += p v."""
    SIZE: gl.constexpr = vs[0].shape[0]
    mbarrier.wait(vs[1].index(i % SIZE), i // SIZE & 1)
    return mma(p, vs[0].index(i % SIZE), acc, is_async=True)


@gluon.jit
def softmax_step(s, m, l, scale):
    """Return (exponentials of the scores, new maxima, new sums, alpha): alpha rescales the earlier sums to the new maxima."""
    m_new = gl.maximum(m, gl.max(s, 1) * scale)
    e, alpha = gl.exp2(s * scale - m_new[:, None]), gl.exp2(m - m_new)
    return e, m_new, l * alpha + gl.sum(e, 1), alpha


@gluon.jit
def as_operand(e, q):
    """Return the exponentials as the first operand of a product, in the dtype of q."""
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    return gl.convert_layout(e.to(q.dtype), gl.DotOperandLayout(0, LAYOUT, 2))


@gluon.jit
def start_rows(q, ks):
    """Return (m, l, acc) for 64 queries that have seen no key."""
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    m = gl.full((64,), -float("inf"), gl.float32, gl.SliceLayout(1, LAYOUT))
    return m, gl.zeros((64,), gl.float32, gl.SliceLayout(1, LAYOUT)), gl.zeros((64, 64), gl.float32, LAYOUT)


@gluon.jit
def walk(q, ks, vs, tiles, scale):
    """Return o for 64 queries, from all tiles of keys and values. ks, vs: rings, as tile_ring returns them."""
    m, l, acc = start_rows(q, ks)
    ### BEGIN SOLUTION
    s = issue_scores(q, ks, 0)
    s = mma_wait(0, deps=[s])
    release(ks, 0)
    e, m, l, alpha = softmax_step(s, m, l, scale)
    p = as_operand(e, q)
    for i in range(1, tiles):
        s = issue_scores(q, ks, i)
        acc = issue_values(p, vs, i - 1, acc)
        s = mma_wait(1, deps=[s])  # all but the newest product: that of acc runs on
        release(ks, i)
        e, m, l, alpha = softmax_step(s, m, l, scale)
        acc = mma_wait(0, deps=[acc])
        release(vs, i - 1)
        p = as_operand(e, q)
        acc = acc * alpha[:, None]
    acc = issue_values(p, vs, tiles - 1, acc)
    acc = mma_wait(0, deps=[acc])
    release(vs, tiles - 1)
    ### END SOLUTION
    return acc / l[:, None]


@gluon.jit
def fetch_heads(q_desc, k_desc, v_desc, qs, ks, vs, head, row, tiles):
    fetch_into(q_desc, row, qs, 0)
    fetch_into(q_desc, row + 64, qs, 1)
    for i in range(tiles + 1):  # in the order of use: a tile's values after the next tile's keys
        if i < tiles:
            fetch_into(k_desc, head + i * 64, ks, i)
        if i > 0:
            fetch_into(v_desc, head + (i - 1) * 64, vs, i - 1)


@gluon.jit
def attend_half(o_ptr, qs, ks, vs, row, tiles, scale, HALF: gl.constexpr):
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    q = qs[0].index(HALF)
    mbarrier.wait(qs[1].index(HALF), 0)
    o = walk(q, ks, vs, tiles, scale)
    offs_m = row + HALF * 64 + gl.arange(0, 64, gl.SliceLayout(1, LAYOUT))
    offs_d = gl.arange(0, 64, gl.SliceLayout(0, LAYOUT))
    gl.store(o_ptr + offs_m[:, None] * 64 + offs_d[None, :], o.to(o_ptr.dtype.element_ty))


@gluon.jit
def attention_kernel(q_desc, k_desc, v_desc, o_ptr, N, scale):
    qs = tile_ring(q_desc, 2, 1)
    ks = tile_ring(k_desc, 2, 2)
    vs = tile_ring(v_desc, 2, 2)
    head = gl.program_id(1) * N
    row, tiles = head + gl.program_id(0) * 128, N // 64
    gl.warp_specialize(
        [
            (attend_half, (o_ptr, qs, ks, vs, row, tiles, scale, 0)),
            (attend_half, (o_ptr, qs, ks, vs, row, tiles, scale, 1)),
            (fetch_heads, (q_desc, k_desc, v_desc, qs, ks, vs, head, row, tiles)),
        ],
        [4, 1],
        [240, 24],
    )


def overlapped_attention(q, k, v):
    """Return softmax(q k^T / sqrt(64)) v of q, k, v (H, N, 64), contiguous, N a multiple of 128."""
    H, N, D = q.shape
    o = torch.empty((H, N, D), dtype=q.dtype, device=q.device)
    layout = gl.NVMMASharedLayout.get_default_for([64, D], gl.float16)
    q_desc, k_desc, v_desc = (TensorDescriptor.from_tensor(x.view(H * N, D), [64, D], layout) for x in (q, k, v))
    scale = D**-0.5 * 1.4426950408889634  # for powers of 2
    attention_kernel[(N // 128, H)](q_desc, k_desc, v_desc, o, N, scale, num_warps=4)
    return o


# %% check="hopper.overlapped_attention"
check("hopper.overlapped_attention", overlapped_attention)

# %%
q, k, v = (torch.randn(1, 256, 64).half() for _ in range(3))
figures.hopper.timeline_of(overlapped_attention, q, k, v)

# %% [markdown]
# Look for green (the softmax) above blue (products). With D = 64 the products are half as long, but the exponentials
# are not, so the tensor cores wait for the exponentials. Here the model is too optimistic. For
# benchmarks/attention_overlapped.py with 1024 tokens, it says that the tensor cores are busy for 64 % of the time. An
# H100's counters say 48 % (45 % from cold caches). With D = 128 the model says 86 %, and the counters say 78 % (71 %).
# A softmax that runs alone takes 846 cycles in the model and 868 on an H100, and the cycles of a product are right,
# too. So the model must miss something where one partition's softmax meets the other's products. This has not been
# measured.
#
# On an H200 this was the largest step of attention's ladder, from `tuned` to `overlapped`: 544 to 699 TFLOP/s at D =
# 128 and 16,384 tokens (benchmarks/results/attention.md).
#
# ## Exercise: name the race
#
# {{exercise hopper.name_races}}
#
# A race rarely shows in a result: most of the time the copy is late enough, or early enough. So you must find it in the
# code. Here are six rings. Each multiplies (64, 320) by (320, 64) with a producer and a consumer. `full` needs one
# arrival, and so does `empty`. NBYTES are the bytes of a tile. Each ring has one mistake: a line is wrong, in the wrong
# place, or missing. Which of these is the mistake, and at which line?
#
# * `"read before it is there"`
# * `"overwritten while it is read"`
# * `"wrong phase"`
# * `"wrong number of bytes"`
# * `"too many arrivals"`
# * `"two writes at once"`
# * `"missing fence"`
# * `"TMA store not waited for"`
# * `"deadlock"`
#
# An answer is a pair, such as `("deadlock", 5)`. Lines are numbered on the left. If two accesses can meet, the line of
# either is right. For a deadlock, any line is right at which a partition waits forever. And in each ring, a line that
# has been changed is right. Some mistakes could have two names. A wait that never ends is a deadlock, unless a
# different number of bytes arrives than it expects: that is a wrong number of bytes. If a wait passes because of its
# parity, although nothing has come, that is a wrong phase. If there is no wait at all, the tile is read before it is
# there. After a right answer you see the simulator's sentence.
#
# Two more rings depend on a number. Choose one, write it at `"number"`, and look at `figures.hopper.two_races(number)`.
# If you want to practise, take another number. The first four right answers of the eight earn nothing, and each further
# right answer earns a quarter of the points ({{names_races.plain}}).

# %%
figures.hopper.six_races()

# %%
figures.hopper.two_races(1)

# %% exercise="hopper.name_races"
named_races = {
    "A": ...,
    "B": ...,
    "C": ...,
    "D": ...,
    "E": ...,
    "F": ...,
    "number": 1,
    "G": ...,
    "H": ...,
}
### BEGIN SOLUTION
named_races = {
    "A": ("overwritten while it is read", 18),
    "B": ("wrong phase", 16),
    "C": ("missing fence", 21),
    "D": ("read before it is there", 16),
    "E": ("wrong number of bytes", 6),
    "F": ("deadlock", 5),
    "number": 1,
    "G": ("missing fence", 21),
    "H": ("read before it is there", 8),
}
### END SOLUTION

# %% check="hopper.name_races"
check("hopper.name_races", named_races)

# %% [markdown]
# ## What you now know
#
# * The speed of tensor cores is their number times multiply-adds times clock, and the watts limit the clock. A large
#   product on random numbers is held back by power.
# * Of the four limits on programs of an SM, the lowest decides. Registers lie in four partitions, and come in units, as
#   shared memory does.
# * A latency is hidden if enough is in flight: warps, chains in a warp, or a tile that TMA fetches. For Little's law
#   they are all the same.
# * Programs, warps and threads each have their tile, its bytes, and a roof of their own.
# * Machine code shows what the compiler made of it: widths of loads, copies, tensor cores, loops, spills.
# * A persistent kernel itself decides which program works on what, and when. Tiles that are computed at the same time
#   share the L2.
# * An epilogue costs no pass over memory.
# * A layout says which register of which lane holds an element. Numbers go from lane to lane through shared memory,
#   whose 32 banks deliver one word each in a pass.
# * An asynchronous operation begins with an instruction and ends with a wait. Between the two nothing else may touch
#   its tile.
# * A barrier counts arrivals and bytes, and opens once in each phase. A wait names the parity of a phase.
# * With a ring of slots, copies run during products. More slots hide the latency, and after that only fewer bytes help.
# * A producer waits for empty slots, and consumers wait for full ones. Each slot has two barriers, and their parities
#   follow from the round.
# * Release a slot after the wait for the product that reads it, and correct acc after the wait for the product that
#   adds to it.
# * A race is found in the code, or by a simulator, and not by looking at a result.

# %%
progress()

# %% [markdown]
# The unit is worth {{unit points}}, over {{unit exercises}}. Hand in this notebook; the grader runs the same checks
# on inputs that you have not seen.
#
# ## Further reading
#
# * The text that this unit follows is a walk through fast products: Aleksa Gordić, *Inside NVIDIA GPUs: Anatomy of high
#   performance matmul kernels*, 2025. It builds on Pranjal Shankhdhar, *Outperforming cuBLAS on H100*, 2024.
# * Simon Boehm, *How to Optimize a CUDA Matmul Kernel for cuBLAS-like Performance*, 2022: ten kernels on ordinary cores, with
#   warp and thread tiles.
# * Horace He, *Strangely, Matrix Multiplications on GPUs Run Faster When Given "Predictable" Data!*, 2024: power.
# * Vasily Volkov, *Better Performance at Lower Occupancy*, 2010: instruction-level parallelism instead of warps.
# * NVIDIA, *CUDA C++ Programming Guide*, Compute Capabilities, and cuda_occupancy.h in the toolkit: the tables of limits.
# * Osama, Merrill, Cecka, Garland and Owens, *Stream-K*, 2023: shares of steps instead of whole tiles.
# * Tri Dao and others, the flash-attention repository: which version runs on which card.
# * NVIDIA, *PTX ISA*: the sections on mbarrier, cp.async.bulk.tensor and wgmma say what each instruction waits for,
#   and what it does not.
# * The tutorials on Gluon in Triton's repository, python/tutorials/gluon, from 01-intro on.
# * Shah et al., *FlashAttention-3: Fast and Accurate Attention with Asynchrony and Low-precision*, 2024, sections 3.1 and 3.2
# * benchmarks/matmul_persistent.py and benchmarks/attention_overlapped.py: both kernels at full size; then
#   benchmarks/attention_in_turns.py, whose first lines say how much each further step gained
# * CUTLASS, *Efficient GEMM in CUDA*, warp specialisation; `make_producer_start_state` is the parity 1 of above
