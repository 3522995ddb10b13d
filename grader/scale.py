"""Points of a unit as points of the LMS's column, which may have another maximum."""

from __future__ import annotations

WAYS = ("column", "unit")


class OtherMaximum(ValueError):
    """One sentence: the column has another maximum than the unit, and nobody said what that means."""


def scale(own: float, theirs: float | None, out_of: str, column: str) -> float:
    """What a point of the unit is worth in the column.

    own, theirs   the unit's maximum, and the column's; None where the LMS does not say it
    out_of        "column": scores are scaled to the column's maximum; "unit": they are written as they are; "": OtherMaximum
                  unless the two are equal
    """
    if out_of not in ("", *WAYS):
        raise ValueError(f"--out-of is `column` or `unit`, not {out_of!r}.")
    if theirs is None or theirs == own or out_of == "unit":
        return 1.0
    if out_of == "column":
        return theirs / own
    raise OtherMaximum(
        f"The unit has {own:g} points, and {column} in the roster has {theirs:g}: say `--out-of column` to scale the scores to "
        f"{theirs:g}, or `--out-of unit` to write them as they are."
    )


def number(text: str) -> float | None:
    """A maximum as an LMS writes it; None where there is none."""
    try:
        return float(text.strip().replace(",", "."))
    except ValueError:
        return None
