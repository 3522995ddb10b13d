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
# # 00 · Start here
#
# **After this unit you can** say what a GPU is made of and where it wins against a CPU, write and launch two small Triton
# kernels, and read what a trace says about them. About {{unit hours}}, {{unit minutes}} of them for {{unit exercises}}. You need
# Python and a little torch: what a tensor is, and that `x + 1` adds to each element. You need no GPU. Run the cells from
# top to bottom, with Shift+Enter.
#
# ## The question
#
# Take `x + 1`. You write the same line of code for one core of a CPU and for a GPU, and people say that the GPU is fast. Is
# it? With one element in x the GPU is *slower*. With 16 million it is faster by far. From how many elements on does the GPU
# win? (We assume that x is already in the memory of the chip that adds. Copying it from one to the other would take longer
# than the addition.)

# %% gpu="start.card"
import torch
import triton
import triton.language as tl

from course_lib import check, figures, gpu, hint, progress, trace  # noqa: F401 (hint is yours to call)

card = gpu.current_or_h200()
print(
    f"{card.name}: this machine's GPU"
    if card.measured
    else f"No GPU here that the course knows: sizes are those of the {card.name}, from its datasheet"
)

# %% predict="start.guess_elements"
# From how many elements on is the GPU faster? Write a number before you run the next cell; no points hang on it.
guess_elements = ...

# %% gpu="start.one_or_many"
figures.start.one_or_many(guess_elements)  # the CPU is timed here; the GPU too, if there is one

# %% [markdown]
# Read the right end first: both lines rise, and the GPU's line lies far below the other. On the left the GPU's line is flat
# for a long time. Starting work on the GPU (a *launch*) and getting the answer takes some microseconds, however little
# there is to do. A quarter of a million elements add almost nothing to that. The CPU has much less to do before it can
# start.
#
# Two questions follow. How do you write a program for such a machine? You will have written one in a few minutes. And what
# kind of machine takes that long for one element, but no longer for many? The rest of the unit is about this second
# question.
#
# ## Your first kernel
#
# A function that runs on the GPU is called a **kernel**. **Triton** is a language for kernels inside Python. A launch
# starts a **grid** of *programs*: all run the same kernel, each on a block of elements of its own.
#
# Here is a complete kernel. Read it line by line; the explanation is below.


# %%
@triton.jit
def double_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """out[i] = 2 * x[i] for the BLOCK elements of one program."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, 2 * x, mask=i < n)


x = torch.arange(10, dtype=torch.float32)
out = torch.zeros(10)
with trace() as t:  # inside, kernels run on the CPU, one program after the other, and every access is counted
    double_kernel[(3,)](x, out, 10, BLOCK=4)

print(out)
print(f"{t.programs} programs, {t.loads.bytes} bytes loaded, {t.stores.bytes} bytes stored")

# %% [markdown]
# * `@triton.jit` makes the function a kernel. It is compiled when it is launched, and not run by Python.
# * `double_kernel[(3,)](...)` launches it with a grid of 3 programs. The square brackets say how many programs there are,
#   and the round ones hold the arguments. All 3 run the same code. Why 3? With 4 elements to a program, 10 elements are two
#   full blocks and a part of a third. The grid is a tuple, since it may have up to three numbers; one is enough here.
# * `tl.program_id(0)` is the one thing in which they differ: 0, 1 or 2.
# * `tl.arange(0, BLOCK)` is a block of numbers, 0 to BLOCK - 1. BLOCK must be a power of two, and known when the
#   kernel is compiled: that is what `tl.constexpr` says. So `i` is a block as well: in program 1 it is 4, 5, 6, 7.
# * A tensor arrives as a **pointer** to its first element. `x_ptr + i` is a block of pointers, one to each element whose
#   number is in `i`. `tl.load` reads through all of them, `tl.store` writes.
# * `mask=i < n` keeps the positions where i < n, and switches the others off. Program 2 has i = 8, 9, 10, 11, but there are
#   only 10 elements. A masked position loads nothing and stores nothing: what was in memory stays there.
#
# With tensors on a GPU, the same launch without `with trace()` runs there and gives the same result. On a GPU a launch only
# *queues* the work: Python goes on at once, and `torch.cuda.synchronize()` waits until the GPU is done. In this notebook
# every launch is traced, with or without a GPU. If you forget `with trace()`, Triton looks for a GPU. Where there is none,
# the launch fails, in Triton's words: `0 active drivers`.
#
# Which program does which element? Move the sliders. With n = 33 and BLOCK = 32, how many positions are masked? Which
# BLOCK would mask fewer?

# %%
figures.start.explore_programs_over_elements()

# %% [markdown]
# ## From a kernel to a function
#
# A kernel returns nothing, and somebody must make room for its result. So each kernel gets a function around it, which runs
# on the CPU and is called the *host* function. It has four lines: one each for the sizes, the output, the launch and the
# return.
#
# `triton.cdiv(a, b)` is *ceiling division*: it divides and rounds up. You will meet it in every grid.


# %%
def double(x):
    """x: (n,), contiguous -> (n,), 2 * x."""
    n, BLOCK = x.shape[0], 512
    out = torch.empty_like(x)  # same shape, dtype and device as x; nothing is in it yet
    double_kernel[(triton.cdiv(n, BLOCK),)](x, out, n, BLOCK=BLOCK)
    return out


with trace():
    print(double(torch.arange(5.0)))

# %% [markdown]
# Which BLOCK should you take? Take a power of two that gives each thread a few elements. A program has 128 threads unless
# you say otherwise, so 256 to 4096 are all fine, and 1024 is what you will see most. The results do not depend on it.
#
# ## Exercise: add one
#
# {{exercise start.add_one}}
#
# Write the kernel and the function that launches it, each in the place of its `...  # your code here`. `add_one(x)` returns
# a new tensor, x + 1, of the same dtype. x has n elements, at least one, which lie side by side in memory (x is
# *contiguous*). Its dtype is float32 or float16.
#
# In a kernel exercise **your kernel does the work**. Torch may make tensors (`torch.empty_like`) and views of them;
# `x + 1` in the function is torch's kernel, and does not count. The check traces by itself. To try the function yourself,
# trace it as above: `with trace(): print(add_one(torch.arange(5.0)))`.
#
# Full marks need
# * the right result for any number of elements ({{correct.ragged}}), in float16 as well ({{correct.float16}}),
# * each element read once and written once, by at least 8 programs ({{traffic.performance}}).
#
# The verdict of a check also has lines without points. They must all hold before any point is given: your kernel does the
# work, the result is right on a plain case, and the kernel compiles for a GPU. If one of them fails, the rest is not
# judged.


# %% exercise="start.add_one"
@triton.jit
def add_one_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """out[i] = x[i] + 1 for the BLOCK elements of one program."""
    ### BEGIN SOLUTION
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x + 1, mask=i < n)
    ### END SOLUTION


def add_one(x: torch.Tensor) -> torch.Tensor:
    """x: (n,), contiguous -> (n,), x + 1."""
    ### BEGIN SOLUTION
    n, BLOCK = x.shape[0], 1024
    out = torch.empty_like(x)
    add_one_kernel[(triton.cdiv(n, BLOCK),)](x, out, n, BLOCK=BLOCK)
    return out
    ### END SOLUTION


# %% check="start.add_one"
check("start.add_one", add_one)

# %% [markdown]
# The verdict begins with the result: *right*; *right, but wasteful*; *partly right*; *wrong*; *did not run*; or *not
# begun*. Below that you find what lost points and what was seen. A wrong result stands next to the right one, and bars
# compare what was spent with what would have been enough. Click the triangle to see what is right. If you are stuck,
# remove the first `#` below and run the cell; run it again for a stronger hint. There are three.

# %%
# hint("start.add_one")

# %% [markdown]
# Your best result of each check is kept. They are kept in a file of yours outside the course, whose name `progress()` tells
# you, so that neither a restart nor a new copy of the course loses them. What comes next?

# %%
progress()

# %% [markdown]
# ## How this course works
#
# There are four kinds of cells:
#
# | cell | what you do |
# | --- | --- |
# | a demonstration | run it; change a number; run it again |
# | a prediction | write your answer *before* you run the cell below it |
# | an exercise | replace `...  # your code here` by your code, and in a dict each `...` by your answer |
# | a check | run it: it says what is right, what is not, and gives points |
#
# A check is the grader itself: when you hand in the notebook, the same criteria are applied, also on some inputs that you
# have not seen. You may run a check as often as you like. `hint("start.num_programs")` gives a hint for the exercise of
# that name, and a stronger one each time. Hints cost nothing. `progress()` shows your points and what is next.
#
# Three more functions are for later: `from course_lib import reset, validate, make_zip`.
# * `reset("start.num_programs")` puts the exercise back as it was handed out, and keeps what was there in a file.
# * `validate()` looks at the notebook as you have saved it, and says what would be graded and which names are missing.
# * `make_zip()` says the same and makes the zip to hand in.
#
# An unsolved exercise scores zero and breaks nothing. If a name is missing, run the cells above again (*Run All
# Above*); if the notebook is stuck, restart its kernel (*Restart Kernel*), and run from the top.
#
# What works without a GPU? Nearly everything:
#
# | | without a GPU | with one |
# | --- | --- | --- |
# | figures, widgets, exercises, every point | yes | yes |
# | what a kernel does to memory | counted on the CPU | counted on the CPU |
# | what the compiler makes of a kernel | yes: it needs no GPU to compile for one | yes |
# | how long a kernel takes | no: times recorded on an H200 are shown, and marked as such | timed here |
# | extra credit for speed (from 04 on) | no | yes |
#
# ## The way
#
# Each unit rests on those above it. The minutes are for the exercises alone; reading and trying things out take about as
# long again.
#
# {{units}}
#
# ## Exercise: how many programs?
#
# {{exercise start.num_programs}}
#
# There are n elements, and each program takes `block` of them. How many programs must a launch have so that every element
# has a program and no program is without an element? Full marks need the right number
# * where blocks divide n ({{correct.whole}}) and where they do not ({{correct.ragged}}),
# * for n less than a block, and for n = 0 ({{correct.small}}).


# %% exercise="start.num_programs"
def num_programs(n: int, block: int) -> int:
    """Elements, elements a program -> programs."""
    ### BEGIN SOLUTION
    return (n + block - 1) // block  # divide and round up
    ### END SOLUTION


# %% check="start.num_programs"
check("start.num_programs", num_programs)

# %% [markdown]
# ## Exercise: predict a launch
#
# {{exercise start.predictions}}
#
# Predictions are graded, too: a trace says what is right. `double_kernel` is launched on **5000** elements with **BLOCK =
# 1024** and as many programs as it needs. This time x is **float16** (2 bytes an element) and out is **float32** (4 bytes);
# `tl.store` converts to the dtype of the tensor that it writes. How many programs are there? How many positions of the
# *load* are masked, over all programs? How many bytes are loaded, and how many stored?
#
# Write numbers, or arithmetic on them such as `4 * 1024`. Code that finds them out is no prediction: it earns nothing.

# %% exercise="start.predictions"
predicted_double = {"programs": ..., "masked_positions": ..., "bytes_loaded": ..., "bytes_stored": ...}
### BEGIN SOLUTION
predicted_double = {
    "programs": 5,  # 4 full blocks are 4096 elements
    "masked_positions": 120,  # 5 * 1024 - 5000
    "bytes_loaded": 10_000,  # 5000 * 2: masked positions move nothing
    "bytes_stored": 20_000,  # 5000 * 4
}
### END SOLUTION

# %% check="start.predictions"
check("start.predictions", predicted_double)

# %% [markdown]
# Here is how it was counted, on a smaller launch. Change the numbers; predict, then run.

# %%
n, BLOCK = 1000, 256
x, out = torch.ones(n, dtype=torch.float16), torch.empty(n)
with trace() as t:
    double_kernel[(triton.cdiv(n, BLOCK),)](x, out, n, BLOCK=BLOCK)
print(f"{t.programs} programs, {t.loads.masked} positions of the load masked")
print(f"{t.loads.bytes:,} bytes loaded, {t.stores.bytes:,} bytes stored")

# %% [markdown]
# ## What if the mask is missing?
#
# A kernel without a mask reads and writes past the end of its tensors. On a GPU one of two things happens: the program is
# stopped with an error that names no line, or nothing is noticed, and another tensor's numbers have changed. A trace looks
# at each address before it is used. What do you expect the trace to say here?


# %%
@triton.jit
def unmasked_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, 2 * x)


x = torch.ones(1000)
try:
    with trace() as t:
        unmasked_kernel[(4,)](x, torch.empty(1000), BLOCK=256)
except Exception as fault:
    print(fault)

# %% [markdown]
# The last program has 256 positions and only 232 elements. The last lines of the message name the usual causes; strides and
# offsets are the subject of 01.
#
# ## The ladder
#
# A GPU is a tall stack of simple ideas. Each rung of this ladder rests on those below it, and nobody works on all of them.
# You need not remember the names now: each comes back where it is used.

# %%
figures.start.ladder()

# %% [markdown]
# From the bottom:
#
# * **Atoms** of silicon form a crystal that hardly conducts: a **semiconductor**. A few foreign atoms in a million change
#   that, and a voltage on an electrode beside it switches the current on and off.
# * That switch is a **transistor**. Four of them make a **gate** (out = not (a and b)), and gates make all the rest. Gates
#   that feed each other, as in a **flip-flop**, keep a bit until the next tick of the clock. 32 bits side by side are a
#   **register**: one number. The next cell builds an adder, and a latch that keeps one bit, from this one gate.


# %%
def nand(a: int, b: int) -> int:
    """One gate: four transistors."""
    return 1 - a * b


def add_bits(a: int, b: int, carry: int) -> tuple[int, int]:
    """(sum, carry) of three bits: nine gates. 32 of these side by side add two numbers."""
    first = nand(a, b)
    half = nand(nand(a, first), nand(b, first))
    second = nand(half, carry)
    return nand(nand(half, second), nand(carry, second)), nand(first, second)


def latch(set_: int, reset: int, q: int) -> int:
    """Two gates, each with the other's output as an input: the bit that they settle on, from q. Both inputs are 1 at rest."""
    for _ in range(2):
        q = nand(set_, nand(reset, q))
    return q


print("1 + 1 + 1 =", add_bits(1, 1, 1), "(sum, carry)")
q = 0
for set_, reset in ((1, 1), (0, 1), (1, 1), (1, 1), (1, 0), (1, 1)):
    q = latch(set_, reset, q)
    print({(1, 1): "rest", (0, 1): "set", (1, 0): "reset"}[set_, reset], "->", q)

# %% [markdown]
# At rest the inputs are always the same. Yet the output is 1 after *set* and 0 after *reset*: it depends on the past, and
# that is memory. Two such latches, one behind the other, are a flip-flop. From here on:
#
# * An **ALU** is a net of gates between registers. Its main operation is the **FMA**, the *fused multiply-add*: for three
#   numbers, a × b + c. A **tensor core** does something larger in one instruction: A B + C for three small *matrices*. It
#   has no instruction set of its own. Like the ALUs, it is a part of the SM that a warp's instruction calls. So is the
#   **special-function unit** (SFU; in machine code `MUFU`), which computes exp2, sine or 1/x. Nothing is computed *in*
#   registers: data waits there before and after.
# * A **streaming multiprocessor** (SM) puts ALUs, tensor cores, registers and a memory of its own under schedulers
#   that hand out instructions. A **GPU** is many SMs, a cache that they share, and main memory beside the chip.
# * The **ISA** (instruction set architecture) is the list of instructions that a chip understands. NVIDIA's list, written
#   as text that people can read, is called **SASS**. Each generation of GPUs has a new one.
# * So compilers first write **PTX**, an assembly language for no chip in particular. An assembler translates it into SASS
#   for the chip at hand. The result is a file, the **cubin**. (If you know compilers for CPUs: PTX takes the place of LLVM
#   IR, SASS that of machine code, and the cubin that of an ELF file, which it really is.)
# * **CUDA** is NVIDIA's driver, libraries and C++ for GPUs. A function that runs on the GPU is called a **kernel**.
#   **Triton**, which you will use, is a language for kernels inside Python; its compiler writes PTX, too.
# * **PyTorch** keeps tensors and gradients. When you write `x + 1`, it calls a kernel for addition that was compiled
#   when PyTorch was built. This is called *eager* mode; nothing is compiled then (`torch.compile` is another matter).
# * A **transformer** is, seen from here, a sequence of kernel launches. The end of this unit says more about it.
#
# In CUDA C++ the first kernel of this unit would look like this. One *thread* has one element, and the grid counts blocks
# of threads:
#
# ```cpp
# __global__ void double_kernel(const float* x, float* out, int n) {
#     int i = blockIdx.x * blockDim.x + threadIdx.x;   // Triton: tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
#     if (i < n) out[i] = 2 * x[i];                    // Triton: mask=i < n
# }
# double_kernel<<<(n + 1023) / 1024, 1024>>>(x, out, n);
# ```
#
# You have written a kernel. What becomes of it on the way down the ladder? Here is `double_kernel`, compiled for two
# generations of GPUs: that of the A100, which NVIDIA calls sm_80, and that of the H100 and H200, sm_90. Neither GPU has to
# be here for this. First comes the PTX, of which we show only the lines that touch memory or do arithmetic on floats:

# %%
from course_lib.compiled import ptx_for, sass_for  # noqa: E402

x, out = torch.empty(1024), torch.empty(1024)
for architecture in ("sm_80", "sm_90"):
    ptx = ptx_for(double_kernel, x, out, 1000, BLOCK=128, gpu=architecture)
    print(architecture)
    print("\n".join(line for line in ptx.splitlines() if any(word in line for word in (".global.b", ".f32"))))

# %% [markdown]
# The text is the same for both. (The compiler has turned 2 * x into x + x.) `ld.global` loads from main memory, `st.global`
# stores, `@%p1` is the mask, and `%r1` is a register. Now comes the machine code:

# %%
for architecture in ("sm_80", "sm_90"):
    print(architecture)
    try:
        sass = sass_for(double_kernel, x, out, 1000, BLOCK=128, gpu=architecture)
        print(
            "\n".join(
                line for line in sass.splitlines() if any(word in line for word in ("LDG", "STG", "FADD", "FMUL"))
            )
        )
    except ValueError as error:  # it takes NVIDIA's disassembler, which comes with Triton's wheels or with CUDA
        print(error)

# %% [markdown]
# The instructions have other names here (`LDG`, `STG`), and the two generations do not agree even on these few lines. Their
# bits have nothing in common that a program could rely on: SASS for sm_80 does not run on an sm_90 chip.
#
# ## Two chips
#
# A CPU is built so that *one* program ends soon. It has large caches, and much control logic that guesses which way a
# branch will go and what can be done early. A GPU is built so that *many* end per second: most of its area computes, and
# its control is simple, since 32 lanes share it. What does that look like?

# %%
figures.start.two_dies()

# %% [markdown]
# Why did GPUs win for neural networks? To make a chip of this kind faster, one only adds SMs. One program describes the
# work of all SMs. And switching between threads costs nothing, since every thread keeps its own registers.
#
# ## Latency and throughput
#
# *Latency* is how long one thing takes. *Throughput* is how many get done in a second. A CPU is built for latency: it has a
# few large cores, and each of them does its best to finish one chain of instructions soon. A GPU is built for throughput.
#
# A *cycle* is one tick of the chip's clock. In one cycle an ALU starts one FMA. An answer from main memory takes
# hundreds of cycles; you will see how many below.
#
# How can such a machine be fast? It never waits with nothing to do. An SM holds many **warps**, groups of 32 threads. (A
# *thread* is one chain of instructions with registers of its own.) When one warp waits for memory, the scheduler takes an
# instruction from another one. Switching costs nothing, since all warps keep their registers in the SM at the same time.
#
# Below is one scheduler with a few warps. Each warp works for some cycles, then waits for memory, again and again. Move the
# sliders; *work* and *wait* are in cycles.
# * With 4 warps, a wait of 400 and 40 cycles of work: what share of the time are the ALUs at work? Why that number?
# * Keep the wait as it is. What else besides more warps keeps the ALUs at work?

# %%
figures.start.explore_hiding_latency()

# %% [markdown]
# With 4 warps the ALUs work 160 cycles of every 440, which is 36 %. When you add warps, no warp becomes faster. The
# scheduler only has more of them to turn to. More work before each wait has the same effect, and most of this course is
# about that.
#
# ## Exercise: how many warps hide a wait?
#
# {{exercise start.warps_needed}}
#
# Each warp works `work` cycles, then waits `latency` cycles, and so on. `work` is at least 1. What is the smallest
# number of warps with which the ALUs are always at work? Full marks need the number that a simulation finds
# * where `work` divides `latency` ({{correct.even}}), and where it does not ({{correct.ragged}}),
# * where there is no wait at all ({{correct.no wait}}).


# %% exercise="start.warps_needed"
def warps_needed(latency: int, work: int) -> int:
    """Cycles that a warp waits, cycles that it works before each wait -> fewest warps that leave no cycle idle."""
    ### BEGIN SOLUTION
    return 1 + triton.cdiv(latency, work)  # cdiv divides and rounds up: the others fill the wait
    ### END SOLUTION


# %% check="start.warps_needed"
check("start.warps_needed", warps_needed)

# %% [markdown]
# How many warps does a GPU hold, then? A thread slot is a place for a thread's state in an SM.

# %% gpu="start.threads"
slots = card.sms * card.threads_per_sm
ahead = card.sms * figures.start.lanes(card)
print(f"{card.name}: {card.sms} SMs x {card.threads_per_sm} thread slots = {slots:,} threads, {slots // 32:,} warps")
print(f"ALUs that start an FMA in a cycle: {ahead:,}. So there are {slots / ahead:.0f} threads for each of them.")
print(
    f"A cycle is {1e9 / figures.start.clock(card):.2f} ns: {figures.start.clock(card) / 1e9:.2f} billion of them in a second."
)

# %% [markdown]
# ## Threads, warps, blocks, grid
#
# Work for a GPU is divided in levels. From the top down: a launch starts a **grid** of *programs*. (CUDA calls a program a
# *thread block*.) Each program runs on one SM, as a few warps. Each warp has 32 threads, also called lanes.

# %%
figures.start.thread_hierarchy()

# %% [markdown]
# | level | what runs it | what it has for itself |
# | --- | --- | --- |
# | grid | the GPU | L2 and main memory, shared with everyone |
# | program (CUDA: thread block) | an SM | a part of that SM's shared memory |
# | warp: 32 threads | a scheduler of that SM, one instruction at a time for all 32 | |
# | thread, or lane | a lane of the ALUs | its registers |
#
# A block of numbers may have more positions than the program has threads: with 128 threads and a block of 1024, each thread
# holds 8. Take care: the reports of a trace also say *lane* when they mean a position in a block.
#
# Two things follow that surprise most people once. Programs start **in any order**, as SMs become free, and nobody
# knows which one ends first. And in Triton a program cannot see into another program's shared memory or registers: what
# one leaves for another goes through L2 or main memory. (From Hopper on, CUDA can launch thread blocks in **clusters**,
# and the blocks of a cluster do read each other's shared memory.)
#
# In CUDA you write what one *thread* does. In Triton you write what one *program* does, with whole blocks of numbers,
# and the compiler deals the block out to threads.
#
# ## Debugging a race
#
# Somebody wrote a kernel that copies a tensor, and tried it on a small one, where it worked.


# %%
@triton.jit
def broken_copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """out[i] = x[i], or so it was meant."""
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x, mask=i < n)


def broken_copy(x):
    n, BLOCK = x.shape[0], 1024
    out = torch.empty_like(x)
    broken_copy_kernel[(n // BLOCK,)](x, out, n, BLOCK=BLOCK)
    return out


x = torch.randn(1024)
with trace() as t:
    out = broken_copy(x)
print("1024 elements:", "right" if torch.equal(out, x) else "wrong")

x = torch.randn(5000)
with trace() as t:
    out = broken_copy(x)
print("5000 elements:", "right" if torch.equal(out, x) else f"wrong, {int((out == x).sum())} of 5000 are right\n")
for fault in t.faults:
    print(fault.sentence)

# %% [markdown]
# In a **race** two programs touch the same element, at least one of them writes to it, and the result depends on who comes
# last. Here both happen to write the same number, so a test of the values would not notice. The trace does: it remembers
# which program wrote each element. (It counts 3072 elements, since programs 1, 2 and 3 each store to the same 1024 that
# program 0 has written. The *atomics* that it mentions are for programs that must share an element; they come in 04.)
#
# Because of races, "it worked when I tried it" says little about a kernel. On the CPU the programs of a trace run one after
# the other; on a GPU they do not.
#
# ## Exercise: repair the copy
#
# {{exercise start.fixed_copy}}
#
# Write `fixed_copy` and its kernel. Start from the broken ones (copy the code), and let the report lead you. There is
# a second mistake, which the report above does not name. The check will. To try it yourself:
# `with trace(): print(fixed_copy(torch.arange(5.0)))`.
#
# Full marks need
# * the right result for any number of elements ({{correct.ragged}}),
# * each element read once and written once ({{traffic.performance}}),
# * at least 8 programs that share 65 536 elements ({{shared_work.performance}}): a single program with one huge block would
#   have no race either, but it would use only one SM.


# %% exercise="start.fixed_copy"
@triton.jit
def fixed_copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """out[i] = x[i] for the BLOCK elements of one program."""
    ### BEGIN SOLUTION
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x, mask=i < n)
    ### END SOLUTION


def fixed_copy(x: torch.Tensor) -> torch.Tensor:
    """x: (n,), contiguous -> (n,), a copy."""
    ### BEGIN SOLUTION
    n, BLOCK = x.shape[0], 1024
    out = torch.empty_like(x)
    fixed_copy_kernel[(triton.cdiv(n, BLOCK),)](x, out, n, BLOCK=BLOCK)
    return out
    ### END SOLUTION


# %% check="start.fixed_copy"
check("start.fixed_copy", fixed_copy)

# %% [markdown]
# ## Where numbers live
#
# Your kernel loaded from main memory into registers, computed, and stored. What lies between the two? Each of these
# memories exists because the larger one below it is too slow, and the faster one above it is too small.

# %% gpu="start.memory_hierarchy"
figures.start.memory_hierarchy()

# %% [markdown]
# How does one measure such a thing? Take a list in which each place holds the address of the next, in random order, and
# follow it. No load can start before the last one has answered, so the time of a step is the wait for one answer. Now let
# the list grow from 4 KiB to 1 GiB. (The data that a program uses again and again, here the list, is called its **working
# set**.) What will the curve look like, and how many steps will it have?

# %% gpu="start.working_sets"
figures.start.working_sets()

# %% [markdown]
# Each memory is a step on the left, as long as the list fits into it. The last step is not sharp: when a list is twice as
# large as L2, half of it is still found there. In the right picture all SMs read as fast as they can, and L1 is not used:
# data comes from L2 while it fits there, and otherwise from main memory. (At the far left several programs read the same
# block at the same time, which seems to cost L2 less. We measured the bump where L2 is nearly full on an H200, and we
# cannot explain it.)
#
# Put the two together. A pipe that delivers 5 litres a second, and through which water takes 3 seconds, holds 15 litres.
# Memory is such a pipe. To keep it full, (bandwidth × waiting time) bytes must be on their way at every moment.

# %% gpu="start.bytes_under_way"
slots = card.sms * card.threads_per_sm  # threads that the GPU holds, as above
memory = figures.start.memories(card)[-1]
if memory.wait:
    under_way = memory.rate * memory.wait[1]
    print(f"{memory.rate / 1e12:.2f} TB/s x {1e9 * memory.wait[1]:.0f} ns = {under_way / 1e6:.1f} MB under way,")
    print(f"{under_way / slots:.0f} bytes for each of the {slots:,} thread slots.")
else:
    print(f"The wait for {card.name}'s memory is not measured.")

# %% [markdown]
# So on a GPU that is full of threads, each thread must have one or two numbers under way all the time. This is why kernels
# are launched with so many programs. With fewer threads, each must ask for more at once.
#
# What the memories are made of explains the picture. Registers, shared memory, L1 and L2 are **SRAM**: several transistors
# hold a bit. They lie on the chip and are as fast as the logic around them. **HBM** (high-bandwidth memory) is **DRAM**: a
# bit is one transistor and one tiny capacitor, whose charge leaks and must be refreshed. That packs far more bits into the
# same area, on chips of their own, and takes longer to read. (Smaller cards have GDDR memory: DRAM as well.)
#
# *Shared memory* has a misleading name. It is shared by the threads of one program, on one SM, and not by the whole GPU
# (the clusters above are the one exception). It lies in the same SRAM as the **L1 cache**. You write to shared memory on
# purpose; a cache keeps by itself what was read a moment ago. (In Triton the compiler uses shared memory for you.)
#
# CUDA's manual knows two more names, and both are about who sees a number, not about where it lies. **Local memory**
# belongs to one thread; it is a part of HBM, and holds what did not fit into registers. **Constant memory** is 64 KB of
# HBM that kernels only read. It has a cache of its own, which is fast where all lanes of a warp ask for the same number.
# The arguments of a launch arrive there. In Triton you declare neither.
#
# Distance counts as well. Here is the chip as it lies on its package: the memory is next to it, millimetres away, and L2 is
# in its middle:

# %%
figures.start.floor_plan()

# %% [markdown]
# ## Where the speed came from
#
# **History.** GPUs were made to draw triangles; the word was coined for the GeForce 256 of 1999. In 2001 Larsen and
# McAllister multiplied matrices on one (*Fast matrix multiplies using graphics hardware*): the matrices were textures, and
# the product the brightness of a picture. CUDA (2007) made that unnecessary, and AlexNet (2012) was trained on two gaming
# cards. Tensor cores came with the V100 (2017).
#
# **Moore and Dennard.** Moore's law says that the number of transistors on a chip doubles about every two years. It says
# nothing of speed. That was Dennard's law: smaller transistors need less voltage, so that clocks rise while each square
# millimetre stays as cool as before. It ended about 2005: the voltage could not fall any further, because transistors that
# are off would have let too much current leak. Since then a single thread has hardly become faster, and all further
# transistors go into more units side by side, and into larger ones: a tensor core does more for each instruction that is
# fetched.
#
# **SRAM** shrinks more slowly than logic: TSMC's N3E has the same SRAM cell as N5 before it, 0.021 µm² (TSMC at IEDM 2022,
# as WikiChip reports), and for N2 the company announced 0.0175 µm² (IEDM 2024). So caches do not grow as ALUs do.
#
# **HBM** has become faster in four ways at once. The first generation had 4 stacks of 128 GB/s on a card. The H200 has 6 of
# 800 GB/s, each of 1024 data wires: higher rates for each wire, more stacks beside the chip, more layers in each stack,
# and, with HBM4, 2048 wires. It is expensive: of what the parts of AI chips cost, Epoch AI estimates that HBM made up 52 %
# at the beginning of 2024 and 63 % at the end of 2025, and the dies that compute about 13 %. 80 GB are 6.4 × 10¹¹ bits,
# each with one transistor and one capacitor: that is eight times as many transistors as the H100's own chip has.
#
# ## Why compute outgrew memory
#
# A **FLOP** is one floating-point operation, an addition or a multiplication, so an FMA is two; **FLOP/s** is how many
# a machine does in a second. (A TB/s, as above, is 10¹² bytes in a second.) From one generation to
# the next, arithmetic has gained more speed than memory. Here are five GPUs of four generations, from their datasheets:

# %%
figures.start.compute_outgrew_memory()

# %% [markdown]
# One byte fetched from memory must now be used in hundreds of operations if the tensor cores are to be busy. (The H200 is
# an H100 with faster memory, which explains the dip.) How many operations does `x + 1` do for each byte?

# %% gpu="start.idle"
flops, moved = 1, 4 + 4  # for one float32: an addition; 4 bytes read and 4 written
could = card.fp32_flops / card.hbm_bandwidth
print(f"x + 1: {flops / moved} FLOPs a byte. {card.name}: {could:.1f} fp32 FLOPs in the time of a byte.")
busy = 2 * flops / moved / could  # the peak counts FMAs, two FLOPs each; an addition takes as long as an FMA
print(f"The ALUs are idle {1 - busy:.0%} of the time, whatever you do to the arithmetic.")

# %% [markdown]
# So `x + 1` waits for memory, and a GPU with twice the FLOP/s would not run it any faster. This is the rule rather
# than the exception, and the plan of the course follows from it:
#
# * move no byte that nobody asked for (04, coalescing),
# * once a byte is here, use it often (05, tiling),
# * do not send it back in between (06, fusion),
# * compute it again if that is cheaper than keeping it (07, recomputation),
# * and all four at once: FlashAttention (08 to 10).
#
# ## What the hardware is wanted for
#
# A **transformer** predicts the next token of a text; a token is a piece of a word. It does so in six steps. Here they
# are, with the words that the rest of the course uses:
#
# 1. Each token becomes a vector of numbers, its **embedding**.
# 2. Each layer takes a vector x, computes an update f(x), and **adds** it: x + f(x). The vector that is handed on
#    like this is called the *residual stream*.
# 3. In **attention**, three learned matrices make a **query**, a **key** and a **value** of each token's vector. It
#    is queries and keys that are compared, by dot products; the embeddings themselves are not.
# 4. A **softmax** turns one query's dot products into weights that are positive and sum to 1.
# 5. The update is the sum of the values with these weights.
# 6. At the end an **unembedding** turns each vector into one number for each token that could come next. In GPT-2 small
#    (Radford and others, 2019) it makes 50 257 numbers out of 768: the vector grows, despite the name.
#
# Between the attention of one layer and the next lies an **MLP**: a matrix makes the vector about four times as long, a
# nonlinear function follows, and another matrix brings the vector back to its length. A **normalisation** comes before the
# attention and before the MLP. Two things are often said wrongly. The MLP is not there because nothing else is nonlinear:
# softmax and normalisation are, too. And the MLP is made of products of matrices, not of single FMAs. (The first
# transformer had an *encoder*, which read one text, and a *decoder*, which wrote another. Today's language models are
# decoders alone.)
#
# Which unit of an SM does which step?
#
# | step | tensor cores | ALUs | special functions | memory |
# | --- | --- | --- | --- | --- |
# | embedding of a token | | | | a row of a table: a gather |
# | normalisation | | sums, multiplications | 1/√x | reads and writes all of x: the limit |
# | q, k, v, and the last product of attention | products | | | weights, once |
# | scores, and the sum of values | products | | | in unit 09 they never leave the chip |
# | softmax | | maximum, sum | exp2 for each score: the limit in unit 09 | |
# | MLP | products | activation | tanh or erf of it | weights, once |
# | residual | | additions | | reads and writes all of x: the limit |
# | unembedding | products | | | a matrix of width × tokens |
#
# Tensor cores have grown fastest, so all that is not a product takes an ever larger share of the time: that is what fusion
# (06) is for. The same fact shapes models, too: they are designed around products of matrices, with sizes that tiles
# divide.
#
# Is a dot product of two similar vectors near 1? Here is one query with eight keys, of 64 standard normal numbers
# each. Key 3 was made from the query, with a little noise. Guess the height of its bar. (On the right the dot products are
# divided by √64 before the softmax, as attention does; 08 says why.)

# %%
figures.start.dots_and_weights()

# %% [markdown]
# The bar is not near 1 but near 64: the dot product of a vector with itself is the sum of 64 squares, each of which is 1 on
# average. (This query is a little longer than most.) It is the *weight* that comes out near 1, since the other dot products
# are so much smaller.
#
# ## An aside: TPUs
#
# You may skip this section; nothing later needs it. Does any of this belong to NVIDIA alone? Google's TPUs are the same
# idea with other names:
#
# | NVIDIA GPU | TPU | |
# | --- | --- | --- |
# | SM | TensorCore | the unit that programs run on; a GPU has many small ones, a TPU one or two large ones |
# | tensor core | MXU | the unit for matrix products: *TensorCore* is not *tensor core*, and both multiply matrices |
# | ALUs (32 lanes a warp) | VPU | the unit for elementwise work |
# | shared memory, L1 | VMEM | memory on the chip; on a TPU the compiler plans all of it |
# | HBM | HBM | the same kind of memory |
# | CUDA, Triton | XLA, Pallas | compiler, and language for kernels |
#
# A TPU has no warps. One stream of instructions drives a whole TensorCore, and each instruction may start several units.
# Copies into VMEM that are planned ahead hide the latency. TPUs are networked in another way, too: each chip has wires to
# its four or six neighbours, in a grid whose ends are joined. GPUs talk through switches, each one to any other, in groups
# of 8 to 72 (*How to Scale Your Model*, see the end of this page). And what about the balance of compute and memory?

# %% gpu="start.tpu"
tpu_flops, tpu_bandwidth = 459e12, 2765e9  # TPU v5p, bf16, a chip: Google Cloud's documentation, page "TPU v5p"
print(
    f"TPU v5p: {tpu_flops / tpu_bandwidth:.0f} FLOPs a byte; {card.name}: {(card.fp16_flops or 0) / card.hbm_bandwidth:.0f}"
)

# %% [markdown]
# ## Exercise: true or false
#
# {{exercise start.myths}}
#
# Much of what is said about GPUs and transformers is only nearly right. Here are 34 statements, {{all / 34}} each. Write
# `True` or `False` for `...`. The unit has touched on all of them. The check shows an explanation next to each statement
# that has an answer.

# %% exercise="start.myths"
myths = {
    # A tensor core's basic operation is the fused multiply-add of three numbers.
    "tensor_core_is_fma": ...,
    # A GPU is fast because each of its operations finishes sooner than a CPU's.
    "faster_operations": ...,
    # It helps that an SM holds more warps than can execute in one cycle.
    "more_warps_than_alus": ...,
    # The 32 lanes of a warp share one instruction at a time.
    "warp_shares_instruction": ...,
    # Registers, shared memory, L1 and L2 are all SRAM.
    "caches_are_sram": ...,
    # HBM is DRAM: a bit is one transistor and one capacitor.
    "hbm_is_dram": ...,
    # From V100 to B200, matrix FLOP/s grew by a larger factor than memory bandwidth.
    "compute_outgrew_memory": ...,
    # x + 1 on a large tensor takes half the time on a GPU with twice the FLOP/s and the same memory.
    "add_one_needs_flops": ...,
    # Shared memory is shared by all programs of a launch.
    "shared_memory_is_global": ...,
    # A Triton program runs on one thread.
    "program_is_thread": ...,
    # The programs of a grid run in the order of their numbers.
    "programs_in_order": ...,
    # Where the mask is false, a store writes a zero.
    "masked_store_writes_zero": ...,
    # On a GPU, a launch returns before the kernel has finished.
    "launch_returns_early": ...,
    # PyTorch in eager mode compiles a kernel for each operation that it meets.
    "eager_compiles": ...,
    # PTX is translated into the machine code of the GPU at hand.
    "ptx_is_translated": ...,
    # Machine code (SASS) for an A100, sm_80, runs on an H100, sm_90, as well.
    "sass_runs_everywhere": ...,
    # cubin is the instruction set of NVIDIA's GPUs.
    "cubin_is_a_language": ...,
    # The dot product of two similar vectors is near 1.
    "similar_dot_near_one": ...,
    # An attention weight, after the softmax, can be near 1.
    "weight_near_one": ...,
    # Attention compares the embeddings of tokens with one another.
    "attention_compares_embeddings": ...,
    # A layer of a transformer adds an update to the residual stream.
    "residual_adds": ...,
    # The unembedding makes a vector longer.
    "unembedding_widens": ...,
    # There were GPUs before there was CUDA.
    "gpus_before_cuda": ...,
    # Nobody multiplied matrices on a GPU before there were tensor cores.
    "matmul_needs_tensor_cores": ...,
    # Smaller transistors still make clocks faster at the same power for each area.
    "dennard_holds": ...,
    # A bit of SRAM shrinks with each new process as logic does.
    "sram_shrinks": ...,
    # HBM is fast because it has thousands of wires to the chip, more than because each of them is fast.
    "hbm_is_wide": ...,
    # A tensor core runs a program of its own, in an instruction set of its own.
    "tensor_core_has_isa": ...,
    # Arithmetic happens in the registers.
    "registers_compute": ...,
    # In eager PyTorch the result of each operation goes to the CPU before the next one begins.
    "eager_returns_to_cpu": ...,
    # A transformer without the activation in its MLP would still have nonlinear parts.
    "softmax_is_nonlinear": ...,
    # On an H100, programs of one cluster can read each other's shared memory.
    "clusters_share": ...,
    # Two gates, each of which has the other's output among its inputs, can keep a bit.
    "gates_remember": ...,
    # Tensor cores are called so because one instruction of theirs takes tensors of any number of dimensions.
    "tensor_core_takes_tensors": ...,
}
### BEGIN SOLUTION
myths = {
    "tensor_core_is_fma": False,
    "faster_operations": False,
    "more_warps_than_alus": True,
    "warp_shares_instruction": True,
    "caches_are_sram": True,
    "hbm_is_dram": True,
    "compute_outgrew_memory": True,
    "add_one_needs_flops": False,
    "shared_memory_is_global": False,
    "program_is_thread": False,
    "programs_in_order": False,
    "masked_store_writes_zero": False,
    "launch_returns_early": True,
    "eager_compiles": False,
    "ptx_is_translated": True,
    "sass_runs_everywhere": False,
    "cubin_is_a_language": False,
    "similar_dot_near_one": False,
    "weight_near_one": True,
    "attention_compares_embeddings": False,
    "residual_adds": True,
    "unembedding_widens": True,
    "gpus_before_cuda": True,
    "matmul_needs_tensor_cores": False,
    "dennard_holds": False,
    "sram_shrinks": False,
    "hbm_is_wide": True,
    "tensor_core_has_isa": False,
    "registers_compute": False,
    "eager_returns_to_cpu": False,
    "softmax_is_nonlinear": True,
    "clusters_share": True,
    "gates_remember": True,
    "tensor_core_takes_tensors": False,
}
### END SOLUTION

# %% check="start.myths"
check("start.myths", myths)

# %%
progress()

# %% [markdown]
# ## What you now know
#
# * A GPU is slow at one thing and fast at many: it hides waiting behind other warps.
# * A launch is a grid of programs. A program runs on one SM, as warps of 32 threads; you write it with blocks.
# * A kernel finds its place with `tl.program_id`, its elements with `tl.arange`, and its end with a mask. A grid
#   rounds up.
# * Programs run in any order. Two that write to one place are a race, and a trace names it.
# * From registers to HBM, memories get slower and further away, and HBM is larger than all the others by far. Compute has
#   outgrown them, so most kernels wait for memory.
#
# The unit has {{unit points}} in {{unit exercises}}. Next: 01 looks at what a tensor is, and why a transpose moves nothing.
#
# ## Where to read on
#
# * NVIDIA, *H100 Tensor Core GPU Architecture* whitepaper: SMs, tensor cores and memories of the Hopper generation.
# * NVIDIA, *CUDA C++ Programming Guide*, the chapters on the programming model and on the hardware implementation.
# * W. Luo and others, *Benchmarking and Dissecting the Nvidia Hopper GPU Architecture* (arXiv 2402.13499): waits and
#   speeds of every unit, of three generations.
# * The Triton documentation, first tutorial: vector addition.
# * Google, *How to Scale Your Model*: TPUs and GPUs side by side.
# * Stanford, *CS336: Language Modeling from Scratch*: the lecture on GPUs, why they look as they do.
# * The video that climbs from atoms to transformers, and the corrections of its commenters: the ladder of this unit comes
#   from both.
# * C. Petzold, *Code*: from a switch to a processor, for the lower rungs of the ladder.
