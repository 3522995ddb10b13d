"""A read of shared memory that nobody has written does not end a run: the mistake behind it is told as well."""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as ttgl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier

from tritontrace.hopper import simulate

LAYOUT = ttgl.constexpr(ttgl.BlockedLayout([1], [32], [4], [0]))
SHARED = ttgl.constexpr(ttgl.SwizzledSharedLayout(1, 1, 1, order=[0]))


@gluon.jit
def reads_too_early(o_ptr, WAITS: ttgl.constexpr):
    tile = ttgl.allocate_shared_memory(ttgl.float32, [128], SHARED)
    bar = ttgl.allocate_shared_memory(ttgl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1)
    ttgl.store(o_ptr + ttgl.arange(0, 128, layout=LAYOUT), tile.load(LAYOUT))
    if WAITS:
        mbarrier.wait(bar, 0)
    mbarrier.invalidate(bar)


def test_what_lies_behind_is_told_as_well():
    kinds = [fault.kind.value for fault in simulate(reads_too_early[(1,)], torch.zeros(128), WAITS=True).faults]
    assert kinds == ["read before it is there", "deadlock"]


def test_alone_it_is_told_once():
    report = simulate(reads_too_early[(1,)], torch.zeros(128), WAITS=False)
    assert [fault.kind.value for fault in report.faults][:1] == ["read before it is there"]
    assert "deadlock" not in [fault.kind.value for fault in report.faults]
    assert all(run.fault is not None for run in report.runs)
