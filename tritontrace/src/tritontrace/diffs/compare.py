"""Two reports, as report.as_data makes them and `tritontrace --format json` writes them -> a Diff."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tritontrace.diffs.data import COMPUTE, FLOPS, Fault, Kernel, LineChange, Side, StatementChange
from tritontrace.diffs.diff import Diff
from tritontrace.diffs.statements import KernelStatement, Pair, matched, similarity, statements
from tritontrace.results import COUNTERS

RENAMED = 0.6  # share of statements in common, from which two kernels of different names are one

Place = tuple[int, str, str]  # of an access: the index of its statement, its operation, its tensor


class NotComparable(ValueError):
    """Raised, with a sentence, for data that is no report, or lacks what a diff needs."""


class _Kernel:
    """One kernel of a report: its text, and its launches."""

    def __init__(self, name: str, known: Mapping[str, Any], launches: Sequence[Mapping[str, Any]], counters: set[str]):
        self.name, self.launches, self._counters = name, launches, counters
        self.first_line, self.lines = known["first_line"], known["source"]
        self.helpers = {name: statements(lines) for name, lines in known["helpers"].items()}
        self.statements = statements(self.lines)
        self._statement = {n: i for i, one in enumerate(self.statements) for n in range(one.first, one.last + 1)}

    @property
    def mixed(self) -> bool:
        """Whether another kernel of the same name was launched, too: lines were seen that are not in this one's text."""
        kernel_lines = [each for launch in self.launches for each in launch["lines"] if self._is_own(each)]
        return any(each["source"] != self._line(each["where"]) for each in kernel_lines)

    def _is_own(self, line: Mapping[str, Any]) -> bool:
        """Whether a line is the kernel's, and not a partition's in Gluon. An older version does not say."""
        return line.get("function", self.name) == self.name

    def _line(self, where: str) -> str:
        number = int(where.rpartition(":")[2]) - self.first_line + 1
        return self.lines[number - 1].strip() if 1 <= number <= len(self.lines) else ""

    def statement(self, where: str) -> int:
        """The index of the statement at a place such as "add.py:12"; that of the `def` if there is none."""
        return self._statement.get(int(where.rpartition(":")[2]) - self.first_line + 1, 0)

    def _statement_of(self, line: Mapping[str, Any]) -> int:
        """The same of a line's counts; a partition's stand at the `def`."""
        return self.statement(line["where"]) if self._is_own(line) else 0

    def counted(self, launch: Mapping[str, Any]) -> dict[Place, Counter[str]]:
        """The counts of a launch. `x_ptr#2` is x_ptr, of another launch of the kernel."""
        found: dict[Place, Counter[str]] = {}
        for access in launch["lines"]:
            place = self._statement_of(access), access["op"], _parameter(access["tensor"])
            found.setdefault(place, Counter()).update({name: access[name] for name in self._counters & access.keys()})
        for line in launch["line_flops"] if FLOPS in self._counters else ():
            place = self._statement_of(line), COMPUTE, ""
            found.setdefault(place, Counter()).update({FLOPS: sum(line["flops"].values()), **line["flops"]})
        return found

    def footprint(self, op: str, tensor: str) -> tuple[int, int]:
        """Bytes loaded from a tensor, or stored to it, in all launches, and how many of them differ within a launch."""
        kind = "read" if op == "load" else "written"
        mine = [t for launch in self.launches for t in launch["tensors"] if _parameter(t["tensor"]) == tensor]
        return sum(t[f"{kind}_bytes"] for t in mine), sum(t[f"{kind}_distinct_bytes"] for t in mine)

    def side(self, place: Place, counts: Mapping[str, int]) -> Side:
        index, op, tensor = place
        where = f"{self.launches[0]['where'].rpartition(':')[0]}:{self.line_in_file(self.statements[index])}"
        return Side(where, self.text(self.statements[index]), tensor, dict(counts), *self.footprint(op, tensor))

    def line_in_file(self, statement: KernelStatement) -> int:
        return self.first_line + statement.first - 1

    def text(self, statement: KernelStatement) -> str:
        return " ".join(line.strip() for line in self.lines[statement.first - 1 : statement.last])


def _parameter(tensor: str) -> str:
    return tensor.partition("#")[0]


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> Diff:
    """Compare two reports as data. Raises NotComparable if one is malformed."""
    counters = _counters(before) & _counters(after)
    old, new = _kernels(before, counters), _kernels(after, counters)
    pairs = list(_named(old, new))
    kernels, twins = [], {}  # twins: a place of a kernel before -> the same place after
    for a, b in pairs:
        made, rows = _compared(a, b)
        kernels.append(made)
        if a and b:
            twins[a.name] = b, rows
    faults = _faults(before), _faults(after)
    keys = [_key(fault, twins, old) for fault in faults[0]], [_key(fault, {}, new) for fault in faults[1]]
    return Diff(
        (before.get("script", "before"), after.get("script", "after")),
        kernels,
        _without(faults[1], keys[1], keys[0]),
        _without(faults[0], keys[0], keys[1]),
        (before.get("stopped", ""), after.get("stopped", "")),
        (before.get("gpu"), after.get("gpu")),
    )


def _counters(report: Mapping[str, Any]) -> set[str]:
    """The counters that a report has: an older version may lack one, or FLOPs by line. Raises NotComparable."""
    if not isinstance(report, Mapping) or "launches" not in report:
        raise NotComparable("is no report of tritontrace")
    if "kernels" not in report:
        raise NotComparable("does not have the text of its kernels, since an older version wrote it; write it again")
    accesses = [access for launch in report["launches"] for access in launch["lines"]]
    by_line = {FLOPS} if all("line_flops" in launch for launch in report["launches"]) else set()
    return by_line | {name for name in COUNTERS if all(name in access for access in accesses)}


def _kernels(report: Mapping[str, Any], counters: set[str]) -> dict[str, _Kernel]:
    launches: dict[str, list] = {}
    for launch in report["launches"]:
        launches.setdefault(launch["kernel"], []).append(launch)
    return {name: _Kernel(name, report["kernels"][name], made, counters) for name, made in launches.items()}


def _named(old: Mapping[str, _Kernel], new: Mapping[str, _Kernel]) -> Iterator[tuple[_Kernel | None, _Kernel | None]]:
    """Each kernel with the one of the same name, or else with the one whose text is most alike, in order."""
    renamed = {}
    free = [kernel for name, kernel in new.items() if name not in old]
    gone = [kernel for name, kernel in old.items() if name not in new]
    alike = [(-_alike(a, b), i, j) for i, a in enumerate(gone) for j, b in enumerate(free)]
    for share, i, j in sorted(alike):
        taken = {id(other) for other in renamed.values()}
        if -share >= RENAMED and gone[i].name not in renamed and id(free[j]) not in taken:
            renamed[gone[i].name] = free[j]
    yield from ((kernel, new.get(name) or renamed.get(name)) for name, kernel in old.items())
    yield from ((None, kernel) for kernel in free if kernel not in renamed.values())


def _alike(a: _Kernel, b: _Kernel) -> float:
    """The share of the text, without the names, that two kernels have in common."""
    return similarity([one.key for one in a.statements[1:]], [one.key for one in b.statements[1:]])


def _compared(a: _Kernel | None, b: _Kernel | None) -> tuple[Kernel, dict[int, int]]:
    """The kernel in both versions, and which statement of the first one is which of the second."""
    pairs = matched(a.statements if a else (), b.statements if b else ())
    sums = _summed(a), _summed(b)
    rows = [row for pair in pairs for row in _rows(pair, *sums)]
    lines = [
        LineChange(
            (p or q)[1],  # pyright: ignore[reportOptionalSubscript] - one of them is there
            a.side(p, sums[0][p]) if a and p else None,
            b.side(q, sums[1][q]) if b and q else None,
        )
        for p, q in rows
    ]
    made = Kernel(
        (a.name if a else "", b.name if b else ""),
        (len(a.launches) if a else 0, len(b.launches) if b else 0),
        ([x["grid"] for x in a.launches] if a else [], [x["grid"] for x in b.launches] if b else []),
        (_flops(a), _flops(b)),
        lines,
        [_text(pair, a, b) for pair in pairs],
        sorted(_changed_helpers(a, b)) if a and b else [],
        any(kernel.mixed for kernel in (a, b) if kernel),
    )
    if a and b and made.status == "equal":
        made.reordered = _launches(a, {p: n for n, (p, _) in enumerate(rows)}) != _launches(
            b, {q: n for n, (_, q) in enumerate(rows)}
        )
    return made, {i: j for i, j in pairs if i is not None and j is not None}


def _summed(kernel: _Kernel | None) -> dict[Place, Counter[str]]:
    sums: dict[Place, Counter[str]] = {}
    for launch in kernel.launches if kernel else ():
        for place, counts in kernel.counted(launch).items() if kernel else ():
            sums.setdefault(place, Counter()).update(counts)
    return sums


def _rows(
    pair: Pair, old: Mapping[Place, Any], new: Mapping[Place, Any]
) -> Iterator[tuple[Place | None, Place | None]]:
    """The accesses of a statement before with those after: to the tensor of the same name, or else in order."""
    for op in ("load", COMPUTE, "store", "atomic"):
        before = [place for place in old if place[:2] == (pair[0], op)]
        after = [place for place in new if place[:2] == (pair[1], op)]
        names = {place[2] for place in before} & {place[2] for place in after}
        twin = {place[2]: place for place in after if place[2] in names}
        others = iter([place for place in after if place[2] not in names])
        for place in before:
            yield place, twin[place[2]] if place[2] in names else next(others, None)
        yield from ((None, place) for place in others)


def _launches(kernel: _Kernel, row: Mapping[Place | None, int]) -> Counter:
    """How many launches there are of each kind, by what each line of each counts."""
    kinds = Counter()
    for launch in kernel.launches:
        lines = frozenset((row[place], frozenset(counts.items())) for place, counts in kernel.counted(launch).items())
        kinds[lines, frozenset(launch["flops"].items())] += 1
    return kinds


def _flops(kernel: _Kernel | None) -> dict[str, int]:
    sums = Counter()
    for launch in kernel.launches if kernel else ():
        sums.update(launch["flops"])
    return dict(sums)


def _text(pair: Pair, a: _Kernel | None, b: _Kernel | None) -> StatementChange:
    i, j = pair
    old, new = (kernel.statements[n] if kernel and n is not None else None for kernel, n in ((a, i), (b, j)))
    changed = old is None or new is None or (old.key != new.key and not (i == j == 0 and _only_renamed(old, new)))
    return StatementChange(
        a.line_in_file(old) if a and old else 0,
        b.line_in_file(new) if b and new else 0,
        a.text(old) if a and old else "",
        b.text(new) if b and new else "",
        changed,
    )


def _only_renamed(old: KernelStatement, new: KernelStatement) -> bool:
    """Whether two `def` lines differ in the name alone: `def`, name, ..."""
    return old.tokens[:1] == new.tokens[:1] == ("def",) and old.tokens[2:] == new.tokens[2:]


def _changed_helpers(a: _Kernel, b: _Kernel) -> set[str]:
    """The functions called in both versions, or in one, whose text is another one."""
    texts = [{name: [one.key for one in text] for name, text in kernel.helpers.items()} for kernel in (a, b)]
    return {name for name in texts[0].keys() | texts[1].keys() if texts[0].get(name) != texts[1].get(name)}


# ----------------------------------------------------------------------------------------------------- faults


def _faults(report: Mapping[str, Any]) -> list[Fault]:
    found = [
        Fault(*(fault[name] for name in ("kind", "kernel", "where", "tensor", "sentence")))
        for launch in report["launches"]
        for fault in launch["faults"]
    ]
    masked = [
        Fault("masked without other", each["kernel"], each["where"], "", "It loads masked positions without `other`.")
        for each in report["masked_without_other"]
    ]
    return found + masked


def _key(fault: Fault, twins: Mapping[str, tuple[_Kernel, dict[int, int]]], kernels: Mapping[str, _Kernel]) -> tuple:
    """Return what tells a fault from others, in words of the second version where `twins` has its kernel."""
    kernel = kernels.get(fault.kernel)
    statement = kernel.statement(fault.where) if kernel else -1
    name = fault.kernel
    if name in twins:
        other, rows = twins[name]
        name, statement = other.name, rows.get(statement, ("gone", statement))
    return name, statement, fault.kind


def _without(faults: Sequence[Fault], keys: Sequence[tuple], others: Sequence[tuple]) -> list[Fault]:
    """The faults that have no counterpart; of several alike at a line, so many have one as the other version has."""
    left = Counter(others)
    found = []
    for fault, key in zip(faults, keys, strict=True):
        if left[key] > 0:
            left[key] -= 1
        else:
            found.append(fault)
    return found
