"""Unit 12: pipelined and specialised products and attention, races to be named."""

from __future__ import annotations

from course_lib.exercise import Exercise

EXERCISES: tuple[Exercise, ...] = ()
