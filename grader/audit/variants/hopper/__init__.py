"""Unit 12: the variants of its three parts. What each must lose stands next to it; () means full marks.

anywhere.py      what needs no Hopper: limits, tiles, machine code, orders of tiles
asynchrony.py    layouts, banks, cp.async, mbarriers, TMA, wgmma, one at a time
pipelines.py     pipelined and specialised products and attention, races to be named
"""

from grader.audit.variants.hopper import anywhere, asynchrony, pipelines

VARIANTS = [*anywhere.VARIANTS, *asynchrony.VARIANTS, *pipelines.VARIANTS]
