"""Flags of a class for a terminal: one line a student and kind, one line for what many have, and no more than a person reads."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

MOST = 30  # lines; the class report has the rest
MANY = 4  # students with the same flags
Flag = tuple[str, str, str]  # student, exercise or unit, sentence


def lines(flags: Iterable[Flag]) -> list[str]:
    """Format flags as lines "to look at: ...", merging similar ones."""
    by_student: dict[tuple[str, str], list[Flag]] = defaultdict(list)
    for flag in flags:
        by_student[flag[0], _kind(flag[2])].append(flag)
    alike: dict[str, list[str]] = defaultdict(list)
    for (student, _), of_kind in sorted(by_student.items()):
        for of_sentence in _apart(of_kind):
            alike[_told(of_sentence)].append(student)
    shown = [line for what, students in alike.items() for line in _of_students(what, students)]
    rest = len(shown) - MOST
    return sorted(shown)[:MOST] + (
        [f"to look at: {rest} more lines: the class report has them all"] if rest > 0 else []
    )


def _kind(sentence: str) -> str:
    """A flag's sentence without what differs from exercise to exercise."""
    return re.sub(r"`[^`]*`|\d+", "#", sentence)


def _apart(of_kind: Sequence[Flag]) -> Iterable[Sequence[Flag]]:
    """Yield flags of a kind together, unless an exercise has several sentences of that kind: then each sentence by itself."""
    sentences: dict[str, dict[str, Flag]] = defaultdict(dict)
    for flag in of_kind:
        sentences[flag[2]][flag[1]] = flag
    if len(set(of_kind)) == len({where for _, where, _ in of_kind}):
        return [list(dict.fromkeys(of_kind))]
    return [list(of_sentence.values()) for of_sentence in sentences.values()]


def _told(of_kind: Sequence[Flag]) -> str:
    _, where, sentence = of_kind[0]
    if len(of_kind) == 1:
        return f"{where}: {sentence}"
    others = ", ".join(dict.fromkeys(where for _, where, _ in of_kind))
    return f"{len(of_kind)} times in {others}: {sentence}"


def _of_students(what: str, students: Sequence[str]) -> list[str]:
    if len(students) < MANY:
        return [f"to look at: {student}: {what}" for student in students]
    return [f"to look at: {len(students)} students ({', '.join(students)}): {what}"]
