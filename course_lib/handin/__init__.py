"""Handing in: what a notebook gives to the grader, and what a student does with finished work.

    cells.py        a file's bytes -> cells
    statements.py   a cell -> top-level statements, with the names that each binds and needs
    answer.py       cells -> the answer to each exercise: the code that runs for it
    mangled.py      cells that a merge, a magic or a slip of the hand has changed: read as meant, or named
    literals.py     is a prediction written down, or computed?

The grader reads submissions with these five; students see by them what would be graded:

    files.py        which notebook this is, its unit, and how that was handed out
    validate.py     validate(): what would be graded, and what would not
    twists.py       twists("..."): tasks of one's own, where a class asks for them
    effort.py       effort(): how many checks and hints, shown to oneself, or to the class with the notebook
    stale.py        after a cell that failed: which version a check judges
    archive.py      make_zip(): the zip to hand in
    earlier.py      solutions of earlier units, for a demonstration
    reset.py        reset("..."): an exercise as it was handed out, and what was there kept
"""
