"""The processes that run student code and kernels, and what holds them. A recorder may read nothing else of grader.

zygote.py     torch imported, no secrets: forks the children that run it
fork_server.py  forks a process for each who asks
nursery.py    one process that forks the zygotes of a class's workers
gpu_child.py  the child that runs its kernels on a GPU
sandbox.py    what keeps it to itself: bubblewrap, limits, and the next two
landlock.py   files that a child may see
seccomp.py    system calls that a child may make
memory.py     what processes hold, and what a worker keeps to
"""
