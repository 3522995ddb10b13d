"""Unit 13: its variants. What each must lose stands next to it; () means full marks.

limits_and_tiles.py   limits, tiles, machine code, orders of tiles, descriptors
gluon.py              layouts, banks, and copies by cp.async
"""

from grader.audit.variants.sm import gluon, limits_and_tiles

VARIANTS = [*limits_and_tiles.VARIANTS, *gluon.VARIANTS]
