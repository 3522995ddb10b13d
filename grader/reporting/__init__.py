"""The class report, for the people who teach.

report.py     the page
sources.py    submissions, read for it
similar.py    sources that look alike
"""
