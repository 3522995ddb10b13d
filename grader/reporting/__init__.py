"""Reports on a class, for the people who teach.

report.py     one unit: the class report
term.py       all units
sources.py    submissions, read for it
similar.py    sources that look alike
"""
