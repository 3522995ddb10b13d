"""Verdicts in nbgrader: its gradebook, its graded notebooks, its feedback, its exchange.

books.py       enters a class, by the steps of nbgrader's chain in one session
results.py     what was judged and entered, read again
current_submission.py  what those steps need not find out for themselves
release.py     steps: a source as students get it; ../nbgrader_config.py switches all steps on
submitted.py   steps: a submission as it was read, in the gradebook's cells
marks.py       steps: verdicts into the graded notebook and the gradebook
feedback.py    steps: marks into the feedback; the notes of nbgrader's exchange
converting.py  nbgrader's converters, without a shell
pages.py       what students wrote, as HTML
to_look_at.py  flags of a class, for a terminal
counts.py      what counts in a class: the main path, More, or not at all
late.py        due dates and extensions, and what lateness costs
dates.py       dates as they are written in a command
amended.py     exercises that a unit gains or loses after submissions
exchange.py    submissions through nbgrader's exchange
requests.py    requests to look at a mark again
"""
