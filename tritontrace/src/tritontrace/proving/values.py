"""Values of a kernel as functions of a lane: numbers, truths and pointers, each with what must hold for its formula to be true.

A 32-bit product that wraps around is not the product; so each number carries its needs, such as "this sum fits into 32 bits", and
whoever uses it proves them where it matters: a lane that a mask switches off may wrap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tritontrace.proving import formulas
from tritontrace.proving.formulas import ALWAYS, Condition, SizeFormula

Index = tuple[SizeFormula, ...]  # one for each axis of a block


@dataclass(frozen=True)
class Need:
    """A condition under which an operation gives what its formula says; `place` is the number of its place (evaluate.Places)."""

    condition: Condition
    place: int


Needs = frozenset[Need]
NONE: Needs = frozenset()


@dataclass(frozen=True)
class Number:
    """A symbolic whole number."""

    formula: SizeFormula
    needs: Needs = NONE


@dataclass(frozen=True)
class Truth:
    """A symbolic value of type i1."""

    condition: Condition
    needs: Needs = NONE


@dataclass(frozen=True)
class Pointer:
    """A symbolic pointer into the tensor of an argument: the argument's number, -1 if it is not known, and an offset in elements."""

    argument: int
    offset: Number


@dataclass(frozen=True)
class Other:
    """A value that no address depends on: a float."""


Value = Number | Truth | Pointer | Other


@dataclass(eq=False)
class SymbolicBlock:
    """A symbolic value for each lane: `function` computes that of an index, cached."""

    function: Callable[[Index], Value]
    _known: dict[Index, Value] = field(default_factory=dict)

    def at(self, index: Index = ()) -> Value:
        if index not in self._known:
            self._known[index] = self.function(index)
        return self._known[index]


def constant(value: Value) -> SymbolicBlock:
    """Return a block with the same value in each lane."""
    return SymbolicBlock(lambda index: value)


def fits(formula: SizeFormula, bits: int, place: int) -> Needs:
    """Return the need that a result fits into a signed integer of `bits` bits."""
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    condition = formulas.both(formulas.at_least(formula, low), formulas.at_most(formula, high))
    return NONE if condition == ALWAYS else frozenset({Need(condition, place)})


def merged(condition: Truth, yes: Value, no: Value) -> Value | None:
    """Return the conditional of two values; None if they are of two kinds."""
    match yes, no:
        case Number(), Number():
            both = formulas.chosen(condition.condition, yes.formula, no.formula)
            return Number(both, condition.needs | yes.needs | no.needs)
        case Truth(), Truth():
            one = formulas.both(condition.condition, yes.condition)
            other = formulas.both(formulas.negated(condition.condition), no.condition)
            return Truth(formulas.either(one, other), condition.needs | yes.needs | no.needs)
        case Pointer(), Pointer() if yes.argument == no.argument:
            offset = merged(condition, yes.offset, no.offset)
            assert isinstance(offset, Number)
            return Pointer(yes.argument, offset)
        case Other(), Other():
            return yes
    return None
