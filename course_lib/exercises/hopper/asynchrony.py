"""Unit 12: layouts, banks, cp.async, mbarriers, TMA, wgmma, one at a time."""

from __future__ import annotations

from course_lib.exercise import Exercise

EXERCISES: tuple[Exercise, ...] = ()
