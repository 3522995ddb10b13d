"""Whether two functions compute one formula: evaluated where nothing is rounded, so that equal means equal, bit for bit.

equivalent(f, g, cases)

field.py        numbers without rounding, as 64-bit words
operations.py   the operations of Triton on them
launches.py     a trace that evaluates kernels so, and the words behind tensors
host.py         what torch does between launches
equivalence.py  two functions, run on the same random inputs, compared
in_child.py     the same, where the two run in different processes
"""

from tritontrace.exact.equivalence import Equivalence, Reference, equivalent
from tritontrace.exact.in_child import Evaluated, evaluated

__all__ = ["Equivalence", "Evaluated", "Reference", "equivalent", "evaluated"]
