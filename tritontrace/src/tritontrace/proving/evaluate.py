"""A kernel's TTIR -> its accesses for all sizes at once: where each position of a block reaches, under which conditions.

Integers are formulas, a block is a function of its lane. A loop runs once, for a turn of which only the counter is known: what it
carries is `start + turn * step` if each turn adds the same, and a number that nobody knows if not. Whatever has no formula
is such a number too, with the place that made it, so nothing here is ever guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tritontrace.proving import arithmetic, formulas
from tritontrace.proving.formulas import Atom, Quotient, Remainder, SizeFormula, Symbol, symbols_of
from tritontrace.proving.values import (
    Index,
    Need,
    Needs,
    Number,
    Other,
    Pointer,
    SymbolicBlock,
    Truth,
    Value,
    constant,
    fits,
    merged,
)
from tritontrace.tracing.sites import Sites
from tritontrace.ttir import ir
from tritontrace.ttir.elements import FLOATS, itemsize
from tritontrace.ttir.launching import Op, Site

PROGRAMS = tuple(Symbol(f"program_id({axis})", 0) for axis in range(3))
RANGES = {"i1": (0, 1), "i8": (-(1 << 7), (1 << 7) - 1), "i16": (-(1 << 15), (1 << 15) - 1)} | {
    f"i{bits}": (-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (32, 64)
}


@dataclass(frozen=True)
class Access:
    """One load, store or atomic, in symbols: at any position in any program.

    pointer   where that lane reaches; its needs are those of its offset
    when      what holds whenever it reaches there: branches, loops, the mask; each with its needs
    """

    op: Op
    site: Site
    pointer: Pointer
    when: tuple[Truth, ...]


@dataclass
class SizedAccesses:
    """The symbolic accesses of a kernel, and what is not known about them.

    places     by the numbers that needs and unknown symbols have: (the place, what is there)
    obscure    operations that reach memory in a way that is not followed, as numbers of places
    """

    each: list[Access] = field(default_factory=list)
    places: list[tuple[Site, str]] = field(default_factory=list)
    obscure: list[int] = field(default_factory=list)


def within_grid(accesses: SizedAccesses, grid: Sequence[SizeFormula]) -> SizedAccesses:
    """Return the accesses simplified by the grid: a program's number below H is its own remainder by H."""
    mine = {}
    for program, programs in zip(PROGRAMS, grid, strict=True):
        one = formulas.of(program)
        mine |= {Quotient(one, programs): formulas.whole(0), Remainder(one, programs): one}
        if programs == formulas.whole(1):
            mine[program] = formulas.whole(0)

    def put(needs: Needs) -> Needs:
        return frozenset(Need(formulas.replaced_in(need.condition, mine.get), need.place) for need in needs)

    def moved(access: Access) -> Access:
        argument, offset = access.pointer.argument, access.pointer.offset
        pointer = Pointer(argument, Number(formulas.replaced(offset.formula, mine.get), put(offset.needs)))
        when = tuple(Truth(formulas.replaced_in(t.condition, mine.get), put(t.needs)) for t in access.when)
        return replace(access, pointer=pointer, when=when)

    return replace(accesses, each=[moved(access) for access in accesses.each])


class NotFollowed(Exception):
    """Raised where a kernel cannot be evaluated in symbols: `place` is its number, 0 of the kernel as a whole."""

    def __init__(self, place: int = 0):
        super().__init__(place)
        self.place = place


class _Exit(NamedTuple):
    """A way to a function's end: what holds on it, and what is returned."""

    when: tuple[Truth, ...]
    values: list[SymbolicBlock]


Scope = dict[str, SymbolicBlock]


def accesses(module: ir.Module, sites: Sites, arguments: Sequence[Value], grid: Sequence[SizeFormula]) -> SizedAccesses:
    """Evaluate a kernel in symbols; return every access, given a value for each argument and the number of programs along each axis."""
    evaluation = _Evaluation(module, sites, grid)
    entry = next(function for function in module.values() if function.public)
    start = sites.site(((entry, entry.place),)), "what this kernel does"
    evaluation.result.places.append(start)
    try:
        if len(arguments) != len(entry.arguments):  # a descriptor's sizes and strides are arguments, too
            raise NotFollowed
        evaluation.call(entry, [constant(value) for value in arguments], (), (), -1)
    except NotFollowed as stopped:
        evaluation.result.obscure.append(stopped.place)
    return evaluation.result


class _Evaluation:
    def __init__(self, module: ir.Module, sites: Sites, grid: Sequence[SizeFormula]):
        self.module, self.sites, self.grid = module, sites, grid
        self.result = SizedAccesses()
        self.way: tuple[tuple[ir.Function, ir.Place], ...] = ()
        self.function = next(iter(module.values()))
        self.path: list[Truth] = []
        self.quiet = 0  # while a loop's first look at its body: what it reaches is recorded by the second one
        self.made: list[str] = []  # the names of symbols, in the order in which they came
        self.types = {function.name: _types(function) for function in module.values()}

    # ------------------------------------------------------------------------------------------------- names

    def place(self, op: ir.Operation, what: str = "") -> int:
        site = self.sites.site((*self.way, (self.function, op.place)))
        entry = site, what
        if entry not in self.result.places:
            self.result.places.append(entry)
        return self.result.places.index(entry)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a value of the function that is evaluated."""
        return self.types[self.function.name][name].shape

    def symbol(self, kind: str, low: int | None = None, high: int | None = None, unknown: int = -1) -> Symbol:
        """A new symbol; `kind` begins its name."""
        name = f"{kind}{len(self.made)}"
        self.made.append(name)
        return Symbol(name, low, high, unknown)

    def unknown(self, kind: ir.Type, place: int) -> SymbolicBlock:
        """A value of that type that nobody knows, the same one whenever the same lane is asked for."""
        if kind.element in FLOATS:
            return constant(Other())
        one = self.symbol("unknown", *RANGES.get(kind.element, (None, None)), place)

        def at(index: Index) -> Value:
            number = formulas.of(Symbol(one.name, one.low, one.high, place, index))
            if kind.element == "i1":
                return Truth(formulas.at_least(number, 1))
            return Pointer(-1, Number(number)) if kind.element == "ptr" else Number(number)

        return SymbolicBlock(at)

    # ------------------------------------------------------------------------------------------------- functions

    def call(
        self,
        function: ir.Function,
        arguments: Sequence[SymbolicBlock],
        way: tuple,
        kinds: Sequence[ir.Type],
        place: int,
    ) -> list[SymbolicBlock]:
        """The results, of these types, of a function that is called from a place."""
        before = self.function, self.way
        self.function, self.way = function, way
        blocks = {block.label: block for block in function.blocks}
        depth = len(self.path)
        exits = self.blocks(blocks, function.blocks[0], list(arguments), {}, ())
        del self.path[depth:]
        self.function, self.way = before
        if not exits:
            return []
        *others, (_, results) = exits
        for when, values in reversed(others):
            pairs = zip(values, results, kinds, strict=True)
            results = [self.either(_all(when[depth:]), yes, no, kind, place) for yes, no, kind in pairs]
        return results

    def either(
        self, condition: Truth, yes: SymbolicBlock, no: SymbolicBlock, kind: ir.Type, place: int
    ) -> SymbolicBlock:
        """The one value where a condition holds, and the other where it does not."""
        instead = self.unknown(kind, place)

        def at(index: Index) -> Value:
            one = merged(condition, yes.at(index), no.at(index))
            return one if one is not None else instead.at(index)

        return SymbolicBlock(at)

    def blocks(
        self,
        blocks: dict[str, ir.Block],
        block: ir.Block,
        arguments: list[SymbolicBlock],
        scope: Scope,
        passed: tuple[str, ...],
    ) -> list[_Exit]:
        """Run from a block on, along every way to the function's end."""
        scope = {**scope, **{name: value for (name, _), value in zip(block.arguments, arguments, strict=True)}}
        for op in block.operations:
            if op.name == "tt.return":
                return [_Exit(tuple(self.path), [scope[name] for name in op.operands])]
            if op.successors:
                if block.label in passed or op.name not in ("cf.br", "cf.cond_br"):
                    raise NotFollowed(self.place(op, "a loop by jumps"))
                ways = [(blocks[label], [scope[name] for name in names]) for label, names in op.successors]
                if op.name == "cf.br":
                    return self.blocks(blocks, *ways[0], scope, (*passed, block.label))
                condition, depth, exits = _truth(scope[op.operands[0]]), len(self.path), []
                for way, taken in zip(ways, (condition, _opposite(condition)), strict=True):
                    self.path.append(taken)
                    exits += self.blocks(blocks, *way, scope, (*passed, block.label))
                    del self.path[depth:]
                return exits
            self.step(op, scope)
        return []

    def region(self, region: list[ir.Block], arguments: Sequence[SymbolicBlock], scope: Scope) -> list[SymbolicBlock]:
        """The values that a region of one block yields."""
        (block,) = region
        scope = {**scope, **{name: value for (name, _), value in zip(block.arguments, arguments, strict=True)}}
        for op in block.operations:
            if op.name in ("scf.yield", "scf.condition"):
                return [scope[name] for name in op.operands]
            self.step(op, scope)
        return []

    # ------------------------------------------------------------------------------------------------- operations

    def step(self, op: ir.Operation, scope: Scope) -> None:
        """Do one operation: its results come into the scope."""
        operands = [scope[name] for name in op.operands]
        mine = getattr(self, "do_" + op.name.replace(".", "_"), None)
        if op.name in arithmetic.NAMES:
            results: Sequence[SymbolicBlock | None] = [self.computed(op, operands)]
        elif mine is not None:
            results = mine(op, operands, scope)
        else:
            if not op.name.startswith(HARMLESS):
                self.reaches_somehow(op, f"`{op.name.rpartition('.')[2]}`")
            results = []
        for (name, kind), value in zip(op.results, [*results, *(None for _ in op.results)], strict=False):
            scope[name] = value if value is not None else self.unknown(kind, self.place(op, _said(op)))

    def computed(self, op: ir.Operation, operands: list[SymbolicBlock]) -> SymbolicBlock:
        ((_, kind),) = op.results
        if kind.element in FLOATS:
            return constant(Other())
        place, instead = self.place(op, _said(op)), None

        def at(index: Index) -> Value:
            nonlocal instead
            values = [operand.at(index) for operand in operands]
            value = arithmetic.computed(op.name, op.attributes, values, kind.element, place)
            if value is None:
                instead = instead or self.unknown(kind, place)
            return value if value is not None else instead.at(index)  # pyright: ignore[reportOptionalMemberAccess]

        return SymbolicBlock(at)

    def do_arith_constant(
        self, op: ir.Operation, operands: list[SymbolicBlock], scope: Scope
    ) -> list[SymbolicBlock | None]:
        ((_, kind),) = op.results
        number = op.attributes.get("value", 0)
        if kind.element in FLOATS:
            return [constant(Other())]
        if isinstance(number, tuple) or kind.element not in RANGES:
            return [None]
        if kind.element == "i1":
            return [constant(Truth(formulas.ALWAYS if number else formulas.NEVER))]
        bits = int(kind.element[1:])
        number = (int(number) + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)  # 0xFFFFFFFF is -1
        return [constant(Number(formulas.whole(number)))]

    def do_tt_get_program_id(
        self, op: ir.Operation, operands: list[SymbolicBlock], scope: Scope
    ) -> list[SymbolicBlock]:
        return [constant(Number(formulas.of(PROGRAMS[op.attributes["axis"]])))]

    def do_tt_get_num_programs(
        self, op: ir.Operation, operands: list[SymbolicBlock], scope: Scope
    ) -> list[SymbolicBlock]:
        return [constant(Number(self.grid[op.attributes["axis"]]))]

    def do_tt_make_range(self, op: ir.Operation, operands: list[SymbolicBlock], scope: Scope) -> list[SymbolicBlock]:
        start = op.attributes["start"]
        return [SymbolicBlock(lambda index: Number(index[0] + start))]

    def do_tt_splat(self, op: ir.Operation, operands: list[SymbolicBlock], scope: Scope) -> list[SymbolicBlock]:
        return [SymbolicBlock(lambda index: operands[0].at())]

    def do_tt_unsplat(self, op: ir.Operation, operands: list[SymbolicBlock], scope: Scope) -> list[SymbolicBlock]:
        zero = formulas.whole(0)
        return [SymbolicBlock(lambda index: operands[0].at((zero,)))]

    def do_tt_expand_dims(self, op: ir.Operation, operands: list[SymbolicBlock], scope: Scope) -> list[SymbolicBlock]:
        axis = op.attributes["axis"]
        return [SymbolicBlock(lambda index: operands[0].at((*index[:axis], *index[axis + 1 :])))]

    def do_tt_broadcast(self, op: ir.Operation, operands: list[SymbolicBlock], scope: Scope) -> list[SymbolicBlock]:
        sizes, zero = self.shape(op.operands[0]), formulas.whole(0)

        def at(index: Index) -> Value:
            return operands[0].at(tuple(zero if size == 1 else i for i, size in zip(index, sizes, strict=True)))

        return [SymbolicBlock(at)]

    def do_tt_trans(self, op: ir.Operation, operands: list[SymbolicBlock], scope: Scope) -> list[SymbolicBlock]:
        order = op.attributes["order"]

        def at(index: Index) -> Value:
            before = dict(zip(order, index, strict=True))
            return operands[0].at(tuple(before[axis] for axis in range(len(order))))

        return [SymbolicBlock(at)]

    def do_tt_addptr(self, op: ir.Operation, operands: list[SymbolicBlock], scope: Scope) -> list[SymbolicBlock]:
        def at(index: Index) -> Value:
            pointer, by = (operand.at(index) for operand in operands)
            if not isinstance(pointer, Pointer):
                raise NotFollowed
            if not isinstance(by, Number):
                return Pointer(-1, pointer.offset)
            formula = pointer.offset.formula + by.formula
            return Pointer(pointer.argument, Number(formula, pointer.offset.needs | by.needs))

        return [SymbolicBlock(at)]

    def do_tt_bitcast(
        self, op: ir.Operation, operands: list[SymbolicBlock], scope: Scope
    ) -> list[SymbolicBlock | None]:
        (before,), (after,) = (
            [self.types[self.function.name][name] for name in op.operands],
            [k for _, k in op.results],
        )
        same = before.element == after.element == "ptr" and itemsize(before.pointee) == itemsize(after.pointee)
        return [operands[0] if same else None]

    def do_tt_reshape(
        self, op: ir.Operation, operands: list[SymbolicBlock], scope: Scope
    ) -> list[SymbolicBlock | None]:
        if op.attributes.get("allow_reorder"):
            return [None]
        before, after = self.shape(op.operands[0]), op.results[0][1].shape

        def at(index: Index) -> Value:
            flat = formulas.whole(0)
            for i, size in zip(index, after, strict=True):
                flat = flat * size + i
            inner: list[SizeFormula] = []
            for size in reversed(before):
                inner.append(formulas.remainder(flat, formulas.whole(size)))
                flat = formulas.divided(flat, formulas.whole(size))
            return operands[0].at(tuple(reversed(inner)))

        return [SymbolicBlock(at)]

    def do_tt_reduce(self, op: ir.Operation, operands: list[SymbolicBlock], scope: Scope) -> list[SymbolicBlock | None]:
        """The least or the largest of some lanes is the value of one of them: the first or the last one, where values rise or fall along
        the axis; else nobody knows which."""
        axis, size = op.attributes["axis"], self.shape(op.operands[0])[op.attributes["axis"]]
        inner = self.combined(op.regions[0][0])
        if len(op.results) != 1 or inner not in (["arith.minsi"], ["arith.maxsi"]):
            return []
        one, place = self.symbol("lane", 0, size - 1), self.place(op, _said(op))

        def at(index: Index) -> Value:
            def of(lane: SizeFormula) -> Value:
                return operands[0].at((*index[:axis], lane, *index[axis:]))

            any_lane = Symbol(one.name, one.low, one.high, -1, index)
            value = of(formulas.of(any_lane))
            rises = isinstance(value, Number) and formulas.direction(value.formula, any_lane)
            if rises is None or not isinstance(value, Number):
                return of(formulas.of(Symbol(one.name, one.low, one.high, place, index)))
            end = size - 1 if (rises > 0) == (inner == ["arith.maxsi"]) else 0
            there = formulas.replaced(value.formula, lambda atom: formulas.whole(end) if atom == any_lane else None)
            return Number(there, value.needs)  # of any lane: none may wrap around

        return [SymbolicBlock(at)]

    def combined(self, block: ir.Block) -> list[str]:
        """The names of a block's operations but its last, and of those that it calls."""
        names: list[str] = []
        for op in block.operations[:-1]:
            names += (
                self.combined(self.module[op.attributes["callee"]].blocks[0]) if op.name == "tt.call" else [op.name]
            )
        return names

    def do_tt_call(
        self, op: ir.Operation, operands: list[SymbolicBlock], scope: Scope
    ) -> Sequence[SymbolicBlock | None]:
        callee, place = self.module[op.attributes["callee"]], self.place(op, _said(op))
        kinds = [kind for _, kind in op.results]
        return self.call(callee, operands, (*self.way, (self.function, op.place)), kinds, place)

    # ------------------------------------------------------------------------------------------------- memory

    def do_tt_load(self, op: ir.Operation, operands: list[SymbolicBlock], scope: Scope) -> list[SymbolicBlock | None]:
        return self.reaches("load", op, operands[0], operands[1] if len(operands) > 1 else None)

    def do_tt_store(self, op: ir.Operation, operands: list[SymbolicBlock], scope: Scope) -> list[SymbolicBlock | None]:
        return self.reaches("store", op, operands[0], operands[2] if len(operands) > 2 else None)

    def do_tt_atomic_rmw(
        self, op: ir.Operation, operands: list[SymbolicBlock], scope: Scope
    ) -> list[SymbolicBlock | None]:
        return self.reaches("atomic", op, operands[0], operands[2] if len(operands) > 2 else None)

    def do_tt_atomic_cas(
        self, op: ir.Operation, operands: list[SymbolicBlock], scope: Scope
    ) -> list[SymbolicBlock | None]:
        return self.reaches("atomic", op, operands[0], None)

    def reaches(
        self, what: Op, op: ir.Operation, pointers: SymbolicBlock, mask: SymbolicBlock | None
    ) -> list[SymbolicBlock | None]:
        """Record an access by any lane; what it gives nobody knows."""
        if self.quiet:
            return []
        shape = self.shape(op.operands[0])
        lanes = [formulas.of(self.symbol("lane", 0, size - 1)) if size > 1 else formulas.whole(0) for size in shape]
        pointer = pointers.at(tuple(lanes))
        when = (*self.path, *([_truth_of(mask.at(tuple(lanes)))] if mask is not None else []))
        if not isinstance(pointer, Pointer):
            self.reaches_somehow(op, "a block pointer")
        else:
            self.result.each.append(
                Access(what, self.sites.site((*self.way, (self.function, op.place))), pointer, when)
            )
        return []

    def reaches_somehow(self, op: ir.Operation, what: str) -> None:
        """Note an operation of which it is not known where it reaches."""
        self.result.obscure.append(self.place(op, what))

    # ------------------------------------------------------------------------------------------------- branches and loops

    def do_tt_assert(self, op: ir.Operation, operands: list[SymbolicBlock], scope: Scope) -> list[SymbolicBlock | None]:
        if not self.shape(op.operands[0]):  # of a block it says something of each lane, and no lane is asked for here
            self.path.append(_truth(operands[0]))
        return []

    def do_scf_if(
        self, op: ir.Operation, operands: list[SymbolicBlock], scope: Scope
    ) -> Sequence[SymbolicBlock | None]:
        condition, depth = _truth(operands[0]), len(self.path)
        yielded = []
        for region, taken in zip(op.regions, (condition, _opposite(condition)), strict=False):
            self.path.append(taken)
            yielded.append(self.region(region, [], scope) if region and region[0].operations else [])
            del self.path[depth:]
        if not op.results:
            return []
        place = self.place(op, "a branch")
        return [
            self.either(condition, yes, no, kind, place)
            for yes, no, (_, kind) in zip(*yielded, op.results, strict=True)
        ]

    def do_scf_while(
        self, op: ir.Operation, operands: list[SymbolicBlock], scope: Scope
    ) -> Sequence[SymbolicBlock | None]:
        """Run both parts once, from whatever any turn may begin with."""
        place, depth = self.place(op, "a `while`"), len(self.path)
        before, after = op.regions
        going, *passed = self.region(before, [self.unknown(kind, place) for _, kind in before[0].arguments], scope)
        self.path.append(_truth(going))
        self.region(after, passed, scope)
        del self.path[depth:]
        return [self.unknown(kind, place) for _, kind in op.results]

    def do_scf_for(
        self, op: ir.Operation, operands: list[SymbolicBlock], scope: Scope
    ) -> Sequence[SymbolicBlock | None]:
        (low, high, by), starts = (operand.at() for operand in operands[:3]), operands[3:]
        place, depth = self.place(op, "what this loop carries"), len(self.path)
        if not (isinstance(low, Number) and isinstance(high, Number) and isinstance(by, Number)):
            raise NotFollowed(place)
        kinds, region = [kind for _, kind in op.results], op.regions[0]
        begun = len(self.made)
        turn = formulas.of(self.symbol("turn", 0))
        needs = low.needs | high.needs | by.needs | {Need(formulas.at_least(by.formula, 1), place)}
        counter = Number(low.formula + turn * by.formula, needs)
        self.path.append(Truth(formulas.less(counter.formula, high.formula), needs))

        marks = [self.unknown(kind, place) for kind in kinds]  # a first look at the body: what does a turn add?
        before = [_within(start, mark) for start, mark in zip(starts, marks, strict=True)]
        self.quiet += 1
        after = self.region(region, [constant(counter), *before], scope)
        self.quiet -= 1
        inside = set(self.made[begun:])
        steps = [self.added(*each, inside) for each in zip(kinds, before, after, strict=True)]
        del self.path[depth + 1 :]

        def known(turns: Number) -> list[SymbolicBlock | None]:
            each = zip(kinds, starts, steps, strict=True)
            return [step and _moved(kind, start, step, turns, place) for kind, start, step in each]

        carried = [value or mark for value, mark in zip(known(Number(turn)), marks, strict=True)]
        self.region(region, [constant(counter), *carried], scope)
        del self.path[depth:]
        distance = high.formula - low.formula
        some = formulas.divided(distance + by.formula - 1, by.formula)
        return known(Number(formulas.chosen(formulas.at_least(distance, 1), some, formulas.whole(0)), needs))

    def added(
        self, kind: ir.Type, before: SymbolicBlock, after: SymbolicBlock, inside: set[str]
    ) -> SymbolicBlock | None:
        """The amount that each turn adds to a carried value, by lane; None if not each turn adds the same.

        inside   the names of symbols that came with the loop: another turn has other numbers for them
        """
        if kind.element in FLOATS:
            return constant(Other())
        lanes = [self.symbol("any", 0, size - 1) for size in kind.shape]
        index = tuple(map(formulas.of, lanes))
        one, another = _offset(before.at(index)), _offset(after.at(index))
        if one is None or another is None or one[0] != another[0]:
            return None
        step = another[1].formula - one[1].formula
        # the sum itself has to fit, which _moved asks for again; other needs must be the same in each turn
        itself = arithmetic.fits_of(another[1].formula, kind.element)
        needs = frozenset(need for need in another[1].needs if need.condition not in itself)
        if inside & {s.name for one in (step, *(need.condition for need in needs)) for s in symbols_of(one)}:
            return None

        def at(where: Index) -> Value:
            names = {lane.name: i for lane, i in zip(lanes, where, strict=True)}

            def put(atom: Atom) -> SizeFormula | None:
                return names.get(atom.name) if isinstance(atom, Symbol) else None

            moved = frozenset(Need(formulas.replaced_in(need.condition, put), need.place) for need in needs)
            return Number(formulas.replaced(step, put), moved)

        return SymbolicBlock(at)


def _offset(value: Value) -> tuple[int, Number] | None:
    """(the argument that is pointed into, the offset); of a number (-1, itself)."""
    match value:
        case Pointer() if value.argument >= 0:
            return value.argument, value.offset
        case Number():
            return -1, value
    return None


def _within(start: SymbolicBlock, mark: SymbolicBlock) -> SymbolicBlock:
    """A value that nobody knows, in the tensor into which a pointer points at first."""

    def at(index: Index) -> Value:
        first, unknown = start.at(index), mark.at(index)
        if isinstance(first, Pointer) and isinstance(unknown, Pointer):
            return Pointer(first.argument, unknown.offset)
        return unknown

    return SymbolicBlock(at)


def _moved(kind: ir.Type, start: SymbolicBlock, step: SymbolicBlock, turns: Number, place: int) -> SymbolicBlock:
    """The value that a loop carries after some turns, each of which adds the same."""

    def at(index: Index) -> Value:
        first, by = start.at(index), step.at(index)
        if not isinstance(by, Number):
            return first
        offset_of_it = _offset(first)
        assert offset_of_it is not None
        argument, number = offset_of_it
        formula = number.formula + turns.formula * by.formula
        none = formulas.at_most(turns.formula, 0)  # what is added behind the last turn may wrap around
        needs = number.needs | turns.needs | {Need(formulas.either(none, n.condition), n.place) for n in by.needs}
        if isinstance(first, Pointer):
            return Pointer(argument, Number(formula, needs))
        return Number(formula, needs | fits(formula, arithmetic.WIDTHS[kind.element], place))

    return SymbolicBlock(at)


def _truth(block: SymbolicBlock) -> Truth:
    return _truth_of(block.at())


def _truth_of(value: Value) -> Truth:
    if not isinstance(value, Truth):
        raise NotFollowed
    return value


def _opposite(truth: Truth) -> Truth:
    return Truth(formulas.negated(truth.condition), truth.needs)


def _all(truths: Sequence[Truth]) -> Truth:
    needs = frozenset().union(*(truth.needs for truth in truths))
    return Truth(formulas.both(*(truth.condition for truth in truths)), needs)


def _said(op: ir.Operation) -> str:
    """The name of an operation where its result is not followed."""
    return {"tt.load": "a loaded value"}.get(op.name, f"`{op.name.rpartition('.')[2]}`")


def _types(function: ir.Function) -> dict[str, ir.Type]:
    """The type of each value of a function."""
    values_by_name = dict(function.arguments)
    waiting = list(function.blocks)
    while waiting:
        block = waiting.pop()
        values_by_name |= dict(block.arguments)
        for op in block.operations:
            values_by_name |= dict(op.results)
            waiting += [inner for region in op.regions for inner in region]
    return values_by_name


HARMLESS = (  # operations that reach no memory, by how their names begin
    "arith.", "math.", "ub.", "tt.dot", "tt.reduce", "tt.scan", "tt.fp_to_fp", "tt.precise_", "tt.join", "tt.split", "tt.cat",
    "tt.gather", "tt.histogram", "tt.print", "tt.clampf", "tt.extern_elementwise", "tt.mulhiui", "tt.int_to_ptr", "tt.ptr_to_int",
    "tt.map_elementwise", "tt.debug_barrier", "gpu.barrier", "ttg.barrier", "llvm.intr.assume",
)  # fmt: skip
