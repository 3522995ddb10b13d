"""Count what a kernel does to memory, on a CPU: no GPU is needed, and the kernel stays as it is.

    with trace() as t:
        kernel[grid](x, y, n, BLOCK=1024)
    t.bytes, t.loads.sectors, t.reread("x_ptr"), t.faults

A kernel's Python is never run. Triton's own front end reads it, as for a GPU; what it writes (TTIR) is evaluated here for many
programs at once, so a kernel cannot do one thing for the trace and another for the compiler.

    kernel ──▶ ttir/ ──▶ text ──▶ its data ──▶ evaluate.py ──▶ values, and what they do to memory

opening        traced.py  trace(), and the class Trace: the data below with its views;  opening.py  what goes on while a trace is open
               interception.py  kernel[grid](...) -> a handler
launching      launcher.py  arguments are bound, the kernel compiled to TTIR and evaluated;  tuning.py  autotuned launches
evaluation     evaluate.py  operations -> Python functions;  program.py  what these work on
               control.py  calls, loops, branches;  divergence.py  programs that part ways
               sites.py  lines of the module -> lines as sentences name them
               operations.py  lane by lane;  blocks.py  whole blocks;  unused.py  dead code;  dataflow.py  ways of values
               arithmetic.py  which of them a trace uses: exact/ has another;  undefined_masks.py  masks of what nobody wrote
               sums.py  offsets that are not added up yet
               instructions.py  loads, stores, printing;  turns.py  programs that wait for one another
memory         memory.py  where tensors lie, and what was done to each element;  pattern.py  addresses -> requests, sectors, lines
               accesses.py  an access of many programs, looked at, counted, and done
data           recorded.py  launches, steps, traffic, FLOPs, and their sums;  regions.py  the tensors that kernels were given
               parameters.py  what of a tensor is whose
               faults.py  what a GPU would get wrong;  races.py, ordering.py  programs that disturb one another, and what orders them
               cas_loads.py  loads that are compared again;  wraps.py  products that are too large for int32
               threads.py  threads of one program;  watched.py  values of a variable;  cache.py  the L2 model
               work.py  how much a trace may do;  modes.py, light.py  torch loads nothing more of itself
views          show.py  tables and annotated source;  draw.py  heat maps, order, timelines
               warps.py  how warps access memory, of which the compiler is asked
elsewhere      __main__.py  a script, from the command line;  as_on_a_gpu.py  what host code asks of a GPU, answered without one
               report.py  table and page with lines of files;  saved.py  a trace as JSON, there and back

Only interception.py, tuning.py (hooks of autotune), as_on_a_gpu.py (the active driver), and frontend.py, printed.py and sources.py
of ttir/ touch Triton's internals. Nothing of
Triton is changed but where launches go, and that only while a trace is open; and what a launch outside of one says where no GPU
is (no_gpu.py).

Programs run together in batches whose largest block has launcher.BATCH elements in all, whatever the grid, so that a launch takes
a few times that much memory besides its tensors; what stays until the end of a trace is 16 bytes for each access of a program,
and a gather's addresses.

A trace sees global memory and arithmetic. It cannot see what the compiler decides: layouts, shared memory and its banks,
registers. compiled/ asks it how much shared memory and how many registers a kernel takes.
"""

from tritontrace.tracing import no_gpu
from tritontrace.tracing.cache import MissCurve, grouped, hilbert, matmul_tiles, row_major
from tritontrace.tracing.interception import launches_go_to
from tritontrace.tracing.light import keep_it_light
from tritontrace.tracing.modes import Mode
from tritontrace.tracing.opening import is_open, opened
from tritontrace.tracing.saved import as_data, from_data, schema
from tritontrace.tracing.traced import Trace, trace
from tritontrace.tracing.work import TooSlow, Work
from tritontrace.ttir.launching import KernelError, KernelFault

__all__ = [
    "KernelError",
    "KernelFault",
    "MissCurve",
    "Mode",
    "TooSlow",
    "Trace",
    "Work",
    "as_data",
    "from_data",
    "grouped",
    "hilbert",
    "is_open",
    "keep_it_light",
    "launches_go_to",
    "matmul_tiles",
    "opened",
    "row_major",
    "schema",
    "trace",
]

no_gpu.say_so()
