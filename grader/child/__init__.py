"""The processes that run student code and kernels, and what holds them. All that a recorder may read of grader stands here.

zygote.py     torch imported, no secrets: forks the children that run it
timing.py     the child that times it, on a GPU
sandbox.py    what keeps it to itself: bubblewrap, limits, and the next two
landlock.py   files that a child may see
seccomp.py    system calls that a child may make
"""
