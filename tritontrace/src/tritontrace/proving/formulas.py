"""Integers that depend on sizes, as formulas: polynomials over atoms, and conditions on them. Data alone, and hashable.

An atom is a symbol (a size, a program's number, a lane, a loop's counter, a number that nobody knows), a quotient or a remainder,
a choice between two formulas, or the next power of two. All numbers are whole numbers without an end; what wraps around in 32
bits is the evaluator's matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import is_
from typing import Union

Atom = Union["Symbol", "Quotient", "Remainder", "Choice", "PowerOfTwo"]
Monomial = tuple[Atom, ...]  # sorted by repr: equal products are equal tuples
Whole = Union["SizeFormula", int]


class _WrittenOnce:
    """Parts that are long in words, and asked for often: products are sorted by it."""

    @cached_property
    def _text(self) -> str:
        return self._written()

    def _written(self) -> str:
        raise NotImplementedError

    def __repr__(self) -> str:
        return self._text


class SizeFormula(_WrittenOnce):
    """A polynomial with whole coefficients: monomial -> coefficient, () for the constant.

    >>> n = symbol("n")
    >>> (n + 1) * (n - 1)
    n*n - 1
    """

    def __init__(self, terms: Mapping[Monomial, int]):
        self.terms = {monomial: factor for monomial, factor in terms.items() if factor}
        self._hash = hash(frozenset(self.terms.items()))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SizeFormula) and self._hash == other._hash and self.terms == other.terms

    @property
    def constant(self) -> int | None:
        """Return the formula's number, if it is constant, else None."""
        return self.terms.get((), 0) if not self.terms.keys() - {()} else None

    def __add__(self, other: Whole) -> SizeFormula:
        terms = dict(self.terms)
        for monomial, factor in whole(other).terms.items():
            terms[monomial] = terms.get(monomial, 0) + factor
        return SizeFormula(terms)

    def __neg__(self) -> SizeFormula:
        return self * -1

    def __sub__(self, other: Whole) -> SizeFormula:
        return self + whole(other) * -1

    def __rsub__(self, other: int) -> SizeFormula:
        return whole(other) - self

    def __mul__(self, other: Whole) -> SizeFormula:
        if isinstance(other, int):
            return SizeFormula({monomial: other * factor for monomial, factor in self.terms.items()})
        terms: dict[Monomial, int] = {}
        for mine, factor in self.terms.items():
            for yours, another in other.terms.items():
                product = tuple(sorted((*mine, *yours), key=repr))
                terms[product] = terms.get(product, 0) + factor * another
        return SizeFormula(terms)

    __radd__, __rmul__ = __add__, __mul__

    def _written(self) -> str:
        text = ""
        for monomial, factor in sorted(self.terms.items(), key=lambda term: (-len(term[0]), repr(term[0]))):
            product = "*".join(map(repr, monomial))
            size = (
                product if product and abs(factor) == 1 else f"{abs(factor)}*{product}" if product else f"{abs(factor)}"
            )
            sign = ("-" if factor < 0 else "") if not text else " - " if factor < 0 else " + "
            text += sign + size
        return text or "0"


@dataclass(frozen=True, repr=False)
class Symbol(_WrittenOnce):
    """A named whole number, such as a size or a program's number.

    low, high   what it cannot leave, where that is known by itself
    unknown     why nobody knows it: the number of a place (evaluate.py); -1 of one that is known
    index       of a position in a block that nobody knows: at which place; equal places have equal numbers
    """

    name: str
    low: int | None = None
    high: int | None = None
    unknown: int = -1
    index: tuple[SizeFormula, ...] = ()

    def _written(self) -> str:
        return self.name + (f"[{', '.join(map(repr, self.index))}]" if self.index else "")


@dataclass(frozen=True, repr=False)
class Quotient(_WrittenOnce):
    """A floor division; `by` is at least 1 wherever it is used (evaluate.py asks for it)."""

    of: SizeFormula
    by: SizeFormula

    def _written(self) -> str:
        inner = self.of - (self.by - 1)
        if self.by.constant is not None and inner.terms.get((), 0) >= 0 and _plain(inner):
            return f"cdiv({inner!r}, {self.by!r})"
        return f"({self.of!r} // {self.by!r})"


@dataclass(frozen=True, repr=False)
class Remainder(_WrittenOnce):
    """A remainder of a floor division: at least 0 and less than `by`."""

    of: SizeFormula
    by: SizeFormula

    def _written(self) -> str:
        return f"({self.of!r} % {self.by!r})"


@dataclass(frozen=True, repr=False)
class Choice(_WrittenOnce):
    """A conditional: `yes` where the condition holds, `no` where it does not."""

    condition: Condition
    yes: SizeFormula
    no: SizeFormula

    def _written(self) -> str:
        return f"({self.yes!r} if {self.condition!r} else {self.no!r})"


@dataclass(frozen=True, repr=False)
class PowerOfTwo(_WrittenOnce):
    """The next power of two: the smallest that is no less than a number of 1 to 2^31."""

    of: SizeFormula

    def _written(self) -> str:
        return f"next_power_of_2({self.of!r})"


@dataclass(frozen=True, repr=False)
class Condition(_WrittenOnce):
    """A boolean formula: `kind` is "and", "or", "not" of conditions, or "<=" or "==" of a formula with 0.

    >>> n = symbol("n")
    >>> both(at_most(n, 4), at_least(n, 2))
    n <= 4 and n >= 2
    """

    kind: str
    parts: tuple[Condition, ...] = ()
    formula: SizeFormula | None = None

    @cached_property
    def _hashed(self) -> int:
        return hash((self.kind, self.parts, self.formula))

    def __hash__(self) -> int:
        return self._hashed

    def _written(self) -> str:
        if self in (ALWAYS, NEVER):
            return str(self == ALWAYS)
        if self.formula is not None:
            lhs = SizeFormula({m: f for m, f in self.formula.terms.items() if m})
            right, kind = -self.formula.terms.get((), 0), self.kind
            if all(factor < 0 for factor in lhs.terms.values()):
                lhs, right, kind = -lhs, -right, {"<=": ">="}.get(kind, kind)
            return f"{lhs!r} {kind} {right}"
        if self.kind == "not":
            return f"not ({self.parts[0]!r})"
        return f" {self.kind} ".join(repr(p) if p.formula is not None else f"({p!r})" for p in self.parts)


ALWAYS, NEVER = Condition("and"), Condition("or")


# ----------------------------------------------------------------------------------------------------- making them


def whole(value: Whole) -> SizeFormula:
    """Convert a number to a formula; a formula stays as it is."""
    return value if isinstance(value, SizeFormula) else SizeFormula({(): int(value)})


def of(atom: Atom) -> SizeFormula:
    """Return the formula that is one atom."""
    return SizeFormula({(atom,): 1})


def symbol(name: str, low: int | None = None, high: int | None = None) -> SizeFormula:
    """Return a new symbol of that name, as a formula."""
    return of(Symbol(name, low, high))


def at_most(a: Whole, b: Whole) -> Condition:
    """Return the condition that a is at most b."""
    difference = whole(a) - whole(b)
    if (number := difference.constant) is not None:
        return ALWAYS if number <= 0 else NEVER
    return Condition("<=", formula=difference)


def at_least(a: Whole, b: Whole) -> Condition:
    """Return the condition that a is at least b."""
    return at_most(b, a)


def less(a: Whole, b: Whole) -> Condition:
    """Return the condition that a is less than b."""
    return at_most(whole(a) + 1, b)


def equal(a: Whole, b: Whole) -> Condition:
    """Return the condition that a is equal to b."""
    difference = whole(a) - whole(b)
    if (number := difference.constant) is not None:
        return ALWAYS if number == 0 else NEVER
    return Condition("==", formula=difference)


def both(*conditions: Condition) -> Condition:
    """Return the condition that all of these hold."""
    parts = _flat("and", conditions)
    if NEVER in parts:
        return NEVER
    return parts[0] if len(parts) == 1 else Condition("and", parts)


def either(*conditions: Condition) -> Condition:
    """Return the condition that one of these holds."""
    parts = _flat("or", conditions)
    if ALWAYS in parts:
        return ALWAYS
    return parts[0] if len(parts) == 1 else Condition("or", parts)


def _flat(kind: str, conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
    parts: dict[Condition, None] = {}
    for condition in conditions:
        parts |= dict.fromkeys(condition.parts if condition.kind == kind else (condition,))
    return tuple(parts)


def negated(condition: Condition) -> Condition:
    """Return the condition that this one does not hold."""
    match condition.kind:
        case "and":
            return either(*map(negated, condition.parts))
        case "or":
            return both(*map(negated, condition.parts))
        case "not":
            return condition.parts[0]
        case "<=":
            assert condition.formula is not None
            return less(0, condition.formula)
    return Condition("not", (condition,))


def chosen(condition: Condition, yes: SizeFormula, no: SizeFormula) -> SizeFormula:
    """Return the formula that is `yes` where the condition holds, else `no`."""
    if condition in (ALWAYS, NEVER) or yes == no:
        return yes if condition == ALWAYS else no
    return of(Choice(condition, yes, no))


def divided(a: SizeFormula, by: SizeFormula) -> SizeFormula:
    """Return a // by rounded down, for a `by` of at least 1."""
    if (choice := _choice(by)) is not None:
        return chosen(choice.condition, divided(a, choice.yes), divided(a, choice.no))
    if (c := by.constant) is not None and c >= 1 and all(factor % c == 0 for factor in a.terms.values()):
        return SizeFormula({monomial: factor // c for monomial, factor in a.terms.items()})
    if a.constant is not None and by.constant:
        return whole(a.constant // by.constant)
    return whole(1) if a == by else of(Quotient(a, by))


def remainder(a: SizeFormula, by: SizeFormula) -> SizeFormula:
    """Return a % by, between 0 and by - 1, for a `by` of at least 1."""
    if (choice := _choice(by)) is not None:
        return chosen(choice.condition, remainder(a, choice.yes), remainder(a, choice.no))
    quotient = divided(a, by)
    if any(isinstance(atom, Quotient) and atom == Quotient(a, by) for monomial in quotient.terms for atom in monomial):
        return of(Remainder(a, by))
    return a - quotient * by


def _choice(formula: SizeFormula) -> Choice | None:
    """The choice that a formula is, if it is one: min(rows left, 8) is divided by case by case."""
    ((monomial, factor), *more) = formula.terms.items() or [((), 0)]
    return monomial[0] if not more and factor == 1 and len(monomial) == 1 and isinstance(monomial[0], Choice) else None


def smaller(a: SizeFormula, b: SizeFormula) -> SizeFormula:
    """Return the smaller of two formulas."""
    return chosen(at_most(a, b), a, b)


def larger(a: SizeFormula, b: SizeFormula) -> SizeFormula:
    """Return the larger of two formulas."""
    return chosen(at_most(a, b), b, a)


def never_negative(formula: SizeFormula) -> bool:
    """Whether a formula cannot be negative, as its form shows: no term can be less than 0."""
    return all(factor > 0 and all(map(_not_below_0, monomial)) for monomial, factor in formula.terms.items())


def _not_below_0(atom: Atom) -> bool:
    match atom:
        case Symbol():
            return atom.low is not None and atom.low >= 0
        case Quotient():
            return never_negative(atom.of)
        case Choice():
            return never_negative(atom.yes) and never_negative(atom.no)
    return True


def direction(formula: SizeFormula, symbol: Symbol) -> int | None:
    """Return whether a formula rises (1) or falls (-1) with a symbol, as far as its form shows; 0 if it does not contain it, None if that
    is not clear.

    >>> i, n = Symbol("i"), symbol("n")
    >>> direction(smaller(2 * of(i) + 1, n), i), direction(n - of(i), i), direction(of(i) * n, i)
    (1, -1, None)
    """
    each: set[int | None] = set()
    for monomial, factor in formula.terms.items():
        if symbol not in symbols_of(SizeFormula({monomial: 1})):
            continue
        one = _direction(monomial[0], symbol) if len(monomial) == 1 else None
        each.add(one and (one if factor > 0 else -one))
    each.discard(0)
    return 0 if not each else each.pop() if len(each) == 1 else None


def _direction(atom: Atom, symbol: Symbol) -> int | None:
    match atom:
        case Symbol():
            return 1 if atom == symbol else None
        case Quotient() if atom.by.constant is not None and atom.by.constant >= 1:
            return direction(atom.of, symbol)
        case Choice() if atom.condition in (
            at_most(atom.yes, atom.no),
            at_most(atom.no, atom.yes),
        ):  # the smaller or the larger one
            each = {direction(atom.yes, symbol), direction(atom.no, symbol)} - {0}
            return 0 if not each else each.pop() if len(each) == 1 else None
    return None


def _plain(formula: SizeFormula) -> bool:
    return not any(isinstance(atom, Quotient | Choice) for monomial in formula.terms for atom in monomial)


# ----------------------------------------------------------------------------------------------------- looking into them


def symbols_of(one: SizeFormula | Condition) -> Iterator[Symbol]:
    """Yield every symbol of a formula or condition, some more than once."""
    if isinstance(one, Condition):
        for part in one.parts:
            yield from symbols_of(part)
        if one.formula is not None:
            yield from symbols_of(one.formula)
        return
    for monomial in one.terms:
        for atom in monomial:
            match atom:
                case Symbol():
                    yield atom
                    for place in atom.index:
                        yield from symbols_of(place)
                case Choice():
                    yield from symbols_of(atom.condition)
                    yield from symbols_of(atom.yes)
                    yield from symbols_of(atom.no)
                case Quotient() | Remainder():
                    yield from symbols_of(atom.of)
                    yield from symbols_of(atom.by)
                case PowerOfTwo():
                    yield from symbols_of(atom.of)


Replacing = Callable[[Atom], SizeFormula | None]


def replaced(formula: SizeFormula, by: Replacing) -> SizeFormula:
    """Substitute formulas for atoms in a formula, the outermost first."""
    same: dict[Monomial, int] = {}
    others: list[SizeFormula] = []
    for monomial, factor in formula.terms.items():
        parts = [_replaced_atom(atom, by) for atom in monomial]
        if all(part is None for part in parts):
            same[monomial] = factor
            continue
        product = whole(factor)
        for atom, part in zip(monomial, parts, strict=True):
            product = product * (of(atom) if part is None else part)
        others.append(product)
    return sum(others, SizeFormula(same)) if others else formula


def _replaced_atom(atom: Atom, by: Replacing) -> SizeFormula | None:
    """The formula for an atom; None if it stays as it is."""
    if (result := by(atom)) is not None:
        return result
    match atom:
        case Symbol():
            before, make = atom.index, lambda *index: of(Symbol(atom.name, atom.low, atom.high, atom.unknown, index))
        case Quotient():
            before, make = (atom.of, atom.by), divided
        case Remainder():
            before, make = (atom.of, atom.by), remainder
        case Choice():
            condition, yes, no = replaced_in(atom.condition, by), replaced(atom.yes, by), replaced(atom.no, by)
            same = condition is atom.condition and yes is atom.yes and no is atom.no
            return None if same else chosen(condition, yes, no)
        case PowerOfTwo():
            before, make = (atom.of,), power_of_two
    after = [replaced(one, by) for one in before]
    return None if all(map(is_, before, after)) else make(*after)


def replaced_in(condition: Condition, by: Replacing) -> Condition:
    """Substitute formulas for atoms in a condition."""
    if condition.formula is not None:
        formula = replaced(condition.formula, by)
        if formula is condition.formula:
            return condition
        return at_most(formula, 0) if condition.kind == "<=" else equal(formula, 0)
    parts = [replaced_in(part, by) for part in condition.parts]
    if all(map(is_, parts, condition.parts)):
        return condition
    match condition.kind:
        case "and":
            return both(*parts)
        case "or":
            return either(*parts)
    return negated(parts[0])


def power_of_two(formula: SizeFormula) -> SizeFormula:
    """Return the next power of two, as triton.next_power_of_2 computes it."""
    if (number := formula.constant) is not None:
        return whole(1 << max(0, number - 1).bit_length())
    return of(PowerOfTwo(formula))


def value(formula: SizeFormula, numbers: Mapping[str, int]) -> int:
    """Evaluate a formula with these numbers for its symbols. Raises ZeroDivisionError if it has no value."""
    number = replaced(formula, _numbered(numbers)).constant
    if number is None:
        raise ZeroDivisionError(f"{formula!r} has no value for {dict(numbers)}")
    return number


def holds(condition: Condition, numbers: Mapping[str, int]) -> bool:
    """Whether a condition holds with these numbers for its symbols."""
    return replaced_in(condition, _numbered(numbers)) == ALWAYS


def _numbered(numbers: Mapping[str, int]) -> Replacing:
    return lambda atom: whole(numbers[atom.name]) if isinstance(atom, Symbol) and atom.name in numbers else None


def fixed(conditions: Iterable[Condition]) -> dict[Atom, SizeFormula]:
    """Return the atoms that conditions fix, each with its number: "size 64 == 64" fixes the size."""
    result: dict[Atom, SizeFormula] = {}
    for condition in conditions:
        if condition.kind == "==" and condition.formula is not None:
            terms = dict(condition.formula.terms)
            number = terms.pop((), 0)
            for monomial, factor in terms.items():
                if len(terms) == 1 and len(monomial) == 1 and number % factor == 0:
                    result[monomial[0]] = whole(-number // factor)
    return result
