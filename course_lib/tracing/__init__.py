"""What a kernel does to memory, counted on Triton's interpreter: no GPU needed, and the kernel stays as it is.

    with trace() as t:
        kernel[grid](x, y, n, BLOCK=1024)
    t.bytes, t.loads.sectors, t.reread("x_ptr"), t.faults

hooks.py     runs kernels in Python; the only file that touches Triton's internals (rewrite.py: the kernel's function)
memory.py    where tensors lie, and what was done to each element;  pattern.py  addresses -> requests, sectors, lines
record.py    Trace: launches, traffic, faults;  show.py  tables, annotated source, heat maps
"""

from course_lib.tracing.hooks import KernelError, KernelFault
from course_lib.tracing.record import Trace, is_open, trace

__all__ = ["KernelError", "KernelFault", "Trace", "is_open", "trace"]
