"""prove(): host code, run once, and what can be said of its launches for all sizes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any, Literal

from tritontrace.proving import formulas
from tritontrace.proving.decide import Deciding, Decision
from tritontrace.proving.evaluate import Access, accesses
from tritontrace.proving.formulas import Atom, Condition, SizeFormula, Symbol
from tritontrace.proving.host_runs import SizedHost
from tritontrace.proving.launches import SizedLaunch, Tensor
from tritontrace.proving.replayed import faults_with
from tritontrace.proving.shapes import MOST
from tritontrace.proving.values import NONE, Number, Other, Pointer, Truth, Value
from tritontrace.results import Fault
from tritontrace.tracing.sites import Sites
from tritontrace.ttir.launching import Op, Site

FEW = 3  # ways through the host code that launch something, on which a counterexample alone is looked for
Outcome = Literal["proved", "counterexample", "not decided"]
Property = Literal["inside its tensor", "one program for each element"]


@dataclass(frozen=True)
class Claim:
    """A proved, refuted or undecided property of one line of a kernel.

    about     "inside its tensor": no lane reaches outside; "one program for each element": no two programs store to one
    sizes     of a counterexample the sizes, by name; `fault` is what a trace of a launch of these sizes found
    smallest  whether no smaller sizes go wrong; False where z3 gave up on them
    because   why it is not decided, with the line that stands in the way
    shapes    of a counterexample the shapes of the function's tensors, in the order of its arguments; a script has none

    >>> def copied(x, n):
    ...     y = torch.empty_like(x)
    ...     _ = copy[(4,)](x, y, n, BLOCK=256)
    >>> claim = prove(copied, torch.ones(1000), 1000).launches[0].claims[0]
    >>> claim.site.line, claim.op, claim.tensor, claim.about, claim.outcome, claim.sizes
    (3, 'load', 'x_ptr', 'inside its tensor', 'counterexample', {'x_ptr.shape[0]': 1})
    """

    site: Site
    op: Op
    tensor: str
    about: Property
    outcome: Outcome
    sizes: dict[str, int] = field(default_factory=dict)
    fault: Fault | None = None
    because: str = ""
    smallest: bool = True
    shapes: list[tuple[int, ...]] = field(default_factory=list)


@dataclass(frozen=True)
class ProvedLaunch:
    """A launch with its claims.

    domain    the sizes of which the claims speak: conditions, in words
    guessed   numbers that are taken for sizes because they were as large

    >>> def copied(x):
    ...     assert len(x) % 256 == 0
    ...     _ = copy[(len(x) // 256,)](x, torch.empty_like(x), len(x), BLOCK=256)
    >>> launch = prove(copied, torch.ones(1024)).launches[0]
    >>> launch.kernel, launch.grid
    ('copy', '((n // 256),)')
    """

    kernel: str
    grid: str
    claims: list[Claim]
    domain: list[str]
    guessed: list[str]
    seconds: float = 0.0


@dataclass(frozen=True)
class Proof:
    """The result of `prove`, the claims of each launch: true if everything is proved.

    unseen   small sizes of which it is not known what the host code launches
    complete whether all ways through the host code were found

    >>> @triton.jit
    ... def unmasked(x_ptr, y_ptr, BLOCK: tl.constexpr):
    ...     i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ...     tl.store(y_ptr + i, tl.load(x_ptr + i))
    >>> def copied(x):
    ...     y = torch.empty_like(x)
    ...     _ = unmasked[(triton.cdiv(x.numel(), 128),)](x, y, BLOCK=128)
    >>> proof = prove(copied, torch.ones(1024))
    >>> proof.outcome, bool(proof)
    ('counterexample', False)
    """

    launches: list[ProvedLaunch]
    unseen: dict[str, int] = field(default_factory=dict)
    complete: bool = True

    @property
    def outcome(self) -> Outcome:
        result = [claim.outcome for launch in self.launches for claim in launch.claims]
        if "counterexample" in result:
            return "counterexample"
        return "not decided" if not self.complete or "not decided" in result else "proved"

    def __bool__(self) -> bool:
        return self.outcome == "proved"

    def to_dict(self) -> dict[str, Any]:
        """Return the proof as plain data, for JSON."""
        return {"outcome": self.outcome, **asdict(self)}


def prove(function: Callable, *args: Any, **kwargs: Any) -> Proof:
    """Prove for all sizes that each access of a function's kernels stays inside its tensor, and that no two programs store to one element.
    Whether every element is written, and with the right value, is not asked.

    args, kwargs   an example, with the tensors. Sizes that are equal in it are taken for one size, and those of 1 for no size

    The function runs on it as in a trace. What it asks of sizes on the way (`if n > 1024`, a tl.constexpr) is asked of other sizes, too,
    until every way through it is known; sizes for which it raises launch nothing. Raises ValueError if it launches no kernel, and what
    the function raises for the example.

    >>> def copied(x):
    ...     y, n = torch.empty_like(x), x.numel()
    ...     _ = copy[(triton.cdiv(n, 256),)](x, y, n, BLOCK=256)
    ...     return y
    >>> prove(copied, x).outcome
    'proved'
    """
    host = SizedHost(function, args, kwargs)
    launches = [launch for way in host.ways() for launch in way]
    if not launches:
        raise ValueError(
            f"{getattr(function, '__name__', 'the function')} launched no kernel, so there is nothing to prove"
        )
    return proof_of(launches, host.unseen, host.complete)


def counterexample(function: Callable, *args: Any, **kwargs: Any) -> Claim | None:
    """Look only for a counterexample, on few paths through the host code, and return the one with the smallest sizes; None if nothing is
    refuted. Whole numbers that a kernel loads are taken to be 0, which every index may be.

    >>> def copied(x, n):
    ...     y = torch.empty_like(x)
    ...     _ = copy[(4,)](x, y, n, BLOCK=256)
    >>> counterexample(copied, torch.ones(1000), 1000).shapes
    [(1,)]
    """
    for launches in islice(filter(None, SizedHost(function, args, kwargs).ways()), FEW):
        refuted = [
            claim for launch in proof_of(launches, zeros=True).launches for claim in launch.claims if claim.fault
        ]
        if refuted:
            return min(refuted, key=lambda claim: sum(claim.sizes.values()))
    return None


def proof_of(
    launches: Sequence[SizedLaunch], unseen: dict[str, int] | None = None, complete: bool = True, zeros: bool = False
) -> Proof:
    """Prove the claims of launches; equal launches are one. zeros: see Deciding."""
    result: dict[Any, ProvedLaunch] = {}
    for launch in launches:
        key = launch.front, tuple(launch.values), launch.grid, tuple(launch.holds)
        if key not in result:
            result[key] = _of_launch(launch, zeros)
    return Proof(list(result.values()), unseen or {}, complete)


def _of_launch(launch: SizedLaunch, zeros: bool) -> ProvedLaunch:
    began = time.process_time()
    front = launch.front
    passed = [
        _passed(i, value, one) for i, ((_, value), one) in enumerate(zip(launch.values, launch.examples, strict=True))
    ]
    result = accesses(front.module, Sites(front.sources), passed, launch.grid)
    deciding = Deciding(launch, result, zeros)
    names = _names(launch)
    claims, fine = [], {}
    for access in deciding.accesses.each:
        decision = deciding.inside(access)
        fine[access] = decision.outcome == "proved"
        claims.append(_claim(access, "inside its tensor", decision, deciding, names))
    for site, what in (result.places[number] for number in dict.fromkeys(result.obscure)):
        claims.append(Claim(site, "load", "?", "inside its tensor", "not decided", because=f"{what} is not followed"))
    by_line: dict[tuple, Claim] = {}
    for one, other in deciding.stores():
        decision = deciding.alone(one, other)
        if decision.outcome == "proved" and not (fine[one] and fine[other]):
            decision = Decision("not decided", why="where these stores reach is not proved")
        claims.append(_claim(other, "one program for each element", decision, deciding, names))
    for claim in claims:
        key = claim.site, claim.op, claim.tensor, claim.about
        if key not in by_line or _WORST.index(claim.outcome) < _WORST.index(by_line[key].outcome):
            by_line[key] = claim
    facts = [c for c in launch.holds if not _by_itself(c)]
    return ProvedLaunch(
        front.kernel.fn.__name__,
        f"({', '.join(_said(axis, names) for axis in launch.grid)})".replace(", 1, 1)", ",)").replace(", 1)", ")"),
        list(by_line.values()),
        [*(launch.untold.get(c) or _said(c, names) for c in facts), *_equal(launch)],
        [
            f"{what} = {number} is taken for {_said(f, names)}"
            for what, number, f in launch.guessed
            if what not in names.values()
        ],
        time.process_time() - began,
    )


_WORST = ("counterexample", "not decided", "proved")


def _passed(number: int, value: Tensor | SizeFormula | None, example: Any) -> Value:
    """An argument as the evaluator takes it."""
    if isinstance(value, Tensor):
        return Pointer(number, Number(formulas.whole(0)))
    if isinstance(example, bool):
        return Truth(formulas.ALWAYS if example else formulas.NEVER)
    return Number(value, NONE) if value is not None else Other()


def _claim(access: Access, about: Property, decision: Decision, deciding: Deciding, names: dict[str, str]) -> Claim:
    outcome, because = decision.outcome, decision.why
    sizes, fault, faults = {}, None, None
    if decision.place >= 0:
        site, what = deciding.accesses.places[decision.place]
        because = f"{what} in line {site.line}: `{site.source}`{site.inner}"
    foreign = [name for name in decision.sizes or () if name in deciding.launch.foreign]
    if deciding.launch.doubt or foreign:
        outcome, because = "not decided", deciding.launch.doubt or f"a size of a tensor that torch made, {foreign[0]}"
    elif decision.sizes is not None:
        fixed = {one.name for condition in deciding.launch.untold for one in formulas.symbols_of(condition)}
        sizes = {names.get(name, name): number for name, number in decision.sizes.items() if name not in fixed}
        kind = "out of bounds" if about == "inside its tensor" else "race"
        names_there = [
            name for name, one in deciding.launch.values if one is not None and _shares(one, access, deciding)
        ]
        for zeros in (
            (True,) if deciding.zeros else (False, True)
        ):  # an index of the example may lie outside a smaller tensor
            faults = faults_with(deciding.launch, decision.sizes, zeros)
            fault = next((f for f in faults or [] if _is(f, kind, access, names_there)), None)
            if fault:
                break
        outcome = "counterexample" if fault else "not decided"
        because = "" if fault else because or f"a launch with {_listed(sizes)}, {_otherwise(faults)}"
    return Claim(
        access.site,
        access.op,
        deciding.name(access),
        about,
        outcome,  # pyright: ignore[reportArgumentType]
        sizes,
        fault,
        because,
        decision.smallest,
        _shapes(deciding.launch, decision.sizes) if fault and decision.sizes is not None else [],
    )


def _shapes(launch: SizedLaunch, sizes: dict[str, int]) -> list[tuple[int, ...]]:
    """The shapes of the function's tensors; a size that does not matter to the launch is that of the example."""
    return [tuple(formulas.value(size, {**launch.symbols, **sizes}) for size in shape) for shape in launch.shapes]


def _shares(one: Tensor | SizeFormula, access: Access, deciding: Deciding) -> bool:
    return isinstance(one, Tensor) and one.storage == deciding.storage(access)


def _is(fault: Fault, kind: str, access: Access, tensors: Sequence[str]) -> bool:
    alone = kind != "race" or fault.between == "stores"  # positions of one program that meet are another matter
    return alone and fault.kind == kind and fault.line == access.site.line and fault.tensor in tensors


def _otherwise(faults: list[Fault] | None) -> str:
    """The fault that a launch showed instead of what was expected."""
    if faults is None:
        return "which is too large to be tried, or does not run"
    before = next((fault.line for fault in faults if fault.kind == "out of bounds"), None)
    return f"which ends before, in line {before}" if before else "in which the trace finds no fault there"


def _listed(sizes: dict[str, int]) -> str:
    return ", ".join(f"{name} = {number}" for name, number in sizes.items())


# ----------------------------------------------------------------------------------------------------- names of sizes


def _names(launch: SizedLaunch) -> dict[str, str]:
    """The name of a size: the parameter that it is passed as, or a tensor's `shape[i]`."""
    result: dict[str, str] = {}
    for name, value in launch.values:
        if isinstance(value, SizeFormula) and (one := _alone(value)) is not None:
            result.setdefault(one.name, name)
    for name, value in launch.values:
        for axis, size in enumerate(value.sizes if isinstance(value, Tensor) else ()):
            if (one := _alone(size)) is not None:
                result.setdefault(one.name, f"{name}.shape[{axis}]")
    return result


def _equal(launch: SizedLaunch) -> list[str]:
    """Say which sizes are taken for one size because they are equal in the example: M == N."""
    result = []
    for name in launch.shared:
        numbers = [n for n, v in launch.values if isinstance(v, SizeFormula) and _is_size(v, name)]
        tensors = [(n, v.sizes) for n, v in launch.values if isinstance(v, Tensor)]
        axes = [f"{n}.shape[{axis}]" for n, sizes in tensors for axis, size in enumerate(sizes) if _is_size(size, name)]
        equal = numbers if len(numbers) > 1 else axes
        if len(equal) > 1:
            result.append(f"{' == '.join(equal)}, as in the example")
    return result


def _is_size(formula: SizeFormula, name: str) -> bool:
    return (one := _alone(formula)) is not None and one.name == name


def _alone(formula: SizeFormula) -> Symbol | None:
    """The symbol that a formula is, if it is one."""
    ((monomial, factor), *more) = formula.terms.items() or [((), 0)]
    return monomial[0] if not more and factor == 1 and len(monomial) == 1 and isinstance(monomial[0], Symbol) else None


def _said(one: SizeFormula | Condition, names: dict[str, str]) -> str:
    def named(atom: Atom) -> SizeFormula | None:
        return (
            formulas.of(Symbol(names.get(atom.name, atom.name), atom.low, atom.high))
            if isinstance(atom, Symbol)
            else None
        )

    if isinstance(one, Condition):
        return repr(formulas.replaced_in(one, named))
    return repr(formulas.replaced(one, named))


def _by_itself(condition: Condition) -> bool:
    """Whether a condition says no more than that sizes are sizes of a tensor of at most MOST elements."""
    if condition.kind != "<=" or condition.formula is None:
        return False
    bound = condition.formula.terms.get((), 0)
    return bound <= -MOST or (bound <= 1 and formulas.never_negative(-condition.formula + bound))
