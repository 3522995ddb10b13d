"""Unit 12: what needs no Hopper: limits, tiles, machine code, orders of tiles. What each variant must lose stands next to it; () means full marks."""

from grader.audit.variants import kinds

wrong, honest = kinds("hopper")

VARIANTS = []
