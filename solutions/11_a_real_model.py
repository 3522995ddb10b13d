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
# **After this unit you can** write an optimizer in one launch and say why it cannot be faster, feed a model from a file that
# does not fit into memory, train with batches that do not fit either, say beforehand how much memory, time and money a training
# run takes, stop a run and go on without a difference of one bit, and put kernels of your own into a model so that every
# parameter learns. About four hours, {{unit minutes}} of them for {{unit exercises}}. You need 06 (fusion), 07 (autograd
# functions, what is kept for backward) and 10 (attention as one such function). No GPU is needed.

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
# A model of 1.1 billion parameters in bfloat16 has weights of 2.2 GB. It is trained with AdamW on 4 texts of 4096 tokens at a
# time. How many GB of memory does a training step need?

# %% predict="model.guess_memory"
# Write a number of GB before you go on; no points hang on it. The answer is in "What does a training step hold?" below.
guess_memory = ...

# %% [markdown]
# ## The model
#
# The model of this unit is one file, `course_lib/workloads/gpt.py`. Open it: if you know nanoGPT, you know this one. It has
# what today's models have (RMSNorm, rotary positions, heads that share keys and values, SwiGLU), and whatever is not a matrix
# product stands in a **slot**:

# %%
model = GPT(TOY)
for slot, operation in vars(model.ops).items():
    print(f"{slot:10} {operation.__module__}.{operation.__name__}")
with torch.device("meta"):  # shapes without memory
    large = GPT(LARGE)
for name, sized in {"the toy": model, "the large one": large}.items():
    print(f"{name} has {sum(p.numel() for p in sized.parameters()):,} parameters")

# %% [markdown]
# The same file makes both models. The toy trains here, on a CPU. What do the slots have to do with speed? Here is one block of
# the toy, forward and backward. Before you run the cell: the products with weights are the same in both rows. What share of the
# launches do you think is left?

# %%
figures.model.block()

# %% [markdown]
# Each launch reads its inputs from memory and writes its result there. Most of what torch moves here is not moved for the
# matrix products. It is moved between small operations that one kernel could do in registers, which was the subject of unit 06.
#
# ## Data: a file that nobody reads as a whole
#
# Our text is sums, one a line. It is made by the course, and it has a property that no book has: we know how well it can be
# predicted.

# %%
print(text.sums(4, seed=3), end="")
path = text.write_tokens("sums.bin", 20_000)  # a token is a character here, two bytes on the disk
print(f"{path.stat().st_size:,} bytes; nobody can do better than a loss of {text.best_loss():.3f}")

# %% [markdown]
# The two digits before each `=` are chance: their loss is ln 10 = 2.3 each. All else follows from what was before, and costs
# nothing. The mean over all characters is the number above.
#
# A real text is longer than memory. 1.4 trillion tokens of two bytes are 2.8 TB. `np.memmap(path, np.uint16, "r")` gives an
# array that lies on the disk: the system reads the pages that an index touches, and no others.
#
# A model learns to predict each token from those before. So the **targets** are the tokens, shifted by one:
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
# Write `get_batch(path, split, batch, context, generator)`. The file holds uint16 tokens. The first nine tenths of them,
# `len(tokens) * 9 // 10`, are the split "train", the rest is "val". Draw where windows begin with `torch.randint(...,
# generator=generator)`, each place with the same chance, and return tokens and targets, both (batch, context) and int64.
#
# Full marks need
# * windows that are pieces of the text ({{holds.pieces.plain}}), and targets that are the next tokens
#   ({{holds.shifted.plain}}),
# * splits that share no token, the last target included ({{holds.inside.plain}}),
# * every place of a split drawn sooner or later ({{holds.everywhere.every}}),
# * nothing drawn but by the generator ({{holds.by_the_generator.plain}}),
# * a file of 48 MB of which one batch reads next to nothing ({{holds.mapped.large}}).


# %% exercise="model.get_batch"
def get_batch(path, split: str, batch: int, context: int, generator: torch.Generator):
    """Windows of a file of uint16 tokens, drawn by the generator -> tokens and their successors, (batch, context) int64 each"""
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
# What do you do with a gradient? Each of these answers adds one idea to the one before.
#
# | rule | adds | remembers | a step |
# | --- | --- | --- | --- |
# | SGD | | nothing | p − lr · g |
# | momentum | steps add up | m ← 0.9 m + g | p − lr · m |
# | AdaGrad | a rate for each weight | s ← s + g² | p − lr · g / (√s + ε) |
# | RMSProp | and it forgets | s ← 0.99 s + 0.01 g² | p − lr · g / (√s + ε) |
# | Adam | both, and corrects their beginning | m ← 0.9 m + 0.1 g, v ← 0.999 v + 0.001 g² | p − lr · m̂ / (√v̂ + ε) |
#
# ε is 1e-8. AdaGrad's sum only grows, so its steps only shrink. A running mean forgets. But a running mean that begins at 0 is
# too small at first: after one step, v is 0.001 g², and a step divided by its root would be thirty times too large. So Adam
# divides by what a mean of ones would be by now: m̂ = m / (1 − 0.9ᵗ), v̂ = v / (1 − 0.999ᵗ), where t counts steps from 1.
#
# ## Exercise: five optimizers
#
# {{exercise model.update}}
#
# Write `update(rule, p, g, state, lr)` for one weight, in Python's numbers. `state` is an empty dict before the first step, and
# yours to fill. Each rule is compared with torch's: "sgd" ({{correct.sgd}}), "momentum" ({{correct.momentum}}), "adagrad"
# ({{correct.adagrad}}), "rmsprop" ({{correct.rmsprop}}), "adam" ({{correct.adam}}).


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
# **Decay** pulls weights towards 0. Adam with the decay in its gradient, g + λ p, divides the decay by √v̂ as well: weights
# with large gradients hardly decay. AdamW **decouples** it (Loshchilov and Hutter, 2017): p ← p · (1 − lr · λ), and then Adam's
# step.
#
# How fast can it be? A step does some fifteen operations for each parameter, which is nothing (03). It reads p, g, m and v, and
# writes p, m and v: **7 passes of memory**, 28 bytes for each parameter in float32. torch's operations, one after another, take
# more. Guess how many?

# %%
adamw_bytes = {"one launch": 28, "torch, operation by operation": 100}  # the second: foreach and fused turned off
for way, size in adamw_bytes.items():
    print(f"{way}: {1e3 * size * 1.1e9 / 4.8e12:.1f} ms for 1.1 billion parameters at 4.8 TB/s")

# %% [markdown]
# In **mixed precision** the model computes with bfloat16 weights. The neighbours of 1 in bfloat16 are 1 / 128 above and 1 / 256
# below. A step of 3e-4, added to such a weight, disappears (02). So the optimizer keeps a float32 **master** p, and the model
# gets a rounded copy, `low`. In a prototype of this unit the mean loss at the end of 200 steps was 1.93 in float32, 1.93 in
# bfloat16 with a master, and 2.31 without. The gradient comes in bfloat16. How many bytes is that? 2 for g, 24 for p, m and v,
# 2 for `low`: 28 again.
#
# ## Exercise: AdamW in one launch
#
# {{exercise model.adamw_step}}
#
# Write `adamw_step(p, g, m, v, low, lr, beta1, beta2, eps, weight_decay, step)`. All tensors are flat and have n elements; p, m
# and v are float32 and change in place. g is float32, or half precision. `low` is None, or the model's weights in half
# precision, which get the rounded p. The first step is step 1. In what order? p decays, m and v take in g, and p takes the step
# from the new m and v.
#
# Full marks need
# * the right step for any n ({{correct.ragged}}), in the first steps, too ({{correct.first}}),
# * decay that never meets m and v ({{correct.decay}}), ε added to the root and not under it ({{correct.small}}),
# * a float32 master ({{correct.half}}),
# * one launch ({{launches.performance}}), 28 bytes a parameter ({{traffic.performance}}), no memory besides
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
# On an H200 such a kernel moved 4.10 TB/s for 1.04 billion parameters, torch's fused AdamW 3.43, and its foreach version 1.26
# (a prototype of this unit, measured on 2026-11-22).
#
# ## A batch that does not fit
#
# The loss of a batch is a mean over its tokens, and a mean can be taken in parts. Run a **micro-batch** forward and backward,
# and its graph is gone. `backward()` *adds* to `p.grad`. What must each part be multiplied by, so that the sum is the gradient
# of the whole batch?
#
# ## Exercise: accumulate
#
# {{exercise model.accumulate}}
#
# Write `accumulate(model, batches)`. `model(tokens, targets)` gives the mean loss over the targets that are not −100; these are
# padding. Leave the gradient of the mean over **all** targets of all micro-batches in `p.grad`, and return that mean as a
# number.
#
# Full marks need
# * loss and gradients of one large batch ({{holds.same_loss.plain}}), where micro-batches have different numbers of targets,
#   too ({{holds.same_loss.padded}}),
# * gradients that do not depend on those from before ({{holds.begins_anew.plain}}),
# * one micro-batch's graph alive at a time ({{holds.one_at_a_time.memory}}).


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
# Would you have seen it in the losses, if the parts had been summed and not averaged? Adam divides m by √v, and a factor in all
# gradients cancels. In a run of 30 steps the losses differed in the sixth digit. Clip the gradients, and they differ in the
# second.
#
# ## Exercise: clip
#
# {{exercise model.clip}}
#
# One bad batch can throw a model far away. So gradients are scaled down when their **common** norm, that of all of them as one
# long vector, is above a limit. Their direction stays. Write `clip(gradients, largest)`: it changes the tensors in place and
# returns the norm that they had.
#
# Full marks need one norm of all gradients ({{holds.same_norm.plain}}), gradients scaled to the limit
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
# At first m and v are means of a few gradients, and a step may be far too large. So the rate rises from near 0. At the end,
# small steps settle.

# %%
figures.model.schedule()

# %% [markdown]
# Write `learning_rate(step, steps, peak, warm_up)`. Steps count from 0. Through the first `warm_up` steps it is a line; step 0
# has peak / warm_up, since a rate of 0 would waste a batch, and step warm_up − 1 has the peak ({{correct.warm-up}}). Then half
# a cosine leads from the peak at step `warm_up` to a tenth of it at step `steps` ({{correct.cosine}}), and there it stays
# ({{correct.after}}).


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
# Four things. **Weights** and **gradients**, in bfloat16. What the **optimizer** remembers: master, m and v in float32. And
# what the **forward pass keeps** for backward (07). Here they are for the toy, in float32 throughout. When is memory fullest?

# %%
figures.model.memory_of_a_step()

# %% [markdown]
# The first three depend on the number of parameters alone. The fourth grows with each token, and is the sum of what each kernel
# has chosen to keep. With the kernels of this course in the slots, one block keeps for each token:
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
# Besides the blocks, a token keeps x of the last norm and its result (width each, 2 bytes) and rstd (4), the logits (vocab, 2
# bytes), their lse (4), token and target (8 bytes each). And the step keeps the two tables of angles, n · D / 2 float32 numbers
# each.
#
# ## Exercise: predict the memory of a step
#
# {{exercise model.training_memory}}
#
# Write `training_memory(...)`: the number of parameters ({{holds.parameters.plain}}), the bytes of weights, gradients and
# optimizer in mixed precision ({{holds.state.plain}}), and the bytes that the forward pass keeps ({{holds.activations.plain}}).
# D is width / heads. Shapes of weights stand in `Block` and `GPT`. The numbers are compared with what is counted in the model,
# to the byte.


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
# (This is the formula of the exercise, which a count confirms on small models. An allocator rounds up, and an operation at work
# needs some memory besides.) Make the batch larger: which part grows? Make the model wider: which one now?
#
# ## Exercise: what a run costs
#
# {{exercise model.run_cost}}
#
# A weight of a matrix takes part in one multiplication and one addition for each token forward, and in twice as much backward:
# **6 N D**, for N weights and D tokens (03). Where does that fail? N counts matrices that multiply. The embedding is looked up,
# and multiplies nothing. And attention multiplies activations with activations: q kᵀ and p v forward, four products backward,
# for n (n + 1) / 2 pairs of a query and a key in each head.
#
# **MFU** is the share of a GPU's FLOP/s that these FLOPs use. What does it leave out? Whatever a kernel computes twice:
# FlashAttention's backward pass computes the scores again, and gets no credit for it. Norms and the optimizer do hardly any
# FLOPs, and yet take time.
#
# Write `run_cost(...)`: the FLOPs of one training step ({{holds.flops.plain}}), its seconds on a GPU of `flops_per_second` at
# that MFU ({{holds.seconds.plain}}), and the dollars of a run over `tokens` tokens, at `dollars` an hour
# ({{holds.dollars.plain}}).


# %% exercise="model.run_cost"
def run_cost(vocab, layers, width, heads, kv_heads, hidden, batch, n, tokens, flops_per_second, mfu, dollars):
    """dollars: of an hour of the GPU -> (FLOPs of a training step, its seconds, dollars for so many tokens)"""
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
# It will: a GPU fails, or your time on it ends. What does the next step depend on? Not on the weights alone. In prototypes of
# this unit the ten losses after a stop differed by 0.03 without the moments, by 0.05 with a schedule that began anew, by 0.11
# with a loader that did, and by 0.016 where random numbers were drawn from another state. None of these runs failed. Nobody
# would have noticed.
#
# ## Exercise: save and load
#
# {{exercise model.checkpoint}}
#
# Write `Checkpoint.save(path, run)` and `Checkpoint.load(path, run)`. A run has `model`, `optimizer` and `loader`, each with
# `state_dict()` and `load_state_dict(...)`, and `step`, a number. Random numbers come from two places: dropout draws from
# torch's global generator, and `run.generator`, a `torch.Generator`, draws which targets are left out. `load` gets a run that
# began with other numbers.
#
# Full marks need
# * the step ({{holds.same_step.plain}}),
# * the first loss after loading, equal bit for bit ({{holds.first_loss.plain}}), and all later ones
#   ({{holds.later_losses.plain}}),
# * a run that goes on after `save` as if it had not been saved ({{holds.undisturbed.plain}}),
# * a file that is whole, even if a save fails half way ({{holds.stays_whole.plain}}). `os.replace` puts a file in another's
#   place at once.


# %% exercise="model.checkpoint"
class Checkpoint:
    @staticmethod
    def save(path, run):
        """Writes all that the next step depends on to a file"""
        ### BEGIN SOLUTION
        state = {name: getattr(run, name).state_dict() for name in ("model", "optimizer", "loader")}
        state |= {"step": run.step, "global": torch.get_rng_state(), "own": run.generator.get_state()}
        torch.save(state, path + ".new")
        os.replace(path + ".new", path)  # as a whole, or not at all
        ### END SOLUTION

    @staticmethod
    def load(path, run):
        """Puts all of it into a run that may have begun otherwise"""
        ### BEGIN SOLUTION
        state = torch.load(path, weights_only=True)
        for name in ("model", "optimizer", "loader"):
            getattr(run, name).load_state_dict(state[name])
        run.step = state["step"]
        run.generator.set_state(state["own"])
        torch.set_rng_state(state["global"])
        ### END SOLUTION


# %% check="model.checkpoint"
check("model.checkpoint", Checkpoint)

# %% [markdown]
# ## Kernels in the model
#
# To autograd, a launch is nothing: tensors go in, new tensors come out, and no history connects them. A raw launch in the
# middle of a model cuts it in two. Everything below the cut gets no gradient, and the loss still falls, because what is above
# the cut goes on learning. Two such mistakes from public projects: query and key projections behind a raw launch never learned
# (LongLive, issue 61), and a norm's backward returned None for its weight (Unsloth, issue 4533).
#
# So each kernel goes into a `torch.autograd.Function` (07), which saves what its backward kernel needs.
#
# ## Exercise: swap in
#
# {{exercise model.swap_in}}
#
# Write `swap_in(model, kernels)`, and one autograd function for each slot: `norm`, `attention`, `swiglu`, `loss`. The kernels
# are launches by name:
#
# | forward | gives | backward | gives |
# | --- | --- | --- | --- |
# | `norm(x, weight)` | out, rstd | `norm_backward(dy, x, weight, rstd)` | dx, dweight |
# | `attention(q, k, v)` | o, lse | `attention_backward(do, q, k, v, o, lse)` | dq, dk, dv |
# | `swiglu(gate, up)` | out | `swiglu_backward(dy, gate, up)` | dgate, dup |
# | `cross_entropy(logits, targets)` | losses, lse, one a row | `cross_entropy_backward(dlosses, logits, targets, lse)` | dlogits |
#
# The slot `loss` gives the mean of the losses. In the check the kernels are written in torch, so that a model trains in a
# second, and count their launches; like launches they leave no history. Kernels of your own take their places one by one, on a
# GPU: `Kernels(norm=..., norm_backward=...)` in `course_lib/workloads/launched.py`.
#
# Full marks need
# * torch's gradient for every parameter ({{holds.every_parameter.plain}}), and ten losses that are torch's
#   ({{holds.same_losses.steps}}),
# * every slot on its kernels, each launched once each way ({{holds.launches.plain}}),
# * nothing kept but what backward needs ({{holds.keeps_little.plain}}).


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
    """Puts the kernels into the slots norm, attention, swiglu and loss of model.ops, with a way back for autograd"""
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
# Here is a training loop, with all that you have written:
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
# The next cell trains the toy twice from one seed, with torch's operations and with kernels in your autograd functions (the
# course's, where yours are not written yet). How far apart will the losses be after 120 steps?

# %%
figures.model.losses(swap_in)

# %% [markdown]
# Both runs see the same batches, and round differently in the last bit. The lower plot shows how such differences grow: each
# step starts from weights that differ a little more. That is why a check compares gradients, and losses of few steps.
#
# These kernels were written in torch. Yours in Triton fit into the same slots. The next cell looks into your notebooks of units
# 06 and 07, which should lie beside this one, and takes RMSNorm and the cross-entropy from there, both ways, where they are
# solved. Without a GPU they are traced, which takes a second a step.

# %%
print(figures.model.step_by_step(swap_in, *earlier.kernels()))

# %% [markdown]
# ## What you now know
#
# * The matrix products of a block are a part of what it moves. The rest is what kernels in its slots save.
# * AdamW is bound by memory: 28 bytes a parameter, in float32 as in mixed precision. Decay does not meet the moments, and the
#   first steps need both corrections.
# * A mean over micro-batches weighs each by its targets. Losses hide such mistakes; gradients show them.
# * A training step holds 16 bytes for each parameter, and for each token what the kernels have chosen to keep.
# * 6 N D counts matrices that multiply. Attention comes besides, and what is computed twice gets no credit.
# * A run that goes on bit for bit brings back weights, moments, step, the loader's place, and every generator.
# * A launch has no history. An autograd function gives it one, and every parameter must be seen to get its gradient.

# %% gpu="model.progress"
progress()

# %% [markdown]
# The unit has {{unit points}} in {{unit exercises}}. Hand in this notebook; the grader runs the same checks on inputs that you
# have not seen.
#
# ## Where to read on
#
# * Karpathy, *nanoGPT* and *nanochat*: the model and the loop that this unit imitates, at full size.
# * Kingma and Ba, *Adam* (2014); Loshchilov and Hutter, *Decoupled Weight Decay Regularization* (2017).
# * Micikevicius and others, *Mixed Precision Training* (2017): the float32 master.
# * Korthikanti and others, *Reducing Activation Recomputation in Large Transformer Models* (2022): the memory of a transformer,
#   term by term.
# * Kaplan and others, *Scaling Laws for Neural Language Models* (2020), section 2.1: where 6 N D comes from; Chowdhery and
#   others, *PaLM* (2022), appendix B: MFU.
# * Stanford CS336, assignment 1: the same loop, optimizer and accounting, from nothing.
