"""Dates as an instructor writes them."""

from __future__ import annotations

from datetime import UTC, datetime


def utc(when: str) -> datetime:
    """Parse a date and return it in UTC; local time if `when` names no zone. Raises ValueError if it is malformed.

    Not by nbgrader's parser, which takes the zone +0100 for 100 seconds.
    """
    try:
        return datetime.fromisoformat(when).astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        raise ValueError(f"{when!r} is not a date. Write one such as 2026-11-30T23:59+01:00.") from None
