"""Sources that look alike, for a person to look at. The measure proves nothing: short exercises leave little choice.

A source is read as Python tokens: comments, docstrings and layout are left out, and every name of the author's own becomes
the same word. Keywords, built-ins, numbers, names after a dot and the course's modules stay. Two sources are compared by their
runs of 5 tokens, each as often as it occurs: 2 x runs in common / runs of both (Dice's coefficient of k-grams, as in
Schleimer et al., "Winnowing", SIGMOD 2003, without the sampling). So what was moved is found too, and a class of a thousand
takes seconds an exercise. Runs that were handed out are nobody's own, and are left out on both sides.
"""

from __future__ import annotations

import builtins
import io
import keyword
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, count

RUN = 5  # tokens
ALIKE = 0.8  # from here on a pair is shown
SHORTEST = 60  # tokens of a student's own; below that honest solutions coincide
LONGEST = 10_000  # ten times an honest solution: what is longer is not compared
KEPT = {*keyword.kwlist, *dir(builtins), "torch", "triton", "tl", "math", "np", "numpy"}
LAYOUT = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENDMARKER, tokenize.ERRORTOKEN),
}


def tokens(source: str) -> tuple[str, ...]:
    """Tokenize a source without names, comments and layout, which authors may choose. What does not parse is read as far as it goes."""
    found: list[str] = []
    fresh = True  # a string that starts a statement is a docstring
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            docstring = token.type == tokenize.STRING and fresh
            if token.type != tokenize.COMMENT:
                fresh = token.type in LAYOUT
            if token.type in LAYOUT or docstring:
                continue
            own = token.type == tokenize.NAME and token.string not in KEPT and found[-1:] != ["."]
            found.append("name" if own else token.string)
    except (tokenize.TokenError, SyntaxError):
        pass
    return tuple(found)


@dataclass(frozen=True)
class Pair:
    """Students whose sources are similar: two, or more where the sources are the same but for names and layout."""

    students: tuple[str, ...]
    ratio: float  # 1.0: the same


def pairs(
    sources: Mapping[str, tuple[str, ...]],
    leave_out: tuple[str, ...] = (),
    given: tuple[str, ...] = (),
    at_least: float = ALIKE,
) -> list[Pair]:
    """List groups of equal sources, then pairs of similar ones, most similar first.

    sources      student -> tokens of a source
    leave_out    of a source that many have, such as the published solution: those equal to it are not compared
    given        of the source that was handed out
    """
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for student, read in sources.items():
        if len(read) <= LONGEST and read != leave_out:
            groups[read].append(student)
    numbers: defaultdict[tuple, int] = defaultdict(count().__next__)
    handed_out = {numbers[run] for run in _runs(given)}
    own = {read: {numbers[run] for run in _runs(read)} - handed_out for read in groups}
    groups = {read: students for read, students in groups.items() if len(own[read]) > SHORTEST - RUN}
    found = [Pair(tuple(sorted(students)), 1.0) for students in groups.values() if len(students) > 1]
    runs = [(own[read], min(students)) for read, students in groups.items()]
    for (a, first), (b, second) in combinations(runs, 2):
        if (ratio := 2 * len(a & b) / (len(a) + len(b))) >= at_least:
            found.append(Pair(tuple(sorted((first, second))), ratio))
    return sorted(found, key=lambda pair: (-pair.ratio, pair.students))


def _runs(read: tuple[str, ...]) -> Iterator[tuple]:
    """Each run of tokens with its number among the equal ones."""
    seen: Counter[tuple[str, ...]] = Counter()
    for start in range(len(read) - RUN + 1):
        run = read[start : start + RUN]
        seen[run] += 1
        yield run, seen[run]


def equal_to(published: tuple[str, ...], sources: Mapping[str, tuple[str, ...]]) -> list[str]:
    """List the students whose source is the published one but for names, comments and layout; both as tokens."""
    return sorted(student for student, read in sources.items() if read == published)
