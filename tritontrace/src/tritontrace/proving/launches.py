"""Launches as they are seen while host code runs on Sizes: the kernel's TTIR, and a formula for each size, number and grid."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch

from tritontrace.proving import formulas
from tritontrace.proving.formulas import Atom, Condition, PowerOfTwo, SizeFormula, whole
from tritontrace.proving.shapes import SizedShapes, axes
from tritontrace.proving.sizes import Size, formula_of, plain, sizes_in
from tritontrace.tracing.launcher import Launcher
from tritontrace.tracing.recorded import Recorded
from tritontrace.tracing.tuning import tuning
from tritontrace.ttir.frontend import LAUNCH_OPTIONS, Front, Place, flat_places, front_of
from tritontrace.ttir.launching import KernelFault, bind
from tritontrace.ttir.sources import jit_function

INT32 = (-(1 << 31), (1 << 31) - 1)


@dataclass(frozen=True)
class Tensor:
    """A tensor argument in symbols: the formulas of its sizes, its axes from the outermost in memory to the innermost (None: it has gaps),
    which of a launch's storages it lies in, from which element on, and whether it is only a part of it."""

    sizes: tuple[SizeFormula, ...]
    order: tuple[int, ...] | None
    storage: int
    first: int
    part: bool
    dtype: torch.dtype


@dataclass
class SizedLaunch:
    """A launch in symbols, for all sizes that take the same path through the host code.

    values    (parameter, its Tensor, or its number's formula, or what else it is), as the module's arguments come
    grid      the number of programs along each axis
    holds     what holds of sizes whenever this launch happens
    guessed   what is taken to be a size because it is as large: (what, number, formula)
    arguments by name, as they came, to launch it again;  examples: those that `values` are of, and their places
    symbols   the sizes and their numbers;  foreign: those of tensors that torch made, which no argument has
    untold    those of `holds` that fix a size because nothing that the kernel is given says it -> how that is said
    doubt     why the formulas are not those of the host code, if they are not (host_runs.py)
    shapes    those of the tensors that the host code was called with
    shared    names of sizes that stand for several, because these are equal in the example
    """

    front: Front
    values: list[tuple[str, Tensor | SizeFormula | None]]
    grid: tuple[SizeFormula, ...]
    holds: list[Condition]
    guessed: list[tuple[str, int, SizeFormula]]
    arguments: dict[str, Any]
    options: dict[str, Any]
    symbols: dict[str, int]
    examples: list[Any]
    places: list[Place]
    foreign: list[str] = field(default_factory=list)
    untold: dict[Condition, str] = field(default_factory=dict)
    doubt: str = ""
    shapes: list[tuple[SizeFormula, ...]] = field(default_factory=list)
    shared: list[str] = field(default_factory=list)


class SizedLauncher(Launcher):
    """Launcher that runs launches as a trace does, and records each with its formulas.

    asked   the conditions that host code has asked so far (sizes.remembering);  evaluates: whether kernels run
    configurations  among how many the tuner of a launch chooses, at most
    """

    def __init__(self, shapes: SizedShapes, asked: dict[Condition, None], evaluates: bool = True):
        super().__init__(Recorded())
        self.shapes, self.asked, self.evaluates = shapes, asked, evaluates
        self.launches: list[SizedLaunch] = []
        self.configurations = 1
        self.refused: dict[Condition, None] = {}  # what holds wherever a kernel that could not be launched is asked for

    def launch(self, kernel: Any, args: tuple, grid: Any, options: dict[str, Any]) -> None:
        """Record a launch. One that reaches outside a tensor ends there, and what follows it goes on."""
        kernel = jit_function(kernel)
        arguments = bind(kernel.fn, args, options, LAUNCH_OPTIONS)
        grid = grid(arguments) if callable(grid) else grid
        before = len(self.seen.fronts)
        if (tuner := tuning()) is not None:
            self.configurations = max(self.configurations, tuner.chosen[1])
        with torch._C.DisableTorchFunction():  # what the trace asks of shapes is no condition of the host code
            try:
                if self.evaluates:
                    super().launch(kernel, plain(args), plain(grid), plain(options))
                else:
                    self.seen.fronts.append(front_of(kernel, plain(arguments), plain(options)))
            except KernelFault:
                pass
            except Exception:
                constants = [arguments[p.name] for p in kernel.params if p.is_constexpr]
                self.refused |= {formulas.equal(one.formula, int(one)): None for one in sizes_in(tuple(constants))}
                raise
            finally:
                if len(self.seen.fronts) > before:
                    settings = {name: plain(value) for name, value in options.items() if name in LAUNCH_OPTIONS}
                    self.launches.append(self._sized(arguments, grid, settings))

    def _untold(self, values: list, programs: list[SizeFormula]) -> dict[Condition, str]:
        """Fix the sizes of which neither a number nor the grid of a script says anything: a buffer's, which the script alone knows, stay as
        they are. Return the conditions, and how each is said."""
        numbers = [value for _, value in values if isinstance(value, SizeFormula)]
        given = {one.name for number in [*numbers, *programs] for one in formulas.symbols_of(number)}
        tensors = [(name, value) for name, value in values if isinstance(value, Tensor)]
        untold: dict[Condition, str] = {}
        for name, axis, size in ((name, axis, size) for name, t in tensors for axis, size in enumerate(t.sizes)):
            for one in formulas.symbols_of(size):
                if one.name not in given:
                    number = self.shapes.symbols[one.name]
                    untold.setdefault(formulas.equal(formulas.of(one), number), f"{name}.shape[{axis}] == {number}")
        return untold

    def _sized(self, arguments: dict[str, Any], grid: Any, options: dict[str, Any]) -> SizedLaunch:
        front = self.seen.fronts[-1]
        guessed: list[tuple[str, int, SizeFormula]] = []
        constants = {n: int(v) for n, v in arguments.items() if n not in front.values and isinstance(v, int)}

        def formula(name: str, number: int, others: Any = ()) -> SizeFormula:
            if isinstance(number, Size) or not self.shapes.literals:
                return formula_of(number)
            result = self.shapes.match(int(number), others)
            if result is None or number < 2:
                return whole(int(number))
            guessed.append((name, int(number), result))
            return result

        holds, values = list(self.asked), []
        flat = list(flat_places(front, arguments))
        passed = [id(value) for _, value in flat]
        # a constant of the kernel, which is another one for another number
        fixed = [one for one in sizes_in(tuple(arguments.values())) if id(one) not in passed]
        holds += [formulas.equal(one.formula, int(one)) for one in fixed]
        storages: dict[int, int] = {}
        for place, value in flat:
            name = _named(place)
            if isinstance(value, torch.Tensor):
                storage = storages.setdefault(value.untyped_storage()._cdata, len(storages))
                order = axes(value)
                sizes = self.shapes.shape(value)
                order = tuple(order) if order is not None else None
                part = value.numel() * value.element_size() < value.untyped_storage().nbytes()
                one = Tensor(sizes, order, storage, int(value.storage_offset()), part, value.dtype)
                values.append((name, one))
            elif isinstance(value, int) and not isinstance(value, bool):
                result = formula(name, value)
                low, high = INT32 if INT32[0] <= value <= INT32[1] else (-(1 << 63), (1 << 63) - 1)
                holds += [formulas.at_least(result, low), formulas.at_most(result, high)]
                values.append((name, result))
            else:
                values.append((name, None))
        sizes = tuple(getattr(size, "value", size) for size in grid)
        programs = [formula(f"grid[{axis}]", size, constants.values()) for axis, size in enumerate(sizes)]
        programs += [whole(1)] * (3 - len(programs))
        untold = self._untold(values, programs) if self.shapes.literals else {}
        holds += untold
        holds = [one for one in dict.fromkeys(holds) if one != formulas.ALWAYS]
        put = formulas.fixed(holds).get

        def known(value: Tensor | SizeFormula | None) -> Tensor | SizeFormula | None:
            if isinstance(value, Tensor):
                return replace(value, sizes=tuple(formulas.replaced(size, put) for size in value.sizes))
            return formulas.replaced(value, put) if value is not None else None

        return SizedLaunch(
            front,
            [(name, known(value)) for name, value in values],
            tuple(formulas.replaced(axis, put) for axis in programs),
            with_numbers(holds),
            guessed,
            arguments,
            options,
            dict(self.shapes.symbols),
            [value for _, value in flat],
            [place for place, _ in flat],
            untold=untold,
            shared=sorted(self.shapes.shared),
        )


def _named(place: Place) -> str:
    """The name of an argument; the parts of a tuple have names of their own, x[0] and x[1]."""
    name, at = place
    return name + "".join(f"[{index}]" for index in at)


def with_numbers(holds: list[Condition]) -> list[Condition]:
    """Simplify conditions by the numbers that some of them fix; what follows from a fixed power of two is left out."""
    fixed = formulas.fixed(holds)
    powers: dict[Atom, SizeFormula] = {a: number for a, number in fixed.items() if isinstance(a, PowerOfTwo)}
    result: list[Condition] = []
    for atom, number in fixed.items():
        one = formulas.equal(formulas.of(atom), number)
        result.append(one if atom in powers else formulas.replaced_in(one, powers.get))
    result += [formulas.replaced_in(condition, fixed.get) for condition in holds]
    return [one for one in dict.fromkeys(result) if one != formulas.ALWAYS]
