"""The compiler's answers about evaluated kernels that were compiled in this process, or in one that it was forked from.

Of an accepted kernel shared memory depends on the text alone, wherever its lines stand. A whole report names lines: it is remembered for
the very same text of the very same sources. No refusal is remembered.
"""

from __future__ import annotations

import copy
import re
from typing import Any

from triton.backends.compiler import GPUTarget

from tritontrace.compiled.text import Text
from tritontrace.results import Compiled
from tritontrace.ttir.frontend import Front

MOST = 1_000  # kernels
PLACE = re.compile(r" loc\(#loc\d*\)|^#loc\d* = loc\(.*\)$", re.MULTILINE)  # of an operation, in a source
_accepted: dict[tuple[str, ...], Compiled] = {}


# trap: the keys hold all that the compiler is given; only places are left out of the first, which decide nothing
def _keys(front: Front, arguments: dict[str, Any], target: GPUTarget) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(for whether a kernel is accepted, for its report)."""
    text, beside = Text(front, arguments, target).text, (repr(target), repr(sorted(front.options.items())))
    return (PLACE.sub("", text), *beside), (text, *beside, repr(front.sources))


def remember(fact: Compiled, front: Front, arguments: dict[str, Any], target: GPUTarget) -> None:
    """Remember what the compiler said."""
    if fact.accepted:
        if len(_accepted) >= MOST:
            _accepted.clear()
        _accepted[_keys(front, arguments, target)[fact.to_the_end]] = copy.deepcopy(fact)


def known(front: Front, arguments: dict[str, Any], target: GPUTarget, *, to_the_end: bool) -> Compiled | None:
    """The compiler's answer about this kernel; None if it is not known."""
    if not _accepted:
        return None
    alike, same = _keys(front, arguments, target)
    found = _accepted.get(same) if to_the_end else _accepted.get(alike) or _accepted.get(same)
    return copy.deepcopy(found)
