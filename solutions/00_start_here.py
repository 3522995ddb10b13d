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
# **After this unit you can** say what a GPU is made of and where it beats a CPU, write and launch two small Triton
# kernels, and read the report of a *trace*: a run on the CPU that counts a kernel's accesses to memory. You need Python
# and a little torch (what a tensor is, and that `x + 1` adds 1 to each element), but no GPU. Run the cells from top to
# bottom, with Shift+Enter. The first one that imports torch takes a few seconds.
#
# ## The question
#
# Take `x + 1`. You write the same line of code for one core of a CPU and for a GPU. With one element in x the GPU is
# *slower*. With 16 million elements it is much faster. How many elements does it take before the GPU wins? (We assume
# that x is already in the memory of the chip that does the addition.)

# %%
import torch
import triton
import triton.language as tl

from course_lib import check, figures, gpu, hint, progress, trace  # noqa: F401 (hint is yours to call)

card = gpu.current_or_h200()
print(
    f"{card.name}: this machine's GPU"
    if card.measured
    else f"The course found no GPU that it knows. Where it needs a GPU's specifications, it uses the {card.name}'s datasheet."
)

# %% predict="start.guess_elements"
# How many elements does it take for the GPU to be faster? Write a number before you run the next cell; it earns no
# points.
guess_elements = ...

# %% gpu="start.one_or_many"
figures.start.one_or_many(guess_elements)  # the CPU is timed here; the GPU too, if there is one

# %% [markdown]
# At the right end of the plot both lines rise, and the GPU's line lies far below the CPU's. From the left end to the
# middle, the GPU's line is flat. The reason is that it takes some ten microseconds to start work on the GPU (a
# *launch*) and to get the answer back, even for a single element. Adding 1 to a quarter of a million elements takes
# hardly any longer. The CPU has much less to do before it can start.
#
# Two questions follow. The first is how to write a program for such a machine. A few minutes from now you will have
# written one. The second is why this machine takes so long for one element, yet hardly any longer for thousands of
# them. The rest of the unit answers it.
#
# ## Your first kernel
#
# A function that runs on the GPU is called a **kernel**. **Triton** is a language for kernels inside Python. A launch
# starts a **grid** of *programs*. All programs run the same kernel, and each works on its own block of elements.
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
# * `@triton.jit` makes the function a kernel. Python never runs this function itself. The first launch compiles it,
#   whether the launch goes to a GPU or to a trace.
# * `double_kernel[(3,)](...)` launches it with a grid of 3 programs. The square brackets say how many programs there
#   are, and the parentheses hold the arguments. Why 3? Each program takes 4 elements, so 10 elements fill two blocks
#   and part of a third. The grid is a tuple because it may have up to three numbers; here one is enough.
# * `tl.program_id(0)` is the number of the program: 0, 1 or 2. Nothing else differs between the programs.
# * `tl.arange(0, BLOCK)` is a block of numbers, 0 to BLOCK - 1. BLOCK must be a power of two, and its value must be
#   known when the kernel is compiled; `tl.constexpr` says so. Adding a number to a block adds it to each number of the
#   block. So `i` is a block as well: in program 1 it holds 4, 5, 6 and 7.
# * A tensor arrives as a **pointer** to its first element. `x_ptr + i` is a block of pointers, one to each element
#   whose number is in `i`. `tl.load` reads all the elements that these pointers point to, and `tl.store` writes to
#   them.
# * `mask=i < n` switches off the positions where i < n is false. Program 2 has i = 8, 9, 10, 11, but there are only 10
#   elements. A position that is switched off (*masked*) loads nothing and stores nothing, so memory keeps what it held
#   before.
#
# Which program works on which element? Move the sliders to see it. With n = 33 and BLOCK = 32, how many positions are
# masked? Which BLOCK would leave fewer positions masked?

# %%
figures.start.explore_programs_over_elements()

# %% [markdown]
# ## From a kernel to a function
#
# A kernel returns nothing, and it cannot make a tensor for its result. So you write a Python function around each
# kernel. This *host function* runs on the CPU. It has four lines: one for the sizes, one for the output, one for the
# launch, and one for the return. Its docstring says what goes in and, after the arrow, what comes out; (n,) is a shape.
#
# `triton.cdiv(a, b)` is *ceiling division*: it divides and rounds up. You will meet it in every grid. The square
# brackets behind a kernel's name hold the number of programs, and nothing else. (If you know CUDA: there is no second
# number for threads. The compiler shares a program's block among threads by itself.)


# %%
def double(x):
    """x: (n,) -> 2 * x, of shape (n,)."""
    n, BLOCK = x.shape[0], 512
    out = torch.empty_like(x)  # same shape, dtype and device as x; nothing is in it yet
    double_kernel[(triton.cdiv(n, BLOCK),)](x, out, n, BLOCK=BLOCK)
    return out


with trace():
    print(double(torch.arange(5.0)))

# %% [markdown]
# ## Exercise: add one
#
# {{exercise start.add_one}}
#
# Write the kernel and the function that launches it. Replace each `... # your code here` with your code. `add_one(x)`
# returns a new tensor, x + 1, of the same dtype as x. The tensor x has at least one element, and its n elements lie
# side by side in memory (x is *contiguous*). Its dtype is float32 or float16.
#
# In a kernel exercise **your kernel does the work**. You may use torch to make tensors (`torch.empty_like`) and views
# of them. But `x + 1` in the function would run torch's kernel instead of yours, so it does not count. The check traces
# your function for you. To try the function yourself, trace it as above: `with trace():
# print(add_one(torch.arange(5.0)))`.
#
# Full marks require
# * the right result for any number of elements ({{correct.ragged}}), in float16 as well ({{correct.float16}}),
# * for a large x, at least 8 programs, which together read each element of x once and write each element of the result
#   once ({{traffic.performance}}).


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
# The verdict begins with the outcome: *right*; *right, but wasteful*; *partly right*; *wrong*; *did not run*; *not
# accepted*, when something stands in the way, such as torch doing the kernel's work; or *not begun*. Below it you see
# what cost you points, and what the check found. If your function returned wrong values, you see them next to the right
# ones. If the exercise limits the bytes or the launches, you see two bars: one shows how many your answer used, the
# other how many would have been enough. Click the triangle below the verdict to see which of the exercise's
# requirements you met.
#
# Three further requirements earn no points of their own: your kernel must do the work, the result must be right on a
# plain case, and the kernel must compile for a GPU. You get points only if all three hold. If one of them is not met,
# nothing else is judged.
#
# How large should BLOCK be? The results do not depend on it. Take 1024 for now; any power of two from 256 to 4096 is
# fine. Later units say why.
#
# If the tensors are on a GPU, you can leave out `with trace()`. Then the same launch runs on the GPU, and gives the
# same result. Such a launch only *queues* the work. Python goes on at once, and `torch.cuda.synchronize()` waits until
# the GPU is done.
#
# In this notebook every launch is written inside `with trace()`, whether there is a GPU or not. Without `with trace()`,
# a launch needs a GPU, with the tensors on it. If one of these is missing, the launch fails, and the error's last line
# says why.
#
# If you are stuck, remove the first `#` in the next cell and run the cell for a hint. There are three hints; each time
# you run the cell, you get the next, stronger one.

# %%
# hint("start.add_one")

# %% [markdown]
# Your best result for each check is kept in a file outside the course's folder. So it is still there after a restart,
# or after you install a new copy of the course. `progress()` tells you the name of this file, and which exercise comes
# next.

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
# | an exercise | replace `...  # your code here` with your code; if the exercise is a dict, replace each `...` with an answer |
# | a check | run it: it says what is right and what is not, and gives points |
#
# A check applies the grader's own criteria. When you hand in the notebook, the grader applies them again, and also uses
# some inputs that you have not seen. You may run a check as often as you like. `hint("start.add_one")` gives a
# hint for the exercise of that name, and a stronger hint each time you call it. Hints cost nothing. `progress()` shows
# your points and the exercise that comes next.
#
# Three more functions are for later: `from course_lib import reset, validate, make_zip`.
# * `reset("start.add_one")` saves your code to a file, and then resets the exercise to its original state.
# * `validate()` reads the notebook as you last saved it. It lists what would be graded. It also names any function or
#   variable that an exercise asks for but that is missing from the notebook.
# * `make_zip()` gives the same list, and makes the zip file that you hand in.
#
# An unsolved exercise scores zero and breaks nothing. If Python says that a name is not defined, run the cells above
# again (*Run All Above*). If the notebook is stuck, restart it (*Restart Kernel*) and run its cells from the top.
#
# What works without a GPU? Nearly everything:
#
# | | without a GPU | with one |
# | --- | --- | --- |
# | figures, widgets, exercises, and all points except extra credit | yes | yes |
# | what a kernel does to memory | counted on the CPU | counted on the CPU |
# | what the compiler turns a kernel into | yes: Triton compiles for a GPU that is not there | yes |
# | how long a kernel takes | no: times recorded on an H200 are shown, and marked as such | timed here |
# | extra credit for speed (in 02, and from 04 on) | no | yes |
#
# ## The route
#
# Each exercise is on the **main path** or in **More**; the line that announces it says which. The main path is units 00
# to 10, from a first kernel to FlashAttention. Each of them builds on those before it. In a notebook, the path runs
# from the first cell to *What you now know*. More comes after it, and the path never needs it. The points of a unit are
# those of its path. What you earn in More is extra, and makes up for points that you lost on the path. The units from
# 11 on lie beyond the path.
#
# The minutes in this table are for the exercises only; add about half as much for reading and for trying things out.
#
# {{units}}

# %% [markdown]
# ## Exercise: predict a launch
#
# {{exercise start.predictions}}
#
# This prediction is an exercise, so it is graded. The check finds the right numbers with a trace.
#
# `double_kernel` is launched on **5000** elements with **BLOCK = 1024** and as many programs as it needs. This time x
# is **float16** (2 bytes per element) and out is **float32** (4 bytes); `tl.store` converts the numbers to the dtype of
# the tensor that it writes to. How many programs are there? How many positions of the *load* are masked, in all
# programs together? How many bytes are loaded, and how many stored?
#
# Write numbers, or arithmetic on numbers such as `4 * 1024`. Code that works out the answers is not a prediction, and
# earns nothing.

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
# The next cell uses a smaller launch to show how a trace counts. Change n and BLOCK, predict what the cell will print,
# and then run it.

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
# A kernel without a mask reads and writes past the end of its tensors. On a GPU one of two things may then happen.
# Either the launch fails with an error that names no line of the kernel, or it silently changes the numbers of another
# tensor. A trace checks each address before it is used. What do you expect the trace to say here?


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
# The last program has 256 positions but only 232 elements. The end of the message names the usual causes. Two of these,
# strides and offsets, are the subject of unit 01.
#
# ## The ladder
#
# Between silicon and the kernel that you wrote lies a ladder of simple ideas. Each rung rests on those below it, and
# nobody works on all of them. You need not remember the names now. Each name comes back where it is used. (We owe the
# idea of this ladder to Jacob Rintamaki's video *Transformers Explained From The Atom Up*, 2024, and to the viewers who
# corrected it.)

# %%
figures.start.ladder()

# %% [markdown]
# From the bottom:
#
# * **Atoms** of silicon form a crystal that hardly conducts electricity. It is called a **semiconductor**. If a few
#   atoms in a million are replaced by those of another element, the crystal conducts, and a voltage on an electrode
#   next to it can switch the current on and off.
# * Such a switch is a **transistor**. Four transistors make a **NAND gate**, which computes `not (a and b)`. Everything
#   else can be built from NAND gates. Two gates that feed each other form a *latch*, which keeps one bit. Two latches
#   form a **flip-flop**, which keeps its bit until the next tick of the clock. 32 flip-flops side by side form a
#   **register**, which holds one number. (Where many registers are needed, they are made of *SRAM*, which packs bits
#   more densely than flip-flops. More about SRAM below.) The next cell builds an adder and a latch from NAND gates
#   alone.


# %%
def nand(a: int, b: int) -> int:
    """One NAND gate: four transistors."""
    return 1 - a * b


def add_bits(a: int, b: int, carry: int) -> tuple[int, int]:
    """(sum, carry) of three bits, with nine gates. 32 such adders side by side add two 32-bit numbers."""
    first = nand(a, b)
    half = nand(nand(a, first), nand(b, first))
    second = nand(half, carry)
    return nand(nand(half, second), nand(carry, second)), nand(first, second)


def latch(set_: int, reset: int, q: int) -> int:
    """Two gates, each with the other's output as an input. Start from bit q, and return the bit they settle on.

    Both inputs are 1 at rest. If set_ is 0 for a moment, the bit becomes 1. If reset is 0 for a moment, the bit becomes 0.
    """
    for _ in range(2):
        q = nand(set_, nand(reset, q))
    return q


print("1 + 1 + 1 =", add_bits(1, 1, 1), "(sum, carry)")
q = 0
for set_, reset in ((1, 1), (0, 1), (1, 1), (1, 1), (1, 0), (1, 1)):
    q = latch(set_, reset, q)
    print({(1, 1): "rest", (0, 1): "set", (1, 0): "reset"}[set_, reset], "->", q)

# %% [markdown]
# Look at the lines that say *rest*. In all of them the two inputs are 1 and 1. But the output is 1 after *set*, and 0
# after *reset*. The output depends on the past, so the latch has a memory. The next rungs of the ladder are:
#
# * An **ALU** (arithmetic logic unit) is a network of gates between registers. Its main operation is the **FMA**, the
#   *fused multiply-add*, which computes a × b + c for three numbers. Nothing is computed *in* registers: they hold a, b
#   and c before the operation, and the result after it.
# * A **tensor core** does something larger in one instruction: it computes A B + C for three small *matrices*. The
#   **special-function unit** (SFU; in machine code `MUFU`) computes exp2, sine, tanh, 1/x or 1/√x. Neither unit has an
#   instruction set of its own. Like the ALUs, both carry out some of the instructions of the running program.
# * A **streaming multiprocessor** (SM) consists of ALUs, tensor cores, special-function units, registers, a memory of
#   its own, and schedulers that hand out the instructions. A **GPU** consists of many SMs, a cache that they share (the
#   **L2 cache**), and main memory next to the chip.
# * The **ISA** (instruction set architecture) is the list of instructions that a chip understands. NVIDIA's list,
#   written as text that people can read, is called **SASS**. Each generation of GPUs has its own version.
# * So compilers first write **PTX**, an assembly language that belongs to no particular chip. An assembler translates
#   PTX into SASS for the chip at hand. The result is a file called a **cubin**. (If you know compilers for CPUs: PTX
#   plays the part of LLVM IR, and SASS plays the part of machine code. The cubin plays the part of an ELF file, and in
#   fact it is one.)
# * **CUDA** is NVIDIA's software for GPUs: a driver, libraries, and an extension of C++ in which one writes
#   **kernels**. **Triton** is another language for kernels. You write it inside Python, and its compiler writes PTX,
#   too.
# * **PyTorch** manages tensors and gradients. When you write `x + 1`, it calls a kernel for addition that was compiled
#   when PyTorch was built. This is called *eager* mode. Nothing is compiled while your code runs, unless you use
#   `torch.compile`. The result of each operation stays in the GPU's memory, where the next operation finds it.
# * A **transformer**, as the GPU sees it, is a sequence of kernel launches. *More* says more about transformers.
#
# In CUDA C++ the first kernel of this unit would look like this. Each *thread* (more about threads below) computes one
# element. The grid says how many blocks of threads are launched:
#
# ```cpp
# __global__ void double_kernel(const float* x, float* out, int n) {
#     int i = blockIdx.x * blockDim.x + threadIdx.x;   // Triton: tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
#     if (i < n) out[i] = 2 * x[i];                    // Triton: mask=i < n
# }
# double_kernel<<<(n + 1023) / 1024, 1024>>>(x, out, n);
# ```
#
# The second number in the angle brackets, 1024 threads for each block, has no counterpart in Triton's square brackets:
# a program has 128 threads unless the launch says otherwise, and each of them takes several elements. Where the threads
# of a block must wait for each other, CUDA needs a line `__syncthreads()`. Triton's compiler inserts it.
#
# What becomes of a kernel on its way down the ladder? The next cells compile `double_kernel` for two generations of
# GPUs. NVIDIA calls them sm_80 (which includes the A100) and sm_90 (the H100 and the H200). You do not need any of
# these GPUs to compile for them. First comes the PTX. The cell prints only the lines that touch memory or do arithmetic
# on floats:

# %%
from tritontrace.compiled import ptx_for, sass_for  # noqa: E402

x, out = torch.empty(1024), torch.empty(1024)
for architecture in ("sm_80", "sm_90"):
    ptx = ptx_for(double_kernel, x, out, 1000, BLOCK=128, gpu=architecture)
    print(architecture)
    print("\n".join(line for line in ptx.splitlines() if any(word in line for word in (".global.b", ".f32"))))

# %% [markdown]
# The PTX is the same for both generations. (The compiler has turned 2 * x into x + x.) `ld.global` loads from main
# memory, `st.global` stores to it, `@%p1` is the mask, and `%r1` is a register. Now comes the machine code:

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
    except ValueError as error:  # this needs NVIDIA's disassembler, which comes with Triton's wheels or with CUDA
        print(error)

# %% [markdown]
# In machine code the instructions have other names (`LDG`, `STG`), and even these few lines differ between the two
# generations. The binary encoding of the instructions differs, too. So SASS for sm_80 does not run on an sm_90 chip.
#
# ## Two chips
#
# A CPU is built to finish *one* task as soon as possible. It has large caches and a lot of control logic. This logic
# guesses which way a branch will go, and finds work that can be done early. A GPU is built to finish *many* tasks per
# second. Most of its area is given over to computing. Its control logic is simple, and each piece of it serves 32
# *threads* at once, that is, 32 chains of instructions. What do the two chips look like?

# %%
figures.start.two_dies()

# %% [markdown]
# Why did GPUs win out for neural networks? There are three reasons. The first is that such a chip can be made faster by
# adding SMs. The second is that the program stays simple: you write one kernel, and all SMs run it, however many there
# are. The third is that switching between threads costs nothing, because every thread keeps its own registers.
#
# ## Latency and throughput
#
# *Latency* is how long one task takes. *Throughput* is how many tasks get done in a second. A CPU is built for low
# latency: it has a few large cores, and each core is built to finish one chain of instructions as soon as possible. A
# GPU is built for high throughput.
#
# A *cycle* is one tick of the chip's clock. In each cycle an ALU starts one FMA. An answer from main memory takes
# hundreds of cycles; you will see how many below.
#
# How can a machine with such long waits be fast? By keeping other work at hand. An SM holds many **warps**, which are
# groups of 32 threads. (Each thread has registers of its own.) When one warp waits for memory, the scheduler takes an
# instruction from another warp. Switching costs nothing, since all warps keep their registers in the SM at the same
# time.
#
# The widget below shows one scheduler with a few warps. Each warp works for some cycles, then waits for memory, then
# works again, and so on. Move the sliders; *work* and *wait* are in cycles.
# * Set the sliders to 4 warps, 40 cycles of work and 400 cycles of waiting. For what share of the time are the ALUs
#   busy? Why is it this share?
# * Leave the wait as it is. What else, apart from more warps, keeps the ALUs busy?

# %%
figures.start.explore_hiding_latency()

# %% [markdown]
# With 4 warps the ALUs are busy for 160 of every 440 cycles, which is 36 %. When you add warps, no individual warp
# becomes faster, but the scheduler has more warps to choose from, so the ALUs wait less. More work before each wait
# keeps the ALUs busier, too. Much of this course is about doing more work before each wait.

# %% [markdown]
# How many warps does a real GPU hold? In the next cell, a *thread slot* is the room that an SM has for one thread.

# %%
slots = card.sms * card.threads_per_sm
ahead = card.sms * figures.start.lanes(card)
print(f"{card.name}: {card.sms} SMs x {card.threads_per_sm} thread slots = {slots:,} threads, {slots // 32:,} warps")
print(
    f"In each cycle the ALUs together can start {ahead:,} FMAs. For each of these FMAs there are {slots / ahead:.0f} thread slots."
)
cycles = figures.start.clock(card)  # per second
print(f"A cycle takes {1e9 / cycles:.2f} ns, so the clock ticks {cycles / 1e9:.2f} billion times a second.")

# %% [markdown]
# ## Threads, warps, blocks, grid
#
# Work for a GPU is divided into levels. At the top, a launch starts a **grid** of *programs*. (CUDA calls a program a
# *thread block*.) Each program runs on one SM, as a few warps. Each warp has 32 threads, also called lanes, which carry
# out one instruction together (CUDA's manual calls this *SIMT*: single instruction, multiple threads).

# %%
figures.start.thread_hierarchy()

# %% [markdown]
# | level | what runs it | its memory |
# | --- | --- | --- |
# | grid | the GPU | L2 and main memory, shared by all programs |
# | program (CUDA: thread block) | an SM | a part of that SM's shared memory |
# | warp: 32 threads | a scheduler of that SM, one instruction at a time for all 32 | |
# | thread, or lane | an ALU of that SM | its registers |
#
# A block of numbers may have more positions than the program has threads. With 128 threads and a block of 1024, each
# thread holds 8 numbers. So the 32 *lanes* of a warp are not the *positions* of a block: a lane is always a thread.
#
# Two consequences of this division surprise most newcomers. First, programs start **in any order**, whenever an SM has
# room for one, and nobody knows which one will finish first. Second, a Triton program cannot see another program's
# shared memory or registers. If it needs a result from another program, that result must go through L2 or main memory.
# (Since *Hopper*, the generation of the H100, CUDA can launch thread blocks in **clusters**. The blocks of a cluster
# can read each other's shared memory.)
#
# In CUDA you write what one *thread* does. In Triton you write what one *program* does with whole blocks of numbers,
# and the compiler divides each block among the threads.
#
# ## Debugging a race
#
# Somebody wrote a kernel that copies a tensor. On a small tensor it worked. The next cell tries it on a larger one,
# too.


# %%
@triton.jit
def broken_copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """out[i] = x[i], or at least that was the idea."""
    lanes = tl.arange(0, BLOCK)
    i = tl.program_id(0) * BLOCK + lanes
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + lanes, x, mask=i < n)


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
# In a **race** two programs touch the same element, at least one of them writes to it, and nothing decides which one
# comes last. Here all programs store to the first 1024 elements of `out`, and each stores other numbers. Whoever comes
# last decides what stays. In a trace, which runs on the CPU, the programs run one after the other, so you always see the
# numbers of the last program. On a GPU they run in any order, and the result may change from one run to the next.
#
# The trace finds a race even if the result looks right, because it remembers which program wrote each element. So "it
# worked when I tried it" says little about a kernel, and a trace without a race says more. (Programs that all store the
# *same* number to an element do no harm. The trace only notes them. And the *atomics* that the report mentions are for
# programs that must share an element; unit 04 explains them.)
#
# ## Exercise: repair the copy
#
# {{exercise start.fixed_copy}}
#
# Write `fixed_copy` and its kernel. Copy the broken code to begin with, and use the report above to find the first
# mistake, which causes the race. There is a second mistake. The check reports it, but the trace above did not. To try
# your function yourself, run `with trace(): print(fixed_copy(torch.arange(5.0)))`.
#
# Full marks require
# * the right result for any number of elements ({{correct.ragged}}),
# * that each element is read once and written once ({{traffic.performance}}),
# * that 65,536 elements are divided among at least 8 programs ({{shared_work.performance}}). A single program with one
#   huge block would have no race either, but it would use only one SM.


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
# Your kernel loaded numbers from main memory into registers, computed with them, and stored the results. What lies
# between main memory and the registers? The picture shows all the memories. Each of them exists because the larger one
# below it is too slow, and the faster one above it is too small.

# %% gpu="start.memory_hierarchy"
figures.start.memory_hierarchy()

# %% [markdown]
# How does one measure how long a memory takes to answer? Make a list in which each entry holds the address of the next
# one, with the entries scattered through memory in random order. Then follow these addresses. A load cannot start until
# the previous load has returned the address that it needs, so the time from one load to the next is the wait for one
# answer. Now let the list grow from 4 KiB to 1 GiB. (The data that a program uses again and again is called its
# **working set**. Here it is the list.) What will the curve of these times look like, and how many steps will it have?

# %% gpu="start.working_sets"
figures.start.working_sets()

# %% [markdown]
# In the left picture each memory shows up as a flat stretch, which ends where the list no longer fits into that memory.
# The last rise is not sharp: of a list twice as large as L2, a part is still found there. In the right picture
# all SMs read as fast as they can, and the caches inside the SMs (L1) are not used. Data comes from L2 as long as it
# fits there, and otherwise from main memory. (Two details do not follow this rule: the end at the far left, and a bump
# before the fall. Nothing later needs them.)
#
# Now put the two pictures together. If a pipe delivers 5 litres a second, and water takes 3 seconds to run through it,
# then the pipe holds 15 litres. Memory is such a pipe, and its throughput in bytes per second is called its
# **bandwidth**. Bytes that were asked for and have not arrived yet are *in flight*. To keep the pipe full, there must be
# bandwidth × waiting time of them at any moment. In the picture under *Where numbers live*, the area of each pipe is
# this product.

# %%
slots = card.sms * card.threads_per_sm  # threads that the GPU holds, as above
memory = figures.start.memories(card)[-1]
if memory.wait:
    under_way = memory.rate * memory.wait[1]
    print(f"{memory.rate / 1e12:.2f} TB/s x {1e9 * memory.wait[1]:.0f} ns = {under_way / 1e6:.1f} MB in flight,")
    print(f"{under_way / slots:.0f} bytes for each of the {slots:,} thread slots.")
else:
    print(f"The wait for the {card.name}'s memory has not been measured.")

# %% [markdown]
# So on a GPU that is full of threads, each thread must have one or two numbers in flight all the time. This is why
# kernels are launched with so many programs. If there are fewer threads, each thread must ask for more numbers at once.
#
# The sizes and speeds follow from what the memories are made of. Registers, shared memory, L1 and L2 are **SRAM**, in
# which several transistors hold each bit. They lie on the chip, and their cells are as fast as the logic around them.
# (L2 takes longer to answer because it is large and far away.) The main memory of a large GPU is **HBM**
# (high-bandwidth memory), and HBM is **DRAM**. In DRAM one transistor and one tiny capacitor hold each bit. The
# capacitor's charge leaks and must be refreshed, and the smaller a capacitor is, the sooner it leaks. So DRAM shrinks
# ever more slowly. DRAM packs far more bits into the same area than SRAM does. But it
# lies on chips of its own, and takes longer to read. (Smaller cards have GDDR memory, which is DRAM as well.)
#
# *Shared memory* has a misleading name. It is shared by the threads of one program, on one SM, not by the whole GPU
# (the clusters above are the one exception). It lies in the same SRAM as the **L1 cache**. A cache keeps whatever was
# read recently, without being told. Shared memory, by contrast, holds only what an instruction of the kernel has put
# there. (In Triton the compiler writes these instructions for you.)
#
# CUDA's manual calls main memory **global memory**, because all programs see it. Two more of its names sound like
# separate memories, but are parts of HBM. The names say how a kernel may use these parts. **Local memory** belongs to
# one thread. It holds the numbers that did not fit into the thread's registers. **Constant memory** is 64 KB that
# kernels can read but not write. It has a cache of its own, which is fast when all lanes of a warp ask for the same
# number. The arguments of a launch are kept in constant memory, too. In Triton you declare neither local nor constant
# memory yourself.
#
# Distance matters as well. The next picture shows the chip on its package. Main memory lies next to the chip, and L2
# lies in the middle of the chip.

# %%
figures.start.floor_plan()

# %% [markdown]
# ## Why compute outgrew memory
#
# A **FLOP** is one floating-point operation: an addition or a multiplication. So an FMA counts as two FLOPs. The unit
# **FLOP/s** says how many FLOPs a machine does per second. (One TB/s, the unit of the bandwidths above, is 10¹² bytes
# per second.) From one generation to the next, arithmetic has sped up more than memory. The picture shows five GPUs of
# four generations, with the numbers from their datasheets.

# %%
figures.start.compute_outgrew_memory()

# %% [markdown]
# Today each byte that is fetched from memory must be used in hundreds of operations, or the tensor cores will have to
# wait. (The right-hand plot has a dip at the H200, which is an H100 with faster memory.) The links between chips have
# sped up about as slowly as memory. From the V100 to the H100, matrix products in fp16 sped up by a factor of 7.9, and
# memory by a factor of 3.7. The link to the CPU (PCIe) sped up by a factor of 4 (from 32 to 128 GB/s), and the link
# between GPUs (NVLink) by a factor of 3 (from 300 to 900 GB/s). (NVIDIA's datasheets count both directions of a link.)
# How many operations does `x + 1` do per byte?

# %%
flops, moved = 1, 4 + 4  # for one float32: an addition; 4 bytes read and 4 written
could = card.fp32_flops / card.hbm_bandwidth
print(f"x + 1 does {flops / moved} FLOPs per byte.")
print(f"While the {card.name} moves one byte, its ALUs could do {could:.1f} FLOPs in fp32.")
# The datasheet counts an FMA as 2. An addition takes an ALU as long as an FMA, so here it costs 2.
busy = 2 * flops / moved / could
print(f"The ALUs are idle {1 - busy:.0%} of the time, whatever you do to the arithmetic.")

# %% [markdown]
# So `x + 1` waits for memory, and a GPU with twice the FLOP/s would not run it any faster. The same is true of most
# operations. The plan of the course follows from this:
#
# * Move only the bytes that are needed (04, coalescing).
# * Once a byte is on the chip, use it often (05, tiling).
# * Do not send it back to memory between two operations (06, fusion).
# * Compute a number again if that is cheaper than keeping it (07, recomputation).
# * Do all four things at once, as FlashAttention does (08 to 10).

# %% [markdown]
# ## Exercise: true or false
#
# {{exercise start.myths}}
#
# Much of what is said about GPUs is not quite right. Here are ten statements, worth {{all / 10}} each. Write `True` or
# `False` in place of each `...`. The unit has covered all of them. The check shows an explanation next to each statement
# that you have answered.

# %% exercise="start.myths"
myths = {
    # A GPU is fast because each of its operations finishes sooner than a CPU's.
    "faster_operations": ...,
    # An SM wastes less time if it holds more warps than can execute in one cycle.
    "more_warps_than_alus": ...,
    # The 32 lanes of a warp share one instruction at a time.
    "warp_shares_instruction": ...,
    # Registers, shared memory, L1 and L2 are all SRAM.
    "caches_are_sram": ...,
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
    # On a GPU, a launch returns before the kernel has finished.
    "launch_returns_early": ...,
}
### BEGIN SOLUTION
myths = {
    "faster_operations": False,
    "more_warps_than_alus": True,
    "warp_shares_instruction": True,
    "caches_are_sram": True,
    "compute_outgrew_memory": True,
    "add_one_needs_flops": False,
    "shared_memory_is_global": False,
    "program_is_thread": False,
    "programs_in_order": False,
    "launch_returns_early": True,
}
### END SOLUTION

# %% check="start.myths"
check("start.myths", myths)

# %%
progress()

# %% [markdown]
# ## What you now know
#
# * A GPU is slow at one task and fast at many, because other warps work while one warp waits.
# * A launch starts a grid of programs. A program runs on one SM, as warps of 32 threads. In Triton you write a program
#   with blocks of numbers.
# * A program finds its block with `tl.program_id` and its elements with `tl.arange`. A mask switches off the positions
#   past the end. The number of programs is rounded up.
# * Programs run in any order. If two programs write to the same element, that is a race, and a trace reports it.
# * From registers to HBM, memories get slower and further away, and HBM is by far the largest. Arithmetic has sped up
#   more than memory, so most kernels wait for memory.
#
# The unit is worth {{unit points}}, over {{unit exercises}}. The next unit, 01, shows what a tensor is, and why a
# transpose moves nothing.

# %% [markdown]
# ## More
#
# {{unit more}} Beside two small formulas it has the history of GPUs, what they cost, what the hardware is used for, and
# an aside on TPUs.

# %% [markdown]
# ## Exercise: how many programs?
#
# {{exercise start.num_programs}}
#
# There are n elements, and each program takes `block` of them. How many programs must a launch have so that every
# element has a program and no program is without an element? Full marks require the right number
# * where `block` divides n ({{correct.whole}}) and where it does not ({{correct.ragged}}),
# * where n is smaller than `block`, and where n is 0 ({{correct.small}}).


# %% exercise="start.num_programs"
def num_programs(n: int, block: int) -> int:
    """Number of elements, elements per program -> number of programs."""
    ### BEGIN SOLUTION
    return (n + block - 1) // block  # divide and round up
    ### END SOLUTION


# %% check="start.num_programs"
check("start.num_programs", num_programs)

# %% [markdown]
# ## Exercise: how many warps hide a wait?
#
# {{exercise start.warps_needed}}
#
# Each warp works for `work` cycles, then waits for `latency` cycles, and so on. `work` is at least 1. What is the
# smallest number of warps that keeps the ALUs busy all the time? Your function must return the number that a simulation
# like the one above finds, in each of these cases:
# * where `work` divides `latency` ({{correct.even}}), and where it does not ({{correct.ragged}}),
# * where there is no wait at all ({{correct.no wait}}).


# %% exercise="start.warps_needed"
def warps_needed(latency: int, work: int) -> int:
    """The fewest warps that leave no cycle idle. latency: cycles of each wait; work: cycles of work before each wait."""
    ### BEGIN SOLUTION
    return 1 + triton.cdiv(latency, work)  # cdiv divides and rounds up: the others fill the wait
    ### END SOLUTION


# %% check="start.warps_needed"
check("start.warps_needed", warps_needed)

# %% [markdown]
# ## Where the speed came from
#
# **History.** GPUs were made to draw triangles. Sony called the graphics chip of its PlayStation a *GPU* in 1994.
# NVIDIA made the word popular with the GeForce 256 of 1999. In 2001 Larsen and McAllister multiplied matrices on a GPU
# (*Fast matrix multiplies using graphics hardware*). They had to store the matrices as images (*textures*), let the GPU
# draw with them, and read the product from the brightness of the picture. CUDA (2007) made this detour unnecessary.
# AlexNet (2012) was trained on two gaming cards. Tensor cores came with the V100 (2017).
#
# **Moore and Dennard.** Moore's law says that the number of transistors on a chip doubles about every two years. It
# says nothing about speed. Speed was the subject of Dennard's law: smaller transistors need less voltage, so clocks can
# rise while each square millimetre stays as cool as before. This scaling ended around 2005. The voltage could not fall
# any further, because transistors that were switched off would have leaked too much current. Since then clocks have
# hardly risen. The additional transistors go into more units side by side, and into larger units: a tensor core does
# more work per instruction than an ALU. NVIDIA's Jensen Huang has said that the speed of GPUs grows faster than Moore's
# law allows (*Huang's law*). What carries this is more than transistors: formats with fewer bits (02), tensor cores
# (05), and algorithms that move fewer bytes, which are the subject of units 06 to 10.
#
# **SRAM** shrinks more slowly than logic. In N5, a manufacturing process of TSMC, one bit of SRAM takes 0.021 µm². In
# the later process N3E it takes up just as much area, although logic has shrunk (TSMC at IEDM 2022, as WikiChip
# reports). For N2, a still later process, TSMC announced 0.0175 µm² (IEDM 2024). So a cache of the same size takes an
# ever larger share of the chip.
#
# **HBM** consists of *stacks*, which are DRAM chips piled on top of each other. It is fast because it is wide: a stack
# has 1024 data wires, whereas a GDDR chip has 32. It has become faster in three ways at once. There are more stacks
# next to the chip, each wire has a higher rate, and with HBM4 a stack has 2048 data wires. (More layers in a stack make
# it larger, not faster.) A card with the first generation of HBM had 4 stacks, at 128 GB/s each. The H200 has 6 stacks,
# at 800 GB/s each, and the B200 has 8.
#
# HBM costs several times as much per byte as ordinary DRAM. Epoch AI estimates that of what four designers of AI chips
# spent on parts, 52 % went into HBM at the beginning of 2024, and 63 % at the end of 2025. The compute chips themselves
# made up about 13 %. HBM also has many transistors: 80 GB is 6.4 × 10¹¹ bits, and each bit needs one transistor and one
# capacitor. The H100's own chip has only an eighth as many transistors. But it is logic, which needs a dozen layers of
# wires or more, and DRAM needs only a few. One pays for layers as well as for area.

# %% [markdown]
# ## What the hardware is used for
#
# A **transformer** predicts the next token of a text; a token is a piece of a word. The following list says how, and
# introduces words that the rest of the course uses:
#
# 1. Each token becomes a vector of numbers, its **embedding**.
# 2. Each layer changes the vector x twice. Each time it computes an update f(x) and **adds** it, so that x becomes x +
#    f(x). The vector that is handed on in this way is called the *residual stream*.
# 3. The first update comes from **attention**. Three learned matrices turn each token's vector into a **query**, a
#    **key** and a **value**. Queries are then compared with keys, by dot products. The embeddings themselves are not
#    compared.
# 4. A **softmax** turns one query's dot products into weights that are positive and sum to 1.
# 5. Each value is multiplied by its weight, and these products are added up. A fourth learned matrix, the *output
#    projection*, turns the sum into the update.
# 6. The second update comes from an **MLP**. One matrix makes the vector about four times as long, a nonlinear function
#    is applied to each number, and another matrix brings the vector back to its original length.
# 7. At the end an **unembedding** turns each vector into one number for each token that could come next. In GPT-2 small
#    (Radford and others, 2019) it turns 768 numbers into 50,257. So the vector becomes longer, despite the name
#    *unembedding*.
#
# Each attention step and each MLP is preceded by a **normalisation**.
#
# Two things are often said about the MLP, and both are wrong. One is that it is the only nonlinear part; but softmax
# and normalisation are nonlinear, too. The other is that it is computed one FMA at a time; in fact it consists of
# matrix products, as attention does.
#
# (The first transformer had an *encoder*, which read one text, and a *decoder*, which wrote another. Today's language
# models have only a decoder.)
#
# Which unit of an SM does which step?
#
# | step | tensor cores | ALUs | special functions | memory |
# | --- | --- | --- | --- | --- |
# | embedding of a token | | | | a row of a table: a gather |
# | normalisation | | sums, multiplications | 1/√x | reads and writes all of x (the bottleneck) |
# | q, k, v, and the output projection | products | | | reads each weight once |
# | scores (dot products of q and k), and the weighted sum of the values | products | | | in unit 09 the scores never leave the chip |
# | softmax | | maximum, sum | exp2 for each score | |
# | MLP | products | activation (the nonlinear function) | tanh or exp2, for the activation | reads each weight once |
# | residual | | additions | | reads and writes all of x (the bottleneck) |
# | unembedding | products | | | a matrix of (length of a vector) × (number of possible tokens) |
#
# Tensor cores have sped up the most. So everything that is not a matrix product takes an ever larger share of the time.
# Fusion (06) reduces this share. The speed of tensor cores shapes models, too: today's models are designed around
# matrix products, with sizes that suit the hardware (05).
#
# Is the dot product of two similar vectors near 1? The picture shows one query and eight keys, each a vector of 64
# standard normal numbers. Key 3 is the query plus a little noise. Guess the height of its bar. (In the right-hand plot,
# the dot products have been divided by √64 and have gone through a softmax, as in attention. Unit 08 says why.)

# %%
figures.start.dots_and_weights()

# %% [markdown]
# ## Exercise: more statements, true or false
#
# {{exercise start.more_myths}}
#
# Here are 24 more statements, worth {{all / 24}} each, on the machine, on transformers, and on where the speed came from.

# %% exercise="start.more_myths"
more_myths = {
    # A tensor core's basic operation is the fused multiply-add of three numbers.
    "tensor_core_is_fma": ...,
    # HBM is DRAM: a bit is one transistor and one capacitor.
    "hbm_is_dram": ...,
    # Where the mask is false, a store writes a zero.
    "masked_store_writes_zero": ...,
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
    # Smaller transistors still allow faster clocks at the same power per area.
    "dennard_holds": ...,
    # With each new manufacturing process, an SRAM cell, which holds one bit, shrinks as much as logic does.
    "sram_shrinks": ...,
    # HBM is fast mainly because it has thousands of wires to the chip, rather than because each wire is fast.
    "hbm_is_wide": ...,
    # A tensor core runs a program of its own, in an instruction set of its own.
    "tensor_core_has_isa": ...,
    # Arithmetic happens in the registers.
    "registers_compute": ...,
    # In eager PyTorch the result of each operation goes to the CPU before the next one begins.
    "eager_returns_to_cpu": ...,
    # A transformer without the activation in its MLP would still have nonlinear parts.
    "softmax_is_nonlinear": ...,
    # On an H100, the thread blocks of one cluster can read each other's shared memory.
    "clusters_share": ...,
    # Two gates, each of which has the other's output among its inputs, can keep a bit.
    "gates_remember": ...,
    # Tensor cores are so called because one of their instructions takes tensors with any number of dimensions.
    "tensor_core_takes_tensors": ...,
}
### BEGIN SOLUTION
more_myths = {
    "tensor_core_is_fma": False,
    "hbm_is_dram": True,
    "masked_store_writes_zero": False,
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

# %% check="start.more_myths"
check("start.more_myths", more_myths)

# %% [markdown]
# The bar is near 64, not near 1. The dot product of a vector with itself is the sum of 64 squares, and each square is 1
# on average. (For this query the sum is a little larger than 64.) The *weight* of key 3, on the other hand, is near 1,
# because the other dot products are so much smaller.
#
# ## An aside: TPUs
#
# You may skip this section; nothing later needs it. Are SMs, tensor cores and shared memory found only in NVIDIA's
# chips? No: Google's TPUs have the same parts under other names.
#
# | NVIDIA GPU | TPU | |
# | --- | --- | --- |
# | SM | TensorCore | the unit that programs run on; a GPU has many small ones, a TPU one or two large ones |
# | tensor core | MXU | the unit for matrix products; a *TensorCore* is not a *tensor core*, despite its name |
# | ALUs (32 lanes per warp) | VPU | the unit for elementwise work |
# | shared memory, L1 | VMEM | memory on the chip; on a TPU the compiler plans all of it |
# | HBM | HBM | the same kind of memory |
# | CUDA, Triton | Pallas | a language for kernels |
# | `torch.compile` | XLA | a compiler for whole programs |
#
# A TPU has no warps. One stream of instructions drives a whole TensorCore, and each instruction may start several
# units. The compiler hides latency by planning the copies into VMEM ahead of time. TPUs are also networked differently.
# Each TPU has wires to its four or six neighbours, in a grid whose opposite edges are joined. GPUs are joined by
# switches, in groups of 8 to 72, and within a group each GPU can reach any other (*How to Scale Your Model*, see the
# end of this page). How many FLOPs can a TPU do while one byte arrives from memory, and how many can a GPU?

# %%
tpu_flops, tpu_bandwidth = 459e12, 2765e9  # one TPU v5p chip, bf16: Google Cloud's documentation, page "TPU v5p"
print(
    f"TPU v5p: {tpu_flops / tpu_bandwidth:.0f} FLOPs per byte; {card.name}: {(card.fp16_flops or 0) / card.hbm_bandwidth:.0f}"
)

# %% [markdown]
# ## Further reading
#
# * NVIDIA, *H100 Tensor Core GPU Architecture* whitepaper: SMs, tensor cores and memories of the Hopper generation.
# * NVIDIA, *CUDA C++ Programming Guide*, the chapters on the programming model and on the hardware implementation.
# * W. Luo and others, *Benchmarking and Dissecting the Nvidia Hopper GPU Architecture* (arXiv 2402.13499): latency
#   and throughput of every unit, for three generations.
# * The Triton documentation, first tutorial: vector addition.
# * Google, *How to Scale Your Model*: TPUs and GPUs side by side.
# * Stanford, *CS336: Language Modeling from Scratch*: the lecture that explains why GPUs look as they do.
# * C. Petzold, *Code*: from a switch to a processor, for the lower rungs of the ladder.
