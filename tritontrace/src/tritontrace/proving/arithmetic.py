"""Operations of TTIR on whole numbers and truths, as formulas. What has no formula here is a number that nobody knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tritontrace.proving import formulas
from tritontrace.proving.formulas import Condition, SizeFormula, both, negated
from tritontrace.proving.values import Need, Needs, Number, Truth, Value, fits, merged

WIDTHS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "index": 64}


def _not_negative(place: int, *some: Number) -> Needs:
    result = [n.formula for n in some if not formulas.never_negative(n.formula)]
    return frozenset(Need(formulas.at_least(f, 0), place) for f in result)


def _divisor(by: Number, place: int) -> Needs:
    condition = formulas.at_least(by.formula, 1)
    return frozenset() if condition == formulas.ALWAYS else frozenset({Need(condition, place)})


def _toward_zero(a: SizeFormula, by: SizeFormula) -> SizeFormula:
    if formulas.never_negative(a):
        return formulas.divided(a, by)
    negative = -formulas.divided(-a, by)
    return formulas.chosen(formulas.at_least(a, 0), formulas.divided(a, by), negative)


def _remainder(a: SizeFormula, by: SizeFormula) -> SizeFormula:
    """The remainder where the quotient is rounded toward zero."""
    if formulas.never_negative(a):
        return formulas.remainder(a, by)
    return formulas.chosen(formulas.at_least(a, 0), formulas.remainder(a, by), -formulas.remainder(-a, by))


def fits_of(formula: SizeFormula, element: str) -> set[Condition]:
    """Return the condition under which a number fits into its type; none for a pointer."""
    return {need.condition for need in fits(formula, WIDTHS[element], -1)} if element in WIDTHS else set()


Binary = Callable[[SizeFormula, SizeFormula], SizeFormula]
_SIGNED: dict[str, Binary] = {
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
    "arith.minsi": formulas.smaller,
    "arith.maxsi": formulas.larger,
}
_UNSIGNED: dict[str, Binary] = {"arith.minui": formulas.smaller, "arith.maxui": formulas.larger}
_DIVIDING: dict[str, Binary] = {
    "arith.divsi": _toward_zero,
    "arith.remsi": _remainder,
    "arith.floordivsi": formulas.divided,
    "arith.ceildivsi": lambda a, b: -formulas.divided(-a, b),
}
_DIVIDING_UNSIGNED: dict[str, Binary] = {"arith.divui": formulas.divided, "arith.remui": formulas.remainder}
_PREDICATES: Mapping[str, Callable[[SizeFormula, SizeFormula], Condition]] = {
    "eq": formulas.equal,
    "ne": lambda a, b: negated(formulas.equal(a, b)),
    "lt": formulas.less,
    "le": formulas.at_most,
    "gt": lambda a, b: formulas.less(b, a),
    "ge": formulas.at_least,
}
NAMES = {*_SIGNED, *_UNSIGNED, *_DIVIDING, *_DIVIDING_UNSIGNED} | {
    f"arith.{name}" for name in ("cmpi", "select", "andi", "ori", "xori", "shli", "shrsi", "shrui", "extsi", "extui")
}
NAMES |= {f"arith.{name}" for name in ("trunci", "index_cast", "bitcast")}


def computed(name: str, attributes: Mapping[str, Any], values: list[Value], element: str, place: int) -> Value | None:
    """Return the symbolic result of an operation of NAMES, of type `element`, at a place; None if it has no formula."""
    if name == "arith.select" and isinstance(values[0], Truth):
        return merged(values[0], values[1], values[2])
    if all(isinstance(value, Truth) for value in values):
        return _of_truths(name, attributes, [v for v in values if isinstance(v, Truth)], element)
    numbers = [value for value in values if isinstance(value, Number)]
    if len(numbers) != len(values) or element not in WIDTHS:
        return None
    needs: Needs = frozenset().union(*(number.needs for number in numbers))
    if len(numbers) == 1:
        return _converted(name, numbers[0], element, place)
    a, b = numbers
    if name == "arith.cmpi":
        return _compared(attributes["predicate"], a, b, needs, place)
    if name in _UNSIGNED or name in _DIVIDING_UNSIGNED:
        needs |= _not_negative(place, a, b)
    if name in _DIVIDING or name in _DIVIDING_UNSIGNED:
        needs |= _divisor(b, place)
    operation = {**_SIGNED, **_UNSIGNED, **_DIVIDING, **_DIVIDING_UNSIGNED}.get(name)
    if operation is None:
        return _of_bits(name, a, b, needs, element, place)
    formula = operation(a.formula, b.formula)
    return Number(formula, needs | fits(formula, WIDTHS[element], place))


def _of_truths(name: str, attributes: Mapping[str, Any], truths: list[Truth], element: str) -> Value | None:
    needs: Needs = frozenset().union(*(truth.needs for truth in truths))
    if len(truths) == 1:
        if element == "i1":
            return truths[0]
        one = formulas.whole(-1 if name == "arith.extsi" else 1)
        return Number(formulas.chosen(truths[0].condition, one, formulas.whole(0)), needs)
    a, b = truths[0].condition, truths[1].condition
    different = formulas.either(both(a, negated(b)), both(negated(a), b))
    match name, attributes.get("predicate"):
        case ("arith.andi" | "arith.muli", _):
            return Truth(both(a, b), needs)
        case ("arith.ori", _):
            return Truth(formulas.either(a, b), needs)
        case ("arith.xori", _) | ("arith.cmpi", "ne"):
            return Truth(different, needs)
        case ("arith.cmpi", "eq"):
            return Truth(negated(different), needs)
    return None


def _compared(predicate: str, a: Number, b: Number, needs: Needs, place: int) -> Truth:
    if predicate[0] == "u":
        needs |= _not_negative(place, a, b)
    kind = predicate if predicate in ("eq", "ne") else predicate[1:]
    return Truth(_PREDICATES[kind](a.formula, b.formula), needs)


def _converted(name: str, number: Number, element: str, place: int) -> Value | None:
    match name:
        case "arith.extsi" | "arith.index_cast" | "arith.bitcast":
            return number
        case "arith.extui":
            return Number(number.formula, number.needs | _not_negative(place, number))
        case "arith.trunci" if element != "i1":
            return Number(number.formula, number.needs | fits(number.formula, WIDTHS[element], place))
    return None


def _of_bits(name: str, a: Number, b: Number, needs: Needs, element: str, place: int) -> Value | None:
    """Shifts by a constant, and a mask of the lowest bits."""
    amount = b.formula.constant
    if amount is None or amount < 0:
        return None
    if name == "arith.shli" and amount < WIDTHS[element]:
        formula = a.formula * (1 << amount)
        return Number(formula, needs | fits(formula, WIDTHS[element], place))
    if name in ("arith.shrsi", "arith.shrui") and amount < WIDTHS[element]:
        needs |= _not_negative(place, a) if name == "arith.shrui" else frozenset()
        return Number(formulas.divided(a.formula, formulas.whole(1 << amount)), needs)
    if name == "arith.andi" and amount & (amount + 1) == 0:  # of two's complement, whatever the sign
        return Number(formulas.remainder(a.formula, formulas.whole(amount + 1)), needs)
    return None
