"""Unit 12: pipelined and specialised products and attention, races to be named. What each variant must lose stands next to it; () means full marks."""

from grader.audit.variants import kinds

wrong, honest = kinds("hopper")

VARIANTS = []
