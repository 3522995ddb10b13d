"""What a kernel does to memory, counted on Triton's interpreter: no GPU needed, and the kernel stays as it is.

    with trace() as t:
        kernel[grid](x, y, n, BLOCK=1024)
    t.bytes, t.loads.sectors, t.reread("x_ptr"), t.faults

hooks.py     runs kernels in Python;  language.py, builder.py  what each function and each operation does. They alone touch
             Triton's internals.
launching.py arguments, grid, order, errors;  rewrite.py  the kernel's function;  numerics.py  a GPU's arithmetic
plans.py     Triton's front end, asked once for each kind of call
memory.py    where tensors lie, and what was done to each element;  pattern.py  addresses -> requests, sectors, lines
record.py    Trace: launches, steps, traffic, FLOPs;  faults.py  what a GPU would get wrong;  cache.py  the L2 model
show.py      tables and annotated source;  draw.py  heat maps, order, timelines

A trace sees global memory and arithmetic. It cannot see what the compiler decides: layouts, shared memory and its banks,
registers. compiled/ asks it how much shared memory and how many registers a kernel takes.
"""

from course_lib.tracing.hooks import KernelError, KernelFault
from course_lib.tracing.record import Trace, in_a_row, is_open, trace

__all__ = ["KernelError", "KernelFault", "Trace", "in_a_row", "is_open", "trace"]
