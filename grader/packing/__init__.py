"""Packs for other graders: what they run, and what they read.

rules.py         a unit's rules, dates and names, out of the gradebook, as a file that travels
gradescope.py    the zip that Gradescope's autograder takes, and what runs there
github.py        a repository for GitHub Classroom, and what its workflow runs
"""
