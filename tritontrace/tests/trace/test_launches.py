"""Launches are taken as they come, and tracing leaves Triton, the kernels and the script's namespace as they were."""

import linecache
import os
import subprocess
import sys

import pytest
import torch
import triton
import triton.language as tl
from sentences import mentions, refusing, says
from triton.language import load
from triton.language.extra import libdevice
from triton.runtime.autotuner import Autotuner
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction

from tritontrace.compiled import compile_for
from tritontrace.tracing import KernelError, no_gpu, trace
from tritontrace.tracing.launcher import BATCH

pytestmark = pytest.mark.usefixtures("compile_every_time")

SCALE = tl.constexpr(2.0)


@triton.jit
def double(x_ptr, o_ptr, n, BLOCK: tl.constexpr = 64):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(o_ptr + offs, 2 * tl.load(x_ptr + offs, mask=mask), mask=mask)


@triton.jit
def fails(x_ptr):
    tl.store(x_ptr, tl.sum(tl.zeros((4,), tl.float32)))
    tl.store(x_ptr, undefined)  # noqa: F821


def run_double(n=100):
    x, o = torch.randn(n), torch.empty(n)
    double[(triton.cdiv(n, 64),)](x, o, n)
    assert torch.equal(o, 2 * x)
    return x, o


def state():
    """All of Triton that a trace could leave changed."""
    owners = (tl, tl.core, tl.math, tl.tensor, tl.constexpr, libdevice, JITFunction, Autotuner, InterpretedFunction)
    return [dict(vars(owner)) for owner in owners]


def test_triton_is_restored():
    before = state()
    with trace():
        run_double()
        assert state() != before
    assert state() == before


def test_triton_is_restored_when_a_kernel_raises():
    before = state()
    with pytest.raises(KernelError), trace():
        fails[(1,)](torch.zeros(4))
    assert state() == before
    x, o = torch.randn(64), torch.empty(64)
    assert compile_for(double, x, o, 64).accepted
    with trace():
        run_double()


def test_trace_compile_trace():
    x, o = torch.randn(64), torch.empty(64)
    with trace() as first:
        run_double()
    compiled = compile_for(double, x, o, 64)
    assert compiled.accepted, compiled.complaint
    with trace() as second:
        run_double()
    assert compile_for(double, x, o, 64) == compiled
    assert first.bytes == second.bytes


@triton.jit
def of_all_kinds(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.max_contiguous(tl.arange(0, BLOCK), BLOCK)
    x = load(x_ptr + offs, mask=offs < min(n, BLOCK), other=0.0)
    for i in tl.static_range(2):
        x = libdevice.tanh(x) + SCALE * i
    for _ in range(n):
        x += tl.cumsum(x, 0) / tl.max(x, 0)
    tl.store(o_ptr + offs, x.to(tl.bfloat16), mask=offs < n)


def test_trace_compile_trace_with_all_that_is_replaced():
    x, o = torch.rand(16), torch.empty(16, dtype=torch.bfloat16)
    before = compile_for(of_all_kinds, x, o, 3, BLOCK=16)
    results = []
    for _ in range(2):
        with trace():
            of_all_kinds[(1,)](x, o, 3, BLOCK=16)
        results.append(o.clone())
        assert compile_for(of_all_kinds, x, o, 3, BLOCK=16) == before
    assert before.accepted, before.complaint
    assert torch.equal(results[0][:3], results[1][:3])


def test_no_name_is_added_to_the_kernels_module():
    before = set(globals())
    with trace():
        run_double()
    assert set(globals()) == before


def test_one_trace_at_a_time():
    with trace():
        with refusing("asked.trace.open", RuntimeError), trace():
            pass
        run_double()


def test_nothing_is_traced_outside():
    with trace() as t:
        pass
    with pytest.raises(Exception):  # noqa: B017, PT011  no GPU, or tensors that are not on it
        double[(1,)](torch.zeros(64), torch.zeros(64), 64)
    assert t.launches == []


# ------------------------------------------------------------------------------------------------ ways to write kernels


class Notebook:
    """Cells run one by one in one namespace, as in a notebook: their source is known, their file does not exist."""

    def __init__(self):
        self.names = {"__name__": "__main__"}
        self.cells = 0

    def run(self, text):
        self.cells += 1
        name = f"<cell {self.cells}>"
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        exec(compile(text, name, "exec"), self.names)
        return self.names


CELL = """
import torch, triton
import triton.language as tl

@triton.jit
def fill(o_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    value = FILL
    tl.store(o_ptr + offs, value)

def run():
    o = torch.zeros(16)
    with trace() as t:
        fill[(1,)](o, BLOCK=16)
    return o[0].item(), t
"""


def test_a_kernel_defined_again_in_a_notebook():
    notebook = Notebook()
    notebook.names["trace"] = trace
    names = notebook.run(CELL.replace("FILL", "1.0"))
    before = set(names)
    assert names["run"]()[0] == 1.0
    assert set(names) == before
    names = notebook.run(CELL.replace("FILL", "tl.sum(tl.full((4,), 1.0, tl.float32))").replace("offs", "lanes"))
    value, t = names["run"]()
    assert value == 4.0
    assert "lanes" in t.source()
    assert t.launches[0].accesses[0].line == 9  # as JupyterLab numbers it
    names["fill"] = None
    assert t.sources["fill"].lines[0].startswith("def fill")


def test_a_helper_defined_again_is_seen():
    notebook = Notebook()
    notebook.names["trace"] = trace
    helper = "import triton\n@triton.jit\ndef helper():\n    return VALUE\n"
    notebook.run(CELL.replace("FILL", "helper()"))
    for value in (3.0, 5.0):
        names = notebook.run(helper.replace("VALUE", str(value)))
        assert names["run"]()[0] == value


def make_kernel(number):
    import triton.language as language

    factor = language.constexpr(number)

    @triton.jit
    def helper(x):
        return x * factor

    @triton.jit
    def scaled(x_ptr, o_ptr, BLOCK: language.constexpr = 16):
        offs = language.arange(0, BLOCK)
        y = helper(language.load(x_ptr + offs))
        language.store(o_ptr + offs, y)

    return scaled


def test_closures():
    x, o = torch.randn(16), torch.empty(16)
    kernels = [make_kernel(factor) for factor in (2, 3)]
    with trace():
        for kernel, factor in zip(kernels, (2, 3), strict=True):
            kernel[(1,)](x, o)
            torch.testing.assert_close(o, x * factor)


@triton.autotune([triton.Config({"BLOCK": 32}, num_warps=2), triton.Config({"BLOCK": 64})], key=["n"])
@triton.jit
def tuned(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(o_ptr + offs, tl.load(x_ptr + offs, mask=mask), mask=mask)


@triton.heuristics({"BLOCK": lambda arguments: triton.next_power_of_2(arguments["n"])})
@triton.jit
def guessed(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(o_ptr + offs, tl.load(x_ptr + offs, mask=mask), mask=mask)


def test_autotuned_kernels_run_their_first_configuration():
    x, o = torch.randn(100), torch.empty(100)
    with trace() as t:
        tuned[lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)](x, o, 100)
    assert torch.equal(o, x)
    assert t.launches[0].grid == (4, 1, 1)
    assert tuned.cache == {}  # nothing was measured: a GPU should choose for itself


@triton.autotune([triton.Config({}), triton.Config({}, num_warps=2)], key=[], reset_to_zero=["o_ptr"])
@triton.jit
def tuned_sum(x_ptr, o_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.atomic_add(o_ptr + offs, tl.load(x_ptr + offs))


def test_a_tensor_with_a_gradient_may_be_reset():
    x, o = torch.randn(16), torch.zeros(16, requires_grad=True)
    with trace() as t:
        tuned_sum[(1,)](x, o, BLOCK=16)
    assert torch.equal(o, x) and t.faults == []


def test_heuristics():
    x, o = torch.randn(100), torch.empty(100)
    with trace() as t:
        guessed[(1,)](x, o, 100)
    assert torch.equal(o, x) and t.loads.masked == 28


@triton.jit
def last_of(a, b):
    return b


@triton.jit
def reductions(x_ptr, o_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    total, largest = x.sum(), tl.max(x)
    custom = tl.reduce(x, 0, last_of)
    tl.store(o_ptr, total)
    tl.store(o_ptr + 1, largest)
    tl.store(o_ptr + 2, custom)
    tl.store(o_ptr + 3 + tl.arange(0, BLOCK), tl.cumsum(x, 0))


def test_reductions_scans_and_methods():
    x, o = torch.tensor([1.0, 5.0, 2.0, 3.0]), torch.empty(7)
    with trace():
        reductions[(1,)](x, o, BLOCK=4)
    assert o.tolist() == [11.0, 5.0, 3.0, 1.0, 6.0, 8.0, 11.0]


def test_a_recorder_of_torch_operations_does_not_see_the_tracer():
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(function._schema.name)
            return function(*args, **(kwargs or {}))

    x, o = torch.randn(64), torch.empty(64)
    with Recorder(), trace() as t, Recorder():
        double[(1,)](x, o, 64)
    assert seen == [] and t.loads.bytes == 256


def test_with_triton_interpret_set():
    script = """
import torch, triton, triton.language as tl
from tritontrace.tracing import trace, KernelFault
@triton.jit
def helper(x):
    y = x + 1
    return y
@triton.jit
def k(x_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, helper(tl.load(x_ptr + offs)) + tl.sum(tl.zeros((4,), tl.float32)))
x = torch.zeros(32)
with trace() as t:
    k[(1,)](x, BLOCK=32)
assert x.sum() == 32 and t.bytes == 256, t.table()
"""
    path = os.path.join(os.path.dirname(__file__), "..", "..")
    import tempfile

    with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as file:
        file.write(script)
    environment = {
        **os.environ,
        "TRITON_INTERPRET": "1",
        "PYTHONPATH": path + os.pathsep + os.environ.get("PYTHONPATH", ""),
    }
    done = subprocess.run([sys.executable, file.name], env=environment, capture_output=True, text=True)
    os.unlink(file.name)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("block, programs", [(1024, 5000), (1 << 17, 3), (16, 20_000)])
def test_programs_run_together_as_many_as_batches_hold(block, programs):
    """The memory that a launch takes besides its tensors does not grow with its grid."""

    @triton.jit
    def adds_one(x_ptr, BLOCK: tl.constexpr):
        offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x_ptr + offs % 4096, 1.0)

    with trace() as t:
        adds_one[(programs,)](torch.zeros(4096), BLOCK=block)
    batches = t.steps[0].batches
    assert sum(len(batch.programs) for batch in batches) == programs
    assert max(len(batch.programs) for batch in batches) == max(1, min(programs, BATCH // block))


@triton.jit
def grün(x_ptr):
    tl.store(x_ptr, 1.0)


def test_a_name_that_no_compiler_takes_is_told():
    with pytest.raises(KernelError) as refused, trace():
        grün[(1,)](torch.zeros(1))
    assert says(refused.value, "compiler.refusal.anywhere", kernel="grün")
    assert mentions(refused.value, "compiler.problem.name", name="grün")


@pytest.mark.skipif(torch.cuda.is_available(), reason="Triton finds a GPU")
def test_a_launch_outside_of_a_trace_says_in_a_sentence_that_there_is_no_gpu():
    x = torch.ones(64)
    for launch in (double[(1,)], triton.autotune([triton.Config({})], key=[])(double)[(1,)]):
        with pytest.raises(RuntimeError) as raised:
            launch(x, x, 64)
        assert says(raised.value, "launch.run.no_gpu") and raised.value.__context__ is None
    with trace() as t:
        double[(1,)](x, x, 64)
    assert t.bytes == 512


@pytest.mark.parametrize("words", ["2 active drivers ([...]). There should only be one.", "a driver too old"])
def test_what_triton_finds_or_says_otherwise_is_its_own(monkeypatch, words):
    def refuses():
        raise RuntimeError(words)

    found = object()
    for create, wanted in ((lambda: found, found), (refuses, words)):
        monkeypatch.setattr(no_gpu.drivers, "_create_driver", create)
        monkeypatch.setitem(vars(no_gpu.drivers), "driver", type(no_gpu.drivers.driver)())
        no_gpu.say_so()
        if create is refuses:
            with pytest.raises(RuntimeError) as raised:
                no_gpu.drivers.driver.active.get_current_device()
            assert str(raised.value) == wanted
        else:
            assert no_gpu.drivers._create_driver() is found
