"""How numbers and counts are said in a sentence."""

from __future__ import annotations

__all__ = ["plural", "rounded"]


def rounded(count: float) -> float:
    """Round a ratio to three digits, or to all before the point.

    >>> rounded(2.5042), rounded(2.001), rounded(2048.4)
    (2.5, 2, 2048)
    """
    value = float(f"{count:.3g}") if count < 1000 else round(count)
    return int(value) if value == int(value) else value


def plural(count: int, one: str, several: str = "") -> str:
    """Format a count with its noun; `several` where an s does not do.

    >>> plural(1, "wave"), plural(2, "wave"), plural(1000, "launch", "launches")
    ('1 wave', '2 waves', '1,000 launches')
    """
    return f"{count:,} {one if count == 1 else several or one + 's'}"
