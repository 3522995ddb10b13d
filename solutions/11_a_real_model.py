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
# {{unit points}} in {{unit exercises}}.

# %%
import math
import os
from dataclasses import replace


import numpy as np
import torch
import triton
import triton.language as tl

from course_lib import check, figures, hint, progress, trace  # noqa: F401 (hint is yours to call)

# %% [markdown]
# ## Exercise: five optimizers, each by what it adds
#
# {{exercise model.update}}
#
# {{correct.sgd}} {{correct.momentum}} {{correct.adagrad}} {{correct.rmsprop}} {{correct.adam}}

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
# ## Exercise: AdamW in one launch
#
# {{exercise model.adamw_step}}
#
# {{correct.ragged}} {{correct.first}} {{correct.decay}} {{correct.small}} {{correct.half}} {{launches.performance}} {{traffic.performance}}
# {{buffers_below.performance}}

# %% exercise="model.adamw_step"
### BEGIN SOLUTION
@triton.jit
def adamw_kernel(
    p_ptr, g_ptr, m_ptr, v_ptr, low_ptr, n, lr, beta1, beta2, eps, decay, c1, c2, LOW: tl.constexpr, BLOCK: tl.constexpr
):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)  # a large model has more parameters than int32 has numbers
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
