"""Whether each access of a launch lies inside its tensor, and whether two programs store to one element: for all sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

from tritontrace.proving import formulas
from tritontrace.proving.coordinates import coordinates, inside
from tritontrace.proving.evaluate import PROGRAMS, Access, SizedAccesses, within_grid
from tritontrace.proving.formulas import Atom, Condition, SizeFormula, Symbol, both, either, negated, symbols_of
from tritontrace.proving.launches import SizedLaunch, Tensor
from tritontrace.proving.quotients import shares
from tritontrace.proving.shapes import MOST, product
from tritontrace.proving.solver import EFFORT, Translation, smallest
from tritontrace.proving.values import Truth
from tritontrace.ttir.launching import MOST_PROGRAMS_X, MOST_PROGRAMS_YZ

LAST = 1 << 14  # sum of sizes up to which a counterexample is looked for
BRIEF = EFFORT // 10  # for a question before the search for sizes, which takes longer where there are none
TRIED = 4  # sizes with which a question is asked before it is asked of all


@dataclass(frozen=True)
class Decision:
    """The answer of the solver to one question.

    outcome   "proved", "possible" with sizes for which it goes wrong, or "not decided"
    smallest  whether those are the smallest such sizes
    place     the number of the place that stands in the way (SizedAccesses.places), -1 if none does; of sizes that go wrong if a loaded
              number is 0, where that is
    """

    outcome: str
    sizes: dict[str, int] | None = None
    smallest: bool = True
    place: int = -1
    why: str = ""


class Deciding:
    """Decides the questions about one launch. zeros: whether to look, too, for sizes that fail if unknown numbers are 0."""

    def __init__(self, launch: SizedLaunch, accesses: SizedAccesses, zeros: bool = False):
        self.launch, self.accesses, self.zeros = launch, within_grid(accesses, launch.grid), zeros
        self.tensors = [value if isinstance(value, Tensor) else None for _, value in launch.values]
        self.facts = list(self._facts())
        programs = {p.name + mark: size for p, size in zip(PROGRAMS, launch.grid, strict=True) for mark in ("", "'")}
        self._linear, self._exact = Translation(True, programs), Translation(False, programs)
        self._by_axis = {access: axes for access in self.accesses.each if (axes := self._coordinates(access))}
        wrong = [one for access in self._by_axis for one in self._wrong(access)]
        self._right = self._impossible(
            [either(*wrong)]
        )  # of all that are in _by_axis: mostly nothing more is to be asked

    def _facts(self) -> Iterator[Condition]:
        """The facts that hold whenever the launch happens."""
        names = [s.name for condition in self.launch.holds for s in symbols_of(condition)]
        names += [s.name for tensor in self.tensors if tensor for size in tensor.sizes for s in symbols_of(size)]
        for name in (name for name in dict.fromkeys(names) if name in self.launch.symbols):
            one = formulas.symbol(name, low=1)
            yield formulas.at_most(one, MOST)
        yield from self.launch.holds
        for tensor in self.tensors:
            if tensor is not None:
                yield formulas.at_most(product(tensor.sizes), MOST)
        limits = (MOST_PROGRAMS_X, MOST_PROGRAMS_YZ, MOST_PROGRAMS_YZ)
        for program, programs, most in zip(PROGRAMS, self.launch.grid, limits, strict=True):
            yield formulas.less(formulas.of(program), programs)
            yield formulas.at_most(programs, most)
            yield from shares(program, programs)

    @property
    def sizes(self) -> list[str]:
        """List the symbols that are sizes and matter to the launch."""
        grid = [s.name for size in self.launch.grid for s in symbols_of(size)]
        used = [s.name for condition in self.facts for s in symbols_of(condition)]
        return [name for name in dict.fromkeys([*used, *grid]) if name in self.launch.symbols]

    # ------------------------------------------------------------------------------------------------- inside

    def inside(self, access: Access) -> Decision:
        """Decide whether an access lies inside its tensor."""
        tensor = self.tensors[access.pointer.argument] if access.pointer.argument >= 0 else None
        offset = access.pointer.offset
        if tensor is None:
            place = self._unknown([offset.formula])
            return Decision(
                "not decided", place=place, why="" if place >= 0 else "an address that is chosen among tensors"
            )
        if tensor.order is None:
            return Decision("not decided", why=f"the elements of `{self.name(access)}` lie apart in memory")
        if self._on_axes(access):
            return self._as_computed(access)
        within = both(formulas.at_least(offset.formula, 0), formulas.less(offset.formula, product(tensor.sizes)))
        happens = [truth.condition for truth in access.when]
        result = self._answer([*happens, negated(within)], [offset.formula, *happens])
        if result.outcome == "possible" and tensor.part:  # what lies around it is a tensor as well
            return Decision("not decided", why=f"`{self.name(access)}`, which is a part of a larger tensor")
        return self._as_computed(access) if result.outcome == "proved" else result

    def _coordinates(self, access: Access) -> tuple[SizeFormula, ...] | None:
        tensor = self.tensors[access.pointer.argument] if access.pointer.argument >= 0 else None
        return coordinates(access.pointer.offset.formula, tensor) if tensor is not None else None

    def _off_axes(self, access: Access) -> Condition:
        """Say that an access happens, and that one of its coordinates lies on no axis."""
        tensor = self.tensors[access.pointer.argument]
        assert tensor is not None
        return both(*(t.condition for t in access.when), negated(inside(self._by_axis[access], tensor)))

    def _wrong(self, access: Access) -> Iterator[Condition]:
        """Conditions of which none is ever met by an access that is right."""
        yield self._off_axes(access)
        yield from (condition for condition, _ in self._miscomputed(access))

    def _answer(self, conditions: Sequence[Condition], made_of: Iterable[SizeFormula | Condition]) -> Decision:
        """Whether what would be wrong never happens, or for which sizes it does."""
        if self._impossible(conditions) or self._exact.ask([*self.facts, *conditions], BRIEF)[0] is False:
            return Decision("proved")
        unknown = self._unknown(made_of := list(made_of))
        if unknown >= 0 and self.zeros:
            every = dict.fromkeys(s for one in made_of for s in symbols_of(one) if s.unknown >= 0)
            none = [formulas.equal(formulas.of(one), 0) for one in every]
            result, is_smallest = self._smallest([*conditions, *none])
            if result is not None:
                return Decision("possible", result, is_smallest, unknown)
        result, is_smallest = self._smallest(conditions)
        if result is None and self._exact.ask([*self.facts, *conditions])[0] is False:
            return Decision("proved")
        if unknown >= 0:
            return Decision("not decided", place=unknown)
        if result is None:
            return Decision("not decided", why="a question that z3 gives up")
        return Decision("possible", result, is_smallest)

    def _smallest(self, conditions: Sequence[Condition]) -> tuple[dict[str, int] | None, bool]:
        """The smallest sizes for which all of it holds, as solver.smallest finds them: with numbers for sizes no product is of unknowns, so
        those are tried first that are the smallest whatever products are."""
        every, tried = [*self.facts, *conditions], []
        least = 0
        for _ in range(TRIED):
            sizes, sure = smallest(self._linear, [*every, *tried], self.sizes, LAST)
            if sizes is None:
                break
            least = least or sum(sizes.values())
            numbers = {name: formulas.whole(number) for name, number in sizes.items()}
            put = [
                formulas.replaced_in(c, lambda a, of=numbers: of.get(a.name) if isinstance(a, Symbol) else None)
                for c in every
            ]
            if self._exact.ask(put)[0]:
                return sizes, sure and sum(sizes.values()) == least
            tried.append(
                negated(both(*(formulas.equal(formulas.symbol(n, low=1), number) for n, number in sizes.items())))
            )
        return smallest(self._exact, every, self.sizes, LAST)

    def _as_computed(self, access: Access) -> Decision:
        """Whether all numbers of the access are what their formulas say: nothing wraps around, no divisor is 0."""
        wrong = [] if self._right and access in self._by_axis else list(self._miscomputed(access))
        while wrong:
            happens, model = self._linear.ask([*self.facts, either(*(condition for condition, _ in wrong))])
            if happens is False:
                break
            hard = [one for one in wrong if model is None or self._linear.happens(one[0], model)]
            for condition, place in hard:
                if not self._never([condition]):
                    return Decision("not decided", place=place)
            wrong = [one for one in wrong if one not in hard]
        return Decision("proved")

    def _miscomputed(self, access: Access) -> Iterator[tuple[Condition, int]]:
        """(when a number of the access is another one than its formula says, the place where)."""
        before: list[Condition] = []
        for truth in (*access.when, Truth(formulas.ALWAYS, access.pointer.offset.needs)):
            for need in sorted(truth.needs, key=lambda need: (need.place, repr(need.condition))):  # z3 heeds the order
                yield both(*before, self._broken(need.condition)), need.place
            before.append(truth.condition)

    def _broken(self, need: Condition) -> Condition:
        """Say that a need is not met. One that a number fits into 32 bits is met by each offset into a tensor."""
        broken = [negated(need)]
        number = need.parts[-1].formula if need.kind == "and" and need.parts else None
        for tensor in self.tensors if number is not None and any(len(term) > 1 for term in number.terms) else ():
            assert number is not None
            by_axis = (
                coordinates(number - number.terms.get((), 0), tensor) if tensor and len(tensor.sizes) > 1 else None
            )
            if by_axis is not None and tensor is not None:
                broken.append(negated(inside(by_axis, tensor)))
        return both(*broken)

    # ------------------------------------------------------------------------------------------------- alone

    def stores(self) -> list[tuple[Access, Access]]:
        """List pairs of stores to one storage."""
        result = [a for a in self.accesses.each if a.op == "store" and self.storage(a) >= 0]
        return [(a, b) for a, b in combinations_with_replacement(result, 2) if self.storage(a) == self.storage(b)]

    def alone(self, one: Access, other: Access) -> Decision:
        """Decide whether no two programs store to one element by these two accesses."""
        tensor, second = self.tensors[one.pointer.argument], self.tensors[other.pointer.argument]
        assert tensor is not None and second is not None
        if tensor != second:
            return Decision("not decided", why=f"`{self.name(one)}` and `{self.name(other)}` share memory")
        a, b = one.pointer.offset.formula, formulas.replaced(other.pointer.offset.formula, _primed)
        happens = [truth.condition for truth in one.when]
        happens += [formulas.replaced_in(truth.condition, _primed) for truth in other.when]
        happens += [formulas.replaced_in(c, _primed) for c in self.facts if _of_a_program(c)]
        different = either(
            *(negated(formulas.equal(one, formulas.replaced(one, _primed))) for one in map(formulas.of, PROGRAMS))
        )
        mine, yours = coordinates(a, tensor), coordinates(b, tensor)
        conditions = [*happens, different]
        if mine is not None and yours is not None and self._on_axes(one) and self._on_axes(other):
            conditions += [formulas.equal(x, y) for x, y in zip(mine, yours, strict=True)]
        else:
            conditions.append(formulas.equal(a, b))
        return self._answer(conditions, [a, *happens])

    def _on_axes(self, access: Access) -> bool:
        """Whether each coordinate of an access lies on its axis: then equal offsets have equal coordinates."""
        return access in self._by_axis and (self._right or self._impossible([self._off_axes(access)]))

    # ------------------------------------------------------------------------------------------------- asking

    def _impossible(self, conditions: Iterable[Condition]) -> bool:
        """Whether these cannot hold together, whatever products of sizes are."""
        return self._linear.ask([*self.facts, *conditions])[0] is False

    def _never(self, conditions: Sequence[Condition]) -> bool:
        return self._impossible(conditions) or self._exact.ask([*self.facts, *conditions])[0] is False

    # ------------------------------------------------------------------------------------------------- what stands in the way

    def _unknown(self, some: Iterable[SizeFormula | Condition]) -> int:
        """The place of the first number that nobody knows; -1."""
        return next((s.unknown for one in some for s in symbols_of(one) if s.unknown >= 0), -1)

    def storage(self, access: Access) -> int:
        tensor = self.tensors[access.pointer.argument] if access.pointer.argument >= 0 else None
        return tensor.storage if tensor is not None else -1

    def name(self, access: Access) -> str:
        """Return the parameter into whose tensor an access points."""
        return self.launch.values[access.pointer.argument][0] if access.pointer.argument >= 0 else "?"


_PRIVATE = ("program_id", "lane", "turn", "unknown", "any")


def _primed(atom: Atom) -> SizeFormula | None:
    """The symbol of the second program."""
    if not (isinstance(atom, Symbol) and atom.name.startswith(_PRIVATE)):
        return None
    index = tuple(formulas.replaced(place, _primed) for place in atom.index)
    return formulas.of(Symbol(atom.name + "'", atom.low, atom.high, atom.unknown, index))


def _of_a_program(condition: Condition) -> bool:
    return any(s.name.startswith(_PRIVATE) for s in symbols_of(condition))
