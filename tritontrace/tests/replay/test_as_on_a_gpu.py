"""Host code written for a GPU asks and says the same around its launches without one."""

import pytest
import torch
import triton
import triton.language as tl
from sentences import refusing
from test_record_replay import N, doubled_into, evidence_of
from triton._C.libtriton import nvidia
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from tritontrace import gpu
from tritontrace.tracing.as_on_a_gpu import as_on_a_gpu
from tritontrace.ttir.launching import KernelError

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="here a GPU answers itself")
PLANNED = gpu.current_or_h200()


def describes_the_gpu(x):
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    assert torch.cuda.is_available() and torch.cuda.device_count() == 1
    assert torch.cuda.get_device_capability() == torch.cuda.get_device_capability(0) == (9, 0)
    assert (properties.major, properties.minor, properties.multi_processor_count) == (9, 0, PLANNED.sms)
    assert torch.cuda.get_device_name(0) == properties.name == PLANNED.name
    assert torch.cuda.is_bf16_supported() and torch.cuda.mem_get_info()[1] == properties.total_memory


def times_itself(x):
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    end.record(torch.cuda.current_stream())
    end.synchronize()
    assert 0 <= start.elapsed_time(end) < 1e4 and end.query()


def on_a_stream(x):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream(x.device))
    with torch.cuda.stream(stream):
        event = stream.record_event()
    torch.cuda.default_stream().wait_event(event)
    with stream:
        stream.synchronize()


def in_named_ranges(x):
    torch.cuda.nvtx.range_push("doubled")
    with torch.cuda.nvtx.range("inside"):
        torch.cuda.nvtx.mark("here")
    torch.cuda.nvtx.range_pop()
    torch.cuda.nvtx.range_end(torch.cuda.nvtx.range_start("another"))


def watches_memory(x):
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.empty_cache()
    assert torch.cuda.max_memory_allocated() >= torch.cuda.memory_allocated() >= 0


def asks_the_driver(x):
    active = triton.runtime.driver.active
    device = active.get_current_device()
    assert active.get_current_stream(device) is not None
    assert active.get_device_interface().current_device() == device
    has = active.utils.get_device_properties(device)
    assert has["max_shared_mem"] == torch.cuda.get_device_properties(device).shared_memory_per_block_optin
    assert has["max_num_regs"] == torch.cuda.get_device_properties(device).regs_per_multiprocessor
    assert active.get_current_target().arch == 90


def asks_for_raw_streams(x):
    for number in range(torch.cuda.device_count()):
        with torch.cuda.device(number) as _:
            assert torch._C._cuda_getCurrentRawStream(torch.cuda.device(number).idx) == 0


def draws_apart(x):
    with torch.random.fork_rng():
        torch.manual_seed(0)


@pytest.mark.parametrize(
    "host",
    [
        describes_the_gpu,
        times_itself,
        on_a_stream,
        in_named_ranges,
        watches_memory,
        asks_the_driver,
        draws_apart,
        asks_for_raw_streams,
    ],
    ids=lambda host: host.__name__,
)
def test_it_is_answered_as_by_a_gpu(host):
    def function(x):
        host(x)
        return doubled_into(torch.empty(N, device="cuda"), x)

    evidence, _ = evidence_of(function)
    assert (evidence.error, evidence.refused) == ("", "")


def test_an_optimizer_steps_under_a_torch_for_cuda_without_a_driver(monkeypatch):
    def no_driver():
        raise RuntimeError("Found no NVIDIA driver on your system")

    monkeypatch.setattr(torch._C, "_accelerator_getAccelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch._C, "_accelerator_getDeviceIndex", no_driver)
    weight = torch.nn.Parameter(torch.ones(4))
    weight.grad = torch.ones(4)
    with as_on_a_gpu():
        torch.optim.AdamW([weight]).step()
        torch.accelerator.synchronize()
    assert (weight < 1).all()


def test_cublas_of_triton_multiplies():
    with as_on_a_gpu():
        cublas = nvidia.cublas.CublasLt(torch.empty(1024, device="cuda", dtype=torch.uint8))
        a, b, c = torch.randn(3, 4), torch.randn(5, 4), torch.ones(3, 5)
        cublas.matmul(a, b, c)
        assert torch.allclose(c, a @ b.T)
        cublas.gemm(a, b, c, c, 2.0, 1.0)
        assert torch.allclose(c, 3 * a @ b.T, atol=1e-5)


def test_a_graph_may_be_named_in_a_type_and_is_refused():
    with as_on_a_gpu():
        assert (torch.cuda.CUDAGraph | None).__args__ == (torch.cuda.CUDAGraph, type(None))
        with refusing("launch.run.graph", KernelError):
            torch.cuda.CUDAGraph()


def test_the_state_of_a_gpu_s_generator_is_a_seed_and_an_offset():
    with as_on_a_gpu():
        torch.manual_seed(7)
        generator = torch.cuda.default_generators[0]
        state = generator.get_state()
        assert state.view(torch.int64).tolist() == [7, 0]
        state.view(torch.int64)[1] += 4
        generator.set_state(state)
        assert generator.get_state().view(torch.int64).tolist() == [7, 4]
        torch.cuda.manual_seed(8)
        assert generator.get_state().view(torch.int64).tolist() == [8, 0]


@triton.jit
def stores_one(x_ptr):
    tl.store(x_ptr, 1)


def test_compiled_code_is_refused_by_name():
    with as_on_a_gpu():
        built = triton.compile(ASTSource(stores_one, {"x_ptr": "*i32"}), target=GPUTarget("cuda", 90, 32))
        with refusing("launch.run.machine_code", KernelError):
            built[(1,)](torch.empty(1, dtype=torch.int32))


@pytest.mark.parametrize("device", [0, "cuda:0", torch.device("cuda", 0)])
def test_a_device_may_be_a_number(device):
    with as_on_a_gpu(tensors_on=torch.device("cuda", 0)):
        for x in (torch.ones(3, device=device), torch.ones(3).to(device), torch.ones(3).to(device=device)):
            assert x.is_cuda and x.device == torch.device("cuda", 0)
        assert torch.ones(3).to("meta").device.type == "meta"


def test_no_stream_captures_which_optimizers_of_torch_2_11_ask():
    with as_on_a_gpu():
        assert torch.cuda.is_current_stream_capturing() is False


def test_torch_is_left_as_it_was():
    modules = torch.cuda, torch._C, torch.cuda.nvtx, torch.accelerator, triton.runtime.driver
    before = [dict(vars(module)) for module in modules]
    with pytest.raises(KeyError), as_on_a_gpu():  # noqa: PT012
        assert torch.cuda.is_available()
        raise KeyError
    assert before == [dict(vars(module)) for module in modules]


def test_generators_pinned_memory_compiled_functions_and_autocast():
    with as_on_a_gpu():
        generator = torch.cuda.default_generators[0]
        assert isinstance(generator.initial_seed(), int)
        assert torch.empty(3, pin_memory=True).pin_memory().shape == (3,)

        @torch.compile(dynamic=True)
        def double(x):
            return 2 * x

        assert torch.compile(double)(torch.ones(2)).tolist() == [2, 2]
        with torch.autocast("cuda", dtype=torch.bfloat16):
            assert (torch.ones(4, 4) @ torch.ones(4, 4)).dtype == torch.bfloat16
        with torch.autocast(device_type="cuda"):
            assert torch.nn.functional.linear(torch.ones(4, 4), torch.ones(4, 4)).dtype == torch.float16
