"""Unit 11: the variants of its two halves.

training.py    optimizers, data, accounting, checkpoints, kernels in a model
"""

from grader.audit.variants.model import training

VARIANTS = [*training.VARIANTS]
