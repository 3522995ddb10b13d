"""Host code for all sizes: it runs on an example, then on other sizes, which have to lead to what the formulas say.

A number that lost its formula on the way, as in int(n), would be taken for a constant. So each launch is looked at twice: the
formulas of the first run, and the numbers of a second one, for sizes of which the host code asks the same. Sizes of which it asks
something else take another way: they are run as well, until no sizes are left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from operator import getitem
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction

from tritontrace.proving import formulas
from tritontrace.proving.formulas import Atom, Condition, Quotient, SizeFormula, Symbol, both, negated, symbols_of
from tritontrace.proving.launches import SizedLaunch, SizedLauncher, Tensor, with_numbers
from tritontrace.proving.quotients import without
from tritontrace.proving.replayed import filled
from tritontrace.proving.shapes import MOST, SizedShapes, axes, product
from tritontrace.proving.sizes import remembering
from tritontrace.proving.solver import Translation
from tritontrace.tracing.as_on_a_gpu import in_mode
from tritontrace.tracing.opening import opened

WAYS = 64  # through the host code, after which no more are looked for
LEAST, ELEMENTS = 16, 1 << 20  # sum of the sizes of a further run, tried at first and at most
HANDY = (24, 1 << 10, 1 << 22)  # the most that one of its sizes is tried with, one after another


@contextmanager
def sized_launches(shapes: SizedShapes, evaluates: bool = True, configuration: int = 0) -> Iterator[SizedLauncher]:
    """Intercept launches inside the block, with the formulas of their sizes; evaluates: whether kernels run, as in a trace; configuration:
    which one autotuned kernels take."""
    apply = BackwardCFunction.apply
    with remembering() as asked:
        launcher = SizedLauncher(shapes, asked, evaluates)
        BackwardCFunction.apply = in_mode(shapes, apply)
        try:
            with opened(launcher, configuration), shapes:
                yield launcher
        finally:
            BackwardCFunction.apply = apply


@dataclass
class _Run:
    """One run of the host code.

    holds     what holds of all sizes that take this way;  failed: what kept it from its end, ""
    configurations  among how many a tuner chooses, at most
    """

    launches: list[SizedLaunch]
    holds: list[Condition]
    failed: str
    configurations: int


class SizedHost:
    """A host function with example arguments, whose launches are found for all sizes. After `ways` has ended:

    unseen     small sizes of which it is not known what is launched; {} if there are none up to ELEMENTS
    complete   whether all ways up to ELEMENTS were found, and z3 did not give up on that
    """

    def __init__(self, function: Callable, args: tuple, kwargs: dict[str, Any]):
        self._function, self._args, self._kwargs = function, args, kwargs
        self._tensors = [one for one in (*args, *kwargs.values()) if isinstance(one, torch.Tensor)]
        shapes = SizedShapes(literals=False)
        self._shapes = [shapes.shape(tensor) for tensor in self._tensors]
        self._example, self._shared = dict(shapes.symbols), frozenset(shapes.shared)
        self.unseen: dict[str, int] = {}
        self.complete, self._configuration = True, 0
        self._solver, self._linear = Translation(False, {}), Translation(True, {})
        self._others_are: list[Condition] = []
        self._bound = LEAST
        self._fit = [formulas.at_most(product(shape), MOST) for shape in self._shapes]
        symbols = [formulas.symbol(name, low=1) for name in self._example]
        self._plain = [formulas.at_least(one, 2) for one in symbols]  # a launch makes a kernel of its own of a 1
        self._plain += [negated(formulas.equal(a, b)) for a, b in combinations(symbols, 2)]

    def ways(self) -> Iterator[list[SizedLaunch]]:
        """Yield the launches of every path through the host code, that of the example first, then the same with each other configuration
        of an autotuned kernel: a GPU may choose any."""
        count, configurations = 0, 1
        while self._configuration < configurations:
            self._others_are, self._bound = [], LEAST
            sizes = self._example
            while sizes is not None:
                run = self._run(sizes, evaluates=count == 0)
                if count == WAYS or (self._others_are and not run.holds):
                    self.unseen, self.complete = sizes, False
                    return
                count, configurations = count + 1, max(configurations, run.configurations)
                yield self._looked_at(run, sizes)
                self._others_are.append(negated(both(*run.holds)))
                sizes = self._without()
            self._configuration += 1

    def _run(self, sizes: dict[str, int], evaluates: bool = False) -> _Run:
        """Run the host code on tensors of these sizes. What it raises for the example is raised here."""
        shapes = SizedShapes(literals=False, symbols=sizes, shared=self._shared)
        new = self._tensors if sizes == self._example else [self._filled(i, sizes) for i in range(len(self._tensors))]
        for tensor, shape in zip(new, self._shapes, strict=True):
            shapes.learn(tensor, shape)
        others = dict(zip(map(id, self._tensors), new, strict=True))
        failed = ""
        with sized_launches(shapes, evaluates, self._configuration) as launcher:
            try:
                self._function(
                    *[others.get(id(one), one) for one in self._args],
                    **{name: others.get(id(one), one) for name, one in self._kwargs.items()},
                )
            except Exception as error:
                if evaluates:
                    raise
                failed = f"{type(error).__name__}: {error}".splitlines()[0]
        holds = {c: None for launch in launcher.launches for c in launch.holds} | launcher.asked | launcher.refused
        for launch in launcher.launches:
            launch.foreign = sorted(launch.symbols.keys() - self._example.keys())
            launch.shapes = self._shapes
        numbers = formulas.fixed(holds).get
        tensors = [formulas.replaced(product(shape), numbers) for shape in self._shapes]
        asked = [c for c in with_numbers(list(holds)) if self._is_asked(c, tensors)]
        return _Run(launcher.launches, asked, failed, launcher.configurations)

    def _looked_at(self, run: _Run, sizes: dict[str, int]) -> list[SizedLaunch]:
        """The launches of a run; each that is another one for other sizes of the same way is in doubt."""
        if run.launches and not self._example:
            for launch in run.launches:
                launch.doubt = "the tensors: only those that are arguments of the function can have other sizes"
        others = self._others(run, sizes) if run.launches else sizes
        if others == sizes:
            return run.launches
        again = self._run(others)
        for launch, other in zip(run.launches, again.launches, strict=False):
            launch.doubt = differences(launch, other, others)
        for launch in run.launches[len(again.launches) :]:
            launch.doubt = f"the host code, for other sizes: {again.failed or 'this is not launched'}"
        return run.launches

    def _others(self, run: _Run, sizes: dict[str, int]) -> dict[str, int]:
        """Sizes near these for which the host code goes the same way; as many as possible are others."""
        for name, n in sorted(sizes.items()):
            near = [n - 1, n + 1, n - 2, n + 3, n // 2 + 1, 2 * n - 1, n // 2, 2 * n]
            for other in (*near, *(n + step for step in (16, -16, 64, 128, 256))):
                moved = {**sizes, name: other}
                if other > 1 and other not in sizes.values() and all(formulas.holds(c, moved) for c in run.holds):
                    sizes = moved
                    break
        return sizes

    def _without(self) -> dict[str, int] | None:
        """Small sizes that take none of the ways so far; None if there are none with a sum of at most ELEMENTS."""
        if self._linear.ask([*self._fit, *self._others_are])[0] is False:  # whatever products of sizes are
            return None
        while self._bound <= ELEMENTS:  # what no sizes up to a bound did will be done by none of them later
            result, known = self._sizes(self._others_are, self._bound)
            if result is not None:
                return self._handy(result)
            self._bound *= 4
        self.complete &= known  # of the largest bound: what z3 gives up before may be known there
        return None

    def _sizes(self, conditions: list[Condition], most: int) -> tuple[dict[str, int] | None, bool]:
        """Translation.sizes, of tensors that are not too large. That is a question of products, which is asked only where it matters."""
        names = list(self._example)
        result, known = self._solver.sizes(conditions, names, most)
        if known and (result is None or self._fits(result)):
            return result, True
        return self._solver.sizes([*conditions, *self._fit], names, most)

    def _fits(self, sizes: dict[str, int]) -> bool:
        return all(formulas.holds(condition, sizes) for condition in self._fit)

    def _handy(self, sizes: dict[str, int]) -> dict[str, int]:
        """Sizes that go the same new way, with as few elements as may be. As many as can be are different and none is 1: a shape that the
        host code makes of equal ones could have the formula of either."""
        conditions, most = list(self._others_are), 4 * self._bound
        for plain in (both(*self._plain), *self._plain):
            outcome, _ = self._solver.sizes([*conditions, plain], list(sizes), most)
            if outcome is not None and self._fits(outcome):
                sizes, conditions = outcome, [*conditions, plain]
                if plain.kind == "and":
                    break
        for name in sizes:
            for size in HANDY:
                small = formulas.at_most(formulas.symbol(name, low=1), size)
                outcome, _ = self._solver.sizes([*conditions, small], list(sizes), most)
                if outcome is not None and self._fits(outcome):
                    sizes, conditions = outcome, [*conditions, small]
                    break
        return sizes

    def _is_asked(self, condition: Condition, tensors: list[SizeFormula]) -> bool:
        """Whether a condition is one of the arguments' sizes, and not one that all of them meet. tensors: the arguments' elements."""
        if not {s.name for s in symbols_of(condition)} <= self._example.keys():
            return False
        if condition.kind != "<=" or condition.formula is None:
            return True
        number = condition.formula.terms.get((), 0)
        if formulas.never_negative(number - condition.formula):
            least = any(all(isinstance(a, Symbol) for a in term) for term in condition.formula.terms if term)
            return number > least  # a product of sizes is 1 or more
        part = condition.formula - number
        return not (_is_product(part) and -number >= MOST) and not any(_is_part(part, t, -number) for t in tensors)

    def _filled(self, number: int, sizes: dict[str, int]) -> torch.Tensor:
        """An argument of other sizes with the numbers of the example."""
        tensor = self._tensors[number]
        shape = [formulas.value(size, sizes) for size in self._shapes[number]]
        return filled(tensor, shape, axes(tensor)).requires_grad_(tensor.requires_grad)


def _is_product(formula: SizeFormula) -> bool:
    """Whether it is a product of sizes, cdiv(size, number) among them: as many elements as some tensor has."""
    ((monomial, factor), *more) = formula.terms.items() or [((), 0)]
    return factor == 1 and not more and all(isinstance(a, Symbol) or _is_rounded_up(a) for a in monomial)


def _is_part(formula: SizeFormula, of: SizeFormula, most: int) -> bool:
    """Whether it is at most `most` because, times sizes, it is a tensor's number of elements."""
    if len(formula.terms) != 1 or len(of.terms) != 1:
        return False
    ((monomial, factor),), ((whole, number),) = formula.terms.items(), of.terms.items()
    return factor > 0 and without(whole, monomial) is not None and factor * MOST <= most * number


def _is_rounded_up(atom: Atom) -> bool:
    """Whether it is cdiv(size, number)."""
    if not isinstance(atom, Quotient):
        return False
    rest = atom.of - (atom.by - 1)
    ((monomial, factor), *more) = rest.terms.items() or [((), 0)]
    return atom.by.constant is not None and factor == 1 and not more and len(monomial) == 1


def differences(launch: SizedLaunch, other: SizedLaunch, sizes: dict[str, int]) -> str:
    """Return the numbers in which a launch for these sizes differs from what the formulas predict, as text; "" if none."""
    kernel = launch.front.kernel
    constants = [p.name for p in kernel.params if p.is_constexpr]
    if kernel is not other.front.kernel or any(launch.arguments[n] != other.arguments[n] for n in constants):
        return "the host code, which launches another kernel for other sizes"
    for what, formula, number in _pairs(launch, other):
        if any(s.name in launch.foreign for s in symbols_of(formula)):
            continue  # any number may come there
        expected = formulas.value(formula, sizes)
        if expected != number:
            return f"`{what}`, which is {number} for other sizes where its formula says {expected}: it is not followed"
    return ""


def _pairs(launch: SizedLaunch, other: SizedLaunch) -> Iterator[tuple[str, SizeFormula, int]]:
    """(what it is, its formula, the number that it has in the other launch)."""
    for axis, (mine, yours) in enumerate(zip(launch.grid, other.grid, strict=True)):
        yield f"grid[{axis}]", mine, formulas.value(yours, other.symbols)
    for (name, mine), example, (parameter, at) in zip(launch.values, launch.examples, launch.places, strict=True):
        if not isinstance(example, (torch.Tensor, int)) or isinstance(example, bool):
            continue
        yours = reduce(getitem, at, other.arguments[parameter])
        if isinstance(mine, Tensor):
            yield f"{name}.stride()", formulas.whole(mine.order == (tuple(axes(yours) or ()) or None)), 1
            for axis, (size, number) in enumerate(zip(mine.sizes, yours.shape, strict=True)):
                yield f"{name}.shape[{axis}]", size, number
        elif mine is not None:
            yield name, mine, int(yours)
