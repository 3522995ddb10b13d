"""Points of a unit as points of the LMS's column, which may have another maximum."""

from __future__ import annotations

import math

WAYS = ("column", "unit")


class OtherMaximum(ValueError):
    """Raised, with a message, where the column's maximum is not the unit's, and the instructor has not said what to do."""


def scale(own: float, theirs: float | None, out_of: str, column: str) -> float:
    """Return the worth of one point of the unit in the LMS's column. Raises OtherMaximum if the instructor has to decide, or if it cannot
    be done.

    own, theirs   the unit's maximum, and the column's; None where the LMS does not say it
    out_of        "column": scores are scaled to the column's maximum; "unit": they are written as they are; "": the two are equal
    """
    if out_of not in ("", *WAYS):
        raise ValueError(f"--out-of is `column` or `unit`, not {out_of!r}.")
    if theirs is None and out_of == "column":
        raise OtherMaximum(
            "`--out-of column` needs the column's maximum: give the LMS's own CSV, with it, as --roster."
        )
    if theirs is None or theirs == own or out_of == "unit":
        return 1.0
    if out_of == "column" and theirs > 0:
        return theirs / own
    scaled = f"say `--out-of column` to scale the scores to {theirs:g}, or" if theirs > 0 else "say"
    raise OtherMaximum(
        f"The unit has {own:g} points, and {column} in the roster has {theirs:g}: {scaled} `--out-of unit` to write them as they are."
    )


def number(text: str) -> float | None:
    """Parse a maximum as an LMS writes it; None where there is none."""
    try:
        found = float(text.strip().replace(",", "."))
    except ValueError:
        return None
    return found if math.isfinite(found) else None
