"""The kill matrix: every variant of every exercise through the real judge, against what it must lose."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from course_lib.exercise import Verdict, find
from grader import variants
from grader.classroom import Class


@dataclass(frozen=True)
class Row:
    """A variant and what became of it. `lost`: titles of the gates and criteria that failed."""

    variant: variants.Variant
    verdict: Verdict

    @property
    def lost(self) -> tuple[str, ...]:
        return tuple(f.title for f in self.verdict.findings if f.judged and not f.passed and not f.bonus)

    @property
    def as_expected(self) -> bool:
        return set(self.lost) == set(self.variant.loses)


def run(
    chosen: Sequence[variants.Variant], progress: Callable[[int, int], None] = lambda done, total: None
) -> list[Row]:
    """Judge the variants as submissions of students who do not exist, in a folder of their own."""
    with tempfile.TemporaryDirectory() as folder, Class(Path(folder), accept_risk=True) as room:
        (Path(folder) / "secret").write_text("2a" * 32)  # the same hidden inputs in every run

        def judge(numbered: tuple[int, variants.Variant]) -> Row:
            number, variant = numbered
            exercise = find(variant.exercise)
            return Row(variant, room.judge().verdict(exercise, variant.cells(), f"variant {number}"))

        rows = []
        for row in room.executor.map(judge, enumerate(chosen)):
            rows.append(row)
            progress(len(rows), len(chosen))
    return rows
