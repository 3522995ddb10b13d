"""The commands of `python -m grader`, by what they are about, in the order of its help."""

from grader.commands import course, judging, marks, students, audit  # noqa: F401, I001
