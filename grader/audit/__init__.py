"""Whether the grader grades: other answers, and what becomes of them.

variants/        wrong, wasteful, cheating and odd answers, and what each must lose
kill_matrix.py   whether they do
remarks.py       what verdicts remark of them, as somebody has read it: remarks/
mutations.py     small changes of kernels: those that cost nothing are explained in survivors.toml
holes.py         random changes that earn all points and compute another formula; holes.toml explains those that may stay
twisted.py       the published answers to twists
named.py         answers of exercises that ask for the name of a mistake
samples/         the sample class
"""
