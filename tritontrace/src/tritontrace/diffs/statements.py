"""The statements of a kernel, and which of them is which one in another version, as a diff matches lines.

Statements, not lines: whoever wraps a call over three lines has changed nothing. Spaces, comments, docstrings, quotes and the comma
before a closing bracket count for nothing either; how deep a statement is indented does.
"""

from __future__ import annotations

import ast
import io
import textwrap
import tokenize
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

ALIKE = 0.5  # share of tokens that two statements have in common, where one is taken for the other one, changed
MOST = 10_000  # pairs of statements that are compared token by token: of longer stretches, one after the other
NOTHING = (tokenize.COMMENT, tokenize.NL, tokenize.ENCODING, tokenize.ENDMARKER)


class KernelStatement(NamedTuple):
    """A statement of a kernel's source. first, last: its lines, counted from the `def`;  depth: how deep it is indented."""

    first: int
    last: int
    depth: int
    tokens: tuple[str, ...]

    @property
    def key(self) -> tuple:
        return self.depth, self.tokens


def statements(lines: Sequence[str]) -> list[KernelStatement]:
    """Split a function's text into statements. Where it does not parse, each line is one."""
    text = textwrap.dedent("".join(line.rstrip("\n") + "\n" for line in lines))
    try:
        return list(_statements(text))
    except (tokenize.TokenError, SyntaxError):
        return [KernelStatement(n, n, 0, (line.strip(),)) for n, line in enumerate(lines, 1) if line.strip()]


def _statements(text: str):
    depth, held = 0, []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.INDENT, tokenize.DEDENT):
            depth += 1 if token.type == tokenize.INDENT else -1
        elif token.type == tokenize.NEWLINE:
            if any(each.type != tokenize.STRING for each in held):  # else it is a docstring
                yield KernelStatement(held[0].start[0], held[-1].end[0], depth, _plain(held))
            held = []
        elif token.type not in NOTHING:
            held.append(token)


def _plain(tokens: Sequence[tokenize.TokenInfo]) -> tuple[str, ...]:
    """Return what tokens say, however they are written."""
    found: list[str] = []
    opened: list[list] = []  # of each bracket that is open: whether a comma before its end says nothing
    for token in tokens:
        text = token.string
        if token.type == tokenize.OP and text in "([{":
            called = bool(found) and text == "(" and (found[-1].isidentifier() or found[-1] in ")]")
            opened.append([called or text == "{"])
        elif token.type == tokenize.OP and text in ")]}" and opened:
            (idle,) = opened.pop()
            if idle and found[-1] == ",":
                found.pop()
        elif token.type == tokenize.OP and text == "," and opened and found[-1] not in "([{":
            opened[-1][0] = opened[-1][0] or "," in found[_start(found) :]
        found.append(_string(text) if token.type == tokenize.STRING else text)
    return tuple(found)


def _start(found: Sequence[str]) -> int:
    """Find where the innermost bracket that is open begins."""
    closed = 0
    for at in range(len(found) - 1, -1, -1):
        closed += (found[at] in (")", "]", "}")) - (found[at] in ("(", "[", "{"))
        if closed < 0:
            return at
    return 0


def _string(text: str) -> str:
    try:
        return repr(ast.literal_eval(text))
    except (SyntaxError, ValueError):
        return text


Pair = tuple[int | None, int | None]


def matched(before: Sequence[KernelStatement], after: Sequence[KernelStatement]) -> list[Pair]:
    """Match statements: pairs of indices, in order, of one statement before and after, or None where it is only in one of them."""
    pairs: list[Pair] = []
    matcher = SequenceMatcher(None, [one.key for one in before], [one.key for one in after], autojunk=False)
    for kind, i1, i2, j1, j2 in matcher.get_opcodes():
        if kind == "equal":
            pairs += zip(range(i1, i2), range(j1, j2), strict=True)
        else:
            pairs += _aligned(before, range(i1, i2), after, range(j1, j2))
    return pairs


def _aligned(before: Sequence[KernelStatement], old: range, after: Sequence[KernelStatement], new: range) -> list[Pair]:
    """The pairs of a stretch that was rewritten: those that have most in common, in order."""
    if not old or not new or len(old) * len(new) > MOST:
        both = min(len(old), len(new))
        return [
            *zip(old[:both], new[:both], strict=True),
            *((i, None) for i in old[both:]),
            *((None, j) for j in new[both:]),
        ]
    best = [[0.0] * (len(new) + 1) for _ in range(len(old) + 1)]  # of what comes from here on
    alike = [[similarity(before[i].tokens, after[j].tokens) for j in new] for i in old]
    for i in reversed(range(len(old))):
        for j in reversed(range(len(new))):
            together = alike[i][j] + best[i + 1][j + 1] if alike[i][j] >= ALIKE else 0.0
            best[i][j] = max(together, best[i + 1][j], best[i][j + 1])
    pairs: list[Pair] = []
    i = j = 0
    while i < len(old) and j < len(new):
        if alike[i][j] >= ALIKE and best[i][j] == alike[i][j] + best[i + 1][j + 1]:
            pairs.append((old[i], new[j]))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            pairs.append((old[i], None))
            i += 1
        else:
            pairs.append((None, new[j]))
            j += 1
    return [*pairs, *((each, None) for each in old[i:]), *((None, each) for each in new[j:])]


def similarity(before: Sequence, after: Sequence) -> float:
    """Return the share of two sequences that they have in common, in order: 0 to 1."""
    return SequenceMatcher(None, before, after, autojunk=False).ratio()
