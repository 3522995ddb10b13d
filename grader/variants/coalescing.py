"""Unit 04. What each variant must lose stands beside it; () means full marks."""

from grader.variants import Variant

DENSE_LOADS, DENSE_STORES, ONCE = "loads are dense", "stores are dense", "reads once, writes once"
PLAIN, RAGGED, STRIDED = "right on plain inputs", "right on ragged inputs", "right on strided inputs"
TRITON, COMPILES = "computed by your Triton kernel", "compiles for a GPU"

VARIANTS: list[Variant] = []
