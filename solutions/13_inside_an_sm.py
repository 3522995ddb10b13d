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
# # 13 · Inside an SM
#
# **After this unit you can** say what limits a card: power, registers, latency, or a level of memory. You can read its
# machine code, ask for tiles by descriptor, and give a fixed number of programs their tiles. In Gluon, the language
# below Triton, you can say which lane holds what, lay out shared memory so that no bank is asked twice, and start
# copies ahead of their use. You need 05 (tiles, a matmul). You need no GPU: kernels in Gluon run here in a simulator
# that is as asynchronous as the chip.

# %%
import re

import torch
import triton
import triton.language as tl

from course_lib import check, compile_for, figures, hint, progress, trace  # noqa: F401 (some are yours to call)
from course_lib.hardware.measurements import measured
from tritontrace import gpu
from tritontrace.compiled import ptx_for, sass_for
from tritontrace.hopper import bank_conflicts, simulate
from tritontrace.hopper.language import barrier, commit_group, copy_async, gl, gluon, wait_group

# %% [markdown]
# # Part one: what a card can do
#
# ## The question
#
# How fast is unit 05's product on an H200, with the best of the tiles that were tried there, next to NVIDIA's own
# library and next to the datasheet?

# %%
tiling = measured("tiling")
print(f"unit 05   {max(row['flops'] for row in tiling['tiles']) / 1e12:5.0f} TFLOP/s")
print(f"cuBLAS    {tiling['cublas']['4096'] / 1e12:5.0f}")
print(f"datasheet {gpu.datasheet('H200').bf16_flops / 1e12:5.0f}")

# %% [markdown]
# (With three stages instead of four, unit 05's kernel has {{measured tile, three stages}}. Unit 03's plot has
# {{measured product 4096}} for the library: another run, at another clock. Compare only numbers of one run.) The
# library is not much faster than a plain kernel that is well tuned, and the figure of the datasheet is far above both.
# Three explanations are possible: the chip cannot do what the datasheet says, the kernels waste what it can do, or the
# chip does not get enough power. Which of these is the main reason?

# %% predict="sm.guess_light"
# Write "chip", "kernels" or "power" before you go on; it earns no points. The answer is in "Zeros and random numbers" below.
guess_light = ...

# %% [markdown]
# ## The speed of light
#
# A tensor core does a fixed number of multiply-adds in a cycle. An SM has four tensor cores, a GPU has a certain number
# of SMs, and the clock gives the cycles in a second. No kernel can be faster than the product of these numbers, just as
# nothing is faster than light. On Hopper the four tensor cores of an SM do 2048 multiply-adds of half-precision numbers
# in a cycle. (That is 512 each, for dense matrices; with sparsity it is twice as many.) Which clock does the
# datasheet's figure assume?

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
# {{exercise sm.speed_of_light}}
#
# A chip has `sms` SMs, each of which does `macs` multiply-adds in a cycle. At `clock` cycles a second it draws `idle`
# watts that do not depend on the clock, and `switching` watts that grow with its cube. It may draw `limit` watts, which
# is more than `idle`. Return two numbers: the FLOP/s at that clock, and the FLOP/s at the highest clock that stays
# within the limit and is not above the given one. Full marks require
# * both numbers if power does not matter ({{correct.peak}}),
# * both numbers if the chip throttles ({{correct.throttled}}).


# %% exercise="sm.speed_of_light"
def speed_of_light(
    sms: int, macs: int, clock: float, idle: float, switching: float, limit: float
) -> tuple[float, float]:
    """(FLOP/s at this clock, FLOP/s at the highest clock that the limit allows); clock in cycles a second, the others in watts."""
    ### BEGIN SOLUTION
    peak = 2 * sms * macs * clock
    share = min(1.0, ((limit - idle) / switching) ** (1 / 3))
    return peak, peak * share
    ### END SOLUTION


# %% check="sm.speed_of_light"
check("sm.speed_of_light", speed_of_light)

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
# This answers the question, as far as a measurement can. The datasheet says 989 TFLOP/s, random numbers reach
# {{measured product of random}}, and zeros reach {{measured product of zeros}}: they win back {{measured won by
# zeros}}. At least this much is due to power, and no kernel of the same kind can win it back on random numbers. Power may
# cost more than this, since it may slow the product of zeros down, too. So if you optimise a large product, energy is what you can
# still save. A kernel that moves fewer bytes leaves watts for the tensor cores, and SMs that are idle in the last wave
# leave theirs to the others. And a benchmark on zeros proves nothing.
#
# ## Exercise: watts, true or false
#
# {{exercise sm.power}}
#
# Here are six statements about an H200. Write True or False for each ({{truths.plain}}). The measurements are those of
# the cell above. The same word on all six lines earns nothing.

# %% exercise="sm.power"
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

# %% check="sm.power"
check("sm.power", power)

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
# {{exercise sm.occupancy}}
#
# A thread has `registers` registers. A program has `shared` bytes of shared memory (at least one) and `warps` warps.
# `gpu` is one of the dictionaries above. Return how many programs fit onto an SM, and the limit that sets this number:
# "registers", "shared memory", "warps" or "programs" (the places for programs). If several limits give the same number,
# any of them is right. If nothing fits, the number is 0. Full marks require right answers for
# * every number of registers from 16 to 255, with 1 to 16 warps, on two cards ({{holds.as_nvidia_counts.registers}}),
# * every KiB of shared memory, on three cards ({{holds.as_nvidia_counts.shared memory}}),
# * all limits together, on seven cards from a T4 to a B200 ({{holds.as_nvidia_counts.all together}}).


# %% exercise="sm.occupancy"
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


# %% check="sm.occupancy"
check("sm.occupancy", occupancy)

# %% [markdown]
# Move the sliders. At which numbers of registers does an H200 lose a program? What does the 129th register of a thread
# cost, with 4 warps? And from how much shared memory on do more registers no longer cost a program?

# %%
figures.sm.explore_occupancy()

# %% [markdown]
# Occupancy is only a means. It gives a scheduler warps to choose from, so that a wait costs nothing. But the attention
# in research/attention_overlapped.py, one of the fastest of this course, has only one program on each SM. Two groups
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
figures.sm.chains()

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
# {{exercise sm.chains}}
#
# `warps` warps run on one scheduler, each with `chains` chains of `steps` instructions. An instruction of a chain can
# begin `latency` cycles after the one before it began. The pipe can begin an instruction, of any chain, every
# `interval` cycles. The scheduler takes the instruction that has been ready for longest. Return two numbers: the cycle
# in which the last result is there, if the first instruction begins in cycle 0, and the smallest number of warps, with
# `chains` chains each, for which the pipe never waits, however long the chains are. Full marks require both numbers
# * if too few instructions are in flight ({{correct.waits}}),
# * if enough of them are in flight ({{correct.busy}}),
# * for pipes that do not take an instruction in each cycle ({{correct.slow pipe}}).


# %% exercise="sm.chains"
def chains_and_warps(warps: int, chains: int, steps: int, latency: int, interval: int) -> tuple[int, int]:
    """(cycles until the last result, fewest warps that keep the pipe busy)."""
    ### BEGIN SOLUTION
    a_round = warps * chains * interval
    cycles = (steps - 1) * max(latency, a_round) + a_round - interval + latency
    return cycles, -(-latency // (chains * interval))
    ### END SOLUTION


# %% check="sm.chains"
check("sm.chains", chains_and_warps)

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
figures.sm.nested_tiles()

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
# {{exercise sm.warp_tile_bytes}}
#
# In one step along K, of length `bk`, a program's `tile` (M, N) gets its bk columns of a and bk rows of b into shared
# memory. Each warp tile gets the numbers that it needs out of shared memory, and each thread tile gets those that it
# needs into registers. Each of them gets every number once, and none from a neighbour. Return three numbers of bytes:
# what comes into shared memory, what the warps ask for, and what the threads receive. (In the third number, a value
# that is broadcast to eight threads counts eight times.) A warp tile is a part of the tile, and a thread tile is a part
# of its warp tile. At the edges they are cut off. Full marks require the right numbers for
# * tiles that divide one another ({{correct.whole}}),
# * tiles that are cut off ({{correct.edges}}).


# %% exercise="sm.warp_tile_bytes"
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


# %% check="sm.warp_tile_bytes"
check("sm.warp_tile_bytes", warp_tile_bytes)

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

# %% given="sm.machine_code"

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
# There are two, and each takes 16 of the 32. In the SASS below, find the two products, the copies of the next tiles,
# and the branch back to the loop's beginning.

# %%
try:
    sass = sass_for(by_pointers, *halves, 512, 512, BLOCK=64, BLOCK_K=32)
    print(
        "\n".join(
            line for line in sass.splitlines() if re.search(r"^LBB\d+:|HGMMA|WARPGROUP|LDGSTS|DEPBAR|BAR|BRA", line)
        )
    )
except ValueError as missing:
    print(missing)

# %% [markdown]
# (`gdesc` in an `HGMMA` stands for both tiles in shared memory, and R24 for the first register of its sums.) The copies
# and the products go on by themselves, and the loop has one wait for the copies and one for the products. Unit 14
# is about such instructions, and about who waits for them.
#
# Compilers are not perfect, and you find this out by reading their code. Here are three cases from this course:
# * With rows of 1001 floats, every fourth row begins at a multiple of 16 bytes. All rows use the same code, so all
#   loads are as narrow as the worst row needs.
# * A tile of sums that is too large for its warps spills into slow memory. `compile_for` says how many bytes; the compiler
#   itself says nothing.
# * In research/attention_overlapped.py the softmax of one tile stands between the start of a product and the wait for
#   it. ptxas moved the exponentials to after the wait, where no product was left to run at the same time. It moves
#   nothing across a branch, so the kernel has this wait in a loop, with a comment that says why.
#
# ## Exercise: read the machine code
#
# {{exercise sm.machine_code}}
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
# * How many FFMAs stand between the label and the jump back, in the longest loop of each kernel? And of the FFMAs of
#   `two_chains`, how many form one chain, in which each waits for the one before it?
# * Answer with one of the words in quotation marks: does "mma" or "wgmma" multiply on each GPU? (A100 is sm_80, H200
#   sm_90.) Does "cp.async" or "TMA" copy the tiles on sm_90?
# * With how many warps does a tile of 128 × 128 spill: "4 warps", "1 warp", "4 warps and 1 warp" or "none"?
#
# Each of the ten answers is worth {{numbers.plain / 10}}.

# %% exercise="sm.machine_code"
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

# %% check="sm.machine_code"
check("sm.machine_code", read_code)

# %% [markdown]
# ## Tiles by descriptor
#
# A kernel with pointers computes an address for each element, and a mask for each edge. On Hopper one thread can ask a
# unit called **TMA**, the *tensor memory accelerator*, for a whole tile. TMA gets a **descriptor**, which the host
# makes once: it says where the matrix lies, its shape and strides, and the shape of a tile. TMA then computes the
# addresses itself, and puts the tile into shared memory in the order that the tensor cores need. A load fills elements
# beyond an edge with zeros, and a store leaves them out. Meanwhile no thread waits, and no register holds the tile.
#
# In Triton a descriptor is an argument of the kernel. (Its class is called `TensorDescriptor`, as is Gluon's in unit
# 14, so this unit says `HostDescriptor`.)
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
# It would refuse odd sizes, transposed views and slices. research/matmul_persistent.py copies such matrices first,
# and is faster because of it. The same kernel also runs on cards before Hopper, where the compiler turns descriptors
# into addresses and masks.
#
# ## Exercise: a product by descriptors
#
# {{exercise sm.descriptor_matmul}}
#
# Write `descriptor_matmul(a, b)`, which returns a @ b. The matrices are contiguous, of float16 or bfloat16, and K and N
# are multiples of 8. Sum in float32. Full marks require
# * sizes that tiles do not divide ({{correct.ragged}}), and long sums ({{correct.long}}),
# * descriptors for all loads and stores ({{by_descriptors.performance}}),
# * that a is read at most N / 64 times ({{rereads.a.performance}}), and b at most M / 64 times
#   ({{rereads.b.performance}}).

# %% exercise="sm.descriptor_matmul"
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


# %% check="sm.descriptor_matmul"
check("sm.descriptor_matmul", descriptor_matmul)

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
# {{exercise sm.linear_silu}}
#
# Return y · sigmoid(y), where y = x @ w + bias, in half precision as before. You may use descriptors or pointers. Round
# only once, at the end. If the product is rounded first, and the bias nearly cancels it, hardly any digit of the result
# is right. Full marks require
# * sizes that tiles do not divide ({{correct.ragged}}), and sums that the bias nearly cancels ({{correct.precision}}),
# * one launch ({{launches.performance}}), and no more bytes than the product in tiles of 64 × 64 and the bias
#   ({{traffic.performance}}).


# %% exercise="sm.linear_silu"
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


# %% check="sm.linear_silu"
check("sm.linear_silu", linear_silu)

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
figures.sm.walks()

# %% [markdown]
# All SMs share one L2. What counts is how many rows of a and columns of b all programs need at the same time, not which
# tiles one program computes one after another.
#
# ## Exercise: a persistent order
#
# {{exercise sm.persistent_order}}
#
# Return the tiles (m, n) of program `pid`, in the order in which it works on them. There are `sms` programs, and grid_m
# × grid_n tiles. `group` is as in unit 05, where you wrote `grouped_order(pid, grid_m, grid_n, group)`. Write it again
# here, or find another order that is as good. The L2 model takes the first tiles of all programs together, then the
# second tiles, and so on. Full marks require
# * that each tile is computed once, and that no program has more tiles than the mean, rounded up
#   ({{holds.is_dealt.dealt}}),
# * at most 0.65 of the bytes that are read from DRAM if each program takes every `sms`-th tile in row order
#   ({{holds.shares_l2.cache}}).


# %% exercise="sm.persistent_order"
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


# %% check="sm.persistent_order"
check("sm.persistent_order", persistent_order)

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
# {{exercise sm.balanced_walk}}
#
# There are `tiles` tiles, each with `steps` steps along K, and `sms` programs. Return the pieces of program `pid`, in
# any order. A piece is a tuple (tile, first step, end), and its last step is end − 1. Full marks require
# * that each step of each tile is computed once ({{holds.covers.covered}}),
# * that the busiest program has less than one step more than the mean ({{holds.is_balanced.balanced}}),
# * at most tiles + sms - 1 pieces in all ({{holds.is_in_few_pieces.balanced}}).


# %% exercise="sm.balanced_walk"
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


# %% check="sm.balanced_walk"
check("sm.balanced_walk", balanced_walk)

# %% [markdown]
# ## The two ladders
#
# Here is what these ideas are worth, measured on an H200 (the persistent product on an H100): first the product, from
# small tiles to a persistent kernel with specialised warps, then attention. What is the largest step of each? And what
# do the lower bars have in common?

# %%
figures.sm.matmul_ladder()

# %% [markdown]
# The lower bars have small tiles. They read a and b more often, and L2 sets the pace, as in *Bytes at each level*. All
# bars but the last are unit 05's kernel, timed by benchmarks/tiling.py. The last bar is
# research/matmul_persistent.py, which runs at cuBLAS's speed. You build such a kernel in unit 14.

# %%
figures.sm.attention_ladder()

# %% [markdown]
# The steps of attention are in research/attention_ladder.py and research/attention_overlapped.py. This picture does
# not show the next step, which is in research/attention_in_turns.py and is about as fast as FlashAttention-4. The
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
print(figures.sm.which_attention())

# %% [markdown]
# "Timed" marks what this course has measured. Everything else in the table is computed from datasheets and from what
# the versions' authors say. FlashAttention-3 was written for Hopper. If you build it from source, it also runs on
# Ampere and Ada (issue 1049 of the flash-attention repository), with the older instructions of these cards. A B200 is
# newer than Hopper and still does not run everything: `wgmma` exists on Hopper alone, and no source says that the third
# version runs on a B200. The second version does, at a sixth of the card's peak (issue 1589: 380 of 2250 TFLOP/s). The
# fourth version was written for the B200, where it multiplies with `tcgen05`; it runs on Hopper, too. And on a T4 a
# kernel in Triton runs, but on ordinary cores, as `compile_for(..., gpu="sm_75")` shows.

# %% [markdown]
# # Part two: registers, banks and copies
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
figures.sm.explore_who_holds_what()

# %% [markdown]
# This is `gl.BlockedLayout(size_per_thread=[1, 4], threads_per_warp=[8, 4], warps_per_cta=[2, 1], order=[1, 0])`:
#
# | argument | here | it says |
# | --- | --- | --- |
# | `size_per_thread` | 1 x 4 | the elements that a lane takes |
# | `threads_per_warp` | 8 x 4 | how the lanes of a warp lie |
# | `warps_per_cta` | 2 x 1 | how the warps of the program lie |
# | `order` | [1, 0] | axis 1 is counted first: registers, lanes and warps are numbered along a row, then row by row |
#
# Four neighbours in one lane are a single load of 16 bytes, if they are float32.
# If the block is larger than the layout, the layout is repeated, and each lane gets more registers.
#
# ## Exercise: who holds an element
#
# {{exercise sm.holder}}
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


# %% exercise="sm.holder"
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


# %% check="sm.holder"
check("sm.holder", holder)

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
#
# (Triton's own tutorials on Gluon keep a kernel's state in `@aggregate` classes, and compute numbers in a
# `constexpr_function`. A check accepts neither. Keep the state in variables and pass these to your other kernels, and
# compute numbers outside of the kernel or in a function with `@gluon.jit`.)

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
figures.sm.banks()

# %% [markdown]
# The lanes that read a column meet in one bank, and each waits for those before it. There are two ways out, and both
# change only the places of elements within the tile. **Padding** adds a spare word after each row. **Swizzling** needs
# no spare bytes: row r keeps its 32 words, but word c lies in place c XOR r. That is `gl.SwizzledSharedLayout(vec=1,
# per_phase=1, max_phase=32, order=order)`: pieces of `vec` elements move, and piece c of row r lies in place
# `c ^ (r // per_phase % max_phase)`. With `max_phase=1` nothing moves. (TMA and `wgmma`
# of unit 14 need tiles in an `NVMMASharedLayout`. With its swizzle of 128 bytes, the same is done to pieces of 16 bytes:
# piece c of row r lies in place c XOR (r mod 8).) `bank_conflicts` counts the
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
# {{exercise sm.shared_transpose}}
#
# Write `shared_transpose(x)`: each program moves a tile of x through shared memory, so that its loads and its stores
# both run along rows of global memory. x is contiguous, of float32. Full marks require
# * the right result for ragged sizes ({{correct.ragged}}),
# * loads and stores along rows, and no more passes of shared memory than the bytes need, neither to write the tile nor
#   to read it ({{no_conflicts.performance}}),
# * a tile of at most 64 x 64 floats ({{shared_bytes.performance}}),
# * each element read once and written once ({{traffic.performance}}).


# %% exercise="sm.shared_transpose"
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


# %% check="sm.shared_transpose"
check("sm.shared_transpose", shared_transpose)

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
# {{exercise sm.async_column_sum}}
#
# Write `async_column_sum(x)`, which returns the sum of each column of a contiguous matrix of float32. A program walks
# down its columns, tile by tile, while `copy_async` fetches the next tiles. `copy_async` writes zeros where its `mask=`
# is False. A ring of tiles is one allocation with an axis in front: `tiles = gl.allocate_shared_memory(gl.float32, [3, 32,
# 64], layout)`, with a layout of two axes, and `tiles.index(i)` is its tile i. Full marks require
# * the right sums for ragged sizes, and for a matrix that is smaller than the ring ({{correct.ragged}}),
# * that everything is read by `copy_async` ({{uses.cp.async.performance}}), and only once, by at least two programs if
#   there are 256 columns ({{traffic.performance}}),
# * copies under way while at least seven tenths of the tiles are added up ({{overlapped.performance}}),
# * at most 64 KiB of shared memory ({{shared_bytes.performance}}).


# %% exercise="sm.async_column_sum"
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


# %% check="sm.async_column_sum"
check("sm.async_column_sum", async_column_sum)

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
# * A copy begins with an instruction and ends with a wait. Between the two nothing else may touch its tile.

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
# * The tutorials on Gluon in Triton's repository, python/tutorials/gluon, from 01-intro on.
