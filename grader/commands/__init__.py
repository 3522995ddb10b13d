"""The commands of `python -m grader`, in the order of its help.

course.py    make something of the course's sources: notebooks, a copy for students, slides, packs
judging.py   judge a unit of the class, or one notebook
marks.py     what counts and until when, reports, exports
students.py  who is in the class: submissions and rosters of an LMS, tasks of one's own
audit.py     try the grader itself: wrong answers, mutants, this machine, a sample class
"""

from grader.commands import course, judging, marks, students, audit  # noqa: F401, I001
