"""Hopper's asynchrony on a CPU: Gluon kernels with TMA, mbarriers, wgmma and partitions of warps, run in many orders.

    report = simulate(kernel[grid], *arguments, num_warps=4)
    report.right, report.fault, report.counts, report.overlapped

A kernel is evaluated from what Triton's front end makes of it, as a trace does (tracing/), so there is no second opinion on what it
says. Copies and products are under way while the partitions go on; when they end is up to an order (orders.py), and a vector
clock for each of them finds what nothing orders, although the numbers happen to be right.

    simulation.py  simulate(): launches in several orders -> a Report
    evaluate.py    Gluon's operations as Python functions, beside the trace's: calls, partitions
    instructions.py  those on tiles, barriers, copies, products;  values.py  what only Gluon's values are
    machine.py     a program: partitions, and what is under way;  orders.py  who goes on;  barriers.py  mbarriers
    upkeep.py      barriers that stand where Triton may put another buffer
    memory.py      shared memory, and which accesses can meet
    faults.py      mistakes: their names, and each as data with a sentence
    timeline.py    what is busy when, by a model in cycles;  arithmetic.py  what an operation takes of it;  draw.py  its picture
    schedule.py    when copies and products of a loop begin, by a recurrence: for pictures without a kernel
    facts.py       a Report as plain data, for a check;  show.py  a Report as text and HTML
    banks.py       bank conflicts of layouts;  written.py  of the loads and stores that a kernel's text has
    language.py    names of Gluon, whatever Triton calls them

What is not modelled:

* Layouts. Blocks are plain arrays, tiles plain matrices: that operands of a product lie as the tensor cores want them, the compiler
  checks (`compile_for`), and a tile that is reinterpreted as another type is refused here.
* Threads. Those of a partition go together. A `gl.barrier()` that lacks within one is not seen: Triton puts it there itself.
* Fences as the compiler mends them. "missing fence" is a rule of PTX. Triton 3.7 puts fence_async_shared() back where it lacks
  (its pass add_proxy_fence_insertion), so that no run on a GPU shows this mistake. A write by TMA to what threads have read needs
  no fence here, as in CUTLASS's pipelines.
* Registers for each thread, spills, occupancy, clusters and multicast, Blackwell; whether ptxas keeps an overlap.
* Races in global memory within one program: those between programs, and bounds, are checked as in a trace.
* Speed. timeline.py says what is busy when, by costs that are measured, a datasheet's or assumed.
"""

from course_lib.hopper.banks import bank_conflicts
from course_lib.hopper.faults import Fault, Kind
from course_lib.hopper.simulation import Report, simulate

__all__ = ["Fault", "Kind", "Report", "bank_conflicts", "simulate"]
