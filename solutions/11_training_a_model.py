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
# # 11 · Training a model
#
# **After this unit you can** write an optimizer in one launch, and say why it cannot be faster. You can train a model
# on a file and with batches that do not fit into memory. You can say beforehand how much memory, time and money a
# training run takes, and you can stop a run and go on without a difference of one bit. And you can put kernels of your
# own into a model so that every parameter learns, and tell `torch.compile` what they do. You need 06 (fusion), 07
# (autograd functions, and what they keep for the backward pass) and 10 (attention as one such function). No GPU is
# needed.

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
from course_lib.workloads import text
from course_lib.workloads.gpt import GPT, LARGE, TOY

# %% [markdown]
# ## The question
#
# A model of 1.1 billion parameters in bfloat16 has weights of 2.2 GB. It is trained with AdamW, on 4 texts of 4096
# tokens at a time. How many GB of memory does a training step need?

# %% predict="training.guess_memory"
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
figures.training.block()

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
# ε is 1e-8 here (torch's AdaGrad has 1e-10 unless you say otherwise). AdaGrad's sum only grows, so its steps only
# shrink. RMSProp and Adam keep running means instead, and a running mean forgets. But a running mean that begins at 0
# is too small at first. After one step v is 0.001 g², so its root is thirty times too small, and m is ten times too
# small. So the step would be three times too large. Adam therefore divides each mean by what a running mean of ones
# would be by now: m̂ = m / (1 − 0.9ᵗ) and v̂ = v / (1 − 0.999ᵗ), where t counts steps from 1. Note that ε is added to
# √v̂, after v is corrected.

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
adamw_bytes = {"one launch": 28, "torch, operation by operation": 84}  # the second: foreach and fused turned off
for way, size in adamw_bytes.items():
    print(f"{way}: {1e3 * size * 1.1e9 / 4.8e12:.1f} ms for 1.1 billion parameters at 4.8 TB/s")

# %% [markdown]
# In **mixed precision** the model computes with bfloat16 weights. The neighbours of 1 in bfloat16 are 1 / 128 above and
# 1 / 256 below. A step of 3e-4, added to a weight of 1, disappears (02). So the optimizer keeps a float32 **master** p,
# and the model gets a rounded copy of it, `low`. The gradient comes in bfloat16, too. How many bytes does a step move
# now for each parameter? It moves 2 bytes for g, 24 for p, m and v, and 2 for `low`. That makes 28 again.
#
# ## Exercise: AdamW in one launch
#
# {{exercise training.adamw_step}}
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


# %% exercise="training.adamw_step"
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


# %% check="training.adamw_step"
check("training.adamw_step", adamw_step)

# %% [markdown]
# On an H100, whose memory has 3.35 TB/s by its datasheet, this kernel moves {{measured AdamW}} TB/s in the step of a
# model with 1.1 billion parameters, and torch's fused AdamW moves {{measured AdamW by torch}}
# (`benchmarks/results/model.md`).
#
# How does a function become an optimizer of torch? It becomes the `step` of a subclass of `torch.optim.Optimizer`. The
# base class keeps *groups* of parameters, each with its own settings, and `self.state[p]`, a dict for each parameter,
# which `state_dict()` saves.


# %%
class FusedAdamW(torch.optim.Optimizer):
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(parameters, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                s = self.state[p]
                if not s:
                    s.update(step=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
                s["step"] += 1
                settings = group["lr"], *group["betas"], group["eps"], group["weight_decay"]
                adamw_step(p.view(-1), p.grad.view(-1), s["m"].view(-1), s["v"].view(-1), None, *settings, s["step"])


ours, theirs = (torch.nn.Parameter(torch.linspace(-1, 1, 1000)) for _ in range(2))
for p, optimizer in ((ours, FusedAdamW), (theirs, torch.optim.AdamW)):
    optimizer = optimizer([{"params": [p], "lr": 0.1}])
    with trace():
        for _ in range(3):
            p.grad = p.detach().cos()
            optimizer.step()
print(f"after three steps, off from torch's by {(ours - theirs).abs().max():.1e}")

# %% [markdown]
# ## A batch that does not fit
#
# The loss of a batch is a mean over its tokens, and a mean can be taken in parts. So a batch is cut into
# **micro-batches**. After one of them has run forward and backward, its graph is freed, and there is room for the next
# one. `backward()` *adds* to `p.grad`. By what must you multiply the loss of each micro-batch, so that the sum is the
# gradient of the whole batch?
#
# ## Exercise: accumulate
#
# {{exercise training.accumulate}}
#
# Write `accumulate(model, batches)`. `batches` is a list of micro-batches, and each micro-batch is a pair (tokens,
# targets). Targets of −100 are padding, and `model(tokens, targets)` returns the mean loss over the other targets. A
# micro-batch may be all padding. Leave in `p.grad` the gradient of the mean loss over **all** targets of all
# micro-batches, without the padding, and return this mean as a number.
#
# Full marks require
# * the loss and the gradients of one large batch ({{holds.same_loss.plain}}), also where micro-batches have different numbers of
#   targets, or none ({{holds.same_loss.padded}}),
# * gradients that do not depend on what `p.grad` held before ({{holds.begins_anew.plain}}),
# * that only one micro-batch's graph is alive at a time ({{seen.one_at_a_time.memory}}).


# %% exercise="training.accumulate"
def accumulate(model, batches) -> float:
    """Gradients of the mean loss over all targets but -100, one micro-batch at a time, in p.grad -> that loss"""
    ### BEGIN SOLUTION
    counts = [int((targets != -100).sum()) for _, targets in batches]
    model.zero_grad()
    total = 0.0
    for (tokens, targets), count in zip(batches, counts, strict=True):
        if not count:
            continue  # it has no mean: its loss is NaN, and so is 0 times NaN
        loss = model(tokens, targets) * (count / sum(counts))
        loss.backward()  # and the micro-batch's graph is gone
        total += loss.item()
    return total
    ### END SOLUTION


# %% check="training.accumulate"
check("training.accumulate", accumulate)

# %% [markdown]
# Suppose that you had summed the losses of the micro-batches, and not averaged them. Would you have noticed it in the
# losses? Adam divides m by √v, so a factor in all gradients cancels, but for ε. If the gradients are clipped as well,
# the factor does show, because their norm is compared with a fixed limit.

# %% [markdown]
# ## What does a training step hold?
#
# A training step holds four things in memory: the **weights** and the **gradients**, both in bfloat16; what the
# **optimizer** remembers, which is the master, m and v in float32; and what the **forward pass keeps** for the backward
# pass (07). The picture shows how many bytes are in memory after each operation in one step of the toy. The toy is in
# float32 throughout. When will memory be fullest?

# %%
figures.training.memory_of_a_step()

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
# | | besides, of v, which is a view, **all** of qkv's result | (heads + 2 kv_heads) · D | 2 |
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
# {{exercise training.training_memory}}
#
# Write `training_memory(...)`, which returns three numbers: the number of parameters ({{holds.parameters.plain}}), the
# bytes of weights, gradients and optimizer in mixed precision ({{holds.state.plain}}), and the bytes that the forward
# pass keeps for `batch` texts of n tokens ({{holds.activations.plain}}). D is width / heads. You find the shapes of all
# weights in the classes `TransformerBlock` and `GPT` of the model's file. The check counts these numbers in the model, and yours
# must agree to the byte.


# %% exercise="training.training_memory"
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


# %% check="training.training_memory"
check("training.training_memory", training_memory)

# %% [markdown]
# Now the question from the beginning. What did you guess?

# %%
figures.training.explore_memory()

# %% [markdown]
# (The bars are computed by the formula of the exercise, and counting confirms it on small models. A GPU's allocator
# rounds up, and each operation needs some more memory while it works.) If you make the batch larger, which part grows?
# If you make the model wider, which part grows now?
#
# ## Exercise: what a run costs
#
# {{exercise training.run_cost}}
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


# %% exercise="training.run_cost"
def run_cost(vocab, layers, width, heads, kv_heads, hidden, batch, n, tokens, flops_per_second, mfu, dollars):
    """dollars: for an hour of the GPU -> (FLOPs of a training step, its seconds, dollars for a run over `tokens` tokens)"""
    ### BEGIN SOLUTION
    D = width // heads
    matrices = vocab * width + layers * (width * (heads + 2 * kv_heads) * D + width * width + 3 * width * hidden)
    flops = 6 * matrices * batch * n + 12 * layers * width * batch * n * (n + 1) // 2
    seconds = flops / (flops_per_second * mfu)
    return flops, seconds, tokens / (batch * n) * seconds / 3600 * dollars
    ### END SOLUTION


# %% check="training.run_cost"
check("training.run_cost", run_cost)

# %% [markdown]
# ## A run that stops
#
# Every long run stops: a GPU fails, or your time on it ends. What does the next step depend on? Not on the weights
# alone. It also depends on the moments of the optimizer, on the place in the schedule, on the batches that the loader
# has given out, and on the state of the random numbers. If one of these is lost, the run goes on with slightly other
# losses. It does not fail, so nobody notices.
#
# ## Exercise: save and load
#
# {{exercise training.checkpoint}}
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


# %% exercise="training.checkpoint"
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


# %% check="training.checkpoint"
check("training.checkpoint", Checkpoint)

# %% [markdown]
# ## Kernels in the model
#
# Autograd does not see a launch: tensors go in, new tensors come out, and no history connects them. A raw launch in the
# middle of a model cuts the model in two. The layers before the cut get no gradient, and yet the loss falls, because
# the layers after the cut go on learning. A backward pass that forgets a gradient does the same harm: in a public
# project, a norm's backward returned None for its weight (Unsloth, issue 4533).
#
# So each kernel needs a `torch.autograd.Function` around it (07), which saves what the backward kernel needs.
#
# ## Exercise: swap in
#
# {{exercise training.swap_in}}
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


# %% exercise="training.swap_in"
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


# %% check="training.swap_in"
check("training.swap_in", swap_in)

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
# {{exercise training.grouped_backward}}
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


# %% exercise="training.grouped_backward"
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


# %% check="training.grouped_backward"
check("training.grouped_backward", grouped_backward)

# %% [markdown]
# ## Training, twice
#
# Here is a training loop. It calls what you have written, and three functions that you can write in *More*:
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
figures.training.losses(swap_in)

# %% [markdown]
# Both runs see the same batches, but round differently in the last bit. The lower plot shows how such differences grow:
# each step starts from weights that differ a little more. That is why the check compares gradients, and the losses of
# only a few steps.
#
# These kernels were written in torch. Your own kernels in Triton fit into the same slots. The next cell looks into your
# notebooks of units 06, 07, 09 and 10, which should lie next to this one. If they are solved, it takes RMSNorm, the
# cross-entropy and attention from there, with their backward passes. The model is on the CPU here, so these kernels are
# traced, also where there is a GPU. This takes some seconds for each step.
#
# Your FlashAttention knows nothing of heads that share k and v, and the toy has two heads of q for each head of k.
# Which kernels must change? The kernels for o and dq need no change: each of their programs has its own queries, and k
# is handed over as a view that shows one head to its whole group. Such a view takes no memory. But dk and dv belong to
# keys, and several heads of q read these keys. So dk and dv come from your
# `grouped_backward`.

# %%
print(figures.training.step_by_step(swap_in, *earlier.kernels()))

# %% [markdown]
# ## The large one
#
# The same file makes a model of 1.1 billion parameters, which was trained on a GPU, on 4 texts of 4096 tokens at a
# time. Your `training_memory` says what the peak of memory should be. Before you run the next cell, order these three
# by speed: torch's operations with FlashAttention-2, torch's operations with cuDNN's attention, and the course's
# kernels. `torch.compile` fuses the operations between the products without any help: where will it stand among these
# three?

# %%
figures.training.large_steps()

# %% [markdown]
# The two rows of torch's operations differ in attention alone. The course's attention is slower than cuDNN's, and the
# course's kernels win because they move fewer bytes in norms, rotary positions, SwiGLU and the loss. `torch.compile`
# fuses these operations as well, and keeps cuDNN's attention. The fourth row has the course's kernels and an attention
# in Gluon, Triton's language for programming one kind of GPU closely (unit 14). There copies and products run at the
# same time. It is faster than `torch.compile`. In the last row `torch.compile` has the course's attention instead of
# cuDNN's. (`benchmarks/results/model.md` has all numbers.)
#
# The peak lies more than a GB below what `training_memory` says. Which row of the table in "What does a training step
# hold?" is different here? It is the row of v. In this run the slot copies v before it is kept, so the rest of qkv's
# result, q and k, can be freed: 22 blocks · 16,384 tokens · 2,560 numbers of 2 bytes are 1.8 GB.

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
# {{exercise training.operator_norm}}
#
# The kernels are given: the RMSNorm of unit 06, which now also returns rstd, and its backward pass of unit 07. (All
# inputs but dy must be contiguous, and the results are contiguous.) Turn them into two operators, one for each
# direction, and write a function that calls the first operator. Full marks require
# * the right result and both gradients ({{correct.ragged}}), and the right shapes and dtypes without data, forward and
#   backward ({{correct.fake}}),
# * that only x, weight and rstd are kept ({{saves.performance}}), one launch forward
#   ({{launches.performance.forward}}), and two launches backward ({{launches.performance.backward}}).


# %% exercise="training.operator_norm"
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


# %% check="training.operator_norm"
check("training.operator_norm", operator_norm)

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
# * The gradient of a shared head is one more sum, and a single program should compute it.
# * An operator tells torch its types, its shapes and its backward pass. If it leaves something out, nobody notices at
#   once.

# %%
progress()

# %% [markdown]
# The unit is worth {{unit points}}, over {{unit exercises}}. Hand in this notebook; the grader runs the same checks
# on inputs that you have not seen.

# %% [markdown]
# ## More
#
# {{unit more}} You draw batches from a file, write five optimizers by their rules, clip gradients, and set the rate of
# each step.

# %% [markdown]
# ## Exercise: a batch from a memory map
#
# {{exercise training.get_batch}}
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


# %% exercise="training.get_batch"
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


# %% check="training.get_batch"
check("training.get_batch", get_batch)

# %% [markdown]
# ## Exercise: five optimizers
#
# {{exercise training.update}}
#
# Write `update(rule, p, g, state, lr)` for one weight p with gradient g, both Python numbers, and return the new p.
# `state` is an empty dict before the first step. Keep in it what the rule must remember. Each rule is compared with
# torch's: "sgd" ({{correct.sgd}}), "momentum" ({{correct.momentum}}), "adagrad" ({{correct.adagrad}}), "rmsprop"
# ({{correct.rmsprop}}), "adam" ({{correct.adam}}).


# %% exercise="training.update"
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


# %% check="training.update"
check("training.update", update)

# %% [markdown]
# ## Exercise: clip
#
# {{exercise training.clip}}
#
# One bad batch can throw a model far away. So gradients are scaled down when their **common** norm is above a limit.
# The common norm is that of all gradients as one long vector, and scaling keeps the direction of this vector. Write
# `clip(gradients, largest)`, which changes the tensors in place and returns the norm that they had before.
#
# Full marks require one norm of all gradients ({{holds.same_norm.plain}}), gradients scaled to the limit
# ({{holds.same_gradients.plain}}), and small ones left as they are ({{holds.same_gradients.below}}).


# %% exercise="training.clip"
def clip(gradients: list[torch.Tensor], largest: float) -> float:
    """Scales all gradients in place so that their common norm is at most `largest` -> the norm before"""
    ### BEGIN SOLUTION
    norm = float(sum(g.square().sum() for g in gradients)) ** 0.5
    for g in gradients:
        g.mul_(min(1.0, largest / (norm + 1e-6)))
    return norm
    ### END SOLUTION


# %% check="training.clip"
check("training.clip", clip)

# %% [markdown]
# ## Exercise: the rate of each step
#
# {{exercise training.learning_rate}}
#
# At first m and v are means of only a few gradients, so a step may be far too large. This is why the learning rate
# begins near 0 and rises. At the end the rate falls, and with small steps the weights settle.

# %%
figures.training.schedule()

# %% [markdown]
# Write `learning_rate(step, steps, peak, warm_up)`. Steps count from 0. Through the first `warm_up` steps the rate is a straight
# line: step 0 has peak / warm_up, since a rate of 0 would waste a batch, and step warm_up − 1 has the peak
# ({{correct.warm-up}}). Then half a cosine leads from the peak at step `warm_up` to a tenth of the peak at step `steps`
# ({{correct.cosine}}). From there on the rate stays at this tenth ({{correct.after}}).


# %% exercise="training.learning_rate"
def learning_rate(step: int, steps: int, peak: float, warm_up: int) -> float:
    """The rate of step 0, 1, ...: a line up to the peak, half a cosine down to a tenth of it, and no further"""
    ### BEGIN SOLUTION
    if step < warm_up:
        return peak * (step + 1) / warm_up
    share = min(1.0, (step - warm_up) / (steps - warm_up))
    return peak * (0.1 + 0.45 * (1 + math.cos(math.pi * share)))
    ### END SOLUTION


# %% check="training.learning_rate"
check("training.learning_rate", learning_rate)

# %% [markdown]
# ## Further reading
#
# * Karpathy, *nanoGPT* and *nanochat*: the model and the training loop that this unit imitates, at full size.
# * Kingma and Ba, *Adam* (2014); Loshchilov and Hutter, *Decoupled Weight Decay Regularization* (2017).
# * Micikevicius and others, *Mixed Precision Training* (2018): the float32 master.
# * Korthikanti and others, *Reducing Activation Recomputation in Large Transformer Models* (2022): the memory of a
#   transformer, term by term.
# * Kaplan and others, *Scaling Laws for Neural Language Models* (2020), section 2.1: where 6 N D comes from; Chowdhery
#   and others, *PaLM* (2022), appendix B: MFU.
# * Stanford CS336, assignment 1: the same loop, optimizer and accounting, from scratch.
