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
# # 11 · Your kernels in a real model
#
# **After this unit you can** write an optimizer in one launch, and say why it cannot be faster. You can train a model
# on a file and with batches that do not fit into memory. You can say beforehand how much memory, time and money a
# training run takes, and you can stop a run and go on without a difference of one bit. And you can put kernels of your
# own into a model so that every parameter learns. In part two you tell a model where its tokens stand, write the
# function that every layer of a real model calls, and write text with a cache that is never copied. This unit takes
# several sittings and about {{unit hours}} in all, including {{unit minutes}} for the {{unit exercises}}. You need 06
# (fusion), 07 (autograd functions, and what they keep for the backward pass) and 10 (attention as one such function).
# No GPU is needed.

# %%
import math
import os
from dataclasses import replace

import numpy as np
import torch
import triton
import triton.language as tl

from course_lib import check, figures, hint, progress, trace  # noqa: F401 (hint is yours to call)
from course_lib.handin import earlier
from course_lib.workloads import in_transformers, text
from course_lib.workloads.gpt import GPT, LARGE, TOY

# %% [markdown]
# ## The question
#
# A model of 1.1 billion parameters in bfloat16 has weights of 2.2 GB. It is trained with AdamW, on 4 texts of 4096
# tokens at a time. How many GB of memory does a training step need?

# %% predict="model.guess_memory"
# Write a number of GB before you go on; it earns no points. The answer is in "What does a training step hold?" below.
guess_memory = ...

# %% [markdown]
# ## The model
#
# The model of this unit is a single file, `course_lib/workloads/gpt.py`. Open it. If you know nanoGPT, you know this
# model. It has what today's models have: RMSNorm, rotary positions, heads that share keys and values, and SwiGLU. Every
# operation other than a matrix product with weights stands in a **slot**, so that you can replace it:

# %%
model = GPT(TOY)
for slot, operation in vars(model.ops).items():
    print(f"{slot:10} {operation.__module__}.{operation.__name__}")
with torch.device("meta"):  # shapes without memory
    large = GPT(LARGE)
for name, sized in {"the toy": model, "the large one": large}.items():
    print(f"{name} has {sum(p.numel() for p in sized.parameters()):,} parameters")

# %% [markdown]
# The same file makes both models. The toy trains here, on a CPU. What do the slots have to do with speed? The next cell
# compares two versions of one block of the toy, forward and backward: one has torch's operations in its slots, and the
# other has this course's kernels. Both launch the same products with weights. Guess before you run the cell: what share
# of torch's launches does the version with kernels need?

# %%
figures.model.block()

# %% [markdown]
# Each launch reads its inputs from memory and writes its result there. Most of the bytes that torch moves here are not
# moved for matrix products. They are moved between small operations, which one kernel could do in registers. That was
# the subject of unit 06.
#
# ## Data: a file that nobody reads as a whole
#
# Our text is a list of sums, one on each line. The course makes this text, and it has a property that no book has: we
# know how well it can be predicted.

# %%
print(text.sums(4, seed=3), end="")
path = text.write_tokens("sums.bin", 20_000)  # a token is a character here, two bytes on the disk
print(f"{path.stat().st_size:,} bytes; nobody can do better than a loss of {text.best_loss():.3f}")

# %% [markdown]
# The two digits before each `=` are drawn at random, so no model can have a mean loss below ln 10 = 2.3 for them. All
# other characters follow from those before them, and a good model predicts them with a loss near 0. The mean of both
# kinds, over all characters, is the loss that the cell has printed.
#
# A real text does not fit into memory: 1.4 trillion tokens of two bytes are 2.8 TB. `np.memmap(path, np.uint16, "r")`
# gives an array that lies on the disk. If you index this array, the system reads only the pages that it needs.
#
# A model learns to predict each token from those before it. So the **targets** are the tokens, shifted by one:
#
# | | | | | | | |
# | --- | --- | --- | --- | --- | --- | --- |
# | text | `7` | `+` | `5` | `=` | `1` | `2` |
# | tokens | `7` | `+` | `5` | `=` | `1` | |
# | targets | `+` | `5` | `=` | `1` | `2` | |
#
# ## Exercise: a batch from a memory map
#
# {{exercise model.get_batch}}
#
# Write `get_batch(path, split, batch, context, generator)`. The file holds uint16 tokens. The first nine tenths of
# them, `len(tokens) * 9 // 10`, are the split "train", and the rest is the split "val". A window is `context` tokens in
# a row. Draw the places where the `batch` windows begin with `torch.randint(..., generator=generator)`. Each place must
# have the same chance. Return the tokens and their targets, both of shape (batch, context) and dtype int64.
#
# Full marks require
# * windows that are pieces of the text ({{holds.pieces.plain}}), and targets that are the next tokens
#   ({{holds.shifted.plain}}),
# * splits that share no token, the last target included ({{holds.inside.plain}}),
# * that every place of a split is drawn sooner or later, and none much more often than others
#   ({{holds.everywhere.every}}),
# * that all random numbers come from the generator ({{holds.by_the_generator.plain}}),
# * windows from all parts of a file of 48 MB ({{holds.far.large}}). The verdict also says how many bytes of this file a
#   batch has read. No points depend on this number, because it is counted in the process that runs your code, and a
#   check does not trust what that process says.


# %% exercise="model.get_batch"
def get_batch(path, split: str, batch: int, context: int, generator: torch.Generator):
    """Windows of a file of uint16 tokens, drawn by the generator -> tokens and the next tokens, (batch, context) int64 each"""
    ### BEGIN SOLUTION
    tokens = np.memmap(path, np.uint16, "r")
    cut = len(tokens) * 9 // 10
    own = tokens[:cut] if split == "train" else tokens[cut:]  # a view: nothing is read yet
    starts = torch.randint(len(own) - context, (batch,), generator=generator).numpy()
    rows = torch.from_numpy(own[starts[:, None] + np.arange(context + 1)].astype(np.int64))  # (batch, context + 1)
    return rows[:, :-1], rows[:, 1:]
    ### END SOLUTION


# %% check="model.get_batch"
check("model.get_batch", get_batch)

# %% [markdown]
# ## Optimizers, each by what it adds
#
# What does an optimizer do with a gradient? Each rule of this table adds one idea to the rule above it.
#
# | rule | adds | remembers | a step |
# | --- | --- | --- | --- |
# | SGD | | nothing | p − lr · g |
# | momentum | steps add up | m ← 0.9 m + g | p − lr · m |
# | AdaGrad | a rate for each weight | s ← s + g² | p − lr · g / (√s + ε) |
# | RMSProp | the sum forgets | s ← 0.99 s + 0.01 g² | p − lr · g / (√s + ε) |
# | Adam | both means, corrected at their beginning | m ← 0.9 m + 0.1 g, v ← 0.999 v + 0.001 g² | p − lr · m̂ / (√v̂ + ε) |
#
# ε is 1e-8. AdaGrad's sum only grows, so its steps only shrink. RMSProp and Adam keep running means instead, and a
# running mean forgets. But a running mean that begins at 0 is too small at first. After one step v is 0.001 g², so its
# root is thirty times too small, and m is ten times too small. So the step would be three times too large. Adam
# therefore divides each mean by what a running mean of ones would be by now: m̂ = m / (1 − 0.9ᵗ) and v̂ = v / (1 −
# 0.999ᵗ), where t counts steps from 1. Note that ε is added to √v̂, after v is corrected.
#
# ## Exercise: five optimizers
#
# {{exercise model.update}}
#
# Write `update(rule, p, g, state, lr)` for one weight p with gradient g, both Python numbers, and return the new p.
# `state` is an empty dict before the first step. Keep in it what the rule must remember. Each rule is compared with
# torch's: "sgd" ({{correct.sgd}}), "momentum" ({{correct.momentum}}), "adagrad" ({{correct.adagrad}}), "rmsprop"
# ({{correct.rmsprop}}), "adam" ({{correct.adam}}).


# %% exercise="model.update"
def update(rule: str, p: float, g: float, state: dict, lr: float) -> float:
    """One step of one weight p with gradient g; what the rule must remember is kept in state, empty at first -> the new p"""
    ### BEGIN SOLUTION
    match rule:
        case "sgd":
            return p - lr * g
        case "momentum":
            state["m"] = 0.9 * state.get("m", 0.0) + g
            return p - lr * state["m"]
        case "adagrad":
            state["s"] = state.get("s", 0.0) + g * g
            return p - lr * g / (state["s"] ** 0.5 + 1e-8)
        case "rmsprop":
            state["s"] = 0.99 * state.get("s", 0.0) + 0.01 * g * g
            return p - lr * g / (state["s"] ** 0.5 + 1e-8)
        case "adam":
            t = state["t"] = state.get("t", 0) + 1
            m = state["m"] = 0.9 * state.get("m", 0.0) + 0.1 * g
            v = state["v"] = 0.999 * state.get("v", 0.0) + 0.001 * g * g
            return p - lr * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)) ** 0.5 + 1e-8)
    ### END SOLUTION


# %% check="model.update"
check("model.update", update)

# %% [markdown]
# ## AdamW, fused
#
# **Decay** pulls weights towards 0. If the decay is part of Adam's gradient, g + λ p, Adam divides the decay by √v̂ as
# well, so weights with large gradients hardly decay. AdamW **decouples** it (Loshchilov and Hutter, 2017): p ← p · (1 −
# lr · λ), and then Adam's step.
#
# How fast can a step be? It does some fifteen operations for each parameter, which cost nothing compared to its memory
# traffic (03). It reads p, g, m and v, and writes p, m and v. These are **7 passes over memory**, or 28 bytes for each
# parameter in float32. torch's separate operations move more. How many bytes would you guess?

# %%
adamw_bytes = {"one launch": 28, "torch, operation by operation": 100}  # the second: foreach and fused turned off
for way, size in adamw_bytes.items():
    print(f"{way}: {1e3 * size * 1.1e9 / 4.8e12:.1f} ms for 1.1 billion parameters at 4.8 TB/s")

# %% [markdown]
# In **mixed precision** the model computes with bfloat16 weights. The neighbours of 1 in bfloat16 are 1 / 128 above and
# 1 / 256 below. A step of 3e-4, added to a weight of 1, disappears (02). So the optimizer keeps a float32 **master** p,
# and the model gets a rounded copy of it, `low`. In a prototype of this unit the mean loss at the end of 200 steps was
# 1.93 in float32, 1.93 in bfloat16 with a master, and 2.31 in bfloat16 without one. The gradient comes in bfloat16,
# too. How many bytes does a step move now for each parameter? It moves 2 bytes for g, 24 for p, m and v, and 2 for
# `low`. That makes 28 again.
#
# ## Exercise: AdamW in one launch
#
# {{exercise model.adamw_step}}
#
# Write `adamw_step(p, g, m, v, low, lr, beta1, beta2, eps, weight_decay, step)`. All tensors are flat and have n
# elements. p, m and v are float32, and your kernel changes them in place. g is float32 or half precision. `low` is
# None, or the model's weights in half precision, into which your kernel writes the rounded p. The first step is step 1.
# First p decays, then m and v take in g, and at last p takes the step, which is computed from the new m and v.
#
# Full marks require
# * right results for any n ({{correct.ragged}}), and for the first steps ({{correct.first}}),
# * decay that does not enter m and v ({{correct.decay}}), and ε added to √v̂, the root of the corrected v
#   ({{correct.small}}),
# * a float32 master ({{correct.half}}),
# * one launch ({{launches.performance}}), 28 bytes for each parameter ({{traffic.performance}}), and no other memory
#   ({{buffers_below.performance}}).


# %% exercise="model.adamw_step"
### BEGIN SOLUTION
@triton.jit
def adamw_kernel(
    p_ptr, g_ptr, m_ptr, v_ptr, low_ptr, n, lr, beta1, beta2, eps, decay, c1, c2, LOW: tl.constexpr, BLOCK: tl.constexpr
):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(
        0, BLOCK
    )  # a large model has more parameters than int32 has numbers
    inside = i < n
    p = tl.load(p_ptr + i, mask=inside, other=0)
    g = tl.load(g_ptr + i, mask=inside, other=0).to(tl.float32)
    m = tl.load(m_ptr + i, mask=inside, other=0)
    v = tl.load(v_ptr + i, mask=inside, other=0)
    p *= 1 - lr * decay
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g * g
    p -= lr * (m / c1) / (tl.sqrt(v / c2) + eps)
    tl.store(p_ptr + i, p, mask=inside)
    tl.store(m_ptr + i, m, mask=inside)
    tl.store(v_ptr + i, v, mask=inside)
    if LOW:
        tl.store(low_ptr + i, p.to(low_ptr.dtype.element_ty), mask=inside)


### END SOLUTION
def adamw_step(p, g, m, v, low, lr, beta1, beta2, eps, weight_decay, step):
    """p, m, v (n,) float32 and g (n,); low (n,), the model's rounded weights, or None. All but g are changed in place"""
    ### BEGIN SOLUTION
    n = p.numel()
    adamw_kernel[(triton.cdiv(n, 4096),)](
        p, g, m, v, low, n, lr, beta1, beta2, eps, weight_decay, 1 - beta1**step, 1 - beta2**step, LOW=low is not None, BLOCK=4096
    )  # fmt: skip
    ### END SOLUTION


# %% check="model.adamw_step"
check("model.adamw_step", adamw_step)

# %% [markdown]
# On an H200, with 1.04 billion parameters, such a kernel moved 4.10 TB/s. torch's fused AdamW moved 3.43 TB/s, and its foreach
# version 1.26 TB/s (a prototype of this unit, measured on 2026-11-22).
#
# ## A batch that does not fit
#
# The loss of a batch is a mean over its tokens, and a mean can be taken in parts. So a batch is cut into
# **micro-batches**. After one of them has run forward and backward, its graph is freed, and there is room for the next
# one. `backward()` *adds* to `p.grad`. By what must you multiply the loss of each micro-batch, so that the sum is the
# gradient of the whole batch?
#
# ## Exercise: accumulate
#
# {{exercise model.accumulate}}
#
# Write `accumulate(model, batches)`. `batches` is a list of micro-batches, and each micro-batch is a pair (tokens,
# targets). Targets of −100 are padding, and `model(tokens, targets)` returns the mean loss over the other targets.
# Leave in `p.grad` the gradient of the mean loss over **all** targets of all micro-batches, without the padding, and
# return this mean as a number.
#
# Full marks require
# * the loss and the gradients of one large batch ({{holds.same_loss.plain}}), also where micro-batches have different numbers of
#   targets ({{holds.same_loss.padded}}),
# * gradients that do not depend on what `p.grad` held before ({{holds.begins_anew.plain}}),
# * that only one micro-batch's graph is alive at a time ({{seen.one_at_a_time.memory}}).


# %% exercise="model.accumulate"
def accumulate(model, batches) -> float:
    """Gradients of the mean loss over all targets but -100, one micro-batch at a time, in p.grad -> that loss"""
    ### BEGIN SOLUTION
    counts = [int((targets != -100).sum()) for _, targets in batches]
    model.zero_grad()
    total = 0.0
    for (tokens, targets), count in zip(batches, counts, strict=True):
        loss = model(tokens, targets) * (count / sum(counts))
        loss.backward()  # and the micro-batch's graph is gone
        total += loss.item()
    return total
    ### END SOLUTION


# %% check="model.accumulate"
check("model.accumulate", accumulate)

# %% [markdown]
# Suppose that you had summed the losses of the micro-batches, and not averaged them. Would you have noticed it in the
# losses? Adam divides m by √v, so a factor in all gradients cancels. In a run of 30 steps the losses differed in the
# sixth digit. When the gradients were clipped as well, the losses differed in the second digit.
#
# ## Exercise: clip
#
# {{exercise model.clip}}
#
# One bad batch can throw a model far away. So gradients are scaled down when their **common** norm is above a limit.
# The common norm is that of all gradients as one long vector, and scaling keeps the direction of this vector. Write
# `clip(gradients, largest)`, which changes the tensors in place and returns the norm that they had before.
#
# Full marks require one norm of all gradients ({{holds.same_norm.plain}}), gradients scaled to the limit
# ({{holds.same_gradients.plain}}), and small ones left as they are ({{holds.same_gradients.below}}).


# %% exercise="model.clip"
def clip(gradients: list[torch.Tensor], largest: float) -> float:
    """Scales all gradients in place so that their common norm is at most `largest` -> the norm before"""
    ### BEGIN SOLUTION
    norm = float(sum(g.square().sum() for g in gradients)) ** 0.5
    for g in gradients:
        g.mul_(min(1.0, largest / (norm + 1e-6)))
    return norm
    ### END SOLUTION


# %% check="model.clip"
check("model.clip", clip)

# %% [markdown]
# ## Exercise: the rate of each step
#
# {{exercise model.learning_rate}}
#
# At first m and v are means of only a few gradients, so a step may be far too large. This is why the learning rate
# begins near 0 and rises. At the end the rate falls, and with small steps the weights settle.

# %%
figures.model.schedule()

# %% [markdown]
# Write `learning_rate(step, steps, peak, warm_up)`. Steps count from 0. Through the first `warm_up` steps the rate is a straight
# line: step 0 has peak / warm_up, since a rate of 0 would waste a batch, and step warm_up − 1 has the peak
# ({{correct.warm-up}}). Then half a cosine leads from the peak at step `warm_up` to a tenth of the peak at step `steps`
# ({{correct.cosine}}). From there on the rate stays at this tenth ({{correct.after}}).


# %% exercise="model.learning_rate"
def learning_rate(step: int, steps: int, peak: float, warm_up: int) -> float:
    """The rate of step 0, 1, ...: a line up to the peak, half a cosine down to a tenth of it, and no further"""
    ### BEGIN SOLUTION
    if step < warm_up:
        return peak * (step + 1) / warm_up
    share = min(1.0, (step - warm_up) / (steps - warm_up))
    return peak * (0.1 + 0.45 * (1 + math.cos(math.pi * share)))
    ### END SOLUTION


# %% check="model.learning_rate"
check("model.learning_rate", learning_rate)

# %% [markdown]
# ## What does a training step hold?
#
# A training step holds four things in memory: the **weights** and the **gradients**, both in bfloat16; what the
# **optimizer** remembers, which is the master, m and v in float32; and what the **forward pass keeps** for the backward
# pass (07). The picture shows how many bytes are in memory after each operation in one step of the toy. The toy is in
# float32 throughout. When will memory be fullest?

# %%
figures.model.memory_of_a_step()

# %% [markdown]
# The first three depend on the number of parameters alone. The fourth grows with each token, and it is the sum of what
# each operation keeps for its backward pass. With the kernels of this course in the slots, one block keeps for each
# token:
#
# | kept by | what | numbers | bytes each |
# | --- | --- | --- | --- |
# | norm, twice | x | 2 · width | 2 |
# | | rstd | 2 | 4 |
# | the matrices qkv and up | the norms' results | 2 · width | 2 |
# | attention | q and k, turned | (heads + kv_heads) · D | 2 |
# | | v: a view, which keeps **all** of qkv's result alive | (heads + 2 kv_heads) · D | 2 |
# | | o, which the matrix out reads, too | width | 2 |
# | | lse | heads | 4 |
# | SwiGLU | gate and up | 2 · hidden | 2 |
# | the matrix down | their product | hidden | 2 |
#
# Outside the blocks, the step also keeps for each token the x of the last norm and its result (width numbers each, of 2
# bytes), its rstd (4 bytes), the logits (vocab numbers of 2 bytes), their lse (4 bytes), and the token and its target
# (8 bytes each). In addition it keeps two tables for the angles, cos and sin. Each table has n · D / 2 float32 numbers,
# whatever the size of the batch is.
#
# ## Exercise: predict the memory of a step
#
# {{exercise model.training_memory}}
#
# Write `training_memory(...)`, which returns three numbers: the number of parameters ({{holds.parameters.plain}}), the
# bytes of weights, gradients and optimizer in mixed precision ({{holds.state.plain}}), and the bytes that the forward
# pass keeps for `batch` texts of n tokens ({{holds.activations.plain}}). D is width / heads. You find the shapes of all
# weights in the classes `Block` and `GPT` of the model's file. The check counts these numbers in the model, and yours
# must agree to the byte.


# %% exercise="model.training_memory"
def training_memory(vocab, layers, width, heads, kv_heads, hidden, batch, n):
    """A training step in bfloat16 -> (parameters, bytes of weights, gradients and optimizer, bytes kept for backward)"""
    ### BEGIN SOLUTION
    D, tokens = width // heads, batch * n
    qkv = (heads + 2 * kv_heads) * D
    block = width * qkv + width * width + 2 * width * hidden + hidden * width + 2 * width
    parameters = 2 * vocab * width + layers * block + width
    state = parameters * (2 + 2 + 4 + 4 + 4)  # weight, gradient; master, m, v
    numbers = 2 * width + 2 * width  # x of both norms, and their results, which qkv and up read
    numbers += (heads + kv_heads) * D + qkv  # q and k turned; v is a view of all of qkv
    numbers += width  # o, which out reads, too
    numbers += 2 * hidden + hidden  # gate and up; their product, which down reads
    per_token = layers * (2 * numbers + 4 * (2 + heads))  # bfloat16; two rstd and the lse in float32
    per_token += 2 * (2 * width + vocab) + 4 * 2 + 8 * 2  # last norm, head, logits; rstd, lse; token, target
    return parameters, state, tokens * per_token + 4 * n * D  # and the tables of angles
    ### END SOLUTION


# %% check="model.training_memory"
check("model.training_memory", training_memory)

# %% [markdown]
# Now the question from the beginning. What did you guess?

# %%
figures.model.explore_memory()

# %% [markdown]
# (The bars are computed by the formula of the exercise, and counting confirms it on small models. A GPU's allocator
# rounds up, and each operation needs some more memory while it works.) If you make the batch larger, which part grows?
# If you make the model wider, which part grows now?
#
# ## Exercise: what a run costs
#
# {{exercise model.run_cost}}
#
# For each token, a weight of a matrix takes part in one multiplication and one addition in the forward pass, and in
# twice as many in the backward pass. That makes **6 N D** FLOPs, for N weights and D tokens (03). What does this
# formula miss? First, N must count only the matrices that multiply. The embedding is looked up, and multiplies nothing.
# Second, attention multiplies activations with activations, and 6 N D does not count these products. There are two in
# the forward pass, q kᵀ and p v, and four in the backward pass, each for n (n + 1) / 2 pairs of a query and a key in
# each head of q.
#
# **MFU** is the share of a GPU's FLOP/s that these FLOPs use. What does MFU leave out? It leaves out whatever a kernel
# computes a second time: FlashAttention's backward pass computes the scores again, and gets no credit for this. It also
# leaves out norms and the optimizer, which do hardly any FLOPs and yet take time.
#
# Write `run_cost(...)`, which returns three numbers: the FLOPs of one training step on `batch` texts of n tokens
# ({{holds.flops.plain}}), its seconds on a GPU of `flops_per_second` at this `mfu` ({{holds.seconds.plain}}), and the
# dollars that a run over `tokens` tokens costs if an hour of the GPU costs `dollars` ({{holds.dollars.plain}}).


# %% exercise="model.run_cost"
def run_cost(vocab, layers, width, heads, kv_heads, hidden, batch, n, tokens, flops_per_second, mfu, dollars):
    """dollars: for an hour of the GPU -> (FLOPs of a training step, its seconds, dollars for a run over `tokens` tokens)"""
    ### BEGIN SOLUTION
    D = width // heads
    matrices = vocab * width + layers * (width * (heads + 2 * kv_heads) * D + width * width + 3 * width * hidden)
    flops = 6 * matrices * batch * n + 12 * layers * width * batch * n * (n + 1) // 2
    seconds = flops / (flops_per_second * mfu)
    return flops, seconds, tokens / (batch * n) * seconds / 3600 * dollars
    ### END SOLUTION


# %% check="model.run_cost"
check("model.run_cost", run_cost)

# %% [markdown]
# ## A run that stops
#
# Every long run stops: a GPU fails, or your time on it ends. What does the next step depend on? Not on the weights
# alone. In prototypes of this unit, the ten losses after a stop differed from those of a run without a stop: by 0.03 if
# the moments were lost, by 0.05 if the schedule began anew, by 0.11 if the loader began anew, and by 0.016 if random
# numbers were drawn from another state. None of these runs failed, so nobody would have noticed.
#
# ## Exercise: save and load
#
# {{exercise model.checkpoint}}
#
# Write `Checkpoint.save(path, run)` and `Checkpoint.load(path, run)`. A run has a `model`, an `optimizer` and a
# `loader`, each with `state_dict()` and `load_state_dict(...)`. It also has a number, `step`. Its random numbers come
# from two generators: dropout draws from torch's global generator, and `run.generator`, a `torch.Generator`, decides
# which targets are left out. `load` gets a different run, which was begun with another seed and has already trained. It
# must turn this run into the one that was saved.
#
# Full marks require
# * the step ({{holds.same_step.plain}}),
# * the first loss after loading, equal bit for bit ({{holds.first_loss.plain}}), and all later ones
#   ({{holds.later_losses.plain}}),
# * that the saved run itself goes on as if it had not been saved ({{holds.undisturbed.plain}}),
# * that the file stays whole, even if a later save fails half way ({{holds.stays_whole.plain}}). `os.replace` replaces
#   a file by another in a single step.


# %% exercise="model.checkpoint"
class Checkpoint:
    @staticmethod
    def save(path, run):
        """Writes everything that the next step depends on to a file"""
        ### BEGIN SOLUTION
        parts = {"model": run.model, "optimizer": run.optimizer, "loader": run.loader}
        state = {name: part.state_dict() for name, part in parts.items()}
        state |= {"step": run.step, "global": torch.get_rng_state(), "own": run.generator.get_state()}
        torch.save(state, path + ".new")
        os.replace(path + ".new", path)  # as a whole, or not at all
        ### END SOLUTION

    @staticmethod
    def load(path, run):
        """Puts all of this into a run that may have begun differently"""
        ### BEGIN SOLUTION
        state = torch.load(path, weights_only=True)
        run.model.load_state_dict(state["model"])
        run.optimizer.load_state_dict(state["optimizer"])
        run.loader.load_state_dict(state["loader"])
        run.step = state["step"]
        run.generator.set_state(state["own"])
        torch.set_rng_state(state["global"])
        ### END SOLUTION


# %% check="model.checkpoint"
check("model.checkpoint", Checkpoint)

# %% [markdown]
# ## Kernels in the model
#
# Autograd does not see a launch: tensors go in, new tensors come out, and no history connects them. A raw launch in the
# middle of a model cuts the model in two. The layers before the cut get no gradient, and yet the loss falls, because
# the layers after the cut go on learning. Two such mistakes have happened in public projects: query and key projections
# in front of a raw launch never learned (LongLive, issue 61), and a norm's backward returned None for its weight
# (Unsloth, issue 4533).
#
# So each kernel needs a `torch.autograd.Function` around it (07), which saves what the backward kernel needs.
#
# ## Exercise: swap in
#
# {{exercise model.swap_in}}
#
# Write `swap_in(model, kernels)`, and one autograd function for each of the slots `norm`, `attention`, `swiglu` and
# `loss`. `swap_in` returns nothing. It puts new slots into the model, with `model.ops = replace(model.ops, norm=...,
# ...)`. `kernels` has eight functions, each of which launches a kernel:
#
# | forward | gives | backward | gives |
# | --- | --- | --- | --- |
# | `norm(x, weight)` | out, rstd | `norm_backward(dy, x, weight, rstd)` | dx, dweight |
# | `attention(q, k, v)` | o, lse | `attention_backward(do, q, k, v, o, lse)` | dq, dk, dv |
# | `swiglu(gate, up)` | out | `swiglu_backward(dy, gate, up)` | dgate, dup |
# | `cross_entropy(logits, targets)` | losses, lse, one a row | `cross_entropy_backward(dlosses, logits, targets, lse)` | dlogits |
#
# `cross_entropy` returns one loss for each row of logits, and the slot `loss` must give their mean. No target is −100
# here. In the check these kernels are written in torch, so that a model trains in a second. They count how often they
# are launched, and like real launches they leave no history. On a GPU you can replace them one by one by kernels of
# your own, with `Kernels(norm=..., norm_backward=...)` from `course_lib/workloads/launched.py`.
#
# A model that launches no kernel earns nothing. In some cases the kernels' results are torch's times a factor, which
# shows whether a model still computes with torch. Full marks require
# * torch's gradient for every parameter ({{holds.every_parameter.plain}}), and ten losses that are torch's
#   ({{holds.same_losses.steps}}),
# * that every slot uses its kernels, and launches each of them once ({{seen.launches.plain}}),
# * that only what backward needs is kept ({{seen.keeps_little.plain}}).


# %% exercise="model.swap_in"
### BEGIN SOLUTION
class Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, kernels, x, weight):
        out, rstd = kernels.norm(x, weight)
        ctx.kernels = kernels
        ctx.save_for_backward(x, weight, rstd)
        return out

    @staticmethod
    def backward(ctx, dy):
        dx, dweight = ctx.kernels.norm_backward(dy, *ctx.saved_tensors)
        return None, dx, dweight


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, kernels, q, k, v):
        o, lse = kernels.attention(q, k, v)
        ctx.kernels = kernels
        ctx.save_for_backward(q, k, v, o, lse)
        return o

    @staticmethod
    def backward(ctx, do):
        return None, *ctx.kernels.attention_backward(do, *ctx.saved_tensors)


class SwiGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, kernels, gate, up):
        ctx.kernels = kernels
        ctx.save_for_backward(gate, up)
        return kernels.swiglu(gate, up)

    @staticmethod
    def backward(ctx, dy):
        return None, *ctx.kernels.swiglu_backward(dy, *ctx.saved_tensors)


class Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, kernels, logits, targets):
        losses, lse = kernels.cross_entropy(logits, targets)
        ctx.kernels = kernels
        ctx.save_for_backward(logits, targets, lse)
        return losses.mean()

    @staticmethod
    def backward(ctx, dloss):
        logits, targets, lse = ctx.saved_tensors
        dlosses = (dloss / len(targets)).expand(len(targets))
        return None, ctx.kernels.cross_entropy_backward(dlosses, logits, targets, lse), None


### END SOLUTION
def swap_in(model, kernels):
    """Puts the kernels into the slots norm, attention, swiglu and loss of model.ops, each with a backward pass"""
    ### BEGIN SOLUTION
    model.ops = replace(
        model.ops,
        norm=lambda x, weight: Norm.apply(kernels, x, weight),
        attention=lambda q, k, v: Attention.apply(kernels, q, k, v),
        swiglu=lambda gate, up: SwiGLU.apply(kernels, gate, up),
        loss=lambda logits, targets: Loss.apply(kernels, logits, targets),
    )
    ### END SOLUTION


# %% check="model.swap_in"
check("model.swap_in", swap_in)

# %% [markdown]
# ## Training, twice
#
# Here is a training loop that calls everything that you have written:
#
# ```python
# for step in range(steps):
#     tokens, targets = get_batch(path, "train", 8, 48, generator)
#     loss = accumulate(model, [(tokens, targets)])
#     clip([p.grad for p in model.parameters()], 1.0)
#     lr = learning_rate(step, steps, 1e-2, 20)
#     for p in model.parameters():
#         adamw_step(p.view(-1), p.grad.view(-1), m[p].view(-1), v[p].view(-1), None, lr, 0.9, 0.95, 1e-8, 0.1 * (p.dim() > 1), step + 1)
# ```
#
# The next cell trains the toy twice from the same seed: once with torch's operations, and once with kernels in your
# autograd functions (or in the course's, if yours are not written yet). The cell takes some seconds. How far apart will
# the two losses be after 120 steps?

# %%
figures.model.losses(swap_in)

# %% [markdown]
# Both runs see the same batches, but round differently in the last bit. The lower plot shows how such differences grow:
# each step starts from weights that differ a little more. That is why the check compares gradients, and the losses of
# only a few steps.
#
# These kernels were written in torch. Your own kernels in Triton fit into the same slots. The next cell looks into your
# notebooks of units 06, 07, 09 and 10, which should lie next to this one. If they are solved, it takes RMSNorm, the
# cross-entropy and attention from there, with their backward passes. Without a GPU these kernels are traced, which
# takes some seconds for each step.
#
# Your FlashAttention knows nothing of heads that share k and v, and the toy has two heads of q for each head of k.
# Which kernels must change? The kernels for o and dq need no change: each of their programs has its own queries, and k
# is handed over as a view that shows one head to its whole group. Such a view takes no memory. But dk and dv belong to
# keys, and several heads of q read these keys. So dk and dv come from an exercise of part two, `grouped_backward`.

# %%
print(figures.model.step_by_step(swap_in, *earlier.kernels()))

# %% [markdown]
# ## The large one
#
# The same file makes a model of 1.1 billion parameters, which was trained on a GPU, on 4 texts of 4096 tokens at a
# time. Your `training_memory` says what the peak of memory should be. Before you run the next cell, order these three
# by speed: torch's operations with FlashAttention-2, torch's operations with cuDNN's attention, and the course's
# kernels. `torch.compile` fuses the operations between the products without any help: where will it stand among these
# three?

# %%
figures.model.large_steps()

# %% [markdown]
# The two rows of torch's operations differ in attention alone. The course's attention is slower than cuDNN's, and the
# course's kernels win because they move fewer bytes in norms, rotary positions, SwiGLU and the loss. `torch.compile`
# fuses these operations as well, and keeps cuDNN's attention. The fourth row has the course's kernels and an attention
# in Gluon, Triton's language for programming one kind of GPU closely (unit 12). There copies and products run at the
# same time. It is faster than `torch.compile`. In the last row `torch.compile` has the course's attention instead of
# cuDNN's. (`benchmarks/results/model.md` has all numbers.)
#
# The peak lies more than a GB below what `training_memory` says. Which row of the table in "What does a training step
# hold?" is different here? It is the row of v. In this run the slot copies v before it is kept, so the rest of qkv's
# result, q and k, can be freed: 22 blocks · 16,384 tokens · 2,560 numbers of 2 bytes are 1.8 GB.

# %% [markdown]
# # Part two: writing text
#
# A trained model writes one token at a time. This part can wait for another day, because it needs nothing that you
# wrote in part one.
#
# ## Where does a token stand?
#
# Attention is a sum over keys, and a sum has no order. If you shuffle the keys together with their values, every output
# stays the same, apart from rounding. So a model must be told where a token stands. Three ways are in use, and they act
# at three different places: before the projections, after two of the projections, or in the scores.
#
# Which of q, k and v does each way change? Make a guess now. You will answer this question further down, after you have
# written all three.

# %% [markdown]
# ## Exercise: waves
#
# {{exercise model.sinusoidal}}
#
# The transformer of 2017 added a wave to each token's embedding. For the token at position n, column 2 i of the wave holds
# sin(n / 10000^(2 i / D)), and column 2 i + 1 holds the cosine of the same angle. From one token to the next, the angle of
# the first pair of columns grows by one radian, and that of the last pair by about a ten-thousandth of one.
#
# Full marks require right numbers for any N and any even D ({{correct.sizes}}).


# %% exercise="model.sinusoidal"
def sinusoidal(positions: torch.Tensor, D: int) -> torch.Tensor:
    """positions n (N,) -> (N, D) float32: sin(n / 10000^(2 i / D)) in column 2 i, cos of the same in column 2 i + 1."""
    ### BEGIN SOLUTION
    angle = positions[:, None] / 10000 ** (torch.arange(0, D, 2) / D)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)
    ### END SOLUTION


# %% check="model.sinusoidal"
check("model.sinusoidal", sinusoidal)

# %% [markdown]
# ## Exercise: rotary
#
# {{exercise model.rotary}}
#
# RoPE turns q and k instead. Number i of the first half of a row and number i of the second half make a pair (a, b), for
# i = 0, ..., D / 2 − 1. In row n this pair is turned by the angle positions[n] / base^(2 i / D):
#
# > (a, b) → (a cos − b sin, b cos + a sin)
#
# The product of a turned q and a turned k depends on the difference of the two angles, and therefore on how far apart
# the two tokens are. (Some papers pair neighbours instead. A model that was trained with one pairing writes noise with
# the other, and the shapes do not show which one it needs.)
#
# The positions are an argument, because a row's number is not its position. While a text is written, each call has a
# single row, and this row may be token number 700 of the text. Full marks require
# * right results for any positions ({{correct.positions}}), for any even D and any base ({{correct.ragged}}), and for
#   half precision ({{correct.half}}),
# * that x is read once and the result is written once ({{traffic.performance}}), with dense loads
#   ({{coalesced.load.performance}}) and in one launch ({{launches.performance}}).
#
# The result is a new tensor. Why should you not turn x in place, to save the memory? The last exercise of the unit has
# the answer.


# %% exercise="model.rotary"
@triton.jit
def rotary_kernel(
    x_ptr,
    positions_ptr,
    out_ptr,
    x_strides,
    H,
    N,
    log2_base,
    D: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Turn BLOCK_N rows of one head of one text."""
    ### BEGIN SOLUTION
    j = tl.program_id(1).to(tl.int64)
    batch, head = j // H, j % H
    rows, pairs = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK)
    inside = (rows < N)[:, None] & (pairs < D // 2)[None, :]
    position = tl.load(positions_ptr + rows, mask=rows < N, other=0).to(tl.float32)
    angle = position[:, None] * tl.exp2(pairs.to(tl.float32) * (-2.0 / D) * log2_base)[None, :]
    at = (
        x_ptr
        + batch * x_strides[0]
        + head * x_strides[1]
        + rows[:, None] * x_strides[2]
        + pairs[None, :] * x_strides[3]
    )
    a = tl.load(at, mask=inside, other=0).to(tl.float32)
    b = tl.load(at + D // 2 * x_strides[3], mask=inside, other=0).to(tl.float32)
    out = out_ptr + (j * N + rows)[:, None] * D + pairs[None, :]
    tl.store(out, a * tl.cos(angle) - b * tl.sin(angle), mask=inside)
    tl.store(out + D // 2, b * tl.cos(angle) + a * tl.sin(angle), mask=inside)
    ### END SOLUTION


def rotary(x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0) -> torch.Tensor:
    """x (B, H, N, D), any strides, positions (N,) int32 -> a new (B, H, N, D), contiguous."""
    ### BEGIN SOLUTION
    B, H, N, D = x.shape
    out = torch.empty(B, H, N, D, dtype=x.dtype, device=x.device)
    BLOCK = triton.next_power_of_2(D // 2)
    BLOCK_N = min(32, triton.next_power_of_2(N))
    rotary_kernel[(triton.cdiv(N, BLOCK_N), B * H)](
        x, positions, out, x.stride(), H, N, math.log2(base), D=D, BLOCK=BLOCK, BLOCK_N=BLOCK_N
    )
    return out
    ### END SOLUTION


# %% check="model.rotary"
check("model.rotary", rotary)

# %% [markdown]
# ## Exercise: ALiBi
#
# {{exercise model.alibi}}
#
# ALiBi leaves q, k and v alone. It subtracts a number from each score, in proportion to how far the key lies behind the
# query: head h of H heads subtracts 2^(−8 (h + 1) / H) for each token of distance. This factor is the head's slope.
# Heads with a steep slope look at tokens nearby, and the others look far back.
#
# The queries are the last nq of nk positions. A causal mask hides the keys that lie ahead of a query, so here you
# subtract 0 from their scores. You earn nothing unless the distances and slopes are right for as many queries as keys.
# Full marks also require right results for fewer queries than keys ({{correct.decode}}), and for any number of heads
# ({{correct.heads}}).


# %% exercise="model.alibi"
def alibi(scores: torch.Tensor) -> torch.Tensor:
    """scores (heads, nq, nk) -> the same with their biases; the queries are the last nq of nk positions."""
    ### BEGIN SOLUTION
    heads, nq, nk = scores.shape
    slopes = 2 ** (-8 * torch.arange(1, heads + 1) / heads)
    behind = torch.arange(nk - nq, nk)[:, None] - torch.arange(nk)
    return scores - slopes[:, None, None] * behind.clamp(min=0)
    ### END SOLUTION


# %% check="model.alibi"
check("model.alibi", alibi)

# %% [markdown]
# ## Exercise: what each touches
#
# {{exercise model.touches}}
#
# Now answer the question about which you made a guess ({{truths.plain}}). Write True or False. The same word on all
# lines earns nothing. The fourth question about each way moves a whole text: its first token stands at position 100
# instead of 0, and the distances within the text stay the same.

# %% exercise="model.touches"
touches = {
    "sinusoidal changes q": ...,
    "sinusoidal changes k": ...,
    "sinusoidal changes v": ...,
    "sinusoidal: a text that begins at 100 has the same scores": ...,
    "rotary changes q": ...,
    "rotary changes k": ...,
    "rotary changes v": ...,
    "rotary: a text that begins at 100 has the same scores": ...,
    "ALiBi changes q": ...,
    "ALiBi changes k": ...,
    "ALiBi changes v": ...,
    "ALiBi: a text that begins at 100 has the same scores": ...,
}
### BEGIN SOLUTION
touches = {
    "sinusoidal changes q": True,
    "sinusoidal changes k": True,
    "sinusoidal changes v": True,
    "sinusoidal: a text that begins at 100 has the same scores": False,
    "rotary changes q": True,
    "rotary changes k": True,
    "rotary changes v": False,
    "rotary: a text that begins at 100 has the same scores": True,
    "ALiBi changes q": False,
    "ALiBi changes k": False,
    "ALiBi changes v": False,
    "ALiBi: a text that begins at 100 has the same scores": True,
}
### END SOLUTION

# %% check="model.touches"
check("model.touches", touches)

# %% [markdown]
# ## The function that every layer calls
#
# In the library `transformers` you can replace a model's attention by a function of your own. The same is true of
# nanochat and others. Every layer calls this function: for prompts, for pieces of prompts, and for single tokens, with
# two kinds of caches. The picture shows six such calls. The first of them is easy: a prompt of 10 tokens has ten
# queries and ten keys, and row i sees keys 0 to i.
#
# Before you move the sliders, answer a question. In the second call, six more tokens come after these ten. How many
# keys does the first of the six see?

# %%
figures.model.explore_which_rows()

# %% [markdown]
# ## Exercise: which rows see what
#
# {{exercise model.which_rows}}
#
# Calls 1 to 3 and 6 use a cache that grows, so the last key is that of the last query. Calls 4 and 5 use a cache of 24
# places, which is allocated once. Its empty places are handed over as keys, just like the others. For the query on each
# line, write how many keys it sees ({{numbers.plain}}).

# %% exercise="model.which_rows"
which_rows = {
    "a prompt of 10: the first query": ...,
    "a prompt of 10: the last query": ...,
    "a second piece of 6: the first query": ...,
    "a second piece of 6: the last query": ...,
    "one token, 17th: the last query": ...,
    "a prompt of 10 in 24 places: the first query": ...,
    "a prompt of 10 in 24 places: the last query": ...,
    "one token, 17th, in 24 places: the last query": ...,
    "a window of 4, one token, 17th: the last query": ...,
}
### BEGIN SOLUTION
which_rows = {
    "a prompt of 10: the first query": 1,
    "a prompt of 10: the last query": 10,
    "a second piece of 6: the first query": 11,  # the ten of the first piece, and itself
    "a second piece of 6: the last query": 16,
    "one token, 17th: the last query": 17,
    "a prompt of 10 in 24 places: the first query": 1,
    "a prompt of 10 in 24 places: the last query": 10,
    "one token, 17th, in 24 places: the last query": 17,
    "a window of 4, one token, 17th: the last query": 4,
}
### END SOLUTION

# %% check="model.which_rows"
check("model.which_rows", which_rows)

# %% [markdown]
# These calls need two alignments of one mask. If the queries are the **last** positions, row i sees keys up to i + Nk −
# Nq: the mask's diagonal ends in the **bottom right** corner. This is what FlashAttention means, and what units 08 to
# 10 meant. If the queries are the **first** positions, in front of empty places, row i sees keys up to i: the diagonal
# begins at the **top left**. This is what torch's `is_causal=True` means. The shapes are the same in both cases. So the
# caller must say which alignment is meant. A function that guesses is right only until a text comes in two pieces.

# %% [markdown]
# ## Exercise: the function that a layer calls
#
# {{exercise model.attention_for}}
#
# The kernel is that of unit 09 once more, but this time a model calls it. Four things are new:
# * **Layouts.** q comes as a view of (B, N, H, D), while k and v from a cache are contiguous. The result must have the
#   shape (B, Nq, Hq, D), not (B, Hq, Nq, D).
# * **Shared heads.** Head h of q reads head h // (Hq / Hkv) of k and v. k and v are not repeated in memory for you, and
#   you should not repeat them either.
# * **Masks.** If `attention_mask` is given, it alone says what is seen: padding, causality and windows are all in it.
#   Real libraries have silently dropped it. Then a text that is padded on the left continues with other words than the
#   same text without padding.
# * **The scale** is the model's. Most models pass 1 / √D. Some pass another number, and if this number is ignored,
#   their texts still look fine for a while.
#
# Full marks require
# * right results for shared heads ({{correct.grouped}}), for queries that are the last positions ({{correct.causal}})
#   or the first ({{correct.top left}}), for a window ({{correct.window}}), for a mask, with 0 for a query that sees
#   nothing ({{correct.mask}}), for the model's scale ({{correct.scale}}), and for half precision ({{correct.half}}),
# * no copy of k or v ({{buffers_below.performance}}), half of the products if attention is causal
#   ({{dot_flops.performance}}), and one launch ({{launches.performance}}).
#
# This function has no backward pass, so in training a layer must call an autograd function instead. What happens if it
# does not? "What is wrong here?" below asks this question again.


# %% exercise="model.attention_for"
@triton.jit
def layer_kernel(
    q_ptr, k_ptr, v_ptr, mask_ptr, o_ptr, q_strides, k_strides, v_strides, mask_strides, o_strides, Hq, Nq, Nk, scale, offset, window,
    GROUP: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Attention of BLOCK_M queries of one head of one text. Strides are those of (B, H, N, D)."""
    ### BEGIN SOLUTION
    j = tl.program_id(1)
    batch, head = (j // Hq).to(tl.int64), (j % Hq).to(tl.int64)
    rows, dims = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, D)
    q_at = q_ptr + batch * q_strides[0] + head * q_strides[1]
    k_at = k_ptr + batch * k_strides[0] + head // GROUP * k_strides[1]
    v_at = v_ptr + batch * v_strides[0] + head // GROUP * v_strides[1]
    q = tl.load(q_at + rows[:, None] * q_strides[2] + dims[None, :] * q_strides[3], mask=(rows < Nq)[:, None], other=0)
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    start, stop = 0, Nk
    if CAUSAL:  # keys that some row of this tile sees
        first = tl.program_id(0) * BLOCK_M + offset
        start = tl.maximum(first - window + 1, 0) // BLOCK_N * BLOCK_N
        stop = tl.minimum(first + BLOCK_M, Nk)
    for i in range(start, stop, BLOCK_N):
        keys = i + tl.arange(0, BLOCK_N)
        there = keys < Nk
        k = tl.load(k_at + keys[:, None] * k_strides[2] + dims[None, :] * k_strides[3], mask=there[:, None], other=0)
        v = tl.load(v_at + keys[:, None] * v_strides[2] + dims[None, :] * v_strides[3], mask=there[:, None], other=0)
        sees = there[None, :] & (rows < Nq)[:, None]
        if CAUSAL:
            sees &= (keys[None, :] <= rows[:, None] + offset) & (keys[None, :] > rows[:, None] + offset - window)
        if MASKED:
            mask_at = (
                mask_ptr + batch * mask_strides[0] + rows[:, None] * mask_strides[2] + keys[None, :] * mask_strides[3]
            )
            sees &= tl.load(mask_at, mask=sees, other=0) != 0
        s = tl.where(sees, tl.dot(q, k.T, input_precision="ieee") * scale, -float("inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        safe = tl.where(m_new == -float("inf"), 0.0, m_new)  # a row that has seen nothing yet
        alpha, p = tl.exp(m - safe), tl.exp(s - safe[:, None])
        l = l * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        m = m_new
    o = acc / tl.where(l == 0, 1.0, l)[:, None]
    o_at = (
        o_ptr + batch * o_strides[0] + head * o_strides[1] + rows[:, None] * o_strides[2] + dims[None, :] * o_strides[3]
    )
    tl.store(o_at, o.to(o_ptr.dtype.element_ty), mask=(rows < Nq)[:, None])
    ### END SOLUTION


def attention_for(
    module, query, key, value, attention_mask, scaling=None, dropout=0.0, sliding_window=None, top_left=False, **others
):
    """query (B, Hq, Nq, D), key and value (B, Hkv, Nk, D), any strides -> (B, Nq, Hq, D), None. D is 16, 32, 64 or 128.

    attention_mask   None, or (B, 1, Nq, Nk), True where a query sees a key. If it is given, it alone says what is seen
    module           module.is_causal: without a mask, a query sees no later position than its own
    top_left         the queries stand at the first positions of the keys, not at the last
    sliding_window   without a mask, a query sees the last sliding_window keys, its own included
    """
    ### BEGIN SOLUTION
    (B, Hq, Nq, D), (Hkv, Nk) = query.shape, key.shape[1:3]
    masked = attention_mask is not None
    mask = attention_mask if masked else query
    o = torch.empty(B, Nq, Hq, D, dtype=query.dtype, device=query.device)
    BLOCK_M = 64
    layer_kernel[(triton.cdiv(Nq, BLOCK_M), B * Hq)](
        query, key, value, mask, o, query.stride(), key.stride(), value.stride(), mask.stride(), o.transpose(1, 2).stride(),
        Hq, Nq, Nk, D**-0.5 if scaling is None else scaling, 0 if top_left else Nk - Nq, sliding_window or Nq + Nk,
        GROUP=Hq // Hkv, CAUSAL=module.is_causal and not masked, MASKED=masked, D=D, BLOCK_M=BLOCK_M, BLOCK_N=64,
    )  # fmt: skip
    return o, None
    ### END SOLUTION


# %% check="model.attention_for"
check("model.attention_for", attention_for)

# %% [markdown]
# ## Whose sum is it?
#
# Suppose that four heads of q read one head of k. In the backward pass each of the four has a gradient for this head, and
# dk is their sum. There are three ways to add them up:
#
# | | memory | the same bits in every run |
# | --- | --- | --- |
# | a gradient for each head of q, then a sum | four times dk | yes |
# | atomics into dk | dk | no |
# | one program has the keys, and walks over all four heads | dk | yes |
#
# The third way costs nothing but a loop. It is the lesson of unit 10 once more: give every sum to a single program.

# %% [markdown]
# ## Exercise: gradients of shared heads
#
# {{exercise model.grouped_backward}}
#
# The kernel is `dkdv` of unit 10, with one more loop around the walk over queries: a loop over the heads of the group.
# Attention is always causal here, and the queries are the last of the keys' positions. lse and delta are given, and
# mean the same as in unit 10. Full marks require
# * right sums over a group ({{correct.grouped}}), for any sizes ({{correct.ragged}}), and for half precision
#   ({{correct.half}}),
# * no atomics ({{no_atomics.performance}}), no gradients of single heads of q in memory
#   ({{buffers_below.performance}}), and half of the products ({{dot_flops.performance}}),
# * that k and v are read once, and each tile of q and do as often as it must be ({{traffic.performance}}), in one launch
#   ({{launches.performance}}).


# %% exercise="model.grouped_backward"
@triton.jit
def grouped_dkdv_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr,
    q_strides, k_strides, v_strides, do_strides, dk_strides, dv_strides, Hkv, Nq, Nk, scale,
    GROUP: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Compute dk and dv for BLOCK_N keys of one head of k and v of one text."""
    ### BEGIN SOLUTION
    j = tl.program_id(1)
    batch, head = (j // Hkv).to(tl.int64), (j % Hkv).to(tl.int64)
    first = tl.program_id(0) * BLOCK_N
    keys, dims = first + tl.arange(0, BLOCK_N), tl.arange(0, D)
    there = (keys < Nk)[:, None]
    k_at = k_ptr + batch * k_strides[0] + head * k_strides[1]
    v_at = v_ptr + batch * v_strides[0] + head * v_strides[1]
    k = tl.load(k_at + keys[:, None] * k_strides[2] + dims[None, :] * k_strides[3], mask=there, other=0)
    v = tl.load(v_at + keys[:, None] * v_strides[2] + dims[None, :] * v_strides[3], mask=there, other=0)
    dk = tl.zeros((BLOCK_N, D), tl.float32)
    dv = tl.zeros((BLOCK_N, D), tl.float32)
    start = tl.maximum(first - (Nk - Nq), 0) // BLOCK_M * BLOCK_M  # the first tile with a query that sees these keys
    for g in range(GROUP):
        h = head * GROUP + g
        q_at = q_ptr + batch * q_strides[0] + h * q_strides[1]
        do_at = do_ptr + batch * do_strides[0] + h * do_strides[1]
        of_head = (batch * Hkv * GROUP + h) * Nq
        for i in range(start, Nq, BLOCK_M):
            rows = i + tl.arange(0, BLOCK_M)
            inside = (rows < Nq)[:, None]
            q = tl.load(q_at + rows[:, None] * q_strides[2] + dims[None, :] * q_strides[3], mask=inside, other=0)
            do = tl.load(do_at + rows[:, None] * do_strides[2] + dims[None, :] * do_strides[3], mask=inside, other=0)
            lse = tl.load(lse_ptr + of_head + rows, mask=rows < Nq, other=0)
            delta = tl.load(delta_ptr + of_head + rows, mask=rows < Nq, other=0)
            sees = inside & (keys[None, :] <= rows[:, None] + Nk - Nq) & (keys < Nk)[None, :]
            s = tl.dot(q, k.T, input_precision="ieee") * scale
            p = tl.where(sees, tl.exp(s - lse[:, None]), 0.0)
            dv += tl.dot(p.to(do.dtype).T, do, input_precision="ieee")
            ds = p * (tl.dot(do, v.T, input_precision="ieee") - delta[:, None])
            dk += tl.dot(ds.to(q.dtype).T, q, input_precision="ieee")
    dk_at = dk_ptr + batch * dk_strides[0] + head * dk_strides[1]
    dv_at = dv_ptr + batch * dv_strides[0] + head * dv_strides[1]
    dk_at += keys[:, None] * dk_strides[2] + dims[None, :] * dk_strides[3]
    dv_at += keys[:, None] * dv_strides[2] + dims[None, :] * dv_strides[3]
    tl.store(dk_at, (dk * scale).to(dk_ptr.dtype.element_ty), mask=there)
    tl.store(dv_at, dv.to(dv_ptr.dtype.element_ty), mask=there)
    ### END SOLUTION


def grouped_backward(q, k, v, do, lse, delta, scale):
    """q, do (B, Hq, Nq, D), k, v (B, Hkv, Nk, D), any strides; lse, delta (B, Hq, Nq), contiguous -> dk, dv, causal."""
    ### BEGIN SOLUTION
    (B, Hq, Nq, D), (Hkv, Nk) = q.shape, k.shape[1:3]
    dk, dv = torch.empty_like(k), torch.empty_like(v)
    BLOCK_M, BLOCK_N = 32 if q.dtype == torch.float32 else 64, 64
    grouped_dkdv_kernel[(triton.cdiv(Nk, BLOCK_N), B * Hkv)](
        q, k, v, do, lse, delta, dk, dv, *(x.stride() for x in (q, k, v, do, dk, dv)), Hkv, Nq, Nk, scale,
        GROUP=Hq // Hkv, D=D, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_stages=2,
    )  # fmt: skip
    return dk, dv
    ### END SOLUTION


# %% check="model.grouped_backward"
check("model.grouped_backward", grouped_backward)

# %% [markdown]
# ## What torch.compile must be told
#
# A kernel launch is invisible to torch. In eager mode this does no harm, because a `torch.autograd.Function` adds the
# gradient. But `torch.compile` runs your model once with tensors that have shapes and no data, and a launch on such a
# tensor fails. So the kernel is wrapped in an **operator**, with three functions of torch:
# * `torch.library.custom_op` gives a function a name and types, and hides what is inside,
# * `register_fake` says which shapes and dtypes the results have, without running the function,
# * `register_autograd` says how gradients are computed.
#
# What if somebody forgets the gradient of one input? Nothing fails. The loss falls, since the other weights learn, and
# the forgotten weight never changes.

# %% [markdown]
# ## Exercise: an operator of torch
#
# {{exercise model.operator_norm}}
#
# The kernels are given: the RMSNorm of unit 06, which now also returns rstd, and its backward pass of unit 07. (All
# inputs but dy must be contiguous, and the results are contiguous.) Turn them into two operators, one for each
# direction, and write a function that calls the first operator. Full marks require
# * the right result and both gradients ({{correct.ragged}}), and the right shapes and dtypes without data, forward and
#   backward ({{correct.fake}}),
# * that only x, weight and rstd are kept ({{saves.performance}}), one launch forward
#   ({{launches.performance.forward}}), and two launches backward ({{launches.performance.backward}}).


# %% exercise="model.operator_norm"
@triton.jit
def norm_forward_kernel(x_ptr, weight_ptr, y_ptr, rstd_ptr, N, BLOCK: tl.constexpr):
    """Normalise one row, and store rstd for the backward pass."""
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=0).to(tl.float32)
    rstd = tl.rsqrt(tl.sum(x * x, 0) / N + 1e-6)
    weight = tl.load(weight_ptr + cols, mask=cols < N, other=0).to(tl.float32)
    tl.store(y_ptr + row * N + cols, x * rstd * weight, mask=cols < N)
    tl.store(rstd_ptr + row, rstd)


@triton.jit
def norm_backward_kernel(
    x_ptr,
    weight_ptr,
    rstd_ptr,
    dy_ptr,
    dx_ptr,
    parts_ptr,
    M,
    N,
    stride_m,
    stride_n,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute dx for ROWS rows, and their share of dweight. dy may have any strides: the gradient of a sum has 0."""
    cols = tl.arange(0, BLOCK)
    weight = tl.load(weight_ptr + cols, mask=cols < N, other=0).to(tl.float32)
    part = tl.zeros((BLOCK,), tl.float32)
    for row in range(tl.program_id(0) * ROWS, tl.minimum((tl.program_id(0) + 1) * ROWS, M)):
        x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=0).to(tl.float32)
        dy = tl.load(dy_ptr + row * stride_m + cols * stride_n, mask=cols < N, other=0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row)
        part += dy * x * rstd
        dx = rstd * (dy * weight - x * rstd * rstd * tl.sum(dy * weight * x, 0) / N)
        tl.store(dx_ptr + row * N + cols, dx, mask=cols < N)
    tl.store(parts_ptr + tl.program_id(0) * N + cols, part, mask=cols < N)


@triton.jit
def add_parts_kernel(parts_ptr, dweight_ptr, parts, N, BLOCK: tl.constexpr):
    """Add up the shares of dweight for BLOCK columns."""
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(parts):
        total += tl.load(parts_ptr + i * N + cols, mask=cols < N, other=0)
    tl.store(dweight_ptr + cols, total, mask=cols < N)


def norm_forward(x, weight):
    """x (M, N), weight (N,), contiguous -> y (M, N), rstd (M,) float32. Given: unit 06's RMSNorm, which keeps rstd."""
    (M, N), y = x.shape, torch.empty_like(x)
    rstd = torch.empty(M, dtype=torch.float32, device=x.device)
    norm_forward_kernel[(M,)](x, weight, y, rstd, N, BLOCK=triton.next_power_of_2(N))
    return y, rstd


def norm_backward(x, weight, rstd, dy):
    """-> dx (M, N), dweight (N,). Given: the one of unit 07, for a dy of any strides."""
    (M, N), dx, dweight = x.shape, torch.empty_like(x), torch.empty_like(weight)
    ROWS = 8
    parts = torch.empty(triton.cdiv(M, ROWS), N, dtype=torch.float32, device=x.device)
    norm_backward_kernel[(len(parts),)](
        x, weight, rstd, dy, dx, parts, M, N, *dy.stride(), ROWS=ROWS, BLOCK=triton.next_power_of_2(N)
    )
    add_parts_kernel[(triton.cdiv(N, 128),)](parts, dweight, len(parts), N, BLOCK=128)
    return dx, dweight


### BEGIN SOLUTION
@torch.library.custom_op("course::norm", mutates_args=())
def norm_op(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return norm_forward(x, weight)


@norm_op.register_fake
def _(x, weight):
    return torch.empty_like(x), x.new_empty(x.shape[0], dtype=torch.float32)


@torch.library.custom_op("course::norm_backward", mutates_args=())
def norm_backward_op(
    x: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor, dy: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    return norm_backward(x, weight, rstd, dy)


@norm_backward_op.register_fake
def _(x, weight, rstd, dy):
    return torch.empty_like(x), torch.empty_like(weight)


def keep(ctx, inputs, output):
    ctx.save_for_backward(*inputs, output[1])


def go_back(ctx, dy, _):
    return norm_backward_op(*ctx.saved_tensors, dy)


norm_op.register_autograd(go_back, setup_context=keep)


### END SOLUTION
def operator_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """x (M, N), weight (N,) -> y (M, N), differentiable, and known to torch.compile."""
    ### BEGIN SOLUTION
    return norm_op(x, weight)[0]
    ### END SOLUTION


# %% check="model.operator_norm"
check("model.operator_norm", operator_norm)

# %% [markdown]
# torch has a test of its own for operators, `opcheck`. It tests whether the declared types are true, whether the fake
# is right, whether autograd is registered, and whether the compiler gets the same result. The check above cannot use
# `opcheck`, because a check trusts nothing that your process says. But you can use it. In the next cell the kernels run
# under a trace, so no GPU is needed. Replace `norm_op` by the name of your own operator, both times.

# %%
if "norm_op" in globals():  # the name that you gave to your operator
    x, weight = torch.randn(8, 32, requires_grad=True), torch.randn(32, requires_grad=True)
    with trace():
        for test, outcome in torch.library.opcheck(norm_op, (x, weight), raise_exception=False).items():  # noqa: F821
            print(f"{test}: {outcome}")
        eager = operator_norm(x, weight)
        compiled = torch.compile(operator_norm, fullgraph=True, backend="aot_eager")(x, weight)
    print(f"compiled and eager differ by {(eager - compiled).abs().max().item()}")

# %% [markdown]
# `triton_op` is another way to the same end. It shows the kernels to the compiler, which may then fuse the operations
# around them. `triton_op` needs a GPU's driver, so it does not work on a laptop without one.

# %% [markdown]
# ## A model of somebody else
#
# This section earns no points. It needs the library `transformers`, and tells you if this library is missing. Nothing
# is downloaded: the weights are random, and the question is only whether your attention gives the same results as
# torch's.
#
# A model of this library looks up its attention by a name. `course_lib/workloads/in_transformers.py` registers two
# functions under one name:
#
# ```python
# AttentionInterface.register("course", of_layer)  # the function that a layer calls with q, k, v: your attention_for
# AttentionMaskInterface.register("course", mask_for)  # says which keys a query sees, or None if the shapes say it
# model.set_attn_implementation("course")
# ```
#
# In training without a mask, layers call your FlashAttention with `grouped_backward`. Both are taken from your
# notebooks, and torch's attention replaces them if they are not solved. If there is a window or a mask, the forward
# pass is your `attention_for`, and the backward pass is torch's. The table compares logits, gradients and eight written
# tokens with those of torch's attention, for three models. The cell takes some seconds.
#
# In the last line of the table the second registration was left out. The library then hands over no mask at all. Which
# texts will this spoil: texts of equal length, or texts that are padded on the left to the length of the longest?

# %%
attention, whose = earlier.attention()
print(f"attention in training: {whose}")
print(in_transformers.report(attention_for, attention))

# %% [markdown]
# Nothing failed, and there was no warning. The model read the padding of the padded texts as if it were text.
#
# ## Writing a text
#
# A model writes one token at a time, and each new token attends to all tokens before it. Their keys and values do not
# change any more, so they are kept in a cache. Many first versions of a cache look like this:
#
# ```python
# k, v = torch.cat([cache.k, k], 2), torch.cat([cache.v, v], 2)
# ```
#
# Suppose that 1000 tokens are written. How many bytes does this line move on average, for each byte that is new?

# %% [markdown]
# ## Exercise: the cache
#
# {{exercise model.kv_cache}}
#
# `torch.cat` makes a new tensor for each token and copies all old tokens into it: on average over 1000 tokens it copies
# 500 old tokens for each new one. A better cache allocates all its memory at the beginning. Each token is written to
# its place, and attention reads a view.
#
# A model with a window of 4096 never looks further back than 4096 tokens, so its cache needs no more than 4096 slots.
# Such a cache is a **ring**: token t goes to slot t % slots, and overwrites the oldest token, which the new token's
# query does not see. So a ring serves one query at a time. A piece of several tokens would overwrite keys that its
# first queries still need, so attention must read these keys before the piece is written. The order in the ring is not
# the order of the text. But the attention of one query is a sum, and does not depend on the order.
#
# Write `append`, which takes the keys and values of the next n tokens, and returns views of all keys and values in the
# cache. Full marks require
# * right views after pieces of any size, up to the last slot ({{correct.ragged}}), after more tokens than slots
#   ({{correct.ring}}), and after a prompt that is longer than the ring, which keeps the prompt's end
#   ({{correct.long}}),
# * that each token is moved only once ({{moves.performance}}), also in a full ring ({{moves.full ring}}), and that
#   nothing but the cache is allocated ({{buffers_below.full ring}}).


# %% exercise="model.kv_cache"
class KVCache:
    """Keys and values of one layer, (B, Hkv, slots, D) each: token t is in slot t % slots."""

    def __init__(self, B, Hkv, slots, D, dtype=torch.float32, device="cpu"):
        self.k, self.v = torch.empty(2, B, Hkv, slots, D, dtype=dtype, device=device)
        self.slots, self.length = slots, 0  # length counts all tokens so far, the overwritten ones included

    def append(self, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """k, v (B, Hkv, n, D), the next n tokens -> views (B, Hkv, min(length, slots), D) of all that are in the cache."""
        ### BEGIN SOLUTION
        new = k.shape[2]
        skip = max(0, new - self.slots)  # of a prompt longer than the ring, its end
        start = (self.length + skip) % self.slots
        first = min(new - skip, self.slots - start)  # up to the end of the ring; the others go to its beginning
        for cache, x in (self.k, k), (self.v, v):
            cache[:, :, start : start + first] = x[:, :, skip : skip + first]
            cache[:, :, : new - skip - first] = x[:, :, skip + first :]
        self.length += new
        n = min(self.length, self.slots)
        return self.k[:, :, :n], self.v[:, :, :n]
        ### END SOLUTION


# %% check="model.kv_cache"
check("model.kv_cache", KVCache)

# %% [markdown]
# ## Exercise: one more token
#
# {{exercise model.decode_step}}
#
# q, k and v of one token come from the projections. Your function turns q and k by the token's position, writes k and v
# into the cache, and lets q attend to all keys that are there, its own key included. If this is done for every token,
# the results are those of one pass over the whole text, and the check compares the two.
#
# What does this step move? Each number of the cached k and v is read once, and takes part in one multiplication and one
# addition for each head of q in the group. So in half precision the intensity is about 1 FLOP per byte for each of
# these heads, and the bytes decide the time. A single program cannot ask for the bytes fast enough, so the keys are cut
# into shares, as in unit 09's `flash_decode`. Its `merge_kernel` is given. Three things are new: a batch, strides, and
# a cache with more slots than tokens.
#
# Full marks require
# * right results by the token's own position ({{correct.positions}}), for any group, from the first token on
#   ({{correct.ragged}}), for a ring ({{correct.ring}}), and for half precision ({{correct.half}}),
# * that the cache is read only once ({{traffic.performance}}), by at least 32 programs that share the work
#   ({{read_together.performance}}), no copy of the cache ({{buffers_below.performance}}), and three launches
#   ({{launches.performance}}).


# %% exercise="model.decode_step"
@triton.jit
def append_kernel(
    q_ptr, k_ptr, v_ptr, cos_ptr, sin_ptr, turned_ptr, cache_k_ptr, cache_v_ptr,
    q_strides, k_strides, v_strides, cache_k_strides, cache_v_strides, position, slot, GROUP: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """For one text and one head of k and v: turn its heads of q and k, store q in a buffer (B, Hq, D), and k and v in their slot."""
    ### BEGIN SOLUTION
    batch, head = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    half, dims = tl.arange(0, D // 2), tl.arange(0, D)
    cos, sin = tl.load(cos_ptr + position * (D // 2) + half), tl.load(sin_ptr + position * (D // 2) + half)
    for g in tl.static_range(GROUP):
        q_at = q_ptr + batch * q_strides[0] + (head * GROUP + g) * q_strides[1] + half
        a, b = tl.load(q_at).to(tl.float32), tl.load(q_at + D // 2).to(tl.float32)
        out = turned_ptr + ((batch * tl.num_programs(1) + head) * GROUP + g) * D + half
        tl.store(out, a * cos - b * sin)
        tl.store(out + D // 2, b * cos + a * sin)
    k_at = k_ptr + batch * k_strides[0] + head * k_strides[1] + half
    a, b = tl.load(k_at).to(tl.float32), tl.load(k_at + D // 2).to(tl.float32)
    to = cache_k_ptr + batch * cache_k_strides[0] + head * cache_k_strides[1] + slot * cache_k_strides[2] + half
    tl.store(to, a * cos - b * sin)
    tl.store(to + D // 2, b * cos + a * sin)
    v = tl.load(v_ptr + batch * v_strides[0] + head * v_strides[1] + dims)  # a value has no position
    tl.store(cache_v_ptr + batch * cache_v_strides[0] + head * cache_v_strides[1] + slot * cache_v_strides[2] + dims, v)
    ### END SOLUTION


@triton.jit
def cached_share_kernel(
    q_ptr, k_ptr, v_ptr, m_ptr, l_ptr, acc_ptr, k_strides, v_strides, scale, n, share, Hkv,
    GROUP: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """The state of a group's rows after one share of the n keys of a cache: m and l (B Hq, splits), acc (B Hq, splits, D)."""
    ### BEGIN SOLUTION
    split, j = tl.program_id(0), tl.program_id(1).to(tl.int64)
    batch, head = j // Hkv, j % Hkv
    rows, dims = tl.arange(0, BLOCK_M), tl.arange(0, D)
    heads = j * GROUP + rows  # of q, which is contiguous
    q = tl.load(q_ptr + heads[:, None] * D + dims[None, :], mask=(rows < GROUP)[:, None], other=0)
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    stop = tl.minimum((split + 1) * share, n)
    k_ptr += batch * k_strides[0] + head * k_strides[1]
    v_ptr += batch * v_strides[0] + head * v_strides[1]
    for i in range(split * share, stop, BLOCK_N):
        keys = i + tl.arange(0, BLOCK_N)
        there = (keys < stop)[:, None]
        k = tl.load(k_ptr + keys[:, None] * k_strides[2] + dims[None, :], mask=there, other=0)
        v = tl.load(v_ptr + keys[:, None] * v_strides[2] + dims[None, :], mask=there, other=0)
        s = tl.dot(q, k.T, input_precision="ieee") * scale
        s = tl.where(keys[None, :] < stop, s, -float("inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        alpha, p = tl.exp(m - m_new), tl.exp(s - m_new[:, None])
        l = l * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        m = m_new
    at = heads * tl.num_programs(0) + split
    tl.store(m_ptr + at, m, mask=rows < GROUP)
    tl.store(l_ptr + at, l, mask=rows < GROUP)
    tl.store(acc_ptr + at[:, None] * D + dims[None, :], acc, mask=(rows < GROUP)[:, None])
    ### END SOLUTION


@triton.jit
def merge_kernel(m_ptr, l_ptr, acc_ptr, o_ptr, splits, D: tl.constexpr, BLOCK: tl.constexpr):
    """Merge the states of one head, as in unit 09's flash_decode."""
    head, parts, dims = tl.program_id(0), tl.arange(0, BLOCK), tl.arange(0, D)
    at = head * splits + parts
    m = tl.load(m_ptr + at, mask=parts < splits, other=-float("inf"))
    l = tl.load(l_ptr + at, mask=parts < splits, other=0)
    acc = tl.load(acc_ptr + at[:, None] * D + dims[None, :], mask=(parts < splits)[:, None], other=0)
    factor = tl.exp(m - tl.max(m, 0))
    o = tl.sum(factor[:, None] * acc, 0) / tl.sum(factor * l, 0)
    tl.store(o_ptr + head * D + dims, o.to(o_ptr.dtype.element_ty))


def decode_step(q, k, v, cos, sin, cache_k, cache_v, position):
    """q (B, Hq, 1, D), k and v (B, Hkv, 1, D) of token number `position`, not turned yet -> (B, Hq, 1, D)."""
    ### BEGIN SOLUTION
    (B, Hq, _, D), (Hkv, slots) = q.shape, cache_k.shape[1:3]
    n, GROUP = min(position + 1, slots), Hq // Hkv
    turned = torch.empty(B, Hq, D, dtype=q.dtype, device=q.device)
    strides = [x.stride() for x in (q, k, v, cache_k, cache_v)]
    append_kernel[(B, Hkv)](
        q, k, v, cos, sin, turned, cache_k, cache_v, *strides, position, position % slots, GROUP=GROUP, D=D
    )
    splits = max(1, min(64, triton.cdiv(n, 128)))
    share, rows = triton.cdiv(n, splits), dict(BLOCK_M=max(16, triton.next_power_of_2(GROUP)), BLOCK_N=64)
    m, l = torch.empty(2, B * Hq, splits, dtype=torch.float32, device=q.device)
    acc = torch.empty(B * Hq, splits, D, dtype=torch.float32, device=q.device)
    cached_share_kernel[(splits, B * Hkv)](
        turned, cache_k, cache_v, m, l, acc, cache_k.stride(), cache_v.stride(), D**-0.5, n, share, Hkv,
        GROUP=GROUP, D=D, **rows,
    )  # fmt: skip
    o = torch.empty(B, Hq, 1, D, dtype=q.dtype, device=q.device)
    merge_kernel[(B * Hq,)](m, l, acc, o, splits, D=D, BLOCK=triton.next_power_of_2(splits))
    return o
    ### END SOLUTION


# %% check="model.decode_step"
check("model.decode_step", decode_step)

# %% [markdown]
# A server writes many texts, and does not know how long each of them will be. If it reserves room for the longest
# possible text each time, most of the memory stays empty. So the memory is cut into **pages** of 16 tokens or so. A
# text gets a page when it needs one, and a table says which pages belong to which text. This is virtual memory for keys
# and values. (vLLM; Kwon and others, 2023.)

# %% [markdown]
# ## Exercise: pages
#
# {{exercise model.paged_decode}}
#
# Key i of text b is in page table[b, i // page], at place i % page. Pages that belong to no text, and the places after
# a text's last token, hold whatever was there before. In the check they hold NaN. The table's entries after a text's
# last page are not numbers of pages. One launch with a program for each text and each head of k is enough.
#
# Full marks require right results for texts of any lengths ({{correct.ragged}}) and for half precision
# ({{correct.half}}), that only the bytes of a text's tokens are read ({{traffic.performance}}), and that no pages are
# copied ({{buffers_below.performance}}).


# %% exercise="model.paged_decode"
@triton.jit
def paged_kernel(
    q_ptr, k_ptr, v_ptr, table_ptr, lengths_ptr, o_ptr, k_strides, v_strides, table_stride, scale,
    GROUP: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, PAGE: tl.constexpr,
):  # fmt: skip
    """Attention for the heads of q that read one head of k and v of one text."""
    ### BEGIN SOLUTION
    batch, head = tl.program_id(0), tl.program_id(1).to(tl.int64)
    rows, dims, places = tl.arange(0, BLOCK_M), tl.arange(0, D), tl.arange(0, PAGE)
    heads = (batch * tl.num_programs(1) + head) * GROUP + rows
    length = tl.load(lengths_ptr + batch)
    q = tl.load(q_ptr + heads[:, None] * D + dims[None, :], mask=(rows < GROUP)[:, None], other=0)
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    for i in range(0, tl.cdiv(length, PAGE)):
        page = tl.load(table_ptr + batch * table_stride + i).to(tl.int64)
        there = i * PAGE + places < length
        k_at = k_ptr + page * k_strides[0] + head * k_strides[1] + places[:, None] * k_strides[2] + dims[None, :]
        v_at = v_ptr + page * v_strides[0] + head * v_strides[1] + places[:, None] * v_strides[2] + dims[None, :]
        k = tl.load(k_at, mask=there[:, None], other=0)
        v = tl.load(v_at, mask=there[:, None], other=0)
        s = tl.dot(q, k.T, input_precision="ieee") * scale
        s = tl.where(there[None, :], s, -float("inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        alpha, p = tl.exp(m - m_new), tl.exp(s - m_new[:, None])
        l = l * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        m = m_new
    o = acc / l[:, None]
    tl.store(o_ptr + heads[:, None] * D + dims[None, :], o.to(o_ptr.dtype.element_ty), mask=(rows < GROUP)[:, None])
    ### END SOLUTION


def paged_decode(q, k_pages, v_pages, table, lengths):
    """q (B, Hq, D); k_pages, v_pages (pages, Hkv, page, D); table (B, n) and lengths (B,), int32 -> (B, Hq, D)."""
    ### BEGIN SOLUTION
    (B, Hq, D), (_, Hkv, PAGE, _) = q.shape, k_pages.shape
    o = torch.empty_like(q)
    paged_kernel[(B, Hkv)](
        q, k_pages, v_pages, table, lengths, o, k_pages.stride(), v_pages.stride(), table.stride(0), D**-0.5,
        GROUP=Hq // Hkv, D=D, BLOCK_M=max(16, triton.next_power_of_2(Hq // Hkv)), PAGE=PAGE,
    )  # fmt: skip
    return o
    ### END SOLUTION


# %% check="model.paged_decode"
check("model.paged_decode", paged_decode)

# %% [markdown]
# ## How many texts, and how fast?
#
# A model of 8 B parameters in bfloat16 takes 16 GB. The card has 141 GB. How many texts of 8192 tokens can the model
# write at once? And how long does a step take, in which it writes one token of each text? The picture shows what limits
# the steps of such a model.

# %%
figures.model.prefill_and_decode()

# %% [markdown]
# ## Exercise: how many texts, and how fast
#
# {{exercise model.serving}}
#
# `config` is a dict with layers, kv_heads, head_dim, itemsize, window (None, or how many tokens a cache keeps at most)
# and parameters. A step reads all weights, and the whole cache of each text. Its arithmetic takes no additional time,
# as the picture shows. Full marks require the right numbers for a common model ({{correct.plain}}), for other numbers
# of heads ({{correct.heads}}), for windows ({{correct.window}}), and for memories that hold exactly one text, or none
# ({{correct.edges}}).


# %% exercise="model.serving"
def serving(config: dict, tokens: int, memory: int, bandwidth: float) -> tuple[int, int, float]:
    """config: layers, kv_heads, head_dim, itemsize, window (or None), parameters; memory in bytes, bandwidth in bytes a second
    -> (kv_bytes of a text of `tokens` tokens, largest_batch next to the weights, decode_seconds of a step with this batch)."""
    ### BEGIN SOLUTION
    kept = min(tokens, config["window"] or tokens)
    kv_bytes = 2 * config["layers"] * config["kv_heads"] * config["head_dim"] * kept * config["itemsize"]
    weights = config["parameters"] * config["itemsize"]
    largest_batch = max(0, memory - weights) // kv_bytes
    return kv_bytes, largest_batch, (weights + largest_batch * kv_bytes) / bandwidth
    ### END SOLUTION


# %% check="model.serving"
check("model.serving", serving)

# %% [markdown]
# Is a step really as fast as its bytes? The next picture shows the large model of part one on a GPU, where it writes
# one more token of each text. Suppose that Python launches every kernel. How many times as long as reading the weights
# and caches will the step take?

# %%
figures.model.large_decoding()

# %% [markdown]
# For one text the step takes more than twenty times as long. Each launch costs Python some microseconds, and there are
# hundreds of launches for each token. A **CUDA graph** records all launches once, and replays them without Python. Then
# a step for one text takes about twice the time of its bytes, and a step for 64 texts takes 1.4 times that of its
# bytes. The rest of the time goes to small kernels, each of which must end before the next one begins.
#
# ## What is wrong here?
#
# Your kernel may be right, and the model's results may still be wrong. All of these causes have been seen in libraries
# that many people use:
#
# 1. The mask is dropped.
# 2. The causal mask is aligned at the other corner.
# 3. A kernel without a backward pass is called in training.
# 4. Rotary turns q and k in place.
# 5. The model's scale is ignored.
# 6. k and v are repeated for every head of q.

# %% [markdown]
# ## Exercise: what is wrong here?
#
# {{exercise model.name_it}}
#
# Somebody compared the changed model with the model as it was before. Each line says what they saw. Write the number of
# its cause ({{numbers.plain}}).

# %% exercise="model.name_it"
name_it = {
    "padded texts differ, the others agree": ...,
    "a prompt agrees, its second piece does not": ...,
    "losses fall as before, the projections of q, k and v stay as they were": ...,
    "all agrees until activations are recomputed": ...,
    "every row differs, in a model whose configuration names a multiplier": ...,
    "all agrees, and the peak of memory grows with the cache times the group": ...,
}
### BEGIN SOLUTION
name_it = {
    "padded texts differ, the others agree": 1,
    "a prompt agrees, its second piece does not": 2,
    "losses fall as before, the projections of q, k and v stay as they were": 3,
    "all agrees until activations are recomputed": 4,
    "every row differs, in a model whose configuration names a multiplier": 5,
    "all agrees, and the peak of memory grows with the cache times the group": 6,
}
### END SOLUTION

# %% check="model.name_it"
check("model.name_it", name_it)

# %% [markdown]
# ## Exercise: mend it
#
# {{exercise model.mended}}
#
# The next cell has an attention in torch's own operations, with all six mistakes in it. Mend them. The check compares
# the result and the gradients. It also does what a checkpoint of unit 07 does: it runs the function once, and then a
# second time on the same q, k and v, to compute again what backward needs.
#
# Without gradients you earn nothing. Full marks require that the mask is obeyed ({{correct.mask}}), that the queries
# are the last positions ({{correct.causal}}), that the model's scale is used ({{correct.scale}}), that the function
# gives the same result when it runs again ({{correct.again}}), and that no operation makes a copy of k or v for each
# head of q ({{no_repeats.shared}}). torch's `@` makes such a copy if it broadcasts k over a group. `torch.einsum` and
# `scaled_dot_product_attention` with `enable_gqa=True` do not.


# %% exercise="model.mended"
def mended(q, k, v, cos, sin, mask, scale):
    """q (B, Hq, Nq, D), the last Nq positions, k and v (B, Hkv, Nk, D), not turned; mask None or (B, 1, Nq, Nk) -> (B, Hq, Nq, D)."""
    (_, Hq, Nq, D), (Hkv, Nk) = q.shape, k.shape[1:3]
    for x, first in (q, Nk - Nq), (k, 0):
        c, s = cos[first : first + x.shape[2]], sin[first : first + x.shape[2]]
        a, b = x[..., : D // 2].clone(), x[..., D // 2 :].clone()
        x[..., : D // 2], x[..., D // 2 :] = a * c - b * s, b * c + a * s
    with torch.no_grad():
        k, v = (x.repeat_interleave(Hq // Hkv, 1) for x in (k, v))
        scores = q @ k.mT * D**-0.5
        scores = scores.masked_fill(~torch.ones(Nq, Nk, dtype=torch.bool, device=q.device).tril(), -math.inf)
        out = torch.softmax(scores, -1) @ v
    return out


### BEGIN SOLUTION
def mended(q, k, v, cos, sin, mask, scale):  # noqa: F811 (this one takes its place)
    (B, Hq, Nq, D), (Hkv, Nk) = q.shape, k.shape[1:3]

    def turned(x, first):  # 4: new tensors, since q and k are asked for again
        c, s = cos[first : first + x.shape[2]], sin[first : first + x.shape[2]]
        a, b = x[..., : D // 2], x[..., D // 2 :]
        return torch.cat([a * c - b * s, b * c + a * s], -1)

    rows = turned(q, Nk - Nq).reshape(B, Hkv, -1, D)  # 6: the rows of a group's heads, in one product
    scores = rows @ turned(k, 0).mT * scale  # 5: the model's scale; 3: in sight of autograd
    scores = scores.view(B, Hkv, Hq // Hkv, Nq, Nk)
    sees = torch.ones(Nq, Nk, dtype=torch.bool, device=q.device).tril(Nk - Nq)  # 2: the queries are the last
    if mask is not None:
        sees = mask.view(B, 1, 1, Nq, Nk)  # 1: it says all
    p = torch.softmax(scores.masked_fill(~sees, -math.inf), -1)
    return (p.view(B, Hkv, -1, Nk) @ v).view(B, Hq, Nq, D)


### END SOLUTION
# %% check="model.mended"
check("model.mended", mended)

# %% [markdown]
# ## What you now know
#
# * The matrix products of a block move only a part of its bytes. Kernels in the slots save most of the rest.
# * AdamW is bound by memory: it moves 28 bytes for each parameter, in float32 as in mixed precision. Decay does not
#   enter the moments, the first steps need both corrections, and ε is added to the root of the corrected v.
# * A mean over micro-batches weighs each of them by its number of targets. Losses hide a mistake in these weights, and
#   gradients show it.
# * A training step holds 16 bytes for each parameter, and for each token it holds what the operations keep for
#   backward.
# * 6 N D counts matrices that multiply. Attention comes in addition, and what is computed twice is counted once.
# * A run goes on bit for bit only if its weights, its moments, its step, the loader's place and every generator are
#   restored.
# * A launch has no history. An autograd function gives it one. Check that every parameter gets its gradient.
# * A position enters through the embedding, by turning q and k, or in the scores. v is never turned.
# * The caller says what a query sees, by a mask, a window, or one of two alignments. The shapes do not say it.
# * The gradient of a shared head is one more sum, and a single program should compute it.
# * An operator tells torch its types, its shapes and its backward pass. If it leaves something out, nobody notices at
#   once.
# * A cache is memory that stays where it is. To write a token, the cache of its text must be read, and the weights once
#   for all texts.

# %%
progress()

# %% [markdown]
# The unit is worth {{unit points}}, over {{unit exercises}}. Hand in this notebook; the grader runs the same checks
# on inputs that you have not seen.
#
# ## Further reading
#
# * Karpathy, *nanoGPT* and *nanochat*: the model and the training loop that this unit imitates, at full size.
# * Kingma and Ba, *Adam* (2014); Loshchilov and Hutter, *Decoupled Weight Decay Regularization* (2017).
# * Micikevicius and others, *Mixed Precision Training* (2017): the float32 master.
# * Korthikanti and others, *Reducing Activation Recomputation in Large Transformer Models* (2022): the memory of a
#   transformer, term by term.
# * Kaplan and others, *Scaling Laws for Neural Language Models* (2020), section 2.1: where 6 N D comes from; Chowdhery
#   and others, *PaLM* (2022), appendix B: MFU.
# * Stanford CS336, assignment 1: the same loop, optimizer and accounting, from scratch.
# * Su and others, *RoFormer*, 2021; Press, Smith and Lewis, *Train Short, Test Long*, 2022: two of the three ways to
#   tell a position.
# * Ainslie and others, *GQA*, 2023; Jiang and others, *Mistral 7B*, 2023: shared heads, and a cache that is a ring.
# * Kwon and others, *Efficient Memory Management for Large Language Model Serving with PagedAttention*, 2023.
# * Pope and others, *Efficiently Scaling Transformer Inference*, 2022: what prefill and decoding cost.
