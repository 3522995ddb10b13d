"""Results beside what they should be: GradedTrial finds the first difference, and says where it is, for all criteria."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from typing import Any, TypeVar

import torch

from course_lib import common_mistakes, mistakes
from course_lib.catalogue import say
from course_lib.exercise import CodeLine, Exercise, Finding, Status, Trial
from course_lib.words import as_written, in_words, is_answer
from tritontrace.results import Cause

MOSTLY = 0.9  # of the elements: a map of more says nothing


SomeTrial = TypeVar("SomeTrial", bound=Trial)


def of_group(trials: Sequence[SomeTrial], group: str) -> list[SomeTrial]:
    """Select the trials whose case belongs to a group."""
    return [t for t in trials if t.case.group == group]


# ------------------------------------------------------------------------------------------------------- right or wrong


@cache
def _values(oracle: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Find out, once, what an exercise of kind "values" asks for: it takes no arguments, and may take a trace."""
    return oracle()


@dataclass(frozen=True)
class GradedTrial(Trial):
    """A trial of an exercise that computes what is wrong with it once, however many criteria ask."""

    exercise: Exercise
    known: dict[tuple[int, ...], tuple[tuple, Any]] = field(default_factory=dict, compare=False, repr=False)

    def once(self, work: Callable[[], Any], *of: Any) -> Any:
        """Return work(), computed once for the very same objects `of`: a copy of this trial (dataclasses.replace) knows it, too."""
        key = tuple(map(id, of))
        if key not in self.known:
            self.known[key] = of, work()  # while they are held here, no other object has their numbers
        return self.known[key][1]

    @classmethod
    def of(cls, exercise: Exercise, trial: Trial) -> GradedTrial:
        return trial if isinstance(trial, GradedTrial) else cls(trial.case, trial.inputs, trial.evidence, exercise)

    @property
    def stopped(self) -> str:
        """Return a message if there is not a result for each call, else "": such evidence proves nothing."""
        results, calls = len(self.evidence.outputs), len(self.inputs)
        too_few = "" if results == calls else say("criteria.result.too_few", results=results, calls=calls)
        return self._error or self.evidence.refused or too_few

    def _tuned(self, call: int) -> str:
        """Tell with which configuration of its tuner a kernel ran in a call, unless with the first one."""
        chosen = self.evidence.configurations
        return say("criteria.result.tuned", configuration=chosen[call]) if any(chosen) and chosen[call] else ""

    @property
    def _error(self) -> str:
        """The error of the run. A formula's may quote the hidden numbers it was given, in an exception's name too."""
        return (
            say("criteria.result.raised", case=self.case.name)
            if self.evidence.error and self._is_redacted
            else self.evidence.error
        )

    @property
    def _is_redacted(self) -> bool:
        """Whether nothing may be told of what a formula made of this case's numbers."""
        return self.case.hidden and self.exercise.kind != "kernel"

    @cached_property
    def difference(self) -> Finding | None:
        """Return a Finding on what is wrong, None if all is right. For named answers (a dict) always a Finding, with the share that is
        right."""
        wrong = Finding("", 0, 1, "failed", expected=say("criteria.result.right"), on=self.case.name, cause=self.cause)
        wrong.at = self.at
        wrong.seen = self.stopped
        if self.stopped and not (self.evidence.refused and self.evidence.outputs):
            wrong.detail = self._tuned(-1) if self.evidence.error else ""
            return wrong
        # what is refused and came to a result may be wrong besides: that is told first
        for call, (arguments, output) in enumerate(zip(self.inputs, self.evidence.outputs, strict=not self.stopped)):
            values = self.exercise.kind == "values"
            expected = _values(self.exercise.oracle) if values else self._right(arguments)
            if isinstance(expected, dict):
                return wrong if self.stopped else share(expected, output)
            for part, (got, right, name) in enumerate(_pairs(output, expected)):
                label = f"out[{part}]" if name else "out"
                missing = got is None and not is_nothing(output)
                backward = part and self.exercise.called == "forward and backward"
                problem = (
                    say(f"criteria.result.none_{'from_backward' if backward else 'of_several'}")
                    if missing
                    else self._compare(arguments, got, right, wrong, label) or self._apart(call, part, got, wrong)
                )
                if problem:
                    both = name or call
                    wrong.seen = (
                        say("criteria.result.part", part=name, problem=problem, again=not call) if both else problem
                    )
                    wrong.cause = Cause("wrong", self.case.name) if missing else self._why(got)
                    # a fault is what happened; what wrong elements look like is a guess
                    happened = self.evidence.faults[0].sentence if self.evidence.faults else ""
                    wrong.detail = (
                        happened
                        or self._swapped(arguments, output, part, expected)
                        or self.once(
                            partial(self._computed, arguments, got, part, right), GradedTrial._computed, got, right
                        )
                        or wrong.detail
                    )
                    if self.evidence.formula and self.evidence.formula.right:
                        wrong.detail = happened  # the guesses are about formulas
                    if tuned := self._tuned(call):
                        both = {"one": tuned, "other": wrong.detail}
                        wrong.detail = say("criteria.looks.both", **both) if wrong.detail else tuned
                    return wrong
        if self.evidence.faults and not self.stopped:
            wrong.seen, wrong.cause = self.evidence.faults[0].sentence, self.evidence.faults[0].cause
        return wrong if wrong.seen else None

    @cached_property
    def is_wrong_in_numbers(self) -> bool:
        """Whether the first call gives tensors of the right shapes and dtypes, but wrong elements."""
        if not self.evidence.outputs or self.exercise.kind != "kernel":
            return False
        arguments, wrong = self.inputs[0], False
        for got, right, _ in _pairs(self.evidence.outputs[0], self._right(arguments)):
            if not isinstance(got, torch.Tensor) or not isinstance(right, torch.Tensor):
                return False
            if got.shape != right.shape or got.dtype != _expected_dtype(arguments, right):
                return False
            wrong = wrong or bool(self._marked(arguments, got, right).any())
        return wrong

    @property
    def cause(self) -> Cause:
        """Return the cause of a missing result; of a wrong result, Cause("wrong")."""
        return self.evidence.cause or Cause("wrong", self.case.name)

    @property
    def at(self) -> CodeLine | None:
        """Return the line of the fault that is told of: of the one that ended the run, else of the first."""
        faults = [f for f in self.evidence.faults if not self.stopped or f.cause == self.evidence.cause]
        fault = faults[0] if faults else None
        return CodeLine(fault.line, fault.source) if fault and fault.source else None

    def _why(self, got: Any) -> Cause:
        if got is None:
            return Cause("blank")
        return self.evidence.faults[0].cause if self.evidence.faults else Cause("wrong", self.case.name)

    def _apart(self, call: int, part: int, got: Any, finding: Finding) -> str:
        """Say that a right tensor is not contiguous, where that is asked for, else ""."""
        strides = self.evidence.strides[call] if call < len(self.evidence.strides) else None
        strides = strides[part] if strides and isinstance(strides[0], list) else strides
        if not self.exercise.contiguous or not strides or not isinstance(got, torch.Tensor):
            return ""
        if torch.empty_strided(got.shape, strides, device="meta").is_contiguous():
            return ""
        finding.detail = say("criteria.result.apart_detail")
        return say("criteria.result.apart", got=tuple(strides), right=got.contiguous().stride())

    def _unstored(self, label: str, nbytes: int) -> int | None:
        """Bytes of this result that the kernels of the last call did not store; None if several may have stored the same,
        or if it is a part of a larger tensor."""
        own = [f for launch in self.evidence.launches for f in launch.footprints if f.tensor == label]
        if not own or own[0].nbytes != nbytes:
            return None
        stored = [f.written_distinct_bytes for f in own if f.written_bytes]
        return max(0, nbytes - sum(stored)) if len(stored) < 2 or sum(stored) >= nbytes else None

    def _swapped(self, arguments: dict[str, Any], output: Any, part: int, expected: Any) -> str:
        """A sentence if one of several results is what another one should be."""

        def fits(got: Any, right: Any) -> bool:
            both = isinstance(got, torch.Tensor) and isinstance(right, torch.Tensor)
            return both and got.shape == right.shape and not bool(self._wrong(arguments, got, right).any())

        for other, (got, right, name) in enumerate(_pairs(output, expected)):
            if name and other != part and fits(output[part], right):
                name = "twice" if fits(got, right) else "swapped"
                return say(f"criteria.result.{name}", part=part + 1, other=other + 1)
        return ""

    def _computed(self, arguments: dict[str, Any], got: Any, part: int, right: Any) -> str:
        """A sentence if kernels computed something else that can be named: see course_lib.common_mistakes."""
        if not self.evidence.launches or not isinstance(got, torch.Tensor) or not isinstance(right, torch.Tensor):
            return ""
        if got.shape != right.shape or got.dtype != _expected_dtype(arguments, right) or not got.is_floating_point():
            return ""

        # where all that is wrong is NaN, many mistakes are alike
        proof = self._marked(arguments, got, right) & got.isfinite()
        if int(proof.sum()) < common_mistakes.FEWEST_ELEMENTS:
            return ""

        def is_like(seen: torch.Tensor, other: torch.Tensor, given: dict[str, Any]) -> bool:
            if other.shape != seen.shape:
                return False
            both = seen.isnan() & other.isnan()
            return not bool((self._wrong(given, seen, other) & ~both).any())

        def is_result_of(given: dict[str, Any]) -> bool:
            expected = self.exercise.oracle(**given)
            expected = expected[part] if isinstance(expected, tuple) else expected
            return is_like(got, expected, given)

        if misreading := common_mistakes.misread(arguments, is_result_of):
            return misreading
        meant = common_mistakes.stored_across(got)
        if meant is not None and is_like(meant, right, arguments):
            return say("criteria.kind.across")
        reference = self._reference(arguments, right)
        return common_mistakes.rounded(reference, got) or common_mistakes.constant(reference, got)

    def _right(self, arguments: dict[str, Any]) -> Any:
        """The oracle's results of one of the calls."""
        return self.once(partial(self.exercise.oracle, **arguments), self.exercise.oracle, arguments)

    def _marked(self, arguments: dict[str, Any], got: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """The wrong elements of a result."""
        return self.once(partial(self._wrong, arguments, got, right), got, right)

    def _wrong(self, arguments: dict[str, Any], got: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
        """A boolean tensor that marks the wrong elements. `got` and `expected` have the same shape; `expected` is as
        the oracle gives it."""
        reference = self._reference(arguments, expected)
        if self.exercise.budget is None:
            return ~((got == reference) | (got.isnan() & reference.isnan()))
        budget = self.exercise.budget(reference, _expected_dtype(arguments, expected), arguments)
        # written so that NaN is wrong, and that equal infinities are right
        given = got.double()
        near = (given - reference).abs_() <= budget
        return ~near if bool(near.all()) else ~(near | (given == reference))

    def _reference(self, arguments: dict[str, Any], expected: torch.Tensor) -> torch.Tensor:
        """The tensor that a result is compared with: in its own dtype if it must be equal, in float64 if there is a budget."""
        return expected.to(_expected_dtype(arguments, expected)) if self.exercise.budget is None else expected.double()

    def _compare(self, arguments: dict[str, Any], got: Any, expected: Any, finding: Finding, label: str) -> str:
        """ "" if `got` is right, else what is wrong with it; the picture and the likely mistake go into `finding`."""
        if got is None:
            return blank(self.exercise)
        if self._is_redacted and (isinstance(expected, tuple) or type(got) not in (int, float, bool)):
            # not even how many results there are, or of what type
            return say("criteria.result.hidden_kind")
        if isinstance(expected, tuple):
            return say("criteria.result.several", results=len(expected), got=_kind(got))
        if not isinstance(expected, torch.Tensor):
            if type(got) not in (int, float, bool):
                return say(f"criteria.result.{'truth' if isinstance(expected, bool) else 'number'}", got=_kind(got))
            close = got == expected or (
                isinstance(expected, float)
                and abs(got) < 1e300
                and math.isclose(got, expected, rel_tol=self.exercise.rel_tol, abs_tol=1e-12)
            )
            if self.case.hidden and not close:
                return say("criteria.result.hidden_number")
            if close:
                return ""
            given = [f"{k} = {in_words(v)}" for k, v in arguments.items() if not isinstance(v, torch.Tensor)]
            return say("criteria.result.wrong_number", numbers=given, right=repr(expected), got=in_words(got))
        if not isinstance(got, torch.Tensor):
            return say("criteria.result.no_tensor", got=_kind(got))
        if got.shape != expected.shape:
            sizes = {n for v in [expected, *arguments.values()] if isinstance(v, torch.Tensor) for n in v.shape}
            if self.case.hidden and not set(got.shape) <= sizes:  # a size may be a number that was hidden
                return say("criteria.result.hidden_shape", right=tuple(expected.shape))
            shapes = {"right": tuple(expected.shape), "got": tuple(got.shape)}
            return say("criteria.result.shape", **shapes, turned=shapes["got"] == shapes["right"][::-1])
        dtype = _expected_dtype(arguments, expected)
        if got.dtype != dtype:
            if expected.dtype == torch.float64:
                name = next(n for n, v in arguments.items() if isinstance(v, torch.Tensor))
                where = "of_allocation" if self.evidence.launches else "at_the_end"
                finding.detail = say(f"criteria.result.dtype_{where}", name=name)
            elif self.evidence.launches:
                finding.detail = say("criteria.result.dtype_as_asked", right=str(dtype))
            return say("criteria.result.dtype", right=str(dtype), got=str(got.dtype))
        wrong = self._marked(arguments, got, expected)
        if not bool(wrong.any()):
            return ""
        if wrong.dim() > 1 and float(wrong.double().mean()) < MOSTLY:
            finding.error_map = mistakes.error_map(wrong)
        reference = self._reference(arguments, expected)
        if self.evidence.kernels and not self.evidence.launches:
            finding.detail = say(f"criteria.looks.no_{'program' if self.evidence.idle else 'launch'}")
        else:
            finding.detail = mistakes.looks_like(
                wrong,
                reference,
                got,
                arguments,
                kernel=bool(self.evidence.launches),
                unstored=self._unstored(label, got.numel() * got.element_size()),
                poisoned=self.evidence.poisoned,
            )
        asks = any(gate.key == "triton_did_the_work" for gate in self.exercise.gates)
        if asks and not finding.detail and not self.evidence.launches:
            finding.detail = say("criteria.looks.no_kernel")
        return mistakes.first_difference(wrong, reference, got, values=not self.case.hidden)


def share(expected: dict[str, Any], output: Any) -> Finding:
    """Return a Finding with the share of named answers that is right."""
    output = output if isinstance(output, dict) else {}
    rights = [
        key
        for key, value in expected.items()
        if (type(output.get(key)) in (int, float)) == (type(value) in (int, float)) and output.get(key) == value
    ]
    none = say("criteria.result.no_answer")
    wrongs = [
        say("criteria.result.you", question=k, answer=_written(output[k], expected[k]) if k in output else none)
        for k in expected
        if k not in rights
    ]
    wrongs += [say("criteria.result.no_question", question=key) for key in output if key not in expected]
    counts = {"right": len(rights), "questions": len(expected)}
    seen = (
        say("criteria.result.shares_wrong", **counts, wrong=wrongs)
        if wrongs
        else say("criteria.result.shares", **counts)
    )
    cause = None if any(is_answer(output.get(key)) for key in expected) else Cause("blank")
    status: Status = "failed" if wrongs else "passed"
    return Finding(
        "", len(rights) / len(expected), 1, status, seen=seen if len(seen) <= 400 else seen[:400], cause=cause
    )


def _written(answer: Any, expected: Any) -> str:
    """An answer as it was written, and of which kind it is where another is expected."""
    both_words = isinstance(answer, str) and isinstance(expected, str)
    if type(answer) is int and type(expected) is bool:  # 1 was given for True
        return say("criteria.result.truth_is_meant", answer=as_written(answer))
    if type(answer) is bool and type(expected) is int:
        return say("criteria.result.number_is_meant", answer=as_written(answer))
    return repr(answer) if both_words else as_written(answer)


def blank(exercise: Exercise) -> str:
    """Say which blank of an exercise is still to be filled in: the message for a call that returned None."""
    return say("criteria.result.blank", entry=exercise.entry, blank=exercise.blank)


def _pairs(output: Any, expected: Any) -> Iterable[tuple[Any, Any, str]]:
    """(got, expected, name) for each part of a result; a tuple of the wrong length is one part."""
    if not isinstance(expected, tuple):
        return [(output, expected, "")]
    if not isinstance(output, list) or len(output) != len(expected):
        return [(output, expected, "")]
    names = getattr(expected, "_fields", None) or [
        say("criteria.result.one_of", number=i, results=len(expected)) for i in range(1, len(expected) + 1)
    ]
    return [(got, right, f"{name}: ") for got, right, name in zip(output, expected, names, strict=True)]


def _expected_dtype(arguments: dict[str, Any], expected: torch.Tensor) -> torch.dtype:
    """Oracles give float64 for "the dtype of the first tensor argument", any other dtype literally."""
    if expected.dtype != torch.float64:
        return expected.dtype
    return next(v.dtype for v in arguments.values() if isinstance(v, torch.Tensor))


def _kind(value: Any) -> str:
    if isinstance(value, dict) and set(value) == {"unsupported"}:
        return str(value["unsupported"])
    if isinstance(value, list):
        return say("criteria.result.a_list", parts=len(value))
    kind = type(value).__name__
    return say("criteria.result.a_tensor") if kind == "Tensor" else say("criteria.result.a_value", kind=kind)


def is_nothing(output: Any) -> bool:
    """Whether a result holds nothing but None, as what an unsolved function gives for each of several arguments."""
    return output is None or (isinstance(output, list) and bool(output) and all(map(is_nothing, output)))
