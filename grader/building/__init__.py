"""Sources -> the course.

build.py   solutions/NN_topic.py -> the instructor's and the student's notebook
index.py   docs/solutions.md
"""
