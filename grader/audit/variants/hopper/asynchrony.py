"""Unit 12: layouts, banks, cp.async, mbarriers, TMA, wgmma, one at a time. What each variant must lose stands next to it; () means full marks."""

from grader.audit.variants import kinds

wrong, honest = kinds("hopper")

VARIANTS = []
