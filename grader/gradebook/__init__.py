"""Verdicts in nbgrader: its gradebook, its graded notebooks, its feedback.

books.py           enters a class
preprocessors.py   verdicts into nbgrader's chain; ../nbgrader_config.py switches them on
pages.py           what students wrote, as HTML
"""
