"""Unit 14: the variants of its two parts. What each must lose stands next to it; () means full marks.

asynchrony.py    mbarriers, TMA, wgmma, one at a time
pipelines.py     pipelined and specialised products and attention, races to be named
"""

from grader.audit.variants.hopper import asynchrony, pipelines

VARIANTS = [*asynchrony.VARIANTS, *pipelines.VARIANTS]
