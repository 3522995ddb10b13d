"""A kernel in Gluon as plain data and back: it does the same, in every order, and what no kernel needs is refused in a sentence."""

import os
import types

import pytest
import right_kernels as right
import torch
import triton
from reaching import reached
from sentences import mentions, refusing, says
from triton.language.core import _aggregate as aggregate
from triton.runtime.jit import JITFunction

from course_lib.checking import verdict
from course_lib.evidence import Evidence
from course_lib.execution import record_all, replay_all
from course_lib.exercises import find
from tritontrace.hopper.language import (
    TensorDescriptor,
    barrier,
    fence_async_shared,
    gl,
    gluon,
    mbarrier,
    new_barriers,
    store_wait,
    tma_load,
    tma_store,
)
from tritontrace.hopper.simulation import EveryOrder
from tritontrace.replay import KernelRefused, describe, layouts, wire
from tritontrace.replay.kernels import rebuild
from tritontrace.replay.names import gluon as names_of_gluon
from tritontrace.tracing import KernelError, opened, trace

LINE = gl.constexpr(gl.BlockedLayout([1], [32], [4], [0]))
TILE = gl.NVMMASharedLayout.get_default_for([64, 64], gl.float16)


def half(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).half()


def observed(function, recorded, fresh=None, **more):
    """Evidence of a function in Gluon, recorded on one input and replayed on another."""
    logs = wire.unpack(wire.pack(record_all(function, [[recorded]])))
    inputs = {name: value.clone() for name, value in (fresh or recorded).items()}
    (tree,) = replay_all(logs, [[inputs]], ["c"], kernel=True, **{"language": "Gluon", "compile_seconds": 30} | more)
    return wire.from_tree(Evidence, wire.unpack(wire.pack(tree)))


# ------------------------------------------------------------------------------------------------ honest kernels


def copied(x):
    y = torch.empty_like(x)
    right.copied[(1,)](right.tiles_of(x), right.tiles_of(y), COUNT=x.shape[0] // 64, num_warps=4)
    return y


def by_tma(a, b):
    c = torch.empty(64, 64)
    right.by_tma[(1,)](right.tiles_of(a), right.tiles_of(b), c, 64, STEPS=a.shape[1] // 64, num_warps=4)
    return c


def by_cp_async(a, b):
    c = torch.empty(64, 64)
    right.by_cp_async[(1,)](a, b, c, a.shape[1], 64, STEPS=a.shape[1] // 64, num_warps=4)
    return c


def specialised(a, b):
    c = torch.empty(128, 64)
    right.specialised[(1,)](right.tiles_of(a), right.tiles_of(b), c, 64, STEPS=a.shape[1] // 64, num_warps=4)
    return c


def turned(x):
    y = torch.empty_like(x)
    right.turned[(1,)](x, y, num_warps=4)
    return y


PRODUCT = {"a": half(64, 192), "b": half(192, 64, seed=1)}
HONEST = [
    (copied, {"x": half(192, 64)}, lambda x: x + x),
    (by_tma, PRODUCT, lambda a, b: a.float() @ b.float()),
    (by_cp_async, PRODUCT, lambda a, b: a.float() @ b.float()),
    (specialised, PRODUCT | {"a": half(128, 192)}, lambda a, b: a.float() @ b.float()),
    (turned, {"x": torch.randn(64, 64)}, lambda x: x.T),
]


@pytest.mark.parametrize("function, recorded, oracle", HONEST, ids=lambda value: getattr(value, "__name__", ""))
def test_a_recorded_kernel_does_the_same_on_other_data(function, recorded, oracle):
    fresh = {name: value * 2 - 1 for name, value in recorded.items()}
    found = observed(function, recorded, fresh)
    assert (found.error, found.refused, found.faults, found.hazards) == ("", "", [], [])
    assert torch.allclose(found.outputs[0].float(), oracle(**fresh).float(), atol=1e-2)
    assert [fact.gpu for fact in found.compiled] == ["sm_90"]
    assert all(fact.accepted for fact in found.compiled)
    assert found.launches[0].simulated.orders == 6


def test_evidence_has_what_the_simulator_counts():
    found = observed(specialised, PRODUCT | {"a": half(128, 192)}).launches[0].simulated
    assert found.instructions == {"TMA load": 3, "wgmma": 2}
    assert (found.tma_loads, found.wgmma, found.barriers) == (9, 6, 4)
    assert found.tma_read == found.bytes_to_shared == 9 * 64 * 64 * 2
    assert found.multiply_adds == 128 * 192 * 64
    assert 0 < found.overlapped < 1
    assert found.products[0].shape == (64, 64, 64)


def test_conflicts_of_the_kernels_own_lines():
    found = observed(turned, {"x": torch.randn(64, 64)}).launches[0].simulated
    assert [(each.op, each.passes, each.needed) for each in found.passes] == [("store", 64, 32), ("load", 64, 32)]
    assert "line 7: `tile.store(gl.load(x_ptr + offs))`" in found.passes[0].line


@gluon.jit
def layout_of_ones_own(x_ptr, y_ptr, L: gl.constexpr):
    i = gl.arange(0, 128, L)
    gl.store(y_ptr + i, gl.load(x_ptr + i) * 2)


def test_a_layout_is_an_argument():
    def doubled(x):
        y = torch.empty_like(x)
        layout_of_ones_own[(1,)](x, y, L=gl.BlockedLayout([2], [32], [2], [0]), num_warps=2)
        return y

    x = torch.randn(128)
    assert torch.equal(observed(doubled, {"x": x}).outputs[0], 2 * x)


ALL_LAYOUTS = [
    gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0]),
    gl.SliceLayout(1, gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])),
    gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16]),
    gl.DotOperandLayout(0, gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16]), 2),
    gl.NVMMASharedLayout(128, 16),
    gl.SwizzledSharedLayout(1, 1, 32, [1, 0]),
    gl.PaddedSharedLayout.with_identity_for([[64, 4]], [64, 64], [1, 0]),
    gl.AutoLayout(),
]


@pytest.mark.parametrize("layout", ALL_LAYOUTS, ids=lambda layout: type(layout).__name__)
def test_layouts_travel(layout):
    data = wire.unpack(wire.pack(layouts.described(layout)))
    assert layouts.rebuilt(data) == layout
    assert type(layouts.rebuilt(data)) is type(layout)


# ------------------------------------------------------------------------------------------------ mistakes


@gluon.jit
def fetched(x_desc, y_desc, EXPECTED: gl.constexpr):
    tile = gl.allocate_shared_memory(x_desc.dtype, [64, 64], x_desc.layout)
    come = new_barriers(1, 1)
    mbarrier.expect(come.index(0), EXPECTED)
    tma_load(x_desc, [0, 0], come.index(0), tile)
    mbarrier.wait(come.index(0), 0)
    tma_store(y_desc, [0, 0], tile)
    store_wait(0)


def descriptor(x):
    return TensorDescriptor.from_tensor(x, [64, 64], TILE)


def test_a_deadlock_ends_with_its_name():
    def waits_for_more(x):
        y = torch.empty_like(x)
        fetched[(1,)](descriptor(x), descriptor(y), EXPECTED=2 * 64 * 64 * 2, num_warps=4)
        return y

    found = observed(waits_for_more, {"x": half(64, 64)})
    hazard = found.hazards[0]
    assert (hazard.kind, hazard.order, hazard.buffer) == ("wrong number of bytes", "lazy", "come[0]")
    assert hazard.lines == ["`fetched`, line 6: `mbarrier.wait(come.index(0), 0)`"]
    assert found.error == hazard.sentence
    assert found.cause == hazard.cause
    assert found.outputs == []


def test_a_kernel_may_not_write_its_input():
    def into_x(x):
        y = torch.zeros_like(x)
        fetched[(1,)](descriptor(y), descriptor(x), EXPECTED=64 * 64 * 2, num_warps=4)
        return y

    assert "input" in observed(into_x, {"x": half(64, 64)}).faults[0].kind


@gluon.jit
def endless(x_ptr, n):
    come = new_barriers(1, 1)
    for i in range(n):
        mbarrier.arrive(come.index(0))
        mbarrier.wait(come.index(0), i & 1)


def test_an_endless_loop_ends():
    def loops(x):
        y = torch.empty_like(x)
        endless[(1,)](y, 1 << 30, num_warps=4)
        return y

    assert observed(loops, {"x": half(4)}).error.id.startswith("launch.work.")


@triton.jit
def in_triton(x_ptr):
    pass


def test_each_exercise_has_its_language():
    def launches(x):
        in_triton[(1,)](x)
        return x

    found = observed(launches, {"x": half(4)})
    assert says(found.refused, "replay.log.language", kernel="in_triton", language="Triton", asked="Gluon")
    found = observed(copied, {"x": half(64, 64)}, language="Triton")
    assert says(found.refused, "replay.log.language", kernel="copied", language="Gluon", asked="Triton")


def test_a_kernel_is_not_checked_but_what_launches_it():
    found = verdict(find("hopper.tma_copy"), fetched).findings[0].seen
    assert found == "this is the kernel; check the function that launches it: check('hopper.tma_copy', tma_copy)"


def test_a_trace_says_who_runs_it():
    with trace(), pytest.raises(KernelError) as refused:
        fetched[(1,)](descriptor(half(64, 64)), descriptor(half(64, 64)), EXPECTED=8192, num_warps=4)
    assert says(refused.value, "launch.run.gluon", kernel="fetched")


# ------------------------------------------------------------------------------------------------ objects of one's own


class LookAlike:
    """A tensor descriptor by all that is asked of it."""

    def __init__(self, x):
        self.base, self.shape, self.strides, self.block_shape = x, list(x.shape), list(x.stride()), [64, 64]
        self.layout, self.padding, self.round_f32_to_tf32 = TILE, "zero", False


class OwnLayout(gl.BlockedLayout):
    """A layout that answers the compiler as it likes."""

    def _to_ir(self, builder):
        raise AssertionError("the compiler's builder has got out")


def of_own_class(x):
    return LookAlike(x)


def with_numbers_of_its_own(x):
    made = descriptor(x)
    made.strides = [3, 1]
    return made


def with_a_layout_of_its_own(x):
    made = descriptor(x)
    made.layout = OwnLayout([1], [32], [4], [0])
    return made


@pytest.mark.parametrize(
    "make, id, words",
    [
        (of_own_class, "log.unsupported", "LookAlike"),
        (with_numbers_of_its_own, "log.descriptor", "strides must be 16-byte aligned"),
        (with_a_layout_of_its_own, "log.unsupported", "triton.experimental.gluon.nvidia.hopper.TensorDescriptor"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_descriptor_is_gluons_own(make, id, words):
    """words: names, or Gluon's own"""

    def copies(x):
        y = torch.empty_like(x)
        fetched[(1,)](make(x), descriptor(y), EXPECTED=64 * 64 * 2, num_warps=4)
        return y

    refused = observed(copies, {"x": half(64, 64)}).refused
    assert says(refused, f"replay.{id}") and words in refused


def test_a_descriptor_beyond_its_tensor_is_out_of_bounds():
    def copies(x):
        y, longer = torch.empty_like(x), descriptor(x)
        longer.shape = [128, 64]
        longer.strides = [128, 1]
        fetched[(1,)](longer, descriptor(y), EXPECTED=64 * 64 * 2, num_warps=4)
        return y

    assert "outside" in observed(copies, {"x": half(64, 64)}).error


OWN = gl.constexpr(OwnLayout([1], [32], [4], [0]))


@gluon.jit
def uses_its_own_layout(x_ptr):
    gl.store(x_ptr + gl.arange(0, 128, OWN), 1.0)


@gluon.constexpr_function
def computed(n):
    return n + 1


@gluon.jit
def calls_python(x_ptr):
    gl.store(x_ptr + gl.arange(0, 128, LINE), computed(1))


def plain_python(n):
    return n


@gluon.jit
def calls_a_function(x_ptr):
    gl.store(x_ptr + gl.arange(0, 128, LINE), plain_python(1))


@aggregate
class Slot:
    at: gl.tensor

    @gluon.jit
    def __init__(self, at):
        self.at = at


@gluon.jit
def keeps_state(x_ptr):
    slot = Slot(gl.program_id(0))
    gl.store(x_ptr + gl.arange(0, 128, LINE), slot.at)


@pytest.mark.parametrize(
    "kernel, name, id, parameters",
    [
        (keeps_state, "Slot", "aggregate", {}),
        (uses_its_own_layout, "OWN", "gluon", {"question": ""}),
        (calls_python, "computed", "constexpr_function", {"decorator": "@gluon.jit"}),
        (calls_a_function, "plain_python", "question", {"decorator": "@gluon.jit"}),
    ],
)
def test_names_are_of_the_language(kernel, name, id, parameters):
    with pytest.raises(KernelRefused) as refused:
        describe(kernel, {})
    assert says(refused.value, "replay.kernel.no_value", name=name)
    assert mentions(refused.value, f"replay.instead.{id}", **parameters)


# ------------------------------------------------------------------------------------------------ forged tables

GL = {"gl": {"module": "triton.experimental.gluon.language"}}
HOPPER = "triton.experimental.gluon.language.nvidia.hopper"


def body(*lines, names=GL, **fields):
    source = "def k(x):\n" + "".join(f"    {line}\n" for line in lines)
    return {"key": {"name": "k", "source": source, "names": names, "annotations": {}, "gluon": True} | fields}


@pytest.fixture
def escaped(tmp_path, monkeypatch):
    """The file that a kernel would leave behind if it got out."""
    monkeypatch.setattr(os, "system", lambda command: (tmp_path / "escaped").touch())
    return tmp_path / "escaped"


@pytest.mark.parametrize(
    "line, name",
    [
        ("gl._core", "_core"),
        ("gl._layouts.itertools", "_layouts"),
        ("gl.amd", "amd"),
        ("gl.nvidia.blackwell", "blackwell"),
        ("gl.nvidia.hopper.tma.ttgl", "ttgl"),
        ("gl.nvidia.hopper.tma.dataclass", "dataclass"),
        ("gl.nvidia.hopper.mbarrier.builtin", "builtin"),
        ("gl.nvidia.ampere.async_copy.ir", "ir"),
        ("gl.bank_conflicts", "bank_conflicts"),
        ("gl.to_linear_layout", "to_linear_layout"),
        ("gl.base_value", "base_value"),
        ("gl.BlockedLayout([1], [32], [4], [0])._to_ir", "_to_ir"),
        ("gl.BlockedLayout([1], [32], [4], [0]).format_tensor_view", "format_tensor_view"),
        ("gl.NVMMASharedLayout.get_default_for.fn", "fn"),
        ("gl.NVMMASharedLayout.__init__", "__init__"),
        ("gl.zeros.fn", "fn"),
        ("gl.allocate_shared_memory(gl.int32, [4], gl.SwizzledSharedLayout(1, 1, 1, [0])).handle", "handle"),
        ("x.handle", "handle"),
        ("gl.warp_specialize([(gl.cdiv.fn, ())], [1], [24])", "fn"),
        ("gl.constexpr(gl).value._core", "_core"),
    ],
)
def test_the_body_stays_in_gluon(line, name, escaped):
    with refusing("replay.kernel.lack", (KernelRefused, KernelError), name=name), opened(EveryOrder()):
        rebuild(body("gl.static_assert(True)", line))["key"][(1,)](torch.zeros(128))
    assert not escaped.exists()


@pytest.mark.parametrize(
    "line, id",
    [
        ("gl.arange(0, 4, x)", "compiler.refusal.at"),
        ("gl.warp_specialize([(x, ())], [1], [24])", "compiler.refusal.at"),
        ("gl.warp_specialize([(gl, ())], [1], [24])", "compiler.refusal.at"),
        ("getattr(gl, '_core')", "replay.kernel.builtin"),
        ("__import__('os').system('true')", "compiler.problem.undefined"),
    ],
)
def test_what_else_the_body_may_not(line, id, escaped):
    with pytest.raises((KernelRefused, KernelError)) as refused, opened(EveryOrder()):
        rebuild(body("gl.static_assert(True)", line))["key"][(1,)](torch.zeros(128))
    assert mentions(refused.value, id) and "line 3" in str(refused.value)
    assert not escaped.exists()


@pytest.mark.parametrize(
    "described",
    [
        {"object": "triton.experimental.gluon.language._core.math"},
        {"object": f"{HOPPER}.unflatten_ir_values"},
        {"object": f"{HOPPER}.tma.builtin"},
        {"object": f"{HOPPER}.tma.tensor_descriptor"},
        {"module": "triton.experimental.gluon.language._core"},
        {"module": "tritontrace.hopper.language"},
        {"layout": {"kind": "BlockedLayout", "fields": {}}},
        {"layout": {"kind": "OwnLayout", "fields": {}}},
        {"layout": {"kind": "AutoLayout", "fields": {"type": 3}}},
        {"layout": {"kind": "SliceLayout", "fields": {"dim": 0, "parent": "os"}}},
        {"layout": {"kind": "SharedLinearLayout", "fields": {"offset_bases": [[1 << 80]], "block_bases": [], "alignment": 16}}},
        {"layout": ["BlockedLayout"]},
    ],
    ids=str,
)  # fmt: skip
def test_a_name_stands_for_the_language_alone(described):
    with pytest.raises(KernelRefused):
        rebuild(body("gl.static_assert(True)", names=GL | {"f": described}))


def test_a_kernel_in_triton_has_no_name_of_gluons():
    for described in (GL["gl"], {"object": f"{HOPPER}.fence_async_shared"}):
        with pytest.raises(KernelRefused):
            rebuild(body("f", names={"f": described}, gluon=False))


def reachable():
    """(name, object) of all that attributes lead to, from Gluon's modules, layouts and values."""
    names = names_of_gluon()
    element, width = gl.float16, gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    block = gl.distributed_type(element, [64, 64], width) if hasattr(gl, "distributed_type") else element
    waiting = [*names.modules.values(), *ALL_LAYOUTS, element, block, gl.tensor(None, block), gl.constexpr(width)]
    waiting += [gl.shared_memory_descriptor(None, element, [64, 64], TILE, [64, 64])]
    waiting += [rebuild(body("gl.static_assert(True)"))["key"]]
    return reached(names, waiting)


def test_nothing_public_leads_out():
    known = names_of_gluon().modules
    for name, value in reachable():
        assert not isinstance(value, (dict, types.MappingProxyType, types.CodeType, types.FrameType)), name
        if isinstance(value, types.ModuleType):
            assert value.__name__ in known, name
        elif isinstance(value, (types.FunctionType, types.MethodType, type)):
            own = ("triton.language.", "triton.experimental.gluon.language.", "triton._C.", "typing", "builtins")
            assert value.__module__.startswith(own), name
        elif isinstance(value, JITFunction):
            assert value.fn.__module__.startswith(("triton.language", "triton.experimental.gluon", "kernel_")), name


def test_names_of_the_course_are_gluons_own():
    objects = names_of_gluon().objects
    for value in (tma_load, tma_store, store_wait, barrier, fence_async_shared, mbarrier.wait):
        assert id(value) in objects
    assert id(new_barriers) not in objects  # a kernel like the student's: it travels with its source
