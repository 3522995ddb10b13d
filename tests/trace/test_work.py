"""Work is counted, not timed: the same kernel takes the same everywhere, and too much of it ends with what was judged kept."""

import pytest
import torch
import triton
import triton.language as tl

from course_lib import observe
from course_lib.evidence import Evidence
from course_lib.observe import wire
from course_lib.observe.record import record
from course_lib.tracing import KernelError, trace
from course_lib.tracing.work import MEMORY, OPERATION, TooSlow, Work


@triton.jit
def copy(x_ptr, o_ptr, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o_ptr + i, tl.load(x_ptr + i, mask=i < N), mask=i < N)


@triton.jit
def one_by_one(x_ptr, o_ptr, N):
    for i in range(N):
        tl.store(o_ptr + i, tl.load(x_ptr + i))


@triton.jit
def endless(x_ptr, o_ptr, N):
    i = 0
    while i >= 0:
        i = (i + 1) % N
    tl.store(o_ptr, i)


def work_of(kernel, grid, *args, **constants):
    work = Work()
    with trace(work=work):
        kernel[grid](*args, **constants)
    return work.done


def test_work_is_operations_and_elements_whatever_the_machine_does():
    x, o = torch.rand(4096), torch.empty(4096)
    some = work_of(copy, (4,), x, o, 4096, BLOCK=1024)
    assert some == work_of(copy, (4,), x, o, 4096, BLOCK=1024)
    assert some > 2 * MEMORY * (OPERATION + 4096)  # a load and a store, for themselves and for each element
    assert work_of(one_by_one, (1,), x, o, 4096) > 100 * some


@pytest.mark.parametrize("kernel, more", [(one_by_one, {}), (endless, {}), (copy, {"BLOCK": 1})])
def test_too_much_ends_where_it_is_too_much(kernel, more):
    x, o = torch.rand(4096), torch.zeros(4096)
    work = Work(1e5)
    with pytest.raises(TooSlow, match="too slow to judge"), trace(work=work):
        kernel[(4096 if more else 1,)](x, o, 4096, **more)
    assert 1e5 < work.done < 2e6 and issubclass(TooSlow, KernelError)


def test_what_was_not_too_much_is_judged_in_whatever_order_the_cases_come(monkeypatch):
    def function(x):
        o = torch.empty_like(x)
        one_by_one[(1,)](x, o, x.numel())
        return o

    monkeypatch.setattr(observe, "MOST_OF_A_CASE", 2e7)
    sizes = (9, 4096, 10, 2048, 11)
    calls = [[{"x": torch.rand(size)}] for size in sizes]
    logs = [record(function, call) for call in calls]
    for most, slow in ((1e9, [4096, 2048]), (1e7, [4096, 2048])):
        monkeypatch.setattr(observe, "MOST_WORK", most)
        trees = observe.replay_all(logs, calls, [str(size) for size in sizes], kernel=True)
        found = [wire.from_tree(Evidence, tree) for tree in trees]
        assert [size for size, e in zip(sizes, found, strict=True) if e.error.startswith("too slow")] == slow
        right = [e for e in found if not e.error]
        assert all(torch.equal(e.outputs[0], c[0]["x"]) for e, c in zip(found, calls, strict=True) if e in right)
