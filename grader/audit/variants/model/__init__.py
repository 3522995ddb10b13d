"""Unit 11: the variants of training, and those of serving."""

from grader.audit.variants.model import training

VARIANTS = [*training.VARIANTS]
