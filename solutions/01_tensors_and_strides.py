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
# # 01 · Tensors and strides
#
# **After this unit you can** say where in memory any element of any tensor lies. You can say which torch operations
# copy, and which only read the same memory in another way. And you can write a kernel that reads a matrix of any
# layout. You need 00 (a first kernel, how checks and hints work). You need no GPU.

# %%
import time

import torch
import triton
import triton.language as tl
from einops import EinopsError, rearrange, reduce
from jaxtyping import Float
from torch.utils._python_dispatch import TorchDispatchMode

from course_lib import check, figures, hint, progress, trace  # noqa: F401 (hint is yours to call)

device = "cuda" if torch.cuda.is_available() else "cpu"

# %% [markdown]
# ## The question
#
# Here is a matrix of 4096 by 4096 floats. A float takes 4 bytes, so the matrix takes 64 MiB. There are two ways to
# transpose it:
#
# ```python
# x.T                # rows become columns
# x.T.contiguous()   # rows become columns, too
# ```
#
# Both give a tensor of the same shape with the same values. How many times as long does the second one take?

# %% predict="strides.guess_times"
# How many times as long as x.T does x.T.contiguous() take? Write a number before you run the next cell; it earns no points.
guess_times = ...

# %%
x = torch.randn(4096, 4096)


def seconds(work, repeats: int) -> float:
    """The shortest of `repeats` runs, on the CPU."""
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


view, copy = seconds(lambda: x.T, 1000), seconds(lambda: x.T.contiguous(), 3)
print(f"x.T                {1e6 * view:12.1f} microseconds")
print(f"x.T.contiguous()   {1e6 * copy:12.1f} microseconds, {copy / view:,.0f} times as long")
print("your guess:", "none yet" if guess_times is ... else guess_times)

# %% [markdown]
# Nothing moves 16 million numbers in about a microsecond. So what did `x.T` do? It did not touch a single number. This
# unit explains how that is possible.
#
# ## A tensor is a header
#
# Memory has no rows and columns. It is one long line of bytes, and each byte has an address. So a tensor consists of
# two things:
#
# * the **storage**, which holds the numbers, one after the other;
# * a small **header**, which says how to read them: the shape, the **strides**, the **offset** and the dtype.
#
# The stride of an axis is the distance in storage between neighbours along it. The offset is the position in
# storage of element (0, 0, ...). Both count elements, not bytes.
#
# Before you look at the picture, think of a matrix of 3 rows and 4 columns that lies in storage row after row. What are
# its two strides? And what are the strides of its transpose, over the *same* storage?

# %%
figures.strides.tensor_anatomy()

# %% [markdown]
# One step down in x skips a row of 4 elements, and one step to the right goes to the next element. In the transpose the
# two axes have changed places, and so have their strides. Nothing else is different, so transposing moves no numbers.
#
# You can ask any tensor for its header.

# %%
x = torch.arange(12.0).reshape(3, 4)
for name, tensor in {"x": x, "x.T": x.T, "x[1:, 2:]": x[1:, 2:]}.items():
    same = tensor.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    print(
        f"{name:10} shape {tuple(tensor.shape)}  strides {tensor.stride()}  offset {tensor.storage_offset()}  "
        f"storage of x: {same}"
    )

# %% [markdown]
# `untyped_storage().data_ptr()` is the address at which the storage begins. Tensors with equal addresses share their
# memory.
#
# The slice `x[1:, 2:]` shows what the offset is for. It begins at position 6 of the storage, which is row 1 and column
# 2 of x.
#
# ## The stride explorer
#
# Below is a storage of 24 numbers. The number at position i is i. On the left is a tensor that reads it, a *view*. On
# the right you see the **walk** through storage that you make when you read the view row by row. Choose a view, and
# move the sliders; *reset* brings the chosen view back. Try five things:
# * `x.view(8, 3)`. Its shape differs from that of `x`. Does its walk differ, too?
# * `x.T`. Why does the walk jump back and forth? What is the longest step to the right?
# * `x[1].expand(4, 6)`, which repeats row 1 four times with a row stride of 0. How many numbers of the storage does the
#   view use?
# * `x`, and then a row stride of 5. Which numbers are read twice now?
# * *reset*, and then an offset of 1. Why does torch refuse?

# %%
figures.strides.explore_strides()

# %% [markdown]
# `x.view(8, 3)` has the same walk as `x`; only its rows begin elsewhere. In `x.T` the next element of a row is 6
# positions to the right, and each new row begins 17 positions left of where the previous one ended. The expanded row
# uses 6 numbers for 24 elements. With a row stride of 5 each row begins with the last number of the row above, so 5, 10
# and 15 are read twice. And with an offset of 1 the last element would lie at position 24, past the end.
#
# ## Exercise: where is the element?
#
# {{exercise strides.flat_index}}
#
# `index` and `strides` have one number for each axis. At which position in storage does element `index` lie? Full marks
# require the right position
# * in matrices and with three axes ({{correct.plain}}),
# * with an offset, and with a stride of 0 ({{correct.offset}}),
# * with any number of axes, even with none ({{correct.any rank}}); a tensor without axes holds one number, at its
#   offset.
#
# `hint("strides.flat_index")` gives a hint, and a stronger one each time you call it. Every exercise in this unit has
# such hints.


# %% exercise="strides.flat_index"
def flat_index(index: list[int], strides: list[int], offset: int) -> int:
    """The position in storage of element `index`; all three count elements."""
    ### BEGIN SOLUTION
    return offset + sum(i * s for i, s in zip(index, strides, strict=True))
    ### END SOLUTION


# %% check="strides.flat_index"
check("strides.flat_index", flat_index)

# %% [markdown]
# You will write this line again and again, because every kernel begins by computing where its elements lie.
#
# ## Row-major order
#
# A new tensor lies in **row-major** order: neighbours along the last axis lie side by side, with stride 1. What is the
# stride of the axis before the last? One step along that axis skips a whole row. With three axes, one step along the
# first skips a matrix.

# %%
for shape in ((4,), (3, 4), (2, 3, 4), (8, 2, 3, 4)):
    print(f"{str(shape):14} strides {torch.empty(shape).stride()}")

# %% [markdown]
# Fortran, MATLAB and the BLAS libraries use **column-major** order, in which the *first* axis has stride 1. Torch sees
# a column-major matrix as a row-major one, transposed.
#
# ## Exercise: row-major strides
#
# {{exercise strides.row_major_strides}}
#
# Which strides does a new tensor of this shape get? All sizes are at least 1. Full marks require the right strides
# * for two, three and four axes ({{holds.strides_of_a_new_tensor.plain}}),
# * for any number of axes, and where sizes are 1 ({{holds.strides_of_a_new_tensor.any rank}}).


# %% exercise="strides.row_major_strides"
def row_major_strides(shape: list[int]) -> list[int]:
    """Sizes -> strides of a tensor that lies in storage row after row, without gaps."""
    ### BEGIN SOLUTION
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size  # one step along the next axis skips all of this one
    return strides[::-1]
    ### END SOLUTION


# %% check="strides.row_major_strides"
check("strides.row_major_strides", row_major_strides)

# %% [markdown]
# ## Views
#
# A **view** is a new header over a storage that exists already. Transposing, slicing and expanding only write headers.
# Here are six views of one matrix, `x = torch.arange(24).reshape(4, 6)`. Read each title first: can you say which of
# the 24 numbers will be coloured?

# %%
figures.strides.views_of_one_storage()

# %% [markdown]
# Three of them deserve a second look.
# * `x[::2, ::3]` takes every second row and every third column, so the strides are multiplied by 2 and 3.
# * `x[1].expand(4, 6)` shows one row four times. With a **stride of 0** the next row lies where the last one did.
# * `x.flatten()` puts the 24 numbers in one dimension. `.unfold(axis, size, step)` then cuts windows out of it: here,
#   of 6 numbers each, with a new one every 3 numbers. Neighbouring windows share numbers, and nothing is copied.
#
# If views share memory, what happens when you write through one? Say what the next cell prints before you run it.

# %%
x = torch.zeros(2, 3)
turned, row, copied = x.T, x[0], x.clone()
turned[2, 0] = 7.0  # row 2, column 0 of the transpose
row += 1
print("x:     ", x.tolist())
print("copied:", copied.tolist())

# %% [markdown]
# Both writes reached x, and the copy saw neither. This is useful, because otherwise `x[0] += 1` could not change x. It
# also causes a common bug: a function that changes a slice of its argument changes its caller's tensor.
#
# What if four elements of a view are one number in memory? Adding 1 to each could add 1 or 4 to this number.

# %%
many = torch.zeros(3).expand(4, 3)
try:
    many += 1
except RuntimeError as error:
    print("torch refuses:", str(error).split(".")[0])

# %% [markdown]
# A view also keeps its whole storage alive. How many bytes does `small` hold on to?

# %%
big = torch.zeros(4096, 4096)
small = big[:1]
del big
print(f"small has {small.numel() * 4:,} bytes of elements and holds {small.untyped_storage().nbytes():,} bytes")

# %% [markdown]
# It holds on to all 64 MiB. `small.clone()` would hold only its own elements.
#
# ## Contiguous, or not
#
# A tensor is **contiguous** if its walk, row by row, takes one step at a time through storage. In other words, its
# strides are those that a new tensor of its shape would get. Many kernels take only contiguous tensors, because then
# the next element lies at the next address.
#
# Along an axis of size 1 nobody takes a step, so its stride does not matter. And a tensor without elements has nothing
# to walk over, so torch calls it contiguous.
#
# ## Exercise: is it contiguous?
#
# {{exercise strides.is_contiguous}}
#
# Is a tensor with this shape and these strides contiguous? You may call `row_major_strides`, if you have solved it. (If
# yours returns a tuple, make it a list with `list(...)`, because `[4, 1] == (4, 1)` is False in Python.) Full marks
# require what torch answers
# * for matrices and three axes ({{correct.plain}}),
# * where sizes are 1 ({{correct.size 1}}),
# * for tensors without elements, where a size is 0 ({{correct.empty}}).


# %% exercise="strides.is_contiguous"
def is_contiguous(shape: list[int], strides: list[int]) -> bool:
    """Whether a tensor with these sizes and strides lies in storage row after row, without gaps."""
    ### BEGIN SOLUTION
    if 0 in shape:
        return True
    expected = row_major_strides(shape)
    return all(stride == e for size, stride, e in zip(shape, strides, expected, strict=True) if size != 1)
    ### END SOLUTION


# %% check="strides.is_contiguous"
check("strides.is_contiguous", is_contiguous)

# %% [markdown]
# ## View, or copy?
#
# For some operations a new header is not enough. Suppose you want all elements of `x.T` in *one* dimension. One
# dimension has one stride. Can any one stride walk over a transposed matrix, row by row?

# %%
figures.strides.flat_walks()

# %% [markdown]
# The second walk moves two positions at every step, but it is still one straight line, so it can be a view. The last
# two walks bend.
#
# So when does torch copy?
#
# | you write | if no number has to move | if numbers have to move |
# | --- | --- | --- |
# | `x.view(shape)` | a view | an error |
# | `x.reshape(shape)` | a view | a copy, without a warning |
# | `x.contiguous()` | x itself, if it is contiguous | a copy |
# | `x.half()`, `x.float()`: to float16, float32 | x itself, if it has that dtype | a copy, because the bits differ |
# | `x + 0`, `x * y`, `x.exp()`: elementwise operations | | always a new tensor, unless the name ends in `_` (`x.add_(1)`) |
# | `x[[2, 0, 3]]`: a list of rows | | always a copy, because in general no stride leads from one row to the next |
#
# `reshape` is convenient, but it can use up memory unnoticed.
#
# ## Exercise: predict ten expressions
#
# {{exercise strides.predictions}}
#
# `x = torch.randn(64, 64)` is contiguous, in float32. It has 4096 elements of 4 bytes, so it takes 16,384 bytes. How
# many bytes of **new** storage does each expression allocate? Write 0 for a view, and for x itself. An element of
# float16 takes 2 bytes. Each right answer is worth {{correct.plain / 10}}.
#
# Write numbers, or arithmetic on numbers such as `4 * 1024`. Code that works out the answers is not a prediction, and
# earns nothing.

# %% exercise="strides.predictions"
predicted_new_bytes = {
    "x.T": ...,
    "x[:, ::2]": ...,
    "x.contiguous()": ...,
    "x.T.contiguous()": ...,
    "x.reshape(4096)": ...,
    "x.T.reshape(4096)": ...,
    "x.expand(10, 64, 64)": ...,
    "x[[0, 1]]": ...,
    "x.half()": ...,
    "x.float()": ...,
}
### BEGIN SOLUTION
predicted_new_bytes = {
    "x.T": 0,
    "x[:, ::2]": 0,
    "x.contiguous()": 0,  # it is contiguous already
    "x.T.contiguous()": 16384,
    "x.reshape(4096)": 0,
    "x.T.reshape(4096)": 16384,  # the walk bends
    "x.expand(10, 64, 64)": 0,  # stride 0
    "x[[0, 1]]": 512,  # a list could name any rows in any order, so torch copies them: 2 * 64 * 4
    "x.half()": 8192,  # other bits: 4096 * 2
    "x.float()": 0,  # it is float32 already
}
### END SOLUTION

# %% check="strides.predictions"
check("strides.predictions", predicted_new_bytes)

# %% [markdown]
# How was that counted? The check asks torch whether the result has the storage of x. Predict three more expressions,
# run the cell, and add your own.

# %%
x = torch.randn(64, 64)
for name in ("x[3]", "x[:, :32].reshape(2048)", "x + 0"):
    storage = eval(name).untyped_storage()
    new = 0 if storage.data_ptr() == x.untyped_storage().data_ptr() else storage.nbytes()
    print(f"{name:22} {new:6} new bytes")

# %% [markdown]
# ## Writing headers yourself
#
# `x.as_strided(shape, strides, offset)` makes a view from the numbers that you give it. We call a shape and strides the
# **recipe** of a view. The next exercises take the recipe of a tensor, and return the recipe of a view of it.
#
# Why recipes, and not tensors? A function that returns a tensor may copy on the way, and its result looks right all the
# same. A recipe cannot copy, because it holds none of the tensor's numbers. The check follows your recipe with
# `as_strided`, and compares what it reads with torch's own view. The offset stays the same.
#
# Try a recipe yourself, on a storage in which each number is its own position:

# %%
x = torch.arange(12).reshape(3, 4)
shape, strides = [4, 3], [1, 4]
print(x.as_strided(shape, strides))

# %% [markdown]
# Return both lists: `return shape, strides`.

# %% [markdown]
# ## Exercise: broadcast
#
# {{exercise strides.broadcast_view}}
#
# When you add a bias of shape (4,) to a batch of shape (2, 3, 4), nobody makes six copies of the bias. torch reads the
# bias through a view of shape (2, 3, 4). The rule is called **broadcasting**. Line the shapes up at their right ends.
# An axis that is missing on the left, or has size 1, is repeated.
#
# The target always fits: every size of x is 1, or equals the target's size. In torch this is `x.expand(target)`. Full
# marks require a recipe that reads the same elements
# * where sizes of 1 are repeated ({{holds.problem.plain}}),
# * where axes are added in front ({{holds.problem.leading}}),
# * where x is a view itself ({{holds.problem.strided}}).


# %% exercise="strides.broadcast_view"
def broadcast_view(shape: list[int], strides: list[int], target: list[int]) -> tuple[list[int], list[int]]:
    """The shape and strides of x -> those of x.expand(target)."""
    ### BEGIN SOLUTION
    missing = len(target) - len(shape)
    kept = [0 if n == 1 else s for n, s in zip(shape, strides, strict=True)]  # no step: the same element again
    return list(target), [0] * missing + kept
    ### END SOLUTION


# %% check="strides.broadcast_view"
check("strides.broadcast_view", broadcast_view)

# %% [markdown]
# ## Exercise: a matrix of tiles
#
# {{exercise strides.tile_view}}
#
# Fast kernels cut matrices into **tiles**. A matrix of shape (M, N) becomes a tensor of shape (M // bm, N // bn, bm,
# bn). Its element (i, j, p, q) lies in tile (i, j), at row p and column q of this tile. bm divides M, and bn divides N.
# How far away is the next element along each of the four axes?
#
# ```
#  0  1  2 |  3  4  5
#  6  7  8 |  9 10 11      4 x 6 in tiles of 2 x 3
# ---------+---------      element (1, 0, 0, 2) is 14
# 12 13 14 | 15 16 17
# 18 19 20 | 21 22 23
# ```
#
# Full marks require a recipe that reads the same elements
# * for contiguous x ({{holds.problem.plain}}),
# * where x is a view itself ({{holds.problem.strided}}).


# %% exercise="strides.tile_view"
def tile_view(shape: list[int], strides: list[int], bm: int, bn: int) -> tuple[list[int], list[int]]:
    """The shape and strides of x (M, N) -> those of its tiles (M // bm, N // bn, bm, bn)."""
    ### BEGIN SOLUTION
    (M, N), (stride_m, stride_n) = shape, strides
    return [M // bm, N // bn, bm, bn], [bm * stride_m, bn * stride_n, stride_m, stride_n]
    ### END SOLUTION


# %% check="strides.tile_view"
check("strides.tile_view", tile_view)

# %% [markdown]
# The view has four axes, and still no number was moved. Kernels in units 05 to 10 cut matrices in this way.

# %% [markdown]
# ## Strides in a kernel
#
# A kernel gets a pointer, but no header. You pass the shape and the strides as numbers. You need not pass the offset,
# because torch adds it to the pointer, which is the address of element (0, 0). In unit 00, a program had a
# one-dimensional block of offsets. For a matrix it needs a two-dimensional block, which it gets by broadcasting, as in
# torch:
#
# ```python
# rows = tl.arange(0, 4)                 # (4,)
# cols = tl.arange(0, 8)                 # (8,)
# rows[:, None] * 100 + cols[None, :]    # (4, 8): element (r, c) is r * 100 + c
# ```
#
# `rows[:, None]` is a block of shape (4, 1), and `cols[None, :]` is a block of shape (1, 8). Any operation on the two
# gives a block of shape (4, 8). The last line is `flat_index` for 32 elements at once.
#
# The next kernel makes an addition table: out[m, n] = a[m] + b[n]. A launch with two numbers in its grid starts
# programs that are numbered in two dimensions. Each program finds its place with `tl.program_id(0)` and
# `tl.program_id(1)`. Which of the programs have positions to mask? (`other=0` says what a masked position of a load
# gets. Without `other`, its value is undefined.)


# %%
@triton.jit
def table_kernel(a_ptr, b_ptr, out_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """out[m, n] = a[m] + b[n] for one BLOCK_M x BLOCK_N tile; out is (M, N), contiguous."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)  # (BLOCK_M,)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)  # (BLOCK_N,)
    a = tl.load(a_ptr + rows, mask=rows < M, other=0)
    b = tl.load(b_ptr + cols, mask=cols < N, other=0)
    inside = (rows[:, None] < M) & (cols[None, :] < N)  # (BLOCK_M, BLOCK_N); `&`, not `and`
    offsets = rows[:, None] * N + cols[None, :]  # strides (N, 1)
    tl.store(out_ptr + offsets, a[:, None] + b[None, :], mask=inside)


a, b, out = torch.arange(50.0), 100 * torch.arange(70.0), torch.empty(50, 70)
grid = (triton.cdiv(50, 32), triton.cdiv(70, 32))  # 2 x 3 programs
with trace() as t:  # inside, kernels run on the CPU, one program after the other, and every access is counted
    table_kernel[grid](a, b, out, 50, 70, BLOCK_M=32, BLOCK_N=32)
print("right:", torch.equal(out, a[:, None] + b[None, :]))
positions = t.stores.masked + t.stores.elements
print(f"{t.programs} programs, {positions:,} positions, {t.stores.masked:,} masked; {t.stores.bytes:,} bytes stored")

# %% [markdown]
# 50 rows do not fill two tiles of 32, and 70 columns do not fill three. So the programs in the last row and in the last
# column of the grid mask positions. 6 programs have 6 · 32 · 32 = 6144 positions, of which 50 · 70 stored 4 bytes each.
# The others wrote nothing.
#
# ## Exercise: copy a matrix of any strides
#
# {{exercise strides.strided_copy}}
#
# Return a contiguous copy of a matrix x, which may be contiguous, transposed, sliced or expanded. In torch this is
# `x.contiguous()`, except that you always copy. x is float32 or float16, of any size from 1 up.
#
# Torch may allocate and make views, but your kernel must do the copying. `torch.empty(M, N)` is float32 unless you give
# it a `dtype`. `torch.empty_like(x)` has the dtype of x, but keeps its strides where it can. `x.stride()` gives both
# strides. Try your function with `with trace(): print(strided_copy(torch.randn(3, 5).T))`.
#
# Full marks require
# * the right result for sizes that the tile does not divide, in float16 as well ({{correct.ragged}}),
# * the right result for transposed, sliced and stepped inputs ({{correct.strided}}), and for expanded inputs
#   ({{correct.zero strides}}),
# * that each element is read once and written once, by at least 32 programs if x is large ({{traffic.performance}}).


# %% exercise="strides.strided_copy"
@triton.jit
def strided_copy_kernel(x_ptr, out_ptr, M, N, stride_m, stride_n, BLOCK: tl.constexpr):
    """out[m, n] = x[m, n] for one BLOCK x BLOCK tile; x has strides (stride_m, stride_n), out is contiguous."""
    ### BEGIN SOLUTION
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = (rows < M) & (cols < N)
    tile = tl.load(x_ptr + rows * stride_m + cols * stride_n, mask=inside)
    tl.store(out_ptr + rows * N + cols, tile, mask=inside)
    ### END SOLUTION


def strided_copy(x: torch.Tensor) -> torch.Tensor:
    """x: (M, N), any strides -> (M, N), contiguous."""
    ### BEGIN SOLUTION
    M, N = x.shape
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    BLOCK = 64
    grid = (triton.cdiv(M, BLOCK), triton.cdiv(N, BLOCK))
    strided_copy_kernel[grid](x, out, M, N, x.stride(0), x.stride(1), BLOCK=BLOCK)
    return out
    ### END SOLUTION


# %% check="strides.strided_copy"
check("strides.strided_copy", strided_copy)

# %%
progress()

# %% [markdown]
# One kernel now reads every layout. Does it read them all equally fast? That depends on which addresses are neighbours,
# as unit 04 shows.
#
# ## What you now know
#
# * A tensor is a storage and a header: shape, strides, offset, dtype. Element (i, j, ...) lies at offset + i · s₀ + j ·
#   s₁ + ...
# * Transposing, slicing and expanding write headers. They cost about a microsecond, whatever the size. Views share
#   memory, so a write through one view shows in all.
# * A stride of 0 repeats an element without storing it again.
# * Contiguous means that the strides are those of a new tensor. `reshape` copies without a warning if the walk through
#   storage is not a straight line.
# * A kernel gets a pointer to the first element, and the strides as numbers. A two-dimensional block of offsets is
#   `rows[:, None] * stride_m + cols[None, :] * stride_n`.
#
# The unit is worth {{unit points}}, over {{unit exercises}}. Hand in this notebook; the grader runs the same checks on
# inputs that you have not seen. Unit 02 asks what the bits of a single element mean.

# %% [markdown]
# ## More
#
# {{unit more}} How large is a tensor, and which memory holds it? Which other views can be written as recipes? And how
# do einops and einsum name axes instead of counting them?

# %% [markdown]
# ## Bytes
#
# How large is a tensor? Multiply the number of its elements by the number of bytes of one element, which torch calls
# `itemsize`. Compute this *before* you allocate the tensor. GPT-3 has 96 layers, and the first feed-forward matrix of
# each layer has 12288 × 49152 numbers (Brown and others, 2020, section 2.1). Does one such matrix fit into the memory
# of a GPU? Does it fit into its cache?

# %% gpu="strides.one_matrix_in_bytes"
figures.strides.one_matrix_in_bytes()

# %% [markdown]
# ## Exercise: how many bytes?
#
# {{exercise strides.tensor_bytes}}
#
# `dtype` is a name such as `"bfloat16"`. `getattr(torch, dtype)` is the dtype of that name, and a dtype has an
# `itemsize`. Do not allocate the tensor, because one of the cases is GPT-3's matrix. Full marks require the right
# number
# * for any shape in float32, even without axes or without elements ({{correct.float32}}),
# * for other dtypes ({{correct.dtypes}}).


# %% exercise="strides.tensor_bytes"
def tensor_bytes(shape: list[int], dtype: str) -> int:
    """Sizes and the name of a dtype -> bytes of the elements of such a tensor."""
    ### BEGIN SOLUTION
    elements = 1
    for size in shape:
        elements *= size
    return elements * getattr(torch, dtype).itemsize
    ### END SOLUTION


# %% check="strides.tensor_bytes"
check("strides.tensor_bytes", tensor_bytes)

# %% [markdown]
# On torch's **meta** device, a tensor is a header without a storage. It answers questions about shapes, strides and
# bytes, and costs nothing.

# %%
w = torch.empty(12288, 49152, device="meta")
print(f"{w.nbytes:,} bytes = {w.nbytes / 2**30:.2f} GiB = {w.nbytes / 1e9:.2f} GB; strides {w.stride()}, on {w.device}")

# %% [markdown]
# A GiB is 2³⁰ bytes, and a GB is 10⁹ bytes. Datasheets of GPUs count in GB, but torch's error messages count in GiB.
# The difference is 7 %, so the 141 GB of an H200 in unit 00 are the 131 GiB in the picture above.
#
# ## What lives where
#
# A GPU has memory of its own. A tensor lives either there or in the CPU's memory, and `x.device` says where. Moving it,
# with `x.to("cuda")`, is always a copy. Both operands of an operation must be on the same device, or torch raises an
# error. Only a CPU tensor without axes, which is a single number, may be combined with a GPU tensor.
#
# Moving takes time. The link between the two memories, PCIe, carries 64 GB/s each way in its fifth generation. An
# H200's own memory delivers 4800 GB/s, 75 times as much. The CPU waits for the end of a copy, unless you write
# `x.pin_memory().to("cuda", non_blocking=True)`. (*Pinned* memory cannot be moved to disk.) So know where each tensor
# lives, and say so in code: `assert x.device == w.device`.
#
# You can also make a tensor where it is needed: with `torch.zeros(n, device="cuda")`, `torch.randn` or `torch.empty`.
# `torch.empty` only allocates, and leaves whatever bits were there. Use it for results that a kernel will fill, or for
# weights that an initialisation writes next.
#
# How do you know what a line of code allocates on a GPU? torch counts: `torch.cuda.memory_allocated()` is the number of
# bytes in live tensors, and `torch.cuda.max_memory_allocated()` is its maximum so far. A view must not change the
# counter. Does it?


# %% gpu="strides.memory_allocated"
def walk_through_memory(allocated) -> None:
    """Some allocations, and by how much each moves the counter `allocated()`."""
    before = allocated()

    def say(what: str) -> None:
        nonlocal before
        now = allocated()
        print(f"{what:38} {now - before:+12,} bytes")
        before = now

    x = torch.zeros(1024, 1024, device=device)
    say("x = torch.zeros(1024, 1024)")
    y = x.T[::2].expand(3, -1, -1)  # noqa: F841
    say("y = x.T[::2].expand(3, -1, -1)")
    z = x.T.contiguous()  # noqa: F841
    say("z = x.T.contiguous()")
    del x
    say("del x       (y still needs its storage)")
    del y
    say("del y")
    one = torch.zeros(1, device=device)  # noqa: F841
    say("one = torch.zeros(1)")


if device == "cuda":
    walk_through_memory(torch.cuda.memory_allocated)
else:
    print("There is no GPU here. With one, this cell runs the function above and prints what torch's counter says:")
    print(
        "+4 MiB for x, +0 for the view y, +4 MiB for z, 0 for `del x`, since y keeps the storage, -4 MiB for `del y`,"
    )
    print("and +512 bytes for a tensor of one float: torch hands out GPU memory in pieces of 512 bytes.")

# %% [markdown]
# On a CPU torch keeps no such counter. But you can ask tensors for their storages, and count each storage once:


# %%
def bytes_held(*tensors: torch.Tensor) -> int:
    """Bytes of the storages behind these tensors; a storage that several share counts once."""
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
    return sum(storages.values())


x = torch.zeros(1024, 1024)
y, z = x.T[::2].expand(3, -1, -1), x.T.contiguous()
print(f"x: {bytes_held(x):,}   x and y: {bytes_held(x, y):,}   x, y and z: {bytes_held(x, y, z):,}")
print(f"but y.nbytes is {y.nbytes:,}: it counts elements of the view, {y.numel():,} of them, not memory")

# %% [markdown]
# ## Exercise: transpose
#
# {{exercise strides.transpose_view}}
#
# Axes i and j change places, and the others stay. Both are at least 0, and they may be equal. In torch this is
# `x.transpose(i, j)`. Full marks require a recipe that reads the same elements
# * for contiguous x ({{holds.problem.plain}}),
# * where x is a view itself ({{holds.problem.strided}}).


# %% exercise="strides.transpose_view"
def transpose_view(shape: list[int], strides: list[int], i: int, j: int) -> tuple[list[int], list[int]]:
    """The shape and strides of x -> those of x.transpose(i, j)."""
    ### BEGIN SOLUTION
    shape, strides = list(shape), list(strides)
    shape[i], shape[j] = shape[j], shape[i]
    strides[i], strides[j] = strides[j], strides[i]
    return shape, strides
    ### END SOLUTION


# %% check="strides.transpose_view"
check("strides.transpose_view", transpose_view)

# %% [markdown]
# ## Exercise: sliding windows
#
# {{exercise strides.sliding_windows}}
#
# A moving average, a convolution and local attention all look at windows. Along the last axis of x, cut windows of
# `width` elements, and begin a new window every `step` elements. Windows that would reach past the end are left out.
# The shape of x is (..., L), with L at least `width`, and that of the result is (..., windows, width). In torch this is
# `x.unfold(-1, width, step)`. Full marks require a recipe that reads the same elements
# * for a contiguous row of numbers ({{holds.problem.plain}}),
# * for more axes, and for x that is a view itself ({{holds.problem.batch}}).


# %% exercise="strides.sliding_windows"
def sliding_windows(shape: list[int], strides: list[int], width: int, step: int) -> tuple[list[int], list[int]]:
    """The shape and strides of x (..., L) -> those of its windows (..., windows, width)."""
    ### BEGIN SOLUTION
    *outer, length = shape
    windows = (length - width) // step + 1
    return [*outer, windows, width], [*strides[:-1], step * strides[-1], strides[-1]]
    ### END SOLUTION


# %% check="strides.sliding_windows"
check("strides.sliding_windows", sliding_windows)

# %% [markdown]
# How much memory does this save for 100,000 numbers, with a window of 1000 wherever one fits?

# %%
signal = torch.randn(100_000)
windows = signal.unfold(-1, 1000, 1)
print(
    f"windows: {tuple(windows.shape)}, {windows.nbytes / 1e6:.0f} MB if they were copied; {bytes_held(signal, windows):,} bytes held"
)

# %% [markdown]
# ## Axes with names
#
# What is axis 1 of `x.reshape(B, S, 12, 64).transpose(1, 2)`? Code for attention is full of such lines, and a wrong
# line often runs without an error. Two libraries let you write down the names of axes.
#
# **einops** describes a rearrangement by the axes before and after it. `(h d)` is one axis that is made of two, and d,
# the last one, changes fastest. You say how many heads there are, and einops finds the rest from the shape. Below, x
# holds 2 sequences (b) of 5 tokens (s), each with 3 heads (h) of 4 channels (d). Is y a view? And what happens if you
# ask for 5 heads?

# %%
x = torch.arange(2 * 5 * 12.0).reshape(2, 5, 12)
y = rearrange(x, "b s (h d) -> b h s d", h=3)
print(f"{tuple(x.shape)} -> {tuple(y.shape)}, strides {y.stride()}, the storage of x: {y.data_ptr() == x.data_ptr()}")
print("back again:", torch.equal(rearrange(y, "b h s d -> b s (h d)"), x))
try:
    rearrange(x, "b s (h d) -> b h s d", h=5)
except EinopsError as error:
    print("5 heads:", str(error).strip().splitlines()[-1].strip())

# %% [markdown]
# Look at the strides of the result, (60, 4, 12, 1). Cutting the axis (h d) gave h the stride 4 and d the stride 1.
# Swapping s and h swapped their strides, too. Nothing was copied. But a kernel that needs each head's rows side by side
# needs a copy.
#
# **jaxtyping** puts dtype and shape into a signature: `x: Float[torch.Tensor, "batch seq dim"]`. A word names an axis,
# and a number fixes its size. Python ignores this, but readers do not, and a checker can test it.

# %%
Tokens = Float[torch.Tensor, "batch seq 12"]
for tensor in (torch.zeros(2, 5, 12), torch.zeros(2, 5, 16), torch.zeros(5, 12), torch.zeros(2, 5, 12).long()):
    print(f"{str(tuple(tensor.shape)):11} {str(tensor.dtype):13} batch seq 12? {isinstance(tensor, Tokens)}")

# %% [markdown]
# ## Exercise: split the heads
#
# {{exercise strides.split_heads}}
#
# Attention cuts the query of each token (unit 00) into parts, called **heads**, and works on each head alone. But the
# queries of all heads are computed at once, as x of shape (B, S, heads · D). For each token of each sequence, x holds D
# numbers (*channels*) of head 0, then D of head 1, and so on. Return a tensor of shape (B, heads, S, D) that shares no
# memory with x: **a copy, not a view**. There are three steps: cut the last axis in two, swap two axes, copy.
#
# `x.reshape(B, heads, S, D)` has the right shape, but its elements are in the wrong places. It goes through storage in
# order, and calls the first S · D numbers "head 0", whichever tokens they belong to.
#
# Use whatever makes views, and then `.contiguous()` or `.clone()` to copy; both are right here. There are at least 2
# tokens and 2 heads. Full marks require the right elements in the right places
# * for contiguous x ({{correct.plain}}), in float16 as well,
# * where x is a view itself ({{correct.strided}}).


# %% exercise="strides.split_heads"
def split_heads(x: Float[torch.Tensor, "b s channels"], heads: int) -> Float[torch.Tensor, "b heads s d"]:
    """x: (B, S, heads * D) -> (B, heads, S, D), a copy."""
    ### BEGIN SOLUTION
    return rearrange(x, "b s (h d) -> b h s d", h=heads).contiguous()
    ### END SOLUTION


# %% check="strides.split_heads"
check("strides.split_heads", split_heads)

# %% [markdown]
# ## Products by name
#
# `torch.einsum` gives names to the axes of a *product*. `"mk,kn->mn"` says: for each m and n, multiply `x[m, k]` by
# `y[k, n]`, and add up over k, the axis that is not named on the right. That is `x @ y`, and nobody has to remember
# which of the two is transposed. `...` stands for all leading axes, however many there are, so `"...d,df->...f"` is a
# linear layer on a tensor of any rank.
#
# An einsum reads like a loop over five or six axes. Is it one? What does torch run, in which order does it sum, and
# what does it copy on the way? The next cell prints every operation that is not a view:


# %%
class Running(TorchDispatchMode):
    """Notes each operation of torch whose result has a storage of its own; views are left out."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        storages = {t.untyped_storage().data_ptr() for t in args if isinstance(t, torch.Tensor)}
        if out.untyped_storage().data_ptr() not in storages:
            self.noted = [*getattr(self, "noted", []), f"{function.overloadpacket.__name__} -> {tuple(out.shape)}"]
        return out


for equation, shapes in {
    "mk,kn->mn": [(64, 64), (64, 64)],
    "bmk,kn->bmn": [(8, 64, 64), (64, 64)],
    "mn->m": [(64, 64)],
    "mk,kn->": [(64, 64), (64, 64)],
}.items():
    operands = [torch.randn(shape) for shape in shapes]
    with Running() as running:
        torch.einsum(equation, *operands)
    print(f"{equation:12} {', '.join(running.noted)}")

# %% [markdown]
# For an einsum of two operands torch computes at most **one** product. It joins the axes into one axis of rows, one of
# columns and one of the batch, and calls `bmm` (a batch of matrix products). In the second line all 8 matrices became
# one matrix of 512 rows, because one stride leads through both axes. In the last line the two sums that need no product
# come first. If no stride leads through axes that must be joined, torch **copies** the operand without a warning, as
# `reshape` does.
#
# With three operands torch multiplies **from left to right**, unless the package opt_einsum is installed, which looks
# for the cheapest order. The last two predictions of the next exercise show how much the order matters.
#
# ## Exercise: predict nine numbers
#
# {{exercise strides.einsum_predictions}}
#
# All matrices are (64, 64) in float32, except that `nv` is (64, 1). Both operands of `bshd,bthd->bhst` are (2, 64, 4,
# 16). The operands of `...d,df->...f` are (2, 64, 4, 16) and (16, 5). *Products* are calls of `bmm`, *bytes copied* are
# bytes that torch copies before a product, and *elements* are elements of the result. No package that looks for a
# better order is installed. Each number is worth {{correct.plain / 9}}.

# %% exercise="strides.einsum_predictions"
predicted_einsum = {
    "products: mk,kn->mn": ...,
    "products: mn,mn->mn": ...,
    "products: mk,kn,np->mp": ...,
    "bytes copied: mk,nk->mn": ...,
    "bytes copied: bshd,bthd->bhst": ...,
    "elements: mk,kn->n": ...,
    "elements: ...d,df->...f": ...,
    "FLOPs: mk,kn,nv->mv, from the left": ...,
    "FLOPs: mk,kn,nv->mv, from the right": ...,
}
### BEGIN SOLUTION
predicted_einsum = {
    "products: mk,kn->mn": 1,
    "products: mn,mn->mn": 0,  # nothing is summed: an elementwise multiplication
    "products: mk,kn,np->mp": 2,
    "bytes copied: mk,nk->mn": 0,  # a transposed matrix is a view, and bmm takes strides
    "bytes copied: bshd,bthd->bhst": 65536,  # b and h are one batch, and no stride leads through both: q and k are copied
    "elements: mk,kn->n": 64,  # m and k are summed
    "elements: ...d,df->...f": 2560,  # 2 * 64 * 4 * 5
    "FLOPs: mk,kn,nv->mv, from the left": 532480,  # 2 * 64**3 + 2 * 64**2
    "FLOPs: mk,kn,nv->mv, from the right": 16384,  # 2 * 64**2, twice
}
### END SOLUTION

# %% check="strides.einsum_predictions"
check("strides.einsum_predictions", predicted_einsum)

# %% [markdown]
# From the right the product takes about 32 times fewer FLOPs, although the equation is the same. Where this matters,
# write two einsums, so that you set the order yourself.
#
# ## Exercise: heads that share keys
#
# {{exercise strides.grouped_scores}}
#
# The score of query s and key t, in each head, is the sum of `q[b, s, h, d] * k[b, t, h, d]` over d. In many models
# several heads of queries share one head of keys. If q has H heads and k has G heads, query heads 0 to H / G - 1 use
# key head 0, the next H / G use key head 1, and so on. Return all scores, as (B, H, S, T). Use torch and einops:
# einsum, `rearrange`, `@`. If the result is wrong for G = H, you get no points. Full marks require the right result
# * for fewer heads of keys than of queries ({{correct.grouped}}).


# %% exercise="strides.grouped_scores"
def grouped_scores(q: Float[torch.Tensor, "b s h d"], k: Float[torch.Tensor, "b t g d"]) -> torch.Tensor:
    """q: (B, S, H, D), k: (B, T, G, D) -> scores (B, H, S, T)."""
    ### BEGIN SOLUTION
    q = rearrange(q, "b s (g r) d -> b s g r d", g=k.shape[2])
    return rearrange(torch.einsum("bsgrd,btgd->bgrst", q, k), "b g r s t -> b (g r) s t")
    ### END SOLUTION


# %% check="strides.grouped_scores"
check("strides.grouped_scores", grouped_scores)

# %% [markdown]
# ## Exercise: a mean over windows
#
# {{exercise strides.mean_pool}}
#
# `einops.reduce` is `rearrange` with one more argument. Axes that are missing on the right are reduced by "sum",
# "mean", "max" or "min". `reduce(x, "b s c -> b c", "mean")` is the mean over all tokens. Return the mean of each
# window of `width` neighbouring tokens, as (B, S / width, C); `width` divides S. If the result is wrong for ordinary x,
# you get no points. Full marks require the right result
# * for windows of one token and of all tokens, for x that is a view, and for float16 ({{correct.other}}).


# %% exercise="strides.mean_pool"
def mean_pool(x: Float[torch.Tensor, "b s c"], width: int) -> Float[torch.Tensor, "b n c"]:
    """x: (B, S, C) -> (B, S / width, C), the mean of each window of tokens."""
    ### BEGIN SOLUTION
    return reduce(x, "b (n w) c -> b n c", "mean", w=width)
    ### END SOLUTION


# %% check="strides.mean_pool"
check("strides.mean_pool", mean_pool)

# %% [markdown]
# The two ways to copy a view leave different strides: `.contiguous()` writes row after row, while `.clone()` keeps the
# order that the view has in storage. A kernel that expects the next element at the next address needs `.contiguous()`.

# %% [markdown]
# ## Further reading
#
# * Edward Z. Yang, *PyTorch internals*: the first third is about storages, strides and views.
# * The PyTorch documentation: *Tensor Views* lists which operations return views; `torch.Tensor.as_strided`; *CUDA
#   semantics*, the section on memory management.
# * The NumPy documentation, *Internal memory layout of an ndarray*: the same idea, older, with strides in bytes.
# * The einops documentation, its tutorial *einops basics*, and the jaxtyping documentation on array annotations.
# * The Triton documentation, the tutorial on matrix multiplication, under *Pointer arithmetic*: offsets in two
#   dimensions.
