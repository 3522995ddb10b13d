"""The vocabulary of the course: Exercise and Case go in; Evidence, Finding and Verdict come out.

    Case.draw(generator) ──▶ arguments ──▶ observe ──▶ Evidence ──▶ Criterion.judge ──▶ Finding ──▶ Verdict

Evidence is plain data (evidence.py), and so are Findings and Verdicts.
Criteria are pure functions of Trials (what went in, what came of it), so that the notebook and the grader cannot disagree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, NamedTuple

import torch

from course_lib.catalogue import say
from course_lib.evidence import Evidence, Timing
from course_lib.version import VERSION
from tritontrace import results
from tritontrace.results import Cause

ExerciseKind = Literal["kernel", "formula", "values"]
Language = Literal["Triton", "Gluon"]
Track = Literal["path", "more"]
ErrorBudget = Callable[[torch.Tensor, torch.dtype, dict[str, Any]], torch.Tensor]
MistakeMatcher = Callable[
    [Sequence[Any]], str
]  # of criteria.GradedTrial: trials that know what is right, on a higher floor


MOST_NUMBERS = 1 << 14  # in the memory of a tensor that an answer makes up, as breaking inputs are


@dataclass(frozen=True)
class Case:
    """One call of the student's function.

    group   which criteria read this case: "plain", "ragged", "strided", "performance", ...
    draw    a generator -> the arguments, by parameter name. Called with other seeds it must give the same shapes, strides,
            dtypes and plain numbers, and other values: a recorded log is replayed on data that the recorder never saw.
    hidden  findings may tell its shapes and places, but no input value and no expected value
    """

    name: str
    group: str
    # trap: other seeds must give the same shapes, strides, dtypes and plain numbers, since the log is replayed on other
    # values
    draw: Callable[[torch.Generator], dict[str, Any]]
    hidden: bool = False

    def arguments(self, seed: int) -> dict[str, Any]:
        return self.draw(torch.Generator().manual_seed(seed))


@dataclass(frozen=True)
class Trial:
    """A case as drawn once: the arguments of each call, and the evidence."""

    case: Case
    inputs: Sequence[dict[str, Any]]
    evidence: Evidence

    @property
    def calls(self) -> list[tuple[dict[str, Any], Any]]:
        """(arguments, result) of each call that came to its end: a trial that was stopped has fewer results than inputs."""
        return [*zip(self.inputs, self.evidence.outputs, strict=False)]


# ----------------------------------------------------------------------------------------------------- verdicts


@dataclass
class ErrorMap:
    """The places where a result is wrong: a coarse grid over the output, each cell the share of wrong elements in it."""

    shares: list[list[float]]
    rows: int  # elements of the output along each side of the map
    columns: int
    extent: list[int]  # first and last wrong row, first and last wrong column
    lead: list[int] = field(default_factory=list)  # other dimensions: that many matrices lie one below the other


@dataclass
class Spent:
    """Resources that an answer spent, against what the task needs: "98,304 sectors are touched, 10,240 would do".

    unit     of all three numbers, in the plural;  done  what was done to them: "touched", "moved"
    on       the case whose numbers these are
    """

    unit: str
    done: str
    needed: float
    spent: float
    allowed: float
    on: str = ""


@dataclass
class CodeLine:
    """A line of the student's code: its number in the cell, and what stands there, without comments."""

    number: int
    source: str


@dataclass
class Request:
    """One request of a load or store, up to 32 lanes: of all that its line makes, one that touches most sectors.

    offsets    bytes of each active lane from the beginning of the tensor;  itemsize  bytes that each lane reads or writes
    """

    tensor: str
    op: str
    line: int
    itemsize: int
    offsets: list[int]

    @property
    def sectors(self) -> list[int]:
        """Return the numbers of the 32-byte sectors that the request touches, ascending."""
        return sorted({byte // 32 for o in self.offsets for byte in (o, o + self.itemsize - 1)})


# trap: reports, exports and pages read status and cause, never a sentence: one that is read by code can be neither
# mended nor translated, and a student's exception may contain it
Status = Literal["passed", "partial", "failed", "same_cause", "waiting", "not_judged", "not_measured"]
About = Literal["result", "cost"]
Outcome = Literal[
    "right",
    "wasteful",
    "partly",
    "wrong",
    "waiting",
    "not_begun",
    "did_not_run",
    "not_accepted",
    "not_judged",
    "excused",
]
CauseKind = (
    results.CauseKind
    | Literal[
        "blank",  # as it was handed out: nothing is returned, or a prediction is not filled in
        "wrong",  # another result than the right one
        "waste",  # right, and more traffic, memory or work than is needed
        "used_up",  # the time of a submission, by what came before
        "not_handed_out",  # the student got an earlier release of the notebook
        "ended_twice",  # it ended the process that judged it, twice
        "grader_failed",
    ]
)
NOT_THE_RUN = ("blank", "refused", "fault", "wrong", "waste")  # kinds of causes; of all others, nothing came to an end


@dataclass
class Finding:
    """One line of a verdict.

    status    same_cause: failed for the cause of an earlier finding, which alone tells it;  waiting: the compiler goes on, see
              Verdict.until_compiled;  not_judged: behind a gate that failed, or nothing is known;  not_measured: there is no GPU
    key       what the criterion is known by, whatever its title says
    missed    what a program did that lost its points, in a few words; `title` says what should hold
    about     whether it asks for the right result, or for what that costs
    cause     why it is not passed, as data; None where the criterion itself says all
    carried   those of its points that rest on another exercise's mistake (Verdict.rests_on)
    at        the line that it is about
    spent     what was counted, against what would do;  request  an access to be drawn: one that wastes, where too much was spent
    late      whether the compiler was not asked all of it in time
    """

    title: str
    points: float
    out_of: float
    status: Status
    expected: str = ""
    seen: str = ""
    detail: str = ""  # where, and what it looks like
    on: str = ""  # the case that has another result than the right one
    cause: Cause | None = None
    key: str = ""
    gate: bool = False
    bonus: bool = False
    error_map: ErrorMap | None = None
    carried: float = 0.0
    missed: str = ""
    about: About = "result"
    at: CodeLine | None = None
    spent: Spent | None = None
    request: Request | None = None
    late: bool = False

    def __post_init__(self) -> None:
        self.missed = self.missed or self.title

    @property
    def blank(self) -> bool:
        """Whether the points are lost because nothing was written yet."""
        return self.lost and self.cause is not None and self.cause.kind == "blank"

    @property
    def wasteful(self) -> bool:
        """Whether the points are lost by the cost of a right result."""
        return self.lost and self.about == "cost" and (self.cause is None or self.cause.kind == "waste")

    @property
    def judged(self) -> bool:
        return self.status not in ("waiting", "not_judged", "not_measured")

    @property
    def passed(self) -> bool:
        return self.status == "passed"

    @property
    def lost(self) -> bool:
        """Whether it was judged and did not pass; part of its points may still be earned."""
        return self.judged and not self.passed


@dataclass
class Verdict:
    """All findings on one exercise, and what they add up to.

    rests_on    earlier exercises with a mistake that cost points here, which are given back (see grader/judging/follow_through.py)
    version     of the course that judged it
    on          which machine that was, where a class was graded
    asked       a sentence on the task, where it was drawn for the student
    gpu         on which its kernels ran, too;  timing = there, where it was measured
    """

    exercise: str
    points: float
    out_of: float
    findings: list[Finding]
    bonus: float = 0.0  # extra credit, never part of points
    remark: str = ""  # one closing sentence that teaches
    printed: str = ""  # the first characters that the student's code printed
    rests_on: list[str] = field(default_factory=list)
    version: str = VERSION
    on: str = ""
    asked: str = ""
    gpu: str = ""
    timing: Timing | None = None

    @property
    def judged(self) -> bool:
        """Whether any finding was judged. If none was, 0 is no mark: the grader failed (see criteria.unjudged)."""
        return not self.findings or any(finding.judged for finding in self.findings)

    @property
    def outcome(self) -> Outcome:
        """Return the outcome as data; render/verdicts.py has the words for it."""
        lost = [finding for finding in self.findings if finding.lost and not finding.bonus]
        kind = lost[0].cause.kind if lost and lost[0].cause else ""
        if not self.judged:
            return "not_judged"
        if self.waits and all(finding.wasteful for finding in lost):
            return "waiting"
        if not lost:
            excused = any(finding.cause and finding.cause.kind == "not_handed_out" for finding in self.findings)
            return "excused" if excused else "right"
        if all(finding.wasteful for finding in lost):
            return "wasteful"
        if self.points:
            return "partly"
        if not kind or kind in NOT_THE_RUN:
            begun: dict[str, Outcome] = {"blank": "not_begun", "refused": "not_accepted"}
            return begun.get(kind, "wrong")
        return "did_not_run"

    @property
    def waits(self) -> bool:
        """Whether some findings still wait for the compiler."""
        return any(finding.status == "waiting" for finding in self.findings)

    def until_compiled(self) -> Verdict:
        """Return the verdict while the compiler is still running: findings that need it are "waiting" and earn nothing yet."""
        findings = [replace(f, status="waiting", points=0.0) if f.late else f for f in self.findings]
        return replace(self, findings=findings, points=self.points - self.points_of_late)

    @property
    def points_of_late(self) -> float:
        """Return the points of findings that the compiler was not asked about in time."""
        return sum(finding.points for finding in self.findings if finding.late)

    @property
    def cause(self) -> Cause | None:
        """Return the cause of the first finding that did not pass, apart from extra credit."""
        return next((f.cause for f in self.findings if not f.passed and not f.bonus and f.cause), None)


class Criterion:
    """One thing that an exercise asks for: a title, the points it is worth, and how it is judged. Each criterion is a
    dataclass derived from this one."""

    title: str
    points: float
    about: ClassVar[About] = "result"
    reported: ClassVar[bool] = (
        False  # whether it reads the compiler's whole report on a kernel, and not only whether it is accepted
    )
    missed = ""  # in a few words, what an answer does that loses the points; a property where that depends on a field

    @property
    def key(self) -> str:
        """Return the name by which code knows the criterion, whatever its title says: its class and what it checks. Unique in an
        exercise."""
        words = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", type(self).__name__).lower()
        asked = getattr(getattr(self, "problem", None), "__name__", "")
        looks_at = [getattr(self, name, "") for name in ("name", "op", "tensor", "group")]
        return ".".join(filter(None, [words, asked, *looks_at]))

    def judge(self, exercise: Exercise, trials: Sequence[Trial]) -> Finding:
        raise NotImplementedError

    def earned(self, seen: str, **more: Any) -> Finding:
        return Finding(self.title, self.points, self.points, "passed", seen=seen, **more)

    def lost(self, seen: str, **more: Any) -> Finding:
        return Finding(self.title, 0, self.points, "failed", seen=seen, **more)

    def left_open(self, seen: str, **more: Any) -> Finding:
        """Make a finding of status "not_judged", which costs no points."""
        return Finding(self.title, self.points, self.points, "not_judged", seen=seen, **more)


class TimedCriterion(Criterion):
    """Base of criteria on the time of one case, as a ratio to a baseline.

    vs        the baseline in a word or two
    needed    the arguments of a call -> bytes that the task moves at best; no honest time beats half the memory's bandwidth
    baseline  the arguments of a call -> a function to time; if none, a device-to-device copy of the bytes needed
    """

    vs: str
    case: Case
    needed: Callable[..., float]
    baseline: Callable[..., Callable[[], object]] | None


# ----------------------------------------------------------------------------------------------------- exercises


class Effort(NamedTuple):
    """How long a student takes for an exercise, how many lines an answer has, and how difficult it is, from 1 to 5."""

    minutes: int
    lines: int
    difficulty: int


@dataclass(frozen=True)
class Exercise:
    """An exercise, defined once and judged by the same criteria everywhere.

    id         "unit_name.exercise", e.g. "coalescing.transpose"
    entry      the name the student defines; unless it is given, that with which the signature begins
    track      "path": the exercise is on the main path, from strides to FlashAttention; "more": it stands behind that, and nothing on
               the path needs it. Points of a unit are those of its path; those of More are extra
    kind       "kernel": the function launches Triton kernels and is replayed; "formula": it computes numbers and is judged
               by what it returns on drawn parameters; "values": the name holds a prediction, a dict of numbers that is
               written down and not computed (see course_lib/handin/literals.py)
    language   of the kernels that the function launches: those in Gluon are simulated, in many orders (tritontrace/src/tritontrace/hopper)
    oracle     the same arguments -> the expected result: Torch, brute force or a trace, never the solution. A float64
               tensor stands for the dtype of the first tensor argument, any other dtype for itself.
    budget     (expected in float64, dtype of the result, arguments) -> the greatest error allowed per element; None demands equality
    rel_tol    how far a number that is no whole one may be off, relative to the oracle's
    allows     what torch may do inside the function besides allocations and views, as aten names ("add", "copy_")
    called     how a check calls the function where f(**arguments) will not do: a name in course_lib.execution.calls.CALLS
    given      functions in the exercise's cell that are not the student's to change: the grader puts the course's in their place
    kernels    those that it asks about: its notebook has a cell of them (grader/building/build.py)
    blank      what is said of the function where a call gives nothing
    wiring     the most that an answer earns with the published functions in place of the student's, if those that it calls have earned
               less themselves; None where the exercise asks for enough besides
    twist      the name of the task, where it is drawn for a student (exercises/twists.py);  asks = a sentence on it
    without    modules that answer the exercise by themselves: in a check, nothing of them works, and the line that announces the
               exercise names them
    """

    id: str
    signature: str
    effort: Effort
    cases: Sequence[Case]
    oracle: Callable[..., Any]
    entry: str = ""
    # trap: an LMS and nbgrader know one maximum, the path's: a check of More is worth 0 there, and SaveExtras writes
    # what counts of it as extra credit
    track: Track = "path"
    kind: ExerciseKind = "kernel"
    language: Language = "Triton"
    # trap: a gate that fails loses everything; the traffic of a wrong result is worth nothing
    gates: Sequence[Criterion] = ()
    criteria: Sequence[Criterion] = ()
    bonus: Sequence[TimedCriterion] = ()
    budget: ErrorBudget | None = None
    rel_tol: float = 1e-9
    allows: frozenset[str] = frozenset()
    called: str = ""
    blank: str = say("criteria.result.returns_nothing")
    wiring: float | None = None
    without: Sequence[str] = ()
    # trap: what a kernel is judged through is not the student's: provided.py puts the course's in place
    given: Sequence[str] = ()
    kernels: Sequence[Any] = ()
    mistakes: Sequence[MistakeMatcher] = ()
    twist: str = ""
    asks: str = ""

    def __post_init__(self) -> None:
        entry = self.entry or re.split(r"\W", self.signature)[0]
        object.__setattr__(self, "entry", entry)

    @property
    def points(self) -> float:
        return sum(criterion.points for criterion in self.criteria)

    @property
    def grade_id(self) -> str:
        """Return the id with dashes, as nbgrader allows only letters, digits, dashes and underscores in a cell's id."""
        return re.sub(r"\W", "-", self.id)

    @property
    def check_id(self) -> str:
        """Return nbgrader's grade_id of the cell that holds the points."""
        return f"{self.grade_id}-check"
