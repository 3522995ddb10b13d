"""A kernel as plain data and back: what it did it still does, and what no kernel needs is refused in a sentence."""

import math
from typing import NamedTuple

import pytest
import torch
import triton
import triton.language as tl
import triton.language.extra.cuda.libdevice as named_libdevice
import triton.language.math as tm
from sentences import mentions, refusing
from triton.language import arange, rand, zeros
from triton.language import sum as add_up
from triton.language.extra import libdevice
from triton.language.extra.cuda import libdevice as cuda_libdevice
from triton.language.math import exp2 as power_of_2
from triton.tools.tensor_descriptor import TensorDescriptor

from tritontrace.compiled import compile_for
from tritontrace.replay import wire
from tritontrace.replay.kernels import KernelRefused, describe, rebuild, with_helpers
from tritontrace.tracing import KernelError, KernelFault, trace

try:  # as in Liger-Kernel
    from triton.language.extra.libdevice import tanh
except ModuleNotFoundError:
    from triton.language.extra.cuda.libdevice import tanh

SCALE = tl.constexpr(3)
LOW = tl.constexpr(float("-inf"))
DTYPE, PLAIN_DTYPE = tl.constexpr(tl.float16), tl.float16
MODE, ON, PAIR, NOTHING = tl.constexpr("fast"), tl.constexpr(True), tl.constexpr((2, 3)), None
LISTED, TENSOR, NUMBER = [1, 2], torch.ones(2), 5


def travelled(kernel):
    """The kernel after its journey: described, sent, received, rebuilt."""
    table = {}
    key = describe(kernel, table)
    return rebuild(wire.unpack(wire.pack(table)))[key]


def output_of(kernel, *more, **arguments):
    x, out = torch.arange(8.0) - 3.5, torch.zeros(8)
    with trace() as t:
        kernel[(2,)](x, out, *more, **arguments)
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
    if isinstance(BLOCK, tl.constexpr):  # the compiler sees the number
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
        assert out[0] == 20
        for target in (out, TensorDescriptor.from_tensor(out, [16])):
            out.zero_()
            journey(into_a_descriptor)[(1,)](x, target, BLOCK=16)
            assert out[0] == 1
    assert compile_for(asks_what_it_got, x, out, BLOCK=16).accepted
    assert compile_for(into_a_descriptor, x, TensorDescriptor.from_tensor(out, [16]), BLOCK=16).accepted


# ------------------------------------------------------------------------------------------------ idioms of others


class Matrix(NamedTuple):
    ptr: torch.Tensor
    size: int
    strides: tuple


@triton.jit
def row_of(matrix, BLOCK: tl.constexpr):
    return matrix.ptr + offsets(BLOCK) * matrix.strides[1]


@triton.jit
def named_tuples(x_ptr, out_ptr, x, shape: tl.constexpr):
    i = offsets(4)
    tl.store(out_ptr + i, tl.load(row_of(x, 4), mask=i < x.size, other=0.0) * shape.size)


@triton.jit
def tuples(x_ptr, out_ptr):
    sizes = (1, 2, 3)
    a, (b) = sizes[1], sizes[-1]
    doubled = [2 * size for size in sizes]
    tl.static_assert(len(sizes) == 3)
    both = (x_ptr, out_ptr)
    tl.store(both[1] + offsets(4), a + b + doubled[0] + PAIR[1] + sizes[1:][0])  # 2 + 3 + 2 + 3 + 2


@triton.jit
def says_what_it_does(x_ptr, out_ptr, BLOCK: tl.constexpr = 4):
    tl.static_print(f"blocks of {BLOCK}, {SCALE!r}, {MODE}")
    tl.static_assert(BLOCK % 4 == 0, f"BLOCK is {BLOCK}, and must be a multiple of 4")
    i = offsets(BLOCK)
    tl.device_assert(i >= 0, "no index is negative")
    assert tl.program_id(0) < 2, f"BLOCK is {BLOCK}"
    tl.store(out_ptr + i, BLOCK)


@triton.jit
def libraries(x_ptr, out_ptr):
    i = offsets(4)
    x = tl.load(x_ptr + i)
    y = tanh(x) + libdevice.tanh(x) + cuda_libdevice.tanh(x) + named_libdevice.tanh(x)
    y += tl.extra.libdevice.tanh(x) + tl.extra.cuda.libdevice.tanh(x) + triton.language.extra.libdevice.tanh(x)
    tl.store(out_ptr + i, y * power_of_2(0.0) * tl.math.rsqrt(1.0))


@triton.jit
def asks_types(x_ptr, out_ptr):
    i = offsets(4)
    x = tl.load(x_ptr + i)
    pointer = (x_ptr.to(tl.int64) + 4).to(tl.pointer_type(tl.float32))
    wide: tl.constexpr = 10 if x.dtype.is_fp32() and x.type.is_block() and not x.dtype.is_int() else 0
    same: tl.constexpr = 1 if x.dtype == tl.float32 and out_ptr.dtype.is_ptr() and DTYPE == PLAIN_DTYPE else 0
    tl.store(out_ptr + i, tl.load(pointer) + wide + same + tl.float16.primitive_bitwidth + x.dtype.itemsize)


@triton.jit
def hints(x_ptr, out_ptr):
    i, j = tl.swizzle2d(tl.program_id(0), 0, 2, 1, 2)
    tl.assume(i >= 0)
    k = tl.max_contiguous(tl.multiple_of(4 * i + tl.arange(0, 4), 4), 4)
    total = 0.0
    for _ in tl.range(0, 4, 2, num_stages=2, loop_unroll_factor=2, flatten=True, disallow_acc_multi_buffer=True):
        total += 1.0
    for n in tl.static_range(2, 6, 2):
        total += n
    tl.debug_barrier()
    tl.store(out_ptr + k, total + j)  # 2 + 6


@triton.jit
def constants_of_all_kinds(x_ptr, out_ptr, GROUP: tl.constexpr = None):
    BLOCK: tl.constexpr = PAIR[0] * 2
    value = tl.full((BLOCK,), 1, PLAIN_DTYPE)
    if MODE == "fast" and ON and NOTHING is None:
        value += 1
    if GROUP is not None or MODE != "fast":
        value += 100
    if ON or GROUP:
        value = value if GROUP is None else -value
    tl.store(out_ptr + offsets(BLOCK), value.to(DTYPE))


@triton.jit
def annotated(
    x_ptr: torch.Tensor,
    out_ptr: "*fp32",  # noqa: F722
    n: int = 4,
    ACT: "tl.constexpr" = "none",
) -> None:
    """Leaves early."""
    if tl.program_id(0) == 1:
        return
    count: int = 0
    while count < n:
        count += 1
        if count > 2:
            pass
        else:
            count *= 1
    largest = n if n > count else count
    if ACT == "none":
        tl.store(out_ptr + tl.arange(0, 8), largest)


@triton.jit
def leaky(x, slope: tl.constexpr = 0.5):
    return tl.where(x >= 0, x, slope * x)


@triton.jit
def activated(x_ptr, out_ptr, ACTIVATION: tl.constexpr = leaky, MORE: tl.constexpr = (leaky, 2)):
    i = offsets(4)
    arguments = (tl.load(x_ptr + i), 0.25)
    y = ACTIVATION(*arguments) if ACTIVATION is not None else arguments[0]
    tl.store(out_ptr + i, MORE[0](y) * MORE[1] + min(1, 2) + max(3, PAIR[0]) + float("0.5"))


@triton.jit
def specialised(x_ptr, out_ptr, stride, n):
    i = offsets(4)
    if stride == 1:
        tl.store(out_ptr + i * stride, tl.load(x_ptr + i * stride) + n)


X = torch.arange(8.0) - 3.5
IDIOMS = [
    (named_tuples, (Matrix(X.repeat_interleave(2), 6, (16, 2)), Matrix(0, 3, ())), X.where(torch.arange(8) < 6, 0) * 3),
    (tuples, (), torch.full((8,), 12.0)),
    (says_what_it_does, (), torch.full((8,), 4.0)),
    (libraries, (), 7 * X.tanh()),
    (asks_types, (), (X[1].repeat(8) + 10 + 1 + 16 + 4)),
    (hints, (), torch.full((8,), 8.0)),
    (constants_of_all_kinds, (), torch.full((8,), 2.0)),
    (annotated, (), torch.full((8,), 4.0)),
    (activated, (), torch.where(X >= 0, X, X / 8) * 2 + 4.5),
    (activated, (None,), torch.where(X >= 0, X, X / 2) * 2 + 4.5),
    (specialised, (1, 16), X + 16),
]


@pytest.mark.parametrize("kernel, more, expected", IDIOMS, ids=lambda value: getattr(value, "__name__", ""))
def test_idioms_of_tutorials_and_libraries(kernel, more, expected):
    assert torch.allclose(output_of(travelled(kernel), *more), expected)


@triton.jit
def asks_for_the_gpu(x_ptr, out_ptr):
    value = 0
    if tl.target_info.is_cuda():
        value += 1
    if tl.target_info.cuda_capability_geq(9):
        value += 10
    tl.store(out_ptr + offsets(4), value)


def test_a_kernel_is_told_that_it_runs_on_a_hopper():
    before = vars(triton.runtime.driver).copy()
    assert torch.equal(output_of(travelled(asks_for_the_gpu)), torch.full((8,), 11.0))
    assert vars(triton.runtime.driver) == before


def make(helper):
    @triton.jit
    def kernel(x_ptr, out_ptr):
        tl.store(out_ptr + offsets(4), helper(1) + other(1))

    return kernel


def adds(number):
    AMOUNT = tl.constexpr(number)

    @triton.jit
    def add(x):
        return x + AMOUNT

    return add


other = adds(100)


def test_helpers_of_one_name_stay_apart():
    assert torch.equal(output_of(travelled(make(adds(1)))), torch.full((8,), 103.0))


@triton.jit(do_not_specialize=["n"])
def told_not_to_specialise(x_ptr, out_ptr, n):
    tl.store(out_ptr + offsets(4), 1 if isinstance(n, tl.tensor) else 2)


def test_what_jit_was_told_travels():
    assert output_of(travelled(told_not_to_specialise), 1)[0] == output_of(told_not_to_specialise, 1)[0] == 1


# ------------------------------------------------------------------------------------------------ refusals


def not_a_kernel(x):
    return x + 1


@triton.constexpr_function
def python_while_compiling(n):
    return n + 1


@triton.jit
def undecorated_helper(x_ptr):
    tl.store(x_ptr, not_a_kernel(tl.load(x_ptr)))


@triton.jit
def runs_python(x_ptr):
    tl.store(x_ptr, python_while_compiling(1))


@triton.jit
def asks_by_name(x_ptr):
    tl.store(x_ptr, getattr(tl, "load")(x_ptr))  # noqa: B009


@triton.jit
def takes_keywords(x_ptr, *, n=3):
    tl.store(x_ptr, n)


@triton.jit
def list_by_default(x_ptr, sizes=LISTED):
    tl.store(x_ptr, sizes[0])


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


@triton.jit
def absolute(x_ptr):
    tl.store(x_ptr, abs(tl.load(x_ptr)))


@triton.jit
def nested_function(x_ptr):
    def inner(x):
        return x

    tl.store(x_ptr, inner(1))


@triton.jit
def lambda_inside(x_ptr):
    double = lambda x: 2 * x  # noqa: E731
    tl.store(x_ptr, double(1))


@pytest.mark.parametrize(
    "kernel, id, parameters",
    [
        (global_list, "no_value", {"line": 2, "name": "LISTED"}),
        (global_tensor, "no_value", {"line": 3, "name": "TENSOR"}),
        (torch_inside, "no_value", {"line": 2, "name": "torch"}),
        (python_inside, "no_value", {"line": 2, "name": "math"}),
        (undecorated_helper, "no_value", {"name": "not_a_kernel"}),
        (runs_python, "no_value", {"line": 2, "name": "python_while_compiling"}),
        (list_by_default, "no_value", {"line": 1, "name": "sizes"}),
        (opens_a_file, "unknown", {"line": 3, "name": "open"}),
        (absolute, "unknown", {"line": 2, "name": "abs"}),
        (asks_by_name, "builtin", {"line": 2, "name": "getattr"}),
        (takes_keywords, "parameters", {"line": 1}),
        (nested_function, "function_inside", {"line": 2}),
        (lambda_inside, "function_inside", {"line": 2}),
        (calls_itself, "recursive", {}),
        (recursive_pair(), "recursive", {}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_refused_when_recorded(kernel, id, parameters):
    with refusing(f"replay.kernel.{id}", KernelRefused, kernel=kernel.__name__, **parameters):
        describe(kernel, {})


@pytest.mark.parametrize(
    "kernel, id, parameters",
    [
        (global_list, "kind.builtin", {"type": "list"}),
        (global_list, "instead.triton", {"question": ""}),
        (global_tensor, "kind.object", {"type": "Tensor"}),
        (undecorated_helper, "instead.question", {"decorator": "@triton.jit"}),
        (runs_python, "instead.constexpr_function", {"decorator": "@triton.jit"}),
        (absolute, "kernel.write", {"instead": "tl.abs"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_it_is_and_what_to_write_instead(kernel, id, parameters):
    with refusing(f"replay.{id}", KernelRefused, **parameters):
        describe(kernel, {})


@triton.jit
def plain_global(x_ptr):
    tl.store(x_ptr, NUMBER)


@triton.jit
def assembly(x_ptr):
    tl.store(x_ptr, tl.inline_asm_elementwise("mov.f32 $0, 1;", "=r", [], tl.float32, True, 1))


@triton.jit
def a_dict(x_ptr):
    sizes = {"a": 1}
    tl.store(x_ptr, sizes["a"])


@triton.jit
def misspelt_attribute(x_ptr):
    tl.store(x_ptr, tl.load(x_ptr).shap)


@triton.jit
def as_in_torch(x_ptr):
    tl.store(x_ptr, tl.load(x_ptr).float())


@pytest.mark.parametrize(
    "kernel, id, parameters",
    [
        (plain_global, "compiler.problem.global", {"name": "NUMBER"}),
        (assembly, "launch.lacking.assembly", {}),
        (a_dict, "compiler.node.dict", {}),
        (misspelt_attribute, "replay.kernel.near", {"near": "shape"}),
        (as_in_torch, "replay.kernel.write", {"instead": ".to(dtype)"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_refused_when_it_is_run(kernel, id, parameters):
    with trace(), pytest.raises(KernelError, match=f"kernel `{kernel.__name__}`, line 2: ") as refused:
        travelled(kernel)[(1,)](torch.zeros(4))
    assert mentions(refused.value, id, **parameters)


def test_a_kernel_without_a_source_is_refused():
    scope = {"tl": tl}
    exec("def k(x): tl.load(x)", scope)
    kernel = triton.JITFunction.__new__(triton.JITFunction)
    kernel.fn, kernel.__name__ = scope["k"], "k"
    with refusing("replay.kernel.no_source", KernelRefused, kernel="k"):
        describe(kernel, {})
