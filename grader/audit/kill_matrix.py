"""The kill matrix: every variant of every exercise through the real judge, against what it must lose."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from course_lib.exercise import Verdict
from course_lib.exercises import find
from course_lib.exercises.misconceptions import Misconception
from grader.audit import remarks, variants
from grader.judging.judge import Judge
from grader.judging.verdicts import one_at_a_time


@dataclass(frozen=True)
class JudgedVariant:
    """A variant and its verdict. `lost`: keys of the gates and criteria that failed."""

    variant: variants.Variant
    verdict: Verdict

    @property
    def key(self) -> remarks.Key:
        return self.variant.exercise, self.variant.name

    @property
    def lost(self) -> tuple[str, ...]:
        return tuple(f.key for f in self.verdict.findings if f.lost and not f.bonus)

    @property
    def other_remark(self) -> str:
        """Return the variant's remark if it differs from the reviewed one on file, else ""."""
        read = remarks.of_module(self.key[0].partition(".")[0]).get(self.key, "")
        drawn = remarks.to_read(self.verdict.remark)
        return "" if remarks.alike(drawn, read) else drawn or f"none; once: {read}"

    @property
    def untold(self) -> str:
        """Return the words that a lost criterion must say but does not, else ""."""
        tells = any(self.variant.tells in f"{f.seen} {f.detail}" for f in self.verdict.findings if f.lost)
        return "" if tells or not self.variant.tells else self.variant.tells

    @property
    def as_expected(self) -> bool:
        return set(self.lost) == set(self.variant.loses) and not (self.other_remark or self.untold)

    @property
    def difference(self) -> str:
        """Return a clause on what the variant lost and should lose, by title, and what is wrong with its remark."""
        titles = titles_of(self.variant.exercise)
        lost, loses = (
            ", ".join(titles.get(k, k) for k in keys) or "nothing" for keys in (self.lost, self.variant.loses)
        )
        remark = f"; a remark that nobody has read: {self.other_remark}" if self.other_remark else ""
        remark += f"; no lost criterion tells {self.untold!r}" if self.untold else ""
        return f"lost {lost}; expected {loses}{remark}"

    def cell(self, key: str) -> str:
        """Return the table's sign for one gate or criterion: lost, kept, or "" where it was not judged."""
        finding = next((f for f in self.verdict.findings if f.key == key), None)
        if finding is None or not finding.judged:
            seen = ""
        else:
            seen = "·" if finding.passed else "✗"
        return seen if (key in self.lost) == (key in self.variant.loses) else f"[red]{seen or '?'}[/]"


UNSHOWN = {
    "compiles": "one compiler for all kernels: coalescing.row_copy and flash.one_head show it",
    "holds.any_order.order": "past merge's gate only what errs for maxima below 0 depends on order, and few are drawn",
}
"""Keys of gates and criteria that some exercise's variants need not lose -> why."""


def never_lost(exercise_id: str) -> list[str]:
    """Return the keys of an exercise's gates and criteria that none of its variants loses, but for UNSHOWN."""
    module, exercise = exercise_id.partition(".")[0], find(exercise_id)
    lost = {key for v in variants.of_unit(module) if v.exercise == exercise_id for key in v.loses}
    return [c.key for c in [*exercise.gates, *exercise.criteria] if c.key not in lost | UNSHOWN.keys()]


def titles_of(exercise_id: str) -> dict[str, str]:
    """Map the key of each gate and criterion of an exercise to its title."""
    exercise = find(exercise_id)
    return {"runs": "runs"} | {c.key: c.title for c in [*exercise.gates, *exercise.criteria]}


def unused_remarks(rows: Sequence[JudgedVariant]) -> list[tuple[str, str]]:
    """List (exercise, sentence) of each Misconception of these exercises whose sentence is the remark of no row. Other matchers are
    functions, whose sentences cannot be listed."""
    drawn = {(row.variant.exercise, row.verdict.remark) for row in rows}
    known = [
        (exercise_id, mistake.says)
        for exercise_id in dict.fromkeys(row.variant.exercise for row in rows)
        for mistake in find(exercise_id).mistakes
        if isinstance(mistake, Misconception)
    ]
    return [each for each in dict.fromkeys(known) if each not in drawn]


def sentence_of(verdict: Verdict) -> str:
    """Return what a verdict says of a mistake besides numbers: its remark, what happened, or what the result looks like; "" if nothing."""
    lost = [f for f in verdict.findings if f.lost and not f.bonus and f.status != "same_cause"]
    happened = [f.seen for f in lost if f.cause and f.cause.kind not in ("wrong", "waste")]
    details = [f.detail for f in lost if f.detail]
    return next(iter(filter(None, [verdict.remark, *happened, *details])), "")


def said(rows: Sequence[JudgedVariant]) -> tuple[Table, int, int]:
    """Return a table of what each losing variant of a kernel exercise is told, how many are told something, and how many there are."""
    wrong = [row for row in rows if row.lost and find(row.variant.exercise).kind == "kernel"]
    table = Table("exercise", "variant", "what it is told", title="sentences for wrong kernels")
    sentences = [sentence_of(row.verdict) for row in wrong]
    for row, sentence in zip(wrong, sentences, strict=True):
        table.add_row(row.variant.exercise, escape(row.variant.name), escape(sentence) or "[red]numbers alone[/]")
    return table, sum(map(bool, sentences)), len(wrong)


def tables(rows: Sequence[JudgedVariant]) -> Iterator[Table]:
    """Yield the matrix, one table for each exercise: a row for each variant, a column for each gate and criterion."""
    for exercise_id in dict.fromkeys(row.variant.exercise for row in rows):
        exercise, titles = find(exercise_id), titles_of(exercise_id)
        table = Table(title=f"{exercise_id}: ✗ lost, · kept, blank not judged")
        table.add_column("variant", min_width=24, max_width=40)
        table.add_column(f"of {exercise.points:g}", justify="right")
        for title in titles.values():
            table.add_column(title, justify="center", max_width=9)
        for row in (r for r in rows if r.variant.exercise == exercise_id):
            script = f"{row.variant.script.partition('/')[2]}: " if row.variant.script else ""
            points = f"{row.verdict.points:g}" if row.as_expected else f"[red]{row.verdict.points:g}[/]"
            table.add_row(escape(script + row.variant.name), points, *map(row.cell, titles))
        yield table


def run(
    chosen: Sequence[variants.Variant], progress: Callable[[int, int], None] = lambda done, total: None
) -> list[JudgedVariant]:
    """Judge the variants in a folder of their own, each as the submission of a student who bears its name.

    So a variant meets the same hidden inputs whichever others are judged with it, and when others are added.
    """
    local, judges = threading.local(), []

    def row(variant: variants.Variant) -> JudgedVariant:
        if not hasattr(local, "judge"):
            local.judge = Judge(folder, accept_risk=True)
            judges.append(local.judge)
        with one_at_a_time:
            cells = variant.cells()
        return JudgedVariant(variant, local.judge.verdict(find(variant.exercise), cells, variant.name))

    rows = []
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(len(os.sched_getaffinity(0))) as executor:
        folder = Path(name)
        (folder / "secret").write_text("2a" * 32)  # one secret for every run
        try:
            for one in executor.map(row, chosen):
                rows.append(one)
                progress(len(rows), len(chosen))
        finally:
            for one in judges:
                one.close()
    return rows
