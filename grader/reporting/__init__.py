"""Results of grading a unit, for people and for an LMS.

results.py    what was judged and entered, read again
report.py     the class report
flags.py      what a person should look at
similar.py    sources that look alike
exports.py    marks as CSV
scale.py      what a point is worth in a column of another maximum
handback.py   feedback as Canvas and Moodle take it back
"""
