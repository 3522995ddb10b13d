"""Formulas and conditions for z3, an SMT solver: whether sizes exist for which a condition holds, and the smallest.

A product of two sizes is hard for a solver and often needless: `linear` takes each product for a number of its own, of which
nothing is known but that it is the same for the same factors. What cannot happen then cannot happen at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from tritontrace.proving import formulas
from tritontrace.proving.formulas import (
    Atom,
    Choice,
    Condition,
    Monomial,
    PowerOfTwo,
    Quotient,
    Remainder,
    SizeFormula,
    Symbol,
    whole,
)
from tritontrace.proving.quotients import follows

try:
    import z3
except ModuleNotFoundError:
    raise ModuleNotFoundError("a proof needs z3: python -m pip install 'tritontrace[prove]'", name="z3") from None

EFFORT = 3_000_000  # of z3's own units, so that the answer does not depend on the machine
TOP = 62  # the largest power of two of a size


class Translation:
    """Translates formulas to z3 terms, each cached, with the definitions of their parts."""

    def __init__(self, linear: bool, programs: Mapping[str, SizeFormula]):
        self.linear, self._programs = linear, programs
        # trap: in a context that several share, z3 may give up, or not, by what was asked before, and by when Python frees it
        self._context = z3.Context()
        self._atoms: dict[Atom, Any] = {}
        self._products: dict[Monomial, Any] = {}
        self._quotients: dict[tuple[SizeFormula, SizeFormula], tuple[Any, Any]] = {}
        self._conditions: dict[Condition, Any] = {}
        self._definitions: list[Any] = []
        self._needed: dict[
            Any, dict[int, Any]
        ] = {}  # by atom or product: the definitions without which it means nothing
        self._used: list[dict[int, Any]] = [{}]
        self._count = count()

    def ask(self, conditions: Iterable[Condition], effort: int = EFFORT) -> tuple[bool | None, Any]:
        """Return whether all conditions can hold, None if z3 gives up; and z3's model."""
        terms: list[Any] = []
        definitions: dict[int, Any] = {}
        for condition in conditions:
            term, needed = self._whole(condition)
            terms.append(term)
            definitions |= needed
        terms += definitions.values()
        # without its tactics z3 says in a hundredth of the time what it can say at all
        for make, most in ((z3.SimpleSolver, effort // 10), (z3.Solver, effort)):
            solver = make(ctx=self._context)
            solver.set("rlimit", most)
            solver.add(*terms)
            result = z3.Solver.check(solver)
            if result != z3.unknown:
                return result == z3.sat, solver.model() if result == z3.sat else None
        return None, None

    def sizes(
        self, conditions: Iterable[Condition], names: Sequence[str], most: int
    ) -> tuple[dict[str, int] | None, bool]:
        """Return (numbers of these symbols, with a sum of at most `most`, for which all conditions hold; whether z3 decided that, and did
        not give up)."""
        total = whole(0)
        for name in names:
            total = total + formulas.symbol(name, low=1)
        happens, model = self.ask([*conditions, formulas.at_most(total, most)])
        if model is None:
            return None, happens is False
        return {name: model.eval(self._number(name), model_completion=True).as_long() for name in names}, True

    def happens(self, condition: Condition, model: Any) -> bool:
        """Whether a condition holds in a model, as far as that tells."""
        return not z3.is_false(model.eval(self._whole(condition)[0], model_completion=True))

    def _whole(self, condition: Condition) -> tuple[Any, dict[int, Any]]:
        self._used.append({})
        return self._condition(condition), self._used.pop()

    def _condition(self, condition: Condition) -> Any:
        return self._once(self._conditions, condition, self._truth)

    def _truth(self, condition: Condition) -> Any:
        match condition.kind:
            case "and":
                return z3.And([self._condition(part) for part in condition.parts], self._context)
            case "or":
                return z3.Or([self._condition(part) for part in condition.parts], self._context)
            case "not":
                return z3.Not(self._condition(condition.parts[0]))
        assert condition.formula is not None
        if (bounds := _of_a_power(condition.formula, condition.kind)) is not None:
            of, low, high = bounds
            n = self._formula(of)
            return z3.And(
                [*([n >= low] if low is not None else []), *([n <= high] if high is not None else [])], self._context
            )
        number = self._formula(condition.formula)
        return number <= 0 if condition.kind == "<=" else number == 0

    def _formula(self, formula: SizeFormula) -> Any:
        terms = [self._term(monomial, factor) for monomial, factor in formula.terms.items()]
        return z3.Sum(terms) if len(terms) > 1 else terms[0] if terms else z3.IntVal(0, self._context)

    def _term(self, monomial: Monomial, factor: int) -> Any:
        if not monomial:
            return z3.IntVal(factor, self._context)
        product = self._product(monomial)
        return product if factor == 1 else factor * product

    def _product(self, monomial: Monomial) -> Any:
        if len(monomial) == 1:
            return self._once(self._atoms, monomial[0], self._atom)
        return self._once(self._products, monomial, self._many)

    def _once(self, known: dict, key: Any, make: Callable[[Any], Any]) -> Any:
        """A term that is made when it is first used; whoever uses it again uses its definitions, too."""
        if key not in known:
            self._used.append({})
            known[key] = make(key)
            self._needed[key] = self._used.pop()
        self._used[-1] |= self._needed.get(key, {})
        return known[key]

    def _number(self, name: str) -> Any:
        return z3.Int(name, self._context)

    def _define(self, *terms: Any) -> None:
        for term in terms:
            self._used[-1][len(self._definitions)] = term
            self._definitions.append(term)

    def _many(self, monomial: Monomial) -> Any:
        factors = [self._product((atom,)) for atom in monomial]
        if not self.linear:
            return z3.Product(factors)
        sorts = [z3.IntSort(self._context)] * (len(factors) + 1)
        made: Any = z3.Function(f"product of {len(factors)}", *sorts)(*factors)
        if formulas.never_negative(SizeFormula({monomial: 1})):
            self._define(made >= 0)
            for i, one in enumerate(monomial):
                rest, most = monomial[:i] + monomial[i + 1 :], self._most(one)
                if most is not None:
                    self._define(made <= most * self._product(rest))
                if isinstance(one, Symbol) and one.low is not None and one.low > 0:
                    self._define(made >= one.low * self._product(rest))
        return made

    def _most(self, atom: Atom) -> int | None:
        """The most that a symbol can be, if that is a number: one of seven programs along an axis has at most the number 6."""
        if not isinstance(atom, Symbol):
            return None
        programs = self._programs.get(atom.name)
        return atom.high if programs is None or programs.constant is None else programs.constant - 1

    def _atom(self, atom: Atom) -> Any:
        match atom:
            case Symbol():
                number = self._number(repr(atom))
                self._define(*([number >= atom.low] if atom.low is not None else []))
                self._define(*([number <= atom.high] if atom.high is not None else []))
                return number
            case Choice():
                return z3.If(self._condition(atom.condition), self._formula(atom.yes), self._formula(atom.no))
            case Quotient() | Remainder():
                pair = self._once(self._quotients, (atom.of, atom.by), self._pair)
                return pair[isinstance(atom, Remainder)]
            case PowerOfTwo():
                power, n = self._number(f"power {next(self._count)}"), self._formula(atom.of)
                cases = [z3.And(power == 1, n <= 1)]
                cases += [z3.And(power == 1 << i, n > 1 << i - 1, n <= 1 << i) for i in range(1, TOP + 1)]
                self._define(z3.Or(cases))
                return power

    def _pair(self, division: tuple[SizeFormula, SizeFormula]) -> tuple[Any, Any]:
        """A quotient and what is left, by what they mean."""
        (of, by), number = division, next(self._count)  # trap: of and by may hold quotients, whose names are others
        q, r = (self._number(f"{kind} {number}") for kind in ("quotient", "remainder"))
        dividend = self._formula(of)
        if by.constant is not None:
            if by.constant >= 1:  # of another divisor nothing is said, so that nothing contradicts itself
                self._define(dividend == q * by.constant + r, r >= 0, r < by.constant)
            return q, r
        self._atoms[Quotient(of, by)] = q  # so that q * by is known as the product that it is
        self._needed[Quotient(of, by)] = self._used[-1]
        divisor, product = self._formula(by), self._formula(formulas.of(Quotient(of, by)) * by)
        meant = [dividend == product + r, r >= 0, r < divisor]
        if formulas.never_negative(of):
            meant += [q >= 0, q <= dividend, r <= dividend]
        meant += [self._condition(condition) for condition in follows(Quotient(of, by), self._programs)]
        self._define(z3.Implies(divisor >= 1, z3.And(meant)))
        return q, r


def _of_a_power(formula: SizeFormula, kind: str) -> tuple[SizeFormula, int | None, int | None] | None:
    """(n, the least, the most that it may be), where `formula <= 0` or `formula == 0` compares next_power_of_2(n) with a number: n lies
    between two powers of two, which is easier than to know which one is the next."""
    constant = formula.terms.get((), 0)
    others = [(monomial, factor) for monomial, factor in formula.terms.items() if monomial]
    if len(others) != 1 or len(others[0][0]) != 1 or not isinstance(power := others[0][0][0], PowerOfTwo):
        return None
    factor = others[0][1]
    if kind == "==":
        number, rest = divmod(-constant, factor)
        if rest or number < 1 or number & (number - 1):
            return power.of, 1, 0
        return power.of, number // 2 + 1 if number > 1 else None, number
    if factor > 0:
        most = -constant // factor
        return (power.of, None, 1 << most.bit_length() - 1) if most >= 1 else (power.of, 1, 0)
    least = -(constant // factor)
    return power.of, (1 << (least - 1).bit_length() - 1) + 1 if least > 1 else None, None


def smallest(
    translation: Translation, conditions: Sequence[Condition], sizes: Sequence[str], most: int
) -> tuple[dict[str, int] | None, bool]:
    """Return (the sizes with the smallest sum, up to `most`, for which all conditions hold, None if there are none; whether z3 gave up on
    nothing smaller)."""
    bound, below, sure = 16, 0, True
    while True:
        result, known = translation.sizes(conditions, sizes, bound)
        sure = sure and known
        if result is not None or bound >= most:
            break
        below, bound = bound, 4 * bound
    while result is not None and below + 1 < (now := sum(result.values())):
        middle = (below + now) // 2
        better, known = translation.sizes(conditions, sizes, middle)
        sure = sure and known
        below, result = (below, better) if better is not None else (middle, result)
    return result, sure
