"""Sources -> the course.

build.py          solutions/NN_topic.py -> the instructor's and the student's notebook
outputs.py        the outputs of its cells: kept, dropped, made
dependencies.py   what each of them depends on
index.py          docs/solutions.md
"""
