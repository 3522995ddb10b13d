"""Reports on a class, for the people who teach.

report.py     one unit: the class report
term.py       all units
in_a_terminal.py  both as tables
effort.py     checks and hints of those who share them
sources.py    submissions, read for it
similar.py    sources that look alike
"""
