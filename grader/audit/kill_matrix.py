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
from course_lib.exercises.slips import Slip
from grader.audit import variants
from grader.classes.verdicts import one_at_a_time
from grader.judging.judge import Judge


@dataclass(frozen=True)
class Row:
    """A variant and what became of it. `lost`: keys of the gates and criteria that failed."""

    variant: variants.Variant
    verdict: Verdict

    @property
    def lost(self) -> tuple[str, ...]:
        return tuple(f.key for f in self.verdict.findings if f.lost and not f.bonus)

    @property
    def falsely_said(self) -> str:
        """The words of the remark that are false of this variant."""
        return self.variant.unsaid if self.variant.unsaid in self.verdict.remark else ""

    @property
    def not_said(self) -> str:
        """The words that its remark must hold, and does not."""
        return "" if self.variant.says in self.verdict.remark else self.variant.says

    @property
    def as_expected(self) -> bool:
        return set(self.lost) == set(self.variant.loses) and not self.falsely_said and not self.not_said

    @property
    def difference(self) -> str:
        """Tell in a clause what it lost and what it should lose, by title, and what is wrong with its remark."""
        titles = titles_of(self.variant.exercise)
        lost, loses = (
            ", ".join(titles.get(k, k) for k in keys) or "nothing" for keys in (self.lost, self.variant.loses)
        )
        said = f"; its remark says {self.falsely_said!r}" if self.falsely_said else ""
        said += f"; its remark does not say {self.not_said!r}" if self.not_said else ""
        return f"lost {lost}; expected {loses}{said}"

    def cell(self, key: str) -> str:
        """The table's sign for one gate or criterion: lost, kept, or nothing where it was not judged."""
        finding = next((f for f in self.verdict.findings if f.key == key), None)
        if finding is None or not finding.judged:
            seen = ""
        else:
            seen = "·" if finding.passed else "✗"
        return seen if (key in self.lost) == (key in self.variant.loses) else f"[red]{seen or '?'}[/]"


def titles_of(exercise_id: str) -> dict[str, str]:
    """The title of each gate and criterion of an exercise, by its key."""
    exercise = find(exercise_id)
    return {"runs": "runs"} | {c.key: c.title for c in [*exercise.gates, *exercise.criteria]}


def undrawn(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """(exercise, sentence) of each slip of these exercises whose sentence is the remark of no row. Other mistakes are functions, whose
    sentences nobody can list."""
    drawn = {(row.variant.exercise, row.verdict.remark) for row in rows}
    known = [
        (exercise_id, mistake.says)
        for exercise_id in dict.fromkeys(row.variant.exercise for row in rows)
        for mistake in find(exercise_id).mistakes
        if isinstance(mistake, Slip)
    ]
    return [each for each in dict.fromkeys(known) if each not in drawn]


def tables(rows: Sequence[Row]) -> Iterator[Table]:
    """The matrix, one table for each exercise: a row for each variant, a column for each gate and criterion."""
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
) -> list[Row]:
    """Judge the variants in a folder of their own, each as the submission of a student who bears its name.

    So a variant meets the same hidden inputs whichever others are judged with it, and when others are added.
    """
    local, judges = threading.local(), []

    def row(variant: variants.Variant) -> Row:
        if not hasattr(local, "judge"):
            local.judge = Judge(folder, accept_risk=True)
            judges.append(local.judge)
        with one_at_a_time:
            cells = variant.cells()
        return Row(variant, local.judge.verdict(find(variant.exercise), cells, variant.name))

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
