"""A class: who is in it, what it hands in, and who judges that.

rosters.py      class lists from an LMS
enrolled.py     who is in the class
imports.py      submissions from an LMS
exchange.py     submissions through nbgrader's exchange
late.py         due dates and extensions
classroom.py    a whole class
canary.py       the published solutions, judged first
workers.py      who judges it: processes, or a cluster
bounded.py      the child with limits that reads a submission, and the pages made of it
verdicts.py     verdicts on disk, each under a hash of all that it depends on
carried.py      what was lost by an earlier exercise's mistake, given back
single.py       one notebook, without a class
amended.py      exercises that a unit gains or loses after submissions
regrade.py      what is judged anew, and whose marks changed
frozen.py       units whose marks stay as they are
lock.py         one autograde at a time
"""
