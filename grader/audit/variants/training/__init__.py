"""Unit 11: the variants of its two halves. What each must lose stands next to it; () means full marks.

loop.py          optimizers, data, accounting, checkpoints, kernels in a model
derivatives.py   gradients of shared heads, and an operator of torch
"""

from grader.audit.variants.training import derivatives, loop

VARIANTS = [*loop.VARIANTS, *derivatives.VARIANTS]
