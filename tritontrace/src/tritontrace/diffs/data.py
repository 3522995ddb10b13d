"""Changes: what two traces of the same work counted, before and after, as data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

SCHEMA = 1  # of Changes.to_dict: a number that grows when a name in it changes

COMPUTE = (
    "compute"  # beside the operations on memory: what a statement computes;  FLOPS  the name of the sum of its kinds
)
FLOPS = "flops"

Status = Literal["equal", "changed", "added", "removed"]


@dataclass
class Side:
    """The accesses of one statement to one tensor by one operation, or the floating-point operations of one statement, summed over the
    launches of its kernel, before or after.

    where     "softmax.py:12";  text  the line;  tensor  "" where it computes
    counts    instructions, bytes, sectors, ...: those of results.Access; where it computes "flops", and of these each kind of results.Flops
    of_tensor, distinct   bytes that the whole kernel loads from the tensor (or stores to it), and how many of them differ in a launch
    """

    where: str
    text: str
    tensor: str
    counts: dict[str, int]
    of_tensor: int = 0
    distinct: int = 0

    @property
    def per_byte(self) -> float:
        """Return how often the kernel loads (or stores) each byte of the tensor, on average."""
        return self.of_tensor / max(1, self.distinct)


@dataclass
class LineChange:
    """Change of one operation on one tensor by one statement, or of what a statement computes.

    op              "load", "store", "atomic" or "compute"
    before, after   None where it is only in the other version
    """

    op: str
    before: Side | None
    after: Side | None

    @property
    def equal(self) -> bool:
        a, b = self.before, self.after
        if a is None or b is None:
            return False
        return _common(a.counts, b.counts) and (a.of_tensor, a.distinct) == (b.of_tensor, b.distinct)

    def counted(self, name: str) -> tuple[int, int]:
        """Return a count before and after; 0 where the line is only in the other version."""
        a, b = (side.counts.get(name, 0) if side else 0 for side in (self.before, self.after))
        return a, b


def _common(a: dict[str, int], b: dict[str, int]) -> bool:
    """Whether the counts that both have are alike: one of them may be an older version's."""
    return all(a[name] == b[name] for name in a.keys() & b.keys())


@dataclass
class StatementChange:
    """Change of a statement, with the number of its first line in the file; 0 and "" where it is only in one version."""

    before: int
    after: int
    old: str
    new: str
    changed: bool


@dataclass
class Fault:
    """A fault of one version that the other does not have."""

    kind: str
    kernel: str
    where: str
    tensor: str
    sentence: str


@dataclass
class Kernel:
    """Change of one kernel. names: its name in each version, "" where it is only in the other one.

    launches, grids, flops   before and after; FLOPs by unit
    lines         each operation on each tensor, in the order of the text
    text          each statement;  helpers  the functions it calls whose text changed
    mixed         launches of kernels with different texts bear this name
    reordered     all sums are equal, and yet no launch is paired with one that counts the same
    """

    names: tuple[str, str]
    launches: tuple[int, int]
    grids: tuple[list[list[int]], list[list[int]]]
    flops: tuple[dict[str, int], dict[str, int]]
    lines: list[LineChange] = field(default_factory=list)
    text: list[StatementChange] = field(default_factory=list)
    helpers: list[str] = field(default_factory=list)
    mixed: bool = False
    reordered: bool = False

    @property
    def name(self) -> str:
        return self.names[1] or self.names[0]

    @property
    def status(self) -> Status:
        if not all(self.names):
            return "added" if self.names[1] else "removed"
        alike = self.launches[0] == self.launches[1] and self.flops[0] == self.flops[1] and not self.reordered
        return "equal" if alike and all(line.equal for line in self.lines) else "changed"

    @property
    def same_text(self) -> bool:
        """Whether the source of the kernel and of what it calls is unchanged: then arguments, constants or the grid make the difference."""
        return all(self.names) and not self.helpers and not any(text.changed for text in self.text)

    def counted(self, name: str) -> tuple[int, int]:
        """Return a count, of all lines: before and after."""
        a, b = (sum(line.counted(name)[side] for line in self.lines) for side in (0, 1))
        return a, b


@dataclass
class Excess:
    """A count that grew more than is allowed. kernel: "" for all together;  count: "bytes" or "sectors"."""

    kernel: str
    count: str
    before: int
    after: int

    @property
    def ratio(self) -> float:
        return self.after / self.before if self.before else math.inf


@dataclass(repr=False)
class Changes:
    """Differences between two traces, before and after.

    titles     what was traced
    stopped    what kept each from its end, in a sentence, or ""
    cards      on which GPU each was traced, None where that is not known
    new_faults, gone_faults   of the second that the first lacks, and of the first that the second lacks
    """

    titles: tuple[str, str]
    kernels: list[Kernel]
    new_faults: list[Fault] = field(default_factory=list)
    gone_faults: list[Fault] = field(default_factory=list)
    stopped: tuple[str, str] = ("", "")
    cards: tuple[Any, Any] = (None, None)

    @property
    def equal(self) -> bool:
        """Whether both ran to their ends, and all counts and faults are equal."""
        other = self.new_faults or self.gone_faults or any(self.stopped)
        return not other and all(kernel.status == "equal" for kernel in self.kernels)

    def counted(self, name: str) -> tuple[int, int]:
        """Return a count of results.Access, such as "bytes" or "sectors", or "flops", of all kernels: before and after."""
        a, b = (sum(kernel.counted(name)[side] for kernel in self.kernels) for side in (0, 1))
        return a, b

    @property
    def bytes(self) -> tuple[int, int]:
        return self.counted("bytes")

    @property
    def sectors(self) -> tuple[int, int]:
        return self.counted("sectors")

    @property
    def flops(self) -> tuple[int, int]:
        a, b = (sum(sum(kernel.flops[side].values()) for kernel in self.kernels) for side in (0, 1))
        return a, b

    def exceeded(self, at_most: float) -> list[Excess]:
        """List the counts of bytes and sectors, of all kernels together and of each in both versions, that grew by more than this ratio."""
        return [excess for excess in self._grown() if excess.after > at_most * excess.before]

    def _grown(self) -> Iterator[Excess]:
        for count in ("bytes", "sectors"):
            yield Excess("", count, *self.counted(count))
        for kernel in self.kernels if len(self.kernels) > 1 else ():  # of one, the sums say it
            if all(kernel.names):
                for count in ("bytes", "sectors"):
                    yield Excess(kernel.name, count, *kernel.counted(count))

    def to_dict(self) -> dict[str, Any]:
        """Return the changes as JSON can hold them, with derived values."""
        kernels = [
            {**asdict(kernel), "status": kernel.status, "same_text": kernel.same_text} for kernel in self.kernels
        ]
        sums = {"equal": self.equal, "bytes": self.bytes, "sectors": self.sectors, "flops": self.flops}
        return {"schema": SCHEMA, **sums, **asdict(self), "kernels": kernels}
