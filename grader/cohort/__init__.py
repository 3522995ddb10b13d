"""A class: who judges what it hands in, and what is judged anew.

classroom.py    a whole class
workers.py      who judges it: processes, or a cluster
forked.py       the processes of this machine, forked from the command
canary.py       the published solutions, judged first
single.py       one notebook, without a class
regrade.py      what is judged anew
changes.py      whose marks changed, from what to what
frozen.py       units whose marks stay as they are
copies.py       the books before marks change, and those of a dry run
lock.py         one autograde at a time
"""
