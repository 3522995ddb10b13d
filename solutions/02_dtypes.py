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
# # 02 · Dtypes
#
# **After this unit you can** read a number off its bits, say before you run it where a computation in 16 bits will go
# wrong, and choose what to store in few bits and what to compute in many. You need 00 (a first kernel) and 01 (a tensor
# is storage with a shape). You need no GPU.

# %%
import math

import torch
import triton
import triton.language as tl

from course_lib import bench, check, figures, gpu, hint, progress, throughput, trace  # noqa: F401 (hint is yours to call)
from course_lib.hardware.measurements import measured

# %% [markdown]
# ## The question
#
# A number takes 4 bytes in float32, and 2 bytes in float16. Half the bytes cross the memory bus (the wires between the
# chip and its memory) in half the time. And how fast is the arithmetic? Here is what datasheets promise for matrix
# products, in 10¹² operations per second.

# %%
print(f"{'':>10}{'fp32':>8}{'tf32':>8}{'fp16':>8}{'bf16':>8}")
for name in ("V100", "A100 80GB", "H200", "B200"):
    card = gpu.datasheet(name)
    speeds = (card.fp32_flops, card.tf32_flops, card.fp16_flops, card.bf16_flops)
    print(f"{name:>10}" + "".join(f"{s / 1e12:8.0f}" if s else f"{'-':>8}" for s in speeds))

h200 = gpu.datasheet("H200")
print(f"\nH200, bf16 against fp32: {h200.bf16_flops / h200.fp32_flops:.1f} times")

# %% [markdown]
# (The fp32 column is arithmetic on the ALUs. The other columns run on tensor cores, which add up in fp32 here.) Most
# generations brought a format with fewer bits; that and tensor cores account for most of the speed-up. The table shows
# dense products of one card, in 10¹² operations per second. It comes from NVIDIA's datasheets of these cards (K20X,
# P100, V100, A100, H100 SXM). The numbers of the B200 come from NVIDIA's *Blackwell Architecture Technical Brief* (an
# HGX with 1000 W for each GPU):
#
# | | 32 bits | 16 bits | 8 bits | 4 bits |
# | --- | --- | --- | --- | --- |
# | K20X, 2012 | 3.95 | | | |
# | P100, 2016 | 10.6 | 21.2 | | |
# | V100, 2017 | 15.7 | 125 | | |
# | A100, 2020 | 19.5 | 312 | 624 (int8) | 1248 (int4) |
# | H100, 2022 | 67 | 989 | 1979 (fp8, int8) | |
# | B200, 2025 | 80 | 2250 | 4500 (fp8, int8) | 9000 (fp4) |
#
# From the first line to the last, products in 32 bits became 20 times as fast. In each card's narrowest format they
# became 2278 times as fast. So hardware shapes models: whatever a model can do with matrix products in few bits is
# cheap.
#
# So nobody trains large models in float32. What is lost? Begin with the simplest task, counting. A counter starts at 0,
# and 1 is added to it 4000 times, in float16. Where does it end?

# %% predict="dtypes.guess_counter"
# What does a float16 counter show after 4000 additions of 1? Write a number before you run the next cell; it earns no points.
guess_counter = ...

# %%
figures.dtypes.counting(guess_counter)

# %% [markdown]
# It stops, without an error. From a certain size on, adding 1 gives back the same number. To find this size, you need
# to know which numbers exist.
#
# ## Three fields
#
# 16 bits have 65,536 patterns, so at most 65,536 numbers exist. Which are they? A float is written like 6.02 × 10²³,
# but in base 2. Its bits are cut into three fields: a **sign**, an **exponent** that says where the point goes, and a
# **mantissa** with the digits.

# %%
figures.dtypes.formats()

# %% [markdown]
# Float32 is also called *single* precision, and float16 *half*. For deep learning *full* precision means float32; for
# most of science it means float64, *double*.
#
# In code these formats are `torch.float32`, `torch.float16` (also `half`), `torch.bfloat16`, `torch.float8_e4m3fn`,
# `torch.float8_e5m2` and `torch.int8`. There is no dtype for **tf32**. It is the part of a float32 that tensor cores
# use if you allow it (`torch.set_float32_matmul_precision("high")`). In memory it still takes 4 bytes.
#
# A pattern with E exponent bits and M mantissa bits has the value
#
# > **(−1)^sign × (1 + mantissa / 2^M) × 2^(exponent − bias)**,  bias = 2^(E − 1) − 1
#
# Why *1 +*? In base 2 the first digit of a number is always 1, so it need not be stored. Why a bias? The exponent field
# has no sign; the bias makes negative exponents possible.
#
# Two values of the exponent field have a special meaning:
#
# | exponent field | mantissa 0 | other mantissas |
# | --- | --- | --- |
# | all zeros | 0 (there is +0 and −0) | **subnormal**: (0 + mantissa / 2^M) × 2^(1 − bias) |
# | all ones | infinity | NaN, *not a number* |
#
# Subnormals fill the hole around zero with evenly spaced numbers. They have no hidden 1, so the smaller they are, the
# fewer digits they have.
#
# Now flip bits. Try three things:
# * Type 1.5 in fp16, and flip the lowest bit. How far does the number move? Type 1000, and flip the same bit.
# * Type 65504, the largest number of fp16, and flip the lowest exponent bit. What is the number now?
# * Type 0.1 in each format. Which format holds it exactly?

# %%
figures.dtypes.explore_bits()

# %% [markdown]
# 1.5 moves by 2⁻¹⁰, about 0.001, and 1000 by 0.5. 65504 becomes NaN, because its exponent field was 30, and 31 is kept
# for infinity and NaN. No format holds 0.1 exactly, because in base 2 its digits have no end, as those of 1/3 have none
# in base 10. int8 has no exponent at all. It is a whole number from −128 to 127, and its highest bit counts −128
# (*two's complement*).
#
# e4m3 is an exception to the table above. By the table, the highest exponent would stand for infinity and NaN alone.
# That is eight patterns for each sign, and a format with 256 patterns cannot spare so many. So e4m3 has no infinity,
# and only one NaN for each sign. Therefore it reaches 448, while by the table it would end at 240.

# %% [markdown]
# ## Range against resolution
#
# fp16 and bf16 both have 16 bits. What does each format do with them? They differ in how large and how small a number
# may be (**range**), and in how far the next one is (**resolution**). At the left, a longer bar means a wider range. At
# the right, a ruler marks all numbers from 1 up to 1.25: the denser it is, the finer is the resolution.

# %%
figures.dtypes.range_against_resolution()

# %% [markdown]
# Follow the dotted line at 1e-8. This is the square of 1e-4, an everyday size for a *gradient*. (It says how much the
# error of a net changes with one of its weights.) Adam, a common *optimizer* (the rule that changes weights), keeps
# such squares. What becomes of this square?

# %%
for dtype in (torch.float32, torch.bfloat16, torch.float16):
    x = torch.tensor(1e-8).to(dtype)
    print(
        f"{str(dtype):>15}: 1e-8 becomes {float(x):.4g},  65504 + 100 is {float(torch.tensor(65504.0).to(dtype) + 100):.7g}"
    )

# %% [markdown]
# In fp16 it **underflows**, because the smallest number above zero is 6e-8, and 1e-8 is nearer to 0. bf16 keeps it,
# with an error of 0.12 %. At the other end fp16 **overflows**. Its largest number is 65,504, and whatever lies half a
# gap further, from 65,520 on, becomes infinite. bf16 goes as far as fp32 does.
#
# The price of bf16 is its resolution. The distance from a number to the next larger one is called **ulp**, *unit in the
# last place*. Between 1 and 2 it is 2⁻¹⁰ in fp16 and 2⁻⁷ in bf16. Between 2 and 4 it is twice as large. Where is it 1?
# In fp16 it is 1 from 1024 to 2048, and in bf16 from 128 to 256.

# %% [markdown]
# ## Rounding
#
# A result that falls between two numbers goes to the nearer one. What if it lies exactly halfway? Here is bf16 between
# 256 and 264, where the gap is 2.

# %%
figures.dtypes.rounding_staircase()

# %% [markdown]
# Such a **tie** goes to the *even* neighbour, whose last mantissa bit is 0: 257 goes down to 256, and 259 up to 260.
# Half of all ties go up and half go down, so their errors cancel in a sum. Cutting the lower bits off would be less
# work. But then the error always goes towards zero, so sums of many numbers drift.
#
# Now the counter is explained. At 2048 in fp16 the gap becomes 2. So 2048 + 1 = 2049 is a tie, and every time it goes
# back to the even neighbour, 2048.

# %% [markdown]
# ## Exercise: predict six programs
#
# {{exercise dtypes.predictions}}
#
# What does each program give? Write down six numbers (`math.inf` is allowed). The cell after the check runs the
# programs.
#
# | name | program |
# | --- | --- |
# | `tiny_fp16` | 1e-8 in fp16, times 1000 |
# | `square_fp16` | 300 × 300 in fp16 |
# | `weight_bf16` | 1 + 0.003 in bf16 |
# | `weight_fp16` | 1 + 2⁻¹⁰ in fp16 |
# | `counter_bf16` | 0 + 1 + 1 + ... in bf16, continued until the sum no longer grows |
# | `above_2048_fp16` | the distance from 2048 to the next number of fp16 |
#
# Write numbers, or arithmetic on numbers such as `4 * 1024`. Code that works out the answers is not a prediction, and
# earns nothing.

# %% exercise="dtypes.predictions"
predicted = {
    "tiny_fp16": ...,
    "square_fp16": ...,
    "weight_bf16": ...,
    "weight_fp16": ...,
    "counter_bf16": ...,
    "above_2048_fp16": ...,
}
### BEGIN SOLUTION
predicted = {
    "tiny_fp16": 0,  # it was 0 before the product
    "square_fp16": math.inf,  # 90,000 is beyond 65,504
    "weight_bf16": 1.0,  # the gap is 1/128, and 0.003 is less than half of it
    "weight_fp16": 1 + 2**-10,  # exactly one gap
    "counter_bf16": 256,  # the gap becomes 2 there
    "above_2048_fp16": 2,
}
### END SOLUTION

# %% check="dtypes.predictions"
check("dtypes.predictions", predicted)

# %%
half, brain = torch.float16, torch.bfloat16
counter = torch.zeros((), dtype=brain)
while counter + 1 != counter:
    counter += 1
print("tiny_fp16      ", float(torch.tensor(1e-8).to(half) * 1000))
print("square_fp16    ", float(torch.tensor(300.0, dtype=half) * torch.tensor(300.0, dtype=half)))
print("weight_bf16    ", float(torch.tensor(1.0, dtype=brain) + torch.tensor(0.003, dtype=brain)))
print("weight_fp16    ", float(torch.tensor(1.0, dtype=half) + torch.tensor(2.0**-10, dtype=half)))
print("counter_bf16   ", float(counter))
print("above_2048_fp16", float((torch.tensor(2048.0, dtype=half).view(torch.int16) + 1).view(half)) - 2048)

# %% [markdown]
# ## Store low, add high
#
# A sum is a counter with other steps. Below, up to 16,384 numbers between 0 and 1 are added, all stored in fp16. Where
# will a sum that is also *kept* in fp16 end? (It ends where half a gap is more than a typical number.)

# %%
figures.dtypes.running_sum()

# %% [markdown]
# All three sums have the same inputs. They differ in the order, and in the number that the inputs are added to, the **accumulator**. It
# helps a lot to add in pairs, and then in pairs of pairs, because then the parts have similar sizes. A float32
# accumulator is better still by a factor of hundreds, and costs no memory traffic, because it lives in a register. This
# is why tensor cores multiply 16-bit numbers and add in fp32.
#
# > **The rule of this unit:** store in few bits, compute in many, and round once, at the end.
#
# ## Exercise: sum halves
#
# {{exercise dtypes.half_sum}}
#
# Return the sum of each row of a float16 matrix, in float32. Write it in torch. `help(torch.sum)` names an argument
# that says in which dtype torch adds. In the torch exercises from here on, torch may cast, compare, do arithmetic on
# elements, round, and take sums and maxima. Ready-made answers such as `logsumexp` are refused, and so is all of
# `torch.linalg` and `torch.nn.functional`. Full marks require
# * rows of thousands of numbers ({{correct.long}}),
# * sums, and parts of sums, beyond 65,504 ({{correct.large}}),
# * no float32 copy of x: all that is allocated in addition to the result must be smaller than x
#   ({{buffers_below.performance}}).


# %% exercise="dtypes.half_sum"
def half_sum(x: torch.Tensor) -> torch.Tensor:
    """x: (M, N) float16 -> (M,) float32, the sum of each row."""
    ### BEGIN SOLUTION
    return x.sum(1, dtype=torch.float32)
    ### END SOLUTION


# %% check="dtypes.half_sum"
check("dtypes.half_sum", half_sum)

# %% [markdown]
# ## When more bits do not help
#
# A classifier gives one score for each class. These scores x₁, x₂, ... are called **logits**. The loss needs
# log(exp(x₁) + exp(x₂) + ...). Try this on two logits of 1000.

# %%
x = torch.tensor([1000.0, 1000.0])
for dtype in (torch.float16, torch.float32, torch.float64):
    print(f"{str(dtype):>15}: log(sum(exp(x))) = {float(x.to(dtype).exp().sum().log())}")
print(f"the right answer: 1000 + log 2 = {1000 + math.log(2):.4f}")

# %% [markdown]
# exp(1000) is too large even for float64. The answer is small, but an intermediate result is not. Can you avoid this
# intermediate result? For any m,
#
# > log Σ exp(xᵢ) = m + log Σ exp(xᵢ − m)
#
# If m is the largest of the N logits xᵢ, each xᵢ − m is at most 0, and one of them is 0. So the sum lies between 1 and
# N. This step will come back in every softmax and in FlashAttention, so it pays to get its special cases right once.
#
# ## Exercise: log-sum-exp
#
# {{exercise dtypes.stable_logsumexp}}
#
# Return log(sum(exp(row))) of each row in float32. `x` is float32 or float16. A logit that must not count is *masked*:
# it is −inf, and its exp is 0. If a whole row is masked, the result is −inf. Write it in torch, without `logsumexp`,
# `softmax` and `log_softmax`. Full marks require
# * logits near 1000, near −1000 and far apart ({{correct.large}}),
# * masked logits, and rows of masked logits alone ({{correct.masked}}),
# * float16 logits, 70,000 in a row, as exact as float32 allows ({{correct.float16}}).


# %% exercise="dtypes.stable_logsumexp"
def stable_logsumexp(x: torch.Tensor) -> torch.Tensor:
    """x: (M, N) float32 or float16 -> (M,) float32, log(sum(exp(x))) along each row."""
    ### BEGIN SOLUTION
    x = x.float()
    m = x.amax(1)
    m = torch.where(m == -math.inf, 0, m)  # -inf - -inf would be NaN
    return m + (x - m[:, None]).exp().sum(1).log()
    ### END SOLUTION


# %% check="dtypes.stable_logsumexp"
check("dtypes.stable_logsumexp", stable_logsumexp)

# %% [markdown]
# ## Fewer bytes for each operation
#
# Why store in few bits? A ReLU, max(x, 0), does one operation on each element. It reads the element and writes it
# back. How many operations is that for each byte that moves? A trace counts both. In a kernel `tl.maximum(x, 0.0)` does
# it for each element of a block. (A FLOP is a *floating-point operation*; unit 03 counts them.)


# %%
@triton.jit
def relu(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, tl.maximum(x, 0.0), mask=i < n)


x = torch.randn(4096)
with trace() as t:
    relu[(4,)](x, torch.empty_like(x), 4096, BLOCK=1024)
flops, moved = t.launches[0].flops.total, t.loads.bytes + t.stores.bytes
print(f"float32: {flops} operations, {moved} bytes moved: {moved / flops:.0f} bytes for each operation")

# %% [markdown]
# In a dtype of half the size, each operation moves half the bytes. A ReLU waits for memory in any dtype, so in float16
# it should take half as long. Does it?

# %%
if bench.has_gpu():
    x32 = torch.randn(1 << 28, device="cuda")
    x16 = x32.half()
    found = bench.ratio(lambda: torch.relu(x16), lambda: torch.relu(x32))
    print(
        f"ReLU of {len(x32):,} elements: float16 is {found.speedup:.2f} ± {found.spread:.2f} times as fast as float32"
    )
    del x32, x16
elif took := measured("mystery_plot").get("relus"):
    machine, times = measured("mystery_plot")["machine"], took["float32"] / took["float16"]
    print(f"recorded on one {machine}: float16 is {times:.2f} times as fast as float32")
else:
    print("There is no GPU here: with one (sm_80 or newer), this cell times a ReLU in float32 and in float16.")

# %% [markdown]
# A number near 2 says that bytes set the pace, not arithmetic.
#
# ## Load low, compute high, store low
#
# In a kernel you choose the dtype of each step. Three rules of Triton decide what you get:
# * A block has the dtype of the tensor that it was loaded from.
# * `block.to(tl.float32)` makes another block, in registers. Memory is not touched.
# * `tl.store` casts to the dtype of the tensor that it writes to.
#
# There is a trap. In both of the next kernels the factor is 1e-8, once as a **literal** and once as an **argument**. x
# holds 30,000 in fp16, so the product is 0.0003, which fp16 can hold. Do both kernels give it?


# %%
@triton.jit
def literal(x_ptr, out_ptr, factor):
    i = tl.arange(0, 16)
    tl.store(out_ptr + i, tl.load(x_ptr + i) * 1e-8)


@triton.jit
def argument(x_ptr, out_ptr, factor):
    i = tl.arange(0, 16)
    tl.store(out_ptr + i, tl.load(x_ptr + i) * factor)


x = torch.full((16,), 30000.0, dtype=torch.float16)
for kernel in (literal, argument):
    out = torch.empty_like(x)
    with trace():
        kernel[(1,)](x, out, 1e-8)
    print(f"{kernel.__name__:>9}: {float(out[0]):.3g}")

# %% [markdown]
# A literal takes the dtype of the block, and in fp16 1e-8 is 0. A float argument is a float32, so the whole product is
# computed in float32. You need not remember this if you always cast what you load.
#
# ## Exercise: scaled squares
#
# {{exercise dtypes.scaled_square}}
#
# Adam keeps a running mean of squared gradients. Write `scaled_square(x, scale)`, which returns `scale * x * x` for a
# contiguous vector `x` in float32, float16 or bfloat16, in the same dtype. The result fits into this dtype, but x² may
# not. torch may allocate and make views, but your kernel must do the work. (`scale` is a float argument, so `scale * x`
# is a float32, but `x * x` is not, unless you cast: it matters what you multiply first.) Full marks require
# * the right result in three dtypes for *ragged* sizes, which no block divides ({{correct.ragged}}),
# * the right result in float16 for numbers up to 60,000 with a small scale ({{correct.large}}), and for numbers below
#   1e-4 with a large scale ({{correct.tiny}}),
# * that each element is read once and written once, in its own dtype, by at least 32 programs if x is large
#   ({{traffic.performance}}).
#
# There is extra credit on a GPU, for 2^27 numbers of float16. You get {{speed}} if your kernel reaches {{speed.full}}
# of a copy's speed, and some of the points if it reaches more than {{speed.none}}.


# %% exercise="dtypes.scaled_square"
@triton.jit
def scaled_square_kernel(x_ptr, out_ptr, n, scale, BLOCK: tl.constexpr):
    """out[i] = scale * x[i] * x[i] for BLOCK elements."""
    ### BEGIN SOLUTION
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n).to(tl.float32)  # 2 bytes moved, 4 in the register
    tl.store(out_ptr + i, x * x * scale, mask=i < n)  # rounded here, once
    ### END SOLUTION


def scaled_square(x: torch.Tensor, scale: float) -> torch.Tensor:
    """x: (n,), contiguous -> (n,) of the same dtype, scale * x * x."""
    ### BEGIN SOLUTION
    n, BLOCK = x.numel(), 4096
    out = torch.empty_like(x)
    scaled_square_kernel[(triton.cdiv(n, BLOCK),)](x, out, n, scale, BLOCK=BLOCK)
    return out
    ### END SOLUTION


# %% check="dtypes.scaled_square"
check("dtypes.scaled_square", scaled_square)

# %%
progress()

# %% [markdown]
# ## What you now know
#
# * A float is a sign, an exponent and a mantissa. Exponent bits buy range, and mantissa bits buy resolution.
# * fp16 has fine steps, and reaches from 6e-8 to 65,504. bf16 has the range of fp32, and steps of at most 1/128 of a
#   number.
# * The gap doubles at each power of two. If you add less than half a gap to a number, it is lost without a warning.
# * Store in few bits, compute in many, and round once. An accumulator costs a register; a float32 copy costs memory.
# * If an intermediate result does not fit, compute in another way: for example, subtract the maximum before exp.
# * With half the bytes for each number, the same operations need half the traffic.
#
# How many operations, and how many bytes, does a whole model need? Unit 03 counts them, and says which of the two you
# wait for.
#
# The unit is worth {{unit points}}, over {{unit exercises}}. Hand in this notebook; the grader runs the same checks on
# inputs that you have not seen.

# %% [markdown]
# ## More
#
# {{unit more}} You take floats apart and round them yourself. Training computes in 16 bits and adds its steps to
# float32 master weights, and fp16 needs a scaled loss. An int8 is a whole number that comes with a scale.

# %% [markdown]
# ## Exercise: decode floats
#
# {{exercise dtypes.decode_float}}
#
# `patterns` is a list of whole numbers. Each holds the bits of one float. The highest bit is the sign. Then come
# `exponent_bits` bits, and then `mantissa_bits` bits. Return the list of their values, as Python floats. The format
# follows the rules above, without the exception of e4m3. Use whole numbers, `>>`, `&`, powers of two, `math.inf` and
# `math.nan`.
#
# Full marks require
# * normal numbers ({{holds.decoded.normal}}) and subnormal numbers ({{holds.decoded.subnormal}}),
# * zeros, with their sign, infinities and NaN ({{holds.decoded.special}}),
# * all 65,536 patterns of float16, and all of bfloat16, equal to what torch reads ({{holds.decoded.all}}).
#
# `hint("dtypes.decode_float")` gives a hint, and a stronger one each time you call it. Every exercise here has such
# hints.


# %% exercise="dtypes.decode_float"
def decode_float(patterns: list[int], exponent_bits: int, mantissa_bits: int) -> list[float]:
    """Bit patterns as whole numbers -> the values that they stand for."""
    ### BEGIN SOLUTION
    bias, highest = 2 ** (exponent_bits - 1) - 1, 2**exponent_bits - 1
    numbers = []
    for bits in patterns:
        fraction = (bits & (2**mantissa_bits - 1)) / 2**mantissa_bits
        field = bits >> mantissa_bits & highest
        if field == highest:
            number = math.nan if fraction else math.inf
        elif field == 0:
            number = fraction * 2.0 ** (1 - bias)
        else:
            number = (1 + fraction) * 2.0 ** (field - bias)
        sign = bits >> (exponent_bits + mantissa_bits)
        numbers.append(-number if sign else number)
    return numbers
    ### END SOLUTION


# %% check="dtypes.decode_float"
check("dtypes.decode_float", decode_float)

# %% [markdown]
# Floats have a useful property: among positive numbers, the next larger number has the next larger pattern. If you add
# 1 to the bits, you get the neighbour, even across a power of two.

# %% [markdown]
# ## Exercise: the distance to the next number
#
# {{exercise dtypes.ulp}}
#
# `x` is a number that `dtype` holds exactly, but not the largest number of `dtype`. How far is it from |x| to the next
# larger number of that dtype? `dtype` is a name such as `"float16"`; `torch.finfo(getattr(torch, dtype))` has `eps`,
# the gap above 1, and `tiny`, the smallest normal number. Full marks require the exact distance for
# * numbers in float32, float16 and bfloat16 ({{holds.is_gap.plain}}),
# * powers of two, numbers just below them, and 8-bit formats ({{holds.is_gap.powers}}),
# * zero and subnormal numbers ({{holds.is_gap.tiny}}).


# %% exercise="dtypes.ulp"
def ulp(x: float, dtype: str) -> float:
    """A number that `dtype` holds -> the distance from its absolute value to the next larger number."""
    ### BEGIN SOLUTION
    info = torch.finfo(getattr(torch, dtype))
    _, exponent = math.frexp(max(abs(x), info.tiny))  # |x| = m * 2 ** exponent with m from 0.5 to below 1
    return info.eps * 2.0 ** (exponent - 1)
    ### END SOLUTION


# %% check="dtypes.ulp"
check("dtypes.ulp", ulp)

# %% [markdown]
# ## Exercise: round to bf16
#
# {{exercise dtypes.round_to_bf16}}
#
# A bf16 is the upper half of a float32. So rounding to bf16 needs no arithmetic on floats. Take the 32 bits as a whole
# number, and round this number to a multiple of 65,536. On hardware without an instruction for this rounding, software
# does it in this way.
#
# `x` is an int32 vector with the bits of float32 numbers, as `numbers.view(torch.int32)` gives them. Return an int32
# vector with the bits of the rounded numbers, of which the lower 16 are 0. `.view(torch.float32)` shows them as numbers
# again.
#
# torch may do whole-number arithmetic (`+`, `-`, `&`, `|`, `>>`, `<<`, also in place, as in `+=`), comparisons and
# `torch.where`, but no casts. An int32 has a sign. Write `-0x10000` for the number whose upper 16 bits are 1 and whose
# lower 16 bits are 0, because 0xFFFF0000 is too large. Full marks require
# * every number as torch rounds it, to the last bit ({{holds.bit_exact.plain}}),
# * ties to even ({{holds.bit_exact.ties}}),
# * zeros with their sign, infinities, numbers that round up to infinity, subnormals, and NaN that stays NaN
#   ({{holds.bit_exact.special}}); any NaN whose lower 16 bits are 0 will do.


# %% exercise="dtypes.round_to_bf16"
def round_to_bf16(x: torch.Tensor) -> torch.Tensor:
    """x: (n,) int32, the bits of float32 numbers -> (n,) int32, the bits of the nearest numbers of bf16, ties to even."""
    ### BEGIN SOLUTION
    last = x >> 16 & 1  # the lowest bit that stays; a tie goes up only if it is 1
    up = (x + 0x7FFF + last) & -0x10000  # a carry runs into the exponent, as it should
    nan = (x & 0x7FFFFFFF) > 0x7F800000  # beyond infinity; its carry could run into the sign
    return torch.where(nan, 0x7FC00000, up)
    ### END SOLUTION


# %% check="dtypes.round_to_bf16"
check("dtypes.round_to_bf16", round_to_bf16)

# %% [markdown]
# ## Exercise: the intensity of a ReLU
#
# {{exercise dtypes.relu_intensity}}
#
# How many operations does a ReLU do for each byte that it moves, if the tensor has the given dtype? `dtype` is a name
# such as `"float16"`. Full marks require your numbers to equal those of a traced kernel in 32 and 16 bits
# ({{correct.plain}}), and in 8 bits ({{correct.small}}).


# %% exercise="dtypes.relu_intensity"
def relu_intensity(dtype: str) -> float:
    """The name of a dtype -> operations per byte moved of max(x, 0)."""
    ### BEGIN SOLUTION
    itemsize = getattr(torch, dtype).itemsize
    return 1 / (2 * itemsize)  # one operation, one load, one store
    ### END SOLUTION


# %% check="dtypes.relu_intensity"
check("dtypes.relu_intensity", relu_intensity)

# %% [markdown]
# ## Training in 16 bits
#
# Why not keep everything in bf16, even the weights? A step of training subtracts something small from each weight:
# `weight -= rate * gradient`. Suppose a weight is 1.5 and the step is 0.003. Between 1 and 2 half a gap of bf16 is
# 1/256, or 0.0039, which is more than the step. So the weight does not change, as in 1 + 0.003 above.
#
# Below, one small net is trained three times from the same start: in float32, in pure bf16, and in bf16 with **master
# weights**. These are kept in float32. Each step is added to them, and a bf16 copy is made for computing. Which share
# of the weights does a step of the pure bf16 run change? Say a number before you run the cell.

# %%
figures.dtypes.training_run()

# %% [markdown]
# Gradients in bf16 are good enough, because the third run follows the curve of float32. What failed was adding small
# steps to large weights, as in the counter. The loss did not explode, and there was no warning. The run only gave a
# worse model. This makes the mistake expensive, because you may not notice it.
#
# So a **mixed-precision** run computes in 16 bits and keeps weights and optimizer state in 32 bits. What does this cost
# in memory, for each parameter trained with Adam?

# %%
plain = {"weights, fp32": 4, "gradients, fp32": 4, "Adam's two means, fp32": 8}
mixed = {"weights, bf16": 2, "gradients, bf16": 2, "master weights, fp32": 4, "Adam's two means, fp32": 8}
for name, parts in (("float32", plain), ("mixed", mixed)):
    print(f"{name:>8}: {sum(parts.values())} bytes per parameter ({', '.join(f'{k}: {v}' for k, v in parts.items())})")

# %% [markdown]
# This saves no memory for parameters. It saves time in the matrix products, and memory for what flows between the
# layers (*activations*). The 16 bytes for each parameter will return in unit 03.
#
# ### Loss scaling
#
# fp16 has a second problem, at the other end: gradients are small. The upper picture shows the gradients of a net with
# eight layers, by size. The lower picture shows the same for a loss times 65,536. Which of them can fp16 hold?

# %%
figures.dtypes.loss_scaling()

# %%
for power in (0, 4, 8, 12, 16, 24, 36, 38):
    scaled = torch.tensor(figures.dtypes.gradients() * 2.0**power).half()
    zeros, infinite = (scaled == 0).double().mean(), scaled.isinf().double().mean()
    print(f"loss × 2^{power:<2}: {zeros:7.2%} become 0, {infinite:7.2%} infinite")

# %% [markdown]
# If the loss is 65,536 = 2¹⁶ times as large, so is each gradient. So scale the loss, compute the gradients in fp16, and
# divide them by the scale again **in float32**, before the step:
#
# ```python
# (loss * scale).backward()
# gradients = [w.grad.float() / scale for w in weights]
# ```
#
# A gradient of 0 does not change its weight. Does this matter to a run? Here a net of three layers learns to give small
# numbers, of about 0.003, so its errors are small, and its gradients are smaller still. Each of four runs keeps fp32
# master weights. What will the run in fp16 do without a scale? And does bf16 need a scale? Guess before you run the
# cell, which takes some seconds.

# %%
figures.dtypes.fp16_training()

# %% [markdown]
# The right picture shows that without a scale two thirds of the gradients are 0. The net has three layers of equal
# size, and these gradients belong to the lower two. So only the last layer learns, and the loss stays high. Again there
# was no warning.
#
# Which scale is right? If it is too small, small gradients are lost; if it is too large, there are infinities.
# `torch.amp.GradScaler` finds a scale by trying. When it sees an infinity, it skips the step and lowers the scale.
# After many good steps it raises the scale.

# %%
scaler = torch.amp.GradScaler("cpu")
print(f"it begins at {scaler.get_scale():,.0f}, multiplies by {scaler.get_backoff_factor()} after an infinity,")
print(f"and by {scaler.get_growth_factor():.0f} after {scaler.get_growth_interval():,} steps without one")

# %% [markdown]
# bf16 has the range of float32, so the run above needs no scale. bf16 pays with its resolution, and master weights make
# up for that. (Kalamkar and others, below, train many kinds of nets in bf16 this way, without a scale.)
#
# ### Autocast
#
# Who decides which operation runs in which dtype? `torch.autocast` does, operation by operation. Weights and inputs
# stay in float32, and the operations on a list get copies in 16 bits. Which of the results below come out in bf16?

# %%
x, weight, labels = torch.randn(8, 16), torch.randn(16, 4), torch.arange(8) % 4
with torch.autocast("cpu", dtype=torch.bfloat16):
    logits = x @ weight
    results = {
        "x @ weight": logits,
        "relu(logits)": logits.relu(),
        "logits + float32": logits + torch.randn(8, 4),
        "cross_entropy(logits)": torch.nn.functional.cross_entropy(logits, labels),
    }
for name, result in results.items():
    print(f"{name:>22}: {result.dtype}")
print(f"{'weight':>22}: {weight.dtype}, as before: it is the master weight")

# %% [markdown]
# Matrix products are on the list for 16 bits, and losses are on the list for 32 bits. An operation on neither list runs
# in the dtype of its inputs. CUDA has lists of its own. There `exp`, `log`, `sum`, `softmax` and the norms run in
# float32, too (see the documentation of `torch.amp`). You have seen why: each of these sums many terms, or leaves the
# range.
#
# | stays in float32 | because |
# | --- | --- |
# | the accumulator of a sum, a mean, a product of matrices | a large sum swallows small terms |
# | the maximum and the log-sum-exp of a softmax | exp overflows fp16 at 11.1; sums of many terms |
# | mean and variance in a norm, which brings rows to one size | squares overflow and underflow |
# | master weights | steps are smaller than half a gap |
# | Adam's running mean of squares | 1e-4 squared is 0 in fp16; the mean changes by about 0.1 % a step, less than half a gap in bf16 |
# | the loss, and the division by the loss scale | a mean over many terms; small gradients |

# %%
print(f"exp overflows fp16 above {math.log(torch.finfo(torch.float16).max):.2f}")
print(
    f"half a gap of bf16, relative: {torch.finfo(torch.bfloat16).eps / 4:.2%} to {torch.finfo(torch.bfloat16).eps / 2:.2%}"
)

# %% [markdown]
# ## Eight bits
#
# With 8 bits there are 256 numbers, and it matters where they lie.

# %%
figures.dtypes.number_lines()

# %% [markdown]
# e4m3 has the finer steps, and e5m2 has the range of fp16. So the paper that proposes them (*FP8 Formats for Deep
# Learning*, below) takes e4m3 for weights and activations, and e5m2 for gradients. int8 has only whole numbers, so it
# always comes with a **scale**: x ≈ q × scale, where q is an int8. The scale is the step between neighbours. A good
# scale sends the largest |x| to 127.
#
# The largest of what? One scale may serve a whole matrix, or each row may have its own. How much can that matter?

# %%
figures.dtypes.quantization_error()

# %% [markdown]
# A trained model usually tolerates this well, because its weights no longer change, so they are rounded only once.
# *Training* in 8 bits is harder, because gradients are small and spread over many orders of magnitude, and errors add
# up over steps. So training needs scales for each block of a tensor, sums in float32, and master copies of the weights.
# For inference even 4 bits are used (int4, with a scale for every 32 to 128 weights).
#
# If all rows must share one step, a single row with large numbers (an *outlier*) takes digits away from the others.
#
# ## Exercise: quantize rows
#
# {{exercise dtypes.quantize_rows}}
#
# `quantize_rows(x)` returns q, an int8 tensor with the shape of x, and `scale`, a float32 tensor with one step for each
# row, so that `q * scale[:, None]` is near x. Write it in torch. Full marks require
# * every element at most half a step away ({{holds.within_half_a_step.plain}}), for rows of all sizes
#   ({{holds.within_half_a_step.sizes}}),
# * no step larger than it must be: the largest |x| of a row becomes 127 ({{holds.least_step.sizes}}),
# * rows of zeros, which stay zeros, with a step above 0 ({{holds.zeros_stay.zeros}}).


# %% exercise="dtypes.quantize_rows"
def quantize_rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """x: (M, N) float32 -> q: (M, N) int8, scale: (M,) float32, with q * scale[:, None] near x."""
    ### BEGIN SOLUTION
    scale = x.abs().amax(1) / 127
    scale = torch.where(scale == 0, 1, scale)  # 0 / 0 would be NaN
    return (x / scale[:, None]).round().to(torch.int8), scale
    ### END SOLUTION


# %% check="dtypes.quantize_rows"
check("dtypes.quantize_rows", quantize_rows)

# %% [markdown]
# ### A scaled cast
#
# Each number of e4m3 has an exponent of its own. Does e4m3 need a scale, too? Four rows, of size 0.0001, 0.01, 1 and
# 30, go to e4m3 and back.

# %%
generator = torch.Generator().manual_seed(1)
x = torch.randn(4, 1000, generator=generator) * torch.tensor([1e-4, 1e-2, 1, 30])[:, None]
for name, scale in (("as it is", torch.ones(4)), ("a scale for each row", x.abs().amax(1) / 448)):
    back = (x / scale[:, None]).to(torch.float8_e4m3fn).float() * scale[:, None]
    errors = (back - x).norm(dim=1) / x.norm(dim=1)
    print(f"{name:>21}: errors of " + ", ".join(f"{error:.1%}" for error in errors.tolist()))

# %% [markdown]
# The rows of size 1 and 30 are as good without a scale, thanks to the exponent. The row of size 0.01 lies among the
# subnormals, which have fewer digits, and the row of size 0.0001 is gone. A **scaled cast** divides by the scale in
# float32, casts, and keeps the scale next to the row. A kernel for this needs no new idea: it loads few bits, computes
# in many, and stores fewer still.
#
# A *product* in 8 bits keeps both matrices as numbers and scales, and multiplies the sums by the scales. Along the axis
# that is summed over, one scale may serve all of a row, or a block of it. Suppose that one column of `a` is very large,
# as happens in real models, and the row of `b` that meets it is very small. How much does a scale for each block of 32
# help?


# %%
def in_fp8(x, block):
    """x as e4m3 with a scale for each `block` numbers of a row, and back."""
    pieces = x.unflatten(1, (-1, block))
    scale = pieces.abs().amax(2, keepdim=True) / 448
    return ((pieces / scale).to(torch.float8_e4m3fn).float() * scale).flatten(1)


a, b = (torch.randn(64, 1024, generator=generator) for _ in range(2))
a[:, 5] *= 1e5
b[:, 5] *= 1e-5
for block in (1024, 128, 32):
    wrong = in_fp8(a, block) @ in_fp8(b, block).T - a @ b.T
    print(f"a scale for {block:4} numbers: off by {wrong.norm() / (a @ b.T).norm():.1%}")

# %% [markdown]
# With one scale for a row, the large number of each row of `a` pushes all others among the subnormals. With a scale for
# each block it spoils only its own block. Formats with such blocks exist in hardware: since Blackwell, tensor cores
# take one scale for 32 numbers (*MX formats*). What is left, some percent, is the rounding of 3 mantissa bits.

# %% [markdown]
# ## Further reading
#
# * David Goldberg, *What Every Computer Scientist Should Know About Floating-Point Arithmetic* (1991): rounding, ulps,
#   and why.
# * Micikevicius and others, *Mixed Precision Training* (2018): master weights and loss scaling, with the experiments.
# * Micikevicius and others, *FP8 Formats for Deep Learning* (2022): e4m3 and e5m2.
# * The PyTorch documentation on `torch.amp`: which operations autocast runs in which dtype, on the CPU and on CUDA.
# * Stanford, *CS336: Language Modeling from Scratch*: the part of the lecture on GPUs that covers low precision.
# * Kalamkar and others, *A Study of BFLOAT16 for Deep Learning Training* (2019).
