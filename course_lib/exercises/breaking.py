"""Break it: a kernel is given that is right, and the student writes inputs on which wrong versions of it show.

Each case is a mutant, one or more (old, new) changes of the given text; the hidden ones are among the grader's hidden cases.
The function is asked for its inputs, Given.read makes tensors of them, and they are run here: first through the kernel as it
is given, then through the mutant.
"""

from __future__ import annotations

import json
import linecache
import math
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from course_lib.catalogue import say
from course_lib.criteria import GradedTrial, of_group
from course_lib.exercise import MOST_NUMBERS, Case, Criterion, ErrorBudget, Exercise, Finding, Trial
from course_lib.exercises.cases import fixed
from course_lib.words import in_words
from tritontrace.messages import message_of
from tritontrace.results import Cause
from tritontrace.tracing import KernelError, KernelFault, Work, trace

IMPORTS = "import torch\nimport triton\nimport triton.language as tl\n"
MOST_INPUTS = 3
MOST_RESULT = 1 << 16  # numbers of a result that has two sizes of an input
MOST_WORK = 5e7  # of one run, in the elements of tracing/work.py
DTYPES = {"float32": torch.float32, "float16": torch.float16}


@lru_cache(maxsize=256)
def loaded(source: str, entry: str) -> Callable[..., Any]:
    """Execute a source text and return the function that it defines."""
    name = f"<given {entry} {hash(source):x}>"
    scope: dict[str, Any] = {"__name__": "given"}
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    exec(compile(source, name, "exec", dont_inherit=True), scope)  # never a student's
    return scope[entry]


def mutated(source: str, changes: Sequence[Sequence[str]]) -> str:
    """Return the source text with these replacements. Raises ValueError if one does not apply."""
    for old, new in changes:
        if old not in source:
            raise ValueError(f"the given kernel does not contain {old!r}")
        source = source.replace(old, new)
    return source


def tensor_of(written: Any) -> torch.Tensor:
    """Rebuild a tensor from what course_lib.execution.calls.packed made of it. Raises ValueError, with a clause, if it is malformed."""
    if not isinstance(written, dict) or set(written) != {"shape", "strides", "dtype", "storage"}:
        raise ValueError(say("criteria.mutants.no_tensor", got=in_words(written)))
    shape, strides, storage = written["shape"], written["strides"], written["storage"]
    whole = [shape, strides]
    if not all(isinstance(sizes, list) and all(type(n) is int and n >= 0 for n in sizes) for sizes in whole):
        raise ValueError(say("criteria.mutants.no_shape"))
    if type(written["dtype"]) is not str or written["dtype"] not in DTYPES:
        raise ValueError(say("criteria.mutants.dtype", dtype=written["dtype"], allowed=[*DTYPES]))
    dtype = DTYPES[written["dtype"]]
    try:
        numbers = b64decode(storage, validate=True)
    except (TypeError, ValueError):
        raise ValueError(say("criteria.mutants.no_numbers")) from None
    count, rest = divmod(len(numbers), dtype.itemsize)
    if rest:
        raise ValueError(say("criteria.mutants.no_numbers"))
    if 0 in shape or len(shape) != len(strides) or max(count, math.prod(shape)) > MOST_NUMBERS:
        raise ValueError(say("criteria.mutants.size", numbers=MOST_NUMBERS))
    if sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) >= count:
        raise ValueError(say("criteria.mutants.beyond"))
    return torch.frombuffer(bytearray(numbers), dtype=dtype).as_strided(shape, strides)


@contextmanager
def nan_where_nobody_stores() -> Iterator[None]:
    """Let torch.empty return NaN inside the block, so that unwritten elements never look like an earlier kernel's results."""
    before = torch.get_deterministic_debug_mode()
    # trap: use_deterministic_algorithms sets the same, and loads torch's compiler, for a second and 50 MB
    torch.set_deterministic_debug_mode("warn")  # which fills what is not initialised
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(before)


@dataclass(frozen=True, eq=False)
class Given:
    """A kernel to be broken by finding inputs. Two are never equal, so that results about one can be cached.

    text     the kernel and the function that launches it: the notebook's cell `given="UNIT.exercise"` is made of it
    entry    that function
    names    its tensors, by name, with their shapes in letters: {"x": "MN"}
    numbers  its other parameters -> the values that they may have
    right    the arguments -> the right result, in float64
    budget   see Exercise
    lawful   the arguments -> "" if the function promises a result for them, else a clause
    """

    text: str
    entry: str
    names: dict[str, str]
    right: Callable[..., torch.Tensor]
    budget: ErrorBudget
    numbers: dict[str, Sequence[Any]]
    lawful: Callable[..., str] = lambda **_: ""

    @property
    def source(self) -> str:
        """Return the text as a module of its own, imports included."""
        return f"{IMPORTS}\n\n{self.text}"

    def read(self, written: Any) -> dict[str, Any]:
        """Convert one written input to tensors and numbers. Raises ValueError, with a clause, if it is malformed."""
        if not isinstance(written, dict) or set(written) != {*self.names, *self.numbers}:
            raise ValueError(say("criteria.mutants.no_dict", names=[*self.names, *self.numbers]))
        arguments, sizes = {}, {}
        for name, letters in self.names.items():
            try:
                tensor = arguments[name] = tensor_of(written[name])
            except ValueError as error:
                raise ValueError(say("criteria.mutants.argument", name=name, problem=message_of(error))) from None
            if tensor.dim() != len(letters):
                raise ValueError(say("criteria.mutants.axes", name=name, axes=tensor.dim(), wanted=len(letters)))
            for letter, size in zip(letters, tensor.shape, strict=True):
                if sizes.setdefault(letter, size) != size:
                    raise ValueError(
                        say("criteria.mutants.sides", name=name, axis=letter, size=size, elsewhere=sizes[letter])
                    )
        for name, allowed in self.numbers.items():
            if not any(type(written[name]) is type(value) and written[name] == value for value in allowed):
                raise ValueError(
                    say("criteria.mutants.number", name=name, got=in_words(written[name]), allowed=[*map(str, allowed)])
                )
            arguments[name] = written[name]
        if len({t.dtype for t in arguments.values() if isinstance(t, torch.Tensor)}) > 1:
            raise ValueError(say("criteria.mutants.several_dtypes"))
        if math.prod(sorted(sizes.values())[-2:]) > MOST_RESULT:
            raise ValueError(say("criteria.mutants.too_much_work", most=MOST_RESULT))
        if problem := self.lawful(**arguments):
            raise ValueError(problem)
        if not self.right(**arguments).isfinite().all():
            raise ValueError(say("criteria.mutants.not_finite"))
        return arguments

    def wrong(self, arguments: dict[str, Any], changes: Sequence[Sequence[str]] = ()) -> str:
        """Return a message on what is wrong with the kernel, mutated or not, on these arguments; "" if nothing is."""
        function = loaded(mutated(self.source, changes), self.entry)
        try:
            with nan_where_nobody_stores(), trace(work=Work(MOST_WORK)) as t:
                out = function(**arguments)
        except KernelFault as fault:
            return fault.fault.kind
        except (KernelError, RuntimeError, ValueError, TypeError) as error:
            return f"stopped: {error}"[:200]
        if t.faults:
            return t.faults[0].kind
        expected = self.right(**arguments)
        if out.shape != expected.shape:
            return say("criteria.mutants.another_shape")
        off = (out.double() - expected).abs()
        return (
            ""
            if bool((off <= self.budget(expected, out.dtype, arguments)).all())
            else say("criteria.mutants.another_result")
        )


@dataclass
class Kills(Criterion):
    """Criterion: inputs on which the given kernel is right, and mutants are not. A mutant counts if one of them shows it.

    free   the share of them that inputs kill which anybody writes without a thought: points begin behind it
    """

    given: Given
    free: float
    points: float
    group: str = "mutants"

    @property
    def title(self) -> str:
        return say("criteria.mutants.title")

    @property
    def missed(self) -> str:
        return say("criteria.mutants.missed")

    def judge(self, exercise: Exercise, trials: Sequence[Trial]) -> Finding:
        group = of_group(trials, self.group)
        killed: list[str] = []
        for trial in group:
            judged = GradedTrial.of(exercise, trial)
            if judged.stopped:
                return self.lost(judged.stopped, cause=judged.cause)
            written = trial.evidence.outputs[0]
            if written is None:
                return self.lost(say("criteria.mutants.no_inputs"), cause=Cause("blank"))
            if problem := _problem(self.given, json.dumps(written)):
                return self.lost(problem, cause=Cause("wrong", details={"criterion": self.key}))
            if how := _killed(self.given, json.dumps(written), json.dumps(trial.inputs[0]["changes"])):
                killed.append(
                    say("criteria.mutants.killed_by", mutant=trial.case.name, how=how) if not trial.case.hidden else ""
                )
        told = say("criteria.mutants.show", killed=len(killed), mutants=len(group))
        named = [*filter(None, killed)]
        free = math.ceil(self.free * len(group))
        worth = max(0, len(killed) - free) / (len(group) - free)
        detail = say("criteria.mutants.killed", killed=named) if named else ""
        if worth == 1:
            return self.earned(told, detail=detail)
        left = say("criteria.mutants.earn", show=told, free=free)
        cause = Cause("wrong", details={"criterion": self.key})
        points = round(self.points * worth, 2)
        return Finding(
            self.title,
            points,
            self.points,
            "failed",
            seen=left,
            detail=detail,
            cause=cause,
            expected=say("criteria.mutants.all"),
        )


@lru_cache(maxsize=256)  # several students hand in the same inputs, and nobody's hidden numbers come in
def _killed(what: Given, written: str, changes: str) -> str:
    """Say which of these inputs shows a mutant, and how; "" if none does."""
    arguments = [what.read(one) for one in json.loads(written)]
    for number, one in enumerate(arguments, 1):
        if how := what.wrong(one, json.loads(changes)):
            return say("criteria.mutants.shown_by", number=number, how=how)
    return ""


@lru_cache(maxsize=64)  # each case of an exercise asks the same
def _problem(what: Given, written: str) -> str:
    """A sentence if these inputs earn nothing; "" if the kernel as it is given is right on all of them."""
    inputs = json.loads(written)
    if not isinstance(inputs, list) or not 1 <= len(inputs) <= MOST_INPUTS:
        return say("criteria.mutants.no_list", most=MOST_INPUTS, got=in_words(inputs))
    for number, one in enumerate(inputs, 1):
        try:
            arguments = what.read(one)
        except ValueError as error:
            return say("criteria.mutants.input", number=number, problem=message_of(error))
        if found := what.wrong(arguments):
            return say("criteria.mutants.given_fails", number=number, how=found)
    return ""


def mutant(name: str, *changes: tuple[str, str]) -> Case:
    """Make a case of a mutant."""
    return fixed(name, "mutants", changes=[list(change) for change in changes])


def near_as(magnitude: Callable[..., Any], times: float = 64) -> ErrorBudget:
    """Make the error bound of `times` float32 roundings of this magnitude, plus 4 roundings of the result's dtype."""

    def budget(expected: torch.Tensor, dtype: torch.dtype, arguments: dict[str, Any]) -> torch.Tensor:
        size = torch.as_tensor(magnitude(**arguments), dtype=torch.float64)
        return times * torch.finfo(torch.float32).eps * size + 4 * torch.finfo(dtype).eps * expected.abs()

    return budget
