"""Sources -> the course.

build.py          solutions/NN_topic.py -> the instructor's and the student's notebook
origin.py         where the clone comes from
hosted.py         what a student's notebook needs on Colab and Kaggle
outputs.py        the outputs of its cells: kept, dropped, made
dependencies.py   what each of them depends on
announce.py       points, minutes, sums in its text: {{...}} -> what the exercises say
quoted.py         measured numbers in its text
units.py          the table of units, in README.md and in the first notebook
index.py          docs/solutions.md
site.py           the pages for self-study, of `make site`
personal.py       a unit's notebook with one student's twists
student_copy.py   a copy of the course for students, without solutions
release.py        all that a release consists of, of `make release`
slides.py         the units' pictures, with their questions
lessons.py        its units
covers.py         the card that each begins with
states.py         their widgets, all states drawn ahead
parts.py          a unit in several pages, cut at its headings
drawings.py       pictures of cells drawn anew: for pages, which have themes, and for notebooks
hero.py           the verdict on its first page, and in README.md
finish.py         what Sphinx leaves undone
social.py         the picture of a link to it
"""
