"""A fault that a GPU would get wrong is told as data, with a sentence, and the process lives on."""

import re
from contextlib import contextmanager, nullcontext

import pytest
import torch
import triton
import triton.language as tl
from sentences import mentions, refusing, says
from triton.language.extra.cuda import libdevice

from tritontrace.messages import say
from tritontrace.tracing import KernelError, KernelFault, trace

OUTSIDE, STORES = "trace.out_of_bounds.outside", "trace.race.stores"


@triton.jit
def increment(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    tl.store(o_ptr + offs, x + 1, mask=offs < n)


def test_out_of_bounds_load():
    o = torch.zeros(100)
    with pytest.raises(KernelFault) as raised, trace() as t:
        increment[(2,)](torch.randn(100), o, 100, BLOCK=64)
    sentence = raised.value.fault.sentence
    assert (str(raised.value), sentence.id) == (sentence, OUTSIDE)
    assert sentence.parameters == {
        "site": "kernel `increment`, line 3: `x = tl.load(x_ptr + offs)`",
        "program": say("trace.program", index=1),
        "does": say("trace.verb.load"),
        "element": 100,
        "tensor": "`x_ptr`",
        "whole": True,
        "size": 100,
        "outside": 28,
        "positions": 64,
    }
    assert raised.value.fault.kind == "out of bounds"
    assert (raised.value.fault.line, raised.value.fault.tensor) == (3, "x_ptr")
    assert t.faults == [raised.value.fault]
    assert t.launches[0].programs == 2
    assert (o == 0).all()  # a launch that would have crashed wrote nothing


@contextmanager
def stopped(id, **parameters):
    """A launch must be stopped here by a fault whose sentence has this id, and these parameters."""
    with pytest.raises(KernelFault) as raised:
        yield
    assert says(raised.value.fault.sentence, id, **parameters)


def test_one_lane_is_outside_of_one_element():
    with stopped(OUTSIDE, size=1, outside=1, positions=1), trace():
        store_at[(1,)](torch.zeros(1), 1, BLOCK=1)


@triton.jit
def store_at(o_ptr, start, BLOCK: tl.constexpr):
    tl.store(o_ptr + start + tl.arange(0, BLOCK), 1.0)


@pytest.mark.parametrize("start, id", [(-1, "outside"), (10**9, "outside"), (2**40, "wrapped")])
def test_out_of_bounds_store_anywhere(start, id):
    with stopped(f"trace.out_of_bounds.{id}", does=say("trace.verb.store"), element=start), trace():
        store_at[(1,)](torch.zeros(16), start, BLOCK=16)


@triton.jit
def store_beside(o_ptr, x_ptr, start, BLOCK: tl.constexpr):
    tl.store(o_ptr + start + tl.arange(0, BLOCK), 1.0)


def test_beyond_one_tensor_into_the_next_is_out_of_bounds():
    x, o = torch.zeros(64), torch.zeros(64)
    for start in (64, 128, *range(4064, 40000, 4000)):
        with stopped(OUTSIDE, whole=True, size=64, tensor="`o_ptr`"), trace():
            store_beside[(1,)](o, x, start, BLOCK=64)
    assert (x == 0).all()


def test_large_tensors_do_not_lie_on_one_another():
    o, x = torch.zeros(1 << 20), torch.zeros(1 << 20)
    with trace():
        store_beside[(1,)](o, x, (1 << 20) - 64, BLOCK=64)
        store_beside[(1,)](x, o, 0, BLOCK=64)
    assert o.nonzero().flatten().tolist() == list(range((1 << 20) - 64, 1 << 20))
    assert x.nonzero().flatten().tolist() == list(range(64))


@triton.jit
def load_number(address, o_ptr):
    tl.store(o_ptr, tl.load(address.to(tl.int64).to(tl.pointer_type(tl.float32))))


@pytest.mark.parametrize("address", [0, 64, 1 << 40])
def test_an_address_that_is_a_number_leads_nowhere(address):
    with refusing("trace.out_of_bounds.far", KernelFault, address=address), trace():
        load_number[(1,)](address, torch.zeros(64))


# ------------------------------------------------------------------------------------------------ where no element begins


@triton.jit
def words(x_ptr, y_ptr, by_ptr, OP: tl.constexpr, HOW: tl.constexpr, B: tl.constexpr):
    p, i = tl.program_id(0), tl.arange(0, B)
    by = tl.load(by_ptr + p * B + i)
    at = x_ptr + 2 * p * B
    if HOW == "row":
        at = (at + tl.load(by_ptr + p * B)).to(tl.pointer_type(tl.int32)) + i
    if HOW == "lanes":
        at = (at + 2 * i + by).to(tl.pointer_type(tl.int32))
    if HOW == "two tensors":
        at = (tl.where(i < 2, at, y_ptr + 2 * p * B) + 2 * i + by).to(tl.pointer_type(tl.int32))
    if OP == "load":
        tl.store(y_ptr.to(tl.pointer_type(tl.int32)) + p * B + i, tl.load(at))
    if OP == "masked load":
        tl.store(y_ptr.to(tl.pointer_type(tl.int32)) + p * B + i, tl.load(at, mask=by < 2, other=0))
    if OP == "store":
        tl.store(at, i)
    if OP == "atomic":
        tl.atomic_add(at, i)


@pytest.mark.parametrize("op", ["load", "masked load", "store", "atomic"])
@pytest.mark.parametrize(
    "how, by, fault",
    [
        ("row", [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]], None),
        ("row", [[0, 0, 0, 0], [2, 0, 0, 0], [1, 0, 0, 0]], (2, "x_ptr", 2 * 16 + 2)),
        ("lanes", [[0, 0, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1]], (1, "x_ptr", 16 + 4 * 2 + 2)),
        ("lanes", [[0, 0, 0, 0], [0, 0, 0, 0], [0, 2, 0, 1]], (2, "x_ptr", 2 * 16 + 4 * 3 + 2)),
        ("lanes", [[0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 1]], (0, "x_ptr", 4 * 3 + 2)),
        ("two tensors", [[0, 0, 0, 0], [0, 2, 0, 0], [0, 0, 1, 0]], (2, "y_ptr", 2 * 16 + 4 * 2 + 2)),
        ("two tensors", [[0, 0, 0, 0], [1, 0, 0, 1], [0, 0, 0, 0]], (1, "x_ptr", 16 + 2)),
    ],
)
def test_words_at_odd_halves_are_told_with_their_byte(how, by, fault, op):
    x, y = torch.zeros(32, dtype=torch.int16), torch.zeros(32, dtype=torch.int16)
    outcome = pytest.raises(KernelFault) if fault else nullcontext()
    with outcome as raised, trace() as t:
        words[(3,)](x, y, torch.tensor(by, dtype=torch.int32), OP=op, HOW=how, B=4)
    if not fault:
        assert t.faults == []
        return
    program, tensor, byte = fault
    (told,) = t.faults
    assert (told.kind, told.tensor) == ("misaligned", tensor)
    facts = {"program": say("trace.program", index=program), "itemsize": 4, "byte": byte, "tensor": f"`{tensor}`"}
    assert says(told.sentence, "trace.out_of_bounds.misaligned", **facts)
    assert str(raised.value) == told.sentence
    assert not x.any() and not y.any()


@triton.jit
def wild(x_ptr, y_ptr, z_ptr, at):
    tl.store(z_ptr, tl.load(x_ptr) + tl.load(y_ptr))
    tl.store(y_ptr + at, 1.0)


def test_a_wild_access_is_booked_on_the_tensor_of_its_line():
    with pytest.raises(KernelFault) as raised, trace():
        wild[(1,)](torch.zeros(4), torch.zeros(4), torch.zeros(4), 999999999)
    fault = raised.value.fault
    assert (fault.line, fault.tensor) == (3, "y_ptr") and says(fault.sentence, OUTSIDE, element=999999999, size=4)


@triton.jit
def three_loads(x_ptr, y_ptr, z_ptr, o_ptr, first, second):
    i = tl.program_id(0)
    x, y, z = tl.load(x_ptr + i), tl.load(y_ptr + i + first), tl.load(z_ptr + i + second)
    tl.store(o_ptr + i, x + y + z)


@pytest.mark.parametrize(
    "shifts, tensor", [((1, 0), "y_ptr"), ((0, 1), "z_ptr"), ((-9, 0), "y_ptr"), ((0, -9), "z_ptr")]
)
def test_of_several_loads_in_one_line_the_wild_one_is_told(shifts, tensor):
    x, y, z = torch.zeros(8, dtype=torch.int64), torch.zeros(8), torch.zeros(8)
    with pytest.raises(KernelFault) as raised, trace():
        three_loads[(8,)](x, y, z, torch.zeros(8), *shifts)
    fault = raised.value.fault
    assert (fault.line, fault.tensor) == (3, tensor)
    assert says(fault.sentence, OUTSIDE, tensor=f"`{tensor}`", element=8 if sum(shifts) > 0 else -9, size=8)


@pytest.mark.parametrize("view", [torch.zeros(16)[:4], torch.zeros(16, 1).expand(16, 3)])
def test_of_a_view_the_memory_behind_it_counts(view):
    with stopped(OUTSIDE, whole=False, size=16, tensor="`o_ptr`"), trace():
        store_at[(1,)](view, 16, BLOCK=16)


@triton.jit
def store_to_the_last(x_ptr, y_ptr, z_ptr):
    tl.store(z_ptr, 1.0)


def test_an_empty_tensor_has_no_element():
    with stopped(OUTSIDE, element=0, size=0, tensor="`o_ptr`"), trace():
        store_at[(1,)](torch.zeros(0), 0, BLOCK=16)
    with stopped(OUTSIDE, element=0, size=0, tensor="`z_ptr`"), trace():
        store_to_the_last[(1,)](torch.zeros(0), torch.zeros(0), torch.zeros(0))


def test_a_view_may_reach_the_rest_of_its_storage():
    x = torch.zeros(32)
    with trace() as t:
        store_at[(1,)](x[:8], 0, BLOCK=32)
    assert t.faults == [] and (x == 1).all()


@triton.jit
def atomic_at(o_ptr, at):
    tl.atomic_add(o_ptr + at, 1.0)


def test_out_of_bounds_atomic():
    with stopped(OUTSIDE, does=say("trace.verb.atomic"), element=4, tensor="`o_ptr`"), trace():
        atomic_at[(1,)](torch.zeros(4), 4)


@triton.jit
def ignores_its_program(o_ptr, BLOCK: tl.constexpr):
    tl.store(o_ptr + tl.arange(0, BLOCK), tl.program_id(0))


def test_two_programs_store_to_one_element():
    with trace() as t:
        ignores_its_program[(3,)](torch.zeros(16, dtype=torch.int32), BLOCK=16)
    (fault,) = t.faults
    assert fault.kind == "race"
    assert (fault.line, fault.between) == (2, "stores")
    first, second = (say("trace.program", index=index) for index in (0, 1))
    assert says(fault.sentence, STORES, program=second, other=first, element=0, elements=16)


def test_one_result_of_several_is_called_as_the_kernel_calls_it_too():
    with trace() as t:
        out = torch.zeros(16, dtype=torch.int32)
        t.name("out[1]", out)
        ignores_its_program[(3,)](out, BLOCK=16)
    assert says(t.faults[0].sentence, STORES, tensor="`out[1]` (`o_ptr`)")
    assert t.faults[0].tensor == "out[1]"


def test_an_element_counts_once_and_calls_are_not_added_up():
    with trace() as t:
        for size in (16, 32, 16):
            out = torch.zeros(size, dtype=torch.int32)
            t.name("out", out)
            ignores_its_program[(3,)](out, BLOCK=size)
    (fault,) = t.faults
    assert says(fault.sentence, STORES, tensor="`out`", elements=32)


@triton.jit
def shift_in_place(x_ptr, by, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = (offs + by >= 0) & (offs + by < n) & (offs < n)
    x = tl.load(x_ptr + offs + by, mask=mask, other=0.0)
    tl.store(x_ptr + offs, x, mask=mask)


@pytest.mark.parametrize("by, race, element", [(-1, "loads_stored", 15), (1, "writes_loaded", 16)])
def test_one_program_loads_what_another_stores(by, race, element):
    with trace() as t:
        shift_in_place[(4,)](torch.randn(64), by, 64, BLOCK=16)
    assert [fault.kind for fault in t.faults] == ["race"]
    other = say("trace.program", index=0)
    assert says(t.faults[0].sentence, f"trace.race.{race}", element=element, other=other, elements=3)


def test_in_place_on_its_own_elements_is_no_race():
    x = torch.zeros(64)
    with trace() as t:
        increment[(4,)](x, x, 64, BLOCK=16)
        increment[(4,)](x, x, 64, BLOCK=16)  # another launch may read what this one wrote
    assert t.faults == [] and (x == 2).all()


@triton.jit
def all_lanes_to_one(o_ptr, BLOCK: tl.constexpr):
    tl.store(o_ptr + tl.arange(0, BLOCK) // 2, tl.arange(0, BLOCK))


def test_one_store_writes_an_element_twice():
    with trace() as t:
        all_lanes_to_one[(1,)](torch.zeros(16, dtype=torch.int32), BLOCK=32)
    assert t.faults[0].between == "lanes" and says(t.faults[0].sentence, "trace.race.lanes", elements=16)


def test_programs_are_named_by_their_coordinates():
    with trace() as t:
        ignores_its_program[(2, 2)](torch.zeros(16, dtype=torch.int32), BLOCK=16)
    first, second = (say("trace.program", index=index) for index in ((0, 0), (1, 0)))
    assert says(t.faults[0].sentence, STORES, program=second, other=first)


@pytest.mark.parametrize(
    "empty",
    [
        lambda: torch.empty(64),
        lambda: torch.empty_like(torch.zeros(64)),
        lambda: torch.zeros(1).new_empty(64),
        lambda: torch.empty_strided((64,), (1,)),
        lambda: torch.empty(8, 8).view(64),
    ],
)
def test_reading_what_nobody_wrote(empty):
    with trace() as t:
        increment[(1,)](empty(), torch.empty(64), 64, BLOCK=64)
    (fault,) = t.faults
    assert (fault.kind, fault.line, fault.tensor) == ("uninitialised", 3, "x_ptr")
    assert says(fault.sentence, "trace.value.uninitialised", element=0, elements=64)


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.zero_(),
        lambda x: x.fill_(1.0),
        lambda x: x.copy_(torch.ones(64)),
        lambda x: x.normal_(),
        lambda x: x.__setitem__(slice(None), 1.0),
        lambda x: torch.add(torch.ones(64), 1, out=x),
        lambda x: increment[(1,)](torch.ones(64), x, 64, BLOCK=64),
        lambda x: (increment[(1,)](torch.ones(64), x, 64, BLOCK=64), x.add_(1)),
    ],
)
def test_what_torch_or_a_kernel_wrote_is_initialised(write):
    with trace() as t:
        x = torch.empty(64)
        write(x)
        increment[(1,)](x, torch.empty(64), 64, BLOCK=64)
    assert t.faults == []


@triton.jit
def sum_without_other(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(o_ptr, tl.sum(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32, torch.int64, torch.int8, torch.uint8])
def test_lanes_without_other_show_in_the_result(dtype):
    o = torch.zeros(1, dtype=torch.float32 if dtype.is_floating_point else torch.int64)
    with trace() as t:
        sum_without_other[(1,)](torch.ones(5, dtype=dtype), o, 5, BLOCK=8)
    assert t.poisoned == {("sum_without_other", 3)}
    assert o.isnan().all() if dtype.is_floating_point else abs(o.item()) > 60 and o.item() != 5
    assert [fault.kind for fault in t.faults] == ["undefined"] * dtype.is_floating_point  # an integer's sum hides it


@triton.jit
def max_without_other(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(o_ptr, tl.max(-x * 2, 0))
    tl.store(o_ptr + 1, tl.max(tl.load(x_ptr + offs, mask=offs < n, other=-float("inf")), 0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
def test_a_maximum_over_poisoned_lanes_shows_too(dtype):
    x, o = torch.arange(5).to(dtype), torch.zeros(2, dtype=dtype)
    x[0] = float("nan")  # a NaN in the data is passed over, as on a GPU
    with trace() as t:
        max_without_other[(1,)](x, o, 5, BLOCK=8)
    assert o[0].isnan() and o[1] == 4
    assert t.poisoned == {("max_without_other", 3)}


@triton.jit
def sum_of_integers(x_ptr, o_ptr, BLOCK: tl.constexpr):
    tl.store(o_ptr, tl.sum(tl.load(x_ptr + tl.arange(0, BLOCK))))


def test_integer_sums_wrap_around():
    x, o = torch.full((4,), 2**30, dtype=torch.int32), torch.ones(1, dtype=torch.int32)
    with trace():
        sum_of_integers[(1,)](x, o, BLOCK=4)
    assert o.item() == 0


# --------------------------------------------------------------------------------------------------- errors in kernels


@triton.jit
def misspelt(x_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)  # noqa: F841
    tl.store(x_ptr + ofs, 1.0)  # noqa: F821


@triton.jit
def branches_on_a_block(x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    if offs < n:
        tl.store(x_ptr + offs, 1.0)


@triton.jit
def joins_masks_with_and(x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, 1.0, mask=offs >= 0 and offs < n)


def test_and_between_blocks_is_the_compilers():
    o = torch.zeros(16)
    with pytest.warns(UserWarning, match="deprecated"), trace():
        joins_masks_with_and[(1,)](o, 5, BLOCK=16)
    assert o.sum() == 5


@triton.jit
def chains_comparisons(x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, 1.0, mask=0 <= offs < n)


@triton.jit
def inner(x_ptr, offs):
    return tl.load(x_ptr + offs) + missing  # noqa: F821


@triton.jit
def calls_inner(x_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)

    y = inner(x_ptr, offs)
    tl.store(x_ptr + offs, y)


@triton.jit
def calls_libdevice(x_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, libdevice.j0(tl.load(x_ptr + offs)))


@triton.jit
def a_comma_for_and(x_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, 1.0, mask=(offs > 2, offs < 5))


@triton.jit
def max_of_two(x_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    tl.store(x_ptr, tl.max(x, x))


@triton.jit
def comparisons_without_brackets(x_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, 1.0, mask=offs >= 2 & offs < 5)


@triton.jit
def gives_nothing(x):
    x += 1


@triton.jit
def unpacks_nothing(x_ptr, BLOCK: tl.constexpr):
    x, y = gives_nothing(tl.load(x_ptr + tl.arange(0, BLOCK)))
    tl.store(x_ptr, y)


@triton.jit
def at_sign(x_ptr, BLOCK: tl.constexpr):
    x = tl.zeros((BLOCK, BLOCK), tl.float32)
    tl.store(x_ptr, tl.sum(x @ x))


@triton.jit
def acc_of_another_shape(x_ptr, BLOCK: tl.constexpr):
    x = tl.zeros((BLOCK, BLOCK), tl.float32)
    tl.store(x_ptr, tl.sum(tl.dot(x, x, tl.zeros((BLOCK, 32), tl.float32))))


TRITON = tuple(map(int, triton.__version__.split(".")[:2]))
CHAINS = pytest.mark.skipif(TRITON >= (3, 9), reason="comparisons may be chained from Triton 3.9 on")


@pytest.mark.parametrize(
    "kernel, arguments, line, id, parameters",
    [
        (a_comma_for_and, (), 3, "compiler.problem.tuple", {}),
        (max_of_two, (), 3, "compiler.problem.truth_of_a_maximum", {}),
        pytest.param(comparisons_without_brackets, (), 3, "compiler.problem.truth_of_a_comparison", {}, marks=CHAINS),
        (unpacks_nothing, (), 2, "compiler.problem.none", {}),
        (at_sign, (), 3, "compiler.problem.no_matmul", {}),
        (misspelt, (), 3, "compiler.problem.undefined", {"name": "ofs"}),
        (branches_on_a_block, (5,), 3, "compiler.problem.truth_of_a_choice", {}),
        pytest.param(chains_comparisons, (5,), 3, "compiler.problem.truth", {}, marks=CHAINS),
        (calls_libdevice, (), 3, "launch.lacking.libdevice", {"function": "j0f"}),
    ],
)
def test_errors_are_one_sentence_with_the_line(kernel, arguments, line, id, parameters):
    with pytest.raises(KernelError, match=f"^kernel `{kernel.__name__}`, line {line}: ") as refused, trace():
        kernel[(1,)](torch.zeros(16), *arguments, BLOCK=16)
    assert mentions(refused.value, id, **parameters)


def test_the_front_end_finds_the_wrong_shape_or_the_compiler_does():
    with pytest.raises(KernelError, match=r"^kernel `acc_of_another_shape`, line 3: ") as refused, trace():
        acc_of_another_shape[(1,)](torch.zeros(16), BLOCK=16)
    assert refused.value.message.parameters["problem"].id.startswith("compiler.problem.dot_accumulator")


def test_an_error_in_a_helper_names_both_lines():
    pattern = r"kernel `calls_inner`, line 4: `y = inner\(x_ptr, offs\)`, in `inner`, line 2: "
    with pytest.raises(KernelError, match=pattern), trace():
        calls_inner[(1,)](torch.zeros(16), BLOCK=16)


@pytest.mark.parametrize(
    "launch, id, parameters",
    [
        (lambda x: increment[(1,)](x, x, 64, BLOK=64), "arguments.near", {"near": "BLOCK"}),
        (lambda x: increment[(1,)](x, x, 64, BLOK=64), "arguments.unknown", {"parameter": "BLOK"}),
        (lambda x: increment[(1,)](x, x, BLOCK=64), "arguments.wrong", {"reason": "missing a required argument: 'n'"}),
        (lambda x: increment[64](x, x, 64, BLOCK=64), "grid.no_tuple", {"grid": "64"}),
        (lambda x: increment[(64 / 16,)](x, x, 64, BLOCK=16), "grid.no_number", {"grid": "(4.0,)", "size": "4.0"}),
        (lambda x: increment[(1, 70_001)](x, x, 64, BLOCK=16), "grid.too_large", {"size": 70_001, "most": 65_535}),
        (lambda x: increment[(1, 70_001)](x, x, 64, BLOCK=16), "axis.second", {}),
        (lambda x: increment[(1, 1, 65_536)](x, x, 64, BLOCK=16), "axis.third", {}),
        (lambda x: increment[(1,)](x, x, 64, BLOCK=64, num_warps=64), "warps.too_many", {"threads": 2048}),
    ],
)
def test_wrong_launches(launch, id, parameters):
    with refusing(f"launch.{id}", KernelError, **parameters), trace():
        launch(torch.zeros(64))


def test_launch_options_are_no_parameters():
    x = torch.zeros(64)
    with trace():
        increment[(1,)](x, x, 64, BLOCK=64, num_warps=8, num_stages=2)
    assert (x == 1).all()


@triton.jit
def out_of_bounds_in_helper(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr, tl.sum(helper_load(x_ptr, BLOCK)))


@triton.jit
def helper_load(x_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    return tl.load(x_ptr + offs)


def test_a_fault_in_a_helper_names_both_lines():
    with pytest.raises(KernelFault) as raised, trace():
        out_of_bounds_in_helper[(1,)](torch.zeros(16), BLOCK=32)
    assert re.search(
        r"line 2: `tl.store.*`, in `helper_load`, line 3: `return tl.load",
        raised.value.fault.sentence.parameters["site"],
    )


def test_order_of_programs():
    seen = {}
    for order in (None, "shuffled", lambda n: range(n - 1, -1, -1)):
        o = torch.zeros(16, dtype=torch.int32)
        with trace(order=order):
            ignores_its_program[(4,)](o, BLOCK=16)
        seen[order if isinstance(order, str) else bool(order)] = o[0].item()
    assert seen[False] == 3 and seen[True] == 0  # whoever is last wins: that is the race
    with refusing("launch.order.not_each_once", programs=4), trace(order=lambda n: [0] * n):
        ignores_its_program[(4,)](o, BLOCK=16)


def test_a_store_to_an_input_is_named():
    x, o = torch.zeros(64), torch.zeros(64)
    with trace(inputs=[x, o]) as t:
        increment[(2,)](x, o[:], 64, BLOCK=32)
    (fault,) = t.faults
    assert (fault.kind, fault.tensor, fault.line) == ("input changed", "o_ptr", 4)
    assert says(fault.sentence, "trace.value.input_changed", program=say("trace.program", index=0), elements=64)
