"""Sources -> the course.

build.py          solutions/NN_topic.py -> the instructor's and the student's notebook
hosted.py         the cells that a student's notebook needs on Colab and Kaggle
outputs.py        the outputs of its cells: kept, dropped, made
dependencies.py   what each of them depends on
announce.py       points, minutes, sums in its text: {{...}} -> what the exercises say
units.py          the table of units, in README.md and in the first notebook
index.py          docs/solutions.md
site.py           the pages for self-study, of `make site`
states.py         its widgets, as rows of pictures
"""
