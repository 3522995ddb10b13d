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
