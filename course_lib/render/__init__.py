"""Verdicts as people see them, and what else a cell shows.

verdicts.py   a verdict as text;  verdict_card.py  as HTML
afterwards.py what a verdict does not wait for, shown below it
drawings.py   its small drawings: bars, lanes, the map of what is wrong
cells.py      HTML where there is a notebook, text elsewhere; the points of a check; what is added below them later
"""

from course_lib.render.cells import Points, shell, show
from course_lib.render.drawings import code
from course_lib.render.verdict_card import CELL, chip, findings_html, html
from course_lib.render.verdicts import OUTCOMES, of_finding, text

__all__ = ["CELL", "OUTCOMES", "Points", "chip", "code", "findings_html", "html", "of_finding", "shell", "show", "text"]
