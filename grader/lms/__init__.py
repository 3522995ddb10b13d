"""To and from a learning management system: Canvas, Moodle and CSV.

rosters.py      class lists of an LMS, and all its names of columns
codes.py        the codes of a class with twists
enrolled.py     who is in the class, by which id
exported.py     the files of an export, however hostile
imports.py      an export of submissions -> submitted/
rejected.py     files that were handed in and not imported
exports.py      marks as CSV, by the name of the form
sheets.py       ... for a spreadsheet;  canvas.py, moodle.py  for an import there
matching.py     entries beside the rows of a roster
scale.py        what a point is worth in a column of another maximum
feedback_export.py  feedback as Canvas and Moodle take it back
"""

LMS = ("canvas", "moodle")
FORMS = ("exercises", "criteria", *LMS)
"""Of an export as CSV. There is "feedback" as well, which is none: feedback_export.py."""
