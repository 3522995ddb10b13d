"""Count what a Triton kernel does to memory, without a GPU.

    from tritontrace import trace

    with trace() as t:
        kernel[grid](x, y, n, BLOCK=1024)
    t.bytes, t.loads.sectors, t.reread("x_ptr"), t.faults

    trace()          bytes, sectors, re-reads, FLOPs and faults of the kernels that are launched
    diff()           two traces, line by line
    simulate()       a kernel in Gluon, in many orders of what runs at the same time
    compile_for()    what the compiler makes of a kernel
    warps_for()      requests, sectors and bank conflicts of its warps
    profile()        what limits kernels: predicted, and counted where a GPU and `ncu` are
    equivalent()     whether two functions compute one formula, without a tolerance
    prove()          whether every access stays inside its tensor, for all sizes

Names are loaded when they are first used, so that `import tritontrace` costs next to nothing. Examples in docstrings know these:

    import torch
    import triton
    import triton.language as tl
    from tritontrace import trace

    @triton.jit
    def copy(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < n)
        tl.store(y_ptr + i, x, mask=i < n)

    x, y = torch.ones(1000), torch.empty(1000)
    with trace() as t:
        copy[(4,)](x, y, 1000, BLOCK=256)

Modules:

    results.py       what was seen, as plain data
    ttir/            a kernel as the compiler's front end writes it
    tracing/         what that does to memory
    diffs/           two traces beside one another
    compiled/        what the compiler makes of it
    hopper/          what a kernel in Gluon does at the same time, on a Hopper GPU
    exact/           kernels in a field, where nothing is rounded: whether two compute one formula
    proving/         kernels for all sizes: what no size lets go wrong, or the smallest that does
    replay/          a call of host code, recorded, and run again on other data
    profiling/       timed ratios, counters
    gpu.py           which GPU this is, and datasheets
    colours.py       the palette;  picture.py  what pictures are made of
    messages.py      sentences as ids with parameters; catalogue/ has the words
    words.py         how numbers are said;  threads.py  torch without threads of its own
    testing.py       assertions for tests;  pytest_plugin.py  the fixture `traced`
    lazily.py        names that are loaded when they are first used;  no_triton.py  Triton's names where Triton has no build
    cli/             the command, by __main__.py
"""

from typing import TYPE_CHECKING

from tritontrace import no_triton
from tritontrace.lazily import lazily

no_triton.install()
if TYPE_CHECKING:
    from tritontrace.compiled import compile_for, warps_for
    from tritontrace.diffs import diff
    from tritontrace.exact import Equivalence, Reference, equivalent
    from tritontrace.hopper import Report, simulate
    from tritontrace.profiling import profile
    from tritontrace.proving import Proof, prove
    from tritontrace.tracing import KernelError, KernelFault, Trace, as_data, from_data, trace

__version__ = "0.1.0"

__all__ = [
    "Equivalence",
    "KernelError",
    "KernelFault",
    "Proof",
    "Reference",
    "Report",
    "Trace",
    "as_data",
    "compile_for",
    "diff",
    "equivalent",
    "from_data",
    "profile",
    "prove",
    "simulate",
    "trace",
    "warps_for",
]
__getattr__ = lazily(
    __name__,
    {
        "compile_for": "tritontrace.compiled",
        "warps_for": "tritontrace.compiled",
        "diff": "tritontrace.diffs",
        "Equivalence": "tritontrace.exact",
        "Reference": "tritontrace.exact",
        "equivalent": "tritontrace.exact",
        "Report": "tritontrace.hopper",
        "simulate": "tritontrace.hopper",
        "profile": "tritontrace.profiling",
        "Proof": "tritontrace.proving",
        "prove": "tritontrace.proving",
        "KernelError": "tritontrace.tracing",
        "KernelFault": "tritontrace.tracing",
        "Trace": "tritontrace.tracing",
        "as_data": "tritontrace.tracing",
        "from_data": "tritontrace.tracing",
        "trace": "tritontrace.tracing",
    },
)
