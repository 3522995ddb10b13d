"""Work is counted, not timed: the same kernel takes the same everywhere, and too much of it ends with what was judged kept."""

import pytest
import torch
import triton
import triton.language as tl
from sentences import refusing

from tritontrace.tracing import KernelError, trace
from tritontrace.tracing.work import MEMORY, OPERATION, TooSlow, Work


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
    with pytest.raises(TooSlow) as stopped, trace(work=work):
        kernel[(4096 if more else 1,)](x, o, 4096, **more)
    assert stopped.value.message.id.startswith("launch.work.")
    assert 1e5 < work.done < 2e6 and issubclass(TooSlow, KernelError)


@pytest.mark.parametrize(
    "kernel, grid, most, id, parameters",
    [(endless, (1,), 1e8, "endless", {}), (copy, (1 << 20,), 1e5, "programs", {"programs": 1 << 20, "elements": 8192})],
)
def test_too_much_for_a_reason_that_shows(kernel, grid, most, id, parameters):
    more = {"BLOCK": 1} if kernel is copy else {}
    with refusing(f"launch.work.{id}", TooSlow, **parameters), trace(work=Work(most)):
        kernel[grid](torch.rand(4096), torch.zeros(4096), 4096, **more)


@pytest.mark.parametrize("costs, id", [((100, 1), "operations"), ((1, 100), "elements")])
def test_what_ran_out_is_told(costs, id):
    """Whoever has the largest blocks that Triton takes was told to take larger tiles."""
    with refusing(f"launch.work.{id}", TooSlow):
        Work(10).spend(costs, 1)
