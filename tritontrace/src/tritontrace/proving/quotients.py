"""Facts that follow for quotients from how many programs there are: facts that a solver would need products of unknowns for.

A grid of cdiv(M, 64) * cdiv(N, 64) programs is walked by `pid // cdiv(N, 64)`: that is less than cdiv(M, 64). In groups of rows,
as in Triton's tutorial, there are three such quotients, one of what another leaves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from tritontrace.proving import formulas
from tritontrace.proving.formulas import Condition, Monomial, Quotient, Remainder, SizeFormula, Symbol, either, whole


def follows(division: Quotient, programs: Mapping[str, SizeFormula]) -> Iterator[Condition]:
    """Yield facts about a quotient whose divisor is at least 1. programs: name of a program's number -> how many there are."""
    for bound, divisors in _less_than(division.of, programs):
        unless = [formulas.at_most(one, 0) for one in divisors]
        if (count := _quotient(bound, division.by)) is not None:  # of < count * by
            yield either(formulas.less(formulas.of(division), count), *unless)
        common = _common([*bound.terms, *division.by.terms])
        rest = _by(division.by, common)
        if common and rest is not None and rest.constant is not None and (most := _by(bound, common)) is not None:
            # of < most * common, by = rest * common
            yield either(formulas.less(formulas.of(division) * rest.constant, most), *unless)


def shares(program: Symbol, programs: SizeFormula) -> Iterator[Condition]:
    """Yield the fact that all shares but the last are whole, where a grid of cdiv(M, share) programs has a share that depends on sizes."""
    match [*programs.terms.items()]:
        case [((Quotient(of, by),), 1)] if by.constant is None:
            yield either(formulas.at_most(by, 0), formulas.at_most((formulas.of(program) + 1) * by, of))


def _less_than(
    formula: SizeFormula, programs: Mapping[str, SizeFormula]
) -> Iterator[tuple[SizeFormula, list[SizeFormula]]]:
    """Numbers that a formula stays below where these divisors are at least 1."""
    if len(formula.terms) != 1:
        return
    (((monomial, factor),),) = (formula.terms.items(),)
    match monomial:
        case (Symbol() as one,) if factor == 1 and one.name in programs:
            yield programs[one.name], []
        case (Remainder() as remaining,) if factor == 1:
            yield remaining.by, [remaining.by]
            for bound, divisors in _less_than(remaining.of, programs):
                whole_parts = formulas.of(Quotient(remaining.of, remaining.by)) * remaining.by
                yield bound - whole_parts, [*divisors, remaining.by]
        case (Quotient() as quotient,) if factor == 1:
            for bound, divisors in _less_than(quotient.of, programs):
                if (count := _quotient(bound, quotient.by)) is not None:
                    yield count, [*divisors, quotient.by]


def _quotient(formula: SizeFormula, by: SizeFormula) -> SizeFormula | None:
    """The one product that, times `by`, is the formula."""
    for divisor, factor in list(by.terms.items())[:1]:
        for monomial, other in formula.terms.items():
            remaining = without(monomial, divisor)
            if remaining is not None and other % factor == 0:
                candidate = SizeFormula({remaining: other // factor})
                if candidate * by == formula:
                    return candidate
    return None


def _common(monomials: list[Monomial]) -> Monomial:
    """The factors that all products have."""
    common = Counter(monomials[0])
    for monomial in monomials[1:]:
        common &= Counter(monomial)
    return tuple(sorted(common.elements(), key=repr))


def _by(formula: SizeFormula, unit: Monomial) -> SizeFormula | None:
    """The formula without factors that all of its products have."""
    result = whole(0)
    for monomial, factor in formula.terms.items():
        remaining = without(monomial, unit)
        if remaining is None:
            return None
        result = result + SizeFormula({remaining: factor})
    return result


def without(monomial: Monomial, unit: Monomial) -> Monomial | None:
    """Divide a monomial by another one; None if it does not contain all of its factors."""
    mine, theirs = Counter(monomial), Counter(unit)
    if theirs - mine:
        return None
    return tuple(sorted((mine - theirs).elements(), key=repr))
