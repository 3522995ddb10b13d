"""Verdicts as people see them, and what else a cell shows.

verdicts.py   a verdict as text and as HTML
drawings.py   its small drawings: bars, lanes, the map of what is wrong
cells.py      HTML where there is a notebook, text elsewhere; the points of a check
"""

from course_lib.render.cells import Points, show
from course_lib.render.drawings import AMBER, BLUE, GREEN, GREY, RED, code
from course_lib.render.verdicts import CELL, OUTCOMES, chip, html, of_finding, text

__all__ = [
    "AMBER",
    "BLUE",
    "CELL",
    "GREEN",
    "GREY",
    "OUTCOMES",
    "RED",
    "Points",
    "chip",
    "code",
    "html",
    "of_finding",
    "show",
    "text",
]
