"""A kernel as plain data and back: what it did it still does, and what no kernel needs is refused in a sentence."""

import math

import pytest
import torch
import triton
import triton.language as tl
import triton.language.math as tm
from triton.language import arange, rand, zeros
from triton.language import sum as add_up
from triton.tools.tensor_descriptor import TensorDescriptor

from course_lib.compiled import compile_for
from course_lib.observe import wire
from course_lib.observe.kernels import KernelRefused, describe, rebuild, with_helpers
from course_lib.tracing import KernelFault, trace

SCALE = tl.constexpr(3)
LOW = tl.constexpr(float("-inf"))
DTYPE = tl.constexpr(tl.float16)
LISTED, TENSOR = [1, 2], torch.ones(2)


def travelled(kernel):
    """The kernel after its journey: described, sent, received, rebuilt."""
    table = {}
    key = describe(kernel, table)
    return rebuild(wire.unpack(wire.pack(table)))[key]


def output_of(kernel, **arguments):
    x, out = torch.arange(8.0) - 3.5, torch.zeros(8)
    with trace() as t:
        kernel[(2,)](x, out, **arguments)
    assert t.faults == []
    return out


@triton.jit
def offsets(BLOCK: tl.constexpr):  # no other name of the language in it
    return tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)


@triton.jit
def twice(x, K: tl.constexpr):
    return x * K


@triton.jit
def larger(a, b):
    return tl.where(a > b, a, b)


@triton.jit
def helpers(x_ptr, out_ptr):
    i = offsets(4)
    tl.store(out_ptr + i, twice(tl.load(x_ptr + i), 2))


@triton.jit
def constants(x_ptr, out_ptr):
    i = offsets(4)
    x = tl.where(i == 0, LOW, tl.load(x_ptr + i) * SCALE)
    tl.store(out_ptr + i, x.to(DTYPE))


@triton.jit
def imported_names(x_ptr, out_ptr):
    i = offsets(4)
    x = tl.load(x_ptr + i) + zeros((4,), tl.float32) + (rand(0, i) < 2)
    tl.store(out_ptr + i, x + add_up(x, axis=0))


@triton.jit
def defaults(
    x_ptr, out_ptr, BLOCK: tl.constexpr = 4, SCALE: tl.constexpr = SCALE, low=-1.5, dtype: tl.constexpr = tl.float32
):
    i = offsets(BLOCK)
    tl.store(out_ptr + i, tl.maximum(tl.load(x_ptr + i), low).to(dtype) * SCALE)


@triton.jit
def mathematics(x_ptr, out_ptr):
    i = offsets(4)
    x = tl.load(x_ptr + i)
    tl.store(
        out_ptr + i, tm.exp(x) + tl.math.sqrt(tl.abs(x)) + tl.sin(x) + triton.cdiv(9, 4) + triton.next_power_of_2(3)
    )


@triton.jit
def reductions(x_ptr, out_ptr):
    i = offsets(4)
    x = tl.load(x_ptr + i)
    total = tl.sum(x, axis=0) + x.max() + tl.reduce(x, 0, larger)
    tl.store(out_ptr + i, total + tl.associative_scan(x, 0, larger))


@triton.jit
def types(x_ptr, out_ptr):
    i = offsets(4)
    x = tl.load(x_ptr + i).to(out_ptr.dtype.element_ty)
    tl.store(
        out_ptr + i, tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL) + x.dtype.primitive_bitwidth + i.shape[0]
    )


@triton.jit
def loops(x_ptr, out_ptr):
    """A docstring with "quotes", ünïcode and a {brace}."""
    i = offsets(4)
    total = tl.zeros((4,), dtype=tl.float32)
    for k in range(0, 3):
        total += k * tl.load(x_ptr + i)
    for k in tl.static_range(2):
        if k == 1:
            total = -total
    k = 0
    while k < 2:
        k += 1
        total += k
    tl.static_assert(len(total.shape) == 1)
    tl.store(out_ptr + i, total if k == 2 else total * 0.0)


@triton.jit
def applies(x_ptr, out_ptr, f: tl.constexpr):
    i = offsets(4)
    tl.store(out_ptr + i, f(tl.load(x_ptr + i), 5))


def factory(shift, helper):
    FACTOR = tl.constexpr(shift)

    @triton.jit
    def closed(x_ptr, out_ptr):
        i = offsets(4)
        tl.store(out_ptr + i, helper(tl.load(x_ptr + i), 2) + FACTOR)

    return closed


@pytest.mark.parametrize(
    "kernel",
    [helpers, constants, imported_names, defaults, mathematics, reductions, types, loops, factory(7, twice)],
    ids=lambda kernel: kernel.__name__,
)
def test_a_kernel_that_travelled_does_the_same(kernel):
    expected = output_of(kernel)
    assert torch.equal(output_of(travelled(kernel)), expected)
    assert expected.count_nonzero() > 4


def test_defaults_travel():
    assert torch.equal(output_of(travelled(defaults), low=0.0), (torch.arange(8.0) - 3.5).clamp(min=0) * 3)


def test_a_kernel_as_an_argument_travels():
    assert torch.equal(output_of(travelled(applies), f=travelled(twice)), output_of(applies, f=twice))


def test_a_kernel_brings_what_it_calls():
    table = {}
    key = describe(helpers, table)
    own = with_helpers([key], table)
    assert {table[k]["name"] for k in own} == {"helpers", "offsets", "twice"}
    describe(constants, table)
    assert with_helpers([key], table) == own


def test_two_closures_of_one_source_are_two_kernels():
    table = {}
    assert describe(factory(1, twice), table) != describe(factory(2, twice), table)
    assert describe(factory(1, twice), table) in table


def test_lines_are_those_of_the_source():
    with trace(), pytest.raises(KernelFault, match=r"kernel `loops`, line 6: `total \+= k \* tl.load\(x_ptr \+ i\)`"):
        travelled(loops)[(1,)](torch.zeros(3), torch.zeros(8))


@triton.jit
def imported_builtin(x_ptr):
    tl.store(x_ptr + arange(0, 4), 1.0)


def test_an_imported_function_is_the_one_of_the_language():
    table = {}
    key = describe(imported_builtin, table)
    assert table[key]["names"] == {"arange": {"object": "triton.language.arange"}, "tl": {"module": "triton.language"}}
    assert rebuild(table)[key].fn.__globals__["arange"] is tl.arange


@triton.jit
def asks_what_it_got(x_ptr, out_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    if isinstance(BLOCK, tl.constexpr):
        x += 100
    if isinstance(x, tl.tensor):
        x += 20
    if isinstance(x, tl.constexpr):
        x += 3
    tl.store(out_ptr + tl.arange(0, BLOCK), x)


@triton.jit
def into_a_descriptor(
    x_ptr, out, BLOCK: tl.constexpr
):  # as Triton's own tutorial on attention makes one where it got none
    if isinstance(out, tl.tensor_descriptor):
        made = out
    else:
        made = tl.make_tensor_descriptor(out, [BLOCK], [1], [BLOCK])
    made.store([0], tl.load(x_ptr + tl.arange(0, BLOCK)) + 1)


@pytest.mark.parametrize("journey", [travelled, lambda kernel: kernel])
def test_isinstance_answers_as_the_compiler_does(journey):
    x, out = torch.zeros(16), torch.zeros(16)
    with trace():
        journey(asks_what_it_got)[(1,)](x, out, BLOCK=16)
        assert out[0] == 120
        for target in (out, TensorDescriptor.from_tensor(out, [16])):
            out.zero_()
            journey(into_a_descriptor)[(1,)](x, target, BLOCK=16)
            assert out[0] == 1
    assert compile_for(asks_what_it_got, x, out, BLOCK=16).accepted
    assert compile_for(into_a_descriptor, x, TensorDescriptor.from_tensor(out, [16]), BLOCK=16).accepted


# ------------------------------------------------------------------------------------------------ refusals


def not_a_kernel(x):
    return x + 1


@triton.jit
def undecorated_helper(x_ptr):
    tl.store(x_ptr, not_a_kernel(tl.load(x_ptr)))


@triton.jit
def asks_by_name(x_ptr):
    tl.store(x_ptr, getattr(tl, "load")(x_ptr))  # noqa: B009


@triton.jit
def asks_for_a_class(x_ptr):
    tl.store(x_ptr, isinstance(x_ptr, tl.core.tensor))


@triton.jit
def calls_a_class(x_ptr):
    tl.store(x_ptr, tl.tensor(x_ptr, tl.int32))


@triton.jit
def hands_a_class_on(x_ptr, isinstance):
    tl.store(x_ptr, isinstance(x_ptr, tl.tensor))


def recursive_pair():
    @triton.jit
    def ping(x_ptr):
        pong(x_ptr)

    @triton.jit
    def pong(x_ptr):
        ping(x_ptr)

    return ping


@triton.jit
def calls_itself(x_ptr):
    calls_itself(x_ptr)


@triton.jit
def global_list(x_ptr):
    tl.store(x_ptr, LISTED)


@triton.jit
def global_tensor(x_ptr):
    y = tl.load(x_ptr)
    tl.store(x_ptr, y + TENSOR)


@triton.jit
def torch_inside(x_ptr):
    tl.store(x_ptr, torch.exp(x_ptr))


@triton.jit
def python_inside(x_ptr):
    tl.store(x_ptr, math.exp(1.0))


@triton.jit
def opens_a_file(x_ptr):
    y = tl.load(x_ptr)
    open("answers", y)  # noqa: SIM115


@pytest.mark.parametrize(
    "kernel, sentence",
    [
        (global_list, r"global_list, line 2: `LISTED` is a list: inside a kernel only"),
        (global_tensor, r"global_tensor, line 3: `TENSOR` is a Tensor: inside a kernel only"),
        (torch_inside, r"torch_inside, line 2: `torch` is a module: inside a kernel only"),
        (python_inside, r"python_inside, line 2: `math` is a module: inside a kernel only"),
        (opens_a_file, r"opens_a_file, line 3: `open` does not exist inside a kernel"),
        (undecorated_helper, r"`not_a_kernel` is a function: .*\. Is `@triton.jit` missing above it\?"),
        (asks_by_name, r"line 2: `getattr` is not part of the language that kernels may use here"),
        (calls_itself, r"calls_itself calls itself"),
        (recursive_pair(), r"ping calls itself"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_refused_when_recorded(kernel, sentence):
    with pytest.raises(KernelRefused, match=sentence):
        describe(kernel, {})


@pytest.mark.parametrize("kernel", [asks_for_a_class, calls_a_class, hands_a_class_on])
def test_classes_are_asked_about_and_go_nowhere(kernel):
    with pytest.raises(KernelRefused):
        travelled(kernel)


def test_a_kernel_without_a_source_is_refused():
    scope = {"tl": tl}
    exec("def k(x): tl.load(x)", scope)
    kernel = triton.JITFunction.__new__(triton.JITFunction)
    kernel.fn, kernel.__name__ = scope["k"], "k"
    with pytest.raises(KernelRefused, match="source of k cannot be read"):
        describe(kernel, {})
