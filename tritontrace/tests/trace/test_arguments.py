"""Arguments of all kinds that Triton takes: integers in descriptors, tuples with constants, objects with data_ptr(), const pointers."""

from typing import NamedTuple

import pytest
import torch
import triton
import triton.language as tl
from sentences import mentions, says
from triton.tools.tensor_descriptor import TensorDescriptor

from tritontrace.compiled import ptx_for
from tritontrace.tracing import KernelError, KernelFault, trace


@triton.jit
def by_descriptors(x_desc, o_ptr, n, B: tl.constexpr):
    o_desc = tl.make_tensor_descriptor(o_ptr, (n, B), (B, 1), (4, B))
    o_desc.store([0, 0], x_desc.load([2, 0]) + 1)
    tl.debug_barrier()
    pointer = tl.make_block_ptr(o_ptr, (n, B), (B, 1), (2, 0), (4, B), (1, 0))
    tl.store(pointer, tl.load(pointer, boundary_check=(0, 1), padding_option="zero") + 1, boundary_check=(0,))


@pytest.mark.filterwarnings("ignore:.*make_block_ptr")
@pytest.mark.parametrize("dtype", [torch.int32, torch.int8, torch.float16])
def test_integers_beyond_the_edges_are_zero(dtype):
    x, o = torch.ones(3, 16, dtype=dtype), torch.zeros(4, 16, dtype=dtype)
    with trace() as t:
        by_descriptors[(1,)](TensorDescriptor.from_tensor(x, [4, 16]), o, 4, 16)
    assert o[:, 0].tolist() == [2, 1, 2, 2]
    assert t.faults == []


@triton.jit
def plus(a, b):
    return a + b


class Shape(NamedTuple):
    rows: int
    columns: int
    name: tl.constexpr
    combine: object


@triton.jit
def of_tuples(pointers, shape, steps, B: tl.constexpr):
    tl.static_assert(shape.name == "rows")
    tl.static_assert(steps[0] == 1 and steps[2][1] is None)
    offs = tl.arange(0, B)
    x = tl.load(pointers[0] + offs * steps[0], mask=offs < shape.rows, other=0.0)
    tl.store(pointers[1] + offs, shape.combine(x, steps[1]) + shape.columns + steps[2][0], mask=offs < shape.rows)


def test_tuples_hold_constants_functions_and_pointers():
    x, o = torch.arange(16.0), torch.zeros(16)
    with trace() as t:
        of_tuples[(1,)]((x, o), Shape(10, 5, tl.constexpr("rows"), plus), (1, 2.0, (7, None)), B=16)
    assert o[:10].equal(x[:10] + 14) and not o[10:].any() and t.faults == []


class Buffer:
    """A view of a tensor, as FlagGems passes them: data_ptr() and dtype are all that Triton asks for."""

    def __init__(self, base, skipped=0):
        self._base, self._skipped, self.dtype = base, skipped, base.dtype

    def data_ptr(self):
        return self._base.data_ptr() + self._skipped * self.dtype.itemsize


class Stranger:
    dtype = torch.float32

    def data_ptr(self):
        return 1 << 40


@triton.jit
def copy(x_ptr, o_ptr, B: tl.constexpr):
    offs = tl.arange(0, B)
    tl.store(o_ptr + offs, tl.load(x_ptr + offs))


def test_objects_with_data_ptr_are_pointers_into_the_tensor_that_they_hold():
    x, o = torch.arange(32.0), torch.zeros(16)
    with trace() as t:
        copy[(1,)](Buffer(x[8:], 8), Buffer(Buffer(o)), B=16)
    assert o.equal(x[16:]) and t.accesses_to(x).bytes == 64
    with trace(), pytest.raises(KernelFault, match="element 32"):
        copy[(1,)](Buffer(x, 17), o, B=16)
    with trace(), pytest.raises(KernelError) as refused:
        copy[(1,)](Stranger(), o, B=16)
    assert says(refused.value, "launch.arguments.no_tensor", type="Stranger")


@triton.jit
def store_to_const(x_ptr: tl.const, o_ptr, n):
    tl.store(o_ptr, tl.load(x_ptr) + n)
    tl.store(x_ptr, 1.0)


@triton.jit
def load_const(x_ptr: tl.const, o_ptr, n):
    tl.store(o_ptr, tl.load(x_ptr) + n)


def test_a_const_pointer_is_not_stored_to():
    x, o = torch.ones(1), torch.zeros(1)
    with trace():
        load_const[(1,)](x, o, 2)
        with pytest.raises(triton.CompilationError, match="const"):
            store_to_const[(1,)](x, o, 2)
    assert o == 3


def test_integers_of_more_than_64_bits_are_named():
    with trace(), pytest.raises(KernelError) as refused:
        load_const[(1,)](torch.ones(1), torch.zeros(1), 2**70)
    assert mentions(refused.value, "launch.argument.too_large", value=str(2**70))


@triton.jit
def of_warps(o_ptr, num_warps: tl.constexpr, num_stages):
    tl.store(o_ptr, num_warps + num_stages)


def test_launch_keywords_that_are_parameters_are_both():
    o = torch.zeros(1, dtype=torch.int32)
    with trace() as t:
        of_warps[(1,)](o, num_warps=8, num_stages=2)
    assert o == 10 and t.fronts[0].options == {"num_warps": 8, "num_stages": 2}
    assert ".reqntid 256" in ptx_for(of_warps, o, num_warps=8, num_stages=2)
