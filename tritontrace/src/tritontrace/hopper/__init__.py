"""Hopper's asynchrony on a CPU: Gluon kernels with TMA, mbarriers, wgmma and partitions of warps, run in many orders.

    report = simulate(kernel[grid], *arguments, num_warps=4)
    report.right, report.fault, report.counts, report.overlapped

A kernel is evaluated from what Triton's front end makes of it, as a trace does (tracing/), so there is no second opinion on what it
says. Copies and products are under way while the partitions go on; when they end is up to an order (orders.py), and a vector
clock for each of them finds what nothing orders, although the numbers happen to be right.

    simulation.py  simulate(): launches in several orders -> a Report (report.py): the data of outcome.py with its views
    evaluate.py    Gluon's operations as Python functions, beside the trace's: calls, partitions
    instructions.py  those on tiles, barriers, copies, products;  values.py  what only Gluon's values are
    machine.py     a program: partitions, and what is under way (agents.py);  orders.py  who goes on
    barriers.py    mbarriers;  clocks.py  who knows what
    upkeep.py      barriers that stand where Triton may put another buffer
    memory.py      shared memory, and which accesses can meet
    faults.py      mistakes: their names, and each as data with a sentence
    timeline.py    what is busy when, by a model in cycles;  arithmetic.py  what an operation takes of it;  draw.py  its picture
    scheduling.py  when copies and products of a loop begin, by a recurrence: for pictures without a kernel
    facts.py       an Outcome as plain data;  saved.py  as JSON, there and back;  show.py  as text and HTML
    banks.py       bank conflicts of layouts;  shared_accesses.py  of the loads and stores that a kernel's text has
    restarts.py    loops that Triton compiles wrongly
    language.py    names of Gluon, whatever Triton calls them

What is not modelled:

* Layouts. Blocks are plain arrays, tiles plain matrices: that operands of a product lie as the tensor cores want them, the compiler
  checks (`compile_for`), and a tile that is reinterpreted as another type is refused here.
* Threads. Those of a partition go together. A `gl.barrier()` that lacks within one is not seen: Triton puts it there itself.
* Fences as the compiler mends them. "missing fence" is a rule of PTX. Triton 3.7 puts fence_async_shared() back where it lacks
  (its pass add_proxy_fence_insertion), so that no run on a GPU shows this mistake. A write by TMA to what threads have read needs
  no fence here, as in CUTLASS's pipelines.
* Registers for each thread, spills, occupancy, clusters and multicast, Blackwell; whether ptxas keeps an overlap.
* Races in global memory within one program: those between programs, and bounds, are found as in a trace.
* Speed. timeline.py says what is busy when, by costs that are measured, a datasheet's or assumed.

Examples in docstrings here know these as well:

    from tritontrace import simulate
    from tritontrace.hopper.language import TensorDescriptor, gl, gluon, mbarrier, tma_load

    @gluon.jit
    def fetch(x_desc, y_ptr, WAITS: gl.constexpr):
        tile = gl.allocate_shared_memory(gl.float32, [64], x_desc.layout)
        ready = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
        mbarrier.init(ready, count=1)
        mbarrier.expect(ready, x_desc.block_type.nbytes)
        tma_load(x_desc, [0], ready, tile)
        if WAITS:
            mbarrier.wait(ready, 0)
        mbarrier.invalidate(ready)
        i = gl.arange(0, 64, gl.BlockedLayout([1], [32], [4], [0]))
        gl.store(y_ptr + i, tile.load(i.type.layout))

    layout = gl.NVMMASharedLayout(swizzle_byte_width=0, element_bitwidth=32, rank=1)
    x_desc, y = TensorDescriptor.from_tensor(torch.arange(64.0), [64], layout), torch.empty(64)
    right = simulate(fetch[(1,)], x_desc, y, WAITS=True, num_warps=4)
    wrong = simulate(fetch[(1,)], x_desc, y, WAITS=False, num_warps=4)
"""

from typing import TYPE_CHECKING

from tritontrace.compiled.warps import BANKS, WORD
from tritontrace.hopper.banks import bank_conflicts, held_by, offsets_in_shared
from tritontrace.hopper.faults import Fault, Kind, Spot
from tritontrace.hopper.orders import ORDERS
from tritontrace.hopper.report import Report
from tritontrace.hopper.saved import as_data, from_data
from tritontrace.hopper.scheduling import schedule
from tritontrace.hopper.simulation import EveryOrder, simulate
from tritontrace.hopper.timeline import TENSOR_CORES, Bar, Costs
from tritontrace.lazily import lazily

if TYPE_CHECKING:
    from tritontrace.hopper.draw import ROW_INCHES, busy, draw_bars, legend, rows_of

__all__ = [
    "BANKS",
    "ORDERS",
    "ROW_INCHES",
    "TENSOR_CORES",
    "WORD",
    "Bar",
    "Costs",
    "EveryOrder",
    "Fault",
    "Kind",
    "Report",
    "Spot",
    "as_data",
    "bank_conflicts",
    "busy",
    "draw_bars",
    "from_data",
    "held_by",
    "legend",
    "offsets_in_shared",
    "rows_of",
    "schedule",
    "simulate",
]
_DRAWN: dict[str, str] = dict.fromkeys(
    ("ROW_INCHES", "busy", "draw_bars", "legend", "rows_of"), "tritontrace.hopper.draw"
)
__getattr__ = lazily(__name__, _DRAWN)  # Matplotlib takes a while
