"""Work that the student's kernels do not do is refused, in one sentence."""

import json
import threading

import pytest
import torch
import triton
import triton.language as tl
from sentences import mentions, says

from course_lib.evidence import Evidence
from course_lib.execution import record_all, replay_all
from tritontrace.replay import record, replay
from tritontrace.replay.recording import MAX_EVENTS
from tritontrace.replay.wire import from_tree
from tritontrace.tracing import trace

N = 64
CACHE, BUFFER = {}, torch.empty(N)


@triton.jit
def scale(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr = 32):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n, other=0) * factor, mask=i < n)


def doubled_into(out, x):
    scale[(2,)](x, out, N, 2.0)
    return out


def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    return [{"x": torch.randn(N, generator=generator)} for _ in range(2)]


def evidence_of(function, fresh=None):
    trees = replay_all(record_all(function, [inputs(0)]), [fresh or inputs(1)], ["c"], kernel=True)
    return from_tree(Evidence, trees[0])


def through_numpy(x):
    return torch.from_numpy(x.numpy() * 2)


def filled_through_numpy(x):
    out = torch.empty_like(x)
    out.numpy()[:] = x.numpy() * 2
    return out


def in_a_thread(x):
    results = []
    worker = threading.Thread(target=lambda: results.append(x * 2))
    worker.start()
    worker.join()
    return results[0]


class Subclass(torch.Tensor):
    pass


def launched(*args, grid=(2,), **kwargs):
    def function(x):
        out = torch.empty_like(x)
        scale[grid](x, out, *args, **kwargs)
        return out

    return function


@triton.jit
def misspelt(x_ptr):
    tl.store(x_ptr + tl.arrange(0, 32), 1.0)


@triton.jit
def of_a_block(x_ptr):
    tl.store(x_ptr + tl.arange(0, tl.load(x_ptr).shap), 1.0)


@triton.jit
def free_name(x_ptr, BLOCK: tl.constexpr = 32):
    tl.store(x_ptr + tl.arange(0, BLOK), 1.0)  # noqa: F821


def plain_function(x_ptr):
    pass


def calls_with_a_wrong_name(x):
    plain_function(y=x)


def locally():
    print(later)  # noqa: F821
    later = 1  # noqa: F841


def in_a_trace(x):
    with trace():
        return doubled_into(torch.empty(N), x)


def test_a_trace_beside_the_launches_does_no_harm():
    def traced_and_launched(x):
        with trace():
            doubled_into(torch.empty(N), x)
        return doubled_into(torch.empty(N), x)

    evidence = evidence_of(traced_and_launched)
    assert (evidence.error, evidence.refused) == ("", "") and len(evidence.launches) == 1


@pytest.mark.parametrize(
    "function, id, parameters",
    [
        (lambda x: x * 2, "operation.mul", {}),
        (lambda x: x + x, "operation.add", {}),
        (lambda x: torch.empty_like(x).copy_(x), "operation.copy", {}),
        (lambda x: doubled_into(x.clone(), x), "operation.clone", {}),
        (lambda x: doubled_into(torch.empty(N), x.half()), "operation.to_copy", {}),
        (lambda x: doubled_into(torch.empty(N) * x[0].item(), x), "operation.item", {}),
        (lambda x: float(x.sum()), "operation.sum", {}),
        (lambda x: x.mul_(2), "log.allocates", {"what": "mul_"}),
        (lambda x: torch.randn(N), "log.allocates", {"what": "randn"}),
        (through_numpy, "operation.lift", {}),
        (in_a_thread, "value.not_own", {}),
        (lambda x: BUFFER, "value.not_own", {}),
        (lambda x: x.numpy(), "log.unsupported", {"what": "a numpy.ndarray"}),
        (lambda x: object(), "log.unsupported", {"what": "a object"}),
        (
            lambda x: doubled_into(torch.empty(N), x.as_subclass(Subclass)),
            "log.unsupported",
            {"what": f"a {Subclass.__module__}.Subclass"},
        ),
        (
            lambda x: doubled_into(torch.empty(N), x.stride),
            "value.method",
            {"method": "stride", "example": "x.stride(0)"},
        ),
        (
            lambda x: doubled_into(torch.empty_like(x).contiguous, x),
            "value.method",
            {"method": "contiguous", "example": "x.contiguous()"},
        ),
        (lambda x: misspelt[(1,)](x), "kernel.lack", {"of": "`tl`", "name": "arrange"}),
        (lambda x: misspelt[(1,)](x), "kernel.near", {"near": "arange"}),
    ],
)
def test_refused(function, id, parameters):
    evidence = evidence_of(function)
    assert evidence.error == "" and evidence.outputs == []
    assert mentions(evidence.refused, f"replay.{id}", **parameters)


def test_what_a_formula_returns_and_no_log_holds_is_a_text():
    (tree,) = replay_all(record_all(lambda x: x.stride, [inputs(0)]), [inputs(0)], ["c"], kernel=False)
    (result, _) = from_tree(Evidence, tree).outputs
    assert type(result["unsupported"]) is str and "x.stride(0)" in result["unsupported"]


def test_what_the_compiler_would_refuse():
    evidence = evidence_of(lambda x: of_a_block[(1,)](x))
    assert says(evidence.error, "compiler.refusal.at", kernel="of_a_block") and evidence.outputs == []
    assert mentions(evidence.error, "replay.kernel.lack", name="shap")
    (fact,) = evidence.compiled
    assert not fact.accepted and says(fact.complaint, "compiler.refusal.of_all_gpus", refusal=evidence.error)


def locations():
    return 1 / 0


@pytest.mark.parametrize(
    "function, id, parameters",
    [
        (launched(N), "replay.record.parameters", {"kernel": "scale"}),
        (launched(N, 2.0, BLOK=32), "replay.record.parameters", {"kernel": "scale"}),
        (launched(N, 2.0, 32, 5), "replay.record.parameters", {"reason": "too many positional arguments"}),
        (launched(N, 2.0, grid=(1.5,)), "launch.grid.no_number", {"grid": "(1.5,)", "size": "1.5"}),
        (launched(N, 2.0, grid=(-1,)), "launch.grid.no_number", {"size": "-1"}),
        (launched(N, 2.0, grid=()), "launch.grid.no_tuple", {"kernel": "scale"}),
        (launched(N, 2.0, grid=(1, 1, 1, 1)), "launch.grid.no_tuple", {"kernel": "scale"}),
        (
            lambda x: [doubled_into(torch.empty(N), x) for _ in range(MAX_EVENTS)],
            "replay.record.too_many",
            {"most": MAX_EVENTS},
        ),
        (lambda x: locations(), "replay.raised.error_with", {"exception": "ZeroDivisionError", "advice": ""}),
        (lambda x: locations(), "replay.raised.of_a_file", {"function": "locations"}),
        (lambda x: locations(), "replay.raised.code", {"code": "return 1 / 0"}),
        (lambda x: exit(), "replay.raised.error_with", {"exception": "SystemExit", "words": "None"}),
        (lambda x: exit(), "replay.raised.of_a_file", {"function": "<lambda>"}),
        (lambda x: json.loads("{"), "replay.raised.error_with", {"exception": "JSONDecodeError"}),
        (lambda x: json.loads("{"), "replay.raised.of_a_file", {"function": "<lambda>"}),  # not one of Python's own
        (lambda x: scale(x, x, N, 2.0, BLOCK=32), "replay.raised.no_grid", {}),
        (lambda x: x if x > 0 else -x, "replay.raised.truth", {}),
        (lambda y: y, "replay.raised.names", {}),
        (calls_with_a_wrong_name, "replay.raised.error_with", {"exception": "TypeError", "advice": ""}),
        (calls_with_a_wrong_name, "replay.raised.code", {"code": "plain_function(y=x)"}),
        (lambda x: plain_function[(1,)](x), "replay.raised.no_kernel", {}),
        (lambda x: torch.empty(x.stride[0]), "replay.raised.method", {"method": "stride", "example": "x.stride(0)"}),
        (lambda x: torch.empty(x.shape + 1), "replay.raised.shape", {}),
        (lambda x: torch.empty(tl.cdiv(N, 2)), "replay.raised.outside_write", {"function": "cdiv"}),
        (lambda x: unsolved(x), "replay.raised.undefined", {"name": "unsolved"}),  # noqa: F821
        (lambda x: locally(), "replay.raised.error_with", {"exception": "UnboundLocalError", "advice": ""}),
        (lambda x: free_name[(1,)](x), "replay.kernel.unknown", {"line": 2, "name": "BLOK"}),
        (lambda x: free_name[(1,)](x), "replay.kernel.near", {"near": "BLOCK"}),
        (in_a_trace, "replay.record.traced", {}),
        (lambda x: scale(x, x, N, 2.0), "replay.raised.error_with", {"exception": "RuntimeError"}),
    ],
)
def test_errors_of_the_host_code(function, id, parameters):
    log = record(function, inputs(0))
    assert len(log["calls"]) == 1  # what failed once is not tried again
    error = log["calls"][0]["error"]
    assert mentions(error, id, **parameters), (error.id, error.parameters)
    assert "\n" not in error and evidence_of(function).error.as_data() == error.as_data()


def test_out_of_bounds_is_an_error_and_a_fault():
    evidence = evidence_of(lambda x: doubled_into(torch.empty(N - 1), x))
    assert [fault.kind for fault in evidence.faults] == ["out of bounds"]
    assert evidence.error == evidence.faults[0].sentence
    assert evidence.error.id == "trace.out_of_bounds.outside"


def test_elements_that_nothing_stores_are_nan():
    def half_done(x):
        out = torch.empty_like(x)
        scale[(1,)](x, out, N, 2.0)
        return out

    first, second = evidence_of(half_done).outputs
    assert not first[:32].isnan().any() and first[32:].isnan().all() and second[32:].isnan().all()


def test_reading_what_nothing_wrote_is_a_fault():
    evidence = evidence_of(lambda x: doubled_into(torch.empty_like(x), torch.empty_like(x)))
    assert {fault.kind for fault in evidence.faults} == {"uninitialised"}


def test_a_changed_input_is_a_fault():
    evidence = evidence_of(lambda x: doubled_into(torch.empty(N), doubled_into(x, x)))
    assert ("input changed", "x") in {(fault.kind, fault.tensor) for fault in evidence.faults}


def test_the_input_returned_is_no_result():
    for function in (lambda x: x, lambda x: x[1:], lambda x: doubled_into(x, x)):
        assert says(evidence_of(function).refused, "replay.log.input_returned", tensor="x")


def test_a_buffer_shared_between_calls_shows_in_the_first():
    def shared(x):
        if "out" not in CACHE:
            CACHE["out"] = torch.empty_like(x)
        return doubled_into(CACHE["out"], x)

    CACHE.clear()
    fresh = inputs(1)
    first, second = evidence_of(shared, fresh).outputs
    assert torch.equal(second, 2 * fresh[1]["x"]) and torch.equal(first, second)


def test_answers_filled_in_on_the_host_are_lost():
    evidence = evidence_of(filled_through_numpy)
    assert all(output.isnan().all() for output in evidence.outputs)


def test_answers_remembered_in_the_host_code_are_those_of_other_data():
    def remembering(x):
        out = torch.empty_like(x)
        for k, value in enumerate(x.numpy().tolist()):
            scale[(1,)](x, out[k:], 1, 2.0, BLOCK=1) if value > 0 else scale[(1,)](x[k:], out[k:], 1, 2.0, BLOCK=1)
        return out

    fresh = inputs(1)
    evidence = evidence_of(remembering, fresh)
    assert evidence.error == ""
    assert not torch.equal(evidence.outputs[0], 2 * fresh[0]["x"])


def test_a_constant_read_from_the_data_is_that_of_other_data():
    def first_element(x):
        out = torch.empty_like(x)
        scale[(2,)](x, out, N, float(x.numpy()[0]))
        return out

    fresh = inputs(1)
    evidence = evidence_of(first_element, fresh)
    assert torch.allclose(evidence.outputs[0], fresh[0]["x"] * inputs(0)[0]["x"][0])


def test_a_buffer_of_its_own_may_be_filled_and_an_input_may_not():
    evidence = evidence_of(lambda x: doubled_into(torch.empty(N).zero_().fill_(3.0), x))
    assert (evidence.error, evidence.refused, evidence.faults) == ("", "", [])
    for function in (lambda x: doubled_into(torch.empty(N), x.zero_()), lambda x: torch.empty(N).fill_(x.sum())):
        assert says(evidence_of(function).refused, "replay.log.allocates")


def test_code_for_a_gpu_is_recorded_without_one():
    def on_the_gpu(x):
        assert x.is_cuda and torch.cuda.get_device_properties(x.device).multi_processor_count > 0
        return doubled_into(torch.empty(N, device="cuda"), x.cuda())

    assert evidence_of(on_the_gpu).error == ""


def test_what_tutorials_ask_the_driver_is_answered_as_by_a_gpu():
    def as_in_a_tutorial(x):
        active = triton.runtime.driver.active
        assert x.device == active.get_active_torch_device() and active.get_current_target().backend == "cuda"
        sms = active.utils.get_device_properties(active.get_current_device())["multiprocessor_count"]
        return doubled_into(torch.empty(N, device=active.get_active_torch_device()), x) if sms > 1 else None

    before = vars(triton.runtime.driver).copy()
    assert evidence_of(as_in_a_tutorial).error == ""
    assert vars(triton.runtime.driver) == before


def test_buffers_are_what_is_allocated_beyond_the_result():
    def function(x):
        wide = torch.empty(3 * N)
        doubled_into(torch.empty(2 * N), x)
        return doubled_into(wide[:N], x)

    evidence = evidence_of(function)
    assert (evidence.largest_buffer, evidence.buffers) == (8 * N, 16 * N)


def test_the_busiest_program_is_known():
    evidence = evidence_of(lambda x: doubled_into(torch.empty(N), x))
    assert [launch.busiest_bytes for launch in evidence.launches] == [2 * 4 * 32]


def test_a_package_s_kernel_is_not_one_s_own(monkeypatch):
    name = "/usr/lib/python3/site-packages/fast/scale.py"
    monkeypatch.setattr(scale.fn, "__code__", scale.fn.__code__.replace(co_filename=name))
    error = evidence_of(lambda x: doubled_into(torch.empty(N), x)).error
    assert says(error, "replay.kernel.package", kernel="scale", package="fast")


def test_too_large_an_allocation():
    refused = evidence_of(lambda x: doubled_into(torch.empty(1 << 31), x)).refused
    assert says(refused, "replay.log.too_large", gib=8.0)


# ------------------------------------------------------------------------------------------------ forged logs


def log_with(**event):
    call = {"events": [event], "result": None, "error": ""}
    return {"kernels": {}, "calls": [call, call]}


@pytest.mark.parametrize(
    "event",
    [
        {"op": "aten.mm.default"},
        {"op": "os.system.default"},
        {"op": "aten.empty.__class__"},
        {"op": "aten.empty.__setattr__", "args": ["default", "x"]},
        {"op": "aten.empty._op"},
        {"op": "aten.empty.nothing"},
        {"op": "prims.empty.default"},
        {"op": "aten.empty.out"},
        {"op": "aten.zero_.default", "args": [{"tensor": "0:x"}]},
        {"launch": "nowhere"},
    ],
    ids=str,
)
def test_operations_that_are_none(event):
    evidence = replay(log_with(**({"args": [], "kwargs": {}, "out": []} | event)), inputs(1), case="c")
    assert evidence.refused and not evidence.error


@pytest.mark.parametrize(
    "log",
    [
        {},
        {"kernels": {}},
        {"kernels": {}, "calls": []},
        {"kernels": 3, "calls": []},
        {"kernels": {}, "calls": [{"events": [], "result": {"tensor": "nowhere"}, "error": ""}] * 2},
        {"kernels": {}, "calls": [{"events": [{}], "result": None, "error": ""}] * 2},
        {"kernels": {}, "calls": [{"events": [], "result": {"evil": 1}, "error": ""}] * 2},
        {"kernels": {}, "calls": [{"events": [], "result": {"tl.dtype": "none"}, "error": ""}] * 2},
        {
            "kernels": {},
            "calls": [
                {
                    "events": [],
                    "result": {"tensor": "0:x", "dtype": "float64", "size": [N], "stride": [1], "offset": 0},
                    "error": "",
                }
            ]
            * 2,
        },
    ],
    ids=lambda log: str(log)[:60],
)
def test_a_log_of_another_shape_is_an_error(log):
    evidence = replay(log, inputs(1), case="c")
    assert (evidence.error or evidence.refused) and evidence.outputs == []


def test_a_kernel_in_gluon_is_named_as_what_it_is():
    gluon = pytest.importorskip("triton.experimental.gluon")

    @gluon.jit
    def in_gluon(x_ptr, out_ptr):
        pass

    log = record(lambda x: in_gluon[(1,)](x, torch.empty_like(x)), [{"x": torch.ones(N)}])
    evidence = replay(log, [{"x": torch.ones(N)}], case="c")
    assert says(evidence.refused, "replay.log.language", kernel="in_gluon", language="Gluon", asked="Triton")
