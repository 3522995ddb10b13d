"""An answer -> its verdict. No student code runs here; whatever changes here, or in child/, may change a verdict.

submission.py       a file as handed in -> course_lib.handin: the answer to each exercise
bounded.py          the child with limits that reads it, and makes pages of it
flags.py            what a person should look at
provided.py         code that an exercise gives, put in place
judge.py            answers of one student -> verdicts
task.py             one of them, between its children and the judge
cases.py            what it is judged on
secret.py           by which hidden inputs and tasks are drawn
hidden/             cases that students never see
redaction.py        what a verdict may say of them
releases.py         earlier releases of a unit's notebook, by the clone's history
excused.py          what was never handed out, and what it counts
follow_through.py   what was lost by an earlier exercise's mistake, given back
twists.py           the tasks that a class asks of each student
verdicts.py         verdicts on disk, each under a hash of all that it depends on
"""
