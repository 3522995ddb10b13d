"""Unit 12: what needs no Hopper: limits, tiles, machine code, orders of tiles."""

from __future__ import annotations

from course_lib.exercise import Exercise

EXERCISES: tuple[Exercise, ...] = ()
