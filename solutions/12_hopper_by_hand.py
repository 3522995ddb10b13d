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
# # 12 · Hopper by hand
#
# **After this unit you can** ... {{unit minutes}} for {{unit exercises}}.

# %%
import torch
import triton
import triton.language as tl

from course_lib import check, figures, hint, progress, trace  # noqa: F401 (hint is yours to call)

# %% [markdown]
# # Part one: what needs no Hopper
#
# (anywhere: the developer of this part writes between this heading and the next)

# %% [markdown]
# # Part two: one asynchronous thing at a time
#
# (asynchrony)

# %% [markdown]
# # Part three: pipelines
#
# (pipelines)

# %% [markdown]
# ## What you now know
#
# * (anywhere)
# * (asynchrony)
# * (pipelines)

# %% gpu="hopper.progress"
progress()

# %% [markdown]
# The unit has {{unit points}} in {{unit exercises}}. Hand in this notebook; the grader runs the same checks on inputs that you
# have not seen.
#
# ## Where to read on
#
# * (anywhere)
# * (asynchrony)
# * (pipelines)
