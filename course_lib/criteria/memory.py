"""Criteria for what kernels did to memory: bytes, sectors, re-reads, buffers, what is kept for the backward pass. All of it is
counted, not timed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from course_lib.catalogue import say
from course_lib.criteria.copies import is_made
from course_lib.criteria.costs import (
    MIN_PROGRAMS,
    CostCriterion,
    ParallelWork,
    accesses,
    footprints,
    is_result,
    labels,
    moved_bytes,
    reads_copies,
)
from course_lib.exercise import CodeLine, Finding, Request, Spent, Trial
from tritontrace.results import Access, Cause, Footprint, Launch, Saved, tensors_of
from tritontrace.words import rounded


def _sectors(accesses: Sequence[Access]) -> tuple[int, float]:
    """(sectors that were touched, sectors that the useful bytes would fill)."""
    return sum(a.sectors for a in accesses), sum(a.useful_bytes for a in accesses) / 32


@dataclass
class Coalesced(CostCriterion):
    """Criterion: loads (or stores) touch hardly more 32-byte sectors than the bytes they use would fill.

    Compared for each line that moves at least 2 % of the bytes, and for all other lines together: the sectors touched
    against the useful bytes / 32. Accesses of single elements (an index, a length) do not count for a small tensor that
    is only moved that way.
    """

    op: str  # "load" or "store"
    points: float = 0.0
    at_most: float = 1.05
    group: str = "performance"

    @property
    def title(self) -> str:
        return say(f"criteria.dense.title_{self.op}")

    @property
    def missed(self) -> str:
        return say(f"criteria.dense.missed_{self.op}")

    def count(self, group: Sequence[Trial]) -> Finding:
        expected = say("criteria.dense.allowed", at_most=self.at_most)
        counted = self._counted(accesses(group, self.op))
        total = sum(a.bytes for a in counted)
        large = [a for a in counted if a.bytes >= 0.02 * total]
        wasteful = [a for a in large if self._wastes([a])]
        small = [a for a in counted if a.bytes < 0.02 * total]
        if sum(a.bytes for a in small) >= 0.02 * total and self._wastes(small):
            wasteful += [a for a in small if self._wastes([a])]
        sectors, needed = _sectors(counted)
        seen = say("criteria.dense.sectors", sectors=sectors, needed=needed)
        if not wasteful:
            spent = Spent(
                say("criteria.spent.sectors"), say("criteria.spent.touched"), needed, sectors, self.at_most * needed
            )
            most = max(large, key=lambda a: a.bytes, default=None)
            return self.earned(seen, expected=expected, spent=spent, request=most and self._request(most, group))
        worst = min(wasteful, key=lambda a: a.efficiency * 1e9 - a.sectors)
        trial = next(t for t in group if any(a is worst for a in accesses([t], self.op)))
        # sums over cases, or over lines, would show a ratio that is allowed
        same = (worst.line, worst.tensor, worst.source)
        alike = [a for a in accesses([trial], self.op) if (a.line, a.tensor, a.source) == same]
        sectors, needed = _sectors([a for a in alike if self._wastes([a])])
        used = worst.efficiency * 32
        detail = say("criteria.dense.line", line=worst.line, used=used, tensor=worst.tensor, case=trial.case.name)
        seen = say("criteria.dense.sectors", sectors=sectors, needed=needed)
        cause = Cause("waste", f"line {worst.line}", {"op": self.op, "tensor": worst.tensor})
        spent = Spent(
            say("criteria.spent.sectors"),
            say("criteria.spent.touched"),
            needed,
            sectors,
            self.at_most * needed,
            trial.case.name,
        )
        request = self._request(worst, group)
        at = CodeLine(worst.line, worst.source)
        return self.lost(seen, expected=expected, detail=detail, cause=cause, at=at, spent=spent, request=request)

    def _request(self, worst: Access, group: Sequence[Trial]) -> Request | None:
        """Choose what is drawn of a line: nothing of a hidden case, whose numbers may be where lanes go, and of one that wastes nothing
        where the line wastes."""
        public = [a for t in group if not t.case.hidden for launch in t.evidence.launches for a in launch.accesses]
        same = [a for a in public if (a.tensor, a.op, a.line) == (worst.tensor, worst.op, worst.line) and a.elements]
        if not same or not (one := max(same, key=lambda a: -a.efficiency)).request:
            return None
        itemsize = one.bytes // one.elements
        if not 1 <= itemsize <= 8:  # no element of a tensor: whoever made this evidence is not believed
            return None
        found = Request(one.tensor, one.op, one.line, itemsize, one.request[:32])
        useful = itemsize * len(set(found.offsets))
        return found if (32 * len(found.sectors) > self.at_most * useful) == self._wastes([worst]) else None

    def _wastes(self, accesses: Sequence[Access]) -> bool:
        return sum(a.sectors for a in accesses) * 32 > self.at_most * sum(a.useful_bytes for a in accesses)

    def _counted(self, accesses: Sequence[Access]) -> list[Access]:
        moved: dict[str, list[int]] = {}
        for access in accesses:
            totals = moved.setdefault(access.tensor, [0, 0])
            totals[0] += access.bytes
            totals[1] += access.single_bytes
        small = {
            name
            for name, (total, single) in moved.items()
            if 0 < single == total and total <= 0.02 * sum(m[0] for m in moved.values())
        }
        return [a for a in accesses if a.tensor not in small and a.bytes]


def copy_bytes(x: torch.Tensor, **_: Any) -> int:
    """Bytes that a copy of x moves: every element is read once and written once."""
    return 2 * x.numel() * x.element_size()


@dataclass
class Traffic(ParallelWork):
    """Criterion: many programs move no more bytes than the task needs.

    needed   the arguments of a call -> bytes read and written at best
    again    the arguments -> of those that are among these more than once, the bytes that are read of each; they are in `needed`
    once     whether each element of a result may be stored but once, however few bytes more would be
    """

    missed = say("criteria.traffic.missed")
    needed: Callable[..., float]
    points: float = 0.0
    at_most: float = 1.05
    group: str = "performance"
    title: str = say("criteria.traffic.title")
    programs: int = MIN_PROGRAMS
    again: Callable[..., Mapping[str, float]] = lambda **_: {}
    once: bool = False

    def count(self, group: Sequence[Trial]) -> Finding:
        for trial in group if self.once else ():
            if again := self._stored_again(trial):
                return again
        needed, moved = ([count(t) for t in group] for count in (self._needed, moved_bytes))
        allowed = self.at_most * sum(needed)
        if sum(moved) <= allowed:
            spent = Spent(say("criteria.spent.bytes"), say("criteria.spent.moved"), sum(needed), sum(moved), allowed)
            return self.earned(say("criteria.traffic.moved_allowed", moved=sum(moved), allowed=allowed), spent=spent)
        # the numbers of one case, the one that is furthest above what is allowed
        worst = max(range(len(group)), key=lambda i: moved[i] / max(1, needed[i]))
        case, allowed = group[worst].case.name, self.at_most * needed[worst]
        return self.lost(
            say("criteria.traffic.moved", moved=moved[worst]),
            expected=say("criteria.traffic.allowed", allowed=allowed, case=case),
            detail=self._explain(group[worst], moved[worst] - allowed),
            spent=Spent(
                say("criteria.spent.bytes"), say("criteria.spent.moved"), needed[worst], moved[worst], allowed, case
            ),
        )

    def _stored_again(self, trial: Trial) -> Finding | None:
        """Return a finding on elements of results, or of buffers as large, that are stored more than once. Atomics of several programs,
        which add up, are none; those of one program in a loop are."""
        needed, again, each, stores = sum(x.nbytes for x in _results(trial)), 0.0, [0.0], list[Access]()
        for launch in trial.evidence.launches:
            each.append(0.0)
            for f in launch.footprints:
                once, moves = f.written_distinct_bytes, [a for a in launch.accesses if a.tensor == f.tensor]
                if not is_result(f.tensor) and (not is_made(f.tensor) or 2 * once < needed):  # smaller ones are flags
                    continue
                stored = sum(a.bytes * _in_turns(a, launch) for a in moves)
                again += max(0, stored - once)
                each[-1] += min(once, sum(a.bytes for a in moves if a.op == "store")) * is_result(f.tensor)
                stores += [a for a in moves if a.op != "load" and (is_result(f.tensor) or stored > once)]
        again += max(0, sum(each) - max(needed, *each))  # in several launches
        stored, allowed = needed + again, self.at_most * needed
        if stored <= allowed:
            return None
        spent = Spent(
            say("criteria.spent.bytes"), say("criteria.spent.stored"), needed, stored, allowed, trial.case.name
        )
        return self.lost(
            say("criteria.traffic.stored", stored=stored),
            expected=say("criteria.traffic.stored_once", needed=needed, case=trial.case.name),
            detail=say("criteria.traffic.stored_again", times=rounded(stored / needed), lines=_lines(stores)),
            spent=spent,
        )

    def _needed(self, trial: Trial) -> float:
        return self.needed(**trial.inputs[-1])

    def _explain(self, trial: Trial, excess: float) -> str:
        """Name what costs most: all of it done twice, a tensor that a launch moves several times, one that is written and read back."""
        launches, inputs = trial.evidence.launches, trial.inputs[-1]
        if twice := _all_again(launches):
            return say("criteria.traffic.all_again", kernel=twice[0], times=twice[1])
        each = self.again(**inputs)
        meant = {name: sum(each.get(label, 0) for label in _in_one_storage(name, inputs)) for name in each}
        worst = max(footprints([trial]), key=lambda f: _moved_again(f, meant))
        nbytes, sentence = max(_detours(trial), default=(0, ""))
        if nbytes > _moved_again(worst, meant) and 4 * nbytes > excess:
            return sentence
        if 4 * _moved_again(worst, meant) < excess and reads_copies(trial):
            return say("criteria.programs.copies")
        reads = worst.read_bytes / max(1, worst.read_distinct_bytes)
        writes = worst.written_bytes / max(1, worst.written_distinct_bytes)
        if max(reads, writes) <= 1.01:
            return say("criteria.traffic.in_order", launches=[*map(_moves, launches[:6])])
        op = "load" if reads > writes else "store"
        names = _in_one_storage(worst.tensor, inputs)
        return say(
            f"criteria.traffic.{'read' if reads > writes else 'written'}_again",
            tensors=[f"`{name}`" for name in (names if len(names) > 1 else [worst.tensor])],
            one=len(names) < 2,
            times=rounded(max(reads, writes)),
            lines=_lines(a for a in accesses([trial], op) if a.tensor == worst.tensor),
        )


def _in_turns(access: Access, launch: Launch) -> float:
    """The share of an access that stores what nobody else adds to: of atomics, what a program does after its first one."""
    shares = {"load": 0.0, "store": 1.0, "atomic": 1 - launch.programs / max(launch.programs, access.instructions, 1)}
    return shares[access.op]


def _lines(moves: Iterable[Access]) -> list[str]:
    """List the lines of loads or stores, each once, with its number."""
    places = sorted({(a.line, a.source) for a in moves})
    return [say("criteria.traffic.line", line=line, source=source) for line, source in places]


def _moved_again(f: Footprint, meant: dict[str, float]) -> float:
    """Count the bytes that are moved more often than once, or than is meant."""
    reads = max(f.read_distinct_bytes, meant.get(f.tensor, 0))
    return f.read_bytes - reads + f.written_bytes - f.written_distinct_bytes


def _in_one_storage(name: str, arguments: dict[str, Any]) -> list[str]:
    """The arguments that are views of the storage that bears one argument's name: of several, it bears the last one's."""
    storages = {label: x.untyped_storage().data_ptr() for _, label, x in tensors_of(0, arguments)}
    return [label for label, storage in storages.items() if storage == storages.get(name)]


def _all_again(launches: Sequence[Launch]) -> tuple[str, int] | None:
    """The kernel that stored the whole of the same tensors in several launches, and in how many."""
    stored: dict[tuple, int] = {}
    for launch in launches:
        whole = tuple(f.tensor for f in launch.footprints if f.written_distinct_bytes == f.nbytes)
        if whole and not any(f.read_bytes for f in launch.footprints if f.tensor in whole):
            stored[launch.kernel, whole] = stored.get((launch.kernel, whole), 0) + 1
    again = max(stored, key=lambda key: stored[key], default=None)
    return (again[0], stored[again]) if again and stored[again] > 1 else None


def _detours(trial: Trial) -> list[tuple[int, str]]:
    """(bytes read, a sentence) of each tensor that a launch wrote and this or a later one read back. One of which most was there
    before is none: a cache to which a token is added."""
    found = []
    writer: dict[str, tuple[str, int]] = {}
    for launch in trial.evidence.launches:
        for f in launch.footprints:
            if f.written_bytes:
                writer[f.tensor] = launch.kernel, writer.get(f.tensor, ("", 0))[1] + f.written_distinct_bytes
            if f.read_bytes and f.tensor in writer and 2 * writer[f.tensor][1] >= f.read_distinct_bytes:
                loads = [a for a in launch.accesses if a.op == "load" and a.tensor == f.tensor]
                lines = [say("criteria.traffic.line", line=a.line, source=a.source) for a in loads]
                facts = {"tensor": f.tensor, "kernel": writer[f.tensor][0], "any": bool(lines), "lines": lines}
                alone = launch.kernel == facts["kernel"]
                sentence = (
                    say("criteria.traffic.detour", **facts)
                    if alone
                    else say("criteria.traffic.detour_of_two", reader=launch.kernel, **facts)
                )
                found.append((f.read_bytes, sentence))
    return found


def _moves(launch: Launch) -> str:
    """Say what a launch reads and writes."""
    reads = [f"`{f.tensor}`" for f in launch.footprints if f.read_bytes]
    writes = [f"`{f.tensor}`" for f in launch.footprints if f.written_bytes]
    none = [say("criteria.traffic.nothing")]
    return say("criteria.traffic.launch", kernel=launch.kernel, reads=reads or none, writes=writes or none)


@dataclass
class BuffersBelow(CostCriterion):
    """Criterion: all buffers that a call allocates besides its results are smaller than a limit. limit: the arguments -> bytes.

    A case whose limit is below the size of the results in float32 is left out where others decide, since a float32 copy of a
    result is no matrix of scores.
    """

    missed = say("criteria.buffers.missed")
    limit: Callable[..., float]
    points: float
    title: str
    group: str = "performance"

    def count(self, group: Sequence[Trial]) -> Finding:
        group = [t for t in group if self.limit(**t.inputs[-1]) >= 4 * sum(x.numel() for x in _results(t))] or group
        for trial in group:
            limit, buffers = self.limit(**trial.inputs[-1]), trial.evidence.buffers
            if buffers >= limit:
                expected = say("criteria.buffers.less", limit=limit, case=trial.case.name)
                seen = say("criteria.buffers.bytes", bytes=buffers, largest=trial.evidence.largest_buffer)
                detail = say("criteria.buffers.which") if trial.evidence.launches else ""
                return self.lost(seen, expected=expected, detail=detail)
        most = max((t.evidence.buffers for t in group), default=0)
        return self.earned(say("criteria.buffers.at_most", bytes=most))


@dataclass
class Rereads(ParallelWork):
    """Criterion: many programs read one tensor no more often than they must. at_most: the arguments of a call -> bytes loaded / bytes of
    the tensor that were loaded at all.

    Reading back buffers or results counts as reading the tensor, which may have been copied there; twice the bytes of the
    results in float32 are free, for partial sums.
    """

    tensor: str
    at_most: Callable[..., float]
    points: float
    title: str
    group: str = "performance"
    programs: int = MIN_PROGRAMS

    @property
    def missed(self) -> str:
        return say("criteria.reads.missed", tensor=self.tensor)

    def count(self, group: Sequence[Trial]) -> Finding:
        read = allowed = 0.0
        for trial in group:
            own = [f for f in footprints([trial]) if f.tensor == self.tensor]
            allowed = self.at_most(**trial.inputs[-1])
            # several launches may read a part each
            loaded = min([sum(f.read_distinct_bytes for f in own), *(f.nbytes for f in own)])
            back = sum(a.bytes if a.op == "load" else a.asked_bytes for a in _read_back(trial))
            copies = max(0, back - 8 * sum(x.numel() for x in _results(trial)))
            read = (sum(f.read_bytes for f in own) + copies) / max(1, loaded)
            if read > 1.02 * allowed:
                return self._read_too_often(trial, read, allowed, copies > 0)
        return self.earned(say("criteria.reads.times", tensor=self.tensor, times=rounded(read), allowed=allowed))

    def _read_too_often(self, trial: Trial, read: float, allowed: float, copied: bool) -> Finding:
        counted = [a for a in accesses([trial], "load") if a.tensor == self.tensor]
        counted += _read_back(trial) if copied else []
        lines = [
            say("criteria.reads.line", line=a.line, source=a.source, bytes=a.bytes, tensor=a.tensor)
            for a in sorted(counted, key=lambda a: a.line)
        ]
        expected = say("criteria.reads.allowed", tensor=self.tensor, times=rounded(allowed), case=trial.case.name)
        seen = say("criteria.reads.too_often", tensor=self.tensor, times=rounded(read), buffers=copied)
        spent = Spent(
            say("criteria.spent.times", tensor=self.tensor),
            say("criteria.spent.read"),
            allowed,
            read,
            1.02 * allowed,
            trial.case.name,
        )
        detail = say("criteria.reads.lines", lines=[*dict.fromkeys(lines)])
        return self.lost(seen, expected=expected, detail=detail, spent=spent)


def _read_back(trial: Trial) -> list[Access]:
    """Loads of what the call itself made, and atomics that ask for what was there; others add up, as a sum in parts does."""
    inputs = labels(trial.inputs[-1])
    return [a for a in accesses([trial], "load") if (a.op == "load" or a.asked_bytes) and a.tensor not in inputs]


def _results(trial: Trial) -> list[torch.Tensor]:
    """List the tensors that the last call returned."""
    output = trial.evidence.outputs[-1]
    return [x for x in (output if isinstance(output, (list, tuple)) else [output]) if isinstance(x, torch.Tensor)]


@dataclass
class Saves(CostCriterion):
    """Criterion: the backward half reads hardly anything that the forward half made, besides inputs. at_most: the arguments -> bytes.

    The count covers what the backward half used of all that the forward half had made, each storage whole; what is kept
    but never read is not seen. The first `outputs` results must be there when the backward half begins.
    """

    missed = say("criteria.saves.missed")
    at_most: Callable[..., float]
    points: float
    title: str
    outputs: int = 1
    group: str = "performance"

    def count(self, group: Sequence[Trial]) -> Finding:
        kept = 0
        for trial in group:
            evidence, inputs = trial.evidence, labels(trial.inputs[-1])
            if evidence.saved is None or not set(range(self.outputs)) <= set(evidence.ready):
                return self.lost(say("criteria.saves.no_forward"))
            own = [s for s in evidence.saved if s.tensor not in inputs]
            kept, limit = sum(s.nbytes for s in own), self.at_most(**trial.inputs[-1])
            if kept > limit:
                expected = say("criteria.saves.at_most", limit=limit, case=trial.case.name)
                detail = say("criteria.saves.reads", tensors=kept_tensors(own), limit=limit)
                return self.lost(say("criteria.saves.kept", bytes=kept), expected=expected, detail=detail)
        return self.earned(say("criteria.saves.few", bytes=kept))


def kept_tensors(saved: Sequence[Saved]) -> list[str]:
    """Describe the tensors that forward made and backward reads, largest first, by shape and bytes: students know no names of traces."""
    return [
        say("criteria.saves.result", bytes=s.nbytes)
        if is_result(s.tensor)
        else say("criteria.saves.tensor", shape=tuple(s.shape), bytes=s.nbytes)
        for s in sorted(saved, key=lambda s: -s.nbytes)
    ]
