"""Parse, compare and render what students wrote in a forked child with limits. Whatever their text is made to cost, it
costs only this child.

    the child    parses, looks for flags, highlights; it runs nothing
    here         only plain data comes back, and the text itself is never looked into

An honest notebook takes a tenth of a second; the limits are far beyond that, so that no machine's load decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grader.catalogue import say
from tritontrace.messages import message_of
from tritontrace.replay import child

SECONDS = 3.0  # of CPU
MEMORY = 1 << 30  # bytes that it may add


class TooMuch(ValueError):
    """Raised where the child ran out of time or memory. The message is a clause that follows the name of what was read."""


def bounded(work: Callable[[], Any]) -> Any:
    """Compute work() in a child with limits, and return its result, a tree as in tritontrace.replay.wire. Raises TooMuch if it fails."""
    try:
        return child.run(work, seconds=SECONDS, memory=MEMORY)[0]
    except child.ChildLost as lost:
        reason = lost.message if lost.cause.kind == "memory" else say("judging.file.ended")
    except ValueError as error:
        reason = message_of(error)
    raise TooMuch(say("judging.file.within", seconds=SECONDS, memory=MEMORY / 2**30, reason=reason))
