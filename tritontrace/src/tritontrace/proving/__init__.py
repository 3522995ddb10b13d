"""Whether a kernel's accesses are right for all sizes: proved, or refuted by the smallest sizes, which are then launched.

prove(function, *args)
counterexample(function, *args)
filled(example, shape)

formulas.py      whole numbers that depend on sizes, and conditions on them
sizes.py         host code's numbers, which remember how they were computed
shapes.py        torch's shapes as such numbers
launches.py      launches as host code makes them, with formulas for all that they are given
values.py        a kernel's values as functions of a lane
arithmetic.py    its operations on whole numbers
evaluate.py      its accesses, of any program and any lane
quotients.py, coordinates.py   what spares a solver products of unknowns
solver.py        formulas for z3
decide.py        the questions: inside its tensor? one program for each element?
replayed.py      a counterexample, launched
host_runs.py     host code, run on an example and on other sizes
proofs.py        all of it, for one function;  show.py  in words
"""

from tritontrace.proving.proofs import Claim, Proof, ProvedLaunch, counterexample, prove
from tritontrace.proving.replayed import filled

__all__ = ["Claim", "Proof", "ProvedLaunch", "counterexample", "filled", "prove"]
