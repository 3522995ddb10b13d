"""Two functions, run on the same random numbers of a field, and compared."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from tritontrace.exact.field import PRIMES, VAST, field
from tritontrace.exact.host import Host
from tritontrace.exact.launches import Assigned, ExactLauncher, Memory, NotApplicable
from tritontrace.messages import say
from tritontrace.tracing.memory import quietly, storage_key
from tritontrace.tracing.opening import opened
from tritontrace.ttir.launching import Site

Outcome = Literal["equal", "different", "not applicable"]
LOW = -1e4  # a mask's number; beyond VAST it is taken for one that lies below all others
FLOATS = re.compile(r"arith\.constant (?:dense<)?(-\d\.\d+E\+\d+)>? : (?:tensor<[\dx]*x)?b?f", re.IGNORECASE)
RUNS = 2  # equal in so many fields is equal; different in so many is different
Case = Sequence[Any] | dict[str, Any]  # arguments, by place or by name


@dataclass(frozen=True)
class Equivalence:
    """The result of `equivalent`. Where the outcome is "different":

    case, output, element   the first element that differs: its case's number, "result 0" or "argument q", and its index
    share                   of the elements of that output which differ
    line                    the first line of f's kernels from which on values differ, as well as can be said: where both launch kernels
                            on the same grids whose variables have the same names, the first that gives one a value that
                            it has nowhere in the other; else the store that wrote the
                            element; None if no kernel wrote it
    exact_line              whether `line` is of the first kind

    reason    why it is not applicable, or in which way results differ other than in their elements; or which constants of the kernels
              of one of the two may be meant as minus infinity, and are none
    chance    an upper bound of the probability that one element of another formula, a polynomial of degree d, was equal by
              accident, divided by d ** 2

    >>> from tritontrace import equivalent
    >>> found = equivalent(lambda x: x + x, lambda x: 3 * x, [(torch.ones(4),)])
    >>> found.outcome, found.case, found.output, found.element, found.share
    ('different', 0, 'result 0', (0,), 1.0)
    """

    outcome: Outcome
    case: int | None = None
    output: str = ""
    element: tuple[int, ...] = ()
    share: float = 0.0
    line: Site | None = None
    exact_line: bool = False
    reason: str = ""
    chance: float = 0.0

    def __bool__(self) -> bool:
        return self.outcome == "equal"

    def __str__(self) -> str:
        if self.outcome == "equal":
            return f"equal in every element (by accident: {self.chance:.0e} for each)"
        if self.outcome == "not applicable":
            return f"not applicable: {self.reason}"
        if not self.output:
            return f"different: {self.reason}"
        place = f"{self.output}[{', '.join(map(str, self.element))}]"
        which = "from" if self.exact_line else "stored by"
        line = f"; {which} {self.line}" if self.line else ""
        why = f". {self.reason}" if self.reason else ""
        return f"different: case {self.case}, {place} and {self.share:.0%} of its elements{line}{why}"


class Reference:
    """A function with cached runs, to compare many others with it: equivalent(f, Reference(g), cases).

    >>> doubled = Reference(lambda x: 2 * x)
    >>> [equivalent(f, doubled, [(torch.ones(4),)]).outcome for f in (lambda x: x + x, lambda x: x * x)]
    ['equal', 'different']
    """

    def __init__(self, function: Callable):
        self.function = function
        self._runs: dict[tuple, FieldRun] = {}

    def kept(self, case: Case, attempt: int, reverse: bool = False, follow: bool = False) -> FieldRun:
        """Return the cached run of the function in a case, computed on first use."""
        key = id(case), attempt, reverse, follow
        if key not in self._runs:
            self._runs[key] = run_in_a_field(self.function, case, attempt, reverse, follow)
            self._runs[key].case = case  # held, so that no other case has its id
        return self._runs[key]


def equivalent(f: Callable | Reference, g: Callable | Reference, cases: Iterable[Case]) -> Equivalence:
    """Decide whether two functions compute one formula: host code with kernels, or with torch's operations alone.

    cases   the arguments of each call, a sequence or a dict of names. A tensor of floats gives its shape, strides, dtype and
            what is infinite or NaN in it; its numbers are replaced by random ones of a field. Other arguments stay as they are

    What is returned is compared, and what is left in the arguments. Formats and rounding mean nothing: float16 and float32 are
    one thing. Raises KernelError and KernelFault, as a trace does, if a kernel cannot run.

    >>> def copied(x):
    ...     out = torch.empty_like(x)
    ...     _ = copy[(4,)](x, out, x.numel(), BLOCK=256)
    ...     return out
    >>> equivalent(copied, lambda x: x.clone(), [(torch.ones(1000),), (torch.ones(7, 3),)]).outcome
    'equal'
    >>> half = equivalent(copied, lambda x: x / 2, [{"x": torch.ones(1000)}])
    >>> half.outcome, half.line.line  # the store, in line 4 of the kernel
    ('different', 4)
    """
    one, other = (x if isinstance(x, Reference) else Reference(x) for x in (f, g))
    for number, case in enumerate(cases):
        result = _of_case(one, other, number, case)
        if result.outcome != "equal":
            return result
    return Equivalence("equal", chance=float(np.prod([2 / prime for prime, _ in PRIMES[:RUNS]])))


def _of_case(f: Reference, g: Reference, number: int, case: Case) -> Equivalence:
    differing: Equivalence | None = None
    equal = different = 0
    for attempt in range(2 * RUNS):  # an accident, such as a sum that is 0, makes equal formulas differ in one run
        result = _in_a_field(f, g, number, case, attempt)
        if result.outcome == "not applicable":
            return result
        equal, different = equal + (result.outcome == "equal"), different + (result.outcome == "different")
        if result.outcome == "different":
            differing = differing or result
        if max(equal, different) >= RUNS:
            break
    if equal >= RUNS or differing is None:
        return Equivalence("equal")
    if not differing.output:
        return differing
    one, other = (function.kept(case, 0, follow=True).chosen for function in (f, g))
    if not (one <= other or other <= one) and all(_follows_order(function, case) for function in (f, g)):
        return Equivalence("not applicable", reason=say("exact.lost.order"))
    return differing


# ----------------------------------------------------------------------------------------------------- one run


@dataclass
class Output:
    """A tensor that a call returned or modified."""

    name: str
    tensor: torch.Tensor
    values: np.ndarray  # words of floats, other values as they are
    writers: np.ndarray | None
    sites: list[Site]


@dataclass
class FieldRun:
    """The result of a call in one finite field. results: how many of its outputs were returned; the others are arguments."""

    outputs: list[Output]
    results: int
    assigned: list[Assigned]
    grids: list[tuple]
    lost: set[str]
    chosen: set[int]
    memory: Memory
    low: frozenset[float] = frozenset()  # constants of its kernels that stand far below zero
    case: Case | None = None


def run_in_a_field(
    function: Callable, case: Case, attempt: int, reverse: bool = False, follow: bool = False, lines: bool = True
) -> FieldRun:
    """Run a function on a case's random numbers of one finite field.

    reverse    numbers are ordered the other way round
    follow     note what was chosen by that order and, with `lines`, what variables of kernels got
    """
    number = attempt % len(PRIMES)
    memory = Memory(field(number, reverse))
    memory.field.lost.clear()
    memory.field.chosen = set() if follow else None
    names, arguments = _drawn(case, memory, np.random.default_rng(attempt))
    launcher = ExactLauncher(memory, follow and lines)
    with opened(launcher), Host(memory), np.errstate(all="ignore"):
        result = (
            function(**dict(zip(names, arguments, strict=True))) if isinstance(case, dict) else function(*arguments)
        )
    results = _tensors(result)
    outputs = [(f"result {i}", x) for i, x in enumerate(results)]
    outputs += [(f"argument {n}", x) for n, x in zip(names, arguments, strict=True) if isinstance(x, torch.Tensor)]
    with quietly():
        read = [_output(name, tensor.detach(), memory, launcher.sites) for name, tensor in outputs]
    return FieldRun(
        read,
        len(results),
        launcher.assigned,
        [launch.grid for launch in launcher.seen.launches],
        set(memory.field.lost),
        memory.field.chosen or set(),
        memory,
        frozenset(value for launched in launcher.seen.fronts for value in _low(launched.text)),
    )


def _low(text: str) -> Iterator[float]:
    """Constants of a kernel that one may have meant as minus infinity, though they are numbers like others here."""
    yield from (value for value in map(float, FLOATS.findall(text)) if -VAST < value <= LOW)


def _output(name: str, tensor: torch.Tensor, memory: Memory, sites: list[Site]) -> Output:
    if not tensor.is_floating_point() or not tensor.numel():
        return Output(
            name,
            tensor,
            tensor.cpu().numpy() if not tensor.is_floating_point() else np.zeros(tensor.shape),
            None,
            sites,
        )
    words = memory.words(tensor)
    return Output(name, tensor, words.of(tensor).copy(), words.of(tensor, words.writers).copy(), sites)


def _tensors(result: Any) -> list[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, (list, tuple)):
        return [x for part in result for x in _tensors(part)]
    return [] if result is None else [torch.tensor(result)] if isinstance(result, (int, bool)) else []


def _drawn(case: Case, memory: Memory, generator: np.random.Generator) -> tuple[list[str], list[Any]]:
    """Copies of a case's arguments, whose floats are random words."""
    names = list(case) if isinstance(case, dict) else list(map(str, range(len(case))))
    values = list(case.values()) if isinstance(case, dict) else list(case)
    storages: dict[int, torch.UntypedStorage] = {}

    def copied(x: Any) -> Any:
        if isinstance(x, (list, tuple)):
            return type(x)(copied(y) for y in x)
        if not isinstance(x, torch.Tensor):
            return x
        key, first = storage_key(x), False
        if key not in storages:
            storages[key], first = x.detach().untyped_storage().clone(), True
        with quietly():
            mine = torch.empty(0, dtype=x.dtype, device=x.device).set_(
                storages[key], x.storage_offset(), x.shape, x.stride()
            )
            if x.is_floating_point() and x.numel() and first:
                flat = torch.empty(0, dtype=x.dtype).set_(storages[key])
                numbers = flat.float().numpy().reshape(-1)
                words = memory.field.random(numbers.size, generator)
                words = np.where(
                    np.isfinite(numbers), words, memory.field.numbers(np.where(np.isfinite(numbers), 0, numbers))
                )
                memory.put(flat, words)
        return mine.requires_grad_(x.requires_grad)

    return names, [copied(x) for x in values]


# ----------------------------------------------------------------------------------------------------- compared


def _in_a_field(f: Reference, g: Reference, number: int, case: Case, attempt: int) -> Equivalence:
    try:
        mine, other = (function.kept(case, attempt) for function in (f, g))
    except NotApplicable as problem:
        return Equivalence("not applicable", case=number, reason=problem.message)
    if mine.results != other.results:
        return _different(number, "count", count=mine.results, other=other.results)
    for a, b in zip(mine.outputs, other.outputs, strict=True):
        if a.values.shape != b.values.shape:
            return _different(number, "shape", name=a.name, shape=str(a.values.shape), other=str(b.values.shape))
        if a.tensor.is_floating_point() != b.tensor.is_floating_point():
            return _different(number, "dtype", name=a.name, dtype=str(a.tensor.dtype), other=str(b.tensor.dtype))
        if not a.tensor.is_floating_point():
            same = np.asarray(a.values == b.values)
        else:
            numbers = mine.memory.field
            if not numbers.comparable(a.values, b.values).all():
                return _not_told(number, sorted(mine.lost | other.lost) or ["compared"])
            same = numbers.same(a.values, b.values)
        if not same.all():
            if lost := sorted({"exp", "log"} & (mine.lost | other.lost)):
                return _not_told(number, lost)
            element = tuple(int(i) for i in np.argwhere(~same)[0])
            line, exact = _line(f, g, case, attempt, a, element)
            low = sorted(mine.low ^ other.low)
            why = say("exact.differs.low", constants=[f"{value:g}" for value in low]) if low else ""
            return Equivalence("different", number, a.name, element, float((~same).mean()), line, exact, why)
    return Equivalence("equal", number)


def _different(number: int, how: str, **parameters: Any) -> Equivalence:
    return Equivalence("different", number, reason=say(f"exact.differs.{how}", **parameters))


def _not_told(number: int, lost: list[str]) -> Equivalence:
    reasons = [say(f"exact.lost.{key}") for key in lost]
    return Equivalence("not applicable", number, reason=say("exact.lost.several", reasons=reasons))


def _line(
    f: Reference, g: Reference, case: Case, attempt: int, output: Output, element: tuple[int, ...]
) -> tuple[Site | None, bool]:
    """The line from which on values differ, and whether it is that of the first variable that does."""
    mine, other = (function.kept(case, attempt, follow=True) for function in (f, g))
    if mine.grids and mine.grids == other.grids and (found := _first_other(mine.assigned, other.assigned)) is not None:
        return found, True
    writer = -1 if output.writers is None else int(output.writers[element])
    return (output.sites[writer] if writer >= 0 else None), False


def _first_other(mine: list[Assigned], other: list[Assigned]) -> Site | None:
    """The first assignment of a value that no variable of this name and shape has in that program of the other's kernel."""
    theirs: dict[tuple, dict[int, set[bytes]]] = {}
    for a in other:
        programs = theirs.setdefault(a.key, {})
        for program, digest in a.digests.items():
            programs.setdefault(program, set()).add(digest)
    own = {a.key for a in mine}
    if 2 * len(own & theirs.keys()) < len(own):
        return None  # another structure
    for a in mine:
        if a.key in theirs and any(digest not in theirs[a.key].get(n, ()) for n, digest in a.digests.items()):
            return a.site
    return None


def _follows_order(function: Reference, case: Case) -> bool:
    """Whether a function's results change when numbers are ordered the other way round."""
    one, two = (function.kept(case, 0, reverse) for reverse in (False, True))
    return any(not np.array_equal(a.values, b.values) for a, b in zip(one.outputs, two.outputs, strict=True))
