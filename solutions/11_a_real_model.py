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
# **After this unit you can** put the kernels of the earlier units into a model, and write text with it. About three hours,
# {{unit minutes}} of them for {{unit exercises}}.

# %%
import math

import torch
import triton
import triton.language as tl

from course_lib import check, figures, hint, progress, trace  # noqa: F401 (hint is yours to call)

# %% [markdown]
# ## Exercise: the cache
#
# {{exercise model.kv_cache}}
#
# Full marks need
# * any pieces ({{correct.ragged}}), a ring ({{correct.ring}}), a prompt longer than the ring ({{correct.long}}),
# * each token moved once ({{moves.performance}}), in a full ring, too ({{moves.full ring}}), and nothing else allocated ({{buffers_below.full ring}}).


# %% exercise="model.kv_cache"
class KVCache:
    """Keys and values of one layer, (B, Hkv, slots, D) each: token t is in slot t % slots."""

    def __init__(self, B, Hkv, slots, D, dtype=torch.float32, device="cpu"):
        self.k, self.v = torch.empty(2, B, Hkv, slots, D, dtype=dtype, device=device)
        self.slots, self.length = slots, 0  # tokens that have come, those that were written over among them

    def append(self, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """k, v (B, Hkv, n, D), the next n tokens -> views (B, Hkv, min(length, slots), D) of all that are kept."""
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
