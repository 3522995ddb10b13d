"""Unit 11, by its halves. What each variant must lose stands next to it; () means full marks."""

from grader.audit.variants.model import serving

VARIANTS = [*serving.VARIANTS]
