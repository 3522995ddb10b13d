"""An answer -> its verdict. No student code runs here; whatever changes here, or in child/, may change a verdict.

submission.py   a file as handed in -> course_lib.handin: the answer to each exercise
given.py        code that an exercise gives, put in place
judge.py        secrets, references, criteria -> verdicts
hidden/         cases that students never see
untold.py       what a verdict may say of them
"""
