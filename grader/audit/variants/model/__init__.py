"""Unit 11: the variants of its two halves. What each must lose stands next to it; () means full marks.

training.py    optimizers, data, accounting, checkpoints, kernels in a model
serving.py     positions, attention interfaces, operators, caches, decoding
"""

from grader.audit.variants.model import serving, training

VARIANTS = [*training.VARIANTS, *serving.VARIANTS]
