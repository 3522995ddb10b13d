"""Honest host code is recorded, and its log does the same on data that the recorder never saw."""

import functools

import pytest
import torch
import triton
import triton.language as tl
from sentences import mentions, refusing, says
from triton.tools.tensor_descriptor import TensorDescriptor

from tritontrace import compiled
from tritontrace.replay import wire
from tritontrace.replay.recording import load, record
from tritontrace.replay.replaying import Tape, ToCompile, compile_every, compile_launched, replay
from tritontrace.tracing import trace
from tritontrace.ttir.frontend import front_of

N = 100


def inputs(seed, calls=2):
    generator = torch.Generator().manual_seed(seed)
    return [{"x": torch.randn(N, generator=generator)} for _ in range(calls)]


def evidence_of(function, allows=(), calls=2, **options):
    """The function recorded on some inputs and replayed on others; both halves see plain data alone."""
    log = wire.unpack(wire.pack(record(function, inputs(0, calls))))
    assert [call["error"] for call in log["calls"]] == [""] * calls
    fresh = inputs(1, calls)
    evidence = replay(log, fresh, case="c", allows=allows, **options)
    return evidence, fresh


def is_doubled(evidence, fresh):
    assert (evidence.error, evidence.refused, evidence.faults) == ("", "", [])
    return len(evidence.outputs) == len(fresh) and all(
        torch.equal(out.reshape(-1), 2 * arguments["x"]) for out, arguments in zip(evidence.outputs, fresh, strict=True)
    )


BLOCK = 32
FACTOR = 2.0


@triton.jit
def scale(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr = 32):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n, other=0) * factor, mask=i < n)


configurations = [triton.Config({"BLOCK": 64}, num_warps=2), triton.Config({"BLOCK": 128}, num_warps=4)]
tuned = triton.autotune(configurations, key=["n"])(scale)


@triton.autotune([triton.Config({"BLOCK": block}, num_warps=1) for block in (64, 16, 128, 32)], key=["n"])
@triton.jit
def asserting(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK > 16)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n, other=0) * 2, mask=i < n)


guessed = triton.heuristics({"BLOCK": lambda arguments: triton.next_power_of_2(arguments["n"])})(scale)


@triton.jit
def scale_described(x, out, factor, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    out.store([start], x.load([start]) * factor)


@triton.jit
def add_up(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr, tl.sum(tl.load(x_ptr + i, mask=i < n, other=0), axis=0))


def sums(x):
    out = torch.zeros(1)
    add_up[(1,)](x, out, N, BLOCK=triton.next_power_of_2(N))
    return out


def doubled_into(out, x):
    scale[(triton.cdiv(N, BLOCK),)](x, out, N, FACTOR, BLOCK=BLOCK)
    return out


def plainly(x):
    return doubled_into(torch.empty_like(x), x)


def on_cuda(x):
    x = x.cuda().to("cuda").to(device="cuda")
    return doubled_into(torch.empty(N, dtype=x.dtype, device="cuda"), x)


def on_a_default_device(x):
    with torch.device("cuda"):
        return doubled_into(torch.empty(N), x)


def slices(x):
    out = torch.empty(2, 64, dtype=x.dtype)[:, :50]
    for k in range(2):
        scale[(2,)](x[k * 50 : (k + 1) * 50], out[k], 50, FACTOR)
    return out


def transposed(x):
    out = torch.empty(10, 10).T
    scale[(4,)](x.view(10, 10).T, out, N, FACTOR)
    return out.T


def two_launches(x):
    workspace, out = torch.zeros(N), torch.empty_like(x)
    scale[(4,)](x, workspace, N, 4.0)
    scale[(4,)](workspace, out, N, 0.5)
    return out


def in_a_loop(x):
    out = x
    for factor in (4.0, 0.5):
        before, out = out, torch.empty_like(x)
        scale[(4,)](before, out, N, factor)
    return out


def keywords(x):
    out = torch.empty_like(x)
    scale[(4,)](x_ptr=x, out_ptr=out, n=x.numel(), factor=FACTOR, num_warps=8, num_stages=2)
    return out


def callable_grid(x):
    out = torch.empty_like(x)
    scale[lambda meta: (triton.cdiv(N, meta["BLOCK"]),)](x, out, N, FACTOR, BLOCK=16)
    return out


def flat_grid(x):
    out = torch.empty_like(x)
    scale[[4, 1]](x, out, N, FACTOR)
    return out


def autotuned(x):
    out = torch.empty_like(x)
    tuned[lambda meta: (triton.cdiv(N, meta["BLOCK"]),)](x, out, N, FACTOR)
    return out


def heuristic(x):
    out = torch.empty_like(x)
    guessed[(1,)](x, out, N, FACTOR)
    return out


def descriptors(x):
    out = torch.empty_like(x)
    x, y = (TensorDescriptor(t, [N], [1], [32]) for t in (x, out))
    scale_described[(4,)](x, y, FACTOR, BLOCK=32)
    return out


def view_of_a_buffer(x):
    return doubled_into(torch.empty(2 * N)[N:], x)


def without_autograd(x):
    with torch.no_grad():
        return plainly(x.detach())


def with_a_closure(x):
    launch = functools.partial(doubled_into, x=x)
    return launch(torch.empty_like(x))


@pytest.mark.parametrize(
    "function",
    [
        plainly,
        on_cuda,
        on_a_default_device,
        slices,
        transposed,
        two_launches,
        in_a_loop,
        keywords,
        callable_grid,
        flat_grid,
        autotuned,
        heuristic,
        descriptors,
        view_of_a_buffer,
        without_autograd,
        with_a_closure,
    ],
    ids=lambda function: function.__name__,
)
def test_honest_host_code(function):
    assert is_doubled(*evidence_of(function))


@pytest.mark.parametrize(
    "allocate",
    [
        torch.empty_like,
        torch.zeros_like,
        torch.ones_like,
        lambda x: torch.empty(x.shape),
        lambda x: torch.empty(N, dtype=torch.float32, device=x.device),
        lambda x: torch.zeros((N,)),
        lambda x: torch.ones(N),
        lambda x: torch.full((N,), 7.0),
        lambda x: torch.full_like(x, float("-inf")),
        lambda x: torch.empty_strided((N,), (1,)),
        lambda x: x.new_empty(N),
        lambda x: x.new_empty((10, 10)),
        lambda x: x.new_zeros(N),
        lambda x: x.new_ones(N),
        lambda x: x.new_full((N,), 3),
        lambda x: torch.empty(50, 2, memory_format=torch.contiguous_format),
        lambda x: torch.empty_permuted((N,), (0,)),
    ],
)
def test_every_kind_of_allocation(allocate):
    assert is_doubled(*evidence_of(lambda x: doubled_into(allocate(x), x)))


def filled(x):
    out = torch.empty_like(x)
    out[:50] = 0
    out[50:] = -float("inf")
    out[3] = 1.5
    total = torch.empty(2)
    total[...] = 0.0
    add_up[(1,)](x, total, N, BLOCK=128)
    return out, total


def test_numbers_fill_a_buffer_by_whatever_index():
    evidence, fresh = evidence_of(filled)
    out, total = evidence.outputs[-1]
    assert evidence.refused == evidence.error == "" and out[3] == 1.5 and not out[:3].any() and out[50:].isinf().all()
    assert float(total[0]) == pytest.approx(float(fresh[-1]["x"].sum()), abs=1e-4) and float(total[1]) == 0


@pytest.mark.parametrize("make", [lambda x: torch.tensor(3.0), lambda x: torch.tensor(3.0).expand(2)[0]])
def test_a_number_is_no_way_to_bring_a_result_along(make):
    log = record(lambda x: make(x) + doubled_into(torch.empty_like(x), x), inputs(0))
    assert mentions(replay(log, inputs(1), case="c").refused, "replay.operation.lift")


def insists_on_cuda(x):
    assert x.device.type == "cuda"
    return plainly(x)


def falls_back_on_the_cpu(x):
    return 2 * x if x.device.type == "cpu" else plainly(x)


def compares_devices(x):
    assert x.device == torch.device("cpu")
    return plainly(x)


@pytest.mark.parametrize("function", [insists_on_cuda, falls_back_on_the_cpu, compares_devices])
def test_a_tensor_says_that_it_lies_where_the_code_wants_it(function):
    assert is_doubled(*evidence_of(function))


@pytest.mark.parametrize("launches, calls", [(True, 2), (False, 1)])
def test_code_that_asks_for_the_device_runs_again_only_where_a_launch_is_missing(launches, calls):
    asked = []
    record(lambda x: asked.append(x.device), inputs(0)[:1], launches=launches)
    assert len(asked) == calls * len(inputs(0)[:1])


@triton.autotune([triton.Config({"BLOCK": block}, num_warps=4, num_stages=1) for block in (32, 16)], key=["n"])
@triton.jit
def product(a_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = i[:, None] * BLOCK + i[None, :]
    inside = at < n
    a = tl.load(a_ptr + at, mask=inside, other=0)
    tl.store(out_ptr + at, tl.dot(a, a, input_precision="ieee"), mask=inside)


@pytest.mark.parametrize("compile_them", [compile_launched, lambda launched, *how: compile_every([launched], *how)[0]])
def test_a_tuners_configuration_that_needs_too_much_is_left_out_where_another_fits(compile_them, monkeypatch):
    monkeypatch.setitem(compiled.SHARED_BYTES, "sm_80", (3_000, 3_000))

    def squared(x):
        out = torch.empty_like(x)
        product[(1,)](x, out, N)
        return out

    launched = []
    replay(record(squared, inputs(0), configuration=1), inputs(1), case="c", launched=launched)
    assert [one.spare for one in launched] == [True, False]
    (fact,) = [fact for fact in compile_them(launched, ["sm_80", "sm_90"], 60) if fact.gpu == "sm_80"]
    assert (fact.accepted, fact.left_out) == (False, True)
    (alone,) = [fact for fact in compile_them(launched[1:], ["sm_80", "sm_90"], 60) if fact.gpu == "sm_80"]
    assert (alone.accepted, alone.left_out) == (False, False)


def test_what_is_observed():
    evidence, _ = evidence_of(two_launches)
    assert [launch.kernel for launch in evidence.launches] == ["scale", "scale"]
    assert [launch.programs for launch in evidence.launches] == [4, 4]
    names = {footprint.tensor for launch in evidence.launches for footprint in launch.footprints}
    assert names == {"x", "buffer 1", "out"}
    assert evidence.largest_buffer == 4 * N  # the workspace; the output does not count
    assert evidence.operations == []


def test_tuples_keep_their_order():
    def both(x):
        return plainly(x), doubled_into(torch.empty_like(x), x)[:3]

    evidence, fresh = evidence_of(both)
    assert torch.equal(evidence.outputs[1][1], 2 * fresh[1]["x"][:3])
    names = {f.tensor for launch in evidence.launches for f in launch.footprints if f.written_bytes}
    assert names == {"out[0]", "out[1]"}


def test_strides_are_those_that_were_returned():
    def turned(x):
        return plainly(x).view(4, 25).T, plainly(x)[::2]

    evidence, _ = evidence_of(turned, calls=1)
    assert evidence.strides == [[[1, 25], [2]]]
    assert [out.stride() for out in evidence.outputs[0]] == [(4, 1), (1,)]


def test_lists_of_tensors_are_arguments_too():
    def function(xs, k):
        return doubled_into(torch.empty_like(xs[k]), xs[k])

    log = record(function, [{"xs": [torch.ones(N), torch.zeros(N)], "k": 1}])
    evidence = replay(log, [{"xs": [torch.ones(N), torch.full((N,), 5.0)], "k": 1}], case="c")
    assert evidence.outputs[0].tolist() == [10.0] * N


@pytest.mark.parametrize(
    "function, name",
    [
        (lambda x: plainly(x + x) / 2, "add"),
        (lambda x: plainly(x.clone()), "clone"),
        (lambda x: plainly(x[::2].contiguous().expand(2, -1).contiguous().T.contiguous().view(-1)), "clone"),
        (lambda x: plainly(x.half().float()), "_to_copy"),
    ],
    ids=["add", "clone", "contiguous", "half"],
)
def test_a_torch_operation_needs_permission(function, name):
    evidence, _ = evidence_of(function)
    assert says(evidence.refused, "replay.log.allocates")
    assert evidence.outputs == []
    allowed = {name, "div", "clone"}
    evidence, fresh = evidence_of(function, allows=allowed)
    assert evidence.refused == "" and name in {operation.name for operation in evidence.operations}
    for output, arguments in zip(evidence.outputs, fresh, strict=True):
        assert torch.equal(output, record_free(function, arguments["x"]))


def record_free(function, x):
    """The function's result without any recording, its kernels interpreted."""
    from tritontrace.tracing import trace

    with trace():
        return function(x)


def test_what_code_says_to_a_gpu_around_its_launches_does_not_fail():
    def for_a_gpu(x):
        torch.cuda.set_device(0)
        with torch.cuda.device(x.device):
            out = doubled_into(torch.empty(N, device="cuda:0"), x.to("cuda"))
        torch.cuda.synchronize()
        return out

    before = torch.cuda.device
    evidence, fresh = evidence_of(for_a_gpu)
    assert is_doubled(evidence, fresh)
    assert torch.cuda.device is before


def test_kernels_are_compiled_once_or_once_for_each_specialisation():
    launched = []
    evidence_of(two_launches, launched=launched)
    assert len(launched) >= 2
    (of_it,) = compile_every([launched], ["sm_90"], 60)
    for facts in (compile_launched(launched, ["sm_90"], 60), of_it):
        assert [(fact.kernel, fact.accepted) for fact in facts] == [("scale", True)]
    key, front, arguments, case, *_ = launched[0]
    halves = {n: v.half() if isinstance(v, torch.Tensor) else v for n, v in arguments.items()}
    of_halves = front_of(front.kernel, halves, front.options)
    launched += [ToCompile(key, of_halves, halves, case), ToCompile(key, of_halves, halves, "another")]
    assert len(compile_launched(launched, ["sm_90"], 60)) == 1
    found, of_another = compile_every([launched, launched[:1]], ["sm_90"], 60)
    assert [fact.cases for fact in found] == [[case], [case, "another"]] and [fact.cases for fact in of_another] == [
        [case]
    ]


@pytest.mark.parametrize("every", [False, True])
def test_what_does_not_compile_in_time_is_not_wrong_in_a_notebook_and_refused_by_the_judge(every):
    launched = []
    evidence_of(two_launches, launched=launched)
    (fact,) = compile_every([launched], ["sm_90"], 0.0)[0] if every else compile_launched(launched, ["sm_90"], 0.0)
    assert not fact.accepted and fact.too_slow != every


def test_what_does_not_compile_in_time_in_company_is_to_be_judged_alone():
    launched = []
    evidence_of(two_launches, launched=launched)
    with refusing("compiler.failure.too_slow_together", seconds=0.0):
        compile_every([[], launched], ["sm_90"], 0.0)


def test_a_tape_run_twice_starts_from_fresh_allocations():
    log = record(sums, [{"x": torch.ones(N)}])
    tape = Tape(log)
    with trace():
        for _ in range(2):
            tape.bind(0, {"x": torch.ones(N)})
            assert float(tape.run(0)) == N


def test_load_runs_cells_in_order():
    cells = [("<cell 1>", "import torch\nBASE = 2"), ("<cell 2>", "def f(x):\n    return BASE * x")]
    assert load(cells, "f")(4) == 8
    with refusing("replay.record.no_entry", name="g"):
        load(cells, "g")
    with pytest.raises(ValueError) as failed:  # noqa: PT011  its message says which
        load([("<cell 2>", "y = BASE")], "y")
    assert says(failed.value, "replay.record.cell", cell="cell 2")
    assert mentions(failed.value, "replay.raised.error_with", exception="NameError")
    assert mentions(failed.value, "replay.raised.line", line=1, function="")


def test_what_a_call_does_to_its_lists_is_not_the_next_ones_business():
    """The arguments of several calls may be one list; a function that changes it is right or wrong by what it returns."""

    def swapped(shape):
        shape[0], shape[1] = shape[1], shape[0]
        return shape

    shape = [3, 4]
    log = record(swapped, [{"shape": shape}, {"shape": shape}])
    assert [call["result"] for call in log["calls"]] == [{"list": [4, 3]}, {"list": [4, 3]}] and shape == [3, 4]


def test_a_launch_of_no_programs_and_none_at_all_are_told_apart():
    def once(x, known=[]):  # noqa: B006
        known += [] if known else [doubled_into(torch.empty_like(x), x)]
        return known[0]

    def of_none(x):
        out = torch.empty_like(x)
        scale[(x.numel() // 128,)](x, out, N, FACTOR, BLOCK=128)
        return out

    found = [evidence_of(function)[0] for function in (once, of_none, plainly)]
    assert [(e.idle, len(e.launches), len(e.kernels)) for e in found] == [(0, 0, 1), (1, 0, 1), (0, 1, 1)]


@triton.jit
def loads_described(descriptor, out_ptr, BLOCK: tl.constexpr):
    tl.store(out_ptr + tl.arange(0, BLOCK), descriptor.load([0]))


@pytest.mark.skipif("padding" not in TensorDescriptor.__dataclass_fields__, reason="a younger Triton's")
@pytest.mark.parametrize("padding, beyond", [("nan", float("nan")), ("zero", 0.0)])
def test_what_a_descriptor_loads_beyond_its_edges(padding, beyond):
    def function(x):
        out = torch.empty(16)
        loads_described[(1,)](TensorDescriptor(x, [12], [1], [16], padding=padding), out, BLOCK=16)
        return out

    x = torch.arange(16.0)
    (result,) = replay(record(function, [{"x": x}]), [{"x": x + 1}], case="c").outputs
    expected = torch.cat([x[:12] + 1, torch.full((4,), beyond)])
    torch.testing.assert_close(result, expected, rtol=0, atol=0, equal_nan=True)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        return x * factor


def test_apply_of_an_autograd_function_is_called_in_order():
    """It takes no keywords, and whoever names it as an answer has written an honest one."""
    (call,) = record(Doubled.apply, [{"x": torch.ones(3), "factor": 2.0}])["calls"]
    assert call["error"] == "" and [event["op"] for event in call["events"]] == ["aten.mul.Tensor"]


@pytest.mark.parametrize("number, block", [(1, 128), (2, 128), (3, 32), (4, 0), (7, 32)])
def test_all_calls_but_the_last_take_another_configuration(number, block):
    """Counted around, and without those whose static_assert fails, which Triton's tuner leaves out, too."""

    def doubled(x):
        out = torch.empty_like(x)
        asserting[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
        return out

    log = wire.unpack(wire.pack(record(doubled, inputs(0), configuration=number)))
    fresh = inputs(1)
    evidence = replay(log, fresh, case="c")
    told = f"`asserting` with the configuration BLOCK={block}, num_warps=1, num_stages=3" if block else ""
    assert is_doubled(evidence, fresh) and evidence.configurations == [told, ""]
    assert [launch.grid for launch in evidence.launches] == [(2, 1, 1)]  # the last call's, of the first configuration
