"""Count what a kernel does to memory, on a CPU: no GPU is needed, and the kernel stays as it is.

    with trace() as t:
        kernel[grid](x, y, n, BLOCK=1024)
    t.bytes, t.loads.sectors, t.reread("x_ptr"), t.faults

A kernel's Python is never run. Triton's own front end reads it, as for a GPU; what it writes (TTIR) is evaluated here for many
programs at once, so a kernel cannot do one thing for the trace and another for the compiler.

    kernel ──▶ ttir/ ──▶ text ──▶ its data ──▶ evaluate.py ──▶ values, and what they do to memory

launching      interception.py  kernel[grid](...) -> a handler;  sites.py  lines of the module -> lines as verdicts name them
evaluation     evaluate.py  operations -> Python functions;  control.py  calls, loops, branches;  apart.py  programs that part ways
               operations.py  lane by lane;  blocks.py  whole blocks;  unused.py  dead code
               sums.py  offsets that are not added up yet
               instructions.py  loads, stores, printing;  turns.py  programs that wait for one another
memory         memory.py  where tensors lie, and what was done to each element;  pattern.py  addresses -> requests, sectors, lines
               accesses.py  an access of many programs, looked at, counted, and done
results        traced.py  Trace: launches, steps, traffic, FLOPs;  watched.py  values of a variable;  cache.py  the L2 model
               work.py  how much a trace may do;  modes.py  torch modes that load nothing more of torch
               faults.py  what a GPU would get wrong;  races.py, ordering.py  programs that disturb one another, and what orders them
               threads.py  threads of one program;  tuning.py  autotuned launches
               show.py  tables and annotated source;  draw.py  heat maps, order, timelines
elsewhere      __main__.py  a script, from the command line;  as_on_a_gpu.py  what host code asks of a GPU, answered without one
               report.py  table, data and page with lines of files;  assertions.py  for tests of one's own kernels

Only interception.py, tuning.py (hooks of autotune), as_on_a_gpu.py (the active driver), and frontend.py, printed.py and sources.py
of ttir/ touch Triton's internals. Nothing of
Triton is changed but where launches go, and that only while a trace is open.

Programs run together in batches whose largest block has traced.BATCH elements in all, whatever the grid, so that a launch takes
a few times that much memory besides its tensors; what stays until the end of a trace is 16 bytes for each access of a program,
and a gather's addresses.

A trace sees global memory and arithmetic. It cannot see what the compiler decides: layouts, shared memory and its banks,
registers. compiled/ asks it how much shared memory and how many registers a kernel takes.
"""

from course_lib.tracing.traced import Trace, is_open, opened, trace
from course_lib.ttir.launching import KernelError, KernelFault

__all__ = ["KernelError", "KernelFault", "Trace", "is_open", "opened", "trace"]
